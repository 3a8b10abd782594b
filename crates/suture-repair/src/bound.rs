//! How fast a batch of repairs could be at best, whatever plans are made: the k-chunk lower bound.
//!
//! Place: beside `[plan]`; printed next to every result, so that a figure says how much is left.
//! For RS a stripe needs k chunks from its survivors; for codes with a cheaper repair it is what
//! their helpers send at least (`need.rs`): a local group, or parts of all others. Losses of one
//! stripe are read once: l of them cost one set of helpers and l - 1 forwards of finished chunks.
//! Where the cheapest repair of a chunk names its helpers, each count takes the lesser of that and
//! of what any others take without one of them (`around.rs`).
//!
//! Seven counts, of which the greatest is the bound:
//! * *helpers*: for any set of nodes, what the others cannot send of a stripe, at most a chunk
//!   each, leaves the set, and is read there. The worst set is exact, a parametric flow
//!   (`max_flow.rs`);
//! * *all links*: everything sent is received, forwards included;
//! * *destinations*: each rebuilt chunk is received and written by one node that may keep it;
//! * *racks* (`bound/rack.rs`): what must cross between racks even if each sends only sums;
//! * *crossing* (`bound/crossing.rs`): the same with all other ports, by prices;
//!   several losses of a stripe by what crosses whatever is formed (`bound/several.rs`), or of
//!   local codes by the lanes that plans may have (`bound/crossing/lanes.rs`);
//! * *gathered* (`bound/gathered.rs`): the same for codes with sub-chunks;
//! * *prices* (`bound/price.rs`), where chunks may be rebuilt around their helpers or by any of
//!   their parity checks, or processors count: of links, disks and processors of nodes, as if racks
//!   had none.
//!
//! Invariant: never more than what the busiest port of any valid plans of the same jobs needs, as
//! long as these send whole chunks or what the code asks for, use only nodes that hold a survivor
//! of some job or accept chunks, and let no rack keep more chunks of a stripe than the code can
//! lose where other racks have space (`keep.rs`). Foreground traffic is taken off capacities;
//! running repairs are not considered. Traces, which send parts of symbols, may go below it; they
//! are below no bound by prices (`own.rs`).

mod around;
mod border;
mod crossing;
mod gathered;
mod own;
mod price;
mod rack;
mod search;
mod several;
mod whole;

use std::collections::BTreeMap;

use suture_code::ChunkIndex;

pub use own::own_bound_seconds;

use around::BoundNeed;

use crate::id::{NodeId, RackId};
use crate::max_flow::{Rounding, Supply, Transport, seconds_to_ship};
use crate::need::{Needs, Part, next_combination};
use crate::planner::ports::Ports;
use crate::planner::{Job, View, batch_bytes, full_racks};

/// Units of the longest chunk: what the flows count in.
const CHUNK_UNITS: u64 = 1 << 20;

/// Up to so many pairs of a lost chunk and a node that may keep it, destinations are a flow of
/// their own. On larger clusters nearly every node may keep nearly every chunk, and only sums
/// count.
const PAIRS_MAX: usize = 1 << 18;

/// Up to so many pairs of a stripe and a node, stripes are priced in racks: each takes a few bytes.
const PRICED_PAIRS_MAX: usize = 1 << 22;

/// The k-chunk lower bound of the jobs that can be repaired, in seconds.
pub fn bound_seconds(jobs: &[Job], view: &View<'_>) -> f64 {
    with_batch(jobs, view, |batch| {
        let counted = batch
            .helper_seconds()
            .max(batch.total_seconds())
            .max(batch.destination_seconds())
            .max(rack::seconds(batch));
        let counted = counted.max(crossing::seconds(batch, counted));
        let counted = counted.max(gathered::seconds(batch, counted));
        if batch.has_choices() || batch.ports.have_processors() {
            counted.max(price::chunk_seconds(batch))
        } else {
            counted
        }
    })
}

/// The jobs that can be repaired, with what they need, and the ports that all bounds count with.
#[derive(Clone, Copy)]
struct BatchDemands<'a> {
    demands: &'a [Demand<'a>],
    /// Bytes that all jobs keep, those that cannot be repaired included.
    bytes: u64,
    view: &'a View<'a>,
    ports: &'a Ports,
}

/// What `ask` returns for the jobs that can be repaired.
fn with_batch<T>(jobs: &[Job], view: &View<'_>, ask: impl FnOnce(BatchDemands<'_>) -> T) -> T {
    let mut needs = Needs::of_bound();
    let mut known: BTreeMap<usize, BoundNeed> = BTreeMap::new();
    let named = jobs.iter().filter_map(|job| {
        let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
        let name = needs.find(job.code, &job.lost, available.iter().copied())?;
        let need = needs.get(name).clone();
        let new = || BoundNeed::new(job.code, need, &available, &mut needs);
        known.entry(name).or_insert_with(new);
        Some((job, name))
    });
    let named: Vec<(&Job, usize)> = named.collect();
    let bytes = batch_bytes(jobs);
    let demand = |(job, name)| {
        let full = full_racks(job, view, bytes);
        Demand { job, name, needs: &known[&name], full }
    };
    let demands: Vec<Demand<'_>> = named.into_iter().map(demand).collect();
    ask(BatchDemands { demands: &demands, bytes, view, ports: &Ports::new(view) })
}

/// A job and what it needs at least.
struct Demand<'a> {
    job: &'a Job,
    /// Jobs of one name need the same of the same chunks.
    name: usize,
    needs: &'a BoundNeed,
    /// Racks that keep none of the lost chunks.
    full: Vec<RackId>,
}

impl Demand<'_> {
    /// Bytes of so many sub-chunks.
    fn bytes(&self, sub_chunks: u64) -> f64 {
        let alpha = f64::from(self.job.code.sub_chunk_count());
        sub_chunks as f64 * self.job.chunk_bytes as f64 / alpha
    }

    /// What is sent in all.
    fn moved_bytes(&self) -> f64 {
        let helpers: u64 = self.parts().map(Part::sent).sum();
        let forwards: usize = self.parts().map(Part::forwards).sum();
        self.bytes(helpers) + forwards as f64 * self.job.chunk_bytes as f64
    }

    /// What it needs at least, if each part is rebuilt from as little as can be.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.needs.need.parts.iter()
    }

    fn holder(&self, chunk: ChunkIndex) -> NodeId {
        let found = self.job.survivors.iter().find(|(held, _)| *held == chunk);
        found.expect("only survivors are asked for help").1
    }

    /// Whether `node` may keep a rebuilt chunk.
    fn may_keep(&self, node: NodeId, view: &View<'_>) -> bool {
        let is_full = |rack: RackId| self.full.contains(&rack);
        self.job.may_be_kept_by(node, view)
            && (self.full.is_empty() || !view.cluster.node(node).rack.is_some_and(is_full))
    }
}

/// What helpers do: send, and read from their disks.
#[derive(Clone, Copy)]
enum Side {
    Sent,
    Read,
    /// Both at once, where they are the same for every helper.
    Both,
}

impl Side {
    fn rate(self, ports: &Ports, NodeId(node): NodeId) -> f64 {
        let (up, read) = (ports.rate(ports.up(node)), ports.rate(ports.read(node)));
        match self {
            Side::Sent => up,
            Side::Read => read,
            Side::Both => up.min(read),
        }
    }

    fn forced(self, sender: &crate::need::Sender) -> u64 {
        u64::from(if let Side::Read = self { sender.read } else { sender.sent })
    }

    fn free(self, part: &Part) -> u64 {
        u64::from(if let Side::Read = self { part.free_read } else { part.free_sent })
    }
}

impl BatchDemands<'_> {
    /// Whether something may be rebuilt from more than the least, around its helpers, or parity
    /// checks say which as few do.
    fn has_choices(self) -> bool {
        let has_checks = |part: &Part| !part.checks.is_empty();
        let has_choice =
            |(part, around): (&Part, Option<&Part>)| around.is_some() || has_checks(part);
        self.demands.iter().any(|demand| demand.needs.parts().any(has_choice))
    }

    /// The worst set of helpers, by links and by disks.
    fn helper_seconds(self) -> f64 {
        let mut parts = self.demands.iter().flat_map(Demand::parts);
        let reads_more = |part: &Part| part.forced.iter().any(|sender| sender.read != sender.sent);
        if parts.any(reads_more) {
            [Side::Sent, Side::Read]
                .map(|side| self.worst_set_seconds(side))
                .into_iter()
                .fold(0.0, f64::max)
        } else {
            self.worst_set_seconds(Side::Both)
        }
    }

    fn worst_set_seconds(self, side: Side) -> f64 {
        let unit = self.unit_bytes();
        let supply = |node| Supply::of_rate(side.rate(self.ports, node) / unit);
        let mut transport = Transport::new(self.view.cluster.ids().map(supply).collect());
        for demand in self.demands {
            let units = |sub_chunks: u64| (demand.bytes(sub_chunks) / unit).round() as u32;
            for part in demand.parts() {
                for sender in &part.forced {
                    let limit = units(side.forced(sender));
                    let only = transport.add(limit, [demand.holder(sender.chunk).0]);
                    transport.ship_greedily(only, 1, limit);
                }
                if part.count > 0 {
                    let limit = units(side.free(part));
                    let holders = part.free.iter().map(|chunk| demand.holder(*chunk).0);
                    let shared = transport.add(limit, holders);
                    transport.ship_greedily(shared, part.count, limit);
                }
            }
        }
        let worst = transport.balance(Rounding::Up, 1);
        // The flow counts in units; the set that it found gives the bound in bytes.
        let mut is_in = vec![false; self.view.cluster.nodes.len()];
        worst.nodes.iter().for_each(|&node| is_in[node as usize] = true);
        let rate = self.view.cluster.ids().filter(|node| is_in[node.index()]);
        ratio(
            self.demands.iter().map(|demand| bytes_left_to(&is_in, demand, side)).sum(),
            rate.map(|node| side.rate(self.ports, node)).sum(),
        )
    }

    /// Everything that is sent, over all links that can send or receive it.
    fn total_seconds(self) -> f64 {
        let BatchDemands { demands, view, ports, .. } = self;
        let takes_part = takes_part(demands, view);
        let nodes = view.cluster.ids().filter(|node| takes_part[node.index()]);
        let (up, down): (Vec<f64>, Vec<f64>) = nodes
            .map(|NodeId(node)| (ports.rate(ports.up(node)), ports.rate(ports.down(node))))
            .unzip();
        let moved = demands.iter().map(Demand::moved_bytes).sum();
        ratio(moved, up.iter().sum()).max(ratio(moved, down.iter().sum()))
    }

    /// Every rebuilt chunk, received and written by a node that may keep it.
    fn destination_seconds(self) -> f64 {
        let BatchDemands { demands, view, .. } = self;
        let fastest = self.fastest(|node| self.keeping(node));
        let alone = |demand: &Demand<'_>| {
            // The slowest of its destinations, if they are the fastest that may keep a chunk.
            let mut free = fastest.iter().filter(|node| demand.may_keep(**node, view));
            let slowest = free.nth(demand.job.lost.len() - 1);
            slowest.map_or(0.0, |node| ratio(demand.job.chunk_bytes as f64, self.keeping(*node)))
        };
        let alone = demands.iter().map(alone).fold(0.0, f64::max);

        let unit = self.unit_bytes();
        let supplies = |nodes: &mut dyn Iterator<Item = NodeId>| -> Vec<Supply> {
            nodes.map(|node| Supply::of_rate(self.keeping(node) / unit)).collect()
        };
        let kept: usize = demands.iter().map(|demand| demand.job.lost.len()).sum();
        if kept * fastest.len() > PAIRS_MAX {
            let bytes =
                |demand: &Demand<'_>| demand.job.lost.len() as f64 * demand.job.chunk_bytes as f64;
            let units = demands.iter().map(bytes).sum::<f64>() / unit;
            return alone.max(seconds_to_ship(&supplies(&mut fastest.into_iter()), units));
        }
        let mut transport = Transport::new(supplies(&mut view.cluster.ids()));
        for demand in demands {
            let limit = (demand.job.chunk_bytes as f64 / unit).floor() as u32;
            let free = fastest.iter().filter(|node| demand.may_keep(**node, view));
            let free: Vec<u32> = free.map(|node| node.0).collect();
            let count = demand.job.lost.len().min(free.len());
            let destinations = transport.add(limit, free);
            transport.ship_greedily(destinations, count, limit);
        }
        // A chunk is kept by one node: with chunks of one length, whole ones are exact.
        let equal =
            demands.iter().all(|demand| demand.job.chunk_bytes as f64 >= unit * CHUNK_UNITS as f64);
        let rounding = if equal { Rounding::Down(CHUNK_UNITS as u32) } else { Rounding::Up };
        alone.max(transport.balance(rounding, 1).seconds)
    }

    /// Nodes that accept chunks, the one with the greatest rate first.
    fn fastest(self, rate: impl Fn(NodeId) -> f64) -> Vec<NodeId> {
        let accepts = |node: &NodeId| self.view.accepts(*node);
        let mut fastest: Vec<NodeId> = self.view.cluster.ids().filter(accepts).collect();
        fastest.sort_by(|a, b| rate(*b).total_cmp(&rate(*a)));
        fastest
    }

    /// How fast a node receives and writes, in bytes per second.
    fn keeping(self, NodeId(node): NodeId) -> f64 {
        let ports = self.ports;
        ports.rate(ports.down(node)).min(ports.rate(ports.write(node)))
    }

    /// Bytes of a unit: so many that the longest chunk has [`CHUNK_UNITS`].
    fn unit_bytes(self) -> f64 {
        let longest = self.demands.iter().map(|demand| demand.job.chunk_bytes).max();
        longest.unwrap_or(1).max(1) as f64 / CHUNK_UNITS as f64
    }
}

/// What the nodes of a set have to send or read of a stripe when all others do what they can.
fn bytes_left_to(is_in: &[bool], demand: &Demand<'_>, side: Side) -> f64 {
    let holds = |chunk: ChunkIndex| is_in[demand.holder(chunk).index()];
    let of_part = |part: &Part| {
        let forced = part.forced.iter().filter(|sender| holds(sender.chunk));
        let forced: u64 = forced.map(|sender| side.forced(sender)).sum();
        let outside = part.free.iter().filter(|chunk| !holds(**chunk)).count();
        let least = part.count.saturating_sub(outside);
        let least = if part.any { least } else { asked_of(is_in, demand, part, least) };
        forced + least as u64 * side.free(part)
    };
    let least = |(part, around): (&Part, Option<&Part>)| {
        around.map_or(u64::MAX, of_part).min(of_part(part))
    };
    demand.bytes(demand.needs.parts().map(least).sum())
}

/// Sets of helpers that a code is asked about for one stripe.
const ASKED_MAX: usize = 64;

/// How many helpers there must be in a set of nodes where not any of the free ones will do; at
/// least so many.
fn asked_of(is_in: &[bool], demand: &Demand<'_>, part: &Part, least: usize) -> usize {
    let is_inside = |chunk: &ChunkIndex| is_in[demand.holder(*chunk).index()];
    let (inside, outside): (Vec<ChunkIndex>, Vec<ChunkIndex>) =
        part.free.iter().copied().partition(is_inside);
    let forced = part.forced.iter().map(|sender| sender.chunk);
    let outside: Vec<ChunkIndex> = forced.chain(outside).collect();
    let mut asked = 0;
    for count in least..inside.len() {
        let mut chosen: Vec<usize> = (0..count).collect();
        loop {
            let helpers = outside.iter().copied().chain(chosen.iter().map(|at| inside[*at]));
            let helpers: Vec<ChunkIndex> = helpers.collect();
            asked += 1;
            if asked > ASKED_MAX || demand.job.code.helpers_for(&part.lost, &helpers).is_ok() {
                return count;
            }
            if !next_combination(&mut chosen, inside.len()) {
                break;
            }
        }
    }
    inside.len().max(least)
}

/// For each node, whether it holds a survivor of some job or accepts chunks.
fn takes_part(demands: &[Demand<'_>], view: &View<'_>) -> Vec<bool> {
    let mut takes_part: Vec<bool> = view.free_bytes.iter().map(|free| *free > 0).collect();
    for (_, node) in demands.iter().flat_map(|demand| &demand.job.survivors) {
        takes_part[node.index()] = true;
    }
    takes_part
}

/// No bytes need no time, even over no link.
fn ratio(bytes: f64, rate: f64) -> f64 {
    if bytes > 0.0 { bytes / rate } else { 0.0 }
}
