//! Applications' clients: each sends its next request when the last one was answered.
//!
//! Place: beside [slices flow]: what else takes the links.
//! A request is a flow between a node and the client, in the same network as repairs, with the
//! share of a lane that rebuilds a whole chunk; its latency is the time of its flows and of a round
//! trip. Clients run for as long as a repair does, or, to know what the same requests take without
//! it, for as many operations as they did then. Readers are clients of one node, which become busy
//! at some moment and stay so; what they wait for is no application's latency.

use std::collections::BTreeMap;

use suture_repair::id::NodeId;
use suture_repair::plan::load::Port;
use suture_repair::random::Random;

use crate::fluid::{FlowId, Network, Transfer, Urgency};
use crate::monitor::Taken;
use crate::ports::PortMap;
use crate::workload::{Access, Request, Source};

/// A round trip and the work of both ends, in seconds: what a request without bytes takes.
const ROUND_TRIP: f64 = 0.000_5;

/// Clients that read objects from one node, which has them in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readers {
    /// The node that is read from.
    pub node: NodeId,
    /// How many they are; each asks for the next object when it has the last one.
    pub count: usize,
    /// Bytes of an object.
    pub bytes: u64,
    /// From when on they read, in seconds.
    pub from: f64,
}

/// What a client asks for.
#[derive(Clone, Debug)]
enum Demand {
    /// What the source of the applications draws.
    Drawn(Random),
    /// One object after the other from one node.
    Objects(Readers),
}

/// Which operation of which client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// The client that performs it.
    pub client: usize,
    /// So many operations that client had ended before this one.
    pub before: usize,
}

impl Operation {
    /// Whether it is among the first so many of each client.
    pub fn is_among_first(self, counts: &[usize]) -> bool {
        counts.get(self.client).is_some_and(|count| self.before < *count)
    }
}

/// A request whose bytes have moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MovedRequest {
    /// The node that it read from or wrote to.
    pub node: NodeId,
    /// Whether its bytes left that node or came to it.
    pub access: Access,
    /// So many bytes moved from the one moment to the other.
    pub bytes: f64,
    /// When they began to move, in seconds.
    pub from: f64,
    /// When the last of them had moved.
    pub to: f64,
    /// What it is a part of.
    pub operation: Operation,
}

/// A request whose bytes move.
#[derive(Clone, Copy, Debug)]
struct Moving {
    flow: FlowId,
    request: Request,
    /// Since when they do.
    from: f64,
    /// Bytes of it that were counted before.
    counted: f64,
}

impl Moving {
    /// What it is when its last byte has moved, at this moment, as a part of this operation.
    fn ended(self, to: f64, operation: Operation) -> MovedRequest {
        let Request { node, access, bytes, .. } = self.request;
        MovedRequest { node, access, bytes: bytes as f64, from: self.from, to, operation }
    }
}

/// The shares of requests at a node's link, in bytes; none: that of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestShares {
    /// Of one that reads from the node.
    pub read: Option<f64>,
    /// Of one that writes to it.
    pub write: Option<f64>,
}

#[derive(Clone, Debug)]
struct Client {
    demand: Demand,
    /// What the operation has still to move, last first.
    pending: Vec<Request>,
    moving: Option<Moving>,
    began: f64,
    /// When it begins its next operation; `None` while one is under way, or when it is done.
    begins: Option<f64>,
    operations: u64,
    operations_max: u64,
    ended: f64,
    /// Of its operations, in their order; none of a reader.
    latencies: Vec<f64>,
}

/// Closed-loop clients: each begins an operation when its last one has ended.
#[derive(Clone, Debug)]
pub struct Clients {
    source: Source,
    /// Of each request, in bytes.
    share: f64,
    /// Of requests at each node, where they differ.
    node_shares: Vec<RequestShares>,
    /// How many times these shares a request has.
    share_factor: f64,
    /// Requests of applications that have moved, where they are kept.
    moved: Option<Vec<MovedRequest>>,
    clients: Vec<Client>,
    taken: BTreeMap<NodeId, Taken>,
}

/// What the clients of applications did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Seconds of each operation, ascending.
    pub latencies: Vec<f64>,
    /// The same of each client, in the order in which it performed them.
    pub by_client: Vec<Vec<f64>>,
    /// Operations of each client.
    pub operations: Vec<u64>,
    /// When each client's last operation ended, summed.
    pub client_seconds: f64,
    /// Bytes that moved through each node's ports, for readers too.
    pub taken: BTreeMap<NodeId, Taken>,
    /// Requests that have moved, in the order in which they ended; none where they are not kept.
    pub moved: Vec<MovedRequest>,
}

impl Client {
    fn new(demand: Demand, begins: f64, operations_max: u64) -> Client {
        Client {
            demand,
            pending: Vec::new(),
            moving: None,
            began: 0.0,
            begins: (operations_max > 0).then_some(begins),
            operations: 0,
            operations_max,
            ended: 0.0,
            latencies: Vec::new(),
        }
    }

    fn is_reader(&self) -> bool {
        matches!(self.demand, Demand::Objects(_))
    }

    /// Adds what has moved of its request since that was last counted; `moved` is all of it.
    fn count(&mut self, moved: f64, all: &mut BTreeMap<NodeId, Taken>) {
        let has_disk = !self.is_reader();
        let Some(moving) = &mut self.moving else { return };
        let bytes = moved - std::mem::replace(&mut moving.counted, moved);
        let disk_bytes = if has_disk { bytes } else { 0.0 };
        let taken = all.entry(moving.request.node).or_default();
        match moving.request.access {
            Access::Read => {
                taken.up += bytes;
                taken.disk_read += disk_bytes;
            }
            Access::Write => {
                taken.down += bytes;
                taken.disk_write += disk_bytes;
            }
        }
    }
}

impl Clients {
    /// So many clients, which draw from `source`, each request with this share of ports in bytes;
    /// each stops after its number in `operations`, if these are given.
    pub fn new(
        source: Source,
        share: f64,
        count: usize,
        seed: u64,
        operations: Option<&[u64]>,
    ) -> Clients {
        let mut seeds = Random::new(seed);
        let client = |index: usize| {
            let operations_max = operations.map_or(u64::MAX, |all| all[index]);
            Client::new(Demand::Drawn(Random::new(seeds.next_u64())), 0.0, operations_max)
        };
        let clients = (0..count).map(client).collect();
        Clients {
            source,
            share,
            node_shares: Vec::new(),
            share_factor: 1.0,
            moved: None,
            clients,
            taken: BTreeMap::new(),
        }
    }

    /// The same, where each request has so many times its share.
    pub fn with_share_factor(self, share_factor: f64) -> Clients {
        Clients { share_factor, ..self }
    }

    /// The same, where requests of applications are kept once they have moved, if they are to be.
    pub fn with_record(self, is_recorded: bool) -> Clients {
        Clients { moved: is_recorded.then(Vec::new), ..self }
    }

    /// Gives requests that begin from now on these shares, node by node.
    pub fn set_shares(&mut self, shares: Vec<RequestShares>) {
        self.node_shares = shares;
    }

    /// The same and these readers, with as many more clients among the ports.
    pub fn with_readers(mut self, readers: Option<Readers>) -> Clients {
        if let Some(readers) = readers {
            let reader = || Client::new(Demand::Objects(readers), readers.from, u64::MAX);
            self.clients.extend(std::iter::repeat_with(reader).take(readers.count));
        }
        self
    }

    /// When a client next begins an operation.
    pub fn next_begin(&self) -> Option<f64> {
        self.clients.iter().filter_map(|client| client.begins).min_by(f64::total_cmp)
    }

    /// Whether all have done all operations that they were given.
    pub fn are_done(&self) -> bool {
        self.clients.iter().all(|client| client.operations >= client.operations_max)
    }

    /// Begins the operations whose time has come.
    pub fn begin(&mut self, network: &mut Network, ports: &PortMap) {
        let now = network.now();
        for index in 0..self.clients.len() {
            if self.clients[index].begins.is_some_and(|at| at <= now) {
                let client = &mut self.clients[index];
                (client.begins, client.began) = (None, now);
                client.pending = match &mut client.demand {
                    Demand::Drawn(random) => self.source.draw(now, random),
                    Demand::Objects(readers) => vec![object(*readers)],
                };
                client.pending.reverse();
                self.go_on(index, network, ports);
            }
        }
    }

    /// A flow has ended. Returns whether it was a client's.
    pub fn flow_ended(&mut self, flow: FlowId, network: &mut Network, ports: &PortMap) -> bool {
        let is_its = |client: &Client| client.moving.is_some_and(|moving| moving.flow == flow);
        let Some(index) = self.clients.iter().position(is_its) else { return false };
        let client = &mut self.clients[index];
        if let Some(moving) = client.moving {
            client.count(moving.request.bytes as f64, &mut self.taken);
            if let Some(moved) = self.moved.as_mut().filter(|_| !client.is_reader()) {
                let before = client.operations as usize;
                moved.push(moving.ended(network.now(), Operation { client: index, before }));
            }
        }
        client.moving = None;
        self.go_on(index, network, ports);
        true
    }

    /// Starts the operation's next transfer, or ends it.
    fn go_on(&mut self, index: usize, network: &mut Network, ports: &PortMap) {
        let client = &mut self.clients[index];
        while let Some(request) = client.pending.pop() {
            if request.bytes > 0 {
                let mut takes = match request.access {
                    Access::Read => ports.read_request(request.node, index),
                    Access::Write => ports.write_request(request.node, index),
                };
                if client.is_reader() {
                    let disk = ports.index(Port::DiskRead(request.node));
                    takes.retain(|take| take.port != disk);
                }
                let of_one = share_of(&request, &self.node_shares).unwrap_or(self.share);
                let share = self.share_factor * of_one;
                let what = Transfer { bytes: request.bytes as f64, share };
                let flow = network.start(what, &takes, Urgency::Prompt);
                let from = network.now();
                client.moving = Some(Moving { flow, request, from, counted: 0.0 });
                return;
            }
        }
        client.ended = network.now() + ROUND_TRIP;
        if !client.is_reader() {
            client.latencies.push(client.ended - client.began);
        }
        client.operations += 1;
        client.begins = (client.operations < client.operations_max).then_some(client.ended);
    }

    /// Bytes that have moved through each node's ports so far.
    pub fn taken(&mut self, network: &Network) -> &BTreeMap<NodeId, Taken> {
        for client in &mut self.clients {
            if let Some(Moving { flow, request, .. }) = client.moving {
                client.count(request.bytes as f64 - network.left(flow), &mut self.taken);
            }
        }
        &self.taken
    }

    /// What applications did so far.
    pub fn served(mut self, network: &Network) -> Served {
        self.taken(network);
        self.clients.retain(|client| !client.is_reader());
        let applications = &self.clients;
        let all = applications.iter().flat_map(|client| &client.latencies);
        let mut latencies: Vec<f64> = all.copied().collect();
        latencies.sort_unstable_by(f64::total_cmp);
        Served {
            operations: applications.iter().map(|client| client.operations).collect(),
            client_seconds: applications.iter().map(|client| client.ended).sum(),
            latencies,
            by_client: self.clients.into_iter().map(|client| client.latencies).collect(),
            taken: self.taken,
            moved: self.moved.unwrap_or_default(),
        }
    }
}

/// The share of a request at its node, where it is not that of all.
fn share_of(request: &Request, shares: &[RequestShares]) -> Option<f64> {
    let shares = shares.get(request.node.index())?;
    match request.access {
        Access::Read => shares.read,
        Access::Write => shares.write,
    }
}

/// The next object that a reader asks for.
fn object(readers: Readers) -> Request {
    let Readers { node, bytes, .. } = readers;
    Request { key: 0, node, access: Access::Read, bytes, is_miss: false }
}

/// The value that `part` of the ascending values do not exceed; zero of none.
pub fn percentile(ascending: &[f64], part: f64) -> f64 {
    let rank = (part * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}
