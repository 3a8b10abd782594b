//! What the simulator says of the very stripes, links and applications of the testbed.
//!
//! Place: beside an emulated repair. Links have their goodput, as they have on the testbed; nothing
//! that agents or the kernel cost is in it, so that a difference is theirs. What applications take
//! is not reported, here as there. Policies that choose by chance choose otherwise in each draw.

use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::stripe::Stripe;
use suture_sim::bandwidth_trace::BandwidthTrace;
use suture_sim::capacity::{Capacities, Straggler};
use suture_sim::client::{Served, percentile};
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Foreground, Overheads, Scenario};
use suture_sim::simulate::{Outcome as Simulated, alone, simulate, timeline_links};
use suture_sim::timeline::Timeline;

use crate::cpu_time::cpu_ns;
use crate::testbed::applications::Applications;
use crate::testbed::figures::FULL;
use crate::testbed::scenario::{Declared, Experiment};
use crate::testbed::shaping::GOODPUT;
use crate::testbed::watch::goodput_cluster;

/// So many draws, of which the one in the middle counts.
pub const DRAWS: u64 = 5;

/// Buckets of a timeline, and the seconds that are looked at together, as on the testbed.
const BUCKETS: usize = 240;
const STEP_SECONDS: f64 = 0.5;

/// What one simulated repair came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Planning, and from the first dispatch to the last chunk.
    pub seconds: f64,
    /// Processor seconds of planning.
    pub planning_seconds: f64,
    /// What part of what it could the link carried that carried most of it.
    pub busiest_part: f64,
    /// In what part of the time some link was full.
    pub full_part: f64,
    /// All that nodes sent for the repair.
    pub sent_bytes: f64,
    /// What applications took, if there were any.
    pub requests: Option<DrawnRequests>,
}

/// What requests took in a simulated repair, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnRequests {
    /// On average beside the repair.
    pub mean_ms: f64,
    /// At the 99th percentile beside it.
    pub p99_ms: f64,
    /// The same requests without a repair, on average.
    pub alone_ms: f64,
    /// At the 99th percentile without a repair.
    pub alone_p99_ms: f64,
    /// How much longer clients took beside the repair, as a part.
    pub degree: f64,
}

/// Simulates the repair of these stripes several times, the fastest draw first; `slow` is a node
/// that turns slow without a notification.
///
/// # Errors
/// When the simulator does not rebuild all of it.
pub fn draws(
    bed: &Experiment,
    slow: Option<Straggler>,
    stripes: &[Stripe],
    policy: Policy,
) -> Result<Vec<Draw>> {
    let one = |seed| draw(&scenario(bed, slow, stripes, policy, seed));
    // Nothing else is measured meanwhile.
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=DRAWS).map(|seed| scope.spawn(move || one(seed))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let joined = |one: std::thread::Result<Result<Draw>>| {
        one.unwrap_or_else(|_| Err(anyhow!("the simulation has panicked")))
    };
    let mut draws = all.into_iter().map(joined).collect::<Result<Vec<Draw>>>()?;
    draws.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(draws)
}

fn scenario(
    bed: &Experiment,
    slow: Option<Straggler>,
    stripes: &[Stripe],
    policy: Policy,
    seed: u64,
) -> Scenario {
    let is_hit = |stripe: &&Stripe| {
        stripe.chunks.iter().any(|chunk| chunk.node.is_some_and(|node| bed.failed.contains(&node)))
    };
    Scenario {
        capacities: capacities(bed, slow),
        stripes: stripes.iter().filter(is_hit).cloned().collect(),
        failed: bed.failed.clone(),
        silent: Vec::new(),
        free_bytes: Vec::new(),
        policy,
        seed,
        overheads: Overheads::default(),
        foreground: match bed.load {
            Some(Applications::Closed(load)) => Some(Foreground::new(load.workload, load.clients)),
            Some(Applications::Open(_)) | None => None,
        },
        timeline_buckets: Some(BUCKETS),
        exact_entries: EXACT_ENTRIES,
        throttle: None,
    }
}

/// What links carry of payload over time.
fn capacities(bed: &Experiment, slow: Option<Straggler>) -> Capacities {
    let cluster = goodput_cluster(&bed.cluster);
    if let Some(slow) = slow {
        return Capacities::new(cluster, None, None, vec![slow]);
    }
    let nodes = bed.cluster.nodes.len();
    let followed = |trace: &Option<BandwidthTrace>| {
        let trace = trace.as_ref()?;
        let rate = |node, second| {
            let carried = trace.rate(node, second).0 * GOODPUT;
            // Agents keep to the rates that they were configured with.
            match bed.declared {
                Declared::Beginning => Rate(carried.min(trace.rate(node, 0).0)),
                Declared::Links | Declared::Nothing => Rate(carried),
            }
        };
        let row = |second| (0..nodes).map(|node| rate(node, second)).collect();
        Some(BandwidthTrace::from_rows((0..trace.seconds()).map(row).collect()))
    };
    let (up, down) = (followed(&bed.traces.uplinks), followed(&bed.traces.downlinks));
    Capacities::new(cluster, up, down, Vec::new())
}

fn draw(scenario: &Scenario) -> Result<Draw> {
    let simulated = simulate(scenario, &mut cpu_ns);
    if let Some(given_up) = simulated.given_up {
        return Err(anyhow!("{given_up}"));
    }
    let is_whole = simulated.unrepaired.is_empty() && !simulated.rebuilt.is_empty();
    is_whole.then_some(()).context("the simulator rebuilt less than the testbed")?;
    let planning_seconds = simulated.planning_ns as f64 / 1e9;
    let timeline = simulated.timeline.as_ref().context("no timeline was recorded")?;
    let links = timeline_links(scenario).len();
    Ok(Draw {
        seconds: planning_seconds + simulated.seconds,
        planning_seconds,
        busiest_part: busiest_part(timeline, links),
        full_part: full_part(timeline, links),
        sent_bytes: simulated.load.moved_bytes() as f64,
        requests: requests(scenario, &simulated),
    })
}

/// What part of what it could the busiest link carried.
fn busiest_part(timeline: &Timeline, links: usize) -> f64 {
    (0..links).map(|link| part(timeline, link, 0..timeline.len())).fold(0.0, f64::max)
}

/// In what part of the time some link was full, half a second at a time.
fn full_part(timeline: &Timeline, links: usize) -> f64 {
    let step = ((STEP_SECONDS / timeline.width()).round() as usize).max(1);
    let steps = timeline.len().div_ceil(step).max(1);
    let is_full = |at: &usize| {
        let buckets = at * step..((at + 1) * step).min(timeline.len());
        (0..links).any(|link| part(timeline, link, buckets.clone()) >= FULL)
    };
    (0..steps).filter(is_full).count() as f64 / steps as f64
}

/// What part of what it could a link carried in some buckets.
fn part(timeline: &Timeline, link: usize, buckets: Range<usize>) -> f64 {
    let (mut carried, mut possible) = (0.0, 0.0);
    for bucket in buckets {
        let found = timeline.get(bucket, link);
        carried += found.carried;
        possible += found.possible;
    }
    if possible > 0.0 { carried / possible } else { 0.0 }
}

/// What applications took, if there were any that ended something.
fn requests(scenario: &Scenario, simulated: &Simulated) -> Option<DrawnRequests> {
    let beside = simulated.foreground.as_ref()?;
    let alone = alone(scenario, beside);
    if beside.latencies.is_empty() || alone.client_seconds <= 0.0 {
        return None;
    }
    let ms = |seconds: f64| 1e3 * seconds;
    let mean = |of: &Served| of.latencies.iter().sum::<f64>() / of.latencies.len() as f64;
    let p99 = |of: &Served| percentile(&of.latencies, 0.99);
    Some(DrawnRequests {
        mean_ms: ms(mean(beside)),
        p99_ms: ms(p99(beside)),
        alone_ms: ms(mean(&alone)),
        alone_p99_ms: ms(p99(&alone)),
        degree: beside.client_seconds / alone.client_seconds - 1.0,
    })
}

/// A stripe's nodes, chunk by chunk.
pub fn nodes_of(stripe: &Stripe) -> Vec<NodeId> {
    stripe.chunks.iter().filter_map(|chunk| chunk.node).collect()
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{Generation, Stamp, StripeId};
    use suture_repair::stripe::ChunkRecord;

    use super::*;

    const SCENARIO: &str = "code = \"rs(2,1)\"\nchunk_size = \"1MiB\"\nstripes = 4\n\
        policies = [\"cr\"]\n[cluster]\nnodes = 5\nbandwidth = \"1MB\"\n[failure]\n\
        nodes = [\"n0\"]\n";

    fn bed(more: &str) -> Experiment {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{SCENARIO}{more}")).unwrap();
        Experiment::read(file.path()).unwrap()
    }

    fn stripes(count: u64) -> Vec<Stripe> {
        let record = |node: u64| ChunkRecord {
            node: Some(NodeId(node as u32)),
            stamp: Stamp(0),
            bytes: 1 << 20,
            crc: Some(0),
        };
        let stripe = |id: u64| Stripe {
            id: StripeId(id),
            code: "rs(2,1)".parse().unwrap(),
            chunk_bytes: 1 << 20,
            unit_bytes: 1 << 20,
            generation: Generation(0),
            // The last one does not lie on the node that fails.
            chunks: [u64::from(id + 1 == count), 2, 3].map(record).to_vec(),
        };
        (0..count).map(stripe).collect()
    }

    #[test]
    fn what_lies_on_the_failed_node_is_simulated_at_goodput() {
        let bed = bed("");
        let all = draws(&bed, None, &stripes(3), "cr".parse().unwrap()).unwrap();
        assert_eq!(all.len(), DRAWS as usize);
        assert!(all.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
        // Two chunks from two helpers each: two megabytes leave every helper.
        let bytes = 2.0 * 2.0 * f64::from(1 << 20);
        let least = 2.0 * f64::from(1 << 20) / (1e6 * GOODPUT);
        for draw in &all {
            assert!((draw.sent_bytes - bytes).abs() < 1.0, "{draw:?}");
            assert!(draw.seconds >= least && draw.busiest_part <= 1.0 + 1e-9, "{draw:?}");
            assert!(draw.full_part > 0.5 && draw.requests.is_none(), "{draw:?}");
        }
    }

    #[test]
    fn applications_of_the_testbed_are_those_of_the_simulator() {
        let bed = bed("[load]\nworkload = \"ycsb-a\"\nclients = 2\nclosed = true\n");
        let all = draws(&bed, None, &stripes(12), "cr".parse().unwrap()).unwrap();
        for draw in all {
            let requests = draw.requests.unwrap();
            assert!(requests.mean_ms > requests.alone_ms && requests.degree > 0.0, "{requests:?}");
            assert!(requests.p99_ms >= requests.mean_ms, "{requests:?}");
        }
    }

    #[test]
    fn a_node_that_turns_slow_makes_a_repair_longer() {
        let bed = bed("");
        let seconds = |slow| {
            let all = draws(&bed, slow, &stripes(9), "cr".parse().unwrap()).unwrap();
            all[all.len() / 2].seconds
        };
        let slow = Straggler { node: NodeId(2), factor: 0.2, from: 1.0, to: f64::INFINITY };
        assert!(seconds(Some(slow)) > 1.5 * seconds(None));
    }
}
