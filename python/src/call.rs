//! A call whose arguments are kept, for those who ask later or from elsewhere.

use pyo3::prelude::*;

use crate::core::Call;
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

/// A call that borrows nothing of Python's.
#[derive(Debug)]
pub(crate) struct OwnedCall {
    verb: Verb,
    key: key::Owned,
    cost: i64,
    token: Option<Box<[u8]>>,
}

impl OwnedCall {
    pub(crate) fn of(
        verb: Verb,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (cost, token) = (number::cost(cost)?, key::token(token)?.map(Into::into));
        Ok(Self { verb, key: key::Owned::of(key)?, cost, token })
    }

    /// A call without more to it than a key and a cost.
    pub(crate) fn plain(key: key::Owned, cost: i64) -> Self {
        Self { verb: Verb::Allow, key, cost, token: None }
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
        let call = self.token.as_deref().map_or(call, |token| call.token(token));
        now_us.map_or(call, |now_us| call.at_us(now_us))
    }
}
