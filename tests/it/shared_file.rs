use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use ratelimit_core::{Call, ErrorKind, Limiter, Policy, StoreErrorKind, store};
use ratelimit_tests::SharedFile;
use ratelimit_tests::histories::policies;
use ratelimit_tests::random::check;
use ratelimit_tests::shared::start;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// Another process asks for the one unit of an hour: it passed, was refused, or the process failed.
fn race(file: &SharedFile) -> String {
    let worker = start(WORKER, &["race", &file.dsn()]).wait_with_output().expect("an end");
    String::from_utf8(worker.stdout).expect("a text").trim().to_owned()
}

/// The sentence with which opening is refused.
fn refusal(file: &SharedFile) -> String {
    let error = store::open(&file.dsn()).expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidStore, "{error}");
    assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
    error.to_string()
}

fn write_words(path: &Path, at: u64, words: &[u64]) {
    let file = OpenOptions::new().write(true).open(path).expect("the file");
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&bytes, at * 8).expect("written words");
}

#[test]
fn the_file_is_its_owners_alone_and_as_long_as_asked_for() {
    let file = SharedFile::with("size=3MiB");
    file.open();
    let about = fs::symlink_metadata(file.path()).expect("the file");
    assert_eq!((about.mode() & 0o7777, about.len()), (0o600, 3 << 20));
    assert!(about.blocks() * 512 >= 3 << 20, "all of it is there, so that no page can be missing later");
    assert_eq!(fs::read_dir(file.folder()).expect("a folder").count(), 1, "nothing else is left");
}

#[test]
fn a_link_a_folder_and_a_pipe_are_refused() {
    let (file, other) = (SharedFile::new(), SharedFile::new());
    other.open();
    symlink(other.path(), file.path()).expect("a link");
    assert!(refusal(&file).contains("is a link"));
    fs::remove_file(file.path()).expect("removed");
    fs::create_dir(file.path()).expect("a folder");
    assert!(refusal(&file).contains("is a directory"));
    fs::remove_dir(file.path()).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(file.path()).status().expect("mkfifo").success());
    assert!(refusal(&file).contains("is a pipe"));
}

#[test]
fn a_file_that_others_may_write_or_that_another_user_owns_is_refused() {
    let file = SharedFile::new();
    race(&file);
    for mode in [0o644, 0o660, 0o700, 0o400] {
        fs::set_permissions(file.path(), Permissions::from_mode(mode)).expect("a mode");
        let refusal = refusal(&file);
        assert!(refusal.contains(&format!("has mode {mode:04o}")) && refusal.contains("chmod it to 0600"), "{refusal}");
    }
    fs::set_permissions(file.path(), Permissions::from_mode(0o600)).expect("a mode");
    // Only the superuser can give a file away.
    if std::os::unix::fs::chown(file.path(), Some(1), None).is_ok() {
        assert!(refusal(&file).contains("belongs to user 1"), "{}", refusal(&file));
    }
}

#[test]
fn a_file_that_is_something_else_is_refused_and_stays_as_it_is() {
    let file = SharedFile::new();
    fs::write(file.path(), "my diary").expect("a file");
    fs::set_permissions(file.path(), Permissions::from_mode(0o600)).expect("a mode");
    assert!(refusal(&file).contains("is too short"));
    fs::write(file.path(), "my diary".repeat(1000)).expect("a file");
    assert!(refusal(&file).contains("is not a file of ratelimit's; if no program needs it, remove it"));
    assert_eq!(fs::read_to_string(file.path()).expect("a file"), "my diary".repeat(1000));
}

#[test]
fn another_layout_or_length_is_refused_by_name() {
    let file = SharedFile::with("size=2MiB");
    race(&file);
    write_words(&file.path(), 1, &[7]);
    assert!(refusal(&file).contains("has layout 7"));
    write_words(&file.path(), 1, &[1]);
    OpenOptions::new().write(true).open(file.path()).expect("the file").set_len(1 << 20).expect("a length");
    assert!(refusal(&file).contains("says that it has 2097152 bytes, and it has 1048576"), "{}", refusal(&file));
}

#[test]
fn another_size_than_the_files_is_refused_and_the_default_takes_any() {
    let file = SharedFile::with("size=2MiB");
    race(&file);
    let path = file.path().display().to_string();
    let error = store::open(&format!("shared:{path}?size=4MiB")).expect_err("it is refused").to_string();
    assert!(error.contains("has 2097152 bytes and 4194304 are asked for"), "{error}");
    let info = store::open(&format!("shared:{path}")).expect("a store").info().expect("an embedded store");
    assert!(info.bytes <= 2 << 20 && info.bytes > 1 << 20, "{info:?}");
}

#[test]
fn where_no_file_can_be_made_the_sentence_says_why() {
    let file = SharedFile::with("size=1TiB");
    let full = refusal(&SharedFile::with("size=1024GiB"));
    assert!(full.contains("1099511627776 bytes") && full.contains("size=16MiB"), "{full}");
    assert!(store::open(&file.dsn()).expect_err("no such unit").to_string().starts_with("size must be a number"));
    let nowhere = store::open("shared:/nowhere/limits").expect_err("no folder").to_string();
    assert!(nowhere.contains("/nowhere/limits") && nowhere.contains("make its folder first"), "{nowhere}");
    assert_eq!(store::shared(None, 4096).expect_err("too small").argument(), Some("bytes"));
}

#[test]
fn what_is_left_from_before_a_restart_of_the_machine_begins_anew() {
    let file = SharedFile::new();
    assert_eq!([race(&file), race(&file)], ["passed", "refused"]);
    let before = fs::metadata(file.path()).expect("the file").ino();
    // Another boot, and every lock held.
    write_words(&file.path(), 3, &[0xdead, 0xbeef]);
    assert_eq!([race(&file), race(&file)], ["passed", "refused"]);
    assert_ne!(fs::metadata(file.path()).expect("the file").ino(), before, "those who still have it are left alone");
    assert_eq!(fs::read_dir(file.folder()).expect("a folder").count(), 1, "nothing else is left");
}

#[test]
fn no_key_can_be_read_from_the_file() {
    let file = SharedFile::new();
    let store = file.open();
    let limiter = Limiter::new(Policy::gcra(10, 60.0, None).expect("a policy"), store).expect("a limiter");
    limiter.allow("somebody@example.org", 1).expect("a decision");
    let bytes = fs::read(file.path()).expect("the file");
    assert!(!bytes.windows(8).any(|window| window == b"somebody"));
}

#[test]
fn whatever_stands_in_the_file_no_call_panics_or_hangs() {
    let file = SharedFile::with("size=1MiB&timeout=0.02");
    let store = file.open();
    let words = fs::metadata(file.path()).expect("the file").len() / 8;
    let interesting = prop_oneof![
        3 => any::<u64>(),
        2 => Just(0_u64),
        2 => Just(u64::MAX),
        2 => 0..5_000_u64,
        1 => (0..64_u32).prop_map(|bit| 1 << bit),
        1 => (0..10_u64, 0..64_u64).prop_map(|(kind, index)| kind | index << 8),
    ];
    let damage = proptest::collection::vec(interesting, 1..700);
    check(150, &(damage, 0..words, policies(), policies()), |(values, at, one, two)| {
        let policies = [one.named("one").expect("a policy"), two.named("two").expect("a policy")];
        let single = Limiter::new(one, store.clone()).expect("a limiter");
        let Ok(both) = Limiter::builder(policies.to_vec()).store(store.clone()).build() else { return Ok(()) };
        let work = || {
            for key in 0..40 {
                let key = format!("key-{key}");
                let calls = [
                    (&single, Call::allow(&key, 1)),
                    (&single, Call::peek(&key, 1)),
                    (&single, Call::refund(&key, 1)),
                    (&both, Call::allow(&key, 2)),
                    (&both, Call::allow(&key, 1).token(b"token")),
                ];
                for (limiter, call) in calls {
                    if let Err(error) = limiter.decide(call) {
                        let expected = [StoreErrorKind::Busy, StoreErrorKind::Oom];
                        assert!(error.store_kind().is_some_and(|kind| expected.contains(&kind)), "{error}");
                    }
                }
                let _ = single.reset(&key);
                let _ = both.allow(&key, 1);
            }
        };
        work();
        // Everything but the part that was checked when it was opened: once a stretch, and once spread out.
        let at = at.clamp(7, words - values.len() as u64);
        write_words(&file.path(), at, &values);
        work();
        for (index, value) in values.iter().enumerate() {
            let at = (at + index as u64 * 521) % words;
            write_words(&file.path(), at.max(7), &[*value]);
        }
        work();
        store.info();
        Ok(())
    });
}
