//! A node's tables through a restart: which come back, which are given up, which are empty.

use super::*;
use crate::replay::Replica;
use barn_fabric::Words;
use barn_heap::{HeapOptions, Purpose};
use barn_layout::RegionId;

struct Node {
    heap: Heap,
    tables: Tables,
    replica: Replica,
}

impl Node {
    fn new() -> Self {
        let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        heap.record_changes();
        heap.add_region(RegionId(1), Words::private(64 << 20)).unwrap();
        Self { heap, tables: Tables::default(), replica: Replica::default() }
    }

    fn log(&mut self) {
        self.replica.apply(self.heap.changes().unwrap());
    }

    fn restart(&mut self, configuration: &Configuration) -> Result<Reopened, String> {
        self.log();
        self.heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        self.heap.record_changes();
        for (id, words) in self.replica.restored() {
            self.heap.add_region(id, words).unwrap();
        }
        self.tables = Tables::default();
        let notes: Vec<_> = (self.replica.notes.iter())
            .filter_map(|(key, values)| {
                NoteKey::parse(key).map(|(table, shard)| (table, shard, values.clone()))
            })
            .collect();
        self.tables.reopen(&mut self.heap, configuration, notes.into_iter())
    }

    fn put(&mut self, configuration: &Configuration, table: u32, key: &[u8], value: &[u8]) {
        let told = update(&mut self.tables, &mut self.heap, configuration, table, &[put(key, value, None)]);
        assert_eq!(told.unwrap().1[0].0, Outcome::Done);
    }

    fn get(&mut self, configuration: &Configuration, table: u32, key: &[u8]) -> Option<Vec<u8>> {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        wire::begin(&mut message, table, 0, 1);
        wire::add_key(&mut message, key);
        let now = Now::at(1);
        let (heap, durability) = (&mut self.heap, Durability::Logged);
        let node =
            Surroundings { heap, configuration, member: MEMBER, now: &now, changed: vec![], durability };
        let handled = self.tables.handle(node, Method::Get as u16, &message, &mut answer).unwrap();
        assert_eq!(handled, Handled { durability: Durability::Memory, changed: false });
        let told = wire::next_answer(&mut &answer[..]).unwrap();
        (told.outcome == Outcome::Done).then(|| told.value.to_vec())
    }
}

fn options(kind: Kind, durability: Option<Durability>) -> TableOptions {
    TableOptions { kind, durability, memory_bytes: 2 << 20, seed: 5, ..TableOptions::default() }
}

#[test]
fn durable_tables_come_back_and_volatile_ones_are_empty() {
    let kinds = [
        options(Kind::Hopscotch, None),
        options(Kind::Cuckoo, Some(Durability::Synced)),
        options(Kind::Hopscotch, Some(Durability::Memory)),
        options(Kind::Cuckoo, Some(Durability::Memory)),
        options(Kind::Cache, None),
    ];
    let numbered: Vec<_> = (1..).zip(&kinds).collect();
    let configuration = configuration(3, &numbered);
    let mut node = Node::new();
    for (table, _) in &numbered {
        for number in 0..2000 {
            node.put(&configuration, *table, format!("key {number}").as_bytes(), &[*table as u8; 20]);
        }
        node.log();
    }
    assert_eq!(node.replica.notes.len(), 2, "volatile tables have no notes");
    for _ in 0..3 {
        let reopened = node.restart(&configuration).unwrap();
        assert_eq!(reopened, Reopened { shards: 2, dropped: 0, keys: 4000 });
        assert_eq!(node.heap.usage().of(Purpose::Volatile).block_bytes, 0);
        for (table, options) in &numbered {
            let wanted = options.purpose().is_durable().then(|| vec![*table as u8; 20]);
            assert_eq!(node.get(&configuration, *table, b"key 1999"), wanted, "table {table}");
        }
        // A checkpoint in between changes nothing.
        let mut record = barn_log::Record::default();
        node.tables.remember(&node.heap, &mut record);
        node.replica.apply(&mut record);
        assert!(node.replica.notes.values().all(|values| values.len() == 1));
    }
}

#[test]
fn what_volatile_tables_do_is_not_in_the_log() {
    let kinds = [options(Kind::Hopscotch, Some(Durability::Memory)), options(Kind::Cache, None)];
    let numbered: Vec<_> = (1..).zip(&kinds).collect();
    let configuration = configuration(3, &numbered);
    let mut node = Node::new();
    node.log();
    let before = node.replica.bytes;
    for number in 0..1000 {
        node.put(&configuration, 1, format!("key {number}").as_bytes(), &[1; 300]);
        node.put(&configuration, 2, format!("key {number}").as_bytes(), &[1; 300]);
    }
    node.log();
    let bytes = node.replica.bytes - before;
    assert!(bytes < 2000, "{bytes} bytes, for more than the block table");
}

#[test]
fn a_table_that_was_dropped_meanwhile_is_given_up_at_the_first_request() {
    let (hopscotch, cuckoo) = (options(Kind::Hopscotch, None), options(Kind::Cuckoo, None));
    let both = configuration(3, &[(1, &hopscotch), (2, &cuckoo), (3, &hopscotch)]);
    let mut node = Node::new();
    for number in 0..2000u32 {
        node.put(&both, 1, &number.to_le_bytes(), &[1; 300]);
        node.put(&both, 2, &number.to_le_bytes(), &[2; 300]);
        node.put(&both, 3, &number.to_le_bytes(), &[3; 300]);
    }
    let one = configuration(5, &[(3, &hopscotch)]);
    let reopened = node.restart(&one).unwrap();
    assert_eq!((reopened.shards, reopened.dropped), (3, 2));
    assert_eq!(node.get(&one, 3, &1999u32.to_le_bytes()), Some(vec![3; 300]));
    assert_eq!(node.tables.stats().count(), 1);
    node.log();
    assert_eq!(node.replica.notes.len(), 1);
    let stats = node.tables.stats().next().unwrap().2;
    let usage = *node.heap.usage().of(Purpose::Tables);
    assert_eq!(usage.slot_bytes + usage.reserved_bytes, stats.memory_bytes, "the others' memory is free");
    assert_eq!(node.restart(&one).unwrap(), Reopened { shards: 1, dropped: 0, keys: 2000 });
    assert_eq!(node.get(&one, 3, &0u32.to_le_bytes()), Some(vec![3; 300]));
}

/// Given a node that starts with a configuration from before its table was made.
#[test]
fn an_old_configuration_drops_no_table() {
    let hopscotch = options(Kind::Hopscotch, None);
    let new = configuration(7, &[(1, &hopscotch), (2, &hopscotch)]);
    let mut node = Node::new();
    node.put(&new, 1, b"key", b"value");
    let old = configuration(6, &[(2, &hopscotch)]);
    assert_eq!(node.restart(&old).unwrap(), Reopened { shards: 1, dropped: 0, keys: 1 });
    node.put(&old, 2, b"other", b"value");
    assert_eq!(node.get(&new, 1, b"key"), Some(b"value".to_vec()));
}

#[test]
fn notes_that_do_not_belong_to_the_table_are_refused() {
    let hopscotch = options(Kind::Hopscotch, None);
    let configured = configuration(7, &[(1, &hopscotch)]);
    let mut node = Node::new();
    node.put(&configured, 1, b"key", b"value");
    let other = TableOptions { seed: 6, ..hopscotch };
    let refused = node.restart(&configuration(7, &[(1, &other)])).unwrap_err();
    assert!(refused.starts_with("shard 0 of table 1: ") && refused.contains("other options"), "{refused}");
    let key = NoteKey::new(1, 0);
    node.replica.notes.get_mut(key.as_bytes()).unwrap()[0][30] ^= 0xff;
    assert!(node.restart(&configured).is_err());
}

#[test]
fn a_tree_is_gone_through_by_ranges_alone() {
    let configuration =
        configuration(3, &[(1, &options(Kind::Tree, None)), (2, &options(Kind::Cuckoo, None))]);
    let mut node = Node::new();
    for table in [1, 2] {
        node.put(&configuration, table, b"key", b"value");
    }
    let mut ask = |table: u32, method: Method| {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        wire::begin(&mut message, table, 0, 0);
        match method {
            Method::Range => wire::add_range(&mut message, b"", None, 1 << 20, 10),
            _ => message.extend_from_slice(&[0; TableScan::BYTES]),
        }
        let (now, Node { heap, tables, .. }) = (Now::at(1), &mut node);
        let (configuration, durability) = (&configuration, Durability::Logged);
        let around =
            Surroundings { heap, configuration, member: MEMBER, now: &now, changed: vec![], durability };
        tables.handle(around, method as u16, &message, &mut answer)
    };
    assert!(ask(1, Method::Scan).is_err_and(|why| why.contains("by ranges")));
    assert!(ask(2, Method::Range).is_err_and(|why| why.contains("in no order")));
    assert!(ask(1, Method::Range).is_ok() && ask(2, Method::Scan).is_ok());
}

#[test]
fn whatever_is_expected_changes_nothing() {
    let kinds = [Kind::Hopscotch, Kind::Cuckoo, Kind::Cache, Kind::Tree].map(|kind| options(kind, None));
    let numbered: Vec<_> = (1..).zip(&kinds).collect();
    let configuration = configuration(3, &numbered);
    let mut node = Node::new();
    for (table, _) in &numbered {
        node.put(&configuration, *table, b"key", b"value");
    }
    let (mut get, mut change) = (Vec::new(), Vec::new());
    for table in 0..=5 {
        wire::begin(&mut get, table, 0, 1);
        wire::add_key(&mut get, b"key");
        wire::begin(&mut change, table, 0, 1);
        wire::add_update(&mut change, &put(b"key", b"another", None));
        for (method, message) in [(Method::Get, &get), (Method::Update, &change), (Method::Scan, &get)] {
            // Also what is cut off, and what a client has made up.
            for end in 0..=message.len() {
                node.tables.expect_alone(&node.heap, method as u16, &message[..end]);
                let mut other = message.clone();
                other[end.min(message.len() - 1)] ^= 0xff;
                node.tables.expect_alone(&node.heap, method as u16, &other);
                node.tables.expect(&node.heap, [(method as u16, &other[..end])].into_iter());
            }
        }
    }
    for (table, _) in &numbered {
        assert_eq!(node.get(&configuration, *table, b"key"), Some(b"value".to_vec()), "table {table}");
    }
    assert_eq!(node.tables.operations().put, 4);
}
