//! What `barn top` shows, as lines: no terminal is needed to know how it looks.
//!
//! What always holds: no line is wider and no frame higher than asked for.

use crate::bytes::human;
use crate::command::status::{log_lag, percent, rate, round_trip};
use crate::duration;
use crate::watch::{Rates, Report, TableRow};

/// Cells of a bar.
const BAR_CELLS: usize = 24;
/// Lines that tables have at least, however many nodes there are.
const TABLE_LINES_MIN: usize = 6;

/// What tables are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Operations each second, and where there are none, all that were counted.
    Activity,
    /// Keys.
    Keys,
    /// Memory.
    Memory,
    /// Name.
    Name,
}

impl Sort {
    /// The next one, round and round.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Activity => Self::Keys,
            Self::Keys => Self::Memory,
            Self::Memory => Self::Name,
            Self::Name => Self::Activity,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Keys => "keys",
            Self::Memory => "memory",
            Self::Name => "name",
        }
    }

    fn sort(self, tables: &mut [TableRow]) {
        let operations = |table: &TableRow| {
            let now = table.gets_per_second.unwrap_or(0.0) + table.updates_per_second.unwrap_or(0.0);
            (now, table.gets + table.updates)
        };
        match self {
            Self::Activity => tables.sort_by(|one, other| {
                let (one, other) = (operations(one), operations(other));
                other.0.total_cmp(&one.0).then(other.1.cmp(&one.1))
            }),
            Self::Keys => tables.sort_by_key(|table| std::cmp::Reverse(table.keys)),
            Self::Memory => tables.sort_by_key(|table| std::cmp::Reverse(table.memory_bytes)),
            Self::Name => tables.sort_by(|one, other| one.name.cmp(&other.name)),
        }
    }
}

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Not at all.
    Plain,
    /// Bold.
    Strong,
    /// Turned around: a heading.
    Heading,
}

/// A line of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// What is to be shown.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) address: &'a str,
    pub(super) report: &'a Report,
    pub(super) sort: Sort,
    /// What is the matter, if anything is.
    pub(super) note: &'a str,
}

impl View<'_> {
    /// The lines for a terminal of this size.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<Line> {
        let mut lines = vec![self.title()];
        lines.extend(self.rates());
        lines.extend(self.nodes(rows));
        let rest = rows.saturating_sub(lines.len() + 2);
        lines.extend(self.tables(columns, rest));
        if rows != usize::MAX {
            let keys = format!("q quit  s sort (by {})  p pause", self.sort.word());
            lines.truncate(rows.saturating_sub(1));
            lines.resize(rows.saturating_sub(1), plain(String::new()));
            lines.push(Line { text: keys, tone: Tone::Strong });
            lines.truncate(rows);
        }
        for line in &mut lines {
            line.text = fitted(&line.text, columns);
        }
        lines
    }

    fn title(&self) -> Line {
        let nodes = &self.report.nodes;
        let clients: u64 = nodes.iter().map(|node| node.clients).sum();
        let uptime = nodes.iter().map(|node| node.uptime_ms).max().unwrap_or(0);
        let note = if self.note.is_empty() { String::new() } else { format!("[{}] ", self.note) };
        let text = format!(
            "barn top  {note}{} member{}, {clients} client{}, up {}  {}",
            nodes.len(),
            plural(nodes.len() as u64),
            plural(clients),
            duration::human(uptime),
            self.address,
        );
        Line { text, tone: Tone::Strong }
    }

    fn rates(&self) -> Vec<Line> {
        let report = self.report;
        let rates = report.rates.as_ref();
        let of = |figure: fn(&Rates) -> f64| rate(rates.map(figure));
        let (gets, hits) =
            report.tables.iter().fold((0, 0), |(gets, hits), table| (gets + table.gets, hits + table.hits));
        let undecided: u64 = report.nodes.iter().map(|node| node.undecided).sum();
        let away = report.nodes.iter().find(|node| node.round_trip_ns.is_some());
        vec![
            plain(format!(
                "tables        {:>8} gets/s asked of nodes ({} hits)  {:>8} changes/s",
                of(|rates| rates.gets),
                percent(hits, gets),
                of(|rates| rates.updates),
            )),
            plain(format!(
                "transactions  {:>8}/s one node  {:>7}/s several  {:>7}/s aborted  {undecided} open",
                of(|rates| rates.alone),
                of(|rates| rates.together),
                of(|rates| rates.aborted),
            )),
            plain(format!(
                "traffic       {:>8} messages/s  {:>7} one-sided/s (tcp)  {} away",
                of(|rates| rates.messages),
                of(|rates| rates.one_sided),
                away.map_or("-".into(), round_trip),
            )),
        ]
    }

    /// A bar for each node's memory, and one line for what it is used for.
    fn nodes(&self, rows: usize) -> Vec<Line> {
        let nodes = &self.report.nodes;
        // Title, rates, purposes, foot and the tables' own lines are not given up for nodes.
        let room = rows.saturating_sub(6 + TABLE_LINES_MIN).max(1);
        let shown = if nodes.len() > room { room.saturating_sub(1) } else { nodes.len() };
        let mut lines: Vec<Line> = nodes
            .iter()
            .take(shown)
            .map(|node| match &node.trouble {
                Some(trouble) => plain(format!("member {:<3}  not reached: {trouble}", node.member)),
                None => plain(format!(
                    "member {:<3}  {} {:>4}  {} of {}, {} client{}, {}",
                    node.member,
                    bar(node.memory_held_bytes, node.memory_budget_bytes),
                    percent(node.memory_held_bytes, node.memory_budget_bytes),
                    human(node.memory_held_bytes),
                    human(node.memory_budget_bytes),
                    node.clients,
                    plural(node.clients),
                    log_lag(node),
                )),
            })
            .collect();
        if shown < nodes.len() {
            lines.push(plain(format!("and {} members more", nodes.len() - shown)));
        }
        let purposes: Vec<String> = self
            .report
            .memory
            .iter()
            .map(|used| format!("{} {}", used.purpose, human(used.held_bytes)))
            .collect();
        if !purposes.is_empty() {
            lines.push(plain(format!("memory        {}", purposes.join(", "))));
        }
        lines
    }

    fn tables(&self, columns: usize, rows: usize) -> Vec<Line> {
        if self.report.tables.is_empty() {
            return vec![plain("no tables yet: `barn put KEY VALUE` makes the first".into())];
        }
        // What the other columns leave, within reason.
        let width = columns.saturating_sub(60).clamp(8, 40);
        let heading = format!(
            "{:<width$} {:<9} {:>6} {:>11} {:>10} {:>9} {:>9}",
            "table", "kind", "shards", "keys", "memory", "gets/s", "changes/s"
        );
        let mut lines = vec![Line { text: format!("{heading:<columns$}"), tone: Tone::Heading }];
        let mut tables = self.report.tables.clone();
        self.sort.sort(&mut tables);
        let room = rows.max(1);
        let shown = if tables.len() > room { room - 1 } else { tables.len() };
        lines.extend(tables.iter().take(shown).map(|table| {
            plain(format!(
                "{:<width$} {:<9} {:>6} {:>11} {:>10} {:>9} {:>9}",
                fitted(&table.name, width),
                table.kind,
                table.shards,
                table.keys,
                human(table.memory_bytes),
                rate(table.gets_per_second),
                rate(table.updates_per_second),
            ))
        }));
        if shown < tables.len() {
            lines.push(plain(format!("and {} tables more", tables.len() - shown)));
        }
        lines
    }
}

fn plain(text: String) -> Line {
    Line { text, tone: Tone::Plain }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn bar(part: u64, whole: u64) -> String {
    let filled = (u128::from(part) * BAR_CELLS as u128).checked_div(whole.into()).unwrap_or(0) as usize;
    let filled = filled.min(BAR_CELLS);
    format!("{}{}", "█".repeat(filled), "░".repeat(BAR_CELLS - filled))
}

/// A text of at most so many letters, with a mark where some are left out. Whatever came from a node
/// has no power over the terminal.
fn fitted(text: &str, columns: usize) -> String {
    let clean = |letter: char| if letter.is_control() { '?' } else { letter };
    if text.chars().count() <= columns {
        return text.chars().map(clean).collect();
    }
    text.chars().map(clean).take(columns.saturating_sub(1)).chain((columns > 0).then_some('…')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{look, node};
    use barn_server::{ShardStatus, TableStatus};

    fn report(tables: usize, nodes: u32) -> Report {
        let mut nodes: Vec<_> = (1..=nodes).map(|member| node(member, 2000, 3000, 500)).collect();
        if let Ok(status) = &mut nodes[0].status {
            status.activity.tables = (0..tables)
                .map(|number| TableStatus {
                    name: format!("table-{number:02}-{}", "x".repeat(number)),
                    kind: "cuckoo".into(),
                    shards: 1,
                    here: vec![ShardStatus {
                        keys: number as u64,
                        gets: 100 - number as u64,
                        ..ShardStatus::default()
                    }],
                })
                .collect();
        }
        let before = nodes.iter().map(|seen| {
            let mut seen = node(seen.member, 1000, 0, 0);
            if let Ok(status) = &mut seen.status {
                status.activity.tables.clear();
            }
            seen
        });
        Report::new(&look(nodes.clone()), Some(&look(before.collect())))
    }

    fn texts(report: &Report, sort: Sort, columns: usize, rows: usize) -> Vec<String> {
        let view = View { address: "shm:/run/user/1000/barn/node.sock", report, sort, note: "" };
        view.lines(columns, rows).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_frame_fits_any_terminal() {
        for (tables, nodes) in [(0, 1), (1, 1), (40, 1), (3, 30), (60, 60)] {
            let report = report(tables, nodes);
            for (columns, rows) in [(80, 24), (1, 1), (40, 10), (200, 60), (0, 0), (80, 3)] {
                let lines = texts(&report, Sort::Activity, columns, rows);
                assert_eq!(lines.len(), rows, "{columns}x{rows}");
                assert!(
                    lines.iter().all(|line| line.chars().count() <= columns),
                    "{columns}x{rows}: {lines:#?}"
                );
            }
        }
    }

    #[test]
    fn at_80_by_24_nothing_of_importance_is_cut_off() {
        let text = texts(&report(3, 2), Sort::Activity, 80, 24).join("\n");
        for words in [
            "2 members, 4 clients, up 2.0 s",
            "gets/s",
            "one node",
            "4.2 µs away",
            "changes/s",
            "q quit",
            "member 2",
            "tables 2 MiB",
            "████░",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(text.lines().skip(1).all(|line| !line.contains('…')), "{text}");
    }

    #[test]
    fn tables_are_sorted_as_asked_for() {
        let report = report(3, 1);
        let first = |sort| {
            let lines = texts(&report, sort, 80, 24);
            let heading = lines.iter().position(|line| line.starts_with("table ")).expect("has a heading");
            lines[heading + 1].split(' ').next().expect("has a name").to_owned()
        };
        assert!(first(Sort::Activity).starts_with("table-00"));
        assert!(first(Sort::Keys).starts_with("table-02"));
        assert!(first(Sort::Name).starts_with("table-00"));
        assert_eq!(Sort::Activity.next().next().next().next(), Sort::Activity);
    }

    #[test]
    fn what_a_node_says_has_no_power_over_the_terminal() {
        assert_eq!(fitted("a\x1b[2Jb", 80), "a?[2Jb");
        assert_eq!((fitted("abcdef", 4), fitted("abc", 0)), ("abc…".into(), String::new()));
    }

    #[test]
    fn bars_never_overflow() {
        assert_eq!(bar(1, 2).chars().filter(|cell| *cell == '█').count(), BAR_CELLS / 2);
        assert_eq!((bar(9, 2), bar(0, 0)), ("█".repeat(BAR_CELLS), "░".repeat(BAR_CELLS)));
        assert_eq!(bar(u64::MAX, u64::MAX), "█".repeat(BAR_CELLS));
    }
}
