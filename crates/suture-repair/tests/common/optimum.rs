//! The optimum of whole-chunk plans by linear programs with integral destinations: an oracle that
//! shares no line with planners and bounds.
//!
//! A stripe's plan is any number of trees over ranges of its chunk, into one destination. In parts
//! of a chunk: a helper sends `u` and reads as much, none more than its chunk; it receives no more
//! than what its part can add up; the destination receives the chunk and whatever else of the sums.
//! Where racks have links, every set of racks that may help together is a column; each of them sends
//! at least one sum, and each sum that leaves a rack arrives at another.
//!
//! One lost chunk a stripe, and codes without sub-chunks.

use suture_repair::id::{ChunkIndex, NodeId};
use suture_repair::planner::Job;

use super::World;
use super::lp::{LinearProgram, Row};

/// Programs that are solved before a question is given up.
const PROGRAMS_MAX: usize = 300;

/// Slower than anything that was asked for.
const EPSILON: f64 = 1e-6;

/// What may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    Chunks,
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
        // The stripe whose chunk is spread over most nodes, and where most of it is.
        let largest = |kept: &Vec<f64>| {
            let places = kept.iter().copied().enumerate();
            places.max_by(|a, b| a.1.total_cmp(&b.1)).expect("someone keeps it")
        };
        let spread = solution.kept.iter().map(largest).enumerate();
        let (stripe, (place, part)) =
            spread.min_by(|a, b| a.1.1.total_cmp(&b.1.1)).expect("there is a job");
        if part > 1.0 - 1e-4 {
            return Answer::Yes(solution.seconds);
        }
        let (mut without, mut only) = (allowed.clone(), allowed);
        let node = without[stripe].remove(place);
        only[stripe] = vec![node];
        open.extend([without, only]);
    }
    Answer::Open
}

/// Nodes that may keep the chunk: nothing of the stripe, room, and a rack that may be lost.
fn destinations(world: &World, job: &Job) -> Vec<NodeId> {
    let cluster = &world.cluster;
    let is_free = |node: &NodeId| world.room[node.index()] > 0 && !job.excluded.contains(node);
    let free: Vec<NodeId> = cluster.ids().filter(is_free).collect();
    let tolerance = job.code.chunk_count() - job.code.data_chunks();
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

/// The rows of ports, in chunks.
struct Ports {
    up: Vec<Row>,
    down: Vec<Row>,
    read: Vec<Row>,
    write: Vec<Row>,
    rack_up: Vec<Row>,
    rack_down: Vec<Row>,
}

/// The variables of one stripe.
struct Stripe<'a> {
    world: &'a World,
    job: &'a Job,
    /// How many help.
    count: usize,
    keepers: &'a [NodeId],
    kept: Vec<usize>,
    direct: Vec<usize>,
    sent: Vec<usize>,
    joined: Vec<usize>,
    /// The share of whole-chunk trees; the rest is traces.
    whole: usize,
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
    for (job, keepers) in world.jobs.iter().zip(allowed) {
        let stripe = Stripe::new(world, job, keepers, &mut program);
        for (node, kept) in keepers.iter().zip(&stripe.kept) {
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
        keepers: &'a [NodeId],
        program: &mut LinearProgram,
    ) -> Stripe<'a> {
        let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
        let count = job.code.helpers_for(&job.lost, &available).unwrap().len();
        let mut variables = |count: usize| (0..count).map(|_| program.variable(0.0)).collect();
        Stripe {
            world,
            job,
            count,
            keepers,
            kept: variables(keepers.len()),
            direct: variables(keepers.len()),
            sent: variables(job.survivors.len()),
            joined: variables(job.survivors.len()),
            whole: variables(1)[0],
        }
    }

    fn add_trees(&self, program: &mut LinearProgram, ports: &mut Ports) {
        let others = self.count as f64 - 1.0;
        program.equals(self.kept.iter().map(|v| (*v, 1.0)).collect(), 1.0);
        for (place, node) in self.keepers.iter().enumerate() {
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
        let sums = self.joined.iter().chain(&self.direct).map(|v| (*v, 1.0));
        program.equals(sums.chain([(self.whole, -others)]).collect(), 0.0);
        self.add_sets(program);
    }

    /// What sets of helpers send: any of as few as the code takes.
    fn add_sets(&self, program: &mut LinearProgram) {
        let sets = subsets(self.job.survivors.len(), self.count);
        let serves = |set: &Vec<usize>| {
            let chunks: Vec<ChunkIndex> = set.iter().map(|at| self.job.survivors[*at].0).collect();
            self.job.code.repair_dag(&self.job.lost, &chunks).is_ok()
        };
        let good: Vec<&Vec<usize>> = sets.iter().filter(|set| serves(set)).collect();
        if good.len() == sets.len() {
            for sent in &self.sent {
                program.at_most(vec![(*sent, 1.0), (self.whole, -1.0)], 0.0);
            }
            let sum = self.sent.iter().map(|v| (*v, 1.0));
            program.equals(sum.chain([(self.whole, -(self.count as f64))]).collect(), 0.0);
            return;
        }
        let shares: Vec<usize> = good.iter().map(|_| program.variable(0.0)).collect();
        for (place, sent) in self.sent.iter().enumerate() {
            let of = good.iter().zip(&shares).filter(|(set, _)| set.contains(&place));
            program.equals(of.map(|(_, v)| (*v, -1.0)).chain([(*sent, 1.0)]).collect(), 0.0);
        }
        let sum = shares.iter().map(|v| (*v, 1.0));
        program.equals(sum.chain([(self.whole, -1.0)]).collect(), 0.0);
    }

    fn rack(&self, node: NodeId) -> usize {
        self.world.cluster.node(node).rack.expect("every node has a rack").0 as usize
    }

    /// What leaves and enters racks, for a code of which any `count` chunks will do.
    fn add_racks(&self, program: &mut LinearProgram, ports: &mut Ports) {
        program.equals(vec![(self.whole, 1.0)], 1.0);
        let racks = self.world.cluster.racks.len();
        let of: Vec<usize> = self.job.survivors.iter().map(|(_, node)| self.rack(*node)).collect();
        let leaves: Vec<usize> = (0..racks).map(|_| program.variable(0.0)).collect();
        let arrives: Vec<usize> = (0..racks).map(|_| program.variable(0.0)).collect();
        // What must leave or arrive, and the share of each rack as a destination.
        let mut must_leave: Vec<Row> = leaves.iter().map(|v| vec![(*v, -1.0)]).collect();
        let mut must_arrive: Vec<Row> = arrives.iter().map(|v| vec![(*v, -1.0)]).collect();
        let mut homes: Vec<Row> = vec![Row::new(); racks];
        for (node, kept) in self.keepers.iter().zip(&self.kept) {
            homes[self.rack(*node)].push((*kept, -1.0));
        }
        let mut sums: Vec<Row> = self.sent.iter().map(|v| vec![(*v, -1.0)]).collect();
        for set in 0..1usize << racks {
            let is_in = |rack: usize| set >> rack & 1 == 1;
            let helpers: Vec<usize> = (0..of.len()).filter(|at| is_in(of[*at])).collect();
            let is_used = |rack: usize| helpers.iter().any(|at| of[*at] == rack);
            if helpers.len() < self.count || (0..racks).any(|rack| is_in(rack) && !is_used(rack)) {
                continue;
            }
            let share = program.variable(0.0);
            let mut by_home = vec![(share, -1.0)];
            for home in 0..racks {
                let column = program.variable(0.0);
                by_home.push((column, 1.0));
                homes[home].push((column, 1.0));
                let others: Vec<usize> = (0..racks).filter(|r| is_in(*r) && *r != home).collect();
                others.iter().for_each(|rack| must_leave[*rack].push((column, 1.0)));
                if !others.is_empty() {
                    must_arrive[home].push((column, 1.0));
                }
            }
            program.equals(by_home, 0.0);
            let mut all = vec![(share, -(self.count as f64))];
            for at in helpers {
                let sent = program.variable(0.0);
                sums[at].push((sent, 1.0));
                all.push((sent, 1.0));
                program.at_most(vec![(sent, 1.0), (share, -1.0)], 0.0);
            }
            program.equals(all, 0.0);
        }
        let rows = must_leave.into_iter().chain(must_arrive);
        rows.for_each(|row| program.at_most(row, 0.0));
        homes.into_iter().chain(sums).for_each(|row| program.equals(row, 0.0));
        let crossing = leaves.iter().map(|v| (*v, 1.0)).chain(arrives.iter().map(|v| (*v, -1.0)));
        program.equals(crossing.collect(), 0.0);
        for rack in 0..racks {
            ports.rack_up[rack].push((leaves[rack], 1.0));
            ports.rack_down[rack].push((arrives[rack], 1.0));
            // What is received in a rack is what its helpers send within, and what arrives.
            let mut row = vec![(leaves[rack], -1.0), (arrives[rack], 1.0)];
            for at in (0..of.len()).filter(|at| of[*at] == rack) {
                row.extend([(self.sent[at], 1.0), (self.joined[at], -1.0)]);
            }
            for (place, node) in self.keepers.iter().enumerate() {
                if self.rack(*node) == rack {
                    row.extend([(self.kept[place], -1.0), (self.direct[place], -1.0)]);
                }
            }
            program.equals(row, 0.0);
        }
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
            for (place, keeper) in self.keepers.iter().enumerate() {
                let share = program.variable(0.0);
                all.push((share, 1.0));
                for &(node, sent) in &ranks {
                    ports.up[node].push((share, sent));
                    ports.read[node].push((share, 1.0));
                }
                ports.down[keeper.index()].push((share, total - 1.0));
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

/// All sets of `size` numbers below `end`.
fn subsets(end: usize, size: usize) -> Vec<Vec<usize>> {
    let sets = (0..1usize << end).filter(|set| set.count_ones() as usize == size);
    sets.map(|set| (0..end).filter(|at| set >> at & 1 == 1).collect()).collect()
}
