//! A bank in shared memory: `cargo run --example bank`.
//!
//! Threads move money between accounts, each transfer a transaction; an auditor adds all balances
//! up again and again, while money is on its way. The sum never changes.
#![forbid(unsafe_code)]

use barn::{Barn, Error, Ref};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: usize = 100;
const BALANCE: i64 = 1_000;
const TELLERS: u64 = 3;
const TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), Error> {
    // A node inside this process. `Barn::connect("tcp://…")` would do as well: nothing below
    // knows where the accounts are.
    let barn = Barn::embedded()?;
    let accounts: Vec<Ref<i64>> = (0..ACCOUNTS).map(|_| barn.new(&BALANCE)).collect::<Result<_, _>>()?;

    let (transfers, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let closed = AtomicBool::new(false);
    let started = Instant::now();
    let audits = std::thread::scope(|scope| {
        for teller in 0..TELLERS {
            let (barn, accounts) = (barn.clone(), &accounts);
            let (transfers, refused, closed) = (&transfers, &refused, &closed);
            scope.spawn(move || {
                let mut dice = teller + 1;
                // ORDER: Relaxed, here and below: a flag and counters that stand alone.
                while !closed.load(Ordering::Relaxed) {
                    let from = accounts[roll(&mut dice, ACCOUNTS)];
                    let to = accounts[roll(&mut dice, ACCOUNTS)];
                    let amount = roll(&mut dice, 500) as i64;
                    match transfer(&barn, from, to, amount) {
                        Ok(()) => transfers.fetch_add(1, Ordering::Relaxed),
                        // The closure's own refusal: nothing was changed.
                        Err(Error::Own(_)) => refused.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("a transfer failed: {error}"),
                    };
                }
            });
        }
        let audits = audit(&barn, &accounts, started + TIME);
        // ORDER: Relaxed, as above.
        closed.store(true, Ordering::Relaxed);
        audits
    })?;

    let count = |counter: AtomicU64| counter.into_inner();
    println!(
        "{} transfers, {} refused for want of money, {audits} audits: {} at each of them",
        count(transfers),
        count(refused),
        BALANCE * ACCOUNTS as i64
    );
    Ok(())
}

/// Moves money, all or nothing. The closure runs again when another transfer was in the way, so it
/// does nothing but read and write through `tx`.
fn transfer(barn: &Barn, from: Ref<i64>, to: Ref<i64>, amount: i64) -> Result<(), Error> {
    barn.transaction(|tx| {
        let balance = tx.load(from)?;
        if balance < amount {
            return Err(Error::own("not enough money"));
        }
        tx.store(from, &(balance - amount))?;
        // Also right where `from` and `to` are one account: a transaction reads what it wrote.
        let balance = tx.load(to)?;
        tx.store(to, &(balance + amount))
    })
}

/// Adds up all accounts as they were at one moment, until it is time; says how often.
fn audit(barn: &Barn, accounts: &[Ref<i64>], until: Instant) -> Result<u64, Error> {
    let mut audits = 0;
    while Instant::now() < until {
        // A transaction that only reads locks nothing and sends nothing.
        let total = barn.transaction(|tx| {
            let mut total = 0;
            for account in accounts {
                total += tx.load(*account)?;
            }
            Ok(total)
        })?;
        assert_eq!(total, BALANCE * accounts.len() as i64, "money was made or lost");
        audits += 1;
    }
    Ok(audits)
}

/// A number below a bound.
fn roll(dice: &mut u64, bound: usize) -> usize {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*dice >> 33) as usize % bound
}
