//! Decisions as HTTP header fields.

use std::ffi::c_char;
use std::fmt::Write as _;

use ratelimit_core::http::{HeaderStyle, headers};

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::invalid;
use crate::limiter::Limiter;
use crate::panic::boundary;

/// Writes the header fields of a decision, each as `Name: value\r\n`, with a zero byte at the end. A denial has a
/// `Retry-After`, unless no wait helps.
///
/// Either call it twice, first with `NULL` for `buf` to learn the length, or once with 1024 bytes, which are enough
/// for one policy of any name.
///
/// @param limiter   The limiter that decided.
/// @param decision  What it decided: over all its policies, of which the one that ruled is told, or by one of them.
/// @param style     `NULL` or `ietf` (RateLimit and RateLimit-Policy), `draft-7`, `draft-3`, `x-ratelimit`, or `none`
///                  for `Retry-After` alone.
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
        let decision = ratelimit_core::Decision::try_from(decision)?;
        if limiter.0.policies().get(decision.policy()).is_none() {
            let detail = format!("must be one of the limiter, got one by its policy {}", decision.policy());
            return Err(invalid("decision", detail));
        }
        let text = lines(&headers(&decision, limiter.0.policies(), style));
        if let Some(buffer) = buffer!(buf, len) {
            let Some(start) = buffer.get_mut(..text.len()) else {
                return Err(invalid("len", format!("must be at least {}, got {len}", text.len())));
            };
            start.write_copy_of_slice(text.as_bytes());
        }
        needed.write(text.len());
        Ok(())
    })
}

/// The fields as they stand in a response, and a zero byte.
fn lines(fields: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        // Writing to a String cannot fail.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.push('\0');
    text
}
