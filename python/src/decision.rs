//! The answer to one call.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::core::algorithm::{NEVER_US, Verdict};
use crate::core::clock::us_to_seconds;
use crate::core::http::{HeaderOptions, HeaderStyle};
use crate::core::{self, ErrorKind, Source, http};
use crate::error::{self, OrRaise as _};
use crate::key;
use crate::number::type_name;
use crate::policy::{self, Policy};
use crate::refusal::{self, Refusal};

/// The outcome of one call: whether it may go ahead, and the numbers that go with it. Truthy when allowed.
///
/// A decision is a snapshot: by the time you read it another process may have spent what remained. Schedule by
/// `retry_after`, not by `remaining`. All times are in seconds.
#[derive(Debug)]
// Decisions are made and dropped one after the other, so a few objects serve them all.
#[pyclass(frozen, freelist = 8, module = "ratelimit_rs")]
pub(crate) struct Decision {
    inner: core::Decision,
    /// Those of the limiter; the decision says which of them ruled.
    policies: Policies,
    /// When it was made by the limiter's clock, in microseconds since 1970; 0 where that is the store's own.
    at_us: u64,
}

impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner && self.policies == other.policies
    }
}

/// The policies of a limiter, shared with its decisions.
pub(crate) type Policies = Arc<[core::Policy]>;

impl Decision {
    pub(crate) fn new(inner: core::Decision, policies: &Policies, at_us: u64) -> Self {
        Self { inner, policies: policies.clone(), at_us }
    }

    /// How to write the headers.
    fn options<'a>(
        &self,
        style: &str,
        partition_key: Option<&'a Bound<'_, PyAny>>,
        quota_unit: Option<&'a str>,
    ) -> PyResult<HeaderOptions<'a>> {
        let mut options = HeaderOptions::from(style.parse::<HeaderStyle>().or_raise()?);
        if self.at_us != 0 {
            options = options.at_us(self.at_us);
        }
        if let Some(key) = partition_key {
            let wrong = || PyTypeError::new_err(format!("partition_key must be str or bytes, got {}", type_name(key)));
            options = options.partition_key(key::bytes(key)?.ok_or_else(wrong)?);
        }
        match quota_unit {
            Some(unit) => options.quota_unit(unit).or_raise(),
            None => Ok(options),
        }
    }

    /// Adds its numbers to the context of an event. A wait that never ends is None, which JSON has, too.
    pub(crate) fn describe(&self, context: &Bound<'_, PyDict>) -> PyResult<()> {
        context.set_item("allowed", self.inner.allowed())?;
        context.set_item("limit", self.inner.limit())?;
        context.set_item("remaining", self.inner.remaining())?;
        context.set_item("retry_after", self.inner.retry_after().map(|_| self.retry_after()))?;
        context.set_item("reset_after", self.reset_after())?;
        context.set_item("delay", self.delay())?;
        context.set_item("source", self.inner.source().as_str())?;
        context.set_item("degraded", self.inner.degraded())
    }

    fn ruling(&self) -> &core::Policy {
        &self.policies[self.inner.policy()]
    }
}

#[pymethods]
impl Decision {
    /// Whether the call may go ahead.
    #[getter]
    fn allowed(&self) -> bool {
        self.inner.allowed()
    }

    /// The largest cost that can ever pass.
    #[getter]
    fn limit(&self) -> u64 {
        self.inner.limit()
    }

    /// The largest cost that would pass now, from 0 to `limit`.
    #[getter]
    fn remaining(&self) -> u64 {
        self.inner.remaining()
    }

    /// Seconds until the same call passes, if nobody else calls: 0.0 when allowed, `math.inf` when it never can.
    #[getter]
    fn retry_after(&self) -> f64 {
        match self.inner.retry_after_us() {
            NEVER_US => f64::INFINITY,
            us => us_to_seconds(us),
        }
    }

    /// Seconds until the budget is whole again.
    #[getter]
    fn reset_after(&self) -> f64 {
        us_to_seconds(self.inner.reset_after_us())
    }

    /// Seconds until the caller may start, for a reservation; else 0.0.
    #[getter]
    fn delay(&self) -> f64 {
        us_to_seconds(self.inner.delay_us())
    }

    /// The name of the policy that ruled: refused with the longest wait, or has least left.
    #[getter]
    fn policy(&self) -> &str {
        self.ruling().name()
    }

    /// Where the answer came from: store, `deny_cache`, lease, local, `fail_open` or `fail_closed`.
    #[getter]
    fn source(&self) -> &'static str {
        self.inner.source().as_str()
    }

    /// Whether the store could not be asked and a failure rule answered instead.
    #[getter]
    fn degraded(&self) -> bool {
        self.inner.degraded()
    }

    /// One decision per policy, in the order of the limiter's policies.
    fn each(&self) -> Vec<Self> {
        self.inner.each().iter().map(|decision| Self::new(decision.clone(), &self.policies, self.at_us)).collect()
    }

    /// The header fields of a response: `ietf`, `draft-7`, `draft-3`, `x-ratelimit`, `x-ratelimit-epoch` with the reset
    /// in seconds since 1970, or `none` for Retry-After alone.
    ///
    /// A denial has a Retry-After, in whole seconds rounded up, unless the call can never pass. With several policies
    /// `ietf` tells of all of them in the order given, `draft-7` lists them all, and the other numbers are those of the
    /// policy that ruled. `partition_key` says in `ietf` whose budget it is, str or bytes: no raw identity, since whoever
    /// sees the response can read it. `quota_unit` says there what is counted, such as `content-bytes`; without it
    /// requests. Another style, or a unit that is not printable ASCII, raises `InvalidArgument`.
    #[pyo3(signature = (style = "ietf", *, partition_key = None, quota_unit = None))]
    fn headers<'py>(
        &self,
        py: Python<'py>,
        style: &str,
        partition_key: Option<&Bound<'_, PyAny>>,
        quota_unit: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = self.options(style, partition_key, quota_unit)?;
        refusal::fields(py, &http::headers(&self.inner, &self.policies, options))
    }

    /// Problem details (RFC 9457) of a denial, for a body of the type `application/problem+json`; None where the call
    /// was allowed.
    ///
    /// `type` says why: `quota-exceeded`, `temporary-reduced-capacity` or `abnormal-usage-detected`. Without it, and where
    /// the failure rule refuses since the store is away, it goes by the decision. Another type raises `InvalidArgument`.
    #[pyo3(signature = (r#type = None))]
    fn problem<'py>(&self, py: Python<'py>, r#type: Option<&str>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let type_ = r#type.map(str::parse).transpose().or_raise()?;
        let Some(problem) = http::problem(&self.inner, &self.policies, type_) else { return Ok(None) };
        let members = PyDict::new(py);
        members.set_item("type", problem.type_uri)?;
        members.set_item("title", problem.title)?;
        members.set_item("status", problem.status)?;
        members.set_item("detail", problem.detail)?;
        if !problem.violated_policies.is_empty() {
            members.set_item("violated-policies", problem.violated_policies)?;
        }
        Ok(Some(members))
    }

    /// The whole answer to a call that was denied, for whatever makes responses; None where it was allowed.
    ///
    /// The headers are those of `headers`, with `Cache-Control: no-store` and the `Content-Type` of the body. `body` is
    /// `problem` for what `problem` gives, as JSON, `json` for `{"error":"Too many requests","retry_after":60}`, or
    /// `none`. What is not known raises `InvalidArgument`.
    #[pyo3(signature = (style = "ietf", body = "problem", r#type = None, *, partition_key = None, quota_unit = None))]
    fn refusal(
        &self,
        style: &str,
        body: &str,
        r#type: Option<&str>,
        partition_key: Option<&Bound<'_, PyAny>>,
        quota_unit: Option<&str>,
    ) -> PyResult<Option<Refusal>> {
        let (body, type_) = (body.parse().or_raise()?, r#type.map(str::parse).transpose().or_raise()?);
        let options = self.options(style, partition_key, quota_unit)?;
        Ok(http::refusal(&self.inner, &self.policies, options, body, type_).map(Refusal))
    }

    fn __bool__(&self) -> bool {
        self.allowed()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self == other
    }

    fn __hash__(&self) -> u64 {
        // Equal decisions have equal numbers and ruling policies of one name.
        let mut hasher = DefaultHasher::new();
        (Numbers::of(&self.inner), self.policy()).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let python = |value: bool| if value { "True" } else { "False" };
        let (allowed, degraded) = (python(self.allowed()), python(self.degraded()));
        let (limit, remaining, source) = (self.limit(), self.remaining(), self.source());
        let (retry_after, reset_after, delay) = (self.retry_after(), self.reset_after(), self.delay());
        let policy = PyString::new(py, self.policy()).repr()?;
        Ok(format!(
            "Decision(allowed={allowed}, limit={limit}, remaining={remaining}, retry_after={retry_after:?}, \
             reset_after={reset_after:?}, delay={delay:?}, policy={policy}, source='{source}', degraded={degraded})"
        ))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("ratelimit_rs._native")?.getattr("restore_decision")?;
        let each: Vec<Numbers> = self.inner.each().iter().map(Numbers::of).collect();
        let policies: Vec<Policy> = self.policies.iter().map(|policy| Policy(policy.clone())).collect();
        Ok((restore, (each, policies).into_pyobject(py)?))
    }
}

/// What pickle keeps of the decision of one policy; the policy is its place in the list.
#[derive(Debug, Hash, FromPyObject, IntoPyObject)]
pub(crate) struct Numbers(bool, u64, u64, u64, u64, u64, u32, String);

impl Numbers {
    fn of(decision: &core::Decision) -> Self {
        Self(
            decision.allowed(),
            decision.limit(),
            decision.remaining(),
            decision.retry_after_us(),
            decision.reset_after_us(),
            decision.delay_us(),
            // A limiter has few policies.
            u32::try_from(decision.policy()).unwrap_or(u32::MAX),
            decision.source().as_str().to_owned(),
        )
    }

    fn decision(self, policies: &Policies) -> PyResult<core::Decision> {
        let Self(allowed, limit, remaining, retry_after_us, reset_after_us, delay_us, policy, source) = self;
        let unknown = |argument, detail| error::argument(ErrorKind::InvalidArgument, argument, detail);
        let known = Source::ALL.into_iter().find(|known| known.as_str() == source);
        let Some(source) = known else { return Err(unknown("source", format!("is unknown: {source:?}"))) };
        if policy as usize >= policies.len() {
            return Err(unknown("policy", format!("must be below {}, got {policy}", policies.len())));
        }
        let verdict = Verdict { allowed, remaining, retry_after_us, reset_after_us, delay_us };
        Ok(core::Decision::new(verdict, limit, policy, source))
    }
}

/// Makes a decision from what pickle kept of it: the numbers of each policy's decision, and the policies.
#[pyfunction]
pub(crate) fn restore_decision(each: Vec<Numbers>, policies: &Bound<'_, PyAny>) -> PyResult<Decision> {
    let policies: Policies = policy::list(policies)?.into();
    let mut each = each.into_iter().map(|numbers| numbers.decision(&policies)).collect::<PyResult<Vec<_>>>()?;
    let inner = match each.len() {
        0 => return Err(error::argument(ErrorKind::InvalidArgument, "each", "must not be empty")),
        1 => each.swap_remove(0),
        _ => core::Decision::over(each),
    };
    Ok(Decision { inner, policies, at_us: 0 })
}
