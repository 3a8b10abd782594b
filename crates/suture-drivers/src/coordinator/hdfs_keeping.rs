//! What a coordinator of HDFS has besides: the thread that asks the NameNode, and the lines of what
//! was rebuilt.
//!
//! Place: [stripes affected] ... [claim] ... [commit location -> stripe healthy], where a NameNode
//! keeps the stripes.

use std::time::Instant;

use suture_repair::event::{Commit, Health, Input, Output, Report};
use suture_repair::id::{NodeId, RepairId, StripeId};
use suture_repair::message::ToAgent;

use super::CoordinatorDriver;
use crate::attempt::RebuiltChunk;
use crate::hdfs::lease::Condition;
use crate::hdfs::link::Link;
use crate::hdfs::rebuilt::RebuiltLog;
use crate::hdfs::view::HdfsSeen;

/// What a coordinator of HDFS has besides.
pub(super) struct HdfsKeeping {
    link: Link,
    log: RebuiltLog,
    /// What waits for a claim that was lost.
    held: Vec<HeldPublish>,
}

/// A block that is proven, and that its destination is to publish.
#[derive(Clone, Copy, Debug)]
struct HeldPublish {
    repair: RepairId,
    node: NodeId,
}

impl CoordinatorDriver {
    /// Has HDFS as the keeper of the stripes, and what is rebuilt there written down.
    pub fn keep_by_hdfs(&mut self, link: Link, log: RebuiltLog) {
        self.hdfs = Some(HdfsKeeping { link, log, held: Vec::new() });
    }

    /// How HDFS stands, where it is the keeper.
    pub fn hdfs_seen(&self) -> Option<HdfsSeen> {
        self.hdfs.as_ref().map(|hdfs| hdfs.link.view().seen())
    }

    /// Why HDFS refused the repair of a stripe, if it did.
    pub fn hdfs_refusal(&self, stripe: StripeId) -> Option<String> {
        self.hdfs.as_ref().and_then(|hdfs| hdfs.link.view().refusal(stripe))
    }

    /// What an operator should know of HDFS and do something about, in sentences.
    pub fn hdfs_warnings(&self) -> Vec<String> {
        self.hdfs_seen().iter().flat_map(|seen| seen.warnings(Instant::now())).collect()
    }

    /// What the core is given for a change, where HDFS is the keeper.
    pub(super) fn attribute_change(&mut self, change: Input) -> Input {
        let Some(hdfs) = &mut self.hdfs else { return change };
        if let Input::CommitRefused { repair, .. } = &change {
            hdfs.log.refused(*repair);
        }
        let is_known = |node: NodeId| node.index() < self.core.cluster().nodes.len();
        let is_up = |node: NodeId| is_known(node) && self.core.health(node) == Health::Up;
        hdfs.link.view().attribute(change, is_up)
    }

    /// What the keeper of the stripes is asked, where that is HDFS.
    pub(super) fn ask_hdfs(&mut self, output: Output) {
        if let Output::Commit(commit) = &output {
            self.note_asked(commit);
        }
        let Some(HdfsKeeping { link, .. }) = &self.hdfs else { return };
        match output {
            Output::Commit(commit) => link.commit(commit),
            Output::Claim(claim) => link.claim(self.now(), claim),
            Output::ReleaseClaim(repair) => link.release(repair),
            // Ids of stripes are HDFS's, which gives out none twice.
            _ => {}
        }
    }

    /// Writes down what a commit is asked for, in case that this process does not receive the
    /// answer.
    fn note_asked(&mut self, commit: &Commit) {
        let asked = self.attempts.asked(self.now(), commit, self.core.stripes());
        if let (Some(asked), Some(hdfs)) = (&asked, &mut self.hdfs) {
            hdfs.log.ask(asked, true, &self.core);
        }
    }

    /// Has a destination publish what it has built. Where the claim was lost, since another
    /// NameNode is asked now or it was not prolonged, HDFS may build the same block: then that
    /// waits until the claim is granted again. One that is not has its repair stall, which is
    /// begun anew.
    pub(super) fn publish(&mut self, repair: RepairId, node: NodeId) {
        let published = self.attempts.published(self.now(), repair, node, self.core.stripes());
        if let (Some(published), Some(hdfs)) = (&published, &mut self.hdfs) {
            if hdfs.link.view().is_unclaimed(published.copy.stripe) {
                return hdfs.held.push(HeldPublish { repair, node });
            }
            // In case that it does so and never reports it.
            hdfs.log.ask(published, false, &self.core);
        }
        self.send(node, ToAgent::Publish(repair));
    }

    /// Looks again at what waits for claims; what has ended meanwhile is forgotten.
    pub(super) fn publish_held(&mut self) {
        let held = self.hdfs.as_mut().map(|hdfs| std::mem::take(&mut hdfs.held));
        for HeldPublish { repair, node } in held.unwrap_or_default() {
            let stripes = self.core.stripes();
            if self.attempts.published(self.now(), repair, node, stripes).is_some() {
                self.publish(repair, node);
            }
        }
    }

    /// Writes down what a report says of a block that was rebuilt.
    pub(super) fn note_rebuilt(&mut self, report: &Report, rebuilt: Option<&RebuiltChunk>) {
        let Some(hdfs) = &mut self.hdfs else { return };
        if let Some(rebuilt) = rebuilt {
            hdfs.log.note(rebuilt, &self.core);
        }
        match report {
            Report::Committed { repair, copy, .. } => {
                hdfs.log.settle(*repair, *copy, rebuilt.is_some());
            }
            Report::Failed { repair, .. } | Report::Replaced { repair, .. } => {
                hdfs.log.ended(*repair);
            }
            Report::Started { repair, plan } => hdfs.log.begun(plan.stripe, *repair),
            _ => {}
        }
    }

    /// Reports how repairs stand to the view that decides whether HDFS is kept from its own
    /// repairs.
    pub(super) fn note_condition(&self, condition: Condition) {
        if let Some(hdfs) = &self.hdfs {
            hdfs.link.note(condition);
        }
    }
}
