//! Who asks, and for what: clients of Barn's tables, of stores over TCP, and of the bare fabric.
//!
//! What always holds: everybody asks for the same keys in the same order; a key that is not found, or whose
//! value has another length, is an error. Values of `puts` in a hundred operations are replaced, spread evenly.
//! A cache may forget (every put goes to the end of its log, which comes round): there, what is missing is put
//! again, as its users do, and only more than one in a hundred is an error.

use std::io;
use std::sync::Arc;

use barn::{Barn, Found, Kind, Pointer, Table};
use barn_fabric::{Connection, Pipeline, RemoteRegion};
use barn_server::Method;

use super::crowd::Client;
use crate::bench::fabric::bare_tcp::BareTcp;
use crate::bench::get::cell::Choice;
use crate::bench::get::workload::{key, numbers};
use crate::bench::peer::{memcached, redis};

/// Operations between two looks at the clock: 25 ns among so many are none.
const TURN: usize = 64;
/// Keys chosen in advance: a power of two.
const DRAWS: usize = 1 << 18;
/// The same keys are asked for in every run.
const SEED: u64 = 0xBA9;
/// Steps through a hundred so that puts are spread evenly: it has no factor in common with 100.
const STRIDE: usize = 61;

/// Keys of one length, and the order in which they are asked for.
pub(super) struct Workload {
    keys: Vec<u8>,
    key_bytes: usize,
    order: Vec<u32>,
}

impl Workload {
    /// So many keys of so many bytes.
    pub(super) fn new(keys: u32, key_bytes: usize, choice: Choice) -> Arc<Self> {
        let mut all = Vec::with_capacity(keys as usize * key_bytes);
        for number in 0..keys {
            // A part of a scattered key could be another's, too: short keys are just numbers.
            let short = format!("{number:0key_bytes$x}");
            let digits = key(u64::from(number));
            let digits = if key_bytes < digits.len() { short.as_bytes() } else { &digits[..] };
            all.extend((0..key_bytes).map(|at| digits.get(at).copied().unwrap_or(b'k')));
        }
        Arc::new(Self { keys: all, key_bytes, order: numbers(choice, keys, DRAWS, SEED) })
    }

    /// A key by its number.
    pub(super) fn key(&self, number: u32) -> &[u8] {
        &self.keys[number as usize * self.key_bytes..][..self.key_bytes]
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        (self.keys.len() / self.key_bytes) as u32
    }

    /// The key of a step: clients begin far from each other.
    fn at(&self, step: usize) -> &[u8] {
        self.key(self.order[step & (DRAWS - 1)])
    }
}

/// What a client does, step by step.
#[derive(Clone)]
pub(super) struct Plan {
    workload: Arc<Workload>,
    value: Vec<u8>,
    puts: usize,
    step: usize,
}

impl Plan {
    /// `puts` of a hundred operations write so many bytes.
    pub(super) fn new(workload: &Arc<Workload>, value_bytes: usize, puts: usize) -> Self {
        Self { workload: workload.clone(), value: vec![0x5a; value_bytes], puts, step: 0 }
    }

    /// The same for another client, which begins elsewhere.
    pub(super) fn of_client(&self, number: usize) -> Self {
        Self { step: number * (DRAWS / 16 + 7), ..self.clone() }
    }

    fn next(&mut self) -> (usize, bool) {
        self.step += 1;
        (self.step, self.step * STRIDE % 100 < self.puts)
    }
}

fn checked(found: Option<usize>, plan: &Plan) -> io::Result<()> {
    match found {
        Some(bytes) if bytes == plan.value.len() => Ok(()),
        Some(bytes) => Err(io::Error::other(format!("a value has {bytes} bytes, not {}", plan.value.len()))),
        None => Err(io::Error::other("a key that was put is not there")),
    }
}

/// A client of a table.
pub(super) struct OfTable {
    pub(super) table: Table,
    plan: Plan,
    found: Found,
    /// Operations so far, and keys that a cache had forgotten.
    done: u64,
    forgotten: u64,
}

/// A cache may have forgotten one key in so many, after the first few.
const FORGOTTEN_EVERY: u64 = 100;

impl OfTable {
    pub(super) fn new(table: Table, plan: Plan) -> Self {
        Self { table, plan, found: Found::default(), done: 0, forgotten: 0 }
    }

    /// A key is not there: for a cache that is a miss, which is mended and counted.
    fn missing(&mut self, step: usize) -> io::Result<()> {
        self.forgotten += 1;
        let few = self.forgotten * FORGOTTEN_EVERY <= self.done + FORGOTTEN_EVERY * TURN as u64;
        if self.table.options().kind != Kind::Cache || !few {
            return checked(None, &self.plan);
        }
        let put = self.table.put(self.plan.workload.at(step), &self.plan.value);
        put.map(drop).map_err(io::Error::other)
    }
}

impl Client for OfTable {
    fn turn(&mut self) -> io::Result<u64> {
        for _ in 0..TURN {
            let (step, put) = self.plan.next();
            let key = self.plan.workload.at(step);
            if put {
                self.table.put(key, &self.plan.value).map_err(io::Error::other)?;
                continue;
            }
            if self.table.find_into(key, &mut self.found).map_err(io::Error::other)? {
                checked(Some(self.found.value.len()), &self.plan)?;
            } else {
                self.missing(step)?;
            }
        }
        self.done += TURN as u64;
        Ok(TURN as u64)
    }
}

/// A client of memcached that asks for so many keys at once.
pub(super) struct OfMemcached {
    pub(super) wire: memcached::Wire,
    pub(super) plan: Plan,
    pub(super) batch: usize,
}

impl Client for OfMemcached {
    fn turn(&mut self) -> io::Result<u64> {
        let rounds = (TURN / self.batch).max(1);
        for _ in 0..rounds {
            let (step, put) = self.plan.next();
            let workload = &self.plan.workload;
            if put {
                self.wire.set(workload.at(step), &self.plan.value);
                self.wire.flush()?;
                continue;
            }
            let (mut got, mut lengths) = (0, true);
            let keys = (step..step + self.batch).map(|step| workload.at(step));
            self.wire.get(keys, |_, value| {
                (got, lengths) = (got + 1, lengths && value.len() == self.plan.value.len())
            })?;
            self.plan.step += self.batch - 1;
            if got != self.batch || !lengths {
                return Err(io::Error::other("a key that was set is not there, or has another value"));
            }
        }
        Ok((rounds * self.batch) as u64)
    }
}

/// A client of Redis.
pub(super) struct OfRedis {
    pub(super) wire: redis::Wire,
    pub(super) plan: Plan,
}

impl Client for OfRedis {
    fn turn(&mut self) -> io::Result<u64> {
        for _ in 0..TURN {
            let (step, put) = self.plan.next();
            let key = self.plan.workload.at(step);
            match put {
                true => self.wire.command(&[b"SET", key, &self.plan.value]),
                false => self.wire.command(&[b"GET", key]),
            }
            let mut found = None;
            self.wire.exchange(1, |_, reply| {
                found = reply.bulk().map(<[u8]>::len);
                reply.fails().map_or(Ok(()), |why| Err(redis::failed(why)))
            })?;
            if !put {
                checked(found, &self.plan)?;
            }
        }
        Ok(TURN as u64)
    }
}

/// READs of raw memory at random places, one at a time or in a window.
pub(super) struct OfRegion {
    pub(super) region: RemoteRegion,
    pub(super) bytes: usize,
    pub(super) window: usize,
    pub(super) step: u64,
}

impl Client for OfRegion {
    fn turn(&mut self) -> io::Result<u64> {
        let places = self.region.bytes() / self.bytes as u64;
        let mut into = vec![0; self.bytes * TURN];
        let first = self.step;
        self.step += TURN as u64;
        let offset = |step: u64| crate::bench::get::workload::scatter(step) % places * self.bytes as u64;
        let reads = into.chunks_exact_mut(self.bytes).zip(first..);
        if self.window == 1 {
            for (into, step) in reads {
                self.region.read(offset(step), into).wait().map_err(io::Error::other)?;
            }
            return Ok(TURN as u64);
        }
        let mut failed = None;
        let reads = reads.map(|(into, step)| self.region.read(offset(step), into));
        Pipeline::new(self.window).run(reads, |done| failed = failed.take().or(done.err()));
        failed.map_or(Ok(TURN as u64), |error| Err(io::Error::other(error)))
    }
}

/// Calls that the node echoes, one at a time or in a window.
pub(super) struct OfEcho {
    pub(super) connection: Connection,
    pub(super) bytes: usize,
    pub(super) window: usize,
}

impl Client for OfEcho {
    fn turn(&mut self) -> io::Result<u64> {
        let request = vec![7; self.bytes];
        let (connection, request) = (&self.connection, &request[..]);
        if self.window == 1 {
            let mut reply = Vec::new();
            for _ in 0..TURN {
                let call = connection.call(Method::Echo as u16, request, &mut reply);
                call.wait().map_err(io::Error::other)?;
            }
            return Ok(TURN as u64);
        }
        let mut failed = None;
        let calls = (0..TURN).map(|_| async move {
            let mut reply = Vec::with_capacity(64);
            connection.call(Method::Echo as u16, request, &mut reply).await
        });
        Pipeline::new(self.window).run(calls, |done| failed = failed.take().or(done.err()));
        failed.map_or(Ok(TURN as u64), |error| Err(io::Error::other(error)))
    }
}

/// Round trips of a bare socket, whose ends sleep while they wait.
pub(super) struct OfSocket {
    pub(super) socket: BareTcp,
    pub(super) window: usize,
}

impl Client for OfSocket {
    fn turn(&mut self) -> io::Result<u64> {
        self.socket.round_trips(TURN, self.window);
        Ok(TURN as u64)
    }
}

/// Reads of objects: lock-free, or each in a transaction of its own.
pub(super) struct OfObjects {
    pub(super) barn: Barn,
    pub(super) objects: Arc<Vec<Pointer>>,
    pub(super) transaction: bool,
    pub(super) step: u64,
}

impl Client for OfObjects {
    fn turn(&mut self) -> io::Result<u64> {
        for _ in 0..TURN {
            self.step += 1;
            let place = crate::bench::get::workload::scatter(self.step) % self.objects.len() as u64;
            let object = self.objects[place as usize];
            if self.transaction {
                let read = self.barn.transaction(|tx| tx.read(object).map(|bytes| bytes.len()));
                read.map_err(io::Error::other)?;
            } else {
                self.barn.read(object).map_err(io::Error::other)?;
            }
        }
        Ok(TURN as u64)
    }
}

#[cfg(test)]
mod tests {
    use barn::TableOptions;
    use barn::node::NodeConfig;

    use super::*;

    #[test]
    fn puts_have_their_share_of_every_hundred_and_are_spread_evenly() {
        let workload = Workload::new(1000, 23, Choice::Uniform);
        for puts in [0, 5, 50, 100] {
            let mut plan = Plan::new(&workload, 64, puts).of_client(3);
            let done: Vec<bool> = (0..1000).map(|_| plan.next().1).collect();
            assert!(done.chunks(100).all(|hundred| hundred.iter().filter(|put| **put).count() == puts));
            assert!(puts != 50 || done.windows(8).all(|few| few.contains(&true) && few.contains(&false)));
        }
    }

    #[test]
    fn keys_have_their_length_and_differ() {
        for bytes in [8, 16, 23] {
            let workload = Workload::new(1000, bytes, Choice::Zipf);
            let mut keys: Vec<&[u8]> = (0..workload.count()).map(|number| workload.key(number)).collect();
            assert!(keys.iter().all(|key| key.len() == bytes));
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), 1000);
        }
    }

    #[test]
    fn a_cache_may_forget_a_few_keys_and_no_other_table_any() {
        let barn = Barn::embedded_with(NodeConfig::embedded().memory(64 << 20)).expect("starts");
        let workload = Workload::new(1000, 16, Choice::Uniform);
        let reader = |kind: Kind, name: &str| {
            let options = TableOptions { kind, memory_bytes: 4 << 20, ..TableOptions::default() };
            let table = barn.table_with(name, options).expect("is made");
            for number in 0..workload.count() {
                table.put(workload.key(number), &[7; 8]).expect("is put");
            }
            // One key is gone, and will be asked for.
            table.delete(workload.at(1)).expect("is there");
            OfTable::new(table, Plan::new(&workload, 8, 0))
        };
        assert!(reader(Kind::Hopscotch, "table").turn().is_err());
        let mut cache = reader(Kind::Cache, "cache");
        assert!(cache.turn().is_ok() && cache.forgotten == 1);
        cache.forgotten = 1_000_000;
        assert!(cache.missing(1).is_err(), "one that forgets everything measures nothing");
    }

    #[test]
    fn a_value_of_another_length_and_a_missing_key_are_errors() {
        let plan = Plan::new(&Workload::new(10, 16, Choice::Uniform), 64, 0);
        assert!(checked(Some(64), &plan).is_ok());
        assert!(checked(Some(63), &plan).is_err() && checked(None, &plan).is_err());
    }
}
