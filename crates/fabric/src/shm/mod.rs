//! The shm transport: processes of one host.
//!
//! A client connects to the node's Unix socket; the node checks who it is (`SO_PEERCRED`) and
//! hands it the memory of their channel (`barn_layout::channel`) as sealed memory files. From
//! then on requests and replies are stores and loads; the socket carries only the control path
//! (opening regions), and its hang-up tells either side that the other has died.
//!
//! - A READ is a load from a mapped region; nobody is asked. After it the client looks whether
//!   the grant still stands and the node is still there.
//! - Sleeping and waking: whoever is about to sleep says so in memory, looks once more, and
//!   sleeps on a descriptor (the node in epoll, a client in poll); whoever has something for a
//!   sleeper rings its bell. Each connection has its own, so that a hostile client can only keep
//!   itself from being woken. A bell is a socket pair, each end with its own flags: of an eventfd
//!   both sides share them, and a client could make the node block on it. (A futex would cost as
//!   much to wake and could not be slept on together with sockets, other connections, and the
//!   peer's death: see ARCHITECTURE.md.)

mod at_once;
mod client;
mod connect;
mod control;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod lane;
mod opening;
mod peer;
mod peers;
mod port;
mod taking;

pub(crate) use connect::connect;
pub(crate) use port::ShmPort;

use crate::region::{Ordering, Words, fence};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Rings a bell if its owner has said, at `at`, that it sleeps; whether it has.
fn ring_if_asleep(words: &Words, at: u64, bell: &OwnedFd) -> bool {
    // SYNC: SeqCst fence, pairs with the one in `say_asleep`: of "I published" and "you sleep" at
    // least one side sees the other's, so that nobody sleeps on a message.
    fence(Ordering::SeqCst);
    let asleep = words.load_word(at, Ordering::Relaxed).is_ok_and(|asleep| asleep != 0);
    if asleep {
        // A bell that is full has been rung; one whose other end is gone needs no ringing.
        let _ = rustix::net::send(bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
    asleep
}

/// Says that we are about to sleep, or are awake again. After `true` the caller looks once more.
fn say_asleep(words: &Words, at: u64, asleep: bool) {
    let _ = words.store_word(at, u64::from(asleep), Ordering::Relaxed);
    if asleep {
        // SYNC: pairs with the fence in `ring_if_asleep`.
        fence(Ordering::SeqCst);
    }
}

/// Silences a bell; false if its other end is closed.
fn silence(bell: &OwnedFd) -> bool {
    // More rings than one read takes are heard again at the next look.
    let mut rung = [0; 1024];
    match rustix::net::recv(bell, &mut rung, RecvFlags::DONTWAIT) {
        Ok((rings, _)) => rings > 0,
        Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
    }
}
