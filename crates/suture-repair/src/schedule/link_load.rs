//! What a plan takes of each node's links, and of its disk.
//!
//! Place: ... plan -> [admit] -> dispatch -> ...
//! The schedules of the papers think of uplinks and downlinks only, and one of disks, so links
//! between racks are left out here; `plan/load.rs` has them all, for a whole cluster.

use std::collections::BTreeMap;

use crate::cluster::{Node, Rate};
use crate::id::NodeId;
use crate::plan::Plan;

/// A link has changed when it is slower or faster than when plans were made by this factor.
const CHANGED: f64 = 1.25;

/// What a node's links have, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLinks {
    pub up: f64,
    pub down: f64,
}

impl NodeLinks {
    /// Whether plans that were made for these links are not for those.
    pub fn differs_from(self, other: NodeLinks) -> bool {
        let has_changed = |was: f64, is: f64| is > was * CHANGED || was > is * CHANGED;
        has_changed(self.up, other.up) || has_changed(self.down, other.down)
    }
}

/// Bytes through a node's links, and those of its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LinkLoad {
    pub up_bytes: f64,
    pub down_bytes: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
}

impl LinkLoad {
    /// How long the slower of both takes by itself.
    pub fn seconds(self, node: &Node) -> f64 {
        let up = self.up_bytes / node.uplink_free().usable().0;
        let down = self.down_bytes / node.downlink_free().usable().0;
        up.max(down)
    }

    /// How long the slowest of its links and its disk takes by itself.
    pub fn seconds_with_disk(self, node: &Node) -> f64 {
        let of_disk = |bytes: f64, rate: Option<Rate>| rate.map_or(0.0, |r| bytes / r.usable().0);
        let read = of_disk(self.read_bytes, node.disk_read);
        self.seconds(node).max(read).max(of_disk(self.write_bytes, node.disk_write))
    }

    pub fn add(&mut self, other: LinkLoad) {
        self.up_bytes += other.up_bytes;
        self.down_bytes += other.down_bytes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
    }

    /// Such a part of it.
    pub fn part(self, part: f64) -> LinkLoad {
        LinkLoad {
            up_bytes: self.up_bytes * part,
            down_bytes: self.down_bytes * part,
            read_bytes: self.read_bytes * part,
            write_bytes: self.write_bytes * part,
        }
    }

    /// Never below zero: what is taken off was rounded when it was put on.
    pub fn subtract(&mut self, other: LinkLoad) {
        self.up_bytes = (self.up_bytes - other.up_bytes).max(0.0);
        self.down_bytes = (self.down_bytes - other.down_bytes).max(0.0);
        self.read_bytes = (self.read_bytes - other.read_bytes).max(0.0);
        self.write_bytes = (self.write_bytes - other.write_bytes).max(0.0);
    }
}

/// What a plan takes of the links of each node that sends or receives, ascending by node.
pub(super) fn link_loads(plan: &Plan) -> Vec<(NodeId, LinkLoad)> {
    let mut loads: BTreeMap<NodeId, LinkLoad> = BTreeMap::new();
    for edge in plan.lanes.iter().flat_map(|lane| &lane.edges) {
        loads.entry(edge.child).or_default().up_bytes += edge.bytes as f64;
        loads.entry(edge.parent).or_default().down_bytes += edge.bytes as f64;
    }
    loads.into_iter().collect()
}
