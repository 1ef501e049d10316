//! Looks for an order, forward and, where a guess was wrong, back again.
//!
//! What always holds:
//! - all operations that change nothing and fit the state have been put in place before a guess is
//!   made which change comes next;
//! - a value is left only when nobody is still to see it;
//! - of operations of unknown outcome whose value nobody names, the earliest of a kind comes first:
//!   they are as good as each other.

use super::links::{Entry, Links};
use super::meaning::{Effect, NOTHING, Requires};
use super::memo::{DeadEnds, fingerprint};
use super::prepare::{Prepared, Step};

/// Stands for the key vanishing, among choices.
const VANISH: u32 = u32::MAX;
/// A chain of swaps is followed so far when guessing which change is needed first.
const CHAIN_MAX: usize = 16;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Found,
    NotFound,
    GivenUp,
}

/// A guess that can be taken back.
struct Frame {
    /// How many operations were in place.
    placed: usize,
    /// Where the choices that are left begin.
    choices: usize,
    /// The return that has to be explained next.
    first: u32,
    state: u32,
    fingerprint: u128,
    /// Unknown operations are among the choices already.
    late: bool,
}

/// Operations of unknown outcome that are as good as each other, the earliest first.
#[derive(Default)]
struct Spare {
    steps: Vec<u32>,
    used: usize,
}

/// A search under way.
pub(super) struct Search<'a> {
    history: &'a Prepared,
    links: Links,
    state: u32,
    fingerprint: u128,
    /// Of each value: how many are still to see it.
    demanded: Vec<u32>,
    /// Of each value: the place of the last call that has to do with it.
    last_start: Vec<u32>,
    /// Operations in place, in order.
    order: Vec<u32>,
    frames: Vec<Frame>,
    choices: Vec<u32>,
    scored: Vec<(u64, u32)>,
    /// Puts, inserts and deletes whose outcome nobody knows and whose value nobody names.
    spares: [Spare; 3],
    /// The other operations of unknown outcome, and whether each is in place.
    singles: Vec<(u32, bool)>,
    dead_ends: DeadEnds,
    steps: u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(history: &'a Prepared) -> Self {
        let links = Links::new(&history.steps);
        let mut last_start = vec![0; history.demanded.len()];
        let mut named = vec![false; history.demanded.len()];
        for (number, step) in history.steps.iter().enumerate() {
            if let Some(value) = step.requires.value()
                && let Some(is_named) = named.get_mut(value as usize)
            {
                *is_named = true;
            }
            let seen = if let Requires::Is(value) = step.requires { Some(value) } else { None };
            let written = if let Effect::Set(value) = step.effect { Some(value) } else { None };
            if !step.optional {
                for value in seen.into_iter().chain(written) {
                    let last = &mut last_start[value as usize];
                    *last = links.call_at(number as u32).max(*last);
                }
            }
        }
        let (spares, singles) = unknown(&history.steps, &named);
        Self {
            history,
            links,
            state: history.initial,
            fingerprint: 0,
            demanded: history.demanded.clone(),
            last_start,
            order: Vec::with_capacity(history.steps.len()),
            frames: Vec::new(),
            choices: Vec::new(),
            scored: Vec::new(),
            spares,
            singles,
            dead_ends: DeadEnds::default(),
            steps: 0,
        }
    }

    /// How many guesses were made.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Searches until an order is found, or there is none, or `steps_max` guesses were made.
    pub(super) fn run(&mut self, steps_max: u64) -> Ended {
        loop {
            let Some(first) = self.absorb() else { return Ended::Found };
            if !self.dead_ends.contains(self.key()) {
                let (placed, choices) = (self.order.len(), self.choices.len());
                let (state, fingerprint) = (self.state, self.fingerprint);
                self.frames.push(Frame { placed, choices, first, state, fingerprint, late: false });
                self.add_choices(first);
            }
            if !self.go_on() {
                return Ended::NotFound;
            }
            self.steps += 1;
            if self.steps > steps_max {
                return Ended::GivenUp;
            }
        }
    }

    /// Makes the next guess, after taking back those that have none left. `false` if all were made.
    fn go_on(&mut self) -> bool {
        while let Some(frame) = self.frames.last_mut() {
            let (placed, choices, first) = (frame.placed, frame.choices, frame.first);
            (self.state, self.fingerprint) = (frame.state, frame.fingerprint);
            while self.order.len() > placed {
                self.take_back();
            }
            if self.choices.len() > choices {
                match self.choices.pop() {
                    Some(VANISH) | None => self.state = NOTHING,
                    Some(step) => self.place(step),
                }
                return true;
            }
            if self.frames.last_mut().is_some_and(|frame| !std::mem::replace(&mut frame.late, true)) {
                self.add_late_choices(first);
            } else {
                self.dead_ends.insert(self.key());
                self.frames.pop();
            }
        }
        false
    }

    fn key(&self) -> u128 {
        self.fingerprint ^ fingerprint(u64::from(self.state) | 1 << 40)
    }

    fn step(&self, step: u32) -> &'a Step {
        &self.history.steps[step as usize]
    }

    /// Puts in place what changes nothing and fits. Gives the first return that is left.
    fn absorb(&mut self) -> Option<u32> {
        let mut at = self.links.first();
        loop {
            match self.links.entry(at)? {
                Entry::Return(_) => return Some(at),
                Entry::Call(number) => {
                    let step = self.step(number);
                    if step.effect == Effect::Keep && step.requires.holds(self.state) {
                        self.place(number);
                    }
                }
            }
            at = self.links.after(at);
        }
    }

    fn place(&mut self, number: u32) {
        let step = self.step(number);
        self.order.push(number);
        self.fingerprint ^= fingerprint(u64::from(number));
        if step.optional {
            match self.spares.iter_mut().find(|spare| spare.steps.get(spare.used) == Some(&number)) {
                Some(spare) => spare.used += 1,
                None => self.mark_single(number, true),
            }
        } else {
            self.links.take(number);
            if let Requires::Is(value) = step.requires {
                self.demanded[value as usize] -= 1;
            }
        }
        match step.effect {
            Effect::Keep => {}
            Effect::Set(value) => self.state = value,
            Effect::Clear => self.state = NOTHING,
        }
    }

    /// Undoes the last `place`, apart from state and fingerprint.
    fn take_back(&mut self) {
        let Some(number) = self.order.pop() else { return };
        let step = self.step(number);
        if step.optional {
            let last = |spare: &&mut Spare| spare.used > 0 && spare.steps[spare.used - 1] == number;
            match self.spares.iter_mut().find(last) {
                Some(spare) => spare.used -= 1,
                None => self.mark_single(number, false),
            }
        } else {
            self.links.put_back(number);
            if let Requires::Is(value) = step.requires {
                self.demanded[value as usize] += 1;
            }
        }
    }

    fn mark_single(&mut self, number: u32, is_placed: bool) {
        if let Some(single) = self.singles.iter_mut().find(|(step, _)| *step == number) {
            single.1 = is_placed;
        }
    }

    /// Whether a change can come next.
    fn applies(&self, step: &Step) -> bool {
        step.requires.holds(self.state)
            && (self.state == NOTHING || {
                let own = u32::from(!step.optional && step.requires == Requires::Is(self.state));
                self.demanded[self.state as usize] == own
            })
    }

    /// Whether all who see a value have been called before the return at `first`.
    fn is_closed(&self, value: u32, first: u32) -> bool {
        self.last_start[value as usize] < first
    }

    /// The change that leads to the return at `first`, as far as one can tell.
    fn wanted(&self, first: u32) -> (Option<u32>, Requires) {
        let Some(Entry::Return(mut number)) = self.links.entry(first) else {
            return (None, Requires::Anything);
        };
        for _ in 0..CHAIN_MAX {
            let step = self.step(number);
            if step.requires.holds(self.state) {
                return (Some(number), step.requires);
            }
            match step.requires {
                Requires::Is(value) => match self.history.writer(value) {
                    Some(writer) => number = writer,
                    None => break,
                },
                requires => return (None, requires),
            }
        }
        (None, Requires::Anything)
    }

    /// Adds the changes that can come next, the likeliest last.
    fn add_choices(&mut self, first: u32) {
        let (wanted, needs) = self.wanted(first);
        let is_open = wanted.is_some_and(|wanted| match self.step(wanted).effect {
            Effect::Set(value) => !self.is_closed(value, first),
            _ => false,
        });
        self.scored.clear();
        let mut at = self.links.first();
        while let Some(Entry::Call(number)) = self.links.entry(at) {
            let step = self.step(number);
            if step.effect != Effect::Keep && self.applies(step) {
                let rank = match (step.effect, wanted) {
                    (_, Some(wanted)) if wanted == number => 2,
                    // Nobody sees it, and it is replaced at once: the best place to be rid of it.
                    (Effect::Set(value), Some(_))
                        if self.demanded[value as usize] == 0
                            && step.requires == Requires::Anything
                            && matches!(needs, Requires::Anything | Requires::Something) =>
                    {
                        0
                    }
                    // All who see it are here, while the wanted one will stay for long.
                    (Effect::Set(value), Some(_)) if is_open && self.is_closed(value, first) => 1,
                    (Effect::Clear, None) if needs.holds(NOTHING) => 1,
                    (Effect::Set(value), None) if needs.holds(value) => {
                        if self.is_closed(value, first) {
                            1
                        } else {
                            2
                        }
                    }
                    _ => 3,
                };
                self.scored.push((rank << 32 | u64::from(self.links.return_at(number)), number));
            }
            at = self.links.after(at);
        }
        if self.history.lossy && self.state != NOTHING && self.demanded[self.state as usize] == 0 {
            let rank = if wanted.is_none() && needs.holds(NOTHING) { 0 } else { 4 };
            self.scored.push((rank << 32, VANISH));
        }
        self.scored.sort_unstable_by_key(|&(rank, _)| std::cmp::Reverse(rank));
        self.choices.extend(self.scored.iter().map(|&(_, number)| number));
    }

    /// Adds the operations of unknown outcome that can come next.
    fn add_late_choices(&mut self, first: u32) {
        let Some(Entry::Return(number)) = self.links.entry(first) else { return };
        let now = self.step(number).returned;
        let singles = self.singles.iter().filter(|(_, is_placed)| !is_placed).map(|(step, _)| *step);
        let spares = self.spares.iter().filter_map(|spare| spare.steps.get(spare.used).copied());
        let is_next = |&number: &u32| {
            let step = self.step(number);
            step.invoked <= now && self.applies(step)
        };
        let late: Vec<u32> = singles.chain(spares).filter(is_next).collect();
        self.choices.extend(late);
    }
}

/// Sorts out the operations that may never have happened.
fn unknown(steps: &[Step], named: &[bool]) -> ([Spare; 3], Vec<(u32, bool)>) {
    let mut spares: [Spare; 3] = Default::default();
    let mut singles = Vec::new();
    for (number, step) in steps.iter().enumerate().filter(|(_, step)| step.optional) {
        let kind = match (step.requires, step.effect) {
            (Requires::Anything, Effect::Set(value)) if !named[value as usize] => Some(0),
            (Requires::Nothing, Effect::Set(value)) if !named[value as usize] => Some(1),
            (Requires::Something, Effect::Clear) => Some(2),
            _ => None,
        };
        match kind {
            Some(kind) => spares[kind].steps.push(number as u32),
            None => singles.push((number as u32, false)),
        }
    }
    for spare in &mut spares {
        spare.steps.sort_by_key(|&number| steps[number as usize].invoked);
    }
    (spares, singles)
}
