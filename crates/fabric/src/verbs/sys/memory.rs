//! Protection domains and registered memory.
#![allow(unsafe_code)]

use super::device::Device;
use super::not_made;
use crate::VerbsError;
use crate::region::{Rights, Words};
use rdma_mummy_sys as ffi;
use rustix::io::Errno;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// What belongs together: a queue pair reaches memory of its own domain only.
#[derive(Debug)]
pub(crate) struct ProtectionDomain {
    pub(super) domain: NonNull<ffi::ibv_pd>,
    pub(super) device: Arc<Device>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    pub(crate) fn new(device: &Arc<Device>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: the device is open, and kept so by the Arc.
        let domain = NonNull::new(unsafe { ffi::ibv_alloc_pd(device.context.as_ptr()) })
            .ok_or_else(|| not_made("protection domain"))?;
        Ok(Arc::new(Self { domain, device: device.clone() }))
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once; whatever was made in it holds an Arc on it.
        unsafe { ffi::ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

/// Who may do what with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u32);

impl Access {
    /// This process's own requests alone.
    pub(crate) const LOCAL: Self = Self(ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0);
    /// A peer may write, too.
    pub(crate) const WRITTEN_BY_PEER: Self =
        Self(Self::LOCAL.0 | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0);

    /// A peer may do what it was granted.
    pub(crate) fn granted(rights: Rights) -> Self {
        let mut bits = 0;
        for (right, flag) in [
            (Rights::READ, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ),
            (Rights::WRITE, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE),
            (Rights::ATOMIC, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC),
        ] {
            bits |= if rights.contains(right) { flag.0 } else { 0 };
        }
        // Who may change bytes from afar must be able to do so from here: the library asks for it.
        Self(if rights.changes() { bits | Self::LOCAL.0 } else { bits })
    }
}

/// Memory that a device may reach. Deregistered when dropped: from then on nothing under its key
/// succeeds.
#[derive(Debug)]
pub(crate) struct MemoryRegion {
    region: NonNull<ffi::ibv_mr>,
    words: Words,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs' objects may be used from any thread; the words are atomics.
unsafe impl Send for MemoryRegion {}
// SAFETY: as above.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// Registers all of `words`.
    pub(crate) fn register(
        domain: &Arc<ProtectionDomain>,
        words: &Words,
        access: Access,
    ) -> Result<Self, VerbsError> {
        // SAFETY: the words are `bytes()` long and are kept alive by the clone below, which is
        // dropped only after the memory was deregistered. What a device writes there races with
        // atomic loads only, for no reference to the bytes exists.
        let region = unsafe {
            ffi::ibv_reg_mr(
                domain.domain.as_ptr(),
                words.address().cast().as_ptr(),
                words.bytes(),
                access.0 as i32,
            )
        };
        let region = NonNull::new(region).ok_or_else(|| {
            let cause = io::Error::last_os_error();
            match Errno::from_io_error(&cause) {
                Some(Errno::NOMEM | Errno::PERM) => VerbsError::MemoryLocked { bytes: words.bytes() },
                _ => VerbsError::Step { step: "ibv_reg_mr", cause },
            }
        })?;
        Ok(Self { region, words: words.clone(), _domain: domain.clone() })
    }

    /// The bytes.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    /// Where they are, as a peer has to name it.
    pub(crate) fn address(&self) -> u64 {
        self.words.address().addr().get() as u64
    }

    /// The key by which a peer reaches them.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: the struct lives until `drop`, and its key never changes.
        unsafe { self.region.as_ref() }.rkey
    }

    /// The key by which this process's own requests reach them.
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.region.as_ref() }.lkey
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: registered by `register`, deregistered once; the words live on until the
        // fields are dropped, after this.
        let failed = unsafe { ffi::ibv_dereg_mr(self.region.as_ptr()) };
        // Only memory windows can be in the way, and there are none.
        debug_assert_eq!(failed, 0, "memory could not be deregistered");
    }
}
