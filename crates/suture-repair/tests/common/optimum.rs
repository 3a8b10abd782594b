//! The optimum of whole-chunk plans by linear programs with integral destinations: an oracle that
//! shares no line with planners and bounds.
//!
//! A stripe's plan is any number of trees over ranges of its chunk, into one destination. In parts
//! of a chunk: a helper sends `u` and reads as much, none more than its chunk; it receives no more
//! than what its part can add up; the destination receives the chunk and whatever else of the sums.
//! Where racks have links, every set of racks that may help together is a column; each of them
//! sends at least one sum, and each sum that leaves a rack arrives at another.
//!
//! One lost chunk a stripe, and codes without sub-chunks. Nodes that hold no chunk of the stripe
//! may relay too, if asked for: bounds must know of them, and planners take them where few chunks
//! are rebuilt much sooner for it.

use std::collections::BTreeMap;

use suture_repair::id::{ChunkIndex, NodeId};
use suture_repair::planner::Job;
use suture_repair::processor::ProcessorCosts;

use super::World;
use crate::lp::{LinearProgram, Row};

/// Sets of helpers, each by their places among the survivors.
type HelperSets = Vec<Vec<usize>>;

/// Programs that are solved before a question is given up.
const PROGRAMS_MAX: usize = 300;

/// Slower than anything that was asked for.
const EPSILON: f64 = 1e-6;

/// What may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    Chunks,
    /// The same, with relays that hold no chunk.
    Relayed,
    /// Also the schemes of traces of the code. Without links of racks.
    Traces,
}

/// An answer of the oracle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// No plan is faster than that.
    No,
    /// Some plan takes so many seconds.
    Yes(f64),
    /// It takes too long to say.
    Open,
}

/// What plans of the jobs need, between two times.
#[derive(Clone, Copy, Debug)]
pub struct Optimum {
    /// No plans need less.
    pub least: f64,
    /// Some plans need no more, or the time that was known before.
    pub most: f64,
}

/// What plans of the jobs need at least, when some are `known` to need so much. Best first, and as
/// near as so many programs get.
pub fn optimum(world: &World, kinds: Kinds, known: f64, programs: usize) -> Optimum {
    let allowed = world.jobs.iter().map(|job| destinations(world, job)).collect();
    let mut open: Vec<(f64, Vec<Vec<NodeId>>)> = vec![(0.0, allowed)];
    let mut most = known;
    for solved in 0..programs {
        let ranked = open.iter().enumerate().map(|(at, (least, _))| (*least, at));
        let Some((least, at)) = ranked.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        if least >= most * (1.0 - EPSILON) {
            break;
        }
        let (_, allowed) = open.swap_remove(at);
        let Some(solution) = solve(world, kinds, most, &allowed) else { continue };
        if solution.seconds >= most * (1.0 - EPSILON) {
            continue;
        }
        let Some((stripe, place)) = solution.most_spread() else {
            most = solution.seconds;
            continue;
        };
        if solved == 0 {
            let rounded = solution.kept.iter().zip(&allowed);
            let rounded = rounded.map(|(kept, allowed)| vec![allowed[largest(kept).0]]);
            open.push((solution.seconds, rounded.collect()));
        }
        open.extend(branches(allowed, stripe, place).map(|allowed| (solution.seconds, allowed)));
    }
    let least = open.iter().map(|(least, _)| *least).fold(most, f64::min);
    Optimum { least, most }
}

/// The same destinations but for one of a stripe, and that one alone.
fn branches(allowed: Vec<Vec<NodeId>>, stripe: usize, place: usize) -> [Vec<Vec<NodeId>>; 2] {
    let (mut without, mut only) = (allowed.clone(), allowed);
    let node = without[stripe].remove(place);
    only[stripe] = vec![node];
    [without, only]
}

/// Where most of a chunk is kept, and how much.
fn largest(kept: &[f64]) -> (usize, f64) {
    let places = kept.iter().copied().enumerate();
    places.max_by(|a, b| a.1.total_cmp(&b.1)).expect("someone keeps it")
}

/// Whether plans of the jobs can be done sooner than in `seconds`.
pub fn is_faster_possible(world: &World, kinds: Kinds, seconds: f64) -> Answer {
    let allowed = world.jobs.iter().map(|job| destinations(world, job)).collect();
    let mut open: Vec<Vec<Vec<NodeId>>> = vec![allowed];
    for _ in 0..PROGRAMS_MAX {
        let Some(allowed) = open.pop() else { return Answer::No };
        let Some(solution) = solve(world, kinds, seconds, &allowed) else { continue };
        if solution.seconds >= seconds * (1.0 - EPSILON) {
            continue;
        }
        let Some((stripe, place)) = solution.most_spread() else {
            return Answer::Yes(solution.seconds);
        };
        open.extend(branches(allowed, stripe, place));
    }
    Answer::Open
}

/// Nodes that may keep the chunk: nothing of the stripe, room, and a rack that may be lost.
fn destinations(world: &World, job: &Job) -> Vec<NodeId> {
    let cluster = &world.cluster;
    let is_free = |node: &NodeId| world.room[node.index()] > 0 && !job.excluded.contains(node);
    let free: Vec<NodeId> = cluster.ids().filter(is_free).collect();
    let tolerance = job.code.loss_tolerance();
    let rack = |node: NodeId| cluster.node(node).rack;
    let survives = |node: &NodeId| {
        let held = job.survivors.iter().filter(|(_, holder)| rack(*holder) == rack(*node));
        held.count() < tolerance
    };
    let good: Vec<NodeId> = free.iter().copied().filter(survives).collect();
    if cluster.racks.len() < 2 || good.is_empty() { free } else { good }
}

struct Solution {
    seconds: f64,
    /// How much of each stripe's chunk each of its destinations keeps.
    kept: Vec<Vec<f64>>,
}

impl Solution {
    /// The stripe whose chunk is spread over most nodes, and where most of it is; `None` where
    /// every chunk is kept by one node.
    fn most_spread(&self) -> Option<(usize, usize)> {
        let spread = self.kept.iter().map(|kept| largest(kept)).enumerate();
        let (stripe, (place, part)) = spread.min_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        (part <= 1.0 - 1e-4).then_some((stripe, place))
    }
}

/// The rows of ports, in chunks.
struct Ports {
    up: Vec<Row>,
    down: Vec<Row>,
    read: Vec<Row>,
    write: Vec<Row>,
    rack_up: Vec<Row>,
    rack_down: Vec<Row>,
}

impl Ports {
    /// What a node's processor does for each byte of a chunk; of traces no more than of others.
    fn work(&self, node: usize, costs: &ProcessorCosts) -> Row {
        let mut work: BTreeMap<usize, f64> = BTreeMap::new();
        let ports = [
            (&self.up, costs.sent),
            (&self.down, costs.received),
            (&self.read, costs.read),
            (&self.write, costs.written),
        ];
        for (rows, cost) in ports {
            for (variable, times) in &rows[node] {
                *work.entry(*variable).or_default() += cost * times;
            }
        }
        work.into_iter().collect()
    }
}

/// The variables of one stripe.
struct Stripe<'a> {
    world: &'a World,
    job: &'a Job,
    /// How many help.
    count: usize,
    destinations: &'a [NodeId],
    kept: Vec<usize>,
    direct: Vec<usize>,
    sent: Vec<usize>,
    joined: Vec<usize>,
    relays: Vec<Relay>,
    /// The share of whole-chunk trees; the rest is traces.
    whole: usize,
}

/// A node without a chunk of the stripe: what it receives and sends on, in a rack that helps or
/// keeps the chunk anyway, and in another.
struct Relay {
    node: NodeId,
    received: usize,
    near: usize,
    far: usize,
}

/// The best plans into these destinations that could be faster than `seconds`.
fn solve(world: &World, kinds: Kinds, seconds: f64, allowed: &[Vec<NodeId>]) -> Option<Solution> {
    let cluster = &world.cluster;
    let (nodes, racks) = (cluster.nodes.len(), cluster.racks.len());
    let rows = |count: usize| vec![Row::new(); count];
    let mut ports = Ports {
        up: rows(nodes),
        down: rows(nodes),
        read: rows(nodes),
        write: rows(nodes),
        rack_up: rows(racks),
        rack_down: rows(racks),
    };
    let mut program = LinearProgram::default();
    let time = program.variable(1.0);
    let mut keeping: Vec<Row> = rows(nodes);
    let mut stripes = Vec::new();
    for (job, destinations) in world.jobs.iter().zip(allowed) {
        let stripe = Stripe::new(world, job, destinations, kinds, &mut program);
        for (node, kept) in destinations.iter().zip(&stripe.kept) {
            keeping[node.index()].push((*kept, 1.0));
        }
        stripe.add_trees(&mut program, &mut ports);
        match cluster.core {
            Some(_) => stripe.add_racks(&mut program, &mut ports),
            None if kinds == Kinds::Traces => stripe.add_traces(&mut program, &mut ports),
            None => program.equals(vec![(stripe.whole, 1.0)], 1.0),
        }
        stripes.push(stripe);
    }
    let chunk = world.jobs[0].chunk_bytes as f64;
    let mut limit = |row: Row, rate: f64| {
        let mut row = row;
        row.push((time, -rate / chunk));
        program.at_most(row, 0.0);
    };
    for (index, node) in cluster.nodes.iter().enumerate() {
        if let Some(processor) = &node.processor {
            limit(ports.work(index, processor.costs()), processor.work_per_second());
        }
        limit(std::mem::take(&mut ports.up[index]), node.uplink_free().0);
        limit(std::mem::take(&mut ports.down[index]), node.downlink_free().0);
        let disks = [(node.disk_read, &mut ports.read), (node.disk_write, &mut ports.write)];
        for (rate, rows) in disks {
            if let Some(rate) = rate {
                limit(std::mem::take(&mut rows[index]), rate.0);
            }
        }
    }
    if let Some(core) = cluster.core {
        ports.rack_up.into_iter().for_each(|row| limit(row, core.rack_uplink.0));
        ports.rack_down.into_iter().for_each(|row| limit(row, core.rack_downlink.0));
    }
    // Chunks are kept whole: so many fit into the time that is to be beaten.
    for (node, row) in cluster.nodes.iter().zip(keeping) {
        let rate = node.disk_write.map_or(f64::INFINITY, |rate| rate.0).min(node.downlink_free().0);
        let chunks = (seconds * rate / chunk * (1.0 - EPSILON)).floor();
        if !row.is_empty() && chunks < row.len() as f64 {
            program.at_most(row, chunks);
        }
    }
    let (seconds, values) = program.optimum()?;
    let kept = stripes.iter().map(|stripe| stripe.kept.iter().map(|v| values[*v]).collect());
    Some(Solution { seconds, kept: kept.collect() })
}

impl<'a> Stripe<'a> {
    fn new(
        world: &'a World,
        job: &'a Job,
        destinations: &'a [NodeId],
        kinds: Kinds,
        program: &mut LinearProgram,
    ) -> Stripe<'a> {
        let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
        let count = job.code.helpers_for(&job.lost, &available).unwrap().len();
        let mut variables =
            |count: usize| (0..count).map(|_| program.variable(0.0)).collect::<Vec<usize>>();
        let holds = |node: &NodeId| job.survivors.iter().any(|(_, holder)| holder == node);
        let takes_part = |node: &NodeId| {
            let helps = |job: &Job| job.survivors.iter().any(|(_, holder)| holder == node);
            world.room[node.index()] > 0 || world.jobs.iter().any(helps)
        };
        let others = world.cluster.ids().filter(|node| takes_part(node) && !holds(node));
        let relays = others.filter(|_| kinds == Kinds::Relayed).map(|node| {
            let [received, near, far] = variables(3)[..] else { unreachable!("three") };
            Relay { node, received, near, far }
        });
        let relays = relays.collect();
        Stripe {
            world,
            job,
            count,
            destinations,
            kept: variables(destinations.len()),
            direct: variables(destinations.len()),
            sent: variables(job.survivors.len()),
            joined: variables(job.survivors.len()),
            relays,
            whole: variables(1)[0],
        }
    }

    fn add_trees(&self, program: &mut LinearProgram, ports: &mut Ports) {
        let others = self.count as f64 - 1.0;
        program.equals(self.kept.iter().map(|v| (*v, 1.0)).collect(), 1.0);
        for (place, node) in self.destinations.iter().enumerate() {
            let (kept, direct) = (self.kept[place], self.direct[place]);
            ports.down[node.index()].extend([(kept, 1.0), (direct, 1.0)]);
            ports.write[node.index()].push((kept, 1.0));
            program.at_most(vec![(direct, 1.0), (kept, -others)], 0.0);
        }
        for (place, (_, node)) in self.job.survivors.iter().enumerate() {
            let (sent, joined) = (self.sent[place], self.joined[place]);
            ports.up[node.index()].push((sent, 1.0));
            ports.read[node.index()].push((sent, 1.0));
            ports.down[node.index()].push((joined, 1.0));
            program.at_most(vec![(joined, 1.0), (sent, -others)], 0.0);
        }
        for relay in &self.relays {
            let (node, both) = (relay.node.index(), [(relay.near, 1.0), (relay.far, 1.0)]);
            ports.up[node].extend(both);
            ports.down[node].push((relay.received, 1.0));
            program.at_most(both.into_iter().chain([(self.whole, -1.0)]).collect(), 0.0);
            let sent = |times: f64| both.map(|(v, _)| (v, -times)).into_iter();
            let most = sent(self.count as f64).chain([(relay.received, 1.0)]);
            program.at_most(most.collect(), 0.0);
        }
        // A relay receives what it sends once more than helpers do.
        let relayed = self.relays.iter();
        let relayed = relayed
            .flat_map(|relay| [(relay.received, 1.0), (relay.near, -1.0), (relay.far, -1.0)]);
        let sums = self.joined.iter().chain(&self.direct).map(|v| (*v, 1.0));
        program.equals(sums.chain(relayed).chain([(self.whole, -others)]).collect(), 0.0);
        self.add_sets(program);
    }

    /// What sets of helpers send: any of as few as the code takes.
    fn add_sets(&self, program: &mut LinearProgram) {
        let Some(sets) = self.sets() else {
            for sent in &self.sent {
                program.at_most(vec![(*sent, 1.0), (self.whole, -1.0)], 0.0);
            }
            let sum = self.sent.iter().map(|v| (*v, 1.0));
            program.equals(sum.chain([(self.whole, -(self.count as f64))]).collect(), 0.0);
            return;
        };
        let shares: Vec<usize> = sets.iter().map(|_| program.variable(0.0)).collect();
        for (place, sent) in self.sent.iter().enumerate() {
            let of = sets.iter().zip(&shares).filter(|(set, _)| set.contains(&place));
            program.equals(of.map(|(_, v)| (*v, -1.0)).chain([(*sent, 1.0)]).collect(), 0.0);
        }
        let sum = shares.iter().map(|v| (*v, 1.0));
        program.equals(sum.chain([(self.whole, -1.0)]).collect(), 0.0);
    }

    /// The sets of helpers that rebuild the chunk; `None` where any of that size do.
    fn sets(&self) -> Option<Vec<Vec<usize>>> {
        let mut sets = subsets(self.job.survivors.len(), self.count);
        let all = sets.len();
        sets.retain(|set| {
            let chunks: Vec<ChunkIndex> = set.iter().map(|at| self.job.survivors[*at].0).collect();
            self.job.code.repair_dag(&self.job.lost, &chunks).is_ok()
        });
        (sets.len() < all).then_some(sets)
    }

    fn rack(&self, node: NodeId) -> usize {
        self.world.cluster.node(node).rack.expect("every node has a rack").0 as usize
    }

    /// What leaves and enters racks.
    fn add_racks(&self, program: &mut LinearProgram, ports: &mut Ports) {
        program.equals(vec![(self.whole, 1.0)], 1.0);
        let racks = self.world.cluster.racks.len();
        let of: Vec<usize> = self.job.survivors.iter().map(|(_, node)| self.rack(*node)).collect();
        let mut crossing = Crossing::new(racks, program);
        for (node, kept) in self.destinations.iter().zip(&self.kept) {
            crossing.homes[self.rack(*node)].push((*kept, -1.0));
        }
        let mut sums: Vec<Row> = self.sent.iter().map(|v| vec![(*v, -1.0)]).collect();
        for (together, sets) in self.rack_sets(racks, &of) {
            let share = crossing.add_columns(&together, program);
            let mut all = vec![(share, -(self.count as f64))];
            let sent = |at: usize, sums: &mut Vec<Row>, program: &mut LinearProgram| {
                let sent = program.variable(0.0);
                sums[at].push((sent, 1.0));
                program.at_most(vec![(sent, 1.0), (share, -1.0)], 0.0);
                sent
            };
            let helpers = (0..of.len()).filter(|at| together.contains(&of[*at]));
            let helpers: Vec<(usize, usize)> =
                helpers.map(|at| (at, sent(at, &mut sums, program))).collect();
            all.extend(helpers.iter().map(|(_, sent)| (*sent, 1.0)));
            program.equals(all, 0.0);
            if let Some(sets) = sets {
                let shares: Vec<usize> = sets.iter().map(|_| program.variable(0.0)).collect();
                let sum = shares.iter().map(|v| (*v, 1.0));
                program.equals(sum.chain([(share, -1.0)]).collect(), 0.0);
                for (at, sent) in helpers {
                    let of = sets.iter().zip(&shares).filter(|(set, _)| set.contains(&at));
                    let row = of.map(|(_, v)| (*v, -1.0)).chain([(sent, 1.0)]);
                    program.equals(row.collect(), 0.0);
                }
            }
        }
        sums.into_iter().for_each(|row| program.equals(row, 0.0));
        for rack in 0..racks {
            let (leaves, arrives) = (crossing.leaves[rack], crossing.arrives[rack]);
            ports.rack_up[rack].push((leaves, 1.0));
            ports.rack_down[rack].push((arrives, 1.0));
            // What is received in a rack is what its helpers send within, and what arrives.
            let mut row = vec![(leaves, -1.0), (arrives, 1.0)];
            for at in (0..of.len()).filter(|at| of[*at] == rack) {
                row.extend([(self.sent[at], 1.0), (self.joined[at], -1.0)]);
            }
            for (place, node) in self.destinations.iter().enumerate() {
                if self.rack(*node) == rack {
                    row.extend([(self.kept[place], -1.0), (self.direct[place], -1.0)]);
                }
            }
            for relay in self.relays.iter().filter(|relay| self.rack(relay.node) == rack) {
                row.extend([(relay.near, 1.0), (relay.far, 1.0), (relay.received, -1.0)]);
            }
            program.equals(row, 0.0);
        }
        self.add_relays(&mut crossing, program);
        crossing.finish(program);
    }

    /// What leaves and enters racks because of relays: their own sums too where no other node is.
    fn add_relays(&self, crossing: &mut Crossing, program: &mut LinearProgram) {
        for relay in &self.relays {
            let rack = self.rack(relay.node);
            let near = crossing.taking_part[rack].iter().map(|v| (*v, -1.0));
            program.at_most(near.chain([(relay.near, 1.0)]).collect(), 0.0);
            let mut leaves = crossing.must_leave[rack].clone();
            leaves.push((relay.far, 1.0));
            crossing.relayed.push(leaves);
            crossing.may_arrive[rack].extend([(relay.received, -1.0)]);
        }
    }

    /// Sets of racks that may help together, all of them, and the sets of helpers in just these;
    /// `None` where any `count` helpers there will do.
    fn rack_sets(&self, racks: usize, of: &[usize]) -> Vec<(Vec<usize>, Option<HelperSets>)> {
        let all = self.sets();
        let sets = (1..1usize << racks).map(|set| {
            let together: Vec<usize> = (0..racks).filter(|rack| set >> rack & 1 == 1).collect();
            let are_used = |helpers: &[usize]| {
                together.iter().all(|rack| helpers.iter().any(|at| of[*at] == *rack))
            };
            let inside: Vec<usize> =
                (0..of.len()).filter(|at| together.contains(&of[*at])).collect();
            let just = all.as_ref().map(|all| {
                let is_just =
                    |set: &&Vec<usize>| set.iter().all(|at| inside.contains(at)) && are_used(set);
                all.iter().filter(is_just).cloned().collect::<Vec<_>>()
            });
            let serves = match &just {
                Some(sets) => !sets.is_empty(),
                None => inside.len() >= self.count && are_used(&inside),
            };
            serves.then_some((together, just))
        });
        sets.flatten().collect()
    }

    /// Shares of the schemes, each decoded at a helper or at a destination.
    fn add_traces(&self, program: &mut LinearProgram, ports: &mut Ports) {
        let mut all = vec![(self.whole, 1.0)];
        let mut decoded: Vec<Row> = self.kept.iter().map(|v| vec![(*v, -1.0)]).collect();
        for scheme in self.job.code.schemes().iter().filter(|s| s.lost() == self.job.lost[0]) {
            let ranks = scheme.ranks(self.job.code.chunk_count());
            let holder = |chunk: &ChunkIndex| {
                let found = self.job.survivors.iter().find(|(held, _)| held == chunk);
                found.expect("all survivors are there").1.index()
            };
            let ranks: Vec<(usize, f64)> = ranks
                .iter()
                .filter(|(_, rank)| *rank > 0)
                .map(|(chunk, rank)| (holder(chunk), *rank as f64 / 8.0))
                .collect();
            let total: f64 = ranks.iter().map(|(_, sent)| sent).sum();
            for &(at, own) in &ranks {
                let share = program.variable(0.0);
                all.push((share, 1.0));
                for &(node, sent) in &ranks {
                    ports.up[node].push((share, if node == at { 1.0 } else { sent }));
                    ports.read[node].push((share, 1.0));
                }
                ports.down[at].push((share, total - own));
            }
            for (place, destination) in self.destinations.iter().enumerate() {
                let share = program.variable(0.0);
                all.push((share, 1.0));
                for &(node, sent) in &ranks {
                    ports.up[node].push((share, sent));
                    ports.read[node].push((share, 1.0));
                }
                ports.down[destination.index()].push((share, total - 1.0));
                decoded[place].push((share, 1.0));
            }
        }
        program.equals(all, 1.0);
        for (place, mut row) in decoded.into_iter().enumerate() {
            let others = self.count as f64 - 1.0;
            if others > 0.0 {
                row.push((self.direct[place], 1.0 / others));
            }
            program.at_most(row, 0.0);
        }
    }
}

/// What one stripe brings to the links of racks.
struct Crossing {
    leaves: Vec<usize>,
    arrives: Vec<usize>,
    /// What leaves or arrives at least, and what arrives at most.
    must_leave: Vec<Row>,
    must_arrive: Vec<Row>,
    may_arrive: Vec<Row>,
    /// What leaves at least where a relay is alone in its rack.
    relayed: Vec<Row>,
    /// The share of each rack as a destination.
    homes: Vec<Row>,
    /// The columns in which each rack helps or keeps the chunk.
    taking_part: Vec<Vec<usize>>,
}

impl Crossing {
    fn new(racks: usize, program: &mut LinearProgram) -> Crossing {
        let mut variables = || (0..racks).map(|_| program.variable(0.0)).collect::<Vec<usize>>();
        let (leaves, arrives) = (variables(), variables());
        Crossing {
            must_leave: leaves.iter().map(|v| vec![(*v, -1.0)]).collect(),
            must_arrive: arrives.iter().map(|v| vec![(*v, -1.0)]).collect(),
            may_arrive: arrives.iter().map(|v| vec![(*v, 1.0)]).collect(),
            relayed: Vec::new(),
            homes: vec![Row::new(); racks],
            taking_part: vec![Vec::new(); racks],
            leaves,
            arrives,
        }
    }

    /// The share in which these racks help together, into any rack.
    fn add_columns(&mut self, together: &[usize], program: &mut LinearProgram) -> usize {
        let share = program.variable(0.0);
        let mut by_home = vec![(share, -1.0)];
        for home in 0..self.homes.len() {
            let column = program.variable(0.0);
            by_home.push((column, 1.0));
            self.homes[home].push((column, 1.0));
            let others = || together.iter().filter(|rack| **rack != home);
            others().for_each(|rack| self.must_leave[*rack].push((column, 1.0)));
            others().chain([&home]).for_each(|rack| self.taking_part[*rack].push(column));
            if others().count() == 0 {
                continue;
            }
            self.must_arrive[home].push((column, 1.0));
            // Sums of other racks come together at the destination's rack or at one that helps.
            let most = together.len() as f64;
            for rack in others().copied().chain([home]) {
                self.may_arrive[rack].push((column, -most));
            }
        }
        program.equals(by_home, 0.0);
        share
    }

    fn finish(self, program: &mut LinearProgram) {
        let rows = self.must_leave.into_iter().chain(self.must_arrive).chain(self.may_arrive);
        let rows = rows.chain(self.relayed);
        rows.for_each(|row| program.at_most(row, 0.0));
        self.homes.into_iter().for_each(|row| program.equals(row, 0.0));
        let leaves = self.leaves.iter().map(|v| (*v, 1.0));
        program.equals(leaves.chain(self.arrives.iter().map(|v| (*v, -1.0))).collect(), 0.0);
    }
}

/// All sets of `size` numbers below `end`.
fn subsets(end: usize, size: usize) -> Vec<Vec<usize>> {
    let sets = (0..1usize << end).filter(|set| set.count_ones() as usize == size);
    sets.map(|set| (0..end).filter(|at| set >> at & 1 == 1).collect()).collect()
}
