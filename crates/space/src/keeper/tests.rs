//! A keeper that is told things directly, and its gate at a real node.

use super::*;
use crate::message::{FIRST_CHUNK_REGION, MARKS_REGION, Pass, SessionId, TaskId};
use crate::pass::SECRET_BYTES;
use barn_fabric::seam::Threads;
use barn_fabric::{
    ConnectOptions, Node, NodeOptions, OpenError, Region, RegionId, Reply, Request as Asked, Rights, Service,
};

const CHUNK: u64 = 64 << 10;
const MEMBER: MemberId = MemberId(7);
const LIFE: Life = Life(70);

fn secret(byte: u8) -> Secret {
    Secret::new([byte; SECRET_BYTES])
}

fn keeper() -> (Keeper, Registry, Arc<Gate>) {
    let registry = Registry::default();
    let gate = Arc::new(Gate::new(registry.clone()));
    let options = KeeperOptions {
        member: MEMBER,
        life: LIFE,
        registry: registry.clone(),
        bytes_max: 16 * CHUNK,
        gate: gate.clone(),
        counts: Arc::default(),
        schedule: Arc::new(Threads),
        memory: Region::allocate,
    };
    (Keeper::new(options, KeeperStop::default()).unwrap(), registry, gate)
}

fn prepare(task: u64, count: u64) -> Work {
    Work::Prepare { task: TaskId(task), chunk_bytes: CHUNK, count }
}

fn chunks_of(done: &Done) -> Vec<u32> {
    match done {
        Done::Prepared { chunks, .. } => chunks.iter().map(|(region, _)| *region).collect(),
        Done::Finished { .. } => Vec::new(),
    }
}

#[test]
fn a_task_that_is_handed_out_twice_is_carried_out_once() {
    let (mut keeper, _, _) = keeper();
    assert!(keeper.hear(vec![prepare(1, 2), prepare(1, 2)], &secret(1).to_hex()));
    assert_eq!(keeper.done.len(), 1);
    assert_eq!(keeper.options.counts.now().chunks, 2);
    // The answer shows that it was heard: what comes now is another task.
    assert!(keeper.hear(vec![prepare(2, 3)], &secret(1).to_hex()));
    assert_eq!((keeper.done.len(), keeper.options.counts.now().chunks), (1, 5));
}

#[test]
fn a_keeper_does_as_it_is_told_and_says_so() {
    let (mut keeper, registry, _) = keeper();
    keeper.hear(vec![prepare(1, 3)], &secret(1).to_hex());
    let made = chunks_of(&keeper.done[0]);
    let [kept, gone, last] = made[..] else { panic!("three chunks") };
    let retire = |task, region, keep| Work::Retire { task: TaskId(task), regions: vec![region], keep };
    let taint = Work::Taint { task: TaskId(4), marks: vec![0] };
    keeper.hear(vec![retire(2, kept, true), retire(3, gone, false), taint], &secret(1).to_hex());
    assert_eq!(chunks_of(&keeper.done[0]).len(), 1);
    assert_eq!(keeper.done[1..], [Done::Finished { task: TaskId(3) }, Done::Finished { task: TaskId(4) }]);
    assert!(registry.region(RegionId(last)).is_some());
    keeper.hear(vec![Work::Clear { task: TaskId(5) }], &secret(1).to_hex());
    assert_eq!(keeper.done, [Done::Finished { task: TaskId(5) }]);
    assert!(registry.region(RegionId(last)).is_none());
    assert!(registry.region(RegionId(MARKS_REGION)).is_some());
    drop(keeper);
    assert!(registry.region(RegionId(MARKS_REGION)).is_none());
}

#[test]
fn another_master_finds_none_of_its_predecessors_chunks() {
    let (mut keeper, registry, _) = keeper();
    keeper.hear(vec![prepare(1, 2)], &secret(1).to_hex());
    let made = chunks_of(&keeper.done[0]);
    assert!(keeper.hear(vec![], &secret(2).to_hex()));
    assert!(made.iter().all(|region| registry.region(RegionId(*region)).is_none()));
    assert!(!keeper.hear(vec![prepare(2, 1)], "not a secret"));
    assert_eq!(keeper.options.counts.now().chunks, 0);
}

/// A node that does nothing but let peers in.
struct Door(Arc<Gate>);

impl Service for Door {
    fn call(&mut self, request: Asked<'_>, reply: Reply<'_>) {
        match self.0.enter(request.peer, request.body) {
            Ok(()) => reply.done(&[]),
            Err(error) => reply.refuse(&error.to_string()),
        }
    }
}

fn pass(regions: &[u32], write: bool) -> Pass {
    secret(1).pass(MEMBER, LIFE, SessionId(5), regions.to_vec(), write)
}

#[test]
fn nobody_gets_into_a_chunk_without_a_pass_for_it_nor_further_than_it_says() {
    let (mut keeper, registry, gate) = keeper();
    let path = std::env::temp_dir().join(format!("barn-gate-{}.sock", std::process::id()));
    let options =
        NodeOptions { shm: Some(path), tcp: Some(([127, 0, 0, 1], 0).into()), ..NodeOptions::default() };
    let private = RegionId(3);
    registry.register(private, Region::on_heap(4096, Rights::ALL), Rights::NONE).unwrap();
    let mut node = Node::bind(options, registry).unwrap();
    let addresses = [
        format!("shm:{}", node.shm_path().unwrap().display()),
        format!("tcp://{}", node.tcp_address().unwrap()),
    ];
    let stopper = node.stopper();
    let mut door = Door(gate);
    let running = std::thread::spawn(move || node.run(&mut door));
    for address in &addresses {
        let connection = Connection::connect(address, ConnectOptions::default()).wait().unwrap();
        let enter = |pass: &Pass| {
            let mut reply = Vec::new();
            connection.call(0, &wire::encode_pass(pass), &mut reply).wait()
        };
        let open = |region: u32, rights| connection.open(RegionId(region), rights).wait();
        let refused = |region, rights| matches!(open(region, rights), Err(OpenError::NoRight { .. }));
        keeper.hear(vec![prepare(1, 3)], &secret(1).to_hex());
        let made = chunks_of(&keeper.done[0]);
        let [readable, writable, other] = made[..] else { panic!("three chunks") };

        assert!(refused(readable, Rights::READ), "without a pass");
        let mut forged = pass(&[readable], false);
        forged.write = true;
        assert!(matches!(enter(&forged), Err(CallError::Refused(why)) if why.contains("not made out")));
        for (member, life) in [(MemberId(8), LIFE), (MEMBER, Life(71))] {
            let elsewhere = secret(1).pass(member, life, SessionId(5), vec![readable], true);
            assert!(
                matches!(enter(&elsewhere), Err(CallError::Refused(why)) if why.contains("earlier life"))
            );
        }
        let strange = secret(2).pass(MEMBER, LIFE, SessionId(5), vec![readable], true);
        assert!(matches!(enter(&strange), Err(CallError::Refused(_))));
        assert!(matches!(connection.call(0, b"?", &mut Vec::new()).wait(), Err(CallError::Refused(_))));
        assert!(refused(readable, Rights::READ), "after passes that are none");

        enter(&pass(&[readable], false)).unwrap();
        enter(&pass(&[writable, private.0, FIRST_CHUNK_REGION + 10_000], true)).unwrap();
        let reading = open(readable, Rights::READ).unwrap();
        assert!(refused(readable, Rights::WRITE) && refused(other, Rights::READ));
        assert!(refused(private.0, Rights::READ), "a pass is for chunks");
        let writing = open(writable, Rights::ALL).unwrap();
        writing.write(0, b"mine").wait().unwrap();
        // Shown again, it ends nothing; more rights are added.
        enter(&pass(&[readable], true)).unwrap();
        reading.read(0, &mut [0]).wait().unwrap();
        open(readable, Rights::ALL).unwrap();

        let retire = Work::Retire { task: TaskId(2), regions: made.clone(), keep: true };
        keeper.hear(vec![retire], &secret(1).to_hex());
        assert!(writing.write(0, b"late").wait().is_err() && reading.read(0, &mut [0]).wait().is_err());
        enter(&pass(&made, true)).unwrap();
        assert!(matches!(open(writable, Rights::READ), Err(OpenError::NoSuchRegion(_))), "an old pass");
        let again = chunks_of(&keeper.done[0]);
        assert!(again.iter().all(|region| refused(*region, Rights::READ)), "an old pass opens a new chunk");
        keeper.hear(vec![Work::Clear { task: TaskId(3) }], &secret(1).to_hex());
    }
    stopper.stop();
    running.join().unwrap().unwrap();
}
