//! One dispatched repair as flows: which of its steps wait, flow, rest or have ended.
//!
//! Place: ... dispatch -> [its lanes flow without bytes] -> `Stored` ...
//! A streamed lane is one step; a lane of a gated repair has a step for each edge, which waits for
//! what its sender sums and for its release. `ports` defines which flows a plan is; this file
//! starts and stops them, and reports how far the chunks have come. Knows neither coordinator nor
//! agents.

use std::sync::Arc;

use suture_repair::id::{ChunkIndex, NodeId, RepairId};
use suture_repair::message::Task;
use suture_repair::plan::{Edge, Mode, Plan};
use suture_repair::slice::lane_slice;

use crate::fluid::{FlowId, Network, Transfer, Urgency};
use crate::ports::{LaneFlows, PortMap, Step};

/// A dispatched repair, its lanes as flows.
#[derive(Debug)]
pub(super) struct Repair {
    pub task: Arc<Task>,
    lanes: Vec<Lane>,
    unfinished: Vec<Unfinished>,
    /// When it was dispatched, in seconds.
    pub began: f64,
    is_held: bool,
    /// Whether anything has moved since its progress was last asked for.
    has_moved: bool,
}

/// A chunk that is not there yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    pub chunk: ChunkIndex,
    pub destination: NodeId,
    /// Lanes that it still waits for.
    lanes_left: usize,
}

#[derive(Debug)]
struct Lane {
    /// The chunks that it helps to rebuild.
    lost: Vec<ChunkIndex>,
    /// Bytes of each of them.
    bytes: u64,
    /// The part of them that was there when the repair began, and does not flow.
    skipped: f64,
    /// Edges from its deepest leaf to the end.
    depth: u32,
    steps: Vec<LaneStep>,
    steps_left: usize,
}

#[derive(Debug)]
struct LaneStep {
    planned: Step,
    state: Motion,
    /// Of an edge of a gated repair.
    gated: Option<GatedEdge>,
}

/// Sender and receiver of an edge of a gated repair, and whether it was released.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedEdge {
    pub child: NodeId,
    pub parent: NodeId,
    is_open: bool,
}

/// What moves from one node to another at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeFlow {
    pub child: NodeId,
    pub parent: NodeId,
    /// In bytes per second.
    pub rate: f64,
    /// Its flow's rate by its share: at a full port the flows of the highest level wait for it.
    pub level: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Motion {
    /// Not begun: something that it sums has not come, or it was not released.
    Waiting,
    Flowing(FlowId),
    /// Begun, but held, with so many bytes left.
    Held(f64),
    Ended,
}

/// What a flow is to its repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub repair: RepairId,
    pub lane: usize,
    pub step: usize,
}

/// The flows of all repairs.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// By the number of the flow; none where it is a client's, or has ended.
    owners: Vec<Option<Owner>>,
    /// How often one has begun or ended.
    changes: u64,
}

/// Overheads of a lane depend on these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipeline {
    pub depth: u32,
    pub slices: u64,
}

impl Flows {
    /// Takes out a flow that has ended.
    ///
    /// # Panics
    /// When it is no repair's.
    pub fn ended(&mut self, flow: FlowId) -> Owner {
        self.changes += 1;
        self.owners[flow.0 as usize].take().expect("a client's flow or a repair's")
    }

    /// How often one has begun or ended so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether any of them has a rate.
    pub fn any_moves(&self, network: &Network) -> bool {
        let flows = self.owners.iter().enumerate().filter(|(_, owner)| owner.is_some());
        flows.into_iter().any(|(flow, _)| network.rate(FlowId(flow as u32)) > 0.0)
    }

    fn start(
        &mut self,
        network: &mut Network,
        transfer: Transfer,
        step: &Step,
        owner: Owner,
    ) -> Motion {
        self.changes += 1;
        let flow = network.start(transfer, &step.takes, Urgency::Patient);
        let number = flow.0 as usize;
        self.owners.resize(self.owners.len().max(number + 1), None);
        self.owners[number] = Some(owner);
        Motion::Flowing(flow)
    }

    fn stop(&mut self, network: &mut Network, flow: FlowId) {
        self.changes += 1;
        network.stop(flow);
        self.owners[flow.0 as usize] = None;
    }
}

impl Repair {
    /// A repair of which nothing flows yet.
    pub fn new(task: Arc<Task>, ports: &PortMap, began: f64) -> Repair {
        let survivors = task.survivors();
        let facts = task.facts(&survivors);
        let flows = if task.gated {
            ports.stored_lanes(&task.plan, &facts)
        } else {
            ports.lanes(&task.plan, &facts)
        };
        let mut unfinished: Vec<Unfinished> = Vec::new();
        for &chunk in flows.iter().flat_map(|lane| &lane.lost) {
            match unfinished.iter_mut().find(|part| part.chunk == chunk) {
                Some(part) => part.lanes_left += 1,
                None => unfinished.push(Unfinished {
                    chunk,
                    destination: task.plan.destinations[&chunk],
                    lanes_left: 1,
                }),
            }
        }
        unfinished.sort_unstable_by_key(|part| part.chunk);
        let edges = |lane: usize| if task.gated { &task.plan.lanes[lane].edges[..] } else { &[] };
        let lanes =
            flows.into_iter().enumerate().map(|(lane, flows)| Lane::new(flows, edges(lane)));
        let lanes = lanes.collect();
        Repair { task, lanes, unfinished, began, is_held: false, has_moved: false }
    }

    /// The repair as it goes on with what the same lanes of another one have brought.
    pub fn going_on(mut self, before: &Repair, network: &Network) -> Repair {
        let mut lanes = self.task.plan.lanes.iter().zip(&before.task.plan.lanes);
        let are_same = self.lanes.len() == before.lanes.len()
            && lanes.all(|(lane, old)| lane.range == old.range);
        if self.task.skips && are_same {
            for (lane, old) in self.lanes.iter_mut().zip(&before.lanes) {
                lane.skipped = old.fraction_done(network);
            }
        }
        self
    }

    /// How many lanes it has.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The chunks that are not there yet, ascending.
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// Starts the steps of a lane whose time has come. Returns whether the lane has no step left.
    pub fn go_on(
        &mut self,
        id: RepairId,
        index: usize,
        flows: &mut Flows,
        network: &mut Network,
    ) -> bool {
        let lane = &mut self.lanes[index];
        let left = 1.0 - lane.skipped;
        while let Some(step) = lane.next_ready() {
            self.has_moved = true;
            let LaneStep { planned, state, .. } = &mut lane.steps[step];
            let bytes = planned.bytes * left;
            if planned.takes.is_empty() || bytes <= 0.0 {
                *state = Motion::Ended;
                lane.steps_left -= 1;
            } else {
                let owner = Owner { repair: id, lane: index, step };
                let transfer = Transfer { bytes, share: planned.bytes };
                *state = flows.start(network, transfer, planned, owner);
            }
        }
        lane.steps_left == 0
    }

    /// A step's flow has ended. Returns the edge, if it is one of a gated repair.
    pub fn step_ended(&mut self, lane: usize, step: usize) -> Option<GatedEdge> {
        self.has_moved = true;
        let lane = &mut self.lanes[lane];
        lane.steps[step].state = Motion::Ended;
        lane.steps_left -= 1;
        lane.steps[step].gated
    }

    /// What the overheads of a lane depend on.
    pub fn pipeline(&self, index: usize) -> Pipeline {
        let plan = &self.task.plan;
        let lane = &plan.lanes[index];
        let alignment = self.task.stripe.code.alignment() as u32;
        let slice_bytes = lane_slice(plan, lane, self.task.slice_bytes, alignment);
        let slices = plan.slice_ranges(lane, slice_bytes).count();
        Pipeline { depth: self.lanes[index].depth, slices: slices.into() }
    }

    /// A lane is over. Returns the chunks that waited for nothing else.
    pub fn lane_ended(&mut self, lane: usize) -> Vec<Unfinished> {
        for part in &mut self.unfinished {
            part.lanes_left -= usize::from(self.lanes[lane].lost.contains(&part.chunk));
        }
        self.unfinished.extract_if(.., |part| part.lanes_left == 0).collect()
    }

    /// The edges from `child` in a lane may flow. Returns whether the lane has anything left.
    pub fn release(&mut self, lane: u16, child: NodeId) -> bool {
        let Some(lane) = self.lanes.get_mut(usize::from(lane)) else { return false };
        let all_gated = lane.steps.iter_mut().filter_map(|step| step.gated.as_mut());
        all_gated.filter(|gated| gated.child == child).for_each(|gated| gated.is_open = true);
        lane.steps_left > 0
    }

    /// Comes to rest, or goes on.
    pub fn hold(&mut self, id: RepairId, held: bool, flows: &mut Flows, network: &mut Network) {
        if std::mem::replace(&mut self.is_held, held) == held {
            return;
        }
        self.has_moved = true;
        for (lane, part) in self.lanes.iter_mut().enumerate() {
            for (step, LaneStep { planned, state, .. }) in part.steps.iter_mut().enumerate() {
                match *state {
                    Motion::Flowing(flow) if held => {
                        *state = Motion::Held(network.left(flow));
                        flows.stop(network, flow);
                    }
                    Motion::Held(left) if !held => {
                        let transfer = Transfer { bytes: left, share: planned.bytes };
                        let owner = Owner { repair: id, lane, step };
                        *state = flows.start(network, transfer, planned, owner);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Stops all flows. Returns its plan, cut down to what was moved.
    pub fn stop(&self, flows: &mut Flows, network: &mut Network) -> Plan {
        let plan = self.cut(|lane| lane.fraction_done(network) - lane.skipped);
        for step in self.lanes.iter().flat_map(|lane| &lane.steps) {
            if let Motion::Flowing(flow) = step.state {
                flows.stop(network, flow);
            }
        }
        plan
    }

    /// Calls `see` with what moves on each of its edges at this moment.
    pub fn edges(&self, network: &Network, mut see: impl FnMut(EdgeFlow)) {
        self.moving(|edge, step, flow| {
            let &Edge { child, parent, bytes: through, .. } = edge;
            let (rate, bytes) = (network.rate(flow), step.bytes);
            let part = through as f64 / bytes;
            see(EdgeFlow { child, parent, rate: rate * part, level: rate / bytes });
        });
    }

    /// Calls `see` with each edge that moves at this moment, and with the step and the flow that
    /// it is of.
    pub fn moving(&self, mut see: impl FnMut(&Edge, &Step, FlowId)) {
        for (lane, planned) in self.lanes.iter().zip(&self.task.plan.lanes) {
            // The flow of a streamed lane is all of its edges; others have one each, of as many
            // bytes, which come first.
            let is_whole = !self.task.gated && planned.mode == Mode::Streamed;
            for (index, step) in lane.steps.iter().enumerate() {
                let Motion::Flowing(flow) = step.state else { continue };
                let its_own = planned.edges.get(index..=index).unwrap_or_default();
                let edges = if is_whole { &planned.edges[..] } else { its_own };
                edges.iter().for_each(|edge| see(edge, &step.planned, flow));
            }
        }
    }

    /// Its plan, cut down to what was moved, when it is over.
    pub fn moved(&self) -> Plan {
        self.cut(|lane| 1.0 - lane.skipped)
    }

    /// Its plan with so much of each lane.
    fn cut(&self, part: impl Fn(&Lane) -> f64) -> Plan {
        let mut plan = self.task.plan.clone();
        for (lane, moved) in plan.lanes.iter_mut().zip(&self.lanes) {
            let part = part(moved).max(0.0);
            lane.range.to = lane.range.from + (lane.range.bytes() as f64 * part) as u64;
            for edge in &mut lane.edges {
                edge.bytes = (edge.bytes as f64 * part) as u64;
            }
        }
        plan
    }

    /// Calls `notify` with each unfinished chunk and its bytes so far, counted from the beginning
    /// of the chunk, if anything has moved since the last call.
    pub fn progress(&mut self, network: &Network, mut notify: impl FnMut(&Unfinished, u64)) {
        if !self.has_moved {
            return;
        }
        let plan = &self.task.plan;
        let (from, is_only) = (plan.range.from as f64, plan.lost.len() == 1);
        for part in &self.unfinished {
            let helps = |lane: &&Lane| is_only || lane.lost.contains(&part.chunk);
            let lanes = self.lanes.iter().filter(helps);
            let done: f64 = lanes.map(|lane| lane.done(network)).sum();
            notify(part, (from + done) as u64);
        }
        let mut steps = self.lanes.iter().flat_map(|lane| &lane.steps);
        self.has_moved = steps.any(|step| matches!(step.state, Motion::Flowing(_)));
    }
}

impl Lane {
    /// `edges` are those of a gated repair, of which the first steps are.
    fn new(flows: LaneFlows, edges: &[Edge]) -> Lane {
        let LaneFlows { lost, bytes, depth, steps } = flows;
        let gated =
            |edge: &Edge| GatedEdge { child: edge.child, parent: edge.parent, is_open: false };
        let mut all_gated = edges.iter().map(gated);
        let step = |planned| LaneStep { planned, state: Motion::Waiting, gated: all_gated.next() };
        let steps: Vec<LaneStep> = steps.into_iter().map(step).collect();
        Lane { lost, bytes, skipped: 0.0, depth, steps_left: steps.len(), steps }
    }

    /// A step that may begin.
    fn next_ready(&self) -> Option<usize> {
        let has_ended = |&before: &usize| self.steps[before].state == Motion::Ended;
        let is_ready = |step: &LaneStep| {
            step.state == Motion::Waiting
                && step.gated.is_none_or(|gated| gated.is_open)
                && step.planned.after.iter().all(has_ended)
        };
        self.steps.iter().position(is_ready)
    }

    /// Bytes of the chunk that have come so far; of a stored lane, that part of its transfers.
    fn done(&self, network: &Network) -> f64 {
        let (mut moved, mut total) = (0.0, 0.0);
        for LaneStep { planned, state, .. } in &self.steps {
            total += planned.bytes;
            moved += match state {
                Motion::Waiting => planned.bytes * self.skipped,
                Motion::Flowing(flow) => planned.bytes - network.left(*flow),
                Motion::Held(left) => planned.bytes - left,
                Motion::Ended => planned.bytes,
            };
        }
        if total > 0.0 { self.bytes as f64 * moved / total } else { 0.0 }
    }

    /// What fraction of it has come so far.
    fn fraction_done(&self, network: &Network) -> f64 {
        self.done(network) / (self.bytes as f64).max(1.0)
    }
}
