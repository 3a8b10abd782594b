//! Which chunks are good when checksums are gone: parity decides, block by block.
//!
//! Place: [chunks without a checksum -> good or lost], at the end of a scan.
//! Enough chunks determine the rest: any k in most codes, but not in all. Where vouched chunks do,
//! each other one is recomputed and compared. Elsewhere the smallest set of suspects is sought
//! without which all the remaining chunks agree. With t the number of losses that the code survives
//! wherever they are, less the chunks that are missing, two explanations by at most t / 2 bad
//! chunks each would leave a determined stripe that both share, and hence be the same: within that
//! bound the answer is proven. Bad chunks are sought for each block apart, since damage is mostly
//! local.
//!
//! Invariant: a chunk is trusted only when the proof holds in every block, and when the others
//! could contradict it: agreement says nothing of a chunk that is needed to know the stripe. Limit:
//! at most `SUSPECT_SETS_MAX` sets are tried for a block; a wide stripe with many bad chunks in the
//! same place stays undecided rather than taking days.

use std::collections::BTreeSet;
use std::sync::Mutex;

use suture_code::layout::PositionRange;
use suture_code::{ChunkIndex, Code};
use suture_edge::checksum::BLOCK_BYTES;

use super::chunk::ChunkFault;
use super::combination::{self, Combination};
use super::method::reduce;
use super::position_ranges::ChunkInput;
use super::stripe::{ChunkState, Stripe};

const SUSPECT_SETS_MAX: usize = 5000;

/// What parity says about the chunks of a stripe.
enum Verdict {
    /// All chunks but these agree.
    AllBut(BTreeSet<ChunkIndex>),
    /// They contradict each other, and it cannot be determined which are wrong.
    Contradiction,
    /// There is no chunk to spare, so nothing to compare with.
    Silence,
}

/// Turns every unproven chunk into a trusted or a lost one. `.crc` files alone vouch for content,
/// not for it being the content of this stripe: so their chunks take part in the comparison; if
/// they disagree, none is used.
pub fn settle(stripe: &mut Stripe<'_>) {
    let vouched = stripe.indices_where(|state| matches!(state, ChunkState::Ready(_)));
    let unproven = stripe.indices_where(|state| matches!(state, ChunkState::Unproven(_)));
    match judge(stripe, &vouched, &unproven) {
        Verdict::AllBut(bad) => {
            bad.iter().for_each(|chunk| stripe.lose(*chunk, ChunkFault::Inconsistent));
            let agreeing = stripe.available();
            let code = stripe.code();
            for &chunk in unproven.iter().filter(|chunk| !bad.contains(chunk)) {
                let others: Vec<ChunkIndex> =
                    agreeing.iter().copied().filter(|other| *other != chunk).collect();
                if code.decodable(&others) {
                    stripe.trust(chunk)
                } else {
                    stripe.lose(chunk, ChunkFault::Unproven)
                }
            }
            stripe.parity_agrees = true;
        }
        Verdict::Contradiction => vouched
            .iter()
            .chain(&unproven)
            .for_each(|chunk| stripe.lose(*chunk, ChunkFault::Unproven)),
        Verdict::Silence => {
            unproven.iter().for_each(|chunk| stripe.lose(*chunk, ChunkFault::Unproven))
        }
    }
}

fn judge(stripe: &Stripe<'_>, vouched: &[ChunkIndex], unproven: &[ChunkIndex]) -> Verdict {
    let present: Vec<ChunkIndex> = vouched.iter().chain(unproven).copied().collect();
    let Some(jury) = Jury::new(stripe.code(), vouched.len(), &present) else {
        return Verdict::Silence;
    };
    let alpha = stripe.code().sub_chunk_count();
    let inputs: Vec<ChunkInput> =
        present.iter().map(|chunk| ChunkInput::whole(*chunk, alpha)).collect();
    let bad = Mutex::new(BTreeSet::new());
    let work = |buffers: &mut Vec<Vec<u8>>, range: &PositionRange| {
        // A chunk that reads differently than a moment ago is as good as a contradiction.
        combination::read(stripe, &inputs, range, buffers).map_err(|_| ())?;
        let found = jury.judge_range(range, buffers).ok_or(())?;
        bad.lock().expect("no thread panics here").extend(found);
        Ok(())
    };
    let layout = stripe.manifest.geometry.layout();
    let judged: Result<(), ()> =
        stripe.spread.for_each_range(layout, stripe.chunk_bytes(), Vec::new, work);
    match judged {
        Ok(()) => Verdict::AllBut(bad.into_inner().expect("no thread panics here")),
        Err(()) => Verdict::Contradiction,
    }
}

/// Chunks that testify about one another: the vouched ones first.
struct Jury<'a> {
    code: Code,
    vouched_count: usize,
    present: &'a [ChunkIndex],
    whole: Agreement,
}

/// Recomputes some chunks from others, and compares. Chunks are named by their places in `present`.
struct Agreement {
    combination: Combination,
    basis: Vec<usize>,
    tested: Vec<usize>,
}

impl Agreement {
    /// Among these places in `present`, those that come first being the basis; `None` without a
    /// chunk to spare.
    fn among(code: Code, present: &[ChunkIndex], places: &[usize]) -> Option<Agreement> {
        let chunks: Vec<ChunkIndex> = places.iter().map(|place| present[*place]).collect();
        if !code.decodable(&chunks) {
            return None;
        }
        let basis = reduce(&code, &chunks, chunks.iter().rev().copied());
        let tested: Vec<ChunkIndex> =
            chunks.iter().copied().filter(|chunk| !basis.contains(chunk)).collect();
        let helpers = code.helpers_for(&tested, &basis).ok()?;
        let dag = code.repair_dag(&tested, &helpers).ok()?;
        let combination = Combination::of(&dag, &helpers).ok()?;
        let place = |chunk: &ChunkIndex| present.iter().position(|other| other == chunk);
        let basis = combination.inputs().iter().map(|input| place(&input.chunk));
        Some(Agreement {
            basis: basis.collect::<Option<_>>()?,
            tested: tested.iter().map(place).collect::<Option<_>>()?,
            combination,
        })
    }

    /// The places whose bytes are not what the basis makes them.
    fn dissenters(&self, range: &PositionRange, present: &[Vec<u8>]) -> Vec<usize> {
        let basis: Vec<&[u8]> = self.basis.iter().map(|place| &present[*place][..]).collect();
        let mut computed = Vec::new();
        self.combination.run(range, &basis, &mut computed);
        let pairs = self.tested.iter().zip(&computed);
        pairs
            .filter(|(place, computed)| present[**place] != **computed)
            .map(|(place, _)| *place)
            .collect()
    }
}

impl<'a> Jury<'a> {
    fn new(code: Code, vouched_count: usize, present: &'a [ChunkIndex]) -> Option<Jury<'a>> {
        let places: Vec<usize> = (0..present.len()).collect();
        let whole = Agreement::among(code, present, &places)?;
        Some(Jury { code, vouched_count, present, whole })
    }

    /// The bad chunks of a range; `None` when they cannot be determined for some block.
    fn judge_range(
        &self,
        range: &PositionRange,
        buffers: &[Vec<u8>],
    ) -> Option<BTreeSet<ChunkIndex>> {
        let mut bad = BTreeSet::new();
        if self.whole.dissenters(range, buffers).is_empty() {
            return Some(bad);
        }
        let whole = range.packed(self.code.sub_chunk_count() as usize);
        for unit in range.units() {
            for block in unit.parts(BLOCK_BYTES) {
                let cut = |buffer: &Vec<u8>| cut_block(&buffer[whole.unit(&unit)], &unit, &block);
                let content: Vec<Vec<u8>> = buffers.iter().map(cut).collect();
                let places = self.judge_block(&block, &content)?;
                bad.extend(places.iter().map(|place| self.present[*place]));
            }
        }
        Some(bad)
    }

    fn judge_block(&self, range: &PositionRange, block: &[Vec<u8>]) -> Option<Vec<usize>> {
        let dissenters = self.whole.dissenters(range, block);
        let suspects: Vec<usize> = (self.vouched_count..self.present.len()).collect();
        if dissenters.is_empty() {
            return Some(dissenters);
        }
        if self.code.decodable(&self.present[..self.vouched_count]) {
            return dissenters.iter().all(|place| suspects.contains(place)).then_some(dissenters);
        }
        let missing = self.code.chunk_count() - self.present.len();
        let provable = self.code.loss_tolerance().saturating_sub(missing) / 2;
        let mut tried = 0;
        for size in 1..=provable {
            for bad in combinations(&suspects, size) {
                tried += 1;
                if tried > SUSPECT_SETS_MAX {
                    return None;
                }
                let others: Vec<usize> =
                    (0..self.present.len()).filter(|place| !bad.contains(place)).collect();
                let agreement = Agreement::among(self.code, self.present, &others)?;
                if agreement.dissenters(range, block).is_empty() {
                    return Some(bad);
                }
            }
        }
        None
    }
}

/// The bytes of a block, which is a part of a unit, from those of the unit.
fn cut_block(bytes: &[u8], unit: &PositionRange, block: &PositionRange) -> Vec<u8> {
    let from = (block.from() - unit.from()) as usize;
    let sub_chunks = bytes.chunks(unit.positions());
    sub_chunks.flat_map(|bytes| &bytes[from..from + block.positions()]).copied().collect()
}

/// All choices of `size` elements, in lexicographic order, one at a time.
fn combinations(elements: &[usize], size: usize) -> impl Iterator<Item = Vec<usize>> {
    let count = elements.len();
    let mut next: Option<Vec<usize>> = (size <= count).then(|| (0..size).collect());
    std::iter::from_fn(move || {
        let current = next.take()?;
        let movable = (0..size).rev().find(|&place| current[place] + size < count + place);
        next = movable.map(|place| {
            let start = current[place] + 1;
            current[..place].iter().copied().chain(start..start + size - place).collect()
        });
        Some(current.iter().map(|&index| elements[index]).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use suture_code::layout::Layout;

    /// Three blocks of every sub-chunk.
    const BYTES: u64 = 3 * BLOCK_BYTES;

    fn range(code: Code) -> PositionRange {
        Layout::of(&code, u64::from(code.sub_chunk_count()) * BYTES).whole()
    }

    /// A whole stripe of pseudo-random bytes.
    fn stripe(code: Code) -> Vec<Vec<u8>> {
        let byte = |chunk: usize, at: usize| (chunk * 31 + at * 7 + at / 251 * (chunk + 1)) as u8;
        let data: Vec<Vec<u8>> = (0..code.data_chunks())
            .map(|chunk| {
                (0..range(code).layout().chunk_bytes() as usize).map(|at| byte(chunk, at)).collect()
            })
            .collect();
        let mut parity = Vec::new();
        let combination = Combination::of(&code.encode_dag(), &[]).unwrap();
        combination.run(&range(code), &data, &mut parity);
        data.into_iter().chain(parity).collect()
    }

    fn judge(code: Code, vouched_count: usize, buffers: &[Vec<u8>]) -> Option<Vec<u8>> {
        let present: Vec<ChunkIndex> = code.chunks().collect();
        let jury = Jury::new(code, vouched_count, &present).unwrap();
        let bad = jury.judge_range(&range(code), buffers)?;
        Some(bad.iter().map(|chunk| chunk.0).collect())
    }

    #[test]
    fn one_bad_chunk_is_found_wherever_it_stands() {
        for code in ["rs(6,3)", "lrc(6,2,2)", "butterfly(4)", "clay(4,2,5)", "rs-vandermonde(4,2)"]
        {
            let code: Code = code.parse().unwrap();
            let good = stripe(code);
            assert_eq!(judge(code, 0, &good), Some(vec![]));
            for chunk in 0..code.chunk_count() {
                let mut bad = good.clone();
                bad[chunk][5000] ^= 1;
                assert_eq!(judge(code, 0, &bad), Some(vec![chunk as u8]), "{code}");
            }
        }
    }

    #[test]
    fn damage_in_different_blocks_is_told_apart() {
        let code: Code = "rs(6,3)".parse().unwrap();
        let mut bad = stripe(code);
        bad[0][0] ^= 1;
        bad[4][BLOCK_BYTES as usize] ^= 1;
        bad[8][2 * BLOCK_BYTES as usize] ^= 1;
        assert_eq!(judge(code, 0, &bad), Some(vec![0, 4, 8]));
    }

    #[test]
    fn two_bad_chunks_in_one_block_need_four_parities() {
        for (code, expected) in [("rs(6,3)", None), ("rs(6,4)", Some(vec![2, 7]))] {
            let code: Code = code.parse().unwrap();
            let mut bad = stripe(code);
            bad[2].fill(0xaa);
            bad[7].fill(0x55);
            assert_eq!(judge(code, 0, &bad), expected);
        }
    }

    #[test]
    fn vouched_chunks_convict_any_number_of_others() {
        let code: Code = "rs(6,3)".parse().unwrap();
        let mut bad = stripe(code);
        bad[6][1] ^= 1;
        bad[7][2] ^= 1;
        bad[8][3] ^= 1;
        assert_eq!(judge(code, 6, &bad), Some(vec![6, 7, 8]));
        bad[0][0] ^= 1;
        assert_eq!(judge(code, 5, &bad), None);
    }

    #[test]
    fn combinations_are_all_there_is() {
        let all: Vec<Vec<usize>> = combinations(&[3, 5, 7, 9], 2).collect();
        assert_eq!(all, [[3, 5], [3, 7], [3, 9], [5, 7], [5, 9], [7, 9]]);
        assert_eq!(combinations(&[1], 2).count(), 0);
        assert_eq!(combinations(&[1, 2, 3], 3).count(), 1);
    }
}
