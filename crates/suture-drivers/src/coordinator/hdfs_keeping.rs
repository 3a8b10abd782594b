//! What a coordinator of HDFS has besides: the thread that asks the NameNode, and the lines of what
//! was rebuilt.
//!
//! Place: [stripes affected] ... [claim] ... [commit location -> stripe healthy], where a NameNode
//! keeps the stripes.

use std::time::Instant;

use suture_repair::event::{Commit, Input, Output, Report};
use suture_repair::id::{NodeId, RepairId, StripeId};

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
}

/// Whether it is a question to the keeper of the stripes.
pub(super) fn is_asked(output: &Output) -> bool {
    matches!(
        output,
        Output::Commit(_)
            | Output::Claim(_)
            | Output::ReleaseClaim(_)
            | Output::Protect(_)
            | Output::Faulty { .. }
    )
}

impl CoordinatorDriver {
    /// Has HDFS as the keeper of the stripes, and what is rebuilt there written down.
    pub fn keep_by_hdfs(&mut self, link: Link, log: RebuiltLog) {
        self.hdfs = Some(HdfsKeeping { link, log });
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

    /// A change has come that the core is given next.
    pub(super) fn note_change(&mut self, change: &Input) {
        if let (Some(hdfs), Input::CommitRefused { repair, .. }) = (&mut self.hdfs, change) {
            hdfs.log.refused(*repair);
        }
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
            Output::Faulty { node, copy, fault } => link.note_fault(copy.at(node), fault),
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

    /// Writes down what a destination is to publish, in case that it does so and never reports it.
    pub(super) fn note_published(&mut self, repair: RepairId, node: NodeId) {
        let published = self.attempts.published(self.now(), repair, node, self.core.stripes());
        if let (Some(published), Some(hdfs)) = (&published, &mut self.hdfs) {
            hdfs.log.ask(published, false, &self.core);
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
