//! Governors: keep one's own calls to somebody's API under that API's limits.

use std::ffi::c_char;

use ratelimit_core::Result;
use ratelimit_core::outbound::{self, After, Before, Options, Outcome, Request, Response};

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;
use crate::policy::Policy;
use crate::store::Store;

/// Keeps one client of an API under that API's limits. Sends nothing and never sleeps. May be used from any thread at the
/// same time, and after `fork` by parent and child.
#[derive(Debug)]
pub struct Governor(outbound::Governor);

impl Handle for Governor {}

/// A request on its way: one per request. Holds no credential and no URL. Used by one thread at a time.
#[derive(Debug)]
pub struct Ticket(Option<Box<outbound::Ticket>>);

impl Handle for Ticket {}

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
}

impl GovernorOptions {
    fn apply(&self, options: &mut Options) -> Result<()> {
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

/// Makes a governor. Asks the store nothing.
///
/// @param preset   The name of an API (`github`, `discord`, `openai` …), or `default`, `conservative` or `aggressive`
///                 for any that speaks one of the common families of headers, or both as in `github+conservative`.
/// @param store    Where what is learnt is kept, shared by everyone who uses it. Kept by the governor.
/// @param options  `NULL`: the preset's.
/// @param out      The governor, to be freed with `rl_governor_free`.
/// @return `RL_ERR_INVALID_ARGUMENT` for an unknown preset or an option out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_new(
    preset: *const c_char,
    store: *mut Store,
    options: *const GovernorOptions,
    out: *mut *mut Governor,
) -> Status {
    boundary(|| {
        let (store, out) = (shared!(store)?, output!(out)?);
        let (preset, mut set) = Options::named(text!(preset)?)?;
        if let Some(options) = sized!(options)? {
            options.apply(&mut set)?;
        }
        out.give(Governor(outbound::Governor::new(preset, set, store.0.clone())?));
        Ok(())
    })
}

/// Frees a governor. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not
/// detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_free(governor: *mut Governor) {
    boundary(|| {
        release!(governor);
        Ok(())
    });
}

/// Asks for a request to be sent: in one step it is taken from everything that counts it, or from nothing.
///
/// @param method         `GET` and the like.
/// @param url            The absolute URL.
/// @param authorization  The value of that header: whose budget it is. Only a fingerprint is kept. `NULL`: there is none.
/// @param ticket         The request's ticket, to be freed with `rl_ticket_free` whatever the advice.
/// @param out            `RL_STEP_SEND`, `RL_STEP_WAIT` or `RL_STEP_REFUSE`.
/// @return `RL_ERR_INVALID_ARGUMENT` for a URL that is not absolute; `RL_ERR_STORE_UNAVAILABLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_before(
    governor: *mut Governor,
    method: *const c_char,
    url: *const c_char,
    authorization: *const c_char,
    ticket: *mut *mut Ticket,
    out: *mut Advice,
) -> Status {
    boundary(|| {
        let (governor, ticket, out) = (shared!(governor)?, output!(ticket)?, output!(out)?);
        let authorization = optional_bytes!(authorization);
        let request = Request { authorization, ..Request::new(text!(method)?, text!(url)?) };
        let (advice, kept) = before(governor.0.before(&request)?);
        ticket.give(Ticket(kept));
        out.write(advice);
        Ok(())
    })
}

/// Asks again, after the wait of `RL_STEP_WAIT` or `RL_STEP_RETRY`. The advice is as from `rl_governor_before`.
///
/// @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_resume(governor: *mut Governor, ticket: *mut Ticket, out: *mut Advice) -> Status {
    boundary(|| {
        let (governor, ticket, out) = (shared!(governor)?, exclusive!(ticket)?, output!(out)?);
        let (advice, kept) = before(governor.0.resume(ticket.held()?)?);
        ticket.0 = kept;
        out.write(advice);
        Ok(())
    })
}

/// Tells what came back.
///
/// @param status       The HTTP status.
/// @param headers      The lines of the header, `headers_len` of them; those that are no UTF-8 are left out.
/// @param body         The body or its beginning, `body_len` bytes; of refusals it is needed, since some APIs say only
///                     there how long to wait.
/// @param out          `RL_STEP_RETURN`, `RL_STEP_RETRY` or `RL_STEP_FAIL`.
/// @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_after(
    governor: *mut Governor,
    ticket: *mut Ticket,
    status: u16,
    headers: *const Header,
    headers_len: usize,
    body: *const u8,
    body_len: usize,
    out: *mut Advice,
) -> Status {
    boundary(|| {
        let (governor, ticket, out) = (shared!(governor)?, exclusive!(ticket)?, output!(out)?);
        let (lines, body) = (slice!(headers, headers_len)?, slice!(body, body_len)?);
        let line = |header: &Header| {
            let name = std::str::from_utf8(optional_bytes!(header.name)?).ok()?;
            Some((name, std::str::from_utf8(optional_bytes!(header.value)?).ok()?))
        };
        let lines: Vec<(&str, &str)> = lines.iter().filter_map(line).collect();
        let After { outcome, .. } = governor.0.after(ticket.held()?, &Response { status, headers: &lines, body })?;
        let advice = Advice { step: Step::Return, attempt: 0, delay_us: 0, global: false, too_long: false };
        out.write(match outcome {
            Outcome::Return => advice,
            Outcome::Retry { delay_us, attempt, ticket: kept } => {
                ticket.0 = Some(kept);
                Advice { step: Step::Retry, attempt, delay_us, ..advice }
            }
            Outcome::Fail { retry_after_us, global, too_long } => {
                Advice { step: Step::Fail, delay_us: retry_after_us, global, too_long, ..advice }
            }
        });
        Ok(())
    })
}

/// Tells that a request failed before any response came, so that others need not wait for what it would have told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_abandon(governor: *mut Governor, ticket: *mut Ticket) -> Status {
    boundary(|| {
        let (governor, ticket) = (shared!(governor)?, exclusive!(ticket)?);
        let held = ticket.held()?;
        governor.0.abandon(&held)
    })
}

/// Frees a ticket. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_ticket_free(ticket: *mut Ticket) {
    boundary(|| {
        release!(ticket);
        Ok(())
    });
}

impl Ticket {
    fn held(&self) -> Result<Box<outbound::Ticket>> {
        self.0.clone().ok_or_else(|| crate::ffi::invalid("ticket", "must be of a request that was not refused"))
    }
}

fn before(before: Before) -> (Advice, Option<Box<outbound::Ticket>>) {
    let advice = Advice { step: Step::Send, attempt: 0, delay_us: 0, global: false, too_long: false };
    match before {
        Before::Go(ticket) => (advice, Some(ticket)),
        Before::Wait { delay_us, ticket, .. } => (Advice { step: Step::Wait, delay_us, ..advice }, Some(ticket)),
        Before::Refuse { delay_us, .. } => (Advice { step: Step::Refuse, delay_us, too_long: true, ..advice }, None),
    }
}
