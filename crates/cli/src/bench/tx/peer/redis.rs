//! Redis over a Unix socket, in the two ways that it knows transactions.
//!
//! Watching: `WATCH` and `MGET` in one round trip, `MULTI`, `MSET` and `EXEC` in another; repeated
//! if somebody changed what was watched. An object is a string of 64 bytes.
//!
//! Multi: everything in one pipelined `MULTI` … `EXEC`. The server adds, so an object is a hash of
//! its counter and its other 56 bytes; there are no conflicts. It only serves because adding is
//! something that Redis has a command for.

use std::sync::Arc;

use super::{OBJECT_BYTES, Peer, PeerError, Store, counter, object, raised};
use crate::bench::peer::redis::{Reply, Server, Wire, failed};

/// Objects loaded in one pipeline: their replies stay within the socket's buffer.
const LOAD_BATCH: u32 = 500;

fn unexpected(reply: &Reply<'_>) -> PeerError {
    failed(format!("unexpected reply {reply:?}"))
}

fn key(id: u32) -> String {
    format!("o:{id}")
}

struct Redis {
    server: Arc<Server>,
    watch: bool,
    spin: bool,
}

/// Redis, watching.
pub(super) fn open_watch(objects: u32, spin: bool) -> Result<Box<dyn Store>, PeerError> {
    open(objects, spin, true)
}

/// Redis, everything in one go.
pub(super) fn open_multi(objects: u32, spin: bool) -> Result<Box<dyn Store>, PeerError> {
    open(objects, spin, false)
}

fn open(objects: u32, spin: bool, watch: bool) -> Result<Box<dyn Store>, PeerError> {
    let server = Arc::new(Server::start()?);
    let mut wire = server.connect(false)?;
    let rest = [0x5A; OBJECT_BYTES - 8];
    for first in (0..objects).step_by(LOAD_BATCH as usize) {
        let last = objects.min(first + LOAD_BATCH);
        for id in first..last {
            if watch {
                wire.command(&[b"SET", key(id).as_bytes(), &object(0)]);
            } else {
                wire.command(&[b"HSET", key(id).as_bytes(), b"c", b"0", b"r", &rest]);
            }
        }
        wire.exchange((last - first) as usize, |_, reply| {
            reply.fails().map_or(Ok(()), |why| Err(failed(why)))
        })?;
    }
    Ok(Box::new(Redis { server, watch, spin }))
}

impl Store for Redis {
    fn client(&self) -> Result<Box<dyn Peer>, PeerError> {
        let wire = self.server.connect(self.spin)?;
        Ok(if self.watch { Box::new(Watching { wire, conflicts: 0 }) } else { Box::new(Multi { wire }) })
    }
}

/// A client that watches.
struct Watching {
    wire: Wire,
    conflicts: u64,
}

impl Watching {
    /// One attempt; false if somebody else was quicker.
    fn attempt(&mut self, keys: [&[u8]; 2]) -> Result<bool, PeerError> {
        let mut after = [[0; OBJECT_BYTES]; 2];
        self.wire.command(&[b"WATCH", keys[0], keys[1]]);
        self.wire.command(&[b"MGET", keys[0], keys[1]]);
        self.wire.exchange(2, |number, reply| match (number, reply) {
            (0, Reply::Simple(_)) => Ok(()),
            (1, Reply::Array(Some(both))) => {
                for (after, before) in after.iter_mut().zip(both) {
                    *after = before.bulk().and_then(raised).ok_or_else(|| unexpected(before))?;
                }
                Ok(())
            }
            (_, other) => Err(unexpected(other)),
        })?;
        self.wire.command(&[b"MULTI"]);
        self.wire.command(&[b"MSET", keys[0], &after[0], keys[1], &after[1]]);
        self.wire.command(&[b"EXEC"]);
        let mut committed = false;
        self.wire.exchange(3, |number, reply| match (number, reply) {
            (0 | 1, Reply::Simple(_)) => Ok(()),
            (2, Reply::Array(done)) => {
                committed = done.is_some();
                Ok(())
            }
            (_, other) => Err(unexpected(other)),
        })?;
        Ok(committed)
    }
}

impl Peer for Watching {
    fn name(&self) -> &str {
        "redis-watch"
    }

    fn rmw_2(&mut self, i: u32, j: u32) -> Result<(), PeerError> {
        let (i, j) = (key(i), key(j));
        while !self.attempt([i.as_bytes(), j.as_bytes()])? {
            self.conflicts += 1;
        }
        Ok(())
    }

    fn read_4(&mut self, at: [u32; 4]) -> Result<u64, PeerError> {
        let keys = at.map(key);
        let [a, b, c, d] = keys.each_ref().map(String::as_bytes);
        self.wire.command(&[b"MGET", a, b, c, d]);
        let mut sum = 0;
        self.wire.exchange(1, |_, reply| match reply {
            Reply::Array(Some(all)) => {
                for each in all {
                    sum += each.bulk().and_then(counter).ok_or_else(|| unexpected(each))?;
                }
                Ok(())
            }
            other => Err(unexpected(other)),
        })?;
        Ok(sum)
    }

    fn conflicts(&self) -> u64 {
        self.conflicts
    }
}

/// A client that lets the server add.
struct Multi {
    wire: Wire,
}

impl Multi {
    /// Sends `EXEC` for so many queued commands, and hands over its replies.
    fn execute(
        &mut self,
        queued: usize,
        mut take: impl FnMut(&[Reply<'_>]) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        self.wire.command(&[b"EXEC"]);
        self.wire.exchange(queued + 2, |number, reply| match reply {
            Reply::Simple(_) if number <= queued => Ok(()),
            Reply::Array(Some(replies)) if replies.len() == queued => take(replies),
            other => Err(unexpected(other)),
        })
    }
}

/// The other bytes of an object are there.
fn is_rest(reply: &Reply<'_>) -> bool {
    reply.bulk().is_some_and(|rest| rest.len() == OBJECT_BYTES - 8)
}

impl Peer for Multi {
    fn name(&self) -> &str {
        "redis-multi"
    }

    fn rmw_2(&mut self, i: u32, j: u32) -> Result<(), PeerError> {
        self.wire.command(&[b"MULTI"]);
        for id in [i, j] {
            let key = key(id);
            self.wire.command(&[b"HINCRBY", key.as_bytes(), b"c", b"1"]);
            self.wire.command(&[b"HGET", key.as_bytes(), b"r"]);
        }
        self.execute(4, |replies| {
            let good =
                matches!(replies, [Reply::Number(_), i, Reply::Number(_), j] if is_rest(i) && is_rest(j));
            if good { Ok(()) } else { Err(failed(format!("unexpected replies {replies:?}"))) }
        })
    }

    fn read_4(&mut self, at: [u32; 4]) -> Result<u64, PeerError> {
        self.wire.command(&[b"MULTI"]);
        for id in at {
            self.wire.command(&[b"HMGET", key(id).as_bytes(), b"c", b"r"]);
        }
        let mut sum = 0;
        self.execute(4, |replies| {
            for reply in replies {
                let Reply::Array(Some(fields)) = reply else { return Err(unexpected(reply)) };
                let [c, r] = fields.as_slice() else { return Err(unexpected(reply)) };
                let count = c.bulk().and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
                sum += count.filter(|_| is_rest(r)).ok_or_else(|| unexpected(reply))?;
            }
            Ok(())
        })?;
        Ok(sum)
    }

    fn conflicts(&self) -> u64 {
        0
    }
}
