//! What must be true of ratelimit, as one binary.

/// Every vector, on every store.
mod vectors;

/// Random histories: the script on a real Redis against the model, to the bit.
mod differential;

/// The laws of a decision, over random policies and histories.
mod laws;

/// Reservations, waits, refunds, tokens.
mod verbs;

/// Several policies in one limiter: all or nothing.
mod several;

/// What went wrong elsewhere, as small stories, in every algorithm.
mod stories;

/// Many callers at once on one key.
mod concurrency;

/// What is refused before a store is asked.
mod arguments;

/// What a server sees: keys, expiry, round trips.
mod redis_keys;

/// A server that forgets its scripts, restarts, goes away or is full.
mod redis_life;

/// A network that drops, delays, truncates and garbles.
mod redis_faults;

/// The primary that sentinels name.
mod redis_sentinel;

/// The nodes of a cluster, and slots that move between them.
mod redis_cluster;

/// Encrypted connections.
mod redis_tls;

/// What is answered when the store is not there.
mod failure_rule;

/// The scripts as texts.
mod scripts;

/// What responses of real APIs say about their limits.
mod outbound_headers;

/// Calls to an API, and what its answers do to the next ones.
mod outbound_governor;

/// What is learnt of an API, on Redis and in the models: the same to the bit.
mod outbound_stores;

/// Names and numbers that stand in several places and have to agree.
mod tidy;
