//! What links carry: as operators declare it, or measured by probes and by what is moved.
//!
//! Place: beside [plan] and [slices flow]: planners, schedules and the throttle count with it.
//! A probe has a peer send all that it can for a moment; what comes is the lesser of the peer's
//! uplink and the receiver's downlink, so each direction is the best of what its peers have shown.
//! Each pair's results are averaged, and how far they scatter is kept. What a direction was seen to
//! carry, it can carry.
//!
//! A direction of which nothing was shown yet counts as the median of the others: taken for a
//! fixed rate among others that are known, plans would give it far too little or far too much.
//!
//! While repairs run, what they move shows more than probes at rest did (`rates/transfers.rs`,
//! `rates/limits.rs`, `rates/link_estimate.rs`), and counts until probes at rest show something
//! newer. Of the links of racks nothing is known but what transfers show (`rates/racks.rs`).
//!
//! Invariants: a declared rate is never exceeded, and is what counts unless transfers find that the
//! link carries less than three quarters of it; one that was only taken for something counts until
//! there is something better. Does not know when probes are sent.

mod limits;
mod link_estimate;
mod racks;
mod transfers;

use std::collections::BTreeMap;

use link_estimate::{Guess, LinkEstimate, NEAR_DIVISOR, Passage, Pressure};
use racks::RackRates;
use transfers::PeerFlows;

use crate::cluster::{Node, Rate};
use crate::event::LinkStatus;
use crate::id::NodeId;
use crate::message::LinkReport;
use crate::throttle::Direction;
use crate::time::Span;

/// A new result moves the average by such a part of the difference.
const GAIN: u64 = 4;

/// Before a second probe the average may be off by such a part.
const FIRST_DEVIATION: u64 = 4;

/// A result that differs by more than such a factor is of another link: it replaces the average.
const OTHER_FACTOR: u64 = 2;

/// What was seen to pass fades by such a part with each report.
const FADING: u64 = 4;

/// Where transfers find that nothing passes, planners count with this.
const RATE_LEAST: u64 = 1;

/// A declared rate counts as long as transfers find no less than this part of it: headers take
/// some, and a processor that is short of time looks like a slower link.
const DECLARED_LEAST: f64 = 0.75;

/// Peers whose results are kept for a direction: the latest.
const PEERS_MAX: usize = 16;

/// What a direction was thought to carry is dropped for results of so many peers that are newer
/// than a doubt about it.
const DOUBT_PEERS: usize = 5;

/// Both directions of a node, in the order in which they are kept.
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// What two nodes have shown together, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PairRate {
    mean: u64,
    deviation: u64,
    /// Grows with each result, so that the oldest can be given up.
    number: u64,
}

/// One direction of a node.
#[derive(Clone, Debug, Default)]
struct Measured {
    samples: BTreeMap<NodeId, PairRate>,
    /// A pair has shown far less than both of its directions were thought to carry: one of the two
    /// is slower by now than some result up to this one says.
    doubted: Option<u64>,
    /// The most that passed, fading.
    seen: u64,
    repair: u64,
    others: u64,
    is_undeclared: bool,
    /// What repair may move at most, by order or by configuration.
    limit: Option<u64>,
    /// What transfers have shown.
    estimate: LinkEstimate,
    /// The last result of a probe before they last did.
    observed_at: u64,
}

/// A node as it was declared, with what its links are taken for, and what was measured of them.
#[derive(Clone, Debug)]
struct NodeRates {
    declared: Node,
    measured: [Measured; 2],
    flows: PeerFlows,
}

impl NodeRates {
    fn declared_rate(&self, direction: Direction) -> Rate {
        match direction {
            Direction::Up => self.declared.uplink,
            Direction::Down => self.declared.downlink,
        }
    }
}

/// What is known of all links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    nodes: Vec<NodeRates>,
    results: u64,
    /// The median of the directions of which something was shown, in bytes per second: sent,
    /// received.
    typical: [Option<u64>; 2],
    /// It is taken anew when there are so many results.
    typical_until: u64,
    /// Whether transfers have shown something of a direction of which nothing was known.
    is_more_known: bool,
    /// How many transfers between two nodes are known of.
    transfers: usize,
    /// By the numbers of racks, as far as anything was reported of their nodes.
    racks: Vec<RackRates>,
}

impl Rates {
    /// A node joins, or declares other rates.
    pub fn declare(&mut self, id: NodeId, node: Node) {
        match self.nodes.get_mut(id.index()) {
            Some(known) => known.declared = node,
            None => self.nodes.push(NodeRates {
                declared: node,
                measured: Default::default(),
                flows: PeerFlows::default(),
            }),
        }
    }

    /// An agent has reported what its links carried. Returns the nodes of which more is known now.
    pub fn report(&mut self, node: NodeId, report: &LinkReport) -> Vec<NodeId> {
        let Some(known) = self.nodes.get_mut(node.index()) else { return Vec::new() };
        let moved = [report.sent, report.received];
        let has = [report.has_uplink, report.has_downlink];
        let limits = [report.limit.up, report.limit.down];
        let limits = limits.map(|limit| limit.into_iter().chain(report.cap).min());
        for ((measured, moved), (has, limit)) in
            known.measured.iter_mut().zip(moved).zip(has.into_iter().zip(limits))
        {
            measured.limit = limit;
            measured.repair = report.rate(moved.repair);
            measured.others = report.rate(moved.others);
            let faded = measured.seen - measured.seen / FADING;
            measured.seen = faded.max(report.rate(moved.repair.saturating_add(moved.others)));
            measured.is_undeclared = !has;
        }
        self.observe(node, report);
        let mut changed = vec![node];
        for &(peer, rate) in &report.probed {
            if peer.index() < self.nodes.len() && peer != node && rate > 0 {
                self.results += 1;
                let number = self.results;
                self.doubt(peer, node, rate);
                self.nodes[peer.index()].measured[0].probed(node, rate, number);
                self.nodes[node.index()].measured[1].probed(peer, rate, number);
                self.probed_racks(peer, node, rate);
                changed.push(peer);
            }
        }
        if self.results > self.typical_until || std::mem::take(&mut self.is_more_known) {
            // Often enough to follow, and seldom enough to cost nothing in large clusters.
            self.typical_until = self.results + self.nodes.len() as u64 / 4;
            self.update_typical(&mut changed);
        }
        changed
    }

    /// Doubts both directions of a pair that shows less than half of what either should carry.
    fn doubt(&mut self, from: NodeId, to: NodeId, rate: u64) {
        let up = self.nodes[from.index()].measured[0].best().map(|best| best.mean);
        let down = self.nodes[to.index()].measured[1].best().map(|best| best.mean);
        let (Some(up), Some(down)) = (up, down) else { return };
        if rate.saturating_mul(OTHER_FACTOR) < up.min(down) {
            let before = self.results - 1;
            self.nodes[from.index()].measured[0].doubted.get_or_insert(before);
            self.nodes[to.index()].measured[1].doubted.get_or_insert(before);
        }
    }

    /// Takes the medians anew; of each node that counts by one of them more is known.
    fn update_typical(&mut self, changed: &mut Vec<NodeId>) {
        for direction in 0..2 {
            let measured = self.nodes.iter().map(|node| &node.measured[direction]);
            let mut shown: Vec<u64> = measured.filter_map(Measured::shown_rate).collect();
            shown.sort_unstable();
            let typical = shown.get(shown.len() / 2).copied();
            if std::mem::replace(&mut self.typical[direction], typical) != typical {
                let is_unknown = |node: &NodeRates| node.measured[direction].is_unknown();
                let unknown = self.nodes.iter().enumerate().filter(|(_, node)| is_unknown(node));
                changed.extend(unknown.map(|(id, _)| NodeId(id as u32)));
            }
        }
        changed.sort_unstable();
        changed.dedup();
    }

    /// The node with the rates to count with.
    pub fn node(&self, id: NodeId) -> Node {
        let NodeRates { declared, measured: [up, down], .. } = &self.nodes[id.index()];
        let [sent, received] = self.typical;
        let uplink = up.capacity(declared.uplink, sent);
        let downlink = down.capacity(declared.downlink, received);
        Node { uplink, downlink, ..declared.clone() }
    }

    /// Whether transfers have agreed on the node's links for so long that what they show now is a
    /// change of these, and no better knowledge.
    pub fn is_settled(&self, id: NodeId) -> bool {
        let measured = &self.nodes[id.index()].measured;
        let mut measured = measured.iter().filter(|known| known.estimate.guess().is_some());
        let any = measured.clone().next().is_some();
        any && measured.all(|known| known.estimate.is_settled())
    }

    /// # Panics
    /// A link counts for more than was declared, or for something between that and the least that
    /// transfers must find of it.
    pub fn assert_invariants(&self) {
        for (index, NodeRates { declared, measured: [up, down], .. }) in
            self.nodes.iter().enumerate()
        {
            let known = self.node(NodeId(index as u32));
            let is_declared = |measured: &Measured, known: Rate, declared: Rate| {
                let is_less = known.0 < DECLARED_LEAST * declared.0;
                measured.is_undeclared || known == declared || is_less
            };
            let is_declared = is_declared(up, known.uplink, declared.uplink)
                && is_declared(down, known.downlink, declared.downlink);
            assert!(is_declared, "rates: {} counts for other rates than declared", declared.name);
        }
    }

    /// What is shown of a node: sent, received.
    pub fn status(&self, id: NodeId) -> [LinkStatus; 2] {
        let Some(node) = self.nodes.get(id.index()) else { return Default::default() };
        DIRECTIONS.map(|direction| {
            let known = &node.measured[direction as usize];
            let declared = node.declared_rate(direction);
            let observed = known.observed(declared).map(|guess| guess.deviation);
            let probed = || known.best().filter(|_| known.is_undeclared).map(|b| b.deviation);
            LinkStatus {
                capacity: known.capacity(declared, self.typical[direction as usize]).0 as u64,
                uncertainty: observed.or_else(probed),
                is_declared: !known.is_undeclared,
                taken: known.others,
                repair: known.repair,
            }
        })
    }
}

impl Measured {
    fn best(&self) -> Option<PairRate> {
        self.samples.values().copied().max_by_key(|sample| sample.mean)
    }

    /// What probes have shown of it, in bytes per second.
    fn probed_rate(&self) -> Option<u64> {
        self.best().filter(|_| self.is_undeclared).map(|sample| sample.mean)
    }

    /// What anything has shown of it.
    fn shown_rate(&self) -> Option<u64> {
        let observed = self.estimate.guess().filter(|_| self.is_undeclared);
        observed.map(|guess| guess.mean).or_else(|| self.probed_rate())
    }

    fn is_unknown(&self) -> bool {
        self.is_undeclared && self.shown_rate().is_none()
    }

    /// What transfers have shown, where it counts: of a declared link, that it is another one.
    fn observed(&self, declared: Rate) -> Option<Guess> {
        let is_less = |guess: &Guess| (guess.mean as f64) < DECLARED_LEAST * declared.0;
        self.estimate.guess().filter(|guess| self.is_undeclared || is_less(guess))
    }

    /// What the direction is taken for where transfers have shown nothing.
    fn assumed(&self, declared: Rate, typical: Option<u64>) -> Guess {
        let best = self.best().filter(|_| self.is_undeclared);
        match best {
            _ if !self.is_undeclared => Guess { mean: declared.0 as u64, deviation: 0 },
            Some(best) => Guess { mean: best.mean.max(self.seen), deviation: best.deviation },
            None => Guess::unsure(typical.unwrap_or(declared.0 as u64).max(self.seen)),
        }
    }

    /// What the direction is thought to carry.
    fn guess(&self, declared: Rate, typical: Option<u64>) -> Guess {
        self.observed(declared).unwrap_or_else(|| self.assumed(declared, typical))
    }

    /// Whether repair moves about all that it may.
    fn is_throttled(&self) -> bool {
        self.limit.is_some_and(|limit| self.repair >= limit - limit / NEAR_DIVISOR)
    }

    fn capacity(&self, declared: Rate, typical: Option<u64>) -> Rate {
        if let Some(observed) = self.observed(declared) {
            return Rate(observed.mean.max(RATE_LEAST) as f64);
        }
        if !self.is_undeclared {
            return declared;
        }
        let measured = self.probed_rate().or(typical).map_or(declared, |rate| Rate(rate as f64));
        Rate(measured.0.max(self.seen as f64))
    }

    fn probed(&mut self, peer: NodeId, rate: u64, number: u64) {
        let sample = match self.samples.get(&peer) {
            None => PairRate { mean: rate, deviation: rate / FIRST_DEVIATION, number },
            Some(PairRate { mean, .. })
                if rate > mean.saturating_mul(OTHER_FACTOR)
                    || rate.saturating_mul(OTHER_FACTOR) < *mean =>
            {
                PairRate { mean: rate, deviation: rate / FIRST_DEVIATION, number }
            }
            Some(PairRate { mean, deviation, .. }) => {
                let off = rate.abs_diff(*mean);
                let step = off / GAIN;
                let mean = if rate > *mean { mean + step } else { mean - step };
                let deviation = deviation - deviation / GAIN + off / GAIN;
                PairRate { mean, deviation, number }
            }
        };
        self.samples.insert(peer, sample);
        if self.estimate.guess().is_some_and(|guess| guess.mean < rate) {
            let passage = Passage { rate, pressure: Pressure::Spare, is_held: false };
            self.estimate.feed(Guess::unsure(rate), passage, Span::ZERO);
        }
        self.settle_observed();
        self.settle_doubt();
        if self.samples.len() > PEERS_MAX {
            let oldest = self.samples.iter().min_by_key(|(_, sample)| sample.number);
            let oldest = oldest.map(|(peer, _)| *peer);
            oldest.map(|peer| self.samples.remove(&peer));
        }
    }

    /// Drops what transfers have shown, once there are enough results of probes that are newer.
    fn settle_observed(&mut self) {
        if self.estimate.guess().is_none() {
            return;
        }
        let newer = |sample: &PairRate| sample.number > self.observed_at;
        let count = self.samples.values().filter(|sample| newer(sample)).count();
        if count >= DOUBT_PEERS.min(self.samples.len()) {
            let observed_at = self.observed_at;
            self.samples.retain(|_, sample| sample.number > observed_at);
            self.estimate.forget();
        }
    }

    /// Drops what is older than a doubt, once there is enough that is newer, or nothing older.
    fn settle_doubt(&mut self) {
        let Some(before) = self.doubted else { return };
        let newer = self.samples.values().filter(|sample| sample.number > before).count();
        if newer >= DOUBT_PEERS.min(self.samples.len()) {
            self.samples.retain(|_, sample| sample.number > before);
            self.doubted = None;
        }
    }
}

#[cfg(test)]
mod tests;
