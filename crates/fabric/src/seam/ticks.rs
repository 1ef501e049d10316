//! The processor's counter of ticks, read in a third of the time of a look at the clock.
//!
//! What always holds: it is read only where the kernel itself tells the time by it (x86-64, clock source
//! `tsc`). Then it never stops or goes back, and is the same on every core.
#![allow(unsafe_code)]

use std::sync::OnceLock;

/// Whether ticks can be counted here.
pub(super) fn are_there() -> bool {
    static TOLD_BY: OnceLock<bool> = OnceLock::new();
    *TOLD_BY.get_or_init(|| {
        let source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        cfg!(all(target_arch = "x86_64", not(miri))) && source.is_ok_and(|name| name.trim_ascii() == b"tsc")
    })
}

/// Ticks so far. A look may be as early as loads that stand before it in the program: by fractions of a
/// microsecond.
#[inline]
pub(super) fn count() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
