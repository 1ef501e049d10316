//! What the commands on keys share: which table, which keys, where a value comes from.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use barn::{Table, VALUE_BYTES_MAX};
use clap::ValueHint;

use crate::command::{Exit, usage};
use crate::entry;
use crate::node::{NodeArgs, open_table};

/// The table that the keys are in.
#[derive(Debug, clap::Args)]
pub struct TableArgs {
    /// The table.
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "BARN_TABLE", value_hint = ValueHint::Other)]
    pub table: String,

    /// Keys on the command line are base64, as `key_base64` of --json is: for keys that are not text.
    #[arg(long)]
    pub key_base64: bool,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

impl TableArgs {
    /// Opens the table, which must be there.
    pub fn open(&self) -> io::Result<Table> {
        open_table(&self.node.connect()?, &self.table)
    }

    /// Opens the table; one that is not there is made.
    pub fn open_or_create(&self) -> io::Result<Table> {
        self.node.connect()?.table(&self.table).map_err(io::Error::other)
    }

    /// A key from the command line.
    pub fn key(&self, text: &OsStr) -> io::Result<Vec<u8>> {
        entry::key(text, self.key_base64).map_err(usage)
    }

    /// Keys from the command line; a lone `-` stands for the lines of standard input, in the form in
    /// which `barn scan --keys-only` prints them.
    pub fn keys(&self, texts: &[OsString]) -> io::Result<Vec<Vec<u8>>> {
        if !is_lone_dash(texts) {
            return texts.iter().map(|text| self.key(text)).collect();
        }
        if io::stdin().is_terminal() {
            anstream::eprintln!("Type the keys, one a line; Ctrl-D ends them.");
        }
        let mut lines = Vec::new();
        io::stdin().lock().read_to_end(&mut lines)?;
        let lines = lines.strip_suffix(b"\n").unwrap_or(&lines);
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let key = |line| match self.key_base64 {
            true => self.key(OsStr::from_bytes(line)),
            false => entry::from_line(line).map_err(usage),
        };
        lines.split(|byte| *byte == b'\n').map(key).collect()
    }

    /// Says that a key is not there, on standard error.
    pub fn missing(&self, key: &[u8]) -> Exit {
        super::no(&format!("no key `{}` in table `{}`", entry::shortened(key), self.table))
    }
}

/// Whether the keys are to come from standard input.
pub fn is_lone_dash(texts: &[OsString]) -> bool {
    matches!(texts, [one] if one == "-")
}

/// Where a value comes from.
#[derive(Debug, clap::Args)]
pub struct ValueArgs {
    /// The value; `-`, or none, takes it from standard input, to the last byte.
    #[arg(allow_negative_numbers = true, conflicts_with = "file")]
    pub value: Option<OsString>,

    /// Take the value from a file.
    #[arg(short, long, value_name = "PATH")]
    pub file: Option<PathBuf>,
}

impl ValueArgs {
    /// The value.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        if let Some(path) = &self.file {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
            return fs::File::open(path).and_then(read_bounded).map_err(named);
        }
        match &self.value {
            Some(value) if value != "-" => Ok(value.as_bytes().to_vec()),
            _ => {
                if io::stdin().is_terminal() {
                    anstream::eprintln!("Type the value; Ctrl-D ends it.");
                }
                read_bounded(io::stdin().lock())
            }
        }
    }
}

/// Reads all there is; a byte more than a value may have is enough to know that it is too much.
fn read_bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    source.take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(io::Error::other(format!("a value has at most {VALUE_BYTES_MAX} bytes")));
    }
    Ok(value)
}
