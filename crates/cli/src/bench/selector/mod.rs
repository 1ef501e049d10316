//! `barn bench selector`: Cell's selector against every fixed mix of the two ways to read.
//!
//! | row | what the node has |
//! |---|---|
//! | `TRANSPORT/plenty/auto` | a core of its own |
//! | `TRANSPORT/little/auto` | a fifth of a core ([`Rivals`]) |
//! | `TRANSPORT/spike/settled` | that little for a second, and then all of it again |
//!
//! Each mix, 0 to 100 % by request in steps of 10, is measured in turn, in many short rounds; then the best of them
//! and `auto`, which stand beside each other. (What was measured to find the best does not count: of eleven that
//! are alike, that would be the luckiest.) What was common to a round is taken out ([`Sweep::level`]). `settled`
//! is how long after a change `auto` needed until it was as fast as it then stayed. What it chose over time, and
//! what that cost, is drawn as an SVG.

mod draw;
mod rivals;

use std::io;
use std::iter::once;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barn::{Barn, Connect, Found, Kind, Table, TableOptions, Way};

use crate::bench::node::BenchNode;
use crate::bench::quiet::sample;
use crate::bench::timing::pin;
use crate::plot;
use crate::progress::Progress;
use crate::report::{Better, Bound, Report, Row, Spread};

use rivals::Rivals;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shorter slices, fewer repeats.
    #[arg(long)]
    pub quick: bool,

    /// Over which transport: `shm` or `tcp`; both if none is named.
    #[arg(long, value_name = "TRANSPORT")]
    pub transport: Option<String>,

    /// The table's design: hopscotch, cuckoo or tree.
    #[arg(long, value_name = "KIND", default_value_t = Kind::Hopscotch)]
    pub kind: Kind,

    /// Where the drawing goes.
    #[arg(long, value_name = "FILE", default_value = "barn-selector.svg")]
    pub svg: PathBuf,
}

const KEYS: u64 = 100_000;
/// The cores of the client and of the node, as everywhere in the benchmarks.
const CLIENT_CORE: usize = 0;
const NODE_CORE: usize = 1;
/// Those with whom a node with little CPU shares its core.
const RIVALS: usize = 4;
/// New keys at once, and how often.
const GROWS_BY: usize = 64;
const GROWS_EVERY: Duration = Duration::from_millis(2);
/// Rounds in which the best mix is compared, for each in which it was looked for.
const COMPARED: usize = 4;
/// A point of the drawing.
const BIN: Duration = Duration::from_millis(20);

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"selector........";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn failed(error: barn::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// A reader of random keys.
pub(crate) struct Reader {
    random: u64,
    found: Found,
}

impl Reader {
    /// Reads for so long; gives gets a second.
    fn read(&mut self, table: &Table, time: Duration) -> io::Result<f64> {
        let (mut gets, started) = (0u64, Instant::now());
        while started.elapsed() < time {
            for _ in 0..16 {
                self.one(table)?;
            }
            gets += 16;
        }
        Ok(gets as f64 / started.elapsed().as_secs_f64())
    }

    fn one(&mut self, table: &Table) -> io::Result<()> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let number = ((u128::from(self.random) * u128::from(KEYS)) >> 64) as u64;
        match table.find_into(&key(number), &mut self.found).map_err(failed)? {
            true => Ok(()),
            false => Err(io::Error::other("a key that was put is not there")),
        }
    }
}

/// A moment of the drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Since the start, in seconds.
    pub(crate) at: f64,
    /// The part that went by request.
    pub(crate) by_request: f64,
    /// What a get took, in microseconds.
    pub(crate) latency: f64,
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let (slice, repeats) = match args.quick {
        true => (Duration::from_millis(50), 6),
        false => (Duration::from_millis(100), 14),
    };
    let transports: Vec<&str> = ["shm", "tcp"]
        .into_iter()
        .filter(|name| args.transport.as_ref().is_none_or(|wanted| wanted == name))
        .collect();
    if transports.is_empty() {
        return Err(io::Error::other("no such transport: shm or tcp"));
    }
    let mut report = Report::new("selector");
    let mut progress = Progress::new(transports.len() as u64 * 3);
    let mut drawings = Vec::new();
    for transport in transports {
        let mut site = Site::start(transport, args.kind)?;
        for (name, rivals) in [("plenty", 0), ("little", RIVALS)] {
            progress.show(&format!("{transport}/{name}"));
            let found = site.sweep(0..=10, rivals, slice, repeats)?;
            let compared = site.sweep(once(found.best().0), rivals, slice, repeats * COMPARED)?;
            let row = compared.row(&format!("{transport}/{name}/auto"));
            report.push(row.with("sweep", found.medians()));
            progress.step(name);
        }
        progress.show(&format!("{transport}/spike"));
        let (moments, changes) = spike(&site.table, &mut site.reader)?;
        let settled = changes.iter().map(|change| settled(&moments, *change)).fold(0.0, f64::max);
        let row = Row::new(format!("{transport}/spike/settled"), "s", Better::Lower, &[settled]);
        report.push(row.bound(Bound::AtMost(1.0)));
        drawings.push((transport, moments, changes));
        progress.step("spike");
    }
    std::fs::write(&args.svg, plot::stack(&draw::plots(&drawings)))?;
    Ok(report)
}

fn fill(barn: &Barn, kind: Kind) -> io::Result<Table> {
    let options = TableOptions { kind, capacity: KEYS, inline_bytes: 32, ..TableOptions::default() };
    let table = barn.create_table("selector", options, 0).map_err(failed)?;
    let keys: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
    for keys in keys.chunks(512) {
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[7u8; 32][..])).collect();
        table.put_many(&pairs).map_err(failed)?;
    }
    Ok(table)
}

/// A node, a table and who reads it.
pub(crate) struct Site {
    table: Table,
    reader: Reader,
    node: BenchNode,
}

/// Who puts new keys; see [`Site::grow`].
pub(crate) struct Grower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), barn::Error>>>,
}

impl Grower {
    /// Ends it; what went wrong.
    pub(crate) fn end(mut self) -> io::Result<()> {
        // ORDER: Relaxed: a flag that stands alone.
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended.map_err(|_| io::Error::other("a writer panicked"))?.map_err(failed)
    }
}

impl Drop for Grower {
    fn drop(&mut self) {
        // ORDER: Relaxed: as above.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What every mix, and `auto`, did: gets a second, by repeat.
pub(crate) struct Sweep {
    /// Tenths by request, and what that did.
    pub(crate) mixes: Vec<(u8, Vec<f64>)>,
    /// Whichever way the selector chose.
    pub(crate) auto: Vec<f64>,
}

impl Site {
    /// Starts a node on its core, and keeps this thread on the other.
    pub(crate) fn start(transport: &str, kind: Kind) -> io::Result<Self> {
        let node = BenchNode::start(256 << 20, 0, None)?;
        pin(None, CLIENT_CORE);
        let barn = Connect::new().to(&node.address(transport)).map_err(failed)?;
        let reader = Reader { random: 0x5eed_1234_5678, found: Found::default() };
        Ok(Self { table: fill(&barn, kind)?, reader, node })
    }

    /// READs for each key that is read one-sidedly, after so many that were read before.
    pub(crate) fn reads_per_get(&mut self, warm: Duration, slice: Duration) -> io::Result<f64> {
        let table = self.table.read_by(Way::OneSided);
        self.reader.read(&table, warm)?;
        let before = table.stats().map_err(failed)?;
        self.reader.read(&table, slice)?;
        let after = table.stats().map_err(failed)?;
        let gets = after.one_sided_gets - before.one_sided_gets;
        Ok((after.reads - before.reads) as f64 / gets.max(1) as f64)
    }

    /// How long gets take, in nanoseconds: the time within which half and nine tenths of them were done.
    pub(crate) fn latencies(&mut self, way: Way, slice: Duration) -> io::Result<[f64; 2]> {
        let table = self.table.read_by(way);
        let (mut taken, started) = (Vec::new(), Instant::now());
        let mut last = started;
        while last - started < slice {
            self.reader.one(&table)?;
            let now = Instant::now();
            taken.push((now - last).as_nanos() as u64);
            last = now;
        }
        taken.sort_unstable();
        Ok([50, 90].map(|percent| taken[taken.len() * percent / 100] as f64))
    }

    /// Somebody who puts new keys into the table as long as it lives, so that it grows.
    pub(crate) fn grow(&self) -> io::Result<Grower> {
        let barn = Connect::new().to(&self.node.address("shm")).map_err(failed)?;
        let table = barn.open_table("selector").map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let thread = std::thread::spawn(move || {
            // ORDER: Relaxed: a flag that stands alone.
            for batch in (KEYS..).step_by(GROWS_BY).take_while(|_| !ended.load(Ordering::Relaxed)) {
                // In all places of the order.
                let numbers = batch..batch + GROWS_BY as u64;
                let keys: Vec<[u8; 16]> =
                    numbers.map(|number| key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
                let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[7u8; 32][..])).collect();
                table.put_many(&pairs)?;
                std::thread::sleep(GROWS_EVERY);
            }
            Ok(())
        });
        Ok(Grower { stop, thread: Some(thread) })
    }

    /// Mixes of so many tenths and `auto` in turn, while the node shares its core with so many.
    pub(crate) fn sweep(
        &mut self,
        tenths: impl Iterator<Item = u8>,
        rivals: usize,
        slice: Duration,
        repeats: usize,
    ) -> io::Result<Sweep> {
        let _rivals = Rivals::start(rivals);
        let mut sweep = Sweep { mixes: tenths.map(|tenth| (tenth, Vec::new())).collect(), auto: Vec::new() };
        // Memory is mapped, and the selector learns, before anything counts.
        self.reader.read(&self.table.read_by(Way::Auto), slice)?;
        for _ in 0..repeats {
            for (tenth, samples) in &mut sweep.mixes {
                let way = self.table.read_by(Way::Mix(*tenth * 10));
                samples.push(sample(|| self.reader.read(&way, slice))?);
            }
            // While the others were measured it has forgotten what it knew, which it does not while it is used.
            let way = self.table.read_by(Way::Auto);
            self.reader.read(&way, slice / 2)?;
            sweep.auto.push(sample(|| self.reader.read(&way, slice))?);
        }
        sweep.level();
        Ok(sweep)
    }
}

impl Sweep {
    /// Takes out what was common to all samples of a round: a machine that others use is slower for seconds, which
    /// would count against whoever was measured in more of those, and with it the best of eleven would be the
    /// luckiest. Every sample is divided by the mean of its round, and multiplied by that of the usual round.
    fn level(&mut self) {
        let all: Vec<&[f64]> =
            self.mixes.iter().map(|(_, samples)| &samples[..]).chain([&self.auto[..]]).collect();
        let mean = |round: usize| {
            (all.iter().map(|samples| samples[round].ln()).sum::<f64>() / all.len() as f64).exp()
        };
        let rounds: Vec<f64> = (0..self.auto.len()).map(mean).collect();
        let usual = Spread::of(&rounds).median;
        for samples in self.mixes.iter_mut().map(|(_, samples)| samples).chain([&mut self.auto]) {
            for (sample, round) in samples.iter_mut().zip(&rounds) {
                *sample *= usual / round;
            }
        }
    }

    /// The mix with the highest median: tenths by request, and what it did.
    pub(crate) fn best(&self) -> (u8, &[f64]) {
        let median = |samples: &[f64]| Spread::of(samples).median;
        let best = self.mixes.iter().max_by(|one, other| median(&one.1).total_cmp(&median(&other.1)));
        best.map_or((0, &[]), |(tenth, samples)| (*tenth, samples))
    }

    /// What a mix did; nothing if it was not measured.
    pub(crate) fn mix(&self, tenth: u8) -> &[f64] {
        self.mixes.iter().find(|(of, _)| *of == tenth).map_or(&[], |(_, samples)| samples)
    }

    /// `auto` beside the best mix.
    fn row(&self, name: &str) -> Row {
        let (tenth, best) = self.best();
        Row::rate(name, &self.auto).beside(format!("{} % by request", tenth * 10), best).aim(0.95)
    }

    /// What each mix did.
    fn medians(&self) -> Vec<f64> {
        self.mixes.iter().map(|(_, samples)| Spread::of(samples).median.round()).collect()
    }
}

/// Reads with `auto` while the node loses its core for a second, and gets it back. Gives the moments of
/// change, too.
fn spike(table: &Table, reader: &mut Reader) -> io::Result<(Vec<Moment>, Vec<f64>)> {
    let table = table.read_by(Way::Auto);
    let (mut moments, mut changes) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let mut rivals = None;
    for (until, count) in [(1.0, 0), (2.0, RIVALS), (3.0, 0)] {
        drop(rivals.take());
        if started.elapsed().as_secs_f64() > 0.5 {
            changes.push(started.elapsed().as_secs_f64());
        }
        rivals = Some(Rivals::start(count));
        while started.elapsed().as_secs_f64() < until {
            let (at, before) = (Instant::now(), table.futures().ways_taken());
            let rate = reader.read(&table, BIN)?;
            let after = table.futures().ways_taken();
            let (one_sided, requests) = (after.0 - before.0, after.1 - before.1);
            moments.push(Moment {
                at: (at - started).as_secs_f64(),
                by_request: requests as f64 / (one_sided + requests).max(1) as f64,
                latency: 1e6 / rate,
            });
        }
    }
    Ok((moments, changes))
}

/// How long after a change it took until a get took no more than a fifth longer than it then did.
fn settled(moments: &[Moment], change: f64) -> f64 {
    let after: Vec<&Moment> =
        moments.iter().filter(|moment| moment.at >= change && moment.at < change + 1.0).collect();
    let mut latencies: Vec<f64> = after.iter().skip(after.len() / 2).map(|moment| moment.latency).collect();
    latencies.sort_by(f64::total_cmp);
    let Some(usual) = latencies.get(latencies.len() / 2).copied() else { return f64::NAN };
    let steady = |window: &[&Moment]| {
        let mut latencies: Vec<f64> = window.iter().map(|moment| moment.latency).collect();
        latencies.sort_by(f64::total_cmp);
        latencies[latencies.len() / 2] <= usual * 1.2
    };
    after.windows(3).find(|window| steady(window)).map_or(f64::INFINITY, |window| window[0].at - change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::tests::assert_well_formed;

    fn moment(at: f64, latency: f64) -> Moment {
        Moment { at, by_request: 0.0, latency }
    }

    #[test]
    fn a_slow_round_counts_against_nobody() {
        let speeds = [1.0, 0.25, 0.5, 1.0, 1.0];
        let of = |rate: f64| speeds.map(|speed| rate * speed).to_vec();
        let mut sweep = Sweep { mixes: vec![(0, of(100.0)), (10, of(50.0))], auto: of(95.0) };
        // In one round this mix alone was slow: that stays.
        sweep.mixes[1].1[3] /= 4.0;
        sweep.level();
        let spread = |samples: &[f64]| {
            samples.iter().fold(0.0, |most: f64, one| most.max((one / samples[0] - 1.0).abs()))
        };
        assert!(spread(&sweep.auto[..3]) < 1e-9, "{:?}", sweep.auto);
        assert!(spread(sweep.mix(10)) > 0.5, "{:?}", sweep.mix(10));
        let ratio = Spread::of(&sweep.auto).median / Spread::of(sweep.best().1).median;
        assert!(sweep.best().0 == 0 && (ratio - 0.95).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn it_has_settled_when_it_is_as_fast_as_it_stays() {
        let slow = (0..10).map(|number| moment(1.0 + f64::from(number) * 0.02, 50.0));
        let quick = (10..50).map(|number| moment(1.0 + f64::from(number) * 0.02, 2.0));
        let moments: Vec<Moment> = slow.chain(quick).collect();
        let settled = settled(&moments, 1.0);
        assert!((0.15..=0.25).contains(&settled), "{settled}");
    }

    #[test]
    fn the_drawing_is_an_svg_with_every_transport() {
        let moments: Vec<Moment> = (0..100).map(|number| moment(f64::from(number) * 0.02, 2.0)).collect();
        let drawings = [("shm", moments.clone(), vec![1.0]), ("tcp", moments, vec![1.0])];
        let svg = plot::stack(&draw::plots(&drawings));
        assert_well_formed(&svg);
        assert!(svg.contains("tcp: a get") && svg.matches("class=\"bp-change\"").count() == 4, "{svg}");
    }

    #[test]
    fn the_best_mix_is_the_one_with_the_highest_median() {
        let mixes = (0..=10).map(|tenth| (tenth, vec![1.0, 1.0, 9.0])).collect();
        let mut sweep = Sweep { mixes, auto: vec![2.0] };
        sweep.mixes[3].1 = vec![2.0, 2.0, 2.0];
        assert_eq!(sweep.best(), (3, &[2.0, 2.0, 2.0][..]));
        assert_eq!((sweep.mix(3), sweep.mix(11)), (&[2.0, 2.0, 2.0][..], &[][..]));
        let row = sweep.row("shm/plenty/auto");
        assert_eq!((row.beside.as_deref(), row.ratio), (Some("30 % by request"), Some(1.0)));
    }
}
