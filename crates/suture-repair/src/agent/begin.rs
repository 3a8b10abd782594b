//! Whether an agent can do its part of a task, and the task as it begins.
//!
//! Place: ... admit -> [dispatch] -> slices flow -> chunk proven and durable -> commit ...
//! A task is refused at once or begun; it never waits for memory, or two tasks could wait for each
//! other at different agents.

use std::sync::Arc;

use super::Agent;
use super::running::{Running, TaskState};
use crate::id::{ChunkCopy, RepairId, Stamp};
use crate::message::{Failure, Refusal, Task};
use crate::mutant::Mutant;
use crate::plan::validate::validate;
use crate::plan::{Lane, Plan, Range};
use crate::pump::{Pump, WINDOW_MAX};
use crate::role::Role;
use crate::slice::{PAYLOAD_BYTES_MAX, lane_slice, memory};
use crate::time::Time;

/// Slices of a lane: their indices have 32 bits. Short periods make many of them.
const SLICES_MAX: u64 = 1 << 31;

/// Lanes of a plan: their indices have 16 bits.
const LANES_MAX: usize = 1 << 16;

impl Agent {
    /// The task as it begins, if this agent can do its part.
    pub(super) fn begin(&self, now: Time, task: Arc<Task>) -> Result<Running, Failure> {
        check(&task).map_err(Failure::Refused)?;
        let roles = Role::of(&task, self.config.me).map_err(Failure::Refused)?;
        if roles.is_empty() {
            return Err(Failure::Refused(Refusal::NotAParticipant));
        }
        let reserved = self.find_memory(&task)?;
        let (state, takes_over) = self.first_state(&task).map_err(Failure::Refused)?;
        let window = task.window + u32::from(self.mistake.is(Mutant::WideWindow));
        let window = window.min(WINDOW_MAX);
        let old = takes_over.and_then(|old| self.tasks.get(&old));
        let written = old.map(Running::written).unwrap_or_default();
        let skips = task.skips && task.continues.is_some() && !task.gated;
        let pump = |role: Arc<Role>| {
            let has = first_missing(&task, &role, &written);
            let pump = Pump::new(role, window).mistaken(self.mistake);
            if skips { pump.skipping(has) } else { pump }
        };
        let lanes = roles.into_iter().map(|(lane, role)| (lane, pump(role))).collect();
        let (lost, progressed_at) = (None, now);
        Ok(Running { task, lanes, state, takes_over, lost, reserved, progressed_at })
    }

    /// The slice memory that a task takes, if it is free or the task that it continues leaves it.
    fn find_memory(&self, task: &Task) -> Result<u64, Failure> {
        let old = task.continues.and_then(|old| self.tasks.get(&old));
        let left = old.map_or(0, |old| old.reserved);
        let (needed, free) = (self.memory(task), self.config.pool_bytes - self.reserved + left);
        if needed > free { Err(Failure::NoBuffers { needed, free }) } else { Ok(needed) }
    }

    /// The slice memory that a task takes here.
    pub(super) fn memory(&self, task: &Task) -> u64 {
        let alignment = task.stripe.code.alignment() as u32;
        let needs = memory(&task.plan, task.slice_bytes, alignment).into_iter();
        let mine = needs.filter(|(node, _)| *node == self.config.me).map(|(_, bytes)| bytes);
        mine.sum::<u64>() * u64::from(task.window)
    }

    /// The state in which a task begins, and the attempt that leaves it its file; refused where it
    /// cannot continue what it is to continue. One that skips makes all that is not there.
    fn first_state(&self, task: &Task) -> Result<(TaskState, Option<RepairId>), Refusal> {
        let mut destinations = task.plan.destinations.iter();
        let mine = destinations.find(|(_, node)| **node == self.config.me);
        let mine = mine.filter(|_| !self.mistake.is(Mutant::ForgetCopy));
        let Some((&chunk, _)) = mine else { return Ok((TaskState::Passing, None)) };
        let stamp = Stamp::from(task.repair);
        let copy = ChunkCopy { stripe: task.stripe.id, chunk, stamp };
        let (from, before) = (task.plan.range.from, task.continues);
        let old = before.and_then(|old| self.tasks.get(&old));
        let leaves = old.is_some_and(|old| old.leaves(copy, from));
        // What is being published is the whole chunk: it is better than beginning anew.
        let is_published = old.is_some_and(|old| matches!(old.state, TaskState::Publishing(_)));
        let may_begin_anew = task.skips && from == 0 && !is_published;
        if before.is_some() && !leaves && !may_begin_anew {
            return Err(Refusal::CannotContinue);
        }
        Ok((TaskState::Preparing(copy), before.filter(|_| leaves)))
    }
}

/// The first slice of a lane that is not in a file that has these ranges.
fn first_missing(task: &Task, role: &Role, written: &[Range]) -> u32 {
    let from = role.slice_ranges.get(0).offset;
    let has_first = |range: &&Range| (range.from..range.to).contains(&from);
    let range = written.iter().find(has_first).filter(|_| task.plan.period.is_none());
    range.map_or(0, |range| role.slice_ranges.count_until(range.to))
}

/// Whether a task makes sense to whichever agent.
fn check(task: &Task) -> Result<(), Refusal> {
    let alignment = task.stripe.code.alignment() as u64;
    let slices_fit = (1..=PAYLOAD_BYTES_MAX).contains(&task.slice_bytes)
        && u64::from(task.slice_bytes).is_multiple_of(alignment);
    let is_later = task.continues.is_none_or(|old| old < task.repair);
    if task.window == 0 || task.window > WINDOW_MAX || !slices_fit || !is_later {
        return Err(Refusal::InvalidPlan);
    }
    task.stripe.check().map_err(|_| Refusal::InvalidPlan)?;
    let survivors = task.survivors();
    let valid = validate(&task.plan, &task.facts(&survivors), usize::MAX);
    valid.map_err(|_| Refusal::InvalidPlan)?;
    let slices = |lane: &Lane| {
        let slice = lane_slice(&task.plan, lane, task.slice_bytes, alignment as u32);
        task.plan.slice_count(lane, slice)
    };
    let Plan { lost, range, lanes, .. } = &task.plan;
    if lanes.len() > LANES_MAX || lanes.iter().any(|lane| slices(lane) >= SLICES_MAX) {
        return Err(Refusal::InvalidPlan);
    }
    let is_whole = range.to >= task.stripe.reach(lost);
    if !is_whole || range.from > 0 && task.continues.is_none() {
        // Part of a chunk cannot be proven; a requestor may want one, no store.
        return Err(Refusal::Ability);
    }
    Ok(())
}
