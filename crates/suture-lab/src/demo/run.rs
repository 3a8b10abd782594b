//! One run of the demo: store, kill, watch the repair, compare every byte with its source.
//!
//! Place: the whole life of a repair, seen from outside: this file only starts processes, asks the
//! coordinator what a user could ask, and kills.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use suture_code::{ChunkIndex, Code};
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto::{NodeStatus, StatusReply};
use suture_drivers::control::summary;
use suture_drivers::object::cut::ObjectSource;
use suture_drivers::object::lookup::Lookup;
use suture_drivers::object::put_stream::PutOptions;
use suture_drivers::object::{read, write};
use suture_edge::progress::{Progress as Listener, Step};
use suture_edge::units::{format_seconds, format_size};
use suture_terminal::output::{Format, counted};
use suture_terminal::progress::Progress;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::processes::{Processes, Setting};
use super::source::Source;

/// How often the coordinator is asked how it goes.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Objects compared at a time: each is read from a few nodes, and links may be slow.
const VERIFIED_AT_ONCE: usize = 4;

/// Agents that have not joined after this are not going to.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What a run is about.
#[derive(Clone, Debug)]
pub struct DemoScenario {
    /// The code of every object.
    pub code: Code,
    /// The length of chunks.
    pub chunk_bytes: u64,
    /// The files that are stored, killed and compared.
    pub sources: Vec<Source>,
    /// How the processes are started.
    pub setting: Setting,
    /// What to print and how.
    pub format: Format,
}

/// What a run measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct DemoResult {
    /// Chunks lost with the node.
    pub lost_chunks: u64,
    /// Bytes of the lost chunks.
    pub lost_bytes: u64,
    /// From the kill to the declaration of the failure.
    pub detection_seconds: f64,
    /// From the declaration to the last committed location.
    pub seconds: f64,
    /// The most memory that an agent used.
    pub peak_memory: Option<u64>,
    /// Whether every object equals its source.
    pub verified: bool,
}

/// Performs one run. The processes are left in `stage`, whatever happens, for the caller to end.
///
/// # Errors
/// When a process ends early, agents do not join, or an object differs from its source.
pub async fn run(
    scenario: &DemoScenario,
    folder: TempDir,
    stage: &mut Option<Processes>,
) -> Result<DemoResult> {
    let print_line = |line: String| scenario.print_line(&line);
    let processes = stage.insert(Processes::new(folder));
    processes.start_coordinator(&scenario.setting).await?;
    let mut client = start_agents(scenario, processes).await?;
    let agents = scenario.setting.agents.len();
    print_line(format!(
        "  started    a coordinator and {agents} agents, each a process of its own"
    ));
    let stored = store(scenario, &mut client).await?;
    print_line(stored);
    let before = summary::ask(&mut client).await?;
    let victim = victim(&before);
    let process = processes.kill(&victim.name).await?;
    print_line(format!(
        "  killed     {} (process {process}) with SIGKILL; {} there",
        victim.name,
        counted(victim.chunks, "chunk"),
    ));
    let killed_at = before.uptime_seconds;
    let (lost, declared_at) = notice(&mut client, processes).await?;
    let detection_seconds = declared_at - killed_at;
    print_line(format!(
        "  detected   after {}: {} ({}) lost",
        format_seconds(detection_seconds),
        counted(lost.lost_chunks, "chunk"),
        format_size(lost.lost_bytes),
    ));
    let last = watch(scenario, &mut client, processes, &lost).await?;
    let mut measured = DemoResult {
        lost_chunks: lost.lost_chunks,
        lost_bytes: lost.lost_bytes,
        detection_seconds,
        seconds: last.committed_seconds.unwrap_or(declared_at) - declared_at,
        peak_memory: processes.peak_memory(),
        verified: false,
    };
    print_line(format!(
        "  repaired   {} in {}, each proven against its checksum",
        counted(last.repaired_chunks, "chunk"),
        format_seconds(measured.seconds),
    ));
    verify(scenario, &client).await?;
    measured.verified = true;
    print_line(format!(
        "  verified   {}: every byte equals its source",
        counted(scenario.sources.len() as u64, "object")
    ));
    processes.check()?;
    Ok(measured)
}

impl DemoScenario {
    /// A line of the story: for people on stdout, beside JSON on stderr.
    pub fn print_line(&self, line: &str) {
        match self.format {
            Format::Text => outln!("{line}"),
            Format::Json => errln!("{line}"),
        }
    }

    fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

/// Starts the agents and waits until all have joined.
///
/// # Errors
/// When a process cannot be started, or not all have joined after a minute.
pub async fn start_agents(scenario: &DemoScenario, processes: &mut Processes) -> Result<Client> {
    let mut client = client::connect(&processes.address, None).await?;
    for agent in &scenario.setting.agents {
        processes.start_agent(agent).await?;
    }
    let since = Instant::now();
    loop {
        let status = summary::ask(&mut client).await?;
        let up = status.nodes.iter().filter(|node| node.health == "up" && node.free_bytes > 0);
        let up = up.count();
        if up == scenario.setting.agents.len() {
            return Ok(client);
        }
        processes.check()?;
        ensure!(since.elapsed() < JOIN_TIMEOUT, "only {up} agents have joined after a minute");
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Stores the sources; gives a line on what that took.
///
/// # Errors
/// When a source cannot be read or stored.
pub async fn store(scenario: &DemoScenario, client: &mut Client) -> Result<String> {
    let began = Instant::now();
    let progress = Progress::bytes(scenario.format, "storing", scenario.bytes());
    let listener: Arc<Listener<'static>> = Arc::new(progress.listener());
    let (mut stripes, mut stored_bytes, agents) = (0, 0, Arc::default());
    for source in &scenario.sources {
        let file = File::open(&source.path)
            .with_context(|| format!("cannot read '{}'", source.path.display()))?;
        let options = PutOptions {
            name: source.name.clone(),
            code: scenario.code,
            chunk_bytes: scenario.chunk_bytes,
            overwrite: false,
            // Where chunks lie is to be the same in every run, though some nodes may be slower.
            waits_for_all: true,
        };
        let file = ObjectSource::file(file)?;
        let stored = write::put(client, &agents, &options, file, &listener).await?;
        stripes += stored.stripes;
        stored_bytes += stored.stored_bytes;
    }
    drop(progress);
    Ok(format!(
        "  stored     {}, {}, as {} of {} ({} with parity) in {}",
        counted(scenario.sources.len() as u64, "object"),
        format_size(scenario.bytes()),
        counted(stripes, "stripe"),
        scenario.code,
        format_size(stored_bytes),
        format_seconds(began.elapsed().as_secs_f64()),
    ))
}

/// The node with the most chunks; of several, the first. The same in every run.
fn victim(status: &StatusReply) -> NodeStatus {
    let most = status.nodes.iter().max_by_key(|node| (node.chunks, u32::MAX - node.node));
    most.expect("there are agents").clone()
}

/// Waits until the coordinator declares the node failed; returns what it knew then, and when.
async fn notice(client: &mut Client, processes: &mut Processes) -> Result<(StatusReply, f64)> {
    loop {
        let status = summary::ask(client).await?;
        if let Some(declared) = status.declared_seconds {
            return Ok((status, declared));
        }
        processes.check()?;
        tokio::time::sleep(ASK_EVERY / 5).await;
    }
}

/// Shows how the repair goes until nothing is lost any more.
async fn watch(
    scenario: &DemoScenario,
    client: &mut Client,
    processes: &mut Processes,
    lost: &StatusReply,
) -> Result<StatusReply> {
    let progress = Progress::reported(scenario.format, "repairing");
    let mut is_planned = false;
    loop {
        let now = summary::ask(client).await?;
        if now.planned_repairs > 0 && !is_planned {
            is_planned = true;
            progress.above(|| scenario.print_line(&plan_line(scenario, &now)));
        }
        let moving: u64 = now.running.iter().map(|running| running.bytes_done).sum();
        let done = (now.repaired_bytes + moving).min(lost.lost_bytes);
        let words = format!(
            "{} of {}, {}",
            now.repaired_chunks,
            counted(lost.lost_chunks, "chunk"),
            summary::rate_and_eta(&now)
        );
        progress.set(done, lost.lost_bytes, words);
        if now.at_risk.iter().sum::<u64>() == 0 {
            return Ok(now);
        }
        processes.check()?;
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn plan_line(scenario: &DemoScenario, status: &StatusReply) -> String {
    format!(
        "  planned    by {}: {}, each from {} others; the busiest link needs {}",
        scenario.setting.policy,
        counted(status.planned_repairs, "repair"),
        helper_counts(&scenario.code),
        format_seconds(status.planned_seconds),
    )
}

/// How many helpers the repair of one chunk takes, whichever chunk it is.
fn helper_counts(code: &Code) -> String {
    let helpers = |lost: ChunkIndex| {
        let others: Vec<ChunkIndex> = code.chunks().filter(|chunk| *chunk != lost).collect();
        code.helpers_for(&[lost], &others).expect("one loss can be repaired").len()
    };
    let (least, most) = code
        .chunks()
        .map(helpers)
        .fold((usize::MAX, 0), |(least, most), count| (count.min(least), count.max(most)));
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// Reads every object back and compares it with its source.
///
/// # Errors
/// When one cannot be read or differs.
pub async fn verify(scenario: &DemoScenario, client: &Client) -> Result<()> {
    let progress = Progress::bytes(scenario.format, "verifying", scenario.bytes());
    let (mut reads, agents) = (JoinSet::new(), Arc::default());
    for source in &scenario.sources {
        if reads.len() == VERIFIED_AT_ONCE {
            reads.join_next().await.expect("there are some")??;
        }
        let agents = Arc::clone(&agents);
        reads.spawn(compare(client.clone(), agents, source.clone(), progress.listener()));
    }
    while let Some(read) = reads.join_next().await {
        read??;
    }
    Ok(())
}

/// Reads an object and compares it with its source.
async fn compare(
    mut client: Client,
    agents: Arc<read::GetAgents>,
    source: Source,
    listener: impl Fn(Step) + Send + Sync,
) -> Result<()> {
    let lookup = Lookup::of(&mut client, &source.name).await?;
    let file = File::open(&source.path)?;
    let mut comparison = ComparingSink { file, name: &source.name, buffer: Vec::new() };
    let fetched = read::get(&client, &agents, lookup, &mut comparison, &listener).await?;
    ensure!(
        fetched.bytes == source.bytes,
        "'{}' came back with {} bytes instead of {}",
        source.name,
        fetched.bytes,
        source.bytes
    );
    Ok(())
}

/// A sink that compares what comes with the file that it should equal.
struct ComparingSink<'a> {
    file: File,
    name: &'a str,
    buffer: Vec<u8>,
}

impl read::Sink for ComparingSink<'_> {
    fn takes_any_order(&self) -> bool {
        true
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.buffer.resize(bytes.len(), 0);
        let read = self.file.read_exact_at(&mut self.buffer, offset);
        read.with_context(|| format!("cannot read the source of '{}'", self.name))?;
        ensure!(
            self.buffer == bytes,
            "'{}' differs from its source within {} bytes from {offset} on",
            self.name,
            bytes.len()
        );
        Ok(())
    }
}
