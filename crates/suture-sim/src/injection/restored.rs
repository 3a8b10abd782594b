//! Metadata that are lost, or older than what they describe.
//!
//! Place: around all of failure -> ... -> stripe healthy, at a coordinator's start.
//! An operator puts a backup in the place of metadata that are gone, or begins with empty ones and
//! finds the right ones later. What agents hold and have followed by then is newer. Nothing of it
//! may be deleted, and what the metadata of the end know must be whole in the end.

use suture_repair::id::{NodeId, StripeId};
use suture_repair::keeper::admission::{Joining, Refused};
use suture_repair::time::Span;

use crate::fault::Kind;
use crate::violation::Violation;
use crate::world::{ClusterBackup, Event, Recovery, World};

/// Until the cluster begins with empty metadata.
const EMPTY_AFTER: Span = Span::from_millis(100);

/// Until the operator sees that an agent is refused, and gives its name away.
const REPLACED_AFTER: Span = Span::from_millis(700);

impl World {
    /// Takes a backup. There is one of the beginning, too.
    pub(crate) fn back_up(&mut self) {
        if self.set_aside.is_none() {
            self.backup = Some(self.kept());
        }
    }

    /// The metadata are lost, and the last backup takes their place.
    pub(super) fn return_to_backup(&mut self, back_after: Span) {
        let Some(backup) = self.backup.clone().filter(|_| self.set_aside.is_none()) else { return };
        self.coverage.count(Kind::OldMetadata);
        self.restore(backup);
        self.later(back_after, Event::Recovery(Recovery::Coordinator));
    }

    /// The metadata are lost, and the next coordinator begins with none.
    pub(super) fn lose_metadata(&mut self, found_after: Span) {
        if self.set_aside.is_some() {
            return;
        }
        self.coverage.count(Kind::LostMetadata);
        self.set_aside = Some(self.kept());
        self.restore(ClusterBackup::default());
        self.later(EMPTY_AFTER, Event::Recovery(Recovery::Coordinator));
        self.later(found_after, Event::Recovery(Recovery::Found));
    }

    /// The lost metadata are found, and take the place of the empty ones.
    pub(super) fn find_metadata(&mut self) {
        if let Some(backup) = self.set_aside.take() {
            self.restore(backup);
            self.start_coordinator();
        }
    }

    fn kept(&self) -> ClusterBackup {
        let metadata = self.metadata.backup(&self.writing);
        ClusterBackup {
            metadata,
            paused: self.paused,
            declared: self.declared.clone(),
            draining: self.draining.clone(),
            paused_nodes: self.paused_nodes.clone(),
            pass: self.pass,
        }
    }

    fn restore(&mut self, backup: ClusterBackup) {
        (self.coordinator, self.asleep) = (None, None);
        self.metadata.restore(backup.metadata);
        (self.paused, self.pass) = (backup.paused, backup.pass);
        self.declared = backup.declared;
        (self.draining, self.paused_nodes) = (backup.draining, backup.paused_nodes);
        self.writing.clear();
        self.unfinished.clear();
        self.asked_since = self.starts + 1;
    }

    /// Agents hold copies of stripes up to this one, whose ids the metadata have not given out.
    pub(crate) fn protect(&mut self, below: StripeId) {
        let is_given_out = below.0 > 0 && self.metadata.is_given_out(StripeId(below.0 - 1));
        if !self.metadata.is_restored || !is_given_out {
            return self.fail(Violation::Protected(below));
        }
        self.metadata.protect(below);
        self.announce_reserved();
    }

    /// Whether an agent may be the node.
    pub(super) fn admit(&mut self, node: NodeId, joining: Joining) -> Result<(), Refused> {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(suture_repair::mutant::Mutant::WelcomeAnyone) {
            let _ = self.metadata.admit(node, joining);
            return Ok(());
        }
        self.metadata.admit(node, joining)
    }

    /// The node's own agent joins. One that has lost its disk joins as new, as an operator has it
    /// do; metadata that are older than its disk know another one.
    pub(crate) fn admit_own(&mut self, node: NodeId) -> Result<(), Refused> {
        let host = self.host(node);
        let (store, is_new) = (Some(host.store), host.is_new);
        let admitted = self.admit(node, Joining { store, is_new, takes_name: is_new });
        if let Err(why) = admitted {
            self.note(|| format!("{node} is refused: {why:?}"));
            self.disturb(node, REPLACED_AFTER);
            self.later(REPLACED_AFTER, Event::Recovery(Recovery::Replace(node)));
        }
        admitted
    }

    /// The operator gives a node's name to the store that it has now, if that is refused.
    pub(super) fn replace_node(&mut self, node: NodeId) {
        if self.metadata.store(node).is_some_and(|store| store != self.host(node).store) {
            self.metadata.replace_node(node);
        }
        self.connect_soon(node);
    }
}
