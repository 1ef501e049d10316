//! Where memory is mapped, for prefetches alone.
//!
//! What always holds: nothing is read through it. So it may outlive the mapping: a prefetch of an address at
//! which there is nothing does nothing, and one of other memory costs a line of the cache.

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
use super::vector;
use barn_layout::limits::LINE_BYTES;

/// Lines that are asked for at the most: past that the hardware's own prefetching has taken over.
const LINES_MAX: usize = 16;

/// Where memory is mapped, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts(usize);

impl Whereabouts {
    #[inline]
    pub(super) fn new(base: *const u8) -> Self {
        Self(base.addr())
    }

    /// What [`Self::to_bits`] gave; any other bits are as harmless.
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits as usize)
    }

    /// As a number, for whoever keeps it.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0 as u64
    }

    /// Asks the CPU to fetch the line of a byte.
    #[inline(always)]
    pub fn prefetch_line(self, offset: u64) {
        fetch(self.0.wrapping_add(offset as usize));
    }

    /// Asks the CPU for the line that begins there, and the next if none does.
    #[inline(always)]
    pub fn prefetch_head(self, offset: u64) {
        self.prefetch_line(offset);
        if !offset.is_multiple_of(LINE_BYTES as u64) {
            self.prefetch_line(offset + LINE_BYTES as u64 - 1);
        }
    }

    /// Asks the CPU to fetch a range into its caches.
    #[inline]
    pub fn prefetch(self, offset: u64, bytes: usize) {
        let first = self.0.wrapping_add(offset as usize);
        let last = first.wrapping_add(bytes.clamp(1, LINES_MAX * LINE_BYTES) - 1);
        if bytes <= LINE_BYTES {
            // Two at the most, and no look at whether it is one: nobody could foresee that.
            fetch(first);
            return fetch(last);
        }
        let (mut line, last) = (first & !(LINE_BYTES - 1), last & !(LINE_BYTES - 1));
        loop {
            fetch(line);
            if line == last {
                return;
            }
            line = line.wrapping_add(LINE_BYTES);
        }
    }
}

#[inline(always)]
fn fetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    vector::prefetch(std::ptr::without_provenance(address));
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    let _ = address;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whatever_it_says_a_prefetch_ends_and_does_no_harm() {
        let top = u64::MAX;
        for base in [0, 1, 63, 4096, 1 << 47, top - 64, top] {
            for (offset, bytes) in [(0, 0), (0, 1), (63, 2), (1 << 40, 1 << 30), (top, 64), (64, usize::MAX)]
            {
                let place = Whereabouts::from_bits(base);
                place.prefetch(offset, bytes);
                place.prefetch_line(offset);
                assert_eq!(place.to_bits(), base);
            }
        }
    }
}
