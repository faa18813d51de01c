//! What to do with a request that does not say who is calling.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::named;
use crate::error::{Error, Result};

/// What to do with a request that does not say who is calling. It is chosen, since a key such as "unknown" would make
/// one budget of all such callers without anybody having wanted that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingIdentity {
    /// Refuse it: [`unidentified`](super::unidentified) is the answer.
    #[default]
    Reject,
    /// Let it pass, unlimited.
    Skip,
    /// Let all such requests share one budget, that of [`SHARED_KEY`](Self::SHARED_KEY).
    Shared,
}

impl MissingIdentity {
    /// Every rule by the name it has in every language.
    pub const ALL: [(&'static str, Self); 3] =
        [("reject", Self::Reject), ("skip", Self::Skip), ("shared", Self::Shared)];

    /// The key of all requests that do not say who is calling, for [`Shared`](Self::Shared). The zero byte keeps it apart
    /// from keys that people write.
    pub const SHARED_KEY: &'static str = "\0unidentified";
}

impl FromStr for MissingIdentity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, "on_missing_key", text)
    }
}

/// Says once, and not with every request, that something is worth a report.
///
/// ```
/// use ratelimit_core::http::missing::Once;
///
/// let once = Once::default();
/// assert!(once.first());
/// assert!(!once.first());
/// ```
#[derive(Debug, Default)]
pub struct Once(AtomicBool);

impl Once {
    /// True the first time, from whatever thread.
    pub fn first(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}
