//! The grammar that all DSNs share: `scheme:[//[user[:password]@]host[:port],…][/path][?name=value&…]`.

use percent_encoding::percent_decode_str;

use super::{Address, Secret, invalid};
use crate::error::{Error, Result};

const ENCODE: &str = "a password with / ? # or @ in it has to be percent-encoded";

/// A DSN in its parts, each decoded.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) scheme: String,
    /// What stands between `//` and the next slash; none without `//`.
    authority: Option<&'a str>,
    /// With its leading slash, where it has one; still encoded.
    path: &'a str,
    query: &'a str,
    /// The offending value may be the rest of a password that was not encoded.
    hides_values: bool,
}

/// Who asks, as the authority says.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    pub(super) username: Option<String>,
    pub(super) password: Option<Secret>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(text: &'a str) -> Result<Self> {
        // The text may hold a password, so no error repeats all of it.
        let no_dsn =
            "the store must be named by a DSN such as memory: or redis://127.0.0.1:6379/0; this one has no scheme";
        let (scheme, rest) = text.split_once(':').ok_or_else(|| Error::invalid_store(no_dsn))?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        if !is_scheme || text.starts_with("localhost:") {
            return Err(Error::invalid_store(no_dsn));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid_store("a DSN must be free of control characters"));
        }
        if rest.contains('#') {
            return Err(Error::invalid_store("a DSN has no part after a #; in a name or a password write %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(authority), path)
            }
            None => (None, rest),
        };
        let hides_values = path.contains('@') || query.contains('@');
        Ok(Self { scheme: scheme.to_ascii_lowercase(), authority, path, query, hides_values })
    }

    /// Whether it names anything besides its options.
    pub(super) fn names_a_place(&self) -> bool {
        self.authority.is_some_and(|authority| !authority.is_empty()) || !self.path.trim_matches('/').is_empty()
    }

    pub(super) fn has_host(&self) -> bool {
        self.authority.is_some_and(|authority| !authority.is_empty())
    }

    /// The path, decoded.
    pub(super) fn path(&self) -> Result<String> {
        decoded("path", self.path)
    }

    /// Refuses a path that is more likely the rest of a password.
    pub(super) fn check_path(&self) -> Result<()> {
        if self.path.contains('@') {
            return Err(invalid("path", "must not have an @ in it"));
        }
        Ok(())
    }

    /// The path's elements, decoded.
    pub(super) fn path_elements(&self) -> Result<Vec<String>> {
        let elements = self.path.split('/').filter(|element| !element.is_empty());
        elements.map(|element| decoded("path", element)).collect()
    }

    /// Name and value of each option. An option given twice is a fault, since one of the two would be lost.
    pub(super) fn options(&self) -> Result<Vec<(String, String)>> {
        let mut options: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()) {
            if options.iter().any(|(given, _)| *given == name) {
                return Err(Error::invalid_store(format!("the DSN has the option {name:?} twice")));
            }
            options.push((name.into_owned(), value.into_owned()));
        }
        Ok(options)
    }

    pub(super) fn credentials(&self) -> Result<Credentials> {
        let Some((credentials, _)) = self.authority.and_then(|authority| authority.rsplit_once('@')) else {
            return Ok(Credentials::default());
        };
        let (username, password) = match credentials.split_once(':') {
            Some((username, password)) => (username, Some(Secret::new(decoded("password", password)?))),
            None => (credentials, None),
        };
        Ok(Credentials { username: Some(decoded("username", username)?).filter(|name| !name.is_empty()), password })
    }

    /// The servers of the authority, in order.
    pub(super) fn hosts(&self, default_port: u16) -> Result<Vec<Address>> {
        let authority = self.authority.unwrap_or("");
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        hosts.split(',').map(|host| Self::host(host, default_port)).collect()
    }

    /// The one server of the authority.
    pub(super) fn host_alone(&self, default_port: u16) -> Result<Address> {
        let mut hosts = self.hosts(default_port)?;
        match hosts.pop() {
            Some(host) if hosts.is_empty() => Ok(host),
            _ => Err(invalid("host", "must be one: several servers are a redis+sentinel:// or a redis+cluster://")),
        }
    }

    fn host(text: &str, default_port: u16) -> Result<Address> {
        let (host, port) = match text.strip_prefix('[') {
            // An IPv6 address has colons of its own.
            Some(rest) => {
                let bracket = || wrong("host", "must end its IPv6 address with a bracket", text);
                let (host, port) = rest.split_once(']').ok_or_else(bracket)?;
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(wrong("host", "must have an IPv6 address between its brackets", host));
                }
                match port.strip_prefix(':') {
                    _ if port.is_empty() => (host.to_owned(), None),
                    Some(port) => (host.to_owned(), Some(port)),
                    None => return Err(wrong("host", "must have nothing but a port after its bracket", port)),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (decoded("host", host)?, Some(port)),
                None => (decoded("host", text)?, None),
            },
        };
        if host.is_empty() {
            return Err(invalid("host", "is missing from the DSN"));
        }
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !host.bytes().all(is_host) && host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(wrong("host", "must be a name, or an address (IPv6 in brackets)", &host));
        }
        // The standard library takes a sign for a part of a number.
        let is_plain = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        match port {
            None | Some("") => Ok(Address::Tcp(host, default_port)),
            Some(port) => match port.parse::<u16>() {
                Ok(port @ 1..) if is_plain => Ok(Address::Tcp(host, port)),
                _ => Err(wrong("port", "must be a number from 1 to 65535", port)),
            },
        }
    }

    /// The error, or one without any value where a value may be a piece of a password.
    pub(super) fn without_passwords(&self, error: Error) -> Error {
        if !self.hides_values {
            return error;
        }
        match error.argument() {
            Some(argument) => invalid(argument, format!("is wrong in the DSN; {ENCODE}")),
            None => Error::invalid_store(format!("the DSN cannot be read; {ENCODE}")),
        }
    }
}

fn wrong(argument: &'static str, must: &str, value: &str) -> Error {
    invalid(argument, format!("{must}, got {value:?}"))
}

fn decoded(argument: &'static str, text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(String::from).map_err(|_| invalid(argument, "must be UTF-8 once percent-decoded"))
}
