//! The checksum by tables, eight bytes at a time: for a CPU that cannot multiply without carry, such as an emulated one.
//!
//! 16 KiB of tables: twice as many bytes at a time take twice that, and whoever sums up some hundred bytes now and then
//! waits longer for the tables than for the sum.

use super::POLYNOMIAL;

const SLICES: usize = 8;

/// What a byte comes to with so many zero bytes behind it.
static TABLES: [[u64; 256]; SLICES] = tables();

const fn tables() -> [[u64; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut byte = 0;
    while byte < 256 {
        let (mut state, mut bit) = (byte as u64, 0);
        while bit < 8 {
            state = state >> 1 ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = state;
        byte += 1;
    }
    let mut slice = 1;
    while slice < SLICES {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = before >> 8 ^ tables[0][before as u8 as usize];
            byte += 1;
        }
        slice += 1;
    }
    tables
}

/// What comes to `state` with these bytes.
pub(super) fn update(mut state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<SLICES>();
    for word in words {
        let word = (state ^ u64::from_le_bytes(*word)).to_le_bytes();
        state = 0;
        for (byte, table) in word.iter().zip(TABLES.iter().rev()) {
            state ^= table[usize::from(*byte)];
        }
    }
    for byte in rest {
        state = state >> 8 ^ TABLES[0][usize::from(state as u8 ^ byte)];
    }
    state
}
