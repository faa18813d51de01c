//! What a host and a governor hand each other: a request, a ticket, answers.

use std::fmt;

use super::observation::Observation;
use super::options::check_max_delay;
use super::route::Route;
use crate::error::Result;
use crate::key::StoredKey;

/// A request before it is sent, with what is different for this one.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The absolute URL. Its query is not looked at.
    pub url: &'a str,
    /// The value of the `Authorization` header, where there is one: whose budget it is. Only a fingerprint is kept.
    pub authorization: Option<&'a [u8]>,
    /// Whose budget it is, in place of what `authorization` says.
    pub identity: Option<&'a [u8]>,
    /// `false` sends it as if there were no governor.
    pub enabled: bool,
    /// What it is counted under, in place of what the route says.
    pub bucket: Option<&'a str>,
    /// In place of the option: `Some(None)` waits as long as it takes.
    pub max_delay_us: Option<Option<u64>>,
    /// In place of the option.
    pub max_retries: Option<u32>,
}

impl<'a> Request<'a> {
    /// A request without anything special.
    pub fn new(method: &'a str, url: &'a str) -> Self {
        Self {
            method,
            url,
            authorization: None,
            identity: None,
            enabled: true,
            bucket: None,
            max_delay_us: None,
            max_retries: None,
        }
    }

    /// The same with credentials.
    #[must_use]
    pub fn authorization(self, authorization: &'a [u8]) -> Self {
        Self { authorization: Some(authorization), ..self }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.max_delay_us {
            Some(Some(us)) => check_max_delay(us),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL and the credentials stay out of logs.
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// A request on its way: goes from [`before`](super::Governor::before) to [`after`](super::Governor::after).
///
/// Holds no credential, no URL and no id of a request, so it may be logged.
#[derive(Debug, Clone)]
pub struct Ticket {
    /// `None` for a request that the governor has nothing to do with.
    pub(super) way: Option<Way>,
    pub(super) max_delay_us: Option<u64>,
    pub(super) max_retries: u32,
    pub(super) attempt: u32,
    pub(super) waited_us: u64,
    /// How often it asked in vain for what somebody else is finding out.
    pub(super) polls: u32,
    /// Whether the API is known to tell nothing, so that there is nothing to write when it does so again.
    pub(super) silent: bool,
    /// Whether it is one of the few that may be on their way while hardly an invalid request is left.
    pub(super) on_its_way: bool,
    pub(super) degraded: bool,
}

impl Ticket {
    /// How often it has been sent again.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the store gave no answer when it was last asked for this request, so that the failure rule decided.
    pub fn degraded(&self) -> bool {
        self.degraded
    }

    /// Where it goes, as logs may show it: `GET api.example.com /users/:id`. Empty for a request that is let through.
    pub fn route(&self) -> &str {
        self.way.as_ref().map_or("", |way| &way.route.template)
    }
}

/// Where a request goes and what it is counted under.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) route: Route,
    /// What a discovered bucket is found again by.
    pub(super) route_key: String,
    /// A fingerprint.
    pub(super) identity: Box<str>,
    /// The bucket that is charged.
    pub(super) bucket: String,
    /// The route as a bucket of its own, charged beside the bucket that the API named.
    pub(super) beside: Option<String>,
    /// Whether limits on everything leave it alone.
    pub(super) exempt: bool,
    /// Whether the caller named the bucket, so that no response moves it.
    pub(super) fixed: bool,
    /// Which of the options' limits apply.
    pub(super) limits: Vec<(usize, StoredKey)>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("route", &self.route.template).finish_non_exhaustive()
    }
}

/// What to do before sending.
#[derive(Debug, Clone)]
pub enum Before {
    /// Send it.
    Go(Box<Ticket>),
    /// Sleep for `delay_us`, then ask [`resume`](super::Governor::resume). Nothing has been taken.
    Wait {
        /// In microseconds.
        delay_us: u64,
        /// What it waits for.
        reason: Reason,
        /// To be handed in again.
        ticket: Box<Ticket>,
    },
    /// Do not send it: the wait would be longer than the longest that is accepted. Nothing has been taken.
    Refuse {
        /// The wait it would have been, in microseconds.
        delay_us: u64,
        /// What it would have waited for.
        reason: Reason,
    },
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The API said to slow down, to this worker or another.
    Cooldown,
    /// Another request is finding out what is left.
    Learning,
    /// The API's own limit is used up.
    Quota,
    /// A limit of one's own, by its place among the options.
    Limit(usize),
    /// The limit on everything.
    Global,
    /// Too many requests that the API called invalid.
    InvalidRequests,
    /// The store is away, and the failure rule is [`Closed`](crate::FailureRule::Closed).
    Store,
}

impl Reason {
    /// The name used in every language.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::Learning => "learning",
            Self::Quota => "quota",
            Self::Limit(_) => "limit",
            Self::Global => "global",
            Self::InvalidRequests => "invalid_requests",
            Self::Store => "store",
        }
    }
}

/// What to do with a response, and what it told.
#[derive(Debug, Clone)]
pub struct After {
    /// What to do.
    pub outcome: Outcome,
    /// What it told about limits.
    pub observation: Option<Observation>,
    /// Whether it was the invalid request after which none is sent for a while.
    pub invalid_limit_reached: bool,
}

/// What to do with a response.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Hand it to the caller.
    Return,
    /// Sleep for `delay_us`, ask [`resume`](super::Governor::resume), and send again.
    Retry {
        /// In microseconds.
        delay_us: u64,
        /// Which retry it will be, from 1.
        attempt: u32,
        /// To be handed in again.
        ticket: Box<Ticket>,
    },
    /// Raise an error: it was refused, and sending again is not allowed or would take too long.
    Fail {
        /// When it might pass, in microseconds.
        retry_after_us: u64,
        /// Whether everything of this identity is refused.
        global: bool,
        /// Whether the wait is longer than the longest that is accepted, and not the retries used up.
        too_long: bool,
    },
}

/// What is known of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketState {
    /// Units per window, where known.
    pub limit: Option<u64>,
    /// Units left, where known; more than the limit where the API says so.
    pub remaining: Option<u64>,
    /// Until it is whole again, in microseconds, where known.
    pub reset_after_us: Option<u64>,
    /// Until the next request may go, in microseconds; 0 when it may go now.
    pub retry_after_us: u64,
}
