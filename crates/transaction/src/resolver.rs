//! The resolver: a task beside every node that ends what lost clients have left.
//!
//! It is a client of its own node and, where a transaction touched others, of those: it asks each
//! how far the transaction has come, which freezes it there, and then all of them follow one rule,
//! [`is_carried_out`].
//!
//! A node that cannot be asked holds the others up until the cluster has done without it for a
//! whole lease; then it is left out. That is sound because a client is told only when *all* nodes
//! have decided, so that any survivor knows. Several resolvers may be at the same transaction: what
//! a node answers does not change once it is frozen, so they come to the same end.

use crate::client::{Boxed, Environment};
use crate::rule::is_carried_out;
use crate::wire::{Malformed, Method, split, split_many, whole};
use barn_cluster::{Directory, Member, MemberId};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{CallError, Connection};
use barn_layout::transaction::{
    Hello, Known, Orphan, ParticipantEntry, Renew, State, Step, StepKind, TransactionId, Verdict, Vote,
    Welcome,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// How a resolver is made.
pub struct ResolverOptions {
    /// The node that it belongs to.
    pub member: MemberId,
    /// Who is where.
    pub directory: Arc<Directory>,
    /// The lease of sessions: the resolver looks four times as often.
    pub lease: Duration,
    /// What it stands on; its connector must reach the node itself, too.
    pub environment: Environment,
}

/// Looks after the transactions of one node.
pub struct Resolver {
    options: ResolverOptions,
    connections: BTreeMap<MemberId, Connection>,
    sessions: BTreeMap<MemberId, u64>,
    /// Who did not answer in this round: one is waited for once, however many transactions it holds up.
    unheard: BTreeSet<MemberId>,
    random: Seeded,
    resolved: u64,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("member", &self.options.member)
            .field("resolved", &self.resolved)
            .finish()
    }
}

/// A transaction that somebody has to end.
struct Lost {
    id: TransactionId,
    participants: Vec<MemberId>,
}

impl Resolver {
    /// A resolver that has yet to be run.
    pub fn new(options: ResolverOptions) -> Self {
        let random = Seeded::new(options.environment.seed ^ 0x7265_736f_6c76_6572);
        let (connections, sessions, unheard) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { options, connections, sessions, unheard, random, resolved: 0 }
    }

    /// Runs until `stopped` says so.
    pub async fn run(mut self, stopped: impl Fn() -> bool + Send) {
        let interval = self.options.lease / 4;
        while !stopped() {
            self.round().await;
            self.options.environment.schedule.sleep(interval).await;
        }
    }

    /// One look, and what has to be done about it.
    pub async fn round(&mut self) {
        let member = self.options.member;
        self.unheard.clear();
        let Some(answer) = self.ask(member, Method::Orphans, &[]).await else { return };
        let Ok(lost) = parse(&answer) else { return };
        for lost in lost {
            self.resolve(&lost).await;
        }
        self.renew().await;
    }

    /// Ends one transaction, if everybody who has to be asked can be.
    async fn resolve(&mut self, lost: &Lost) -> Option<()> {
        let (mut asked, mut states) = (Vec::new(), Vec::new());
        for member in &lost.participants {
            let now = self.options.environment.clock.now();
            if self.options.directory.settled(*member, now) {
                continue;
            }
            let answer = self.ask(*member, Method::Freeze, lost.id.as_bytes()).await?;
            let known: &Known = whole(&answer).ok()?;
            states.push(State::from_bits(known.state.get())?);
            asked.push(*member);
        }
        if is_carried_out(states) {
            // Everybody knows before anybody shows.
            for member in &asked {
                self.step(*member, lost.id, StepKind::Decide).await?;
            }
            for member in &asked {
                self.step(*member, lost.id, StepKind::Apply).await?;
            }
        } else {
            for member in &asked {
                self.step(*member, lost.id, StepKind::Abort).await?;
            }
        }
        self.resolved += 1;
        Some(())
    }

    async fn step(&mut self, member: MemberId, id: TransactionId, kind: StepKind) -> Option<()> {
        let step = Step { transaction: id, kind: (kind as u32).into(), reserved: 0.into() };
        let answer = self.ask(member, Method::Step, step.as_bytes()).await?;
        let vote: &Vote = whole(&answer).ok()?;
        (vote.verdict.get() == Verdict::Yes as u32).then_some(())
    }

    /// Asks a node; `None` if it cannot be asked now.
    async fn ask(&mut self, member: MemberId, method: Method, request: &[u8]) -> Option<Vec<u8>> {
        if self.unheard.contains(&member) {
            return None;
        }
        let Some(connection) = self.connection(member).await else {
            self.unheard.insert(member);
            return None;
        };
        let mut reply = Vec::new();
        match connection.call(method as u16, request, &mut reply).await {
            Ok(()) => Some(reply),
            Err(CallError::Refused(_)) => None,
            Err(_) => {
                self.connections.remove(&member);
                self.unheard.insert(member);
                None
            }
        }
    }

    async fn connection(&mut self, member: MemberId) -> Option<Connection> {
        if let Some(known) = self.connections.get(&member).filter(|known| known.is_open()) {
            return Some(known.clone());
        }
        let configuration = self.options.directory.configuration();
        let known: &Member = configuration.member(member)?;
        let lease = self.options.lease;
        let connecting: Boxed<'_, _> = self.options.environment.connector.connect(known, lease);
        let connection = connecting.await.ok()?.with_deadline(self.options.lease);
        let hello = Hello { session: self.random.next().into(), role: 1.into(), reserved: 0.into() };
        let mut reply = Vec::new();
        connection.call(Method::Hello as u16, hello.as_bytes(), &mut reply).await.ok()?;
        // Another node may have been started at its address: what that one knows says nothing.
        let welcome: &Welcome = whole(&reply).ok()?;
        let expected = (configuration.cluster, member.0);
        if (welcome.cluster.get(), welcome.member.get()) != expected {
            return None;
        }
        self.sessions.insert(member, hello.session.get());
        self.connections.insert(member, connection.clone());
        Some(connection)
    }

    /// Keeps the resolver's own sessions; it reads nothing, so it is in no epoch.
    async fn renew(&mut self) {
        let members: Vec<(MemberId, u64)> = self.sessions.iter().map(|(member, id)| (*member, *id)).collect();
        for (member, session) in members {
            if !self.connections.contains_key(&member) {
                continue;
            }
            let renew = Renew { session: session.into(), epoch: u64::MAX.into() };
            if self.ask(member, Method::Renew, renew.as_bytes()).await.is_none() {
                self.connections.remove(&member);
            }
        }
    }
}

/// Takes a list of lost transactions apart.
fn parse(mut bytes: &[u8]) -> Result<Vec<Lost>, Malformed> {
    let mut lost = Vec::new();
    while !bytes.is_empty() {
        let (orphan, rest) = split::<Orphan>(bytes)?;
        let (participants, rest) = split_many::<ParticipantEntry>(rest, orphan.participants.get() as usize)?;
        let participants = participants.iter().map(|entry| MemberId(entry.member.get())).collect();
        lost.push(Lost { id: orphan.transaction, participants });
        bytes = rest;
    }
    Ok(lost)
}
