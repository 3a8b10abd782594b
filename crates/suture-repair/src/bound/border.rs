//! How many messages leave a rack at least, and how many arrive, where several chunks of a stripe
//! are rebuilt from one set of helpers.
//!
//! Place: beside `[plan]`, under `several.rs`.
//! Whatever is formed on the way: of the lost chunks that other racks keep, those that helpers of
//! other racks do not determine need a message each from this one; of those that it keeps itself,
//! its own helpers leave some undetermined, and for each of these a message arrives. Of a code of
//! which any k chunks determine all others (MDS) only numbers matter. Local codes are asked, for
//! each set of helpers, what it leaves undetermined.

use std::collections::BTreeMap;

use suture_code::{ChunkIndex, ChunkSet, Shortened};

use crate::need::{Part, next_combination};

/// Helper sets that a code is asked about.
const SETS_MAX: usize = 128;

/// Messages that leave a rack and that arrive, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    pub leaving: usize,
    pub arriving: usize,
}

/// What crosses the border of a rack, by how many of its chunks help and how many it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crossings {
    /// For each number of helpers, none where no set has so many there: for each number of chunks
    /// that are kept.
    by_helping: Vec<Option<Vec<Crossing>>>,
}

impl Crossings {
    /// The crossings for a code of which any `helpers` chunks determine all others.
    pub fn of_any(helpers: usize, lost: usize, holders: usize) -> Crossings {
        let at = |helping: usize, kept: usize| Crossing {
            leaving: helping.min(lost - kept),
            arriving: kept.min(helpers.saturating_sub(helping)),
        };
        Crossings::new(lost, holders, |helping, kept| Some(at(helping, kept)))
    }

    /// The crossings for a code of which only this is known: a rack that helps and keeps no chunk
    /// sends at least one message out of it.
    pub fn of_unknown(lost: usize, holders: usize) -> Crossings {
        let at = |helping: usize, kept: usize| Crossing {
            leaving: usize::from(helping > 0 && kept == 0),
            arriving: 0,
        };
        Crossings::new(lost, holders, |helping, kept| Some(at(helping, kept)))
    }

    fn new(
        lost: usize,
        holders: usize,
        at: impl Fn(usize, usize) -> Option<Crossing>,
    ) -> Crossings {
        let of = |helping| (0..=lost).map(|kept| at(helping, kept)).collect();
        Crossings { by_helping: (0..=holders).map(of).collect() }
    }

    /// What crosses where so many help and so many are kept; none where no set has so many there.
    pub fn at(&self, helping: usize, kept: usize) -> Option<Crossing> {
        self.by_helping[helping].as_ref().map(|of| of[kept])
    }
}

/// What a part's sets of helpers leave undetermined.
pub(super) struct HelperSets<'a> {
    code: Shortened,
    part: &'a Part,
    sets: Vec<ChunkSet>,
    undetermined: BTreeMap<(ChunkSet, ChunkSet), usize>,
}

impl<'a> HelperSets<'a> {
    /// Lists the helper sets of a part; `None` where there are too many.
    pub fn new(code: Shortened, part: &'a Part) -> Option<HelperSets<'a>> {
        let free = free_sets(part)?;
        let forced = part.forced.iter().map(|sender| sender.chunk);
        let whole = |free: Vec<ChunkIndex>| forced.clone().chain(free).collect();
        let sets: Vec<ChunkSet> = free.into_iter().map(whole).collect();
        Some(HelperSets { code, part, sets, undetermined: BTreeMap::new() })
    }

    /// What crosses the border of a rack that holds these chunks.
    pub fn crossings(&mut self, held: ChunkSet) -> Crossings {
        let lost = self.part.lost.len();
        let mut by_helping: Vec<Option<Vec<Crossing>>> = vec![None; held.len() + 1];
        for at in 0..self.sets.len() {
            let set = self.sets[at];
            let (inside, outside): (Vec<ChunkIndex>, Vec<ChunkIndex>) =
                set.iter().partition(|chunk| held.contains(*chunk));
            let [own, others] = [&inside, &outside].map(|of| of.iter().copied().collect());
            let crossing = (0..=lost).map(|kept| Crossing {
                leaving: self.least_undetermined(others, lost - kept),
                arriving: self.least_undetermined(own, kept),
            });
            let crossing: Vec<Crossing> = crossing.collect();
            match &mut by_helping[inside.len()] {
                Some(least) => least.iter_mut().zip(crossing).for_each(|(least, other)| {
                    least.leaving = least.leaving.min(other.leaving);
                    least.arriving = least.arriving.min(other.arriving);
                }),
                unknown => *unknown = Some(crossing),
            }
        }
        Crossings { by_helping }
    }

    /// How many of so many lost chunks are not determined by what is known, whichever these are.
    fn least_undetermined(&mut self, known: ChunkSet, count: usize) -> usize {
        let mut chosen: Vec<usize> = (0..count).collect();
        let mut least = count;
        loop {
            let wanted = chosen.iter().map(|at| self.part.lost[*at]).collect();
            least = least.min(self.undetermined(known, wanted));
            if !next_combination(&mut chosen, self.part.lost.len()) {
                return least;
            }
        }
    }

    fn undetermined(&mut self, known: ChunkSet, wanted: ChunkSet) -> usize {
        let code = self.code;
        *self.undetermined.entry((known, wanted)).or_insert_with(|| {
            let mut known: Vec<ChunkIndex> = known.iter().collect();
            let before = known.len();
            for chunk in wanted.iter() {
                if code.helpers_for(&[chunk], &known).is_err() {
                    known.push(chunk);
                }
            }
            known.len() - before
        })
    }
}

/// The sets of free helpers of which each completes those that help in any case.
fn free_sets(part: &Part) -> Option<Vec<Vec<ChunkIndex>>> {
    if part.count == 0 {
        return Some(vec![Vec::new()]);
    }
    if !part.any {
        return (part.all_sets && part.sets.len() <= SETS_MAX).then(|| part.sets.clone());
    }
    let (mut sets, mut chosen) = (Vec::new(), (0..part.count).collect::<Vec<usize>>());
    loop {
        sets.push(chosen.iter().map(|at| part.free[*at]).collect());
        if sets.len() > SETS_MAX {
            return None;
        }
        if !next_combination(&mut chosen, part.free.len()) {
            return Some(sets);
        }
    }
}

#[cfg(test)]
mod tests {
    use suture_code::Code;

    use super::*;
    use crate::need::Needs;

    fn crossings(code: &str, lost: &[u8], missing: &[u8], held: &[u8]) -> Crossings {
        let code: Code = code.parse().unwrap();
        let chunks = |of: &[u8]| of.iter().copied().map(ChunkIndex).collect::<Vec<_>>();
        let is_there = |chunk: &u8| !lost.contains(chunk) && !missing.contains(chunk);
        let all: Vec<u8> = (0..code.chunk_count() as u8).filter(is_there).collect();
        let (mut needs, lost) = (Needs::default(), chunks(lost));
        let name = needs.find(code.into(), &lost, chunks(&all).into_iter()).unwrap();
        let [part] = &needs.get(name).parts[..] else { panic!("one part") };
        let mut sets = HelperSets::new(code.into(), part).unwrap();
        sets.crossings(chunks(held).into_iter().collect())
    }

    #[test]
    fn of_an_mds_code_sets_say_what_numbers_say() {
        for (code, lost, held) in [
            ("rs(4,3)", &[0u8, 1][..], &[2u8, 3][..]),
            ("rs(4,3)", &[0, 5, 6], &[1, 2]),
            ("rs(3,3)", &[1, 4], &[0, 2, 3]),
        ] {
            let k = code[3..4].parse().unwrap();
            let asked = crossings(code, lost, &[], held);
            let any = Crossings::of_any(k, lost.len(), held.len());
            for helping in 0..=held.len().min(k) {
                for kept in 0..=lost.len() {
                    let (asked, any) = (asked.at(helping, kept), any.at(helping, kept));
                    assert!(asked.is_none() || asked == any, "{code} {helping} {kept}");
                }
            }
            assert!(asked.at(held.len().min(k), 0).is_some(), "{code}");
        }
    }

    #[test]
    fn of_a_local_code_what_others_determine_needs_no_message() {
        // Groups 0 1 | 4 and 2 3 | 5, globals 6 7. Of 0 and 1, which need their parity or two
        // globals, a rack with 2 and 3 sends what helps by the other group: one sum of these.
        let with_group = crossings("lrc(4,2,2)", &[0, 1], &[7], &[2, 3]);
        let some = |leaving, arriving| Some(Crossing { leaving, arriving });
        assert_eq!(with_group.at(2, 0), some(1, 0));
        assert_eq!(with_group.at(2, 2), some(0, 2), "4 and 6 are elsewhere");
        // What its parity says and what a global says are two messages.
        let parities = crossings("lrc(4,2,2)", &[0, 1], &[7], &[4, 6]);
        assert_eq!(parities.at(2, 0), some(2, 0));
    }
}
