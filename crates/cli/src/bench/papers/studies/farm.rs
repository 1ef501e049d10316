//! FaRM's Figures 2, 3 and 10 to 13: messages and READs beside TCP, lookups by the length of values and by
//! the number of clients.

use std::io;

use barn::{Kind, Way};

use crate::bench::fabric::bare_tcp::{BareTcp, Ends};
use crate::bench::get::cell::Choice;
use crate::bench::papers::claim::Paper;
use crate::bench::papers::clients::{OfEcho, OfRegion, OfSocket, OfTable, Plan, Workload};
use crate::bench::papers::crowd::{Client, Crowd};
use crate::bench::papers::lab::Lab;
use crate::bench::papers::stores::{Design, Stores, TcpStores, uniform};
use crate::plot::{Axis, Plot, Point, Series};
use crate::report::Spread;

/// A small item, as in Figures 2 and 3.
const MESSAGE_BYTES: usize = 32;
/// Under way at once, where the peak is measured.
const WINDOW: usize = 16;
const RAW_BYTES: u64 = 256 << 20;
/// As in Figures 12 and 13.
const VALUE_BYTES: usize = 32;

/// READs, calls and bare sockets: one at a time, and in windows.
pub(in crate::bench::papers) fn messages(lab: &mut Lab<'_>) -> io::Result<()> {
    let stores = Stores::start(lab.quick, RAW_BYTES)?;
    let mut crowds = Vec::new();
    for (window, end) in [(1, "alone"), (WINDOW, "window")] {
        let (connection, region) = stores.raw("shm")?;
        let reads = OfRegion { region, bytes: MESSAGE_BYTES, window, step: 0 };
        crowds.push(Crowd::one(format!("farm/read/{end}"), reads));
        let calls = OfEcho { connection, bytes: MESSAGE_BYTES, window };
        crowds.push(Crowd::one(format!("farm/message/{end}"), calls));
        let socket = BareTcp::start(Ends::Block, MESSAGE_BYTES, MESSAGE_BYTES)?;
        crowds.push(Crowd::one(format!("farm/tcp/{end}"), OfSocket { socket, window }));
    }
    lab.measure(crowds).map(drop)
}

const SIZES: [usize; 8] = [8, 16, 32, 64, 128, 192, 240, 512];

/// Figures 10 and 11: by the length of values, with H of 4, 6 and 8, and with values outside.
pub(in crate::bench::papers) fn sizes(lab: &mut Lab<'_>) -> io::Result<()> {
    let workload = Workload::new(lab.keys(), 8, Choice::Uniform);
    let stores = Stores::start(lab.quick, 0)?;
    let inline = |neighbourhood, name, title| Design { neighbourhood, name, title, ..Design::FARM };
    let designs = [
        inline(4, "h4", "inside, H = 4"),
        inline(6, "h6", "inside, H = 6"),
        inline(8, "h8", "inside, H = 8"),
        Design { neighbourhood: 8, name: "outside", title: "outside, H = 8", ..Design::FARM_OUTSIDE },
    ];
    let (mut rates, mut spaces) = (vec![Vec::new(); designs.len()], vec![Vec::new(); designs.len()]);
    let mut occupancies = Vec::new();
    for bytes in lab.some(&SIZES, &[1, 3, 4, 6, 7]) {
        let there: Vec<(usize, Design)> =
            designs.into_iter().enumerate().filter(|(_, design)| design.holds(bytes)).collect();
        let mut crowds = Vec::new();
        for (at, design) in &there {
            stores.fill(*design, &workload, bytes)?;
            let table = stores.open("shm", *design)?;
            let shards = table.stats().map_err(io::Error::other)?.shards;
            let part = shards.payload_bytes as f64 / shards.memory_bytes.max(1) as f64;
            spaces[*at].push(Point::exact(bytes as f64, part * 100.0));
            occupancies.push(shards.keys as f64 / shards.slots.max(1) as f64);
            let client = OfTable::new(table, Plan::new(&workload, bytes, 0));
            crowds.push(Crowd::one(format!("farm/sizes/{}/{bytes}", design.name), client));
        }
        let spreads = lab.measure(crowds)?;
        for ((at, design), spread) in there.into_iter().zip(spreads) {
            rates[at].push(Point::new(bytes as f64, spread));
            stores.drop(design)?;
        }
    }
    let full = Spread::of(&occupancies);
    let scaled = format!(
        "One node and one client over shm, where the paper has 20 machines; 8-byte keys. Tables grow by \
         themselves: {:.0} to {:.0} % of the slots are taken, where the paper fixes 90 %.",
        full.low * 100.0,
        full.high * 100.0
    );
    let mut throughput = Plot::new(
        "FaRM, Figure 10: lookups by value size",
        Axis::linear("value, bytes"),
        Axis::linear("lookups/s"),
    )
    .caption(&scaled);
    let mut space = Plot::new(
        "FaRM, Figure 11: space utilization by value size",
        Axis::linear("value, bytes"),
        Axis::linear("keys and values, % of the memory").up_to(100.0),
    )
    .caption(scaled);
    for ((design, rates), spaces) in designs.into_iter().zip(rates).zip(spaces) {
        throughput = throughput.with(Series::new(design.title, rates));
        space = space.with(Series::new(design.title, spaces));
    }
    lab.draw(Paper::Farm, throughput);
    lab.draw(Paper::Farm, space);
    Ok(())
}

const CLIENTS: [usize; 4] = [1, 2, 4, 8];
const BATCHES: [usize; 3] = [1, 24, 100];

/// Figures 12 and 13: by the number of clients, beside a store over TCP that is asked for several keys at once.
pub(in crate::bench::papers) fn clients(lab: &mut Lab<'_>) -> io::Result<()> {
    let workload = uniform(lab.keys());
    let zipf = Workload::new(lab.keys(), 16, Choice::Zipf);
    let (stores, tcp) = (Stores::start(lab.quick, 0)?, TcpStores::start(u64::from(lab.keys()) * 160)?);
    lab.absent.extend(tcp.absent.clone());
    stores.fill(Design::FARM, &workload, VALUE_BYTES)?;
    tcp.fill(&workload, VALUE_BYTES)?;
    let asked = Design { way: Way::Request, kind: Kind::Hopscotch, ..Design::FARM };
    let counts = lab.some(&CLIENTS, &[0, 1, 2]);
    for &count in &counts {
        let crowd = |who: &str, design: Design, keys| -> io::Result<Crowd> {
            let plan = Plan::new(keys, VALUE_BYTES, 0);
            let one = |number| -> io::Result<Box<dyn Client>> {
                Ok(Box::new(OfTable::new(stores.open("shm", design)?, plan.of_client(number))))
            };
            let clients = (0..count).map(one).collect::<io::Result<_>>()?;
            Ok(Crowd { name: format!("farm/lookups/{who}/{count}"), clients })
        };
        let mut crowds = vec![
            crowd("one-sided", Design::FARM, &workload)?,
            crowd("one-sided-zipf", Design::FARM, &zipf)?,
            crowd("request", asked, &workload)?,
        ];
        for batch in BATCHES {
            let plan = Plan::new(&workload, VALUE_BYTES, 0);
            crowds.extend(tcp.memcached(format!("farm/lookups/tcp-{batch}/{count}"), count, &plan, batch)?);
        }
        lab.measure(crowds)?;
    }
    let scaled = "Clients of one node on one machine, over shm, where the paper has 1 to 20 machines; 16-byte keys, \
                  32-byte values; the TCP store is memcached over loopback. With more clients than cores, all share \
                  them.";
    let points = |lab: &Lab<'_>, who: &str, latency: bool| -> Vec<Point> {
        let each = |count: &usize| {
            let rate = lab.spread(&format!("farm/lookups/{who}/{count}"))?;
            // Every client has one lookup, or one batch, under way: Little's law gives the mean time.
            let time = |rate: f64| *count as f64 / rate * 1e6;
            let times = Spread { median: time(rate.median), low: time(rate.high), high: time(rate.low) };
            Some(Point::new(*count as f64, if latency { times } else { rate }))
        };
        counts.iter().filter_map(each).collect()
    };
    let curves = [
        ("one-sided", "Barn one-sided, uniform"),
        ("one-sided-zipf", "Barn one-sided, Zipf"),
        ("request", "Barn by request"),
        ("tcp-1", "TCP store"),
    ];
    for (latency, title, label) in [
        (false, "FaRM, Figure 12 (a): lookups by clients", "lookups/s"),
        (true, "FaRM, Figure 12 (b): latency by clients", "mean latency, µs"),
    ] {
        let mut plot = Plot::new(title, Axis::linear("clients"), Axis::log(label)).caption(scaled);
        for (who, title) in curves {
            plot = plot.with(Series::new(title, points(lab, who, latency)));
        }
        lab.draw(Paper::Farm, plot);
    }
    let mut plot = Plot::new("FaRM, Figure 13: multi-gets", Axis::linear("clients"), Axis::log("lookups/s"))
        .caption(scaled);
    plot = plot.with(Series::new("Barn, one key at a time", points(lab, "one-sided", false)));
    for batch in BATCHES {
        let curve = points(lab, &format!("tcp-{batch}"), false);
        plot = plot.with(Series::new(format!("TCP store, m = {batch}"), curve));
    }
    lab.draw(Paper::Farm, plot);
    Ok(())
}
