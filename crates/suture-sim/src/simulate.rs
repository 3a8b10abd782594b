//! A whole repair on the fluid network: the coordinator, the links over time, and applications.
//!
//! Place: failure -> [stripes -> queue -> plan -> admit -> dispatch -> slices flow -> chunk durable
//! -> commit location -> stripe healthy].
//! The loop asks everyone when something happens next, lets time pass until then, and tells
//! everyone. It contains no policy: what is planned, and what runs when, the coordinator decides.
//! Deterministic: time of planning is measured by a clock that the caller hands in.

use std::fmt;

use suture_repair::cluster::Rate;
use suture_repair::event::Blocked;
use suture_repair::id::{NodeId, StripeId};
use suture_repair::plan::load::{Load, Port};

use crate::client::{Clients, Served};
use crate::fluid::{FlowId, Network};
use crate::fluid_agents::{FluidAgents, Rebuilt};
use crate::link_meter::LinkMeter;
use crate::ports::PortMap;
use crate::scenario::Scenario;
use crate::timeline::Timeline;
use crate::workload::Source;

/// Seconds between an agent's heartbeats.
const BEAT_SECONDS: f64 = 1.0;

/// Heartbeats that a coordinator hears in a second: in a large cluster agents speak less often.
const BEATS_A_SECOND: f64 = 250.0;

/// After so many heartbeats there is one whenever their number of parts of the time has passed: a
/// repair of weeks is not heeded every second.
const BEATS_DENSE: f64 = 1e4;

/// By then a coordinator that heeds progress has gone on without a straggler.
const NOTICED_SECONDS: f64 = 3600.0;

/// A longer repair is given up.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// What goes first has so many times the share of what does not: next to all of a port.
const FIRST: f64 = 1e4;

/// Keeps the clients' choices apart from those of planners.
const CLIENT_SEED: u64 = 0x636c_6965_6e74;

/// What a simulated repair took and moved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first dispatch to the last chunk.
    pub seconds: f64,
    /// Every chunk, in the order in which they were finished.
    pub rebuilt: Vec<Rebuilt>,
    /// Bytes that were moved, by port.
    pub load: Load,
    /// Stripes that still miss something, and why if the coordinator knows.
    pub unrepaired: Vec<(StripeId, Option<Blocked>)>,
    /// Why it was not simulated to its end, if so.
    pub given_up: Option<GivenUp>,
    /// What planning took, by the caller's clock.
    pub planning_ns: u64,
    /// What clients did meanwhile, and how the same operations went without the repair.
    pub foreground: Option<(Served, Served)>,
    /// How busy links were: first uplinks and downlinks of all nodes in turn, then of racks.
    pub timeline: Option<Timeline>,
}

/// Why a repair was not simulated to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It stood still for good: what it waits for has no bandwidth.
    Still,
    /// It goes on, for weeks.
    Long,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GivenUp::Still => {
                "the repair stands still: some link that it needs never has bandwidth"
            }
            GivenUp::Long => {
                "the repair takes more than 30 days: some link that it needs is too slow"
            }
        })
    }
}

/// Simulates. `cpu_ns` is asked before and after each call of the coordinator.
pub fn simulate(scenario: &Scenario, cpu_ns: &mut dyn FnMut() -> u64) -> Outcome {
    let mut run = Simulation::new(scenario, None);
    let mut agents = FluidAgents::new(scenario);
    agents.begin(&mut run.network, &run.ports, cpu_ns);
    let nodes = scenario.capacities.cluster().nodes.len();
    let least = BEAT_SECONDS.max(nodes as f64 / BEATS_A_SECOND);
    let beat_seconds = |now: f64| least.max(now / BEATS_DENSE);
    let mut next_beat = least;
    // What stands still then, stands still for good once everything has been seen.
    let mut moved_at = scenario.capacities.last_moment();
    let mut given_up = None;
    let noticed = if scenario.capacities.has_stragglers() { NOTICED_SECONDS } else { 0.0 };
    let timeout = (scenario.capacities.period() + 1) as f64 + noticed;
    while !agents.are_done() {
        let beat = agents.has_flows().then_some(next_beat);
        let next = [run.next_event(), agents.next_event(), beat].into_iter().flatten();
        let next = next.fold(f64::INFINITY, f64::min).max(run.network.now());
        if agents.is_moving(&run.network) || !agents.has_flows() {
            moved_at = moved_at.max(run.network.now());
        }
        if next.is_infinite() || next - moved_at > timeout + beat_seconds(next) {
            given_up = Some(GivenUp::Still);
            break;
        }
        if next > SECONDS_MAX {
            given_up = Some(GivenUp::Long);
            break;
        }
        run.advance(next, |flow, network| agents.flow_ended(flow, network));
        if next >= next_beat {
            agents.beat(&run.network, run.meter.as_mut().map(LinkMeter::take));
            next_beat = next + beat_seconds(next);
        }
        if run.has_changed {
            agents.notify_rates(scenario, next);
        }
        agents.wake(&mut run.network, &run.ports, cpu_ns);
    }
    finish(scenario, run, agents, given_up)
}

fn finish(
    scenario: &Scenario,
    run: Simulation<'_>,
    agents: FluidAgents,
    given_up: Option<GivenUp>,
) -> Outcome {
    let foreground = run.clients.zip(scenario.foreground).map(|(clients, _)| {
        let served = clients.served();
        let alone = alone(scenario, &served.operations);
        (served, alone)
    });
    Outcome {
        seconds: agents.rebuilt.iter().map(|chunk| chunk.ended).fold(0.0, f64::max),
        unrepaired: agents.unrepaired(),
        rebuilt: agents.rebuilt,
        load: agents.load,
        given_up,
        planning_ns: agents.planning_ns,
        foreground,
        timeline: run.timeline,
    }
}

/// The same operations without a repair.
fn alone(scenario: &Scenario, operations: &[u64]) -> Served {
    let mut run = Simulation::new(scenario, Some(operations));
    run.timeline = None;
    while run.clients.as_ref().is_some_and(|clients| !clients.are_done())
        && let Some(next) = run.next_event()
    {
        run.advance(next, |_, _| {});
    }
    run.clients.map(Clients::served).unwrap_or_default()
}

/// What links carry for so many seconds in which applications are alone, in at most so many
/// buckets, and what these did; links are those of [`timeline_links`].
pub fn applications(
    scenario: &Scenario,
    seconds: f64,
    buckets: usize,
) -> (Timeline, Option<Served>) {
    let scenario = Scenario { timeline_buckets: Some(buckets), ..scenario.clone() };
    let mut run = Simulation::new(&scenario, None);
    while run.network.now() < seconds {
        let next = run.next_event().unwrap_or(seconds).max(run.network.now()).min(seconds);
        run.advance(next, |_, _| {});
    }
    let timeline = run.timeline.expect("a timeline was asked for");
    (timeline, run.clients.map(Clients::served))
}

/// The network with all that changes it but repairs.
struct Simulation<'a> {
    scenario: &'a Scenario,
    ports: PortMap,
    network: Network,
    clients: Option<Clients>,
    timeline: Option<Timeline>,
    /// What links carry, where repair heeds it.
    meter: Option<LinkMeter>,
    ended: Vec<FlowId>,
    /// Whether capacities changed in the last step.
    has_changed: bool,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, operations: Option<&[u64]>) -> Simulation<'a> {
        let cluster = scenario.capacities.cluster();
        let client_count = scenario.foreground.map_or(0, |(_, clients)| clients);
        let ports = PortMap::new(cluster, client_count);
        let is_throttled = scenario.throttle.is_some();
        let ports = if is_throttled { ports.with_limits() } else { ports };
        let fastest = cluster.nodes.iter().map(|node| node.uplink.0.max(node.downlink.0));
        let client_link = Rate(fastest.fold(0.0, f64::max));
        let capacities = ports.capacities(cluster, client_link);
        let mut network = Network::new(&capacities, scenario.exact_entries);
        scenario.capacities.apply(0.0, &ports, &mut network);
        let clients = scenario.foreground.map(|(workload, count)| {
            let lives = |node: &NodeId| !scenario.failed.contains(node);
            let source = Source::new(workload, cluster.ids().filter(lives).collect());
            let whole = scenario.stripes.iter().map(|stripe| stripe.chunk_bytes).max().unwrap_or(1);
            let first = if is_throttled { FIRST } else { 1.0 };
            let source = (source, first * whole.max(1) as f64);
            Clients::new(source, count, scenario.seed ^ CLIENT_SEED, operations)
        });
        let timeline = scenario
            .timeline_buckets
            .map(|buckets| Timeline::new(timeline_ports(scenario, &ports), buckets));
        let (ended, has_changed) = (Vec::new(), false);
        let meter = is_throttled.then(|| LinkMeter::new(cluster.nodes.len()));
        Simulation { scenario, ports, network, clients, timeline, meter, ended, has_changed }
    }

    fn next_event(&mut self) -> Option<f64> {
        let clients = self.clients.as_ref().and_then(Clients::next_begin);
        let change = self.scenario.capacities.next_change(self.network.now());
        [self.network.next_event(), clients, change].into_iter().flatten().min_by(f64::total_cmp)
    }

    fn advance(&mut self, to: f64, mut flow_ended: impl FnMut(FlowId, &mut Network)) {
        let Simulation { network, ports, .. } = self;
        if let Some(timeline) = &mut self.timeline {
            timeline.record(network, to);
        }
        if let Some(meter) = &mut self.meter {
            meter.record(network, ports, to);
        }
        let change = self.scenario.capacities.next_change(network.now());
        self.ended.clear();
        network.advance(to, &mut self.ended);
        self.has_changed = change.is_some_and(|at| at <= to);
        if self.has_changed {
            self.scenario.capacities.apply(to, ports, network);
        }
        for &flow in &self.ended {
            let clients = self.clients.as_mut();
            if !clients.is_some_and(|clients| clients.flow_ended(flow, network, ports)) {
                flow_ended(flow, network);
            }
        }
        if let Some(clients) = &mut self.clients {
            clients.begin(network, ports);
        }
    }
}

/// Links in the order of `Outcome::timeline`.
fn timeline_ports(scenario: &Scenario, ports: &PortMap) -> Vec<u32> {
    let links = timeline_links(scenario);
    links.into_iter().map(|port| ports.index(port)).collect()
}

/// The links that a timeline shows, in its order.
pub fn timeline_links(scenario: &Scenario) -> Vec<Port> {
    let cluster = scenario.capacities.cluster();
    let nodes = cluster.ids().flat_map(|id| [Port::Uplink(id), Port::Downlink(id)]);
    let racks = (0..cluster.racks.len() as u32).map(suture_repair::id::RackId);
    let racks = racks.filter(|_| cluster.core.is_some());
    nodes.chain(racks.flat_map(|id| [Port::RackUplink(id), Port::RackDownlink(id)])).collect()
}
