//! A runtime of this process's own, for hosts that have none: one thread that drives all connections.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::process;

static RUNTIME: ArcSwapOption<Runtime> = ArcSwapOption::const_empty();

#[derive(Debug)]
struct Runtime {
    generation: u32,
    /// Dropping it wakes the thread; a forked child has the handle and not the thread, so there it never is dropped.
    handle: ManuallyDrop<Handle>,
}

/// Runs a future on the runtime of this process. The first call starts its thread, also in a forked child.
///
/// The thread lasts as long as the process and holds nothing of the host's: it may be gone at any moment of an exit.
///
/// Fails with [`Internal`](crate::ErrorKind::Internal) when the system starts no thread.
pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    current()?.handle.spawn(future);
    Ok(())
}

fn current() -> Result<Arc<Runtime>> {
    let generation = process::generation();
    let known = RUNTIME.load();
    if let Some(runtime) = known.as_ref().filter(|runtime| runtime.generation == generation) {
        return Ok(runtime.clone());
    }
    let started =
        start().map_err(|error| Error::internal(format!("no thread for connections can be started: {error}")))?;
    let (handle, stop) = started;
    let runtime = Arc::new(Runtime { generation, handle: ManuallyDrop::new(handle) });
    let found = RUNTIME.compare_and_swap(&*known, Some(runtime.clone()));
    match found.as_ref() {
        // Somebody else was faster; this one's thread ends.
        Some(found) if found.generation == generation => Ok(found.clone()),
        _ => {
            std::mem::forget(stop);
            Ok(runtime)
        }
    }
}

/// Starts the thread. It ends when the sender that is returned goes away, unless that is forgotten.
fn start() -> io::Result<(Handle, oneshot::Sender<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let handle = runtime.handle().clone();
    std::thread::Builder::new().name("ratelimit-aio".to_owned()).spawn(move || {
        // An error says that nobody can stop it any more.
        let _ = runtime.block_on(stopped);
    })?;
    Ok((handle, stop))
}
