//! Whose address a request comes from, where proxies stand in between.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use super::{forwarded, named};
use crate::error::{Error, ErrorKind, Result};

/// Finds the address of the caller behind proxies that are trusted.
///
/// A header is read only when the peer is trusted, and from the right: the nearest proxy wrote the last element, and
/// each element is as trustworthy as the proxy that wrote it. The first address that is no trusted proxy's is the
/// caller's. What cannot be read ends the walk at the last proxy known, so a caller can never say who he is.
///
/// ```
/// use ratelimit_core::http::ClientIp;
///
/// let client_ip = ClientIp::new(["10.0.0.0/8"])?;
/// let headers = ["6.6.6.6, 203.0.113.9, 10.0.0.2"];
/// let client = client_ip.resolve("10.0.0.1", &[], &headers).expect("an address");
/// assert_eq!(client.key(), "203.0.113.9");
///
/// let stranger = client_ip.resolve("198.51.100.7", &[], &headers).expect("an address");
/// assert_eq!(stranger.key(), "198.51.100.7");
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClientIp {
    trusted: Vec<IpNet>,
    /// Whether a peer without an address is trusted.
    trusts_sockets: bool,
    ipv6_prefix: u8,
    header: ForwardedHeader,
}

/// The header in which the trusted proxies write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// The one that is there. Where both are and do not agree, the caller has written one of them, and neither is
    /// believed.
    #[default]
    Auto,
    /// `Forwarded`, of RFC 7239.
    Forwarded,
    /// `X-Forwarded-For`.
    XForwardedFor,
}

impl ForwardedHeader {
    /// Every choice by the name it has in every language.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("forwarded", Self::Forwarded), ("x-forwarded-for", Self::XForwardedFor)];
}

impl FromStr for ForwardedHeader {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, "header", text)
    }
}

impl ClientIp {
    /// Trusts the proxies of these addresses and networks, such as `10.0.0.0/8` and `2001:db8::1`; the word `unix` is
    /// for peers without an address, which come through a Unix socket. None at all: the peer is the caller.
    ///
    /// Fails with [`InvalidArgument`](ErrorKind::InvalidArgument) for anything else.
    pub fn new<T: AsRef<str>>(trusted: impl IntoIterator<Item = T>) -> Result<Self> {
        let mut this =
            Self { trusted: Vec::new(), trusts_sockets: false, ipv6_prefix: 64, header: ForwardedHeader::Auto };
        for text in trusted {
            match text.as_ref() {
                "unix" => this.trusts_sockets = true,
                text => this.trusted.push(network(text)?),
            }
        }
        Ok(this)
    }

    /// How many leading bits of an IPv6 address make one caller, 1 to 128; 64 where nothing is said, since that is what
    /// one household or one machine is given at least.
    pub fn ipv6_prefix(self, bits: i64) -> Result<Self> {
        match u8::try_from(bits) {
            Ok(ipv6_prefix @ 1..=128) => Ok(Self { ipv6_prefix, ..self }),
            _ => Err(invalid("ipv6_prefix", format!("must be between 1 and 128, got {bits}"))),
        }
    }

    /// The header that the proxies write; say it where it is known, and no other is looked at.
    #[must_use]
    pub fn header(self, header: ForwardedHeader) -> Self {
        Self { header, ..self }
    }

    /// Who a request comes from. `peer` is the other end of the connection, the headers are the lines of `Forwarded` and
    /// of `X-Forwarded-For` in the order received. `None` where nobody can tell: the peer has no address, and is not
    /// trusted or says nothing.
    pub fn resolve<L: AsRef<[u8]>>(
        &self,
        peer: impl AsRef<[u8]>,
        forwarded: &[L],
        x_forwarded_for: &[L],
    ) -> Option<Client> {
        let peer = forwarded::address(peer.as_ref());
        let trusted = peer.map_or(self.trusts_sockets, |peer| self.trusts(peer));
        let address = if trusted { self.walk(peer, forwarded, x_forwarded_for) } else { peer }?;
        Some(Client { address, prefix: if address.is_ipv4() { 32 } else { self.ipv6_prefix } })
    }

    fn walk<L: AsRef<[u8]>>(&self, peer: Option<IpAddr>, forwarded: &[L], x_forwarded_for: &[L]) -> Option<IpAddr> {
        let by_forwarded = || self.follow(peer, forwarded::forwarded(forwarded));
        let by_x_forwarded_for = || self.follow(peer, forwarded::x_forwarded_for(x_forwarded_for));
        match self.header {
            ForwardedHeader::Forwarded => by_forwarded(),
            ForwardedHeader::XForwardedFor => by_x_forwarded_for(),
            ForwardedHeader::Auto if forwarded.is_empty() => by_x_forwarded_for(),
            ForwardedHeader::Auto if x_forwarded_for.is_empty() => by_forwarded(),
            ForwardedHeader::Auto => {
                let address = by_forwarded();
                if address == by_x_forwarded_for() { address } else { peer }
            }
        }
    }

    /// From the trusted peer over trusted hops to the first address that is none, or as far as it can be read.
    fn follow(&self, peer: Option<IpAddr>, hops: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        let mut last = peer;
        for hop in hops {
            let Some(address) = hop else { break };
            last = Some(address);
            if !self.trusts(address) {
                break;
            }
        }
        last
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// A caller's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    address: IpAddr,
    prefix: u8,
}

impl Client {
    /// The whole address. IPv4 in the clothes of IPv6 is IPv4.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The key to charge: the address itself, or the network of an IPv6 address, such as `2001:db8:0:1::/64`.
    pub fn key(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match IpNet::new(self.address, self.prefix) {
            Ok(network) if network.prefix_len() < network.max_prefix_len() => write!(f, "{}", network.trunc()),
            _ => write!(f, "{}", self.address),
        }
    }
}

/// A network, or an address as the network of it alone.
fn network(text: &str) -> Result<IpNet> {
    let network = text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address)));
    match network {
        // Addresses are compared as IPv4 where they are that.
        Ok(IpNet::V6(network)) => Ok(match network.addr().to_ipv4_mapped() {
            Some(address) if network.prefix_len() >= 96 => {
                Ipv4Net::new(address, network.prefix_len() - 96).map_or(IpNet::V6(network), IpNet::V4)
            }
            _ => IpNet::V6(network),
        }),
        Ok(network) => Ok(network),
        Err(_) => {
            let detail = format!("must be addresses, networks such as 10.0.0.0/8, or unix, got {text:?}");
            Err(invalid("trusted_proxies", detail))
        }
    }
}

fn invalid(argument: &'static str, detail: String) -> Error {
    Error::argument_error(ErrorKind::InvalidArgument, argument, detail)
}
