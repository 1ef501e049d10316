//! Bare echoes on a device: what the least that the verbs can do costs, to be held against the modes
//! that are made of them (HERD section 3, Figures 5 and 9). For measurements alone.
//!
//! Both ends poll. `window` echoes are under way; nothing is kept for a second try: on a network
//! that loses packets an echo that is missing ends the measurement with an error.

use super::choose;
use super::client::first_packet;
use super::connect::{end, remote};
use super::sys::{
    Access, Completed, CompletionQueue, Kind, Local, MemoryRegion, ProtectionDomain, QueuePair, Receive,
    Room, Status, Verb, Work,
};
use crate::error::ConnectError;
use crate::region::{Ordering, Words};
use crate::tcp;
use crate::{ConnectOptions, VerbsError};
use barn_layout::frame::QueuePairsBody;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// What carries an echo, there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Datagrams, both ways.
    SendSend,
    /// Unreliable WRITEs into memory that the other end polls, both ways.
    WriteWrite,
}

/// Bytes of a place: a payload of up to a path MTU of 1 KiB behind a datagram's header.
const PLACE_BYTES: usize = 1088;
const GRH_BYTES: u64 = 40;
const PLACES: usize = 64;
const SIGNAL_EVERY: u32 = 16;
const KEY: u32 = 0x0bad_cafe;
/// An echo that takes longer was lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end of an echo.
struct Bare {
    echo: Echo,
    queue: Arc<CompletionQueue>,
    pair: QueuePair,
    to: Option<super::sys::AddressHandle>,
    inbound: MemoryRegion,
    outbound: MemoryRegion,
    theirs: QueuePairsBody,
    bytes: usize,
    posted: u32,
    /// Of each place, the last number that came: WRITEs are known by it.
    laps: [u64; PLACES],
}

fn step(step: &'static str) -> impl Fn(std::io::Error) -> VerbsError {
    move |cause| VerbsError::Step { step, cause }
}

impl Bare {
    fn new(mut stream: &TcpStream, echo: Echo, bytes: usize) -> Result<Self, VerbsError> {
        let local = stream.local_addr().map_err(step("asking for an address"))?.ip();
        let (device, path) = choose::open(None, local.to_canonical())?;
        let domain = ProtectionDomain::new(&device)?;
        let queue = CompletionQueue::new(&device, 1024)?;
        let kind = if echo == Echo::SendSend { Kind::Datagram } else { Kind::Unreliable };
        let room = Room { requests: 2 * PLACES, receives: 2 * PLACES, inline_bytes: 256 };
        let pair = QueuePair::new(&domain, &queue, kind, (path.port, path.gid.index), room)?;
        pair.initialise(KEY)?;
        let memory = || Words::private(PLACES * PLACE_BYTES);
        let inbound = MemoryRegion::register(&domain, &memory(), Access::WRITTEN_BY_PEER)?;
        let outbound = MemoryRegion::register(&domain, &memory(), Access::LOCAL)?;
        let packet = first_packet()?;
        let ours = QueuePairsBody {
            requests_pair: pair.number().into(),
            requests_packet: packet.into(),
            memory_address: inbound.address().into(),
            memory_key: inbound.remote_key().into(),
            ..end(&path, device.reads_max)
        };
        let mut theirs = [0; QueuePairsBody::BYTES];
        if kind == Kind::Datagram {
            pair.post_receives((0..PLACES as u64).map(|place| Receive {
                id: place,
                local: Local::of(&inbound, place * PLACE_BYTES as u64, PLACE_BYTES),
            }))?;
        }
        stream.write_all(ours.as_bytes()).map_err(step("telling the other end"))?;
        stream.read_exact(&mut theirs).map_err(step("hearing the other end"))?;
        let theirs = QueuePairsBody::read_from_bytes(&theirs)
            .map_err(|_| step("hearing the other end")(ErrorKind::InvalidData.into()))?;
        let to = match kind {
            Kind::Datagram => {
                pair.connect(None, packet)?;
                Some(pair.address(theirs.gid, theirs.lid.get())?)
            }
            _ => {
                let (number, first) = (theirs.requests_pair.get(), theirs.requests_packet.get());
                pair.connect(Some(&remote(&ours, &theirs, number, first)), packet)?;
                None
            }
        };
        // Both are ready before either begins.
        stream.write_all(&[1]).map_err(step("telling the other end"))?;
        stream.read_exact(&mut [0]).map_err(step("hearing the other end"))?;
        Ok(Self { echo, queue, pair, to, inbound, outbound, theirs, bytes, posted: 0, laps: [0; PLACES] })
    }

    /// Posts what `list` names, by place and number, on one doorbell.
    fn post(&mut self, list: &[(usize, u64)]) -> Result<(), VerbsError> {
        let Self { pair, to, outbound, theirs, bytes, posted, .. } = self;
        let (to, outbound) = (&*to, &*outbound);
        for (place, number) in list {
            let _ = outbound.words().store_word((place * PLACE_BYTES) as u64, *number, Ordering::Relaxed);
        }
        let address = theirs.memory_address.get();
        pair.post(list.iter().map(|(place, _)| {
            *posted = posted.wrapping_add(1);
            let at = (place * PLACE_BYTES) as u64;
            Work {
                id: u64::MAX,
                verb: match to {
                    Some(to) => Verb::Send { to, queue_pair: theirs.requests_pair.get(), key: KEY },
                    None => Verb::Write,
                },
                local: Local::of(outbound, at, *bytes),
                address: address.wrapping_add(at),
                key: theirs.memory_key.get(),
                signalled: posted.is_multiple_of(SIGNAL_EVERY),
                inline: *bytes <= pair.inline_bytes,
            }
        }))
    }

    /// What has come, by place and number.
    fn take(&mut self, window: usize, came: &mut Vec<(usize, u64)>) -> Result<(), VerbsError> {
        let mut places = Vec::new();
        self.queue.poll(|completion| {
            if let (Status::Done, Completed::Received { .. }) = (completion.status, completion.what) {
                places.push(completion.id as usize);
            }
        })?;
        let words = self.inbound.words();
        match self.echo {
            Echo::SendSend => {
                for place in places {
                    let at = (place * PLACE_BYTES) as u64;
                    came.push((
                        place % window.max(1),
                        words.load_word(at + GRH_BYTES, Ordering::Relaxed).unwrap_or(0),
                    ));
                    let local = Local::of(&self.inbound, at, PLACE_BYTES);
                    self.pair.post_receives([Receive { id: place as u64, local }])?;
                }
            }
            Echo::WriteWrite => {
                for place in 0..window {
                    // SYNC: Acquire, as in `request_region`; a device is no partner, and the number
                    // is all that is looked at.
                    let number =
                        words.load_word((place * PLACE_BYTES) as u64, Ordering::Acquire).unwrap_or(0);
                    if number != self.laps[place] {
                        self.laps[place] = number;
                        came.push((place, number));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Echoes whatever comes, for one client after another, for ever.
pub fn echo_node(at: SocketAddr) {
    let Ok(listener) = TcpListener::bind(at) else { return };
    for stream in listener.incoming().flatten() {
        // A client that went is followed by the next.
        let _ = serve(&stream);
    }
}

fn serve(mut stream: &TcpStream) -> Result<(), VerbsError> {
    let mut asked = [0; 4];
    stream.read_exact(&mut asked).map_err(step("hearing the client"))?;
    let echo = if asked[0] == 0 { Echo::SendSend } else { Echo::WriteWrite };
    let (window, bytes) = (usize::from(asked[1]), usize::from(u16::from_le_bytes([asked[2], asked[3]])));
    let mut bare = Bare::new(stream, echo, bytes.clamp(8, 1024))?;
    stream.set_nonblocking(true).map_err(step("waiting for the client"))?;
    let (mut came, mut looks) = (Vec::new(), 0u32);
    loop {
        came.clear();
        bare.take(window.clamp(1, PLACES), &mut came)?;
        if !came.is_empty() {
            bare.post(&came)?;
        }
        looks = looks.wrapping_add(1);
        if came.is_empty() && looks.is_multiple_of(64) {
            std::thread::yield_now();
            if looks.is_multiple_of(4096)
                && !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
            {
                return Ok(());
            }
        }
    }
}

/// Echoes a second, with `window` of `bytes` bytes under way, over `time`.
pub fn echo_client(
    at: SocketAddr,
    bind: IpAddr,
    echo: Echo,
    window: usize,
    bytes: usize,
    time: Duration,
) -> Result<f64, ConnectError> {
    let options = ConnectOptions { bind: Some(bind), ..ConnectOptions::default() };
    let mut stream = &tcp::open(&at, options.bind, PATIENCE)?;
    let (window, bytes) = (window.clamp(1, PLACES), bytes.clamp(8, 1024));
    let length = (bytes as u16).to_le_bytes();
    stream.write_all(&[u8::from(echo == Echo::WriteWrite), window as u8, length[0], length[1]])?;
    let mut bare = Bare::new(stream, echo, bytes)?;
    let (start, mut last) = (Instant::now(), Instant::now());
    let (mut echoes, mut came, mut number) = (0u64, Vec::new(), window as u64);
    bare.post(&(0..window).map(|place| (place, place as u64 + 1)).collect::<Vec<_>>())?;
    while start.elapsed() < time {
        came.clear();
        bare.take(window, &mut came)?;
        if came.is_empty() {
            if last.elapsed() > PATIENCE {
                return Err(ConnectError::Deadline);
            }
            std::hint::spin_loop();
            continue;
        }
        last = Instant::now();
        echoes += came.len() as u64;
        for (_, next) in &mut came {
            number += 1;
            *next = number;
        }
        bare.post(&came)?;
    }
    Ok(echoes as f64 / start.elapsed().as_secs_f64())
}
