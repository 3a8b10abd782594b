//! The coordinator at work on a fluid network: what agents would answer, the network answers.
//!
//! Place: failure -> stripes -> queue -> plan -> admit -> [dispatch -> slices flow -> chunk durable
//! -> commit location] -> stripe healthy; what is not in brackets is the coordinator itself.
//! Each dispatched plan becomes flows. When all lanes that rebuild a chunk have ended, its
//! destination sends `Stored`; commits succeed at once; heartbeats report progress now and then, so
//! that a schedule can see which node lags; they are left out where no schedule would read them:
//! with a hundred thousand chunks under repair they would cost more than everything else.
//!
//! Differences to a real cluster, on purpose: pools of slice memory are endless, silence means
//! nothing and a repair that stands still is not tried another way (a trace may have minutes
//! without bandwidth, and any other way would wait too). The most tasks that an agent takes at a
//! time (`budget::TASKS_MAX`) does hold: it is part of how the real system runs.

mod repair;
mod transfers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use suture_repair::cluster::Cluster;
use suture_repair::coordinator::{Config, Coordinator, IN_FLIGHT_MAX, ScrubConfig};
use suture_repair::event::{Blocked, Command, Commit, Input, Liveness, Output, Report, Timers};
use suture_repair::id::{ChunkCopy, ChunkIndex, EdgeRef, NodeId, RepairId, Stamp, StripeId};
use suture_repair::message::{
    DiskState, FromAgent, Heartbeat, Hello, LinkReport, RepairLimit, Task, ToAgent,
};
use suture_repair::plan::Plan;
use suture_repair::plan::load::Load;
use suture_repair::planner::Abilities;
use suture_repair::stripe::{Stripe, StripeMap};
use suture_repair::time::{Span, Time};

use crate::capacity::Undeclared;
use crate::client::RequestShares;
use crate::fluid::{FlowId, Network};
use crate::link_meter::LinkRates;
use crate::monitor::Taken;
use crate::ports::PortMap;
use crate::scenario::{Overheads, Scenario};
use repair::{Flows, Owner, Repair};

/// Longer than any simulation.
const FOREVER: Span = Span { ns: u64::MAX / 4 };

/// Memory and free bytes of every agent.
const PLENTY: u64 = 1 << 50;

/// Tests look at all that the coordinator holds of so many stripes after each exchange.
const ASSERTED_STRIPES_MAX: usize = 200;

/// Which start of every agent speaks.
const INCARNATION: u64 = 1;

/// So many peers are probed soon after an agent's start.
const PROBED_PEERS: usize = 16;

const TIMERS: Timers = Timers {
    suspect_after: FOREVER,
    dead_after: FOREVER,
    start_grace: FOREVER,
    stall_after: FOREVER,
    commit_retry: FOREVER,
    claim_prolong: FOREVER,
    retry_first: Span::from_secs(1),
    retry_max: FOREVER,
};

/// A chunk that was rebuilt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rebuilt {
    /// The stripe that it is of.
    pub stripe: StripeId,
    /// Its index in the stripe.
    pub chunk: ChunkIndex,
    /// When its repair was dispatched, in seconds.
    pub began: f64,
    /// When all of its bytes were there, in seconds.
    pub ended: f64,
}

/// What a coordinator did for repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// What the plans that repairs began with move, as a whole.
    pub begun_bytes: u64,
    /// Repairs that went on by another plan.
    pub replaced: u64,
    /// Messages to agents and from them, heartbeats and the first of each agent not counted.
    pub messages: u64,
}

/// The coordinator, and its agents as flows.
#[derive(Debug)]
pub(crate) struct FluidAgents {
    coordinator: Coordinator,
    stripes: BTreeMap<StripeId, Stripe>,
    failed: Vec<NodeId>,
    /// Nodes whose agents do not speak.
    gone: Vec<NodeId>,
    overheads: Overheads,
    repairs: BTreeMap<RepairId, Repair>,
    flows: Flows,
    /// Lanes whose bytes have come and whose overheads pass, by when they have.
    settling: BTreeSet<(Time, RepairId, usize)>,
    inbox: VecDeque<Input>,
    /// What is left of each node's disk.
    free_bytes: Vec<u64>,
    /// How many chunks are on their way to each node.
    coming: Vec<u32>,
    /// Whether the coordinator may look at progress; nothing is lost later that would make it.
    is_progress_heeded: bool,
    /// How often destinations have spoken.
    beats: u64,
    pub(crate) rebuilt: Vec<Rebuilt>,
    /// What all repairs moved.
    pub(crate) load: Load,
    pub(crate) dispatched: Dispatched,
    cluster: Cluster,
    /// What clients take of each node, as far as the coordinator was notified of it.
    taken: Vec<Taken>,
    /// What each node may move for repairs.
    limits: Vec<RepairLimit>,
    /// Whether reports state what links carry.
    rates: LinkRates,
    /// Time of the calls in which plans were made.
    pub(crate) planning_ns: u64,
}

/// Whether it is a message of an agent that there would not be without repairs.
fn is_of_repairs(input: &Input) -> bool {
    let Input::Agent { message, .. } = input else { return false };
    !matches!(message, FromAgent::Heartbeat(_) | FromAgent::Hello(_))
}

/// A heartbeat without news of repairs.
fn heartbeat(free_bytes: u64) -> Heartbeat {
    let (running, arrived) = (Vec::new(), Vec::new());
    let (written, waits) = (Vec::new(), Vec::new());
    Heartbeat {
        incarnation: INCARNATION,
        free_bytes,
        disk: DiskState::Good,
        running,
        arrived,
        written,
        waits,
        links: None,
    }
}

/// What each node can take.
fn free_bytes(scenario: &Scenario) -> Vec<u64> {
    let nodes = 0..scenario.capacities.cluster().nodes.len();
    nodes
        .map(|node| scenario.free_bytes.get(node).map_or(PLENTY, |bytes| PLENTY.min(*bytes)))
        .collect()
}

/// What an agent has reported of its links long before anything fails, where the coordinator uses
/// it.
fn first_report(scenario: &Scenario, node: NodeId) -> Option<Box<LinkReport>> {
    let rates = LinkRates::of(&scenario.capacities);
    let is_declared = rates == LinkRates::Declared;
    let is_heeded = scenario.throttle.is_some() || !is_declared;
    is_heeded.then(|| {
        Box::new(LinkReport {
            has_uplink: is_declared,
            has_downlink: is_declared,
            probed: probed(scenario, node),
            ..LinkReport::default()
        })
    })
}

/// What a node's probes have shown before the failure, of the peers after it: as many as an agent
/// asks soon after its start.
fn probed(scenario: &Scenario, node: NodeId) -> Vec<(NodeId, u64)> {
    let is_probed =
        matches!(scenario.capacities.undeclared_links(), Some(Undeclared { is_probed: true, .. }));
    if !is_probed {
        return Vec::new();
    }
    let cluster = scenario.capacities.cluster();
    let count = cluster.nodes.len() as u32;
    let is_here = |peer: &NodeId| {
        ![&scenario.failed, &scenario.silent].iter().any(|gone| gone.contains(peer))
    };
    let peers = (1..count).map(|turn| NodeId((node.0 + turn) % count)).filter(is_here);
    let down = cluster.node(node).downlink_free().0;
    let shown = |peer: NodeId| (peer, cluster.node(peer).uplink_free().0.min(down) as u64);
    peers.take(PROBED_PEERS).map(shown).collect()
}

impl FluidAgents {
    /// A coordinator that was configured with the failure and has a `Hello` of every agent in its
    /// inbox, but has not begun.
    pub fn new(scenario: &Scenario) -> FluidAgents {
        let cluster = scenario.capacities.declared_cluster(0.0);
        let config = Config {
            epoch: 1,
            timers: TIMERS,
            policy: scenario.policy,
            seed: scenario.seed,
            paused: true,
            failed: scenario.failed.clone(),
            draining: Vec::new(),
            paused_nodes: Vec::new(),
            claims: false,
            liveness: Liveness::Own,
            deletes: true,
            in_flight_max: IN_FLIGHT_MAX,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
            gather: Span::ZERO,
        };
        let stripes = StripeMap::new(scenario.stripes.iter().cloned());
        let mut agents = FluidAgents {
            coordinator: Coordinator::new(Time::ZERO, config, cluster.clone(), stripes),
            stripes: scenario.stripes.iter().map(|s| (s.id, s.clone())).collect(),
            failed: scenario.failed.clone(),
            gone: scenario.failed.iter().chain(&scenario.silent).copied().collect(),
            overheads: scenario.overheads,
            repairs: BTreeMap::new(),
            flows: Flows::default(),
            settling: BTreeSet::new(),
            inbox: VecDeque::new(),
            free_bytes: free_bytes(scenario),
            coming: vec![0; cluster.nodes.len()],
            is_progress_heeded: true,
            beats: 0,
            rebuilt: Vec::new(),
            load: Load::new(&cluster),
            dispatched: Dispatched::default(),
            limits: vec![RepairLimit::default(); cluster.nodes.len()],
            rates: LinkRates::of(&scenario.capacities),
            taken: vec![Taken::default(); cluster.nodes.len()],
            cluster,
            planning_ns: 0,
        };
        if let Some(config) = &scenario.throttle {
            agents.inbox.push_back(Input::Throttle(Box::new(config.clone())));
        }
        let gone = [&scenario.failed, &scenario.silent];
        let is_here = |node: &NodeId| !gone.iter().any(|gone| gone.contains(node));
        for node in agents.cluster.ids().filter(is_here) {
            let hello = Hello {
                incarnation: INCARNATION,
                session: 1,
                abilities: Abilities::ALL,
                pool_bytes: PLENTY,
                free_bytes: agents.free_bytes[node.index()],
            };
            agents.inbox.push_back(Input::Agent { node, message: FromAgent::Hello(hello) });
            if let Some(links) = first_report(scenario, node) {
                let beat = Heartbeat { links: Some(links), ..heartbeat(hello.free_bytes) };
                let message = FromAgent::Heartbeat(beat);
                agents.inbox.push_back(Input::Agent { node, message });
            }
        }
        agents
    }

    /// Lets the coordinator begin.
    pub fn begin(
        &mut self,
        network: &mut Network,
        ports: &PortMap,
        cpu_ns: &mut dyn FnMut() -> u64,
    ) {
        self.is_progress_heeded = true;
        self.inbox.push_back(Input::Operator(Command::Resume));
        self.exchange(network, ports, cpu_ns);
    }

    /// Whether nothing is under way and nothing will be.
    pub fn are_done(&self) -> bool {
        self.repairs.is_empty() && self.inbox.is_empty() && self.deadline().is_none()
    }

    /// Whether bytes of repairs are to be moved.
    pub fn has_flows(&self) -> bool {
        !self.repairs.is_empty()
    }

    /// Whether some repair moves at this moment.
    pub fn is_moving(&self, network: &Network) -> bool {
        !self.settling.is_empty() || self.flows.any_moves(network)
    }

    /// How often a flow of a repair has begun or ended.
    pub fn flow_changes(&self) -> u64 {
        self.flows.changes()
    }

    /// What a request has at each node where it has as much as a connection of a repair.
    pub fn request_shares(&self) -> Vec<RequestShares> {
        transfers::request_shares(self.repairs.values(), self.cluster.nodes.len())
    }

    /// When the coordinator must be woken or a lane's overheads have passed.
    pub fn next_event(&self) -> Option<f64> {
        let settled = self.settling.first().map(|(at, ..)| *at);
        [settled, self.deadline()].into_iter().flatten().min().map(seconds)
    }

    fn deadline(&self) -> Option<Time> {
        self.coordinator.next_deadline().filter(|at| at.ns < FOREVER.ns)
    }

    /// What could not be repaired, and why the coordinator thinks so.
    pub fn unrepaired(&self) -> Vec<(StripeId, Option<Blocked>)> {
        let status = self.coordinator.status();
        let mut blocked: BTreeMap<StripeId, Blocked> = status.blocked.into_iter().collect();
        let is_lost = |stripe: &&Stripe| {
            stripe.chunks.iter().any(|c| c.node.is_none_or(|node| self.failed.contains(&node)))
        };
        let lost = self.stripes.values().filter(is_lost);
        lost.map(|stripe| (stripe.id, blocked.remove(&stripe.id))).collect()
    }

    /// A flow of a repair has ended.
    pub fn flow_ended(&mut self, flow: FlowId, network: &mut Network) {
        let Owner { repair: id, lane, step } = self.flows.ended(flow);
        let repair = self.repairs.get_mut(&id).expect("its flows are stopped with it");
        if let Some(gated) = repair.step_ended(lane, step) {
            let arrived = vec![EdgeRef { repair: id, lane: lane as u16, peer: gated.child }];
            let beat = Heartbeat { arrived, ..heartbeat(self.free_bytes[gated.parent.index()]) };
            let message = FromAgent::Heartbeat(beat);
            self.inbox.push_back(Input::Agent { node: gated.parent, message });
        }
        self.go_on(id, lane, network);
    }

    /// Wakes the lanes and the coordinator that wait for this moment, and lets the coordinator
    /// answer to what has happened.
    pub fn wake(
        &mut self,
        network: &mut Network,
        ports: &PortMap,
        cpu_ns: &mut dyn FnMut() -> u64,
    ) {
        let now = time(network.now());
        while let Some(&(at, repair, lane)) = self.settling.first()
            && at <= now
        {
            self.settling.pop_first();
            self.lane_ended(repair, lane, network.now());
        }
        if self.deadline().is_some_and(|at| at <= now) {
            self.inbox.push_back(Input::Tick);
        }
        self.exchange(network, ports, cpu_ns);
    }

    /// Notifies the coordinator of what clients take of each node's links and disk, which holds
    /// until the next call.
    pub fn notify_taken(&mut self, scenario: &Scenario, now: f64, taken: Vec<Taken>) {
        self.taken = taken;
        self.notify_rates(scenario, now);
    }

    /// Notifies the coordinator of what links have now.
    pub fn notify_rates(&mut self, scenario: &Scenario, now: f64) {
        for id in self.cluster.ids() {
            let node = scenario.capacities.declared_beside(id, now, self.taken[id.index()]);
            if node != self.cluster.nodes[id.index()] {
                self.cluster.nodes[id.index()] = node.clone();
                let rack = node.rack.map(|rack| self.cluster.racks[rack.0 as usize].clone());
                self.inbox.push_back(Input::NodeAdded { id, node, rack });
            }
        }
    }

    /// Every destination reports that it lives and, where that matters, how far its chunks are, of
    /// those that have moved since its last report. Where links are measured, every node reports
    /// what they carried.
    pub fn beat(&mut self, network: &Network, ports: &PortMap, links: Option<Vec<LinkReport>>) {
        let mut beats: Vec<Heartbeat> = self.free_bytes.iter().copied().map(heartbeat).collect();
        let everybody = links.is_some();
        let span = links.iter().flatten().next().map(|report| report.span);
        let span = span.filter(|_| self.rates == LinkRates::Measured);
        let mut sent = span.map_or_else(BTreeMap::new, |span| {
            transfers::sent_to(self.repairs.values(), network, ports, span)
        });
        let reports = links.into_iter().flatten().zip(&self.limits);
        for ((node, beat), (report, limit)) in self.cluster.ids().zip(&mut beats).zip(reports) {
            let sent_to = sent.remove(&node).unwrap_or_default();
            beat.links = Some(Box::new(LinkReport { limit: *limit, sent_to, ..report }));
        }
        // The answer takes a look at everything that is lost.
        self.beats += 1;
        if self.is_progress_heeded && self.beats.is_power_of_two() {
            self.is_progress_heeded = self.coordinator.heeds_progress();
        }
        if self.is_progress_heeded {
            for (id, repair) in &mut self.repairs {
                repair.progress(network, |part, bytes_done| {
                    beats[part.destination.index()].running.push((*id, bytes_done));
                });
            }
        }
        for ((node, beat), coming) in self.cluster.ids().zip(beats).zip(&self.coming) {
            if *coming > 0 || everybody && !self.gone.contains(&node) {
                let message = FromAgent::Heartbeat(beat);
                self.inbox.push_back(Input::Agent { node, message });
            }
        }
    }

    /// Hands over what has happened and does what the coordinator sends, until both are silent.
    fn exchange(
        &mut self,
        network: &mut Network,
        ports: &PortMap,
        cpu_ns: &mut dyn FnMut() -> u64,
    ) {
        while let Some(input) = self.inbox.pop_front() {
            self.dispatched.messages += u64::from(is_of_repairs(&input));
            let before_ns = cpu_ns();
            self.coordinator.handle(time(network.now()), input);
            let taken_ns = cpu_ns() - before_ns;
            while let Some(output) = self.coordinator.poll() {
                self.dispatched.messages += u64::from(matches!(output, Output::Send { .. }));
                match output {
                    Output::Send { to, message: ToAgent::Limit(limit) } => {
                        self.limit(to, limit, network, ports);
                    }
                    Output::Send { message, .. } => self.apply(message, network, ports),
                    Output::Commit(commit) => self.commit(commit),
                    Output::Report(Report::Planned { .. }) => self.planning_ns += taken_ns,
                    Output::Report(_)
                    | Output::Claim(_)
                    | Output::ReleaseClaim(_)
                    | Output::Protect(_)
                    | Output::Scrub(_)
                    | Output::Faulty { .. } => {}
                }
            }
        }
        if cfg!(debug_assertions) && self.stripes.len() <= ASSERTED_STRIPES_MAX {
            self.coordinator.assert_all_invariants();
        }
    }

    /// The node keeps to another limit from now on.
    fn limit(&mut self, node: NodeId, limit: RepairLimit, network: &mut Network, ports: &PortMap) {
        self.limits[node.index()] = limit;
        for (port, limit) in ports.limits(node).into_iter().zip([limit.up, limit.down]) {
            network.set_capacity(port, PortMap::limit(limit));
        }
    }

    fn apply(&mut self, message: ToAgent, network: &mut Network, ports: &PortMap) {
        match message {
            // Every participant is sent one; the flows are those of all of them.
            ToAgent::Dispatch(task) => {
                if !self.repairs.contains_key(&task.repair) {
                    self.dispatch(task, network, ports);
                }
            }
            ToAgent::Cancel(id) => self.cancel(id, network),
            ToAgent::Release { repair, lane, child } => self.release(repair, lane, child, network),
            ToAgent::Hold { repair, held } => self.hold(repair, held, network),
            // What was sent needs no repeating here, every chunk has a recorded checksum, and there
            // are no copies to look after.
            ToAgent::Forget(_)
            | ToAgent::Check(_)
            | ToAgent::Fingerprint(_)
            | ToAgent::Publish(_)
            | ToAgent::Delete { .. }
            | ToAgent::Limit(_)
            | ToAgent::List => {}
        }
    }

    fn dispatch(&mut self, task: Arc<Task>, network: &mut Network, ports: &PortMap) {
        if task.continues.is_some() {
            self.dispatched.replaced += 1;
        } else {
            let edges = task.plan.lanes.iter().flat_map(|lane| &lane.edges);
            self.dispatched.begun_bytes += edges.map(|edge| edge.bytes).sum::<u64>();
        }
        let before = task.continues.and_then(|before| self.repairs.get(&before));
        let began = before.map_or(network.now(), |before| before.began);
        let (id, mut repair) = (task.repair, Repair::new(task, ports, began));
        if let Some(before) = before {
            repair = repair.going_on(before, network);
        }
        let lanes = repair.lane_count();
        for part in repair.unfinished() {
            self.coming[part.destination.index()] += 1;
        }
        self.repairs.insert(id, repair);
        (0..lanes).for_each(|lane| self.go_on(id, lane, network));
    }

    /// Starts the steps of a lane whose time has come, and ends the lane after the last one.
    fn go_on(&mut self, id: RepairId, lane: usize, network: &mut Network) {
        let repair = self.repairs.get_mut(&id).expect("only running repairs go on");
        if !repair.go_on(id, lane, &mut self.flows, network) {
            return;
        }
        let pipeline = repair.pipeline(lane);
        let after = self.overheads.seconds(pipeline.depth, pipeline.slices);
        if after > 0.0 {
            self.settling.insert((time(network.now() + after), id, lane));
        } else {
            self.lane_ended(id, lane, network.now());
        }
    }

    fn lane_ended(&mut self, id: RepairId, lane: usize, now: f64) {
        let Some(repair) = self.repairs.get_mut(&id) else { return };
        let stripe = repair.task.stripe.id;
        for part in repair.lane_ended(lane) {
            let (chunk, node) = (part.chunk, part.destination);
            self.coming[node.index()] -= 1;
            self.rebuilt.push(Rebuilt { stripe, chunk, began: repair.began, ended: now });
            let left = &mut self.free_bytes[node.index()];
            *left = left.saturating_sub(repair.task.stripe.chunk_bytes);
            // What was coming is no load any more: before that is known, it has to be off the free
            // bytes.
            if *left < PLENTY / 2 {
                let message = FromAgent::Heartbeat(heartbeat(*left));
                self.inbox.push_back(Input::Agent { node, message });
            }
            let copy = ChunkCopy { stripe, chunk, stamp: Stamp::from(id) };
            let message = FromAgent::Stored { repair: id, copy };
            self.inbox.push_back(Input::Agent { node, message });
        }
        if repair.unfinished().is_empty() {
            let repair = self.repairs.remove(&id).expect("looked up above");
            self.charge(&repair.moved(), &repair.task);
        }
    }

    /// An edge of a gated repair may flow.
    fn release(&mut self, id: RepairId, lane: u16, child: NodeId, network: &mut Network) {
        let Some(repair) = self.repairs.get_mut(&id) else { return };
        if repair.release(lane, child) {
            self.go_on(id, usize::from(lane), network);
        }
    }

    /// A repair comes to rest, or goes on.
    fn hold(&mut self, id: RepairId, held: bool, network: &mut Network) {
        if let Some(repair) = self.repairs.get_mut(&id) {
            repair.hold(id, held, &mut self.flows, network);
        }
    }

    fn cancel(&mut self, id: RepairId, network: &mut Network) {
        let Some(repair) = self.repairs.remove(&id) else { return };
        self.settling.retain(|(_, repair, _)| *repair != id);
        for part in repair.unfinished() {
            self.coming[part.destination.index()] -= 1;
        }
        // What was moved was moved.
        let plan = repair.stop(&mut self.flows, network);
        self.charge(&plan, &repair.task);
    }

    fn charge(&mut self, plan: &Plan, task: &Task) {
        let survivors = task.survivors();
        self.load.add(&self.cluster, plan, &task.facts(&survivors));
    }

    fn commit(&mut self, commit: Commit) {
        let stripe = self.stripes.get_mut(&commit.copy.stripe).expect("the coordinator knows it");
        let repair = commit.repair;
        if stripe.generation != commit.generation {
            let stripe = Some(stripe.clone());
            return self.inbox.push_back(Input::CommitRefused { repair, stripe });
        }
        stripe.generation.0 += 1;
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        let stripe = stripe.clone();
        self.inbox.push_back(Input::Committed { repair, stripe });
    }
}

/// The coordinator's clock ticks nanoseconds.
fn time(seconds: f64) -> Time {
    Time { ns: (seconds * 1e9).round() as u64 }
}

fn seconds(time: Time) -> f64 {
    time.ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::Rate;
    use suture_repair::id::Generation;
    use suture_repair::stripe::ChunkRecord;

    use super::*;
    use crate::capacity::Capacities;
    use crate::fluid::EXACT_ENTRIES;

    const CHUNK: u64 = 1 << 20;

    /// One stripe of rs(4,2) on nodes 0 to 5, of which node 0 fails; links of a chunk a second.
    fn scenario() -> Scenario {
        let record = |node| ChunkRecord {
            node: Some(NodeId(node)),
            stamp: Stamp(0),
            bytes: CHUNK,
            crc: Some(0),
        };
        let stripe = Stripe {
            id: StripeId(0),
            code: "rs(4,2)".parse().expect("a code"),
            chunk_bytes: CHUNK,
            unit_bytes: CHUNK,
            generation: Generation(0),
            chunks: (0..6).map(record).collect(),
        };
        let cluster = Cluster::uniform(8, Rate(CHUNK as f64));
        Scenario {
            capacities: Capacities::new(cluster, None, None, Vec::new()),
            stripes: vec![stripe],
            failed: vec![NodeId(0)],
            silent: Vec::new(),
            free_bytes: Vec::new(),
            policy: "chain/random/all".parse().expect("a policy"),
            seed: 1,
            overheads: Overheads::default(),
            throttle: None,
            foreground: None,
            timeline_buckets: None,
            exact_entries: EXACT_ENTRIES,
        }
    }

    fn advance(agents: &mut FluidAgents, network: &mut Network, ports: &PortMap, to: f64) {
        let mut ended = Vec::new();
        while let Some(next) = network.next_event().filter(|&next| next <= to) {
            network.advance(next, &mut ended);
            ended.drain(..).for_each(|flow| agents.flow_ended(flow, network));
            agents.wake(network, ports, &mut || 0);
        }
        network.advance(to, &mut ended);
    }

    #[test]
    fn what_a_cancelled_repair_moved_was_moved() {
        let scenario = scenario();
        let ports = PortMap::new(scenario.capacities.cluster(), 0);
        let capacities = ports.capacities(scenario.capacities.cluster(), Rate(0.0));
        let network = &mut Network::new(&capacities, EXACT_ENTRIES);
        let agents = &mut FluidAgents::new(&scenario);
        agents.begin(network, &ports, &mut || 0);
        advance(agents, network, &ports, 0.5);
        assert!(agents.is_moving(network) && agents.load.moved_bytes() == 0);

        agents.inbox.push_back(Input::Operator(Command::Cancel));
        agents.exchange(network, &ports, &mut || 0);
        assert!(network.is_empty() && agents.are_done());
        assert_eq!(agents.load.moved_bytes(), 4 * CHUNK / 2);
        assert_eq!(agents.unrepaired(), [(StripeId(0), None)]);

        agents.begin(network, &ports, &mut || 0);
        advance(agents, network, &ports, 3.0);
        assert!(agents.are_done() && agents.unrepaired().is_empty());
        assert_eq!(agents.load.moved_bytes(), 4 * CHUNK / 2 + 4 * CHUNK);
        let Rebuilt { began, ended, .. } = agents.rebuilt[0];
        assert!((began - 0.5).abs() < 1e-9 && (ended - 1.5).abs() < 1e-9);
    }

    /// Clients fill the links of node 3, and of no other.
    fn busy_node() -> Vec<Taken> {
        let all = Taken { up: CHUNK as f64, down: CHUNK as f64, ..Taken::default() };
        (0..8).map(|node| if node == 3 { all } else { Taken::default() }).collect()
    }

    #[test]
    fn a_balance_that_counts_links_avoids_what_clients_take() {
        let helps = |policy: &str, taken: Option<Vec<Taken>>| {
            let scenario = Scenario { policy: policy.parse().expect("a policy"), ..scenario() };
            let ports = PortMap::new(scenario.capacities.cluster(), 0);
            let capacities = ports.capacities(scenario.capacities.cluster(), Rate(0.0));
            let network = &mut Network::new(&capacities, EXACT_ENTRIES);
            let agents = &mut FluidAgents::new(&scenario);
            if let Some(taken) = taken {
                agents.notify_taken(&scenario, 0.0, taken);
            }
            agents.begin(network, &ports, &mut || 0);
            let repair = agents.repairs.values().next().expect("it has begun");
            repair.task.plan.participants().contains(&NodeId(3))
        };
        let chameleon = "tunable/chameleon/all";
        assert!(helps(chameleon, None), "of equals the lower chunks help");
        assert!(!helps(chameleon, Some(busy_node())));
        assert!(helps(chameleon, Some(vec![Taken::default(); 8])));
    }

    #[test]
    fn what_clients_take_counts_until_something_else_is_notified() {
        let scenario = scenario();
        let agents = &mut FluidAgents::new(&scenario);
        let link = CHUNK as f64;
        agents.notify_taken(&scenario, 0.0, busy_node());
        agents.notify_rates(&scenario, 1.0);
        let busy = &agents.cluster.nodes[3];
        // A twentieth is left of what is taken in full.
        assert!((link / 21.0..link / 19.0).contains(&busy.uplink_free().0), "{busy:?}");
        assert!(busy.downlink_free() == busy.uplink_free() && busy.uplink == Rate(link));
        assert_eq!(agents.cluster.nodes[4].uplink_free(), Rate(link));
        agents.notify_taken(&scenario, 2.0, vec![Taken::default(); 8]);
        assert_eq!(agents.cluster.nodes[3].uplink_free(), Rate(link));
    }

    /// How many chunks a beat in the middle of a repair reports the progress of.
    fn reported(scenario: &Scenario) -> usize {
        let ports = PortMap::new(scenario.capacities.cluster(), 0);
        let capacities = ports.capacities(scenario.capacities.cluster(), Rate(0.0));
        let network = &mut Network::new(&capacities, EXACT_ENTRIES);
        let agents = &mut FluidAgents::new(scenario);
        agents.begin(network, &ports, &mut || 0);
        advance(agents, network, &ports, 0.5);
        agents.beat(network, &ports, None);
        let beats = agents.inbox.drain(..).map(|input| match input {
            Input::Agent { message: FromAgent::Heartbeat(beat), .. } => beat.running.len(),
            other => panic!("a beat, and not {other:?}"),
        });
        let beats: Vec<usize> = beats.collect();
        assert_eq!(beats.len(), 1, "destinations speak, whether or not of progress");
        beats[0]
    }

    #[test]
    fn progress_is_reported_where_the_coordinator_may_look_at_it() {
        let everything_runs = scenario();
        assert_eq!(reported(&everything_runs), 0);
        let waves = Scenario { policy: "suture".parse().expect("a policy"), ..scenario() };
        assert_eq!(reported(&waves), 1);
        // Where one node is free, the second chunk is planned once the first is there.
        let capacities =
            Capacities::new(Cluster::uniform(7, Rate(CHUNK as f64)), None, None, Vec::new());
        let failed = vec![NodeId(0), NodeId(1)];
        assert_eq!(reported(&Scenario { capacities, failed, ..scenario() }), 1);
    }
}
