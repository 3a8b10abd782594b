//! A whole repair on the fluid network: the coordinator, the links over time, and applications.
//!
//! Place: failure -> [stripes -> queue -> plan -> admit -> dispatch -> slices flow -> chunk durable
//! -> commit location -> stripe healthy].
//! The loop asks each part when something happens next, lets time pass until then, and notifies
//! all. It contains no policy: what is planned, and what runs when, the coordinator decides.
//! Deterministic: time of planning is measured by a clock that the caller hands in.

use std::fmt;

use suture_repair::cluster::Rate;
use suture_repair::event::Blocked;
use suture_repair::id::{NodeId, StripeId};
use suture_repair::plan::load::{Load, Port};

use crate::client::{Clients, Served};
use crate::fluid::{FlowId, Network};
use crate::fluid_agents::{Dispatched, FluidAgents, Rebuilt};
use crate::link_meter::{LinkMeter, LinkRates};
use crate::monitor::{Monitor, Taken};
use crate::ports::PortMap;
use crate::scenario::{Foreground, Scenario};
use crate::timeline::Timeline;
use crate::workload::Source;

/// Seconds between an agent's heartbeats.
const BEAT_SECONDS: f64 = 1.0;

/// Heartbeats that a coordinator receives in a second: in a large cluster agents send them less
/// often.
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

/// Keeps what they ask for before a failure apart from what they ask for after it.
const BEFORE_SEED: u64 = 0x6265_666f_7265;

/// What a simulated repair took and moved.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first dispatch to the last chunk.
    pub seconds: f64,
    /// Every chunk, in the order in which they were finished.
    pub rebuilt: Vec<Rebuilt>,
    /// Bytes that were moved, by port.
    pub load: Load,
    /// What the coordinator did for that.
    pub dispatched: Dispatched,
    /// Stripes that still miss something, and why if the coordinator knows.
    pub unrepaired: Vec<(StripeId, Option<Blocked>)>,
    /// Why it was not simulated to its end, if so.
    pub given_up: Option<GivenUp>,
    /// What planning took, by the caller's clock.
    pub planning_ns: u64,
    /// What clients did meanwhile; how the same operations go without the repair, `alone` reports.
    pub foreground: Option<Served>,
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
    if let Some(taken) = taken_before(scenario) {
        agents.notify_taken(scenario, 0.0, taken);
    }
    agents.begin(&mut run.network, &run.ports, cpu_ns);
    run.share_by_connection(&agents);
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
            agents.beat(&run.network, &run.ports, run.meter.as_mut().map(LinkMeter::take));
            if let Some(taken) = run.taken() {
                agents.notify_taken(scenario, next, taken);
            }
            next_beat = next + beat_seconds(next);
        }
        if run.has_changed {
            agents.notify_rates(scenario, next);
        }
        agents.wake(&mut run.network, &run.ports, cpu_ns);
        run.share_by_connection(&agents);
    }
    finish(run, agents, given_up)
}

fn finish(run: Simulation<'_>, agents: FluidAgents, given_up: Option<GivenUp>) -> Outcome {
    let Simulation { clients, network, timeline, .. } = run;
    Outcome {
        seconds: agents.rebuilt.iter().map(|chunk| chunk.ended).fold(0.0, f64::max),
        unrepaired: agents.unrepaired(),
        rebuilt: agents.rebuilt,
        load: agents.load,
        dispatched: agents.dispatched,
        given_up,
        planning_ns: agents.planning_ns,
        foreground: clients.map(|clients| clients.served(&network)),
        timeline,
    }
}

/// The operations that clients performed during a repair, without the repair.
pub fn alone(scenario: &Scenario, during: &Served) -> Served {
    let mut run = Simulation::new(scenario, Some(&during.operations));
    run.timeline = None;
    while run.clients.as_ref().is_some_and(|clients| !clients.are_done())
        && let Some(next) = run.next_event()
    {
        run.advance(next, |_, _| {});
    }
    let Simulation { clients, network, .. } = run;
    clients.map(|clients| clients.served(&network)).unwrap_or_default()
}

/// What applications took of each node in the last second before the failure, where they are
/// monitored: a coordinator does not begin without having been notified of it.
fn taken_before(scenario: &Scenario) -> Option<Vec<Taken>> {
    let foreground = scenario.foreground.filter(|foreground| foreground.is_monitored)?;
    let before = Scenario {
        foreground: Some(Foreground {
            readers: None,
            seed: foreground.seed.map(|seed| seed ^ BEFORE_SEED),
            ..foreground
        }),
        seed: scenario.seed ^ BEFORE_SEED,
        timeline_buckets: None,
        ..scenario.clone()
    };
    let mut run = Simulation::new(&before, None);
    run.pass(BEAT_SECONDS);
    run.taken()
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
    run.pass(seconds);
    let Simulation { clients, network, timeline, .. } = run;
    let timeline = timeline.expect("a timeline was asked for");
    (timeline, clients.map(|clients| clients.served(&network)))
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
    /// What counts what clients take, where the coordinator is notified of it.
    monitor: Option<Monitor>,
    ended: Vec<FlowId>,
    /// Whether capacities changed in the last step.
    has_changed: bool,
    /// How often flows of repairs had begun or ended when requests were last given shares.
    shared_at: Option<u64>,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, operations: Option<&[u64]>) -> Simulation<'a> {
        let cluster = scenario.capacities.cluster();
        let client_count = scenario.foreground.map_or(0, |foreground| foreground.client_count());
        let ports = PortMap::new(cluster, client_count);
        let is_throttled = scenario.throttle.is_some();
        let rates = LinkRates::of(&scenario.capacities);
        let is_metered = is_throttled || rates == LinkRates::Measured;
        let ports = if is_metered { ports.with_limits() } else { ports };
        let fastest = cluster.nodes.iter().map(|node| node.uplink.0.max(node.downlink.0));
        let client_link = Rate(fastest.fold(0.0, f64::max));
        let capacities = ports.capacities(cluster, client_link);
        let mut network = Network::new(&capacities, scenario.exact_entries);
        scenario.capacities.apply(0.0, &ports, &mut network);
        let clients = scenario.foreground.map(|foreground| {
            let lives = |node: &NodeId| !scenario.failed.contains(node);
            let source = Source::new(foreground.workload, cluster.ids().filter(lives).collect());
            let whole = scenario.stripes.iter().map(|stripe| stripe.chunk_bytes).max().unwrap_or(1);
            let first = if is_throttled { FIRST } else { 1.0 };
            let share = first * whole.max(1) as f64;
            let seed = foreground.seed.unwrap_or(scenario.seed ^ CLIENT_SEED);
            // Clients that are to do what they did before are applications.
            let readers = foreground.readers.filter(|_| operations.is_none());
            Clients::new(source, share, foreground.clients, seed, operations)
                .with_share_factor(foreground.share_factor)
                .with_record(foreground.is_recorded)
                .with_readers(readers)
        });
        let timeline = scenario
            .timeline_buckets
            .map(|buckets| Timeline::new(timeline_ports(scenario, &ports), buckets));
        let (ended, has_changed) = (Vec::new(), false);
        let meter = is_metered.then(|| LinkMeter::new(cluster.nodes.len(), rates));
        let is_monitored = scenario.foreground.is_some_and(|foreground| foreground.is_monitored);
        let monitor = is_monitored.then(Monitor::default);
        Simulation {
            scenario,
            ports,
            network,
            clients,
            timeline,
            meter,
            monitor,
            ended,
            has_changed,
            shared_at: None,
        }
    }

    /// Gives requests from now on what a connection has, where they are to have that and some flow
    /// of a repair has begun or ended.
    fn share_by_connection(&mut self, agents: &FluidAgents) {
        let is_asked = |foreground: Foreground| foreground.is_by_connection;
        let is_shared = self.scenario.foreground.is_some_and(is_asked);
        if !is_shared || self.scenario.throttle.is_some() {
            return;
        }
        if self.shared_at.replace(agents.flow_changes()) != Some(agents.flow_changes())
            && let Some(clients) = &mut self.clients
        {
            clients.set_shares(agents.request_shares());
        }
    }

    /// Lets time pass until `seconds` with nothing but clients.
    fn pass(&mut self, seconds: f64) {
        while self.network.now() < seconds {
            let next = self.next_event().unwrap_or(seconds).max(self.network.now()).min(seconds);
            self.advance(next, |_, _| {});
        }
    }

    /// What clients have taken of each node, a second, since this was last asked; `None` where the
    /// coordinator is not notified of it.
    fn taken(&mut self) -> Option<Vec<Taken>> {
        let (monitor, clients) = (self.monitor.as_mut()?, self.clients.as_mut()?);
        let node_count = self.scenario.capacities.cluster().nodes.len();
        Some(monitor.rates(self.network.now(), clients.taken(&self.network), node_count))
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
