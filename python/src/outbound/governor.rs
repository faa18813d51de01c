//! The governor: asked before a request and told after it.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use super::answer::{Fail, Go, Refuse, Retry, Return, Ticket, Wait};
use super::limit::{GlobalLimit, InvalidRequestLimit};
use super::observation::{Observation, with_response};
use super::options::{self, KIND, bytes, seconds_us};
use super::state::BucketState;
use crate::clock::Clock;
use crate::core;
use crate::core::clock::us_to_seconds;
use crate::core::outbound::{self, Before, Options, Outcome, Request};
use crate::error::OrRaise as _;
use crate::number::{Given, real};
use crate::store;

/// Keeps one client of an API under that API's limits; shared by all its threads. Sends nothing and never sleeps.
///
/// `preset` is the name of an API (`github`, `discord`, `openai` …), or `default`, `conservative` or `aggressive` for any
/// that speaks one of the common families of headers; what is not given is taken from it. `store` is where what is
/// learnt is kept, shared by everyone who uses the same one. All times are in seconds.
///
/// A host asks `before`, sleeps and asks `resume` as often as it is told to wait, sends, and tells `after`. The modules
/// `ratelimit_rs.httpx`, `.requests` and `.aiohttp` do that.
///
/// `strategy` is a function of a refusal's status, of how often the request has been sent again, and of its Observation or
/// None, that says in how many seconds to send it again, or None for the usual wait. `on_error` says what happens while the
/// store gives no answer: `local` has the store of this host take its place, `open` lets requests go, `closed` holds them
/// back, `throw` raises `StoreUnavailable`. `resolver` is a function of a method and a URL that says what the request is
/// counted under, or None to leave that to its route.
///
/// >>> governor = Governor("github", store=Store.memory(), clock=ManualClock())
/// >>> ticket = governor.before("GET", "https://api.github.com/user").ticket
/// >>> headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000060"), ("x-ratelimit-resource", "core")]
/// >>> type(governor.after(ticket, 200, headers)).__name__
/// 'Return'
/// >>> governor.before("GET", "https://api.github.com/user").delay
/// 61.0
// The examples are Python.
#[allow(clippy::doc_markdown)]
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct Governor {
    inner: outbound::Governor,
    clock: Clock,
    /// What a clock in Python said last, for the core to read.
    told: Option<Arc<core::ManualClock>>,
    blocks: bool,
}

#[pymethods]
impl Governor {
    #[new]
    #[pyo3(
        signature = (preset = "default", *, store = None, limits = None, global_limit = None, invalid_request_limit = None,
            max_retries = None, safety_buffer = Given(None), jitter = Given(None), max_delay = None,
            retry_status_codes = None, throw_on_rate_limit = None, clock = None, max_store_ttl = Given(None),
            secret = None, strategy = None, headers = None, on_error = None, resolver = None),
        text_signature = "(preset='default', *, store=None, limits=None, global_limit=None, invalid_request_limit=None, \
            max_retries=None, safety_buffer=1.0, jitter=0.0, max_delay=None, retry_status_codes=None, \
            throw_on_rate_limit=None, clock=None, max_store_ttl=86400.0, secret=None, strategy=None, headers=None, on_error='local', resolver=None)"
    )]
    // One argument per option, as users know them.
    #[allow(clippy::too_many_arguments)]
    fn new(
        preset: &str,
        store: Option<&Bound<'_, PyAny>>,
        limits: Option<&Bound<'_, PyAny>>,
        global_limit: Option<&Bound<'_, GlobalLimit>>,
        invalid_request_limit: Option<&Bound<'_, InvalidRequestLimit>>,
        max_retries: Option<&Bound<'_, PyAny>>,
        safety_buffer: Given<'_, '_>,
        jitter: Given<'_, '_>,
        max_delay: Option<&Bound<'_, PyAny>>,
        retry_status_codes: Option<Vec<u16>>,
        throw_on_rate_limit: Option<bool>,
        clock: Option<&Bound<'_, PyAny>>,
        max_store_ttl: Given<'_, '_>,
        secret: Option<&Bound<'_, PyAny>>,
        strategy: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyDict>>,
        on_error: Option<&str>,
        resolver: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (preset, mut set) = Options::named(preset).or_raise()?;
        if let Some(limits) = limits {
            set.limits = options::limits(limits)?;
        }
        if let Some(limit) = global_limit {
            set.global_limit = Some(limit.get().0.clone());
        }
        if let Some(limit) = invalid_request_limit {
            set.invalid_request_limit = Some(limit.get().0.clone());
        }
        if let Some(retries) = max_retries {
            set.max_retries = options::max_retries(retries)?;
        }
        set.safety_buffer_us = safety_buffer.or(set.safety_buffer_us, |value| seconds_us("safety_buffer", value))?;
        set.jitter = jitter.or(set.jitter, |value| real(KIND, "jitter", value))?;
        if let Some(delay) = max_delay {
            set.max_delay_us = Some(seconds_us("max_delay", delay)?);
        }
        set.retry_status_codes = retry_status_codes.unwrap_or(set.retry_status_codes);
        set.throw_on_rate_limit = throw_on_rate_limit.unwrap_or(set.throw_on_rate_limit);
        set.max_store_ttl_us = max_store_ttl.or(set.max_store_ttl_us, |value| seconds_us("max_store_ttl", value))?;
        set.secret = secret.map(|secret| bytes("secret", secret)).transpose()?.or(set.secret);
        if let Some(strategy) = strategy {
            set.strategy = options::strategy(strategy)?;
        }
        set.headers = headers.map(options::header_names).transpose()?;
        set.resolver = resolver.map(options::resolver).transpose()?;
        if let Some(rule) = on_error {
            set.on_error = rule.parse().or_raise()?;
        }

        let store = store::named("store", store)?;
        let blocks = store.kind().blocks();
        let mut inner = outbound::Governor::new(preset, set, store).or_raise()?;
        let clock = Clock::of(clock)?;
        let told = matches!(clock, Clock::Python(..)).then(|| Arc::new(core::ManualClock::new(0.0)));
        if let Some(clock) = clock.for_core().or_else(|| told.clone().map(|told| told as Arc<dyn core::Clock>)) {
            inner = inner.with_clock(clock);
        }
        Ok(Self { inner, clock, told, blocks })
    }

    /// Asks for a request to be sent: Go, Wait or Refuse.
    ///
    /// `authorization` is the value of that header, if there is one: whose budget it is. `identity` takes its place. Only
    /// a fingerprint is kept. With `enabled=False` the request goes as if there were no governor; `bucket` is what it is
    /// counted under, in place of what its route says; `max_delay` (None: as long as it takes) and `max_retries` take the
    /// place of the governor's.
    #[pyo3(
        signature = (method, url, *, authorization = None, enabled = true, bucket = None, identity = None,
            max_delay = Given(None), max_retries = Given(None)),
        text_signature = "($self, method, url, *, authorization=None, enabled=True, bucket=None, identity=None, \
            max_delay=..., max_retries=...)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn before(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        authorization: Option<&Bound<'_, PyAny>>,
        enabled: bool,
        bucket: Option<&str>,
        identity: Option<&Bound<'_, PyAny>>,
        max_delay: Given<'_, '_>,
        max_retries: Given<'_, '_>,
    ) -> PyResult<Py<PyAny>> {
        let authorization = authorization.map(|it| bytes("authorization", it)).transpose()?;
        let identity = identity.map(|it| bytes("identity", it)).transpose()?;
        let max_delay_us = max_delay.or(None, |value| {
            if value.is_none() {
                return Ok(Some(None));
            }
            seconds_us("max_delay", value).map(|us| Some(Some(us)))
        })?;
        let max_retries = max_retries.or(None, |value| options::max_retries(value).map(Some))?;
        let request = Request {
            authorization: authorization.as_deref(),
            identity: identity.as_deref(),
            enabled,
            bucket,
            max_delay_us,
            max_retries,
            ..Request::new(method, url)
        };
        self.read_clock(py)?;
        let before = self.run(py, || self.inner.before(&request)).or_raise()?;
        answer_before(py, before, None)
    }

    /// Asks again, after the wait that `before`, `resume` or `after` asked for: Go, Wait or Refuse.
    fn resume(&self, py: Python<'_>, ticket: &Bound<'_, Ticket>) -> PyResult<Py<PyAny>> {
        self.read_clock(py)?;
        let core = ticket.get().take();
        let before = self.run(py, || self.inner.resume(core)).or_raise()?;
        answer_before(py, before, Some(ticket))
    }

    /// Tells what came back: Return, Retry or Fail. `headers` and `body` are as `parse_headers` takes them.
    #[pyo3(signature = (ticket, status, headers, body = None), text_signature = "($self, ticket, status, headers, body=b'')")]
    fn after(
        &self,
        py: Python<'_>,
        ticket: &Bound<'_, Ticket>,
        status: u16,
        headers: &Bound<'_, PyAny>,
        body: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.read_clock(py)?;
        let core = ticket.get().take();
        let after = with_response(status, headers, body, |response| {
            self.run(py, || self.inner.after(core, response)).or_raise()
        })?;
        let observation = after.observation.map(|it| Py::new(py, Observation(it))).transpose()?;
        let invalid_limit_reached = after.invalid_limit_reached;
        match after.outcome {
            Outcome::Return => Ok(Py::new(py, Return { observation, invalid_limit_reached })?.into_any()),
            Outcome::Retry { delay_us, attempt, ticket: core } => {
                ticket.get().put(core);
                let (delay, ticket) = (us_to_seconds(delay_us), ticket.clone().unbind());
                let retry = Retry { delay, attempt, ticket, observation, invalid_limit_reached };
                Ok(Py::new(py, retry)?.into_any())
            }
            Outcome::Fail { retry_after_us, global, too_long } => {
                let retry_after = us_to_seconds(retry_after_us);
                let fail = Fail { retry_after, is_global: global, too_long, observation, invalid_limit_reached };
                Ok(Py::new(py, fail)?.into_any())
            }
        }
    }

    /// Tells that a request failed before any response came, so that others need not wait for what it would have told.
    fn abandon(&self, py: Python<'_>, ticket: &Bound<'_, Ticket>) -> PyResult<()> {
        self.read_clock(py)?;
        let core = ticket.get().take();
        self.run(py, || self.inner.abandon(&core)).or_raise()
    }

    /// What is known of the bucket that a request would be taken from; None when nothing is.
    #[pyo3(signature = (method, url, authorization = None, *, identity = None, bucket = None))]
    fn state(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        authorization: Option<&Bound<'_, PyAny>>,
        identity: Option<&Bound<'_, PyAny>>,
        bucket: Option<&str>,
    ) -> PyResult<Option<BucketState>> {
        self.about(py, (method, url), authorization, identity, bucket, outbound::Governor::state)
            .map(|state| state.map(BucketState))
    }

    /// Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that
    /// apply to it.
    #[pyo3(signature = (method, url, authorization = None, *, identity = None, bucket = None))]
    fn forget(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        authorization: Option<&Bound<'_, PyAny>>,
        identity: Option<&Bound<'_, PyAny>>,
        bucket: Option<&str>,
    ) -> PyResult<()> {
        self.about(py, (method, url), authorization, identity, bucket, outbound::Governor::forget)
    }

    /// What is left of the limit on everything, for the identity and host of a request; None without such a limit.
    #[pyo3(signature = (method, url, authorization = None, *, identity = None))]
    fn global_budget(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        authorization: Option<&Bound<'_, PyAny>>,
        identity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<BucketState>> {
        self.about(py, (method, url), authorization, identity, None, outbound::Governor::global_budget)
            .map(|state| state.map(BucketState))
    }

    /// What is left of the limit on invalid requests to the host of a request; None without such a limit.
    #[pyo3(signature = (method, url, authorization = None, *, identity = None))]
    fn invalid_request_budget(
        &self,
        py: Python<'_>,
        method: &str,
        url: &str,
        authorization: Option<&Bound<'_, PyAny>>,
        identity: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<BucketState>> {
        self.about(py, (method, url), authorization, identity, None, outbound::Governor::invalid_request_budget)
            .map(|state| state.map(BucketState))
    }

    /// Whether a response of this status has to be told with its body, since only that says whether it was refused.
    fn reads_body(&self, status: u16) -> bool {
        self.inner.preset().may_limit_with(status)
    }

    /// The name of the API it was made for.
    #[getter]
    fn preset(&self) -> &'static str {
        self.inner.preset().name()
    }

    /// Whether asking may take the time of a round trip to a server, so that an event loop should not wait for it.
    #[getter]
    fn blocks(&self) -> bool {
        self.blocks
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.outbound.Governor of preset '{}'>", self.preset())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.clock.traverse(&visit)
    }
}

impl Governor {
    fn about<R: Send>(
        &self,
        py: Python<'_>,
        (method, url): (&str, &str),
        authorization: Option<&Bound<'_, PyAny>>,
        identity: Option<&Bound<'_, PyAny>>,
        bucket: Option<&str>,
        ask: impl Fn(&outbound::Governor, &Request<'_>) -> core::Result<R> + Sync,
    ) -> PyResult<R> {
        let authorization = authorization.map(|it| bytes("authorization", it)).transpose()?;
        let identity = identity.map(|it| bytes("identity", it)).transpose()?;
        self.read_clock(py)?;
        let request = Request {
            authorization: authorization.as_deref(),
            identity: identity.as_deref(),
            bucket,
            ..Request::new(method, url)
        };
        self.run(py, || ask(&self.inner, &request)).or_raise()
    }

    /// Asks a clock in Python, before any lock is taken.
    fn read_clock(&self, py: Python<'_>) -> PyResult<()> {
        if let (Some(told), Some(now_us)) = (&self.told, self.clock.ask(py)?) {
            told.set_us(now_us);
        }
        Ok(())
    }

    /// Lets the interpreter's lock go where a server may have to be waited for.
    fn run<R: Send>(&self, py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
        if self.blocks { py.detach(work) } else { work() }
    }
}

/// An answer to `before` or `resume`, with the caller's own ticket where there is one already.
fn answer_before(py: Python<'_>, before: Before, ticket: Option<&Bound<'_, Ticket>>) -> PyResult<Py<PyAny>> {
    let wrapped = |core: Box<outbound::Ticket>| match ticket {
        Some(ticket) => {
            ticket.get().put(core);
            Ok(ticket.clone().unbind())
        }
        None => Py::new(py, Ticket::new(core)),
    };
    match before {
        Before::Go(core) => Ok(Py::new(py, Go { ticket: wrapped(core)? })?.into_any()),
        Before::Wait { delay_us, reason, ticket: core } => {
            let wait = Wait { delay: us_to_seconds(delay_us), reason: reason.as_str(), ticket: wrapped(core)? };
            Ok(Py::new(py, wait)?.into_any())
        }
        Before::Refuse { delay_us, reason } => {
            Ok(Py::new(py, Refuse { delay: us_to_seconds(delay_us), reason: reason.as_str() })?.into_any())
        }
    }
}
