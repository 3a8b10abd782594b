//! Capacities over time: the cluster's, a trace's, and what a straggler leaves of either.
//!
//! Place: under [slices flow]: what the links can carry when.
//! Everything changes at whole seconds or at a straggler's two moments. Once a second a coordinator
//! is notified, as by a monitor, of the rates in traces and, where one counts that, of what
//! applications take; a straggler it has to notice by itself. Of undeclared links it receives
//! nothing.
//! Invariant: between two changes every capacity is constant.

use suture_repair::cluster::{Cluster, Node, Rate};
use suture_repair::id::NodeId;
use suture_repair::plan::load::Port;

use crate::bandwidth_trace::BandwidthTrace;
use crate::fluid::Network;
use crate::monitor::Taken;
use crate::ports::PortMap;

/// How often a guess is doubled: a thousandfold is beyond all traces.
const GUESSES_MAX: usize = 10;

/// What is declared to a coordinator of a link that has nothing: planners divide by rates.
const DECLARED_MIN: Rate = Rate(1.0);

/// The least part of a link or disk that is declared to a coordinator as left by clients: they
/// share it with a repair as soon as there is one, and no phase would ever hold a chunk through a
/// link of which nothing is left.
const LEFT_MIN: f64 = 0.05;

/// A node that is slow for a while, all of it: links and disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// The node that is slow.
    pub node: NodeId,
    /// What it keeps of its rates, in [0, 1].
    pub factor: f64,
    /// From when, in seconds.
    pub from: f64,
    /// Until when, in seconds; may be infinite.
    pub to: f64,
}

/// How a coordinator comes to know undeclared links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Undeclared {
    /// What each of them is taken for until more is known.
    pub assumed: Rate,
    /// Whether agents have probed each other before the failure.
    pub is_probed: bool,
}

/// All capacities at all times.
#[derive(Clone, Debug)]
pub struct Capacities {
    cluster: Cluster,
    uplinks: Option<BandwidthTrace>,
    downlinks: Option<BandwidthTrace>,
    stragglers: Vec<Straggler>,
    undeclared: Option<Undeclared>,
}

impl Capacities {
    /// Those of a cluster, which a trace of the same nodes replaces for its direction.
    ///
    /// # Panics
    /// When a straggler's factor is negative or no number.
    pub fn new(
        cluster: Cluster,
        uplinks: Option<BandwidthTrace>,
        downlinks: Option<BandwidthTrace>,
        stragglers: Vec<Straggler>,
    ) -> Capacities {
        assert!(stragglers.iter().all(|straggler| straggler.factor >= 0.0), "factors of rates");
        Capacities { cluster, uplinks, downlinks, stragglers, undeclared: None }
    }

    /// The same, of which nothing is declared to a coordinator: it goes by what agents report.
    pub fn undeclared(self, how: Undeclared) -> Capacities {
        Capacities { undeclared: Some(how), ..self }
    }

    /// How a coordinator comes to know links; none: they are declared to it.
    pub fn undeclared_links(&self) -> Option<Undeclared> {
        self.undeclared
    }

    /// The cluster with the rates that it was declared with.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Whether links follow a trace.
    pub fn is_traced(&self) -> bool {
        self.uplinks.is_some() || self.downlinks.is_some()
    }

    /// After how many seconds everything has been seen; 0 without traces.
    pub fn period(&self) -> u64 {
        [&self.uplinks, &self.downlinks]
            .into_iter()
            .flatten()
            .map(BandwidthTrace::seconds)
            .max()
            .unwrap_or(0)
    }

    /// When something changes next.
    pub fn next_change(&self, now: f64) -> Option<f64> {
        let second = self.is_traced().then(|| now.floor() + 1.0);
        self.moments().filter(|&at| at > now).chain(second).min_by(f64::total_cmp)
    }

    /// Whether a node is slow for a while.
    pub fn has_stragglers(&self) -> bool {
        !self.stragglers.is_empty()
    }

    /// When a straggler begins or ends for the last time; 0 without any.
    pub fn last_moment(&self) -> f64 {
        self.moments().fold(0.0, f64::max)
    }

    fn moments(&self) -> impl Iterator<Item = f64> {
        let moments = self.stragglers.iter().flat_map(|straggler| [straggler.from, straggler.to]);
        moments.filter(|at| at.is_finite())
    }

    /// Gives the network what ports carry at `now`.
    pub fn apply(&self, now: f64, ports: &PortMap, network: &mut Network) {
        for id in self.cluster.ids() {
            let node = self.node_at(id, now);
            let slow =
                self.stragglers.iter().filter(|s| s.node == id && s.from <= now && now < s.to);
            let factor: f64 = slow.map(|straggler| straggler.factor).product();
            let mut set = |port: Port, rate: f64| {
                network.set_capacity(ports.index(port), rate.max(0.0) * factor);
            };
            set(Port::Uplink(id), node.uplink_free().0);
            set(Port::Downlink(id), node.downlink_free().0);
            node.disk_read.into_iter().for_each(|rate| set(Port::DiskRead(id), rate.0));
            node.disk_write.into_iter().for_each(|rate| set(Port::DiskWrite(id), rate.0));
        }
    }

    /// The rates of a node that a coordinator is given.
    pub fn declared(&self, id: NodeId, now: f64) -> Node {
        let mut node = self.node_at(id, now);
        if let Some(Undeclared { assumed, .. }) = self.undeclared {
            (node.uplink, node.downlink) = (assumed, assumed);
            (node.foreground_uplink, node.foreground_downlink) = (Rate(0.0), Rate(0.0));
        }
        for link in [&mut node.uplink, &mut node.downlink] {
            link.0 = link.0.max(DECLARED_MIN.0);
        }
        node
    }

    /// The same beside clients that take so much of it a second.
    pub fn declared_beside(&self, id: NodeId, now: f64, taken: Taken) -> Node {
        let mut node = self.declared(id, now);
        let foreground = |link: Rate, declared: Rate, taken: f64| {
            Rate((declared.0 + taken).min((1.0 - LEFT_MIN) * link.0).max(declared.0))
        };
        node.foreground_uplink = foreground(node.uplink, node.foreground_uplink, taken.up);
        node.foreground_downlink = foreground(node.downlink, node.foreground_downlink, taken.down);
        let left = |rate: Rate, taken: f64| Rate((rate.0 - taken).max(LEFT_MIN * rate.0));
        node.disk_read = node.disk_read.map(|rate| left(rate, taken.disk_read));
        node.disk_write = node.disk_write.map(|rate| left(rate, taken.disk_write));
        node
    }

    /// The cluster that a coordinator is given.
    pub fn declared_cluster(&self, now: f64) -> Cluster {
        let nodes = self.cluster.ids().map(|id| self.declared(id, now)).collect();
        let core = self.cluster.core.filter(|_| self.undeclared.is_none());
        Cluster { nodes, core, ..self.cluster.clone() }
    }

    /// The node without stragglers. What a trace calls available is net of applications.
    fn node_at(&self, id: NodeId, now: f64) -> Node {
        let mut node = self.cluster.node(id).clone();
        if let Some(trace) = &self.uplinks {
            node.uplink = trace.rate(id.index(), now as u64);
            node.foreground_uplink = Rate(0.0);
        }
        if let Some(trace) = &self.downlinks {
            node.downlink = trace.rate(id.index(), now as u64);
            node.foreground_downlink = Rate(0.0);
        }
        node
    }

    /// The cluster with the rates that its links had on average until `seconds`, above zero: what
    /// bounds and loads are measured against. Stragglers are not taken into account.
    pub fn average(&self, seconds: f64) -> Cluster {
        let mut cluster = self.cluster.clone();
        for id in self.cluster.ids() {
            let node = &mut cluster.nodes[id.index()];
            if let Some(trace) = &self.uplinks {
                node.uplink = average(trace, id, seconds);
                node.foreground_uplink = Rate(0.0);
            }
            if let Some(trace) = &self.downlinks {
                node.downlink = average(trace, id, seconds);
                node.foreground_downlink = Rate(0.0);
            }
        }
        cluster
    }

    /// The least time in which links carry what would take `seconds_at(cluster)` at the rates of
    /// `cluster`; `guess` is about as long. Without a trace that is the answer itself.
    ///
    /// With one: bytes over average rates is a time; it has enough of it when it is at least that
    /// time, and what links have carried only grows.
    pub fn least_seconds(&self, guess: f64, seconds_at: impl Fn(&Cluster) -> f64) -> f64 {
        if !self.is_traced() {
            return seconds_at(&self.cluster);
        }
        let is_enough = |seconds: f64| seconds_at(&self.average(seconds)) <= seconds;
        let (mut low, mut high) = (0.0, guess);
        for _ in 0..GUESSES_MAX {
            if is_enough(high) {
                break;
            }
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-6 * high {
            let middle = (low + high) / 2.0;
            if is_enough(middle) { high = middle } else { low = middle }
        }
        high
    }
}

fn average(trace: &BandwidthTrace, id: NodeId, seconds: f64) -> Rate {
    let whole = seconds.floor() as u64;
    let rate = |second: u64| trace.rate(id.index(), second).0;
    let bytes: f64 = (0..whole).map(rate).sum::<f64>() + rate(whole) * (seconds - whole as f64);
    Rate((bytes / seconds).max(DECLARED_MIN.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_what_they_do_not_take_and_never_nothing() {
        let mut cluster = Cluster::uniform(2, Rate(100.0));
        cluster.nodes[0].disk_read = Some(Rate(50.0));
        cluster.nodes[0].foreground_downlink = Rate(10.0);
        let capacities = Capacities::new(cluster, None, None, Vec::new());
        let beside = |taken: Taken| capacities.declared_beside(NodeId(0), 0.0, taken);
        assert_eq!(beside(Taken::default()), capacities.declared(NodeId(0), 0.0));
        let some = beside(Taken { up: 30.0, down: 30.0, disk_read: 30.0, disk_write: 30.0 });
        assert_eq!((some.uplink_free(), some.downlink_free()), (Rate(70.0), Rate(60.0)));
        assert_eq!((some.disk_read, some.disk_write), (Some(Rate(20.0)), None));
        let all = beside(Taken { up: 100.0, down: 100.0, disk_read: 80.0, disk_write: 0.0 });
        assert!((all.uplink_free().0 - 5.0).abs() < 1e-9 && all.downlink_free().0 > 4.9);
        assert!((all.disk_read.unwrap().0 - 2.5).abs() < 1e-9);
    }
}
