use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_changelog_speaks_of_this_version() {
    let version = ratelimit_core::VERSION;
    assert!(read("CHANGELOG.md").contains(&format!("## {version}")), "CHANGELOG.md has no entry for {version}");
}

#[test]
fn the_vectors_are_what_the_oracle_gives() {
    let check = Command::new("python3").arg(root().join("tests/vectors/oracle.py")).arg("--check").output();
    let check = check.expect("python3 is installed");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn architecture_names_only_files_that_are_there() {
    for word in read("ARCHITECTURE.md").split(['`', ' ', '\n', '(', ')']) {
        let looks_like_a_path =
            word.contains('/') && !word.contains([':', '{', '*', '<', '…']) && !word.starts_with('/');
        if looks_like_a_path && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)) {
            assert!(root().join(word.trim_end_matches('.')).exists(), "ARCHITECTURE.md speaks of {word}");
        }
    }
}
