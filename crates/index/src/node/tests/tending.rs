//! What a node does for its tables as time passes, and what it says of one that is damaged.

use super::*;
use barn_fabric::Words;
use barn_heap::HeapOptions;
use barn_layout::RegionId;

const SHARDS: u32 = 12;

fn site(options: &TableOptions, shards: u32) -> (Heap, Tables, Configuration) {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.add_region(RegionId(1), Words::private(256 << 20)).unwrap();
    let numbered: Vec<_> = (1..=shards).map(|table| (table, options)).collect();
    let configuration = configuration(3, &numbered);
    let mut tables = Tables::default();
    for table in 1..=shards {
        update(&mut tables, &mut heap, &configuration, table, &[put(b"key", b"value", None)]).unwrap();
    }
    (heap, tables, configuration)
}

/// Given more tables that are made ahead than there is time for at once, expect that each has its turn.
#[test]
fn all_tables_have_their_turn_and_none_all_of_the_time() {
    let options = TableOptions { capacity: 100_000, seed: 5, ..TableOptions::default() };
    let (mut heap, mut tables, configuration) = site(&options, SHARDS);
    let slots = |tables: &Tables| tables.stats().map(|(_, _, stats)| stats.slots).collect::<Vec<u64>>();
    let before = slots(&tables);
    let grown = |tables: &Tables| slots(tables).iter().zip(&before).filter(|(now, then)| now > then).count();
    tables.tend(&mut heap, &configuration);
    let at_once = grown(&tables);
    assert!((1..SHARDS as usize).contains(&at_once), "{at_once}");
    (0..SHARDS).for_each(|_| tables.tend(&mut heap, &configuration));
    assert_eq!(grown(&tables), SHARDS as usize);
}

/// Given a table whose memory is not there, expect that a scan is refused, and not told to go on where it was.
#[test]
fn a_damaged_table_is_not_scanned_for_ever() {
    let (_, mut tables, configuration) = site(&TableOptions { seed: 5, ..TableOptions::default() }, 1);
    let mut elsewhere = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    let (mut message, mut answer) = (Vec::new(), Vec::new());
    wire::begin(&mut message, 1, 0, 0);
    let scan = TableScan { cursor: 0.into(), bytes_max: (1 << 10).into(), keys_max: 10.into() };
    message.extend_from_slice(scan.as_bytes());
    let now = Now::at(1);
    let node = Surroundings {
        heap: &mut elsewhere,
        configuration: &configuration,
        member: MEMBER,
        now: &now,
        changed: Vec::new(),
        durability: Durability::Logged,
    };
    let refused = tables.handle(node, Method::Scan as u16, &message, &mut answer).unwrap_err();
    assert!(refused.contains("damaged"), "{refused}");
}
