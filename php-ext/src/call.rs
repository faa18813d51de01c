//! What a call may have besides a key and a cost.

use ext_php_rs::exception::PhpResult;
use ratelimit_core::{Call, FailureRule};

use crate::convert::{Nullable, Text};
use crate::exception;

/// The optional arguments that the verbs share.
pub(crate) struct Extras<'a> {
    token: Option<&'a [u8]>,
    on_error: Option<FailureRule>,
}

impl<'a> Extras<'a> {
    #[inline]
    pub(crate) fn of(token: Nullable<Text<'a>>, on_error: Nullable<Text<'_>>) -> PhpResult<Self> {
        let token = token.get("token")?;
        Ok(Self { token, on_error: if on_error.0.is_none() { None } else { Some(failure_rule(on_error)?) } })
    }

    #[inline]
    pub(crate) fn on(&self, call: Call<'a>) -> Call<'a> {
        let call = self.token.map_or(call, |token| call.token(token));
        self.on_error.map_or(call, |rule| call.on_error(rule))
    }
}

#[cold]
fn failure_rule(on_error: Nullable<Text<'_>>) -> PhpResult<FailureRule> {
    let name = on_error.utf8("onError")?.unwrap_or_default();
    name.parse().map_err(|error| exception::from_core(&error))
}
