use std::cell::Cell;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::algorithm::calendar::{Calendar, CalendarUnit};
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Decision, ErrorKind, FailureRule, Limiter, ManualClock, Policy, Source};
use ratelimit_tests::RedisServer;
use ratelimit_tests::random::check;

const HOSTS: usize = 3;

/// A store of one host's own: its connections, and what it remembers of denials.
fn open(server: &RedisServer, name: &str, options: &str) -> Arc<dyn Store> {
    let dsn = format!("{}?timeout=5&connect_timeout=5&client_name={name}{options}", server.dsn());
    store::open(&dsn).expect("a store")
}

fn pools() -> Arc<dyn Store> {
    store::memory(10_000).expect("a store")
}

fn limiter(policy: &Policy, store: Arc<dyn Store>, clock: &Arc<ManualClock>, lease: i64) -> Limiter {
    let builder = Limiter::builder(policy.clone()).store(store).clock(clock.clone());
    builder.lease(lease).lease_store(pools()).build().expect("a limiter")
}

fn allow(limiter: &Limiter, key: &str, cost: i64) -> Decision {
    limiter.allow(key, cost).expect("a decision")
}

#[derive(Debug, Clone)]
enum Act {
    Allow(i64),
    AllowMany(Vec<i64>),
    /// Gives one of the window's grants back.
    Refund(usize),
    ReturnLeases,
    /// The host loses its pools.
    Crash,
}

fn acts() -> impl Strategy<Value = Vec<(u64, usize, Act)>> {
    let act = prop_oneof![
        20 => (1..6_i64).prop_map(Act::Allow),
        2 => vec(1..4_i64, 1..4).prop_map(Act::AllowMany),
        2 => any::<usize>().prop_map(Act::Refund),
        1 => Just(Act::ReturnLeases),
        1 => Just(Act::Crash),
    ];
    // Mostly within the life of a lease, sometimes beyond it, sometimes into another window.
    let pause_us = prop_oneof![12 => 0..30_000_u64, 2 => 0..300_000_u64, 1 => 0..3_000_000_u64];
    vec((pause_us, 0..HOSTS, act), 1..80)
}

/// What is spent never comes to more than the policy lets pass: each grant is also asked of a limiter without leases that
/// knows nothing but what was spent, and has to pass there.
#[test]
fn what_is_spent_is_what_the_policy_without_leases_would_have_let_pass() {
    let server = RedisServer::start();
    let number = Cell::new(0);
    let (spent_here, refused) = (Cell::new(0_u64), Cell::new(0_u64));
    let day = Calendar::new(CalendarUnit::Day, "UTC").expect("a time zone");
    let inputs = (8..80_i64, 1..40_i64, 0..3_usize, acts());
    check(400, &inputs, |(limit, lease, kind, acts)| {
        number.set(number.get() + 1);
        let key = format!("history-{}", number.get());
        let policy = match kind {
            0 => Policy::fixed_window_aligned(limit, 1.0),
            1 => Policy::sliding_window_counter(limit, 1.0),
            _ => Policy::fixed_window_calendar(limit, day.clone()),
        }
        .expect("a policy");
        // A little before midnight, so that days end, too.
        let clock = Arc::new(ManualClock::new(1_700_006_398.5));
        let oracle = Limiter::builder(policy.clone()).store(pools()).clock(clock.clone()).build().expect("a limiter");
        // After a crash nobody knows of what was leased.
        let life = Cell::new(0);
        let store =
            |host: usize| open(&server, &format!("host{host}.{}", life.replace(life.get() + 1)), "&deny_cache=0");
        let mut hosts: Vec<Limiter> = (0..HOSTS).map(|host| limiter(&policy, store(host), &clock, lease)).collect();
        let mut grants: Vec<i64> = Vec::new();
        let (mut window, mut crashes) = (0, 0);
        for (pause_us, host, act) in acts {
            clock.advance_us(pause_us.cast_signed());
            let now_us = limiter_time(&oracle);
            let length_us = if kind == 2 { 86_400_000_000 } else { 1_000_000 };
            if now_us / length_us != window {
                (window, crashes) = (now_us / length_us, 0);
                grants.clear();
            }
            let hear = |cost: i64, decision: &Decision, grants: &mut Vec<i64>| {
                spent_here.set(spent_here.get() + u64::from(decision.source() == Source::Lease));
                if decision.allowed() {
                    prop_assert!(allow(&oracle, &key, cost).allowed(), "{} at {} were too many", cost, now_us);
                    grants.push(cost);
                } else {
                    refused.set(refused.get() + 1);
                    let left = oracle.peek(&key, 1).expect("a decision").remaining();
                    let out = lease.unsigned_abs() * (HOSTS as u64 + crashes);
                    // Of a sliding counter also what was out when the window before ended.
                    let out = if kind == 1 { 2 * out + lease.unsigned_abs() * 10 } else { out };
                    prop_assert!(cost.unsigned_abs() + out > left, "{} refused with {} left", cost, left);
                }
                Ok(())
            };
            match act {
                Act::Allow(cost) => {
                    let told = hosts[host].peek(&key, cost).expect("a decision");
                    let decision = allow(&hosts[host], &key, cost);
                    prop_assert_eq!(told.allowed(), decision.allowed(), "what a look says is so: {:?}", told);
                    prop_assert!(decision.remaining() <= limit.unsigned_abs());
                    prop_assert_eq!(decision.allowed(), decision.retry_after_us() == 0);
                    hear(cost, &decision, &mut grants)?;
                }
                Act::AllowMany(costs) => {
                    let calls: Vec<(&str, i64)> = costs.iter().map(|cost| (key.as_str(), *cost)).collect();
                    let decisions = hosts[host].allow_many(&calls).expect("decisions");
                    // Those that are paid from the pool come before those that are asked of the server.
                    let mut heard: Vec<(i64, Decision)> =
                        costs.into_iter().zip(decisions.into_iter().map(|it| it.expect("a decision"))).collect();
                    heard.retain(|(_, decision)| decision.allowed());
                    for (cost, decision) in heard {
                        hear(cost, &decision, &mut grants)?;
                    }
                }
                Act::Refund(which) if !grants.is_empty() => {
                    let cost = grants.swap_remove(which % grants.len());
                    hosts[host].refund(&key, cost).expect("a refund");
                    oracle.refund(&key, cost).expect("a refund");
                }
                Act::Refund(_) => {}
                Act::ReturnLeases => hosts[host].return_leases().expect("an answer"),
                Act::Crash => {
                    hosts[host] = limiter(&policy, store(host), &clock, lease);
                    crashes += 1;
                }
            }
        }
        if kind != 1 && crashes == 0 {
            // All that is out comes back.
            for host in &hosts {
                host.return_leases().expect("an answer");
            }
            let left = |limiter: &Limiter| limiter.peek(&key, 1).expect("a decision").remaining();
            prop_assert_eq!(left(&hosts[0]), left(&oracle));
        }
        Ok(())
    });
    assert!(spent_here.get() > 500, "{} were spent from pools", spent_here.get());
    assert!(refused.get() > 500, "{} were refused", refused.get());
}

fn limiter_time(limiter: &Limiter) -> u64 {
    limiter.wall_clock_us()
}

/// A window that is opened by the first hit stands on the server alone, so a limiter without leases looks there.
#[test]
fn a_window_opened_by_a_hit_has_counted_all_that_is_spent_in_it() {
    let server = RedisServer::start();
    let number = Cell::new(0);
    let spent_here = Cell::new(0_u64);
    check(200, &(8..80_i64, 1..40_i64, acts()), |(limit, lease, acts)| {
        number.set(number.get() + 1);
        let key = format!("history-{}", number.get());
        let policy = Policy::fixed_window(limit, 1.0).expect("a policy");
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        // After a crash nobody knows of what was leased.
        let life = Cell::new(0);
        let store =
            |host: usize| open(&server, &format!("host{host}.{}", life.replace(life.get() + 1)), "&deny_cache=0");
        let server_side =
            Limiter::builder(policy.clone()).store(store(9)).clock(clock.clone()).build().expect("a limiter");
        let mut hosts: Vec<Limiter> = (0..HOSTS).map(|host| limiter(&policy, store(host), &clock, lease)).collect();
        let (mut end_us, mut grants) = (0, Vec::new());
        for (pause_us, host, act) in acts {
            clock.advance_us(pause_us.cast_signed());
            if clock_us(&clock) >= end_us {
                grants.clear();
            }
            match act {
                Act::Allow(cost) => {
                    let decision = allow(&hosts[host], &key, cost);
                    spent_here.set(spent_here.get() + u64::from(decision.source() == Source::Lease));
                    if decision.allowed() {
                        grants.push(cost);
                    }
                }
                Act::Refund(which) if !grants.is_empty() => {
                    let cost = grants.swap_remove(which % grants.len());
                    hosts[host].refund(&key, cost).expect("a refund");
                }
                Act::ReturnLeases => hosts[host].return_leases().expect("an answer"),
                Act::Crash => hosts[host] = limiter(&policy, store(host), &clock, lease),
                _ => {}
            }
            let told = server_side.peek(&key, 1).expect("a decision");
            let counted = limit.unsigned_abs() - told.remaining();
            prop_assert!(grants.iter().sum::<i64>().unsigned_abs() <= counted, "{:?} of {}", grants, counted);
            end_us = clock_us(&clock) + told.reset_after_us();
        }
        Ok(())
    });
    assert!(spent_here.get() > 300, "{} were spent from pools", spent_here.get());
}

fn clock_us(clock: &ManualClock) -> u64 {
    ratelimit_core::Clock::now_us(clock)
}

#[test]
fn a_key_that_is_asked_for_often_reaches_the_server_ever_more_rarely() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::fixed_window_aligned(100_000, 60.0).expect("a policy");
    let limiter = limiter(&policy, open(&server, "often", ""), &clock, 1_000);
    let before = server.calls("evalsha");
    for _ in 0..20_000 {
        assert!(allow(&limiter, "hot", 1).allowed());
        clock.advance_us(10);
    }
    let calls = server.calls("evalsha") - before;
    // 1, 2, 4 … 512 units, and then 1000 each.
    assert_eq!(calls, 10 + (20_000_u64 - 1_023).div_ceil(1_000));
}

#[test]
fn a_key_that_is_asked_for_now_and_then_leases_nothing() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::fixed_window(10, 3600.0).expect("a policy");
    let limiter = limiter(&policy, open(&server, "rarely", ""), &clock, 1_000);
    let other = Limiter::builder(policy).store(open(&server, "other", "")).clock(clock.clone()).build();
    let other = other.expect("a limiter");
    for left in (0..10).rev() {
        let decision = allow(&limiter, "cold", 1);
        assert_eq!((decision.source(), decision.remaining()), (Source::Store, left));
        assert_eq!(other.peek("cold", 1).expect("a decision").remaining(), left, "nothing is out");
        clock.advance(0.2);
    }
}

/// Asks until units are in the pool.
fn lease(limiter: &Limiter, clock: &ManualClock, key: &str) {
    for _ in 0..7 {
        allow(limiter, key, 1);
        clock.advance_us(10);
    }
    // 1, 2 and 4 units were leased.
    assert_eq!(allow(limiter, key, 1).source(), Source::Store, "8 units");
}

fn two_hosts(server: &RedisServer, name: &str, limit: i64) -> (Arc<ManualClock>, Limiter, Limiter) {
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::fixed_window(limit, 3600.0).and_then(|policy| policy.named(name)).expect("a policy");
    let hosts = ["one", "two"].map(|host| limiter(&policy, open(server, host, ""), &clock, 1_000));
    let [one, two] = hosts;
    (clock, one, two)
}

#[test]
fn what_nobody_has_spent_for_a_while_goes_back() {
    let server = RedisServer::start();
    let (clock, one, two) = two_hosts(&server, "idle", 100);
    lease(&one, &clock, "key");
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 15);
    clock.advance(0.2);
    assert_eq!(allow(&one, "key", 1).source(), Source::Lease, "whoever comes next takes one and gives back the rest");
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 9);
}

#[test]
fn a_call_on_another_key_gives_back_what_is_old() {
    let server = RedisServer::start();
    let (clock, one, two) = two_hosts(&server, "swept", 100);
    lease(&one, &clock, "key");
    clock.advance(0.2);
    let mut tries = 0;
    while two.peek("key", 1).expect("a decision").remaining() < 100 - 8 {
        tries += 1;
        assert!(tries < 2_000, "nothing comes back");
        allow(&one, &format!("other-{tries}"), 1);
        // The ledger is looked through every 10 ms, by the machine's clock.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn leases_are_given_back_when_asked_and_forgotten_by_a_reset() {
    let server = RedisServer::start();
    let (clock, one, two) = two_hosts(&server, "given", 100);
    lease(&one, &clock, "key");
    one.return_leases().expect("an answer");
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 8);
    one.return_leases().expect("an answer");
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 8, "only once");

    lease(&one, &clock, "again");
    one.reset("again").expect("a reset");
    assert_eq!(one.peek("again", 1).expect("a decision").remaining(), 100, "what was leased does not come on top");
    let first = allow(&one, "again", 1);
    assert_eq!((first.source(), first.remaining()), (Source::Store, 99));
}

#[test]
fn a_cost_for_which_the_pool_has_too_little_is_paid_from_both() {
    let server = RedisServer::start();
    let (clock, one, _) = two_hosts(&server, "both", 15);
    lease(&one, &clock, "key");
    assert_eq!(one.peek("key", 7).expect("a decision").remaining(), 7);
    assert!(!one.peek("key", 8).expect("a decision").allowed());
    let refused = allow(&one, "key", 8);
    assert_eq!((refused.allowed(), refused.remaining()), (false, 7));

    let (clock, one, _) = two_hosts(&server, "more", 20);
    lease(&one, &clock, "key");
    assert!(one.peek("key", 12).expect("a decision").allowed(), "7 are here and 5 there");
    let passed = allow(&one, "key", 12);
    assert_eq!((passed.allowed(), passed.remaining()), (true, 0));
    assert!(!allow(&one, "key", 1).allowed());
}

#[test]
fn calls_with_a_token_and_refunds_go_to_the_server() {
    let server = RedisServer::start();
    let (clock, one, two) = two_hosts(&server, "token", 100);
    lease(&one, &clock, "key");
    let call = ratelimit_core::Call::allow("key", 1).token(b"once");
    let decisions = [(); 2].map(|()| one.decide(call).expect("a decision"));
    assert_eq!(decisions[0], decisions[1]);
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 16);
    one.refund("key", 3).expect("a refund");
    assert_eq!(two.peek("key", 1).expect("a decision").remaining(), 100 - 13);
}

#[test]
fn while_the_server_is_away_leased_units_are_spent_and_then_the_failure_rule_answers() {
    let mut server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::sliding_window_counter(100, 3600.0).expect("a policy");
    let builder = Limiter::builder(policy).store(open(&server, "away", "")).clock(clock.clone());
    let builder = builder.on_error(FailureRule::Closed).lease(1_000).lease_store(pools());
    let limiter = builder.build().expect("a limiter");
    lease(&limiter, &clock, "key");
    server.stop();
    for _ in 0..7 {
        let decision = allow(&limiter, "key", 1);
        assert_eq!((decision.source(), decision.degraded()), (Source::Lease, false));
    }
    let refused = allow(&limiter, "key", 1);
    assert_eq!((refused.source(), refused.allowed()), (Source::FailClosed, false));
}

#[test]
fn what_can_not_be_leased_is_refused_in_a_sentence() {
    let build = |policies: Vec<Policy>, lease: i64| {
        let store = store::open("redis://127.0.0.1:1").expect("a store");
        Limiter::builder(policies).store(store).lease(lease).lease_store(pools()).build().map(drop)
    };
    let bucket = Policy::token_bucket(10, 1.0, 1.0).expect("a policy");
    let window = Policy::fixed_window(10, 1.0).expect("a policy");
    for policy in ["10/minute gcra", "10/minute log", "10 burst, 2/s leaky"] {
        let error = build(vec![Policy::parse(policy).expect("a policy")], 5).unwrap_err();
        assert!(error.to_string().contains("fixed windows and sliding window counters"), "{error}");
    }
    let error = build(vec![bucket.clone()], 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().starts_with("lease does not go with policy \"default\" (10 burst, 1/1s):"), "{error}");
    let two = vec![window.clone(), window.named("other").expect("a name")];
    assert!(build(two, 5).unwrap_err().to_string().starts_with("lease goes with one policy, not with 2:"));
    let wrong = build(vec![window.clone()], -1).unwrap_err();
    assert_eq!(wrong.to_string(), "lease must be an integer between 0 and 2147483647, got -1");
    assert_eq!(build(vec![window], 5), Ok(()));
    assert_eq!(build(vec![bucket], 0), Ok(()), "without leases anything goes");
}

#[test]
fn on_a_store_of_this_host_leases_change_nothing() {
    let policy = Policy::fixed_window(3, 60.0).expect("a policy");
    let limiter = Limiter::builder(policy).store(pools()).lease(1_000).build().expect("a limiter");
    let sources: Vec<(bool, Source)> = (0..4)
        .map(|_| {
            let decision = allow(&limiter, "key", 1);
            (decision.allowed(), decision.source())
        })
        .collect();
    assert_eq!(sources, [true, true, true, false].map(|allowed| (allowed, Source::Store)));
}

#[test]
fn awaited_calls_spend_the_same_leases() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::fixed_window(100, 3600.0).expect("a policy");
    let blocking = Arc::new(limiter(&policy, open(&server, "awaited", ""), &clock, 1_000));
    let other = limiter(&policy, open(&server, "observer", ""), &clock, 1_000);
    lease(&blocking, &clock, "key");
    let limiter = ratelimit_core::aio::Limiter::new(blocking);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..7 {
            assert_eq!(limiter.allow("key", 1).await.expect("a decision").source(), Source::Lease);
        }
        assert_eq!(limiter.allow("key", 1).await.expect("a decision").source(), Source::Store);
        limiter.return_leases().await.expect("an answer");
        assert_eq!(other.peek("key", 1).expect("a decision").remaining(), 100 - 16);
        limiter.reset("key").await.expect("a reset");
        assert_eq!(limiter.peek("key", 1).await.expect("a decision").remaining(), 100);
    });
}
