//! What the simulator says of the very stripes, links and applications of the testbed.
//!
//! Place: beside an emulated repair. Links have their goodput, as they have on the testbed; nothing
//! that agents or the kernel cost is in it, so that a difference is theirs. What applications take
//! is not reported, here as there, and they make the very requests. Policies that choose by chance
//! choose otherwise in each draw.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use suture_repair::cluster::Rate;
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::stripe::Stripe;
use suture_sim::bandwidth_trace::BandwidthTrace;
use suture_sim::capacity::{Capacities, Straggler};
use suture_sim::client::{MovedRequest, percentile};
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::fluid_agents::Dispatched;
use suture_sim::scenario::{Foreground, Overheads, Scenario};
use suture_sim::simulate::{Outcome as Simulated, alone, simulate, timeline_links};
use suture_sim::timeline::{Bucket, Timeline};

use super::chance::{SLOWEST, percentile_within};
use crate::cpu_time::cpu_ns;
use crate::reproduce::emulated::Within;
use crate::testbed::applications::Applications;
use crate::testbed::full_links::{FULL, FullShare, LinkSteps};
use crate::testbed::requests::{LoopLogs, SEED};
use crate::testbed::scenario::{Declared, Experiment};
use crate::testbed::shaping::GOODPUT;
use crate::testbed::watch::goodput_cluster;

/// So many draws of the repair of one chunk, which may turn on a single congested link and costs
/// next to nothing to simulate.
const CHUNK_DRAWS: usize = 25;

/// So many draws of the repair of a node.
const NODE_DRAWS: usize = 7;

/// Buckets of a timeline, and the seconds that are looked at together, as on the testbed.
const BUCKETS: usize = 4096;
const STEP_SECONDS: f64 = 0.5;

/// How many draws there are, of which the one in the middle counts.
pub fn draw_count(is_single: bool) -> usize {
    if is_single { CHUNK_DRAWS } else { NODE_DRAWS }
}

/// What one simulated repair came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Where what it chose by chance began.
    pub seed: u64,
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
    /// What its coordinator did.
    pub dispatched: Dispatched,
    /// What applications took, if there were any.
    pub requests: Option<DrawnRequests>,
}

/// What requests took in a simulated repair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrawnRequests {
    /// Beside the repair, in seconds, client by client in the order in which they were made.
    pub beside: Vec<Vec<f64>>,
    /// The same requests without a repair.
    pub alone: Vec<Vec<f64>>,
    /// At the 99th percentile beside it, in milliseconds.
    pub p99_ms: f64,
    /// Within what that lies by chance.
    pub p99_within: Option<Within>,
    /// At the 99th percentile without a repair, in milliseconds.
    pub alone_p99_ms: f64,
    /// How much longer clients took beside the repair, as a part.
    pub degree: f64,
    /// When bytes of requests beside it moved.
    pub moved: Vec<MovedRequest>,
    /// What links of nodes carried meanwhile.
    pub links: LinkSteps,
}

impl DrawnRequests {
    /// How many requests each client came to with a repair and without, here and on the testbed.
    pub fn common_counts(&self, logs: &LoopLogs) -> Vec<usize> {
        let (beside, alone) = (logs.beside.seconds(), logs.alone.seconds());
        common(&[&beside[..], &alone[..], &self.beside[..], &self.alone[..]])
    }
}

/// How many requests each client came to in all of these runs.
pub fn common(runs: &[&[Vec<f64>]]) -> Vec<usize> {
    let clients = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    let of_client = |client: usize| runs.iter().map(|run| run[client].len()).min().unwrap_or(0);
    (0..clients).map(of_client).collect()
}

/// A draw that is simulated again, with requests that have another share of links.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedDraw {
    /// What requests had of full links.
    pub full_share: FullShare,
    /// Planning, and from the first dispatch to the last chunk.
    pub seconds: f64,
    /// What requests took, in seconds, client by client in the order in which they were made.
    pub beside: Vec<Vec<f64>>,
}

/// What is simulated beside an emulated repair.
#[derive(Clone, Copy, Debug)]
pub struct Predictor<'a> {
    /// The experiment that is measured.
    pub bed: &'a Experiment,
    /// A node that turns slow without a notification.
    pub slow: Option<Straggler>,
    /// What is stored, and where it lies.
    pub stripes: &'a [Stripe],
    /// How it is repaired.
    pub policy: Policy,
}

impl Predictor<'_> {
    /// Simulates the repair several times, the fastest draw first.
    ///
    /// # Errors
    /// When the simulator does not rebuild all of it.
    pub fn draws(&self) -> Result<Vec<Draw>> {
        let count = draw_count(self.bed.stripes == 1);
        let results: Vec<OnceLock<Result<Draw>>> = (0..count).map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let worker = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(result) = results.get(index) else { return };
                let drawn = draw(&self.scenario(index as u64 + 1));
                result.set(drawn).expect("each draw is taken once");
            }
        };
        // Nothing else is measured meanwhile.
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            let workers = (0..cores.min(count)).map(|_| scope.spawn(worker));
            let workers: Vec<_> = workers.collect();
            for worker in workers {
                // What one that panicked has not drawn is missing below.
                let _ = worker.join();
            }
        });
        let drawn = |result: OnceLock<Result<Draw>>| {
            result.into_inner().unwrap_or_else(|| Err(anyhow!("the simulation has panicked")))
        };
        let mut draws = results.into_iter().map(drawn).collect::<Result<Vec<Draw>>>()?;
        draws.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok(draws)
    }

    /// What each client's requests take beside a draw if lanes between the same two nodes share a
    /// connection, as they do on sockets; `None` without applications.
    pub fn by_connection(&self, seed: u64) -> Option<Vec<Vec<f64>>> {
        let scenario = self.scenario(seed);
        let by_connection = Foreground { is_by_connection: true, ..scenario.foreground? };
        let scenario =
            Scenario { foreground: Some(by_connection), timeline_buckets: None, ..scenario };
        Some(whole(&scenario)?.foreground?.by_client)
    }

    /// A draw again, in which requests have so many times the share of links that they have in it,
    /// that of a lane, and what the first operations of each client, so many, have of full links;
    /// `None` without applications, or where too few of them move on full links.
    pub fn with_share(&self, seed: u64, share_factor: f64, counts: &[usize]) -> Option<SharedDraw> {
        let scenario = self.scenario(seed);
        let shared = Foreground { share_factor, ..scenario.foreground? };
        let scenario = Scenario { foreground: Some(shared), ..scenario };
        let simulated = whole(&scenario)?;
        let (seconds, links) = (seconds(&simulated), links(&scenario, &simulated)?);
        let served = simulated.foreground?;
        let full_share = links.full_share(&served.moved, counts)?;
        Some(SharedDraw { full_share, seconds, beside: served.by_client })
    }

    fn scenario(&self, seed: u64) -> Scenario {
        let bed = self.bed;
        let is_lost = |node: NodeId| bed.failed.contains(&node);
        let is_hit =
            |stripe: &&Stripe| stripe.chunks.iter().any(|chunk| chunk.node.is_some_and(is_lost));
        Scenario {
            capacities: capacities(bed, self.slow),
            stripes: self.stripes.iter().filter(is_hit).cloned().collect(),
            failed: bed.failed.clone(),
            silent: Vec::new(),
            free_bytes: Vec::new(),
            policy: self.policy,
            seed,
            overheads: Overheads::default(),
            foreground: match bed.load {
                Some(Applications::Closed(load)) => {
                    let foreground = Foreground::new(load.workload, load.clients);
                    Some(Foreground { seed: Some(SEED), is_recorded: true, ..foreground })
                }
                Some(Applications::Open(_)) | None => None,
            },
            timeline_buckets: Some(BUCKETS),
            exact_entries: EXACT_ENTRIES,
            throttle: None,
        }
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
    let timeline = simulated.timeline.as_ref().context("no timeline was recorded")?;
    let links = timeline_links(scenario).len();
    Ok(Draw {
        seed: scenario.seed,
        seconds: seconds(&simulated),
        planning_seconds: planning_seconds(&simulated),
        busiest_part: busiest_part(timeline, links),
        full_part: full_part(timeline, links),
        sent_bytes: simulated.load.moved_bytes() as f64,
        dispatched: simulated.dispatched,
        requests: requests(scenario, &simulated),
    })
}

/// What is simulated, if all of it is rebuilt.
fn whole(scenario: &Scenario) -> Option<Simulated> {
    let simulated = simulate(scenario, &mut cpu_ns);
    let is_whole = simulated.given_up.is_none() && simulated.unrepaired.is_empty();
    is_whole.then_some(simulated)
}

fn planning_seconds(simulated: &Simulated) -> f64 {
    simulated.planning_ns as f64 / 1e9
}

/// Planning, and from the first dispatch to the last chunk.
fn seconds(simulated: &Simulated) -> f64 {
    planning_seconds(simulated) + simulated.seconds
}

/// What part of what it could the busiest link carried.
fn busiest_part(timeline: &Timeline, links: usize) -> f64 {
    (0..links).map(|link| part(timeline, link, 0..timeline.len())).fold(0.0, f64::max)
}

/// In what part of the time some link was full, half a second at a time.
fn full_part(timeline: &Timeline, links: usize) -> f64 {
    let steps = steps(timeline);
    let is_full = |buckets: &&Range<usize>| {
        (0..links).any(|link| part(timeline, link, (*buckets).clone()) >= FULL)
    };
    steps.iter().filter(is_full).count() as f64 / steps.len().max(1) as f64
}

/// The buckets of a timeline, in steps of half a second.
fn steps(timeline: &Timeline) -> Vec<Range<usize>> {
    let step = ((STEP_SECONDS / timeline.width()).round() as usize).max(1);
    let firsts = (0..timeline.len()).step_by(step);
    firsts.map(|first| first..(first + step).min(timeline.len())).collect()
}

/// What part of what it could a link carried in some buckets.
fn part(timeline: &Timeline, link: usize, buckets: Range<usize>) -> f64 {
    let Bucket { carried, possible } = sum(timeline, link, buckets);
    if possible > 0.0 { carried / possible } else { 0.0 }
}

/// What a link did in some buckets together.
fn sum(timeline: &Timeline, link: usize, buckets: Range<usize>) -> Bucket {
    let mut sum = Bucket::default();
    for bucket in buckets {
        let found = timeline.get(bucket, link);
        sum.carried += found.carried;
        sum.possible += found.possible;
    }
    sum
}

/// What links of nodes carried, in steps as on the testbed; `None` without applications.
fn links(scenario: &Scenario, simulated: &Simulated) -> Option<LinkSteps> {
    let (served, timeline) = (simulated.foreground.as_ref()?, simulated.timeline.as_ref()?);
    let (nodes, steps) = (scenario.capacities.cluster().nodes.len(), steps(timeline));
    // The last bucket is not over when the simulation is.
    let over = served.moved.iter().map(|request| request.to).fold(simulated.seconds, f64::max);
    let end = |buckets: &Range<usize>| (buckets.end as f64 * timeline.width()).min(over);
    let link = |link: usize| -> Vec<Bucket> {
        steps.iter().map(|buckets| sum(timeline, link, buckets.clone())).collect()
    };
    // In the order of `timeline_links`: a node's uplink, then its downlink.
    Some(LinkSteps {
        ends: steps.iter().map(end).collect(),
        up: (0..nodes).map(|node| link(2 * node)).collect(),
        down: (0..nodes).map(|node| link(2 * node + 1)).collect(),
    })
}

/// What applications took, if there were any that ended something.
fn requests(scenario: &Scenario, simulated: &Simulated) -> Option<DrawnRequests> {
    let beside = simulated.foreground.as_ref()?;
    let alone = alone(scenario, beside);
    if beside.latencies.is_empty() || alone.client_seconds <= 0.0 {
        return None;
    }
    let p99_ms = |of: &[f64]| 1e3 * percentile(of, SLOWEST);
    Some(DrawnRequests {
        p99_ms: p99_ms(&beside.latencies),
        p99_within: percentile_within(&beside.latencies, SLOWEST),
        alone_p99_ms: p99_ms(&alone.latencies),
        degree: beside.client_seconds / alone.client_seconds - 1.0,
        moved: beside.moved.clone(),
        links: links(scenario, simulated)?,
        beside: beside.by_client.clone(),
        alone: alone.by_client,
    })
}

/// A stripe's nodes, chunk by chunk.
pub fn nodes_of(stripe: &Stripe) -> Vec<NodeId> {
    stripe.chunks.iter().filter_map(|chunk| chunk.node).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use suture_repair::id::{Generation, Stamp, StripeId};
    use suture_repair::stripe::ChunkRecord;

    use super::*;
    use crate::testbed::requests::{RequestLog, RequestTime};

    const SCENARIO: &str = "code = \"rs(2,1)\"\nchunk_size = \"1MiB\"\nstripes = 4\n\
        policies = [\"cr\"]\n[cluster]\nnodes = 5\nbandwidth = \"1MB\"\n[failure]\n\
        nodes = [\"n0\"]\n";

    pub fn bed(more: &str) -> Experiment {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{SCENARIO}{more}")).unwrap();
        Experiment::read(file.path()).unwrap()
    }

    pub fn predictor<'a>(
        bed: &'a Experiment,
        slow: Option<Straggler>,
        stripes: &'a [Stripe],
    ) -> Predictor<'a> {
        Predictor { bed, slow, stripes, policy: "cr".parse().unwrap() }
    }

    /// What a testbed would log if requests had so many times their share there.
    pub fn logs_with_share(predictor: &Predictor<'_>, seed: u64, share_factor: f64) -> LoopLogs {
        let scenario = predictor.scenario(seed);
        let foreground = scenario.foreground.map(|load| Foreground { share_factor, ..load });
        let scenario = Scenario { foreground, ..scenario };
        let simulated = whole(&scenario).unwrap();
        let links = links(&scenario, &simulated).unwrap();
        let served = simulated.foreground.unwrap();
        let log = |by_client: &[Vec<f64>], moved| {
            let time = |seconds: &f64| RequestTime { seconds: *seconds, waited: 0.0 };
            let times = |all: &Vec<f64>| all.iter().map(time).collect();
            RequestLog { clients: by_client.iter().map(times).collect(), moved }
        };
        let alone = alone(&scenario, &served).by_client;
        let beside = log(&served.by_client, served.moved);
        LoopLogs { alone: log(&alone, Vec::new()), beside, links }
    }

    fn draws(bed: &Experiment, slow: Option<Straggler>, stripes: &[Stripe]) -> Vec<Draw> {
        predictor(bed, slow, stripes).draws().unwrap()
    }

    pub fn stripes(count: u64) -> Vec<Stripe> {
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
        let all = draws(&bed, None, &stripes(3));
        assert_eq!(all.len(), NODE_DRAWS);
        let mut seeds: Vec<u64> = all.iter().map(|draw| draw.seed).collect();
        seeds.sort_unstable();
        assert_eq!(seeds, (1..=NODE_DRAWS as u64).collect::<Vec<u64>>());
        assert!(all.windows(2).all(|pair| pair[0].seconds <= pair[1].seconds));
        // Two chunks from two helpers each: two megabytes leave every helper.
        let bytes = 2.0 * 2.0 * f64::from(1 << 20);
        let least = 2.0 * f64::from(1 << 20) / (1e6 * GOODPUT);
        for draw in &all {
            assert!((draw.sent_bytes - bytes).abs() < 1.0, "{draw:?}");
            assert!(draw.seconds >= least && draw.busiest_part <= 1.0 + 1e-9, "{draw:?}");
            assert!(draw.full_part > 0.5 && draw.requests.is_none(), "{draw:?}");
            assert_eq!((draw.dispatched.begun_bytes, draw.dispatched.replaced), (bytes as u64, 0));
        }
    }

    #[test]
    fn applications_of_the_testbed_are_those_of_the_simulator() {
        let bed = bed("[load]\nworkload = \"ycsb-a\"\nclients = 2\nclosed = true\n");
        let stripes = stripes(12);
        let all = draws(&bed, None, &stripes);
        for draw in &all {
            let requests = draw.requests.as_ref().unwrap();
            assert!(requests.degree > 0.0 && requests.p99_ms > 0.0, "{requests:?}");
            let lengths = |all: &[Vec<f64>]| all.iter().map(Vec::len).collect::<Vec<usize>>();
            assert_eq!(lengths(&requests.beside), lengths(&requests.alone));
            assert!(requests.p99_within.unwrap().least <= requests.p99_ms, "{requests:?}");
        }
        // Lanes from one node to the same other one leave more to a request, if they are shared.
        let connected = predictor(&bed, None, &stripes).by_connection(all[0].seed).unwrap();
        let mean = |clients: &[Vec<f64>]| {
            let all = clients.concat();
            all.iter().sum::<f64>() / all.len() as f64
        };
        assert!(mean(&connected) < mean(&all[0].requests.as_ref().unwrap().beside));
    }

    #[test]
    fn single_chunks_are_drawn_more_often() {
        let text = SCENARIO.replace("stripes = 4", "stripes = 1");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let bed = Experiment::read(file.path()).unwrap();
        // The last of these stripes does not lie on the node that fails.
        assert_eq!(draws(&bed, None, &stripes(2)).len(), draw_count(true));
    }

    #[test]
    fn a_node_that_turns_slow_makes_a_repair_longer() {
        let bed = bed("");
        let seconds = |slow| {
            let all = draws(&bed, slow, &stripes(9));
            all[all.len() / 2].seconds
        };
        let slow = Straggler { node: NodeId(2), factor: 0.2, from: 1.0, to: f64::INFINITY };
        assert!(seconds(Some(slow)) > 1.5 * seconds(None));
    }
}
