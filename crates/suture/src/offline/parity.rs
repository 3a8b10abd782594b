//! Which chunks are good when checksums are gone: parity decides, block by block.
//!
//! Place: [chunks without a checksum -> good or lost], at the end of a scan.
//! Any k chunks of a Reed-Solomon stripe determine the rest. With k vouched chunks each other one is
//! recomputed and compared. With fewer, the smallest set of suspects is sought without which all the
//! remaining chunks agree. With p chunks present, two explanations by at most (p - k) / 2 bad chunks
//! each would share k good ones and hence be the same: within that bound the answer is proven. Bad
//! chunks are sought for each block apart, since damage is mostly local.
//!
//! Invariant: a chunk is trusted only when the proof holds in every block; otherwise nobody is.
//! Limit: at most `SUSPECT_SETS_MAX` sets are tried for a block; a wide stripe with many bad chunks in
//! the same place stays undecided rather than taking days.

use std::collections::BTreeSet;
use std::sync::Mutex;

use suture_code::{ChunkIndex, Code, Program};

use super::checksum::BLOCK_BYTES;
use super::chunk::ChunkFault;
use super::pool::Window;
use super::stripe::{ChunkState, Stripe};

const SUSPECT_SETS_MAX: usize = 5000;

/// What parity says about the chunks of a stripe.
enum Verdict {
    /// All chunks but these agree.
    AllBut(BTreeSet<ChunkIndex>),
    /// They contradict each other, and it cannot be told who is wrong.
    Contradiction,
    /// There is no chunk to spare, so nothing to compare with.
    Silence,
}

/// Turns every unproven chunk into a trusted or a lost one. `.crc` files alone vouch for content, not for it being
/// the content of this stripe: so their chunks are heard too, and where they contradict each other, none is trusted.
pub fn settle(stripe: &mut Stripe<'_>) {
    let vouched = stripe.indices_where(|state| matches!(state, ChunkState::Ready(_)));
    let unproven = stripe.indices_where(|state| matches!(state, ChunkState::Unproven(_)));
    match judge(stripe, &vouched, &unproven) {
        Verdict::AllBut(bad) => {
            bad.iter().for_each(|chunk| stripe.lose(*chunk, ChunkFault::Inconsistent));
            unproven.iter().for_each(|chunk| stripe.trust(*chunk));
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
    let bad = Mutex::new(BTreeSet::new());
    let work = |buffers: &mut Vec<Vec<u8>>, window: Window| {
        for (chunk, buffer) in present.iter().zip(buffers.iter_mut()) {
            buffer.resize(window.bytes, 0);
            // A chunk that reads differently than a moment ago is as good as a contradiction.
            stripe.reader(*chunk).read(window, buffer).map_err(|_| ())?;
        }
        let found = jury.judge_window(buffers).ok_or(())?;
        bad.lock().expect("no thread panics here").extend(found);
        Ok(())
    };
    let scratch = || vec![Vec::new(); present.len()];
    let judged: Result<(), ()> = stripe.spread.for_each_window(stripe.chunk_bytes(), scratch, work);
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

/// Recomputes some chunks from others, and compares.
struct Agreement {
    program: Program,
    basis: Vec<usize>,
    tested: Vec<usize>,
}

impl Agreement {
    /// Among these places in `present`; `None` without a chunk to spare.
    fn among(code: Code, present: &[ChunkIndex], places: &[usize]) -> Option<Agreement> {
        let (basis, tested) = places.split_at_checked(code.data_chunks())?;
        let chunks =
            |places: &[usize]| places.iter().map(|place| present[*place]).collect::<Vec<_>>();
        let dag = code.repair_dag(&chunks(tested), &chunks(basis)).ok()?;
        let program = Program::compile(&dag).ok()?;
        Some(Agreement { program, basis: basis.to_vec(), tested: tested.to_vec() })
    }

    /// The places whose bytes are not what the basis makes them.
    fn dissenters(&self, buffers: &[&[u8]]) -> Vec<usize> {
        let sources: Vec<&[u8]> = self.basis.iter().map(|place| buffers[*place]).collect();
        let mut computed = vec![vec![0; sources[0].len()]; self.tested.len()];
        let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
        self.program.run(&sources, &mut outputs).expect("buffers have the window's length");
        let pairs = self.tested.iter().zip(&computed);
        pairs
            .filter(|(place, computed)| *buffers[**place] != computed[..])
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

    /// The bad chunks of a window; `None` when it cannot be told for some block.
    fn judge_window(&self, buffers: &[Vec<u8>]) -> Option<BTreeSet<ChunkIndex>> {
        let window: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut bad = BTreeSet::new();
        if self.whole.dissenters(&window).is_empty() {
            return Some(bad);
        }
        for start in (0..window[0].len()).step_by(BLOCK_BYTES) {
            let end = window[0].len().min(start + BLOCK_BYTES);
            let block: Vec<&[u8]> = window.iter().map(|buffer| &buffer[start..end]).collect();
            bad.extend(self.judge_block(&block)?.iter().map(|place| self.present[*place]));
        }
        Some(bad)
    }

    fn judge_block(&self, block: &[&[u8]]) -> Option<Vec<usize>> {
        let dissenters = self.whole.dissenters(block);
        let suspects: Vec<usize> = (self.vouched_count..self.present.len()).collect();
        if dissenters.is_empty() {
            return Some(dissenters);
        }
        if self.vouched_count >= self.code.data_chunks() {
            return dissenters.iter().all(|place| suspects.contains(place)).then_some(dissenters);
        }
        let provable = (self.present.len() - self.code.data_chunks()) / 2;
        let mut tried = 0;
        for size in 1..=provable {
            for bad in combinations(&suspects, size) {
                tried += 1;
                if tried > SUSPECT_SETS_MAX {
                    return None;
                }
                let others: Vec<usize> =
                    (0..self.present.len()).filter(|place| !bad.contains(place)).collect();
                if Agreement::among(self.code, self.present, &others)?.dissenters(block).is_empty()
                {
                    return Some(bad);
                }
            }
        }
        None
    }
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

    const BYTES: usize = 3 * BLOCK_BYTES;

    /// A whole stripe of pseudo-random bytes.
    fn stripe(code: Code) -> Vec<Vec<u8>> {
        let byte = |chunk: usize, at: usize| (chunk * 31 + at * 7 + at / 251 * (chunk + 1)) as u8;
        let data: Vec<Vec<u8>> = (0..code.data_chunks())
            .map(|chunk| (0..BYTES).map(|at| byte(chunk, at)).collect())
            .collect();
        let mut parity = vec![vec![0; BYTES]; code.parity_chunks()];
        let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        Program::compile(&code.encode_dag()).unwrap().run(&sources, &mut outputs).unwrap();
        data.into_iter().chain(parity).collect()
    }

    fn judge(code: Code, vouched_count: usize, buffers: &[Vec<u8>]) -> Option<Vec<u8>> {
        let present: Vec<ChunkIndex> = code.chunks().collect();
        let bad = Jury::new(code, vouched_count, &present).unwrap().judge_window(buffers)?;
        Some(bad.iter().map(|chunk| chunk.0).collect())
    }

    #[test]
    fn one_bad_chunk_is_found_wherever_it_stands() {
        let code: Code = "rs(6,3)".parse().unwrap();
        let good = stripe(code);
        assert_eq!(judge(code, 0, &good), Some(vec![]));
        for chunk in 0..9 {
            let mut bad = good.clone();
            bad[chunk][5000] ^= 1;
            assert_eq!(judge(code, 0, &bad), Some(vec![chunk as u8]));
        }
    }

    #[test]
    fn damage_in_different_blocks_is_told_apart() {
        let code: Code = "rs(6,3)".parse().unwrap();
        let mut bad = stripe(code);
        bad[0][0] ^= 1;
        bad[4][BLOCK_BYTES] ^= 1;
        bad[8][2 * BLOCK_BYTES] ^= 1;
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
