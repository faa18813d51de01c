//! Reads from a redis-py client where it connects to. The client itself is never used: we open our own connections.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

use crate::core::ErrorKind;
use crate::core::store::dsn::{Address, RedisOptions, Secret};
use crate::error;
use crate::number::{shown, type_name};

/// Where a client connects to unless it says otherwise, as in redis-py.
const DEFAULT_HOST: &str = "localhost";
const DEFAULT_PORT: u16 = 6379;

/// The place that `client` connects to, with its credentials and database; `None` when it is no such client.
///
/// Raises `InvalidStore` for what a connection of ours could not reproduce.
pub(crate) fn options(argument: &'static str, client: &Bound<'_, PyAny>) -> PyResult<Option<RedisOptions>> {
    if is_a(&client.get_type(), "RedisCluster")? {
        return Err(refused(argument, "is a client of a cluster; a client of one server is needed"));
    }
    let Some(pool) = client.getattr_opt("connection_pool")? else { return Ok(None) };
    let Some(settings) = pool.getattr_opt("connection_kwargs")? else { return Ok(None) };
    let Ok(settings) = settings.cast_into::<PyDict>() else { return Ok(None) };
    if is_a(&pool.get_type(), "SentinelConnectionPool")? {
        return Err(refused(argument, "is a client of a Sentinel; a client of one server is needed"));
    }
    let settings = Settings { argument, settings };
    if encrypted(&pool)? || settings.get("ssl")?.is_some_and(|ssl| ssl.is_truthy().unwrap_or(true)) {
        return Err(refused(argument, "connects through TLS, which is not supported yet"));
    }
    settings.options().map(Some)
}

/// The keyword arguments that a client gives to its connections.
struct Settings<'py> {
    argument: &'static str,
    settings: Bound<'py, PyDict>,
}

impl<'py> Settings<'py> {
    fn options(&self) -> PyResult<RedisOptions> {
        let address = match self.get("path")? {
            Some(path) => Address::Unix(path.extract::<PathBuf>()?),
            None => Address::Tcp(self.text("host")?.unwrap_or_else(|| DEFAULT_HOST.to_owned()), self.port()?),
        };
        let mut options = RedisOptions::new(address);
        options.database = self.number("db")?.unwrap_or(0);
        (options.username, options.password) = self.credentials()?;
        Ok(options)
    }

    fn port(&self) -> PyResult<u16> {
        Ok(self.number("port")?.unwrap_or(DEFAULT_PORT))
    }

    fn credentials(&self) -> PyResult<(Option<String>, Option<Secret>)> {
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

    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.settings.get_item(name)?.filter(|value| !value.is_none()))
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        match self.get(name)? {
            Some(value) => self.as_text(name, &value),
            None => Ok(None),
        }
    }

    /// An empty text says as much as none, as in redis-py.
    fn as_text(&self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<Option<String>> {
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

fn encrypted(pool: &Bound<'_, PyAny>) -> PyResult<bool> {
    match pool.getattr_opt("connection_class")?.map(Bound::cast_into::<PyType>) {
        Some(Ok(class)) => is_a(&class, "SSLConnection"),
        _ => Ok(false),
    }
}

/// Whether a class, or one it derives from, has this name. redis-py itself is not imported: it may not be installed.
fn is_a(class: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    for base in class.mro() {
        if base.cast::<PyType>()?.name()? == name {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused(argument: &'static str, detail: &str) -> PyErr {
    error::argument(ErrorKind::InvalidStore, argument, detail)
}
