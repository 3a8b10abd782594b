//! Small inputs with links that are far apart, each of which planners or the bound were once far
//! off on: the optima beside them are those of linear programs over all trees.

use crate::common::{CHUNK_BYTES, World, peak_seconds};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::{Core, Rate};
use suture_repair::id::{ChunkIndex, NodeId, StripeId};
use suture_repair::plan::load::Load;
use suture_repair::planner::Job;

/// A link that takes so many seconds for a chunk.
fn link(seconds: f64) -> Rate {
    Rate(CHUNK_BYTES as f64 / seconds)
}

/// A stripe on these nodes, the chunks of `failed` ones lost. Links by the seconds that a chunk
/// takes up and down; as many racks as given, in turn, whose links take `core` seconds.
fn world(
    code: &str,
    stripe: &[u32],
    failed: &[u32],
    links: &[(f64, f64)],
    racks: usize,
    core: (f64, f64),
) -> World {
    let nodes: Vec<NodeId> = failed.iter().copied().map(NodeId).collect();
    let mut world = World::failed_nodes(code, links.len(), &nodes, 1, 1).with_racks(racks);
    for (node, (up, down)) in world.cluster.nodes.iter_mut().zip(links) {
        (node.uplink, node.downlink) = (link(*up), link(*down));
    }
    world.cluster.core = Some(Core { rack_uplink: link(core.0), rack_downlink: link(core.1) });
    world.load = Load::new(&world.cluster);
    let job = &mut world.jobs[0];
    let held = (0..).map(ChunkIndex).zip(stripe.iter().copied().map(NodeId));
    let (lost, survivors) = held.partition::<Vec<_>, _>(|(_, node)| nodes.contains(node));
    job.lost = lost.into_iter().map(|(chunk, _)| chunk).collect();
    job.survivors = survivors;
    job.excluded = stripe.iter().copied().map(NodeId).collect();
    world
}

#[test]
fn chunks_leave_a_rack_one_by_one_where_nobody_in_it_can_add_them_up() {
    let links = [
        (1.0, 16.2),
        (0.72, 1.91),
        (4.38, 0.528),
        (5.75, 0.512),
        (0.512, 5.17),
        (0.512, 0.512),
        (1.446, 3.79),
        (0.512, 0.512),
    ];
    let world = world("rs(4,3)", &[6, 0, 3, 4, 5, 1, 2], &[1], &links, 4, (0.658, 1.316));
    let (flow, suture) = (peak_seconds(&world, "flow"), peak_seconds(&world, "suture"));
    let bound = bound_seconds(&world.jobs, &world.view());
    assert!(flow <= 1.10 * bound && suture <= 1.10 * bound, "{flow} {suture}, bound {bound}");
}

#[test]
fn nodes_without_a_chunk_add_up_where_helpers_receive_slowly() {
    // Of the second rack all survivors but the dear n5 receive slowly, and others at once.
    let mut links = vec![(0.512, 0.512); 17];
    for (node, slow) in [
        (1, (9.249, 0.512)),
        (2, (6.933, 0.512)),
        (5, (3.998, 6.22)),
        (6, (9.056, 0.512)),
        (7, (0.512, 9.611)),
        (8, (0.512, 10.23)),
        (11, (0.512, 9.442)),
        (12, (8.876, 0.512)),
        (13, (5.822, 0.512)),
        (15, (2.72, 0.512)),
        (16, (4.588, 0.512)),
    ] {
        links[node] = slow;
    }
    let world = world("rs(3,2)", &[5, 0, 1, 7, 8], &[1], &links, 2, (0.524_625, 0.262_312));
    let without_relays = 0.702_76;
    for policy in ["flow", "suture"] {
        let peak = peak_seconds(&world, policy);
        assert!(peak <= 0.80 * without_relays, "{policy}: {peak}");
    }
}

#[test]
fn shares_are_rounded_where_that_keeps_ports_from_being_late() {
    let links = [
        (109.6, 4222.0),
        (5710.0, 0.00441),
        (0.01147, 2286.0),
        (0.007082, 12.18),
        (0.006791, 1224.0),
        (2395.0, 51.37),
        (0.001642, 0.3296),
        (0.05727, 0.0004013),
        (2326.0, 0.00426),
        (0.01386, 0.107),
        (2.725, 0.004984),
        (18.47, 382.2),
    ];
    let world = world("rs(2,2)", &[3, 7, 6, 2], &[2], &links, 3, (0.005583, 0.011167));
    let optimum = 0.018_16;
    let flow = peak_seconds(&world, "flow");
    assert!(flow <= 1.02 * optimum, "{flow}");
}

#[test]
fn a_survivor_that_cannot_send_adds_up_nothing_in_the_bound() {
    // Of the second rack only n1 can keep the chunk soon, and n5 receives at once but never sends.
    let links = [
        (1.787, 3.173),
        (24.3, 0.2919),
        (0.002_121, 49.22),
        (0.7067, 695.9),
        (2746.0, 44.73),
        (693.8, 0.000_607_6),
        (0.070_95, 108.0),
        (0.006_94, 47_870.0),
        (0.158, 64_840.0),
    ];
    let world = world("rs(2,2)", &[2, 5, 8, 6], &[6], &links, 2, (0.024_739, 0.012_37));
    let (flow, bound) = (peak_seconds(&world, "flow"), bound_seconds(&world.jobs, &world.view()));
    let (optimum, with_relays) = (0.5800, 0.5545);
    assert!(bound >= 0.90 * with_relays && bound <= with_relays * 1.001, "{bound}");
    assert!(flow <= 1.10 * optimum, "{flow}");
}

#[test]
fn more_helpers_than_a_local_code_needs_do_without_a_slow_one() {
    // Two chunks of the local group of chunk 8 are lost; every least set of helpers that rebuilds
    // them has the slow chunk 3, and all others together do without.
    let stripe: Vec<u32> = (0..19).collect();
    let mut links = vec![(1.0, 1.0); 24];
    links[3].0 = 1000.0;
    let mut world = world("lrc(12,4,3)", &stripe, &[6, 14], &links, 1, (1.0, 1.0));
    world.cluster.core = None;
    world.load = Load::new(&world.cluster);
    for policy in ["flow", "suture"] {
        let peak = peak_seconds(&world, policy);
        assert!(peak <= 20.0, "{policy}: {peak}");
    }
}

/// Stripes on nodes with equal links in racks, in turn, whose links carry that part of a node's;
/// one node fails.
fn racked(code: &str, stripes: &[&[u32]], failed: u32, nodes: usize, racks: usize) -> World {
    let (links, core) = (vec![(1.0, 1.0); nodes], (1.3, 1.3));
    let mut first = world(code, stripes[0], &[failed], &links, racks, core);
    for (index, stripe) in stripes.iter().enumerate().skip(1) {
        let [job] = &world(code, stripe, &[failed], &links, racks, core).jobs[..] else {
            unreachable!("it has a stripe")
        };
        first.jobs.push(Job { stripe: StripeId(index as u64), ..job.clone() });
    }
    first
}

#[test]
fn more_helpers_than_a_global_parity_needs_cross_fewer_racks() {
    // Three helpers happen to be enough for this global parity, each in a rack of its own; two
    // racks have two of four.
    let stripe = [5, 13, 10, 6, 2, 8, 3, 11, 12];
    let world = world("lrc(4,2,3)", &stripe, &[12], &[(1.0, 1.0); 15], 5, (10.0, 1.0));
    for policy in ["flow", "suture"] {
        let seconds = peak_seconds(&world, policy);
        assert!(seconds <= 5.01, "{policy}: {seconds}");
    }
    assert!(bound_seconds(&world.jobs, &world.view()) <= 5.0);
}

/// Stripes of lrc(4,2,4) on eleven nodes, each with a chunk on n7.
const LOCAL_STRIPES: [&[u32]; 3] = [
    &[3, 10, 5, 6, 9, 1, 8, 7, 2, 4],
    &[1, 2, 5, 3, 7, 0, 8, 6, 9, 10],
    &[0, 5, 2, 8, 3, 7, 4, 6, 9, 1],
];

#[test]
fn the_bound_counts_local_repairs_by_more_helpers_in_fewer_racks() {
    let world = racked("lrc(4,2,4)", &LOCAL_STRIPES, 7, 11, 3);
    let bound = bound_seconds(&world.jobs, &world.view());
    for policy in ["mix/random/all", "flow", "suture"] {
        let seconds = peak_seconds(&world, policy);
        assert!(bound <= seconds * (1.0 + 1e-9), "{policy}: {seconds}, bound {bound}");
    }
}

#[test]
fn the_bound_counts_decoders_in_racks_that_keep_nothing() {
    let stripes: [&[u32]; 2] = [&[1, 0, 3, 5, 2, 4], &[4, 6, 2, 5, 0, 3]];
    let world = racked("clay(4,2,5)", &stripes, 5, 7, 2);
    let bound = bound_seconds(&world.jobs, &world.view());
    let seconds = peak_seconds(&world, "flow");
    assert!(bound <= seconds * (1.0 + 1e-9), "{seconds}, bound {bound}");
}

#[test]
fn codes_with_sub_chunks_and_local_codes_are_no_later_than_by_simple_policies() {
    let mut flat = racked("clay(2,2,3)", &[&[0, 1, 2, 3], &[2, 3, 0, 4]], 0, 7, 2);
    flat.cluster.core = None;
    flat.load = Load::new(&flat.cluster);
    for world in [racked("lrc(4,2,4)", &LOCAL_STRIPES, 7, 11, 3), flat] {
        let (flow, suture) = (peak_seconds(&world, "flow"), peak_seconds(&world, "suture"));
        for policy in ["cr", "chameleon", "repairboost+cr", "mix/greedy/all", "mix/random/all"] {
            let seconds = peak_seconds(&world, policy) * (1.0 + 1e-9);
            assert!(suture <= flow && flow <= seconds, "{policy}: {suture}, {flow}, {seconds}");
        }
    }
}

#[test]
fn several_chunks_are_kept_by_fast_nodes_of_racks_with_one_place_each() {
    // Each rack holds one of three survivors, and may keep one of both chunks.
    for code in ["rs(3,2)", "butterfly(3)"] {
        let mut world = World::failed_nodes(code, 12, &[NodeId(0), NodeId(1)], 1, 1).with_racks(3);
        let holders = [0, 1, 3, 4, 5].map(NodeId);
        let job = &mut world.jobs[0];
        job.lost = vec![ChunkIndex(0), ChunkIndex(1)];
        job.survivors = (2..5).map(|chunk| (ChunkIndex(chunk), holders[chunk as usize])).collect();
        job.excluded = holders.to_vec();
        for slow in [2, 6, 7, 8] {
            world.cluster.nodes[slow].downlink = link(100.0);
        }
        for policy in ["flow", "suture"] {
            let peak = peak_seconds(&world, policy);
            assert!(peak <= 3.0 + 1e-6, "{policy} {code}: {peak}");
        }
    }
}

#[test]
fn racks_whose_links_are_far_slower_than_those_of_nodes_share_them_evenly() {
    // Seven nodes, six racks: n0 and n6 are in one. All stripes that leave out one of them.
    let stripes: Vec<Vec<u32>> = (0..42u32)
        .map(|at| (1..7).map(|step| (at % 7 + step * (1 + at / 7)) % 7).collect())
        .collect();
    let stripes: Vec<&[u32]> = stripes.iter().map(|stripe| &stripe[..]).collect();
    let with_lost: Vec<&[u32]> = stripes.into_iter().filter(|stripe| stripe.contains(&1)).collect();
    let mut world = racked("rs(4,2)", &with_lost, 1, 7, 6);
    let links = Core { rack_uplink: link(20.0), rack_downlink: link(80.0) };
    world.cluster.core = Some(links);
    let bound = bound_seconds(&world.jobs, &world.view());
    for policy in ["flow", "suture"] {
        let seconds = peak_seconds(&world, policy);
        assert!(seconds <= 1.05 * bound, "{policy}: {seconds}, bound {bound}");
    }
}

#[test]
fn the_bound_counts_what_several_losses_bring_to_links_of_racks() {
    // Two racks each send a message for each of both chunks, whatever is added up in them.
    for (code, stripe, failed, nodes) in [
        ("rs(6,3)", &[1, 6, 10, 4, 8, 11, 3, 7, 5][..], [1, 6], 12),
        ("butterfly(4)", &[0, 1, 2, 3, 4, 5], [0, 4], 8),
    ] {
        let world = world(code, stripe, &failed, &vec![(1.0, 1.0); nodes], 4, (20.0, 20.0));
        let bound = bound_seconds(&world.jobs, &world.view());
        for policy in ["flow", "suture"] {
            let seconds = peak_seconds(&world, policy);
            assert!(bound <= seconds + 1e-9, "{code} {policy}: {seconds}, bound {bound}");
            assert!(seconds <= 1.05 * bound, "{code} {policy}: {seconds}, bound {bound}");
        }
    }
}

#[test]
fn what_crosses_decides_who_decodes_several_chunks_or_that_each_has_a_tree() {
    // Helpers and destinations that are cheapest by their own ports took 2, 3 and 10 seconds.
    for (code, stripe, failed, nodes, core, optimum) in [
        ("lrc(4,2,2)", &[7, 10, 5, 12, 1, 9, 6, 13][..], [13, 10], 14, 1.0, 1.0),
        ("rs(4,2)", &[1, 4, 9, 8, 7, 0], [1, 8], 10, 2.0, 2.0),
        ("rs(10,4)", &[10, 12, 1, 7, 4, 8, 16, 3, 9, 0, 13, 2, 6, 14], [0, 10], 17, 4.0, 8.0),
    ] {
        let world = world(code, stripe, &failed, &vec![(1.0, 1.0); nodes], 2, (core, core));
        let bound = bound_seconds(&world.jobs, &world.view());
        for policy in ["flow", "suture"] {
            let seconds = peak_seconds(&world, policy);
            assert!(bound <= seconds + 1e-9, "{code} {policy}: {seconds}, bound {bound}");
            assert!(seconds <= 1.05 * optimum, "{code} {policy}: {seconds}");
        }
    }
}
