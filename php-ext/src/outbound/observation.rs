//! `Observation`: what one response told about a remote API's limits.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::FromZvalMut as _;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, Zval};
use ratelimit_core::clock::{SystemClock, us_to_seconds};
use ratelimit_core::outbound::{self, Options, Response};
use ratelimit_core::{Clock as _, Error, ErrorKind};

use crate::class::{self, readonly_class};
use crate::convert::{Float, Integer, Nullable, Text, shown, wrong_type};
use crate::{engine, exception};

/// An observation of the core.
#[derive(Clone)]
pub(crate) struct Observation(pub(crate) outbound::Observation);

readonly_class!(Observation, "RateLimit\\Outbound\\Observation", [], {
    "limit": Mixed = |this, value| { set_count(value, this.0.limit()); Ok(()) };
    "remaining": Mixed = |this, value| { set_count(value, this.0.remaining()); Ok(()) };
    "resetAfter": Mixed = |this, value| { set_seconds(value, this.0.reset_after_us()); Ok(()) };
    "resetAt": Mixed = |this, value| { set_seconds(value, this.0.reset_at_us()); Ok(()) };
    "retryAfter": Mixed = |this, value| { set_seconds(value, this.0.retry_after_us()); Ok(()) };
    "bucket": Mixed = |this, value| set_text(value, this.0.bucket());
    "scope": Mixed = |this, value| set_text(value, this.0.scope());
    "rateLimited": Bool = |this, value| { value.set_bool(this.0.rate_limited()); Ok(()) };
    "isGlobal": Bool = |this, value| { value.set_bool(this.0.global()); Ok(()) };
    "wait": Mixed = |this, value| { set_seconds(value, this.0.wait_us()); Ok(()) };
});

#[php_impl]
impl Observation {
    #[php(vis = "private")]
    pub(crate) fn __construct() -> PhpResult<Self> {
        Err("an observation is made by parse_headers() or by a governor".into())
    }
}

/// Sets a count: an int where it is whole.
#[allow(clippy::cast_possible_truncation)]
fn set_count(value: &mut Zval, count: Option<f64>) {
    match count {
        // Counts have at most 15 digits.
        Some(count) if count.fract() == 0.0 => value.set_long(count as i64),
        Some(count) => value.set_double(count),
        None => value.set_null(),
    }
}

/// Sets seconds, or null.
pub(super) fn set_seconds(value: &mut Zval, us: Option<u64>) {
    match us {
        Some(us) => value.set_double(us_to_seconds(us)),
        None => value.set_null(),
    }
}

fn set_text(value: &mut Zval, text: Option<&str>) -> PhpResult {
    match text {
        Some(text) => value.set_string(text, false)?,
        None => value.set_null(),
    }
    Ok(())
}

/// Reads what a response says about limits; null when it says nothing.
#[php_function]
#[php(name = "RateLimit\\Outbound\\parse_headers")]
pub(crate) fn parse_headers(
    preset: Text<'_>,
    status: Integer,
    headers: &ZendHashTable,
    body: Nullable<Text<'_>>,
    now: Nullable<Float>,
) -> PhpResult<Option<ZBox<ZendClassObject<Observation>>>> {
    let (preset, _) = Options::named(&preset.utf8("preset")?).map_err(|error| exception::from_core(&error))?;
    let now_us = match now.0 {
        None => SystemClock.now_us(),
        Some(now) => {
            let now = now.get("now")?;
            if !now.is_finite() || now < 0.0 {
                return Err(invalid("now", format!("must be seconds since 1970, got {}", shown(now))));
            }
            ratelimit_core::clock::seconds_to_us(now)
        }
    };
    let status = status_of(status)?;
    let body = body.get("body")?.unwrap_or_default();
    with_response(status, headers, body, |response| {
        let told = outbound::parse_headers(preset, response, now_us);
        Ok(told.map(|told| class::new_object(Observation(told))))
    })
}

/// Adds the functions to the module.
pub(crate) fn with_functions(module: ModuleBuilder) -> ModuleBuilder {
    module.function(wrap_function!(parse_headers))
}

/// A status as the core takes it.
pub(super) fn status_of(status: Integer) -> PhpResult<u16> {
    let wrong = |got: String| invalid("status", format!("must be between 100 and 999, got {got}"));
    let status = status.get("status", |status| wrong(shown(status)))?;
    u16::try_from(status).ok().filter(|status| (100..1000).contains(status)).ok_or_else(|| wrong(status.to_string()))
}

/// Calls `read` with a response as the core takes it. Headers are `[name => value or values]`, as PSR-7 gives them, or a
/// list of pairs.
pub(super) fn with_response<R>(
    status: u16,
    headers: &ZendHashTable,
    body: &[u8],
    read: impl FnOnce(&Response<'_>) -> PhpResult<R>,
) -> PhpResult<R> {
    let mut lines = Vec::with_capacity(headers.len());
    let mut members = headers.iter();
    while let Some((name, value)) = members.next_zval() {
        let value = value.dereference();
        match (name.is_long(), value.array()) {
            (true, Some(pair)) => {
                let (Some(name), Some(line)) = (pair.get_index(0), pair.get_index(1)) else {
                    return Err(wrong_type("headers", "array of pairs", "array"));
                };
                lines.push((text(name)?, text(line)?));
            }
            (_, Some(values)) => {
                let name = text(&name)?;
                for line in values.values() {
                    lines.push((name.clone(), text(line)?));
                }
            }
            (_, None) => lines.push((text(&name)?, text(value)?)),
        }
    }
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, line)| (name.as_str(), line.as_str())).collect();
    read(&Response { status, headers: &lines, body })
}

/// A header's text; bytes of no encoding that is known are shown as replacement characters, which no parser reads.
fn text(value: &Zval) -> PhpResult<String> {
    // Not in place: the array is the caller's.
    let mut copy = value.dereference().shallow_clone();
    match Text::from_zval_mut(&mut copy) {
        Some(Text::Passed(text)) => Ok(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        _ => Err(wrong_type("headers", "array of strings", &engine::type_name(value.dereference()))),
    }
}

/// The exception for one argument.
pub(super) fn invalid(argument: &'static str, detail: String) -> ext_php_rs::exception::PhpException {
    exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, argument, detail))
}
