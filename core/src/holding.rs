//! What locks and concurrency limits share: who holds a key, asked of a store.

use std::sync::Arc;

use crate::algorithm::in_flight::{Act, Request};
use crate::clock::{Clock, MAX_INSTANT_US};
use crate::error::Result;
use crate::holder;
use crate::key::{KeySpace, KeyStyle, StoredKey};
use crate::metrics;
use crate::store::{Held, Hold, Kept, Store};

/// Keys that are held, in one store.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) space: KeySpace,
    pub(crate) kept: Kept,
    pub(crate) limit: u64,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

/// One question, owned.
pub(crate) struct Asked {
    kept: Kept,
    key: StoredKey,
    request: Request,
    now_us: Option<u64>,
}

/// What is known of a holder without asking: whose text is no holder's holds nothing.
const NOTHING: Held = Held { done: false, in_flight: 0, wait_us: 0 };

impl Holding {
    fn asked(&self, act: Act, key: &[u8], holder: &str, ttl_us: u64) -> Option<Asked> {
        let number = holder::number(holder);
        let holder = if act == Act::Count { number.unwrap_or(0) } else { number? };
        Some(Asked {
            kept: self.kept,
            key: self.space.key(&KeyStyle::default(), key),
            request: Request { act, holder, limit: self.limit, ttl_us, same_ttl: self.kept == Kept::AsLeases },
            now_us: self.clock.as_ref().map(|clock| clock.now_us().clamp(1, MAX_INSTANT_US - 1)),
        })
    }

    pub(crate) fn ask(&self, act: Act, key: &[u8], holder: &str, ttl_us: u64) -> Result<Held> {
        let Some(asked) = self.asked(act, key, holder, ttl_us) else { return Ok(NOTHING) };
        counted(self.store.hold(&asked.hold()))
    }

    #[cfg(feature = "tokio")]
    pub(crate) async fn ask_async(&self, act: Act, key: &[u8], holder: &str, ttl_us: u64) -> Result<Held> {
        let Some(asked) = self.asked(act, key, holder, ttl_us) else { return Ok(NOTHING) };
        match self.store.asynchronous() {
            Some(store) => counted(store.hold(&asked.hold()).await),
            None => counted(self.store.hold(&asked.hold())),
        }
    }
}

impl Asked {
    fn hold(&self) -> Hold<'_> {
        Hold { kept: self.kept, key: &self.key, request: self.request, now_us: self.now_us }
    }
}

/// An error of the store is counted among those of limiters.
fn counted(held: Result<Held>) -> Result<Held> {
    held.inspect_err(|error| {
        if let Some(kind) = error.store_kind() {
            metrics::count_error(kind);
        }
    })
}
