//! A cluster as ports, and a plan as flows through them.
//!
//! Place: failure -> ... -> [dispatch -> slices flow] -> chunk durable -> ...
//! A streamed lane is one flow whose bytes are those of its range: each edge takes its bytes per
//! byte of the lane at the ports of both ends, so a node with c children is taken c times. Edges
//! of a stored lane are flows of their own; each starts when what it sums has come. Disks keep
//! pace: an edge takes what its child reads for it, and its part of what its parent writes of the
//! result. What is not modelled (a disk without a rate, racks without a core) is no port. Clients
//! stand outside of the racks, on links of their own. Invariant: what a plan's flows take in all is
//! the plan's `Load`, to the byte.

use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, RackId};
use suture_repair::plan::load::{Port, disk_reads};
use suture_repair::plan::{Lane, Mode, Plan, StripeFacts};

use crate::fluid::{PortIndex, Take};

/// Uplink, downlink, disk read, disk write.
const PORTS_A_NODE: usize = 4;

/// What a node may send and receive for repairs.
const LIMITS_A_NODE: usize = 2;

/// Uplink and downlink of a rack.
const PORTS_A_RACK: usize = 2;

/// How the ports of a cluster and of its clients are numbered.
#[derive(Clone, Debug)]
pub struct PortMap {
    nodes: usize,
    racks: usize,
    clients: usize,
    rack_of: Vec<Option<RackId>>,
    has_read: Vec<bool>,
    has_write: Vec<bool>,
    has_core: bool,
    /// Whether repairs pass ports of their own too, which have what they may take of links.
    has_limits: bool,
}

/// What stands for no limit: it is still a number that others can be taken from.
const UNLIMITED: f64 = 1e13;

/// One flow of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Bytes of the transfer.
    pub bytes: f64,
    /// The ports that it passes.
    pub takes: Vec<Take>,
    /// The steps of the same lane that must have ended before.
    pub after: Vec<usize>,
}

/// A lane as flows.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneFlows {
    /// The chunks that it helps to rebuild.
    pub lost: Vec<ChunkIndex>,
    /// Bytes of each of them.
    pub bytes: u64,
    /// Edges from its deepest leaf to the end.
    pub depth: u32,
    /// Its transfers, in an order in which they can be performed.
    pub steps: Vec<Step>,
}

impl PortMap {
    /// The ports of `cluster` and of so many clients.
    pub fn new(cluster: &Cluster, clients: usize) -> PortMap {
        PortMap {
            nodes: cluster.nodes.len(),
            racks: cluster.racks.len(),
            clients,
            rack_of: cluster.nodes.iter().map(|node| node.rack).collect(),
            has_read: cluster.nodes.iter().map(|node| node.disk_read.is_some()).collect(),
            has_write: cluster.nodes.iter().map(|node| node.disk_write.is_some()).collect(),
            has_core: cluster.core.is_some(),
            has_limits: false,
        }
    }

    /// The same, where repairs may be limited.
    pub fn with_limits(self) -> PortMap {
        PortMap { has_limits: true, ..self }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let limits = if self.has_limits { self.nodes * LIMITS_A_NODE } else { 0 };
        self.first_limit() + limits
    }

    fn first_limit(&self) -> usize {
        self.nodes * PORTS_A_NODE + (self.racks + self.clients) * PORTS_A_RACK
    }

    /// The ports that stand for what a node may send and receive for repairs.
    pub fn limits(&self, node: NodeId) -> [PortIndex; LIMITS_A_NODE] {
        let first = self.first_limit() + node.index() * LIMITS_A_NODE;
        [first as PortIndex, first as PortIndex + 1]
    }

    /// The capacity of such a port.
    pub fn limit(limit: Option<u64>) -> f64 {
        limit.map_or(UNLIMITED, |limit| limit as f64)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a port.
    pub fn index(&self, port: Port) -> PortIndex {
        let node = |id: NodeId, kind: usize| id.index() * PORTS_A_NODE + kind;
        let racks = self.nodes * PORTS_A_NODE;
        let index = match port {
            Port::Uplink(id) => node(id, 0),
            Port::Downlink(id) => node(id, 1),
            Port::DiskRead(id) => node(id, 2),
            Port::DiskWrite(id) => node(id, 3),
            Port::RackUplink(id) => racks + id.0 as usize * PORTS_A_RACK,
            Port::RackDownlink(id) => racks + id.0 as usize * PORTS_A_RACK + 1,
        };
        index as PortIndex
    }

    /// The capacity of every port: what applications leave of links; clients have `client_link`
    /// in each direction.
    pub fn capacities(&self, cluster: &Cluster, client_link: Rate) -> Vec<f64> {
        let mut capacities = vec![client_link.0; self.len()];
        capacities[self.first_limit()..].fill(UNLIMITED);
        let mut set = |port: Port, rate: Option<Rate>| {
            capacities[self.index(port) as usize] = rate.map_or(0.0, |rate| rate.0.max(0.0));
        };
        for id in cluster.ids() {
            let node = cluster.node(id);
            set(Port::Uplink(id), Some(node.uplink_free()));
            set(Port::Downlink(id), Some(node.downlink_free()));
            set(Port::DiskRead(id), node.disk_read);
            set(Port::DiskWrite(id), node.disk_write);
        }
        for rack in (0..cluster.racks.len() as u32).map(RackId) {
            set(Port::RackUplink(rack), cluster.core.map(|core| core.rack_uplink));
            set(Port::RackDownlink(rack), cluster.core.map(|core| core.rack_downlink));
        }
        capacities
    }

    /// The ports of a transfer between two nodes.
    fn transfer(&self, child: NodeId, parent: NodeId) -> impl Iterator<Item = PortIndex> {
        let limits = [self.limits(child)[0], self.limits(parent)[1]];
        self.links(child, parent).chain(limits.into_iter().filter(|_| self.has_limits))
    }

    /// The links that a transfer between two nodes passes.
    pub fn links(&self, child: NodeId, parent: NodeId) -> impl Iterator<Item = PortIndex> {
        let racks = match (self.rack_of[child.index()], self.rack_of[parent.index()]) {
            (Some(from), Some(to)) if self.has_core && from != to => {
                Some([Port::RackUplink(from), Port::RackDownlink(to)])
            }
            _ => None,
        };
        let ends = [Port::Uplink(child), Port::Downlink(parent)];
        ends.into_iter().chain(racks.into_iter().flatten()).map(|port| self.index(port))
    }

    /// The ports of a value that a client reads from a node's disk.
    pub fn read_request(&self, node: NodeId, client: usize) -> Vec<Take> {
        let rack = self.rack_of[node.index()].filter(|_| self.has_core).map(Port::RackUplink);
        let disk = self.has_read[node.index()].then_some(Port::DiskRead(node));
        let ports = [Some(Port::Uplink(node)), rack, disk].into_iter().flatten();
        self.request(ports, client, 1)
    }

    /// The ports of a value that a client has a node write.
    pub fn write_request(&self, node: NodeId, client: usize) -> Vec<Take> {
        let rack = self.rack_of[node.index()].filter(|_| self.has_core).map(Port::RackDownlink);
        let disk = self.has_write[node.index()].then_some(Port::DiskWrite(node));
        let ports = [Some(Port::Downlink(node)), rack, disk].into_iter().flatten();
        self.request(ports, client, 0)
    }

    fn request(
        &self,
        ports: impl Iterator<Item = Port>,
        client: usize,
        direction: usize,
    ) -> Vec<Take> {
        let first = self.nodes * PORTS_A_NODE + self.racks * PORTS_A_RACK;
        let own = (first + client * PORTS_A_RACK + direction) as PortIndex;
        let all = ports.map(|port| self.index(port)).chain([own]);
        all.map(|port| Take { port, weight: 1.0 }).collect()
    }

    /// The flows of a plan, lane by lane.
    pub fn lanes(&self, plan: &Plan, facts: &StripeFacts<'_>) -> Vec<LaneFlows> {
        plan.lanes.iter().map(|lane| self.lane(plan, lane, lane.mode, facts)).collect()
    }

    /// The flows of a plan whose edges move one by one, lane by lane; the edges come first, in
    /// their order.
    pub fn stored_lanes(&self, plan: &Plan, facts: &StripeFacts<'_>) -> Vec<LaneFlows> {
        plan.lanes.iter().map(|lane| self.lane(plan, lane, Mode::Stored, facts)).collect()
    }

    fn lane(&self, plan: &Plan, lane: &Lane, mode: Mode, facts: &StripeFacts<'_>) -> LaneFlows {
        let bytes = plan.lane_bytes(lane);
        let reads =
            if self.has_read.contains(&true) { disk_reads(lane, bytes, facts) } else { Vec::new() };
        let reads = reads.into_iter().filter(|(node, _)| self.has_read[node.index()]);
        let writes = lane.lost.iter().filter_map(|chunk| plan.destinations.get(chunk).copied());
        let writes = writes.filter(|node| self.has_write[node.index()]);
        let disks = Disks {
            reads: reads.map(|(node, bytes)| (node, self.index(Port::DiskRead(node)), bytes)),
            writes: writes.map(|node| (node, self.index(Port::DiskWrite(node)))),
        };
        let steps = match mode {
            Mode::Streamed => self.streamed(lane, bytes, disks),
            Mode::Stored => self.stored(lane, bytes, disks),
        };
        LaneFlows { lost: lane.lost.clone(), bytes, depth: depth(lane), steps }
    }

    fn streamed(
        &self,
        lane: &Lane,
        bytes: u64,
        disks: Disks<
            impl Iterator<Item = (NodeId, PortIndex, u64)>,
            impl Iterator<Item = (NodeId, PortIndex)>,
        >,
    ) -> Vec<Step> {
        let mut takes: Vec<(PortIndex, u64)> = Vec::with_capacity(3 * lane.edges.len());
        for edge in &lane.edges {
            takes.extend(self.transfer(edge.child, edge.parent).map(|port| (port, edge.bytes)));
        }
        takes.extend(disks.reads.map(|(_, port, bytes)| (port, bytes)));
        takes.extend(disks.writes.map(|(_, port)| (port, bytes)));
        takes.sort_unstable();
        takes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0 };
            is_same
        });
        let weigh = |(port, through): (PortIndex, u64)| Take {
            port,
            weight: through as f64 / bytes as f64,
        };
        let takes = takes.into_iter().filter(|(_, bytes)| *bytes > 0).map(weigh).collect();
        vec![Step { bytes: bytes as f64, takes, after: Vec::new() }]
    }

    fn stored(
        &self,
        lane: &Lane,
        bytes: u64,
        disks: Disks<
            impl Iterator<Item = (NodeId, PortIndex, u64)>,
            impl Iterator<Item = (NodeId, PortIndex)>,
        >,
    ) -> Vec<Step> {
        let take = |port| Take { port, weight: 1.0 };
        let step = |bytes: u64, ports: Vec<PortIndex>| Step {
            bytes: bytes as f64,
            takes: ports.into_iter().map(take).collect(),
            after: Vec::new(),
        };
        let mut steps: Vec<Step> = Vec::new();
        for edge in &lane.edges {
            steps.push(step(edge.bytes, self.transfer(edge.child, edge.parent).collect()));
        }
        for (node, port, read) in disks.reads {
            match lane.edges.iter().position(|edge| edge.child == node && edge.bytes > 0) {
                // What is read is sent while more of it is read.
                Some(edge) => {
                    let weight = read as f64 / lane.edges[edge].bytes as f64;
                    steps[edge].takes.push(Take { port, weight });
                }
                None => steps.push(step(read, vec![port])),
            }
        }
        for (node, port) in disks.writes {
            let comes = || lane.edges.iter().enumerate().filter(|(_, edge)| edge.parent == node);
            let all: u64 = comes().map(|(_, edge)| edge.bytes).sum();
            for (index, _) in comes().filter(|(_, edge)| edge.bytes > 0) {
                let weight = bytes as f64 / all as f64;
                steps[index].takes.push(Take { port, weight });
            }
        }
        for (index, edge) in lane.edges.iter().enumerate() {
            let inputs = lane.edges.iter().enumerate().filter(|(_, e)| e.parent == edge.child);
            steps[index].after = inputs.map(|(input, _)| input).collect();
        }
        steps
    }
}

struct Disks<R, W> {
    reads: R,
    writes: W,
}

/// The longest way of a slice, in edges.
fn depth(lane: &Lane) -> u32 {
    let steps_up = |mut node: NodeId| {
        let mut steps = 0;
        // A decoder that forwards several chunks has several parents; any of them is last.
        while let Some(parent) = lane.parent(node).filter(|_| steps < lane.edges.len() as u32) {
            (node, steps) = (parent, steps + 1);
        }
        steps
    };
    lane.edges.iter().map(|edge| steps_up(edge.child)).max().unwrap_or(0)
}
