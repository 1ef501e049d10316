//! Bytes as what a log has on disk: segment headers, frames, records, manifests.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_log::fuzzing::on_disk(bytes));
