//! CRC64/NVME, the checksum of everything that proves itself: objects, entries of tables, frames of logs.
//!
//! By carry-less multiplication where the CPU has it, as in Intel's "Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ", written for a few hundred bytes, which objects are: the crate that does it elsewhere takes two to five
//! times as long for those (`examples/crc64_rate.rs`).
//!
//! What always holds: it is the same number whichever way it was computed, and however the bytes were divided.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod tables;

/// The checksum of these bytes.
#[inline]
pub fn crc64(bytes: &[u8]) -> u64 {
    Crc64::default().and(bytes).sum()
}

/// A checksum in the making: of bytes that come one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc64(u64);

impl Default for Crc64 {
    /// Of nothing so far.
    #[inline]
    fn default() -> Self {
        Self(!0)
    }
}

impl Crc64 {
    /// With these bytes behind those before.
    #[inline]
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        match folded::Registers::of_this_cpu() {
            folded::Registers::Wide if bytes.len() >= folded::WIDE_BYTES_MIN => {
                // SAFETY: the CPU has what it is compiled for.
                return Self(unsafe { folded::update_wide(self.0, bytes) });
            }
            folded::Registers::Wide | folded::Registers::Narrow => {
                // SAFETY: as above.
                return Self(unsafe { folded::update(self.0, bytes) });
            }
            folded::Registers::Neither => {}
        }
        self.plainly_and(bytes)
    }

    /// The same without any instruction that some of these CPUs do not have.
    #[cfg(target_arch = "x86_64")]
    fn plainly_and(self, bytes: &[u8]) -> Self {
        Self(tables::update(self.0, bytes))
    }

    /// The same by whatever the CPU has.
    #[cfg(not(target_arch = "x86_64"))]
    fn plainly_and(self, bytes: &[u8]) -> Self {
        let mut digest = crc_fast::Digest::new_with_init_state(crc_fast::CrcAlgorithm::Crc64Nvme, self.0);
        digest.update(bytes);
        Self(!digest.finalize())
    }

    /// What it is of all bytes that came.
    #[inline]
    pub fn sum(self) -> u64 {
        !self.0
    }
}

/// The polynomial but for x^64, its highest power last.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// The product of two polynomials modulo the checksum's, each with its highest power last.
fn product(a: u64, mut b: u64) -> u64 {
    let mut product = 0;
    for power in 0..u64::BITS {
        product ^= b & 0u64.wrapping_sub(a >> (u64::BITS - 1 - power) & 1);
        b = b >> 1 ^ POLYNOMIAL & 0u64.wrapping_sub(b & 1);
    }
    product
}

/// The checksum of one thing behind another, from theirs and the second's length: the first's is moved on by as many
/// zeros. A few microseconds, however long they are.
pub fn crc64_joined(first: u64, second: u64, mut second_bytes: u64) -> u64 {
    // x^8, squared again and again; what is wanted of it, collected.
    let (mut power, mut moved) = (1 << (u64::BITS - 1 - 8), first);
    while second_bytes > 0 {
        if second_bytes & 1 == 1 {
            moved = product(power, moved);
        }
        power = product(power, power);
        second_bytes >>= 1;
    }
    moved ^ second
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod folded {
    use super::POLYNOMIAL;
    use std::arch::x86_64::{
        __m128i, __m512i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_extract_epi64,
        _mm_loadu_si128, _mm_set_epi64x, _mm_xor_si128, _mm512_broadcast_i64x2, _mm512_castsi512_si128,
        _mm512_clmulepi64_epi128, _mm512_extracti64x2_epi64, _mm512_loadu_si512, _mm512_maskz_expand_epi8,
        _mm512_maskz_loadu_epi8, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
    };
    use std::sync::OnceLock;

    /// What can be multiplied without carry here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Registers {
        /// Nothing.
        Neither,
        /// A block at a time.
        Narrow,
        /// A line at a time.
        Wide,
    }

    impl Registers {
        /// Asked once: each question of the CPU's features is a load.
        #[inline]
        pub(super) fn of_this_cpu() -> Self {
            static KNOWN: OnceLock<Registers> = OnceLock::new();
            *KNOWN.get_or_init(Self::ask)
        }

        #[cold]
        fn ask() -> Self {
            use std::arch::is_x86_feature_detected as has;
            let narrow = has!("pclmulqdq") && has!("sse4.1");
            let lines = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vbmi2");
            match (narrow, lines && has!("vpclmulqdq")) {
                (true, true) => Self::Wide,
                (true, false) => Self::Narrow,
                (false, _) => Self::Neither,
            }
        }
    }

    // A word's lowest bit is the coefficient of its highest power, and a product of two words comes out multiplied by
    // x: constants are of one power less than they stand for.

    /// x^power modulo the polynomial.
    const fn power(power: u32) -> i64 {
        let (mut remainder, mut at) = (1u64 << 63, 0);
        while at < power {
            let carry = remainder & 1;
            remainder >>= 1;
            if carry == 1 {
                remainder ^= POLYNOMIAL;
            }
            at += 1;
        }
        remainder as i64
    }

    /// x^128 divided by the polynomial, but for x^64.
    const fn quotient() -> i64 {
        // Of x^128 - x^64 * polynomial: the highest power is gone.
        let (mut quotient, mut remainder, mut at) = (0u64, POLYNOMIAL, 0);
        while at < 64 {
            let carry = remainder & 1;
            quotient |= carry << at;
            remainder >>= 1;
            if carry == 1 {
                remainder ^= POLYNOMIAL;
            }
            at += 1;
        }
        // What is taken at step `at` is the coefficient of x^(63 - at), and so it stands there already.
        quotient as i64
    }

    const QUOTIENT: i64 = quotient();
    /// To move 128 bits on by so many bits.
    const BY_128: [i64; 2] = [power(128 + 63), power(128 - 1)];
    const BY_256: [i64; 2] = [power(256 + 63), power(256 - 1)];
    const BY_512: [i64; 2] = [power(512 + 63), power(512 - 1)];
    const BY_1024: [i64; 2] = [power(1024 + 63), power(1024 - 1)];
    const BY_2048: [i64; 2] = [power(2048 + 63), power(2048 - 1)];

    /// Less than this is done sooner by the narrow registers.
    pub(super) const WIDE_BYTES_MIN: usize = 256;

    const LINE: usize = 64;
    const BLOCK: usize = 16;
    const LANES: usize = 4;

    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn load(bytes: &[u8; BLOCK]) -> __m128i {
        // SAFETY: 16 bytes may be read, and need not be aligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    /// What was summed up, moved on, and what comes then.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn fold(sum: __m128i, by: __m128i, next: __m128i) -> __m128i {
        let high = _mm_clmulepi64_si128::<0x00>(sum, by);
        let low = _mm_clmulepi64_si128::<0x11>(sum, by);
        _mm_xor_si128(_mm_xor_si128(high, low), next)
    }

    /// A word times x^64, modulo the polynomial.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn reduce(word: u64) -> u64 {
        let constants = _mm_set_epi64x(POLYNOMIAL as i64, QUOTIENT);
        let quotient = _mm_clmulepi64_si128::<0x00>(_mm_cvtsi64_si128(word as i64), constants);
        let quotient = word ^ ((_mm_cvtsi128_si64(quotient) as u64) << 1);
        let product = _mm_clmulepi64_si128::<0x10>(_mm_cvtsi64_si128(quotient as i64), constants);
        let (high, low) = (_mm_cvtsi128_si64(product) as u64, _mm_extract_epi64::<1>(product) as u64);
        low << 1 | high >> 63
    }

    /// What four blocks one after another come to, of which each was folded with every fourth behind it.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn join(lanes: [__m128i; LANES]) -> __m128i {
        let by_256 = _mm_set_epi64x(BY_256[1], BY_256[0]);
        let even = fold(lanes[0], by_256, lanes[2]);
        let odd = fold(lanes[1], by_256, lanes[3]);
        fold(even, _mm_set_epi64x(BY_128[1], BY_128[0]), odd)
    }

    /// What comes to `sum` before `blocks` and the rest.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn finish(mut sum: __m128i, blocks: &[[u8; BLOCK]], rest: &[u8]) -> u64 {
        let by_128 = _mm_set_epi64x(BY_128[1], BY_128[0]);
        for block in blocks {
            sum = fold(sum, by_128, load(block));
        }
        // The first word goes on by 128 bits, the second by 64: then one word is left to reduce.
        let first = _mm_clmulepi64_si128::<0x10>(sum, by_128);
        let second = _mm_extract_epi64::<1>(sum) as u64;
        let state = reduce(_mm_cvtsi128_si64(first) as u64 ^ second) ^ _mm_extract_epi64::<1>(first) as u64;
        finish_short(state, rest)
    }

    /// With less than a block behind it.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn finish_short(mut state: u64, mut rest: &[u8]) -> u64 {
        if let Some((word, after)) = rest.split_first_chunk() {
            state = reduce(state ^ u64::from_le_bytes(*word));
            rest = after;
        }
        if !rest.is_empty() {
            let (mut last, bits) = ([0; 8], 8 * rest.len());
            last[..rest.len()].copy_from_slice(rest);
            state = state >> bits ^ reduce((state ^ u64::from_le_bytes(last)) << (64 - bits));
        }
        state
    }

    #[target_feature(enable = "pclmulqdq,sse4.1")]
    pub(super) fn update(state: u64, bytes: &[u8]) -> u64 {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        let Some((first, blocks)) = blocks.split_first() else { return finish_short(state, rest) };
        let first = _mm_xor_si128(load(first), _mm_cvtsi64_si128(state as i64));
        let Some((three, blocks)) = blocks.split_first_chunk::<{ LANES - 1 }>() else {
            return finish(first, blocks, rest);
        };
        let by_512 = _mm_set_epi64x(BY_512[1], BY_512[0]);
        let mut lanes = [first, load(&three[0]), load(&three[1]), load(&three[2])];
        let (groups, blocks) = blocks.as_chunks::<LANES>();
        for group in groups {
            for (lane, block) in lanes.iter_mut().zip(group) {
                *lane = fold(*lane, by_512, load(block));
            }
        }
        finish(join(lanes), blocks, rest)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_line(bytes: &[u8; LINE]) -> __m512i {
        // SAFETY: 64 bytes may be read, and need not be aligned.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// As [`fold`], of four at once.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold_line(sum: __m512i, by: __m512i, next: __m512i) -> __m512i {
        const XOR_OF_3: i32 = 0x96;
        let high = _mm512_clmulepi64_epi128::<0x00>(sum, by);
        let low = _mm512_clmulepi64_epi128::<0x11>(sum, by);
        _mm512_ternarylogic_epi64::<XOR_OF_3>(high, low, next)
    }

    /// What comes before the first whole line, behind zeros up to a line, which change nothing; and what of the state
    /// reaches into the line behind it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
    fn load_short(state: u64, bytes: &[u8]) -> (__m512i, u64) {
        let zeros = LINE - bytes.len();
        // SAFETY: as many bytes are read as there are.
        let short = unsafe { _mm512_maskz_loadu_epi8(!0 >> zeros, bytes.as_ptr().cast()) };
        let short = _mm512_xor_si512(short, _mm512_zextsi128_si512(_mm_cvtsi64_si128(state as i64)));
        let beyond = if bytes.len() < 8 { state >> (8 * bytes.len()) } else { 0 };
        (_mm512_maskz_expand_epi8(!0 << zeros, short), beyond)
    }

    /// The same by registers of a line: for [`WIDE_BYTES_MIN`] and more.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi2,vpclmulqdq,pclmulqdq,sse4.1")]
    pub(super) fn update_wide(state: u64, bytes: &[u8]) -> u64 {
        let (short, lines) = bytes.as_rchunks::<LINE>();
        let Some((first, mut lines)) = lines.split_first() else { return update(state, bytes) };
        let by_512 = _mm512_broadcast_i64x2(_mm_set_epi64x(BY_512[1], BY_512[0]));
        let with = |state: u64| {
            let state = _mm512_zextsi128_si512(_mm_cvtsi64_si128(state as i64));
            _mm512_xor_si512(load_line(first), state)
        };
        let mut sum = if short.is_empty() {
            with(state)
        } else {
            let (sum, beyond) = load_short(state, short);
            fold_line(sum, by_512, with(beyond))
        };
        // One after another each would wait for the one before.
        if let Some((three, after)) = lines.split_first_chunk::<{ LANES - 1 }>() {
            let by_1024 = _mm512_broadcast_i64x2(_mm_set_epi64x(BY_1024[1], BY_1024[0]));
            let by_2048 = _mm512_broadcast_i64x2(_mm_set_epi64x(BY_2048[1], BY_2048[0]));
            let mut lanes = [sum, load_line(&three[0]), load_line(&three[1]), load_line(&three[2])];
            let (groups, after) = after.as_chunks::<LANES>();
            for group in groups {
                for (lane, line) in lanes.iter_mut().zip(group) {
                    *lane = fold_line(*lane, by_2048, load_line(line));
                }
            }
            let even = fold_line(lanes[0], by_1024, lanes[2]);
            let odd = fold_line(lanes[1], by_1024, lanes[3]);
            sum = fold_line(even, by_512, odd);
            lines = after;
        }
        for line in lines {
            sum = fold_line(sum, by_512, load_line(line));
        }
        let lanes = [
            _mm512_castsi512_si128(sum),
            _mm512_extracti64x2_epi64::<1>(sum),
            _mm512_extracti64x2_epi64::<2>(sum),
            _mm512_extracti64x2_epi64::<3>(sum),
        ];
        finish(join(lanes), &[], &[])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::seam::{Random, Seeded};

    fn some(bytes: usize) -> Vec<u8> {
        let mut random = Seeded::new(bytes as u64);
        (0..bytes).map(|_| random.next() as u8).collect()
    }

    #[test]
    fn it_is_the_one_of_the_catalogue() {
        assert_eq!(crc64(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!(crc64(&[]), 0);
    }

    #[test]
    fn both_ways_give_the_same_of_every_length() {
        for bytes in (0..1200).chain([4096, 4097, 65_535]) {
            let all = some(bytes);
            assert_eq!(crc64(&all), crc_fast::crc64_nvme(&all), "{bytes} bytes");
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if folded::Registers::of_this_cpu() != folded::Registers::Neither {
                // SAFETY: the CPU has what it is compiled for.
                let narrow = unsafe { folded::update(!0, &all) };
                assert_eq!(!narrow, crc_fast::crc64_nvme(&all), "{bytes} bytes, by narrow registers");
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if folded::Registers::of_this_cpu() == folded::Registers::Wide {
                let state = 0x0123_4567_89ab_cdef;
                // SAFETY: as above.
                let (narrow, wide) =
                    unsafe { (folded::update(state, &all), folded::update_wide(state, &all)) };
                assert_eq!(wide, narrow, "{bytes} bytes, by wide registers");
            }
            assert_eq!(Crc64::default().plainly_and(&all).sum(), crc_fast::crc64_nvme(&all), "{bytes} bytes");
        }
    }

    #[test]
    fn it_does_not_matter_where_bytes_are_divided() {
        let all = some(300);
        for at in 0..=all.len() {
            let (one, other) = all.split_at(at);
            let half = Crc64::default().and(one);
            assert_eq!(half.and(other).sum(), crc64(&all), "at {at}");
            assert_eq!(half.plainly_and(other).sum(), crc64(&all), "at {at}, plainly");
            assert_eq!(
                crc64_joined(half.sum(), crc64(other), other.len() as u64),
                crc64(&all),
                "joined at {at}"
            );
        }
    }
}
