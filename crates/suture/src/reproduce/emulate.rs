//! The same experiments as processes on an emulated network, where that can be done.
//!
//! Place: the whole life of a repair, on real sockets, beside what the simulator says of the very
//! same stripes and links. Rates and chunks are scaled down, so that one machine carries all nodes;
//! what it costs the machine is measured too, since a full processor measures nothing of links.

use std::time::Duration;

use anyhow::{Context, Result};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::stripe::Stripe;
use suture_sim::capacity::Capacities;
use suture_sim::fluid::EXACT_ENTRIES;
use suture_sim::scenario::{Overheads, Scenario};
use suture_sim::simulate::simulate;
use suture_sim::trace::Trace;
use suture_sim::workload::Workload;

use super::experiment::{PanelPoint, Paper, PaperExperiment, Series};
use super::folder::{Emulated, EmulatedRow};
use super::setting::{Between, FigureSetting, Lost, Start, To};
use super::table::shown;
use super::traces::Traces;
use crate::testbed::applications::{Applications, Felt};
use crate::testbed::campaign::{self, Campaign};
use crate::testbed::figures::{Limit, Medians};
use crate::testbed::replay::{LinkTraces, replayable};
use crate::testbed::scenario::{ChunkPlace, Experiment as Bed, Told};
use crate::testbed::shaping::GOODPUT;

/// Links are so much slower than the paper's, and chunks so much shorter.
const LINKS: f64 = 50.0;
const CHUNKS: u64 = 32;

/// What a link carries at most, in bytes per second: more of them fill the processor.
const LINK_MAX: f64 = 2.5e6;

/// As many chunks are lost as stripes give, about; of single chunks at least some.
const LOST: usize = 24;
const LOST_FEW: usize = 3;

/// The memory of an agent, and how long a repair may take.
const AGENT_MEMORY: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(300);

/// Values of 512 KiB, as in the papers, that take about a twentieth of the links.
const APPLICATIONS: Applications = Applications {
    workload: Workload::YcsbA,
    rate: 8.0,
    clients: 8,
    objects: 30,
    value_max: 512 << 10,
    alone: Duration::from_secs(10),
};

/// Differences above this are explained.
const NEAR: f64 = 0.1;

/// Which points of which panels are emulated. What a figure has beside that would not differ: at
/// higher rates this machine's processor is the limit. RepairBoost's Figure 10 is processor time,
/// which is measured and not simulated anyway.
const POINTS: &[(Paper, &str, &str, &[&str])] = &[
    (Paper::RepairBoost, "fig9", "bandwidth", &["0.5 Gb/s", "1 Gb/s"]),
    (Paper::RepairBoost, "fig11", "sums", &["RS(6,3)", "LRC(6,2,2)"]),
    (Paper::PivotRepair, "fig5", "TPC-H, congested", &["(6,4)", "(9,6)"]),
    (Paper::PivotRepair, "fig6", "chunk size", &["32 MiB", "64 MiB", "128 MiB"]),
    (Paper::ChameleonEc, "fig12", "throughput", &["YCSB-A", "IBM"]),
    (Paper::ChameleonEc, "fig13", "degree", &["YCSB-A", "IBM"]),
    (Paper::ChameleonEc, "fig18", "throughput", &["1 Gb/s"]),
    (Paper::ChameleonEc, "fig22", "whole repair", &["0 s", "5 s"]),
    (Paper::Butterfly, "network", "traffic", &["RS, k=5", "Butterfly, k=5", "RS, k=7"]),
];

/// What is measured of an experiment on the emulated network; `None` where nothing is.
///
/// # Errors
/// Bad input where networks cannot be made; a failure when it is interrupted.
pub fn perform(
    experiment: &PaperExperiment,
    repetitions: usize,
    traces: &Traces,
) -> Result<Option<Emulated>> {
    let listed =
        POINTS.iter().find(|(paper, id, ..)| (*paper, *id) == (experiment.paper, experiment.id));
    let Some((_, _, panel, labels)) = listed else { return Ok(None) };
    let Some(panel) = experiment.panels.iter().find(|found| found.title == *panel) else {
        return Ok(None);
    };
    let mut rows = Vec::new();
    for point in panel.points.iter().filter(|point| labels.contains(&point.label)) {
        rows.extend(measure(experiment, point, panel.series, repetitions, traces)?);
    }
    let scale = format!(
        "links carry a {LINKS:.0}th of the paper's rate, at most 20 Mbit/s, and chunks have a {CHUNKS}nd of its bytes, \
         {repetitions} repetitions on {}; disks are memory; rebuilt chunks go to any node; the \
         simulator has the very stripes and the goodput of the links",
        crate::testbed::usage::machine_name(),
    );
    Ok(Some(Emulated { scale, rows }))
}

/// One point under every policy that agents can execute.
fn measure(
    experiment: &PaperExperiment,
    point: &PanelPoint,
    series: &[Series],
    repetitions: usize,
    traces: &Traces,
) -> Result<Vec<EmulatedRow>> {
    let bed = bed(experiment, point, series, repetitions, traces)?;
    let mut campaign = Campaign::new(bed);
    campaign::measure(&mut campaign, |campaign, network| {
        errln!("{} at {}: testbed {}", campaign.experiment.title, point.label, network.run());
    })?;
    let mut rows = Vec::new();
    for series in series {
        let policy: Policy = series.policy.parse()?;
        let (Some(medians), Some(typical)) = (campaign.medians(policy), campaign.typical(policy))
        else {
            continue;
        };
        let simulated = predict(&campaign.experiment, &typical.stripes, policy)?;
        rows.push(EmulatedRow {
            label: point.label.to_string(),
            series: series.name.to_string(),
            simulated_seconds: simulated,
            measured_seconds: medians.seconds,
            bound_seconds: medians.bound_seconds,
            limit: medians.limit.name().to_string(),
            felt: medians.felt.as_ref().map(felt).unwrap_or_default(),
            why: why(simulated, &medians),
        });
    }
    Ok(rows)
}

/// The setting as a scenario of the testbed.
fn bed(
    experiment: &PaperExperiment,
    point: &PanelPoint,
    series: &[Series],
    repetitions: usize,
    traces: &Traces,
) -> Result<Bed> {
    let setting = &point.setting;
    let code = setting.code()?;
    let cluster = cluster(setting);
    let lost = match setting.lost {
        Lost::Chunks(1) => LOST_FEW,
        Lost::Chunks(_) | Lost::OfStripes(_) => LOST,
    };
    let stripes = (lost * setting.nodes).div_ceil(code.chunk_count()) as u64;
    let alignment = code.alignment() as u64;
    let policies = series.iter().map(|series| series.policy.parse::<Policy>());
    let policies: Vec<Policy> = policies.collect::<Result<_, _>>()?;
    let serves = |policy: &Policy| crate::executable::refusal(*policy, &code).is_none();
    Ok(Bed {
        title: experiment.name(),
        traces: link_traces(setting, &cluster, traces),
        code,
        chunk_bytes: (setting.chunk_bytes / CHUNKS).next_multiple_of(alignment),
        stripes,
        placement_seed: 1,
        failed: vec![NodeId(0)],
        drains: false,
        policies: policies.into_iter().filter(serves).collect(),
        repetitions,
        // Whoever measured links before a repair knew what they had at its beginning.
        told: if setting.trace.is_some() { Told::Beginning } else { Told::Links },
        chunks: ChunkPlace::Memory,
        agent_memory: AGENT_MEMORY,
        timeout: TIMEOUT,
        load: load(setting)?,
        rest: Duration::ZERO,
        told_times: 1.0,
        faults: Vec::new(),
        expectations: Vec::new(),
        cluster,
    })
}

/// Applications that take a small part of the links, as the paper's do: requests come at a rate,
/// whatever a repair does to them.
fn load(setting: &FigureSetting) -> Result<Option<Applications>> {
    let Some((workload, _)) = setting.foreground.filter(|_| setting.straggler.is_none()) else {
        return Ok(None);
    };
    let workload: Workload = workload.parse()?;
    Ok(Some(Applications { workload, ..APPLICATIONS }))
}

/// What a client that begins a request when its last one is answered would feel.
fn felt(felt: &Felt) -> String {
    format!(
        "applications' P99 {} ms, {} ms without a repair; interference degree {}",
        shown(felt.beside.p99_ms),
        shown(felt.alone.p99_ms),
        shown(felt.interference()),
    )
}

fn cluster(setting: &FigureSetting) -> Cluster {
    debug_assert!(setting.between == Between::Unlimited && setting.racks.is_empty());
    debug_assert!(matches!(setting.to, To::Anywhere | To::Replacement));
    Cluster::uniform(setting.nodes, Rate((setting.link / LINKS).min(LINK_MAX)))
}

/// What links follow: a trace of the paper scaled down, or a node that turns slow.
fn link_traces(setting: &FigureSetting, cluster: &Cluster, traces: &Traces) -> LinkTraces {
    if let Some((factor, from)) = setting.straggler {
        let rate = |node: usize, second: u64| {
            if node == 1 && second as f64 >= from {
                Rate(cluster.nodes[node].uplink.0 * factor)
            } else {
                cluster.nodes[node].uplink
            }
        };
        let row = |second| (0..cluster.nodes.len()).map(|node| rate(node, second)).collect();
        let trace = Trace::from_rows((0..TIMEOUT.as_secs()).map(row).collect());
        return LinkTraces { uplinks: Some(trace.clone()), downlinks: Some(trace) };
    }
    let Some((name, start)) = setting.trace else { return LinkTraces::default() };
    let (up, down) = traces.of(name);
    let second = match start {
        Start::Random => Random::new(1).below(up.seconds()),
        Start::Congested => (0..up.seconds())
            .find(|second| super::traces::is_partly_congested(up, down, *second))
            .unwrap_or(0),
    };
    let scaled = |trace: &Trace| {
        let rate = |node, second| Rate(trace.rate(node, second).0 / LINKS);
        let row = |second| (0..cluster.nodes.len()).map(|node| rate(node, second)).collect();
        let trace = Trace::from_rows((0..trace.seconds()).map(row).collect());
        Some(replayable(&trace, cluster, second))
    };
    LinkTraces { uplinks: scaled(up), downlinks: scaled(down) }
}

/// The same stripes, links and policy in the simulator.
fn predict(bed: &Bed, stripes: &[Stripe], policy: Policy) -> Result<f64> {
    let is_hit = |stripe: &&Stripe| {
        stripe.chunks.iter().any(|chunk| chunk.node.is_some_and(|node| bed.failed.contains(&node)))
    };
    let goodput = |trace: &Option<Trace>| {
        trace.as_ref().map(|trace| {
            let row = |second| {
                let rate = |node| Rate(trace.rate(node, second).0 * GOODPUT);
                (0..bed.cluster.nodes.len()).map(rate).collect()
            };
            Trace::from_rows((0..trace.seconds()).map(row).collect())
        })
    };
    let cluster = crate::testbed::watch::goodput_cluster(&bed.cluster);
    let (up, down) = (goodput(&bed.traces.uplinks), goodput(&bed.traces.downlinks));
    let scenario = Scenario {
        capacities: Capacities::new(cluster, up, down, Vec::new()),
        stripes: stripes.iter().filter(is_hit).cloned().collect(),
        failed: bed.failed.clone(),
        silent: Vec::new(),
        free_bytes: Vec::new(),
        policy,
        seed: 1,
        overheads: Overheads::default(),
        foreground: None,
        timeline_buckets: None,
        exact_entries: EXACT_ENTRIES,
        throttle: None,
    };
    let simulated = simulate(&scenario, &mut || 0);
    (simulated.unrepaired.is_empty() && !simulated.rebuilt.is_empty())
        .then_some(simulated.seconds)
        .context("the simulator rebuilt less than the testbed")
}

/// Why a time on the testbed is another than in the simulator; nothing where it hardly is.
fn why(simulated: f64, medians: &Medians) -> String {
    let apart = medians.seconds / simulated - 1.0;
    if apart.abs() <= NEAR {
        return String::new();
    }
    let percent = shown(100.0 * apart.abs());
    let busy = shown(100.0 * medians.processor_part);
    // What the busiest link carried would fill it for so long: a repair is longer than simulated by
    // what it carried more, and by how long it was idle.
    let part = medians.busiest_link_part;
    let carried = medians.seconds * part / simulated - 1.0;
    let (carried, more) =
        (shown(100.0 * carried.abs()), if carried < 0.0 { "less" } else { "more" });
    let idle = shown(100.0 * (1.0 - part).max(0.0));
    match (apart > 0.0, medians.limit) {
        (true, Limit::Processor | Limit::Both) => format!(
            "{percent} % longer: the processor was full ({busy} % of all cores), so that the time \
             is the machine's and not the links'"
        ),
        (true, Limit::Links | Limit::Neither) if medians.felt.is_some() => format!(
            "{percent} % longer: applications use links and disks too, which this simulation leaves \
             out, besides publishing and committing"
        ),
        (true, Limit::Links | Limit::Neither) => format!(
            "{percent} % longer: the busiest link carried {carried} % {more} than fills it in the \
             simulated time, and was idle for {idle} % of the repair"
        ),
        (false, _) => format!(
            "{percent} % shorter: the testbed's coordinator drew other nodes for the same stripes, \
             or links gave more than their goodput in their first moments"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_time_is_told_by_what_the_busiest_link_carried_and_how_long_it_was_idle() {
        let medians = Medians {
            repetitions: 3,
            seconds: 15.0,
            seconds_range: (15.0, 15.0),
            bound_seconds: 9.0,
            percent_of_bound: 60.0,
            agent_processor_seconds_per_gb: 1.0,
            agent_processor_part: 0.1,
            processor_part: 0.2,
            agent_peak_memory_bytes: None,
            busiest_link_part: 0.8,
            limit: Limit::Links,
            felt: None,
        };
        let said = why(10.0, &medians);
        let carried = "carried 20.0 % more than fills it in the simulated time";
        assert!(said.starts_with("50.0 % longer") && said.contains(carried), "{said}");
        assert!(said.ends_with("idle for 20.0 % of the repair"), "{said}");
        assert_eq!(why(14.9, &medians), "");
    }
}
