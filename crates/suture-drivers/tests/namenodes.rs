//! NameNodes that connect to a coordinator: what each has to prove, and what follows from how they
//! answer, over real connections.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::plugins::{FakeNameNode, POOL, group};
use crate::signed::{DAY, Signed, open};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use suture_drivers::hdfs::connections::Connections;
use suture_drivers::hdfs::frame::{Frames, PROTOCOL};
use suture_drivers::hdfs::lease::Condition;
use suture_drivers::hdfs::link::{Link, LinkSettings};
use suture_drivers::hdfs::listener::listen;
use suture_drivers::hdfs::namenode::{NameNode, NodesAnswer, Question, ask};
use suture_drivers::hdfs::view::HdfsSeen;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::metadata::{Incomplete, Metadata, MetadataStore};
use suture_repair::event::Input;
use tokio::sync::mpsc;

const TIMEOUT: Duration = Duration::from_secs(60);

type Encrypted = Frames<StreamOwned<ClientConnection, TcpStream>>;

/// A coordinator's end, which proves that it is one.
fn proven(signed: &Signed) -> (SocketAddr, Connections) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, listen(listener, Some(signed.credentials(AccessRole::Coordinator, "c"))))
}

/// Connects as a plugin with these credentials; gives the answer, if there is one.
fn handshake(address: SocketAddr, credentials: &Kept) -> std::io::Result<(Encrypted, Value)> {
    let name = ServerName::try_from("suture").unwrap();
    let session = ClientConnection::new(credentials.current().client.clone(), name).unwrap();
    let mut frames = Frames::new(StreamOwned::new(session, TcpStream::connect(address)?));
    frames.send(&json!({ "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": POOL }))?;
    let answer = frames.receive()?;
    Ok((frames, answer))
}

/// Answers as the active NameNode that knows of no DataNodes, until it is hung up on.
fn serve(mut frames: Encrypted) {
    while let Ok(question) = frames.receive::<Question>() {
        let answer = match question {
            Question::State => json!({ "active": true }),
            _ => json!({ "nodes": [] }),
        };
        if frames.send(&answer).is_err() {
            return;
        }
    }
}

/// Waits until something is so.
#[track_caller]
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_namenode_is_asked_for_as_long_as_its_certificate_counts() {
    let signed = Signed::new();
    let (address, mut connections) = proven(&signed);
    let folder = signed.dir.path().join("namenode");
    let namenode = Principal::new(AccessRole::Keeper, "nn1").unwrap();
    // Of its day some seconds are left.
    let begun = SystemTime::now() - DAY + Duration::from_secs(8);
    signed.authority.issue(&namenode, DAY, &folder, begun).unwrap();
    let theirs = open(&folder);
    let (frames, welcome) = handshake(address, &theirs).unwrap();
    assert_eq!(welcome, json!({ "protocol": PROTOCOL }));
    let plugin = thread::spawn(move || serve(frames));
    let mut question = || ask::<NodesAnswer>(&mut connections, &Question::Nodes);
    wait("it answers", || question().ok());
    let ended = wait("its certificate has ended", || question().err()).to_string();
    let why = "the certificate of the NameNode: it has expired";
    assert!(ended.contains(why), "{ended}");
    // It is hung up on, and not let in again.
    plugin.join().unwrap();
    assert!(handshake(address, &theirs).is_err());
    assert!(question().is_err());
}

#[test]
fn who_is_no_keeper_is_not_asked() {
    let signed = Signed::new();
    let (address, mut connections) = proven(&signed);
    for role in [AccessRole::Agent, AccessRole::Admin, AccessRole::Coordinator] {
        let stranger = signed.credentials(role, "stranger");
        assert!(handshake(address, &stranger).is_err(), "{role}");
    }
    // Of another authority, and without any proof.
    let others = Signed::new();
    assert!(handshake(address, &others.credentials(AccessRole::Keeper, "nn1")).is_err());
    let mut plain = Frames::new(TcpStream::connect(address).unwrap());
    let first = json!({ "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": POOL });
    assert!(plain.send(&first).and_then(|()| plain.receive::<Value>()).is_err());
    assert!(ask::<NodesAnswer>(&mut connections, &Question::Nodes).is_err());
    // None of them has announced which block pool it is.
    assert_eq!(connections.pool(), None);
    let (frames, _) = handshake(address, &signed.credentials(AccessRole::Keeper, "nn1")).unwrap();
    thread::spawn(move || serve(frames));
    wait("the NameNode", || ask::<NodesAnswer>(&mut connections, &Question::Nodes).ok());
    assert_eq!(connections.pool().as_deref(), Some(POOL));
}

/// A coordinator's thread that asks NameNodes, its changes, and where they connect.
struct Linked {
    link: Link,
    changes: mpsc::Receiver<Input>,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Linked {
    fn start() -> Linked {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
        let (sender, changes) = mpsc::channel(1000);
        let metadata = Metadata::start(store, sender.clone());
        let settings = LinkSettings {
            observes: false,
            lease: Duration::from_secs(15),
            poll: Duration::from_millis(50),
        };
        let link = Link::start(settings, listen(listener, None), metadata, sender);
        Linked { link, changes, address, _dir: dir }
    }

    fn note(&self, nodes_up: usize, paused: bool) {
        let (at, waiting) = (Instant::now(), Vec::new());
        let window_closed = false;
        self.link.note(Condition { at, paused, window_closed, nodes_up, waiting });
    }

    fn seen(&self) -> HdfsSeen {
        self.link.view().seen()
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&HdfsSeen) -> bool) -> HdfsSeen {
        wait(what, || Some(self.seen()).filter(&is_so))
    }
}

#[test]
fn what_the_namenode_says_and_whether_hdfs_is_held_off_can_be_seen() {
    let mut linked = Linked::start();
    let now = Instant::now;
    assert!(!linked.seen().is_connected(now()) && !linked.seen().is_leased(now()));
    assert_eq!(linked.seen().warnings(now()).len(), 1, "it is not known what is at risk");
    let fake = FakeNameNode::with_nodes(3);
    let lacking = group(1, 2048, (2, 1), &[1]);
    fake.namespace().groups.insert(lacking.group, lacking);
    linked.note(1, false);
    let tcp = fake.join(linked.address);
    let seen = linked.wait_for("it answers", |seen| seen.is_connected(Instant::now()));
    assert_eq!((seen.pool.as_deref(), seen.namenodes, seen.groups), (Some(POOL), 1, 1));
    let seen = linked.wait_for("why it has no lease", |seen| !seen.warnings(now()).is_empty());
    assert_eq!(seen.no_lease(now()).unwrap(), "agents of 1 of 3 DataNodes speak");
    assert_eq!(fake.namespace().lease_millis, 0);

    linked.note(2, false);
    let seen = linked.wait_for("a lease", |seen| seen.is_leased(Instant::now()));
    assert_eq!((seen.no_lease(now()), fake.namespace().lease_millis), (None, 15_000));
    assert!(seen.warnings(now()).is_empty());
    let is_stripe = |change: &Input| matches!(change, Input::StripesAdded(_));
    wait("the stripe", || linked.changes.try_recv().ok().filter(is_stripe));

    linked.note(3, true);
    let seen = linked.wait_for("no lease", |seen| !seen.is_leased(Instant::now()));
    assert_eq!(seen.no_lease(now()).unwrap(), "repairs are paused");
    assert!(seen.warnings(now()).is_empty(), "somebody wanted it so");
    assert_eq!(fake.namespace().lease_millis, 0, "it was told, and need not wait");

    tcp.shutdown(Shutdown::Both).unwrap();
    let seen = linked.wait_for("it is gone", |seen| !seen.is_connected(Instant::now()));
    assert_eq!(seen.no_lease(now()).unwrap(), "no active NameNode answers");
}
