//! The throttle: how fast repair may go at each node, so that applications do not feel it.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable -> ...: beside it, once a second. Agents
//! report what their links carry and what their probes wait; an operator says what repair may take;
//! this decides a limit for each direction of each node, which agents keep to, and records why it
//! is that.
//!
//! Three rules, of which the tightest holds; then the floor; above all of it the caps:
//!
//! | rule | limit of a direction |
//! |---|---|
//! | `keep` | its capacity, less what applications take, less what is to stay free |
//! | `p99` | a part of its capacity that falls while probes wait longer, and rises again |
//! | a closed window, unless a stripe has no margin left | the least that keeps repairs alive |
//! | the floor, while a stripe has no margin left | never below it |
//! | caps of the node, of its rack, of the cluster | never above them |
//!
//! What applications take is the most that was seen, fading by an eighth with each report: a limit
//! falls at once and rises slowly. A cap of several nodes is shared by what they have to move
//! (`throttle/share.rs`), so those with nothing to move cost it nothing. An agent keeps to a cap of
//! its own besides, which it reports: the coordinator need not send it one, but planners count with
//! it.
//!
//! Invariants: no limit exceeds a cap, those of a rack or the cluster together neither; none is
//! zero. Without configuration nothing is limited and nothing is sent. Does not know clocks, time
//! zones or why a window is closed.

mod decide;
mod share;

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::id::{NodeId, RackId};
use crate::message::{LinkReport, RepairLimit};
use crate::mutant::Mistake;
use crate::plan::load::{Load, NodeLoad};
use crate::time::{Span, Time};

/// How often limits are decided anew.
const DECIDE_EVERY: Span = Span::from_secs(1);

/// The least that a rule leaves to a direction, in bytes per second (1 Mbit/s): repairs go on, if
/// slowly. Caps may be lower.
pub const LIMIT_MIN: u64 = 125_000;

/// Where repair is limited, what stands still for so many times the limit of a stall has stalled at
/// the soonest: slices of many repairs share little.
pub const STALLS_LIMITED: u64 = 8;

/// A limit changes within seconds, so nothing is waited for for longer than that because of one.
const FLIGHT_MAX: Span = Span::from_secs(3600);

/// How long so many bytes take that are under way at once through a port with a limit in bytes per
/// second; an hour at the most. Ports serve their lanes in turn, a slice each.
pub fn flight(bytes: u64, limit: u64) -> Span {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(limit.max(1));
    Span { ns: ns.min(u128::from(FLIGHT_MAX.ns)) as u64 }
}

/// The floor where none was set: the capacity divided by this.
const FLOOR_DIVISOR: u64 = 10;

/// What applications took fades by such a part with each report.
const FADING: u64 = 8;

/// All of a capacity, as the rule for latency counts it.
const LATENCY_SHARE_WHOLE: u64 = 1000;

/// The least part of a capacity that the rule for latency leaves.
const LATENCY_SHARE_MIN: u64 = 10;

/// What it gives back in each second in which probes waited less.
const LATENCY_SHARE_STEP: u64 = 50;

/// A new limit that is nearer to the old one than that divided by this is not worth a message.
const NEAR_DIVISOR: u64 = 16;

/// What is to stay free of a link for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A part of its capacity, in percent, below 100.
    Percent(u8),
    /// So many bytes per second.
    Rate(u64),
}

/// What an operator lets repair take; nothing at first. Rates are bytes per second of payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrottleConfig {
    /// The cap of every node in each direction.
    pub node: Option<u64>,
    /// Caps of single nodes by name, in place of the one for all.
    pub nodes: BTreeMap<String, u64>,
    /// Caps of racks by name: what all nodes of one send, and what they receive.
    pub racks: BTreeMap<String, u64>,
    /// The cap of the cluster: what all nodes send.
    pub total: Option<u64>,
    /// What stays free of each link beside what applications take.
    pub keep: Option<Keep>,
    /// What probes may wait at the most.
    pub p99: Option<Span>,
    /// What repair has at least while a stripe has no margin left; none: a tenth of each link.
    pub floor: Option<u64>,
}

impl ThrottleConfig {
    /// Whether it limits anything, a window aside.
    pub fn is_off(&self) -> bool {
        let ThrottleConfig { node, nodes, racks, total, keep, p99, floor: _ } = self;
        let has_cap = node.is_some() || total.is_some() || !nodes.is_empty() || !racks.is_empty();
        !has_cap && keep.is_none() && p99.is_none()
    }
}

/// Why a limit is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The cap of the node.
    Node,
    /// The cap of its rack.
    Rack(RackId),
    /// The cap of the cluster.
    Total,
    /// The cap of the node in its agent's own configuration.
    Agent,
    /// Applications take so many bytes per second.
    Applications(u64),
    /// Probes wait so long.
    Latency(Span),
    /// The window is closed.
    Window,
    /// A stripe has no margin left: it would be less otherwise.
    Floor,
}

/// A direction of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the node sends.
    Up,
    /// What the node receives.
    Down,
}

/// A limit of one direction, and why it is that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limited {
    /// What repair may have, in bytes per second.
    pub limit: u64,
    /// What made it so low, or kept it so high.
    pub reason: Reason,
}

/// What is decided for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLimits {
    /// What it may send; none: as much as it can.
    pub up: Option<Limited>,
    /// What it may receive.
    pub down: Option<Limited>,
}

impl NodeLimits {
    /// The limits as they are sent to an agent.
    pub fn repair_limit(&self) -> RepairLimit {
        let rate = |limited: Option<Limited>| limited.map(|limited| limited.limit);
        RepairLimit { up: rate(self.up), down: rate(self.down) }
    }

    /// The limit of a direction, if it has one.
    pub fn of(&self, direction: Direction) -> Option<Limited> {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// A cap of several nodes: of what they send together, and of what they receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedCap {
    /// The nodes that share it.
    pub members: Vec<NodeId>,
    /// Bytes per second, in each direction.
    pub cap: u64,
    /// Whose cap it is: a rack's, or that of the cluster.
    pub reason: Reason,
}

impl SharedCap {
    /// How long this load takes within the cap, in seconds.
    pub fn seconds(&self, load: &Load) -> f64 {
        let sum = |bytes: fn(&NodeLoad) -> u64| -> u64 {
            self.members.iter().map(|id| bytes(&load.node(*id))).sum()
        };
        let most = sum(|node| node.up_bytes).max(sum(|node| node.down_bytes));
        most as f64 / self.cap.max(1) as f64
    }
}

/// What the throttle looks at when it decides.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The time of the event.
    pub now: Time,
    /// Nodes with their capacities, whatever repair may have of them.
    pub cluster: &'a Cluster,
    /// What repairs have to move.
    pub load: &'a Load,
    /// Whether a stripe that is to be repaired has no margin left.
    pub is_urgent: bool,
}

/// What one node's agent has reported.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// What applications take: sent, received.
    others: [u64; 2],
    /// The part of capacities that the rule for latency leaves.
    latency_share: u64,
    latency: Option<Span>,
    /// What its agent keeps to; none: it has not reported any.
    kept: Option<RepairLimit>,
    /// What its agent lets repair move by its own configuration.
    cap: Option<u64>,
}

/// Decides limits; asked by the coordinator.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    config: ThrottleConfig,
    closed_until: Option<Time>,
    reported: BTreeMap<NodeId, Reported>,
    limits: Vec<NodeLimits>,
    /// The same before caps of several nodes are shared: what planners count with.
    alone: Vec<NodeLimits>,
    next_at: Time,
    /// Whether limits follow the configuration and the window.
    is_decided: bool,
    /// Whether something else is wanted since they were decided.
    has_changed: bool,
    pub(crate) mistake: Mistake,
}

impl Throttle {
    /// What the operator wants.
    pub fn config(&self) -> &ThrottleConfig {
        &self.config
    }

    /// Does as the operator wants from now on.
    pub fn configure(&mut self, config: ThrottleConfig) {
        if config.p99 != self.config.p99 {
            // What was left was for another target.
            for reported in self.reported.values_mut() {
                (reported.latency_share, reported.latency) = (LATENCY_SHARE_WHOLE, None);
            }
        }
        self.config = config;
        // What held before is nothing to be near to.
        self.limits.clear();
        self.decide_anew();
    }

    /// The window is closed until then; none: it is open.
    pub fn close(&mut self, until: Option<Time>) {
        self.closed_until = until;
        self.decide_anew();
    }

    /// A node is in another rack, and the cap of that rack holds for it at once.
    pub fn racks_changed(&mut self) {
        self.decide_anew();
    }

    fn decide_anew(&mut self) {
        (self.next_at, self.is_decided, self.has_changed) = (Time::ZERO, false, true);
    }

    /// Whether only what is urgent may be repaired.
    pub fn is_closed(&self, now: Time) -> bool {
        self.closed_until.is_some_and(|until| now < until)
    }

    /// Whether something other was ordered since limits were decided.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether limits are those of a closed window: it is closed, and nothing is urgent.
    pub fn is_shut(&self) -> bool {
        let by_window = |limited: Limited| limited.reason == Reason::Window;
        self.alone.iter().any(|limits| limits.up.is_some_and(by_window))
    }

    /// When a closed window opens.
    pub fn opens_at(&self) -> Option<Time> {
        self.closed_until
    }

    /// Whether anything is limited.
    pub fn is_on(&self) -> bool {
        !self.config.is_off() || self.closed_until.is_some()
    }

    /// An agent has reported what its links carry.
    pub fn report(&mut self, node: NodeId, report: &LinkReport) {
        let reported = self.reported.entry(node).or_insert_with(|| Reported {
            latency_share: LATENCY_SHARE_WHOLE,
            ..Reported::default()
        });
        reported.kept = Some(report.limit);
        for (known, moved) in reported.others.iter_mut().zip([report.sent, report.received]) {
            let faded = *known - known.div_ceil(FADING).min(*known);
            *known = report.rate(moved.others).max(faded);
        }
        if let (Some(seen), Some(target)) = (report.latency, self.config.p99) {
            reported.latency = Some(seen);
            let share = reported.latency_share;
            reported.latency_share = latency_share(share, seen, report.span, target);
        }
        reported.cap = report.cap;
    }

    /// The limit that an agent which has just begun is to keep to from its first slice on; `None`
    /// where it has none.
    pub fn limit_at_first(&self, node: NodeId) -> Option<RepairLimit> {
        let decided = self.decided(node).repair_limit();
        (decided != RepairLimit::default()).then_some(decided)
    }

    /// The node has another agent now, of which nothing is known yet; its cap is taken for the one
    /// before's, until it reports its own.
    pub fn forget(&mut self, node: NodeId) {
        let known = self.reported.remove(&node);
        if let Some(cap) = known.and_then(|known| known.cap) {
            let reported = Reported {
                latency_share: LATENCY_SHARE_WHOLE,
                cap: Some(cap),
                ..Reported::default()
            };
            self.reported.insert(node, reported);
        }
    }

    /// What holds for a node: what is decided, or what its agent keeps to by itself.
    pub fn limits(&self, node: NodeId) -> NodeLimits {
        self.capped(node, self.decided(node))
    }

    /// What a node would have if it were the only one: planners count with that.
    pub fn alone(&self, node: NodeId) -> NodeLimits {
        self.capped(node, self.alone.get(node.index()).copied().unwrap_or_default())
    }

    fn decided(&self, node: NodeId) -> NodeLimits {
        self.limits.get(node.index()).copied().unwrap_or_default()
    }

    /// The tighter of what is decided and its agent's own cap.
    fn capped(&self, node: NodeId, decided: NodeLimits) -> NodeLimits {
        let cap = self.reported.get(&node).and_then(|reported| reported.cap);
        let Some(cap) = cap else { return decided };
        let own = Limited { limit: cap, reason: Reason::Agent };
        let tighter = |limited: Option<Limited>| {
            Some(limited.filter(|limited| limited.limit <= cap).unwrap_or(own))
        };
        NodeLimits { up: tighter(decided.up), down: tighter(decided.down) }
    }
}

/// The part that the rule for latency leaves after probes waited `seen` in such a span.
fn latency_share(before: u64, seen: Span, span: Span, target: Span) -> u64 {
    if seen <= target {
        let step = u128::from(LATENCY_SHARE_STEP) * u128::from(span.ns) / 1_000_000_000;
        return (before + (step as u64).max(1)).min(LATENCY_SHARE_WHOLE);
    }
    let part = u128::from(before) * u128::from(target.ns) / u128::from(seen.ns.max(1));
    (part as u64).max(before / 2).max(LATENCY_SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_own_cap_holds_until_it_tells_of_another_even_for_the_agent_after_it() {
        let node = NodeId(1);
        let mut throttle = Throttle::default();
        let with = |cap| LinkReport { cap, ..LinkReport::default() };
        throttle.report(node, &with(None));
        assert_eq!(throttle.limits(node).up.map(|limited| limited.limit), None);
        throttle.report(node, &with(Some(7)));
        assert_eq!(throttle.limits(node).up.map(|limited| limited.limit), Some(7));
        throttle.forget(node);
        assert_eq!(throttle.limits(node).up.map(|limited| limited.limit), Some(7));
        throttle.report(node, &with(None));
        assert_eq!(throttle.limits(node).up.map(|limited| limited.limit), None);
    }

    #[test]
    fn what_is_under_way_takes_as_long_as_its_port_is_limited_to_and_no_longer_than_an_hour() {
        assert_eq!(flight(3 * LIMIT_MIN, LIMIT_MIN), Span::from_secs(3));
        assert_eq!(flight(u64::MAX, 1), FLIGHT_MAX);
        assert_eq!(flight(7, 0), Span::from_secs(7));
    }
}
