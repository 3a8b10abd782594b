//! Numbers of links: what each carries, how sure that is, and what repair may have of it.
//!
//! Place: beside [plan] and [slices flow]: what planners count with, and what the throttle leaves.

use prometheus_client::metrics::family::Family;
use suture_repair::event::NodeStatus;
use suture_repair::throttle::{Limited, Reason};

use super::{Labels, Level, OfDaemon};

/// What of links goes up and down, by node and direction.
#[derive(Debug)]
pub(super) struct LinkLevels {
    limit: Family<Labels, Level>,
    carried: Family<Labels, Level>,
    uncertainty: Family<Labels, Level>,
}

impl LinkLevels {
    pub(super) fn new(of: &mut OfDaemon) -> LinkLevels {
        LinkLevels {
            limit: of.new_one(
                "suture_node_repair_limit_bytes_per_second",
                "What repair may move there; absent where nothing limits it",
            ),
            carried: of.new_one(
                "suture_node_link_bytes_per_second",
                "What the link carries, as plans count with it",
            ),
            uncertainty: of.new_one(
                "suture_node_link_uncertainty_bytes_per_second",
                "How far that may be off; absent where it is declared or only assumed",
            ),
        }
    }

    /// Racks change, and nodes go.
    pub(super) fn clear(&self) {
        for levels in [&self.limit, &self.carried, &self.uncertainty] {
            levels.clear();
        }
    }

    /// What the core reports of a node with these labels.
    pub(super) fn set(&self, labels: &Labels, node: &NodeStatus) {
        let limits = [node.limits.up, node.limits.down];
        for (direction, (limited, link)) in
            ["up", "down"].into_iter().zip(limits.into_iter().zip(node.links))
        {
            let mut labels = labels.clone();
            labels.push(("direction", direction.into()));
            self.carried.get_or_create(&labels).set(link.capacity as f64);
            if let Some(off) = link.uncertainty {
                self.uncertainty.get_or_create(&labels).set(off as f64);
            }
            let Some(Limited { limit, reason }) = limited else { continue };
            labels.push(("reason", limit_reason(reason).into()));
            self.limit.get_or_create(&labels).set(limit as f64);
        }
    }
}

/// What made a limit what it is, as a label.
fn limit_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Node => "node",
        Reason::Rack(_) => "rack",
        Reason::Total => "cluster",
        Reason::Agent => "agent",
        Reason::Applications(_) => "applications",
        Reason::Latency(_) => "latency",
        Reason::Window => "window",
        Reason::Floor => "floor",
    }
}
