//! The scripts that Redis runs, and the parts of an `EVALSHA` that never change.
//!
//! One text per algorithm, the same bytes from every language, so that they all share the server's script cache. The
//! SHA-1 is computed once per process; the server is never asked for it.

use std::fmt::Write as _;

use once_cell::sync::Lazy;
use sha1::{Digest, Sha1};

use crate::algorithm::Verb;
use crate::policy::Algorithm;
use crate::store::redis::resp;

/// Arguments that come with every call, whatever the algorithm: cost and verb.
const CALL_ARGUMENTS: usize = 2;

static TOKEN_BUCKET: Lazy<Script> =
    Lazy::new(|| Script::new("token_bucket", concat!(include_str!("token_bucket.lua"), include_str!("single.lua")), 4));

/// Every script there is.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    [&TOKEN_BUCKET].into_iter().map(Lazy::force)
}

/// One script and the beginnings of the commands that run it.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    text: &'static str,
    sha: String,
    /// Everything before the key: for `EVALSHA` and `EVAL`, each without and with the caller's time at the end.
    by_sha: [Box<[u8]>; 2],
    by_text: [Box<[u8]>; 2],
}

/// How the server is told which script to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By its hash: short, and enough nearly always.
    Sha,
    /// By its text, which the server then remembers: after `NOSCRIPT`.
    Text,
}

impl Script {
    fn new(name: &'static str, text: &'static str, policy_arguments: usize) -> Self {
        let mut sha = String::with_capacity(40);
        for byte in Sha1::digest(text.as_bytes()) {
            // Writing to a String cannot fail.
            let _ = write!(sha, "{byte:02x}");
        }
        let head = |command: &str, script: &str, with_time: usize| {
            let mut head = Vec::new();
            // The command, the script, the number of keys, the key.
            resp::array(&mut head, 4 + CALL_ARGUMENTS + policy_arguments + with_time);
            for part in [command, script, "1"] {
                resp::bulk(&mut head, part.as_bytes());
            }
            head.into_boxed_slice()
        };
        Self {
            by_sha: [head("EVALSHA", &sha, 0), head("EVALSHA", &sha, 1)],
            by_text: [head("EVAL", text, 0), head("EVAL", text, 1)],
            name,
            text,
            sha,
        }
    }

    /// The script of an algorithm.
    pub(crate) fn of(algorithm: &Algorithm) -> &'static Self {
        match algorithm {
            Algorithm::TokenBucket(_) => &TOKEN_BUCKET,
        }
    }

    /// The algorithm it runs, as its file is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text, for those who want to load or audit it.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The SHA-1 of the text in hexadecimal: the name under which the server caches it.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// The beginning of the command, up to and without the key.
    pub(crate) fn head(&self, naming: Naming, with_time: bool) -> &[u8] {
        let heads = match naming {
            Naming::Sha => &self.by_sha,
            Naming::Text => &self.by_text,
        };
        &heads[usize::from(with_time)]
    }
}

/// The policy's numbers as the script takes them, encoded once per policy.
pub(crate) fn policy_arguments(algorithm: &Algorithm) -> Box<[u8]> {
    let mut encoded = Vec::new();
    match algorithm {
        Algorithm::TokenBucket(bucket) => bucket.arguments().into_iter().for_each(|n| resp::integer(&mut encoded, n)),
    }
    encoded.into_boxed_slice()
}

/// The verb as the script takes it.
pub(crate) const fn verb_argument(verb: Verb) -> &'static [u8] {
    match verb {
        Verb::Allow => b"$1\r\n1\r\n",
        Verb::Peek => b"$1\r\n0\r\n",
    }
}
