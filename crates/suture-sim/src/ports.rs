//! A cluster as ports, and a plan as flows through them.
//!
//! Place: failure -> ... -> [dispatch -> slices flow] -> chunk durable -> ...
//! A streamed lane is one flow whose bytes are those of its range: each edge takes its bytes per
//! byte of the lane at the ports of both ends, so a node with c children is taken c times. Edges
//! of a stored lane are flows of their own; each starts when what it sums has come. Disks keep
//! up: an edge takes what its child reads for it, and its part of what its parent writes of the
//! result. What is not modelled (a disk without a rate, a processor, racks without a core) is no
//! port. A processor is passed by all that its node sends, receives, reads and writes for repairs,
//! in nanoseconds of work for each byte. Clients stand outside of the racks, on links of their own.
//! Invariant: what a plan's flows take in all is the plan's `Load`, to the byte.

use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, RackId};
use suture_repair::plan::load::{Port, disk_reads};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, StripeFacts};
use suture_repair::processor::{Processor, ProcessorCosts};

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
    processors: Vec<Option<Processor>>,
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
            processors: cluster.nodes.iter().map(|node| node.processor).collect(),
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
        let processors = if self.has_processors() { self.nodes } else { 0 };
        self.first_processor() + processors
    }

    /// Whether any processor is modelled.
    fn has_processors(&self) -> bool {
        self.processors.iter().any(Option::is_some)
    }

    fn first_processor(&self) -> usize {
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
            Port::Processor(id) => self.first_processor() + id.index(),
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
            if let Some(processor) = node.processor {
                set(Port::Processor(id), Some(Rate(processor.work_per_second())));
            }
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
        let are_modelled = self.has_read.contains(&true) || self.has_processors();
        let reads = if are_modelled { disk_reads(lane, bytes, facts) } else { Vec::new() };
        let writes = lane.lost.iter().filter_map(|chunk| plan.destinations.get(chunk).copied());
        let disks = Disks { reads, writes: writes.collect() };
        let steps = match mode {
            Mode::Streamed => self.streamed(lane, bytes, &disks),
            Mode::Stored => self.stored(lane, bytes, &disks),
        };
        LaneFlows { lost: lane.lost.clone(), bytes, depth: depth(lane), steps }
    }

    /// What a byte of an edge takes.
    fn moving(&self, edge: &Edge) -> impl Iterator<Item = Take> {
        let links = self.transfer(edge.child, edge.parent).map(|port| Take { port, weight: 1.0 });
        let traces = if edge.carries == Carries::Traces { 1.0 } else { 0.0 };
        let sent = self.working(edge.child, |costs| costs.sent + traces * costs.traced);
        let received = self.working(edge.parent, |costs| costs.received + traces * costs.decoded);
        links.chain(sent).chain(received)
    }

    /// What a byte takes that a node reads.
    fn reading(&self, node: NodeId) -> impl Iterator<Item = Take> {
        let has = self.has_read[node.index()];
        let disk = has.then(|| Take { port: self.index(Port::DiskRead(node)), weight: 1.0 });
        disk.into_iter().chain(self.working(node, |costs| costs.read))
    }

    /// What a byte takes that a node writes.
    fn writing(&self, node: NodeId) -> impl Iterator<Item = Take> {
        let has = self.has_write[node.index()];
        let disk = has.then(|| Take { port: self.index(Port::DiskWrite(node)), weight: 1.0 });
        disk.into_iter().chain(self.working(node, |costs| costs.written))
    }

    /// What a byte takes of a node's processor, where that is modelled and the byte costs anything.
    fn working(&self, node: NodeId, cost: impl Fn(&ProcessorCosts) -> f64) -> Option<Take> {
        let weight = cost(self.processors[node.index()].as_ref()?.costs());
        (weight > 0.0).then(|| Take { port: self.index(Port::Processor(node)), weight })
    }

    fn streamed(&self, lane: &Lane, bytes: u64, disks: &Disks) -> Vec<Step> {
        let mut takes: Vec<(PortIndex, f64)> = Vec::with_capacity(3 * lane.edges.len());
        let mut add = |of: Take, bytes: u64| takes.push((of.port, of.weight * bytes as f64));
        for edge in &lane.edges {
            self.moving(edge).for_each(|take| add(take, edge.bytes));
        }
        for &(node, read) in &disks.reads {
            self.reading(node).for_each(|take| add(take, read));
        }
        for &node in &disks.writes {
            self.writing(node).for_each(|take| add(take, bytes));
        }
        takes.sort_by_key(|(port, _)| *port);
        takes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 += if is_same { next.1 } else { 0.0 };
            is_same
        });
        let weigh =
            |(port, through): (PortIndex, f64)| Take { port, weight: through / bytes as f64 };
        let takes = takes.into_iter().filter(|(_, through)| *through > 0.0).map(weigh).collect();
        vec![Step { bytes: bytes as f64, takes, after: Vec::new() }]
    }

    fn stored(&self, lane: &Lane, bytes: u64, disks: &Disks) -> Vec<Step> {
        let step =
            |bytes: u64, takes: Vec<Take>| Step { bytes: bytes as f64, takes, after: Vec::new() };
        let moved = lane.edges.iter().map(|edge| step(edge.bytes, self.moving(edge).collect()));
        let mut steps: Vec<Step> = moved.collect();
        for &(node, read) in &disks.reads {
            let takes: Vec<Take> = self.reading(node).collect();
            match lane.edges.iter().position(|edge| edge.child == node && edge.bytes > 0) {
                // What is read is sent while more of it is read.
                Some(edge) => {
                    let part = read as f64 / lane.edges[edge].bytes as f64;
                    takes.into_iter().for_each(|take| put(&mut steps[edge].takes, take, part));
                }
                None if takes.is_empty() => {}
                None => steps.push(step(read, takes)),
            }
        }
        for &node in &disks.writes {
            let comes = || lane.edges.iter().enumerate().filter(|(_, edge)| edge.parent == node);
            let all: u64 = comes().map(|(_, edge)| edge.bytes).sum();
            let part = bytes as f64 / all as f64;
            for (index, _) in comes().filter(|(_, edge)| edge.bytes > 0) {
                self.writing(node).for_each(|take| put(&mut steps[index].takes, take, part));
            }
        }
        for (index, edge) in lane.edges.iter().enumerate() {
            let inputs = lane.edges.iter().enumerate().filter(|(_, e)| e.parent == edge.child);
            steps[index].after = inputs.map(|(input, _)| input).collect();
        }
        steps
    }
}

/// Adds so much for each byte of a step to what a byte of it takes; each port is there once.
fn put(takes: &mut Vec<Take>, take: Take, part: f64) {
    let weight = take.weight * part;
    match takes.iter_mut().find(|known| known.port == take.port) {
        Some(known) => known.weight += weight,
        None => takes.push(Take { port: take.port, weight }),
    }
}

/// What is read, by which nodes, and which write what is rebuilt.
struct Disks {
    reads: Vec<(NodeId, u64)>,
    writes: Vec<NodeId>,
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
