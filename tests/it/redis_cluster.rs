use std::collections::HashSet;
use std::time::{Duration, Instant};

use ratelimit_core::{Call, ErrorKind, Keys, Limiter, Policy, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::cluster::Cluster;
use ratelimit_tests::server::eventually;

const TIMEOUTS: &str = "?timeout=2&connect_timeout=2";

fn limiter(dsn: &str, capacity: i64) -> Limiter {
    let policy = Policy::token_bucket(capacity, 1.0, 3600.0).expect("a policy");
    Limiter::new(policy, store::open(dsn).expect("a store")).expect("a limiter")
}

fn remaining(limiter: &Limiter, key: &str) -> u64 {
    limiter.allow(key, 1).expect("a decision").remaining()
}

/// The stored key of a user's key.
fn stored(key: &str) -> String {
    format!("rl:tb:default:{{{key}}}")
}

/// A key that a primary has at the beginning.
fn key_on(cluster: &Cluster, node: usize) -> String {
    (0..10_000)
        .map(|number| format!("user:{number}"))
        .find(|key| cluster.owner(cluster.slot(&stored(key))) == node)
        .expect("a key")
}

#[test]
fn keys_of_all_nodes_are_counted_each_once_and_scripts_are_told_to_each_node() {
    let mut cluster = Cluster::start(3);
    let limiter = limiter(&cluster.dsn(TIMEOUTS), 10);
    for round in 0..3 {
        for user in 0..60 {
            assert_eq!(remaining(&limiter, &format!("user:{user}")), 9 - round);
        }
    }
    assert_eq!(cluster.calls("eval"), 3, "each node was told the text once");
    // Servers before 7.0 count all of CLUSTER together.
    if cluster.calls("cluster|info") > 0 {
        assert_eq!(cluster.calls("cluster|slots"), 1, "the map was asked for once");
    }
    assert_eq!(limiter.store().kind().as_str(), "cluster");

    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut cluster.nodes()[1].connection()).expect("SCRIPT FLUSH");
    (0..60).for_each(|user| assert_eq!(remaining(&limiter, &format!("user:{user}")), 6));
    limiter.store().ping().expect("a round trip");
    limiter.reset("user:7").expect("a reset");
    assert_eq!(remaining(&limiter, "user:7"), 9);
}

#[test]
fn all_keys_of_a_call_are_on_one_node_whatever_the_users_key_and_users_are_spread() {
    let cluster = Cluster::start(3);
    let policies = vec![
        Policy::sliding_window_counter(5, 60.0).expect("a policy"),
        Policy::sliding_window_log(5, 60.0).expect("a policy"),
        Policy::gcra(5, 60.0, None).expect("a policy"),
    ];
    let limiter = Limiter::new(policies, store::open(&cluster.dsn(TIMEOUTS)).expect("a store")).expect("a limiter");
    for key in ["u1", "", "}x", "a}b", "{", "{}", "{a}{b}"] {
        for left in [4, 3] {
            let decision = limiter.decide(Call::allow(key, 1).token(b"a token").token(&[left]));
            assert_eq!(decision.expect(key).remaining(), u64::from(left), "{key:?}");
        }
    }
    let slots: HashSet<u16> = (0..1000).map(|user| cluster.slot(&stored(&format!("user:{user}")))).collect();
    assert!(slots.len() > 900, "{} slots for 1000 users", slots.len());
}

#[test]
fn keys_of_several_slots_in_one_call_are_refused_before_anything_is_sent() {
    let cluster = Cluster::start(3);
    let policies = vec![
        Policy::token_bucket(5, 1.0, 60.0).and_then(|policy| policy.named("a")).expect("a policy"),
        Policy::token_bucket(5, 1.0, 60.0).and_then(|policy| policy.named("b")).expect("a policy"),
    ];
    let limiter = Limiter::new(policies, store::open(&cluster.dsn(TIMEOUTS)).expect("a store")).expect("a limiter");
    let apart: [(&str, &[u8]); 2] = [("a", b"u1"), ("b", b"u2")];
    let error = limiter.decide(Call::allow(Keys::Each(&apart), 1)).expect_err("two slots");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let good: [(&str, &[u8]); 2] = [("a", b"u3"), ("b", b"u3")];
    let both = [Call::allow(Keys::Each(&good), 1), Call::allow(Keys::Each(&apart), 1)];
    let outcomes = limiter.decide_many(&both).expect("outcomes");
    let kinds = outcomes.into_iter().map(|outcome| outcome.expect_err("refused with the other").kind());
    assert_eq!(kinds.collect::<Vec<_>>(), [ErrorKind::InvalidArgument; 2]);
    assert_eq!(cluster.calls("evalsha"), 0);
    let together: [(&str, &[u8]); 2] = [("a", b"u1"), ("b", b"u1")];
    assert_eq!(limiter.decide(Call::allow(Keys::Each(&together), 1)).expect("a decision").remaining(), 4);
}

#[test]
fn a_slot_that_moves_is_followed_and_each_call_counted_once() {
    let mut cluster = Cluster::start(3);
    let limiter = limiter(&cluster.dsn(TIMEOUTS), 100);
    let key = key_on(&cluster, 0);
    let slot = cluster.slot(&stored(&key));
    assert_eq!(remaining(&limiter, &key), 99);

    cluster.begin_move(slot, 0, 1);
    assert_eq!(remaining(&limiter, &key), 98, "the key is still where it was");
    cluster.move_key(&stored(&key), 0, 1);
    assert_eq!(remaining(&limiter, &key), 97, "ASK");
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut cluster.nodes()[1].connection()).expect("SCRIPT FLUSH");
    assert_eq!(remaining(&limiter, &key), 96, "ASK, and then NOSCRIPT");
    cluster.end_move(slot, 1);
    assert_eq!(remaining(&limiter, &key), 95, "MOVED");
    let before = cluster.nodes()[0].calls("evalsha");
    assert_eq!(remaining(&limiter, &key), 94);
    assert_eq!(cluster.nodes()[0].calls("evalsha"), before, "MOVED was remembered");
}

#[test]
fn keys_of_a_slot_on_the_move_are_together_again_before_the_deadline_or_the_call_says_so() {
    let cluster = Cluster::start(2);
    let policies =
        vec![Policy::token_bucket(5, 1.0, 3600.0).expect("a policy"), Policy::gcra(5, 3600.0, None).expect("a policy")];
    let store = store::open(&cluster.dsn("?timeout=0.3&connect_timeout=0.3")).expect("a store");
    let limiter = Limiter::new(policies, store).expect("a limiter");
    let key = key_on(&cluster, 0);
    let slot = cluster.slot(&stored(&key));
    assert_eq!(limiter.allow(&key, 1).expect("a decision").remaining(), 4);
    cluster.begin_move(slot, 0, 1);
    cluster.move_key(&stored(&key), 0, 1);
    let started = Instant::now();
    let error = limiter.allow(&key, 1).expect_err("half of the keys are elsewhere");
    assert_eq!(error.store_kind().map(ratelimit_core::StoreErrorKind::as_str), Some("loading"), "{error}");
    assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    std::thread::scope(|scope| {
        let call = scope.spawn(|| limiter.allow(&key, 1).expect("the rest has come in time").remaining());
        cluster.move_key(&format!("rl:gcra:default:{{{key}}}"), 0, 1);
        cluster.end_move(slot, 1);
        assert_eq!(call.join().expect("no panic"), 3);
    });
}

#[test]
fn many_calls_are_one_exchange_per_node_and_stay_in_order() {
    let mut cluster = Cluster::start(3);
    let limiter = limiter(&cluster.dsn(TIMEOUTS), 4);
    let calls: Vec<(String, i64)> = (0..600).map(|number| (format!("user:{}", number % 100), 1)).collect();
    let ask = || -> Vec<(bool, u64)> {
        let outcomes = limiter.allow_many(&calls).expect("valid calls").into_iter();
        outcomes.map(|outcome| outcome.expect("a decision")).map(|it| (it.allowed(), it.remaining())).collect()
    };
    let expected = (0..600).map(|number| if number < 400 { (true, 3 - number / 100) } else { (false, 0) });
    assert_eq!(ask(), expected.collect::<Vec<_>>());
    assert_eq!(cluster.calls("eval"), 3);
    let connections: usize = cluster
        .nodes()
        .iter()
        .map(|node| {
            let info: String = redis::cmd("INFO").arg("clients").query(&mut node.connection()).expect("INFO");
            let clients = info.lines().find_map(|line| line.strip_prefix("connected_clients:")).expect("a number");
            clients.trim().parse::<usize>().expect("a number") - 1
        })
        .sum();
    assert_eq!(connections, 3);

    // A slot that has moved in the meantime, and a script that a node has forgotten.
    let slot = cluster.slot(&stored("user:5"));
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    cluster.begin_move(slot, from, to);
    cluster.move_key(&stored("user:5"), from, to);
    cluster.end_move(slot, to);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut cluster.nodes()[to].connection()).expect("SCRIPT FLUSH");
    assert_eq!(ask(), vec![(false, 0); 600]);
}

#[test]
fn a_node_that_is_lost_is_replaced_by_its_replica_and_found_by_the_second_call() {
    let mut cluster = Cluster::start_with(3, true, &[]);
    let limiter = limiter(&cluster.dsn("?timeout=0.3&connect_timeout=0.3"), 1000);
    let keys: Vec<String> = (0..3).map(|node| key_on(&cluster, node)).collect();
    for key in &keys {
        assert_eq!(remaining(&limiter, key), 999);
    }
    let wait = |cluster: &mut Cluster| {
        // What has not been replicated is lost with the node; here everything is.
        redis::cmd("WAIT").arg(1).arg(2000).exec(&mut cluster.nodes()[0].connection()).expect("WAIT");
    };
    wait(&mut cluster);
    cluster.nodes()[0].stop();
    for _ in 0..3 {
        let started = Instant::now();
        let _ = limiter.allow(&keys[0], 1).expect_err("nobody has the slot yet");
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    }
    assert_eq!(remaining(&limiter, &keys[1]), 998, "the other nodes go on");
    eventually("the failover", || {
        let is_whole = |node: &RedisServer| {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut node.connection()).expect("CLUSTER INFO");
            info.contains("cluster_state:ok")
        };
        // Each of them finds out for itself.
        cluster.nodes()[1..3].iter().all(is_whole) && cluster.nodes()[3].is_primary()
    });
    let answers = [(); 2].map(|()| limiter.allow(&keys[0], 1));
    assert!(answers[1].is_ok(), "{answers:?}");
    assert_eq!(remaining(&limiter, &keys[2]), 998);
}

#[test]
fn a_node_of_a_cluster_named_as_a_lone_server_says_how_to_name_it() {
    let mut cluster = Cluster::start(2);
    let key = key_on(&cluster, 1);
    let error = limiter(&cluster.nodes()[0].dsn(), 5).allow(&key, 1).expect_err("another node's key");
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
}

#[test]
fn a_lone_server_named_as_a_cluster_is_told_apart() {
    let server = RedisServer::start();
    let error =
        limiter(&format!("redis+cluster://127.0.0.1:{}", server.port()), 5).allow("key", 1).expect_err("no cluster");
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
}
