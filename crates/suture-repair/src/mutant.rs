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
    /// It lets a node move more for repairs than its cap.
    ExceedCap,
    /// It charges a plan twice.
    ChargeTwice,
    /// It does not notify the schedule of the end of a repair.
    KeepScheduled,
    /// It reserves memory that others hold.
    OverAdmit,
    /// It reserves nothing at one of the participants.
    ReserveLess,
    /// It starts nothing while nothing runs.
    StartNothing,
    /// It lets a plan wait twice.
    WaitTwice,
    /// It leaves a plan waiting that it has started.
    KeepWaiting,
    /// It commits two chunks of a stripe at once.
    CommitAtOnce,
    /// It does not ask for the next location when one was changed.
    ForgetNext,
    /// It takes a location for changed before the metadata has acknowledged it.
    AssumeCommit,
    /// It leaves a stripe in the queue that has a plan.
    KeepQueued,
    /// It leaves a stripe asleep that it has woken.
    KeepAsleep,
    /// It forgets that a stripe is under repair.
    ForgetRepairing,
    /// It does not queue a stripe again whose attempt failed.
    ForgetFailed,
    /// It notes that a copy is bad and goes on counting on it.
    TrustBadCopy,
    /// It notes that a node has failed and goes on counting on its chunks.
    TrustFailedNode,
    /// It keeps the time of a copy that does not wait to be read again any more.
    KeepDue,
    /// It forgets that the operator declared a node failed.
    ForgetDeclared,
    /// It takes a node for dead that the operator lets be silent.
    ForgetPause,
    /// It takes a node for cut off that another one has reached.
    KeepCutOff,
    /// It gives chunks to nodes that are emptied or may be silent.
    GiveAnyway,
    /// It does not rebuild what is away of a stripe that could lose no more.
    WaitAtRisk,
    /// It moves chunks of stripes that lack others.
    MoveFirst,
    /// It lets chunks move to emptier nodes while others are lost.
    MoveWhileLost,
    /// It takes the time in which it slept for the silence of others.
    CountSleep,
    /// It uses a node that has not introduced itself.
    TrustUnknown,
    /// It keeps a stripe among those that lack chunks that was removed.
    KeepLost,
    /// It puts a chunk where another chunk of its stripe is recorded.
    ShareNode,
    /// It does not notice that a node is in another rack.
    KeepRack,
    /// It orders a copy away before the one that replaces it was read.
    DeleteUnread,
    /// It makes a found copy the location of its chunk before it was read.
    AdoptUnread,
    /// It takes copies for what they are called, whatever their length and checksum.
    TrustNames,
    /// It has a node do one thing more at a time than the node may.
    AskBeyond,
    /// It lists again what a node is doing already.
    ListTwice,
    /// It does not notice that a check was answered.
    ForgetAnswer,
    /// It has a node read one copy more for a pass at a time than the node may.
    ScrubBeyond,
    /// It counts a stripe as read by a pass though no copy of it was read.
    SkipStripe,
    /// It takes a copy for gone that a node was to delete.
    TrustDelete,
    /// It takes copies of stripes that it knows nothing of for orphans, even if others stored them.
    DeleteUnknown,
    /// It goes on in an epoch that agents have outgrown.
    KeepEpoch,
    /// It does not count the stripes that a rack could take with it.
    MissCrowded,
    /// It keeps ids that others gave out in two ranges that touch.
    SplitRanges,
    /// It compares the chunks of a stripe twice at a time.
    CompareTwice,
    /// It counts chunks as lost that are known to be zero.
    LoseZeros,
    /// It orders the copy away that was read, in place of the one in excess.
    DeleteRead,
    /// It moves chunks from the emptiest nodes, whatever their share.
    MoveTooMuch,
    /// It never sends again what a node does not answer.
    AskOnce,
    /// It lets a copy of no use wait to be read again.
    ReadCondemned,
    /// It does not have the keeper record what is wrong with a copy.
    LeaveUnrecorded,
    /// It lets a transmission that flows be released once more.
    KeepReady,
    /// It plans as if nodes were in no racks.
    PlanAnywhere,
    /// It plans as if nodes had space for everything.
    PlanBeyondSpace,
    /// It loses one of the plans of a batch.
    LosePlan,
    /// It has slices of a length that the code cannot be cut by.
    OddSlices,
    /// It limits repairs where the operator wants no limit.
    LimitUnasked,
    /// It lets a node that is limited move nothing for repairs.
    LimitToNothing,
    /// The driver places new stripes as if there were no racks.
    PlaceAnywhere,
    /// The driver welcomes any agent that joins under a node's name.
    WelcomeAnyone,
    /// The driver's clock goes back now and then.
    TimeBack,
    /// An agent does not count the memory of a task.
    UncountedMemory,
    /// It keeps the memory of a task that is over.
    KeepTaskMemory,
    /// It takes one more slice into memory than was reserved.
    WideWindow,
    /// Its pumps grant a slice more than their window.
    GrantAhead,
    /// Its pumps grant their children slices once, and never again.
    ForgetGrant,
    /// Its gates grant a slice more than their window.
    GateAhead,
    /// Its gates grant before they are released.
    GrantUnreleased,
    /// It grants slices of a repair that is held.
    GrantHeld,
    /// It combines slices that not all parents take.
    ConsumeEarly,
    /// It lets slices flow before the temporary file exists.
    OpenEarly,
    /// It takes itself for a relay where it is the destination.
    ForgetCopy,
    /// It publishes a chunk when one of several lanes is done.
    PublishEarly,
    /// It publishes a chunk without a recorded checksum before the coordinator sends `Publish`.
    PublishUnproven,
    /// The coordinator has a chunk published that no fingerprint was compared with.
    ProveUnread,
    /// It has a chunk published whose claim is lost.
    PublishUnclaimed,
    /// An agent begins a task again whose outcome it still repeats.
    BeginAgain,
    /// It takes a chunk for stored whose publishing failed.
    AssumeStored,
    /// It drops a task whose write failed, and neither reports that nor discards what it has.
    DropSilently,
    /// It goes on waiting for a listing that has failed.
    KeepListing,
    /// It takes a copy that cannot be opened for one that is not there.
    MissUnreadable,
    /// An agent waits for the proof of a chunk whose checksum is recorded.
    ProveRecorded,
    /// It sends an outcome once, and not again at its beats.
    SendOnce,
    /// Its pumps note a slice that was not asked for in place of the one that came.
    NoteUnasked,
    /// It begins to read a copy that it is reading.
    CheckTwice,
    /// Its driver counts slices before the first that was granted among those that have come.
    AdmitEarlier,
}

impl Mutant {
    /// All mutants, in the order of their declaration.
    pub const ALL: [Mutant; 87] = [
        Mutant::KeepMemory,
        Mutant::KeepLoad,
        Mutant::ExceedCap,
        Mutant::ChargeTwice,
        Mutant::KeepScheduled,
        Mutant::OverAdmit,
        Mutant::ReserveLess,
        Mutant::StartNothing,
        Mutant::WaitTwice,
        Mutant::KeepWaiting,
        Mutant::CommitAtOnce,
        Mutant::ForgetNext,
        Mutant::AssumeCommit,
        Mutant::KeepQueued,
        Mutant::KeepAsleep,
        Mutant::ForgetRepairing,
        Mutant::ForgetFailed,
        Mutant::TrustBadCopy,
        Mutant::TrustFailedNode,
        Mutant::KeepDue,
        Mutant::ForgetDeclared,
        Mutant::ForgetPause,
        Mutant::KeepCutOff,
        Mutant::GiveAnyway,
        Mutant::WaitAtRisk,
        Mutant::MoveFirst,
        Mutant::MoveWhileLost,
        Mutant::CountSleep,
        Mutant::TrustUnknown,
        Mutant::KeepLost,
        Mutant::ShareNode,
        Mutant::KeepRack,
        Mutant::DeleteUnread,
        Mutant::AdoptUnread,
        Mutant::TrustNames,
        Mutant::AskBeyond,
        Mutant::ListTwice,
        Mutant::ForgetAnswer,
        Mutant::ScrubBeyond,
        Mutant::SkipStripe,
        Mutant::TrustDelete,
        Mutant::DeleteUnknown,
        Mutant::KeepEpoch,
        Mutant::MissCrowded,
        Mutant::SplitRanges,
        Mutant::CompareTwice,
        Mutant::LoseZeros,
        Mutant::DeleteRead,
        Mutant::MoveTooMuch,
        Mutant::AskOnce,
        Mutant::ReadCondemned,
        Mutant::LeaveUnrecorded,
        Mutant::KeepReady,
        Mutant::PlanAnywhere,
        Mutant::PlanBeyondSpace,
        Mutant::LosePlan,
        Mutant::OddSlices,
        Mutant::LimitUnasked,
        Mutant::LimitToNothing,
        Mutant::PlaceAnywhere,
        Mutant::WelcomeAnyone,
        Mutant::TimeBack,
        Mutant::UncountedMemory,
        Mutant::KeepTaskMemory,
        Mutant::WideWindow,
        Mutant::GrantAhead,
        Mutant::ForgetGrant,
        Mutant::GateAhead,
        Mutant::GrantUnreleased,
        Mutant::GrantHeld,
        Mutant::ConsumeEarly,
        Mutant::OpenEarly,
        Mutant::ForgetCopy,
        Mutant::PublishEarly,
        Mutant::PublishUnproven,
        Mutant::ProveUnread,
        Mutant::PublishUnclaimed,
        Mutant::BeginAgain,
        Mutant::AssumeStored,
        Mutant::DropSilently,
        Mutant::KeepListing,
        Mutant::MissUnreadable,
        Mutant::ProveRecorded,
        Mutant::SendOnce,
        Mutant::NoteUnasked,
        Mutant::CheckTwice,
        Mutant::AdmitEarlier,
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
