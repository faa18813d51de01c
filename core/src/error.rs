//! What can go wrong, as one type with a stable kind.

use std::fmt;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: a stable [`kind`](Error::kind) to branch on and a sentence to read.
///
/// The sentence holds the offending value and never a key, a password or another secret.
///
/// ```
/// use ratelimit_core::{ErrorKind, Policy};
///
/// let error = Policy::token_bucket(0, 1.0, 1.0).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidPolicy);
/// assert_eq!(error.to_string(), "capacity must be between 1 and 2147483647, got 0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    /// The argument at fault, in this crate's spelling; a binding may print its own language's spelling.
    argument: Option<&'static str>,
    detail: String,
}

/// What went wrong, in a form that stays the same between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument that belongs to none of the more specific kinds.
    InvalidArgument,
    /// Numbers or a name that make no policy.
    InvalidPolicy,
    /// A cost that is not an integer between 1 and 2147483647.
    InvalidCost,
    /// A store description (DSN, connection object, prefix) that cannot be used.
    InvalidStore,
    /// The store gave no usable answer; see [`Error::store_kind`].
    StoreUnavailable(StoreErrorKind),
    /// The wait needed is longer than the caller is ready to wait.
    WaitTooLong,
    /// A defect of this library.
    Internal,
}

/// Why a store gave no usable answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreErrorKind {
    /// No answer within the deadline. The command may have been carried out.
    Timeout,
    /// No connection could be made.
    Refused,
    /// The server is a replica.
    Readonly,
    /// The server is still reading its data.
    Loading,
    /// The server is busy with somebody's script.
    Busy,
    /// Credentials or access rights are missing.
    Noperm,
    /// The server has no memory left for writes.
    Oom,
    /// The key holds something of another type.
    Wrongtype,
    /// An answer that cannot be what was asked for.
    Protocol,
    /// The connection broke. The command may have been carried out.
    Closed,
}

impl StoreErrorKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Refused,
        Self::Readonly,
        Self::Loading,
        Self::Busy,
        Self::Noperm,
        Self::Oom,
        Self::Wrongtype,
        Self::Protocol,
        Self::Closed,
    ];

    /// The name used in every language: `timeout`, `refused`, `readonly` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Readonly => "readonly",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::Noperm => "noperm",
            Self::Oom => "oom",
            Self::Wrongtype => "wrongtype",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
        }
    }
}

impl Error {
    /// What went wrong, to branch on.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Why the store gave no answer, where it was the store.
    pub const fn store_kind(&self) -> Option<StoreErrorKind> {
        match self.kind {
            ErrorKind::StoreUnavailable(kind) => Some(kind),
            _ => None,
        }
    }

    /// The argument at fault, in `snake_case`, where one is.
    pub const fn argument(&self) -> Option<&'static str> {
        self.argument
    }

    /// The sentence without the argument's name in front.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// An error about one argument; the text reads on from the argument's name ("must be …, got …").
    pub fn argument_error(kind: ErrorKind, argument: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, argument: Some(argument), detail: detail.into() }
    }

    /// An error about the store description.
    pub fn invalid_store(detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidStore, argument: None, detail: detail.into() }
    }

    /// An error that is a defect of this library, such as a panic caught at a language border.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Internal, argument: None, detail: detail.into() }
    }

    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, argument: None, detail: detail.into() }
    }

    pub(crate) fn policy(argument: &'static str, detail: impl Into<String>) -> Self {
        Self::argument_error(ErrorKind::InvalidPolicy, argument, detail)
    }

    pub(crate) fn unavailable(kind: StoreErrorKind, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::StoreUnavailable(kind), argument: None, detail: detail.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(argument) = self.argument {
            write!(f, "{argument} ")?;
        }
        f.write_str(&self.detail)
    }
}
