//! Pilaf's self-verifying table: 3-way cuckoo hashing over entries that prove themselves (sections 3
//! and 4 of the paper).
//!
//! A key lies at one of three places of an array of entries; its entry points to an *extent*, which
//! holds version, expiry, key and value. The node alone changes either. A client READs an entry,
//! checks its CRC64, READs the extent, checks its CRC64 against the entry's, and compares the key:
//! one READ for each place that it looks at, and one for the extent.
//!
//! What always holds:
//! - an entry is published after its extent is whole, and an extent is reused only after its entry
//!   points elsewhere;
//! - a key that makes room for another is at two places for a moment, never at none: paths are
//!   found first and walked from their end ([`path`]);
//! - a reader that found nothing looks at the count of moves again before it says so ([`lookup`]),
//!   for a key can pass from a place that it has yet to look at to one that it has left behind;
//! - memory that the table has left is zeroed before anything is answered about the new one, and no
//!   zero is an entry: whoever still reads there learns that it is out of date.
//!
//! | file | what |
//! |---|---|
//! | `entry.rs` | the four words of an entry, and the checks |
//! | `bits.rs`, `buddy.rs`, `extents.rs` | memory for keys and values |
//! | `table.rs` | one generation of the array of entries, with the owner's notes |
//! | `path.rs` | how room is made for a key |
//! | `owner.rs`, `grow.rs`, `scan.rs` | the node's side |
//! | `reopen.rs` | what is written down of a shard, and how it comes back from that |
//! | `roots.rs`, `lookup.rs`, `batch.rs` | the client's side |
//! | `figures.rs` | the paper's Figure 6, measured |

mod batch;
mod bits;
mod buddy;
mod entry;
mod extents;
mod figures;
mod grow;
mod lookup;
mod owner;
mod path;
mod reopen;
mod roots;
mod scan;
mod table;
#[cfg(test)]
mod tests;

pub use figures::{Probes, linear_probes, probes};
pub(crate) use lookup::load_mapped;
pub use owner::Owner;
pub use roots::Roots;

use crate::error::Refused;
use barn_fabric::AccessError;
use barn_heap::AllocError;

/// Why a step failed; nothing was changed that anybody could see.
#[derive(Clone, Debug, PartialEq)]
enum Trouble {
    /// There is no memory.
    Full(String),
    /// The shard's own memory cannot be reached.
    Lost,
}

impl From<AllocError> for Trouble {
    fn from(error: AllocError) -> Self {
        Self::Full(error.to_string())
    }
}

impl From<AccessError> for Trouble {
    fn from(_: AccessError) -> Self {
        Self::Lost
    }
}

impl From<Trouble> for Refused {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Full(why) => Self::Full(why),
            Trouble::Lost => Self::Invalid("the shard's memory cannot be reached".into()),
        }
    }
}
