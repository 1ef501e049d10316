//! Requests, responses and passes as bytes: one byte of version, then JSON, as in the cluster's messages.
//! The control path, so size and speed matter less than that a person can read it.
//!
//! What always holds: decoding never panics; what is longer than its bound or of another version is refused
//! before it is parsed. That the numbers in a message make sense is for whoever acts on it to see.

use crate::message::{Pass, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of the messages.
pub const VERSION: u8 = 1;

/// The longest request: a keeper's answer to the most tasks with the most chunks is about 3 MiB.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// The longest response: the most spaces and ranges are below 24 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// The longest pass: a range of the most chunks, all at one member, is about 700 KiB.
pub const PASS_BYTES_MAX: usize = 1 << 20;

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
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the message about spaces is empty: is the other side a Barn node?"),
            Self::Version { found } => write!(
                f,
                "the message about spaces is of version {found} and this program speaks version {VERSION}: upgrade the older one"
            ),
            Self::TooLong { bytes, most } => write!(
                f,
                "the message about spaces has {bytes} bytes, and {most} is the most: use larger chunks, or ask for less at once"
            ),
            Self::Malformed { why } => {
                write!(
                    f,
                    "the message about spaces makes no sense ({why}): are both sides of the same release?"
                )
            }
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
    decode(bytes, RESPONSE_BYTES_MAX)
}

/// A pass's bytes, as a client shows it.
pub fn encode_pass(pass: &Pass) -> Vec<u8> {
    encode(pass)
}

/// The pass that bytes mean. Whether it is a true one, [`crate::pass::Secret::is_true`] says.
pub fn decode_pass(bytes: &[u8]) -> Result<Pass, WireError> {
    decode(bytes, PASS_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::*;
    use barn_cluster::{Life, MemberId};
    use barn_fabric::seam::{Random, Seeded};

    fn requests() -> Vec<Request> {
        let (session, space, hold) = (SessionId(u64::MAX), SpaceId(7), HoldId(9));
        let name = "höst \"\u{1}".to_string();
        vec![
            Request::Renew { session },
            Request::Create { session, name: name.clone(), chunk_bytes: 1 << 20, everyone: Role::Reader },
            Request::Join { session, name, key: Some("00".into()) },
            Request::List,
            Request::Init { session, space, address: u64::MAX, bytes: 1, write: true },
            Request::Lease { session, hold, chunks: vec![0, u64::MAX], lease_ms: 0 },
            Request::Alive { sessions: vec![session] },
            Request::Attend {
                member: MemberId(1),
                life: Life(2),
                free_bytes: 3,
                done: vec![
                    Done::Prepared { task: TaskId(1), chunks: vec![(1, 2)], why: Some("so".into()) },
                    Done::Finished { task: TaskId(2) },
                ],
            },
        ]
    }

    fn responses() -> Vec<Response> {
        let chunk = Chunk { member: MemberId(1), region: FIRST_CHUNK_REGION, mark: 3 };
        let range = Range {
            address: 1,
            bytes: 2,
            copy_on_write: true,
            version: 3,
            chunks: vec![chunk],
            first_chunk: 4,
            chunk_bytes: 5,
        };
        vec![
            Response::Done,
            Response::Held { hold: HoldId(1), range, passes: vec![pass()] },
            Response::Leased { version: 1, lease_ms: 2, chunks: vec![(3, chunk)], passes: vec![] },
            Response::Work {
                work: vec![Work::Prepare { task: TaskId(1), chunk_bytes: 2, count: 3 }],
                secret: "ff".into(),
            },
            Response::Refused(Refusal::NotAllowed { role: Role::Nobody, needed: Role::Owner }),
        ]
    }

    fn pass() -> Pass {
        Pass {
            member: MemberId(1),
            life: Life(2),
            session: SessionId(3),
            regions: vec![FIRST_CHUNK_REGION, u32::MAX],
            write: true,
            code: "00ff".into(),
        }
    }

    #[test]
    fn what_goes_in_comes_out() {
        for request in requests() {
            assert_eq!(decode_request(&encode_request(&request)), Ok(request));
        }
        for response in responses() {
            assert_eq!(decode_response(&encode_response(&response)), Ok(response));
        }
        assert_eq!(decode_pass(&encode_pass(&pass())), Ok(pass()));
    }

    #[test]
    fn other_versions_and_lengths_are_named() {
        assert_eq!(decode_request(&[]), Err(WireError::Empty));
        assert_eq!(decode_request(b"\x02{}"), Err(WireError::Version { found: 2 }));
        let (bytes, most) = (PASS_BYTES_MAX + 1, PASS_BYTES_MAX);
        assert_eq!(decode_pass(&vec![1; bytes]), Err(WireError::TooLong { bytes, most }));
        let mut deep = vec![VERSION];
        deep.resize(50_000, b'[');
        assert!(matches!(decode_request(&deep), Err(WireError::Malformed { .. })));
    }

    #[test]
    fn mutated_messages_never_panic() {
        let mut random = Seeded::new(4);
        let whole: Vec<Vec<u8>> = (requests().iter().map(encode_request))
            .chain(responses().iter().map(encode_response))
            .chain([encode_pass(&pass())])
            .collect();
        for _ in 0..30_000 {
            let mut bytes = whole[random.below(whole.len() as u64) as usize].clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.next() as u8,
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes.insert(at, b"0123456789{}[],:\"-e."[random.below(20) as usize]),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    bytes.push(VERSION);
                }
            }
            let _ = (decode_request(&bytes), decode_response(&bytes), decode_pass(&bytes));
        }
    }
}
