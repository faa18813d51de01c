//! Header text, and nothing of an HTTP library: what a decision looks like in a response.

pub mod fields;

pub mod legacy;

pub mod retry_after;

use std::str::FromStr;

use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Policy;

/// The families of rate limit headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy` as in the newest IETF draft (since -08).
    #[default]
    Ietf,
    /// `RateLimit` as the dictionary of draft -07, with its `RateLimit-Policy`.
    Draft7,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` as in draft -03.
    Draft3,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, the reset in seconds from now.
    XRateLimit,
    /// `Retry-After` alone.
    None,
}

impl FromStr for HeaderStyle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "ietf" => Ok(Self::Ietf),
            "draft-7" => Ok(Self::Draft7),
            "draft-3" => Ok(Self::Draft3),
            "x-ratelimit" => Ok(Self::XRateLimit),
            "none" => Ok(Self::None),
            _ => {
                let detail = format!("must be ietf, draft-7, draft-3, x-ratelimit or none, got {text:?}");
                Err(Error::argument_error(ErrorKind::InvalidArgument, "style", detail))
            }
        }
    }
}

/// The header fields of a decision by `policy`, as names and values; only `Retry-After` where a failure rule answered
/// without numbers. A denial always has a `Retry-After`, unless the
/// call can never pass.
///
/// ```
/// use ratelimit_core::http::{HeaderStyle, headers};
/// use ratelimit_core::{Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::token_bucket(10, 1.0, 1.0)?, store::memory(1_000)?)?;
/// let decision = limiter.allow("user:42", 1)?;
/// let headers = headers(&decision, &limiter.policies()[0], HeaderStyle::Ietf);
/// assert_eq!(headers[1], ("RateLimit", "\"default\";r=9;t=1".to_owned()));
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn headers(decision: &Decision, policy: &Policy, style: HeaderStyle) -> Vec<(&'static str, String)> {
    // Where neither the store nor its fallback was asked, there are no numbers to tell.
    let known = !matches!(decision.source(), Source::FailOpen | Source::FailClosed);
    let mut headers = match style {
        _ if !known => Vec::new(),
        HeaderStyle::Ietf => fields::items(decision, policy),
        HeaderStyle::Draft7 => fields::dictionary(decision, policy),
        HeaderStyle::Draft3 => legacy::triple(decision, ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]),
        HeaderStyle::XRateLimit => {
            legacy::triple(decision, ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"])
        }
        HeaderStyle::None => Vec::new(),
    };
    headers.extend(retry_after::field(decision));
    headers
}

/// Microseconds as whole seconds, rounded up: who waits that long has waited long enough.
fn whole_seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

/// The reset of a decision: until the call may be tried again if it was refused, else until the budget is whole.
fn reset_seconds(decision: &Decision) -> u64 {
    let us = if decision.allowed() { decision.reset_after_us() } else { retry_after::wait_us(decision) };
    whole_seconds(us)
}
