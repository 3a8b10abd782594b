//! The coordinator's driver: one task that owns the core and performs what it asks for.
//!
//! Place: [failure detected -> stripes affected -> queue -> plan -> admit -> dispatch -> ... ->
//! commit location -> stripe healthy]. What is decided is decided in `suture_repair::coordinator`;
//! here inputs are gathered, outputs are performed and the clock is read.
//!
//! The loop is `perform everything -> wait for one thing -> handle it`. Nothing in it waits for a
//! peer: agents are written to through queues, the metadata through their thread's, and
//! what comes back comes as the next input. An agent that lets its queue fill up is cut off, as
//! if it had gone away; it will join again, and what it has to know is sent anew.
//!
//! Changes of the metadata come before requests, so a client that saw a put or a removal succeed
//! sees it in the next status.

mod backups;
mod beat_watch;
mod bound_watch;
mod clock;
mod handle;
mod hdfs_keeping;
pub mod history;
pub mod load;
pub mod meter;
mod observe;
mod orphan_search;
pub mod outbox;
mod places;
mod rebuilt_lines;
pub mod refused;
pub mod report;
pub mod scrub_watch;
pub mod throttle;
pub mod unreported;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use suture_repair::coordinator::{Coordinator, RepairBound};
use suture_repair::event::{Command, Health, Input, Output, Report};
use suture_repair::id::{ChunkCopy, ListedCopy, NodeId};
use suture_repair::keeper::Keeper;
use suture_repair::message::{FromAgent, ToAgent};
use suture_repair::placement::Placer;
use suture_repair::time::Time;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::attempt::Attempts;
use crate::maintenance_window::ThrottleIntent;
use crate::metadata::{Mark, Metadata, NodeRecord, seconds_since_1970};
use crate::metrics::coordinator::CoordinatorMetrics;
use crate::record::RecordedCoordinator;
use backups::Backups;
use beat_watch::BeatWatch;
use bound_watch::BoundWatch;
use clock::ClockWatch;
pub use handle::Handle;
use hdfs_keeping::HdfsKeeping;
use meter::Meter;
use orphan_search::OrphanSearch;
use outbox::{Dispatch, Outbox, Outgoing, PeerAddress};
pub use places::{NewPlaces, Placed, StoredChunks};
use rebuilt_lines::RebuiltLines;
use refused::{RefusedAgent, RefusedAgents};
use scrub_watch::ScrubWatch;
use throttle::Live;
use unreported::Unreported;

/// Requests that may wait in the queue; senders of further ones wait for space in it.
const REQUESTS_MAX: usize = 1024;

/// How often progress is measured while something runs.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// Measuring takes longer the more is lost. The pause between two measurements is this many times
/// the last one's duration.
const MEASURE_REST: u32 = 30;

/// A question to the driver, answered by its own task.
type Query = Box<dyn FnOnce(&CoordinatorDriver) + Send>;

/// What sessions, puts and operators want of the driver.
enum Request {
    Joined { node: NodeRecord, session: NewSession },
    Left { node: NodeId, session: u64 },
    Refused(RefusedAgent),
    BackupKept,
    Received { node: NodeId, session: u64, message: FromAgent },
    Suspect { node: NodeId, copy: ChunkCopy },
    Apply(Command),
    Throttle(Option<Box<ThrottleIntent>>),
    Configure(Box<Live>),
    Place(NewPlaces, oneshot::Sender<Placed>),
    Unplace(Vec<NodeId>, u64),
    Stored(StoredChunks),
    SearchOrphans(BTreeSet<NodeId>),
    Query(Query),
}

/// A session that an agent has begun.
pub struct NewSession {
    /// What distinguishes it from others of the same node.
    pub number: u64,
    /// Where messages to the agent go from now on.
    pub outbox: Outbox,
    /// It takes the place of another one of the same agent, without a gap.
    pub renews: bool,
    /// How often the agent reports, if it announces that.
    pub heartbeat: Option<Duration>,
    /// Which file system its chunks are on, if it announces one: agents that share one announce the
    /// same.
    pub file_system: Option<u64>,
}

/// What every agent that was received of holds.
pub type Listings = BTreeMap<NodeId, Vec<ListedCopy>>;

/// What the driver owns.
pub struct CoordinatorDriver {
    core: RecordedCoordinator,
    metadata: Metadata,
    /// The keeper of the stripes, where that is HDFS.
    hdfs: Option<HdfsKeeping>,
    origin: Instant,
    nodes: BTreeMap<NodeId, Contact>,
    backups: Backups,
    /// What agents have listed, where a rebuild asks for it.
    listings: Option<Listings>,
    /// Agents that were not let in.
    refused: RefusedAgents,
    /// How the nodes are now was not sent to agents yet.
    peers_changed: bool,
    /// The number of committed puts and the mark that they were sent last.
    sent_news: Option<(u64, Option<Mark>)>,
    /// The task that was sent last: its other participants come next.
    dispatch: Option<Arc<Dispatch>>,
    placer: Placer,
    orphans: OrphanSearch,
    unreported: Unreported,
    /// What repair may take by configuration, and what an operator wants instead.
    throttle: (ThrottleIntent, Option<ThrottleIntent>),
    /// When the window opens, as it was reported to the core; none while it is open.
    closed_until: Option<Time>,
    clock: ClockWatch,
    scrubs: ScrubWatch,
    beats: BeatWatch,
    attempts: Attempts,
    lines: RebuiltLines,
    meter: Meter,
    bounds: BoundWatch,
    metrics: Arc<CoordinatorMetrics>,
    /// Stripes that lacked a chunk when last looked at.
    at_risk: u64,
    /// Stripes that waited for something to change, likewise.
    blocked: usize,
}

/// How to reach a node.
#[derive(Default)]
struct Contact {
    address: String,
    session: Option<(u64, Outbox)>,
    file_system: Option<u64>,
}

/// What the driver receives: requests, and changes of the metadata.
pub struct Inbox {
    requests: mpsc::Receiver<Request>,
    changes: mpsc::Receiver<Input>,
}

/// The way in, and its other end. `changes` are those of the metadata thread.
pub fn inbox(changes: mpsc::Receiver<Input>) -> (Handle, Inbox) {
    let (sender, requests) = mpsc::channel(REQUESTS_MAX);
    (Handle { requests: sender }, Inbox { requests, changes })
}

impl CoordinatorDriver {
    /// A driver of `core`, whose time counts from now on, over the nodes that are known.
    pub fn new(
        core: RecordedCoordinator,
        metadata: Metadata,
        nodes: Vec<NodeRecord>,
    ) -> CoordinatorDriver {
        let contact = |record: NodeRecord| {
            (record.id, Contact { address: record.node.address, ..Contact::default() })
        };
        CoordinatorDriver {
            core,
            metadata,
            hdfs: None,
            origin: Instant::now(),
            nodes: nodes.into_iter().map(contact).collect(),
            backups: Backups::off(Instant::now()),
            listings: None,
            refused: RefusedAgents::default(),
            peers_changed: false,
            sent_news: None,
            dispatch: None,
            placer: Placer::default(),
            orphans: OrphanSearch::default(),
            unreported: Unreported::default(),
            throttle: Default::default(),
            closed_until: None,
            clock: ClockWatch::new(),
            scrubs: ScrubWatch::default(),
            beats: BeatWatch::default(),
            attempts: Attempts::default(),
            lines: RebuiltLines::default(),
            meter: Meter::default(),
            bounds: BoundWatch::default(),
            metrics: CoordinatorMetrics::new(None),
            at_risk: 0,
            blocked: 0,
        }
    }

    /// Counts there what happens from now on.
    pub fn count(&mut self, metrics: Arc<CoordinatorMetrics>) {
        self.metrics = metrics;
    }

    /// Has one agent after the other keep a backup of the metadata, the first one soon.
    pub fn spread_backups(&mut self, every: Option<Duration>) {
        self.backups.spread(Instant::now(), every);
    }

    /// For how long no agent has kept one, where that is longer than can be expected.
    pub fn overdue_backup(&self) -> Option<Duration> {
        self.backups.overdue(Instant::now())
    }

    /// Keeps what agents list from now on.
    pub fn keep_listings(&mut self) {
        self.listings = Some(Listings::default());
    }

    /// What each agent has listed last, where that is kept.
    pub fn listings(&self) -> Option<&Listings> {
        self.listings.as_ref()
    }

    /// Runs for as long as it is polled.
    pub async fn run(mut self, mut inbox: Inbox) {
        let mut measure_at = Instant::now();
        loop {
            self.perform();
            let deadline = self.core.next_deadline().map(|at| self.instant(at));
            tokio::select! {
                biased;
                Some(change) = inbox.changes.recv() => {
                    self.note_change(&change);
                    self.handle(change);
                }
                Some(request) = inbox.requests.recv() => self.serve(request),
                () = sleep_until(deadline) => self.handle(Input::Tick),
                () = sleep_until(Some(measure_at)) => {
                    let begun = Instant::now();
                    self.measure();
                    let rest = MEASURE_EVERY.max(begun.elapsed() * MEASURE_REST);
                    measure_at = Instant::now() + rest;
                }
                () = sleep_until(self.backups.due()) => self.back_up(),
                () = sleep_until(self.orphans.due()) => self.search_orphans(),
            }
        }
    }

    /// The core, to look at.
    pub fn core(&self) -> &Coordinator {
        &self.core
    }

    /// What nodes have stored and not reported.
    pub fn unreported(&self) -> &Unreported {
        &self.unreported
    }

    /// How fast repairs go.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// How fast those that run could be at best, where that is known.
    pub fn repair_bound(&self) -> Option<RepairBound> {
        self.bounds.found(&self.core)
    }

    /// The time of the core.
    pub fn now(&self) -> Time {
        Time { ns: self.origin.elapsed().as_nanos() as u64 }
    }

    /// Every node, each at the place of its number, with its address unless it is dead. A node that
    /// is only cut off keeps its address and is tried again.
    pub fn peers(&self) -> Vec<PeerAddress> {
        let peer = |(&node, contact): (&NodeId, &Contact)| {
            let is_known = !contact.address.is_empty();
            let is_dead = self.core.health(node) == Health::Failed && !self.core.is_cut_off(node);
            let is_reachable = is_known && !is_dead;
            let name = self.core.cluster().node(node).name.clone();
            PeerAddress { node, name, address: is_reachable.then(|| contact.address.clone()) }
        };
        self.nodes.iter().map(peer).collect()
    }

    /// Where a node last joined from, if it did.
    pub fn last_address(&self, node: NodeId) -> Option<&str> {
        let contact = self.nodes.get(&node)?;
        Some(contact.address.as_str()).filter(|address| !address.is_empty())
    }

    /// Which file system a node's chunks are on, if its agent announced one.
    pub fn file_system(&self, node: NodeId) -> Option<u64> {
        self.nodes.get(&node)?.file_system
    }

    /// The address of a living agent of that name at another address, if there is one.
    pub fn conflicting_session(&self, name: &str, address: &str) -> Option<String> {
        let contact = self.nodes.get(&self.core.cluster().find(name)?)?;
        let conflicts = contact.session.is_some() && contact.address != address;
        conflicts.then(|| contact.address.clone())
    }

    /// Another node than `name` that has a session and announces that address, if there is one: a
    /// client that connects there could reach either of them.
    pub fn other_at(&self, address: &str, name: &str) -> Option<String> {
        let wanted: SocketAddr = address.parse().ok()?;
        let own = self.core.cluster().find(name);
        let is_it = |(node, contact): &(&NodeId, &Contact)| {
            let is_there = contact.session.is_some()
                && matches!(self.core.health(**node), Health::Up | Health::Unknown);
            Some(**node) != own
                && is_there
                && contact.address.parse::<SocketAddr>().is_ok_and(|known| known == wanted)
        };
        let (node, _) = self.nodes.iter().find(is_it)?;
        Some(self.core.cluster().node(*node).name.clone())
    }

    /// Agents that were refused of late, by name.
    pub fn refused_agents(&self) -> Vec<RefusedAgent> {
        self.refused.of_late(Instant::now())
    }

    /// Whether an agent of the node has a session.
    pub fn is_connected(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|contact| contact.session.is_some())
    }

    fn instant(&self, at: Time) -> Instant {
        self.origin + Duration::from_nanos(at.ns)
    }

    /// Sends agents the number of committed puts and the newest mark, unless they have both.
    fn send_news(&mut self) {
        let news @ (committed, mark) =
            (self.metadata.committed(), self.metadata.mark(self.now().ns));
        if self.sent_news.replace(news) != Some(news) {
            let everyone: Vec<NodeId> = self.nodes.keys().copied().collect();
            for node in everyone {
                self.post(node, Outgoing::Committed(committed));
                mark.into_iter().for_each(|mark| self.post(node, Outgoing::Marked(mark)));
            }
        }
    }

    fn handle(&mut self, input: Input) {
        if let Input::NodeAdded { id, .. } = &input {
            // One whose agent has gone before its session began, or that has none, is a node too.
            self.nodes.entry(*id).or_default();
        }
        self.core.handle(self.now(), input);
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Joined { node, session } => self.joined(node, session),
            Request::Refused(agent) => self.refused.note(Instant::now(), agent),
            Request::BackupKept => self.backups.kept(Instant::now()),
            Request::Left { node, session } if self.is_current(node, session) => self.lost(node),
            Request::Received { node, session, message } if self.is_current(node, session) => {
                if let (Some(all), FromAgent::Inventory(copies)) = (&mut self.listings, &message) {
                    all.insert(node, copies.clone());
                }
                if let FromAgent::Heartbeat(beat) = &message {
                    self.unreported.report(node, beat.free_bytes);
                }
                let is_listing = matches!(message, FromAgent::Inventory(_));
                self.handle(Input::Agent { node, message });
                if is_listing {
                    self.listed(node);
                }
            }
            // Words of a session that another one has replaced.
            Request::Left { .. } | Request::Received { .. } => {}
            Request::Suspect { node, copy } => self.handle(Input::ChunkSuspected { node, copy }),
            Request::Apply(command) => self.handle(Input::Operator(command)),
            Request::Throttle(wanted) => self.throttle_by(wanted.map(|wanted| *wanted)),
            Request::Configure(live) => self.configure(*live),
            Request::Place(wanted, reply) => {
                let nodes = self.core.node_statuses();
                let placed = self.placer.place(self.core.cluster(), &nodes, &wanted.as_wanted());
                // A put that went away gives its places back by itself.
                let _ = reply.send(placed);
            }
            Request::Unplace(nodes, chunk_bytes) => self.placer.unplace(&nodes, chunk_bytes),
            Request::Stored(StoredChunks { placed, durable }) => {
                self.placer.stored(&placed.0, placed.1);
                self.unreported.stored(&durable.0, durable.1);
            }
            Request::SearchOrphans(nodes) => self.orphans.begin(Instant::now(), &nodes),
            Request::Query(query) => query(self),
        }
    }

    fn joined(&mut self, record: NodeRecord, new: NewSession) {
        let NewSession { number, outbox, renews, heartbeat, file_system } = new;
        let id = record.id;
        if let Some(other) = self.other_at(&record.node.address, &record.node.name) {
            // It came between the question and this; without its outbox the session ends.
            warn!(node = record.node.name, "{other} announces its address: it is sent away");
            return;
        }
        // What was on its way in a renewed session is sent again after the agent's Hello, too.
        if !renews && self.nodes.get(&id).is_some_and(|contact| contact.session.is_some()) {
            self.lost(id);
        }
        info!(node = record.node.name, address = record.node.address, "agent joined");
        self.refused.forget(&record.node.name);
        let rare = self.beats.joined(id, heartbeat, &record.node.name);
        rare.into_iter().for_each(|why| warn!("{why}"));
        let (address, session) = (record.node.address, Some((number, outbox)));
        self.nodes.insert(id, Contact { address, session, file_system });
        self.peers_changed = true;
        // A new agent receives both with the others.
        self.sent_news = None;
    }

    fn lost(&mut self, node: NodeId) {
        if let Some(contact) = self.nodes.get_mut(&node) {
            contact.session = None;
        }
        warn!(node = self.core.cluster().node(node).name, "session with the agent ended");
        self.handle(Input::AgentLost(node));
    }

    /// A node has listed what it holds. Where that is all that it should hold, its name is no more
    /// one that was only given to it.
    fn listed(&self, node: NodeId) {
        if self.hdfs.is_none() && self.core.holds_all(node) {
            self.metadata.submit(move |store| {
                let result = store.note_whole(node);
                result.inspect_err(|why| error!(%why, %node, "that it holds all is not kept"))
            });
        }
    }

    fn is_current(&self, node: NodeId, session: u64) -> bool {
        let contact = self.nodes.get(&node).and_then(|contact| contact.session.as_ref());
        contact.is_some_and(|(current, _)| *current == session)
    }

    /// Performs whatever the core asks for, and what follows from that.
    fn perform(&mut self) {
        loop {
            match self.core.poll() {
                Some(output) => self.perform_one(output),
                None if self.peers_changed => self.notify_peers(),
                None => return,
            }
        }
    }

    fn perform_one(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => {
                if let ToAgent::Publish(repair) = message
                    && self.hdfs.is_some()
                {
                    self.note_published(repair, to);
                }
                self.send(to, message);
            }
            // Where the keeper does not answer the core asks again.
            output if self.hdfs.is_some() && hdfs_keeping::is_asked(&output) => {
                self.ask_hdfs(output);
            }
            Output::Commit(commit) => {
                let (metrics, asked) = (self.metrics.clone(), Instant::now());
                self.metadata.submit(move |store| {
                    let result = store.commit_location(&commit);
                    metrics.committed_after(asked.elapsed());
                    result.inspect_err(|why| error!(%why, copy = %commit.copy, "commit failed"))
                });
            }
            Output::Claim(claim) => {
                let now = self.now();
                self.metadata.submit(move |store| {
                    let result = store.claim(now, &claim);
                    result
                        .unwrap_or_else(|why| error!(%why, stripe = %claim.stripe, "claim failed"));
                    Ok(())
                });
            }
            Output::ReleaseClaim(repair) => self.metadata.submit(move |store| {
                let result = store.release(repair);
                result.unwrap_or_else(|why| error!(%why, %repair, "release failed"));
                Ok(())
            }),
            Output::Protect(below) => self.metadata.submit(move |store| {
                let result = store.protect(below);
                result.inspect_err(|why| error!(%why, %below, "stripe ids are not protected"))
            }),
            Output::Scrub(step) => {
                self.scrubs.note(seconds_since_1970(), step);
                self.metadata.submit(move |store| {
                    let result = store.note_pass(step);
                    result.inspect_err(|why| error!(%why, "the scrub's progress is not kept"))
                });
            }
            Output::Faulty { node, copy, fault } => self.metadata.submit(move |store| {
                let result = store.note_fault(node, copy, fault);
                result.inspect_err(|why| error!(%why, %copy, "what is wrong with it is not kept"))
            }),
            Output::Report(report) => {
                self.peers_changed |= matches!(report, Report::Node { .. });
                self.meter.note(self.now(), seconds_since_1970(), &report);
                self.metrics.note(self.now(), &report);
                let rebuilt = self.attempts.note(self.now(), &report, self.core.stripes());
                self.note_rebuilt(&report, rebuilt.as_ref());
                match rebuilt {
                    Some(rebuilt) => self.log_rebuilt(rebuilt),
                    None => report::log(&report, self.core.cluster()),
                }
            }
        }
    }

    fn send(&mut self, to: NodeId, message: ToAgent) {
        let outgoing = match message {
            ToAgent::Dispatch(task) => {
                let known = self.dispatch.take().filter(|dispatch| dispatch.is_of(&task));
                let dispatch = known.unwrap_or_else(|| Arc::new(Dispatch::new(task)));
                Outgoing::Dispatch(self.dispatch.insert(dispatch).clone())
            }
            message => Outgoing::Message(message),
        };
        self.post(to, outgoing);
    }

    /// Has the next agent that is there keep a backup of the metadata.
    fn back_up(&mut self) {
        let is_up = |node: &NodeId| self.core.health(*node) == Health::Up;
        let up: Vec<NodeId> = self.nodes.keys().copied().filter(is_up).collect();
        if let Some(next) = self.backups.next(Instant::now(), &up) {
            let node = &self.core.cluster().node(next).name;
            info!(node, "has it keep a backup of the metadata");
            self.post(next, Outgoing::KeepBackup);
        }
    }

    /// Has agents list what they hold, of which the core has the orphans deleted.
    fn search_orphans(&mut self) {
        let listed = |node| orphan_search::rest(self.core.stripes().count_on(node));
        for node in self.orphans.take_due(Instant::now(), listed) {
            self.post(node, Outgoing::Message(ToAgent::List));
        }
    }

    fn notify_peers(&mut self) {
        self.peers_changed = false;
        let peers: Arc<[PeerAddress]> = self.peers().into();
        let everyone: Vec<NodeId> = self.nodes.keys().copied().collect();
        everyone.into_iter().for_each(|node| self.post(node, Outgoing::Peers(peers.clone())));
    }

    /// Queues a message for an agent. An agent without a session misses it, as `message.rs` allows.
    fn post(&mut self, to: NodeId, message: Outgoing) {
        let Some((_, outbox)) = self.nodes.get(&to).and_then(|c| c.session.as_ref()) else {
            return;
        };
        if outbox.try_send(message).is_err() {
            self.lost(to);
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
