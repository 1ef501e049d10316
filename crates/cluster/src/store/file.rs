//! The embedded store: one file in the coordinator's data directory.
//!
//! The file is a line of text, `barn-cluster FORMAT CRC64 LENGTH`, and the configuration as JSON.
//! A new one is written whole beside it, synced, renamed into place, and the name synced; only
//! then has the configuration been replaced. So a crash at any step leaves the old or the new one.
//!
//! What always holds: one process has the file open (the data directory's lock is its owner's
//! business); after a failed write or sync the store stops, and a restart finds out what is there.

use super::leases::Leases;
use super::memory::check_replacement;
use super::{Answer, ConfigurationStore, StoreError, at_once};
use crate::checksum::crc64;
use crate::configuration::Configuration;
use crate::member::MemberId;
use crate::wire::RESPONSE_BYTES_MAX;
use barn_fabric::seam::Disk;
use barn_layout::planted;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const FILE: &str = "cluster";
const FILE_NEW: &str = "cluster.new";
const MAGIC: &str = "barn-cluster";
/// The format that is written, and the newest that can be read.
const FORMAT: u64 = 1;
/// No configuration in use is longer; a file that is was not written by this store.
const FILE_BYTES_MAX: u64 = RESPONSE_BYTES_MAX as u64;

/// Keeps the configuration in a file. Clones are the same store.
#[derive(Clone)]
pub struct FileStore {
    disk: Arc<dyn Disk>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    configuration: Option<Configuration>,
    leases: Leases,
    /// A write or sync has failed.
    stopped: bool,
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = self.lock().configuration.as_ref().map(|configuration| configuration.version);
        write!(f, "FileStore(version {version:?})")
    }
}

/// The file of a configuration.
fn render(configuration: &Configuration) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(configuration)?;
    let mut bytes = format!("{MAGIC} {FORMAT} {:016x} {}\n", crc64(&json), json.len()).into_bytes();
    bytes.extend_from_slice(&json);
    Ok(bytes)
}

/// The configuration of a file.
fn parse(bytes: &[u8]) -> Result<Configuration, StoreError> {
    let damaged = |why: &str| StoreError::Damaged { file: FILE.into(), why: why.into() };
    let head_bytes =
        bytes.iter().position(|byte| *byte == b'\n').ok_or(damaged("its first line is cut off"))?;
    let (head, json) = (&bytes[..head_bytes], &bytes[head_bytes + 1..]);
    let head = std::str::from_utf8(head).map_err(|_| damaged("its first line is no text"))?;
    let mut words = head.split(' ');
    if words.next() != Some(MAGIC) {
        return Err(damaged("it does not begin as a configuration does"));
    }
    let format = words
        .next()
        .and_then(|word| word.parse::<u64>().ok())
        .filter(|format| *format > 0)
        .ok_or(damaged("it names no format"))?;
    if format > FORMAT {
        return Err(StoreError::NewerFormat { file: FILE.into(), found: format, known: FORMAT });
    }
    let sum = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let length = words.next().and_then(|word| word.parse::<usize>().ok());
    let (Some(sum), Some(length), None) = (sum, length, words.next()) else {
        return Err(damaged("its first line makes no sense"));
    };
    if json.len() != length {
        return Err(damaged(&format!("it has {} bytes of {length}", json.len())));
    }
    if crc64(json) != sum {
        return Err(damaged("its checksum is wrong"));
    }
    let configuration: Configuration =
        serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))?;
    configuration.validate().map_err(|error| damaged(&error.to_string()))?;
    Ok(configuration)
}

fn failed(step: &'static str, file: &str) -> impl FnOnce(io::Error) -> StoreError {
    move |cause| StoreError::Disk { step, file: file.into(), cause }
}

impl FileStore {
    /// Opens the store in a directory, and reads what is there.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, StoreError> {
        let names = disk.list().map_err(failed("listing the directory of", FILE))?;
        let mut configuration = None;
        if names.iter().any(|name| name == FILE) {
            let file = disk.open(FILE).map_err(failed("opening", FILE))?;
            let bytes = file.len().map_err(failed("measuring", FILE))?;
            if bytes > FILE_BYTES_MAX {
                let why = format!("it has {bytes} bytes, and {FILE_BYTES_MAX} is the most");
                return Err(StoreError::Damaged { file: FILE.into(), why });
            }
            let mut content = vec![0; bytes as usize];
            let read = file.read_at(0, &mut content).map_err(failed("reading", FILE))?;
            configuration = Some(parse(&content[..read])?);
            // A rename that was seen may not be durable yet; what is shown to others has to be.
            disk.sync_names().map_err(failed("syncing the directory of", FILE))?;
        }
        let state = State { configuration, leases: Leases::default(), stopped: false };
        Ok(Self { disk, state: Arc::new(Mutex::new(state)) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes a configuration beside the file and puts it in its place.
    fn write(&self, configuration: &Configuration) -> Result<(), StoreError> {
        let bytes = render(configuration).map_err(failed("rendering", FILE))?;
        match self.disk.remove(FILE_NEW) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing", FILE_NEW)(error));
            }
            _ => {}
        }
        let file = self.disk.create(FILE_NEW).map_err(failed("making", FILE_NEW))?;
        file.write_at(0, &bytes).map_err(failed("writing", FILE_NEW))?;
        if !planted("store_rename_unsynced") {
            file.sync().map_err(failed("syncing", FILE_NEW))?;
        }
        self.disk.rename(FILE_NEW, FILE).map_err(failed("renaming", FILE_NEW))?;
        self.disk.sync_names().map_err(failed("syncing the directory of", FILE))
    }

    fn replace_now(&self, expected: u64, configuration: &Configuration) -> Result<(), StoreError> {
        let mut state = self.lock();
        if state.stopped {
            return Err(StoreError::Stopped);
        }
        let current = state.configuration.as_ref().map_or(0, |configuration| configuration.version);
        check_replacement(current, expected, configuration)?;
        let written = self.write(configuration);
        match &written {
            Ok(()) => state.configuration = Some(configuration.clone()),
            Err(_) => state.stopped = true,
        }
        written
    }

    fn loaded(&self) -> Result<Option<Configuration>, StoreError> {
        let state = self.lock();
        if state.stopped { Err(StoreError::Stopped) } else { Ok(state.configuration.clone()) }
    }
}

impl ConfigurationStore for FileStore {
    fn load(&self) -> Answer<'_, Option<Configuration>> {
        at_once(self.loaded())
    }

    fn replace<'a>(&'a self, expected: u64, configuration: &'a Configuration) -> Answer<'a, ()> {
        at_once(self.replace_now(expected, configuration))
    }

    fn watch(&self, known_version: u64) -> Answer<'_, Option<Configuration>> {
        let loaded = self.loaded();
        at_once(loaded.map(|newest| newest.filter(|newest| newest.version > known_version)))
    }

    fn grant(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, ()> {
        self.lock().leases.grant(member, now, lease);
        at_once(Ok(()))
    }

    fn renew(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, bool> {
        at_once(Ok(self.lock().leases.renew(member, now, lease)))
    }

    fn release(&self, member: MemberId) -> Answer<'_, ()> {
        self.lock().leases.release(member);
        at_once(Ok(()))
    }

    fn expired(&self, now: Duration) -> Answer<'_, Vec<MemberId>> {
        at_once(Ok(self.lock().leases.expired(now)))
    }

    fn ends_at(&self, member: MemberId) -> Answer<'_, Option<Duration>> {
        at_once(Ok(self.lock().leases.ends_at(member)))
    }
}
