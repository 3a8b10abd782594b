//! What the keeper has answered about the claims of running repairs.
//!
//! Place: ... admit -> [claim -> dispatch] -> slices flow -> ...
//! A repair waits for its claim before anything is sent to agents, and keeps it while it runs; one
//! that took the place of another goes on under that one's. Nothing here begins or ends a repair:
//! that is `ledger.rs`.

use crate::coordinator::attempt::{Attempt, ClaimState, Rebuild};
use crate::coordinator::ledger::Ledger;
use crate::event::Claim;
use crate::id::RepairId;
use crate::label::Label;
use crate::message::Task;
use crate::time::Time;

impl Ledger {
    /// Lets a repair that was just started wait until its claim is answered.
    pub fn claim(&mut self, now: Time, task: Task) -> Claim {
        let running = self.running.get_mut(&task.repair).and_then(Attempt::rebuild_mut);
        let rebuild = running.expect("just started");
        let claim = Claim {
            repair: task.repair,
            stripe: task.stripe.id,
            generation: task.stripe.generation,
            destinations: task.plan.destinations.clone(),
        };
        let (task, asked_at) = (Box::new(task), now);
        rebuild.claim = ClaimState::Asked { claim: claim.clone(), task, asked_at };
        claim
    }

    /// A claim was granted. Returns the task, unless the repair was dispatched before.
    pub fn claimed(&mut self, now: Time, repair: RepairId, label: Label) -> Option<Task> {
        let rebuild = self.running.get_mut(&repair)?.rebuild_mut()?;
        if !rebuild.is_asked() {
            return None;
        }
        rebuild.progressed_at = now;
        let (label_kept, asked_at, is_lost) = (label.clone(), now, false);
        let granted = ClaimState::Granted { repair, label: label_kept, asked_at, is_lost };
        match std::mem::replace(&mut rebuild.claim, granted) {
            ClaimState::Asked { task, .. } => Some(Task { label, ..*task }),
            ClaimState::Granted { .. } | ClaimState::Unclaimed => None,
        }
    }

    /// The claim of this repair is lost, or granted again. Returns whether something runs under it
    /// that was granted it.
    pub fn set_claim_lost(&mut self, claimed: RepairId, lost: bool) -> bool {
        let mut has_claim = false;
        for rebuild in self.running.values_mut().filter_map(Attempt::rebuild_mut) {
            if let ClaimState::Granted { repair, is_lost, .. } = &mut rebuild.claim
                && *repair == claimed
            {
                (*is_lost, has_claim) = (lost, true);
            }
        }
        has_claim
    }

    /// Whether something runs under the claim of this repair: the repair itself, or one that took
    /// its place.
    pub fn holds_claim(&self, claimed: RepairId) -> bool {
        let is_under_it = |rebuild: &Rebuild| match rebuild.claim {
            ClaimState::Granted { repair, .. } => repair == claimed,
            ClaimState::Asked { .. } | ClaimState::Unclaimed => false,
        };
        self.running.contains_key(&claimed)
            || self.running.values().filter_map(Attempt::rebuild).any(is_under_it)
    }
}
