//! The published algorithms beside each other: the busiest port over the bound, mean and standard
//! deviation over many seeds.
//!
//! `cargo run --release -p suture-repair --example baselines [seeds [part of a policy]]`
//!
//! A failed node, random placements, links that are equal (hom), uniform in 1..10 and independent
//! (het), or uniform and the same in both directions (cor).
#![allow(clippy::disallowed_macros, reason = "a command, not the core: it prints")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Links, World};
use suture_repair::bound::bound_seconds;
use suture_repair::plan::load::Load;
use suture_repair::planner::plan;
use suture_repair::policy::Policy;

const CASES: [(Links, usize, usize, &str); 12] = [
    (Links::Equal, 16, 100, "rs(6,3)"),
    (Links::Equal, 50, 500, "rs(6,3)"),
    (Links::Equal, 100, 1000, "rs(6,3)"),
    (Links::Equal, 16, 100, "rs(10,4)"),
    (Links::Equal, 100, 1000, "rs(10,4)"),
    (Links::Independent, 16, 100, "rs(6,3)"),
    (Links::Independent, 50, 500, "rs(6,3)"),
    (Links::Independent, 100, 1000, "rs(10,4)"),
    (Links::Same, 16, 100, "rs(6,3)"),
    (Links::Same, 100, 1000, "rs(6,3)"),
    (Links::Equal, 16, 100, "lrc(6,2,2)"),
    (Links::Independent, 16, 100, "lrc(6,2,2)"),
];

const POLICIES: [&str; 13] = [
    "star/random/all",
    "ppr/random/all",
    "chain/random/all",
    "pivot/random/all",
    "star/lru/all",
    "chain/lru/all",
    "star/repairboost/all",
    "ppr/repairboost/all",
    "chain/repairboost/all",
    "tunable/chameleon/all",
    "tunable/chameleon:artifact/all",
    "star/greedy/all",
    "chain/greedy/all",
];

fn main() {
    let seeds: u64 = std::env::args().nth(1).map_or(50, |text| text.parse().expect("a number"));
    println!("busiest port / bound, mean (standard deviation) of {seeds} seeds");
    let only = std::env::args().nth(2).unwrap_or_default();
    for (links, nodes, stripes, code) in CASES {
        println!("\n{} n={nodes} f={stripes} {code}", links.name());
        for name in POLICIES.into_iter().filter(|name| name.contains(&only)) {
            let policy: Policy = name.parse().expect("a policy");
            let ratios: Vec<f64> =
                (0..seeds).map(|seed| ratio(policy, links, nodes, stripes, code, seed)).collect();
            let (mean, deviation) = summary(&ratios);
            println!("  {name:<32} {mean:.3} ({deviation:.3})");
        }
    }
}

fn ratio(policy: Policy, links: Links, nodes: usize, stripes: usize, code: &str, seed: u64) -> f64 {
    let world = World::failed_node(code, nodes, stripes, seed).with_links(links, seed + 1000);
    let batch = plan(policy, &world.jobs, &world.view(), seed);
    assert!(batch.refused.is_empty(), "{policy}: {}", batch.refused[0].1);
    let plans = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    let peak = Load::of(&world.cluster, plans).max_seconds(&world.cluster);
    peak / bound_seconds(&world.jobs, &world.view())
}

fn summary(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt())
}
