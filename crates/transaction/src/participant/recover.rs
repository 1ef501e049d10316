//! What a node tells resolvers of transactions whose clients are lost.

use super::Participant;
use super::session::malformed;
use crate::wire::whole;
use barn_layout::planted;
use barn_layout::transaction::{Known, Orphan, ParticipantEntry, State, TransactionId};
use std::collections::{HashMap, VecDeque};
use zerocopy::IntoBytes;

/// Outcomes that are remembered: 2^18 of them are some 10 MiB, and at a thousand lost
/// transactions a second last for four minutes, many leases.
const OUTCOMES_MAX: usize = 1 << 18;

/// What became of transactions that resolvers looked into.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    states: HashMap<TransactionId, State>,
    order: VecDeque<TransactionId>,
}

impl Outcomes {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn get(&self, id: TransactionId) -> Option<State> {
        self.states.get(&id).copied()
    }

    pub(super) fn remember(&mut self, id: TransactionId, state: State) {
        if self.states.insert(id, state).is_none() {
            self.order.push_back(id);
            if self.order.len() > OUTCOMES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.states.remove(&oldest);
            }
        }
    }
}

impl Participant {
    /// Says how far a transaction has come, and freezes it there: what its client sends from here
    /// on is refused, also the first step of one that nobody has heard of here.
    pub(super) fn freeze(&mut self, body: &[u8], answer: &mut Vec<u8>) -> Result<(), String> {
        let id: &TransactionId = whole(body).map_err(malformed)?;
        if let Some(held) = self.held.get_mut(id) {
            held.frozen = !planted("recovery_without_freeze");
            held.orphan = true;
        }
        let state = self.state(*id);
        if state == State::Unknown {
            self.outcomes.remember(*id, State::Unknown);
        }
        let known = Known { state: (state as u32).into(), reserved: 0.into() };
        answer.extend_from_slice(known.as_bytes());
        Ok(())
    }

    /// Lists the transactions that need somebody to decide them; also looks at the leases.
    pub(super) fn orphans(&mut self, answer: &mut Vec<u8>) -> Result<(), String> {
        self.tick();
        let mut orphans: Vec<_> = self.held.iter().filter(|(_, held)| held.orphan).collect();
        orphans.sort_unstable_by_key(|(id, _)| (id.session.get(), id.number.get()));
        for (id, held) in orphans {
            let orphan = Orphan {
                transaction: *id,
                participants: (held.participants.len() as u32).into(),
                reserved: 0.into(),
            };
            answer.extend_from_slice(orphan.as_bytes());
            for member in &held.participants {
                let entry = ParticipantEntry { member: member.0.into(), reserved: 0.into() };
                answer.extend_from_slice(entry.as_bytes());
            }
        }
        Ok(())
    }
}
