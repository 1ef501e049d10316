//! What the machine must have to run a guest: Debian's packages, installed where we may, named
//! where we may not.

use std::path::Path;

use crate::tools;

/// A package, and a program or file that only it brings.
const PACKAGES: [(&str, &str); 7] = [
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("kmod", "modprobe"),
    ("iproute2", "rdma"),
    ("ibverbs-providers", "/etc/libibverbs.d/rxe.driver"),
    ("librdmacm1", "/usr/lib/x86_64-linux-gnu/librdmacm.so.1"),
    ("perftest", "ib_read_lat"),
];

/// Where programs are, also those that a user who is not root does not have in PATH.
const PLACES: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/bin", "/sbin"];

/// The program's path, or its bare name if it is nowhere.
pub(super) fn program(name: &str) -> String {
    let found = PLACES.iter().map(|place| format!("{place}/{name}")).find(|path| Path::new(path).exists());
    found.unwrap_or_else(|| name.to_owned())
}

fn missing() -> Vec<&'static str> {
    let program_there = |name: &str| Path::new(&program(name)).is_absolute();
    let there =
        |what: &str| if what.starts_with('/') { Path::new(what).exists() } else { program_there(what) };
    PACKAGES.iter().filter(|(_, what)| !there(what)).map(|(package, _)| *package).collect()
}

/// Demands all packages, installing those that are missing. `Err` says how to get them.
pub(super) fn demand() -> Result<(), String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err("the guest is made for x86-64 only".into());
    }
    let absent = missing();
    if absent.is_empty() || (tools::apt(&absent) && missing().is_empty()) {
        return Ok(());
    }
    Err(format!(
        "missing; install with: sudo apt-get install -y --no-install-recommends {}",
        absent.join(" ")
    ))
}
