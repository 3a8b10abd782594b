//! Split: one chunk over many trees at once, as fast as any trees can be.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A single tree is as fast as its slowest link. Cut the chunk into ranges, give each a tree of its
//! own, and every link works all the time. With U_i and D_i what helper i can send and receive
//! within some time, in chunks, that time suffices for k helpers if and only if
//!
//! 1. the sum of min(U_i, 1) is at least k: enough is sent, by none more than its chunk;
//! 2. the destination can receive a chunk;
//! 3. the sum of min(D_i / (k - 1), U_i, 1) over helpers, and of min((D - 1) / (k - 1), 1) for the
//!    destination, is at least 1: each range comes together somewhere. A helper that relays a range
//!    receives it k - 1 times and sends it once; the destination receives it k times.
//!
//! They are also sufficient: give every relay r a range of its share, and let the other helpers
//! fill the ranges up to what they send, a small flow that always exists (Hall's theorem); the
//! wrap-around of `join.rs` then cuts each range into pieces of k - 1 distinct helpers besides r.
//! All trees have depth two. Where one tree is as fast, one tree it is.
//!
//! A node without a chunk of the stripe may relay as well: min(D_i / k, U_i, 1) in the third sum.
//! It adds its own message to what is moved, and one more node that may fail; so it takes what is
//! left to relay, and only where the chunk is rebuilt sooner by more than a per cent. Before a
//! helper that hardly receives anything it comes even so: what waits for such a link holds up the
//! grants for all that this helper sends.
//!
//! Amounts are rounded down to grains of a thousandth of the chunk, so that no lane is tiny.

use crate::id::{ChunkIndex, NodeId};
use crate::max_flow::{Rounding, Supply, Transport};
use crate::need::Part;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range};
use crate::planner::exact::instance::{ExactRequest, Instance};
use crate::planner::exact::join::{tree, wrap_around};

/// Grains of a chunk: what rounding to them loses is far below a per cent.
const GRAINS_MAX: u32 = 1024;

/// The least bytes of a grain.
const GRAIN_BYTES_MIN: u64 = 1024;

/// A single tree that is slower than many by no more than this is better: it has one lane.
const TREE_GAP_MAX: f64 = 0.002;

/// Where nodes without a chunk gain no more than that, they do not relay; and so many may.
const RELAYED_GAP_MAX: f64 = 0.01;
const RELAYS_MAX: usize = 16;

/// A helper that can relay less than this part of what the best of them can comes last.
const SLOW_PART: f64 = 0.125;

/// The most times that are tried in each direction: doubling, and halving, a second gets to the end
/// of all numbers in fewer.
const TRIALS_MAX: usize = 1100;

/// The plan of a request that is rebuilt alone, from free ports; `None` when its chunks are not
/// sums of any k others. Its destination is `destinations`, or one of the `others` that is faster.
pub(in crate::planner) fn plan(
    instance: &Instance<'_>,
    request: &ExactRequest<'_>,
    destinations: &[NodeId],
    others: &[NodeId],
) -> Option<Plan> {
    let ([part], [first]) = (instance.parts(request), destinations) else { return None };
    if !part.is_sum || !part.any {
        return None;
    }
    let mut star = Star::new(instance, request, part, *first);
    let roots: Vec<Root> = others.iter().map(|node| star.root(instance, *node)).collect();
    let mut many = star.choose_root(&roots);
    let is_sooner = |seconds: f64, many: f64| seconds * (1.0 + RELAYED_GAP_MAX) < many;
    if is_sooner(star.least_seconds(Star::sends_enough), many) {
        let mut relayed = star.with_relays(instance);
        let seconds = relayed.choose_root(&roots);
        if is_sooner(seconds, many) {
            (star, many) = (relayed, seconds);
        }
    }
    let one = star.least_seconds(Star::tree_fits);
    let lanes = if one <= many * (1.0 + TREE_GAP_MAX) {
        star.tree_lane(one)
    } else {
        star.split_lanes(many)
    };
    Some(request.plan(&[star.root.node], lanes))
}

/// The stripe and its ports.
#[derive(Clone)]
struct Star<'a> {
    request: &'a ExactRequest<'a>,
    helpers: Vec<Helper>,
    /// Nodes without a chunk that may relay.
    relays: Vec<Relay>,
    /// How many of the helpers send each byte.
    wanted: u32,
    root: Root,
    grains: u32,
    /// Grains of a unit.
    scale: f64,
}

/// A destination: its downlink, and its downlink and disk together, in grains.
#[derive(Clone, Copy)]
struct Root {
    node: NodeId,
    receives: Supply,
    keeps: Supply,
}

#[derive(Clone)]
struct Helper {
    chunk: ChunkIndex,
    node: NodeId,
    is_forced: bool,
    sends: Supply,
    receives: Supply,
}

/// A node without a chunk of the stripe, in grains.
#[derive(Clone)]
struct Relay {
    node: NodeId,
    sends: Supply,
    receives: Supply,
}

/// The node that adds up a range: a helper or a relay without a chunk, by its place, or the
/// destination.
#[derive(Clone, Copy)]
enum AggregationPoint {
    Helper(usize),
    Relay(usize),
    Destination,
}

impl AggregationPoint {
    fn helper(self) -> Option<usize> {
        match self {
            AggregationPoint::Helper(at) => Some(at),
            AggregationPoint::Relay(_) | AggregationPoint::Destination => None,
        }
    }
}

/// What helpers do within some time, in grains; `None` where a forced one cannot send its chunk.
type Offer = Option<(u32, u32)>;

/// What a helper does within some time, in grains.
#[derive(Clone, Copy)]
struct Share {
    /// How much of the chunk it can send.
    sent_max: u32,
    /// How much of the chunk can come together at it.
    relayed_max: u32,
}

impl Root {
    fn new(instance: &Instance<'_>, node: NodeId, scale: f64) -> Root {
        let receives = scaled(instance.link_down(node), scale);
        Root { node, receives, keeps: scaled(instance.receiving(node), scale) }
    }
}

fn scaled(supply: Supply, scale: f64) -> Supply {
    let Supply { rates, bases } = supply;
    Supply { rates: rates.map(|rate| rate * scale), bases: bases.map(|base| base * scale) }
}

impl<'a> Star<'a> {
    fn new(
        instance: &Instance<'_>,
        request: &'a ExactRequest<'a>,
        part: &Part,
        root: NodeId,
    ) -> Star<'a> {
        let grains = (request.job.chunk_bytes / GRAIN_BYTES_MIN).clamp(1, GRAINS_MAX.into()) as u32;
        let scale = f64::from(grains) / f64::from(instance.units(request));
        let scaled = |supply: Supply| scaled(supply, scale);
        let helper = |chunk: ChunkIndex, is_forced: bool| {
            let node = request.holder(chunk);
            let (sends, receives) =
                (scaled(instance.sending(node)), scaled(instance.link_down(node)));
            Helper { chunk, node, is_forced, sends, receives }
        };
        let forced = part.forced.iter().map(|sender| helper(sender.chunk, true));
        let free = part.free.iter().map(|chunk| helper(*chunk, false));
        Star {
            request,
            helpers: forced.chain(free).collect(),
            relays: Vec::new(),
            wanted: (part.forced.len() + part.count) as u32,
            root: Root::new(instance, root, scale),
            grains,
            scale,
        }
    }

    fn root(&self, instance: &Instance<'_>, node: NodeId) -> Root {
        Root::new(instance, node, self.scale)
    }

    /// The same stripe with nodes without a chunk that may relay, those that relay fastest.
    fn with_relays(&self, instance: &Instance<'_>) -> Star<'a> {
        let nodes = instance.view.cluster.ids();
        let may_relay = |node: &NodeId| self.request.job.may_be_kept_by(*node, instance.view);
        let relay = |node: NodeId| Relay {
            node,
            sends: scaled(instance.link_up(node), self.scale),
            receives: scaled(instance.link_down(node), self.scale),
        };
        let seconds = |relay: &Relay| {
            let grains = f64::from(self.grains);
            let received = relay.receives.seconds_for(grains * f64::from(self.wanted));
            relay.sends.seconds_for(grains).max(received)
        };
        let mut relays: Vec<Relay> = nodes.filter(may_relay).map(relay).collect();
        relays.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        relays.truncate(RELAYS_MAX);
        Star { relays, ..self.clone() }
    }

    /// Moves to the destination that is fastest, and returns the time that its trees take.
    fn choose_root(&mut self, roots: &[Root]) -> f64 {
        let mut many = self.least_seconds(Star::split_fits);
        loop {
            let seconds = many / (1.0 + TREE_GAP_MAX);
            let offer = self.offer(seconds);
            let Some(faster) = roots.iter().find(|root| self.root_fits(root, offer, seconds))
            else {
                return many;
            };
            self.root = *faster;
            many = self.least_seconds(Star::split_fits);
        }
    }

    /// The least time that fits, to a billionth.
    fn least_seconds(&self, fits: impl Fn(&Star<'a>, f64) -> bool) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..TRIALS_MAX {
            if fits(self, high) {
                break;
            }
            (low, high) = (high, 2.0 * high);
        }
        for _ in 0..TRIALS_MAX {
            if high - low <= 1e-9 * high {
                break;
            }
            let middle = 0.5 * (low + high);
            if fits(self, middle) { high = middle } else { low = middle }
        }
        high
    }

    fn received(&self, supply: &Supply, seconds: f64) -> u32 {
        // More than every range k times makes no difference.
        let most = f64::from(self.grains) * f64::from(self.wanted);
        (supply.units_in(seconds) + 1e-9).min(most) as u32
    }

    fn share(&self, helper: &Helper, seconds: f64) -> Share {
        let sent_max = self.received(&helper.sends, seconds).min(self.grains);
        let others = self.wanted - 1;
        let relayed = self.received(&helper.receives, seconds).checked_div(others);
        Share { sent_max, relayed_max: relayed.unwrap_or(0).min(sent_max) }
    }

    /// How much of the chunk can come together at each relay, on the way to this destination.
    fn relayed_max<'b>(&'b self, root: &Root, seconds: f64) -> impl Iterator<Item = u32> + 'b {
        let root = root.node;
        self.relays.iter().map(move |relay| {
            let received = self.received(&relay.receives, seconds) / self.wanted;
            let relayed = received.min(self.received(&relay.sends, seconds)).min(self.grains);
            if relay.node == root { 0 } else { relayed }
        })
    }

    /// How much of the chunk can come together at the destination itself.
    fn direct_max(&self, root: &Root, seconds: f64) -> u32 {
        let besides = self.received(&root.receives, seconds).saturating_sub(self.grains);
        besides.checked_div(self.wanted - 1).unwrap_or(self.grains).min(self.grains)
    }

    /// Whether the helpers can send enough in that time, wherever it comes together.
    fn sends_enough(&self, seconds: f64) -> bool {
        self.offer(seconds).is_some_and(|(sent, _)| sent >= self.wanted * self.grains)
    }

    /// Whether many trees do it in that time: the conditions of the file head.
    fn split_fits(&self, seconds: f64) -> bool {
        self.root_fits(&self.root, self.offer(seconds), seconds)
    }

    /// What all helpers can send, and what can come together at them, in that time.
    fn offer(&self, seconds: f64) -> Offer {
        let (mut sent, mut joined) = (0, 0);
        for helper in &self.helpers {
            let share = self.share(helper, seconds);
            if helper.is_forced && share.sent_max < self.grains {
                return None;
            }
            sent += share.sent_max;
            joined += share.relayed_max;
        }
        Some((sent, joined))
    }

    /// Whether that is enough for this destination.
    fn root_fits(&self, root: &Root, offer: Offer, seconds: f64) -> bool {
        offer.is_some_and(|(sent, joined)| {
            let relayed = || self.relayed_max(root, seconds).sum::<u32>();
            let direct = self.direct_max(root, seconds);
            sent >= self.wanted * self.grains
                && self.received(&root.keeps, seconds) >= self.grains
                && (joined + direct >= self.grains || joined + direct + relayed() >= self.grains)
        })
    }

    /// How many whole chunks a node can receive in that time.
    fn children_max(&self, supply: &Supply, seconds: f64) -> u32 {
        self.received(supply, seconds) / self.grains
    }

    /// The helpers of one tree in that time, those that can add up most first, forced ones before.
    fn tree_helpers(&self, seconds: f64) -> Vec<(u32, &Helper)> {
        let sends = |helper: &&Helper| self.share(helper, seconds).sent_max == self.grains;
        let sums = |helper: &'_ Helper| self.children_max(&helper.receives, seconds);
        let able = self.helpers.iter().filter(sends);
        let mut able: Vec<(u32, &Helper)> = able.map(|helper| (sums(helper), helper)).collect();
        able.sort_by_key(|(sums, helper)| (!helper.is_forced, std::cmp::Reverse(*sums)));
        able.truncate(self.wanted as usize);
        able
    }

    /// Whether one tree does it in that time.
    fn tree_fits(&self, seconds: f64) -> bool {
        let helpers = self.tree_helpers(seconds);
        let at_root = self.children_max(&self.root.receives, seconds);
        let joined = at_root + helpers.iter().map(|(sums, _)| sums).sum::<u32>();
        let forced = self.helpers.iter().filter(|helper| helper.is_forced).count();
        helpers.len() == self.wanted as usize
            && helpers.iter().filter(|(_, helper)| helper.is_forced).count() == forced
            && self.received(&self.root.keeps, seconds) >= self.grains
            && joined >= self.wanted
    }

    fn tree_lane(&self, seconds: f64) -> Vec<Lane> {
        let helpers = self.tree_helpers(seconds);
        // The destination takes what it can: the flatter the tree, the sooner the first slice.
        let mut left = self.wanted.saturating_sub(self.children_max(&self.root.receives, seconds));
        let sums = helpers.iter().map(|(most, _)| {
            let sums = left.min(*most);
            left -= sums;
            sums
        });
        let sums: Vec<u32> = sums.collect();
        let helpers: Vec<_> = helpers.iter().map(|(_, h)| (h.chunk, h.node)).collect();
        vec![self.lane(0, self.grains, &helpers, &sums)]
    }

    fn split_lanes(&self, seconds: f64) -> Vec<Lane> {
        let shares: Vec<Share> = self.helpers.iter().map(|h| self.share(h, seconds)).collect();
        let ranges = self.ranges(&shares, seconds);
        let mut relayed = vec![0; shares.len()];
        for (point, length) in &ranges {
            point.helper().into_iter().for_each(|at| relayed[at] = *length);
        }
        let sent = self.amounts(&shares, &relayed);
        let mut lanes = Vec::new();
        let mut from = 0;
        let filled = self.fill(&ranges, &relayed, &sent);
        for ((point, length), arcs) in ranges.into_iter().zip(filled) {
            let first = point.helper();
            for range in wrap_around(&arcs, length) {
                let (start, end) = (range.from, range.to);
                let others = range.members.into_iter().filter(|at| Some(*at) != first);
                let all = first.into_iter().chain(others);
                let helpers: Vec<_> =
                    all.map(|at| (self.helpers[at].chunk, self.helpers[at].node)).collect();
                lanes.push(self.joined_lane(from + start, from + end, &helpers, point));
            }
            from += length;
        }
        lanes.retain(|lane| lane.range.bytes() > 0);
        lanes
    }

    /// How much comes together at each helper and relay and, last, at the destination: in few and
    /// long ranges.
    fn ranges(&self, shares: &[Share], seconds: f64) -> Vec<(AggregationPoint, u32)> {
        let direct = self.direct_max(&self.root, seconds);
        let mut left = self.grains - direct;
        let best = shares.iter().map(|share| share.relayed_max).max().unwrap_or(0);
        let is_slow = |most: u32| f64::from(most) < SLOW_PART * f64::from(best);
        let (slow, quick): (Vec<_>, Vec<_>) = shares
            .iter()
            .enumerate()
            .map(|(at, share)| (AggregationPoint::Helper(at), share.relayed_max))
            .partition(|(_, most)| is_slow(*most));
        let relays = self.relayed_max(&self.root, seconds).enumerate();
        let relays = relays.map(|(at, most)| (AggregationPoint::Relay(at), most)).collect();
        let mut points = [quick, relays, slow];
        points.iter_mut().for_each(|kind| kind.sort_by_key(|(_, most)| std::cmp::Reverse(*most)));
        let joined = points.into_iter().flatten().map(|(point, most)| {
            let length = left.min(most);
            left -= length;
            (point, length)
        });
        let ranges = joined.chain([(AggregationPoint::Destination, direct)]);
        ranges.filter(|(_, length)| *length > 0).collect()
    }

    /// How much each helper sends: what it relays at least, then those that can send most.
    fn amounts(&self, shares: &[Share], relayed: &[u32]) -> Vec<u32> {
        let least = |(helper, relayed): (&Helper, &u32)| {
            if helper.is_forced { self.grains } else { *relayed }
        };
        let mut sent: Vec<u32> = self.helpers.iter().zip(relayed).map(least).collect();
        let mut left = self.wanted * self.grains - sent.iter().sum::<u32>();
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(shares[at].sent_max));
        for at in order {
            let more = left.min(shares[at].sent_max - sent[at]);
            sent[at] += more;
            left -= more;
        }
        sent
    }

    /// How much of each range each helper sends, besides its relay.
    fn fill(
        &self,
        ranges: &[(AggregationPoint, u32)],
        relayed: &[u32],
        sent: &[u32],
    ) -> Vec<Vec<u32>> {
        let rests = sent.iter().zip(relayed).map(|(sent, relayed)| f64::from(sent - relayed));
        let mut transport = Transport::new(rests.map(Supply::of_rate).collect());
        for &(point, length) in ranges {
            let relay = point.helper();
            let others = (0..self.helpers.len()).filter(|at| Some(*at) != relay);
            let range = transport.add(length, others.map(|at| at as u32));
            let count = self.wanted - u32::from(relay.is_some());
            transport.ship_greedily(range, count as usize, length);
        }
        let done = transport.balance(Rounding::Down(1), 1);
        debug_assert!(done.seconds <= 1.0 + 1e-6, "Hall's condition holds: {done:?}");
        let arcs = |range: usize| {
            let mut arcs = vec![0; self.helpers.len()];
            transport.shipped(range).iter().for_each(|link| arcs[link.node as usize] = link.units);
            arcs
        };
        (0..ranges.len()).map(arcs).collect()
    }

    /// A range whose sums all come together at `point`; a helper that is one comes first.
    fn joined_lane(
        &self,
        from: u32,
        to: u32,
        helpers: &[(ChunkIndex, NodeId)],
        point: AggregationPoint,
    ) -> Lane {
        let mut sums = vec![0; helpers.len()];
        if let AggregationPoint::Helper(_) = point {
            sums[0] = self.wanted - 1;
        }
        let mut lane = self.lane(from, to, helpers, &sums);
        if let AggregationPoint::Relay(at) = point {
            let (relay, bytes) = (self.relays[at].node, lane.range.bytes());
            lane.edges.iter_mut().for_each(|edge| edge.parent = relay);
            let (parent, carries) = (self.root.node, Carries::Partial);
            lane.edges.insert(0, Edge { child: relay, parent, bytes, carries });
        }
        lane
    }

    fn lane(&self, from: u32, to: u32, helpers: &[(ChunkIndex, NodeId)], sums: &[u32]) -> Lane {
        let byte = |at| self.request.byte_at(at, self.grains);
        let range = Range { from: byte(from), to: byte(to) };
        Lane {
            range,
            lost: self.request.lost.to_vec(),
            mode: Mode::Streamed,
            decoder: None,
            scheme: None,
            edges: tree(helpers, sums, self.root.node, range.bytes()),
        }
    }
}
