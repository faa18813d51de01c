//! Shared stores of a test's own, and processes that work on them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ratelimit_core::store::{self, Store};
use tempfile::TempDir;

/// A file for a shared store that nobody else knows, gone when this is dropped.
#[derive(Debug)]
pub struct SharedFile {
    folder: TempDir,
    options: String,
}

impl SharedFile {
    /// One of the default size.
    ///
    /// # Panics
    ///
    /// When there is no room for a folder.
    pub fn new() -> Self {
        Self::with("")
    }

    /// One with options, as a DSN has them: `size=1MiB&timeout=5`.
    ///
    /// # Panics
    ///
    /// When there is no room for a folder.
    pub fn with(options: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ratelimit-").tempdir_in("/dev/shm").expect("a folder");
        Self { folder, options: options.to_owned() }
    }

    /// The folder it is in, with nothing else in it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file, which may not be there yet.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("limits")
    }

    /// What names the store.
    pub fn dsn(&self) -> String {
        format!("shared:{}?{}", self.path().display(), self.options)
    }

    /// The store, made if it is not there yet.
    ///
    /// # Panics
    ///
    /// When it cannot be opened.
    pub fn open(&self) -> Arc<dyn Store> {
        store::open(&self.dsn()).expect("a shared store")
    }
}

impl Default for SharedFile {
    fn default() -> Self {
        Self::new()
    }
}

/// A shared store whose file is out of everybody's sight by now.
///
/// # Panics
///
/// When it cannot be opened.
pub fn nameless_store() -> Arc<dyn Store> {
    // A process keeps what it has opened, wherever it is.
    SharedFile::new().open()
}

/// A process of its own that works on a store; `program` is the test worker, `arguments` what it does.
///
/// # Panics
///
/// When it cannot be started.
pub fn start(program: &str, arguments: &[&str]) -> Child {
    Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a worker")
}
