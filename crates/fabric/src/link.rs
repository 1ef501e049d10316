//! What a transport's client side does, behind [`Connection`](crate::Connection).

use crate::drive;
use crate::error::{CallError, OpenError, OperationError};
use crate::region::{Rights, Word, Words};
use crate::slots::Ticket;
use crate::verb::Verb;
use barn_layout::RegionId;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What a transport promises about its READs and WRITEs. A reader uses a check that is sound
/// for these, and for no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guarantees {
    /// Aligned runs of so many bytes are read and written whole, by operations of up to
    /// [`WHOLE_WORDS_BYTES_MAX`]; longer ones promise single bytes.
    pub atomic_bytes: usize,
    /// The order in which the words of one READ are read.
    pub word_order: WordOrder,
    /// Whether an operation begins only after those posted before it on the same connection
    /// have been carried out.
    pub operations_in_order: bool,
    /// Whether remote atomics are atomic against the owner's own CPU atomics.
    pub atomic_with_owner: bool,
}

/// The longest operation whose words are whole on every transport; past it tcp lets the kernel copy.
pub const WHOLE_WORDS_BYTES_MAX: usize = (64 << 10) - 1;

/// The order of the words within one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOrder {
    /// From the lowest address up.
    Ascending,
    /// Any order.
    Any,
}

impl Guarantees {
    /// Where a CPU does the copying: whole words, in any order.
    pub const BY_CPU: Self = Self {
        atomic_bytes: 8,
        word_order: WordOrder::Any,
        operations_in_order: true,
        atomic_with_owner: true,
    };
}

#[cfg(feature = "verbs")]
impl Guarantees {
    /// Where a device does the copying. Software RoCE copies as a CPU does and is no more atomic
    /// than that against the owner; hardware mostly reads whole lines, and some of it (those with
    /// `IBV_ATOMIC_GLOB`) is atomic with the CPU, which nothing here depends on.
    pub(crate) const BY_DEVICE: Self = Self { atomic_with_owner: false, ..Self::BY_CPU };
}

/// Why there will be no answer.
pub(crate) enum Trouble {
    /// The connection is over.
    Gone,
    /// It took too long.
    Deadline,
}

macro_rules! trouble_into {
    ($($error:ident),+) => { $(
        impl From<Trouble> for $error {
            fn from(trouble: Trouble) -> Self {
                match trouble {
                    Trouble::Gone => Self::PeerGone,
                    Trouble::Deadline => Self::Deadline,
                }
            }
        }
    )+ };
}
trouble_into!(OperationError, OpenError, CallError);

/// An operation's wait for its answer, kept by its future.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Set once the operation has been posted.
    pub(crate) ticket: Option<Ticket>,
    /// How long an answer may take.
    pub(crate) limit: Duration,
    /// Bytes of a message that have been posted, where it goes in pieces.
    pub(crate) sent: usize,
    /// Whether all of it has been posted.
    pub(crate) posted: bool,
    /// Bytes of a READ's answer that are in the caller's buffer already.
    pub(crate) placed: usize,
    /// What the link had brought when it was last looked at.
    pub(crate) seen: u64,
    polls: u32,
    since: Option<Instant>,
    /// The reactor's timer for the deadline, where a runtime polls.
    timer: Option<u64>,
}

/// Looks at the clock once in so many polls of an operation that is driven in place: at 50 ns
/// a poll, a deadline is noticed within 13 µs.
const POLLS_PER_LOOK: u32 = 256;

impl Wait {
    #[inline]
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            ticket: None,
            limit,
            sent: 0,
            posted: false,
            placed: 0,
            seen: 0,
            polls: 0,
            since: None,
            timer: None,
        }
    }

    /// Counts anew: the answer may take so long from the next look at the clock on.
    pub(crate) fn restart(&mut self, limit: Duration) {
        (self.limit, self.since) = (limit, None);
    }

    /// Of an operation that was posted, under this ticket.
    pub(crate) fn posted(limit: Duration, ticket: Ticket) -> Self {
        Self { ticket: Some(ticket), posted: true, ..Self::new(limit) }
    }

    /// Notes a poll that found no answer; says whether the deadline has passed. The wait counts
    /// from the first look at the clock, so that a quick answer costs none.
    ///
    /// For a runtime it also asks the reactor to wake the task at its deadline.
    pub(crate) fn is_over(&mut self, cx: &Context<'_>) -> bool {
        self.polls = self.polls.wrapping_add(1);
        let in_place = drive::in_place();
        if in_place && !self.polls.is_multiple_of(POLLS_PER_LOOK) && !drive::parking() {
            return false;
        }
        let now = Instant::now();
        if self.since.is_none() {
            self.since = Some(now);
            if !in_place && let Ok(reactor) = drive::reactor::reactor() {
                self.timer = Some(reactor.wake_at(now + self.limit, cx.waker().clone()));
            }
        }
        self.left(now).is_zero()
    }

    /// Notes a poll that the link knows to be in vain; false once in a while, when the poll has
    /// to go on to [`Self::is_over`].
    #[inline]
    pub(crate) fn pass(&mut self) -> bool {
        let polls = self.polls.wrapping_add(1);
        let pass = !polls.is_multiple_of(POLLS_PER_LOOK);
        if pass {
            self.polls = polls;
        }
        pass
    }

    /// How long until the deadline.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        let waited = self.since.map_or(Duration::ZERO, |since| now - since);
        self.limit.saturating_sub(waited)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // An operation that is done keeps no waker alive until its deadline.
        if let Some(timer) = self.timer
            && let Ok(reactor) = drive::reactor::reactor()
        {
            reactor.forget(timer);
        }
    }
}

/// A region that a node let us into.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) bytes: u64,
    pub(crate) rights: Rights,
    pub(crate) place: Place,
}

/// How its bytes are reached.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// They are mapped here; the grant's word says whether it stands, and `open` whether the
    /// peer is there.
    Mapped { words: Words, grant: Word, open: Arc<AtomicBool> },
    /// Through the link, with this key.
    Keyed(u64),
}

/// What came of a READ that was tried at once.
#[derive(Debug)]
pub(crate) enum AtOnce {
    /// It is over.
    Done(Result<(), OperationError>),
    /// It was posted, under this ticket, and is to be polled for.
    #[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only verbs tries"))]
    Posted(Ticket),
    /// Nothing was done: it goes the usual way.
    NotTried,
}

/// The client side of a transport.
///
/// Every `poll_*` posts at its first call (`wait.ticket` is then set), and afterwards looks for
/// the answer. Polled in place ([`drive::in_place`]) it drives the connection itself, at most
/// once a sweep ([`drive::sweep`]), and if the driver is parking ([`drive::parking`]) says what to sleep on; polled by a
/// runtime it leaves its waker and lets the reactor drive.
pub(crate) trait Link: Send + Sync {
    /// What this transport promises.
    fn guarantees(&self) -> Guarantees;

    /// The transport's name, as in addresses.
    fn transport(&self) -> &'static str;

    /// Whether messages lie in memory that both sides map: an answer may be there within a microsecond.
    fn is_near(&self) -> bool {
        false
    }

    /// The number that the node gave this connection.
    fn peer(&self) -> crate::PeerId;

    /// Whether the peer is there, as far as is known.
    fn is_open(&self) -> bool;

    /// Asks for a region.
    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>>;

    /// Gives back what `poll_open` gave, when the last handle is dropped.
    fn close_region(&self, place: &Place);

    /// Carries out a one-sided operation that its own side found fine ([`Verb::check`]).
    fn poll_operation(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        key: u64,
        rights: Rights,
        verb: &mut Verb<'_>,
    ) -> Poll<Result<u64, OperationError>>;

    /// Tries a READ that its own side found fine, and whose thread waits for it and for nothing else.
    fn read_at_once(&self, _key: u64, _offset: u64, _into: &mut [u8]) -> AtOnce {
        AtOnce::NotTried
    }

    /// Posts a request now, if its thread will wait for the answer and nothing else is under way; `wait` then says so.
    fn start_call(&self, _wait: &mut Wait, _method: u16, _request: &[u8]) {}

    /// Waits a little for the answer to a request that was posted, without anything else being looked at: its
    /// status, and then nothing is left to abandon. `None` where it is to be polled for.
    fn answer_soon(&self, _wait: &mut Wait, _reply: &mut Vec<u8>) -> Option<u8> {
        None
    }

    /// Sends a request and takes its answer into `reply`, which is replaced.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>>;

    /// Sends a message that expects no answer. Done once the transport has taken all of it.
    fn poll_send(&self, cx: &mut Context<'_>, wait: &mut Wait, message: &[u8])
    -> Poll<Result<(), CallError>>;

    /// Takes the next message that the node sent by itself into `into`, which is replaced.
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>>;

    /// The future gave up: a late answer is dropped.
    fn abandon(&self, ticket: Ticket);
}
