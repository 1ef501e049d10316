//! What this machine has for verbs, for whoever diagnoses it.

use super::choose;
use super::sys::GidKind;
use crate::VerbsError;
use std::net::{IpAddr, Ipv6Addr};

/// A device, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Queue pairs that it can have.
    pub queue_pairs_max: usize,
    /// Entries of a completion queue.
    pub entries_max: usize,
    /// READs and atomics that a queue pair may have on their way.
    pub reads_max: u8,
    /// The longest region.
    pub region_bytes_max: u64,
    /// Whether it has compare-and-swap and fetch-and-add.
    pub has_atomics: bool,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// Its number, from 1.
    pub number: u8,
    /// Whether it is up.
    pub active: bool,
    /// Whether it is RoCE; InfiniBand otherwise.
    pub ethernet: bool,
    /// Bytes of a packet's payload.
    pub mtu_bytes: usize,
    /// Its addresses of RoCE v2, each with its index: those that connections go by.
    pub addresses: Vec<(u8, IpAddr)>,
}

/// The devices of this machine; or why there are none.
pub fn report() -> Result<Vec<DeviceReport>, VerbsError> {
    let mut devices: Vec<DeviceReport> = Vec::new();
    for candidate in choose::candidates()? {
        let port = &candidate.port;
        let routable = port.gids.iter().filter(|gid| gid.kind == GidKind::RoceV2);
        let port = PortReport {
            number: candidate.number,
            active: port.active,
            ethernet: port.ethernet,
            mtu_bytes: 128 << port.mtu,
            addresses: routable
                .map(|gid| (gid.index, IpAddr::V6(Ipv6Addr::from(gid.bytes)).to_canonical()))
                .collect(),
        };
        match devices.last_mut().filter(|device| device.name == candidate.device) {
            Some(device) => device.ports.push(port),
            None => {
                let device = choose::shared(&candidate.device)?;
                devices.push(DeviceReport {
                    name: candidate.device,
                    queue_pairs_max: device.queue_pairs_max,
                    entries_max: device.entries_max,
                    reads_max: device.reads_max,
                    region_bytes_max: device.region_bytes_max,
                    has_atomics: device.has_atomics,
                    ports: vec![port],
                });
            }
        }
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_devices_says_why() {
        // On one that has some, they have names; on all others the message says what to do.
        match report() {
            Ok(devices) => assert!(devices.iter().all(|device| !device.name.is_empty())),
            Err(error) => assert!(
                matches!(error, VerbsError::NoLibrary | VerbsError::NoModule | VerbsError::NoDevice),
                "{error}"
            ),
        }
    }
}
