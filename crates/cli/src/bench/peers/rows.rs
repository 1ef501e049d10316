//! What was measured of ours and of the peers, as rows.

use serde_json::{Map, Value};

use crate::bench::workload::crew::Measured;
use crate::bench::workload::figures;
use crate::bench::workload::shape::Shape;
use crate::bench::workload::subject::{Cell, Reads, Subject};
use crate::report::{Row, Spread};

/// Ours, and whom each is put beside: those that are as far away, and the maps.
pub(super) const OURS: [(Subject, &[Subject]); 2] = [
    (
        Subject::Shm(Reads::Auto),
        &[Subject::RedisUnix, Subject::MemcachedUnix, Subject::Dashmap, Subject::LockedBTree],
    ),
    (Subject::Tcp(Reads::Auto), &[Subject::RedisTcp, Subject::MemcachedTcp]),
];

/// Everybody else.
pub(super) const PEERS: [Subject; 6] = [
    Subject::RedisUnix,
    Subject::RedisTcp,
    Subject::MemcachedUnix,
    Subject::MemcachedTcp,
    Subject::Dashmap,
    Subject::LockedBTree,
];

/// What a shape and a number of clients gave.
pub(super) struct Results<'a> {
    pub(super) shape: Shape,
    /// The end of a name: how many clients there were, and how often they came.
    pub(super) ending: &'a str,
    /// Whether operations came at a given rate: then all do as many, and what differs is how long they take.
    pub(super) open: bool,
    pub(super) measured: &'a [(Cell, Measured)],
}

/// The cells without which a row whose name contains `text` would be another.
pub(super) fn needed(cells: &[Cell], text: &str, shape: Shape, ending: &str) -> Vec<Cell> {
    let rows = |without: Option<&Cell>| {
        let others = cells.iter().filter(|cell| Some(*cell) != without);
        let unmeasured: Vec<_> = others.map(|cell| (*cell, Measured::default())).collect();
        let mut rows = Results { shape, ending, open: false, measured: &unmeasured }.rows();
        rows.retain(|row| row.name.contains(text));
        rows
    };
    let all = rows(None);
    cells.iter().filter(|cell| rows(Some(cell)) != all).copied().collect()
}

impl Results<'_> {
    /// All of them: first everybody alone, then ours beside each.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.measured.iter().map(|(cell, measured)| figures::row(self.name(*cell), measured)).collect();
        for (cell, ours) in self.measured {
            let Some((_, others)) = OURS.iter().find(|(subject, _)| *subject == cell.subject) else {
                continue;
            };
            let there: Vec<_> = others.iter().filter_map(|other| self.find(*other, *cell)).collect();
            for (subject, theirs) in &there {
                rows.push(self.against(*cell, ours, &subject.name(), *subject, theirs));
            }
            let figure = |measured: &Measured| Spread::of(&self.samples(measured)).median;
            let servers = there.iter().filter(|(subject, _)| !subject.is_in_process());
            let each: Map<String, Value> =
                servers.clone().map(|(subject, theirs)| (subject.name(), figure(theirs).into())).collect();
            let best = servers.max_by(|one, other| {
                let order = figure(one.1).total_cmp(&figure(other.1));
                if self.open { order.reverse() } else { order }
            });
            rows.extend(best.map(|(subject, theirs)| {
                self.against(*cell, ours, "best-peer", *subject, theirs).with("peers", each)
            }));
        }
        rows
    }

    /// Such as `shm/auto/c/depth-16/16x32/clients-2x1`.
    fn name(&self, cell: Cell) -> String {
        format!("{}/{}{}", cell.name(), self.shape, self.ending)
    }

    /// By what they are compared: operations a second, or in an open loop the time within which 99 of 100
    /// were done.
    fn samples(&self, measured: &Measured) -> Vec<f64> {
        if self.open { vec![measured.latencies.percentile(99.0)] } else { measured.rates.clone() }
    }

    /// Somebody else, doing the same.
    fn find(&self, subject: Subject, like: Cell) -> Option<(Subject, &Measured)> {
        let same = Cell { subject, ..like };
        self.measured.iter().find(|(cell, _)| *cell == same).map(|(_, measured)| (subject, measured))
    }

    fn against(&self, cell: Cell, ours: &Measured, end: &str, other: Subject, theirs: &Measured) -> Row {
        let name = format!("{}/against-{end}", self.name(cell));
        let row = match self.open {
            false => Row::rate(name, &self.samples(ours)),
            true => Row::nanoseconds(name + "/p99", &self.samples(ours)),
        };
        row.beside(other.name(), &self.samples(theirs))
            .with("server_cpu_s_per_million", ours.per_million(ours.server_seconds))
            .with("beside_server_cpu_s_per_million", theirs.per_million(theirs.server_seconds))
            .with("p99_ns", ours.latencies.percentile(99.0))
            .with("beside_p99_ns", theirs.latencies.percentile(99.0))
    }
}
