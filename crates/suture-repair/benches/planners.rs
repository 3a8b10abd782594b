//! What planning costs, beside what the published prototypes took for the same.
//!
//! `cargo bench -p suture-repair --bench planners [-- FILTER]`. Each line is the median of many
//! runs on one thread; prototypes' figures are process CPU seconds of their published code, built
//! from source and driven as published, on a machine with two cores. The loads of the whole batch
//! are planned, from jobs to plans that could be dispatched; for trees, the tree alone.
#![allow(clippy::disallowed_types, clippy::disallowed_macros, reason = "a bench has a clock")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{Links, World};
use criterion::{Criterion, criterion_group};
use suture_repair::planner::plan;
use suture_repair::planner::route::shape::pivot::{self, Pivot};
use suture_repair::policy::Policy;
use suture_repair::random::Random;

/// A batch: policy, code, nodes, lost chunks, links, and seconds of the prototype where there are.
struct Batch {
    policy: &'static str,
    code: &'static str,
    nodes: usize,
    lost: usize,
    links: Links,
    prototype_seconds: Option<f64>,
}

const fn batch(
    policy: &'static str,
    code: &'static str,
    (nodes, lost): (usize, usize),
    links: Links,
    prototype_seconds: Option<f64>,
) -> Batch {
    Batch { policy, code, nodes, lost, links, prototype_seconds }
}

const BATCHES: [Batch; 18] = [
    batch("repairboost+cr", "rs(6,3)", (16, 100), Links::Equal, Some(0.025)),
    batch("repairboost+ppr", "rs(6,3)", (16, 100), Links::Equal, Some(0.032)),
    batch("repairboost+rp", "rs(6,3)", (16, 100), Links::Equal, Some(0.032)),
    batch("repairboost+cr", "rs(6,3)", (16, 1000), Links::Equal, Some(0.19)),
    batch("repairboost+ppr", "rs(6,3)", (16, 1000), Links::Equal, Some(0.26)),
    batch("repairboost+rp", "rs(6,3)", (16, 1000), Links::Equal, Some(0.22)),
    batch("repairboost+cr", "rs(6,3)", (500, 1000), Links::Equal, Some(0.041)),
    batch("repairboost+ppr", "rs(6,3)", (500, 1000), Links::Equal, Some(0.041)),
    batch("repairboost+rp", "rs(6,3)", (500, 1000), Links::Equal, Some(0.038)),
    batch("chameleon", "rs(10,4)", (20, 1000), Links::Independent, Some(0.018)),
    batch("chameleon", "rs(10,4)", (100, 1000), Links::Independent, Some(0.071)),
    batch("chameleon", "rs(10,4)", (500, 1000), Links::Independent, Some(0.539)),
    batch("cr", "rs(10,4)", (500, 1000), Links::Equal, None),
    batch("rp", "rs(10,4)", (500, 1000), Links::Equal, None),
    batch("pivot", "rs(10,4)", (500, 1000), Links::Independent, None),
    batch("chain/lru/all", "rs(10,4)", (500, 1000), Links::Equal, None),
    batch("car", "rs(10,4)", (500, 1000), Links::Equal, None),
    batch("ppt", "rs(6,3)", (500, 100), Links::Independent, None),
];

/// (n, k), and microseconds of the prototype where there are.
const TREES: [(usize, usize, Option<f64>); 5] = [
    (6, 4, Some(1.7)),
    (9, 6, Some(2.1)),
    (12, 8, Some(2.8)),
    (14, 10, Some(3.4)),
    (100, 64, None),
];

/// How many different trees a measurement grows.
const TREE_INPUTS: usize = 256;

impl Batch {
    fn name(&self) -> String {
        let Batch { policy, code, nodes, lost, links, .. } = self;
        format!("{policy} {code} n={nodes} f={lost} {}", links.name())
    }

    fn world(&self) -> World {
        World::failed_node(self.code, self.nodes, self.lost, 1)
            .with_links(self.links, 2)
            .with_racks(8)
    }

    fn plan(&self, world: &World) -> usize {
        let policy: Policy = self.policy.parse().expect("a policy");
        let planned = plan(policy, &world.jobs, &world.view(), 3);
        assert!(planned.refused.is_empty(), "{}", planned.refused[0].1);
        planned.plans.len()
    }
}

/// Links of survivors, uniform in 1..10, and what the requestor can receive.
fn tree_inputs(survivor_count: usize) -> Vec<(Vec<pivot::Links>, f64)> {
    let mut random = Random::new(5);
    let mut rate = || 1.0 + 9.0 * random.unit();
    let mut input = || {
        let links =
            (0..survivor_count).map(|_| pivot::Links { up: rate(), down: rate() }).collect();
        (links, rate())
    };
    (0..TREE_INPUTS).map(|_| input()).collect()
}

fn grow_all(pivot: &mut Pivot, inputs: &[(Vec<pivot::Links>, f64)], k: usize) {
    for (links, requestor_down) in inputs {
        black_box(pivot.grow(links, *requestor_down, k));
    }
}

fn bench(criterion: &mut Criterion) {
    for batch in &BATCHES {
        let world = batch.world();
        criterion.bench_function(&batch.name(), |b| b.iter(|| black_box(batch.plan(&world))));
    }
    for (n, k, _) in TREES {
        let (inputs, mut pivot) = (tree_inputs(n - 1), Pivot::default());
        let mut next = (0..TREE_INPUTS).cycle();
        criterion.bench_function(&format!("pivot tree ({n},{k})"), |b| {
            b.iter(|| {
                let (links, requestor_down) = &inputs[next.next().expect("a cycle")];
                black_box(pivot.grow(links, *requestor_down, k));
            });
        });
    }
}

/// The median time of `run`, in seconds, over about a third of a second and at least nine runs.
fn median_seconds(mut run: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < 9 || begin.elapsed().as_millis() < 300 {
        let start = Instant::now();
        run();
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn compare() {
    println!("{:<44} {:>12} {:>12} {:>7}", "", "median", "prototype", "ratio");
    let row = |name: String, seconds: f64, prototype: Option<f64>| {
        let micros = |seconds: f64| format!("{:.2} us", seconds * 1e6);
        let theirs = prototype.map(micros).unwrap_or_default();
        let ratio = prototype.map(|theirs| format!("{:.0}x", theirs / seconds)).unwrap_or_default();
        println!("{name:<44} {:>12} {theirs:>12} {ratio:>7}", micros(seconds));
    };
    for batch in &BATCHES {
        let world = batch.world();
        let seconds = median_seconds(|| _ = black_box(batch.plan(&world)));
        row(batch.name(), seconds, batch.prototype_seconds);
    }
    for (n, k, prototype_micros) in TREES {
        let (inputs, mut pivot) = (tree_inputs(n - 1), Pivot::default());
        let seconds = median_seconds(|| grow_all(&mut pivot, &inputs, k)) / TREE_INPUTS as f64;
        row(format!("pivot tree ({n},{k})"), seconds, prototype_micros.map(|micros| micros / 1e6));
    }
}

criterion_group!(planners, bench);

fn main() {
    // `--compare` prints only the table, a filter runs only criterion, and nothing at all both.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = arguments.iter().any(|argument| argument == "--compare");
    if !is_asked {
        planners();
        Criterion::default().configure_from_args().final_summary();
    }
    if is_asked || arguments == ["--bench"] {
        compare();
    }
}
