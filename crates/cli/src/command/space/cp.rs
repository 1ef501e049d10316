//! `barn space cp`: copies a file into a space, or a range of a space into a file.
//!
//! What always holds: what is in memory is one block, however long the file is; a file has its name only
//! once it is whole; of a copy-on-write range readers see the old bytes or the new ones, never some of both.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barn::Barn;
use barn::space::{RangeInfo, Space};
use serde_json::json;

use super::place::Place;
use super::{KeyArgs, failed};
use crate::bytes::human;
use crate::command::export::beside;
use crate::command::{Exit, print_json, say, usage};
use crate::failure::Failure;
use crate::node::NodeArgs;
use crate::progress::Progress;

/// What is moved at once.
const BLOCK_BYTES: usize = 4 << 20;

/// How often chunks that are being cleared are looked for, and how long between: a second in all.
const LOOKS_MAX: u32 = 50;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What to copy where; its help is on [`super::Action::Cp`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn space cp edges.bin space:graph\n  \
    barn space cp space:graph/0x4000000 - | sha256sum\n  \
    barn space cp new.bin space:model/0x4000000 --key $WRITER_KEY")]
pub struct Args {
    /// A file, or space:NAME[/ADDRESS].
    #[arg(value_name = "FROM")]
    pub from: Place,

    /// A file, or space:NAME[/ADDRESS]; `-` writes standard output.
    #[arg(value_name = "TO")]
    pub to: Place,

    /// Make a new range copy-on-write, so that it can be replaced at once later.
    #[arg(long)]
    pub copy_on_write: bool,

    /// The key.
    #[command(flatten)]
    pub key: KeyArgs,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// What was copied.
struct Copied {
    address: u64,
    bytes: u64,
}

/// Copies.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let begun = Instant::now();
    let (name, path, copied) = match (&args.from, &args.to) {
        (Place::File(path), Place::Space { name, address }) => {
            (name, path, import(args, path, name, *address)?)
        }
        (Place::Space { name, address }, Place::File(path)) => {
            (name, path, export(args, name, *address, path)?)
        }
        _ => return Err(usage("one of the two is a file and the other is space:NAME[/ADDRESS]".into())),
    };
    let (Copied { address, bytes }, seconds) = (copied, begun.elapsed().as_secs_f64());
    let to_output = matches!(&args.to, Place::File(path) if path == Path::new("-"));
    match json {
        _ if to_output => {}
        true => print_json(
            &json!({ "space": name, "address": address, "bytes": bytes, "file": path, "seconds": seconds }),
        )?,
        false => say(&format!("{} bytes, {}, space:{name}/{address:#x}", bytes, human(bytes)))?,
    }
    Ok(Exit::Ok)
}

fn named(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| Failure::plain(format!("{}: {error}", path.display())).into()
}

fn import(args: &Args, path: &Path, name: &str, address: Option<u64>) -> io::Result<Copied> {
    let mut file = File::open(path).map_err(named(path))?;
    let metadata = file.metadata().map_err(named(path))?;
    if !metadata.is_file() {
        return Err(usage(format!("{} is no plain file: its length must be known", path.display())));
    }
    let bytes = metadata.len();
    if bytes == 0 {
        return Err(usage(format!("{} is empty, and a range has at least one byte", path.display())));
    }
    let barn = args.node.connect()?;
    let space = args.key.join(&barn, name)?;
    let address = match address {
        Some(address) => {
            write_over(&barn, &space, address, bytes, path, &mut file)?;
            address
        }
        None => write_new(args, &space, bytes, path, &mut file)?,
    };
    // What was copied is seen by everybody before this says so.
    Ok(Copied { address, bytes })
}

/// Copies a file into a range of its own.
fn write_new(args: &Args, space: &Space, bytes: u64, path: &Path, file: &mut File) -> io::Result<u64> {
    // A copy-on-write range that is written needs its own chunks and fresh ones.
    let copies = if args.copy_on_write { 2 } else { 1 };
    make_room(space, bytes, copies)?;
    let mut range = match args.copy_on_write {
        true => space.alloc_copy_on_write(bytes).map_err(failed)?,
        false => space.alloc(bytes).map_err(failed)?,
    };
    let address = range.address();
    let copied = match args.copy_on_write {
        true => replace(&mut range, bytes, path, file),
        false => range
            .map()
            .map_err(failed)
            .and_then(|mapping| copy_in(bytes, path, file, |at, block| mapping.write(at, block))),
    };
    if copied.is_err() {
        // Half a file in a new range helps nobody.
        let _ = space.free(address);
    }
    copied.map(|()| address)
}

/// Copies a file into a range that is there.
fn write_over(
    barn: &Barn,
    space: &Space,
    address: u64,
    bytes: u64,
    path: &Path,
    file: &mut File,
) -> io::Result<()> {
    let range = find(barn, space.name(), Some(address))?;
    if range.bytes < bytes {
        return Err(Failure::new(
            format!("the range at {address:#x} has {} bytes and the file {bytes}", range.bytes),
            "copy it to a new one: leave the address away",
        )
        .into());
    }
    let mut held = space.init_to_write(address, bytes).map_err(failed)?;
    match range.copy_on_write {
        true => {
            make_room(space, bytes, 1)?;
            replace(&mut held, bytes, path, file)
        }
        false => {
            let mapping = held.map().map_err(failed)?;
            copy_in(bytes, path, file, |at, block| mapping.write(at, block))
        }
    }
}

/// Sees to it that so much is reserved and free, so many times. Chunks that were used a moment ago count as
/// used until they have been cleared: a space that has enough in all is given a little time.
fn make_room(space: &Space, bytes: u64, copies: u64) -> io::Result<()> {
    let needed = bytes.next_multiple_of(space.chunk_bytes()).saturating_mul(copies);
    for look in 0.. {
        let info = space.stat().map_err(failed)?;
        let free = info.reserved_bytes.saturating_sub(info.used_bytes);
        let bound: u64 = info.ranges.iter().map(|range| range.bytes.next_multiple_of(info.chunk_bytes)).sum();
        if free >= needed {
            break;
        }
        if look == LOOKS_MAX || info.reserved_bytes.saturating_sub(bound) < needed {
            space.reserve(needed - free).map_err(failed)?;
            break;
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    Ok(())
}

/// Copies a file into the next version of a copy-on-write range, and switches to it.
fn replace(range: &mut barn::space::Range, bytes: u64, path: &Path, file: &mut File) -> io::Result<()> {
    let mut writer = range.lease(None).map_err(failed)?;
    let mut renewed = Instant::now();
    copy_in(bytes, path, file, |at, block| {
        // Writes that need no fresh chunk do not renew the lease.
        if renewed.elapsed() > writer.lease() / 3 {
            writer.renew()?;
            renewed = Instant::now();
        }
        writer.write(at, block)
    })?;
    writer.commit().map_err(failed)
}

fn copy_in(
    bytes: u64,
    path: &Path,
    file: &mut File,
    mut write: impl FnMut(u64, &[u8]) -> Result<(), barn::Error>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES.min(bytes as usize)];
    let mut progress = Progress::new(bytes);
    let mut at = 0;
    while at < bytes {
        let length = block.len().min((bytes - at) as usize);
        // A file that has grown shorter meanwhile ends here.
        file.read_exact(&mut block[..length]).map_err(named(path))?;
        write(at, &block[..length]).map_err(failed)?;
        at += length as u64;
        progress.reach(at, &human(at));
    }
    Ok(())
}

fn export(args: &Args, name: &str, address: Option<u64>, path: &Path) -> io::Result<Copied> {
    let barn = args.node.connect()?;
    let range = find(&barn, name, address)?;
    let space = args.key.join(&barn, name)?;
    let held = space.init(range.address, range.bytes).map_err(failed)?;
    let mapping = held.map().map_err(failed)?;
    let copied = Copied { address: range.address, bytes: range.bytes };
    if path == Path::new("-") {
        copy_out(&mapping, &mut io::stdout().lock())?;
        return Ok(copied);
    }
    // A pipe or a device is written as it is; a file is another one until it is whole.
    let plain = fs::metadata(path).map_or(true, |metadata| metadata.is_file());
    let partial: PathBuf = if plain { beside(path) } else { path.to_path_buf() };
    let mut file = File::create(&partial).map_err(named(path))?;
    let written = copy_out(&mapping, &mut file).and_then(|()| match plain {
        true => fs::rename(&partial, path).map_err(named(path)),
        false => Ok(()),
    });
    if written.is_err() && plain {
        let _ = fs::remove_file(&partial);
    }
    written.map(|()| copied)
}

fn copy_out(mapping: &barn::space::Mapping, to: &mut impl Write) -> io::Result<()> {
    let bytes = mapping.bytes();
    let mut block = vec![0; BLOCK_BYTES.min(bytes as usize)];
    let mut progress = Progress::new(bytes);
    let mut at = 0;
    while at < bytes {
        let length = block.len().min((bytes - at) as usize);
        mapping.read(at, &mut block[..length]).map_err(failed)?;
        to.write_all(&block[..length])?;
        at += length as u64;
        progress.reach(at, &human(at));
    }
    to.flush()
}

/// The range at an address, or the only one.
fn find(barn: &Barn, name: &str, address: Option<u64>) -> io::Result<RangeInfo> {
    let info = barn.spaces().stat(name).map_err(failed)?;
    let mut ranges = info.ranges.into_iter();
    let found = match address {
        Some(address) => ranges.find(|range| range.address == address),
        None => match (ranges.next(), ranges.next()) {
            (Some(only), None) => Some(only),
            (None, _) => None,
            (Some(_), Some(_)) => {
                let hint = format!("name one by its address; `barn space stat {name}` shows them");
                return Err(Failure::new(format!("space `{name}` has several ranges"), hint).into());
            }
        },
    };
    let what = address.map_or("no range".into(), |address| format!("no range at {address:#x}"));
    let hint = format!("`barn space stat {name}` shows what there is");
    found.ok_or_else(|| Failure::new(format!("space `{name}` has {what}"), hint).into())
}
