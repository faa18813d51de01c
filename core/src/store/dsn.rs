//! The one string that names a store, and the options in it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::DEFAULT_MAX_KEYS;
use crate::error::{Error, Result};

/// How long a store may take to answer, and to be connected to, unless the DSN says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);

/// The size of a shared store's file, unless the DSN says otherwise: 64 MiB.
pub const DEFAULT_SHARED_BYTES: u64 = 64 << 20;

/// The key prefix, unless the DSN says otherwise.
pub const DEFAULT_PREFIX: &str = "rl:";

/// The smallest size of a shared store's file, a mebibyte.
pub const MIN_SHARED_BYTES: u64 = 1 << 20;

/// The largest size of a shared store's file, a tebibyte.
pub const MAX_SHARED_BYTES: u64 = 1 << 40;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_POOL: usize = 64;
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// A store's name taken apart.
///
/// | DSN | store |
/// |---|---|
/// | `memory:` | this process; `?max_keys=` |
/// | `shared:` | all processes of this user on this host; `?size=` (64MiB), `?timeout=` (seconds, 0.2) |
/// | `shared:/path/to/file` | all processes of this user that name that file |
/// | `redis://[user:password@]host[:port][/database]` | a server over TCP |
/// | `redis+unix:///path/to/socket` | a server on this host; `?db=`, `?username=`, `?password=` |
///
/// `valkey` may stand for `redis`. Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each),
/// `?prefix=` (of every key, `rl:`) and `?pool=` (idle connections kept, 64).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dsn {
    /// Memory of this process.
    Memory {
        /// Keys it holds at most.
        max_keys: usize,
    },
    /// Memory that processes share by a file.
    Shared {
        /// The file; the default place without it.
        path: Option<PathBuf>,
        /// The size of the file, in bytes, if it has to be made.
        bytes: u64,
        /// How long a step may wait for another process.
        timeout: Duration,
    },
    /// One server.
    Redis(RedisOptions),
}

/// Where a Redis server is and how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedisOptions {
    /// Where it listens.
    pub address: Address,
    /// The ACL user; the server's default user without it.
    pub username: Option<String>,
    /// The password, if the server asks for one.
    pub password: Option<Secret>,
    /// The database to select.
    pub database: u32,
    /// How long one exchange may take, connecting aside.
    pub timeout: Duration,
    /// How long connecting, with authentication, may take.
    pub connect_timeout: Duration,
    /// What every key starts with.
    pub prefix: String,
    /// Idle connections kept at most.
    pub pool: usize,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or address, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A text that never shows in logs or errors.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl RedisOptions {
    /// The server at `address`, with every option at its default.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            username: None,
            password: None,
            database: 0,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_TIMEOUT,
            prefix: DEFAULT_PREFIX.to_owned(),
            pool: DEFAULT_POOL,
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

impl FromStr for Dsn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // The text may hold a password, so no error repeats it.
        let url = Url::parse(text).map_err(|error| {
            Error::invalid_store(format!(
                "the store must be named by a DSN such as memory: or redis://127.0.0.1:6379/0; this one has a fault: {error}"
            ))
        })?;
        match url.scheme() {
            "memory" => memory(&url),
            "shared" => shared(&url),
            "redis" | "valkey" => redis_tcp(&url),
            "redis+unix" | "valkey+unix" | "unix" => redis_unix(&url),
            other => Err(Error::invalid_store(format!(
                "the store's scheme must be memory, shared, redis or redis+unix, got {other:?}"
            ))),
        }
    }
}

fn memory(url: &Url) -> Result<Dsn> {
    let mut max_keys = DEFAULT_MAX_KEYS;
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "max_keys" => max_keys = number("max_keys", &value)?,
            other => return Err(unknown_option(other, "max_keys")),
        }
    }
    if !url.path().trim_matches('/').is_empty() || url.has_host() {
        return Err(Error::invalid_store("a memory: DSN takes nothing after its colon but ?max_keys="));
    }
    Ok(Dsn::Memory { max_keys })
}

fn shared(url: &Url) -> Result<Dsn> {
    let (mut bytes, mut timeout) = (DEFAULT_SHARED_BYTES, DEFAULT_TIMEOUT);
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "size" => bytes = size("size", &value)?,
            "timeout" => timeout = seconds("timeout", number("timeout", &value)?)?,
            other => return Err(unknown_option(other, "size and timeout")),
        }
    }
    let path = decoded("path", url.path())?;
    if url.has_host() || !(path.is_empty() || path.starts_with('/') && !path.ends_with('/')) {
        return Err(invalid("path", "must be absolute and name a file, as in shared:/run/app/limits"));
    }
    Ok(Dsn::Shared { path: (!path.is_empty()).then(|| path.into()), bytes, timeout })
}

/// A number of bytes, plain or with a unit.
fn size(argument: &'static str, text: &str) -> Result<u64> {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (count, unit) = unit.unwrap_or((text, 1));
    let bytes = count.trim_end().parse().ok().and_then(|count: u64| count.checked_mul(unit));
    let bytes = bytes.ok_or_else(|| {
        invalid(argument, format!("must be a number of bytes, or of KiB, MiB or GiB as in 64MiB, got {text:?}"))
    })?;
    shared_bytes(argument, bytes)
}

/// A size that a shared store's file can have.
pub(crate) fn shared_bytes(argument: &'static str, bytes: u64) -> Result<u64> {
    let (least, most) = (MIN_SHARED_BYTES, MAX_SHARED_BYTES);
    if (least..=most).contains(&bytes) {
        return Ok(bytes);
    }
    Err(invalid(argument, format!("must be between 1 MiB ({least} bytes) and 1 TiB ({most} bytes), got {bytes}")))
}

fn redis_tcp(url: &Url) -> Result<Dsn> {
    let host = match url.host() {
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Domain(domain)) => decoded("host", domain)?,
        None => return Err(invalid("host", "is missing from the DSN")),
    };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    if port == 0 {
        return Err(invalid("port", "must be between 1 and 65535, got 0"));
    }
    let mut options = RedisOptions::new(Address::Tcp(host, port));
    options.username = Some(decoded("username", url.username())?).filter(|name| !name.is_empty());
    options.password = url.password().map(|text| decoded("password", text)).transpose()?.map(Secret);
    match url.path().trim_start_matches('/') {
        "" => {}
        database => options.database = number("database", database)?,
    }
    with_query(options, url)
}

fn redis_unix(url: &Url) -> Result<Dsn> {
    if url.has_host() {
        return Err(invalid(
            "path",
            "must be absolute: a redis+unix DSN has three slashes, redis+unix:///run/redis.sock",
        ));
    }
    let path = decoded("path", url.path())?;
    if path.is_empty() || path == "/" {
        return Err(invalid("path", "is missing from the DSN: redis+unix:///run/redis.sock"));
    }
    with_query(RedisOptions::new(Address::Unix(path.into())), url)
}

fn with_query(mut options: RedisOptions, url: &Url) -> Result<Dsn> {
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "timeout" => options.timeout = seconds("timeout", number("timeout", &value)?)?,
            "connect_timeout" => {
                options.connect_timeout = seconds("connect_timeout", number("connect_timeout", &value)?)?;
            }
            "prefix" => options = options.with_prefix(&value)?,
            "pool" => options.pool = number("pool", &value)?,
            "db" => options.database = number("database", &value)?,
            "username" => options.username = Some(value.into_owned()),
            "password" => options.password = Some(Secret(value.into_owned())),
            other => {
                return Err(unknown_option(other, "timeout, connect_timeout, prefix, pool, db, username and password"));
            }
        }
    }
    Ok(Dsn::Redis(options))
}

fn seconds(argument: &'static str, seconds: f64) -> Result<Duration> {
    if seconds > 0.0 && seconds <= MAX_TIMEOUT_SECONDS {
        // At least a microsecond: the sockets take a limit of zero for none.
        return Ok(Duration::from_secs_f64(seconds).max(Duration::from_micros(1)));
    }
    Err(invalid(argument, format!("must be above 0 and at most {MAX_TIMEOUT_SECONDS} seconds, got {seconds}")))
}

fn number<T: FromStr>(argument: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|_| invalid(argument, format!("must be a number, got {text:?}")))
}

fn decoded(argument: &'static str, text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(String::from).map_err(|_| invalid(argument, "must be UTF-8 once percent-decoded"))
}

fn invalid(argument: &'static str, detail: impl Into<String>) -> Error {
    Error::argument_error(crate::ErrorKind::InvalidStore, argument, detail)
}

fn unknown_option(name: &str, known: &str) -> Error {
    Error::invalid_store(format!("the DSN has an unknown option {name:?}; there are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(dsn: &str) -> RedisOptions {
        match dsn.parse() {
            Ok(Dsn::Redis(options)) => options,
            other => panic!("{dsn}: {other:?}"),
        }
    }

    fn fault(dsn: &str) -> String {
        dsn.parse::<Dsn>().expect_err(dsn).to_string()
    }

    #[test]
    fn every_part_of_a_tcp_dsn_is_read() {
        let options = redis("redis://us%40er:p%3Ass@[::1]:7000/3?timeout=0.5&connect_timeout=1&prefix=app:&pool=2");
        assert_eq!(options.address, Address::Tcp("::1".into(), 7000));
        assert_eq!(options.address.to_string(), "[::1]:7000");
        assert_eq!(options.username.as_deref(), Some("us@er"));
        assert_eq!(options.password.as_ref().map(Secret::reveal), Some("p:ss"));
        assert_eq!(options.database, 3);
        assert_eq!((options.timeout, options.connect_timeout), (Duration::from_millis(500), Duration::from_secs(1)));
        assert_eq!((options.prefix.as_str(), options.pool), ("app:", 2));
    }

    #[test]
    fn what_is_left_out_takes_its_default() {
        let options = redis("redis://cache");
        assert_eq!(options, RedisOptions::new(Address::Tcp("cache".into(), 6379)));
        assert_eq!(redis("valkey://cache"), options);
    }

    #[test]
    fn a_unix_dsn_is_a_path() {
        let options = redis("redis+unix:///run/redis%20one.sock?db=2&password=x");
        assert_eq!(options.address, Address::Unix("/run/redis one.sock".into()));
        assert_eq!((options.database, options.password.is_some()), (2, true));
    }

    #[test]
    fn a_shared_dsn_is_a_path_a_size_and_a_timeout() {
        let shared = |path: Option<&str>, bytes, ms| Dsn::Shared {
            path: path.map(Into::into),
            bytes,
            timeout: Duration::from_millis(ms),
        };
        let parsed = |dsn: &str| dsn.parse::<Dsn>().expect(dsn);
        assert_eq!(parsed("shared:"), shared(None, 64 << 20, 200));
        assert_eq!(parsed("shared:?size=1GiB&timeout=1"), shared(None, 1 << 30, 1_000));
        assert_eq!(parsed("shared:/run/app/limits?size=1048576"), shared(Some("/run/app/limits"), 1 << 20, 200));
        assert_eq!(parsed("shared:///run/my%20limits?size=2048KiB"), shared(Some("/run/my limits"), 2 << 20, 200));
        assert!(fault("shared:limits").starts_with("path must be absolute"));
        assert!(fault("shared://host/limits").starts_with("path must be absolute"));
        assert!(fault("shared:/run/").starts_with("path must be absolute"));
        assert!(fault("shared:?size=64MB").starts_with("size must be a number of bytes"));
        assert!(fault("shared:?size=99999999999GiB").starts_with("size must be a number of bytes"));
        assert!(fault("shared:?size=1023KiB").starts_with("size must be between 1 MiB"));
        assert!(fault("shared:?siez=1").contains("\"siez\""));
    }

    #[test]
    fn a_fault_is_named_and_no_password_repeated() {
        assert!(fault("127.0.0.1:6379").contains("DSN such as"));
        assert!(fault("http://cache").contains("\"http\""));
        assert!(fault("redis://:hunter2@cache/x").starts_with("database must be a number"));
        assert!(fault("redis://cache?timeout=0").starts_with("timeout must be above 0"));
        assert!(fault("redis://cache?timeout=nan").starts_with("timeout must be above 0"));
        assert!(fault("redis://cache?tiemout=1").contains("\"tiemout\""));
        assert!(fault("redis://cache?prefix=a{b").starts_with("prefix must be printable"));
        assert!(fault("redis+unix://run/redis.sock").starts_with("path must be absolute"));
        assert!(fault("memory:here").contains("max_keys"));
        for dsn in ["redis://:hunter2@cache/x", "redis://u:hunter2@:1", "redis://u:hunter2@c?x=1"] {
            assert!(!fault(dsn).contains("hunter2"), "{dsn}");
        }
        assert!(!format!("{:?}", redis("redis://u:hunter2@cache")).contains("hunter2"));
    }
}
