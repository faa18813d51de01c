//! `Decision`: the answer to one call.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::str::FromStr;
use std::sync::Arc;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::class::RegisteredClass;
use ext_php_rs::convert::IntoZval as _;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use ext_php_rs::zend::ce;
use ratelimit_core as core;
use ratelimit_core::clock::us_to_seconds;
use ratelimit_core::http::{self, HeaderOptions, HeaderStyle, ProblemType};
use ratelimit_core::{Error, ErrorKind, Limiter};

use crate::class::readonly_class;
use crate::convert::{Nullable, Text};
use crate::{engine, exception};

/// The header family without `style`.
const IETF: &str = "ietf";

/// The body without `body`.
pub(crate) const PROBLEM: &str = "problem";

/// A decision of the core, with the limiter that made it, which knows its policies.
#[derive(Clone)]
pub(crate) struct Decision {
    pub(crate) decision: core::Decision,
    pub(crate) limiter: Arc<Limiter>,
}

readonly_class!(
    Decision,
    "RateLimit\\Decision",
    [(ce::arrayaccess, "\\ArrayAccess"), (engine::json_serializable, "\\JsonSerializable")],
    {
        "allowed": Bool = |this, value| { value.set_bool(this.decision.allowed()); Ok(()) };
        "limit": Long = |this, value| { value.set_long(count(this.decision.limit())); Ok(()) };
        "remaining": Long = |this, value| { value.set_long(count(this.decision.remaining())); Ok(()) };
        "retryAfter": Double = |this, value| { value.set_double(this.retry_after()); Ok(()) };
        "resetAfter": Double = |this, value| {
            value.set_double(us_to_seconds(this.decision.reset_after_us()));
            Ok(())
        };
        "delay": Double = |this, value| { value.set_double(us_to_seconds(this.decision.delay_us())); Ok(()) };
        "policy": String = |this, value| Ok(value.set_string(this.policy().name(), false)?);
        "source": String = |this, value| Ok(value.set_string(this.decision.source().as_str(), false)?);
        "degraded": Bool = |this, value| { value.set_bool(this.decision.degraded()); Ok(()) };
    }
);

#[php_impl]
impl Decision {
    #[php(vis = "private")]
    pub(crate) fn __construct() -> PhpResult<Self> {
        Err("a decision is made by a limiter".into())
    }

    /// One decision per policy, in the order given.
    pub(crate) fn each(&self) -> Vec<Self> {
        let own = |decision: &core::Decision| Self { decision: decision.clone(), limiter: self.limiter.clone() };
        self.decision.each().iter().map(own).collect()
    }

    /// Header fields, ready to be sent.
    #[php(defaults(style = IETF))]
    pub(crate) fn headers(
        &self,
        style: Text<'_>,
        partitionKey: Nullable<Text<'_>>,
        quotaUnit: Nullable<Text<'_>>,
    ) -> PhpResult<ZBox<ZendHashTable>> {
        let unit = quotaUnit.utf8("quotaUnit")?;
        let options = self.options(style, partitionKey, unit.as_deref())?;
        fields(http::headers(&self.decision, self.limiter.policies(), options))
    }

    /// Problem details; null where the call was allowed.
    pub(crate) fn problem(&self, r#type: Nullable<Text<'_>>) -> PhpResult<Option<ZBox<ZendHashTable>>> {
        let type_ = problem_type(r#type)?;
        let Some(problem) = http::problem(&self.decision, self.limiter.policies(), type_) else { return Ok(None) };
        let mut members = ZendHashTable::new();
        members.insert("type", problem.type_uri)?;
        members.insert("title", problem.title)?;
        members.insert("status", i64::from(problem.status))?;
        members.insert("detail", problem.detail)?;
        if !problem.violated_policies.is_empty() {
            members.insert("violated-policies", problem.violated_policies)?;
        }
        Ok(Some(members))
    }

    /// The whole answer to a call that was refused; null where it was allowed.
    #[php(defaults(style = IETF, body = PROBLEM))]
    pub(crate) fn refusal(
        &self,
        style: Text<'_>,
        body: Text<'_>,
        r#type: Nullable<Text<'_>>,
        partitionKey: Nullable<Text<'_>>,
        quotaUnit: Nullable<Text<'_>>,
    ) -> PhpResult<Option<ZBox<ZendHashTable>>> {
        let (body, type_, unit) = (parsed(body, "body")?, problem_type(r#type)?, quotaUnit.utf8("quotaUnit")?);
        let options = self.options(style, partitionKey, unit.as_deref())?;
        http::refusal(&self.decision, self.limiter.policies(), options, body, type_).map(answer).transpose()
    }

    pub(crate) fn offset_exists(&self, offset: &Zval) -> bool {
        offset.str().is_some_and(|name| property(name).is_some())
    }

    pub(crate) fn offset_get(&self, offset: &Zval) -> PhpResult<Zval> {
        let mut value = Zval::new();
        match offset.str().and_then(property) {
            Some(get) => get(self, &mut value)?,
            None => return Err(unknown(offset)),
        }
        Ok(value)
    }

    pub(crate) fn offset_set(&self, offset: &Zval, value: &Zval) -> PhpResult<()> {
        let _ = value;
        Err(exception::readonly(&format!("RateLimit\\Decision::${}", shown(offset))))
    }

    pub(crate) fn offset_unset(&self, offset: &Zval) -> PhpResult<()> {
        Err(exception::readonly(&format!("RateLimit\\Decision::${}", shown(offset))))
    }

    /// All properties; `retryAfter` is null when the call can never pass, since JSON has no infinity.
    pub(crate) fn json_serialize(&self) -> PhpResult<Zval> {
        let mut members = ZendHashTable::new();
        for property in <Self as RegisteredClass>::get_metadata().field_properties() {
            let mut value = Zval::new();
            if let Some(get) = property.get {
                get(self, &mut value)?;
            }
            if value.double().is_some_and(f64::is_infinite) {
                value.set_null();
            }
            members.insert(property.name, value)?;
        }
        Ok(members.into_zval(false)?)
    }
}

impl Decision {
    fn options<'a>(
        &self,
        style: Text<'_>,
        partition_key: Nullable<Text<'a>>,
        unit: Option<&'a str>,
    ) -> PhpResult<HeaderOptions<'a>> {
        let style: HeaderStyle = parsed(style, "style")?;
        let mut options = HeaderOptions::from(style);
        if style == HeaderStyle::XRateLimitEpoch {
            options = options.at_us(self.limiter.wall_clock_us());
        }
        if let Some(key) = partition_key.get("partitionKey")? {
            options = options.partition_key(key);
        }
        match unit {
            Some(unit) => options.quota_unit(unit).map_err(|error| exception::from_core(&error)),
            None => Ok(options),
        }
    }

    /// Seconds until the same call passes; infinite when it never does.
    fn retry_after(&self) -> f64 {
        if self.decision.retry_after().is_none() {
            return f64::INFINITY;
        }
        us_to_seconds(self.decision.retry_after_us())
    }

    /// The policy that ruled.
    fn policy(&self) -> &core::Policy {
        &self.limiter.policies()[self.decision.policy()]
    }

    /// A sentence for an exception's message.
    pub(crate) fn summary(&self) -> String {
        let (name, limit) = (self.policy().name(), self.decision.limit());
        match self.decision.retry_after() {
            Some(wait) => {
                format!("the limit {limit} of policy {name:?} is used up; retry after {} s", wait.as_secs_f64())
            }
            None => format!("the cost is above the limit {limit} of policy {name:?}"),
        }
    }
}

/// What a text names.
pub(crate) fn parsed<T: FromStr<Err = Error>>(text: Text<'_>, argument: &'static str) -> PhpResult<T> {
    text.utf8(argument)?.parse().map_err(|error| exception::from_core(&error))
}

fn problem_type(text: Nullable<Text<'_>>) -> PhpResult<Option<ProblemType>> {
    text.0.map(|text| parsed(text, "type")).transpose()
}

/// Status, headers and body, for whatever makes responses.
pub(crate) fn answer(refusal: http::Refusal) -> PhpResult<ZBox<ZendHashTable>> {
    let mut members = ZendHashTable::new();
    members.insert("status", i64::from(refusal.status))?;
    members.insert("headers", fields(refusal.headers)?)?;
    members.insert("body", refusal.body)?;
    Ok(members)
}

fn fields(fields: Vec<http::Field>) -> PhpResult<ZBox<ZendHashTable>> {
    let mut headers = ZendHashTable::new();
    for (name, value) in fields {
        headers.insert(name, value)?;
    }
    Ok(headers)
}

/// A number of units, which is always below 2^31.
pub(crate) fn count(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

type Getter = fn(&Decision, &mut Zval) -> PhpResult;

/// The property of that name.
fn property(name: &str) -> Option<Getter> {
    let properties = <Decision as RegisteredClass>::get_metadata().field_properties();
    properties.iter().find(|property| property.name == name).and_then(|property| property.get)
}

/// An offset for an error text.
fn shown(offset: &Zval) -> String {
    offset.string().unwrap_or_else(|| engine::type_name(offset))
}

/// A misspelled name is told, not answered with null: a null would read as "denied".
fn unknown(offset: &Zval) -> PhpException {
    let properties = <Decision as RegisteredClass>::get_metadata().field_properties();
    let names: Vec<_> = properties.iter().map(|property| property.name).collect();
    let detail = format!("must be one of {}; got {:?}", names.join(", "), shown(offset));
    exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, "offset", detail))
}
