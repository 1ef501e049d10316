//! Nodes as processes of their own, that are killed and come back.

use crate::{PATIENCE, argument, number};
use barn::Durability;
use barn::node::{Node, NodeConfig};
use barn_fabric::seam::{Random, Seeded};
use barn_log::{FAILPOINTS, REACHED};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Small, so that checkpoints come often.
const CHECKPOINT_BYTES: u64 = 64 << 10;
const WINDOW_MS: u64 = 100;
/// A block for each length of object in each region: values here have many lengths.
const MEMORY_BYTES: u64 = 160 << 20;
/// Short, so that a node that was killed is soon back; and twice as long as a client may take to read an answer that
/// the node gave before it died, or the answer would be taken for one of the next life's.
const LEASE: Duration = Duration::from_millis(300);
/// Out of so many cycles, one ends at a failpoint.
const FAILPOINT_EVERY: u64 = 2;

/// When a node ended: between these two moments. What is acknowledged after the second is its next life's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// It was alive then.
    pub(crate) alive: Instant,
    /// It was dead then, and not yet back.
    pub(crate) dead: Instant,
    /// Its next life has ended, too, before anything was compared: what that one acknowledged as logged may
    /// be lost like the rest.
    pub(crate) again: bool,
}

/// A node's process.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    child: Child,
    /// Whether something in it will kill it.
    armed: Option<&'static str>,
    /// When that was. The process may be there for a while longer: its threads wait for the disk.
    reached: Arc<OnceLock<Instant>>,
}

/// Passes on what a node says on its standard error; keeps the moment at which it comes to its failpoint.
fn listen(stderr: ChildStderr, reached: &OnceLock<Instant>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.starts_with(REACHED) {
            true => _ = reached.set(Instant::now()),
            false => eprintln!("{line}"),
        }
    }
}

impl NodeProcess {
    /// The node's side: serves until its parent is gone.
    pub(crate) fn serve(place: &str) -> Result<(), String> {
        let place = Path::new(place);
        let config = NodeConfig {
            shm: Some(place.join("node.sock")),
            data: Some(place.join("data")),
            durability: Durability::Logged,
            window: Duration::from_millis(number("--window-ms", WINDOW_MS)),
            checkpoint_bytes: CHECKPOINT_BYTES,
            memory_bytes: MEMORY_BYTES,
            region_bytes: 16 << 20,
            lease: LEASE,
            join: argument("--join"),
            ..NodeConfig::default()
        };
        let node = Node::start(config).map_err(|error| error.to_string())?;
        println!("ready {}", node.recovery().map(ToString::to_string).unwrap_or_default());
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(node);
        Ok(())
    }

    fn spawn(
        place: &Path,
        join: Option<&str>,
        armed: Option<&'static str>,
        time: u64,
    ) -> Result<Self, String> {
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(exe);
        command.arg("--serve").arg(place);
        command.args(["--window-ms", &number("--window-ms", WINDOW_MS).to_string()]);
        command.args(join.iter().flat_map(|address| ["--join", address]));
        if let Some(name) = armed {
            command.env("BARN_FAILPOINT", format!("{name}=kill@{time}"));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("a node: {error}"))?;
        let reached = Arc::new(OnceLock::new());
        if let Some(stderr) = child.stderr.take() {
            let reached = reached.clone();
            std::thread::spawn(move || listen(stderr, &reached));
        }
        Ok(Self { child, armed, reached })
    }

    /// Waits until it serves; false if it was killed on its way there, as it was meant to be.
    fn await_ready(&mut self) -> Result<bool, String> {
        let Some(stdout) = self.child.stdout.take() else { return Ok(true) };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        match line.starts_with("ready") {
            true => Ok(true),
            false if self.armed.is_some() && line.is_empty() => {
                let _ = self.child.wait();
                Ok(false)
            }
            false => Err(format!("the node did not come back: {}", line.trim())),
        }
    }

    fn is_dead(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

/// A node's place: its directory, and the process that is there now.
#[derive(Debug)]
struct Seat {
    place: PathBuf,
    process: NodeProcess,
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Cluster {
    directory: PathBuf,
    seats: Vec<Seat>,
    ends: BTreeMap<&'static str, u64>,
}

impl Cluster {
    pub(crate) fn start(nodes: u64) -> Result<Self, String> {
        let base = argument("--data").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = base.join(format!("barn-crash-{}-{}", std::process::id(), number("--seed", 1)));
        let mut cluster = Self { directory, seats: Vec::new(), ends: BTreeMap::new() };
        for number in 0..nodes {
            let place = cluster.directory.join(format!("node-{number}"));
            std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
            let mut process = NodeProcess::spawn(&place, cluster.first().as_deref(), None, 1)?;
            process.await_ready()?;
            cluster.seats.push(Seat { place, process });
        }
        Ok(cluster)
    }

    fn first(&self) -> Option<String> {
        self.addresses().first().cloned()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.seats.iter().map(|seat| format!("shm:{}", seat.place.join("node.sock").display())).collect()
    }

    /// How the nodes ended.
    pub(crate) fn ends(&self) -> String {
        let ends: Vec<_> = self.ends.iter().map(|(name, count)| format!("{name} {count}")).collect();
        ends.join(", ")
    }

    /// Gives a node that will kill itself the time to write what it has acknowledged, or to die of it: while all is
    /// compared nothing may be lost any more. Whether one has died.
    pub(crate) fn settle(&mut self) -> Result<bool, String> {
        let until = Instant::now() + Duration::from_millis(number("--window-ms", WINDOW_MS));
        let armed = |seat: &Seat| seat.process.armed.is_some();
        while self.seats.iter().any(armed) && Instant::now() < until {
            if self.seats.iter_mut().any(|seat| seat.process.is_dead()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.revive()
    }

    /// Brings back a node that has killed itself in the meantime; whether one had.
    pub(crate) fn revive(&mut self) -> Result<bool, String> {
        let mut died = false;
        for at in 0..self.seats.len() {
            let join = (at > 0).then(|| self.first()).flatten();
            let Seat { place, process } = &mut self.seats[at];
            if process.is_dead() {
                let name = process.armed.ok_or("a node ended by itself")?;
                *self.ends.entry(name).or_default() += 1;
                *process = NodeProcess::spawn(place, join.as_deref(), None, 1)?;
                process.await_ready()?;
                died = true;
            }
        }
        Ok(died)
    }

    /// Kills a node, or waits a while for one to kill itself, and brings it back, perhaps to be killed
    /// on its way.
    pub(crate) fn kill_and_restart(&mut self, random: &mut Seeded) -> Result<End, String> {
        // One that will kill itself goes first: it must not do so while all is compared.
        let armed = self.seats.iter().position(|seat| seat.process.armed.is_some());
        let at = armed.unwrap_or_else(|| random.below(self.seats.len() as u64) as usize);
        let join = (at > 0).then(|| self.first()).flatten();
        let Seat { place, process } = &mut self.seats[at];
        let mut alive = Instant::now();
        if process.armed.is_some() {
            // It may be far from there: then it is killed all the same.
            let patience = alive + Duration::from_millis(300);
            while !process.is_dead() && Instant::now() < patience {
                alive = Instant::now();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        let end = match (process.is_dead(), process.armed) {
            (true, Some(name)) => name,
            (true, None) => return Err("the node ended by itself".into()),
            (false, _) => {
                alive = Instant::now();
                process
                    .child
                    .kill()
                    .and_then(|()| process.child.wait())
                    .map_err(|error| error.to_string())?;
                "killed"
            }
        };
        // It may have killed itself before anybody looked, and what was seen since was a process that was dying.
        if let Some(reached) = process.reached.get() {
            alive = alive.min(*reached);
        }
        *self.ends.entry(end).or_default() += 1;
        let since = Instant::now();
        loop {
            let armed = (random.below(FAILPOINT_EVERY) == 0)
                .then(|| FAILPOINTS[random.below(FAILPOINTS.len() as u64) as usize]);
            *process = NodeProcess::spawn(place, join.as_deref(), armed, 1 + random.below(4))?;
            if process.await_ready()? {
                // Answers of a node that has died are still in its clients' memory, and on a busy machine
                // they are read late. The next life answers nobody before the last one's lease is over.
                return Ok(End { alive, dead: since + LEASE / 2, again: false });
            }
            *self.ends.entry(armed.unwrap_or("start")).or_default() += 1;
            if since.elapsed() > PATIENCE {
                return Err("the node does not come back".into());
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for seat in &mut self.seats {
            let _ = seat.process.child.kill();
            let _ = seat.process.child.wait();
        }
        if !std::thread::panicking() && argument("--keep").is_none() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}
