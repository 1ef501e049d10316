//! A client: writes one change after another, and looks at what is there.

use crate::node::{Cluster, End};
use crate::record::{Change, Record, Slot, Tally};
use crate::{PATIENCE, number};
use barn::{Barn, Durability, Kind, Pointer, Table, TableOptions, Way};
use barn_fabric::seam::{Random, Seeded};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Keys of each table that a client writes to.
const KEYS: u32 = 150;
/// The first slots of the other tables, of pairs, and of the object that is replaced.
const TREE: Slot = 500;
const CUCKOO: Slot = 1_000;
const PAIR: Slot = 2_000;
const OBJECT: Slot = 2_002;
const REPLACED: Slot = 2_003;

/// How long a client is refused for want of memory before the check says so: many leases of its nodes.
const REFUSED_MAX: Duration = Duration::from_secs(10);

/// A client.
pub(crate) struct Client {
    number: u32,
    barn: Barn,
    tables: [Table; 3],
    object: Pointer,
    random: Seeded,
    sequence: u64,
    record: Record,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What a client writes: who, when, where, and bytes that follow from it.
fn encode(client: u32, sequence: u64, slot: Slot) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(&client.to_le_bytes());
    bytes.extend_from_slice(&slot.to_le_bytes());
    let long = if sequence.is_multiple_of(5) { sequence * 7919 % 3000 } else { sequence % 90 };
    let fixed = slot == OBJECT;
    let more = if fixed { 48 } else { long as usize };
    bytes.extend((0..more).map(|at| (sequence as usize + at) as u8));
    bytes
}

/// The sequence number of what was written; an error if it is not what this client wrote there.
fn decode(client: u32, slot: Slot, bytes: &[u8]) -> Result<u64, String> {
    let sequence = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let sequence = sequence.ok_or_else(|| format!("slot {slot} holds {} bytes", bytes.len()))?;
    match encode(client, sequence, slot) == bytes {
        true => Ok(sequence),
        false => Err(format!("slot {slot} holds something torn: {bytes:?}")),
    }
}

fn key(client: u32, slot: Slot) -> Vec<u8> {
    format!("{client}/{slot}").into_bytes()
}

fn pointer_bytes(pointer: Pointer) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&pointer.address.to_bits().to_le_bytes());
    bytes[8..12].copy_from_slice(&pointer.bytes.to_le_bytes());
    bytes[12..].copy_from_slice(&pointer.incarnation.to_le_bytes());
    bytes
}

fn pointer_of(bytes: &[u8]) -> Option<Pointer> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let address = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    Some(Pointer {
        address: barn_layout::Address::from_bits(address),
        bytes: word(8)?,
        incarnation: word(12)?,
    })
}

impl Client {
    pub(crate) fn connect(addresses: &[String], number: u32, seed: u64) -> Result<Self, String> {
        let barn = Barn::connect(&addresses[0]).map_err(text)?;
        let options = |kind| TableOptions { kind, capacity: 64, ..TableOptions::default() };
        let tables = [
            barn.table_with("hopscotch", options(Kind::Hopscotch)).map_err(text)?,
            barn.table_with("cuckoo", options(Kind::Cuckoo)).map_err(text)?,
            barn.table_with("tree", options(Kind::Tree)).map_err(text)?,
        ];
        let mut made = None;
        barn.transaction(|tx| {
            tx.durability(Durability::Synced);
            made = Some(tx.alloc(&encode(number, 0, OBJECT))?);
            Ok(())
        })
        .map_err(text)?;
        let object = made.ok_or("no object")?;
        let mut record = Record::default();
        record.changes.push(Change {
            sequence: 0,
            slots: vec![(OBJECT, false)],
            synced: true,
            acknowledged: Some(Instant::now()),
            ended: Instant::now(),
        });
        Ok(Self { number, barn, tables, object, random: Seeded::new(seed), sequence: 0, record })
    }

    /// Writes until told to pause.
    pub(crate) fn write(&mut self, pause: &AtomicBool) -> Result<(), String> {
        let mut refused_since: Option<Instant> = None;
        // ORDER: Relaxed: a flag that stands alone.
        while !pause.load(Ordering::Relaxed) {
            self.sequence += 1;
            // With several nodes each loses its own suffix: a client's changes together have none.
            let synced = number("--nodes", 1) > 1 || self.random.below(8) == 0;
            let (slots, done) = self.change(synced);
            if let Err(error) = &done
                && error.to_string().contains("memory budget")
            {
                // Refused, and so never to be seen; memory that waits for its readers comes back soon. A client
                // that goes on being refused writes nothing, and nothing would be compared.
                if refused_since.get_or_insert_with(Instant::now).elapsed() > REFUSED_MAX {
                    return Err(format!("the nodes of this check need more memory: {error}"));
                }
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            refused_since = None;
            let ended = Instant::now();
            self.record.changes.push(Change {
                sequence: self.sequence,
                slots,
                synced,
                acknowledged: done.is_ok().then_some(ended),
                ended,
            });
            if done.is_err() {
                // What became of it is not known: this client writes no more until all is compared.
                while !pause.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, synced: bool) -> (Vec<(Slot, bool)>, Result<(), barn::Error>) {
        let durability = if synced { Durability::Synced } else { Durability::Logged };
        let (client, sequence, object) = (self.number, self.sequence, self.object);
        let choice = self.random.below(100);
        match choice {
            0..84 => {
                let (table, first) = match choice {
                    0..34 => (0, 0),
                    34..58 => (1, CUCKOO),
                    _ => (2, TREE),
                };
                let slot = first + self.random.below(u64::from(KEYS)) as Slot;
                let removed = choice.is_multiple_of(10);
                let table = self.tables[table].durability(durability);
                let done = match removed {
                    true => table.delete(&key(client, slot)).map(|_| ()),
                    false => table.put(&key(client, slot), &encode(client, sequence, slot)).map(|_| ()),
                };
                (vec![(slot, removed)], done)
            }
            84..94 => {
                let table = &self.tables[0];
                let done = self.barn.transaction(|tx| {
                    tx.durability(durability);
                    tx.write(object, &encode(client, sequence, OBJECT))?;
                    tx.put(table, &key(client, PAIR), &encode(client, sequence, PAIR))?;
                    tx.put(table, &key(client, PAIR + 1), &encode(client, sequence, PAIR + 1))
                });
                (vec![(OBJECT, false), (PAIR, false), (PAIR + 1, false)], done)
            }
            _ => {
                let table = &self.tables[0];
                let done = self.barn.transaction(|tx| {
                    tx.durability(durability);
                    let old = tx.get(table, &key(client, REPLACED))?;
                    if let Some(old) = old.as_deref().and_then(pointer_of) {
                        tx.free(old)?;
                    }
                    let new = tx.alloc(&encode(client, sequence, REPLACED))?;
                    tx.put(table, &key(client, REPLACED), &pointer_bytes(new))
                });
                (vec![(REPLACED, false)], done)
            }
        }
    }

    /// Compares what is there with what this client knows.
    pub(crate) fn check(&mut self, cluster: &mut Cluster, end: End) -> Result<Tally, String> {
        // Nodes that lost their leases with the coordinator may still be on their way back.
        let since = Instant::now();
        let found = loop {
            match self.look(&cluster.addresses()) {
                Err(why) if since.elapsed() < PATIENCE && !why.contains("torn") => {
                    cluster.revive()?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                looked => break looked?,
            }
        };
        let window = Duration::from_millis(number("--window-ms", 100));
        self.record.judge(&found, end, window).map_err(|why| format!("client {}: {why}", self.number))
    }

    /// What is there.
    fn look(&self, addresses: &[String]) -> Result<BTreeMap<Slot, u64>, String> {
        let barn = Barn::connect(&addresses[0]).map_err(text)?;
        let mut found = BTreeMap::new();
        let tables = [
            (barn.open_table("hopscotch").map_err(text)?, 0, OBJECT),
            (barn.open_table("cuckoo").map_err(text)?, CUCKOO, CUCKOO + KEYS),
            (barn.open_table("tree").map_err(text)?, TREE, TREE + KEYS),
        ];
        for (table, first, end) in &tables {
            for way in [Way::OneSided, Way::Request] {
                let table = table.read_by(way);
                for slot in (*first..first + KEYS).chain([PAIR, PAIR + 1]).filter(|slot| slot < end) {
                    let value = table.get(&key(self.number, slot)).map_err(text)?;
                    let sequence = value.map(|value| decode(self.number, slot, &value)).transpose()?;
                    let earlier = sequence.map(|sequence| found.insert(slot, sequence));
                    if way == Way::Request && earlier.flatten() != sequence {
                        return Err(format!("slot {slot} is not the same read and asked for"));
                    }
                }
            }
        }
        let object = barn.read(self.object).map_err(|error| format!("the object: {error}"))?;
        found.insert(OBJECT, decode(self.number, OBJECT, &object.into_bytes())?);
        let replaced = tables[0].0.get(&key(self.number, REPLACED)).map_err(text)?;
        if let Some(pointer) = replaced {
            let pointer = pointer_of(&pointer).ok_or("no pointer")?;
            let object = barn.read(pointer).map_err(|error| format!("the replaced object: {error}"))?;
            found.insert(REPLACED, decode(self.number, REPLACED, &object.into_bytes())?);
        }
        Ok(found)
    }
}
