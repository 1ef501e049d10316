//! The checksum of an object: CRC64/NVME over what it is and where.
//!
//! Linear, and so no protection against anybody who means harm: it tells whether words that came
//! in any order belong together.

use barn_fabric::{Crc64, crc64};
use barn_layout::{Address, planted};

/// Address, version, second header word, and this file's own word: zeroed memory must not pass.
pub(crate) const PREFIX_BYTES: usize = 32;

/// The fourth word of the prefix.
const SALT: u64 = u64::from_le_bytes(*b"barn-obj");

/// The checksum of the object at `address` with `version`, incarnation and length as in `meta`
/// (the header's second word) and `body`.
#[inline]
pub fn checksum(address: Address, version: u64, meta: u64, body: &[u8]) -> u64 {
    let mut prefix = [0; PREFIX_BYTES];
    set_prefix(&mut prefix, address, version, meta);
    narrowed(Crc64::default().and(&prefix).and(body).sum())
}

/// The same of a body that has room before it, of [`PREFIX_BYTES`]: in one go.
#[inline]
pub(crate) fn checksum_behind(address: Address, version: u64, meta: u64, bytes: &mut [u8]) -> u64 {
    if let Some(prefix) = bytes.first_chunk_mut() {
        set_prefix(prefix, address, version, meta);
    }
    narrowed(crc64(bytes))
}

#[inline]
fn set_prefix(prefix: &mut [u8; PREFIX_BYTES], address: Address, version: u64, meta: u64) {
    let version = if planted("checksum_skips_version") { 0 } else { version };
    for (bytes, word) in prefix.as_chunks_mut().0.iter_mut().zip([address.to_bits(), version, meta, SALT]) {
        *bytes = word.to_le_bytes();
    }
}

#[inline]
fn narrowed(crc: u64) -> u64 {
    if planted("checksum_of_8_bits") { crc & 0xff } else { crc }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use barn_layout::RegionId;

    #[test]
    fn it_covers_everything() {
        let address = Address::new(RegionId(7), 1 << 20);
        for bytes in [0, 1, 7, 8, 64, 640, 5000] {
            let mut body = vec![3; bytes];
            let sum = checksum(address, 5, 6, &body);
            assert_ne!(sum, checksum(address.checked_add(64).unwrap(), 5, 6, &body), "address");
            assert_ne!(sum, checksum(address, 9, 6, &body), "version");
            assert_ne!(sum, checksum(address, 5, 7, &body), "incarnation and length");
            for at in 0..bytes {
                body[at] ^= 1;
                assert_ne!(sum, checksum(address, 5, 6, &body), "byte {at}");
                body[at] ^= 1;
            }
            body.push(0);
            assert_ne!(sum, checksum(address, 5, 6, &body), "a byte more");
        }
    }

    #[test]
    fn both_ways_of_computing_agree() {
        let address = Address::new(RegionId(1), 64);
        for bytes in 0..650 {
            let body: Vec<u8> = (0..bytes).map(|at| at as u8 ^ 0x5a).collect();
            let mut whole = Vec::new();
            for word in [address.to_bits(), 2, 3, SALT] {
                whole.extend_from_slice(&word.to_le_bytes());
            }
            whole.extend_from_slice(&body);
            let sum = crc64(&whole);
            assert_eq!(checksum(address, 2, 3, &body), sum, "{bytes}");
            assert_eq!(checksum_behind(address, 2, 3, &mut whole), sum, "{bytes}, with room before it");
        }
    }

    /// Memory that nobody wrote must not look like an empty object.
    #[test]
    fn zeroed_memory_does_not_pass() {
        for offset in (0..1 << 20).step_by(64) {
            assert_ne!(checksum(Address::new(RegionId(0), offset), 0, 0, &[]), 0);
        }
    }
}
