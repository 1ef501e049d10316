//! Changes many objects at once, strictly serializably; recovers.
#![forbid(unsafe_code)]

pub mod history;
