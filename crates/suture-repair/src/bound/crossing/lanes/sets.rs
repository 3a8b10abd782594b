//! From which sets of helpers planners may rebuild lost chunks of a local code.
//!
//! Place: beside `[plan]`, what the bound by the lanes of a stripe (`../lanes.rs`) asks the code
//! once for each pattern of losses.
//! Every set of helpers of which none can be spared is part of a basis, which expresses every lost
//! chunk in one way; and of a basis those that are used are such a set.

use std::collections::BTreeSet;

use suture_code::{ChunkIndex, ChunkSet};

use crate::bound::Demand;
use crate::need::{combinations, next_combination};

/// Bases of which a code is asked, of one group of lost chunks: as many as codes with up to twelve
/// data chunks have, and a few milliseconds.
const ASKED_MAX: usize = 512;

/// The sets from which a planner may rebuild `lost` together, some of the chunks that the demand
/// lost: those that help of every basis; `None` where bases are too many, or the survivors do not
/// determine everything.
pub(super) fn helper_sets(demand: &Demand<'_>, lost: &[ChunkIndex]) -> Option<BTreeSet<ChunkSet>> {
    let (job, code) = (demand.job, demand.job.code);
    let available: Vec<ChunkIndex> = job.survivors.iter().map(|(chunk, _)| *chunk).collect();
    let count = code.data_chunks();
    if !code.decodable(&available) || combinations(available.len(), count) > ASKED_MAX {
        return None;
    }
    let mut sets = BTreeSet::new();
    let mut chosen: Vec<usize> = (0..count).collect();
    loop {
        let basis: Vec<ChunkIndex> = chosen.iter().map(|at| available[*at]).collect();
        if code.decodable(&basis) {
            let helpers = code.helpers_for(lost, &basis).expect("a basis determines all chunks");
            sets.insert(helpers.into_iter().collect::<ChunkSet>());
        }
        if !next_combination(&mut chosen, available.len()) {
            return Some(sets);
        }
    }
}
