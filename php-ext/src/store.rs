//! `Store`: where the state lives.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ext_php_rs::convert::{FromZvalMut, StubLiteral};
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ratelimit_core::store::dsn::{DEFAULT_PREFIX, DEFAULT_TIMEOUT, Dsn, RedisOptions};
use ratelimit_core::store::{self, DEFAULT_MAX_KEYS};
use ratelimit_core::{Error, ErrorKind};

use crate::convert::{Float, Integer, Text, shown};
use crate::{client, engine, exception, ini};

/// A store of the core.
#[php_class]
#[php(name = "RateLimit\\Store")]
pub(crate) struct Store(pub(crate) Arc<dyn store::Store>);

#[php_impl]
impl Store {
    #[php(vis = "private")]
    pub(crate) fn __construct() -> PhpResult<Self> {
        Err("a store is made by Store::open(), Store::memory() or Store::redis()".into())
    }

    pub(crate) fn open(dsn: Text<'_>) -> PhpResult<Self> {
        let store = store::open(utf8(dsn.get("dsn")?)?);
        store.map(Self).map_err(|error| exception::from_core(&error))
    }

    #[php(defaults(maxKeys = 1_000_000))]
    pub(crate) fn memory(maxKeys: Integer) -> PhpResult<Self> {
        let invalid = |got: String| {
            let detail = format!("must be at least 1, got {got}");
            exception::from_core(&Error::argument_error(ErrorKind::InvalidStore, "max_keys", detail))
        };
        let keys = maxKeys.get("maxKeys", |keys| invalid(shown(keys)))?;
        let keys = usize::try_from(keys).map_err(|_| invalid(keys.to_string()))?;
        store::memory(keys).map(Self).map_err(|error| exception::from_core(&error))
    }

    #[php(defaults(path = None, bytes = 67_108_864))]
    pub(crate) fn shared(path: Option<String>, bytes: Integer) -> PhpResult<Self> {
        let path = path.map(PathBuf::from);
        let invalid = |got: String| {
            let detail = format!("must be between 1 MiB and 1 TiB, got {got}");
            exception::from_core(&Error::argument_error(ErrorKind::InvalidStore, "bytes", detail))
        };
        let bytes = bytes.get("bytes", |bytes| invalid(shown(bytes)))?;
        let bytes = u64::try_from(bytes).map_err(|_| invalid(bytes.to_string()))?;
        store::shared(path.as_deref(), bytes).map(Self).map_err(|error| exception::from_core(&error))
    }

    #[php(defaults(redis = DEFAULT_PLACE, timeout = 0.2, connectTimeout = 0.2, prefix = DEFAULT_PREFIX))]
    pub(crate) fn redis(redis: Place, timeout: Float, connectTimeout: Float, prefix: Text<'_>) -> PhpResult<Self> {
        let options = redis.get()?;
        // What the DSN says holds, unless an argument says something else than its default.
        let default = DEFAULT_TIMEOUT.as_secs_f64();
        let or = |argument: f64, dsn: std::time::Duration| {
            if (argument - default).abs() < f64::EPSILON { dsn.as_secs_f64() } else { argument }
        };
        let timeout = or(timeout.get("timeout")?, options.timeout);
        let connect_timeout = or(connectTimeout.get("connectTimeout")?, options.connect_timeout);
        let prefix = prefix.utf8("prefix")?;
        let options = options.with_timeouts(timeout, connect_timeout);
        let options = if prefix == DEFAULT_PREFIX { options } else { options.and_then(|o| o.with_prefix(&prefix)) };
        let store = options.and_then(|options| store::open_parsed(Dsn::Redis(Box::new(options))));
        store.map(Self).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn ping(&self) -> PhpResult<f64> {
        let time = self.0.ping().map_err(|error| exception::from_core(&error))?;
        Ok(time.as_secs_f64())
    }

    pub(crate) fn info(&self) -> Option<HashMap<&'static str, i64>> {
        let store::StoreInfo { slots, used, expired, evicted, bytes } = self.0.info()?;
        let numbers = [("slots", slots), ("used", used), ("expired", expired), ("evicted", evicted), ("bytes", bytes)];
        Some(numbers.map(|(name, number)| (name, i64::try_from(number).unwrap_or(i64::MAX))).into())
    }

    pub(crate) fn breaker(&self) -> &'static str {
        self.0.breaker().as_str()
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.0.kind().as_str()
    }
}

/// The store in an argument that takes all kinds of them: `TokenBucket`'s `$redis`, `Limiter`'s `$store`.
pub(crate) fn resolve(argument: &'static str, value: &Zval) -> PhpResult<Arc<dyn store::Store>> {
    let value = value.dereference();
    let opened = if value.is_null() {
        store::open_default(ini::store().as_deref())
    } else if let Some(dsn) = value.zend_str() {
        store::open(utf8(dsn.as_bytes())?)
    } else if let Some(store) = value.object().and_then(ZendClassObject::<Store>::from_zend_obj) {
        Ok(store.0.clone())
    } else {
        store::open_parsed(Dsn::Redis(Box::new(place(argument, "null, a DSN, a RateLimit\\Store", value)?)))
    };
    opened.map_err(|error| exception::from_core(&error))
}

/// A DSN as text; the core has no error for one that is none.
fn utf8(dsn: &[u8]) -> PhpResult<&str> {
    std::str::from_utf8(dsn).map_err(|_| exception::from_core(&Error::invalid_store("the DSN must be UTF-8")))
}

/// The place that a client object is connected to; `others` is what else the argument may be.
fn place(argument: &'static str, others: &str, value: &Zval) -> PhpResult<RedisOptions> {
    match value.object().map(client::place).transpose()?.flatten() {
        Some(options) => Ok(options),
        None => Err(wrong_kind(argument, &format!("{others}, {}", client::KINDS), &engine::type_name(value))),
    }
}

fn wrong_kind(argument: &'static str, kinds: &str, got: &str) -> PhpException {
    let detail = format!("must be {kinds}, got {got}");
    exception::from_core(&Error::argument_error(ErrorKind::InvalidStore, argument, detail))
}

const DEFAULT_PLACE: &str = "redis://127.0.0.1:6379";

/// The argument `string|object $redis`: a DSN, or a client object.
pub(crate) struct Place(PhpResult<RedisOptions>);

impl Place {
    fn get(self) -> PhpResult<RedisOptions> {
        self.0
    }

    fn of_dsn(dsn: &str) -> PhpResult<RedisOptions> {
        match dsn.parse::<Dsn>() {
            Ok(Dsn::Redis(options)) => Ok(*options),
            Ok(_) => Err(wrong_kind("redis", "the DSN of a Redis server", "another store's")),
            Err(error) => Err(exception::from_core(&error)),
        }
    }
}

impl FromZvalMut<'_> for Place {
    const TYPE: DataType = DataType::String;

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        Some(Self(match value.zend_str() {
            Some(dsn) => utf8(dsn.as_bytes()).and_then(Self::of_dsn),
            None => place("redis", "a DSN", value),
        }))
    }
}

impl From<&str> for Place {
    fn from(dsn: &str) -> Self {
        Self(Self::of_dsn(dsn))
    }
}

impl StubLiteral for Place {
    fn stub_literal(&self) -> String {
        DEFAULT_PLACE.stub_literal()
    }
}

const _: () = assert!(DEFAULT_MAX_KEYS == 1_000_000, "the default that PHP shows is the core's");
