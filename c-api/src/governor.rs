//! Governors: keep one's own calls to somebody's API under that API's limits.

mod exchange;

mod options;

use std::ffi::c_char;

use ratelimit_core::Result;
use ratelimit_core::outbound::{self, After, Before, Options, Outcome, Response};

use exchange::{Advice, BucketState, Header, Request, Step};
use options::GovernorOptions;

use crate::error::Status;
use crate::ffi::{self, Handle, invalid};
use crate::panic::boundary;
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
/// @return `RL_ERR_INVALID_ARGUMENT` for a URL that is not absolute; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
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
        let request = outbound::Request { authorization, ..outbound::Request::new(text!(method)?, text!(url)?) };
        let (advice, kept) = before(governor.0.before(&request)?);
        ticket.give(Ticket(kept));
        out.write(advice);
        Ok(())
    })
}

/// `rl_governor_before` for a request with options of its own.
///
/// @param request  The request; nothing of it is kept.
/// @param ticket   The request's ticket, to be freed with `rl_ticket_free` whatever the advice.
/// @param out      `RL_STEP_SEND`, `RL_STEP_WAIT` or `RL_STEP_REFUSE`.
/// @return As `rl_governor_before`; `RL_ERR_INVALID_ARGUMENT` also for an option out of range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_before_request(
    governor: *mut Governor,
    request: *const Request,
    ticket: *mut *mut Ticket,
    out: *mut Advice,
) -> Status {
    boundary(|| {
        let (governor, ticket, out) = (shared!(governor)?, output!(ticket)?, output!(out)?);
        let Some(given) = sized!(request)? else { return Err(invalid("request", "must not be NULL")) };
        let (method, url) = (given.method, given.url);
        let request = outbound::Request {
            authorization: optional_bytes!(given.authorization),
            identity: optional_bytes!(given.identity),
            enabled: !ffi::flag(&given.disabled),
            bucket: match given.bucket {
                bucket if bucket.is_null() => None,
                bucket => Some(text!(bucket)?),
            },
            max_delay_us: match given.max_delay_us {
                0 => None,
                u64::MAX => Some(None),
                us => Some(Some(us)),
            },
            max_retries: match given.max_retries {
                0 => None,
                u32::MAX => Some(0),
                retries @ 1..=100 => Some(retries),
                retries => return Err(invalid("max_retries", format!("must be between 0 and 100, got {retries}"))),
            },
            ..outbound::Request::new(text!(method)?, text!(url)?)
        };
        let (advice, kept) = before(governor.0.before(&request)?);
        ticket.give(Ticket(kept));
        out.write(advice);
        Ok(())
    })
}

/// Tells what is known of the bucket that a request would be taken from.
///
/// @param authorization  As for `rl_governor_before`.
/// @return `RL_ERR_INVALID_ARGUMENT` for a URL that is not absolute; `RL_ERR_STORE_UNAVAILABLE` whatever `on_error` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_state(
    governor: *mut Governor,
    method: *const c_char,
    url: *const c_char,
    authorization: *const c_char,
    out: *mut BucketState,
) -> Status {
    boundary(|| {
        let (governor, out) = (shared!(governor)?, output!(out)?);
        let authorization = optional_bytes!(authorization);
        let request = outbound::Request { authorization, ..outbound::Request::new(text!(method)?, text!(url)?) };
        let state = governor.0.state(&request)?;
        let numbers = state.unwrap_or_default();
        out.write(BucketState {
            known: state.is_some(),
            limit: numbers.limit.unwrap_or(0),
            remaining: numbers.remaining.unwrap_or(0),
            reset_after_us: numbers.reset_after_us.unwrap_or(0),
            retry_after_us: numbers.retry_after_us,
        });
        Ok(())
    })
}

/// Forgets what was learnt of the bucket that a request would be taken from, and what was taken from the limits that apply
/// to it.
///
/// @param authorization  As for `rl_governor_before`.
/// @return As `rl_governor_state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_governor_forget(
    governor: *mut Governor,
    method: *const c_char,
    url: *const c_char,
    authorization: *const c_char,
) -> Status {
    boundary(|| {
        let governor = shared!(governor)?;
        let authorization = optional_bytes!(authorization);
        let request = outbound::Request { authorization, ..outbound::Request::new(text!(method)?, text!(url)?) };
        governor.0.forget(&request)
    })
}

/// Asks again, after the wait of `RL_STEP_WAIT` or `RL_STEP_RETRY`. The advice is as from `rl_governor_before`.
///
/// @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
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
/// @return `RL_ERR_INVALID_ARGUMENT` for a ticket that was refused; `RL_ERR_STORE_UNAVAILABLE` with `RL_OUTAGE_THROW`.
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
        let held = ticket.held()?;
        let degraded = held.degraded();
        let response = Response { status, headers: &lines, body };
        let After { outcome, invalid_limit_reached, .. } = governor.0.after(held, &response)?;
        let advice = Advice { invalid_limit_reached, degraded, ..Advice::new(Step::Return) };
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
        self.0.clone().ok_or_else(|| invalid("ticket", "must be of a request that was not refused"))
    }
}

fn before(before: Before) -> (Advice, Option<Box<outbound::Ticket>>) {
    match before {
        Before::Go(ticket) => (Advice { degraded: ticket.degraded(), ..Advice::new(Step::Send) }, Some(ticket)),
        Before::Wait { delay_us, ticket, .. } => {
            (Advice { delay_us, degraded: ticket.degraded(), ..Advice::new(Step::Wait) }, Some(ticket))
        }
        Before::Refuse { delay_us, .. } => (Advice { delay_us, too_long: true, ..Advice::new(Step::Refuse) }, None),
    }
}
