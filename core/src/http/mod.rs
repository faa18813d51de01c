//! What a decision looks like in a response, and who a request comes from: text only, and nothing of an HTTP library.

pub mod fields;

pub mod legacy;

pub mod retry_after;

pub mod problem;

pub mod refusal;

pub mod client_ip;

pub mod forwarded;

pub mod missing;

use std::str::FromStr;

use sfv::StringRef;

pub use client_ip::{Client, ClientIp, ForwardedHeader};
pub use missing::MissingIdentity;
pub use problem::{Problem, ProblemType, problem};
pub use refusal::{BodyStyle, Refusal, refusal, unidentified};

use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Policy;

/// A header field: its name and its value.
pub type Field = (&'static str, String);

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
    /// The same three, the reset as an instant: in seconds since 1970.
    XRateLimitEpoch,
    /// `Retry-After` alone.
    None,
}

impl HeaderStyle {
    /// Every family by the name it has in every language.
    pub const ALL: [(&'static str, Self); 6] = [
        ("ietf", Self::Ietf),
        ("draft-7", Self::Draft7),
        ("draft-3", Self::Draft3),
        ("x-ratelimit", Self::XRateLimit),
        ("x-ratelimit-epoch", Self::XRateLimitEpoch),
        ("none", Self::None),
    ];
}

impl FromStr for HeaderStyle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, "style", text)
    }
}

/// How to write header fields. A [`HeaderStyle`] alone becomes the options of that style.
///
/// ```
/// use ratelimit_core::http::{HeaderOptions, HeaderStyle, headers};
/// use ratelimit_core::{Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::parse("1000000/h")?.named("upload")?, store::memory(1_000)?)?;
/// let decision = limiter.allow("user:42", 4096)?;
/// let options = HeaderOptions::from(HeaderStyle::Ietf).quota_unit("content-bytes")?.partition_key(b"\x01\x02");
/// let headers = headers(&decision, limiter.policies(), options);
/// assert_eq!(headers[0].1, r#""upload";q=1000000;qu="content-bytes";w=3600;pk=:AQI=:"#);
/// assert_eq!(headers[1].1, r#""upload";r=995904;t=3600;pk=:AQI=:"#);
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HeaderOptions<'a> {
    style: HeaderStyle,
    quota_unit: Option<&'a StringRef>,
    partition_key: Option<&'a [u8]>,
    now_us: Option<u64>,
}

impl<'a> HeaderOptions<'a> {
    /// What is counted, as `qu` of the style [`Ietf`](HeaderStyle::Ietf): `requests`, which is meant where nothing is
    /// said, `content-bytes`, `concurrent-requests` or a word of your own.
    ///
    /// Fails with [`InvalidArgument`](ErrorKind::InvalidArgument) unless it is printable ASCII.
    pub fn quota_unit(self, unit: &'a str) -> Result<Self> {
        match StringRef::from_str(unit) {
            Ok(unit) if !unit.as_str().is_empty() => Ok(Self { quota_unit: Some(unit), ..self }),
            _ => {
                let detail = format!("must be printable ASCII characters, got {unit:?}");
                Err(Error::argument_error(ErrorKind::InvalidArgument, "quota_unit", detail))
            }
        }
    }

    /// Whose budget the numbers are about, as `pk` of the style [`Ietf`](HeaderStyle::Ietf). Everybody who sees the
    /// response can read it, so it should be no raw identity.
    #[must_use]
    pub const fn partition_key(self, key: &'a [u8]) -> Self {
        Self { partition_key: Some(key), ..self }
    }

    /// The present, in microseconds since 1970, for the style [`XRateLimitEpoch`](HeaderStyle::XRateLimitEpoch). It is
    /// the wall clock's where nothing is said.
    #[must_use]
    pub const fn at_us(self, now_us: u64) -> Self {
        Self { now_us: Some(now_us), ..self }
    }
}

impl From<HeaderStyle> for HeaderOptions<'_> {
    fn from(style: HeaderStyle) -> Self {
        Self { style, ..Self::default() }
    }
}

/// The header fields of a decision, as names and values.
///
/// `policies` are those of the limiter that decided. With several, the style `ietf` tells of all of them in the order
/// given, `draft-7` lists them all in `RateLimit-Policy`, and the other numbers are those of the policy that ruled.
///
/// A denial always has a `Retry-After`, unless the call can never pass. It is the only field where a failure rule
/// answered without numbers.
///
/// ```
/// use ratelimit_core::http::{HeaderStyle, headers};
/// use ratelimit_core::{Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::token_bucket(10, 1.0, 1.0)?, store::memory(1_000)?)?;
/// let decision = limiter.allow("user:42", 1)?;
/// let headers = headers(&decision, limiter.policies(), HeaderStyle::Ietf);
/// assert_eq!(headers[1], ("RateLimit", "\"default\";r=9;t=1".to_owned()));
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn headers<'a>(decision: &Decision, policies: &[Policy], options: impl Into<HeaderOptions<'a>>) -> Vec<Field> {
    let options = options.into();
    // Where neither the store nor its fallback was asked, there are no numbers to tell.
    let known = !matches!(decision.source(), Source::FailOpen | Source::FailClosed);
    let mut headers = match options.style {
        _ if !known => Vec::new(),
        HeaderStyle::Ietf => fields::items(decision, policies, &options),
        HeaderStyle::Draft7 => fields::dictionary(decision, policies),
        HeaderStyle::Draft3 => legacy::triple(decision, legacy::DRAFT_3, None),
        HeaderStyle::XRateLimit => legacy::triple(decision, legacy::X_RATELIMIT, None),
        HeaderStyle::XRateLimitEpoch => legacy::triple(decision, legacy::X_RATELIMIT, Some(options.now())),
        HeaderStyle::None => Vec::new(),
    };
    headers.extend(retry_after::field(decision));
    headers
}

impl HeaderOptions<'_> {
    fn now(&self) -> u64 {
        use crate::clock::{Clock as _, SystemClock};
        self.now_us.unwrap_or_else(|| SystemClock.now_us())
    }
}

/// Microseconds as whole seconds, rounded up: who waits that long has waited long enough.
fn whole_seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

/// The reset of a decision, in microseconds: until the call may be tried again if it was refused, which is never at once,
/// else until the budget is whole.
fn reset_us(decision: &Decision) -> u64 {
    if decision.allowed() { decision.reset_after_us() } else { retry_after::wait_us(decision).max(1) }
}

/// The reset in whole seconds; at least one after a refusal.
fn reset_seconds(decision: &Decision) -> u64 {
    whole_seconds(reset_us(decision))
}

/// The value of that name, or an error that says which names there are.
fn named<T: Copy>(all: &[(&'static str, T)], argument: &'static str, text: &str) -> Result<T> {
    if let Some((_, value)) = all.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    let detail = format!("must be {} or {last}, got {text:?}", others.join(", "));
    Err(Error::argument_error(ErrorKind::InvalidArgument, argument, detail))
}
