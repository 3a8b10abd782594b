//! Many seeds, each a cluster with faults of its own: first safety under faults, then liveness.
//!
//! Place: around the whole life of a repair, many times over.
//! A seed decides the topology, the code, the policy, the size of the slice memory, the
//! network_faults and the faults (`trial.rs`). While faults strike, the checkers watch for broken
//! rules; then everything that can be healed is healed, and everything that can be repaired must be
//! whole in bounded time. An assertion that fails in a state machine is a broken rule as well.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use suture_repair::time::{Span, Time};

use crate::disk::Safeguards;
use crate::fault::Coverage;
use crate::party::Party;
use crate::record::Records;
use crate::trial::Trial;
use crate::violation::Violation;
use crate::world::{Options, World};

/// How long the cluster may take to be well after the last fault. It allows for a few rounds of the
/// longest retry and inventory intervals and for one repair after the other in the smallest pools.
const LIVENESS: Span = Span::from_secs(90);

/// What to keep of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The first broken rule.
    Rules,
    /// Every message and fault, too.
    Log,
    /// The transcript of every machine, too.
    Machines,
}

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The seed of the trial.
    pub seed: u64,
    /// How often each kind of fault happened.
    pub coverage: Coverage,
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// Chunks rebuilt and committed.
    pub repaired: u64,
    /// Simulated nanoseconds from the last fault to a healthy cluster.
    pub healed_after: Span,
    /// What happened, line by line, when asked for.
    pub log: Vec<String>,
    /// The transcripts of all machines, when asked for.
    pub records: Option<Records>,
}

impl Verdict {
    /// The machine that broke the rule, with its transcript: the one in which an assertion failed,
    /// the agent that the rule names as the culprit, otherwise the coordinator.
    pub fn concerned(&self) -> Option<(Party, &str)> {
        let records = self.records.as_ref()?;
        let party = match self.violation.as_ref()? {
            Violation::Panic(_) => records.busy()?,
            Violation::WrongBytes { node, .. }
            | Violation::WrongLabel { node, .. }
            | Violation::Memory { node, .. }
            | Violation::BegunTwice(node)
            | Violation::Leak { node, .. } => Party::Agent(*node),
            _ => Party::Coordinator,
        };
        records.all().find(|(of, _)| *of == party)
    }
}

/// The cluster that a seed stands for.
pub fn options(seed: u64, safeguards: Safeguards) -> Options {
    crate::trial::options(seed, safeguards)
}

/// Runs one seed. With `logged`, remembers every message and fault.
pub fn run(seed: u64, safeguards: Safeguards, logged: bool) -> Verdict {
    let watch = if logged { Watch::Log } else { Watch::Rules };
    run_trial(&Trial::of(seed, safeguards), watch)
}

/// Runs one trial to its end, or to its first broken rule.
pub fn run_trial(trial: &Trial, watch: Watch) -> Verdict {
    let records = (watch == Watch::Machines).then(Records::default);
    let mut world = World::recorded(trial.options.clone(), records);
    world.log = (watch == Watch::Log).then(Vec::new);
    judge(world, trial)
}

/// Runs one seed with all machines making a mistake.
#[cfg(feature = "mutants")]
pub fn run_mutant(seed: u64, mutant: suture_repair::mutant::Mutant) -> Verdict {
    let trial = Trial::of(seed, Safeguards::ALL);
    let mut world = World::new(trial.options.clone());
    world.mutate(mutant);
    judge(world, &trial)
}

/// Runs a cluster to its end. A panic of coordinator or agents is a broken rule like any other.
fn judge(mut world: World, trial: &Trial) -> Verdict {
    let lived = catch_unwind(AssertUnwindSafe(|| live(&mut world, trial)));
    let healed_after = lived.unwrap_or_else(|panic| {
        world.fail(Violation::Panic(panic_message(&*panic)));
        Span::ZERO
    });
    world.count_failed_calls();
    Verdict {
        seed: trial.options.seed,
        coverage: world.coverage.clone(),
        repaired: world.published_count(),
        violation: world.violation.take(),
        healed_after,
        log: world.log.take().unwrap_or_default(),
        records: world.records.take(),
    }
}

/// Faults strike, then stop. Returns how long after that all is well.
fn live(world: &mut World, trial: &Trial) -> Span {
    trial.populate(world);
    world.start_coordinator();
    world.schedule_faults(trial.network_faults, &trial.faults);
    world.run(Time::ZERO + trial.lasts);
    recover(world)
}

/// What a panic that was caught says.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
    text.unwrap_or_else(|| "a panic without a message".to_string())
}

/// Heals everything and waits until all is well.
fn recover(world: &mut World) -> Span {
    let healed = world.now;
    world.heal();
    let mut step = 0;
    while world.violation.is_none() {
        world.run(world.now + Span::from_millis(500));
        step += 1;
        // Where there are scrubs, they alone must find what lies damaged.
        if step % 4 == 1 && !world.options.scrubs {
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
