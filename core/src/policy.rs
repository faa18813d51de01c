//! An algorithm with its numbers and a name.

mod text;

use std::fmt;
use std::sync::Arc;

use once_cell::race::OnceBox;

use crate::algorithm::calendar::Calendar;
use crate::algorithm::fixed_window::{Placing, no_reservation};
use crate::algorithm::{
    Bucket, FixedWindow, Gcra, LeakyBucket, Learnt, Leased, MAX_UNITS, Question, SlidingWindowCounter,
    SlidingWindowLog, State, TokenBucket, Verdict,
};
use crate::error::{Error, ErrorKind, Result};
use crate::lua::{self, Machine};

/// The longest policy name, in bytes.
const MAX_NAME: usize = 100;

/// How much is allowed: an algorithm with its numbers and a name. Immutable and cheap to clone.
///
/// The name is part of the stored key, so two policies with different names never share a budget, and it is what a
/// decision, a header or a metric calls the policy.
///
/// Windows, periods and intervals are seconds: windows from a millisecond, the interval of a bucket that is refilled at its
/// end from a microsecond, other periods above 0, all up to 71 years. Limits, capacities and bursts are integers from 1
/// to 2147483647. What is out of range, or cannot be counted exactly together, is an
/// [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) that names the number.
#[derive(Clone)]
pub struct Policy(Arc<Inner>);

struct Inner {
    name: Box<str>,
    algorithm: Algorithm,
    /// The numbers as the Redis scripts take them, alone and among several policies; made without a lock, which a fork
    /// could catch.
    alone: OnceBox<Box<[u8]>>,
    among_several: OnceBox<Box<[u8]>>,
}

/// The rule that a policy follows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// See [`LeakyBucket`].
    LeakyBucket(LeakyBucket),
    /// See [`Gcra`].
    Gcra(Gcra),
    /// See [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// See [`SlidingWindowLog`].
    SlidingWindowLog(SlidingWindowLog),
    /// See [`SlidingWindowCounter`].
    SlidingWindowCounter(SlidingWindowCounter),
    /// See [`Learnt`]; only a [`Governor`](crate::outbound::Governor) makes them.
    Learnt(Learnt),
    /// Units that a server gave this host to spend; only a limiter with leases makes them, and only for embedded stores.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    Leased(Leased),
}

/// Whether a name is one: 1 to 100 printable ASCII characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if (1..=MAX_NAME).contains(&name.len()) && printable {
        return Ok(());
    }
    let got = if name.len() > MAX_NAME { format!("{} bytes", name.len()) } else { format!("{name:?}") };
    Err(Error::policy("name", format!("must be 1 to {MAX_NAME} printable ASCII characters, got {got}")))
}

impl Policy {
    /// A token bucket that gains `refill_rate` tokens at the end of every `refill_interval` seconds.
    ///
    /// A fractional rate is kept as the exact ratio it was written as.
    ///
    /// ```
    /// let policy = ratelimit_core::Policy::token_bucket(10, 0.5, 1.0)?;
    /// assert_eq!(policy.limit(), 10);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn token_bucket(capacity: i64, refill_rate: f64, refill_interval: f64) -> Result<Self> {
        TokenBucket::new(capacity, refill_rate, refill_interval, false).map(|it| Algorithm::TokenBucket(it).into())
    }

    /// A token bucket that gains `refill_rate` tokens per `refill_interval` seconds all the time.
    pub fn token_bucket_continuous(capacity: i64, refill_rate: f64, refill_interval: f64) -> Result<Self> {
        TokenBucket::new(capacity, refill_rate, refill_interval, true).map(|it| Algorithm::TokenBucket(it).into())
    }

    /// A leaky bucket of `capacity` units that leaks `leak_rate` of them per second.
    pub fn leaky_bucket(capacity: i64, leak_rate: f64) -> Result<Self> {
        LeakyBucket::new(capacity, leak_rate).map(|it| Algorithm::LeakyBucket(it).into())
    }

    /// GCRA: `limit` units per `period` seconds, evenly spaced, of which `burst` may come at once (`None`: the limit).
    pub fn gcra(limit: i64, period: f64, burst: Option<i64>) -> Result<Self> {
        Gcra::new(limit, period, burst).map(|it| Algorithm::Gcra(it).into())
    }

    /// At most `limit` units in each window of `window` seconds, opened by the first hit.
    ///
    /// Around the edge of two windows up to twice the limit may pass within one window's length.
    pub fn fixed_window(limit: i64, window: f64) -> Result<Self> {
        FixedWindow::new(limit, window, false).map(|it| Algorithm::FixedWindow(it).into())
    }

    /// At most `limit` units in each window of `window` seconds; windows stand at multiples of it since 1970.
    pub fn fixed_window_aligned(limit: i64, window: f64) -> Result<Self> {
        FixedWindow::new(limit, window, true).map(|it| Algorithm::FixedWindow(it).into())
    }

    /// At most `limit` units in each day, week or month of a time zone.
    pub fn fixed_window_calendar(limit: i64, calendar: Calendar) -> Result<Self> {
        FixedWindow::calendar(limit, calendar).map(|it| Algorithm::FixedWindow(it).into())
    }

    /// At most `limit` units in any `window` seconds. Exact; remembers every grant, so memory grows with the limit.
    pub fn sliding_window_log(limit: i64, window: f64) -> Result<Self> {
        SlidingWindowLog::new(limit, window).map(|it| Algorithm::SlidingWindowLog(it).into())
    }

    /// About `limit` units in any `window` seconds, from two counters.
    pub fn sliding_window_counter(limit: i64, window: f64) -> Result<Self> {
        SlidingWindowCounter::new(limit, window).map(|it| Algorithm::SlidingWindowCounter(it).into())
    }

    /// The same policy under another name: 1 to 100 printable ASCII characters. Without this it is `default`.
    pub fn named(&self, name: &str) -> Result<Self> {
        check_name(name)?;
        Ok(Self::new(name, self.0.algorithm.clone()))
    }

    /// The policy for one of `share` equal parts of a fleet: limit and rate divided, at least one unit.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let algorithm = match &self.0.algorithm {
            Algorithm::TokenBucket(it) => Algorithm::TokenBucket(it.divided(share)?),
            Algorithm::LeakyBucket(it) => Algorithm::LeakyBucket(it.divided(share)?),
            Algorithm::Gcra(it) => Algorithm::Gcra(it.divided(share)?),
            Algorithm::FixedWindow(it) => Algorithm::FixedWindow(it.divided(share)),
            Algorithm::SlidingWindowLog(it) => Algorithm::SlidingWindowLog(it.divided(share)),
            Algorithm::SlidingWindowCounter(it) => Algorithm::SlidingWindowCounter(it.divided(share)),
            Algorithm::Learnt(it) => Algorithm::Learnt(it.clone()),
            Algorithm::Leased(it) => Algorithm::Leased(it.clone()),
        };
        Ok(Self::new(&self.0.name, algorithm))
    }

    fn new(name: &str, algorithm: Algorithm) -> Self {
        let (alone, among_several) = (OnceBox::new(), OnceBox::new());
        Self(Arc::new(Inner { name: name.into(), algorithm, alone, among_several }))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The rule it follows.
    pub fn algorithm(&self) -> &Algorithm {
        &self.0.algorithm
    }

    /// The largest cost that can ever pass.
    pub fn limit(&self) -> u64 {
        match &self.0.algorithm {
            Algorithm::TokenBucket(it) => it.capacity(),
            Algorithm::LeakyBucket(it) => it.capacity(),
            Algorithm::Gcra(it) => it.burst(),
            Algorithm::FixedWindow(it) => it.limit(),
            Algorithm::SlidingWindowLog(it) => it.limit(),
            Algorithm::SlidingWindowCounter(it) => it.limit(),
            Algorithm::Learnt(_) | Algorithm::Leased(_) => MAX_UNITS,
        }
    }

    /// The time in which `limit` units come back, in microseconds.
    pub fn window_us(&self) -> u64 {
        match &self.0.algorithm {
            Algorithm::TokenBucket(it) => it.bucket().fill_us(),
            Algorithm::LeakyBucket(it) => it.bucket().fill_us(),
            Algorithm::Gcra(it) => it.bucket().fill_us(),
            Algorithm::FixedWindow(it) => it.window_us(),
            Algorithm::SlidingWindowLog(it) => it.window_us(),
            Algorithm::SlidingWindowCounter(it) => it.window_us(),
            Algorithm::Learnt(_) | Algorithm::Leased(_) => 0,
        }
    }

    /// Whether it hands out slots ahead of time; a window policy does not.
    pub fn reserves(&self) -> bool {
        self.machine() == Machine::Bucket
    }

    /// What tells the algorithms' keys apart. A new layout of the stored state gets a new tag.
    pub(crate) fn tag(&self) -> &'static str {
        match &self.0.algorithm {
            Algorithm::TokenBucket(_) => "tb",
            Algorithm::LeakyBucket(_) => "lb",
            Algorithm::Gcra(_) => "gcra",
            Algorithm::FixedWindow(_) => "fw",
            Algorithm::SlidingWindowLog(_) => "swl",
            Algorithm::SlidingWindowCounter(_) => "swc",
            Algorithm::Learnt(_) => "ob",
            Algorithm::Leased(_) => "ls",
        }
    }

    /// The machine that runs it.
    pub(crate) fn machine(&self) -> Machine {
        match &self.0.algorithm {
            Algorithm::TokenBucket(_) | Algorithm::LeakyBucket(_) | Algorithm::Gcra(_) => Machine::Bucket,
            Algorithm::FixedWindow(_) => Machine::FixedWindow,
            Algorithm::SlidingWindowCounter(_) => Machine::SlidingWindowCounter,
            Algorithm::Learnt(_) => Machine::Learnt,
            Algorithm::Leased(_) => Machine::Leased,
            Algorithm::SlidingWindowLog(_) => Machine::SlidingWindowLog,
        }
    }

    /// Whether its windows stand where the wall clock says, so that no other clock will do.
    pub(crate) fn needs_wall_clock(&self) -> bool {
        matches!(&self.0.algorithm, Algorithm::FixedWindow(it) if *it.placing() != Placing::FirstHit)
    }

    /// The bucket, where the rule is one.
    #[inline]
    pub(crate) fn bucket(&self) -> Option<&Bucket> {
        match &self.0.algorithm {
            Algorithm::TokenBucket(it) => Some(it.bucket()),
            Algorithm::LeakyBucket(it) => Some(it.bucket()),
            Algorithm::Gcra(it) => Some(it.bucket()),
            _ => None,
        }
    }

    /// The sliding log, for stores that keep its grants; `None` where three words are all the state.
    #[inline]
    pub(crate) fn log(&self) -> Option<&SlidingWindowLog> {
        match &self.0.algorithm {
            Algorithm::SlidingWindowLog(it) => Some(it),
            _ => None,
        }
    }

    /// One step of the pure model, for all algorithms but the sliding log.
    pub(crate) fn decide(&self, state: &mut Option<State>, question: &Question) -> Result<Verdict> {
        Ok(match &self.0.algorithm {
            Algorithm::TokenBucket(it) => it.bucket().decide(state, question),
            Algorithm::LeakyBucket(it) => it.bucket().decide(state, question),
            Algorithm::Gcra(it) => it.bucket().decide(state, question),
            Algorithm::FixedWindow(it) => it.decide(state, question)?,
            Algorithm::SlidingWindowLog(_) => return Err(Error::internal("a sliding log has no words")),
            Algorithm::SlidingWindowCounter(it) => it.decide(state, question),
            Algorithm::Learnt(it) => it.decide(state, question),
            Algorithm::Leased(it) => it.decide(state, question),
        })
    }

    /// Refuses leases where units that are spent later than they were taken could add up to more than the policy allows.
    pub(crate) fn check_leases(&self) -> Result<()> {
        if let Algorithm::FixedWindow(_) | Algorithm::SlidingWindowCounter(_) = &self.0.algorithm {
            return Ok(());
        }
        let why =
            "it would refill while units are out; only fixed windows and sliding window counters can be leased from";
        let detail = format!("does not go with policy {:?} ({self}): {why}", self.name());
        Err(Error::argument_error(ErrorKind::InvalidArgument, "lease", detail))
    }

    /// How much later than its window ends a budget is whole again.
    pub(crate) fn overhang_us(&self) -> u64 {
        match &self.0.algorithm {
            Algorithm::SlidingWindowCounter(it) => it.window_us(),
            _ => 0,
        }
    }

    /// Refuses to reserve where that has no meaning.
    pub(crate) fn check_reserves(&self) -> Result<()> {
        if self.reserves() { Ok(()) } else { Err(no_reservation(self.name())) }
    }

    /// Appends the policy's numbers to a command, as the scripts take them. `now_us` matters to a calendar's windows.
    pub(crate) fn write_lua_numbers(&self, command: &mut Vec<u8>, now_us: u64, several: bool) -> Result<()> {
        if matches!(&self.0.algorithm, Algorithm::FixedWindow(it) if matches!(it.placing(), Placing::Calendar(_))) {
            command.extend_from_slice(&self.lua_numbers(now_us, several)?);
        } else {
            let cell = if several { &self.0.among_several } else { &self.0.alone };
            command.extend_from_slice(cell.get_or_try_init(|| self.lua_numbers(now_us, several).map(Box::new))?);
        }
        Ok(())
    }

    fn lua_numbers(&self, now_us: u64, several: bool) -> Result<Box<[u8]>> {
        let own = match &self.0.algorithm {
            Algorithm::TokenBucket(it) => it.bucket().numbers(),
            Algorithm::LeakyBucket(it) => it.bucket().numbers(),
            Algorithm::Gcra(it) => it.bucket().numbers(),
            Algorithm::FixedWindow(it) => it.numbers(now_us)?,
            Algorithm::SlidingWindowLog(it) => it.numbers(),
            Algorithm::SlidingWindowCounter(it) => it.numbers(),
            Algorithm::Learnt(it) => it.numbers(),
            Algorithm::Leased(_) => return Err(Error::internal("leased units are never on a server")),
        };
        let mut encoded = Vec::new();
        if several {
            let [first, second, third, fourth, fifth] = own;
            lua::numbers(&mut encoded, [self.machine() as u64, first, second, third, fourth, fifth].into_iter());
        } else {
            lua::numbers(&mut encoded, own.into_iter());
        }
        Ok(encoded.into_boxed_slice())
    }
}

impl From<Algorithm> for Policy {
    fn from(algorithm: Algorithm) -> Self {
        Self::new("default", algorithm)
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.algorithm == other.0.algorithm
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.0.name).field("algorithm", &self.0.algorithm).finish()
    }
}
