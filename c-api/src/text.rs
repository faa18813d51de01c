//! Texts into memory of C.

use std::mem::MaybeUninit;

use ratelimit_core::Result;

use crate::ffi::{Out, invalid};

/// Writes a text and a zero byte, if there is a buffer, and how many bytes that takes; nothing into a buffer too short.
pub(crate) fn write(text: &str, buffer: Option<&mut [MaybeUninit<u8>]>, needed: Out<'_, usize>) -> Result<()> {
    let length = text.len() + 1;
    if let Some(buffer) = buffer {
        let given = buffer.len();
        let Some(place) = buffer.get_mut(..length) else {
            return Err(invalid("len", format!("must be at least {length}, got {given}")));
        };
        place[..text.len()].write_copy_of_slice(text.as_bytes());
        place[text.len()].write(0);
    }
    needed.write(length);
    Ok(())
}
