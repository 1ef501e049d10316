//! Where facts come from: files below one root, and a few questions put to the kernel.
//!
//! The root is `/` on a live machine and a directory of fixtures in tests. What only a
//! system call can tell is asked once, when the source is made, and kept as plain values in
//! [`Kernel`], so that a fixture can hold those, too.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use barn_fabric::region::{Pages, Region, RegionOptions};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, statvfs};
use rustix::io::{Errno, write};

/// No file that we ask for is longer; what lies past it (a garbled mount) is not read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A machine to be examined.
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    /// What only system calls can tell.
    pub kernel: Kernel,
}

/// Answers that the kernel gave to system calls. `None`: not asked (a fixture).
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Whether a memfd can be made and sealed as Barn seals its regions.
    pub sealed_memfd: Option<Result<(), String>>,
    /// Whether an eventfd can be waited for with epoll.
    pub event_poll: Option<Result<(), String>>,
    /// Size and free space of `/dev/shm`.
    pub dev_shm: Option<SpaceBytes>,
    /// The pages that a region of 2 MiB got.
    pub region_pages: Option<Pages>,
    /// Extra directories that the dynamic linker searches (`LD_LIBRARY_PATH`).
    pub library_path: Vec<String>,
}

/// The size of a filesystem, and what is free on it.
#[derive(Clone, Copy, Debug)]
pub struct SpaceBytes {
    /// All of it.
    pub total: u64,
    /// What an unprivileged process may still use.
    pub free: u64,
}

impl Source {
    /// The machine that this process runs on.
    pub fn live() -> Self {
        Self { root: "/".into(), kernel: Kernel::ask() }
    }

    /// A machine that exists as a directory of files.
    pub fn fixture(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), kernel: Kernel::default() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The file's text, trimmed; bytes that are not UTF-8 are replaced. `None` if it cannot
    /// be read or is empty.
    pub fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.at(path)).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The file's text as a number (or whatever else parses).
    pub fn parse<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The choice in brackets of a file like `always [madvise] never`.
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }

    /// The value after `key` and a colon, in a file like `/proc/meminfo`.
    pub fn field(&self, path: &str, key: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    }

    /// The directory's entries by name, sorted by number where they end in one, so that
    /// `node10` follows `node9`.
    pub fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.at(path))
            .map(|entries| entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
            .unwrap_or_default();
        names.sort_by_key(|name| {
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            (name[..stem].to_owned(), name[stem..].parse::<u64>().unwrap_or(0))
        });
        names
    }

    /// Whether the path exists.
    pub fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }
}

impl Kernel {
    fn ask() -> Self {
        Self {
            sealed_memfd: Some(try_sealed_memfd()),
            event_poll: Some(try_event_poll().map_err(|error| error.to_string())),
            dev_shm: space_of(Path::new("/dev/shm")),
            region_pages: Region::allocate(&RegionOptions::readable(2 << 20)).ok().map(|it| it.pages()),
            library_path: std::env::var("LD_LIBRARY_PATH")
                .map(|paths| paths.split(':').filter(|p| !p.is_empty()).map(str::to_owned).collect())
                .unwrap_or_default(),
        }
    }
}

fn space_of(path: &Path) -> Option<SpaceBytes> {
    let space = statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
    Some(SpaceBytes { total: bytes(space.f_blocks), free: bytes(space.f_bavail) })
}

/// Makes a memfd, seals it as data regions are sealed, and demands that the seals hold: a
/// kernel that accepts a seal and ignores it would leave readers open to SIGBUS.
fn try_sealed_memfd() -> Result<(), String> {
    let fd = memfd_create("barn-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|error| format!("memfd_create: {error}"))?;
    ftruncate(&fd, 4096).map_err(|error| format!("ftruncate: {error}"))?;
    for (name, seal) in [
        ("F_SEAL_SHRINK", SealFlags::SHRINK),
        ("F_SEAL_GROW", SealFlags::GROW),
        ("F_SEAL_FUTURE_WRITE", SealFlags::FUTURE_WRITE),
        ("F_SEAL_SEAL", SealFlags::SEAL),
    ] {
        fcntl_add_seals(&fd, seal).map_err(|error| format!("{name}: {error}"))?;
    }
    let refused = |what: &str, outcome: Result<(), Errno>| match outcome {
        Err(Errno::PERM) => Ok(()),
        Err(error) => Err(format!("{what} a sealed memfd: {error}, expected EPERM")),
        Ok(()) => Err(format!("{what} a sealed memfd was allowed")),
    };
    refused("shrinking", ftruncate(&fd, 0))?;
    refused("growing", ftruncate(&fd, 8192))?;
    refused("writing to", write(&fd, b"x").map(drop))
}

/// Makes an eventfd, rings it, and waits for it with epoll.
fn try_event_poll() -> Result<(), Errno> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &bell, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
    write(&bell, &1u64.to_ne_bytes())?;
    let mut events = Vec::with_capacity(1);
    let wait = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&wait))?;
    if events.is_empty() { Err(Errno::TIMEDOUT) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_seals_and_wakes() {
        let kernel = Source::live().kernel;
        assert_eq!(kernel.sealed_memfd, Some(Ok(())));
        assert_eq!(kernel.event_poll, Some(Ok(())));
    }

    #[test]
    fn a_directory_is_not_a_file_and_a_missing_one_lists_nothing() {
        let source = Source::live();
        assert_eq!(source.text("/proc"), None);
        assert!(source.list("/nonexistent").is_empty());
    }
}
