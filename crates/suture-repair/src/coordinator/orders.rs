//! What the schedule wants of repairs that run, and when it wants to be asked.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable -> ...
//! Orders are passed to agents as they are; nothing here decides.

use super::Coordinator;
use super::attempt::State;
use crate::event::Report;
use crate::id::{NodeId, RepairId};
use crate::message::ToAgent;
use crate::plan::Plan;
use crate::schedule::Order;
use crate::time::{Span, Time};

/// The schedule is not asked again sooner than this when nothing happens.
const ASK_AGAIN_MIN: Span = Span { ns: 10_000_000 };

impl Coordinator {
    /// When the schedule wants to be asked again; never so soon that nothing else is done.
    pub(super) fn ask_schedule_at(&self, now: Time) -> Option<Time> {
        let ready = if self.config.paused { 0 } else { self.queue.ready_count() };
        let at = self.ledger.schedule_deadline(ready);
        at.map(|at| at.max(now + ASK_AGAIN_MIN))
    }

    /// Does what the schedule wants to be done differently.
    pub(super) fn follow_orders(&mut self, now: Time) {
        for order in self.ledger.orders(self.scene(now)) {
            match order {
                Order::Hold { repair, held } => self.hold(now, repair, held),
                Order::Replace { repair, plan } => self.replace(now, repair, plan),
                Order::PlanAgain => self.unplan_all(),
                Order::Release { repair, lane, child, parent } => {
                    if self.ledger.progressed(now, repair).is_some() {
                        self.send(parent, ToAgent::Release { repair, lane, child });
                    }
                }
            }
        }
    }

    /// Repeats what was released to a node and has not arrived: it may have been lost.
    pub(super) fn release_again(&mut self, node: NodeId) {
        for order in self.ledger.released_to(node) {
            if let Order::Release { repair, lane, child, parent } = order {
                self.send(parent, ToAgent::Release { repair, lane, child });
            }
        }
    }

    /// Lets a repair rest, or go on.
    fn hold(&mut self, now: Time, repair: RepairId, held: bool) {
        let Some(rebuild) = self.ledger.progressed(now, repair) else { return };
        let flowing = rebuild.goals.iter().filter(|goal| goal.state == State::Flowing);
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
