//! One attempt to give chunks of a stripe a new location, and how far each of them has come.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk durable -> commit location] -> healthy.
//! A rebuild may make several chunks, each for a destination of its own:
//! `Transferring -> Stored -> Committing -> gone`. Locations change one after the other, because
//! each change gives the stripe a new generation, which the next one must name. An adoption makes
//! nothing: a copy that was found is durable already, so it begins with the commit.
//! A chunk without a recorded checksum is proven while it counts as flowing (`proof.rs`).
//! Where repairs are claimed, a rebuild is `Asked` before it is dispatched, and nothing flows.
//! Invariant: at most one chunk is committing; where one is stored, one is committing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budget::Fit;
use crate::event::{Claim, Commit, RunningRepair};
use crate::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, StripeId};
use crate::label::Label;
use crate::message::Task;
use crate::schedule::PlannedRepair;
use crate::slice::{PAYLOAD_BYTES_MAX, memory};
use crate::time::Time;

/// An attempt to give chunks new locations, from its start to its last commit.
#[derive(Clone, Debug)]
pub(super) enum Attempt {
    Rebuild(Rebuild),
    Adopt(Adopt),
}

/// An attempt to rebuild chunks, admitted and perhaps not dispatched yet.
#[derive(Clone, Debug)]
pub(super) struct Rebuild {
    pub planned: Arc<PlannedRepair>,
    pub claim: ClaimState,
    /// The chunks that have no new location yet; never none.
    pub goals: Vec<Goal>,
    /// Slices of a lane over the whole range have this many bytes.
    pub slice_bytes: u32,
    /// The most slices that may be under way on an edge.
    pub window: u32,
    pub progressed_at: Time,
    /// When limits of repair last explained that nothing moves.
    pub limited_at: Time,
    pub since: Time,
    pub proof: Proof,
    /// A chunk of it has ended without being committed.
    pub is_partly_given_up: bool,
}

/// What is known of a repair's fingerprints.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof {
    /// The chunks whose fingerprints were last asked for, and when.
    pub asked: BTreeMap<ChunkIndex, AskedFingerprint>,
    pub sums: BTreeMap<ChunkIndex, Arc<[u8]>>,
    /// Rebuilt chunks that fit, and the chunks that they were compared with.
    pub proven: BTreeMap<ChunkIndex, Vec<ChunkIndex>>,
    /// A rebuilt chunk does not fit: the copy that is wrong is looked for.
    pub has_failed: bool,
}

/// The fingerprint of a copy that a node was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedFingerprint {
    pub node: NodeId,
    pub copy: ChunkCopy,
    pub asked_at: Time,
}

impl AskedFingerprint {
    /// Whether it is that of this copy at this node.
    pub fn is_of(&self, node: NodeId, copy: ChunkCopy) -> bool {
        (self.node, self.copy) == (node, copy)
    }
}

/// A commit that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct SettledCommit {
    pub commit: Commit,
    /// The claim that has become void by it, if its repair has ended.
    pub void_claim: Option<RepairId>,
}

/// What the keeper has answered about a rebuild.
#[derive(Clone, Debug)]
pub(super) enum ClaimState {
    /// It is not asked.
    Unclaimed,
    /// It has not answered. The task waits here.
    Asked { claim: Claim, task: Box<Task>, asked_at: Time },
    /// It has granted the claim of this repair: this one, or the one that it took the place of.
    Granted { repair: RepairId, label: Label, asked_at: Time, is_lost: bool },
}

impl ClaimState {
    /// What the keeper wants kept beside the chunks, as far as it has answered.
    pub fn label(&self) -> Label {
        match self {
            ClaimState::Granted { label, .. } => label.clone(),
            ClaimState::Asked { .. } | ClaimState::Unclaimed => Label::default(),
        }
    }

    /// Whether the keeper had granted it, and does not have it any more.
    pub fn is_lost(&self) -> bool {
        matches!(self, ClaimState::Granted { is_lost: true, .. })
    }
}

/// A copy that was found where its chunk is lost, and read in full.
#[derive(Clone, Debug)]
pub(super) struct Adopt {
    pub pending: Pending,
    /// Length of the chunk.
    pub bytes: u64,
    pub since: Time,
}

/// One chunk that is to get a new location.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub chunk: ChunkIndex,
    pub destination: NodeId,
    /// Bytes done, counted from the beginning of the chunk, as last reported.
    pub bytes_done: u64,
    pub state: GoalState,
}

/// How far a chunk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GoalState {
    /// Its slices flow to the destination, or are about to.
    Transferring,
    /// The copy is durable; another chunk's location is being changed.
    Stored(ChunkCopy),
    /// The copy is durable; its location is asked for.
    Committing(Pending),
}

/// A commit that has not been answered, and when it was last asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub commit: Commit,
    pub asked_at: Time,
}

impl Attempt {
    pub fn stripe(&self) -> StripeId {
        match self {
            Attempt::Rebuild(rebuild) => rebuild.planned.plan.stripe,
            Attempt::Adopt(adopt) => adopt.pending.commit.copy.stripe,
        }
    }

    pub fn rebuild(&self) -> Option<&Rebuild> {
        match self {
            Attempt::Rebuild(rebuild) => Some(rebuild),
            Attempt::Adopt(_) => None,
        }
    }

    pub fn rebuild_mut(&mut self) -> Option<&mut Rebuild> {
        match self {
            Attempt::Rebuild(rebuild) => Some(rebuild),
            Attempt::Adopt(_) => None,
        }
    }

    /// The commit that has not been answered.
    pub fn commit(&self) -> Option<Commit> {
        match self {
            Attempt::Rebuild(rebuild) => {
                rebuild.goals.iter().find_map(Goal::pending).map(|pending| pending.commit)
            }
            Attempt::Adopt(adopt) => Some(adopt.pending.commit),
        }
    }

    pub fn pending_mut(&mut self) -> Option<&mut Pending> {
        match self {
            Attempt::Rebuild(rebuild) => {
                rebuild.goals.iter_mut().find_map(|goal| match &mut goal.state {
                    GoalState::Committing(pending) => Some(pending),
                    GoalState::Transferring | GoalState::Stored(_) => None,
                })
            }
            Attempt::Adopt(adopt) => Some(&mut adopt.pending),
        }
    }

    /// Whether a location is being changed: it is unknown until the answer.
    pub fn is_committing(&self) -> bool {
        self.commit().is_some()
    }

    /// Whether agents still work on it.
    pub fn is_transferring(&self) -> bool {
        self.rebuild().is_some_and(Rebuild::is_transferring)
    }

    /// Whether it gives `chunk` a new location.
    pub fn serves(&self, chunk: ChunkIndex) -> bool {
        match self {
            Attempt::Rebuild(rebuild) => rebuild.goals.iter().any(|goal| goal.chunk == chunk),
            Attempt::Adopt(adopt) => adopt.pending.commit.copy.chunk == chunk,
        }
    }

    /// Whether it is to give `chunk` a new copy on `node`.
    pub fn makes(&self, node: NodeId, chunk: ChunkIndex) -> bool {
        let is_it = |goal: &Goal| (goal.destination, goal.chunk) == (node, chunk);
        self.rebuild().is_some_and(|rebuild| rebuild.goals.iter().any(is_it))
    }

    /// What operators see of it, a line for each chunk.
    pub fn lines(&self, repair: RepairId) -> Vec<RunningRepair> {
        let stripe = self.stripe();
        match self {
            Attempt::Rebuild(Rebuild { planned, goals, since, .. }) => {
                let bytes = planned.job.chunk_bytes;
                let line = |goal: &Goal| RunningRepair {
                    repair,
                    stripe,
                    chunk: goal.chunk,
                    destination: goal.destination,
                    bytes_done: goal.bytes_done.min(bytes),
                    bytes,
                    since: *since,
                };
                goals.iter().map(line).collect()
            }
            Attempt::Adopt(Adopt { pending: Pending { commit, .. }, bytes, since }) => {
                vec![RunningRepair {
                    repair,
                    stripe,
                    chunk: commit.copy.chunk,
                    destination: commit.node,
                    bytes_done: *bytes,
                    bytes: *bytes,
                    since: *since,
                }]
            }
        }
    }
}

impl Rebuild {
    /// An attempt that is admitted now.
    pub fn new(now: Time, planned: Arc<PlannedRepair>, fit: &Fit) -> Rebuild {
        let plan = &planned.plan;
        let goals = plan.lost.iter().map(|&chunk| Goal {
            chunk,
            destination: plan.destinations[&chunk],
            bytes_done: plan.range.from,
            state: GoalState::Transferring,
        });
        Rebuild {
            goals: goals.collect(),
            planned,
            claim: ClaimState::Unclaimed,
            slice_bytes: fit.slice_bytes,
            window: fit.window,
            progressed_at: now,
            limited_at: now,
            since: now,
            proof: Proof::default(),
            is_partly_given_up: false,
        }
    }

    /// The attempt as it goes on with another one's chunks: as far as those have come.
    pub fn going_on(mut self, before: &Rebuild) -> Rebuild {
        for goal in &mut self.goals {
            let is_it =
                |old: &&Goal| (old.chunk, old.destination) == (goal.chunk, goal.destination);
            let come = before.goals.iter().find(is_it).map_or(0, |old| old.bytes_done);
            goal.bytes_done = goal.bytes_done.max(come);
        }
        self
    }

    /// Notes how much has come to a node, where it is a destination, counted from the beginning of
    /// the chunk.
    pub fn note_come(&mut self, node: NodeId, bytes_done: u64) {
        for goal in self.goals.iter_mut().filter(|goal| goal.destination == node) {
            goal.bytes_done = goal.bytes_done.max(bytes_done);
        }
    }

    /// How far the slowest of its chunks is, counted from the beginning of the plan.
    pub fn bytes_come(&self) -> u64 {
        let from = self.planned.plan.range.from;
        self.goals.iter().map(|goal| goal.bytes_done - from.min(goal.bytes_done)).min().unwrap_or(0)
    }

    pub fn is_transferring(&self) -> bool {
        self.goals.iter().any(|goal| goal.state == GoalState::Transferring)
    }

    /// Whether the location of one of its chunks is being changed.
    pub fn is_committing(&self) -> bool {
        self.goals.iter().any(|goal| goal.pending().is_some())
    }

    /// Whether its claim has not been answered, so that no agent knows of it.
    pub fn is_asked(&self) -> bool {
        matches!(self.claim, ClaimState::Asked { .. })
    }

    /// The claim to be released when it ends as it is now.
    pub fn claim_left(&self) -> Option<RepairId> {
        let is_left = self.is_partly_given_up || !self.goals.is_empty();
        match &self.claim {
            ClaimState::Asked { claim, .. } => Some(claim.repair),
            ClaimState::Granted { repair, .. } if is_left => Some(*repair),
            ClaimState::Granted { .. } | ClaimState::Unclaimed => None,
        }
    }

    /// Whether none of its chunks is durable.
    pub fn is_all_transferring(&self) -> bool {
        self.goals.iter().all(|goal| goal.state == GoalState::Transferring)
    }

    /// Whether `node` sends, receives or keeps something of it.
    pub fn involves(&self, node: NodeId) -> bool {
        self.planned.plan.participants().contains(&node)
    }

    /// The nodes that still work on it: all participants but destinations that have done their
    /// part.
    pub fn workers(&self) -> Vec<NodeId> {
        if !self.is_transferring() || self.is_asked() {
            return Vec::new();
        }
        let is_done = |goal: &Goal, node: NodeId| {
            goal.destination == node && goal.state != GoalState::Transferring
        };
        let mut workers: Vec<NodeId> = self.planned.plan.participants().into_iter().collect();
        workers.retain(|&node| !self.goals.iter().any(|goal| is_done(goal, node)));
        workers
    }

    /// Whether everything has reached the destinations, and what is left is proof and publishing.
    pub fn is_publishing(&self) -> bool {
        self.goals.iter().all(|goal| goal.bytes_done >= self.planned.job.chunk_bytes)
    }

    /// The slice memory that it takes at each participant while slices flow.
    pub fn memory(&self) -> Vec<(NodeId, u64)> {
        let PlannedRepair { job, plan, .. } = &*self.planned;
        let slices = memory(plan, self.slice_bytes, job.code.alignment() as u32);
        slices.into_iter().map(|(node, bytes)| (node, bytes * u64::from(self.window))).collect()
    }

    /// # Panics
    /// Its chunks are not in states that fit each other, or its slices no slices of the code.
    pub fn assert_invariants(&self, repair: RepairId) {
        let stored =
            self.goals.iter().filter(|goal| matches!(goal.state, GoalState::Stored(_))).count();
        let committing = self.goals.iter().filter(|goal| goal.pending().is_some()).count();
        assert!(!self.goals.is_empty(), "goals: {repair} has none");
        assert!(committing <= 1, "commits: {repair} has {committing} at once");
        assert!(
            stored == 0 || committing == 1,
            "commits: {repair} has chunks to commit and none is"
        );
        let (slice, alignment) = (self.slice_bytes, self.planned.job.code.alignment() as u32);
        let is_slice = slice > 0 && slice <= PAYLOAD_BYTES_MAX && slice.is_multiple_of(alignment);
        assert!(is_slice, "slices: those of {repair} have {slice} bytes");
    }

    /// The next durable chunk whose location can be asked for: none while one is being asked for.
    pub fn next_stored(&mut self) -> Option<&mut Goal> {
        if self.is_committing() {
            return None;
        }
        self.goals.iter_mut().find(|goal| matches!(goal.state, GoalState::Stored(_)))
    }
}

impl Proof {
    /// The fingerprints of these chunks.
    pub fn of(&self, chunks: &[ChunkIndex]) -> Vec<(ChunkIndex, &[u8])> {
        chunks.iter().filter_map(|chunk| Some((*chunk, &**self.sums.get(chunk)?))).collect()
    }
}

impl Goal {
    fn pending(&self) -> Option<Pending> {
        match self.state {
            GoalState::Committing(pending) => Some(pending),
            GoalState::Transferring | GoalState::Stored(_) => None,
        }
    }
}
