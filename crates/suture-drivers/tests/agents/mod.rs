//! A cluster of agents in one process, on loopback and temporary folders, and repairs for it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use suture_code::Code;
use suture_code::execute::Program;
use suture_drivers::address::AgentAddress;
use suture_drivers::agent::serve::ClientLimits;
use suture_drivers::agent::session::{SessionEvent, session};
use suture_drivers::agent::{self, Config};
use suture_drivers::chunk_client::ChunkClient;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::limit::Rates;
use suture_drivers::metrics::agent::AgentMetrics;
use suture_drivers::net;
use suture_drivers::net::local_identity::LocalIdentity;
use suture_drivers::put_key::PutKey;
use suture_drivers::store::{Identity, Store};
use suture_edge::checksum::crc32c;
use suture_repair::id::{
    ChunkCopy, ChunkIndex, CopyAt, Generation, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::label::Label;
use suture_repair::message::{Failure, FromAgent, Task, ToAgent};
use suture_repair::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};
use suture_repair::time::Span;
use suture_repair::wire::{ClusterId, Who};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub const CLUSTER: ClusterId = ClusterId(0x5075);

/// Nothing in a test takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

pub fn client() -> ChunkClient {
    client_as(None)
}

/// A client that proves who it is.
pub fn client_as(credentials: Option<Arc<Kept>>) -> ChunkClient {
    let local_identity = LocalIdentity { cluster: CLUSTER, who: Who::Client, credentials };
    ChunkClient { local_identity, connect_timeout: TIMEOUT, idle_timeout: TIMEOUT }
}

/// What proves that an agent is that node, if anything does.
pub type CredentialsOf<'a> = &'a dyn Fn(NodeId) -> Option<Arc<Kept>>;

pub fn config(me: NodeId, rates: Rates, spool_dir: &Path) -> Config {
    Config {
        me,
        cluster: CLUSTER,
        incarnation: 1,
        pool_bytes: 64 << 20,
        heartbeat_every: Span::from_millis(100),
        stall_after: Span::from_secs(20),
        inventory_every: Span::from_secs(3600),
        disk_hangs_after: Duration::from_secs(60),
        rates,
        repair_caps: tokio::sync::watch::channel(None).1,
        links: Default::default(),
        spool_dir: spool_dir.to_path_buf(),
        record: None,
        clients: ClientLimits::default(),
        credentials: None,
        metrics: AgentMetrics::new(None),
    }
}

/// The name of a node.
pub fn name(node: NodeId) -> String {
    format!("n{}", node.0)
}

/// One agent of the cluster.
pub struct Node {
    pub id: NodeId,
    pub addr: SocketAddr,
    pub dir: tempfile::TempDir,
    session: mpsc::Sender<SessionEvent>,
    stop: Option<oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<()>,
}

/// What these agents know the stamps of puts by.
pub fn put_key() -> PutKey {
    PutKey::from_bytes(&[7; 32]).unwrap()
}

/// Agents that know each other, and what they send.
pub struct Cluster {
    pub nodes: Vec<Node>,
    said: mpsc::UnboundedReceiver<(NodeId, FromAgent)>,
}

impl Cluster {
    pub async fn start(count: u32, rates: Rates) -> Cluster {
        Cluster::start_limited(count, rates, ClientLimits::default()).await
    }

    /// Agents that prove who they are.
    pub async fn start_proven(count: u32, credentials: CredentialsOf<'_>) -> Cluster {
        let limits = (Rates::default(), ClientLimits::default());
        Cluster::start_all(count, limits, credentials).await
    }

    /// Agents of which clients may hold no more than that.
    pub async fn start_limited(count: u32, rates: Rates, clients: ClientLimits) -> Cluster {
        Cluster::start_all(count, (rates, clients), &|_| None).await
    }

    /// Both.
    pub async fn start_all(
        count: u32,
        limits: (Rates, ClientLimits),
        credentials: CredentialsOf<'_>,
    ) -> Cluster {
        let (heard, said) = mpsc::unbounded_channel();
        let mut nodes = Vec::new();
        for id in (0..count).map(NodeId) {
            nodes.push(Node::start(id, limits, credentials(id), heard.clone()).await);
        }
        let peers: Vec<_> = nodes.iter().map(|node| (node.id, Some(node.address()))).collect();
        for node in &nodes {
            node.tell(SessionEvent::Connected { epoch: 1 }).await;
            node.tell(SessionEvent::PutKey(put_key())).await;
            node.tell(SessionEvent::Peers(peers.clone())).await;
        }
        Cluster { nodes, said }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Puts the stripe's chunks where they belong, but for those without a node.
    pub async fn store(&self, stripe: &Stripe, chunks: &[Vec<u8>]) {
        self.store_as(None, stripe, chunks).await;
    }

    /// Stores a chunk as a client with these credentials.
    pub async fn store_as(
        &self,
        credentials: Option<Arc<Kept>>,
        stripe: &Stripe,
        chunks: &[Vec<u8>],
    ) {
        let client = client_as(credentials);
        for chunk in stripe.indices() {
            let Some(CopyAt { node, copy }) = stripe.copy(chunk) else { continue };
            let data = &chunks[usize::from(chunk.0)];
            let crc = stripe.record(chunk).crc.expect("recorded");
            client.write_chunk(self.node(node).address(), copy, crc, data).await.unwrap();
        }
    }

    pub async fn dispatch(&self, task: &Task) {
        for node in task.plan.participants() {
            let message = ToAgent::Dispatch(Arc::new(task.clone()));
            self.node(node).tell(SessionEvent::Message(message)).await;
        }
    }

    /// Waits until the repair is stored, or an agent gives up on it.
    pub async fn outcome(&mut self, repair: RepairId) -> Result<ChunkCopy, (NodeId, Failure)> {
        loop {
            match self.next().await {
                (_, FromAgent::Stored { repair: stored, copy }) if stored == repair => {
                    return Ok(copy);
                }
                (node, FromAgent::Failed { repair: failed, why }) if failed == repair => {
                    return Err((node, why));
                }
                _ => {}
            }
        }
    }

    pub async fn next(&mut self) -> (NodeId, FromAgent) {
        let said = timeout(TIMEOUT, self.said.recv()).await.expect("someone says something");
        said.expect("the agents live")
    }

    pub async fn read(&self, node: NodeId, copy: ChunkCopy, bytes: u64) -> Vec<u8> {
        let range = Range { from: 0, to: bytes };
        client().read_chunk(self.node(node).addr, copy, range).await.unwrap()
    }

    /// Ends an agent as a crash would: its connections break, its tasks are gone.
    pub async fn kill(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        drop(node.stop.take());
        (&mut node.ended).await.unwrap();
    }
}

impl Node {
    async fn start(
        id: NodeId,
        (rates, clients): (Rates, ClientLimits),
        credentials: Option<Arc<Kept>>,
        heard: mpsc::UnboundedSender<(NodeId, FromAgent)>,
    ) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity { cluster: CLUSTER, node: id.to_string() };
        let store = Arc::new(Store::open(dir.path(), &identity).unwrap());
        let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (seam, mut feed) = session();
        let (stop, stopped) = oneshot::channel::<()>();
        let config = Config { clients, credentials, ..config(id, rates, dir.path()) };
        let ended = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            agent::run(config, store, seam, listener, shutdown).await.unwrap();
        });
        tokio::spawn(async move {
            while let Some(message) = feed.outbox.recv().await {
                if heard.send((id, message)).is_err() {
                    return;
                }
            }
        });
        Node { id, addr, dir, session: feed.events, stop: Some(stop), ended }
    }

    /// Where it listens, and its name.
    pub fn address(&self) -> AgentAddress {
        AgentAddress { name: name(self.id).into(), node: Some(self.id), addr: self.addr }
    }

    pub async fn tell(&self, event: SessionEvent) {
        self.session.send(event).await.unwrap();
    }

    /// Where a copy's file lies.
    pub fn path(&self, copy: ChunkCopy) -> std::path::PathBuf {
        let (stripe, chunk, stamp) = (copy.stripe.0, copy.chunk.0, copy.stamp.0);
        let folder = self.dir.path().join("chunks").join(format!("{:02x}", stripe % 256));
        folder.join(format!("{stripe:016x}.{chunk:02x}.{stamp:016x}"))
    }

    /// Waits until nothing is in the making any more.
    pub async fn swept(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while std::fs::read_dir(self.dir.path().join("tmp")).unwrap().count() > 0 {
            assert!(Instant::now() < deadline, "{} keeps temporary files", self.id);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A stripe with chunk i on node i, and its bytes. Chunk 0 is lost: it has no node.
pub fn stripe(code: &str, id: u64, chunk_bytes: usize) -> (Stripe, Vec<Vec<u8>>) {
    let code: Code = code.parse().unwrap();
    let mut random = Random::new(id);
    let mut chunks = vec![vec![0; chunk_bytes]; code.chunk_count()];
    let (data, parity) = chunks.split_at_mut(code.data_chunks());
    data.iter_mut().for_each(|chunk| random.fill(chunk));
    let sources: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|chunk| &mut chunk[..]).collect();
    Program::compile(&code.encode_dag()).unwrap().run(&sources, &mut outputs).unwrap();
    let record = |(index, chunk): (usize, &Vec<u8>)| ChunkRecord {
        node: (index > 0).then_some(NodeId(index as u32)),
        stamp: Stamp(0),
        bytes: chunk.len() as u64,
        crc: Some(crc32c(chunk)),
    };
    let records = chunks.iter().enumerate().map(record).collect();
    let stripe = Stripe {
        id: StripeId(id),
        code,
        chunk_bytes: chunk_bytes as u64,
        unit_bytes: chunk_bytes as u64,
        generation: Generation(0),
        chunks: records,
    };
    (stripe, chunks)
}

/// The edges along which slices are sent: (child, parent).
pub type Tree = Vec<(u32, u32)>;

/// Every helper straight to the destination.
pub fn star(helpers: &[u32], destination: u32) -> Tree {
    helpers.iter().map(|helper| (*helper, destination)).collect()
}

/// One after the other.
pub fn chain(helpers: &[u32], destination: u32) -> Tree {
    let parents = helpers.iter().skip(1).chain([&destination]);
    helpers.iter().zip(parents).map(|(child, parent)| (*child, *parent)).collect()
}

/// Any tree of them.
pub fn any_tree(helpers: &[u32], destination: u32, random: &mut Random) -> Tree {
    let mut order = helpers.to_vec();
    random.shuffle(&mut order);
    let mut placed = vec![destination];
    let mut tree = Tree::new();
    for helper in order {
        tree.push((helper, *random.choose(&placed)));
        placed.push(helper);
    }
    tree
}

/// Rebuilds chunk 0 of the stripe: one lane for each tree, of about equal length.
pub fn task(
    repair: RepairId,
    stripe: &Stripe,
    (trees, mode): (&[Tree], Mode),
    destination: u32,
) -> Task {
    let (count, bytes) = (trees.len() as u64, stripe.chunk_bytes);
    let bound = |index: u64| if index == count { bytes } else { bytes * index / count / 64 * 64 };
    let lane = |(index, tree): (usize, &Tree)| {
        let range = Range { from: bound(index as u64), to: bound(index as u64 + 1) };
        let edge = |&(child, parent): &(u32, u32)| Edge {
            child: NodeId(child),
            parent: NodeId(parent),
            bytes: range.bytes(),
            carries: Carries::Partial,
        };
        let edges = tree.iter().map(edge).collect();
        let lost = vec![ChunkIndex(0)];
        Lane { range, lost, mode, decoder: None, scheme: None, edges }
    };
    let plan = Plan {
        stripe: stripe.id,
        lost: vec![ChunkIndex(0)],
        destinations: BTreeMap::from([(ChunkIndex(0), NodeId(destination))]),
        start: Start::Now,
        range: Range { from: 0, to: bytes },
        period: None,
        lanes: trees.iter().enumerate().map(lane).collect(),
    };
    Task {
        repair,
        stripe: stripe.clone(),
        plan,
        slice_bytes: 16 * 1024,
        window: 4,
        gated: false,
        continues: None,
        skips: false,
        label: Label::default(),
    }
}
