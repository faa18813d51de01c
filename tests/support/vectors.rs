//! The vectors that every language runs; `tests/vectors/README.md` defines each member.

use std::fs;
use std::path::Path;

use ratelimit_core::{Policy, Result};
use serde::Deserialize;

/// The instant at which every case begins, in microseconds since 1970.
pub const EPOCH_US: u64 = 1_700_000_000_000_000;

/// One file.
#[derive(Debug, Deserialize)]
pub struct File {
    /// Its cases.
    pub cases: Vec<Case>,
}

/// A history of calls.
#[derive(Debug, Deserialize)]
pub struct Case {
    /// What it shows.
    pub name: String,
    /// The policy it starts with.
    pub policy: PolicyNumbers,
    /// The calls.
    pub steps: Vec<Step>,
}

/// One call.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// Since the case began.
    pub at_us: u64,
    /// What is asked.
    pub verb: Verb,
    /// For how much.
    #[serde(default)]
    pub cost: i64,
    /// The longest wait of a reservation; `None` is as long as it takes.
    pub max_wait_us: Option<u64>,
    /// A policy that replaces the one before.
    pub policy: Option<PolicyNumbers>,
    /// The decision; a reset has none.
    pub expect: Option<Expectation>,
}

/// The verbs.
#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Take.
    Allow,
    /// Look.
    Peek,
    /// Forget.
    Reset,
    /// Take ahead of time.
    Reserve,
    /// Give back.
    Refund,
}

/// The numbers of a decision.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Expectation {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    /// `None` is never.
    pub retry_after_us: Option<u64>,
    pub reset_after_us: u64,
    /// Of a reservation; else 0 and left out.
    #[serde(default)]
    pub delay_us: u64,
}

/// One file of cases over several policies.
#[derive(Debug, Deserialize)]
pub struct SeveralFile {
    /// Its cases.
    pub cases: Vec<SeveralCase>,
}

/// A history of calls on several policies.
#[derive(Debug, Deserialize)]
pub struct SeveralCase {
    /// What it shows.
    pub name: String,
    /// The policies.
    pub policies: Vec<NamedNumbers>,
    /// The calls.
    pub steps: Vec<SeveralStep>,
}

/// A policy in numbers, and its name.
#[derive(Debug, Deserialize)]
pub struct NamedNumbers {
    /// What it is called.
    pub name: String,
    /// Its numbers.
    #[serde(flatten)]
    pub numbers: PolicyNumbers,
}

/// One call on several policies.
#[derive(Debug, Deserialize)]
pub struct SeveralStep {
    /// The call.
    #[serde(flatten)]
    pub step: StepBase,
    /// A key for each policy, by its name; without it one key for all.
    pub keys: Option<std::collections::BTreeMap<String, String>>,
    /// The decision.
    pub expect: Option<SeveralExpectation>,
}

/// What every call has.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct StepBase {
    pub at_us: u64,
    pub verb: Verb,
    #[serde(default)]
    pub cost: i64,
    pub max_wait_us: Option<u64>,
}

/// The decision on top, whose it is, and one per policy.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SeveralExpectation {
    #[serde(flatten)]
    pub top: Expectation,
    pub policy: String,
    pub each: Vec<Expectation>,
}

/// A policy in numbers.
#[derive(Debug, Deserialize, Clone)]
#[serde(tag = "algorithm", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum PolicyNumbers {
    TokenBucket {
        capacity: i64,
        refill_rate: f64,
        refill_interval: f64,
        continuous: bool,
    },
    LeakyBucket {
        capacity: i64,
        leak_rate: f64,
    },
    Gcra {
        limit: i64,
        period: f64,
        burst: Option<i64>,
    },
    FixedWindow {
        limit: i64,
        window: f64,
        aligned: bool,
    },
    SlidingWindowLog {
        limit: i64,
        window: f64,
    },
    SlidingWindowCounter {
        limit: i64,
        window: f64,
    },
    /// A text for `Policy::parse`.
    Parsed {
        text: String,
    },
}

impl PolicyNumbers {
    /// The policy.
    pub fn policy(&self) -> Result<Policy> {
        match *self {
            Self::LeakyBucket { capacity, leak_rate } => Policy::leaky_bucket(capacity, leak_rate),
            Self::Gcra { limit, period, burst } => Policy::gcra(limit, period, burst),
            Self::FixedWindow { limit, window, aligned: false } => Policy::fixed_window(limit, window),
            Self::FixedWindow { limit, window, aligned: true } => Policy::fixed_window_aligned(limit, window),
            Self::SlidingWindowLog { limit, window } => Policy::sliding_window_log(limit, window),
            Self::SlidingWindowCounter { limit, window } => Policy::sliding_window_counter(limit, window),
            Self::Parsed { ref text } => Policy::parse(text),
            Self::TokenBucket { capacity, refill_rate, refill_interval, continuous: false } => {
                Policy::token_bucket(capacity, refill_rate, refill_interval)
            }
            Self::TokenBucket { capacity, refill_rate, refill_interval, continuous: true } => {
                Policy::token_bucket_continuous(capacity, refill_rate, refill_interval)
            }
        }
    }
}

/// Every case over several policies.
///
/// # Panics
///
/// When the file is not what it should be.
pub fn several_cases() -> Vec<SeveralCase> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/several/several.json");
    let file: SeveralFile = serde_json::from_str(&fs::read_to_string(path).expect("the file")).expect("its cases");
    file.cases
}

/// Every case of every policy file.
///
/// # Panics
///
/// When a file is not what it should be.
pub fn policy_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/policy");
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of vectors") {
        let path = entry.expect("a file of vectors").path();
        let text = fs::read_to_string(&path).expect("a readable file");
        let file: File = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        cases.extend(file.cases);
    }
    cases
}
