//! Messages of the control path as bytes: one byte of version, then JSON. Size and speed matter less
//! there than that a person can read it.
//!
//! What always holds: opening never panics; what is longer than its bound or of another version is
//! refused before it is parsed. That the numbers in a message make sense is for whoever acts on it to
//! see.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of the messages.
pub const VERSION: u8 = 1;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvelopeError {
    /// There is nothing.
    Empty,
    /// Another version of the messages.
    Version {
        /// The version found.
        found: u8,
    },
    /// Longer than a message may be.
    TooLong {
        /// How long.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// Not of the right form.
    Malformed {
        /// What the parser said.
        why: String,
    },
}

impl fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the message is empty: is the other side a Barn node?"),
            Self::Version { found } => write!(
                f,
                "the message is of version {found} and this program speaks version {VERSION}: upgrade the older one"
            ),
            Self::TooLong { bytes, most } => {
                write!(f, "the message has {bytes} bytes, and {most} is the most: ask for less at once")
            }
            Self::Malformed { why } => {
                write!(f, "the message makes no sense ({why}): are both sides of the same release?")
            }
        }
    }
}

impl std::error::Error for EnvelopeError {}

/// A message's bytes.
pub fn seal(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    // Writing plain structs to memory does not fail; if it ever did, the other side refuses it.
    let _ = serde_json::to_writer(&mut bytes, message);
    bytes
}

/// The message that bytes mean, if they are no more than `most`.
pub fn open<T: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<T, EnvelopeError> {
    if bytes.len() > most {
        return Err(EnvelopeError::TooLong { bytes: bytes.len(), most });
    }
    match bytes.split_first() {
        None => Err(EnvelopeError::Empty),
        Some((&VERSION, json)) => {
            serde_json::from_slice(json).map_err(|error| EnvelopeError::Malformed { why: error.to_string() })
        }
        Some((found, _)) => Err(EnvelopeError::Version { found: *found }),
    }
}
