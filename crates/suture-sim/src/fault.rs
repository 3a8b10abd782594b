//! What can go wrong in the simulated cluster, how often, and how often it did.
//!
//! Place: beside the whole life of a repair. Everything follows from one seed.

use std::collections::BTreeMap;
use std::fmt;

use suture_repair::random::Random;
use suture_repair::time::{Span, Time};

/// One kind of fault. Each is counted, so that a run can show what it has exercised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A message is lost.
    Drop,
    /// A message comes twice.
    Duplicate,
    /// A message overtakes another one.
    Reorder,
    /// A message takes much longer than usual.
    Delay,
    /// Two parties cannot receive anything from each other for a while.
    Partition,
    /// A node that speaks counts as silent, since no other can reach it.
    CutOff,
    /// A machine loses its power, and no peer is notified.
    Vanish,
    /// A link carries nothing for a while.
    DeadLink,
    /// A repair loses a helper, or leaves one that lags, and goes on with what has come.
    GoneOn,
    /// A session breaks and is made anew.
    SessionBreak,
    /// An agent dies without notice.
    AgentCrash,
    /// It comes back with its disk.
    AgentRestart,
    /// It comes back after its chunks were declared lost.
    NodeReturn,
    /// It comes back with hundreds of unneeded copies.
    Burst,
    /// It comes back with an empty disk.
    DiskWipe,
    /// It never comes back.
    AgentGone,
    /// The coordinator dies without notice.
    CoordinatorCrash,
    /// Another one takes its place.
    CoordinatorRestart,
    /// The coordinator takes in nothing for a while.
    CoordinatorSleep,
    /// The clock of a machine leaps.
    ClockLeap,
    /// The clock of the day is set, forward or back.
    ClockSet,
    /// A bit of a chunk changes at rest.
    CorruptChunk,
    /// The end of a chunk is lost.
    TornChunk,
    /// Other bytes lie under a chunk's name.
    ReplacedChunk,
    /// A disk is full.
    FullDisk,
    /// Reads of a disk fail for a while.
    UnreadableDisk,
    /// A disk makes no place for a chunk, does not take a part of one, or does not give it back.
    FailedWrite,
    /// A disk does not report that a chunk is durable under its name; it may be.
    FailedPublish,
    /// A disk does not remove a copy.
    FailedDelete,
    /// A disk does not list its copies, or its free bytes.
    FailedList,
    /// A disk answers nothing for a while.
    HangingDisk,
    /// A process has no descriptor for what it wants to open.
    NoDescriptors,
    /// The operator declares a node failed and takes it back.
    OperatorFail,
    /// The operator pauses, cancels and resumes.
    OperatorPause,
    /// The operator has every copy read.
    OperatorScrub,
    /// The operator empties a node.
    Drain,
    /// The operator lets a node be silent.
    Rest,
    /// A slice that a node computed is wrong.
    BadMemory,
    /// A node is moved to another rack.
    RackMove,
    /// A stripe is written.
    Put,
    /// A stripe is removed.
    Remove,
    /// Another repair is at work on a stripe that is claimed.
    ClaimRefused,
    /// A claim ends that was not released.
    ClaimExpired,
    /// The keeper declares a node dead.
    DeclaredDead,
    /// It empties a node.
    Decommission,
    /// The coordinator goes on with metadata of an old backup.
    OldMetadata,
    /// It goes on with empty ones, until the old ones are found.
    LostMetadata,
    /// An agent under the name of a node that is not its own is refused.
    Impostor,
}

impl Kind {
    /// All kinds, in the order of the table that people read.
    pub const ALL: [Kind; 48] = [
        Kind::Drop,
        Kind::Duplicate,
        Kind::Reorder,
        Kind::Delay,
        Kind::Partition,
        Kind::CutOff,
        Kind::Vanish,
        Kind::DeadLink,
        Kind::GoneOn,
        Kind::SessionBreak,
        Kind::AgentCrash,
        Kind::AgentRestart,
        Kind::NodeReturn,
        Kind::Burst,
        Kind::DiskWipe,
        Kind::AgentGone,
        Kind::CoordinatorCrash,
        Kind::CoordinatorRestart,
        Kind::CoordinatorSleep,
        Kind::ClockLeap,
        Kind::ClockSet,
        Kind::CorruptChunk,
        Kind::TornChunk,
        Kind::ReplacedChunk,
        Kind::FullDisk,
        Kind::UnreadableDisk,
        Kind::FailedWrite,
        Kind::FailedPublish,
        Kind::FailedDelete,
        Kind::FailedList,
        Kind::HangingDisk,
        Kind::NoDescriptors,
        Kind::OperatorFail,
        Kind::OperatorPause,
        Kind::OperatorScrub,
        Kind::Drain,
        Kind::Rest,
        Kind::BadMemory,
        Kind::RackMove,
        Kind::Put,
        Kind::Remove,
        Kind::ClaimRefused,
        Kind::ClaimExpired,
        Kind::DeclaredDead,
        Kind::Decommission,
        Kind::OldMetadata,
        Kind::LostMetadata,
        Kind::Impostor,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Drop => "message dropped",
            Kind::Duplicate => "message duplicated",
            Kind::Reorder => "message reordered",
            Kind::Delay => "message delayed",
            Kind::Partition => "partition",
            Kind::CutOff => "node cut off",
            Kind::Vanish => "machine vanished",
            Kind::DeadLink => "link at zero",
            Kind::GoneOn => "repair gone on another way",
            Kind::SessionBreak => "session broken",
            Kind::AgentCrash => "agent crashed",
            Kind::AgentRestart => "agent restarted",
            Kind::NodeReturn => "failed node returned",
            Kind::Burst => "copies left over",
            Kind::DiskWipe => "disk wiped",
            Kind::AgentGone => "agent gone for good",
            Kind::CoordinatorCrash => "coordinator crashed",
            Kind::CoordinatorRestart => "coordinator restarted",
            Kind::CoordinatorSleep => "coordinator slept",
            Kind::ClockLeap => "clock leapt",
            Kind::ClockSet => "clock of the day set",
            Kind::CorruptChunk => "chunk corrupted",
            Kind::TornChunk => "chunk torn",
            Kind::ReplacedChunk => "chunk replaced",
            Kind::FullDisk => "disk full",
            Kind::UnreadableDisk => "disk unreadable",
            Kind::FailedWrite => "write failed",
            Kind::FailedPublish => "publish failed",
            Kind::FailedDelete => "delete failed",
            Kind::FailedList => "listing failed",
            Kind::HangingDisk => "disk hangs",
            Kind::NoDescriptors => "no descriptor left",
            Kind::OperatorFail => "operator fail/return",
            Kind::OperatorPause => "operator pause/cancel",
            Kind::OperatorScrub => "operator scrub",
            Kind::Drain => "node drained",
            Kind::Rest => "node paused",
            Kind::BadMemory => "slice computed wrong",
            Kind::RackMove => "node moved to another rack",
            Kind::Put => "stripe put",
            Kind::Remove => "stripe removed",
            Kind::ClaimRefused => "claim refused",
            Kind::ClaimExpired => "claim expired",
            Kind::DeclaredDead => "keeper declares node dead",
            Kind::Decommission => "keeper empties node",
            Kind::OldMetadata => "metadata of a backup",
            Kind::LostMetadata => "metadata lost and found",
            Kind::Impostor => "impostor refused",
        })
    }
}

/// How often each kind happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<Kind, u64>);

impl Coverage {
    /// Counts one more fault of a kind.
    pub fn count(&mut self, kind: Kind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// How many faults of a kind there were.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    /// All of `other` on top.
    pub fn add(&mut self, other: &Coverage) {
        for (kind, count) in &other.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }
}

/// How unreliable messages are, per mille.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkFaults {
    /// Messages lost, of 1000.
    pub drop: u32,
    /// Messages doubled, of 1000.
    pub duplicate: u32,
    /// Messages delayed by up to `delay_max`.
    pub delay: u32,
    /// The longest extra delay.
    pub delay_max: Span,
}

impl NetworkFaults {
    /// Every message arrives once and in time.
    pub const NONE: NetworkFaults =
        NetworkFaults { drop: 0, duplicate: 0, delay: 0, delay_max: Span::ZERO };

    /// A climate of its own for each seed; some are calm in one respect or in all.
    pub fn random(random: &mut Random) -> NetworkFaults {
        let mut some =
            |most: u64| if random.per_mille(500) { random.below(most) as u32 } else { 0 };
        let (drop, duplicate, delay) = (some(30), some(60), some(100));
        NetworkFaults {
            drop,
            duplicate,
            delay,
            delay_max: Span::from_millis(random.between(10, 1500)),
        }
    }
}

/// Something that is going to happen. Targets are chosen when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An agent crashes and comes back after the span, with or without its disk.
    Crash {
        /// How long it stays away.
        back_after: Span,
        /// Whether its disk is empty then.
        wipe: bool,
    },
    /// An agent crashes and comes back after the span, with hundreds of unneeded copies.
    Burst(Span),
    /// An agent is gone for good.
    Gone,
    /// The coordinator crashes and is replaced after the span.
    CoordinatorCrash(Span),
    /// The coordinator takes in nothing for the span; what is sent to it waits.
    CoordinatorSleep(Span),
    /// The clock of the coordinator, or of an agent, is ahead by the span from now on.
    ClockLeap(Span),
    /// The clock of the day is set.
    ClockSet {
        /// What it is changed by.
        by: Span,
        /// Whether it is set back.
        back: bool,
    },
    /// Two parties cannot receive anything from each other for the span.
    Partition(Span),
    /// No other agent can reach a node for the span, and the coordinator can.
    CutOff(Span),
    /// A machine loses its power, of which no peer is notified, and begins anew after the span.
    Vanish(Span),
    /// A node's link carries nothing for the span, and then all that waited.
    DeadLink(Span),
    /// An agent's session breaks.
    SessionBreak,
    /// A bit of a chunk changes.
    Flip,
    /// A chunk loses its end.
    Tear,
    /// Other bytes take a chunk's place, with checksums that fit them.
    Replace,
    /// A disk is full for the span.
    Full(Span),
    /// The operator declares a node failed for the span.
    OperatorFail(Span),
    /// The operator stops repairs for the span.
    OperatorPause(Span),
    /// The operator has every copy read.
    Scrub,
    /// The operator empties a node, and may take it back after the span.
    Drain(Span),
    /// The operator lets a node be silent for the span, and mostly its agent stops.
    Rest(Span),
    /// Reads of a node's disk fail for the span.
    Unreadable(Span),
    /// Some of the other calls of a node's disk fail, for the span.
    DiskErrors(Span),
    /// A node's disk answers nothing for the span, and its agent reports that.
    Hang(Span),
    /// A node's agent can open nothing for the span.
    NoDescriptors(Span),
    /// What a node computes is wrong now and then, for the span.
    BadMemory(Span),
    /// A node is moved to another rack, which takes the span.
    Move(Span),
    /// The metadata are backed up.
    Backup,
    /// The coordinator dies, and the next one, after the span, has the metadata of the last backup.
    Restore(Span),
    /// The coordinator dies, and the next one has no metadata; after the span they are found.
    LoseMetadata(Span),
    /// An agent tries for the span to join under a name that is not its own.
    Impostor(Span),
    /// A stripe is written.
    Put,
    /// A stripe is removed.
    Remove,
}

/// The moves of one seed with racks, in whatever order.
pub fn moves(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.between(0, 4);
    let span = |random: &mut Random| Span::from_millis(random.between(20, 2000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::Move(span(random)));
    (0..count).map(one).collect()
}

/// The bad memory of one seed, in whatever order.
pub fn bad_memory(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.between(1, 3);
    let span = |random: &mut Random| Span::from_millis(random.between(200, 4000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::BadMemory(span(random)));
    (0..count).map(one).collect()
}

/// How often the coordinator of one seed sleeps, and for how long: in most never. Its sleeps are
/// longer than every timer by which it takes a node for dead.
pub fn sleeps(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(250) { random.between(1, 3) } else { 0 };
    let span = |random: &mut Random| Span::from_millis(random.between(1600, 4000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::CoordinatorSleep(span(random)));
    (0..count).map(one).collect()
}

/// How often clocks leap and are set in one seed: in most never. They leap by more than every timer
/// by which a node is taken for dead.
pub fn clocks(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(250) { random.between(1, 4) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        let by = Span::from_millis(random.between(1600, 4000));
        let leaps = random.per_mille(600);
        let set = Fault::ClockSet { by, back: random.per_mille(500) };
        (at, if leaps { Fault::ClockLeap(by) } else { set })
    };
    (0..count).map(one).collect()
}

/// The node of one seed that comes back with unneeded copies: in most none, since each of them
/// takes messages.
pub fn bursts(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = u64::from(random.per_mille(125));
    let span = |random: &mut Random| Span::from_millis(random.between(20, 2000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::Burst(span(random)));
    (0..count).map(one).collect()
}

/// The times of one seed at which disks cannot be read, in whatever order.
pub fn unreadable_disks(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.below(3);
    let span = |random: &mut Random| Span::from_millis(random.between(20, 3000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::Unreadable(span(random)));
    (0..count).map(one).collect()
}

/// The times of one seed at which disks give errors or agents have no descriptors, in whatever
/// order: in most never.
pub fn failing_disks(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(300) { random.between(1, 7) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        let span = Span::from_millis(random.between(100, 4000));
        let is_error = random.per_mille(650);
        (at, if is_error { Fault::DiskErrors(span) } else { Fault::NoDescriptors(span) })
    };
    (0..count).map(one).collect()
}

/// The disks of one seed that hang, in whatever order: in most none. They do for longer than a node
/// may be silent, or not.
pub fn hanging_disks(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(200) { random.between(1, 3) } else { 0 };
    let span = |random: &mut Random| Span::from_millis(random.between(20, 4000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::Hang(span(random)));
    (0..count).map(one).collect()
}

/// What is done to the metadata of one seed, in whatever order: in most nothing.
pub fn old_metadata(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(250) { random.between(1, 4) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        let fault = match random.below(5) {
            0 | 1 => Fault::Backup,
            2 | 3 => Fault::Restore(Span::from_millis(random.between(20, 1500))),
            _ => Fault::LoseMetadata(Span::from_millis(random.between(200, 4000))),
        };
        (at, fault)
    };
    (0..count).map(one).collect()
}

/// The nodes of one seed that others cannot reach, in whatever order: in most none. It lasts for
/// longer than it takes to be noticed, or not.
pub fn cut_off_nodes(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(250) { random.between(1, 3) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        (at, Fault::CutOff(Span::from_millis(random.between(1000, 8000))))
    };
    (0..count).map(one).collect()
}

/// The machines of one seed that vanish, and its links that carry nothing, in whatever order: in
/// most none. It lasts for longer than it takes a node to count as dead, or not.
pub fn vanished(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(250) { random.between(1, 4) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        let span = Span::from_millis(random.between(100, 4000));
        (at, if random.per_mille(500) { Fault::Vanish(span) } else { Fault::DeadLink(span) })
    };
    (0..count).map(one).collect()
}

/// The impostors of one seed, in whatever order: in most there are none.
pub fn impostors(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(200) { random.between(1, 3) } else { 0 };
    let span = |random: &mut Random| Span::from_millis(random.between(20, 2000));
    let one = |_| (Time { ns: random.below(until.ns) }, Fault::Impostor(span(random)));
    (0..count).map(one).collect()
}

/// What the operator of one seed wants of nodes, in whatever order: in most nothing.
pub fn intents(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = if random.per_mille(400) { random.between(1, 4) } else { 0 };
    let one = |_| {
        let at = Time { ns: random.below(until.ns) };
        let span = Span::from_millis(random.between(300, 5000));
        (at, if random.per_mille(600) { Fault::Drain(span) } else { Fault::Rest(span) })
    };
    (0..count).map(one).collect()
}

/// When the operator of one seed has every copy read.
pub fn scrubs(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.below(3);
    (0..count).map(|_| (Time { ns: random.below(until.ns) }, Fault::Scrub)).collect()
}

/// The replaced chunks of one seed, in whatever order.
pub fn replacements(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.below(4);
    (0..count).map(|_| (Time { ns: random.below(until.ns) }, Fault::Replace)).collect()
}

/// The faults of one seed, in order of time.
pub fn schedule(random: &mut Random, until: Span) -> Vec<(Time, Fault)> {
    let count = random.between(0, 24);
    let mut faults: Vec<(Time, Fault)> =
        (0..count).map(|_| (Time { ns: random.below(until.ns) }, one(random))).collect();
    faults.sort_by_key(|(time, _)| *time);
    faults
}

fn one(random: &mut Random) -> Fault {
    let span = |random: &mut Random, most| Span::from_millis(random.between(20, most));
    match random.below(20) {
        0..4 => Fault::Crash { back_after: span(random, 4000), wipe: random.per_mille(200) },
        4 => Fault::Gone,
        5 | 6 => Fault::CoordinatorCrash(span(random, 1500)),
        7..10 => Fault::Partition(span(random, 2500)),
        10 => Fault::SessionBreak,
        11..14 => Fault::Flip,
        14 => Fault::Tear,
        15 => Fault::Full(span(random, 4000)),
        16 => Fault::OperatorFail(span(random, 3000)),
        17 => Fault::OperatorPause(span(random, 2000)),
        18 => Fault::Put,
        _ => Fault::Remove,
    }
}
