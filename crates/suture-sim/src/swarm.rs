//! Many seeds, each a cluster with a fate of its own: first safety under faults, then liveness.
//!
//! Place: beside the whole life of a repair.
//! A seed decides the topology, the code, the policy, the size of the slice memory, the weather
//! and the faults. While faults strike, the checkers watch for broken rules; then everything that
//! can be healed is healed, and everything that can be repaired must be whole in bounded time.

use std::panic::{AssertUnwindSafe, catch_unwind};

use suture_code::Code;
use suture_repair::id::NodeId;
use suture_repair::policy::Policy;
use suture_repair::random::Random;
use suture_repair::time::Span;

use crate::check::Violation;
use crate::disk::Nets;
use crate::fault::{self, Coverage, Weather};
use crate::world::{Options, World};

/// How long faults strike, in simulated time.
const SAFETY: Span = Span::from_secs(8);

/// How long the cluster may take to be well after the last fault. It allows for a few rounds of the
/// longest retry and inventory intervals and for one repair after the other in the smallest pools.
const LIVENESS: Span = Span::from_secs(90);

/// Sizes that are quick to run and still have several slices.
const CODES: [&str; 9] = [
    "rs(2,1)",
    "rs(2,2)",
    "rs(3,2)",
    "rs(4,2)",
    "rs(6,3)",
    "rs(1,2)",
    "lrc(4,2,2)",
    "butterfly(3)",
    "clay(3,2,4)",
];

/// Those that serve every code first.
const POLICIES: [&str; 12] = [
    "suture",
    "cr",
    "mix/flow/slots",
    "star/random/slots:2",
    "star/random/adaptive",
    "mix/flow/phases:1:by-time",
    "ppr",
    "rp",
    "chain/greedy/window:2",
    "ppr/greedy/slots:by-node",
    "chain/greedy/waves",
    "tunable/chameleon/phases:1",
];

/// How many of the policies serve codes whose repair is not a sum of whole chunks.
const POLICIES_FOR_SUB_CHUNKS: usize = 6;

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The seed.
    pub seed: u64,
    /// What was exercised.
    pub coverage: Coverage,
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// Chunks rebuilt and committed.
    pub repaired: u64,
    /// Simulated nanoseconds from the last fault to a healthy cluster.
    pub healed_after: Span,
    /// What happened, line by line, when asked for.
    pub trace: Vec<String>,
}

/// The cluster that a seed stands for.
pub fn options(seed: u64, nets: Nets) -> Options {
    let random = &mut Random::new(seed ^ 0x5077_a413);
    let code: Code = random.choose(&CODES).parse().expect("a known code");
    let serving = if code.sub_chunk_count() > 1 { POLICIES_FOR_SUB_CHUNKS } else { POLICIES.len() };
    let policy: Policy = random.choose(&POLICIES[..serving]).parse().expect("a known policy");
    let nodes = code.chunk_count() + random.between(0, 4) as usize;
    let smallest = World::smallest_pool(code);
    let pool_bytes = match random.below(3) {
        0 => smallest,
        1 => smallest * random.between(2, 5),
        _ => 4 << 20,
    };
    let losses = random.per_mille(100);
    Options { seed, nodes, code, policy, pool_bytes, disk_bytes: 8 << 20, losses, nets }
}

/// Runs one seed. With `traced`, remembers every message and fault.
pub fn run(seed: u64, nets: Nets, traced: bool) -> Verdict {
    judge(World::new(options(seed, nets)), traced)
}

/// Runs one seed with everyone making a mistake.
#[cfg(feature = "mutants")]
pub fn run_mutant(seed: u64, mutant: suture_repair::mutant::Mutant) -> Verdict {
    let mut world = World::new(options(seed, Nets::ALL));
    world.mutate(mutant);
    judge(world, false)
}

/// Lets a cluster live its life. A panic of coordinator or agents is a broken rule like any other.
fn judge(mut world: World, traced: bool) -> Verdict {
    world.trace = traced.then(Vec::new);
    let lived = catch_unwind(AssertUnwindSafe(|| live(&mut world)));
    let healed_after = lived.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        world.fail(Violation::Panic(message.unwrap_or_default()));
        Span::ZERO
    });
    Verdict {
        seed: world.options.seed,
        coverage: world.coverage.clone(),
        repaired: world.published_count(),
        violation: world.violation.take(),
        healed_after,
        trace: world.trace.take().unwrap_or_default(),
    }
}

/// Faults strike, then stop. Returns how long after that all is well.
fn live(world: &mut World) -> Span {
    populate(world);
    world.start_coordinator();
    let mut random = Random::new(world.options.seed ^ 0xfa17);
    let faults = fault::schedule(&mut random, SAFETY);
    world.brew(Weather::random(&mut random), &faults);
    let began = world.now;
    world.run(began + SAFETY);
    recover(world)
}

/// Fills the cluster with stripes.
fn populate(world: &mut World) {
    let code = world.options.code;
    let mut random = Random::new(world.options.seed ^ 0xda7a);
    for _ in 0..random.between(2, 10) {
        let mut on: Vec<NodeId> = world.nodes().collect();
        random.shuffle(&mut on);
        on.truncate(code.chunk_count());
        let bytes = 64 * random.between(1, 400);
        let bytes = bytes.next_multiple_of(code.alignment() as u64);
        let stripe = world.truth.write(&mut random, code, bytes, &on);
        world.store(&stripe);
        world.truth.stripes.insert(stripe.id, stripe);
    }
}

/// Heals everything and waits until all is well.
fn recover(world: &mut World) -> Span {
    let healed = world.now;
    world.heal();
    let mut step = 0;
    while world.violation.is_none() {
        world.run(world.now + Span::from_millis(500));
        step += 1;
        if step % 4 == 1 {
            world.read_everything();
        }
        let unwell = world.unwell();
        if unwell.is_none() {
            break;
        }
        if world.now.since(healed) > LIVENESS {
            world.violation = unwell;
        }
    }
    world.now.since(healed)
}
