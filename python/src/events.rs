//! The functions that hear of decisions and of failures of a store. They are called when the call they hear of is over,
//! with the interpreter's lock and without any other.

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit, intern};

use crate::core::StoreErrorKind;
use crate::core::events::{self, Asked, Recorded};
use crate::decision::Decision;
use crate::error::raise;
use crate::limiter::Limiter;
use crate::number::type_name;

/// A decision has been made; what `on_decision` is called with.
///
/// >>> told = []
/// >>> limiter = Limiter(Policy.token_bucket(10, 1, name="login"), Store.memory(), on_decision=told.append)
/// >>> _ = limiter.allow("user:42", 3)
/// >>> told[0].verb, told[0].policy, told[0].cost, told[0].decision.remaining
/// ('allow', 'login', 3, 7)
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct DecisionEvent {
    asked: Asked,
    policy: String,
    decision: Py<Decision>,
}

/// A store has given no usable answer; what `on_store_error` is called with. Unless the failure rule is `throw`, a
/// `DecisionEvent` follows.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct StoreErrorEvent {
    asked: Asked,
    policy: String,
    kind: &'static str,
    error: Py<PyAny>,
}

#[pymethods]
impl DecisionEvent {
    /// What was asked: `allow`, `peek`, `reserve` or `refund`. A wait is told as what it asks at each step.
    #[getter]
    fn verb(&self) -> &'static str {
        self.asked.verb
    }

    /// The name of the policy that ruled.
    #[getter]
    fn policy(&self) -> &str {
        &self.policy
    }

    /// Whose budget: 16 characters of the key's hash, the same for each call on the key; keyed with the limiter's `secret`
    /// where there is one. Never the key.
    #[getter]
    fn key(&self) -> String {
        self.asked.key.to_string()
    }

    /// Units.
    #[getter]
    fn cost(&self) -> u64 {
        self.asked.cost
    }

    /// The kind of the limiter's store.
    #[getter]
    fn store(&self) -> &'static str {
        self.asked.store.as_str()
    }

    /// Seconds until the answer was there; for one of many calls, until all answers were.
    #[getter]
    fn duration(&self) -> f64 {
        self.asked.duration.as_secs_f64()
    }

    /// The decision.
    #[getter]
    fn decision(&self, py: Python<'_>) -> Py<Decision> {
        self.decision.clone_ref(py)
    }

    /// All of it by name, for structured logs: the members of the event and the numbers of the decision. A `retry_after`
    /// of None is never.
    fn context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let context = context(py, &self.asked, &self.policy)?;
        self.decision.get().describe(&context)?;
        Ok(context)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<ratelimit_rs.DecisionEvent {}>", self.context(py)?.repr()?))
    }
}

#[pymethods]
impl StoreErrorEvent {
    /// What was asked: `allow`, `peek`, `reserve`, `refund` or `reset`.
    #[getter]
    fn verb(&self) -> &'static str {
        self.asked.verb
    }

    /// The name of the limiter's policy; of several the first.
    #[getter]
    fn policy(&self) -> &str {
        &self.policy
    }

    /// Whose budget, as for a decision. Never the key.
    #[getter]
    fn key(&self) -> String {
        self.asked.key.to_string()
    }

    /// Units; 0 for `reset`.
    #[getter]
    fn cost(&self) -> u64 {
        self.asked.cost
    }

    /// The kind of the limiter's store.
    #[getter]
    fn store(&self) -> &'static str {
        self.asked.store.as_str()
    }

    /// Seconds until the failure was there.
    #[getter]
    fn duration(&self) -> f64 {
        self.asked.duration.as_secs_f64()
    }

    /// What went wrong, in a word: `timeout`, `refused` and so on.
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    /// What went wrong: a `StoreUnavailable` that is not raised.
    #[getter]
    fn error(&self, py: Python<'_>) -> Py<PyAny> {
        self.error.clone_ref(py)
    }

    /// All of it by name, for structured logs; `error` as its sentence.
    fn context<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let context = context(py, &self.asked, &self.policy)?;
        context.set_item(intern!(py, "kind"), self.kind)?;
        context.set_item(intern!(py, "error"), self.error.bind(py).str()?)?;
        Ok(context)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<ratelimit_rs.StoreErrorEvent {}>", self.context(py)?.repr()?))
    }
}

fn context<'py>(py: Python<'py>, asked: &Asked, policy: &str) -> PyResult<Bound<'py, PyDict>> {
    let context = PyDict::new(py);
    context.set_item(intern!(py, "verb"), asked.verb)?;
    context.set_item(intern!(py, "policy"), policy)?;
    context.set_item(intern!(py, "key"), asked.key.as_str())?;
    context.set_item(intern!(py, "cost"), asked.cost)?;
    context.set_item(intern!(py, "store"), asked.store.as_str())?;
    context.set_item(intern!(py, "duration"), asked.duration.as_secs_f64())?;
    Ok(context)
}

/// Who hears of one limiter.
#[derive(Debug)]
pub(crate) struct Listeners {
    of_decisions: Vec<Py<PyAny>>,
    of_store_errors: Vec<Py<PyAny>>,
}

impl Listeners {
    /// What the constructor was given; `None` where nobody hears.
    pub(crate) fn of(
        on_decision: Option<&Bound<'_, PyAny>>,
        on_store_error: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Self>> {
        let of_decisions = functions("on_decision", on_decision)?;
        let of_store_errors = functions("on_store_error", on_store_error)?;
        let nobody = of_decisions.is_empty() && of_store_errors.is_empty();
        Ok((!nobody).then_some(Self { of_decisions, of_store_errors }))
    }

    /// Tells what has happened in the call that is over; in a context of Python's, if there is one. What a function raises
    /// goes to `sys.unraisablehook`, unless it ends the program.
    pub(crate) fn tell(
        &self,
        limiter: &Limiter,
        events: Vec<Recorded>,
        at_us: u64,
        context: Option<&Bound<'_, PyAny>>,
        py: Python<'_>,
    ) -> PyResult<()> {
        for event in events {
            let (listeners, event) = match event {
                Recorded::Decision { asked, policy, decision } => {
                    let decision = Py::new(py, Decision::new(decision, limiter.policies(), at_us))?;
                    let event = DecisionEvent { asked, policy: policy.name().to_owned(), decision };
                    (&self.of_decisions, Bound::new(py, event)?.into_any())
                }
                Recorded::StoreError { asked, policy, error } => {
                    let kind = error.store_kind().map_or("", StoreErrorKind::as_str);
                    let error = raise(&error).into_value(py).into_any();
                    let event = StoreErrorEvent { asked, policy: policy.name().to_owned(), kind, error };
                    (&self.of_store_errors, Bound::new(py, event)?.into_any())
                }
            };
            listeners.iter().try_for_each(|listener| call(listener.bind(py), &event, context))?;
        }
        Ok(())
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.of_decisions.iter().chain(&self.of_store_errors).try_for_each(|listener| visit.call(listener))
    }
}

fn call(listener: &Bound<'_, PyAny>, event: &Bound<'_, PyAny>, context: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let py = listener.py();
    let called = events::quietly(|| match context {
        Some(context) => context.call_method1(intern!(py, "run"), (listener, event)),
        None => listener.call1((event,)),
    });
    let Err(raised) = called else { return Ok(()) };
    if !raised.is_instance_of::<PyException>(py) {
        return Err(raised);
    }
    events::count_failure();
    raised.write_unraisable(py, Some(listener));
    Ok(())
}

/// A copy of the context of whoever is running, for functions that are called later.
pub(crate) fn copy_context(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let copy = COPY.get_or_try_init(py, || py.import("contextvars")?.getattr("copy_context").map(Bound::unbind))?;
    copy.call0(py)
}

fn functions(argument: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Py<PyAny>>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    if given.is_callable() {
        return Ok(vec![given.clone().unbind()]);
    }
    let wrong = |got: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!("{argument} must be a function or a list of them, got {}", type_name(got)))
    };
    let function = |function: PyResult<Bound<'_, PyAny>>| match function? {
        function if function.is_callable() => Ok(function.unbind()),
        other => Err(wrong(&other)),
    };
    given.try_iter().map_err(|_| wrong(given))?.map(function).collect()
}
