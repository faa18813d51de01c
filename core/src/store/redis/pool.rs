//! The idle connections of one store in one process.

use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::connection::Connection;
use crate::process;

/// Hands out the connection used last, so that few stay warm; a forked child starts with none.
#[derive(Debug)]
pub(super) struct Pool {
    /// Replaced as a whole in a forked child: another thread of the parent may have held the lock at the fork, and
    /// nobody would ever release it here.
    idle: ArcSwap<Idle>,
    size: usize,
}

/// Boxed, so that one is taken and put back without being copied.
#[allow(clippy::vec_box)]
type Connections = Vec<Box<Connection>>;

#[derive(Debug)]
struct Idle {
    generation: u32,
    connections: Mutex<Connections>,
}

impl Idle {
    fn new(generation: u32) -> Self {
        Self { generation, connections: Mutex::default() }
    }
}

impl Pool {
    /// A pool that keeps at most `size` idle connections.
    pub(super) fn new(size: usize) -> Self {
        Self { idle: ArcSwap::from_pointee(Idle::new(process::generation())), size }
    }

    /// The connection used last, if there is one.
    pub(super) fn take(&self) -> Option<Box<Connection>> {
        self.with_idle(Vec::pop)
    }

    /// Takes a connection back.
    pub(super) fn put(&self, connection: Box<Connection>) {
        self.with_idle(|connections| {
            if connections.len() < self.size {
                connections.push(connection);
            }
        });
    }

    /// Closes all idle connections.
    pub(super) fn clear(&self) {
        // Closed outside the lock.
        drop(self.with_idle(std::mem::take));
    }

    /// Idle connections.
    pub(super) fn len(&self) -> usize {
        self.with_idle(|connections| connections.len())
    }

    fn with_idle<R>(&self, act: impl FnOnce(&mut Connections) -> R) -> R {
        let mut idle = self.idle.load();
        let generation = process::generation();
        if idle.generation != generation {
            // Dropping the parent's connections closes this process's copies and sends nothing.
            self.idle.compare_and_swap(&*idle, Idle::new(generation).into());
            idle = self.idle.load();
        }
        let mut connections = idle.connections.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut connections)
    }
}
