//! An attempt loses a node: it goes on without it, or it ends and its stripe is queued again.
//!
//! Place: ... slices flow -> [an attempt fails -> by another plan, or from the queue] -> ...
//! When a helper dies, or its copy is of no use, nothing is lost that has reached the destinations.
//! So the attempt is given another plan for the same lanes (`plan/detour.rs`), under another id and
//! at once, and only what has not come is sent. Everything else begins anew: where a destination
//! fails or what it made is wrong, where the code takes more than is left, and where a stripe has
//! failed so often that the next attempt had better wait.

use super::Coordinator;
use super::attempt::{Attempt, Rebuild};
use super::ledger::Stop;
use crate::event::{Claim, Health, Output, Report};
use crate::id::{NodeId, RepairId};
use crate::message::{Failure, ToAgent};
use crate::mutant::Mutant;
use crate::plan::detour::{Detour, StandIn};
use crate::plan::{Plan, StripeFacts};
use crate::schedule::PlannedRepair;
use crate::time::{Span, Time};

/// For so long after its session broke a node's repairs go on as they are: slices take other ways
/// than its words, and where all sessions break at once they are made anew by then. Peers that
/// cannot reach it report that before.
const LEAVE_AFTER: Span = Span::from_secs(1);

impl Coordinator {
    /// Looks for repairs that stand still and commits that were not answered.
    pub(super) fn sweep(&mut self, now: Time) {
        let limits_of = |node| self.throttle.limits(node);
        let overdue = self.ledger.overdue(now, &self.config.timers, limits_of);
        self.outputs.extend(overdue.unanswered.into_iter().map(Output::Commit));
        let prolonged = overdue.granted.into_iter().filter_map(|id| self.claim_again(id));
        let claims: Vec<Claim> = overdue.unclaimed.into_iter().chain(prolonged).collect();
        self.outputs.extend(claims.into_iter().map(Output::Claim));
        for id in overdue.stalled {
            // The next attempt does without it.
            let behind = self.ledger.furthest_behind(id);
            self.attempt_failed(now, id, behind, Failure::Stalled);
        }
    }

    /// An agent reports that it cannot do its part.
    pub(super) fn failed(&mut self, now: Time, node: NodeId, id: RepairId, why: Failure) {
        self.send(node, ToAgent::Forget(id));
        if self.ledger.get(id).is_some_and(Attempt::is_transferring) {
            self.attempt_failed(now, id, Some(node), why);
        }
    }

    /// Has an attempt go on without what it lost; or ends it and queues the stripe again, wiser by
    /// what went wrong. Chunks that are durable by then keep the attempt until their locations are
    /// settled.
    pub(super) fn attempt_failed(
        &mut self,
        now: Time,
        id: RepairId,
        node: Option<NodeId>,
        why: Failure,
    ) {
        if self.goes_on(now, id, node, &why) {
            return self.note_source(node, why);
        }
        let Some(stopped) = self.ledger.stop(id, Stop::Transfer) else { return };
        self.cancel(&stopped);
        self.report(Report::Failed { repair: id, node, why: why.clone() });
        let history = self.failures.entry(stopped.stripe).or_default();
        history.failed(node, &why, &stopped.participants);
        let wait = history.wait(&why, &self.config.timers);
        self.note_source(node, why);
        if self.fail_move(now, stopped.stripe) {
            return;
        }
        if !self.ledger.mistake.is(Mutant::ForgetFailed) {
            self.enqueue(stopped.stripe, wait.map(|wait| now + wait));
        }
    }

    /// Where an attempt failed by its copy, that counts no more.
    fn note_source(&mut self, node: Option<NodeId>, why: Failure) {
        if let (Failure::Source { copy, fault }, Some(node)) = (why, node) {
            self.bad_copy(node, copy, fault);
        }
    }

    /// A node is dead, or begun anew: nothing that it was to do will be done.
    pub(super) fn end_repairs_with(&mut self, now: Time, node: NodeId) {
        for id in self.flowing_through(node) {
            self.attempt_failed(now, id, None, Failure::PeerLost(node));
        }
    }

    /// The health of a node has changed: a silent one is given a moment to speak again.
    pub(super) fn expect_back(&mut self, now: Time, node: NodeId) {
        if self.health(node) == Health::Suspect {
            self.leave_at.insert(node, now + LEAVE_AFTER);
        } else {
            self.leave_at.remove(&node);
        }
    }

    /// Has repairs go on without nodes that have been silent for that moment, where they can.
    /// Called after every event, and so at the next heartbeat of any node.
    pub(super) fn leave_silent(&mut self, now: Time) {
        let is_due = |(node, at): (&NodeId, &Time)| (*at <= now).then_some(*node);
        let due: Vec<NodeId> = self.leave_at.iter().filter_map(is_due).collect();
        for node in due {
            self.leave_at.remove(&node);
            if self.health.is_up(node) && !self.is_silent_for_long(now, node) {
                // Others waited for it, and it has spoken.
                continue;
            }
            self.leave(now, node);
        }
    }

    /// Has the repairs in which a node takes part go on without it, where they can.
    pub(super) fn leave(&mut self, now: Time, node: NodeId) {
        for id in self.flowing_through(node) {
            self.goes_on(now, id, None, &Failure::PeerLost(node));
        }
    }

    /// The repairs in which a node takes part and of which something flows.
    fn flowing_through(&self, node: NodeId) -> Vec<RepairId> {
        let takes_part = |r: &Rebuild| r.is_transferring() && r.involves(node);
        let running = self.ledger.running();
        let hit = running.filter(|(_, a)| a.rebuild().is_some_and(takes_part));
        hit.map(|(id, _)| id).collect()
    }

    /// Gives an attempt that has lost a helper another plan for what has not come. Returns whether
    /// it goes on by that.
    pub(super) fn goes_on(
        &mut self,
        now: Time,
        id: RepairId,
        node: Option<NodeId>,
        why: &Failure,
    ) -> bool {
        let Some(gone) = lost_helper(node, why) else { return false };
        let Some(rebuild) = self.ledger.get(id).and_then(Attempt::rebuild) else { return false };
        let (stripe, participants) =
            (rebuild.planned.plan.stripe, rebuild.planned.plan.participants());
        let is_over = self.failures.get(&stripe).is_some_and(|history| !history.may_go_on());
        // What has come in full needs no helper.
        if is_over || rebuild.is_publishing() {
            return false;
        }
        let Some(planned) = self.planned_without(rebuild, gone) else { return false };
        let goes_on = self.replace(now, id, planned);
        if goes_on {
            let history = self.failures.entry(stripe).or_default();
            history.failed(node, why, &participants);
        }
        goes_on
    }

    /// What an attempt has to do without a node, and without all others that do not speak.
    fn planned_without(&self, rebuild: &Rebuild, gone: NodeId) -> Option<PlannedRepair> {
        let PlannedRepair { job, plan, .. } = &*rebuild.planned;
        let stripe = self.stripes.get(plan.stripe)?;
        let cannot_keep = |node: &NodeId| !self.health.is_up(*node);
        if plan.destinations.values().any(cannot_keep) {
            return None;
        }
        let is_read = |node: NodeId| {
            let chunk = stripe.chunk_on(node);
            let is_there = chunk.is_some_and(|chunk| !self.is_lost(stripe.id, chunk));
            node != gone && is_there && self.health.is_up(node)
        };
        let holders = || job.survivors.iter().map(|(_, node)| *node);
        let sources = holders().chain(job.source);
        let mut all_gone: Vec<NodeId> = sources.filter(|node| !is_read(*node)).collect();
        if !all_gone.contains(&gone) {
            all_gone.push(gone);
        }
        let avoided = self.avoided(stripe.id);
        let able: Vec<NodeId> =
            holders().filter(|node| is_read(*node) && !avoided.contains(node)).collect();
        let candidate = |stand_in| {
            let helpers = self.soonest(able.clone(), plan.range.bytes(), stand_in);
            let detour = Detour { plan, facts: job.facts(), helpers: &helpers };
            let plan = detour.around(&all_gone, stand_in)?;
            Some((self.busiest_seconds(&plan, &job.facts()), plan))
        };
        let plans = [StandIn::Sends, StandIn::TakesOver].into_iter().filter_map(candidate);
        let (_, plan) = plans.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let mut job = job.clone();
        job.survivors.retain(|(_, node)| !all_gone.contains(node));
        job.avoid.push(gone);
        Some(PlannedRepair::new(job, plan))
    }

    /// Helpers in the order in which they would have done so much that stands in: a lost node is in
    /// many repairs. Those that do not speak are last.
    fn soonest(&self, mut helpers: Vec<NodeId>, bytes: u64, stand_in: StandIn) -> Vec<NodeId> {
        let seconds = |node: NodeId| {
            let (load, links) = (self.ledger.load().node(node), self.ledger.cluster().node(node));
            let up = (load.up_bytes + bytes) as f64 / links.uplink_free().usable().0;
            let down = (load.down_bytes + bytes) as f64 / links.downlink_free().usable().0;
            if stand_in == StandIn::TakesOver { up.max(down) } else { up }
        };
        let is_silent = |node: NodeId| self.is_silent_for_long(self.now, node);
        helpers.sort_by(|&a, &b| {
            let speaks_first = is_silent(a).cmp(&is_silent(b));
            speaks_first.then(seconds(a).total_cmp(&seconds(b))).then(a.cmp(&b))
        });
        helpers
    }

    /// How long the busiest link of a plan has to move, with all that runs.
    fn busiest_seconds(&self, plan: &Plan, facts: &StripeFacts<'_>) -> f64 {
        let cluster = self.ledger.cluster();
        let mut load = self.ledger.load().clone();
        load.add(cluster, plan, facts);
        let seconds = |node: NodeId| {
            let (load, links) = (load.node(node), cluster.node(node));
            let up = load.up_bytes as f64 / links.uplink_free().usable().0;
            up.max(load.down_bytes as f64 / links.downlink_free().usable().0)
        };
        plan.participants().into_iter().map(seconds).fold(0.0, f64::max)
    }
}

/// The node without which an attempt is to go on, where it is known that one is the cause and what
/// the others have is good.
fn lost_helper(node: Option<NodeId>, why: &Failure) -> Option<NodeId> {
    match why {
        Failure::PeerLost(peer) => Some(*peer),
        Failure::Source { .. } => node,
        _ => None,
    }
}
