//! A setting of a paper as a scenario of the testbed, scaled down.
//!
//! Place: before anything of an emulated point is made. A scenario is written as `suture testbed
//! run` reads it, and read from there: what is kept of a point is what was measured.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use suture_code::Code;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::NodeId;
use suture_repair::policy::{Policy, Schedule};
use suture_repair::random::Random;
use suture_sim::bandwidth_trace::BandwidthTrace;
use suture_sim::capacity::Straggler;

use super::listed::{EmulatedFigure, EmulatedPoint, LostChunks};
use crate::input::Input;
use crate::reproduce::emulated::{DOWNLINKS, KeptScenario, UPLINKS, file_stem};
use crate::reproduce::experiment::{Extent, PaperExperiment};
use crate::reproduce::setting::{Between, FigureSetting};
use crate::reproduce::traces::Traces;
use crate::testbed::placing::first_stripe;
use crate::testbed::scenario::Experiment;

/// Links are so much slower than the paper's, and chunks so much shorter.
pub const LINKS: f64 = 50.0;
pub const CHUNKS: u64 = 32;

/// Where a whole node of ChameleonEC's is repaired, it takes so much less time.
pub const TIMES: u32 = 5;

/// What a link carries at most, in bytes per second: more of them fill the processor.
pub const LINK_MAX: f64 = 2.5e6;

/// The memory of an agent.
const AGENT_MEMORY: u64 = 64 << 20;

/// A repair that takes longer has failed: several times what the slowest policy takes.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Where a node turns slow, what waits for it takes longer by the part that it keeps of its links,
/// and half as much again for whatever else waits for that.
const SLOW_TIMES: f64 = 1.5;

/// How long applications are watched without a repair: about as long as beside a simulated one,
/// since only requests that were made in all runs are compared, or just enough to connect where
/// their waits are not measured.
const ALONE: Duration = Duration::from_secs(20);
const ALONE_MIN: Duration = Duration::from_secs(1);

/// Which stripe lies where, and in which second of a trace a repair begins.
const PLACEMENT_SEED: u64 = 1;
const START_SEED: u64 = 1;

/// The node that fails where many stripes have chunks on each, and the one that turns slow.
const FAILED: NodeId = NodeId(0);
const SLOW: NodeId = NodeId(1);

/// A point that can be measured.
#[derive(Clone, Debug)]
pub struct PointBed {
    /// What `suture testbed run` reads.
    pub kept: KeptScenario,
    /// The nodes of a single stripe, chunk by chunk, by which its links were chosen.
    pub first: Option<Vec<NodeId>>,
    /// A node that turns slow, of which no process is notified.
    pub slow: Option<Straggler>,
}

/// What is the same for all points of a figure.
pub struct BedRules<'a> {
    /// The figure that is emulated.
    pub figure: &'a EmulatedFigure,
    /// The same as it is simulated.
    pub experiment: &'a PaperExperiment,
    /// How often each policy is measured, at most, and whether in smaller settings.
    pub extent: Extent,
    /// What links have over time, where they change.
    pub traces: &'a Traces,
}

/// The policy as it is run where time is scaled down: its phases are.
pub fn scaled(policy: Policy) -> Policy {
    match policy.schedule {
        Schedule::Phases(seconds, order) => {
            Policy { schedule: Schedule::Phases((seconds / TIMES).max(1), order), ..policy }
        }
        _ => policy,
    }
}

impl PointBed {
    /// A point under these policies, which serve its code.
    ///
    /// # Errors
    /// When there is no such code.
    pub fn new(rules: &BedRules<'_>, at: &EmulatedPoint, policies: &[Policy]) -> Result<PointBed> {
        let setting = &rules.experiment.measured(at.point.setting, rules.extent);
        let code = setting.code()?;
        let cluster = cluster(setting);
        let first = first_stripe(&cluster, code, PLACEMENT_SEED);
        let is_single = rules.figure.lost == LostChunks::One;
        let failed = if is_single { first[0] } else { FAILED };
        let slow = setting.straggler.map(|(factor, from)| Straggler {
            node: SLOW,
            factor,
            from: from / f64::from(TIMES),
            to: f64::INFINITY,
        });
        let (uplinks, downlinks) = match (slow, setting.trace) {
            (Some(slow), _) => {
                let slowed = Some(slowed(&cluster, slow, timeout(setting)).csv());
                (slowed.clone(), slowed)
            }
            (None, Some(_)) => started(rules.traces, setting, &cluster, code, &first, failed),
            (None, None) => (None, None),
        };
        let (panel, label) = (at.panel.title.to_string(), at.point.label.to_string());
        let mut kept = KeptScenario { panel, label, toml: String::new(), uplinks, downlinks };
        kept.toml = toml_text(rules, setting, code, failed, policies, &kept);
        Ok(PointBed { kept, first: is_single.then_some(first), slow })
    }

    /// The scenario, as it is read from its file.
    ///
    /// # Errors
    /// When it cannot be written to a temporary file, or is no scenario that can be run.
    pub fn read(&self) -> Result<Experiment> {
        let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
        let stem = self.kept.file_stem();
        let path = folder.path().join(format!("{stem}.toml"));
        let write = |path: &std::path::Path, text: &str| {
            std::fs::write(path, text)
                .with_context(|| format!("cannot write the scenario '{}'", path.display()))
        };
        write(&path, &self.kept.toml)?;
        for (end, csv) in [(UPLINKS, &self.kept.uplinks), (DOWNLINKS, &self.kept.downlinks)] {
            if let Some(csv) = csv {
                write(&folder.path().join(format!("{stem}{end}")), csv)?;
            }
        }
        Experiment::read(&path)
    }
}

fn cluster(setting: &FigureSetting) -> Cluster {
    debug_assert!(setting.between == Between::Unlimited && setting.racks.is_empty());
    Cluster::uniform(setting.nodes, Rate((setting.link / LINKS).min(LINK_MAX)))
}

/// How long a repair may take.
fn timeout(setting: &FigureSetting) -> Duration {
    let times = setting.straggler.map_or(1.0, |(factor, _)| SLOW_TIMES / factor);
    TIMEOUT.mul_f64(times)
}

/// A trace of so many seconds as a repair may take.
fn trace(
    cluster: &Cluster,
    timeout: Duration,
    rate: impl Fn(NodeId, u64) -> Rate,
) -> BandwidthTrace {
    let row = |second| cluster.ids().map(|node| rate(node, second)).collect();
    BandwidthTrace::from_rows((0..timeout.as_secs()).map(row).collect())
}

/// What links have of which a node's turn slow, the same in both directions.
fn slowed(cluster: &Cluster, slow: Straggler, timeout: Duration) -> BandwidthTrace {
    trace(cluster, timeout, |node, second| {
        let rate = cluster.node(node).uplink;
        let is_slow = node == slow.node && second as f64 >= slow.from;
        Rate(if is_slow { rate.0 * slow.factor } else { rate.0 })
    })
}

/// What links follow from a second on that is drawn as the setting says, for the stripe that lies
/// on these nodes and of which one fails.
fn started(
    traces: &Traces,
    setting: &FigureSetting,
    cluster: &Cluster,
    code: Code,
    stripe: &[NodeId],
    failed: NodeId,
) -> (Option<String>, Option<String>) {
    let Some((name, start)) = setting.trace else { return (None, None) };
    let input = Input {
        cluster: cluster.clone(),
        code,
        chunk_bytes: setting.chunk_bytes,
        free_bytes: vec![u64::MAX; cluster.nodes.len()],
        excluded: Vec::new(),
        placement: stripe.to_vec(),
        failed: vec![failed],
        seed: START_SEED,
    };
    let random = &mut Random::new(START_SEED);
    let links = traces.starting(name, start, &input, random);
    let text = |found: &BandwidthTrace| {
        let rate = |node: NodeId, second| Rate(found.rate(node.index(), second).0 / LINKS);
        trace(cluster, timeout(setting), rate).csv()
    };
    (Some(text(&links.up)), Some(text(&links.down)))
}

/// Bytes of a chunk.
pub fn chunk_bytes(figure: &EmulatedFigure, setting: &FigureSetting, code: Code) -> u64 {
    let scaled = setting.chunk_bytes / CHUNKS;
    figure.chunk_bytes.unwrap_or(scaled).next_multiple_of(code.alignment() as u64)
}

fn toml_text(
    BedRules { figure, extent, .. }: &BedRules<'_>,
    setting: &FigureSetting,
    code: Code,
    failed: NodeId,
    policies: &[Policy],
    kept: &KeptScenario,
) -> String {
    let quoted = |text: String| toml::Value::String(text).to_string();
    let stripes = match figure.lost_chunks(*extent) {
        LostChunks::One => 1,
        LostChunks::About(lost) => (lost * setting.nodes).div_ceil(code.chunk_count()),
    };
    let name = format!("{}/{}", figure.paper, figure.id);
    let cluster = cluster(setting);
    let mut text = format!("# {name}, scaled down, as `suture testbed run` reads it.\n");
    let policies = policies.iter().map(|policy| quoted(policy.to_string()));
    let lines = [
        ("title", quoted(format!("{name}, {}, {}", kept.panel, kept.label))),
        ("code", quoted(code.to_string())),
        ("chunk_size", quoted(format!("{}B", chunk_bytes(figure, setting, code)))),
        ("stripes", stripes.to_string()),
        ("placement_seed", PLACEMENT_SEED.to_string()),
        ("policies", format!("[{}]", policies.collect::<Vec<_>>().join(", "))),
        ("repetitions", extent.repetitions.to_string()),
        ("agent_memory", quoted(format!("{AGENT_MEMORY}B"))),
        ("timeout", quoted(format!("{}s", timeout(setting).as_secs()))),
    ];
    for (key, value) in lines {
        let _ = writeln!(text, "{key} = {value}");
    }
    if !figure.rest.is_zero() {
        let _ = writeln!(text, "rest = \"{}ms\"", figure.rest.as_millis());
    }
    let (rate, failed) = (cluster.node(failed).uplink.0, &cluster.node(failed).name);
    let nodes = setting.nodes;
    let _ = writeln!(text, "\n[cluster]\nnodes = {nodes}\nbandwidth = \"{rate}B\"");
    let _ = writeln!(text, "\n[failure]\nnodes = [\"{failed}\"]");
    text + &replay_text(setting, kept) + &load_text(figure, setting)
}

/// The table of what links follow, if they follow anything.
fn replay_text(setting: &FigureSetting, kept: &KeptScenario) -> String {
    if kept.uplinks.is_none() && kept.downlinks.is_none() {
        return String::new();
    }
    let stem = file_stem(&kept.panel, &kept.label);
    let mut text = String::from("\n[replay]\n");
    for (key, end, csv) in
        [("uplinks", UPLINKS, &kept.uplinks), ("downlinks", DOWNLINKS, &kept.downlinks)]
    {
        if csv.is_some() {
            let _ = writeln!(text, "{key} = \"{stem}{end}\"");
        }
    }
    // Links can be measured before a repair; a node that turns slow is nowhere announced.
    if setting.straggler.is_none() {
        text += "declared = true\n";
    }
    text
}

/// The table of applications, if there are any.
fn load_text(figure: &EmulatedFigure, setting: &FigureSetting) -> String {
    let Some((workload, clients)) = setting.foreground else { return String::new() };
    let alone =
        if figure.shows.iter().any(|what| what.is_of_requests()) { ALONE } else { ALONE_MIN };
    format!(
        "\n[load]\nworkload = \"{workload}\"\nclients = {clients}\nclosed = true\nalone = \"{}s\"\n",
        alone.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::emulate::listed::{FIGURES, of};
    use crate::reproduce::papers;
    use crate::testbed::applications::Applications;
    use crate::testbed::network::PortName;
    use crate::testbed::scenario::Declared;

    fn bed(name: &str, label: &str, policies: &[&str]) -> (PointBed, Experiment) {
        let experiment = papers::find(name).unwrap()[0];
        let figure = of(experiment).unwrap();
        let traces = Traces::read(None).unwrap();
        let extent = Extent { repetitions: 3, is_quick: false };
        let rules = BedRules { figure, experiment, extent, traces: &traces };
        let points = figure.points(experiment);
        let at = points.iter().find(|at| at.point.label == label).unwrap();
        let policies: Vec<Policy> =
            policies.iter().map(|policy| scaled(policy.parse().unwrap())).collect();
        let bed = PointBed::new(&rules, at, &policies).unwrap();
        let read = bed.read().unwrap();
        assert_eq!((read.repetitions, read.policies.clone()), (3, policies));
        (bed, read)
    }

    #[test]
    fn every_listed_point_is_a_scenario_that_can_be_read() {
        let traces = Traces::read(None).unwrap();
        for figure in FIGURES {
            let is_it = |experiment: &&PaperExperiment| {
                (experiment.paper, experiment.id) == (figure.paper, figure.id)
            };
            let experiment = papers::all().find(is_it).unwrap();
            for at in figure.points(experiment) {
                let read = |is_quick| {
                    let extent = Extent { repetitions: 1, is_quick };
                    let rules = BedRules { figure, experiment, extent, traces: &traces };
                    let bed = PointBed::new(&rules, &at, &["cr".parse().unwrap()]).unwrap();
                    bed.read().unwrap_or_else(|why| panic!("{}: {why:#}", bed.kept.toml))
                };
                let (whole, quick) = (read(false), read(true));
                assert_eq!(whole.code, at.point.setting.code().unwrap());
                assert_eq!(whole.cluster.nodes.len(), at.point.setting.nodes);
                assert!(whole.cluster.nodes[0].uplink.0 <= LINK_MAX);
                assert_eq!(whole.load.is_some(), at.point.setting.foreground.is_some());
                assert!(quick.stripes <= whole.stripes);
                assert_eq!((quick.chunk_bytes, quick.code), (whole.chunk_bytes, whole.code));
            }
        }
    }

    #[test]
    fn a_single_chunk_is_one_of_the_failed_node_and_its_links_begin_as_they_are_told() {
        let (bed, read) = bed("pivotrepair/fig5", "(9,6)", &["rp", "pivot"]);
        assert_eq!((read.stripes, read.declared), (1, Declared::Beginning));
        let first = bed.first.unwrap();
        assert_eq!(read.failed, [first[0]]);
        assert_eq!(first.len(), 9);
        let rate = read.traces.rate(PortName::NodeUp(3), 0).unwrap();
        assert!(rate > 0.0 && rate <= LINK_MAX, "{rate}");
    }

    #[test]
    fn a_node_turns_slow_in_a_fifth_of_the_time_and_phases_are_a_fifth() {
        let (bed, read) = bed("chameleonec/fig22", "10 s", &["chameleon", "cr"]);
        let phases = read.policies[0].to_string();
        assert!(phases.contains("phases:4"), "{phases}");
        let slow = bed.slow.unwrap();
        assert_eq!((slow.from, read.declared), (2.0, Declared::Links));
        let at = |second| read.traces.rate(PortName::NodeUp(slow.node.index()), second).unwrap();
        assert!((at(1) - LINK_MAX).abs() < 1.0 && (at(2) / LINK_MAX - slow.factor).abs() < 1e-3);
        assert!(matches!(read.load, Some(Applications::Closed(load)) if load.clients > 0));
    }

    #[test]
    fn what_waits_for_a_slow_node_may_take_longer_and_it_stays_slow_until_then() {
        // Its links keep ten eighteenths, so that four minutes are 432 s, and half as much again.
        let (bed, read) = self::bed("chameleonec/fig22", "0 s", &["cr"]);
        let slow = bed.slow.unwrap();
        assert_eq!((read.timeout.as_secs(), TIMEOUT.as_secs()), (648, 240));
        let uplinks = read.traces.uplinks.unwrap();
        assert_eq!(uplinks.seconds(), 648);
        assert!(uplinks.rate(slow.node.index(), 647).0 < 0.6 * LINK_MAX);
        let (_, read) = self::bed("chameleonec/fig12", "IBM", &["cr"]);
        assert_eq!(read.timeout, TIMEOUT);
    }

    #[test]
    fn a_quick_measurement_has_fewer_stripes_and_clients() {
        let experiment = papers::find("chameleonec/fig12").unwrap()[0];
        let figure = of(experiment).unwrap();
        let traces = Traces::read(None).unwrap();
        let read = |is_quick| {
            let extent = Extent { repetitions: 1, is_quick };
            let rules = BedRules { figure, experiment, extent, traces: &traces };
            let at = figure.points(experiment)[0];
            PointBed::new(&rules, &at, &["cr".parse().unwrap()]).unwrap().read().unwrap()
        };
        let clients = |bed: &Experiment| match bed.load {
            Some(Applications::Closed(load)) => load.clients,
            _ => panic!("there are no clients"),
        };
        let (whole, quick) = (read(false), read(true));
        assert_eq!((clients(&whole), clients(&quick)), (64, 16));
        // A node of 20 holds a chunk of 14 in so many stripes: 12 and 8 of them.
        assert_eq!((whole.stripes, quick.stripes), (18, 12));
    }

    #[test]
    fn rates_and_chunks_are_scaled_down() {
        let (_, read) = bed("repairboost/fig9", "0.5 Gb/s", &["cr"]);
        assert_eq!((read.cluster.nodes[0].uplink.0, read.chunk_bytes), (1.25e6, 2 << 20));
        let (_, read) = bed("butterfly/network", "Butterfly, k=7", &["cr"]);
        assert_eq!((read.cluster.nodes[0].uplink.0, read.chunk_bytes), (LINK_MAX, 2 << 20));
        assert_eq!(read.rest, Duration::from_secs(2));
    }
}
