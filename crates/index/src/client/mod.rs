//! A client's side of tables: one interface for all kinds.

mod at_hand;
mod at_once;
mod batch;
pub(crate) mod buffers;
mod catalogue;
mod choosing;
mod follow;
pub(crate) mod memory;
pub(crate) mod near;
mod range;
mod read;
mod roots;
mod scan;
mod table;
mod transaction;
mod update;

pub use batch::Answers;
pub use catalogue::TableInfo;
pub use memory::{Memory, Unreadable};
pub use range::Range;
pub use scan::Scan;
pub use table::{Table, TableStats, Way};
pub use transaction::TableTransaction;
pub use update::{Put, Swapped, Write, Written};
