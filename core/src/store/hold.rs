//! A step on who is at work on a key, as a value.

pub use crate::algorithm::in_flight::Held;
use crate::algorithm::in_flight::Request;

/// What is asked about the leases of one key.
#[derive(Debug, Clone, Copy)]
pub struct Hold<'a> {
    pub(crate) kept: Kept,
    /// As stored.
    pub(crate) key: &'a [u8],
    pub(crate) request: Request,
    /// The caller's time; the store's own without it. A lock has the store's in any case.
    pub(crate) now_us: Option<u64>,
}

/// How leases are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The only one, as the value of its key.
    AsLock,
    /// As members of a set.
    AsLeases,
}
