//! Worlds as odd as they get: nothing in them is wrong, and nothing is usual.

use suture_code::Code;
use suture_repair::cluster::{Cluster, Core, Rate};
use suture_repair::id::{ChunkIndex, NodeId, RackId, StripeId};
use suture_repair::plan::Plan;
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Job, View, plan};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

use crate::common::World;

/// Codes of every family.
const CODES: [&str; 15] = [
    "rs(2,1)",
    "rs(2,2)",
    "rs(3,2)",
    "rs(1,2)",
    "rs(4,2)",
    "rs(6,3)",
    "rs(8,3)",
    "rs(10,4)",
    "rs(12,4)",
    "rs(20,4)",
    "lrc(6,2,2)",
    "lrc(12,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
    "clay(6,3,7)",
];

/// A cluster with odd links, disks, racks and loads, and stripes that lost one to four chunks.
pub fn odd_world(random: &mut Random) -> World {
    let code: Code = random.choose(&CODES).parse().unwrap();
    let chunk_count = code.chunk_count() as u64;
    let node_count = match random.below(4) {
        0 => random.between(2, chunk_count),
        1 => random.between(chunk_count, chunk_count + 2),
        2 => random.between(chunk_count, chunk_count + 30),
        _ => random.between(chunk_count, 130),
    };
    let mut cluster = Cluster::uniform(node_count as usize, Rate(1e8));
    add_links(&mut cluster, random);
    add_racks(&mut cluster, random);
    let room: Vec<u64> = match random.below(3) {
        0 => vec![u64::MAX; node_count as usize],
        1 => (0..node_count).map(|_| random.below(1 << 24)).collect(),
        _ => (0..node_count).map(|_| if random.per_mille(800) { u64::MAX } else { 0 }).collect(),
    };
    let chunk_bytes = odd_length(random);
    let is_even = random.per_mille(700);
    let is_mixed = random.per_mille(150);
    let jobs = 0..*random.choose(&[1, 1, 2, 5, 20, 60, 150]);
    let jobs = jobs.map(|index| {
        let code = if is_mixed { random.choose(&CODES).parse().unwrap() } else { code };
        let bytes = if is_even { chunk_bytes } else { odd_length(random) };
        odd_job(random, code, node_count as usize, StripeId(index), bytes)
    });
    let jobs: Vec<Job> = jobs.collect();
    let mut load = Load::new(&cluster);
    if random.per_mille(300) {
        let view =
            View { cluster: &cluster, free_bytes: &room, load: &load, abilities: Abilities::ALL };
        let policy: Policy = random.choose(&["star/random/all", "ppr/greedy/all"]).parse().unwrap();
        let running = plan(policy, &jobs, &view, random.next_u64());
        let planned = running.planned(&jobs).map(|(job, plan)| (plan, job.facts()));
        load = Load::of(&cluster, planned);
    }
    let mut may = || random.per_mille(850);
    let (partial, combined, traces, finished) = (may(), may(), may(), may());
    let abilities = Abilities { partial, combined, traces, finished, skips: false };
    World { cluster, room, load, jobs, abilities }
}

/// Lengths of chunks, in steps that every code takes.
fn odd_length(random: &mut Random) -> u64 {
    let odd = random.between(1, 100_000);
    *random.choose(&[1, 63, 64, 65, 4096, 1 << 20, 64 << 20, 1 << 40, 1 << 46, odd, odd, 1 << 26])
}

fn odd_rate(random: &mut Random) -> f64 {
    let uniform = 1e6 * (1.0 + 99.0 * random.unit());
    let spread = 1e3 * 1e6_f64.powf(random.unit());
    let odd = [0.0, 1e-12, 1.0, 1e12, 1e30, 1e300, f64::INFINITY, 5e-324, f64::MAX];
    match random.below(4) {
        0 => *random.choose(&odd),
        1 => spread,
        _ => uniform,
    }
}

fn add_links(cluster: &mut Cluster, random: &mut Random) {
    let kind = random.below(7);
    let dead = random.index(cluster.nodes.len());
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        let rate = |random: &mut Random| {
            Rate(match kind {
                0 => 1e8,
                1 => odd_rate(random),
                2 => *random.choose(&[1e2, 1e8]),
                _ => 1e6 * (1.0 + 99.0 * random.unit()),
            })
        };
        (node.uplink, node.downlink) = (rate(random), rate(random));
        match kind {
            3 if index == dead => node.uplink = Rate(0.0),
            4 if index == dead => node.downlink = Rate(0.0),
            5 => (node.foreground_uplink, node.foreground_downlink) = (node.uplink, node.downlink),
            6 if random.per_mille(400) => {
                node.foreground_uplink = Rate(node.uplink.0 * 2.0 * random.unit());
                node.foreground_downlink = Rate(node.downlink.0 * 2.0 * random.unit());
            }
            _ => {}
        }
    }
    let (disks, some) = (random.below(4), random.per_mille(300));
    for node in cluster.nodes.iter_mut().filter(|_| disks == 0) {
        if !some || random.per_mille(500) {
            node.disk_read = Some(Rate(odd_rate(random)));
            node.disk_write = Some(Rate(odd_rate(random)));
        }
    }
}

fn add_racks(cluster: &mut Cluster, random: &mut Random) {
    if random.per_mille(500) {
        return;
    }
    let rack_count = random.between(1, 9);
    cluster.racks = (0..rack_count).map(|rack| format!("r{rack}")).collect();
    let outside = *random.choose(&[0, 0, 100]);
    for node in &mut cluster.nodes {
        let rack = RackId(random.below(rack_count) as u32);
        node.rack = (!random.per_mille(outside)).then_some(rack);
    }
    if random.per_mille(700) {
        let (up, down) = (odd_rate(random), odd_rate(random));
        let scarce = *random.choose(&[1.0, 1e-3]);
        let (rack_uplink, rack_downlink) = (Rate(up * scarce), Rate(down * scarce));
        cluster.core = Some(Core { rack_uplink, rack_downlink });
    }
}

/// A stripe that lost some chunks, and of which some more are out of reach.
fn odd_job(
    random: &mut Random,
    code: Code,
    node_count: usize,
    stripe: StripeId,
    chunk_bytes: u64,
) -> Job {
    let mut nodes: Vec<NodeId> = (0..node_count as u32).map(NodeId).collect();
    random.shuffle(&mut nodes);
    let mut chunks: Vec<ChunkIndex> = code.chunks().collect();
    random.shuffle(&mut chunks);
    let lost_count = (*random.choose(&[1, 1, 1, 2, 2, 3, 4])).min(chunks.len());
    let mut lost = chunks.split_off(chunks.len() - lost_count);
    let missing = *random.choose(&[0, 0, 0, 0, 1, 2]);
    chunks.truncate(chunks.len().saturating_sub(missing));
    let mut survivors: Vec<(ChunkIndex, NodeId)> =
        chunks.into_iter().zip(nodes.iter().copied()).collect();
    lost.sort_unstable();
    survivors.sort_unstable();
    let excluded = match random.below(3) {
        0 => Vec::new(),
        1 => survivors.iter().map(|(_, node)| *node).collect(),
        _ => nodes.iter().copied().take(random.index(nodes.len())).collect(),
    };
    let avoid = if random.per_mille(800) { 0 } else { random.index(nodes.len()) };
    random.shuffle(&mut nodes);
    let avoid = nodes[..avoid].to_vec();
    let alpha = u64::from(code.sub_chunk_count());
    let chunk_bytes = chunk_bytes.next_multiple_of(alpha);
    let code = code.into();
    Job {
        stripe,
        code,
        chunk_bytes,
        lost,
        survivors,
        excluded,
        keeper_places: Vec::new(),
        avoid,
        idle: Vec::new(),
        source: None,
    }
}

/// What is wrong with a batch, if anything: every job is planned or refused, every plan valid.
pub fn fault(world: &World, policy: &str, seed: u64) -> Option<String> {
    let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), seed);
    if batch.plans.len() + batch.refused.len() != world.jobs.len() {
        return Some("jobs are missing".to_string());
    }
    batch.planned(&world.jobs).find_map(|(job, plan)| plan_fault(world, job, plan))
}

fn plan_fault(world: &World, job: &Job, plan: &Plan) -> Option<String> {
    let node_count = world.cluster.nodes.len();
    let may_keep =
        |node: &NodeId| world.room[node.index()] >= job.chunk_bytes && !job.excluded.contains(node);
    let valid = suture_repair::plan::validate::validate(plan, &job.facts(), node_count);
    match valid {
        Err(fault) => Some(format!("stripe {} ({}): {fault}", job.stripe, job.code)),
        Ok(()) if plan.lost.is_empty() || !plan.lost.iter().all(|c| job.lost.contains(c)) => {
            Some(format!("stripe {}: rebuilds {:?}", job.stripe, plan.lost))
        }
        Ok(()) if !plan.destinations.values().all(may_keep) => {
            Some(format!("stripe {}: a destination that may not be", job.stripe))
        }
        Ok(()) => None,
    }
}
