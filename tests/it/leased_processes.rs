use std::collections::VecDeque;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_tests::windows::Windows;
use ratelimit_tests::{RedisServer, SharedFile};

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// How long it lasts; `scripts/soak` makes it longer.
fn seconds() -> f64 {
    std::env::var("RATELIMIT_STORM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4.0)
}

/// Four processes spend the leases of one host, and one more is another host; two of them are killed again and again. The
/// windows are the server's, by its own clock.
#[test]
fn in_no_window_more_passes_than_the_limit() {
    const LIMIT: u64 = 3_000;
    const WINDOW_US: u64 = 100_000;
    let server = RedisServer::start();
    let hosts = [SharedFile::with("timeout=5"), SharedFile::with("timeout=5")];
    let counts = hosts[0].folder().join("counts");
    fs::write(&counts, []).expect("a file of counts");
    let dsn = format!("{}?timeout=5&connect_timeout=5", server.dsn());
    let first = (Windows::now_us() / WINDOW_US).to_string();
    let mut number = 0;
    let mut next = |host: &SharedFile| {
        number += 1;
        let (limit, window_ms) = (LIMIT.to_string(), (WINDOW_US / 1_000).to_string());
        let file = counts.to_str().expect("a path");
        let arguments = ["spends", &dsn, &limit, &window_ms, "100", &first, &number.to_string(), file];
        let mut command = Command::new(WORKER);
        command.args(arguments).env("RATELIMIT_STORE", host.dsn()).stdin(Stdio::null());
        command.spawn().expect("a worker")
    };
    let mut stay: Vec<Child> = vec![next(&hosts[0]), next(&hosts[0]), next(&hosts[1])];
    let mut die: VecDeque<Child> = (0..2).map(|_| next(&hosts[0])).collect();
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < seconds() {
        thread::sleep(Duration::from_millis(70));
        let mut oldest = die.pop_front().expect("a worker");
        assert_eq!(oldest.try_wait().expect("a state"), None, "it still works");
        oldest.kill().expect("a kill");
        oldest.wait().expect("an end");
        die.push_back(next(&hosts[0]));
    }
    for worker in &mut stay {
        assert_eq!(worker.try_wait().expect("a state"), None, "it still works");
    }
    for mut worker in stay.into_iter().chain(die) {
        worker.kill().expect("a kill");
        worker.wait().expect("an end");
    }
    let sums = Windows::sums(&counts).expect("the counts");
    for (window, [granted, refunded]) in sums.iter().enumerate() {
        assert!(*granted <= LIMIT + refunded, "{granted} passed in window {window}, and {refunded} were given back");
    }
    let most = sums.iter().map(|[granted, _]| *granted).max().unwrap_or(0);
    assert!(most > LIMIT * 9 / 10, "a limit that nobody comes near proves nothing: {most}");
}
