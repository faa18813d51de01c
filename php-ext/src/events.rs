//! The callables of `Limiter::onDecision()` and `Limiter::onStoreError()`, which are called when the call they hear of is
//! over. Nothing they do changes what the call returns, unless they end the script.

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::convert::{FromZval, IntoZval as _};
use ext_php_rs::error::php_error;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::flags::{DataType, ErrorType};
use ext_php_rs::types::{ZendCallable, ZendHashTable, Zval};
use ext_php_rs::zend::{ExecutorGlobals, try_catch};
use ratelimit_core as core;
use ratelimit_core::clock::us_to_seconds;
use ratelimit_core::events::{self, Asked, Recorded};

use crate::convert::wrong_type;
use crate::decision::{Decision, count};
use crate::{class, engine, exception};

/// Who hears of one limiter.
#[derive(Default)]
pub(crate) struct Listeners {
    of_decisions: RefCell<Vec<Zval>>,
    of_store_errors: RefCell<Vec<Zval>>,
    /// Whether there is anybody, and so events are kept for them.
    any: Cell<bool>,
}

/// The argument `callable $listener`; anything else is refused when the limiter asks for it.
pub(crate) enum Listener {
    /// Something that can be called.
    Given(Zval),
    /// Something of this type.
    Wrong(String),
}

impl Listener {
    fn get(self) -> PhpResult<Zval> {
        match self {
            Self::Given(callable) => Ok(callable),
            Self::Wrong(type_) => Err(wrong_type("listener", "callable", &type_)),
        }
    }
}

impl FromZval<'_> for Listener {
    const TYPE: DataType = DataType::Callable;

    fn from_zval(value: &Zval) -> Option<Self> {
        let callable = value.is_callable();
        Some(if callable { Self::Given(value.shallow_clone()) } else { Self::Wrong(engine::type_name(value)) })
    }
}

impl Listeners {
    pub(crate) fn add_to_decisions(&self, listener: Listener, limiter: &core::Limiter) -> PhpResult<()> {
        self.add(&self.of_decisions, listener, limiter)
    }

    pub(crate) fn add_to_store_errors(&self, listener: Listener, limiter: &core::Limiter) -> PhpResult<()> {
        self.add(&self.of_store_errors, listener, limiter)
    }

    fn add(&self, to: &RefCell<Vec<Zval>>, listener: Listener, limiter: &core::Limiter) -> PhpResult<()> {
        let listener = listener.get()?;
        if !self.any.replace(true) {
            events::record(limiter).map_err(|error| exception::from_core(&error))?;
        }
        to.borrow_mut().push(listener);
        Ok(())
    }

    /// Tells what has happened in the call that is over. Fails only where a listener ends the script.
    #[inline]
    pub(crate) fn tell(&self, limiter: &Arc<core::Limiter>) -> PhpResult<()> {
        if self.any.get() { self.tell_all(limiter) } else { Ok(()) }
    }

    /// Tells nobody: the script is ending.
    pub(crate) fn forget(&self) {
        if self.any.get() {
            drop(events::take());
        }
    }

    #[cold]
    fn tell_all(&self, limiter: &Arc<core::Limiter>) -> PhpResult<()> {
        for event in events::take() {
            let (listeners, what, context) = match event {
                Recorded::Decision { asked, policy, decision } => {
                    let context = decision_context(asked, policy.name(), &decision)?;
                    let decision = class::new_object(Decision { decision, limiter: limiter.clone() });
                    (&self.of_decisions, decision.into_zval(false)?, context)
                }
                Recorded::StoreError { asked, policy, error } => {
                    let context = error_context(asked, policy.name(), &error)?;
                    (&self.of_store_errors, exception::object(&error), context)
                }
            };
            let context = context.into_zval(false)?;
            // Copies, since a listener may add another one.
            let listeners: Vec<Zval> = listeners.borrow().iter().map(Zval::shallow_clone).collect();
            for listener in &listeners {
                call(listener, &what, &context)?;
            }
        }
        Ok(())
    }
}

/// Calls a listener. What it throws becomes a warning.
fn call(listener: &Zval, what: &Zval, context: &Zval) -> PhpResult<()> {
    let called = events::quietly(|| {
        try_catch(AssertUnwindSafe(|| {
            // What it returns is nobody's business, and what it throws is pending.
            if let Ok(listener) = ZendCallable::new(listener) {
                drop(listener.try_call(vec![what, context]));
            }
            complain();
        }))
    });
    if called.is_err() {
        engine::bail_out();
    }
    if ExecutorGlobals::has_exception() {
        // The script is on its way out; this one is never thrown.
        return Err("a listener has ended the script".into());
    }
    Ok(())
}

/// Turns a pending exception into a warning. An `exit` stays what it is.
fn complain() {
    if !ExecutorGlobals::has_exception() || engine::is_exit() {
        return;
    }
    let Some(thrown) = ExecutorGlobals::take_exception() else { return };
    events::count_failure();
    let class = thrown.get_class_name().unwrap_or_default();
    let message = engine::read_property(thrown.get_class_entry(), &thrown, "message").string().unwrap_or_default();
    let sentence = format!("a listener threw {class}: {message}").replace('\0', "\\0");
    php_error(&ErrorType::Warning, &sentence);
    // Where the application makes exceptions of warnings, its caller must not get this one: the log does.
    if ExecutorGlobals::has_exception() && !engine::is_exit() {
        drop(ExecutorGlobals::take_exception());
        engine::log(&sentence);
    }
}

fn decision_context(asked: Asked, policy: &str, decision: &core::Decision) -> PhpResult<ZBox<ZendHashTable>> {
    let mut context = context(asked, policy)?;
    context.insert("allowed", decision.allowed())?;
    context.insert("limit", count(decision.limit()))?;
    context.insert("remaining", count(decision.remaining()))?;
    // Null and not INF, which JSON does not have.
    context.insert("retry_after", decision.retry_after().map(|_| us_to_seconds(decision.retry_after_us())))?;
    context.insert("reset_after", us_to_seconds(decision.reset_after_us()))?;
    context.insert("delay", us_to_seconds(decision.delay_us()))?;
    context.insert("source", decision.source().as_str())?;
    context.insert("degraded", decision.degraded())?;
    Ok(context)
}

fn error_context(asked: Asked, policy: &str, error: &core::Error) -> PhpResult<ZBox<ZendHashTable>> {
    let mut context = context(asked, policy)?;
    context.insert("kind", error.store_kind().map(core::StoreErrorKind::as_str))?;
    context.insert("message", error.to_string())?;
    Ok(context)
}

fn context(asked: Asked, policy: &str) -> PhpResult<ZBox<ZendHashTable>> {
    let mut context = ZendHashTable::new();
    context.insert("verb", asked.verb)?;
    context.insert("policy", policy)?;
    context.insert("key", asked.key.as_str())?;
    context.insert("cost", count(asked.cost))?;
    context.insert("store", asked.store.as_str())?;
    context.insert("duration", asked.duration.as_secs_f64())?;
    Ok(context)
}
