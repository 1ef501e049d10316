//! CRC-64/XZ: tells a damaged configuration file from a whole one. No protection against malice.

/// ECMA-182's polynomial, reflected.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// The checksum of `bytes`.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(!0, |crc: u64, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogues_check_value() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_ne!(crc64(&[0; 8]), 0, "zeroed bytes must not look whole");
    }
}
