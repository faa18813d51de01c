//! The exceptions, and the core's errors as one of them.
//!
//! They are plain classes of the engine without a Rust value behind them, so that file, line, trace, code and previous
//! are the engine's own, and user code may construct and extend them.

use std::panic::AssertUnwindSafe;

use ext_php_rs::args::Arg;
use ext_php_rs::boxed::ZBox;
use ext_php_rs::builders::{ClassBuilder, FunctionBuilder};
use ext_php_rs::class::ClassEntryInfo;
use ext_php_rs::convert::IntoZval as _;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::{ClassFlags, DataType, MethodFlags, PropertyFlags};
use ext_php_rs::types::{ZendClassObject, ZendEmptyArray, ZendHashTable, Zval};
use ext_php_rs::zend::{ClassEntry, ExecuteData, ce, run_handler};
use ext_php_rs::zend_fastcall;
use ratelimit_core::{Error, ErrorKind};

use crate::class::{self, READONLY, Slot};
use crate::convert::{self, Integer, Text};
use crate::decision::Decision;
use crate::engine;

static MARKER: Slot = Slot::new();
static INVALID_ARGUMENT: Slot = Slot::new();
static INVALID_POLICY: Slot = Slot::new();
static INVALID_COST: Slot = Slot::new();
static INVALID_STORE: Slot = Slot::new();
static STORE_UNAVAILABLE: Slot = Slot::new();
static LIMIT_EXCEEDED: Slot = Slot::new();
static WAIT_TOO_LONG: Slot = Slot::new();

const INVALID: ClassEntryInfo = (engine::invalid_argument_exception, "\\InvalidArgumentException");
const RUNTIME: ClassEntryInfo = (engine::runtime_exception, "\\RuntimeException");

/// An exception class that extends `$parent` and carries the marker interface.
macro_rules! exception {
    ($slot:ident, $name:literal, $parent:expr $(, $method:expr)?) => {
        ClassBuilder::new(concat!("RateLimit\\Exception\\", $name))
            .extends($parent)
            .implements((|| MARKER.get(), "RateLimit\\Exception\\RateLimitException"))
            $(.method($method, MethodFlags::Public))?
            .registration(|class, argument_infos| $slot.set(class, argument_infos))
            .register()
    };
}

/// Registers the exceptions, while the module starts.
pub(crate) fn register() -> ext_php_rs::error::Result<()> {
    ClassBuilder::new("RateLimit\\Exception\\RateLimitException")
        .flags(ClassFlags::Interface)
        .implements((ce::throwable, "\\Throwable"))
        .registration(|class, argument_infos| MARKER.set(class, argument_infos))
        .register()?;
    exception!(INVALID_ARGUMENT, "InvalidArgument", INVALID)?;
    exception!(INVALID_POLICY, "InvalidPolicy", INVALID)?;
    exception!(INVALID_COST, "InvalidCost", INVALID)?;
    exception!(INVALID_STORE, "InvalidStore", INVALID)?;
    exception!(STORE_UNAVAILABLE, "StoreUnavailable", RUNTIME)?;
    exception!(LIMIT_EXCEEDED, "LimitExceeded", RUNTIME, limit_exceeded_constructor())?;
    exception!(WAIT_TOO_LONG, "WaitTooLong", RUNTIME)?;

    STORE_UNAVAILABLE.complete(|class| {
        let mut unknown = Zval::new();
        // An interned string needs no memory; failing that the property starts uninitialized.
        let default = unknown.set_interned_string("", true).ok().map(|()| &mut unknown);
        engine::declare_property(
            class,
            "kind",
            PropertyFlags::Public.bits(),
            class::type_of(DataType::String),
            default,
        );
        let mut none = ZendEmptyArray.into_zval(true).ok();
        let flags = PropertyFlags::Public.bits();
        engine::declare_property(class, "decisions", flags, class::type_of(DataType::Array), none.as_mut());
    });
    LIMIT_EXCEEDED.complete(|class| {
        let flags = PropertyFlags::Public.bits() | READONLY;
        engine::declare_property(class, "decision", flags, engine::class_type("RateLimit\\Decision"), None);
    });
    Ok(())
}

/// A core error as the exception of its kind, with the argument spelled as in PHP.
pub(crate) fn from_core(error: &Error) -> PhpException {
    let class = match error.kind() {
        ErrorKind::InvalidPolicy => &INVALID_POLICY,
        ErrorKind::InvalidCost => &INVALID_COST,
        ErrorKind::InvalidStore => &INVALID_STORE,
        ErrorKind::StoreUnavailable(_) => &STORE_UNAVAILABLE,
        ErrorKind::WaitTooLong => &WAIT_TOO_LONG,
        ErrorKind::InvalidArgument => &INVALID_ARGUMENT,
        _ => return PhpException::new(message(error), 0, ce::error()),
    };
    let exception = PhpException::new(message(error), 0, class.get());
    let Some(kind) = error.store_kind() else { return exception };
    exception.with_object(with_kind(class.get(), &message(error), kind.as_str()))
}

/// The exception for an error that left `missing` of many calls without a decision; it holds those of the others.
pub(crate) fn with_decisions(error: &Error, missing: usize, decisions: ZBox<ZendHashTable>) -> PhpException {
    let Some(kind) = error.store_kind() else { return from_core(error) };
    let class = STORE_UNAVAILABLE.get();
    let message = format!("{missing} of {} calls have no decision: {}", decisions.len(), message(error));
    let mut exception = with_kind(class, &message, kind.as_str());
    if let Some(object) = exception.object_mut() {
        set(object, class, "decisions", decisions.into_zval(false));
    }
    PhpException::new(message, 0, class).with_object(exception)
}

/// The exception for a refusal.
pub(crate) fn limit_exceeded(decision: Decision) -> PhpException {
    let (class, message) = (LIMIT_EXCEEDED.get(), decision.summary());
    let mut exception = engine::new_object(class);
    if let Some(object) = exception.object_mut() {
        set(object, ce::exception(), "message", message.as_str().into_zval(false));
        set(object, class, "decision", class::new_object(decision).into_zval(false));
    }
    PhpException::new(message, 0, class).with_object(exception)
}

/// The exception for an error of the store as an object that is not thrown.
pub(crate) fn object(error: &Error) -> Zval {
    let kind = error.store_kind().map_or("", ratelimit_core::StoreErrorKind::as_str);
    with_kind(STORE_UNAVAILABLE.get(), &message(error), kind)
}

/// The refusal to write a property, in PHP's words: `RateLimit\Decision::$allowed`.
pub(crate) fn readonly(property: &str) -> PhpException {
    PhpException::new(format!("Cannot modify readonly property {property}"), 0, ce::error())
}

fn message(error: &Error) -> String {
    let text = match error.argument() {
        Some(argument) => format!("{} {}", camel_case(argument), error.detail()),
        None => error.detail().to_owned(),
    };
    // The engine takes messages as C strings.
    text.replace('\0', "\\0")
}

fn with_kind(class: &ClassEntry, message: &str, kind: &str) -> Zval {
    let mut exception = engine::new_object(class);
    if let Some(object) = exception.object_mut() {
        set(object, ce::exception(), "message", message.into_zval(false));
        set(object, class, "kind", kind.into_zval(false));
    }
    exception
}

fn set(
    object: &mut ext_php_rs::types::ZendObject,
    scope: &ClassEntry,
    name: &str,
    value: ext_php_rs::error::Result<Zval>,
) {
    if let Ok(value) = value {
        engine::write_property(scope, object, name, value);
    }
}

/// `snake_case` to `camelCase`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// `LimitExceeded::__construct(Decision $decision, string $message = '', int $code = 0, ?Throwable $previous = null)`.
fn limit_exceeded_constructor() -> FunctionBuilder<'static> {
    zend_fastcall! {
        extern fn construct(call: &mut ExecuteData, _: &mut Zval) {
            run_handler(AssertUnwindSafe(|| {
                if let Err(exception) = construct_limit_exceeded(call) {
                    exception.throw();
                }
            }));
        }
    }
    let [decision, message, code, previous] = limit_exceeded_arguments();
    FunctionBuilder::new("__construct", construct).arg(decision).arg(message).arg(code).arg(previous).required_args(1)
}

fn limit_exceeded_arguments<'a>() -> [Arg<'a>; 4] {
    [
        Arg::new("decision", DataType::object("RateLimit\\Decision")),
        Arg::new("message", DataType::String).default("''"),
        Arg::new("code", DataType::Long).default("0"),
        Arg::new("previous", DataType::object("Throwable")).allow_null().default("null"),
    ]
}

fn construct_limit_exceeded(call: &mut ExecuteData) -> PhpResult {
    let [mut decision, mut message, mut code, mut previous] = limit_exceeded_arguments();
    let (parser, this) = call.parser_object();
    let arguments = [&mut decision, &mut message, &mut code, &mut previous];
    let parsed = arguments.into_iter().fold(parser, ext_php_rs::args::ArgParser::arg).required_args(1).parse();
    let (Ok(()), Some(this)) = (parsed, this) else { return Ok(()) };

    let decision = decision.zval().ok_or("decision is missing")?;
    let summary = match decision.object().and_then(ZendClassObject::<Decision>::from_zend_obj) {
        Some(decision) => decision.summary(),
        None => return Err(convert::wrong_type("decision", "RateLimit\\Decision", &engine::type_name(decision))),
    };
    engine::write_property(LIMIT_EXCEEDED.get(), this, "decision", decision.shallow_clone());

    let message = message.val::<Text<'_>>().unwrap_or("".into());
    let message = message.utf8("message")?;
    let message = if message.is_empty() { summary } else { message.into_owned() };
    set(this, ce::exception(), "message", message.into_zval(false));
    let code = code.val::<Integer>().unwrap_or(0.into());
    let code = code.get("code", |code| convert::wrong_type("code", "int", &convert::shown(code)))?;
    set(this, ce::exception(), "code", code.into_zval(false));
    if let Some(previous) = previous.zval().filter(|previous| !previous.is_null()) {
        if !previous.object().is_some_and(|object| object.instance_of(ce::throwable())) {
            return Err(convert::wrong_type("previous", "?Throwable", &engine::type_name(previous)));
        }
        engine::write_property(ce::exception(), this, "previous", previous.shallow_clone());
    }
    Ok(())
}
