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

use super::link_load::DEAD_LINK;
use super::matching;
use super::transmissions::{Candidate, Transmission, TransmissionId, Transmissions};
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

/// Which transmissions flow.
#[derive(Debug, Default)]
pub(super) struct Slots {
    transmissions: Transmissions,
    /// Whether there may be something to release that there was not at the last question.
    has_news: bool,
    /// Seconds that each node has spent sending and receiving, for polling.
    spent: BTreeMap<NodeId, f64>,
    subprocess: Option<Subprocess>,
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
        self.transmissions.started(id, plan);
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
        if !self.transmissions.arrived(id, lane, (child, parent)) {
            return false;
        }
        self.has_news = true;
        if let Some(process) = &mut self.subprocess {
            process.done.insert(child, now);
            process.done.insert(parent, now);
        }
        true
    }

    pub fn ended(&mut self, id: RepairId) {
        let ends = self.transmissions.ended(id);
        self.has_news = true;
        // What arrived last may be told by the end alone, which comes with the next question.
        if let Some(process) = &mut self.subprocess {
            process.just_done.extend(ends);
        }
    }

    pub fn is_resting(&self, id: RepairId) -> bool {
        self.transmissions.is_resting(id)
    }

    pub fn released_to(&self, node: NodeId) -> Vec<Order> {
        let flowing = self.transmissions.flowing();
        flowing.filter(|(_, t)| t.parent == node).map(|(id, t)| release(id, t)).collect()
    }

    /// What may flow from now on.
    pub fn orders(&mut self, world: &World<'_>) -> Vec<Order> {
        if let Some(process) = &mut self.subprocess {
            process.note(world.now);
        }
        if !std::mem::take(&mut self.has_news) || !self.transmissions.is_anything_ready() {
            return Vec::new();
        }
        let chosen = if !is_uniform(world.cluster) {
            self.poll(world.cluster)
        } else if !self.transmissions.is_anything_flowing() {
            self.slot()
        } else {
            return Vec::new();
        };
        let released = self.transmissions.release(&chosen);
        released.into_iter().map(|(id, transmission)| release(id, transmission)).collect()
    }

    /// As many transmissions as one slot can hold.
    fn slot(&self) -> Vec<TransmissionId> {
        let mut lists: Vec<Vec<Candidate>> = Vec::new();
        let mut receivers = 0;
        for candidate in self.transmissions.preferred() {
            receivers = receivers.max(candidate.parent.index() + 1);
            match lists.last_mut().filter(|list| list[0].child == candidate.child) {
                Some(list) => list.push(candidate),
                None => lists.push(vec![candidate]),
            }
        }
        lists.iter_mut().for_each(|list| list.sort_by_key(|candidate| !candidate.is_last));
        let receiver = |candidate: &Candidate| candidate.parent.index();
        let transfers: Vec<Vec<usize>> =
            lists.iter().map(|list| list.iter().map(receiver).collect()).collect();
        let matched = matching::maximum(&transfers, receivers).into_iter().zip(&lists);
        matched.filter_map(|(place, list)| Some(list[place?].id)).collect()
    }

    /// Section 3.4: the node that has spent the least takes its fastest link, again and again.
    fn poll(&mut self, cluster: &Cluster) -> Vec<TransmissionId> {
        let (mut sends, mut receives) = (BTreeSet::new(), BTreeSet::new());
        for (_, Transmission { child, parent, .. }) in self.transmissions.flowing() {
            sends.insert(child);
            receives.insert(parent);
        }
        let idle = cluster.ids().filter(|node| !sends.contains(node));
        let open = idle.flat_map(|child| {
            let oldest = self.transmissions.oldest_from(child);
            oldest.map(move |(parent, id)| (child, parent, id))
        });
        let mut open: Vec<(NodeId, NodeId, TransmissionId)> =
            open.filter(|(_, parent, _)| !receives.contains(parent)).collect();
        let mut chosen = Vec::new();
        loop {
            let spent = |node: NodeId| self.spent.get(&node).copied().unwrap_or(0.0);
            let least =
                |(child, parent, _): &(NodeId, NodeId, _)| spent(*child).min(spent(*parent));
            let rate = |(child, parent, _): &(NodeId, NodeId, _)| link(cluster, *child, *parent).0;
            let best = open.iter().copied().min_by(|a, b| {
                least(a).total_cmp(&least(b)).then(rate(b).total_cmp(&rate(a))).then(a.2.cmp(&b.2))
            });
            let Some((child, parent, id)) = best else { return chosen };
            let bytes = self.transmissions.get(id).bytes as f64;
            let seconds = bytes / link(cluster, child, parent).0;
            for node in [child, parent] {
                *self.spent.entry(node).or_default() += seconds;
            }
            open.retain(|(sender, receiver, _)| *sender != child && *receiver != parent);
            chosen.push(id);
        }
    }
}

fn release(id: TransmissionId, transmission: Transmission) -> Order {
    let Transmission { lane, child, parent, .. } = transmission;
    Order::Release { repair: id.repair, lane, child, parent }
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

fn link(cluster: &Cluster, child: NodeId, parent: NodeId) -> Rate {
    let up = cluster.node(child).uplink_free().0;
    let down = cluster.node(parent).downlink_free().0;
    Rate(up.min(down).max(DEAD_LINK))
}

/// Whether all links that carry anything are as fast as each other.
fn is_uniform(cluster: &Cluster) -> bool {
    let rates = cluster.nodes.iter().flat_map(|n| [n.uplink_free().0, n.downlink_free().0]);
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(a, b), r| (a.min(r), b.max(r)));
    most - least <= SAME_RATE * most
}
