//! Where state lives. A store's only promise is that one step is atomic; what the step does is the model's business.

pub mod dsn;

pub mod memory;

pub mod shared;

mod table;

pub mod redis;

mod hold;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{MAX_SPAN_US, Verb, Verdict};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::process;
use crate::resilience::BreakerState;
use dsn::Dsn;
pub(crate) use hold::Kept;
pub use hold::{Held, Hold};
use memory::MemoryStore;
use redis::RedisStore;
use shared::SharedStore;

/// The environment variable that names the default store.
pub const DEFAULT_STORE_VARIABLE: &str = "RATELIMIT_STORE";

/// The store when nothing names one.
const DEFAULT_STORE: &str = "shared:";

/// Keys that a memory store opened by DSN holds at most, unless it says `max_keys`.
pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// Above this many open DSNs, those in use by nobody are closed.
const MAX_OPEN: usize = 64;

/// Stores that this process has opened by DSN: a DSN names one store, however often it is opened.
static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// Does something with the stores opened by name, past the gate that keeps a fork from catching them locked.
fn with_opened<R>(act: impl FnOnce(&mut Open) -> R) -> R {
    let _gate = process::gate(0);
    act(OPEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Open::default))
}

/// The stores opened by name. Both maps keep them open while nobody holds them: a PHP request ends, its connections
/// stay for the next one.
#[derive(Default)]
struct Open {
    by_dsn: HashMap<Dsn, Arc<dyn Store>>,
    /// The same stores by the text that named them, so that a text is taken apart once.
    by_text: HashMap<Box<str>, Arc<dyn Store>>,
}

impl Open {
    fn by_dsn(&mut self, dsn: Dsn) -> Result<Arc<dyn Store>> {
        if let Some(store) = self.by_dsn.get(&dsn) {
            return Ok(store.clone());
        }
        let store: Arc<dyn Store> = match &dsn {
            Dsn::Memory { max_keys } => Arc::new(MemoryStore::new(*max_keys)?),
            Dsn::Shared { path, bytes, timeout } => Arc::new(SharedStore::open(path.as_deref(), *bytes, *timeout)?),
            Dsn::Redis(options) => Arc::new(RedisStore::new((**options).clone())?),
        };
        self.make_room();
        self.by_dsn.insert(dsn, store.clone());
        Ok(store)
    }

    fn make_room(&mut self) {
        if self.by_dsn.len() >= MAX_OPEN || self.by_text.len() >= MAX_OPEN {
            self.by_text.clear();
            // A memory store must not forget, and a shared one keeps its file anyway; a Redis store nobody holds only loses its idle connections.
            self.by_dsn.retain(|dsn, store| {
                matches!(dsn, Dsn::Memory { .. } | Dsn::Shared { .. }) || Arc::strong_count(store) > 1
            });
        }
    }
}

/// One atomic step, as a value that every store carries out: embedded stores by the Rust models, Redis by their twins.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    pub(crate) action: Action,
    /// What is charged: all or nothing.
    pub(crate) charges: &'a [Charge<'a>],
    pub(crate) cost: u64,
    /// The caller's time; the store's own without it.
    pub(crate) now_us: Option<u64>,
    /// Where the answer is remembered, and looked for first.
    pub(crate) token: Option<&'a [u8]>,
}

/// One policy and the key it is charged to, as stored.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) key: &'a [u8],
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Takes nothing, and says what [`Allow`](Self::Allow) would.
    Peek,
    /// Takes the cost if it passes now.
    Allow,
    /// Takes the cost if it passes within a wait.
    Reserve {
        /// The longest wait that is accepted, in microseconds.
        max_wait_us: u64,
    },
    /// Gives the cost back.
    Refund,
    /// Takes the cost if it passes now, and up to `most` with it. The verdict is as [`Verb::Lease`] says.
    Lease {
        /// The most units that are taken, unless the cost is more.
        most: u64,
    },
    /// Gives the cost back to the window it was taken in, while that is on.
    Return {
        /// When that window ends, by the clock that decides.
        window_end_us: u64,
    },
}

impl Action {
    /// The verb of the models, and whether it is carried out.
    pub(crate) fn verb(self) -> (Verb, bool) {
        match self {
            Self::Peek => (Verb::Allow, false),
            Self::Allow => (Verb::Allow, true),
            Self::Reserve { max_wait_us } => (Verb::Reserve { max_wait_us: max_wait_us.min(MAX_SPAN_US) }, true),
            Self::Refund => (Verb::Refund, true),
            Self::Lease { most } => (Verb::Lease { most }, true),
            Self::Return { window_end_us } => (Verb::Return { window_end_us }, true),
        }
    }
}

/// One verdict per policy.
pub type Verdicts = SmallVec<[Verdict; 1]>;

/// How long the answer to an idempotency token is remembered.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_mins(1);

/// Keeps the state of every key, and changes it in atomic steps.
///
/// Made by [`open`], [`memory`] or [`RedisStore::new`]; the operations are this crate's, so it is not for others to
/// implement.
pub trait Store: Send + Sync + fmt::Debug + sealed::Sealed {
    /// Decides, and changes the states accordingly, in one step that nobody else's step comes between.
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts>;

    /// [`decide`](Self::decide) for one policy without a token, the common call.
    fn decide_one(&self, operation: &Operation<'_>) -> Result<Verdict> {
        let verdicts = self.decide(operation)?;
        verdicts.first().copied().ok_or_else(|| Error::internal("no verdict for the one policy"))
    }

    /// The refusal that [`decide`](Self::decide) would come to, where that is known without asking anybody.
    fn refusal(&self, operation: &Operation<'_>) -> Option<Verdicts> {
        let _ = operation;
        None
    }

    /// Decides each operation by itself, in order, with as few round trips as the store allows.
    fn decide_many(&self, operations: &[Operation<'_>]) -> Vec<Result<Verdicts>> {
        operations.iter().map(|operation| self.decide(operation)).collect()
    }

    /// Forgets a key, given as stored.
    fn reset(&self, key: &[u8]) -> Result<()>;

    /// Takes, extends, ends or counts the leases of a key, in one step.
    fn hold(&self, hold: &Hold<'_>) -> Result<Held>;

    /// How long a round trip takes. Fails with [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable).
    fn ping(&self) -> Result<Duration>;

    /// What kind of store it is.
    fn kind(&self) -> StoreKind;

    /// A number by which processes of this host know that they use the same servers, database and prefix; `None` for a
    /// store that is on this host itself, so that nothing is leased from it.
    fn lessor(&self) -> Option<u64> {
        None
    }

    /// The store for those who must not block, if it has anybody to wait for.
    #[cfg(feature = "tokio")]
    fn asynchronous(&self) -> Option<&dyn AsyncStore> {
        None
    }

    /// How full it is, for stores that hold their state themselves; nothing for a server.
    ///
    /// ```
    /// let info = ratelimit_core::store::memory(1_000)?.info().expect("an embedded store");
    /// assert!(info.slots >= 1_000 && info.used == 0 && info.evicted == 0);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    fn info(&self) -> Option<StoreInfo> {
        None
    }

    /// Whether callers are kept away from a server that does not answer.
    fn breaker(&self) -> BreakerState {
        BreakerState::Closed
    }

    /// Connections that wait to be used; none where there are no connections.
    fn idle_connections(&self) -> usize {
        0
    }
}

/// A future that may borrow.
#[cfg(feature = "tokio")]
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A store that has somebody to wait for, asked without blocking.
#[cfg(feature = "tokio")]
pub trait AsyncStore: Send + Sync + sealed::Sealed {
    /// [`Store::decide`].
    fn decide<'a>(&'a self, operation: &'a Operation<'a>) -> BoxFuture<'a, Result<Verdicts>>;

    /// [`Store::decide_many`].
    fn decide_many<'a>(&'a self, operations: &'a [Operation<'a>]) -> BoxFuture<'a, Vec<Result<Verdicts>>>;

    /// [`Store::reset`].
    fn reset<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<()>>;

    /// [`Store::hold`].
    fn hold<'a>(&'a self, hold: &'a Hold<'a>) -> BoxFuture<'a, Result<Held>>;

    /// [`Store::ping`].
    fn ping(&self) -> BoxFuture<'_, Result<Duration>>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// How full an embedded store is.
///
/// A look at every slot while others go on, so the numbers are about right at no single instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreInfo {
    /// States it can hold.
    pub slots: u64,
    /// States it holds that still count.
    pub used: u64,
    /// States that have expired; their slots are taken as others are needed.
    pub expired: u64,
    /// Live states forgotten to make room, since the store was made. Above zero it is too small for its keys.
    pub evicted: u64,
    /// Memory it may take, in bytes.
    pub bytes: u64,
}

/// What kind a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// Memory of this process.
    Memory,
    /// Memory shared by the processes of a host.
    Shared,
    /// One Redis or Valkey server.
    Redis,
    /// The primary that sentinels name.
    Sentinel,
    /// A cluster.
    Cluster,
}

impl StoreKind {
    /// The name used in every language: `memory`, `shared`, `redis`, `sentinel` or `cluster`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Shared => "shared",
            Self::Redis => "redis",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    /// Whether a decision may have to wait for somebody, so that a host language's lock should be let go.
    pub const fn blocks(self) -> bool {
        !matches!(self, Self::Memory | Self::Shared)
    }
}

/// Opens the store that a [DSN](Dsn) names. Connects on first use.
///
/// The same DSN gives the same store within a process, so that its connections and its memory are shared by everyone
/// who names it. Fails with [`InvalidStore`](crate::ErrorKind::InvalidStore), naming the part that is wrong.
///
/// ```
/// let store = ratelimit_core::store::open("memory:?max_keys=1000")?;
/// assert_eq!(store.kind().as_str(), "memory");
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn open(dsn: &str) -> Result<Arc<dyn Store>> {
    with_opened(|open| {
        if let Some(store) = open.by_text.get(dsn) {
            return Ok(store.clone());
        }
        let store = open.by_dsn(dsn.parse()?)?;
        open.by_text.insert(dsn.into(), store.clone());
        Ok(store)
    })
}

/// [`open`] for a DSN that is already taken apart.
pub fn open_parsed(dsn: Dsn) -> Result<Arc<dyn Store>> {
    with_opened(|open| open.by_dsn(dsn))
}

/// The default store: what `RATELIMIT_STORE` names, else what `setting` does (a host language's own setting), else
/// `shared:`.
pub fn open_default(setting: Option<&str>) -> Result<Arc<dyn Store>> {
    let variable = std::env::var(DEFAULT_STORE_VARIABLE).ok();
    open(variable.as_deref().into_iter().chain(setting).find(|dsn| !dsn.is_empty()).unwrap_or(DEFAULT_STORE))
}

/// How the stores opened by name are now.
pub(crate) struct States {
    pub(crate) open_breakers: u64,
    pub(crate) idle: u64,
    /// The shared stores together, if any is open: usually there is one, in the default place.
    pub(crate) shared: Option<StoreInfo>,
}

pub(crate) fn states() -> States {
    // Looked at outside the lock: a shared store counts its slots.
    let stores: Vec<Arc<dyn Store>> = with_opened(|open| open.by_dsn.values().cloned().collect());
    let open_breakers = stores.iter().filter(|store| store.breaker() == BreakerState::Open).count();
    let idle: usize = stores.iter().map(|store| store.idle_connections()).sum();
    let shared = stores.iter().filter(|store| store.kind() == StoreKind::Shared).filter_map(|store| store.info());
    let shared = shared.reduce(|sum, info| StoreInfo {
        slots: sum.slots + info.slots,
        used: sum.used + info.used,
        expired: sum.expired + info.expired,
        evicted: sum.evicted + info.evicted,
        bytes: sum.bytes + info.bytes,
    });
    States { open_breakers: open_breakers as u64, idle: idle as u64, shared }
}

/// Connections that the stores opened by name keep for their next use.
pub fn idle_connections() -> usize {
    with_opened(|open| open.by_dsn.values().map(|store| store.idle_connections()).sum())
}

/// A memory store of its own, shared with nobody who does not hold it.
pub fn memory(max_keys: usize) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(MemoryStore::new(max_keys)?))
}

/// A store in memory that the processes of this user share: in a file, or in the default place without a path; made with
/// so many bytes where there is none.
///
/// Fails with [`InvalidStore`](crate::ErrorKind::InvalidStore) as [`SharedStore::open`] does, and when `bytes` is not
/// between 1 MiB and 1 TiB.
pub fn shared(path: Option<&Path>, bytes: u64) -> Result<Arc<dyn Store>> {
    let bytes = dsn::shared_bytes("bytes", bytes)?;
    open_parsed(Dsn::Shared { path: path.map(Path::to_owned), bytes, timeout: dsn::DEFAULT_TIMEOUT })
}

/// The store that needs no server, for those whose server is away: what `RATELIMIT_STORE` names if that is an embedded
/// store, else the shared store in its default place, else, where there is no place for it, memory of this process.
pub(crate) fn embedded() -> Result<Arc<dyn Store>> {
    let variable = std::env::var(DEFAULT_STORE_VARIABLE).ok();
    match variable.map(|dsn| dsn.parse()) {
        Some(Ok(dsn @ (Dsn::Memory { .. } | Dsn::Shared { .. }))) => open_parsed(dsn),
        _ => open(DEFAULT_STORE).or_else(|_| open_parsed(Dsn::Memory { max_keys: DEFAULT_MAX_KEYS })),
    }
}
