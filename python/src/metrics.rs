//! What limiters have done, as text for a monitoring system.

use pyo3::prelude::*;

use crate::core;

/// All metrics as Prometheus text: calls let pass and refused by policy and source, errors of the store by kind, how long
/// servers took to answer, and how the stores are. No key is in it.
///
/// The counters are those of this process and of the processes it forks after the import, so workers of a server that
/// loads the application before it forks tell their sum.
///
/// >>> "rate_limiter_redis_idle_connections" in metrics()
/// True
#[pyfunction]
pub(crate) fn metrics(py: Python<'_>) -> String {
    py.detach(core::metrics::text)
}
