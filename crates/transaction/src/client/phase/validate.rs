//! Validate: what was read is still true. By READs where few, by message where many.

use super::super::ClientStats;
use super::super::commit::Commit;
use super::super::transaction::Entry;
use super::all;
use crate::error::{Broken, ClientError, CommitError};
use crate::rule::{Lock, is_unchanged};
use crate::wire::{Method, whole};
use barn_fabric::{OperationError, RemoteRegion};
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

/// Where an object is read once more.
fn place<'a>(commit: &Commit<'a>, entry: &Entry) -> Result<(&'a RemoteRegion, u64), CommitError> {
    let address = entry.pointer.address;
    ClientStats::add(&commit.inner.stats.version_reads, 1);
    let link = commit.table.region(address.region()).ok_or(ClientError::SessionLost)?;
    Ok((&link.remote, u64::from(address.offset())))
}

/// What the word that was read there says.
fn judge(
    commit: &Commit<'_>,
    entry: &Entry,
    lock: Lock,
    read: Result<(), OperationError>,
    word: [u8; WORD_BYTES],
) -> Result<(), CommitError> {
    read.map_err(|error| commit.inner.broken(commit.id.session.get(), Broken::from(error)))?;
    if !is_unchanged(VersionWord(u64::from_le_bytes(word)), entry.version, lock) {
        return Err(CommitError::Conflict { address: Some(entry.pointer.address) });
    }
    Ok(())
}

async fn check(commit: &Commit<'_>, entry: &Entry, lock: Lock, limit: Duration) -> Result<(), CommitError> {
    let (region, offset) = place(commit, entry)?;
    let mut word = [0; WORD_BYTES];
    let read = region.read(offset, &mut word).within(limit).await;
    judge(commit, entry, lock, read, word)
}

/// The same where the READ is a load, of an object that was read just now: there is nothing to wait for.
fn check_mapped(commit: &Commit<'_>, entry: &Entry, lock: Lock) -> Result<(), CommitError> {
    let (region, offset) = place(commit, entry)?;
    let mut word = [0; WORD_BYTES];
    let read = region.read(offset, &mut word).wait();
    judge(commit, entry, lock, read, word)
}

/// A transaction that changes nothing: every object but the last is looked at once more. What the
/// others held when the last was read is what was read of them, so all were true in that moment. Where the
/// last was read beside others, nobody knows which came last: all are looked at.
pub(in super::super) async fn read_only(commit: &Commit<'_>) -> Result<(), CommitError> {
    // An object that the transaction made and freed again was never read.
    let latest = commit.transaction.last_is_latest || planted("read_together_not_validated");
    let others = commit.reads().count().saturating_sub(usize::from(latest));
    let others = if planted("read_only_not_validated") { 0 } else { others };
    let mut far = Vec::new();
    for entry in commit.reads().take(others) {
        match commit.table.region(entry.pointer.address.region()) {
            Some(link) if link.remote.mapped().is_some() => {
                check_mapped(commit, entry, Lock::MayBePrepared)?;
            }
            _ => far.push(entry),
        }
    }
    if !far.is_empty() {
        // All on their way at once: one round trip.
        let limit = commit.left();
        let checked =
            all(far.into_iter().map(|entry| check(commit, entry, Lock::MayBePrepared, limit))).await;
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
    let are_valid = |now: Duration| {
        commit.transaction.entries.iter().all(|entry| commit.table.nodes[entry.node].is_valid(now))
    };
    // One that ends within the next 100 µs is looked at more closely.
    if are_valid(commit.inner.at_latest()) || are_valid(commit.inner.now()) {
        return Ok(());
    }
    Err(commit.inner.session_lost(commit.id.session.get()).into())
}
