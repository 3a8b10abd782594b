//! From waiting plans to running repairs: admit what fits, dispatch it to agents, and cancel what
//! has ended.
//!
//! Place: ... queue -> plan -> [admit -> claim -> dispatch] -> slices flow -> ...
//! Plans are admitted one by one as memory and the schedule allow; one that does not fit now is
//! passed over.

use std::sync::Arc;

use super::Coordinator;
use super::attempt::{Attempt, ClaimState};
use super::ledger::{Stop, Stopped};
use crate::budget::NotAdmitted;
use crate::event::{Blocked, Claim, Output, RefusedNode, Report};
use crate::id::{RepairId, StripeId};
use crate::label::Label;
use crate::message::{Failure, Task, ToAgent};
use crate::stripe::Stripe;
use crate::time::Time;

/// Plans that may be passed over in one go because they do not fit now: those behind them would
/// hardly fit either, and looking at all of them after each event would cost more than it gains.
const PASSED_OVER_MAX: usize = 64;

impl Coordinator {
    /// Starts what the schedule wants and what fits.
    pub(super) fn admit_planned(&mut self, now: Time) {
        if !self.ledger.take_may_admit() {
            return;
        }
        let mut passed = Vec::new();
        while passed.len() < PASSED_OVER_MAX {
            let scene = self.scene(now);
            let Some(id) = self.ledger.next(scene, &passed) else { break };
            let stripe = self.stripes.get(id).expect("planned, so known");
            match self.ledger.start(scene, stripe) {
                Ok(task) if self.config.claims => {
                    let claim = self.ledger.claim(now, task);
                    self.outputs.push_back(Output::Claim(claim));
                }
                Ok(task) => self.dispatch(task),
                Err(NotAdmitted::Later) => passed.push(id),
                Err(NotAdmitted::TooLarge { node, needed, pool }) => {
                    self.unplan(id);
                    let history = self.failures.entry(id).or_default();
                    if std::mem::replace(&mut history.is_single_chunk, true) {
                        self.hold_back(now, id, Blocked::Pool { node, needed, pool });
                    }
                }
            }
        }
    }

    /// The keeper has granted a claim.
    pub(super) fn claimed(&mut self, now: Time, id: RepairId, label: Label) {
        if let Some(task) = self.ledger.claimed(now, id, label) {
            self.dispatch(task);
        } else if !self.ledger.set_claim_lost(id, false) && !self.ledger.holds_claim(id) {
            // It ended meanwhile; the release of its claim may be lost or have come first.
            self.outputs.push_back(Output::ReleaseClaim(id));
        }
    }

    /// The keeper does not have a claim any more that it had granted.
    pub(super) fn claim_lost(&mut self, id: RepairId) {
        self.ledger.set_claim_lost(id, true);
    }

    /// The claim of a repair that it was granted for, as it is asked for again: for what is left.
    pub(super) fn claim_again(&self, id: RepairId) -> Option<Claim> {
        let rebuild = self.ledger.get(id)?.rebuild()?;
        let ClaimState::Granted { repair, .. } = rebuild.claim else { return None };
        let stripe = self.stripes.get(rebuild.planned.plan.stripe)?;
        let goals = rebuild.goals.iter().map(|goal| (goal.chunk, goal.destination));
        Some(Claim {
            repair,
            stripe: stripe.id,
            generation: stripe.generation,
            destinations: goals.collect(),
        })
    }

    /// The keeper will not have a repair begin, or not have it alone any more: then nothing of it
    /// is published until its claim is granted again.
    pub(super) fn claim_refused(
        &mut self,
        now: Time,
        id: RepairId,
        current: Option<Stripe>,
        because_of: Option<RefusedNode>,
    ) {
        let asked = self.ledger.get(id).and_then(Attempt::rebuild).filter(|r| r.is_asked());
        if asked.is_none() {
            return self.claim_lost(id);
        }
        if let Some(RefusedNode { node, why }) = because_of
            && self.health.is_up(node)
        {
            // The next attempt is made with others.
            return self.attempt_failed(now, id, Some(node), Failure::Disk(why));
        }
        let Some(stopped) = self.ledger.stop(id, Stop::Whole) else { return };
        self.touched.push(stopped.stripe);
        let known = self.stripes.get(stopped.stripe).map(|stripe| stripe.generation);
        match current {
            None => self.remove_stripe(stopped.stripe),
            Some(stripe) if known.is_some_and(|known| known < stripe.generation) => {
                self.apply_stripe(stripe);
                self.enqueue(stopped.stripe, None);
            }
            Some(_) => self.hold_back(now, stopped.stripe, Blocked::Claimed),
        }
    }

    /// Sends the task of a repair that was just started to all participants.
    pub(super) fn dispatch(&mut self, task: Task) {
        let skips = self.health.abilities().skips;
        let task = Arc::new(Task { skips, ..task });
        for to in task.plan.participants() {
            self.send(to, ToAgent::Dispatch(task.clone()));
        }
        self.touched.push(task.plan.stripe);
        if let Some(history) = self.failures.get_mut(&task.plan.stripe) {
            // It runs again: whatever it waited for, it waits no longer.
            history.blocked = None;
        }
        self.report(Report::Started { repair: task.repair, plan: task.plan.clone() });
    }

    /// Notifies agents, and the keeper, of the end of a repair that was just stopped.
    pub(super) fn cancel(&mut self, stopped: &Stopped) {
        self.touched.push(stopped.stripe);
        self.outputs.extend(stopped.claim.map(Output::ReleaseClaim));
        for &to in &stopped.workers {
            self.send(to, ToAgent::Cancel(stopped.repair));
        }
    }

    /// Ends the running repair of a stripe, unless a location is being changed: the answer decides.
    pub(super) fn end_repair_of(&mut self, stripe: StripeId) {
        if let Some((id, attempt)) = self.ledger.repair_of(stripe)
            && !attempt.is_committing()
            && let Some(stopped) = self.ledger.stop(id, Stop::Whole)
        {
            self.cancel(&stopped);
        }
    }
}
