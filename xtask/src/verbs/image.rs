//! The guest's whole world: an initramfs with busybox, modules, programs with their libraries, jobs.
//!
//! What always holds: paths are the host's, with `/lib` being `/usr/lib`, so that libraries and
//! libibverbs' providers are where the loader and libibverbs look for them.

use std::fs;
use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::jobs::Job;
use super::kernel::Kernel;
use super::{libraries, packages};
use crate::run;

/// Programs that every guest has.
const PROGRAMS: [&str; 6] = ["ip", "rdma", "ib_read_lat", "ib_read_bw", "ib_write_lat", "ib_send_bw"];

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
/// What is loaded by name while a program runs, so that ldd does not know of it.
const LOADED_LATER: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];
const PROVIDERS: &str = "/usr/lib/x86_64-linux-gnu/libibverbs";
const PROVIDER: &str = "librxe-";
const DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// Before each command: busybox's shell prefers its own `ip` to the real one in PATH.
const PRELUDE: &str = "ip() { /bin/ip \"$@\"; }\n";

const INIT: &str = include_str!("guest/init.sh");
const JOB: &str = include_str!("guest/job.sh");
const WATCH: &str = include_str!("guest/watch.sh");

/// What is in a guest: an initramfs.
pub(super) fn build(kernel: &Kernel, programs: &[PathBuf], jobs: &[Job]) -> Result<Vec<u8>, String> {
    let mut archive = Archive::default();
    skeleton(&mut archive);
    busybox(&mut archive)?;
    modules(&mut archive, kernel)?;
    for name in PROGRAMS {
        program(&mut archive, Path::new(&packages::program(name)))?;
    }
    for path in programs {
        program(&mut archive, path)?;
    }
    providers(&mut archive)?;
    self::jobs(&mut archive, jobs);
    archive.file("/init", INIT.as_bytes());
    archive.file("/job.sh", JOB.as_bytes());
    archive.file("/watch.sh", WATCH.as_bytes());
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn skeleton(archive: &mut Archive) {
    for dir in
        ["/usr/lib", "/usr/lib64", "/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/var/tmp", "/bin"]
    {
        archive.directory(dir);
    }
    archive.link("/lib", "usr/lib");
    archive.link("/lib64", "usr/lib64");
    archive.link("/usr/bin", "../bin");
    // The first process needs it before it has mounted anything.
    archive.device("/dev/console", 5, 1);
    archive.device("/dev/null", 1, 3);
    archive.file("/etc/hosts", b"127.0.0.1 localhost\n10.9.0.1 a\n10.9.0.2 b\n");
    archive.file("/etc/nsswitch.conf", b"hosts: files\npasswd: files\ngroup: files\n");
    archive.file("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n");
    archive.file("/etc/group", b"root:x:0:\n");
}

fn busybox(archive: &mut Archive) -> Result<(), String> {
    let path = packages::program("busybox");
    let applets = run::Job::new(&path, &["--list"]).quiet().succeed("busybox --list")?.output;
    archive.file("/bb/busybox", &read(Path::new(&path))?);
    with_libraries(archive, Path::new(&path))?;
    for applet in applets.lines().map(str::trim).filter(|applet| !applet.is_empty()) {
        archive.link(&format!("/bb/{applet}"), "busybox");
    }
    archive.link("/bin/sh", "/bb/busybox");
    Ok(())
}

fn modules(archive: &mut Archive, kernel: &Kernel) -> Result<(), String> {
    let mut list = String::new();
    for path in &kernel.modules {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("/modules/{name}"), &read(path)?);
        list.push_str(&format!("/modules/{name}\n"));
    }
    archive.file("/modules/list", list.as_bytes());
    Ok(())
}

/// A program in /bin, with all that it needs.
fn program(archive: &mut Archive, path: &Path) -> Result<(), String> {
    let name = path.file_name().ok_or_else(|| format!("{} is not a program", path.display()))?;
    archive.file(&format!("/bin/{}", name.to_string_lossy()), &read(path)?);
    with_libraries(archive, path)
}

fn with_libraries(archive: &mut Archive, path: &Path) -> Result<(), String> {
    for library in libraries::of(path)? {
        let place = in_guest(&library);
        if !archive.has(&place) {
            archive.file(&place, &read(&library)?);
        }
    }
    Ok(())
}

fn in_guest(library: &Path) -> String {
    let path = library.to_string_lossy();
    if path.starts_with("/lib") { format!("/usr{path}") } else { path.into_owned() }
}

/// What makes libibverbs find the device: its provider, and the file that names it.
fn providers(archive: &mut Archive) -> Result<(), String> {
    for name in LOADED_LATER {
        let path = Path::new(LIBRARIES).join(name);
        archive.file(&in_guest(&path), &read(&path)?);
        with_libraries(archive, &path)?;
    }
    archive.file(DRIVER, &read(Path::new(DRIVER))?);
    let entries = fs::read_dir(PROVIDERS).map_err(|error| format!("{PROVIDERS}: {error}"))?;
    // Its name ends in a number that changes with the version.
    let is =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PROVIDER));
    let provider = entries.flatten().map(|entry| entry.path()).find(is);
    let provider =
        provider.ok_or_else(|| format!("{PROVIDERS} has no {PROVIDER}*; install ibverbs-providers"))?;
    archive.file(&provider.to_string_lossy(), &read(&provider)?);
    with_libraries(archive, &provider)
}

fn jobs(archive: &mut Archive, jobs: &[Job]) {
    let mut list = String::new();
    for job in jobs {
        let port = job.server.as_ref().map_or("-".into(), |server| server.port.to_string());
        list.push_str(&format!("{} {} {port}\n", job.name, job.seconds_max));
        archive.file(&format!("/jobs/{}.client", job.name), format!("{PRELUDE}{}\n", job.command).as_bytes());
        if let Some(server) = &job.server {
            archive.file(
                &format!("/jobs/{}.server", job.name),
                format!("{PRELUDE}{}\n", server.command).as_bytes(),
            );
        }
    }
    archive.file("/jobs/list", list.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_names_of_the_library_directory_are_one() {
        assert_eq!(
            in_guest(Path::new("/lib/x86_64-linux-gnu/libc.so.6")),
            "/usr/lib/x86_64-linux-gnu/libc.so.6"
        );
        assert_eq!(in_guest(Path::new("/lib64/ld-linux-x86-64.so.2")), "/usr/lib64/ld-linux-x86-64.so.2");
        assert_eq!(in_guest(Path::new("/opt/lib/x.so")), "/opt/lib/x.so");
    }
}
