//! The scripts that Redis runs, and the parts of an `EVALSHA` that never change.
//!
//! One text per machine, one for several policies, and one each for locks and for what is under way: the same bytes from
//! every language, so that they all share the server's script cache. The SHA-1 is computed once per process; the server is
//! never asked for it.

use std::fmt::Write as _;

use once_cell::race::OnceBox;
use sha1::{Digest, Sha1};

use crate::store::redis::resp;

/// What runs a policy: three algorithms are one machine with different numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    Bucket = 1,
    FixedWindow = 2,
    SlidingWindowCounter = 3,
    SlidingWindowLog = 4,
    Learnt = 5,
    /// Runs on this host only.
    Leased = 6,
}

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!($name, ".lua"))
    };
}

/// A fragment as a function, for the text for several policies.
macro_rules! function {
    ($fragment:literal) => {
        concat!("local function ", $fragment, text!("function_begin"), text!($fragment), text!("function_end"))
    };
}

/// Reads the state that is one value; a list is read by its fragment.
macro_rules! get {
    () => {
        "value = call('GET', key)\n"
    };
}

/// Made on first use without a lock: a child forked in the middle of it would wait for ever.
static SINGLE: OnceBox<[Script; 5]> = OnceBox::new();

static SEVERAL: OnceBox<[Script; 2]> = OnceBox::new();

fn single() -> &'static [Script; 5] {
    SINGLE.get_or_init(|| {
        Box::new([
            Script::new("bucket", concat!(text!("single_begin"), get!(), text!("bucket"), text!("single_end"))),
            Script::new(
                "fixed_window",
                concat!(text!("single_begin"), get!(), text!("fixed_window"), text!("single_end")),
            ),
            Script::new(
                "sliding_window_counter",
                concat!(text!("single_begin"), get!(), text!("sliding_window_counter"), text!("single_end")),
            ),
            Script::new(
                "sliding_window_log",
                concat!(text!("single_begin"), text!("sliding_window_log"), text!("single_end")),
            ),
            Script::new("learnt", concat!(text!("single_begin"), get!(), text!("learnt"), text!("single_end"))),
        ])
    })
}

/// The text for several policies, and the one for those among which some are learnt: a script's functions are made anew
/// in every call, so nobody is given one he does not use.
fn several() -> &'static [Script; 2] {
    SEVERAL.get_or_init(|| {
        Box::new([
            Script::new(
                "several",
                concat!(
                    function!("bucket"),
                    function!("fixed_window"),
                    function!("sliding_window_counter"),
                    function!("sliding_window_log"),
                    "local learnt\n",
                    text!("several")
                ),
            ),
            Script::new(
                "several_learnt",
                concat!(
                    function!("bucket"),
                    function!("fixed_window"),
                    function!("sliding_window_counter"),
                    function!("sliding_window_log"),
                    function!("learnt"),
                    text!("several")
                ),
            ),
        ])
    })
}

static HOLDING: OnceBox<[Script; 2]> = OnceBox::new();

fn holding() -> &'static [Script; 2] {
    HOLDING.get_or_init(|| Box::new([Script::new("lock", text!("lock")), Script::new("in_flight", text!("in_flight"))]))
}

/// One script.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    text: &'static str,
    sha: String,
    /// The command and the script, as parts of a command: by hash, and by text.
    by_sha: Box<[u8]>,
    by_text: Box<[u8]>,
    /// The beginning of the commonest command, in one piece: by hash, with one key and one argument.
    usual: Box<[u8]>,
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
    fn new(name: &'static str, text: &'static str) -> Self {
        let mut sha = String::with_capacity(40);
        for byte in Sha1::digest(text.as_bytes()) {
            // Writing to a String cannot fail.
            let _ = write!(sha, "{byte:02x}");
        }
        let parts = |command: &str, script: &str| {
            let mut parts = Vec::new();
            resp::bulk(&mut parts, command.as_bytes());
            resp::bulk(&mut parts, script.as_bytes());
            parts.into_boxed_slice()
        };
        let (by_sha, by_text) = (parts("EVALSHA", &sha), parts("EVAL", text));
        let mut usual = Vec::new();
        head(&mut usual, &by_sha, 1, 1);
        Self { name, text, sha, by_sha, by_text, usual: usual.into() }
    }

    /// The script of a machine, for one policy.
    pub(crate) fn of(machine: Machine) -> &'static Self {
        &single()[machine as usize - 1]
    }

    /// The script for several policies.
    pub(crate) fn several(some_are_learnt: bool) -> &'static Self {
        &several()[usize::from(some_are_learnt)]
    }

    /// The script of locks.
    pub(crate) fn lock() -> &'static Self {
        &holding()[0]
    }

    /// The script of what is under way.
    pub(crate) fn in_flight() -> &'static Self {
        &holding()[1]
    }

    /// What it does, as its file is called.
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

    /// Appends the beginning of the command, up to and with the number of keys.
    pub(crate) fn write_head(&self, command: &mut Vec<u8>, naming: Naming, keys: usize, arguments: usize) {
        match naming {
            Naming::Sha if keys == 1 && arguments == 1 => command.extend_from_slice(&self.usual),
            Naming::Sha => head(command, &self.by_sha, keys, arguments),
            Naming::Text => head(command, &self.by_text, keys, arguments),
        }
    }
}

fn head(command: &mut Vec<u8>, script: &[u8], keys: usize, arguments: usize) {
    // The command, the script and the number of keys come before the keys.
    resp::array(command, 3 + keys + arguments);
    command.extend_from_slice(script);
    resp::integer(command, keys as u64);
}

/// Every script there is.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    single().iter().chain(several()).chain(holding())
}

/// Appends numbers as one part of a command: little-endian doubles, which the scripts unpack in one go. Every number
/// of ours is below 2^53, so a double holds it exactly.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn numbers(command: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = u64>) {
    resp::bulk_head(command, numbers.len() * 8);
    numbers.for_each(|number| command.extend_from_slice(&(number as f64).to_le_bytes()));
    command.extend_from_slice(b"\r\n");
}
