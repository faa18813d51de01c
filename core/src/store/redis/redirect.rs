//! What a server's refusal says about where a command belongs.

use super::resp::Reply;
use crate::store::dsn::Address;

/// Refusals after which a command may be sent again: the server has not run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// It does not know the script: it has to be told the text.
    Text,
    /// Another node has the slot, now and later.
    Moved { slot: u16, address: Address },
    /// Another node has the key already, for this once.
    Ask { address: Address },
    /// Of the command's keys some have moved and some have not; soon all have.
    Later,
}

impl Redirect {
    /// The refusal in a reply, if it is one. `asked` is who sent it: an address without a host is on the same host.
    pub(super) fn of(reply: &Reply, asked: &Address) -> Option<Self> {
        let Reply::Error(line) = reply else { return None };
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.split(' ');
        match words.next()? {
            "NOSCRIPT" => Some(Self::Text),
            "TRYAGAIN" => Some(Self::Later),
            kind @ ("MOVED" | "ASK") => {
                let slot = words.next()?.parse().ok().filter(|slot| *slot < super::slot::SLOTS)?;
                let address = address(words.next()?, asked)?;
                Some(if kind == "MOVED" { Self::Moved { slot, address } } else { Self::Ask { address } })
            }
            _ => None,
        }
    }
}

/// `host:port`, where the host may be an IPv6 address without brackets, or nothing.
fn address(text: &str, asked: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    of_host(host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?, asked)
}

/// A node as a server names it: without a host, or with one it does not know, it is on the host that was asked.
pub(super) fn of_host(host: &str, port: u16, asked: &Address) -> Option<Address> {
    if port == 0 {
        return None;
    }
    match (host, asked) {
        ("" | "?", Address::Tcp(host, _)) => Some(Address::Tcp(host.clone(), port)),
        ("" | "?", Address::Unix(_)) => None,
        (host, _) => Some(Address::Tcp(host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Redirect> {
        Redirect::of(&Reply::Error(line.as_bytes().to_vec()), &tcp("seed", 1))
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.to_owned(), port)
    }

    #[test]
    fn each_refusal_is_understood() {
        assert_eq!(of("NOSCRIPT No matching script. Please use EVAL."), Some(Redirect::Text));
        assert_eq!(of("TRYAGAIN Multiple keys request during rehashing of slot"), Some(Redirect::Later));
        assert_eq!(
            of("MOVED 3999 10.0.0.1:6381"),
            Some(Redirect::Moved { slot: 3999, address: tcp("10.0.0.1", 6381) })
        );
        assert_eq!(of("ASK 3999 ::1:6381"), Some(Redirect::Ask { address: tcp("::1", 6381) }));
        assert_eq!(of("MOVED 0 :6381"), Some(Redirect::Moved { slot: 0, address: tcp("seed", 6381) }));
    }

    #[test]
    fn a_refusal_without_sense_redirects_nothing() {
        for line in [
            "MOVED",
            "MOVED 1",
            "MOVED x h:1",
            "MOVED 16384 h:1",
            "ASK 1 h",
            "ASK 1 h:0",
            "ASK 1 h:99999",
            "ERR MOVED 1 h:1",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(Redirect::of(&Reply::Integer(1), &tcp("seed", 1)), None);
    }
}
