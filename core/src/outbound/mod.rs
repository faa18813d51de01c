//! Keeps one's own calls to somebody's API under that API's limits.
//!
//! A [`Governor`] is asked before each request and told after it. It reads what the API says about its limits, shares
//! that with every worker of the same store, and answers with data: go, wait so long, send again. Nothing here sends a
//! request or sleeps, so the same code serves every HTTP client.
//!
//! What was learnt is state in a [`Store`](crate::store::Store) like any policy's, changed in the same atomic steps. A
//! request is taken from everything that counts it at once: what the API said of this bucket, a pause that another
//! worker ran into, limits of one's own. Keys are fingerprints; no credential, URL or id is in any of them.

pub mod governor;

pub mod ticket;

pub mod options;

pub mod budget;

pub mod retry;

pub mod observation;

pub mod parser;

pub mod preset;

mod fallback;

mod keys;

mod learning;

mod meter;

mod route;

mod state;

pub use budget::{Applies, GlobalLimit, InvalidRequestLimit, Limit, Scope};
pub use governor::Governor;
pub use observation::{Observation, Quota, Response, Unit};
pub use options::{Options, Resolver};
pub use parser::parse_headers;
pub use preset::{HeaderNames, Preset};
pub use retry::{RetryContext, Strategy};
pub use ticket::{After, Before, BucketState, Outcome, Reason, Request, Ticket};
