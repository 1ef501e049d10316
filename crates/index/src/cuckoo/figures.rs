//! Pilaf's Figure 6: how many places a lookup looks at, measured.

use super::owner::Owner;
use super::table::{hash_of, places};
use crate::error::Refused;
use crate::hash::{hash, scale};
use crate::key::Key;
use crate::node::{Decision, Part, Shard};
use crate::options::{Kind, TableOptions};
use barn_fabric::Words;
use barn_heap::{Heap, HeapOptions};
use barn_layout::RegionId;
use std::borrow::Cow;

/// The places of the table that is measured.
const SLOTS: u64 = 1 << 16;
/// Those of linear probing, whose longest run of taken places grows with them.
const LINEAR_SLOTS: u64 = 1 << 24;
/// Enough for their entries, and an extent for each key.
const REGION_BYTES: usize = 32 << 20;

/// How many places lookups of the keys that are there look at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probes {
    /// On average.
    pub mean: f64,
    /// At most.
    pub most: u64,
}

impl Probes {
    fn of(counts: impl Iterator<Item = u64>) -> Self {
        let (sum, keys, most) =
            counts.fold((0, 0u64, 0), |(sum, keys, most), count| (sum + count, keys + 1, most.max(count)));
        Self { mean: sum as f64 / keys.max(1) as f64, most }
    }
}

/// The probes of this table, filled to `fill` of its places; `None` if that is more than it holds.
pub fn probes(fill: f64, seed: u64) -> Option<Probes> {
    measured(fill, seed).ok().flatten()
}

fn measured(fill: f64, seed: u64) -> Result<Option<Probes>, Refused> {
    let mut heap = Heap::new(HeapOptions { budget_bytes: REGION_BYTES as u64 });
    if heap.add_region(RegionId(1), Words::private(REGION_BYTES)).is_err() {
        return Ok(None);
    }
    let options = TableOptions { kind: Kind::Cuckoo, seed, ..TableOptions::default() };
    let mut owner = Owner::with_slots(&mut heap, &options, Part { table: 1, shard: 0, shards: 1 }, SLOTS)?;
    let keys = (SLOTS as f64 * fill.clamp(0.0, 1.0)) as u64;
    for number in 0..keys {
        let bytes = number.to_le_bytes();
        let store = || Decision::Store { value: Cow::Borrowed(&[][..]), expires: 0 };
        owner.update(&mut heap, Key::new(seed, &bytes), &mut |_| store())?;
    }
    if owner.table.slots != SLOTS {
        return Ok(None);
    }
    let mut counts = Vec::with_capacity(keys as usize);
    for number in 0..keys {
        let hash = hash_of(Key::new(seed, &number.to_le_bytes()));
        for (way, place) in places(hash, SLOTS).into_iter().enumerate() {
            if owner.table.hash_at(place)? == hash {
                counts.push(way as u64 + 1);
                break;
            }
        }
    }
    Ok(Some(Probes::of(counts.into_iter())))
}

/// The probes of linear probing, for comparison.
pub fn linear_probes(fill: f64, seed: u64) -> Probes {
    let mut taken = vec![false; LINEAR_SLOTS as usize];
    // One place stays free, or the search for it would not end.
    let keys = ((LINEAR_SLOTS as f64 * fill.clamp(0.0, 1.0)) as u64).min(LINEAR_SLOTS - 1);
    Probes::of((0..keys).map(|number| {
        let mut place = scale(hash(seed, &number.to_le_bytes()), LINEAR_SLOTS) as usize;
        let mut count = 1;
        while std::mem::replace(&mut taken[place], true) {
            place = (place + 1) % LINEAR_SLOTS as usize;
            count += 1;
        }
        count
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_full_it_is_as_in_the_paper() {
        for seed in 1..4 {
            let cuckoo = probes(0.75, seed).unwrap();
            let linear = linear_probes(0.75, seed);
            println!("cuckoo {cuckoo:?}, linear {linear:?}");
            assert!(cuckoo.mean <= 1.6 && cuckoo.most == 3, "{cuckoo:?}");
            assert!((2.2..2.8).contains(&linear.mean) && linear.most > 100, "{linear:?}");
        }
    }

    #[test]
    fn nine_tenths_fit() {
        assert!(probes(0.89, 7).is_some());
        assert_eq!(probes(0.95, 7), None);
    }
}
