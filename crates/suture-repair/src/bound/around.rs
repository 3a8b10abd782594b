//! What else may be done for a chunk than its cheapest repair.
//!
//! Place: beside `[plan]`; all bounds count with it, as planners go around slow helpers
//! (`planner/exact/around.rs`).
//! The cheapest repair of a local code, or of a code with sub-chunks, names its helpers. Without
//! one of them a chunk takes more, and how much more is asked once; which helpers it then has is
//! left open, so that a bound holds for all of these repairs, or to the parity checks of a local
//! code.

use suture_code::{ChunkIndex, Code, Shortened};

use crate::need::{Need, Needs, Part};

/// What the repair of a pattern of losses needs at least.
pub(super) struct BoundNeed {
    pub need: Need,
    /// For each part with one lost chunk, the part that may serve in its place, if there is one.
    pub around: Vec<Option<Part>>,
}

impl BoundNeed {
    pub fn new(
        code: Shortened,
        mut need: Need,
        available: &[ChunkIndex],
        needs: &mut Needs,
    ) -> BoundNeed {
        // Whatever is done about several, it takes as many helpers.
        let are_named = |part: &Part| part.lost.len() > 1 && !part.forced.is_empty();
        for part in need.parts.iter_mut().filter(|part| are_named(part)) {
            *part = any_helpers(code, part, part.forced.len() + part.count, available);
        }
        let around = need.parts.iter().map(|part| around(code, part, available, needs)).collect();
        BoundNeed { need, around }
    }

    /// The parts, each with what serves in its place.
    pub fn parts(&self) -> impl Iterator<Item = (&Part, Option<&Part>)> {
        self.need.parts.iter().zip(self.around.iter().map(Option::as_ref))
    }
}

/// What serves in place of a part with one lost chunk if one of its forced helpers does not help:
/// any helpers, as many as it then takes; `None` where all may be chosen anyway, or each is needed.
pub(super) fn around(
    code: Shortened,
    part: &Part,
    available: &[ChunkIndex],
    needs: &mut Needs,
) -> Option<Part> {
    let count = match part.least_around {
        Some(count) => count,
        None => {
            let others = needs.find_around(code, part, available.iter().copied());
            let helpers = |name| {
                let part = &needs.get(name).parts[0];
                part.forced.len() + part.count
            };
            others.into_iter().flatten().map(helpers).min()?
        }
    };
    Some(any_helpers(code, part, count, available))
}

/// The part, served by any so many helpers, of which parity checks may say more.
fn any_helpers(code: Shortened, part: &Part, count: usize, available: &[ChunkIndex]) -> Part {
    let alpha = code.sub_chunk_count();
    Part {
        forced: Vec::new(),
        count,
        least: count,
        free: available.to_vec(),
        free_sent: alpha,
        free_read: alpha,
        any: true,
        sets: Vec::new(),
        least_around: None,
        checks: part.all_checks.clone(),
        ..part.clone()
    }
}

/// Whether more helpers than these may serve: what sets of so many say of racks then says nothing.
pub(super) fn may_take_more(code: Shortened, part: &Part) -> bool {
    let helpers = part.forced.len() + part.count;
    matches!(code.code(), Code::Lrc(_)) && helpers < code.data_chunks()
}
