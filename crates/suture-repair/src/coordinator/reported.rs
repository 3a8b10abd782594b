//! A node speaks, and what follows from how it is now.
//!
//! Place: [failure detected -> stripes affected] -> queue -> plan -> ...
//! A node that speaks is there, unless its disk hangs or no other node can reach it: such a node
//! can do nothing for any other, and counts as silent (`health.rs`). What follows is the same
//! whether a node spoke, fell silent or was declared failed.

use super::Coordinator;
use crate::event::{Health, Report};
use crate::id::{ChunkIndex, NodeId, StripeId};
use crate::message::{DiskState, FromAgent, LinkReport, ToAgent};
use crate::mutant::Mutant;
use crate::stripe::Stripe;
use crate::time::Time;

impl Coordinator {
    /// An agent has sent a message.
    pub(super) fn reported(&mut self, now: Time, node: NodeId, message: &FromAgent) {
        if let FromAgent::Heartbeat(beat) = message {
            let before = self.health.get(node).disk;
            self.health.disk_is(node, beat);
            if before != DiskState::Good && self.health.get(node).disk == DiskState::Good {
                self.wake_for_space(node, 0);
            }
        }
        if let Some(is_cut_off) = self.health.check_reach(now, node) {
            self.report(Report::CutOff { node, is_cut_off });
        }
        let left = self.health.reported(now, node);
        if left.is_some() {
            self.health_changed(now, node);
        }
        if left == Some(Health::Failed) {
            // Its copies count again once it has listed them.
            self.send(node, ToAgent::List);
        } else if left == Some(Health::Suspect) && self.lacks_chunks_of(node) {
            self.send(node, ToAgent::List);
        }
    }

    /// A node had so much space `before`, or none where its disk could not be written. What has
    /// waited for what it has now is tried again at once.
    pub(super) fn wake_for_space(&mut self, node: NodeId, before: u64) {
        let free_bytes = self.health.get(node).free_bytes;
        if free_bytes <= before || !self.health.takes_chunks(node) {
            return;
        }
        let load = self.ledger.load().nodes().get(node.index());
        let coming = load.map_or(0, |load| load.disk_write_bytes);
        let [before, after] = [before, free_bytes].map(|bytes| bytes.saturating_sub(coming));
        if before >= self.stripes.longest_chunk() {
            // Each chunk could be kept before. All that waits is walked below, which may be much.
            return;
        }
        let is_enough = |stripe: &Stripe| {
            let Some(lost) = self.lost.get(&stripe.id) else { return false };
            let may_keep = stripe.chunk_on(node).is_none_or(|chunk| lost.contains(&chunk));
            let lost: Vec<ChunkIndex> = lost.iter().copied().collect();
            may_keep && (before + 1..=after).contains(&stripe.reach(&lost))
        };
        let waiting = self.failures.iter().filter(|(_, history)| history.may_lack_space(node));
        let stripes = waiting.filter_map(|(id, _)| self.stripes.get(*id));
        let stripes = stripes.filter(|stripe| is_enough(stripe)).map(|stripe| stripe.id);
        let stripes: Vec<StripeId> = stripes.collect();
        stripes.into_iter().for_each(|stripe| self.enqueue(stripe, None));
    }

    /// Whether no other agent can reach the node, though it speaks.
    pub fn is_cut_off(&self, node: NodeId) -> bool {
        self.health.get(node).is_cut_off
    }

    /// An agent has tried to reach others.
    pub(super) fn tried(&mut self, now: Time, by: NodeId, report: &LinkReport) {
        let is_known = |node: &&NodeId| node.index() < self.ledger.cluster().nodes.len();
        let known = |nodes: &[NodeId]| nodes.iter().filter(is_known).copied().collect::<Vec<_>>();
        let (reached, unreached) = (known(&report.reached), known(&report.unreached));
        unreached.into_iter().for_each(|node| self.health.unreached(now, node, by));
        reached.into_iter().for_each(|node| self.health.reached(node));
    }

    /// A node can be used again, or no more, or its chunks are lost.
    pub(super) fn health_changed(&mut self, now: Time, node: NodeId) {
        let health = self.health(node);
        let mut chunks = 0;
        if health == Health::Failed {
            self.rates.gone(node);
        }
        if health == Health::Failed && !self.ledger.mistake.is(Mutant::TrustFailedNode) {
            let stripes: Vec<StripeId> = self.stripes.on_node(node).map(|s| s.id).collect();
            chunks = stripes.len() as u64;
            // What reads there goes on with what has come, where it can do without the node.
            self.leave(now, node);
            for stripe in stripes {
                let chunk = self.stripes.get(stripe).and_then(|s| s.chunk_on(node));
                self.lose(stripe, chunk.expect("it is on the node"));
            }
            self.end_repairs_with(now, node);
            self.work_lists.forget(node);
        }
        self.expect_back(now, node);
        self.settle_chunks_on(node);
        self.disturb_rebalance();
        match health {
            Health::Up => self.scrub.node_changed(),
            _ => self.scrub_without(node),
        }
        self.report(Report::Node { node, health, chunks });
        // Plans were made for another world, and what was blocked may now be possible.
        self.unplan_all();
        self.queue.wake_all();
    }
}
