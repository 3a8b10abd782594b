//! Parity checks of locally repairable codes: which sums of other chunks give a lost one.
//!
//! Place: ... failure -> [which chunks can help] -> plan ...
//! A parity check is a sum of multiples of chunks that is zero for every stripe: a word of the dual
//! code. The chunks of one without the lost one are helpers that rebuild it, and the minimal checks
//! are all minimal sets of helpers. Every check adds multiples `a` of the global parities' own
//! checks, and a multiple of each group's. Given `a`, the groups do not touch each other: each has
//! a value for each of its chunks (its local parity's is zero), and what is subtracted from all of
//! them makes the chunks of one value vanish. So a check is a vector `a` and, for each group, the
//! choice of the chunks that are left out.
//!
//! Which `a`. What vanishes in a minimal check determines it, up to a factor: that two chunks of a
//! group have one value, or that a global parity has none, is one linear condition on `a`, and
//! m - 1 independent conditions leave one vector. There are few conditions (33 for
//! `lrc(20,10,3)`), so all choices of m - 1 of them are tried, where helper sets are too many.
//!
//! Source: dual codes and circuits: Oxley, "Matroid Theory", 2nd edition, chapter 2; the codes as
//! in the parent module. The search is our own.

use std::collections::BTreeSet;

use suture_gf::field;

use super::Lrc;
use crate::chunk::{CHUNK_COUNT_MAX, ChunkIndex};

/// So many choices of conditions are tried; a code with more of them has no list of checks.
const CHOICES_MAX: usize = 1 << 17;

/// As many global parities may have a list of checks.
const GLOBALS_MAX: usize = 16;

/// How much of each global parity's check is added.
type Multiples = [u8; GLOBALS_MAX];

/// So many checks are listed, those with the fewest helpers.
const CHECKS_MAX: usize = 1024;

/// The parity checks through a lost chunk, those that can have the fewest helpers first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Every minimal one, and perhaps some that contain others; of many the first.
    pub lightest: Vec<Check>,
    /// Whether there are no more.
    pub are_all: bool,
}

/// What it costs each chunk to help.
#[derive(Clone, Debug)]
pub struct ChunkPrices([f64; CHUNK_COUNT_MAX]);

impl ChunkPrices {
    /// Prices of these chunks; others cost nothing.
    pub fn new(chunks: impl IntoIterator<Item = (ChunkIndex, f64)>) -> ChunkPrices {
        let mut prices = [0.0; CHUNK_COUNT_MAX];
        chunks.into_iter().for_each(|(chunk, price)| prices[usize::from(chunk.0)] = price);
        ChunkPrices(prices)
    }

    /// What all of these cost together.
    #[must_use]
    pub fn sum(&self, chunks: &[ChunkIndex]) -> f64 {
        chunks.iter().map(|chunk| self.0[usize::from(chunk.0)]).sum()
    }
}

/// A parity check through a lost chunk, which stands in none of the lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The global parities that help.
    pub globals: Vec<ChunkIndex>,
    /// The groups of which chunks help.
    pub groups: Vec<GroupChoice>,
}

/// The chunks of a group that help: all but those of one choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupChoice {
    /// Those that are available, and not known to be zero.
    pub members: Vec<ChunkIndex>,
    /// Sets of them that share nothing; any one of them may be left out. At least one, which may
    /// be empty.
    pub without: Vec<Vec<ChunkIndex>>,
}

impl Check {
    /// The least sum of helpers' prices, which are none below zero; `is_least` where they may be no
    /// more helpers than [`Self::least`].
    #[must_use]
    pub fn price(&self, is_least: bool, prices: &ChunkPrices) -> f64 {
        let of_group = |group: &GroupChoice| {
            let saved = group.choices(is_least).map(|out| prices.sum(out)).fold(0.0, f64::max);
            prices.sum(&group.members) - saved
        };
        prices.sum(&self.globals) + self.groups.iter().map(of_group).sum::<f64>()
    }

    /// The helpers whose prices have that sum, ascending.
    #[must_use]
    pub fn cheapest(&self, is_least: bool, prices: &ChunkPrices) -> Vec<ChunkIndex> {
        let mut helpers = self.globals.clone();
        for group in &self.groups {
            let choices = group.choices(is_least);
            let without = choices.max_by(|a, b| prices.sum(a).total_cmp(&prices.sum(b)));
            let without = without.expect("there is a choice");
            helpers.extend(group.members.iter().filter(|chunk| !without.contains(chunk)));
        }
        helpers.sort_unstable();
        helpers
    }

    /// How few helpers it can have without one of these.
    #[must_use]
    pub fn least_without(&self, chunk: ChunkIndex) -> Option<usize> {
        let group = self.groups.iter().find(|group| group.members.contains(&chunk));
        match group {
            _ if self.globals.contains(&chunk) => None,
            None => Some(self.least()),
            Some(group) => {
                let without = group.without.iter().find(|without| without.contains(&chunk))?;
                Some(self.least() + group.most_left_out() - without.len())
            }
        }
    }

    /// Whether the chunk is in all of its sets, once what is left out is never that chunk.
    pub fn keep(&mut self, chunk: ChunkIndex) -> bool {
        let mut keeps = self.globals.contains(&chunk);
        for group in self.groups.iter_mut().filter(|group| group.members.contains(&chunk)) {
            group.without.retain(|without| !without.contains(&chunk));
            keeps = !group.without.is_empty();
        }
        keeps
    }

    /// How few helpers it can have.
    #[must_use]
    pub fn least(&self) -> usize {
        let groups = self.groups.iter().map(|group| group.members.len() - group.most_left_out());
        self.globals.len() + groups.sum::<usize>()
    }

    /// How many sets of [`Self::least`] helpers it has.
    #[must_use]
    pub fn least_sets(&self) -> usize {
        let choices = self.groups.iter().map(|group| group.choices(true).count());
        choices.fold(1, usize::saturating_mul)
    }

    /// All sets of [`Self::least`] helpers, each ascending.
    #[must_use]
    pub fn sets(&self) -> Vec<Vec<ChunkIndex>> {
        let mut sets = vec![self.globals.clone()];
        for group in &self.groups {
            let with = |without: &Vec<ChunkIndex>, set: &Vec<ChunkIndex>| {
                let rest = group.members.iter().filter(|chunk| !without.contains(chunk));
                set.iter().chain(rest).copied().collect()
            };
            let longer =
                group.choices(true).flat_map(|without| sets.iter().map(move |s| with(without, s)));
            sets = longer.collect();
        }
        sets.iter_mut().for_each(|set| set.sort_unstable());
        sets
    }

    /// Whether each of its sets of [`Self::least`] helpers has the chunk.
    #[must_use]
    pub fn always_takes(&self, chunk: ChunkIndex) -> bool {
        let takes = |group: &GroupChoice| {
            group.members.contains(&chunk)
                && !group.choices(true).any(|without| without.contains(&chunk))
        };
        self.globals.contains(&chunk) || self.groups.iter().any(takes)
    }
}

impl GroupChoice {
    fn most_left_out(&self) -> usize {
        self.without.iter().map(Vec::len).max().expect("there is a choice")
    }

    /// All choices, or those that leave as few as can be.
    fn choices(&self, is_least: bool) -> impl Iterator<Item = &Vec<ChunkIndex>> {
        let most = if is_least { self.most_left_out() } else { 0 };
        self.without.iter().filter(move |without| !is_least || without.len() == most)
    }
}

impl Lrc {
    /// The parity checks through `lost` of which all other chunks are available or known to be
    /// zero. `None` if the conditions allow too many choices: up to 4 global parities do so with
    /// groups of more than 10 chunks.
    #[must_use]
    pub fn checks(
        &self,
        lost: ChunkIndex,
        available: &[ChunkIndex],
        zeros: &[ChunkIndex],
    ) -> Option<Checks> {
        let search = CheckSearch::new(*self, lost, available, zeros);
        let width = usize::from(self.global_parities);
        if width > GLOBALS_MAX {
            return None;
        }
        let (flat, conditions) = search.conditions();
        if choices(conditions.len(), flat.len().saturating_sub(1)) > CHOICES_MAX {
            return None;
        }
        let mut vectors = Vec::new();
        meet(&flat, &conditions, width, &mut vectors);
        vectors.sort_unstable();
        vectors.dedup();
        let weighed = vectors.iter().filter_map(|vector| Some((search.least(vector)?, vector)));
        let mut weighed: Vec<(usize, &Multiples)> = weighed.collect();
        weighed.sort();
        let are_all = weighed.len() <= CHECKS_MAX;
        let far = weighed.iter().take(CHECKS_MAX).filter_map(|(_, vector)| search.check(vector));
        let mut lightest: Vec<Check> = search.local().into_iter().chain(far).collect();
        lightest.sort_by_key(Check::least);
        Some(Checks { lightest, are_all })
    }

    /// How many helpers every repair of one chunk takes at least, where its checks are too many to
    /// be listed and its group is no help: of a group's chunks a check has all but m, since with
    /// its local parity the group is part of a word of a code any m + 1 of whose losses decode.
    #[must_use]
    pub fn least_helpers_far(&self, zeros: usize) -> usize {
        let kept = (self.group_size() + 1).saturating_sub(usize::from(self.global_parities));
        (kept * usize::from(self.local_parities)).saturating_sub(zeros)
    }

    fn group_chunks(&self, group: usize) -> impl Iterator<Item = ChunkIndex> + use<> {
        let size = self.group_size();
        let data = (group * size..(group + 1) * size).map(|chunk| ChunkIndex(chunk as u8));
        data.chain([ChunkIndex(self.data_chunks + group as u8)])
    }

    fn globals(&self) -> impl Iterator<Item = ChunkIndex> + use<> {
        let first = self.data_chunks + self.local_parities;
        (first..first + self.global_parities).map(ChunkIndex)
    }

    /// What each global parity's check has of a chunk of a group.
    fn coefficients(&self, chunk: ChunkIndex) -> Multiples {
        let is_data = chunk.0 < self.data_chunks;
        let of = |parity| if is_data { self.global_coefficient(parity, chunk) } else { 0 };
        let mut coefficients = Multiples::default();
        self.globals().zip(&mut coefficients).for_each(|(parity, own)| *own = of(parity));
        coefficients
    }
}

struct CheckSearch {
    lrc: Lrc,
    lost: ChunkIndex,
    /// Of each chunk of the stripe, whether it helps.
    helps: Vec<bool>,
    /// And whether it neither helps nor is known to be zero; so is the lost one.
    gone: Vec<bool>,
    /// Of each chunk of a group, what each global parity's check has of it.
    coefficients: Vec<Multiples>,
}

impl CheckSearch {
    fn new(
        lrc: Lrc,
        lost: ChunkIndex,
        available: &[ChunkIndex],
        zeros: &[ChunkIndex],
    ) -> CheckSearch {
        let chunks = || (0..lrc.data_chunks + lrc.local_parities).map(ChunkIndex);
        let all = || chunks().chain(lrc.globals());
        let is_zero = |chunk: &ChunkIndex| zeros.contains(chunk);
        let is_there = |chunk: &ChunkIndex| available.contains(chunk);
        CheckSearch {
            lrc,
            lost,
            helps: all().map(|chunk| is_there(&chunk) && !is_zero(&chunk)).collect(),
            gone: all().map(|chunk| !is_there(&chunk) && !is_zero(&chunk)).collect(),
            coefficients: chunks().map(|chunk| lrc.coefficients(chunk)).collect(),
        }
    }

    /// The check of the lost chunk's group, if the rest of it is there.
    fn local(&self) -> Option<Check> {
        let others = self.lrc.group_chunks(self.lrc.group(self.lost)?);
        let others: Vec<ChunkIndex> = others.filter(|chunk| *chunk != self.lost).collect();
        let members = others.iter().copied().filter(|chunk| self.helps(*chunk)).collect();
        let group = GroupChoice { members, without: vec![Vec::new()] };
        let is_whole = !others.iter().any(|chunk| self.is_gone(*chunk));
        is_whole.then(|| Check { globals: Vec::new(), groups: vec![group] })
    }

    /// A basis of the vectors for which all vanishes that is not there, and the conditions by which
    /// more may vanish.
    fn conditions(&self) -> (Vec<Multiples>, Vec<Multiples>) {
        let globals: Vec<ChunkIndex> = self.lrc.globals().collect();
        let unit = |at: usize| std::array::from_fn(|other| u8::from(other == at));
        let mut flat: Vec<Multiples> = (0..globals.len()).map(unit).collect();
        let mut conditions = Vec::new();
        let width = globals.len();
        let mut vanish = |condition: &Multiples| {
            flat =
                intersection(&flat, condition, width).unwrap_or_else(|| std::mem::take(&mut flat));
        };
        for (at, &global) in globals.iter().enumerate().filter(|(_, global)| **global != self.lost)
        {
            let condition = unit(at);
            if self.is_gone(global) { vanish(&condition) } else { conditions.push(condition) }
        }
        for group in 0..self.lrc.local_parities.into() {
            let chunks = self.lrc.group_chunks(group).filter(|chunk| *chunk != self.lost);
            let (gone, there): (Vec<_>, Vec<_>) = chunks.partition(|chunk| self.is_gone(*chunk));
            gone.iter().skip(1).for_each(|chunk| vanish(&self.difference(gone[0], *chunk)));
            let all: Vec<ChunkIndex> = gone.into_iter().take(1).chain(there).collect();
            for (at, one) in all.iter().enumerate() {
                conditions.extend(all[at + 1..].iter().map(|other| self.difference(*one, *other)));
            }
        }
        (flat, conditions)
    }

    /// The check that adds so much of each global parity's.
    fn check(&self, vector: &Multiples) -> Option<Check> {
        let with: Vec<ChunkIndex> = self
            .lrc
            .globals()
            .zip(vector)
            .filter(|(_, a)| **a != 0)
            .map(|(chunk, _)| chunk)
            .collect();
        let is_through_lost = self.lrc.group(self.lost).is_some() || with.contains(&self.lost);
        let globals = with.into_iter().filter(|chunk| self.helps(*chunk)).collect();
        let groups = (0..self.lrc.local_parities.into()).map(|group| self.choice(group, vector));
        let groups: Option<Vec<GroupChoice>> = groups.collect();
        let groups = groups?.into_iter().filter(|group| !group.members.is_empty()).collect();
        is_through_lost.then_some(Check { globals, groups })
    }

    /// How few helpers the check of a vector can have; `None` if it is none through the lost chunk.
    fn least(&self, vector: &Multiples) -> Option<usize> {
        let globals = self.lrc.globals().zip(vector).filter(|(_, a)| **a != 0);
        let (mut least, mut is_through_lost) = (0, self.lrc.group(self.lost).is_some());
        for (global, _) in globals {
            is_through_lost |= global == self.lost;
            least += usize::from(self.helps(global));
        }
        for group in 0..self.lrc.local_parities.into() {
            least += self.least_of_group(group, vector)?;
        }
        is_through_lost.then_some(least)
    }

    /// How few chunks of a group help; `None` if all that may be left out has the value of the lost
    /// chunk.
    fn least_of_group(&self, group: usize, vector: &Multiples) -> Option<usize> {
        let mut left_out = [0u8; 256];
        let (mut members, mut gone, mut lost) = (0, None, None);
        for chunk in self.lrc.group_chunks(group) {
            let value = self.value(chunk, vector);
            if chunk == self.lost {
                lost = Some(value);
            } else if self.is_gone(chunk) {
                gone = Some(value);
            } else if self.helps(chunk) {
                members += 1;
                left_out[usize::from(value)] += 1;
            }
        }
        let others = self.lrc.group_chunks(group).filter(|chunk| *chunk != self.lost);
        let values = others.map(|chunk| self.value(chunk, vector));
        let may = |value: &u8| Some(*value) != lost && gone.is_none_or(|gone| gone == *value);
        let most = values.filter(may).map(|value| left_out[usize::from(value)]).max()?;
        Some(members - usize::from(most))
    }

    /// What may vanish of a group; `None` if all that may has the value of the lost chunk.
    fn choice(&self, group: usize, vector: &Multiples) -> Option<GroupChoice> {
        let value = |chunk: ChunkIndex| self.value(chunk, vector);
        let chunks = || self.lrc.group_chunks(group).filter(|chunk| *chunk != self.lost);
        let members: Vec<ChunkIndex> = chunks().filter(|chunk| self.helps(*chunk)).collect();
        let is_lost_here = self.lrc.group(self.lost) == Some(group);
        let lost = is_lost_here.then(|| value(self.lost));
        let gone = chunks().find(|chunk| self.is_gone(*chunk)).map(value);
        let values: BTreeSet<u8> = match gone {
            Some(gone) => BTreeSet::from([gone]),
            None => chunks().map(value).collect(),
        };
        let left_out = |of: u8| members.iter().copied().filter(move |chunk| value(*chunk) == of);
        let values = values.into_iter().filter(|value| Some(*value) != lost);
        let mut without: Vec<Vec<ChunkIndex>> = values.map(|of| left_out(of).collect()).collect();
        if without.iter().any(|chunks| !chunks.is_empty()) {
            without.retain(|chunks| !chunks.is_empty());
        } else {
            without.truncate(1);
        }
        (!without.is_empty()).then_some(GroupChoice { members, without })
    }

    fn value(&self, chunk: ChunkIndex, vector: &Multiples) -> u8 {
        dot(&self.coefficients[usize::from(chunk.0)], vector, self.lrc.global_parities.into())
    }

    fn difference(&self, one: ChunkIndex, other: ChunkIndex) -> Multiples {
        let [one, other] = [one, other].map(|chunk| &self.coefficients[usize::from(chunk.0)]);
        std::array::from_fn(|at| one[at] ^ other[at])
    }

    fn helps(&self, chunk: ChunkIndex) -> bool {
        self.helps[usize::from(chunk.0)]
    }

    fn is_gone(&self, chunk: ChunkIndex) -> bool {
        self.gone[usize::from(chunk.0)]
    }
}

/// How many choices of so many there are, at most.
fn choices(of: usize, count: usize) -> usize {
    (0..count)
        .fold(1, |choices: usize, at| choices.saturating_mul(of.saturating_sub(at)) / (at + 1))
}

/// The sum of products of the first `width` of each; the others are zero.
fn dot(a: &Multiples, b: &Multiples, width: usize) -> u8 {
    a[..width].iter().zip(&b[..width]).fold(0, |sum, (a, b)| sum ^ field::mul(*a, *b))
}

/// A basis of those vectors spanned by `flat` that fulfil the condition; `None` if all of them do.
fn intersection(flat: &[Multiples], condition: &Multiples, width: usize) -> Option<Vec<Multiples>> {
    let pivot = flat.iter().position(|vector| dot(vector, condition, width) != 0)?;
    let inverse = field::inv(dot(&flat[pivot], condition, width));
    let others = flat.iter().enumerate().filter(|(at, _)| *at != pivot).map(|(_, vector)| {
        let factor = field::mul(dot(vector, condition, width), inverse);
        let mut sum = *vector;
        let added = flat[pivot][..width].iter().map(|a| field::mul(factor, *a));
        sum.iter_mut().zip(added).for_each(|(sum, added)| *sum ^= added);
        sum
    });
    Some(others.collect())
}

/// All vectors of `flat`, up to a factor, that so many of the conditions leave.
fn meet(flat: &[Multiples], conditions: &[Multiples], width: usize, vectors: &mut Vec<Multiples>) {
    if let [vector] = flat {
        let first = vector.iter().find(|a| **a != 0).expect("a basis has no zero vector");
        let inverse = field::inv(*first);
        vectors.push(vector.map(|a| field::mul(a, inverse)));
        return;
    }
    for (at, condition) in conditions.iter().enumerate().filter(|_| flat.len() > 1) {
        if let Some(less) = intersection(flat, condition, width) {
            meet(&less, &conditions[at + 1..], width, vectors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    /// All minimal sets of helpers, by trying every set.
    fn minimal_sets(
        code: Code,
        lost: ChunkIndex,
        available: &[ChunkIndex],
    ) -> Vec<Vec<ChunkIndex>> {
        let mut minimal: Vec<Vec<ChunkIndex>> = (1u32..1 << available.len())
            .map(|set| {
                (0..available.len())
                    .filter(|at| set >> at & 1 == 1)
                    .map(|at| available[at])
                    .collect()
            })
            .filter(|set: &Vec<ChunkIndex>| code.repair_dag(&[lost], set).is_ok())
            .collect();
        let all = minimal.clone();
        minimal.retain(|set| {
            let is_within = |other: &Vec<ChunkIndex>| {
                other.len() < set.len() && other.iter().all(|c| set.contains(c))
            };
            !all.iter().any(is_within)
        });
        minimal.sort();
        minimal
    }

    fn every_set(check: &Check) -> Vec<Vec<ChunkIndex>> {
        let mut sets = vec![check.globals.clone()];
        for group in &check.groups {
            sets = (group.without.iter())
                .flat_map(|without| {
                    let rest: Vec<ChunkIndex> =
                        group.members.iter().filter(|c| !without.contains(c)).copied().collect();
                    sets.iter().map(move |set| [&set[..], &rest].concat()).collect::<Vec<_>>()
                })
                .collect();
        }
        sets.iter_mut().for_each(|set| set.sort_unstable());
        sets
    }

    #[test]
    fn the_checks_are_all_minimal_sets_of_helpers() {
        for name in [
            "lrc(4,2,1)",
            "lrc(6,2,2)",
            "lrc(6,2,3)",
            "lrc(6,3,3)",
            "lrc(8,2,3)",
            "lrc(4,2,4)",
            "lrc(4,1,3)",
        ] {
            let code: Code = name.parse().unwrap();
            let Code::Lrc(lrc) = code else { panic!() };
            for lost in code.chunks() {
                for gone in [
                    vec![],
                    vec![0],
                    vec![1, 2],
                    vec![0, code.chunk_count() as u8 - 1],
                    vec![lost.0 ^ 1],
                ] {
                    let is_there = |c: &ChunkIndex| *c != lost && !gone.contains(&c.0);
                    let available: Vec<ChunkIndex> = code.chunks().filter(is_there).collect();
                    let checks = lrc.checks(lost, &available, &[]).expect("they are few").lightest;
                    let expected = minimal_sets(code, lost, &available);
                    let mut found: Vec<Vec<ChunkIndex>> =
                        checks.iter().flat_map(every_set).collect();
                    found.sort();
                    found.dedup();
                    assert!(
                        expected.iter().all(|set| found.contains(set)),
                        "{name} {lost} {gone:?}: one is missing"
                    );
                    for set in &found {
                        let used = code.helpers_for(&[lost], set).expect("it is a check");
                        assert!(
                            expected.contains(set) || used.len() < set.len(),
                            "{name} {lost}: {set:?}"
                        );
                    }
                    let least = expected.iter().map(Vec::len).min();
                    assert_eq!(
                        checks.iter().map(Check::least).min(),
                        least,
                        "{name} {lost} {gone:?}"
                    );
                    let smallest: Vec<&Check> =
                        checks.iter().filter(|c| Some(c.least()) == least).collect();
                    let count: usize = smallest.iter().map(|check| check.least_sets()).sum();
                    let mut sets: Vec<_> = smallest.iter().flat_map(|check| check.sets()).collect();
                    sets.sort();
                    assert_eq!(count, sets.len());
                    assert!(expected.iter().filter(|set| Some(set.len()) == least).eq(&sets));
                }
            }
        }
    }
}
