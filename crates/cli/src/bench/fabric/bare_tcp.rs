//! The limit of a socket: a peer that answers requests of one length with replies of another,
//! everything that is ready sent in one call. Both ends spin, or both block until something comes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::bench::timing::pin;
use crate::bench::turn::Turn;

/// How both ends wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// They ask the socket over and over: the least latency.
    Spin,
    /// They sleep in the kernel until something comes, as servers do.
    Block,
}

/// A connection to an answering thread.
pub(crate) struct BareTcp {
    stream: Option<TcpStream>,
    request: Vec<u8>,
    reply_bytes: usize,
    buffer: Vec<u8>,
    /// Where in the buffer the next bytes go, and how many of it are used.
    at: usize,
    span_bytes: usize,
    turn: Arc<Turn>,
    thread: Option<JoinHandle<()>>,
}

impl BareTcp {
    /// Starts the answering thread and connects to it. Replies go through memory that stays in the
    /// caches.
    pub(crate) fn start(ends: Ends, request_bytes: usize, reply_bytes: usize) -> io::Result<Self> {
        Self::start_over(ends, request_bytes, reply_bytes, 0)
    }

    /// The same, with replies that are sent from one place after another of so much memory, and received
    /// into as much: what moving so many bytes costs.
    pub(crate) fn start_over(
        ends: Ends,
        request_bytes: usize,
        reply_bytes: usize,
        span_bytes: usize,
    ) -> io::Result<Self> {
        let span_bytes = span_bytes.max(reply_bytes);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let turn = Arc::new(Turn::default());
        let thread = std::thread::spawn({
            let turn = turn.clone();
            move || {
                pin(None, 1);
                if let Ok((stream, _)) = listener.accept() {
                    let _ = answer(stream, ends, (request_bytes, reply_bytes), span_bytes, &turn);
                }
            }
        });
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(ends == Ends::Spin)?;
        Ok(Self {
            stream: Some(stream),
            request: vec![7; request_bytes],
            reply_bytes,
            buffer: vec![1; span_bytes.max(256 << 10)],
            at: 0,
            span_bytes,
            turn,
            thread: Some(thread),
        })
    }

    /// So many requests and replies, a window of them under way.
    pub(crate) fn round_trips(&mut self, count: usize, window: usize) {
        let turn = self.turn.clone();
        turn.during(|| self.run(count, window));
    }

    fn run(&mut self, count: usize, window: usize) {
        let Some(stream) = &mut self.stream else { return };
        let batch = self.request.repeat(window);
        let (mut sent, mut received_bytes) = (0usize, 0usize);
        while received_bytes < count * self.reply_bytes {
            let received = received_bytes / self.reply_bytes;
            let now = (count - sent).min(window - (sent - received));
            if now > 0 {
                send_all(stream, &batch[..now * self.request.len()]).expect("the bare peer is there");
                sent += now;
            }
            // Small replies are taken as they come, into one place.
            let into = if self.span_bytes > self.reply_bytes {
                &mut self.buffer[self.at..]
            } else {
                &mut self.buffer
            };
            let now = receive(stream, into).expect("the bare peer is there");
            received_bytes += now;
            self.at = (self.at + now) % self.span_bytes;
        }
    }
}

/// What is there now; nothing if nothing is.
fn receive(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}

fn send_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn answer(
    mut stream: TcpStream,
    ends: Ends,
    (request_bytes, reply_bytes): (usize, usize),
    span_bytes: usize,
    turn: &Turn,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(ends == Ends::Spin)?;
    let mut buffer = vec![0; 256 << 10];
    let reply = vec![9; (64 << 10usize).max(span_bytes)];
    let (mut pending, mut at) = (0, 0);
    while turn.go_on() {
        pending += receive(&mut stream, &mut buffer)?;
        let mut owed = pending / request_bytes * reply_bytes;
        pending %= request_bytes;
        while owed > 0 {
            let now = owed.min(reply.len() - at);
            send_all(&mut stream, &reply[at..at + now])?;
            owed -= now;
            at = if span_bytes > reply_bytes { (at + now) % reply.len() } else { 0 };
        }
    }
    Ok(())
}

impl Drop for BareTcp {
    fn drop(&mut self) {
        drop(self.stream.take());
        self.turn.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
