//! Power loss on a real file system: ext4 in a loop file, shut down under a process that writes.
//!
//! The parent makes the file system and starts this test's own binary as a child, which appends numbered
//! records, waits for each to be synced, and only then says so on its standard output. At some moment
//! the parent shuts the file system down (`EXT4_IOC_SHUTDOWN` without a flush: nothing reaches the disk
//! any more), kills the child, mounts again and recovers. Whatever the child has said must be there.
//!
//! It needs root, loop devices, mkfs.ext4 and python3 (for the ioctl); without them it says why it does
//! nothing. `BARN_POWER_LOSSES` sets how many power losses (4 unless set; each takes about two seconds).

use barn_fabric::seam::{Random, Seeded, SystemDisk};
use barn_fabric::{RegionId, Words};
use barn_log::{Level, LogOptions, Memory, Record, open};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CHILD: &str = "BARN_POWER_LOSS_DIRECTORY";
const REGION_BYTES: u64 = 1 << 20;
/// The count is in the first and in the last word: half a record would show.
const LAST_WORD: u32 = REGION_BYTES as u32 - 8;

#[derive(Default)]
struct OneRegion(Mutex<Option<Words>>);

impl Memory for OneRegion {
    fn region(&self, _: RegionId, bytes: u64) -> Result<Words, String> {
        let words = Words::private(bytes as usize);
        *self.0.lock().unwrap() = Some(words.clone());
        Ok(words)
    }
}

fn options() -> LogOptions {
    LogOptions { segment_bytes: 2 << 20, checkpoint_bytes: 4 << 20, ..LogOptions::default() }
}

/// Recovers; gives the count that memory has, and whether both of its words agree.
fn recovered(directory: &Path) -> (u64, String) {
    let memory = OneRegion::default();
    let disk = Arc::new(SystemDisk::at(directory).unwrap());
    let (log, recovered) =
        open(disk, options(), &memory, &|_| {}, false).unwrap_or_else(|error| panic!("{error}"));
    log.stop().unwrap();
    let words = memory.0.lock().unwrap().clone();
    let load = |at: u32| {
        words.as_ref().map_or(0, |words| words.load_word(u64::from(at), Ordering::Relaxed).unwrap())
    };
    assert_eq!(load(0), load(LAST_WORD), "half a record: {}", recovered.report);
    (load(0), recovered.report.to_string())
}

/// The child: counts, and says each count once it is synced, until it is killed.
fn count(directory: &Path) {
    let memory = OneRegion::default();
    let disk = Arc::new(SystemDisk::at(directory).unwrap());
    let (mut log, _) = open(disk, options(), &memory, &|_| {}, false).unwrap();
    let mut record = Record::default();
    let there = memory.0.lock().unwrap().clone();
    let words = there.unwrap_or_else(|| {
        record.region(RegionId(1), REGION_BYTES);
        log.append(&record);
        memory.region(RegionId(1), REGION_BYTES).unwrap()
    });
    let mut count = words.load_word(0, Ordering::Relaxed).unwrap();
    let mut random = Seeded::new(count);
    loop {
        count += 1;
        let filler = vec![count as u8; 8 * (1 + random.below(2000)) as usize];
        record.clear();
        for (offset, bytes) in
            [(0, &count.to_le_bytes()[..]), (64, &filler), (LAST_WORD, &count.to_le_bytes())]
        {
            words.store(u64::from(offset), bytes).unwrap();
            record.words(RegionId(1), offset, &[bytes]);
        }
        let position = log.append(&record);
        if log.wants_checkpoint() {
            let all = |_: RegionId, words: &Words| std::iter::once(0..words.bytes() as u64).collect();
            log.begin_checkpoint(&Record::default(), vec![(RegionId(1), words.clone())], Box::new(all));
        }
        let said = Box::new(move |result: Result<(), _>| {
            if result.is_ok() {
                let mut out = std::io::stdout();
                let _ = writeln!(out, "synced {count}").and_then(|()| out.flush());
            }
        });
        log.after(position, Level::Synced, said);
        log.turn();
        // A few at once: group commits, and frames behind the one that is being synced.
        if count.is_multiple_of(3) {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

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
        count(Path::new(&directory));
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
        let (count, report) = recovered(&directory);
        println!("loss {loss}: {said} said, {count} recovered: {report}");
        assert!(count >= said, "loss {loss}: {said} was synced, {count} was recovered: {report}");
        had = count;
    }
}
