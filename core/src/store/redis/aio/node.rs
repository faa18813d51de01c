//! The one connection to a server that all calls of a process share.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::link::{Link, Outcome, Replies};
use crate::error::Result;
use crate::process;
use crate::store::redis::connection::Failure;
use crate::store::redis::deadline::Deadline;
use crate::store::redis::node::{Network, Node};
use crate::store::redis::resp::Expected;
use crate::store::redis::setup::SetUp;

/// Where a node keeps the connection.
#[derive(Debug)]
pub(in crate::store::redis) struct Shared(ArcSwap<State>);

#[derive(Debug)]
struct State {
    generation: u32,
    /// Locked while connecting, so that only one does.
    link: Mutex<Option<Arc<Link>>>,
    /// When the server was last told a script's text. Locked while it is being told.
    told: Arc<Mutex<Option<Instant>>>,
}

impl State {
    fn new() -> Self {
        Self { generation: process::generation(), link: Mutex::new(None), told: Arc::default() }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(State::new()))
    }
}

impl Shared {
    fn state(&self) -> Arc<State> {
        let state = self.0.load_full();
        if state.generation == process::generation() {
            return state;
        }
        // A forked child. The parent's connection is left alone: closing it would wake a runtime that is not here.
        std::mem::forget(self.0.swap(Arc::new(State::new())));
        self.0.load_full()
    }
}

impl Node {
    /// Sends commands and waits for their replies, on a new connection where the old one took no byte.
    pub(super) async fn exchange(
        &self,
        network: &Network,
        deadline: &Deadline,
        commands: &[u8],
        replies: usize,
        expected: Expected,
    ) -> Outcome<Replies> {
        let mut tries = 0;
        loop {
            let (link, is_new) = self.link(network, deadline).await.map_err(Failure::NotSent)?;
            match link.exchange(commands.to_vec(), replies, expected).await {
                Err(Failure::NotSent(_)) if !is_new && tries < 2 => {
                    tries += 1;
                    self.leave(&link).await;
                }
                Err(failure) => {
                    self.leave(&link).await;
                    return Err(failure);
                }
                outcome => return outcome,
            }
        }
    }

    /// The connection, and whether it has just been made.
    async fn link(&self, network: &Network, deadline: &Deadline) -> Result<(Arc<Link>, bool)> {
        let state = self.shared.state();
        let mut slot = state.link.lock().await;
        if let Some(link) = slot.as_ref().filter(|link| !link.is_closed()) {
            return Ok((link.clone(), false));
        }
        let limit = deadline.of_connecting(Instant::now());
        let set_up = SetUp::of_data(&network.options, self.of_primary);
        let link = Link::open(&self.address, network.tls.as_ref(), &set_up, limit, network.options.timeout).await?;
        let link = Arc::new(link);
        *slot = Some(link.clone());
        Ok((link, true))
    }

    /// When the server was last told a script's text; nobody else tells it one meanwhile.
    pub(super) async fn telling(&self) -> OwnedMutexGuard<Option<Instant>> {
        self.shared.state().told.clone().lock_owned().await
    }

    /// Takes a connection out of use; it ends when the last one who waits on it has been answered.
    pub(super) async fn leave(&self, link: &Arc<Link>) {
        let state = self.shared.state();
        let mut slot = state.link.lock().await;
        if slot.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, link)) {
            *slot = None;
        }
    }

    /// Takes whatever connection there is out of use.
    pub(super) async fn part(&self) {
        let state = self.shared.state();
        state.link.lock().await.take();
    }
}
