//! What a resolver does, message by message, by the real rule.

use super::node::Node;
use barn_layout::transaction::{Known, Orphan, ParticipantEntry, State, StepKind, TransactionId, Verdict};
use barn_transaction::rule::is_carried_out;
use barn_transaction::wire::Method;
use zerocopy::{FromBytes, IntoBytes};

/// A transaction that somebody has to end.
struct Lost {
    id: TransactionId,
    participants: Vec<usize>,
}

fn lost(node: &Node, resolver: u64) -> Vec<Lost> {
    let answer = node.ask(resolver, Method::Orphans, &[]).expect("a list");
    let (mut bytes, mut lost) = (&answer[..], Vec::new());
    while !bytes.is_empty() {
        let (orphan, rest) = Orphan::ref_from_prefix(bytes).expect("an orphan");
        let count = orphan.participants.get() as usize;
        let (members, rest) =
            <[ParticipantEntry]>::ref_from_prefix_with_elems(rest, count).expect("its nodes");
        let participants = members.iter().map(|entry| entry.member.get() as usize).collect();
        lost.push(Lost { id: orphan.transaction, participants });
        bytes = rest;
    }
    lost
}

/// One round of the resolver of node `at`; `point` comes before each message.
pub(crate) fn round(nodes: &[Node; 2], at: usize, resolver: u64, point: impl Fn()) {
    for Lost { id, participants } in lost(&nodes[at], resolver) {
        let mut states = Vec::with_capacity(2);
        for node in &participants {
            point();
            let answer = nodes[*node].ask(resolver, Method::Freeze, id.as_bytes()).expect("a state");
            let known = Known::ref_from_bytes(&answer).expect("a state");
            states.push(State::from_bits(known.state.get()).expect("a state"));
        }
        let steps = match is_carried_out(states) {
            true => &[StepKind::Decide, StepKind::Apply][..],
            false => &[StepKind::Abort],
        };
        'steps: for kind in steps {
            for node in &participants {
                point();
                // The next round sees to what did not work.
                if nodes[*node].step(resolver, id, *kind) != Verdict::Yes {
                    break 'steps;
                }
            }
        }
    }
}
