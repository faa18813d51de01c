use ratelimit_core::outbound::{
    Before, GlobalLimit, Governor, InvalidRequestLimit, Options, Preset, Reason, Request, Response,
};
use ratelimit_core::store;

use crate::outbound_client::{Answer, Call, Client, End, SECOND, URL, exact, returned};

/// What the headers of an answer make the next request wait, in seconds.
type Story<'a> = (&'a str, &'a [(&'a str, &'a str)], u64);

#[test]
fn a_reset_is_waited_for_in_every_form_it_comes_in_and_the_buffer_on_top() {
    for (reset, seconds) in [
        ("42", 42.0),
        ("1700000030", 30.0),
        ("1700000030000", 30.0),
        ("2023-11-14T22:13:50Z", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("30.5", 30.5),
        ("500ms", 0.5),
        ("6m0s", 360.0),
    ] {
        let client = Client::new(Preset::GENERIC, Options::default());
        let headers = [("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", reset)];
        let expected = ratelimit_core::clock::seconds_to_us(seconds) + SECOND;
        assert_eq!(client.wait_after(URL, (200, &headers, "")), expected, "{reset}");
    }
}

#[test]
fn a_reset_that_is_past_or_cannot_be_read_makes_nobody_wait() {
    for reset in ["1699999990", "", "soon", "-5", "+1 week", "99999999999999999999"] {
        let client = Client::new(Preset::GENERIC, Options::default());
        let headers = [("X-RateLimit-Limit", "60"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", reset)];
        assert_eq!(client.wait_after(URL, (200, &headers, "")), 0, "{reset:?}");
    }
}

#[test]
fn a_retry_after_is_waited_for_exactly() {
    for (value, us) in [
        ("0", 0),
        ("3", 3 * SECOND),
        ("0.35", 350_000),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Tue, 14 Nov 2023 22:13:40 GMT", 20 * SECOND),
        ("Tuesday, 14-Nov-23 22:13:40 GMT", 20 * SECOND),
        ("Tue Nov 14 22:13:40 2023", 20 * SECOND),
    ] {
        let client = Client::new(Preset::GENERIC, Options::default());
        let call = client.get(URL, &[(429, &[("Retry-After", value)], ""), (200, &[], "")]);
        assert_eq!(call, returned(&[us], 2), "{value}");
    }
    let client = Client::new(Preset::GENERIC, Options::default());
    let two = client.get(URL, &[(429, &[("Retry-After", "3"), ("Retry-After", "7")], ""), (200, &[], "")]);
    assert_eq!(two, returned(&[7 * SECOND], 2));
}

#[test]
fn a_retry_after_that_cannot_be_read_backs_off_by_seconds() {
    for value in ["-1", "-5", "12abc", "tomorrow", "1e3", ""] {
        let client = Client::new(Preset::GENERIC, Options::default());
        let call = client.get(URL, &[(429, &[("Retry-After", value)], ""), (200, &[], "")]);
        assert_eq!(call.sent, 2, "{value:?}");
        assert!((SECOND..2 * SECOND).contains(&call.sleeps[0]), "{value:?} {call:?}");
    }
}

#[test]
fn retries_end_also_when_every_answer_says_at_once() {
    let client = Client::new(Preset::GENERIC, Options::default());
    let call = client.get(URL, &[(429, &[("Retry-After", "0")], "")]);
    assert_eq!(call.sent, 4);
    assert_eq!(call.end, End::Failed { retry_after_us: 0, global: false, too_long: false });
}

#[test]
fn discord_waits_for_what_the_body_says_and_grows_when_nothing_says_anything() {
    let url = "https://discord.com/api/v10/channels/1/messages";
    let json = r#"{"retry_after": 737.317, "global": false}"#;
    let call = Client::new(Preset::DISCORD, exact()).get(url, &[(429, &[], json), (200, &[], "")]);
    assert_eq!(call, returned(&[737_317_000], 2));
    let call = Client::new(Preset::DISCORD, exact())
        .get(url, &[(429, &[("Retry-After", "3600")], "<html>banned</html>"), (200, &[], "")]);
    assert_eq!(call, returned(&[3_600 * SECOND], 2));
    let both = r#"{"retry_after": 1.5}"#;
    let call = Client::new(Preset::DISCORD, exact()).get(url, &[(429, &[("Retry-After", "2")], both), (200, &[], "")]);
    assert_eq!(call, returned(&[2 * SECOND], 2));

    let call = Client::new(Preset::DISCORD, exact()).get(url, &[(429, &[], r#"{"message": "slow down"}"#)]);
    assert_eq!(call.sent, 4);
    assert!(call.sleeps[0] >= SECOND && call.sleeps.is_sorted() && call.sleeps[2] >= 4 * SECOND, "{call:?}");
    assert!(matches!(call.end, End::Failed { global: false, too_long: false, .. }));
}

const SECONDARY: &str = r#"{"message": "You have exceeded a secondary rate limit."}"#;

fn github<'a>(remaining: &'a str, reset: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", remaining),
        ("x-ratelimit-reset", reset),
        ("x-ratelimit-resource", "core"),
    ]
}

#[test]
fn github_is_waited_for_when_it_says_slow_down_with_403_and_not_when_it_says_no() {
    let url = "https://api.github.com/user";
    let left = github("4321", "1700001800");
    let asked = [left.clone(), vec![("retry-after", "30")]].concat();
    let exhausted = github("0", "1700000100");
    let fine: Answer<'_> = (200, &[], "");
    let story = |first: Answer<'_>| Client::new(Preset::GITHUB, exact()).get(url, &[first, fine]);
    assert_eq!(story((403, &asked, "")), returned(&[30 * SECOND], 2));
    assert_eq!(story((403, &exhausted, "")), returned(&[100 * SECOND], 2));
    assert_eq!(story((403, &left, SECONDARY)), returned(&[60 * SECOND], 2));
    assert_eq!(story((403, &left, "Resource not accessible")), returned(&[], 1));

    let call = Client::new(Preset::GITHUB, exact()).get(url, &[(403, &left, SECONDARY)]);
    assert_eq!((call.sleeps, call.sent), (vec![60 * SECOND, 120 * SECOND, 240 * SECOND], 4));
    assert!(matches!(call.end, End::Failed { .. }));
}

#[test]
fn of_several_policies_the_one_that_is_used_up_rules() {
    let policy = ("RateLimit-Policy", "\"burst\";q=100;w=60, \"day\";q=5000;w=86400");
    let one_line = [policy, ("RateLimit", "\"burst\";r=50;t=30, \"day\";r=0;t=4000")];
    let lines = [policy, ("RateLimit", "\"burst\";r=50;t=30"), ("RateLimit", "\"day\";r=0;t=4000")];
    let quoted = [("RateLimit", "\"a,b;c\";r=0;t=10")];
    let dictionary = [("RateLimit", "limit=100, remaining=0, reset=30")];
    let draft_3 = [("RateLimit-Limit", "100, 100;w=60"), ("RateLimit-Remaining", "0"), ("RateLimit-Reset", "30")];
    let bytes = [
        ("RateLimit-Policy", "\"req\";q=100;w=60, \"bytes\";q=9000;qu=\"content-bytes\";w=60"),
        ("RateLimit", "\"req\";r=50;t=30, \"bytes\";r=0;t=20"),
    ];
    let malformed = [("RateLimit", "\"x\";r=;t=abc")];
    let alone = [("RateLimit-Policy", "\"burst\";q=100;w=60")];
    let stories: [Story<'_>; 8] = [
        ("one line", &one_line, 4_000),
        ("two lines", &lines, 4_000),
        ("quoted", &quoted, 10),
        ("dictionary", &dictionary, 30),
        ("draft 3", &draft_3, 30),
        ("bytes used up", &bytes, 20),
        ("malformed", &malformed, 0),
        ("policy alone", &alone, 0),
    ];
    for (name, headers, seconds) in stories {
        let client = Client::new(Preset::IETF, exact());
        assert_eq!(client.wait_after(URL, (200, headers, "")), seconds * SECOND, "{name}");
    }
}

#[test]
fn bytes_are_not_counted_down_by_requests() {
    let client = Client::new(Preset::IETF, exact());
    let headers =
        [("RateLimit-Policy", "\"bytes\";q=9000;qu=\"content-bytes\";w=60"), ("RateLimit", "\"bytes\";r=2;t=20")];
    for _ in 0..5 {
        assert_eq!(client.get(URL, &[(200, &headers, "")]), returned(&[], 1));
    }
}

#[test]
fn a_wait_that_is_too_long_is_refused_and_nothing_is_sent_early() {
    let options = || Options { max_delay_us: Some(60 * SECOND), ..exact() };
    for value in ["86400", "Wed, 15 Nov 2023 22:13:20 GMT"] {
        let call = Client::new(Preset::GENERIC, options()).get(URL, &[(429, &[("Retry-After", value)], "")]);
        let end = End::Failed { retry_after_us: 86_400 * SECOND, global: false, too_long: true };
        assert_eq!(call, Call { sleeps: vec![], sent: 1, end }, "{value}");
    }
    let client = Client::new(Preset::GENERIC, options());
    let headers = [("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "10800")];
    client.get(URL, &[(200, &headers, "")]);
    let end = End::Refused { delay_us: 10_800 * SECOND };
    assert_eq!(client.get(URL, &[(200, &[], "")]), Call { sleeps: vec![], sent: 0, end });

    let call = Client::new(Preset::GENERIC, options()).get(URL, &[(429, &[("Retry-After", "59")], ""), (200, &[], "")]);
    assert_eq!(call, returned(&[59 * SECOND], 2));
    // Without a longest wait it is the whole wait.
    let call =
        Client::new(Preset::GENERIC, exact()).get(URL, &[(429, &[("Retry-After", "999999")], ""), (200, &[], "")]);
    assert_eq!(call.sleeps[0], 999_999 * SECOND);
}

#[test]
fn a_wrong_clock_waits_as_long_as_a_right_one_where_the_server_tells_its_own() {
    let date = ("Date", "Tue, 14 Nov 2023 22:13:20 GMT");
    let reset = [("X-RateLimit-Limit", "9"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1700000030")];
    for offset in [0.0, 900.0, -900.0] {
        let client = Client::new(Preset::GENERIC, exact());
        client.clock.advance(offset);
        let headers = [&reset[..], &[date]].concat();
        assert_eq!(client.wait_after(URL, (200, &headers, "")), 30 * SECOND, "{offset}");
    }
    let client = Client::new(Preset::GENERIC, exact());
    client.clock.advance(900.0);
    assert_eq!(client.wait_after(URL, (200, &reset, "")), 0, "without a date the wait is never negative");
    let client = Client::new(Preset::GENERIC, exact());
    client.clock.advance(900.0);
    let call = client.get(URL, &[(429, &reset, ""), (200, &[], "")]);
    assert_eq!((call.sent, call.sleeps.len()), (2, 1));
    assert!(call.sleeps[0] >= SECOND, "and a refusal backs off: {call:?}");

    let client = Client::new(Preset::DISCORD, exact());
    client.clock.advance(900.0);
    let headers = [&reset[..], &[("X-RateLimit-Reset-After", "12.5")]].concat();
    assert_eq!(client.wait_after("https://discord.com/api/v10/users/1", (200, &headers, "")), 12_500_000);
}

#[test]
fn one_exhausted_resource_holds_back_nothing_else_and_nobody_else() {
    let client = Client::new(Preset::GITHUB, exact());
    let ada = |url| Request::new("GET", url).authorization(b"token ada");
    let bob = |url| Request::new("GET", url).authorization(b"token bob");
    let (search, user) = ("https://api.github.com/search/issues", "https://api.github.com/user");
    let used_up = [
        ("x-ratelimit-limit", "30"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1700000060"),
        ("x-ratelimit-resource", "search"),
    ];
    client.call(&ada(search), &[(200, &used_up, "")]);
    let core = github("4990", "1700001800");
    assert_eq!(client.call(&ada(user), &[(200, &core, "")]), returned(&[], 1));
    assert_eq!(client.wait_of(&ada(search)), 60 * SECOND);
    assert_eq!(client.wait_of(&bob(search)), 0);
}

#[test]
fn shopify_waits_for_one_leak_and_never_divides_by_nothing() {
    let url = "https://shop.test/admin/api/2024-01/products.json";
    let with = |calls: &'static str| [("X-Shopify-Shop-Api-Call-Limit", calls)];
    let refused = [with("1/40")[0], ("Retry-After", "2")];
    let call = Client::new(Preset::SHOPIFY, exact()).get(url, &[(429, &refused, ""), (200, &with("2/40"), "")]);
    assert_eq!(call, returned(&[2 * SECOND], 2));
    for (calls, wait_us) in
        [("40/40", 500_000), ("39/40", 0), ("abc", 0), ("40/0", 0), ("41/40", 500_000), ("80/80", 250_000)]
    {
        let client = Client::new(Preset::SHOPIFY, exact());
        assert_eq!(client.wait_after(url, (200, &with(calls), "")), wait_us, "{calls}");
    }
}

#[test]
fn discord_moves_buckets_counts_ids_apart_and_pauses_everything_but_interactions() {
    let options = || Options {
        global_limit: Some(GlobalLimit::discord().expect("a limit")),
        invalid_request_limit: Some(InvalidRequestLimit::discord().expect("a limit")),
        ..exact()
    };
    let client = Client::new(Preset::DISCORD, options());
    let url = |path: &str| format!("https://discord.com/api/v10{path}");
    let headers = |bucket: &'static str, remaining: &'static str| {
        [
            ("X-RateLimit-Limit", "5"),
            ("X-RateLimit-Remaining", remaining),
            ("X-RateLimit-Reset-After", "4"),
            ("X-RateLimit-Bucket", bucket),
        ]
    };
    // Two routes of one bucket share it; another channel has its own.
    client.get(&url("/channels/1/messages"), &[(200, &headers("aaa", "1"), "")]);
    client.get(&url("/channels/1/pins"), &[(200, &headers("aaa", "0"), "")]);
    assert_eq!(client.wait_after(&url("/channels/1/messages"), (200, &headers("aaa", "4"), "")), 0);
    client.get(&url("/channels/2/messages"), &[(200, &headers("aaa", "4"), "")]);

    let global = (429, &[("Retry-After", "65"), ("X-RateLimit-Global", "true")][..], r#"{"global": true}"#);
    let Ok(Before::Go(ticket)) = client.governor.before(&Request::new("GET", &url("/users/1"))) else { panic!("goes") };
    let response = Response { status: global.0, headers: global.1, body: global.2.as_bytes() };
    client.governor.after(ticket, &response).expect("an answer");
    assert_eq!(client.wait_of(&Request::new("GET", &url("/guilds/9"))), 65 * SECOND);
    assert_eq!(client.wait_of(&Request::new("POST", &url("/interactions/1/token/callback"))), 0);
    let budget = client.governor.invalid_request_budget(&Request::new("GET", &url("/users/1"))).expect("a budget");
    assert_eq!(budget.and_then(|budget| budget.remaining), Some(9_999));
}

#[test]
fn invalid_requests_are_stopped_before_the_api_shuts_the_door_and_shared_ones_do_not_count() {
    let limit = InvalidRequestLimit::new(3, 600.0, vec![401, 403, 429], vec!["shared".to_owned()]).expect("a limit");
    let options = Options { invalid_request_limit: Some(limit), max_retries: 0, throw_on_rate_limit: false, ..exact() };
    let client = Client::new(Preset::DISCORD, options);
    let shared: Answer<'_> = (429, &[("X-RateLimit-Scope", "shared"), ("Retry-After", "0")], "");
    for number in 0..5 {
        let url = format!("https://discord.com/api/v10/channels/{number}/messages");
        assert_eq!(client.get(&url, &[shared]).sent, 1);
    }
    let url = "https://discord.com/api/v10/users/1";
    for reached in [false, false, true] {
        let Ok(Before::Go(ticket)) = client.governor.before(&Request::new("GET", url)) else { panic!("goes") };
        let after = client.governor.after(ticket, &Response { status: 403, headers: &[], body: b"" }).expect("told");
        assert_eq!(after.invalid_limit_reached, reached);
    }
    let before = client.governor.before(&Request::new("GET", url)).expect("a decision");
    assert!(matches!(before, Before::Wait { reason: Reason::InvalidRequests, .. }), "{before:?}");
}

#[test]
fn what_one_request_asks_for_goes_before_the_options() {
    let client = Client::new(Preset::GENERIC, exact());
    let headers = [("X-RateLimit-Limit", "9"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "60")];
    client.get(URL, &[(200, &headers, "")]);
    let request = Request::new("GET", URL);
    assert_eq!(client.wait_of(&Request { enabled: false, ..request }), 0);
    assert_eq!(client.wait_of(&Request { bucket: Some("other"), ..request }), 0);
    assert_eq!(client.wait_of(&Request { identity: Some(b"other"), ..request }), 0);
    let before = client.governor.before(&Request { max_delay_us: Some(Some(SECOND)), ..request });
    assert!(matches!(before, Ok(Before::Refuse { delay_us: 60_000_000, reason: Reason::Quota })));
    let call = client.call(&Request { max_retries: Some(0), bucket: Some("third"), ..request }, &[(429, &[], "")]);
    assert_eq!(call.sent, 1);
    client.governor.forget(&request).expect("forgotten");
    assert_eq!(client.wait_of(&request), 0);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let refused = |options: Options| {
        let store = store::memory(10).expect("a store");
        Governor::new(Preset::GENERIC, options, store).expect_err("refused").argument()
    };
    assert_eq!(refused(Options { max_retries: 101, ..exact() }), Some("max_retries"));
    assert_eq!(refused(Options { jitter: 1.5, ..exact() }), Some("jitter"));
    assert_eq!(refused(Options { jitter: f64::NAN, ..exact() }), Some("jitter"));
    assert_eq!(refused(Options { max_delay_us: Some(0), ..exact() }), Some("max_delay"));
    assert_eq!(refused(Options { safety_buffer_us: u64::MAX, ..exact() }), Some("safety_buffer"));
    assert_eq!(refused(Options { retry_status_codes: vec![99], ..exact() }), Some("retry_status_codes"));
    assert_eq!(refused(Options { max_store_ttl_us: 0, ..exact() }), Some("max_store_ttl"));
}

#[test]
fn no_credential_and_no_url_is_in_anything_that_may_be_logged() {
    let store = store::memory(1_000).expect("a store");
    let options = Options { secret: Some(b"pepper".to_vec()), ..exact() };
    let client = Client::on(&store, Preset::DISCORD, options);
    let url = "https://discord.com/api/v10/webhooks/5/hunter2?token=hunter2";
    let request = Request::new("POST", url).authorization(b"Bot hunter2");
    let before = client.governor.before(&request).expect("a decision");
    let logged = format!("{:?} {before:?} {request:?}", client.governor);
    assert!(!logged.contains("hunter2") && !logged.contains("pepper"), "{logged}");
    let Before::Go(ticket) = before else { panic!("it goes") };
    assert_eq!(ticket.route(), "POST discord.com /api/:id/webhooks/:id/:id".replace("/api/:id", "/api/v10"));
}
