//! What is about to be asked for is fetched into the cache: the misses of several requests overlap.
//!
//! What always holds: nothing changes by it, and nothing is believed of what it finds; what cannot be
//! made sense of is left to whoever handles the request.

use super::{Request, Tables};
use crate::key::Key;
use crate::wire::{Method, next_key, next_update, split};
use barn_heap::Heap;
use barn_layout::table::TableHeader;

/// Requests that are looked at together; the rest of more is not fetched ahead.
const TOGETHER_MAX: usize = 16;

/// The key of a request for one, and the shard that will have it.
#[derive(Clone, Copy)]
struct Expected<'a> {
    shard: usize,
    key: Key<'a>,
    changes: bool,
}

impl Tables {
    /// These requests, methods and bodies, will be handled one after another. What is looked at for each is fetched,
    /// unless it has several keys: those see to it themselves.
    pub fn expect<'a>(&self, heap: &Heap, requests: impl Iterator<Item = (u16, &'a [u8])>) {
        let mut expected = [None; TOGETHER_MAX];
        for (place, (method, body)) in expected.iter_mut().zip(requests) {
            *place = self.only_key(method, body);
            if let Some(Expected { shard, key, changes }) = place {
                let shard = &self.shards[*shard].1.shard;
                match changes {
                    true => shard.prefetch_change(heap, *key),
                    false => shard.prefetch(heap, *key),
                }
            }
        }
        for Expected { shard, key, .. } in expected.iter().flatten().filter(|expected| !expected.changes) {
            self.shards[*shard].1.shard.prefetch_more(heap, *key);
        }
    }

    /// This request will be handled next, and no other with it: all that it may look at is fetched, while it is seen
    /// to that it can be handled.
    #[inline]
    pub fn expect_alone(&self, heap: &Heap, method: u16, body: &[u8]) {
        if let Some(Expected { shard, key, changes }) = self.only_key(method, body) {
            let shard = &self.shards[shard].1.shard;
            match changes {
                true => shard.prefetch_change(heap, key),
                false => shard.prefetch_alone(heap, key),
            }
        }
    }

    #[inline]
    fn only_key<'a>(&self, method: u16, body: &'a [u8]) -> Option<Expected<'a>> {
        let changes = match Method::from_bits(method)? {
            Method::Get => false,
            Method::Update => true,
            _ => return None,
        };
        let (header, mut rest) = split::<TableHeader>(body).ok()?;
        if header.count.get() != 1 {
            return None;
        }
        let part = (header.table.get(), header.shard.get());
        let shard = self.shards.iter().position(|(of, _)| *of == part)?;
        let key = match changes {
            true => next_update(&mut rest).ok()?.key,
            false => next_key(&mut rest).ok()?,
        };
        Some(Expected { shard, key: Key::new(self.shards[shard].1.options.seed, key), changes })
    }
}

impl Request<'_> {
    /// Fetches what the next changes of a batch will look at.
    pub(super) fn prefetch_changes(&self, count: usize, mut rest: &[u8]) {
        for _ in 0..count {
            let Ok(update) = next_update(&mut rest) else { return };
            self.held.shard.prefetch_change(self.heap, Key::new(self.held.options.seed, update.key));
        }
    }
}
