//! One repair on the testbed: fail, measure, compare every byte with its source.
//!
//! Place: the whole life of a repair, seen from outside: this file starts processes, asks the
//! coordinator what an operator could ask, kills, and counts. Links have their limits from just
//! before the failure until the last commit; what is stored and read back passes without.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use suture_drivers::control::client::{self, Client, refusal};
use suture_drivers::control::proto::{
    NodeAction, NodeCommand, NodeStatus, RepairAction, RepairCommand, StatusReply,
};
use suture_drivers::control::summary;
use suture_drivers::object::lookup::Lookup;
use suture_edge::units::format_seconds;
use suture_repair::id::NodeId;
use suture_repair::plan::load::Load;
use suture_repair::planner::{Abilities, Job, View};
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::stripe::Stripe;
use suture_sim::capacity::Capacities;
use suture_terminal::output::Format;
use tempfile::TempDir;

use super::applications::{Felt, Ready, Seen};
use super::details::Accounting;
use super::faults::FaultPlay;
use super::figures::{Counted, RepairFigures};
use super::network::{Network, PortName};
use super::placing::join_order;
use super::replay::Replay;
use super::scenario::{Declared, Experiment};
use super::shaping;
use super::stored::{self, StoredCluster};
use super::watch::{LinkWatch, PortRate, goodput_cluster, less_taken};
use crate::demo::processes::{
    AgentSpec, LinkRates, Processes, Setting, SilenceTimers, Site, core_share,
};
use crate::demo::run::{self, DemoScenario};
use crate::demo::source::Source;
use crate::testbed::usage::ProcessorTime;

/// How often the coordinator is asked how it goes, and whether a node has failed.
const ASK_EVERY: Duration = Duration::from_millis(50);
const NOTICE_EVERY: Duration = Duration::from_millis(10);

/// An agent that has not joined after this is not going to.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A node that does not count as failed after this is not going to.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longer than a machine that is full of work keeps a heartbeat, which must not be a failure.
pub(super) const SILENCE: SilenceTimers = SilenceTimers {
    suspect: Duration::from_secs(2),
    dead: Duration::from_secs(4),
    start_grace: Duration::from_secs(5),
};

/// How many times more of the processor a byte costs here than it costs its agents. Twelve agents
/// at 600 Mbit/s each were seen to fill two cores with 0.62 GB/s of whole chunks, which is 3.2 ns
/// for a byte; agents take 0.8 ns of that, and the kernel the rest, for an emulated network.
const EMULATION: usize = 4;

/// What all repairs of a campaign have in common.
pub struct Bed<'a> {
    /// The experiment that is measured.
    pub experiment: &'a Experiment,
    /// The network that it is measured on.
    pub network: &'a Network,
    /// The data that is stored.
    pub sources: &'a [Source],
}

impl Bed<'_> {
    /// Performs one repair of what is stored, in a folder of its own. The processes are left in
    /// `stage`, whatever happens.
    ///
    /// # Errors
    /// When a process ends early, the repair does not end in time, or an object differs from its
    /// source.
    pub async fn measure(
        &self,
        policy: Policy,
        stored: &StoredCluster,
        folder: TempDir,
        stage: &mut Option<Processes>,
    ) -> Result<RepairFigures> {
        stored.copy(folder.path()).await?;
        let processes = stage.insert(Processes::new(folder));
        let scenario = self.scenario(policy);
        processes.start_coordinator(&scenario.setting).await?;
        let mut client = run::start_agents(&scenario, processes).await?;
        let stripes = self.stripes(&mut client).await?;
        let experiment = self.experiment;
        let load = match experiment.load {
            Some(load) => {
                let Experiment { code, chunk_bytes, failed, .. } = experiment;
                let address = &processes.address;
                Some(load.prepare(address, *code, *chunk_bytes, self.network, failed).await?)
            }
            None => None,
        };
        shaping::limit(self.network)?;
        let figures =
            self.repair(&mut client, processes, &scenario.setting, &stripes, load.as_ref()).await;
        shaping::release(self.network)?;
        let mut figures = figures?;
        processes.check()?;
        if experiment.declared != Declared::Nothing && experiment.faults.is_empty() {
            client = stored::start_unlimited(&scenario, &self.failed_names(), processes).await?;
        }
        run::verify(&scenario, &client).await?;
        figures.verified = true;
        processes.check()?;
        Ok(figures)
    }

    /// What is stored and killed, and how the processes are started.
    pub fn scenario(&self, policy: Policy) -> DemoScenario {
        let experiment = self.experiment;
        let at = |host: &super::network::Host| Site {
            namespace: Some(host.namespace.clone()),
            listen: host.listen(),
            metrics: Some(host.metrics()),
        };
        let cluster = &experiment.cluster;
        let share = core_share(EMULATION * cluster.nodes.len());
        let agent = |id: NodeId| AgentSpec {
            name: cluster.node(id).name.clone(),
            rack: cluster.node(id).rack.map(|rack| cluster.racks[rack.0 as usize].clone()),
            link: self.declared(id),
            memory: experiment.agent_memory,
            cores: cluster.node(id).processor.map_or(share, |processor| processor.cores()),
            mark: experiment.is_marked.then_some(shaping::MARK),
            site: at(&self.network.nodes[id.index()]),
        };
        let order = join_order(cluster, experiment.placement_seed);
        let agents: Vec<AgentSpec> = order.into_iter().map(agent).collect();
        DemoScenario {
            code: experiment.code,
            chunk_bytes: experiment.chunk_bytes,
            sources: self.sources.to_vec(),
            setting: Setting {
                coordinator: at(&self.network.client),
                agents,
                policy: policy.to_string(),
                silence: SILENCE,
                web: None,
            },
            // Bars and lines of a demo are not for a report.
            format: Format::Json,
        }
    }

    /// The link rates that a node's agent is configured with.
    fn declared(&self, id: NodeId) -> Option<LinkRates> {
        let node = self.experiment.cluster.node(id);
        let LinkRates { up, down } = LinkRates { up: node.uplink.0, down: node.downlink.0 };
        let times = self.experiment.declared_times;
        let at_first = |port| self.experiment.traces.rate(port, 0);
        match self.experiment.declared {
            Declared::Nothing => None,
            Declared::Links => Some(LinkRates { up: up * times, down: down * times }),
            Declared::Beginning => Some(LinkRates {
                up: at_first(PortName::NodeUp(id.index())).unwrap_or(up),
                down: at_first(PortName::NodeDown(id.index())).unwrap_or(down),
            }),
        }
    }

    /// Starts all processes; each agent has joined before the next is started.
    ///
    /// # Errors
    /// When a process cannot be started or does not join.
    pub async fn start(&self, setting: &Setting, processes: &mut Processes) -> Result<Client> {
        processes.start_coordinator(setting).await?;
        let mut client = client::connect(&processes.address, None).await?;
        for (index, agent) in setting.agents.iter().enumerate() {
            processes.start_agent(agent).await?;
            let since = Instant::now();
            loop {
                let status = summary::ask(&mut client).await?;
                let is_up = |n: &&_| is_ready(n);
                if status.nodes.iter().filter(is_up).count() > index {
                    break;
                }
                processes.check()?;
                ensure!(since.elapsed() < JOIN_TIMEOUT, "{} does not join", agent.name);
                tokio::time::sleep(NOTICE_EVERY).await;
            }
        }
        Ok(client)
    }

    /// Every stripe, with nodes by their places in the cluster.
    async fn stripes(&self, client: &mut Client) -> Result<Vec<Stripe>> {
        let status = summary::ask(client).await?;
        let place = |node: NodeId| {
            let named = status.nodes.iter().find(|n| n.node == node.0);
            let named = named.and_then(|n| self.experiment.cluster.find(&n.name));
            named.with_context(|| format!("the coordinator knows a node {} of its own", node.0))
        };
        let mut stripes = Vec::new();
        for source in self.sources {
            stripes.extend(Lookup::of(client, &source.name).await?.stripes().await?);
        }
        for chunk in stripes.iter_mut().flat_map(|stripe| &mut stripe.chunks) {
            chunk.node = chunk.node.map(place).transpose()?;
        }
        Ok(stripes)
    }

    /// Fails the nodes and counts until nothing is lost any more. Links at rest, and those of
    /// applications alone, are as when the repair begins.
    async fn repair(
        &self,
        client: &mut Client,
        processes: &mut Processes,
        setting: &Setting,
        stripes: &[Stripe],
        load: Option<&Ready>,
    ) -> Result<RepairFigures> {
        let (experiment, network) = (self.experiment, self.network);
        let replay = self.replay()?;
        let mut accounting = Accounting::open(experiment, network, client, processes).await?;
        let (alone, taken_alone) = self.alone(load).await?.unzip();
        let mut links = LinkWatch::open(experiment, network)?;
        // It plans at once, before any other node is notified of the failure.
        accounting.begin();
        let first = accounting.ask(client).await?;
        // All of the damage is to be known before the first plan.
        let is_paused = experiment.failed.len() > 1 && !experiment.drains;
        if is_paused {
            command(client, RepairAction::Pause).await?;
        }
        let lost = self.lost(stripes)?;
        let declared_seconds = self.fail(client, processes, &mut accounting).await?;
        let began = Instant::now();
        let mut play = FaultPlay::begin(&experiment.faults, &experiment.cluster, network, setting)?;
        let agents = living_agents(processes, &play);
        let before = ProcessorTime::now(&agents)?;
        let since = links.begin()?;
        if is_paused {
            command(client, RepairAction::Resume).await?;
        }
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let watching = async {
            let last = tokio::select! {
                last = self.watch(client, processes, &agents, &mut links, &mut play, &mut accounting) => last,
                Err(error) = follow(replay) => Err(error),
            };
            drop(ended);
            last
        };
        let (last, beside) = tokio::join!(watching, beside(load, since, experiment.timeout, end));
        let (Watched { last, last_commit, processor }, beside) = (last?, beside.transpose()?);
        let processor = processor.since(before);
        accounting.end();
        let declared = if play.restarts() { None } else { Some(declared_seconds) };
        let seconds = seconds_between(declared.zip(last.committed_seconds), began, last_commit)?;
        let links = links.end(seconds)?;
        let seen = alone.zip(beside);
        let started = declared.zip(last.started_seconds).map(|(from, to)| to - from);
        let details = accounting.details(started, &links, seconds, seen.as_ref()).await;
        Ok(RepairFigures::of(Counted {
            lost_chunks: lost.chunks,
            lost_bytes: lost.bytes,
            rebuilt_bytes: rebuilt_between(&first, &last).max(lost.bytes),
            detection_seconds: declared_seconds - first.uptime_seconds,
            seconds,
            planned_seconds: last.planned_seconds,
            bound_seconds: bound(experiment, stripes, seconds, &[]),
            processor,
            peak_memory: processes.peak_memory(),
            ports: links.ports,
            placement: fingerprint(stripes),
            timeline: links.timeline,
            stripes: stripes.to_vec(),
            felt: seen
                .zip(taken_alone)
                .map(|((alone, beside), taken)| self.felt(alone, beside, stripes, seconds, &taken)),
            details,
        }))
    }

    /// What links are to follow, where they follow anything.
    fn replay(&self) -> Result<Option<Replay<'_>>> {
        let traces = &self.experiment.traces;
        traces.is_some().then(|| Replay::prepare(self.network, traces)).transpose()
    }

    /// What applications waited without and beside a repair of so many `seconds`, and what it had
    /// of what they leave of links, of which they took this without it.
    fn felt(
        &self,
        alone: Seen,
        beside: Seen,
        stripes: &[Stripe],
        seconds: f64,
        taken: &[PortRate],
    ) -> Felt {
        let left = || 100.0 * bound(self.experiment, stripes, seconds, taken) / seconds;
        let left_percent = alone.log.is_none().then(left);
        Felt { alone: alone.waits, beside: beside.waits, left_percent }
    }

    /// What applications wait without a repair and what they take of links, in bytes a second,
    /// where there are any.
    async fn alone(&self, load: Option<&Ready>) -> Result<Option<(Seen, Vec<PortRate>)>> {
        let Some(load) = load else { return Ok(None) };
        let mut links = LinkWatch::open(self.experiment, self.network)?;
        links.begin()?;
        let began = Instant::now();
        let seen = load.alone().await?;
        let taken = links.end(began.elapsed().as_secs_f64())?.rates;
        Ok(Some((seen, taken)))
    }

    /// What the failure takes with it, by where everything lies: when a coordinator that plans at
    /// once is asked, it may have rebuilt some of it.
    fn lost(&self, stripes: &[Stripe]) -> Result<FailedChunks> {
        let failed = |node: &NodeId| self.experiment.failed.contains(node);
        let mut lost = FailedChunks::default();
        for stripe in stripes {
            let nodes = stripe.chunks.iter().filter_map(|chunk| chunk.node);
            let chunks = nodes.filter(failed).count() as u64;
            lost.chunks += chunks;
            lost.bytes += chunks * stripe.chunk_bytes;
        }
        let what = "what fails holds nothing: name other nodes, or another placement_seed";
        ensure!(lost.chunks > 0, what);
        Ok(lost)
    }

    /// Kills the nodes and waits until that is known, or has them emptied; when that was, in
    /// seconds of the coordinator's life.
    async fn fail(
        &self,
        client: &mut Client,
        processes: &mut Processes,
        accounting: &mut Accounting<'_>,
    ) -> Result<f64> {
        let cluster = &self.experiment.cluster;
        let names = self.experiment.failed.iter().map(|node| cluster.node(*node).name.clone());
        if self.experiment.drains {
            let mut names = names;
            let command = NodeCommand {
                name: names.next().expect("somebody is named"),
                others: names.collect(),
                action: NodeAction::Drain.into(),
                ..Default::default()
            };
            client.command_node(command).await.map_err(refusal)?;
            let status = accounting.ask(client).await?;
            return Ok(status.uptime_seconds);
        }
        for name in names {
            processes.kill(&name).await?;
        }
        let status = self.notice(client, processes, accounting).await?;
        status.declared_seconds.context("no failure was declared")
    }

    fn failed_names(&self) -> Vec<&str> {
        let name = |node: &NodeId| self.experiment.cluster.node(*node).name.as_str();
        self.experiment.failed.iter().map(name).collect()
    }

    /// Waits until all failures are declared.
    async fn notice(
        &self,
        client: &mut Client,
        processes: &mut Processes,
        accounting: &mut Accounting<'_>,
    ) -> Result<StatusReply> {
        let failed = self.failed_names();
        let since = Instant::now();
        loop {
            let status = accounting.ask(client).await?;
            let is_failed = |name: &&str| {
                status.nodes.iter().any(|node| node.name == **name && node.health == "failed")
            };
            if failed.iter().all(is_failed) {
                return Ok(status);
            }
            processes.check()?;
            ensure!(since.elapsed() < NOTICE_TIMEOUT, "the killed nodes do not count as failed");
            tokio::time::sleep(NOTICE_EVERY).await;
        }
    }

    /// Waits until nothing is lost any more. Returns the last status, and when the last chunk was
    /// committed.
    async fn watch(
        &self,
        client: &mut Client,
        processes: &mut Processes,
        agents: &[u32],
        links: &mut LinkWatch<'_>,
        play: &mut FaultPlay<'_>,
        accounting: &mut Accounting<'_>,
    ) -> Result<Watched> {
        let since = Instant::now();
        let (mut last_commit, mut until) = (None, None);
        loop {
            play.advance(processes).await?;
            links.sample()?;
            processes.check()?;
            if !play.is_coordinator_away() {
                let now = accounting.ask(client).await?;
                if let Some(committed) = now.committed_seconds {
                    let ago = Duration::from_secs_f64((now.uptime_seconds - committed).max(0.0));
                    last_commit = Instant::now().checked_sub(ago);
                }
                if is_repaired(&now, play) {
                    let processor = match until {
                        Some(processor) => processor,
                        None => *until.insert(ProcessorTime::now(agents)?),
                    };
                    match play.next_begin() {
                        Some(at) => bail!(
                            "all was repaired after {}, before the fault after {}: let it be \
                             earlier, or store more",
                            format_seconds(since.elapsed().as_secs_f64()),
                            format_seconds(at.as_secs_f64()),
                        ),
                        None if play.is_over() => {
                            return Ok(Watched { last: now, last_commit, processor });
                        }
                        None => {}
                    }
                } else {
                    until = None;
                }
                if let Some(entry) = now.blocked.iter().find(|entry| entry.unrepairable) {
                    bail!("stripe {} cannot be repaired: {}", entry.stripe, entry.why);
                }
                if since.elapsed() > self.experiment.timeout {
                    let timeout = format_seconds(self.experiment.timeout.as_secs_f64());
                    bail!("not repaired after {timeout}: {}", summary::summary(&now));
                }
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

/// How a repair ended.
struct Watched {
    /// The status in which all was repaired and all faults were over.
    last: StatusReply,
    /// When the last location was committed.
    last_commit: Option<Instant>,
    /// What agents had taken of processors when all was repaired: faults may last longer.
    processor: ProcessorTime,
}

/// The process numbers of the agents that are not killed meanwhile: of others nothing can be read
/// at the end.
fn living_agents(processes: &Processes, play: &FaultPlay<'_>) -> Vec<u32> {
    let killed: BTreeSet<u32> = play.killed().filter_map(|name| processes.id(name)).collect();
    let mut agents = processes.agents();
    agents.retain(|id| !killed.contains(id));
    agents
}

/// From the declaration to the last commit, by the coordinator's clock where it reports both: one
/// that was started again counts from its own start.
fn seconds_between(
    times: Option<(f64, f64)>,
    began: Instant,
    last_commit: Option<Instant>,
) -> Result<f64> {
    if let Some((declared, committed)) = times {
        return Ok(committed - declared);
    }
    let last_commit = last_commit.context("nothing was committed")?;
    Ok(last_commit.saturating_duration_since(began).as_secs_f64())
}

/// Whether nothing is lost or leaves, and the coordinator knows of all that faults have done to
/// nodes so far.
fn is_repaired(now: &StatusReply, play: &FaultPlay<'_>) -> bool {
    let is_known = |node: &NodeStatus| match node.health.as_str() {
        "unknown" => !play.restarts(),
        "failed" => true,
        _ => play.next_begin().is_some() || !play.killed().any(|name| name == node.name),
    };
    now.at_risk.iter().sum::<u64>() == 0
        && now.leaving_chunks == 0
        && now.nodes.iter().all(is_known)
}

/// What is to be rebuilt or moved.
#[derive(Clone, Copy, Debug, Default)]
struct FailedChunks {
    chunks: u64,
    bytes: u64,
}

/// What applications wait until the repair has ended that began at `since`, where there are any.
async fn beside(
    load: Option<&Ready>,
    since: Instant,
    longest: Duration,
    end: tokio::sync::oneshot::Receiver<()>,
) -> Option<Result<Seen>> {
    let end = async {
        let _ = end.await;
    };
    Some(load?.beside(since, longest, end).await)
}

/// Replays, where anything is to be; it ends with an error or not at all.
async fn follow(replay: Option<Replay<'_>>) -> Result<()> {
    match replay {
        Some(replay) => replay.run().await,
        None => std::future::pending().await,
    }
}

fn is_ready(node: &NodeStatus) -> bool {
    node.health == "up" && node.free_bytes > 0
}

async fn command(client: &mut Client, action: RepairAction) -> Result<()> {
    let command = RepairCommand { action: action.into(), ..Default::default() };
    client.command_repair(command).await.map_err(refusal)?;
    Ok(())
}

/// The k-chunk bound of what was lost, at the goodput of the true links and without what is `taken`
/// of them; of links that follow traces, with what they had in the `seconds` that it took or would
/// have had after.
fn bound(experiment: &Experiment, stripes: &[Stripe], seconds: f64, taken: &[PortRate]) -> f64 {
    let jobs: Vec<Job> =
        stripes.iter().filter_map(|stripe| job(stripe, &experiment.failed)).collect();
    let free = |node| if experiment.failed.contains(&node) { 0 } else { u64::MAX };
    let free_bytes: Vec<u64> = experiment.cluster.ids().map(free).collect();
    let (uplinks, downlinks) =
        (experiment.traces.uplinks.clone(), experiment.traces.downlinks.clone());
    let capacities = Capacities::new(experiment.cluster.clone(), uplinks, downlinks, Vec::new());
    capacities.least_seconds(seconds, |cluster| {
        let cluster = less_taken(goodput_cluster(cluster), taken);
        let idle = Load::new(&cluster);
        let abilities = Abilities::ALL;
        let view = View { cluster: &cluster, free_bytes: &free_bytes, load: &idle, abilities };
        suture_repair::bound::bound_seconds(&jobs, &view)
    })
}

/// What a stripe needs after the failure, if it lost anything.
fn job(stripe: &Stripe, failed: &[NodeId]) -> Option<Job> {
    let chunks = stripe.chunks.iter().enumerate();
    let placed = chunks
        .filter_map(|(index, record)| Some((suture_code::ChunkIndex(index as u8), record.node?)));
    let (lost, survivors): (Vec<_>, Vec<_>) = placed.partition(|(_, node)| failed.contains(node));
    (!lost.is_empty()).then(|| Job {
        stripe: stripe.id,
        code: stripe.code.into(),
        chunk_bytes: stripe.chunk_bytes,
        lost: lost.iter().map(|(chunk, _)| *chunk).collect(),
        excluded: lost.iter().chain(&survivors).map(|(_, node)| *node).collect(),
        keeper_places: Vec::new(),
        survivors,
        idle: Vec::new(),
        avoid: Vec::new(),
        source: None,
    })
}

/// A number for where everything lies.
fn fingerprint(stripes: &[Stripe]) -> u64 {
    let nodes = stripes.iter().flat_map(|stripe| &stripe.chunks);
    nodes.fold(0, |sum: u64, chunk| {
        let node = chunk.node.map_or(u64::MAX, |node| u64::from(node.0));
        Random::new(sum ^ node).next_u64()
    })
}

/// What was rebuilt between two answers; a coordinator that was restarted counts from then on.
fn rebuilt_between(first: &StatusReply, last: &StatusReply) -> u64 {
    last.repaired_bytes.saturating_sub(first.repaired_bytes)
}
