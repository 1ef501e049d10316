//! Asking the master: finding the member that is it, and asking again what may be asked twice.
//!
//! What always holds: a request that does something each time it is carried out is sent once; if its answer
//! is lost, whoever asked is told that it may have been done.

use super::session::Session;
use super::{Inner, SpaceError, lock};
use crate::message::{Refusal, Request, Response};
use crate::wire;
use barn_cluster::{Configuration, MemberId};
use barn_fabric::CallError;
use barn_layout::space::Method;
use std::sync::Arc;
use std::time::Duration;

/// The first wait between attempts, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Why a member gave no answer that is of use.
enum Unanswered {
    /// It is not the master, or cannot be reached: another may be.
    Elsewhere(String),
    /// The answer was lost.
    Lost(String),
}

impl Inner {
    /// Asks something that comes to the same end when it is done twice, until the deadline.
    pub(super) async fn ask_again(
        &self,
        session: &Arc<Session>,
        request: &Request,
    ) -> Result<Response, SpaceError> {
        self.ask(session, request, self.options.deadline, true).await
    }

    /// Asks something that is sent once at most.
    pub(super) async fn ask_once(
        &self,
        session: &Arc<Session>,
        request: &Request,
        limit: Duration,
    ) -> Result<Response, SpaceError> {
        self.ask(session, request, limit, false).await
    }

    async fn ask(
        &self,
        session: &Arc<Session>,
        request: &Request,
        limit: Duration,
        twice: bool,
    ) -> Result<Response, SpaceError> {
        let until = self.now() + limit;
        let body = wire::encode_request(request);
        let mut pause = PAUSE_MIN;
        let mut why = "the cluster has no members".to_string();
        loop {
            let mut refused = None;
            for member in self.candidates() {
                let left = until.saturating_sub(self.now());
                match self.ask_member(member, &body, left).await {
                    Ok(Response::Refused(Refusal::NotMaster)) => why = "no member coordinates".into(),
                    // The master, which has done nothing: it may have more to give in a moment.
                    Ok(Response::Refused(refusal @ Refusal::Unavailable { .. })) => {
                        refused = Some(refusal);
                        break;
                    }
                    Ok(Response::Refused(refusal)) => {
                        let error = SpaceError::refused(refusal);
                        if error == SpaceError::SessionLost {
                            session.lose();
                        }
                        return Err(error);
                    }
                    Ok(response) => {
                        *lock(&self.master) = Some(member);
                        return Ok(response);
                    }
                    Err(Unanswered::Elsewhere(said)) => why = said,
                    Err(Unanswered::Lost(_)) if !twice => return Err(SpaceError::Indeterminate),
                    Err(Unanswered::Lost(said)) => why = said,
                }
            }
            let now = self.now();
            if now >= until {
                return Err(refused.map_or(SpaceError::NoMaster { why }, SpaceError::Refused));
            }
            if refused.is_none() {
                *lock(&self.master) = None;
                self.refresh(until - now).await;
            }
            self.environment.schedule.sleep(pause.min(until - now)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The members, the one first that answered as master last.
    fn candidates(&self) -> Vec<MemberId> {
        let configuration = self.environment.directory.configuration();
        let mut members: Vec<MemberId> = configuration.members.iter().map(|member| member.id).collect();
        if let Some(master) = *lock(&self.master)
            && let Some(at) = members.iter().position(|member| *member == master)
        {
            members.swap(0, at);
        }
        members
    }

    async fn ask_member(
        &self,
        member: MemberId,
        body: &[u8],
        limit: Duration,
    ) -> Result<Response, Unanswered> {
        let lane =
            self.lane(member, 0, limit).await.map_err(|error| Unanswered::Elsewhere(error.to_string()))?;
        let mut reply = Vec::new();
        match lane.connection.call(Method::Master as u16, body, &mut reply).within(limit).await {
            Ok(()) => wire::decode_response(&reply).map_err(|error| Unanswered::Lost(error.to_string())),
            Err(error @ (CallError::PeerGone | CallError::Protocol)) => {
                self.links.forget(member, &lane);
                Err(Unanswered::Lost(error.to_string()))
            }
            Err(error) if error.outcome_is_unknown() => Err(Unanswered::Lost(error.to_string())),
            Err(error) => Err(Unanswered::Elsewhere(error.to_string())),
        }
    }

    /// Brings the directory up to date, from whoever answers.
    pub(super) async fn refresh(&self, limit: Duration) {
        let directory = &self.environment.directory;
        for member in self.candidates() {
            if let Ok(lane) = self.lane(member, 0, limit / 2).await
                && let Some(configuration) = self.configuration_from(&lane.connection).await
            {
                directory.install(configuration, self.now());
                return;
            }
        }
        // Nobody of those that we know: whoever is at the address that we were given.
        if let Some(connecting) = self.environment.connector.rediscover(limit / 2)
            && let Ok(connection) = connecting.await
            && let Some(configuration) = self.configuration_from(&connection).await
        {
            if directory.cluster() == configuration.cluster {
                directory.install(configuration, self.now());
            } else {
                directory.begin_anew(configuration, self.now());
            }
        }
    }

    async fn configuration_from(&self, connection: &barn_fabric::Connection) -> Option<Configuration> {
        let request = barn_cluster::Request::Get { known_version: 0 };
        match barn_cluster::ask(connection, self.environment.configuration_method, &request).await {
            Ok(barn_cluster::Response::Current { configuration, .. }) => configuration,
            _ => None,
        }
    }
}
