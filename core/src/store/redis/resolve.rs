//! The addresses behind a host's name, within a deadline.

use std::io::{self, ErrorKind as Io};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The addresses of `host`. The system's resolver knows no deadline, so it is asked in a thread of its own, which is left
/// behind when it takes longer than `limit`; an address needs no resolver and no thread.
pub(super) fn resolve(host: &str, port: u16, limit: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (answer, answered) = mpsc::sync_channel(1);
    let name = host.to_owned();
    let ask = move || {
        // Nobody listens any more where the deadline has passed.
        let _ = answer.send((name.as_str(), port).to_socket_addrs().map(Vec::from_iter));
    };
    thread::Builder::new().name("ratelimit-resolve".to_owned()).spawn(ask)?;
    let addresses = answered.recv_timeout(limit).map_err(|_| io::Error::from(Io::TimedOut))??;
    if addresses.is_empty() {
        return Err(io::Error::new(Io::NotFound, "the name has no address"));
    }
    Ok(addresses)
}
