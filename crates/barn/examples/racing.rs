//! A reader on verbs beside a writer on the owner's processor: how much a bare READ tears, and that
//! nothing that is accepted was torn.
//!
//! ```text
//! racing node 10.9.0.1:7420
//! racing client verbs://10.9.0.1:7420 [BIND-IP [READS]]
//! ```
//!
//! Four ways to read 64 bytes or a value, each beside a writer that never rests: bare READs, a value
//! between two versions (`fabric/src/region/versioned.rs`), and GETs of a hopscotch table (versions by
//! line, FaRM section 5.5) and of a cuckoo table (checksums, Pilaf section 4.2). All bytes of a value
//! are the same: one that has two kinds of bytes was torn. The node and the client belong on two
//! processors: on one, nothing is ever torn.
//!
//! It fails if anything torn was accepted, and if hardly any bare READ was torn: nothing was tested
//! then.
#![forbid(unsafe_code)]

use barn::node::{Node, NodeConfig};
use barn::{Barn, Connect, Found, Kind, TableOptions, Way};
use barn_fabric::region::{Ordering, Words, versioned};
use barn_fabric::{
    ConnectOptions, Connection, Region, RegionId, RegionOptions, Registry, RemoteRegion, Rights, VerbsOption,
    block_on,
};
use std::process::ExitCode;
use std::time::Duration;

/// A number that no region of a node's own has.
const REGION: RegionId = RegionId(u32::MAX - 2048);
const REGION_BYTES: u64 = 4096;
/// Where the client says what the writer is to write.
const ORDER_AT: u64 = 0;
const BARE_AT: u64 = 1024;
const VERSIONED_AT: u64 = 2048;
const BYTES: usize = 64;
/// Bytes of a value that lies in its bucket.
const VALUE_BYTES: usize = 32;
const KEY: &[u8] = b"0123456789abcdef";
const TABLES: [(&str, Kind); 2] = [("hopscotch", Kind::Hopscotch), ("cuckoo", Kind::Cuckoo)];
/// What the writer writes.
const REST: u64 = 0;
const BARE: u64 = 1;
const VERSIONED: u64 = 2;
const FIRST_TABLE: u64 = 3;
const END: u64 = 99;
/// Values that are written between two looks at what to write.
const BARE_ROUNDS: u8 = 128;
/// READs of each way, unless the command says otherwise.
const READS: u64 = 3_000;
/// Fewer torn bare READs than one in so many: there was no race.
const TORN_ONE_IN: u64 = 30;
/// What is accepted must be some: one in so many.
const ACCEPTED_ONE_IN: u64 = 100;

type Failure = Box<dyn std::error::Error>;

/// Changes what it is told to, without rest, until it is told to end.
fn write(words: &Words, barn: &Barn) -> Result<(), Failure> {
    let options = |kind| TableOptions {
        kind,
        capacity: 1000,
        key_bytes: KEY.len() as u32,
        inline_bytes: VALUE_BYTES as u32,
        ..TableOptions::default()
    };
    let mut tables = Vec::new();
    for (name, kind) in TABLES {
        let table = barn.table_with(name, options(kind))?;
        table.put(KEY, &[1; VALUE_BYTES])?;
        tables.push(table);
    }
    versioned::publish(words, VERSIONED_AT, &[1; BYTES])?;
    println!("ready");
    for round in 0u64.. {
        let byte = round as u8;
        // ORDER: Relaxed: an order stands alone; nothing else is read because of it.
        match words.load_word(ORDER_AT, Ordering::Relaxed)? {
            REST => std::thread::sleep(Duration::from_millis(1)),
            // Many between two looks at the order: a READ should find it writing.
            BARE => (0..BARE_ROUNDS).try_for_each(|more| words.store(BARE_AT, &[byte ^ more; BYTES]))?,
            VERSIONED => {
                versioned::publish(words, VERSIONED_AT, &[byte; BYTES])?;
                // Some time between values, or a reader never meets a whole one: a READ of three
                // takes a hundred microseconds and more on an emulated processor.
                std::thread::sleep(Duration::from_micros(u64::from(byte % 8) * 50));
            }
            END => break,
            table => {
                let number = usize::try_from(table - FIRST_TABLE)?;
                tables.get(number).ok_or("no such table")?.put(KEY, &[byte; VALUE_BYTES])?;
            }
        }
    }
    Ok(())
}

fn node(at: &str) -> Result<(), Failure> {
    let registry = Registry::default();
    let region = Region::allocate(&RegionOptions { bytes: REGION_BYTES, remote: Rights::ALL, huge: false })?;
    registry.register(REGION, region.clone(), Rights::ALL)?;
    let config = NodeConfig {
        tcp: Some(at.parse()?),
        verbs: VerbsOption::Auto,
        allow_unauthenticated: true,
        registry: Some(registry),
        ..NodeConfig::embedded().memory(64 << 20)
    };
    let node = Node::start(config)?;
    // The writer's changes of tables are carried out by the node's own processor.
    let barn = Barn::connect(&node.address().ok_or("the node has no address")?)?;
    write(region.words(), &barn)
}

/// What came of one way to read.
#[derive(Default)]
struct Counts {
    reads: u64,
    accepted: u64,
    torn: u64,
}

impl Counts {
    fn add(&mut self, accepted: bool, bytes: &[u8]) {
        self.reads += 1;
        if accepted {
            self.accepted += 1;
            self.torn += u64::from(bytes.iter().any(|byte| *byte != bytes[0]));
        }
    }
}

struct Client {
    region: RemoteRegion,
    barn: Barn,
    reads: u64,
}

impl Client {
    /// Tells the writer what to write, and waits until it does.
    fn order(&self, order: u64) -> Result<(), Failure> {
        self.region.write(ORDER_AT, &order.to_le_bytes()).wait()?;
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    }

    fn bare(&self) -> Result<Counts, Failure> {
        self.order(BARE)?;
        let (mut counts, mut bytes) = (Counts::default(), [0; BYTES]);
        for _ in 0..self.reads {
            self.region.read(BARE_AT, &mut bytes).wait()?;
            counts.add(true, &bytes);
        }
        Ok(counts)
    }

    fn versioned(&self) -> Result<Counts, Failure> {
        self.order(VERSIONED)?;
        let (mut counts, mut bytes) = (Counts::default(), [0; BYTES]);
        for _ in 0..self.reads {
            let version = block_on(self.region.read_versioned(VERSIONED_AT, &mut bytes))?;
            counts.add(version.is_some(), &bytes);
        }
        Ok(counts)
    }

    /// GETs, and how often the table had to look again.
    fn table(&self, number: usize) -> Result<(Counts, u64), Failure> {
        let table = self.barn.open_table(TABLES[number].0)?.read_by(Way::OneSided);
        self.order(FIRST_TABLE + number as u64)?;
        let (mut counts, mut found) = (Counts::default(), Found::default());
        for _ in 0..self.reads {
            let there = table.find_into(KEY, &mut found)?;
            if !there || found.value.len() != VALUE_BYTES {
                return Err(format!("a GET gave no value, or one of {} bytes", found.value.len()).into());
            }
            counts.add(true, &found.value);
        }
        Ok((counts, table.stats()?.retries))
    }
}

fn client(address: &str, bind: Option<&str>, reads: u64) -> Result<(), Failure> {
    let bind = bind.map(str::parse).transpose()?;
    let deadline = Duration::from_secs(30);
    let options = ConnectOptions { bind, deadline, ..ConnectOptions::default() };
    let connection = Connection::connect(address, options.clone()).wait()?;
    let region = connection.open(REGION, Rights::ALL).wait()?;
    let client = Client { region, barn: Connect::new().fabric(options).to(address)?, reads };
    let bare = client.bare()?;
    println!("bare READs of {BYTES} bytes: {} read, {} torn", bare.reads, bare.torn);
    let mut checked = vec![("versioned READs".to_owned(), client.versioned()?)];
    for (number, (name, _)) in TABLES.into_iter().enumerate() {
        let (counts, retries) = client.table(number)?;
        println!("{name} GETs looked again {retries} times");
        checked.push((format!("{name} GETs"), counts));
    }
    client.order(END)?;
    for (name, counts) in &checked {
        println!("{name}: {} read, {} accepted, {} torn", counts.reads, counts.accepted, counts.torn);
    }
    if bare.torn * TORN_ONE_IN < bare.reads {
        return Err(
            "hardly any bare READ was torn: nothing was tested; put node and client on two processors".into(),
        );
    }
    for (name, counts) in &checked {
        if counts.torn > 0 {
            return Err(format!("{} torn values were accepted by {name}", counts.torn).into());
        }
        if counts.accepted * ACCEPTED_ONE_IN < counts.reads {
            return Err(format!("{name} accepted hardly anything").into());
        }
    }
    let accepted: u64 = checked.iter().map(|(_, counts)| counts.accepted).sum();
    println!("racing: {} of {} bare READs torn, 0 of {accepted} accepted values torn", bare.torn, bare.reads);
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map(String::as_str);
    let done = match (word(0), word(1)) {
        (Some("node"), Some(at)) => node(at),
        (Some("client"), Some(address)) => {
            client(address, word(2), word(3).and_then(|reads| reads.parse().ok()).unwrap_or(READS))
        }
        _ => Err("racing node IP:PORT | racing client ADDRESS [BIND-IP [READS]]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
