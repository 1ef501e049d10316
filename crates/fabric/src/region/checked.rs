//! A byte of registered memory whose place was checked, and loads from there on.
//!
//! What always holds: whoever makes one, or loads from it, has checked that what is loaded lies within the memory,
//! and says so in the name of what it calls. It is an address and no more, so that a look at an object goes through
//! nothing else; the memory stays mapped for as long as the [`Words`] are borrowed.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
use super::vector;
use super::whereabouts::Whereabouts;
use super::words::{AtomicU64, Ordering, Words};
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
#[cfg(not(loom))]
use std::marker::PhantomData;
#[cfg(not(loom))]
use std::ptr::NonNull;

/// A byte of some memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked<'a> {
    #[cfg(not(loom))]
    address: NonNull<u8>,
    #[cfg(not(loom))]
    memory: PhantomData<&'a Words>,
    #[cfg(loom)]
    words: &'a Words,
    #[cfg(loom)]
    at: usize,
}

// SAFETY: it stands for a reference to atomic words, which any thread may have and use.
#[cfg(not(loom))]
unsafe impl Send for Checked<'_> {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Checked<'_> {}

impl<'a> Checked<'a> {
    /// The byte at `at`, which lies within the memory, or at its end.
    #[inline(always)]
    pub(super) fn new(words: &'a Words, at: usize) -> Self {
        debug_assert!(at <= words.bytes());
        #[cfg(not(loom))]
        {
            // SAFETY: the caller has checked that it is within what the base's allocation or mapping has.
            Self { address: unsafe { words.base().cast::<u8>().add(at) }, memory: PhantomData }
        }
        #[cfg(loom)]
        Self { words, at }
    }

    /// So many bytes further on, which lie within the memory, too.
    #[inline(always)]
    pub(super) fn after(self, bytes: usize) -> Self {
        #[cfg(not(loom))]
        {
            // SAFETY: as above.
            Self { address: unsafe { self.address.add(bytes) }, ..self }
        }
        #[cfg(loom)]
        Self { at: self.at + bytes, ..self }
    }

    /// The word that begins here, at a whole word that is within the memory.
    #[inline(always)]
    pub(super) fn word(self) -> &'a AtomicU64 {
        #[cfg(not(loom))]
        {
            debug_assert!(self.address.cast::<AtomicU64>().is_aligned());
            // SAFETY: the caller has checked that all of it is within the memory, which is mapped, or on the
            // heap, for as long as `'a`; it is aligned, and nobody reaches it but as atomic words.
            unsafe { self.address.cast().as_ref() }
        }
        #[cfg(loom)]
        self.words.word(self.at)
    }

    /// So many words from a whole word on; the first is loaded before the others.
    #[inline(always)]
    pub(super) fn words<const WORDS: usize>(self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            // SYNC: Acquire, pairs with the Release store of whatever the first word stands for (a version):
            // the others are as they were then, or later.
            let order = if index == 0 { Ordering::Acquire } else { Ordering::Relaxed };
            *word = self.after(index * WORD_BYTES).word().load(order);
        }
        words
    }

    /// Whether these bytes stand here, from a whole word on.
    #[inline(always)]
    pub(super) fn holds(self, bytes: &[u8]) -> bool {
        let is = |index: usize, word: &[u8; WORD_BYTES]| {
            // ORDER: Relaxed: what is compared proves nothing before its version was looked at again.
            let held = self.after(index * WORD_BYTES).word().load(Ordering::Relaxed);
            held == u64::from_le_bytes(*word)
        };
        // The most usual length needs no loop.
        if bytes.len() == 2 * WORD_BYTES
            && let Some((one, two)) = bytes.split_first_chunk()
            && let Some(two) = two.first_chunk()
        {
            return is(0, one) & is(1, two);
        }
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        if !words.iter().enumerate().all(|(index, word)| is(index, word)) {
            return false;
        }
        if rest.is_empty() {
            return true;
        }
        // The memory has whole words, so that the last one is all there.
        // ORDER: Relaxed: as above.
        let last = self.after(words.len() * WORD_BYTES).word().load(Ordering::Relaxed).to_le_bytes();
        last[..rest.len()] == *rest
    }

    /// Copies bytes out. Each aligned word is read whole; the words together may be torn.
    #[inline(always)]
    pub(super) fn load(self, into: &mut [u8]) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        if (self.address.addr().get() | into.len()).is_multiple_of(WORD_BYTES) {
            // SAFETY: every caller has checked so many bytes from here on against the memory's length, both are
            // whole words, and `into` is private memory that overlaps nothing registered.
            unsafe {
                let from = self.address.as_ptr();
                match into.len() {
                    // Lengths that are known need no loop.
                    vector::BLOCK_BYTES => vector::copy_block(into.as_mut_ptr(), from),
                    vector::HALF_BLOCK_BYTES => {
                        vector::copy_short(into.as_mut_ptr(), from, vector::HALF_BLOCK_BYTES);
                    }
                    ..vector::BLOCK_BYTES => vector::copy_short(into.as_mut_ptr(), from, into.len()),
                    _ => vector::copy(into.as_mut_ptr(), from, into.len()),
                }
            }
            return;
        }
        self.load_by_word(into);
    }

    /// How far into its word the byte is. Every memory begins with a whole word.
    #[inline(always)]
    fn skip(self) -> usize {
        #[cfg(not(loom))]
        {
            self.address.addr().get() % WORD_BYTES
        }
        #[cfg(loom)]
        {
            self.at % WORD_BYTES
        }
    }

    /// The same word's first byte.
    #[inline(always)]
    fn before(self, bytes: usize) -> Self {
        #[cfg(not(loom))]
        {
            // SAFETY: every memory begins with a whole word, so that the word of a byte is within it.
            Self { address: unsafe { self.address.sub(bytes) }, ..self }
        }
        #[cfg(loom)]
        Self { at: self.at - bytes, ..self }
    }

    /// Copies bytes out that are not whole words: whole words around them, a line at a time.
    fn load_by_word(mut self, mut into: &mut [u8]) {
        while !into.is_empty() {
            let skip = self.skip();
            let take = (LINE_BYTES - skip).min(into.len());
            let mut line = [0; LINE_BYTES];
            let covered = (skip + take).next_multiple_of(WORD_BYTES);
            // What is around is there, too: the memory has whole words.
            self.before(skip).load_line(&mut line[..covered]);
            let (now, rest) = into.split_at_mut(take);
            now.copy_from_slice(&line[skip..skip + take]);
            into = rest;
            self = self.after(take);
        }
    }

    /// Copies whole words out.
    #[inline(always)]
    fn load_line(self, into: &mut [u8]) {
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        // SAFETY: the caller has checked so many bytes from here on, whole words; `into` is ours alone.
        unsafe {
            vector::copy(into.as_mut_ptr(), self.address.as_ptr(), into.len());
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
        for (index, word) in into.chunks_exact_mut(WORD_BYTES).enumerate() {
            // ORDER: Relaxed: the words together may be torn.
            let held = self.after(index * WORD_BYTES).word().load(Ordering::Relaxed);
            word.copy_from_slice(&held.to_le_bytes());
        }
    }

    /// Where it is, for whoever wants what follows fetched.
    #[inline(always)]
    pub(super) fn whereabouts(self) -> Whereabouts {
        #[cfg(not(loom))]
        let base = self.address.as_ptr();
        // Words that stand apart are nowhere.
        #[cfg(loom)]
        let base = std::ptr::null();
        Whereabouts::new(base)
    }
}
