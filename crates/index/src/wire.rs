//! The methods of tables, and how their messages are put together and taken apart.
//!
//! The structs are declared in `barn_layout::table`. Whatever a message holds, taking it apart ends in
//! parts or in [`Malformed`].

use barn_layout::table::{
    Durability, METHODS_START, NO_END, Operation, Outcome, TableAnswer, TableHeader, TableRange, TableUpdate,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What can be asked of a node about tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Method {
    /// Looks keys up.
    Get = METHODS_START,
    /// Changes keys.
    Update = METHODS_START + 1,
    /// Where a shard's memory is.
    Roots = METHODS_START + 2,
    /// A page of a shard's keys.
    Scan = METHODS_START + 3,
    /// How much a shard holds, as JSON.
    Stats = METHODS_START + 4,
    /// Makes room where a transaction found none.
    Grow = METHODS_START + 5,
    /// Keys of a shard in their order.
    Range = METHODS_START + 6,
}

/// One past the last method's number.
pub const METHODS_END: u16 = METHODS_START + 7;

impl Method {
    /// The method that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits.wrapping_sub(METHODS_START) {
            0 => Self::Get,
            1 => Self::Update,
            2 => Self::Roots,
            3 => Self::Scan,
            4 => Self::Stats,
            5 => Self::Grow,
            6 => Self::Range,
            _ => return None,
        })
    }
}

/// A message is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message about a table that is not what it should be")
    }
}

/// A struct at the start of a message, and what follows it.
pub fn split<T>(bytes: &[u8]) -> Result<(&T, &[u8]), Malformed>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| Malformed)
}

/// The first `count` bytes, and what follows them.
pub fn take(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), Malformed> {
    bytes.split_at_checked(count).ok_or(Malformed)
}

/// Makes `to` these bytes. Where both have a length that many values have, that needs no call.
#[inline(always)]
pub fn replace(to: &mut Vec<u8>, bytes: &[u8]) {
    match (<&mut [u8; 32]>::try_from(&mut to[..]), <&[u8; 32]>::try_from(bytes)) {
        (Ok(to), Ok(bytes)) => *to = *bytes,
        _ => {
            to.clear();
            to.extend_from_slice(bytes);
        }
    }
}

/// Begins a request.
pub fn begin(message: &mut Vec<u8>, table: u32, shard: u16, count: u16) {
    message.clear();
    let header = TableHeader { table: table.into(), shard: shard.into(), count: count.into() };
    message.extend_from_slice(header.as_bytes());
}

/// Adds a key to a [`Method::Get`].
#[inline]
pub fn add_key(message: &mut Vec<u8>, key: &[u8]) {
    message.extend_from_slice(&(key.len() as u32).to_le_bytes());
    match <&[u8; 16]>::try_from(key) {
        // Of a length that many keys have it needs no call.
        Ok(key) => message.extend_from_slice(key),
        Err(_) => message.extend_from_slice(key),
    }
}

/// Takes the next key of a [`Method::Get`].
#[inline]
pub fn next_key<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or(Malformed)?;
    let (key, after) = take(after, u32::from_le_bytes(*bytes) as usize)?;
    *rest = after;
    Ok(key)
}

/// Adds what a [`Method::Range`] asks for.
pub fn add_range(message: &mut Vec<u8>, from: &[u8], to: Option<&[u8]>, bytes_max: u32, keys_max: u32) {
    let header = TableRange {
        bytes_max: bytes_max.into(),
        keys_max: keys_max.into(),
        from_bytes: (from.len() as u32).into(),
        to_bytes: to.map_or(NO_END, |to| to.len() as u32).into(),
    };
    message.extend_from_slice(header.as_bytes());
    message.extend_from_slice(from);
    message.extend_from_slice(to.unwrap_or_default());
}

/// What a [`Method::Range`] asks for: how much, from where, and up to where.
type AskedRange<'a> = (&'a TableRange, &'a [u8], Option<&'a [u8]>);

/// Takes apart what a [`Method::Range`] asks for.
pub fn parse_range(bytes: &[u8]) -> Result<AskedRange<'_>, Malformed> {
    let (header, rest) = split::<TableRange>(bytes)?;
    let (from, rest) = take(rest, header.from_bytes.get() as usize)?;
    let to = match header.to_bytes.get() {
        NO_END => None,
        bytes => Some(take(rest, bytes as usize)?.0),
    };
    Ok((header, from, to))
}

/// One change of a [`Method::Update`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// What to do.
    pub operation: Operation,
    /// With which key.
    pub key: &'a [u8],
    /// The value, where there is one.
    pub value: &'a [u8],
    /// The version to compare with, or the number to add.
    pub operand: u64,
    /// When the value expires; 0 for never.
    pub expires: u64,
    /// When it counts as made; nothing for what the table says.
    pub durability: Option<Durability>,
}

/// Adds a change to a [`Method::Update`].
pub fn add_update(message: &mut Vec<u8>, update: &Update<'_>) {
    let header = TableUpdate {
        operation: (update.operation as u32).into(),
        key_bytes: (update.key.len() as u32).into(),
        value_bytes: (update.value.len() as u32).into(),
        durability: Durability::to_bits(update.durability).into(),
        operand: update.operand.into(),
        expires: update.expires.into(),
    };
    message.extend_from_slice(header.as_bytes());
    message.extend_from_slice(update.key);
    message.extend_from_slice(update.value);
}

/// Takes the next change of a [`Method::Update`].
pub fn next_update<'a>(rest: &mut &'a [u8]) -> Result<Update<'a>, Malformed> {
    let (header, after) = split::<TableUpdate>(rest)?;
    let (key, after) = take(after, header.key_bytes.get() as usize)?;
    let (value, after) = take(after, header.value_bytes.get() as usize)?;
    *rest = after;
    let operation = Operation::from_bits(header.operation.get()).ok_or(Malformed)?;
    let durability = Durability::from_bits(header.durability.get()).map_err(|_| Malformed)?;
    let (operand, expires) = (header.operand.get(), header.expires.get());
    Ok(Update { operation, key, value, operand, expires, durability })
}

/// What came of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Whether it is there, or was changed.
    pub outcome: Outcome,
    /// The key's version.
    pub version: u64,
    /// When the value expires; 0 for never.
    pub expires: u64,
    /// The value, or the reason.
    pub value: &'a [u8],
}

/// Bytes of the time at which a value expires.
const EXPIRY_BYTES: usize = 8;

impl<'a> Answer<'a> {
    /// The most that an answer takes beside its value.
    pub const BYTES_MAX: usize = TableAnswer::BYTES + EXPIRY_BYTES;

    /// That nothing is there to tell but this.
    pub const fn only(outcome: Outcome) -> Self {
        Self { outcome, version: 0, expires: 0, value: &[] }
    }

    /// The same, with a reason.
    pub const fn because(outcome: Outcome, why: &'a [u8]) -> Self {
        Self { value: why, ..Self::only(outcome) }
    }
}

/// Adds an answer.
#[inline]
pub fn add_answer(message: &mut Vec<u8>, answer: &Answer<'_>) {
    let Answer { outcome, version, expires, value } = *answer;
    let header = TableAnswer {
        outcome: (outcome as u16).into(),
        expiry_bytes: if expires == 0 { 0 } else { EXPIRY_BYTES as u16 }.into(),
        value_bytes: (value.len() as u32).into(),
        version: version.into(),
    };
    message.extend_from_slice(header.as_bytes());
    if expires != 0 {
        message.extend_from_slice(&expires.to_le_bytes());
    }
    message.extend_from_slice(value);
}

/// Adds that a value is there that never expires, as [`add_answer`] does: nearly all answers are that.
#[inline(always)]
pub fn add_value(message: &mut Vec<u8>, version: u64, value: &[u8]) {
    let Ok(value) = <&[u8; 32]>::try_from(value) else {
        return add_answer(message, &Answer { outcome: Outcome::Done, version, expires: 0, value });
    };
    // The header as two words: parts of a word that were just stored are slow to load again as one, which is what
    // sends them.
    let first = Outcome::Done as u64 | (value.len() as u64) << 32;
    let mut answer = [0; TableAnswer::BYTES + 32];
    answer[..8].copy_from_slice(&first.to_le_bytes());
    answer[8..16].copy_from_slice(&version.to_le_bytes());
    answer[16..].copy_from_slice(value);
    message.extend_from_slice(&answer);
}

/// Takes the next answer.
#[inline]
pub fn next_answer<'a>(rest: &mut &'a [u8]) -> Result<Answer<'a>, Malformed> {
    let (header, mut after) = split::<TableAnswer>(rest)?;
    let outcome = Outcome::from_bits(header.outcome.get()).ok_or(Malformed)?;
    let mut expires = 0;
    if header.expiry_bytes.get() != 0 {
        let (bytes, behind) = after.split_first_chunk::<EXPIRY_BYTES>().ok_or(Malformed)?;
        (expires, after) = (u64::from_le_bytes(*bytes), behind);
        if usize::from(header.expiry_bytes.get()) != EXPIRY_BYTES || expires == 0 {
            return Err(Malformed);
        }
    }
    let (value, after) = take(after, header.value_bytes.get() as usize)?;
    *rest = after;
    Ok(Answer { outcome, version: header.version.get(), expires, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_apart_as_they_were_put_together() {
        let mut message = Vec::new();
        begin(&mut message, 7, 2, 2);
        add_key(&mut message, b"");
        add_key(&mut message, b"key");
        let (header, mut rest) = split::<TableHeader>(&message).unwrap();
        assert_eq!((header.table.get(), header.shard.get(), header.count.get()), (7, 2, 2));
        assert_eq!(next_key(&mut rest), Ok(&b""[..]));
        assert_eq!(next_key(&mut rest), Ok(&b"key"[..]));
        assert_eq!(next_key(&mut rest), Err(Malformed));

        for durability in [None, Some(Durability::Memory), Some(Durability::Synced)] {
            let (operation, key, value) = (Operation::Swap, b"k", b"vv");
            let update = Update { operation, key, value, operand: 9, expires: 10, durability };
            message.clear();
            add_update(&mut message, &update);
            assert_eq!(next_update(&mut &message[..]), Ok(update));
            assert_eq!(next_update(&mut &message[..message.len() - 1]), Err(Malformed));
        }
        message[12] = 4;
        assert_eq!(next_update(&mut &message[..]), Err(Malformed), "no such durability");
    }

    #[test]
    fn answers_come_apart_as_they_were_put_together() {
        let told = Answer { outcome: Outcome::Done, version: 7, expires: 0, value: b"value" };
        let answers = [
            told,
            Answer { expires: 9, ..told },
            Answer { expires: u64::MAX, value: b"", ..told },
            Answer::only(Outcome::Absent),
            Answer::because(Outcome::Full, b"why"),
            Answer::because(Outcome::Short, b"why"),
        ];
        let mut message = Vec::new();
        for answer in &answers {
            let start = message.len();
            add_answer(&mut message, answer);
            assert!(message.len() - start <= Answer::BYTES_MAX + answer.value.len());
            for end in start..message.len() {
                assert_eq!(next_answer(&mut &message[start..end]), Err(Malformed), "cut at {end}");
            }
        }
        let mut rest = &message[..];
        for answer in &answers {
            assert_eq!(next_answer(&mut rest), Ok(*answer));
        }
        assert!(rest.is_empty());

        for bytes in [0, 1, 31, 32, 33] {
            let told = Answer { version: 7 << 40 | 9, value: &[5; 33][..bytes], ..told };
            let mut other = Vec::new();
            message.clear();
            add_answer(&mut message, &told);
            add_value(&mut other, told.version, told.value);
            assert_eq!(message, other, "{bytes}");
        }

        message.clear();
        add_answer(&mut message, &Answer { expires: 9, ..told });
        for (at, to) in [(0, 0), (0, 9), (1, 1), (2, 7), (2, 16), (3, 1), (16, 0)] {
            let mut wrong = message.clone();
            wrong[at] = to;
            assert_eq!(next_answer(&mut &wrong[..]), Err(Malformed), "byte {at} is {to}");
        }
    }

    #[test]
    fn ranges_come_apart_as_they_were_put_together() {
        for to in [None, Some(&b""[..]), Some(b"to")] {
            let mut message = Vec::new();
            add_range(&mut message, b"from", to, 7, 8);
            let (header, from, end) = parse_range(&message).unwrap();
            assert_eq!((header.bytes_max.get(), header.keys_max.get(), from, end), (7, 8, &b"from"[..], to));
            assert!(to.is_none_or(|to| to.is_empty()) || parse_range(&message[..message.len() - 1]).is_err());
        }
    }

    #[test]
    fn methods_have_their_numbers() {
        for bits in 0..256 {
            assert!(Method::from_bits(bits).is_none_or(|method| method as u16 == bits));
        }
        assert_eq!(Method::from_bits(METHODS_END), None);
    }
}
