//! memcached's text protocol: values set without replies, many keys got with one line.

use std::io::Write;

use super::failed;
use crate::bench::peer::PeerError;
use crate::bench::peer::link::{Link, Place};

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    link: Link,
}

impl Wire {
    /// Connects; a spinning one never sleeps while it waits.
    pub(crate) fn connect(place: &Place, spin: bool) -> Result<Self, PeerError> {
        Ok(Self { link: Link::connect("memcached", place, spin)? })
    }

    /// Adds a value to those that are set next.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        self.link.out.extend_from_slice(b"set ");
        self.link.out.extend_from_slice(key);
        // Into a vector, nothing fails.
        let _ = write!(self.link.out, " 0 0 {} noreply\r\n", value.len());
        self.link.out.extend_from_slice(value);
        self.link.out.extend_from_slice(b"\r\n");
    }

    /// Sets the values, and waits until all are.
    pub(crate) fn flush(&mut self) -> Result<(), PeerError> {
        self.link.out.extend_from_slice(b"mn\r\n");
        self.link.send()?;
        while !self.link.input().ends_with(b"\r\n") {
            self.link.receive()?;
        }
        match self.link.input() {
            b"MN\r\n" => Ok(()),
            other => Err(failed(format!("unexpected reply {:?}", String::from_utf8_lossy(other)))),
        }
    }

    /// Gets keys in one go; hands over the values of those that are there, in the order of the keys.
    pub(crate) fn get<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), PeerError> {
        self.link.out.extend_from_slice(b"get");
        for key in keys {
            self.link.out.push(b' ');
            self.link.out.extend_from_slice(key);
        }
        self.link.out.extend_from_slice(b"\r\n");
        self.link.send()?;
        let mut at = 0;
        loop {
            match parse(self.link.input(), at)? {
                Parsed::Value { key, value, after } => {
                    take(key, value);
                    at = after;
                }
                Parsed::End => return Ok(()),
                Parsed::More => self.link.receive()?,
            }
        }
    }
}

/// One piece of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Parsed<'a> {
    Value { key: &'a [u8], value: &'a [u8], after: usize },
    End,
    More,
}

/// `VALUE key flags length`, the value, and in the end `END`.
fn parse(input: &[u8], at: usize) -> Result<Parsed<'_>, PeerError> {
    let rest = &input[at..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(Parsed::More) };
    if &rest[..end] == b"END" {
        return Ok(Parsed::End);
    }
    let garbled = || failed(format!("unexpected reply {:?}", String::from_utf8_lossy(&rest[..end])));
    let mut words = rest[..end].split(|byte| *byte == b' ');
    let (Some(b"VALUE"), Some(key), Some(_), Some(length)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(garbled());
    };
    let length: usize =
        std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok()).ok_or_else(garbled)?;
    let first = end + 2;
    let Some(value) = first.checked_add(length).and_then(|last| rest.get(first..last)) else {
        return Ok(Parsed::More);
    };
    if rest.len() < first + length + 2 {
        return Ok(Parsed::More);
    }
    Ok(Parsed::Value { key, value, after: at + first + length + 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_once_they_are_whole() {
        let bytes = b"VALUE key 0 4\r\na\r\nb\r\nEND\r\n";
        for cut in 0..21 {
            assert_eq!(parse(&bytes[..cut], 0).expect("no error"), Parsed::More, "{cut}");
        }
        let value = Parsed::Value { key: b"key", value: b"a\r\nb", after: 21 };
        assert_eq!(parse(bytes, 0).expect("no error"), value);
        assert_eq!(parse(bytes, 21).expect("no error"), Parsed::End);
        for wrong in [&b"ERROR\r\n"[..], b"VALUE k 0\r\n", b"VALUE k 0 x\r\n", b"\r\n"] {
            assert!(parse(wrong, 0).is_err());
        }
    }
}
