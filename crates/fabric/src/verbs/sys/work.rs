//! Work requests: what is posted, and from where.
#![allow(unsafe_code)]

use super::memory::MemoryRegion;
use super::queue_pair::AddressHandle;
use rdma_mummy_sys as ffi;

/// A part of registered memory of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local<'a> {
    memory: &'a MemoryRegion,
    offset: u64,
    bytes: u32,
}

impl<'a> Local<'a> {
    /// `bytes` from `offset`; nothing if that is not inside the memory.
    pub(crate) fn of(memory: &'a MemoryRegion, offset: u64, bytes: usize) -> Option<Self> {
        let end = offset.checked_add(bytes as u64)?;
        let fits = end <= memory.words().bytes() as u64;
        fits.then_some(Self { memory, offset, bytes: u32::try_from(bytes).ok()? })
    }

    pub(super) fn entry(&self) -> ffi::ibv_sge {
        ffi::ibv_sge {
            addr: self.memory.address() + self.offset,
            length: self.bytes,
            lkey: self.memory.local_key(),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb<'a> {
    Read,
    Write,
    /// A WRITE that the peer is told of.
    WriteTelling {
        immediate: u32,
    },
    CompareSwap {
        expected: u64,
        new: u64,
    },
    FetchAdd {
        add: u64,
    },
    /// A datagram.
    Send {
        to: &'a AddressHandle,
        queue_pair: u32,
        key: u32,
    },
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    /// What its completion is known by.
    pub(crate) id: u64,
    pub(crate) verb: Verb<'a>,
    /// From where, or to where; nothing for an empty one.
    pub(crate) local: Option<Local<'a>>,
    /// Where at the peer...
    pub(crate) address: u64,
    /// ...and by which key.
    pub(crate) key: u32,
    /// Whether it has a completion of its own.
    pub(crate) signalled: bool,
    /// Whether its bytes are taken at once.
    pub(crate) inline: bool,
}

impl Work<'_> {
    /// The request as the library has it; `entry` and `next` are pointed to.
    #[inline(always)]
    pub(super) fn request(&self, entry: *mut ffi::ibv_sge, next: *mut ffi::ibv_send_wr) -> ffi::ibv_send_wr {
        use ffi::ibv_send_flags as flag;
        use ffi::ibv_wr_opcode as opcode;
        // What the peer is told of wakes it also where it sleeps until somebody speaks to it.
        let tells = matches!(self.verb, Verb::WriteTelling { .. } | Verb::Send { .. });
        let mut flags = 0;
        for (set, bit) in [
            (self.signalled, flag::IBV_SEND_SIGNALED),
            (self.inline, flag::IBV_SEND_INLINE),
            (tells, flag::IBV_SEND_SOLICITED),
        ] {
            flags |= if set { bit.0 } else { 0 };
        }
        // SAFETY: all-zero is a value of this plain struct: null pointers and numbers.
        let mut request: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = self.id;
        request.next = next;
        request.sg_list = entry;
        request.num_sge = i32::from(self.local.is_some());
        request.send_flags = flags;
        let (rdma, atomic) =
            (ffi::rdma_t { remote_addr: self.address, rkey: self.key }, |compare_add, swap| ffi::atomic_t {
                remote_addr: self.address,
                compare_add,
                swap,
                rkey: self.key,
            });
        match self.verb {
            Verb::Read => {
                request.opcode = opcode::IBV_WR_RDMA_READ;
                request.wr.rdma = rdma;
            }
            Verb::Write => {
                request.opcode = opcode::IBV_WR_RDMA_WRITE;
                request.wr.rdma = rdma;
            }
            Verb::WriteTelling { immediate } => {
                request.opcode = opcode::IBV_WR_RDMA_WRITE_WITH_IMM;
                request.imm_data_invalidated_rkey_union.imm_data = immediate.to_be();
                request.wr.rdma = rdma;
            }
            Verb::CompareSwap { expected, new } => {
                request.opcode = opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                request.wr.atomic = atomic(expected, new);
            }
            Verb::FetchAdd { add } => {
                request.opcode = opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                request.wr.atomic = atomic(add, 0);
            }
            Verb::Send { to, queue_pair, key } => {
                request.opcode = opcode::IBV_WR_SEND;
                request.wr.ud =
                    ffi::ud_t { ah: to.handle.as_ptr(), remote_qpn: queue_pair, remote_qkey: key };
            }
        }
        request
    }
}

/// A place for what is to come: none where only news of a WRITE is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive<'a> {
    pub(crate) id: u64,
    pub(crate) local: Option<Local<'a>>,
}
