//! Finding out what became of a commit whose answers were lost.
//!
//! The nodes settle among themselves what a lost client has left ([`crate::resolver`]); a client
//! that is still there asks them. A transaction that touched one node is settled by the question
//! itself: a node that has not carried it out by then never will.

use super::ClientStats;
use super::backoff::Backoff;
use super::commit::Commit;
use super::phase::prepare::step;
use crate::error::CommitError;
use crate::wire::{Method, whole};
use barn_layout::transaction::{Known, State, StepKind};
use zerocopy::IntoBytes;

/// The commit's outcome, if it can be had before the deadline.
pub(crate) async fn resolve(commit: &Commit<'_>) -> Result<(), CommitError> {
    let alone = commit.writers.len() == 1;
    // Nodes that still take us for alive need to hear that they have to decide.
    step(commit, StepKind::Leave).await;
    let inner = commit.inner;
    let mut backoff = Backoff::new(inner.options.deadline);
    loop {
        for writer in &commit.writers {
            let member = commit.table.nodes[*writer].member;
            let session = inner.table().session;
            let Ok(node) = inner.node(session, member).await else { continue };
            let mut reply = Vec::new();
            ClientStats::add(&inner.stats.messages, 1);
            let asked = node.connection.call(Method::Freeze as u16, commit.id.as_bytes(), &mut reply).await;
            if let Err(error) = asked {
                let _ = inner.broken(session, error.into());
                continue;
            }
            let Ok(known) = whole::<Known>(&reply) else { continue };
            match State::from_bits(known.state.get()) {
                Some(State::Committed) => return Ok(()),
                Some(State::Aborted) => return Err(CommitError::Conflict { address: None }),
                // Frozen before it was carried out: nobody else has to be asked.
                Some(State::Unknown) if alone => return Err(CommitError::Conflict { address: None }),
                _ => {}
            }
        }
        if !backoff.wait(inner).await {
            return Err(CommitError::Indeterminate);
        }
    }
}
