//! What one response told about a remote API's limits.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::core::clock::{SystemClock, us_to_seconds};
use crate::core::outbound::{self, Options, Response};
use crate::core::{Clock as _, ErrorKind};
use crate::error::OrRaise as _;
use crate::number::{instant_us, real, type_name};

/// What one response told about a remote API's limits. Times are in seconds; what the response did not say is None.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs.outbound")]
pub(crate) struct Observation(pub(crate) outbound::Observation);

#[pymethods]
impl Observation {
    /// Units per window, of the quota that runs out first.
    #[getter]
    fn limit(&self) -> Option<Count> {
        self.0.limit().map(Count)
    }

    /// Units left. Some APIs count in fractions.
    #[getter]
    fn remaining(&self) -> Option<Count> {
        self.0.remaining().map(Count)
    }

    /// Until the quota is whole again.
    #[getter]
    fn reset_after(&self) -> Option<f64> {
        self.0.reset_after_us().map(us_to_seconds)
    }

    /// The instant of the reset, in seconds since 1970.
    #[getter]
    fn reset_at(&self) -> Option<f64> {
        self.0.reset_at_us().map(us_to_seconds)
    }

    /// What `Retry-After`, or what the API has in its place, asks for.
    #[getter]
    fn retry_after(&self) -> Option<f64> {
        self.0.retry_after_us().map(us_to_seconds)
    }

    /// What the API counts the request under.
    #[getter]
    fn bucket(&self) -> Option<&str> {
        self.0.bucket()
    }

    /// Which of the API's limits it is about, in the API's own words.
    #[getter]
    fn scope(&self) -> Option<&str> {
        self.0.scope()
    }

    /// Whether the request was turned away by a rate limit.
    #[getter]
    fn rate_limited(&self) -> bool {
        self.0.rate_limited()
    }

    /// Whether the limit is on everything that this identity sends.
    #[getter]
    fn is_global(&self) -> bool {
        self.0.global()
    }

    /// How long to wait before sending again; None when it was not turned away, or when nothing says how long.
    #[getter]
    fn wait(&self) -> Option<f64> {
        self.0.wait_us().map(us_to_seconds)
    }

    /// Every quota that the response speaks of.
    #[getter]
    fn quotas(&self) -> Vec<Quota> {
        self.0.quotas().iter().cloned().map(Quota).collect()
    }

    fn __repr__(&self) -> String {
        let count = |count: Option<f64>| count.map_or("None".to_owned(), |count| count.to_string());
        format!(
            "<ratelimit_rs.outbound.Observation limit={} remaining={} rate_limited={}>",
            count(self.0.limit()),
            count(self.0.remaining()),
            if self.0.rate_limited() { "True" } else { "False" }
        )
    }
}

/// One of the things that a remote API counts. Times are in seconds.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs.outbound")]
pub(crate) struct Quota(outbound::Quota);

#[pymethods]
impl Quota {
    /// What the API calls it.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.name()
    }

    /// Units per window.
    #[getter]
    fn limit(&self) -> Option<Count> {
        self.0.limit().map(Count)
    }

    /// Units left.
    #[getter]
    fn remaining(&self) -> Option<Count> {
        self.0.remaining().map(Count)
    }

    /// Until it is whole again.
    #[getter]
    fn reset_after(&self) -> Option<f64> {
        self.0.reset_after_us().map(us_to_seconds)
    }

    /// The length of its window.
    #[getter]
    fn window(&self) -> Option<f64> {
        self.0.window_us().map(us_to_seconds)
    }
}

/// A count: an `int` where it is whole.
pub(crate) struct Count(f64);

impl<'py> IntoPyObject<'py> for Count {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        // Counts are not negative and have at most 15 digits.
        if self.0.fract() == 0.0 {
            return Ok((self.0 as u64).into_pyobject(py)?.into_any());
        }
        Ok(self.0.into_pyobject(py)?.into_any())
    }
}

/// Reads what a response says about limits; None when it says nothing. Never raises for what a server sent.
///
/// `preset` is the name of an API, such as `github`. `headers` is a list of pairs (or a mapping) of str or bytes; a field
/// on several lines stands there several times. `now` is the client's clock in seconds since 1970, by default this
/// machine's; where the response has a `Date`, instants are counted from that one.
///
/// >>> parse_headers("reddit", 200, [("x-ratelimit-used", "5"), ("x-ratelimit-remaining", "595.0")]).limit
/// 600
#[pyfunction]
#[pyo3(signature = (preset, status, headers, body = None, now = None))]
pub(crate) fn parse_headers(
    preset: &str,
    status: u16,
    headers: &Bound<'_, PyAny>,
    body: Option<&Bound<'_, PyAny>>,
    now: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Observation>> {
    let (preset, _) = Options::named(preset).or_raise()?;
    let now_us = match now {
        None => SystemClock.now_us(),
        Some(now) => instant_us("now", real(ErrorKind::InvalidArgument, "now", now)?)?,
    };
    with_response(status, headers, body, |response| {
        Ok(outbound::parse_headers(preset, response, now_us).map(Observation))
    })
}

/// Calls `read` with a response as the core takes it.
pub(crate) fn with_response<R>(
    status: u16,
    headers: &Bound<'_, PyAny>,
    body: Option<&Bound<'_, PyAny>>,
    read: impl FnOnce(&Response<'_>) -> PyResult<R>,
) -> PyResult<R> {
    let pairs = pairs(headers)?;
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let body = match body {
        None => &[][..],
        Some(body) => crate::key::bytes(body)?
            .ok_or_else(|| PyTypeError::new_err(format!("body must be bytes or str, got {}", type_name(body))))?,
    };
    read(&Response { status, headers: &pairs, body })
}

fn pairs(headers: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let items = headers.getattr_opt(pyo3::intern!(headers.py(), "items"))?;
    let items = match items.filter(PyAnyMethods::is_callable) {
        Some(items) => items.call0()?,
        None => headers.clone(),
    };
    let wrong = |it: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!("headers must be pairs of str or bytes, got {}", type_name(it)))
    };
    let items = items.try_iter().map_err(|_| wrong(headers))?;
    let text = |it: &Bound<'_, PyAny>| -> PyResult<String> {
        if let Ok(text) = it.cast::<PyString>() {
            return Ok(text.to_string_lossy().into_owned());
        }
        match it.cast::<PyBytes>() {
            // Header bytes are ASCII, or of an encoding that nobody knows.
            Ok(bytes) => Ok(String::from_utf8_lossy(bytes.as_bytes()).into_owned()),
            Err(_) => Err(wrong(it)),
        }
    };
    items
        .map(|item| {
            let item = item?;
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract().map_err(|_| wrong(&item))?;
            Ok((text(&name)?, text(&value)?))
        })
        .collect()
}
