//! What planning costs, in CPU time, and how near the bound its plans come.
//!
//! Small: 1,000 lost chunks on 500 nodes; large: 100,000 on 5,000; equal links, and links uniform
//! in 1..10. Ratios (busiest port over the k-chunk bound) are printed before each measurement; the
//! own bound of `suture` costs less than its plans do.
#![allow(clippy::disallowed_macros, reason = "a bench prints")]

#[path = "../tests/common/mod.rs"]
mod common;
mod cpu_time;

use std::cell::LazyCell;
use std::hint::black_box;

use common::World;
use cpu_time::CpuTime;
use criterion::{Criterion, SamplingMode};
use suture_repair::bound::{bound_seconds, own_bound_seconds};
use suture_repair::plan::load::Load;
use suture_repair::planner::{Batch, plan};

/// The name of a case, its size, and whether its links are equal.
const CASES: [(&str, usize, usize, bool); 4] = [
    ("1k x 500 equal", 1_000, 500, true),
    ("1k x 500 unequal", 1_000, 500, false),
    ("100k x 5k equal", 100_000, 5_000, true),
    ("100k x 5k unequal", 100_000, 5_000, false),
];

/// What is measured: the bound, and planning under these policies.
const POLICIES: [&str; 2] = ["flow", "suture"];

fn main() {
    let mut criterion = Criterion::default().with_measurement(CpuTime).configure_from_args();
    for (name, chunks, nodes, is_equal) in CASES {
        let world = LazyCell::new(|| {
            let world = World::failed_node("rs(10,4)", nodes, chunks, 1);
            if is_equal { world } else { world.with_links(common::Links::Independent, 2) }
        });
        let mut group = criterion.benchmark_group(name);
        if chunks > 1_000 {
            group.sample_size(10).sampling_mode(SamplingMode::Flat);
        }
        group.bench_function("bound", |bencher| {
            bencher.iter(|| black_box(bound_seconds(&world.jobs, &world.view())));
        });
        for policy in POLICIES {
            let mut is_first = true;
            group.bench_function(policy, |bencher| {
                if std::mem::take(&mut is_first) {
                    report(&world, policy);
                }
                let policy = policy.parse().expect("a policy");
                bencher.iter(|| black_box(plan(policy, &world.jobs, &world.view(), 1)));
            });
        }
        group.bench_function("own bound of suture", |bencher| {
            let (policy, view) = ("suture".parse().expect("a policy"), world.view());
            let load = load(&world, &plan(policy, &world.jobs, &view, 1));
            let bound = bound_seconds(&world.jobs, &view);
            bencher.iter(|| black_box(own_bound_seconds(policy, &world.jobs, &view, &load, bound)));
        });
        group.finish();
    }
    criterion.final_summary();
}

/// What plans put on nodes.
fn load(world: &World, batch: &Batch) -> Load {
    let planned = batch.planned(&world.jobs).map(|(job, plan)| (plan, job.facts()));
    Load::of(&world.cluster, planned)
}

/// Prints how near the bound the plans are, their lanes, and the memory that it took.
fn report(world: &World, policy: &str) {
    let batch = plan(policy.parse().expect("a policy"), &world.jobs, &world.view(), 1);
    let load = load(world, &batch);
    let ratio = load.max_seconds(&world.cluster) / bound_seconds(&world.jobs, &world.view());
    let lanes: usize = batch.plans.iter().map(|plan| plan.lanes.len()).sum();
    let lanes = lanes as f64 / batch.plans.len() as f64;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{policy}: load / bound {ratio:.4}, {lanes:.2} lanes a plan, {peak}");
}
