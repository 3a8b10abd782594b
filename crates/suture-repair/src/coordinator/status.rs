//! What operators see: what is at risk, what runs, what waits and why.
//!
//! Place: beside the whole life of a repair; it only looks.
//!
//! What can be read is decided in one place, for clusters and for objects: a chunk can be read when
//! it is not lost, its node is up and no read of it has failed since it was last read well. A node
//! that is silent may come back with all that it holds; no repair reads from it until then, and it
//! is not counted on here, though a client may still reach its agent.

use std::collections::BTreeSet;

use super::Coordinator;
use crate::cluster::NodeIntent;
use crate::event::{Blocked, Health, NodeStatus, ScrubStatus, Status, StripeState};
use crate::health::NodeHealth;
use crate::id::{ChunkIndex, CopyAt, NodeId, StripeId};
use crate::stripe::Stripe;

/// Copies that could not be read are named up to so many: enough to see what they have in common.
const UNREAD_SHOWN: usize = 8;

/// How nodes are to be without which data may not be readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// What they hold counts as lost; they can be taken back with all of it.
    Failed,
    /// They may be silent, and come back.
    Paused,
    /// New stores get their names, and what they hold is never to come back.
    Replaced,
}

impl Coordinator {
    /// What is at risk, what runs, what waits and why.
    pub fn status(&self) -> Status {
        let blocked = self.failures.iter();
        let mut status = Status {
            paused: self.config.paused,
            queued: (self.queue.len() + self.ledger.waiting().len()) as u64,
            repaired_chunks: self.repaired_chunks,
            repaired_bytes: self.repaired_bytes,
            running: self.ledger.running().flat_map(|(id, attempt)| attempt.lines(id)).collect(),
            blocked: blocked.filter_map(|(s, t)| Some((*s, t.blocked.clone()?))).collect(),
            nodes: self.node_statuses(),
            scrub: self.scrub_status(),
            throttle: self.throttle_status(),
            rebalance: self.rebalance_status(),
            crowded: self.crowded(),
            ..Status::default()
        };
        for stripe in self.stripes_that_lack_chunks() {
            let Some(stripe) = self.stripes.get(stripe) else { continue };
            let state = self.stripe_state(stripe);
            status.degraded += u64::from(state.missing > 0);
            status.unreadable += u64::from(!state.is_readable);
        }
        let draining = self.health.iter().map(|(node, _)| node);
        for node in draining.filter(|node| self.health.is_draining(*node)) {
            for (stripe, chunk) in self.chunks_on(node) {
                if !self.is_lost(stripe.id, chunk) {
                    status.leaving_chunks += 1;
                    status.leaving_bytes += stripe.record(chunk).bytes;
                }
            }
        }
        for (stripe, lost) in &self.lost {
            let Some(stripe) = self.stripes.get(*stripe) else { continue };
            let margin = self.margin_without(stripe, lost) as usize;
            status.at_risk.resize(status.at_risk.len().max(margin + 1), 0);
            status.at_risk[margin] += 1;
            let blocked = self.failures.get(&stripe.id).and_then(|t| t.blocked.as_ref());
            if blocked.is_some_and(Blocked::is_unrepairable) {
                status.beyond += u64::from(margin == 0);
                continue;
            }
            let bytes: u64 = lost.iter().map(|chunk| stripe.record(*chunk).bytes).sum();
            let chunks = lost.len() as u64;
            status.lost_chunks += chunks;
            status.lost_bytes += bytes;
            if blocked.is_some_and(|why| !why.ends_by_itself()) {
                status.stuck_chunks += chunks;
                status.stuck_bytes += bytes;
            }
        }
        status
    }

    /// How far copies are searched for damage, and which of them could not be read.
    fn scrub_status(&self) -> ScrubStatus {
        let is_expected = |at: &CopyAt| {
            let (id, chunk) = (at.copy.stripe, at.copy.chunk);
            let stripe = self.stripes.get(id);
            let is_location = stripe.is_some_and(|stripe| stripe.copy(chunk) == Some(*at));
            is_location && !self.is_lost(id, chunk)
        };
        let unread: Vec<CopyAt> = self.faults.unread().filter(is_expected).collect();
        ScrubStatus {
            unread: unread.len() as u64,
            unread_first: unread.into_iter().take(UNREAD_SHOWN).collect(),
            ..self.scrub.status(self.now, self.stripes.len() as u64)
        }
    }

    /// What can be read now of a stripe, as the keeper has it.
    pub fn stripe_state(&self, stripe: &Stripe) -> StripeState {
        let readable = self.readable(stripe);
        StripeState {
            missing: stripe.chunks.len() - readable.len(),
            readable_bytes: readable.iter().map(|chunk| stripe.record(*chunk).bytes).sum(),
            is_readable: stripe.code.decodable(&readable),
            is_consistent: self.scrub.is_consistent(stripe.id),
        }
    }

    /// The chunks of a stripe that can be read now.
    fn readable(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let is_readable = |chunk: &ChunkIndex| {
            let record = stripe.record(*chunk);
            let is_there = record.node.is_some_and(|node| self.health.is_up(node));
            let is_unread = || stripe.copy(*chunk).is_some_and(|copy| self.faults.is_unread(copy));
            record.is_known_zero() || is_there && !self.is_lost(stripe.id, *chunk) && !is_unread()
        };
        stripe.indices().filter(is_readable).collect()
    }

    /// Stripes that can be read, or could once silent nodes are back, and could not without these
    /// nodes and all that are away besides: those whose names were `given_away` to new stores,
    /// those that are paused, though they may be up, and those that fell silent while they were
    /// emptied. So what cannot be done at once cannot be done one by one either. Where the nodes
    /// are never to come back, they are also needed for what could be read once all that failed
    /// are back.
    pub fn unreadable_without(
        &self,
        nodes: &[NodeId],
        given_away: &[NodeId],
        absence: Absence,
    ) -> Vec<StripeId> {
        let on_nodes = nodes.iter().flat_map(|node| self.stripes.on_node(*node));
        let stripes: BTreeSet<StripeId> = on_nodes.map(|stripe| stripe.id).collect();
        let gone: BTreeSet<NodeId> = nodes.iter().chain(given_away).copied().collect();
        let away: BTreeSet<NodeId> = gone.iter().copied().chain(self.paused_nodes()).collect();
        let later = match absence {
            // What they hold counts as lost, and is rebuilt once those are back that rest.
            Absence::Failed => &gone,
            Absence::Paused | Absence::Replaced => &away,
        };
        let needs_them = |id: &StripeId| {
            let Some(stripe) = self.stripes.get(*id) else { return false };
            let needs = |chunks: &[ChunkIndex], without: &BTreeSet<NodeId>| {
                self.needs(stripe, chunks, nodes, without)
            };
            needs(&self.readable(stripe), &away)
                || needs(&self.expected(stripe), later)
                || absence == Absence::Replaced && needs(&self.returnable(stripe), &gone)
        };
        stripes.into_iter().filter(needs_them).collect()
    }

    /// Nodes that may go at any moment, or have gone, by an operator's word.
    fn paused_nodes(&self) -> impl Iterator<Item = NodeId> {
        let is_paused = |known: &NodeHealth| match known.intent {
            NodeIntent::Paused { .. } => true,
            // While it is up it can be read, until each of its chunks is elsewhere.
            NodeIntent::Draining { .. } => known.health != Health::Up,
            NodeIntent::Serving | NodeIntent::Failed => false,
        };
        self.health.iter().filter(move |(_, known)| is_paused(known)).map(|(node, _)| node)
    }

    /// Whether these chunks are enough for the stripe, some of them on `nodes`, and those that are
    /// left `without` all that is away, and listed where they should be, are not.
    fn needs(
        &self,
        stripe: &Stripe,
        chunks: &[ChunkIndex],
        nodes: &[NodeId],
        without: &BTreeSet<NodeId>,
    ) -> bool {
        let is_theirs =
            |chunk: &ChunkIndex| stripe.copy(*chunk).is_some_and(|at| nodes.contains(&at.node));
        let is_left = |chunk: &ChunkIndex| {
            let copy = stripe.copy(*chunk);
            copy.is_none_or(|at| !without.contains(&at.node) && !self.is_unlisted(at))
        };
        let left: Vec<ChunkIndex> = chunks.iter().copied().filter(is_left).collect();
        let is_enough = |chunks: &[ChunkIndex]| stripe.code.decodable(chunks);
        chunks.iter().any(is_theirs) && is_enough(chunks) && !is_enough(&left)
    }

    /// Whether this copy was not among what the node listed, or that is still to come: it may have
    /// another store by now, or have lost the copy.
    fn is_unlisted(&self, CopyAt { node, copy }: CopyAt) -> bool {
        let unlisted = self.unlisted.get(&node);
        unlisted.is_some_and(|copies| copies.as_ref().is_none_or(|copies| copies.contains(&copy)))
    }

    /// Whether the store that a node has now has listed what it holds, to this coordinator.
    pub fn has_listed(&self, node: NodeId) -> bool {
        self.unlisted.get(&node).is_some_and(Option::is_some)
    }

    /// Whether that was all that it should hold.
    pub fn holds_all(&self, node: NodeId) -> bool {
        let unlisted = self.unlisted.get(&node).and_then(Option::as_ref);
        unlisted.is_some_and(BTreeSet::is_empty)
    }

    /// Which incarnation of its agent has introduced itself last at a node, if any has.
    pub fn incarnation(&self, node: NodeId) -> Option<u64> {
        self.health.get(node).hello.map(|hello| hello.incarnation)
    }

    /// Chunks that can be read, or could be once all nodes are back that are not given up.
    fn expected(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let is_expected = |chunk: &ChunkIndex| {
            let record = stripe.record(*chunk);
            let is_there = record.node.is_some_and(|node| !self.health.is_failed(node));
            record.is_known_zero() || is_there && !self.is_lost(stripe.id, *chunk)
        };
        stripe.indices().filter(is_expected).collect()
    }

    /// Chunks that could be read if every node came back, also those that failed, but for those
    /// that are known to be gone there.
    fn returnable(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let is_returnable = |chunk: &ChunkIndex| {
            let is_there = stripe.copy(*chunk).is_some_and(|at| {
                let is_gone = self.faults.is_bad(at) || self.is_unlisted(at);
                let may_return = self.health.is_failed(at.node) && !is_gone;
                may_return || !self.is_lost(stripe.id, *chunk)
            });
            stripe.record(*chunk).is_known_zero() || is_there
        };
        stripe.indices().filter(is_returnable).collect()
    }

    /// Stripes with chunks on these nodes for which too few others are up and take chunks.
    pub fn stuck_without(&self, nodes: &[NodeId]) -> Vec<StripeId> {
        let on_nodes = nodes.iter().flat_map(|node| self.stripes.on_node(*node));
        let stripes: BTreeSet<StripeId> = on_nodes.map(|stripe| stripe.id).collect();
        let is_stuck = |id: &StripeId| {
            let Some(stripe) = self.stripes.get(*id) else { return false };
            let leaving = nodes.iter().filter(|node| stripe.chunk_on(**node).is_some()).count();
            let takes = |node: &NodeId| {
                let is_other = !nodes.contains(node) && stripe.chunk_on(*node).is_none();
                is_other && self.health.takes_chunks(*node)
            };
            self.ledger.cluster().ids().filter(takes).take(leaving).count() < leaving
        };
        stripes.into_iter().filter(is_stuck).collect()
    }

    /// Stripes with lost chunks, with chunks on nodes that are not up, or with such as could not be
    /// read; each once.
    fn stripes_that_lack_chunks(&self) -> Vec<StripeId> {
        let nodes = self.health.iter().filter(|(_, known)| known.health != Health::Up);
        let silent = nodes.flat_map(|(node, _)| self.stripes.on_node(node).map(|s| s.id));
        let unread = self.faults.unread().map(|at| at.copy.stripe);
        let lost = self.lost.keys().copied();
        let mut stripes: Vec<StripeId> = lost.chain(silent).chain(unread).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes
    }

    /// How each node is, in their order.
    pub fn node_statuses(&self) -> Vec<NodeStatus> {
        let status = |(node, known): (_, &NodeHealth)| NodeStatus {
            node,
            health: known.health,
            intent: known.intent,
            free_bytes: known.free_bytes,
            disk: known.disk,
            is_cut_off: known.is_cut_off,
            chunks: self.stripes.count_on(node) as u64,
            limits: self.throttle.limits(node),
            links: self.rates.status(node),
        };
        self.health.iter().map(status).collect()
    }
}
