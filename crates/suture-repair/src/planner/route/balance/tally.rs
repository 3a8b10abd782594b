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

/// The backlogs of all nodes' ports.
#[derive(Debug)]
pub(in crate::planner) struct Tally {
    ports: Ports,
    backlogs: Vec<Backlog>,
}

impl Tally {
    /// What running repairs still have to move.
    pub fn new(view: &View<'_>) -> Tally {
        let ports = Ports::new(view);
        let backlog = |port: PortIndex| Backlog {
            bytes: ports.running()[port],
            seconds_per_byte: ports.seconds_per_byte(port),
        };
        Tally { backlogs: ports.of_nodes().map(backlog).collect(), ports }
    }

    pub fn node_count(&self) -> usize {
        self.backlogs.len() / 4
    }

    /// What a node has to send.
    pub fn up(&self, node: NodeId) -> Backlog {
        self.backlogs[self.ports.up(node.0)]
    }

    /// What a node has to receive.
    pub fn down(&self, node: NodeId) -> Backlog {
        self.backlogs[self.ports.down(node.0)]
    }

    /// What a node's disk has to read.
    pub fn read(&self, node: NodeId) -> Backlog {
        self.backlogs[self.ports.read(node.0)]
    }

    /// What a node's disk has to write.
    pub fn write(&self, node: NodeId) -> Backlog {
        self.backlogs[self.ports.write(node.0)]
    }

    /// Puts more on a node.
    pub fn add(&mut self, node: NodeId, more: &NodeLoad) {
        self.charge(node, more, |bytes, more| *bytes += more);
    }

    /// Takes off what was put on a node.
    pub fn subtract(&mut self, node: NodeId, less: &NodeLoad) {
        self.charge(node, less, |bytes, less| *bytes -= less);
    }

    fn charge(&mut self, NodeId(node): NodeId, load: &NodeLoad, apply: impl Fn(&mut u64, u64)) {
        let Tally { ports, backlogs } = self;
        apply(&mut backlogs[ports.up(node)].bytes, load.up_bytes);
        apply(&mut backlogs[ports.down(node)].bytes, load.down_bytes);
        apply(&mut backlogs[ports.read(node)].bytes, load.disk_read_bytes);
        apply(&mut backlogs[ports.write(node)].bytes, load.disk_write_bytes);
    }

    /// When the busiest port is done.
    pub fn peak_seconds(&self) -> f64 {
        self.backlogs.iter().map(|backlog| backlog.seconds_with(0)).fold(0.0, f64::max)
    }
}
