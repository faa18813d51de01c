//! A real Redis Cluster of a test's own.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{RedisServer, eventually};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16384;

/// How long a node may be silent until the others give it up, in milliseconds.
const NODE_TIMEOUT_MS: &str = "1000";

/// A cluster on free ports: primaries with equal shares of the slots, and as many replicas, if there are to be any.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
    primaries: usize,
}

impl Cluster {
    /// A cluster of `primaries` nodes without replicas.
    pub fn start(primaries: usize) -> Self {
        Self::start_with(primaries, false, &[])
    }

    /// A cluster with a replica for each primary, if wanted, and options for each node's command line.
    ///
    /// # Panics
    ///
    /// When it does not come together.
    pub fn start_with(primaries: usize, replicas: bool, options: &[&str]) -> Self {
        let count = if replicas { primaries * 2 } else { primaries };
        let mut all = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS];
        // A replica asks for votes at once, whatever it may have missed.
        all.extend(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"]);
        all.extend(options);
        let nodes: Vec<_> = (0..count).map(|_| RedisServer::start_on(bus_port(), &all)).collect();
        let cluster = Self { nodes, primaries };
        for (index, node) in cluster.nodes.iter().enumerate() {
            let mut connection = node.connection();
            redis::cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(index + 1).exec(&mut connection).expect("an epoch");
        }
        eventually("the meeting of all", || cluster.has_met());
        for (index, node) in cluster.nodes.iter().enumerate().take(primaries) {
            let mut command = redis::cmd("CLUSTER");
            command.arg("ADDSLOTS");
            cluster.share(index).for_each(|slot| {
                command.arg(slot);
            });
            command.exec(&mut node.connection()).expect("slots");
        }
        for index in primaries..count {
            let primary = cluster.id(index - primaries);
            let replicate =
                || redis::cmd("CLUSTER").arg("REPLICATE").arg(&primary).exec(&mut cluster.nodes[index].connection());
            eventually("a replica", || replicate().is_ok());
        }
        eventually("the cluster", || cluster.nodes.iter().all(|node| cluster.is_whole(node)));
        cluster
    }

    /// The slots that a primary begins with.
    fn share(&self, index: usize) -> impl Iterator<Item = u16> + use<> {
        let primaries = self.primaries;
        (0..SLOTS).filter(move |slot| usize::from(*slot) * primaries / usize::from(SLOTS) == index)
    }

    /// Whether all know all. A meeting that is not over in time is forgotten, so each look asks for it again.
    fn has_met(&self) -> bool {
        let first = self.nodes[0].port().to_string();
        for index in 1..self.nodes.len() {
            self.tell(index, &["MEET", "127.0.0.1", &first]);
        }
        thread::sleep(Duration::from_millis(100));
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        self.nodes.iter().all(|node| {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut node.connection()).expect("CLUSTER INFO");
            info.contains(&known)
        })
    }

    /// Whether a node sees all nodes and all slots served, with each replica in step.
    fn is_whole(&self, node: &RedisServer) -> bool {
        let mut connection = node.connection();
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut connection).expect("CLUSTER INFO");
        let replication: String = redis::cmd("INFO").arg("replication").query(&mut connection).expect("INFO");
        info.contains("cluster_state:ok")
            && info.contains(&format!("cluster_known_nodes:{}", self.nodes.len()))
            && !replication.contains("master_link_status:down")
            && (self.nodes.len() == self.primaries
                || replication.contains("role:slave")
                || replication.contains("connected_slaves:1"))
    }

    /// The DSN of the cluster, by all its nodes, with options.
    pub fn dsn(&self, options: &str) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}{options}", hosts.join(","))
    }

    /// Its nodes, primaries first.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// What the cluster calls a node.
    ///
    /// # Panics
    ///
    /// When the node does not say.
    pub fn id(&self, index: usize) -> String {
        redis::cmd("CLUSTER").arg("MYID").query(&mut self.nodes[index].connection()).expect("CLUSTER MYID")
    }

    /// The slot of a key.
    ///
    /// # Panics
    ///
    /// When the node does not say.
    pub fn slot(&self, key: &str) -> u16 {
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut self.nodes[0].connection()).expect("CLUSTER KEYSLOT")
    }

    /// The primary that had a slot at the beginning.
    pub fn owner(&self, slot: u16) -> usize {
        usize::from(slot) * self.primaries / usize::from(SLOTS)
    }

    /// How often a command has been carried out, on all nodes.
    pub fn calls(&self, command: &str) -> u64 {
        self.nodes.iter().map(|node| node.calls(command)).sum()
    }

    /// Runs `CLUSTER` with these words on a node.
    ///
    /// # Panics
    ///
    /// When the node refuses.
    pub fn tell(&self, index: usize, words: &[&str]) {
        redis::cmd("CLUSTER").arg(words).exec(&mut self.nodes[index].connection()).expect("CLUSTER");
    }

    /// Begins to move a slot: keys that are not on `from` any more are asked for on `to`.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        self.tell(to, &["SETSLOT", &slot, "IMPORTING", &self.id(from)]);
        self.tell(from, &["SETSLOT", &slot, "MIGRATING", &self.id(to)]);
    }

    /// Moves a key's state.
    ///
    /// # Panics
    ///
    /// When the node refuses.
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        let port = self.nodes[to].port();
        let words = ["127.0.0.1", &port.to_string(), key, "0", "2000"];
        redis::cmd("MIGRATE").arg(&words).exec(&mut self.nodes[from].connection()).expect("MIGRATE");
    }

    /// Ends a move: the slot is on `to`, and every primary knows.
    pub fn end_move(&self, slot: u16, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        self.tell(to, &["SETSLOT", &slot, "NODE", &id]);
        (0..self.primaries).for_each(|index| self.tell(index, &["SETSLOT", &slot, "NODE", &id]));
    }
}

/// A port that is free, and whose companion for the cluster's own talk is free as well.
///
/// # Panics
///
/// When the machine has none.
fn bus_port() -> u16 {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        let port = crate::server::free_port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
        thread::yield_now();
    }
    panic!("no port is free");
}
