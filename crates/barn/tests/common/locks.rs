//! A watcher of locks: reads the version words of objects over and over, straight from the nodes'
//! memory, and keeps for how long each was locked. It asks no client and no participant.

use super::LEASE;
use barn::Pointer;
use barn_cluster::{Directory, MemberId};
use barn_fabric::{ConnectOptions, Connection, RegionId, RemoteRegion, Rights};
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::transaction::{Hello, Renew};
use barn_transaction::wire::Method;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// A node as the watcher sees it.
struct Link {
    member: MemberId,
    connection: Connection,
    session: u64,
    regions: HashMap<RegionId, RemoteRegion>,
    renewed: Instant,
}

/// Looks at version words.
pub struct Watcher {
    directory: Arc<Directory>,
    links: Vec<Link>,
    sessions: u64,
    pointers: Vec<Pointer>,
    /// The locked word that was seen of each, and since when.
    locked: Vec<Option<(u64, Instant)>>,
    /// The longest that any was locked.
    pub longest: Duration,
    /// How often all were looked at.
    pub rounds: u64,
}

impl Watcher {
    pub fn new(directory: Arc<Directory>, pointers: Vec<Pointer>) -> Self {
        let locked = vec![None; pointers.len()];
        // Sessions are numbers that nobody else may choose.
        let sessions = u64::from(std::process::id()) << 32 | 0x5eed;
        Self { directory, links: Vec::new(), sessions, pointers, locked, longest: Duration::ZERO, rounds: 0 }
    }

    fn word(&mut self, pointer: Pointer) -> Option<VersionWord> {
        let region = pointer.address.region();
        let member = self.directory.primary(region)?;
        let at = match self.links.iter().position(|link| link.member == member) {
            Some(at) => at,
            None => {
                self.links.push(self.connect(member)?);
                self.sessions += 1;
                self.links.len() - 1
            }
        };
        let link = &mut self.links[at];
        let word = read(link, region, pointer);
        if word.is_none() {
            self.links.remove(at);
        }
        word
    }

    fn connect(&self, member: MemberId) -> Option<Link> {
        let configuration = self.directory.configuration();
        let address = configuration.member(member)?.addresses.first()?.clone();
        let options = ConnectOptions { deadline: LEASE, ..ConnectOptions::default() };
        let connection = Connection::connect(&address, options).wait().ok()?;
        let hello = Hello { session: self.sessions.into(), role: 0.into(), reserved: 0.into() };
        connection.call(Method::Hello as u16, hello.as_bytes(), &mut Vec::new()).wait().ok()?;
        let (session, regions, renewed) = (self.sessions, HashMap::new(), Instant::now());
        Some(Link { member, connection, session, regions, renewed })
    }

    /// Looks at all once; how many are locked now, of those that can be looked at.
    pub fn look(&mut self) -> usize {
        let mut now_locked = 0;
        for at in 0..self.pointers.len() {
            let Some(word) = self.word(self.pointers[at]) else {
                self.locked[at] = None;
                continue;
            };
            let now = Instant::now();
            if word.mode() == LockMode::Free {
                self.locked[at] = None;
                continue;
            }
            now_locked += 1;
            // Prepared and then closed is one lock; another version is another lock.
            match self.locked[at] {
                Some((version, since)) if version == word.version() => {
                    self.longest = self.longest.max(now - since);
                }
                _ => self.locked[at] = Some((word.version(), now)),
            }
        }
        self.rounds += 1;
        now_locked
    }

    /// Goes on looking on a thread of its own, until told to stop.
    pub fn start(mut self, pause: Duration) -> Watching {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            // ORDER: Relaxed: a flag that stands alone.
            while !told.load(Ordering::Relaxed) {
                self.look();
                std::thread::sleep(pause);
            }
            self
        });
        Watching { stop, thread: Some(thread) }
    }
}

fn read(link: &mut Link, region: RegionId, pointer: Pointer) -> Option<VersionWord> {
    if link.renewed.elapsed() > LEASE / 4 {
        let renew = Renew { session: link.session.into(), epoch: u64::MAX.into() };
        link.connection.call(Method::Renew as u16, renew.as_bytes(), &mut Vec::new()).wait().ok()?;
        link.renewed = Instant::now();
    }
    if !link.regions.contains_key(&region) {
        link.regions.insert(region, link.connection.open(region, Rights::READ).wait().ok()?);
    }
    let mut word = [0; 8];
    link.regions.get(&region)?.read(u64::from(pointer.address.offset()), &mut word).wait().ok()?;
    Some(VersionWord(u64::from_le_bytes(word)))
}

/// A watcher at work.
pub struct Watching {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Watcher>>,
}

impl Watching {
    pub fn end(mut self) -> Watcher {
        // ORDER: Relaxed, as in `Watcher::start`.
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("not yet ended").join().expect("the watcher goes on until it is told")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // ORDER: Relaxed, as in `Watcher::start`.
        self.stop.store(true, Ordering::Relaxed);
    }
}
