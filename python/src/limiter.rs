//! A policy bound to a store and to options: what a program holds.

use std::fmt::Debug;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PySequence;
use pyo3::{PyTraverseError, PyVisit};

use crate::batch;
use crate::call::Extras;
use crate::clock::Clock;
use crate::core::events;
use crate::core::{self, Call, ErrorKind, FailureRule, WaitStep, Waiting};
use crate::decision::{Decision, Policies};
use crate::error::OrRaise as _;
use crate::events::Listeners;
use crate::key;
use crate::number::{self, Given, count, max_wait_us, type_name};
use crate::policy::{self, Policy};
use crate::store;

/// Decides by one policy or several, with the state in one store.
///
/// `policies` is a Policy or a list of them: all are charged, or none is, in one atomic step. `store` is None for the
/// default store (the environment variable `RATELIMIT_STORE`, else `shared:`), a DSN, a Store, or a client of
/// redis-py (of one server, of a Sentinel's primary, of a cluster), of which only the addresses, the credentials and the
/// encryption are read. Cheap to build: nothing is sent to the store until the first call.
///
/// `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
/// refuses, `local` decides in the shared store by the limit divided by `share`; such a decision is `degraded`.
/// `hash_keys` stores every key as its hash, keyed with `secret`: str or bytes, or a sequence of up to 4 while one secret
/// takes over from another, the new one first. A call is then charged under each, all or nothing, so that processes with
/// either share their limits; drop the old one when all have had both for as long as the longest window. `clock` replaces the store's own clock: a
/// `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.
///
/// `on_decision` is called with a `DecisionEvent` for each decision and `on_store_error` with a `StoreErrorEvent` each time
/// the store gives no answer: functions, or lists of them. They are called when the call is over and before it returns;
/// what they raise goes to `sys.unraisablehook` and changes nothing. They may ask the same limiter: of what they ask
/// themselves, nothing is told.
///
/// With `lease` up to so many units at once are taken from Redis, for keys that are asked for very often, and spent by all
/// processes of this host without asking it. Never more passes than the policy allows; a call may be refused while another
/// host has units left. It goes with one policy, a fixed window or a sliding window counter.
///
/// Every verb takes a key, which is str or bytes, or with several policies also a dict of one key per policy's name. It
/// raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails and
/// `on_error` is `throw`. With a `token` (str or bytes) a call may be sent again, as after a time-out: what a call with
/// the same token on the same key took within the last minute is not taken again, and its decision is given again. A
/// refund may have the token of what it gives back. A call with an `on_error` is answered by that rule and not by the
/// limiter's when the store fails.
///
/// May be used from any thread and after `os.fork()`.
///
/// >>> limiter = Limiter(Policy.token_bucket(10, 1), Store.memory())
/// >>> decision = limiter.allow("user:42")
/// >>> decision.allowed, decision.remaining
/// (True, 9)
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct Limiter {
    inner: Arc<core::Limiter>,
    policies: Policies,
    clock: Clock,
    /// Whether the store may make a caller wait.
    blocks: bool,
    listeners: Option<Listeners>,
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(
        signature = (
            policies, store = None, *, on_error = "throw", share = Given(None), hash_keys = false, secret = None,
            clock = None, on_decision = None, on_store_error = None, lease = Given(None)
        ),
        text_signature = "(policies, store=None, *, on_error='throw', share=1, hash_keys=False, secret=None, clock=None, on_decision=None, on_store_error=None, lease=0)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn new(
        policies: &Bound<'_, PyAny>,
        store: Option<&Bound<'_, PyAny>>,
        on_error: &str,
        share: Given<'_, '_>,
        hash_keys: bool,
        secret: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
        on_decision: Option<&Bound<'_, PyAny>>,
        on_store_error: Option<&Bound<'_, PyAny>>,
        lease: Given<'_, '_>,
    ) -> PyResult<Self> {
        let lease = lease.or(0, number::lease)?;
        let share = share.or(1, |value| count(ErrorKind::InvalidArgument, "share", &u32::MAX, value))?;
        let on_error: FailureRule = on_error.parse().or_raise()?;
        let builder = core::Limiter::builder(policy::list(policies)?);
        let mut builder = builder.on_error(on_error).share(share).hash_keys(hash_keys).lease(lease);
        if let Some(secret) = secret {
            builder = builder.secrets(secrets(secret)?);
        }
        let clock = Clock::of(clock)?;
        if let Some(clock) = clock.for_core() {
            builder = builder.clock(clock);
        }
        let store = store::named("store", store)?;
        let blocks = store.kind().blocks();
        let inner = Arc::new(builder.store(store).build().or_raise()?);
        let listeners = Listeners::of(on_decision, on_store_error)?;
        if listeners.is_some() {
            events::record(&inner).or_raise()?;
        }
        Ok(Self { policies: inner.policies().into(), inner, clock, blocks, listeners })
    }

    /// Takes `cost` units of the budget of `key`, if they are there.
    ///
    /// A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
    #[pyo3(
        signature = (key, cost = Given(None), *, token = None, on_error = None),
        text_signature = "($self, key, cost=1, *, token=None, on_error=None)"
    )]
    fn allow(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
        on_error: Option<&str>,
    ) -> PyResult<Decision> {
        let (cost, extras) = (number::cost(cost)?, Extras::of(token, on_error)?);
        key::with(key, |keys| self.decide(py, extras.on(Call::allow(keys, cost))))
    }

    /// `allow` for many calls, in order, in as few round trips as the store allows: one per server.
    ///
    /// `calls` has a pair of a key and a cost for each, or a key alone where the cost is 1. Each decision stands alone. A
    /// wrong argument raises before anything is asked, and names the index of its call. When the store fails for some of
    /// the calls and `on_error` is `throw`, the `decisions` of the `StoreUnavailable` are those of the others.
    ///
    /// >>> limiter = Limiter(Policy.token_bucket(5, 1, 60), Store.memory())
    /// >>> [decision.remaining for decision in limiter.allow_many(["ada", ("bob", 2), ("ada", 3)])]
    /// [4, 3, 1]
    #[pyo3(signature = (calls, *, on_error = None), text_signature = "($self, calls, *, on_error=None)")]
    fn allow_many(&self, py: Python<'_>, calls: &Bound<'_, PyAny>, on_error: Option<&str>) -> PyResult<Vec<Decision>> {
        let extras = Extras::of(None, on_error)?;
        let given = batch::given(calls)?;
        let calls = given.iter().map(batch::Given::read).collect::<PyResult<Vec<_>>>()?;
        let calls = calls.iter().map(|read| extras.on(read.call()));
        let calls: Vec<Call<'_>> = match self.clock.ask(py)? {
            Some(now_us) => calls.map(|call| call.at_us(now_us)).collect(),
            None => calls.collect(),
        };
        let outcomes = self.run(py, || self.inner.decide_many(&calls))?.or_raise()?;
        batch::decisions(outcomes, |decision| self.decision(decision))
    }

    /// What `allow` would answer, without taking anything.
    #[pyo3(
        signature = (key, cost = Given(None), *, on_error = None),
        text_signature = "($self, key, cost=1, *, on_error=None)"
    )]
    fn peek(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        on_error: Option<&str>,
    ) -> PyResult<Decision> {
        let (cost, extras) = (number::cost(cost)?, Extras::of(None, on_error)?);
        key::with(key, |keys| self.decide(py, extras.on(Call::peek(keys, cost))))
    }

    /// Takes `cost` units now, for a start after `decision.delay` seconds: ahead of time where they are not there yet.
    ///
    /// What would start later than after `max_wait` seconds is denied and takes nothing. Token bucket and GCRA go into
    /// debt; a leaky bucket is a queue, and denies when it is full. A window policy raises `InvalidArgument`: `wait` is
    /// for them.
    #[pyo3(
        signature = (key, cost = Given(None), max_wait = Given(None), *, token = None, on_error = None),
        text_signature = "($self, key, cost=1, max_wait=1e999, *, token=None, on_error=None)"
    )]
    fn reserve(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        max_wait: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
        on_error: Option<&str>,
    ) -> PyResult<Decision> {
        let (cost, max_wait_us) = (number::cost(cost)?, max_wait_us(max_wait)?);
        let extras = Extras::of(token, on_error)?;
        key::with(key, |keys| self.decide(py, extras.on(Call::reserve(keys, cost, max_wait_us))))
    }

    /// Takes `cost` units, sleeping until they are there; at most `max_wait` seconds.
    ///
    /// Raises `WaitTooLong` at once, taking nothing, when the wait would be longer or the cost can never pass. Sleeps as
    /// `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; a wait that an exception ends gives back
    /// the slot that it had reserved. With a `ManualClock` it moves the clock instead.
    #[pyo3(
        signature = (key, cost = Given(None), max_wait = Given(None), *, token = None, on_error = None),
        text_signature = "($self, key, cost=1, max_wait=1e999, *, token=None, on_error=None)"
    )]
    fn wait(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        max_wait: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
        on_error: Option<&str>,
    ) -> PyResult<Decision> {
        let (cost, max_wait_us) = (number::cost(cost)?, max_wait_us(max_wait)?);
        let extras = Extras::of(token, on_error)?;
        key::with(key, |keys| {
            let call = extras.on(Call::allow(keys, cost));
            let mut waiting = Waiting::new(max_wait_us);
            loop {
                let slept = match self.step(py, &mut waiting, call) {
                    Ok(WaitStep::Done(decision)) => return Ok(self.decision(decision)),
                    Ok(WaitStep::Sleep { us }) => self.clock.sleep(py, us),
                    Err(raised) => Err(raised),
                };
                if let Err(raised) = slept {
                    // The caller has to hear of what ended the wait, also when the slot cannot be given back.
                    let _ = self.cancel(py, &mut waiting, call);
                    return Err(raised);
                }
            }
        })
    }

    /// Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit.
    ///
    /// When the store gives no answer it raises `StoreUnavailable`; where `on_error` is open or closed it is dropped instead.
    #[pyo3(
        signature = (key, cost = Given(None), *, token = None, on_error = None),
        text_signature = "($self, key, cost=1, *, token=None, on_error=None)"
    )]
    fn refund(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
        on_error: Option<&str>,
    ) -> PyResult<()> {
        let (cost, extras) = (number::cost(cost)?, Extras::of(token, on_error)?);
        key::with(key, |keys| self.decide(py, extras.on(Call::refund(keys, cost))).map(drop))
    }

    /// Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`.
    fn reset(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        key::with(key, |keys| self.run(py, || self.inner.reset(keys))?.or_raise())
    }

    /// Gives back what this process has leased and nobody has spent, of all keys; see `lease`.
    fn return_leases(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, || self.inner.return_leases())?.or_raise()
    }

    /// Decorates a function, so that each call of it takes `cost` units first, or raises `LimitExceeded`.
    ///
    /// `key` is what the verbs take, or a function that makes it of the call's arguments. With `wait` a call waits for
    /// its turn instead, and raises `WaitTooLong` when it can never come. A coroutine function is one still: it asks and
    /// sleeps as `ratelimit_rs.aio` does, and gives back the slot that it had reserved when its task is cancelled.
    ///
    /// >>> limiter = Limiter(Policy.token_bucket(1, 1, 60), Store.memory(), clock=ManualClock())
    /// >>> @limiter.limit(key=lambda user: f"user:{user}")
    /// ... def greet(user):
    /// ...     return f"Hello, {user}!"
    /// >>> greet("Ada")
    /// 'Hello, Ada!'
    /// >>> greet("Ada")
    /// Traceback (most recent call last):
    /// ratelimit_rs.errors.LimitExceeded: the limit of policy 'default' is used up; retry after 60.0 s
    #[pyo3(
        signature = (key, cost = Given(None), wait = false),
        text_signature = "($self, key, cost=1, wait=False)"
    )]
    fn limit<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        cost: Given<'_, 'py>,
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cost = number::cost_in_range(cost)?;
        if !key.is_callable() {
            key::with(key, |_| Ok(()))?;
        }
        let decorator = slf.py().import("ratelimit_rs.decorator")?;
        decorator.getattr("limit")?.call1((slf, key, cost, wait))
    }

    /// Whether a call may have to wait for a server.
    #[getter]
    fn _blocks(&self) -> bool {
        self.blocks
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let policies = self.policies.iter().map(|policy| Policy(policy.clone()));
        let policies = policies.map(|policy| policy.__repr__(py)).collect::<PyResult<Vec<_>>>()?;
        let kind = self.inner.store().kind().as_str();
        Ok(format!("<ratelimit_rs.Limiter [{}] on '{kind}'>", policies.join(", ")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.listeners.iter().try_for_each(|listeners| listeners.traverse(&visit))?;
        self.clock.traverse(&visit)
    }
}

impl Limiter {
    fn decide(&self, py: Python<'_>, call: Call<'_>) -> PyResult<Decision> {
        let call = self.dated(py, call)?;
        self.run(py, || self.inner.decide(call))?.or_raise().map(|decision| self.decision(decision))
    }

    fn step(&self, py: Python<'_>, waiting: &mut Waiting, call: Call<'_>) -> PyResult<WaitStep> {
        let call = self.dated(py, call)?;
        self.run(py, || waiting.step(&self.inner, call))?.or_raise()
    }

    fn cancel(&self, py: Python<'_>, waiting: &mut Waiting, call: Call<'_>) -> PyResult<()> {
        let call = self.dated(py, call)?;
        self.run(py, || waiting.cancel(&self.inner, call))?.or_raise()
    }

    pub(crate) fn core(&self) -> &core::Limiter {
        &self.inner
    }

    /// The same limiter, asked without blocking.
    pub(crate) fn asynchronous(&self) -> core::aio::Limiter {
        core::aio::Limiter::new(self.inner.clone())
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn decision(&self, decision: core::Decision) -> Decision {
        Decision::new(decision, &self.policies, self.clock.told_us())
    }

    /// The call as of what a clock in Python says. What that raises goes to the caller before anything is taken.
    pub(crate) fn dated<'a>(&self, py: Python<'_>, call: Call<'a>) -> PyResult<Call<'a>> {
        Ok(match self.clock.ask(py)? {
            Some(now_us) => call.at_us(now_us),
            None => call,
        })
    }

    /// Asks the core, without the interpreter's lock where the answer may take its time, and tells those who hear of it.
    pub(crate) fn run<R: Send>(&self, py: Python<'_>, ask: impl Send + FnOnce() -> R) -> PyResult<R> {
        let outcome = if self.blocks { py.detach(ask) } else { ask() };
        if let Some(listeners) = &self.listeners {
            listeners.tell(self, events::take(), self.clock.told_us(), None, py)?;
        }
        Ok(outcome)
    }

    pub(crate) fn listeners(&self) -> Option<&Listeners> {
        self.listeners.as_ref()
    }
}

/// One secret, or several in a sequence.
fn secrets(secret: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if let Some(one) = key::bytes(secret)? {
        return Ok(vec![one.to_vec()]);
    }
    let wrong =
        |what: &str| PyTypeError::new_err(format!("secret must be str, bytes or a sequence of them, got {what}"));
    let Ok(sequence) = secret.cast::<PySequence>() else { return Err(wrong(type_name(secret).as_ref())) };
    let bytes = |secret: PyResult<Bound<'_, PyAny>>| {
        let secret = secret?;
        let with = || wrong(&format!("a sequence with {}", type_name(&secret)));
        key::bytes(&secret)?.map(<[u8]>::to_vec).ok_or_else(with)
    };
    sequence.try_iter()?.map(bytes).collect()
}
