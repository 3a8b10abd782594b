//! How running repairs get on, as agents report it, and what stands still.
//!
//! Place: ... dispatch -> [slices flow -> chunk durable -> commit location] -> stripe healthy.
//! Nothing here begins or ends a repair: that is `ledger.rs`.

use crate::coordinator::attempt::{Attempt, ClaimState, Proof, Rebuild};
use crate::coordinator::ledger::{Ledger, Scene};
use crate::event::{Claim, Commit, Timers};
use crate::id::{NodeId, RepairId, StripeId};
use crate::schedule::{Directive, EdgeRelease};
use crate::throttle::{self, STALLS_LIMITED};
use crate::time::{Span, Time};

/// Writing a finished chunk to disk may take this many times the stall limit.
const PUBLISH_STALLS: u64 = 8;

/// What a look at everything that runs found.
#[derive(Debug, Default)]
pub(in crate::coordinator) struct Overdue {
    /// Repairs that stand still.
    pub stalled: Vec<RepairId>,
    /// Commits to ask for again.
    pub unanswered: Vec<Commit>,
    /// Claims to ask for again.
    pub unclaimed: Vec<Claim>,
}

impl Ledger {
    /// A participant has reported how far it is. Returns whether the repair runs.
    pub fn reported(&mut self, now: Time, repair: RepairId, node: NodeId, bytes_done: u64) -> bool {
        let Some(attempt) = self.running.get_mut(&repair) else { return false };
        if let Attempt::Rebuild(rebuild) = attempt {
            if rebuild.report(node, bytes_done) {
                rebuild.progressed_at = now;
                self.moved_at.insert(node, now);
            }
            // A report that nothing has come counts as well, if it is the destination's.
            let keeps = rebuild.goals.iter().any(|goal| goal.destination == node);
            if let Some(active) = self.active.get_mut(&repair) {
                active.reported.insert(node, bytes_done);
                if keeps {
                    active.progressed(now, rebuild.bytes_come());
                }
            }
        }
        true
    }

    /// Whether a node reported after that to have moved something, in whatever repair.
    pub fn has_moved(&self, node: NodeId, after: Time) -> bool {
        self.moved_at.get(&node).is_some_and(|at| *at > after)
    }

    /// Whether edges of repairs flow one by one, as they are released.
    pub fn is_gating(&self) -> bool {
        self.edges.is_some()
    }

    /// Whether the schedule looks at what participants report.
    pub fn heeds_progress(&self) -> bool {
        self.schedule.heeds_progress()
    }

    /// Records that all of an edge of a gated repair is kept at its parent.
    pub fn arrived(&mut self, now: Time, edge: EdgeRelease) {
        if self.edges.as_mut().is_some_and(|edges| edges.arrived(now, edge)) {
            self.progressed(now, edge.repair);
        }
    }

    /// A repair is to pause, or to go on. Returns its attempt, if it runs.
    pub fn hold(&mut self, now: Time, repair: RepairId, held: bool) -> Option<&Rebuild> {
        if let Some(active) = self.active.get_mut(&repair) {
            active.is_held = held;
        }
        self.progressed(now, repair)
    }

    /// Something of a repair moves, or is let move from now on. Returns its attempt, if it runs.
    pub fn progressed(&mut self, now: Time, repair: RepairId) -> Option<&Rebuild> {
        let rebuild = self.running.get_mut(&repair)?.rebuild_mut()?;
        rebuild.progressed_at = now;
        Some(rebuild)
    }

    /// The coordinator received nothing for `gap`: shifts the time of every repair's last progress
    /// by it.
    pub fn slept(&mut self, now: Time, gap: Span) {
        for rebuild in self.running.values_mut().filter_map(Attempt::rebuild_mut) {
            rebuild.progressed_at = now.min(rebuild.progressed_at + gap);
        }
    }

    /// What is known of the fingerprints of a repair, if it runs.
    pub fn proof_mut(&mut self, repair: RepairId) -> Option<&mut Proof> {
        Some(&mut self.running.get_mut(&repair)?.rebuild_mut()?.proof)
    }

    /// What was released to `node` and has not arrived.
    pub fn released_to(&self, node: NodeId) -> Vec<EdgeRelease> {
        self.edges.as_ref().map(|edges| edges.released_to(node)).unwrap_or_default()
    }

    /// Edges of gated repairs that may flow from now on.
    pub fn release(&mut self, now: Time) -> Vec<EdgeRelease> {
        let edges = self.edges.as_mut();
        edges.map(|edges| edges.release(now, &self.cluster)).unwrap_or_default()
    }

    /// What is to be done otherwise from now on.
    pub fn directives(&mut self, scene: Scene) -> Vec<Directive> {
        self.consult(scene, |schedule, snapshot| schedule.directives(snapshot))
    }

    /// A plan of a stripe did not take the place of that of a running repair.
    pub fn refused(&mut self, repair: RepairId, stripe: StripeId) {
        self.schedule.refused(repair, stripe);
    }

    /// When the schedule is to be asked although nothing has happened.
    pub fn schedule_deadline(&mut self, scene: Scene) -> Option<Time> {
        self.consult(scene, |schedule, snapshot| schedule.next_deadline(snapshot))
    }

    /// The longest that all slices under way at one of these nodes take, by the limits of repair;
    /// `None` where none of them is limited.
    pub fn flight(
        &self,
        nodes: impl IntoIterator<Item = NodeId>,
        limit_of: impl Fn(NodeId) -> Option<u64>,
    ) -> Option<Span> {
        let flight =
            |node| Some(throttle::flight(self.budget.pool(node).reserved, limit_of(node)?));
        nodes.into_iter().filter_map(flight).max()
    }

    /// Repairs that stand still, and unanswered commits, which count as asked again. Where repair
    /// is limited, everything may take longer: the limits of nodes are in bytes per second.
    pub fn overdue(
        &mut self,
        now: Time,
        timers: &Timers,
        limit_of: impl Fn(NodeId) -> Option<u64>,
    ) -> Overdue {
        let mut overdue = Overdue::default();
        let mut still: Vec<RepairId> = Vec::new();
        let is_held = |id: &RepairId| self.active.get(id).is_some_and(|active| active.is_held);
        let waits = |id: &RepairId| self.edges.as_ref().is_some_and(|edges| edges.is_waiting(*id));
        for (id, attempt) in &mut self.running {
            if let Attempt::Rebuild(rebuild) = attempt {
                let stalls = if rebuild.is_publishing() { PUBLISH_STALLS } else { 1 };
                let limit = timers.stall_after.times(stalls);
                let is_still = now.since(rebuild.progressed_at) > limit;
                if let ClaimState::Asked { claim, asked_at, .. } = &mut rebuild.claim {
                    if now.since(*asked_at) >= timers.commit_retry {
                        *asked_at = now;
                        overdue.unclaimed.push(claim.clone());
                    }
                    continue;
                }
                if is_still && rebuild.is_transferring() && !is_held(id) && !waits(id) {
                    still.push(*id);
                }
            }
            if let Some(pending) = attempt.pending_mut()
                && now.since(pending.asked_at) >= timers.commit_retry
            {
                pending.asked_at = now;
                overdue.unanswered.push(pending.commit);
            }
        }
        still.retain(|id| self.is_still_within_limits(now, timers, *id, &limit_of));
        overdue.stalled = still;
        overdue
    }

    /// Whether a repair stands still for longer than the limits of its nodes explain.
    fn is_still_within_limits(
        &self,
        now: Time,
        timers: &Timers,
        id: RepairId,
        limit_of: impl Fn(NodeId) -> Option<u64>,
    ) -> bool {
        let Some(rebuild) = self.get(id).and_then(Attempt::rebuild) else { return false };
        let flight = self.flight(rebuild.planned.plan.participants(), limit_of);
        let longest = |flight| timers.stall_after.times(STALLS_LIMITED).max(flight);
        flight.map(longest).is_none_or(|longest| now.since(rebuild.progressed_at) > longest)
    }
}
