//! The search for trace schemes: hill climbing over spaces of polynomials.
//!
//! Place: before everything else, once for a code; `suture codes search` runs it.
//! The state is eight polynomials q_t(x) = u_t + (x + lost) * r_t(x) with independent u_t; what
//! counts is the space that they span over GF(2), and its rank at each helper. A move drops one
//! dimension of the space at random, sometimes two or three, and puts back the best. To put one
//! back, its u is given and its r is free; it costs nothing at every helper where its value lies in
//! the span of the other seven's, which is an affine condition on the bits of r. So the question is
//! to satisfy most of them: a few conditions, chosen at random, are enforced by elimination, until
//! few enough candidates remain to try them all, one byte lane for each helper.
//!
//! Sideways moves are taken, one step up is taken rarely, and after many moves without gain the
//! climb starts anew. Most of the gain comes in seconds, the last bits in minutes.
//!
//! Invariant: the best is a scheme at any time, since no scheme can be wrong; the same seed finds
//! the same.

use super::{Scheme, leading_bit, reduce};
use crate::chunk::ChunkIndex;
use crate::describe::check_repair;
use crate::error::CodeError;
use suture_gf::field;

/// Candidates that are tried at once, as a power of two: more find better moves, and take longer.
const CANDIDATE_BITS_MIN: usize = 10;
const CANDIDATE_BITS_MAX: usize = 13;
/// One move in so many may make things worse by one bit.
const STEP_UP_ODDS: u64 = 20;
/// One move in so many drops two dimensions or three.
const WIDE_MOVE_ODDS: u64 = 8;
/// Moves without gain after which the climb starts anew.
const RESTART_AFTER_MIN: u64 = 3_000;
const RESTART_AFTER_MAX: u64 = 30_000;

/// A search for a scheme of few bits, to be continued as long as one likes.
#[derive(Clone, Debug)]
pub struct Search {
    lost: ChunkIndex,
    missing: Vec<ChunkIndex>,
    /// The values at all helpers of the polynomials with one bit set: those of u, then those of
    /// each coefficient of r.
    units: Vec<Polynomial>,
    rng: Random,
    state: Vec<Polynomial>,
    best: Vec<Polynomial>,
    best_bits: usize,
    bits: usize,
    idle_moves: u64,
    restart_after: u64,
}

/// A polynomial by its coefficients, u and those of r, and by its values at the helpers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Polynomial {
    coefficients: Vec<u8>,
    values: Vec<u8>,
}

impl Polynomial {
    fn add(&mut self, other: &Polynomial) {
        self.coefficients.iter_mut().zip(&other.coefficients).for_each(|(a, b)| *a ^= b);
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a ^= b);
    }
}

impl Search {
    /// Begins a search for the repair of `lost` without the `missing` chunks, in stripes of
    /// Reed-Solomon that have those `chunks`, of which `needed` are data.
    ///
    /// # Errors
    /// When the chunks do not exist, are named twice, or leave fewer than k.
    pub(crate) fn new(
        needed: usize,
        chunks: &[ChunkIndex],
        lost: ChunkIndex,
        missing: &[ChunkIndex],
        seed: u64,
    ) -> Result<Search, CodeError> {
        check_repair(chunks.len(), &[lost], missing)?;
        let is_helper = |chunk: &ChunkIndex| *chunk != lost && !missing.contains(chunk);
        let helpers: Vec<ChunkIndex> = chunks.iter().copied().filter(is_helper).collect();
        let available = helpers.len();
        let Some(degree) = available.checked_sub(needed) else {
            return Err(CodeError::NotEnoughChunks { needed, available });
        };
        let mut search = Search {
            lost,
            missing: missing.to_vec(),
            units: units(lost, &helpers, degree),
            rng: Random(seed),
            state: Vec::new(),
            best: Vec::new(),
            best_bits: 0,
            bits: 0,
            idle_moves: 0,
            restart_after: 0,
        };
        search.best = search.units[..8].to_vec();
        search.best_bits = total_rank(&search.best);
        search.start();
        Ok(search)
    }

    /// Makes that many moves.
    pub fn step(&mut self, moves: u64) {
        for _ in 0..moves {
            if self.idle_moves > self.restart_after {
                self.start();
            }
            self.make_move();
        }
    }

    /// The best scheme so far.
    #[must_use]
    pub fn best(&self) -> Scheme {
        let mut rows = self.best.clone();
        // To u_t = 2^t.
        for bit in 0..8 {
            let has_bit = |row: &Polynomial| row.coefficients[0] >> bit & 1 == 1;
            let pivot = (bit..8).find(|&row| has_bit(&rows[row])).expect("independent u_t");
            rows.swap(bit, pivot);
            let pivot = rows[bit].clone();
            let others = rows.iter_mut().enumerate().filter(|(row, _)| *row != bit);
            others.filter(|(_, row)| has_bit(row)).for_each(|(_, row)| row.add(&pivot));
        }
        let degree = rows[0].coefficients.len() - 1;
        let quotient = |e: usize| std::array::from_fn(|t| rows[t].coefficients[e + 1]);
        Scheme::new(self.lost, &self.missing, (0..degree).map(quotient).collect())
    }

    /// The bits that the helpers of the best scheme send together for each byte.
    #[must_use]
    pub fn best_bits(&self) -> usize {
        self.best_bits
    }

    /// Begins anew from random values r_t.
    fn start(&mut self) {
        let (bits_of_u, bits_of_r) = self.units.split_at(8);
        self.state = bits_of_u.to_vec();
        for row in &mut self.state {
            for unit in bits_of_r {
                if self.rng.next() & 1 == 1 {
                    row.add(unit);
                }
            }
        }
        self.bits = total_rank(&self.state);
        self.idle_moves = 0;
        self.restart_after =
            RESTART_AFTER_MIN + self.rng.below(RESTART_AFTER_MAX - RESTART_AFTER_MIN);
    }

    fn make_move(&mut self) {
        let mut rows = self.state.clone();
        let dropped_count = match self.rng.below(WIDE_MOVE_ODDS) {
            0 => 2 + self.rng.below(2) as usize,
            _ => 1,
        };
        let mut dropped = Vec::new();
        for _ in 0..dropped_count {
            dropped.push(self.drop_dimension(&mut rows));
        }
        for row in dropped {
            let best = self.best_beside(&rows, row.coefficients[0]);
            rows.push(best);
        }
        let bits = total_rank(&rows);
        self.idle_moves += 1;
        if bits <= self.bits || bits == self.bits + 1 && self.rng.below(STEP_UP_ODDS) == 0 {
            if bits < self.bits {
                self.idle_moves = 0;
            }
            (self.state, self.bits) = (rows, bits);
        }
        if self.bits < self.best_bits {
            (self.best, self.best_bits) = (self.state.clone(), self.bits);
        }
    }

    /// Makes `rows` a basis of a random hyperplane of their space; returns what completes it.
    fn drop_dimension(&mut self, rows: &mut Vec<Polynomial>) -> Polynomial {
        // The hyperplane is where the sum of some coordinates, at least one, is zero.
        let mask = 1 + self.rng.below((1 << rows.len()) - 1);
        let summed: Vec<usize> = (0..rows.len()).filter(|row| mask >> row & 1 == 1).collect();
        let pivot = summed[self.rng.below(summed.len() as u64) as usize];
        let dropped = rows[pivot].clone();
        summed.iter().filter(|row| **row != pivot).for_each(|&row| rows[row].add(&dropped));
        rows.swap_remove(pivot)
    }

    /// The polynomial with that u, among many with random r, whose values lie most often in the
    /// span of the values of `rows`.
    fn best_beside(&mut self, rows: &[Polynomial], u: u8) -> Polynomial {
        let spans: Vec<Vec<u8>> = (0..rows[0].values.len()).map(|at| span(rows, at)).collect();
        let reduced = |polynomial: &Polynomial| {
            let mut polynomial = polynomial.clone();
            let values = polynomial.values.iter_mut().zip(&spans);
            values.for_each(|(value, span)| *value = reduce(*value, span));
            polynomial
        };
        let (bits_of_u, bits_of_r) = self.units.split_at(8);
        let mut base = reduced(&zero(&self.units[0]));
        (0..8).filter(|bit| u >> bit & 1 == 1).for_each(|bit| base.add(&reduced(&bits_of_u[bit])));
        let mut directions: Vec<Polynomial> = bits_of_r.iter().map(reduced).collect();

        let choice = CANDIDATE_BITS_MAX - CANDIDATE_BITS_MIN + 1;
        let candidate_bits = CANDIDATE_BITS_MIN + self.rng.below(choice as u64) as usize;
        while directions.len() > candidate_bits {
            let helper = self.rng.below(spans.len() as u64) as usize;
            if !enforce(helper, &mut base, &mut directions) {
                // The condition cannot be met, or is met already: give up a random freedom.
                let surplus = self.rng.below(directions.len() as u64) as usize;
                directions.swap_remove(surplus);
            }
        }
        let chosen = match spans.len() {
            ..=16 => most_zeros::<16>(&base, &directions, &mut self.rng),
            17..=32 => most_zeros::<32>(&base, &directions, &mut self.rng),
            33..=64 => most_zeros::<64>(&base, &directions, &mut self.rng),
            _ => most_zeros::<256>(&base, &directions, &mut self.rng),
        };
        let taken = (0..directions.len()).filter(|direction| chosen >> direction & 1 == 1);
        taken.for_each(|direction| base.add(&directions[direction]));
        // Its values are known up to the spans; its coefficients define what it is.
        self.evaluate(&base.coefficients)
    }

    fn evaluate(&self, coefficients: &[u8]) -> Polynomial {
        let mut sum = zero(&self.units[0]);
        for (place, coefficient) in coefficients.iter().enumerate() {
            let bits = (0..8).filter(|bit| coefficient >> bit & 1 == 1);
            bits.for_each(|bit| sum.add(&self.units[8 * place + bit]));
        }
        sum
    }
}

fn units(lost: ChunkIndex, helpers: &[ChunkIndex], degree: usize) -> Vec<Polynomial> {
    let unit = |place: usize, bit: usize| {
        let mut coefficients = vec![0; degree + 1];
        coefficients[place] = 1 << bit;
        let factor = |x: u8| match place {
            0 => 1,
            _ => field::mul(x ^ lost.0, field::pow(x, place as u32 - 1)),
        };
        let values = helpers.iter().map(|chunk| field::mul(1 << bit, factor(chunk.0))).collect();
        Polynomial { coefficients, values }
    };
    (0..=degree)
        .flat_map(|place| (0..8).map(move |bit| (place, bit)))
        .map(|(p, b)| unit(p, b))
        .collect()
}

fn zero(like: &Polynomial) -> Polynomial {
    Polynomial {
        coefficients: vec![0; like.coefficients.len()],
        values: vec![0; like.values.len()],
    }
}

/// A basis of the span of all values at one helper, for [`reduce`].
fn span(rows: &[Polynomial], helper: usize) -> Vec<u8> {
    let mut basis: Vec<u8> = Vec::with_capacity(8);
    for row in rows {
        let rest = reduce(row.values[helper], &basis);
        if rest != 0 {
            let leading = leading_bit(rest);
            basis
                .iter_mut()
                .filter(|other| **other & leading != 0)
                .for_each(|other| *other ^= rest);
            basis.push(rest);
        }
    }
    basis
}

fn total_rank(rows: &[Polynomial]) -> usize {
    (0..rows[0].values.len()).map(|helper| span(rows, helper).len()).sum()
}

/// Restricts the candidates to those that are zero at a helper. Returns whether that took away any
/// freedom and could be done.
fn enforce(helper: usize, base: &mut Polynomial, directions: &mut Vec<Polynomial>) -> bool {
    let freedoms = directions.len();
    loop {
        let Some(pivot) = directions.iter().position(|direction| direction.values[helper] != 0)
        else {
            return base.values[helper] == 0 && directions.len() < freedoms;
        };
        let pivot = directions.swap_remove(pivot);
        let bit = leading_bit(pivot.values[helper]);
        for row in directions.iter_mut().chain([&mut *base]) {
            if row.values[helper] & bit != 0 {
                row.add(&pivot);
            }
        }
    }
}

/// The sum of directions, as a mask, that together with the base is zero at most helpers; a random
/// one of the best. Tries all, in the order of a Gray code.
fn most_zeros<const LANES: usize>(
    base: &Polynomial,
    directions: &[Polynomial],
    rng: &mut Random,
) -> u64 {
    let lanes = |polynomial: &Polynomial, padding: u8| {
        let mut lanes = [padding; LANES];
        lanes[..polynomial.values.len()].copy_from_slice(&polynomial.values);
        lanes
    };
    let directions: Vec<[u8; LANES]> = directions.iter().map(|d| lanes(d, 0)).collect();
    // Lanes without a helper are never zero.
    let mut sum = lanes(base, 1);
    let (mut best, mut best_zeros, mut ties) = (0, 0, 0);
    for index in 0..1_u64 << directions.len() {
        if index > 0 {
            let direction = &directions[index.trailing_zeros() as usize];
            sum.iter_mut().zip(direction).for_each(|(sum, lane)| *sum ^= lane);
        }
        let zeros: u8 = sum.iter().map(|&lane| u8::from(lane == 0)).fold(0, u8::wrapping_add);
        if zeros > best_zeros {
            (best, best_zeros, ties) = (index ^ index >> 1, zeros, 1);
        } else if zeros == best_zeros {
            ties += 1;
            if rng.below(ties) == 0 {
                best = index ^ index >> 1;
            }
        }
    }
    best
}

/// A SplitMix64 generator: fast, seeded, not for secrets.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
