//! RepairBoost's transmission scheduling: whole chunks in time slots (ATC'21, sections 3.3, 3.4).
//!
//! Place: ... dispatch -> [which edges flow in this slot] -> slices flow -> ...
//! Every repair is gated: a node sends on an edge only when all that it sums has arrived. In a slot
//! each node sends at most one chunk and receives at most one, and as many move as can: a maximum
//! matching of senders and receivers. Where a pair has several chunks to choose from, the one goes
//! whose arrival makes the receiver a leaf. The next slot begins when all of this one has arrived.
//!
//! Decided here, where the paper leaves it open:
//! - The preference is also the order in which the matching tries a sender's receivers.
//! - On unequal links slots make no sense; section 3.4 polls: of all nodes that could send or
//!   receive now, the one that has spent the least time so far takes its fastest link. "Could" is
//!   read as in a slot: at most one chunk in each direction of a node at a time.
//! - A full-node repair is one process, unless `slots:Q` cuts it into subprocesses of Q chunks.
//!   After each of them the node that was done last counts as that much slower than the average
//!   for the next, and the one that was done first as that much faster, by a tenth at most.

use std::collections::{BTreeMap, BTreeSet};

use super::matching;
use super::{Order, Repairs, World};
use crate::cluster::{Cluster, Rate};
use crate::id::{NodeId, RepairId};
use crate::plan::Plan;
use crate::time::Time;

/// Links that differ by less are equal.
const SAME_RATE: f64 = 1e-6;

/// How much slower or faster a node may count after one more subprocess: a node may be done early
/// or late because it had little or much to do.
const STEP_MAX: f64 = 1.1;

/// How much slower or faster than told a node may count in the end.
const ADAPTATION_MAX: f64 = 8.0;

/// The transmissions of all running repairs.
#[derive(Debug, Default)]
pub(super) struct Slots {
    repairs: BTreeMap<RepairId, Vec<Transmission>>,
    /// What was released and has not arrived.
    flowing: BTreeSet<(RepairId, usize)>,
    /// What could be released: nothing that it waits for is missing.
    ready: BTreeSet<(RepairId, usize)>,
    /// Whether there may be something to release that there was not at the last question.
    has_news: bool,
    /// Seconds that each node has spent sending and receiving, for polling.
    spent: BTreeMap<NodeId, f64>,
    subprocess: Option<Subprocess>,
}

/// A whole chunk, or a part of one, from one node to another.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    lane: u16,
    child: NodeId,
    parent: NodeId,
    bytes: u64,
    has_arrived: bool,
}

/// The present subprocess, and what the last ones have taught.
#[derive(Debug)]
struct Subprocess {
    chunks: u32,
    begun: Option<Time>,
    /// When each node last finished a transmission.
    done: BTreeMap<NodeId, Time>,
    /// Nodes that have finished one since the last question.
    just_done: Vec<NodeId>,
    /// By how much each node's links count as faster than told.
    factors: BTreeMap<NodeId, f64>,
}

impl Slots {
    pub fn new(subprocess: Option<u32>) -> Slots {
        let subprocess = subprocess.map(|chunks| Subprocess {
            chunks,
            begun: None,
            done: BTreeMap::new(),
            just_done: Vec::new(),
            factors: BTreeMap::new(),
        });
        Slots { subprocess, ..Slots::default() }
    }

    /// Everything at once, or one subprocess after the other.
    pub fn quota(&mut self, world: &World<'_>, running: &Repairs) -> usize {
        let Some(process) = &mut self.subprocess else { return usize::MAX };
        if !running.is_empty() || !world.waiting.is_empty() || world.ready == 0 {
            return 0;
        }
        process.note(world.now);
        process.learn();
        process.begun = Some(world.now);
        process.chunks as usize
    }

    /// Links as the last subprocesses make them look.
    pub fn believed(&self, cluster: &Cluster) -> Option<Cluster> {
        let process = self.subprocess.as_ref().filter(|process| !process.factors.is_empty())?;
        let mut believed = cluster.clone();
        for (node, factor) in &process.factors {
            let node = believed.nodes.get_mut(node.index())?;
            node.uplink = Rate(node.uplink.0 * factor);
            node.downlink = Rate(node.downlink.0 * factor);
        }
        Some(believed)
    }

    pub fn started(&mut self, id: RepairId, plan: &Plan) {
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
        let leaves = (0..all.len())
            .filter(|&index| inputs_left(&all, all[index].child, all[index].lane) == 0);
        self.ready.extend(leaves.map(|index| (id, index)));
        self.repairs.insert(id, all);
        self.has_news = true;
    }

    /// Notes an arrival. Returns whether it is news.
    pub fn arrived(
        &mut self,
        now: Time,
        id: RepairId,
        lane: u16,
        (child, parent): (NodeId, NodeId),
    ) -> bool {
        let Some(all) = self.repairs.get_mut(&id) else { return false };
        let is_it = |t: &Transmission| {
            (t.lane, t.child, t.parent) == (lane, child, parent) && !t.has_arrived
        };
        let flows = |index: &usize| self.flowing.contains(&(id, *index));
        let Some(index) = (0..all.len()).filter(|&i| is_it(&all[i])).find(flows) else {
            return false;
        };
        all[index].has_arrived = true;
        self.has_news = true;
        self.flowing.remove(&(id, index));
        if inputs_left(all, parent, lane) == 0 {
            let next = (0..all.len()).filter(|&i| all[i].lane == lane && all[i].child == parent);
            self.ready.extend(next.map(|index| (id, index)));
        }
        if let Some(process) = &mut self.subprocess {
            process.done.insert(child, now);
            process.done.insert(parent, now);
        }
        true
    }

    pub fn ended(&mut self, id: RepairId) {
        let Some(all) = self.repairs.remove(&id) else { return };
        // What arrived last may be told by the end alone, which comes with the next question.
        if let Some(process) = &mut self.subprocess {
            let last = self.flowing.iter().filter(|(repair, _)| *repair == id);
            let ends = last.flat_map(|(_, index)| [all[*index].child, all[*index].parent]);
            process.just_done.extend(ends);
        }
        self.has_news = true;
        self.flowing.retain(|(repair, _)| *repair != id);
        self.ready.retain(|(repair, _)| *repair != id);
    }

    pub fn is_resting(&self, id: RepairId) -> bool {
        let flows = self.flowing.range((id, 0)..=(id, usize::MAX)).next().is_some();
        let waits = self.repairs.get(&id).is_some_and(|all| all.iter().any(|t| !t.has_arrived));
        waits && !flows
    }

    pub fn released_to(&self, node: NodeId) -> Vec<Order> {
        let all = self.flowing.iter().map(|&(id, index)| (id, self.repairs[&id][index]));
        all.filter(|(_, t)| t.parent == node).map(|(id, t)| t.release(id)).collect()
    }

    /// What may flow from now on.
    pub fn orders(&mut self, world: &World<'_>) -> Vec<Order> {
        if let Some(process) = &mut self.subprocess {
            process.note(world.now);
        }
        if !std::mem::take(&mut self.has_news) || self.ready.is_empty() {
            return Vec::new();
        }
        let chosen = if is_uniform(world.cluster) {
            if !self.flowing.is_empty() {
                return Vec::new();
            }
            self.slot()
        } else {
            self.poll(world.cluster)
        };
        let chosen = self.with_siblings(chosen);
        let release = |&(id, index): &(RepairId, usize)| self.repairs[&id][index].release(id);
        let orders = chosen.iter().map(release).collect();
        for transmission in chosen {
            self.ready.remove(&transmission);
            self.flowing.insert(transmission);
        }
        orders
    }

    /// A decoder makes all of its results together, so what it sends to several destinations flows
    /// together too, although that is more than a slot gives it.
    fn with_siblings(&self, chosen: Vec<(RepairId, usize)>) -> BTreeSet<(RepairId, usize)> {
        let siblings = |&(id, index): &(RepairId, usize)| {
            let all = &self.repairs[&id];
            let Transmission { lane, child, .. } = all[index];
            let is_sibling = move |t: &Transmission| t.lane == lane && t.child == child;
            (0..all.len()).filter(move |&other| is_sibling(&all[other])).map(move |i| (id, i))
        };
        chosen.iter().flat_map(siblings).collect()
    }

    /// As many transmissions as one slot can hold.
    fn slot(&self) -> Vec<(RepairId, usize)> {
        // Of each pair of nodes the preferred transmission.
        let mut pairs: BTreeMap<(NodeId, NodeId), (bool, RepairId, usize)> = BTreeMap::new();
        for &(id, index) in &self.ready {
            let all = &self.repairs[&id];
            let Transmission { lane, child, parent, .. } = all[index];
            let is_last = inputs_left(all, parent, lane) == 1;
            let best = pairs.entry((child, parent)).or_insert((is_last, id, index));
            if is_last && !best.0 {
                *best = (is_last, id, index);
            }
        }
        let mut senders: Vec<NodeId> = pairs.keys().map(|(child, _)| *child).collect();
        senders.dedup();
        let mut lists: Vec<Vec<(usize, bool, RepairId, usize)>> = vec![Vec::new(); senders.len()];
        let mut receivers = 0;
        let mut at = 0;
        for ((child, parent), (is_last, id, index)) in pairs {
            at += usize::from(senders[at] != child);
            receivers = receivers.max(parent.index() + 1);
            lists[at].push((parent.index(), is_last, id, index));
        }
        lists.iter_mut().for_each(|list| list.sort_by_key(|(_, is_last, ..)| !is_last));
        let transfers: Vec<Vec<usize>> =
            lists.iter().map(|list| list.iter().map(|(parent, ..)| *parent).collect()).collect();
        let matched = matching::maximum(&transfers, receivers).into_iter().zip(&lists);
        let chosen = matched.filter_map(|(place, list)| Some(list[place?]));
        chosen.map(|(_, _, id, index)| (id, index)).collect()
    }

    /// Section 3.4: the node that has spent the least takes its fastest link, again and again.
    fn poll(&mut self, cluster: &Cluster) -> Vec<(RepairId, usize)> {
        let (mut sends, mut receives) = (BTreeSet::new(), BTreeSet::new());
        for &(id, index) in &self.flowing {
            let Transmission { child, parent, .. } = self.repairs[&id][index];
            sends.insert(child);
            receives.insert(parent);
        }
        let mut chosen = Vec::new();
        let mut open: Vec<(RepairId, usize)> = self.ready.iter().copied().collect();
        loop {
            let of = |&(id, index): &(RepairId, usize)| self.repairs[&id][index];
            open.retain(|t| !sends.contains(&of(t).child) && !receives.contains(&of(t).parent));
            let spent = |node: NodeId| self.spent.get(&node).copied().unwrap_or(0.0);
            let least = |t: &(RepairId, usize)| spent(of(t).child).min(spent(of(t).parent));
            let rate = |t: &(RepairId, usize)| link(cluster, of(t)).0;
            let best = open.iter().copied().min_by(|a, b| {
                least(a).total_cmp(&least(b)).then(rate(b).total_cmp(&rate(a))).then(a.cmp(b))
            });
            let Some(best) = best else { return chosen };
            let transmission = of(&best);
            let seconds = transmission.bytes as f64 / link(cluster, transmission).0;
            for node in [transmission.child, transmission.parent] {
                *self.spent.entry(node).or_default() += seconds;
            }
            sends.insert(transmission.child);
            receives.insert(transmission.parent);
            chosen.push(best);
        }
    }
}

impl Transmission {
    fn release(self, repair: RepairId) -> Order {
        let Transmission { lane, child, parent, .. } = self;
        Order::Release { repair, lane, child, parent }
    }
}

impl Subprocess {
    fn note(&mut self, now: Time) {
        self.done.extend(self.just_done.drain(..).map(|node| (node, now)));
    }

    /// What the subprocess that has just ended says of the next one's links.
    fn learn(&mut self) {
        let (Some(begun), false) = (self.begun, self.done.is_empty()) else { return };
        let done = std::mem::take(&mut self.done);
        let seconds: Vec<(NodeId, f64)> =
            done.into_iter().map(|(node, at)| (node, at.since(begun).as_secs_f64())).collect();
        let mean = seconds.iter().map(|(_, s)| s).sum::<f64>() / seconds.len() as f64;
        let by_time = |a: &&(NodeId, f64), b: &&(NodeId, f64)| a.1.total_cmp(&b.1);
        let extremes = [seconds.iter().max_by(by_time), seconds.iter().min_by(by_time)];
        for &(node, seconds) in extremes.into_iter().flatten().filter(|(_, s)| *s > 0.0) {
            let step = (mean / seconds).clamp(1.0 / STEP_MAX, STEP_MAX);
            let factor = self.factors.entry(node).or_insert(1.0);
            *factor = (*factor * step).clamp(1.0 / ADAPTATION_MAX, ADAPTATION_MAX);
        }
    }
}

/// What a node still has to receive in a lane before it can send.
fn inputs_left(all: &[Transmission], node: NodeId, lane: u16) -> usize {
    all.iter().filter(|t| t.lane == lane && t.parent == node && !t.has_arrived).count()
}

fn link(cluster: &Cluster, transmission: Transmission) -> Rate {
    let up = cluster.node(transmission.child).uplink_free().0;
    let down = cluster.node(transmission.parent).downlink_free().0;
    Rate(up.min(down).max(1e-9))
}

/// Whether all links that carry anything are as fast as each other.
fn is_uniform(cluster: &Cluster) -> bool {
    let rates = cluster.nodes.iter().flat_map(|n| [n.uplink_free().0, n.downlink_free().0]);
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(a, b), r| (a.min(r), b.max(r)));
    most - least <= SAME_RATE * most
}
