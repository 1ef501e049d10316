//! What clients, keepers and the master of spaces agree on beside their messages, which are JSON.

/// The first method of spaces; the others follow.
pub const METHODS_START: u16 = 96;

/// What can be asked of a node about spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Method {
    /// A question to the master, at the node that coordinates the cluster.
    Master = METHODS_START,
    /// A pass, shown to the member whose chunks it is for.
    Enter = METHODS_START + 1,
}

/// One past the last method's number.
pub const METHODS_END: u16 = METHODS_START + 2;

impl Method {
    /// The method that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits.wrapping_sub(METHODS_START) {
            0 => Self::Master,
            1 => Self::Enter,
            _ => return None,
        })
    }
}

/// How long a chunk's mark is (RStore section III-G: 8 bytes of metadata for each chunk).
pub const MARK_BYTES: u64 = 8;

/// The mark of a chunk that is of the newest version, as far as its keeper was told.
pub const MARK_CLEAN: u64 = 0;

/// The mark of a chunk of which there is a newer version. Readers take anything but
/// [`MARK_CLEAN`] for it.
pub const MARK_TAINTED: u64 = 1;

/// The most chunks of one range: 4 TiB at the default size. Its list is about 5 MiB of JSON.
pub const RANGE_CHUNKS_MAX: u64 = 65_536;

/// The most chunks that one task of a keeper is about: its answer is about 100 KiB of JSON.
pub const TASK_CHUNKS_MAX: u64 = 4096;

/// The most tasks that a keeper is given at once, so that what it answers has a bound, too.
pub const TASKS_MAX: usize = 32;

/// The longest lease of a writer: nobody waits for more than ten minutes for a dead one.
pub const WRITER_LEASE_MS_MAX: u64 = 600_000;

/// How long a master waits for its keepers before it refuses a `Reserve`: whoever asks waits longer. A
/// machine prepares some gigabytes a second (RStore section IV-A: 1.15 TB on 12 machines in 22 s).
pub const RESERVE_WAIT_MS: u64 = 30_000;

/// How long a master lets a keeper wait for work; a keeper's calls have a longer deadline.
pub const ATTEND_WAIT_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_have_their_numbers() {
        for bits in 0..256 {
            assert!(Method::from_bits(bits).is_none_or(|method| method as u16 == bits));
        }
        assert_eq!(Method::from_bits(METHODS_END), None);
        assert!(Method::from_bits(METHODS_START).is_some());
    }
}
