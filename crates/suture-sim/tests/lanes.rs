//! Agents execute any valid plan: several lanes, sums and decoders, several lost chunks, periods,
//! pure relays, spooled results, in memory that only just suffices.

use suture_code::Code;
use suture_repair::budget::{SLICE_BYTES_MIN, preferred_slice};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp};
use suture_repair::message::{Task, ToAgent};
use suture_repair::plan::arbitrary::arbitrary_plan;
use suture_repair::plan::{Mode, StripeFacts};
use suture_repair::random::Random;
use suture_repair::time::{Span, Time};
use suture_sim::disk::Nets;
use suture_sim::swarm;
use suture_sim::world::{Options, World};

const NODES: usize = 12;

const CODES: [&str; 9] = [
    "rs(2,1)",
    "rs(3,2)",
    "rs(4,2)",
    "rs(6,3)",
    "rs-vandermonde(6,3)",
    "lrc(4,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
    "clay(3,2,4)",
];

/// What made a plan special.
#[derive(Default)]
struct Special {
    lanes: usize,
    is_stored: bool,
    is_periodic: bool,
    decodes: bool,
    has_traces: bool,
    lost: usize,
}

/// One plan on a cluster of its own.
fn execute(seed: u64) -> Special {
    let random = &mut Random::new(seed);
    let code: Code = random.choose(&CODES).parse().expect("a code");
    let options =
        Options { nodes: NODES, code, pool_bytes: 64 << 20, ..swarm::options(seed, Nets::ALL) };
    let mut world = World::new(options);
    let mut on: Vec<NodeId> = world.nodes().collect();
    random.shuffle(&mut on);
    on.truncate(code.chunk_count());
    let alignment = code.alignment() as u64;
    let bytes = (64 * random.between(1, 900)).next_multiple_of(alignment);
    let mut stripe = world.truth.write(random, code, bytes, &on);
    let lost_max = code.loss_tolerance().min(NODES - code.chunk_count()) as u64;
    let mut lost: Vec<ChunkIndex> = code.chunks().collect();
    random.shuffle(&mut lost);
    lost.truncate(random.between(1, lost_max) as usize);
    let survive = |chunk: &ChunkIndex| !lost.contains(chunk);
    code.chunks().filter(survive).for_each(|chunk| world.write_copy(&stripe, chunk));
    for chunk in &lost {
        stripe.chunks[usize::from(chunk.0)].node = None;
    }
    let home = |chunk: ChunkIndex| (chunk, on[usize::from(chunk.0)]);
    let survivors: Vec<(ChunkIndex, NodeId)> = code.chunks().filter(survive).map(home).collect();
    let facts = StripeFacts { stripe: stripe.id, code, chunk_bytes: bytes, survivors: &survivors };
    let plan = arbitrary_plan(random, &facts, NODES);
    let whole = plan.range.bytes() == bytes;
    let repair = RepairId::new(1, seed as u32 + 1);
    let slice_bytes = match seed.is_multiple_of(2) {
        true => preferred_slice(bytes, alignment as u32),
        false => (SLICE_BYTES_MIN / 4).next_multiple_of(alignment as u32),
    };
    let window = random.between(1, 8) as u32;
    let task = Task { repair, stripe, plan: plan.clone(), slice_bytes, window };
    for node in plan.participants() {
        world.tell(node, ToAgent::Dispatch(Box::new(task.clone())));
    }
    world.run(Time::ZERO + Span::from_secs(3));
    assert_eq!(world.violation, None, "seed {seed}: {plan:?}");
    for &chunk in &plan.lost {
        let copy = ChunkCopy { stripe: plan.stripe, chunk, stamp: Stamp::from(repair) };
        let published = world.holds(plan.destinations[&chunk], copy);
        let rule = "a whole chunk is published, a part never";
        assert_eq!(published, whole, "seed {seed}: {code}: {rule}: {plan:?}");
    }
    for node in world.nodes() {
        assert_eq!(world.reserved_bytes(node), 0, "seed {seed}: {node} is done with it");
    }
    if !whole {
        return Special::default();
    }
    Special {
        lanes: plan.lanes.len(),
        is_stored: plan.lanes.iter().any(|lane| lane.mode == Mode::Stored),
        is_periodic: plan.period.is_some(),
        decodes: plan.lanes.iter().any(|lane| lane.decoder.is_some()),
        has_traces: plan.lanes.iter().any(|lane| lane.scheme.is_some()),
        lost: plan.lost.len(),
    }
}

#[test]
fn agents_execute_any_valid_plan() {
    let special: Vec<Special> = (0..1000).map(execute).collect();
    let tried = |rule: fn(&Special) -> bool| special.iter().filter(|plan| rule(plan)).count() >= 10;
    assert!(tried(|plan| plan.lanes > 2), "several lanes");
    assert!(tried(|plan| plan.is_stored), "spooled results");
    assert!(tried(|plan| plan.is_periodic), "periods");
    assert!(tried(|plan| plan.decodes && plan.lost > 1), "decoders of several chunks");
    assert!(tried(|plan| plan.has_traces), "traces");
    assert!(tried(|plan| !plan.decodes), "sums");
}
