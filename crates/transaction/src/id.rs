//! Pointers to objects, as programs hold and store them.

use barn_layout::{Address, FatPointer};
use std::fmt;
use zerocopy::{FromBytes, IntoBytes};

/// A pointer to an object: where it is, how long, and which of the objects that have stood there
/// (FaRM's fat pointer). It can be stored in other objects ([`Pointer::to_bytes`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    /// Where the object is.
    pub address: Address,
    /// How long it is.
    pub bytes: u32,
    /// How often the place had been freed when the pointer was made.
    pub incarnation: u32,
}

impl Pointer {
    /// What is stored in other objects: sixteen bytes.
    pub const BYTES: usize = FatPointer::BYTES;

    /// The pointer as it is stored.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let fat = FatPointer {
            address: self.address.to_bits().into(),
            bytes: self.bytes.into(),
            incarnation: self.incarnation.into(),
        };
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(fat.as_bytes());
        bytes
    }

    /// The pointer that stored bytes mean. Any sixteen bytes are a pointer; whether an object is
    /// there, a read tells.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        // Sixteen bytes are a fat pointer, whatever they are.
        let Ok(fat) = FatPointer::read_from_bytes(bytes) else { return Self::from_bytes(&[0; Self::BYTES]) };
        Self {
            address: Address::from_bits(fat.address.get()),
            bytes: fat.bytes.get(),
            incarnation: fat.incarnation.get(),
        }
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}+{}#{}", self.address, self.bytes, self.incarnation)
    }
}

impl fmt::Display for Pointer {
    /// `REGION:OFFSET+BYTES#INCARNATION`, which [`str::parse`] takes back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A text is not a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAPointer(String);

impl fmt::Display for NotAPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a pointer: one looks like 5:0x100040+64#0", self.0)
    }
}

impl std::error::Error for NotAPointer {}

impl std::str::FromStr for Pointer {
    type Err = NotAPointer;

    fn from_str(text: &str) -> Result<Self, NotAPointer> {
        let parse = || {
            let (region, rest) = text.split_once(':')?;
            let (offset, rest) = rest.split_once('+')?;
            let (bytes, incarnation) = rest.split_once('#')?;
            let offset = match offset.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => offset.parse().ok()?,
            };
            Some(Self {
                address: Address::new(barn_layout::RegionId(region.parse().ok()?), offset),
                bytes: bytes.parse().ok()?,
                incarnation: incarnation.parse().ok()?,
            })
        };
        parse().ok_or_else(|| NotAPointer(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_layout::RegionId;

    #[test]
    fn a_pointer_survives_being_stored_and_printed() {
        let pointer = Pointer { address: Address::new(RegionId(9), 0x100040), bytes: 64, incarnation: 3 };
        assert_eq!(Pointer::from_bytes(&pointer.to_bytes()), pointer);
        assert_eq!(pointer.to_string(), "9:0x100040+64#3");
        assert_eq!(pointer.to_string().parse(), Ok(pointer));
        assert!("9:0x1+64".parse::<Pointer>().is_err());
    }
}
