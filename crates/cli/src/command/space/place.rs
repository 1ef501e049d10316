//! What `barn space cp` copies from and to: files, and places in spaces.
//!
//! What always holds: a word that begins with `space:` is a place in a space and never a file; a file of
//! such a name is written with a directory before it.

use std::path::PathBuf;
use std::str::FromStr;

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file; `-` for standard input or output.
    File(PathBuf),
    /// A range of a space, by its address; none for a new one, or the only one.
    Space {
        /// The space's name.
        name: String,
        /// The range's address.
        address: Option<u64>,
    },
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(place) = text.strip_prefix("space:") else {
            return match text {
                "" => Err("an empty path: write a file's, or space:NAME".into()),
                path => Ok(Self::File(path.into())),
            };
        };
        // A name may have slashes; an address has none.
        let (name, address) = match place.rsplit_once('/') {
            Some((name, address)) => match number(address) {
                Some(address) => (name, Some(address)),
                None if address.starts_with("0x") => {
                    return Err(format!("`{address}` is no address: write it as `barn space stat` shows it"));
                }
                None => (place, None),
            },
            None => (place, None),
        };
        match name {
            "" => Err("a space without a name: write space:NAME, or space:NAME/ADDRESS".into()),
            name => Ok(Self::Space { name: name.into(), address }),
        }
    }
}

/// An address, in hex or not.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(name: &str, address: Option<u64>) -> Place {
        Place::Space { name: name.into(), address }
    }

    #[test]
    fn places_are_files_or_ranges() {
        for (text, place) in [
            ("a/b", Place::File("a/b".into())),
            ("-", Place::File("-".into())),
            ("./space:x", Place::File("./space:x".into())),
            ("space:x", space("x", None)),
            ("space:x/0", space("x", Some(0))),
            ("space:x/0x40000", space("x", Some(0x40000))),
            ("space:x/y", space("x/y", None)),
            ("space:x/y/65536", space("x/y", Some(65536))),
            ("space:x/18446744073709551615", space("x", Some(u64::MAX))),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["", "space:", "space:/0", "space:x/0xq", "space:x/0x", "space:x/0x+1"] {
            assert!(Place::from_str(text).is_err(), "{text}");
        }
    }
}
