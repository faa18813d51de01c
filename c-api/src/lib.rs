//! The C interface: converts arguments and results, and decides nothing.
//!
//! `include/ratelimit.h` is made from the comments and signatures here, so they are written for those who read C.
//! Every function body has the same shape: take the arguments from C by the macros of [`ffi`], call the core once,
//! write the result. [`panic::boundary`] around it turns an error or a panic into a [`Status`](error::Status).

// What a pointer argument must be is said once for all functions, at the top of the header.
#![allow(clippy::missing_safety_doc)]
// The comments become doxygen's, whose `@param` wants a bare name.
#![allow(clippy::doc_markdown)]
#![warn(missing_docs)]

#[macro_use]
pub mod ffi;

pub mod error;

pub mod store;

pub mod policy;

pub mod limiter;

pub mod call;

pub mod batch;

pub mod lock;

pub mod concurrency;

pub mod decision;

pub mod headers;

pub mod problem;

pub mod client_ip;

pub mod governor;

pub mod metrics;

pub mod events;

pub mod version;

mod panic;

mod text;
