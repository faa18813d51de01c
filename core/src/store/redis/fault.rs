//! What goes wrong between here and a server, as errors that say so.

use std::io::{self, ErrorKind as Io};
use std::time::Duration;

use crate::error::{Error, StoreErrorKind as Kind};
use crate::store::dsn::Address;

/// An error line longer than this is cut.
const MAX_LINE: usize = 200;

/// Codes of the server that mean one kind each. A script's own errors carry the code in the middle of the line.
const CODES: &[(&str, Kind)] = &[
    ("READONLY", Kind::Readonly),
    ("LOADING", Kind::Loading),
    ("MASTERDOWN", Kind::Loading),
    ("CLUSTERDOWN", Kind::Loading),
    ("TRYAGAIN", Kind::Loading),
    ("BUSY", Kind::Busy),
    ("NOPERM", Kind::Noperm),
    ("NOAUTH", Kind::Noperm),
    ("WRONGPASS", Kind::Noperm),
    ("DENIED", Kind::Noperm),
    ("unauthenticated", Kind::Noperm),
    ("invalid password", Kind::Noperm),
    ("ACL failure in script", Kind::Noperm),
    ("can't run this command", Kind::Noperm),
    ("can't access at least one of the keys", Kind::Noperm),
    ("OOM", Kind::Oom),
    ("MISCONF", Kind::Readonly),
    ("NOREPLICAS", Kind::Readonly),
    ("WRONGTYPE", Kind::Wrongtype),
];

/// No connection within `limit`.
pub(super) fn late_connection(address: &Address, limit: Duration) -> Error {
    let why = if limit.is_zero() {
        format!("no time was left to connect to redis at {address}")
    } else {
        format!("redis at {address} could not be connected to within {limit:?}")
    };
    Error::unavailable(Kind::Timeout, why)
}

/// No answer within `limit`.
pub(super) fn late_answer(address: &Address, limit: Duration) -> Error {
    Error::unavailable(Kind::Timeout, format!("redis at {address} did not answer within {limit:?}"))
}

/// No connection, or none within `limit`.
pub(super) fn connecting(address: &Address, error: &io::Error, limit: Duration) -> Error {
    if is_timeout(error) {
        return late_connection(address, limit);
    }
    Error::unavailable(Kind::Refused, format!("redis at {address} cannot be connected to: {error}"))
}

/// An exchange that broke, or was not over within `limit`.
pub(super) fn broken(address: &Address, error: &io::Error, limit: Duration) -> Error {
    if is_timeout(error) {
        return late_answer(address, limit);
    }
    Error::unavailable(Kind::Closed, format!("the connection to redis at {address} broke before an answer: {error}"))
}

pub(super) fn protocol(address: &Address, what: &str) -> Error {
    Error::unavailable(Kind::Protocol, format!("redis at {address} answered {what}"))
}

/// An error that the server itself reported.
pub(super) fn server(address: &Address, line: &[u8]) -> Error {
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]).into_owned();
    let kind = CODES.iter().find(|(code, _)| line.contains(code)).map_or(Kind::Protocol, |&(_, kind)| kind);
    let advice = if line.starts_with("CROSSSLOT") {
        "; on a cluster all policies of a limiter need one key, not one each"
    } else if line.starts_with("MOVED") {
        "; it is a node of a cluster: name it with redis+cluster://"
    } else if line.starts_with("NOAUTH") {
        " The password belongs in the DSN; not every client object gives its own away."
    } else {
        ""
    };
    Error::unavailable(kind, format!("redis at {address} answered with an error: {line}{advice}"))
}

/// Nobody to be asked could say where a key's server is. Where rights were missing, that is what it is about.
pub(super) fn no_server(what: &str, last: Option<Error>) -> Error {
    let kind = match last.as_ref().and_then(Error::store_kind) {
        Some(Kind::Noperm) => Kind::Noperm,
        _ => Kind::Refused,
    };
    let why = last.map_or_else(String::new, |error| format!("; the last one asked: {error}"));
    Error::unavailable(kind, format!("{what}{why}"))
}

/// Whether an error of the server means that this connection leads to the wrong place for now.
pub(super) fn spoils_connection(error: &Error) -> bool {
    matches!(error.store_kind(), Some(Kind::Readonly | Kind::Loading | Kind::Protocol))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), Io::WouldBlock | Io::TimedOut)
}
