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
    let Ok(keys) = key.cast::<PyDict>() else {
        return Err(PyTypeError::new_err(format!("key must be str, bytes or dict, got {}", type_name(key))));
    };
    // The pairs are held, since another thread may change the dict while a server is asked.
    let held: Vec<_> = keys.iter().collect();
    let pairs = held.iter().map(|(name, key)| Ok((policy_name(name)?, policy_key(name, key)?)));
    let pairs = pairs.collect::<PyResult<Vec<_>>>()?;
    ask(Keys::Each(&pairs))
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
