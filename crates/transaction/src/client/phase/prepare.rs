//! Prepare: the nodes lock what the transaction changes. Where it touches only one, that is all.

use super::super::commit::{Commit, Stopped};
use super::super::{ClientStats, transaction::Entry};
use super::all;
use crate::error::{Broken, ClientError, CommitError};
use crate::wire::{Method, push_write, whole};
use barn_layout::transaction::{
    PREPARE_ALONE, PREPARE_CLOSED, PREPARE_DURABILITY_SHIFT, PREPARE_LAST, ParticipantEntry, Prepare,
    ReadEntry, Step, StepKind, Verdict, Vote, WriteEntry,
};
use barn_layout::{Address, Durability};
use std::mem::offset_of;
use std::time::Duration;
use zerocopy::IntoBytes;

/// A frame is sent off when it has grown to this: longer ones would hold up a node's other clients.
const FRAME_BYTES: usize = 1 << 20;

/// What the header of a transaction's frames says of it.
fn flags(commit: &Commit<'_>, alone: bool) -> u32 {
    // What it read must be true while nobody can read what it changes: were that still readable when
    // the reads are validated, another could see old values after newer ones of what was read.
    let way = match (alone, commit.reads().next()) {
        (true, _) => PREPARE_ALONE,
        (false, Some(_)) => PREPARE_CLOSED,
        (false, None) => 0,
    };
    way | Durability::to_bits(commit.transaction.durability) << PREPARE_DURABILITY_SHIFT
}

/// Begins a frame.
fn start(commit: &Commit<'_>, message: &mut Vec<u8>, frame: usize, participants: usize) {
    let header = Prepare {
        transaction: commit.id,
        configuration: commit.inner.directory.version().into(),
        participants: (participants as u32).into(),
        reads: 0.into(),
        writes: 0.into(),
        flags: 0.into(),
        frame: (frame as u32).into(),
        reserved: 0.into(),
    };
    message.clear();
    message.extend_from_slice(header.as_bytes());
}

/// Sends what a node has to know of the transaction and takes its vote: one message, unless the
/// transaction is large.
async fn ask(
    commit: &Commit<'_>,
    node: usize,
    alone: bool,
    message: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) -> Result<(), Stopped> {
    let flags = flags(commit, alone);
    start(commit, message, 0, commit.writers.len());
    for writer in commit.writers {
        let member = commit.table.nodes[*writer].member.0;
        message.extend_from_slice(ParticipantEntry { member: member.into(), reserved: 0.into() }.as_bytes());
    }
    let (mut frame, mut reads, mut writes) = (0, 0u32, 0u32);
    let mut limit = commit.first_step_limit();
    if alone {
        // Only here: where several nodes are involved, reads are validated once all have locked.
        for entry in commit.reads() {
            let read =
                ReadEntry { address: entry.pointer.address.to_bits().into(), version: entry.version.into() };
            message.extend_from_slice(read.as_bytes());
            reads += 1;
        }
    }
    for entry in commit.writes(node) {
        if message.len() > FRAME_BYTES {
            finish(message, reads, writes, flags);
            send(commit, node, message, reply, limit).await?;
            limit = commit.step_limit();
            frame += 1;
            start(commit, message, frame, 0);
            (reads, writes) = (0, 0);
        }
        write(commit, message, entry);
        writes += 1;
    }
    finish(message, reads, writes, flags | PREPARE_LAST);
    send(commit, node, message, reply, limit).await
}

/// Fills in what is known only at a frame's end.
fn finish(message: &mut [u8], reads: u32, writes: u32, flags: u32) {
    let mut put = |at: usize, value: u32| message[at..at + 4].copy_from_slice(&value.to_le_bytes());
    put(offset_of!(Prepare, reads), reads);
    put(offset_of!(Prepare, writes), writes);
    put(offset_of!(Prepare, flags), flags);
}

fn write(commit: &Commit<'_>, message: &mut Vec<u8>, entry: &Entry) {
    use barn_layout::transaction::Change;
    let Some(change) = entry.change else { return };
    let body = if change == Change::Free { 0..0 } else { entry.body.clone() };
    let head = WriteEntry {
        address: entry.pointer.address.to_bits().into(),
        version: entry.version.into(),
        incarnation: entry.pointer.incarnation.into(),
        change: (change as u32).into(),
        bytes: (body.len() as u32).into(),
        reserved: 0.into(),
    };
    push_write(message, &head, &commit.transaction.arena[body]);
}

/// What a node's refusal means.
pub(super) fn refused(commit: &Commit<'_>, vote: &Vote) -> Stopped {
    let address = Some(Address::from_bits(vote.address.get())).filter(|address| address.to_bits() != 0);
    let failed = |error| Stopped::Refused(CommitError::Failed(error));
    match Verdict::from_bits(vote.verdict.get()) {
        Some(Verdict::Locked | Verdict::Changed) => Stopped::Refused(CommitError::Conflict { address }),
        Some(Verdict::Freed | Verdict::NotAnObject) => {
            let entry =
                commit.transaction.entries.iter().find(|entry| Some(entry.pointer.address) == address);
            match entry {
                Some(entry) => failed(ClientError::Freed { pointer: entry.pointer }),
                None => Stopped::Refused(CommitError::Conflict { address }),
            }
        }
        Some(Verdict::SessionEnded) => failed(commit.inner.session_lost(commit.id.session.get())),
        Some(Verdict::NotHere) => {
            let region = address.unwrap_or(Address::from_bits(0)).region();
            failed(ClientError::NoRegion { region })
        }
        Some(Verdict::InRecovery) => Stopped::Unknown,
        Some(verdict) => failed(ClientError::Refused { why: format!("{verdict:?}") }),
        None => failed(ClientError::Refused { why: "a verdict that this version does not know".into() }),
    }
}

/// Sends a frame and takes the node's vote.
async fn send(
    commit: &Commit<'_>,
    node: usize,
    frame: &[u8],
    reply: &mut Vec<u8>,
    limit: Duration,
) -> Result<(), Stopped> {
    let connection = &commit.table.nodes[node].connection;
    ClientStats::add(&commit.inner.stats.messages, 1);
    if let Err(error) = connection.call(Method::Prepare as u16, frame, reply).within(limit).await {
        let unknown = error.outcome_is_unknown();
        let error = commit.inner.broken(commit.id.session.get(), Broken::from(error));
        return Err(if unknown { Stopped::Unknown } else { Stopped::Refused(error.into()) });
    }
    let Ok(vote) = whole::<Vote>(reply) else { return Err(Stopped::Unknown) };
    if vote.verdict.get() != Verdict::Yes as u32 {
        return Err(refused(commit, vote));
    }
    Ok(())
}

/// A transaction that touches one node: locked, validated and changed by one message.
pub(in super::super) async fn alone(
    commit: &Commit<'_>,
    message: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) -> Result<(), Stopped> {
    ask(commit, commit.writers[0], true, message, reply).await
}

/// Has every node lock its part; if one does not, the others are told to unlock.
pub(in super::super) async fn lock(commit: &Commit<'_>) -> Result<(), Stopped> {
    let votes = all(commit.writers.iter().map(|node| async move {
        let (mut message, mut reply) = (Vec::new(), Vec::new());
        ask(commit, *node, false, &mut message, &mut reply).await
    }))
    .await;
    let mut stopped = None;
    for vote in votes {
        match (vote, &stopped) {
            (Ok(()), _) | (Err(_), Some(Stopped::Refused(_))) => {}
            (Err(other), _) => stopped = Some(other),
        }
    }
    let Some(stopped) = stopped else { return Ok(()) };
    // Nobody can have decided, as not all have locked: whatever happened to a lost answer, the
    // transaction is not carried out, and nodes that cannot be told find out by themselves.
    abort(commit).await;
    Err(match stopped {
        Stopped::Refused(error) => Stopped::Refused(error),
        Stopped::Unknown => Stopped::Refused(CommitError::Conflict { address: None }),
    })
}

/// Tells every node that it will not be.
pub(in super::super) async fn abort(commit: &Commit<'_>) {
    step(commit, StepKind::Abort).await;
}

/// Sends a step that nobody answers to every node.
pub(in super::super) async fn step(commit: &Commit<'_>, kind: StepKind) {
    let step = Step { transaction: commit.id, kind: (kind as u32).into(), reserved: 0.into() };
    for node in commit.writers {
        ClientStats::add(&commit.inner.stats.messages, 1);
        // A node that is gone has ended the session and knows what to do.
        let _ = commit.table.nodes[*node].connection.send(step.as_bytes()).within(commit.step_limit()).await;
    }
}
