//! Admission: how much slice memory running repairs may hold at each agent, and how many run.
//!
//! Place: failure -> stripes -> queue -> plan -> [admit] -> dispatch -> slices -> commit.
//! A repair's memory is reserved at every participant before any agent is notified of it. Agents
//! never wait for memory, so two repairs cannot hold what the other needs: a fixed pool cannot
//! deadlock. Slices shrink until a repair takes at most a fair share of the smallest pool involved,
//! so that many run side by side; a repair that fits nowhere even with the smallest slices is
//! distinguished from one that only has to wait.
//! Invariant: the reservations at a node never exceed its pool. Does not know codes or planners.

use std::collections::BTreeMap;

use crate::id::{NodeId, RepairId};
use crate::mutant::{Mistake, Mutant};
use crate::plan::Plan;
use crate::slice::{
    SLICE_BYTES_LEAST, SLICE_BYTES_MIN, align, memory, preferred_slice, smallest_slice,
};

/// Slices under way on one edge: one on the wire, one being summed, one being sent, one of slack;
/// and as many again, because a grant waits behind the slice that its connection is just moving,
/// at either end, which takes as long as a slice or two of its own lane. With 4 stars took a tenth
/// longer than their busiest link.
const WINDOW: u32 = 8;

/// Repairs that should fit into a pool side by side before slices stop shrinking.
const SHARES: u64 = 32;

/// Repairs in which one agent takes part at a time. All at once is optimal where memory permits,
/// because a plan is balanced as a whole and not in parts; with 256 here, 500 lost chunks among 16
/// nodes took 5 to 18 % longer. Far beyond, tiny chunks would only flood agents with waiting tasks.
pub const TASKS_MAX: usize = 1024;

/// How a repair moves its bytes, and what that takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The transport unit of a lane over the whole range.
    pub slice_bytes: u32,
    /// Slices under way on one edge.
    pub window: u32,
    /// Memory at each participant.
    pub needs: Vec<(NodeId, u64)>,
}

/// Why a repair may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// Not before another one ends.
    Later,
    /// Never with these pools.
    TooLarge {
        /// The node that has too small a pool.
        node: NodeId,
        /// What it would need at least.
        needed: u64,
        /// Slice memory that its agent has, in bytes.
        pool: u64,
    },
}

/// A node's slice memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// All of its slice memory.
    pub bytes: u64,
    /// What running repairs hold of it.
    pub reserved: u64,
    /// How many those are.
    pub tasks: usize,
}

/// Reservations of all running repairs.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    pools: BTreeMap<NodeId, Pool>,
    held: BTreeMap<RepairId, Vec<(NodeId, u64)>>,
    pub(crate) mistake: Mistake,
}

impl Budget {
    /// The node's pool holds this much.
    pub fn set_pool(&mut self, node: NodeId, bytes: u64) {
        self.pools.entry(node).or_default().bytes = bytes;
    }

    /// Reserves what `plan` needs at every participant, or nothing.
    /// Slices are multiples of `alignment` bytes.
    ///
    /// # Errors
    /// Some participant lacks the memory, at the moment or for good.
    pub fn admit(
        &mut self,
        repair: RepairId,
        plan: &Plan,
        alignment: u32,
    ) -> Result<Fit, NotAdmitted> {
        let is_busy = |node| self.pool(node).tasks >= TASKS_MAX;
        // The usual reason to wait, and much cheaper to find than the memory that a plan needs.
        if plan.participants().into_iter().any(is_busy) {
            return Err(NotAdmitted::Later);
        }
        let mut fit = self.fit(plan, alignment)?;
        fit.slice_bytes += u32::from(self.mistake.is(Mutant::OddSlices));
        let fits =
            |(node, need): &(NodeId, u64)| self.pool(*node).free() >= *need && !is_busy(*node);
        if !fit.needs.iter().all(fits) && !self.mistake.is(Mutant::OverAdmit) {
            return Err(NotAdmitted::Later);
        }
        if self.mistake.is(Mutant::ReserveLess) {
            fit.needs.pop();
        }
        self.hold(repair, fit.needs.clone());
        Ok(fit)
    }

    /// Reserves what `plan` needs in the place of what `old` holds, or leaves everything as it is:
    /// a repair that goes on another way needs no room for both. Where nodes that are new to it
    /// have little memory left, it goes on in smaller slices, since to wait would be to begin anew.
    ///
    /// # Errors
    /// As [`admit`](Budget::admit), where not even small slices find memory.
    pub fn exchange(
        &mut self,
        old: RepairId,
        repair: RepairId,
        plan: &Plan,
        alignment: u32,
    ) -> Result<Fit, NotAdmitted> {
        let needs = self.held(old).map(<[_]>::to_vec);
        self.release(old);
        let mut fit = self.admit(repair, plan, alignment);
        if fit == Err(NotAdmitted::Later)
            && let Some(smaller) = self.fit_what_is_free(plan, alignment)
        {
            self.hold(repair, smaller.needs.clone());
            fit = Ok(smaller);
        }
        if let (Err(_), Some(needs)) = (&fit, needs) {
            self.hold(old, needs);
        }
        fit
    }

    /// The largest slice, then the widest window, with which the plan takes its share of each pool
    /// and no more than is free of it; `None` where a node has no memory for two of the smallest
    /// that are worth their handling, or too many tasks.
    fn fit_what_is_free(&self, plan: &Plan, alignment: u32) -> Option<Fit> {
        let smallest = smallest_slice(alignment);
        let Fit { slice_bytes: mut slice, mut window, .. } = self.fit(plan, alignment).ok()?;
        loop {
            let needs = memory(plan, slice, alignment).into_iter();
            let needs = needs.map(|(node, bytes)| (node, bytes * u64::from(window)));
            let needs: Vec<(NodeId, u64)> = needs.collect();
            let pools = || needs.iter().map(|(node, need)| (self.pool(*node), *need));
            if pools().any(|(pool, _)| pool.tasks >= TASKS_MAX) {
                return None;
            }
            if pools().all(|(pool, need)| need <= pool.free()) {
                return Some(Fit { slice_bytes: slice, window, needs });
            }
            match (slice > smallest, window) {
                (true, _) => slice = align(slice / 2, alignment),
                (false, ..=2) => return None,
                (false, _) => window = (window / 2).max(2),
            }
        }
    }

    fn hold(&mut self, repair: RepairId, needs: Vec<(NodeId, u64)>) {
        for (node, need) in &needs {
            let pool = self.pools.entry(*node).or_default();
            pool.reserved += need;
            pool.tasks += 1;
        }
        self.held.insert(repair, needs);
    }

    /// Gives back what the repair held. Harmless when it held nothing.
    pub fn release(&mut self, repair: RepairId) {
        for (node, need) in self.held.remove(&repair).unwrap_or_default() {
            let pool = self.pools.get_mut(&node).expect("reserved there");
            pool.reserved -= need;
            pool.tasks -= 1;
        }
    }

    /// What a repair holds at each participant, if it holds anything.
    pub fn held(&self, repair: RepairId) -> Option<&[(NodeId, u64)]> {
        self.held.get(&repair).map(Vec::as_slice)
    }

    /// How many repairs hold memory.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// # Panics
    /// A pool's reservations are not those of the repairs, or exceed it.
    pub fn assert_invariants(&self) {
        let mut sums: BTreeMap<NodeId, Pool> = BTreeMap::new();
        for (node, bytes) in self.held.values().flatten() {
            let sum = sums.entry(*node).or_default();
            (sum.reserved, sum.tasks) = (sum.reserved + bytes, sum.tasks + 1);
        }
        for (node, pool) in &self.pools {
            let sum = Pool { bytes: pool.bytes, ..sums.remove(node).unwrap_or_default() };
            assert_eq!(*pool, sum, "budget: the pool of {node}, and what repairs hold of it");
            assert!(pool.reserved <= pool.bytes, "budget: {node} has {pool:?}");
            assert!(pool.tasks <= TASKS_MAX, "budget: {node} has {pool:?}");
        }
        assert!(sums.is_empty(), "budget: no pool for {sums:?}");
    }

    /// A node's pool; an empty one of a node that has not reported one.
    pub fn pool(&self, node: NodeId) -> Pool {
        self.pools.get(&node).copied().unwrap_or_default()
    }

    /// The largest slice, then the widest window, with which the plan takes its share of each pool;
    /// failing that, the smallest of both if only that fits at all.
    fn fit(&self, plan: &Plan, alignment: u32) -> Result<Fit, NotAdmitted> {
        let fits = |slices: &[(NodeId, u64)], window: u32, shares: u64| {
            let fits = |(n, slice): &(NodeId, u64)| {
                slice * u64::from(window) <= self.pool(*n).bytes / shares
            };
            slices.iter().all(fits)
        };
        let smallest = align(SLICE_BYTES_MIN, alignment);
        let mut slice = preferred_slice(plan, alignment);
        let mut slices = memory(plan, slice, alignment);
        while slice > smallest && !fits(&slices, WINDOW, SHARES) {
            slice = align(slice / 2, alignment);
            slices = memory(plan, slice, alignment);
        }
        while slice > align(SLICE_BYTES_LEAST, alignment) && !fits(&slices, 1, 1) {
            slice = align(slice / 2, alignment);
            slices = memory(plan, slice, alignment);
        }
        let mut window = WINDOW;
        while window > 1 && !fits(&slices, window, 1) {
            window -= 1;
        }
        let needs = slices.into_iter().map(|(node, slice)| (node, slice * u64::from(window)));
        let needs: Vec<(NodeId, u64)> = needs.collect();
        match needs.iter().find(|(node, need)| *need > self.pool(*node).bytes) {
            None => Ok(Fit { slice_bytes: slice, window, needs }),
            Some(&(node, needed)) => {
                Err(NotAdmitted::TooLarge { node, needed, pool: self.pool(node).bytes })
            }
        }
    }
}

impl Pool {
    /// What is not reserved.
    fn free(&self) -> u64 {
        self.bytes.saturating_sub(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slice::tests::star;

    fn budget(nodes: u32, pool: u64) -> Budget {
        let mut budget = Budget::default();
        (0..nodes).for_each(|n| budget.set_pool(NodeId(n), pool));
        budget
    }

    #[test]
    fn reservations_never_exceed_a_pool_and_come_back() {
        let mut budget = budget(7, 10 << 20);
        let plan = star(6, 64 << 20);
        let mut admitted = 0;
        while budget.admit(RepairId(admitted), &plan, 64).is_ok() {
            admitted += 1;
        }
        assert!(admitted >= SHARES, "{admitted} side by side");
        assert!((0..7).all(|n| budget.pool(NodeId(n)).reserved <= 10 << 20));
        (0..admitted).for_each(|id| budget.release(RepairId(id)));
        budget.release(RepairId(99));
        assert!((0..7).all(|n| budget.pool(NodeId(n)).reserved == 0));
    }

    #[test]
    fn what_goes_on_another_way_needs_no_room_for_both_and_keeps_its_own_where_none_is() {
        let mut budget = budget(7, 10 << 20);
        let plan = star(6, 64 << 20);
        let mut admitted = 0;
        while budget.admit(RepairId(admitted), &plan, 64).is_ok() {
            admitted += 1;
        }
        let (old, next) = (RepairId(0), RepairId(admitted));
        assert!(budget.exchange(old, next, &plan, 64).is_ok());
        assert!(budget.held(old).is_none() && budget.held(next).is_some());
        let before = budget.pool(NodeId(6));
        // Node 7 has no memory at all.
        let elsewhere = star(7, 64 << 20);
        assert!(budget.exchange(next, RepairId(admitted + 1), &elsewhere, 64).is_err());
        assert_eq!(budget.pool(NodeId(6)), before);
        assert_eq!(budget.held_count() as u64, admitted);
        budget.assert_invariants();
    }

    #[test]
    fn what_goes_on_through_a_node_with_little_memory_left_does_so_in_smaller_slices() {
        let mut budget = budget(8, 10 << 20);
        let plan = star(6, 64 << 20);
        let (old, other, next) = (RepairId(0), RepairId(1), RepairId(2));
        let before = budget.admit(old, &plan, 64).expect("pools are empty");
        let little = 8 << 10;
        budget.hold(other, vec![(NodeId(7), (10 << 20) - little)]);
        let mut with_new = plan.clone();
        let lane = &mut with_new.lanes[0];
        lane.edges.iter_mut().find(|edge| edge.child == NodeId(0)).unwrap().child = NodeId(7);
        assert_eq!(budget.clone().admit(RepairId(3), &with_new, 64), Err(NotAdmitted::Later));
        let found = budget.exchange(old, next, &with_new, 64).expect("in smaller slices");
        let is_less = (found.slice_bytes, found.window) < (before.slice_bytes, before.window);
        assert!(is_less && found.window >= 2, "{found:?}");
        assert!(u64::from(found.slice_bytes) * u64::from(found.window) <= little, "{found:?}");
        assert!(budget.held(old).is_none() && budget.held(next).is_some());
        budget.assert_invariants();
        // Without any memory left it stays as it is.
        budget.hold(RepairId(4), vec![(NodeId(7), budget.pool(NodeId(7)).free())]);
        budget.hold(old, vec![]);
        assert_eq!(budget.exchange(old, RepairId(5), &with_new, 64), Err(NotAdmitted::Later));
        assert!(budget.held(old).is_some());
    }

    #[test]
    fn the_smallest_pool_that_admits_one_repair_admits_one() {
        let smallest = 6 * u64::from(SLICE_BYTES_LEAST);
        let plan = star(6, 64 << 20);
        let fit = budget(7, smallest).admit(RepairId(0), &plan, 64).expect("it fits exactly");
        assert_eq!((fit.slice_bytes, fit.window), (SLICE_BYTES_LEAST, 1));
        let refused = budget(7, smallest - 1).admit(RepairId(0), &plan, 64);
        let node = NodeId(6);
        assert_eq!(
            refused,
            Err(NotAdmitted::TooLarge { node, needed: smallest, pool: smallest - 1 })
        );
    }

    #[test]
    fn tiny_chunks_do_not_flood_an_agent_with_tasks() {
        let mut budget = budget(7, 1 << 30);
        let plan = star(6, 64);
        let admitted = (0..2 * TASKS_MAX as u64)
            .filter(|id| budget.admit(RepairId(*id), &plan, 64).is_ok())
            .count();
        assert_eq!(admitted, TASKS_MAX);
        budget.release(RepairId(0));
        assert!(budget.admit(RepairId(1 << 20), &plan, 64).is_ok());
    }
}
