//! What limiters have done, as text for a monitoring system.

use std::ffi::c_char;

use ratelimit_core::metrics;

use crate::panic::boundary;

/// Writes all metrics as Prometheus text with a zero byte at the end, if there is room for all of it: counters of the
/// calls let pass and refused, by policy and source, of errors by kind, how long servers took to answer, and how the
/// stores are. The counters are those of this process and of those it shares them with by `fork`.
///
/// @param buf  Where to write; `NULL` to write nothing.
/// @param len  Bytes at `buf`.
/// @return The bytes that the text takes, its zero byte included. When that is more than `len`, nothing was written; the
///         text may have grown by the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_metrics(buf: *mut c_char, len: usize) -> usize {
    let mut needed = 0;
    boundary(|| {
        let text = metrics::text();
        needed = text.len() + 1;
        if let Some(place) = buffer!(buf, len).and_then(|place| place.get_mut(..needed)) {
            place[..text.len()].write_copy_of_slice(text.as_bytes());
            place[text.len()].write(0);
        }
        Ok(())
    });
    needed
}
