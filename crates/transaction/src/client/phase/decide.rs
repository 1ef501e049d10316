//! Decide and apply: every node learns that the transaction will be carried out before any part of
//! it can be seen; then each is told to do so.

use super::super::ClientStats;
use super::super::commit::{Commit, Stopped};
use super::all;
use super::prepare::{refused, step};
use crate::error::Broken;
use crate::wire::{Method, whole};
use barn_layout::transaction::{Step, StepKind, Verdict, Vote};
use zerocopy::IntoBytes;

/// Tells every node that it will be carried out. Once all have answered, so may we.
pub(in super::super) async fn decide(commit: &Commit<'_>) -> Result<(), Stopped> {
    let message = Step { transaction: commit.id, kind: (StepKind::Decide as u32).into(), reserved: 0.into() };
    let (message, limit) = (&message, commit.step_limit());
    let answers = all(commit.writers.iter().map(|node| async move {
        let mut reply = Vec::new();
        ClientStats::add(&commit.inner.stats.messages, 1);
        let connection = &commit.table.nodes[*node].connection;
        match connection.call(Method::Step as u16, message.as_bytes(), &mut reply).within(limit).await {
            Ok(()) => match whole::<Vote>(&reply) {
                Ok(vote) if vote.verdict.get() == Verdict::Yes as u32 => Ok(()),
                // From here on nobody but the nodes together can say what becomes of it.
                Ok(vote) => {
                    let _ = refused(commit, vote);
                    Err(Stopped::Unknown)
                }
                Err(_) => Err(Stopped::Unknown),
            },
            Err(error) => {
                let _ = commit.inner.broken(commit.id.session.get(), Broken::from(error));
                Err(Stopped::Unknown)
            }
        }
    }))
    .await;
    answers.into_iter().collect()
}

/// Tells every node to carry it out. One that decided alone has done so already.
pub(in super::super) async fn apply(commit: &Commit<'_>) {
    if commit.writers.len() > 1 {
        step(commit, StepKind::Apply).await;
    }
}
