//! Whose address a request comes from.

use std::ffi::c_char;

use ratelimit_core::Result;
use ratelimit_core::http::ClientIp as Core;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;
use crate::text;

/// Finds the address of the caller behind proxies that are trusted. May be used from any thread at the same time.
#[derive(Debug)]
pub struct ClientIp(Core);

impl Handle for ClientIp {}

/// Says which proxies are trusted, and how.
///
/// A header is read only when the peer is trusted, and from the right, where the nearest proxy has written: the first
/// address that is no trusted proxy's is the caller's. What cannot be read ends the walk at the last proxy known.
///
/// @param trusted      Texts: addresses, networks such as `10.0.0.0/8`, and `unix` for peers without an address, which
///                     come through a Unix socket.
/// @param n            Elements at `trusted`; with 0 no header is read.
/// @param header       The header that the proxies write: `forwarded` or `x-forwarded-for`; no other is looked at then.
///                     `NULL` or `auto`: the one that is there; where both are and do not agree, neither is believed.
/// @param ipv6_prefix  How many leading bits of an IPv6 address make one caller, 1 to 128. 0: 64.
/// @param out          To be freed with `rl_client_ip_free`.
/// @return `RL_ERR_INVALID_ARGUMENT` for anything else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_client_ip_new(
    trusted: *const *const c_char,
    n: usize,
    header: *const c_char,
    ipv6_prefix: u32,
    out: *mut *mut ClientIp,
) -> Status {
    boundary(|| {
        let out = output!(out)?;
        let texts: Vec<&str> = slice!(trusted, n)?.iter().map(|&trusted| text!(trusted)).collect::<Result<_>>()?;
        let mut client_ip = Core::new(texts)?;
        if !header.is_null() {
            client_ip = client_ip.header(text!(header)?.parse()?);
        }
        if ipv6_prefix != 0 {
            client_ip = client_ip.ipv6_prefix(ipv6_prefix.into())?;
        }
        out.give(ClientIp(client_ip));
        Ok(())
    })
}

/// Frees it. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_client_ip_free(client_ip: *mut ClientIp) {
    boundary(|| {
        release!(client_ip);
        Ok(())
    });
}

/// Writes who a request comes from, as a key to charge: an IPv4 address, or the network of an IPv6 address such as
/// `2001:db8:0:1::/64`; with a zero byte at the end. An empty text where nobody can tell: the peer has no address, and is
/// not trusted or says nothing.
///
/// @param client_ip        Which proxies are trusted.
/// @param peer             The other end of the connection, with or without a port; `NULL`: it has no address.
/// @param forwarded        The lines of `Forwarded`, in the order received.
/// @param forwarded_n      Elements at `forwarded`.
/// @param x_forwarded_for  The lines of `X-Forwarded-For`, in the order received.
/// @param x_forwarded_for_n Elements at `x_forwarded_for`.
/// @param buf              Where to write; `NULL` to write nothing.
/// @param len              Bytes at `buf`; 64 are always enough.
/// @param needed           The bytes that the text takes, its zero byte included: 1 where nobody can tell.
/// @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_client_ip_resolve(
    client_ip: *const ClientIp,
    peer: *const c_char,
    forwarded: *const *const c_char,
    forwarded_n: usize,
    x_forwarded_for: *const *const c_char,
    x_forwarded_for_n: usize,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Status {
    boundary(|| {
        let (client_ip, needed) = (shared!(client_ip)?, output!(needed)?);
        let peer = optional_bytes!(peer).unwrap_or_default();
        let line = |&line: &*const c_char| optional_bytes!(line).unwrap_or_default();
        let forwarded: Vec<&[u8]> = slice!(forwarded, forwarded_n)?.iter().map(line).collect();
        let x_forwarded_for: Vec<&[u8]> = slice!(x_forwarded_for, x_forwarded_for_n)?.iter().map(line).collect();
        let client = client_ip.0.resolve(peer, &forwarded, &x_forwarded_for);
        let key = client.map(|client| client.key()).unwrap_or_default();
        text::write(&key, buffer!(buf, len), needed)
    })
}
