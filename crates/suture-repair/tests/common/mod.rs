//! Clusters with a failed node, for tests of planning.
#![allow(dead_code, reason = "each test, bench and example takes what it needs")]

use suture_code::Code;
use suture_repair::bound::{bound_seconds, own_bound_seconds};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, RackId, StripeId};
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::{Abilities, Job, View, plan};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

/// Bytes of every chunk: they only scale the loads.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Bytes per second of every link of an equal cluster: a chunk takes a second.
pub const LINK: Rate = Rate(CHUNK_BYTES as f64);

/// How the links of a cluster differ.
#[derive(Clone, Copy)]
pub enum Links {
    Equal,
    /// Uniform in 1..10 times the usual, each by itself.
    Independent,
    /// Uniform in 1..10 times the usual, the same up and down.
    Same,
}

impl Links {
    pub fn name(self) -> &'static str {
        match self {
            Links::Equal => "hom",
            Links::Independent => "het",
            Links::Same => "cor",
        }
    }
}

/// A cluster and the stripes that failures hit.
pub struct World {
    pub cluster: Cluster,
    /// Bytes that each node may take; failed ones none.
    pub room: Vec<u64>,
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
            room: cluster.ids().map(|n| if failed.contains(&n) { 0 } else { u64::MAX }).collect(),
            load: Load::new(&cluster),
            jobs: (0..stripe_count).map(stripe).collect(),
            cluster,
            abilities: Abilities::ALL,
        }
    }

    /// Gives every node links of its own, uniform in 1..10 times the usual.
    pub fn with_unequal_links(self, seed: u64) -> World {
        self.with_links(Links::Independent, seed)
    }

    /// Gives every node links of that kind.
    pub fn with_links(mut self, links: Links, seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut rate = || Rate(LINK.0 * (1.0 + 9.0 * random.unit()));
        for node in &mut self.cluster.nodes {
            (node.uplink, node.downlink) = match links {
                Links::Equal => (LINK, LINK),
                Links::Independent => (rate(), rate()),
                Links::Same => {
                    let both = rate();
                    (both, both)
                }
            };
        }
        self
    }

    /// Puts the nodes into racks, one after the other.
    pub fn with_racks(mut self, rack_count: usize) -> World {
        self.cluster.racks = (0..rack_count).map(|rack| format!("r{rack}")).collect();
        for (index, node) in self.cluster.nodes.iter_mut().enumerate() {
            node.rack = Some(RackId((index % rack_count) as u32));
        }
        self.load = Load::new(&self.cluster);
        self
    }

    /// Gives every node a disk, uniform in 1..10 times the usual link.
    pub fn with_disks(mut self, seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut rate = || Some(Rate(LINK.0 * (1.0 + 9.0 * random.unit())));
        for node in &mut self.cluster.nodes {
            (node.disk_read, node.disk_write) = (rate(), rate());
        }
        self
    }

    pub fn view(&self) -> View<'_> {
        View {
            cluster: &self.cluster,
            free_bytes: &self.room,
            load: &self.load,
            abilities: self.abilities,
        }
    }

    /// The bound of a policy's own traffic, in seconds, where there is one; `load` is any.
    pub fn own_bound(&self, policy: Policy, load: &Load) -> Option<f64> {
        let any = bound_seconds(&self.jobs, &self.view());
        own_bound_seconds(policy, &self.jobs, &self.view(), load, any)
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
        code: code.into(),
        chunk_bytes: CHUNK_BYTES,
        lost: lost.into_iter().map(|(chunk, _)| chunk).collect(),
        survivors,
        idle: Vec::new(),
        excluded: nodes,
        keeper_places: Vec::new(),
        avoid: Vec::new(),
        source: None,
    }
}

/// The load of a policy's plans, all of them valid.
pub fn load_of(world: &World, policy: &str) -> Load {
    let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!(batch.refused, []);
    for (job, plan) in batch.planned(&world.jobs) {
        assert_eq!(validate(plan, &job.facts(), world.cluster.nodes.len()), Ok(()));
    }
    let planned = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    Load::of(&world.cluster, planned)
}

/// The busiest port of a policy's plans, in seconds; all of them valid.
pub fn peak_seconds(world: &World, policy: &str) -> f64 {
    load_of(world, policy).max_seconds(&world.cluster)
}
