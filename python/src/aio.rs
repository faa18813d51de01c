//! The verbs for event loops: each begins its work and returns a future of the loop. Private: `ratelimit_rs.aio` has
//! the names for users.

use pyo3::prelude::*;

use crate::batch;
use crate::call::{Extras, OwnedCall, Verb};
use crate::core::ErrorKind;
use crate::decision::Decision;
use crate::error::{OrRaise as _, argument};
use crate::key;
use crate::limiter::Limiter;
use crate::mailbox::{Mailbox, Telling};
use crate::number::{Given, max_wait_us};
use crate::store::Store;
use crate::token_bucket::{self, TokenBucket};
use crate::wait::Waiting;

/// Begins `allow`, `peek`, `reserve` or `refund`.
#[pyfunction]
#[pyo3(
    signature = (mailbox, limiter, verb, key, cost = Given(None), max_wait = Given(None), token = None, on_error = None),
    text_signature = "(mailbox, limiter, verb, key, cost=1, max_wait=1e999, token=None, on_error=None)"
)]
#[allow(clippy::too_many_arguments)]
pub(crate) fn begin_call<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    limiter: &Bound<'py, Limiter>,
    verb: &str,
    key: &Bound<'py, PyAny>,
    cost: Given<'_, 'py>,
    max_wait: Given<'_, 'py>,
    token: Option<&Bound<'py, PyAny>>,
    on_error: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let verb = match verb {
        "allow" => Verb::Allow,
        "peek" => Verb::Peek,
        "reserve" => Verb::Reserve { max_wait_us: max_wait_us(max_wait)? },
        "refund" => Verb::Refund,
        _ => return Err(argument(ErrorKind::InvalidArgument, "verb", format!("is unknown: {verb:?}"))),
    };
    let call = OwnedCall::of(verb, key, cost, Extras::of(token, on_error)?)?;
    let given = limiter.get();
    let (now_us, asked, policies) = (given.clock().ask(py)?, given.asynchronous(), given.policies().clone());
    let at_us = given.clock().told_us();
    let work = async move { asked.decide(call.call(&call.key(), now_us)).await };
    mailbox.begin_told(py, Telling::of(limiter)?, work, move |py, outcome| {
        let decision = outcome.or_raise()?;
        match verb {
            Verb::Refund => Ok(py.None()),
            _ => object(py, Decision::new(decision, &policies, at_us)),
        }
    })
}

/// Begins `allow_many`.
#[pyfunction]
#[pyo3(signature = (mailbox, limiter, calls, on_error = None))]
pub(crate) fn begin_allow_many<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    limiter: &Bound<'py, Limiter>,
    calls: &Bound<'py, PyAny>,
    on_error: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let extras = Extras::of(None, on_error)?;
    let read = batch::given(calls)?;
    let calls = read.iter().map(|given| given.own(extras)).collect::<PyResult<Vec<_>>>()?;
    let given = limiter.get();
    let (now_us, asked, policies) = (given.clock().ask(py)?, given.asynchronous(), given.policies().clone());
    let at_us = given.clock().told_us();
    let work = async move {
        let keys: Vec<_> = calls.iter().map(OwnedCall::key).collect();
        let calls: Vec<_> = calls.iter().zip(&keys).map(|(call, key)| call.call(key, now_us)).collect();
        asked.decide_many(&calls).await
    };
    mailbox.begin_told(py, Telling::of(limiter)?, work, move |py, outcomes| {
        let decision = |decision| Decision::new(decision, &policies, at_us);
        object(py, batch::decisions(outcomes.or_raise()?, decision)?)
    })
}

/// Begins `reset`.
#[pyfunction]
pub(crate) fn begin_reset<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    limiter: &Bound<'py, Limiter>,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (key, asked) = (key::Owned::of(key)?, limiter.get().asynchronous());
    let work = async move { asked.reset(key.read().keys()).await };
    mailbox.begin_told(py, Telling::of(limiter)?, work, |py, outcome| outcome.or_raise().map(|()| py.None()))
}

/// Begins `return_leases`.
#[pyfunction]
pub(crate) fn begin_return_leases<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    limiter: &Limiter,
) -> PyResult<Bound<'py, PyAny>> {
    let asked = limiter.asynchronous();
    let work = async move { asked.return_leases().await };
    mailbox.begin(py, work, |py, outcome| outcome.or_raise().map(|()| py.None()))
}

/// Begins `TokenBucket.allow`.
#[pyfunction]
pub(crate) fn begin_take<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    bucket: &TokenBucket,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (key, asked) = (Box::<[u8]>::from(key::one(key)?), bucket.asynchronous());
    let work = async move { asked.allow(&key, 1).await };
    mailbox.begin(py, work, |py, outcome| object(py, token_bucket::answer(&outcome.or_raise()?)))
}

/// Begins a step of a wait: (seconds to sleep before the next, the decision at the end).
#[pyfunction]
pub(crate) fn begin_step<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    waiting: &Bound<'py, Waiting>,
) -> PyResult<Bound<'py, PyAny>> {
    let telling = Telling::of(waiting.get().limiter(py))?;
    let work = waiting.get().step_later(py)?;
    let waiting = waiting.get().reading();
    mailbox.begin_told(py, telling, work, move |py, step| object(py, waiting.step(step)?))
}

/// Begins to give a wait up, and its slot back.
#[pyfunction]
pub(crate) fn begin_cancel<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    waiting: &Bound<'py, Waiting>,
) -> PyResult<Bound<'py, PyAny>> {
    let telling = Telling::of(waiting.get().limiter(py))?;
    let work = waiting.get().cancel_later(py)?;
    mailbox.begin_told(py, telling, work, |py, outcome| outcome.or_raise().map(|()| py.None()))
}

/// Begins a round trip: the seconds that it takes.
#[pyfunction]
pub(crate) fn begin_ping<'py>(py: Python<'py>, mailbox: &Mailbox, store: &Store) -> PyResult<Bound<'py, PyAny>> {
    let store = store.0.clone();
    let work = async move {
        match store.asynchronous() {
            Some(asynchronous) => asynchronous.ping().await,
            None => store.ping(),
        }
    };
    mailbox.begin(py, work, |py, outcome| object(py, outcome.or_raise()?.as_secs_f64()))
}

/// Any value as a Python object.
fn object<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Py<PyAny>> {
    use pyo3::BoundObject as _;
    value.into_pyobject(py).map(|object| object.into_any().unbind()).map_err(Into::into)
}
