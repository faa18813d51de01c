//! `Limit`, `GlobalLimit` and `InvalidRequestLimit`: limits that are set and not learnt.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecutorGlobals;
use ratelimit_core::outbound::{self, Applies, Scope};

use super::observation::invalid;
use super::options::{statuses, texts};
use crate::class::readonly_class;
use crate::convert::{Float, Integer, Nullable, Text, shown, wrong_type};
use crate::policy::Policies;
use crate::{engine, exception};

/// The scope without one.
const IDENTITY: &str = "identity";

/// A limit of one's own on requests, by any policy.
pub(crate) struct Limit {
    pub(super) limit: outbound::Limit,
    /// A function of the application's that says whether the limit applies, and what it said about the request at hand:
    /// the core asks from anywhere, and a function of PHP's can be called from here only.
    pub(super) applies: Option<(Zval, Arc<AtomicBool>)>,
}

impl Clone for Limit {
    fn clone(&self) -> Self {
        let applies = self.applies.as_ref().map(|(function, said)| (function.shallow_clone(), said.clone()));
        Self { limit: self.limit.clone(), applies }
    }
}

readonly_class!(Limit, "RateLimit\\Outbound\\Limit", [], {
    "name": String = |this, value| Ok(value.set_string(this.limit.policy().name(), false)?);
});

#[php_impl]
impl Limit {
    #[php(defaults(scope = IDENTITY))]
    pub(crate) fn __construct(
        policy: Policies,
        scope: Text<'_>,
        appliesTo: Option<&Zval>,
        name: Nullable<Text<'_>>,
    ) -> PhpResult<Self> {
        let mut policy = match policy {
            Policies::One(policy) => policy,
            Policies::Several(_) => return Err(wrong_type("policy", "RateLimit\\Policy", "array")),
            Policies::Wrong(type_) => return Err(wrong_type("policy", "RateLimit\\Policy", &type_)),
        };
        if let Some(name) = name.0 {
            policy = policy.named(&name.utf8("name")?).map_err(|error| exception::from_core(&error))?;
        }
        let scope = Scope::parse(&scope.utf8("scope")?).map_err(|error| exception::from_core(&error))?;
        let limit = outbound::Limit::new(policy).scope(scope);
        let given = appliesTo.map(Zval::dereference).filter(|given| !given.is_null());
        let Some(given) = given else { return Ok(Self { limit, applies: None }) };
        if given.is_string() || given.is_array() && !given.is_callable() {
            let limit = limit.applies_to(Applies::Paths(texts("appliesTo", given)?));
            return Ok(Self { limit, applies: None });
        }
        if !given.is_callable() {
            return Err(wrong_type("appliesTo", "string|array|callable|null", &engine::type_name(given)));
        }
        let said = Arc::new(AtomicBool::new(true));
        let answer = said.clone();
        let limit = limit.applies_to(Applies::When(Arc::new(move |_, _| answer.load(Ordering::Relaxed))));
        Ok(Self { limit, applies: Some((given.shallow_clone(), said)) })
    }
}

impl Limit {
    /// Asks the application's function about a request. Its exception goes to the caller.
    pub(super) fn ask(function: &Zval, said: &AtomicBool, method: &str, url: &str) -> PhpResult {
        let answer = function.try_call(vec![&method, &url]);
        if ExecutorGlobals::has_exception() {
            return Err("the function threw".into());
        }
        let answer = answer.map_err(|error| error.to_string())?;
        said.store(answer.coerce_to_bool(), Ordering::Relaxed);
        Ok(())
    }
}

/// A limit on everything that one identity sends to a host.
#[derive(Clone)]
pub(crate) struct GlobalLimit(pub(super) outbound::GlobalLimit);

readonly_class!(GlobalLimit, "RateLimit\\Outbound\\GlobalLimit", [], {});

#[php_impl]
impl GlobalLimit {
    #[php(defaults(window = 1.0))]
    pub(crate) fn __construct(limit: Integer, window: Float, exemptPaths: Option<&Zval>) -> PhpResult<Self> {
        let exempt = exemptPaths.map(|paths| texts("exemptPaths", paths.dereference())).transpose()?;
        let made =
            outbound::GlobalLimit::new(whole("limit", limit)?, window.get("window")?, exempt.unwrap_or_default());
        made.map(Self).map_err(|error| exception::from_core(&error))
    }
}

/// A limit on requests that an API calls invalid.
#[derive(Clone)]
pub(crate) struct InvalidRequestLimit(pub(super) outbound::InvalidRequestLimit);

readonly_class!(InvalidRequestLimit, "RateLimit\\Outbound\\InvalidRequestLimit", [], {});

#[php_impl]
impl InvalidRequestLimit {
    #[php(defaults(limit = 10_000, window = 600.0))]
    pub(crate) fn __construct(
        limit: Integer,
        window: Float,
        statusCodes: Option<&Zval>,
        ignoredScopes: Option<&Zval>,
    ) -> PhpResult<Self> {
        let codes = statusCodes.map(|codes| statuses("statusCodes", codes.dereference())).transpose()?;
        let scopes = ignoredScopes.map(|scopes| texts("ignoredScopes", scopes.dereference())).transpose()?;
        let made = outbound::InvalidRequestLimit::new(
            whole("limit", limit)?,
            window.get("window")?,
            codes.unwrap_or_else(|| vec![401, 403, 429]),
            scopes.unwrap_or_else(|| vec!["shared".to_owned()]),
        );
        made.map(Self).map_err(|error| exception::from_core(&error))
    }
}

fn whole(argument: &'static str, number: Integer) -> PhpResult<i64> {
    number.get(argument, |number| invalid(argument, format!("must be an integer, got {}", shown(number))))
}
