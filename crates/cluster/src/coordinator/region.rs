//! Giving a member a region.

use super::{Coordinator, No};
use crate::configuration::{REGIONS_MAX, RegionPlacement};
use crate::member::{Life, MemberId};
use crate::message::{Refusal, Response};
use crate::placement::{choose_region, place};
use barn_layout::RegionId;
use barn_layout::limits::REGION_BYTES_MAX;
use std::time::Duration;

impl Coordinator {
    pub(super) async fn add_region(
        &mut self,
        now: Duration,
        member: MemberId,
        life: Life,
        near: Option<RegionId>,
        bytes: u64,
    ) -> Result<Response, No> {
        self.check_member(member, life)?;
        let configuration = &self.configuration;
        if !(1..=REGION_BYTES_MAX).contains(&bytes) {
            let why = format!("a region of {bytes} bytes, and {REGION_BYTES_MAX} are the most");
            return Err(Refusal::BadRequest { why }.into());
        }
        if configuration.regions.len() >= REGIONS_MAX {
            return Err(Refusal::TooManyRegions { most: REGIONS_MAX as u64 }.into());
        }
        let members: Vec<MemberId> = configuration.members.iter().map(|member| member.id).collect();
        let taken = |region: RegionId| configuration.region(region).is_some();
        let chosen = choose_region(member, near, &members, configuration.rings, &taken, &mut self.random);
        let Some(region) = chosen else { return Err(Refusal::NoPlace { member }.into()) };
        let placement = place(region, &members, configuration.rings, configuration.replicas);
        let Some(placement) = placement.filter(|placement| placement.primary == member) else {
            return Err(Refusal::NoPlace { member }.into());
        };
        let placed = RegionPlacement { region, primary: member, replicas: placement.replicas, bytes };
        let recorded = placed.clone();
        self.establish(now, |next| {
            let at = next.regions.partition_point(|placed| placed.region < region);
            next.regions.insert(at, recorded);
        })
        .await?;
        Ok(Response::RegionAdded { placed, configuration: self.configuration.clone() })
    }
}
