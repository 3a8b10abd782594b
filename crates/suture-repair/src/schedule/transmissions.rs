//! The transmissions of all gated repairs: which could be released, which flow, what has arrived.
//!
//! Place: ... dispatch -> [which edges flow next] -> slices flow -> ...
//! A transmission is a whole chunk, or its part of a lane, on one edge. It waits for what its
//! sender sums, is then ready, flows once it is released, and has arrived in the end. Ready ones
//! are kept by sender and receiver, because that is how they are chosen: with f lost chunks there
//! are up to k f of them, but only as many pairs as the cluster has links. Invariant: ready are
//! exactly those of which nothing is missing and that were not released.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{NodeId, RepairId};
use crate::mutant::{Mistake, Mutant};
use crate::plan::Plan;

/// Leave for one edge of a gated repair, from `child` to `parent`, to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeRelease {
    /// The repair that it belongs to.
    pub repair: RepairId,
    /// The lane of its plan.
    pub lane: u16,
    /// The node that sends.
    pub child: NodeId,
    /// The node that receives.
    pub parent: NodeId,
}

/// A whole chunk, or a part of one, from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub lane: u16,
    pub child: NodeId,
    pub parent: NodeId,
    pub bytes: u64,
    has_arrived: bool,
}

/// Names a transmission: its repair, and its place among that repair's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TransmissionId {
    pub repair: RepairId,
    index: usize,
}

/// What is ready from one node to another.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pair {
    ready: BTreeSet<TransmissionId>,
    /// Those of them that are the last thing that their receiver waits for.
    last: BTreeSet<TransmissionId>,
}

#[derive(Debug, Default)]
pub(super) struct Transmissions {
    repairs: BTreeMap<RepairId, Vec<Transmission>>,
    /// Without pairs that have nothing ready.
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    released: BTreeMap<TransmissionId, Transmission>,
    pub mistake: Mistake,
}

/// The transmission of a pair that goes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub child: NodeId,
    pub parent: NodeId,
    /// Whether the receiver waits for nothing else, so that it can send next.
    pub is_last: bool,
    pub id: TransmissionId,
}

impl Transmissions {
    /// A gated repair was dispatched: what its leaves send is ready.
    pub fn started(&mut self, repair: RepairId, plan: &Plan) {
        let lanes = plan.lanes.iter().enumerate();
        let all = lanes.flat_map(|(index, lane)| {
            lane.edges.iter().map(move |edge| Transmission {
                lane: index as u16,
                child: edge.child,
                parent: edge.parent,
                bytes: edge.bytes,
                has_arrived: false,
            })
        });
        let all: Vec<Transmission> = all.collect();
        let is_leaf = |t: &Transmission| inputs_left(&all, t.child, t.lane) == 0;
        let leaves: Vec<usize> = (0..all.len()).filter(|&index| is_leaf(&all[index])).collect();
        self.repairs.insert(repair, all);
        leaves.into_iter().for_each(|index| self.make_ready(TransmissionId { repair, index }));
    }

    /// Notes that a transmission that flowed has arrived in full. Returns whether that is news.
    pub fn arrived(&mut self, edge: EdgeRelease) -> bool {
        let EdgeRelease { repair, lane, child, parent } = edge;
        let is_it = |t: &Transmission| (t.lane, t.child, t.parent) == (lane, child, parent);
        let mut released = self.released_of(repair);
        let Some(id) = released.find(|(_, t)| is_it(t)).map(|(id, _)| id) else { return false };
        drop(released);
        self.released.remove(&id);
        let all = self.repairs.get_mut(&repair).expect("what flows belongs to a repair");
        all[id.index].has_arrived = true;
        match inputs_left(all, parent, lane) {
            0 => {
                let next = |t: &Transmission| t.lane == lane && t.child == parent;
                let next: Vec<usize> = (0..all.len()).filter(|&i| next(&all[i])).collect();
                next.into_iter()
                    .for_each(|index| self.make_ready(TransmissionId { repair, index }));
            }
            1 => {
                let is_left =
                    |t: &Transmission| t.lane == lane && t.parent == parent && !t.has_arrived;
                let index = all.iter().position(is_left).expect("one is left");
                let pair = self.pairs.get_mut(&(all[index].child, parent));
                let id = TransmissionId { repair, index };
                if let Some(pair) = pair.filter(|pair| pair.ready.contains(&id)) {
                    pair.last.insert(id);
                }
            }
            _ => {}
        }
        true
    }

    /// Forgets a repair. Returns the nodes at both ends of what still flowed of it.
    pub fn ended(&mut self, repair: RepairId) -> Vec<NodeId> {
        let released: Vec<TransmissionId> = self.released_of(repair).map(|(id, _)| id).collect();
        let released = released.iter().filter_map(|id| self.released.remove(id));
        let ends = released.flat_map(|t| [t.child, t.parent]).collect();
        for (index, transmission) in self.repairs.remove(&repair).into_iter().flatten().enumerate()
        {
            self.take_ready(TransmissionId { repair, index }, transmission);
        }
        ends
    }

    /// Whether a repair has something to move and nothing of it flows.
    pub fn is_waiting(&self, repair: RepairId) -> bool {
        let waits = |all: &Vec<Transmission>| all.iter().any(|t| !t.has_arrived);
        self.repairs.get(&repair).is_some_and(waits) && self.released_of(repair).next().is_none()
    }

    /// What was released and has not arrived.
    pub fn released(&self) -> impl Iterator<Item = (TransmissionId, Transmission)> {
        self.released.iter().map(|(id, transmission)| (*id, *transmission))
    }

    pub fn is_anything_flowing(&self) -> bool {
        !self.released.is_empty()
    }

    pub fn is_anything_ready(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Of each pair of nodes the oldest that would make its receiver a leaf, or else the oldest.
    pub fn preferred(&self) -> impl Iterator<Item = Candidate> {
        self.pairs.iter().map(|(&(child, parent), pair)| {
            let last = pair.last.first();
            let id = last.or(pair.ready.first()).expect("empty pairs are removed");
            Candidate { child, parent, is_last: last.is_some(), id: *id }
        })
    }

    /// Of each pair of `child` and another node the oldest, ascending by the other.
    pub fn oldest_from(&self, child: NodeId) -> impl Iterator<Item = (NodeId, TransmissionId)> {
        let pairs = self.pairs.range((child, NodeId(0))..=(child, NodeId(u32::MAX)));
        pairs.filter_map(|(&(_, parent), pair)| Some((parent, *pair.ready.first()?)))
    }

    pub fn get(&self, id: TransmissionId) -> Transmission {
        self.repairs[&id.repair][id.index]
    }

    /// Lets ready transmissions flow, each with its siblings: a decoder makes all of its results
    /// together, so what it sends to several destinations flows together too, although that is
    /// more than a slot gives it. Returns all that begin to flow, in order.
    pub fn release(&mut self, chosen: &[TransmissionId]) -> BTreeMap<TransmissionId, Transmission> {
        let mut released = BTreeMap::new();
        for &TransmissionId { repair, index } in chosen {
            let all = &self.repairs[&repair];
            let Transmission { lane, child, .. } = all[index];
            let is_sibling = |t: &Transmission| t.lane == lane && t.child == child;
            let siblings = all.iter().enumerate().filter(|(_, t)| is_sibling(t));
            released.extend(siblings.map(|(index, t)| (TransmissionId { repair, index }, *t)));
        }
        for (&id, &transmission) in &released {
            if !self.mistake.is(Mutant::KeepReady) {
                self.take_ready(id, transmission);
            }
            self.released.insert(id, transmission);
        }
        released
    }

    /// # Panics
    /// Something else is ready than that of which nothing is missing and that was not released.
    pub fn assert_invariants(&self) {
        let mut pairs: BTreeMap<(NodeId, NodeId), Pair> = BTreeMap::new();
        for (&repair, all) in &self.repairs {
            for (index, t) in all.iter().enumerate() {
                let id = TransmissionId { repair, index };
                let has_begun = t.has_arrived || self.released.contains_key(&id);
                if has_begun || inputs_left(all, t.child, t.lane) > 0 {
                    continue;
                }
                let pair = pairs.entry((t.child, t.parent)).or_default();
                pair.ready.insert(id);
                if inputs_left(all, t.parent, t.lane) == 1 {
                    pair.last.insert(id);
                }
            }
        }
        assert_eq!(
            self.pairs, pairs,
            "edges: those that are ready, and that nothing is missing of"
        );
    }

    fn released_of(
        &self,
        repair: RepairId,
    ) -> impl Iterator<Item = (TransmissionId, &Transmission)> {
        let id = |index| TransmissionId { repair, index };
        self.released.range(id(0)..=id(usize::MAX)).map(|(id, transmission)| (*id, transmission))
    }

    fn make_ready(&mut self, id: TransmissionId) {
        let all = &self.repairs[&id.repair];
        let Transmission { lane, child, parent, .. } = all[id.index];
        let pair = self.pairs.entry((child, parent)).or_default();
        pair.ready.insert(id);
        if inputs_left(all, parent, lane) == 1 {
            pair.last.insert(id);
        }
    }

    fn take_ready(&mut self, id: TransmissionId, Transmission { child, parent, .. }: Transmission) {
        let Some(pair) = self.pairs.get_mut(&(child, parent)) else { return };
        pair.ready.remove(&id);
        pair.last.remove(&id);
        if pair.ready.is_empty() {
            self.pairs.remove(&(child, parent));
        }
    }
}

/// What a node still has to receive in a lane before it can send.
fn inputs_left(all: &[Transmission], node: NodeId, lane: u16) -> usize {
    all.iter().filter(|t| t.lane == lane && t.parent == node && !t.has_arrived).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ChunkIndex, StripeId};
    use crate::plan::{Carries, Edge, Lane, Mode, Range, Start};
    use crate::random::Random;

    const NODES: u64 = 6;

    /// Each transmission with its lane and ends, and whether it flows or has arrived.
    type Looked = BTreeMap<RepairId, Vec<(u16, NodeId, NodeId, bool, bool)>>;

    /// A plan of two lanes, each any tree.
    fn plan(random: &mut Random) -> Plan {
        let (range, mut nodes) = (Range { from: 0, to: 1 }, (0..NODES as u32).collect::<Vec<_>>());
        let mut lane = || {
            random.shuffle(&mut nodes);
            let edge = |at: usize| Edge {
                child: NodeId(nodes[at]),
                parent: NodeId(nodes[random.index(at)]),
                bytes: 1,
                carries: Carries::Partial,
            };
            let (lost, mode) = (vec![ChunkIndex(0)], Mode::Stored);
            let edges = (1..nodes.len()).map(edge).collect();
            Lane { range, lost, mode, decoder: None, scheme: None, edges }
        };
        Plan {
            lanes: vec![lane(), lane()],
            stripe: StripeId(0),
            lost: vec![ChunkIndex(0)],
            destinations: BTreeMap::new(),
            start: Start::Now,
            range,
            period: None,
        }
    }

    /// What is ready between two nodes, and whether its receiver waits for nothing else, by
    /// looking at everything.
    fn ready(all: &Looked, pair: (NodeId, NodeId)) -> Vec<(TransmissionId, bool)> {
        let mut ready = Vec::new();
        for (repair, edges) in all {
            let left = |node: NodeId, of: u16| {
                edges.iter().filter(|e| (e.0, e.2) == (of, node) && !e.4).count()
            };
            for (index, &(lane, child, parent, flows, came)) in edges.iter().enumerate() {
                if (child, parent) == pair && !flows && !came && left(child, lane) == 0 {
                    let id = TransmissionId { repair: *repair, index };
                    ready.push((id, left(parent, lane) == 1));
                }
            }
        }
        ready
    }

    fn compare(found: &Transmissions, all: &Looked) {
        found.assert_invariants();
        let ids = || (0..NODES as u32).map(NodeId);
        let pairs = ids().flat_map(|child| ids().map(move |parent| (child, parent)));
        let ready: Vec<_> = pairs.map(|pair| (pair, ready(all, pair))).collect();
        let ready: Vec<_> = ready.into_iter().filter(|(_, ready)| !ready.is_empty()).collect();
        let first = |ready: &[(TransmissionId, bool)]| {
            *ready.iter().find(|(_, is_last)| *is_last).unwrap_or(&ready[0])
        };
        let preferred = found.preferred().map(|c| ((c.child, c.parent), (c.id, c.is_last)));
        assert!(preferred.eq(ready.iter().map(|(pair, ready)| (*pair, first(ready)))));
        let oldest = ids().flat_map(|child| found.oldest_from(child).map(move |of| (child, of)));
        let oldest = oldest.map(|(child, (parent, id))| ((child, parent), id));
        assert!(oldest.eq(ready.iter().map(|(pair, ready)| (*pair, ready[0].0))));
        assert_eq!(found.is_anything_ready(), !ready.is_empty());
        let any_flows = all.values().flatten().any(|edge| edge.3);
        assert_eq!(found.is_anything_flowing(), any_flows);
        for (repair, edges) in all {
            let waits = edges.iter().any(|e| !e.4) && edges.iter().all(|e| !e.3);
            assert_eq!(found.is_waiting(*repair), waits, "{repair}");
        }
        assert!(!found.is_waiting(RepairId(u64::MAX)), "nobody knows it");
    }

    #[test]
    fn what_is_ready_is_what_looking_at_everything_says() {
        let mut random = Random::new(1);
        let (mut found, mut all) = (Transmissions::default(), Looked::new());
        for step in 0..3000 {
            let some = |repairs: &Looked, at: u64| repairs.keys().nth(at as usize).copied();
            let repair = some(&all, random.below(3));
            match (random.below(20), repair) {
                (0, Some(repair)) => {
                    let edges = all.remove(&repair).into_iter().flatten().filter(|edge| edge.3);
                    let ends: Vec<NodeId> = edges.flat_map(|edge| [edge.1, edge.2]).collect();
                    assert_eq!(found.ended(repair), ends);
                }
                (1..10, Some(_)) => {
                    let candidates: Vec<Candidate> = found.preferred().collect();
                    let chosen = candidates.get(random.index(candidates.len().max(1)));
                    for (id, _) in
                        found.release(&chosen.map(|c| c.id).into_iter().collect::<Vec<_>>())
                    {
                        all.get_mut(&id.repair).unwrap()[id.index].3 = true;
                    }
                }
                (10.., Some(repair)) => {
                    let edges = all.get_mut(&repair).unwrap();
                    let index = random.index(edges.len());
                    let edge = &mut edges[index];
                    let (lane, child, parent) = (edge.0, edge.1, edge.2);
                    let arrived = EdgeRelease { repair, lane, child, parent };
                    assert_eq!(found.arrived(arrived), edge.3);
                    (edge.3, edge.4) = (false, edge.4 || edge.3);
                }
                (_, None) => {
                    let (repair, plan) = (RepairId(step), plan(&mut random));
                    found.started(repair, &plan);
                    let lanes = plan.lanes.iter().zip(0..);
                    let edges =
                        lanes.flat_map(|(lane, at)| lane.edges.iter().map(move |e| (at, e)));
                    let edges = edges.map(|(at, e)| (at, e.child, e.parent, false, false));
                    all.insert(repair, edges.collect());
                }
            }
            compare(&found, &all);
        }
    }
}
