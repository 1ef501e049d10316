//! The methods of a node's service, by number.

/// What a client can ask a node for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Method {
    /// Answers with nothing: are you there?
    Ping = 0,
    /// Answers with what it was sent.
    Echo = 1,
    /// Answers with the node's [`Status`](crate::Status), as JSON.
    Status = 2,
}

impl Method {
    /// The method that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        match bits {
            0 => Some(Self::Ping),
            1 => Some(Self::Echo),
            2 => Some(Self::Status),
            _ => None,
        }
    }
}
