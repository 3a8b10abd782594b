//! RepairBoost's transmission scheduling: whole chunks in time slots (ATC'21, sections 3.3, 3.4).
//!
//! Place: ... dispatch -> [which edges flow in this slot] -> slices flow -> ...
//! Every repair is gated: a node sends on an edge only when all that it sums has arrived. In a slot
//! each node sends at most one chunk and receives at most one, and as many move as can: a maximum
//! matching of senders and receivers. Where a pair has several chunks to choose from, the one goes
//! whose arrival makes the receiver a leaf. The next slot begins when all of this one has arrived.
//!
//! This stands beside the schedule, which decides what is planned and started: nothing but `slots`
//! gates repairs. It is notified of what starts, arrives and ends, and decides what is released.
//!
//! Decided here, where the paper leaves it open:
//! - The preference is also the order in which the matching tries a sender's receivers.
//! - On unequal links slots make no sense; section 3.4 polls: of all nodes that could send or
//!   receive now, the one that has spent the least time so far takes its fastest link. "Could" is
//!   read as in a slot: at most one chunk in each direction of a node at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::matching;
use super::transmissions::{Candidate, EdgeRelease, Transmission, TransmissionId, Transmissions};
use crate::cluster::{Cluster, Rate};
use crate::id::{NodeId, RepairId};
#[cfg(feature = "mutants")]
use crate::mutant::Mistake;
use crate::plan::Plan;
use crate::policy::Schedule;
use crate::time::Time;

/// Links that differ by less are equal.
const SAME_RATE: f64 = 1e-6;

/// Which edges of gated repairs flow.
#[derive(Debug, Default)]
pub struct EdgeSchedule {
    transmissions: Transmissions,
    /// Whether there may be something to release that there was not at the last question.
    has_news: bool,
    /// Seconds that each node has spent sending and receiving, for polling.
    spent: BTreeMap<NodeId, f64>,
    /// When each node last finished a transmission.
    finished: BTreeMap<NodeId, Time>,
    /// Nodes that have finished one since the last question: an end comes without its time.
    just_finished: Vec<NodeId>,
}

impl EdgeSchedule {
    /// That of a schedule with time slots, if it is one.
    pub fn of(schedule: Schedule) -> Option<EdgeSchedule> {
        matches!(schedule, Schedule::Slots(..)).then(EdgeSchedule::default)
    }

    /// Makes the transmissions commit this mistake from now on (tests).
    #[cfg(feature = "mutants")]
    pub(crate) fn mutate(&mut self, mistake: Mistake) {
        self.transmissions.mistake = mistake;
    }

    /// Looks at all transmissions; for simulations and tests.
    ///
    /// # Panics
    /// Others are ready than those of which nothing is missing.
    pub fn assert_invariants(&self) {
        self.transmissions.assert_invariants();
    }

    /// A repair was dispatched.
    pub fn started(&mut self, repair: RepairId, plan: &Plan) {
        self.transmissions.started(repair, plan);
        self.has_news = true;
    }

    /// Records that all of an edge is kept at its parent. Returns whether that was not known.
    pub fn arrived(&mut self, now: Time, edge: EdgeRelease) -> bool {
        if !self.transmissions.arrived(edge) {
            return false;
        }
        self.has_news = true;
        self.finished.insert(edge.child, now);
        self.finished.insert(edge.parent, now);
        true
    }

    /// A repair moves nothing any more. What arrived last may be known by this alone.
    pub fn ended(&mut self, repair: RepairId) {
        self.just_finished.extend(self.transmissions.ended(repair));
        self.has_news = true;
    }

    /// Whether a repair waits for its turn, so that it has not stalled if nothing moves.
    pub fn is_waiting(&self, repair: RepairId) -> bool {
        self.transmissions.is_waiting(repair)
    }

    /// What was released to `node` and has not arrived, to be repeated when that may be lost.
    pub fn released_to(&self, node: NodeId) -> Vec<EdgeRelease> {
        let released = self.transmissions.released();
        released.filter(|(_, t)| t.parent == node).map(|(id, t)| release(id, t)).collect()
    }

    /// When each node last finished a transmission, ascending by node.
    pub(super) fn finished(&self, now: Time) -> BTreeMap<NodeId, Time> {
        let just = self.just_finished.iter().map(|node| (*node, now));
        self.finished.iter().map(|(node, at)| (*node, *at)).chain(just).collect()
    }

    /// What may flow from now on.
    pub fn release(&mut self, now: Time, cluster: &Cluster) -> Vec<EdgeRelease> {
        self.finished.extend(self.just_finished.drain(..).map(|node| (node, now)));
        if !std::mem::take(&mut self.has_news) || !self.transmissions.is_anything_ready() {
            return Vec::new();
        }
        let chosen = if !is_uniform(cluster) {
            self.poll(cluster)
        } else if !self.transmissions.is_anything_flowing() {
            self.slot()
        } else {
            return Vec::new();
        };
        let released = self.transmissions.release(&chosen);
        released.into_iter().map(|(id, transmission)| release(id, transmission)).collect()
    }

    /// How many transmissions the next slot would choose among: what its matching costs.
    #[cfg(test)]
    pub(super) fn candidates(&self) -> usize {
        self.transmissions.preferred().count()
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
        for (_, Transmission { child, parent, .. }) in self.transmissions.released() {
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

fn release(id: TransmissionId, transmission: Transmission) -> EdgeRelease {
    let Transmission { lane, child, parent, .. } = transmission;
    EdgeRelease { repair: id.repair, lane, child, parent }
}

fn link(cluster: &Cluster, child: NodeId, parent: NodeId) -> Rate {
    let up = cluster.node(child).uplink_free().0;
    let down = cluster.node(parent).downlink_free().0;
    Rate(up.min(down)).usable()
}

/// Whether all links that carry anything are as fast as each other.
fn is_uniform(cluster: &Cluster) -> bool {
    let rates = cluster.nodes.iter().flat_map(|n| [n.uplink_free().0, n.downlink_free().0]);
    let (least, most) = rates.fold((f64::INFINITY, 0.0_f64), |(a, b), r| (a.min(r), b.max(r)));
    most - least <= SAME_RATE * most
}
