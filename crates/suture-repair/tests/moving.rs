//! Plans for chunks that only move: right bytes, less on the busiest port than copying alone or
//! rebuilding alone.

use suture_code::Code;
use suture_code::execute::run_naively;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::oracle::{Chunks, execute, expected};
use suture_repair::plan::load::Load;
use suture_repair::plan::{Edge, Plan};
use suture_repair::planner::{Abilities, Job, View, plan_checked};
use suture_repair::random::Random;

const LEAVING: NodeId = NodeId(0);

/// Stripes of which each has its first chunk on the leaving node, and the others round the rest.
fn jobs(code: Code, nodes: u32, stripes: u64, chunk_bytes: u64) -> Vec<Job> {
    let job = |stripe: u64| {
        let others = code.chunk_count() as u32 - 1;
        let holder = |i: u32| NodeId(1 + (stripe as u32 * 3 + i) % (nodes - 1));
        let survivors: Vec<(ChunkIndex, NodeId)> =
            (0..others).map(|i| (ChunkIndex(i as u8 + 1), holder(i))).collect();
        Job {
            stripe: StripeId(stripe),
            code: code.into(),
            chunk_bytes,
            lost: vec![ChunkIndex(0)],
            excluded: survivors.iter().map(|(_, node)| *node).chain([LEAVING]).collect(),
            keeper_places: Vec::new(),
            survivors,
            idle: Vec::new(),
            avoid: Vec::new(),
            source: Some(LEAVING),
        }
    };
    (0..stripes).map(job).collect()
}

fn plans(jobs: &[Job], cluster: &Cluster, policy: &str) -> Vec<Plan> {
    let mut free_bytes = vec![u64::MAX; cluster.nodes.len()];
    free_bytes[LEAVING.index()] = 0;
    let (load, abilities) = (Load::new(cluster), Abilities::ALL);
    let view = View { cluster, free_bytes: &free_bytes, load: &load, abilities };
    let batch = plan_checked(policy.parse().expect("a policy"), jobs, &view, 1);
    assert_eq!(batch.refused, []);
    batch.plans
}

fn seconds(jobs: &[Job], plans: &[Plan], cluster: &Cluster) -> f64 {
    let facts = plans.iter().zip(jobs).map(|(plan, job)| (plan, job.facts()));
    Load::of(cluster, facts).max_seconds(cluster)
}

fn encoded(job: &Job, random: &mut Random) -> Chunks {
    let (code, chunk_bytes) = (job.code.code(), job.chunk_bytes as usize);
    let alpha = code.sub_chunk_count() as usize;
    let mut data = vec![vec![0; chunk_bytes]; code.data_chunks()];
    data.iter_mut().for_each(|chunk| random.fill(chunk));
    let parts = chunk_bytes / alpha;
    let sources: Vec<&[u8]> = data.iter().flat_map(|chunk| chunk.chunks(parts)).collect();
    let parity = run_naively(&code.encode_dag(), &sources, parts);
    let parity = parity.chunks(alpha).map(|parts| parts.concat());
    code.chunks().zip(data.into_iter().chain(parity)).collect()
}

#[test]
fn copying_and_rebuilding_together_load_the_busiest_link_less_than_either() {
    for (policy, code, nodes) in
        [("suture", "rs(6,3)", 16), ("flow", "rs(6,3)", 16), ("cr", "rs(4,2)", 12)]
    {
        let code: Code = code.parse().expect("a code");
        let (cluster, bytes) = (Cluster::uniform(nodes as usize, Rate(1e8)), 1 << 20);
        let moving = jobs(code, nodes, 60, bytes);
        let lost = moving.iter().map(|job| Job { source: None, ..job.clone() });
        let lost: Vec<Job> = lost.collect();
        let both = seconds(&moving, &plans(&moving, &cluster, policy), &cluster);
        let rebuilt = seconds(&lost, &plans(&lost, &cluster, policy), &cluster);
        let copied = 60.0 * bytes as f64 / 1e8;

        assert!(both < 0.9 * rebuilt && both < 0.9 * copied, "{policy}: {both} {rebuilt} {copied}");
    }
}

#[test]
fn a_busy_leaving_node_copies_little_and_a_fast_one_copies_all() {
    let code: Code = "rs(4,2)".parse().expect("a code");
    let copied = |uplink: f64| -> u64 {
        let mut cluster = Cluster::uniform(12, Rate(1e8));
        cluster.nodes[0].uplink = Rate(uplink);
        let jobs = jobs(code, 12, 40, 1 << 20);
        let plans = plans(&jobs, &cluster, "flow");
        let lanes = plans.iter().flat_map(|plan| &plan.lanes);
        let edges = lanes.flat_map(|lane| &lane.edges).filter(|edge| edge.child == LEAVING);
        edges.map(|edge| edge.bytes).sum()
    };
    assert_eq!(copied(1e11), 40 << 20);
    let little = copied(2e7);
    assert!((1..4 << 20).contains(&little), "{little}");
}

#[test]
fn every_code_moves_its_bytes_whatever_part_is_copied() {
    let codes = ["rs(4,2)", "rs(1,2)", "lrc(4,2,2)", "butterfly(3)", "clay(3,2,4)"];
    for (code, uplink) in codes.into_iter().flat_map(|code| [1e6, 1e8, 1e11].map(|up| (code, up))) {
        let code: Code = code.parse().expect("a code");
        let nodes = code.chunk_count() as u32 + 3;
        let mut cluster = Cluster::uniform(nodes as usize, Rate(1e8));
        cluster.nodes[0].uplink = Rate(uplink);
        let bytes = (code.alignment() as u64 * 100).next_multiple_of(4096);
        let jobs = jobs(code, nodes, 4, bytes.next_multiple_of(code.alignment() as u64));
        let mut random = Random::new(7);
        for (job, plan) in jobs.iter().zip(plans(&jobs, &cluster, "suture")) {
            let chunks = encoded(job, &mut random);
            let rebuilt = execute(&plan, &job.facts(), &chunks);
            let wanted = expected(&chunks[&ChunkIndex(0)], &job.facts(), plan.range);
            assert!(rebuilt[&ChunkIndex(0)] == wanted, "{code} at {uplink}");
        }
    }
}

/// A job like those of `jobs` whose chunk only these nodes may keep.
fn kept_by(job: &Job, nodes: &[u32], cluster: &Cluster) -> Job {
    let excluded = cluster.ids().filter(|node| !nodes.contains(&node.0)).collect();
    Job { excluded, ..job.clone() }
}

/// The same with too few survivors to rebuild it.
fn not_rebuilt(job: &Job) -> Job {
    Job { survivors: job.survivors[..1].to_vec(), ..job.clone() }
}

fn destinations(plans: &[Plan]) -> Vec<u32> {
    plans.iter().map(|plan| plan.destinations[&ChunkIndex(0)].0).collect()
}

#[test]
fn what_cannot_be_rebuilt_is_copied_to_whoever_has_received_all_first() {
    let code: Code = "rs(4,2)".parse().expect("a code");
    let mut cluster = Cluster::uniform(12, Rate(1e8));
    cluster.nodes[10].downlink = Rate(4e8);
    let jobs = jobs(code, 10, 4, 1 << 20);
    let jobs: Vec<Job> =
        jobs.iter().map(|job| not_rebuilt(&kept_by(job, &[10, 11], &cluster))).collect();
    let plans = plans(&jobs, &cluster, "suture");
    assert_eq!(destinations(&plans), [10, 11, 10, 10]);
    for (job, plan) in jobs.iter().zip(&plans) {
        assert_eq!((plan.lanes.len(), plan.lanes[0].range.bytes()), (1, job.chunk_bytes));
        assert_eq!(plan.lanes[0].edges[0].child, LEAVING);
    }
}

#[test]
fn what_cannot_be_rebuilt_is_copied_past_those_that_receive_what_can() {
    let code: Code = "rs(4,2)".parse().expect("a code");
    let cluster = Cluster::uniform(12, Rate(1e8));
    let jobs = jobs(code, 10, 2, 1 << 20);
    let rebuilt = kept_by(&jobs[0], &[10], &cluster);
    let copied = not_rebuilt(&kept_by(&jobs[1], &[10, 11], &cluster));
    let plans = plans(&[rebuilt, copied], &cluster, "suture");
    assert_eq!(destinations(&plans), [10, 11]);
}

#[test]
fn a_chunk_is_copied_in_one_piece_however_many_leave_its_node() {
    let code: Code = "rs(4,2)".parse().expect("a code");
    let mut cut = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let mut cluster = Cluster::uniform(13, Rate(1e8));
        let leaving = [0, 12].map(NodeId);
        for node in leaving {
            cluster.nodes[node.index()].uplink = Rate(random.between(10, 300) as f64 * 1e6);
        }
        let mut jobs = jobs(code, 12, random.between(4, 40), 1 << 20);
        for (job, source) in jobs.iter_mut().zip(leaving.into_iter().cycle()) {
            job.excluded.push(leaving[1]);
            job.source = Some(source);
        }
        let plans = plans(&jobs, &cluster, "flow");
        for (job, plan) in jobs.iter().zip(&plans) {
            let copies = |edge: &&Edge| Some(edge.child) == job.source;
            let count = plan.lanes.iter().flat_map(|lane| &lane.edges).filter(copies).count();
            assert!(count <= 1, "seed {seed}: {count} lanes copy a chunk of {}", job.stripe);
            cut += usize::from(count == 1 && plan.lanes.len() > 1);
        }
    }
    assert!(cut > 100, "{cut} chunks are copied in part");
}

#[test]
fn of_equal_cuts_the_one_that_moves_least_is_taken_and_copies_all() {
    let code: Code = "rs(4,2)".parse().expect("a code");
    // Links that take no time at all: whatever is copied, no port has anything to do.
    let cluster = Cluster::uniform(12, Rate(f64::INFINITY));
    let jobs = jobs(code, 12, 4, 1 << 20);
    let plans = plans(&jobs, &cluster, "flow");
    let facts = plans.iter().zip(&jobs).map(|(plan, job)| (plan, job.facts()));
    assert_eq!(Load::of(&cluster, facts).moved_bytes(), 4 << 20);
}
