//! Leases: how long each side may count on the other, without clocks that agree.
//!
//! What always holds, if clocks run at most [`DRIFT_PER_MILLION`] fast or slow: the holder's view
//! of a lease ends before the granter's. The holder counts from *before* it asked, and a margin
//! less; the granter from when it was asked or later, all of it. Delays only make the gap wider.

use std::time::Duration;

/// The lease that is granted unless told otherwise: two renewals may fail, and a machine may be
/// busy for 300 ms, before anybody is expelled.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(1);

/// The shortest: a sleep of 1 ms was seen to overrun by 8.7 ms on a loaded machine, and a
/// renewal needs several such steps, so leases under 50 ms misfire.
pub const LEASE_MIN: Duration = Duration::from_millis(50);

/// The longest: nobody waits for more than ten minutes for a dead member's regions.
pub const LEASE_MAX: Duration = Duration::from_secs(600);

/// How far a clock may be off its rate: 0.5 %. The system slews by 0.05 % at most, and crystals
/// are off by 0.01 %.
pub const DRIFT_PER_MILLION: u32 = 5_000;

/// What the holder takes off: twice the drift (its own clock slow, the granter's fast) and a bit.
pub const MARGIN_PER_MILLION: u32 = 2 * DRIFT_PER_MILLION + 100;

/// What a margin makes of a time.
fn portion(time: Duration, per_million: u32) -> Duration {
    Duration::from_nanos((time.as_nanos() * u128::from(per_million) / 1_000_000) as u64)
}

/// The lease as its holder may count on it.
pub fn held(lease: Duration) -> Duration {
    portion(lease, 1_000_000 - MARGIN_PER_MILLION)
}

/// A lease as somebody else must wait for it on a clock of its own.
pub fn outlasted(lease: Duration) -> Duration {
    portion(lease, 1_000_000 + MARGIN_PER_MILLION)
}

/// A lease that this process holds, by this process's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldLease {
    valid_until: Duration,
    renew_at: Duration,
}

/// When a lease was asked for: what its holder counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lease counts from when it was asked for"]
pub struct Asked(Duration);

impl HeldLease {
    /// Notes the time before the question is sent.
    pub fn asked(now: Duration) -> Asked {
        Asked(now)
    }

    /// The question has been answered with a lease.
    pub fn granted(asked: Asked, lease: Duration) -> Self {
        let Asked(from) = asked;
        Self { valid_until: from + held(lease), renew_at: from + lease / 3 }
    }

    /// No lease.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether it may be counted on. Whoever is told so has to be done before it ends.
    pub fn is_valid(&self, now: Duration) -> bool {
        now < self.valid_until
    }

    /// When it ends, by the holder's view.
    pub fn ends_at(&self) -> Duration {
        self.valid_until
    }

    /// When it should be renewed: after a third, so that two renewals may fail. At once, if that
    /// has passed.
    pub fn renew_at(&self, now: Duration) -> Duration {
        self.renew_at.max(now)
    }
}

/// A lease that this process granted, by this process's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    ends_at: Duration,
}

impl GrantedLease {
    /// A lease granted at `now`, which is not before the question came.
    pub fn new(now: Duration, lease: Duration) -> Self {
        Self { ends_at: now + lease }
    }

    /// Counts it from `now`, unless it lasts longer already.
    pub fn extend(&mut self, now: Duration, lease: Duration) {
        self.ends_at = self.ends_at.max(now + lease);
    }

    /// Whether it has ended.
    pub fn has_ended(&self, now: Duration) -> bool {
        now >= self.ends_at
    }

    /// When it ends.
    pub fn ends_at(&self) -> Duration {
        self.ends_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_fabric::seam::{Random, Seeded};

    /// A clock that starts anywhere and runs up to `DRIFT_PER_MILLION` fast or slow.
    struct Drifting {
        start: u64,
        rate_per_million: u64,
    }

    impl Drifting {
        fn draw(random: &mut Seeded) -> Self {
            let drift = u64::from(DRIFT_PER_MILLION);
            let rate_per_million = match random.below(3) {
                0 => 1_000_000 - drift,
                1 => 1_000_000 + drift,
                _ => 1_000_000 - drift + random.below(2 * drift + 1),
            };
            Self { start: random.below(1 << 50), rate_per_million }
        }

        fn at(&self, real_ns: u64) -> Duration {
            let run = u128::from(real_ns) * u128::from(self.rate_per_million) / 1_000_000;
            Duration::from_nanos(self.start + run as u64)
        }

        /// The first real time at which this clock shows `time` or later.
        fn shows(&self, time: Duration) -> u64 {
            let run = time.as_nanos() - u128::from(self.start);
            (run * 1_000_000).div_ceil(u128::from(self.rate_per_million)) as u64
        }
    }

    fn delay(random: &mut Seeded) -> u64 {
        let most = [0, 1_000, 50_000_000, 20_000_000_000][random.below(4) as usize];
        random.below(most + 1)
    }

    #[test]
    fn the_holders_view_ends_before_the_granters() {
        let mut random = Seeded::new(11);
        for _ in 0..50_000 {
            let (holder, granter) = (Drifting::draw(&mut random), Drifting::draw(&mut random));
            let lease = LEASE_MIN + Duration::from_nanos(random.below(600_000_000_000));
            let asked_at = random.below(1 << 40);
            let granted_at = asked_at + delay(&mut random);
            let asked = HeldLease::asked(holder.at(asked_at));
            let held = HeldLease::granted(asked, lease);
            let granted = GrantedLease::new(granter.at(granted_at), lease);
            let (mine, theirs) = (holder.shows(held.ends_at()), granter.shows(granted.ends_at()));
            assert!(mine < theirs, "a lease of {lease:?} was held {} ns too long", mine - theirs);
            assert!(!held.is_valid(held.ends_at()));
        }
    }

    #[test]
    fn a_third_of_the_lease_passes_before_it_is_renewed() {
        let held = HeldLease::granted(HeldLease::asked(Duration::from_secs(9)), Duration::from_secs(3));
        assert_eq!(held.renew_at(Duration::from_secs(9)), Duration::from_secs(10));
        assert_eq!(held.renew_at(Duration::from_secs(20)), Duration::from_secs(20));
        assert!(!HeldLease::none().is_valid(Duration::ZERO));
    }

    #[test]
    fn extending_never_shortens() {
        let mut granted = GrantedLease::new(Duration::from_secs(5), Duration::from_secs(2));
        granted.extend(Duration::from_secs(3), Duration::from_secs(2));
        assert!(
            !granted.has_ended(Duration::from_millis(6_999)) && granted.has_ended(Duration::from_secs(7))
        );
    }
}
