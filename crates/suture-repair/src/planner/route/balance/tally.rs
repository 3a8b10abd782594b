//! What has been dispatched so far: bytes at the ports of every node, and how long they take.
//!
//! Place: inside of a balance. It begins with what running repairs put on the cluster and grows
//! with each request. Bytes are counted whole, so that equal loads compare as equal, and what was
//! added can be taken off again. Of links between racks balances know nothing.

use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::ports::{PortIndex, Ports};

/// What a port has to move, and how fast it is.
#[derive(Clone, Copy, Debug)]
pub(in crate::planner) struct Backlog {
    bytes: u64,
    /// Zero for a port that is not modelled.
    seconds_per_byte: f64,
}

impl Backlog {
    /// What it needs for its bytes and so many more.
    pub fn seconds_with(&self, more_bytes: u64) -> f64 {
        (self.bytes + more_bytes) as f64 * self.seconds_per_byte
    }
}

/// Those of a node: a balance looks at several of them at once.
#[derive(Clone, Copy, Debug)]
struct NodeBacklogs {
    up: Backlog,
    down: Backlog,
    read: Backlog,
    write: Backlog,
}

/// The backlogs of all nodes' ports.
#[derive(Debug)]
pub(in crate::planner) struct Tally {
    nodes: Vec<NodeBacklogs>,
}

impl Tally {
    /// What running repairs still have to move.
    pub fn new(view: &View<'_>) -> Tally {
        let ports = Ports::new(view);
        let backlog = |port: PortIndex| Backlog {
            bytes: ports.running()[port],
            seconds_per_byte: ports.seconds_per_byte(port),
        };
        let node = |NodeId(node): NodeId| NodeBacklogs {
            up: backlog(ports.up(node)),
            down: backlog(ports.down(node)),
            read: backlog(ports.read(node)),
            write: backlog(ports.write(node)),
        };
        Tally { nodes: view.cluster.ids().map(node).collect() }
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// What a node has to send.
    pub fn up(&self, node: NodeId) -> Backlog {
        self.nodes[node.index()].up
    }

    /// What a node has to receive.
    pub fn down(&self, node: NodeId) -> Backlog {
        self.nodes[node.index()].down
    }

    /// What a node's disk has to read.
    pub fn read(&self, node: NodeId) -> Backlog {
        self.nodes[node.index()].read
    }

    /// What a node's disk has to write.
    pub fn write(&self, node: NodeId) -> Backlog {
        self.nodes[node.index()].write
    }

    /// Puts more on a node.
    pub fn add(&mut self, node: NodeId, more: &NodeLoad) {
        self.charge(node, more, |bytes, more| *bytes += more);
    }

    /// Takes off what was put on a node.
    pub fn subtract(&mut self, node: NodeId, less: &NodeLoad) {
        self.charge(node, less, |bytes, less| *bytes -= less);
    }

    fn charge(&mut self, node: NodeId, load: &NodeLoad, apply: impl Fn(&mut u64, u64)) {
        let ports = &mut self.nodes[node.index()];
        apply(&mut ports.up.bytes, load.up_bytes);
        apply(&mut ports.down.bytes, load.down_bytes);
        apply(&mut ports.read.bytes, load.disk_read_bytes);
        apply(&mut ports.write.bytes, load.disk_write_bytes);
    }

    /// When the busiest port is done.
    pub fn peak_seconds(&self) -> f64 {
        let ports = self.nodes.iter().flat_map(|node| [node.up, node.down, node.read, node.write]);
        ports.map(|backlog| backlog.seconds_with(0)).fold(0.0, f64::max)
    }
}
