//! What was measured, as rows.

use serde_json::{Map, Value};

use super::cell::{BATCHES, Cell, DEPTHS, FLAT_BATCH, Subject};
use super::crew::Measured;
use crate::report::{Better, Row, Spread};

/// What one number of clients gave.
pub(super) struct Results<'a> {
    pub(super) clients: usize,
    pub(super) measured: &'a [(Cell, Measured)],
}

/// The cells without which a row whose name contains `text` would be another.
pub(super) fn needed(clients: usize, cells: &[Cell], text: &str) -> Vec<Cell> {
    let rows = |without: Option<&Cell>| {
        let others = cells.iter().filter(|cell| Some(*cell) != without);
        let unmeasured: Vec<_> = others.map(|cell| (*cell, Measured::default())).collect();
        let mut rows = Results { clients, measured: &unmeasured }.rows();
        rows.retain(|row| row.name.contains(text));
        rows
    };
    let all = rows(None);
    cells.iter().filter(|cell| rows(Some(cell)) != all).copied().collect()
}

/// Aims are for one client: with more, clients and servers share two cores.
const BARE_AIM: f64 = 0.5;
const ONE_SIDED_AIMS: [f64; 2] = [30.0, 10.0];
const REQUEST_AIMS: [f64; 2] = [15.0, 8.0];
const DASHMAP_AIMS: [f64; 2] = [0.5, 1.0];
const TCP_AIMS: [f64; 3] = [1.0, 1.5, 3.0];

impl Results<'_> {
    /// All of them.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, batch) in BATCHES.into_iter().enumerate() {
            let bare = if batch == 1 { Subject::Bare } else { Subject::BarePrefetched };
            let one_sided = Subject::ShmOneSided;
            rows.extend(self.against(one_sided, batch, "", (bare, batch), (batch > 1).then_some(BARE_AIM)));
            rows.extend(self.against_best(one_sided, batch, &Subject::UNIX_PEERS, ONE_SIDED_AIMS[at]));
            if batch == FLAT_BATCH {
                rows.extend(self.against(one_sided, batch, "/against-flat", (Subject::Flat, batch), None));
                let bare = (Subject::BarePrefetched, batch);
                rows.extend(self.against(Subject::Flat, batch, "", bare, None));
            }
            let dashmap = (Subject::Dashmap, 1);
            rows.extend(self.against(one_sided, batch, "/against-dashmap", dashmap, Some(DASHMAP_AIMS[at])));
            rows.extend(self.against_best(
                Subject::ShmRequest,
                batch,
                &Subject::UNIX_PEERS,
                REQUEST_AIMS[at],
            ));
        }
        for (at, depth) in DEPTHS.into_iter().enumerate() {
            rows.extend(self.against_best(Subject::TcpAuto, depth, &Subject::TCP_PEERS, TCP_AIMS[at]));
            rows.extend(self.server_cpu(Subject::TcpAuto, depth, &Subject::TCP_PEERS));
        }
        let peers = self.measured.iter().filter(|(cell, _)| is_peer(cell.subject));
        rows.extend(
            peers.map(|(cell, measured)| self.figures(format!("peer/{}", self.name(*cell)), measured)),
        );
        rows
    }

    fn find(&self, subject: Subject, batch: usize) -> Option<&(Cell, Measured)> {
        self.measured.iter().find(|(cell, _)| cell.subject == subject && cell.batch == batch)
    }

    /// Such as `shm/one-sided/uniform/batch-32/clients-2`.
    fn name(&self, cell: Cell) -> String {
        let clients = if self.clients == 1 { String::new() } else { format!("/clients-{}", self.clients) };
        format!("{}/{}{clients}", cell.subject.name(), cell.name())
    }

    fn figures(&self, name: String, measured: &Measured) -> Row {
        Row::rate(name, &measured.rates)
            .with("clients", self.clients)
            .with("server_cpu_s_per_million", measured.server_seconds_per_million())
    }

    fn aimed(&self, row: Row, aim: Option<f64>) -> Row {
        match aim {
            Some(aim) if self.clients == 1 => row.aim(aim),
            _ => row,
        }
    }

    /// Ours beside one other; no row where either was not measured.
    fn against(
        &self,
        subject: Subject,
        batch: usize,
        end: &str,
        other: (Subject, usize),
        aim: Option<f64>,
    ) -> Option<Row> {
        let (cell, ours) = self.find(subject, batch)?;
        let (beside, theirs) = self.find(other.0, other.1)?;
        let row = self.figures(format!("{}{end}", self.name(*cell)), ours);
        Some(self.aimed(row.beside(beside.subject.name(), &theirs.rates), aim))
    }

    /// Ours beside the fastest of several, all of them in `peers`.
    fn against_best(&self, subject: Subject, batch: usize, peers: &[Subject], aim: f64) -> Option<Row> {
        let median = |measured: &Measured| Spread::of(&measured.rates).median;
        let (cell, ours) = self.find(subject, batch)?;
        let row = self.figures(format!("{}/against-best-peer", self.name(*cell)), ours);
        let there = self.peers(peers, batch);
        let best = there.iter().max_by(|a, b| median(&a.1).total_cmp(&median(&b.1)));
        // Without a peer it stands alone.
        Some(match best {
            Some((cell, best)) => {
                let row = self.aimed(row.beside(cell.subject.name(), &best.rates), Some(aim));
                row.with("peers", by_name(&there, median))
            }
            None => row,
        })
    }

    /// The server's CPU for a million keys, beside that of the peer that needs least.
    fn server_cpu(&self, subject: Subject, batch: usize, peers: &[Subject]) -> Option<Row> {
        let (cell, ours) = self.find(subject, batch)?;
        let seconds = Measured::server_seconds_per_million;
        let name = format!("{}/server-cpu", self.name(*cell));
        let row = Row::new(name, "s per million", Better::Lower, &ours.server_seconds);
        let there = self.peers(peers, batch);
        let least = there.iter().min_by(|a, b| seconds(&a.1).total_cmp(&seconds(&b.1)));
        Some(match least {
            Some((cell, least)) => {
                let row = row.beside(cell.subject.name(), &least.server_seconds);
                row.with("peers", by_name(&there, seconds))
            }
            None => row,
        })
    }

    fn peers(&self, peers: &[Subject], batch: usize) -> Vec<&(Cell, Measured)> {
        peers.iter().filter_map(|peer| self.find(*peer, batch)).collect()
    }
}

/// A figure of each.
fn by_name(peers: &[&(Cell, Measured)], figure: impl Fn(&Measured) -> f64) -> Map<String, Value> {
    peers.iter().map(|(cell, measured)| (cell.subject.name().to_owned(), figure(measured).into())).collect()
}

fn is_peer(subject: Subject) -> bool {
    subject == Subject::Dashmap
        || Subject::UNIX_PEERS.contains(&subject)
        || Subject::TCP_PEERS.contains(&subject)
}
