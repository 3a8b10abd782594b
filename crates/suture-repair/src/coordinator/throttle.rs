//! What is measured of links, and how much of them repair is given.
//!
//! Place: ... [plan -> admit] ... [slices flow] ...: reports of agents go in, limits come out; in
//! between both change what planners and schedules take links for. What is decided is decided in
//! `throttle.rs` and `rates.rs`.

use std::collections::BTreeMap;

use super::Coordinator;
use crate::cluster::{Core, Node, Rate};
use crate::event::{LinkStatus, ThrottleStatus, TightestLink};
use crate::id::{NodeId, RackId, StripeId};
use crate::message::{LinkReport, ToAgent};
use crate::queue::Margin;
use crate::throttle::{Direction, Limited, Situation, ThrottleConfig};
use crate::time::Time;

/// Stripes that can lose only so many more chunks, none, are repaired whatever the window says, at
/// the rates of an open one, and have the floor.
const URGENT_MARGIN: Margin = 0;

/// A link that has changed by less than such a fraction is the same to planners.
const SAME_FRACTION: f64 = 1.0 / 16.0;

/// Why what is left of a link to repair has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkChange {
    /// The link carries something else, or applications take another part of it.
    Itself,
    /// An operator or a window lets repair have another part.
    Ordered,
}

impl Coordinator {
    /// An agent has reported what its links carry.
    pub(super) fn links(&mut self, now: Time, node: NodeId, report: &LinkReport) {
        self.tried(now, node, report);
        self.throttle.report(node, report);
        // Of the node itself at least, which may report another cap.
        for changed in self.rates.report(node, report) {
            self.count_links(now, changed, LinkChange::Itself);
        }
        self.count_racks(now);
    }

    /// Applies a changed throttle configuration.
    pub(super) fn configure_throttle(&mut self, config: ThrottleConfig) {
        self.throttle.configure(config);
    }

    /// The window has closed, or it is open. What was planned and may not begin now is planned
    /// again when it may.
    pub(super) fn close_window(&mut self, now: Time, until: Option<Time>) {
        self.throttle.close(until);
        if self.throttle.is_closed(now) {
            self.unplan_all();
        }
    }

    /// Decides the limits, and sends them to agents that report others.
    pub(super) fn adjust_throttle(&mut self, now: Time) {
        if !self.throttle.is_due(now) {
            return;
        }
        let left = self.ledger.load_left();
        let situation = Situation {
            now,
            cluster: self.ledger.cluster(),
            load: &left,
            is_urgent: self.is_urgent_ready()
                || self.ledger.is_any_urgent(|stripe| self.is_urgent(stripe)),
        };
        let (has_changed, was_shut) = (self.throttle.has_changed(), self.throttle.is_shut());
        let changed = self.throttle.decide(situation);
        let is_ordered = has_changed || was_shut != self.throttle.is_shut();
        let change = if is_ordered { LinkChange::Ordered } else { LinkChange::Itself };
        self.throttle.assert_invariants(self.ledger.cluster());
        for (node, limit) in changed {
            self.send(node, ToAgent::Limit(limit));
        }
        for id in self.ledger.cluster().ids() {
            self.count_links(now, id, change);
        }
    }

    /// Whether a stripe that is to be planned cannot lose any more chunks. What is tried again now
    /// and then, and waits for something, is none that could be repaired if there were more of
    /// links.
    fn is_urgent_ready(&self) -> bool {
        let is_blocked =
            |id: &StripeId| self.failures.get(id).is_some_and(|history| history.blocked.is_some());
        let mut urgent = self.queue.ready().take(self.queue.ready_within(URGENT_MARGIN));
        urgent.any(|id| !is_blocked(&id))
    }

    /// Whether the stripe cannot lose any more chunks.
    pub(super) fn is_urgent(&self, id: StripeId) -> bool {
        let (Some(stripe), Some(lost)) = (self.stripes.get(id), self.lost.get(&id)) else {
            return false;
        };
        super::margin(stripe, lost.len()) == URGENT_MARGIN
    }

    /// How many of the ready stripes may be planned now, whatever the schedule wants.
    pub(super) fn ready_now(&self, now: Time) -> usize {
        if self.throttle.is_closed(now) {
            self.queue.ready_within(URGENT_MARGIN)
        } else {
            self.queue.ready_count()
        }
    }

    /// Has planners and schedules count with what is known of a node's links and left to repair.
    /// What was ordered says nothing about what is to come, and does not count in averages.
    fn count_links(&mut self, now: Time, id: NodeId, change: LinkChange) {
        let known = self.ledger.cluster().node(id);
        let node = self.counted(id, known.rack);
        let is_free_same = is_same(known.uplink_free(), node.uplink_free())
            && is_same(known.downlink_free(), node.downlink_free());
        // What a link carries in all was declared once, or is measured.
        let is_known = is_same(known.uplink, node.uplink) && is_same(known.downlink, node.downlink);
        match (is_known, is_free_same) {
            (true, true) => {}
            (true, false) if change == LinkChange::Ordered => {
                self.ledger.set_measured(now, id, node)
            }
            (true, false) => self.ledger.set_node(now, id, node),
            // What transfers have agreed on changes as links do that are declared.
            (false, _) if self.rates.is_settled(id) => self.ledger.set_node(now, id, node),
            (false, _) => self.ledger.set_measured(now, id, node),
        }
    }

    /// Has planners count with what is known of the links of racks. What is modelled of all of them
    /// is a ceiling.
    fn count_racks(&mut self, now: Time) {
        let cluster = self.ledger.cluster();
        let racks = (0..cluster.racks.len() as u32).map(RackId);
        let measured = racks.filter_map(|rack| Some((rack, self.measured_rack(rack)?)));
        let measured: BTreeMap<RackId, Core> = measured.collect();
        let known = &cluster.measured_racks;
        let is_same_rack = |(a, b): (&Core, &Core)| {
            is_same(a.rack_uplink, b.rack_uplink) && is_same(a.rack_downlink, b.rack_downlink)
        };
        let are_same = known.len() == measured.len()
            && known.keys().eq(measured.keys())
            && known.values().zip(measured.values()).all(is_same_rack);
        if !are_same {
            self.ledger.set_racks(now, measured);
        }
    }

    /// What a rack's links carry, if one of them has been the limit or repair has a cap there. The
    /// cap is for what moves within the rack, too, which planners do not count.
    fn measured_rack(&self, rack: RackId) -> Option<Core> {
        let [up, down] = self.rates.rack_status(rack);
        let cluster = self.ledger.cluster();
        let cap = self.throttle.rack_cap(rack, cluster);
        if up.or(down).is_none() && cap.is_none() {
            return None;
        }
        let ceiling = match cap.map(|cap| Rate(cap as f64)) {
            Some(cap) => {
                let core = cluster.core.unwrap_or(Core { rack_uplink: cap, rack_downlink: cap });
                let least = |rate: Rate| Rate(rate.0.min(cap.0));
                Core {
                    rack_uplink: least(core.rack_uplink),
                    rack_downlink: least(core.rack_downlink),
                }
            }
            None => cluster.core.unwrap_or_else(|| cluster.links_of_members(rack)),
        };
        let least = |known: Option<LinkStatus>, most: Rate| {
            Rate(known.map_or(most.0, |known| most.0.min(known.capacity as f64)))
        };
        Some(Core {
            rack_uplink: least(up, ceiling.rack_uplink),
            rack_downlink: least(down, ceiling.rack_downlink),
        })
    }

    /// A node as planners are to see it.
    pub(super) fn counted(&self, id: NodeId, rack: Option<RackId>) -> Node {
        let node = self.rates.node(id);
        let limits = self.throttle.alone(id);
        let taken = |capacity: Rate, foreground: Rate, limited: Option<Limited>| match limited {
            None => foreground,
            Some(limited) => Rate((capacity.0 - limited.limit as f64).max(foreground.0)),
        };
        Node {
            rack,
            foreground_uplink: taken(node.uplink, node.foreground_uplink, limits.up),
            foreground_downlink: taken(node.downlink, node.foreground_downlink, limits.down),
            ..node
        }
    }

    /// What the links of a rack to all others carry, as far as they have been the limit of repairs:
    /// sent, received.
    pub fn rack_links(&self, rack: RackId) -> [Option<LinkStatus>; 2] {
        self.rates.rack_status(rack)
    }

    /// The most that all nodes of a rack together may send or receive for repairs, in bytes per
    /// second, if it was given a cap.
    pub fn rack_cap(&self, rack: RackId) -> Option<u64> {
        self.throttle.rack_cap(rack, self.ledger.cluster())
    }

    /// What operators see of it.
    pub(super) fn throttle_status(&self) -> ThrottleStatus {
        let load = self.ledger.load();
        let mut tightest: Option<(f64, TightestLink)> = None;
        let mut moved = 0;
        for id in self.ledger.cluster().ids().filter(|id| self.health.is_up(*id)) {
            let (limits, links) = (self.throttle.limits(id), self.rates.status(id));
            moved += links[Direction::Up as usize].repair;
            let bytes = load.node(id);
            let both = [(limits.up, bytes.up_bytes), (limits.down, bytes.down_bytes)];
            for ((limited, bytes), (link, direction)) in
                both.into_iter().zip(links.iter().zip([Direction::Up, Direction::Down]))
            {
                let Some(limited) = limited else { continue };
                // Where nothing is to be moved any limit may be the one that is shown.
                let idle = if bytes == 0 { 1e6 } else { 0.0 };
                let fraction = idle + limited.limit as f64 / link.capacity.max(1) as f64;
                if tightest.is_none_or(|(least, _)| fraction < least) {
                    tightest = Some((fraction, TightestLink { node: id, direction, limited }));
                }
            }
        }
        ThrottleStatus {
            config: self.throttle.config().clone(),
            closed_for: self.throttle.opens_at().map(|at| at.since(self.now)).filter(|s| s.ns > 0),
            moved,
            tightest: tightest.map(|(_, tightest)| tightest),
        }
    }
}

/// Whether planners need not be notified of the difference.
fn is_same(a: Rate, b: Rate) -> bool {
    (a.0 - b.0).abs() <= a.0 * SAME_FRACTION
}
