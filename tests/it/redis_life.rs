use std::time::{Duration, Instant};

use ratelimit_core::{Call, ErrorKind, Limiter, Policy, StoreErrorKind, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::eventually;

fn ten_per_minute(dsn: &str) -> Limiter {
    let policy = Policy::token_bucket(10, 10.0, 60.0).expect("a policy");
    Limiter::new(policy, store::open(dsn).expect("a store")).expect("a limiter")
}

fn remaining(limiter: &Limiter) -> u64 {
    limiter.allow("key", 1).expect("a decision").remaining()
}

#[test]
fn a_decision_is_one_command_on_one_connection_however_many_limiters_there_are() {
    let server = RedisServer::start();
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut server.connection()).expect("CONFIG RESETSTAT");
    for number in 0..50 {
        ten_per_minute(&server.dsn()).allow(format!("user:{number}"), 1).expect("a decision");
    }
    assert_eq!(server.calls("evalsha"), 50);
    assert_eq!(server.calls("eval"), 1, "the text was sent once, after NOSCRIPT");
    for never in ["script|load", "hello", "auth", "select", "ping"] {
        assert_eq!(server.calls(never), 0, "{never}");
    }
    let info: String = redis::cmd("INFO").arg("stats").query(&mut server.connection()).expect("INFO");
    let connections = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    // One of ours, one for each question of this test.
    let asked = 7;
    assert_eq!(connections.and_then(|count| count.trim().parse::<u64>().ok()), Some(1 + asked + 1));
}

#[test]
fn a_flushed_script_cache_is_filled_again_and_each_call_counted_once() {
    let server = RedisServer::start();
    let limiter = ten_per_minute(&server.dsn());
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [9, 8, 7]);
    let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut server.connection()).expect("SCRIPT FLUSH");
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [6, 5, 4]);
}

#[test]
fn a_flush_while_many_call_loses_and_repeats_nothing() {
    let server = RedisServer::start();
    let policy = Policy::token_bucket(100_000, 1.0, 3600.0).expect("a policy");
    let store = store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
            scope.spawn(move || (0..200).for_each(|_| drop(limiter.allow("key", 1).expect("a decision"))));
        }
        let mut connection = server.connection();
        for _ in 0..50 {
            let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).expect("SCRIPT FLUSH");
        }
    });
    let limiter = Limiter::new(policy, store).expect("a limiter");
    assert_eq!(limiter.peek("key", 1).expect("a decision").remaining(), 100_000 - 2_000);
}

#[test]
fn a_restart_between_two_calls_is_not_noticed() {
    let mut server = RedisServer::start();
    let limiter = ten_per_minute(&server.dsn());
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [9, 8, 7]);
    server.restart();
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [9, 8, 7]);
}

#[test]
fn a_killed_connection_is_replaced() {
    let server = RedisServer::start();
    let limiter = ten_per_minute(&server.dsn());
    assert_eq!(remaining(&limiter), 9);
    let () =
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query(&mut server.connection()).expect("CLIENT KILL");
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(remaining(&limiter), 8);
}

#[test]
fn a_stopped_server_is_refused_at_once_and_found_again() {
    let mut server = RedisServer::start();
    let limiter = ten_per_minute(&server.dsn());
    assert_eq!(remaining(&limiter), 9);
    server.stop();
    for _ in 0..3 {
        let started = Instant::now();
        let error = limiter.allow("key", 1).expect_err("no server");
        assert!(matches!(error.store_kind(), Some(StoreErrorKind::Refused | StoreErrorKind::Closed)), "{error}");
        assert!(started.elapsed() < Duration::from_millis(300));
    }
    server.restart();
    assert_eq!(remaining(&limiter), 9);
}

#[test]
fn a_server_that_hangs_costs_no_more_than_the_deadline() {
    let server = RedisServer::start();
    let limiter = ten_per_minute(&format!("{}?timeout=0.1&connect_timeout=0.1", server.dsn()));
    assert_eq!(remaining(&limiter), 9);
    server.signal("STOP");
    for _ in 0..3 {
        let started = Instant::now();
        let error = limiter.allow("key", 1).expect_err("no answer");
        assert_eq!(error.store_kind(), Some(StoreErrorKind::Timeout), "{error}");
        assert!(started.elapsed() < Duration::from_millis(300), "{:?}", started.elapsed());
    }
    server.signal("CONT");
    // Calls that timed out may have been carried out late: never more than were made.
    eventually("an answer", || limiter.peek("key", 1).is_ok());
    let left = limiter.peek("key", 1).expect("a decision").remaining();
    assert!((6..=9).contains(&left), "{left}");
}

#[test]
fn passwords_users_databases_and_sockets_are_honoured() {
    let server = RedisServer::start_with(&["--requirepass", "p@ss:word"]);
    let path = server.socket().display().to_string();
    for dsn in [
        format!("redis://:p%40ss%3Aword@127.0.0.1:{}", server.port()),
        format!("redis://default:p%40ss%3Aword@127.0.0.1:{}/3", server.port()),
        format!("redis+unix://{path}?password=p%40ss%3Aword&db=4"),
    ] {
        assert_eq!(remaining(&ten_per_minute(&dsn)), 9, "{dsn}");
    }
    for dsn in [server.dsn(), format!("redis://:wrong-secret@127.0.0.1:{}", server.port())] {
        let error = ten_per_minute(&dsn).allow("key", 1).expect_err("no password");
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable(StoreErrorKind::Noperm), "{error}");
        assert!(!error.to_string().contains("wrong-secret"), "{error}");
    }
}

#[test]
fn a_replica_a_full_server_and_missing_rights_are_told_apart() {
    let server = RedisServer::start();
    let limiter = ten_per_minute(&server.dsn());
    assert_eq!(remaining(&limiter), 9);
    let admin = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(&mut server.connection()).expect(words[0]);
    let kind = |key: &str| limiter.allow(key, 1).expect_err("no answer").store_kind();

    admin(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(kind("key"), Some(StoreErrorKind::Readonly));
    admin(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(remaining(&limiter), 8);

    admin(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(kind("new"), Some(StoreErrorKind::Oom));
    admin(&["CONFIG", "SET", "maxmemory", "0"]);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*new*").query(&mut server.connection()).expect("KEYS");
    assert!(keys.is_empty(), "nothing half-written");

    admin(&[
        "ACL",
        "SETUSER",
        "limited",
        "on",
        ">pw",
        "~rl:*",
        "-@all",
        "+evalsha",
        "+eval",
        "+get",
        "+set",
        "+del",
        "+time",
        "+setrange",
    ]);
    let allowed = ten_per_minute(&format!("redis://limited:pw@127.0.0.1:{}", server.port()));
    assert_eq!(allowed.allow("acl", 1).expect("these rights are enough").remaining(), 9);
    allowed.reset("acl").expect("these rights are enough");
    let log = Policy::sliding_window_log(2, 3600.0).expect("a policy");
    let log =
        Limiter::new(log, store::open(&format!("redis://limited:pw@127.0.0.1:{}", server.port())).expect("a store"));
    let log = log.expect("a limiter");
    assert_eq!(log.allow("acl", 1).expect_err("a log needs more").store_kind(), Some(StoreErrorKind::Noperm));
    admin(&["ACL", "SETUSER", "limited", "+lindex", "+lset", "+lpop", "+rpop", "+rpush", "+llen", "+pexpire"]);
    for cost in [2, 1] {
        log.allow("acl", cost).expect("these rights are enough");
    }
    log.refund("acl", 1).expect("these rights are enough");
    for missing in ["-evalsha", "-get", "-set", "-time", "resetkeys"] {
        admin(&["ACL", "SETUSER", "limited", missing]);
        let error = allowed.allow("acl", 1).expect_err(missing);
        assert_eq!(error.store_kind(), Some(StoreErrorKind::Noperm), "{missing}: {error}");
        // What a script lacks newer servers do not name.
        let named = ["-evalsha", "-eval"].contains(&missing);
        assert!(!named || error.to_string().contains("evalsha"), "{error}");
        assert!(missing != "resetkeys" || error.to_string().contains("key"), "{error}");
        admin(&["ACL", "SETUSER", "limited", "~rl:*", "+evalsha", "+get", "+set", "+time"]);
    }
}

#[test]
fn a_full_server_is_unavailable_and_what_it_could_not_write_counts_nowhere() {
    let server = RedisServer::start();
    let admin = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(&mut server.connection()).expect(words[0]);
    let store = store::open(&format!("{}?timeout=5&connect_timeout=5&deny_cache=0", server.dsn())).expect("a store");
    let ten = [
        Policy::token_bucket(10, 1.0, 3600.0),
        Policy::fixed_window(10, 3600.0),
        Policy::sliding_window_counter(10, 3600.0),
        Policy::sliding_window_log(10, 3600.0),
    ];
    let each = ten.map(|policy| policy.expect("a policy"));
    let all = each.to_vec();
    for policies in each.map(|policy| vec![policy]).into_iter().chain([all]) {
        let limiter = Limiter::new(policies.clone(), store.clone()).expect("a limiter");
        assert!(limiter.allow("old", 3).expect("a decision").allowed());
        admin(&["CONFIG", "SET", "maxmemory", "1"]);
        for key in ["old", "new"] {
            let calls = [Call::allow(key, 1), Call::allow(key, 1).token(b"token")];
            for call in calls {
                let error = limiter.decide(call).expect_err("no room");
                assert_eq!(error.store_kind(), Some(StoreErrorKind::Oom), "{policies:?}, {key}: {error}");
            }
        }
        admin(&["CONFIG", "SET", "maxmemory", "0"]);
        for (key, left) in [("old", 7), ("new", 10)] {
            let decision = limiter.peek(key, 1).expect("a decision");
            assert!(decision.each().iter().all(|it| it.remaining() == left), "{key}: {decision:?}");
        }
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).expect("KEYS");
        assert_eq!(keys.len(), policies.len(), "{keys:?}");
        for key in keys {
            let left_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut server.connection()).expect("PTTL");
            assert!(left_ms > 0, "{key} has no expiry");
        }
        limiter.reset("old").expect("a reset");
    }
}

#[test]
fn a_service_that_refuses_to_tell_the_time_is_told_it() {
    let server = RedisServer::start();
    let rights = [
        "SETUSER",
        "timeless",
        "on",
        ">pw",
        "~rl:*",
        "-@all",
        "+evalsha",
        "+eval",
        "+get",
        "+set",
        "+del",
        "+setrange",
    ];
    redis::cmd("ACL").arg(&rights).exec(&mut server.connection()).expect("ACL SETUSER");
    let dsn = format!("redis://timeless:pw@127.0.0.1:{}", server.port());
    let error = ten_per_minute(&dsn).allow("key", 1).expect_err("no right to ask for the time");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Noperm), "{error}");
    let limiter = ten_per_minute(&format!("{dsn}?clock=caller"));
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [9, 8, 7]);
    let outcomes = limiter.allow_many(&[("key", 1), ("key", 1)]).expect("valid calls");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn the_newer_protocol_and_a_name_for_the_connection_change_no_decision() {
    let server = RedisServer::start_with(&["--requirepass", "secret"]);
    let limiter =
        ten_per_minute(&format!("redis://:secret@127.0.0.1:{}/2?protocol=resp3&client_name=checkout", server.port()));
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [9, 8, 7]);
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.connection()).expect("CLIENT LIST");
    let ours = clients.lines().find(|line| line.contains("name=checkout")).expect("the connection has its name");
    assert!(ours.contains("resp=3") || !clients.contains("resp="), "{ours}");
}

#[test]
fn a_name_is_looked_up_and_one_that_nobody_has_is_an_error_in_time() {
    let server = RedisServer::start();
    assert_eq!(remaining(&ten_per_minute(&format!("redis://localhost:{}", server.port()))), 9);
    let started = Instant::now();
    let error =
        ten_per_minute("redis://nobody.invalid?connect_timeout=1&timeout=1").allow("key", 1).expect_err("nobody");
    assert!(matches!(error.store_kind(), Some(StoreErrorKind::Refused | StoreErrorKind::Timeout)), "{error}");
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
}
