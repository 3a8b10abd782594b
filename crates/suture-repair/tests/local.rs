//! Stripes of local codes that lost several chunks, in racks with links, against optima found
//! elsewhere.
//!
//! The optima are those of linear programs over all lanes that plans may have, with integral
//! destinations: column generation with exact prices, and branch and bound, by another program and
//! another solver. They allow the helper sets that the code takes in some order of preference,
//! beginning with the groups of the lost chunks; with all other sets some batches are faster, and
//! of one of these our own plan is on the bound. The batches are those of 200 random ones that
//! planners were once furthest off on.

use crate::common::{World, peak_seconds};
use suture_repair::bound::bound_seconds;
use suture_repair::cluster::{Core, Rate};
use suture_repair::id::{ChunkIndex, NodeId, RackId, StripeId};
use suture_repair::plan::load::Load;
use suture_repair::planner::Job;

/// A batch whose optimum is known.
struct LocalCase {
    code: &'static str,
    /// Of each node its rack, its uplink and its downlink in Mbit/s.
    nodes: &'static str,
    /// The uplink and downlink of a rack in Mbit/s.
    core: (f64, f64),
    failed: &'static [u32],
    /// The nodes that hold the chunks of each stripe.
    stripes: &'static str,
    /// Seconds that any plans need.
    optimum: f64,
    /// The least part of that which the bound may be.
    bound: f64,
}

/// Bytes of a chunk.
const CHUNK_BYTES: u64 = 64 << 20;

/// How far above the optimum plans may be.
const NEAR: f64 = 1.05;

const CASES: [LocalCase; 9] = [
    LocalCase {
        code: "lrc(6,3,2)",
        nodes: "1:642/933 0:559/534 1:1000/1000 2:745/238 1:560/607 3:1000/1000 1:285/221 \
            2:1000/1000 0:1000/1000 2:1000/1000 3:223/483 2:1000/1000 3:1000/1000 0:406/687 \
            0:844/251 1:1000/1000 2:1000/1000 0:508/55 3:1000/1000",
        core: (800.0, 800.0),
        failed: &[2, 5, 13],
        stripes: "6 13 18 2 7 17 16 4 3 5 11, 9 8 11 4 17 1 12 18 5 16 6",
        optimum: 1.3434,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(6,3,2)",
        nodes: "3:1000/1000 4:222/293 1:185/568 1:1000/1000 2:1000/1000 0:754/442 4:1000/1000 \
            1:1000/1000 2:1000/1000 3:279/793 0:1000/1000 0:1000/1000 0:1000/1000 3:1000/1000 \
            2:399/878 4:775/957",
        core: (400.0, 800.0),
        failed: &[4, 7],
        stripes: "13 0 6 7 2 14 3 15 1 4 10",
        optimum: 1.8355,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(8,2,2)",
        nodes: "0:1000/1000 3:75/399 1:1000/1000 3:290/382 2:398/218 2:1000/1000 3:419/135 \
            4:640/128 0:1000/1000 4:798/892 1:884/557 4:683/448 2:844/659 0:1000/1000 \
            1:618/824",
        core: (200.0, 200.0),
        failed: &[11, 14],
        stripes: "14 13 1 10 5 8 7 12 0 3 11 9",
        optimum: 4.1962,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(4,2,2)",
        nodes: "4:109/921 3:177/434 2:214/574 0:1000/1000 1:446/661 3:1000/1000 4:236/435 \
            0:643/112 1:112/909 0:331/960 2:688/155",
        core: (800.0, 1600.0),
        failed: &[9, 3],
        stripes: "1 9 7 5 2 4 3 10",
        optimum: 1.3731,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(6,3,2)",
        nodes: "2:217/172 2:932/395 1:974/303 0:253/274 1:65/290 2:1000/1000 1:1000/1000 \
            3:1000/1000 2:1000/1000 3:559/772 0:444/533 3:1000/1000 3:441/63 0:488/947 \
            0:922/712 0:186/156 1:1000/1000",
        core: (800.0, 1600.0),
        failed: &[6, 14, 8],
        stripes: "12 9 5 11 3 6 14 8 0 7 10, 11 10 9 14 13 6 2 5 4 16 8",
        optimum: 1.9848,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(4,2,2)",
        nodes: "1:1000/1000 2:1000/1000 3:418/231 1:301/930 0:445/870 0:782/59 0:1000/1000 \
            2:792/415 2:1000/1000 0:92/661 2:979/606 3:1000/1000 1:1000/1000 3:292/854 \
            1:1000/1000",
        core: (200.0, 200.0),
        failed: &[10, 11],
        stripes: "8 10 12 11 0 3 5 9, 3 8 7 2 9 6 14 12, 12 4 13 10 8 7 2 6, 11 9 8 6 12 1 2 14, 1 \
            13 10 0 2 14 5 12, 9 1 14 4 7 10 3 2, 11 1 3 14 9 6 2 10",
        optimum: 9.1930,
        bound: 0.79,
    },
    LocalCase {
        code: "lrc(4,2,3)",
        nodes: "2:119/920 1:1000/1000 2:850/996 0:602/124 1:1000/1000 1:1000/1000 0:380/853 \
            0:125/795 0:80/418 1:1000/1000 2:1000/1000 0:1000/1000 2:588/466",
        core: (800.0, 800.0),
        failed: &[0, 9],
        stripes: "11 10 9 5 3 8 0 12 1, 12 1 3 4 6 9 10 7 2",
        optimum: 0.9652,
        bound: 0.79,
    },
    LocalCase {
        code: "lrc(4,2,3)",
        nodes: "3:1000/1000 3:375/299 4:1000/1000 4:980/952 2:1000/1000 4:1000/1000 0:218/112 \
            2:567/896 0:119/187 2:1000/1000 1:616/924 0:1000/1000 0:901/627 3:1000/1000 \
            1:870/999 1:493/468",
        core: (200.0, 400.0),
        failed: &[5, 11, 6],
        stripes: "8 13 15 5 10 9 6 11 1",
        optimum: 2.9868,
        bound: 0.99,
    },
    LocalCase {
        code: "lrc(4,2,2)",
        nodes: "4:493/479 4:1000/1000 1:346/902 0:362/815 1:1000/1000 3:684/777 2:1000/1000 \
            3:806/800 0:1000/1000 2:203/208 3:368/774 1:1000/1000 0:649/343 4:772/604 \
            2:1000/1000",
        core: (800.0, 800.0),
        failed: &[3, 6],
        stripes: "12 14 9 11 3 0 7 6",
        optimum: 0.6711,
        bound: 0.99,
    },
];

fn megabits(text: &str) -> Rate {
    Rate(text.parse::<f64>().unwrap() * 125_000.0)
}

impl LocalCase {
    fn world(&self) -> World {
        let nodes: Vec<&str> = self.nodes.split_whitespace().collect();
        let failed: Vec<NodeId> = self.failed.iter().copied().map(NodeId).collect();
        let mut world = World::failed_nodes(self.code, nodes.len(), &failed, 1, 1);
        let cluster = &mut world.cluster;
        cluster.racks = (0..6).map(|rack| format!("r{rack}")).collect();
        for (node, text) in cluster.nodes.iter_mut().zip(nodes) {
            let (rack, links) = text.split_once(':').unwrap();
            let (up, down) = links.split_once('/').unwrap();
            node.rack = Some(RackId(rack.parse().unwrap()));
            (node.uplink, node.downlink) = (megabits(up), megabits(down));
        }
        let [rack_uplink, rack_downlink] =
            [self.core.0, self.core.1].map(|rate| Rate(rate * 125_000.0));
        cluster.core = Some(Core { rack_uplink, rack_downlink });
        world.load = Load::new(&world.cluster);
        let first = world.jobs.remove(0);
        let stripes = (0..).map(StripeId).zip(self.stripes.split(", "));
        let jobs = stripes.map(|(stripe, nodes)| {
            let nodes: Vec<NodeId> =
                nodes.split_whitespace().map(|node| NodeId(node.parse().unwrap())).collect();
            let held = (0..).map(ChunkIndex).zip(nodes.iter().copied());
            let (lost, survivors) = held.partition::<Vec<_>, _>(|(_, node)| failed.contains(node));
            Job {
                stripe,
                chunk_bytes: CHUNK_BYTES,
                lost: lost.into_iter().map(|(chunk, _)| chunk).collect(),
                survivors,
                excluded: nodes,
                keeper_places: Vec::new(),
                ..first.clone()
            }
        });
        world.jobs = jobs.filter(|job| !job.lost.is_empty()).collect();
        world
    }
}

#[test]
fn several_losses_of_local_codes_are_near_their_optimum() {
    for case in CASES {
        let (world, optimum) = (case.world(), case.optimum);
        let bound = bound_seconds(&world.jobs, &world.view());
        let is_near = (case.bound * optimum..=1.001 * optimum).contains(&bound);
        assert!(is_near, "{}: {optimum}, bound {bound}", case.stripes);
        for policy in ["flow", "suture"] {
            let seconds = peak_seconds(&world, policy);
            let what = format!("{policy}, {}: {seconds}, optimum {optimum}", case.stripes);
            assert!(seconds >= bound * 0.999, "{what}, bound {bound}");
            assert!(seconds <= NEAR * optimum, "{what}");
        }
    }
}
