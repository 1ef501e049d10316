//! Writes an initramfs: a cpio archive in the kernel's "newc" form (its document
//! `driver-api/early-userspace/buffer-format`), neither compressed nor signed.
//!
//! Why not the program cpio: it would copy from a directory, and device nodes in a directory need
//! root. Why not compressed: the guest would unpack it on an emulated processor.
//!
//! What always holds: a directory comes before what is in it, because the kernel makes none by
//! itself; nothing is in it twice.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;
const CHARACTERS: u32 = 0o020_600;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
}

impl Archive {
    /// A directory, and those above it.
    pub(super) fn directory(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || self.names.contains(path) {
            return;
        }
        self.parents(path);
        self.entry(path, DIRECTORY, (0, 0), &[]);
    }

    /// A file that anybody may run. The first of its name counts.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.add(path, FILE, (0, 0), content);
    }

    /// A symbolic link at `path` to `to`.
    pub(super) fn link(&mut self, path: &str, to: &str) {
        self.add(path, LINK, (0, 0), to.as_bytes());
    }

    /// A device of characters. Needs no rights: it becomes a device in the guest only.
    pub(super) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.add(path, CHARACTERS, (major, minor), &[]);
    }

    /// Whether something of this name is in it.
    pub(super) fn has(&self, path: &str) -> bool {
        self.names.contains(path.trim_matches('/'))
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn add(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        let path = path.trim_matches('/');
        if self.names.contains(path) {
            return;
        }
        self.parents(path);
        self.entry(path, mode, device, content);
    }

    fn parents(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, (major, minor): (u32, u32), content: &[u8]) {
        self.names.insert(name.to_owned());
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 files");
        // The format has 32 bits for it; a binary of 4 GiB would not fit into the guest either.
        let size = u32::try_from(content.len()).expect("files are shorter than 4 GiB");
        let name_bytes = u32::try_from(name.len() + 1).expect("names are short");
        let links = 1;
        let fields = [number, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_bytes, 0]
            .map(|f| format!("{f:08x}"));
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend_from_slice(fields.concat().as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back: names, modes and contents.
    fn read(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut at = 0;
        let mut list = Vec::new();
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701", "at {at}");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).expect("ASCII");
                u32::from_str_radix(text, 16).expect("hexadecimal") as usize
            };
            let (mode, size, name_bytes) = (field(1), field(6), field(11));
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_bytes - 1].to_vec()).expect("UTF-8");
            let content = (at + 110 + name_bytes).next_multiple_of(4);
            list.push((name.clone(), mode as u32, bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(at, bytes.len());
                return list;
            }
        }
    }

    #[test]
    fn what_goes_in_comes_out_with_its_directories_before_it() {
        let mut archive = Archive::default();
        archive.file("/usr/lib/x", b"12345");
        archive.file("/usr/lib/x", b"another");
        archive.link("lib", "usr/lib");
        archive.device("/dev/console", 5, 1);
        assert!(archive.has("/usr/lib/x") && !archive.has("/usr/lib/y"));
        let list = read(&archive.finish());
        let names: Vec<&str> = list.iter().map(|entry| entry.0.as_str()).collect();
        assert_eq!(names, ["usr", "usr/lib", "usr/lib/x", "lib", "dev", "dev/console", "TRAILER!!!"]);
        assert_eq!(list[2], ("usr/lib/x".into(), FILE, b"12345".to_vec()));
        assert_eq!(list[3].2, b"usr/lib");
    }
}
