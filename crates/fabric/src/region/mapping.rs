//! Maps memory files, and memory of this process alone: the only place that calls `mmap`, `munmap` and `madvise`.
//!
//! A mapping is made whole or not at all, and its pages are there before it is used: a file
//! whose pages cannot be had gives an error here, never a SIGBUS later.
#![allow(unsafe_code)]

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// How much is faulted in at once: about 10 ms of work.
const POPULATED_AT_ONCE: usize = 16 << 20;

/// Alignment of a mapping that may use huge pages.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The shortest page there is.
const PAGE_BYTES_MIN: usize = 4 << 10;

/// A mapping of a memory file, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping is an address range that any thread may use; it has no thread of its own.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives away only the base and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the whole of a file of `bytes` bytes, shared, at a multiple of the huge page size
    /// where it is at least that long.
    pub(super) fn map(file: BorrowedFd<'_>, bytes: usize, writable: bool) -> Result<Self, Errno> {
        if bytes == 0 {
            return Err(Errno::INVAL);
        }
        let protection = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // First wherever the kernel likes: it aligns reserved huge pages by itself, and what cannot be had at all
        // (there are none) fails here, where nothing is replaced.
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)? };
        let there = Self { base: NonNull::new(base).ok_or(Errno::NOMEM)?, bytes };
        if bytes < HUGE_PAGE_BYTES || (base as usize).is_multiple_of(HUGE_PAGE_BYTES) {
            return Ok(there);
        }
        drop(there);
        // Reserve more than is needed, then put the file at an aligned place inside.
        let reserved_bytes = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(Errno::NOMEM)?;
        // SAFETY: a new inaccessible mapping at an address of the kernel's choice.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                reserved_bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let lead = (reserved as usize).next_multiple_of(HUGE_PAGE_BYTES) - reserved as usize;
        let aligned = reserved.wrapping_byte_add(lead);
        // SAFETY: `[aligned, aligned + bytes)` lies inside the range reserved just above, which
        // nobody else knows of, so that MAP_FIXED replaces only our own inaccessible pages.
        let base = unsafe {
            rustix::mm::mmap(aligned, bytes, protection, MapFlags::SHARED | MapFlags::FIXED, file, 0)
        };
        // SAFETY: the lead and the tail of the reservation belong to us and hold nothing. What lies between them
        // is left alone on an error: a mapping that fails has already removed what it was to replace, and by
        // now another thread's memory may be there.
        unsafe {
            if lead > 0 {
                rustix::mm::munmap(reserved, lead)?;
            }
            let tail = reserved_bytes - lead - bytes;
            if tail > 0 {
                rustix::mm::munmap(aligned.wrapping_byte_add(bytes), tail)?;
            }
        }
        base?;
        Ok(Self { base: NonNull::new(aligned).ok_or(Errno::NOMEM)?, bytes })
    }

    pub(super) fn base(&self) -> NonNull<c_void> {
        self.base
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks for transparent huge pages. Only advice: it may change nothing.
    pub(super) fn advise_huge(&self) -> Result<(), Errno> {
        // SAFETY: the range is ours; this advice changes how pages are had, not what they hold.
        unsafe { rustix::mm::madvise(self.base.as_ptr(), self.bytes, Advice::LinuxHugepage) }
    }

    /// Puts huge pages under every stretch of a new mapping that one can back, as far as there are any.
    ///
    /// Whether shared memory gets them by itself is the machine's setting, and mostly it is "never"; since Linux
    /// 6.1 a process may ask for them nevertheless. Random reads take half the time then, and to have the memory
    /// a quarter: one fault for 512 pages.
    pub(super) fn collapse(&self) -> Result<(), Errno> {
        for start in (0..self.bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES).step_by(HUGE_PAGE_BYTES) {
            // The kernel takes a stretch of which nothing is there for one that was cut off.
            // SAFETY: the range is ours, and lies inside the mapping; one page is faulted in, and no byte changes.
            let stretch = unsafe {
                let stretch = self.base.as_ptr().byte_add(start);
                rustix::mm::madvise(stretch, PAGE_BYTES_MIN, Advice::LinuxPopulateWrite)?;
                stretch
            };
            // SAFETY: as above; bytes that are there are copied, and the others are zero.
            if unsafe { libc::madvise(stretch, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE) } != 0 {
                return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
            }
        }
        Ok(())
    }

    /// Faults every page in now, so that a lack of memory is an error and not a signal.
    pub(super) fn populate(&self, writable: bool) -> Result<(), Errno> {
        let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        // In pieces: the kernel holds the process's address space meanwhile, and other threads, which
        // have leases to renew, may have to wait for it.
        for start in (0..self.bytes).step_by(POPULATED_AT_ONCE) {
            let bytes = POPULATED_AT_ONCE.min(self.bytes - start);
            // SAFETY: the range is ours; populating faults pages in and changes no byte.
            unsafe { rustix::mm::madvise(self.base.as_ptr().byte_add(start), bytes, advice) }?;
        }
        Ok(())
    }
}

/// Memory of this process alone, for much that is written and read from front to back: at a multiple of the page
/// size, and in huge pages where it is long and there are any, so that a device is shown few pages instead of many.
#[derive(Debug)]
pub struct PrivateMemory(Mapping);

impl PrivateMemory {
    /// So many zeros, or some more. As with `Vec`, a process that has no memory left ends.
    pub fn zeroed(bytes: usize) -> Self {
        let unit = if bytes >= HUGE_PAGE_BYTES / 2 { HUGE_PAGE_BYTES } else { rustix::param::page_size() };
        let bytes = bytes.max(1).next_multiple_of(unit);
        Self::map(bytes, unit).unwrap_or_else(|_| {
            std::alloc::handle_alloc_error(
                std::alloc::Layout::array::<u8>(bytes).unwrap_or(std::alloc::Layout::new::<u8>()),
            )
        })
    }

    fn map(bytes: usize, unit: usize) -> Result<Self, Errno> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let more = bytes.checked_add(unit).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), more, protection, flags)? };
        let lead = (base as usize).next_multiple_of(unit) - base as usize;
        let aligned = base.wrapping_byte_add(lead);
        // SAFETY: what lies before and behind the aligned part was mapped just above, and nobody knows of it.
        unsafe {
            if lead > 0 {
                rustix::mm::munmap(base, lead)?;
            }
            rustix::mm::munmap(aligned.wrapping_byte_add(bytes), unit - lead)?;
        }
        let mapping = Mapping { base: NonNull::new(aligned).ok_or(Errno::NOMEM)?, bytes };
        if unit == HUGE_PAGE_BYTES {
            // Without them it is slower, and nothing else.
            let _ = mapping.advise_huge();
        }
        Ok(Self(mapping))
    }
}

impl PrivateMemory {
    /// Asks the CPU to have the lines from `at` on, for so many bytes, when they will be stored to.
    #[inline]
    pub fn prefetch_for_store(&self, at: usize, bytes: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in (at..at + bytes).step_by(barn_layout::limits::LINE_BYTES) {
            super::vector::prefetch_for_store(self.0.base.as_ptr().cast::<u8>().wrapping_add(line));
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (at, bytes);
    }
}

impl std::ops::Deref for PrivateMemory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped, readable and initialised (zeros at first) for as long as `self` is there, and
        // changes only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.0.base.as_ptr().cast(), self.0.bytes) }
    }
}

impl std::ops::DerefMut for PrivateMemory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and nobody else has the range while `self` is borrowed for changes.
        unsafe { std::slice::from_raw_parts_mut(self.0.base.as_ptr().cast(), self.0.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and `Words` keeps this alive for as long as
        // anything can reach it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_zero_aligned_and_all_of_it_there() {
        for (bytes, unit) in
            [(0, 4096), (1, 4096), (5000, 4096), (1 << 20, HUGE_PAGE_BYTES), (5 << 20, HUGE_PAGE_BYTES)]
        {
            let mut memory = PrivateMemory::zeroed(bytes);
            assert!(memory.len() >= bytes.max(1) && memory.len() < bytes + 2 * HUGE_PAGE_BYTES);
            assert!((memory.as_ptr() as usize).is_multiple_of(unit));
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert_eq!((memory[0], memory[memory.len() - 1]), (7, 7));
        }
    }
}
