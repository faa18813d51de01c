//! A real Redis server of a test's own.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A `redis-server` on a free port and a socket, stopped when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Option<Child>,
    port: u16,
    folder: TempDir,
    options: Vec<String>,
}

impl RedisServer {
    /// A server with no options of its own.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server with further options, as on its command line: `["--requirepass", "secret"]`.
    ///
    /// # Panics
    ///
    /// When no server comes up, with what it printed.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_on(free_port(), options)
    }

    /// A server on a port of the caller's choice.
    ///
    /// # Panics
    ///
    /// When no server comes up, with what it printed.
    pub fn start_on(port: u16, options: &[&str]) -> Self {
        let mut server = Self {
            process: None,
            port,
            folder: tempfile::tempdir().expect("a temporary folder"),
            options: options.iter().map(ToString::to_string).collect(),
        };
        server.launch();
        server
    }

    fn launch(&mut self) {
        let log = self.folder.path().join("log");
        let output = File::create(&log).expect("a log");
        let mut process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(self.socket())
            .arg("--dir")
            .arg(self.folder.path())
            .args(&self.options)
            .stdout(output)
            .spawn()
            .expect("redis-server is installed");
        let started = Instant::now();
        while !self.answers() {
            if process.try_wait().is_ok_and(|status| status.is_some()) || started.elapsed() > Duration::from_secs(20) {
                let _ = process.kill();
                let _ = process.wait();
                panic!("redis-server did not start:\n{}", fs::read_to_string(log).unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(2));
        }
        self.process = Some(process);
    }

    /// Whether it answers on its port and on its socket, be it with a refusal.
    fn answers(&self) -> bool {
        fn says_something(mut stream: impl Read + Write) -> bool {
            stream.write_all(b"PING\r\n").is_ok() && stream.read(&mut [0; 64]).is_ok_and(|length| length > 0)
        }
        TcpStream::connect(("127.0.0.1", self.port)).is_ok_and(says_something)
            && UnixStream::connect(self.socket()).is_ok_and(says_something)
    }

    /// The port it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The socket it listens on.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Its DSN over TCP.
    pub fn dsn(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Stops it at once and waits until it is gone; the port stays reserved for it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops it, and starts it again on the same port with nothing in it.
    pub fn restart(&mut self) {
        self.stop();
        self.launch();
    }

    /// Sends it a signal, such as `STOP` or `CONT`.
    ///
    /// # Panics
    ///
    /// When it is not running.
    pub fn signal(&self, name: &str) {
        let id = self.process.as_ref().expect("a running server").id();
        let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {id}");
    }

    /// A connection for the test itself, to look behind the library's back.
    ///
    /// # Panics
    ///
    /// When it cannot be connected to.
    pub fn connection(&self) -> redis::Connection {
        let url = match self.options.iter().position(|option| option == "--requirepass") {
            Some(at) => format!("redis://:{}@127.0.0.1:{}", self.options[at + 1], self.port),
            None => self.dsn(),
        };
        let client = redis::Client::open(url).expect("a valid address");
        client.get_connection().expect("the server is up")
    }

    /// Whether it is a primary; not while it closes the connection that asks, as it does when its role changes.
    pub fn is_primary(&self) -> bool {
        let client = redis::Client::open(self.dsn()).and_then(|client| client.get_connection());
        let role = client.and_then(|mut connection| redis::cmd("ROLE").query::<Vec<redis::Value>>(&mut connection));
        role.is_ok_and(|role| role[0] == redis::Value::BulkString(b"master".to_vec()))
    }

    /// How often a command has been carried out, as the server counts.
    ///
    /// # Panics
    ///
    /// When the server does not say.
    pub fn calls(&self, command: &str) -> u64 {
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query(&mut self.connection()).expect("INFO commandstats");
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number of calls"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port that nobody listens on.
///
/// # Panics
///
/// When the machine has none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits until `done` says so, looking often; for what a real server does on its own and announces nowhere.
///
/// # Panics
///
/// When it has not come true within 30 seconds.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what} did not happen within 30 s");
        thread::sleep(Duration::from_millis(2));
    }
}
