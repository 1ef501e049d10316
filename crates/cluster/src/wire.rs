//! Requests and responses as bytes: one byte of version, then JSON. The control path, so size and
//! speed matter less than that a person can read it.
//!
//! What always holds: decoding never panics; what is longer than its bound or of another version
//! is refused before it is parsed; a configuration that comes out has been validated.

use crate::configuration::ConfigurationError;
use crate::message::{Refusal, Request, Response};
use barn_fabric::{CallError, Connection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of the messages.
pub const VERSION: u8 = 1;

/// The longest request: eight addresses and a host of 512 bytes each, escaped.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The longest response: a configuration of the most members and regions is below 16 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
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
    /// The configuration in it cannot be right.
    Configuration(ConfigurationError),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the message is empty"),
            Self::Version { found } => write!(
                f,
                "the message is of version {found} and this program speaks version {VERSION}: upgrade the older one"
            ),
            Self::TooLong { bytes, most } => {
                write!(f, "the message has {bytes} bytes, and {most} is the most")
            }
            Self::Malformed { why } => write!(f, "the message makes no sense: {why}"),
            Self::Configuration(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for WireError {}

fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    // Writing plain structs to memory does not fail; if it ever did, the other side refuses it.
    let _ = serde_json::to_writer(&mut bytes, message);
    bytes
}

fn decode<T: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<T, WireError> {
    if bytes.len() > most {
        return Err(WireError::TooLong { bytes: bytes.len(), most });
    }
    match bytes.split_first() {
        None => Err(WireError::Empty),
        Some((&VERSION, json)) => {
            serde_json::from_slice(json).map_err(|error| WireError::Malformed { why: error.to_string() })
        }
        Some((found, _)) => Err(WireError::Version { found: *found }),
    }
}

/// A request's bytes.
pub fn encode_request(request: &Request) -> Vec<u8> {
    encode(request)
}

/// The request that bytes mean.
pub fn decode_request(bytes: &[u8]) -> Result<Request, WireError> {
    decode(bytes, REQUEST_BYTES_MAX)
}

/// A response's bytes.
pub fn encode_response(response: &Response) -> Vec<u8> {
    encode(response)
}

/// The response that bytes mean.
pub fn decode_response(bytes: &[u8]) -> Result<Response, WireError> {
    let response: Response = decode(bytes, RESPONSE_BYTES_MAX)?;
    let configuration = match &response {
        Response::Joined { configuration, .. } | Response::RegionAdded { configuration, .. } => {
            Some(configuration)
        }
        Response::Renewed { configuration, .. } | Response::Current { configuration, .. } => {
            configuration.as_ref()
        }
        Response::Left { .. } | Response::Refused(_) => None,
    };
    configuration
        .map_or(Ok(()), |configuration| configuration.validate())
        .map_err(WireError::Configuration)?;
    Ok(response)
}

/// Why the coordinator gave no answer that is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The call failed.
    Call(CallError),
    /// The answer makes no sense.
    Wire(WireError),
    /// The coordinator said no.
    Refused(Refusal),
    /// The answer answers something else.
    Mismatch,
    /// There is no connection to the coordinator, or this process is no member, at present.
    NotJoined,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => write!(f, "the coordinator did not answer: {error}"),
            Self::Wire(error) => write!(f, "the coordinator's answer: {error}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Mismatch => write!(f, "the coordinator answered something else: is it of another version?"),
            Self::NotJoined => write!(f, "not a member of the cluster at present: try again"),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks the coordinator at the other end of a connection, whose service takes such requests under
/// `method`. A refusal is an error.
pub async fn ask(connection: &Connection, method: u16, request: &Request) -> Result<Response, AskError> {
    let mut reply = Vec::new();
    connection.call(method, &encode_request(request), &mut reply).await.map_err(AskError::Call)?;
    match decode_response(&reply).map_err(AskError::Wire)? {
        Response::Refused(refusal) => Err(AskError::Refused(refusal)),
        response => Ok(response),
    }
}
