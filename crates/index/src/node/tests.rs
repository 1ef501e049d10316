//! Tests of what a node does with its shards, whatever their kind.

mod durability;
mod restart;
mod tables;
mod tending;

use super::*;
use barn_cluster::TablePlacement;

const MEMBER: MemberId = MemberId(4);

/// A configuration with these tables, each with one shard at this node.
fn configuration(version: u64, tables: &[(u32, &TableOptions)]) -> Configuration {
    let tables = tables.iter().map(|(table, options)| TablePlacement {
        table: *table,
        name: format!("table {table}"),
        options: options.to_text(),
        shards: vec![MEMBER],
    });
    Configuration { version, tables: tables.collect(), ..Configuration::default() }
}

/// What came of a key: the outcome, and the value or the reason.
type Told = (Outcome, Vec<u8>);

/// Asks for updates, and gives what came of each.
fn update(
    tables: &mut Tables,
    heap: &mut Heap,
    configuration: &Configuration,
    table: u32,
    updates: &[Update<'_>],
) -> Result<(Handled, Vec<Told>), String> {
    let (mut message, mut answer) = (Vec::new(), Vec::new());
    wire::begin(&mut message, table, 0, updates.len() as u16);
    updates.iter().for_each(|update| wire::add_update(&mut message, update));
    let now = Now::at(1);
    let node = Surroundings {
        heap,
        configuration,
        member: MEMBER,
        now: &now,
        changed: Vec::new(),
        durability: Durability::Logged,
    };
    let handled = tables.handle(node, Method::Update as u16, &message, &mut answer)?;
    let mut rest = &answer[..];
    let told = updates.iter().map(|_| {
        let told = wire::next_answer(&mut rest).unwrap();
        (told.outcome, told.value.to_vec())
    });
    Ok((handled, told.collect()))
}

fn put<'a>(key: &'a [u8], value: &'a [u8], durability: Option<Durability>) -> Update<'a> {
    Update { operation: Operation::Put, key, value, operand: 0, expires: 0, durability }
}
