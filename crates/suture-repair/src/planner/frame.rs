//! Ports in seconds: what nodes can send and receive, counted in parts of a chunk.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, beneath
//! the planners that balance. Foreground traffic is taken off links; what already runs is a base
//! that every port has to move first. A link without any capacity stays a number, so that it can
//! be the last resort.

use crate::cluster::Rate;
use crate::id::NodeId;
use crate::need::Part;
use crate::planner::View;
use crate::planner::intake::{Intake, Order};
use crate::transport::Supply;

/// Units of the longest chunk. A power of two, so that halves of halves are whole.
pub(super) const CHUNK_UNITS: u32 = 1 << 20;

/// What a link without any capacity counts as: so slow that every other one is better, but still a
/// number that can be compared.
const DEAD_LINK: Rate = Rate(1e-9);

/// A batch and the cluster that serves it.
pub(super) struct Frame<'a> {
    pub intake: &'a Intake<'a>,
    pub view: &'a View<'a>,
    /// Bytes of a unit.
    pub unit_bytes: f64,
}

impl<'a> Frame<'a> {
    pub fn new(intake: &'a Intake<'a>, view: &'a View<'a>) -> Frame<'a> {
        let longest = intake.orders.iter().map(|order| order.job.chunk_bytes).max();
        let unit_bytes = longest.unwrap_or(1).max(1) as f64 / f64::from(CHUNK_UNITS);
        Frame { intake, view, unit_bytes }
    }

    pub fn parts(&self, order: &'a Order<'a>) -> &'a [Part] {
        &self.intake.need(order).parts
    }

    /// Units of a job's chunk; at least one.
    pub fn units(&self, order: &Order<'_>) -> u32 {
        ((order.job.chunk_bytes as f64 / self.unit_bytes).round() as u32).max(1)
    }

    /// Units per second.
    pub fn rate(&self, rate: Rate) -> f64 {
        rate.0.max(DEAD_LINK.0) / self.unit_bytes
    }

    fn disk(&self, rate: Option<Rate>) -> f64 {
        rate.map_or(f64::INFINITY, |rate| self.rate(rate))
    }

    /// The uplink and what the disk reads, with what already runs.
    pub fn sending(&self, node: NodeId) -> Supply {
        let (at, load) = (self.view.cluster.node(node), self.view.load.node(node));
        Supply {
            rates: [self.rate(at.uplink_free()), self.disk(at.disk_read)],
            bases: [load.up_bytes, load.disk_read_bytes].map(|b| b as f64 / self.unit_bytes),
        }
    }

    /// The downlink, and what the disk writes, with what already runs.
    pub fn receiving(&self, node: NodeId) -> Supply {
        let (at, load) = (self.view.cluster.node(node), self.view.load.node(node));
        Supply {
            rates: [self.rate(at.downlink_free()), self.disk(at.disk_write)],
            bases: [load.down_bytes, load.disk_write_bytes].map(|b| b as f64 / self.unit_bytes),
        }
    }
    /// The downlink alone, with what already runs.
    pub fn link_down(&self, node: NodeId) -> Supply {
        let Supply { rates, bases } = self.receiving(node);
        Supply { rates: [rates[0], f64::INFINITY], bases: [bases[0], 0.0] }
    }
}
