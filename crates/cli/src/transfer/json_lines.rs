//! JSON lines: an object in each line, as `barn scan --json` prints them.
//!
//! `key` or `key_base64`, `value` or `value_base64`, and `expires_ms` for what expires. Other fields,
//! such as `version`, are passed over: so that what `barn scan --json` printed can be read again.

use std::io::{self, BufRead, Write};

use barn::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use barn_layout::planted;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Entry, ReadError, Sink, Source, bytes};
use crate::entry;

/// The longest line that a key and a value can need: every byte escaped as \u0000.
const LINE_BYTES_MAX: u64 = 6 * (KEY_BYTES_MAX as u64 + VALUE_BYTES_MAX as u64) + 4096;

/// What a line holds.
#[derive(Deserialize)]
struct Line {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    expires_ms: Option<u64>,
}

/// Lines of JSON.
pub struct Reader<R> {
    from: R,
    line: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// From the beginning.
    pub fn new(from: R) -> Self {
        Self { from, line: 0, bytes: Vec::new() }
    }

    fn parse(&self) -> Result<Entry, String> {
        let line: Line = serde_json::from_slice(self.bytes.trim_ascii()).map_err(|error| {
            // The parser counts lines of its own.
            let why = error.to_string();
            let why = why.split(" at line 1").next().unwrap_or(&why);
            if error.is_syntax() { format!("not JSON: {why}") } else { why.to_owned() }
        })?;
        let key = bytes("key", line.key.as_deref(), line.key_base64.as_deref())?;
        let value = bytes("value", line.value.as_deref(), line.value_base64.as_deref())?;
        let missing = |name: &str| format!("no `{name}`: write one, or `{name}_base64`");
        Ok(Entry {
            key: key.ok_or_else(|| missing("key"))?,
            value: value.ok_or_else(|| missing("value"))?,
            expires_ms: line.expires_ms.unwrap_or(0),
        })
    }
}

impl<R: BufRead> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<(u64, Entry)>, ReadError> {
        loop {
            self.line += 1;
            self.bytes.clear();
            let failed = |why: String| ReadError::File { line: Some(self.line), why };
            let mut bounded = io::Read::take(&mut self.from, LINE_BYTES_MAX);
            let length =
                bounded.read_until(b'\n', &mut self.bytes).map_err(|error| failed(error.to_string()))?;
            if length == 0 {
                return Ok(None);
            }
            if length as u64 == LINE_BYTES_MAX && self.bytes.last() != Some(&b'\n') {
                return Err(failed(format!(
                    "a line of more than {LINE_BYTES_MAX} bytes: is this JSON lines?"
                )));
            }
            if self.bytes.trim_ascii().is_empty() {
                continue;
            }
            let line = self.line;
            return match self.parse() {
                Ok(entry) => Ok(Some((line, entry))),
                Err(why) => Err(ReadError::Entry { line, why }),
            };
        }
    }
}

/// Writes lines of JSON.
pub struct Writer<W>(pub W);

impl<W: Write> Sink for Writer<W> {
    fn put(&mut self, entry: &Entry) -> io::Result<()> {
        let mut object: Map<String, Value> = entry::named(&entry.key);
        entry::set(&mut object, "value", &entry.value);
        if entry.expires_ms != 0 && !planted("export_forgets_expiry") {
            object.insert("expires_ms".into(), entry.expires_ms.into());
        }
        serde_json::to_writer(&mut self.0, &object)?;
        self.0.write_all(b"\n")
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(u64, Entry), String>> {
        let mut reader = Reader::new(text.as_bytes());
        std::iter::from_fn(|| reader.next().map_err(|error| error.to_string()).transpose()).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = [
            Entry { key: b"".to_vec(), value: b"".to_vec(), expires_ms: 0 },
            Entry { key: b"\xff\0".to_vec(), value: (0..=255).collect(), expires_ms: 7 },
            Entry { key: "Größe \"7\"\n".into(), value: b"\\".to_vec(), expires_ms: u64::MAX },
        ];
        let mut writer = Writer(Vec::new());
        entries.iter().for_each(|entry| writer.put(entry).expect("writes"));
        let text = String::from_utf8(writer.0).expect("is text");
        assert_eq!(text.lines().count(), 3);
        let read: Vec<Entry> = read(&text).into_iter().map(|one| one.expect("reads").1).collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn mistakes_are_said_with_their_line_and_others_are_read_on() {
        let text = "{\"key\":\"a\",\"value\":\"1\",\"version\":\"9\"}\n\n{\"key\":\"b\"}\n{\"key\n{\"value\":\"v\"}\n\
            {\"key\":\"a\",\"key_base64\":\"YQ==\",\"value\":\"\"}\n{\"key\":\"a\",\"value_base64\":\"?\"}\n\
            {\"key\":\"z\",\"value\":\"26\",\"expires_ms\":-1}\n{\"key\":\"z\",\"value\":\"26\"}";
        let said = read(text);
        assert_eq!(said.len(), 8);
        assert_eq!(said[0].as_ref().expect("reads").0, 1);
        for (at, start) in [
            (1, "3: no `value`"),
            (2, "4: EOF while parsing"),
            (3, "5: no `key`"),
            (4, "6: both `key` and `key_base64`"),
            (5, "7: `value_base64`: `?` is not base64"),
            (6, "8: invalid value"),
        ] {
            assert!(said[at].as_ref().unwrap_err().starts_with(start), "{:?}", said[at]);
        }
        assert_eq!(said[7].as_ref().expect("reads").1.key, b"z");
    }
}
