//! The options of a governor as Python gives them.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::limit::Limit;
use super::observation::Observation;
use crate::core::ErrorKind;
use crate::core::clock::seconds_to_us;
use crate::core::outbound::{self, HeaderNames, Strategy};
use crate::error;
use crate::number::{real, type_name};

pub(super) const KIND: ErrorKind = ErrorKind::InvalidArgument;

pub(super) fn limits(limits: &Bound<'_, PyAny>) -> PyResult<Vec<outbound::Limit>> {
    let wrong = |it: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!("limits must be a list of outbound.Limit, got {}", type_name(it)))
    };
    let items = limits.try_iter().map_err(|_| wrong(limits))?;
    items
        .map(|item| {
            let item = item?;
            item.cast::<Limit>().map(|limit| limit.get().0.clone()).map_err(|_| wrong(&item))
        })
        .collect()
}

pub(super) fn strategy(strategy: &Bound<'_, PyAny>) -> PyResult<Strategy> {
    if !strategy.is_callable() {
        return Err(PyTypeError::new_err(format!("strategy must be a function, got {}", type_name(strategy))));
    }
    let function = strategy.clone().unbind();
    Ok(Strategy::Custom(Arc::new(move |context| {
        Python::attach(|py| {
            let observation = context.observation.cloned().map(Observation);
            let said = function.bind(py).call1((context.status, context.attempt, observation));
            // The usual wait stands in for a function that fails.
            said.and_then(|said| said.extract::<Option<f64>>()).map_or_else(
                |error| {
                    error.write_unraisable(py, Some(function.bind(py)));
                    None
                },
                |seconds| seconds.map(seconds_to_us),
            )
        })
    })))
}

pub(super) fn resolver(resolver: &Bound<'_, PyAny>) -> PyResult<outbound::Resolver> {
    if !resolver.is_callable() {
        return Err(PyTypeError::new_err(format!("resolver must be a function, got {}", type_name(resolver))));
    }
    let function = resolver.clone().unbind();
    Ok(Arc::new(move |method, url| {
        Python::attach(|py| {
            let said = function.bind(py).call1((method, url));
            // The route stands in for a function that fails.
            said.and_then(|said| said.extract::<Option<String>>()).unwrap_or_else(|error| {
                error.write_unraisable(py, Some(function.bind(py)));
                None
            })
        })
    }))
}

pub(super) fn header_names(names: &Bound<'_, PyDict>) -> PyResult<HeaderNames> {
    const KNOWN: [&str; 6] = ["limit", "remaining", "reset", "retry_after", "bucket", "scope"];
    for key in names.keys() {
        let key: String = key.extract()?;
        if !KNOWN.contains(&key.as_str()) {
            let detail = format!("must have no entry but {}, got {key:?}", KNOWN.join(", "));
            return Err(error::argument(KIND, "headers", detail));
        }
    }
    let optional = |key: &str| -> PyResult<Option<String>> { names.get_item(key)?.map(|it| it.extract()).transpose() };
    let required = |key: &str| optional(key).map(|it| it.unwrap_or_default().into());
    Ok(HeaderNames {
        limit: required("limit")?,
        remaining: required("remaining")?,
        reset: required("reset")?,
        retry_after: optional("retry_after")?.map(Into::into),
        bucket: optional("bucket")?.map(Into::into),
        scope: optional("scope")?.map(Into::into),
    })
}

pub(super) fn max_retries(value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let wrong = || {
        let detail = format!("must be an integer between 0 and 100, got {}", crate::number::shown(value));
        error::argument(KIND, "max_retries", detail)
    };
    if value.is_instance_of::<pyo3::types::PyBool>() {
        return Err(wrong());
    }
    match value.extract::<u32>() {
        Ok(retries) if retries <= 100 => Ok(retries),
        Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
            Err(PyTypeError::new_err(format!("max_retries must be an int, got {}", type_name(value))))
        }
        _ => Err(wrong()),
    }
}

pub(super) fn seconds_us(argument: &'static str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match real(KIND, argument, value)? {
        seconds if seconds.is_finite() && seconds >= 0.0 => Ok(seconds_to_us(seconds)),
        _ => Err(error::argument(KIND, argument, format!("must be seconds, got {}", crate::number::shown(value)))),
    }
}

pub(super) fn bytes(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match crate::key::bytes(value)? {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(PyTypeError::new_err(format!("{argument} must be str or bytes, got {}", type_name(value)))),
    }
}
