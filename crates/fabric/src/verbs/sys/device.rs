//! Devices: which there are, and what their ports and GIDs are.
#![allow(unsafe_code)]

use super::check;
use crate::VerbsError;
use rdma_mummy_sys as ffi;
use rustix::io::Errno;
use std::ffi::{CStr, c_int};
use std::io;
use std::ptr::NonNull;

/// A device that is open. Closed when the last object made from it is gone.
#[derive(Debug)]
pub(crate) struct Device {
    pub(super) context: NonNull<ffi::ibv_context>,
    pub(crate) name: String,
    /// Ports, counted from 1.
    pub(crate) ports: u8,
    /// Queue pairs that it can have.
    pub(crate) queue_pairs_max: usize,
    /// Entries that a completion queue can have.
    pub(crate) entries_max: usize,
    /// Requests that a queue pair can hold.
    pub(crate) requests_max: usize,
    /// READs and atomics that one queue pair may have on their way, and take.
    pub(crate) reads_max: u8,
    /// The longest memory that can be registered at once.
    pub(crate) region_bytes_max: u64,
    /// Whether atomics are atomic at all.
    pub(crate) has_atomics: bool,
}

// SAFETY: libibverbs' objects may be used from any thread (its manual: "the library is fully
// thread-safe").
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// One port of a device.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) active: bool,
    /// The path MTU as the wire has it: 1 is 256 bytes, 5 is 4096.
    pub(crate) mtu: u8,
    pub(crate) lid: u16,
    pub(crate) ethernet: bool,
    pub(crate) gids: Vec<Gid>,
}

/// What a GID stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GidKind {
    InfiniBand,
    RoceV1,
    RoceV2,
}

/// An entry of a port's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gid {
    pub(crate) index: u8,
    pub(crate) bytes: [u8; 16],
    pub(crate) kind: GidKind,
}

/// The list that the library gives, freed when dropped.
struct List {
    devices: NonNull<*mut ffi::ibv_device>,
    count: usize,
}

impl List {
    fn get() -> Result<Self, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: the call only writes the count; the list it gives is freed in `drop`.
        let devices = unsafe { ffi::ibv_get_device_list(&mut count) };
        let Some(devices) = NonNull::new(devices) else {
            let cause = io::Error::last_os_error();
            return Err(match Errno::from_io_error(&cause) {
                // What the loader says when there is no library, and the library when there is
                // nothing in the kernel.
                Some(Errno::OPNOTSUPP) => VerbsError::NoLibrary,
                Some(Errno::NOSYS | Errno::NOENT) => VerbsError::NoModule,
                _ => VerbsError::Step { step: "ibv_get_device_list", cause },
            });
        };
        let list = Self { devices, count: usize::try_from(count).unwrap_or(0) };
        if list.count == 0 { Err(VerbsError::NoDevice) } else { Ok(list) }
    }

    fn device(&self, index: usize) -> *mut ffi::ibv_device {
        assert!(index < self.count);
        // SAFETY: the list has `count` entries, and lives as long as `self`.
        unsafe { *self.devices.add(index).as_ref() }
    }

    fn name(&self, index: usize) -> String {
        // SAFETY: the device is in the list, which lives; its name ends with a zero and lives as
        // long as the device. It is copied at once.
        unsafe { CStr::from_ptr(ffi::ibv_get_device_name(self.device(index))) }.to_string_lossy().into_owned()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from `ibv_get_device_list` and is freed once.
        unsafe { ffi::ibv_free_device_list(self.devices.as_ptr()) };
    }
}

/// The names of all devices; an error says why there are none.
pub(crate) fn device_names() -> Result<Vec<String>, VerbsError> {
    let list = List::get()?;
    Ok((0..list.count).map(|index| list.name(index)).collect())
}

impl Device {
    /// Opens the device of that name.
    pub(crate) fn open(name: &str) -> Result<Self, VerbsError> {
        let list = List::get()?;
        let names: Vec<String> = (0..list.count).map(|index| list.name(index)).collect();
        let index = names
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| VerbsError::NoSuchDevice { asked: name.to_string(), found: names.join(", ") })?;
        // SAFETY: the device is in the list, which lives until the context is made.
        let context = NonNull::new(unsafe { ffi::ibv_open_device(list.device(index)) })
            .ok_or_else(|| VerbsError::Step { step: "ibv_open_device", cause: io::Error::last_os_error() })?;
        let mut device = Self {
            context,
            name: name.to_string(),
            ports: 0,
            queue_pairs_max: 0,
            entries_max: 0,
            requests_max: 0,
            reads_max: 1,
            region_bytes_max: 0,
            has_atomics: false,
        };
        // SAFETY: all-zero is a value of this plain struct.
        let mut found: ffi::ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; the call fills the struct.
        check("ibv_query_device", unsafe { ffi::ibv_query_device(context.as_ptr(), &mut found) })?;
        let positive = |value: c_int| usize::try_from(value).unwrap_or(0);
        device.ports = found.phys_port_cnt;
        device.queue_pairs_max = positive(found.max_qp);
        device.entries_max = positive(found.max_cqe);
        device.requests_max = positive(found.max_qp_wr);
        device.reads_max = positive(found.max_qp_rd_atom.min(found.max_qp_init_rd_atom)).clamp(1, 64) as u8;
        device.region_bytes_max = found.max_mr_size;
        device.has_atomics = found.atomic_cap != ffi::ibv_atomic_cap::IBV_ATOMIC_NONE;
        Ok(device)
    }

    /// What a port is now.
    pub(crate) fn port(&self, number: u8) -> Result<Port, VerbsError> {
        // SAFETY: all-zero is a value of this plain struct.
        let mut found: ffi::ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; the call fills the struct.
        let queried = unsafe { ffi::ibv_query_port(self.context.as_ptr(), number, &mut found) };
        check("ibv_query_port", queried)?;
        // The index is one byte in a queue pair's attributes.
        let length = found.gid_tbl_len.clamp(0, 256) as u32;
        Ok(Port {
            active: found.state == ffi::ibv_port_state::IBV_PORT_ACTIVE,
            mtu: (found.active_mtu as u8).clamp(1, 5),
            lid: found.lid,
            ethernet: u32::from(found.link_layer) == LINK_LAYER_ETHERNET,
            gids: (0..length).filter_map(|index| self.gid(number, index)).collect(),
        })
    }

    fn gid(&self, port: u8, index: u32) -> Option<Gid> {
        // SAFETY: all-zero is a value of this plain struct.
        let mut found: ffi::ibv_gid_entry = unsafe { std::mem::zeroed() };
        // SAFETY: the context is open; the call fills the struct, or says that the entry is empty.
        let queried =
            unsafe { ffi::ibv_query_gid_ex(self.context.as_ptr(), u32::from(port), index, &mut found, 0) };
        let kind = match found.gid_type {
            ffi::IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            ffi::IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            _ => GidKind::InfiniBand,
        };
        // SAFETY: both fields of the union are the same 16 bytes.
        let bytes = unsafe { found.gid.raw };
        (queried == 0 && bytes != [0; 16]).then_some(Gid { index: index as u8, bytes, kind })
    }

    /// Whether the device is gone, or is about to be: looks at its events without waiting.
    /// The device's descriptor must not block, which [`Device::hush`] sees to.
    pub(crate) fn has_failed(&self) -> bool {
        let mut failed = false;
        loop {
            // SAFETY: all-zero is a value of this struct: a null pointer and a number.
            let mut event: ffi::ibv_async_event = unsafe { std::mem::zeroed() };
            // SAFETY: the context is open; the call fills the struct or says that there is none.
            if unsafe { ffi::ibv_get_async_event(self.context.as_ptr(), &mut event) } != 0 {
                return failed;
            }
            failed |= event.event_type == ffi::ibv_event_type::IBV_EVENT_DEVICE_FATAL;
            // SAFETY: the event came from the call above and is acknowledged once, before any
            // object that it names can be destroyed by this thread.
            unsafe { ffi::ibv_ack_async_event(&mut event) };
        }
    }

    /// The descriptor on which the device tells of its end, made non-blocking.
    pub(crate) fn hush(&self) -> Result<rustix::fd::OwnedFd, VerbsError> {
        // SAFETY: the context is open, and with it its descriptor; it is duplicated at once.
        let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(self.context.as_ref().async_fd) };
        duplicate("the device's events", borrowed)
    }
}

/// A descriptor of our own on the library's, made non-blocking.
pub(super) fn duplicate(
    step: &'static str,
    of: rustix::fd::BorrowedFd<'_>,
) -> Result<rustix::fd::OwnedFd, VerbsError> {
    let failed = |errno: Errno| VerbsError::Step { step, cause: errno.into() };
    let own = rustix::io::fcntl_dupfd_cloexec(of, 0).map_err(failed)?;
    let flags = rustix::fs::fcntl_getfl(&own).map_err(failed)?;
    rustix::fs::fcntl_setfl(&own, flags | rustix::fs::OFlags::NONBLOCK).map_err(failed)?;
    Ok(own)
}

/// `IBV_LINK_LAYER_ETHERNET`.
const LINK_LAYER_ETHERNET: u32 = 2;

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, closed once, and every object made from it keeps an Arc on
        // it, so that none is left.
        unsafe { ffi::ibv_close_device(self.context.as_ptr()) };
    }
}
