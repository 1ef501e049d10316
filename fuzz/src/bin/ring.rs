//! A ring that its writer scribbles over.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_fabric::fuzzing::ring(bytes));
