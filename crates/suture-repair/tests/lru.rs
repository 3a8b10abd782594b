//! LRU selection against an oracle that keeps a list of timestamps and looks through all of it.

use std::collections::BTreeSet;

use crate::common::World;
use suture_repair::id::NodeId;
use suture_repair::plan::load::Load;
use suture_repair::planner::{Batch, Job, plan};

const CODES: [&str; 3] = ["rs(6,3)", "rs(10,4)", "rs(3,2)"];
const SHAPES: [&str; 3] = ["star", "ppr", "chain"];

/// When each node was last selected: to help, and to receive.
struct Timestamps {
    helped: Vec<usize>,
    received: Vec<usize>,
    is_shared: bool,
}

impl Timestamps {
    fn new(node_count: usize, is_shared: bool) -> Timestamps {
        Timestamps { helped: vec![0; node_count], received: vec![0; node_count], is_shared }
    }

    /// Of the nodes that may, so many with the smallest timestamps, and of equals with the smallest
    /// ids.
    fn oldest(times: &[usize], may: impl Fn(NodeId) -> bool, count: usize) -> BTreeSet<NodeId> {
        let mut nodes: Vec<NodeId> = (0..times.len() as u32).map(NodeId).collect();
        nodes.retain(|node| may(*node));
        nodes.sort_by_key(|node| (times[node.index()], node.0));
        nodes.into_iter().take(count).collect()
    }

    /// The helpers and the destination, from now on last selected at `time`.
    fn select(&mut self, job: &Job, world: &World, time: usize) -> (BTreeSet<NodeId>, NodeId) {
        let survives = |node: NodeId| job.survivors.iter().any(|(_, holder)| *holder == node);
        let helpers = Timestamps::oldest(&self.helped, survives, job.code.data_chunks());
        let is_free = |node: NodeId| world.room[node.index()] > 0 && !job.excluded.contains(&node);
        let destinations = Timestamps::oldest(&self.received, is_free, 1);
        let destination = *destinations.first().expect("some node holds nothing of the stripe");
        self.received[destination.index()] = time;
        for node in helpers.iter().chain([&destination]) {
            self.helped[node.index()] = time;
            if self.is_shared {
                self.received[node.index()] = time;
            }
        }
        (helpers, destination)
    }
}

/// The helpers and the destination of each plan.
fn selected(batch: &Batch) -> Vec<(BTreeSet<NodeId>, NodeId)> {
    let of_plan = |plan: &suture_repair::plan::Plan| {
        let edges = plan.lanes[0].edges.iter();
        let helpers: BTreeSet<NodeId> = edges.map(|edge| edge.child).collect();
        let destination = plan.destinations.values().next().copied();
        (helpers, destination.expect("a plan has a destination"))
    };
    batch.plans.iter().map(of_plan).collect()
}

#[test]
fn the_nodes_with_the_oldest_timestamps_help_and_receive() {
    for (balance, is_shared) in [("lru", false), ("lru:shared", true)] {
        for code in CODES {
            for shape in SHAPES {
                for seed in 0..4 {
                    let world = World::failed_node(code, 18, 60, seed);
                    let policy = format!("{shape}/{balance}/all").parse().unwrap();
                    let batch = plan(policy, &world.jobs, &world.view(), seed);
                    assert_eq!(batch.refused, []);
                    let mut timestamps = Timestamps::new(18, is_shared);
                    let jobs = (1..).zip(&world.jobs);
                    let expected: Vec<_> =
                        jobs.map(|(time, job)| timestamps.select(job, &world, time)).collect();
                    assert_eq!(selected(&batch), expected, "{shape}/{balance} {code} {seed}");
                }
            }
        }
    }
}

/// RepairBoost's section 5.1 finds LRU less even than chance; with destinations that take turns of
/// their own it is more even.
#[test]
fn destinations_are_the_more_uneven_for_sharing_timestamps_with_helpers() {
    let mean = |policy: &str| {
        let degree = |seed| {
            let world = World::failed_node("rs(6,3)", 16, 100, seed);
            let batch = plan(policy.parse().unwrap(), &world.jobs, &world.view(), seed);
            let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
            let load = Load::of(&world.cluster, plans);
            let most = load.nodes().iter().map(|node| node.up_bytes.max(node.down_bytes)).max();
            most.unwrap() as f64 / (load.moved_bytes() as f64 / 15.0)
        };
        (0..20).map(degree).sum::<f64>() / 20.0
    };
    let (apart, shared) = (mean("star/lru/all"), mean("star/lru:shared/all"));
    assert!(shared > 1.6 && apart < 1.5, "{shared} {apart}");
}
