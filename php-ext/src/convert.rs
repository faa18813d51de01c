//! Arguments as PHP's own functions take them: numbers may come as numeric strings, strings as numbers or Stringable.
//!
//! The parsers of `ext-php-rs` take exact types only. The types here take any value, and say what is wrong with it when
//! the method asks for it, since only the method knows the argument's name. Unlike PHP they never cut a number: 1.5 is
//! no cost.

use std::borrow::Cow;

use ext_php_rs::convert::{FromZvalMut, StubLiteral};
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::types::{ZendStr, Zval};
use ext_php_rs::zend::ce;

use crate::engine::{self, Number};

/// An argument declared `int`.
pub(crate) enum Integer {
    /// A whole number that fits.
    Exact(i64),
    /// A number that is not whole, or too large.
    Inexact(f64),
    /// No number, but a value of this type.
    Wrong(String),
}

/// An argument declared `float`.
pub(crate) enum Float {
    /// A number.
    Exact(f64),
    /// No number, but a value of this type.
    Wrong(String),
}

/// An argument declared `bool`.
pub(crate) enum Switch {
    /// A boolean.
    Exact(bool),
    /// Nothing that PHP would take for one, but a value of this type.
    Wrong(String),
}

/// An argument declared `string`: any bytes, valid as long as the call.
pub(crate) enum Text<'a> {
    /// Bytes of the caller.
    Passed(&'a ZendStr),
    /// The default value of the parameter.
    Default(&'static str),
    /// Nothing that PHP would take for a string, but a value of this type.
    Wrong(String),
}

/// An argument that may be null, and is when it is left out.
pub(crate) struct Nullable<T>(pub(crate) Option<T>);

impl Integer {
    /// The number; `invalid` makes the exception for one that is not whole.
    #[inline]
    pub(crate) fn get(self, argument: &str, invalid: impl FnOnce(f64) -> PhpException) -> PhpResult<i64> {
        match self {
            Self::Exact(number) => Ok(number),
            wrong => Err(wrong.refused(argument, invalid)),
        }
    }

    #[cold]
    fn refused(self, argument: &str, invalid: impl FnOnce(f64) -> PhpException) -> PhpException {
        match self {
            Self::Inexact(number) => invalid(number),
            Self::Exact(_) => wrong_type(argument, "int", "int"),
            Self::Wrong(type_) => wrong_type(argument, "int", &type_),
        }
    }
}

impl Float {
    /// The number.
    pub(crate) fn get(self, argument: &str) -> PhpResult<f64> {
        match self {
            Self::Exact(number) => Ok(number),
            Self::Wrong(type_) => Err(wrong_type(argument, "float", &type_)),
        }
    }
}

impl Switch {
    /// The boolean.
    pub(crate) fn get(self, argument: &str) -> PhpResult<bool> {
        match self {
            Self::Exact(on) => Ok(on),
            Self::Wrong(type_) => Err(wrong_type(argument, "bool", &type_)),
        }
    }
}

impl<'a> Text<'a> {
    /// The bytes.
    #[inline]
    pub(crate) fn get(self, argument: &str) -> PhpResult<&'a [u8]> {
        self.declared(argument, "string")
    }

    /// The bytes of an argument that is declared as `type_`.
    fn declared(self, argument: &str, type_: &str) -> PhpResult<&'a [u8]> {
        match self {
            Self::Passed(text) => Ok(text.as_bytes()),
            Self::Default(text) => Ok(text.as_bytes()),
            Self::Wrong(got) => Err(wrong_type(argument, type_, &got)),
        }
    }

    /// The text, for arguments that the core takes as UTF-8; other bytes are shown as replacement characters, which no
    /// such argument accepts.
    pub(crate) fn utf8(self, argument: &str) -> PhpResult<Cow<'a, str>> {
        Ok(String::from_utf8_lossy(self.get(argument)?))
    }
}

impl<'a> Nullable<Text<'a>> {
    /// The bytes, if there are any.
    #[inline]
    pub(crate) fn get(self, argument: &str) -> PhpResult<Option<&'a [u8]>> {
        match self.0 {
            None => Ok(None),
            Some(text) => text.declared(argument, "?string").map(Some),
        }
    }

    /// The text, if there is one, for arguments that the core takes as UTF-8.
    pub(crate) fn utf8(self, argument: &str) -> PhpResult<Option<Cow<'a, str>>> {
        Ok(self.get(argument)?.map(String::from_utf8_lossy))
    }
}

/// A `TypeError` in the words of PHP.
pub(crate) fn wrong_type(argument: &str, wanted: &str, got: &str) -> PhpException {
    PhpException::new(format!("{argument} must be of type {wanted}, {got} given"), 0, ce::type_error())
}

/// A float as PHP prints it.
pub(crate) fn shown(number: f64) -> String {
    if number.is_nan() {
        "NAN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "INF".to_owned() } else { "-INF".to_owned() }
    } else {
        number.to_string()
    }
}

impl FromZvalMut<'_> for Integer {
    const TYPE: DataType = DataType::Long;

    #[inline]
    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        Some(match number(value) {
            Some(Number::Long(number)) => Self::Exact(number),
            Some(Number::Double(number)) => whole(number).map_or(Self::Inexact(number), Self::Exact),
            None => Self::Wrong(engine::type_name(value)),
        })
    }
}

impl FromZvalMut<'_> for Float {
    const TYPE: DataType = DataType::Double;

    #[allow(clippy::cast_precision_loss)] // As PHP converts int to float.
    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        Some(match number(value) {
            Some(Number::Long(number)) => Self::Exact(number as f64),
            Some(Number::Double(number)) => Self::Exact(number),
            None => Self::Wrong(engine::type_name(value)),
        })
    }
}

impl FromZvalMut<'_> for Switch {
    const TYPE: DataType = DataType::Bool;

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        Some(if value.is_null() || !value.is_scalar() {
            Self::Wrong(engine::type_name(value))
        } else {
            Self::Exact(value.coerce_to_bool())
        })
    }
}

impl<'a> FromZvalMut<'a> for Text<'a> {
    const TYPE: DataType = DataType::String;

    #[inline]
    fn from_zval_mut(value: &'a mut Zval) -> Option<Self> {
        if !value.is_string() && (value.is_null() || !engine::make_string(value)) {
            return Some(Self::Wrong(engine::type_name(value)));
        }
        let value: &'a Zval = value;
        value.zend_str().map(Text::Passed)
    }
}

impl<'a, T: FromZvalMut<'a>> FromZvalMut<'a> for Nullable<T> {
    const TYPE: DataType = T::TYPE;
    const NULLABLE: bool = true;

    fn from_zval_mut(value: &'a mut Zval) -> Option<Self> {
        if value.is_null() { Some(Self(None)) } else { T::from_zval_mut(value).map(Some).map(Self) }
    }

    fn from_missing() -> Option<Self> {
        Some(Self(None))
    }
}

/// The number in a value, by PHP's rules for arguments; `null` is none.
fn number(value: &Zval) -> Option<Number> {
    if let Some(number) = value.long() {
        return Some(Number::Long(number));
    }
    if value.is_double() {
        return value.double().map(Number::Double);
    }
    if let Some(on) = value.bool() {
        return Some(Number::Long(i64::from(on)));
    }
    engine::numeric(value.zend_str()?)
}

/// A float that is an integer, as one.
#[allow(clippy::cast_possible_truncation)] // Checked to be whole and in range.
fn whole(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number)).then_some(number as i64)
}

impl From<i64> for Integer {
    fn from(number: i64) -> Self {
        Self::Exact(number)
    }
}

impl From<f64> for Float {
    fn from(number: f64) -> Self {
        Self::Exact(number)
    }
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        Self::Exact(on)
    }
}

impl From<&'static str> for Text<'_> {
    fn from(text: &'static str) -> Self {
        Self::Default(text)
    }
}

// What Reflection shows as the default of a parameter, and what PHP evaluates for one left out before a named one.

impl StubLiteral for Integer {
    fn stub_literal(&self) -> String {
        match self {
            Self::Exact(number) => number.to_string(),
            Self::Inexact(_) | Self::Wrong(_) => String::new(),
        }
    }
}

impl StubLiteral for Float {
    fn stub_literal(&self) -> String {
        match self {
            Self::Exact(number) => number.stub_literal(),
            Self::Wrong(_) => String::new(),
        }
    }
}

impl StubLiteral for Switch {
    fn stub_literal(&self) -> String {
        match self {
            Self::Exact(on) => on.to_string(),
            Self::Wrong(_) => String::new(),
        }
    }
}

impl StubLiteral for Text<'_> {
    fn stub_literal(&self) -> String {
        match self {
            Self::Default(text) => text.stub_literal(),
            Self::Passed(_) | Self::Wrong(_) => String::new(),
        }
    }
}
