//! Greedy balance: the least loaded nodes serve, and every choice is made again until none helps.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A node's load is the time that its busiest port would need, so slow links weigh more and what
//! already runs counts. One pass in random order leaves the last tasks with the worst choices;
//! therefore tasks are then taken out and put back, one by one, against the load of all the
//! others, for as long as the peak falls. Coordinate descent: no proof of optimality, but on equal
//! nodes it ends within a few per cent of the bound.
//!
//! Per task: rank the survivors (those that may have to relay by their worse port, the rest by
//! their uplink), give the places that receive most to the freest downlinks, and take the
//! destination with the least load from a tournament. The cost is O(helpers + log nodes).
//!
//! It knows nothing of racks: a batch that is bound by the core needs another balance.

use crate::cluster::Rate;
use crate::id::{ChunkIndex, NodeId};
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::least::Least;
use crate::planner::task::{Placement, Task};
use crate::random::Random;

/// The most times that every choice is made again. On equal nodes three sweeps are usual; very
/// unequal ones keep improving by fractions of a per cent.
const SWEEPS_MAX: usize = 8;

/// What a link without any capacity counts as: so slow that every other one is better, but still a
/// number that can be compared.
const DEAD_LINK: Rate = Rate(1e-9);

/// Nodes for each task.
pub(super) fn place(tasks: &[Task<'_>], view: &View<'_>, seed: u64) -> Vec<Placement> {
    let mut random = Random::new(seed);
    let mut state = State::new(tasks, view);
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    let mut places: Vec<Option<Placement>> = vec![None; tasks.len()];
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..=SWEEPS_MAX {
        random.shuffle(&mut order);
        for &index in &order {
            let task = &tasks[index];
            if let Some(place) = &places[index] {
                state.subtract(task, place);
            }
            let place = state.choose(task, &mut random);
            state.add(task, &place);
            places[index] = Some(place);
        }
        let peak = state.peak_seconds();
        if peak >= best.0 {
            break;
        }
        best = (peak, places.iter().flatten().cloned().collect());
    }
    best.1
}

/// Seconds per byte of each port of a node.
#[derive(Clone, Copy, Debug)]
struct Pace {
    up: f64,
    down: f64,
    disk_read: f64,
    disk_write: f64,
}

impl Pace {
    /// What `load` takes to send, with the disk behind it.
    fn sending(&self, load: &NodeLoad, more_bytes: u64) -> f64 {
        let up = (load.up_bytes + more_bytes) as f64 * self.up;
        up.max((load.disk_read_bytes + more_bytes) as f64 * self.disk_read)
    }

    /// What `load` takes to receive.
    fn receiving(&self, load: &NodeLoad, more_bytes: u64) -> f64 {
        (load.down_bytes + more_bytes) as f64 * self.down
    }
}

/// The loads so far and the destinations ranked by them.
struct State<'a> {
    view: &'a View<'a>,
    paces: Vec<Pace>,
    loads: Vec<NodeLoad>,
    destinations: Least,
    /// What a typical destination receives; destinations are ranked as if each task brought it.
    lump_bytes: u64,
}

impl<'a> State<'a> {
    fn new(tasks: &[Task<'_>], view: &'a View<'a>) -> State<'a> {
        let lump = |task: &Task<'_>| task.received(task.helper_count()) * task.job.chunk_bytes;
        let lump_bytes = tasks.iter().map(lump).sum::<u64>() / tasks.len().max(1) as u64;
        let pace = |rate: Rate| 1.0 / rate.0.max(DEAD_LINK.0);
        let nodes = view.cluster.nodes.iter();
        let paces = nodes.map(|node| Pace {
            up: pace(node.uplink_free()),
            down: pace(node.downlink_free()),
            disk_read: node.disk_read.map_or(0.0, pace),
            disk_write: node.disk_write.map_or(0.0, pace),
        });
        let mut state = State {
            view,
            paces: paces.collect(),
            loads: view.load.nodes().to_vec(),
            destinations: Least::new(Vec::new()),
            lump_bytes,
        };
        let keys = view.cluster.ids().map(|node| state.destination_key(node));
        state.destinations = Least::new(keys.collect());
        state
    }

    fn choose(&mut self, task: &Task<'_>, random: &mut Random) -> Placement {
        let destinations = self.choose_destinations(task);
        Placement { helpers: self.choose_helpers(task, random), destinations }
    }

    fn choose_helpers(&self, task: &Task<'_>, random: &mut Random) -> Vec<(ChunkIndex, NodeId)> {
        let bytes = task.job.chunk_bytes;
        let mut places: Vec<(usize, u64)> =
            (0..task.helper_count()).map(|place| (place, task.received(place))).collect();
        places.sort_by_key(|(_, received)| std::cmp::Reverse(*received));
        let relay_count = places.iter().filter(|(_, received)| *received > 0).count();

        let sending = |node: NodeId| self.paces[node.index()].sending(self.load(node), bytes);
        let receiving = |node: NodeId| self.paces[node.index()].receiving(self.load(node), bytes);
        let both = |node: NodeId| sending(node).max(receiving(node));
        let mut ranked = task.candidates.clone();
        random.shuffle(&mut ranked);
        if relay_count > 0 {
            sort_by_seconds(&mut ranked, both);
        }
        sort_by_seconds(&mut ranked[relay_count..], sending);
        let mut chosen = task.choose_helpers(&ranked);
        if relay_count > 0 {
            sort_by_seconds(&mut chosen, receiving);
        }

        let mut helpers = chosen.clone();
        for ((place, _), helper) in places.into_iter().zip(chosen) {
            helpers[place] = helper;
        }
        helpers
    }

    /// The least loaded nodes that may receive; ones to be avoided only if there are no others.
    fn choose_destinations(&mut self, task: &Task<'_>) -> Vec<NodeId> {
        let job = task.job;
        let holders = job.survivors.iter().map(|(_, node)| *node);
        let blocked: Vec<NodeId> = holders.chain(job.excluded.iter().copied()).collect();
        let mut chosen = Vec::with_capacity(task.lost.len());
        self.block(&blocked);
        self.block(&job.avoid);
        self.take_least(task.lost.len(), &mut chosen);
        if chosen.len() < task.lost.len() {
            self.unblock(&job.avoid);
            self.block(&blocked);
            self.block(&chosen);
            self.take_least(task.lost.len(), &mut chosen);
        }
        for nodes in [&blocked, &job.avoid, &chosen] {
            self.unblock(nodes);
        }
        chosen
    }

    fn take_least(&mut self, count: usize, chosen: &mut Vec<NodeId>) {
        while chosen.len() < count
            && let Some(index) = self.destinations.least()
        {
            chosen.push(NodeId(index as u32));
            self.destinations.set(index, f64::INFINITY);
        }
    }

    fn block(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.destinations.set(node.index(), f64::INFINITY));
    }

    fn unblock(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            self.destinations.set(node.index(), self.destination_key(node));
        }
    }

    fn destination_key(&self, node: NodeId) -> f64 {
        if !self.view.accepts[node.index()] {
            return f64::INFINITY;
        }
        let (pace, load) = (&self.paces[node.index()], &self.loads[node.index()]);
        let writing = load.disk_write_bytes as f64 * pace.disk_write;
        pace.receiving(load, self.lump_bytes).max(writing)
    }

    fn add(&mut self, task: &Task<'_>, place: &Placement) {
        self.charge(task, place, |total, bytes| *total += bytes);
    }

    fn subtract(&mut self, task: &Task<'_>, place: &Placement) {
        self.charge(task, place, |total, bytes| *total -= bytes);
    }

    fn charge(&mut self, task: &Task<'_>, place: &Placement, apply: impl Fn(&mut u64, u64)) {
        for (node, change) in task.loads(place) {
            let load = &mut self.loads[node.index()];
            apply(&mut load.up_bytes, change.up_bytes);
            apply(&mut load.down_bytes, change.down_bytes);
            apply(&mut load.disk_read_bytes, change.disk_read_bytes);
            apply(&mut load.disk_write_bytes, change.disk_write_bytes);
            self.destinations.set(node.index(), self.destination_key(node));
        }
    }

    fn load(&self, node: NodeId) -> &NodeLoad {
        &self.loads[node.index()]
    }

    fn peak_seconds(&self) -> f64 {
        let nodes = self.paces.iter().zip(&self.loads);
        let busiest = nodes.map(|(pace, load)| {
            let writing = load.disk_write_bytes as f64 * pace.disk_write;
            pace.sending(load, 0).max(pace.receiving(load, 0)).max(writing)
        });
        busiest.fold(0.0, f64::max)
    }
}

/// The least first; of equals, in the order in which they stand.
fn sort_by_seconds(helpers: &mut [(ChunkIndex, NodeId)], seconds: impl Fn(NodeId) -> f64) {
    helpers.sort_by(|(_, a), (_, b)| seconds(*a).total_cmp(&seconds(*b)));
}
