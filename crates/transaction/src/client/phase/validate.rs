//! Validate: what was read is still true. By READs where few, by message where many.

use super::super::ClientStats;
use super::super::commit::Commit;
use super::super::transaction::Entry;
use super::all;
use crate::error::{Broken, ClientError, CommitError};
use crate::rule::{Lock, is_unchanged};
use crate::wire::{Method, whole};
use barn_layout::limits::WORD_BYTES;
use barn_layout::object::VersionWord;
use barn_layout::planted;
use barn_layout::transaction::{ReadEntry, Verdict, Vote};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Up to so many objects of one node are validated by READs of their versions; more, by one
/// message, which costs the node's CPU once instead of the network many times.
const READS_MAX: usize = 4;
/// The same where a READ is a load: a message costs as much as some ten of them.
const READS_MAX_MAPPED: usize = 64;

async fn check(commit: &Commit<'_>, entry: &Entry, lock: Lock, limit: Duration) -> Result<(), CommitError> {
    let address = entry.pointer.address;
    let conflict = CommitError::Conflict { address: Some(address) };
    let session = commit.id.session.get();
    let Some(link) = commit.table.region(address.region()) else {
        return Err(ClientError::SessionLost.into());
    };
    let mut word = [0; WORD_BYTES];
    ClientStats::add(&commit.inner.stats.version_reads, 1);
    link.remote
        .read(u64::from(address.offset()), &mut word)
        .within(limit)
        .await
        .map_err(|error| commit.inner.broken(session, Broken::from(error)))?;
    if !is_unchanged(VersionWord(u64::from_le_bytes(word)), entry.version, lock) {
        return Err(conflict);
    }
    Ok(())
}

/// A transaction that changes nothing: every object but the last is looked at once more. What the
/// others held when the last was read is what was read of them, so all were true in that moment. Where the
/// last was read beside others, nobody knows which came last: all are looked at.
pub(in super::super) async fn read_only(commit: &Commit<'_>) -> Result<(), CommitError> {
    // An object that the transaction made and freed again was never read.
    let latest = commit.transaction.last_is_latest || planted("read_together_not_validated");
    let others = commit.reads().count().saturating_sub(usize::from(latest));
    let others = if planted("read_only_not_validated") { 0 } else { others };
    let others = commit.reads().take(others);
    let limit = commit.left();
    if commit.table.regions_are_mapped() {
        for entry in others {
            check(commit, entry, Lock::MayBePrepared, limit).await?;
        }
    } else {
        // All on their way at once: one round trip.
        let checked = all(others.map(|entry| check(commit, entry, Lock::MayBePrepared, limit))).await;
        checked.into_iter().collect::<Result<(), _>>()?;
    }
    check_leases(commit)
}

/// A transaction that changes something: what it only read must be unchanged, and nobody may be
/// about to change it, now that everything it changes is locked.
pub(in super::super) async fn reads(commit: &Commit<'_>) -> Result<(), CommitError> {
    let limit = commit.step_limit();
    for (at, node) in commit.table.nodes.iter().enumerate() {
        let entries: Vec<&Entry> = commit.reads().filter(|entry| entry.node == at).collect();
        let mapped = commit.table.regions_are_mapped();
        let few = if mapped { READS_MAX_MAPPED } else { READS_MAX };
        if entries.len() <= few {
            let checked =
                all(entries.iter().map(|entry| check(commit, entry, Lock::MustBeFree, limit))).await;
            checked.into_iter().collect::<Result<(), _>>()?;
            continue;
        }
        let mut message = Vec::with_capacity(entries.len() * ReadEntry::BYTES);
        for entry in entries {
            let read =
                ReadEntry { address: entry.pointer.address.to_bits().into(), version: entry.version.into() };
            message.extend_from_slice(read.as_bytes());
        }
        let mut reply = Vec::new();
        ClientStats::add(&commit.inner.stats.messages, 1);
        node.connection
            .call(Method::Validate as u16, &message, &mut reply)
            .within(limit)
            .await
            .map_err(|error| commit.inner.broken(commit.id.session.get(), Broken::from(error)))?;
        let vote: &Vote =
            whole(&reply).map_err(|_| ClientError::Refused { why: "a vote of another version".into() })?;
        if vote.verdict.get() != Verdict::Yes as u32 {
            let address = Some(barn_layout::Address::from_bits(vote.address.get()));
            return Err(CommitError::Conflict { address });
        }
    }
    check_leases(commit)
}

/// Whether what was read from every node may be believed.
fn check_leases(commit: &Commit<'_>) -> Result<(), CommitError> {
    let now = commit.inner.now();
    let mut read = commit.transaction.entries.iter();
    if read.all(|entry| commit.table.nodes[entry.node].is_valid(now)) {
        return Ok(());
    }
    Err(commit.inner.session_lost(commit.id.session.get()).into())
}
