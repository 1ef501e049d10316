//! The steps after the first: decide, apply, abort, leave.

use super::{Asked, Held, Participant, Refusal};
use crate::wire::{Writes, whole};
use barn_fabric::PeerId;
use barn_layout::transaction::{Change, State, Step, StepKind, TransactionId, Verdict};
use barn_layout::{Address, planted};

impl Held {
    fn writes(&self) -> Writes<'_> {
        Writes { bytes: &self.writes, count: self.count }
    }
}

impl Participant {
    pub(super) fn step(&mut self, peer: PeerId, body: &[u8]) -> Result<(), Refusal> {
        let step: &Step = whole(body)?;
        let (id, kind) = (step.transaction, StepKind::from_bits(step.kind.get()));
        let kind = kind.ok_or(Verdict::Unknown)?;
        if self.sessions.is_resolver(peer) {
            return self.settle(id, kind);
        }
        if self.sessions.of(peer).is_none_or(|session| session.id != id.session.get()) {
            return Err(Verdict::SessionEnded.into());
        }
        let Some(held) = self.held.get_mut(&id) else {
            let known = self.remembered(id) != State::Unknown;
            return Err(if known { Verdict::InRecovery } else { Verdict::Unknown }.into());
        };
        if held.frozen {
            return Err(Verdict::InRecovery.into());
        }
        match kind {
            StepKind::Leave => {
                held.orphan = true;
                Ok(())
            }
            StepKind::Decide => {
                let alone = held.participants.len() <= 1;
                self.decide(id);
                if alone || planted("applied_when_decided") {
                    // Nobody else has to know before it can be seen.
                    self.apply(id);
                }
                Ok(())
            }
            StepKind::Apply if held.decided => {
                self.apply(id);
                Ok(())
            }
            StepKind::Abort if !held.decided => {
                self.abort(id);
                Ok(())
            }
            StepKind::Apply | StepKind::Abort => Err(Verdict::Unknown.into()),
        }
    }

    /// A resolver's word, which all resolvers give alike.
    fn settle(&mut self, id: TransactionId, kind: StepKind) -> Result<(), Refusal> {
        let Some(held) = self.held.get(&id) else {
            // Carried out or aborted before, or never heard of: that is remembered, so that a late
            // first step of it is refused.
            let settled = if kind == StepKind::Abort { State::Aborted } else { State::Committed };
            if self.remembered(id) == State::Unknown {
                self.outcomes.remember(id, settled);
            }
            return Ok(());
        };
        if !held.frozen {
            return Err(Verdict::Unknown.into());
        }
        match kind {
            StepKind::Decide => self.decide(id),
            StepKind::Apply => {
                self.decide(id);
                self.apply(id);
                self.outcomes.remember(id, State::Committed);
                self.resolved(id, "carried out");
            }
            // Also one that was decided here: a node that hung may hear its client's word long after
            // the others have settled the matter without it. Nothing of it can have been seen.
            StepKind::Abort => {
                self.abort(id);
                self.outcomes.remember(id, State::Aborted);
                self.resolved(id, "aborted");
            }
            StepKind::Leave => return Err(Verdict::Unknown.into()),
        }
        Ok(())
    }

    /// Notes how a transaction ended that its client had left.
    fn resolved(&mut self, id: TransactionId, how: &'static str) {
        self.stats.resolved += 1;
        let session = id.session.get();
        tracing::info!(
            session = format_args!("{session:016x}"),
            number = id.number.get(),
            "a transaction that was left behind was {how}"
        );
    }

    /// The transaction will be carried out: nobody reads its objects from here on.
    fn decide(&mut self, id: TransactionId) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if held.decided {
            return;
        }
        held.decided = true;
        self.asked = Asked { durability: held.durability, together: true };
        self.note_decided(id);
        if !planted("decided_and_still_read") {
            self.close_held(id);
        }
    }

    /// Nobody reads a transaction's objects from here on.
    pub(super) fn close_held(&mut self, id: TransactionId) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let (bytes, count) = (std::mem::take(&mut held.writes), held.count);
        self.close(Writes { bytes: &bytes, count });
        if planted("unlock_early") {
            self.unlock(PeerId(0), Writes { bytes: &bytes, count });
        }
        if let Some(held) = self.held.get_mut(&id) {
            held.writes = bytes;
        }
    }

    fn apply(&mut self, id: TransactionId) {
        let Some(held) = self.held.remove(&id) else { return };
        self.carry_out(held.writes());
        self.note_ended(id);
        self.sessions.committed(id);
        self.stats.applied += 1;
    }

    fn abort(&mut self, id: TransactionId) {
        let Some(held) = self.held.remove(&id) else { return };
        self.note_ended(id);
        for (entry, _) in held.writes().each() {
            let address = Address::from_bits(entry.address.get());
            // Each was locked or reserved when it was prepared.
            let _ = match Change::from_bits(entry.change.get()) {
                Some(Change::Create) => self.heap.release(address),
                _ => self.heap.unlock(address),
            };
        }
        self.stats.aborted += 1;
    }
}
