//! The PHP extension: PHP's values in, PHP's values out, and every decision left to the core.
//!
//! Files are called after the classes they make. The rest is plumbing: `engine` names what the Zend engine exports,
//! `class` registers classes, `convert` takes arguments the way PHP's own functions do.

// The macros of `ext-php-rs` strip the lifetimes from argument types.
#![allow(elided_lifetimes_in_paths)]
// PHP calls methods on objects, whether they look at the object or not.
#![allow(clippy::unused_self)]

mod module;

mod token_bucket;

mod limiter;

mod call;

mod batch;

mod lock;

mod concurrency;

mod work;

mod key;

mod wait;

mod policy;

mod decision;

mod client_ip;

mod secret;

mod store;

mod client;

mod outbound;

mod clock;

mod exception;

mod ini;

mod metrics;

mod events;

mod info;

mod convert;

mod class;

mod engine;
