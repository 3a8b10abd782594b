//! Racks of the simulated cluster: which agent names which, what the metadata has recorded, what
//! follows.
//!
//! Place: put -> [placement], and failure -> stripes -> queue -> [plan] -> ...
//! A rack is a name that an agent gives when it joins, and it gives another one when its node was
//! moved. What the last join named is recorded with the metadata, so that a new coordinator begins
//! with it. Agents of clusters without racks name none as they join.
//!
//! The rules that the checkers ask for are counted here, apart from the core: a stripe is placed
//! with as few chunks in each rack as the racks allow, and no repair leaves a rack with more chunks
//! of a stripe than may be lost while enough other nodes would do.

use std::collections::{BTreeMap, BTreeSet};

use suture_repair::cluster::{Cluster, Node, Rate};
use suture_repair::event::{Claim, Command, Input, NodeState, NodeStatus, Output, Report};
use suture_repair::id::{ChunkIndex, NodeId, RepairId, StripeId};
use suture_repair::message::FromAgent;
use suture_repair::placement::{Placer, Wanted};
use suture_repair::random::Random;

/// Which of a cluster's racks something is in.
type Rack = u64;

/// What the names of racks begin with.
const RACK: &str = "rack";

/// Where each chunk of a repair is going to be kept.
pub(crate) type Destinations = BTreeMap<ChunkIndex, NodeId>;

/// Which node is in which rack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Racks {
    /// What each agent names when it next joins; nothing where there are no racks.
    named: Vec<Rack>,
    /// What each named when it last joined, as the metadata has it.
    recorded: Vec<Rack>,
    /// The same as far as the coordinator was notified: it may have slept meanwhile.
    known: Vec<Rack>,
    placer: Placer,
    /// Repairs that were dispatched or claimed.
    repairs: BTreeMap<RepairId, StripeId>,
    /// The destinations of each stripe's last repair.
    last: BTreeMap<StripeId, Destinations>,
    /// Nodes that could take chunks at the last change of any node's health, when all waiting plans
    /// were made anew, and ever since: a plan that waits may be older than what is known now.
    usable: BTreeSet<NodeId>,
    /// Nodes that the keeper lets no chunk go to, whatever the operator wants of them.
    withheld: BTreeSet<NodeId>,
    /// Stripes of which a repair has failed: which nodes the next one avoids is not known here.
    failed: BTreeSet<StripeId>,
}

impl Racks {
    /// Nodes that are spread over so many racks, unevenly; over none where that is 0.
    pub fn new(seed: u64, nodes: usize, racks: u64) -> Racks {
        let mut random = Random::new(seed ^ 0x4ac5);
        let named: Vec<Rack> = match racks {
            0 => Vec::new(),
            _ => (0..nodes).map(|_| random.below(racks)).collect(),
        };
        Racks { recorded: named.clone(), known: named.clone(), named, ..Racks::default() }
    }

    /// A new coordinator begins with what the metadata has.
    pub fn begin(&mut self) {
        self.known.clone_from(&self.recorded);
    }

    /// So many nodes as the metadata has them.
    pub fn cluster(&self, nodes: usize) -> Cluster {
        let mut cluster = Cluster::default();
        for id in (0..nodes as u32).map(NodeId) {
            let rack = self.recorded.get(id.index()).map(|rack| cluster.rack(&rack_name(*rack)));
            cluster.nodes.push(Node { rack, ..plain_node(id) });
        }
        cluster
    }

    /// An agent joins: what is sent to the coordinator about its node, where there are racks.
    pub fn join(&mut self, id: NodeId) -> Option<Input> {
        let rack = *self.named.get(id.index())?;
        self.recorded[id.index()] = rack;
        Some(Input::NodeAdded { id, node: plain_node(id), rack: Some(rack_name(rack)) })
    }

    /// The coordinator is about to handle `input`. An agent that has just started does not know
    /// its free bytes yet, and its Hello may come late.
    pub fn before_input(&mut self, input: &Input) {
        let (node, free_bytes) = match input {
            Input::NodeAdded { id, rack: Some(rack), .. } => {
                let number = rack.strip_prefix(RACK).and_then(|number| number.parse().ok());
                self.known[id.index()] = number.expect("a rack is named by its number");
                return;
            }
            Input::NodeState { node, state: NodeState::Up } => {
                self.withheld.remove(node);
                return;
            }
            Input::NodeState { node, .. } => {
                self.withheld.insert(*node);
                self.usable.remove(node);
                return;
            }
            Input::Operator(Command::DrainNode(node) | Command::PauseNode { node, .. }) => {
                self.usable.remove(node);
                return;
            }
            Input::Agent { node, message: FromAgent::Hello(hello) } => (node, hello.free_bytes),
            Input::Agent { node, message: FromAgent::Heartbeat(beat) } => (node, beat.free_bytes),
            _ => return,
        };
        if free_bytes == 0 {
            self.usable.remove(node);
        }
    }

    /// Some node's health has changed, and the coordinator knows this of all.
    pub fn health_changed(&mut self, nodes: &[NodeStatus]) {
        let is_usable =
            |n: &&NodeStatus| n.serves() && n.free_bytes > 0 && !self.withheld.contains(&n.node);
        self.usable = nodes.iter().filter(is_usable).map(|status| status.node).collect();
    }

    /// Whether a node could take chunks whenever a plan that waits was made.
    pub fn is_usable(&self, node: NodeId) -> bool {
        self.usable.contains(&node)
    }

    /// A node is moved so many racks on, of so many.
    pub fn move_node(&mut self, node: NodeId, by: u64, racks: u64) {
        let named = &mut self.named[node.index()];
        *named = (*named + by) % racks;
    }

    /// The nodes of a new stripe, and whether no rack has more of them than it must; fewer nodes
    /// than it needs where no more can take a chunk.
    pub fn place(
        &mut self,
        cluster: &Cluster,
        nodes: &[NodeStatus],
        wanted: &Wanted<'_>,
    ) -> (Vec<NodeId>, bool) {
        let placed = self.placer.place(cluster, nodes, wanted).remove(0);
        // Stored a moment later, and counted as such.
        self.placer.unplace(&placed, wanted.chunk_bytes);
        let can_take = |n: &&NodeStatus| n.serves() && n.free_bytes > wanted.chunk_bytes;
        let sizes = count(&self.recorded, nodes.iter().filter(can_take).map(|status| status.node));
        let takes = |most: usize| sizes.values().map(|size| most.min(*size)).sum::<usize>();
        let least = (1..placed.len()).find(|most| takes(*most) >= placed.len());
        let counts = count(&self.recorded, placed.iter().copied());
        let is_even = counts.values().all(|count| *count <= least.unwrap_or(placed.len()));
        (placed, is_even)
    }

    /// What the coordinator begins, if its destinations were chosen just now: a repair that is
    /// claimed or dispatched, and does not go on with what another one began.
    pub fn watch<'a>(&mut self, output: &'a Output) -> Option<(StripeId, &'a Destinations)> {
        let (repair, stripe, to) = match output {
            Output::Claim(Claim { repair, stripe, destinations, .. }) => {
                (*repair, *stripe, destinations)
            }
            Output::Report(Report::Started { repair, plan }) => {
                (*repair, plan.stripe, &plan.destinations)
            }
            Output::Report(Report::Failed { repair, .. }) => {
                self.failed.extend(self.repairs.get(repair));
                return None;
            }
            _ => return None,
        };
        let is_new = self.repairs.insert(repair, stripe).is_none();
        let before = self.last.insert(stripe, to.clone());
        let is_chosen = is_new && before.as_ref() != Some(to) && !self.failed.contains(&stripe);
        is_chosen.then_some((stripe, to))
    }

    /// Whether a repair to these destinations leaves a rack with more chunks of its stripe than may
    /// be lost, though it need not: the nodes of `kept` have some already, and those of `free`
    /// could take one.
    pub fn is_overfull(
        &self,
        tolerance: usize,
        kept: impl Iterator<Item = NodeId>,
        free: impl Iterator<Item = NodeId>,
        to: &Destinations,
    ) -> bool {
        let held = count(&self.known, kept);
        let left = |rack: &Rack| tolerance.saturating_sub(held.get(rack).copied().unwrap_or(0));
        let brought = count(&self.known, to.values().copied());
        let is_over = brought.iter().any(|(rack, count)| *count > left(rack));
        let free = count(&self.known, free);
        let places: usize = free.iter().map(|(rack, count)| left(rack).min(*count)).sum();
        is_over && places >= to.len()
    }
}

/// How many of the nodes each rack has, if nodes are in these racks.
fn count(racks: &[Rack], nodes: impl Iterator<Item = NodeId>) -> BTreeMap<Rack, usize> {
    let mut counts = BTreeMap::new();
    for rack in nodes.filter_map(|node| racks.get(node.index())) {
        *counts.entry(*rack).or_default() += 1;
    }
    counts
}

fn rack_name(rack: Rack) -> String {
    format!("{RACK}{rack}")
}

fn plain_node(id: NodeId) -> Node {
    Node::new(format!("n{}", id.0), Rate(1e8))
}
