//! How a governor behaves, with every number checked.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::budget::{GlobalLimit, InvalidRequestLimit, Limit};
use super::preset::{HeaderNames, Preset};
use super::retry::Strategy;
use crate::clock::us_to_seconds;
use crate::error::{Error, ErrorKind, Result};
use crate::resilience::FailureRule;

/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;

/// Says of a method and a URL what the request is counted under; `None` leaves it to the route.
pub type Resolver = Arc<dyn Fn(&str, &str) -> Option<String> + Send + Sync>;

/// The options of a [`Governor`](super::Governor).
///
/// ```
/// use ratelimit_core::outbound::Options;
///
/// let patient = Options { max_retries: 8, ..Options::conservative() };
/// assert!(patient.check().is_ok());
/// let hasty = Options { max_delay_us: Some(0), ..Options::default() };
/// assert_eq!(hasty.check().unwrap_err().to_string(), "max_delay must be between 0.001 and 31536000 seconds, got 0");
/// ```
#[derive(Clone)]
pub struct Options {
    /// How often a request is sent again, from 0 to 100.
    pub max_retries: u32,
    /// Waited longer than until a reset, in microseconds, up to an hour. A `Retry-After` is taken at its word.
    pub safety_buffer_us: u64,
    /// Every wait is made longer by a random part of itself, up to this one, from 0 to 1.
    pub jitter: f64,
    /// Longer than this nothing waits, in microseconds; it is refused instead. `None`: as long as it takes.
    pub max_delay_us: Option<u64>,
    /// Statuses that are sent again beside those that the preset knows for refusals.
    pub retry_status_codes: Vec<u16>,
    /// Whether a refusal that outlasts the retries is an error, or is returned like any response.
    pub throw_on_rate_limit: bool,
    /// What is learnt is kept no longer, in microseconds; from a second to a year.
    pub max_store_ttl_us: u64,
    /// Limits of one's own.
    pub limits: Vec<Limit>,
    /// A limit on everything that one identity sends.
    pub global_limit: Option<GlobalLimit>,
    /// A limit on requests that the API calls invalid.
    pub invalid_request_limit: Option<InvalidRequestLimit>,
    /// How long to wait before the next try where the API does not say.
    pub strategy: Strategy,
    /// Header names that take the place of the preset's.
    pub headers: Option<HeaderNames>,
    /// The secret of the fingerprints under which identities are stored. Without one a guessed credential can be checked
    /// by whoever can read the store.
    pub secret: Option<Vec<u8>>,
    /// Names the bucket of a request, in place of what its route says and the API says later. A bucket that a request
    /// brings along goes before it.
    pub resolver: Option<Resolver>,
    /// What happens to requests while the store gives no answer. Unless told otherwise this host's own store takes its
    /// place, since a store that is away is no reason to break somebody's calls.
    ///
    /// [`Throw`](FailureRule::Throw): `before` and `after` fail. [`Open`](FailureRule::Open): requests go as if there were no
    /// limits. [`Closed`](FailureRule::Closed): they wait, a second at a time. [`Local`](FailureRule::Local): what this host
    /// learns holds for this host; limits of one's own are not divided.
    pub on_error: FailureRule,
}

impl Default for Options {
    /// Three retries, a second of buffer, no jitter; this host's own store where the store is away.
    fn default() -> Self {
        Self {
            max_retries: 3,
            safety_buffer_us: 1_000_000,
            jitter: 0.0,
            max_delay_us: None,
            retry_status_codes: vec![429],
            throw_on_rate_limit: true,
            max_store_ttl_us: DAY_US,
            limits: Vec::new(),
            global_limit: None,
            invalid_request_limit: None,
            strategy: Strategy::default(),
            headers: None,
            secret: None,
            resolver: None,
            on_error: FailureRule::Local,
        }
    }
}

impl Options {
    /// For jobs that have time: five retries, five seconds of buffer, waits up to a fifth longer.
    pub fn conservative() -> Self {
        Self { max_retries: 5, safety_buffer_us: 5_000_000, jitter: 0.2, ..Self::default() }
    }

    /// For somebody who waits: one retry, no buffer, no wait above ten seconds.
    pub fn aggressive() -> Self {
        Self { max_retries: 1, safety_buffer_us: 0, max_delay_us: Some(10_000_000), ..Self::default() }
    }

    /// The preset and the options that a name stands for: the name of an API, or `default`, `conservative` or `aggressive`
    /// for any API that speaks one of the common families of headers, or both as in `github+conservative`.
    ///
    /// Discord's come with its limit on everything and its limit on invalid requests.
    ///
    /// ```
    /// use ratelimit_core::outbound::{Options, Preset};
    ///
    /// let (preset, options) = Options::named("conservative")?;
    /// assert_eq!((preset, options.max_retries), (Preset::GENERIC, 5));
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<(Preset, Self)> {
        let profile = |name: &str| match name {
            "default" => Some(Self::default()),
            "conservative" => Some(Self::conservative()),
            "aggressive" => Some(Self::aggressive()),
            _ => None,
        };
        let (preset, mut options) = match (profile(name), name.split_once('+')) {
            (Some(options), _) => (Preset::GENERIC, options),
            (None, None) => (name.parse()?, Self::default()),
            (None, Some((api, word))) => match (api.parse()?, profile(word)) {
                (preset, Some(options)) => (preset, options),
                _ => {
                    return Err(invalid(
                        "preset",
                        format!("must end in default, conservative or aggressive, got {word:?}"),
                    ));
                }
            },
        };
        if preset == Preset::DISCORD {
            options.global_limit = Some(GlobalLimit::discord()?);
            options.invalid_request_limit = Some(InvalidRequestLimit::discord()?);
        }
        Ok((preset, options))
    }

    /// Refuses what is out of range, naming the option and the value.
    pub fn check(&self) -> Result<()> {
        within("max_retries", 0..=100, u64::from(self.max_retries))?;
        within_seconds("safety_buffer", 0..=3_600_000_000, self.safety_buffer_us)?;
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(invalid("jitter", format!("must be between 0 and 1, got {}", self.jitter)));
        }
        if let Some(us) = self.max_delay_us {
            check_max_delay(us)?;
        }
        for &status in &self.retry_status_codes {
            within("retry_status_codes", 100..=599, u64::from(status))?;
        }
        within_seconds("max_store_ttl", 1_000_000..=365 * DAY_US, self.max_store_ttl_us)
    }
}

/// Refuses a longest wait that is none.
pub(super) fn check_max_delay(us: u64) -> Result<()> {
    within_seconds("max_delay", 1_000..=365 * DAY_US, us)
}

fn within(argument: &'static str, range: RangeInclusive<u64>, value: u64) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(invalid(argument, format!("must be between {} and {}, got {value}", range.start(), range.end())))
}

fn within_seconds(argument: &'static str, range: RangeInclusive<u64>, us: u64) -> Result<()> {
    if range.contains(&us) {
        return Ok(());
    }
    let [from, to, us] = [*range.start(), *range.end(), us].map(us_to_seconds);
    Err(invalid(argument, format!("must be between {from} and {to} seconds, got {us}")))
}

pub(super) fn invalid(argument: &'static str, detail: impl Into<String>) -> Error {
    Error::argument_error(ErrorKind::InvalidArgument, argument, detail)
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("Options")
            .field("max_retries", &self.max_retries)
            .field("safety_buffer_us", &self.safety_buffer_us)
            .field("max_delay_us", &self.max_delay_us)
            .finish_non_exhaustive()
    }
}
