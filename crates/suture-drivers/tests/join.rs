//! Agents that join again and find another coordinator than they left: another cluster's, or one
//! whose metadata were restored from a backup. Real sessions on loopback, without an agent behind
//! them.
//!
//! Every coordinator has a runtime of its own, which ends like a process that is killed.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::control;
use suture_drivers::agent::session::{Session, SessionEvent, session};
use suture_drivers::control::access::{Caller, CallerCell};
use suture_drivers::control::join::{self, Introduction, Left, Welcome};
use suture_drivers::control::membership::Membership;
use suture_drivers::control::{PROTOCOL_VERSION, convert, proto, rpc};
use suture_drivers::coordinator::NewSession;
use suture_drivers::metadata::{Incomplete, MetadataStore, NewNode, NodeRecord};
use suture_repair::id::NodeId;
use suture_repair::processor::{Processor, ProcessorCosts};
use suture_repair::wire::ClusterId;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::Request;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A coordinator on the metadata of a directory.
struct Running {
    runtime: Runtime,
    address: String,
    accepted: Arc<AtomicU64>,
}

/// Waits until something is so.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < TIMEOUT, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The metadata, as soon as the coordinator before has let go of them.
fn open(dir: &Path) -> MetadataStore {
    wait("the metadata are free", || MetadataStore::open(dir, Incomplete::Accept).ok())
}

impl Running {
    fn start(dir: &Path, listen: &str) -> Running {
        let store = open(dir);
        let runtime = Runtime::new().unwrap();
        let accepted = Arc::new(AtomicU64::new(0));
        let listener = runtime.block_on(TcpListener::bind(listen)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        runtime.spawn(serve(store, listener, accepted.clone()));
        Running { runtime, address, accepted }
    }

    fn stop(self) -> String {
        self.runtime.shutdown_timeout(TIMEOUT);
        self.address
    }
}

async fn serve(store: MetadataStore, listener: TcpListener, accepted: Arc<AtomicU64>) {
    let service = control::coordinator(store);
    let incoming = TcpIncoming::from(listener).map(move |stream| {
        accepted.fetch_add(1, Ordering::Relaxed);
        stream
    });
    let caller = CallerCell::default();
    caller.set(Caller::unproven(([127, 0, 0, 1], 0).into()));
    let asked = move |mut request: Request<()>| {
        request.extensions_mut().insert(caller.clone());
        Ok(request)
    };
    Server::builder()
        .add_service(InterceptedService::new(rpc::server(Arc::new(service)), asked))
        .serve_with_incoming(incoming)
        .await
        .expect("the server runs until its runtime ends");
}

/// An address where no process listens, another one for each name.
fn address_of(name: &str) -> SocketAddr {
    let number =
        name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let [_, a, b, c] = number.to_be_bytes();
    ([127, a, b, c], 9).into()
}

/// What an agent without chunks announces of itself.
fn introduction(address: &str, data_dir: &Path, name: &str) -> Introduction {
    Introduction {
        coordinator: address.to_string(),
        name: name.to_string(),
        rack: None,
        data_address: address_of(name),
        uplink: 1e9,
        downlink: 1e9,
        cluster: None,
        store: None,
        takes_name: false,
        heartbeat: Duration::from_secs(1),
        membership: Membership::read(data_dir).unwrap(),
        mark: None,
        data_dir: data_dir.to_path_buf(),
        file_system: Some(7),
        processor: None,
        credentials: None,
    }
}

/// An agent that is kept in its cluster, and does nothing.
struct Kept {
    runtime: Runtime,
    session: Session,
    membership: JoinHandle<anyhow::Result<Left>>,
    welcome: Welcome,
}

impl Kept {
    fn join(address: &str, data_dir: &Path, name: &str) -> Kept {
        let runtime = Runtime::new().unwrap();
        let (session, feed) = session();
        let (welcome, welcomed) = oneshot::channel();
        let me = introduction(address, data_dir, name);
        let membership = runtime.spawn(join::keep(me, feed, welcome));
        let welcome = runtime.block_on(async { tokio::time::timeout(TIMEOUT, welcomed).await });
        let welcome = welcome.expect("in time").expect("the agent is welcomed");
        Kept { runtime, session, membership, welcome }
    }

    /// The epoch of the next session.
    fn connected(&mut self) -> u32 {
        let events = &mut self.session.events;
        let next = async {
            while let Some(event) = events.recv().await {
                if let SessionEvent::Connected { epoch } = event {
                    return Some(epoch);
                }
            }
            None
        };
        let epoch = self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, next).await });
        epoch.expect("in time").expect("the agent goes on")
    }

    /// Why it left, which it does by itself.
    fn left(self) -> Left {
        let Kept { runtime, membership, .. } = self;
        let left = runtime.block_on(async { tokio::time::timeout(TIMEOUT, membership).await });
        left.expect("in time").unwrap().unwrap()
    }
}

/// Folders of a test.
struct Folders(TempDir);

impl Folders {
    fn new() -> Folders {
        Folders(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a backup of metadata that no coordinator has open.
    fn back_up(&self, from: &str, to: &str) {
        drop(open(&self.path(from)));
        fs::create_dir_all(self.path(to)).unwrap();
        for file in fs::read_dir(self.path(from)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), self.path(to).join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn a_coordinator_of_another_cluster_is_waited_out_by_an_agent_that_serves() {
    let folders = Folders::new();
    let ours = Running::start(&folders.path("ours"), "127.0.0.1:0");
    let mut agent = Kept::join(&ours.address, &folders.path("n0"), "n0");
    let before = agent.connected();
    let theirs = Running::start(&folders.path("theirs"), &ours.stop());
    // It calls a second time only after it was refused.
    wait("the agent is refused", || (theirs.accepted.load(Ordering::Relaxed) > 1).then_some(()));
    let _ours = Running::start(&folders.path("ours"), &theirs.stop());
    assert!(agent.connected() > before);
}

#[test]
fn an_agent_that_joins_for_the_first_time_waits_for_the_coordinator_of_its_cluster() {
    let folders = Folders::new();
    let ours = Running::start(&folders.path("ours"), "127.0.0.1:0");
    let before = Kept::join(&ours.address, &folders.path("n0"), "n0");
    let welcome = before.welcome;
    drop(before.session);
    before.runtime.shutdown_timeout(TIMEOUT);
    let theirs = Running::start(&folders.path("theirs"), &ours.stop());
    let (_session, feed) = session();
    let runtime = Runtime::new().unwrap();
    let (welcomes, welcomed) = oneshot::channel();
    let mut me = introduction(&theirs.address, &folders.path("n0"), "n0");
    me.cluster = Some(welcome.cluster);
    runtime.spawn(join::keep(me, feed, welcomes));
    wait("the agent is refused", || (theirs.accepted.load(Ordering::Relaxed) > 1).then_some(()));
    let _ours = Running::start(&folders.path("ours"), &theirs.stop());
    let again = runtime.block_on(async { tokio::time::timeout(TIMEOUT, welcomed).await });
    assert_eq!(again.expect("in time").expect("the agent is welcomed"), welcome);
}

#[test]
fn an_agent_that_joins_for_the_first_time_is_told_that_it_cannot() {
    let folders = Folders::new();
    let ours = Running::start(&folders.path("ours"), "127.0.0.1:0");
    let runtime = Runtime::new().unwrap();
    let (_session, feed) = session();
    let me = introduction(&ours.address, &folders.path("n0"), " ");
    let why = runtime.block_on(join::keep(me, feed, oneshot::channel().0)).unwrap_err();
    assert!(why.to_string().contains("refused this agent"), "{why}");
}

#[test]
fn what_an_agent_reports_of_its_processor_is_planned_with_and_older_agents_report_nothing() {
    let planned = |processor| {
        let join = proto::Join {
            protocol: PROTOCOL_VERSION,
            name: "n0".into(),
            data_address: "127.0.0.1:1".into(),
            uplink: 1.0,
            downlink: 1.0,
            processor,
            ..Default::default()
        };
        let node = suture_drivers::control::session::check(ClusterId(7), join);
        node.map(|node| node.as_planned().processor)
    };
    let processor = Processor::new(0.5, ProcessorCosts::TYPICAL).unwrap();
    let reported = convert::encode_processor(&processor);
    let refused = planned(Some(proto::Processor { cores: -1.0, ..reported })).unwrap_err();
    assert!(refused.message().contains("Join.processor"), "{}", refused.message());
    assert_eq!(planned(Some(reported)).unwrap(), Some(processor));
    assert_eq!(planned(None).unwrap(), None);
}

#[test]
fn an_agent_that_is_another_node_now_ends_what_it_did_and_joins_as_that() {
    let folders = Folders::new();
    folders.back_up("metadata", "backup");
    let now = Running::start(&folders.path("metadata"), "127.0.0.1:0");
    let mut agent = Kept::join(&now.address, &folders.path("n0"), "n0");
    assert_eq!(agent.welcome.node, NodeId(0));
    agent.connected();
    let other = NewNode {
        name: "other".into(),
        rack: None,
        address: "127.0.0.1:9".into(),
        uplink: 1.0,
        downlink: 1.0,
        store: None,
        processor: None,
    };
    assert_eq!(open(&folders.path("backup")).join(&other).unwrap(), NodeId(0));
    let restored = Running::start(&folders.path("backup"), &now.stop());
    assert_eq!(agent.left(), Left::Renumbered);
    let agent = Kept::join(&restored.address, &folders.path("n0"), "n0");
    assert_eq!(agent.welcome.node, NodeId(1));
    let kept = Membership::read(&folders.path("n0")).unwrap().unwrap();
    assert_eq!(kept.node, NodeId(1));
}

#[test]
fn metadata_of_a_backup_go_on_in_an_epoch_that_no_agent_has_followed() {
    let folders = Folders::new();
    folders.back_up("metadata", "backup");
    let mut now = Running::start(&folders.path("metadata"), "127.0.0.1:0");
    let mut agent = Kept::join(&now.address, &folders.path("n0"), "n0");
    let mut followed = agent.connected();
    for _ in 0..3 {
        now = Running::start(&folders.path("metadata"), &now.stop());
        assert_eq!(agent.connected(), followed + 1);
        followed += 1;
    }
    // Its process ends, too: what it has followed is kept on its disk.
    drop(agent);
    let restored = Running::start(&folders.path("backup"), &now.stop());
    let mut agent = Kept::join(&restored.address, &folders.path("n0"), "n0");
    assert_eq!(agent.connected(), followed + 1);
    let _again = Running::start(&folders.path("backup"), &restored.stop());
    assert_eq!(agent.connected(), followed + 2, "the new epoch is durable");
}

impl Running {
    /// Has an agent that has followed an epoch, and knows of so many puts, ask to join until it was
    /// refused.
    fn refuse(&self, data_dir: &Path, name: &str, epoch: u32, committed: u64) {
        Membership { node: NodeId(0), epoch, committed }.write(data_dir).unwrap();
        let before = self.accepted.load(Ordering::Relaxed);
        let runtime = Runtime::new().unwrap();
        let (_session, feed) = session();
        let me = introduction(&self.address, data_dir, name);
        runtime.spawn(join::keep(me, feed, oneshot::channel().0));
        let calls = || self.accepted.load(Ordering::Relaxed) - before;
        wait("it asks again after it was refused", || (calls() > 1).then_some(()));
    }
}

#[test]
fn no_word_of_an_agent_uses_up_the_epochs_or_the_puts_of_all() {
    const EPOCHS: u32 = 1 << 30;
    let folders = Folders::new();
    let metadata = folders.path("metadata");
    let mut now = Running::start(&metadata, "127.0.0.1:0");
    let mut agent = Kept::join(&now.address, &folders.path("n0"), "n0");
    let mut followed = agent.connected();
    for epoch in [u32::MAX, u32::MAX / 2 - 1, EPOCHS, EPOCHS - 1, EPOCHS - 2, 2 << 20] {
        now.refuse(&folders.path("liar"), "liar", epoch, 0);
    }
    now = Running::start(&metadata, &now.stop());
    followed += 1;
    assert_eq!(agent.connected(), followed);
    // One that is not too far ahead is believed, and so is every number of puts.
    for (name, epoch, committed) in
        [("ahead", 1 << 20, 0), ("puts", 1, (1 << 60) - 1), ("all", 1, u64::MAX)]
    {
        let folder = folders.path(name);
        Membership { node: NodeId(0), epoch, committed }.write(&folder).unwrap();
        let mut believed = Kept::join(&now.address, &folder, name);
        assert_eq!(believed.connected(), (1 << 20) + 1);
    }
    for start in 2..4 {
        now = Running::start(&metadata, &now.stop());
        assert_eq!(agent.connected(), (1 << 20) + start);
        let mut new = Kept::join(&now.address, &folders.path("new"), "new");
        assert_eq!(new.connected(), (1 << 20) + start);
    }
}

#[test]
fn a_node_whose_session_never_began_shifts_no_address() {
    let folders = Folders::new();
    let runtime = Runtime::new().unwrap();
    let node = |name: &str| NewNode {
        name: name.into(),
        rack: None,
        address: format!("{name}:1"),
        uplink: 1.0,
        downlink: 1.0,
        store: None,
        processor: None,
    };
    let store = open(&folders.path("metadata"));
    let peers = runtime.block_on(async {
        let (_, metadata, coordinator) = control::coordinator_of(store);
        let mut outboxes = Vec::new();
        for (name, begins) in [("n0", true), ("gone", false), ("n1", true), ("n2", true)] {
            let joining = node(name);
            let id = metadata.ask(move |store| store.join(&joining)).await.unwrap();
            let (outbox, outgoing) = tokio::sync::mpsc::channel(16);
            outboxes.push(outgoing);
            if begins {
                let number = u64::from(id.0);
                let (renews, heartbeat, file_system) = (false, None, Some(number));
                let session = NewSession { number, outbox, renews, heartbeat, file_system };
                coordinator.joined(NodeRecord { id, node: node(name) }, session).await;
            }
        }
        coordinator.query(|driver| driver.peers()).await.unwrap()
    });
    let peers: Vec<_> =
        peers.into_iter().map(|peer| (peer.node.0, peer.name, peer.address)).collect();
    let expected = [("n0", true), ("gone", false), ("n1", true), ("n2", true)];
    let expected = expected.iter().zip(0..).map(|((name, begins), node)| {
        (node, name.to_string(), begins.then(|| format!("{name}:1")))
    });
    assert_eq!(peers, expected.collect::<Vec<_>>());
}

#[test]
fn an_address_belongs_to_one_agent_at_a_time() {
    let folders = Folders::new();
    let now = Running::start(&folders.path("metadata"), "127.0.0.1:0");
    let mut first = Kept::join(&now.address, &folders.path("n0"), "n0");
    first.connected();
    let runtime = Runtime::new().unwrap();
    let (_session, feed) = session();
    let (welcome, mut welcomed) = oneshot::channel();
    let mut me = introduction(&now.address, &folders.path("n1"), "n1");
    me.data_address = address_of("n0");
    let before = now.accepted.load(Ordering::Relaxed);
    runtime.spawn(join::keep(me, feed, welcome));
    let calls = || now.accepted.load(Ordering::Relaxed) - before;
    wait("it asks again after it was refused", || (calls() > 1).then_some(()));
    assert!(welcomed.try_recv().is_err(), "two agents have one address");
    // The agent that has the address ends, and it is free.
    drop(first.session);
    first.runtime.shutdown_timeout(TIMEOUT);
    let welcome = runtime.block_on(async { tokio::time::timeout(TIMEOUT, welcomed).await });
    let welcome = welcome.expect("in time").expect("the agent is welcomed");
    assert_eq!(welcome.node, NodeId(1));
}
