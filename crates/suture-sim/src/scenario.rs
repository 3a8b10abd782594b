//! What is simulated: a cluster, what fails, how it is repaired, and what else uses the network.
//!
//! Place: `[failure]` -> stripes -> queue -> plan -> admit -> dispatch -> slices flow -> ...
//! Shared by the loop (`simulate`) and by the agents (`fluid_agents`); decides nothing.

use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::stripe::Stripe;
use suture_repair::throttle::ThrottleConfig;

use crate::capacity::Capacities;
use crate::client::Readers;
use crate::workload::Workload;

/// One simulated failure and its repair, as a value.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Nodes, racks and links, over time.
    pub capacities: Capacities,
    /// The stripes that lost something.
    pub stripes: Vec<Stripe>,
    /// The nodes that failed.
    pub failed: Vec<NodeId>,
    /// Nodes whose agents never speak: their chunks are not lost, and no client asks for them.
    pub silent: Vec<NodeId>,
    /// Bytes that each node can take; none at all means plenty everywhere.
    pub free_bytes: Vec<u64>,
    /// How repairs are planned and scheduled.
    pub policy: Policy,
    /// Where everything random begins.
    pub seed: u64,
    /// What slices and hops cost beside their bytes.
    pub overheads: Overheads,
    /// What repair may take; with it applications go first at every port, as at the ports of
    /// agents. None: all share alike.
    pub throttle: Option<ThrottleConfig>,
    /// Applications, if there are any.
    pub foreground: Option<Foreground>,
    /// Keep a timeline in at most so many buckets.
    pub timeline_buckets: Option<usize>,
    /// Above so many (flow, port) pairs the network may wait a little with changes.
    pub exact_entries: usize,
}

/// What else uses the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foreground {
    /// What applications ask for.
    pub workload: Workload,
    /// How many clients they have: each has one request under way.
    pub clients: usize,
    /// Whether the coordinator is notified, once a second, of what clients take of links and disks:
    /// ChameleonEC has such a monitor. The daemons have none: their agents report what links carry
    /// for others, which counts where repair is throttled (`throttle`), here as there.
    pub is_monitored: bool,
    /// Clients that read from one node besides, which makes a straggler of it.
    pub readers: Option<Readers>,
    /// Where what clients ask for begins; none: where everything random of the scenario does.
    pub seed: Option<u64>,
    /// Whether a request has as much of a link as one of the connections of repairs there, which
    /// all lanes between the same two nodes share. Else it has as much as a lane that rebuilds a
    /// whole chunk. Of no meaning where applications go first.
    pub is_by_connection: bool,
    /// How many times that share of links a request has; 1 changes nothing.
    pub share_factor: f64,
    /// Whether it is kept when the bytes of each request moved, in [`crate::client::Served`].
    pub is_recorded: bool,
}

impl Foreground {
    /// Applications alone, which are not monitored.
    pub fn new(workload: Workload, clients: usize) -> Foreground {
        Foreground {
            workload,
            clients,
            is_monitored: false,
            readers: None,
            seed: None,
            is_by_connection: false,
            share_factor: 1.0,
            is_recorded: false,
        }
    }

    /// The number of clients with requests under way.
    pub(crate) fn client_count(&self) -> usize {
        self.clients + self.readers.map_or(0, |readers| readers.count)
    }
}

/// What the fluid model leaves out, as time at the end of each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overheads {
    /// For each edge on the longest way, in seconds.
    pub hop_seconds: f64,
    /// For each slice, in seconds; slices of one lane follow each other.
    pub slice_seconds: f64,
}

impl Overheads {
    /// What a lane of this depth and so many slices costs: the last slice leaves after all others,
    /// and then passes each edge.
    pub fn seconds(self, depth: u32, slices: u64) -> f64 {
        let in_sequence = (slices + u64::from(depth)).saturating_sub(1);
        f64::from(depth) * self.hop_seconds + in_sequence as f64 * self.slice_seconds
    }
}
