//! What goes wrong between here and a server, as errors that say so.

use std::io::{self, ErrorKind as Io};
use std::time::Duration;

use crate::error::{Error, StoreErrorKind as Kind};
use crate::store::dsn::RedisOptions;

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
    ("WRONGTYPE", Kind::Wrongtype),
];

pub(super) fn timeout(options: &RedisOptions, action: &str, limit: Duration) -> Error {
    Error::unavailable(Kind::Timeout, format!("redis at {} did not {action} within {limit:?}", options.address))
}

pub(super) fn connecting(options: &RedisOptions, error: &io::Error) -> Error {
    if is_timeout(error) {
        return timeout(options, "be connected to", options.connect_timeout);
    }
    let why = format!("redis at {} cannot be connected to: {error}", options.address);
    Error::unavailable(Kind::Refused, why)
}

pub(super) fn broken(options: &RedisOptions, error: &io::Error) -> Error {
    if is_timeout(error) {
        return timeout(options, "answer", options.timeout);
    }
    let why = format!("the connection to redis at {} broke before an answer: {error}", options.address);
    Error::unavailable(Kind::Closed, why)
}

pub(super) fn protocol(options: &RedisOptions, what: &str) -> Error {
    Error::unavailable(Kind::Protocol, format!("redis at {} answered {what}", options.address))
}

/// An error that the server itself reported.
pub(super) fn server(options: &RedisOptions, line: &[u8]) -> Error {
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]).into_owned();
    let kind = CODES.iter().find(|(code, _)| line.contains(code)).map_or(Kind::Protocol, |&(_, kind)| kind);
    let advice = if line.starts_with("CROSSSLOT") {
        "; on a cluster all policies of a limiter need one key, not one each"
    } else {
        ""
    };
    Error::unavailable(kind, format!("redis at {} answered with an error: {line}{advice}", options.address))
}

/// Whether an error of the server means that this connection leads to the wrong place for now.
pub(super) fn spoils_connection(error: &Error) -> bool {
    matches!(error.store_kind(), Some(Kind::Readonly | Kind::Loading | Kind::Protocol))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), Io::WouldBlock | Io::TimedOut)
}
