//! Where rebuilt chunks go, whatever the policy: never beyond a node's room, and never so many of a
//! stripe into one rack that losing it loses the stripe, where that can be had.

use std::collections::BTreeMap;

use crate::common::{CHUNK_BYTES, LINK, Links, World};
use suture_repair::cluster::{Cluster, Core, Rate};
use suture_repair::id::{NodeId, RackId};
use suture_repair::plan::Plan;
use suture_repair::plan::load::Load;
use suture_repair::plan::validate::validate;
use suture_repair::planner::{Batch, Job, PlanError, plan};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

/// Every preset, and what has none.
fn policies() -> impl Iterator<Item = Policy> {
    let presets = Policy::presets().map(|(_, policy)| policy);
    let others = ["chain/greedy/all", "star/lru/all", "trace/flow/all", "mix/greedy/all"];
    presets.chain(others.into_iter().map(|text| text.parse().unwrap()))
}

/// How many chunks of a stripe each rack holds, with those that a plan brings.
fn held(cluster: &Cluster, job: &Job, plan: Option<&Plan>) -> BTreeMap<RackId, usize> {
    let kept = plan.into_iter().flat_map(|plan| plan.destinations.values());
    let nodes = job.survivors.iter().map(|(_, node)| node).chain(kept);
    let mut counts = BTreeMap::new();
    nodes.for_each(|node| *counts.entry(cluster.node(*node).rack.unwrap()).or_default() += 1);
    counts
}

/// How many chunks racks could take without holding more than the code can lose.
fn places(world: &World, job: &Job) -> usize {
    let held = held(&world.cluster, job, None);
    let mut free: BTreeMap<RackId, usize> = BTreeMap::new();
    for node in world.cluster.ids() {
        let is_holder = job.survivors.iter().any(|(_, holder)| *holder == node);
        let is_free = world.room[node.index()] >= job.chunk_bytes && !is_holder;
        if is_free && !job.excluded.contains(&node) {
            *free.entry(world.cluster.node(node).rack.unwrap()).or_default() += 1;
        }
    }
    let tolerance = job.code.loss_tolerance();
    let left = |rack: &RackId| tolerance.saturating_sub(held.get(rack).copied().unwrap_or(0));
    free.iter().map(|(rack, nodes)| (*nodes).min(left(rack))).sum()
}

#[test]
fn no_rack_gets_more_of_a_stripe_than_may_be_lost_where_racks_permit_it() {
    let mut random = Random::new(3);
    let (mut permitted, mut several) = (0, 0);
    for seed in 0..24 {
        let code = *random.choose(&["rs(6,3)", "rs(3,2)", "rs(4,4)", "lrc(4,2,2)", "rs(2,1)"]);
        let failed = [NodeId(0), NodeId(1)];
        let failed = &failed[..random.between(1, if code == "rs(2,1)" { 1 } else { 2 }) as usize];
        let nodes = random.between(14, 26) as usize;
        let mut world = World::failed_nodes(code, nodes, failed, 30, seed)
            .with_links(*random.choose(&[Links::Equal, Links::Same]), seed)
            .with_racks(random.between(2, 7) as usize);
        if random.per_mille(400) {
            let rack = Rate(random.between(1, 4) as f64 * LINK.0);
            world.cluster.core = Some(Core { rack_uplink: rack, rack_downlink: rack });
        }
        for node in 2..world.room.len() {
            world.room[node] = if random.per_mille(200) { 0 } else { u64::MAX };
        }
        for policy in policies() {
            let batch = plan(policy, &world.jobs, &world.view(), seed);
            for (job, plan) in batch.planned(&world.jobs) {
                if places(&world, job) < plan.lost.len() {
                    continue;
                }
                let before = held(&world.cluster, job, None);
                let tolerance = job.code.loss_tolerance();
                for (rack, count) in held(&world.cluster, job, Some(plan)) {
                    let before = before.get(&rack).copied().unwrap_or(0);
                    assert!(
                        count <= tolerance.max(before),
                        "{policy:#} {code} seed {seed} {}: rack {} has {count}",
                        job.stripe,
                        rack.0
                    );
                }
                permitted += 1;
                several += usize::from(plan.lost.len() > 1);
            }
        }
    }
    assert!(permitted > 2000 && several > 200, "{permitted} and {several} of several are few");
}

#[test]
fn a_rack_without_any_gets_no_more_than_may_be_lost_of_stripes_that_lost_more() {
    // A local code may rebuild more chunks than it tolerates losses of any kind. The first racks
    // hold what is left of every stripe, the last rack none.
    let failed = [0, 1, 2, 3].map(NodeId);
    let mut world = World::failed_nodes("lrc(4,2,2)", 16, &failed, 200, 5);
    world.cluster.racks = ["a", "b", "c"].map(String::from).to_vec();
    for (node, id) in world.cluster.nodes.iter_mut().zip(0..) {
        node.rack = Some(RackId(if id < 10 { id % 2 } else { 2 }));
    }
    world.load = Load::new(&world.cluster);
    world.jobs.retain(|job| job.lost.len() == 4);
    for (job, first) in world.jobs.iter_mut().zip(0..) {
        let holders = (first..).map(|node| NodeId(4 + node % 6));
        job.survivors.iter_mut().zip(holders).for_each(|((_, holder), node)| *holder = node);
        job.excluded.clear();
    }
    let mut many = 0;
    for policy in policies() {
        let batch = plan(policy, &world.jobs, &world.view(), 5);
        for (job, plan) in batch.planned(&world.jobs) {
            if places(&world, job) >= plan.lost.len() {
                let most = *held(&world.cluster, job, Some(plan)).values().max().unwrap();
                let before = *held(&world.cluster, job, None).values().max().unwrap();
                assert!(most <= before.max(3), "{policy:#} {}: {most} in a rack", job.stripe);
                many += 1;
            }
        }
    }
    assert!(many > 20, "{many} are few");
}

#[test]
fn where_racks_have_places_for_some_chunks_only_these_are_used() {
    // Racks a and b hold as much as may be lost, and have nodes for more; rack c has one node.
    let failed = [4, 5].map(NodeId);
    let mut world = World::failed_nodes("rs(4,2)", 11, &failed, 200, 5);
    world.cluster.racks = ["a", "b", "c", "d"].map(String::from).to_vec();
    let racks = [0, 0, 1, 1, 3, 3, 0, 0, 1, 1, 2].map(RackId);
    let nodes = world.cluster.nodes.iter_mut().zip(racks);
    nodes.for_each(|(node, rack)| node.rack = Some(rack));
    world.load = Load::new(&world.cluster);
    world.jobs.retain(|job| job.lost.len() == 2);
    for job in &mut world.jobs {
        let holders = (0..4).map(NodeId);
        job.survivors.iter_mut().zip(holders).for_each(|((_, holder), node)| *holder = node);
        job.excluded = failed.into();
    }
    assert!(world.jobs.len() > 10);
    for policy in policies() {
        let batch = plan(policy, &world.jobs, &world.view(), 5);
        for (job, plan) in batch.planned(&world.jobs) {
            let held = held(&world.cluster, job, Some(plan));
            let over = held.values().filter(|count| **count > 2).count();
            assert_eq!((over, held[&RackId(2)]), (1, 1), "{policy:#} {}: {held:?}", job.stripe);
        }
    }
}

/// What a batch brings to each node.
fn brought(world: &World, batch: &Batch) -> Vec<u64> {
    let mut bytes = vec![0; world.room.len()];
    for (job, plan) in batch.planned(&world.jobs) {
        plan.destinations.values().for_each(|node| bytes[node.index()] += job.chunk_bytes);
    }
    bytes
}

#[test]
fn no_node_is_filled_beyond_its_room_and_nothing_is_refused_where_there_is_plenty() {
    let mut random = Random::new(8);
    for policy in policies() {
        for seed in 0..4 {
            let failed = &[NodeId(0), NodeId(1)][..random.between(1, 2) as usize];
            let mut world = World::failed_nodes("rs(6,3)", 20, failed, 40, seed).with_racks(4);
            // Half of the nodes are nearly full, some quite.
            for node in 2..11 {
                world.room[node] = random.below(4) * CHUNK_BYTES + random.below(CHUNK_BYTES);
            }
            let batch = plan(policy, &world.jobs, &world.view(), seed);
            assert_eq!(batch.refused, [], "{policy:#}");
            for (bytes, room) in brought(&world, &batch).iter().zip(&world.room) {
                assert!(bytes <= room, "{policy:#}: {bytes} into {room}");
            }
            for (job, plan) in batch.planned(&world.jobs) {
                assert_eq!(validate(plan, &job.facts(), 20), Ok(()), "{policy:#}");
            }
        }
    }
}

#[test]
fn what_finds_no_room_is_refused_and_the_rest_is_planned() {
    for policy in policies() {
        let mut world = World::failed_node("rs(3,2)", 8, 20, 5).with_racks(4);
        world.room = vec![0; 8];
        (1..8).for_each(|node| world.room[node] = 2 * CHUNK_BYTES);
        let batch = plan(policy, &world.jobs, &world.view(), 5);
        // Three nodes are outside of each stripe, and all have room for 14 chunks.
        assert!((13..=14).contains(&batch.plans.len()), "{policy:#}: {}", batch.plans.len());
        assert!(batch.refused.iter().all(|(_, error)| *error == PlanError::NoDestination));
        assert_eq!(batch.plans.len() + batch.refused.len(), 20, "{policy:#}");
        for (bytes, room) in brought(&world, &batch).iter().zip(&world.room) {
            assert!(bytes <= room, "{policy:#}: {bytes} into {room}");
        }
    }
}

#[test]
fn car_asks_racks_only_of_those_who_take_part() {
    let mut world = World::failed_node("rs(6,3)", 24, 30, 7).with_racks(5);
    let car: Policy = "car".parse().unwrap();
    // The failed node, one that is drained and empty, and none besides.
    let is_idle = |node: &NodeId| {
        world.jobs.iter().all(|job| job.survivors.iter().all(|(_, holder)| holder != node))
    };
    let idle = world.cluster.ids().filter(|node| node.0 > 0).find(is_idle);
    for node in [Some(NodeId(0)), idle].into_iter().flatten() {
        world.cluster.nodes[node.index()].rack = None;
        world.room[node.index()] = 0;
    }
    let batch = plan(car, &world.jobs, &world.view(), 1);
    assert_eq!((batch.refused.len(), batch.plans.len()), (0, 30));
    for (job, plan) in batch.planned(&world.jobs) {
        assert_eq!(validate(plan, &job.facts(), 24), Ok(()));
    }
    world.cluster.nodes[5].rack = None;
    let batch = plan(car, &world.jobs, &world.view(), 1);
    assert_eq!(
        batch.refused[0].1.to_string(),
        "'rack' needs racks, and the node 'n5' is in none; give it one"
    );
}

/// What others reach where some nodes have little space, the exact planners reach too.
#[test]
fn where_space_is_scarce_the_exact_planners_are_no_later_than_others() {
    let mut random = Random::new(21);
    let mut compared = 0;
    for seed in 0..60 {
        let code = *random.choose(&["rs(2,2)", "rs(3,2)", "rs(4,2)", "rs(6,3)"]);
        let nodes = random.between(10, 14) as usize;
        let count = random.between(15, 40) as usize;
        let links = *random.choose(&[Links::Independent, Links::Same]);
        let mut world = World::failed_node(code, nodes, count, seed).with_links(links, seed);
        if random.per_mille(300) {
            world = world.with_disks(seed);
        }
        if random.per_mille(300) {
            world = world.with_racks(random.between(2, 4) as usize);
        }
        for room in &mut world.room[1..nodes - 2] {
            *room = random.below(9) * CHUNK_BYTES;
        }
        let peak = |policy: &str| {
            let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), seed);
            let planned = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
            let seconds = Load::of(&world.cluster, planned).max_seconds(&world.cluster);
            batch.refused.is_empty().then_some(seconds)
        };
        let Some(flow) = peak("flow") else { continue };
        for other in ["chameleon", "repairboost+ppr", "cr", "pivot", "mix/greedy/all"] {
            let Some(seconds) = peak(other) else { continue };
            assert!(flow <= seconds * 1.001, "seed {seed}, {code}: {flow}, {other} {seconds}");
            compared += 1;
        }
        let suture = peak("suture").expect("it refuses nothing that flow does not");
        assert!(suture <= flow * 1.001, "seed {seed}, {code}: suture {suture}, flow {flow}");
    }
    assert!(compared > 200, "{compared} are few");
}
