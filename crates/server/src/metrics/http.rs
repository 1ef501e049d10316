//! The metrics' port: a thread that accepts, and a few that answer.
//!
//! What always holds: a scraper has [`ANSWER_MAX`] for everything, and at most [`SCRAPERS_MAX`] are
//! served at a time; one more is told so and sent away. Nothing here touches the poll loop: answers
//! are made of what it wrote down. So scrapers that are slow, hostile or many harm only each other.

use super::request::{HEAD_BYTES_MAX, Parsed, parse};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a scraper may take to ask and to take the answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Scrapers at a time: two Prometheus servers, probes, and some people.
pub(super) const SCRAPERS_MAX: usize = 8;
/// How long the accepting thread rests when the system gives it no connection: out of descriptors.
const REST: Duration = Duration::from_millis(100);

/// What is answered: a status, the type of the body, the body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: String,
}

impl Answer {
    /// Words for people.
    pub(super) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Answers a path.
pub(super) type Answers = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// The port. Closed when it is dropped.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    /// Listens, and answers from now on.
    pub(super) fn open(address: SocketAddr, answers: Answers) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let thread = std::thread::Builder::new().name("barn-metrics".into()).spawn(move || {
            accept(&listener, &answers, &stopping);
        })?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SYNC: pairs with the Acquire in `accept`.
        self.stop.store(true, Ordering::Release);
        // One more connection wakes the thread.
        let _ = TcpStream::connect_timeout(&self.address, ANSWER_MAX);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A place among the scrapers, given back when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        // ORDER: Relaxed: a count that stands alone.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener, answers: &Answers, stop: &AtomicBool) {
    let scrapers = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        // SYNC: pairs with the Release in `Port::drop`.
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(REST);
            continue;
        };
        // ORDER: Relaxed: as in `Place`.
        let place = (scrapers.fetch_add(1, Ordering::Relaxed), Place(scrapers.clone()));
        if place.0 >= SCRAPERS_MAX {
            // As much as the socket takes at once: nobody waits for whoever is one too many.
            let _ = stream.set_nonblocking(true);
            let busy = Answer::text(503, "too many scrapers at a time: try again\n");
            let _ = (&stream).write_all((head(&busy) + &busy.body).as_bytes());
            // What it has asked is taken, if it is here: else the system would reset the connection.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = (&stream).read(&mut [0; 1024]);
            continue;
        }
        let answers = answers.clone();
        // Without a thread the connection is closed, and its place free again.
        let _ = std::thread::Builder::new().name("barn-scraper".into()).spawn(move || {
            let _place = place;
            let _ = serve(&stream, &answers);
        });
    }
}

/// Time that is left for something, at least one system call's.
fn left(ends: Instant) -> io::Result<Duration> {
    let left = ends.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn serve(mut stream: &TcpStream, answers: &Answers) -> io::Result<()> {
    let ends = Instant::now() + ANSWER_MAX;
    let (mut bytes, mut some) = (Vec::new(), [0; 1024]);
    let (answer, head_only) = loop {
        match parse(&bytes) {
            Parsed::Request(asked) => break (answers(&asked.path), asked.head_only),
            Parsed::Refused(status, why) => break (Answer::text(status, format!("{why}\n")), false),
            Parsed::More => {}
        }
        stream.set_read_timeout(Some(left(ends)?))?;
        let room = some.len().min(HEAD_BYTES_MAX - bytes.len());
        match stream.read(&mut some[..room]) {
            Ok(0) => return Ok(()),
            Ok(count) => bytes.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    let mut text = head(&answer);
    if !head_only {
        text.push_str(&answer.body);
    }
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(ends)?))?;
        match stream.write(rest) {
            Ok(0) => return Ok(()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // What is left unread would make the system reset the connection before the answer is taken.
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.set_read_timeout(Some(left(ends)?.min(Duration::from_millis(200))))?;
    let _ = stream.read(&mut some);
    Ok(())
}

fn head(answer: &Answer) -> String {
    let reason = match answer.status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Bad Request",
    };
    format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    )
}
