//! Words that may stand anywhere in the file of a shared store, behind its header, while it is in use.

#![no_main]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Concurrency, ErrorKind, Limiter, Lock, Policy, Result};

/// Words that were checked when the file was opened, and that nobody reads after that.
const HEADER: u64 = 7;

/// Of every input: four bytes say where a word goes, eight what it is.
const RECORD: usize = 12;

struct Target {
    store: Arc<dyn Store>,
    file: File,
    words: u64,
    limiters: Vec<Limiter>,
    lock: Lock,
    leases: Concurrency,
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let path = PathBuf::from(format!("/dev/shm/ratelimit-fuzz-{}", std::process::id()));
    let store = store::open(&format!("shared:{}?size=1MiB&timeout=0.005", path.display())).expect("a store");
    // It stays open in the store, and is gone with this process.
    let file = OpenOptions::new().write(true).open(&path).expect("the file");
    std::fs::remove_file(&path).expect("removed");
    let texts = ["5/m", "5/m log", "9/m sliding", "7 burst, 1/s", "5/day aligned UTC"];
    let policies: Vec<Policy> = texts.map(|text| Policy::parse(text).expect("a policy")).into();
    let named = policies.iter().enumerate().map(|(number, it)| it.named(&format!("p{number}")).expect("a name"));
    let several = Limiter::new(named.collect::<Vec<_>>(), store.clone()).expect("a limiter");
    let single = policies.iter().map(|it| Limiter::new(it.clone(), store.clone()).expect("a limiter"));
    let limiters = single.chain([several]).collect();
    let lock = Lock::new(store.clone());
    let leases = Concurrency::new(40, 0.01, store.clone()).expect("a limit");
    Target { words: file.metadata().expect("a size").len() / 8, store, file, limiters, lock, leases }
});

fuzz_target!(|bytes: &[u8]| {
    let target = &*TARGET;
    for record in bytes.chunks_exact(RECORD) {
        let (at, word) = record.split_at(4);
        let at = u64::from(u32::from_le_bytes(at.try_into().expect("four bytes")));
        let at = HEADER + at % (target.words - HEADER);
        target.file.write_all_at(word, at * 8).expect("a written word");
    }
    for limiter in &target.limiters {
        for key in ["one", "two", "three"] {
            let calls =
                [Call::allow(key, 1), Call::peek(key, 3), Call::allow(key, 1).token(b"token"), Call::refund(key, 1)];
            for call in calls {
                if let Err(error) = limiter.decide(call) {
                    assert!(matches!(error.kind(), ErrorKind::StoreUnavailable(_)), "{error}");
                }
            }
        }
        let _ = limiter.reset("three");
    }
    held(hold(target));
    target.store.info();
});

/// Locks and leases, some of which are never given back.
fn hold(target: &Target) -> Result<()> {
    for key in ["one", "two"] {
        if let Some(holder) = target.lock.acquire(key, 0.01, 0)? {
            target.lock.extend(key, &holder, 0.01)?;
            target.lock.release(key, &holder)?;
        }
        for _ in 0..3 {
            if let Some(lease) = target.leases.acquire(key, 0)? {
                target.leases.extend(key, &lease)?;
            }
        }
        if let Some(lease) = target.leases.acquire(key, 0)? {
            target.leases.release(key, &lease)?;
        }
        target.leases.peek(key)?;
    }
    Ok(())
}

fn held(outcome: Result<()>) {
    if let Err(error) = outcome {
        assert!(matches!(error.kind(), ErrorKind::StoreUnavailable(_)), "{error}");
    }
}
