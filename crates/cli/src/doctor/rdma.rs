//! RDMA: each port with its addresses and MTU, and whether the verbs transport can run.

use super::{Check, Status};
use crate::machine::Source;
use crate::machine::rdma::{self, LIBRARY, Port};

const GROUP: &str = "RDMA";
/// A path MTU of 4096 needs room for it and for RoCE's headers on the link.
const LINK_MTU_MIN: u64 = 4200;

pub(super) fn checks(source: &Source) -> Vec<Check> {
    let ports = rdma::ports(source);
    let mut checks: Vec<Check> = ports.iter().map(port).collect();
    checks.push(verbs(source, &ports));
    checks.push(transport());
    checks
}

/// Whether this program has the transport at all, which no other finding tells.
#[cfg(not(feature = "verbs"))]
fn transport() -> Check {
    let why = "a node offers verbs, and a client uses them, only if both were built with them";
    let found = "this program was built without verbs";
    Check::new(GROUP, "transport", Status::Note, found, why)
        .fix("cargo build --release --features verbs   # needs cmake and libclang")
}

/// What the transport itself finds: devices, limits and addresses, or why there are none.
#[cfg(feature = "verbs")]
fn transport() -> Check {
    let why = "what the verbs transport of this very program can use";
    match barn_fabric::verbs::report() {
        Ok(devices) => {
            let found = devices.iter().map(device).collect::<Vec<_>>().join("; ");
            Check::new(GROUP, "transport", Status::Good, found, why)
        }
        Err(error) => {
            let found = "built with verbs, which cannot be used here";
            Check::new(GROUP, "transport", Status::Note, found, why).fix(error.to_string())
        }
    }
}

#[cfg(feature = "verbs")]
fn device(device: &barn_fabric::verbs::DeviceReport) -> String {
    let ports = device.ports.iter().map(|port| {
        let addresses = port.addresses.iter().map(|(index, address)| format!("{address} (gid {index})"));
        let addresses = addresses.collect::<Vec<_>>().join(", ");
        let state = if port.active { "up" } else { "down" };
        format!("port {} {state}, MTU {}, {addresses}", port.number, port.mtu_bytes)
    });
    format!(
        "{}: {} queue pairs, {} READs under way, {}; {}",
        device.name,
        device.queue_pairs_max,
        device.reads_max,
        if device.has_atomics { "atomics" } else { "no atomics" },
        ports.collect::<Vec<_>>().join("; ")
    )
}

fn port(port: &Port) -> Check {
    let mtu = match (port.active_mtu_bytes, port.link_mtu_bytes) {
        (Some(active), Some(link)) => format!("MTU {active} on a link of {link}"),
        (Some(active), None) => format!("MTU {active}"),
        (None, Some(link)) => format!("link MTU {link}"),
        (None, None) => "MTU unknown".into(),
    };
    let gids = port
        .gids
        .iter()
        .map(|gid| {
            let kind = gid.kind.as_deref().unwrap_or("type unknown");
            let netdev = gid.netdev.as_deref().map(|netdev| format!(" on {netdev}")).unwrap_or_default();
            format!("gid {}: {} ({kind}{netdev})", gid.index, gid.gid)
        })
        .collect::<Vec<_>>();
    let gids = if gids.is_empty() { "no gids".into() } else { gids.join("; ") };
    let found =
        format!("{} port {}: {}, {}, {mtu}; {gids}", port.device, port.port, port.state, port.link_layer);
    let netdev = port.gids.iter().find_map(|gid| gid.netdev.as_deref()).unwrap_or("NETDEV");
    let why = "one-sided reads between hosts go through it; RoCE v2 needs an address on its network device, and a \
               small link MTU cuts 4 KiB reads into pieces";
    let (status, fix) = if !port.is_active() {
        (
            Status::Limits,
            format!("sudo ip link set {netdev} up   # then: rdma link show {}/{}", port.device, port.port),
        )
    } else if port.gids.is_empty() {
        (Status::Limits, format!("sudo ip address add 10.9.0.1/24 dev {netdev}"))
    } else if port.link_mtu_bytes.is_some_and(|mtu| mtu < LINK_MTU_MIN) {
        (Status::Note, format!("sudo ip link set {netdev} mtu 9000"))
    } else {
        (Status::Good, String::new())
    };
    Check::new(GROUP, "port", status, found, why).fix(fix)
}

fn verbs(source: &Source, ports: &[Port]) -> Check {
    let why =
        "the verbs transport reads remote memory without the remote CPU; without it, hosts talk over tcp";
    let library = rdma::library(source);
    let because = match (ports.is_empty(), library.is_none()) {
        (false, false) => {
            let path = library.unwrap_or_default();
            return Check::new(GROUP, "verbs", Status::Good, format!("available ({path})"), why);
        }
        (true, true) => format!("it has no RDMA device and no {LIBRARY}"),
        (true, false) => "it has no RDMA device".into(),
        (false, true) => format!("{LIBRARY} is not installed"),
    };
    // Devices without the library are a limit; no devices at all is simply another machine.
    let (status, fix) = if ports.is_empty() {
        (
            Status::Note,
            "sudo apt-get install rdma-core ibverbs-providers && sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth0   # software RoCE, to try it",
        )
    } else {
        (Status::Limits, "sudo apt-get install libibverbs1 ibverbs-providers")
    };
    Check::new(GROUP, "verbs", status, format!("not available on this machine, because {because}"), why)
        .fix(fix)
}
