//! A key as Python gives it.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::number::type_name;

/// The bytes of a `str` (as UTF-8) or of a `bytes`, borrowed from the object.
pub(crate) fn bytes<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    match key.extract::<&str>() {
        Ok(text) => return Ok(text.as_bytes()),
        // A text that UTF-8 cannot encode.
        Err(error) if key.is_instance_of::<PyString>() => return Err(error),
        Err(_) => {}
    }
    match key.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => Err(PyTypeError::new_err(format!("key must be str or bytes, got {}", type_name(key)))),
    }
}
