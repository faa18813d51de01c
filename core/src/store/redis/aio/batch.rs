//! Many decisions in one exchange per server, without blocking.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::error::Result;
use crate::lua::Naming;
use crate::store::redis::RedisStore;
use crate::store::redis::batch::{Batch, MAX_UNDER_WAY, Part};
use crate::store::redis::connection::Failure;
use crate::store::redis::deadline::Deadline;
use crate::store::redis::resp::Expected;
use crate::store::{Operation, Verdicts};

use super::link::{Outcome, Replies};

impl RedisStore {
    /// [`decide_in_batch`](Self::decide_in_batch) without blocking.
    pub(super) async fn decide_in_batch_async(&self, operations: &[Operation<'_>]) -> Vec<Result<Verdicts>> {
        let deadline = Deadline::start(&self.network.options);
        let mut batch = Batch::of(self, operations);
        for members in batch.open().chunks(MAX_UNDER_WAY) {
            self.exchange_async(&mut batch, members, Naming::Sha, &deadline).await;
            let untold = batch.take_untold();
            if !untold.is_empty() {
                self.exchange_async(&mut batch, &untold, Naming::Text, &deadline).await;
            }
        }
        for index in batch.open() {
            let outcome = self.decide_within_async(&batch.operations[index], &deadline).await;
            batch.settle(index, outcome);
        }
        batch.into_outcomes().into_iter().flatten().collect()
    }

    /// Sends the members to their servers, all of them, and takes the replies.
    async fn exchange_async(&self, batch: &mut Batch<'_>, members: &[usize], naming: Naming, deadline: &Deadline) {
        let mut parts = Vec::new();
        for &index in members {
            match self.route.find(batch.key(index), &self.network, deadline).await {
                Ok(target) => Batch::assign(&mut parts, index, target),
                Err(error) => batch.fail(&[index], &error),
            }
        }
        parts.retain(|part: &Part<'_>| match part.target.admit(&self.network, Duration::ZERO) {
            Ok(()) => true,
            Err(error) => {
                batch.fail(&part.members, &error);
                false
            }
        });
        let exchanged = join_all(parts.iter().map(|part| self.exchange_part(batch, part, naming, deadline))).await;
        for (part, outcome) in parts.iter().zip(exchanged) {
            let replies = match outcome {
                Ok(replies) => {
                    part.target.note(None);
                    replies
                }
                Err(failure) => {
                    part.target.part().await;
                    self.not_under_way(batch, part, failure);
                    continue;
                }
            };
            for (&index, reply) in part.members.iter().zip(replies) {
                if let Err(error) = batch.hear(index, reply, &part.target.address) {
                    part.target.part().await;
                    self.route.doubt(&error);
                    batch.fail(&[index], &error);
                }
            }
        }
    }

    async fn exchange_part(
        &self,
        batch: &Batch<'_>,
        part: &Part<'_>,
        naming: Naming,
        deadline: &Deadline,
    ) -> Outcome<Replies> {
        let mut commands = Vec::new();
        batch.write(&mut commands, self.prefix(), &part.members, naming).map_err(Failure::Unknown)?;
        let exchange = part.target.exchange(&self.network, deadline, &commands, part.members.len(), Expected::Answer);
        let late = |_| Failure::Unknown(deadline.passed());
        tokio::time::timeout(deadline.left(Instant::now()), exchange).await.map_err(late)?
    }
}
