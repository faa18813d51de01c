//! Decisions as HTTP header fields.

use std::ffi::c_char;
use std::fmt::Write as _;

use ratelimit_core::http::{HeaderOptions as Core, HeaderStyle, headers};
use ratelimit_core::{Decision as CoreDecision, Result};

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::invalid;
use crate::limiter::Limiter;
use crate::panic::boundary;
use crate::text;

/// How to write header fields, for `rl_headers_with`. Zero it (`= {0}` or `memset`), set `struct_size`, then what is to
/// differ.
#[repr(C)]
#[derive(Debug)]
pub struct HeaderOptions {
    /// `sizeof(rl_header_options)`. Tells the library which members the program knows.
    pub struct_size: u32,
    /// `NULL` or `ietf`, or one of the others that `rl_headers` knows.
    pub style: *const c_char,
    /// The decisions of all policies of the limiter, in their order, from `rl_decide`. The style `ietf` then tells of all
    /// of them, and `draft-7` lists them. `NULL`: there is the one decision alone.
    pub each: *const Decision,
    /// Elements at `each`.
    pub each_len: usize,
    /// What is counted, for the style `ietf`, such as `content-bytes`; printable ASCII. `NULL`: requests.
    pub quota_unit: *const c_char,
    /// Whose budget it is, for the style `ietf`: any bytes, but no raw identity, since whoever sees the response reads
    /// them. `NULL`: nothing.
    pub partition_key: *const u8,
    /// Bytes at `partition_key`.
    pub partition_key_len: usize,
    /// The present in microseconds since 1970, for the style `x-ratelimit-epoch`. 0: what the wall clock says.
    pub now_us: u64,
}

/// Writes the header fields of a decision, each as `Name: value\r\n`, with a zero byte at the end. A denial has a
/// `Retry-After`, unless no wait helps.
///
/// Either call it twice, first with `NULL` for `buf` to learn the length, or once with 1024 bytes, which are enough
/// for one policy of any name.
///
/// @param limiter   The limiter that decided.
/// @param decision  What it decided: over all its policies, of which the one that ruled is told, or by one of them.
///                  `rl_headers_with` tells of all.
/// @param style     `NULL` or `ietf` (RateLimit and RateLimit-Policy), `draft-7`, `draft-3`, `x-ratelimit`,
///                  `x-ratelimit-epoch` (the reset in seconds since 1970), or `none` for `Retry-After` alone.
/// @param buf       Where to write; `NULL` to write nothing.
/// @param len       Bytes at `buf`.
/// @param needed    The bytes that the text takes, its zero byte included.
/// @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that, for another style, or for a decision that is none of
///         this limiter's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_headers(
    limiter: *const Limiter,
    decision: *const Decision,
    style: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Status {
    boundary(|| {
        let (limiter, decision, needed) = (shared!(limiter)?, shared!(decision)?, output!(needed)?);
        let style = if style.is_null() { HeaderStyle::default() } else { text!(style)?.parse()? };
        let decision = limiter.decision_of(decision, &[])?;
        let lines = lines(&headers(&decision, limiter.0.policies(), style));
        text::write(&lines, buffer!(buf, len), needed)
    })
}

/// Writes the header fields of a decision, as `rl_headers` does, with more to say about them.
///
/// ```c
/// rl_header_options options = {.struct_size = sizeof options, .each = each, .each_len = 2};
/// rl_status status = rl_headers_with(limiter, &decision, &options, text, sizeof text, &needed);
/// ```
///
/// @param options  What differs; `NULL`: nothing.
/// @return What `rl_headers` returns, and `RL_ERR_INVALID_ARGUMENT` for a member that is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_headers_with(
    limiter: *const Limiter,
    decision: *const Decision,
    options: *const HeaderOptions,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
) -> Status {
    boundary(|| {
        let (limiter, decision, needed) = (shared!(limiter)?, shared!(decision)?, output!(needed)?);
        let options = sized!(options)?;
        let (core, each) = match options {
            None => (Core::default(), &[][..]),
            Some(options) => (options.options()?, options.each()?),
        };
        let decision = limiter.decision_of(decision, each)?;
        let lines = lines(&headers(&decision, limiter.0.policies(), core));
        text::write(&lines, buffer!(buf, len), needed)
    })
}

impl HeaderOptions {
    fn options(&self) -> Result<Core<'_>> {
        let &Self { style, quota_unit, partition_key, partition_key_len, now_us, .. } = self;
        let style = if style.is_null() { HeaderStyle::default() } else { text!(style)?.parse()? };
        let mut options = Core::from(style);
        if !quota_unit.is_null() {
            options = options.quota_unit(text!(quota_unit)?)?;
        }
        if !partition_key.is_null() {
            options = options.partition_key(slice!(partition_key, partition_key_len)?);
        }
        Ok(if now_us == 0 { options } else { options.at_us(now_us) })
    }

    fn each(&self) -> Result<&[Decision]> {
        let &Self { each, each_len, .. } = self;
        slice!(each, each_len)
    }
}

impl Limiter {
    /// A decision of this limiter as the core has it, over those of its policies where they are given.
    pub(crate) fn decision_of(&self, decision: &Decision, each: &[Decision]) -> Result<CoreDecision> {
        let policies = self.0.policies().len();
        let decision = CoreDecision::try_from(decision)?;
        if decision.policy() >= policies {
            let detail = format!("must be one of the limiter, got one by its policy {}", decision.policy());
            return Err(invalid("decision", detail));
        }
        if each.is_empty() {
            return Ok(decision);
        }
        let each = each.iter().map(CoreDecision::try_from).collect::<Result<Vec<_>>>()?;
        if each.len() != policies || each.iter().enumerate().any(|(at, one)| one.policy() != at) {
            let detail = format!("must be the decisions of the {policies} policies, in their order");
            return Err(invalid("each", detail));
        }
        Ok(CoreDecision::over(each))
    }
}

/// The fields as they stand in a response.
fn lines(fields: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        // Writing to a String cannot fail.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text
}
