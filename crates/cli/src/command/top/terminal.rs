//! The terminal, taken for a live view and given back as it was.
//!
//! What always holds: what [`Terminal::take`] changed is undone once, by its end or by a panic,
//! whichever comes first. The few escapes that this needs are written here; a library for them would
//! bring two dozen crates.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use super::frame::{Tone, View};

/// Another screen, and no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// The cursor, and the screen as it was.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The terminal shows what lies between these at once, if it knows them; if not, it passes them over.
const FRAME_START: &str = "\x1b[?2026h\x1b[H";
const FRAME_END: &str = "\x1b[J\x1b[?2026l";

/// Ctrl-C and Ctrl-D, as bytes.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const ESCAPE: u8 = 0x1b;

/// How the terminal was; there while it is taken.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Sort,
    Pause,
    Other,
}

impl Key {
    fn of(byte: u8) -> Self {
        match byte {
            b'q' | b'Q' | INTERRUPT | END => Self::Quit,
            b's' | b'S' => Self::Sort,
            b'p' | b'P' | b' ' => Self::Pause,
            _ => Self::Other,
        }
    }
}

/// The terminal, for as long as it is taken.
#[derive(Debug)]
pub(super) struct Terminal {
    ended: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    typed: VecDeque<Key>,
}

impl Terminal {
    /// Takes it: keys come one by one, and another screen is shown.
    pub(super) fn take() -> io::Result<Self> {
        static ON_PANIC: Once = Once::new();
        ON_PANIC.call_once(|| {
            let report = std::panic::take_hook();
            // Given back first: what is said of a panic should stay to be read.
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                report(panic);
            }));
        });
        let (ended, resized) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, ended.clone())?;
        }
        signal_hook::flag::register(SIGWINCH, resized.clone())?;
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *lock() = Some(before);
        let terminal = Self { ended, resized, typed: VecDeque::new() };
        tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
        let mut out = io::stdout().lock();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }

    /// Shows a frame, in one write.
    pub(super) fn draw(&mut self, view: &View<'_>) -> io::Result<()> {
        // A terminal that does not say how large it is is taken for the smallest one in use.
        let (columns, rows) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        };
        let mut frame = String::from(FRAME_START);
        for (row, line) in view.lines(columns.into(), rows.into()).iter().enumerate() {
            if row > 0 {
                frame.push_str("\r\n");
            }
            let (start, end) = match line.tone {
                Tone::Plain => ("", ""),
                Tone::Strong => ("\x1b[1m", "\x1b[0m"),
                Tone::Heading => ("\x1b[7m", "\x1b[0m"),
            };
            frame.push_str(start);
            frame.push_str(&line.text);
            frame.push_str(end);
            frame.push_str("\x1b[K");
        }
        frame.push_str(FRAME_END);
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Waits for a key, or until it is time for the next look: nothing then.
    pub(super) fn wait(&mut self, until: Instant) -> io::Result<Option<Key>> {
        loop {
            // ORDER: Relaxed: flags that stand alone, set by this process's signal handlers.
            if self.ended.load(Ordering::Relaxed) {
                return Ok(Some(Key::Quit));
            }
            // ORDER: Relaxed: as above.
            if self.resized.swap(false, Ordering::Relaxed) {
                return Ok(Some(Key::Other));
            }
            if let Some(key) = self.typed.pop_front() {
                return Ok(Some(key));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let stdin = io::stdin();
            let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
            let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut waited, Some(&time)) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    let mut typed = [0; 64];
                    // Past the library's buffer, which `poll` knows nothing of.
                    match rustix::io::read(&stdin, &mut typed)? {
                        // The end of the input is an end as well.
                        0 => return Ok(Some(Key::Quit)),
                        length => self.typed.extend(keys(&typed[..length])),
                    }
                }
                // A signal: look at the flags again.
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// What the bytes that were typed mean. An escape sequence is one key, and means nothing.
fn keys(mut typed: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let [first, rest @ ..] = typed {
        typed = rest;
        if *first == ESCAPE && typed.first() == Some(&b'[') {
            let end = typed.iter().skip(1).position(|byte| (0x40..=0x7e).contains(byte));
            typed = end.map_or(&[], |end| &typed[end + 2..]);
            keys.push(Key::Other);
        } else {
            keys.push(Key::of(*first));
        }
    }
    keys
}

fn lock() -> std::sync::MutexGuard<'static, Option<Termios>> {
    BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Undoes what was changed, if that has not been done.
fn give_back() {
    if let Some(before) = lock().take() {
        let mut out = io::stdout().lock();
        // A terminal that has gone away has nothing to be given back.
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_foot_line_says() {
        for (byte, key) in
            [(b'q', Key::Quit), (b's', Key::Sort), (b'p', Key::Pause), (3, Key::Quit), (b'x', Key::Other)]
        {
            assert_eq!(keys(&[byte]), [key]);
        }
        assert_eq!(keys(b"\x1b[Ap\x1b[1;5Bq"), [Key::Other, Key::Pause, Key::Other, Key::Quit]);
        assert_eq!(keys(b"\x1b["), [Key::Other]);
        assert_eq!(keys(b"\x1bs"), [Key::Other, Key::Sort]);
    }
}
