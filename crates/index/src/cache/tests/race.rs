//! Readers while the owner writes: nothing torn, nothing older than what was there when they began.

use super::*;
use crate::client::memory::{Memory, Unreadable};
use barn_fabric::Confirmation;
use barn_layout::Address;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A value that shows whether it is whole: one number, over and over.
fn fill(number: u64, words: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(words)
}

/// The number of a value; panics if it is torn.
fn number(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    assert!(rest.is_empty() && words.iter().all(|word| *word == words[0]), "torn");
    u64::from_le_bytes(words[0])
}

/// Memory in which the owner puts something in the middle of every READ.
struct Interrupted {
    memory: HeapMemory,
    state: Mutex<State>,
}

struct State {
    cache: Cache,
    number: u64,
    words: usize,
    puts: u64,
}

impl State {
    fn put(&mut self) {
        self.number += 1;
        self.cache.put(b"key", &fill(self.number, self.words), 0).unwrap();
    }
}

impl Memory for Interrupted {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let (first, second) = into.split_at_mut(into.len() / 16 * 8);
        let then = at.checked_add(first.len() as u32).unwrap();
        self.memory.read(at, first).await?;
        {
            let mut state = self.state.lock().unwrap();
            (0..state.puts).for_each(|_| state.put());
        }
        self.memory.read(then, second).await
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.memory.read_confirmed(at, into).await
    }

    fn mapped(&self, _: RegionId) -> Option<&Words> {
        None
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}

#[test]
fn a_read_that_the_log_overtakes_is_never_believed() {
    let (mut settled, mut unsettled) = (0, 0);
    for words in [1, 5, 100, 4000, 14_000] {
        let (heap, memory) = heap(1, 8);
        let cache = Cache::new((heap, HeapMemory(memory.0.clone())), 1 << 20);
        let (roots, log_words) = (cache.roots.clone(), cache.roots.space.log_words());
        let state = Mutex::new(State { cache, number: 0, words, puts: 0 });
        let memory = Interrupted { memory, state };
        let lap = log_words / (words as u64 + 5);
        // None, a few, and around one lap and two: over the very entry, and just short of it.
        let few = 0..3;
        let around = |puts: u64| puts.saturating_sub(3)..puts + 4;
        for puts in few.chain(around(lap / 2)).chain(around(lap)).chain(around(2 * lap)) {
            let (from, mut found, mut reads) = {
                let mut state = memory.state.lock().unwrap();
                state.puts = puts;
                state.put();
                (state.number, Found::default(), 0)
            };
            let lookup = roots.lookup(&memory, Key::new(SEED, b"key"), &mut found, &mut reads);
            match block_on(lookup).unwrap() {
                Looked::Found => {
                    let until = memory.state.lock().unwrap().number;
                    let seen = number(&found.value);
                    assert_eq!(found.value.len(), words * 8);
                    assert!((from..=until).contains(&seen), "{seen} is not from {from} to {until}");
                    settled += 1;
                    // The bucket, the first bytes of the entry, and the rest if there is more.
                    assert!(puts > 0 || reads == 2 + u32::from(words > 27), "{reads} for {words} words");
                }
                Looked::Unsettled => unsettled += 1,
                looked => panic!("the key is there all the time: {looked:?}"),
            }
        }
    }
    assert!(settled >= 10 && unsettled >= 10, "{settled}, {unsettled}");
}

/// Memory that may not be believed, and says so when it is asked.
struct Doubtful(HeapMemory);

impl Memory for Doubtful {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.0.read(at, into).await
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.0.read_confirmed(at, into).await
    }

    fn mapped(&self, region: RegionId) -> Option<&Words> {
        self.0.mapped(region)
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Err(Unreadable::Nowhere)
    }
}

#[test]
fn nothing_is_concluded_from_memory_that_may_not_be_believed() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    cache.put(b"there", b"value", 0).unwrap();
    let memory = Doubtful(HeapMemory(cache.memory.0.clone()));
    for key in [&b"there"[..], b"not there"].map(|key| Key::new(SEED, key)) {
        let mut found = [Found::default()];
        let looked = block_on(cache.roots.lookup(&memory, key, &mut found[0], &mut 0));
        assert_eq!(looked, Err(Unreadable::Nowhere));
        let mut looked = [Looked::Stale];
        let batch = cache.roots.lookup_batch_mapped(&memory, &[key], &mut found, &mut looked, &mut 0);
        assert_eq!(batch, Err(Unreadable::Nowhere));
    }
}

/// What readers know of the writer: the number of the last put of each key that is complete.
struct Board {
    complete: Vec<AtomicU64>,
    over: AtomicBool,
}

fn read_on(board: &Board, roots: &Roots, memory: &HeapMemory, batched: bool, seed: u64) -> u64 {
    let (mut random, mut found_count) = (Random(seed), 0);
    let mut floor = vec![0; board.complete.len()];
    let mut found = vec![Found::default(); 8];
    let mut looked = [Looked::Stale; 8];
    // ORDER: Relaxed, as it only ends the test.
    while !board.over.load(Ordering::Relaxed) {
        let chosen: [usize; 8] = std::array::from_fn(|_| random.below(floor.len() as u64) as usize);
        let bytes = chosen.map(u64::try_from).map(|number| number.unwrap_or(0).to_le_bytes());
        let keys: Vec<Key<'_>> = bytes.iter().map(|bytes| Key::new(SEED, bytes)).collect();
        for key in chosen {
            // SYNC: pairs with the writer's store after its put.
            floor[key] = floor[key].max(board.complete[key].load(Ordering::Acquire));
        }
        if batched {
            roots.lookup_batch_mapped(memory, &keys, &mut found, &mut looked, &mut 0).unwrap();
        } else {
            for at in 0..8 {
                looked[at] = block_on(roots.lookup(memory, keys[at], &mut found[at], &mut 0)).unwrap();
            }
        }
        for at in 0..8 {
            if looked[at] == Looked::Found {
                let seen = number(&found[at].value);
                assert_eq!(seen % floor.len() as u64, chosen[at] as u64, "another key's value");
                assert!(seen >= floor[chosen[at]], "{seen} is older than {}", floor[chosen[at]]);
                // A key that occurs twice in a batch may be read in any order there.
                if !batched {
                    floor[chosen[at]] = seen;
                }
                found_count += 1;
            }
        }
    }
    found_count
}

#[test]
fn racing_readers_see_whole_and_current_values() {
    for (keys, words_max) in [(4u64, 20_000), (64, 3000), (3000, 60)] {
        let mut cache = Cache::new(heap(1, 8), 1 << 20);
        let (roots, memory) = (cache.roots.clone(), HeapMemory(cache.memory.0.clone()));
        let complete = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let board = Board { complete, over: AtomicBool::new(false) };
        std::thread::scope(|scope| {
            let readers = [false, true].map(|batched| {
                let (board, roots, memory) = (&board, &roots, &memory);
                scope.spawn(move || read_on(board, roots, memory, batched, u64::from(batched)))
            });
            let mut random = Random(keys);
            let start = std::time::Instant::now();
            let mut round = 0;
            while start.elapsed().as_millis() < 700 {
                round += 1;
                let key = random.below(keys);
                let number = round * keys + key;
                let value = fill(number, 1 + random.below(words_max) as usize);
                if random.below(10) == 0 {
                    cache.update(&key.to_le_bytes(), Decision::Remove).1.unwrap();
                }
                cache.put(&key.to_le_bytes(), &value, 0).unwrap();
                // SYNC: pairs with the load in `read_on`: the put is complete for whoever sees this.
                board.complete[key as usize].store(number, Ordering::Release);
            }
            // ORDER: Relaxed, as it only ends the test.
            board.over.store(true, Ordering::Relaxed);
            let found = readers.map(|reader| reader.join().unwrap());
            println!("{keys} keys: {round} puts, found {found:?}");
            assert!(found.iter().all(|found| *found > 100), "{found:?}");
        });
    }
}
