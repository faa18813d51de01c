//! Bytes that may be a server's replies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimit_core::store::redis::fuzzing;

fuzz_target!(|bytes: &[u8]| fuzzing::read_as_everything(bytes));
