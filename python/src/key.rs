//! Keys and tokens as Python gives them.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::core::Keys;
use crate::number::type_name;

/// Calls `ask` with the key of a call: a `str` or `bytes` for all policies, or a `dict` with one for each by name.
pub(crate) fn with<R>(key: &Bound<'_, PyAny>, ask: impl FnOnce(Keys<'_>) -> PyResult<R>) -> PyResult<R> {
    if let Some(bytes) = bytes(key)? {
        return ask(Keys::One(bytes));
    }
    let held = Held::of(key)?;
    ask(held.read()?.keys())
}

/// A key that is kept while others are read, or a server is asked.
pub(crate) struct Held<'py> {
    key: Bound<'py, PyAny>,
    /// The pairs of a dict, which another thread may change in the meantime.
    pairs: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
}

/// The bytes of a held key.
pub(crate) enum Read<'a> {
    One(&'a [u8]),
    Each(Vec<(&'a str, &'a [u8])>),
}

impl<'py> Held<'py> {
    pub(crate) fn of(key: &Bound<'py, PyAny>) -> PyResult<Self> {
        let pairs = if let Ok(keys) = key.cast::<PyDict>() {
            keys.iter().collect()
        } else if key.is_instance_of::<PyString>() || key.is_instance_of::<PyBytes>() {
            Vec::new()
        } else {
            return Err(PyTypeError::new_err(format!("key must be str, bytes or dict, got {}", type_name(key))));
        };
        Ok(Self { key: key.clone(), pairs })
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.key.py()
    }

    pub(crate) fn read(&self) -> PyResult<Read<'_>> {
        if let Some(bytes) = bytes(&self.key)? {
            return Ok(Read::One(bytes));
        }
        let pairs = self.pairs.iter().map(|(name, key)| Ok((policy_name(name)?, policy_key(name, key)?)));
        Ok(Read::Each(pairs.collect::<PyResult<_>>()?))
    }
}

impl Read<'_> {
    pub(crate) fn keys(&self) -> Keys<'_> {
        match self {
            Self::One(key) => Keys::One(key),
            Self::Each(pairs) => Keys::Each(pairs),
        }
    }
}

/// A key that borrows nothing of Python's.
#[derive(Debug)]
pub(crate) enum Owned {
    One(Box<[u8]>),
    Each(Vec<(Box<str>, Box<[u8]>)>),
}

impl Owned {
    pub(crate) fn of(key: &Bound<'_, PyAny>) -> PyResult<Self> {
        match bytes(key)? {
            Some(bytes) => Ok(Self::One(bytes.into())),
            None => Ok(Self::from(&Held::of(key)?.read()?)),
        }
    }

    pub(crate) fn read(&self) -> Read<'_> {
        match self {
            Self::One(key) => Read::One(key),
            Self::Each(pairs) => Read::Each(pairs.iter().map(|(name, key)| (&**name, &**key)).collect()),
        }
    }
}

impl From<&Read<'_>> for Owned {
    fn from(key: &Read<'_>) -> Self {
        match key {
            Read::One(key) => Self::One((*key).into()),
            Read::Each(pairs) => Self::Each(pairs.iter().map(|&(name, key)| (name.into(), key.into())).collect()),
        }
    }
}

/// A key that is no dict.
pub(crate) fn one<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    let wrong = || PyTypeError::new_err(format!("key must be str or bytes, got {}", type_name(key)));
    bytes(key)?.ok_or_else(wrong)
}

/// The bytes of an idempotency token, if there is one.
pub(crate) fn token<'a>(token: Option<&'a Bound<'_, PyAny>>) -> PyResult<Option<&'a [u8]>> {
    let Some(token) = token else { return Ok(None) };
    match bytes(token)? {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(PyTypeError::new_err(format!("token must be str or bytes, got {}", type_name(token)))),
    }
}

/// The bytes of a `str` (as UTF-8) or of a `bytes`, borrowed from the object; `None` for anything else.
pub(crate) fn bytes<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    if let Ok(text) = object.cast::<PyString>() {
        // Fails for a text that UTF-8 cannot encode.
        return text.to_str().map(|text| Some(text.as_bytes()));
    }
    Ok(object.cast::<PyBytes>().ok().map(PyBytesMethods::as_bytes))
}

fn policy_name<'a>(name: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    match name.cast::<PyString>() {
        Ok(name) => name.to_str(),
        Err(_) => Err(PyTypeError::new_err(format!("key must name its policies by str, got {}", type_name(name)))),
    }
}

fn policy_key<'a>(name: &Bound<'_, PyAny>, key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    let wrong = || PyTypeError::new_err(format!("key of policy {name:?} must be str or bytes, got {}", type_name(key)));
    bytes(key)?.ok_or_else(wrong)
}
