//! The rule and its refinements one by one; then whole systems of clients and a node.

mod simulation;

use super::*;

fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

/// A selector with an operation every 10 us, whose latencies a test decides.
struct Client {
    selector: Selector,
    now: Duration,
    reads: u32,
}

impl Client {
    fn new(options: SelectorOptions, reads: u32) -> Self {
        Self { selector: Selector::new(options, 7), now: ns(0), reads }
    }

    /// How many of so many operations were requests, if these are the latencies of a request and
    /// of a READ.
    fn run(&mut self, operations: u32, mut latency: impl FnMut() -> (u64, u64)) -> u32 {
        let mut requests = 0;
        for _ in 0..operations {
            self.now += ns(10_000);
            let chosen = self.selector.choose(self.now, self.reads as f32);
            let (request, read) = latency();
            let took = match chosen.choice {
                Choice::Request => request,
                Choice::OneSided => read * u64::from(self.reads),
            };
            requests += u32::from(chosen.choice == Choice::Request);
            if chosen.timed {
                self.selector.measured(self.now, chosen.choice, ns(took), self.reads);
            }
        }
        requests
    }
}

#[test]
fn the_ways_are_taken_by_turns_until_a_few_samples_of_both_are_there() {
    let mut client = Client::new(SelectorOptions::default(), 1);
    assert_eq!(client.run(16, || (9_000, 2_000)), 8);
    assert_eq!(client.selector.preferred(1.0), Some(Choice::OneSided));
    assert!(client.run(1_000, || (9_000, 2_000)) < 30);
}

#[test]
fn the_rule_is_the_papers() {
    let options = SelectorOptions { explore_probability: 0.3, ..SelectorOptions::default() };
    let mut client = Client::new(options, 3);
    // RTT is 2,000; l_r is 3,000 on average, l_s 4,500: 2,500 < 3 * 1,000, and > 2 * 1,000.
    let mut number = 0;
    client.run(1_000, || {
        number += 1;
        if number / 2 % 2 == 0 { (5_000, 4_000) } else { (4_000, 2_000) }
    });
    let (request, read, rtt) = client.selector.latencies().expect("samples");
    assert_eq!(rtt, ns(2_000));
    assert!(request > ns(4_200) && request < ns(4_800), "{request:?}");
    assert!(read > ns(2_600) && read < ns(3_400), "{read:?}");
    assert_eq!(client.selector.preferred(3.5), Some(Choice::Request));
    assert_eq!(client.selector.preferred(1.5), Some(Choice::OneSided));
}

/// How many of so many operations explore, where a request takes so much longer than a READ.
fn explored(operations: u64, request_ns: u64, read_ns: u64) -> u32 {
    let mut selector = Selector::new(SelectorOptions::default(), 3);
    let mut explored = 0;
    for operation in 0..operations {
        let now = ns(operation * read_ns);
        let chosen = selector.choose(now, 1.0);
        explored += u32::from(chosen.explores);
        assert!(chosen.timed || !chosen.explores);
        if chosen.timed {
            let took = if chosen.choice == Choice::Request { request_ns } else { read_ns };
            selector.measured(now, chosen.choice, ns(took), 1);
        }
    }
    explored
}

#[test]
fn one_in_a_hundred_explores_and_is_timed() {
    let explored = explored(100_000, 190, 100);
    assert!((850..1_150).contains(&explored), "{explored} of 100,000");
}

#[test]
fn exploring_takes_no_more_than_its_share_of_the_time() {
    for request in [1_000, 10_000, 100_000] {
        let spent = u64::from(explored(4_000_000, request, 100)) * request;
        let all = 4_000_000 * 100;
        assert!(spent > all / 100 && spent < all / 30, "{spent} of {all} ns with requests of {request} ns");
    }
}

#[test]
fn quick_operations_are_timed_now_and_then_slow_ones_always() {
    for (read, expected) in [(100, 3_500..6_500), (1_000, 36_000..46_000), (5_000, 99_000..100_001)] {
        let mut selector = Selector::new(SelectorOptions::default(), 3);
        let mut timed = 0;
        for operation in 0..100_000 {
            let now = ns(operation * read);
            let chosen = selector.choose(now, 1.0);
            timed += u32::from(chosen.timed);
            if chosen.timed {
                let took = if chosen.choice == Choice::Request { 20_000 } else { read };
                selector.measured(now, chosen.choice, ns(took), 1);
            }
        }
        assert!(expected.contains(&timed), "{timed} of 100,000 READs of {read} ns were timed");
    }
}

#[test]
fn outliers_do_not_count() {
    let mut client = Client::new(SelectorOptions::default(), 1);
    let mut number = 0;
    let mut sample = || {
        number += 1;
        let jitter = number % 7 * 50;
        // Every tenth READ is late by a millisecond.
        (9_000 + jitter, if number > 40 && number % 10 == 0 { 1_000_000 } else { 2_000 + jitter })
    };
    client.run(1_000, &mut sample);
    let requests = client.run(1_000, &mut sample);
    assert!(requests < 30, "{requests} requests");
    let (_, read, _) = client.selector.latencies().expect("samples");
    assert!(read < ns(2_400), "{read:?}");
}

#[test]
fn when_outliers_are_the_rule_the_history_is_dropped() {
    let mut client = Client::new(SelectorOptions::default(), 1);
    client.run(1_000, || (9_000, 2_000));
    // READs take 40,000 from now on: 51 samples, of those timed, then a new start.
    client.run(100, || (9_000, 40_000));
    assert_eq!(client.selector.preferred(1.0), Some(Choice::Request));
    assert!(client.run(1_000, || (9_000, 40_000)) > 970);
}

#[test]
fn after_idling_nothing_is_known() {
    let mut client = Client::new(SelectorOptions::default(), 1);
    client.run(100, || (9_000, 2_000));
    client.now += Duration::from_millis(2_900);
    client.run(1, || (9_000, 2_000));
    assert!(client.selector.preferred(1.0).is_some());
    client.now += Duration::from_secs(3);
    client.run(1, || (9_000, 2_000));
    assert_eq!(client.selector.preferred(1.0), None);
    assert_eq!(client.run(15, || (2_500, 2_600)), 8);
}

#[test]
fn sums_are_exact_after_a_million_samples() {
    let mut window = window::Window::new(100, 1e9);
    for number in 0..1_000_000_u64 {
        window.add(if number % 1_000 == 0 { 3e9 } else { (number % 500) as f32 });
    }
    for _ in 0..100 {
        window.add(250.25);
    }
    assert_eq!(window.average(), 250.25);
}

#[test]
fn reads_of_a_lookup_are_learned() {
    let mut selector = Selector::new(SelectorOptions::default(), 1);
    for number in 0..1_000 {
        selector.measured(ns(number), Choice::OneSided, ns(4_000), 1 + (number % 2) as u32);
    }
    assert!((selector.reads_expected() - 1.5).abs() < 0.02);
    selector.measured(ns(1_000), Choice::OneSided, ns(10), 0);
    assert_eq!(selector.latencies(), None);
}

/// A client is held up for 300 ms in its first READs: it must not believe for long that READs are slow.
#[test]
fn one_long_wait_at_the_start_is_soon_forgotten() {
    let mut selector = Selector::new(SelectorOptions::default(), 3);
    let (mut now, mut first, mut wrong) = (0, true, 0);
    while now < 2_000_000_000 {
        let chosen = selector.choose(ns(now), 1.0);
        let took = match chosen.choice {
            Choice::Request => 1_500,
            Choice::OneSided if std::mem::take(&mut first) => 300_000_000,
            Choice::OneSided => 300,
        };
        now += took;
        if chosen.timed {
            selector.measured(ns(now), chosen.choice, ns(took), 1);
        }
        if now > 1_300_000_000 {
            wrong += u32::from(chosen.choice == Choice::Request && !chosen.explores);
        }
    }
    assert_eq!(wrong, 0, "a second later it still asked the node");
}

/// Operations until `until`, of which the first after one of the other way takes so much longer, and so does one in 256,
/// whichever way it goes. How many were requests and how many READs, and how long both took.
fn run_waking(
    selector: &mut Selector,
    (now, until): (&mut u64, u64),
    (request, read): (u64, u64),
    (waking, seldom): (u64, u64),
) -> [(u32, u64); 2] {
    let (mut last, mut spent) = (Choice::Request, [(0, 0); 2]);
    let mut random = *now | 1;
    while *now < until {
        let chosen = selector.choose(ns(*now), 1.0);
        random = random.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(1);
        let mut took = if chosen.choice == Choice::Request { request } else { read } + (random >> 40) % 300;
        took += if chosen.choice == last { 0 } else { waking };
        took += if random >> 32 & 255 == 0 { seldom } else { 0 };
        last = chosen.choice;
        *now += took;
        if chosen.timed {
            selector.measured(ns(*now), chosen.choice, ns(took), 1);
        }
        let (count, time) = &mut spent[usize::from(chosen.choice == Choice::OneSided)];
        *count += 1;
        *time += took;
    }
    spent
}

/// A node with little CPU: whoever serves the way that was not taken lately is asleep, and takes milliseconds to wake;
/// and one operation in some hundred waits, whichever way it goes.
#[test]
fn a_way_is_not_taken_for_slow_because_it_has_to_be_woken() {
    for (request, read, better) in [(8_300, 9_500, 0), (9_500, 8_300, 1)] {
        let (mut kept, mut all) = (0, 0);
        for seed in 1..=20 {
            let mut selector = Selector::new(SelectorOptions::default(), seed);
            let mut now = seed;
            run_waking(&mut selector, (&mut now, 1_000_000_000), (request, read), (3_000_000, 12_000_000));
            let spent = run_waking(
                &mut selector,
                (&mut now, 4_000_000_000),
                (request, read),
                (3_000_000, 12_000_000),
            );
            kept += spent[better].0;
            all += spent[0].0 + spent[1].0;
        }
        assert!(kept > all / 100 * 95, "{kept} of {all} went the better way");
    }
}

#[test]
fn a_way_that_has_become_slow_takes_little_time_and_is_taken_again_when_it_is_quick() {
    let mut selector = Selector::new(SelectorOptions::default(), 5);
    let mut now = 1;
    run_waking(&mut selector, (&mut now, 500_000_000), (9_000, 10_000), (0, 0));
    let [_, (_, spent)] = run_waking(&mut selector, (&mut now, 4_500_000_000), (9_000, 5_000_000), (0, 0));
    assert!(spent < 4_000_000_000 / 16, "{spent} ns on READs of 5 ms");
    let [_, (reads, _)] = run_waking(&mut selector, (&mut now, 6_500_000_000), (9_000, 2_000), (0, 0));
    assert!(reads > 400_000, "{reads} READs");
}
