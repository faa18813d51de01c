//! The whole answer to a request that does not go ahead.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::core::http::{self, BodyStyle, Field, HeaderStyle, ProblemType};
use crate::error::OrRaise as _;

/// The answer to a request that does not go ahead, for any HTTP library to send.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs.http")]
pub(crate) struct Refusal(pub(crate) http::Refusal);

#[pymethods]
impl Refusal {
    /// 429, 503 where the service is to blame, or 403 for a caller who cannot be told from others.
    #[getter]
    fn status(&self) -> u16 {
        self.0.status
    }

    /// The header fields, with those of the body.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fields(py, &self.0.headers)
    }

    /// The body; empty where none was asked for.
    #[getter]
    fn body(&self) -> &str {
        &self.0.body
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.http.Refusal {}>", self.status())
    }
}

/// The answer to a request that does not say who is calling, where such requests are rejected: 403.
///
/// `body` is `problem`, `json` or `none`; another raises `InvalidArgument`.
#[pyfunction]
#[pyo3(signature = (body = "problem"))]
pub(crate) fn unidentified(body: &str) -> PyResult<Refusal> {
    Ok(Refusal(http::unidentified(body.parse().or_raise()?)))
}

/// Raises `InvalidArgument` unless there are that style, that body and that type of a problem.
#[pyfunction]
#[pyo3(name = "_check_answer", signature = (style, body, r#type))]
pub(crate) fn check_answer(style: &str, body: &str, r#type: Option<&str>) -> PyResult<()> {
    style.parse::<HeaderStyle>().or_raise()?;
    body.parse::<BodyStyle>().or_raise()?;
    r#type.map(str::parse::<ProblemType>).transpose().or_raise()?;
    Ok(())
}

/// Header fields as a dict.
pub(crate) fn fields<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyDict>> {
    let headers = PyDict::new(py);
    for (name, value) in fields {
        headers.set_item(name, value)?;
    }
    Ok(headers)
}
