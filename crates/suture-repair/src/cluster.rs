//! The cluster as planners see it: nodes, racks and what their links, disks and processors can do.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! Names belong to the edges; inside, a node is its index. Rates are payload bytes per second.

use std::collections::BTreeMap;

use crate::id::{NodeId, RackId};
use crate::processor::Processor;
use crate::time::Time;

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

/// What a link without any free capacity counts as: so slow that every other one is better, but
/// still a number that can be compared.
const DEAD_LINK: Rate = Rate(1e-9);

impl Rate {
    /// The rate, or for a dead link one just above zero, so that it can be the last resort.
    pub(crate) fn usable(self) -> Rate {
        Rate(self.0.max(DEAD_LINK.0))
    }
}

/// One node: its links, its disk, its processor and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The name in the cluster file and in JSON.
    pub name: String,
    /// Its rack, if racks are modelled.
    pub rack: Option<RackId>,
    /// What it can send.
    pub uplink: Rate,
    /// What it can receive.
    pub downlink: Rate,
    /// What its disk reads; `None` when disks are not modelled.
    pub disk_read: Option<Rate>,
    /// What its disk writes; `None` when disks are not modelled.
    pub disk_write: Option<Rate>,
    /// What its processor can do; `None` when it is not modelled: then it never is what repairs
    /// wait for.
    pub processor: Option<Processor>,
    /// Already taken of the uplink by applications.
    pub foreground_uplink: Rate,
    /// Already taken of the downlink by applications.
    pub foreground_downlink: Rate,
}

/// What an operator wants of a node, until it is returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeIntent {
    /// Nothing, it serves like any other.
    #[default]
    Serving,
    /// Its chunks count as lost.
    Failed,
    /// Its chunks move elsewhere, and it is given no more.
    Draining {
        /// How many chunks it had when that began, as far as this coordinator knows.
        chunks: u64,
    },
    /// It may be silent until then without being taken for dead, and is given no chunks.
    Paused {
        /// When that ends by itself.
        until: Time,
    },
}

impl Node {
    /// A node with symmetric links and nothing else modelled.
    pub fn new(name: impl Into<String>, link: Rate) -> Node {
        Node {
            name: name.into(),
            rack: None,
            uplink: link,
            downlink: link,
            disk_read: None,
            disk_write: None,
            processor: None,
            foreground_uplink: Rate(0.0),
            foreground_downlink: Rate(0.0),
        }
    }

    /// The uplink that is left for repair.
    pub fn uplink_free(&self) -> Rate {
        Rate(self.uplink.0 - self.foreground_uplink.0)
    }

    /// The downlink that is left for repair.
    pub fn downlink_free(&self) -> Rate {
        Rate(self.downlink.0 - self.foreground_downlink.0)
    }
}

/// The links between racks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Core {
    /// What one rack can send to the others.
    pub rack_uplink: Rate,
    /// What one rack can receive from the others.
    pub rack_downlink: Rate,
}

/// All nodes, all racks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Nodes; a `NodeId` is an index into this list.
    pub nodes: Vec<Node>,
    /// Names of racks; a `RackId` is an index into this list.
    pub racks: Vec<String>,
    /// Rack links, when modelled.
    pub core: Option<Core>,
    /// The links of single racks, as far as they have been measured: in place of `core`.
    pub measured_racks: BTreeMap<RackId, Core>,
}

impl Cluster {
    /// `count` equal nodes named `n0`, `n1`, ... without racks.
    pub fn uniform(count: usize, link: Rate) -> Cluster {
        Cluster {
            nodes: (0..count).map(|i| Node::new(format!("n{i}"), link)).collect(),
            racks: Vec::new(),
            core: None,
            measured_racks: BTreeMap::new(),
        }
    }

    /// The node with this id; ids come from this cluster, so it exists.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(|i| NodeId(i as u32))
    }

    /// Whether links of racks limit anything.
    pub fn has_rack_links(&self) -> bool {
        self.core.is_some() || !self.measured_racks.is_empty()
    }

    /// What a rack can send to others and receive from them; none where links of racks limit
    /// nothing. Where those of others do, and nothing is known of these, it is what its nodes can
    /// together.
    pub fn rack_links(&self, rack: RackId) -> Option<Core> {
        let known = self.measured_racks.get(&rack).copied().or(self.core);
        known.or_else(|| self.has_rack_links().then(|| self.links_of_members(rack)))
    }

    /// What the nodes of a rack can send and receive together.
    pub fn links_of_members(&self, rack: RackId) -> Core {
        let members = || self.nodes.iter().filter(|node| node.rack == Some(rack));
        Core {
            rack_uplink: Rate(members().map(|node| node.uplink.0).sum()),
            rack_downlink: Rate(members().map(|node| node.downlink.0).sum()),
        }
    }

    /// The rack of this name, new or known; racks are numbered in the order in which they are
    /// first named.
    pub fn rack(&mut self, name: &str) -> RackId {
        let known = self.racks.iter().position(|rack| rack == name);
        let index = known.unwrap_or_else(|| {
            self.racks.push(name.to_string());
            self.racks.len() - 1
        });
        RackId(index as u32)
    }

    /// The rack of a node; none where it is in none, or not known.
    pub fn rack_of(&self, node: NodeId) -> Option<RackId> {
        self.nodes.get(node.index())?.rack
    }

    /// How many of these nodes each rack has, in the order of the racks.
    pub fn count_by_rack(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<usize> {
        let mut counts = vec![0; self.racks.len()];
        nodes.filter_map(|node| self.rack_of(node)).for_each(|rack| counts[rack.0 as usize] += 1);
        counts
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }
}
