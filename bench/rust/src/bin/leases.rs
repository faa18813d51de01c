//! Four processes of one host on one hot key of a Redis server: with leases, and with a round trip per call.
//!
//!     leases DSN
//!
//! Prints, per limit, `limit with_leases without most_in_a_window`: decisions a second of all of them together, medians of rounds
//! that take turns, and the most grants that any window of a second had with leases, by the server's clock. Started with
//! more arguments it is one of the processes.

use std::collections::HashMap;
use std::io::{BufRead as _, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ratelimit_core::{Limiter, Policy, store};

type Failure = Box<dyn std::error::Error>;

const LASTS: Duration = Duration::from_millis(2_500);
const ROUNDS: usize = 3;
const PROCESSES: usize = 4;
const LEASE: i64 = 2_000;

/// One that is reached, so that most calls are refused, and one that nobody reaches.
const LIMITS: [i64; 2] = [100_000, 1_000_000_000];

const WINDOW_US: u64 = 1_000_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [dsn] => compare(dsn),
        [dsn, key, limit, lease] => ask(dsn, key, limit.parse()?, lease.parse()?),
        _ => Err("which server?".into()),
    }
}

fn compare(dsn: &str) -> Result<(), Failure> {
    let host = format!("/dev/shm/ratelimit-bench-{}", std::process::id());
    for limit in LIMITS {
        let (mut with, mut without, mut most) = (Vec::new(), Vec::new(), 0);
        for round in 0..ROUNDS {
            let (count, windows) = together(dsn, &host, &format!("with-{limit}-{round}"), limit, LEASE)?;
            with.push(count);
            most = most.max(windows.into_values().max().unwrap_or(0));
            without.push(together(dsn, &host, &format!("without-{limit}-{round}"), limit, 0)?.0);
        }
        println!("{limit} {} {} {most}", median(with), median(without));
    }
    std::fs::remove_file(host)?;
    Ok(())
}

/// Decisions per second of all processes together, and the grants of each window.
fn together(
    dsn: &str,
    host: &str,
    key: &str,
    limit: i64,
    lease: i64,
) -> Result<(u64, HashMap<u64, u64>), Failure> {
    let program = std::env::current_exe()?;
    let start = |_| {
        Command::new(&program)
            .args([dsn, key, &limit.to_string(), &lease.to_string()])
            .env("RATELIMIT_STORE", format!("shared:{host}?timeout=5"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
    };
    let mut children = (0..PROCESSES).map(start).collect::<Result<Vec<Child>, _>>()?;
    for child in &mut children {
        child.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?;
    }
    let (mut sum, mut windows) = (0, HashMap::new());
    for mut child in children {
        let mut text = String::new();
        child.stdout.as_mut().ok_or("no output")?.read_to_string(&mut text)?;
        child.wait()?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        sum += numbers.next().ok_or("no count")??;
        while let (Some(window), Some(granted)) = (numbers.next(), numbers.next()) {
            *windows.entry(window?).or_default() += granted?;
        }
    }
    Ok((sum, windows))
}

/// Asks for a while, and prints how often per second, and what passed in each window.
fn ask(dsn: &str, key: &str, limit: i64, lease: i64) -> Result<(), Failure> {
    let policy = Policy::fixed_window_aligned(limit, 1.0)?;
    let limiter = Limiter::builder(policy).store(store::open(dsn)?).lease(lease).build()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let (started, mut count) = (Instant::now(), 0_u64);
    let mut windows: HashMap<u64, u64> = HashMap::new();
    let mut before = window();
    while started.elapsed() < LASTS {
        let mut granted = 0;
        for _ in 0..20 {
            granted += u64::from(limiter.allow(key, 1)?.allowed());
            count += 1;
        }
        let after = window();
        // Of a few calls across an edge nobody knows which window they were in.
        if before == after {
            *windows.entry(after).or_default() += granted;
        }
        before = after;
    }
    print!("{}", (count as f64 / started.elapsed().as_secs_f64()) as u64);
    windows.into_iter().for_each(|(window, granted)| print!(" {window} {granted}"));
    println!();
    Ok(())
}

/// The server is on this machine, so its clock is this one.
fn window() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_micros() as u64 / WINDOW_US
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
