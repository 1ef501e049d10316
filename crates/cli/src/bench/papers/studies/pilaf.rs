//! Pilaf's section 5: a cuckoo table read one-sidedly, the same by request, and stores over TCP.

use std::io;

use barn::Way;

use crate::bench::get::cell::Choice;
use crate::bench::papers::claim::Paper;
use crate::bench::papers::clients::{OfRegion, OfTable, Plan, Workload};
use crate::bench::papers::crowd::Crowd;
use crate::bench::papers::lab::Lab;
use crate::bench::papers::stores::{Design, Stores, TcpStores};
use crate::plot::{Axis, Plot, Point, Series};

/// YCSB's, as the paper has them.
const KEY_BYTES: usize = 23;
const PUTS: usize = 10;
/// A bare READ is of an entry and a small extent.
const READ_BYTES: usize = 64;
const RAW_BYTES: u64 = 64 << 20;
/// Values of four kilobytes take half a gigabyte here.
const KEYS_MAX: u32 = 100_000;

const VALUES: [usize; 5] = [16, 64, 256, 1024, 4096];

/// Figure 10: 90 % GETs, by the length of values; and a GET beside a bare READ.
pub(in crate::bench::papers) fn mixes(lab: &mut Lab<'_>) -> io::Result<()> {
    let workload = Workload::new(lab.keys().min(KEYS_MAX), KEY_BYTES, Choice::Zipf);
    let stores = Stores::start(lab.quick, RAW_BYTES)?;
    let tcp = TcpStores::start(u64::from(workload.count()) * 6000)?;
    lab.absent.extend(tcp.absent.clone());
    let asked = Design { way: Way::Request, ..Design::PILAF };
    let curves = [
        ("one-sided", "Barn, GETs one-sided (Pilaf)"),
        ("request", "Barn, all by request (Pilaf-VO)"),
        ("redis", "Redis over TCP"),
        ("memcached", "memcached over TCP"),
    ];
    let mut points = vec![Vec::new(); curves.len()];
    for bytes in lab.some(&VALUES, &[1, 3, 4]) {
        stores.fill(Design::PILAF, &workload, bytes)?;
        tcp.fill(&workload, bytes)?;
        let plan = Plan::new(&workload, bytes, PUTS);
        let name = |who: &str, puts: usize| format!("pilaf/{who}/{bytes}/{puts}");
        let table = |design| stores.open("shm", design);
        let mut crowds = vec![
            Crowd::one(name("one-sided", PUTS), OfTable::new(table(Design::PILAF)?, plan.clone())),
            Crowd::one(name("request", PUTS), OfTable::new(table(asked)?, plan.clone())),
        ];
        crowds.extend(tcp.redis(name("redis", PUTS), 1, &plan)?);
        crowds.extend(tcp.memcached(name("memcached", PUTS), 1, &plan, 1)?);
        if bytes == READ_BYTES {
            let gets = Plan::new(&workload, bytes, 0);
            crowds.push(Crowd::one(name("one-sided", 0), OfTable::new(table(Design::PILAF)?, gets)));
            let (_, region) = stores.raw("shm")?;
            let reads = OfRegion { region, bytes: READ_BYTES, window: 1, step: 0 };
            crowds.push(Crowd::one("pilaf/read", reads));
        }
        lab.measure(crowds)?;
        lab.values.set_best(name("tcp-store", PUTS), &[name("redis", PUTS), name("memcached", PUTS)]);
        for ((who, _), points) in curves.iter().zip(&mut points) {
            points.extend(lab.spread(&name(who, PUTS)).map(|spread| Point::new(bytes as f64, spread)));
        }
        stores.drop(Design::PILAF)?;
    }
    let mut plot = Plot::new(
        "Pilaf, Figure 10: throughput with 90 % GETs",
        Axis::log("value, bytes"),
        Axis::log("operations/s"),
    )
    .caption(
        "One client that waits for each answer, over shm, where the paper has 40 over InfiniBand; 23-byte keys, \
         Zipf 0.99. Redis and memcached are asked over loopback, without batches, as the paper does.",
    );
    for ((_, title), points) in curves.into_iter().zip(points) {
        plot = plot.with(Series::new(title, points));
    }
    lab.draw(Paper::Pilaf, plot);
    Ok(())
}
