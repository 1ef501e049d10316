//! `barn export`: writes the entries of a table into a file.
//!
//! What always holds: a file has its name only once it is whole; what `barn import` reads from it is
//! the table as it was met by a scan.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::command::{Exit, print_json, say};
use crate::failure::Failure;
use crate::node::{NodeArgs, open_table};
use crate::progress::Progress;
use crate::transfer::{Entry, Format, Sink, csv, json_lines};

/// What to write where; its help is on [`super::Command::Export`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn export users.csv --table users\n  \
    barn export --prefix session: | gzip > sessions.jsonl.gz")]
pub struct Args {
    /// The file; `-`, or none, writes standard output.
    pub file: Option<PathBuf>,

    /// The table.
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "BARN_TABLE")]
    pub table: String,

    /// The form of the file [default: what its name ends in; jsonl otherwise].
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Only keys that begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<OsString>,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Writes the table.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let path = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let table = open_table(&args.node.connect()?, &args.table)?;
    let format = args.format.unwrap_or_else(|| Format::of(path));
    let Some(path) = path else {
        // A bar among the entries would make both unreadable.
        let out = io::stdout();
        let bar = !out.is_terminal();
        write(args, &table, format, bar, out.lock())?;
        return Ok(Exit::Ok);
    };
    let named = |error: io::Error| match Failure::of(&error) {
        failure if error.get_ref().is_some() => io::Error::from(failure),
        failure => Failure::plain(format!("{}: {failure}", path.display())).into(),
    };
    // A pipe or a device is written as it is; a file is another one until it is whole.
    let plain = fs::metadata(path).map_or(true, |metadata| metadata.is_file());
    let partial = if plain { beside(path) } else { path.to_path_buf() };
    let file = File::create(&partial).map_err(named)?;
    let written = write(args, &table, format, true, file).and_then(|written| {
        if plain {
            fs::rename(&partial, path)?;
        }
        Ok(written)
    });
    if written.is_err() && plain {
        let _ = fs::remove_file(&partial);
    }
    let written = written.map_err(named)?;
    match json {
        true => print_json(&json!({ "table": args.table, "file": path, "entries": written }))?,
        false => say(&format!("wrote {written} entries to {}", path.display()))?,
    }
    Ok(Exit::Ok)
}

/// The name of a file that is not whole yet.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Writes the entries; gives how many there were.
fn write(
    args: &Args,
    table: &barn::Table,
    format: Format,
    bar: bool,
    to: impl Write + 'static,
) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let prefix = args.prefix.as_ref().map_or(&b""[..], |prefix| prefix.as_bytes());
    let to = BufWriter::with_capacity(64 << 10, to);
    let mut sink: Box<dyn Sink> = match format {
        Format::Jsonl => Box::new(json_lines::Writer(to)),
        Format::Csv => Box::new(csv::Writer::new(to)?),
    };
    let mut progress = Progress::endless();
    let mut written = 0;
    for next in table.scan() {
        let (key, found) = next.map_err(io::Error::other)?;
        if !key.starts_with(prefix) {
            continue;
        }
        sink.put(&Entry { key, value: found.value, expires_ms: found.expires })?;
        written += 1;
        if bar {
            progress.reach(written, &format!("{written} entries written"));
        }
    }
    sink.finish()?;
    Ok(written)
}
