//! Client processes: told what to do on standard input, a line of JSON at a time, and answering each line
//! with one.
//!
//! What always holds: the first line says what to connect to, and every line gets one answer. A process ends
//! with its input, and so with whoever started it.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Said<T> {
    /// It is connected.
    Ready,
    /// What came of what it was told.
    Done(T),
    /// It failed.
    Failed(String),
}

/// A client process, ended with this.
#[derive(Debug)]
pub(crate) struct ClientProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl ClientProcess {
    /// Starts `barn bench COMMAND`, and tells it what to connect to; it answers when it is.
    pub(crate) fn start(command: &str, setup: &impl Serialize) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| io::Error::other("a client process says nothing"))?;
        let mut process = Self { child, orders, answers: BufReader::new(answers) };
        process.tell(setup)?;
        Ok(process)
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        match &mut self.orders {
            Some(orders) => orders.write_all(&line),
            None => Err(io::Error::other("a client process hears nothing")),
        }
    }

    /// Waits for what it says; nothing if that is only that it is ready.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Said::Ready) => Ok(None),
            Ok(Said::Done(done)) => Ok(Some(done)),
            Ok(Said::Failed(why)) => Err(io::Error::other(why)),
            Err(_) => Err(io::Error::other(
                "a client process has ended; run the benchmark again, with fewer clients if memory is short",
            )),
        }
    }

    /// Waits for what came of the last thing that it was told.
    pub(crate) fn hear_done<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        self.hear()?.ok_or_else(|| io::Error::other("a client process says that it is ready, and no more"))
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// The process's own side: connects, and does as it is told until its input ends.
pub(crate) fn serve<S, W, O, T>(
    connect: impl FnOnce(&S) -> io::Result<W>,
    mut carry_out: impl FnMut(&mut W, &O) -> io::Result<T>,
) -> io::Result<()>
where
    S: DeserializeOwned,
    O: DeserializeOwned,
    T: Serialize,
{
    let mut lines = io::stdin().lock().lines();
    let Some(first) = lines.next() else { return Ok(()) };
    let mut worker = match connect(&serde_json::from_str(&first?)?) {
        Ok(worker) => worker,
        Err(error) => return say(&Said::<T>::Failed(error.to_string())),
    };
    say(&Said::<T>::Ready)?;
    for line in lines {
        let done = carry_out(&mut worker, &serde_json::from_str(&line?)?);
        say(&done.map_or_else(|error| Said::Failed(error.to_string()), Said::Done))?;
    }
    Ok(())
}

fn say(what: &impl Serialize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, what)?;
    writeln!(out)?;
    out.flush()
}
