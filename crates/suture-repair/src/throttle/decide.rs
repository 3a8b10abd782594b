//! How limits follow from what was reported and what is wanted.
//!
//! Place: beside [slices flow]: the rules of `throttle.rs`, in their order.

use super::share::share;
use super::{
    DECIDE_EVERY, Direction, FLOOR_DIVISOR, Keep, LATENCY_SHARE_WHOLE, LIMIT_MIN, Limited,
    NEAR_DIVISOR, NodeLimits, Reason, Reported, SharedCap, Situation, Throttle,
};
use crate::cluster::{Cluster, Node};
use crate::id::{NodeId, RackId};
use crate::message::RepairLimit;
use crate::mutant::Mutant;
use crate::time::Time;

const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// What a direction carries at most, in bytes per second.
fn capacity(node: &Node, direction: Direction) -> u64 {
    match direction {
        Direction::Up => node.uplink.0.max(1.0) as u64,
        Direction::Down => node.downlink.0.max(1.0) as u64,
    }
}

impl Throttle {
    /// Whether it is time to decide anew: once a second, as long as anything is limited or an agent
    /// still keeps to a limit; and once whenever something else is wanted.
    pub fn is_due(&self, now: Time) -> bool {
        let keeps =
            |reported: &Reported| reported.kept.is_some_and(|kept| kept != RepairLimit::default());
        let is_wanted = self.has_changed || self.is_on();
        self.next_at <= now && (is_wanted || self.reported.values().any(keeps))
    }

    /// Decides anew. Returns what is to be sent to agents that keep to something else.
    pub fn decide(&mut self, situation: Situation<'_>) -> Vec<(NodeId, RepairLimit)> {
        self.next_at = situation.now + DECIDE_EVERY;
        (self.is_decided, self.has_changed) = (true, false);
        let before = std::mem::take(&mut self.limits);
        let ids = situation.cluster.ids();
        self.alone = ids.map(|id| self.limits_alone(&situation, id)).collect();
        self.limits = self.alone.clone();
        if self.config.racks.is_empty() && self.config.total.is_none() {
            self.keep_near(&before);
        } else {
            self.share_caps(&situation);
            self.cap_alone(situation.cluster);
        }
        let differs = |id: &NodeId| {
            let kept = self.reported.get(id).and_then(|reported| reported.kept);
            kept.is_some_and(|kept| kept != self.decided(*id).repair_limit())
        };
        let changed = situation.cluster.ids().filter(differs);
        changed.map(|id| (id, self.decided(id).repair_limit())).collect()
    }

    fn limits_alone(&self, situation: &Situation<'_>, id: NodeId) -> NodeLimits {
        let [up, down] = DIRECTIONS.map(|direction| self.alone_of(situation, id, direction));
        NodeLimits { up, down }
    }

    /// The limit of a direction by all rules but those for several nodes.
    fn alone_of(&self, situation: &Situation<'_>, id: NodeId, to: Direction) -> Option<Limited> {
        let node = situation.cluster.node(id);
        let capacity = capacity(node, to);
        let reported = self.reported.get(&id);
        let closed = Limited { limit: LIMIT_MIN, reason: Reason::Window };
        let mut limit = self.mistake.is(Mutant::LimitUnasked).then_some(closed);
        if let Some(keep) = self.config.keep {
            tighten(&mut limit, kept_free(keep, capacity, reported, to));
        }
        if let (Some(_), Some(Reported { latency_share, latency: Some(seen), .. })) =
            (self.config.p99, reported)
            && *latency_share < LATENCY_SHARE_WHOLE
        {
            let part = (u128::from(capacity) * u128::from(*latency_share)
                / u128::from(LATENCY_SHARE_WHOLE)) as u64;
            tighten(&mut limit, Limited { limit: part, reason: Reason::Latency(*seen) });
        }
        // What is urgent does not wait for a window, nor crawl until it opens.
        if self.is_closed(situation.now) && !situation.is_urgent {
            tighten(&mut limit, closed);
        }
        let floor = self.config.floor.unwrap_or(capacity / FLOOR_DIVISOR);
        let least = if situation.is_urgent { floor.max(LIMIT_MIN) } else { LIMIT_MIN };
        if let Some(limit) = &mut limit
            && limit.limit < least
        {
            let reason = if situation.is_urgent { Reason::Floor } else { limit.reason };
            *limit = Limited { limit: least, reason };
        }
        if let Some(cap) = self.cap(&node.name) {
            let cap = if self.mistake.is(Mutant::ExceedCap) { cap.saturating_mul(2) } else { cap };
            tighten(&mut limit, Limited { limit: cap, reason: Reason::Node });
        }
        if self.mistake.is(Mutant::LimitToNothing) {
            limit = limit.map(|limited| Limited { limit: 0, ..limited });
        }
        limit
    }

    /// The cap of a node by itself.
    fn cap(&self, name: &str) -> Option<u64> {
        self.config.nodes.get(name).copied().or(self.config.node).map(|cap| cap.max(1))
    }

    /// A limit that would be nearly the same stays as it is: a message for each breath of an
    /// application would be noise.
    fn keep_near(&mut self, before: &[NodeLimits]) {
        for (index, (now, before)) in self.limits.iter_mut().zip(before).enumerate() {
            let alone = self.alone[index];
            for (limit, before, direction) in [
                (&mut now.up, before.up, Direction::Up),
                (&mut now.down, before.down, Direction::Down),
            ] {
                let (Some(new), Some(old)) = (limit.as_mut(), before) else { continue };
                let is_near = new.limit.abs_diff(old.limit) < old.limit / NEAR_DIVISOR;
                let is_cap = alone.of(direction).is_some_and(|l| l.reason == Reason::Node);
                if is_near && !is_cap && old.reason != Reason::Node {
                    new.limit = old.limit;
                }
            }
        }
    }

    /// Shares the caps of racks, and then that of the cluster.
    fn share_caps(&mut self, situation: &Situation<'_>) {
        for cap in self.shared_caps(situation.cluster) {
            self.share_cap(situation, &cap.members, (cap.cap, cap.reason));
        }
    }

    /// No node has more of a cap than all of it, if it is the only one.
    fn cap_alone(&mut self, cluster: &Cluster) {
        for SharedCap { members, cap: limit, reason } in self.shared_caps(cluster) {
            for id in members {
                let NodeLimits { up, down } = &mut self.alone[id.index()];
                tighten(up, Limited { limit, reason });
                tighten(down, Limited { limit, reason });
            }
        }
    }

    /// Whether there is a cap of several nodes together.
    pub fn shares_caps(&self) -> bool {
        self.config.total.is_some() || !self.config.racks.is_empty()
    }

    /// The caps of several nodes: those of racks, and then that of the cluster.
    pub fn shared_caps(&self, cluster: &Cluster) -> Vec<SharedCap> {
        let mut of_racks: Vec<Vec<NodeId>> = vec![Vec::new(); cluster.racks.len()];
        for id in cluster.ids() {
            let rack = cluster.rack_of(id);
            rack.into_iter().for_each(|rack| of_racks[rack.0 as usize].push(id));
        }
        let of_rack = |(rack, cap): (RackId, u64)| {
            let members = std::mem::take(&mut of_racks[rack.0 as usize]);
            SharedCap { members, cap, reason: Reason::Rack(rack) }
        };
        let of_all = |cap| {
            let members = cluster.ids().collect();
            SharedCap { members, cap, reason: Reason::Total }
        };
        let racks = self.rack_caps(cluster).into_iter().map(of_rack);
        racks.chain(self.config.total.map(of_all)).collect()
    }

    /// The cap of all nodes of a rack together, in bytes per second.
    pub fn rack_cap(&self, rack: RackId, cluster: &Cluster) -> Option<u64> {
        let name = cluster.racks.get(rack.0 as usize)?;
        self.config.racks.get(name).copied()
    }

    fn rack_caps(&self, cluster: &Cluster) -> Vec<(RackId, u64)> {
        let racks = (0..cluster.racks.len() as u32).map(RackId);
        racks.filter_map(|rack| Some((rack, self.rack_cap(rack, cluster)?))).collect()
    }

    fn share_cap(&mut self, situation: &Situation<'_>, members: &[NodeId], cap: (u64, Reason)) {
        let (cap, reason) = cap;
        for direction in DIRECTIONS {
            let part = |id: &NodeId| {
                let load = situation.load.node(*id);
                let bytes = match direction {
                    Direction::Up => load.up_bytes,
                    Direction::Down => load.down_bytes,
                };
                (self.limits[id.index()].of(direction).map(|limited| limited.limit), bytes)
            };
            let parts: Vec<(Option<u64>, u64)> = members.iter().map(part).collect();
            for (id, limit) in members.iter().zip(share(cap, &parts)) {
                let node = &mut self.limits[id.index()];
                let known = match direction {
                    Direction::Up => &mut node.up,
                    Direction::Down => &mut node.down,
                };
                tighten(known, Limited { limit, reason });
            }
        }
    }

    /// # Panics
    /// A limit exceeds a cap, or is zero, or is one though nothing is configured.
    pub fn assert_invariants(&self, cluster: &Cluster) {
        let limit_of = |id: NodeId, to: Direction| self.decided(id).of(to).map(|l| l.limit);
        if self.limits.len() != cluster.nodes.len() || !self.is_decided {
            // Not decided for these nodes, or this configuration, yet.
            return;
        }
        let is_free = |limits: &NodeLimits| limits.up.is_none() && limits.down.is_none();
        let is_asked = self.is_on() || self.limits.iter().all(is_free);
        assert!(is_asked, "throttle: repairs are limited, and nobody asked for that");
        for to in DIRECTIONS {
            for id in cluster.ids() {
                let (limit, name) = (limit_of(id, to), &cluster.node(id).name);
                assert_ne!(limit, Some(0), "throttle: {id} may move nothing");
                if let Some(cap) = self.cap(name) {
                    let is_within = limit.is_some_and(|limit| limit <= cap);
                    assert!(is_within, "throttle: {id} may have {limit:?}, its cap is {cap}");
                }
            }
        }
        for SharedCap { members, cap, reason } in self.shared_caps(cluster) {
            for to in DIRECTIONS {
                let limits = members.iter().map(|id| limit_of(*id, to).unwrap_or(u64::MAX));
                let sum = limits.fold(0u64, u64::saturating_add);
                let most = cap.saturating_add(members.len() as u64);
                assert!(sum <= most, "throttle: {reason:?} lets {sum} pass, its cap is {cap}");
            }
        }
    }
}

/// What `keep` leaves of a direction.
fn kept_free(keep: Keep, capacity: u64, reported: Option<&Reported>, to: Direction) -> Limited {
    let taken = reported.map_or(0, |reported| reported.others[to as usize]);
    let free = match keep {
        Keep::Percent(part) => (u128::from(capacity) * u128::from(part) / 100) as u64,
        Keep::Rate(rate) => rate,
    };
    let limit = capacity.saturating_sub(taken).saturating_sub(free);
    Limited { limit, reason: Reason::Applications(taken) }
}

/// Puts the lower of two limits in the place of the first.
fn tighten(limit: &mut Option<Limited>, other: Limited) {
    if limit.is_none_or(|known| other.limit < known.limit) {
        *limit = Some(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Rate;
    use crate::message::{LinkReport, Moved};
    use crate::plan::load::Load;
    use crate::throttle::ThrottleConfig;
    use crate::time::Span;

    const LINK: u64 = 10_000_000;
    const N: fn(u32) -> NodeId = NodeId;

    struct Bench {
        throttle: Throttle,
        cluster: Cluster,
        load: Load,
        now: Time,
        is_urgent: bool,
    }

    impl Bench {
        fn new(config: &str) -> Bench {
            let mut cluster = Cluster::uniform(4, Rate(LINK as f64));
            let racks = ["r0", "r1"].map(|name| cluster.rack(name));
            for (index, node) in cluster.nodes.iter_mut().enumerate() {
                node.rack = Some(racks[index / 2]);
            }
            let mut throttle = Throttle::default();
            throttle.configure(config.parse().unwrap());
            let load = Load::new(&cluster);
            Bench { throttle, load, cluster, now: Time::ZERO, is_urgent: false }
        }

        fn decide(&mut self) -> Vec<(NodeId, RepairLimit)> {
            self.now = self.now + DECIDE_EVERY;
            let Bench { cluster, load, now, is_urgent, .. } = self;
            let situation = Situation { now: *now, cluster, load, is_urgent: *is_urgent };
            let changed = self.throttle.decide(situation);
            self.throttle.assert_invariants(&self.cluster);
            changed
        }

        fn report(&mut self, node: u32, others: u64, latency: Option<Span>) {
            let limit = self.throttle.limits(N(node)).repair_limit();
            let moved = Moved { repair: 0, others };
            let span = Span::from_secs(1);
            let report = LinkReport { span, sent: moved, latency, limit, ..LinkReport::default() };
            self.throttle.report(N(node), &report);
        }

        fn up(&self, node: u32) -> Option<Limited> {
            self.throttle.limits(N(node)).up
        }
    }

    #[test]
    fn without_configuration_nothing_is_limited_and_nobody_is_told() {
        let mut bench = Bench::new("off");
        bench.report(0, LINK, Some(Span::from_secs(9)));
        assert_eq!((bench.decide(), bench.up(0)), (Vec::new(), None));
        assert!(!bench.throttle.is_due(Time::ZERO + Span::from_secs(9)));
    }

    #[test]
    fn only_agents_that_report_are_told_and_again_until_they_keep_to_it() {
        let mut bench = Bench::new("node 1000000");
        bench.report(2, 0, None);
        let limit = RepairLimit { up: Some(1_000_000), down: Some(1_000_000) };
        assert_eq!(bench.decide(), [(N(2), limit)]);
        assert_eq!(bench.decide(), [(N(2), limit)], "it has not said that it received it");
        bench.report(2, 0, None);
        assert_eq!(bench.decide(), []);
        assert_eq!(bench.throttle.limit_at_first(N(2)), Some(limit), "an agent that begins anew");
        bench.throttle.configure(ThrottleConfig::default());
        assert!(bench.throttle.is_due(bench.now), "it still keeps to the old one");
        assert_eq!(bench.decide(), [(N(2), RepairLimit::default())]);
        bench.report(2, 0, None);
        assert!(!bench.throttle.is_due(bench.now + Span::from_secs(9)));
    }

    #[test]
    fn a_limit_leaves_what_applications_take_and_what_is_to_stay_free() {
        let mut bench = Bench::new("keep 30%");
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 7_000_000);
        bench.report(0, 4_000_000, None);
        bench.decide();
        let limited = Limited { limit: 3_000_000, reason: Reason::Applications(4_000_000) };
        assert_eq!(bench.up(0), Some(limited));
        assert_eq!(bench.throttle.limits(N(0)).down.unwrap().limit, 7_000_000);
        // It rises slowly, by what fades of what was seen.
        bench.report(0, 0, None);
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 3_500_000);
        bench.report(0, 2 * LINK, None);
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, LIMIT_MIN, "it never stops");
        let mut bench = Bench::new("keep 4000000");
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 6_000_000);
    }

    #[test]
    fn a_limit_falls_while_probes_wait_longer_than_they_may_and_rises_again() {
        let mut bench = Bench::new("p99 0.01s");
        bench.report(0, 0, Some(Span::from_millis(10)));
        bench.decide();
        assert_eq!(bench.up(0), None);
        bench.report(0, 0, Some(Span::from_millis(15)));
        bench.decide();
        let waited = Reason::Latency(Span::from_millis(15));
        assert_eq!(bench.up(0), Some(Limited { limit: 6_660_000, reason: waited }));
        (0..20).for_each(|_| bench.report(0, 0, Some(Span::from_millis(500))));
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, LIMIT_MIN);
        (0..20).for_each(|_| bench.report(0, 0, Some(Span::from_millis(1))));
        bench.decide();
        assert_eq!(bench.up(0), None);
        assert_eq!(bench.up(1), None, "another node's probes");
        (0..20).for_each(|_| bench.report(0, 0, Some(Span::from_millis(500))));
        bench.throttle.configure("p99 1s".parse().unwrap());
        bench.decide();
        assert_eq!(bench.up(0), None, "what was left was for another target");
    }

    #[test]
    fn what_is_urgent_has_the_floor_and_no_cap_is_exceeded_for_it() {
        let mut bench = Bench::new("nodes [\"n1\" 500000] keep 99% floor 2000000");
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, LIMIT_MIN);
        bench.is_urgent = true;
        bench.decide();
        assert_eq!(bench.up(0), Some(Limited { limit: 2_000_000, reason: Reason::Floor }));
        assert_eq!(bench.up(1), Some(Limited { limit: 500_000, reason: Reason::Node }));
        let mut default = Bench::new("keep 99%");
        default.is_urgent = true;
        default.decide();
        assert_eq!(default.up(0).unwrap().limit, LINK / FLOOR_DIVISOR);
    }

    #[test]
    fn a_closed_window_leaves_the_least_until_it_opens() {
        let mut bench = Bench::new("off");
        bench.throttle.close(Some(Time::ZERO + Span::from_secs(3)));
        bench.decide();
        assert_eq!(bench.up(0), Some(Limited { limit: LIMIT_MIN, reason: Reason::Window }));
        bench.is_urgent = true;
        bench.decide();
        assert!(bench.throttle.is_closed(bench.now));
        assert_eq!(bench.up(0), None, "what is urgent has what it has in an open one");
        bench.is_urgent = false;
        bench.decide();
        assert_eq!(bench.up(0), None);
    }

    #[test]
    fn caps_of_racks_and_of_the_cluster_are_shared_by_load() {
        let mut bench = Bench::new("nodes [\"n3\" 100000] racks [\"r0\" 300000] total 1000000");
        let mut other = Load::new(&bench.cluster);
        other.set_for_test(&[(1_000, 0), (2_000, 0), (3_000, 0), (4_000, 0)]);
        bench.load = other;
        bench.decide();
        let all = [0, 1, 2, 3].map(|node| bench.up(node).unwrap());
        assert_eq!(all[0], Limited { limit: 100_000, reason: Reason::Rack(RackId(0)) });
        assert_eq!(all[1], Limited { limit: 200_000, reason: Reason::Rack(RackId(0)) });
        assert_eq!(all[3], Limited { limit: 100_000, reason: Reason::Node });
        assert_eq!(all[2], Limited { limit: 600_000, reason: Reason::Total });
        // Planners count each as the only one.
        let alone = [0, 1, 2, 3].map(|node| bench.throttle.alone(NodeId(node)).up.unwrap().limit);
        assert_eq!(alone, [300_000, 300_000, 1_000_000, 100_000]);
        // 3 kB of a rack with 0.3 MB a second, and 10 kB of all with 1 MB.
        let caps = bench.throttle.shared_caps(&bench.cluster);
        let seconds: Vec<f64> = caps.iter().map(|cap| cap.seconds(&bench.load)).collect();
        assert_eq!(seconds, [0.01, 0.01]);
    }

    #[test]
    fn a_node_that_is_in_another_rack_has_its_part_of_that_cap_at_once() {
        let mut bench = Bench::new("racks [\"r0\" 300000]");
        bench.decide();
        assert_eq!(bench.up(2), None);
        bench.cluster.nodes[2].rack = bench.cluster.nodes[0].rack;
        bench.throttle.racks_changed();
        bench.throttle.assert_invariants(&bench.cluster);
        assert!(bench.throttle.is_due(bench.now));
        bench.decide();
        assert_eq!(bench.up(2).map(|limited| limited.reason), Some(Reason::Rack(RackId(0))));
    }

    #[test]
    fn a_limit_that_would_be_nearly_the_same_stays_but_a_new_cap_holds_at_once() {
        let mut bench = Bench::new("keep 30%");
        bench.decide();
        bench.report(0, 100_000, None);
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 7_000_000);
        bench.throttle.configure("node 6990000 keep 30%".parse().unwrap());
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 6_900_000, "applications take the rest");
        assert_eq!(bench.up(1), Some(Limited { limit: 6_990_000, reason: Reason::Node }));
        bench.throttle.configure("node 6980000 keep 30%".parse().unwrap());
        bench.decide();
        assert_eq!(bench.up(1).unwrap().limit, 6_980_000);
    }

    #[test]
    fn what_an_operator_wants_is_read_back_as_it_was_written() {
        for text in [
            "off",
            "node 25000000 keep 30% p99 0.02s",
            "nodes [\"n3\" 6250000, \"n 4\" 1] racks [\"r1\" 125000000] total 5 keep 7 floor 9",
        ] {
            let config: ThrottleConfig = text.parse().unwrap();
            assert_eq!(config.to_string().parse(), Ok(config.clone()), "{config}");
            assert_eq!(config.is_off(), text == "off");
        }
        for text in ["keep 100%", "node", "p99 fast", "node 1 total 2 node 3"] {
            assert!(text.parse::<ThrottleConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_thing_that_can_be_set_limits_by_itself_but_the_floor() {
        let config = |text: &str| text.parse::<ThrottleConfig>().unwrap();
        for text in
            ["node 1", "nodes [\"n3\" 1]", "racks [\"r1\" 1]", "total 1", "keep 1%", "p99 1s"]
        {
            assert!(!config(text).is_off(), "{text}");
        }
        assert!(config("floor 1").is_off());
    }

    #[test]
    fn a_limit_rises_again_while_probes_wait_as_long_as_they_may() {
        let mut bench = Bench::new("p99 0.01s");
        bench.report(0, 0, Some(Span::from_millis(15)));
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 6_660_000);
        bench.report(0, 0, Some(Span::from_millis(10)));
        bench.decide();
        assert_eq!(bench.up(0).unwrap().limit, 7_160_000);
    }

    #[test]
    fn the_floor_is_the_reason_only_of_what_would_be_less_without_it() {
        let mut bench = Bench::new("keep 80% floor 2000000");
        bench.is_urgent = true;
        bench.decide();
        let left = Limited { limit: 2_000_000, reason: Reason::Applications(0) };
        assert_eq!(bench.up(0), Some(left));
        bench.report(0, 1, None);
        bench.decide();
        assert_eq!(bench.up(0), Some(Limited { limit: 2_000_000, reason: Reason::Floor }));
    }

    #[test]
    fn a_limit_stays_where_it_would_change_by_less_than_a_sixteenth() {
        let mut bench = Bench::new("keep 30%");
        bench.decide();
        let mut taken = |others: u64| {
            bench.report(0, others, None);
            bench.decide();
            bench.up(0).unwrap().limit
        };
        assert_eq!(taken(7_000_000 / 16 - 1), 7_000_000);
        assert_eq!(taken(7_000_000 / 16), 7_000_000 - 7_000_000 / 16);
    }
}
