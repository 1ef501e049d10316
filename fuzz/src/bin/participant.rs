//! A client and a resolver that say anything to a node's transaction layer.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_transaction::fuzzing::participant(bytes));
