//! What links carry: as operators declare it, or measured by probes and by what is moved.
//!
//! Place: beside [plan] and [slices flow]: planners, schedules and the throttle count with it.
//! A probe has a peer send all that it can for a moment; what comes is the lesser of the peer's
//! uplink and the receiver's downlink, so each direction is the best of what its peers have shown.
//! Each pair's results are averaged, and how far they scatter is kept. What a direction was seen to
//! carry, it can carry.
//!
//! A direction that nobody has probed yet counts as the median of those that were: taken for a
//! fixed rate among others that are known, plans would give it far too little or far too much.
//!
//! Invariants: a declared rate is never exceeded, and is what counts; one that was only taken for
//! something counts until there is something better. Does not know when probes are sent.

use std::collections::BTreeMap;

use crate::cluster::{Node, Rate};
use crate::event::LinkStatus;
use crate::id::NodeId;
use crate::message::LinkReport;
use crate::throttle::Direction;

/// A new result moves the average by such a part of the difference.
const GAIN: u64 = 4;

/// Before a second probe the average may be off by such a part.
const FIRST_DEVIATION: u64 = 4;

/// A result that differs by more than such a factor is of another link: it replaces the average.
const OTHER_FACTOR: u64 = 2;

/// What was seen to pass fades by such a part with each report.
const FADING: u64 = 4;

/// Peers whose results are kept for a direction: the latest.
const PEERS_MAX: usize = 16;

/// What a direction was thought to carry is dropped for results of so many peers that are newer
/// than a doubt about it.
const DOUBT_PEERS: usize = 5;

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
}

/// A node as it was declared, with what its links are taken for, and what was measured of them.
#[derive(Clone, Debug)]
struct NodeRates {
    declared: Node,
    measured: [Measured; 2],
}

/// What is known of all links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    nodes: Vec<NodeRates>,
    results: u64,
    /// The median of the directions that were probed, in bytes per second: sent, received.
    typical: [Option<u64>; 2],
    /// It is taken anew when there are so many results.
    typical_until: u64,
}

impl Rates {
    /// A node joins, or declares other rates.
    pub fn declare(&mut self, id: NodeId, node: Node) {
        match self.nodes.get_mut(id.index()) {
            Some(known) => known.declared = node,
            None => self.nodes.push(NodeRates { declared: node, measured: Default::default() }),
        }
    }

    /// An agent has reported what its links carried. Returns the nodes of which more is known now.
    pub fn report(&mut self, node: NodeId, report: &LinkReport) -> Vec<NodeId> {
        let Some(known) = self.nodes.get_mut(node.index()) else { return Vec::new() };
        let moved = [report.sent, report.received];
        let has = [report.has_uplink, report.has_downlink];
        for ((measured, moved), has) in known.measured.iter_mut().zip(moved).zip(has) {
            measured.repair = report.rate(moved.repair);
            measured.others = report.rate(moved.others);
            let faded = measured.seen - measured.seen / FADING;
            measured.seen = faded.max(report.rate(moved.repair.saturating_add(moved.others)));
            measured.is_undeclared = !has;
        }
        let mut changed = vec![node];
        for &(peer, rate) in &report.probed {
            if peer.index() < self.nodes.len() && peer != node && rate > 0 {
                self.results += 1;
                let number = self.results;
                self.doubt(peer, node, rate);
                self.nodes[peer.index()].measured[0].probed(node, rate, number);
                self.nodes[node.index()].measured[1].probed(peer, rate, number);
                changed.push(peer);
            }
        }
        if self.results > self.typical_until {
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
            let mut probed: Vec<u64> = measured.filter_map(Measured::probed_rate).collect();
            probed.sort_unstable();
            let typical = probed.get(probed.len() / 2).copied();
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
        let NodeRates { declared, measured: [up, down] } = &self.nodes[id.index()];
        let [sent, received] = self.typical;
        let uplink = up.capacity(declared.uplink, sent);
        let downlink = down.capacity(declared.downlink, received);
        Node { uplink, downlink, ..declared.clone() }
    }

    /// What is shown of a node: sent, received.
    pub fn status(&self, id: NodeId) -> [LinkStatus; 2] {
        let Some(NodeRates { declared, measured }) = self.nodes.get(id.index()) else {
            return Default::default();
        };
        [Direction::Up, Direction::Down].map(|direction| {
            let known = &measured[direction as usize];
            let declared = match direction {
                Direction::Up => declared.uplink,
                Direction::Down => declared.downlink,
            };
            LinkStatus {
                capacity: known.capacity(declared, self.typical[direction as usize]).0 as u64,
                uncertainty: known.best().filter(|_| known.is_undeclared).map(|b| b.deviation),
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

    fn is_unknown(&self) -> bool {
        self.is_undeclared && self.samples.is_empty()
    }

    fn capacity(&self, declared: Rate, typical: Option<u64>) -> Rate {
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
        self.settle_doubt();
        if self.samples.len() > PEERS_MAX {
            let oldest = self.samples.iter().min_by_key(|(_, sample)| sample.number);
            let oldest = oldest.map(|(peer, _)| *peer);
            oldest.map(|peer| self.samples.remove(&peer));
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
mod tests {
    use super::*;
    use crate::message::Moved;
    use crate::time::Span;

    const N: fn(u32) -> NodeId = NodeId;

    fn rates(nodes: usize) -> Rates {
        let mut rates = Rates::default();
        (0..nodes).for_each(|i| rates.declare(N(i as u32), Node::new(format!("n{i}"), Rate(1e6))));
        rates
    }

    fn probed(all: &[(u32, u64)]) -> LinkReport {
        let probed = all.iter().map(|(peer, rate)| (N(*peer), *rate)).collect();
        LinkReport { span: Span::from_secs(1), probed, ..LinkReport::default() }
    }

    #[test]
    fn a_direction_is_the_best_of_what_its_peers_have_shown() {
        let mut rates = rates(3);
        let declares_nothing = probed(&[]);
        (0..3).for_each(|i| drop(rates.report(N(i), &declares_nothing)));
        assert_eq!(
            rates.node(N(0)).uplink,
            Rate(1e6),
            "what it was taken for, until more is known"
        );
        // Uplinks 900, 400, 200; downlinks 300, 800, 700.
        rates.report(N(1), &probed(&[(0, 800), (2, 200)]));
        rates.report(N(2), &probed(&[(0, 700), (1, 400)]));
        rates.report(N(0), &probed(&[(1, 300), (2, 200)]));
        let all = [0, 1, 2].map(|i| (rates.node(N(i)).uplink.0, rates.node(N(i)).downlink.0));
        assert_eq!(all, [(800.0, 300.0), (400.0, 800.0), (200.0, 700.0)]);
    }

    #[test]
    fn a_direction_that_nobody_has_probed_counts_as_most_others_do() {
        let mut rates = rates(5);
        (0..5).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
        let changed = rates.report(N(1), &probed(&[(0, 5_000_000)]));
        assert_eq!(changed, [0, 1, 2, 3, 4].map(N), "all count anew");
        assert_eq!((rates.node(N(4)).uplink, rates.node(N(4)).downlink), (Rate(5e6), Rate(5e6)));
        assert_eq!(rates.status(N(4))[0].uncertainty, None, "it is not known");
        // Of rates of 2, 3 and 5 MB/s the middle one.
        rates.report(N(0), &probed(&[(2, 2_000_000), (3, 3_000_000)]));
        rates.report(N(0), &probed(&[(2, 2_000_000), (3, 3_000_000)]));
        assert_eq!((rates.node(N(4)).uplink, rates.node(N(2)).uplink), (Rate(3e6), Rate(2e6)));
        let declares = LinkReport { has_uplink: true, ..probed(&[]) };
        rates.report(N(4), &declares);
        assert_eq!(rates.node(N(4)).uplink, Rate(1e6), "what is declared counts");
    }

    #[test]
    fn a_declared_rate_counts_whatever_probes_show() {
        let mut rates = rates(2);
        let declares = LinkReport { has_uplink: true, ..probed(&[]) };
        rates.report(N(0), &declares);
        rates.report(N(1), &probed(&[(0, 7_000_000)]));
        assert_eq!(rates.node(N(0)).uplink, Rate(1e6));
        assert_eq!(rates.node(N(1)).downlink, Rate(7e6));
        assert_eq!(rates.status(N(0))[0].uncertainty, None);
        assert!(rates.status(N(0))[0].is_declared && !rates.status(N(1))[1].is_declared);
    }

    #[test]
    fn results_are_averaged_and_how_far_they_scatter_is_kept() {
        let mut rates = rates(2);
        rates.report(N(1), &probed(&[(0, 1000)]));
        assert_eq!(rates.status(N(1))[1].uncertainty, Some(250), "one result says little");
        (0..40).for_each(|_| drop(rates.report(N(1), &probed(&[(0, 1000)]))));
        assert!(rates.status(N(1))[1].uncertainty < Some(20), "the same again and again");
        rates.report(N(1), &probed(&[(0, 400)]));
        assert_eq!(rates.node(N(1)).downlink, Rate(400.0), "another link");
        (0..40).for_each(|_| drop(rates.report(N(1), &probed(&[(0, 500)]))));
        let capacity = rates.node(N(1)).downlink.0;
        assert!((480.0..=500.0).contains(&capacity), "{capacity}");
    }

    #[test]
    fn what_a_direction_was_seen_to_carry_it_can_carry() {
        let mut rates = rates(2);
        rates.report(N(1), &probed(&[(0, 1000)]));
        let received = Moved { repair: 4000, others: 1000 };
        rates.report(N(1), &LinkReport { received, ..probed(&[]) });
        assert_eq!(rates.node(N(1)).downlink, Rate(5000.0));
        let status = rates.status(N(1))[1];
        assert_eq!((status.repair, status.taken), (4000, 1000));
    }

    #[test]
    fn no_more_peers_are_remembered_than_are_of_use() {
        let mut rates = rates(40);
        let declares_nothing = probed(&[]);
        rates.report(N(0), &declares_nothing);
        for peer in 1..40 {
            rates.report(N(0), &probed(&[(peer, 10_000 - u64::from(peer))]));
        }
        assert_eq!(rates.nodes[0].measured[1].samples.len(), PEERS_MAX);
        assert_eq!(rates.node(N(0)).downlink, Rate(9976.0), "the best of the latest sixteen");
    }

    #[test]
    fn what_was_seen_to_pass_fades_until_what_probes_have_shown_is_more() {
        let mut rates = rates(2);
        rates.report(N(1), &probed(&[(0, 1000)]));
        let received = Moved { repair: 4000, others: 0 };
        rates.report(N(1), &LinkReport { received, ..probed(&[]) });
        let mut later = || {
            rates.report(N(1), &probed(&[]));
            rates.node(N(1)).downlink.0
        };
        assert_eq!([later(), later()], [3000.0, 2250.0]);
        assert_eq!((0..20).map(|_| later()).last(), Some(1000.0));
    }

    #[test]
    fn a_link_that_became_slow_is_known_for_that_after_a_few_results() {
        let mut rates = rates(12);
        (0..12).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
        let probe_all = |rates: &mut Rates, of: u64, turns: std::ops::Range<u32>| {
            // Node 0 sends no faster than that, and all others 1000.
            for turn in turns {
                for node in 0..12 {
                    let peer = (node + 1 + turn) % 12;
                    let rate = if peer == 0 { of } else { 1000 };
                    if peer != node {
                        rates.report(N(node), &probed(&[(peer, rate)]));
                    }
                }
            }
        };
        probe_all(&mut rates, 1000, 0..11);
        assert_eq!(rates.node(N(0)).uplink, Rate(1000.0));
        probe_all(&mut rates, 100, 0..4);
        assert_eq!(rates.node(N(0)).uplink, Rate(1000.0), "so far others may be slow");
        probe_all(&mut rates, 100, 4..5);
        assert_eq!(rates.node(N(0)).uplink, Rate(100.0));
        // Those who asked it are not slower than they were.
        probe_all(&mut rates, 100, 5..11);
        assert!((1..12).all(|node| rates.node(N(node)).downlink == Rate(1000.0)));
    }

    #[test]
    fn a_receiver_that_became_slow_is_known_for_that_after_a_few_results() {
        // Half of what both should carry is no reason to doubt any.
        for (rate, is_replaced) in [(500, false), (499, true)] {
            let mut rates = rates(12);
            (0..12).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
            // All carry 1000, as the one after them has seen.
            (1..12).for_each(|i| drop(rates.report(N(i), &probed(&[(i - 1, 1000)]))));
            // The last of these is just before the doubt.
            (2..10).for_each(|peer| drop(rates.report(N(0), &probed(&[(peer, 1000)]))));
            let mut downlink = |peer: u32| {
                rates.report(N(0), &probed(&[(peer, rate)]));
                rates.node(N(0)).downlink.0
            };
            for peer in [2, 3, 4, 5] {
                assert_eq!(downlink(peer), 1000.0, "so far others may be slow");
            }
            let expected = if is_replaced { 499.0 } else { 1000.0 };
            assert_eq!(downlink(6), expected, "after five results of {rate}");
        }
    }

    #[test]
    fn a_result_about_a_stranger_about_the_node_itself_or_of_nothing_is_none() {
        let mut rates = rates(3);
        (0..3).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
        for result in [(3, 500), (0, 500), (1, 0)] {
            assert_eq!(rates.report(N(0), &probed(&[result])), [N(0)], "{result:?}");
            let all = [0, 1].map(|i| (rates.node(N(i)).uplink.0, rates.node(N(i)).downlink.0));
            assert_eq!(all, [(1e6, 1e6); 2], "{result:?}");
        }
    }

    #[test]
    fn a_report_tells_more_of_those_it_names_and_a_new_median_of_those_that_count_by_it() {
        let mut rates = rates(12);
        (0..11).for_each(|i| drop(rates.report(N(i), &probed(&[]))));
        let declares = LinkReport { has_uplink: true, has_downlink: true, ..probed(&[]) };
        rates.report(N(11), &declares);
        let changed = rates.report(N(1), &probed(&[(0, 5_000_000)]));
        let undeclared: Vec<NodeId> = (0..11).map(N).collect();
        assert_eq!(changed, undeclared, "the first result is also the median");
        let changed = rates.report(N(3), &probed(&[(2, 6_000_000)]));
        assert_eq!(changed, [3, 2].map(N), "the median is not taken anew for each result");
    }

    #[test]
    fn a_result_of_up_to_twice_or_half_the_average_moves_it_and_any_other_replaces_it() {
        let after = |rate: u64| {
            let mut known = rates(2);
            known.report(N(1), &probed(&[(0, 1000)]));
            known.report(N(1), &probed(&[(0, rate)]));
            let status = known.status(N(1))[1];
            (status.capacity, status.uncertainty)
        };
        // By a quarter of the difference; what it may be off by begins with a quarter, 250.
        assert_eq!(after(2000), (1250, Some(250 - 62 + 250)));
        assert_eq!(after(500), (875, Some(250 - 62 + 125)));
        assert_eq!(after(2001), (2001, Some(500)));
        assert_eq!(after(499), (499, Some(124)));
    }
}
