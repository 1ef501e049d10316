//! A cluster, looked at: what every node says of itself, and what happened between two looks.
//!
//! What always holds: a node that cannot be reached is said so and disturbs nothing else; rates are
//! by the nodes' own clocks, and a node that was started anew has none until the next look.

mod report;
#[cfg(test)]
pub(crate) mod tests;

pub use report::{NodeRow, Rates, Report, ShardRow, TableRow};

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use barn_fabric::{ConnectOptions, Connection};
use barn_server::{MemberStatus, Method, Status};

use crate::failure::Failure;
use crate::report::Spread;

/// Round trips that are timed in a look: enough for a median that one hiccup does not move.
const ROUND_TRIPS: usize = 15;

/// A cluster that is looked at again and again.
#[derive(Debug)]
pub struct Watch {
    address: String,
    options: ConnectOptions,
    first: Option<Connection>,
    others: BTreeMap<u32, Connection>,
}

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// The node that was asked first.
    pub first: u32,
    /// Every member, by number.
    pub nodes: Vec<Seen>,
}

/// A node, as it was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number.
    pub member: u32,
    /// Where it is.
    pub addresses: Vec<String>,
    /// What it says, or why it says nothing.
    pub status: Result<Status, String>,
    /// How long a question takes, in nanoseconds.
    pub round_trip_ns: Option<f64>,
}

impl Watch {
    /// Of the cluster of the node at an address.
    pub fn new(address: String, options: ConnectOptions) -> Self {
        Self { address, options, first: None, others: BTreeMap::new() }
    }

    /// The node that is asked first.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Looks at every node; an error if the first cannot be reached.
    pub fn look(&mut self) -> io::Result<Look> {
        let connection = match self.first.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => {
                Connection::connect(&self.address, self.options.clone()).wait().map_err(io::Error::other)?
            }
        };
        let status = ask(&connection).map_err(Failure::plain)?;
        let mut nodes = Vec::with_capacity(status.members.len());
        self.others.retain(|member, _| status.members.iter().any(|known| known.id == *member));
        for member in &status.members {
            nodes.push(match member.id == status.member {
                true => seen(member, Ok((status.clone(), round_trip(&connection)))),
                false => seen(member, self.other(member)),
            });
        }
        if !nodes.iter().any(|node| node.member == status.member) {
            // A node that has lost its place still says what it is.
            let own = MemberStatus { id: status.member, ..MemberStatus::default() };
            nodes.push(seen(&own, Ok((status.clone(), round_trip(&connection)))));
        }
        self.first = Some(connection);
        Ok(Look { first: status.member, nodes })
    }

    /// Asks another member than the first.
    fn other(&mut self, member: &MemberStatus) -> Result<(Status, Option<f64>), String> {
        if let Some(connection) = self.others.get(&member.id).filter(|connection| connection.is_open())
            && let Ok(status) = ask(connection)
        {
            return Ok((status, round_trip(connection)));
        }
        self.others.remove(&member.id);
        let mut why = "it has no address that this host can reach".to_string();
        // The socket of a node of another host is not here, or is somebody else's: the answer tells.
        for address in &member.addresses {
            let connected = Connection::connect(address, self.options.clone()).wait();
            let asked = connected
                .map_err(|error| error.to_string())
                .and_then(|connection| Ok((ask(&connection)?, connection)));
            match asked {
                Ok((status, connection)) if status.member == member.id => {
                    let round_trip = round_trip(&connection);
                    self.others.insert(member.id, connection);
                    return Ok((status, round_trip));
                }
                Ok(_) => why = format!("another node answers at {address}"),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

fn seen(member: &MemberStatus, said: Result<(Status, Option<f64>), String>) -> Seen {
    let (status, round_trip_ns) = match said {
        Ok((status, round_trip)) => (Ok(status), round_trip),
        Err(why) => (Err(why), None),
    };
    Seen { member: member.id, addresses: member.addresses.clone(), status, round_trip_ns }
}

fn ask(connection: &Connection) -> Result<Status, String> {
    let mut reply = Vec::new();
    connection.call(Method::Status as u16, &[], &mut reply).wait().map_err(|error| error.to_string())?;
    serde_json::from_slice(&reply).map_err(|error| format!("it answers in another form: {error}"))
}

/// The median of a few round trips.
fn round_trip(connection: &Connection) -> Option<f64> {
    let mut reply = Vec::new();
    let mut samples = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        connection.call(Method::Ping as u16, &[], &mut reply).wait().ok()?;
        samples.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Some(Spread::of(&samples).median)
}
