//! What stripes with several losses cost at least where racks share links to all others, at prices
//! of ports.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`crossing.rs`), for chunks that
//! are rebuilt from one set of helpers. Whatever is formed on the way, for each byte:
//! * every helper reads and sends it once, every node that keeps a chunk receives and writes it;
//! * helpers and destinations together are linked by one message less than there are of them, so
//!   there are more messages than these, at the cheapest nodes;
//! * what a rack's helpers alone say of chunks that other racks keep leaves it, and what the others
//!   alone say of those that it keeps arrives (`border.rs`);
//! * what leaves racks arrives at racks.
//!
//! So a rack's cost depends on how many help there and how many chunks it keeps, and the cheapest
//! option is a small knapsack over racks.
//!
//! A chunk is kept by one node, which prices do not see: what a stripe takes by itself, for the
//! best of all ways to spread its chunks over racks, counts as well.

use std::collections::BTreeMap;

use suture_code::ChunkIndex;

use crate::bound::around::may_take_more;
use crate::bound::border::{Crossing, Crossings, HelperSets};
use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand};
use crate::need::{Part, is_mds};
use crate::planner::ports::{PortIndex, Ports};
use crate::planner::rack_places;

/// Steps of the search that are worth beginning it, and the most of one course.
const STEPS_MIN: usize = 12;
const STEPS_MAX: usize = 200;

/// Sums that are compared in each course of all stripes by themselves.
const COMPARISONS_MAX: usize = 30_000_000;

/// Ways to spread chunks over racks that are tried for a stripe.
const SPREADS_MAX: usize = 128;

/// A repair of several lost chunks, and what it is of.
pub(super) struct DemandRepair<'a> {
    pub repair: MultiLossRepair,
    pub demand: &'a Demand<'a>,
    pub part: &'a Part,
}

/// What stripes with several losses need, of some demands.
pub(super) fn repairs<'a>(
    demands: &[&'a Demand<'a>],
    batch: BatchDemands<'a>,
) -> Vec<DemandRepair<'a>> {
    // Stripes of one name ask the code the same.
    let mut asked: BTreeMap<(usize, usize), Option<HelperSets<'_>>> = BTreeMap::new();
    let mut repairs = Vec::new();
    for &demand in demands {
        for (at, part) in demand.parts().enumerate().filter(|(_, part)| part.lost.len() > 1) {
            let sets = asked.entry((demand.name, at));
            let code = demand.job.code;
            let new =
                || (!may_take_more(code, part)).then(|| HelperSets::new(code, part)).flatten();
            let sets = sets.or_insert_with(new);
            let repair = MultiLossRepair::new(demand, part, batch, sets.as_mut());
            repairs.extend(repair.map(|repair| DemandRepair { repair, demand, part }));
        }
    }
    repairs
}

/// The most that any stripe takes by itself, in seconds; `known` where that is no more. The caller
/// defines how the cheapest option of one, spread over racks in some way, is put on loads at some
/// prices.
pub(super) fn alone_seconds(
    repairs: &[&MultiLossRepair],
    ports: &Ports,
    known: f64,
    cheapest: impl Fn(usize, &MultiLossRepair, &Amounts, &mut Amounts) -> f64,
) -> f64 {
    let mut seconds = known;
    for (index, repair) in repairs.iter().enumerate() {
        let spreads = repair.spreads();
        let comparisons: usize = spreads.iter().map(MultiLossRepair::comparisons).sum();
        let steps = COMPARISONS_MAX
            / (repairs.len() * (comparisons + ports.count() * spreads.len())).max(1);
        if spreads.is_empty() || steps < STEPS_MIN {
            continue;
        }
        let at = |spread: &MultiLossRepair| {
            let limits = SearchLimits { known, enough: f64::INFINITY, steps: steps.min(STEPS_MAX) };
            let of_spread =
                |prices: &Amounts, loads: &mut Amounts| cheapest(index, spread, prices, loads);
            Search::new(ports, limits, of_spread).seconds_from_nothing()
        };
        seconds = spreads.iter().map(at).fold(f64::INFINITY, f64::min).max(seconds);
    }
    seconds
}

/// Chunks of a stripe that are rebuilt from one set of helpers.
#[derive(Clone)]
pub(super) struct MultiLossRepair {
    bytes: f64,
    lost: usize,
    helpers: usize,
    /// Whether any so many chunks determine all others.
    is_mds: bool,
    racks: Vec<MultiLossRack>,
}

/// What a rack may do for a stripe.
#[derive(Clone)]
struct MultiLossRack {
    rack: u32,
    /// Those that help in any case come first.
    holders: Vec<u32>,
    forced: usize,
    destinations: Vec<u32>,
    /// The fewest and most chunks that the rack may keep.
    kept: (usize, usize),
    crossings: Crossings,
}

impl MultiLossRepair {
    /// Nothing where helpers send parts of their chunks, or racks have no places for all chunks.
    fn new(
        demand: &Demand<'_>,
        part: &Part,
        BatchDemands { view, ports, bytes: batch_bytes, .. }: BatchDemands<'_>,
        mut sets: Option<&mut HelperSets<'_>>,
    ) -> Option<MultiLossRepair> {
        let code = demand.job.code;
        let alpha = code.sub_chunk_count();
        let are_whole = part.forced.iter().all(|sender| sender.sent == alpha)
            && (part.count == 0 || part.free_sent == alpha);
        let (lost, helpers) = (part.lost.len(), part.forced.len() + part.count);
        if !are_whole || helpers == 0 {
            return None;
        }
        let zeros = code.zeros().len();
        let is_mds = is_mds(code) && helpers + zeros == code.code().data_chunks();
        let places = rack_places(demand.job, view, batch_bytes);
        let mut racks: Vec<MultiLossRack> = Vec::new();
        let forced = part.forced.iter().map(|sender| (sender.chunk, 1));
        let chunks = || forced.clone().chain(part.free.iter().map(|chunk| (*chunk, 0)));
        for (chunk, forced) in chunks() {
            let node = demand.holder(chunk).0;
            let rack = MultiLossRack::of(node, &mut racks, ports);
            rack.holders.push(node);
            rack.forced += forced;
        }
        for node in view.cluster.ids().filter(|node| demand.may_keep(*node, view)) {
            let rack = MultiLossRack::of(node.0, &mut racks, ports);
            let places = places.get(rack.rack as usize).copied().unwrap_or(lost);
            rack.destinations.push(node.0);
            rack.kept.1 = rack.destinations.len().min(places).min(lost);
        }
        for rack in &mut racks {
            let holders = rack.holders.len();
            let is_held = |chunk: &ChunkIndex| ports.rack(demand.holder(*chunk).0) == rack.rack;
            let held = chunks().map(|(chunk, _)| chunk).filter(is_held).collect();
            rack.crossings = match &mut sets {
                _ if is_mds => Crossings::of_any(helpers, lost, holders),
                Some(sets) => sets.crossings(held),
                None => Crossings::of_unknown(lost, holders),
            };
        }
        let most: usize = racks.iter().map(|rack| rack.kept.1).sum();
        let bytes = demand.job.chunk_bytes as f64;
        (lost <= most).then_some(MultiLossRepair { bytes, lost, helpers, is_mds, racks })
    }

    /// Whether each chunk may have helpers of its own, so that less crosses between racks: true of
    /// local codes, though more is sent.
    pub fn may_be_apart(&self) -> bool {
        !self.is_mds
    }

    /// The same with each way to spread the chunks over racks; none if there are too many.
    fn spreads(&self) -> Vec<MultiLossRepair> {
        let mut spreads = vec![self.clone()];
        for at in 0..self.racks.len() {
            let most = |repair: &MultiLossRepair| repair.racks[at].kept.1;
            spreads = spreads
                .iter()
                .flat_map(|repair| (0..=most(repair)).map(move |kept| repair.keeping(at, kept)))
                .filter(MultiLossRepair::is_possible)
                .collect();
            if spreads.len() > SPREADS_MAX {
                return Vec::new();
            }
        }
        spreads
    }

    /// The same where the rack at a place keeps so many.
    fn keeping(&self, at: usize, kept: usize) -> MultiLossRepair {
        let mut repair = self.clone();
        repair.racks[at].kept = (kept, kept);
        repair
    }

    /// Whether racks may keep all chunks, and need not keep more.
    fn is_possible(&self) -> bool {
        let sum = |kept: fn(&MultiLossRack) -> usize| self.racks.iter().map(kept).sum::<usize>();
        sum(|rack| rack.kept.0) <= self.lost && self.lost <= sum(|rack| rack.kept.1)
    }

    /// Sums that are compared to find the cheapest option.
    pub fn comparisons(&self) -> usize {
        let choices = |rack: &MultiLossRack| {
            (rack.holders.len() - rack.forced + 1) * (rack.kept.1 - rack.kept.0 + 1)
        };
        self.states() * self.racks.iter().map(choices).sum::<usize>()
    }

    /// Helpers and destinations of the racks so far, and how many more messages leave than arrive.
    fn states(&self) -> usize {
        (self.helpers + 1) * (self.lost + 1) * self.balances()
    }

    fn balances(&self) -> usize {
        self.helpers + self.lost + 1
    }
}

impl MultiLossRack {
    fn of<'a>(
        node: u32,
        racks: &'a mut Vec<MultiLossRack>,
        ports: &Ports,
    ) -> &'a mut MultiLossRack {
        let rack = ports.rack(node);
        let at = racks.iter().position(|known| known.rack == rack).unwrap_or(racks.len());
        if at == racks.len() {
            let (holders, destinations) = (Vec::new(), Vec::new());
            let crossings = Crossings::of_unknown(0, 0);
            racks.push(MultiLossRack {
                rack,
                holders,
                forced: 0,
                destinations,
                kept: (0, 0),
                crossings,
            });
        }
        &mut racks[at]
    }
}

/// What messages cost at some prices, wherever they are cheapest.
pub(super) struct MultiLossCosts<'a> {
    ports: &'a Ports,
    prices: &'a Amounts,
    up: CheapestPort,
    down: CheapestPort,
    leaving: CheapestPort,
    arriving: CheapestPort,
}

/// The cheapest of some ports.
#[derive(Clone, Copy)]
struct CheapestPort {
    cost: f64,
    port: PortIndex,
}

/// How many of a rack help and how many chunks it keeps, at the end of the cheapest way to a state.
#[derive(Clone, Copy)]
struct MultiLossStep {
    cost: f64,
    helping: u8,
    kept: u8,
}

const NO_STEP: MultiLossStep = MultiLossStep { cost: f64::INFINITY, helping: 0, kept: 0 };

/// What a rack does for a repair.
#[derive(Clone, Copy, Debug)]
struct RackCounts {
    /// Its chunks that help.
    helping: usize,
    /// Rebuilt chunks that it keeps.
    kept: usize,
}

impl<'a> MultiLossCosts<'a> {
    /// `relays` may send and receive without a chunk.
    pub fn new(ports: &'a Ports, prices: &'a Amounts, relays: &[u32]) -> MultiLossCosts<'a> {
        let cheapest = |of: &mut dyn Iterator<Item = PortIndex>| {
            let priced = of.map(|port| CheapestPort { cost: prices.at(port), port });
            let least = priced.min_by(|a, b| a.cost.total_cmp(&b.cost));
            least.expect("somebody takes part")
        };
        let racks = || relays.iter().map(|node| ports.rack(*node));
        MultiLossCosts {
            ports,
            prices,
            up: cheapest(&mut relays.iter().map(|node| ports.up(*node))),
            down: cheapest(&mut relays.iter().map(|node| ports.down(*node))),
            leaving: cheapest(&mut racks().filter_map(|rack| ports.rack_up(rack))),
            arriving: cheapest(&mut racks().filter_map(|rack| ports.rack_down(rack))),
        }
    }

    /// Puts the cheapest option on `loads`, and returns what it costs.
    pub fn take_cheapest(&self, repair: &MultiLossRepair, loads: &mut Amounts) -> f64 {
        let racks: Vec<MultiLossPrices> =
            repair.racks.iter().map(|rack| MultiLossPrices::new(rack, repair, self)).collect();
        let steps = cheapest_steps(repair, &racks);
        let last = &steps[steps.len() - 1];
        let ends = (0..repair.balances()).map(|balance| {
            let state = repair.state(repair.helpers, repair.lost, balance);
            (last[state].cost + self.beyond(repair, balance).cost, balance)
        });
        let (cost, balance) = ends.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are balances");

        loads
            .add(self.beyond(repair, balance).port, self.left_over(repair, balance) * repair.bytes);
        loads.add(self.down.port, (repair.helpers - 1) as f64 * repair.bytes);
        loads.add(self.up.port, (repair.lost - 1) as f64 * repair.bytes);
        let (mut helpers, mut lost, mut balance) = (repair.helpers, repair.lost, balance);
        for (at, rack) in racks.iter().enumerate().rev() {
            let MultiLossStep { helping, kept, .. } =
                steps[at + 1][repair.state(helpers, lost, balance)];
            let (helping, kept) = (usize::from(helping), usize::from(kept));
            let crossing = rack.rack.crossings.at(helping, kept);
            let crossing = crossing.expect("a choice of the rack");
            rack.charge(RackCounts { helping, kept }, crossing, self.ports, |port, chunks| {
                loads.add(port, chunks as f64 * repair.bytes);
            });
            (helpers, lost) = (helpers - helping, lost - kept);
            balance = balance + crossing.arriving - crossing.leaving;
        }
        let messages =
            (repair.helpers - 1) as f64 * self.down.cost + (repair.lost - 1) as f64 * self.up.cost;
        (cost + messages) * repair.bytes
    }

    /// Messages that leave racks and are not known to arrive at one, or the other way round.
    fn left_over(&self, repair: &MultiLossRepair, balance: usize) -> f64 {
        balance.abs_diff(repair.lost) as f64
    }

    /// What these cost, at the cheapest rack.
    fn beyond(&self, repair: &MultiLossRepair, balance: usize) -> CheapestPort {
        let of = if balance > repair.lost { self.arriving } else { self.leaving };
        CheapestPort { cost: of.cost * self.left_over(repair, balance), ..of }
    }
}

impl MultiLossRepair {
    /// The number of a state; more messages leave than arrive by `balance` less the lost chunks.
    fn state(&self, helpers: usize, lost: usize, balance: usize) -> usize {
        (helpers * (self.lost + 1) + lost) * self.balances() + balance
    }
}

/// For each rack the cheapest ways to all states with the racks up to it, beginning with none.
fn cheapest_steps(
    repair: &MultiLossRepair,
    racks: &[MultiLossPrices<'_>],
) -> Vec<Vec<MultiLossStep>> {
    let mut steps = vec![vec![NO_STEP; repair.states()]];
    steps[0][repair.state(0, 0, repair.lost)].cost = 0.0;
    for rack in racks {
        let before = &steps[steps.len() - 1];
        let mut after = vec![NO_STEP; repair.states()];
        for choice in &rack.choices {
            let MultiLossChoice { helping, kept, leaving, arriving, cost } = *choice;
            for helpers in 0..=repair.helpers - helping {
                for lost in 0..=repair.lost - kept {
                    let from = repair.state(helpers, lost, 0);
                    let to = repair.state(helpers + helping, lost + kept, 0);
                    for balance in arriving.saturating_sub(leaving)..repair.balances() {
                        let next = balance + leaving - arriving;
                        let cost = before[from + balance].cost + cost;
                        if next < repair.balances() && cost < after[to + next].cost {
                            let (helping, kept) = (helping as u8, kept as u8);
                            after[to + next] = MultiLossStep { cost, helping, kept };
                        }
                    }
                }
            }
        }
        steps.push(after);
    }
    steps
}

/// A rack at some prices: nodes in the order in which they help and keep.
struct MultiLossPrices<'a> {
    rack: &'a MultiLossRack,
    holders: Vec<u32>,
    destinations: Vec<u32>,
    choices: Vec<MultiLossChoice>,
}

/// How many of a rack help, how many chunks it keeps, and what that costs with all that crosses.
#[derive(Clone, Copy)]
struct MultiLossChoice {
    helping: usize,
    kept: usize,
    leaving: usize,
    arriving: usize,
    cost: f64,
}

impl<'a> MultiLossPrices<'a> {
    fn new(
        rack: &'a MultiLossRack,
        repair: &MultiLossRepair,
        costs: &MultiLossCosts<'_>,
    ) -> MultiLossPrices<'a> {
        let MultiLossCosts { ports, prices, .. } = costs;
        let sending = |node: &u32| prices.at(ports.up(*node)) + prices.at(ports.read(*node));
        let keeping = |node: &u32| prices.at(ports.down(*node)) + prices.at(ports.write(*node));
        let (mut holders, mut destinations) = (rack.holders.clone(), rack.destinations.clone());
        holders[rack.forced..].sort_by(|a, b| sending(a).total_cmp(&sending(b)));
        destinations.sort_by(|a, b| keeping(a).total_cmp(&keeping(b)));
        let price = |port: Option<PortIndex>| port.map_or(0.0, |port| prices.at(port));
        let links = (price(ports.rack_up(rack.rack)), price(ports.rack_down(rack.rack)));
        let mut choices = Vec::new();
        for helping in rack.forced..=holders.len().min(repair.helpers) {
            for kept in rack.kept.0..=rack.kept.1 {
                let Some(Crossing { leaving, arriving }) = rack.crossings.at(helping, kept) else {
                    continue;
                };
                let cost = holders[..helping].iter().map(sending).sum::<f64>()
                    + destinations[..kept].iter().map(keeping).sum::<f64>()
                    + leaving as f64 * links.0
                    + arriving as f64 * links.1;
                choices.push(MultiLossChoice { helping, kept, leaving, arriving, cost });
            }
        }
        MultiLossPrices { rack, holders, destinations, choices }
    }

    /// Calls `add` for what so many helpers and destinations take, and what leaves and arrives.
    fn charge(
        &self,
        RackCounts { helping, kept }: RackCounts,
        Crossing { leaving, arriving }: Crossing,
        ports: &Ports,
        mut add: impl FnMut(PortIndex, usize),
    ) {
        for &node in &self.holders[..helping] {
            [ports.up(node), ports.read(node)].into_iter().for_each(|port| add(port, 1));
        }
        for &node in &self.destinations[..kept] {
            [ports.down(node), ports.write(node)].into_iter().for_each(|port| add(port, 1));
        }
        ports.rack_up(self.rack.rack).into_iter().for_each(|port| add(port, leaving));
        ports.rack_down(self.rack.rack).into_iter().for_each(|port| add(port, arriving));
    }
}

#[cfg(test)]
mod tests {
    use super::{Crossings, MultiLossCosts, MultiLossRack, MultiLossRepair};
    use crate::bound::search::Amounts;
    use crate::cluster::{Cluster, Core, Rate};
    use crate::id::RackId;
    use crate::plan::load::Load;
    use crate::planner::ports::Ports;
    use crate::planner::{Abilities, View};
    use crate::random::Random;

    /// Eight nodes in four racks, two in each.
    fn ports(cluster: &mut Cluster) -> Ports {
        cluster.racks = (0..4).map(|rack| format!("r{rack}")).collect();
        cluster.core = Some(Core { rack_uplink: Rate(1.0), rack_downlink: Rate(1.0) });
        for (at, node) in cluster.nodes.iter_mut().enumerate() {
            node.rack = Some(RackId(at as u32 / 2));
        }
        let (load, free) = (Load::new(cluster), vec![u64::MAX; 8]);
        let abilities = Abilities::NONE;
        Ports::new(&View { cluster, free_bytes: &free, load: &load, abilities })
    }

    /// Nodes hold a chunk, may keep one, or neither.
    fn arbitrary_repair(random: &mut Random) -> MultiLossRepair {
        let mut racks = Vec::new();
        for rack in 0..4u32 {
            let (mut holders, mut destinations) = (Vec::new(), Vec::new());
            for node in [2 * rack, 2 * rack + 1] {
                match random.below(5) {
                    0 => {}
                    1 | 2 => destinations.push(node),
                    _ => holders.push(node),
                }
            }
            let forced = random.index(holders.len() + 1);
            let kept = (0, random.index(destinations.len() + 1));
            let crossings = Crossings::of_unknown(0, 0);
            racks.push(MultiLossRack { rack, holders, forced, destinations, kept, crossings });
        }
        let least = racks.iter().map(|rack| rack.forced).sum::<usize>().max(1);
        let held = racks.iter().map(|rack| rack.holders.len()).sum::<usize>();
        let helpers = random.between(least as u64, held.max(least) as u64) as usize;
        let is_mds = random.below(4) > 0;
        for rack in &mut racks {
            rack.crossings = if is_mds {
                Crossings::of_any(helpers, 2, rack.holders.len())
            } else {
                Crossings::of_unknown(2, rack.holders.len())
            };
        }
        MultiLossRepair { bytes: 1.0, lost: 2, helpers, is_mds, racks }
    }

    /// The cost of the cheapest option, of all sets of nodes.
    fn least_cost(repair: &MultiLossRepair, prices: &Amounts, ports: &Ports) -> f64 {
        let least =
            |of: &dyn Fn(u32) -> f64, count| (0..count).map(of).fold(f64::INFINITY, f64::min);
        let (leaving, arriving) = (
            |rack| prices.at(ports.rack_up(rack).unwrap()),
            |rack| prices.at(ports.rack_down(rack).unwrap()),
        );
        let beside = (repair.helpers - 1) as f64 * least(&|node| prices.at(ports.down(node)), 8)
            + (repair.lost - 1) as f64 * least(&|node| prices.at(ports.up(node)), 8);
        let mut best = f64::INFINITY;
        for set in 0u32..1 << 8 {
            let (mut cost, mut helpers, mut lost, mut more) = (0.0, 0, 0, 0.0);
            let is_in = |node: &&u32| set >> **node & 1 == 1;
            let mut is_valid = true;
            for rack in &repair.racks {
                let helping: Vec<&u32> = rack.holders.iter().filter(is_in).collect();
                let keeping: Vec<&u32> = rack.destinations.iter().filter(is_in).collect();
                is_valid &= rack.holders[..rack.forced].iter().all(|node| helping.contains(&node))
                    && keeping.len() <= rack.kept.1.min(repair.lost);
                helpers += helping.len();
                lost += keeping.len();
                if !is_valid || lost > repair.lost || helpers > repair.helpers {
                    is_valid = false;
                    break;
                }
                for node in helping.iter().copied() {
                    cost += prices.at(ports.up(*node)) + prices.at(ports.read(*node));
                }
                for node in keeping.iter().copied() {
                    cost += prices.at(ports.down(*node)) + prices.at(ports.write(*node));
                }
                let crossing = rack.crossings.at(helping.len(), keeping.len()).unwrap();
                let (out, into) = (crossing.leaving as f64, crossing.arriving as f64);
                cost += out * leaving(rack.rack) + into * arriving(rack.rack);
                more += out - into;
            }
            if is_valid && (helpers, lost) == (repair.helpers, repair.lost) {
                let over = if more > 0.0 { least(&arriving, 4) } else { least(&leaving, 4) };
                best = best.min(cost + more.abs() * over + beside);
            }
        }
        best
    }

    #[test]
    fn no_sets_of_helpers_and_destinations_cost_less() {
        let mut cluster = Cluster::uniform(8, Rate(1.0));
        let ports = ports(&mut cluster);
        let mut random = Random::new(7);
        let mut found = 0;
        for _ in 0..2000 {
            let repair = arbitrary_repair(&mut random);
            let mut prices = Amounts::none(&ports);
            (0..ports.count()).for_each(|port| prices.add(port, random.below(20) as f64));
            let least = least_cost(&repair, &prices, &ports);
            if least.is_infinite() {
                continue;
            }
            found += 1;
            let mut loads = Amounts::none(&ports);
            let relays: Vec<u32> = (0..8).collect();
            let cost =
                MultiLossCosts::new(&ports, &prices, &relays).take_cheapest(&repair, &mut loads);
            assert_eq!(cost, least, "{:?}", prices);
            assert_eq!(loads.cost(&prices), cost, "{:?}", prices);
        }
        assert!(found > 500, "{found}");
    }
}
