//! Bytes to and from a server, without blocking.

use std::io::{self, ErrorKind as Io};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::store::dsn::Address;
use crate::store::redis::tls::Tls;

/// A connection, however it travels.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, and agrees on encryption if there is to be any. The caller sets the limit.
pub(super) async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let (host, port) = match address {
        Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp(host, port) => (host.as_str(), *port),
    };
    let stream = connect_tcp(host, port).await?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let secured = TlsConnector::from(tls.config()).connect(tls.name_of(address)?, stream).await?;
    Ok(Box::new(secured))
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(Io::NotFound, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        match TcpStream::connect(address).await.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
