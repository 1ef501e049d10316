//! Which device, port and GID a connection goes by.
//!
//! By itself it is the one whose GID table has the local address of the control stream, as RoCE
//! v2 has it: whoever reaches the node by that address reaches it by that device. An index into
//! the table is never assumed: which entry is which differs from machine to machine.

use super::sys::{Device, Gid, GidKind, Port, device_names};
use crate::{DeviceChoice, VerbsError};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};

/// A port of a device, as it is chosen from.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) device: String,
    pub(super) number: u8,
    pub(super) port: Port,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) device: String,
    pub(super) port: u8,
    pub(super) gid: Gid,
    pub(super) lid: u16,
    pub(super) mtu: u8,
}

/// An address as a GID.
fn as_gid(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Chooses among `candidates` for a stream whose local address is `local`.
pub(super) fn choose(
    candidates: &[Candidate],
    choice: Option<&DeviceChoice>,
    local: IpAddr,
) -> Result<Path, VerbsError> {
    let path = |candidate: &Candidate, gid: &Gid| Path {
        device: candidate.device.clone(),
        port: candidate.number,
        gid: *gid,
        lid: candidate.port.lid,
        mtu: candidate.port.mtu,
    };
    let wanted = as_gid(local);
    let by_address = |candidate: &Candidate| {
        let found = |gid: &&Gid| gid.bytes == wanted && gid.kind == GidKind::RoceV2;
        candidate.port.gids.iter().find(found).map(|gid| path(candidate, gid))
    };
    let Some(choice) = choice else {
        let mut usable = candidates.iter().filter(|candidate| candidate.port.active);
        return usable.find_map(by_address).ok_or(VerbsError::NoAddress { address: local });
    };
    let named: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| candidate.device == choice.device)
        .filter(|candidate| choice.port.map_or(candidate.port.active, |port| port == candidate.number))
        .collect();
    let chosen = match choice.gid_index {
        Some(index) => named.iter().find_map(|candidate| {
            let found = candidate.port.gids.iter().find(|gid| gid.index == index);
            found.map(|gid| path(candidate, gid))
        }),
        // The stream's own address if it has it, else whatever is most likely to be routed.
        None => named.iter().find_map(|candidate| by_address(candidate)).or_else(|| {
            let mapped = |gid: &Gid| gid.kind == GidKind::RoceV2 && gid.bytes.starts_with(&MAPPED);
            named.iter().find_map(|candidate| {
                let gids = &candidate.port.gids;
                let found = gids.iter().find(|gid| mapped(gid)).or_else(|| gids.first());
                found.map(|gid| path(candidate, gid))
            })
        }),
    };
    chosen.ok_or_else(|| {
        let mut found: Vec<&str> = candidates.iter().map(|candidate| candidate.device.as_str()).collect();
        found.dedup();
        VerbsError::NoSuchDevice { asked: choice.to_string(), found: found.join(", ") }
    })
}

/// How an IPv4 address begins as a GID.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The device of that name: one context for the whole process.
pub(super) fn shared(name: &str) -> Result<Arc<Device>, VerbsError> {
    static OPEN: Mutex<Option<HashMap<String, Weak<Device>>>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let open = open.get_or_insert_default();
    if let Some(device) = open.get(name).and_then(Weak::upgrade) {
        return Ok(device);
    }
    let device = Arc::new(Device::open(name)?);
    open.insert(name.to_string(), Arc::downgrade(&device));
    Ok(device)
}

/// Every port of every device.
pub(super) fn candidates() -> Result<Vec<Candidate>, VerbsError> {
    let mut all = Vec::new();
    for name in device_names()? {
        let device = shared(&name)?;
        for number in 1..=device.ports {
            all.push(Candidate { device: name.clone(), number, port: device.port(number)? });
        }
    }
    Ok(all)
}

/// Chooses, and opens what was chosen.
pub(super) fn open(choice: Option<&DeviceChoice>, local: IpAddr) -> Result<(Arc<Device>, Path), VerbsError> {
    let path = choose(&candidates()?, choice, local)?;
    Ok((shared(&path.device)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(index: u8, bytes: [u8; 16], kind: GidKind) -> Gid {
        Gid { index, bytes, kind }
    }

    /// A device with a link-local GID first, the address as RoCE v1, and then as RoCE v2.
    fn candidate(device: &str, address: [u8; 4], active: bool) -> Candidate {
        let mapped = as_gid(address.into());
        let mut local = [0; 16];
        (local[0], local[1], local[15]) = (0xfe, 0x80, address[3]);
        let gids = vec![
            gid(0, local, GidKind::RoceV2),
            gid(1, mapped, GidKind::RoceV1),
            gid(2, mapped, GidKind::RoceV2),
        ];
        let port = Port { active, mtu: 3, lid: 0, ethernet: true, gids };
        Candidate { device: device.into(), number: 1, port }
    }

    #[test]
    fn the_device_with_the_streams_address_is_chosen_whatever_the_index() {
        let all = [candidate("rxe0", [10, 9, 0, 1], true), candidate("rxe1", [10, 9, 0, 2], true)];
        for (address, device) in [([10, 9, 0, 1], "rxe0"), ([10, 9, 0, 2], "rxe1")] {
            let path = choose(&all, None, address.into()).unwrap();
            assert_eq!((path.device.as_str(), path.gid.index), (device, 2), "not the RoCE v2 entry");
        }
        let mapped: IpAddr = "::ffff:10.9.0.2".parse().unwrap();
        assert_eq!(choose(&all, None, mapped).unwrap().device, "rxe1");
    }

    #[test]
    fn an_address_of_no_device_or_of_a_port_that_is_down_is_an_error() {
        let all = [candidate("rxe0", [10, 9, 0, 1], false)];
        for address in [[10, 9, 0, 1], [127, 0, 0, 1]] {
            let error = choose(&all, None, address.into()).unwrap_err();
            assert!(matches!(error, VerbsError::NoAddress { .. }), "{error}");
        }
    }

    #[test]
    fn a_named_device_goes_by_its_name_port_and_index() {
        let all = [candidate("rxe0", [10, 9, 0, 1], true), candidate("rxe1", [10, 9, 0, 2], true)];
        let by = |name: &str| choose(&all, Some(&name.parse().unwrap()), [10, 9, 0, 1].into());
        assert_eq!(by("rxe0").unwrap().gid.index, 2);
        assert_eq!(by("rxe1").unwrap().gid.index, 2, "its own address, though not the stream's");
        assert_eq!(by("rxe1:1:0").unwrap().gid.index, 0);
        for wrong in ["rxe2", "rxe1:2", "rxe1:1:9"] {
            let error = by(wrong).unwrap_err();
            assert!(error.to_string().contains("rxe0, rxe1"), "{error}");
        }
    }
}
