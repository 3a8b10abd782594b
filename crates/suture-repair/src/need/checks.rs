//! The need of one lost chunk of a locally repairable code, from its parity checks.
//!
//! Place: beside `[plan]`, with the rest of what a repair needs at least.
//! Each minimal check through the lost chunk is a set of helpers, or, since the groups of a check
//! choose by themselves what they leave out, many of them. The lightest ones say how many helpers
//! it takes at least, and which are in all of them; all of them are what planners choose from.

use std::sync::Arc;

use suture_code::lrc::{Check, Checks, ChunkPrices};
use suture_code::{ChunkIndex, Code, Shortened};

use super::{Part, SETS_MAX, Sender, combinations};

/// The need for `lost`; `None` for other codes, where nothing rebuilds it, and where its checks are
/// too many to be listed.
pub(super) fn part_of_checks(
    code: Shortened,
    lost: ChunkIndex,
    available: &[ChunkIndex],
) -> Option<Part> {
    let (checks, least) = listed(code, lost, available)?;
    let lightest: Vec<&Check> =
        checks.lightest.iter().take_while(|check| check.least() == least).collect();
    let are_all = checks.are_all || lightest.len() < checks.lightest.len();

    let is_forced = |chunk: &ChunkIndex| lightest.iter().all(|check| check.always_takes(*chunk));
    let (forced, free): (Vec<ChunkIndex>, Vec<ChunkIndex>) =
        available.iter().partition(|chunk| is_forced(chunk));
    let count = least - forced.len();
    let set_count = lightest.iter().map(|check| check.least_sets()).fold(0, usize::saturating_add);
    let any = are_all && set_count == combinations(free.len(), count);
    let lists_all = are_all && set_count <= SETS_MAX;
    let listed: Vec<&Check> = if lists_all { lightest } else { Vec::new() };
    let without = |check: &Check| forced.iter().filter_map(|c| check.least_without(*c)).min();
    // Those that are not listed have as many helpers as the last, or more.
    let unlisted = checks.lightest.last().filter(|_| !checks.are_all).map(Check::least);
    let least_around = checks.lightest.iter().filter_map(without).chain(unlisted).min();
    let is_free = |chunk: &ChunkIndex| !forced.contains(chunk);
    let all: Arc<[Check]> = if checks.are_all { checks.lightest.clone().into() } else { [].into() };
    let sets = listed.iter().filter(|_| !any).flat_map(|check| check.sets());
    let mut sets: Vec<Vec<ChunkIndex>> =
        sets.map(|set| set.into_iter().filter(is_free).collect()).collect();
    sets.sort_unstable();
    Some(Part {
        lost: vec![lost],
        forced: forced.iter().map(|&chunk| Sender { chunk, sent: 1, read: 1 }).collect(),
        count,
        least,
        free: if count == 0 { Vec::new() } else { free },
        free_sent: 1.min(count as u32),
        free_read: 1.min(count as u32),
        any,
        sets,
        all_sets: any || lists_all,
        least_around,
        checks: if any { [].into() } else { with_all(&forced, checks.lightest) },
        all_checks: all,
        is_sum: true,
    })
}

/// A need for `lost` that leaves open which nodes help: as few as it takes, or more; `None` as
/// there, and where no other node may help.
pub(super) fn part_of_any_check(
    code: Shortened,
    lost: ChunkIndex,
    available: &[ChunkIndex],
) -> Option<Part> {
    let (checks, least) = listed(code, lost, available)?;
    let is_one = checks.lightest.len() == 1 && checks.lightest[0].least_sets() == 1;
    (!is_one).then(|| Part {
        lost: vec![lost],
        forced: Vec::new(),
        count: least,
        least,
        free: available.to_vec(),
        free_sent: 1,
        free_read: 1,
        any: false,
        sets: Vec::new(),
        all_sets: false,
        least_around: None,
        checks: checks.lightest.into(),
        all_checks: [].into(),
        is_sum: true,
    })
}

/// The checks through a lost chunk, and how few helpers one can have.
fn listed(code: Shortened, lost: ChunkIndex, available: &[ChunkIndex]) -> Option<(Checks, usize)> {
    let Code::Lrc(lrc) = code.code() else { return None };
    let checks = lrc.checks(lost, available, &zeros(code))?;
    let least = checks.lightest.first()?.least();
    Some((checks, least))
}

fn zeros(code: Shortened) -> Vec<ChunkIndex> {
    code.zeros().iter().collect()
}

/// The checks, as far as all these chunks are in them.
fn with_all(forced: &[ChunkIndex], mut checks: Vec<Check>) -> Arc<[Check]> {
    checks.retain_mut(|check| forced.iter().all(|chunk| check.keep(*chunk)));
    checks.into()
}

/// How few helpers do for several chunks, or for one whose checks are too many: as many as for the
/// one that takes most when it can be had from no other lost one.
pub(super) fn least_helpers(
    code: Shortened,
    lost: &[ChunkIndex],
    available: &[ChunkIndex],
) -> usize {
    let Code::Lrc(lrc) = code.code() else { return 0 };
    let zeros = zeros(code);
    let least = |lost: &ChunkIndex| match lrc.checks(*lost, available, &zeros) {
        Some(checks) => checks.lightest.first().map_or(0, Check::least),
        None => lrc.least_helpers_far(zeros.len()),
    };
    lost.iter().map(least).max().unwrap_or(0)
}

impl Part {
    /// The sets of helpers that cost least of so many checks, forced ones included, each ascending,
    /// the cheapest first; none where the checks are not known. `is_least` leaves only sets of as
    /// few helpers as it takes.
    pub fn cheapest_sets(
        &self,
        count: usize,
        is_least: bool,
        price: impl Fn(ChunkIndex) -> f64,
    ) -> Vec<Vec<ChunkIndex>> {
        if self.checks.is_empty() {
            return Vec::new();
        }
        let forced = self.forced.iter().map(|sender| sender.chunk);
        let chunks = forced.chain(self.free.iter().copied());
        let prices = ChunkPrices::new(chunks.map(|chunk| (chunk, price(chunk))));
        let fewest = |check: &&Check| !is_least || check.least() == self.least;
        let priced = self.checks.iter().take_while(fewest);
        let mut priced: Vec<(f64, &Check)> =
            priced.map(|check| (check.price(is_least, &prices), check)).collect();
        if count < priced.len() {
            priced.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0));
            priced.truncate(count);
        }
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        priced.into_iter().map(|(_, check)| check.cheapest(is_least, &prices)).collect()
    }
}
