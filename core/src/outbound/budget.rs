//! Limits that are set here and not learnt: on one's own requests, on all of them, on invalid ones.

use std::fmt;
use std::sync::Arc;

use super::options::invalid;
use crate::clock::us_to_seconds;
use crate::error::Result;
use crate::policy::Policy;

/// More patterns than this in one limit are refused: each is tried on every request.
const MAX_PATTERNS: usize = 64;

/// A window on everything is kept longer by this part of it at most: more would waste what the API allows.
const JITTER_PART: u64 = 20;

/// Up to so many invalid requests are remembered one by one.
const MAX_EXACT_INVALID: i64 = 1_000;

/// A limit of one's own on requests, by any policy.
///
/// A request takes from every limit that applies to it, and from what was learnt of the API, or from none of them.
#[derive(Clone)]
pub struct Limit {
    pub(super) policy: Policy,
    pub(super) scope: Scope,
    pub(super) applies_to: Applies,
}

/// Whose requests one budget of a [`Limit`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those of each identity, on each host.
    #[default]
    Identity,
    /// Those to each host.
    Host,
    /// Those of each identity on each route.
    Route,
    /// All.
    Everything,
}

impl Scope {
    /// Reads `identity`, `host`, `route` or `everything`.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "identity" => Ok(Self::Identity),
            "host" => Ok(Self::Host),
            "route" => Ok(Self::Route),
            "everything" => Ok(Self::Everything),
            _ => Err(invalid("scope", format!("must be identity, host, route or everything, got {text:?}"))),
        }
    }
}

/// Says of a method and a URL whether a limit applies.
pub type Predicate = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Which requests a limit applies to.
#[derive(Clone, Default)]
pub enum Applies {
    /// All of them.
    #[default]
    All,
    /// Those whose path fits one of these patterns; a `*` stands for anything.
    Paths(Vec<String>),
    /// Those of which a function says so.
    When(Predicate),
}

impl Limit {
    /// A limit on each identity's requests.
    pub fn new(policy: Policy) -> Self {
        Self { policy, scope: Scope::default(), applies_to: Applies::default() }
    }

    /// The same for another scope.
    #[must_use]
    pub fn scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same for some requests only.
    #[must_use]
    pub fn applies_to(self, applies_to: Applies) -> Self {
        Self { applies_to, ..self }
    }

    /// The policy it counts by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

impl Applies {
    pub(super) fn to(&self, method: &str, url: &str, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Paths(patterns) => fits_any(patterns, path),
            Self::When(predicate) => predicate(method, url),
        }
    }
}

/// A limit on everything that one identity sends to a host, but for exempt paths.
#[derive(Debug, Clone)]
pub struct GlobalLimit {
    /// As the API has it. Its numbers are in the key, so that workers with different buffers share it.
    pub(super) policy: Policy,
    /// As requests are taken from it.
    pub(super) kept: Policy,
    pub(super) exempt_paths: Vec<String>,
}

impl GlobalLimit {
    /// At most `limit` requests in any `seconds`, and a twentieth more of time, or less with a shorter safety buffer, for
    /// what the network does to the distance between two requests. Paths that fit an exempt pattern are neither counted nor held back,
    /// also not by a pause on everything.
    pub fn new(limit: i64, seconds: f64, exempt_paths: Vec<String>) -> Result<Self> {
        check_patterns("exempt_paths", &exempt_paths)?;
        // The sliding window is exact: a bucket would let nearly twice as many pass within one window.
        let policy = Policy::sliding_window_log(limit, seconds)?.named("global")?;
        Ok(Self { kept: policy.clone(), policy, exempt_paths })
    }

    /// Holds requests back somewhat longer than a window, at most by `buffer_us`. The API counts them when they arrive:
    /// one that was longer on its way than those after it is counted together with them.
    pub(super) fn keep_longer(&mut self, buffer_us: u64) -> Result<()> {
        let window_us = self.policy.window_us();
        let kept_us = window_us + buffer_us.min(window_us / JITTER_PART);
        let limit = i64::try_from(self.policy.limit()).unwrap_or(i64::MAX);
        self.kept = Policy::sliding_window_log(limit, us_to_seconds(kept_us))?.named(self.policy.name())?;
        Ok(())
    }

    /// Discord's: 50 in a second, interactions exempt.
    pub fn discord() -> Result<Self> {
        Self::new(50, 1.0, vec!["*/interactions/*".to_owned()])
    }

    pub(super) fn exempts(&self, path: &str) -> bool {
        fits_any(&self.exempt_paths, path)
    }
}

/// A limit on requests that the API calls invalid, beyond which it shuts the address out.
#[derive(Debug, Clone)]
pub struct InvalidRequestLimit {
    pub(super) policy: Policy,
    pub(super) statuses: Vec<u16>,
    pub(super) ignored_scopes: Vec<String>,
}

impl InvalidRequestLimit {
    /// At most `limit` responses of these statuses in `seconds`, or, above 1 000, in about that time; those whose scope is
    /// ignored are not counted.
    pub fn new(limit: i64, seconds: f64, statuses: Vec<u16>, ignored_scopes: Vec<String>) -> Result<Self> {
        if statuses.is_empty() || !statuses.iter().all(|status| (100..=599).contains(status)) {
            return Err(invalid("statuses", format!("must be one or more between 100 and 599, got {statuses:?}")));
        }
        check_patterns("ignored_scopes", &ignored_scopes)?;
        // Exact where that takes little; else two counters instead of ten thousand entries.
        let policy = if limit <= MAX_EXACT_INVALID {
            Policy::sliding_window_log(limit, seconds)?
        } else {
            Policy::sliding_window_counter(limit, seconds)?
        };
        let policy = policy.named("invalid")?;
        Ok(Self { policy, statuses, ignored_scopes })
    }

    /// Discord's: 10 000 in ten minutes with 401, 403 or 429; those of the scope `shared` do not count.
    pub fn discord() -> Result<Self> {
        Self::new(10_000, 600.0, vec![401, 403, 429], vec!["shared".to_owned()])
    }

    pub(super) fn counts(&self, status: u16, scope: Option<&str>) -> bool {
        let ignored = scope.is_some_and(|scope| self.ignored_scopes.iter().any(|other| other == scope));
        self.statuses.contains(&status) && !ignored
    }
}

fn check_patterns(argument: &'static str, patterns: &[String]) -> Result<()> {
    if patterns.len() > MAX_PATTERNS {
        return Err(invalid(argument, format!("must be at most {MAX_PATTERNS}, got {}", patterns.len())));
    }
    match patterns.iter().find(|pattern| pattern.is_empty()) {
        Some(_) => Err(invalid(argument, "must not have an empty entry")),
        None => Ok(()),
    }
}

fn fits_any(patterns: &[String], path: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern, path))
}

/// Whether a path is what the pattern says, of which a `*` is any run of characters.
fn fits(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The first place leaves most room for the parts after it.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl fmt::Debug for Applies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("All"),
            Self::Paths(patterns) => f.debug_tuple("Paths").field(patterns).finish(),
            Self::When(_) => f.write_str("When"),
        }
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit").field("policy", &self.policy).field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a*", "/ab", true),
            ("*", "", true),
            ("*/interactions/*", "/api/v10/interactions/1/callback", true),
            ("*/interactions/*", "/api/v10/channels/1", false),
            ("/a*b*c", "/axbxbc", true),
            ("/a*a", "/a", false),
        ] {
            assert_eq!(fits(pattern, path), expected, "{pattern} {path}");
        }
    }
}
