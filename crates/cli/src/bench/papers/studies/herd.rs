//! HERD's Figures 9 to 12: requests beside one READ (hopscotch), two (values outside) and Pilaf's.

use std::io;

use crate::bench::papers::claim::Paper;
use crate::bench::papers::clients::{OfTable, Plan};
use crate::bench::papers::crowd::{Client, Crowd};
use crate::bench::papers::lab::Lab;
use crate::bench::papers::stores::{Design, Stores, uniform};
use crate::plot::{Axis, Plot, Point, Series};
use crate::report::Spread;

const DESIGNS: [Design; 4] = [Design::HERD, Design::PILAF, Design::FARM, Design::FARM_OUTSIDE];
const TRANSPORTS: [&str; 2] = ["tcp", "shm"];
/// As the paper's: 48-byte items.
const VALUE_BYTES: usize = 32;
const PUTS: [usize; 4] = [0, 5, 50, 100];
/// The paper's read-intensive mix.
const FEW_PUTS: usize = 5;
const CLIENTS: [usize; 4] = [1, 2, 4, 8];
/// Turns while READs are counted.
const COUNTED: usize = 300;

/// Figure 9 by the share of PUTs; Figures 11 and 12 by the number of clients; READs of each design.
pub(in crate::bench::papers) fn puts_and_clients(lab: &mut Lab<'_>) -> io::Result<()> {
    let workload = uniform(lab.keys());
    let stores = Stores::start(lab.quick, 0)?;
    for design in DESIGNS {
        stores.fill(design, &workload, VALUE_BYTES)?;
        let mut reader = OfTable::new(stores.open("shm", design)?, Plan::new(&workload, VALUE_BYTES, 0));
        let mut gets = 0;
        for _ in 0..COUNTED {
            gets += reader.turn()?;
        }
        let reads = reader.table.stats().map_err(io::Error::other)?.reads;
        lab.values.set(format!("herd/reads/{}", design.name), vec![reads as f64 / gets as f64]);
    }
    for transport in TRANSPORTS {
        for puts in PUTS {
            let plan = Plan::new(&workload, VALUE_BYTES, puts);
            let crowd = |design: &Design| -> io::Result<Crowd> {
                let client = OfTable::new(stores.open(transport, *design)?, plan.clone());
                Ok(Crowd::one(format!("herd/puts/{transport}/{}/{puts}", design.name), client))
            };
            lab.measure(DESIGNS.iter().map(crowd).collect::<io::Result<_>>()?)?;
        }
        let mut plot = Plot::new(
            format!("HERD, Figure 9: throughput by PUTs, over {transport}"),
            Axis::linear("PUTs, %").up_to(100.0),
            Axis::log("operations/s"),
        )
        .caption(
            "48-byte items. One client that waits for each answer, where the paper has 51 with 4 requests each; \
             whole stores, where the paper emulates Pilaf and FaRM without theirs.",
        );
        for design in DESIGNS {
            let name = |puts: usize| format!("herd/puts/{transport}/{}/{puts}", design.name);
            let point = |puts: usize| Some(Point::new(puts as f64, lab.spread(&name(puts))?));
            plot = plot.with(Series::new(design.title, PUTS.into_iter().filter_map(point).collect()));
        }
        lab.draw(Paper::Herd, plot);
        clients(lab, &stores, transport, &Plan::new(&workload, VALUE_BYTES, FEW_PUTS))?;
    }
    Ok(())
}

/// Figures 11 and 12: more and more clients, each with one operation under way.
fn clients(lab: &mut Lab<'_>, stores: &Stores, transport: &str, plan: &Plan) -> io::Result<()> {
    let counts = lab.some(&CLIENTS, &[0, 1, 2]);
    for &count in &counts {
        let crowd = |design: &Design| -> io::Result<Crowd> {
            let one = |number| -> io::Result<Box<dyn Client>> {
                Ok(Box::new(OfTable::new(stores.open(transport, *design)?, plan.of_client(number))))
            };
            let clients = (0..count).map(one).collect::<io::Result<_>>()?;
            Ok(Crowd { name: format!("herd/clients/{transport}/{}/{count}", design.name), clients })
        };
        lab.measure(DESIGNS.iter().map(crowd).collect::<io::Result<_>>()?)?;
    }
    let mut latency = Plot::new(
        format!("HERD, Figure 11: latency by throughput, over {transport}"),
        Axis::log("operations/s"),
        Axis::log("mean latency, µs"),
    )
    .caption(format!(
        "48-byte items, 5 % PUTs; {} clients of one node on one machine, each with one operation under way, where \
         the paper has up to 51 on 17 machines. The mean by Little's law.",
        counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    ));
    let mut scaling = Plot::new(
        format!("HERD, Figure 12: throughput by clients, over {transport}"),
        Axis::linear("clients"),
        Axis::log("operations/s"),
    )
    .caption("The same measurement. With more clients than cores, all share them, where the paper has 187 machines.");
    for design in DESIGNS {
        let name = |end: &str| format!("herd/clients/{transport}/{}/{end}", design.name);
        let (mut times, mut rates) = (Vec::new(), Vec::new());
        for &count in &counts {
            let Some(samples) = lab.values.get(&name(&count.to_string())).map(<[f64]>::to_vec) else {
                continue;
            };
            let rate = Spread::of(&samples);
            let seconds: Vec<f64> = samples.iter().map(|rate| count as f64 / rate).collect();
            let time = Spread::of(&seconds.iter().map(|time| time * 1e6).collect::<Vec<_>>());
            times.push(Point::new(rate.median, time));
            rates.push(Point::new(count as f64, rate));
            lab.values.set(format!("herd/latency/{transport}/{}/{count}", design.name), seconds);
        }
        let all: Vec<String> = counts.iter().map(|count| name(&count.to_string())).collect();
        lab.values.set_best(name("best"), &all);
        latency = latency.with(Series::new(design.title, times));
        scaling = scaling.with(Series::new(design.title, rates));
    }
    lab.draw(Paper::Herd, latency);
    lab.draw(Paper::Herd, scaling);
    Ok(())
}

const SIZES: [usize; 8] = [4, 16, 32, 64, 128, 240, 512, 1024];
/// Long values of four designs fit the node's memory.
const SIZES_KEYS_MAX: u32 = 50_000;

/// Figure 10: by the length of values, with 5 % PUTs.
pub(in crate::bench::papers) fn sizes(lab: &mut Lab<'_>) -> io::Result<()> {
    let workload = uniform(lab.keys().min(SIZES_KEYS_MAX));
    let stores = Stores::start(lab.quick, 0)?;
    let sizes = lab.some(&SIZES, &[1, 2, 4, 6]);
    for &bytes in &sizes {
        let there: Vec<Design> = DESIGNS.into_iter().filter(|design| design.holds(bytes)).collect();
        for design in &there {
            stores.fill(*design, &workload, bytes)?;
        }
        let plan = Plan::new(&workload, bytes, FEW_PUTS);
        for transport in TRANSPORTS {
            let crowd = |design: &Design| -> io::Result<Crowd> {
                let client = OfTable::new(stores.open(transport, *design)?, plan.clone());
                Ok(Crowd::one(format!("herd/sizes/{transport}/{}/{bytes}", design.name), client))
            };
            lab.measure(there.iter().map(crowd).collect::<io::Result<_>>()?)?;
        }
        for design in there {
            stores.drop(design)?;
        }
    }
    for transport in TRANSPORTS {
        let mut plot = Plot::new(
            format!("HERD, Figure 10: throughput by value size, over {transport}"),
            Axis::log("value, bytes"),
            Axis::log("operations/s"),
        )
        .caption(
            "16-byte keys, 5 % PUTs; one client that waits for each answer. Values longer than 240 bytes do not lie \
             inside buckets.",
        );
        for design in DESIGNS {
            let name = |bytes: usize| format!("herd/sizes/{transport}/{}/{bytes}", design.name);
            let point = |bytes: &usize| Some(Point::new(*bytes as f64, lab.spread(&name(*bytes))?));
            plot = plot.with(Series::new(design.title, sizes.iter().filter_map(point).collect()));
        }
        lab.draw(Paper::Herd, plot);
    }
    Ok(())
}
