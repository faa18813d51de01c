//! Which server a command goes to, found without blocking.

use std::sync::Arc;
use std::time::Instant;

use super::link::Link;
use crate::error::Result;
use crate::store::dsn::Address;
use crate::store::redis::cluster::{self, Cluster};
use crate::store::redis::connection::Failure;
use crate::store::redis::deadline::Deadline;
use crate::store::redis::fault;
use crate::store::redis::node::{Network, Node};
use crate::store::redis::resp::Expected;
use crate::store::redis::route::{Route, Target};
use crate::store::redis::sentinel::{self, Sentinel};
use crate::store::redis::slot;

impl Route {
    /// [`target`](Self::target) without blocking.
    pub(super) async fn find(&self, key: Option<&[u8]>, network: &Network, deadline: &Deadline) -> Result<Target<'_>> {
        let node = match self {
            Self::One(node) => return Ok(Target::Fixed(node)),
            Self::Sentinel(sentinel) => primary(sentinel, network, deadline).await,
            Self::Cluster(cluster) => owner(cluster, key.map_or(0, slot::of), network, deadline).await,
        };
        node.map(Target::Found)
    }

    /// [`instead_of`](Self::instead_of) without blocking.
    pub(super) async fn find_instead_of(
        &self,
        target: &Node,
        key: Option<&[u8]>,
        network: &Network,
        deadline: &Deadline,
    ) -> Option<Target<'_>> {
        if !self.has_others() {
            return None;
        }
        self.find(key, network, deadline).await.ok().filter(|found| found.address != target.address)
    }
}

async fn primary(sentinel: &Sentinel, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
    if let Some(node) = sentinel.known() {
        return Ok(node);
    }
    let mut last = None;
    for (index, address) in sentinel.in_order() {
        match ask_sentinel(sentinel, address, network, deadline).await {
            Ok(Some(found)) => {
                sentinel.believe(index);
                return Ok(sentinel.named(found, network));
            }
            Ok(None) => {}
            Err(error) => last = Some(error),
        }
    }
    sentinel.last().ok_or_else(|| sentinel.nobody(last))
}

async fn ask_sentinel(
    sentinel: &Sentinel,
    address: &Address,
    network: &Network,
    deadline: &Deadline,
) -> Result<Option<Address>> {
    let limit = deadline.of_connecting(Instant::now()) / 2;
    let silence = network.options.timeout.min(limit);
    let link = Link::open(address, network.tls.as_ref(), &sentinel.set_up(network), limit, silence).await?;
    let replies = link.exchange(sentinel.question(), 1, Expected::Report).await.map_err(Failure::into_error)?;
    sentinel::read(&replies[0], address)
}

async fn owner(cluster: &Cluster, slot: u16, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
    if let Some(node) = cluster.known(slot) {
        return Ok(node);
    }
    let mut last = None;
    for node in cluster.candidates(network) {
        match ask_node(&node, network, &deadline.halved(Instant::now())).await {
            Ok(ranges) => {
                cluster.learn(&ranges, network);
                last = None;
                break;
            }
            Err(error) => {
                cluster.pass_over();
                last = Some(error);
            }
        }
    }
    cluster.owner(slot).ok_or_else(|| match last {
        Some(error) => fault::no_server(cluster::NO_MAP, Some(error)),
        None => cluster::nobody(slot),
    })
}

async fn ask_node(node: &Node, network: &Network, deadline: &Deadline) -> Result<cluster::Ranges> {
    let mut question = Vec::new();
    cluster::question(&mut question);
    let replies = tokio::time::timeout(
        deadline.left(Instant::now()),
        node.exchange(network, deadline, &question, 1, Expected::Report),
    );
    let late = |_| fault::late_answer(&node.address, network.options.timeout);
    let replies = replies.await.map_err(late)?.map_err(Failure::into_error)?;
    cluster::read(&replies[0], &node.address)
}
