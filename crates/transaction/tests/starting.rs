//! A client that knew its cluster before anybody in it took objects.

use barn_cluster::{Configuration, Directory, Life, Member, MemberId, RegionPlacement};
use barn_fabric::seam::{SystemClock, Threads};
use barn_fabric::{ConnectError, Connection, RegionId, block_on};
use barn_transaction::{Boxed, Client, ClientError, ClientOptions, Connector, Environment};
use std::sync::Arc;
use std::time::Duration;

/// A cluster whose first member takes objects by the time that somebody looks for it again. No
/// member can be reached: which one is tried is what counts.
struct Starting(Arc<Directory>);

impl Connector for Starting {
    fn connect<'a>(&'a self, _: &'a Member, _: Duration) -> Boxed<'a, Result<Connection, ConnectError>> {
        Box::pin(async { Err(ConnectError::Deadline) })
    }

    fn rediscover<'a>(&'a self, _: Duration) -> Option<Boxed<'a, Result<Connection, ConnectError>>> {
        let member = Member {
            id: MemberId(7),
            life: Life(1),
            addresses: vec!["simulated:node".into()],
            host: "host".into(),
            memory_bytes: 1 << 20,
        };
        let region = RegionPlacement {
            region: RegionId(1),
            primary: MemberId(7),
            replicas: Vec::new(),
            bytes: 1 << 20,
        };
        let configuration = Configuration {
            version: 1,
            members: vec![member],
            regions: vec![region],
            next_member: 8,
            rings: 1,
            ..Configuration::default()
        };
        self.0.install(configuration, Duration::ZERO);
        Some(Box::pin(async { Err(ConnectError::Deadline) }))
    }
}

#[test]
fn who_knew_nobody_that_takes_objects_asks_again() {
    let directory = Arc::new(Directory::new());
    let environment = Environment {
        clock: Arc::new(SystemClock::default()),
        schedule: Arc::new(Threads),
        connector: Arc::new(Starting(directory.clone())),
        configuration_method: 1,
        seed: 1,
    };
    let client = Client::new(environment, directory, ClientOptions::default());
    let made = block_on(client.begin().alloc(&[0; 8], None));
    assert!(
        matches!(made, Err(ClientError::Unreachable { member: MemberId(7), .. })),
        "member 7 takes objects by now: {made:?}"
    );
}
