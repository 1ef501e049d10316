//! Why there are no verbs, each with what to do next. Part of every build: one without the
//! transport says so in the same words' place.

use std::fmt;
use std::io;
use std::net::IpAddr;

/// Why something could not be done by RDMA verbs.
#[derive(Debug)]
pub enum VerbsError {
    /// This program was built without the transport.
    NotBuilt,
    /// libibverbs is not installed.
    NoLibrary,
    /// The kernel offers no verbs.
    NoModule,
    /// There is no device.
    NoDevice,
    /// There is no device of that name, or no such port or GID of it.
    NoSuchDevice {
        /// What was asked for.
        asked: String,
        /// The devices that there are.
        found: String,
    },
    /// No device has this address among its GIDs.
    NoAddress {
        /// The local address of the connection.
        address: IpAddr,
    },
    /// A device's name, port and GID are written in another way.
    Syntax {
        /// What was written.
        asked: String,
    },
    /// The node does not offer verbs.
    NotOffered,
    /// More memory would be pinned than this process may.
    MemoryLocked {
        /// What could not be registered.
        bytes: usize,
    },
    /// The device has no room for another queue pair, region or queue.
    Exhausted {
        /// What it has no room for.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// A step failed.
    Step {
        /// Which.
        step: &'static str,
        /// What the system said.
        cause: io::Error,
    },
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => {
                write!(
                    f,
                    "this program was built without verbs: build it with `cargo build --features verbs`"
                )
            }
            Self::NoLibrary => {
                write!(f, "libibverbs is not installed: install it (Debian: libibverbs1 ibverbs-providers)")
            }
            Self::NoModule => write!(
                f,
                "the kernel offers no verbs: load the device's driver and ib_uverbs (software RoCE: `modprobe rdma_rxe`)"
            ),
            Self::NoDevice => write!(
                f,
                "there is no RDMA device: see `rdma link` (software RoCE: `rdma link add rxe0 type rxe netdev DEVICE`)"
            ),
            Self::NoSuchDevice { asked, found } => {
                write!(f, "no device, port or GID `{asked}`; there are: {found}")
            }
            Self::NoAddress { address } => write!(
                f,
                "no RDMA device has {address} among its GIDs: connect by an address of the RDMA network, or name the device"
            ),
            Self::Syntax { asked } => {
                write!(f, "`{asked}` names no device: write auto, or DEVICE[:PORT[:GID-INDEX]]")
            }
            Self::NotOffered => {
                write!(f, "the node offers no verbs: start it with `--verbs auto`, or use its tcp:// address")
            }
            Self::MemoryLocked { bytes } => write!(
                f,
                "{bytes} bytes cannot be pinned: raise the limit of locked memory (`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit)"
            ),
            Self::Exhausted { what, cause } => {
                write!(f, "the device has no room for another {what} ({cause}): close some connections")
            }
            Self::Step { step, cause } => {
                write!(f, "{step} failed: {cause}; `barn doctor` shows the devices")
            }
        }
    }
}

impl std::error::Error for VerbsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_says_what_to_do_next() {
        let cause = || io::Error::from_raw_os_error(12);
        let said = [
            (VerbsError::NotBuilt, "--features verbs"),
            (VerbsError::NoLibrary, "install"),
            (VerbsError::NoModule, "modprobe"),
            (VerbsError::NoDevice, "rdma link"),
            (VerbsError::NotOffered, "--verbs auto"),
            (VerbsError::MemoryLocked { bytes: 4096 }, "ulimit -l"),
            (VerbsError::NoAddress { address: [10, 9, 0, 1].into() }, "10.9.0.1"),
            (VerbsError::Syntax { asked: "a:b:c:d".into() }, "DEVICE[:PORT[:GID-INDEX]]"),
            (VerbsError::Exhausted { what: "queue pair", cause: cause() }, "close some"),
            (VerbsError::Step { step: "ibv_open_device", cause: cause() }, "barn doctor"),
        ];
        for (error, expected) in said {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
