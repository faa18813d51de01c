use ratelimit_core::lua;
use ratelimit_tests::RedisServer;

/// Lines of code: without comments and without what is quoted.
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
fn keys_come_from_keys_alone_and_numbers_never_become_text() {
    for script in lua::scripts() {
        for line in code(script.text()) {
            let place = format!("{}: {line}", script.name());
            if let Some((_, call)) = line.split_once("redis.call(") {
                let arguments: Vec<_> = call.split(',').map(str::trim).collect();
                let keyless = arguments[0].starts_with("'TIME'");
                assert!(keyless || arguments[1].starts_with("KEYS["), "{place}");
            }
            for banned in
                ["tostring", "..", "string.format", "os.", "KEYS[1] =", "#!", "goto ", "//", "unpack(", "~=nil"]
            {
                let allowed = banned == "unpack(" && line.contains("struct.unpack(");
                assert!(allowed || !line.contains(banned), "{banned} in {place}");
            }
        }
    }
}

#[test]
fn a_script_says_what_it_takes_returns_and_writes() {
    for script in lua::scripts() {
        for word in ["KEYS[1]", "ARGV[1]", "returns", "writes"] {
            assert!(script.text().contains(word), "{word} in {}", script.name());
        }
    }
}

#[test]
fn the_hash_is_the_servers() {
    let server = RedisServer::start();
    for script in lua::scripts() {
        let loaded: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).query(&mut server.connection()).expect("it compiles");
        assert_eq!(loaded, script.sha(), "{}", script.name());
    }
}
