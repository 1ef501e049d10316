//! Placement, measured: golden values, balance, movement, nearness.

use super::*;
use barn_fabric::seam::Seeded;
use std::collections::{BTreeMap, BTreeSet};

const K: u32 = RINGS_DEFAULT;
const R: u32 = REPLICAS_DEFAULT;

const GOLDEN: [u32; 5] = [0x6e78_9e6a, 0x06c4_5d18, 0xe7ff_814e, 0x3b60_e6bb, 0x7333_4837];
const GOLDEN_PRIMARY: u32 = 3;
const GOLDEN_REPLICAS: [u32; 2] = [4, 1];

fn members(count: u32) -> Vec<MemberId> {
    (1..=count).map(MemberId).collect()
}

/// Regions all over the rings.
fn regions(count: u32) -> impl Iterator<Item = RegionId> {
    let mut random = Seeded::new(3);
    (0..count).map(move |_| region_at(random.below(K.into()) as u32, random.next() as u32))
}

fn placed(region: RegionId, members: &[MemberId]) -> Placement {
    place(region, members, K, R).expect("there are members")
}

/// These never change: recorded placements and other versions of Barn depend on them.
#[test]
fn golden_positions() {
    let positions =
        [(0, 1), (0, 2), (1, 1), (99, 1), (127, u32::MAX)].map(|(ring, id)| position(ring, MemberId(id)));
    assert_eq!(positions, GOLDEN);
    let golden =
        place(RegionId(0x1234_5678), &members(5), K, R).map(|placed| (placed.primary.0, placed.replicas));
    assert_eq!(golden, Some((GOLDEN_PRIMARY, GOLDEN_REPLICAS.map(MemberId).to_vec())));
}

#[test]
fn nobody_holds_what_nobody_can() {
    assert_eq!(place(RegionId(1), &[], K, R), None);
    let alone = placed(RegionId(1), &members(1));
    assert_eq!((alone.primary, alone.replicas.len()), (MemberId(1), 0));
    let mut random = Seeded::new(1);
    assert_eq!(choose_region(MemberId(9), None, &members(3), K, &|_| false, &mut random), None);
    assert_eq!(choose_region(MemberId(1), None, &members(3), 1, &|_| true, &mut random), None);
}

#[test]
fn primary_and_replicas_differ() {
    for region in regions(2_000) {
        let Placement { primary, replicas } = placed(region, &members(7));
        let all: BTreeSet<MemberId> = replicas.iter().copied().chain([primary]).collect();
        assert_eq!((all.len(), replicas.len()), (3, 2), "{region}");
    }
}

#[test]
fn shares_differ_by_little() {
    let members = members(10);
    let mut shares: BTreeMap<MemberId, u32> = BTreeMap::new();
    regions(20_000).for_each(|region| *shares.entry(placed(region, &members).primary).or_default() += 1);
    // A share of 2000 each, with a deviation of one in √k, 10 %: three of those.
    assert!(shares.len() == 10 && shares.values().all(|share| (1_400..2_600).contains(share)), "{shares:?}");
}

#[test]
fn only_what_must_move_moves() {
    let (ten, eleven) = (members(10), members(11));
    let mut moved = 0;
    for region in regions(10_000) {
        let (before, after) = (placed(region, &ten).primary, placed(region, &eleven).primary);
        assert!(before == after || after == MemberId(11), "{region} moved from {before} to {after}");
        moved += u32::from(before != after);
    }
    // One in eleven: 909.
    assert!((600..1_250).contains(&moved), "{moved} of 10000 moved to the newcomer");
}

#[test]
fn a_departed_members_regions_go_to_all_others_and_first_to_their_replicas() {
    let ten = members(10);
    let nine: Vec<MemberId> = ten.iter().copied().filter(|id| id.0 != 4).collect();
    let mut heirs = BTreeSet::new();
    for region in regions(10_000) {
        let (before, after) = (placed(region, &ten), placed(region, &nine));
        if before.primary == MemberId(4) {
            assert_eq!(after.primary, before.replicas[0], "{region}");
            heirs.insert(after.primary);
        } else {
            assert_eq!(after.primary, before.primary, "{region}");
        }
    }
    assert_eq!(heirs.len(), 9, "recovery is spread over {heirs:?} only");
}

#[test]
fn a_chosen_region_is_its_members_and_free() {
    let members = members(30);
    let mut random = Seeded::new(5);
    let mut taken = BTreeSet::new();
    let mut rings = BTreeSet::new();
    for count in 0..3_000 {
        let member = members[count % members.len()];
        let chosen = choose_region(member, None, &members, K, &|region| taken.contains(&region), &mut random);
        let region = chosen.expect("there is room");
        assert_eq!(placed(region, &members).primary, member);
        assert!(region.0 != 0 && taken.insert(region), "{region} was chosen twice");
        rings.insert(place_of(region, K).0);
    }
    assert_eq!(rings.len() as u32, K, "some rings are never chosen");
}

#[test]
fn region_0_is_never_chosen() {
    let taken = |region: RegionId| !(0..=1).contains(&region.0);
    let mut random = Seeded::new(6);
    assert_eq!(choose_region(MemberId(1), None, &members(1), 1, &taken, &mut random), Some(RegionId(1)));
}

#[test]
fn near_regions_stay_together_through_changes() {
    let members = members(20);
    let mut random = Seeded::new(8);
    let (mut same_now, mut same_later, mut all) = (0, 0, 0);
    for hint in regions(1_000) {
        let home = placed(hint, &members);
        let near =
            choose_region(home.primary, Some(hint), &members, K, &|region| region == hint, &mut random);
        let near = near.expect("there is room");
        assert!(near.0.abs_diff(hint.0) <= 2, "{near} is not close to {hint}");
        same_now += u32::from(placed(near, &members) == home);
        // Half of the members are gone, as many others have come.
        let others: Vec<MemberId> = (11..=30).map(MemberId).collect();
        same_later += u32::from(placed(near, &others) == placed(hint, &others));
        all += 1;
    }
    assert!(
        same_now >= all - 2 && same_later >= all - 2,
        "{same_now} and {same_later} of {all} are together"
    );
}

#[test]
fn a_hint_of_another_member_gives_the_closest_place_on_its_ring() {
    let members = members(5);
    let mut random = Seeded::new(9);
    for hint in regions(500) {
        for member in &members {
            let Some(near) = choose_region(*member, Some(hint), &members, K, &|_| false, &mut random) else {
                panic!("{member} has no place near {hint}");
            };
            assert_eq!(placed(near, &members).primary, *member);
            assert_eq!(place_of(near, K).0, place_of(hint, K).0, "on another ring than the hint");
        }
    }
}
