//! How fast every kernel does everything, by criterion: for comparing a change with what was.
//!
//! Place: slices flow; this is the arithmetic in it. For the ratios between contenders run `roof`,
//! which lets them take turns: on a shared machine criterion's contenders each meet other weather.

mod race;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use race::{Contender, races};
use std::time::Duration;

fn kernels(criterion: &mut Criterion) {
    for race in races() {
        let mut group = criterion.benchmark_group(&race.name);
        group
            .throughput(Throughput::BytesDecimal(race.bytes as u64))
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(600))
            .sample_size(20);
        for Contender { name, mut run } in race.contenders {
            group.bench_function(BenchmarkId::from_parameter(name), |bench| bench.iter(&mut run));
        }
        group.finish();
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
