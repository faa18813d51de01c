use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::algorithm::{FixedWindow, Question, SlidingWindowCounter, State, Verb, Verdict};
use ratelimit_core::lua::scripts;
use ratelimit_tests::RedisServer;
use ratelimit_tests::random::check;
use ratelimit_tests::vectors::EPOCH_US;

/// A policy of which something can be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    FirstHit,
    Aligned,
    Counter,
}

const KINDS: [Kind; 3] = [Kind::FirstHit, Kind::Aligned, Kind::Counter];

/// One key in windows of a second, in the model and in Redis.
struct Twin<'a> {
    connection: &'a mut redis::Connection,
    key: String,
    kind: Kind,
    limit: u64,
    state: Option<State>,
}

impl Twin<'_> {
    /// One step of both, which have to agree.
    fn step(&mut self, now_us: u64, verb: Verb, cost: u64) -> Verdict {
        let question = Question { now_us, verb, cost, commit: true };
        let limit = self.limit.cast_signed();
        let (name, numbers, verdict) = match self.kind {
            Kind::Counter => {
                let counter = SlidingWindowCounter::new(limit, 1.0).expect("a counter");
                let verdict = counter.decide(&mut self.state, &question);
                ("sliding_window_counter", [self.limit, 1_000_000, 1, 0, 0], verdict)
            }
            kind => {
                let aligned = kind == Kind::Aligned;
                let window = FixedWindow::new(limit, 1.0, aligned).expect("a window");
                let verdict = window.decide(&mut self.state, &question).expect("a verdict");
                ("fixed_window", [self.limit, 1_000_000, u64::from(aligned), 0, 0], verdict)
            }
        };
        let (number, extra) = match verb {
            Verb::Allow | Verb::Reserve { .. } => (1, 0),
            Verb::Refund => (3, 0),
            Verb::Lease { most } => (4, most),
            Verb::Return { window_end_us } => (5, window_end_us),
        };
        let text = scripts().find(|script| script.name() == name).expect("a script").text();
        let told: Vec<u8> = redis::cmd("EVAL")
            .arg(text)
            .arg(1)
            .arg(&self.key)
            .arg(doubles(numbers))
            .arg(doubles([number, cost, extra, now_us, 0]))
            .query(self.connection)
            .expect("an answer");
        assert_eq!(answer(&told), words(&verdict), "{:?} at {now_us}", self.kind);
        verdict
    }
}

#[allow(clippy::cast_precision_loss)]
fn doubles(numbers: [u64; 5]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}

#[allow(clippy::cast_possible_truncation)]
fn answer(bytes: &[u8]) -> Vec<i64> {
    bytes[..40].chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes")) as i64).collect()
}

fn words(verdict: &Verdict) -> Vec<i64> {
    let Verdict { allowed, remaining, retry_after_us, reset_after_us, delay_us } = *verdict;
    // Never is -1 on the wire.
    [u64::from(allowed), remaining, retry_after_us, reset_after_us, delay_us].map(u64::cast_signed).to_vec()
}

#[derive(Debug, Clone)]
enum Act {
    Allow(u64),
    Lease(u64, u64),
    /// Gives units back to the window of the last lease, or of one a little off.
    Return(u64, i64),
    Refund(u64),
}

#[test]
fn scripts_and_models_lease_and_take_back_alike() {
    let server = RedisServer::start();
    let connection = std::cell::RefCell::new(server.connection());
    let number = std::cell::Cell::new(0);
    let act = prop_oneof![
        2 => (1..9_u64).prop_map(Act::Allow),
        3 => (1..9_u64, 1..30_u64).prop_map(|(cost, most)| Act::Lease(cost, most)),
        3 => (1..30_u64, prop_oneof![6 => Just(0_i64), 1 => -2..3_i64]).prop_map(|(cost, off)| Act::Return(cost, off)),
        1 => (1..9_u64).prop_map(Act::Refund),
    ];
    let pause = prop_oneof![8 => 0..200_000_i64, 1 => -2_000_000..0_i64, 1 => 0..3_000_000_i64];
    check(1_500, &(8..60_u64, 0..3_usize, vec((pause, act), 1..40)), |(limit, kind, steps)| {
        number.set(number.get() + 1);
        let (mut connection, key) = (connection.borrow_mut(), format!("twin-{}", number.get()));
        let mut twin = Twin { connection: &mut connection, key, kind: KINDS[kind], limit, state: None };
        let (mut now_us, mut end_us): (u64, u64) = (EPOCH_US, 0);
        for (pause_us, act) in steps {
            now_us = now_us.saturating_add_signed(pause_us);
            match act {
                Act::Allow(cost) => _ = twin.step(now_us, Verb::Allow, cost),
                Act::Refund(cost) => _ = twin.step(now_us, Verb::Refund, cost),
                Act::Return(cost, off) => {
                    let window_end_us = end_us.saturating_add_signed(off);
                    _ = twin.step(now_us, Verb::Return { window_end_us }, cost);
                }
                Act::Lease(cost, most) => {
                    let verdict = twin.step(now_us, Verb::Lease { most }, cost);
                    if verdict.allowed {
                        prop_assert!((cost..=most.max(cost)).contains(&verdict.retry_after_us));
                        prop_assert!((now_us + 1..=now_us + 1_000_000).contains(&verdict.delay_us));
                        end_us = verdict.delay_us;
                    }
                }
            }
        }
        Ok(())
    });
}

/// However long a command was on its way.
#[test]
fn what_comes_back_late_changes_no_other_window() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    for kind in KINDS {
        let key = format!("late-{kind:?}");
        let mut twin = Twin { connection: &mut connection, key, kind, limit: 20, state: None };
        let lease = twin.step(EPOCH_US, Verb::Lease { most: 9 }, 2);
        assert_eq!((lease.retry_after_us, lease.remaining), (9, 11));
        let window_end_us = lease.delay_us;
        let back = Verb::Return { window_end_us };
        assert_eq!(twin.step(EPOCH_US, back, 3).remaining, 14, "in its window");
        // By then the counter has forgotten the window of the lease, too.
        for later_us in [window_end_us + 2_000_000, window_end_us + 9_000_000] {
            let left = twin.step(later_us, Verb::Allow, 8).remaining;
            assert_eq!(twin.step(later_us, back, 4).remaining, left, "{kind:?} {later_us}");
            // A clock that stepped back looks at the later window's count.
            assert!(twin.step(EPOCH_US, back, 4).remaining <= left, "{kind:?} {later_us}");
        }
    }
}
