//! The agent's driver: performs what the agent core asks for.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! One task owns the core and waits for what comes next: the control plane (`session`), the network
//! (`net`), the disk (`disk`), the core's deadline. Each becomes one input (time for a heartbeat, a
//! reader that has ended, and the end are the driver's own affair); the outputs that follow are
//! handed to the parts that perform them. The task itself never waits for any of them and never
//! touches a byte, so the core always receives what happened in the order in which it did, and
//! needs no lock.
//!
//! A slice's way: a reader takes it off the wire, checks it, and sends the buffer here; it waits in
//! its repair's `task_data` for the other sources; the core orders `Deliver` or `Spool`, and all
//! its buffers leave as one `combination`, computed where a result is sent or written. In a gated
//! repair the core orders `Spill` first: the buffer goes to the spool by itself, and comes back
//! with all other sources of its slice.
//!
//! Memory: the core admits what fits the pool. Beyond it, each connection and each disk thread may
//! hold one slice of a repair that was discarded a moment ago.

mod beat;
pub mod disk;
pub mod disk_watch;
pub mod io;
pub mod links;
pub mod peers;
pub mod processor;
mod scope;
pub mod serve;
pub mod session;
pub mod spool;
pub mod task_data;

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use suture_repair::agent::{Agent, AgentInput, AgentOutput};
use suture_repair::chunk_store::ChunkStore;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::message::{DiskState, Failure, FromAgent, Refusal};
use suture_repair::planner::Abilities;
use suture_repair::role::{Role, Sink};
use suture_repair::slice::SliceId;
use suture_repair::time::{Span, Time};
use suture_repair::transcript;
use suture_repair::wire::{ClusterId, Who};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tracing::{debug, warn};

use crate::address::AgentAddress;
use crate::buffer::{Buffer, Pool};
use crate::combination::{Combination, Source};
use crate::identity::credentials::Kept;
use crate::limit::{LinkPorts, Port, Rates};
use crate::metrics::agent::{AgentMetrics, MovedBytes};
use crate::net::NetEvent;
use crate::net::grants::Grants;
use crate::net::incoming::{self, Acceptor, NodeNames};
use crate::net::local_identity::LocalIdentity;
use crate::net::outgoing::ToPeer;
use crate::put_key::PutKey;
use crate::record::{RecordTo, RecordedAgent};
use disk::{Disk, DiskEvent};
use disk_watch::{DiskWatch, WatchedStore};
use links::{LinkMeter, RateSettings, in_turn};
use peers::Peers;
use serve::{ChunkService, ChunkServiceParts, ClientLimits};
use session::{Session, SessionEvent};
use task_data::TaskData;

/// What this driver can execute.
pub const ABILITIES: Abilities = Abilities::ALL;

/// Events of the network that may wait. Those with slices are bounded by grants, not by this.
const NET_QUEUE: usize = 1024;

/// Events taken at a time, so that no source of them is kept waiting.
const BATCH: usize = 64;

/// Chunks that are read back at a time; each holds a buffer of 1 MiB and keeps a disk busy.
const PROOFS: usize = 4;

/// Free bytes are asked for no more often: others do not take a disk within the blink of an eye.
const FREE_BYTES_EVERY_MIN: Duration = Duration::from_millis(100);

/// What an agent is given at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which node it is: the control plane receives it when the agent registers.
    pub me: NodeId,
    /// Which cluster it belongs to.
    pub cluster: ClusterId,
    /// Different for each start.
    pub incarnation: u64,
    /// Memory for slices, in bytes; the core admits no task beyond it.
    pub pool_bytes: u64,
    /// How often it reports.
    pub heartbeat_every: Span,
    /// A task in which nothing moves for so long is given up.
    pub stall_after: Span,
    /// How often it lists its copies unasked.
    pub inventory_every: Span,
    /// A disk hangs when a call of it has not gone on for so long.
    pub disk_hangs_after: Duration,
    /// How fast it may send and receive.
    pub rates: Rates,
    /// What repair may move, where that is configured anew.
    pub repair_caps: watch::Receiver<Option<u64>>,
    /// How it measures what its links carry.
    pub links: RateSettings,
    /// Where slices that wait for others are spooled, in files without names.
    pub spool_dir: PathBuf,
    /// Where its transcript goes, if it is to be recorded.
    pub record: Option<RecordTo>,
    /// What clients may hold of it.
    pub clients: ClientLimits,
    /// What proves the principal at each end of its connections, if anything does.
    pub credentials: Option<Arc<Kept>>,
    /// What is counted for monitoring.
    pub metrics: Arc<AgentMetrics>,
}

impl Config {
    /// The identity that this agent announces to others.
    fn identity(&self) -> LocalIdentity {
        let (cluster, who) = (self.cluster, Who::Agent(self.me));
        LocalIdentity { cluster, who, credentials: self.credentials.clone() }
    }

    /// Uplink and downlink, as they are limited.
    fn ports(&self) -> LinkPorts {
        let Rates { uplink, downlink, repair } = self.rates;
        let MovedBytes { sent, received } = self.metrics.moved();
        let port = |link, moved| Arc::new(Port::new(link, repair).counting(moved));
        let dscp = self.links.dscp;
        LinkPorts { uplink: port(uplink, sent), downlink: port(downlink, received), dscp }
    }
}

struct AgentDriver {
    core: RecordedAgent,
    origin: Instant,
    tasks: HashMap<RepairId, TaskData>,
    /// What became known while an output was performed.
    later: Vec<AgentInput>,
    peers: Peers,
    /// Where acceptors of connections look up the names of nodes.
    names: watch::Sender<NodeNames>,
    put_key: watch::Sender<Option<PutKey>>,
    grants: Arc<Grants>,
    disk: Disk,
    watch: Arc<DiskWatch>,
    /// How the disk was when it was last looked at.
    disk_state: DiskState,
    pool: Arc<Pool>,
    outbox: mpsc::Sender<FromAgent>,
    /// Whether a listing found no place in it.
    lost_listing: bool,
    /// What was free when it was last looked at.
    free_bytes: u64,
    pool_bytes: u64,
    metrics: Arc<AgentMetrics>,
    /// The limits of uplink and downlink.
    ports: LinkPorts,
    meter: LinkMeter,
    /// Where the prober looks up the agents that it can ask.
    probed: watch::Sender<Vec<(NodeId, AgentAddress)>>,
    me: NodeId,
}

/// The runtime of an agent's process, with so many threads for its connections. A single one does
/// the core as well, because handing slices from thread to thread costs a relay a tenth of its
/// processor time; with more the core has a thread of its own beside them. The disk has others.
///
/// # Errors
/// When the system gives no event queue or no threads.
pub fn runtime(threads: usize) -> std::io::Result<Runtime> {
    use tokio::runtime::Builder;
    match threads {
        0 | 1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
}

/// Runs the agent until `shutdown` resolves or the control plane hangs up. It stops at once:
/// a restart loses running tasks and nothing else.
///
/// # Errors
/// When the disk cannot be asked for its space, or threads cannot be started.
pub async fn run(
    config: Config,
    store: Arc<dyn ChunkStore>,
    session: Session,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let (store, watch) = watched(store, config.disk_hangs_after);
    let (net_events, net) = mpsc::channel(NET_QUEUE);
    let (disk_events, disk) = mpsc::unbounded_channel();
    let (pool, grants) = (Pool::new(config.pool_bytes as usize), Arc::new(Grants::default()));
    let (ports, proofs) = (config.ports(), Arc::new(Semaphore::new(PROOFS)));
    let LinkPorts { uplink, downlink, dscp } = ports.clone();
    let meter = LinkMeter::new(config.links, ports.clone());
    let (probed, known_peers) = watch::channel(Vec::new());
    let prober = meter.prober(config.identity(), known_peers);
    let (put_key, known_put_key) = watch::channel(None);
    let service = ChunkService::new(ChunkServiceParts {
        store: store.clone(),
        disk: watch.clone(),
        ports: ports.clone(),
        limits: config.clients,
        proofs: proofs.clone(),
        events: disk_events.clone(),
        metrics: config.metrics.clone(),
        put_key: known_put_key,
    });
    let metrics = config.metrics.clone();
    let free_bytes = store.free_bytes().map_err(|why| std::io::Error::other(why.to_string()))?;
    let (identity, (names, known_names)) = (config.identity(), watch::channel(NodeNames::new()));
    let mut driver = AgentDriver {
        core: core(&config, free_bytes)?,
        origin: Instant::now(),
        tasks: HashMap::new(),
        later: Vec::new(),
        peers: Peers::new(identity.clone(), uplink, dscp, net_events.clone()),
        names,
        put_key,
        grants: grants.clone(),
        disk: Disk::new(store, config.spool_dir, pool.clone(), proofs, disk_events, metrics)?,
        watch,
        disk_state: DiskState::Good,
        pool: pool.clone(),
        outbox: session.outbox,
        lost_listing: false,
        free_bytes,
        pool_bytes: config.pool_bytes,
        metrics: config.metrics,
        ports,
        meter,
        probed,
        me: config.me,
    };
    let acceptor = Acceptor {
        local_identity: identity,
        names: known_names,
        downlink,
        grants,
        pool,
        events: net_events,
        peers: Default::default(),
        admission: config.clients.admission(),
    };
    let prober = config.links.probes.then_some(prober);
    let _background = serve(acceptor, listener, service, prober);
    let (beat, caps) = (heartbeats(config.heartbeat_every), config.repair_caps);
    let inputs = AgentInputs { session: session.events, net, disk, beat, caps };
    driver.run(inputs, shutdown).await;
    Ok(())
}

/// Accepts and serves connections, and probes, until what is returned is dropped.
fn serve(
    acceptor: Acceptor,
    listener: TcpListener,
    service: Arc<ChunkService>,
    prober: Option<impl Future<Output = ()> + Send + 'static>,
) -> JoinSet<()> {
    let mut background = JoinSet::new();
    let serve = move |connection| service.clone().serve(connection);
    background.spawn(incoming::run(Arc::new(acceptor), listener, serve));
    if let Some(prober) = prober {
        background.spawn(prober);
    }
    background
}

/// When free bytes are asked for: each heartbeat is to report what is free now, not what was at the
/// last listing.
fn heartbeats(every: Span) -> Interval {
    let every = Duration::from_nanos(every.ns).max(FREE_BYTES_EVERY_MIN);
    let mut beat = tokio::time::interval(every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// A store of which every call is watched, and the watch itself.
fn watched(
    store: Arc<dyn ChunkStore>,
    hangs_after: Duration,
) -> (Arc<dyn ChunkStore>, Arc<DiskWatch>) {
    let watch = Arc::new(DiskWatch::new(hangs_after));
    (Arc::new(WatchedStore::new(store, watch.clone())), watch)
}

/// The machine, recorded if that was asked for.
fn core(config: &Config, free_bytes: u64) -> std::io::Result<RecordedAgent> {
    let settings = core_config(config);
    let header = transcript::agent::header(&settings);
    let recording = config.record.as_ref().map(|to| to.begin(&header)).transpose()?;
    let mut core = RecordedAgent::new(Agent::new(settings), recording);
    // Before the first message, so that no coordinator takes a fresh agent for a full one. The
    // copies are listed once a session stands.
    core.handle(Time::ZERO, AgentInput::Listed { copies: Vec::new(), free_bytes });
    Ok(core)
}

fn core_config(config: &Config) -> suture_repair::agent::AgentConfig {
    suture_repair::agent::AgentConfig {
        me: config.me,
        incarnation: config.incarnation,
        abilities: ABILITIES,
        pool_bytes: config.pool_bytes,
        heartbeat_every: config.heartbeat_every,
        stall_after: config.stall_after,
        inventory_every: config.inventory_every,
    }
}

/// Where inputs of an agent's core come from.
struct AgentInputs {
    session: mpsc::Receiver<SessionEvent>,
    net: mpsc::Receiver<NetEvent>,
    disk: mpsc::UnboundedReceiver<DiskEvent>,
    beat: Interval,
    caps: watch::Receiver<Option<u64>>,
}

impl AgentDriver {
    /// Takes one input after the other, until `shutdown` resolves or the control plane hangs up.
    async fn run(&mut self, inputs: AgentInputs, shutdown: impl Future<Output = ()>) {
        let AgentInputs { mut session, mut net, mut disk, mut beat, mut caps } = inputs;
        let (mut net_batch, mut disk_batch) = (Vec::new(), Vec::new());
        let (mut shutdown, mut alarm) = (pin!(shutdown), pin!(tokio::time::sleep(Duration::ZERO)));
        loop {
            let deadline = self.deadline();
            if alarm.deadline() != deadline {
                alarm.as_mut().reset(deadline);
            }
            tokio::select! {
                () = &mut shutdown => return,
                event = session.recv() => match event {
                    Some(event) => self.on_session(event),
                    None => return,
                },
                _ = net.recv_many(&mut net_batch, BATCH) => {
                    net_batch.drain(..).for_each(|event| self.on_net(event));
                }
                _ = disk.recv_many(&mut disk_batch, BATCH) => {
                    disk_batch.drain(..).for_each(|event| self.on_disk(event));
                }
                () = &mut alarm => self.handle(AgentInput::Tick),
                _ = beat.tick() => self.beat(),
                Ok(()) = caps.changed() => self.cap_repair(*caps.borrow_and_update()),
                Some(()) = self.disk.reap() => {}
            }
        }
    }

    fn now(&self) -> Time {
        Time { ns: self.origin.elapsed().as_nanos() as u64 }
    }

    fn deadline(&self) -> Instant {
        let far = Time::ZERO + Span::from_secs(365 * 24 * 3600);
        self.origin + Duration::from_nanos(self.core.next_deadline().unwrap_or(far).ns)
    }

    /// One input, and everything that follows from it.
    fn handle(&mut self, input: AgentInput) {
        let mut next = Some(input);
        while let Some(input) = next {
            self.core.handle(self.now(), input);
            while let Some(output) = self.core.poll() {
                self.perform(output);
            }
            next = self.later.pop();
        }
    }

    fn on_session(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Connected { epoch } => {
                self.metrics.connected(true);
                self.meter.connected(epoch);
                self.handle(AgentInput::Connected { epoch });
            }
            SessionEvent::PutKey(key) => drop(self.put_key.send_replace(Some(key))),
            SessionEvent::Disconnected => {
                self.metrics.connected(false);
                self.handle(AgentInput::Disconnected);
            }
            SessionEvent::Message(message) => self.handle(AgentInput::Message(Box::new(message))),
            SessionEvent::Peers(addresses) => {
                let named =
                    addresses.iter().filter_map(|(node, agent)| Some((*node, agent.as_ref()?)));
                self.names.send_replace(named.map(|(node, of)| (node, of.name.clone())).collect());
                let others = addresses.iter().filter(|(node, _)| *node != self.me);
                let others = others.filter_map(|(node, agent)| Some((*node, agent.clone()?)));
                self.probed.send_replace(in_turn(self.me, others.collect()));
                for peer in self.peers.update(addresses) {
                    self.handle(AgentInput::PeerLost(peer));
                }
            }
        }
    }

    fn on_net(&mut self, event: NetEvent) {
        match event {
            NetEvent::Granted { from, repair, lane, first, below } => {
                self.handle(AgentInput::Granted { from, repair, lane, first, below });
            }
            NetEvent::Arrived { from, id, slice } => {
                if self.core.wants(from, id) {
                    self.task(id.repair).keep(id, Source::Child(from), slice);
                    self.handle(AgentInput::SliceArrived { from, id });
                }
            }
            NetEvent::Left(id) => self.handle(AgentInput::SliceLeft(id)),
            NetEvent::Lost(peer) => {
                self.metrics.count_error("peer_lost");
                self.peers.hang_up(peer);
                self.handle(AgentInput::PeerLost(peer));
            }
        }
    }

    fn on_disk(&mut self, event: DiskEvent) {
        event.count_failure(&self.metrics);
        let input = match event {
            DiskEvent::Read(id, result) => {
                // Without its data the repair is over, and the slice of no more interest.
                let Some(data) = self.tasks.get_mut(&id.repair) else { return };
                let keep = |(source, slice)| data.keep(id, source, slice);
                let result = result.map(|sources| sources.into_iter().for_each(keep));
                AgentInput::SliceRead { id, result }
            }
            DiskEvent::Spilled(from, id) => AgentInput::SliceSpilled { from, id },
            DiskEvent::Left(id) => AgentInput::SliceLeft(id),
            DiskEvent::WriteFailed(repair, why) => AgentInput::WriteFailed { repair, why },
            DiskEvent::Prepared(repair, result) => {
                let result = result.map(|target| match self.tasks.get(&repair) {
                    Some(data) => data.files.set_target(target),
                    None => self.disk.dispose(target),
                });
                AgentInput::Prepared { repair, result }
            }
            DiskEvent::Published(repair, result) => AgentInput::Published { repair, result },
            DiskEvent::Free(free_bytes) if free_bytes == self.free_bytes => return,
            DiskEvent::Free(free_bytes) => {
                self.free_bytes = free_bytes;
                AgentInput::FreeBytes(free_bytes)
            }
            DiskEvent::Listed(copies, free_bytes) => AgentInput::Listed { copies, free_bytes },
            DiskEvent::NotListed => AgentInput::NotListed,
            DiskEvent::Deleted(copy) => AgentInput::Deleted(copy),
            DiskEvent::Checked(check, result) => {
                AgentInput::Checked { check: Box::new(check), result }
            }
            DiskEvent::Fingerprinted(request, result) => {
                AgentInput::Fingerprinted { request: Box::new(request), result }
            }
            DiskEvent::Found { copy, fault } => AgentInput::Found { copy, fault },
        };
        self.handle(input);
    }

    fn perform(&mut self, output: AgentOutput) {
        match output {
            AgentOutput::Send(message) => self.notify(*message),
            AgentOutput::Grant { to, repair, lane, first, below } => {
                self.task(repair);
                self.grants.grant(repair, lane, to, first..below);
                self.send(to, ToPeer::Grant { repair, lane, first, below });
            }
            AgentOutput::Prepare { repair, bytes } => {
                self.task(repair);
                self.disk.prepare(repair, bytes);
            }
            AgentOutput::Continue { repair, from } => self.take_over(repair, from),
            AgentOutput::Read { id, role, spool } => {
                let files = self.task(id.repair).files.clone();
                self.disk.read(&files, id, role, spool);
            }
            AgentOutput::Deliver { id, role } => self.deliver(id, role),
            AgentOutput::Spool { id, role } => {
                if let Some(all) = self.combination(id, &role) {
                    let files = self.task(id.repair).files.clone();
                    self.disk.spool(&files, id, role, all);
                }
            }
            AgentOutput::Spill { id, from, role } => self.spill(id, from, role),
            AgentOutput::Publish { repair, copy, crc, label, .. } => {
                let files = self.task(repair).files.clone();
                self.disk.publish(files, repair, copy, crc, label);
            }
            AgentOutput::Discard(repair) => self.discard(repair),
            AgentOutput::List => self.disk.list(),
            AgentOutput::Check(check) => self.disk.check(*check),
            AgentOutput::Fingerprint { request, is_written: true } => {
                let files = self.task(request.repair).files.clone();
                self.disk.fingerprint_written(files, *request);
            }
            AgentOutput::Fingerprint { request, is_written: false } => {
                self.disk.fingerprint_copy(*request);
            }
            AgentOutput::Delete(copy) => self.disk.delete(copy),
            AgentOutput::Limit(limit) => self.limit_repair(limit),
        }
    }

    fn send(&mut self, to: NodeId, item: ToPeer) {
        if !self.peers.send(to, item) {
            debug!("{to} is out of reach");
            self.later.push(AgentInput::PeerLost(to));
        }
    }

    fn deliver(&mut self, id: SliceId, role: Arc<Role>) {
        let Some(all) = self.combination(id, &role) else { return };
        for (sink, result) in role.sinks.iter().zip(all.into_results()) {
            match *sink {
                Sink::Forward(to) => self.send(to, ToPeer::Slice(id, result)),
                Sink::Store => {
                    let files = self.task(id.repair).files.clone();
                    self.disk.write(&files, id, role.clone(), result);
                }
            }
        }
    }

    /// The combination of a slice, once all of its sources are in memory.
    fn combination(&mut self, id: SliceId, role: &Arc<Role>) -> Option<Combination> {
        let sources = self.task(id.repair).take(id);
        for (source, slice) in &sources {
            if let Source::Child(child) = *source
                && !self.is_of_length(id, child, slice, role)
            {
                self.later.push(AgentInput::PeerLost(child));
                return None;
            }
        }
        Some(Combination::new(role.clone(), id.slice, sources, self.pool.clone()))
    }

    /// Moves a child's slice from memory to the spool.
    fn spill(&mut self, id: SliceId, from: NodeId, role: Arc<Role>) {
        let data = self.task(id.repair);
        let Some(slice) = data.take_one(id, Source::Child(from)) else { return };
        let files = data.files.clone();
        if self.is_of_length(id, from, &slice, &role) {
            self.disk.spill(&files, from, id, role, slice)
        } else {
            self.later.push(AgentInput::PeerLost(from))
        }
    }

    /// Whether a child sent as much as its role says.
    fn is_of_length(&self, id: SliceId, from: NodeId, slice: &Buffer, role: &Role) -> bool {
        let is_right = role.child_bytes(from, id.slice) == Some(slice.len());
        if !is_right {
            warn!("{from} sent {} bytes as slice {} of {}", slice.len(), id.slice, id.repair);
        }
        is_right
    }

    /// The file that `from` was making is the new attempt's; what else there is of it goes.
    fn take_over(&mut self, repair: RepairId, from: RepairId) {
        let old = self.tasks.get(&from).and_then(|data| data.files.target().cloned());
        let result = match old {
            Some(target) => {
                self.task(repair).files.set_target(target);
                Ok(())
            }
            None => Err(Failure::Refused(Refusal::CannotContinue)),
        };
        self.discard(from);
        self.later.push(AgentInput::Prepared { repair, result });
    }

    fn discard(&mut self, repair: RepairId) {
        self.grants.discard(repair);
        self.peers.discard(repair);
        if let Some(data) = self.tasks.remove(&repair) {
            data.files.end();
            self.disk.dispose(data);
        }
    }

    fn task(&mut self, repair: RepairId) -> &mut TaskData {
        self.tasks.entry(repair).or_default()
    }
}
