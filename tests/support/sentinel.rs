//! A real primary with a replica, watched by real sentinels.

use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::server::{RedisServer, eventually, free_port};

/// What the sentinels call the primary.
pub const MASTER: &str = "mymaster";

/// A primary, a replica and three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<RedisServer>,
    processes: Vec<Child>,
    ports: Vec<u16>,
    password: Option<String>,
    _folder: TempDir,
}

impl Sentinels {
    /// Without passwords.
    pub fn start() -> Self {
        Self::start_with(None, None)
    }

    /// With a password on the data servers, and another one on the sentinels.
    ///
    /// # Panics
    ///
    /// When they do not find each other.
    pub fn start_with(password: Option<&str>, sentinel_password: Option<&str>) -> Self {
        let mut options = vec!["--repl-diskless-sync-delay", "0"];
        if let Some(password) = password {
            options.extend(["--requirepass", password, "--masterauth", password]);
        }
        let servers = vec![RedisServer::start_with(&options), RedisServer::start_with(&options)];
        let primary = servers[0].port();
        redis::cmd("REPLICAOF").arg("127.0.0.1").arg(primary).exec(&mut servers[1].connection()).expect("REPLICAOF");
        let in_step = || {
            let info: String = redis::cmd("INFO").arg("replication").query(&mut servers[1].connection()).expect("INFO");
            info.contains("master_link_status:up")
        };
        eventually("the replication", in_step);

        let folder = tempfile::tempdir().expect("a temporary folder");
        let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let processes = ports.iter().map(|port| {
            let file = folder.path().join(format!("{port}.conf"));
            let mut lines = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {MASTER} 127.0.0.1 {primary} 2\n\
                 sentinel down-after-milliseconds {MASTER} 500\nsentinel failover-timeout {MASTER} 3000\n",
                folder.path().display()
            );
            if let Some(password) = password {
                let _ = writeln!(lines, "sentinel auth-pass {MASTER} {password}");
            }
            if let Some(password) = sentinel_password {
                let _ = writeln!(lines, "requirepass {password}\nsentinel sentinel-pass {password}");
            }
            fs::write(&file, lines).expect("a configuration");
            let command = Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn();
            command.expect("redis-server is installed")
        });
        let processes = processes.collect();
        let sentinels =
            Self { servers, processes, ports, password: sentinel_password.map(str::to_owned), _folder: folder };
        eventually("the sentinels", || sentinels.ports.iter().all(|&port| sentinels.is_ready(port)));
        sentinels
    }

    /// Whether a sentinel knows the replica and both other sentinels.
    fn is_ready(&self, port: u16) -> bool {
        let user = self.password.as_ref().map_or_else(String::new, |password| format!(":{password}@"));
        let client = redis::Client::open(format!("redis://{user}127.0.0.1:{port}")).expect("a valid address");
        let Ok(mut connection) = client.get_connection() else { return false };
        let info: redis::RedisResult<String> = redis::cmd("INFO").arg("sentinel").query(&mut connection);
        info.is_ok_and(|info| info.contains("slaves=1,sentinels=3"))
    }

    /// The DSN by all sentinels, with options and perhaps `user:password@` of the data servers.
    pub fn dsn(&self, credentials: &str, options: &str) -> String {
        let hosts: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{credentials}{}/{MASTER}{options}", hosts.join(","))
    }

    /// The data servers: the primary of the beginning, and its replica.
    pub fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// The port of a sentinel.
    pub fn sentinel_port(&self, index: usize) -> u16 {
        self.ports[index]
    }

    /// Ends one sentinel.
    pub fn stop_sentinel(&mut self, index: usize) {
        let _ = self.processes[index].kill();
        let _ = self.processes[index].wait();
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        (0..self.processes.len()).for_each(|index| self.stop_sentinel(index));
    }
}
