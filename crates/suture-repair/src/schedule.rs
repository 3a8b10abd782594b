//! What runs when: the schedule, a struct of its own that the coordinator asks.
//!
//! Place: ... queue -> plan -> [what is planned next, what is admitted next, what has to be done
//! differently] -> dispatch -> slices flow -> ...
//! A schedule is notified of four facts: a repair was started (`started`), one has ended (`ended`),
//! a plan could not take the place of another (`refused`), links are others (`links_changed`) or
//! better known than before (`links_measured`). It answers how many stripes to plan now, and for
//! which links (`quota`); which of the plans made to keep, and in what order (`arrange`); which to
//! start next (`next`); what active repairs should do otherwise (`directives`); whether progress is
//! news to it (`heeds_progress`), and when it wants to be asked again (`next_deadline`). What waits
//! and what is active it sees in a `Snapshot` of the coordinator's ledger, of which it keeps no
//! copy. It never sees sockets, slices or memory: whether a plan fits is the budget's affair. Which
//! edges of gated repairs flow is the answer of `EdgeSchedule`, which stands beside it.
//!
//! | schedule | file | source |
//! |---|---|---|
//! | `all`, `window` | here | - |
//! | `slots` | `schedule/subprocess.rs`; edges in `schedule/slots.rs` | RepairBoost, ATC'21, sections 3.3, 3.4 |
//! | `adaptive` | `schedule/adaptive.rs` | PivotRepair, ICDCS'22, section IV-E |
//! | `phases` | `schedule/phases.rs` | ChameleonEC, HPCA'25, sections III-A and III-C |
//! | `waves` | `schedule/waves.rs` | ours |
//!
//! Invariant: whatever a schedule answers, every repair is started and finished in the end; where
//! nothing runs, something that fits may start.

mod active;
mod adaptive;
mod link_load;
mod matching;
mod phases;
mod slots;
mod straggler;
mod subprocess;
#[cfg(test)]
mod tests;
mod transmissions;
mod waiting;
mod waves;

use suture_code::Code;

use crate::cluster::Cluster;
use crate::id::{NodeId, RepairId, StripeId};
use crate::plan::Plan;
use crate::policy::{Balance, Order, Policy, Schedule};
use crate::time::Time;
use adaptive::Adaptive;
use phases::Phases;
pub(crate) use straggler::furthest_behind;
use subprocess::Subprocess;
use waves::Waves;

pub use active::{ActiveRepair, ActiveRepairs, PlannedRepair};
pub use slots::EdgeSchedule;
pub use transmissions::EdgeRelease;
pub use waiting::Waiting;

/// What a schedule may look at when it is notified of something or asked.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The time of the event.
    pub now: Time,
    /// Links as agents report them.
    pub cluster: &'a Cluster,
    /// How many nodes can be used.
    pub nodes: usize,
    /// How many stripes are ready to be planned.
    pub ready: usize,
    /// How many of them are more urgent than all plans that wait.
    pub urgent: usize,
    /// How many are under repair, until their new location is known.
    pub attempts: usize,
    /// One of them, or of those that are under repair.
    pub sample: Option<Sample>,
    /// Whether nodes share a cap of repair: then a repair has less than its links are left.
    pub shares_caps: bool,
    /// Plans that have not been started.
    pub waiting: &'a Waiting,
    /// Repairs of which agents move something.
    pub active: &'a ActiveRepairs,
    /// Edges of gated repairs, where there are any.
    pub edges: Option<&'a EdgeSchedule>,
}

/// What stripes are like.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The code of the stripe.
    pub code: Code,
    /// Length of a chunk.
    pub chunk_bytes: u64,
}

/// How much is to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// So many of the ready stripes at most.
    pub stripes: usize,
    /// The cluster as the planner is to see it, where that differs from what agents report.
    pub cluster: Option<Cluster>,
}

impl Quota {
    const NONE: Quota = Quota::of(0);
    const ALL: Quota = Quota::of(usize::MAX);

    const fn of(stripes: usize) -> Quota {
        Quota { stripes, cluster: None }
    }
}

/// What active repairs, or plans that wait, are to do otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    /// Pause, or go on.
    Hold {
        /// The repair that pauses or goes on.
        repair: RepairId,
        /// Whether it pauses from now on.
        held: bool,
    },
    /// Go on by another plan, for what this one has left.
    Replace {
        /// The repair that is planned anew.
        repair: RepairId,
        /// What takes its place, for the same bytes: what has come of a lane is not sent again.
        plan: Plan,
    },
    /// Forget all plans that wait, so that they are made anew for links as they are now.
    PlanAgain,
}

/// A schedule at work.
#[derive(Debug)]
pub struct Scheduler {
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    All,
    Concurrency(Option<u32>),
    Slots(Option<Subprocess>, Order),
    Adaptive(Adaptive),
    Phases(Phases),
    Waves(Waves),
}

impl Scheduler {
    /// The schedule of a policy, which has started nothing.
    pub fn new(policy: Policy) -> Scheduler {
        let has_disks = policy.balance == Balance::ChameleonIo;
        let rule = match policy.schedule {
            Schedule::All => Rule::All,
            Schedule::Concurrency(repairs) => Rule::Concurrency(repairs),
            Schedule::Slots(chunks, order) => Rule::Slots(chunks.map(Subprocess::new), order),
            Schedule::Adaptive => Rule::Adaptive(Adaptive::default()),
            Schedule::Phases(seconds, order) => {
                Rule::Phases(Phases::new(seconds, order, has_disks))
            }
            Schedule::Waves => Rule::Waves(Waves::default()),
        };
        Scheduler { rule }
    }
}

/// What it is notified of.
impl Scheduler {
    /// A repair was dispatched; it is among the active ones.
    pub fn started(&mut self, snapshot: Snapshot<'_>, id: RepairId) {
        match &mut self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Adaptive(_) | Rule::Slots(..) => {}
            Rule::Phases(phases) => phases.started(&snapshot, id),
            Rule::Waves(waves) => waves.started(id, &snapshot.active[&id]),
        }
    }

    /// A repair moves nothing any more: everything has come, or it failed, or it was replaced. It
    /// `was` active until now.
    pub fn ended(&mut self, id: RepairId, was: &ActiveRepair) {
        match &mut self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Adaptive(_) | Rule::Slots(..) => {}
            Rule::Phases(phases) => phases.ended(id),
            Rule::Waves(waves) => waves.ended(id, was),
        }
    }

    /// The plan that was to take the place of a running repair's does not: there is no memory for
    /// it, so that it `may_later`, or some of the repair has come in full meanwhile.
    pub fn refused(&mut self, id: RepairId, stripe: StripeId, may_later: bool) {
        match &mut self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Adaptive(_) | Rule::Slots(..) => {}
            Rule::Phases(phases) => phases.refused(stripe),
            Rule::Waves(waves) => waves.refused(id, stripe, may_later),
        }
    }

    /// `cluster` has other links than before.
    pub fn links_changed(&mut self, now: Time, cluster: &Cluster) {
        match &mut self.rule {
            Rule::Adaptive(adaptive) => adaptive.links_changed(),
            Rule::Waves(waves) => waves.links_changed(now, cluster),
            Rule::All | Rule::Concurrency(_) | Rule::Slots(..) | Rule::Phases(_) => {}
        }
    }

    /// What `cluster` has for the links of `node` is better known than before, and no change.
    pub fn links_measured(&mut self, now: Time, node: NodeId, cluster: &Cluster) {
        match &mut self.rule {
            Rule::Waves(waves) => waves.links_measured(now, node, cluster),
            _ => self.links_changed(now, cluster),
        }
    }
}

/// What it is asked.
impl Scheduler {
    /// How many of the ready stripes may be planned now, and for which links.
    pub fn quota(&mut self, snapshot: Snapshot<'_>) -> Quota {
        match &mut self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Slots(None, _) => Quota::ALL,
            Rule::Adaptive(_) => Quota::of(adaptive::quota(&snapshot)),
            Rule::Slots(Some(subprocess), _) => subprocess.quota(&snapshot),
            Rule::Phases(phases) => Quota::of(phases.quota(&snapshot)),
            Rule::Waves(waves) => waves.quota(&snapshot),
        }
    }

    /// Brings plans that were just made into the order in which they are to wait, and drops those
    /// that are to be planned again later.
    pub fn arrange(
        &mut self,
        snapshot: Snapshot<'_>,
        made: Vec<PlannedRepair>,
    ) -> Vec<PlannedRepair> {
        match &mut self.rule {
            Rule::Slots(_, Order::Time) => {
                sorted_by_seconds(made, |planned| planned.seconds_alone(snapshot.cluster))
            }
            Rule::All | Rule::Concurrency(_) | Rule::Adaptive(_) | Rule::Slots(..) => made,
            Rule::Phases(phases) => phases.arrange(&snapshot, made),
            Rule::Waves(waves) => waves.arrange(&snapshot, made),
        }
    }

    /// The plan to start next, other than those that were `passed` over just now for want of
    /// memory.
    pub fn next(&mut self, snapshot: Snapshot<'_>, passed: &[StripeId]) -> Option<StripeId> {
        let in_order = || snapshot.waiting.nth(passed.len());
        let within = |running: usize, limit: usize| (running < limit).then(in_order).flatten();
        match &mut self.rule {
            Rule::All | Rule::Slots(..) | Rule::Phases(_) => in_order(),
            Rule::Waves(_) => within(snapshot.active.len(), waves::active_max(&snapshot)),
            Rule::Concurrency(repairs) => {
                let limit = repairs.map_or(snapshot.nodes, |repairs| repairs as usize);
                within(snapshot.attempts, limit)
            }
            Rule::Adaptive(adaptive) => adaptive.next(&snapshot, passed),
        }
    }

    /// What is to be done otherwise from now on.
    pub fn directives(&mut self, snapshot: Snapshot<'_>) -> Vec<Directive> {
        match &mut self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Slots(..) => Vec::new(),
            Rule::Adaptive(adaptive) => adaptive.directives(&snapshot),
            Rule::Phases(phases) => phases.directives(&snapshot),
            Rule::Waves(waves) => waves.directives(&snapshot),
        }
    }

    /// Whether it looks at how far active repairs have come, or has their stripes planned again.
    pub fn heeds_progress(&self) -> bool {
        match &self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Slots(..) => false,
            Rule::Adaptive(_) | Rule::Phases(_) | Rule::Waves(_) => true,
        }
    }

    /// When to ask again although nothing has happened.
    pub fn next_deadline(&self, snapshot: Snapshot<'_>) -> Option<Time> {
        let (waits, ready) = (!snapshot.waiting.is_empty(), snapshot.ready > 0);
        match &self.rule {
            Rule::All | Rule::Concurrency(_) | Rule::Slots(..) => None,
            Rule::Adaptive(adaptive) => adaptive.next_deadline(waits),
            Rule::Phases(phases) => phases.next_deadline(ready && !waits),
            Rule::Waves(waves) => waves.next_deadline(!snapshot.active.is_empty()),
        }
    }
}

/// Those first that take the least; the order of equals stays.
fn sorted_by_seconds(
    mut made: Vec<PlannedRepair>,
    seconds: impl Fn(&PlannedRepair) -> f64,
) -> Vec<PlannedRepair> {
    made.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    made
}
