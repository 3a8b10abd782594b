//! What stripes cost at least where racks share links to all others, at prices of ports.
//!
//! Place: beside `[plan]`, a part of the lower bound (`bound/search.rs` says why any prices give
//! one). Prices are linear, so a stripe's cheapest tree can be told without trying trees:
//! * every helper sends one message, and all messages but one are added up to others on the way;
//!   the last arrives at the destination, which needs at least one of them;
//! * a message is added up at a helper or at the destination, for what that receives; at a relay
//!   without a chunk, which sends once itself, for what k messages cost there, shared by k - 1;
//! * of each rack that helps, but for the destination's, at least one message leaves: it crosses
//!   the rack's uplink and another rack's downlink, and is added up there.
//!
//! So a rack's cost depends on the number of its helpers and on nothing else but the cheapest place
//! for what leaves, and how many help in each rack is a small knapsack for each rack that may keep
//! the chunk. A survivor that adds up what
//! arrives from other racks helps, or is no survivor (`crossing/tree.rs`).
//!
//! A chunk is kept by one node, which prices do not see: on average it may be cheap to spread it.
//! So destinations at which a stripe alone would take longer than the whole batch are left out.
//!
//! Only sums over whole chunks are counted, and stripes with several losses (`several.rs`); other
//! repairs cost nothing here.

mod lanes;
mod priced;
mod tree;

use suture_code::ChunkIndex;

use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::several::{self, JointCosts, JointRepair};
use crate::bound::whole::{self, RackChoice};
use crate::bound::{BatchDemands, Demand, takes_part};
use crate::need::{Needs, Part};
use crate::planner::View;
use crate::planner::ports::Ports;

use lanes::{AskedSets, LaneStripe};
use priced::Costs;
use tree::Workspace;

/// Steps of the search that are worth beginning it, and the most of one course.
const STEPS_MIN: usize = 12;
const STEPS_MAX: usize = 300;

/// Steps of the search that are worth pricing stripes by their lanes.
const LANE_STEPS_MIN: usize = 50;

/// Prices that are compared in each course: less work than planning a small batch.
const WORK_MAX: usize = 1_000_000;

/// Sums that are compared for a joint repair, in place of one price.
const JOINT_WORK: usize = 30;

/// The same for all chunks by themselves, at all of their destinations.
const ALONE_WORK_MAX: usize = 400_000;

/// The bound, in seconds, if it is above what is `known`; nothing where links between racks are not
/// modelled, or where a batch is so large that counting sums says as much.
pub(super) fn seconds(batch: BatchDemands<'_>, known: f64) -> f64 {
    let BatchDemands { demands, view, ports } = batch;
    let takes_part = takes_part(demands, view);
    let takes_part = || (0..).zip(&takes_part).filter(|(_, takes)| **takes).map(|(node, _)| node);
    // What a node without a rack sends or receives crosses no rack's link.
    if !ports.have_racks() || takes_part().any(|node| ports.rack_up(ports.rack(node)).is_none()) {
        return 0.0;
    }
    let survivors = |part: &Part| part.forced.len() + part.free.len();
    let parts = demands.iter().flat_map(|demand| &demand.need.parts);
    let least_work = parts.map(|part| survivors(part).pow(2)).sum::<usize>();
    if least_work * STEPS_MIN > WORK_MAX {
        return 0.0;
    }
    let relays: Vec<u32> = takes_part().collect();
    let lanes = lane_stripes(batch, &relays);
    let others: Vec<&Demand<'_>> =
        demands.iter().zip(&lanes).filter(|(_, laned)| laned.is_none()).map(|(d, _)| d).collect();
    let laned = demands.iter().zip(&lanes).filter(|(_, laned)| laned.is_some());
    let laned = laned
        .flat_map(|(demand, _)| sums(demand).map(|part| RackedStripe::new(demand, part, view, ports)));
    let laned: Vec<RackedStripe> = laned.filter(|stripe| !stripe.targets.is_empty()).collect();
    let lanes: Vec<LaneStripe> = lanes.into_iter().flatten().collect();
    let stripes = others
        .iter()
        .flat_map(|demand| sums(demand).map(|part| RackedStripe::new(demand, part, view, ports)));
    let stripes: Vec<RackedStripe> = stripes.filter(|stripe| !stripe.targets.is_empty()).collect();
    let joints = Several::all(&others, batch);
    if stripes.is_empty() && joints.is_empty() && lanes.is_empty() {
        return 0.0;
    }
    let known = alone_seconds(&joints, (ports, &relays), known);
    let search =
        CrossingSearch { ports, relays: &relays, joints: &joints, lanes: &lanes, laned: &laned };
    let steps = search.steps(&stripes, WORK_MAX);
    if steps < STEPS_MIN {
        return known;
    }
    let limits = SearchLimits { known, enough: f64::INFINITY, steps };
    let together = search.seconds(&stripes, limits).max(known);
    let together = lanes::alone::seconds(&lanes, (ports, &relays), together);
    let together = search.whole_seconds(&stripes, together);
    match stripes.is_empty() {
        true => together,
        false => search.with_whole_chunks(together, stripes),
    }
}

/// Of each demand its stripe by lanes, where there is one; of none if all together take too long.
fn lane_stripes(batch: BatchDemands<'_>, relays: &[u32]) -> Vec<Option<LaneStripe>> {
    let BatchDemands { demands, ports, .. } = batch;
    let mut asked = AskedSets::default();
    let mut work = 0;
    let mut stripes = Vec::with_capacity(demands.len());
    for demand in demands {
        let stripe = LaneStripe::new(demand, &mut asked, (batch, relays));
        work += stripe.as_ref().map_or(0, |stripe| stripe.work(ports));
        if work * LANE_STEPS_MIN > WORK_MAX {
            return demands.iter().map(|_| None).collect();
        }
        stripes.push(stripe);
    }
    stripes
}

/// Several lost chunks of a stripe, which are rebuilt from one set of helpers, or each from its own.
struct Several {
    joint: JointRepair,
    /// Each by itself, where that may be cheaper for some port.
    apart: Vec<RackedStripe>,
}

impl Several {
    fn all(demands: &[&Demand<'_>], batch: BatchDemands<'_>) -> Vec<Several> {
        let mut needs = Needs::default();
        let several = several::joints(demands, batch).into_iter().map(|(joint, demand, part)| {
            let apart = match joint.may_be_apart() {
                true => apart(demand, part, &mut needs, batch),
                false => Vec::new(),
            };
            Several { joint, apart }
        });
        several.collect()
    }

    fn work(&self) -> usize {
        self.joint.work() / JOINT_WORK + self.apart.iter().map(RackedStripe::work).sum::<usize>()
    }

    /// Puts the cheapest way on `loads`, and returns what it costs; together it is as `joint`.
    fn take_cheapest(
        &self,
        (joint, joint_costs): (&JointRepair, &JointCosts<'_>),
        (costs, workspace): (&mut Costs<'_>, &mut Workspace),
        loads: &mut Amounts,
    ) -> f64 {
        if self.apart.is_empty() {
            return joint_costs.take_cheapest(joint, loads);
        }
        let mut together = loads.nothing();
        let mut apart = loads.nothing();
        let cost = joint_costs.take_cheapest(joint, &mut together);
        let each = self.apart.iter().map(|one| one.take_cheapest(costs, workspace, &mut apart));
        let apart_cost = each.sum::<f64>();
        let (least, cheapest) =
            if apart_cost < cost { (apart_cost, apart) } else { (cost, together) };
        loads.add_all(&cheapest);
        least
    }
}

/// The lost chunks of a part as stripes with one loss each; none where one of them needs another.
fn apart(
    demand: &Demand<'_>,
    part: &Part,
    needs: &mut Needs,
    BatchDemands { view, ports, .. }: BatchDemands<'_>,
) -> Vec<RackedStripe> {
    let available = demand.job.survivors.iter().map(|(chunk, _)| *chunk);
    let mut apart = Vec::new();
    for lost in &part.lost {
        let Some(name) = needs.find(demand.job.code, &[*lost], available.clone()) else {
            return Vec::new();
        };
        let parts = needs.get(name).parts.iter();
        apart.extend(parts.map(|part| RackedStripe::new(demand, part, view, ports)));
    }
    match apart.iter().any(|stripe| stripe.targets.is_empty()) {
        true => Vec::new(),
        false => apart,
    }
}

/// The most that any stripe with several losses takes by itself; `known` where that is no more.
fn alone_seconds(several: &[Several], (ports, relays): (&Ports, &[u32]), known: f64) -> f64 {
    let joints: Vec<&JointRepair> = several.iter().map(|several| &several.joint).collect();
    several::alone_seconds(&joints, ports, known, |index, spread, prices, loads| {
        let mut costs = Costs::new(ports, prices, relays);
        let joint = (spread, &JointCosts::new(ports, prices, relays));
        several[index].take_cheapest(joint, (&mut costs, &mut Workspace::default()), loads)
    })
}

/// The chunks of a demand that are sums.
fn sums<'a>(demand: &'a Demand<'_>) -> impl Iterator<Item = &'a Part> {
    demand.need.parts.iter().filter(|part| part.is_sum)
}

/// Up to so many racks of a stripe, all sets of them are tried.
const SETS_RACKS_MAX: usize = 8;

/// What prices are searched for.
struct CrossingSearch<'a> {
    ports: &'a Ports,
    /// Nodes that may relay without a chunk.
    relays: &'a [u32],
    /// Stripes with several losses, which take part besides.
    joints: &'a [Several],
    lanes: &'a [LaneStripe],
    /// The chunks of these that are sums of their own.
    laned: &'a [RackedStripe],
}

impl CrossingSearch<'_> {
    /// How many steps take so much work.
    fn steps(&self, stripes: &[RackedStripe], work: usize) -> usize {
        let joints = self.joints.iter().map(Several::work).sum::<usize>();
        let lanes = self.lanes.iter().map(|stripe| stripe.work(self.ports)).sum::<usize>();
        let step = stripes.iter().map(RackedStripe::work).sum::<usize>() + self.ports.count();
        (work / (step + joints + lanes)).min(STEPS_MAX)
    }

    fn seconds(&self, stripes: &[RackedStripe], limits: SearchLimits) -> f64 {
        let mut workspace = Workspace::default();
        let search = Search::new(self.ports, limits, |prices, loads| {
            let mut costs = Costs::new(self.ports, prices, self.relays);
            let cost =
                |stripe: &RackedStripe| stripe.take_cheapest(&mut costs, &mut workspace, loads);
            let sums: f64 = stripes.iter().map(cost).sum();
            let joint_costs = JointCosts::new(self.ports, prices, self.relays);
            let joints = self.joints.iter().map(|several| {
                let joint = (&several.joint, &joint_costs);
                several.take_cheapest(joint, (&mut costs, &mut workspace), loads)
            });
            let joints: f64 = joints.sum();
            let lanes = self.lanes.iter().map(|stripe| {
                let at = (&mut costs, &mut workspace);
                stripe.take_cheapest(&stripe.any_destinations(), at, loads).0
            });
            sums + joints + lanes.sum::<f64>()
        });
        search.seconds_from_nothing()
    }

    /// What whole chunks take on links of racks, if they are equally long; else what is known.
    fn whole_seconds(&self, stripes: &[RackedStripe], known: f64) -> f64 {
        let all = || stripes.iter().chain(self.laned);
        let Some(bytes) = all().next().map(|stripe| stripe.bytes) else { return known };
        if all().any(|stripe| stripe.bytes != bytes) {
            return known;
        }
        let choices: Vec<Vec<RackChoice>> = all().map(RackedStripe::choices).collect();
        whole::seconds(&choices, bytes, self.ports, known)
    }

    /// What each stripe takes by itself at each node of each target; `known` where that is no more.
    fn alone(&self, stripes: &[RackedStripe], known: f64, pairs: usize) -> Vec<Vec<Vec<f64>>> {
        let at = |stripe: &RackedStripe, target: &Target, node: u32| {
            let target = Target { nodes: vec![node], ..*target };
            let only = [RackedStripe { targets: vec![target], ..stripe.clone() }];
            let alone = CrossingSearch { joints: &[], lanes: &[], ..*self };
            let steps = alone.steps(&only, ALONE_WORK_MAX / pairs);
            alone.seconds(&only, SearchLimits { known, enough: f64::INFINITY, steps })
        };
        let ports = self.ports;
        let rates = |node: u32| {
            [ports.up(node), ports.down(node), ports.write(node)].map(|port| ports.rate(port))
        };
        let nodes = |stripe: &RackedStripe, target: &Target| {
            // Nodes that are equally fast are equally good.
            let mut tried: Vec<([f64; 3], f64)> = Vec::new();
            let seconds = target.nodes.iter().map(|&node| {
                let rates = rates(node);
                if let Some((_, seconds)) = tried.iter().find(|(known, _)| *known == rates) {
                    return *seconds;
                }
                tried.push((rates, at(stripe, target, node)));
                tried[tried.len() - 1].1
            });
            seconds.collect()
        };
        let all = stripes.iter().map(|stripe| {
            stripe.targets.iter().map(|target| nodes(stripe, target)).collect::<Vec<Vec<f64>>>()
        });
        all.collect()
    }

    /// The bound when each chunk is kept by one node: if nobody takes longer than some time, no
    /// chunk goes where it takes longer by itself.
    fn with_whole_chunks(&self, known: f64, stripes: Vec<RackedStripe>) -> f64 {
        let pairs: usize = stripes.iter().map(RackedStripe::target_count).sum();
        let alone = CrossingSearch { joints: &[], lanes: &[], ..*self };
        if alone.steps(&stripes[..1], ALONE_WORK_MAX / pairs) == 0 {
            return known;
        }
        let alone = self.alone(&stripes, known, pairs);
        let least =
            |stripe: &Vec<Vec<f64>>| stripe.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let known = alone.iter().map(least).fold(known, f64::max);
        let mut levels: Vec<f64> = alone.iter().flatten().flatten().copied().collect();
        levels.retain(|level| *level > known);
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        // Nobody below the level needs less than that.
        let within = |level: f64, known: f64| {
            let stripes =
                stripes.iter().zip(&alone).map(|(stripe, alone)| stripe.within(alone, level));
            let stripes: Vec<RackedStripe> = stripes.collect();
            let limits =
                SearchLimits { known, enough: level, steps: self.steps(&stripes, WORK_MAX) };
            self.whole_seconds(&stripes, self.seconds(&stripes, limits))
        };
        let (mut low, mut high) = (known, levels.len());
        let mut first = 0;
        while first < high {
            let middle = (first + high) / 2;
            let seconds = within(levels[middle], low);
            if seconds >= levels[middle] {
                low = levels[middle];
                first = middle + 1;
            } else {
                low = low.max(seconds);
                high = middle;
            }
        }
        low
    }
}

/// A chunk that is a sum of others, and who may take part.
#[derive(Clone)]
struct RackedStripe {
    bytes: f64,
    /// How many helpers a tree has.
    count: usize,
    racks: Vec<Holders>,
    /// Racks that hold enough helpers together: each set without which nothing less does.
    together: Vec<Vec<u32>>,
    targets: Vec<Target>,
}

/// Survivors of one rack.
#[derive(Clone, PartialEq)]
struct Holders {
    rack: u32,
    /// Those that help in any case come first.
    nodes: Vec<u32>,
    forced: usize,
}

/// Nodes of one rack that may keep the chunk.
#[derive(Clone)]
struct Target {
    rack: u32,
    /// Its place among the racks with survivors.
    at: Option<usize>,
    nodes: Vec<u32>,
}

impl RackedStripe {
    fn new(demand: &Demand<'_>, part: &Part, view: &View<'_>, ports: &Ports) -> RackedStripe {
        let mut racks: Vec<Holders> = Vec::new();
        let forced = part.forced.iter().map(|sender| (sender.chunk, 1));
        for (chunk, forced) in forced.chain(part.free.iter().map(|chunk| (*chunk, 0))) {
            let node = demand.holder(chunk).0;
            let rack = ports.rack(node);
            match racks.iter_mut().find(|known| known.rack == rack) {
                Some(known) => {
                    known.nodes.push(node);
                    known.forced += forced;
                }
                None => racks.push(Holders { rack, nodes: vec![node], forced }),
            }
        }
        let mut targets: Vec<Target> = Vec::new();
        for node in view.cluster.ids().filter(|node| demand.may_keep(*node, view)) {
            let rack = ports.rack(node.0);
            match targets.iter_mut().find(|known| known.rack == rack) {
                Some(known) => known.nodes.push(node.0),
                None => {
                    let at = racks.iter().position(|known| known.rack == rack);
                    targets.push(Target { rack, at, nodes: vec![node.0] });
                }
            }
        }
        let bytes = demand.job.chunk_bytes as f64;
        let count = part.forced.len() + part.count;
        let together = match part.any {
            true => racks_with(count, &racks),
            false => smallest_enough(&racks, |chosen| {
                let held = part.forced.iter().map(|sender| sender.chunk).chain(part.free.clone());
                let chunks: Vec<ChunkIndex> = held
                    .filter(|chunk| chosen.contains(&ports.rack(demand.holder(*chunk).0)))
                    .collect();
                demand.job.code.helpers_for(&part.lost, &chunks).is_ok()
            }),
        };
        RackedStripe { bytes, count, racks, together, targets }
    }

    /// A chunk of so many bytes that is rebuilt from all of these nodes, into any of some others.
    fn of_helpers(bytes: f64, helpers: &[u32], keepers: &[u32], ports: &Ports) -> RackedStripe {
        let mut racks: Vec<Holders> = Vec::new();
        for &node in helpers {
            let rack = ports.rack(node);
            match racks.iter_mut().find(|known| known.rack == rack) {
                Some(known) => {
                    known.nodes.push(node);
                    known.forced += 1;
                }
                None => racks.push(Holders { rack, nodes: vec![node], forced: 1 }),
            }
        }
        let stripe = RackedStripe {
            bytes,
            count: helpers.len(),
            racks,
            together: Vec::new(),
            targets: Vec::new(),
        };
        stripe.into_each(keepers, ports)
    }

    /// The same with a target for each of these nodes.
    fn into_each(self, keepers: &[u32], ports: &Ports) -> RackedStripe {
        let target = |node: &u32| {
            let rack = ports.rack(*node);
            let at = self.racks.iter().position(|known| known.rack == rack);
            Target { rack, at, nodes: vec![*node] }
        };
        let targets = keepers.iter().map(target).collect();
        RackedStripe { targets, ..self }
    }

    /// Whether another is rebuilt from the same helpers.
    fn is_like(&self, other: &RackedStripe) -> bool {
        (self.count, &self.racks) == (other.count, &other.racks)
    }

    /// What trees of all survivors cost at least into the target at a place, for each byte: what
    /// everyone sends, a message out of each other rack, and what is received and written there.
    fn cost_of_sending(&self, target: usize, costs: &Costs<'_>) -> f64 {
        let Target { rack: own, nodes, .. } = &self.targets[target];
        let sent = self.racks.iter().map(|rack| {
            let sent: f64 = rack.nodes.iter().map(|node| costs.sending(*node)).sum();
            sent + if rack.rack == *own { 0.0 } else { costs.leaving(rack.rack) }
        });
        sent.sum::<f64>() + costs.down(nodes[0]) + costs.write(nodes[0])
    }

    /// Survivors that may help.
    fn survivors(&self) -> usize {
        self.racks.iter().map(|rack| rack.nodes.len()).sum()
    }

    fn target_count(&self) -> usize {
        self.targets.iter().map(|target| target.nodes.len()).sum()
    }

    /// The racks that may keep the chunk, and what each asks of others.
    fn choices(&self) -> Vec<RackChoice> {
        let choices = self.targets.iter().map(|target| {
            let others = |racks: &Vec<u32>| {
                racks.iter().copied().filter(|rack| *rack != target.rack).collect::<Vec<u32>>()
            };
            let sets: Vec<Vec<u32>> = self.together.iter().map(others).collect();
            let lengths = sets.iter().map(Vec::len).min().unwrap_or(0);
            let is_in_all = |rack: &u32| sets.iter().all(|set| set.contains(rack));
            let senders = sets.first().into_iter().flatten().copied().filter(is_in_all).collect();
            RackChoice { rack: target.rack, senders, lengths }
        });
        choices.collect()
    }

    /// The same without targets at which it takes as long as that, or longer, by itself.
    fn within(&self, alone: &[Vec<f64>], level: f64) -> RackedStripe {
        let targets = self.targets.iter().zip(alone).map(|(target, alone)| {
            let nodes = target.nodes.iter().zip(alone).filter(|(_, seconds)| **seconds < level);
            Target { nodes: nodes.map(|(node, _)| *node).collect(), ..*target }
        });
        let targets = targets.filter(|target| !target.nodes.is_empty()).collect();
        let (racks, together) = (self.racks.clone(), self.together.clone());
        RackedStripe { targets, racks, together, ..*self }
    }

    /// Prices that are compared to find the cheapest tree.
    fn work(&self) -> usize {
        let survivors = self.survivors();
        let targets = self.target_count();
        survivors * self.count * self.targets.len() + survivors * survivors + targets
    }
}

/// The smallest sets of racks that hold so many survivors, forced ones included.
fn racks_with(count: usize, racks: &[Holders]) -> Vec<Vec<u32>> {
    smallest_enough(racks, |chosen| {
        let mut held = 0;
        racks.iter().all(|rack| {
            let is_chosen = chosen.contains(&rack.rack);
            held += if is_chosen { rack.nodes.len() } else { 0 };
            is_chosen || rack.forced == 0
        }) && held >= count
    })
}

/// The smallest sets of racks whose survivors are enough; where racks are many, only what all of
/// these have in common.
fn smallest_enough(racks: &[Holders], is_enough: impl Fn(&[u32]) -> bool) -> Vec<Vec<u32>> {
    let names: Vec<u32> = racks.iter().map(|rack| rack.rack).collect();
    let is_needed = |rack: &u32| {
        let others: Vec<u32> = names.iter().copied().filter(|other| other != rack).collect();
        !is_enough(&others)
    };
    let (needed, others): (Vec<u32>, Vec<u32>) = names.iter().copied().partition(is_needed);
    if names.len() > SETS_RACKS_MAX {
        return vec![needed];
    }
    let sets = (0..1u32 << others.len()).filter_map(|set| {
        let chosen = (0..others.len()).filter(|at| set >> at & 1 == 1).map(|at| others[at]);
        let chosen: Vec<u32> = needed.iter().copied().chain(chosen).collect();
        is_enough(&chosen).then_some(chosen)
    });
    smallest(sets.collect())
}

/// The sets of which no part is among them.
fn smallest(mut sets: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    for set in &mut sets {
        set.sort_unstable();
        set.dedup();
    }
    sets.sort_by_key(|set| set.len());
    let mut kept: Vec<Vec<u32>> = Vec::new();
    for set in sets {
        let is_more = |known: &Vec<u32>| known.iter().all(|rack| set.contains(rack));
        if !kept.iter().any(is_more) {
            kept.push(set);
        }
    }
    kept
}
