//! That prices of a stripe's lanes are those of the cheapest, by trying all.
//!
//! Place: beside `../lanes.rs`.

use std::collections::{BTreeMap, BTreeSet};

use suture_code::{ChunkIndex, ChunkSet, Code};

use crate::bound::crossing::priced::Costs;
use crate::bound::crossing::stripe::RackedStripe;
use crate::bound::crossing::tree::Workspace;
use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand, with_batch};
use crate::cluster::{Cluster, Core, Rate};
use crate::id::{NodeId, RackId, StripeId};
use crate::plan::load::Load;
use crate::planner::ports::Ports;
use crate::planner::{Abilities, Job, View, rack_places};
use crate::random::Random;

use super::sets::helper_sets;
use super::{AskedSets, DestinationChoice, LaneStripe, alone};

/// A cluster in racks, and a job on it that lost some chunks.
fn arbitrary_world(code: &str, lost: usize, spare: usize, random: &mut Random) -> (Cluster, Job) {
    let code: Code = code.parse().unwrap();
    let node_count = code.chunk_count() + spare;
    let mut cluster = Cluster::uniform(node_count, Rate(1.0));
    let racks = random.between(2, 4) as u32;
    cluster.racks = (0..racks).map(|rack| format!("r{rack}")).collect();
    cluster.core = Some(Core { rack_uplink: Rate(1.0), rack_downlink: Rate(1.0) });
    let has_disks = random.per_mille(500);
    for node in &mut cluster.nodes {
        node.rack = Some(RackId(random.below(u64::from(racks)) as u32));
        if has_disks {
            (node.disk_read, node.disk_write) = (Some(Rate(1.0)), Some(Rate(1.0)));
        }
    }
    let mut nodes: Vec<NodeId> = cluster.ids().collect();
    random.shuffle(&mut nodes);
    let mut placed: Vec<(ChunkIndex, NodeId)> = code.chunks().zip(nodes).collect();
    random.shuffle(&mut placed);
    let (gone, survivors) = placed.split_at(lost);
    let (mut gone, mut survivors) = (gone.to_vec(), survivors.to_vec());
    gone.sort_unstable();
    survivors.sort_unstable();
    let avoid = survivors.iter().filter(|_| random.per_mille(50)).map(|(_, node)| *node);
    let job = Job {
        stripe: StripeId(0),
        code: code.into(),
        chunk_bytes: 1,
        lost: gone.iter().map(|(chunk, _)| *chunk).collect(),
        avoid: avoid.collect(),
        survivors,
        idle: Vec::new(),
        excluded: Vec::new(),
        keeper_places: Vec::new(),
        source: None,
    };
    (cluster, job)
}

/// What `ask` returns for the only job, if it can be repaired.
fn with_demand<T>(
    (cluster, job): (&Cluster, &Job),
    ask: impl FnOnce(&Demand<'_>, BatchDemands<'_>) -> T,
) -> Option<T> {
    let (load, free) = (Load::new(cluster), vec![u64::MAX; cluster.nodes.len()]);
    let view = View { cluster, free_bytes: &free, load: &load, abilities: Abilities::NONE };
    with_batch(std::slice::from_ref(job), &view, |batch| {
        batch.demands.first().map(|demand| ask(demand, batch))
    })
}

/// All sets that rebuild the chunks and would not without one of theirs, by trying each.
fn all_sets(demand: &Demand<'_>, lost: &[ChunkIndex]) -> BTreeSet<ChunkSet> {
    let job = demand.job;
    let all: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
    let every = (1u32..1 << all.len()).map(|set| {
        let chosen = (0..all.len()).filter(|at| set >> at & 1 == 1).map(|at| all[at]);
        chosen.collect::<Vec<ChunkIndex>>()
    });
    let valid = every.filter(|set| job.code.repair_dag(lost, set).is_ok());
    valid.map(|set| set.into_iter().collect::<ChunkSet>()).collect()
}

fn some_of(lost: &[ChunkIndex]) -> impl Iterator<Item = Vec<ChunkIndex>> {
    (1u8..1 << lost.len()).map(|set| {
        let chosen = (0..lost.len()).filter(|at| set >> at & 1 == 1).map(|at| lost[at]);
        chosen.collect::<Vec<ChunkIndex>>()
    })
}

#[test]
fn helper_sets_are_those_that_planners_may_take() {
    let mut random = Random::new(3);
    let mut found = 0;
    for code in ["lrc(2,1,2)", "lrc(4,2,1)", "lrc(4,2,2)", "lrc(2,2,2)", "lrc(3,1,3)"] {
        for lost in [2, 3] {
            for _ in 0..6 {
                let (cluster, job) = arbitrary_world(code, lost, 3, &mut random);
                with_demand((&cluster, &job), |demand, _| {
                    for some in some_of(&job.lost).filter(|some| some.len() > 1) {
                        let Some(sets) = helper_sets(demand, &some) else { continue };
                        found += 1;
                        assert_eq!(sets, all_sets(demand, &some), "{code} {some:?} {job:?}");
                    }
                });
            }
        }
    }
    assert!(found > 50, "{found}");
}

/// The cheapest of all lanes of some lost chunks, beside nodes that keep others.
fn least_cost(
    world: &TestWorld<'_>,
    lost: &[ChunkIndex],
    taken: &mut Vec<NodeId>,
    prices: &Amounts,
) -> f64 {
    let Some(first) = lost.first() else { return 0.0 };
    let mut best = f64::INFINITY;
    for group in some_of(lost).filter(|group| group.contains(first)) {
        let others: Vec<ChunkIndex> =
            lost.iter().copied().filter(|chunk| !group.contains(chunk)).collect();
        each_destinations(world, group.len(), &mut Vec::new(), taken, &mut |kept, taken| {
            let lane = match group.len() {
                1 => world.tree_cost(group[0], kept[0], prices),
                _ => world.gather_cost(&group, kept, prices),
            };
            best = best.min(lane + least_cost(world, &others, taken, prices));
        });
    }
    best
}

/// Calls `each` with all choices of so many other nodes that may keep chunks.
fn each_destinations(
    world: &TestWorld<'_>,
    count: usize,
    kept: &mut Vec<NodeId>,
    taken: &mut Vec<NodeId>,
    each: &mut impl FnMut(&[NodeId], &mut Vec<NodeId>),
) {
    if count == kept.len() {
        return each(&kept.clone(), taken);
    }
    for node in world.batch.view.cluster.ids() {
        let rack = |node: NodeId| world.batch.ports.rack(node.0);
        let TestWorld { demand, batch, .. } = world;
        let places = rack_places(demand.job, batch.view, batch.bytes);
        let held = taken.iter().filter(|other| rack(**other) == rack(node)).count();
        let has_place = places.get(rack(node) as usize).is_none_or(|places| held < *places);
        if taken.contains(&node) || !has_place || !world.demand.may_keep(node, world.batch.view) {
            continue;
        }
        kept.push(node);
        taken.push(node);
        each_destinations(world, count, kept, taken, each);
        kept.pop();
        taken.pop();
    }
}

struct TestWorld<'a> {
    demand: &'a Demand<'a>,
    batch: BatchDemands<'a>,
    stripe: &'a LaneStripe,
    relays: &'a [u32],
    sets: BTreeMap<Vec<ChunkIndex>, BTreeSet<ChunkSet>>,
}

impl TestWorld<'_> {
    fn tree_cost(&self, lost: ChunkIndex, into: NodeId, prices: &Amounts) -> f64 {
        let chunk = self.demand.job.lost.iter().position(|chunk| *chunk == lost).unwrap();
        let destination = self.stripe.destinations.iter().position(|node| *node == into.0).unwrap();
        let trees = &self.stripe.trees[self.stripe.tree_of[chunk]];
        let mut costs = Costs::new(self.batch.ports, prices, self.relays);
        let cost = |tree: &RackedStripe| {
            let loads = &mut prices.nothing();
            tree.take(Some(destination), &mut costs, &mut Workspace::default(), loads)
        };
        trees.sets.iter().map(cost).fold(f64::INFINITY, f64::min)
    }

    fn gather_cost(&self, group: &[ChunkIndex], kept: &[NodeId], prices: &Amounts) -> f64 {
        let ports = self.batch.ports;
        let price = |from: u32, to: u32| {
            let links = ports.crossing(from, to).into_iter().flatten();
            let links: f64 = links.map(|link| prices.at(link)).sum();
            let nodes = prices.at(ports.up(from)) + prices.at(ports.down(to));
            if from == to { 0.0 } else { links + nodes }
        };
        let holders = || self.demand.job.survivors.iter();
        let mut best = f64::INFINITY;
        for set in &self.sets[group] {
            for &decoder in self.relays {
                let held = holders().find(|(_, node)| node.0 == decoder);
                if held.is_some_and(|(chunk, _)| !set.contains(*chunk)) {
                    continue;
                }
                let helpers: Vec<u32> = set.iter().map(|c| self.demand.holder(c).0).collect();
                let into: f64 = helpers.iter().map(|node| price(*node, decoder)).sum();
                let read: f64 = helpers.iter().map(|node| prices.at(ports.read(*node))).sum();
                let out: f64 = kept.iter().map(|node| price(decoder, node.0)).sum();
                let written: f64 = kept.iter().map(|node| prices.at(ports.write(node.0))).sum();
                best = best.min(into + read + out + written);
            }
        }
        best
    }
}

#[test]
fn no_lanes_cost_less_whoever_helps_decodes_and_keeps() {
    let mut random = Random::new(5);
    let (mut found, mut exact) = (0, 0);
    for (code, lost) in [
        ("lrc(4,2,1)", 2),
        ("lrc(4,2,2)", 2),
        ("lrc(2,1,2)", 3),
        ("lrc(4,2,3)", 3),
        ("lrc(4,2,3)", 1),
    ] {
        for _ in 0..40 {
            let spare = random.between(1, 3) as usize;
            let (cluster, job) = arbitrary_world(code, lost, spare, &mut random);
            with_demand((&cluster, &job), |demand, batch| {
                let relays: Vec<u32> = (0..cluster.nodes.len() as u32).collect();
                let stripe = LaneStripe::new(demand, &mut AskedSets::default(), batch, &relays);
                let Some(stripe) = stripe else { return };
                let sets = |some: Vec<ChunkIndex>| {
                    let sets = helper_sets(demand, &some).unwrap();
                    (some, sets)
                };
                let sets = some_of(&job.lost).map(sets).collect();
                let world = TestWorld { demand, batch, stripe: &stripe, relays: &relays, sets };
                for _ in 0..5 {
                    found += 1;
                    let prices = arbitrary_prices(batch.ports, &mut random);
                    exact += usize::from(check_prices(&world, &prices));
                }
            });
        }
    }
    assert!(found > 300 && 10 * exact > 8 * found, "{exact} of {found}");
}

fn arbitrary_prices(ports: &Ports, random: &mut Random) -> Amounts {
    let mut prices = Amounts::none(ports);
    let idle = random.below(800) as u32;
    for port in (0..ports.count()).filter(|port| ports.rate(*port).is_finite()) {
        if !random.per_mille(idle) {
            prices.add(port, random.below(20) as f64);
        }
    }
    prices
}

/// Compares what is found with the cheapest of all; whether what is put on loads costs just that.
fn check_prices(world: &TestWorld<'_>, prices: &Amounts) -> bool {
    let TestWorld { demand, batch, stripe, relays, .. } = *world;
    let least = least_cost(world, &demand.job.lost, &mut Vec::new(), prices);
    let mut loads = Amounts::none(batch.ports);
    let mut costs = Costs::new(batch.ports, prices, relays);
    let mut workspace = Workspace::default();
    let any = stripe.any_destinations();
    let (cost, kept) = stripe.take_cheapest(&any, &mut costs, &mut workspace, &mut loads);
    assert!((cost - least).abs() < 1e-9, "{cost} {least} {:?}", demand.job);
    // A tree's price may be below every tree; that of a gather is exact.
    let put = loads.cost(prices);
    assert!(put > cost - 1e-9, "{put} {cost} {:?}", demand.job);
    // Those that keep the chunks may also be named.
    let chosen = DestinationChoice { chosen: kept.clone(), open: Vec::new(), order: Vec::new() };
    let mut again = Amounts::none(batch.ports);
    let named = stripe.take_cheapest(&chosen, &mut costs, &mut workspace, &mut again);
    assert!((named.0 - cost).abs() < 1e-9 && named.1 == kept, "{named:?} {cost} {kept:?}");
    (put - cost).abs() < 1e-9
}

/// The bound of the stripe by itself where just these keep its chunks.
fn seconds_of_set(world: &TestWorld<'_>, choice: DestinationChoice) -> f64 {
    let TestWorld { batch, stripe, relays, .. } = *world;
    let mut workspace = Workspace::default();
    let limits = SearchLimits { known: 0.0, enough: f64::INFINITY, steps: 20_000 };
    let search = Search::new(batch.ports, limits, |prices, loads| {
        let mut costs = Costs::new(batch.ports, prices, relays);
        stripe.take_cheapest(&choice, &mut costs, &mut workspace, loads).0
    });
    search.seconds_from_nothing()
}

#[test]
fn a_stripe_alone_takes_what_it_takes_with_the_best_set_of_destinations() {
    let mut random = Random::new(11);
    let mut found = 0;
    for _ in 0..30 {
        let spare = random.between(1, 3) as usize;
        let (mut cluster, job) = arbitrary_world("lrc(4,2,2)", 2, spare, &mut random);
        for node in &mut cluster.nodes {
            let rates = [(); 2].map(|()| Rate(0.1 * random.between(1, 10) as f64));
            [node.uplink, node.downlink] = rates;
        }
        with_demand((&cluster, &job), |demand, batch| {
            let relays: Vec<u32> = (0..cluster.nodes.len() as u32).collect();
            let stripe = LaneStripe::new(demand, &mut AskedSets::default(), batch, &relays);
            let Some(stripe) = stripe else { return };
            let sets = BTreeMap::new();
            let world = TestWorld { demand, batch, stripe: &stripe, relays: &relays, sets };
            let count = stripe.destinations.len();
            let pairs = (0..count).flat_map(|a| (0..a).map(move |b| vec![b, a]));
            let ordered = pairs.flat_map(|pair| {
                [[0, 1], [1, 0]].map(|order| DestinationChoice {
                    chosen: pair.clone(),
                    open: Vec::new(),
                    order: order.into(),
                })
            });
            let possible = ordered.filter(|choice| stripe.is_possible(choice, batch.ports));
            let seconds = possible.map(|choice| seconds_of_set(&world, choice));
            let least = seconds.fold(f64::INFINITY, f64::min);
            let alone = alone::seconds(std::slice::from_ref(&stripe), batch.ports, &relays, 0.0);
            assert!(alone < least * 1.002 && alone > least * 0.98, "{alone} {least} {job:?}");
            found += 1;
        });
    }
    assert!(found > 20, "{found}");
}
