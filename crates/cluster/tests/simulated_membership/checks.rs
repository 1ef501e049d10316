//! What must be so, seen from outside.

use super::cast::{Actor, Stage, Watcher, is_over};
use barn_cluster::{Configuration, Directory, MemberId, MembershipState};
use barn_fabric::seam::Clock;
use barn_fabric::simulated::Handle;
use barn_layout::RegionId;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// What an observer outside the world has seen.
pub(crate) struct Seen {
    world: Handle,
    pub(crate) actors: Vec<Actor>,
    pub(crate) watchers: Vec<Watcher>,
    /// Which member each member's node was last.
    pub(crate) places: Vec<Rc<Cell<Option<MemberId>>>>,
    /// Every configuration that was established.
    history: BTreeMap<u64, Configuration>,
    /// The newest version that each directory had.
    versions: BTreeMap<usize, u64>,
    pub(crate) lives: u64,
    pub(crate) expulsions: u64,
    pub(crate) returns: u64,
    pub(crate) settled: u64,
    pub(crate) failure: Option<String>,
}

impl Seen {
    pub(crate) fn new(world: Handle) -> Self {
        Self {
            world,
            actors: Vec::new(),
            watchers: Vec::new(),
            places: Vec::new(),
            history: BTreeMap::new(),
            versions: BTreeMap::new(),
            lives: 0,
            expulsions: 0,
            returns: 0,
            settled: 0,
            failure: None,
        }
    }

    pub(crate) fn fail(&mut self, why: impl FnOnce() -> String) {
        if self.failure.is_none() {
            self.failure = Some(format!("at {:?}: {}", self.world.now(), why()));
        }
    }

    /// The coordinator has this configuration now.
    pub(crate) fn established(&mut self, configuration: &Configuration) {
        let newest = self.history.last_key_value().map(|(_, newest)| newest.clone());
        match newest {
            Some(newest) if newest.version > configuration.version => {
                return self.fail(|| {
                    format!("the coordinator went back from {} to {}", newest.version, configuration.version)
                });
            }
            Some(newest) if newest.version == configuration.version => {
                if newest != *configuration {
                    self.fail(|| format!("two configurations are number {}", newest.version));
                }
                return;
            }
            Some(newest) => {
                let back =
                    |departed: &&barn_cluster::Departed| configuration.member(departed.member).is_some();
                self.returns += newest.departed.iter().filter(back).count() as u64;
            }
            None => {}
        }
        for departed in &configuration.departed {
            if departed.at_version == configuration.version {
                self.expulsions += 1;
                self.expelled_are_fenced(departed.member);
            }
        }
        self.history.insert(configuration.version, configuration.clone());
    }

    /// Nobody that was just expelled may count on its lease.
    fn expelled_are_fenced(&mut self, member: MemberId) {
        let counting = self.alive().find(|actor| {
            actor.membership.member() == Some(member) && !actor.membership.is_fenced(actor.clock.now())
        });
        let counting = counting.map(|actor| format!("{:?} on {:?}", actor.membership, actor.node));
        if let Some(counting) = counting {
            self.fail(|| format!("{member} was expelled while {counting} counted on its lease"));
        }
    }

    /// The processes that have not died, and are not over.
    fn alive(&self) -> impl Iterator<Item = &Actor> {
        let lives = |actor: &&Actor| self.world.life(actor.node) == (true, actor.incarnation);
        self.actors.iter().filter(lives).filter(|actor| !is_over(&actor.membership))
    }

    fn check_versions(&mut self) -> Result<(), String> {
        let directories: Vec<Arc<Directory>> =
            (self.watchers.iter().map(|watcher| watcher.directory.clone()))
                .chain(self.actors.iter().map(|actor| actor.membership.directory().clone()))
                .collect();
        for directory in directories {
            let configuration = directory.configuration();
            // An address in memory names a directory; nothing follows from its value.
            let last = self.versions.entry(Arc::as_ptr(&directory) as usize).or_default();
            if configuration.version < *last {
                return Err(format!("a directory went back from {last} to {}", configuration.version));
            }
            if configuration.version == 0 || configuration.version == *last {
                continue;
            }
            *last = configuration.version;
            if self.history.get(&configuration.version) != Some(&*configuration) {
                return Err(format!("a directory has a configuration {} of its own", configuration.version));
            }
        }
        Ok(())
    }

    fn check_leases(&self) -> Result<u64, String> {
        let counting: Vec<&Actor> =
            self.alive().filter(|actor| !actor.membership.is_fenced(actor.clock.now())).collect();
        let mut primaries: BTreeMap<RegionId, &Actor> = BTreeMap::new();
        for actor in &counting {
            let (membership, configuration) =
                (&actor.membership, actor.membership.directory().configuration());
            let Some(member) = membership.member() else {
                return Err(format!("{membership:?} counts on a lease and is no member"));
            };
            if configuration.member(member).is_none_or(|known| known.life != membership.life()) {
                return Err(format!("{membership:?} counts on a lease, and its directory knows it is gone"));
            }
            for placed in configuration.regions_of(member) {
                if let Some(other) = primaries.insert(placed.region, actor) {
                    let other = &other.membership;
                    return Err(format!("both {membership:?} and {other:?} hold {}", placed.region));
                }
            }
        }
        let views = (self.watchers.iter().map(|watcher| (&watcher.directory, watcher.clock.now())))
            .chain(self.alive().map(|actor| (actor.membership.directory(), actor.clock.now())));
        let mut settled = 0;
        for (directory, now) in views {
            for departed in &directory.configuration().departed {
                if directory.settled(departed.member, now) {
                    settled += 1;
                    self.check_settled(&counting, departed)?;
                }
            }
        }
        Ok(settled)
    }

    /// Whoever counts on a lease knows of a departure that somebody counts as settled.
    fn check_settled(&self, counting: &[&Actor], departed: &barn_cluster::Departed) -> Result<(), String> {
        let unaware = |actor: &&&Actor| actor.membership.directory().version() < departed.at_version;
        match counting.iter().find(unaware) {
            Some(actor) => Err(format!(
                "{} is settled as gone since {}, which {:?} does not know",
                departed.member, departed.at_version, actor.membership
            )),
            None => Ok(()),
        }
    }
}

impl Stage {
    /// Checks all that must be so at any time.
    pub(crate) fn check(&self) {
        let mut seen = self.seen.borrow_mut();
        if let Err(why) = seen.check_versions() {
            seen.fail(|| why);
        }
        match seen.check_leases() {
            Ok(settled) => seen.settled += settled,
            Err(why) => seen.fail(|| why),
        }
    }

    /// All is calm: everybody is a member, holds a lease, and knows the same.
    pub(crate) fn check_agreement(&self) {
        if let Some(problems) = self.disagreement() {
            self.seen.borrow_mut().fail(|| format!("in the end: {problems:?}"));
        }
    }

    /// What keeps everybody from agreeing.
    pub(crate) fn disagreement(&self) -> Option<Vec<String>> {
        let seen = self.seen.borrow();
        let newest = seen.history.last_key_value().map(|(_, newest)| newest.clone()).unwrap_or_default();
        let mut problems = Vec::new();
        let mut members = 0;
        for actor in seen.alive() {
            let fenced = actor.membership.is_fenced(actor.clock.now());
            if !matches!(actor.membership.state(), MembershipState::Member(_)) || fenced {
                problems.push(format!("{:?} is fenced: {:?}", actor.membership, actor.membership.trouble()));
            }
            if actor.membership.directory().version() != newest.version {
                problems.push(format!("{:?} does not know {}", actor.membership, newest.version));
            }
            members += 1;
        }
        if (members, newest.members.len()) != (super::MEMBERS, super::MEMBERS as usize) {
            problems.push(format!("{members} live and {} are members", newest.members.len()));
        }
        for watcher in &seen.watchers {
            if watcher.directory.version() != newest.version {
                problems.push(format!("a client knows only {}", watcher.directory.version()));
            }
        }
        (!problems.is_empty()).then_some(problems)
    }
}
