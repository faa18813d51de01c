//! Which server a command goes to.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::cluster::Cluster;
use super::deadline::Deadline;
use super::node::{Network, Node};
use super::sentinel::Sentinel;
use super::slot;
use crate::error::{Error, ErrorKind, Result, StoreErrorKind};
use crate::resilience::BreakerState;
use crate::store::StoreKind;
use crate::store::dsn::{Address, Servers};

/// The servers of a store, and how the right one is found.
#[derive(Debug)]
pub(super) enum Route {
    One(Box<Node>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// A server that was found; the only one there is need not be counted.
#[derive(Debug)]
pub(super) enum Target<'a> {
    Fixed(&'a Node),
    Found(Arc<Node>),
}

impl Deref for Target<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Self::Fixed(node) => node,
            Self::Found(node) => node,
        }
    }
}

impl Route {
    pub(super) fn new(network: &Network) -> Self {
        match &network.options.servers {
            Servers::One(address) => Self::One(Box::new(Node::new(address.clone(), network, false))),
            Servers::Sentinel { sentinels, master, username, password } => {
                Self::Sentinel(Sentinel::new(sentinels, master, username.as_ref(), password.as_ref()))
            }
            Servers::Cluster { seeds } => Self::Cluster(Cluster::new(seeds)),
        }
    }

    pub(super) fn kind(&self) -> StoreKind {
        match self {
            Self::One(_) => StoreKind::Redis,
            Self::Sentinel(_) => StoreKind::Sentinel,
            Self::Cluster(_) => StoreKind::Cluster,
        }
    }

    /// The server for a key as far as is known without asking anybody, be it by what was said long ago.
    pub(super) fn last_target(&self, key: &[u8]) -> Option<Target<'_>> {
        match self {
            Self::One(node) => Some(Target::Fixed(node)),
            Self::Sentinel(sentinel) => sentinel.last().map(Target::Found),
            Self::Cluster(cluster) => cluster.owner(slot::of(key)).map(Target::Found),
        }
    }

    /// Fails where the server for a key has kept too many waiting to be asked now.
    pub(super) fn admit(&self, key: Option<&[u8]>, network: &Network, patience: Duration) -> Result<()> {
        // What concerns no key is for those who want to know how the server is.
        key.and_then(|key| self.last_target(key)).map_or(Ok(()), |target| target.admit(network, patience))
    }

    /// Takes note of how a call for a key has ended.
    pub(super) fn note(&self, key: Option<&[u8]>, error: Option<&Error>) {
        if let Some(target) = key.and_then(|key| self.last_target(key)) {
            target.note(error);
        }
    }

    pub(super) fn breaker_state(&self) -> BreakerState {
        match self {
            Self::One(node) => node.breaker_state(),
            Self::Sentinel(sentinel) => sentinel.last().map_or(BreakerState::Closed, |node| node.breaker_state()),
            Self::Cluster(cluster) => {
                let states = cluster.nodes().into_iter().map(|node| node.breaker_state());
                states.max().unwrap_or(BreakerState::Closed)
            }
        }
    }

    /// The server for a key, or for none in particular.
    pub(super) fn target(&self, key: Option<&[u8]>, network: &Network, deadline: &Deadline) -> Result<Target<'_>> {
        match self {
            Self::One(node) => Ok(Target::Fixed(node)),
            Self::Sentinel(sentinel) => sentinel.node(network, deadline).map(Target::Found),
            Self::Cluster(cluster) => match key {
                Some(key) => cluster.node(slot::of(key), network, deadline),
                None => cluster.any(network, deadline),
            }
            .map(Target::Found),
        }
    }

    /// Whether there may be another server for a key.
    pub(super) fn has_others(&self) -> bool {
        !matches!(self, Self::One(_))
    }

    /// Another server for a key whose server took nothing of the command, if there is one now.
    pub(super) fn instead_of(
        &self,
        target: &Node,
        error: &Error,
        key: Option<&[u8]>,
        network: &Network,
        deadline: &Deadline,
    ) -> Option<Target<'_>> {
        self.doubt(error);
        if !self.has_others() {
            return None;
        }
        self.target(key, network, deadline).ok().filter(|found| found.address != target.address)
    }

    /// Notes that a server may no longer be the right one.
    pub(super) fn doubt(&self, error: &Error) {
        match self {
            // Its name may lead elsewhere by now, so no old connection is kept.
            Self::One(node) => {
                if matches!(error.store_kind(), Some(StoreErrorKind::Readonly | StoreErrorKind::Loading)) {
                    node.pool.clear();
                }
            }
            Self::Sentinel(sentinel) => sentinel.doubt(),
            Self::Cluster(cluster) => cluster.doubt(),
        }
    }

    /// Where a slot has gone; none where there are no slots.
    pub(super) fn moved(&self, slot: u16, address: &Address, network: &Network) -> Option<Target<'_>> {
        match self {
            Self::Cluster(cluster) => Some(Target::Found(cluster.moved(slot, address, network))),
            _ => None,
        }
    }

    /// A node by its address; none where there are no others.
    pub(super) fn at(&self, address: &Address, network: &Network) -> Option<Target<'_>> {
        match self {
            Self::Cluster(cluster) => Some(Target::Found(cluster.at(address, network))),
            _ => None,
        }
    }

    /// Refuses keys of one call that no single node of a cluster can have.
    pub(super) fn check_keys<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> Result<()> {
        if let Self::Cluster(_) = self
            && let Some(first) = keys.next().map(slot::of)
            && keys.any(|key| slot::of(key) != first)
        {
            let detail = "must be one for all policies on a cluster, where a node has the keys of one slot only";
            return Err(Error::argument_error(ErrorKind::InvalidArgument, "key", detail));
        }
        Ok(())
    }

    pub(super) fn idle_connections(&self) -> usize {
        match self {
            Self::One(node) => node.pool.len(),
            Self::Sentinel(sentinel) => sentinel.last().map_or(0, |node| node.pool.len()),
            Self::Cluster(cluster) => cluster.nodes().iter().map(|node| node.pool.len()).sum(),
        }
    }
}
