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

/// One holder at a time.
mod locks;

/// So many under way at a time.
mod in_flight;

/// What stands in the place of a shared file, and what stands in the file.
mod shared_file;

/// Where the file is when nobody names it, on systems of all kinds.
mod shared_places;

/// Processes that share a file, and are killed or stopped.
mod shared_processes;

/// How much an embedded store holds, and what it forgets first.
mod table_bounds;

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

/// Deciding without blocking, on tokio.
mod redis_async;

/// Encrypted connections.
mod redis_tls;

/// Refusals that need no server.
mod deny_cache;

/// Units that a host spends without asking the server.
mod leased_units;

/// The same by several processes that die, in windows of the server's clock.
mod leased_processes;

/// The server's side of it, the script against the model.
mod leased_twins;

/// A server that keeps its callers waiting.
mod breaker;

/// What limiters have done, in numbers.
mod metrics;

/// What is told of decisions and of failures, to whom and when.
mod events;

/// The dashboard and the alerts over those numbers.
mod monitoring;

/// What is answered when the store is not there.
mod failure_rule;

/// One secret of the key hash takes over from another.
mod secret_rotation;

/// Decisions as header fields and as refusals.
mod headers;

/// Who a request comes from, whatever it says.
mod client_ip;

/// A service of tower behind a limiter.
mod tower_layer;

/// The scripts as texts.
mod scripts;

/// What responses of real APIs say about their limits.
mod outbound_headers;

/// Calls to an API, and what its answers do to the next ones.
mod outbound_governor;

/// Workers that share what one of them has learnt.
mod outbound_workers;

mod outbound_client;

/// What a governor does while its store is away, and what it counts.
mod outbound_outage;

/// What is learnt of an API, on Redis and in the models: the same to the bit.
mod outbound_stores;

/// Names and numbers that stand in several places and have to agree.
mod tidy;
