//! Carries out the schedule's directives for running repairs, and computes when to ask it again.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable -> ...
//! Directives are passed to agents as they are; nothing here decides. A repair whose helper is lost
//! is given another plan in the same manner (`failed.rs`).

use super::Coordinator;
use super::attempt::{Attempt, GoalState};
use super::ledger::Scene;
use crate::event::Report;
use crate::id::{NodeId, RepairId};
use crate::message::ToAgent;
use crate::plan::Plan;
use crate::schedule::{Directive, EdgeRelease, PlannedRepair};
use crate::time::{Span, Time};

/// The schedule is not asked again sooner than this when nothing happens.
const ASK_AGAIN_MIN: Span = Span { ns: 10_000_000 };

impl Coordinator {
    /// When the schedule is to be asked again; never so soon that nothing else is done.
    pub(super) fn ask_schedule_at(&mut self, now: Time) -> Option<Time> {
        let scene = self.scene(now);
        let ready = if self.config.paused { 0 } else { scene.ready };
        let at = self.ledger.schedule_deadline(Scene { ready, ..scene });
        at.map(|at| at.max(now + ASK_AGAIN_MIN))
    }

    /// Carries out what the schedule changes about running repairs, and releases what may flow now.
    pub(super) fn follow_schedule(&mut self, now: Time) {
        for directive in self.ledger.directives(self.scene(now)) {
            match directive {
                Directive::Hold { repair, held } => self.hold(now, repair, held),
                Directive::Replace { repair, plan } => self.change_plan(now, repair, plan),
                Directive::PlanAgain => self.unplan_all(),
            }
        }
        for release in self.ledger.release(now) {
            if self.ledger.progressed(now, release.repair).is_some() {
                self.release(release);
            }
        }
    }

    /// Repeats what was released to a node and has not arrived: it may have been lost.
    pub(super) fn release_again(&mut self, node: NodeId) {
        for release in self.ledger.released_to(node) {
            self.release(release);
        }
    }

    fn release(&mut self, EdgeRelease { repair, lane, child, parent }: EdgeRelease) {
        self.send(parent, ToAgent::Release { repair, lane, child });
    }

    /// Lets a repair rest, or go on.
    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(rebuild) = self.ledger.hold(now, repair, held) else { return };
        let transferring =
            rebuild.goals.iter().filter(|goal| goal.state == GoalState::Transferring);
        let destinations: Vec<NodeId> = transferring.map(|goal| goal.destination).collect();
        for to in destinations {
            self.send(to, ToAgent::Hold { repair, held });
        }
    }

    /// Has a repair go on by another plan of the same job, which is not to come back to the nodes
    /// that this one leaves.
    fn change_plan(&mut self, now: Time, repair: RepairId, plan: Plan) {
        let Some(rebuild) = self.ledger.get(repair).and_then(Attempt::rebuild) else { return };
        let (mut job, stay) = (rebuild.planned.job.clone(), plan.participants());
        let mut left = rebuild.planned.plan.participants();
        left.retain(|node| !stay.contains(node));
        job.avoid.extend(left);
        let may_later = self.health.abilities().skips
            && !self.ledger.is_gating()
            && rebuild.is_all_transferring()
            && !rebuild.is_asked();
        let stripe = plan.stripe;
        if !self.replace(now, repair, PlannedRepair::new(job, plan)) {
            self.ledger.refused(repair, stripe, may_later);
        }
    }

    /// Puts another plan in the place of a running one, where there is memory for it and agents
    /// can go on where they are. The new task is sent first: its destinations take over what the
    /// old one has. Returns whether the repair goes on so.
    pub(super) fn replace(&mut self, now: Time, old: RepairId, planned: PlannedRepair) -> bool {
        let may_skip = self.health.abilities().skips && !self.ledger.is_gating();
        let stripe = self.stripes.get(planned.plan.stripe).filter(|_| may_skip);
        let Some(stripe) = stripe else { return false };
        let replaced = self.ledger.supersede(self.scene(now), old, planned, stripe);
        let Some((task, mut stopped)) = replaced else { return false };
        // A destination ends the old task when it begins the new one, and not if it is about to
        // publish.
        stopped.workers.retain(|node| !task.plan.destinations.values().any(|to| to == node));
        let (by, stay) = (task.repair, task.plan.participants());
        let mut without = stopped.participants.clone();
        without.retain(|node| !stay.contains(node));
        self.dispatch(task);
        self.report(Report::Replaced { repair: old, by, without });
        self.cancel(&stopped);
        true
    }
}
