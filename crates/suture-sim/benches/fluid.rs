//! The fluid network: one filling with 100, 1,000 and 10,000 flows, events a second, and how much
//! faster it is than its definition.
//!
//! Flows are lanes as a repair of rs(6,3) has them: six uplinks and six downlinks, on a fifth as
//! many nodes as there are flows; a flow that ends makes way for another. CPU time: others share
//! the machine.
#![allow(clippy::disallowed_macros, reason = "a bench prints")]

#[path = "../../suture-repair/benches/cpu_time/mod.rs"]
mod cpu_time;

use std::hint::black_box;

use cpu_time::CpuTime;
use criterion::{BatchSize, Criterion, Throughput};
use suture_repair::random::Random;
use suture_sim::fluid::{EXACT_ENTRIES, FlowId, Network, Take, Transfer, Urgency, oracle};

/// Flows at a time.
const FLOWS: [usize; 3] = [100, 1_000, 10_000];

/// Flows at which the definition is still bearable.
const ORACLE_FLOWS: usize = 100;

/// Flows that end in one measurement of events.
const EVENTS: usize = 200;

/// Nodes of a lane; each sends to the next.
const LANE: usize = 7;

fn capacities(flows: usize, random: &mut Random) -> Vec<f64> {
    (0..2 * nodes(flows)).map(|_| 50e6 + 100e6 * random.unit()).collect()
}

fn nodes(flows: usize) -> usize {
    (flows / 5).max(2 * LANE)
}

/// A chain over random nodes: uplink 2i and downlink 2i + 1 belong to node i.
fn lane(flows: usize, random: &mut Random) -> (f64, Vec<Take>) {
    let mut chain: Vec<u32> = Vec::with_capacity(LANE);
    while chain.len() < LANE {
        let node = random.index(nodes(flows)) as u32;
        if !chain.contains(&node) {
            chain.push(node);
        }
    }
    let hop = |pair: &[u32]| [2 * pair[0], 2 * pair[1] + 1].map(|port| Take { port, weight: 1.0 });
    (64e6 * (0.5 + random.unit()), chain.windows(2).flat_map(hop).collect())
}

fn network(flows: usize, exact_entries: usize, random: &mut Random) -> Network {
    let mut network = Network::new(&capacities(flows, random), exact_entries);
    for _ in 0..flows {
        let (bytes, takes) = lane(flows, random);
        network.start(Transfer::lane(bytes), &takes, Urgency::Patient);
    }
    network
}

/// Lets flows end, one after the other, each followed by a new one.
fn live(network: &mut Network, flows: usize, random: &mut Random) -> usize {
    let (mut count, mut ended) = (0, Vec::<FlowId>::new());
    while count < EVENTS
        && let Some(next) = network.next_event()
    {
        ended.clear();
        network.advance(next, &mut ended);
        count += ended.len();
        for _ in 0..ended.len() {
            let (bytes, takes) = lane(flows, random);
            network.start(Transfer::lane(bytes), &takes, Urgency::Patient);
        }
    }
    count
}

fn fillings(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("filling");
    for flows in FLOWS {
        group.bench_function(flows.to_string(), |bencher| {
            let fresh = || network(flows, usize::MAX, &mut Random::new(1));
            let fill = |mut network: Network| black_box(network.next_event());
            bencher.iter_batched(fresh, fill, BatchSize::LargeInput);
        });
    }
    group.bench_function(format!("{ORACLE_FLOWS} by the oracle"), |bencher| {
        let random = &mut Random::new(1);
        let capacities = capacities(ORACLE_FLOWS, random);
        let lanes: Vec<_> = (0..ORACLE_FLOWS).map(|_| lane(ORACLE_FLOWS, random)).collect();
        let flows: Vec<(f64, &[Take])> =
            lanes.iter().map(|(bytes, takes)| (*bytes, takes.as_slice())).collect();
        bencher.iter(|| black_box(oracle::fair_rates(&capacities, &flows)));
    });
    group.finish();
}

fn events(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for flows in FLOWS {
        group.bench_function(flows.to_string(), |bencher| {
            let random = &mut Random::new(2);
            let mut network = network(flows, EXACT_ENTRIES, random);
            bencher.iter(|| live(&mut network, flows, random));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().with_measurement(CpuTime).configure_from_args();
    criterion = criterion.sample_size(10);
    fillings(&mut criterion);
    events(&mut criterion);
    criterion.final_summary();
}
