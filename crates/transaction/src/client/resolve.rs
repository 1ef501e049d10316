//! Finding out what became of a commit whose answers were lost.
//!
//! The nodes settle among themselves what a lost client has left ([`crate::resolver`]); a client
//! that is still there asks them. A transaction that touched one node is settled by the question
//! itself: a node that has not carried it out by then never will.
//!
//! What always holds: a node that was started again since the commit may have forgotten it. That it
//! knows nothing of the commit says nothing then, and the outcome stays unknown: who took it for "not
//! carried out" and ran the transaction again could carry it out twice.

use super::ClientStats;
use super::backoff::Backoff;
use super::commit::Commit;
use super::phase::prepare::step;
use crate::error::{ClientError, CommitError};
use crate::wire::{Method, whole};
use barn_layout::transaction::{Known, State, StepKind};
use std::time::Duration;
use zerocopy::IntoBytes;

/// The commit's outcome, if it can be had before the deadline.
pub(crate) async fn resolve(commit: &Commit<'_>) -> Result<(), CommitError> {
    let alone = commit.writers.len() == 1;
    // Nodes that still take us for alive need to hear that they have to decide.
    step(commit, StepKind::Leave).await;
    let inner = commit.inner;
    let mut backoff = Backoff::new(inner.now(), commit.left());
    loop {
        let mut forgotten = 0;
        for writer in commit.writers {
            let was = &commit.table.nodes[*writer];
            let session = inner.table().session;
            let node = match inner.node(session, was.member, commit.left()).await {
                Ok(node) => node,
                Err(ClientError::Unreachable { .. }) if commit.left() > Duration::ZERO => {
                    inner.recover(commit.left()).await;
                    // Whatever is there now, the node that was asked is gone with what it knew.
                    forgotten += usize::from(inner.table().cluster != commit.table.cluster);
                    continue;
                }
                Err(_) => continue,
            };
            let same = node.life == was.life;
            forgotten += usize::from(!same);
            let mut reply = Vec::new();
            ClientStats::add(&inner.stats.messages, 1);
            let asked = node.connection.call(Method::Freeze as u16, commit.id.as_bytes(), &mut reply);
            let asked = asked.within(commit.left()).await;
            if let Err(error) = asked {
                let _ = inner.broken(session, error.into());
                continue;
            }
            let Ok(known) = whole::<Known>(&reply) else { continue };
            match State::from_bits(known.state.get()) {
                Some(State::Committed) => return Ok(()),
                Some(State::Aborted) if same => return Err(CommitError::Conflict { address: None }),
                // Frozen before it was carried out: nobody else has to be asked.
                Some(State::Unknown) if alone && same => return Err(CommitError::Conflict { address: None }),
                _ => {}
            }
        }
        if forgotten == commit.writers.len() || !backoff.wait(inner).await {
            return Err(CommitError::Indeterminate);
        }
    }
}
