//! What the NameNode is asked about claims, many at a time, and what follows from its answers.
//!
//! Place: ... plan -> [claim] -> dispatch -> ...
//! A claim that was granted is asked again to prolong it, and after the NameNode has changed. Where
//! that is refused the repair goes on without: HDFS may build the same block (a commit needs no
//! claim). What the NameNode may still have of such a claim is released, or it would keep the next
//! repair of the group off for minutes.
//!
//! A refusal that ends with the UUID of a DataNode is about that node (`docs/hdfs-protocol.md`).

use std::mem;

use suture_repair::event::{Claim, Input, RefusedNode};
use suture_repair::id::{ChunkIndex, NodeId, RepairId};
use suture_repair::keeper::KeeperError;
use suture_repair::label::Label;

use super::{BlockLabel, ClaimStanding, HdfsKeeper};
use crate::hdfs::group::group_id;
use crate::hdfs::namenode::{
    CLAIMS_MAX, ClaimAnswer, ClaimedBlock, ClaimsAnswer, DoneAnswer, GroupClaim, NameNode,
    Question, ask,
};

impl<N: NameNode> HdfsKeeper<N> {
    /// Asks for all claims that wait. Those behind one that fails wait for the next time.
    pub(super) fn ask_claims(&mut self) -> Result<(), KeeperError> {
        loop {
            let batch = self.next_claims();
            if batch.is_empty() {
                break;
            }
            let claims = batch.iter().map(|claim| self.question(claim)).collect();
            let ClaimsAnswer { claims } = ask(&mut self.namenode, &Question::Claim { claims })?;
            let answers = batch.into_iter().zip(claims);
            answers.for_each(|(claim, answer)| self.claim_answered(&claim, answer));
        }
        for repair in mem::take(&mut self.releasing) {
            self.ask_release(repair)?;
        }
        Ok(())
    }

    /// Takes as many claims as go into one question, of repairs that have not ended.
    fn next_claims(&mut self) -> Vec<Claim> {
        let mut batch = Vec::new();
        while batch.len() < CLAIMS_MAX
            && let Some((repair, claim)) = self.asking.pop_first()
        {
            if self.building.contains_key(&repair) {
                batch.push(claim);
            }
        }
        batch
    }

    /// Has the NameNode forget the claim of a repair, if it has one.
    pub(super) fn ask_release(&mut self, repair: RepairId) -> Result<(), KeeperError> {
        ask(&mut self.namenode, &Question::Release { repair: repair.0 }).map(|DoneAnswer {}| ())
    }

    fn question(&self, claim: &Claim) -> GroupClaim {
        let stamp = self.groups.get(&claim.stripe).map_or(0, |known| known.group.stamp);
        let target = |(chunk, node): (&ChunkIndex, &NodeId)| {
            let node = self.uuid(*node).unwrap_or_default().to_owned();
            ClaimedBlock { index: chunk.0, node }
        };
        let targets = claim.destinations.iter().map(target).collect();
        GroupClaim { repair: claim.repair.0, group: group_id(claim.stripe), stamp, targets }
    }

    fn claim_answered(&mut self, claim: &Claim, answer: ClaimAnswer) {
        let repair = claim.repair;
        let Some(building) = self.building.get_mut(&repair) else { return };
        let Some(why) = answer.why else {
            building.standing = ClaimStanding::Granted;
            self.refusals.remove(&claim.stripe);
            let stamp = self.groups.get(&claim.stripe).map_or(0, |known| known.group.stamp);
            let pool = self.namenode.pool();
            let label = BlockLabel { pool, stamp, targets: answer.targets };
            let label = serde_json::to_vec(&label).ok().and_then(|bytes| Label::new(&bytes));
            let label = label.unwrap_or_default();
            return self.changes.push(Input::Claimed { repair, label });
        };
        let before = building.standing;
        if before != ClaimStanding::Lost {
            tracing::warn!(%repair, why, "HDFS refuses a claim");
        }
        match before {
            ClaimStanding::Asked => {
                self.claims.release(repair);
                self.building.remove(&repair);
            }
            ClaimStanding::Granted => {
                building.standing = ClaimStanding::Lost;
                self.releasing.push(repair);
            }
            ClaimStanding::Lost => {}
        }
        match answer.group {
            Some(group) => self.know(group),
            None => self.forget(claim.stripe),
        }
        match before {
            ClaimStanding::Asked => self.refuse_claim(claim, why),
            ClaimStanding::Granted => self.changes.push(Input::ClaimLost(repair)),
            ClaimStanding::Lost => {}
        }
    }

    /// Answers a claim by a refusal, and remembers why; because of a node, where the reason says
    /// which.
    pub(super) fn refuse_claim(&mut self, claim: &Claim, why: String) {
        let is_named = |node: &&NodeId| {
            let uuid = self.uuid(**node).filter(|uuid| !uuid.is_empty());
            uuid.is_some_and(|uuid| why.strip_suffix(uuid).is_some_and(|rest| rest.ends_with(' ')))
        };
        let node = claim.destinations.values().find(is_named).copied();
        let named = |node| RefusedNode { node, why: format!("the NameNode says: {why}") };
        let (repair, because_of) = (claim.repair, node.map(named));
        let stripe = self.stripe(claim.stripe).cloned();
        if stripe.is_some() {
            self.refusals.insert(claim.stripe, why);
        }
        self.changes.push(Input::ClaimRefused { repair, stripe, because_of });
    }
}
