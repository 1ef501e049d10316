//! How durable changes are asked to be, and what the node is told to wait for.

use super::*;
use barn_fabric::Words;
use barn_heap::HeapOptions;
use barn_layout::RegionId;

fn heap(is_recorded: bool) -> Heap {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    if is_recorded {
        heap.record_changes();
    }
    heap.add_region(RegionId(1), Words::private(32 << 20)).unwrap();
    heap
}

fn table(durability: Option<Durability>) -> TableOptions {
    TableOptions { durability, seed: 5, ..TableOptions::default() }
}

#[test]
fn the_strongest_of_a_batch_is_waited_for() {
    const NODE: Durability = Durability::Logged;
    let (mut heap, mut tables) = (heap(true), Tables::default());
    let all = [table(None), table(Some(Durability::Synced)), table(Some(Durability::Memory))];
    let numbered: Vec<_> = (1..).zip(&all).collect();
    let configuration = configuration(1, &numbered);
    let (memory, logged, synced) = (Durability::Memory, Durability::Logged, Durability::Synced);
    for (table, asked, wanted) in [
        (1, vec![None], NODE),
        (1, vec![Some(memory)], memory),
        (1, vec![Some(memory), None], NODE),
        (1, vec![Some(memory), Some(synced), Some(logged)], synced),
        (2, vec![None], synced),
        (2, vec![Some(logged)], logged),
        (3, vec![None, Some(memory)], memory),
    ] {
        let keys: Vec<_> = (0..asked.len()).map(|at| [at as u8]).collect();
        let puts: Vec<_> = keys.iter().zip(&asked).map(|(key, asked)| put(key, b"v", *asked)).collect();
        let (handled, told) = update(&mut tables, &mut heap, &configuration, table, &puts).unwrap();
        assert_eq!(handled, Handled { durability: wanted, changed: true }, "table {table}, {asked:?}");
        assert!(told.iter().all(|(outcome, _)| *outcome == Outcome::Done));
    }
    let delete = Update { operation: Operation::Delete, ..put(b"nobody", b"", None) };
    let (handled, told) = update(&mut tables, &mut heap, &configuration, 1, &[delete]).unwrap();
    assert_eq!((handled.changed, told[0].0), (false, Outcome::Absent));
}

#[test]
fn a_table_in_memory_refuses_to_log_one_key_and_takes_the_others() {
    let (mut heap, mut tables) = (heap(true), Tables::default());
    let options = [
        table(Some(Durability::Memory)),
        TableOptions { kind: Kind::Cache, memory_bytes: 1 << 20, ..table(None) },
    ];
    let numbered: Vec<_> = (1..).zip(&options).collect();
    let configuration = configuration(1, &numbered);
    for table in [1, 2] {
        // Of the same key: one that is refused must not replace what was put before it.
        let puts =
            [put(b"k", b"one", None), put(b"k", b"two", Some(Durability::Synced)), put(b"j", b"3", None)];
        let (handled, told) = update(&mut tables, &mut heap, &configuration, table, &puts).unwrap();
        assert_eq!(handled, Handled { durability: Durability::Memory, changed: true });
        let outcomes: Vec<_> = told.iter().map(|(outcome, _)| *outcome).collect();
        assert_eq!(outcomes, [Outcome::Done, Outcome::Invalid, Outcome::Done]);
        let why = String::from_utf8_lossy(&told[1].1);
        assert!(why.contains("kept in memory only"), "{why}");
        let held = &mut tables.shards.iter_mut().find(|((number, _), _)| *number == table).unwrap().1;
        let mut found = Found::default();
        assert!(held.shard.get(&heap, Key::new(5, b"k"), &mut found).unwrap());
        assert_eq!(found.value, b"one");
    }
}

#[test]
fn a_node_without_a_log_promises_none() {
    let (mut heap, mut tables) = (heap(false), Tables::default());
    let options = [table(None), table(Some(Durability::Logged))];
    let numbered: Vec<_> = (1..).zip(&options).collect();
    let configuration = configuration(1, &numbered);
    let puts = [put(b"k", b"v", Some(Durability::Logged)), put(b"k", b"v", Some(Durability::Memory))];
    let (_, told) = update(&mut tables, &mut heap, &configuration, 1, &puts).unwrap();
    assert_eq!((told[0].0, told[1].0), (Outcome::Invalid, Outcome::Done));
    assert!(String::from_utf8_lossy(&told[0].1).contains("keeps no log"));
    let refused = update(&mut tables, &mut heap, &configuration, 2, &[put(b"k", b"v", None)]).unwrap_err();
    assert!(refused.contains("keeps no log"), "{refused}");
}
