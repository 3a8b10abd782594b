//! A plan that goes on without some of its nodes, or asks less of one: lane by lane.
//!
//! Place: ... slices flow -> [a helper lags, or is lost] -> the rest of the slices flows another
//! way -> ...
//! What has come of a chunk is the beginning of each of its lanes. So every lane keeps its range
//! and its place among the lanes: a destination that has the first slices of a lane has the first
//! slices of what stands in its place, and only the others are sent.
//!
//! In a tree of sums a chunk that was not needed takes the place of one that is gone. Its holder
//! only sends, and what came to the other goes on to the next node; or what came to the other comes
//! to it, and it sends the sum on ([`StandIn`]). Where no chunk can, and in a gather, as many
//! others as the code takes send to one node: the decoder that there was, or the destination. A
//! gather of traces becomes one of whole chunks by that, because a scheme wants all of its helpers.
//!
//! Invariant: a plan that comes out is valid for the facts that went in. Knows nothing of links:
//! which of several helpers is better is given by their order.

use crate::id::{ChunkIndex, NodeId};
use crate::plan::content::{Content, Contents};
use crate::plan::validate::validate;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, StripeFacts};

/// A plan under way, and the nodes that may take part in what is left of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detour<'a> {
    /// The plan that is carried out.
    pub plan: &'a Plan,
    /// The stripe as it stood when that was made.
    pub facts: StripeFacts<'a>,
    /// Holders of surviving chunks that may be read in place of others, the best first.
    pub helpers: &'a [NodeId],
}

/// What a node does that stands in for another in a tree of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// It sends its own, and the next node receives what came to the other.
    Sends,
    /// It receives what came to the other, too.
    TakesOver,
}

impl Detour<'_> {
    /// The plan without these nodes. None where it takes them, or one of them keeps what it makes.
    pub fn around(&self, gone: &[NodeId], stand_in: StandIn) -> Option<Plan> {
        let is_gone = |node: &NodeId| gone.contains(node);
        if self.plan.destinations.values().any(is_gone) {
            return None;
        }
        self.change(|lane| {
            if lane.edges.iter().all(|edge| !is_gone(&edge.child) && !is_gone(&edge.parent)) {
                return Some(lane.clone());
            }
            let swapped = self.swapped(lane, gone, stand_in);
            swapped.or_else(|| self.gathered_without(lane, gone))
        })
    }

    /// The plan in which a destination receives what this node would have received. None where it
    /// receives nothing, or keeps what is made.
    pub fn relieving(&self, straggler: NodeId) -> Option<Plan> {
        if self.plan.destinations.values().any(|node| *node == straggler) {
            return None;
        }
        self.change(|lane| self.relieved(lane, straggler))
    }

    /// The plan with other lanes, where they differ and are valid.
    fn change(&self, change: impl Fn(&Lane) -> Option<Lane>) -> Option<Plan> {
        let lanes = self.plan.lanes.iter().map(change).collect::<Option<Vec<Lane>>>()?;
        if lanes == self.plan.lanes {
            return None;
        }
        let plan = Plan { lanes, ..self.plan.clone() };
        validate(&plan, &self.facts, usize::MAX).is_ok().then_some(plan)
    }

    /// A sum by the same tree, with others in the place of those that are gone.
    fn swapped(&self, lane: &Lane, gone: &[NodeId], stand_in: StandIn) -> Option<Lane> {
        if lane.decoder.is_some() || lane.copies(&self.facts) {
            return None;
        }
        let mut lane = lane.clone();
        for &node in gone {
            let Some(parent) = lane.parent(node) else { continue };
            // A node that only relays needs none in its place.
            let spare = match self.facts.chunk_on(node) {
                Some(chunk) => Some(self.spare(&lane, chunk)?),
                None => None,
            };
            lane.edges.retain(|edge| edge.child != node || spare.is_some());
            let receives = spare.filter(|_| stand_in == StandIn::TakesOver);
            for edge in &mut lane.edges {
                if edge.child == node {
                    edge.child = spare.unwrap_or(node);
                } else if edge.parent == node {
                    edge.parent = receives.unwrap_or(parent);
                }
            }
        }
        Some(lane)
    }

    /// A node with a chunk that can stand in for this one in the sum of a lane.
    fn spare(&self, lane: &Lane, chunk: ChunkIndex) -> Option<NodeId> {
        let takes_part =
            |node: NodeId| lane.edges.iter().any(|edge| edge.child == node || edge.parent == node);
        let mut others = lane.helpers(&self.facts);
        others.retain(|other| *other != chunk);
        let can_stand_in = |node: &NodeId| {
            let Some(spare) = self.facts.chunk_on(*node) else { return false };
            let mut helpers = [&others[..], &[spare]].concat();
            helpers.sort_unstable();
            let content = Content::of_repair(self.facts.code, &lane.lost, &helpers);
            content.is_ok_and(|content| content.is_sum)
        };
        let mut spares = self.helpers.iter().copied().filter(|node| !takes_part(*node));
        spares.find(can_stand_in)
    }

    /// A lane of the same range in which enough of those that are left send to one node.
    fn gathered_without(&self, lane: &Lane, gone: &[NodeId]) -> Option<Lane> {
        let is_left = |node: &NodeId| !gone.contains(node);
        let decoder = lane.decoder.filter(is_left);
        // Codes prefer those that come early: a decoder's own chunk is not sent, and those that
        // send by now are better than others.
        let own = decoder.and_then(|node| self.facts.chunk_on(node));
        let used = lane.helpers(&self.facts).into_iter();
        let used = used.filter(|chunk| self.holder(*chunk).is_some_and(|node| is_left(&node)));
        let others = self.helpers.iter().filter(|node| is_left(node));
        let others = others.filter_map(|node| self.facts.chunk_on(*node));
        let mut available: Vec<ChunkIndex> = Vec::new();
        for chunk in own.into_iter().chain(used).chain(others) {
            if !available.contains(&chunk) {
                available.push(chunk);
            }
        }
        let mut helpers = self.facts.code.helpers_for(&lane.lost, &available).ok()?;
        helpers.sort_unstable();
        let content = Content::of_repair(self.facts.code, &lane.lost, &helpers).ok()?;
        // A decoder that holds a chunk is a helper.
        let decoder = decoder.filter(|_| own.is_none_or(|own| helpers.contains(&own)));
        self.gathered(Lane { scheme: None, ..lane.clone() }, decoder, &content)
    }

    /// A lane in which a node receives nothing.
    fn relieved(&self, lane: &Lane, straggler: NodeId) -> Option<Lane> {
        if lane.edges.iter().all(|edge| edge.parent != straggler) {
            return Some(lane.clone());
        }
        if lane.decoder == Some(straggler) {
            let content = Contents::default().of_lane(lane, &self.facts).ok()?;
            return self.gathered(lane.clone(), None, &content);
        }
        let destination = *self.plan.destinations.get(lane.lost.first()?)?;
        let mut lane = lane.clone();
        if self.facts.chunk_on(straggler).is_none() {
            // It has nothing of its own to send.
            lane.edges.retain(|edge| edge.child != straggler);
        }
        let its = lane.edges.iter_mut().filter(|edge| edge.parent == straggler);
        its.for_each(|edge| edge.parent = destination);
        Some(lane)
    }

    /// The lane with these senders: into a decoder, which is its first destination where none is
    /// given, or there as a sum if that is all it takes.
    fn gathered(&self, lane: Lane, decoder: Option<NodeId>, content: &Content) -> Option<Lane> {
        let is_sum = decoder.is_none() && content.is_sum && lane.lost.len() == 1;
        let destination = |lost: &ChunkIndex| self.plan.destinations.get(lost).copied();
        let root = decoder.or_else(|| destination(lane.lost.first()?))?;
        let (lane_bytes, sub_chunks) =
            (self.plan.lane_bytes(&lane), u64::from(self.facts.code.sub_chunk_count()));
        let mut edges = Vec::new();
        for sender in &content.senders {
            let (child, sent) = (self.holder(sender.chunk)?, u64::from(sender.sent));
            let (carries, bytes) = match lane.scheme {
                Some(_) => (Carries::Traces, self.plan.trace_bytes(&lane, sent)),
                None if is_sum => (Carries::Partial, lane_bytes),
                None => (Carries::Combined, sent * lane_bytes / sub_chunks),
            };
            if child != root {
                edges.push(Edge { child, parent: root, bytes, carries });
            }
        }
        if !is_sum {
            let others = lane.lost.iter().filter_map(destination).filter(|node| *node != root);
            let (bytes, carries) = (lane_bytes, Carries::Finished);
            edges.extend(others.map(|parent| Edge { child: root, parent, bytes, carries }));
        }
        let decoder = (!is_sum).then_some(root);
        Some(Lane { mode: Mode::Streamed, decoder, edges, ..lane })
    }

    /// The node that holds a surviving chunk.
    fn holder(&self, chunk: ChunkIndex) -> Option<NodeId> {
        let mut survivors = self.facts.survivors.iter();
        survivors.find(|(survivor, _)| *survivor == chunk).map(|(_, node)| *node)
    }
}

#[cfg(test)]
mod tests;
