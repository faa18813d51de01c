//! The answer to one call.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::core::algorithm::NEVER_US;
use crate::core::clock::us_to_seconds;
use crate::core::http::{self, HeaderStyle};
use crate::core::{self, ErrorKind};
use crate::error::{self, OrRaise as _};
use crate::policy::Policy;

/// The header styles by name.
const STYLES: [&str; 5] = ["ietf", "draft-7", "draft-3", "x-ratelimit", "none"];

/// The outcome of one call: whether it may go ahead, and the numbers that go with it. Truthy when allowed.
///
/// A decision is a snapshot: by the time you read it another process may have spent what remained. Schedule by
/// `retry_after`, not by `remaining`. All times are in seconds.
#[derive(Debug)]
// Decisions are made and dropped one after the other, so a few objects serve them all.
#[pyclass(frozen, freelist = 8, module = "ratelimit_rs")]
pub(crate) struct Decision {
    answer: Answer,
    policy: core::Policy,
}

#[derive(Debug)]
enum Answer {
    Made(core::Decision),
    Restored(Box<Restored>),
}

/// What pickle keeps of a decision.
#[derive(Debug)]
struct Restored {
    numbers: Numbers,
    /// Header text per style, made when the decision was pickled.
    headers: Vec<(String, Fields)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Numbers {
    allowed: bool,
    degraded: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: u64,
    reset_after_us: u64,
    delay_us: u64,
    source: &'static str,
}

type Fields = Vec<(String, String)>;

impl Decision {
    pub(crate) fn new(decision: core::Decision, policies: &[core::Policy]) -> Self {
        let policy = policies[decision.policy()].clone();
        Self { answer: Answer::Made(decision), policy }
    }

    fn numbers(&self) -> Numbers {
        match &self.answer {
            Answer::Made(decision) => Numbers {
                allowed: decision.allowed(),
                degraded: decision.degraded(),
                limit: decision.limit(),
                remaining: decision.remaining(),
                retry_after_us: decision.retry_after_us(),
                reset_after_us: decision.reset_after_us(),
                delay_us: decision.delay_us(),
                source: decision.source().as_str(),
            },
            Answer::Restored(restored) => restored.numbers,
        }
    }

    fn fields(&self, style: &str) -> PyResult<Fields> {
        let parsed: HeaderStyle = style.parse().or_raise()?;
        Ok(match &self.answer {
            Answer::Made(decision) => http::headers(decision, &self.policy, parsed)
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            Answer::Restored(restored) => {
                let mut kept = restored.headers.iter().filter(|(name, _)| name == style);
                kept.next().map(|(_, fields)| fields.clone()).unwrap_or_default()
            }
        })
    }
}

#[pymethods]
impl Decision {
    /// Whether the call may go ahead.
    #[getter]
    fn allowed(&self) -> bool {
        self.numbers().allowed
    }

    /// The largest cost that can ever pass.
    #[getter]
    fn limit(&self) -> u64 {
        self.numbers().limit
    }

    /// The largest cost that would pass now, from 0 to `limit`.
    #[getter]
    fn remaining(&self) -> u64 {
        self.numbers().remaining
    }

    /// Seconds until the same call passes, if nobody else calls: 0.0 when allowed, `math.inf` when it never can.
    #[getter]
    fn retry_after(&self) -> f64 {
        match self.numbers().retry_after_us {
            NEVER_US => f64::INFINITY,
            us => us_to_seconds(us),
        }
    }

    /// Seconds until the budget is whole again.
    #[getter]
    fn reset_after(&self) -> f64 {
        us_to_seconds(self.numbers().reset_after_us)
    }

    /// Seconds until the caller may start, for the verbs that hand out slots; else 0.0.
    #[getter]
    fn delay(&self) -> f64 {
        us_to_seconds(self.numbers().delay_us)
    }

    /// The name of the policy that ruled: refused with the longest wait, or has least left.
    #[getter]
    fn policy(&self) -> &str {
        self.policy.name()
    }

    /// Where the answer came from: store, `deny_cache`, lease, local, `fail_open` or `fail_closed`.
    #[getter]
    fn source(&self) -> &'static str {
        self.numbers().source
    }

    /// Whether the store could not be asked and a failure rule answered instead.
    #[getter]
    fn degraded(&self) -> bool {
        self.numbers().degraded
    }

    /// One decision per policy, in the order of the limiter's policies.
    fn each(slf: Bound<'_, Self>) -> Vec<Bound<'_, Self>> {
        vec![slf]
    }

    /// The header fields of a response: `ietf`, `draft-7`, `draft-3`, `x-ratelimit`, or `none` for Retry-After alone.
    ///
    /// A denial has a Retry-After, unless the call can never pass. Another style raises `InvalidArgument`.
    #[pyo3(signature = (style = "ietf"))]
    fn headers<'py>(&self, py: Python<'py>, style: &str) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        for (name, value) in self.fields(style)? {
            headers.set_item(name, value)?;
        }
        Ok(headers)
    }

    fn __bool__(&self) -> bool {
        self.numbers().allowed
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.numbers() == other.numbers() && self.policy == other.policy
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.numbers().hash(&mut hasher);
        self.policy.name().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let python = |value: bool| if value { "True" } else { "False" };
        let Numbers { allowed, degraded, limit, remaining, source, .. } = self.numbers();
        let (allowed, degraded) = (python(allowed), python(degraded));
        let (retry_after, reset_after, delay) = (self.retry_after(), self.reset_after(), self.delay());
        let policy = PyString::new(py, self.policy.name()).repr()?;
        Ok(format!(
            "Decision(allowed={allowed}, limit={limit}, remaining={remaining}, retry_after={retry_after:?}, \
             reset_after={reset_after:?}, delay={delay:?}, policy={policy}, source='{source}', degraded={degraded})"
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("ratelimit_rs._native")?.getattr("restore_decision")?;
        let Numbers { allowed, degraded, limit, remaining, retry_after_us, reset_after_us, delay_us, source } =
            self.numbers();
        let headers = STYLES.iter().map(|&style| Ok((style, self.fields(style)?))).collect::<PyResult<Vec<_>>>()?;
        let numbers = (allowed, degraded, limit, remaining, retry_after_us, reset_after_us, delay_us);
        let arguments = (numbers, source, Policy(self.policy.clone()), headers).into_pyobject(py)?;
        Ok((restore, arguments))
    }
}

/// Makes a decision from what pickle kept of it.
#[pyfunction]
pub(crate) fn restore_decision(
    numbers: (bool, bool, u64, u64, u64, u64, u64),
    source: &str,
    policy: &Bound<'_, Policy>,
    headers: Vec<(String, Fields)>,
) -> PyResult<Decision> {
    use core::Source::{DenyCache, FailClosed, FailOpen, Lease, Local, Store};
    let sources = [Store, DenyCache, Lease, Local, FailOpen, FailClosed];
    let Some(source) = sources.map(core::Source::as_str).into_iter().find(|&known| known == source) else {
        return Err(error::argument(ErrorKind::InvalidArgument, "source", format!("is unknown: {source:?}")));
    };
    let (allowed, degraded, limit, remaining, retry_after_us, reset_after_us, delay_us) = numbers;
    let numbers = Numbers { allowed, degraded, limit, remaining, retry_after_us, reset_after_us, delay_us, source };
    let answer = Answer::Restored(Box::new(Restored { numbers, headers }));
    Ok(Decision { answer, policy: policy.get().0.clone() })
}
