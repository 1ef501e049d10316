//! The methods of the transaction layer, and how their messages are put together and taken apart.
//!
//! The structs are declared in `barn_layout::transaction`; here is what comes after their fixed
//! parts. Whatever a message holds, taking it apart ends in parts or in [`Malformed`].

use barn_layout::transaction::{
    METHODS_START, ParticipantEntry, Prepare, ReadEntry, Verdict, Vote, WriteEntry,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What can be asked of a node's transaction layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Method {
    /// Opens a session.
    Hello = METHODS_START,
    /// Renews it.
    Renew = METHODS_START + 1,
    /// Reserves places for new objects.
    Reserve = METHODS_START + 2,
    /// Gives places back.
    Release = METHODS_START + 3,
    /// Locks what a transaction changes, or carries it out.
    Prepare = METHODS_START + 4,
    /// Decides, carries out or aborts a prepared transaction.
    Step = METHODS_START + 5,
    /// Checks versions.
    Validate = METHODS_START + 6,
    /// Asks for the state of a transaction, which from then on only resolvers change.
    Freeze = METHODS_START + 7,
    /// Asks which transactions have been left behind.
    Orphans = METHODS_START + 8,
    /// Runs a function next to an object.
    Ship = METHODS_START + 9,
    /// Asks for the node's usage and counters.
    Usage = METHODS_START + 10,
}

/// One past the last method's number.
pub const METHODS_END: u16 = METHODS_START + 11;

impl Method {
    /// The method that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits.wrapping_sub(METHODS_START) {
            0 => Self::Hello,
            1 => Self::Renew,
            2 => Self::Reserve,
            3 => Self::Release,
            4 => Self::Prepare,
            5 => Self::Step,
            6 => Self::Validate,
            7 => Self::Freeze,
            8 => Self::Orphans,
            9 => Self::Ship,
            10 => Self::Usage,
            _ => return None,
        })
    }
}

/// A message is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A struct at the start of a message, and what follows it.
pub(crate) fn split<T>(bytes: &[u8]) -> Result<(&T, &[u8]), Malformed>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| Malformed)
}

/// A struct that is the whole message.
pub(crate) fn whole<T>(bytes: &[u8]) -> Result<&T, Malformed>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_bytes(bytes).map_err(|_| Malformed)
}

/// `count` structs at the start of a message, and what follows them.
pub(crate) fn split_many<T>(bytes: &[u8], count: usize) -> Result<(&[T], &[u8]), Malformed>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| Malformed)
}

/// All of a message, as structs of one kind.
pub(crate) fn many<T>(bytes: &[u8]) -> Result<&[T], Malformed>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    <[T]>::ref_from_bytes(bytes).map_err(|_| Malformed)
}

/// The parts of a [`Prepare`] frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: &'a Prepare,
    pub(crate) participants: &'a [ParticipantEntry],
    pub(crate) reads: &'a [ReadEntry],
    pub(crate) writes: Writes<'a>,
}

impl<'a> Frame<'a> {
    /// Takes a frame apart; its writes are looked at one by one, later.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = split::<Prepare>(body)?;
        let (participants, rest) = split_many(rest, header.participants.get() as usize)?;
        let (reads, rest) = split_many(rest, header.reads.get() as usize)?;
        let writes = Writes { bytes: rest, count: header.writes.get() as usize };
        // All of them are looked at once before any is acted on.
        if writes.count != writes.clone().try_fold(0, |count, write| write.map(|_| count + 1))? {
            return Err(Malformed);
        }
        Ok(Self { header, participants, reads, writes })
    }
}

/// The writes of a transaction, one after another: an entry, its bytes, padding to a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: usize,
}

/// How many bytes of padding follow a body.
const fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

impl<'a> Writes<'a> {
    /// The next write.
    fn take(&mut self) -> Result<(&'a WriteEntry, &'a [u8]), Malformed> {
        let (entry, rest) = split::<WriteEntry>(self.bytes)?;
        let bytes = entry.bytes.get() as usize;
        if rest.len() < bytes + padding(bytes) {
            return Err(Malformed);
        }
        let (body, rest) = rest.split_at(bytes);
        self.bytes = &rest[padding(bytes)..];
        Ok((entry, body))
    }

    /// The writes of a frame that [`Frame::parse`] has looked at.
    pub(crate) fn each(self) -> impl Iterator<Item = (&'a WriteEntry, &'a [u8])> {
        self.map_while(Result::ok)
    }
}

impl<'a> Iterator for Writes<'a> {
    type Item = Result<(&'a WriteEntry, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.bytes.is_empty()).then(|| {
            let taken = self.take();
            if taken.is_err() {
                self.bytes = &[];
            }
            taken
        })
    }
}

/// Adds a write to a message.
pub(crate) fn push_write(message: &mut Vec<u8>, entry: &WriteEntry, body: &[u8]) {
    message.extend_from_slice(entry.as_bytes());
    message.extend_from_slice(body);
    message.resize(message.len() + padding(body.len()), 0);
}

/// A vote, as it is sent.
pub(crate) fn vote(verdict: Verdict, address: u64, configuration: u64) -> Vote {
    Vote {
        verdict: (verdict as u32).into(),
        reserved: 0.into(),
        address: address.into(),
        configuration: configuration.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_layout::transaction::{Change, TransactionId};

    fn frame(writes: &[(u64, &[u8])]) -> Vec<u8> {
        let header = Prepare {
            transaction: TransactionId { session: 7.into(), number: 9.into() },
            configuration: 1.into(),
            participants: 1.into(),
            reads: 1.into(),
            writes: (writes.len() as u32).into(),
            flags: 0.into(),
            frame: 0.into(),
            reserved: 0.into(),
        };
        let mut message = header.as_bytes().to_vec();
        message.extend(ParticipantEntry { member: 3.into(), reserved: 0.into() }.as_bytes());
        message.extend(ReadEntry { address: 64.into(), version: 5.into() }.as_bytes());
        for (address, body) in writes {
            let entry = WriteEntry {
                address: (*address).into(),
                version: 1.into(),
                incarnation: 0.into(),
                change: (Change::Update as u32).into(),
                bytes: (body.len() as u32).into(),
                reserved: 0.into(),
            };
            push_write(&mut message, &entry, body);
        }
        message
    }

    #[test]
    fn a_frame_comes_apart_as_it_was_put_together() {
        let message = frame(&[(1, b"one"), (2, b""), (3, b"eight by")]);
        let parts = Frame::parse(&message).unwrap();
        assert_eq!(parts.participants[0].member.get(), 3);
        assert_eq!(parts.reads[0].version.get(), 5);
        let writes: Vec<_> = parts.writes.each().map(|(entry, body)| (entry.address.get(), body)).collect();
        assert_eq!(writes, [(1, &b"one"[..]), (2, b""), (3, b"eight by")]);
    }

    #[test]
    fn a_frame_that_was_cut_anywhere_is_malformed() {
        let message = frame(&[(1, b"one"), (2, b"two")]);
        for end in 0..message.len() {
            assert!(Frame::parse(&message[..end]).is_err(), "cut at {end}");
        }
        let mut more = message;
        more.extend([0; 8]);
        assert!(Frame::parse(&more).is_err());
    }
}
