//! How running repairs get on, as agents report it, and what stands still.
//!
//! Place: ... dispatch -> [slices flow -> chunk durable -> commit location] -> stripe healthy.
//! Nothing here begins or ends a repair: that is `ledger.rs`.

use crate::coordinator::attempt::{Attempt, ClaimState, Proof, Rebuild};
use crate::coordinator::ledger::{Ledger, Scene};
use crate::event::{Claim, Commit, Timers};
use crate::id::{NodeId, RepairId, StripeId};
use crate::schedule::{Directive, EdgeRelease, furthest_behind};
use crate::throttle::{self, Direction, NodeLimits, STALLS_LIMITED};
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
    /// Repairs whose claims were granted, and are to be prolonged.
    pub granted: Vec<RepairId>,
}

impl Ledger {
    /// A participant has reported how far it is. Returns whether the repair runs.
    pub fn reported(&mut self, now: Time, repair: RepairId, node: NodeId, bytes_done: u64) -> bool {
        let Some(attempt) = self.running.get_mut(&repair) else { return false };
        if let Attempt::Rebuild(rebuild) = attempt {
            rebuild.note_come(node, bytes_done);
            // A report that nothing has come counts as well, if it is the destination's.
            let keeps = rebuild.goals.iter().any(|goal| goal.destination == node);
            if let Some(active) = self.active.get_mut(&repair) {
                if active.report(node, bytes_done) {
                    rebuild.progressed_at = now;
                    self.moved_at.insert(node, now);
                }
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

    /// The helper for which all of a repair waits, by what its participants last reported; `None`
    /// where that does not show.
    pub fn furthest_behind(&self, repair: RepairId) -> Option<NodeId> {
        furthest_behind(self.active.get(&repair)?)
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

    /// A plan of a stripe did not take the place of that of a running repair, and `may_later` where
    /// only memory was missing.
    pub fn refused(&mut self, repair: RepairId, stripe: StripeId, may_later: bool) {
        self.schedule.refused(repair, stripe, may_later);
    }

    /// When the schedule is to be asked although nothing has happened.
    pub fn schedule_deadline(&mut self, scene: Scene) -> Option<Time> {
        self.consult(scene, |schedule, snapshot| schedule.next_deadline(snapshot))
    }

    /// How long all slices under way at a node take in one direction, by the limit of repair there;
    /// `None` where it has none.
    pub fn flight(&self, node: NodeId, direction: Direction, limits: NodeLimits) -> Option<Span> {
        let limit = limits.of(direction)?.limit;
        Some(throttle::flight(self.budget.pool(node).reserved, limit))
    }

    /// Repairs that stand still, and unanswered commits, which count as asked again. Where repair
    /// is limited, what flows may take longer.
    pub fn overdue(
        &mut self,
        now: Time,
        timers: &Timers,
        limits_of: impl Fn(NodeId) -> NodeLimits,
    ) -> Overdue {
        self.note_limited(now, timers, limits_of);
        let mut overdue = Overdue::default();
        let is_held = |id: &RepairId| self.active.get(id).is_some_and(|active| active.is_held);
        let waits = |id: &RepairId| self.edges.as_ref().is_some_and(|edges| edges.is_waiting(*id));
        for (id, attempt) in &mut self.running {
            if let Attempt::Rebuild(rebuild) = attempt {
                let stalls = if rebuild.is_publishing() { PUBLISH_STALLS } else { 1 };
                let limit = timers.stall_after.times(stalls);
                let is_still = now.since(rebuild.progressed_at.max(rebuild.limited_at)) > limit;
                if let ClaimState::Asked { claim, asked_at, .. } = &mut rebuild.claim {
                    if now.since(*asked_at) >= timers.commit_retry {
                        *asked_at = now;
                        overdue.unclaimed.push(claim.clone());
                    }
                    continue;
                }
                let is_committing = rebuild.is_committing();
                if let ClaimState::Granted { asked_at, is_lost, .. } = &mut rebuild.claim
                    && !is_committing
                {
                    let every = if *is_lost { timers.commit_retry } else { timers.claim_prolong };
                    if now.since(*asked_at) >= every {
                        *asked_at = now;
                        overdue.granted.push(*id);
                    }
                }
                if is_still && rebuild.is_transferring() && !is_held(id) && !waits(id) {
                    overdue.stalled.push(*id);
                }
            }
            if let Some(pending) = attempt.pending_mut()
                && now.since(pending.asked_at) >= timers.commit_retry
            {
                pending.asked_at = now;
                overdue.unanswered.push(pending.commit);
            }
        }
        overdue
    }

    /// Records of what the limits of its nodes explain that it stands still: it begins to stall
    /// when they do no more.
    fn note_limited(
        &mut self,
        now: Time,
        timers: &Timers,
        limits_of: impl Fn(NodeId) -> NodeLimits,
    ) {
        let ids: Vec<RepairId> = self.running.keys().copied().collect();
        for id in ids {
            if self.limited_until(id, timers, &limits_of).is_some_and(|until| now <= until) {
                let rebuild = self.running.get_mut(&id).and_then(Attempt::rebuild_mut);
                rebuild.expect("it has a plan").limited_at = now;
            }
        }
    }

    /// Until when the limits of its nodes explain that nothing of a repair flows; `None` where its
    /// edges have none, and of what has come in full.
    fn limited_until(
        &self,
        id: RepairId,
        timers: &Timers,
        limits_of: impl Fn(NodeId) -> NodeLimits,
    ) -> Option<Time> {
        let rebuild = self.get(id)?.rebuild()?;
        let edges = rebuild.planned.plan.lanes.iter().flat_map(|lane| &lane.edges);
        let ports = edges
            .flat_map(|edge| [(edge.child, Direction::Up), (edge.parent, Direction::Down)])
            .filter(|_| !rebuild.is_publishing());
        let flight = |(node, direction)| self.flight(node, direction, limits_of(node));
        let flight = ports.filter_map(flight).max()?;
        Some(rebuild.progressed_at + timers.stall_after.times(STALLS_LIMITED).max(flight))
    }
}
