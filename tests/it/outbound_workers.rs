use std::sync::Arc;

use ratelimit_core::outbound::{Before, Limit, Options, Outcome, Preset, Reason, Request, Response, Scope};
use ratelimit_core::{Clock as _, ManualClock, Policy, store};

use crate::outbound_client::{Client, NOW, SECOND, URL, exact, returned};

#[test]
fn one_request_finds_out_what_is_left_and_the_others_wait_for_it() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    let Ok(Before::Go(first)) = client.governor.before(&request) else { panic!("the first goes") };
    for _ in 0..3 {
        let before = client.governor.before(&request).expect("a decision");
        let Before::Wait { delay_us, reason, .. } = before else { panic!("{before:?}") };
        assert_eq!(reason, Reason::Learning);
        assert!((1..=250_000).contains(&delay_us), "{delay_us}");
    }
    let headers = [("X-RateLimit-Limit", "3"), ("X-RateLimit-Remaining", "2"), ("X-RateLimit-Reset", "10")];
    client.governor.after(first, &Response { status: 200, headers: &headers, body: b"" }).expect("learnt");
    assert_eq!([0, 0, 10 * SECOND], [(); 3].map(|()| client.wait_of(&request)));
}

#[test]
fn a_request_that_never_comes_back_holds_the_others_back_for_ten_seconds() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    assert!(matches!(client.governor.before(&request), Ok(Before::Go(_))));
    client.clock.advance(9.999);
    assert!(matches!(client.governor.before(&request), Ok(Before::Wait { .. })));
    client.clock.advance(0.001);
    assert!(matches!(client.governor.before(&request), Ok(Before::Go(_))));
}

#[test]
fn a_request_that_failed_lets_somebody_else_find_out() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    let Ok(Before::Go(ticket)) = client.governor.before(&request) else { panic!("the first goes") };
    client.governor.abandon(&ticket).expect("told");
    assert!(matches!(client.governor.before(&request), Ok(Before::Go(_))));
}

#[test]
fn after_a_reset_at_most_what_is_newly_learnt_goes() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    let headers = |remaining: &'static str| {
        [("X-RateLimit-Limit", "2"), ("X-RateLimit-Remaining", remaining), ("X-RateLimit-Reset", "2")]
    };
    client.get(URL, &[(200, &headers("1"), "")]);
    let waits = [(); 4].map(|()| client.wait_of(&request));
    assert_eq!(waits, [0, 2 * SECOND, 2 * SECOND, 2 * SECOND]);
    client.clock.advance(2.0);
    let Ok(Before::Go(ticket)) = client.governor.before(&request) else { panic!("one goes") };
    assert!(matches!(client.governor.before(&request), Ok(Before::Wait { reason: Reason::Learning, .. })));
    client.governor.after(ticket, &Response { status: 200, headers: &headers("1"), body: b"" }).expect("learnt");
    assert_eq!([0, 2 * SECOND], [(); 2].map(|()| client.wait_of(&request)));
}

#[test]
fn news_of_an_older_window_changes_nothing_however_late_they_come() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    let headers = |remaining: &'static str, reset: &'static str| {
        [("X-RateLimit-Limit", "10"), ("X-RateLimit-Remaining", remaining), ("X-RateLimit-Reset", reset)]
    };
    client.get(URL, &[(200, &headers("9", "1700000060"), "")]);
    // A slow answer of the window before says that nothing is left of that one.
    client.get(URL, &[(200, &headers("0", "1700000030"), "")]);
    assert_eq!(client.wait_of(&request), 0);
    let state = client.governor.state(&request).expect("a state").expect("known");
    assert_eq!((state.limit, state.remaining, state.reset_after_us), (Some(10), Some(7), Some(60 * SECOND)));
}

#[test]
fn an_answer_that_overtook_others_gives_nothing_back() {
    let client = Client::new(Preset::GENERIC, exact());
    let request = Request::new("GET", URL);
    let headers = |remaining: &'static str| {
        [("X-RateLimit-Limit", "10"), ("X-RateLimit-Remaining", remaining), ("X-RateLimit-Reset", "1700000060")]
    };
    client.get(URL, &[(200, &headers("9"), "")]);
    let go = || match client.governor.before(&request) {
        Ok(Before::Go(ticket)) => ticket,
        other => panic!("{other:?}"),
    };
    let (slow, quick) = (go(), go());
    let answer = |ticket, remaining| {
        client
            .governor
            .after(ticket, &Response { status: 200, headers: &headers(remaining), body: b"" })
            .expect("learnt");
    };
    answer(quick, "7");
    answer(slow, "8");
    let state = client.governor.state(&request).expect("a state").expect("known");
    assert_eq!(state.remaining, Some(7));
}

#[test]
fn a_refusal_pauses_every_worker_and_their_next_requests_are_spread() {
    let store = store::memory(10_000).expect("a store");
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let workers = [(); 4].map(|()| Client::with(&store, &clock, Preset::SLACK, exact()));
    let url = "https://slack.com/api/chat.postMessage";
    // Nothing is ever told, so all of them may go at once.
    assert_eq!(workers[0].get(url, &[(200, &[], "")]), returned(&[], 1));
    let Ok(Before::Go(ticket)) = workers[0].governor.before(&Request::new("GET", url)) else { panic!("it goes") };
    let refused = Response { status: 429, headers: &[("Retry-After", "30")], body: b"" };
    let after = workers[0].governor.after(ticket, &refused).expect("an answer");
    assert!(matches!(after.outcome, Outcome::Retry { delay_us: 30_000_000, attempt: 1, .. }));
    for worker in &workers {
        assert_eq!(worker.wait_of(&Request::new("GET", url)), 30 * SECOND);
    }
    clock.advance(30.0);
    let waits: Vec<u64> = workers.iter().map(|worker| worker.wait_of(&Request::new("GET", url))).collect();
    assert_eq!(waits, [0, SECOND, SECOND, SECOND], "one goes, the others in turn");
}

#[test]
fn own_limits_space_requests_of_all_workers_and_starve_nobody() {
    let store = store::memory(10_000).expect("a store");
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let limit = || Limit::new(Policy::fixed_window(1, 2.0).expect("a policy")).scope(Scope::Host);
    let options = || Options { limits: vec![limit()], ..exact() };
    let workers = [(); 4].map(|()| Client::with(&store, &clock, Preset::GENERIC, options()));
    let mut sent_at = Vec::new();
    for _ in 0..2 {
        for worker in &workers {
            assert_eq!(worker.get(URL, &[(200, &[], "")]).sent, 1);
            sent_at.push((clock.now_us() - NOW * SECOND) / SECOND);
        }
    }
    assert_eq!(sent_at, [0, 2, 4, 6, 8, 10, 12, 14]);
}

#[test]
fn a_request_that_waits_for_one_limit_takes_nothing_from_another() {
    let tight = Limit::new(Policy::fixed_window(1, 10.0).expect("a policy"));
    let wide = Limit::new(Policy::fixed_window(5, 100.0).expect("a policy")).scope(Scope::Everything);
    let client = Client::new(Preset::GENERIC, Options { limits: vec![tight, wide], ..exact() });
    assert_eq!(client.get(URL, &[(200, &[], "")]), returned(&[], 1));
    for _ in 0..20 {
        assert_eq!(client.wait_of(&Request::new("GET", URL)), 10 * SECOND);
    }
    for _ in 0..4 {
        assert_eq!(client.get(URL, &[(200, &[], "")]), returned(&[10 * SECOND], 1));
    }
    assert_eq!(client.wait_of(&Request::new("GET", URL)), 60 * SECOND, "five were taken, none in vain");
}
