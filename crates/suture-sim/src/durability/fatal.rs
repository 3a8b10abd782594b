//! How many of all sets of so many nodes are fatal: their loss loses data.
//!
//! Place: beside [stripes affected].
//! Fatal sets may be one in a trillion, so drawing sets at random finds none. Instead (Karp and
//! Luby's union of sets, 1983) a stripe is drawn, then a set that is fatal for it, and the set
//! counts one part in as many as stripes it is fatal for: unbiased, and as precise for rare sets as
//! for common ones. Where all sets are fatal for equally many stripes the answer is exact.

use std::ops::RangeInclusive;

use suture_code::Code;
use suture_code::chunk::ChunkIndex;
use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::equation::choose;
use super::placement::{Placement, is_decodable};

/// Sets drawn for each size: a standard error of 1 % or less where sets hit two stripes or so.
const DRAWN_SETS: usize = 2000;

/// Patterns of losses of one stripe that are tried one by one; of more than that, as many are
/// drawn.
const PATTERNS_MAX: usize = 4000;

/// Looked at for one size, about: larger placements draw fewer sets. About a second.
const CHUNKS_READ_MAX: usize = 40_000_000;

/// For each size of a set, the share of the sets of this size that are fatal.
pub(super) fn shares(placement: &Placement, sizes: RangeInclusive<usize>, seed: u64) -> Vec<f64> {
    let random = &mut Random::new(seed);
    let patterns = Patterns::new(placement.code(), *sizes.end(), random);
    sizes.map(|size| share(placement, &patterns, size, random)).collect()
}

fn share(placement: &Placement, patterns: &Patterns, size: usize, random: &mut Random) -> f64 {
    let (nodes, width) = (placement.node_count(), placement.code().chunk_count());
    let stripes = placement.stripe_count();
    if size > nodes || stripes == 0 {
        return 0.0;
    }
    // How many of the sets that are fatal for one stripe take so many of its own nodes.
    let of_lost = |lost: usize| {
        if lost <= size { patterns.count(lost) * choose(nodes - width, size - lost) } else { 0.0 }
    };
    let weights: Vec<f64> = (0..=width.min(size)).map(of_lost).collect();
    let fatal_for_one: f64 = weights.iter().sum();
    if fatal_for_one == 0.0 {
        return 0.0;
    }
    let reads = (placement.mean_chunks() * (width * size) as f64) as usize;
    let draws = (CHUNKS_READ_MAX / reads.max(1)).clamp(20, DRAWN_SETS);
    let mut is_drawn = vec![false; nodes];
    let mut covered = 0.0;
    for _ in 0..draws {
        let stripe = random.index(stripes) as u32;
        let set = draw_set(placement, patterns, stripe, &weights, size, random);
        set.iter().for_each(|node| is_drawn[node.index()] = true);
        covered += 1.0 / hits(placement, &set, &is_drawn) as f64;
        set.iter().for_each(|node| is_drawn[node.index()] = false);
    }
    (stripes as f64 * fatal_for_one / choose(nodes, size) * covered / draws as f64).min(1.0)
}

/// A set that is fatal for `stripe`, each as likely as any other.
fn draw_set(
    placement: &Placement,
    patterns: &Patterns,
    stripe: u32,
    weights: &[f64],
    size: usize,
    random: &mut Random,
) -> Vec<NodeId> {
    let own = placement.nodes_of(stripe);
    let lost = draw_weighted(weights, random);
    let mut set: Vec<NodeId> =
        patterns.draw(lost, random).iter().map(|chunk| own[usize::from(chunk.0)]).collect();
    while set.len() < size {
        let node = NodeId(random.index(placement.node_count()) as u32);
        if !own.contains(&node) && !set.contains(&node) {
            set.push(node);
        }
    }
    set
}

fn draw_weighted(weights: &[f64], random: &mut Random) -> usize {
    let mut left = random.unit() * weights.iter().sum::<f64>();
    let found = weights.iter().position(|&weight| {
        left -= weight;
        left < 0.0
    });
    found.or(weights.iter().rposition(|&weight| weight > 0.0)).expect("some weight is positive")
}

/// For how many stripes the set is fatal.
fn hits(placement: &Placement, set: &[NodeId], is_drawn: &[bool]) -> usize {
    let is_lost = |node: NodeId| is_drawn[node.index()];
    let mut count = 0;
    for &node in set {
        for &stripe in placement.stripes_of(node) {
            // Each stripe once: with the first of its nodes that is in the set.
            let first = placement.nodes_of(stripe).iter().find(|node| is_lost(**node));
            if first == Some(&node) && placement.is_fatal(stripe, is_lost) {
                count += 1;
            }
        }
    }
    count
}

/// The losses that a code does not survive, by their number.
struct Patterns {
    code: Code,
    /// For each number of losses, the share of all patterns that is fatal, and fatal ones to draw
    /// from; no list when all are.
    by_lost: Vec<(f64, Option<Vec<Vec<ChunkIndex>>>)>,
}

impl Patterns {
    fn new(code: Code, lost_max: usize, random: &mut Random) -> Patterns {
        let tolerance = code.loss_tolerance();
        let of_lost = |lost: usize| match lost {
            _ if lost <= tolerance => (0.0, None),
            _ if tolerance == code.parity_chunks() => (1.0, None),
            _ => fatal_patterns(code, lost, random),
        };
        let by_lost = (0..=lost_max.min(code.chunk_count())).map(of_lost).collect();
        Patterns { code, by_lost }
    }

    fn count(&self, lost: usize) -> f64 {
        self.by_lost[lost].0 * choose(self.code.chunk_count(), lost)
    }

    fn draw(&self, lost: usize, random: &mut Random) -> Vec<ChunkIndex> {
        match &self.by_lost[lost].1 {
            Some(list) => random.choose(list).clone(),
            None => random_pattern(self.code, lost, random),
        }
    }
}

/// The share of the patterns of `lost` losses that are fatal, and those that were found.
fn fatal_patterns(
    code: Code,
    lost: usize,
    random: &mut Random,
) -> (f64, Option<Vec<Vec<ChunkIndex>>>) {
    let tried = if choose(code.chunk_count(), lost) <= PATTERNS_MAX as f64 {
        all_patterns(code.chunk_count(), lost)
    } else {
        (0..PATTERNS_MAX).map(|_| random_pattern(code, lost, random)).collect()
    };
    let is_fatal = |pattern: &Vec<ChunkIndex>| {
        let left: Vec<ChunkIndex> = code.chunks().filter(|c| !pattern.contains(c)).collect();
        !is_decodable(code, &left)
    };
    let count = tried.len();
    let fatal: Vec<Vec<ChunkIndex>> = tried.into_iter().filter(is_fatal).collect();
    (fatal.len() as f64 / count as f64, Some(fatal))
}

fn random_pattern(code: Code, lost: usize, random: &mut Random) -> Vec<ChunkIndex> {
    let mut chunks: Vec<ChunkIndex> = code.chunks().collect();
    random.shuffle(&mut chunks);
    chunks.truncate(lost);
    chunks
}

/// All subsets of `lost` of `width` chunks, in lexical order.
fn all_patterns(width: usize, lost: usize) -> Vec<Vec<ChunkIndex>> {
    let mut all = vec![Vec::new()];
    for taken in 0..lost {
        let extend = |pattern: Vec<ChunkIndex>| {
            let from = pattern.last().map_or(0, |last: &ChunkIndex| usize::from(last.0) + 1);
            let to = width - (lost - taken - 1);
            (from..to).map(move |next| [&pattern[..], &[ChunkIndex(next as u8)]].concat())
        };
        all = all.into_iter().flat_map(extend).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By looking at every set.
    fn share_by_counting(placement: &Placement, size: usize) -> f64 {
        let sets = all_patterns(placement.node_count(), size);
        let is_fatal = |set: &&Vec<ChunkIndex>| {
            let is_lost = |node: NodeId| set.contains(&ChunkIndex(node.0 as u8));
            (0..placement.stripe_count() as u32).any(|stripe| placement.is_fatal(stripe, is_lost))
        };
        sets.iter().filter(is_fatal).count() as f64 / sets.len() as f64
    }

    #[test]
    fn shares_are_those_that_counting_every_set_finds() {
        let random = &mut Random::new(5);
        for (code, nodes, stripes) in
            [("rs(2,1)", 8, 5), ("rs(4,2)", 9, 12), ("lrc(4,2,2)", 10, 6), ("rs(3,2)", 5, 1)]
        {
            let code: Code = code.parse().unwrap();
            let mut all: Vec<NodeId> = (0..nodes as u32).map(NodeId).collect();
            let mut on = Vec::new();
            for _ in 0..stripes {
                random.shuffle(&mut all);
                on.extend_from_slice(&all[..code.chunk_count()]);
            }
            let placement = Placement::new(code, nodes, on);
            let tolerance = code.loss_tolerance();
            let sizes = tolerance + 1..=(tolerance + 3).min(nodes);
            for (size, share) in sizes.clone().zip(shares(&placement, sizes, 1)) {
                let exact = share_by_counting(&placement, size);
                assert!((share / exact - 1.0).abs() < 0.05, "{code} {size}: {share} {exact}");
            }
        }
    }
}
