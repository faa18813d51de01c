//! Reads `Forwarded` (RFC 7239) and `X-Forwarded-For` from the right, which is the end that our own proxies write.
//!
//! Nothing is read before it is needed: what a caller put on the left, such as a quote that is never closed, cannot change
//! how the right is read.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of `X-Forwarded-For`, the nearest hop first; `None` for what is no address.
pub(super) fn x_forwarded_for<L: AsRef<[u8]>>(lines: &[L]) -> impl Iterator<Item = Option<IpAddr>> {
    elements(lines).map(|element| address(&unquoted(element)?))
}

/// The addresses of `Forwarded`, the nearest hop first; `None` for a hop that does not say one.
pub(super) fn forwarded<L: AsRef<[u8]>>(lines: &[L]) -> impl Iterator<Item = Option<IpAddr>> {
    elements(lines).map(|element| address(&node(element)?))
}

/// An address as peers and headers write it: IPv4 with or without a port, IPv6 with or without brackets, a port and a
/// zone. IPv4 in the clothes of IPv6 is IPv4. `None` for everything else, such as `unknown`.
pub fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']);
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        let alone = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return if alone { ipv6(address) } else { None };
    }
    match text.split_once(':') {
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some((host, port)) if !port.contains(':') => {
            if is_port(port) {
                host.parse::<Ipv4Addr>().ok().map(IpAddr::V4)
            } else {
                None
            }
        }
        Some(_) => ipv6(text),
    }
}

fn ipv6(text: &str) -> Option<IpAddr> {
    let address = match text.split_once('%') {
        Some((_, zone)) if zone.is_empty() || !zone.bytes().all(|byte| byte.is_ascii_graphic()) => return None,
        Some((address, _)) => address,
        None => text,
    };
    address.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical())
}

/// A port, or the name that RFC 7239 allows in place of one.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)),
        None => text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

/// The value of `for` in one element of `Forwarded`; none where it is missing, there twice, or the element is no list of
/// pairs.
fn node(element: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut found = None;
    for pair in pieces(element, b';').filter(|pair| !pair.is_empty()) {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let (name, value) = (&pair[..equals], unquoted(&pair[equals + 1..])?);
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// The text in a quoted string; a text without quotes as it is; none for a quote out of place.
fn unquoted(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        return (!text.contains(&b'"')).then_some(Cow::Borrowed(text));
    };
    let (mut plain, mut bytes) = (Vec::with_capacity(quoted.len()), quoted.iter());
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return bytes.as_slice().is_empty().then_some(Cow::Owned(plain)),
            b'\\' => plain.push(*bytes.next()?),
            _ => plain.push(byte),
        }
    }
    None
}

/// The elements of a list that may stand on several lines, from the last to the first. An empty element is one: the hop
/// that wrote it did not say whom it had before it.
fn elements<L: AsRef<[u8]>>(lines: &[L]) -> impl Iterator<Item = &[u8]> {
    lines.iter().rev().flat_map(|line| pieces(line.as_ref(), b','))
}

/// The pieces between separators that stand outside quotes, from the last to the first, without blanks around them.
fn pieces(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let at = last_outside_quotes(text, separator);
        rest = at.map(|at| &text[..at]);
        Some(text[at.map_or(0, |at| at + 1)..].trim_ascii())
    })
}

fn last_outside_quotes(text: &[u8], separator: u8) -> Option<usize> {
    let mut quoted = false;
    for (at, &byte) in text.iter().enumerate().rev() {
        match byte {
            b'"' if !escaped(text, at) => quoted = !quoted,
            _ if byte == separator && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether an odd number of backslashes stands before it.
fn escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}
