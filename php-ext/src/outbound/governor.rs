//! `Governor`: asked before a request and told after it.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, Zval};
use ratelimit_core::outbound::{self, Before, Options, Outcome, Request};
use ratelimit_core::{self as core, ManualClock};

use super::answer::{BucketState, Fail, Go, Refuse, Retry, Returned, Ticket, Told, Wait};
use super::limit::{GlobalLimit, InvalidRequestLimit, Limit};
use super::observation::{status_of, with_response};
use super::options::{header_names, max_retries, seconds_us, statuses};
use super::{resolver, strategy};
use crate::clock::{Clock, ClockArgument};
use crate::convert::{Float, Integer, Nullable, Switch, Text, wrong_type};
use crate::{class, engine, exception, store};

/// The preset without one.
const DEFAULT: &str = "default";

/// A governor of the core.
#[php_class]
#[php(name = "RateLimit\\Outbound\\Governor")]
pub(crate) struct Governor {
    inner: outbound::Governor,
    /// A clock written in PHP, and the one inside the core's governor that is set by it before each call.
    clock: Option<(Zval, Arc<ManualClock>)>,
    /// Functions of the application's that say whether a limit applies.
    functions: Vec<(Zval, Arc<AtomicBool>)>,
    /// A function of the application's that says how long to wait before the next try, and what it said last.
    strategy: Option<(Zval, Arc<AtomicU64>)>,
    /// A function of the application's that names the bucket of a request.
    resolver: Option<Zval>,
}

#[php_impl]
impl Governor {
    #[php(defaults(preset = DEFAULT))]
    // One argument per option, as users know them.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn __construct(
        preset: Text<'_>,
        store: Option<&Zval>,
        limits: Option<&ZendHashTable>,
        globalLimit: Option<&Zval>,
        invalidRequestLimit: Option<&Zval>,
        maxRetries: Nullable<Integer>,
        safetyBuffer: Nullable<Float>,
        jitter: Nullable<Float>,
        maxDelay: Nullable<Float>,
        retryStatusCodes: Option<&Zval>,
        throwOnRateLimit: Nullable<Switch>,
        clock: Option<ClockArgument>,
        maxStoreTtl: Nullable<Float>,
        secret: Nullable<Text<'_>>,
        headers: Option<&ZendHashTable>,
        strategy: Option<&Zval>,
        onError: Nullable<Text<'_>>,
        resolver: Option<&Zval>,
    ) -> PhpResult<Self> {
        let named = Options::named(&preset.utf8("preset")?);
        let (preset, mut options) = named.map_err(|error| exception::from_core(&error))?;
        let mut functions = Vec::new();
        for limit in limits.into_iter().flat_map(ZendHashTable::values) {
            let limit = object::<Limit>("limits", "RateLimit\\Outbound\\Limit", limit)?.clone();
            options.limits.push(limit.limit);
            functions.extend(limit.applies);
        }
        if let Some(limit) = globalLimit.filter(|it| !it.is_null()) {
            let limit = object::<GlobalLimit>("globalLimit", "?RateLimit\\Outbound\\GlobalLimit", limit)?;
            options.global_limit = Some(limit.0.clone());
        }
        if let Some(limit) = invalidRequestLimit.filter(|it| !it.is_null()) {
            let type_ = "?RateLimit\\Outbound\\InvalidRequestLimit";
            options.invalid_request_limit =
                Some(object::<InvalidRequestLimit>("invalidRequestLimit", type_, limit)?.0.clone());
        }
        if let Some(retries) = maxRetries.0 {
            options.max_retries = max_retries(retries)?;
        }
        if let Some(buffer) = safetyBuffer.0 {
            options.safety_buffer_us = seconds_us("safety_buffer", buffer)?;
        }
        if let Some(jitter) = jitter.0 {
            options.jitter = jitter.get("jitter")?;
        }
        if let Some(delay) = maxDelay.0 {
            options.max_delay_us = Some(seconds_us("max_delay", delay)?);
        }
        if let Some(codes) = retryStatusCodes.filter(|it| !it.is_null()) {
            options.retry_status_codes = statuses("retryStatusCodes", codes)?;
        }
        if let Some(throws) = throwOnRateLimit.0 {
            options.throw_on_rate_limit = throws.get("throwOnRateLimit")?;
        }
        if let Some(ttl) = maxStoreTtl.0 {
            options.max_store_ttl_us = seconds_us("max_store_ttl", ttl)?;
        }
        options.secret = secret.get("secret")?.map(<[u8]>::to_vec);
        options.headers = headers.map(header_names).transpose()?;
        let resolver = resolver.map(resolver::of).transpose()?.flatten();
        let strategy = strategy.map(strategy::of).transpose()?.flatten();
        if let Some((_, said)) = &strategy {
            options.strategy = strategy::that_says(said.clone());
        }
        if let Some(rule) = onError.0 {
            let rule = rule.utf8("onError")?.parse();
            options.on_error = rule.map_err(|error| exception::from_core(&error))?;
        }

        let store = store::resolve("store", store.unwrap_or(&Zval::new()))?;
        let made = outbound::Governor::new(preset, options, store);
        let mut governor = made.map_err(|error| exception::from_core(&error))?;
        let clock = match clock.map(ClockArgument::get).transpose()? {
            None => None,
            Some(Clock::Manual(clock)) => {
                governor = governor.with_clock(clock);
                None
            }
            Some(Clock::Application(object)) => {
                let inside = Arc::new(ManualClock::new(0.0));
                governor = governor.with_clock(inside.clone());
                Some((object, inside))
            }
        };
        Ok(Self { inner: governor, clock, functions, strategy, resolver })
    }

    #[php(defaults(enabled = true))]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn before(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        enabled: Switch,
        bucket: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
        maxDelay: Nullable<Float>,
        maxRetries: Nullable<Integer>,
    ) -> PhpResult<Zval> {
        let (method, url) = (method.utf8("method")?, url.utf8("url")?);
        let bucket = self.bucket(bucket, &method, &url)?;
        let max_delay_us = match maxDelay.0 {
            None => None,
            Some(Float::Exact(delay)) if delay == f64::INFINITY => Some(None),
            Some(delay) => Some(Some(seconds_us("max_delay", delay)?)),
        };
        let request = Request {
            authorization: authorization.get("authorization")?,
            identity: identity.get("identity")?,
            enabled: enabled.get("enabled")?,
            bucket: bucket.as_deref(),
            max_delay_us,
            max_retries: maxRetries.0.map(max_retries).transpose()?,
            ..Request::new(&method, &url)
        };
        self.ask_application(&method, &url)?;
        before(self.inner.before(&request), None)
    }

    pub(crate) fn resume(&self, ticket: &Zval) -> PhpResult<Zval> {
        let ticket = object::<Ticket>("ticket", "RateLimit\\Outbound\\Ticket", ticket)?;
        self.set_clock()?;
        let inner = ticket.0.borrow().clone();
        before(self.inner.resume(inner), Some(ticket))
    }

    pub(crate) fn after(
        &self,
        ticket: &Zval,
        status: Integer,
        headers: &ZendHashTable,
        body: Nullable<Text<'_>>,
    ) -> PhpResult<Zval> {
        let ticket = object::<Ticket>("ticket", "RateLimit\\Outbound\\Ticket", ticket)?;
        let (status, body) = (status_of(status)?, body.get("body")?.unwrap_or_default());
        self.set_clock()?;
        let inner = ticket.0.borrow().clone();
        let after = with_response(status, headers, body, |response| {
            let asked = match &self.strategy {
                Some((function, said)) => strategy::ask(function, said, &self.inner, inner.attempt(), response),
                None => Ok(()),
            };
            // Everyone learns from the response, also when the function threw.
            let after = self.inner.after(inner, response).map_err(|error| exception::from_core(&error));
            asked.and(after)
        })?;
        let told = Told { observation: after.observation, invalid_limit_reached: after.invalid_limit_reached };
        match after.outcome {
            Outcome::Return => answer(Returned(told)),
            Outcome::Retry { delay_us, attempt, ticket: inner } => {
                *ticket.0.borrow_mut() = inner;
                answer(Retry { delay_us, attempt, ticket: ticket.clone(), told })
            }
            Outcome::Fail { retry_after_us, global, too_long } => {
                answer(Fail { retry_after_us, global, too_long, told })
            }
        }
    }

    pub(crate) fn abandon(&self, ticket: &Zval) -> PhpResult<()> {
        let ticket = object::<Ticket>("ticket", "RateLimit\\Outbound\\Ticket", ticket)?;
        self.set_clock()?;
        let inner = ticket.0.borrow().clone();
        self.inner.abandon(&inner).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn state(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
        bucket: Nullable<Text<'_>>,
    ) -> PhpResult<Option<BucketState>> {
        let state = self.about(method, url, authorization, identity, bucket, outbound::Governor::state)?;
        Ok(state.map(BucketState))
    }

    pub(crate) fn forget(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
        bucket: Nullable<Text<'_>>,
    ) -> PhpResult<()> {
        self.about(method, url, authorization, identity, bucket, outbound::Governor::forget)
    }

    pub(crate) fn global_budget(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
    ) -> PhpResult<Option<BucketState>> {
        let none = Nullable(None);
        let state = self.about(method, url, authorization, identity, none, outbound::Governor::global_budget)?;
        Ok(state.map(BucketState))
    }

    pub(crate) fn invalid_request_budget(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
    ) -> PhpResult<Option<BucketState>> {
        let none = Nullable(None);
        let state =
            self.about(method, url, authorization, identity, none, outbound::Governor::invalid_request_budget)?;
        Ok(state.map(BucketState))
    }

    pub(crate) fn reads_body(&self, status: Integer) -> PhpResult<bool> {
        Ok(self.inner.preset().may_limit_with(status_of(status)?))
    }

    pub(crate) fn preset(&self) -> &'static str {
        self.inner.preset().name()
    }
}

impl Governor {
    fn about<R>(
        &self,
        method: Text<'_>,
        url: Text<'_>,
        authorization: Nullable<Text<'_>>,
        identity: Nullable<Text<'_>>,
        bucket: Nullable<Text<'_>>,
        ask: impl Fn(&outbound::Governor, &Request<'_>) -> core::Result<R>,
    ) -> PhpResult<R> {
        let (method, url) = (method.utf8("method")?, url.utf8("url")?);
        let bucket = self.bucket(bucket, &method, &url)?;
        let request = Request {
            authorization: authorization.get("authorization")?,
            identity: identity.get("identity")?,
            bucket: bucket.as_deref(),
            ..Request::new(&method, &url)
        };
        self.ask_application(&method, &url)?;
        ask(&self.inner, &request).map_err(|error| exception::from_core(&error))
    }

    /// The bucket that is given with a request, or that the application's function names.
    fn bucket(&self, given: Nullable<Text<'_>>, method: &str, url: &str) -> PhpResult<Option<String>> {
        match (given.get("bucket")?, &self.resolver) {
            (Some(bucket), _) => Ok(Some(String::from_utf8_lossy(bucket).into_owned())),
            (None, Some(function)) => resolver::ask(function, method, url),
            (None, None) => Ok(None),
        }
    }

    /// Asks what only the application can say: the time, and which limits apply.
    fn ask_application(&self, method: &str, url: &str) -> PhpResult {
        self.set_clock()?;
        self.functions.iter().try_for_each(|(function, said)| Limit::ask(function, said, method, url))
    }

    fn set_clock(&self) -> PhpResult {
        if let Some((object, inside)) = &self.clock {
            inside.set_us(Clock::now_us(object)?);
        }
        Ok(())
    }
}

fn before(before: core::Result<Before>, ticket: Option<&Ticket>) -> PhpResult<Zval> {
    let wrapped = |inner: Box<outbound::Ticket>| match ticket {
        Some(ticket) => {
            *ticket.0.borrow_mut() = inner;
            ticket.clone()
        }
        None => Ticket::new(inner),
    };
    match before.map_err(|error| exception::from_core(&error))? {
        Before::Go(inner) => answer(Go(wrapped(inner))),
        Before::Wait { delay_us, reason, ticket: inner } => answer(Wait { delay_us, reason, ticket: wrapped(inner) }),
        Before::Refuse { delay_us, reason } => answer(Refuse { delay_us, reason }),
    }
}

fn answer<T: ext_php_rs::class::RegisteredClass>(answer: T) -> PhpResult<Zval> {
    use ext_php_rs::convert::IntoZval as _;
    Ok(class::new_object(answer).into_zval(false)?)
}

/// The Rust value behind an object of one of our classes.
fn object<'a, T: ext_php_rs::class::RegisteredClass>(
    argument: &'static str,
    type_: &str,
    value: &'a Zval,
) -> PhpResult<&'a T> {
    let value = value.dereference();
    let found = value.object().and_then(ZendClassObject::<T>::from_zend_obj);
    found.map(|object| &**object).ok_or_else(|| wrong_type(argument, type_, &engine::type_name(value)))
}
