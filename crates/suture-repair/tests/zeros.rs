//! Every policy where chunks are short, or absent and known to be zero: plans are valid, rebuild
//! the bytes, and ask no node for what is known.

use crate::common::{self, LINK, Links, World};
use suture_code::execute::run_naively;
use suture_code::{ChunkIndex, ChunkSet, Code, Shortened};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::Core;
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::{Batch, PlanError, plan};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

const CODES: [&str; 7] = [
    "rs(6,3)",
    "rs(3,2)",
    "rs(10,4)",
    "rs-vandermonde(4,2)",
    "lrc(6,2,2)",
    "lrc(4,2,1)",
    "lrc(8,2,3)",
];

/// Every shape with every balance that can be planned.
fn plannable() -> Vec<Policy> {
    let shapes = "star ppr chain ppt pivot rack tunable split trace mix".split(' ');
    let balances = "random lru lru:shared repairboost car car:random chameleon \
                    chameleon:artifact chameleon:io flow greedy";
    let triples = shapes.flat_map(|shape| {
        let balances = balances.split_whitespace();
        balances.map(move |balance| format!("{shape}/{balance}/all").parse::<Policy>().unwrap())
    });
    triples.filter(|policy| policy.plannable().is_ok()).collect()
}

/// Stripes of which some data chunks are zero and some end early, with the bytes that there are.
fn world(code: &str, random: &mut Random) -> (World, Vec<Chunks>) {
    let code: Code = code.parse().unwrap();
    let failed = [NodeId(0), NodeId(1), NodeId(2)];
    let failed_count = random.between(1, code.loss_tolerance().min(3) as u64) as usize;
    let nodes = random.between(17, 22) as usize;
    let (name, seed) = (code.to_string(), random.next_u64());
    let links = *random.choose(&[Links::Equal, Links::Independent, Links::Same]);
    let mut world = World::failed_nodes(&name, nodes, &failed[..failed_count], 6, seed)
        .with_links(links, random.next_u64())
        .with_racks(random.between(2, 6) as usize)
        .with_disks(random.next_u64());
    if random.per_mille(300) {
        let rate = Rate(random.between(1, 6) as f64 * LINK.0);
        world.cluster.core = Some(Core { rack_uplink: rate, rack_downlink: rate });
    }
    let mut stripes = Vec::new();
    for job in &mut world.jobs {
        let zeros = zeros(random, code, &job.lost);
        job.code = Shortened::new(code, zeros);
        job.survivors.retain(|(chunk, _)| !zeros.contains(*chunk));
        let bytes = 64 * random.between(1, 3) as usize;
        let chunks = short_stripe(random, &job.code, bytes);
        let lost = job.lost.iter().map(|chunk| chunks[chunk].len() as u64);
        job.chunk_bytes = lost.max().unwrap();
        stripes.push(chunks);
    }
    (world, stripes)
}

/// As many as there may be of the data chunks that are not lost.
fn zeros(random: &mut Random, code: Code, lost: &[ChunkIndex]) -> ChunkSet {
    loop {
        let data = code.chunks().take(code.data_chunks());
        let is_zero = |chunk: &ChunkIndex| !lost.contains(chunk) && random.per_mille(500);
        let zeros: ChunkSet = data.filter(is_zero).collect();
        if Shortened::new(code, zeros).check().is_ok() {
            return zeros;
        }
    }
}

/// A stripe whose data chunks end early now and then; parity goes on to the end.
fn short_stripe(random: &mut Random, code: &Shortened, bytes: usize) -> Chunks {
    let data_chunks = code.code().data_chunks();
    let mut data = vec![vec![0; bytes]; data_chunks];
    let mut ends = vec![bytes; code.chunk_count()];
    for (index, chunk) in data.iter_mut().enumerate() {
        ends[index] = match code.is_zero(ChunkIndex(index as u8)) {
            true => 0,
            false if random.per_mille(400) => random.between(1, bytes as u64) as usize,
            false => bytes,
        };
        random.fill(&mut chunk[..ends[index]]);
    }
    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let parity = run_naively(&code.code().encode_dag(), &sources, bytes);
    let whole = code.chunks().zip(data.into_iter().chain(parity));
    let chunks = whole.zip(ends).map(|((chunk, mut bytes), end)| {
        bytes.truncate(end);
        (chunk, bytes)
    });
    chunks.filter(|(_, bytes)| !bytes.is_empty()).collect()
}

fn check(world: &World, stripes: &[Chunks], batch: &Batch, policy: Policy) {
    for (job, plan) in batch.planned(&world.jobs) {
        let what = format!("{policy:#} {} {} of {:?}", job.code, job.stripe, job.code.zeros());
        assert_eq!(validate(plan, &job.facts(), world.cluster.nodes.len()), Ok(()), "{what}");
        let mut readable = stripes[job.stripe.0 as usize].clone();
        readable.retain(|chunk, _| !job.lost.contains(chunk));
        for (lost, bytes) in oracle::execute(plan, &job.facts(), &readable) {
            let chunk = &stripes[job.stripe.0 as usize][&lost];
            assert_eq!(&bytes[..chunk.len()], chunk, "{what}, chunk {lost}");
            assert!(bytes[chunk.len()..].iter().all(|byte| *byte == 0), "{what}, past {lost}");
        }
    }
}

#[test]
fn every_policy_rebuilds_short_stripes_and_asks_for_no_zeros() {
    let mut random = Random::new(21);
    let (mut planned, mut with_traces) = (0, 0);
    for code in CODES {
        for _ in 0..4 {
            let (world, stripes) = world(code, &mut random);
            let bound = bound_seconds(&world.jobs, &world.view());
            for policy in plannable() {
                let batch = plan(policy, &world.jobs, &world.view(), random.next_u64());
                for (_, error) in &batch.refused {
                    let is_fair = match error {
                        PlanError::NoSchemes { code } => code.schemes().is_empty(),
                        _ => false,
                    };
                    assert!(is_fair, "{policy:#} {code}: {error}");
                }
                check(&world, &stripes, &batch, policy);
                let lanes = batch.plans.iter().flat_map(|plan| &plan.lanes);
                let traces = lanes.filter(|lane| lane.scheme.is_some()).count();
                let pairs = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
                let peak = Load::of(&world.cluster, pairs).max_seconds(&world.cluster);
                let is_all = batch.refused.is_empty() && traces == 0;
                assert!(!is_all || peak >= bound * (1.0 - 1e-9), "{policy:#}: {peak} < {bound}");
                planned += batch.plans.len();
                with_traces += traces;
            }
        }
    }
    assert!(planned > 4000 && with_traces > 20, "{planned} plans, {with_traces} lanes of traces");
}

#[test]
fn known_zeros_save_what_they_would_have_sent() {
    let moved = |zeros: &[u8]| {
        let mut world = World::failed_node("rs(6,3)", 12, 4, 3);
        for job in &mut world.jobs {
            // Chunk numbers count from the lost one, so that it is none of them.
            let lost = job.lost[0].0;
            let zeros = zeros.iter().map(|at| ChunkIndex((lost + 1 + at) % 9)).collect();
            job.code = Shortened::new(job.code.code(), zeros);
            assert_eq!(job.code.check(), Ok(()));
            job.survivors.retain(|(chunk, _)| !zeros.contains(*chunk));
        }
        ["flow", "cr", "ppr", "rp"].map(|policy| {
            let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
            let edges = batch.plans.iter().flat_map(|plan| &plan.lanes).flat_map(|l| &l.edges);
            edges.map(|edge| edge.bytes).sum::<u64>()
        })
    };
    let chunks = |count: u64| [4 * count * common::CHUNK_BYTES; 4];
    assert_eq!(moved(&[]), chunks(6));
    assert_eq!(moved(&[0]), chunks(5));
    assert_eq!(moved(&[0, 1, 2, 3, 4]), chunks(1));
}
