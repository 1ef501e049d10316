//! What FaRM's section 3.6 measures, on a shard as it is.

use super::{Owner, Roots};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key};
use crate::node::{Decision, Part, Shard};
use crate::options::TableOptions;
use barn_fabric::{Confirmation, Words, block_on};
use barn_heap::{Heap, HeapOptions};
use barn_layout::{Address, RegionId};
use std::borrow::Cow;

/// What a full table needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// READs for a key that is there, on average.
    pub reads_per_lookup: f64,
    /// Bytes of keys and values, of the memory that they take.
    pub space: f64,
    /// Keys, of the slots that there are.
    pub occupancy: f64,
}

struct Own(Words);

impl Memory for Own {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.0.load(u64::from(at.offset()), into).map_err(|_| Unreadable::Nowhere)
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.read(at, into).await.map(|()| Confirmation::Unordered)
    }

    fn mapped(&self, _: RegionId) -> Option<&Words> {
        None
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}

/// Fills a table with 16-byte keys and 32-byte values to 90 % of its slots, and looks at every key.
pub fn figures(neighbourhood: u32, keys: u64) -> Figures {
    let options = TableOptions {
        capacity: keys,
        inline_bytes: 32,
        neighbourhood,
        seed: 0xba21,
        ..TableOptions::default()
    };
    let part = Part { table: 1, shard: 0, shards: 1 };
    let none = Figures { reads_per_lookup: f64::NAN, space: f64::NAN, occupancy: f64::NAN };
    let words = Words::private((keys as usize * 160).next_multiple_of(2 << 20) + (16 << 20));
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    if heap.add_region(RegionId(1), words.clone()).is_err() {
        return none;
    }
    let Ok(mut owner) = Owner::new(&mut heap, &options, part) else { return none };
    let key = |number: u64| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let mut decide = |_: Option<&Found>| Decision::Store { value: Cow::Borrowed(&[7; 32]), expires: 0 };
    // Segments that hold nothing yet are made first: the table is as large as it will be.
    while owner.stats().slots * 9 < keys * 10 {
        let before = owner.stats().slots;
        owner.tend(&mut heap);
        if owner.stats().slots == before {
            break;
        }
    }
    let mut number = 0;
    while owner.stats().keys * 10 < owner.stats().slots * 9 {
        let bytes = key(number);
        if owner.update(&mut heap, Key::new(options.seed, &bytes), &mut decide).is_err() {
            return none;
        }
        number += 1;
    }
    let Ok(roots) = Roots::parse(&owner.roots(&heap, &[]), &options, part) else { return none };
    let (mut reads, mut found, memory) = (0, Found::default(), Own(words));
    for number in 0..number {
        let bytes = key(number);
        let _ = block_on(roots.lookup(&memory, Key::new(options.seed, &bytes), &mut found, &mut reads));
    }
    let stats = owner.stats();
    Figures {
        reads_per_lookup: f64::from(reads) / number as f64,
        space: stats.payload_bytes as f64 / stats.memory_bytes as f64,
        occupancy: stats.keys as f64 / stats.slots as f64,
    }
}
