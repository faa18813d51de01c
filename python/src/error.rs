//! From the core's error to a Python exception, once.

use pyo3::import_exception;
use pyo3::prelude::*;

use crate::core::{Error, ErrorKind};
use crate::decision::Decision;

import_exception!(ratelimit_rs.errors, RateLimitError);
import_exception!(ratelimit_rs.errors, InvalidArgument);
import_exception!(ratelimit_rs.errors, InvalidPolicy);
import_exception!(ratelimit_rs.errors, InvalidCost);
import_exception!(ratelimit_rs.errors, InvalidStore);
import_exception!(ratelimit_rs.errors, StoreUnavailable);
import_exception!(ratelimit_rs.errors, LimitExceeded);
import_exception!(ratelimit_rs.errors, WaitTooLong);

/// Raises what went wrong in the core.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for crate::core::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raise(&error))
    }
}

/// The exception for an error.
#[cold]
pub(crate) fn raise(error: &Error) -> PyErr {
    let sentence = error.to_string();
    match error.kind() {
        ErrorKind::InvalidArgument => InvalidArgument::new_err(sentence),
        ErrorKind::InvalidPolicy => InvalidPolicy::new_err(sentence),
        ErrorKind::InvalidCost => InvalidCost::new_err(sentence),
        ErrorKind::InvalidStore => InvalidStore::new_err(sentence),
        ErrorKind::StoreUnavailable(kind) => StoreUnavailable::new_err((sentence, kind.as_str())),
        ErrorKind::WaitTooLong => WaitTooLong::new_err(sentence),
        _ => RateLimitError::new_err(sentence),
    }
}

/// The exception for an error that left some of many calls without a decision; it holds the others' decisions.
#[cold]
pub(crate) fn raise_with(error: &Error, decisions: Vec<Option<Decision>>) -> PyErr {
    let ErrorKind::StoreUnavailable(kind) = error.kind() else { return raise(error) };
    let missing = decisions.iter().filter(|decision| decision.is_none()).count();
    let sentence = format!("{missing} of {} calls have no decision: {error}", decisions.len());
    StoreUnavailable::new_err((sentence, kind.as_str(), decisions))
}

/// The exception for one argument; the text reads on from its name ("must be …, got …").
#[cold]
pub(crate) fn argument(kind: ErrorKind, argument: &'static str, detail: impl Into<String>) -> PyErr {
    raise(&Error::argument_error(kind, argument, detail))
}
