//! Agents execute any valid plan of partial sums: several lanes, periods, pure relays, spooled
//! relays, in memory that only just suffices.

use suture_repair::budget::{SLICE_BYTES_MIN, preferred_slice};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp};
use suture_repair::message::{Task, ToAgent};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::{Mode, Plan, StripeFacts};
use suture_repair::random::Random;
use suture_repair::time::{Span, Time};
use suture_sim::disk::Nets;
use suture_sim::swarm;
use suture_sim::world::{Options, World};

const NODES: usize = 12;

/// One plan on a cluster of its own; returns what made it special.
fn execute(seed: u64) -> (usize, bool, bool) {
    let random = &mut Random::new(seed);
    let code =
        random.choose(&["rs(2,1)", "rs(3,2)", "rs(4,2)", "rs(6,3)"]).parse().expect("a code");
    let options =
        Options { nodes: NODES, code, pool_bytes: 64 << 20, ..swarm::options(seed, Nets::ALL) };
    let mut world = World::new(options);
    let mut on: Vec<NodeId> = world.nodes().collect();
    random.shuffle(&mut on);
    on.truncate(code.chunk_count());
    let bytes = 64 * random.between(1, 900);
    let stripe = world.truth.write(random, code, bytes, &on);
    let lost = ChunkIndex(random.index(code.chunk_count()) as u8);
    for chunk in stripe.indices().filter(|chunk| *chunk != lost) {
        world.write_copy(&stripe, chunk);
    }
    let home = |chunk: ChunkIndex| (chunk, on[usize::from(chunk.0)]);
    let survivors: Vec<(ChunkIndex, NodeId)> =
        stripe.indices().filter(|chunk| *chunk != lost).map(home).collect();
    let facts = StripeFacts { stripe: stripe.id, code, chunk_bytes: bytes, survivors: &survivors };
    let sums_only = |plan: &Plan| plan.lanes.iter().all(|lane| lane.decoder.is_none());
    let plan = (0..1000).map(|_| arbitrary_plan(random, &facts, NODES)).find(sums_only);
    let plan = plan.expect("one in a few plans has no decoder");
    let whole = plan.range.bytes() == bytes;
    let repair = RepairId::new(1, seed as u32 + 1);
    let slice_bytes =
        if seed.is_multiple_of(2) { preferred_slice(bytes) } else { SLICE_BYTES_MIN / 4 };
    let window = random.between(1, 8) as u32;
    let task = Task { repair, stripe, plan: plan.clone(), slice_bytes, window };
    for node in plan.participants() {
        world.tell(node, ToAgent::Dispatch(Box::new(task.clone())));
    }
    world.run(Time::ZERO + Span::from_secs(3));
    assert_eq!(world.violation, None, "seed {seed}: {plan:?}");
    let copy = ChunkCopy { stripe: plan.stripe, chunk: lost, stamp: Stamp::from(repair) };
    let published = world.holds(plan.destinations[&lost], copy);
    assert_eq!(published, whole, "seed {seed}: a whole chunk is published, a part never: {plan:?}");
    for node in world.nodes() {
        assert_eq!(world.reserved_bytes(node), 0, "seed {seed}: {node} is done with it");
    }
    let stored = plan.lanes.iter().any(|lane| lane.mode == Mode::Stored);
    (plan.lanes.len(), stored && published, plan.period.is_some() && published)
}

#[test]
fn agents_execute_any_valid_plan_of_partial_sums() {
    let special: Vec<_> = (0..400).map(execute).collect();
    assert!(special.iter().any(|(lanes, ..)| *lanes > 2), "several lanes were tried");
    assert!(special.iter().any(|(_, stored, _)| *stored), "spooled relays were tried");
    assert!(special.iter().any(|(.., period)| *period), "periods were tried");
}
