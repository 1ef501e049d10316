//! Objects that somebody was told are not there: each must not have been made yet, or be freed.
//!
//! Only what time alone shows is judged: an object that was known to be there before somebody asked, and that
//! nobody even began to free before he was told, was there all the while.

use super::record::{Outcome, WriteKind};
use super::store::History;
use super::violation::{TransactionName, Violation};

/// What time says of an object.
#[derive(Clone, Copy, Default)]
struct Life {
    /// Since when somebody knew that it was there, and who.
    known: Option<(u64, TransactionName)>,
    /// When somebody first began to free it.
    freed: Option<u64>,
}

/// Fails if an object was there that somebody did not find.
pub(super) fn none_was_there(history: &History) -> Result<(), Violation> {
    if history.absences.is_empty() {
        return Ok(());
    }
    let mut lives = vec![Life::default(); history.objects.len()];
    for (t, transaction) in history.transactions.iter().enumerate() {
        let (t, outcome) = (t as u32, transaction.outcome);
        let know = |life: &mut Life| {
            if life.known.is_none_or(|(since, _)| transaction.end < since) {
                life.known = Some((transaction.end, history.name(t)));
            }
        };
        // What was read was there, whatever became of the reader; of one whose end is not known, that is not before anything.
        for read in &history.reads[history.reads_of(t)] {
            know(&mut lives[read.object as usize]);
        }
        for write in &history.writes[history.writes_of(t)] {
            let life = &mut lives[write.object as usize];
            if write.kind == WriteKind::Free && outcome != Outcome::Aborted {
                life.freed = Some(life.freed.map_or(transaction.start, |freed| freed.min(transaction.start)));
            }
            if write.kind == WriteKind::Create && outcome == Outcome::Committed {
                know(life);
            }
        }
    }
    let lost = history.absences.iter().find_map(|absence| {
        let life = &lives[absence.object as usize];
        let known_by = life.known.filter(|(since, _)| *since < absence.start).map(|(_, who)| who)?;
        let freed = life.freed.is_some_and(|freed| freed <= absence.end);
        (!freed).then_some((absence, known_by))
    });
    let Some((absence, known_by)) = lost else { return Ok(()) };
    let object = history.objects[absence.object as usize].key;
    Err(Violation::NotFound { witness: absence.by, object, known_by })
}
