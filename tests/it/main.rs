//! What must be true of ratelimit, as one binary.

/// Every vector, on every store.
mod vectors;
