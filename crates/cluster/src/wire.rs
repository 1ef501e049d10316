//! Requests and responses as bytes, in their envelope.
//!
//! What always holds: decoding never panics; a configuration that comes out has been validated.

use crate::configuration::ConfigurationError;
use crate::envelope::{self, EnvelopeError};
use crate::message::{Refusal, Request, Response};
use barn_fabric::{CallError, Connection};
use std::fmt;

/// The longest request: eight addresses and a host of 512 bytes each, escaped.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The longest response: a configuration of the most members and regions is below 16 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// They cannot be taken out of their envelope.
    Envelope(EnvelopeError),
    /// The configuration in it cannot be right.
    Configuration(ConfigurationError),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Envelope(why) => why.fmt(f),
            Self::Configuration(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for WireError {}

impl From<EnvelopeError> for WireError {
    fn from(error: EnvelopeError) -> Self {
        Self::Envelope(error)
    }
}

/// A request's bytes.
pub fn encode_request(request: &Request) -> Vec<u8> {
    envelope::seal(request)
}

/// The request that bytes mean.
pub fn decode_request(bytes: &[u8]) -> Result<Request, WireError> {
    Ok(envelope::open(bytes, REQUEST_BYTES_MAX)?)
}

/// A response's bytes.
pub fn encode_response(response: &Response) -> Vec<u8> {
    envelope::seal(response)
}

/// The response that bytes mean.
pub fn decode_response(bytes: &[u8]) -> Result<Response, WireError> {
    let response: Response = envelope::open(bytes, RESPONSE_BYTES_MAX)?;
    let configuration = match &response {
        Response::Joined { configuration, .. }
        | Response::RegionAdded { configuration, .. }
        | Response::TableCreated { configuration, .. }
        | Response::TableDropped { configuration } => Some(configuration),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;
    use crate::lease::LEASE_DEFAULT;
    use crate::member::{Life, MemberId};
    use barn_fabric::RegionId;
    use barn_fabric::seam::{Random, Seeded};

    fn requests() -> Vec<Request> {
        let (member, life) = (MemberId(3), Life(u64::MAX));
        let (addresses, host) = (vec!["shm:/tmp/\u{1}\"x".to_string()], "höst".to_string());
        vec![
            Request::Join { addresses, host, memory_bytes: 5, life, rejoining: Some(member) },
            Request::Leave { member, life },
            Request::Renew { member, life, known_version: u64::MAX },
            Request::Get { known_version: 0 },
            Request::AddRegion { member, life, near: Some(RegionId(7)), bytes: 1 },
            Request::AddRegion { member, life, near: None, bytes: 1 },
        ]
    }

    fn responses() -> Vec<Response> {
        let configuration = Configuration::new(LEASE_DEFAULT, 3, 2);
        vec![
            Response::Joined { member: MemberId(1), lease_ms: 1, configuration: configuration.clone() },
            Response::Left { version: 1 },
            Response::Renewed { lease_ms: 1, configuration: None },
            Response::Current { version: 1, configuration: Some(configuration) },
            Response::Refused(Refusal::BadRequest { why: "so".into() }),
        ]
    }

    #[test]
    fn what_goes_in_comes_out() {
        for request in requests() {
            assert_eq!(decode_request(&encode_request(&request)), Ok(request));
        }
        for response in responses() {
            assert_eq!(decode_response(&encode_response(&response)), Ok(response));
        }
    }

    #[test]
    fn other_versions_and_lengths_are_named() {
        assert_eq!(decode_request(&[]), Err(EnvelopeError::Empty.into()));
        assert_eq!(decode_request(b"\x02{}"), Err(EnvelopeError::Version { found: 2 }.into()));
        let (bytes, most) = (REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX);
        assert_eq!(decode_request(&vec![1; bytes]), Err(EnvelopeError::TooLong { bytes, most }.into()));
        let mut deep = vec![envelope::VERSION];
        deep.resize(50_000, b'[');
        assert!(matches!(decode_request(&deep), Err(WireError::Envelope(EnvelopeError::Malformed { .. }))));
    }

    #[test]
    fn a_configuration_that_cannot_be_right_does_not_come_out() {
        let mut configuration = Configuration::new(LEASE_DEFAULT, 3, 2);
        configuration.lease_ms = 1;
        let response = Response::Renewed { lease_ms: 1, configuration: Some(configuration) };
        assert!(matches!(decode_response(&encode_response(&response)), Err(WireError::Configuration(_))));
    }

    #[test]
    fn mutated_messages_never_panic() {
        let mut random = Seeded::new(4);
        let whole: Vec<Vec<u8>> =
            requests().iter().map(encode_request).chain(responses().iter().map(encode_response)).collect();
        for _ in 0..50_000 {
            let mut bytes = whole[random.below(whole.len() as u64) as usize].clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.next() as u8,
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes.insert(at, b"0123456789{}[],:\"-e."[random.below(20) as usize]),
                    _ => drop(bytes.remove(at.min(bytes.len() - 1))),
                }
                if bytes.is_empty() {
                    bytes.push(envelope::VERSION);
                }
            }
            let _ = (decode_request(&bytes), decode_response(&bytes));
        }
    }
}
