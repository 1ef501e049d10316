//! `barn status`: the whole cluster at a glance: nodes, memory, tables, and where it is busy.

use std::io::{self, Write};

use crate::bytes::human;
use crate::command::{Exit, print_json};
use crate::duration::{self, Time};
use crate::node::NodeArgs;
use crate::watch::{NodeRow, Report, ShardRow, Watch};
use barn_server::{LogStatus, RegionStatus};

/// Whom to ask; its help is on [`super::Command::Status`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn status\n  barn status --over 10s --json | jq '.hot[0]'")]
pub struct Args {
    /// How long to watch for rates and hot spots.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub over: Time,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Looks twice and prints what there is, and what happened meanwhile.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let mut watch = Watch::new(args.node.address()?, args.node.options()?);
    let before = watch.look()?;
    std::thread::sleep(args.over.0);
    let report = Report::new(&watch.look()?, Some(&before));
    if json {
        print_json(&serde_json::to_value(&report)?)?;
    } else {
        print(&mut anstream::stdout().lock(), &report)?;
    }
    // A member that does not answer is nothing to be silent about.
    let away = report.nodes.iter().any(|node| node.trouble.is_some());
    Ok(if away { Exit::No } else { Exit::Ok })
}

/// A rate in three digits or so.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        Some(rate) if rate >= 1e6 => format!("{:.1} M", rate / 1e6),
        Some(rate) if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// A share in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0} %", part as f64 * 100.0 / whole as f64) }
}

/// A region in one line.
pub(super) fn region_line(region: &RegionStatus) -> String {
    let RegionStatus { id, bytes, purpose, rights, pages } = region;
    format!("region {id:<10} {:>10}  {purpose:<8} {rights:<18} {pages}", human(*bytes))
}

/// How far a node's log is behind.
pub(super) fn log_lag(node: &NodeRow) -> String {
    match &node.log {
        None => "no log".into(),
        Some(LogStatus { stopped: Some(why), .. }) => format!("log stopped: {why}"),
        Some(log) => format!("log {} and {} behind", human(log.lag_bytes), duration::human(log.lag_ms)),
    }
}

/// A time of nanoseconds.
pub(super) fn round_trip(node: &NodeRow) -> String {
    match node.round_trip_ns {
        None => "-".into(),
        Some(ns) if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        Some(ns) => format!("{:.1} µs", ns / 1e3),
    }
}

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let nodes = report.nodes.len();
    writeln!(out, "cluster: {nodes} member{}, configuration {}", plural(nodes), report.configuration)?;
    for node in &report.nodes {
        let addresses = node.addresses.join(" ");
        if let Some(trouble) = &node.trouble {
            writeln!(out, "  member {:<3} not reached ({trouble}): {addresses}", node.member)?;
            continue;
        }
        writeln!(
            out,
            "  member {:<3} {} of {} used ({}), {} client{}, up {}, {} away, {}: {addresses}",
            node.member,
            human(node.memory_held_bytes),
            human(node.memory_budget_bytes),
            percent(node.memory_held_bytes, node.memory_budget_bytes),
            node.clients,
            plural(node.clients as usize),
            duration::human(node.uptime_ms),
            round_trip(node),
            log_lag(node),
        )?;
        for region in &node.regions {
            writeln!(out, "    {}", region_line(region))?;
        }
    }
    writeln!(out, "\nmemory by purpose:")?;
    for used in &report.memory {
        writeln!(
            out,
            "  {:<12} {:>10} held, {:>10} in {} object{}",
            used.purpose,
            human(used.held_bytes),
            human(used.object_bytes),
            used.objects,
            plural(used.objects as usize)
        )?;
    }
    if let Some(rates) = &report.rates {
        let [gets, updates, one_sided, alone, together, aborted] =
            [rates.gets, rates.updates, rates.one_sided, rates.alone, rates.together, rates.aborted]
                .map(|figure| rate(Some(figure)));
        writeln!(out, "\neach second:")?;
        writeln!(out, "  tables       {gets} gets asked of nodes, {updates} changes")?;
        writeln!(out, "  one-sided    {one_sided} over tcp (over shared memory they leave no trace)")?;
        writeln!(
            out,
            "  transactions {alone} at one node, {together} parts of larger ones, {aborted} aborted"
        )?;
    }
    print_tables(out, report)
}

fn print_tables(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.tables.is_empty() {
        return writeln!(out, "\nno tables yet: `barn put KEY VALUE` makes the first");
    }
    let width = report.tables.iter().map(|table| table.name.len()).max().unwrap_or(0).max("table".len());
    writeln!(
        out,
        "\n{:<width$}  {:<9}  {:>6}  {:>12}  {:>10}  {:>10}  {:>8}  {:>9}",
        "table", "kind", "shards", "keys", "content", "memory", "gets/s", "changes/s"
    )?;
    for table in &report.tables {
        let shards = match table.shards_seen == table.shards {
            true => table.shards.to_string(),
            false => format!("{}/{}", table.shards_seen, table.shards),
        };
        writeln!(
            out,
            "{:<width$}  {:<9}  {shards:>6}  {:>12}  {:>10}  {:>10}  {:>8}  {:>9}",
            table.name,
            table.kind,
            table.keys,
            human(table.payload_bytes),
            human(table.memory_bytes),
            rate(table.gets_per_second),
            rate(table.updates_per_second),
        )?;
    }
    if !report.hot.is_empty() {
        writeln!(out, "\nhot spots:")?;
    }
    for spot in &report.hot {
        let ShardRow { table, shard, member, operations, operations_per_second } = spot;
        let now = rate(*operations_per_second);
        writeln!(
            out,
            "  {table}, shard {shard} at member {member}: {now} a second, {operations} since its start"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{look, node};

    #[test]
    fn everything_that_is_asked_for_is_printed() {
        let before = look(vec![node(1, 1000, 0, 0), node(2, 1000, 0, 0)]);
        let mut away = node(2, 2000, 0, 0);
        away.status = Err("no answer".into());
        let report = Report::new(&look(vec![node(1, 2000, 12_345, 6), away]), Some(&before));
        let mut out = Vec::new();
        print(&mut out, &report).expect("prints");
        let text = String::from_utf8(out).expect("is text");
        for words in [
            "cluster: 2 members, configuration 7",
            "member 1   16 MiB of 64 MiB used (25 %), 2 clients, up 2.0 s, 4.2 µs away, no log: tcp://10.0.0.1:7411",
            "member 2   not reached (no answer): tcp://10.0.0.2:7411",
            "tables            1 MiB held",
            "12.3 k gets asked of nodes, 6.0 changes",
            "users  hopscotch     1/2            10       100 B      1000 B    12.3 k        6.0",
            "users, shard 0 at member 1: 12.4 k a second, 12351 since its start",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn rates_are_short() {
        let shown = [None, Some(0.0), Some(0.5), Some(12.0), Some(12_345.0), Some(4_560_000.0)].map(rate);
        assert_eq!(shown, ["-", "0", "0.5", "12", "12.3 k", "4.6 M"]);
    }
}
