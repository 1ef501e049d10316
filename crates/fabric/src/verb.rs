//! The four one-sided verbs, as every transport sees them.

use crate::error::OperationError;
use crate::region::{Rights, Words};
use crate::slots::Answer;
use barn_layout::frame::Outcome;
use barn_layout::limits::{OPERATION_BYTES_MAX, WORD_BYTES};

/// One one-sided operation.
#[derive(Debug)]
pub(crate) enum Verb<'a> {
    /// Copies remote bytes here.
    Read { offset: u64, into: &'a mut [u8] },
    /// Copies bytes there.
    Write { offset: u64, from: &'a [u8] },
    /// Replaces a word if it is what is expected.
    CompareSwap { offset: u64, expected: u64, new: u64 },
    /// Adds to a word.
    FetchAdd { offset: u64, add: u64 },
}

impl Verb<'_> {
    #[inline(always)]
    pub(crate) fn needs(&self) -> Rights {
        match self {
            Self::Read { .. } => Rights::READ,
            Self::Write { .. } => Rights::WRITE,
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => Rights::ATOMIC,
        }
    }

    #[inline(always)]
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. }
            | Self::Write { offset, .. }
            | Self::CompareSwap { offset, .. }
            | Self::FetchAdd { offset, .. } => *offset,
        }
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Read { into, .. } => into.len(),
            Self::Write { from, .. } => from.len(),
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => WORD_BYTES,
        }
    }

    /// What a node's or a device's answer means; of a READ's, `placed` bytes are in place.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        answer: &Answer,
        rights: Rights,
        placed: usize,
    ) -> Result<u64, OperationError> {
        let outcome = Outcome::from_bits(answer.status);
        if outcome != Some(Outcome::Done) {
            return Err(OperationError::from_outcome(outcome, self, rights));
        }
        match self {
            Self::Read { into, .. } => {
                let rest = into.get_mut(placed..).filter(|rest| rest.len() == answer.body.len());
                rest.ok_or(OperationError::Protocol)?.copy_from_slice(&answer.body);
                Ok(0)
            }
            Self::Write { .. } => Ok(0),
            Self::CompareSwap { .. } | Self::FetchAdd { .. } => {
                let word = answer.body.as_slice().try_into().map_err(|_| OperationError::Protocol)?;
                Ok(u64::from_le_bytes(word))
            }
        }
    }

    /// Whether a grant of `rights` on a region of `region_bytes` covers this. Every transport
    /// asks on the client's side, so that errors are the same, and again on the node's.
    #[inline(always)]
    pub(crate) fn check(&self, rights: Rights, region_bytes: u64) -> Result<(), OperationError> {
        let (needs, offset) = (self.needs(), self.offset());
        check_range(needs, rights, offset, self.bytes(), region_bytes)?;
        if matches!(needs, Rights::ATOMIC) && !offset.is_multiple_of(WORD_BYTES as u64) {
            return Err(OperationError::Misaligned { offset });
        }
        Ok(())
    }

    /// Carries it out on memory that is mapped here. Gives an atomic's previous value, else 0.
    #[inline(always)]
    pub(crate) fn execute(&mut self, words: &Words) -> Result<u64, OperationError> {
        Ok(match self {
            Self::Read { offset, into } => words.load(*offset, into).map(|()| 0)?,
            Self::Write { offset, from } => words.store(*offset, from).map(|()| 0)?,
            Self::CompareSwap { offset, expected, new } => words.compare_swap(*offset, *expected, *new)?,
            Self::FetchAdd { offset, add } => words.fetch_add(*offset, *add)?,
        })
    }
}

/// Whether a grant that `has` rights on a region of `region_bytes` covers a range.
#[inline(always)]
pub(crate) fn check_range(
    needs: Rights,
    has: Rights,
    offset: u64,
    bytes: usize,
    region_bytes: u64,
) -> Result<(), OperationError> {
    if !has.contains(needs) {
        return Err(OperationError::NoRight { needs, has });
    }
    if bytes > OPERATION_BYTES_MAX {
        return Err(OperationError::TooLong { bytes });
    }
    if offset.checked_add(bytes as u64).is_none_or(|end| end > region_bytes) {
        return Err(OperationError::OutOfBounds { offset, bytes: bytes as u64, region_bytes });
    }
    Ok(())
}
