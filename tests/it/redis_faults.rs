use std::time::{Duration, Instant};

use ratelimit_core::{Decision, Error, Limiter, Policy, StoreErrorKind, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::wire::{Fate, Wire};

/// Long enough for a good call on a busy machine.
const TIMEOUTS: &str = "?timeout=0.3&connect_timeout=0.3";

fn limiter(dsn: &str) -> Limiter {
    let policy = Policy::token_bucket(100, 1.0, 3600.0).expect("a policy");
    Limiter::new(policy, store::open(dsn).expect("a store")).expect("a limiter")
}

/// A reply of the scripts: allowed, remaining, and three waits in microseconds.
fn reply(numbers: [f64; 5]) -> Vec<u8> {
    let mut bytes = b"$40\r\n".to_vec();
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// A verb, and what is left of 100 after it when 50 have been taken before.
type Verb = (&'static str, fn(&Limiter) -> Result<(), Error>, u64);

const VERBS: [Verb; 6] = [
    ("allow", |limiter| limiter.allow("key", 1).map(drop), 49),
    ("peek", |limiter| limiter.peek("key", 1).map(drop), 50),
    ("reserve", |limiter| limiter.reserve("key", 1, 0).map(drop), 49),
    ("wait", |limiter| limiter.wait("key", 1, 0).map(drop), 49),
    ("refund", |limiter| limiter.refund("key", 1), 51),
    ("reset", |limiter| limiter.reset("key"), 100),
];

/// What becomes of one command, what its caller is told, and whether the server has carried it out.
fn fates() -> Vec<(Fate, StoreErrorKind, bool)> {
    use StoreErrorKind::{Busy, Closed, Loading, Noperm, Oom, Protocol, Readonly, Timeout, Wrongtype};
    let answers: [(&[u8], StoreErrorKind); 18] = [
        (b"-ERR internal error\r\n", Protocol),
        (b"-CROSSSLOT Keys in request don't hash to the same slot\r\n", Protocol),
        (b"-MOVED 1 127.0.0.1:1\r\n", Protocol),
        (b"-LOADING Redis is loading the dataset in memory\r\n", Loading),
        (b"-CLUSTERDOWN The cluster is down\r\n", Loading),
        (b"-READONLY You can't write against a read only replica.\r\n", Readonly),
        (b"-MISCONF Errors writing to the disk\r\n", Readonly),
        (b"-BUSY Redis is busy running a script.\r\n", Busy),
        (b"-NOPERM this user has no permissions\r\n", Noperm),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", Oom),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", Wrongtype),
        (b"*0\r\n", Protocol),
        (b"$-1\r\n", Protocol),
        (b":7\r\n", Protocol),
        (b"+OK\r\n", Protocol),
        (b"*5\r\n:1\r\n:9\r\n:0\r\n:0\r\n:0\r\n", Protocol),
        (b"$5\r\nhello\r\n", Protocol),
        (b"\x16\x03\x01\x02\x00\r\n", Protocol),
    ];
    let numbers = [
        [1.0, -1.0, 0.0, 0.0, 0.0],
        [1.0, 101.0, 0.0, 0.0, 0.0],
        [1.0, 0.5, 0.0, 0.0, 0.0],
        [1.0, f64::NAN, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, f64::INFINITY, 0.0],
        [1.0, 0.0, 5.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [2.0, 0.0, 0.0, 0.0, 0.0],
    ];
    let answers = answers.map(|(bytes, kind)| (Fate::Answer(bytes.to_vec()), kind, false));
    let numbers = numbers.map(|numbers| (Fate::Answer(reply(numbers)), Protocol, false));
    [
        (Fate::DropBefore, Closed, false),
        (Fate::DropAfter, Closed, true),
        (Fate::ResetBefore, Closed, false),
        (Fate::ResetAfter, Closed, true),
        (Fate::Truncate(0), Closed, true),
        (Fate::Truncate(2), Closed, true),
        (Fate::Garble, Protocol, true),
        (Fate::Late(Duration::from_millis(700)), Timeout, true),
        (Fate::Drip(Duration::from_millis(100)), Timeout, true),
        (Fate::Silence, Timeout, false),
        (Fate::Answer(vec![b'x'; 100_000]), Protocol, false),
    ]
    .into_iter()
    .chain(answers)
    .chain(numbers)
    .collect()
}

/// Each fate for one call of each verb between good ones: what the caller is told, how soon, and how often the call
/// counted.
#[test]
fn no_fault_counts_a_command_twice_passes_for_an_answer_or_outlasts_the_deadline() {
    let server = RedisServer::start();
    let direct = limiter(&server.dsn());
    for (fate, kind, carried_out) in fates() {
        for (verb, call, left) in VERBS {
            let name = format!("{verb}, {fate:?}");
            let took = attempt(&server, &direct, &fate, call, &name, kind, if carried_out { left } else { 50 });
            // A call is back within its timeout and 100 ms. A busy machine may be late once, not three times.
            let mut tries = vec![took];
            while tries.iter().all(|took| *took > Duration::from_millis(400)) && tries.len() < 3 {
                let left = if carried_out { left } else { 50 };
                tries.push(attempt(&server, &direct, &fate, call, &name, kind, left));
            }
            assert!(tries.iter().any(|took| *took <= Duration::from_millis(400)), "{name}: {tries:?}");
        }
    }
}

/// One faulty call, and how long it took.
fn attempt(
    server: &RedisServer,
    direct: &Limiter,
    fate: &Fate,
    call: fn(&Limiter) -> Result<(), Error>,
    name: &str,
    kind: StoreErrorKind,
    left: u64,
) -> Duration {
    let (fate, faulty) = (fate.clone(), 2);
    let wire = Wire::start(Some(server.port()), move |number| if number == faulty { fate.clone() } else { Fate::Pass });
    let limiter = limiter(&wire.dsn(TIMEOUTS));
    // The first may take two commands, where the server does not know the script yet.
    while wire.commands() < faulty {
        limiter.peek("key", 1).expect("a good call");
    }
    direct.reset("key").expect("a reset");
    direct.allow("key", 50).expect("a decision");

    let started = Instant::now();
    let error = call(&limiter).expect_err(name);
    let took = started.elapsed();
    assert_eq!(error.store_kind(), Some(kind), "{name}: {error}");
    assert_eq!(direct.peek("key", 1).expect("a decision").remaining(), left, "{name}");
    assert_eq!(limiter.allow("next", 1).expect("the next call is real").limit(), 100, "{name}");
    direct.reset("next").expect("a reset");
    took
}

/// Of many calls under way at once, those are lost that have no reply, and no other; none is sent again.
#[test]
fn a_batch_loses_what_was_not_answered_and_counts_nothing_twice() {
    let server = RedisServer::start();
    let direct = limiter(&server.dsn());
    for (fate, counted) in [
        (Fate::DropBefore, 2),
        (Fate::DropAfter, 3),
        (Fate::Truncate(7), 3),
        (Fate::Garble, 3),
        (Fate::Late(Duration::from_millis(700)), 3),
        (Fate::Answer(b"-OOM command not allowed\r\n".to_vec()), 4),
        (Fate::Answer(b"*0\r\n".to_vec()), 2),
    ] {
        let (name, faulty) = (format!("{fate:?}"), 4);
        let oom = matches!(&fate, Fate::Answer(line) if line.starts_with(b"-OOM"));
        let wire =
            Wire::start(Some(server.port()), move |number| if number == faulty { fate.clone() } else { Fate::Pass });
        let limiter = limiter(&wire.dsn(TIMEOUTS));
        while wire.commands() < 2 {
            limiter.peek("key", 1).expect("a good call");
        }
        direct.reset("key").expect("a reset");
        let outcomes = limiter.allow_many(&[("key", 1); 5]).expect("valid calls");
        let answered: Vec<Option<u64>> =
            outcomes.iter().map(|outcome| outcome.as_ref().ok().map(Decision::remaining)).collect();
        let expected =
            if oom { [Some(99), Some(98), None, Some(97), Some(96)] } else { [Some(99), Some(98), None, None, None] };
        assert_eq!(answered, expected, "{name}");
        // What the relay had read already may still be on its way to the server.
        std::thread::sleep(Duration::from_millis(20));
        let used = 100 - direct.peek("key", 1).expect("a decision").remaining();
        assert!((counted..=5).contains(&used), "{name}: {used}");
        assert!(limiter.allow("next", 1).is_ok(), "{name}: the next call is real");
    }
}

#[test]
fn a_late_reply_is_never_given_to_the_next_caller() {
    let late = reply([0.0, 0.0, 5e6, 5e6, 0.0]);
    let prompt = reply([1.0, 7.0, 0.0, 3e6, 0.0]);
    let wire = Wire::start(None, move |number| match number {
        0 => Fate::Silence,
        // The answer to the first arrives together with the second's, were it asked on the same connection.
        1 => Fate::Answer(prompt.clone()),
        _ => Fate::Answer(late.clone()),
    });
    let limiter = limiter(&wire.dsn(TIMEOUTS));
    let error = limiter.allow("slow-user", 1).expect_err("no answer");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Timeout));
    let decision = limiter.allow("fast-user", 1).expect("an answer");
    assert_eq!((decision.allowed(), decision.remaining()), (true, 7));
    assert_eq!(wire.connections(), 2, "the connection that timed out was not used again");
}

#[test]
fn two_replies_to_one_command_are_refused() {
    let twice = reply([1.0, 7.0, 0.0, 3e6, 0.0]).repeat(2);
    let wire = Wire::start(None, move |_| Fate::Answer(twice.clone()));
    let error = limiter(&wire.dsn(TIMEOUTS)).allow("key", 1).expect_err("one too many");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Protocol));
}

#[test]
fn a_reply_in_pieces_is_put_together() {
    let server = RedisServer::start();
    let wire = Wire::start(Some(server.port()), |_| Fate::Drip(Duration::from_micros(50)));
    let limiter = limiter(&wire.dsn("?timeout=2"));
    assert_eq!([(); 3].map(|()| limiter.allow("key", 1).expect("a decision").remaining()), [99, 98, 97]);
}

#[test]
fn loading_and_busy_pass_with_the_server() {
    let server = RedisServer::start();
    let wire = Wire::start(Some(server.port()), |number| match number {
        0 => Fate::Answer(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()),
        1 => Fate::Answer(b"-BUSY Redis is busy running a script.\r\n".to_vec()),
        _ => Fate::Pass,
    });
    let limiter = limiter(&wire.dsn(TIMEOUTS));
    assert_eq!(limiter.allow("key", 1).expect_err("loading").store_kind(), Some(StoreErrorKind::Loading));
    assert_eq!(limiter.allow("key", 1).expect_err("busy").store_kind(), Some(StoreErrorKind::Busy));
    assert_eq!(limiter.allow("key", 1).expect("a decision").remaining(), 99);
}

#[test]
fn an_address_that_swallows_packets_costs_no_more_than_the_connect_timeout() {
    // 192.0.2.0/24 is for documentation: nobody answers there, or the network says so at once.
    let limiter = limiter(&format!("redis://192.0.2.1{TIMEOUTS}"));
    let started = Instant::now();
    let kind = limiter.allow("key", 1).expect_err("nobody there").store_kind();
    assert!(matches!(kind, Some(StoreErrorKind::Timeout | StoreErrorKind::Refused)), "{kind:?}");
    assert!(started.elapsed() < Duration::from_millis(600));
}
