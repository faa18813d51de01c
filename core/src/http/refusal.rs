//! The whole answer to a request that does not go ahead.

use std::str::FromStr;

use serde::Serialize;

use super::{Field, HeaderOptions, ProblemType, headers, named, problem, retry_after};
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::policy::Policy;

/// What the body of a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyStyle {
    /// Problem details, `application/problem+json`.
    #[default]
    Problem,
    /// A plain object, `application/json`: `{"error":"Too many requests","retry_after":60}`.
    Json,
    /// Nothing.
    None,
}

impl BodyStyle {
    /// Every style by the name it has in every language.
    pub const ALL: [(&'static str, Self); 3] = [("problem", Self::Problem), ("json", Self::Json), ("none", Self::None)];
}

impl FromStr for BodyStyle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, "body", text)
    }
}

/// The answer to a request that does not go ahead, for any HTTP library to send.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// 429, 503 where the service is to blame, or 403 for a caller who cannot be told from others.
    pub status: u16,
    /// The fields of the style, then `Retry-After`, `Content-Type` and `Cache-Control`.
    pub headers: Vec<Field>,
    /// The body; empty for [`BodyStyle::None`].
    pub body: String,
}

/// The answer to a denied call; `None` when it was allowed. No cache may keep it.
///
/// ```
/// use ratelimit_core::http::{BodyStyle, HeaderStyle, refusal};
/// use ratelimit_core::{Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::parse("1/m")?, store::memory(1_000)?)?;
/// limiter.allow("user:42", 1)?;
/// let decision = limiter.allow("user:42", 1)?;
/// let refusal = refusal(&decision, limiter.policies(), HeaderStyle::None, BodyStyle::Json, None).expect("a denial");
/// assert_eq!(refusal.status, 429);
/// assert_eq!(refusal.headers[0], ("Retry-After", "60".to_owned()));
/// assert_eq!(refusal.headers[2], ("Cache-Control", "no-store".to_owned()));
/// assert_eq!(refusal.body, r#"{"error":"Too many requests","retry_after":60}"#);
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn refusal<'a>(
    decision: &Decision,
    policies: &[Policy],
    options: impl Into<HeaderOptions<'a>>,
    body: BodyStyle,
    type_: Option<ProblemType>,
) -> Option<Refusal> {
    let problem = problem(decision, policies, type_)?;
    let plain = Plain { error: reason(problem.status), retry_after: retry_after::seconds(decision) };
    Some(Refusal::new(problem.status, headers(decision, policies, options), body, &problem, &plain))
}

/// The answer to a request that does not say who is calling, where such requests are rejected.
pub fn unidentified(body: BodyStyle) -> Refusal {
    let status = 403;
    let detail = "The request does not say who is calling.";
    let problem = Untyped { title: reason(status), status, detail };
    Refusal::new(status, Vec::new(), body, &problem, &Plain { error: reason(status), retry_after: None })
}

/// A problem whose type says no more than the status.
#[derive(Debug, Serialize)]
struct Untyped {
    title: &'static str,
    status: u16,
    detail: &'static str,
}

#[derive(Debug, Serialize)]
struct Plain {
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: u16, mut headers: Vec<Field>, body: BodyStyle, problem: &impl Serialize, plain: &Plain) -> Self {
        let (type_, body) = match body {
            BodyStyle::Problem => (Some("application/problem+json"), json(problem)),
            BodyStyle::Json => (Some("application/json"), json(plain)),
            BodyStyle::None => (None, String::new()),
        };
        headers.extend(type_.map(|type_| ("Content-Type", type_.to_owned())));
        headers.push(("Cache-Control", "no-store".to_owned()));
        Self { status, headers, body }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        403 => "Forbidden",
        503 => "Service unavailable",
        _ => "Too many requests",
    }
}

/// A value of texts and numbers as JSON, which cannot fail.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
