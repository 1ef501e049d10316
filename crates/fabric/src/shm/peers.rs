//! The connected clients of a node, by the numbers they came with.
//!
//! A sweep goes over all of them, and there are many sweeps for every client that comes or goes: they stand
//! one behind the other. Numbers are given in turn, so that a newcomer's place is always the last.

use super::peer::ShmPeer;

/// What always holds: in the order of their numbers.
#[derive(Default)]
pub(super) struct Peers(Vec<(u64, Box<ShmPeer>)>);

impl Peers {
    fn place(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number)
    }

    /// Adds one; a number that is taken is its new owner's.
    pub(super) fn insert(&mut self, number: u64, peer: ShmPeer) {
        let peer = (number, Box::new(peer));
        match self.place(number) {
            Ok(at) => self.0[at] = peer,
            Err(at) => self.0.insert(at, peer),
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<ShmPeer> {
        let at = self.place(number).ok()?;
        Some(*self.0.remove(at).1)
    }

    pub(super) fn get(&self, number: u64) -> Option<&ShmPeer> {
        self.place(number).ok().map(|at| &*self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut ShmPeer> {
        self.place(number).ok().map(|at| &mut *self.0[at].1)
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut ShmPeer)> {
        self.0.iter_mut().map(|(number, peer)| (*number, &mut **peer))
    }
}
