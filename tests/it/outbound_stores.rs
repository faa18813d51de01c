use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::outbound::{Before, Governor, Limit, Options, Outcome, Preset, Request, Response, Ticket};
use ratelimit_core::store::{self, Store};
use ratelimit_core::{ManualClock, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::random::check;

/// What happens to a governor.
#[derive(Debug, Clone)]
enum Act {
    /// A request is about to be sent to one of a few routes, by one of a few identities.
    Ask(u8, u8),
    /// The oldest or the newest one on its way is answered.
    Answer { oldest: bool, status: u16, limit: u32, remaining: u32, reset_ms: u32, bucket: u8, told: bool },
    /// The oldest one on its way fails.
    Lose,
    /// Somebody looks.
    Look(u8, u8),
    /// Time passes, or a clock is put back.
    Pass(i64),
}

fn acts() -> impl Strategy<Value = Act> {
    let answer = (
        any::<bool>(),
        proptest::sample::select(vec![200_u16, 200, 200, 429, 500]),
        0..9_u32,
        0..9_u32,
        0..5_000_u32,
        0..3_u8,
        proptest::bool::weighted(0.9),
    );
    prop_oneof![
        6 => (0..2_u8, 0..2_u8).prop_map(|(route, identity)| Act::Ask(route, identity)),
        6 => answer.prop_map(|(oldest, status, limit, remaining, reset_ms, bucket, told)| Act::Answer {
            oldest, status, limit, remaining, reset_ms, bucket, told
        }),
        1 => Just(Act::Lose),
        1 => (0..2_u8, 0..2_u8).prop_map(|(route, identity)| Act::Look(route, identity)),
        4 => (0..3_000_000_i64).prop_map(Act::Pass),
        1 => (-2_000_000..90_000_000_i64).prop_map(Act::Pass),
    ]
}

/// Two governors that should be the same but for the store.
struct Twins {
    governors: [Governor; 2],
    clock: Arc<ManualClock>,
}

impl Twins {
    fn new(stores: &[Arc<dyn Store>; 2], preset: Preset, number: u64) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let governor = |store: &Arc<dyn Store>| {
            let limits = vec![Limit::new(Policy::gcra(5, 3.0, None).expect("a policy"))];
            let options = Options {
                limits,
                safety_buffer_us: number % 3 * 500_000,
                // No two histories meet in the store.
                secret: Some(number.to_le_bytes().to_vec()),
                ..Options::default()
            };
            Governor::new(preset, options, store.clone()).expect("a governor").with_clock(clock.clone())
        };
        Self { governors: stores.each_ref().map(governor), clock: clock.clone() }
    }

    fn run(&self, preset: Preset, acts: &[Act]) -> Result<(), TestCaseError> {
        let mut on_their_way: Vec<[Box<Ticket>; 2]> = Vec::new();
        for (step, act) in acts.iter().enumerate() {
            match act {
                Act::Ask(route, identity) => {
                    let url = url(preset, *route);
                    let request =
                        Request { identity: Some(std::slice::from_ref(identity)), ..Request::new("GET", &url) };
                    let [model, script] =
                        self.governors.each_ref().map(|governor| governor.before(&request).expect("a decision"));
                    match (model, script) {
                        (Before::Go(model), Before::Go(script)) => on_their_way.push([model, script]),
                        (
                            Before::Wait { delay_us, reason, .. },
                            Before::Wait { delay_us: other_us, reason: other, .. },
                        ) => prop_assert_eq!((delay_us, reason), (other_us, other), "step {}: {:?}", step, act),
                        (model, script) => prop_assert!(false, "step {step}: {act:?}: {model:?} and {script:?}"),
                    }
                }
                Act::Answer { oldest, status, limit, remaining, reset_ms, bucket, told } => {
                    if on_their_way.is_empty() {
                        continue;
                    }
                    let place = if *oldest { 0 } else { on_their_way.len() - 1 };
                    let [model, script] = on_their_way.remove(place);
                    let headers = headers(*limit, *remaining, *reset_ms, *bucket, *told, *status);
                    let headers: Vec<(&str, &str)> =
                        headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    let response = Response { status: *status, headers: &headers, body: b"" };
                    let outcome = |governor: &Governor, ticket: Box<Ticket>| match governor
                        .after(ticket, &response)
                        .expect("an answer")
                        .outcome
                    {
                        Outcome::Return => None,
                        Outcome::Retry { delay_us, .. } => Some(delay_us),
                        Outcome::Fail { retry_after_us, .. } => Some(retry_after_us),
                    };
                    let [one, two] = &self.governors;
                    prop_assert_eq!(outcome(one, model), outcome(two, script), "step {}: {:?}", step, act);
                }
                Act::Lose if on_their_way.is_empty() => {}
                Act::Lose => {
                    let tickets = on_their_way.remove(0);
                    for (governor, ticket) in self.governors.iter().zip(&tickets) {
                        governor.abandon(ticket).expect("told");
                    }
                }
                Act::Look(route, identity) => {
                    let url = url(preset, *route);
                    let request =
                        Request { identity: Some(std::slice::from_ref(identity)), ..Request::new("GET", &url) };
                    let [model, script] =
                        self.governors.each_ref().map(|governor| governor.state(&request).expect("a state"));
                    prop_assert_eq!(model, script, "step {}: {:?}", step, act);
                }
                Act::Pass(us) => self.clock.advance_us(*us),
            }
        }
        Ok(())
    }
}

fn url(preset: Preset, route: u8) -> String {
    let path = if preset == Preset::DISCORD { "channels/7" } else { "things" };
    format!("https://api.test/{path}/{}", ["messages", "pins"][usize::from(route)])
}

fn headers(
    limit: u32,
    remaining: u32,
    reset_ms: u32,
    bucket: u8,
    told: bool,
    status: u16,
) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if status == 429 {
        // Without one the wait is random.
        headers.push(("Retry-After", (f64::from(reset_ms) / 1000.0).to_string()));
    }
    if told {
        headers.push(("X-RateLimit-Limit", limit.to_string()));
        headers.push(("X-RateLimit-Remaining", remaining.to_string()));
        headers.push(("X-RateLimit-Reset-After", (f64::from(reset_ms) / 1000.0).to_string()));
        headers.push(("X-RateLimit-Bucket", format!("bucket{bucket}")));
        headers.push(("x-ratelimit-limit-requests", limit.to_string()));
        headers.push(("x-ratelimit-remaining-requests", remaining.min(limit).to_string()));
        headers.push(("x-ratelimit-reset-requests", format!("{reset_ms}ms")));
        headers.push(("x-ratelimit-limit-tokens", "100".to_owned()));
        headers.push(("x-ratelimit-remaining-tokens", (remaining / 4).to_string()));
        headers.push(("x-ratelimit-reset-tokens", format!("{reset_ms}ms")));
    }
    headers
}

#[test]
fn redis_and_the_models_learn_the_same() {
    let server = RedisServer::start();
    let redis = store::open(&format!("{}?timeout=5", server.dsn())).expect("a store");
    let stores = [store::memory(10_000_000).expect("a store"), redis];
    let number = std::cell::Cell::new(0);
    for preset in [Preset::GENERIC, Preset::DISCORD, Preset::OPENAI] {
        check(400, &vec(acts(), 1..60), |acts| {
            number.set(number.get() + 1);
            Twins::new(&stores, preset, number.get()).run(preset, &acts)
        });
    }
}

#[test]
fn nothing_that_identifies_anybody_is_in_a_key_and_every_key_expires() {
    let server = RedisServer::start();
    let store = store::open(&server.dsn()).expect("a store");
    let options =
        Options { limits: vec![Limit::new(Policy::fixed_window(100, 60.0).expect("a policy"))], ..Options::default() };
    let governor = Governor::new(Preset::DISCORD, options, store).expect("a governor");
    let url = "https://discord.com/api/v10/webhooks/5/hunter2";
    let request = Request::new("POST", url).authorization(b"Bot hunter2");
    let headers = headers(5, 4, 4_000, 1, true, 200);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    for status in [200, 429] {
        let Before::Go(ticket) = governor.before(&request).expect("a decision") else { panic!("it goes") };
        governor.after(ticket, &Response { status, headers: &headers, body: b"" }).expect("learnt");
    }
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert!(keys.len() >= 4, "{keys:?}");
    for key in keys {
        let clear = ["hunter2", "webhooks", "discord.com", "Bot", "bucket1"].iter().any(|word| key.contains(word));
        assert!(!clear, "{key}");
        let lives_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).expect("an expiry");
        assert!((1..=80_000).contains(&lives_ms), "{key} lives {lives_ms} ms");
    }
}
