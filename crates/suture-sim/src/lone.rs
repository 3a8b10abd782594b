//! A lone fault: one machine is lost in the middle of repairs, and nothing else goes wrong.
//!
//! Place: ... dispatch -> [slices flow -> a helper is lost -> by another plan] -> chunk proven ...
//! In the swarm something is always wrong with some node, and the repair of a small chunk is over
//! before a fault meets it. So what only goes wrong between nodes that are well is looked for here:
//! chunks of a stripe are lost together, a helper of their repair is lost among slices, and the
//! others must do without it and never stand still (`world/stalls.rs`).

use suture_code::Code;
use suture_repair::event::{Command, Input, Liveness};
use suture_repair::id::{NodeId, RepairId};
#[cfg(feature = "mutants")]
use suture_repair::mutant::Mutant;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::slice::SLICE_BYTES_MIN;
use suture_repair::time::{Span, Time};

use crate::disk::Safeguards;
use crate::fault::Kind;
use crate::violation::Violation;
use crate::world::{Options, World};

/// Those that can lose one more than is lost at first.
const CODES: [&str; 4] = ["rs(2,4)", "rs(3,4)", "rs(4,4)", "rs(6,4)"];

/// None of them gates: where edges flow one by one no repair goes on by another plan.
const POLICIES: [&str; 5] = ["star/greedy/all", "mix/flow/all", "suture", "cr", "ppr"];

/// Beside those that hold chunks: a place for each chunk that is lost, and one more.
const SPARE_NODES: usize = 5;

/// Stripes, each of them on the first nodes.
const STRIPES: usize = 2;

/// Chunks that each of them loses at first, those of the first nodes. They are made at as many
/// destinations, which are not equally far when a helper is lost.
pub const LOST: u32 = 3;

/// As many slices as a large chunk has.
const CHUNK_BYTES: u64 = 64 * SLICE_BYTES_MIN as u64;

/// Until the start of agents and coordinator excuses nothing any more.
const CALM: Span = Span::from_secs(5);

/// A step: a few slices.
const STEP: Span = Span { ns: 100_000 };

/// The repair has begun by then, and has come far enough.
const BEGUN: Span = Span::from_secs(2);

/// By then everything has stalled that does, and was repaired anew.
const REST: Span = Span::from_secs(12);

/// Longer than it is looked on.
const FOREVER: Span = Span::from_secs(60);

/// What became of one cluster.
#[derive(Clone, Debug)]
pub struct Lone {
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// How many repairs went on by another plan.
    pub went_on: u64,
    /// Chunks rebuilt and published.
    pub rebuilt: u64,
}

/// Runs the cluster of a seed to its end.
///
/// # Panics
/// An invariant of coordinator or agents is broken.
pub fn run(seed: u64) -> Lone {
    live(cluster(seed), seed)
}

/// Likewise, with all machines making a mistake.
///
/// # Panics
/// An invariant of coordinator or agents is broken.
#[cfg(feature = "mutants")]
pub fn run_mutant(seed: u64, mutant: Mutant) -> Lone {
    let mut world = cluster(seed);
    world.mutate(mutant);
    live(world, seed)
}

/// A cluster without stripes and without a coordinator.
pub(crate) fn cluster(seed: u64) -> World {
    let random = &mut Random::new(seed ^ 0x104e);
    let code: Code = random.choose(&CODES).parse().expect("a known code");
    let policy: Policy = random.choose(&POLICIES).parse().expect("a known policy");
    World::new(Options {
        seed,
        nodes: code.chunk_count() + SPARE_NODES,
        code,
        policy,
        pool_bytes: 16 << 20,
        disk_bytes: 64 << 20,
        losses: false,
        claims: false,
        racks: 0,
        unrecorded: false,
        odd: false,
        liveness: Liveness::Own,
        scrubs: false,
        rebalances: false,
        safeguards: Safeguards::ALL,
    })
}

fn live(mut world: World, seed: u64) -> Lone {
    let random = &mut Random::new(seed ^ 0x57a1);
    store(&mut world, random);
    world.start_coordinator();
    world.run(Time::ZERO + CALM);
    lose_chunks(&mut world);
    strike(&mut world, random);
    world.run(world.now + REST);
    Lone {
        went_on: world.coverage.of(Kind::GoneOn),
        rebuilt: world.published_count(),
        violation: world.violation.take(),
    }
}

/// The stripes that lose chunks.
fn store(world: &mut World, random: &mut Random) {
    let code = world.options.code;
    let on: Vec<NodeId> = world.nodes().take(code.chunk_count()).collect();
    for _ in 0..STRIPES {
        let stripe = world.metadata.write(random, code, CHUNK_BYTES, &on);
        world.store(&stripe);
        world.metadata.publish(stripe);
    }
}

/// All are lost before any is planned for, so that one plan has several destinations.
fn lose_chunks(world: &mut World) {
    let failed = (0..LOST).map(|node| Command::FailNode(NodeId(node)));
    let commands = std::iter::once(Command::Pause).chain(failed).chain([Command::Resume]);
    commands.for_each(|command| world.coordinator_input(Input::Operator(command)));
}

/// A helper is lost once so much has come as chance wills. It may be too late for that.
fn strike(world: &mut World, random: &mut Random) {
    let wanted = random.below(CHUNK_BYTES * 3 / 4);
    let until = world.now + BEGUN;
    while world.now < until && world.violation.is_none() {
        world.run(world.now + STEP);
        let Some((repair, destinations)) = in_flight(world, wanted) else { continue };
        let helpers = helpers(world, repair, &destinations);
        if !helpers.is_empty() {
            let helper = *random.choose(&helpers);
            // A process that dies is missed at once, while slices of others are on their way.
            return match random.below(4) {
                0 => world.vanish_for(helper, FOREVER),
                1 => world.kill_link_of(helper, FOREVER),
                _ => world.crash_for(helper, FOREVER),
            };
        }
    }
}

/// The first repair that runs and its destinations, if each of these has so many bytes.
fn in_flight(world: &World, wanted: u64) -> Option<(RepairId, Vec<NodeId>)> {
    let running = world.coordinator()?.status().running;
    let repair = running.first()?.repair;
    let of_repair = running.iter().filter(|line| line.repair == repair);
    let destinations: Vec<NodeId> = of_repair.map(|line| line.destination).collect();
    let has_enough = |node: &NodeId| {
        let running = world.status(*node).running;
        running.iter().any(|(id, bytes)| *id == repair && *bytes >= wanted)
    };
    destinations.iter().all(has_enough).then_some((repair, destinations))
}

/// The nodes that work for a repair and keep nothing of it.
fn helpers(world: &World, repair: RepairId, destinations: &[NodeId]) -> Vec<NodeId> {
    let works = |node: &NodeId| {
        let running = world.status(*node).running;
        !destinations.contains(node) && running.iter().any(|(id, _)| *id == repair)
    };
    world.nodes().filter(works).collect()
}
