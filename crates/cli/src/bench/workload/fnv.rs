//! FNV-1a with 64 bits, by which YCSB scatters what is popular over the records.
//!
//! Fowler, Noll and Vo's constants; the test has their published vectors.

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

/// The hash of some bytes.
pub(crate) fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// A number's hash as YCSB takes it: its eight bytes, the lowest first, and the sign taken off.
pub(crate) fn scattered(number: u64) -> u64 {
    (fnv1a_64(&number.to_le_bytes()) as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_hashes() {
        // From the authors' own list of test vectors (draft-eastlake-fnv, appendix C).
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("b", 0xaf63_df4c_8601_f1a5),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a_64(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn a_number_loses_its_sign_as_in_java() {
        // Eight zero bytes: the hash is 0xa8c7f832281a39c5, which is negative as a Java long.
        assert_eq!(fnv1a_64(&[0; 8]), 0xa8c7_f832_281a_39c5);
        assert_eq!(scattered(0), 0u64.wrapping_sub(0xa8c7_f832_281a_39c5));
        assert_eq!(scattered(0), 6_284_781_860_667_377_211);
        assert!((0..10_000).all(|number| scattered(number) <= i64::MAX as u64));
    }
}
