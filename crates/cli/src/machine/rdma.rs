//! RDMA devices, read from `/sys/class/infiniband`, and the library that drives them.
//!
//! No library is loaded here: looking must be safe on any machine, and say why there is
//! nothing to be found.

use serde::Serialize;

use super::source::Source;

const CLASS: &str = "/sys/class/infiniband";
const NO_GID: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
/// The name under which every distribution ships libibverbs.
pub const LIBRARY: &str = "libibverbs.so.1";

/// One port of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// The device's name, such as `mlx5_0`.
    pub device: String,
    /// The port's number, from 1.
    pub port: String,
    /// Such as `ACTIVE`.
    pub state: String,
    /// `Ethernet` (RoCE) or `InfiniBand`.
    pub link_layer: String,
    /// The path MTU that is active, where the kernel tells.
    pub active_mtu_bytes: Option<u64>,
    /// The MTU of the network device below (RoCE), which bounds the path MTU.
    pub link_mtu_bytes: Option<u64>,
    /// Those that are set.
    pub gids: Vec<Gid>,
}

/// One address of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its place in the port's table: search it, never assume it.
    pub index: u64,
    /// The address.
    pub gid: String,
    /// Such as `RoCE v2`.
    pub kind: Option<String>,
    /// The network device that carries it.
    pub netdev: Option<String>,
}

impl Port {
    /// Whether it can carry traffic.
    pub fn is_active(&self) -> bool {
        self.state.eq_ignore_ascii_case("active")
    }
}

/// Every port of every device, in order.
pub fn ports(source: &Source) -> Vec<Port> {
    let mut ports = Vec::new();
    for device in source.list(CLASS) {
        for port in source.list(&format!("{CLASS}/{device}/ports")) {
            ports.push(read_port(source, &device, port));
        }
    }
    ports
}

fn read_port(source: &Source, device: &str, port: String) -> Port {
    let dir = format!("{CLASS}/{device}/ports/{port}");
    let text = |file: &str| source.text(&format!("{dir}/{file}"));
    // The state reads `4: ACTIVE`.
    let state = text("state").unwrap_or_else(|| "unknown".into());
    let state = state.split_once(": ").map_or(state.as_str(), |(_, name)| name).to_owned();
    let gids = source
        .list(&format!("{dir}/gids"))
        .into_iter()
        .filter_map(|entry| {
            let gid = text(&format!("gids/{entry}")).filter(|gid| gid != NO_GID)?;
            Some(Gid {
                index: entry.parse().ok()?,
                gid,
                kind: text(&format!("gid_attrs/types/{entry}")),
                netdev: text(&format!("gid_attrs/ndevs/{entry}")),
            })
        })
        .collect::<Vec<_>>();
    let link_mtu_bytes = gids
        .iter()
        .find_map(|gid| gid.netdev.as_ref())
        .and_then(|netdev| source.parse(&format!("/sys/class/net/{netdev}/mtu")));
    Port {
        device: device.to_owned(),
        port,
        state,
        link_layer: text("link_layer").unwrap_or_else(|| "unknown".into()),
        active_mtu_bytes: text("active_mtu").and_then(|mtu| mtu.split_whitespace().next()?.parse().ok()),
        link_mtu_bytes,
        gids,
    }
}

/// Where the dynamic linker would find libibverbs.
pub fn library(source: &Source) -> Option<String> {
    let mut dirs = source.kernel.library_path.clone();
    let confs = source.list("/etc/ld.so.conf.d");
    let confs = confs.iter().map(|name| format!("/etc/ld.so.conf.d/{name}"));
    for conf in std::iter::once("/etc/ld.so.conf".to_owned()).chain(confs) {
        let text = source.text(&conf).unwrap_or_default();
        dirs.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(str::to_owned));
    }
    let arch = std::env::consts::ARCH;
    for prefix in ["/lib", "/usr/lib"] {
        dirs.extend([format!("{prefix}/{arch}-linux-gnu"), format!("{prefix}64"), prefix.to_owned()]);
    }
    dirs.into_iter().map(|dir| format!("{dir}/{LIBRARY}")).find(|path| source.exists(path))
}
