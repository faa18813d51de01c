//! Where the file is when nobody says so: in the same place for all programs of a user, so that they share budgets.

use std::path::PathBuf;

/// A folder in memory that every process of a host sees.
const MEMORY: &str = "/dev/shm";

/// The places to try, best first: in `/dev/shm`, named by the user's id, else in the user's runtime directory.
pub(crate) fn defaults() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let in_memory = PathBuf::from(MEMORY).join(format!("ratelimit-{user}"));
    std::iter::once(in_memory).chain(runtime.map(|path| path.join("ratelimit"))).collect()
}
