//! Where state lives.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::core::store::dsn::Dsn;
use crate::core::{self, ErrorKind};
use crate::error::{self, OrRaise as _};
use crate::number::{Given, count, real, type_name};
use crate::redis_client;

const KIND: ErrorKind = ErrorKind::InvalidStore;

/// A store of the core, whichever it is.
pub(crate) type Shared = Arc<dyn core::store::Store>;

/// Where state lives. Made by one of the static methods; connects on first use.
///
/// May be used from any thread and after `os.fork()`: a child opens connections of its own.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct Store(pub(crate) Shared);

#[pymethods]
impl Store {
    /// The store that a DSN names: `memory:`, `shared:`, `redis://host:6379/0` or `redis+unix:///run/redis.sock`.
    ///
    /// The same DSN gives the same store within a process: its connections and its memory are shared. Raises
    /// `InvalidStore`, naming the part of the DSN that is wrong.
    #[staticmethod]
    fn open(dsn: &str) -> PyResult<Self> {
        core::store::open(dsn).map(Self).or_raise()
    }

    /// A memory store of its own for at most `max_keys` keys, shared with nobody who does not hold it.
    #[staticmethod]
    #[pyo3(signature = (max_keys = Given(None)), text_signature = "(max_keys=1000000)")]
    fn memory(max_keys: Given<'_, '_>) -> PyResult<Self> {
        let max_keys =
            max_keys.or(core::store::DEFAULT_MAX_KEYS, |value| count(KIND, "max_keys", &usize::MAX, value))?;
        core::store::memory(max_keys).map(Self).or_raise()
    }

    /// A store on one Redis or Valkey server, named by a `redis://` or `redis+unix://` DSN.
    ///
    /// `timeout` and `connect_timeout` are in seconds, for one exchange and for connecting; every key starts with
    /// `prefix`. What is not given is taken from the DSN's query, else 0.2, 0.2 and `rl:`.
    #[staticmethod]
    #[pyo3(
        signature = (url = "redis://127.0.0.1:6379", *, timeout = Given(None), connect_timeout = Given(None), prefix = None),
        text_signature = "(url='redis://127.0.0.1:6379', *, timeout=0.2, connect_timeout=0.2, prefix='rl:')"
    )]
    fn redis(
        url: &str,
        timeout: Given<'_, '_>,
        connect_timeout: Given<'_, '_>,
        prefix: Option<&str>,
    ) -> PyResult<Self> {
        let Dsn::Redis(options) = url.parse().or_raise()? else {
            let detail = "must be a redis:// or redis+unix:// DSN; Store.open and Store.memory open the other stores";
            return Err(error::argument(KIND, "url", detail));
        };
        let timeout = timeout.or(options.timeout.as_secs_f64(), |value| real(KIND, "timeout", value))?;
        let connect_timeout =
            connect_timeout.or(options.connect_timeout.as_secs_f64(), |value| real(KIND, "connect_timeout", value))?;
        let mut options = (*options).with_timeouts(timeout, connect_timeout).or_raise()?;
        if let Some(prefix) = prefix {
            options = options.with_prefix(prefix).or_raise()?;
        }
        core::store::open_parsed(Dsn::Redis(Box::new(options))).map(Self).or_raise()
    }

    /// Seconds that a round trip takes. Raises `StoreUnavailable`.
    fn ping(&self, py: Python<'_>) -> PyResult<f64> {
        py.detach(|| self.0.ping()).map(|took| took.as_secs_f64()).or_raise()
    }

    /// What kind of store it is: `memory` or `redis`.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().as_str()
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.Store of kind '{}'>", self.kind())
    }
}

/// The store that an argument names: None (the default store), a DSN, a Store or a redis-py client.
pub(crate) fn named(argument: &'static str, store: Option<&Bound<'_, PyAny>>) -> PyResult<Shared> {
    let Some(store) = store else { return core::store::open_default(None).or_raise() };
    if let Ok(store) = store.cast::<Store>() {
        return Ok(store.get().0.clone());
    }
    if let Ok(dsn) = store.cast::<PyString>() {
        return core::store::open(dsn.to_str()?).or_raise();
    }
    if let Some(options) = redis_client::options(argument, store)? {
        return core::store::open_parsed(Dsn::Redis(Box::new(options))).or_raise();
    }
    let expected = "must be None, a DSN, a Store or a redis.Redis";
    Err(PyTypeError::new_err(format!("{argument} {expected}, got {}", type_name(store))))
}
