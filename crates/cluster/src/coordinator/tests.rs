//! The coordinator, request by request.

use super::change::forget_departed;
use super::*;
use crate::member::Departed;
use crate::store::MemoryStore;
use barn_layout::RegionId;

const LEASE_MS: u64 = 1_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn start(store: &MemoryStore, now: u64) -> Coordinator {
    Coordinator::start(Box::new(store.clone()), CoordinatorOptions::default(), ms(now)).unwrap()
}

/// Lets time pass in ticks, as a node does.
fn pass(coordinator: &mut Coordinator, from: u64, to: u64) {
    (from..=to).step_by(100).for_each(|now| {
        coordinator.tick(ms(now)).unwrap();
    });
}

fn join_as(coordinator: &mut Coordinator, now: u64, life: u64, rejoining: Option<MemberId>) -> Response {
    let (addresses, host) = (vec![format!("tcp://host:{life}")], "host".to_string());
    let request = Request::Join { addresses, host, memory_bytes: 1 << 30, life: Life(life), rejoining };
    coordinator.handle(ms(now), request)
}

fn join(coordinator: &mut Coordinator, now: u64, life: u64) -> MemberId {
    match join_as(coordinator, now, life, None) {
        Response::Joined { member, lease_ms: LEASE_MS, .. } => member,
        other => panic!("not joined: {other:?}"),
    }
}

fn renew(coordinator: &mut Coordinator, now: u64, member: MemberId, life: u64) -> Response {
    let known_version = coordinator.configuration().version;
    coordinator.handle(ms(now), Request::Renew { member, life: Life(life), known_version })
}

fn add_region(coordinator: &mut Coordinator, now: u64, member: MemberId, life: u64) -> RegionId {
    let request = Request::AddRegion { member, life: Life(life), near: None, bytes: 2 << 20 };
    match coordinator.handle(ms(now), request) {
        Response::RegionAdded { placed, .. } => placed.region,
        other => panic!("no region: {other:?}"),
    }
}

fn refusal(response: Response) -> Refusal {
    match response {
        Response::Refused(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn who_renews_stays_and_who_does_not_goes() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let (one, two) = (join(&mut coordinator, 0, 1), join(&mut coordinator, 0, 2));
    for now in (0..3_000).step_by(100) {
        assert!(matches!(renew(&mut coordinator, now, one, 1), Response::Renewed { .. }));
    }
    let configuration = coordinator.configuration();
    assert!(configuration.member(one).is_some() && configuration.member(two).is_none());
    let departed = configuration.departure(two).unwrap();
    assert_eq!(departed.at_version, configuration.version);
    assert!(matches!(refusal(renew(&mut coordinator, 3_000, two, 2)), Refusal::Expelled { .. }));
}

#[test]
fn a_lost_answer_to_joining_is_given_again() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    let version = coordinator.configuration().version;
    assert_eq!(join(&mut coordinator, 10, 1), member);
    assert_eq!(coordinator.configuration().version, version);
}

#[test]
fn an_expelled_member_comes_back_to_its_regions() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    let region = add_region(&mut coordinator, 0, member, 1);
    assert_eq!(coordinator.configuration().primary(region), Some(member));
    pass(&mut coordinator, 100, 1_000);
    assert_eq!(coordinator.configuration().primary(region), None, "a region of nobody has a primary");
    assert!(coordinator.configuration().region(region).is_some(), "the region is forgotten");
    let back = join_as(&mut coordinator, 1_100, 1, Some(member));
    assert!(matches!(back, Response::Joined { member: again, .. } if again == member), "{back:?}");
    assert_eq!(coordinator.configuration().primary(region), Some(member));
    assert!(coordinator.configuration().departed.is_empty());
}

#[test]
fn nobody_takes_a_members_place_before_its_lease_has_ended() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    let refused = refusal(join_as(&mut coordinator, 200, 2, Some(member)));
    assert_eq!(refused, Refusal::StillHeld { member, retry_ms: 801 });
    pass(&mut coordinator, 300, 1_000);
    assert!(matches!(join_as(&mut coordinator, 1_001, 2, Some(member)), Response::Joined { .. }));
    // The first process wakes up.
    assert_eq!(refusal(renew(&mut coordinator, 1_010, member, 1)), Refusal::Superseded { member });
    let region = Request::AddRegion { member, life: Life(1), near: None, bytes: 1 };
    assert_eq!(refusal(coordinator.handle(ms(1_010), region)), Refusal::Superseded { member });
}

#[test]
fn who_leaves_is_gone_at_once_and_may_ask_twice() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    for _ in 0..2 {
        let left = coordinator.handle(ms(5), Request::Leave { member, life: Life(1) });
        assert_eq!(left, Response::Left { version: 3 });
    }
    assert!(coordinator.configuration().departure(member).is_some());
}

#[test]
fn get_answers_only_what_is_news() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    join(&mut coordinator, 0, 1);
    let get = |coordinator: &mut Coordinator, known_version| {
        coordinator.handle(ms(1), Request::Get { known_version })
    };
    assert_eq!(get(&mut coordinator, 2), Response::Current { version: 2, configuration: None });
    let news = coordinator.configuration().clone();
    assert_eq!(get(&mut coordinator, 0), Response::Current { version: 2, configuration: Some(news) });
    assert_eq!(refusal(get(&mut coordinator, 3)), Refusal::Behind { version: 2 });
}

#[test]
fn a_restarted_coordinator_gives_everybody_a_full_lease() {
    let store = MemoryStore::new();
    let mut before = start(&store, 0);
    let member = join(&mut before, 0, 1);
    // Another process, another clock, and a store that knows no leases.
    let configuration = before.configuration().clone();
    let store = MemoryStore::new();
    finish_now(store.replace(0, &configuration)).unwrap().unwrap();
    let mut after = start(&store, 70_000);
    pass(&mut after, 70_100, 70_900);
    assert!(after.configuration().member(member).is_some());
    pass(&mut after, 71_000, 71_000);
    assert!(after.configuration().member(member).is_none());
}

#[test]
fn a_coordinator_that_was_stopped_blames_nobody() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    assert!(!coordinator.tick(ms(60_000)).unwrap(), "expelled for the coordinator's own pause");
    assert!(matches!(renew(&mut coordinator, 60_100, member, 1), Response::Renewed { .. }));
}

#[test]
fn of_two_coordinators_the_slower_takes_over_what_the_faster_wrote() {
    let store = MemoryStore::new();
    let (mut one, mut two) = (start(&store, 0), start(&store, 0));
    join(&mut one, 0, 1);
    assert!(matches!(refusal(join_as(&mut two, 1, 2, None)), Refusal::Unavailable { .. }));
    assert_eq!(join(&mut two, 2, 2), MemberId(2));
    assert_eq!(two.configuration().members.len(), 2);
}

#[test]
fn departures_are_counted_on_through_changes_and_restarts() {
    let store = MemoryStore::new();
    let mut coordinator = start(&store, 0);
    let one = join(&mut coordinator, 0, 1);
    coordinator.handle(ms(0), Request::Leave { member: one, life: Life(1) });
    join(&mut coordinator, 200, 2);
    assert_eq!(coordinator.configuration().departure(one).unwrap().since_ms, 200);
    let mut again = start(&store, 5_000);
    join(&mut again, 5_050, 3);
    assert_eq!(again.configuration().departure(one).unwrap().since_ms, 250);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut coordinator = start(&MemoryStore::new(), 0);
    let member = join(&mut coordinator, 0, 1);
    let many = Request::Join {
        addresses: vec![String::new(); 9],
        host: String::new(),
        memory_bytes: 0,
        life: Life(2),
        rejoining: None,
    };
    assert!(matches!(refusal(coordinator.handle(ms(0), many)), Refusal::BadRequest { .. }));
    for bytes in [0, u64::MAX] {
        let request = Request::AddRegion { member, life: Life(1), near: None, bytes };
        assert!(matches!(refusal(coordinator.handle(ms(0), request)), Refusal::BadRequest { .. }));
    }
    let stranger = MemberId(77);
    assert_eq!(refusal(renew(&mut coordinator, 0, stranger, 1)), Refusal::UnknownMember { member: stranger });
    let unknown = refusal(join_as(&mut coordinator, 0, 3, Some(stranger)));
    assert_eq!(unknown, Refusal::UnknownMember { member: stranger });
}

#[test]
fn only_settled_departures_without_regions_are_forgotten() {
    let mut configuration = Configuration::new(ms(LEASE_MS), 1, 0);
    let since = [5_000, 0, 5_000, 5_000];
    configuration.departed = (1..)
        .zip(since)
        .map(|(id, since_ms)| Departed { member: MemberId(id), at_version: 1, since_ms })
        .collect();
    configuration.next_member = 5;
    let placed =
        crate::RegionPlacement { region: RegionId(9), primary: MemberId(1), replicas: vec![], bytes: 1 };
    configuration.regions.push(placed);
    forget_departed(&mut configuration, 3);
    assert_eq!(
        configuration.departed.iter().map(|departed| departed.member.0).collect::<Vec<_>>(),
        [1, 2, 4]
    );
    forget_departed(&mut configuration, 0);
    assert_eq!(configuration.departed.iter().map(|departed| departed.member.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(configuration.validate(), Ok(()));
}

#[test]
fn a_slow_store_is_reported_and_what_it_holds_is_looked_up() {
    /// Answers nothing until it is told to.
    struct Slow(MemoryStore, std::sync::atomic::AtomicBool);
    impl Slow {
        fn wait(&self) -> bool {
            // ORDER: SeqCst: one thread.
            self.1.swap(false, std::sync::atomic::Ordering::SeqCst)
        }
    }
    impl ConfigurationStore for std::sync::Arc<Slow> {
        fn load(&self) -> crate::Answer<'_, Option<Configuration>> {
            self.0.load()
        }
        fn replace<'a>(&'a self, expected: u64, configuration: &'a Configuration) -> crate::Answer<'a, ()> {
            let done = self.0.replace(expected, configuration);
            if self.wait() { Box::pin(std::future::pending()) } else { done }
        }
        fn watch(&self, known_version: u64) -> crate::Answer<'_, Option<Configuration>> {
            self.0.watch(known_version)
        }
        fn grant(&self, member: MemberId, now: Duration, lease: Duration) -> crate::Answer<'_, ()> {
            self.0.grant(member, now, lease)
        }
        fn renew(&self, member: MemberId, now: Duration, lease: Duration) -> crate::Answer<'_, bool> {
            self.0.renew(member, now, lease)
        }
        fn release(&self, member: MemberId) -> crate::Answer<'_, ()> {
            self.0.release(member)
        }
        fn expired(&self, now: Duration) -> crate::Answer<'_, Vec<MemberId>> {
            self.0.expired(now)
        }
        fn ends_at(&self, member: MemberId) -> crate::Answer<'_, Option<Duration>> {
            self.0.ends_at(member)
        }
    }
    let store = std::sync::Arc::new(Slow(MemoryStore::new(), false.into()));
    let options = CoordinatorOptions::default();
    let mut coordinator = Coordinator::start(Box::new(store.clone()), options, ms(0)).unwrap();
    // ORDER: SeqCst: one thread.
    store.1.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(matches!(refusal(join_as(&mut coordinator, 0, 1, None)), Refusal::Unavailable { .. }));
    // It was written all the same: the same life gets the same member, in no new version.
    assert_eq!(join(&mut coordinator, 1, 1), MemberId(1));
    assert_eq!(coordinator.configuration().version, 2);
}
