//! What is known of a bucket.

use pyo3::prelude::*;

use crate::core::clock::us_to_seconds;
use crate::core::outbound;

/// What is known of a bucket. Times are in seconds; what is not known is None.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs.outbound")]
pub(crate) struct BucketState(pub(super) outbound::BucketState);

#[pymethods]
impl BucketState {
    /// Units per window.
    #[getter]
    fn limit(&self) -> Option<u64> {
        self.0.limit
    }

    /// Units left.
    #[getter]
    fn remaining(&self) -> Option<u64> {
        self.0.remaining
    }

    /// Until it is whole again.
    #[getter]
    fn reset_after(&self) -> Option<f64> {
        self.0.reset_after_us.map(us_to_seconds)
    }

    /// Until the next request may go; 0 when it may go now.
    #[getter]
    fn retry_after(&self) -> f64 {
        us_to_seconds(self.0.retry_after_us)
    }
}
