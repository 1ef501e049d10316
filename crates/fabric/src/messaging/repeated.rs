//! The node's side of requests that may be lost, arrive twice, late or in part: slots that are looked
//! at, and answers that are kept (HERD section 4.2, and what its section 4.3 leaves to the application).
//!
//! What always holds: a lap of a slot is taken once, so that no request is done twice, however often
//! it arrives; the answer to a slot's last request is kept until the next one comes, and given again
//! to whoever rings about it; one that is still worked on is left alone.

use super::request_region::{lap_of, read_checked};
use crate::region::Words;
use barn_layout::channel::SLOT_BYTES;
use barn_layout::message::{Arrival, MessageHeader, Status};
use barn_layout::planted;

/// Slots out of turn are looked at once in so many looks: only a loss makes them come before others.
const LOOKS_PER_FULL_SCAN: u32 = 32;

/// How far a slot's last request has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There was none.
    #[default]
    Free,
    Working,
    /// This was the answer.
    Answered {
        status: u8,
        body: Vec<u8>,
    },
    /// The answer was long, and went by the ring, where nothing is lost.
    ByRing,
}

#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The lap that was taken last; 0 if none was.
    lap: u32,
    pub(crate) id: u64,
    pub(crate) progress: Progress,
}

/// The answers to the requests in the slots.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) slots: Vec<Slot>,
    /// Slots whose answer is to be sent, or sent again.
    pub(crate) out: Vec<usize>,
    /// The longest body that a datagram takes.
    body_bytes_max: usize,
}

impl Kept {
    fn new(window: usize, body_bytes_max: usize) -> Self {
        let slots = (0..window).map(|_| Slot::default()).collect();
        Self { slots, out: Vec::new(), body_bytes_max }
    }

    /// Takes an answer, if it is to a request of a slot and fits a datagram; says whether it did.
    pub(crate) fn answer(&mut self, id: u64, status: Status, body: &[u8]) -> bool {
        let mut working = self.slots.iter_mut().enumerate();
        let found = working.find(|(_, slot)| slot.progress == Progress::Working && slot.id == id);
        let Some((index, slot)) = found else { return false };
        if body.len() > self.body_bytes_max {
            slot.progress = Progress::ByRing;
            return false;
        }
        slot.progress = Progress::Answered { status: status as u8, body: body.to_vec() };
        self.out.push(index);
        true
    }

    /// The client rang about a slot that holds this lap: what it has not heard, it is told again.
    fn rung(&mut self, index: usize, lap: u32) {
        let Some(slot) = self.slots.get(index) else { return };
        if slot.lap == lap && matches!(slot.progress, Progress::Answered { .. }) && !self.out.contains(&index)
        {
            self.out.push(index);
        }
    }
}

/// Where a client's requests come, and which comes next.
#[derive(Debug)]
pub(crate) struct Scan {
    words: Words,
    base: u64,
    next: usize,
    looks: u32,
    /// A ring came: look at every slot.
    rung: bool,
}

impl Scan {
    /// A look at the slots that begin at `base`.
    pub(crate) fn new(words: &Words, base: u64) -> Self {
        Self { words: words.clone(), base, next: 0, looks: 0, rung: false }
    }

    fn at(&self, slot: usize) -> u64 {
        self.base + (slot * SLOT_BYTES) as u64
    }

    /// Whether something may be there.
    #[inline]
    pub(crate) fn has_next(&self, kept: &Kept) -> bool {
        self.rung || lap_of(&self.words, self.at(self.next)) == Arrival::next(kept.slots[self.next].lap)
    }

    /// The client rang about a slot.
    pub(crate) fn ring(&mut self, slot: u32, kept: &mut Kept) {
        self.rung = true;
        if let Some(index) = usize::try_from(slot).ok().filter(|index| *index < kept.slots.len()) {
            kept.rung(index, lap_of(&self.words, self.at(index)));
        }
    }

    /// Takes the next request: its header, and its body onto the end of `into`.
    pub(crate) fn take(
        &mut self,
        kept: &mut Kept,
        thorough: bool,
        into: &mut Vec<u8>,
    ) -> Option<MessageHeader> {
        let window = kept.slots.len();
        self.looks = self.looks.wrapping_add(1);
        let all = thorough || self.rung || self.looks.is_multiple_of(LOOKS_PER_FULL_SCAN);
        for step in 0..if all { window } else { 1 } {
            let index = (self.next + step) % window;
            let slot = &mut kept.slots[index];
            // An honest client has the answer of a slot's last request before it uses it again.
            if slot.progress == Progress::Working {
                continue;
            }
            let again = planted("verbs_lap_taken_again") && slot.lap > 0;
            let lap = if again { slot.lap } else { Arrival::next(slot.lap) };
            if let Some(header) = read_checked(&self.words, self.at(index), lap, into) {
                *slot = Slot { lap, id: header.id.get(), progress: Progress::Working };
                self.next = (index + 1) % window;
                return Some(header);
            }
        }
        self.rung = false;
        None
    }
}

/// The answers for a window of so many slots, by datagrams of this path MTU.
pub(crate) fn kept(window: usize, mtu: u8) -> Kept {
    let mtu_bytes = 128usize << mtu.clamp(1, 5);
    let most = mtu_bytes.min(SLOT_BYTES) - MessageHeader::BYTES;
    Kept::new(window, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messaging::request_region::write_checked;

    #[test]
    fn an_answer_is_kept_and_given_again_and_only_to_its_lap() {
        let mut kept = kept(2, 3);
        kept.slots[1] = Slot { lap: 7, id: 40, progress: Progress::Working };
        kept.rung(1, 7);
        assert!(kept.out.is_empty(), "it is still worked on");
        assert!(!kept.answer(41, Status::Done, b"?"), "nobody asked");
        assert!(kept.answer(40, Status::Done, b"forty"));
        assert_eq!(std::mem::take(&mut kept.out), [1]);
        kept.rung(1, 8);
        kept.rung(9, 7);
        assert!(kept.out.is_empty(), "a lap that was not taken has no answer");
        kept.rung(1, 7);
        kept.rung(1, 7);
        assert_eq!(kept.out, [1], "once is enough");
        assert!(!kept.answer(40, Status::Done, b"again"), "a request has one answer");
    }

    fn header(id: u64) -> MessageHeader {
        crate::messaging::mail::header(barn_layout::message::Kind::Request, crate::slots::Ticket(id), 0, 0)
    }

    #[test]
    fn a_request_that_arrives_often_and_late_is_taken_once() {
        let (mut kept, mut body) = (kept(2, 3), Vec::new());
        let words = Words::private(2 * SLOT_BYTES);
        let mut scan = Scan::new(&words, 0);
        assert!(!scan.has_next(&kept));
        write_checked(&words, 0, 1, &header(10), b"one");
        assert!(scan.has_next(&kept));
        assert_eq!(scan.take(&mut kept, true, &mut body).map(|header| header.id.get()), Some(10));
        assert!(kept.answer(10, Status::Done, b"1"));
        // Repeated after its answer was given: the same lap again.
        write_checked(&words, 0, 1, &header(10), b"one");
        scan.ring(0, &mut kept);
        assert!(scan.take(&mut kept, true, &mut body).is_none(), "it was taken twice");
        assert_eq!(std::mem::take(&mut kept.out).len(), 1, "its answer is given again");
        // The next lap, and then the old one's last copy, which was late.
        write_checked(&words, 0, 2, &header(11), b"two");
        assert_eq!(scan.take(&mut kept, true, &mut body).map(|header| header.id.get()), Some(11));
        assert!(kept.answer(11, Status::Done, b"2"));
        kept.out.clear();
        write_checked(&words, 0, 1, &header(10), b"one");
        scan.ring(0, &mut kept);
        assert!(scan.take(&mut kept, true, &mut body).is_none());
        assert!(kept.out.is_empty(), "an older lap has no answer any more");
    }

    #[test]
    fn a_request_behind_a_lost_one_is_found() {
        let (mut kept, mut body) = (kept(4, 3), Vec::new());
        let words = Words::private(4 * SLOT_BYTES);
        let mut scan = Scan::new(&words, 0);
        write_checked(&words, 2 * SLOT_BYTES as u64, 1, &header(3), b"");
        let found = (0..LOOKS_PER_FULL_SCAN).find_map(|_| scan.take(&mut kept, false, &mut body));
        assert_eq!(found.map(|header| header.id.get()), Some(3));
    }

    #[test]
    fn an_answer_that_does_not_fit_a_datagram_goes_by_the_ring() {
        let mut kept = kept(1, 1);
        kept.slots[0] = Slot { lap: 1, id: 1, progress: Progress::Working };
        assert!(!kept.answer(1, Status::Done, &[0; 256]), "an MTU of 256 bytes has no room for it");
        assert_eq!(kept.slots[0].progress, Progress::ByRing);
        kept.rung(0, 1);
        assert!(kept.out.is_empty());
    }
}
