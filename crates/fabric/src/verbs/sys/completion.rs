//! Completion queues, and the channel that wakes whoever sleeps.
#![allow(unsafe_code)]

use super::device::{Device, duplicate};
use super::{check, not_made};
use crate::VerbsError;
use rdma_mummy_sys as ffi;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The peer does not let us: the key is revoked, or was never ours.
    Refused,
    /// The queue pair had failed before: it was not carried out, or nobody knows.
    Flushed,
    /// The peer does not answer any more.
    Silent,
    /// Anything else, by the library's number.
    Failed(u32),
}

/// What was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// A request of ours; after an error nothing more is known of it.
    Ours,
    /// A datagram or message came.
    Received { bytes: usize, from: u32 },
    /// A WRITE with immediate data came.
    Written { immediate: u32 },
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) id: u64,
    pub(crate) status: Status,
    pub(crate) what: Completed,
}

/// Where completions arrive. Each queue has a channel: a descriptor that becomes readable once
/// after it was asked to.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    pub(super) queue: NonNull<ffi::ibv_cq>,
    channel: NonNull<ffi::ibv_comp_channel>,
    descriptor: Arc<OwnedFd>,
    pub(super) device: Arc<Device>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

/// Completions that one look takes.
pub(crate) const COMPLETIONS: usize = 32;

impl CompletionQueue {
    /// A queue for `entries` completions. More than it has room for break it: whoever posts
    /// counts.
    pub(crate) fn new(device: &Arc<Device>, entries: usize) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: the device is open, and kept so by the Arc.
        let channel = NonNull::new(unsafe { ffi::ibv_create_comp_channel(device.context.as_ptr()) })
            .ok_or_else(|| not_made("completion channel"))?;
        let free_channel = || {
            // SAFETY: made above, and nothing uses it.
            unsafe { ffi::ibv_destroy_comp_channel(channel.as_ptr()) };
        };
        // SAFETY: the channel is open, and with it its descriptor; it is duplicated at once.
        let borrowed = unsafe { BorrowedFd::borrow_raw(channel.as_ref().fd) };
        let descriptor = duplicate("the completion channel", borrowed).inspect_err(|_| free_channel())?;
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: device and channel are open; the queue's context pointer is never used.
        let queue = unsafe {
            ffi::ibv_create_cq(device.context.as_ptr(), entries, std::ptr::null_mut(), channel.as_ptr(), 0)
        };
        let queue = NonNull::new(queue).ok_or_else(|| {
            let error = not_made("completion queue");
            free_channel();
            error
        })?;
        Ok(Arc::new(Self { queue, channel, descriptor: Arc::new(descriptor), device: device.clone() }))
    }

    /// The descriptor to sleep on, after [`Self::notify`].
    pub(crate) fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.descriptor
    }

    /// Takes completions, at most [`COMPLETIONS`] of them; says how many.
    pub(crate) fn poll(&self, mut take: impl FnMut(Completion)) -> Result<usize, VerbsError> {
        let mut entries = [const { MaybeUninit::<ffi::ibv_wc>::uninit() }; COMPLETIONS];
        // SAFETY: the queue lives; the array has room for COMPLETIONS entries, of which the call fills
        // as many as it says.
        let count =
            unsafe { ffi::ibv_poll_cq(self.queue.as_ptr(), COMPLETIONS as i32, entries.as_mut_ptr().cast()) };
        let Ok(count) = usize::try_from(count) else { return Err(not_polled()) };
        for entry in &entries[..count.min(COMPLETIONS)] {
            // SAFETY: the first `count` entries were filled in.
            take(read(unsafe { entry.assume_init_ref() }));
        }
        Ok(count)
    }

    /// Takes one completion, if there is one.
    #[inline]
    pub(crate) fn poll_one(&self) -> Result<Option<Completion>, VerbsError> {
        let mut entry = MaybeUninit::<ffi::ibv_wc>::uninit();
        // SAFETY: the queue lives; there is room for one entry, which the call fills if it says so.
        match unsafe { ffi::ibv_poll_cq(self.queue.as_ptr(), 1, entry.as_mut_ptr()) } {
            0 => Ok(None),
            // SAFETY: it was filled in.
            1 => Ok(Some(read(unsafe { entry.assume_init_ref() }))),
            _ => Err(not_polled()),
        }
    }

    /// Asks for the descriptor to become readable at the next completion. Whatever came before
    /// is not told: look once more afterwards.
    ///
    /// With `told_only` at the next that the peer tells of: not when something of our own is done.
    pub(crate) fn notify(&self, told_only: bool) -> Result<(), VerbsError> {
        // SAFETY: the queue lives.
        let failed = unsafe { ffi::ibv_req_notify_cq(self.queue.as_ptr(), i32::from(told_only)) };
        check("ibv_req_notify_cq", failed)
    }

    /// Silences the descriptor.
    pub(crate) fn take_events(&self) {
        let (mut queue, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel lives, and its descriptor does not block: the call fills both
        // pointers or fails.
        while unsafe { ffi::ibv_get_cq_event(self.channel.as_ptr(), &mut queue, &mut context) } == 0 {
            // SAFETY: the event was of this queue, the channel's only one.
            unsafe { ffi::ibv_ack_cq_events(queue, 1) };
        }
    }
}

#[cold]
fn not_polled() -> VerbsError {
    VerbsError::Step { step: "ibv_poll_cq", cause: std::io::ErrorKind::BrokenPipe.into() }
}

fn read(entry: &ffi::ibv_wc) -> Completion {
    use ffi::ibv_wc_opcode as opcode;
    use ffi::ibv_wc_status as status;
    let what = match entry.opcode {
        opcode::IBV_WC_RECV => Completed::Received { bytes: entry.byte_len as usize, from: entry.src_qp },
        opcode::IBV_WC_RECV_RDMA_WITH_IMM => {
            // SAFETY: both fields of the union are the same 32 bits.
            let immediate = unsafe { entry.imm_data_invalidated_rkey_union.imm_data };
            Completed::Written { immediate: u32::from_be(immediate) }
        }
        _ => Completed::Ours,
    };
    let status = match entry.status {
        status::IBV_WC_SUCCESS => Status::Done,
        status::IBV_WC_REM_ACCESS_ERR | status::IBV_WC_REM_INV_REQ_ERR | status::IBV_WC_REM_OP_ERR => {
            Status::Refused
        }
        status::IBV_WC_WR_FLUSH_ERR => Status::Flushed,
        status::IBV_WC_RETRY_EXC_ERR | status::IBV_WC_RNR_RETRY_EXC_ERR => Status::Silent,
        other => Status::Failed(other),
    };
    // After an error only the id and the status mean anything.
    let what = if status == Status::Done { what } else { Completed::Ours };
    Completion { id: entry.wr_id, status, what }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: queue and channel were made by `new` and are destroyed once, in this order;
        // queue pairs hold an Arc on the queue. Every event that was taken was acknowledged, so
        // that this does not wait for one.
        unsafe {
            ffi::ibv_destroy_cq(self.queue.as_ptr());
            ffi::ibv_destroy_comp_channel(self.channel.as_ptr());
        }
    }
}
