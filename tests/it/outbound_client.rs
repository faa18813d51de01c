//! One client of an API and its clock, for the stories of governors.

use std::sync::Arc;

use ratelimit_core::outbound::{Before, Governor, Options, Outcome, Preset, Request, Response};
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Clock as _, ManualClock};

/// The instant at which every story begins.
pub(crate) const NOW: u64 = 1_700_000_000;

pub(crate) const SECOND: u64 = 1_000_000;

/// A response as a server gives it.
pub(crate) type Answer<'a> = (u16, &'a [(&'a str, &'a str)], &'a str);

/// One client of an API, whose sleeps move the clock and are recorded.
pub(crate) struct Client {
    pub(crate) governor: Governor,
    pub(crate) clock: Arc<ManualClock>,
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Every sleep, in microseconds.
    pub(crate) sleeps: Vec<u64>,
    /// How many requests were sent.
    pub(crate) sent: usize,
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Returned,
    Failed { retry_after_us: u64, global: bool, too_long: bool },
    Refused { delay_us: u64 },
}

impl Client {
    pub(crate) fn new(preset: Preset, options: Options) -> Self {
        Self::on(&store::memory(10_000).expect("a store"), preset, options)
    }

    pub(crate) fn on(store: &Arc<dyn Store>, preset: Preset, options: Options) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        Self::with(store, &clock, preset, options)
    }

    pub(crate) fn with(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, preset: Preset, options: Options) -> Self {
        let governor = Governor::new(preset, options, store.clone()).expect("a governor").with_clock(clock.clone());
        Self { governor, clock: clock.clone() }
    }

    /// Sends one request, with the answers that the server gives in turn; the last one again and again.
    pub(crate) fn call(&self, request: &Request<'_>, answers: &[Answer<'_>]) -> Call {
        let (mut sleeps, mut sent) = (Vec::new(), 0);
        let mut before = self.governor.before(request).expect("a decision");
        loop {
            let ticket = match before {
                Before::Go(ticket) => ticket,
                Before::Wait { delay_us, ticket, .. } => {
                    sleeps.push(delay_us);
                    self.clock.sleep_us(delay_us);
                    before = self.governor.resume(ticket).expect("a decision");
                    continue;
                }
                Before::Refuse { delay_us, .. } => return Call { sleeps, sent, end: End::Refused { delay_us } },
            };
            let (status, headers, body) = answers[sent.min(answers.len() - 1)];
            sent += 1;
            let after = self.governor.after(ticket, &Response { status, headers, body: body.as_bytes() });
            match after.expect("an answer").outcome {
                Outcome::Return => return Call { sleeps, sent, end: End::Returned },
                Outcome::Fail { retry_after_us, global, too_long } => {
                    return Call { sleeps, sent, end: End::Failed { retry_after_us, global, too_long } };
                }
                Outcome::Retry { delay_us, ticket, .. } => {
                    sleeps.push(delay_us);
                    self.clock.sleep_us(delay_us);
                    before = self.governor.resume(ticket).expect("a decision");
                }
            }
        }
    }

    pub(crate) fn get(&self, url: &str, answers: &[Answer<'_>]) -> Call {
        self.call(&Request::new("GET", url), answers)
    }

    /// Sends one request that is answered, and says how long the next one would wait.
    pub(crate) fn wait_after(&self, url: &str, answer: Answer<'_>) -> u64 {
        self.get(url, &[answer]);
        self.wait_of(&Request::new("GET", url))
    }

    pub(crate) fn wait_of(&self, request: &Request<'_>) -> u64 {
        match self.governor.before(request).expect("a decision") {
            Before::Go(_) => 0,
            Before::Wait { delay_us, .. } | Before::Refuse { delay_us, .. } => delay_us,
        }
    }
}

pub(crate) fn exact() -> Options {
    Options { safety_buffer_us: 0, ..Options::default() }
}

pub(crate) fn returned(sleeps: &[u64], sent: usize) -> Call {
    Call { sleeps: sleeps.to_vec(), sent, end: End::Returned }
}

pub(crate) const URL: &str = "https://api.test/things";
