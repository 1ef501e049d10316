//! Calls and returns in order of time, as a list from which operations are taken and put back.
//!
//! What always holds: an operation's call and its return are both in the list, or neither is, and
//! operations are put back in the reverse order of being taken (Knuth's dancing links: an entry that
//! was taken still knows its neighbours).

use super::prepare::Step;

/// Where the list begins and ends.
const HEAD: u32 = 0;
/// An entry that is a return has this bit set, next to its operation's number.
const RETURN: u32 = 1 << 31;

/// Calls and returns of the operations that have to happen.
pub(super) struct Links {
    next: Vec<u32>,
    previous: Vec<u32>,
    /// Of each entry: its operation, and whether it is a return.
    what: Vec<u32>,
    call_at: Vec<u32>,
    return_at: Vec<u32>,
}

/// An entry of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Call(u32),
    Return(u32),
}

impl Links {
    pub(super) fn new(steps: &[Step]) -> Self {
        let mut events: Vec<(u64, u32)> = Vec::with_capacity(2 * steps.len());
        for (number, step) in steps.iter().enumerate().filter(|(_, step)| !step.optional) {
            // At the same moment calls come before returns: intervals that touch are concurrent.
            events.push((step.invoked, number as u32));
            events.push((step.returned, number as u32 | RETURN));
        }
        events.sort_unstable_by_key(|&(time, what)| (time, what));
        let count = events.len() as u32 + 1;
        let (mut call_at, mut return_at) = (vec![0; steps.len()], vec![0; steps.len()]);
        let mut what = Vec::with_capacity(events.len() + 1);
        what.push(RETURN);
        for (at, &(_, event)) in events.iter().enumerate() {
            let places = if event & RETURN == 0 { &mut call_at } else { &mut return_at };
            places[(event & !RETURN) as usize] = at as u32 + 1;
            what.push(event);
        }
        let next = (0..count).map(|at| (at + 1) % count).collect();
        let previous = (0..count).map(|at| (at + count - 1) % count).collect();
        Self { next, previous, what, call_at, return_at }
    }

    /// The first entry.
    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.next[HEAD as usize]
    }

    /// The entry after this one.
    #[inline]
    pub(super) fn after(&self, at: u32) -> u32 {
        self.next[at as usize]
    }

    /// What an entry is; nothing at the end.
    #[inline]
    pub(super) fn entry(&self, at: u32) -> Option<Entry> {
        let what = self.what[at as usize];
        match what & RETURN {
            _ if at == HEAD => None,
            0 => Some(Entry::Call(what)),
            _ => Some(Entry::Return(what & !RETURN)),
        }
    }

    /// The place of an operation's call in the order of time.
    #[inline]
    pub(super) fn call_at(&self, step: u32) -> u32 {
        self.call_at[step as usize]
    }

    /// The place of an operation's return in the order of time.
    #[inline]
    pub(super) fn return_at(&self, step: u32) -> u32 {
        self.return_at[step as usize]
    }

    /// Takes an operation out. What comes after its call is then still in the list.
    #[inline]
    pub(super) fn take(&mut self, step: u32) {
        for at in [self.return_at[step as usize], self.call_at[step as usize]] {
            let (before, after) = (self.previous[at as usize], self.next[at as usize]);
            self.next[before as usize] = after;
            self.previous[after as usize] = before;
        }
    }

    /// Puts back the operation that was taken last.
    #[inline]
    pub(super) fn put_back(&mut self, step: u32) {
        for at in [self.call_at[step as usize], self.return_at[step as usize]] {
            let (before, after) = (self.previous[at as usize], self.next[at as usize]);
            self.next[before as usize] = at;
            self.previous[after as usize] = at;
        }
    }
}
