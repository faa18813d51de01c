//! A call whose arguments are kept, for those who ask later or from elsewhere.

use pyo3::prelude::*;

use crate::core::{Call, FailureRule};
use crate::error::OrRaise as _;
use crate::key;
use crate::number::{self, Given};

/// What a call asks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Allow,
    Peek,
    Reserve { max_wait_us: u64 },
    Refund,
}

/// What a call may have besides a key and a cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extras<'a> {
    token: Option<&'a [u8]>,
    on_error: Option<FailureRule>,
}

impl<'a> Extras<'a> {
    pub(crate) fn of(token: Option<&'a Bound<'_, PyAny>>, on_error: Option<&str>) -> PyResult<Self> {
        Ok(Self { token: key::token(token)?, on_error: on_error.map(str::parse).transpose().or_raise()? })
    }

    pub(crate) fn on(&self, call: Call<'a>) -> Call<'a> {
        let call = self.token.map_or(call, |token| call.token(token));
        self.on_error.map_or(call, |rule| call.on_error(rule))
    }
}

/// A call that borrows nothing of Python's.
#[derive(Debug)]
pub(crate) struct OwnedCall {
    verb: Verb,
    key: key::Owned,
    cost: i64,
    token: Option<Box<[u8]>>,
    on_error: Option<FailureRule>,
}

impl OwnedCall {
    pub(crate) fn of(verb: Verb, key: &Bound<'_, PyAny>, cost: Given<'_, '_>, extras: Extras<'_>) -> PyResult<Self> {
        let (cost, token) = (number::cost(cost)?, extras.token.map(Into::into));
        Ok(Self { verb, key: key::Owned::of(key)?, cost, token, on_error: extras.on_error })
    }

    /// One of many calls.
    pub(crate) fn one_of_many(key: key::Owned, cost: i64, extras: Extras<'_>) -> Self {
        Self { verb: Verb::Allow, key, cost, token: None, on_error: extras.on_error }
    }

    /// Its key, to be read once and then borrowed.
    pub(crate) fn key(&self) -> key::Read<'_> {
        self.key.read()
    }

    /// The call, with the key that was read, as of an instant that a clock in Python told.
    pub(crate) fn call<'a>(&'a self, key: &'a key::Read<'a>, now_us: Option<u64>) -> Call<'a> {
        let call = match self.verb {
            Verb::Allow => Call::allow(key.keys(), self.cost),
            Verb::Peek => Call::peek(key.keys(), self.cost),
            Verb::Reserve { max_wait_us } => Call::reserve(key.keys(), self.cost, max_wait_us),
            Verb::Refund => Call::refund(key.keys(), self.cost),
        };
        let call = Extras { token: self.token.as_deref(), on_error: self.on_error }.on(call);
        now_us.map_or(call, |now_us| call.at_us(now_us))
    }
}
