//! Redis's protocol, as much of it as two operations need: commands out, replies in.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::failed;
use crate::bench::tx::peer::PeerError;

/// A server that has not answered within this is gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A reply, in the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
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
    pub(super) fn bulk(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bulk(bytes) => *bytes,
            _ => None,
        }
    }

    /// What went wrong, if it did.
    pub(super) fn fails(&self) -> Option<String> {
        match self {
            Self::Error(why) => Some(String::from_utf8_lossy(why).into_owned()),
            _ => None,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Wire {
    stream: UnixStream,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Wire {
    /// Takes a stream over; a spinning one never sleeps while it waits.
    pub(super) fn new(stream: UnixStream, spin: bool) -> Result<Self, PeerError> {
        stream.set_nonblocking(spin).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
        Ok(Self { stream, out: Vec::new(), input: Vec::new() })
    }

    /// Adds a command to those that are sent next.
    pub(super) fn command(&mut self, words: &[&[u8]]) {
        // Into a vector, nothing fails.
        let _ = write!(self.out, "*{}\r\n", words.len());
        for word in words {
            let _ = write!(self.out, "${}\r\n", word.len());
            self.out.extend_from_slice(word);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Sends the commands, and hands over so many replies, numbered from 0.
    pub(super) fn exchange(
        &mut self,
        replies: usize,
        mut take: impl FnMut(usize, &Reply<'_>) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        self.send()?;
        self.input.clear();
        let (mut number, mut at) = (0, 0);
        // The first failure is kept until all replies are in: the next exchange starts clean.
        let mut outcome = Ok(());
        while number < replies {
            match parse(&self.input, at)? {
                Some((reply, after)) => {
                    if outcome.is_ok() {
                        outcome = take(number, &reply);
                    }
                    (number, at) = (number + 1, after);
                }
                None => self.receive()?,
            }
        }
        outcome
    }

    fn send(&mut self) -> Result<(), PeerError> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(failed(error)),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Waits for some bytes.
    fn receive(&mut self) -> Result<(), PeerError> {
        let mut chunk = [0; 16 << 10];
        let mut deadline = None;
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(failed("the server closed the connection")),
                Ok(more) => {
                    self.input.extend_from_slice(&chunk[..more]);
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + ANSWER_MAX) {
                        return Err(failed("the server does not answer"));
                    }
                    std::hint::spin_loop();
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
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
