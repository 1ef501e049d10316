//! GETs over verbs, one at a time: the latency of a hopscotch table's is that of one READ (FaRM section
//! 3.6), of a cuckoo table's that of two (Pilaf section 3.3).

use std::io;

use barn::{Barn, Connect, Found, Kind, Table, TableOptions, Way};
use barn_fabric::{Connection, Messaging, Rights};
use barn_index::hopscotch::lookup_bytes;

use super::pace::{Measured, in_turn};
use super::perftest::Tool;
use super::site::Site;
use super::{Beside, Effort, median};
use crate::bench::at::At;
use crate::bench::get::workload::{VALUE_BYTES, key, value};
use crate::progress::Progress;
use crate::report::{Report, Row, Spread};

const KINDS: [Kind; 2] = [Kind::Hopscotch, Kind::Cuckoo];
const KEYS: u32 = 10_000;
const MEMORY_BYTES: u64 = 128 << 20;
const RAW_BYTES: u64 = 2 << 20;
const LOAD_BATCH: u32 = 250;
/// A cuckoo table's READs have 32 and 64 bytes; a READ of 64 bytes stands for each.
const CUCKOO_READ_BYTES: usize = 64;

/// Measures.
pub(crate) fn run(at: &At, keys: Option<u32>, rows: &str, quick: bool) -> io::Result<Report> {
    let keys = keys.unwrap_or(KEYS);
    let mut progress = Progress::new(2 * KINDS.len() as u64);
    let site = Site::new(at, MEMORY_BYTES + u64::from(keys) * 512, RAW_BYTES)?;
    let options = site.options(Messaging::Ring);
    let barn = Connect::new().fabric(options.clone()).to(&site.address).map_err(io::Error::other)?;
    let connection = Connection::connect(&site.address, options).wait().map_err(io::Error::other)?;
    let region = connection.open(barn_server::RAW, Rights::READ).wait().map_err(io::Error::other)?;
    let mut report = Report::new("get");
    for kind in KINDS {
        let name = format!("verbs/get/{kind}/blocking");
        if !name.contains(rows) {
            continue;
        }
        progress.show(&format!("loading {kind}"));
        let table = load(&barn, kind, keys).map_err(io::Error::other)?;
        progress.step(&name);
        let read_bytes = match kind {
            Kind::Hopscotch => lookup_bytes(table.options()),
            _ => CUCKOO_READ_BYTES,
        };
        let (mut number, mut found, mut into) = (0u64, Found::default(), vec![0; read_bytes]);
        let mut get = || {
            number = (number + 4099) % u64::from(keys);
            let key = key(number);
            match table.find_into(&key, &mut found).map_err(io::Error::other)? {
                true if found.value[..] == value(&key) => Ok(()),
                _ => Err(io::Error::other(format!("key {number} is not there, or has another value"))),
            }
        };
        let places = region.bytes() / read_bytes as u64;
        let mut place = 0;
        let mut read = || {
            place = (place + 4099) % places;
            region.read(place * read_bytes as u64, &mut into).wait().map_err(io::Error::other)
        };
        let perftest = Beside::new(Tool::ReadLat, at);
        let effort = perftest.effort(Effort::of(quick));
        // The first GETs learn where the table is.
        median(effort.slice / 8, &mut get)?;
        let before = table.stats().map_err(io::Error::other)?;
        let Measured { ours, theirs: read_lat, reads: single, turns } =
            in_turn(effort, (&perftest, read_bytes), &mut get, &mut read)?;
        let after = table.stats().map_err(io::Error::other)?;
        let gets = (after.one_sided_gets - before.one_sided_gets).max(1);
        let reads_per_get = (after.reads - before.reads) as f64 / gets as f64;
        let reads = if kind == Kind::Hopscotch { 1.0 } else { 2.0 };
        let beside: Vec<f64> = single.iter().map(|each| each * reads).collect();
        let row = Row::nanoseconds(name, &ours);
        let row = row.beside(format!("{reads:.0} READ of {read_bytes} B each"), &beside);
        let of_reads = row.ratio;
        let row = match perftest.named(&read_lat, read_bytes, reads) {
            Some((name, theirs)) => row.beside(name, &theirs),
            None => row,
        };
        let row = row
            .with("of_reads", of_reads)
            .with("transport", "verbs")
            .with("bytes", read_bytes)
            .with("reads", reads)
            .with("read_ns", Spread::of(&single).median)
            .with("reads_per_get", reads_per_get)
            .with("turns", turns)
            .with("keys", keys);
        report.push(row);
        progress.step(&format!("{kind} done"));
    }
    Ok(report)
}

fn load(barn: &Barn, kind: Kind, keys: u32) -> Result<Table, barn::Error> {
    let options = TableOptions {
        kind,
        capacity: u64::from(keys) * 2,
        key_bytes: 16,
        inline_bytes: VALUE_BYTES as u32,
        ..TableOptions::default()
    };
    let name = format!("get-{kind}");
    let table = barn.table_with(&name, options)?;
    for first in (0..keys).step_by(LOAD_BATCH as usize) {
        let numbers = first..keys.min(first + LOAD_BATCH);
        let batch: Vec<_> = numbers.map(|number| key(number.into())).map(|key| (key, value(&key))).collect();
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        table.put_many(&pairs)?;
    }
    Ok(table.read_by(Way::OneSided))
}
