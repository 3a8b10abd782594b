//! Applications' clients: each sends its next request when the last one was answered.
//!
//! Place: beside [slices flow]: what else takes the links.
//! A request is a flow between a node and the client, in the same network as repairs, with the
//! share of a lane that rebuilds a whole chunk; its latency is the time of its flows and of a round
//! trip. Clients run for as long as a repair does, or, to know what the same requests take without
//! it, for as many operations as they did then.

use suture_repair::random::Random;

use crate::fluid::{FlowId, Network, Transfer, Urgency};
use crate::ports::PortMap;
use crate::workload::{Access, Request, Source};

/// A round trip and the work of both ends, in seconds: what a request without bytes takes.
const ROUND_TRIP: f64 = 0.000_5;

#[derive(Clone, Debug)]
struct Client {
    random: Random,
    /// What the operation has still to move, last first.
    pending: Vec<Request>,
    flow: Option<FlowId>,
    began: f64,
    /// When it begins its next operation; `None` while one is under way, or when it is done.
    begins: Option<f64>,
    operations: u64,
    operations_max: u64,
    ended: f64,
}

/// Closed-loop clients: each begins an operation when its last one has ended.
#[derive(Clone, Debug)]
pub struct Clients {
    source: Source,
    /// Of each request, in bytes.
    share: f64,
    clients: Vec<Client>,
    latencies: Vec<f64>,
}

/// What the clients did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Seconds of each operation, ascending.
    pub latencies: Vec<f64>,
    /// Operations of each client.
    pub operations: Vec<u64>,
    /// When each client's last operation ended, summed.
    pub client_seconds: f64,
}

impl Clients {
    /// So many clients, which draw from `source`, each request with this share of ports in bytes;
    /// each stops after as many operations as `operations` says, if it does.
    pub fn new(
        (source, share): (Source, f64),
        count: usize,
        seed: u64,
        operations: Option<&[u64]>,
    ) -> Clients {
        let mut seeds = Random::new(seed);
        let client = |index: usize| {
            let operations_max = operations.map_or(u64::MAX, |all| all[index]);
            Client {
                random: Random::new(seeds.next_u64()),
                pending: Vec::new(),
                flow: None,
                began: 0.0,
                begins: (operations_max > 0).then_some(0.0),
                operations: 0,
                operations_max,
                ended: 0.0,
            }
        };
        let clients = (0..count).map(client).collect();
        Clients { source, share, clients, latencies: Vec::new() }
    }

    /// When a client next begins an operation.
    pub fn next_begin(&self) -> Option<f64> {
        self.clients.iter().filter_map(|client| client.begins).min_by(f64::total_cmp)
    }

    /// Whether all have done what they were told to.
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
                client.pending = self.source.draw(now, &mut client.random);
                client.pending.reverse();
                self.go_on(index, network, ports);
            }
        }
    }

    /// A flow has ended. Returns whether it was a client's.
    pub fn flow_ended(&mut self, flow: FlowId, network: &mut Network, ports: &PortMap) -> bool {
        let owner = self.clients.iter().position(|client| client.flow == Some(flow));
        let Some(index) = owner else { return false };
        self.clients[index].flow = None;
        self.go_on(index, network, ports);
        true
    }

    /// Starts the operation's next transfer, or ends it.
    fn go_on(&mut self, index: usize, network: &mut Network, ports: &PortMap) {
        let client = &mut self.clients[index];
        while let Some(request) = client.pending.pop() {
            if request.bytes > 0 {
                let takes = match request.access {
                    Access::Read => ports.read_request(request.node, index),
                    Access::Write => ports.write_request(request.node, index),
                };
                let what = Transfer { bytes: request.bytes as f64, share: self.share };
                client.flow = Some(network.start(what, &takes, Urgency::Prompt));
                return;
            }
        }
        client.ended = network.now() + ROUND_TRIP;
        self.latencies.push(client.ended - client.began);
        client.operations += 1;
        client.begins = (client.operations < client.operations_max).then_some(client.ended);
    }

    /// What they did so far.
    pub fn served(mut self) -> Served {
        self.latencies.sort_unstable_by(f64::total_cmp);
        Served {
            operations: self.clients.iter().map(|client| client.operations).collect(),
            client_seconds: self.clients.iter().map(|client| client.ended).sum(),
            latencies: self.latencies,
        }
    }
}

/// The value that `part` of the ascending values do not exceed; zero of none.
pub fn percentile(ascending: &[f64], part: f64) -> f64 {
    let rank = (part * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}
