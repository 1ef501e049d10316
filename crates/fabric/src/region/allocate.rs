//! Allocates regions and maps other processes' ones.

use super::mapping::{HUGE_PAGE_BYTES, Mapping};
use super::{Rights, Words};
use barn_layout::limits::{REGION_BYTES_MAX, WORD_BYTES};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use std::fmt;
use std::sync::Arc;

/// The pages that back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages of 2 MiB (`vm.nr_hugepages`).
    Reserved,
    /// Transparent huge pages for shared memory: as the machine is set, or because they were asked for.
    Transparent,
    /// Pages of 4 KiB.
    Plain,
    /// The heap of this process: tests and the simulated transport.
    Heap,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserved => "reserved huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Plain => "plain 4 KiB pages",
            Self::Heap => "this process's heap",
        })
    }
}

/// What a region should be.
#[derive(Clone, Debug)]
pub struct RegionOptions {
    /// How long, in bytes: rounded up to whole pages.
    pub bytes: u64,
    /// The most that any peer may be granted. Without WRITE and ATOMIC the file is sealed
    /// against writable mappings for good.
    pub remote: Rights,
    /// Whether huge pages are tried, reserved ones first.
    pub huge: bool,
}

impl RegionOptions {
    /// A region that peers may read.
    pub fn readable(bytes: u64) -> Self {
        Self { bytes, remote: Rights::READ, huge: true }
    }

    /// A region that peers may be granted anything on.
    pub fn writable(bytes: u64) -> Self {
        Self { bytes, remote: Rights::ALL, huge: true }
    }
}

/// Why a region was not allocated.
#[derive(Debug)]
pub enum RegionError {
    /// The length is zero or past [`REGION_BYTES_MAX`].
    Size {
        /// The length that was asked for.
        bytes: u64,
    },
    /// The system has no such memory.
    NoMemory {
        /// The length that was asked for.
        bytes: u64,
        /// What the system said.
        cause: Errno,
    },
    /// The system refused a step.
    System {
        /// The step.
        step: &'static str,
        /// What the system said.
        cause: Errno,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { bytes } => write!(
                f,
                "a region of {bytes} bytes is not possible: it must have 1 to {REGION_BYTES_MAX} bytes; use several regions"
            ),
            Self::NoMemory { bytes, cause } => write!(
                f,
                "no memory for a region of {bytes} bytes ({cause}): ask for less, or raise the limit that `barn doctor` names"
            ),
            Self::System { step, cause } => {
                write!(f, "{step} failed: {cause}; `barn doctor` checks this machine")
            }
        }
    }
}

impl std::error::Error for RegionError {}

/// Memory of this process that peers can be let into. Clones share it.
#[derive(Clone, Debug)]
pub struct Region {
    words: Words,
    file: Option<Arc<OwnedFd>>,
    pages: Pages,
    remote: Rights,
}

impl Region {
    /// Allocates a region, with the best pages that are to be had.
    pub fn allocate(options: &RegionOptions) -> Result<Self, RegionError> {
        if options.bytes == 0 || options.bytes > REGION_BYTES_MAX {
            return Err(RegionError::Size { bytes: options.bytes });
        }
        let huge_bytes = (options.bytes as usize).next_multiple_of(HUGE_PAGE_BYTES);
        if options.huge
            && options.bytes as usize >= HUGE_PAGE_BYTES
            && let Ok(region) = Self::allocate_on(options, huge_bytes, Pages::Reserved)
        {
            return Ok(region);
        }
        let page_bytes = rustix::param::page_size();
        let bytes = (options.bytes as usize).next_multiple_of(page_bytes);
        let wanted = if options.huge { Pages::Transparent } else { Pages::Plain };
        Self::allocate_on(options, bytes, wanted)
    }

    /// Words of this process alone, which only the simulated transport can serve.
    pub fn on_heap(bytes: usize, remote: Rights) -> Self {
        Self { words: Words::private(bytes), file: None, pages: Pages::Heap, remote }
    }

    /// The same memory with its stores written down in `journal`.
    pub(crate) fn journaled(mut self, journal: Arc<super::journal::Journal>) -> Self {
        self.words = self.words.journaled(journal);
        self
    }

    fn allocate_on(options: &RegionOptions, bytes: usize, pages: Pages) -> Result<Self, RegionError> {
        let system = |step| move |cause| RegionError::System { step, cause };
        let no_memory = |cause| RegionError::NoMemory { bytes: options.bytes, cause };
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if pages == Pages::Reserved {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let file = rustix::fs::memfd_create("barn-region", flags).map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(no_memory)?;
        let mapping = Mapping::map(file.as_fd(), bytes, true).map_err(no_memory)?;
        if pages == Pages::Transparent {
            // What cannot be had leaves plain pages; what came of it is looked up below.
            let _ = mapping.advise_huge();
            let _ = mapping.collapse();
        }
        match mapping.populate(true) {
            // A kernel before 5.14 cannot populate a mapping, but it can reserve a file's pages.
            Err(Errno::INVAL) => {
                rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)
            }
            populated => populated,
        }
        .map_err(no_memory)?;
        let got = match pages {
            Pages::Transparent if !huge_mapped(mapping.base().as_ptr() as usize) => Pages::Plain,
            other => other,
        };
        seal(file.as_fd(), options.remote).map_err(system("sealing the memory file"))?;
        Ok(Self {
            words: Words::mapped(mapping, true),
            file: Some(Arc::new(file)),
            pages: got,
            remote: options.remote,
        })
    }

    /// The bytes.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.words.bytes() as u64
    }

    /// The pages that back it.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// The most that a peer may be granted.
    pub fn remote(&self) -> Rights {
        self.remote
    }

    /// A descriptor to hand to a peer with these rights: read-only unless it may change bytes.
    /// `None` when the region has no file.
    pub(crate) fn descriptor(&self, rights: Rights) -> Option<Result<OwnedFd, Errno>> {
        let file = self.file.as_ref()?;
        Some(if rights.changes() { file.try_clone().map_err(io_errno) } else { read_only(file.as_fd()) })
    }
}

/// Seals a memory file: never another length, and no new writable mapping unless `remote` has
/// a right that changes bytes.
pub(crate) fn seal(file: BorrowedFd<'_>, remote: Rights) -> Result<(), Errno> {
    let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    if !remote.changes() {
        seals |= SealFlags::FUTURE_WRITE;
    }
    rustix::fs::fcntl_add_seals(file, seals)
}

/// The same file, opened read-only.
pub(crate) fn read_only(file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    use rustix::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, rustix::fs::Mode::empty())
}

fn io_errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Whether the kernel backs the mapping at `base` by huge pages of shared memory.
fn huge_mapped(base: usize) -> bool {
    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return false };
    let head = format!("{base:x}-");
    maps.lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(1)
        .take_while(|line| line.split_once(':').is_some_and(|(name, _)| !name.contains('-')))
        .find_map(|line| line.strip_prefix("ShmemPmdMapped:"))
        .and_then(|kib| kib.trim().split(' ').next()?.parse::<u64>().ok())
        .is_some_and(|kib| kib > 0)
}

/// Why another process's memory file was not mapped.
#[derive(Debug)]
pub enum MapError {
    /// The file is not what the peer said: too short, or not sealed against shrinking.
    Untrustworthy {
        /// What is wrong.
        what: &'static str,
    },
    /// The system refused.
    System(Errno),
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untrustworthy { what } => write!(f, "the peer's memory file cannot be trusted: {what}"),
            Self::System(cause) => write!(f, "mapping the peer's memory failed: {cause}"),
        }
    }
}

impl std::error::Error for MapError {}

/// Maps a file that another process handed over, after checking that it cannot be shrunk.
pub fn map_shared(file: BorrowedFd<'_>, bytes: u64, writable: bool) -> Result<Words, MapError> {
    let seals = rustix::fs::fcntl_get_seals(file)
        .map_err(|_| MapError::Untrustworthy { what: "it is no sealable memory file" })?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(MapError::Untrustworthy { what: "it is not sealed against shrinking" });
    }
    let found = rustix::fs::fstat(file).map_err(MapError::System)?.st_size;
    if bytes == 0 || !(bytes as usize).is_multiple_of(WORD_BYTES) || (found as u64) < bytes {
        return Err(MapError::Untrustworthy { what: "it is shorter than was said" });
    }
    let mapping = Mapping::map(file, bytes as usize, writable).map_err(MapError::System)?;
    let _ = mapping.advise_huge();
    // The pages exist already (their owner populated them); mapping them now keeps page faults
    // out of the first reads. Failing to is no error.
    let _ = mapping.populate(writable);
    Ok(Words::mapped(mapping, writable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Ordering;

    #[test]
    fn a_region_says_which_pages_it_got() {
        let region = Region::allocate(&RegionOptions::readable(4 << 20)).unwrap();
        assert_ne!(region.pages(), Pages::Heap);
        assert_eq!(region.bytes(), 4 << 20);
        let plain =
            Region::allocate(&RegionOptions { huge: false, ..RegionOptions::readable(4096) }).unwrap();
        assert_eq!(plain.pages(), Pages::Plain);
    }

    #[test]
    fn impossible_sizes_are_refused_with_words() {
        for bytes in [0, REGION_BYTES_MAX + 1, u64::MAX] {
            let error = Region::allocate(&RegionOptions::readable(bytes)).unwrap_err();
            assert!(error.to_string().contains("not possible"), "{error}");
        }
    }

    #[test]
    fn a_readers_mapping_sees_the_owners_stores_and_cannot_store() {
        let region = Region::allocate(&RegionOptions::readable(2 << 20)).unwrap();
        let file = region.descriptor(Rights::READ).unwrap().unwrap();
        let reader = map_shared(file.as_fd(), region.bytes(), false).unwrap();
        region.words().store_word(4096, 77, Ordering::Relaxed).unwrap();
        assert_eq!(reader.load_word(4096, Ordering::Relaxed), Ok(77));
        assert!(reader.store(0, &[1]).is_err());
    }

    /// The attacks of a hostile process that holds a reader's descriptor.
    #[test]
    fn a_sealed_region_resists_its_readers() {
        let region = Region::allocate(&RegionOptions::readable(2 << 20)).unwrap();
        let file = region.descriptor(Rights::READ).unwrap().unwrap();
        assert!(Mapping::map(file.as_fd(), 4096, true).is_err(), "a writable mapping was given");
        assert!(rustix::fs::ftruncate(&file, 0).is_err(), "the file was shrunk");
        assert!(rustix::io::write(&file, b"x").is_err(), "the file was written");
        use rustix::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        if let Ok(again) = rustix::fs::open(path, OFlags::RDWR, rustix::fs::Mode::empty()) {
            assert!(Mapping::map(again.as_fd(), 4096, true).is_err(), "reopened and mapped writable");
            assert!(rustix::io::write(&again, b"x").is_err(), "reopened and written");
            assert!(rustix::fs::ftruncate(&again, 0).is_err(), "reopened and shrunk");
            let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            assert!(rustix::fs::fallocate(&again, punch, 0, 4096).is_err(), "a hole was punched");
        }
        region.words().store_word(0, 5, Ordering::Relaxed).unwrap();
        assert_eq!(region.words().load_word(0, Ordering::Relaxed), Ok(5), "the owner can no longer write");
    }

    #[test]
    fn an_unsealed_or_short_file_is_not_mapped() {
        let unsealed = rustix::fs::memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        assert!(map_shared(unsealed.as_fd(), 4096, false).is_err());
        seal(unsealed.as_fd(), Rights::NONE).unwrap();
        assert!(map_shared(unsealed.as_fd(), 4096, false).is_ok());
        assert!(map_shared(unsealed.as_fd(), 8192, false).is_err());
    }

    /// Regions ask for reserved huge pages first, of which there are mostly none: what fails there must not take
    /// the memory of another thread with it.
    #[test]
    fn allocating_takes_nobody_elses_memory() {
        let options = |huge| RegionOptions { bytes: 4 << 20, remote: Rights::ALL, huge };
        std::thread::scope(|scope| {
            for fill in 1..=3u64 {
                scope.spawn(move || {
                    for round in 0..300 {
                        let region = Region::allocate(&options(fill != 1)).expect("there is memory");
                        let words = region.words();
                        for at in (0..region.bytes()).step_by(4096) {
                            words.store_word(at, fill << 32 | round, Ordering::Relaxed).expect("is ours");
                        }
                        for at in (0..region.bytes()).step_by(4096) {
                            assert_eq!(words.load_word(at, Ordering::Relaxed), Ok(fill << 32 | round));
                        }
                    }
                });
            }
        });
    }
}
