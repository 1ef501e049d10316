//! `barn import`: puts the entries of a file into a table.
//!
//! What always holds: what is in memory is one batch, however long the file is; what is said to be
//! stored is stored, and an entry that was not is said with its file and line.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use barn::{Barn, Kind, Put, Table, TableError, TableOptions, Write, Written};
use serde_json::json;

use crate::command::{Exit, one_of, print_json, say};
use crate::entry;
use crate::failure::Failure;
use crate::node::{NodeArgs, explained};
use crate::progress::Progress;
use crate::transfer::{Entry, Format, ReadError, Source, csv, json_lines};

/// Entries that are put together: more gains nothing.
const BATCH: usize = 1000;
/// Bytes of keys and values that are put together.
const BATCH_BYTES: usize = 1 << 20;
/// Mistakes that are said one by one; the others are counted.
const SAID_MAX: u64 = 20;

/// What to put where; its help is on [`super::Command::Import`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn import users.csv --table users --create hopscotch\n  \
    barn export --table users --node tcp://OLD:7411 | barn import --table users --node tcp://NEW:7411")]
pub struct Args {
    /// The file; `-`, or none, reads standard input.
    pub file: Option<PathBuf>,

    /// The table.
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "BARN_TABLE")]
    pub table: String,

    /// Make the table, of this design, if it is not there.
    #[arg(long, value_name = "KIND", value_parser = one_of::<Kind>(Kind::ALL.map(Kind::name)))]
    pub create: Option<Kind>,

    /// The form of the file [default: what its name ends in; jsonl otherwise].
    #[arg(long, value_enum)]
    pub format: Option<Format>,

    /// Leave keys that are there already as they are.
    #[arg(long)]
    pub if_absent: bool,

    /// Go on after an entry that cannot be read or stored. Ends with 1 all the same.
    #[arg(long)]
    pub skip_errors: bool,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// What came of it.
#[derive(Debug, Default)]
struct Tally {
    stored: u64,
    kept: u64,
    expired: u64,
    failed: u64,
}

/// A file that counts what was read of it.
struct Counted<R> {
    from: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.read.set(self.read.get() + length as u64);
        Ok(length)
    }
}

/// Puts the entries of the file.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let path = args.file.as_deref().filter(|path| *path != Path::new("-"));
    let name = path.map_or("standard input".into(), |path| path.display().to_string());
    let (file, length): (Box<dyn Read>, Option<u64>) = match path {
        None => {
            if io::stdin().is_terminal() {
                anstream::eprintln!("Type the entries, one a line; Ctrl-D ends them.");
            }
            (Box::new(io::stdin().lock()), None)
        }
        Some(path) => {
            let file = File::open(path).map_err(|error| Failure::plain(format!("{name}: {error}")))?;
            let metadata = file.metadata()?;
            (Box::new(file), metadata.is_file().then_some(metadata.len()))
        }
    };
    let read = Rc::new(Cell::new(0));
    let from = BufReader::with_capacity(64 << 10, Counted { from: file, read: read.clone() });
    let mut source: Box<dyn Source> = match args.format.unwrap_or_else(|| Format::of(path)) {
        Format::Jsonl => Box::new(json_lines::Reader::new(from)),
        Format::Csv => Box::new(csv::Reader::new(from)),
    };
    let table = open(args, &args.node.connect()?)?;
    let mut import = Import {
        args,
        table,
        name,
        batch: Vec::new(),
        batch_bytes: 0,
        outcomes: Vec::new(),
        tally: Tally::default(),
    };
    let mut progress = length.map_or_else(Progress::endless, Progress::new);
    loop {
        match source.next() {
            Ok(Some((line, entry))) => import.add(line, entry)?,
            Ok(None) => break,
            Err(error) => {
                // What stands before the mistake is stored before it is said.
                import.flush()?;
                let on = matches!(error, ReadError::Entry { .. });
                import.wrong(&error.to_string(), None, on)?;
            }
        }
        progress.reach(read.get(), &format!("{} entries stored", import.tally.stored));
    }
    import.flush()?;
    drop(progress);
    import.report(json)
}

/// Opens the table; makes it if that was asked for.
fn open(args: &Args, barn: &Barn) -> io::Result<Table> {
    let Some(kind) = args.create else {
        let missing = |error| match error {
            barn::Error::Table(TableError::NoTable(_)) => {
                let said = Failure::of(&explained(barn, error));
                let hint = format!("{}; --create hopscotch makes it", said.hint.unwrap_or_default());
                Failure { hint: Some(hint), ..said }.into()
            }
            other => io::Error::other(other),
        };
        return barn.open_table(&args.table).map_err(missing);
    };
    let options = TableOptions { kind, ..TableOptions::default() };
    let table = barn.table_with(&args.table, options).map_err(io::Error::other)?;
    let there = table.options().kind;
    if there != kind {
        let said = format!("a table `{}` is there already, and it is {there}, not {kind}", args.table);
        return Err(Failure::new(said, format!("leave --create out, or say --create {there}")).into());
    }
    Ok(table)
}

/// An import under way.
struct Import<'a> {
    args: &'a Args,
    table: Table,
    name: String,
    batch: Vec<(u64, Entry)>,
    batch_bytes: usize,
    outcomes: Vec<Result<Written, TableError>>,
    tally: Tally,
}

impl Import<'_> {
    fn add(&mut self, line: u64, entry: Entry) -> io::Result<()> {
        if entry.expires_ms != 0 && entry.expires_ms <= entry::now_ms() {
            self.tally.expired += 1;
            return Ok(());
        }
        self.batch_bytes += entry.key.len() + entry.value.len();
        self.batch.push((line, entry));
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Puts what there is.
    fn flush(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let if_absent = self.args.if_absent;
        let writes: Vec<Write<'_>> = self
            .batch
            .iter()
            .map(|(_, entry)| Write {
                key: &entry.key,
                value: &entry.value,
                put: Put { expires: entry.expires_ms },
                if_absent,
            })
            .collect();
        let whole = self.table.write_many(&writes, &mut self.outcomes);
        drop(writes);
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let mut wrong = Vec::new();
        for ((line, entry), outcome) in batch.iter().zip(std::mem::take(&mut self.outcomes)) {
            match outcome {
                Ok(Written::Stored) => self.tally.stored += 1,
                Ok(Written::Kept) => self.tally.kept += 1,
                Err(error) => wrong.push((*line, entry::shortened(&entry.key), error)),
            }
        }
        if let Err(error) = whole {
            // Whatever the reason, the node cannot be relied on to take the rest.
            let unknown = wrong.len() as u64;
            let line = wrong.first().map_or(0, |(line, ..)| *line);
            return Err(self.stopped(&format!("{line}: {error}"), Some(unknown)).into());
        }
        for (line, key, error) in wrong {
            self.wrong(&format!("{line}: key `{key}`: {error}"), None, true)?;
        }
        Ok(())
    }

    /// Something was not stored: says so and goes on, if that is allowed; otherwise it is the end.
    fn wrong(&mut self, what: &str, unknown: Option<u64>, may_go_on: bool) -> io::Result<()> {
        if !self.args.skip_errors || !may_go_on {
            return Err(self.stopped(what, unknown).into());
        }
        self.tally.failed += 1;
        if self.tally.failed <= SAID_MAX {
            Failure::plain(format!("{}:{what}", self.name)).say();
        }
        Ok(())
    }

    /// The end of it, with how far it came.
    fn stopped(&self, what: &str, unknown: Option<u64>) -> Failure {
        let stored = self.tally.stored;
        let mut hint = format!("{stored} entries were stored");
        if let Some(unknown) = unknown.filter(|unknown| *unknown > 0) {
            hint += &format!(", of {unknown} it is not known");
        }
        hint += match self.args.skip_errors {
            true => "; the rest was not read",
            false => "; correct it and import again, or go on past such entries with --skip-errors",
        };
        Failure::new(format!("{}:{what}", self.name), hint)
    }

    fn report(&self, json: bool) -> io::Result<Exit> {
        let Tally { stored, kept, expired, failed } = self.tally;
        if failed > SAID_MAX {
            Failure::plain(format!("{}: and {} mistakes more", self.name, failed - SAID_MAX)).say();
        }
        if json {
            print_json(&json!({
                "table": self.args.table, "stored": stored, "kept": kept, "expired": expired, "failed": failed,
            }))?;
        } else {
            let mut line = format!("stored {stored} entries in {}", self.args.table);
            for (count, what) in [
                (kept, "were there already"),
                (expired, "had expired"),
                (failed, "were skipped for mistakes"),
            ] {
                if count > 0 {
                    line += &format!(", {count} {what}");
                }
            }
            say(&line)?;
        }
        Ok(if failed > 0 { Exit::No } else { Exit::Ok })
    }
}
