//! Whole chunks that are to be elsewhere, and nodes that may be silent for a while.
//!
//! Place: [failure detected -> stripes affected -> queue] -> plan -> ... -> stripe healthy.
//! An operator empties a node: each of its chunks gets another location like one that is lost, but
//! after all that is lost, and it can be read where it is until then. One chunk of a stripe moves
//! at a time, and none while the stripe lacks any. The copy that was left goes like any other in
//! excess, after the new one was read in full. A node that dies meanwhile is an ordinary failure.
//!
//! An operator pauses a node: while it is silent its chunks cannot be read, and are not lost; but
//! those of a stripe that could lose no more without them are, and stay so until they are listed.
//! Invariant: a chunk moves only while nothing of its stripe is lost.

use std::collections::BTreeSet;

use super::attempt::Rebuild;
use super::failure_history::FailureHistory;
use super::{Coordinator, margin};
use crate::cluster::NodeIntent;
use crate::event::{Liveness, Report};
use crate::id::{ChunkIndex, NodeId, StripeId};
use crate::message::ToAgent;
use crate::mutant::Mutant;
use crate::planner::Job;
use crate::queue::{MARGIN_OF_MOVES, Margin};
use crate::stripe::Stripe;
use crate::time::{Span, Time};

impl Coordinator {
    /// What the operator wanted of nodes before this coordinator began.
    pub(super) fn intend(&mut self, now: Time) {
        for node in self.config.draining.clone() {
            self.health.drain(now, node, 0);
        }
        for (node, span) in self.config.paused_nodes.clone() {
            self.health.pause(node, now + span);
        }
    }

    /// The chunks that nodes have that were being emptied before this coordinator began.
    pub(super) fn count_leaving(&mut self) {
        for node in self.config.draining.clone() {
            self.health.count_leaving(node, self.stripes.count_on(node) as u64);
        }
    }

    pub(super) fn drain(&mut self, now: Time, node: NodeId) {
        if self.health.drain(now, node, self.stripes.count_on(node) as u64) {
            self.end_moves_to(node);
            self.end_asked_to(node);
            self.intent_changed(node);
            self.report_drained(node);
        }
    }

    /// Chunks that move to a node would have to move once more.
    fn end_moves_to(&mut self, node: NodeId) {
        let running = self.ledger.running();
        let comes = running.filter(|(_, attempt)| {
            attempt.rebuild().is_some_and(|r| r.goals.iter().any(|g| g.destination == node))
        });
        let stripes: Vec<StripeId> = comes.map(|(_, attempt)| attempt.stripe()).collect();
        for stripe in stripes {
            if self.only_moves(stripe) {
                self.end_repair_of(stripe);
                self.settle(stripe);
            }
        }
    }

    /// What is still being claimed would begin on a node that is to be given nothing.
    fn end_asked_to(&mut self, node: NodeId) {
        let comes = |r: &Rebuild| r.goals.iter().any(|goal| goal.destination == node);
        let running = self.ledger.running();
        let asked = running.filter(|(_, attempt)| {
            attempt.rebuild().is_some_and(|rebuild| rebuild.is_asked() && comes(rebuild))
        });
        let stripes: Vec<StripeId> = asked.map(|(_, attempt)| attempt.stripe()).collect();
        for stripe in stripes {
            self.end_repair_of(stripe);
            self.enqueue(stripe, None);
        }
    }

    pub(super) fn pause_node(&mut self, now: Time, node: NodeId, span: Span) {
        if self.health.pause(node, now + span) {
            self.end_asked_to(node);
            self.intent_changed(node);
        }
    }

    pub(super) fn take_back(&mut self, now: Time, node: NodeId) {
        match self.health.take_back(now, node) {
            NodeIntent::Serving => {}
            NodeIntent::Failed => self.send(node, ToAgent::List),
            NodeIntent::Draining { .. } | NodeIntent::Paused { .. } => self.intent_changed(node),
        }
    }

    /// The intent for a node changes: what becomes of its chunks, and what may be planned.
    pub(super) fn intent_changed(&mut self, node: NodeId) {
        let stripes: Vec<StripeId> = self.stripes.on_node(node).map(|stripe| stripe.id).collect();
        for stripe in stripes {
            self.weigh(stripe);
            self.settle(stripe);
        }
        self.scrub.node_changed();
        self.disturb_rebalance();
        self.unplan_all();
        self.queue.wake_all();
    }

    /// The health of a node changed of which the operator wants something.
    pub(super) fn settle_chunks_on(&mut self, node: NodeId) {
        let is_wanted = match self.health.get(node).intent {
            NodeIntent::Draining { .. } | NodeIntent::Paused { .. } => true,
            NodeIntent::Serving | NodeIntent::Failed => false,
        };
        if is_wanted {
            self.intent_changed(node);
        }
    }

    /// Nodes that are silent now and would be taken for dead.
    pub(super) fn silent(&self) -> Vec<NodeId> {
        match self.config.liveness {
            Liveness::Own => self.health.silent(self.now).collect(),
            Liveness::Keeper => Vec::new(),
        }
    }

    /// Takes every node for dead that is silent now.
    pub(super) fn give_up_silent(&mut self, now: Time) {
        for node in self.silent() {
            self.health.give_up(node);
            self.health_changed(now, node);
        }
    }

    /// Whatever waits is tried now, and what it has waited for is reported anew where it still
    /// does.
    pub(super) fn try_again(&mut self) {
        self.queue.wake_all();
        self.failures.values_mut().for_each(FailureHistory::forget_reason);
    }

    /// Puts a stripe among the most urgent, with what silent nodes hold of it.
    pub(super) fn repair_now(&mut self, id: StripeId) {
        let Some(stripe) = self.stripes.get(id) else { return };
        let missing: Vec<ChunkIndex> =
            self.silent().into_iter().filter_map(|node| stripe.chunk_on(node)).collect();
        missing.into_iter().for_each(|chunk| self.lose(id, chunk));
        if self.lost.contains_key(&id) {
            self.wanted.insert(id);
            self.failures.get_mut(&id).into_iter().for_each(FailureHistory::forget_reason);
            self.unplan(id);
            self.enqueue(id, None);
        }
    }

    /// Counts what is away of a stripe as lost, if it could lose no more without.
    fn weigh(&mut self, id: StripeId) {
        let Some(stripe) = self.stripes.get(id) else { return };
        let mut lost = self.lost.get(&id).cloned().unwrap_or_default();
        let before = lost.len();
        self.count_away(stripe, &mut lost);
        if lost.len() > before {
            self.set_lost(id, lost);
        }
    }

    /// Adds to the lost chunks of a stripe those that are away, where it could lose no more.
    pub(super) fn count_away(&self, stripe: &Stripe, lost: &mut BTreeSet<ChunkIndex>) {
        let away: Vec<ChunkIndex> = self.away(stripe, lost).collect();
        let is_at_risk = lost.len() + away.len() >= stripe.code.loss_tolerance();
        if !away.is_empty() && is_at_risk && !self.ledger.mistake.is(Mutant::WaitAtRisk) {
            lost.extend(away);
        }
    }

    /// What is away of a stripe besides its `lost` chunks.
    fn away(
        &self,
        stripe: &Stripe,
        lost: &BTreeSet<ChunkIndex>,
    ) -> impl Iterator<Item = ChunkIndex> {
        let is_away = move |chunk: &ChunkIndex| {
            let copy = stripe.copy(*chunk);
            !lost.contains(chunk) && copy.is_some_and(|at| self.health.is_away(at.node))
        };
        stripe.indices().filter(is_away)
    }

    /// How many more chunks a stripe can lose that lacks some, as long as what is away is away.
    pub(super) fn margin_without(&self, stripe: &Stripe, lost: &BTreeSet<ChunkIndex>) -> Margin {
        margin(stripe, lost.len() + self.away(stripe, lost).count())
    }

    /// Gives a stripe its place in the queue by what it lacks and what is to move, or takes it out.
    pub(super) fn settle(&mut self, id: StripeId) {
        self.touched.push(id);
        if self.urgency(id).is_some() {
            return self.enqueue(id, None);
        }
        if self.only_moves(id) {
            self.end_repair_of(id);
        }
        self.unplan(id);
        self.queue.take(id);
        self.failures.remove(&id);
    }

    /// By which margin a stripe is queued; `None` where nothing is to be done.
    pub(super) fn urgency(&self, id: StripeId) -> Option<Margin> {
        let stripe = self.stripes.get(id)?;
        match self.lost.get(&id) {
            Some(_) if self.wanted.contains(&id) => Some(0),
            Some(lost) => Some(self.margin_without(stripe, lost)),
            None => self.leaving(stripe).map(|_| MARGIN_OF_MOVES),
        }
    }

    /// The next chunk of a stripe that is to move, and the node that has it.
    fn leaving(&self, stripe: &Stripe) -> Option<(ChunkIndex, NodeId)> {
        let located = |chunk| stripe.copy(chunk).map(|at| (chunk, at.node));
        let mut chunks = stripe.indices().filter_map(located);
        chunks
            .find(|(chunk, node)| self.health.is_emptied(*node) && !self.is_lost(stripe.id, *chunk))
            .or_else(|| self.rebalance.of(stripe.id))
    }

    /// Whether the running repair of a stripe only moves what is not lost, and can be ended.
    pub(super) fn only_moves(&self, stripe: StripeId) -> bool {
        let Some((_, attempt)) = self.ledger.repair_of(stripe) else { return false };
        let is_lost = |chunk: ChunkIndex| self.is_lost(stripe, chunk);
        let moves = attempt.rebuild().is_some_and(|r| r.goals.iter().all(|g| !is_lost(g.chunk)));
        moves && !attempt.is_committing()
    }

    /// Whether the running repair of a stripe that lacks chunks moves another one.
    pub(super) fn moves_first(&self, stripe: StripeId) -> bool {
        self.only_moves(stripe) && !self.ledger.mistake.is(Mutant::MoveFirst)
    }

    /// Stripes of which something is lost or to move.
    pub(super) fn wanting(&self) -> BTreeSet<StripeId> {
        let nodes = self.health.iter().map(|(node, _)| node);
        let emptied = nodes.filter(|node| self.health.is_emptied(*node));
        let leaving = emptied.flat_map(|node| self.stripes.on_node(node));
        leaving.map(|stripe| stripe.id).chain(self.lost.keys().copied()).collect()
    }

    /// The chunks that a node should hold, each with its stripe.
    pub(super) fn chunks_on(&self, node: NodeId) -> impl Iterator<Item = (&Stripe, ChunkIndex)> {
        let stripes = self.stripes.on_node(node);
        stripes.filter_map(move |stripe| Some((stripe, stripe.chunk_on(node)?)))
    }

    /// Whether some of the chunks that a node should hold count as lost.
    pub(super) fn lacks_chunks_of(&self, node: NodeId) -> bool {
        self.chunks_on(node).any(|(stripe, chunk)| self.is_lost(stripe.id, chunk))
    }

    /// The question for the planner about a chunk that is to move. Every other attempt does without
    /// a copy: its holder may be what failed.
    pub(super) fn move_job(&self, stripe: &Stripe) -> Option<Job> {
        let (chunk, holder) = self.leaving(stripe)?;
        let gone = BTreeSet::from([chunk]);
        let survivors: Vec<(ChunkIndex, NodeId)> = self.survivors(stripe, &gone).collect();
        let others = stripe.indices().filter(|other| *other != chunk);
        let others: Vec<(ChunkIndex, NodeId)> =
            others.filter_map(|other| Some((other, stripe.copy(other)?.node))).collect();
        let idle = others.iter().filter(|other| !survivors.contains(other));
        let attempts = self.failures.get(&stripe.id).map_or(0, |history| history.attempts);
        Some(Job {
            keeper_places: self.even_places(stripe, &gone, 1),
            excluded: others.iter().map(|(_, node)| *node).chain([holder]).collect(),
            stripe: stripe.id,
            code: stripe.shortened(),
            chunk_bytes: stripe.reach(&[chunk]),
            lost: vec![chunk],
            idle: idle.map(|(_, node)| *node).collect(),
            survivors,
            avoid: self.avoided(stripe.id),
            source: attempts.is_multiple_of(2).then_some(holder),
        })
    }

    /// Reports it if the node is being emptied and nothing is recorded there any more.
    pub(super) fn report_drained(&mut self, node: NodeId) {
        if self.health.is_draining(node) && self.stripes.count_on(node) == 0 {
            self.report(Report::Drained(node));
        }
    }
}
