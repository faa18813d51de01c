//! Which node of a cluster has which slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;

use super::connection::Failure;
use super::deadline::Deadline;
use super::fault;
use super::node::{Network, Node};
use super::redirect::of_host;
use super::resp::{Expected, Reply};
use super::slot::SLOTS;
use crate::error::{Error, Result, StoreErrorKind};
use crate::store::dsn::Address;

/// Nobody who was asked for the map had one.
pub(super) const NO_MAP: &str = "no node of the cluster tells which has what";

/// The owner of a slot that nobody has.
const NOBODY: u16 = u16::MAX;

/// The nodes of a cluster, as one of them has told last, and as they have corrected it since.
#[derive(Debug)]
pub(super) struct Cluster {
    seeds: Vec<Address>,
    map: ArcSwapOption<Map>,
    /// A node was away or had lost a slot: the map is asked for anew before the next call.
    stale: AtomicBool,
    /// The node to ask first; the next one after a failure.
    first: AtomicUsize,
}

#[derive(Debug)]
struct Map {
    nodes: Vec<Arc<Node>>,
    /// Per slot the index of its node.
    owners: Box<[AtomicU16]>,
}

/// What a node says: ranges of slots, each with the address of its primary.
pub(super) type Ranges = Vec<(u16, u16, Address)>;

impl Map {
    fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.owners[usize::from(slot)].load(Ordering::Relaxed)))
    }

    fn position(&self, address: &Address) -> Option<u16> {
        self.nodes.iter().position(|node| node.address == *address).and_then(|at| u16::try_from(at).ok())
    }
}

impl Cluster {
    pub(super) fn new(seeds: &[Address]) -> Self {
        Self {
            seeds: seeds.to_vec(),
            map: ArcSwapOption::empty(),
            stale: AtomicBool::new(false),
            first: AtomicUsize::new(0),
        }
    }

    /// The node that has a slot, as far as is known without asking.
    pub(super) fn known(&self, slot: u16) -> Option<Arc<Node>> {
        if self.stale.load(Ordering::Relaxed) {
            return None;
        }
        self.owner(slot)
    }

    /// The node that has a slot.
    pub(super) fn node(&self, slot: u16, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
        if let Some(node) = self.known(slot) {
            return Ok(node);
        }
        let refreshed = self.refresh(network, deadline);
        // What was known may still be right where nobody could be asked.
        self.owner(slot).ok_or_else(|| refreshed.err().unwrap_or_else(|| nobody(slot)))
    }

    /// The owner of a slot, be it by an old map.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.map.load().as_ref().and_then(|map| map.owner(slot).cloned())
    }

    /// Any node, for what concerns no key.
    pub(super) fn any(&self, network: &Network, deadline: &Deadline) -> Result<Arc<Node>> {
        if self.map.load().is_none() {
            self.refresh(network, deadline)?;
        }
        self.map.load().as_ref().and_then(|map| map.nodes.first().cloned()).ok_or_else(|| nobody(0))
    }

    /// All nodes that are known.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.load().as_ref().map_or_else(Vec::new, |map| map.nodes.clone())
    }

    /// Asks for the map anew before the next call.
    pub(super) fn doubt(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Notes that a slot is at an address now, and returns its node. Of a node that is not known yet the map knows
    /// nothing else either, so it is asked for before the next call.
    pub(super) fn moved(&self, slot: u16, address: &Address, network: &Network) -> Arc<Node> {
        let map = self.map.load();
        if let Some(map) = map.as_ref()
            && let Some(at) = map.position(address)
        {
            map.owners[usize::from(slot)].store(at, Ordering::Relaxed);
            return map.nodes[usize::from(at)].clone();
        }
        self.doubt();
        Arc::new(Node::new(address.clone(), network, false))
    }

    /// The node at an address.
    pub(super) fn at(&self, address: &Address, network: &Network) -> Arc<Node> {
        let map = self.map.load();
        let known = map.as_ref().and_then(|map| map.nodes.iter().find(|node| node.address == *address).cloned());
        known.unwrap_or_else(|| Arc::new(Node::new(address.clone(), network, false)))
    }

    /// Asks the nodes in turn until one tells the map.
    fn refresh(&self, network: &Network, deadline: &Deadline) -> Result<()> {
        let candidates = self.candidates(network);
        let mut last = None;
        for (step, node) in candidates.iter().enumerate() {
            if step > 0 && deadline.left(Instant::now()).is_zero() {
                break;
            }
            match ask(node, network, &deadline.halved(Instant::now())) {
                Ok(ranges) => {
                    self.learn(&ranges, network);
                    return Ok(());
                }
                Err(error) => {
                    // The next call begins with another.
                    self.pass_over();
                    last = Some(error);
                }
            }
        }
        Err(fault::no_server(NO_MAP, last))
    }

    /// Who can be asked for the map, in the order in which to ask: the known nodes from where the last answer came, then
    /// the seeds.
    pub(super) fn candidates(&self, network: &Network) -> Vec<Arc<Node>> {
        let mut candidates = self.nodes();
        let strangers = self.seeds.iter().filter(|seed| candidates.iter().all(|node| node.address != **seed));
        let strangers: Vec<_> = strangers.map(|seed| Arc::new(Node::new(seed.clone(), network, false))).collect();
        candidates.extend(strangers);
        let first = self.first.load(Ordering::Relaxed) % candidates.len().max(1);
        candidates.rotate_left(first);
        candidates
    }

    /// Notes that the node asked first did not answer.
    pub(super) fn pass_over(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes over what a node has told; nodes that stay keep their connections.
    pub(super) fn learn(&self, ranges: &Ranges, network: &Network) {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let owners: Box<[AtomicU16]> = (0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect();
        for (first, last, address) in ranges {
            let at = nodes.iter().position(|node| node.address == *address).unwrap_or_else(|| {
                nodes.push(self.at(address, network));
                nodes.len() - 1
            });
            let at = u16::try_from(at).unwrap_or(NOBODY);
            owners[usize::from(*first)..=usize::from(*last)]
                .iter()
                .for_each(|owner| owner.store(at, Ordering::Relaxed));
        }
        self.stale.store(false, Ordering::Relaxed);
        self.map.store(Some(Arc::new(Map { nodes, owners })));
    }
}

/// The command that asks a node for the map.
pub(super) fn question(command: &mut Vec<u8>) {
    command.extend_from_slice(b"*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
}

fn ask(node: &Node, network: &Network, deadline: &Deadline) -> Result<Ranges> {
    let asked = node.on_connection(network, deadline, Instant::now(), |connection, now| {
        connection.command.clear();
        question(&mut connection.command);
        connection.exchange(deadline, now, Expected::Report)
    });
    read(&asked.map_err(Failure::into_error)?, &node.address)
}

/// What a node says about the slots.
pub(super) fn read(reply: &Reply, node: &Address) -> Result<Ranges> {
    match reply {
        Reply::Error(line) => Err(fault::server(node, line)),
        Reply::List(ranges) if !ranges.is_empty() => {
            let ranges: Option<Ranges> = ranges.iter().map(|range| read_range(range, node)).collect();
            ranges.ok_or_else(|| fault::protocol(node, "with what is no map of a cluster"))
        }
        Reply::List(_) => Err(Error::unavailable(
            StoreErrorKind::Loading,
            format!("redis at {node} knows no node of the cluster that has a slot"),
        )),
        _ => Err(fault::protocol(node, "with what is no map of a cluster")),
    }
}

/// First slot, last slot, primary, replicas.
fn read_range(range: &Reply, asked: &Address) -> Option<(u16, u16, Address)> {
    let Reply::List(parts) = range else { return None };
    let [Reply::Integer(first), Reply::Integer(last), Reply::List(primary), ..] = parts.as_slice() else { return None };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < SLOTS);
    let (first, last) = (slot(first)?, slot(last)?);
    let (host, port) = match primary.as_slice() {
        [Reply::Bulk(host), Reply::Integer(port), ..] => (std::str::from_utf8(host).ok()?, *port),
        [Reply::Null, Reply::Integer(port), ..] => ("", *port),
        _ => return None,
    };
    let address = of_host(host, u16::try_from(port).ok()?, asked)?;
    (first <= last).then_some((first, last, address))
}

pub(super) fn nobody(slot: u16) -> Error {
    Error::unavailable(StoreErrorKind::Loading, format!("no node of the cluster has slot {slot}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::resp::{Parsed, parse};

    fn of(bytes: &[u8]) -> Result<Ranges> {
        let Parsed::Complete(reply, _) = parse(bytes, Expected::Report) else { panic!("a reply") };
        read(&reply, &Address::Tcp("seed".to_owned(), 1))
    }

    #[test]
    fn a_map_is_read() {
        let ranges = of(b"*2\r\n*3\r\n:0\r\n:99\r\n*3\r\n$8\r\n10.0.0.1\r\n:7\r\n$2\r\nid\r\n*4\r\n:100\r\n:16383\r\n*2\r\n$0\r\n\r\n:8\r\n*2\r\n$1\r\nr\r\n:9\r\n");
        let tcp = |host: &str, port| Address::Tcp(host.to_owned(), port);
        assert_eq!(ranges, Ok(vec![(0, 99, tcp("10.0.0.1", 7)), (100, 16383, tcp("seed", 8))]));
    }

    #[test]
    fn a_map_without_sense_is_refused() {
        for bytes in [
            &b"*0\r\n"[..],
            b"+OK\r\n",
            b"-ERR This instance has cluster support disabled\r\n",
            b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            b"*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            b"*1\r\n*3\r\n:2\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
            b"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:0\r\n",
            b"*1\r\n*2\r\n:0\r\n:1\r\n",
            b"*1\r\n:0\r\n",
        ] {
            assert!(of(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
