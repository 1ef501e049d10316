//! Disk: named files in one directory, with what is durable after which call said plainly.
//!
//! What always holds: bytes are durable once [`DiskFile::sync`] has returned; a name that was
//! created, renamed or removed is durable once [`Disk::sync_names`] has. Before that a crash may
//! keep any part of it. After a failed `sync` nothing is known about what was written before:
//! the caller stops, and never syncs again and hopes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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
}

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
}

impl SystemDisk {
    /// The directory at `path`, made if it is not there.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self { directory: path.to_path_buf() })
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

    #[test]
    fn the_systems_disk_keeps_files() {
        let path = std::env::temp_dir().join(format!("barn-disk-{}", std::process::id()));
        let disk = SystemDisk::at(&path).unwrap();
        files_keep_what_they_are_told(&disk);
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert!(disk.create(name).is_err(), "{name:?} was taken for a name");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn the_simulated_disk_keeps_files() {
        files_keep_what_they_are_told(&SimulatedDisk::new(1));
    }
}
