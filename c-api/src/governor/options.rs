//! The options of a governor.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use ratelimit_core::outbound::{self, Options};
use ratelimit_core::{FailureRule, Result};

use crate::ffi::{self, invalid};
use crate::policy::Policy;

/// What happens to requests while the store gives no answer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// This host's own store takes its place: what the host learns holds for the host.
    Local = 0,
    /// They go as if there were no limits.
    Open,
    /// They wait, a second at a time.
    Closed,
    /// The functions return `RL_ERR_STORE_UNAVAILABLE`.
    Throw,
}

/// The failure rules by their names in C.
const RULES: [(Outage, FailureRule); 4] = [
    (Outage::Local, FailureRule::Local),
    (Outage::Open, FailureRule::Open),
    (Outage::Closed, FailureRule::Closed),
    (Outage::Throw, FailureRule::Throw),
];

/// Options of a governor. Zero it, set `struct_size`, then what is to differ: zero means what the preset has.
#[repr(C)]
#[derive(Debug)]
pub struct GovernorOptions {
    /// `sizeof(rl_governor_options)`. Tells the library which members the program knows.
    pub struct_size: u32,
    /// How often a request is sent again, 1 to 100; `UINT32_MAX` is never.
    pub max_retries: u32,
    /// Longer than this nothing waits, in microseconds.
    pub max_delay_us: u64,
    /// Waited longer than until a reset, in microseconds, up to an hour; `RL_NEVER` is not at all.
    pub safety_buffer_us: u64,
    /// Every wait is made longer by a random part of itself, up to this one, 0 to 1.
    pub jitter: f64,
    /// Limits of one's own on each identity's requests to a host: pointers to `limits_len` policies, which the governor
    /// copies.
    pub limits: *const *const Policy,
    /// How many.
    pub limits_len: usize,
    /// The secret of the fingerprints under which identities are stored, ended by a zero byte; copied.
    pub secret: *const c_char,
    /// What happens to requests while the store gives no answer.
    // Whatever number C has put there: it becomes an enum only after it has been looked at.
    pub on_error: MaybeUninit<Outage>,
}

impl GovernorOptions {
    pub(super) fn apply(&self, options: &mut Options) -> Result<()> {
        let number = ffi::number(&self.on_error);
        let Some(&(_, rule)) = RULES.iter().find(|(outage, _)| *outage as u32 == number) else {
            return Err(invalid("on_error", format!("must be one of rl_outage, got {number}")));
        };
        options.on_error = rule;
        match self.max_retries {
            0 => {}
            u32::MAX => options.max_retries = 0,
            retries => options.max_retries = retries,
        }
        match self.safety_buffer_us {
            0 => {}
            u64::MAX => options.safety_buffer_us = 0,
            us => options.safety_buffer_us = us,
        }
        if self.max_delay_us > 0 {
            options.max_delay_us = Some(self.max_delay_us);
        }
        if self.jitter != 0.0 {
            options.jitter = self.jitter;
        }
        let (limits, limits_len) = (self.limits, self.limits_len);
        for &policy in slice!(limits, limits_len)? {
            options.limits.push(outbound::Limit::new(shared!(policy)?.0.clone()));
        }
        options.secret = optional_bytes!(self.secret).map(<[u8]>::to_vec);
        Ok(())
    }
}
