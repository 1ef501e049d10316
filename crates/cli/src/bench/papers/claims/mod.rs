//! Every claim, beside the paper's value and the rule by which ours is judged: one file for each paper.
//!
//! Names of values are those that `studies` measures. Ratios are of rates, so that more is better, unless
//! the claim says that it is about times.

use super::claim::{Claim, Paper};

mod cell;
mod farm;
mod herd;
mod pilaf;
mod rstore;

/// What a READ is where client and node share a host; why most ratios of networks cannot be had here.
const READ_IS_A_LOAD: &str = "over shm a READ is a load: nobody's network card is the limit";
/// Why a claim about tcp may fail.
const AGENT_IS_A_CPU: &str =
    "over tcp an agent thread plays the network card: a READ costs the node's CPU as much as a request does";

/// Those of one paper, or all of them.
pub(super) fn of(paper: Option<Paper>) -> impl Iterator<Item = &'static Claim> {
    [pilaf::CLAIMS, farm::CLAIMS, herd::CLAIMS, rstore::CLAIMS, cell::CLAIMS]
        .into_iter()
        .flatten()
        .filter(move |claim| paper.is_none_or(|paper| paper == claim.paper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::papers::claim::{Kind, Ours, Rule};

    #[test]
    fn no_two_claims_have_one_name_and_every_paper_has_some() {
        let mut names: Vec<String> = of(None).map(Claim::row_name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for paper in [Paper::Pilaf, Paper::Farm, Paper::Herd, Paper::Rstore, Paper::Cell] {
            assert!(of(Some(paper)).count() >= 5, "{paper}");
        }
    }

    #[test]
    fn every_claim_has_a_rule_unless_it_is_about_what_is_missing() {
        for claim in of(None) {
            let missing = matches!(claim.ours, Ours::NotBuilt(_));
            assert_eq!(missing, claim.kind == Kind::NotBuilt, "{}", claim.name);
            assert_eq!(missing, claim.rule == Rule::None, "{}", claim.name);
            assert!(missing || claim.rule.makes_sense(), "{}", claim.name);
            assert!(missing || !claim.otherwise.is_empty(), "{}", claim.name);
        }
    }

    #[test]
    fn the_papers_own_value_keeps_the_rule() {
        use crate::report::Spread;
        for claim in of(None).filter(|claim| claim.rule != Rule::None) {
            let same = Spread { median: claim.value, low: claim.value, high: claim.value };
            let verdict = claim.judge(same).to_string();
            assert_eq!(verdict, "holds", "{}", claim.row_name());
        }
    }
}
