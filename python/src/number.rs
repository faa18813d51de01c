//! Numbers as Python gives them: any size, maybe fractional, maybe no numbers at all.

use std::convert::Infallible;
use std::fmt;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use crate::core::algorithm::MAX_UNITS;
use crate::core::limiter::{invalid_cost, invalid_lease};
use crate::core::{ErrorKind, clock};
use crate::error::{self, raise};

/// A value longer than this is not repeated in an error.
const MAX_SHOWN: usize = 60;

/// An argument that may be left out. `None` is not leaving it out: it is a value of the wrong type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a, 'py>(pub(crate) Option<Borrowed<'a, 'py, PyAny>>);

impl Given<'_, '_> {
    /// What `convert` makes of it, or the default.
    pub(crate) fn or<T>(self, default: T, convert: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<T> {
        self.0.map_or(Ok(default), |value| convert(&value))
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'a, 'py> {
    type Error = Infallible;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self(Some(object)))
    }
}

/// A cost, 1 if it is not given. `True` is none, though a `bool` is an `int`: who writes it meant something else.
pub(crate) fn cost(cost: Given<'_, '_>) -> PyResult<i64> {
    cost.or(1, |cost| match Integer::of(cost)? {
        Integer::Fits(cost) => Ok(cost),
        Integer::TooLarge | Integer::Other => Err(raise(&invalid_cost(&shown(cost)))),
        Integer::NoNumber => Err(no_number("cost", "an int", cost)),
    })
}

/// A size of leases; the core checks its range.
pub(crate) fn lease(lease: &Bound<'_, PyAny>) -> PyResult<i64> {
    match Integer::of(lease)? {
        Integer::Fits(lease) => Ok(lease),
        Integer::TooLarge | Integer::Other => Err(raise(&invalid_lease(&shown(lease)))),
        Integer::NoNumber => Err(no_number("lease", "an int", lease)),
    }
}

/// A cost for later calls, checked now; the core checks those that it is given.
pub(crate) fn cost_in_range(cost: Given<'_, '_>) -> PyResult<i64> {
    let cost = self::cost(cost)?;
    let in_range = u64::try_from(cost).is_ok_and(|cost| (1..=MAX_UNITS).contains(&cost));
    if in_range { Ok(cost) } else { Err(raise(&invalid_cost(&cost))) }
}

/// What an object is as an integer.
enum Integer {
    Fits(i64),
    TooLarge,
    /// A number, but no integer.
    Other,
    NoNumber,
}

impl Integer {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBool>() {
            return Ok(Self::Other);
        }
        // Takes an `int` and whatever has `__index__`.
        match object.extract::<i64>() {
            Ok(number) => Ok(Self::Fits(number)),
            Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => Ok(Self::TooLarge),
            Err(error) if !error.is_instance_of::<PyTypeError>(object.py()) => Err(error),
            Err(_) if is_real(object) => Ok(Self::Other),
            Err(_) => Ok(Self::NoNumber),
        }
    }
}

/// A count of units, such as a capacity: an integer, or a float without a fraction.
pub(crate) fn units(kind: ErrorKind, argument: &'static str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    let whole = match Integer::of(value)? {
        Integer::Fits(number) => return Ok(number),
        Integer::TooLarge => true,
        Integer::NoNumber => return Err(no_number(argument, "an int", value)),
        Integer::Other => match value.cast::<PyFloat>().map(pyo3::types::PyFloatMethods::value) {
            Ok(float) if float.fract() == 0.0 => match whole_float(float) {
                Some(number) => return Ok(number),
                None => true,
            },
            _ => false,
        },
    };
    let what = if whole { "must be between" } else { "must be an integer between" };
    Err(error::argument(kind, argument, format!("{what} 1 and {MAX_UNITS}, got {}", shown(value))))
}

/// A count of anything else: an integer from 1 to the type's largest.
pub(crate) fn count<T: TryFrom<i64> + fmt::Display>(
    kind: ErrorKind,
    argument: &'static str,
    most: &T,
    value: &Bound<'_, PyAny>,
) -> PyResult<T> {
    match Integer::of(value)? {
        Integer::Fits(number) if number > 0 => {
            if let Ok(number) = T::try_from(number) {
                return Ok(number);
            }
        }
        Integer::NoNumber => return Err(no_number(argument, "an int", value)),
        _ => {}
    }
    let detail = format!("must be an integer between 1 and {most}, got {}", shown(value));
    Err(error::argument(kind, argument, detail))
}

/// The length of a prefix, of which the core says whether it is in range.
pub(crate) fn prefix_bits(argument: &'static str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    match Integer::of(value)? {
        Integer::Fits(bits) => Ok(bits),
        Integer::NoNumber => Err(no_number(argument, "an int", value)),
        Integer::TooLarge | Integer::Other => {
            let detail = format!("must be between 1 and 128, got {}", shown(value));
            Err(error::argument(ErrorKind::InvalidArgument, argument, detail))
        }
    }
}

/// A real number, of which the core says whether it is in range. An `int` too large for a float is infinite.
pub(crate) fn real(kind: ErrorKind, argument: &'static str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if value.is_instance_of::<PyBool>() {
        return Err(error::argument(kind, argument, format!("must be a number, got {}", shown(value))));
    }
    match value.extract::<f64>() {
        Ok(number) => Ok(number),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => Ok(f64::INFINITY),
        Err(error) if !error.is_instance_of::<PyTypeError>(value.py()) => Err(error),
        Err(_) => Err(no_number(argument, "a number", value)),
    }
}

/// The longest wait in microseconds, from seconds. Without a bound when it is not given, `None` or infinite.
pub(crate) fn max_wait_us(max_wait: Given<'_, '_>) -> PyResult<u64> {
    const KIND: ErrorKind = ErrorKind::InvalidArgument;
    max_wait.or(u64::MAX, |value| {
        if value.is_none() {
            return Ok(u64::MAX);
        }
        match real(KIND, "max_wait", value)? {
            f64::INFINITY => Ok(u64::MAX),
            seconds if seconds >= 0.0 => Ok(clock::seconds_to_us(seconds)),
            _ => Err(error::argument(KIND, "max_wait", format!("must be seconds, 0 or more, got {}", shown(value)))),
        }
    })
}

/// An instant in microseconds, from seconds since 1970.
pub(crate) fn instant_us(argument: &'static str, seconds: f64) -> PyResult<u64> {
    let latest = clock::us_to_seconds(clock::MAX_INSTANT_US);
    if (0.0..latest).contains(&seconds) {
        return Ok(clock::seconds_to_us(seconds));
    }
    let detail = format!("must be seconds since 1970, from 0 to {latest}, got {seconds}");
    Err(error::argument(ErrorKind::InvalidArgument, argument, detail))
}

/// A value for an error's text: its `repr`, unless that is long or fails.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    match value.repr().map(|text| text.to_string()) {
        Ok(text) if text.len() <= MAX_SHOWN => text,
        _ => format!("a very long {}", type_name(value)),
    }
}

/// The name of an object's type.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

fn no_number(argument: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("{argument} must be {expected}, got {}", type_name(value)))
}

fn is_real(value: &Bound<'_, PyAny>) -> bool {
    let py = value.py();
    value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.hasattr(pyo3::intern!(py, "__float__")).unwrap_or(false)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn whole_float(float: f64) -> Option<i64> {
    // Every whole float of this range is an i64; what lies outside is no count of anything.
    (float.abs() < i64::MAX as f64).then_some(float as i64)
}
