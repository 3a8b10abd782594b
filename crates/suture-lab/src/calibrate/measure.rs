//! A scenario by real agents: store, kill, and see how long the repair takes.
//!
//! Place: the whole life of a repair, seen from outside, as in a demo. Repairs are paused until the
//! coordinator has declared all killed nodes failed, so that it decides about all of the damage at
//! once, as it does in the simulator; the time counts from the first dispatch to the last commit.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use suture_drivers::control::client::{Client, refusal};
use suture_drivers::control::proto::{NodeStatus, RepairAction, RepairCommand, StatusReply};
use suture_drivers::control::summary;
use suture_drivers::object::lookup::Lookup;
use suture_edge::units::format_seconds;
use suture_repair::id::NodeId;
use suture_repair::stripe::Stripe;
use tempfile::TempDir;

use crate::demo::processes::{LinkRates, Processes};
use crate::demo::run::{self, DemoScenario};

/// How often the coordinator is asked how it goes.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A repair that takes longer than this has gone wrong: none is planned to take a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What a run was like.
#[derive(Clone, Debug)]
pub struct MeasuredRepair {
    /// Names and links by the coordinator's numbers.
    pub nodes: Vec<(String, LinkRates)>,
    /// Every stripe as it was before the failure.
    pub stripes: Vec<Stripe>,
    /// Nodes that were killed.
    pub failed: Vec<NodeId>,
    /// Where the coordinator's choices begin.
    pub seed: u64,
    /// Chunks that were lost and rebuilt.
    pub chunks: u64,
    /// What the busiest link of the plans needs.
    pub planned_seconds: f64,
    /// From the first dispatch to the last committed location.
    pub seconds: f64,
}

/// Performs one run, in which so many nodes fail. The processes are left in `stage`.
///
/// # Errors
/// When a process cannot be started or ends early, the nodes do not fail, or the repair does not
/// end within two minutes.
pub async fn measure(
    scenario: &DemoScenario,
    failures: usize,
    folder: TempDir,
    stage: &mut Option<Processes>,
) -> Result<MeasuredRepair> {
    let processes = stage.insert(Processes::new(folder));
    processes.start_coordinator(&scenario.setting).await?;
    let mut client = run::start_agents(scenario, processes).await?;
    run::store(scenario, &mut client).await?;
    let mut stripes = Vec::new();
    for source in &scenario.sources {
        stripes.extend(Lookup::of(&mut client, &source.name).await?.stripes().await?);
    }
    command(&mut client, RepairAction::Pause).await?;
    let before = summary::ask(&mut client).await?;
    let victims = victims(&before, failures);
    for victim in &victims {
        processes.kill(&victim.name).await?;
    }
    let has_failed = |now: &StatusReply| {
        let is_it = |victim: &NodeStatus| {
            now.nodes.iter().any(|node| node.node == victim.node && node.health == "failed")
        };
        victims.iter().all(is_it)
    };
    let lost = wait(&mut client, processes, has_failed).await?;
    command(&mut client, RepairAction::Resume).await?;
    let is_healthy = |now: &StatusReply| now.at_risk.iter().sum::<u64>() == 0;
    let last = wait(&mut client, processes, is_healthy).await?;
    let moments = last.started_seconds.zip(last.committed_seconds);
    let (started, committed) = moments.context("nothing was repaired: nothing was lost")?;
    ensure!(last.repaired_chunks == lost.lost_chunks, "a chunk was repaired twice");
    Ok(MeasuredRepair {
        nodes: nodes(&before, scenario)?,
        stripes,
        failed: victims.iter().map(|victim| NodeId(victim.node)).collect(),
        seed: u64::from_str_radix(&before.cluster, 16).context("the cluster's name")?,
        chunks: lost.lost_chunks,
        planned_seconds: last.planned_seconds,
        seconds: committed - started,
    })
}

async fn command(client: &mut Client, action: RepairAction) -> Result<()> {
    let command = RepairCommand { action: action.into(), ..Default::default() };
    client.command_repair(command).await.map_err(refusal)?;
    Ok(())
}

/// Asks for the status every few milliseconds until `is_so`.
async fn wait(
    client: &mut Client,
    processes: &mut Processes,
    is_so: impl Fn(&StatusReply) -> bool,
) -> Result<StatusReply> {
    let since = Instant::now();
    loop {
        let now = summary::ask(client).await?;
        if is_so(&now) {
            return Ok(now);
        }
        processes.check()?;
        if since.elapsed() > TIMEOUT {
            let waited = format_seconds(TIMEOUT.as_secs_f64());
            bail!("after {waited} still: {}", summary::summary(&now));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// The nodes with the most chunks, ascending; of several, the first.
fn victims(status: &StatusReply, failures: usize) -> Vec<NodeStatus> {
    let mut nodes = status.nodes.clone();
    nodes.sort_by_key(|node| (u64::MAX - node.chunks, node.node));
    nodes.truncate(failures);
    nodes.sort_by_key(|node| node.node);
    nodes
}

/// Agents join in any order: their names say which link they were given.
fn nodes(status: &StatusReply, scenario: &DemoScenario) -> Result<Vec<(String, LinkRates)>> {
    let mut nodes: Vec<&NodeStatus> = status.nodes.iter().collect();
    nodes.sort_by_key(|node| node.node);
    let node = |node: &&NodeStatus| {
        let link = scenario.setting.link_of(&node.name);
        Ok((node.name.clone(), link.with_context(|| format!("{} has no link", node.name))?))
    };
    nodes.iter().map(node).collect()
}
