//! CSV (RFC 4180): a header, then a record for each entry; columns are found by name.
//!
//! Columns `key` or `key_base64`, `value` or `value_base64`, `expires_ms`; others are passed over. What
//! is written has `key,value,expires_ms`, and the two columns in base64 as well: a record has its key
//! in one of two columns, as text or in base64, so that the file can be read by any program. An empty
//! field of a pair means "the other one"; if both are empty, the bytes are empty.

use std::io::{self, Read, Write};

use ::csv::{ByteRecord, ReaderBuilder, WriterBuilder};

use super::{Entry, ReadError, Sink, Source, bytes};
use crate::base64;

const HEADER: [&str; 5] = ["key", "key_base64", "value", "value_base64", "expires_ms"];

/// Where the columns are.
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    at: [Option<usize>; HEADER.len()],
    count: usize,
}

impl Columns {
    fn of(header: &ByteRecord) -> Result<Self, String> {
        let mut columns = Self { count: header.len(), ..Self::default() };
        for (at, name) in header.iter().enumerate() {
            // Some programs write a mark before the first name.
            let name = name.strip_prefix(b"\xef\xbb\xbf").unwrap_or(name).trim_ascii();
            if let Some(known) = HEADER.iter().position(|known| known.as_bytes() == name)
                && columns.at[known].replace(at).is_some()
            {
                return Err(format!("two columns `{}`: leave one out", HEADER[known]));
            }
        }
        for (name, pair) in [("key", 0), ("value", 2)] {
            if columns.at[pair].is_none() && columns.at[pair + 1].is_none() {
                return Err(format!("no column `{name}` in the header: the first line names the columns"));
            }
        }
        Ok(columns)
    }

    /// A field as text; nothing where there is no such column.
    fn text<'r>(&self, record: &'r ByteRecord, column: usize) -> Result<Option<&'r str>, String> {
        let Some(field) = self.at[column].and_then(|at| record.get(at)) else { return Ok(None) };
        let not_text = |_| format!("`{}` is not text: use `{}_base64`", HEADER[column], HEADER[column]);
        std::str::from_utf8(field).map(Some).map_err(not_text)
    }

    /// The bytes of a pair of columns.
    fn pair(&self, record: &ByteRecord, column: usize) -> Result<Vec<u8>, String> {
        let (text, coded) = (self.text(record, column)?, self.text(record, column + 1)?);
        let given = |field: Option<&'_ str>| field.is_some_and(|field| !field.is_empty());
        let (text, coded) = match (given(text), given(coded)) {
            (_, false) => (text.or(Some("")), None),
            (false, true) => (None, coded),
            (true, true) => (text, coded),
        };
        Ok(bytes(HEADER[column], text, coded)?.unwrap_or_default())
    }

    fn entry(&self, record: &ByteRecord) -> Result<Entry, String> {
        if record.len() != self.count {
            return Err(format!(
                "{} fields, and the header has {}: is a quote missing?",
                record.len(),
                self.count
            ));
        }
        let expires = self.text(record, 4)?.map_or("", str::trim);
        let expires_ms = match expires {
            "" => 0,
            number => number
                .parse()
                .map_err(|_| format!("`expires_ms`: `{number}` is no time: write milliseconds since 1970"))?,
        };
        Ok(Entry { key: self.pair(record, 0)?, value: self.pair(record, 2)?, expires_ms })
    }
}

/// Records of CSV.
pub struct Reader<R> {
    from: ::csv::Reader<R>,
    record: ByteRecord,
    columns: Option<Columns>,
}

impl<R: Read> Reader<R> {
    /// From the beginning.
    pub fn new(from: R) -> Self {
        // A record of another length is a mistake of its own, not the end of the file.
        let from = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(from);
        Self { from, record: ByteRecord::new(), columns: None }
    }

    fn record(&mut self) -> Result<Option<u64>, ReadError> {
        let failed =
            |line: u64, error: ::csv::Error| ReadError::File { line: Some(line), why: error.to_string() };
        match self.from.read_byte_record(&mut self.record) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(Some(self.record.position().map_or(0, ::csv::Position::line))),
            Err(error) => Err(failed(self.from.position().line(), error)),
        }
    }
}

impl<R: Read> Source for Reader<R> {
    fn next(&mut self) -> Result<Option<(u64, Entry)>, ReadError> {
        let columns = match self.columns {
            Some(columns) => columns,
            None => {
                let Some(line) = self.record()? else { return Ok(None) };
                let columns =
                    Columns::of(&self.record).map_err(|why| ReadError::File { line: Some(line), why })?;
                self.columns = Some(columns);
                columns
            }
        };
        let Some(line) = self.record()? else { return Ok(None) };
        match columns.entry(&self.record) {
            Ok(entry) => Ok(Some((line, entry))),
            Err(why) => Err(ReadError::Entry { line, why }),
        }
    }
}

/// Writes records of CSV.
pub struct Writer<W: Write>(::csv::Writer<W>);

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(to: W) -> io::Result<Self> {
        let mut writer = WriterBuilder::new().from_writer(to);
        writer.write_record(HEADER).map_err(unwrapped)?;
        Ok(Self(writer))
    }
}

/// The error of the file itself: a reader that went away must be seen as that.
fn unwrapped(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The two fields of a pair.
fn fields(bytes: &[u8]) -> (&[u8], String) {
    match std::str::from_utf8(bytes) {
        Ok(_) => (bytes, String::new()),
        Err(_) => (b"", base64::encode(bytes)),
    }
}

impl<W: Write> Sink for Writer<W> {
    fn put(&mut self, entry: &Entry) -> io::Result<()> {
        let (key, key_coded) = fields(&entry.key);
        let (value, value_coded) = fields(&entry.value);
        let expires = if entry.expires_ms == 0 { String::new() } else { entry.expires_ms.to_string() };
        let record = [key, key_coded.as_bytes(), value, value_coded.as_bytes(), expires.as_bytes()];
        self.0.write_record(record).map_err(unwrapped)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Result<(u64, Entry), String>> {
        let mut reader = Reader::new(text);
        let mut said = Vec::new();
        loop {
            match reader.next() {
                Ok(None) => return said,
                Ok(Some(one)) => said.push(Ok(one)),
                Err(error @ ReadError::Entry { .. }) => said.push(Err(error.to_string())),
                Err(error) => {
                    said.push(Err(error.to_string()));
                    return said;
                }
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let entries = [
            Entry { key: b"plain".to_vec(), value: b"".to_vec(), expires_ms: 0 },
            Entry { key: b"".to_vec(), value: b"value of the empty key".to_vec(), expires_ms: 0 },
            Entry { key: b"a,\"b\"\r\nc".to_vec(), value: b"  kept  ".to_vec(), expires_ms: 1 },
            Entry { key: b"\xff\0".to_vec(), value: (0..=255).collect(), expires_ms: u64::MAX },
        ];
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text).expect("begins");
        entries.iter().for_each(|entry| writer.put(entry).expect("writes"));
        writer.finish().expect("ends");
        drop(writer);
        let read: Vec<Entry> = read(&text).into_iter().map(|one| one.expect("reads").1).collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let said = read(b"\xef\xbb\xbfvalue,note,key\n1,x,a\n\"2\n3\",y,\"b\"\n");
        let entry = |key: &[u8], value: &[u8]| Entry { key: key.into(), value: value.into(), expires_ms: 0 };
        assert_eq!(said, [Ok((2, entry(b"a", b"1"))), Ok((3, entry(b"b", b"2\n3")))]);
        assert!(read(b"").is_empty());
        assert!(read(b"key,value\n").is_empty());
    }

    #[test]
    fn mistakes_are_said_with_their_line_and_others_are_read_on() {
        let text = b"key,value,value_base64,expires_ms\na,1,,soon\nb,1,MQ==,\nc,\xff,,\nd,,?,\ne,5,,\nf,6\n";
        let said = read(text);
        assert_eq!(said.len(), 6);
        for (at, start) in [
            (0, "2: `expires_ms`: `soon` is no time"),
            (1, "3: both `value` and `value_base64`"),
            (2, "4: `value` is not text: use `value_base64`"),
            (3, "5: `value_base64`: `?` is not base64"),
            (5, "7: 2 fields, and the header has 4"),
        ] {
            assert!(said[at].as_ref().unwrap_err().starts_with(start), "{:?}", said[at]);
        }
        assert_eq!(said[4].as_ref().expect("reads").1.value, b"5");
        assert!(read(b"name,value\na,b\n")[0].as_ref().unwrap_err().contains("no column `key`"));
        assert!(read(b"key,key,value\n")[0].as_ref().unwrap_err().contains("two columns `key`"));
    }
}
