//! Workloads, shared by `barn bench ycsb` and `barn bench peers`: who does what to whom, how fast, and how
//! it is measured.
//!
//! | file | what it decides |
//! |---|---|
//! | `zipfian`, `fnv`, `choose` | which record is next |
//! | `mix`, `trace` | what is done to it |
//! | `shape` | how long keys and values are, and what is in them |
//! | `drive`, `clock`, `latency` | when an operation begins, and how long it took |
//! | `store/` | how each store carries operations out |
//! | `worker`, `crew` | client processes and their threads, and who tells them |
//! | `options`, `figures` | what can be asked for, and how it is shown |

pub(crate) mod choose;
pub(crate) mod clock;
pub(crate) mod crew;
pub(crate) mod drive;
pub(crate) mod figures;
pub(crate) mod fnv;
pub(crate) mod latency;
pub(crate) mod mix;
pub(crate) mod options;
pub(crate) mod shape;
pub(crate) mod site;
pub(crate) mod store;
pub(crate) mod subject;
#[cfg(test)]
mod tests;
pub(crate) mod trace;
pub(crate) mod worker;
pub(crate) mod zipfian;
