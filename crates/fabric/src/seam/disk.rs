//! Disk: named files in one directory, with what is durable after which call said plainly.
//!
//! What always holds: bytes are durable once [`DiskFile::sync`] has returned; a name that was
//! created, renamed or removed is durable once [`Disk::sync_names`] has. Before that a crash may
//! keep any part of it. After a failed `sync` nothing is known about what was written before:
//! the caller stops, and never syncs again and hopes.

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a file that passes the page cache by asks for: offsets, lengths and memory of writes are
/// multiples of this. (512 would do on many disks; 4096 does on all that are in use.)
pub const DIRECT_UNIT_BYTES: usize = 4096;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Opens a file that is there.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a file that was not there.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in place of a file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes created, renamed and removed names durable.
    fn sync_names(&self) -> io::Result<()>;

    /// Makes a file for a log that was not there: `bytes` long, zero, and with room on the disk for
    /// all of them, so that writes within it need none. It may pass the page cache by: write only
    /// whole units of [`DIRECT_UNIT_BYTES`] from memory that is aligned to them, and read it so, too, or
    /// through [`Disk::open`].
    fn create_log(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that [`Disk::create_log`] made, for writing in the same way, and for reading whole units
    /// into memory that is aligned to them.
    fn open_log(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Takes a file, made if it is not there, for one holder alone, until the guard is dropped or
    /// the process ends. `WouldBlock` if somebody has it: the file then holds its process's number.
    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>>;
}

/// Holds a file that was locked. Dropped, it lets go.
pub trait DiskLock: Send + Sync {}

impl DiskLock for File {}

/// One file.
pub trait DiskFile: Send + Sync {
    /// How long it is.
    fn len(&self) -> io::Result<u64>;

    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads as much as is there, at most all of `into`; says how much.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `from`.
    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Writes all of `from` at the end; says where that was. One writer at a time.
    fn append(&self, from: &[u8]) -> io::Result<u64> {
        let offset = self.len()?;
        self.write_at(offset, from)?;
        Ok(offset)
    }

    /// Cuts the file off, or lengthens it by zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the machine.
#[derive(Clone, Debug)]
pub struct SystemDisk {
    directory: PathBuf,
    /// Whether the file system has refused to pass its cache by.
    buffered: Arc<AtomicBool>,
}

impl SystemDisk {
    /// The directory at `path`, made if it is not there.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self { directory: path.to_path_buf(), buffered: Arc::new(AtomicBool::new(false)) })
    }

    /// Opens a file past the page cache, if the file system lets us.
    fn open_direct(&self, name: &str, options: &mut OpenOptions) -> io::Result<File> {
        let path = self.path(name)?;
        // ORDER: Relaxed: a remembered refusal; whoever misses it is refused once more.
        if !self.buffered.load(Ordering::Relaxed) {
            let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(&path);
            match direct {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                other => return other,
            }
            // ORDER: Relaxed, as above.
            self.buffered.store(true, Ordering::Relaxed);
            // A refused open may have made the file all the same (Linux does so).
            if path.exists() {
                return OpenOptions::new().read(true).write(true).open(path);
            }
        }
        options.open(path)
    }

    /// Reserves room, and finds out whether writes past the cache work, as not every file system
    /// that takes the flag takes them.
    fn reserve(&self, name: &str, file: File, bytes: u64) -> io::Result<File> {
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP) => File::set_len(&file, bytes)?,
            other => other?,
        }
        let mut memory = vec![0; 2 * DIRECT_UNIT_BYTES];
        let skip = memory.as_ptr().align_offset(DIRECT_UNIT_BYTES);
        match file.write_all_at(&memory[skip..][..DIRECT_UNIT_BYTES], 0) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            other => return other.map(|()| file),
        }
        // ORDER: Relaxed, as in `open_direct`.
        self.buffered.store(true, Ordering::Relaxed);
        memory.clear();
        OpenOptions::new().read(true).write(true).open(self.path(name)?)
    }

    /// A name is one path component: no file outside the directory is ever reached.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is no file name")));
        }
        Ok(self.directory.join(name))
    }
}

impl Disk for SystemDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).open(self.path(name)?)?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(true).create_new(true).open(self.path(name)?)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn create_log(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.open_direct(name, OpenOptions::new().read(true).write(true).create_new(true))?;
        match self.reserve(name, file, bytes) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => {
                // Half a file would hold the room that is short.
                let _ = std::fs::remove_file(self.path(name)?);
                Err(error)
            }
        }
    }

    fn open_log(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.open_direct(name, OpenOptions::new().read(true).write(true))?))
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        let path = self.path(name)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let pid = format!("{}\n", std::process::id());
        File::set_len(&file, 0)?;
        file.write_all_at(pid.as_bytes(), 0)?;
        Ok(Box::new(file))
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match FileExt::read_at(self, &mut into[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.write_all_at(from, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::SimulatedDisk;

    /// The same story on both.
    fn files_keep_what_they_are_told(disk: &dyn Disk) {
        let file = disk.create("one").unwrap();
        assert!(file.is_empty().unwrap());
        assert!(disk.create("one").is_err(), "made twice");
        assert_eq!(file.append(b"hello").unwrap(), 0);
        assert_eq!(file.append(b" world").unwrap(), 5);
        file.write_at(0, b"J").unwrap();
        file.sync().unwrap();
        disk.rename("one", "two").unwrap();
        disk.sync_names().unwrap();
        assert_eq!(disk.list().unwrap(), ["two"]);
        assert!(disk.open("one").is_err());
        let again = disk.open("two").unwrap();
        let mut into = [0; 32];
        assert_eq!(again.read_at(0, &mut into).unwrap(), 11);
        assert_eq!(&into[..11], b"Jello world");
        assert_eq!(again.read_at(11, &mut into).unwrap(), 0);
        again.set_len(3).unwrap();
        assert_eq!(again.len().unwrap(), 3);
        disk.remove("two").unwrap();
        assert!(disk.remove("two").is_err());
        assert!(disk.list().unwrap().is_empty());
    }

    /// The same story on both.
    fn logs_have_room_and_locks_have_one_holder(disk: &dyn Disk) {
        let file = disk.create_log("log", 3 * DIRECT_UNIT_BYTES as u64).unwrap();
        assert!(disk.create_log("log", 4096).is_err(), "made twice");
        assert_eq!(file.len().unwrap(), 3 * DIRECT_UNIT_BYTES as u64);
        let mut memory = vec![7; 2 * DIRECT_UNIT_BYTES];
        let skip = memory.as_ptr().align_offset(DIRECT_UNIT_BYTES);
        file.write_at(DIRECT_UNIT_BYTES as u64, &memory[skip..][..DIRECT_UNIT_BYTES]).unwrap();
        file.sync().unwrap();
        memory[skip..].fill(8);
        let again = disk.open_log("log").unwrap();
        again.write_at(2 * DIRECT_UNIT_BYTES as u64, &memory[skip..][..DIRECT_UNIT_BYTES]).unwrap();
        let mut all = vec![9; 4 * DIRECT_UNIT_BYTES];
        assert_eq!(disk.open("log").unwrap().read_at(0, &mut all).unwrap(), 3 * DIRECT_UNIT_BYTES);
        for (unit, byte) in [0, 7, 8].into_iter().enumerate() {
            assert!(all[unit * DIRECT_UNIT_BYTES..][..DIRECT_UNIT_BYTES].iter().all(|found| *found == byte));
        }
        disk.remove("log").unwrap();

        let held = disk.lock("lock").unwrap();
        let refused = disk.lock("lock").err().expect("locked twice");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        drop(disk.lock("lock").unwrap());
        disk.remove("lock").unwrap();
    }

    #[test]
    fn the_systems_disk_keeps_files() {
        let path = std::env::temp_dir().join(format!("barn-disk-{}", std::process::id()));
        let disk = SystemDisk::at(&path).unwrap();
        files_keep_what_they_are_told(&disk);
        logs_have_room_and_locks_have_one_holder(&disk);
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(disk.create(name).is_err(), "{name:?} was taken for a name");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_simulated_disk_keeps_files() {
        files_keep_what_they_are_told(&SimulatedDisk::new(1));
        logs_have_room_and_locks_have_one_holder(&SimulatedDisk::new(2));
    }
}
