//! Connections to members, and the chunks that are open over them.
//!
//! A member has *lanes*: connections that share the chunks between them, because one connection may have
//! only so many regions open ([`REGIONS_PER_PEER_MAX`]). A chunk that two handles use is opened once.
//!
//! What always holds: a chunk is opened over a lane that its pass was shown over; it is closed when the
//! last handle that uses it goes.

use super::{Inner, MapError, lock};
use crate::message::{Chunk, MARKS_REGION, Pass};
use crate::wire;
use barn_cluster::{Life, MemberId};
use barn_fabric::{CallError, Connection, OpenError, RegionId, RemoteRegion, Rights};
use barn_layout::limits::REGIONS_PER_PEER_MAX;
use barn_layout::space::{MARK_BYTES, Method};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

/// Chunks on one lane: some places are left for the marks, and for what is being closed.
const CHUNKS_PER_LANE: usize = REGIONS_PER_PEER_MAX - 64;
/// Chunks that are being opened at a time.
const OPENING_MAX: usize = 32;

/// A connection to a member, and how many chunks are open over it.
pub(crate) struct Lane {
    pub(crate) connection: Connection,
    open: AtomicUsize,
    marks: Mutex<Option<RemoteRegion>>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.connection.fmt(f)
    }
}

/// A chunk that can be reached from here.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    pub(crate) region: RemoteRegion,
    /// The marks of its member, where the range is copy-on-write, and its place there.
    pub(crate) marks: RemoteRegion,
    mark: u32,
    pub(crate) member: MemberId,
    lane: Arc<Lane>,
}

impl OpenChunk {
    /// Where its mark is, among its member's.
    #[inline]
    pub(super) fn mark_at(&self) -> u64 {
        u64::from(self.mark) * MARK_BYTES
    }

    /// Whether its node is there, as far as is known.
    pub(super) fn is_there(&self) -> bool {
        self.lane.connection.is_open()
    }
}

impl Drop for OpenChunk {
    fn drop(&mut self) {
        // ORDER: Relaxed: a counter.
        self.lane.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Names a chunk for ever: the numbers of one life of a member are used once.
type ChunkKey = (MemberId, Life, u32, bool);

/// Connections and open chunks.
#[derive(Debug, Default)]
pub(crate) struct Links {
    lanes: Mutex<HashMap<MemberId, Vec<Arc<Lane>>>>,
    chunks: Mutex<HashMap<ChunkKey, Weak<OpenChunk>>>,
}

impl Links {
    /// A lane is of no use any more.
    pub(super) fn forget(&self, member: MemberId, lane: &Arc<Lane>) {
        if let Some(lanes) = lock(&self.lanes).get_mut(&member) {
            lanes.retain(|known| !Arc::ptr_eq(known, lane));
        }
    }

    /// A lane with room for a chunk, and its number; or the number that the next would have.
    fn with_room(&self, member: MemberId) -> (usize, Option<Arc<Lane>>) {
        let mut lanes = lock(&self.lanes);
        let lanes = lanes.entry(member).or_default();
        lanes.retain(|lane| lane.connection.is_open());
        // ORDER: Relaxed: a counter; one chunk more or less does not matter.
        let roomy = lanes.iter().position(|lane| lane.open.load(Ordering::Relaxed) < CHUNKS_PER_LANE);
        match roomy {
            Some(at) => (at, Some(lanes[at].clone())),
            None => (lanes.len(), None),
        }
    }

    fn find(&self, key: &ChunkKey) -> Option<Arc<OpenChunk>> {
        let found = lock(&self.chunks).get(key)?.upgrade()?;
        // A lane that has ended takes its grants along.
        found.lane.connection.is_open().then_some(found)
    }

    fn remember(&self, key: ChunkKey, chunk: &Arc<OpenChunk>) {
        let mut chunks = lock(&self.chunks);
        // Once in a while, what is gone is forgotten: no more of it than of what is there.
        if chunks.len() == chunks.capacity() {
            chunks.retain(|_, chunk| chunk.strong_count() > 0);
        }
        chunks.insert(key, Arc::downgrade(chunk));
    }
}

impl Inner {
    /// A lane to a member, the `number`th; connected if need be.
    pub(super) async fn lane(
        &self,
        member: MemberId,
        number: usize,
        limit: Duration,
    ) -> Result<Arc<Lane>, MapError> {
        let known = lock(&self.links.lanes).get(&member).and_then(|lanes| lanes.get(number)).cloned();
        if let Some(lane) = known {
            if lane.connection.is_open() {
                return Ok(lane);
            }
            self.links.forget(member, &lane);
        }
        let configuration = self.environment.directory.configuration();
        let Some(known) = configuration.member(member) else {
            return Err(MapError::Lost { member });
        };
        let connected = self.environment.connector.connect(known, limit).await;
        let connection = connected
            .map_err(|error| MapError::Unreachable { member, why: error.to_string() })?
            .with_deadline(self.options.deadline);
        let lane = Arc::new(Lane { connection, open: AtomicUsize::new(0), marks: Mutex::default() });
        // Another task may have connected meanwhile: two lanes do no harm.
        lock(&self.links.lanes).entry(member).or_default().push(lane.clone());
        Ok(lane)
    }

    /// Opens chunks, in their order, each with what its member's pass allows.
    pub(super) async fn open_chunks(
        &self,
        chunks: &[Chunk],
        passes: &[Pass],
        write: bool,
    ) -> Result<Vec<Arc<OpenChunk>>, MapError> {
        let mut opened: Vec<Option<Arc<OpenChunk>>> = vec![None; chunks.len()];
        let mut missing: HashMap<usize, Vec<usize>> = HashMap::new();
        let usable = passes.iter().enumerate().filter(|(_, pass)| pass.write || !write);
        let ways: HashMap<(MemberId, u32), usize> = usable
            .flat_map(|(at, pass)| pass.regions.iter().map(move |region| ((pass.member, *region), at)))
            .collect();
        for (at, chunk) in chunks.iter().enumerate() {
            let way = ways.get(&(chunk.member, chunk.region));
            let Some(&pass_at) = way else { return Err(MapError::ReadOnly) };
            let key = (chunk.member, passes[pass_at].life, chunk.region, write);
            match self.links.find(&key) {
                Some(known) => opened[at] = Some(known),
                None => missing.entry(pass_at).or_default().push(at),
            }
        }
        for (pass_at, mut places) in missing {
            let pass = &passes[pass_at];
            while !places.is_empty() {
                let (lane, room) = self.entered(pass).await?;
                let now: Vec<usize> = places.drain(..places.len().min(room)).collect();
                self.open_over(&lane, pass, chunks, &now, write, &mut opened).await?;
            }
        }
        Ok(opened.into_iter().flatten().collect())
    }

    /// A lane on which a pass was shown, and the chunks that it has room for.
    async fn entered(&self, pass: &Pass) -> Result<(Arc<Lane>, usize), MapError> {
        let member = pass.member;
        let (number, lane) = self.links.with_room(member);
        let lane = match lane {
            Some(lane) => lane,
            None => self.lane(member, number, self.options.deadline).await?,
        };
        let (message, mut reply) = (wire::encode_pass(pass), Vec::new());
        match lane.connection.call(Method::Enter as u16, &message, &mut reply).await {
            Ok(()) => {}
            // The node has had another life since, or another master.
            Err(CallError::Refused(_)) => return Err(MapError::Lost { member }),
            Err(error) => {
                if error == CallError::PeerGone {
                    self.links.forget(member, &lane);
                }
                return Err(MapError::Unreachable { member, why: error.to_string() });
            }
        }
        let known = lock(&lane.marks).clone();
        if known.is_none() {
            let marks = lane.connection.open(RegionId(MARKS_REGION), Rights::READ).await;
            *lock(&lane.marks) = Some(marks.map_err(|error| not_opened(member, &error))?);
        }
        // ORDER: Relaxed: a counter.
        let room = CHUNKS_PER_LANE.saturating_sub(lane.open.load(Ordering::Relaxed)).max(1);
        Ok((lane, room))
    }

    async fn open_over(
        &self,
        lane: &Arc<Lane>,
        pass: &Pass,
        chunks: &[Chunk],
        places: &[usize],
        write: bool,
        opened: &mut [Option<Arc<OpenChunk>>],
    ) -> Result<(), MapError> {
        let member = pass.member;
        let rights = if write { Rights::ALL } else { Rights::READ };
        let Some(marks) = lock(&lane.marks).clone() else { return Err(MapError::Lost { member }) };
        for some in places.chunks(OPENING_MAX) {
            let opening = some.iter().map(|at| lane.connection.open(RegionId(chunks[*at].region), rights));
            for (at, region) in some.iter().zip(all(opening).await) {
                let region = region.map_err(|error| not_opened(member, &error))?;
                let chunk = &chunks[*at];
                // ORDER: Relaxed: a counter.
                lane.open.fetch_add(1, Ordering::Relaxed);
                let chunk_open = Arc::new(OpenChunk {
                    region,
                    marks: marks.clone(),
                    mark: chunk.mark,
                    member,
                    lane: lane.clone(),
                });
                self.links.remember((member, pass.life, chunk.region, write), &chunk_open);
                opened[*at] = Some(chunk_open);
            }
        }
        Ok(())
    }
}

fn not_opened(member: MemberId, error: &OpenError) -> MapError {
    match error {
        OpenError::NoSuchRegion(_) | OpenError::NoRight { .. } => MapError::Ended { member },
        other => MapError::Unreachable { member, why: other.to_string() },
    }
}

/// Runs futures side by side; their results in order. For the control path: each is boxed.
pub(super) async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut waiting = false;
        for (future, result) in running.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *result = Some(done),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}
