//! One server, and the connections to it.

use std::time::{Duration, Instant};

use super::connection::{Connection, Failure};
use super::deadline::Deadline;
use super::knock::knock;
use super::pool::Pool;
use super::setup::SetUp;
use super::tls::Tls;
use crate::error::{Error, Result};
use crate::resilience::{Breaker, BreakerState};
use crate::store::dsn::{Address, RedisOptions};

/// How all servers of one store are talked to.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) options: RedisOptions,
    pub(super) tls: Option<Tls>,
}

/// A data server, with its idle connections.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) pool: Pool,
    /// Whether a new connection has to make sure that it leads to a primary.
    pub(super) of_primary: bool,
    breaker: Breaker,
    /// The connection that calls which do not block share.
    #[cfg(feature = "tokio")]
    pub(super) shared: super::aio::node::Shared,
}

impl Node {
    pub(super) fn new(address: Address, network: &Network, of_primary: bool) -> Self {
        Self {
            address,
            pool: Pool::new(network.options.pool),
            of_primary,
            breaker: Breaker::new(),
            #[cfg(feature = "tokio")]
            shared: super::aio::node::Shared::default(),
        }
    }

    /// Fails where the server has kept too many waiting to be asked now. Looks for a sign of life with `patience`.
    pub(super) fn admit(&self, network: &Network, patience: Duration) -> Result<()> {
        self.breaker.admit(&Redis(&self.address), patience, || knock(&self.address, network))
    }

    /// Takes note of how a call to it has ended.
    pub(super) fn note(&self, error: Option<&Error>) {
        self.breaker.note(error);
    }

    pub(super) fn breaker_state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// A pooled connection that is good, if there is one.
    pub(super) fn pooled(&self, now: Instant) -> Option<Box<Connection>> {
        std::iter::from_fn(|| self.pool.take()).find(|connection| !connection.is_stale(now))
    }

    /// A new connection.
    pub(super) fn connect(&self, network: &Network, deadline: &Deadline) -> Result<Box<Connection>> {
        let limit = deadline.of_connecting(Instant::now());
        let set_up = SetUp::of_data(&network.options, self.of_primary);
        Connection::open(&self.address, network.tls.as_ref(), &set_up, limit).map(Box::new)
    }

    /// Runs exchanges on one connection, a pooled one if there is a good one.
    ///
    /// `NotSent` in the outcome means that no server took the command.
    pub(super) fn on_connection<R>(
        &self,
        network: &Network,
        deadline: &Deadline,
        now: Instant,
        mut exchanges: impl FnMut(&mut Connection, Instant) -> std::result::Result<R, Failure>,
    ) -> std::result::Result<R, Failure> {
        while let Some(mut connection) = self.pooled(now) {
            match exchanges(&mut connection, now) {
                Ok(result) => {
                    self.pool.put(connection);
                    return Ok(result);
                }
                // The other idle connections are as old and as dead; a new one tells whether the server is back.
                Err(Failure::NotSent(_)) => self.pool.clear(),
                Err(failure) => return Err(failure),
            }
        }
        let mut connection = self.connect(network, deadline).map_err(Failure::NotSent)?;
        let result = exchanges(&mut connection, Instant::now())?;
        self.pool.put(connection);
        Ok(result)
    }
}

/// A server as errors call it.
struct Redis<'a>(&'a Address);

impl std::fmt::Display for Redis<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "redis at {}", self.0)
    }
}
