//! The guest's kernel: Debian's, with its modules, unpacked and never installed.
//!
//! Debian's general kernel has `rdma_rxe`; its cloud kernel has not. It is kept in
//! `target/verbs/kernel` between runs.
//!
//! What always holds: the directory is there only if it is whole (it is made under another name
//! and renamed last); modules are listed so that each comes after those that it needs.

use std::fs;
use std::path::{Path, PathBuf};

use super::packages;
use crate::run::Job;

/// The package that always depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// What the guest loads. `crc32_generic` first: without it rxe cannot add a device, and no list of
/// dependencies says so. `veth` joins two devices in one guest; virtio joins two guests.
const MODULES: [&str; 6] = ["crc32_generic", "rdma_rxe", "rdma_ucm", "veth", "virtio_pci", "virtio_net"];

/// A kernel that qemu can boot.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// In the order in which they must be loaded.
    pub(super) modules: Vec<PathBuf>,
    pub(super) version: String,
}

/// Fetches the kernel if it is not there. `Err` says why it cannot be had here.
pub(super) fn demand(dir: &Path) -> Result<(), String> {
    let kept = dir.join("kernel");
    if kept.exists() { Ok(()) } else { fetch(dir, &kept) }
}

/// The kernel that was fetched.
pub(super) fn get(dir: &Path) -> Result<Kernel, String> {
    let kept = dir.join("kernel");
    let version = version(&kept)?;
    let image = kept.join("boot").join(format!("vmlinuz-{version}"));
    if !image.exists() {
        return Err(format!("{} has no kernel; remove it and try again", kept.display()));
    }
    let modules = modules(&kept, &version)?;
    Ok(Kernel { image, modules, version })
}

fn fetch(dir: &Path, kept: &Path) -> Result<(), String> {
    let depends = Job::new("apt-cache", &["depends", NEWEST]).quiet().succeed("apt-cache depends")?;
    let package = newest(&depends.output).ok_or_else(|| {
        format!("apt-cache names no kernel that {NEWEST} depends on; run: sudo apt-get update")
    })?;
    println!("fetching {package}");
    let part = dir.join("kernel.part");
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    Job::new("apt-get", &["download", "-q", &package]).dir(&part).quiet().succeed(&format!(
        "apt-get download {package} (no network, or old lists: try sudo apt-get update)"
    ))?;
    let archive = first(&part, |name| name.ends_with(".deb")).ok_or("apt-get downloaded nothing")?;
    let [from, to] = [&archive, &part].map(|path| path.to_string_lossy().into_owned());
    Job::new("dpkg-deb", &["-x", &from, &to]).quiet().succeed("unpacking the kernel")?;
    let _ = fs::remove_file(&archive);
    let version = version(&part)?;
    // The package comes without the lists that modprobe reads: its own installation makes them.
    Job::new(&packages::program("depmod"), &["-b", &to, &version]).quiet().succeed("depmod")?;
    fs::rename(&part, kept).map_err(|error| format!("{}: {error}", kept.display()))
}

/// The package named in the output of `apt-cache depends`.
fn newest(output: &str) -> Option<String> {
    let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

/// The version of the one kernel that is unpacked there.
fn version(kernel: &Path) -> Result<String, String> {
    let modules = kernel.join("lib/modules");
    let found = first(&modules, |_| true).ok_or_else(|| format!("{} is empty", modules.display()))?;
    Ok(found.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

fn first(dir: &Path, is: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.file_name().is_some_and(|name| is(&name.to_string_lossy())))
}

/// All modules, each once and after what it needs.
fn modules(kernel: &Path, version: &str) -> Result<Vec<PathBuf>, String> {
    let dir = kernel.to_string_lossy();
    let mut output = String::new();
    for module in MODULES {
        let args = ["-d", &dir, "-S", version, "--show-depends", module];
        let done = Job::new(&packages::program("modprobe"), &args)
            .quiet()
            .succeed(&format!("modprobe --show-depends {module}"))?;
        output.push_str(&done.output);
    }
    Ok(order(&output))
}

/// The files in what `modprobe --show-depends` prints for one module after another.
fn order(output: &str) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = Vec::new();
    for path in output.lines().filter_map(|line| line.trim().strip_prefix("insmod ")) {
        // A module's options may follow its path.
        let path = PathBuf::from(path.split(".ko ").next().unwrap_or(path).trim());
        let path = if path.extension().is_none() { path.with_extension("ko") } else { path };
        if !list.contains(&path) {
            list.push(path);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_what_the_package_depends_on() {
        let output = "linux-image-amd64\n  Depends: linux-image-6.1.0-54-amd64\n  Suggests: debug\n";
        assert_eq!(newest(output).as_deref(), Some("linux-image-6.1.0-54-amd64"));
        assert_eq!(newest("linux-image-amd64\n"), None);
    }

    #[test]
    fn modules_are_loaded_once_in_the_order_given_and_what_is_built_in_is_not() {
        let output = "insmod /k/crc32_generic.ko \ninsmod /k/udp_tunnel.ko\ninsmod /k/rdma_rxe.ko \nbuiltin ipv6\n\
                      insmod /k/udp_tunnel.ko \ninsmod /k/rdma_ucm.ko debug=1\n";
        let expected = ["/k/crc32_generic.ko", "/k/udp_tunnel.ko", "/k/rdma_rxe.ko", "/k/rdma_ucm.ko"]
            .map(PathBuf::from);
        assert_eq!(order(output), expected);
    }
}
