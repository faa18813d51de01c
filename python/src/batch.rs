//! Many calls at once, as Python gives them, and their outcomes.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::call::{Extras, OwnedCall};
use crate::core::{self, Call};
use crate::decision::Decision;
use crate::error::{self, InvalidArgument};
use crate::key::{self, Held};
use crate::number::{self, type_name};

/// One of the calls.
pub(crate) struct Given<'py> {
    index: usize,
    key: Held<'py>,
    cost: i64,
}

/// One of the calls, its key read.
pub(crate) struct Read<'a> {
    key: key::Read<'a>,
    cost: i64,
}

/// The calls of an iterable: each a key, or a tuple of a key and a cost.
pub(crate) fn given<'py>(calls: &Bound<'py, PyAny>) -> PyResult<Vec<Given<'py>>> {
    let wrong = || {
        let expected = "an iterable of keys and of (key, cost) pairs";
        PyTypeError::new_err(format!("calls must be {expected}, got {}", type_name(calls)))
    };
    // These are iterable, and would be taken for many keys where one is meant, or lose their costs.
    let is_one = calls.is_instance_of::<PyString>() || calls.is_instance_of::<PyBytes>();
    if is_one || calls.is_instance_of::<PyDict>() || !calls.hasattr("__iter__")? {
        return Err(wrong());
    }
    let one = |(index, call): (usize, PyResult<Bound<'py, PyAny>>)| {
        let call = call?;
        Given::of(index, &call).map_err(|raised| at_index(calls.py(), raised, index))
    };
    calls.try_iter()?.enumerate().map(one).collect()
}

impl<'py> Given<'py> {
    fn of(index: usize, call: &Bound<'py, PyAny>) -> PyResult<Self> {
        let Ok(pair) = call.cast::<PyTuple>() else { return Ok(Self { index, key: Held::of(call)?, cost: 1 }) };
        if pair.len() != 2 {
            let detail = format!("call must be a key or a pair of a key and a cost, got a tuple of {}", pair.len());
            return Err(PyTypeError::new_err(detail));
        }
        let cost = number::cost_in_range(number::Given(Some(pair.get_borrowed_item(1)?)))?;
        Ok(Self { index, key: Held::of(&pair.get_item(0)?)?, cost })
    }

    pub(crate) fn read(&self) -> PyResult<Read<'_>> {
        let key = self.key.read().map_err(|raised| at_index(self.key.py(), raised, self.index))?;
        Ok(Read { key, cost: self.cost })
    }
}

impl Given<'_> {
    /// The call, borrowing nothing of Python's.
    pub(crate) fn own(&self, extras: Extras<'_>) -> PyResult<OwnedCall> {
        self.read().map(|read| OwnedCall::one_of_many(key::Owned::from(&read.key), read.cost, extras))
    }
}

impl Read<'_> {
    pub(crate) fn call(&self) -> Call<'_> {
        Call::allow(self.key.keys(), self.cost)
    }
}

/// The decisions, or what is raised where a call has none.
pub(crate) fn decisions(
    outcomes: Vec<core::Result<core::Decision>>,
    decision: impl Fn(core::Decision) -> Decision,
) -> PyResult<Vec<Decision>> {
    if let Some(Err(error)) = outcomes.iter().find(|outcome| outcome.is_err()) {
        let error = error.clone();
        let decisions = outcomes.into_iter().map(|outcome| outcome.ok().map(&decision)).collect();
        return Err(error::raise_with(&error, decisions));
    }
    Ok(outcomes.into_iter().flatten().map(decision).collect())
}

/// What was raised about one of many calls, with its index; whatever is not ours stays as it is.
fn at_index(py: Python<'_>, raised: PyErr, index: usize) -> PyErr {
    let class = raised.get_type(py);
    if class.is(py.get_type::<PyTypeError>()) || raised.is_instance_of::<InvalidArgument>(py) {
        return PyErr::from_type(class, format!("{}, at index {index}", raised.value(py)));
    }
    raised
}
