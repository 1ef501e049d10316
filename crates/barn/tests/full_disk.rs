//! A node whose disk fills up: durable writes are refused with a reason, reads go on, and once there is room
//! so do writes; nothing that was acknowledged is lost, then or at the next start.
//!
//! It needs root, for a small file system of its own; without that it says so and does nothing.
#![forbid(unsafe_code)]

use barn::node::NodeConfig;
use barn::{Barn, Durability, Error, Table};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 256 << 10;
/// Far more values than the small file system has room for.
const PUTS_MAX: u32 = 2000;
/// How long the node may take to notice that there is room again: it looks every second or so.
const NOTICED_WITHIN: Duration = Duration::from_secs(60);

/// A file system in memory, gone afterwards.
struct Mounted(PathBuf);

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(args).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
    }
}

impl Mounted {
    fn new() -> Result<Self, String> {
        let at = std::env::temp_dir().join(format!("barn-full-disk-{}", std::process::id()));
        std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let mounted = Self(at);
        run("mount", &["-t", "tmpfs", "-o", "size=160m", "barn-test", &mounted.path()])?;
        Ok(mounted)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    fn make_room(&self) {
        run("mount", &["-o", "remount,size=2g", &self.path()]).expect("a larger file system");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", &self.path()]);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(data: &Path) -> (Barn, Table) {
    let mut config = NodeConfig::embedded().memory(1 << 30);
    config.data = Some(data.join("data"));
    config.durability = Durability::Logged;
    let barn = Barn::embedded_with(config).expect("a node").deadline(Duration::from_secs(2));
    let table = barn.table("kept").expect("a table").durability(Durability::Synced);
    (barn, table)
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE_BYTES / 4)
}

fn put(table: &Table, number: u32) -> Result<(), Error> {
    table.put(&number.to_be_bytes(), &value(number)).map(|_| ())
}

fn all_there(table: &Table, acknowledged: &[u32]) {
    for number in acknowledged {
        let found = table.get(&number.to_be_bytes()).expect("reads go on");
        assert!(found.is_some_and(|found| found[..] == value(*number)), "{number} was lost");
    }
}

#[test]
fn a_full_disk_stops_durable_writes_and_nothing_else() {
    let mounted = match Mounted::new() {
        Ok(mounted) => mounted,
        Err(why) => return println!("skipped: no file system of our own ({why}); it needs root"),
    };
    let (barn, table) = start(&mounted.0);
    let mut acknowledged = Vec::new();
    let mut refused = None;
    for number in 0..PUTS_MAX {
        match put(&table, number) {
            Ok(()) => acknowledged.push(number),
            // The one that met the full disk is not known to be there; those after it are refused.
            Err(error) if error.to_string().contains("must survive") => {
                refused = Some(error.to_string());
                break;
            }
            Err(_) => {}
        }
    }
    let refused = refused.expect("the disk is full, and nothing was refused");
    assert!(refused.contains("make room"), "it does not say what to do: {refused}");
    assert!(!acknowledged.is_empty());
    all_there(&table, &acknowledged);

    mounted.make_room();
    let since = Instant::now();
    while let Err(error) = put(&table, PUTS_MAX) {
        assert!(since.elapsed() < NOTICED_WITHIN, "there is room, and still: {error}");
        std::thread::sleep(Duration::from_millis(50));
    }
    acknowledged.push(PUTS_MAX);
    drop((barn, table));

    let (_barn, table) = start(&mounted.0);
    all_there(&table, &acknowledged);
    for number in 0..PUTS_MAX {
        let found = table.get(&number.to_be_bytes()).expect("it can be read");
        assert!(found.is_none_or(|found| found[..] == value(number)), "{number} is there in part");
    }
}
