//! Drives the NameNode's keeper: one thread that asks it, and reports to the coordinator what it
//! answers.
//!
//! Place: [stripes affected] ... [claim] ... [commit location]; beside the metadata's thread, which
//! goes on keeping what is Suture's own: nodes, epochs, what operators want.
//! A NameNode may take its time, and be gone; the coordinator's task waits for neither.
//!
//! HDFS leaves lost blocks alone for as long as it is asked to, seconds at a time. It is asked only
//! while repairs can go on (`lease.rs`), and not for groups that wait for something. Whatever ends
//! this process, HDFS repairs by itself soon after. How all of that stands is written down in
//! `view.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use suture_edge::error::quoted;
use suture_repair::event::{Claim, Commit, Input, KnownFault};
use suture_repair::id::{CopyAt, NodeId, RepairId, StripeId};
use suture_repair::keeper::Keeper;
use suture_repair::time::Time;
use tracing::{error, info, warn};

use super::connections::Connections;
use super::keeper::HdfsKeeper;
use super::lease::{Condition, LeaseScene, NoLease};
use super::namenode::{DataNode, DataNodeState, NameNode};
use super::view::HdfsView;
use crate::metadata::{Metadata, MetadataError, MetadataStore, NewNode};
use crate::store::StoreId;

/// How often a commit that has not arrived is looked for.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);

/// How long the metadata may take to make a node of a DataNode.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a link is taken for until an agent reports what it carries, in bytes per second.
const LINK_ASSUMED: f64 = 125e6;

/// How a coordinator is joined to HDFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Nothing is repaired, and HDFS is not kept from it.
    pub observes: bool,
    /// For how long HDFS leaves lost blocks alone each time that it is asked to.
    pub lease: Duration,
    /// How often the NameNode is asked what is new.
    pub poll: Duration,
}

/// What the coordinator's driver has for the thread.
enum LinkRequest {
    Claim(Time, Claim),
    Release(RepairId),
    Commit(Commit),
    Faulty(CopyAt, Option<KnownFault>),
    Condition(Condition),
}

/// The way to the thread.
#[derive(Clone, Debug)]
pub struct Link {
    requests: mpsc::Sender<LinkRequest>,
    view: Arc<HdfsView>,
}

impl Link {
    /// Starts the thread. `changes` receives what the NameNode reports, and `metadata` gets a node
    /// for each DataNode.
    pub fn start(
        settings: LinkSettings,
        connections: Connections,
        metadata: Metadata,
        changes: tokio::sync::mpsc::Sender<Input>,
    ) -> Link {
        let (requests, inbox) = mpsc::channel();
        let keeper = HdfsKeeper::new(connections, settings.observes);
        let view = Arc::new(HdfsView::new(settings.observes));
        let mut linked = Linked {
            settings,
            keeper,
            metadata,
            changes,
            view: view.clone(),
            nodes: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            condition: None,
            connection: 0,
            is_answering: true,
            is_leased: false,
            no_lease: None,
        };
        let thread = thread::Builder::new().name("hdfs-namenode".into());
        thread.spawn(move || linked.run(&inbox)).expect("a thread can be started");
        Link { requests, view }
    }

    /// How HDFS stands, as far as the thread knows.
    pub fn view(&self) -> &HdfsView {
        &self.view
    }

    /// Has the thread claim, as by [`Keeper::claim`].
    pub fn claim(&self, now: Time, claim: Claim) {
        self.send(LinkRequest::Claim(now, claim));
    }

    /// Has it release, as by [`Keeper::release`].
    pub fn release(&self, repair: RepairId) {
        self.send(LinkRequest::Release(repair));
    }

    /// Has it commit, as by [`Keeper::commit`].
    pub fn commit(&self, commit: Commit) {
        self.send(LinkRequest::Commit(commit));
    }

    /// Has it make known what is wrong with a copy, as by [`HdfsKeeper::note_fault`].
    pub fn note_fault(&self, copy: CopyAt, fault: Option<KnownFault>) {
        self.send(LinkRequest::Faulty(copy, fault));
    }

    /// Reports whether repairs can go on.
    pub fn note(&self, condition: Condition) {
        self.send(LinkRequest::Condition(condition));
    }

    fn send(&self, request: LinkRequest) {
        // The thread ends with the process, and then no caller waits for it.
        let _ = self.requests.send(request);
    }
}

/// What the thread owns.
struct Linked {
    settings: LinkSettings,
    keeper: HdfsKeeper<Connections>,
    metadata: Metadata,
    changes: tokio::sync::mpsc::Sender<Input>,
    view: Arc<HdfsView>,
    /// DataNodes as they were made nodes.
    nodes: BTreeMap<String, (NodeId, DataNode)>,
    /// Those that cannot be made such, and were warned of.
    unnamed: BTreeSet<String>,
    /// How repairs stand, as it was last reported.
    condition: Option<Condition>,
    connection: u64,
    is_answering: bool,
    is_leased: bool,
    /// Why HDFS repairs by itself, as it was decided last.
    no_lease: Option<NoLease>,
}

impl Linked {
    fn run(&mut self, inbox: &mpsc::Receiver<LinkRequest>) {
        let mut poll_at = Instant::now();
        loop {
            let wait = poll_at.saturating_duration_since(Instant::now()).min(CONFIRM_EVERY);
            match inbox.recv_timeout(wait) {
                Ok(request) => {
                    self.perform(request);
                    // What waits is asked in one go.
                    inbox.try_iter().for_each(|request| self.perform(request));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= poll_at {
                self.poll();
                poll_at = Instant::now() + self.settings.poll;
            }
            self.note_connection();
            let changes = together(self.keeper.changes());
            for change in changes {
                let _ = self.changes.blocking_send(change);
            }
        }
    }

    /// Claims are asked for anew where another NameNode is asked than before.
    fn note_connection(&mut self) {
        let connection = self.keeper.namenode().changes();
        if self.connection != connection {
            self.connection = connection;
            self.keeper.reconnected();
        }
    }

    fn perform(&mut self, request: LinkRequest) {
        let result = match request {
            LinkRequest::Claim(now, claim) => self.keeper.claim(now, &claim),
            LinkRequest::Release(repair) => self.keeper.release(repair),
            LinkRequest::Commit(commit) => self.keeper.commit(&commit),
            LinkRequest::Faulty(copy, fault) => return self.keeper.note_fault(copy, fault),
            LinkRequest::Condition(condition) => return self.condition = Some(condition),
        };
        if let Err(why) = result {
            warn!(%why, "the NameNode was not asked");
        }
    }

    /// Asks what is new, and asks HDFS to leave lost blocks alone, or not to any more.
    fn poll(&mut self) {
        let result = self.keeper.refresh().map(|reported| self.register(&reported));
        let result = result.and_then(|()| {
            self.note_connection();
            self.keeper.refresh_groups()
        });
        if let Err(why) = &result
            && self.is_answering
        {
            warn!(%why, "HDFS repairs by itself until a NameNode answers");
        }
        if result.is_ok() && !self.is_answering {
            info!("the NameNode answers");
        }
        self.is_answering = result.is_ok();
        if self.is_answering {
            self.lease();
        }
        let (namenodes, pool) = (self.keeper.namenode().count(), self.keeper.namenode().pool());
        let (groups, refusals) = (self.keeper.group_count(), self.keeper.refusals().clone());
        self.view.change(|seen| {
            seen.asked(self.is_answering, Instant::now());
            (seen.namenodes, seen.pool) = (namenodes, pool);
            (seen.groups, seen.refusals) = (groups, refusals);
        });
    }

    fn lease(&mut self) {
        let waiting = self.condition.iter().flat_map(|of| of.waiting.iter().copied());
        let left: Vec<StripeId> = self.keeper.left(waiting);
        let is_live = |(_, reported): &&(NodeId, DataNode)| reported.state != DataNodeState::Dead;
        let scene = LeaseScene {
            observes: self.settings.observes,
            live: self.nodes.values().filter(is_live).count(),
            left: left.len(),
            claim_waits: self.keeper.claim_waits(),
        };
        let no_lease = NoLease::of(self.condition.as_ref(), scene, Instant::now());
        self.log_lease(no_lease);
        let wanted = no_lease.is_none();
        let lease = if wanted { self.settings.lease } else { Duration::ZERO };
        let (asked, mut is_notified) = (Instant::now(), false);
        if wanted || self.is_leased {
            match self.keeper.lease(lease.as_millis() as u64, &left) {
                Ok(()) => is_notified = true,
                Err(why) => warn!(%why, "HDFS was not told to leave its lost blocks to Suture"),
            }
        }
        (self.is_leased, self.no_lease) = (wanted, no_lease);
        self.view.change(|seen| {
            (seen.no_lease, seen.left) = (no_lease, left.len());
            if is_notified {
                // The plugin counts from when it was asked, which is later.
                seen.leased_until = wanted.then_some(asked + lease);
            }
        });
    }

    /// Logs that HDFS leaves its lost blocks to Suture, or why it does not, where that is news.
    fn log_lease(&self, no_lease: Option<NoLease>) {
        let is_news =
            self.no_lease.as_ref().map(discriminant) != no_lease.as_ref().map(discriminant);
        match no_lease {
            None if !self.is_leased => info!("HDFS leaves its lost blocks to Suture"),
            Some(why) if is_news && why.is_fault() => warn!("HDFS repairs by itself: {why}"),
            Some(why) if is_news => info!("HDFS repairs by itself: {why}"),
            None | Some(_) => {}
        }
    }

    /// Makes a node of each DataNode that is none yet, or has moved to another rack.
    fn register(&mut self, reported: &[DataNode]) {
        // Those that the NameNode has forgotten are not waited for.
        let uuids: BTreeSet<&str> = reported.iter().map(|data_node| &*data_node.node).collect();
        self.nodes.retain(|uuid, _| uuids.contains(&**uuid));
        self.unnamed.retain(|uuid| uuids.contains(&**uuid));
        let unnamed = reported.iter().filter(|node| !node.is_named());
        unnamed.for_each(|node| self.warn_of_name(node));
        for data_node in reported.iter().filter(|node| node.is_named()) {
            let known = self.nodes.get(&data_node.node);
            let is_same = |(_, known): &(NodeId, DataNode)| {
                (&known.name, &known.rack) == (&data_node.name, &data_node.rack)
            };
            if let Some((id, _)) = known.filter(|known| is_same(known)) {
                let id = *id;
                self.nodes.insert(data_node.node.clone(), (id, data_node.clone()));
                continue;
            }
            let (sender, registered) = mpsc::sync_channel(1);
            let new = data_node.clone();
            // Its node is reported as a change before this is answered.
            self.metadata.submit_and(move |store| {
                let id = register(store, &new);
                move || drop(sender.send(id))
            });
            match registered.recv_timeout(REGISTER_TIMEOUT) {
                Ok(Ok(id)) => {
                    self.nodes.insert(data_node.node.clone(), (id, data_node.clone()));
                    self.keeper.know_node(&data_node.node, id);
                }
                Ok(Err(why)) => error!(%why, name = data_node.name, "a DataNode is not known"),
                Err(_) => warn!(name = data_node.name, "a DataNode is not known yet"),
            }
        }
    }

    /// Warns once of a DataNode that can be no node.
    fn warn_of_name(&mut self, reported: &DataNode) {
        if self.unnamed.insert(reported.node.clone()) {
            let (name, rack) = (quoted(&reported.name), quoted(&reported.rack));
            warn!(
                name,
                rack,
                "a DataNode has a name or a rack that no node can have: HDFS rebuilds its groups by itself"
            );
        }
    }
}

/// Has new stripes that came together reported together: what a node had is planned as one.
fn together(changes: Vec<Input>) -> Vec<Input> {
    let mut combined = Vec::with_capacity(changes.len());
    for change in changes {
        match (combined.last_mut(), change) {
            (Some(Input::StripesAdded(all)), Input::StripeAdded(stripe)) => all.push(stripe),
            (_, Input::StripeAdded(stripe)) => combined.push(Input::StripesAdded(vec![stripe])),
            (_, other) => combined.push(other),
        }
    }
    combined
}

/// The store that a DataNode's UUID is.
pub fn store_id(uuid: &str) -> StoreId {
    // FNV-1a: a number that is the same everywhere, for something that is unique already.
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    StoreId(uuid.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The node of a DataNode, with the rates that its agent announced. The NameNode decides which node
/// has a name.
fn register(store: &mut MetadataStore, reported: &DataNode) -> Result<NodeId, MetadataError> {
    let id = Some(store_id(&reported.node));
    let known = store.nodes()?.into_iter().find(|record| record.node.name == reported.name);
    let mut node = match known {
        Some(record) => record.node,
        None => NewNode {
            name: reported.name.clone(),
            rack: None,
            address: String::new(),
            uplink: LINK_ASSUMED,
            downlink: LINK_ASSUMED,
            store: None,
            processor: None,
        },
    };
    node.rack = Some(reported.rack.clone());
    if node.store != id {
        store.give_name_away(&reported.name)?;
        node.store = id;
    }
    store.join(&node)
}

#[cfg(test)]
mod tests {
    use suture_repair::id::Generation;
    use suture_repair::stripe::Stripe;

    use super::*;

    #[test]
    fn stripes_that_come_together_are_told_together_and_in_order() {
        let stripe = |id| Stripe {
            id: StripeId(id),
            code: "rs(2,1)".parse().expect("it is a code"),
            chunk_bytes: 1,
            unit_bytes: 1,
            generation: Generation(1),
            chunks: Vec::new(),
        };
        let added = |id| Input::StripeAdded(stripe(id));
        let removed = |id| Input::StripeRemoved(StripeId(id));
        let combined = together(vec![added(1), added(2), removed(1), added(3), removed(2)]);
        let shown: Vec<String> = combined
            .iter()
            .map(|input| match input {
                Input::StripesAdded(all) => {
                    all.iter().map(|stripe| format!("+{}", stripe.id.0)).collect()
                }
                Input::StripeRemoved(id) => format!("-{}", id.0),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shown, ["+1+2", "-1", "+3", "-2"]);
    }

    #[test]
    fn a_uuid_is_always_the_same_store() {
        let ids = ["a", "b", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"].map(store_id);
        assert_eq!(ids[0], StoreId(0xaf63_dc4c_8601_ec8c));
        assert!(ids[0] != ids[1] && ids[1] != ids[2]);
    }

    #[test]
    fn a_datanode_is_a_node_where_the_namenode_says_and_its_name_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let incomplete = crate::metadata::Incomplete::Refuse;
        let mut store = MetadataStore::open(dir.path(), incomplete).unwrap();
        let said = |uuid: &str, rack: &str| DataNode {
            node: uuid.into(),
            name: "dn1:9866".into(),
            rack: rack.into(),
            state: DataNodeState::Up,
        };
        let id = register(&mut store, &said("a", "/r1")).unwrap();
        // Its agent announces what its links carry; then the node moves, and then is formatted
        // anew.
        let agent = NewNode { uplink: 7e6, ..store.nodes().unwrap()[0].node.clone() };
        assert_eq!(store.join(&agent).unwrap(), id);
        assert_eq!(register(&mut store, &said("a", "/r2")).unwrap(), id);
        assert_eq!(register(&mut store, &said("b", "/r2")).unwrap(), id);
        let node = store.nodes().unwrap().remove(0).node;
        assert_eq!((node.rack.as_deref(), node.uplink), (Some("/r2"), 7e6));
        assert_eq!(node.store, Some(store_id("b")));
    }
}
