//! A chunk of a stripe that is a sum of others: possible helpers and destinations, by rack.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`../crossing.rs`); `tree.rs`
//! computes what its cheapest tree costs.

use std::sync::Arc;

use suture_code::ChunkIndex;
use suture_code::lrc::Check;

use crate::bound::Demand;
use crate::bound::whole::RackChoice;
use crate::need::{Part, is_mds};
use crate::planner::View;
use crate::planner::ports::Ports;

/// Up to so many racks of a stripe, all sets of them are tried.
const SETS_RACKS_MAX: usize = 8;

/// Up to so many, parity checks are asked of all sets of them.
const CHECKED_RACKS_MAX: usize = 5;

/// A chunk that is a sum of others, and the nodes that may take part.
#[derive(Clone)]
pub(super) struct RackedStripe {
    pub bytes: f64,
    /// How many helpers a tree has.
    pub count: usize,
    pub racks: Vec<Holders>,
    /// Racks that hold enough helpers together: each set without which nothing less does.
    pub together: Vec<Vec<u32>>,
    /// Racks of each of which something helps, with the destination's: one of these sets, at least.
    pub helping: Vec<Vec<u32>>,
    /// What parity checks say of the helpers, where they are asked.
    pub checked: Option<Arc<CheckedHelpers>>,
    pub targets: Vec<Target>,
    /// The same chunk from other helpers, into the same targets.
    pub around: Option<Box<RackedStripe>>,
}

/// Survivors of one rack.
#[derive(Clone, PartialEq)]
pub(super) struct Holders {
    pub rack: u32,
    /// The nodes of the survivors; those that help in any case come first.
    pub nodes: Vec<u32>,
    pub forced: usize,
}

/// Nodes of one rack that may keep the chunk.
#[derive(Clone)]
pub(super) struct Target {
    pub rack: u32,
    /// The place of the rack among those with survivors.
    pub at: Option<usize>,
    pub nodes: Vec<u32>,
}

/// The parity checks of a lost chunk, and where the chunks are that help by them.
pub(super) struct CheckedHelpers {
    pub checks: Arc<[Check]>,
    pub chunks: Vec<CheckedChunk>,
}

/// A chunk that may be in parity checks.
pub(super) struct CheckedChunk {
    pub chunk: ChunkIndex,
    pub node: u32,
    /// The place of its rack among those with survivors.
    pub rack: usize,
}

impl CheckedHelpers {
    /// The helpers of these checks; `None` where there are none, or racks are too many.
    fn new(
        checks: &Arc<[Check]>,
        racks: &[Holders],
        chunks: impl Iterator<Item = (ChunkIndex, u32)>,
    ) -> Option<Arc<CheckedHelpers>> {
        if checks.is_empty() || racks.len() > CHECKED_RACKS_MAX {
            return None;
        }
        let rack = |node: u32| racks.iter().position(|rack| rack.nodes.contains(&node));
        let chunks = chunks
            .filter_map(|(chunk, node)| Some(CheckedChunk { chunk, node, rack: rack(node)? }));
        Some(Arc::new(CheckedHelpers { checks: checks.clone(), chunks: chunks.collect() }))
    }

    /// Prices that are compared for one destination: about half of all sets of racks rebuild it.
    fn comparisons(&self, racks: usize) -> usize {
        (self.checks.len() * self.chunks.len()) << racks.saturating_sub(1)
    }
}

impl RackedStripe {
    /// A part of a demand, with what serves in its place.
    pub fn new(
        demand: &Demand<'_>,
        part: &Part,
        around: Option<&Part>,
        view: &View<'_>,
        ports: &Ports,
    ) -> RackedStripe {
        let around = around.map(|part| RackedStripe::new(demand, part, None, view, ports));
        let mut racks: Vec<Holders> = Vec::new();
        let forced = part.forced.iter().map(|sender| (sender.chunk, 1));
        for (chunk, forced) in forced.chain(part.free.iter().map(|chunk| (*chunk, 0))) {
            let node = demand.holder(chunk).0;
            let rack = ports.rack(node);
            match racks.iter_mut().find(|known| known.rack == rack) {
                Some(known) => {
                    known.nodes.push(node);
                    known.forced += forced;
                }
                None => racks.push(Holders { rack, nodes: vec![node], forced }),
            }
        }
        let mut targets: Vec<Target> = Vec::new();
        for node in view.cluster.ids().filter(|node| demand.may_keep(*node, view)) {
            let rack = ports.rack(node.0);
            match targets.iter_mut().find(|known| known.rack == rack) {
                Some(known) => known.nodes.push(node.0),
                None => {
                    let at = racks.iter().position(|known| known.rack == rack);
                    targets.push(Target { rack, at, nodes: vec![node.0] });
                }
            }
        }
        let bytes = demand.job.chunk_bytes as f64;
        let count = part.forced.len() + part.count;
        // Of a local code the part only counts helpers; the code knows which of them decode.
        let together = if part.any && is_mds(demand.job.code) {
            racks_with(count, &racks)
        } else {
            smallest_enough(&racks, |chosen| {
                let held = part.forced.iter().map(|sender| sender.chunk).chain(part.free.clone());
                let chunks: Vec<ChunkIndex> = held
                    .filter(|chunk| chosen.contains(&ports.rack(demand.holder(*chunk).0)))
                    .collect();
                demand.job.code.helpers_for(&part.lost, &chunks).is_ok()
            })
        };
        // What helpers are counted, or named, for says no more.
        let helping = if is_mds(demand.job.code) || around.is_some() {
            vec![Vec::new()]
        } else {
            together.clone()
        };
        let others = around.iter().flat_map(|around| around.together.clone());
        let together = if around.is_some() {
            smallest(together.into_iter().chain(others).collect())
        } else {
            together
        };
        let around = around.map(Box::new);
        let held = part.free.iter().map(|chunk| (*chunk, demand.holder(*chunk).0));
        let checked = Some(&part.checks).filter(|_| part.forced.is_empty());
        let checked = checked.and_then(|checks| CheckedHelpers::new(checks, &racks, held));
        RackedStripe { bytes, count, racks, together, helping, checked, targets, around }
    }

    /// A chunk of so many bytes that is rebuilt from all of these nodes, into any of some others.
    pub fn of_helpers(
        bytes: f64,
        helpers: &[u32],
        destinations: &[u32],
        ports: &Ports,
    ) -> RackedStripe {
        let mut racks: Vec<Holders> = Vec::new();
        for &node in helpers {
            let rack = ports.rack(node);
            match racks.iter_mut().find(|known| known.rack == rack) {
                Some(known) => {
                    known.nodes.push(node);
                    known.forced += 1;
                }
                None => racks.push(Holders { rack, nodes: vec![node], forced: 1 }),
            }
        }
        let stripe = RackedStripe {
            bytes,
            count: helpers.len(),
            racks,
            together: Vec::new(),
            helping: vec![Vec::new()],
            checked: None,
            targets: Vec::new(),
            around: None,
        };
        stripe.into_each(destinations, ports)
    }

    /// The stripe with a target for each of these nodes.
    pub fn into_each(self, destinations: &[u32], ports: &Ports) -> RackedStripe {
        let target = |node: &u32| {
            let rack = ports.rack(*node);
            let at = self.racks.iter().position(|known| known.rack == rack);
            Target { rack, at, nodes: vec![*node] }
        };
        let targets = destinations.iter().map(target).collect();
        let around = self.around.map(|around| Box::new(around.into_each(destinations, ports)));
        RackedStripe { targets, around, ..self }
    }

    /// The stripe whose helpers are only counted.
    pub fn counted(self) -> RackedStripe {
        let around = self.around.map(|around| Box::new(around.counted()));
        RackedStripe { checked: None, around, ..self }
    }

    /// Whether parity checks are asked for it.
    pub fn has_checks(&self) -> bool {
        self.checked.is_some() || self.around.as_ref().is_some_and(|around| around.has_checks())
    }

    /// Whether another is rebuilt from the same helpers.
    pub fn is_like(&self, other: &RackedStripe) -> bool {
        let are_alike = match (&self.around, &other.around) {
            (Some(around), Some(other)) => around.is_like(other),
            (None, None) => true,
            _ => false,
        };
        are_alike && (self.count, &self.racks) == (other.count, &other.racks)
    }

    /// Survivors that may help.
    pub fn survivors(&self) -> usize {
        self.racks.iter().map(|rack| rack.nodes.len()).sum()
    }

    pub fn target_count(&self) -> usize {
        self.targets.iter().map(|target| target.nodes.len()).sum()
    }

    /// The racks that may keep the chunk, and what each asks of others.
    pub fn choices(&self) -> Vec<RackChoice> {
        let choices = self.targets.iter().map(|target| {
            let others = |racks: &Vec<u32>| {
                racks.iter().copied().filter(|rack| *rack != target.rack).collect::<Vec<u32>>()
            };
            let sets: Vec<Vec<u32>> = self.together.iter().map(others).collect();
            let lengths = sets.iter().map(Vec::len).min().unwrap_or(0);
            let is_in_all = |rack: &u32| sets.iter().all(|set| set.contains(rack));
            let senders = sets.first().into_iter().flatten().copied().filter(is_in_all).collect();
            RackChoice { rack: target.rack, senders, lengths }
        });
        choices.collect()
    }

    /// The stripe with only the targets that `is_open` names, by the place of a rack and of a node
    /// in it.
    pub fn within(&self, is_open: &dyn Fn(usize, usize) -> bool) -> RackedStripe {
        let targets = self.targets.iter().enumerate().map(|(rack, target)| {
            let nodes = target.nodes.iter().enumerate().filter(|(at, _)| is_open(rack, *at));
            Target { nodes: nodes.map(|(_, node)| *node).collect(), ..*target }
        });
        let targets = targets.filter(|target| !target.nodes.is_empty()).collect();
        let (racks, together) = (self.racks.clone(), self.together.clone());
        let (helping, checked) = (self.helping.clone(), self.checked.clone());
        let around = self.around.as_ref().map(|around| Box::new(around.within(is_open)));
        RackedStripe { targets, racks, together, helping, checked, around, ..*self }
    }

    /// Prices that are compared to find the cheapest tree.
    pub fn comparisons(&self) -> usize {
        let survivors = self.survivors();
        let targets = self.target_count();
        let around = self.around.as_ref().map_or(0, |around| around.comparisons());
        let trees = self.targets.len() * self.helping.len();
        let checked =
            self.checked.as_ref().map_or(0, |checked| checked.comparisons(self.racks.len()));
        survivors * self.count * trees
            + survivors * survivors
            + targets
            + around
            + checked * self.targets.len()
    }
}

/// The smallest sets of racks that hold so many survivors, forced ones included.
fn racks_with(count: usize, racks: &[Holders]) -> Vec<Vec<u32>> {
    smallest_enough(racks, |chosen| {
        let mut held = 0;
        racks.iter().all(|rack| {
            let is_chosen = chosen.contains(&rack.rack);
            held += if is_chosen { rack.nodes.len() } else { 0 };
            is_chosen || rack.forced == 0
        }) && held >= count
    })
}

/// The smallest sets of racks whose survivors are enough; where racks are many, only what all of
/// these have in common.
fn smallest_enough(racks: &[Holders], is_enough: impl Fn(&[u32]) -> bool) -> Vec<Vec<u32>> {
    let names: Vec<u32> = racks.iter().map(|rack| rack.rack).collect();
    let is_needed = |rack: &u32| {
        let others: Vec<u32> = names.iter().copied().filter(|other| other != rack).collect();
        !is_enough(&others)
    };
    let (needed, others): (Vec<u32>, Vec<u32>) = names.iter().copied().partition(is_needed);
    if names.len() > SETS_RACKS_MAX {
        return vec![needed];
    }
    let sets = (0..1u32 << others.len()).filter_map(|set| {
        let chosen = (0..others.len()).filter(|at| set >> at & 1 == 1).map(|at| others[at]);
        let chosen: Vec<u32> = needed.iter().copied().chain(chosen).collect();
        is_enough(&chosen).then_some(chosen)
    });
    smallest(sets.collect())
}

/// The sets of which no part is among them.
fn smallest(mut sets: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    for set in &mut sets {
        set.sort_unstable();
        set.dedup();
    }
    sets.sort_by_key(|set| set.len());
    let mut kept: Vec<Vec<u32>> = Vec::new();
    for set in sets {
        let is_more = |known: &Vec<u32>| known.iter().all(|rack| set.contains(rack));
        if !kept.iter().any(is_more) {
            kept.push(set);
        }
    }
    kept
}
