//! Every policy with every code: plans are valid and rebuild the bytes, or are refused for a reason
//! that holds. And the published algorithms against the figures that they are known to reach.

use crate::common::{self, Links, World};
use suture_code::Code;
use suture_code::execute::run_naively;
use suture_repair::bound::{bound_seconds, own_bound_seconds};
use suture_repair::cluster::{Core, Rate};
use suture_repair::id::{NodeId, RackId};
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::Carries;
use suture_repair::plan::load::{Load, NodeLoad};
use suture_repair::plan::validate::validate;
use suture_repair::planner::{Batch, Job, PlanError, plan};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

const SHAPES: [&str; 10] =
    ["star", "ppr", "chain", "ppt", "pivot", "rack", "tunable", "split", "trace", "mix"];

const BALANCES: [&str; 12] = [
    "random",
    "lru",
    "lru:shared",
    "repairboost",
    "car",
    "car:3",
    "car:random",
    "chameleon",
    "chameleon:artifact",
    "chameleon:io",
    "flow",
    "greedy",
];

const CODES: [&str; 9] = [
    "rs(6,3)",
    "rs(3,2)",
    "rs(10,4)",
    "rs(1,2)",
    "rs-vandermonde(4,2)",
    "lrc(6,2,2)",
    "lrc(4,2,1)",
    "butterfly(4)",
    "clay(4,2,5)",
];

/// Every shape with every balance that can be planned.
fn plannable() -> impl Iterator<Item = Policy> {
    let triples = SHAPES.into_iter().flat_map(|shape| {
        BALANCES.into_iter().map(move |balance| format!("{shape}/{balance}/all"))
    });
    triples.map(|text| text.parse::<Policy>().unwrap()).filter(|p| p.plannable().is_ok())
}

/// A cluster with racks and disks, and stripes with their bytes.
fn world(code: &str, random: &mut Random) -> (World, Vec<Chunks>) {
    let node_count = random.between(17, 22) as usize;
    let failed = [NodeId(0), NodeId(1), NodeId(2)];
    let code: Code = code.parse().unwrap();
    let failed_count = random.between(1, code.loss_tolerance().min(3) as u64) as usize;
    let name = code.to_string();
    let world =
        World::failed_nodes(&name, node_count, &failed[..failed_count], 6, random.next_u64());
    let kinds = [Links::Equal, Links::Independent, Links::Same];
    let mut world = world
        .with_links(*random.choose(&kinds), random.next_u64())
        .with_racks(random.between(2, 6) as usize)
        .with_disks(random.next_u64());
    if random.per_mille(500) {
        let rate = Rate(random.between(1, 6) as f64 * common::LINK.0);
        world.cluster.core = Some(Core { rack_uplink: rate, rack_downlink: rate });
    }
    for job in &mut world.jobs {
        job.chunk_bytes = code.alignment() as u64 * random.between(1, 2);
    }
    let stripes = world.jobs.iter().map(|job| encoded(job, random)).collect();
    (world, stripes)
}

fn encoded(job: &Job, random: &mut Random) -> Chunks {
    let (code, chunk_bytes) = (job.code.code(), job.chunk_bytes as usize);
    let alpha = code.sub_chunk_count() as usize;
    let part_bytes = chunk_bytes / alpha;
    let mut data = vec![vec![0; chunk_bytes]; code.data_chunks()];
    data.iter_mut().for_each(|chunk| random.fill(chunk));
    let sources: Vec<&[u8]> = data.iter().flat_map(|chunk| chunk.chunks(part_bytes)).collect();
    let parity = run_naively(&code.encode_dag(), &sources, part_bytes);
    let parity = parity.chunks(alpha).map(|parts| parts.concat());
    code.chunks().zip(data.into_iter().chain(parity)).collect()
}

/// Whether a policy has to be able to plan this.
fn is_fair(policy: Policy, job: &Job, error: &PlanError) -> bool {
    let shape = policy.shape.to_string();
    let is_tree = ["ppr", "chain", "ppt", "pivot", "rack"].contains(&shape.as_str());
    match error {
        PlanError::NoSums { .. } => {
            is_tree && job.lost.len() == 1 && job.code.sub_chunk_count() > 1
        }
        PlanError::NoSchemes { code } => shape == "trace" && code.schemes().is_empty(),
        PlanError::TooManyTrees { .. } => shape == "ppt" && job.code.data_chunks() >= 12,
        _ => false,
    }
}

#[test]
fn every_policy_rebuilds_the_bytes_of_every_code_or_says_why_not() {
    let mut random = Random::new(11);
    let (mut planned, mut bounded) = (0, 0);
    for code in CODES {
        for _ in 0..3 {
            let (world, stripes) = world(code, &mut random);
            for policy in plannable() {
                let batch = plan(policy, &world.jobs, &world.view(), random.next_u64());
                for (index, error) in &batch.refused {
                    let job = &world.jobs[*index];
                    assert!(
                        is_fair(policy, job, error),
                        "{policy:#} {code} {:?}: {error}",
                        job.lost
                    );
                }
                check(&world, &stripes, &batch, policy);
                bounded += usize::from(check_own_bound(&world, &batch, policy));
                planned += batch.plans.len();
            }
        }
    }
    assert!(planned > 4000, "{planned} plans are few");
    assert!(bounded > 100, "{bounded} batches with a bound of their own are few");
}

/// A locally repairable code takes more or fewer helpers with the order in which it is asked, as
/// soon as it has three global parities.
#[test]
fn locally_repairable_codes_of_all_sizes_are_rebuilt_whatever_the_order_of_helpers() {
    let mut random = Random::new(13);
    let mut planned = 0;
    for (k, l) in [(2, 1), (4, 2), (6, 2), (6, 3), (8, 2), (9, 3), (10, 5)] {
        for m in 1..=4 {
            let world = every_loss(&format!("lrc({k},{l},{m})"), &mut random);
            let stripes: Vec<Chunks> =
                world.jobs.iter().map(|job| encoded(job, &mut random)).collect();
            let bound = bound_seconds(&world.jobs, &world.view());
            let presets = Policy::presets().map(|(_, policy)| policy);
            for policy in plannable().chain(presets) {
                let batch = plan(policy, &world.jobs, &world.view(), random.next_u64());
                for (index, error) in &batch.refused {
                    assert!(is_fair(policy, &world.jobs[*index], error), "{policy:#}: {error}");
                }
                check(&world, &stripes, &batch, policy);
                let load = check_load(&world, &batch, policy);
                let peak = load.max_seconds(&world.cluster);
                assert!(
                    !batch.refused.is_empty() || peak >= bound * (1.0 - 1e-9),
                    "{policy:#} lrc({k},{l},{m}): {peak} of {bound}"
                );
                planned += batch.plans.len();
            }
        }
    }
    assert!(planned > 20_000, "{planned} plans are few");
}

/// For each chunk of a stripe one that lost it, and some that lost several.
fn every_loss(code: &str, random: &mut Random) -> World {
    let code: Code = code.parse().unwrap();
    let name = code.to_string();
    let node_count = code.chunk_count() + random.between(3, 6) as usize;
    let mut world =
        World::failed_node(&name, node_count, 40 * code.chunk_count(), random.next_u64());
    let mut seen = Vec::new();
    world.jobs.retain(|job| {
        let is_new = !seen.contains(&job.lost);
        seen.push(job.lost.clone());
        is_new
    });
    assert_eq!(world.jobs.len(), code.chunk_count(), "enough stripes for every loss");
    let failed: Vec<NodeId> = (0..code.loss_tolerance().min(3) as u32).map(NodeId).collect();
    let several = World::failed_nodes(&name, node_count, &failed, 60, random.next_u64());
    world.jobs.extend(several.jobs.into_iter().filter(|job| job.lost.len() > 1).take(4));
    world.room = several.room;
    let kinds = [Links::Equal, Links::Independent, Links::Same];
    let mut world = world
        .with_links(*random.choose(&kinds), random.next_u64())
        .with_racks(random.between(2, 6) as usize)
        .with_disks(random.next_u64());
    for (stripe, job) in (0..).zip(&mut world.jobs) {
        (job.stripe.0, job.chunk_bytes) = (stripe, code.alignment() as u64);
    }
    world
}

/// Every helper of a lane sends its chunk once, what is sent arrives, and destinations write it.
fn check_load(world: &World, batch: &Batch, policy: Policy) -> Load {
    let plans = || batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    let load = Load::of(&world.cluster, plans());
    let lanes = plans().flat_map(|(plan, facts)| {
        plan.lanes.iter().map(move |lane| {
            let helpers = lane.helpers(&facts);
            let decodes = |(chunk, node): &(_, NodeId)| {
                helpers.contains(chunk) && lane.decoder == Some(*node)
            };
            let own = facts.survivors.iter().filter(|holder| decodes(holder)).count();
            let finished = lane.edges.iter().filter(|edge| edge.carries == Carries::Finished);
            let sent = helpers.len() - own + finished.count();
            [sent, helpers.len(), lane.lost.len()].map(|count| count as u64 * lane.range.bytes())
        })
    });
    let sum = |all: [u64; 3], lane: [u64; 3]| [0, 1, 2].map(|at| all[at] + lane[at]);
    let [sent, read, written] = lanes.fold([0; 3], sum);
    let total = |bytes: fn(&NodeLoad) -> u64| load.nodes().iter().map(bytes).sum::<u64>();
    assert_eq!(total(|node| node.up_bytes), sent, "{policy:#}");
    assert_eq!(total(|node| node.down_bytes), sent, "{policy:#}");
    assert_eq!(total(|node| node.disk_read_bytes), read, "{policy:#}");
    assert_eq!(total(|node| node.disk_write_bytes), written, "{policy:#}");
    load
}

/// No plans are faster than the bound of their own kind, where there is one.
fn check_own_bound(world: &World, batch: &Batch, policy: Policy) -> bool {
    let jobs: Vec<Job> = batch.planned(&world.jobs).map(|(job, _)| job.clone()).collect();
    let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    let load = Load::of(&world.cluster, plans);
    let own =
        own_bound_seconds(policy, &jobs, &world.view(), &load, bound_seconds(&jobs, &world.view()));
    let peak = load.max_seconds(&world.cluster);
    assert!(own.is_none_or(|own| own <= peak * (1.0 + 1e-9)), "{policy:#}: {own:?} of {peak}");
    own.is_some()
}

/// Chunks that are long enough to be cut: lanes over many ranges, trees and traces side by side.
#[test]
fn ranges_of_chunks_rebuild_the_bytes_too() {
    let mut random = Random::new(12);
    let mut cut = 0;
    for code in ["rs(3,2)", "rs(6,3)", "lrc(4,2,1)", "clay(4,2,5)"] {
        for seed in 0..2 {
            let failed = [NodeId(0), NodeId(1)];
            let lost = &failed[..=seed as usize % 2];
            let mut world = World::failed_nodes(code, 14, lost, 4, seed)
                .with_links(Links::Independent, seed)
                .with_racks(4);
            for job in &mut world.jobs {
                let unit = job.code.alignment() as u64;
                // Not even, as the last chunk of a file may be.
                job.chunk_bytes = (96 << 10) / unit * unit + unit * random.below(3);
            }
            let stripes: Vec<Chunks> =
                world.jobs.iter().map(|job| encoded(job, &mut random)).collect();
            for policy in ["suture", "flow", "trace/flow/all"] {
                let policy = policy.parse().unwrap();
                let batch = plan(policy, &world.jobs, &world.view(), seed);
                check(&world, &stripes, &batch, policy);
                cut += batch.plans.iter().filter(|plan| plan.lanes.len() > 1).count();
            }
        }
    }
    assert!(cut > 20, "{cut} plans of several lanes are few");
}

fn check(world: &World, stripes: &[Chunks], batch: &Batch, policy: Policy) {
    let node_count = world.cluster.nodes.len();
    for (job, plan) in batch.planned(&world.jobs) {
        let what = format!("{policy:#} {} {}", job.code, job.stripe);
        assert_eq!(validate(plan, &job.facts(), node_count), Ok(()), "{what}");
        assert_eq!(plan.lost, job.lost, "{what}");
        let may_keep = |node: &NodeId| world.room[node.index()] > 0 && !job.excluded.contains(node);
        assert!(plan.destinations.values().all(may_keep), "{what}");
        let chunks =
            &stripes[world.jobs.iter().position(|other| other.stripe == job.stripe).unwrap()];
        let mut readable = chunks.clone();
        readable.retain(|chunk, _| !job.lost.contains(chunk));
        for (lost, bytes) in oracle::execute(plan, &job.facts(), &readable) {
            assert_eq!(bytes, chunks[&lost], "{what}, chunk {lost}");
        }
    }
}

/// A failed node: the code, how many nodes and lost chunks, and the links.
#[derive(Clone, Copy)]
struct Case(&'static str, usize, usize, Links);

/// The busiest port over the bound.
fn ratio(policy: &str, Case(code, nodes, lost, links): Case, seed: u64) -> f64 {
    let world = World::failed_node(code, nodes, lost, seed).with_links(links, seed + 1000);
    let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), seed);
    assert_eq!(batch.refused, []);
    let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    let peak = Load::of(&world.cluster, plans).max_seconds(&world.cluster);
    peak / bound_seconds(&world.jobs, &world.view())
}

/// Compares the mean of 50 seeds with a figure that is known to within `tolerance` of it.
#[track_caller]
fn expect_mean(policy: &str, case: Case, known: f64, tolerance: f64) {
    let sum: f64 = (0..50).map(|seed| ratio(policy, case, seed)).sum();
    let mean = sum / 50.0;
    let Case(code, nodes, lost, links) = case;
    let name = links.name();
    assert!(
        (mean / known - 1.0).abs() <= tolerance,
        "{policy} {code} n={nodes} f={lost} {name}: {mean:.3}, expected {known} within {tolerance}"
    );
}

// The figures that are expected below were found by an implementation of the same papers that
// shares nothing with this one but the definition of the ratio.

#[test]
fn published_algorithms_are_as_good_as_they_should_be_on_equal_links() {
    for (policy, [six, six_50, six_100, ten, ten_100]) in [
        ("star/repairboost/all", [1.065, 1.078, 1.089, 1.200, 1.089]),
        ("ppr/repairboost/all", [1.028, 1.029, 1.039, 1.020, 1.020]),
        ("chain/repairboost/all", [1.025, 1.029, 1.023, 1.020, 1.012]),
        ("tunable/chameleon/all", [1.028, 1.029, 1.039, 1.007, 1.022]),
        ("chain/random/all", [1.228, 1.298, 1.365, 1.139, 1.255]),
    ] {
        expect_mean(policy, Case("rs(6,3)", 16, 100, Links::Equal), six, 0.03);
        expect_mean(policy, Case("rs(6,3)", 50, 500, Links::Equal), six_50, 0.03);
        expect_mean(policy, Case("rs(6,3)", 100, 1000, Links::Equal), six_100, 0.03);
        expect_mean(policy, Case("rs(10,4)", 16, 100, Links::Equal), ten, 0.03);
        expect_mean(policy, Case("rs(10,4)", 100, 1000, Links::Equal), ten_100, 0.03);
    }
}

/// What is known of LRU does not say along which trees. By stars, all figures but the last are met;
/// that one is by chains.
#[test]
fn lru_is_as_good_as_it_should_be() {
    let (star, chain) = ("star/lru/all", "chain/lru/all");
    expect_mean(star, Case("rs(6,3)", 16, 100, Links::Equal), 1.420, 0.03);
    expect_mean(star, Case("rs(6,3)", 50, 500, Links::Equal), 1.262, 0.03);
    expect_mean(star, Case("rs(6,3)", 100, 1000, Links::Equal), 1.254, 0.03);
    expect_mean(star, Case("rs(10,4)", 16, 100, Links::Equal), 1.437, 0.03);
    expect_mean(chain, Case("rs(10,4)", 100, 1000, Links::Equal), 1.267, 0.03);
}

/// Conventional repair with random destinations: a node that is drawn d times receives k d chunks,
/// so the ratio is that of the fullest of N urns to the mean, and nothing else matters.
#[test]
fn random_conventional_repair_is_a_matter_of_urns() {
    for (code, nodes, lost) in
        [("rs(6,3)", 16, 100), ("rs(6,3)", 50, 500), ("rs(6,3)", 100, 1000), ("rs(10,4)", 16, 100)]
    {
        let mut random = Random::new(9);
        let fullest = |random: &mut Random| {
            let mut urns = vec![0; nodes - 1];
            (0..lost).for_each(|_| urns[random.index(nodes - 1)] += 1);
            f64::from(*urns.iter().max().unwrap()) / (lost as f64 / (nodes - 1) as f64)
        };
        let expected = (0..2000).map(|_| fullest(&mut random)).sum::<f64>() / 2000.0;
        expect_mean("star/random/all", Case(code, nodes, lost, Links::Equal), expected, 0.05);
    }
}

#[test]
fn published_algorithms_are_as_good_as_they_should_be_on_unequal_links() {
    let independent = Case("rs(6,3)", 16, 100, Links::Independent);
    expect_mean("star/repairboost/all", independent, 1.059, 0.03);
    expect_mean("tunable/chameleon/all", independent, 1.039, 0.03);
    // The others scatter: mean, and standard deviation of a seed.
    for (policy, mean, deviation) in [
        ("ppr/repairboost/all", 1.77, 0.64),
        ("chain/repairboost/all", 2.89, 1.09),
        ("star/lru/all", 3.69, 0.94),
    ] {
        let three_errors: f64 = 3.0 * deviation / 50f64.sqrt();
        expect_mean(policy, independent, mean, three_errors / mean);
    }
    let wide = Case("rs(10,4)", 100, 1000, Links::Independent);
    expect_mean("star/repairboost/all", wide, 1.040, 0.03);
    expect_mean("tunable/chameleon/all", wide, 1.042, 0.03);
    for (policy, few, many) in [
        ("star/repairboost/all", 1.045, 1.073),
        ("ppr/repairboost/all", 1.059, 1.094),
        ("chain/repairboost/all", 1.067, 1.115),
        ("tunable/chameleon/all", 1.043, 1.073),
    ] {
        expect_mean(policy, Case("rs(6,3)", 16, 100, Links::Same), few, 0.03);
        expect_mean(policy, Case("rs(6,3)", 100, 1000, Links::Same), many, 0.03);
    }
}

fn scaled(rate: Rate, factor: f64) -> Rate {
    Rate(rate.0 * factor)
}

/// The helpers of a local repair are forced, and so is what the busiest of them sends. Everything
/// else fits beside it.
#[test]
fn local_repairs_are_bound_by_what_their_helpers_have_to_send() {
    for links in [Links::Equal, Links::Independent, Links::Same] {
        for seed in 0..20 {
            let mut world = World::failed_node("lrc(6,2,2)", 16, 120, seed).with_links(links, seed);
            world.jobs.retain(|job| job.lost[0].0 < 8);
            let batch = plan("cr".parse().unwrap(), &world.jobs, &world.view(), seed);
            let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
            let load = Load::of(&world.cluster, plans);
            let nodes = world.cluster.nodes.iter().zip(load.nodes());
            let forced = nodes.map(|(node, load)| load.up_bytes as f64 / node.uplink.0);
            let forced = forced.fold(0.0, f64::max);
            for balanced in ["repairboost+cr", "chameleon"] {
                let ratio = peak(balanced, &world) / forced;
                assert!((0.999..1.06).contains(&ratio), "{balanced} {}: {ratio}", links.name());
            }
        }
    }
}

/// What the busiest port needs.
fn peak(policy: &str, world: &World) -> f64 {
    let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!(batch.refused, []);
    let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    Load::of(&world.cluster, plans).max_seconds(&world.cluster)
}

#[test]
fn chameleon_for_storage_minds_disks_where_they_are_the_bottleneck() {
    let (mut for_links, mut for_disks) = (0.0, 0.0);
    for seed in 0..20 {
        let mut world = World::failed_node("rs(6,3)", 16, 100, seed).with_disks(seed);
        // Disks a hundred times as fast as links do not count.
        let slow: Vec<_> =
            world.cluster.nodes.iter().map(|node| (node.disk_read, node.disk_write)).collect();
        for node in &mut world.cluster.nodes {
            (node.disk_read, node.disk_write) =
                (Some(scaled(common::LINK, 100.0)), Some(scaled(common::LINK, 100.0)));
        }
        assert_eq!(peak("tunable/chameleon:io/all", &world), peak("chameleon", &world));
        for (node, (read, write)) in world.cluster.nodes.iter_mut().zip(slow) {
            (node.disk_read, node.disk_write) =
                (read.map(|rate| scaled(rate, 0.1)), write.map(|rate| scaled(rate, 0.1)));
        }
        for_links += peak("chameleon", &world);
        for_disks += peak("tunable/chameleon:io/all", &world);
    }
    assert!(for_disks < 0.5 * for_links, "{for_disks} against {for_links}");
}

/// PivotRepair, section IV-E: the requestor is the node with the most downlink bandwidth, so that
/// the requestors of many stripes are spread over the nodes.
#[test]
fn pivots_requestor_is_the_node_with_the_most_downlink() {
    for seed in 0..40 {
        let world = World::failed_node("rs(6,3)", 20, 1, seed).with_links(Links::Independent, seed);
        let batch = plan("pivot".parse().unwrap(), &world.jobs, &world.view(), seed);
        let (job, destination) = (&world.jobs[0], batch.plans[0].destinations.values().next());
        let free = world.cluster.ids().filter(|node| !job.excluded.contains(node));
        let down = |node: &NodeId| world.cluster.node(*node).downlink.0;
        let best = free.max_by(|a, b| down(a).total_cmp(&down(b)));
        assert_eq!(destination.copied(), best, "seed {seed}");
    }
    let world = World::failed_node("rs(6,3)", 20, 190, 1);
    let batch = plan("pivot/random/all".parse().unwrap(), &world.jobs, &world.view(), 1);
    let mut kept = [0; 20];
    let destinations = batch.plans.iter().flat_map(|plan| plan.destinations.values());
    destinations.for_each(|node| kept[node.index()] += 1);
    let (least, most) = (kept[1..].iter().min().unwrap(), kept.iter().max().unwrap());
    assert!(*least >= 8 && *most <= 12, "{kept:?}");
}

/// How many chunks each rack sends to the others.
fn sent_by_racks(world: &World, batch: &Batch) -> Vec<u64> {
    let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    let load = Load::of(&world.cluster, plans);
    load.racks().iter().map(|rack| rack.up_bytes / common::CHUNK_BYTES).collect()
}

/// The fewest racks beside `home` whose survivors, with those of `home`, are k: by trying all.
fn fewest_racks(world: &World, job: &Job, home: RackId) -> usize {
    let mut counts = vec![0; world.cluster.racks.len()];
    for (_, node) in &job.survivors {
        counts[world.cluster.node(*node).rack.unwrap().0 as usize] += 1;
    }
    let home = home.0 as usize;
    let reaches = |set: &u32| {
        let helps = |rack: &usize| *rack == home || set >> rack & 1 == 1;
        let sum: usize = (0..counts.len()).filter(helps).map(|rack| counts[rack]).sum();
        sum >= job.code.data_chunks()
    };
    let sets = (0..1u32 << counts.len()).filter(|set| set >> home & 1 == 0);
    sets.filter(reaches).map(|set| set.count_ones() as usize).min().unwrap()
}

#[test]
fn car_asks_as_few_racks_as_can_be_and_all_of_them_equally() {
    let mut random = Random::new(4);
    let (mut unbalanced, mut balanced) = (0.0, 0.0);
    for seed in 0..20 {
        let racks = random.between(4, 6) as usize;
        let mut world = World::failed_node("rs(6,3)", 48, 100, seed).with_racks(racks);
        let cluster = world.cluster.clone();
        let rack = |node: NodeId| cluster.node(node).rack.unwrap();
        // As the paper's placements are: the failed rack held no more than may be lost.
        world.jobs.retain(|job| {
            job.survivors.iter().filter(|(_, node)| rack(*node) == RackId(0)).count() < 3
        });
        let batch = plan("car".parse().unwrap(), &world.jobs, &world.view(), seed);
        let mut fewest = 0;
        for (job, plan) in batch.planned(&world.jobs) {
            let home = rack(plan.destinations[&job.lost[0]]);
            assert_eq!(home, RackId(0), "the failed node's rack has nodes to spare");
            let edges = plan.lanes[0].edges.iter();
            let crossing = edges.filter(|edge| rack(edge.child) != rack(edge.parent)).count();
            assert_eq!(crossing, fewest_racks(&world, job, home));
            fewest += crossing as u64;
        }
        let sent = sent_by_racks(&world, &batch);
        assert_eq!(sent.iter().sum::<u64>(), fewest);
        assert_eq!(sent[0], 0);
        // The load balancing rate: the most over the mean of the intact racks.
        let rate = |sent: &[u64]| {
            let (most, sum) = (*sent.iter().max().unwrap(), sent.iter().sum::<u64>());
            most as f64 * (sent.len() - 1) as f64 / sum as f64
        };
        balanced += rate(&sent) / 20.0;
        // Without Algorithm 2, and destinations anywhere.
        let other = plan("rack/car:random/all".parse().unwrap(), &world.jobs, &world.view(), seed);
        let other = sent_by_racks(&world, &other);
        assert_eq!(other.iter().sum::<u64>(), fewest);
        unbalanced += rate(&other) / 20.0;
        // The baseline sends every chunk by itself.
        let baseline =
            plan("star/car:random/all".parse().unwrap(), &world.jobs, &world.view(), seed);
        let baseline = sent_by_racks(&world, &baseline);
        assert!(baseline.iter().sum::<u64>() > fewest * 3 / 2);
    }
    assert!(balanced < 1.03 && unbalanced > balanced, "{balanced} {unbalanced}");
}

/// Algorithm 2 moves one stripe from one rack to another in each of its iterations.
#[test]
fn car_evens_out_racks_one_iteration_after_the_other() {
    let mut made = 0;
    for seed in 0..10 {
        let world = World::failed_node("rs(6,3)", 48, 100, seed).with_racks(5);
        let sent = |balance: &str| {
            let policy = format!("rack/{balance}/all").parse().unwrap();
            sent_by_racks(&world, &plan(policy, &world.jobs, &world.view(), seed))
        };
        let mut before = sent("car:0");
        assert_eq!(before, sent("car:random"), "the racks of Theorem 1 alone");
        for iterations in 1..=100 {
            let now = sent(&format!("car:{iterations}"));
            let apart: u64 = before.iter().zip(&now).map(|(a, b)| a.abs_diff(*b)).sum();
            if apart == 0 {
                break;
            }
            assert!(apart == 2 && now.iter().max() <= before.iter().max(), "{before:?} {now:?}");
            (before, made) = (now, made + 1);
        }
        assert_eq!(before, sent("car"), "as many as change something");
        assert_eq!(before, sent("car:100"));
    }
    assert!(made > 20, "{made} iterations are few");
}

#[test]
fn car_finds_another_rack_when_the_failed_one_is_full() {
    let mut world = World::failed_node("rs(6,3)", 24, 30, 2).with_racks(4);
    let failed_rack = world.cluster.node(NodeId(0)).rack;
    for node in world.cluster.ids() {
        if world.cluster.node(node).rack == failed_rack {
            world.room[node.index()] = 0;
        }
    }
    let batch = plan("car".parse().unwrap(), &world.jobs, &world.view(), 2);
    assert_eq!(batch.refused, []);
    for (job, plan) in batch.planned(&world.jobs) {
        let home = world.cluster.node(plan.destinations[&job.lost[0]]).rack;
        let mates = job.survivors.iter().filter(|(_, node)| world.cluster.node(*node).rack == home);
        assert!(home != failed_rack && mates.count() < job.code.loss_tolerance());
    }
}

#[track_caller]
fn check_refusal(world: &World, policy: &str, message: &str) {
    let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!((batch.plans.len(), batch.refused.len()), (0, world.jobs.len()));
    let found = batch.refused[0].1.to_string();
    assert!(found.contains(message), "{policy}: {found}");
}

#[test]
fn input_that_cannot_be_planned_is_refused_with_the_name_of_what_is_wrong() {
    let world = || World::failed_node("rs(6,3)", 16, 1, 1);
    check_refusal(&world(), "car", "'rack' needs racks, and the cluster has none");
    check_refusal(&world(), "star/car/all", "'car' needs racks");
    let mut partly = world().with_racks(3);
    partly.cluster.nodes[7].rack = None;
    check_refusal(&partly, "car", "the node 'n7' is in none");
    check_refusal(&world(), "tunable/chameleon:io/all", "the node 'n1'; give its rates");

    let mut dead = world();
    dead.cluster.nodes[3].downlink = Rate(-1.0);
    check_refusal(&dead, "cr", "the downlink of the node 'n3' has a bandwidth below zero");
    dead.cluster.nodes[3].uplink = Rate(f64::NAN);
    check_refusal(&dead, "suture", "the uplink of the node 'n3' has a bandwidth below zero");

    let mut stray = world();
    stray.jobs[0].survivors[2].1 = NodeId(16);
    let chunk = stray.jobs[0].survivors[2].0;
    let message = format!("chunk {chunk} is on node number 16, and the cluster has 16 nodes");
    check_refusal(&stray, "rp", &message);
    let mut shared = world();
    shared.jobs[0].survivors[2].1 = shared.jobs[0].survivors[0].1;
    check_refusal(&shared, "repairboost+cr", "a stripe uses each node once");

    let wide = World::failed_node("rs(12,4)", 18, 1, 1);
    check_refusal(&wide, "ppt", "615195490 with 12 of 15 survivors");
    let butterfly = World::failed_node("butterfly(4)", 16, 1, 1);
    check_refusal(&butterfly, "pivot", "butterfly(4) does not have; use star or mix");
}

#[test]
fn a_link_that_applications_fill_is_slow_and_not_refused() {
    let mut world = World::failed_node("rs(6,3)", 16, 20, 1).with_racks(4).with_disks(1);
    world.cluster.nodes[4].uplink = Rate(0.0);
    world.cluster.nodes[5].foreground_uplink = world.cluster.nodes[5].uplink;
    world.cluster.nodes[6].foreground_downlink = Rate(world.cluster.nodes[6].downlink.0 * 2.0);
    for policy in plannable() {
        let batch = plan(policy, &world.jobs, &world.view(), 1);
        assert_eq!(batch.refused, [], "{policy:#}");
    }
}
