//! A READ whose thread waits for it and for nothing else, with nothing else under way on its connection: it is
//! posted and its answer looked for in one go.
//!
//! Most of what an operation costs its CPU is that others may be under way beside it: it has a place in a table, stands
//! in a queue, is flushed with the others and taken back out of the queue. Where it is alone and the answer is there
//! at the first look, all of that is for nothing.
//!
//! What always holds: what has no answer at the first look, or was beside something else, is from then on an
//! operation like any other, as if it had been posted the usual way.

use super::client::{Broken, Key, State, VerbsClient};
use super::lane::Lane;
use super::operations::Operations;
use super::sys::{Completion, Status};
use crate::error::OperationError;
use crate::link::AtOnce;

impl State {
    /// Whether nothing waits to be posted, or to be seen to.
    fn is_idle(&self) -> bool {
        !self.gone
            && self.operations.is_idle()
            && self.renewal.is_none()
            && self.has_left()
            && self.lane.as_ref().is_none_or(Lane::is_idle)
            && self.mail.slots.has_room()
    }
}

impl VerbsClient {
    /// As [`crate::link::Link::read_at_once`].
    pub(super) fn read_alone(&self, key: u64, offset: u64, into: &mut [u8]) -> AtOnce {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(Key { address, key, revoked: false }) = state.keys.get(&key).copied() else {
            return AtOnce::NotTried;
        };
        if into.is_empty() || into.len() > Operations::ALONE_BYTES_MAX || !state.is_idle() {
            return AtOnce::NotTried;
        }
        let place = (address.wrapping_add(offset), key);
        match self.read_idle(state, place, into) {
            Ok(done) => done,
            Err(Broken) => {
                self.fail(state);
                AtOnce::Done(Err(OperationError::PeerGone))
            }
        }
    }

    fn read_idle(&self, state: &mut State, place: (u64, u32), into: &mut [u8]) -> Result<AtOnce, Broken> {
        let id = state.operations.post_alone(place, into.len())?;
        let completion = self.queue.poll_one()?;
        if completion.is_some_and(|own| own.id == id && own.status == Status::Done) {
            state.operations.take_alone(into);
            return Ok(AtOnce::Done(Ok(())));
        }
        self.read_later(state, place, into.len(), completion)
    }

    /// It takes longer, or something else came first: from now on it is one operation of several.
    #[inline(never)]
    fn read_later(
        &self,
        state: &mut State,
        place: (u64, u32),
        bytes: usize,
        completion: Option<Completion>,
    ) -> Result<AtOnce, Broken> {
        let ticket = state.mail.slots.take().ok_or(Broken)?;
        state.operations.leave_alone(ticket, place, bytes);
        if let Some(completion) = completion {
            self.completed(state, &completion, &mut None)?;
            self.finish_drive(state, 1)?;
            self.note_brought(state);
        }
        Ok(AtOnce::Posted(ticket))
    }
}
