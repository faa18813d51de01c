//! The one string that names a store, and the options in it.

mod embedded;

mod parts;

mod redis;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub(super) use self::embedded::shared_bytes;
pub use self::embedded::{DEFAULT_SHARED_BYTES, MAX_SHARED_BYTES, MIN_SHARED_BYTES};
pub use self::redis::{Address, Protocol, RedisOptions, Secret, Servers, StoreClock, TlsOptions};

use self::parts::Parts;
use crate::error::{Error, ErrorKind, Result};

/// How long a store may take to answer, and to be connected to, unless the DSN says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);

/// The key prefix, unless the DSN says otherwise.
pub const DEFAULT_PREFIX: &str = "rl:";

/// A store's name taken apart.
///
/// | DSN | store |
/// |---|---|
/// | `memory:` | this process; `?max_keys=` |
/// | `shared:` | all processes of this user on this host; `?size=` (64MiB), `?timeout=` (seconds, 0.2) |
/// | `shared:/path/to/file` | all processes of this user that name that file |
/// | `redis://[user:password@]host[:port][/database]` | a server over TCP |
/// | `redis+unix:///path/to/socket` | a server on this host; `?db=`, `?username=`, `?password=` |
/// | `redis+sentinel://[user:password@]host[:port],…/master[/database]` | the primary that sentinels name; `?sentinel_username=`, `?sentinel_password=` |
/// | `redis+cluster://[user:password@]host[:port],…` | a cluster, found through these nodes |
///
/// `valkey` may stand for `redis`. `rediss` and `valkeys` are encrypted, also with `+sentinel` and `+cluster`; the
/// certificate is checked by the system's authorities or those in the file `?ca=`, `?cert=` and `?key=` are the client's
/// own files, `?server_name=` is the name to be certified, and `?insecure=1` takes any certificate.
///
/// All of them take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`), `?pool=`
/// (idle connections kept per server, 64), `?deny_cache=` (used-up keys that are refused without asking, 10000; 0 for none),
/// `?protocol=` (`resp2` or `resp3`), `?client_name=`, and `?clock=caller` for
/// services that refuse `TIME` in scripts.
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
    /// Redis or Valkey servers.
    Redis(Box<RedisOptions>),
}

impl FromStr for Dsn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = Parts::of(text)?;
        match parts.scheme.as_str() {
            "memory" => return embedded::memory(&parts),
            "shared" => return embedded::shared(&parts),
            _ => {}
        }
        match RedisOptions::of_parts(&parts) {
            Some(options) => options.map(|options| Self::Redis(Box::new(options))),
            None => Err(Error::invalid_store(format!(
                "the store's scheme must be memory, shared, redis, rediss, redis+unix, redis+sentinel or redis+cluster, got {:?}",
                parts.scheme
            ))),
        }
    }
}

fn invalid(argument: &'static str, detail: impl Into<String>) -> Error {
    Error::argument_error(ErrorKind::InvalidStore, argument, detail)
}

fn unknown_option(name: &str, known: &str) -> Error {
    if name.contains('@') {
        // The rest of a password that was not encoded, perhaps.
        return Error::invalid_store(format!("the DSN has an option with an @ in its name; there are {known}"));
    }
    Error::invalid_store(format!("the DSN has an unknown option {name:?}; there are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(dsn: &str) -> RedisOptions {
        match dsn.parse() {
            Ok(Dsn::Redis(options)) => *options,
            other => panic!("{dsn}: {other:?}"),
        }
    }

    fn fault(dsn: &str) -> String {
        dsn.parse::<Dsn>().expect_err(dsn).to_string()
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp(host.into(), port)
    }

    #[test]
    fn every_part_of_a_tcp_dsn_is_read() {
        let options = redis(
            "redis://us%40er:p%3Ass@[::1]:7000/3?timeout=0.5&connect_timeout=1&prefix=app:&pool=2&protocol=resp3&client_name=web&clock=caller",
        );
        assert_eq!(options.servers, Servers::One(tcp("::1", 7000)));
        assert_eq!(tcp("::1", 7000).to_string(), "[::1]:7000");
        assert_eq!(options.username.as_deref(), Some("us@er"));
        assert_eq!(options.password.as_ref().map(Secret::reveal), Some("p:ss"));
        assert_eq!(options.database, 3);
        assert_eq!((options.timeout, options.connect_timeout), (Duration::from_millis(500), Duration::from_secs(1)));
        assert_eq!((options.prefix.as_str(), options.pool), ("app:", 2));
        assert_eq!((options.protocol, options.clock), (Protocol::Resp3, StoreClock::Caller));
        assert_eq!(options.client_name.as_deref(), Some("web"));
    }

    #[test]
    fn what_is_left_out_takes_its_default() {
        let options = redis("redis://cache");
        assert_eq!(options, RedisOptions::new(tcp("cache", 6379)));
        assert_eq!(redis("valkey://cache"), options);
        assert_eq!(redis("REDIS://cache:/"), options);
    }

    #[test]
    fn a_unix_dsn_is_a_path() {
        let options = redis("redis+unix:///run/redis%20one.sock?db=2&password=x");
        assert_eq!(options.servers, Servers::One(Address::Unix("/run/redis one.sock".into())));
        assert_eq!((options.database, options.password.is_some()), (2, true));
    }

    #[test]
    fn sentinels_and_cluster_nodes_are_lists() {
        let options =
            redis("redis+sentinel://u:p@s1,s2:7,[::1]:8/mymaster/5?sentinel_username=su&sentinel_password=sp");
        assert_eq!(
            options.servers,
            Servers::Sentinel {
                sentinels: vec![tcp("s1", 26379), tcp("s2", 7), tcp("::1", 8)],
                master: "mymaster".into(),
                username: Some("su".into()),
                password: Some(Secret::new("sp")),
            }
        );
        assert_eq!((options.username.as_deref(), options.database), (Some("u"), 5));
        let options = redis("valkeys+cluster://c1,c2:7000");
        assert_eq!(options.servers, Servers::Cluster { seeds: vec![tcp("c1", 6379), tcp("c2", 7000)] });
        assert!(options.tls.is_some());
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
    }

    #[test]
    fn certificates_are_named_by_file() {
        let options = redis("rediss://cache?ca=/etc/ca.pem&cert=/c.pem&key=/k.pem&server_name=other");
        let tls = TlsOptions {
            ca: Some("/etc/ca.pem".into()),
            cert: Some("/c.pem".into()),
            key: Some("/k.pem".into()),
            server_name: Some("other".into()),
            insecure: false,
        };
        assert_eq!(options.tls, Some(tls));
        assert!(redis("rediss://cache?insecure=1").tls.is_some_and(|tls| tls.insecure));
    }

    #[test]
    fn a_fault_is_named_and_no_password_repeated() {
        for (dsn, says) in [
            ("127.0.0.1:6379", "DSN such as"),
            ("localhost:6379", "DSN such as"),
            ("", "DSN such as"),
            ("http://cache", "\"http\""),
            ("redis+http://cache", "\"redis+http\""),
            ("redis:", "host is missing"),
            ("redis://", "host is missing"),
            ("redis://a,", "host is missing"),
            ("redis://a,b", "host must be one"),
            ("redis://cache:0", "port must be a number from 1 to 65535, got \"0\""),
            ("redis://cache:+1", "port must be a number"),
            ("redis://cache:70000", "port must be a number"),
            ("redis://::1", "host is missing"),
            ("redis://[::1", "bracket"),
            ("redis://[::g]", "IPv6"),
            ("redis://[::1]x", "after its bracket"),
            ("redis://ca che", "host must be a name"),
            ("redis://cache#db", "%23"),
            ("redis://ca\nche", "control"),
            ("redis://:hunter2@cache/x", "database must be a number"),
            ("redis://cache/1/2", "path must end with the database"),
            ("redis://cache?timeout=0", "timeout must be above 0"),
            ("redis://cache?timeout=nan", "timeout must be above 0"),
            ("redis://cache?timeout=1&timeout=2", "\"timeout\" twice"),
            ("redis://cache?tiemout=1", "\"tiemout\""),
            ("redis://cache?prefix=a{b", "prefix must be printable"),
            ("redis://cache?protocol=4", "protocol must be resp2 or resp3"),
            ("redis://cache?clock=mine", "clock must be server or caller"),
            ("redis://cache?client_name=a%20b", "client_name must be printable"),
            ("redis://cache?ca=/x", "write rediss"),
            ("redis://cache?sentinel_password=x", "redis+sentinel"),
            ("rediss://cache?cert=/x", "cert and key belong together"),
            ("rediss://cache?insecure=perhaps", "insecure must be 1 or 0"),
            ("redis+unix://run/redis.sock", "path must be absolute"),
            ("rediss+unix:///run/redis.sock", "not encrypted"),
            ("redis+sentinel://s1,s2", "master is missing"),
            ("redis+cluster://c1/2", "database must be 0"),
            ("shared:limits", "path must be absolute"),
            ("shared://host/limits", "path must be absolute"),
            ("shared:/run/", "path must be absolute"),
            ("shared:?size=64MB", "size must be a number of bytes"),
            ("shared:?size=99999999999GiB", "size must be a number of bytes"),
            ("shared:?size=1023KiB", "size must be between 1 MiB"),
            ("shared:?siez=1", "\"siez\""),
            ("memory:here", "max_keys"),
            ("memory:?max_keys=x", "max_keys must be a number"),
        ] {
            assert!(fault(dsn).contains(says), "{dsn}: {}", fault(dsn));
        }
        for dsn in [
            "redis://:hunter2@cache/x",
            "redis://u:hunter2@:1",
            "redis://u:hunter2@c?x=1",
            "redis://u:hunter2/3@c",
            "redis://u:hunter2?3@c",
            "redis://u:1/hunter2@c",
            "redis://u:1?hunter2@c",
            "redis://u:hunter2#3@c",
            "redis://u:%ffhunter2@c",
            "redis+cluster://u:hunter2@c:x",
            "redis+sentinel://s?sentinel_password=hunter2",
        ] {
            assert!(!fault(dsn).contains("hunter2"), "{dsn}: {}", fault(dsn));
        }
        assert!(!format!("{:?}", redis("redis://u:hunter2@cache")).contains("hunter2"));
    }
}
