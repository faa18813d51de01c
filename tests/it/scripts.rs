use std::collections::BTreeSet;
use std::process::Command;

use ratelimit_core::{Call, Limiter, Policy, lua, store};
use ratelimit_tests::RedisServer;

/// Lines of code: without comments.
fn code(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("--[[") {
        plain += before;
        rest = after.split_once("]]").expect("a comment ends").1;
    }
    plain += rest;
    let line = |line: &str| line.split_once("--").map_or(line, |(code, _)| code).to_owned();
    plain.lines().map(line).collect()
}

#[test]
fn numbers_never_become_text_and_the_text_is_plain_lua() {
    let banned =
        ["tostring", "..", "string.format", "os.", "#!", "goto ", "//", " & ", " | ", "~ ", "setfenv", "loadstring"];
    for script in lua::scripts() {
        for line in code(script.text()) {
            for banned in banned {
                assert!(!line.contains(banned), "{banned} in {}: {line}", script.name());
            }
        }
    }
}

/// The text compiles in Lua 5.1, which Redis has, and in 5.4, which others have.
#[test]
fn the_text_compiles_in_every_lua() {
    for script in lua::scripts() {
        for compiler in ["luac5.1", "luac5.4"] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), script.text()).expect("a written file");
            let run = Command::new(compiler).arg("-p").arg(file.path()).output();
            let run = run.unwrap_or_else(|error| panic!("{compiler} is installed: {error}"));
            assert!(run.status.success(), "{compiler} {}: {}", script.name(), String::from_utf8_lossy(&run.stderr));
        }
    }
}

#[test]
fn a_script_says_what_it_takes_returns_and_writes() {
    for script in lua::scripts() {
        for word in ["KEYS[1", "ARGV[1", "returns", "writes"] {
            assert!(script.text().contains(word), "{word} in {}", script.name());
        }
    }
}

#[test]
fn the_hash_is_the_servers_and_each_machine_has_one_text() {
    let server = RedisServer::start();
    let mut hashes = BTreeSet::new();
    for script in lua::scripts() {
        let loaded: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).query(&mut server.connection()).expect("it compiles");
        assert_eq!(loaded, script.sha(), "{}", script.name());
        hashes.insert(loaded);
    }
    assert_eq!(hashes.len(), 9);
}

/// A user who may touch the declared keys and no others: whatever a script touched beside them would be refused.
#[test]
fn every_key_a_script_touches_is_declared() {
    let server = RedisServer::start();
    let policies = [
        ("tb", Policy::token_bucket(5, 1.0, 1.0)),
        ("lb", Policy::leaky_bucket(5, 1.0)),
        ("gcra", Policy::gcra(5, 1.0, None)),
        ("fw", Policy::fixed_window(5, 1.0)),
        ("swl", Policy::sliding_window_log(5, 1.0)),
        ("swc", Policy::sliding_window_counter(5, 1.0)),
    ];
    let policies = policies.map(|(tag, policy)| (tag, policy.expect(tag)));
    let several: Vec<_> = policies.iter().map(|(_, policy)| policy.clone()).collect();
    let alone = policies.iter().map(|(tag, policy)| (vec![*tag], vec![policy.clone()]));
    for (number, (tags, policies)) in
        alone.chain([(policies.each_ref().map(|(tag, _)| *tag).to_vec(), several)]).enumerate()
    {
        let mut acl = redis::cmd("ACL");
        acl.arg("SETUSER").arg(format!("user-{number}")).arg(&["on", ">pw", "+@all"]);
        for tag in &tags {
            acl.arg(format!("~rl:{tag}:default:{{key}}"));
        }
        for answer in ["tk", "tr"] {
            acl.arg(format!("~rl:{answer}:{}:default:{{key}}:token", tags[0]));
        }
        acl.exec(&mut server.connection()).expect("ACL SETUSER");
        let dsn = format!("redis://user-{number}:pw@127.0.0.1:{}", server.port());
        let limiter = Limiter::new(policies, store::open(&dsn).expect("a store")).expect("a limiter");
        for call in [Call::peek("key", 1), Call::allow("key", 2), Call::allow("key", 9), Call::refund("key", 1)] {
            limiter.decide(call).unwrap_or_else(|error| panic!("{tags:?}: {error}"));
            limiter.decide(call.token(b"token")).unwrap_or_else(|error| panic!("{tags:?}: {error}"));
        }
        limiter.reset("key").expect("a reset");
        assert!(limiter.allow("other", 1).is_err(), "another key is refused: the rights are what is tested");
    }
}
