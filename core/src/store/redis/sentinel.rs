//! The primary that sentinels name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::connection::{Connection, Failure};
use super::deadline::Deadline;
use super::fault;
use super::node::{Network, Node};
use super::redirect::of_host;
use super::resp::{Expected, Reply};
use super::setup::SetUp;
use crate::error::{Error, Result};
use crate::store::dsn::{Address, Protocol, Secret};

/// Which sentinels there are, and what they have said last.
#[derive(Debug)]
pub(super) struct Sentinel {
    sentinels: Vec<Address>,
    master: String,
    username: Option<String>,
    password: Option<Secret>,
    primary: ArcSwapOption<Node>,
    /// The primary did not answer as one: the sentinels are asked before the next call.
    doubted: AtomicBool,
    /// The sentinel to ask first: the one that answered last.
    first: AtomicUsize,
}

impl Sentinel {
    pub(super) fn new(
        sentinels: &[Address],
        master: &str,
        username: Option<&String>,
        password: Option<&Secret>,
    ) -> Self {
        Self {
            sentinels: sentinels.to_vec(),
            master: master.to_owned(),
            username: username.cloned(),
            password: password.cloned(),
            primary: ArcSwapOption::empty(),
            doubted: AtomicBool::new(false),
            first: AtomicUsize::new(0),
        }
    }

    /// The primary, as far as is known without asking.
    pub(super) fn known(&self) -> Option<Arc<Node>> {
        if self.doubted.load(Ordering::Relaxed) { None } else { self.last() }
    }

    /// The primary, be it by what was said long ago.
    pub(super) fn last(&self) -> Option<Arc<Node>> {
        self.primary.load_full()
    }

    /// The primary, as it is known or as the sentinels say now.
    pub(super) fn node(&self, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
        if let Some(node) = self.known() {
            return Ok(node);
        }
        let found = self.find(network, deadline);
        // What was known may still be right where nobody could be asked.
        found.or_else(|error| self.last().ok_or(error))
    }

    /// Asks the sentinels before the next call.
    pub(super) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    /// Asks the sentinels in turn until one names a primary.
    fn find(&self, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
        let mut last = None;
        for (index, address) in self.in_order() {
            // One that hangs leaves time for another.
            let limit = deadline.of_connecting(Instant::now()) / 2;
            match self.ask(address, network, deadline, limit) {
                Ok(Some(found)) => {
                    self.believe(index);
                    return Ok(self.named(found, network));
                }
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
        }
        Err(self.nobody(last))
    }

    /// The sentinels by number, in the order in which to ask: the one that answered last comes first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (usize, &Address)> {
        let (count, first) = (self.sentinels.len(), self.first.load(Ordering::Relaxed));
        (0..count).map(move |step| (first + step) % count).map(|index| (index, &self.sentinels[index]))
    }

    /// Notes which sentinel has answered.
    pub(super) fn believe(&self, index: usize) {
        self.first.store(index, Ordering::Relaxed);
    }

    /// No sentinel has named a primary.
    pub(super) fn nobody(&self, last: Option<Error>) -> Error {
        let (count, master) = (self.sentinels.len(), &self.master);
        fault::no_server(&format!("none of the {count} sentinels names a primary for {master:?}"), last)
    }

    /// The node at the address that a sentinel has named; the known one keeps its connections.
    pub(super) fn named(&self, address: Address, network: &Network) -> Arc<Node> {
        let node = match self.last() {
            Some(node) if node.address == address => node,
            _ => Arc::new(Node::new(address, network, true)),
        };
        self.primary.store(Some(node.clone()));
        self.doubted.store(false, Ordering::Relaxed);
        node
    }

    fn ask(
        &self,
        sentinel: &Address,
        network: &Network,
        deadline: &Deadline,
        limit: Duration,
    ) -> Result<Option<Address>> {
        let mut connection = Connection::open(sentinel, network.tls.as_ref(), &self.set_up(network), limit)?;
        connection.command = self.question();
        let reply = connection.exchange(deadline, Instant::now(), Expected::Report).map_err(Failure::into_error)?;
        read(&reply, sentinel)
    }

    pub(super) fn set_up<'a>(&'a self, network: &'a Network) -> SetUp<'a> {
        SetUp {
            username: self.username.as_deref(),
            password: self.password.as_ref(),
            database: 0,
            protocol: Protocol::Resp2,
            client_name: network.options.client_name.as_deref(),
            of_primary: false,
        }
    }

    /// The command that asks for the primary.
    pub(super) fn question(&self) -> Vec<u8> {
        ::redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master).get_packed_command()
    }
}

/// What a sentinel says: an address, or that it watches nothing of that name.
pub(super) fn read(reply: &Reply, sentinel: &Address) -> Result<Option<Address>> {
    let unknown = || fault::protocol(sentinel, "with what is no address of a primary");
    match reply {
        Reply::Null => Ok(None),
        Reply::Error(line) => Err(fault::server(sentinel, line)),
        Reply::List(parts) => match parts.as_slice() {
            [Reply::Bulk(host), Reply::Bulk(port)] => {
                let (host, port) = (std::str::from_utf8(host), std::str::from_utf8(port));
                let (Ok(host), Some(port)) = (host, port.ok().and_then(|port| port.parse().ok())) else {
                    return Err(unknown());
                };
                of_host(host, port, sentinel).map(Some).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        },
        _ => Err(unknown()),
    }
}
