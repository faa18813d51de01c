//! Refusals as problem details (RFC 9457), of the types that the IETF draft on rate limits registers.

use std::str::FromStr;

use serde::Serialize;

use super::{named, retry_after};
use crate::decision::{Decision, Source};
use crate::error::{Error, Result};
use crate::policy::Policy;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemType {
    /// The caller has used up a quota: 429.
    QuotaExceeded,
    /// The service can do less than usual, whoever calls: 503.
    TemporaryReducedCapacity,
    /// The caller behaves as no caller should, such as by guessing passwords: 429.
    AbnormalUsageDetected,
}

impl ProblemType {
    /// Every type by the name it has in every language, which is the last part of its URI.
    pub const ALL: [(&'static str, Self); 3] = [
        ("quota-exceeded", Self::QuotaExceeded),
        ("temporary-reduced-capacity", Self::TemporaryReducedCapacity),
        ("abnormal-usage-detected", Self::AbnormalUsageDetected),
    ];

    /// What identifies the type.
    pub const fn uri(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Self::TemporaryReducedCapacity => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            Self::AbnormalUsageDetected => "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
        }
    }

    /// The same sentence for every problem of the type.
    pub const fn title(self) -> &'static str {
        match self {
            Self::QuotaExceeded => "Request cannot be satisfied as assigned quota has been exceeded",
            Self::TemporaryReducedCapacity => {
                "Request cannot be satisfied due to temporary server capacity constraints"
            }
            Self::AbnormalUsageDetected => "Request not satisfied due to detection of abnormal request pattern",
        }
    }

    /// The status of a response with a problem of the type.
    pub const fn status(self) -> u16 {
        match self {
            Self::QuotaExceeded | Self::AbnormalUsageDetected => 429,
            Self::TemporaryReducedCapacity => 503,
        }
    }
}

impl FromStr for ProblemType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, "type", text)
    }
}

/// A refusal as problem details. [`json`](Self::json) is the body, of the type `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The URI of the type.
    #[serde(rename = "type")]
    pub type_uri: &'static str,
    /// The same sentence for every problem of the type.
    pub title: &'static str,
    /// The status of the response.
    pub status: u16,
    /// What was refused and whether to wait, for people.
    pub detail: String,
    /// The names of the policies that refused; none where nobody could look at the budget.
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<String>,
}

impl Problem {
    /// The problem as a JSON object.
    pub fn json(&self) -> String {
        super::refusal::json(self)
    }
}

/// The problem details of a denial by `policies`, those of the limiter; `None` when the call was allowed.
///
/// Without a `type` it is [`QuotaExceeded`](ProblemType::QuotaExceeded). Where the failure rule refuses since the store
/// is away it is [`TemporaryReducedCapacity`](ProblemType::TemporaryReducedCapacity) whatever `type` says, since nobody
/// has exceeded anything.
///
/// ```
/// use ratelimit_core::http::problem;
/// use ratelimit_core::{Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::parse("1/m")?.named("login")?, store::memory(1_000)?)?;
/// assert_eq!(problem(&limiter.allow("user:42", 1)?, limiter.policies(), None), None);
///
/// let problem = problem(&limiter.allow("user:42", 1)?, limiter.policies(), None).expect("the second is refused");
/// assert_eq!(problem.status, 429);
/// assert_eq!(problem.violated_policies, ["login"]);
/// assert_eq!(problem.detail, "The rate limit of 1 is used up. Try again in 60 seconds.");
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn problem(decision: &Decision, policies: &[Policy], type_: Option<ProblemType>) -> Option<Problem> {
    if decision.allowed() {
        return None;
    }
    let closed = decision.source() == Source::FailClosed;
    let type_ = if closed { None } else { type_ };
    let type_ =
        type_.unwrap_or(if closed { ProblemType::TemporaryReducedCapacity } else { ProblemType::QuotaExceeded });
    Some(Problem {
        type_uri: type_.uri(),
        title: type_.title(),
        status: type_.status(),
        detail: detail(decision, closed),
        violated_policies: if closed { Vec::new() } else { violated(decision, policies) },
    })
}

fn detail(decision: &Decision, closed: bool) -> String {
    let limit = decision.limit();
    let what = if closed {
        "Requests cannot be counted at the moment.".to_owned()
    } else if decision.retry_after().is_none() {
        format!("The request costs more than the rate limit of {limit}.")
    } else {
        format!("The rate limit of {limit} is used up.")
    };
    match retry_after::seconds(decision) {
        None => format!("{what} No wait will help."),
        Some(1) => format!("{what} Try again in 1 second."),
        Some(seconds) => format!("{what} Try again in {seconds} seconds."),
    }
}

/// The names of the policies that refused, each once.
fn violated(decision: &Decision, policies: &[Policy]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for refused in decision.each().iter().filter(|decision| !decision.allowed()) {
        let Some(name) = policies.get(refused.policy()).map(Policy::name) else { continue };
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}
