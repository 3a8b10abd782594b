//! One chunk over many trees: as fast as any trees, by three oracles.

use crate::common::{CHUNK_BYTES, LINK, World};
use crate::lp::LinearProgram;
use suture_code::execute::run_naively;
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;
use suture_repair::oracle::{self, Chunks};
use suture_repair::plan::Plan;
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::plan;
use suture_repair::random::Random;

/// Links in chunks per second: the destination's downlink, and each survivor's (uplink, downlink).
struct Links {
    helpers: usize,
    root: f64,
    survivors: Vec<(f64, f64)>,
    /// The same of nodes without a chunk that may relay.
    relays: Vec<(f64, f64)>,
}

/// How the links of a test are drawn.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Uniform,
    Alike,
    Congested,
    Equal,
}

/// A stripe that lost a chunk, and one node that may keep it.
fn world(code: &str, draw: Draw, seed: u64) -> World {
    let mut random = Random::new(seed);
    let mut world = World::failed_node(code, 24, 1, random.next_u64());
    let root = world.cluster.ids().skip(1).find(|node| !world.jobs[0].excluded.contains(node));
    for node in world.cluster.ids() {
        world.room[node.index()] = if Some(node) == root { u64::MAX } else { 0 };
    }
    for node in &mut world.cluster.nodes {
        let mut rate = || match draw {
            Draw::Uniform | Draw::Alike => 1.0 + 9.0 * random.unit(),
            Draw::Congested if random.per_mille(500) => 1.0 / (5.0 + 15.0 * random.unit()),
            Draw::Congested | Draw::Equal => 1.0,
        };
        let (up, down) = (rate(), rate());
        node.uplink = Rate(LINK.0 * up);
        node.downlink = if let Draw::Alike = draw { node.uplink } else { Rate(LINK.0 * down) };
    }
    world
}

fn links_to(world: &World, root: NodeId) -> Links {
    let job = &world.jobs[0];
    let chunks = |rate: Rate| rate.0 / CHUNK_BYTES as f64;
    let node = |node: &NodeId| world.cluster.node(*node);
    let pair = |id: &NodeId| (chunks(node(id).uplink), chunks(node(id).downlink));
    let others = world.cluster.ids().filter(|node| *node != root && is_free(world, *node));
    Links {
        helpers: job.code.data_chunks(),
        root: chunks(node(&root).downlink),
        survivors: job.survivors.iter().map(|(_, node)| pair(node)).collect(),
        relays: others.map(|node| pair(&node)).collect(),
    }
}

/// Whether a node may keep the chunk, or relay it.
fn is_free(world: &World, node: NodeId) -> bool {
    world.room[node.index()] > 0 && !world.jobs[0].excluded.contains(&node)
}

/// The links for the only node that may keep the chunk.
fn links(world: &World) -> Links {
    links_to(world, world.cluster.ids().find(|node| is_free(world, *node)).unwrap())
}

fn split(world: &World) -> Plan {
    let batch = plan("flow".parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!(batch.refused, []);
    let facts = world.jobs[0].facts();
    assert_eq!(validate(&batch.plans[0], &facts, world.cluster.nodes.len()), Ok(()));
    batch.plans[0].clone()
}

/// Chunks per second of the plan.
fn rate(world: &World, plan: &Plan) -> f64 {
    1.0 / Load::of(&world.cluster, [(plan, world.jobs[0].facts())]).max_seconds(&world.cluster)
}

/// The greatest rate that passes a test which only lower rates pass.
fn greatest(passes: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if passes(middle) { low = middle } else { high = middle }
    }
    low
}

/// The best rate of any number of trees, by the three conditions.
fn best_split(links: &Links) -> f64 {
    let k = links.helpers as f64;
    greatest(|rate| {
        let survivors = || links.survivors.iter();
        let sent: f64 = survivors().map(|(up, _)| up.min(rate)).sum();
        let joined: f64 = survivors().map(|(up, down)| (down / (k - 1.0)).min(*up).min(rate)).sum();
        let direct = rate.min((links.root - rate) / (k - 1.0));
        let relayed = links.relays.iter().map(|(up, down)| (down / k).min(*up).min(rate));
        let joined = joined + relayed.sum::<f64>();
        sent >= k * rate && links.root >= rate && joined + direct >= rate
    })
}

/// The best rate of a single tree: k helpers that send at the rate, and enough places to add up.
fn best_tree(links: &Links) -> f64 {
    greatest(|rate| {
        let able = links.survivors.iter().filter(|(up, _)| *up >= rate);
        let mut places: Vec<f64> = able.map(|(_, down)| (down / rate).floor()).collect();
        places.sort_by(|a, b| b.total_cmp(a));
        places.truncate(links.helpers);
        let at_root = (links.root / rate).floor();
        let all = at_root + places.iter().sum::<f64>();
        places.len() == links.helpers && at_root >= 1.0 && all >= links.helpers as f64
    })
}

/// The best rate over all trees of depth two, every one a column.
fn best_by_columns(links: &Links) -> f64 {
    let count = links.survivors.len();
    let mut program = LinearProgram::default();
    let (mut up, mut down) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    let relays = links.relays.len();
    let (mut relay_up, mut relay_down) = (vec![Vec::new(); relays], vec![Vec::new(); relays]);
    let mut at_root = Vec::new();
    for set in 0..1u32 << count {
        if set.count_ones() as usize != links.helpers {
            continue;
        }
        let members: Vec<usize> = (0..count).filter(|helper| set >> helper & 1 == 1).collect();
        for relay in members.iter().copied().map(Some).chain([None]) {
            let rate = program.variable(-1.0);
            members.iter().for_each(|&helper| up[helper].push((rate, 1.0)));
            let others = links.helpers as f64 - 1.0;
            if let Some(relay) = relay {
                down[relay].push((rate, others));
            }
            at_root.push((rate, if relay.is_some() { 1.0 } else { links.helpers as f64 }));
        }
        for relay in 0..relays {
            let rate = program.variable(-1.0);
            members.iter().for_each(|&helper| up[helper].push((rate, 1.0)));
            relay_up[relay].push((rate, 1.0));
            relay_down[relay].push((rate, links.helpers as f64));
            at_root.push((rate, 1.0));
        }
    }
    for ((up, down), (most_up, most_down)) in
        relay_up.into_iter().zip(relay_down).zip(&links.relays)
    {
        program.at_most(up, *most_up);
        program.at_most(down, *most_down);
    }
    for ((up, down), (most_up, most_down)) in up.into_iter().zip(down).zip(&links.survivors) {
        program.at_most(up, *most_up);
        program.at_most(down, *most_down);
    }
    program.at_most(at_root, links.root);
    -program.solve()
}

const DRAWS: [Draw; 4] = [Draw::Uniform, Draw::Alike, Draw::Congested, Draw::Equal];

#[test]
fn a_split_chunk_is_as_fast_as_any_trees() {
    for code in ["rs(4,2)", "rs(6,3)", "rs(10,4)", "rs(2,2)"] {
        for draw in DRAWS {
            for seed in 0..60 {
                let world = world(code, draw, seed);
                let (found, best) = (rate(&world, &split(&world)), best_split(&links(&world)));
                assert!(found >= 0.99 * best, "{code} {draw:?} {seed}: {found} {best}");
                assert!(found <= best * (1.0 + 1e-6), "{code} {draw:?} {seed}: {found} {best}");
            }
        }
    }
}

#[test]
fn the_conditions_are_those_of_all_trees_of_depth_two() {
    for code in ["rs(3,2)", "rs(4,2)", "rs(4,3)"] {
        for seed in 0..10 {
            for world in [world(code, Draw::Uniform, seed), world_with_relays(code, seed)] {
                let links = links(&world);
                let (conditions, columns) = (best_split(&links), best_by_columns(&links));
                assert!((conditions - columns).abs() < 1e-4 * columns, "{conditions} {columns}");
            }
        }
    }
}

/// The same stripe where some other nodes are free as well; equal uplinks, so that what helpers
/// receive is scarce.
fn world_with_relays(code: &str, seed: u64) -> World {
    let mut world = world(code, Draw::Uniform, seed);
    world.room[18..].fill(u64::MAX);
    if seed.is_multiple_of(2) {
        world.cluster.nodes.iter_mut().for_each(|node| node.uplink = Rate(10.0 * LINK.0));
    }
    world
}

#[test]
fn nodes_without_a_chunk_relay_where_the_chunk_is_rebuilt_sooner_for_it() {
    let mut relayed = 0;
    for code in ["rs(2,1)", "rs(2,2)", "rs(4,2)", "rs(6,3)", "rs(10,4)"] {
        for seed in 0..60 {
            let world = world_with_relays(code, seed);
            let plan = split(&world);
            let roots = || world.cluster.ids().filter(|node| is_free(&world, *node));
            let best = roots().map(|root| best_split(&links_to(&world, root))).fold(0.0, f64::max);
            let found = rate(&world, &plan);
            assert!(found >= 0.98 * best, "{code} {seed}: {found} {best}");
            assert!(found <= best * (1.0 + 1e-6), "{code} {seed}: {found} {best}");
            let is_relay = |node| roots().any(|free| free == node);
            let mut edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
            relayed += usize::from(edges.any(|edge| is_relay(edge.child)));
        }
    }
    assert!((20..280).contains(&relayed), "{relayed}");
}

#[test]
fn a_helper_that_hardly_receives_anything_relays_only_what_no_other_node_can() {
    let receives_at_all = |world: &World, slow: &[NodeId]| {
        let plan = split(world);
        assert!(rate(world, &plan) > 0.98 * best_split(&links(world)));
        let edges = plan.lanes.iter().flat_map(|lane| &lane.edges);
        edges.filter(|edge| slow.contains(&edge.parent)).count() > 0
    };
    for seed in 0..20 {
        let mut world = world("rs(6,3)", Draw::Equal, seed);
        let survivors = world.jobs[0].survivors.clone();
        let slow: Vec<NodeId> = survivors.iter().skip(2).map(|(_, node)| *node).collect();
        for node in &slow {
            world.cluster.nodes[node.index()].downlink = Rate(LINK.0 / 20.0);
        }
        // Without other nodes they do what they can.
        assert!(receives_at_all(&world, &slow));
        world.room.fill(u64::MAX);
        assert!(!receives_at_all(&world, &slow));
    }
}

#[test]
fn many_trees_beat_the_best_one_by_a_third() {
    for (code, least) in [("rs(6,3)", 1.3), ("rs(8,4)", 1.3), ("rs(10,4)", 1.3)] {
        let gain = |seed: u64| {
            let world = world(code, Draw::Uniform, seed);
            rate(&world, &split(&world)) / best_tree(&links(&world))
        };
        let mean = (0..200).map(gain).sum::<f64>() / 200.0;
        assert!(mean >= least, "{code}: {mean}");
    }
}

#[test]
fn where_one_tree_is_as_good_there_is_one() {
    for code in ["rs(2,1)", "rs(6,3)", "rs(10,4)"] {
        let world = world(code, Draw::Equal, 1);
        let plan = split(&world);
        assert_eq!(plan.lanes.len(), 1, "{code}");
        assert!((rate(&world, &plan) - 1.0).abs() < 1e-9);
    }
    let lanes = |seed| split(&world("rs(10,4)", Draw::Uniform, seed)).lanes.len();
    assert!((0..50).map(lanes).sum::<usize>() / 50 < 25);
}

#[test]
fn a_split_chunk_has_the_right_bytes_at_any_length() {
    let mut random = Random::new(9);
    for (chunk_bytes, seed) in [1, 64, 1000, 4096, 50_001, 300_000].into_iter().zip(0..) {
        let mut world = world_with_relays("rs(6,3)", seed);
        world.jobs[0].chunk_bytes = chunk_bytes;
        let job = &world.jobs[0];
        let mut data = vec![vec![0; chunk_bytes as usize]; 6];
        data.iter_mut().for_each(|chunk| random.fill(chunk));
        let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let encoding = job.code.code().encode_dag();
        let parity = run_naively(&encoding, &sources, chunk_bytes as usize);
        let chunks: Chunks = job.code.chunks().zip(data.into_iter().chain(parity)).collect();
        let rebuilt = oracle::execute(&split(&world), &job.facts(), &chunks);
        assert_eq!(rebuilt[&job.lost[0]], chunks[&job.lost[0]], "{chunk_bytes}");
    }
}

#[test]
fn helpers_that_are_needed_help() {
    for seed in 0..20 {
        let mut world = world("rs(6,3)", Draw::Uniform, seed);
        world.jobs[0].survivors.truncate(6);
        let plan = split(&world);
        assert!(rate(&world, &plan) >= 0.99 * best_split(&links(&world)));
        let local = self::world("lrc(6,2,2)", Draw::Uniform, seed);
        split(&local);
    }
}
