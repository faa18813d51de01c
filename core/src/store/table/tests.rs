//! A step that dies at any of its writes leaves all it was to do, or nothing; and so does one that dies while it finishes
//! what the first one left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::lock::Owner;
use super::word::Word;
use super::word::mortal::killed_after;
use super::*;
use crate::store::{Action, Charge};

const NOW_US: u64 = 1_700_000_000_000_000;

/// One owner after the other; all before the present one are dead.
struct Succession<const GROWS: bool = false>(AtomicU64);

impl<const GROWS: bool> Owner for Succession<GROWS> {
    const WAITS_FOR_EVER: bool = true;
    const GROWS: bool = GROWS;

    fn word(&self, _: &[Word]) -> Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn is_dead(&self, _: &[Word], word: u64) -> bool {
        word != self.0.load(Ordering::Relaxed)
    }

    fn busy(&self, _: Duration) -> Error {
        Error::internal("an heir waits for nobody")
    }
}

/// A call on one policy or several.
#[derive(Clone)]
struct Step {
    action: Action,
    policies: Vec<(Policy, &'static str)>,
    cost: u64,
    token: Option<&'static str>,
}

impl Step {
    fn new(action: Action, policies: &[(Policy, &'static str)], cost: u64) -> Self {
        Self { action, policies: policies.to_vec(), cost, token: None }
    }

    fn run(&self, table: &Table<impl Owner>) -> Verdicts {
        let charges: Vec<Charge<'_>> =
            self.policies.iter().map(|(policy, key)| Charge { policy, key: key.as_bytes() }).collect();
        let token = self.token.map(str::as_bytes);
        let operation =
            Operation { action: self.action, charges: &charges, cost: self.cost, now_us: Some(NOW_US), token };
        table.decide(&operation, Duration::MAX).expect("a decision")
    }
}

/// What every key of the world has left.
fn remaining(table: &Table<Succession>) -> Vec<u64> {
    world().into_iter().map(|one| Step::new(Action::Peek, &[one], 1).run(table)[0].remaining).collect()
}

fn world() -> Vec<(Policy, &'static str)> {
    let window = Policy::fixed_window(100, 60.0).expect("a policy");
    let bucket = Policy::token_bucket(100, 1.0, 60.0).expect("a policy");
    let log = Policy::sliding_window_log(100, 60.0).expect("a policy");
    let policies = [window, bucket, log];
    policies.into_iter().cycle().zip(NAMES).collect()
}

/// One key for each policy of the world: a stored key names its policy.
const NAMES: [&str; 9] = ["w:old", "b:old", "l:old", "w:new", "b:new", "l:new", "w:other", "b:other", "l:other"];

fn table() -> Table<Succession> {
    let layout = Layout { sets: 3, blocks: 64 };
    let region = Region::private(layout.words()).expect("memory");
    let table = Table::new(region, layout, [1, 2], Succession::<false>(AtomicU64::new(1)));
    let world = world();
    for one in &world[..3] {
        // As many grants as the log's first ring holds, so that the next one moves it.
        (0..10).for_each(|_| drop(Step::new(Action::Allow, std::slice::from_ref(one), 2).run(&table)));
    }
    // Sets that are full, so that somebody has to go.
    let filler = Policy::fixed_window(1_000, 10.0).expect("a policy");
    for number in 0..250 {
        let key = format!("filler-{number}");
        let charges = [Charge { policy: &filler, key: key.as_bytes() }];
        let operation =
            Operation { action: Action::Allow, charges: &charges, cost: 1, now_us: Some(NOW_US), token: None };
        table.decide(&operation, Duration::MAX).expect("a decision");
    }
    table
}

fn steps() -> Vec<Step> {
    let world = world();
    let each = |action, cost| {
        world[..6].iter().map(move |one| Step::new(action, std::slice::from_ref(one), cost)).collect::<Vec<_>>()
    };
    let several = |action, cost| Step::new(action, &world[..7], cost);
    let mut steps = each(Action::Allow, 1);
    steps.extend(each(Action::Refund, 1));
    // All that was taken: the slots go.
    steps.extend(each(Action::Refund, 100));
    steps.extend([several(Action::Allow, 1), several(Action::Refund, 1), several(Action::Refund, 100)]);
    steps.push(Step { token: Some("token"), ..several(Action::Allow, 1) });
    steps.push(Step { token: Some("token"), ..Step::new(Action::Allow, &world[1..2], 1) });
    steps
}

fn next_owner<const GROWS: bool>(table: &Table<Succession<GROWS>>) {
    table.owner.0.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_step_that_dies_at_any_write_has_happened_or_not() {
    for step in steps() {
        let before = remaining(&table());
        let after = {
            let table = table();
            step.run(&table);
            remaining(&table)
        };
        let mut deaths = 0;
        loop {
            let table = table();
            if killed_after(deaths, || step.run(&table)).is_some() {
                break;
            }
            next_owner(&table);
            let seen = remaining(&table);
            let at = format!("write {deaths} of {:?} {:?} × {}", step.action, step.token, step.cost);
            assert!(seen == before || seen == after, "{at}: {seen:?} is neither {before:?} nor {after:?}");
            // With the token the same call changes nothing if it has happened.
            step.run(&table);
            if step.token.is_some() {
                assert_eq!(remaining(&table), after, "{at}: the token takes once");
            }
            deaths += 1;
        }
        assert!(deaths >= 2, "{:?} locks and unlocks at least", step.action);
    }
}

#[test]
fn whoever_dies_while_finishing_what_a_dead_one_left_leaves_it_to_the_next() {
    for step in steps().into_iter().rev().take(5) {
        let before = remaining(&table());
        let after = {
            let table = table();
            step.run(&table);
            remaining(&table)
        };
        let mut first = 0;
        loop {
            let table_of = |first| {
                let table = table();
                let done = killed_after(first, || step.run(&table)).is_some();
                next_owner(&table);
                (table, done)
            };
            if table_of(first).1 {
                break;
            }
            let mut second = 0;
            loop {
                let (table, _) = table_of(first);
                let done = killed_after(second, || remaining(&table)).is_some();
                next_owner(&table);
                let seen = remaining(&table);
                assert!(seen == before || seen == after, "writes {first} and {second} of {:?}", step.action);
                if done {
                    break;
                }
                second += 11;
            }
            first += 5;
        }
    }
}

#[test]
fn what_the_dead_had_taken_of_the_log_area_is_found_again() {
    let log = Policy::sliding_window_log(1_000, 60.0).expect("a policy");
    let layout = Layout { sets: 16, blocks: 32 };
    let region = Region::private(layout.words()).expect("memory");
    let table = Table::new(region, layout, [1, 2], Succession::<false>(AtomicU64::new(1)));
    let key = |number: u64| format!("log-{number}");
    let ask = |number: u64| {
        let key = key(number);
        let charges = [Charge { policy: &log, key: key.as_bytes() }];
        let operation =
            Operation { action: Action::Allow, charges: &charges, cost: 1, now_us: Some(NOW_US), token: None };
        table.decide(&operation, Duration::MAX).expect("room for one more log")
    };
    // Each dies with a block that no slot refers to; there are 32 blocks.
    for number in 0..100 {
        let killed = (0..1_000).find(|&writes| {
            let done = killed_after(writes, || ask(1_000 * number + writes)).is_some();
            next_owner(&table);
            done
        });
        assert!(killed.is_some_and(|writes| writes > 3));
    }
    assert_eq!(ask(999_999)[0].remaining, 999);
}

#[test]
fn a_fork_in_the_middle_of_growing_loses_nobody() {
    let window = Policy::fixed_window(100, 60.0).expect("a policy");
    let log = Policy::sliding_window_log(100, 60.0).expect("a policy");
    let ask = |table: &Table<Succession<true>>, number: usize, action| {
        let (policy, key) = (if number.is_multiple_of(3) { &log } else { &window }, format!("key-{number}"));
        let charges = [Charge { policy, key: key.as_bytes() }];
        let operation = Operation { action, charges: &charges, cost: 1, now_us: Some(NOW_US), token: None };
        table.decide(&operation, Duration::MAX).expect("a decision")[0].remaining
    };
    let empty = || {
        let layout = Layout { sets: 16, blocks: 2_048 };
        let region = Region::private(layout.words()).expect("memory");
        Table::new(region, layout, [1, 2], Succession::<true>(AtomicU64::new(1)))
    };
    let table = empty();
    let grows = |number: &usize| {
        let sets = table.sets();
        ask(&table, *number, Action::Allow);
        sets < table.sets()
    };
    let grows_at = (0..1_000).find(grows).expect("it grows");
    for writes in (0..).step_by(17) {
        let table = empty();
        (0..grows_at).for_each(|number| _ = ask(&table, number, Action::Allow));
        let done = killed_after(writes, || ask(&table, grows_at, Action::Allow)).is_some();
        next_owner(&table);
        for number in 0..grows_at {
            assert_eq!(ask(&table, number, Action::Peek), 99, "key {number} after {writes} writes");
        }
        // It goes on growing, over what was left.
        for number in grows_at..2 * grows_at {
            ask(&table, number, Action::Allow);
        }
        for number in 0..2 * grows_at {
            assert!(ask(&table, number, Action::Peek) >= 98, "key {number} after {writes} writes");
            assert!(ask(&table, number, Action::Peek) <= 99, "key {number} after {writes} writes");
        }
        assert_eq!(table.info().evicted, 0);
        if done {
            break;
        }
    }
}

#[test]
fn a_call_with_many_policies_and_a_token_grows_a_table_no_more_than_it_needs() {
    let layout = Layout { sets: 1_024, blocks: 2_048 };
    let region = Region::private(layout.words()).expect("memory");
    let table = Table::new(region, layout, [1, 2], Succession::<true>(AtomicU64::new(1)));
    let window = Policy::fixed_window(100, 60.0).expect("a policy");
    let keys: Vec<String> = (0..32).map(|number| format!("policy-{number}")).collect();
    let charges: Vec<Charge<'_>> = keys.iter().map(|key| Charge { policy: &window, key: key.as_bytes() }).collect();
    for token in [b"one", b"two"] {
        let operation =
            Operation { action: Action::Allow, charges: &charges, cost: 1, now_us: Some(NOW_US), token: Some(token) };
        for _ in 0..2 {
            table.decide(&operation, Duration::MAX).expect("a decision");
        }
    }
    assert!(table.sets() <= 16, "{} sets for 96 states", table.sets());
    // By the clock of the test they count; by the machine's they are over.
    assert_eq!((table.info().expired, table.info().evicted), (96, 0));
}
