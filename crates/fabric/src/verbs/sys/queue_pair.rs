//! Queue pairs and address handles.
#![allow(unsafe_code)]

use super::completion::CompletionQueue;
use super::memory::ProtectionDomain;
use super::work::{Receive, Work};
use super::{check, not_made};
use crate::VerbsError;
use rdma_mummy_sys as ffi;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// What a queue pair offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RC: everything, in order, acknowledged.
    Reliable,
    /// UC: WRITEs, which may be lost.
    Unreliable,
    /// UD: datagrams to anybody, which may be lost.
    Datagram,
}

/// How much a queue pair holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) requests: usize,
    pub(crate) receives: usize,
    /// The most that is wanted; the device may offer less.
    pub(crate) inline_bytes: usize,
}

/// The other end of a queue pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) queue_pair: u32,
    /// The number of the first packet that it sends...
    pub(crate) packet: u32,
    pub(crate) gid: [u8; 16],
    pub(crate) lid: u16,
    /// The path MTU as the wire has it.
    pub(crate) mtu: u8,
    /// READs and atomics on their way at a time, each way.
    pub(crate) reads: u8,
}

/// A queue pair. Destroyed when dropped: what is under way is given up.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pair: NonNull<ffi::ibv_qp>,
    kind: Kind,
    port: u8,
    gid_index: u8,
    /// Bytes that a request may carry in itself.
    pub(crate) inline_bytes: usize,
    _queue: Arc<CompletionQueue>,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

/// Requests that go out in one call.
const LIST: usize = 32;

/// 2^16 times 4 µs, a quarter of a second, seven times: a peer's end is heard of earlier, from the
/// control stream; a host that is merely slow should not be taken for gone.
const ACK_TIMEOUT: u8 = 16;
const RETRIES: u8 = 7;
/// For ever: a peer that does not take its messages is sent away by other means.
const RETRIES_NOT_READY: u8 = 7;
/// The shortest pause, 10 µs, before a peer that had no receive posted is tried again.
const NOT_READY_TIMER: u8 = 1;
const HOPS_MAX: u8 = 64;

impl QueuePair {
    pub(crate) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        kind: Kind,
        (port, gid_index): (u8, u8),
        room: Room,
    ) -> Result<Self, VerbsError> {
        assert!(Arc::ptr_eq(&domain.device, &queue.device), "domain and queue of one device");
        // There is no asking how much fits into a request: less is tried until it does.
        let mut inline_bytes = room.inline_bytes;
        let pair = loop {
            // SAFETY: all-zero is a value of this plain struct: null pointers and numbers.
            let mut wanted: ffi::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
            wanted.send_cq = queue.queue.as_ptr();
            wanted.recv_cq = queue.queue.as_ptr();
            wanted.qp_type = match kind {
                Kind::Reliable => ffi::ibv_qp_type::IBV_QPT_RC,
                Kind::Unreliable => ffi::ibv_qp_type::IBV_QPT_UC,
                Kind::Datagram => ffi::ibv_qp_type::IBV_QPT_UD,
            };
            wanted.cap = ffi::ibv_qp_cap {
                max_send_wr: room.requests.max(1) as u32,
                max_recv_wr: room.receives.max(1) as u32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: inline_bytes as u32,
            };
            // SAFETY: domain and queue live, and are kept alive by the Arcs below.
            match NonNull::new(unsafe { ffi::ibv_create_qp(domain.domain.as_ptr(), &mut wanted) }) {
                Some(pair) => break pair,
                None if inline_bytes > 0 => inline_bytes /= 2,
                None => return Err(not_made("queue pair")),
            }
        };
        let made =
            Self { pair, kind, port, gid_index, inline_bytes, _queue: queue.clone(), domain: domain.clone() };
        Ok(made)
    }

    /// Its number, by which a peer reaches it.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the struct lives until `drop`, and the number never changes.
        unsafe { self.pair.as_ref() }.qp_num
    }

    fn modify(
        &self,
        step: &'static str,
        change: &mut ffi::ibv_qp_attr,
        mask: ffi::ibv_qp_attr_mask,
    ) -> Result<(), VerbsError> {
        // SAFETY: the pair lives; the struct is read only as far as the mask says.
        check(step, unsafe { ffi::ibv_modify_qp(self.pair.as_ptr(), change, mask.0 as i32) })
    }

    /// Makes it ready to be connected: receives can be posted from here on. `key`: of datagrams.
    pub(crate) fn initialise(&self, key: u32) -> Result<(), VerbsError> {
        use ffi::ibv_access_flags as access;
        use ffi::ibv_qp_attr_mask as mask;
        let mut change = zeroed();
        change.qp_state = ffi::ibv_qp_state::IBV_QPS_INIT;
        change.port_num = self.port;
        change.qkey = key;
        let all = access::IBV_ACCESS_REMOTE_READ.0
            | access::IBV_ACCESS_REMOTE_WRITE.0
            | access::IBV_ACCESS_REMOTE_ATOMIC.0;
        let own = match self.kind {
            Kind::Datagram => mask::IBV_QP_QKEY,
            // What the memory's own registration allows; this is only the most of it.
            Kind::Reliable => {
                change.qp_access_flags = all;
                mask::IBV_QP_ACCESS_FLAGS
            }
            Kind::Unreliable => {
                change.qp_access_flags = access::IBV_ACCESS_REMOTE_WRITE.0;
                mask::IBV_QP_ACCESS_FLAGS
            }
        };
        let changed = mask::IBV_QP_STATE | mask::IBV_QP_PKEY_INDEX | mask::IBV_QP_PORT | own;
        self.modify("initialising a queue pair", &mut change, changed)
    }

    /// Connects it: from here on it receives and sends. `packet`: the number of the first packet
    /// that it sends.
    pub(crate) fn connect(&self, remote: Option<&Remote>, packet: u32) -> Result<(), VerbsError> {
        use ffi::ibv_qp_attr_mask as mask;
        let mut change = zeroed();
        change.qp_state = ffi::ibv_qp_state::IBV_QPS_RTR;
        let mut changed = mask::IBV_QP_STATE;
        if let Some(remote) = remote {
            change.path_mtu = u32::from(remote.mtu);
            change.dest_qp_num = remote.queue_pair;
            change.rq_psn = remote.packet;
            change.ah_attr = self.route(remote.gid, remote.lid);
            changed = changed
                | mask::IBV_QP_AV
                | mask::IBV_QP_PATH_MTU
                | mask::IBV_QP_DEST_QPN
                | mask::IBV_QP_RQ_PSN;
            if self.kind == Kind::Reliable {
                change.max_dest_rd_atomic = remote.reads;
                change.min_rnr_timer = NOT_READY_TIMER;
                changed = changed | mask::IBV_QP_MAX_DEST_RD_ATOMIC | mask::IBV_QP_MIN_RNR_TIMER;
            }
        }
        self.modify("connecting a queue pair", &mut change, changed)?;
        change.qp_state = ffi::ibv_qp_state::IBV_QPS_RTS;
        change.sq_psn = packet;
        let mut changed = mask::IBV_QP_STATE | mask::IBV_QP_SQ_PSN;
        if let (Kind::Reliable, Some(remote)) = (self.kind, remote) {
            change.timeout = ACK_TIMEOUT;
            change.retry_cnt = RETRIES;
            change.rnr_retry = RETRIES_NOT_READY;
            change.max_rd_atomic = remote.reads;
            changed = changed
                | mask::IBV_QP_TIMEOUT
                | mask::IBV_QP_RETRY_CNT
                | mask::IBV_QP_RNR_RETRY
                | mask::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify("starting a queue pair", &mut change, changed)
    }

    fn route(&self, gid: [u8; 16], lid: u16) -> ffi::ibv_ah_attr {
        route(gid, lid, self.port, self.gid_index)
    }

    /// Whom datagrams from this pair go to.
    pub(crate) fn address(&self, gid: [u8; 16], lid: u16) -> Result<AddressHandle, VerbsError> {
        let mut route = self.route(gid, lid);
        // SAFETY: the domain lives, and is kept alive by the Arc; the struct is only read.
        let handle = unsafe { ffi::ibv_create_ah(self.domain.domain.as_ptr(), &mut route) };
        let handle = NonNull::new(handle).ok_or_else(|| not_made("address handle"))?;
        Ok(AddressHandle { handle, _domain: self.domain.clone() })
    }

    /// Posts requests, in order, [`LIST`] of them with one doorbell. The caller has seen to it
    /// that there is room.
    pub(crate) fn post<'a>(&self, work: impl IntoIterator<Item = Work<'a>>) -> Result<(), VerbsError> {
        let mut work = work.into_iter();
        loop {
            let mut entries = [const { MaybeUninit::<ffi::ibv_sge>::uninit() }; LIST];
            let mut requests = [const { MaybeUninit::<ffi::ibv_send_wr>::uninit() }; LIST];
            let mut count = 0;
            while count < LIST
                && let Some(work) = work.next()
            {
                if let Some(local) = &work.local {
                    entries[count].write(local.entry());
                }
                let request = work.request(entries[count].as_mut_ptr(), std::ptr::null_mut());
                requests[count].write(request);
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            let base = requests.as_mut_ptr().cast::<ffi::ibv_send_wr>();
            for index in 1..count {
                // SAFETY: both are among the `count` requests that were written above.
                unsafe { (*base.add(index - 1)).next = base.add(index) };
            }
            let mut bad = std::ptr::null_mut();
            // SAFETY: the pair lives; the list is `count` requests, each with an entry of its
            // own that names registered memory, which `Local` keeps borrowed until the call has
            // returned: bytes that are taken inline are there. Later the device reaches them
            // through their registration or not at all.
            let failed = unsafe { ffi::ibv_post_send(self.pair.as_ptr(), base, &mut bad) };
            check("ibv_post_send", failed)?;
        }
    }

    /// Posts one request.
    #[inline]
    pub(crate) fn post_one(&self, work: &Work<'_>) -> Result<(), VerbsError> {
        let mut entry = MaybeUninit::<ffi::ibv_sge>::uninit();
        if let Some(local) = &work.local {
            entry.write(local.entry());
        }
        let mut request = work.request(entry.as_mut_ptr(), std::ptr::null_mut());
        let mut bad = std::ptr::null_mut();
        // SAFETY: as in `post`: the pair lives, and the request and its entry until the call has returned.
        let failed = unsafe { ffi::ibv_post_send(self.pair.as_ptr(), &mut request, &mut bad) };
        check("ibv_post_send", failed)
    }

    /// Posts places for what is to come.
    pub(crate) fn post_receives<'a>(
        &self,
        receives: impl IntoIterator<Item = Receive<'a>>,
    ) -> Result<(), VerbsError> {
        for receive in receives {
            let mut entry = receive.local.map(|local| local.entry());
            let list = entry.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
            let mut request = ffi::ibv_recv_wr {
                wr_id: receive.id,
                next: std::ptr::null_mut(),
                sg_list: list,
                num_sge: i32::from(receive.local.is_some()),
            };
            let mut bad = std::ptr::null_mut();
            // SAFETY: the pair lives; the request and its entry live until the call has returned,
            // and name registered memory or none.
            let failed = unsafe { ffi::ibv_post_recv(self.pair.as_ptr(), &mut request, &mut bad) };
            check("ibv_post_recv", failed)?;
        }
        Ok(())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once; nothing else holds the pointer.
        unsafe { ffi::ibv_destroy_qp(self.pair.as_ptr()) };
    }
}

/// The way to another host's datagrams.
#[derive(Debug)]
pub(crate) struct AddressHandle {
    pub(super) handle: NonNull<ffi::ibv_ah>,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs' objects may be used from any thread.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: made by `QueuePair::address`, destroyed once.
        unsafe { ffi::ibv_destroy_ah(self.handle.as_ptr()) };
    }
}

fn zeroed() -> ffi::ibv_qp_attr {
    // SAFETY: all-zero is a value of this plain struct: numbers alone.
    unsafe { std::mem::zeroed() }
}

fn route(gid: [u8; 16], lid: u16, port: u8, gid_index: u8) -> ffi::ibv_ah_attr {
    ffi::ibv_ah_attr {
        grh: ffi::ibv_global_route {
            dgid: ffi::ibv_gid { raw: gid },
            flow_label: 0,
            sgid_index: gid_index,
            hop_limit: HOPS_MAX,
            traffic_class: 0,
        },
        dlid: lid,
        sl: 0,
        src_path_bits: 0,
        static_rate: 0,
        is_global: 1,
        port_num: port,
    }
}
