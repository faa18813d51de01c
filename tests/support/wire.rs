//! A relay between a client and a server that misbehaves as told, command by command.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What becomes of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It reaches the server, and the reply comes back.
    Pass,
    /// The reply is held back for so long.
    Late(Duration),
    /// The connection is closed before the server sees the command.
    DropBefore,
    /// The server carries the command out, and the connection is closed instead of a reply.
    DropAfter,
    /// As [`DropBefore`](Self::DropBefore), with a reset instead of an orderly end.
    ResetBefore,
    /// As [`DropAfter`](Self::DropAfter), with a reset instead of an orderly end.
    ResetAfter,
    /// The server carries it out, and the reply arrives with its first byte changed.
    Garble,
    /// The server carries it out, and only so many bytes of the reply arrive before the connection is closed.
    Truncate(usize),
    /// The server carries it out, and the reply arrives byte by byte with this pause between two.
    Drip(Duration),
    /// The server never sees it; these bytes are the reply.
    Answer(Vec<u8>),
    /// Nobody ever answers.
    Silence,
}

/// The relay. It stops taking connections when dropped.
#[derive(Debug)]
pub struct Wire {
    port: u16,
    commands: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl Wire {
    /// A relay to the server at `upstream`, if one is needed; `fate` is asked for each command, numbered from 0.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub fn start(upstream: Option<u16>, fate: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let wire = Self {
            port: listener.local_addr().expect("its address").port(),
            commands: Arc::default(),
            connections: Arc::default(),
        };
        let (commands, connections) = (wire.commands.clone(), wire.connections.clone());
        let fate = Arc::new(fate);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::SeqCst);
                let (fate, commands) = (fate.clone(), commands.clone());
                thread::spawn(move || serve(&client, upstream, &*fate, &commands));
            }
        });
        wire
    }

    /// The DSN of the relay, with options.
    pub fn dsn(&self, options: &str) -> String {
        format!("redis://127.0.0.1:{}{options}", self.port)
    }

    /// Commands seen so far.
    pub fn commands(&self) -> usize {
        self.commands.load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut client: &TcpStream, upstream: Option<u16>, fate: &dyn Fn(usize) -> Fate, commands: &AtomicUsize) {
    let mut server = upstream.map(|port| TcpStream::connect(("127.0.0.1", port)).expect("the server is up"));
    let mut pending = Vec::new();
    while let Some(command) = next_command(client, &mut pending) {
        let number = commands.fetch_add(1, Ordering::SeqCst);
        let fate = fate(number);
        let reply = match &fate {
            Fate::DropBefore => break,
            Fate::ResetBefore => return reset(client),
            Fate::Silence => continue,
            Fate::Answer(bytes) => bytes.clone(),
            _ => carried_out(server.as_mut().expect("a server to pass commands to"), &command),
        };
        let sent = match fate {
            Fate::DropAfter => break,
            Fate::ResetAfter => return reset(client),
            Fate::Garble => client.write_all(&[&[reply[0] ^ 1], &reply[1..]].concat()),
            Fate::Truncate(length) => {
                let _ = client.write_all(&reply[..length.min(reply.len())]);
                break;
            }
            Fate::Late(pause) => {
                thread::sleep(pause);
                client.write_all(&reply)
            }
            Fate::Drip(pause) => reply.chunks(1).try_for_each(|byte| {
                thread::sleep(pause);
                client.write_all(byte)
            }),
            _ => client.write_all(&reply),
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// Closes a connection so that the other side is told it was reset.
fn reset(client: &TcpStream) {
    // Without a moment to linger the kernel sends RST instead of FIN.
    rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO)).expect("a socket");
}

/// Sends a command to the real server and reads what it has to say: replies to ours fit in one segment.
fn carried_out(server: &mut TcpStream, command: &[u8]) -> Vec<u8> {
    server.write_all(command).expect("the server takes commands");
    let mut reply = vec![0; 4096];
    let length = server.read(&mut reply).expect("the server answers");
    reply.truncate(length);
    reply
}

/// The bytes of the next whole command; `None` when the client is gone.
fn next_command(mut client: &TcpStream, pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(length) = command_length(pending) {
            return Some(pending.drain(..length).collect());
        }
        let mut bytes = [0; 4096];
        match client.read(&mut bytes) {
            Ok(0) | Err(_) => return None,
            Ok(count) => pending.extend_from_slice(&bytes[..count]),
        }
    }
}

/// How many bytes the first command takes, once all of it is there.
fn command_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for _ in 0..header(bytes, &mut at)? {
        let length = header(bytes, &mut at)?;
        at += length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

fn header(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let line = bytes.get(*at..)?;
    let end = line.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    std::str::from_utf8(&line[1..end]).ok()?.parse().ok()
}
