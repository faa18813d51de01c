//! Responses that may tell of a limit: a line with a preset, a status and the client's time in seconds, then header
//! lines, then an empty line and a body. Every preset reads them, and the governor of the named one is told.

#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ratelimit_core::ManualClock;
use ratelimit_core::clock::MAX_INSTANT_US;
use ratelimit_core::outbound::{
    Before, Governor, HeaderNames, Observation, Options, Outcome, Preset, Request, Response, parse_headers,
};
use ratelimit_core::store::{self, Store};

/// Stands for a secret in a response, which no error and no ticket may show.
const SECRET: &str = "hunter2";

fuzz_target!(|bytes: &[u8]| {
    let (head, body) = split(bytes, b"\n\n");
    let Ok(head) = std::str::from_utf8(head) else { return };
    let (first, lines) = head.split_once('\n').unwrap_or((head, ""));
    let mut words = first.split(' ');
    let preset = words.next().unwrap_or_default();
    let status = words.next().and_then(|word| word.parse().ok()).unwrap_or(429);
    let now = words.next().and_then(|word| word.parse().ok()).unwrap_or(1_700_000_000.0);
    let headers: Vec<(&str, &str)> = lines.lines().filter_map(|line| line.split_once(':')).collect();
    let headers: Vec<(&str, &str)> = headers.into_iter().map(|(name, value)| (name, value.trim())).collect();
    let response = Response { status, headers: &headers, body };

    let anytime = ManualClock::new(now);
    for &preset in Preset::ALL {
        if let Some(observation) = parse_headers(preset, &response, ratelimit_core::Clock::now_us(&anytime)) {
            check(&observation);
        }
    }
    // Stores count up to the year 2112; a clock beyond that stands still for them.
    let clock = Arc::new(ManualClock::new(if now.is_finite() { now.clamp(1.0, 4e9) } else { 1.0 }));
    let named = Options::named(preset);
    if let Err(error) = &named {
        assert!(preset.contains(SECRET) || !error.to_string().contains(SECRET));
    }
    let (preset, options) = named.unwrap_or_else(|_| (Preset::GENERIC, Options::default()));
    govern(preset, options.clone(), &response, &clock);
    if let [(limit, _), (remaining, _), (reset, _), rest @ ..] = &headers[..] {
        let other = |place: usize| rest.get(place).map(|(name, _)| (*name).to_owned().into());
        let names = HeaderNames {
            limit: (*limit).to_owned().into(),
            remaining: (*remaining).to_owned().into(),
            reset: (*reset).to_owned().into(),
            retry_after: other(0),
            bucket: other(1),
            scope: other(2),
        };
        govern(preset, Options { headers: Some(names), ..options }, &response, &clock);
    }
});

fn check(it: &Observation) {
    for quota in it.quotas() {
        for count in [quota.limit(), quota.remaining()].into_iter().flatten() {
            assert!(count.is_finite() && count >= 0.0, "{it:?}");
        }
        if quota.exhausted() {
            assert!(quota.remaining().is_some_and(|left| left < 1.0), "{it:?}");
        }
    }
    let waits = it.quotas().iter().flat_map(|quota| [quota.reset_after_us(), quota.window_us(), quota.refill_us()]);
    for wait in waits.chain([it.retry_after_us(), it.wait_us()]).flatten() {
        assert!(wait < MAX_INSTANT_US, "{it:?}");
    }
    assert!(it.wait_us().is_none() || it.rate_limited(), "{it:?}");
}

/// Whatever came back, the next requests go or wait a finite time, and nothing of the response is shown.
fn govern(preset: Preset, options: Options, response: &Response<'_>, clock: &Arc<ManualClock>) {
    // One store for all, and a host of its own for each: a store takes longer to make than all the rest.
    static STORE: LazyLock<Arc<dyn Store>> = LazyLock::new(|| store::memory(1_000).expect("a store"));
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let url = format!("https://api-{}.example.com/things/1", NUMBER.fetch_add(1, Ordering::Relaxed));
    let made = Governor::new(preset, options, STORE.clone());
    let governor = made.expect("options within their range").with_clock(clock.clone());
    let request = Request::new("GET", &url);
    let Ok(Before::Go(ticket)) = governor.before(&request) else { panic!("the first request does not go") };
    let after = governor.after(ticket, response).expect("memory answers");
    if let Outcome::Retry { delay_us, ticket, .. } = &after.outcome {
        assert!(*delay_us < MAX_INSTANT_US);
        assert!(!format!("{ticket:?}").contains(SECRET));
    }
    if let Some(observation) = &after.observation {
        check(observation);
    }
    match governor.before(&request).expect("memory answers") {
        Before::Go(ticket) => assert!(!format!("{ticket:?}").contains(SECRET)),
        Before::Wait { delay_us, .. } | Before::Refuse { delay_us, .. } => {
            assert!(delay_us > 0 && delay_us < MAX_INSTANT_US, "{delay_us}");
        }
    }
    if let Some(state) = governor.state(&request).expect("memory answers") {
        assert!(state.retry_after_us < MAX_INSTANT_US, "{state:?}");
        let quotas = after.observation.as_ref().map_or(&[][..], Observation::quotas);
        // What an API says is left is passed on as it is, also where it is more than the limit.
        let consistent = quotas.iter().all(|quota| quota.remaining() <= quota.limit());
        if let (Some(limit), Some(remaining), true) = (state.limit, state.remaining, consistent) {
            assert!(remaining <= limit, "{state:?}");
        }
    }
}

fn split<'a>(bytes: &'a [u8], by: &[u8]) -> (&'a [u8], &'a [u8]) {
    match bytes.windows(by.len()).position(|window| window == by) {
        Some(at) => (&bytes[..at], &bytes[at + by.len()..]),
        None => (bytes, b""),
    }
}
