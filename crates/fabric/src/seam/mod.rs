//! The seams: everything by which the world outside decides what happens.
//!
//! Time, chance, the disk, the network and the order in which things run are reached through
//! interfaces, so that the simulated transport can put one seed in place of all of them.

mod clock;
mod disk;
mod random;
mod schedule;
mod ticks;

pub use clock::{Clock, SystemClock};
pub use disk::{DIRECT_UNIT_BYTES, Disk, DiskFile, DiskLock, SystemDisk};
pub use random::{Random, Seeded, system_random};
pub use schedule::{Schedule, Task, Threads};
