//! What fails where: the numbers of a published testbed, and the cluster and failure made of them.
//!
//! Place: `[failure noticed -> stripes affected]` -> queue -> plan -> ...
//! A setting is a value, so that figures are lists of settings; a seed makes it a cluster, stripes
//! and failed nodes. Stripes that the failure does not hit are left out, so that as many chunks are
//! lost as the paper says.

use anyhow::{Context, Result};
use serde::Serialize;
use suture_code::Code;
use suture_repair::cluster::{Cluster, Core, Node, Rate};
use suture_repair::id::{NodeId, RackId};
use suture_repair::random::Random;
use suture_sim::capacity::Capacities;
use suture_sim::client::Readers;

use super::traces::Traces;
use crate::input::{Input, place};

pub use super::traces::{GBIT, Start, StartKind, TraceName};

/// Clients that make a straggler of a node, and the bytes of an object: one of Redis with eight
/// threads that read 1 MB at a time (ChameleonEC, Exp#11).
const READERS: usize = 8;
const OBJECT_BYTES: u64 = 1 << 20;

/// What a quick measurement divides lost chunks and requests by.
const QUICK_PART: usize = 4;

/// So many requests at a time take no long time to simulate.
pub const CALM_REQUESTS: usize = 4;

/// What links and disks have, what is stored, what fails.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureSetting {
    /// The code of all stripes.
    pub code: &'static str,
    /// Nodes that hold chunks; where there are racks, their sum.
    pub nodes: usize,
    /// How many nodes each rack has; none: racks are not modelled.
    pub racks: &'static [usize],
    /// What links between racks carry.
    pub between: Between,
    /// What each direction of a node's link carries, in bytes per second.
    pub link: f64,
    /// What a disk reads, and at the same time writes, in bytes per second; none: disks are no
    /// limit.
    pub disk: Option<f64>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes that are moved in one go, where that matters.
    pub packet_bytes: Option<u64>,
    /// How much is lost.
    pub lost: Lost,
    /// How many nodes fail at a time.
    pub failed: usize,
    /// Where rebuilt chunks go.
    pub to: To,
    /// How chunks are placed on nodes.
    pub placing: Placing,
    /// Applications, and how many requests they have under way.
    pub foreground: Option<(&'static str, usize)>,
    /// What links follow, and from when on.
    pub trace: Option<(TraceName, Start)>,
    /// A node that eight readers read from besides: what they leave of its uplink beside as many
    /// lanes as a repair has there, which a testbed shapes it to, and from which second on.
    pub straggler: Option<(f64, f64)>,
}

/// What links between racks carry.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Between {
    /// Whatever nodes can send.
    Unlimited,
    /// The share of a rack's nodes, divided by this.
    Oversubscribed(f64),
    /// So many bytes per second each way of each rack.
    Rate(f64),
}

/// How much is lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Lost {
    /// So many chunks of each failed node.
    Chunks(usize),
    /// What failed nodes hold of so many stripes.
    OfStripes(usize),
}

/// Where rebuilt chunks go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum To {
    /// To any node that holds nothing of the stripe.
    Anywhere,
    /// To the node that replaces the failed one, in its rack.
    Replacement,
}

/// How chunks are placed on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Placing {
    /// Anywhere, with no more of a stripe in a rack than may be lost.
    Random,
    /// So many of each stripe in each of its racks, the racks in random order.
    InRacks(&'static [usize]),
}

/// A setting under one seed.
pub struct Prepared {
    /// Cluster, stripes and failed nodes.
    pub input: Input,
    /// What links carry over time.
    pub capacities: Capacities,
    /// The clients that read from a node and make a straggler of it.
    pub readers: Option<Readers>,
}

impl FigureSetting {
    /// The code of its stripes.
    ///
    /// # Errors
    /// When there is no such code.
    pub fn code(&self) -> Result<Code> {
        self.code.parse().map_err(|why| anyhow::anyhow!("{}: {why}", self.code))
    }

    /// The same with a quarter of the lost chunks and of the requests that are under way, of which
    /// a few are left.
    pub fn quarter(self) -> FigureSetting {
        let lost = match self.lost {
            Lost::Chunks(count) => Lost::Chunks(count.div_ceil(QUICK_PART)),
            Lost::OfStripes(count) => Lost::OfStripes(count.div_ceil(QUICK_PART)),
        };
        let fewer = |count: usize| (count / QUICK_PART).max(count.min(CALM_REQUESTS));
        let foreground = self.foreground.map(|(name, requests)| (name, fewer(requests)));
        FigureSetting { lost, foreground, ..self }
    }

    /// Cluster, stripes and failure of a seed.
    ///
    /// # Errors
    /// When the code does not fit the cluster.
    pub fn prepare(&self, traces: &Traces, seed: u64) -> Result<Prepared> {
        let code = self.code()?;
        let mut random = Random::new(seed);
        let mut cluster = self.cluster();
        let mut nodes: Vec<NodeId> = cluster.ids().collect();
        random.shuffle(&mut nodes);
        let mut failed = nodes[..self.failed].to_vec();
        failed.sort_unstable();
        let placement = self.placement(&cluster, code, &failed, &mut random)?;
        let mut free_bytes = vec![u64::MAX; cluster.nodes.len()];
        if self.to == To::Replacement {
            let spare = Node { name: "spare".into(), ..cluster.node(failed[0]).clone() };
            cluster.nodes.push(spare);
            free_bytes = vec![0; cluster.nodes.len()];
            free_bytes[cluster.nodes.len() - 1] = u64::MAX;
        }
        let (chunk_bytes, excluded) = (self.chunk_bytes, Vec::new());
        let input =
            Input { cluster, code, chunk_bytes, free_bytes, excluded, placement, failed, seed };
        let started = self.trace.map(|(name, start)| {
            let links = traces.starting(name, start, &input, &mut random);
            (links.up, links.down)
        });
        let (up, down) = started.unzip();
        let capacities = Capacities::new(input.cluster.clone(), up, down, Vec::new());
        Ok(Prepared { input, capacities, readers: self.readers(&nodes) })
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::uniform(self.nodes, Rate(self.link));
        for node in &mut cluster.nodes {
            (node.disk_read, node.disk_write) = (self.disk.map(Rate), self.disk.map(Rate));
        }
        cluster.racks = (0..self.racks.len()).map(|rack| format!("r{rack}")).collect();
        let racks = self.racks.iter().enumerate();
        let racks = racks.flat_map(|(rack, &nodes)| std::iter::repeat_n(rack as u32, nodes));
        for (node, rack) in cluster.nodes.iter_mut().zip(racks) {
            node.rack = Some(RackId(rack));
        }
        cluster.core = match self.between {
            Between::Unlimited => None,
            Between::Oversubscribed(factor) => {
                Some(crate::input::oversubscribed(&cluster.nodes, cluster.racks.len(), factor))
            }
            Between::Rate(rate) => {
                Some(Core { rack_uplink: Rate(rate), rack_downlink: Rate(rate) })
            }
        };
        cluster
    }

    /// Stripes at random places until as much is lost as is to be.
    fn placement(
        &self,
        cluster: &Cluster,
        code: Code,
        failed: &[NodeId],
        random: &mut Random,
    ) -> Result<Vec<NodeId>> {
        let chunks = code.chunk_count();
        crate::input::check_node_count(code, cluster.nodes.len())?;
        let draw = |random: &mut Random| match self.placing {
            Placing::Random => place(cluster, code, 1, random),
            Placing::InRacks(counts) => place_in_racks(cluster, counts, random),
        };
        let mut placement = Vec::new();
        match self.lost {
            Lost::OfStripes(stripes) => {
                for _ in 0..stripes {
                    placement.extend(draw(random));
                }
            }
            Lost::Chunks(count) => {
                let mut lost = 0;
                while lost < count * failed.len() {
                    let stripe = draw(random);
                    let hit = stripe.iter().filter(|node| failed.contains(node)).count();
                    if hit > 0 {
                        placement.extend(stripe);
                    }
                    lost += hit;
                }
            }
        }
        (placement.len().is_multiple_of(chunks)).then_some(placement).context("whole stripes")
    }

    fn readers(&self, shuffled: &[NodeId]) -> Option<Readers> {
        let (_, from) = self.straggler?;
        let node = shuffled[self.failed];
        Some(Readers { node, count: READERS, bytes: OBJECT_BYTES, from })
    }
}

/// One stripe with so many chunks in each rack, the racks in random order.
fn place_in_racks(cluster: &Cluster, counts: &[usize], random: &mut Random) -> Vec<NodeId> {
    let mut racks: Vec<usize> = (0..cluster.racks.len()).collect();
    random.shuffle(&mut racks);
    let mut stripe = Vec::new();
    for (&rack, &count) in racks.iter().zip(counts) {
        let is_there = |node: &NodeId| cluster.node(*node).rack == Some(RackId(rack as u32));
        let mut nodes: Vec<NodeId> = cluster.ids().filter(is_there).collect();
        random.shuffle(&mut nodes);
        stripe.extend(&nodes[..count.min(nodes.len())]);
    }
    random.shuffle(&mut stripe);
    stripe
}
