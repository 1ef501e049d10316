//! Clients of several stores, measured in turn: a window of each, over and over, so that a noisy moment
//! hits all.
//!
//! What always holds: every client is on a thread of its own, all of one store begin together, and a rate is
//! the sum of what each did in its own time. One client alone has a core to itself; several go where there is
//! room.

use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::bench::quiet::sample;
use crate::bench::timing::{Effort, pin};

/// The core of a client that is alone; servers are on the other one.
const CLIENT_CORE: usize = 0;

/// One who does operations.
pub(super) trait Client: Send {
    /// Does some, as few as are worth a look at the clock; gives how many.
    fn turn(&mut self) -> io::Result<u64>;
}

/// Clients of one store, under the name that its values will have.
pub(super) struct Crowd {
    pub(super) name: String,
    pub(super) clients: Vec<Box<dyn Client>>,
}

impl Crowd {
    /// One client.
    pub(super) fn one(name: impl Into<String>, client: impl Client + 'static) -> Self {
        Self { name: name.into(), clients: vec![Box::new(client)] }
    }

    /// Operations a second, of all together, over one window.
    fn window(&mut self, slice: Duration) -> io::Result<f64> {
        let (alone, begin) = (self.clients.len() == 1, Barrier::new(self.clients.len()));
        let begin = &begin;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (self.clients.iter_mut())
                .map(|client| scope.spawn(move || each(client.as_mut(), alone, begin, slice)))
                .collect();
            let dead = |_| Err(io::Error::other("a client of the benchmark panicked; please report it"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(dead)).sum()
        })
    }
}

/// Operations a second of one client.
fn each(client: &mut dyn Client, alone: bool, begin: &Barrier, slice: Duration) -> io::Result<f64> {
    if alone {
        pin(None, CLIENT_CORE);
    }
    begin.wait();
    let (mut done, start) = (0, Instant::now());
    loop {
        done += client.turn()?;
        let took = start.elapsed();
        if took >= slice {
            return Ok(done as f64 / took.as_secs_f64());
        }
    }
}

/// Rates of each, by repeat, in the order of the crowds. The first round warms up.
pub(super) fn in_turn(effort: Effort, crowds: &mut [Crowd]) -> io::Result<Vec<Vec<f64>>> {
    let mut rates = vec![Vec::new(); crowds.len()];
    for round in 0..=effort.repeats {
        let slice = if round == 0 { effort.slice / 4 } else { effort.slice };
        for (crowd, rates) in crowds.iter_mut().zip(&mut rates) {
            let rate = if round == 0 { crowd.window(slice) } else { sample(|| crowd.window(slice)) };
            let rate = rate.map_err(|error| io::Error::other(format!("{}: {error}", crowd.name)))?;
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counts(u64);

    impl Client for Counts {
        fn turn(&mut self) -> io::Result<u64> {
            self.0 += 1;
            std::thread::sleep(Duration::from_micros(100));
            if self.0 > 1_000_000 { Err(io::Error::other("tired")) } else { Ok(8) }
        }
    }

    const SHORT: Effort = Effort { slice: Duration::from_millis(2), repeats: 3 };

    #[test]
    fn everybody_has_a_rate_for_every_repeat() {
        let crowd = |name: &str, clients: usize| Crowd {
            name: name.into(),
            clients: (0..clients).map(|_| Box::new(Counts(0)) as Box<dyn Client>).collect(),
        };
        let rates = in_turn(SHORT, &mut [crowd("a", 1), crowd("b", 3)]).expect("measures");
        assert!(
            rates.iter().all(|rates| rates.len() == 3 && rates.iter().all(|rate| *rate > 0.0)),
            "{rates:?}"
        );
    }

    #[test]
    fn a_client_that_fails_ends_it_and_is_named() {
        let mut crowds = [Crowd::one("good", Counts(0)), Crowd::one("bad", Counts(1_000_000))];
        let failed = in_turn(SHORT, &mut crowds).expect_err("one is tired");
        assert_eq!(failed.to_string(), "bad: tired");
    }
}
