//! FaRM's chained associative hopscotch hashing (section 3.6): one READ in the common case.
//!
//! A bucket is a heap object with H/2 slots. A key lies in its home bucket, in the next, or in the
//! home's overflow block, so that one READ of two neighbours finds most. What differs from the paper:
//! - buckets come in segments of about 256 KiB, found through a directory that clients keep a copy of;
//!   a full one is split without stopping the table, and freed, so that a client with an old copy
//!   notices;
//! - an overflow block has all entries of its chain, so that a lookup never needs a third READ;
//! - of several seeds for a segment the one is used with which the fewest entries overflow;
//! - an entry's version, for compare-and-swap, follows from its bucket's: see [`bucket`].

mod asked;
mod bucket;
mod change;
mod count;
mod directory;
mod figures;
mod group;
mod in_place;
mod local;
mod lookup;
mod one_bucket;
mod owner;
mod rebuild;
mod reopen;
mod scan;
mod shape;
mod tagged;
#[cfg(test)]
mod tests;
mod transaction;

pub use figures::{Figures, figures};
pub(crate) use group::Told;
pub(crate) use lookup::Aim;
pub use lookup::Roots;
pub use owner::Owner;
pub(crate) use transaction::NotDone;

/// Bytes that a lookup from afar READs in the common case: two buckets of a table with these options.
pub fn lookup_bytes(options: &crate::TableOptions) -> usize {
    shape::Shape::new(options).pair_bytes()
}
