//! Size classes: 256 slot sizes from 64 bytes to 1 MiB (FaRM section 3.2).
//!
//! Each class is the longest slot in which the shortest object that needs it wastes at most
//! [`WASTE_PPM`] of the slot: every multiple of 8 up to 224 bytes, then steps of 3.4 %. Over all
//! sizes, counted in words, 1.67 % of a slot is wasted on average and 3.35 % at worst; FaRM gives
//! 1.8 % and 3.6 %. What is left at the end of a run of blocks is at most 1/32 of it.

use crate::object::{HEADER_BYTES, OBJECT_BYTES_MAX};
use barn_layout::heap::BLOCK_BYTES;
use barn_layout::limits::WORD_BYTES;

/// How many classes there are.
pub const CLASSES: usize = 256;

/// The shortest slot, header included.
pub const SLOT_BYTES_MIN: usize = 64;

/// The longest slot of a class: a block. What is longer gets blocks of its own.
pub const SLOT_BYTES_MAX: usize = BLOCK_BYTES;

/// The most blocks of a run that is divided into slots.
pub const RUN_BLOCKS_MAX: usize = 16;

/// The part of a slot that the worst size wastes, in millionths. The least with which 256 classes
/// reach 1 MiB is 33,403; from 33,413 on the last but one also fills its blocks to 31/32.
const WASTE_PPM: u64 = 33_420;

/// The classes' slots, in words.
const SLOT_WORDS: [u32; CLASSES] = slot_words();

const fn slot_words() -> [u32; CLASSES] {
    let mut words = [0; CLASSES];
    let mut last = (SLOT_BYTES_MIN / WORD_BYTES) as u64;
    let mut class = 0;
    while class < CLASSES {
        words[class] = last as u32;
        let next = (last + 1) * 1_000_000 / (1_000_000 - WASTE_PPM);
        let longest = (SLOT_BYTES_MAX / WORD_BYTES) as u64;
        last = if next < longest { next } else { longest };
        class += 1;
    }
    words
}

const _: () = assert!(SLOT_WORDS[CLASSES - 1] as usize * WORD_BYTES == SLOT_BYTES_MAX);
const _: () = assert!(SLOT_WORDS[CLASSES - 2] < SLOT_WORDS[CLASSES - 1]);

/// Sizes up to this many words are looked up; longer ones are searched for.
const LOOKED_UP_WORDS: usize = 1024;

/// The class of every size up to [`LOOKED_UP_WORDS`].
const CLASS_OF: [u8; LOOKED_UP_WORDS + 1] = {
    let mut table = [0; LOOKED_UP_WORDS + 1];
    let (mut words, mut class) = (0, 0);
    while words <= LOOKED_UP_WORDS {
        if words as u32 > SLOT_WORDS[class] {
            class += 1;
        }
        table[words] = class as u8;
        words += 1;
    }
    table
};

/// The size of a slot, and of the run of blocks that holds such slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The length of a slot, header included.
    pub slot_bytes: usize,
    /// How many blocks a run has.
    pub run_blocks: usize,
    /// Its class; `None` for a slot that has a run of its own.
    pub class: Option<u8>,
}

impl Size {
    /// The size of class `class`.
    pub fn of_class(class: u8) -> Self {
        let slot_bytes = SLOT_WORDS[class as usize] as usize * WORD_BYTES;
        Self { slot_bytes, run_blocks: RUN_BLOCKS[class as usize] as usize, class: Some(class) }
    }

    /// The size that an object of `bytes` needs; `None` if that is too long.
    #[inline]
    pub fn for_object(bytes: usize) -> Option<Self> {
        if bytes > OBJECT_BYTES_MAX {
            return None;
        }
        let words = (HEADER_BYTES + bytes).div_ceil(WORD_BYTES);
        if words <= LOOKED_UP_WORDS {
            return Some(Self::of_class(CLASS_OF[words]));
        }
        let class = SLOT_WORDS.partition_point(|slot| (*slot as usize) < words);
        Some(match class < CLASSES {
            true => Self::of_class(class as u8),
            false => Self::own((words * WORD_BYTES).div_ceil(BLOCK_BYTES)),
        })
    }

    /// The size whose slots are `slot_bytes` long, if there is one.
    pub fn of_slot(slot_bytes: usize) -> Option<Self> {
        let size = match slot_bytes <= SLOT_BYTES_MAX {
            true => Self::for_object(slot_bytes.checked_sub(HEADER_BYTES)?)?,
            false => Self::own(slot_bytes / BLOCK_BYTES),
        };
        (size.slot_bytes == slot_bytes && slot_bytes <= OBJECT_BYTES_MAX + HEADER_BYTES + BLOCK_BYTES)
            .then_some(size)
    }

    /// The larger classes whose slots are at most twice as long, ascending.
    pub fn larger(self) -> impl Iterator<Item = Self> {
        let classes = self.class.map(|class| class.saturating_add(1)..=u8::MAX).into_iter().flatten();
        classes
            .map(Self::of_class)
            .skip_while(move |size| size.slot_bytes == self.slot_bytes)
            .take_while(move |size| size.slot_bytes <= 2 * self.slot_bytes)
    }

    /// How many slots a run has.
    pub fn slots(self) -> usize {
        self.run_blocks * BLOCK_BYTES / self.slot_bytes
    }

    /// A slot with `blocks` of its own.
    fn own(blocks: usize) -> Self {
        Self { slot_bytes: blocks * BLOCK_BYTES, run_blocks: blocks, class: None }
    }
}

/// The runs of the classes: the fewest blocks of which at most 1/32 is left over.
const RUN_BLOCKS: [u8; CLASSES] = {
    let mut table = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let slot = SLOT_WORDS[class] as usize * WORD_BYTES;
        let mut blocks = 1;
        while blocks * BLOCK_BYTES % slot * 32 > blocks * BLOCK_BYTES {
            blocks += 1;
        }
        assert!(blocks <= RUN_BLOCKS_MAX);
        table[class] = blocks as u8;
        class += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and worst part of a slot that is wasted, over sizes that are multiples of `step`.
    fn waste(step: usize) -> (f64, f64) {
        let (mut sum, mut worst, mut count) = (0.0, 0.0f64, 0.0);
        for bytes in (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).step_by(step) {
            let size = Size::for_object(bytes - HEADER_BYTES).unwrap();
            let part = (size.slot_bytes - bytes) as f64 / size.slot_bytes as f64;
            sum += part;
            worst = worst.max(part);
            count += 1.0;
        }
        (sum / count, worst)
    }

    #[test]
    fn fragmentation_is_what_farm_gives_or_less() {
        let (mean, worst) = waste(WORD_BYTES);
        println!("by words: mean {:.3} %, worst {:.3} %", mean * 100.0, worst * 100.0);
        assert!(mean <= 0.018 && worst <= 0.036, "mean {mean}, worst {worst}");
        let (mean, worst) = waste(1);
        println!("by bytes: mean {:.3} %, worst {:.3} %", mean * 100.0, worst * 100.0);
        assert!(mean <= 0.018, "mean {mean}");
    }

    #[test]
    fn classes_ascend_and_fill_their_runs() {
        for class in 0..CLASSES {
            let size = Size::of_class(class as u8);
            assert_eq!(Size::of_slot(size.slot_bytes), Some(size));
            if class > 0 {
                assert!(size.slot_bytes > Size::of_class(class as u8 - 1).slot_bytes);
            }
            let run = size.run_blocks * BLOCK_BYTES;
            assert!((run - size.slots() * size.slot_bytes) * 32 <= run, "{size:?}");
        }
        assert_eq!(Size::of_class(0).slot_bytes, SLOT_BYTES_MIN);
    }

    #[test]
    fn every_size_fits_the_smallest_class_that_can_hold_it() {
        let mut class = 0;
        for bytes in 0..=SLOT_BYTES_MAX - HEADER_BYTES {
            if Size::of_class(class).slot_bytes < bytes + HEADER_BYTES {
                class += 1;
            }
            assert_eq!(Size::for_object(bytes).unwrap().class, Some(class), "{bytes}");
        }
    }

    #[test]
    fn longer_objects_have_blocks_of_their_own() {
        let size = Size::for_object(SLOT_BYTES_MAX - HEADER_BYTES + 1).unwrap();
        assert_eq!((size.class, size.run_blocks, size.slots()), (None, 2, 1));
        let size = Size::for_object(OBJECT_BYTES_MAX).unwrap();
        assert_eq!((size.run_blocks, size.slots()), (65, 1));
        assert_eq!(Size::of_slot(size.slot_bytes), Some(size));
        assert_eq!(Size::for_object(OBJECT_BYTES_MAX + 1), None);
        for slot_bytes in [0, 8, 56, 65, 232, SLOT_BYTES_MAX + 8, 67 * BLOCK_BYTES] {
            assert_eq!(Size::of_slot(slot_bytes), None, "{slot_bytes}");
        }
    }
}
