//! The governor: asked before a request and told after it, answers with data.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::fallback::{Answer, Fallback};
use super::keys::KeyMaker;
use super::meter::Meter;
use super::options::Options;
use super::preset::Preset;
use super::route::{Directory, Guess, Route};
use super::state::{self, Charged};
use super::ticket::{Before, BucketState, Reason, Request, Ticket, Way};
use crate::clock::{Clock, MAX_INSTANT_US, SystemClock};
use crate::error::Result;
use crate::key::StoredKey;
use crate::resilience::FailureRule;
use crate::store::{Action, Charge, Operation, Store, Verdicts};

/// The first wait for what another request is finding out; each further one is longer, up to [`MAX_POLL_US`].
const FIRST_POLL_US: u64 = 20_000;

/// The longest wait for what another request is finding out.
const MAX_POLL_US: u64 = 250_000;

/// How long a request waits that is held back only because the store is away.
const CLOSED_POLL_US: u64 = 1_000_000;

/// With so few invalid requests left, no more than these are on their way at a time: each of them could be one.
const FEW_INVALID: u64 = 64;

/// Keeps one client of an API under that API's limits; one per client, shared by all its threads.
///
/// It sends nothing and never sleeps. A host asks [`before`](Self::before) a request, sleeps and asks
/// [`resume`](Self::resume) as often as it is told to, sends, and tells [`after`](Self::after):
///
/// ```
/// use std::sync::Arc;
/// use ratelimit_core::outbound::{Before, Governor, Options, Outcome, Preset, Request, Response};
/// use ratelimit_core::{Clock, ManualClock, store};
///
/// let clock = Arc::new(ManualClock::new(1_700_000_000.0));
/// let governor = Governor::new(Preset::GENERIC, Options::default(), store::memory(1_000)?)?.with_clock(clock.clone());
/// let request = Request::new("GET", "https://api.example.com/things/1");
///
/// let Before::Go(ticket) = governor.before(&request)? else { panic!("the first one goes") };
/// let headers = [("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "42")];
/// let after = governor.after(ticket, &Response { status: 200, headers: &headers, body: b"" })?;
/// assert!(matches!(after.outcome, Outcome::Return));
///
/// // The next one waits for the reset, and a second more to be safe.
/// let Before::Wait { delay_us, ticket, .. } = governor.before(&request)? else { panic!("nothing is left") };
/// assert_eq!(delay_us, 43_000_000);
/// clock.sleep_us(delay_us);
/// assert!(matches!(governor.resume(ticket)?, Before::Go(_)));
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub struct Governor {
    pub(super) preset: Preset,
    pub(super) options: Options,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) keys: KeyMaker,
    pub(super) directory: Directory,
    pub(super) meter: Meter,
    fallback: Fallback,
}

impl Governor {
    /// A governor. Fails with [`InvalidArgument`](crate::ErrorKind::InvalidArgument) when an option is out of range.
    pub fn new(preset: Preset, mut options: Options, store: Arc<dyn Store>) -> Result<Self> {
        options.check()?;
        if let Some(global) = &mut options.global_limit {
            global.keep_longer(options.safety_buffer_us)?;
        }
        let keys = KeyMaker::new(preset, options.secret.as_deref());
        let meter = Meter::new(preset, &options.limits);
        let fallback = Fallback::new(options.on_error);
        Ok(Self { preset, options, store, clock: None, keys, directory: Directory::default(), meter, fallback })
    }

    /// The same by a clock of one's own, for the store's state and for instants in headers.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Asks for a request to be sent: in one step it is taken from everything that counts it, or from nothing.
    ///
    /// Fails with [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a request that is none, and with
    /// [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable) when the store gives no answer and the options say
    /// [`Throw`](FailureRule::Throw).
    pub fn before(&self, request: &Request<'_>) -> Result<Before> {
        request.check()?;
        let way = if request.enabled { Some(self.way(request)?) } else { None };
        self.resume(Box::new(Ticket {
            way,
            max_delay_us: request.max_delay_us.unwrap_or(self.options.max_delay_us),
            max_retries: request.max_retries.unwrap_or(self.options.max_retries),
            attempt: 0,
            waited_us: 0,
            polls: 0,
            silent: false,
            on_its_way: false,
            degraded: false,
        }))
    }

    /// Asks again, after the wait that [`before`](Self::before) or [`after`](Self::after) asked for.
    pub fn resume(&self, mut ticket: Box<Ticket>) -> Result<Before> {
        let Some(way) = &mut ticket.way else { return Ok(Before::Go(ticket)) };
        self.find_bucket(way);
        let mut charged = self.charges(way);
        if let Some(invalid) = state::invalid(self, way) {
            let answer = self.decide(Action::Peek, std::slice::from_ref(&invalid))?;
            match answer.verdicts.map(|verdicts| verdicts[0]) {
                Some(verdict) if !verdict.allowed => {
                    return Ok(self.wait(ticket, verdict.retry_after_us, Reason::InvalidRequests));
                }
                Some(verdict) if verdict.remaining <= FEW_INVALID => {
                    charged.push(state::on_their_way(self, way, verdict.remaining)?);
                }
                _ => {}
            }
        }
        let Answer { verdicts, degraded } = self.decide(Action::Allow, &charged)?;
        ticket.degraded = degraded;
        let Some(verdicts) = verdicts else {
            if self.options.on_error == FailureRule::Closed {
                return Ok(self.wait(ticket, CLOSED_POLL_US, Reason::Store));
            }
            return Ok(self.go(ticket));
        };
        let refusing = charged.iter().zip(&verdicts).filter(|(_, verdict)| !verdict.allowed);
        // One wait is enough for all that refuse.
        let longest = refusing.max_by_key(|(_, verdict)| verdict.retry_after_us);
        let Some((charge, verdict)) = longest else {
            ticket.silent = charged.iter().zip(&verdicts).any(|(charge, verdict)| charge.is_silent(verdict));
            ticket.on_its_way = charged.last().is_some_and(|charge| charge.reason == Reason::InvalidRequests);
            return Ok(self.go(ticket));
        };
        // What is on its way may be back at any moment.
        if charge.is_claimed(verdict) || charge.reason == Reason::InvalidRequests {
            let poll_us = FIRST_POLL_US << ticket.polls.min(5);
            let delay_us = verdict.retry_after_us.min(poll_us.min(MAX_POLL_US));
            ticket.polls += 1;
            let reason = if charge.reason == Reason::Quota { Reason::Learning } else { charge.reason };
            return Ok(self.wait(ticket, delay_us, reason));
        }
        Ok(self.wait(ticket, verdict.retry_after_us, charge.reason))
    }

    /// What is known of the bucket that a request would be taken from; `None` when nothing is.
    ///
    /// Like the other looks at the state it fails with [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable) when the
    /// store gives no answer, whatever the failure rule: it is about what is stored there.
    pub fn state(&self, request: &Request<'_>) -> Result<Option<BucketState>> {
        let way = self.way(request)?;
        let charged: SmallVec<[Charged; 8]> =
            self.charges(&way).into_iter().filter(|charge| charge.reason != Reason::Global).collect();
        let verdicts = self.ask(&*self.store, Action::Peek, &charged)?;
        Ok(state::describe(&charged, &verdicts))
    }

    /// Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that
    /// apply to it.
    pub fn forget(&self, request: &Request<'_>) -> Result<()> {
        let way = self.way(request)?;
        self.charges(&way).iter().try_for_each(|charge| self.store.reset(&charge.key))?;
        self.directory.forget_bucket(&way.route_key);
        Ok(())
    }

    /// What is left of the limit on everything, for the identity and host of a request; `None` without such a limit.
    pub fn global_budget(&self, request: &Request<'_>) -> Result<Option<BucketState>> {
        let Some(global) = &self.options.global_limit else { return Ok(None) };
        let way = self.way(request)?;
        let key = state::global_key(&self.keys, global, &way);
        self.budget(&Charged { policy: global.kept.clone(), key, reason: Reason::Global }).map(Some)
    }

    /// What is left of the limit on invalid requests to the host of a request; `None` without such a limit.
    pub fn invalid_request_budget(&self, request: &Request<'_>) -> Result<Option<BucketState>> {
        let way = self.way(request)?;
        let Some(charged) = state::invalid(self, &way) else { return Ok(None) };
        self.budget(&charged).map(Some)
    }

    /// The preset it was made with.
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Lets time pass on the governor's clock.
    pub fn sleep_us(&self, us: u64) {
        match &self.clock {
            Some(clock) => clock.sleep_us(us),
            None => std::thread::sleep(std::time::Duration::from_micros(us)),
        }
    }

    fn budget(&self, charged: &Charged) -> Result<BucketState> {
        let verdict = self.ask(&*self.store, Action::Peek, std::slice::from_ref(charged))?[0];
        Ok(BucketState {
            limit: Some(charged.policy.limit()),
            remaining: Some(verdict.remaining),
            reset_after_us: Some(verdict.reset_after_us),
            retry_after_us: verdict.retry_after_us,
        })
    }

    fn way(&self, request: &Request<'_>) -> Result<Way> {
        let route = Route::of(self.preset, request.method, request.url)?;
        let identity = match (request.identity, request.authorization) {
            (Some(identity), _) => self.keys.identity("given", identity),
            (None, Some(authorization)) => self.keys.identity("authorization", authorization),
            (None, None) => self.keys.identity("none", b""),
        };
        let guess = route.guess(self.preset, request.authorization.or(request.identity).is_some());
        // The ids that are counted apart are in no bucket's name: what is told of one channel goes for all.
        let route_key = format!("{}\0{identity}", route.template);
        let resolved = match (request.bucket, &self.options.resolver) {
            (None, Some(resolver)) => resolver(request.method, request.url),
            _ => None,
        };
        let given = request.bucket.or(resolved.as_deref());
        let (bucket, by_route) = match (given, guess) {
            (Some(bucket), _) => (format!("given\0{bucket}"), false),
            (None, Guess::Bucket(bucket)) => (bucket, false),
            (None, Guess::Route(bucket)) => (bucket, true),
        };
        let exempt = self.options.global_limit.as_ref().is_some_and(|global| global.exempts(&route.path));
        let limits = self.options.limits.iter().enumerate();
        let limits = limits
            .filter(|(_, limit)| limit.applies_to.to(request.method, request.url, &route.path))
            .map(|(index, limit)| (index, state::limit_key(&self.keys, limit, index, &route, &identity)))
            .collect();
        let beside = by_route.then(|| bucket.clone());
        let fixed = given.is_some();
        let mut way = Way { route, route_key, identity, bucket, beside, exempt, fixed, limits };
        self.find_bucket(&mut way);
        Ok(way)
    }

    /// Puts the request under the bucket that the API has named for its route meanwhile.
    pub(super) fn find_bucket(&self, way: &mut Way) {
        if !way.fixed
            && self.preset.discovers()
            && let Some(bucket) = self.directory.bucket(&way.route_key)
        {
            way.bucket = bucket;
        }
    }

    pub(super) fn charges(&self, way: &Way) -> SmallVec<[Charged; 8]> {
        let mut charged = state::learnt(self, way);
        if let Some(global) = self.options.global_limit.as_ref().filter(|_| !way.exempt) {
            let key = state::global_key(&self.keys, global, way);
            charged.push(Charged { policy: global.kept.clone(), key, reason: Reason::Global });
        }
        charged.extend(way.limits.iter().map(|(index, key)| Charged {
            policy: self.options.limits[*index].policy.clone(),
            key: key.clone(),
            reason: Reason::Limit(*index),
        }));
        charged
    }

    /// One step on the store, or what the failure rule has in its place.
    pub(super) fn decide(&self, action: Action, charged: &[Charged]) -> Result<Answer> {
        match self.ask(&*self.store, action, charged) {
            Ok(verdicts) => Ok(Answer { verdicts: Some(verdicts), degraded: false }),
            Err(error) => self.fallback.answer(error, |store| self.ask(store, action, charged)),
        }
    }

    fn ask(&self, store: &dyn Store, action: Action, charged: &[Charged]) -> Result<Verdicts> {
        let parts: SmallVec<[Charge<'_>; 8]> =
            charged.iter().map(|part| Charge { policy: &part.policy, key: &part.key }).collect();
        let now_us = self.clock.as_ref().map(|clock| clock.now_us().clamp(1, MAX_INSTANT_US - 1));
        store.decide(&Operation { action, charges: &parts, cost: 1, now_us, token: None })
    }

    /// The clock that instants in headers are counted from.
    pub(super) fn now_us(&self) -> u64 {
        self.clock.as_ref().map_or_else(|| SystemClock.now_us(), |clock| clock.now_us())
    }

    fn go(&self, ticket: Box<Ticket>) -> Before {
        self.meter.count_request();
        Before::Go(ticket)
    }

    fn wait(&self, mut ticket: Box<Ticket>, delay_us: u64, reason: Reason) -> Before {
        let delay_us = self.jittered(delay_us);
        if ticket.max_delay_us.is_some_and(|max| ticket.waited_us.saturating_add(delay_us) > max) {
            self.meter.count_refusal(reason);
            return Before::Refuse { delay_us, reason };
        }
        self.meter.count_delay(reason, delay_us);
        ticket.waited_us = ticket.waited_us.saturating_add(delay_us);
        Before::Wait { delay_us, reason, ticket }
    }

    /// A wait, longer by a random part of it.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(super) fn jittered(&self, us: u64) -> u64 {
        if self.options.jitter == 0.0 {
            return us;
        }
        us.saturating_add((us as f64 * self.options.jitter * fastrand::f64()) as u64)
    }
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.store.kind();
        f.debug_struct("Governor").field("preset", &self.preset).field("store", &kind).finish_non_exhaustive()
    }
}

/// A key as hosts never see it.
pub(super) type Key = StoredKey;
