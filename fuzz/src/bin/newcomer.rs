//! A stranger's first bytes on a tcp socket: nobody gets in without the token.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_fabric::fuzzing::newcomer(bytes));
