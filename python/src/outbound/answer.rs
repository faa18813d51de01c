//! What a governor says: before a request, and after it.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::observation::Observation;
use crate::core::outbound;

/// A request on its way. Holds no credential and no URL.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct Ticket(Mutex<Box<outbound::Ticket>>);

impl Ticket {
    pub(crate) fn new(ticket: Box<outbound::Ticket>) -> Self {
        Self(Mutex::new(ticket))
    }

    pub(crate) fn take(&self) -> Box<outbound::Ticket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, ticket: Box<outbound::Ticket>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ticket;
    }
}

#[pymethods]
impl Ticket {
    /// How often the request has been sent again.
    #[getter]
    fn attempt(&self) -> u32 {
        self.take().attempt()
    }

    /// Where it goes, as logs may show it: `GET api.example.com /users/:id`.
    #[getter]
    fn route(&self) -> String {
        self.take().route().to_owned()
    }

    /// Whether the store gave no answer when it was last asked for the request, so that `on_error` decided.
    #[getter]
    fn degraded(&self) -> bool {
        self.take().degraded()
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.outbound.Ticket {}>", self.take().route())
    }
}

/// Send the request.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "ratelimit_rs.outbound")]
pub(crate) struct Go {
    /// To be handed to `after`.
    pub(crate) ticket: Py<Ticket>,
}

/// Sleep for `delay` seconds, then ask `resume`. Nothing has been taken.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "ratelimit_rs.outbound")]
pub(crate) struct Wait {
    /// In seconds.
    pub(crate) delay: f64,
    /// What it waits for: `cooldown`, `learning`, `quota`, `limit`, `global`, `invalid_requests` or `store`.
    pub(crate) reason: &'static str,
    /// To be handed to `resume`.
    pub(crate) ticket: Py<Ticket>,
}

/// Do not send the request: the wait would be longer than `max_delay`. Nothing has been taken.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "ratelimit_rs.outbound")]
pub(crate) struct Refuse {
    /// The wait that it would have been, in seconds.
    pub(crate) delay: f64,
    /// What it would have waited for.
    pub(crate) reason: &'static str,
}

/// Hand the response to the caller.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "ratelimit_rs.outbound")]
pub(crate) struct Return {
    /// What it told about limits.
    pub(crate) observation: Option<Py<Observation>>,
    /// Whether it was the invalid request after which none is sent for a while.
    pub(crate) invalid_limit_reached: bool,
}

/// Sleep for `delay` seconds, ask `resume`, and send the request again.
#[derive(Debug)]
#[pyclass(frozen, get_all, module = "ratelimit_rs.outbound")]
pub(crate) struct Retry {
    /// In seconds.
    pub(crate) delay: f64,
    /// Which retry it will be, from 1.
    pub(crate) attempt: u32,
    /// To be handed to `resume`.
    pub(crate) ticket: Py<Ticket>,
    /// What the response told about limits.
    pub(crate) observation: Option<Py<Observation>>,
    /// Whether it was the invalid request after which none is sent for a while.
    pub(crate) invalid_limit_reached: bool,
}

/// Raise an error: the request was refused, and sending it again is not allowed or would take too long.
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs.outbound")]
pub(crate) struct Fail {
    /// When it might pass, in seconds from now.
    #[pyo3(get)]
    pub(crate) retry_after: f64,
    /// Whether everything of this identity is refused.
    #[pyo3(get)]
    pub(crate) is_global: bool,
    /// Whether the wait is longer than `max_delay`, and not the retries used up.
    #[pyo3(get)]
    pub(crate) too_long: bool,
    /// What the response told about limits.
    #[pyo3(get)]
    pub(crate) observation: Option<Py<Observation>>,
    /// Whether it was the invalid request after which none is sent for a while.
    #[pyo3(get)]
    pub(crate) invalid_limit_reached: bool,
}
