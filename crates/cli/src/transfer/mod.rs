//! Entries on their way into and out of tables, as files: JSON lines and CSV.
//!
//! What always holds: a file that was written from a table leads back to the very entries, whatever
//! their bytes; at most one entry is in memory at a time here, however long the file is.

pub mod csv;
pub mod json_lines;

use std::fmt;
use std::io;
use std::path::Path;

use crate::base64;

/// One entry of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970; 0 for never.
    pub expires_ms: u64,
}

/// The forms that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A JSON object in each line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
}

impl Format {
    /// The form that a file's name promises; JSON lines where it promises nothing.
    pub fn of(path: Option<&Path>) -> Self {
        let end = path.and_then(Path::extension).map(|end| end.to_ascii_lowercase());
        if end.is_some_and(|end| end == "csv") { Self::Csv } else { Self::Jsonl }
    }
}

/// Why no entry was read.
#[derive(Debug)]
pub enum ReadError {
    /// This entry cannot be, and others after it may.
    Entry {
        /// In which line of the file.
        line: u64,
        /// Why not, and what to write.
        why: String,
    },
    /// Nothing more can be read.
    File {
        /// In which line, where that is known.
        line: Option<u64>,
        /// Why.
        why: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { line, why } | Self::File { line: Some(line), why } => write!(f, "{line}: {why}"),
            Self::File { line: None, why } => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

/// A file that entries come from.
pub trait Source {
    /// The next entry and the line that it begins in; nothing at the end.
    fn next(&mut self) -> Result<Option<(u64, Entry)>, ReadError>;
}

/// A file that entries go to.
pub trait Sink {
    /// Adds one.
    fn put(&mut self, entry: &Entry) -> io::Result<()>;
    /// Has everything written.
    fn finish(&mut self) -> io::Result<()>;
}

/// The bytes of a field that is there as text or in base64.
fn bytes(name: &str, text: Option<&str>, coded: Option<&str>) -> Result<Option<Vec<u8>>, String> {
    match (text, coded) {
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{name}_base64`: leave one out")),
        (Some(text), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(coded)) => {
            base64::decode(coded).map(Some).map_err(|why| format!("`{name}_base64`: {why}"))
        }
        (None, None) => Ok(None),
    }
}
