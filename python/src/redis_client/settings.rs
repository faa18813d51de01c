//! The keyword arguments that a redis-py client gives to its connections.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

use super::{is_a, refused, tls};
use crate::core::store::dsn::{Address, RedisOptions, Secret, Servers, TlsOptions};
use crate::number::{shown, type_name};

/// Where a client connects to unless it says otherwise, as in redis-py.
const DEFAULT_HOST: &str = "localhost";
const DEFAULT_PORT: u16 = 6379;

/// What connections are made with.
pub(super) struct Settings<'py> {
    argument: &'static str,
    given: Bound<'py, PyDict>,
    encrypted: bool,
}

/// A user's name and password.
type Credentials = (Option<String>, Option<Secret>);

impl<'py> Settings<'py> {
    /// The settings of a connection pool; `None` when it is none.
    pub(super) fn of_pool(argument: &'static str, pool: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Some(settings) = pool.getattr_opt("connection_kwargs")? else { return Ok(None) };
        let Ok(settings) = settings.cast_into::<PyDict>() else { return Ok(None) };
        Self::new(argument, settings, pool.getattr_opt("connection_class")?).map(Some)
    }

    /// Settings of connections of a class, which the settings may name as well.
    pub(super) fn new(
        argument: &'static str,
        given: Bound<'py, PyDict>,
        class: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let mut settings = Self { argument, given, encrypted: false };
        let asked_for = settings.get("ssl")?.is_some_and(|ssl| ssl.is_truthy().unwrap_or(true));
        settings.encrypted = asked_for || is_encrypted(class)? || is_encrypted(settings.get("connection_class")?)?;
        Ok(settings)
    }

    /// The name of the argument that the client was given as.
    pub(super) fn argument(&self) -> &'static str {
        self.argument
    }

    /// Everything about these servers.
    pub(super) fn options(&self, servers: Servers) -> PyResult<RedisOptions> {
        let mut options = RedisOptions::of(servers);
        options.database = self.number("db")?.unwrap_or(0);
        (options.username, options.password) = self.credentials()?;
        options.tls = self.tls()?;
        Ok(options)
    }

    pub(super) fn address(&self) -> PyResult<Address> {
        match self.get("path")? {
            Some(path) => Ok(Address::Unix(path.extract::<PathBuf>()?)),
            None => Ok(Address::Tcp(self.host()?, self.port()?)),
        }
    }

    pub(super) fn host(&self) -> PyResult<String> {
        Ok(self.text("host")?.unwrap_or_else(|| DEFAULT_HOST.to_owned()))
    }

    pub(super) fn port(&self) -> PyResult<u16> {
        Ok(self.number("port")?.unwrap_or(DEFAULT_PORT))
    }

    pub(super) fn credentials(&self) -> PyResult<Credentials> {
        if let Some(provider) = self.get("credential_provider")? {
            // Any other provider may give other credentials next time, and nobody would ask it then.
            if type_name(&provider) != "UsernamePasswordCredentialProvider" {
                return Err(refused(self.argument, "has a credential provider whose credentials may change"));
            }
            let username = provider.getattr("username")?;
            let password = provider.getattr("password")?;
            return Ok((self.as_text("username", &username)?, self.as_text("password", &password)?.map(Secret::new)));
        }
        Ok((self.text("username")?, self.text("password")?.map(Secret::new)))
    }

    /// How connections are encrypted, if they are.
    pub(super) fn tls(&self) -> PyResult<Option<TlsOptions>> {
        if self.encrypted { tls::options(self).map(Some) } else { Ok(None) }
    }

    /// A setting that is not `None`.
    pub(super) fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(name)?.filter(|value| !value.is_none()))
    }

    /// A setting of which `None` is a value.
    pub(super) fn value(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.given.get_item(name)
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        match self.get(name)? {
            Some(value) => self.as_text(name, &value),
            None => Ok(None),
        }
    }

    /// An empty text says as much as none, as in redis-py.
    pub(super) fn as_text(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<Option<String>> {
        if value.is_none() {
            return Ok(None);
        }
        let text = if let Ok(text) = value.cast::<PyString>() {
            text.to_str().ok().map(str::to_owned)
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            String::from_utf8(bytes.as_bytes().to_vec()).ok()
        } else {
            None
        };
        // The value may be a password, so it is not repeated.
        let text = text.ok_or_else(|| refused(self.argument, &format!("has a {name} that is no text")))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// A number, which redis-py also takes as text.
    fn number<T: std::str::FromStr + TryFrom<u32>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        let number = value.str()?.to_str()?.parse().ok();
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(refused(self.argument, &format!("has a {name} that cannot be used: {}", shown(&value)))),
        }
    }
}

fn is_encrypted(class: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
    match class.map(Bound::cast_into::<PyType>) {
        Some(Ok(class)) => is_a(&class, "SSLConnection"),
        _ => Ok(false),
    }
}
