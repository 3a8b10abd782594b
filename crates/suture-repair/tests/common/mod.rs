//! Clusters with a failed node, for tests of planning.

use suture_code::Code;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Job, View};
use suture_repair::random::Random;

/// Bytes of every chunk: they only scale the loads.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Bytes per second of every link of an equal cluster: a chunk takes a second.
pub const LINK: Rate = Rate(CHUNK_BYTES as f64);

/// A cluster and the stripes that failures hit.
pub struct World {
    pub cluster: Cluster,
    pub accepts: Vec<bool>,
    pub load: Load,
    pub jobs: Vec<Job>,
    pub abilities: Abilities,
}

impl World {
    /// `lost` stripes at random places, all of which have a chunk on a failed node 0.
    pub fn failed_node(code: &str, node_count: usize, lost: usize, seed: u64) -> World {
        World::failed_nodes(code, node_count, &[NodeId(0)], lost, seed)
    }

    /// `stripe_count` stripes at random places, all of which have a chunk on the first failed node.
    pub fn failed_nodes(
        code: &str,
        node_count: usize,
        failed: &[NodeId],
        stripe_count: usize,
        seed: u64,
    ) -> World {
        let code: Code = code.parse().unwrap();
        let mut random = Random::new(seed);
        let cluster = Cluster::uniform(node_count, LINK);
        let stripe = |index: usize| job(&mut random, code, node_count, failed, index as u64);
        World {
            accepts: cluster.ids().map(|node| !failed.contains(&node)).collect(),
            load: Load::new(&cluster),
            jobs: (0..stripe_count).map(stripe).collect(),
            cluster,
            abilities: Abilities::ALL,
        }
    }

    /// Gives every node links of its own, uniform in 1..10 times the usual.
    pub fn with_unequal_links(mut self, seed: u64) -> World {
        let mut random = Random::new(seed);
        for node in &mut self.cluster.nodes {
            node.uplink = Rate(LINK.0 * (1.0 + 9.0 * random.unit()));
            node.downlink = Rate(LINK.0 * (1.0 + 9.0 * random.unit()));
        }
        self
    }

    pub fn view(&self) -> View<'_> {
        View {
            cluster: &self.cluster,
            accepts: &self.accepts,
            load: &self.load,
            abilities: self.abilities,
        }
    }
}

fn job(random: &mut Random, code: Code, node_count: usize, failed: &[NodeId], index: u64) -> Job {
    let mut others: Vec<NodeId> = (0..node_count as u32).map(NodeId).collect();
    others.retain(|node| *node != failed[0]);
    random.shuffle(&mut others);
    let mut nodes = others[..code.chunk_count() - 1].to_vec();
    nodes.insert(random.index(nodes.len() + 1), failed[0]);
    let (lost, survivors): (Vec<_>, Vec<_>) =
        code.chunks().zip(nodes.iter().copied()).partition(|(_, node)| failed.contains(node));
    let lost: Vec<(ChunkIndex, NodeId)> = lost;
    Job {
        stripe: StripeId(index),
        code,
        chunk_bytes: CHUNK_BYTES,
        lost: lost.into_iter().map(|(chunk, _)| chunk).collect(),
        survivors,
        excluded: nodes,
        avoid: Vec::new(),
    }
}
