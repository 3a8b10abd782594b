//! Ports in seconds: what nodes can send and receive, counted in parts of a chunk.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, beneath
//! the planners that balance. Foreground traffic is taken off links; what already runs is a base
//! that every port has to move first. A link without any capacity stays a number, so that it can
//! be the last resort.

use crate::id::NodeId;
use crate::max_flow::{Supply, seconds_to_ship};
use crate::need::Part;
use crate::plan::Plan;
use crate::planner::View;
use crate::planner::exact::intake::{Intake, Order};
use crate::planner::ports::{Port, Ports};

/// Units of the longest chunk. A power of two, so that halves of halves are whole.
pub(in crate::planner) const CHUNK_UNITS: u32 = 1 << 20;

/// A batch and the cluster that serves it.
pub(in crate::planner) struct Frame<'a> {
    pub intake: &'a Intake<'a>,
    pub view: &'a View<'a>,
    pub ports: Ports,
    /// Bytes of a unit.
    pub unit_bytes: f64,
}

impl<'a> Frame<'a> {
    pub fn new(intake: &'a Intake<'a>, view: &'a View<'a>) -> Frame<'a> {
        let longest = intake.orders.iter().map(|order| order.job.chunk_bytes).max();
        let unit_bytes = longest.unwrap_or(1).max(1) as f64 / f64::from(CHUNK_UNITS);
        Frame { intake, view, ports: Ports::new(view), unit_bytes }
    }

    pub fn parts(&self, order: &'a Order<'a>) -> &'a [Part] {
        &self.intake.need(order).parts
    }

    /// Units of a job's chunk; at least one for each sub-chunk.
    pub fn units(&self, order: &Order<'_>) -> u32 {
        let units = (order.job.chunk_bytes as f64 / self.unit_bytes).round() as u32;
        units.max(order.job.code.sub_chunk_count())
    }

    /// Seconds for a unit; nothing at a port that is not modelled.
    pub fn seconds_per_unit(&self, port: Port) -> f64 {
        1.0 / self.units_per_second(port)
    }

    fn units_per_second(&self, port: Port) -> f64 {
        self.ports.rate(port) / self.unit_bytes
    }

    fn supply(&self, ports: [Port; 2]) -> Supply {
        Supply {
            rates: ports.map(|port| self.units_per_second(port)),
            bases: ports.map(|port| self.ports.running_bytes(port) / self.unit_bytes),
        }
    }

    /// The uplink and what the disk reads, with what already runs.
    pub fn sending(&self, node: NodeId) -> Supply {
        self.supply([self.ports.up(node.0), self.ports.read(node.0)])
    }

    /// The downlink, and what the disk writes, with what already runs.
    pub fn receiving(&self, node: NodeId) -> Supply {
        self.supply([self.ports.down(node.0), self.ports.write(node.0)])
    }

    /// The downlink alone, with what already runs.
    pub fn link_down(&self, node: NodeId) -> Supply {
        let Supply { rates, bases } = self.receiving(node);
        Supply { rates: [rates[0], f64::INFINITY], bases: [bases[0], 0.0] }
    }

    /// Units that whole chunks, or what codes ask for of them, bring to links at least.
    pub fn moved_units(&self) -> f64 {
        let of = |order: &Order<'_>| {
            let alpha = f64::from(order.job.code.sub_chunk_count());
            let sub_chunks: u64 = self.parts(order).iter().map(|part| part.sent()).sum();
            sub_chunks as f64 / alpha * f64::from(self.units(order))
        };
        self.intake.orders.iter().map(of).sum()
    }

    /// No plans of whole chunks are done earlier: all uplinks, and all downlinks, work together
    /// until everything is moved.
    pub fn least_seconds(&self) -> f64 {
        let nodes = || self.view.cluster.ids();
        let up: Vec<Supply> = nodes().map(|node| self.sending(node)).collect();
        let down: Vec<Supply> = nodes().map(|node| self.link_down(node)).collect();
        let moved = self.moved_units();
        seconds_to_ship(&up, moved).max(seconds_to_ship(&down, moved))
    }

    /// How long the busiest port needs for the plans of all orders and for what already runs. Where
    /// only links of nodes are modelled, edges say it all.
    pub fn peak_seconds(&self, plans: &[Plan]) -> f64 {
        let cluster = self.view.cluster;
        if self.ports.have_racks() || self.ports.have_disks() {
            let mut load = self.view.load.clone();
            for (order, plan) in self.intake.orders.iter().zip(plans) {
                load.add(cluster, plan, &order.job.facts());
            }
            return load.max_seconds(cluster);
        }
        let mut bytes = self.ports.running().to_vec();
        for edge in plans.iter().flat_map(|plan| &plan.lanes).flat_map(|lane| &lane.edges) {
            bytes[self.ports.up(edge.child.0)] += edge.bytes;
            bytes[self.ports.down(edge.parent.0)] += edge.bytes;
        }
        let seconds = |(port, bytes): (Port, &u64)| *bytes as f64 / self.ports.rate(port);
        bytes.iter().enumerate().map(seconds).fold(0.0, f64::max)
    }
}
