//! The options of Redis stores, and the DSNs that name them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::parts::Parts;
use super::{DEFAULT_PREFIX, DEFAULT_TIMEOUT, invalid, unknown_option};
use crate::error::{Error, Result};

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;
const DEFAULT_POOL: usize = 64;
const DEFAULT_DENY_CACHE: usize = 10_000;
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

const OPTIONS: &str = "timeout, connect_timeout, prefix, pool, deny_cache, db, username, password, protocol, client_name, clock; \
                       sentinel_username and sentinel_password with redis+sentinel; ca, cert, key, server_name and \
                       insecure with rediss";

/// Where a Redis store's servers are and how to talk to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedisOptions {
    /// Where they listen, and how the right one is found.
    pub servers: Servers,
    /// The ACL user; the server's default user without it.
    pub username: Option<String>,
    /// The password, if the servers ask for one.
    pub password: Option<Secret>,
    /// The database to select.
    pub database: u32,
    /// How long one exchange may take, connecting aside.
    pub timeout: Duration,
    /// How long finding the server and connecting, with authentication, may take.
    pub connect_timeout: Duration,
    /// What every key starts with.
    pub prefix: String,
    /// Idle connections kept at most, per server.
    pub pool: usize,
    /// Encryption, if there is any.
    pub tls: Option<TlsOptions>,
    /// The version of the protocol that is spoken.
    pub protocol: Protocol,
    /// What the connections are called in the server's `CLIENT LIST`.
    pub client_name: Option<String>,
    /// Whose clock decides.
    pub clock: StoreClock,
    /// Keys with nothing left that are refused without asking, at most; 0 asks for all.
    pub deny_cache: usize,
}

/// Which servers there are, and how the right one for a key is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Servers {
    /// One server.
    One(Address),
    /// The primary that sentinels name, followed when it changes.
    Sentinel {
        /// The sentinels; the first that answers is believed.
        sentinels: Vec<Address>,
        /// What they call the primary.
        master: String,
        /// The ACL user on the sentinels.
        username: Option<String>,
        /// The password on the sentinels; data servers have their own.
        password: Option<Secret>,
    },
    /// A cluster: each key has its node.
    Cluster {
        /// Nodes to ask for the others.
        seeds: Vec<Address>,
    },
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or address, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// How a server's certificate is checked, and which one is shown to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TlsOptions {
    /// A file with the certificates of the authorities that are trusted; the system's without it.
    pub ca: Option<PathBuf>,
    /// A file with the client's certificate chain.
    pub cert: Option<PathBuf>,
    /// A file with the client's private key.
    pub key: Option<PathBuf>,
    /// The name the server's certificate has to bear, where it is not the host of the DSN.
    pub server_name: Option<String>,
    /// Take any certificate. What is sent is encrypted then, but perhaps for somebody else.
    pub insecure: bool,
}

/// A version of the protocol. Decisions are the same with each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Protocol {
    /// What every server speaks.
    #[default]
    Resp2,
    /// Asked for with `HELLO 3`: Redis 6 and later.
    Resp3,
}

/// Whose clock a store decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StoreClock {
    /// The server's: one clock for all callers.
    #[default]
    Server,
    /// Each caller's, for services that refuse `TIME` in a script. A caller whose clock is ahead makes the others wait
    /// until theirs have caught up; nobody gains by a clock that is behind.
    Caller,
}

/// A text that never shows in logs or errors.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl RedisOptions {
    /// The server at `address`, with every option at its default.
    pub fn new(address: Address) -> Self {
        Self::of(Servers::One(address))
    }

    /// These servers, with every option at its default.
    pub fn of(servers: Servers) -> Self {
        Self {
            servers,
            username: None,
            password: None,
            database: 0,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            prefix: DEFAULT_PREFIX.to_owned(),
            pool: DEFAULT_POOL,
            tls: None,
            protocol: Protocol::default(),
            client_name: None,
            clock: StoreClock::default(),
            deny_cache: DEFAULT_DENY_CACHE,
        }
    }

    /// With both time limits, in seconds: each above 0 and at most an hour.
    pub fn with_timeouts(self, timeout: f64, connect_timeout: f64) -> Result<Self> {
        Ok(Self {
            timeout: seconds("timeout", timeout)?,
            connect_timeout: seconds("connect_timeout", connect_timeout)?,
            ..self
        })
    }

    /// With a prefix for every key: printable ASCII without spaces and braces, since a brace would move all keys of a
    /// cluster to one node.
    pub fn with_prefix(self, prefix: &str) -> Result<Self> {
        if prefix.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'{' && byte != b'}') {
            return Ok(Self { prefix: prefix.to_owned(), ..self });
        }
        let detail = format!("must be printable ASCII without spaces and braces, got {prefix:?}");
        Err(invalid("prefix", detail))
    }

    /// Reads a DSN of one of these stores; none if its scheme is not one of theirs.
    pub(super) fn of_parts(parts: &Parts<'_>) -> Option<Result<Self>> {
        let scheme = parts.scheme.as_str();
        if scheme == "unix" {
            return Some(Self::unix(parts, false));
        }
        let (server, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let encrypted = match server {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return None,
        };
        Some(match kind {
            "" if scheme.contains('+') => return None,
            "" => Self::one(parts, encrypted),
            "unix" => Self::unix(parts, encrypted),
            "sentinel" => Self::sentinel(parts, encrypted),
            "cluster" => Self::cluster(parts, encrypted),
            _ => return None,
        })
    }

    fn one(parts: &Parts<'_>, encrypted: bool) -> Result<Self> {
        let options = Self::new(parts.host_alone(DEFAULT_PORT)?).with_authority(parts, encrypted)?;
        options.with_database(&parts.path_elements()?)?.with_options(parts)
    }

    fn unix(parts: &Parts<'_>, encrypted: bool) -> Result<Self> {
        if encrypted {
            return Err(Error::invalid_store(
                "a socket of this host is not encrypted: write redis+unix, not rediss+unix",
            ));
        }
        if parts.has_host() {
            let advice = "must be absolute: a redis+unix DSN has three slashes, redis+unix:///run/redis.sock";
            return Err(invalid("path", advice));
        }
        let path = parts.path()?;
        if path.is_empty() || path == "/" {
            return Err(invalid("path", "is missing from the DSN: redis+unix:///run/redis.sock"));
        }
        Self::new(Address::Unix(path.into())).with_options(parts)
    }

    fn sentinel(parts: &Parts<'_>, encrypted: bool) -> Result<Self> {
        let elements = parts.path_elements()?;
        let Some((master, rest)) = elements.split_first() else {
            let advice =
                "is missing: a redis+sentinel DSN names what the sentinels watch, redis+sentinel://h1,h2/mymaster";
            return Err(invalid("master", advice));
        };
        let sentinels = parts.hosts(DEFAULT_SENTINEL_PORT)?;
        let servers = Servers::Sentinel { sentinels, master: master.clone(), username: None, password: None };
        Self::of(servers).with_authority(parts, encrypted)?.with_database(rest)?.with_options(parts)
    }

    fn cluster(parts: &Parts<'_>, encrypted: bool) -> Result<Self> {
        let servers = Servers::Cluster { seeds: parts.hosts(DEFAULT_PORT)? };
        let options = Self::of(servers).with_authority(parts, encrypted)?;
        let options = options.with_database(&parts.path_elements()?)?.with_options(parts)?;
        if options.database != 0 {
            return Err(invalid("database", format!("must be 0 on a cluster, got {}", options.database)));
        }
        Ok(options)
    }

    fn with_authority(self, parts: &Parts<'_>, encrypted: bool) -> Result<Self> {
        parts.check_path()?;
        let credentials = parts.credentials()?;
        let tls = encrypted.then(TlsOptions::default);
        Ok(Self { username: credentials.username, password: credentials.password, tls, ..self })
    }

    fn with_database(self, elements: &[String]) -> Result<Self> {
        match elements {
            [] => Ok(self),
            [database] => Ok(Self { database: number("database", database)?, ..self }),
            [_, surplus, ..] => Err(invalid("path", format!("must end with the database, got {surplus:?} after it"))),
        }
    }

    fn with_options(mut self, parts: &Parts<'_>) -> Result<Self> {
        for (name, value) in parts.options()? {
            self = self.with_option(&name, value)?;
        }
        if let Some(tls) = &self.tls
            && tls.cert.is_some() != tls.key.is_some()
        {
            return Err(invalid("cert", "and key belong together: a client certificate needs its private key"));
        }
        Ok(self)
    }

    fn with_option(mut self, name: &str, value: String) -> Result<Self> {
        match name {
            "timeout" => self.timeout = seconds("timeout", number("timeout", &value)?)?,
            "connect_timeout" => {
                self.connect_timeout = seconds("connect_timeout", number("connect_timeout", &value)?)?;
            }
            "prefix" => self = self.with_prefix(&value)?,
            "deny_cache" => self.deny_cache = number("deny_cache", &value)?,
            "pool" => self.pool = number("pool", &value)?,
            "db" => self.database = number("database", &value)?,
            "username" => self.username = Some(value),
            "password" => self.password = Some(Secret(value)),
            "protocol" => {
                self.protocol = match value.as_str() {
                    "resp2" | "2" => Protocol::Resp2,
                    "resp3" | "3" => Protocol::Resp3,
                    _ => return Err(invalid("protocol", format!("must be resp2 or resp3, got {value:?}"))),
                }
            }
            "client_name" => {
                if value.is_empty() || !value.bytes().all(|byte| (b'!'..=b'~').contains(&byte)) {
                    let detail = format!("must be printable ASCII without spaces, got {value:?}");
                    return Err(invalid("client_name", detail));
                }
                self.client_name = Some(value);
            }
            "clock" => {
                self.clock = match value.as_str() {
                    "server" => StoreClock::Server,
                    "caller" => StoreClock::Caller,
                    _ => return Err(invalid("clock", format!("must be server or caller, got {value:?}"))),
                }
            }
            "sentinel_username" | "sentinel_password" => self.with_sentinel_option(name, value)?,
            "ca" | "cert" | "key" | "server_name" | "insecure" => self.with_tls_option(name, value)?,
            other => return Err(unknown_option(other, OPTIONS)),
        }
        Ok(self)
    }

    fn with_sentinel_option(&mut self, name: &str, value: String) -> Result<()> {
        let Servers::Sentinel { username, password, .. } = &mut self.servers else {
            return Err(Error::invalid_store(format!("the option {name:?} needs a redis+sentinel DSN")));
        };
        match name {
            "sentinel_username" => *username = Some(value),
            _ => *password = Some(Secret(value)),
        }
        Ok(())
    }

    fn with_tls_option(&mut self, name: &str, value: String) -> Result<()> {
        let Some(tls) = &mut self.tls else {
            return Err(Error::invalid_store(format!(
                "the option {name:?} needs an encrypted connection: write rediss"
            )));
        };
        match name {
            "ca" => tls.ca = Some(value.into()),
            "cert" => tls.cert = Some(value.into()),
            "key" => tls.key = Some(value.into()),
            "server_name" => tls.server_name = Some(value),
            _ => {
                tls.insecure = match value.as_str() {
                    "1" | "true" | "yes" => true,
                    "0" | "false" | "no" => false,
                    _ => return Err(invalid("insecure", format!("must be 1 or 0, got {value:?}"))),
                }
            }
        }
        Ok(())
    }
}

impl Secret {
    /// Wraps a text that is to be kept.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

pub(super) fn seconds(argument: &'static str, seconds: f64) -> Result<Duration> {
    if seconds > 0.0 && seconds <= MAX_TIMEOUT_SECONDS {
        // At least a microsecond: the sockets take a limit of zero for none.
        return Ok(Duration::from_secs_f64(seconds).max(Duration::from_micros(1)));
    }
    Err(invalid(argument, format!("must be above 0 and at most {MAX_TIMEOUT_SECONDS} seconds, got {seconds}")))
}

pub(super) fn number<T: FromStr>(argument: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|_| invalid(argument, format!("must be a number, got {text:?}")))
}
