//! The idle connections of one store in one process.

use std::sync::{Mutex, PoisonError};

use once_cell::race::OnceBox;

use super::connection::Connection;
use crate::process;

/// Hands out the connection used last, so that few stay warm; a forked child starts with none.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Idle,
    size: usize,
}

/// Boxed, so that one is taken and put back without being copied.
#[allow(clippy::vec_box)]
type Connections = Vec<Box<Connection>>;

/// The connections of one process, and in a child that was forked from it those of the child: another thread of the
/// parent may have held the lock at the fork, and nobody would ever release it there.
#[derive(Debug)]
struct Idle {
    generation: u32,
    connections: Mutex<Connections>,
    of_child: OnceBox<Self>,
}

impl Idle {
    fn new(generation: u32) -> Self {
        Self { generation, connections: Mutex::default(), of_child: OnceBox::new() }
    }

    /// Those of a forked child.
    #[cold]
    fn of_child(&self, generation: u32) -> &Self {
        self.of_child.get_or_init(|| {
            // Dropping the parent's connections closes this process's copies and sends nothing.
            if let Ok(mut connections) = self.connections.try_lock() {
                connections.clear();
            }
            Box::new(Self::new(generation))
        })
    }
}

impl Pool {
    /// A pool that keeps at most `size` idle connections.
    pub(super) fn new(size: usize) -> Self {
        Self { idle: Idle::new(process::generation()), size }
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

    #[inline]
    fn with_idle<R>(&self, act: impl FnOnce(&mut Connections) -> R) -> R {
        let (mut idle, generation) = (&self.idle, process::generation());
        while idle.generation != generation {
            idle = idle.of_child(generation);
        }
        act(&mut idle.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
