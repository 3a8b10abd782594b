//! What the repair of a stripe needs at least: which nodes have to send, and how much.
//!
//! Place: beside `[plan]`; the lower bound counts with it, the flow planner chooses within it.
//! A code answers "who helps?" for one order of preference. Here the same question is asked until
//! the structure shows: helpers without which the repair costs more or fails (a local group, all of
//! an MSR code's helpers), and beyond these so many of the rest (any k of a Reed-Solomon stripe).
//! Losses that are cheaper to rebuild apart, because they lie in different local groups, are parts
//! of their own; those that are read once for all of them are one part, whose decoder sends each
//! finished chunk but its own on.
//!
//! How many helpers a locally repairable code takes may depend on the order in which they are
//! preferred: some sets happen to be smaller than others (of `lrc(8,2,3)`, 8 sets of 7 rebuild a
//! global parity, where most orders lead to 8; of `lrc(20,10,3)` one set of 11, where most lead to
//! 20). For one lost chunk its parity checks name all of them. For several the least counts of all
//! sets or the first [`SETS_MAX`] of them, and a helper is forced only if every order of preference
//! takes it; fewer may do then, and a bound counts with what is proven ([`Part::least`]).
//!
//! Stripes of a batch repeat a few patterns of (lost, available), so the answers are kept.
//!
//! Invariant: an answer depends on the code, its known zeros, the lost and the available chunks
//! alone.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use suture_code::lrc::Check;
use suture_code::{ChunkIndex, ChunkSet, Code, Shortened};

use crate::plan::content::Content;
pub(crate) use crate::plan::content::Sender;

/// The cheapest repair of the lost chunks of a stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Chunks that are rebuilt together, each lost chunk in one part.
    pub parts: Vec<Part>,
}

/// Lost chunks that are rebuilt from one set of helpers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The lost chunks, ascending.
    pub lost: Vec<ChunkIndex>,
    /// Helpers that cannot be replaced at the same cost.
    pub forced: Vec<Sender>,
    /// How many of `free` help besides, each with `free_sent` and `free_read`.
    pub count: usize,
    /// Helpers, forced ones included, of which it is proven that fewer never do.
    pub least: usize,
    /// All other chunks that are available.
    pub free: Vec<ChunkIndex>,
    /// Sub-chunks that each of the free chunks sends.
    pub free_sent: u32,
    /// Sub-chunks that each of the free chunks reads.
    pub free_read: u32,
    /// Whether any `count` of them will do. If not, the code must be asked.
    pub any: bool,
    /// Where not any will do, sets of `count` that do.
    pub sets: Vec<Vec<ChunkIndex>>,
    /// Whether there are no others.
    pub all_sets: bool,
    /// Helpers that it takes at least without one of those that are forced, where parity checks say
    /// so.
    pub least_around: Option<usize>,
    /// The parity checks of a lost chunk of a local code, if not any helpers will do: all that has
    /// been found out about them, sets of more than `count` included. Where bounds count any
    /// helpers, all of them, or none.
    pub checks: Arc<[Check]>,
    /// All parity checks of the lost chunk, those without forced helpers included; empty where they
    /// are not all known.
    pub all_checks: Arc<[Check]>,
    /// Whether the chunk is one sum over whole chunks, which may be added up on the way.
    pub is_sum: bool,
}

/// Whether any k chunks determine all others.
pub(crate) fn is_mds(code: Shortened) -> bool {
    code.loss_tolerance() + code.code().data_chunks() == code.chunk_count()
}

impl Part {
    /// Sub-chunks that all helpers send together.
    pub fn sent(&self) -> u64 {
        let forced: u64 = self.forced.iter().map(|sender| u64::from(sender.sent)).sum();
        forced + self.count as u64 * u64::from(self.free_sent)
    }

    /// Whether any so many helpers will do.
    pub fn is_any(&self) -> bool {
        self.any && self.forced.is_empty()
    }

    /// Chunks that the decoder sends on: all but the one that it may keep.
    pub fn forwards(&self) -> usize {
        self.lost.len() - 1
    }

    /// As many of the free helpers as it takes: those that come first in `preferred`, which names
    /// all of them, as far as the code accepts that. Where their order leads the code to more
    /// helpers than need be, the set whose last in that order comes first.
    pub fn free_helpers(&self, code: Shortened, preferred: Vec<ChunkIndex>) -> Vec<ChunkIndex> {
        if self.any {
            return preferred.into_iter().take(self.count).collect();
        }
        let forced = self.forced.iter().map(|sender| sender.chunk);
        let available: Vec<ChunkIndex> = forced.chain(preferred.iter().copied()).collect();
        let rank = |chunk: &ChunkIndex| preferred.iter().position(|other| other == chunk);
        let chosen = self.accepted(code, &available).or_else(|| {
            let last = |set: &&Vec<ChunkIndex>| set.iter().map(rank).max();
            self.sets.iter().min_by_key(last).cloned()
        });
        let chosen = chosen.or_else(|| {
            // The price of the last in the order is more than that of all before it.
            let price = |chunk| rank(&chunk).map_or(0.0, |rank| f64::powi(2.0, rank as i32));
            let mut set = self.cheapest_sets(1, true, price).pop()?;
            set.retain(|chunk| rank(chunk).is_some());
            Some(set)
        });
        chosen.expect("the need knows a set that will do")
    }

    /// The free helpers that the code takes, beside those that are forced, when the others are
    /// preferred in this order, which names all of them: as few as it takes, or more.
    pub fn first_helpers(&self, code: Shortened, preferred: &[ChunkIndex]) -> Vec<ChunkIndex> {
        let forced = self.forced.iter().map(|sender| sender.chunk);
        let available: Vec<ChunkIndex> = forced.chain(preferred.iter().copied()).collect();
        let chosen = self.taken(code, &available);
        chosen.unwrap_or_else(|| self.free_helpers(code, preferred.to_vec()))
    }

    /// The free helpers that the code takes of those available, if these are as few as it takes.
    pub fn accepted(&self, code: Shortened, available: &[ChunkIndex]) -> Option<Vec<ChunkIndex>> {
        self.taken(code, available).filter(|helpers| helpers.len() == self.count)
    }

    /// The free helpers that the code takes of those available, be they more than it takes.
    pub fn taken(&self, code: Shortened, available: &[ChunkIndex]) -> Option<Vec<ChunkIndex>> {
        let mut helpers = code.helpers_for(&self.lost, available).ok()?;
        let helper_count = helpers.len();
        helpers.retain(|chunk| self.forced.iter().all(|sender| sender.chunk != *chunk));
        (helper_count == helpers.len() + self.forced.len()).then_some(helpers)
    }

    /// Forgets what a bound must not count with: any of those available will do, as many as are
    /// proven to be needed. So it is where fewer might do, and where the smallest sets happen to be
    /// small, since planners take others that are less busy. Parity checks are left only if they
    /// are all known.
    fn relax(&mut self, code: Shortened, available: &[ChunkIndex]) {
        let happens = matches!(code.code(), Code::Lrc(lrc) if !lrc.is_maximally_recoverable());
        let is_unlike = happens && !self.checks.is_empty();
        if is_unlike || self.least < self.forced.len() + self.count {
            (self.forced, self.free, self.count) = (Vec::new(), available.to_vec(), self.least);
            (self.free_sent, self.free_read, self.any) = (1, 1, true);
            (self.sets, self.least_around) = (Vec::new(), None);
            self.checks = self.all_checks.clone();
        } else if self.all_checks.is_empty() {
            self.checks = [].into();
        }
    }

    /// Sub-chunks that all nodes send together.
    fn moved(&self, code: Shortened) -> u64 {
        self.sent() + self.forwards() as u64 * u64::from(code.sub_chunk_count())
    }
}

/// The needs of the repairs of a batch, each computed once.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Whether counts that are not proven are replaced by less.
    are_bounds: bool,
    known: Vec<(Code, BTreeMap<Pattern, Option<usize>>)>,
    needs: Vec<Need>,
}

/// The known zeros, the lost and the available chunks.
type Pattern = [ChunkSet; 3];

impl Needs {
    /// Needs for a lower bound: where more helpers are known to do than are proven to be needed,
    /// any that many do.
    pub fn of_bound() -> Needs {
        Needs { are_bounds: true, ..Needs::default() }
    }

    /// The name of the need for `lost` when `available` may help; `None` when that is not enough.
    pub fn find(
        &mut self,
        code: Shortened,
        lost: &[ChunkIndex],
        available: impl Iterator<Item = ChunkIndex> + Clone,
    ) -> Option<usize> {
        let family = code.code();
        let at = self.known.iter().position(|(known, _)| *known == family).unwrap_or_else(|| {
            self.known.push((family, BTreeMap::new()));
            self.known.len() - 1
        });
        let pattern = [code.zeros(), lost.iter().copied().collect(), available.clone().collect()];
        if let Some(&known) = self.known[at].1.get(&pattern) {
            return known;
        }
        let available: Vec<ChunkIndex> = available.collect();
        let parts = parts(code, lost, &available);
        let name = parts.map(|mut parts| {
            if self.are_bounds {
                parts.iter_mut().for_each(|part| part.relax(code, &available));
            }
            self.needs.push(Need { parts });
            self.needs.len() - 1
        });
        self.known[at].1.insert(pattern, name);
        name
    }

    /// The names of other needs for the one lost chunk of `part`, a part of the cheapest repair,
    /// which may cost more: of a local code one, which leaves open which nodes help, or, where its
    /// checks are too many, the cheapest without each of its forced helpers, by their places; of a
    /// code with sub-chunks one, which is any k whole chunks.
    pub fn find_around(
        &mut self,
        code: Shortened,
        part: &Part,
        available: impl Iterator<Item = ChunkIndex> + Clone,
    ) -> Vec<Option<usize>> {
        let &[lost] = &part.lost[..] else { return Vec::new() };
        let chunks: Vec<ChunkIndex> = available.clone().collect();
        let any = match code.sub_chunk_count() {
            1 if part.forced.is_empty() => return Vec::new(),
            1 => checks::part_of_any_check(code, lost, &chunks),
            _ => whole(code, lost, chunks),
        };
        let Some(part) = any else {
            let forced = part.forced.iter().map(|sender| sender.chunk);
            let forced = forced.filter(|_| code.sub_chunk_count() == 1);
            let without = |forced| available.clone().filter(move |chunk| *chunk != forced);
            return forced.map(|forced| self.find(code, &[lost], without(forced))).collect();
        };
        let known = self.needs.iter().position(|need| need.parts[..] == [part.clone()]);
        vec![Some(known.unwrap_or_else(|| {
            self.needs.push(Need { parts: vec![part] });
            self.needs.len() - 1
        }))]
    }

    /// The need of that name.
    pub fn get(&self, name: usize) -> &Need {
        &self.needs[name]
    }
}

/// The cheapest way to rebuild `lost`, together or apart.
fn parts(code: Shortened, lost: &[ChunkIndex], available: &[ChunkIndex]) -> Option<Vec<Part>> {
    let together = part(code, lost, available)?;
    for (at, &one) in lost.iter().enumerate().filter(|_| lost.len() > 1) {
        let rest: Vec<ChunkIndex> = [&lost[..at], &lost[at + 1..]].concat();
        let apart = part(code, &[one], available).zip(parts(code, &rest, available));
        if let Some((alone, mut others)) = apart {
            let moved = alone.moved(code) + others.iter().map(|part| part.moved(code)).sum::<u64>();
            if moved < together.moved(code) {
                others.push(alone);
                others.sort_by_key(|part| part.lost[0]);
                return Some(others);
            }
        }
    }
    Some(vec![together])
}

fn part(code: Shortened, lost: &[ChunkIndex], available: &[ChunkIndex]) -> Option<Part> {
    if let [lost] = lost
        && let Some(part) = checks::part_of_checks(code, *lost, available)
    {
        return Some(part);
    }
    let helpers = code.helpers_for(lost, available).ok()?;
    let shares = shares(code, lost, &helpers)?;
    let sent = sent(code, lost, &helpers);
    let is_forced = |share: &&Sender| {
        let others: Vec<ChunkIndex> =
            available.iter().copied().filter(|chunk| *chunk != share.chunk).collect();
        let replaced = code.helpers_for(lost, &others).ok();
        let is_dearer = replaced.is_none_or(|helpers| self::sent(code, lost, &helpers) > sent);
        let last: Vec<ChunkIndex> = others.into_iter().chain([share.chunk]).collect();
        let chosen = code.helpers_for(lost, &last).expect("they are enough in any order");
        is_dearer && chosen.contains(&share.chunk)
    };
    let (forced, rest): (Vec<Sender>, Vec<Sender>) =
        shares.iter().partition(|share| is_forced(share));
    let is_free = |chunk: &ChunkIndex| forced.iter().all(|sender| sender.chunk != *chunk);
    let mut part = Part {
        lost: lost.to_vec(),
        count: rest.len(),
        least: helpers.len(),
        free: if rest.is_empty() {
            Vec::new()
        } else {
            available.iter().copied().filter(is_free).collect()
        },
        free_sent: rest.first().map_or(0, |share| share.sent),
        free_read: rest.first().map_or(0, |share| share.read),
        any: true,
        sets: Vec::new(),
        all_sets: true,
        least_around: None,
        checks: [].into(),
        all_checks: [].into(),
        is_sum: lost.len() == 1 && code.sub_chunk_count() == 1,
        forced,
    };
    // The other codes decode from any k chunks, and regenerate from any that complete a row.
    if let Code::Lrc(lrc) = code.code() {
        search_sets(code, &mut part, rest.iter().map(|share| share.chunk).collect());
        part.least = part.forced.len() + part.count;
        if !lrc.is_maximally_recoverable() {
            part.least = part.least.min(checks::least_helpers(code, lost, available));
        }
    }
    Some(part)
}

/// What rebuilds a chunk of a code with sub-chunks from any k whole chunks; `None` where they are
/// too few, or where some are known to be zero and the code decides.
fn whole(code: Shortened, lost: ChunkIndex, available: Vec<ChunkIndex>) -> Option<Part> {
    let count = code.data_chunks();
    let alpha = code.sub_chunk_count();
    (available.len() >= count && code.zeros().is_empty()).then(|| Part {
        lost: vec![lost],
        forced: Vec::new(),
        count,
        least: count,
        free: available,
        free_sent: alpha,
        free_read: alpha,
        any: true,
        sets: Vec::new(),
        all_sets: true,
        least_around: None,
        checks: [].into(),
        all_checks: [].into(),
        is_sum: false,
    })
}

/// What each helper sends and reads.
fn shares(code: Shortened, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> Option<Vec<Sender>> {
    if code.sub_chunk_count() == 1 {
        let whole = |&chunk: &ChunkIndex| Sender { chunk, sent: 1, read: 1 };
        return Some(helpers.iter().map(whole).collect());
    }
    let content = Content::of_repair(code, lost, helpers).ok()?;
    Some(content.senders)
}

/// Sub-chunks that these helpers, which the code chose, send together: without its DAG, which for
/// many sub-chunks takes long to build.
fn sent(code: Shortened, lost: &[ChunkIndex], helpers: &[ChunkIndex]) -> u64 {
    match lost {
        // Codes with sub-chunks decode from k whole chunks, and regenerate one from more.
        [lost] if code.sub_chunk_count() > 1 && helpers.len() > code.data_chunks() => {
            code.least_helper_sub_chunks(*lost).into()
        }
        _ => helpers.len() as u64 * u64::from(code.sub_chunk_count()),
    }
}

/// The most helper sets that are tried: enough for any locally repairable code in use.
const SETS_MAX: usize = 4096;

/// Of codes with more data chunks fewer are tried, as each takes longer: by the square of it.
const DATA_CHUNKS_FULL: usize = 32;

fn sets_max(data_chunks: usize) -> usize {
    let times = data_chunks.div_ceil(DATA_CHUNKS_FULL);
    SETS_MAX / (times * times)
}

/// Finds out whether any `count` of the free helpers complete the forced ones, and if not, the
/// smallest sets that do. `known` is one that does, with `count` of them. A smaller set can be
/// completed to one of `count` that determine each other, from which the code then takes just it.
fn search_sets(code: Shortened, part: &mut Part, known: Vec<ChunkIndex>) {
    let forced: Vec<ChunkIndex> = part.forced.iter().map(|sender| sender.chunk).collect();
    let mut chosen: Vec<usize> = (0..part.count).collect();
    let mut found = BTreeSet::from([known]);
    let sets_max = sets_max(code.data_chunks());
    for tried in 1.. {
        let free = chosen.iter().map(|&at| part.free[at]);
        let available: Vec<ChunkIndex> = forced.iter().copied().chain(free).collect();
        let helpers = code.helpers_for(&part.lost, &available).ok();
        part.any &= helpers.as_ref().is_some_and(|helpers| helpers.len() == available.len());
        // One that does without a forced helper is none of those that are looked for.
        let whole = helpers.filter(|helpers| forced.iter().all(|chunk| helpers.contains(chunk)));
        let is_free = |chunk: &ChunkIndex| !forced.contains(chunk);
        found.extend(whole.map(|helpers| helpers.into_iter().filter(is_free).collect()));
        if !next_combination(&mut chosen, part.free.len()) {
            break;
        }
        if tried == sets_max {
            (part.any, part.all_sets) = (false, false);
            break;
        }
    }
    if !part.any {
        part.count = found.iter().map(Vec::len).min().unwrap_or(part.count);
        part.sets = found.into_iter().filter(|set| set.len() == part.count).collect();
    }
}

/// The next set of as many numbers below `end`, in lexical order; false after the last.
pub(crate) fn next_combination(chosen: &mut [usize], end: usize) -> bool {
    let count = chosen.len();
    let Some(at) = (0..count).rev().find(|&at| chosen[at] < end - count + at) else {
        return false;
    };
    let first = chosen[at] + 1;
    chosen[at..].iter_mut().zip(first..).for_each(|(place, value)| *place = value);
    true
}

/// How many combinations of so many there are.
pub(crate) fn combinations(all: usize, count: usize) -> usize {
    if count > all {
        return 0;
    }
    let product =
        |combinations: usize, at: usize| combinations.saturating_mul(all - count + at) / at;
    (1..=count).fold(1, product)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(code: &str, lost: &[u8], missing: &[u8]) -> Need {
        let code: Code = code.parse().unwrap();
        let lost: Vec<ChunkIndex> = lost.iter().copied().map(ChunkIndex).collect();
        let helps = |chunk: &ChunkIndex| !lost.contains(chunk) && !missing.contains(&chunk.0);
        let available: Vec<ChunkIndex> = code.chunks().filter(helps).collect();
        let mut needs = Needs::default();
        let name = needs.find(code.into(), &lost, available.into_iter());
        needs.get(name.expect("the rest is enough")).clone()
    }

    /// Forced helpers, the count of others, and how many these are chosen from.
    fn shape(need: &Need) -> Vec<(usize, usize, usize, bool)> {
        let shape = |p: &Part| (p.forced.len(), p.count, p.free.len(), p.any);
        need.parts.iter().map(shape).collect()
    }

    #[test]
    fn any_k_chunks_of_a_reed_solomon_stripe_help() {
        assert_eq!(shape(&need("rs(6,3)", &[0], &[])), [(0, 6, 8, true)]);
        assert_eq!(shape(&need("rs(6,3)", &[0, 3], &[7])), [(6, 0, 0, true)]);
        assert_eq!(need("rs(10,4)", &[0, 3], &[7]).parts[0].forwards(), 1);
    }

    #[test]
    fn a_local_group_is_forced_and_losses_of_two_groups_are_two_parts() {
        assert_eq!(shape(&need("lrc(6,2,2)", &[0], &[])), [(3, 0, 0, true)]);
        let two = need("lrc(6,2,2)", &[0, 4], &[]);
        assert_eq!(shape(&two), [(3, 0, 0, true), (3, 0, 0, true)]);
        assert!(two.parts.iter().all(|part| part.is_sum));
        assert!(two.parts.iter().map(|part| part.lost[0].0).eq([0, 4]), "ascending");
        let same = need("lrc(6,2,2)", &[0, 1], &[]);
        assert_eq!((same.parts.len(), same.parts[0].sent()), (1, 6));
        // What is read for the first two rebuilds the third as well.
        assert_eq!(need("lrc(6,2,2)", &[0, 1, 3], &[]).parts.len(), 1);
    }

    #[test]
    fn a_global_parity_takes_as_few_helpers_as_any_set_that_rebuilds_it() {
        // Each has sets that happen to be smaller than k; by trying all of them, whatever their
        // size.
        for (name, lost) in [("lrc(8,2,3)", 10), ("lrc(6,2,3)", 9), ("lrc(4,2,4)", 6)] {
            let code: Code = name.parse().unwrap();
            let found = need(name, &[lost], &[]);
            let [part] = &found.parts[..] else { panic!("one loss is one part") };
            let least = (1u32..1 << code.chunk_count()).filter_map(|set| {
                let chunks: Vec<ChunkIndex> =
                    code.chunks().filter(|chunk| set >> chunk.0 & 1 == 1).collect();
                code.repair_dag(&part.lost, &chunks).ok().map(|_| chunks)
            });
            let mut least: Vec<Vec<ChunkIndex>> = least.collect();
            let count = least.iter().map(Vec::len).min().unwrap();
            least.retain(|set| set.len() == count);
            least.sort();
            let only = [Vec::new()];
            let sets = if part.count == 0 { &only[..] } else { &part.sets };
            let all = sets.iter().map(|set| {
                let forced = part.forced.iter().map(|sender| sender.chunk);
                let mut all: Vec<ChunkIndex> = forced.chain(set.iter().copied()).collect();
                all.sort();
                all
            });
            let mut all: Vec<Vec<ChunkIndex>> = all.collect();
            all.sort();
            assert_eq!((part.least, &all, part.any), (count, &least, all.len() == 1), "{name}");
        }
        assert_eq!(need("lrc(8,2,3)", &[10], &[]).parts[0].least, 7);
        assert_eq!(need("lrc(8,2,3)", &[10], &[]).parts[0].sets.len(), 8);
    }

    #[test]
    fn sub_chunk_codes_send_what_they_promise_and_may_read_more() {
        for name in ["butterfly(4)", "clay(4,2,5)", "clay(6,3,7)"] {
            let code: Code = name.parse().unwrap();
            for lost in code.chunks() {
                let need = need(name, &[lost.0], &[]);
                let least = u64::from(code.least_helper_sub_chunks(lost));
                assert_eq!(need.parts[0].sent(), least, "{name}, chunk {lost}");
            }
        }
        // Of B's helpers, all data columns but the leftmost read twice what they send.
        let b = need("butterfly(4)", &[5], &[]);
        let read: u32 = b.parts[0].forced.iter().map(|sender| sender.read).sum();
        assert!(u64::from(read) > b.parts[0].sent());
        // Each by itself takes 6 / 3 chunks; together they take 4, and one that is sent on.
        assert_eq!(need("clay(4,4,6)", &[0, 3], &[]).parts.len(), 2);
        let clay = need("clay(6,3,7)", &[0], &[]);
        assert!(clay.parts[0].count > 0 && clay.parts[0].free.len() > clay.parts[0].count);
    }

    #[test]
    fn free_helpers_are_the_first_preferred_with_which_the_code_takes_no_more_than_need_be() {
        let (mut random, mut seen) = (crate::random::Random::new(1), BTreeSet::new());
        let cases: [(&str, &[u8], &[u8]); 8] = [
            ("lrc(8,2,3)", &[10], &[]),
            ("lrc(6,2,2)", &[8], &[]),
            ("lrc(6,3,3)", &[9], &[]),
            ("lrc(6,3,3)", &[10], &[]),
            ("lrc(6,2,2)", &[8], &[0]),
            ("lrc(6,2,3)", &[9], &[]),
            ("lrc(6,3,2)", &[0], &[1, 6]),
            ("lrc(9,3,2)", &[0], &[1, 2]),
        ];
        for (name, lost, missing) in cases {
            let (code, found) = (name.parse::<Code>().unwrap(), need(name, lost, missing));
            for part in found.parts.iter().filter(|part| !part.any) {
                let forced: Vec<ChunkIndex> = part.forced.iter().map(|s| s.chunk).collect();
                for _ in 0..50 {
                    let mut preferred = part.free.clone();
                    random.shuffle(&mut preferred);
                    let available = [&forced[..], &preferred].concat();
                    let taken = code.helpers_for(&part.lost, &available).unwrap();
                    let is_least = taken.len() == forced.len() + part.count;
                    seen.insert((is_least, forced.is_empty()));
                    let chosen = part.free_helpers(code.into(), preferred.clone());
                    let rank = |chunk: &ChunkIndex| preferred.iter().position(|p| p == chunk);
                    let last = |set: &[ChunkIndex]| set.iter().map(rank).max();
                    if is_least && forced.iter().all(|chunk| taken.contains(chunk)) {
                        let free = taken.into_iter().filter(|chunk| !forced.contains(chunk));
                        assert_eq!(chosen, free.collect::<Vec<_>>(), "{name}: {preferred:?}");
                    } else {
                        assert!(part.sets.contains(&chosen), "{name}: {chosen:?} {forced:?}");
                        let least = part.sets.iter().map(|set| last(set)).min();
                        assert_eq!(Some(last(&chosen)), least, "{name}: {preferred:?}");
                    }
                }
            }
        }
        let all = BTreeSet::from([(true, true), (true, false), (false, false)]);
        assert!(seen.is_superset(&all), "with and without forced helpers: {seen:?}");
    }

    #[test]
    fn a_helper_is_forced_when_all_of_the_smallest_sets_have_it() {
        for name in ["lrc(4,2,1)", "lrc(4,2,2)", "lrc(6,3,2)", "lrc(6,2,3)"] {
            let code: Code = name.parse().unwrap();
            let pairs = code.chunks().flat_map(|a| code.chunks().map(move |b| (a, b)));
            for (lost, missing) in pairs.filter(|(lost, missing)| lost != missing) {
                let found = need(name, &[lost.0], &[missing.0]);
                let is_there = |chunk: &ChunkIndex| ![lost, missing].contains(chunk);
                let available: Vec<ChunkIndex> = code.chunks().filter(is_there).collect();
                let sets = (1u32..1 << available.len()).map(|set| {
                    let is_in = |at: &usize| set >> at & 1 == 1;
                    let chosen = (0..available.len()).filter(is_in).map(|at| available[at]);
                    chosen.collect::<Vec<ChunkIndex>>()
                });
                let mut sets: Vec<Vec<ChunkIndex>> =
                    sets.filter(|set| code.repair_dag(&[lost], set).is_ok()).collect();
                let least = sets.iter().map(Vec::len).min();
                sets.retain(|set| Some(set.len()) == least);
                let forced = found.parts[0].forced.iter().map(|sender| sender.chunk);
                let is_in_all = |chunk: &ChunkIndex| sets.iter().all(|set| set.contains(chunk));
                let expected = available.iter().copied().filter(is_in_all);
                assert!(forced.eq(expected), "{name}: {lost}, without {missing}");
            }
        }
    }

    #[test]
    fn each_code_is_asked_once_for_itself() {
        let mut needs = Needs::default();
        let mut find = |code: &str| {
            let code: Code = code.parse().unwrap();
            let name = needs.find(code.into(), &[ChunkIndex(0)], (1..10).map(ChunkIndex)).unwrap();
            (name, needs.get(name).parts[0].sent())
        };
        // Both have ten chunks.
        assert_eq!([find("rs(6,4)"), find("lrc(6,2,2)")], [(0, 6), (1, 3)]);
        assert_eq!([find("rs(6,4)"), find("lrc(6,2,2)")], [(0, 6), (1, 3)]);
    }

    #[test]
    fn what_is_sent_is_what_the_repair_dag_sends() {
        for name in ["butterfly(4)", "clay(4,2,5)", "clay(6,3,7)", "lrc(6,2,2)", "rs(4,2)"] {
            let code: Code = name.parse().unwrap();
            let mut random = crate::random::Random::new(1);
            for _ in 0..200 {
                let mut chunks: Vec<ChunkIndex> = code.chunks().collect();
                random.shuffle(&mut chunks);
                let mut lost = chunks.split_off(chunks.len() - *random.choose(&[1, 1, 1, 2]));
                lost.sort_unstable();
                chunks.truncate(chunks.len() - random.index(2));
                let Ok(mut helpers) = code.helpers_for(&lost, &chunks) else { continue };
                helpers.sort_unstable();
                let dag = code.repair_dag(&lost, &helpers).unwrap();
                let expected: u64 = dag.sends().iter().map(|(_, rows)| u64::from(*rows)).sum();
                assert_eq!(
                    sent(code.into(), &lost, &helpers),
                    expected,
                    "{name}: {lost:?}, {helpers:?}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_repaired_has_no_need() {
        let code: Code = "rs(2,1)".parse().unwrap();
        let lost = [ChunkIndex(0), ChunkIndex(1)];
        assert_eq!(Needs::default().find(code.into(), &lost, [ChunkIndex(2)].into_iter()), None);
    }

    /// The need of a lower bound, beside that of a plan.
    fn of_both(code: &str, lost: &[u8]) -> [Part; 2] {
        let code: Code = code.parse().unwrap();
        let lost: Vec<ChunkIndex> = lost.iter().copied().map(ChunkIndex).collect();
        let available: Vec<ChunkIndex> =
            code.chunks().filter(|chunk| !lost.contains(chunk)).collect();
        [Needs::of_bound(), Needs::default()].map(|mut needs| {
            let name = needs.find(code.into(), &lost, available.iter().copied()).unwrap();
            let [part] = &needs.get(name).parts[..] else { panic!("{code}: one part") };
            part.clone()
        })
    }

    #[test]
    fn a_bound_counts_with_any_so_many_helpers_as_are_proven_where_small_sets_happen_to_be() {
        // A global parity of a code with three: its sets differ in size by chance.
        let [bound, plan] = of_both("lrc(8,2,3)", &[10]);
        assert!(!plan.is_any() && !plan.checks.is_empty() && plan.least == 7, "{plan:?}");
        assert!(bound.is_any() && bound.forced.is_empty());
        // All parity checks are left, and with them racks are counted.
        assert!(!bound.checks.is_empty() && bound.checks == plan.all_checks, "{bound:?}");
        assert_eq!((bound.count, bound.least, bound.free.len()), (7, 7, 12));
        assert_eq!((bound.free_sent, bound.free_read), (1, 1));
        // With two its structure alone decides: nothing is relaxed.
        let [bound, plan] = of_both("lrc(6,2,2)", &[8]);
        assert_eq!(bound, plan);
        // Nor for any k chunks.
        let [bound, plan] = of_both("rs(6,3)", &[0]);
        assert_eq!(bound, plan);
        // Of several losses it is not proven that as many helpers as are found are needed.
        let [bound, plan] = of_both("lrc(20,10,3)", &[30, 31]);
        assert!(plan.least < plan.forced.len() + plan.count, "{plan:?}");
        assert!(bound.is_any() && bound.count == plan.least, "{bound:?}");
    }

    #[test]
    fn any_helpers_are_any_only_where_none_is_forced() {
        let [_, plan] = of_both("rs(4,2)", &[1]);
        assert!(plan.is_any());
        let forced = vec![Sender { chunk: ChunkIndex(0), sent: 1, read: 1 }];
        assert!(!Part { forced, ..plan.clone() }.is_any());
        assert!(!Part { any: false, ..plan }.is_any());
    }

    #[test]
    fn a_code_with_sub_chunks_can_be_rebuilt_from_any_whole_chunks_besides() {
        let code: Code = "clay(4,2,5)".parse().unwrap();
        let mut needs = Needs::default();
        let chunks: Vec<ChunkIndex> = code.chunks().filter(|chunk| chunk.0 != 1).collect();
        let available = chunks.iter().copied();
        let name = needs.find(code.into(), &[ChunkIndex(1)], available.clone()).unwrap();
        let cheapest = needs.get(name).parts[0].clone();
        let around = needs.find_around(code.into(), &cheapest, available.clone());
        let [Some(whole)] = around[..] else { panic!("{around:?}") };
        let part = &needs.get(whole).parts[0];
        assert_eq!((part.count, part.free.len(), part.free_sent), (4, 5, 8));
        assert!(part.is_any() && !part.is_sum);
        let again = needs.find_around(code.into(), &cheapest, available.clone());
        assert_eq!(again, around, "it has its name");
        // From just as many as that, and from no fewer.
        assert!(whole_of(code, &chunks[..4]).is_some() && whole_of(code, &chunks[..3]).is_none());
        let zeros = Shortened::new(code, [ChunkIndex(0)].into_iter().collect());
        assert_eq!(super::whole(zeros, ChunkIndex(1), chunks[1..].to_vec()), None);
    }

    fn whole_of(code: Code, helpers: &[ChunkIndex]) -> Option<Part> {
        super::whole(code.into(), ChunkIndex(1), helpers.to_vec())
    }

    #[test]
    fn a_local_chunk_can_be_rebuilt_around_its_group_and_one_without_group_needs_no_other() {
        let code: Code = "lrc(6,2,2)".parse().unwrap();
        let mut needs = Needs::default();
        let chunks: Vec<ChunkIndex> = code.chunks().filter(|chunk| chunk.0 != 1).collect();
        let available = chunks.iter().copied();
        let name = needs.find(code.into(), &[ChunkIndex(1)], available.clone()).unwrap();
        let group = needs.get(name).parts[0].clone();
        let around = needs.find_around(code.into(), &group, available.clone());
        let [Some(open)] = around[..] else { panic!("{around:?}") };
        let part = &needs.get(open).parts[0];
        assert!(part.forced.is_empty() && part.free.len() == 9 && part.count == 3, "{part:?}");
        let lost = [ChunkIndex(0), ChunkIndex(4)];
        let two = Part { lost: lost.to_vec(), ..group };
        assert_eq!(
            needs.find_around(code.into(), &two, available.clone()),
            [],
            "of one chunk only"
        );
        let rs: Code = "rs(4,2)".parse().unwrap();
        let chunks: Vec<ChunkIndex> = rs.chunks().filter(|chunk| chunk.0 != 1).collect();
        let available = chunks.iter().copied();
        let name = needs.find(rs.into(), &[ChunkIndex(1)], available.clone()).unwrap();
        let any = needs.get(name).parts[0].clone();
        assert_eq!(needs.find_around(rs.into(), &any, available), [], "nobody is forced");
    }

    #[test]
    fn combinations_are_counted() {
        let counted = |all, count| super::combinations(all, count);
        assert_eq!([counted(5, 0), counted(5, 2), counted(5, 5), counted(5, 6)], [1, 10, 1, 0]);
        assert!(counted(255, 100) > 1 << 40, "more than can be counted, and no overflow");
    }
}
