//! What links carry for repairs and for others, as agents measure it.
//!
//! Place: beside [slices flow]: what the throttle of the coordinator goes by.

use suture_repair::id::NodeId;
use suture_repair::message::{LinkReport, Moved};
use suture_repair::plan::load::Port;
use suture_repair::time::Span;

use crate::capacity::Capacities;
use crate::fluid::Network;
use crate::ports::PortMap;

/// Whether agents are configured with what their links carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkRates {
    /// They state it in each report.
    Declared,
    /// The coordinator measures it by what they report.
    Measured,
}

impl LinkRates {
    /// As the scenario's capacities have it.
    pub fn of(capacities: &Capacities) -> LinkRates {
        match capacities.undeclared_links() {
            None => LinkRates::Declared,
            Some(_) => LinkRates::Measured,
        }
    }
}

/// One direction of a node, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    all: f64,
    repair: f64,
}

/// Counts what passes each node's links.
#[derive(Clone, Debug)]
pub(crate) struct LinkMeter {
    nodes: Vec<[Carried; 2]>,
    seconds: f64,
    is_declared: bool,
}

impl LinkMeter {
    /// Nothing has passed yet on the links of so many nodes.
    pub fn new(nodes: usize, rates: LinkRates) -> LinkMeter {
        let is_declared = rates == LinkRates::Declared;
        LinkMeter { nodes: vec![Default::default(); nodes], seconds: 0.0, is_declared }
    }

    /// Time passes until `to`, at the rates of now.
    pub fn record(&mut self, network: &Network, ports: &PortMap, to: f64) {
        let seconds = (to - network.now()).max(0.0);
        self.seconds += seconds;
        for (id, node) in (0..).map(NodeId).zip(&mut self.nodes) {
            let links = [Port::Uplink(id), Port::Downlink(id)].map(|port| ports.index(port));
            for (carried, (link, limit)) in
                node.iter_mut().zip(links.into_iter().zip(ports.limits(id)))
            {
                carried.all += network.used(link) * seconds;
                carried.repair += network.used(limit) * seconds;
            }
        }
    }

    /// What has passed each node since it was last asked.
    pub fn take(&mut self) -> Vec<LinkReport> {
        let span = Span { ns: (self.seconds * 1e9) as u64 };
        let zero = vec![Default::default(); self.nodes.len()];
        let nodes = std::mem::replace(&mut self.nodes, zero);
        self.seconds = 0.0;
        let moved = |Carried { all, repair }: Carried| Moved {
            repair: repair as u64,
            others: (all - repair).max(0.0) as u64,
        };
        let report = |[up, down]: [Carried; 2]| LinkReport {
            span,
            sent: moved(up),
            received: moved(down),
            has_uplink: self.is_declared,
            has_downlink: self.is_declared,
            ..LinkReport::default()
        };
        nodes.into_iter().map(report).collect()
    }
}
