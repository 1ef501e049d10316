//! HERD's bounded cache: a lossy associative index and a circular log (HERD section 4.1, after MICA).
//!
//! A shard's memory is fixed when it is made. A put appends to the log, over the oldest entries if need
//! be, and is never refused for want of room; a full bucket forgets its oldest entry.
//!
//! What always holds:
//! - a word of the index is empty or names an entry that is whole, and in a bucket no two have the
//!   same tag: a key is looked for in one word, and replaced by storing that word;
//! - the entry is in the log before the word that names it is in the index, and the word is out of the
//!   index before the entry is written over;
//! - a reader believes an entry only if its checksum, which covers table, shard and position, and its
//!   position are right: what was written over between two reads never passes for what it was.
//!
//! `space` says where things are and `entry` what they look like, for both sides. [`Owner`] is the
//! node's side (`storage`, `log`, `room`), [`Roots`] the client's (`lookup`, `batch`).

mod batch;
mod entry;
mod index;
mod log;
mod lookup;
mod owner;
mod room;
mod roots;
mod space;
mod storage;
#[cfg(test)]
mod tests;

pub use owner::Owner;
pub use roots::Roots;
