//! Mistakes on purpose: each breaks one transition, so that a test can show that it is noticed.
//!
//! Place: beside the whole life of a repair. Only the simulator's test of its own checkers turns
//! the feature `mutants` on; without it no mistake can be asked for, and whether one is made is
//! answered by no at compile time.

/// A transition that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The coordinator keeps the memory of a repair that has ended.
    KeepMemory,
    /// It keeps the load of a repair that has ended.
    KeepLoad,
    /// It charges a plan twice.
    ChargeTwice,
    /// It does not tell the schedule of the end of a repair.
    KeepScheduled,
    /// It commits two chunks of a stripe at once.
    CommitAtOnce,
    /// It leaves a stripe in the queue that has a plan.
    KeepQueued,
    /// It forgets that a stripe is under repair.
    ForgetRepairing,
    /// It does not queue a stripe again whose attempt failed.
    ForgetFailed,
    /// It notes that a copy is bad and goes on counting on it.
    TrustBadCopy,
    /// It notes that a node has failed and goes on counting on its chunks.
    TrustFailedNode,
    /// The driver's clock goes back now and then.
    TimeBack,
    /// An agent does not count the memory of a task.
    UncountedMemory,
    /// It keeps the memory of a task that is over.
    KeepTaskMemory,
    /// It takes one more slice into memory than was reserved.
    WideWindow,
    /// It publishes a chunk when one of several lanes is done.
    PublishEarly,
    /// It begins a task again whose outcome it still repeats.
    BeginAgain,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 16] = [
        Mutant::KeepMemory,
        Mutant::KeepLoad,
        Mutant::ChargeTwice,
        Mutant::KeepScheduled,
        Mutant::CommitAtOnce,
        Mutant::KeepQueued,
        Mutant::ForgetRepairing,
        Mutant::ForgetFailed,
        Mutant::TrustBadCopy,
        Mutant::TrustFailedNode,
        Mutant::TimeBack,
        Mutant::UncountedMemory,
        Mutant::KeepTaskMemory,
        Mutant::WideWindow,
        Mutant::PublishEarly,
        Mutant::BeginAgain,
    ];
}

/// Which mistake is made, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mistake {
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

#[cfg(feature = "mutants")]
impl Mistake {
    pub fn of(mutant: Mutant) -> Mistake {
        Mistake { mutant: Some(mutant) }
    }

    pub fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

#[cfg(not(feature = "mutants"))]
impl Mistake {
    pub fn is(self, _: Mutant) -> bool {
        false
    }
}
