//! What has been dispatched so far: bytes at the ports of every node, and how long they take.
//!
//! Place: inside of a balance. It begins with what running repairs put on the cluster and grows
//! with each request. Bytes are counted whole, so that equal loads compare as equal.

use crate::cluster::DEAD_LINK;
use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;

/// A port: what it has to move, and how fast it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::planner) struct Port {
    pub bytes: u64,
    /// Seconds per byte; zero for a port that is not modelled.
    pace: f64,
}

impl Port {
    fn new(bytes: u64, rate: f64) -> Port {
        Port { bytes, pace: 1.0 / rate.max(DEAD_LINK.0) }
    }

    /// What it needs for its bytes and so many more.
    pub fn seconds_with(&self, more_bytes: u64) -> f64 {
        (self.bytes + more_bytes) as f64 * self.pace
    }
}

/// The ports of a node.
#[derive(Clone, Copy, Debug)]
pub(in crate::planner) struct Ports {
    pub up: Port,
    pub down: Port,
    pub disk_read: Port,
    pub disk_write: Port,
}

/// The ports of all nodes.
#[derive(Clone, Debug)]
pub(in crate::planner) struct Tally {
    nodes: Vec<Ports>,
}

impl Tally {
    /// What already runs.
    pub fn new(view: &View<'_>) -> Tally {
        let ports = |id: NodeId| {
            let (node, load) = (view.cluster.node(id), view.load.node(id));
            let unmodelled = f64::INFINITY;
            Ports {
                up: Port::new(load.up_bytes, view.up(id)),
                down: Port::new(load.down_bytes, view.down(id)),
                disk_read: Port::new(
                    load.disk_read_bytes,
                    node.disk_read.map_or(unmodelled, |r| r.0),
                ),
                disk_write: Port::new(
                    load.disk_write_bytes,
                    node.disk_write.map_or(unmodelled, |r| r.0),
                ),
            }
        };
        Tally { nodes: view.cluster.ids().map(ports).collect() }
    }

    pub fn node(&self, node: NodeId) -> &Ports {
        &self.nodes[node.index()]
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Puts more on a node.
    pub fn add(&mut self, node: NodeId, more: &NodeLoad) {
        let ports = &mut self.nodes[node.index()];
        ports.up.bytes += more.up_bytes;
        ports.down.bytes += more.down_bytes;
        ports.disk_read.bytes += more.disk_read_bytes;
        ports.disk_write.bytes += more.disk_write_bytes;
    }
}
