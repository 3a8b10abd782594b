//! Whether the blocks of waiting commits have arrived, and what is not waited for any longer.
//!
//! Place: ... chunk durable -> [commit location -> stripe healthy].
//! A finalized block is reported to the NameNode at once, and again with each report of its
//! DataNode. One that it does not have within a minute it will not have, whatever became of it: its
//! disk has failed, the NameNode takes it for corrupt or has removed it as one too many. Then the
//! commit is refused, and its block is planned anew; a claim for it on the same node is refused
//! once, so that another one is tried where there is one.

use std::time::Instant;

use suture_repair::event::{Claim, Commit, Input, NodeState};
use suture_repair::id::{Generation, NodeId};
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::stripe::Stripe;

use super::HdfsKeeper;
use crate::hdfs::group::Group;
use crate::hdfs::namenode::{ConfirmAnswer, NameNode, Question, ask};

/// A commit whose block has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AwaitedBlock {
    pub commit: Commit,
    /// Since when the NameNode answers that it does not have the block.
    pub denied: Option<Instant>,
}

impl AwaitedBlock {
    /// A block about which the NameNode was not asked yet.
    pub fn of(commit: &Commit) -> AwaitedBlock {
        AwaitedBlock { commit: *commit, denied: None }
    }
}

impl<N: NameNode> HdfsKeeper<N> {
    /// Asks whether the blocks of waiting commits have arrived.
    pub(super) fn confirm(&mut self) -> Result<(), KeeperError> {
        let waiting: Vec<Commit> = self.awaited.values().map(|block| block.commit).collect();
        for commit in waiting {
            let Some(known) = self.groups.get(&commit.copy.stripe) else {
                self.answer(&commit, false);
                continue;
            };
            let id = known.group.group;
            let question = Question::Confirm {
                group: id,
                stamp: known.group.stamp,
                index: commit.copy.chunk.0,
                node: self.uuid(commit.node).unwrap_or_default().to_owned(),
            };
            let answer: ConfirmAnswer = ask(&mut self.namenode, &question)?;
            match answer.group {
                None => {
                    self.forget(commit.copy.stripe);
                    self.answer(&commit, false);
                }
                Some(group) if answer.live && group.group == id => self.arrived(&commit, group),
                Some(group) => self.not_arrived(&commit, group),
            }
        }
        Ok(())
    }

    fn arrived(&mut self, commit: &Commit, group: Group) {
        let Some(known) = self.groups.get_mut(&commit.copy.stripe) else { return };
        known.group = group;
        if known.stripe.as_ref().is_some_and(|stripe| !can_be(stripe, commit)) {
            return self.refuse(commit);
        }
        known.rebuilt.insert(commit.copy.chunk, (commit.node, commit.copy.stamp));
        let Some(stripe) = &mut known.stripe else { return };
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation = Generation(stripe.generation.0 + 1);
        self.answer(commit, true);
        self.claims.committed(commit.copy);
        // The claim may be of the repair in whose place this one went on.
        let is_its = |claim: &Claim| {
            let keeps = claim.destinations.get(&commit.copy.chunk);
            claim.stripe == commit.copy.stripe && keeps == Some(&commit.node)
        };
        if let Some(building) = self.building.values_mut().find(|of| is_its(&of.claim)) {
            let claimed = building.claim.repair;
            building.claim.destinations.remove(&commit.copy.chunk);
            if building.claim.destinations.is_empty() {
                // Another one may ask for what is left, and the NameNode forgets what arrived.
                let _ = self.release(claimed);
            }
        }
    }

    /// The NameNode does not have the block; its DataNode's report may still be on its way.
    fn not_arrived(&mut self, commit: &Commit, group: Group) {
        let (stripe, node, chunk) = (commit.copy.stripe, commit.node, commit.copy.chunk);
        let is_meant = self.groups.get(&stripe).is_some_and(|of| of.group.group == group.group);
        let uuid = self.uuid(node).unwrap_or_default();
        let is_elsewhere = is_meant && group.is_elsewhere(chunk.0, uuid);
        let Some(block) = self.awaited.get_mut(&commit.repair) else { return };
        let denied = *block.denied.get_or_insert_with(Instant::now);
        let is_late = denied.elapsed() >= self.confirm_within;
        if !is_late && !is_elsewhere && !self.is_dead(node) {
            return;
        }
        if is_late {
            let (copy, group) = (commit.copy, group.group);
            tracing::warn!(%copy, group, "HDFS has not heard of a committed block: it is built again");
            self.unconfirmed.insert((stripe, node));
        }
        if is_meant {
            self.know(group);
        }
        self.refuse(commit);
    }

    fn is_dead(&self, node: NodeId) -> bool {
        self.nodes.values().any(|known| known.id == node && known.state == NodeState::Dead)
    }

    /// Refuses a commit that cannot succeed any more. A refusal at the commit's own generation
    /// passes for one of a commit before: so the stripe gets a later one.
    pub(super) fn refuse(&mut self, commit: &Commit) {
        let known = self.groups.get_mut(&commit.copy.stripe);
        let stripe = known.and_then(|known| known.stripe.as_mut());
        if let Some(stripe) = stripe.filter(|stripe| stripe.generation == commit.generation) {
            stripe.generation = Generation(commit.generation.0 + 1);
        }
        self.answer(commit, false);
    }

    pub(super) fn answer(&mut self, commit: &Commit, is_done: bool) {
        self.awaited.remove(&commit.repair);
        let (repair, stripe) = (commit.repair, self.stripe(commit.copy.stripe).cloned());
        self.changes.push(match stripe {
            Some(stripe) if is_done => Input::Committed { repair, stripe },
            stripe => Input::CommitRefused { repair, stripe },
        });
    }
}

/// Whether the chunk of a commit can lie there: it exists, and no other of its stripe does.
pub(super) fn can_be(stripe: &Stripe, commit: &Commit) -> bool {
    let chunk = commit.copy.chunk;
    let record = stripe.chunks.get(usize::from(chunk.0));
    let is_free = stripe.chunk_on(commit.node).is_none_or(|other| other == chunk);
    is_free && record.is_some_and(|record| !record.is_known_zero())
}
