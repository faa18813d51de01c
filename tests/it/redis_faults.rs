use std::time::{Duration, Instant};

use ratelimit_core::{Limiter, Policy, StoreErrorKind, store};
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

/// Each fate for one call between good ones: what the caller is told, and how often the call counted.
#[test]
fn a_command_is_never_counted_twice_and_no_fault_passes_for_an_answer() {
    let server = RedisServer::start();
    let direct = limiter(&server.dsn());
    let fates = [
        (Fate::DropBefore, StoreErrorKind::Closed, 0),
        (Fate::DropAfter, StoreErrorKind::Closed, 1),
        (Fate::Truncate(0), StoreErrorKind::Closed, 1),
        (Fate::Truncate(7), StoreErrorKind::Closed, 1),
        (Fate::Late(Duration::from_millis(900)), StoreErrorKind::Timeout, 1),
        (Fate::Drip(Duration::from_millis(30)), StoreErrorKind::Timeout, 1),
        (Fate::Silence, StoreErrorKind::Timeout, 0),
        (Fate::Answer(b"-ERR internal error\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (
            Fate::Answer(b"-CROSSSLOT Keys in request don't hash to the same slot\r\n".to_vec()),
            StoreErrorKind::Protocol,
            0,
        ),
        (Fate::Answer(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()), StoreErrorKind::Loading, 0),
        (Fate::Answer(b"-BUSY Redis is busy running a script.\r\n".to_vec()), StoreErrorKind::Busy, 0),
        (Fate::Answer(b"-MISCONF Errors writing to the disk\r\n".to_vec()), StoreErrorKind::Readonly, 0),
        (Fate::Answer(b"*0\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b"$-1\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b":1\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b"+OK\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b"*5\r\n:1\r\n:9\r\n:0\r\n:0\r\n:0\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b"$5\r\nhello\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, -1.0, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, 101.0, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, 0.5, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, f64::NAN, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, 0.0, 0.0, f64::INFINITY, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([1.0, 0.0, 5.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([0.0, 0.0, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(reply([2.0, 0.0, 0.0, 0.0, 0.0])), StoreErrorKind::Protocol, 0),
        (Fate::Answer(b"\x16\x03\x01\x02\x00\r\n".to_vec()), StoreErrorKind::Protocol, 0),
        (Fate::Answer(vec![b'x'; 100_000]), StoreErrorKind::Protocol, 0),
    ];
    for (fate, kind, counted) in fates {
        let (name, faulty) = (format!("{fate:?}"), 2);
        let wire =
            Wire::start(Some(server.port()), move |number| if number == faulty { fate.clone() } else { Fate::Pass });
        let limiter = limiter(&wire.dsn(TIMEOUTS));
        direct.reset("key").expect("a reset");
        // The first may take two commands, where the server does not know the script yet.
        while wire.commands() < faulty {
            limiter.allow("key", 1).expect("a good call");
        }
        let before = direct.peek("key", 1).expect("a decision").remaining();

        let started = Instant::now();
        let error = limiter.allow("key", 1).expect_err(&name);
        assert_eq!(error.store_kind(), Some(kind), "{name}: {error}");
        assert!(started.elapsed() < Duration::from_millis(600), "{name}: {:?}", started.elapsed());
        assert_eq!(limiter.allow("next", 1).expect("the next call is real").limit(), 100, "{name}");

        let after = direct.peek("key", 1).expect("a decision").remaining();
        assert_eq!(before - after, counted, "{name}");
        direct.reset("next").expect("a reset");
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
