//! The load of plans: bytes for each uplink, downlink, disk and processor, and between racks.
//!
//! Place: beside `[plan]` and `[admit]`. One vector, four readers: planners minimise its
//! bottleneck, admission compares it with the budget, the simulator drains it, the command line
//! prints it.
//!
//! Invariants: loads are whole bytes, so what is added can be subtracted without a trace; a helper
//! reads each lane's range of its chunk (or, with sub-chunks, what the repair DAG reads of it)
//! once, a relay reads nothing, a destination writes what it keeps. Seconds appear only when a
//! load meets the capacities of a cluster, net of what applications take; so does the work of
//! processors, which is a sum over these bytes (`processor.rs`).

use crate::cluster::{Cluster, Rate};
use crate::id::{ChunkIndex, NodeId, RackId};
use crate::plan::content::Contents;
use crate::plan::{Carries, Lane, Plan, StripeFacts};
use crate::processor::ProcessorCosts;

/// What moves through one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Bytes that it sends.
    pub up_bytes: u64,
    /// Bytes that it receives.
    pub down_bytes: u64,
    /// Bytes that its disk reads.
    pub disk_read_bytes: u64,
    /// Bytes that its disk writes.
    pub disk_write_bytes: u64,
    /// Those of the bytes that it sends that are traces.
    pub traced_bytes: u64,
    /// Those of the bytes that it receives that are traces.
    pub decoded_bytes: u64,
}

impl NodeLoad {
    /// Nanoseconds that a core needs for all of it, at these costs.
    pub fn work(&self, costs: &ProcessorCosts) -> f64 {
        let ProcessorCosts { sent, received, traced, decoded, read, written } = *costs;
        self.up_bytes as f64 * sent
            + self.down_bytes as f64 * received
            + self.traced_bytes as f64 * traced
            + self.decoded_bytes as f64 * decoded
            + self.disk_read_bytes as f64 * read
            + self.disk_write_bytes as f64 * written
    }
}

/// What moves between one rack and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RackLoad {
    /// Sent to other racks.
    pub up_bytes: u64,
    /// Received from other racks.
    pub down_bytes: u64,
}

/// What a set of plans puts on each node and rack of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    nodes: Vec<NodeLoad>,
    racks: Vec<RackLoad>,
}

/// Something with a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// What a node sends.
    Uplink(NodeId),
    /// What a node receives.
    Downlink(NodeId),
    /// What a node's disk reads.
    DiskRead(NodeId),
    /// What a node's disk writes.
    DiskWrite(NodeId),
    /// What a node's processor does.
    Processor(NodeId),
    /// What a rack sends to the others.
    RackUplink(RackId),
    /// What a rack receives from the others.
    RackDownlink(RackId),
}

/// A port, its bytes, and how long it needs for them when it does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortLoad {
    /// The port in question.
    pub port: Port,
    /// What it has to move; of a processor, what is sent and received.
    pub bytes: u64,
    /// How long that takes at its free capacity.
    pub seconds: f64,
}

impl Load {
    /// No load on any part of `cluster`.
    pub fn new(cluster: &Cluster) -> Load {
        Load {
            nodes: vec![NodeLoad::default(); cluster.nodes.len()],
            racks: vec![RackLoad::default(); cluster.racks.len()],
        }
    }

    /// The load of `plans`, each beside the facts of its stripe.
    pub fn of<'a>(
        cluster: &Cluster,
        plans: impl IntoIterator<Item = (&'a Plan, StripeFacts<'a>)>,
    ) -> Load {
        let mut load = Load::new(cluster);
        load.add_all(cluster, plans);
        load
    }

    /// Puts `plans` on the cluster, each beside the facts of its stripe.
    pub fn add_all<'a>(
        &mut self,
        cluster: &Cluster,
        plans: impl IntoIterator<Item = (&'a Plan, StripeFacts<'a>)>,
    ) {
        let mut contents = Contents::default();
        for (plan, facts) in plans {
            self.charge(cluster, plan, &facts, &mut contents, |total, bytes| *total += bytes);
        }
    }

    /// Puts a plan on the cluster.
    pub fn add(&mut self, cluster: &Cluster, plan: &Plan, facts: &StripeFacts<'_>) {
        let contents = &mut Contents::default();
        self.charge(cluster, plan, facts, contents, |total, bytes| *total += bytes);
    }

    /// Takes off what is done of a plan that was added with the same facts: a part of all of it.
    pub fn subtract_fraction(
        &mut self,
        cluster: &Cluster,
        plan: &Plan,
        facts: &StripeFacts<'_>,
        fraction: f64,
    ) {
        let (fraction, contents) = (fraction.clamp(0.0, 1.0), &mut Contents::default());
        self.charge(cluster, plan, facts, contents, |total, bytes| {
            *total -= (bytes as f64 * fraction) as u64;
        });
    }

    /// Takes off a plan that was added with the same facts.
    pub fn subtract(&mut self, cluster: &Cluster, plan: &Plan, facts: &StripeFacts<'_>) {
        let contents = &mut Contents::default();
        self.charge(cluster, plan, facts, contents, |total, bytes| *total -= bytes);
    }

    /// Puts another load of the same cluster on top of this one.
    pub fn add_load(&mut self, other: &Load) {
        for (node, more) in self.nodes.iter_mut().zip(&other.nodes) {
            node.up_bytes += more.up_bytes;
            node.down_bytes += more.down_bytes;
            node.disk_read_bytes += more.disk_read_bytes;
            node.disk_write_bytes += more.disk_write_bytes;
            node.traced_bytes += more.traced_bytes;
            node.decoded_bytes += more.decoded_bytes;
        }
        for (rack, more) in self.racks.iter_mut().zip(&other.racks) {
            rack.up_bytes += more.up_bytes;
            rack.down_bytes += more.down_bytes;
        }
    }

    /// What each node sends and receives, in the order of the cluster.
    #[cfg(test)]
    pub(crate) fn set_for_test(&mut self, links: &[(u64, u64)]) {
        for (node, (up_bytes, down_bytes)) in self.nodes.iter_mut().zip(links) {
            (node.up_bytes, node.down_bytes) = (*up_bytes, *down_bytes);
        }
    }

    /// What moves through `node`.
    pub fn node(&self, node: NodeId) -> NodeLoad {
        self.nodes[node.index()]
    }

    /// All nodes in the order of the cluster.
    pub fn nodes(&self) -> &[NodeLoad] {
        &self.nodes
    }

    /// All racks in the order of the cluster.
    pub fn racks(&self) -> &[RackLoad] {
        &self.racks
    }

    /// Everything that is sent.
    pub fn moved_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.up_bytes).sum()
    }

    /// Everything that is sent from one rack to another.
    pub fn cross_rack_bytes(&self) -> u64 {
        self.racks.iter().map(|rack| rack.up_bytes).sum()
    }

    /// The load of every port that `cluster` gives a capacity, nodes first.
    pub fn ports<'a>(&'a self, cluster: &'a Cluster) -> impl Iterator<Item = PortLoad> + 'a {
        let nodes = cluster.ids().flat_map(|id| {
            let (node, load) = (cluster.node(id), self.node(id));
            [
                port_load(Port::Uplink(id), load.up_bytes, Some(node.uplink_free())),
                port_load(Port::Downlink(id), load.down_bytes, Some(node.downlink_free())),
                port_load(Port::DiskRead(id), load.disk_read_bytes, node.disk_read),
                port_load(Port::DiskWrite(id), load.disk_write_bytes, node.disk_write),
                node.processor.map(|processor| PortLoad {
                    port: Port::Processor(id),
                    bytes: load.up_bytes + load.down_bytes,
                    seconds: load.work(processor.costs()) / processor.work_per_second(),
                }),
            ]
        });
        let racks = self.racks.iter().enumerate().flat_map(|(index, load)| {
            let id = RackId(index as u32);
            let links = cluster.rack_links(id);
            let (up, down) = (links.map(|l| l.rack_uplink), links.map(|l| l.rack_downlink));
            [
                port_load(Port::RackUplink(id), load.up_bytes, up),
                port_load(Port::RackDownlink(id), load.down_bytes, down),
            ]
        });
        nodes.flatten().chain(racks.flatten())
    }

    /// The seconds that the busiest port needs: no execution of these plans is faster.
    pub fn max_seconds(&self, cluster: &Cluster) -> f64 {
        self.ports(cluster).map(|port| port.seconds).fold(0.0, f64::max)
    }

    fn charge(
        &mut self,
        cluster: &Cluster,
        plan: &Plan,
        facts: &StripeFacts<'_>,
        contents: &mut Contents,
        apply: impl Fn(&mut u64, u64),
    ) {
        for lane in &plan.lanes {
            for edge in &lane.edges {
                apply(&mut self.nodes[edge.child.index()].up_bytes, edge.bytes);
                apply(&mut self.nodes[edge.parent.index()].down_bytes, edge.bytes);
                if edge.carries == Carries::Traces {
                    apply(&mut self.nodes[edge.child.index()].traced_bytes, edge.bytes);
                    apply(&mut self.nodes[edge.parent.index()].decoded_bytes, edge.bytes);
                }
                let racks = (cluster.node(edge.child).rack, cluster.node(edge.parent).rack);
                if let (Some(from), Some(to)) = racks
                    && from != to
                {
                    apply(&mut self.racks[from.0 as usize].up_bytes, edge.bytes);
                    apply(&mut self.racks[to.0 as usize].down_bytes, edge.bytes);
                }
            }
            let lane_bytes = plan.lane_bytes(lane);
            for (node, bytes) in reads(lane, lane_bytes, facts, contents) {
                apply(&mut self.nodes[node.index()].disk_read_bytes, bytes);
            }
            for destination in lane.lost.iter().filter_map(|lost| plan.destinations.get(lost)) {
                apply(&mut self.nodes[destination.index()].disk_write_bytes, lane_bytes);
            }
        }
    }
}

/// An idle port needs no time, whatever its capacity; a port without a capacity is not modelled.
fn port_load(port: Port, bytes: u64, capacity: Option<Rate>) -> Option<PortLoad> {
    let capacity = capacity?.0.max(0.0);
    let seconds = if bytes == 0 { 0.0 } else { bytes as f64 / capacity };
    Some(PortLoad { port, bytes, seconds })
}

/// What each helper of a lane reads. Codes of one sub-chunk read all of the range; others read
/// the sub-chunks that the repair DAG names.
pub fn disk_reads(lane: &Lane, lane_bytes: u64, facts: &StripeFacts<'_>) -> Vec<(NodeId, u64)> {
    reads(lane, lane_bytes, facts, &mut Contents::default())
}

fn reads(
    lane: &Lane,
    lane_bytes: u64,
    facts: &StripeFacts<'_>,
    contents: &mut Contents,
) -> Vec<(NodeId, u64)> {
    if lane.copies(facts) {
        return facts.source.map(|node| (node, lane_bytes)).into_iter().collect();
    }
    let helpers = lane.helpers(facts);
    let holder = |chunk: ChunkIndex| {
        facts.survivors.iter().find(|(c, _)| *c == chunk).map(|(_, node)| *node)
    };
    let sub_chunks = u64::from(facts.code.sub_chunk_count());
    if sub_chunks > 1
        && let Ok(content) = contents.of_repair(facts.code, &lane.lost, &helpers)
    {
        let bytes = |read: u32| u64::from(read) * lane_bytes / sub_chunks;
        let senders = content.senders.iter();
        return senders.filter_map(|s| Some((holder(s.chunk)?, bytes(s.read)))).collect();
    }
    helpers.into_iter().filter_map(|chunk| Some((holder(chunk)?, lane_bytes))).collect()
}
