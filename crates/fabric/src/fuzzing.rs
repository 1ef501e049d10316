//! Doors for the fuzzers; compiled for them alone (`cfg(fuzzing)`), used by `fuzz/src/bin`.

pub use crate::shm::fuzzing::shm_peer;
pub use crate::tcp::fuzzing::{client_frames, newcomer, node_frames};

use crate::messaging::request_region::{SLOT_BODY_BYTES_MAX, read_slot, write_slot};
use crate::messaging::ring::{Place, Progress, RingReader, RingWriter, piece_bytes_max};
use crate::region::{Ordering, Words};
use barn_layout::channel::{RING_BYTES_MIN, SLOT_BYTES};
use barn_layout::message::MessageHeader;

/// A hostile writer's ring: it writes messages, then anything anywhere, then messages again.
///
/// The input is a list of 12-byte commands: what, where, and a word.
pub fn ring(data: &[u8]) {
    let words = Words::private(64 + RING_BYTES_MIN);
    let place = Place { words: words.clone(), base: 64, bytes: RING_BYTES_MIN };
    let progress = Progress { words: words.clone(), at: 0 };
    let (mut writer, mut reader) =
        (RingWriter::new(place.clone(), progress.clone()), RingReader::new(place, progress));
    let mut taken = Vec::new();
    for command in data.as_chunks::<12>().0 {
        let at = u64::from(u16::from_le_bytes([command[2], command[3]]));
        let mut value = [0; 8];
        value.copy_from_slice(&command[4..]);
        match command[0] % 4 {
            0 => {
                let body = vec![command[1]; at as usize % (piece_bytes_max(RING_BYTES_MIN) + 1)];
                let _ = writer.push(&MessageHeader::from_words([u64::from_le_bytes(value), 0, 0]), &body);
            }
            1 => {
                let offset = at * 8 % (64 + RING_BYTES_MIN) as u64;
                let _ = words.store_word(offset, u64::from_le_bytes(value), Ordering::Relaxed);
            }
            _ => {
                taken.clear();
                match reader.pop(&mut taken) {
                    Ok(_) => assert!(taken.len() <= piece_bytes_max(RING_BYTES_MIN)),
                    Err(_) => return,
                }
            }
        }
    }
}

/// A hostile client's request slot.
pub fn slot(data: &[u8]) {
    let words = Words::private(SLOT_BYTES);
    let (honest, scribbled) = data.split_at(data.len().min(64));
    write_slot(&words, 0, 1, &MessageHeader::from_words([1, 2, 3]), honest);
    for command in scribbled.as_chunks::<10>().0 {
        let offset = u64::from(u16::from_le_bytes([command[0], command[1]])) * 8 % SLOT_BYTES as u64;
        let mut value = [0; 8];
        value.copy_from_slice(&command[2..]);
        let _ = words.store_word(offset, u64::from_le_bytes(value), Ordering::Relaxed);
    }
    let mut taken = Vec::new();
    if let Ok(Some(_)) = read_slot(&words, 0, 1, &mut taken) {
        assert!(taken.len() <= SLOT_BODY_BYTES_MAX);
    }
}
