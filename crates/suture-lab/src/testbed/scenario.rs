//! A scenario: what a testbed is to measure, from a file.
//!
//! Place: before anything of a testbed is made. docs/testbed.md explains every key; an unknown one
//! is refused with the nearest that there is, because a misspelt limit would be none.
//! Invariant: a scenario that was read can be run: its policies serve its code, its nodes exist and
//! are enough, and no rate is zero.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Deserialize;
use suture_code::code::edit_distance;
use suture_code::{Code, layout};
use suture_drivers::config::{check_cores, check_memory, check_rate, parse_duration};
use suture_edge::bounded::read_text;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::{format_exact_size, format_size, parse_nonzero_size};
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_sim::bandwidth_trace::{BandwidthTrace, Direction, LinkModel};

use super::applications::{Applications, LoadToml};
use super::cluster::ClusterSpec;
use super::expect::{ExpectToml, Expectation};
use super::faults::{Fault, FaultToml, check_together};
use super::replay::{LinkTraces, replayable};
use crate::demo::processes::COORDINATOR;
use crate::executable;
use crate::input::{check_node_count, find_nodes, trace_text};

/// No scenario is longer, whatever is in its comments.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Repetitions of each policy that a report can still show.
const REPETITIONS_MAX: usize = 100;

/// Seconds of a drawn trace.
const MODEL_SECONDS: u64 = 600;

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioToml {
    title: Option<String>,
    code: String,
    chunk_size: String,
    stripes: usize,
    placement_seed: Option<u64>,
    policies: Vec<String>,
    repetitions: Option<usize>,
    declared: Option<bool>,
    rest: Option<String>,
    chunks: Option<ChunkPlace>,
    agent_memory: Option<String>,
    timeout: Option<String>,
    cluster: ClusterSpec,
    failure: FailureToml,
    replay: Option<ReplayToml>,
    load: Option<LoadToml>,
    declared_times: Option<f64>,
    #[serde(default)]
    marked: bool,
    #[serde(default)]
    fault: Vec<FaultToml>,
    #[serde(default)]
    expect: Vec<ExpectToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureToml {
    #[serde(default)]
    nodes: Vec<String>,
    rack: Option<String>,
    /// Whether they are emptied instead of killed.
    #[serde(default)]
    drain: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayToml {
    model: Option<String>,
    seed: Option<u64>,
    seconds: Option<u64>,
    uplinks: Option<PathBuf>,
    downlinks: Option<PathBuf>,
    #[serde(default)]
    start: u64,
    /// Whether agents are configured with what links have when the trace begins.
    #[serde(default)]
    declared: bool,
}

/// Where agents keep their chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChunkPlace {
    /// In a file system in memory, so that no disk is the limit.
    Memory,
    /// In the folder for temporary files.
    Disk,
}

/// The link rates that agents are configured with, which they also keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Nothing: they measure it.
    Nothing,
    /// What the cluster says.
    Links,
    /// What links that follow traces have when the failure is declared: right for repairs that are
    /// over in a second or two.
    Beginning,
}

/// What is measured in a scenario.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// What it is about, in a line.
    pub title: String,
    /// Nodes, racks and links.
    pub cluster: Cluster,
    /// What links follow, if anything.
    pub traces: LinkTraces,
    /// The code of every stripe.
    pub code: Code,
    /// The length of chunks.
    pub chunk_bytes: u64,
    /// How many stripes are stored.
    pub stripes: u64,
    /// Decides which stripe lies where.
    pub placement_seed: u64,
    /// The nodes that fail, ascending.
    pub failed: Vec<NodeId>,
    /// Whether they are emptied by an operator, and live.
    pub drains: bool,
    /// The policies, in the order in which they are measured.
    pub policies: Vec<Policy>,
    /// How often each is measured.
    pub repetitions: usize,
    /// The link rates that agents are configured with.
    pub declared: Declared,
    /// How long links are at rest before the failure.
    pub rest: Duration,
    /// Where chunks are kept.
    pub chunks: ChunkPlace,
    /// The most memory that each agent uses.
    pub agent_memory: u64,
    /// A repair that takes longer has failed.
    pub timeout: Duration,
    /// What applications do meanwhile, if there are any.
    pub load: Option<Applications>,
    /// Agents are configured with so many times what their links carry.
    pub declared_times: f64,
    /// Whether repair marks its packets, and links send these after all others.
    pub is_marked: bool,
    /// What else goes wrong during the repair.
    pub faults: Vec<Fault>,
    /// What is expected of the figures.
    pub expectations: Vec<Expectation>,
}

impl Experiment {
    /// Reads and checks a scenario; files that it names are looked for beside it.
    ///
    /// # Errors
    /// Bad input: the file cannot be read, has an unknown key, or something in it cannot be.
    pub fn read(path: &Path) -> Result<Experiment> {
        let (toml, folder) = parse(path)?;
        let named = |error: anyhow::Error| bad_input(format!("{}: {error:#}", path.display()));
        Experiment::new(toml, path, &folder).map_err(named)
    }

    /// Repetitions and policies from the command line, where there are any.
    ///
    /// # Errors
    /// Bad input when they cannot be.
    pub fn change(&mut self, repetitions: Option<usize>, names: &[String]) -> Result<()> {
        if let Some(repetitions) = repetitions {
            self.repetitions = checked_repetitions(repetitions)?;
        }
        if !names.is_empty() {
            self.policies = policies(names, &self.code)?;
            self.expectations.retain(|expected| expected.is_of(&self.policies));
        }
        Ok(())
    }

    /// What the whole of the data takes without parity.
    pub fn data_bytes(&self) -> u64 {
        self.stripes * self.stripe_bytes()
    }

    /// Data of one stripe.
    pub fn stripe_bytes(&self) -> u64 {
        self.code.data_chunks() as u64 * self.chunk_bytes
    }

    fn new(toml: ScenarioToml, path: &Path, folder: &Path) -> Result<Experiment> {
        let cluster = toml.cluster.build(folder)?;
        let declared_times = checked_times(toml.declared_times.unwrap_or(1.0))?;
        check_nodes(&cluster, declared_times)?;
        let code: Code = toml.code.parse().map_err(bad_input)?;
        let chunk_bytes = parse_nonzero_size(&toml.chunk_size).map_err(bad_input)?;
        check_node_count(code, cluster.nodes.len())?;
        check_chunk_size(&code, chunk_bytes)?;
        let failed = failed(&toml.failure, &cluster, &code)?;
        let policies = policies(&toml.policies, &code)?;
        let timeout =
            parse_duration(toml.timeout.as_deref().unwrap_or("10min")).map_err(bad_input)?;
        let faults = toml.fault.iter().map(|fault| fault.read(&cluster));
        let faults = faults.collect::<Result<Vec<Fault>>>()?;
        let gone = if toml.failure.drain { &[] } else { &failed[..] };
        check_together(&faults, &cluster, gone, timeout)?;
        let load = toml.load.as_ref().map(LoadToml::read).transpose()?;
        let agent_memory = toml.agent_memory.as_deref().unwrap_or("256MiB");
        let agent_memory = parse_nonzero_size(agent_memory).map_err(bad_input)?;
        check_memory("agent_memory", agent_memory).map_err(bad_input)?;
        let expected =
            |expected: &ExpectToml| expected.read(&policies, load.as_ref(), agent_memory);
        let expectations = toml.expect.iter().map(expected);
        let expectations = expectations.collect::<Result<Vec<Expectation>>>()?;
        let declared = toml.declared()?;
        let repetitions = checked_repetitions(toml.repetitions.unwrap_or(1))?;
        if toml.stripes == 0 {
            return Err(bad_input("stripes = 0 is nothing to repair: at least one"));
        }
        let traces = toml.replay.map(|replay| replay.read(&cluster, folder)).transpose()?;
        let file_name = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Experiment {
            title: toml.title.unwrap_or_else(file_name),
            traces: traces.unwrap_or_default(),
            cluster,
            code,
            chunk_bytes,
            stripes: toml.stripes as u64,
            placement_seed: toml.placement_seed.unwrap_or(1),
            failed,
            drains: toml.failure.drain,
            policies,
            repetitions,
            declared,
            rest: match &toml.rest {
                Some(rest) => parse_duration(rest).map_err(bad_input)?,
                None => Duration::ZERO,
            },
            chunks: toml.chunks.unwrap_or(ChunkPlace::Memory),
            agent_memory,
            timeout,
            load,
            declared_times,
            is_marked: toml.marked,
            faults,
            expectations,
        })
    }
}

impl ScenarioToml {
    /// The link rates that agents are configured with.
    fn declared(&self) -> Result<Declared> {
        let is_beginning = self.replay.as_ref().is_some_and(|replay| replay.declared);
        if self.declared_times.is_some() && is_beginning {
            return Err(bad_input(
                "declared_times: agents are told what links have when the trace begins (replay: \
                 declared = true), and not so many times that: remove one",
            ));
        }
        if self.declared.unwrap_or(true) {
            return Ok(if is_beginning { Declared::Beginning } else { Declared::Links });
        }
        for (is_given, key) in
            [(self.declared_times.is_some(), "declared_times"), (is_beginning, "replay: declared")]
        {
            if is_given {
                let why = "agents are told nothing (declared = false)";
                return Err(bad_input(format!("{key}: {why}")));
            }
        }
        Ok(Declared::Nothing)
    }
}

fn parse(path: &Path) -> Result<(ScenarioToml, PathBuf)> {
    let shown = path.display();
    let text = File::open(path)
        .and_then(|file| read_text(file, FILE_BYTES_MAX))
        .map_err(|error| bad_input(format!("cannot read the scenario '{shown}': {error}")))?;
    let toml = toml::from_str(&text).map_err(|error| {
        let nearest = nearest_key(error.message()).unwrap_or_default();
        // The parser's message shows the line and points at the key.
        bad_input(anyhow!("in the scenario '{shown}': {}{nearest}", error.to_string().trim_end()))
    })?;
    Ok((toml, path.parent().unwrap_or(Path::new(".")).to_path_buf()))
}

/// Of the keys that could have been meant, the nearest; from the parser's words on an unknown one.
fn nearest_key(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field `")?.split('`').step_by(2);
    let unknown = names.next()?;
    let nearest = names.min_by_key(|known| edit_distance(known, unknown))?;
    Some(format!("\ndid you mean '{nearest}'?"))
}

fn checked_repetitions(repetitions: usize) -> Result<usize> {
    if (1..=REPETITIONS_MAX).contains(&repetitions) {
        Ok(repetitions)
    } else {
        Err(bad_input(format!(
            "{repetitions} repetitions cannot be measured: 1 to {REPETITIONS_MAX}"
        )))
    }
}

fn checked_times(times: f64) -> Result<f64> {
    if times > 0.0 && times.is_finite() {
        Ok(times)
    } else {
        Err(bad_input(format!(
            "declared_times = {times}: agents cannot be told so many times a rate"
        )))
    }
}

/// Refuses nodes that no agent could be configured as.
fn check_nodes(cluster: &Cluster, declared_times: f64) -> Result<()> {
    for node in &cluster.nodes {
        let name = &node.name;
        if name == COORDINATOR {
            return Err(bad_input(format!(
                "a node is called '{name}', as the coordinator's process is: call it otherwise"
            )));
        }
        for (key, rate) in [("uplink", node.uplink), ("downlink", node.downlink)] {
            check_rate(&format!("{key} of {name}"), rate.0).map_err(bad_input)?;
            let key = format!("{key} of {name}, declared_times = {declared_times}");
            check_rate(&key, rate.0 * declared_times).map_err(bad_input)?;
        }
        if let Some(processor) = &node.processor {
            check_cores(&format!("cores of {name}"), processor.cores()).map_err(bad_input)?;
        }
    }
    Ok(())
}

fn check_chunk_size(code: &Code, chunk_bytes: u64) -> Result<()> {
    layout::check_unit(code, chunk_bytes).map_err(|error| {
        let nearest: Vec<String> = error.nearest().map(format_exact_size).collect();
        bad_input(format!(
            "chunks of {code} are multiples of {}, chunk_size {} is not: take {}",
            format_exact_size(error.step),
            format_size(chunk_bytes),
            nearest.join(" or "),
        ))
    })
}

fn failed(toml: &FailureToml, cluster: &Cluster, code: &Code) -> Result<Vec<NodeId>> {
    let mut failed = find_nodes(cluster, &toml.nodes).map_err(|of| {
        bad_input(format!("failure: {}: the cluster has {}", quoted(&of.name), of.why))
    })?;
    if let Some(rack) = &toml.rack {
        let known = || cluster.racks.join(", ");
        let found = cluster.racks.iter().position(|name| name == rack).ok_or_else(|| {
            bad_input(format!("failure: there is no rack {}; racks: {}", quoted(rack), known()))
        })?;
        let is_there =
            |node: &NodeId| cluster.node(*node).rack.is_some_and(|r| r.0 as usize == found);
        failed.extend(cluster.ids().filter(is_there));
    }
    failed.sort_unstable();
    failed.dedup();
    let (nodes, needed) = (cluster.nodes.len(), code.chunk_count());
    match failed.len() {
        0 => Err(bad_input("failure: nothing fails: name nodes, or a rack")),
        count if nodes - count < needed => Err(bad_input(format!(
            "failure: {} of {nodes} nodes are left, and each of the {needed} chunks of a stripe of \
             {code} needs one of its own",
            nodes - count
        ))),
        _ => Ok(failed),
    }
}

fn policies(names: &[String], code: &Code) -> Result<Vec<Policy>> {
    if names.is_empty() {
        return Err(bad_input("policies: name at least one, such as \"suture\""));
    }
    let policy = |name: &String| {
        let policy: Policy = name.parse().map_err(bad_input)?;
        policy.runnable().map_err(bad_input)?;
        executable::refusal(policy, code).map_or(Ok(policy), |why| Err(bad_input(why)))
    };
    names.iter().map(policy).collect()
}

impl ReplayToml {
    fn read(&self, cluster: &Cluster, folder: &Path) -> Result<LinkTraces> {
        let is_model = self.model.is_some();
        if is_model == (self.uplinks.is_some() || self.downlinks.is_some()) {
            return Err(bad_input("replay: name a model, or CSV files of uplinks and downlinks"));
        }
        for (is_given, key) in [(self.seed.is_some(), "seed"), (self.seconds.is_some(), "seconds")]
        {
            if is_given && !is_model {
                return Err(bad_input(format!(
                    "replay: {key} is of traces that are drawn by a model, and CSV files are named"
                )));
            }
        }
        let read = |file: &Option<PathBuf>, direction| match (file, &self.model) {
            (Some(file), _) => read_trace(&folder.join(file), cluster).map(Some),
            (None, Some(model)) => self.draw(model, direction, cluster).map(Some),
            (None, None) => Ok(None),
        };
        let ready =
            |trace: Option<BandwidthTrace>| trace.map(|t| replayable(&t, cluster, self.start));
        Ok(LinkTraces {
            uplinks: ready(read(&self.uplinks, Direction::Up)?),
            downlinks: ready(read(&self.downlinks, Direction::Down)?),
        })
    }

    fn draw(&self, name: &str, direction: Direction, cluster: &Cluster) -> Result<BandwidthTrace> {
        let model = LinkModel::ALL.into_iter().find(|model| model.name() == name);
        let model = model.ok_or_else(|| {
            let known = LinkModel::ALL.map(LinkModel::name).join(", ");
            bad_input(format!("replay: there is no model {}; use one of {known}", quoted(name)))
        })?;
        let links: Vec<Rate> = match direction {
            Direction::Up => cluster.nodes.iter().map(|node| node.uplink).collect(),
            Direction::Down => cluster.nodes.iter().map(|node| node.downlink).collect(),
        };
        let seconds = self.seconds.unwrap_or(MODEL_SECONDS).max(1);
        // The two directions of a link are congested independently, as in `suture simulate`.
        let seed = self.seed.unwrap_or(1) ^ (0x7472_6163_6500 + direction as u64);
        Ok(model.draw(direction, &links, seconds, seed))
    }
}

fn read_trace(path: &Path, cluster: &Cluster) -> Result<BandwidthTrace> {
    let text = trace_text(path)
        .map_err(|error| bad_input(format!("replay: cannot read '{}': {error}", path.display())))?;
    BandwidthTrace::parse(&text, cluster.nodes.len())
        .map_err(|fault| bad_input(format!("replay: {}: {fault}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "code = \"rs(2,1)\"\nchunk_size = \"64KiB\"\nstripes = 4\n\
        policies = [\"flow\"]\n[cluster]\nnodes = 5\n[failure]\nnodes = [\"n1\"]\n";

    fn read(text: &str) -> Result<Experiment> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Experiment::read(file.path())
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let experiment = read(SCENARIO).unwrap();
        assert_eq!((experiment.repetitions, experiment.declared), (1, Declared::Links));
        assert_eq!((experiment.failed, experiment.chunks), (vec![NodeId(1)], ChunkPlace::Memory));
        assert_eq!(experiment.cluster.nodes[4].uplink, Rate(6.25e6));
    }

    #[test]
    fn agents_may_be_told_what_links_have_when_a_trace_begins() {
        let replayed = |declared: &str| {
            let replay = format!("[replay]\nmodel = \"tpch\"\n{declared}[failure]");
            read(&SCENARIO.replacen("[failure]", &replay, 1)).unwrap().declared
        };
        assert_eq!(replayed(""), Declared::Links);
        assert_eq!(replayed("declared = true\n"), Declared::Beginning);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (from, to, words) in [
            ("stripes = 4", "stripe = 4", "did you mean 'stripes'?"),
            ("nodes = 5", "nodse = 5", "did you mean 'nodes'?"),
            ("nodes = 5", "nodes = 5\nbandwidth = \"0Mbit\"", "above zero"),
            (
                "nodes = 5",
                "nodes = 5\nbandwidth = \"4kbit\"",
                "uplink of n0: 4kbit is not a link's",
            ),
            ("nodes = 5", "nodes = 5\ncores = 0.0001", "cores of n0: 0.0001 is not from 0.001"),
            ("stripes = 4", "stripes = 4\nagent_memory = \"512KiB\"", "agent_memory: an agent"),
            ("stripes = 4", "stripes = 4\ndeclared_times = 0.00001", "declared_times = 0.00001: "),
            (
                "[failure]",
                "[load]\nworkload = \"ycsb-a\"\nrate = 5.0\nobjects = 1000001\n[failure]",
                "the load has 1000001 objects: 1000000 at most",
            ),
            ("nodes = 5", "nodes = 2", "too few for rs(2,1)"),
            ("nodes = 5", "nodes = 3", "2 of 3 nodes are left"),
            ("\"n1\"", "\"m1\"", "did you mean 'n"),
            ("nodes = [\"n1\"]", "rack = \"r7\"", "there is no rack 'r7'"),
            ("nodes = [\"n1\"]", "", "nothing fails"),
            ("flow", "flwo", "flow"),
            ("64KiB", "1000B", "multiples of 64B"),
            ("stripes = 4", "stripes = 0", "nothing to repair"),
            ("stripes = 4", "stripes = 4\nchunks = \"tape\"", "tape"),
            ("[failure]", "[replay]\nmodel = \"tpcx\"\n[failure]", "use one of tpcds"),
            ("[failure]", "[replay]\nuplinks = \"nope\"\n[failure]", "cannot read"),
            ("[failure]", "[replay]\n[failure]", "name a model, or CSV files"),
            (
                "[cluster]",
                "declared = false\n[replay]\nmodel = \"tpch\"\ndeclared = true\n[cluster]",
                "replay: declared: agents are told nothing",
            ),
            (
                "[cluster]",
                "declared_times = 2.0\n[replay]\nmodel = \"tpch\"\ndeclared = true\n[cluster]",
                "declared_times: agents are told what links have when the trace begins",
            ),
            (
                "[failure]",
                "[replay]\nuplinks = \"u.csv\"\nseed = 3\n[failure]",
                "replay: seed is of traces that are drawn by a model",
            ),
            (
                "[failure]",
                "[load]\nworkload = \"etc\"\nclosed = true\n[[expect]]\npolicy = \"flow\"\n\
                 against = \"left\"\ntimes = 1.1\n[failure]",
                "clients in a closed loop take whatever they get",
            ),
            (
                "[failure]",
                "[[fault]]\nkind = \"disk-errors\"\nnode = \"n2\"\nat = \"1s\"\n[[fault]]\n\
                 kind = \"disk-errors\"\nnode = \"n2\"\nat = \"3s\"\n[failure]",
                "not both can be",
            ),
        ] {
            let error = format!("{:#}", read(&SCENARIO.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(words), "{to}: {error}");
        }
    }
}
