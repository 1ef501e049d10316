//! Proves that the fuzzer sees: it must find this crash, which blind chance would not.
//!
//! Eight given bytes, compared one by one, are found in seconds with coverage and not in
//! 2^64 runs without. `cargo xtask fuzz` runs it before the real targets and fails if it
//! does NOT crash: fuzzing without feedback would pass everything.

#![no_main]

use libfuzzer_sys::fuzz_target;

const SECRET: [u8; 8] = *b"barn-owl";

fuzz_target!(|bytes: &[u8]| {
    let mut matched = 0;
    for (have, want) in bytes.iter().zip(SECRET) {
        if *have != want {
            return;
        }
        matched += 1;
    }
    assert!(matched < SECRET.len(), "the canary was found");
});
