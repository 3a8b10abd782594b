//! What operators see: what is at risk, what runs, what waits and why.
//!
//! Place: beside the whole life of a repair; it only looks.
//!
//! What can be read is said in one place, for clusters and for objects: a chunk can be read when it
//! is not lost, its node is up and nobody failed to read it since it was last read well. A node
//! that is silent may come back with all that it holds; no repair reads from it until then, and it
//! is not counted on here, though a client may still reach its agent.

use std::collections::BTreeSet;

use super::{Coordinator, margin};
use crate::event::{Blocked, Health, NodeStatus, ScrubStatus, Status, StripeState};
use crate::id::{ChunkCopy, ChunkIndex, NodeId, StripeId};
use crate::stripe::Stripe;

/// Copies that could not be read are named up to so many: enough to see what they have in common.
const UNREAD_SHOWN: usize = 8;

impl Coordinator {
    /// What is at risk, what runs, what waits and why.
    pub fn status(&self) -> Status {
        let blocked = self.trouble.iter();
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
            let margin = margin(stripe, lost.len()) as usize;
            status.at_risk.resize(status.at_risk.len().max(margin + 1), 0);
            status.at_risk[margin] += 1;
            let blocked = self.trouble.get(&stripe.id).and_then(|t| t.blocked.as_ref());
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
        let is_expected = |&(node, copy): &(NodeId, ChunkCopy)| {
            let stripe = self.stripes.get(copy.stripe);
            let is_location = stripe.is_some_and(|s| s.copy(copy.chunk) == Some((node, copy)));
            is_location && !self.is_lost(copy.stripe, copy.chunk)
        };
        let unread: Vec<(NodeId, ChunkCopy)> = self.faults.unread().filter(is_expected).collect();
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
    /// nodes. Where these are never to come back, they are also needed for what could be read once
    /// all that failed are back.
    pub fn unreadable_without(&self, nodes: &[NodeId], for_ever: bool) -> Vec<StripeId> {
        let on_nodes = nodes.iter().flat_map(|node| self.stripes.on_node(*node));
        let stripes: BTreeSet<StripeId> = on_nodes.map(|stripe| stripe.id).collect();
        let needs_them = |id: &StripeId| {
            let Some(stripe) = self.stripes.get(*id) else { return false };
            let is_left = |chunk: &ChunkIndex| {
                stripe.copy(*chunk).is_none_or(|(node, _)| !nodes.contains(&node))
            };
            let last = if for_ever { self.returnable(stripe) } else { Vec::new() };
            [self.readable(stripe), self.expected(stripe), last].into_iter().any(|mut chunks| {
                let was_enough = stripe.code.decodable(&chunks);
                chunks.retain(is_left);
                was_enough && !stripe.code.decodable(&chunks)
            })
        };
        stripes.into_iter().filter(needs_them).collect()
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

    /// Chunks that could be read if every node came back, also those that failed.
    fn returnable(&self, stripe: &Stripe) -> Vec<ChunkIndex> {
        let is_returnable = |chunk: &ChunkIndex| {
            let record = stripe.record(*chunk);
            let is_there = record.node.is_some_and(|node| {
                self.health.is_failed(node) || !self.is_lost(stripe.id, *chunk)
            });
            record.is_known_zero() || is_there
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
        let unread = self.faults.unread().map(|(_, copy)| copy.stripe);
        let lost = self.lost.keys().copied();
        let mut stripes: Vec<StripeId> = lost.chain(silent).chain(unread).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes
    }

    /// How each node is, in their order.
    pub fn node_statuses(&self) -> Vec<NodeStatus> {
        let status = |(node, known): (_, &crate::health::NodeHealth)| NodeStatus {
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
