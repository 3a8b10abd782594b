//! How the cost of a whole simulated repair grows with the chunks that were lost: for each policy
//! the CPU time with so many, with twice as many, and the ratio of both.
//!
//! Planning, scheduling and the fluid network together, on 100 nodes, rs(6,3). Expected: a ratio
//! near 2 for each policy, and not above 2.4; what grows as the square of the chunks shows 4. For
//! `adaptive` that holds from 1,024 chunks that wait, for it compares no more of them.
//!
//! `cargo bench -p suture-sim --bench schedules [-- FILTER]`; the ratios are of the fastest
//! samples. What can be counted is counted by ordinary tests (`tests/growth.rs`).
#![allow(clippy::disallowed_macros, reason = "a bench prints")]

#[path = "../../suture-repair/benches/cpu_time/mod.rs"]
mod cpu_time;
#[path = "../tests/links/mod.rs"]
mod links;

use std::hint::black_box;

use cpu_time::CpuTime;
use criterion::measurement::Measurement;
use criterion::{Criterion, SamplingMode};
use links::scenario;
use suture_sim::simulate::simulate;

/// The one that is near linear with its own schedule comes last, to compare with.
const POLICIES: [&str; 5] = [
    "star/repairboost/slots",
    "chain/repairboost/slots",
    "chain/random/all",
    "pivot/random/adaptive",
    "suture",
];

const NODES: usize = 100;

/// Lost chunks of the smaller repair.
const LOST: usize = 2_500;

/// Nanoseconds of the fastest sample, a repair; none where the filter leaves it out.
fn measure(criterion: &mut Criterion<CpuTime>, policy: &str, lost: usize) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut group = criterion.benchmark_group(policy);
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.bench_function(format!("{lost} lost"), |bencher| {
        let scenario = scenario(policy, NODES, lost, "rs(6,3)");
        bencher.iter_custom(|rounds| {
            let begun = CpuTime.start();
            for _ in 0..rounds {
                black_box(simulate(&scenario, &mut || 0));
            }
            let taken = CpuTime.end(begun);
            let each = taken as f64 / rounds as f64;
            least = Some(least.map_or(each, |least| least.min(each)));
            taken
        });
    });
    group.finish();
    least
}

fn main() {
    let mut criterion = Criterion::default().with_measurement(CpuTime).configure_from_args();
    let mut rows = Vec::new();
    for policy in POLICIES {
        let once = measure(&mut criterion, policy, LOST);
        let twice = measure(&mut criterion, policy, 2 * LOST);
        rows.extend(once.zip(twice).map(|(once, twice)| (policy, once, twice)));
    }
    criterion.final_summary();
    let twofold = 2 * LOST;
    println!("{:<26} {LOST:>8} lost {twofold:>8} lost {:>6}", "", "ratio");
    for (policy, once, twice) in rows {
        let (once_s, twice_s, ratio) = (once * 1e-9, twice * 1e-9, twice / once);
        println!("{policy:<26} {once_s:>11.3} s {twice_s:>11.3} s {ratio:>6.2}");
    }
}
