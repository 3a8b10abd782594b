//! What the schedule wants of repairs that run, and when it wants to be asked.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable -> ...
//! Orders are said to agents as they are; nothing here decides.

use std::sync::Arc;

use super::attempt::State;
use super::{Coordinator, world};
use crate::budget::Admission;
use crate::event::Report;
use crate::id::{NodeId, RepairId};
use crate::message::ToAgent;
use crate::plan::Plan;
use crate::schedule::{Order, Work};
use crate::time::{Span, Time};

/// The schedule is not asked again sooner than this when nothing happens.
const ASK_AGAIN_MIN: Span = Span { ns: 10_000_000 };

impl Coordinator {
    /// When the schedule wants to be asked again; never so soon that nothing else is done.
    pub(super) fn ask_schedule_at(&self, now: Time) -> Option<Time> {
        let ready = if self.config.paused { 0 } else { self.queue.ready_count() };
        let at = self.schedule.next_deadline(&self.waiting, ready);
        at.map(|at| at.max(now + ASK_AGAIN_MIN))
    }

    /// Does what the schedule wants to be done differently.
    pub(super) fn follow_orders(&mut self, now: Time) {
        for order in self.schedule.orders(world!(self, now)) {
            match order {
                Order::Hold { repair, held } => self.hold(now, repair, held),
                Order::Replace { repair, plan } => self.replace(now, repair, plan),
                Order::PlanAgain => self.unplan(),
                Order::Release { repair, lane, child, parent } => {
                    if let Some(attempt) = self.running.get_mut(&repair) {
                        attempt.progressed_at = now;
                        self.send(parent, ToAgent::Release { repair, lane, child });
                    }
                }
            }
        }
    }

    /// Says again what was released to a node and has not arrived: it may have been lost.
    pub(super) fn release_again(&mut self, node: NodeId) {
        for order in self.schedule.released_to(node) {
            if let Order::Release { repair, lane, child, parent } = order {
                self.send(parent, ToAgent::Release { repair, lane, child });
            }
        }
    }

    /// Lets a repair rest, or go on.
    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(attempt) = self.running.get_mut(&repair) else { return };
        attempt.progressed_at = now;
        let keepers = attempt.goals.iter().filter(|goal| goal.state == State::Flowing);
        let keepers: Vec<NodeId> = keepers.map(|goal| goal.destination).collect();
        for to in keepers {
            self.send(to, ToAgent::Hold { repair, held });
        }
    }

    /// Puts another plan in the place of a running one, for what that has left; where there is no
    /// room for it everything stays as it is.
    fn replace(&mut self, now: Time, old: RepairId, plan: Plan) {
        let Some(attempt) = self.running.get(&old) else { return };
        let is_all_flowing = attempt.goals.iter().all(|goal| goal.state == State::Flowing);
        let Some(work) = attempt.work.clone().filter(|_| is_all_flowing) else { return };
        let repair = RepairId::new(self.config.epoch, self.next_sequence);
        let alignment = work.job.code.alignment() as u32;
        let Admission::Admitted(fit) = self.budget.admit(repair, &plan, alignment) else { return };
        self.next_sequence += 1;
        let (stripe, since) = (attempt.stripe, attempt.since);
        let continues = (plan.range.from > 0).then_some(old);
        self.load.add(&self.cluster, &plan, &work.job.facts());
        let work = Arc::new(Work::new(work.job.clone(), plan));
        // The new task comes first: its destination takes over what the old one has.
        self.dispatch(now, repair, work, (fit.slice_bytes, fit.window), continues);
        self.report(Report::Replaced { repair: old, by: repair });
        self.end(old);
        self.repairing.insert(stripe, repair);
        self.running.get_mut(&repair).expect("dispatched above").since = since;
    }
}
