//! The commands that one decision sends to Redis, for each algorithm, as the library itself writes them.
//!
//! Prints one line per command: a name, the script's text, then the parts of the command, all but the name in
//! hexadecimal. A listener of our own takes what is sent, so that nothing about the scripts' arguments is repeated here.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use ratelimit_core::{Limiter, Policy, lua, store};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let dsn = format!("redis://{}?timeout=5", listener.local_addr()?);
    let (sender, sent) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut input = BufReader::new(&stream);
            while let Ok(parts) = read_command(&mut input) {
                // The command before the answer: whoever has got that may look for it.
                if sender.send(parts).is_err() || (&stream).write_all(b"-ERR only listening\r\n").is_err() {
                    break;
                }
            }
        }
    });

    for (name, policies) in policies()? {
        let limiter = Limiter::new(policies, store::open(&dsn)?)?;
        if limiter.allow("key", 1).is_ok() {
            return Err("a decision without a server".into());
        }
        let parts = sent.try_recv()?;
        let script = lua::scripts().find(|script| parts.get(1).is_some_and(|sha| sha == script.sha().as_bytes()));
        let text = script.ok_or("a command without a script of ours")?.text();
        print!("{name} {}", hex(text.as_bytes()));
        for part in &parts {
            print!(" {}", hex(part));
        }
        println!();
    }
    Ok(())
}

/// Every kind of policy, with a limit that nobody reaches and with one that is soon used up.
fn policies() -> Result<Vec<(String, Vec<Policy>)>, Failure> {
    let mut all = Vec::new();
    for (load, limit, seconds) in [("allowed", 1_000_000, 1_000_000.0), ("exceeding", 20, 3_600.0)] {
        let bucket = Policy::token_bucket(limit, 1.0, seconds / limit as f64)?;
        let window = Policy::fixed_window(limit, seconds)?;
        let counter = Policy::sliding_window_counter(limit, seconds)?;
        let several = vec![bucket.named("bucket")?, window.named("window")?, counter.named("counter")?];
        let kinds = [
            ("token_bucket", vec![bucket]),
            ("gcra", vec![Policy::gcra(limit, seconds, None)?]),
            ("fixed_window", vec![window]),
            ("sliding_window_counter", vec![counter]),
            ("sliding_window_log", vec![Policy::sliding_window_log(limit, seconds)?]),
            ("three_policies", several),
        ];
        all.extend(kinds.map(|(kind, policies)| (format!("{load}/{kind}"), policies)));
    }
    Ok(all)
}

/// One command as clients write it: an array of bulk strings.
fn read_command(input: &mut impl BufRead) -> Result<Vec<Vec<u8>>, Failure> {
    let count = read_number(input, b'*')?;
    (0..count)
        .map(|_| {
            let mut part = vec![0; read_number(input, b'$')? + 2];
            input.read_exact(&mut part)?;
            part.truncate(part.len() - 2);
            Ok(part)
        })
        .collect()
}

fn read_number(input: &mut impl BufRead, kind: u8) -> Result<usize, Failure> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    match line.as_bytes().first() {
        Some(first) if *first == kind => Ok(line[1..].trim_end().parse()?),
        _ => Err("what was sent is no command".into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
