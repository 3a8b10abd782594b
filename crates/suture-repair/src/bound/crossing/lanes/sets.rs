//! From which sets of helpers planners may gather lost chunks of a local code.
//!
//! Place: beside `[plan]`, what the bound by the lanes of a stripe (`../lanes.rs`) asks the code
//! once for each pattern of losses.
//! A code takes helpers in an order of preference, the groups of the lost chunks first: those that
//! determine no other are a basis, which expresses every lost chunk in one way, and of it those
//! that are used help. So the sets that it may take in any order are those of all bases that hold
//! these groups; a planner that avoids a node need not begin with it. Of chunks that are one part
//! of a need (`need.rs`) planners may take any of the smallest sets as well.

use std::collections::BTreeSet;

use suture_code::{ChunkIndex, ChunkSet, Code};

use crate::bound::Demand;
use crate::need::{Need, Needs, Part, next_combination};

/// Bases and smallest sets of which a code is asked, of one group of lost chunks: several times as
/// many as any code in use has, and a few milliseconds.
const ASKED_MAX: usize = 512;

/// The sets from which a planner may gather `lost`, some of the chunks that the demand lost; `None`
/// where they are too many, or a survivor is not determined by the others and the code alone.
pub(super) fn helper_sets(
    demand: &Demand<'_>,
    lost: &[ChunkIndex],
    needs: &mut Needs,
) -> Option<BTreeSet<ChunkSet>> {
    let mut sets = of_bases(demand, lost)?;
    let is_within = |part: &Part| lost.iter().all(|chunk| part.lost.contains(chunk));
    if demand.need.parts.iter().any(is_within) {
        let available = demand.job.survivors.iter().map(|(chunk, _)| *chunk);
        let name = needs.find(demand.job.code, lost, available)?;
        sets.extend(smallest(needs.get(name), lost)?);
    }
    Some(sets)
}

/// Those that help of every basis that holds the groups of the lost chunks.
fn of_bases(demand: &Demand<'_>, lost: &[ChunkIndex]) -> Option<BTreeSet<ChunkSet>> {
    let (job, code) = (demand.job, demand.job.code);
    let Code::Lrc(lrc) = code.code() else { return None };
    let is_near = |chunk: &ChunkIndex| {
        let group = lrc.group(*chunk);
        group.is_some() && lost.iter().any(|lost| lrc.group(*lost) == group)
    };
    let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
    let first = job.survivors.iter().filter(|(_, node)| !job.avoid.contains(node));
    let first: Vec<ChunkIndex> =
        first.map(|(chunk, _)| *chunk).filter(|chunk| is_near(chunk)).collect();
    let others: Vec<ChunkIndex> =
        available.iter().copied().filter(|chunk| !first.contains(chunk)).collect();
    let count = code.data_chunks().checked_sub(first.len())?;
    if !code.decodable(&available) || combinations(others.len(), count) > ASKED_MAX {
        return None;
    }
    let mut sets = BTreeSet::new();
    each_combination(&others, count, |chosen| {
        let basis: Vec<ChunkIndex> = first.iter().copied().chain(chosen).collect();
        // Other chunks than these may be enough too, if they are no basis.
        let helpers = code.helpers_for(lost, &basis).ok().filter(|_| code.decodable(&basis));
        sets.extend(helpers.map(|helpers| helpers.into_iter().collect::<ChunkSet>()));
    });
    Some(sets)
}

/// The smallest sets for chunks that are rebuilt together; none where they are rebuilt apart.
fn smallest(need: &Need, lost: &[ChunkIndex]) -> Option<Vec<ChunkSet>> {
    let [part] = &need.parts[..] else { return Some(Vec::new()) };
    debug_assert_eq!(part.lost, lost, "one part has all of them");
    let forced = part.forced.iter().map(|sender| sender.chunk);
    if part.count > 0 && combinations(part.free.len(), part.count) > ASKED_MAX {
        return None;
    }
    let whole = |free: &mut dyn Iterator<Item = ChunkIndex>| forced.clone().chain(free).collect();
    let mut sets: Vec<ChunkSet> = Vec::new();
    match part.any {
        true => each_combination(&part.free, part.count, |mut free| sets.push(whole(&mut free))),
        false => sets.extend(part.sets.iter().map(|set| whole(&mut set.iter().copied()))),
    }
    Some(sets)
}

/// Calls `each` with so many of the chunks, in all combinations.
fn each_combination(
    chunks: &[ChunkIndex],
    count: usize,
    mut each: impl FnMut(&mut dyn Iterator<Item = ChunkIndex>),
) {
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        each(&mut chosen.iter().map(|at| chunks[*at]));
        if !next_combination(&mut chosen, chunks.len()) {
            return;
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
