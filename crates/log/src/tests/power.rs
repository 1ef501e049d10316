//! Power loss on a real file system: ext4 in a file, whose power is cut before any call of the disk.
//!
//! `EXT4_IOC_SHUTDOWN` stops the file system at once: what was not synced is gone, but for what it had already
//! written by itself. Mounted again, it replays its own journal, as after a loss of power. So this finds what a simulated
//! disk cannot: promises of ours that a real file system does not keep.
//!
//! Needs root, loop devices, mkfs.ext4 and perl, which makes the call; `cargo xtask crash` runs it.

use super::*;
use barn_fabric::seam::{DiskFile, DiskLock, SystemDisk};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Enough for the log's files, and quick to make.
const IMAGE_BYTES: u64 = 48 << 20;
/// `EXT4_IOC_SHUTDOWN`, the same as XFS's: `_IOR('X', 125, __u32)`.
const SHUTDOWN: &str = "open(F, '<', $ARGV[0]) or die $!; my $how = pack('L', $ARGV[1]); \
                        ioctl(F, 0x8004587d, $how) or die $!;";
/// With the file system's own journal as it is in memory, and without.
const HOW: [&str; 2] = ["1", "2"];
/// Calls of the disk until the power fails, at the most: a round has some 200 on average.
const CALLS_MAX: u64 = 260;
const ACTS_MAX: usize = 900;

fn run(program: &str, words: &[&str]) {
    let done =
        Command::new(program).args(words).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A file system of our own, unmounted and removed when dropped.
struct Machine {
    directory: PathBuf,
    mounted: bool,
}

impl Machine {
    fn new() -> Self {
        // In memory where there is such a directory: a flush of the file beneath it costs nothing.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let directory = place.join(format!("barn-power-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("mount")).unwrap();
        let image = directory.join("image");
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        run("mkfs.ext4", &["-q", "-F", &image.display().to_string()]);
        Self { directory, mounted: false }
    }

    fn mount(&self) -> String {
        self.directory.join("mount").display().to_string()
    }

    /// The power is there: the disk, on which it fails after so many calls.
    fn start(&mut self, calls: u64, how: &'static str) -> PoweredDisk {
        run("mount", &["-o", "loop", &self.directory.join("image").display().to_string(), &self.mount()]);
        self.mounted = true;
        let supply =
            Supply { mount: self.mount(), how, left: AtomicU64::new(calls), cut: AtomicBool::new(false) };
        let disk = SystemDisk::at(&Path::new(&supply.mount).join("log")).unwrap();
        PoweredDisk { disk, supply: Arc::new(supply) }
    }

    /// Everybody has let go of its files.
    fn stop(&mut self) {
        run("umount", &[&self.mount()]);
        self.mounted = false;
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").args(["-l", &self.mount()]).status();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The power of a file system, which fails once.
struct Supply {
    mount: String,
    how: &'static str,
    left: AtomicU64,
    cut: AtomicBool,
}

impl Supply {
    /// A call that changes something is about to be made.
    fn call(&self) {
        if self.left.load(Ordering::Relaxed) == 0 {
            return self.cut();
        }
        self.left.fetch_sub(1, Ordering::Relaxed);
    }

    fn cut(&self) {
        if !self.cut.swap(true, Ordering::Relaxed) {
            run("perl", &["-e", SHUTDOWN, &self.mount, self.how]);
        }
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
struct PoweredDisk {
    disk: SystemDisk,
    supply: Arc<Supply>,
}

struct PoweredFile {
    file: Box<dyn DiskFile>,
    supply: Arc<Supply>,
}

impl PoweredDisk {
    fn file(&self, file: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(PoweredFile { file: file?, supply: self.supply.clone() }))
    }
}

impl Disk for PoweredDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.file(self.disk.open(name))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.supply.call();
        self.file(self.disk.create(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.supply.call();
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.supply.call();
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.supply.call();
        self.disk.sync_names()
    }

    fn create_log(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        self.supply.call();
        self.file(self.disk.create_log(name, bytes))
    }

    fn open_log(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.file(self.disk.open_log(name))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(name)
    }
}

impl DiskFile for PoweredFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.supply.call();
        self.file.write_at(offset, from)
    }

    fn append(&self, from: &[u8]) -> io::Result<u64> {
        self.supply.call();
        self.file.append(from)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.supply.call();
        self.file.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.supply.call();
        self.file.sync()
    }
}

#[test]
#[ignore = "needs root and loop devices: run by cargo xtask crash"]
fn a_real_file_system_that_loses_power_keeps_what_was_answered_for() {
    let number = |name: &str, usual| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(usual);
    let (images, seed): (u64, u64) = (number("BARN_POWER_IMAGES", 100), number("BARN_POWER_SEED", 1));
    let mut random = Seeded::new(seed);
    let mut machine = Machine::new();
    let (mut checkpoints, mut acknowledged, mut lost, mut in_recovery) = (0, 0u64, 0u64, 0u64);
    // The first begins with an empty disk, whose power stays.
    let mut world = World::try_on(machine.start(u64::MAX, HOW[0]), seed).unwrap();
    world.disk.supply.left.store(CALLS_MAX, Ordering::Relaxed);
    for image in 1..=images {
        let story = format!("seed {seed}, image {image}");
        for _ in 0..ACTS_MAX {
            if world.disk.supply.is_cut() {
                break;
            }
            world.act();
        }
        world.disk.supply.cut();
        checkpoints += world.log.stats().checkpoints;
        let answers = world.answers();
        acknowledged += answers.answered - answers.refused;
        let World { log, writer, checkpoint, history, clock, .. } = world;
        let end = log.position();
        // Files are let go of before the file system is.
        drop((log, writer, checkpoint));
        let (disk, opened) = loop {
            machine.stop();
            // The power fails in every fifth recovery, too.
            let again = random.chance(200_000);
            let calls = if again { random.below(12) } else { 20 + random.below(CALLS_MAX) };
            let disk = machine.start(calls, HOW[random.below(2) as usize]);
            match open_by_hand(&disk, clock.clone(), false) {
                Ok(opened) => break (disk, opened),
                Err(_) if disk.supply.is_cut() => in_recovery += 1,
                Err(error) => panic!("{story}: {error}"),
            }
        };
        let (log, writer, recovered, kept, memory) = opened;
        let position = judge(&history, &recovered, &kept, answers.synced, &story);
        lost += end - position;
        let answers = Answers { written: position, synced: position, ..Answers::default() };
        world = World {
            disk,
            clock,
            log,
            record: Record::default(),
            writer,
            checkpoint: None,
            memory,
            history: BTreeMap::from([(position, kept.clone())]),
            kept,
            answers: Arc::new(Mutex::new(answers)),
            random: Seeded::new(random.next()),
        };
    }
    println!(
        "power lost {images} times, {in_recovery} more in recovery, {checkpoints} checkpoints, {acknowledged} answers kept, \
         {lost} bytes of records that nobody was answered for were lost, nothing torn"
    );
    assert!(
        checkpoints * 20 > images && acknowledged > images,
        "{checkpoints} checkpoints, {acknowledged} answers"
    );
    drop(world);
    machine.stop();
}
