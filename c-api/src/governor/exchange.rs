//! What a program and a governor tell each other.

use std::ffi::c_char;
use std::mem::MaybeUninit;

/// What to do next.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the request, then tell `rl_governor_after`.
    Send = 0,
    /// Sleep for `delay_us`, then ask `rl_governor_resume`. Nothing has been taken.
    Wait,
    /// Do not send it: it would have to wait for `delay_us`, which is longer than `max_delay_us`. Nothing has been taken.
    Refuse,
    /// The response is the caller's.
    Return,
    /// Sleep for `delay_us`, ask `rl_governor_resume`, and send the request again.
    Retry,
    /// The request was refused, and sending it again is not allowed or would take too long; it might pass in `delay_us`.
    Fail,
}

/// What a governor says.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Advice {
    /// What to do next.
    pub step: Step,
    /// Which retry it will be, from 1; 0 unless `step` is `RL_STEP_RETRY`.
    pub attempt: u32,
    /// A wait in microseconds.
    pub delay_us: u64,
    /// Whether everything of this identity is refused.
    pub global: bool,
    /// Whether the wait is longer than `max_delay_us`, and not the retries used up.
    pub too_long: bool,
    /// Whether this was the invalid request after which none is sent for a while.
    pub invalid_limit_reached: bool,
    /// Whether the store gave no answer, so that `on_error` decided; of a response: before it was sent.
    pub degraded: bool,
}

impl Advice {
    pub(super) fn new(step: Step) -> Self {
        Self {
            step,
            attempt: 0,
            delay_us: 0,
            global: false,
            too_long: false,
            invalid_limit_reached: false,
            degraded: false,
        }
    }
}

/// A request with what is different for this one. Zero it, set `struct_size`, `method` and `url`, then what is to differ.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// `sizeof(rl_request)`. Tells the library which members the program knows.
    pub struct_size: u32,
    /// How often it is sent again, in place of the governor's, 1 to 100; `UINT32_MAX` is never.
    pub max_retries: u32,
    /// `GET` and the like.
    pub method: *const c_char,
    /// The absolute URL.
    pub url: *const c_char,
    /// The value of that header: whose budget it is. Only a fingerprint is kept. `NULL`: there is none.
    pub authorization: *const c_char,
    /// Whose budget it is, in place of what `authorization` says; `NULL`: as that says.
    pub identity: *const c_char,
    /// What it is counted under, in place of what its route says; `NULL`: as that says.
    pub bucket: *const c_char,
    /// Longer than this it does not wait, in microseconds, in place of the governor's; `RL_NEVER` is as long as it takes.
    pub max_delay_us: u64,
    /// It goes as if there were no governor.
    pub disabled: MaybeUninit<bool>,
}

/// What is known of a bucket.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BucketState {
    /// Whether anything is known; the other members are 0 where not.
    pub known: bool,
    /// Units per window; 0 where unknown.
    pub limit: u64,
    /// Units left.
    pub remaining: u64,
    /// Until it is whole again, in microseconds.
    pub reset_after_us: u64,
    /// Until the next request may go, in microseconds; 0 when it may go now.
    pub retry_after_us: u64,
}

/// One line of a response's header.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// Its name, ended by a zero byte.
    pub name: *const c_char,
    /// Its value, ended by a zero byte.
    pub value: *const c_char,
}
