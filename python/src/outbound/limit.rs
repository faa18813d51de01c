//! Limits that are set and not learnt.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::core::ErrorKind;
use crate::core::outbound::{self, Applies, Scope};
use crate::error::OrRaise as _;
use crate::number::{Given, real, type_name, units};
use crate::policy::Policy;

/// A limit of one's own on requests, by any policy.
///
/// `scope` says whose requests one budget counts: `identity` (each identity on each host), `host`, `route` or
/// `everything`. `applies_to` is a pattern for paths, in which `*` stands for anything, a list of them, or a function of
/// the method and the URL.
///
/// >>> Limit(Policy.sliding_window_log(10, 1), scope="host", applies_to="/v2/*")
/// <ratelimit_rs.outbound.Limit 10/1s log>
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct Limit(pub(crate) outbound::Limit);

#[pymethods]
impl Limit {
    #[new]
    #[pyo3(signature = (policy, *, scope = "identity", applies_to = None, name = None))]
    fn new(
        policy: &Bound<'_, PyAny>,
        scope: &str,
        applies_to: Option<&Bound<'_, PyAny>>,
        name: Option<&str>,
    ) -> PyResult<Self> {
        let mut policy = match (policy.cast::<Policy>(), policy.cast::<PyString>()) {
            (Ok(policy), _) => policy.get().0.clone(),
            (_, Ok(text)) => text.to_str()?.parse().or_raise()?,
            _ => return Err(PyTypeError::new_err(format!("policy must be a Policy, got {}", type_name(policy)))),
        };
        if let Some(name) = name {
            policy = policy.named(name).or_raise()?;
        }
        let limit = outbound::Limit::new(policy).scope(Scope::parse(scope).or_raise()?);
        Ok(Self(limit.applies_to(applies(applies_to)?)))
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.outbound.Limit {}>", self.0.policy())
    }
}

fn applies(applies_to: Option<&Bound<'_, PyAny>>) -> PyResult<Applies> {
    let Some(applies_to) = applies_to else { return Ok(Applies::All) };
    if let Ok(pattern) = applies_to.cast::<PyString>() {
        return Ok(Applies::Paths(vec![pattern.to_string()]));
    }
    if applies_to.is_callable() {
        let function = applies_to.clone().unbind();
        return Ok(Applies::When(Arc::new(move |method, url| {
            Python::attach(|py| {
                let said = function.bind(py).call1((method, url)).and_then(|said| said.is_truthy());
                // A limit is rather kept than lost over a function that fails.
                said.unwrap_or_else(|error| {
                    error.write_unraisable(py, Some(function.bind(py)));
                    true
                })
            })
        })));
    }
    applies_to.extract::<Vec<String>>().map(Applies::Paths).map_err(|_| {
        let got = type_name(applies_to);
        PyTypeError::new_err(format!("applies_to must be str, a list of str or a function, got {got}"))
    })
}

/// A limit on everything that one identity sends to a host: at most `limit` requests in any `window` seconds.
///
/// Paths that fit one of `exempt_paths`, in which `*` stands for anything, are neither counted nor held back.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct GlobalLimit(pub(crate) outbound::GlobalLimit);

#[pymethods]
impl GlobalLimit {
    #[new]
    #[pyo3(
        signature = (limit, window = Given(None), exempt_paths = Vec::new()),
        text_signature = "(limit, window=1.0, exempt_paths=())"
    )]
    fn new(limit: &Bound<'_, PyAny>, window: Given<'_, '_>, exempt_paths: Vec<String>) -> PyResult<Self> {
        let limit = units(ErrorKind::InvalidPolicy, "limit", limit)?;
        let window = window.or(1.0, |window| real(ErrorKind::InvalidPolicy, "window", window))?;
        outbound::GlobalLimit::new(limit, window, exempt_paths).map(Self).or_raise()
    }
}

/// A limit on requests that an API calls invalid, beyond which it shuts the address out: at most `limit` responses of one
/// of `status_codes` in about `window` seconds. Those of one of `ignored_scopes` (None is `shared`) are not counted.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct InvalidRequestLimit(pub(crate) outbound::InvalidRequestLimit);

#[pymethods]
impl InvalidRequestLimit {
    #[new]
    #[pyo3(
        signature = (limit = Given(None), window = Given(None), status_codes = vec![401, 403, 429], ignored_scopes = None),
        text_signature = "(limit=10000, window=600.0, status_codes=(401, 403, 429), ignored_scopes=None)"
    )]
    fn new(
        limit: Given<'_, '_>,
        window: Given<'_, '_>,
        status_codes: Vec<u16>,
        ignored_scopes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let ignored_scopes = ignored_scopes.unwrap_or_else(|| vec!["shared".to_owned()]);
        let limit = limit.or(10_000, |limit| units(ErrorKind::InvalidPolicy, "limit", limit))?;
        let window = window.or(600.0, |window| real(ErrorKind::InvalidPolicy, "window", window))?;
        outbound::InvalidRequestLimit::new(limit, window, status_codes, ignored_scopes).map(Self).or_raise()
    }
}
