//! Several processes on one shared store, each with keys of its own, or all on one key.
//!
//! Prints, per number of processes, `processes own_keys_per_second one_key_per_second`, of all of them together.
//! Started with a DSN and a key it is one of them.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ratelimit_core::{Limiter, Policy, store};

type Failure = Box<dyn std::error::Error>;

const LASTS: Duration = Duration::from_millis(500);
const ROUNDS: usize = 5;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [dsn, key] = arguments.as_slice() {
        return ask(dsn, key);
    }
    let file = format!("/dev/shm/ratelimit-bench-{}", std::process::id());
    let dsn = format!("shared:{file}?timeout=5");
    store::open(&dsn)?;
    for processes in [1, 2, 4, 8] {
        let (mut own, mut one) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            own.push(together(&dsn, processes, |number| format!("own-{number}"))?);
            one.push(together(&dsn, processes, |_| "one".to_owned())?);
        }
        println!("{processes} {} {}", median(own), median(one));
    }
    std::fs::remove_file(file)?;
    Ok(())
}

/// Decisions per second of so many processes together.
fn together(dsn: &str, processes: usize, key: impl Fn(usize) -> String) -> Result<u64, Failure> {
    let program = std::env::current_exe()?;
    let start = |number| {
        Command::new(&program).args([dsn, &key(number)]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    let mut children = (0..processes).map(start).collect::<Result<Vec<Child>, _>>()?;
    for child in &mut children {
        child.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?;
    }
    let mut sum = 0;
    for mut child in children {
        let mut text = String::new();
        child.stdout.as_mut().ok_or("no output")?.read_to_string(&mut text)?;
        child.wait()?;
        sum += text.trim().parse::<u64>()?;
    }
    Ok(sum)
}

/// Asks for a while, and prints how often per second.
fn ask(dsn: &str, key: &str) -> Result<(), Failure> {
    let limiter = Limiter::new(Policy::gcra(1_000_000_000, 2e9, None)?, store::open(dsn)?)?;
    let names: Vec<String> = (0..if key == "one" { 1 } else { 100 }).map(|number| format!("{key}-{number}")).collect();
    std::io::stdin().read_line(&mut String::new())?;
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < LASTS {
        for name in names.iter().cycle().take(1_000) {
            limiter.allow(name, 1)?;
            count += 1;
        }
    }
    println!("{}", (f64::from(count) / started.elapsed().as_secs_f64()) as u64);
    Ok(())
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
