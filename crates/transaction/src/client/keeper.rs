//! The keeper: renews the session at every node, leaves epochs behind, gives back unused places.

use super::table::NodeLink;
use super::{ClientStats, Inner, lock};
use crate::error::Broken;
use crate::wire::{Method, whole};
use barn_layout::Address;
use barn_layout::transaction::{Renew, Renewed, Step, StepKind};
use std::sync::{Arc, Weak};
use std::time::Duration;
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

/// A session is renewed so many times within its lease: one lost renewal does not end it.
const RENEWALS_PER_LEASE: u32 = 3;
/// How often the keeper looks while there is nothing to renew.
const IDLE: Duration = Duration::from_millis(100);

/// Starts the keeper of a client; it ends with the client.
pub(super) fn start(inner: &Arc<Inner>) {
    let keeper: Weak<Inner> = Arc::downgrade(inner);
    let schedule = inner.environment.schedule.clone();
    inner.environment.schedule.spawn(Box::pin(async move {
        let mut generations = Vec::new();
        loop {
            let wait = {
                let Some(inner) = keeper.upgrade() else { return };
                inner.keep(&mut generations).await
            };
            schedule.sleep(wait).await;
        }
    }));
}

impl Inner {
    /// One round; says when the next is due.
    async fn keep(&self, generations: &mut Vec<(u64, Duration)>) -> Duration {
        let table = self.table();
        self.give_back().await;
        self.leave().await;
        let generation = self.activity.advance();
        let now = self.now();
        if generations.last().is_none_or(|(last, _)| *last < generation) {
            generations.push((generation, now));
        }
        // Whatever began in a generation that ended too long ago is not waited for.
        while generations.len() > 1 && now.saturating_sub(generations[1].1) > self.options.age_max {
            generations.remove(0);
            self.activity.doom_before(generations[0].0);
        }
        let mut wait = IDLE;
        for node in &table.nodes {
            wait = wait.min(node.lease / RENEWALS_PER_LEASE);
            if let Err(broken) = self.renew(table.session, node, generation).await {
                let _ = self.broken(table.session, broken);
                break;
            }
        }
        wait
    }

    async fn renew(&self, session: u64, node: &NodeLink, generation: u64) -> Result<(), Broken> {
        let epoch = lock(&node.epochs).leave(&self.activity);
        let renew = Renew { session: session.into(), epoch: epoch.into() };
        let mut reply = Vec::new();
        ClientStats::add(&self.stats.messages, 1);
        let asked = self.now();
        let call = node.connection.with_deadline(node.lease);
        match call.call(Method::Renew as u16, renew.as_bytes(), &mut reply).await {
            Ok(()) => {}
            // The node says that the session is over.
            Err(barn_fabric::CallError::Refused(_)) => return Err(Broken::Session),
            // A late answer is no end: the lease itself tells.
            Err(barn_fabric::CallError::Deadline) if node.is_valid(self.now()) => return Ok(()),
            Err(barn_fabric::CallError::Deadline) => return Err(Broken::Session),
            Err(error) => return Err(error.into()),
        }
        node.renewed(asked);
        let Ok(renewed) = whole::<Renewed>(&reply) else { return Ok(()) };
        lock(&node.epochs).heard(renewed.epoch.get(), generation);
        if renewed.configuration.get() > self.directory.version() {
            self.refresh(session, node.lease).await;
        }
        Ok(())
    }

    /// Leaves commits to the nodes whose futures were dropped.
    async fn leave(&self) {
        let leaving = std::mem::take(&mut *lock(&self.leaving));
        for (transaction, nodes) in leaving {
            let step = Step { transaction, kind: (StepKind::Leave as u32).into(), reserved: 0.into() };
            for node in nodes {
                // A node that is gone has ended the session and knows what to do.
                let _ = node.connection.send(step.as_bytes()).await;
            }
        }
    }

    /// Gives places back that transactions have reserved and not used.
    async fn give_back(&self) {
        let giving_back: Vec<(Arc<NodeLink>, Address)> = std::mem::take(&mut *lock(&self.giving_back));
        for (node, address) in giving_back {
            let mut reply = Vec::new();
            let message = U64::new(address.to_bits());
            // A node that has ended the session has taken it back by itself.
            let _ = node.connection.call(Method::Release as u16, message.as_bytes(), &mut reply).await;
        }
    }
}
