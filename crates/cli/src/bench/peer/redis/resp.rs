//! Redis's protocol, as much of it as two operations need: commands out, replies in.

use super::failed;
use crate::bench::peer::PeerError;
use crate::bench::peer::link::{Link, Place};

/// A reply, in the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `+OK`, `+QUEUED`.
    Simple(&'a [u8]),
    /// `-ERR …`.
    Error(&'a [u8]),
    /// `:1`.
    Number(i64),
    /// `$3`, or nothing.
    Bulk(Option<&'a [u8]>),
    /// `*2`, or nothing.
    Array(Option<Vec<Reply<'a>>>),
}

impl<'a> Reply<'a> {
    /// The bytes of a bulk reply.
    pub(crate) fn bulk(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bulk(bytes) => *bytes,
            _ => None,
        }
    }

    /// What went wrong, if it did.
    pub(crate) fn fails(&self) -> Option<String> {
        match self {
            Self::Error(why) => Some(String::from_utf8_lossy(why).into_owned()),
            _ => None,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    link: Link,
}

impl Wire {
    /// Connects; a spinning one never sleeps while it waits.
    pub(crate) fn connect(place: &Place, spin: bool) -> Result<Self, PeerError> {
        Ok(Self { link: Link::connect("Redis", place, spin)? })
    }

    /// Adds a command to those that are sent next.
    pub(crate) fn command(&mut self, words: &[&[u8]]) {
        let out = &mut self.link.out;
        length(out, b'*', words.len());
        for word in words {
            length(out, b'$', word.len());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Sends the commands, and hands over so many replies, numbered from 0.
    pub(crate) fn exchange(
        &mut self,
        replies: usize,
        take: impl FnMut(usize, &Reply<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        self.send()?;
        self.receive(replies, take)
    }

    /// Sends the commands.
    pub(crate) fn send(&mut self) -> Result<(), PeerError> {
        self.link.send()
    }

    /// Waits for so many replies to what was sent, and hands them over.
    pub(crate) fn receive(
        &mut self,
        replies: usize,
        mut take: impl FnMut(usize, &Reply<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        let (mut number, mut at) = (0, 0);
        // The first failure is kept until all replies are in: the next exchange starts clean.
        let mut outcome = Ok(());
        while number < replies {
            match parse(self.link.input(), at)? {
                Some((reply, after)) => {
                    if outcome.is_ok() {
                        outcome = take(number, &reply);
                    }
                    (number, at) = (number + 1, after);
                }
                None => self.link.receive()?,
            }
        }
        outcome
    }
}

/// A length in decimal, behind its mark. Formatting would take longer than the rest of a command.
fn length(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), length);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// The reply that begins at `at`, and where it ends; none if not all of it is there yet.
fn parse(input: &[u8], at: usize) -> Result<Option<(Reply<'_>, usize)>, PeerError> {
    let rest = &input[at..];
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let Some((&kind, line)) = rest[..end].split_first() else { return Err(failed("an empty line")) };
    let next = at + end + 2;
    let number = || {
        let digits = std::str::from_utf8(line).ok().and_then(|digits| digits.parse::<i64>().ok());
        digits.ok_or_else(|| failed("a number that is none"))
    };
    Ok(match kind {
        b'+' => Some((Reply::Simple(line), next)),
        b'-' => Some((Reply::Error(line), next)),
        b':' => Some((Reply::Number(number()?), next)),
        b'$' => match usize::try_from(number()?) {
            Err(_) => Some((Reply::Bulk(None), next)),
            Ok(length) => {
                let bytes = next.checked_add(length).and_then(|end| input.get(next..end));
                // The end of the line after it must be there too.
                bytes
                    .filter(|_| input.len() >= next + length + 2)
                    .map(|b| (Reply::Bulk(Some(b)), next + length + 2))
            }
        },
        b'*' => match usize::try_from(number()?) {
            Err(_) => Some((Reply::Array(None), next)),
            Ok(length) => {
                let (mut replies, mut next) = (Vec::with_capacity(length.min(1024)), next);
                for _ in 0..length {
                    let Some((reply, after)) = parse(input, next)? else { return Ok(None) };
                    replies.push(reply);
                    next = after;
                }
                Some((Reply::Array(Some(replies)), next))
            }
        },
        _ => return Err(failed("a reply of an unknown kind")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_decimal() {
        let mut out = Vec::new();
        for each in [0, 7, 10, 16, 1234] {
            length(&mut out, b'$', each);
        }
        assert_eq!(out, b"$0\r\n$7\r\n$10\r\n$16\r\n$1234\r\n");
    }

    #[test]
    fn replies_are_read_once_they_are_whole() {
        let bytes = b"*3\r\n:12\r\n$3\r\na\r\n\r\n*-1\r\n+OK\r\n";
        for cut in 0..23 {
            assert_eq!(parse(&bytes[..cut], 0).expect("no error"), None, "{cut}");
        }
        let (reply, end) = parse(bytes, 0).expect("no error").expect("whole");
        let inner = vec![Reply::Number(12), Reply::Bulk(Some(b"a\r\n")), Reply::Array(None)];
        assert_eq!((reply, end), (Reply::Array(Some(inner)), 23));
        assert_eq!(parse(bytes, end).expect("no error"), Some((Reply::Simple(b"OK"), 28)));
        assert_eq!(parse(b"$-1\r\n", 0).expect("no error"), Some((Reply::Bulk(None), 5)));
        assert!(parse(b"?\r\n", 0).is_err() && parse(b":x\r\n", 0).is_err() && parse(b"\r\n", 0).is_err());
    }
}
