//! Addresses in the shared space: FaRM section 3.2.

use crate::shared::shared_struct;
use core::fmt;
use zerocopy::little_endian::{U32, U64};

/// Names a region, cluster-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {}", self.0)
    }
}

/// A place in the shared address space: the region in the high half, the offset in the low.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(u64);

impl Address {
    /// The address of `offset` in `region`.
    pub const fn new(region: RegionId, offset: u32) -> Self {
        Self(((region.0 as u64) << 32) | offset as u64)
    }

    /// The region.
    pub const fn region(self) -> RegionId {
        RegionId((self.0 >> 32) as u32)
    }

    /// The offset in the region.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The 64 bits that are stored and sent.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The address that 64 stored bits mean. Any bits are an address; whether memory is
    /// there is for the region's owner to say.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The address `bytes` further on, unless that leaves the region's 32-bit offsets.
    pub fn checked_add(self, bytes: u32) -> Option<Self> {
        let offset = self.offset().checked_add(bytes)?;
        Some(Self::new(self.region(), offset))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.region().0, self.offset())
    }
}

shared_struct! {
    /// A pointer that notices when its object was freed: address, size and the incarnation
    /// that the object had when the pointer was made (FaRM section 3.5).
    pub struct FatPointer: 16 {
        /// The object's address.
        0 => pub address: U64,
        /// The object's size in bytes.
        8 => pub bytes: U32,
        /// The low half of the object's incarnation.
        12 => pub incarnation: U32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_both_halves() {
        let address = Address::new(RegionId(0xdead_beef), 0xffff_fff8);
        assert_eq!(address.region(), RegionId(0xdead_beef));
        assert_eq!(address.offset(), 0xffff_fff8);
        assert_eq!(Address::from_bits(address.to_bits()), address);
    }

    #[test]
    fn an_address_does_not_leave_its_region() {
        let last = Address::new(RegionId(1), u32::MAX);
        assert_eq!(last.checked_add(1), None);
        assert_eq!(Address::new(RegionId(1), 8).checked_add(8), Some(Address::new(RegionId(1), 16)));
    }
}
