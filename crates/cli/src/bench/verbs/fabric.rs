//! READs, calls and bare echoes over verbs.

use std::io;
use std::time::Instant;

use barn_fabric::verbs::{Echo, echo_client};
use barn_fabric::{Connection, Messaging, Pipeline, RegionId, RemoteRegion, Rights};
use barn_server::Method;

use super::pace::in_turn;
use super::perftest::Tool;
use super::site::Site;
use super::{Beside, Effort, median, quietest_rates};
use crate::bench::at::At;
use crate::progress::Progress;
use crate::report::{Report, Row};

/// The first data region of a node.
const DATA: RegionId = barn_server::RAW;
const MEMORY_BYTES: u64 = 16 << 20;
/// Enough for places that differ; all of it is registered with the device.
const RAW_BYTES: u64 = 16 << 20;
const SIZES: [(usize, &str); 3] = [(8, "8"), (64, "64"), (1024, "1k")];
const BYTES: usize = 64;
/// READs in flight: as many as `ib_read_bw` has.
const READS: usize = 128;
/// Calls and echoes in flight: HERD saw no gain past 16.
const CALLS: usize = 16;
/// HERD's calls against one-sided READs of the same size.
const HERD_AIM: f64 = 0.5;

/// A rate, by its name.
type Rate<'a> = (String, Box<dyn FnMut() -> io::Result<f64> + 'a>);

struct Bench<'a> {
    at: &'a At,
    site: Site,
    effort: Effort,
    rows: &'a str,
    report: Report,
    progress: Progress,
}

/// Measures.
pub(crate) fn run(at: &At, rows: &str, quick: bool) -> io::Result<Report> {
    let mut progress = Progress::new(SIZES.len() as u64 + 7);
    progress.show("starting a node");
    let site = Site::new(at, MEMORY_BYTES, RAW_BYTES)?;
    let (effort, report) = (Effort::of(quick), Report::new("fabric"));
    let mut bench = Bench { at, site, effort, rows, report, progress };
    bench.latencies()?;
    bench.rates()?;
    Ok(bench.report)
}

impl Bench<'_> {
    fn connect(&self, messaging: Messaging) -> io::Result<Connection> {
        let options = self.site.options(messaging);
        Connection::connect(&self.site.address, options).wait().map_err(io::Error::other)
    }

    fn region(&self) -> io::Result<RemoteRegion> {
        let region = self.connect(Messaging::Ring)?.open(DATA, Rights::READ).wait();
        region.map_err(|error| io::Error::other(format!("{error} (the node needs --raw-memory)")))
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(self.rows)
    }

    fn push(&mut self, row: Row, bytes: usize) {
        self.progress.step(&row.name);
        self.report.push(row.with("transport", "verbs").with("bytes", bytes));
    }

    fn latencies(&mut self) -> io::Result<()> {
        let region = self.region()?;
        for (bytes, name) in SIZES {
            let name = format!("verbs/read-{name}/blocking");
            if self.wants(&name) {
                self.read_latency(name, &region, bytes)?;
            }
        }
        for (name, messaging) in modes() {
            let name = format!("verbs/rpc-{name}/round-trip");
            if self.wants(&name) {
                self.round_trip(name, &self.connect(messaging)?)?;
            }
        }
        Ok(())
    }

    fn read_latency(&mut self, name: String, region: &RemoteRegion, bytes: usize) -> io::Result<()> {
        self.progress.show(&name);
        let places = region.bytes() / bytes as u64;
        let reads = || {
            let (mut at, mut into) = (0, vec![0; bytes]);
            move || {
                at = (at + 4099) % places;
                region.read(at * bytes as u64, &mut into).wait().map_err(io::Error::other)
            }
        };
        // The first of everything is slower: pages, paths, caches.
        median(self.effort.slice / 8, reads())?;
        let beside = Beside::new(Tool::ReadLat, self.at);
        let measured = in_turn(beside.effort(self.effort), (&beside, bytes), reads(), reads())?;
        let row = Row::nanoseconds(name, &measured.ours).with("turns", measured.turns);
        let row = match beside.named(&measured.theirs, bytes, 1.0) {
            Some((name, theirs)) => row.beside(name, &theirs),
            None => row,
        };
        self.push(row, bytes);
        Ok(())
    }

    fn round_trip(&mut self, name: String, connection: &Connection) -> io::Result<()> {
        self.progress.show(&name);
        let mut reply = Vec::new();
        let mut call = || {
            let call = connection.call(Method::Echo as u16, &[7; BYTES], &mut reply);
            call.wait().map_err(io::Error::other)
        };
        let Effort { slice, repeats } = self.effort;
        median(slice / 8, &mut call)?;
        let times: Vec<f64> = (0..repeats).map(|_| median(slice, &mut call)).collect::<io::Result<_>>()?;
        self.push(Row::nanoseconds(name, &times), BYTES);
        Ok(())
    }

    /// All rates in turn, so that a noisy moment hits all. The first is that of READs, which the
    /// others stand beside.
    fn rates(&mut self) -> io::Result<()> {
        let beside = Beside::new(Tool::ReadBw, self.at);
        let Effort { slice, repeats } = beside.effort(self.effort);
        let region = self.region()?;
        let mut connections = Vec::new();
        for (name, messaging) in modes() {
            connections.push((name, self.connect(messaging)?));
        }
        let (echoes, bind) = (self.site.echoes, self.site.bind);
        let places = region.bytes() / BYTES as u64;
        let read = |number: u64| {
            let region = &region;
            async move {
                let mut into = [0; BYTES];
                let read = region.read(number * 4099 % places * BYTES as u64, &mut into).await;
                read.map_err(io::Error::other)
            }
        };
        let mut rates: Vec<Rate<'_>> =
            vec![("verbs/read-64/pipelined".into(), Box::new(|| rate(slice, READS, read)))];
        for (name, connection) in &connections {
            let call = move |_| async move {
                let mut reply = Vec::new();
                let call = connection.call(Method::Echo as u16, &[7; BYTES], &mut reply).await;
                call.map_err(io::Error::other)
            };
            rates.push((
                format!("verbs/rpc-{name}/window-{CALLS}"),
                Box::new(move || rate(slice, CALLS, call)),
            ));
        }
        for (name, echo) in [("send", Echo::SendSend), ("write", Echo::WriteWrite)] {
            let echo = move || {
                echo_client(echoes, bind, echo, CALLS, BYTES, slice).map_err(|error| {
                    io::Error::other(format!("{error}; start `barn bench echo-node {echoes}` at the node"))
                })
            };
            rates.push((format!("verbs/echo-{name}/window-{CALLS}"), Box::new(echo)));
        }
        // What others stand beside is measured with them.
        let wanted: Vec<bool> = rates.iter().map(|(name, _)| self.wants(name)).collect();
        if !wanted.contains(&true) {
            return Ok(());
        }
        let (mut samples, mut read_bw) = (vec![Vec::new(); rates.len()], Vec::new());
        for _ in 0..repeats {
            read_bw.extend(beside.measure(BYTES)?);
            for (at, (name, rate)) in rates.iter_mut().enumerate() {
                if at == 0 || wanted[at] {
                    self.progress.show(name);
                    samples[at].push(rate()?);
                }
            }
        }
        let names: Vec<String> = rates.into_iter().map(|(name, _)| name).collect();
        for (at, name) in names.into_iter().enumerate().filter(|(at, _)| wanted[*at]) {
            let is_herd = name.contains("herd");
            // Each beside what it took turns with.
            let theirs = if at == 0 { &read_bw } else { &samples[0] };
            let [ours, theirs] = quietest_rates([&samples[at], theirs]);
            let row = Row::rate(name, &ours);
            let named = match at {
                0 => beside.named(&theirs, BYTES, 1.0),
                _ => Some(("pipelined READs".into(), theirs)),
            };
            let row = match named {
                Some((name, theirs)) => row.beside_in_turn(name, &ours, &theirs),
                None => row,
            };
            self.push(if is_herd { row.aim(HERD_AIM) } else { row }, BYTES);
        }
        Ok(())
    }
}

fn modes() -> [(&'static str, Messaging); 2] {
    [("ring", Messaging::Ring), ("herd", Messaging::RequestRegion { window: CALLS })]
}

/// How many futures a second, `window` at a time, for a slice of time.
fn rate<F: Future<Output = io::Result<()>>>(
    slice: std::time::Duration,
    window: usize,
    make: impl Fn(u64) -> F,
) -> io::Result<f64> {
    let (start, mut given, mut done, mut failed) = (Instant::now(), 0, 0u64, None);
    let next = std::iter::from_fn(|| {
        given += 1;
        (start.elapsed() < slice).then(|| make(given))
    });
    Pipeline::new(window).run(next, |ended| match ended {
        Ok(()) => done += 1,
        Err(error) => failed = Some(error),
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(done as f64 / start.elapsed().as_secs_f64()),
    }
}
