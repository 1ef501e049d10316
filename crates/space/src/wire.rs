//! Requests, responses and passes as bytes, in the cluster's envelope.
//!
//! What always holds: decoding never panics. That the numbers in a message make sense is for whoever acts on
//! it to see.

use crate::message::{Pass, Request, Response};
use barn_cluster::envelope::{self, EnvelopeError};

/// The longest request: a keeper's answer to the most tasks with the most chunks is about 3 MiB.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// The longest response: the most spaces and ranges are below 24 MiB.
pub const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// The longest pass: a range of the most chunks, all at one member, is about 700 KiB.
pub const PASS_BYTES_MAX: usize = 1 << 20;

/// A request's bytes.
pub fn encode_request(request: &Request) -> Vec<u8> {
    envelope::seal(request)
}

/// The request that bytes mean.
pub fn decode_request(bytes: &[u8]) -> Result<Request, EnvelopeError> {
    envelope::open(bytes, REQUEST_BYTES_MAX)
}

/// A response's bytes.
pub fn encode_response(response: &Response) -> Vec<u8> {
    envelope::seal(response)
}

/// The response that bytes mean.
pub fn decode_response(bytes: &[u8]) -> Result<Response, EnvelopeError> {
    envelope::open(bytes, RESPONSE_BYTES_MAX)
}

/// A pass's bytes, as a client shows it.
pub fn encode_pass(pass: &Pass) -> Vec<u8> {
    envelope::seal(pass)
}

/// The pass that bytes mean. Whether it is a true one, [`crate::pass::Secret::is_true`] says.
pub fn decode_pass(bytes: &[u8]) -> Result<Pass, EnvelopeError> {
    envelope::open(bytes, PASS_BYTES_MAX)
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
            Request::Lease { session, hold, turn: 3, chunks: vec![0, u64::MAX], lease_ms: 0 },
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
        assert_eq!(decode_request(&[]), Err(EnvelopeError::Empty));
        assert_eq!(decode_request(b"\x02{}"), Err(EnvelopeError::Version { found: 2 }));
        let (bytes, most) = (PASS_BYTES_MAX + 1, PASS_BYTES_MAX);
        assert_eq!(decode_pass(&vec![1; bytes]), Err(EnvelopeError::TooLong { bytes, most }));
        let mut deep = vec![envelope::VERSION];
        deep.resize(50_000, b'[');
        assert!(matches!(decode_request(&deep), Err(EnvelopeError::Malformed { .. })));
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
                    bytes.push(envelope::VERSION);
                }
            }
            let _ = (decode_request(&bytes), decode_response(&bytes), decode_pass(&bytes));
        }
    }
}
