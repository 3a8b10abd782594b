//! What runs when: the schedule, a struct of its own that the coordinator asks.
//!
//! Place: ... queue -> plan -> [what is planned next, what is admitted next, in which order its
//! edges flow, what has to be done differently] -> dispatch -> slices flow -> ...
//! A schedule is told what starts, moves and ends, and answers four questions: how many stripes to
//! plan now (`quota`), which of the plans made to keep and in what order (`arrange`), which to
//! start next (`next`), and what running repairs should do otherwise (`orders`). It never sees
//! sockets, slices or memory: whether a plan fits is the budget's affair.
//!
//! | schedule | file | source |
//! |---|---|---|
//! | `all`, `window` | here | - |
//! | `slots` | `schedule/slots.rs` | RepairBoost, ATC'21, section 3.3 and 3.4 |
//! | `adaptive` | `schedule/adaptive.rs` | PivotRepair, ICDCS'22, section IV-E |
//! | `phases` | `schedule/phases.rs` | ChameleonEC, HPCA'25, sections III-A and III-C |
//! | `waves` | `schedule/waves.rs` | ours |
//!
//! Invariant: whatever a schedule answers, every repair is started and finished in the end; where
//! nothing runs, something that fits may start.

mod adaptive;
mod link_load;
mod matching;
mod phases;
mod slots;
mod straggler;
mod transmissions;
mod waiting;
mod waves;

use std::collections::BTreeMap;
use std::sync::Arc;

use suture_code::Code;

use crate::cluster::Cluster;
use crate::id::{NodeId, RepairId, StripeId};
use crate::plan::Plan;
use crate::planner::Job;
use crate::policy::Schedule;
use crate::time::Time;
use adaptive::Adaptive;
use link_load::{LinkLoad, link_loads};
use phases::Phases;
use slots::Slots;
use waves::Waves;

pub use waiting::Waiting;

/// A plan, and the stripe that it was made for.
#[derive(Clone, Debug)]
pub struct Work {
    /// What was asked.
    pub job: Job,
    /// What is to be done.
    pub plan: Plan,
    /// What it takes of each node's links, ascending by node.
    link_loads: Vec<(NodeId, LinkLoad)>,
}

impl Work {
    /// A plan that answers `job`.
    pub fn new(job: Job, plan: Plan) -> Work {
        Work { link_loads: link_loads(&plan), job, plan }
    }

    /// How long it takes when nothing else runs, in seconds.
    fn seconds_alone(&self, cluster: &Cluster) -> f64 {
        let loads = self.link_loads.iter();
        loads.map(|(node, load)| load.seconds(cluster.node(*node))).fold(0.0, f64::max)
    }
}

/// A repair that was dispatched and has not ended.
#[derive(Clone, Debug)]
pub struct Running {
    /// What was dispatched.
    pub work: Arc<Work>,
    /// When.
    pub since: Time,
    /// Bytes that have come to its slowest destination, as last heard.
    pub bytes_done: u64,
    /// When that last grew.
    pub moved_at: Time,
    /// The transport unit: bounds of ranges are multiples of it.
    pub slice_bytes: u32,
    /// How long it would take with all links to itself, as they were when it began.
    pub alone_seconds: f64,
}

/// The repairs that run.
pub type Repairs = BTreeMap<RepairId, Running>;

/// The world at the moment of a question.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// Now.
    pub now: Time,
    /// Links as they are told.
    pub cluster: &'a Cluster,
    /// How many nodes can be used.
    pub nodes: usize,
    /// How many stripes are ready to be planned.
    pub ready: usize,
    /// How many are under repair, until their new location is known.
    pub attempts: usize,
    /// One of them, or of those that are under repair.
    pub sample: Option<Sample>,
    /// Plans that have not been started.
    pub waiting: &'a Waiting,
}

/// What stripes are like.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The code.
    pub code: Code,
    /// Length of a chunk.
    pub chunk_bytes: u64,
}

/// What a running repair is to do otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In a gated repair, the edge from `child` to `parent` may flow.
    Release {
        /// The repair.
        repair: RepairId,
        /// The lane.
        lane: u16,
        /// Who sends.
        child: NodeId,
        /// Who receives.
        parent: NodeId,
    },
    /// Rest, or go on.
    Hold {
        /// The repair.
        repair: RepairId,
        /// Whether it rests.
        held: bool,
    },
    /// Go on by another plan, for what this one has left.
    Replace {
        /// The repair.
        repair: RepairId,
        /// What takes its place; its range begins at a multiple of the slice that has come.
        plan: Plan,
    },
    /// Forget all plans that wait, so that they are made anew for links as they are now.
    PlanAgain,
}

/// A schedule at work.
#[derive(Debug)]
pub struct Scheduler {
    kind: Kind,
    running: Repairs,
}

#[derive(Debug)]
enum Kind {
    All,
    Window(Option<u32>),
    Slots(Slots),
    Adaptive(Adaptive),
    Phases(Phases),
    Waves(Waves),
}

impl Scheduler {
    /// A schedule that has started nothing.
    pub fn new(schedule: Schedule) -> Scheduler {
        let kind = match schedule {
            Schedule::All => Kind::All,
            Schedule::Window(repairs) => Kind::Window(repairs),
            Schedule::Slots(subprocess, _) => Kind::Slots(Slots::new(subprocess)),
            Schedule::Adaptive => Kind::Adaptive(Adaptive::default()),
            Schedule::Phases(seconds, order) => Kind::Phases(Phases::new(seconds, order)),
            Schedule::Waves => Kind::Waves(Waves::default()),
        };
        Scheduler { kind, running: BTreeMap::new() }
    }

    /// Whether repairs move edge by edge, each when it is released.
    pub fn is_gated(&self) -> bool {
        matches!(self.kind, Kind::Slots(_))
    }

    /// How many of the ready stripes may be planned now.
    pub fn quota(&mut self, world: World<'_>) -> usize {
        let running = &self.running;
        match &mut self.kind {
            Kind::All | Kind::Window(_) | Kind::Adaptive(_) => usize::MAX,
            Kind::Slots(slots) => slots.quota(&world, running),
            Kind::Phases(phases) => phases.quota(&world, running),
            Kind::Waves(waves) => waves.quota(&world, running),
        }
    }

    /// The cluster as the planner is to see it, where that differs from what is told.
    pub fn believed(&self, cluster: &Cluster) -> Option<Cluster> {
        match &self.kind {
            Kind::Slots(slots) => slots.believed(cluster),
            Kind::Waves(waves) => waves.believed(cluster),
            _ => None,
        }
    }

    /// Brings plans that were just made into the order in which they are to wait, and drops those
    /// that are to be planned again later.
    pub fn arrange(&mut self, world: World<'_>, made: Vec<Work>) -> Vec<Work> {
        let running = &self.running;
        match &mut self.kind {
            Kind::All | Kind::Window(_) | Kind::Adaptive(_) | Kind::Slots(_) => made,
            Kind::Phases(phases) => phases.arrange(&world, running, made),
            Kind::Waves(waves) => waves.arrange(&world, made),
        }
    }

    /// The plan to start next, other than those that were `passed` over just now for want of room.
    pub fn next(&mut self, world: World<'_>, passed: &[StripeId]) -> Option<StripeId> {
        let running = &self.running;
        let in_order = || world.waiting.nth(passed.len());
        match &mut self.kind {
            Kind::All | Kind::Slots(_) | Kind::Phases(_) => in_order(),
            Kind::Waves(_) => (running.len() < waves::window(&world)).then(in_order).flatten(),
            Kind::Window(repairs) => {
                let window = repairs.map_or(world.nodes, |repairs| repairs as usize);
                if world.attempts < window { in_order() } else { None }
            }
            Kind::Adaptive(adaptive) => adaptive.next(&world, running, passed),
        }
    }

    /// A repair was dispatched.
    pub fn started(&mut self, world: World<'_>, id: RepairId, work: Arc<Work>, slice_bytes: u32) {
        let now = world.now;
        let running = Running {
            alone_seconds: work.seconds_alone(world.cluster),
            work,
            since: now,
            bytes_done: 0,
            moved_at: now,
            slice_bytes,
        };
        match &mut self.kind {
            Kind::All | Kind::Window(_) | Kind::Adaptive(_) => {}
            Kind::Slots(slots) => slots.started(id, &running.work.plan),
            Kind::Phases(phases) => phases.started(&world, id, &running),
            Kind::Waves(waves) => waves.started(id, &running),
        }
        self.running.insert(id, running);
    }

    /// A destination has said how far a repair is.
    pub fn moved(&mut self, now: Time, id: RepairId, bytes_done: u64) {
        if let Some(running) = self.running.get_mut(&id)
            && running.bytes_done < bytes_done
        {
            (running.bytes_done, running.moved_at) = (bytes_done, now);
        }
    }

    /// An edge of a gated repair has arrived in full at `parent`. Returns whether that is news.
    pub fn arrived(
        &mut self,
        now: Time,
        id: RepairId,
        lane: u16,
        (child, parent): (NodeId, NodeId),
    ) -> bool {
        match &mut self.kind {
            Kind::Slots(slots) => slots.arrived(now, id, lane, (child, parent)),
            _ => false,
        }
    }

    /// A repair moves nothing any more: everything has come, or it failed, or it was replaced.
    pub fn ended(&mut self, id: RepairId) {
        let Some(running) = self.running.remove(&id) else { return };
        match &mut self.kind {
            Kind::All | Kind::Window(_) | Kind::Adaptive(_) => {}
            Kind::Slots(slots) => slots.ended(id),
            Kind::Phases(phases) => phases.ended(id),
            Kind::Waves(waves) => waves.ended(id, &running),
        }
    }

    /// Links are told to have changed.
    pub fn rates_changed(&mut self, now: Time, cluster: &Cluster) {
        match &mut self.kind {
            Kind::Adaptive(adaptive) => adaptive.rates_changed(),
            Kind::Waves(waves) => waves.rates_changed(now, cluster),
            _ => {}
        }
    }

    /// Whether a repair waits for its turn, so that it is no wonder if nothing moves.
    pub fn is_resting(&self, id: RepairId) -> bool {
        match &self.kind {
            Kind::Slots(slots) => slots.is_resting(id),
            Kind::Phases(phases) => phases.is_held(id),
            _ => false,
        }
    }

    /// What was released to `node` and has not arrived, to be said again when that may be lost.
    pub fn released_to(&self, node: NodeId) -> Vec<Order> {
        match &self.kind {
            Kind::Slots(slots) => slots.released_to(node),
            _ => Vec::new(),
        }
    }

    /// What running repairs are to do otherwise from now on.
    pub fn orders(&mut self, world: World<'_>) -> Vec<Order> {
        let running = &self.running;
        match &mut self.kind {
            Kind::All | Kind::Window(_) => Vec::new(),
            Kind::Slots(slots) => slots.orders(&world),
            Kind::Adaptive(adaptive) => adaptive.orders(&world),
            Kind::Phases(phases) => phases.orders(&world, running),
            Kind::Waves(waves) => waves.orders(&world, running),
        }
    }

    /// When to ask again although nothing has happened.
    pub fn next_deadline(&self, waiting: &Waiting, ready: usize) -> Option<Time> {
        match &self.kind {
            Kind::All | Kind::Window(_) | Kind::Slots(_) => None,
            Kind::Adaptive(adaptive) => adaptive.next_deadline(!waiting.is_empty()),
            Kind::Phases(phases) => phases.next_deadline(ready > 0 && waiting.is_empty()),
            Kind::Waves(waves) => waves.next_deadline(!self.running.is_empty()),
        }
    }
}
