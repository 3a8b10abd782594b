//! From which sets of helpers planners may rebuild lost chunks of a local code.
//!
//! Place: beside `[plan]`, what the bound by the lanes of a stripe (`../lanes.rs`) asks the code
//! once for each pattern of losses.
//! A code takes helpers in an order of preference, the groups of the lost chunks first: those that
//! the ones before do not determine are a basis, which expresses every lost chunk in one way, and
//! of it those that are used help. So the sets that it may take in any order are those of all bases
//! that hold these groups; a planner that avoids a node need not begin with it. Of chunks that are
//! one part of a need (`need.rs`) planners leave others out before they ask, but for those that are
//! forced.

use std::collections::BTreeSet;

use suture_code::{ChunkIndex, ChunkSet, Code};

use crate::bound::Demand;
use crate::need::{Needs, Part, next_combination};

/// Bases of which a code is asked, of one group of lost chunks: as many as codes with up to twelve
/// data chunks have, and a few milliseconds.
const ASKED_MAX: usize = 512;

/// The sets from which a planner may rebuild `lost` together, some of the chunks that the demand
/// lost; `None` where they are too many, or the survivors do not determine everything.
pub(super) fn helper_sets(
    demand: &Demand<'_>,
    lost: &[ChunkIndex],
    needs: &mut Needs,
) -> Option<BTreeSet<ChunkSet>> {
    let mut sets = of_bases(demand, lost, &nearest(demand, lost)?)?;
    let is_within = |part: &Part| lost.iter().all(|chunk| part.lost.contains(chunk));
    if demand.need.parts.iter().any(is_within) {
        let available = demand.job.survivors.iter().map(|(chunk, _)| *chunk);
        let name = needs.find(demand.job.code, lost, available)?;
        if let [part] = &needs.get(name).parts[..] {
            let forced: Vec<ChunkIndex> = part.forced.iter().map(|sender| sender.chunk).collect();
            sets.extend(of_bases(demand, lost, &forced)?);
        }
    }
    Some(sets)
}

/// The survivors in the groups of the lost chunks that no planner leaves out.
fn nearest(demand: &Demand<'_>, lost: &[ChunkIndex]) -> Option<Vec<ChunkIndex>> {
    let job = demand.job;
    let Code::Lrc(lrc) = job.code.code() else { return None };
    let is_near = |chunk: &ChunkIndex| {
        let group = lrc.group(*chunk);
        group.is_some() && lost.iter().any(|lost| lrc.group(*lost) == group)
    };
    let trusted = job.survivors.iter().filter(|(_, node)| !job.avoid.contains(node));
    Some(trusted.map(|(chunk, _)| *chunk).filter(is_near).collect())
}

/// Those that help of every basis that holds all of `first`.
fn of_bases(
    demand: &Demand<'_>,
    lost: &[ChunkIndex],
    first: &[ChunkIndex],
) -> Option<BTreeSet<ChunkSet>> {
    let (job, code) = (demand.job, demand.job.code);
    let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
    let others: Vec<ChunkIndex> =
        available.iter().copied().filter(|chunk| !first.contains(chunk)).collect();
    let count = code.data_chunks().checked_sub(first.len())?;
    if !code.decodable(&available) || combinations(others.len(), count) > ASKED_MAX {
        return None;
    }
    let mut sets = BTreeSet::new();
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        let others = chosen.iter().map(|at| others[*at]);
        let basis: Vec<ChunkIndex> = first.iter().copied().chain(others).collect();
        if code.decodable(&basis) {
            let helpers = code.helpers_for(lost, &basis).expect("a basis determines all chunks");
            sets.insert(helpers.into_iter().collect::<ChunkSet>());
        }
        if !next_combination(&mut chosen, available.len() - first.len()) {
            return Some(sets);
        }
    }
}

/// How many combinations of so many there are.
pub(super) fn combinations(all: usize, count: usize) -> usize {
    if count > all {
        return 0;
    }
    let product =
        |combinations: usize, at: usize| combinations.saturating_mul(all - count + at) / at;
    (1..=count).fold(1, product)
}
