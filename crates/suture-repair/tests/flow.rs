//! The flow planner: near the bound whatever is scarce, chunks whole where that costs nothing.

use crate::common::{self, LINK, World};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::{Core, Node, Rate};
use suture_repair::id::{NodeId, RackId};
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::{Abilities, Batch, plan};
use suture_repair::random::Random;

/// Links of a case: all equal; uplink and downlink apart, or alike, uniform in 1..10.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Links {
    Equal,
    Apart,
    Alike,
}

fn world(links: Links, nodes: usize, lost: usize, code: &str, seed: u64) -> World {
    let mut world = World::failed_node(code, nodes, lost, seed);
    let mut random = Random::new(seed + 1000);
    let mut draw = || Rate(LINK.0 * (1.0 + 9.0 * random.unit()));
    for node in world.cluster.nodes.iter_mut().filter(|_| links != Links::Equal) {
        node.uplink = draw();
        node.downlink = if links == Links::Alike { node.uplink } else { draw() };
    }
    world
}

fn flow(world: &World) -> Batch {
    let batch = plan("flow".parse().unwrap(), &world.jobs, &world.view(), 1);
    assert_eq!(batch.refused, []);
    for (job, plan) in batch.planned(&world.jobs) {
        assert_eq!(validate(plan, &job.facts(), world.cluster.nodes.len()), Ok(()));
    }
    batch
}

fn load(world: &World, batch: &Batch) -> Load {
    Load::of(&world.cluster, batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts())))
}

/// The busiest port over the bound.
fn ratio(world: &World) -> f64 {
    let peak = load(world, &flow(world)).max_seconds(&world.cluster);
    peak / bound_seconds(&world.jobs, &world.view())
}

#[test]
fn every_case_of_the_table_is_at_the_bound() {
    let cases = [
        (Links::Equal, 16, 100, "rs(6,3)"),
        (Links::Equal, 50, 500, "rs(6,3)"),
        (Links::Equal, 100, 1000, "rs(6,3)"),
        (Links::Equal, 16, 100, "rs(10,4)"),
        (Links::Equal, 100, 1000, "rs(10,4)"),
        (Links::Apart, 16, 100, "rs(6,3)"),
        (Links::Apart, 50, 500, "rs(6,3)"),
        (Links::Apart, 100, 1000, "rs(10,4)"),
        (Links::Alike, 16, 100, "rs(6,3)"),
        (Links::Alike, 100, 1000, "rs(6,3)"),
        (Links::Equal, 16, 100, "lrc(6,2,2)"),
        (Links::Apart, 100, 1000, "lrc(6,2,2)"),
        // Two chunks for each node: rounding alone would cost five per cent.
        (Links::Equal, 501, 1000, "rs(6,3)"),
        (Links::Apart, 501, 1000, "rs(6,3)"),
    ];
    let mut all = Vec::new();
    for (links, nodes, lost, code) in cases {
        let ratios: Vec<f64> =
            (0..3).map(|seed| ratio(&world(links, nodes, lost, code, seed))).collect();
        // Which chunks are best rebuilt around their slow groups, the bound does not know so well.
        let (limit, is_exact) = if links == Links::Apart && code.starts_with("lrc") {
            (1.35, false)
        } else {
            (1.02, true)
        };
        let what = format!("{links:?} {nodes} {lost} {code}: {ratios:?}");
        assert!(ratios.iter().all(|ratio| *ratio <= limit), "{what}");
        all.extend(ratios.into_iter().filter(|_| is_exact));
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    assert!(mean <= 1.002, "{mean}");
}

#[test]
fn a_few_chunks_are_balanced_by_their_lanes() {
    for links in [Links::Equal, Links::Apart, Links::Alike] {
        for (nodes, code) in [(16, "rs(6,3)"), (50, "rs(4,2)"), (100, "rs(4,2)")] {
            for lost in [2, 5, 10, 20] {
                let ratio = |seed| ratio(&world(links, nodes, lost, code, seed));
                let ratios: Vec<f64> = (0..5).map(ratio).collect();
                let what = format!("{links:?} {nodes} {lost} {code}: {ratios:?}");
                assert!(ratios.iter().all(|ratio| *ratio <= 1.02), "{what}");
                assert!(ratios.iter().sum::<f64>() / 5.0 <= 1.005, "{what}");
            }
        }
    }
}

/// What makes something scarce: a change of the node of that index.
type Change = fn(usize, &mut Node);

#[test]
fn whatever_is_scarce_is_balanced() {
    fn part(index: usize) -> f64 {
        0.01 * (index * 37 % 19) as f64
    }
    let scarce: [(&str, Change); 6] = [
        ("reads", |i, node| node.disk_read = Some(Rate(LINK.0 * (0.2 + part(i))))),
        ("writes", |i, node| node.disk_write = Some(Rate(LINK.0 * (0.1 + part(i))))),
        ("downlinks", |_, node| node.downlink.0 *= 0.3),
        ("some downlinks", |i, node| node.downlink.0 *= 0.1 * (1 + i % 7) as f64),
        ("most downlinks", |i, node| node.downlink.0 *= if i % 3 > 0 { 0.05 } else { 1.0 }),
        ("four uplinks", |i, node| node.uplink.0 *= if i < 4 { 0.01 } else { 1.0 }),
    ];
    let sizes =
        [(10, 40, "rs(6,3)"), (12, 60, "rs(6,3)"), (50, 500, "rs(6,3)"), (60, 400, "rs(10,4)")];
    for (what, change) in scarce {
        for (nodes, lost, code) in sizes {
            for links in [Links::Equal, Links::Apart] {
                let mut world = world(links, nodes, lost, code, 5);
                let nodes = world.cluster.nodes.iter_mut().enumerate();
                nodes.for_each(|(index, node)| change(index, node));
                let ratio = ratio(&world);
                assert!(ratio <= 1.02, "{what}, {links:?}, {lost} {code}: {ratio}");
            }
        }
    }
}

#[test]
fn codes_with_sub_chunks_and_several_losses_are_gathered_evenly() {
    for (code, limit) in [("clay(4,2,5)", 1.02), ("clay(6,3,7)", 1.04)] {
        for links in [Links::Equal, Links::Apart] {
            let ratio = ratio(&world(links, 16, 100, code, 2));
            assert!(ratio <= limit, "{code} {links:?}: {ratio}");
        }
    }
    for (code, limit) in [("rs(6,3)", 1.01), ("rs(10,4)", 1.01), ("lrc(6,2,2)", 1.07)] {
        for links in [common::Links::Equal, common::Links::Independent] {
            let world = World::failed_nodes(code, 16, &[NodeId(0), NodeId(1)], 100, 3);
            assert!(world.jobs.iter().any(|job| job.lost.len() == 2));
            let world = world.with_links(links, 3);
            assert!(ratio(&world) <= limit, "{code} {}: {}", links.name(), ratio(&world));
        }
    }
}

#[test]
fn chunks_stay_whole_where_nothing_is_gained_by_cutting_them() {
    // 100 chunks of 6 on 15 nodes: 40 each.
    let whole = world(Links::Equal, 16, 100, "rs(6,3)", 1);
    assert!(flow(&whole).plans.iter().all(|plan| plan.lanes.len() == 1));
    let large = world(Links::Equal, 100, 2000, "rs(10,4)", 1);
    let cut = flow(&large).plans.iter().filter(|plan| plan.lanes.len() > 1).count();
    assert!(cut < 200, "{cut}");
}

#[test]
fn short_chunks_and_chunks_of_many_lengths_are_planned() {
    for lengths in [&[1u64, 63, 64, 65][..], &[1000, 70_000, 5_000_000], &[3 << 40, 1 << 30]] {
        let mut world = world(Links::Apart, 16, 60, "rs(6,3)", 4);
        let jobs = world.jobs.iter_mut().enumerate();
        jobs.for_each(|(index, job)| job.chunk_bytes = lengths[index % lengths.len()]);
        let ratio = ratio(&world);
        let limit = if lengths[0] == 1 { 1.3 } else { 1.02 };
        assert!(ratio <= limit, "{lengths:?}: {ratio}");
    }
}

#[test]
fn what_already_runs_is_a_part_of_the_balance() {
    let mut world = world(Links::Equal, 30, 200, "rs(6,3)", 3);
    let running = World::failed_node("rs(6,3)", 30, 200, 8);
    let batch = plan("ppr".parse().unwrap(), &running.jobs, &running.view(), 1);
    for (job, plan) in batch.planned(&running.jobs) {
        world.load.add(&world.cluster, plan, &job.facts());
    }
    let mut total = load(&world, &flow(&world));
    total.add_load(&world.load);
    let ports = || world.cluster.nodes[1..].iter();
    let sum = |bytes: u64, rates: f64| bytes as f64 / rates;
    let (up, down) = total
        .nodes()
        .iter()
        .fold((0, 0), |(up, down), node| (up + node.up_bytes, down + node.down_bytes));
    let least = sum(up, ports().map(|n| n.uplink.0).sum())
        .max(sum(down, ports().map(|n| n.downlink.0).sum()));
    let running = world.load.max_seconds(&world.cluster);
    let peak = total.max_seconds(&world.cluster);
    assert!(peak <= 1.01 * least.max(running), "{peak} {least} {running}");
}

#[test]
fn dead_and_crawling_links_are_used_only_when_nothing_else_will_do() {
    let mut world = world(Links::Equal, 20, 100, "rs(6,3)", 3);
    world.cluster.nodes[4].uplink = Rate(0.0);
    world.cluster.nodes[5].downlink = Rate(0.0);
    world.cluster.nodes[6].uplink = Rate(1.0);
    // What applications take may be more than there is.
    world.cluster.nodes[7].foreground_downlink = Rate(LINK.0 * 2.0);
    let load = load(&world, &flow(&world));
    assert_eq!([4, 6].map(|node| load.node(NodeId(node)).up_bytes), [0; 2]);
    assert_eq!([5, 7].map(|node| load.node(NodeId(node)).down_bytes), [0; 2]);
    assert!(load.max_seconds(&world.cluster) < 1.02 * 600.0 / 17.0);

    // Now all survivors of the first stripe must send; all others stay balanced.
    let job = &mut world.jobs[0];
    job.survivors.truncate(6);
    let forced = job.survivors[0].1;
    world.cluster.nodes[forced.index()].uplink = Rate(0.0);
    let after = self::load(&world, &flow(&world));
    assert_eq!(after.node(forced).up_bytes, common::CHUNK_BYTES);
    for node in world.cluster.ids().filter(|node| *node != forced) {
        assert!(after.node(node).up_bytes < 50 * common::CHUNK_BYTES, "{node}");
    }
}

#[test]
fn no_rack_keeps_more_of_a_stripe_than_may_be_lost() {
    let mut world = world(Links::Equal, 20, 200, "rs(4,2)", 3);
    world.cluster.racks = (0..5).map(|rack| format!("r{rack}")).collect();
    for (index, node) in world.cluster.nodes.iter_mut().enumerate() {
        node.rack = Some(RackId(index as u32 % 5));
    }
    world.load = Load::new(&world.cluster);
    let rack = |node: &NodeId| world.cluster.node(*node).rack;
    for (job, plan) in flow(&world).planned(&world.jobs) {
        for destination in plan.destinations.values() {
            let held =
                job.survivors.iter().filter(|(_, node)| rack(node) == rack(destination)).count();
            let full = |index: u32| {
                let held = |(_, node): &&(_, NodeId)| rack(node) == Some(RackId(index));
                job.survivors.iter().filter(held).count() >= 2
            };
            assert!(held < 2 || (0..5).all(full), "{}", job.stripe);
        }
    }
}

#[test]
fn what_agents_cannot_execute_is_not_planned() {
    let mut world = World::failed_nodes("rs(6,3)", 16, &[NodeId(0), NodeId(1)], 60, 4);
    world.abilities = Abilities::PARTIAL;
    for (job, plan) in flow(&world).planned(&world.jobs) {
        assert_eq!(plan.lost, job.lost[..1]);
        assert!(plan.lanes.iter().all(|lane| lane.decoder.is_none()));
    }
    // Without finished chunks only the destination decodes.
    let mut world = World::failed_node("clay(4,2,5)", 16, 30, 4);
    world.abilities = Abilities { finished: false, ..Abilities::ALL };
    for (_, plan) in flow(&world).planned(&world.jobs) {
        let home = plan.destinations.values().next().copied();
        assert!(plan.lanes.iter().all(|lane| lane.decoder == home));
    }
}

#[test]
fn a_scarce_core_is_crossed_as_seldom_as_it_can_be() {
    // Nodes a rack, racks, how much more the nodes of a rack send than the core takes, code.
    let cases = [
        (6, 5, 5.0, "rs(6,3)"),
        (8, 8, 10.0, "rs(6,3)"),
        (5, 6, 5.0, "rs(10,4)"),
        (3, 5, 1.5, "rs(6,3)"),
    ];
    for (nodes, racks, oversubscription, code) in cases {
        let mut world = World::failed_node(code, nodes * racks, 120, 3).with_racks(racks);
        let rate = Rate(LINK.0 * nodes as f64 / oversubscription);
        world.cluster.core = Some(Core { rack_uplink: rate, rack_downlink: rate });
        world.load = Load::new(&world.cluster);
        let ratio = ratio(&world);
        assert!(ratio <= 1.08, "{nodes} x {racks} {code}: {ratio}");
        let chains = plan("chain/greedy/all".parse().unwrap(), &world.jobs, &world.view(), 1);
        let chains = load(&world, &chains).max_seconds(&world.cluster);
        let bound = bound_seconds(&world.jobs, &world.view());
        assert!(oversubscription < 2.0 || chains > 1.5 * bound, "{chains} of {bound}");
    }
}
