//! Values that say whose they are, at every byte: one that is torn, cut or mixed is seen.

use barn_fabric::seam::{Random, Seeded};

/// Lengths of values: in a bucket, in an object of its own, and over many lines.
const LENGTHS: [usize; 8] = [8, 16, 40, 64, 72, 200, 600, 2100];

fn length(id: u64) -> usize {
    let mut random = Seeded::new(id);
    // The long ones are rare: memory is not what is tried here.
    match random.below(32) {
        0 => LENGTHS[7],
        1..4 => LENGTHS[6],
        _ => LENGTHS[random.below(6) as usize],
    }
}

/// The bytes of a value.
pub(super) fn encode(id: u64, into: &mut Vec<u8>) {
    into.clear();
    let bytes = length(id);
    while into.len() < bytes {
        // Each word differs from all others of the same value.
        into.extend_from_slice(&id.wrapping_add((into.len() as u64) << 48).to_le_bytes());
    }
    into.truncate(bytes);
}

/// The number of a value; what is wrong with its bytes otherwise.
pub(super) fn decode(bytes: &[u8], spare: &mut Vec<u8>) -> Result<u64, String> {
    let first = bytes.first_chunk::<8>().ok_or_else(|| format!("a value of {} bytes", bytes.len()))?;
    let id = u64::from_le_bytes(*first);
    encode(id, spare);
    match spare == bytes {
        true => Ok(id),
        false => Err(format!("a value of {} bytes that nobody wrote: {bytes:?}", bytes.len())),
    }
}

/// The bytes of a key; one in sixteen is longer than tables like.
pub(super) fn key(number: u64) -> Vec<u8> {
    let mut key = format!("key-{number}").into_bytes();
    if number % 16 == 11 {
        key.resize(120, b'.');
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_number_and_every_change() {
        let (mut bytes, mut spare) = (Vec::new(), Vec::new());
        for id in 1..200 {
            encode(id << 32 | 7, &mut bytes);
            assert_eq!(decode(&bytes, &mut spare), Ok(id << 32 | 7));
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert!(decode(&bytes, &mut spare).is_err() || bytes.len() == 8, "byte {at}");
                bytes[at] ^= 1;
            }
        }
    }
}
