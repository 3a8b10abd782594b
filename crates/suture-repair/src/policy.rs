//! A policy by name: shape / balance / schedule, as closed sets, and the presets that people type.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! The shape decides how helpers are joined to a tree, the balance which nodes help and which
//! receive, the schedule what runs when. Every published algorithm is one triple, so that they can
//! be crossed.
//!
//! Every triple parses (`policy/name.rs`); what does not fit together is refused by
//! `Policy::plannable`, with the reason (`policy/fit.rs`). Planning ignores the schedule.
//! To add one: a variant, a row of its table, an arm in `planner.rs`.

mod fit;
mod name;

pub use fit::PolicyFault;
pub use name::{PolicyError, PolicyPart};

/// How a batch of repairs is planned and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How helpers are joined to a tree.
    pub shape: Shape,
    /// Which nodes help and which receive.
    pub balance: Balance,
    /// Which repairs run when.
    pub schedule: Schedule,
}

/// How helpers are joined to a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All helpers send to the destination: conventional repair (CR).
    Star,
    /// Pairwise aggregation in rounds: PPR.
    Ppr,
    /// A chain, one helper after the other: repair pipelining (RP, ECPipe).
    Chain,
    /// The best of all trees, by trying them: PPT.
    Ppt,
    /// The tree whose slowest link is fastest: PivotRepair.
    Pivot,
    /// CAR: sums within racks, then across.
    Rack,
    /// Trees from how often each node receives: ChameleonEC.
    Tunable,
    /// Several trees for ranges of one chunk.
    Split,
    /// Traces wherever the code has a scheme.
    Trace,
    /// The best of what the agents can execute.
    Mix,
}

/// Which nodes help and which receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Any node, with equal chances.
    Random,
    /// The nodes that helped least recently; destinations take turns of their own.
    Lru,
    /// The nodes that were selected least recently, to help or to receive: RepairBoost's LRU.
    LruShared,
    /// Algorithm 1 of RepairBoost.
    RepairBoost,
    /// As few racks as possible: CAR. Evened out by so many iterations, or by as many as change
    /// something.
    Car(Option<u32>),
    /// CAR's baseline: its destinations, and helpers from any rack.
    CarRandom,
    /// The dispatch rule of ChameleonEC.
    Chameleon,
    /// ChameleonEC as its published code does it, with a partial sort.
    ChameleonArtifact,
    /// ChameleonEC with disks in the account.
    ChameleonIo,
    /// Exact balancing by augmenting paths.
    Flow,
    /// Least loaded first, repeated until nothing improves.
    Greedy,
}

/// Which repairs run when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// All repairs at once.
    All,
    /// At most so many repairs at a time; `None` is the number of surviving nodes.
    Concurrency(Option<u32>),
    /// RepairBoost's slots by maximum flow; in subprocesses of so many chunks, if given.
    Slots(Option<u32>, Order),
    /// The adaptive admission of PivotRepair.
    Adaptive,
    /// ChameleonEC's phases of so many seconds.
    Phases(u32, Order),
    /// Waves that are balanced in themselves.
    Waves,
}

/// Which of the stripes that several failed nodes hit comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that can lose the fewest more chunks.
    Risk,
    /// All chunks of one failed node, then those of the next.
    Node,
    /// The one whose plan takes the least time by itself.
    Time,
}

/// The length of ChameleonEC's phases when none is given: the paper's default.
const PHASE_SECONDS: u32 = 20;

const PHASES: Schedule = Schedule::Phases(PHASE_SECONDS, Order::Risk);
const SLOTS: Schedule = Schedule::Slots(None, Order::Risk);

/// The presets, in the order in which they are shown: published ones first, ours last.
const PRESETS: &[(&str, Policy)] = &[
    ("cr", policy(Shape::Star, Balance::Random, Schedule::Concurrency(None))),
    ("ppr", policy(Shape::Ppr, Balance::Random, Schedule::Concurrency(None))),
    ("rp", policy(Shape::Chain, Balance::Random, Schedule::Concurrency(None))),
    ("ppt", policy(Shape::Ppt, Balance::Random, Schedule::Concurrency(None))),
    ("pivot", policy(Shape::Pivot, Balance::Random, Schedule::Adaptive)),
    ("car", policy(Shape::Rack, Balance::Car(None), Schedule::Concurrency(None))),
    ("chameleon", policy(Shape::Tunable, Balance::Chameleon, PHASES)),
    ("repairboost+cr", policy(Shape::Star, Balance::RepairBoost, SLOTS)),
    ("repairboost+ppr", policy(Shape::Ppr, Balance::RepairBoost, SLOTS)),
    ("repairboost+rp", policy(Shape::Chain, Balance::RepairBoost, SLOTS)),
    ("flow", policy(Shape::Split, Balance::Flow, Schedule::Waves)),
    ("suture", policy(Shape::Mix, Balance::Flow, Schedule::Waves)),
];

const fn policy(shape: Shape, balance: Balance, schedule: Schedule) -> Policy {
    Policy { shape, balance, schedule }
}

impl Policy {
    /// All presets with their names, published algorithms first.
    pub fn presets() -> impl Iterator<Item = (&'static str, Policy)> {
        PRESETS.iter().copied()
    }

    /// The policy under each of the schedules.
    pub fn under_every_schedule(self) -> impl Iterator<Item = Policy> {
        name::SCHEDULES.iter().map(move |&(_, schedule)| Policy { schedule, ..self })
    }
}

impl Schedule {
    /// Which stripes come first.
    pub fn order(self) -> Order {
        match self {
            Schedule::Slots(_, order) | Schedule::Phases(_, order) => order,
            _ => Order::Risk,
        }
    }
}
