//! The pure models: (state, now, cost) → (state, verdict).
//!
//! Nothing here knows a store, a key or a clock. Each file has a twin of the same base name in `lua/`, which Redis
//! runs; the two give the same answer to the bit, because both count in integers below 2^53.

pub mod ratio;

pub mod token_bucket;

pub use token_bucket::TokenBucket;

/// Every number of a model is at most this, so that a Lua number (a double) holds it exactly.
pub const MAX_EXACT: u64 = 1 << 53;

/// The largest limit, capacity or cost.
pub const MAX_UNITS: u64 = i32::MAX as u64;

/// A wait that never ends: the cost is above what can ever be there.
pub const NEVER_US: u64 = u64::MAX;

/// What a store keeps for one key: three words that only the algorithm understands, and when they stop to matter.
///
/// From `whole_at_us` on, the state is that of a key never seen, whatever the policy of the next call; a store may drop
/// it then, and whether it did can't be told from the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The algorithm's own words.
    pub words: [u64; 3],
    /// The instant at which this equals no state at all.
    pub whole_at_us: u64,
}

/// What a step does to the stored state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Leaves it as it is.
    Keep,
    /// Replaces it.
    Put(State),
    /// Removes it, because it is whole.
    Clear,
}

/// The numbers of one decision, all from the same atomic step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cost passes.
    pub allowed: bool,
    /// The largest cost that would pass now.
    pub remaining: u64,
    /// Until the same call passes; 0 when allowed, [`NEVER_US`] when it never can.
    pub retry_after_us: u64,
    /// Until the budget is whole again.
    pub reset_after_us: u64,
    /// Until the caller may start, for the verbs that hand out slots.
    pub delay_us: u64,
}

/// Whether a step takes the cost or only looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Take the cost if it passes.
    Allow,
    /// Take nothing.
    Peek,
}
