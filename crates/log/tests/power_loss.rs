//! Power loss on a real file system: ext4 in a loop file, shut down under a process that writes.
//!
//! The parent makes the file system and starts this test's own binary as a child, which appends numbered
//! records, waits for each to be synced, and only then says so on its standard output. At some moment
//! the parent shuts the file system down (`EXT4_IOC_SHUTDOWN` without a flush: nothing reaches the disk
//! any more), kills the child, mounts again and recovers. Whatever the child has said must be there.
//!
//! It needs root, loop devices, mkfs.ext4 and python3 (for the ioctl); without them it says why it does
//! nothing. `BARN_POWER_LOSSES` sets how many power losses (4 unless set; each takes about two seconds).

mod counting;

use barn_fabric::seam::{Random, Seeded};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHILD: &str = "BARN_POWER_LOSS_DIRECTORY";
fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(args).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

/// A file system that is gone afterwards.
struct Mounted {
    scratch: PathBuf,
    image: String,
    at: String,
}

impl Mounted {
    fn new() -> Result<Self, String> {
        let scratch = std::env::temp_dir().join(format!("barn-power-loss-{}", std::process::id()));
        let path = |name: &str| scratch.join(name).to_string_lossy().into_owned();
        let mounted = Self { image: path("image"), at: path("mounted"), scratch: scratch.clone() };
        std::fs::create_dir_all(&mounted.at).map_err(|error| error.to_string())?;
        let file = std::fs::File::create(&mounted.image).map_err(|error| error.to_string())?;
        file.set_len(256 << 20).map_err(|error| error.to_string())?;
        run("mkfs.ext4", &["-q", "-F", &mounted.image])?;
        mounted.mount()?;
        Ok(mounted)
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", &["-o", "loop", &self.image, &self.at])
    }

    fn unmount(&self) -> Result<(), String> {
        run("umount", &[&self.at])
    }

    /// The power fails: from now on nothing reaches the disk, not even the journal.
    fn power_loss(&self) -> Result<(), String> {
        // _IOR('X', 125, __u32), with EXT4_GOING_FLAGS_NOLOGFLUSH.
        let script = "import fcntl,os,struct,sys\n\
                      f=os.open(sys.argv[1],os.O_RDONLY)\n\
                      fcntl.ioctl(f,0x8004587d,struct.pack('I',2))\n";
        run("python3", &["-c", script, &self.at])
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.unmount();
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

#[test]
fn what_was_synced_survives_a_power_loss() {
    if let Ok(directory) = std::env::var(CHILD) {
        counting::count(Path::new(&directory), u64::MAX);
    }
    let mounted = match Mounted::new() {
        Ok(mounted) => mounted,
        Err(why) => {
            println!("skipped: no file system of our own ({why}); it needs root, loop devices and mkfs.ext4");
            return;
        }
    };
    let losses = std::env::var("BARN_POWER_LOSSES").ok().and_then(|losses| losses.parse().ok()).unwrap_or(4);
    let directory = Path::new(&mounted.at).join("log");
    let mut random = Seeded::new(u64::from(std::process::id()));
    let mut had = 0;
    for loss in 0..losses {
        let this = std::env::current_exe().unwrap();
        let mut child = Command::new(this)
            .args(["--exact", "what_was_synced_survives_a_power_loss", "--nocapture"])
            .env(CHILD, &directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = had;
        let after = had + 50 + random.below(1500);
        let mut lost = None;
        for line in lines {
            let Ok(line) = line else { break };
            let Some(count) = line.strip_prefix("synced ") else { continue };
            said = said.max(count.parse::<u64>().unwrap());
            if said >= after && lost.is_none() {
                lost = Some(mounted.power_loss());
                // What it says from here on was durable before; it is read to the end.
                child.kill().unwrap();
            }
        }
        let _ = child.wait();
        if let Err(why) = lost.expect("the child ended before the power was lost") {
            println!("skipped: the file system cannot be shut down ({why})");
            return;
        }
        mounted.unmount().unwrap();
        mounted.mount().unwrap();
        let (count, report) = counting::recovered(&directory);
        println!("loss {loss}: {said} said, {count} recovered: {report}");
        assert!(count >= said, "loss {loss}: {said} was synced, {count} was recovered: {report}");
        had = count;
    }
}
