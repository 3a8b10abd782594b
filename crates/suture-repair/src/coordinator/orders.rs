//! Carries out the schedule's directives for running repairs, and computes when to ask it again.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable -> ...
//! Directives are passed to agents as they are; nothing here decides.

use super::Coordinator;
use super::attempt::GoalState;
use super::ledger::Scene;
use crate::event::Report;
use crate::id::{NodeId, RepairId};
use crate::message::ToAgent;
use crate::plan::Plan;
use crate::schedule::{Directive, Release};
use crate::time::{Span, Time};

/// The schedule is not asked again sooner than this when nothing happens.
const ASK_AGAIN_MIN: Span = Span { ns: 10_000_000 };

impl Coordinator {
    /// When the schedule wants to be asked again; never so soon that nothing else is done.
    pub(super) fn ask_schedule_at(&mut self, now: Time) -> Option<Time> {
        let scene = self.scene(now);
        let ready = if self.config.paused { 0 } else { scene.ready };
        let at = self.ledger.schedule_deadline(Scene { ready, ..scene });
        at.map(|at| at.max(now + ASK_AGAIN_MIN))
    }

    /// Does what the schedule wants to be done differently, and releases what may flow now.
    pub(super) fn follow_schedule(&mut self, now: Time) {
        for directive in self.ledger.directives(self.scene(now)) {
            match directive {
                Directive::Hold { repair, held } => self.hold(now, repair, held),
                Directive::Replace { repair, plan } => self.replace(now, repair, plan),
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

    fn release(&mut self, Release { repair, lane, child, parent }: Release) {
        self.send(parent, ToAgent::Release { repair, lane, child });
    }

    /// Lets a repair rest, or go on.
    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(rebuild) = self.ledger.hold(now, repair, held) else { return };
        let flowing = rebuild.goals.iter().filter(|goal| goal.state == GoalState::Flowing);
        let destinations: Vec<NodeId> = flowing.map(|goal| goal.destination).collect();
        for to in destinations {
            self.send(to, ToAgent::Hold { repair, held });
        }
    }

    /// Puts another plan in the place of a running one, where there is memory for it. The new task
    /// is sent first: its destination takes over what the old one has.
    fn replace(&mut self, now: Time, old: RepairId, plan: Plan) {
        let scene = self.scene(now);
        let Some(stripe) = self.stripes.get(plan.stripe) else { return };
        let Some((task, stopped)) = self.ledger.supersede(scene, old, plan, stripe) else { return };
        let by = task.repair;
        self.dispatch(task);
        self.report(Report::Replaced { repair: old, by });
        self.cancel(&stopped);
    }
}
