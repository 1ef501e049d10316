//! Placement: consistent hashing on k virtual rings (FaRM section 3.2).
//!
//! Each member has one position on each ring, by the ring's own hash of its number. A region's
//! identifier *is* a place: its ring in the high [`RING_BITS`], its position in the low bits. Its
//! primary is the first member at or after that position, its replicas the next ones. Several
//! rings spread a member's regions over all others when it is gone, and even out the load.
//!
//! What always holds: the same members give the same placement, in every version of Barn (golden
//! values below); region 0 is nobody's (a scratch region), and is never chosen.
//!
//! Placement decides once, when a region is allocated. The result is recorded in the configuration
//! and stays there until a later change moves it: members that join take no region from others
//! (there is no migration yet).

use crate::member::MemberId;
use barn_fabric::seam::Random;
use barn_layout::RegionId;

/// How many bits of a region's identifier say which ring it is on.
pub const RING_BITS: u32 = 7;

/// The most rings.
pub const RINGS_MAX: u32 = 1 << RING_BITS;

/// Rings unless told otherwise: the shares of members then differ by 10 % (one in √k).
pub const RINGS_DEFAULT: u32 = 100;

/// Replicas unless told otherwise: with the primary, FaRM's three copies.
pub const REPLICAS_DEFAULT: u32 = 2;

const POSITION_BITS: u32 = 32 - RING_BITS;
const POSITIONS: u32 = 1 << POSITION_BITS;

/// SplitMix64's finaliser: every bit of the input moves about half of the output's.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Where a member is on a ring, of 2^32 positions.
pub const fn position(ring: u32, member: MemberId) -> u32 {
    // Both halves odd multiples of SplitMix64's increment: rings are independent functions.
    let seed = ((ring as u64) << 32 | member.0 as u64).wrapping_add(1);
    (mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32) as u32
}

/// The ring of a region, and its place there, of 2^32 positions.
pub const fn place_of(region: RegionId, rings: u32) -> (u32, u32) {
    ((region.0 >> POSITION_BITS) % rings, region.0 << RING_BITS)
}

/// Who holds a region, and who its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The first member at or after the region's position.
    pub primary: MemberId,
    /// The members after it, `r` of them or as many as there are.
    pub replicas: Vec<MemberId>,
}

/// The members of a ring by position.
fn ring_of(ring: u32, members: &[MemberId]) -> Vec<(u32, MemberId)> {
    let mut on_ring: Vec<_> = members.iter().map(|member| (position(ring, *member), *member)).collect();
    on_ring.sort_unstable();
    on_ring.dedup();
    on_ring
}

/// Places a region among members; `None` if there are none.
pub fn place(region: RegionId, members: &[MemberId], rings: u32, r: u32) -> Option<Placement> {
    let (ring, at) = place_of(region, rings.max(1));
    let on_ring = ring_of(ring, members);
    let first = on_ring.partition_point(|(position, _)| *position < at);
    let mut successors = on_ring.iter().cycle().skip(first).take(on_ring.len()).map(|(_, member)| *member);
    Some(Placement { primary: successors.next()?, replicas: successors.take(r as usize).collect() })
}

/// The places of a ring at which a member is the primary: a first one, and how many follow on.
fn arc(ring: u32, member: MemberId, members: &[MemberId]) -> Option<(u32, u32)> {
    let on_ring = ring_of(ring, members);
    let mine = on_ring.iter().position(|(_, id)| *id == member)?;
    // A region's position is a multiple of 2^RING_BITS; these are in units of that.
    let floor = |position: u32| position >> RING_BITS;
    let last = floor(on_ring[mine].0);
    if on_ring.len() == 1 {
        return Some((0, POSITIONS));
    }
    let before = on_ring[(mine + on_ring.len() - 1) % on_ring.len()].0;
    let after = floor(before) + 1;
    // Wraps around the ring's end.
    Some((after % POSITIONS, last.wrapping_sub(after).wrapping_add(1) & (POSITIONS - 1)))
}

fn region_at(ring: u32, unit: u32) -> RegionId {
    RegionId(ring << POSITION_BITS | unit & (POSITIONS - 1))
}

/// The first free place of an arc, looking from `from` (an offset into it) both ways.
fn nearest(
    ring: u32,
    (first, count): (u32, u32),
    from: u32,
    taken: &dyn Fn(RegionId) -> bool,
) -> Option<RegionId> {
    let free = |offset: u32| {
        let region = region_at(ring, first.wrapping_add(offset));
        (region.0 != 0 && !taken(region)).then_some(region)
    };
    (0..count).find_map(|step| {
        let (below, above) = (from.checked_sub(step), from.checked_add(step));
        let above = above.filter(|offset| *offset < count).and_then(free);
        above.or_else(|| below.filter(|offset| *offset < count).and_then(free))
    })
}

/// Chooses an identifier for a region that `member` is to be the primary of: on `near`'s ring and
/// close to it, or on a ring at random. `None` if the member has no free place on any ring.
pub fn choose_region(
    member: MemberId,
    near: Option<RegionId>,
    members: &[MemberId],
    rings: u32,
    taken: &dyn Fn(RegionId) -> bool,
    random: &mut dyn Random,
) -> Option<RegionId> {
    let rings = rings.clamp(1, RINGS_MAX);
    let beside = near.filter(|near| near.0 != 0).and_then(|near| {
        let (ring, _) = place_of(near, rings);
        let arc = arc(ring, member, members).filter(|(_, count)| *count > 0)?;
        // How far into the arc; if the hint is outside, from whichever end is closer to it.
        let into = (near.0 & (POSITIONS - 1)).wrapping_sub(arc.0) & (POSITIONS - 1);
        let from = match into < arc.1 {
            true => into,
            false if into - arc.1 < POSITIONS - into => arc.1 - 1,
            false => 0,
        };
        nearest(ring, arc, from, taken)
    });
    beside.or_else(|| {
        let start = random.below(rings.into()) as u32;
        (0..rings).find_map(|step| {
            let ring = (start + step) % rings;
            let arc = arc(ring, member, members).filter(|(_, count)| *count > 0)?;
            nearest(ring, arc, random.below(arc.1.into()) as u32, taken)
        })
    })
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
