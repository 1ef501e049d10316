//! Entries too long for a bucket or a node: key and value lie in an object of their own.

use crate::client::memory::{Memory, Unreadable};
use crate::hash::remix;
use crate::key::{Found, Key, Looked};
use barn_heap::object::read_bytes;
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::{Address, planted};
use barn_transaction::Pointer;

/// Bytes before the key.
pub(crate) const OUTSIDE_HEAD_BYTES: usize = 16;

/// An entry that lies in an object of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside<'a> {
    pub(crate) expires: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Outside<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let (expires, rest) = body.split_first_chunk::<8>()?;
        let (key_bytes, rest) = rest.split_first_chunk::<8>()?;
        let (key, value) = rest.split_at_checked(u64::from_le_bytes(*key_bytes) as u32 as usize)?;
        Some(Self { expires: u64::from_le_bytes(*expires), key, value })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut body = vec![0; self.len()];
        self.write_to(&mut body);
        body
    }

    /// How many bytes it takes.
    pub(crate) fn len(&self) -> usize {
        OUTSIDE_HEAD_BYTES + self.key.len() + self.value.len()
    }

    /// Puts it into as many bytes as it takes.
    pub(crate) fn write_to(self, body: &mut [u8]) {
        let (head, rest) = body.split_at_mut(OUTSIDE_HEAD_BYTES);
        let (key, value) = rest.split_at_mut(self.key.len());
        let (expires, key_bytes) = head.split_at_mut(8);
        expires.copy_from_slice(&self.expires.to_le_bytes());
        key_bytes.copy_from_slice(&(self.key.len() as u64).to_le_bytes());
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
    }
}

/// The version of an entry whose object has this one: it follows from that and from where the object is, so
/// that it never comes back. (A tree's entries keep their own in the leaf.)
#[inline]
pub(crate) fn outside_version(object: Address, object_version: u64) -> u64 {
    let object_version = if planted("long_value_keeps_its_version") { 1 } else { object_version };
    remix(object_version, object.to_bits()) | 1
}

/// Reads an entry that lies in an object of its own. Absent if it is another key's.
pub(crate) async fn look_outside<M: Memory + Sync>(
    memory: &M,
    pointer: Pointer,
    key: Key<'_>,
    found: &mut Found,
    reads: &mut u32,
) -> Result<Looked, Unreadable> {
    let bytes = pointer.bytes as usize;
    found.value.clear();
    found.value.resize(read_bytes(bytes), 0);
    let confirmation = memory.read_confirmed(pointer.address, &mut found.value).await?;
    *reads += 1;
    let seen = inspect(pointer.address, Some(pointer.incarnation), &found.value, confirmation);
    let Seen::Whole(view) = seen else { return Ok(Looked::Unsettled) };
    let Some(outside) = Outside::parse(&found.value[HEADER_BYTES..HEADER_BYTES + view.bytes]) else {
        return Ok(Looked::Unsettled);
    };
    if outside.key != key.bytes {
        return Ok(Looked::Absent);
    }
    let value = outside.value.len();
    found.expires = outside.expires;
    found.version = outside_version(pointer.address, view.version);
    // The value alone, in place: it may be long.
    let start = HEADER_BYTES + OUTSIDE_HEAD_BYTES + key.bytes.len();
    found.value.copy_within(start..start + value, 0);
    found.value.truncate(value);
    Ok(Looked::Found)
}
