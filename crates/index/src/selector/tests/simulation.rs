//! Clients and a node in virtual time: is the mix that the selectors find as good as the best that
//! somebody could have tuned?
//!
//! Each client has one operation at a time. Requests queue for the node's CPU, whose service times
//! are exponential (M/M/1); READs queue for its NIC, whose service times are fixed. Both are first
//! come, first served.

use super::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What clients and node are like; times in nanoseconds.
#[derive(Clone, Copy)]
struct System {
    clients: usize,
    /// On the wire, there and back.
    wire: u64,
    /// Of a request, on average.
    request_service: f64,
    /// Of a READ; 0 if READs do not queue.
    read_service: f64,
    /// READs of a lookup.
    reads: u32,
    /// A client waits so long between operations.
    think: u64,
    rule: Rule,
}

/// Who chooses.
#[derive(Clone, Copy)]
enum Policy {
    Auto,
    /// This many per cent are requests.
    Fixed(u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    operations: u64,
    latency_sum: u64,
    requests: u64,
}

impl Measured {
    fn latency(&self) -> f64 {
        self.latency_sum as f64 / self.operations.max(1) as f64
    }

    fn share(&self) -> f64 {
        self.requests as f64 / self.operations.max(1) as f64
    }
}

struct Client {
    selector: Selector,
    began: u64,
    chosen: Chosen,
    reads_left: u32,
}

struct Simulation {
    system: System,
    policy: Policy,
    clients: Vec<Client>,
    /// When, and whose next READ or request reaches the node, or who begins an operation.
    events: BinaryHeap<Reverse<(u64, usize)>>,
    cpu_free: f64,
    nic_free: f64,
    random: u64,
}

impl Simulation {
    fn new(system: System, policy: Policy) -> Self {
        let idle = Chosen { choice: Choice::OneSided, timed: false, explores: false };
        let options = SelectorOptions { rule: system.rule, ..SelectorOptions::default() };
        let client = |number| Client {
            selector: Selector::new(options, number),
            began: 0,
            chosen: idle,
            reads_left: 0,
        };
        Self {
            system,
            policy,
            clients: (0..system.clients as u64).map(client).collect(),
            events: (0..system.clients).map(|number| Reverse((number as u64 * 100, number))).collect(),
            cpu_free: 0.0,
            nic_free: 0.0,
            random: 0x5eed,
        }
    }

    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        ((self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Runs until a moment, and tells what was done since the last.
    fn run(&mut self, until: u64) -> Measured {
        let mut measured = Measured::default();
        while let Some(&Reverse((now, number))) = self.events.peek()
            && now < until
        {
            self.events.pop();
            self.happen(now, number, &mut measured);
        }
        measured
    }

    fn happen(&mut self, now: u64, number: usize, measured: &mut Measured) {
        let system = self.system;
        if self.clients[number].reads_left == 0 {
            let percent = (self.uniform() * 100.0) as u32;
            let client = &mut self.clients[number];
            client.chosen = match self.policy {
                Policy::Auto => client.selector.choose(ns(now), system.reads as f32),
                Policy::Fixed(requests) => {
                    let choice = if percent < requests { Choice::Request } else { Choice::OneSided };
                    Chosen { choice, timed: false, explores: false }
                }
            };
            client.began = now;
            client.reads_left = if client.chosen.choice == Choice::Request { 1 } else { system.reads };
        }
        // The wire's whole latency is added afterwards, so events arrive at the node in order.
        let choice = self.clients[number].chosen.choice;
        let served = match choice {
            Choice::Request => {
                let service = -self.uniform().ln() * system.request_service;
                self.cpu_free = self.cpu_free.max(now as f64) + service;
                self.cpu_free
            }
            Choice::OneSided if system.read_service == 0.0 => now as f64,
            Choice::OneSided => {
                self.nic_free = self.nic_free.max(now as f64) + system.read_service;
                self.nic_free
            }
        };
        let back = served as u64 + system.wire;
        let client = &mut self.clients[number];
        client.reads_left -= 1;
        if client.reads_left > 0 {
            self.events.push(Reverse((back, number)));
            return;
        }
        let latency = back - client.began;
        measured.operations += 1;
        measured.latency_sum += latency;
        measured.requests += u64::from(choice == Choice::Request);
        if client.chosen.timed {
            client.selector.measured(ns(back), choice, ns(latency), system.reads);
        }
        self.events.push(Reverse((back + system.think, number)));
    }
}

const MS: u64 = 1_000_000;

/// What a policy does once it has settled.
fn settled(system: System, policy: Policy) -> Measured {
    let mut simulation = Simulation::new(system, policy);
    simulation.run(50 * MS);
    simulation.run(200 * MS)
}

/// The best mix in steps of a tenth, by what was done.
fn best(system: System) -> (u32, Measured) {
    let mixes = (0..=10).map(|tenth| (10 * tenth, settled(system, Policy::Fixed(10 * tenth))));
    mixes.max_by_key(|(_, measured)| measured.operations).expect("mixes")
}

/// Cell's: both queues can be full.
const CELL: System = System {
    clients: 24,
    wire: 5_000,
    request_service: 2_000.0,
    read_service: 700.0,
    reads: 5,
    think: 0,
    rule: Rule::Queues,
};

/// Memory that everybody maps: READs never queue.
const MAPPED: System = System {
    clients: 8,
    wire: 1_000,
    request_service: 500.0,
    read_service: 0.0,
    reads: 3,
    think: 0,
    rule: Rule::Latencies,
};

fn compare(name: &str, system: System) {
    let (mix, best) = best(system);
    let auto = settled(system, Policy::Auto);
    let ratio = auto.operations as f64 / best.operations as f64;
    println!(
        "{name}: {:.0} % requests, {ratio:.3} of the best mix ({mix} %), {:.0} ns for {:.0} ns",
        100.0 * auto.share(),
        auto.latency(),
        best.latency()
    );
    assert!(ratio >= 0.95, "{name}: {ratio}");
    assert!(auto.latency() <= best.latency() / 0.95, "{name}: {} ns", auto.latency());
}

#[test]
fn as_good_as_the_best_mix_where_both_queues_fill() {
    for request_service in [500.0, 1_000.0, 2_000.0, 4_000.0, 8_000.0] {
        compare(&format!("request {request_service}"), System { request_service, ..CELL });
    }
    compare("12 clients", System { clients: 12, ..CELL });
    compare("64 clients", System { clients: 64, ..CELL });
    compare("one READ", System { reads: 1, ..CELL });
}

#[test]
fn as_good_as_the_best_mix_where_reads_do_not_queue() {
    for request_service in [100.0, 200.0, 500.0, 1_000.0, 5_000.0] {
        compare(&format!("mapped, request {request_service}"), System { request_service, ..MAPPED });
    }
    compare("mapped, 2 READs", System { reads: 2, ..MAPPED });
    compare("mapped, 5 READs, 16 clients", System { reads: 5, clients: 16, ..MAPPED });
    compare("mapped, one READ", System { reads: 1, rule: Rule::Queues, ..MAPPED });
}

#[test]
fn the_papers_rule_spares_the_node_where_reads_do_not_queue() {
    let sparing = settled(System { rule: Rule::Queues, ..MAPPED }, Policy::Auto);
    let quick = settled(MAPPED, Policy::Auto);
    assert!(sparing.share() < 0.02, "{} are requests", sparing.share());
    assert!(quick.operations as f64 > 1.15 * sparing.operations as f64, "{quick:?}, {sparing:?}");
}

#[test]
fn a_change_of_the_nodes_capacity_is_answered_within_a_second() {
    let quick = System { request_service: 500.0, ..CELL };
    let slow = System { request_service: 20_000.0, ..CELL };
    for (before, after) in [(quick, slow), (slow, quick)] {
        let mut simulation = Simulation::new(before, Policy::Auto);
        simulation.run(300 * MS);
        simulation.system = after;
        // What is done in the second half of the first second.
        simulation.run(800 * MS);
        let answered = simulation.run(1_300 * MS);
        let mut fresh = Simulation::new(after, Policy::Auto);
        fresh.run(800 * MS);
        let expected = fresh.run(1_300 * MS);
        let ratio = answered.operations as f64 / expected.operations as f64;
        println!("{:.2} -> {:.2} requests, {ratio:.3}", answered.share(), expected.share());
        assert!(ratio > 0.95, "{ratio}");
    }
}
