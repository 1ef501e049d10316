//! What the operations on a key do, the same for every kind of table.

use super::Now;
use super::shard::{Decision, Shard};
use crate::error::Refused;
use crate::key::{Found, Key};
use crate::wire::Update;
use barn_heap::Heap;
use barn_layout::planted;
use barn_layout::table::{Operation, Outcome};
use std::borrow::Cow;

/// Carries an operation out, and tells `done` what came of it: the outcome, the key's version, when
/// it expires, and a value or a reason.
pub fn apply(
    shard: &mut dyn Shard,
    heap: &mut Heap,
    key: Key<'_>,
    update: &Update<'_>,
    now: &Now,
    done: impl FnOnce(Outcome, u64, u64, &[u8]),
) {
    let mut outcome = Outcome::Done;
    let mut expires = update.expires;
    let mut said = Vec::new();
    // Where nothing changes, the answer tells what is there.
    let mut seen_version = 0;
    let changed = shard.update(heap, key, &mut |found| {
        let found = found.filter(|found| found.expires == 0 || !found.is_expired(now.ms()));
        seen_version = found.map_or(0, |found| found.version);
        let (decided, decision) = decide(update, found, &mut expires, &mut said);
        outcome = decided;
        decision
    });
    match changed {
        Ok(version) => {
            let version = if version == 0 { seen_version } else { version };
            done(outcome, version, expires, &said);
        }
        Err(Refused::Busy) => done(Outcome::Again, 0, 0, &[]),
        Err(Refused::Full(why)) => {
            let outcome = if heap.will_have_room() { Outcome::Short } else { Outcome::Full };
            done(outcome, 0, 0, why.as_bytes());
        }
        Err(Refused::Invalid(why)) => done(Outcome::Invalid, 0, 0, why.as_bytes()),
    }
}

fn decide<'v>(
    update: &Update<'v>,
    found: Option<&Found>,
    expires: &mut u64,
    said: &mut Vec<u8>,
) -> (Outcome, Decision<'v>) {
    let store = Decision::Store { value: Cow::Borrowed(update.value), expires: update.expires };
    let same = |found: &Found| found.version == update.operand || planted("swap_ignores_version");
    match (update.operation, found) {
        (Operation::Put, _) | (Operation::Insert, None) => (Outcome::Done, store),
        (Operation::Insert, Some(_)) => (Outcome::Different, Decision::Keep),
        // What has expired is removed as well, though nobody is told that it was there.
        (Operation::Delete | Operation::DeleteVersion, None) => (Outcome::Absent, Decision::Remove),
        (Operation::Delete, Some(_)) => (Outcome::Done, Decision::Remove),
        (Operation::DeleteVersion, Some(found)) if same(found) => (Outcome::Done, Decision::Remove),
        (Operation::Swap, None) => (Outcome::Absent, Decision::Keep),
        (Operation::Swap, Some(found)) if same(found) => (Outcome::Done, store),
        (Operation::Swap | Operation::DeleteVersion, Some(_)) => (Outcome::Different, Decision::Keep),
        (Operation::Add, _) => match add(found.map(|found| &found.value[..]), update.operand as i64) {
            Ok(sum) => {
                *said = sum.to_string().into_bytes();
                // A counter keeps the end that it was given when it was made, or none.
                if let Some(found) = found {
                    *expires = found.expires;
                }
                (Outcome::Done, Decision::Store { value: Cow::Owned(said.clone()), expires: *expires })
            }
            Err(why) => {
                *said = why.into_bytes();
                (Outcome::NotANumber, Decision::Keep)
            }
        },
    }
}

/// The sum of a value, as people write numbers, and `by`. Nothing counts as 0.
fn add(value: Option<&[u8]>, by: i64) -> Result<i64, String> {
    let number = match value {
        None => 0,
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            text.parse().map_err(|_| not_a_number(bytes))?
        }
    };
    let sum: Option<i64> = i64::checked_add(number, by);
    sum.ok_or_else(|| format!("{number} and {by} together do not fit 64 bits"))
}

/// Why a value is no number that can be added to.
#[cold]
fn not_a_number(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let shown = text.chars().take(32).collect::<String>().escape_debug().to_string();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(&text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("the value `{shown}` does not fit 64 bits");
    }
    match text.trim().parse::<i64>() {
        Ok(_) => format!("the value `{shown}` is not a whole number: put it without what is around it"),
        Err(_) => format!("the value `{shown}` is not a whole number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(operation: Operation, operand: u64) -> Update<'static> {
        Update { operation, key: b"k", value: b"new", operand, expires: 0, durability: None }
    }

    fn decided(operation: Operation, operand: u64, found: Option<&Found>) -> (Outcome, Decision<'static>) {
        decide(&update(operation, operand), found, &mut 0, &mut Vec::new())
    }

    #[test]
    fn each_operation_looks_at_what_is_there() {
        let found = Found { value: b"41".to_vec(), version: 7, expires: 0 };
        let store = Decision::Store { value: Cow::Borrowed(&b"new"[..]), expires: 0 };
        let there = Some(&found);
        assert_eq!(decided(Operation::Put, 0, there), (Outcome::Done, store.clone()));
        assert_eq!(decided(Operation::Insert, 0, None), (Outcome::Done, store.clone()));
        assert_eq!(decided(Operation::Insert, 0, there), (Outcome::Different, Decision::Keep));
        assert_eq!(decided(Operation::Swap, 7, there), (Outcome::Done, store));
        assert_eq!(decided(Operation::Swap, 6, there), (Outcome::Different, Decision::Keep));
        assert_eq!(decided(Operation::Swap, 7, None), (Outcome::Absent, Decision::Keep));
        assert_eq!(decided(Operation::Delete, 0, there), (Outcome::Done, Decision::Remove));
        assert_eq!(decided(Operation::DeleteVersion, 6, there).0, Outcome::Different);
        let sum = Decision::Store { value: Cow::Owned(b"42".to_vec()), expires: 0 };
        assert_eq!(decided(Operation::Add, 1, there), (Outcome::Done, sum));
    }

    #[test]
    fn only_numbers_are_added_to() {
        assert_eq!(add(None, -3), Ok(-3));
        assert_eq!(add(Some(b"-5"), 6), Ok(1));
        assert!(add(Some(b"five"), 1).is_err_and(|why| why.contains("`five`")));
        assert!(add(Some(&i64::MAX.to_string().into_bytes()), 1).is_err());
        assert!(
            add(Some(b"18446744073709551615"), 1).is_err_and(|why| why.ends_with("does not fit 64 bits"))
        );
        assert!(
            add(Some(b"5\n"), 1)
                .is_err_and(|why| why.contains("`5\\n`") && why.ends_with("what is around it"))
        );
        assert!(add(Some(b"\xff"), 1).is_err() && add(Some(b""), 1).is_err() && add(Some(b"-"), 1).is_err());
    }

    #[test]
    fn a_counter_keeps_the_end_that_it_was_made_with() {
        for (there, wanted) in [(None, 500), (Some(0), 0), (Some(900), 900)] {
            let found = there.map(|expires| Found { value: b"1".to_vec(), version: 7, expires });
            let update = Update { expires: 500, ..update(Operation::Add, 1) };
            let mut told = update.expires;
            let (_, decision) = decide(&update, found.as_ref(), &mut told, &mut Vec::new());
            assert!(matches!(decision, Decision::Store { expires, .. } if expires == wanted), "{there:?}");
            assert_eq!(told, wanted);
        }
    }
}
