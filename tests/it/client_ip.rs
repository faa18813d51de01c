use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use ratelimit_core::http::{ClientIp, ForwardedHeader, MissingIdentity};
use ratelimit_core::{Limiter, Policy, store};

const PROXY: &str = "10.0.0.1";

fn behind(trusted: &[&str]) -> ClientIp {
    ClientIp::new(trusted).expect("networks")
}

fn key(resolver: &ClientIp, peer: &str, forwarded: &[&str], x_forwarded_for: &[&str]) -> Option<String> {
    resolver.resolve(peer, forwarded, x_forwarded_for).map(|client| client.key())
}

/// What the trusted proxy at 10.0.0.1 says in `X-Forwarded-For`.
fn x_forwarded_for(lines: &[&str]) -> String {
    key(&behind(&["10.0.0.0/8", "2001:db8:ffff::/48"]), PROXY, &[], lines).expect("an address")
}

/// What it says in `Forwarded`.
fn forwarded(lines: &[&str]) -> String {
    key(&behind(&["10.0.0.0/8", "2001:db8:ffff::/48"]), PROXY, lines, &[]).expect("an address")
}

#[test]
fn the_nearest_address_that_is_no_proxys_is_the_callers() {
    for (lines, expected) in [
        (&["203.0.113.9"][..], "203.0.113.9"),
        (&["6.6.6.6, 203.0.113.9"], "203.0.113.9"),
        (&["6.6.6.6,203.0.113.9,10.0.0.2"], "203.0.113.9"),
        (&["6.6.6.6", "203.0.113.9", "10.0.0.3, 10.0.0.2"], "203.0.113.9"),
        (&["6.6.6.6, 203.0.113.9, 2001:db8:ffff::7"], "203.0.113.9"),
        // All of them proxies: the first is where the request began.
        (&["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (&[], PROXY),
        (&[""], PROXY),
    ] {
        assert_eq!(x_forwarded_for(lines), expected, "{lines:?}");
        let element = |it: &str| {
            it.split(',')
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .map(|it| format!("for=\"{it}\""))
                .collect::<Vec<_>>()
        };
        let lines: Vec<String> = lines.iter().map(|line| element(line).join(", ")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(forwarded(&lines), expected, "{lines:?}");
    }
}

#[test]
fn every_form_of_an_address_is_read() {
    for (text, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("  203.0.113.9\t", "203.0.113.9"),
        ("203.0.113.9:80", "203.0.113.9"),
        ("203.0.113.9:65535", "203.0.113.9"),
        ("203.0.113.9:_hidden", "203.0.113.9"),
        ("\"203.0.113.9\"", "203.0.113.9"),
        ("\"203.0.113.9:443\"", "203.0.113.9"),
        ("\"203.0.113\\.9\"", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::6", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::6]", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::6]:4711", "2001:db8:1:2::/64"),
        ("\"[2001:db8:1:2::6]:4711\"", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::6]:_obfuscated", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("[fe80::1%25eth0]:80", "fe80::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("[::ffff:cb00:7109]:1", "203.0.113.9"),
    ] {
        assert_eq!(x_forwarded_for(&[&format!("6.6.6.6, {text}")]), expected, "{text}");
        for form in
            [format!("for={text}"), format!("FOR={text}"), format!("proto=https;For={text};by=_me;host=\"a,b;c\"")]
        {
            assert_eq!(forwarded(&[&format!("for=6.6.6.6, {form}")]), expected, "{form}");
        }
    }
}

#[test]
fn what_is_no_address_ends_the_walk_at_the_last_proxy_known() {
    for text in [
        "",
        " ",
        "unknown",
        "_hidden",
        "not-an-ip",
        "203.0.113.9 6.6.6.6",
        "203.0.113",
        "203.0.113.256",
        "203.0.113.09",
        "3405803785",
        "0x7f.1",
        "203.0.113.9:",
        "203.0.113.9:65536",
        "203.0.113.9:+80",
        "203.0.113.9:8 0",
        "203.0.113.9:_",
        "203.0.113.9/32",
        "[203.0.113.9]",
        "[2001:db8::1",
        "2001:db8::1]",
        "[2001:db8::1]80",
        "[2001:db8::1]:",
        "[]",
        "2001:db8::1::2",
        "fe80::1%",
        "fe80::1%e th",
        ":80",
        "[::1]x",
        "\"203.0.113.9",
        "203.0.113.9\"",
        "\"\"",
        "\"203.0.113.9\"x",
        "\"203.0.113.9\\\"",
        "2001:db8::g",
        "1.2.3.4%eth0",
        "\u{0}",
        "ünknown",
        "localhost",
    ] {
        assert_eq!(x_forwarded_for(&[&format!("6.6.6.6, {text}")]), PROXY, "{text:?}");
        assert_eq!(x_forwarded_for(&[&format!("6.6.6.6, {text}, 10.0.0.2")]), "10.0.0.2", "{text:?}");
        assert_eq!(forwarded(&[&format!("for=6.6.6.6, for={text}")]), PROXY, "{text:?}");
        assert_eq!(forwarded(&[&format!("for=6.6.6.6, for={text}, for=10.0.0.2")]), "10.0.0.2", "{text:?}");
    }
    for element in [
        "",
        "proto=https",
        "for",
        "for=203.0.113.9;for=6.6.6.6",
        "203.0.113.9",
        "fork=203.0.113.9",
        "for =203.0.113.9",
        "for=203.0.113.9;proto",
        "for=203.0.113.9;host=\"x",
        "for=\"203.0.113.9;proto=https\"",
    ] {
        assert_eq!(forwarded(&[&format!("for=6.6.6.6, {element}")]), PROXY, "{element:?}");
    }
    assert_eq!(x_forwarded_for(&["6.6.6.6, 203.0.113.9", ""]), PROXY);
}

#[test]
fn bytes_that_are_no_text_are_no_address() {
    let resolver = behind(&[PROXY]);
    let client = resolver.resolve(PROXY, &[], &[&b"6.6.6.6, \xff\xfe"[..]]).expect("an address");
    assert_eq!(client.key(), PROXY);
}

#[test]
fn a_callers_open_quotes_do_not_swallow_what_the_proxy_wrote() {
    for evil in
        ["for=\"", "for=6.6.6.6;x=\"", "for=\"6.6.6.6\\", "\"", "\\", "x=\"\\\"", ";;;,,,\"", "for=6.6.6.6;by=\"a, b"]
    {
        for ours in [
            "for=203.0.113.9",
            "for=\"203.0.113.9:1\"",
            "for=203.0.113.9;by=\"_a,b\"",
            "host=\"a\\\"b\";for=203.0.113.9",
        ] {
            assert_eq!(forwarded(&[&format!("{evil}, {ours}")]), "203.0.113.9", "{evil}, {ours}");
            assert_eq!(forwarded(&[evil, ours]), "203.0.113.9", "{evil}, {ours}");
        }
        assert_eq!(x_forwarded_for(&[&format!("{evil}, 203.0.113.9")]), "203.0.113.9", "{evil}");
    }
}

#[test]
fn two_headers_that_disagree_are_both_doubted() {
    let resolver = behind(&[PROXY]);
    let ask = |resolver: &ClientIp| key(resolver, PROXY, &["for=6.6.6.6"], &["203.0.113.9"]);
    assert_eq!(ask(&resolver).as_deref(), Some(PROXY));
    assert_eq!(key(&resolver, PROXY, &["for=203.0.113.9"], &["7.7.7.7, 203.0.113.9"]).as_deref(), Some("203.0.113.9"));
    let by_x_forwarded_for = resolver.clone().header(ForwardedHeader::XForwardedFor);
    assert_eq!(ask(&by_x_forwarded_for).as_deref(), Some("203.0.113.9"));
    assert_eq!(ask(&resolver.header("forwarded".parse().expect("a header"))).as_deref(), Some("6.6.6.6"));
    // The header that is not ours is not looked at even alone.
    assert_eq!(key(&by_x_forwarded_for, PROXY, &["for=6.6.6.6"], &[]).as_deref(), Some(PROXY));
}

#[test]
fn a_peer_without_an_address_is_nobody_unless_its_socket_is_trusted() {
    for peer in ["", "unix:", "unknown", "@", "localhost"] {
        assert_eq!(key(&behind(&["0.0.0.0/0", "::/0"]), peer, &[], &["6.6.6.6"]), None, "{peer}");
        assert_eq!(
            key(&behind(&["unix"]), peer, &[], &["6.6.6.6, 203.0.113.9"]).as_deref(),
            Some("203.0.113.9"),
            "{peer}"
        );
        assert_eq!(key(&behind(&["unix"]), peer, &[], &["unknown"]), None, "{peer}");
    }
}

#[test]
fn networks_are_compared_as_what_they_are() {
    for (trusted, peer) in [
        ("10.0.0.0/8", "::ffff:10.9.9.9"),
        ("::ffff:10.0.0.0/104", "10.9.9.9"),
        ("::ffff:10.9.9.9", "10.9.9.9:1234"),
        ("10.9.9.9", "10.9.9.9"),
        ("2001:db8::/32", "[2001:db8::1]:443"),
        ("2001:db8::1", "2001:db8::1%eth0"),
        ("::/0", "2001:db8::1"),
    ] {
        assert_eq!(key(&behind(&[trusted]), peer, &[], &["203.0.113.9"]).as_deref(), Some("203.0.113.9"), "{trusted}");
    }
    for (trusted, peer) in [("0.0.0.0/0", "2001:db8::1"), ("10.0.0.0/9", "10.128.0.0"), ("::/0", "10.0.0.1")] {
        assert_ne!(key(&behind(&[trusted]), peer, &[], &["203.0.113.9"]).as_deref(), Some("203.0.113.9"), "{trusted}");
    }
    for wrong in ["", "10.0.0.0/33", "10.0.0", "proxy.example", "::/129", "10.0.0.0/8 ", "-"] {
        let error = ClientIp::new([wrong]).expect_err(wrong).to_string();
        let expected =
            format!("trusted_proxies must be addresses, networks such as 10.0.0.0/8, or unix, got {wrong:?}");
        assert_eq!(error, expected);
    }
}

#[test]
fn ipv6_callers_are_grouped_by_their_network() {
    let resolver = |bits| behind(&[]).ipv6_prefix(bits);
    for (bits, expected) in
        [(128, "2001:db8:1:2:3:4:5:6"), (64, "2001:db8:1:2::/64"), (56, "2001:db8:1::/56"), (1, "::/1")]
    {
        let resolver = resolver(bits).expect("a prefix");
        assert_eq!(key(&resolver, "2001:db8:1:2:3:4:5:6", &[], &[]).as_deref(), Some(expected));
        assert_eq!(key(&resolver, "::ffff:192.0.2.1", &[], &[]).as_deref(), Some("192.0.2.1"));
    }
    for bits in [0, -1, 129, 256 + 64] {
        let error = resolver(bits).expect_err("no prefix").to_string();
        assert_eq!(error, format!("ipv6_prefix must be between 1 and 128, got {bits}"));
    }
}

#[test]
fn a_new_forwarded_address_per_request_gives_no_new_budget() {
    let limiter =
        || Limiter::new(Policy::parse("5/m").expect("a policy"), store::memory(999).expect("it")).expect("it");
    let peer = "198.51.100.7";
    for (trusted, tail) in [
        (&[][..], ", 203.0.113.9"),
        (&[peer], ", 203.0.113.9"),
        (&[peer], ", not-an-ip"),
        (&[peer, "10.0.0.2"], ", 203.0.113.9, 10.0.0.2"),
    ] {
        let (resolver, x_limiter, limiter) = (behind(trusted), limiter(), limiter());
        let (mut x_passed, mut passed) = (0, 0);
        for number in 0..50 {
            let line = format!("192.0.2.{number}{tail}");
            let client = key(&resolver, peer, &[], &[&line]).expect("an address");
            x_passed += i32::from(x_limiter.allow(client, 1).expect("a decision").allowed());
            let elements: Vec<_> = line.split(", ").map(|it| format!("for={it}")).collect();
            let client = key(&resolver, peer, &[&elements.join(", ")], &[]).expect("an address");
            passed += i32::from(limiter.allow(client, 1).expect("a decision").allowed());
        }
        assert_eq!((x_passed, passed), (5, 5), "{trusted:?}{tail}");
    }
}

#[test]
fn the_rule_for_a_missing_identity_is_chosen_by_name() {
    for (name, rule) in MissingIdentity::ALL {
        assert_eq!(name.parse(), Ok(rule));
    }
    let error = "ignore".parse::<MissingIdentity>().expect_err("no rule").to_string();
    assert_eq!(error, "on_missing_key must be reject, skip or shared, got \"ignore\"");
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from(bits))),
        any::<u128>().prop_map(|bits| IpAddr::from(Ipv6Addr::from(bits))),
    ]
}

fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "(for=|\"|\\[|[0-9.:]{1,15}|[,;=\\]\\\\ ]|by=){0,20}".prop_map(String::into_bytes),
        prop::collection::vec(addresses(), 0..4).prop_map(|all| all
            .iter()
            .map(|it| format!("for=\"{it}\""))
            .collect::<Vec<_>>()
            .join(",")
            .into_bytes()),
        prop::collection::vec(addresses(), 0..4).prop_map(|all| all
            .iter()
            .map(IpAddr::to_string)
            .collect::<Vec<_>>()
            .join(", ")
            .into_bytes()),
    ];
    prop::collection::vec(line, 0..4)
}

proptest! {
    /// A peer that is not trusted is the caller, whatever it says.
    #[test]
    fn an_untrusted_peer_is_never_believed(peer in addresses(), forwarded in lines(), x_forwarded_for in lines()) {
        prop_assume!(!matches!(peer.to_canonical(), IpAddr::V4(peer) if peer.octets()[0] == 10));
        let client = behind(&["10.0.0.0/8", "unix"]).resolve(peer.to_string(), &forwarded, &x_forwarded_for);
        prop_assert_eq!(client.map(|client| client.address()), Some(peer.to_canonical()));
    }

    /// A proxy that is trusted says who it had before it; what that one said of others does not matter.
    #[test]
    fn what_stands_left_of_the_proxys_own_words_never_matters(caller in addresses(), forwarded in lines(), junk in lines()) {
        prop_assume!(!matches!(caller.to_canonical(), IpAddr::V4(caller) if caller.octets()[0] == 10));
        let resolver = behind(&["10.0.0.0/8"]);
        let said = format!("for=\"{}\"", if caller.is_ipv6() { format!("[{caller}]") } else { caller.to_string() });
        let mut joined = forwarded.join(&b", "[..]);
        joined.extend_from_slice(format!(", {said}").as_bytes());
        let separate: Vec<Vec<u8>> = forwarded.into_iter().chain([said.into_bytes()]).collect();
        for lines in [separate, vec![joined]] {
            let client = resolver.resolve(PROXY, &lines, &[]).expect("an address");
            prop_assert_eq!(client.address(), caller.to_canonical());
        }
        let lines: Vec<Vec<u8>> = junk.into_iter().chain([caller.to_string().into_bytes()]).collect();
        let client = resolver.resolve(PROXY, &[], &lines).expect("an address");
        prop_assert_eq!(client.address(), caller.to_canonical());
    }
}
