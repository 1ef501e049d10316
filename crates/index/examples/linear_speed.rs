//! How many operations a second the linearizability checker judges.
//!
//! `cargo run --release -p barn-index --example linear_speed -- [operations per key] [keys]`

use barn_index::linearizable::{
    Call, CheckOptions, Expected, History, Operation, Outcome, Verdict, check_with,
};
use std::time::Instant;

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

/// What an atomic key answers.
fn apply(state: &mut Option<u64>, call: Call) -> Outcome {
    let done = Outcome::Done { version: 0 };
    let before = *state;
    match call {
        Call::Get => before.map_or(Outcome::Absent, |value| Outcome::Found { value, version: 0 }),
        Call::Put(value) => {
            *state = Some(value);
            done
        }
        Call::Insert(value) if before.is_none() => {
            *state = Some(value);
            done
        }
        Call::Delete if before.is_some() => {
            *state = None;
            done
        }
        Call::Swap { expected, new } if before.is_some_and(|value| expected == Expected::Value(value)) => {
            *state = Some(new);
            done
        }
        _ => Outcome::NotDone,
    }
}

/// What a history is made of.
#[derive(Clone, Copy)]
struct Mix {
    puts_only: bool,
    gets_percent: u64,
    /// Operations of unknown outcome, of 10,000.
    lost: u64,
}

/// Clients that are busy all the time, each with one operation, which happens somewhere within.
fn history(random: &mut Random, operations: u64, clients: u64, mix: Mix) -> History {
    let mut free_at = vec![0; clients as usize];
    let mut moments: Vec<(u64, u32, u64, u64)> = Vec::new();
    for number in 0..operations {
        let client = (number % clients) as usize;
        let invoked: u64 = free_at[client] + random.below(50);
        let returned = invoked + 100 + random.below(1_000);
        free_at[client] = returned + 1;
        moments.push((invoked + random.below(returned - invoked + 1), client as u32, invoked, returned));
    }
    moments.sort_unstable();
    let (mut state, mut recent, mut history) = (None, 0, History::default());
    for (number, (_, client, invoked, returned)) in (1..).zip(moments) {
        let call = match random.below(100) {
            percent if percent < mix.gets_percent => Call::Get,
            _ if mix.puts_only => Call::Put(number),
            percent => match percent % 8 {
                0..3 => Call::Put(number),
                3 => Call::Insert(number),
                4..6 => Call::Delete,
                _ => Call::Swap { expected: Expected::Value(recent), new: number },
            },
        };
        let mut outcome = apply(&mut state, call);
        recent = state.unwrap_or(recent);
        if random.below(10_000) < mix.lost {
            outcome = Outcome::Unknown;
        }
        history.operations.push(Operation { client, call, outcome, invoked, returned });
    }
    history
}

const MIXES: [Mix; 7] = [
    Mix { puts_only: true, gets_percent: 90, lost: 0 },
    Mix { puts_only: true, gets_percent: 50, lost: 0 },
    Mix { puts_only: true, gets_percent: 10, lost: 0 },
    Mix { puts_only: false, gets_percent: 90, lost: 0 },
    Mix { puts_only: false, gets_percent: 50, lost: 0 },
    Mix { puts_only: false, gets_percent: 10, lost: 0 },
    Mix { puts_only: false, gets_percent: 50, lost: 5 },
];

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (operations, keys) = (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(10));
    println!("{keys} keys with {operations} operations each");
    println!("clients  changes    gets  lost   million/s  verdicts");
    let mut random = Random(1);
    for clients in [1, 4, 8, 16, 32] {
        for mix in MIXES {
            let histories: Vec<History> =
                (0..keys).map(|_| history(&mut random, operations, clients, mix)).collect();
            let start = Instant::now();
            let options = CheckOptions { steps_max: 20 * operations };
            let verdicts: Vec<Verdict> = histories.iter().map(|each| check_with(each, options)).collect();
            let rate = (operations * keys) as f64 / start.elapsed().as_secs_f64() / 1e6;
            let right = verdicts.iter().filter(|verdict| verdict.is_linearizable()).count();
            let undecided =
                verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Undecided { .. })).count();
            let changes = if mix.puts_only { "puts" } else { "all" };
            let (gets, lost) = (mix.gets_percent, mix.lost as f64 / 100.0);
            println!(
                "{clients:>7}  {changes:<7} {gets:>5} %  {lost:>4} % {rate:>9.2}  {right} in order, {undecided} undecided"
            );
        }
    }
}
