//! The readers of replies, as a fuzzer may use them.

use std::sync::OnceLock;

use super::command::{self, Answer};
use super::redirect::Redirect;
use super::resp::{self, Expected, Parsed, Reply};
use super::setup::SetUp;
use super::slot::SLOTS;
use super::{cluster, fault, hold, sentinel};
use crate::algorithm::{MAX_EXACT, MAX_SPAN_US, MAX_UNITS, NEVER_US, Question, Verb};
use crate::clock::MAX_INSTANT_US;
use crate::policy::Policy;
use crate::resilience::Snapshot;
use crate::store::dsn::{Address, Protocol};
use crate::store::{Action, Charge, Operation, Verdicts};

/// Reads the bytes as a reply to everything that is ever asked of a server, and panics where a reader breaks its word.
pub fn read_as_everything(bytes: &[u8]) {
    let (answer, report) = (resp::parse(bytes, Expected::Answer), resp::parse(bytes, Expected::Report));
    if answer != Parsed::Invalid {
        assert_eq!(answer, report, "an answer is a report, too");
    }
    for (expected, parsed) in [(Expected::Answer, answer), (Expected::Report, report)] {
        let Parsed::Complete(reply, length) = parsed else { continue };
        check_length(bytes, &reply, length, expected);
        let asked = Address::Tcp("cache".to_owned(), 6379);
        check_answers(&reply);
        check_refusal(&reply, &asked);
        check_reports(&reply, &asked);
    }
}

/// A reply ends at its end, whatever follows, and not before.
fn check_length(bytes: &[u8], reply: &Reply, length: usize, expected: Expected) {
    match resp::parse(&bytes[..length], expected) {
        Parsed::Complete(alone, its_length) => assert_eq!((&alone, its_length), (reply, length)),
        other => panic!("{other:?} without what follows"),
    }
    for shorter in [length - 1, length / 2, length.saturating_sub(3)] {
        assert_eq!(resp::parse(&bytes[..shorter], expected), Parsed::Incomplete, "{shorter} bytes of {length}");
    }
}

/// What counts as a decision is one.
fn check_answers(reply: &Reply) {
    static POLICIES: OnceLock<Vec<Policy>> = OnceLock::new();
    let texts = ["5 burst, 1/h", "1000/day aligned UTC", "7/m log"];
    let policies =
        POLICIES.get_or_init(|| texts.iter().map(|text| Policy::parse(text).expect("a policy")).collect::<Vec<_>>());
    let charges: Vec<Charge<'_>> = policies.iter().map(|policy| Charge { policy, key: b"key" }).collect();
    for (charges, token) in [(&charges[..1], None), (&charges[1..2], Some(&b"token"[..])), (&charges[..], None)] {
        let operation = Operation { action: Action::Allow, charges, cost: 1, now_us: None, token };
        match command::answer(reply, &operation) {
            Some(Answer::Verdicts(verdicts, snapshot)) => {
                check_verdicts(&verdicts, charges);
                snapshot.iter().for_each(|snapshot| check_snapshot(snapshot, charges));
            }
            Some(Answer::Elsewhen(now_us)) => assert!(now_us < MAX_INSTANT_US),
            None => {}
        }
    }
    if let Some(held) = hold::read(reply) {
        assert!(held.in_flight < MAX_EXACT && held.wait_us < MAX_EXACT);
    }
}

fn check_verdicts(verdicts: &Verdicts, charges: &[Charge<'_>]) {
    assert_eq!(verdicts.len(), charges.len());
    for (verdict, charge) in verdicts.iter().zip(charges) {
        assert!(verdict.remaining <= charge.policy.limit());
        assert_eq!(verdict.allowed, verdict.retry_after_us == 0);
        assert!(verdict.retry_after_us == NEVER_US || verdict.retry_after_us < MAX_EXACT);
        assert!(verdict.reset_after_us < MAX_EXACT && verdict.delay_us < MAX_EXACT);
    }
}

/// Whatever a server says that its state is, the model has an answer.
fn check_snapshot(snapshot: &Snapshot, charges: &[Charge<'_>]) {
    assert_eq!(snapshot.states.len(), charges.len());
    for (state, charge) in snapshot.states.iter().zip(charges) {
        for verb in [Verb::Allow, Verb::Reserve { max_wait_us: MAX_SPAN_US }] {
            for (later_us, cost) in [(0, 1), (0, MAX_UNITS), (1_000_000, 1)] {
                let question = Question { now_us: snapshot.now_us + later_us, verb, cost, commit: false };
                if charge.policy.check_reserves().is_ok() || verb == Verb::Allow {
                    // A calendar ends; beyond that there is an error.
                    let _ = charge.policy.decide(&mut Some(*state), &question);
                }
            }
        }
    }
}

/// A refusal sends to a place that there can be, and every refusal has its sentence.
fn check_refusal(reply: &Reply, asked: &Address) {
    match Redirect::of(reply, asked) {
        Some(Redirect::Moved { slot, address }) => {
            assert!(slot < SLOTS);
            check_address(&address);
        }
        Some(Redirect::Ask { address }) => check_address(&address),
        Some(Redirect::Text | Redirect::Later) | None => {}
    }
    if let Reply::Error(line) = reply {
        assert!(fault::server(asked, line).store_kind().is_some());
    }
}

/// Sentinels, nodes and new connections say what makes sense, or it is an error.
fn check_reports(reply: &Reply, asked: &Address) {
    for (first, last, address) in cluster::read(reply, asked).unwrap_or_default() {
        assert!(first <= last && last < SLOTS);
        check_address(&address);
    }
    if let Ok(Some(address)) = sentinel::read(reply, asked) {
        check_address(&address);
    }
    let set_up = SetUp {
        username: None,
        password: None,
        database: 1,
        protocol: Protocol::Resp3,
        client_name: None,
        of_primary: true,
    };
    for step in set_up.steps() {
        if let Err(error) = step.check(asked, reply) {
            assert!(error.store_kind().is_some());
        }
    }
}

fn check_address(address: &Address) {
    assert!(matches!(address, Address::Tcp(host, 1..) if !host.is_empty()), "{address:?}");
}
