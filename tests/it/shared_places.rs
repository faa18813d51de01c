use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use ratelimit_tests::server::free_port;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// What makes a process one with file systems of its own, where that is permitted.
fn namespace() -> Option<&'static [&'static str]> {
    static FOUND: OnceLock<Option<&[&str]>> = OnceLock::new();
    let may = |arguments: &[&str]| {
        let tried = Command::new("unshare").args(arguments).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    *FOUND.get_or_init(|| {
        let ways: [&'static [&'static str]; 2] = [&["-Urm"], &["-m"]];
        let found = ways.into_iter().find(|arguments| may(arguments));
        if found.is_none() {
            // Not by a macro: what those print is kept back when a test passes.
            let told =
                "skipped: this system permits no namespaces, so the places of the shared store are not tried out";
            writeln!(std::io::stderr(), "{told}").expect("a line");
        }
        found
    })
}

/// Runs workers one after the other, on a system that has been prepared by a shell, and gives what they print, line by
/// line; nothing where that is not permitted.
fn printed(prepare: &str, runtime: Option<&Path>, workers: &[&str]) -> Option<Vec<String>> {
    let script =
        workers.iter().fold(prepare.to_owned(), |script, worker| format!("{script} && echo | '{WORKER}' {worker}"));
    let mut command = Command::new("unshare");
    command.args(namespace()?).args(["sh", "-c", &script]).env_remove("RATELIMIT_STORE").env_remove("XDG_RUNTIME_DIR");
    if let Some(folder) = runtime {
        command.env("XDG_RUNTIME_DIR", folder);
    }
    let output = command.output().expect("unshare is installed");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// A shell's words that put something in the place of `/dev/shm`.
fn shm(options: &str) -> String {
    format!("mount -t tmpfs -o {options} none /dev/shm")
}

const NO_SHM: &str = "mount -t tmpfs none /dev";

/// The id under which the processes run.
fn user() -> String {
    let id = Command::new("unshare").args(namespace().unwrap_or_default()).args(["id", "-u"]).output().expect("id");
    String::from_utf8_lossy(&id.stdout).trim().to_owned()
}

#[test]
fn the_default_place_is_in_memory_that_all_processes_of_a_user_see() {
    let Some(lines) = printed(&shm("size=100m"), None, &["place", "race shared:", "race shared:"]) else { return };
    let [place, first, second] = lines.as_slice() else { panic!("{lines:?}") };
    let (path, bytes) = place.split_once(' ').expect("a path and a size");
    assert_eq!(path, format!("/dev/shm/ratelimit-{}", user()));
    assert!(bytes.parse::<u64>().is_ok_and(|bytes| (60 << 20..=64 << 20).contains(&bytes)), "{place}");
    assert_eq!([first.as_str(), second.as_str()], ["passed", "refused"]);
}

#[test]
fn where_there_is_little_room_the_file_is_smaller() {
    for (room, least, most) in [("size=20m", 12 << 20, 16 << 20), ("size=6m", 3 << 20, 4 << 20)] {
        let Some(lines) = printed(&shm(room), None, &["place"]) else { return };
        let (path, bytes) = lines[0].split_once(' ').expect("a path and a size");
        assert!(path.starts_with("/dev/shm/ratelimit-"), "{lines:?}");
        assert!(bytes.parse::<u64>().is_ok_and(|bytes| (least..=most).contains(&bytes)), "{room}: {lines:?}");
    }
}

#[test]
fn without_memory_to_write_to_the_file_is_in_the_runtime_directory() {
    for prepare in [NO_SHM, &shm("ro"), &shm("size=1m")] {
        let folder = tempfile::tempdir().expect("a folder");
        let workers = ["place", "race shared:", "race shared:"];
        let Some(lines) = printed(prepare, Some(folder.path()), &workers) else { return };
        let (path, _) = lines[0].split_once(' ').unwrap_or_else(|| panic!("{prepare}: {lines:?}"));
        assert_eq!(Path::new(path), folder.path().join("ratelimit"), "{prepare}");
        assert_eq!(lines[1..], ["passed", "refused"], "{prepare}");
    }
}

#[test]
fn without_any_place_the_sentence_says_what_to_do_and_the_local_rule_counts_in_the_process() {
    for prepare in [NO_SHM, &shm("ro")] {
        let local = format!("local redis://127.0.0.1:{}", free_port());
        let Some(lines) = printed(prepare, None, &["place", &local]) else { return };
        assert!(
            lines[0].starts_with("there is no place for the shared store: the shared store /dev/shm/ratelimit-"),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("name a file with RATELIMIT_STORE=shared:/path, or another store"), "{lines:?}");
        assert_eq!(lines[1..], ["local true", "local false"], "{prepare}");
    }
}

#[test]
fn a_file_of_somebody_else_in_the_default_place_is_no_reason_to_look_for_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let prepare = format!("{} && ln -s /tmp/elsewhere /dev/shm/ratelimit-$(id -u)", shm("size=100m"));
    let Some(lines) = printed(&prepare, Some(folder.path()), &["place"]) else { return };
    assert!(lines[0].contains("is a link, and links are not followed"), "{lines:?}");
    assert!(!folder.path().join("ratelimit").exists(), "one budget, or none");
}
