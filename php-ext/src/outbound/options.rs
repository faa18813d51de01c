//! The options of a governor as PHP gives them.

use std::borrow::Cow;

use ext_php_rs::convert::FromZvalMut as _;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::{ZendHashTable, Zval};
use ratelimit_core::clock::seconds_to_us;
use ratelimit_core::outbound::HeaderNames;

use super::observation::invalid;
use crate::convert::{Float, Integer, shown, wrong_type};
use crate::engine;

/// A text, or a list of them.
pub(super) fn texts(argument: &'static str, value: &Zval) -> PhpResult<Vec<String>> {
    match value.array() {
        None => Ok(vec![text(argument, value)?]),
        Some(list) => list.values().map(|value| text(argument, value)).collect(),
    }
}

fn text(argument: &'static str, value: &Zval) -> PhpResult<String> {
    match value.dereference().zend_str() {
        Some(text) => Ok(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        None => Err(wrong_type(argument, "string|array of strings", &engine::type_name(value.dereference()))),
    }
}

/// A list of statuses.
pub(super) fn statuses(argument: &'static str, value: &Zval) -> PhpResult<Vec<u16>> {
    let Some(list) = value.array() else { return Err(wrong_type(argument, "array", &engine::type_name(value))) };
    let status = |value: &Zval| {
        let mut copy = value.dereference().shallow_clone();
        let number = Integer::from_zval_mut(&mut copy).map(|number| {
            number.get(argument, |number| invalid(argument, format!("must be integers, got {}", shown(number))))
        });
        let number = number.transpose()?.unwrap_or_default();
        u16::try_from(number).map_err(|_| invalid(argument, format!("must be between 100 and 599, got {number}")))
    };
    list.values().map(status).collect()
}

/// Seconds as microseconds.
pub(super) fn seconds_us(argument: &'static str, seconds: Float) -> PhpResult<u64> {
    let seconds = seconds.get(argument)?;
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(seconds_to_us(seconds));
    }
    Err(invalid(argument, format!("must be seconds, got {}", shown(seconds))))
}

/// How often a request is sent again.
pub(super) fn max_retries(retries: Integer) -> PhpResult<u32> {
    let wrong = |got: String| invalid("max_retries", format!("must be between 0 and 100, got {got}"));
    let retries = retries.get("maxRetries", |number| wrong(shown(number)))?;
    u32::try_from(retries).map_err(|_| wrong(retries.to_string()))
}

/// Header names of one's own.
pub(super) fn header_names(names: &ZendHashTable) -> PhpResult<HeaderNames> {
    const KNOWN: [&str; 6] = ["limit", "remaining", "reset", "retryAfter", "bucket", "scope"];
    for (key, _) in names {
        let key = key.to_string();
        if !KNOWN.contains(&key.as_str()) {
            return Err(invalid("headers", format!("must have no entry but {}, got {key:?}", KNOWN.join(", "))));
        }
    }
    let optional = |key: &str| -> PhpResult<Option<Cow<'static, str>>> {
        names.get(key).map(|value| text("headers", value).map(Cow::Owned)).transpose()
    };
    Ok(HeaderNames {
        limit: optional("limit")?.unwrap_or_default(),
        remaining: optional("remaining")?.unwrap_or_default(),
        reset: optional("reset")?.unwrap_or_default(),
        retry_after: optional("retryAfter")?,
        bucket: optional("bucket")?,
        scope: optional("scope")?,
    })
}
