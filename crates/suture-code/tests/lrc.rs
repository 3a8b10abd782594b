//! Locally repairable codes: what decodes is what can, and one loss reads its group alone.
//!
//! Place: every set of losses that the sizes allow, up to 16 chunks; samples above.

use crate::common::{
    Rng, check_all_patterns, check_repair, chunks, stripe, subsets, survivors, volume,
};
use std::collections::BTreeMap;
use suture_code::{ChunkIndex, Code, CodeError};

const MAXIMALLY_RECOVERABLE: [&str; 4] = ["lrc(6,2,2)", "lrc(8,2,2)", "lrc(10,2,2)", "lrc(12,2,2)"];

/// The code with k, l, m and the group of each chunk.
struct Shape {
    code: Code,
    k: usize,
    l: usize,
    m: usize,
}

impl Shape {
    fn new(name: &str) -> Shape {
        let code: Code = name.parse().unwrap();
        let Code::Lrc(lrc) = code else { panic!("{name} is not an LRC") };
        let m = code.loss_tolerance() - 1;
        assert_eq!(lrc.to_string(), name);
        Shape { code, k: code.data_chunks(), l: code.parity_chunks() - m, m }
    }

    fn group(&self, chunk: ChunkIndex) -> Option<usize> {
        let chunk = usize::from(chunk.0);
        if chunk < self.k {
            Some(chunk / (self.k / self.l))
        } else {
            Some(chunk - self.k).filter(|group| *group < self.l)
        }
    }

    /// What no coefficients can better: each group absorbs one loss, the global parities m.
    fn could_decode(&self, lost: &[ChunkIndex]) -> bool {
        let mut losses: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        lost.iter().for_each(|&chunk| *losses.entry(self.group(chunk)).or_default() += 1);
        let beyond = losses.iter().map(|(group, count)| count - usize::from(group.is_some()));
        beyond.sum::<usize>() <= self.m
    }
}

#[test]
fn every_pattern_that_could_decode_decodes() {
    for name in MAXIMALLY_RECOVERABLE.iter().chain(&["lrc(6,3,2)", "lrc(9,3,1)", "lrc(4,4,2)"]) {
        let shape = Shape::new(name);
        let all: Vec<ChunkIndex> = shape.code.chunks().collect();
        for lost_count in 1..=all.len() {
            for lost in subsets(&all, lost_count) {
                let decodes = shape.code.decodable(&survivors(&shape.code, &lost));
                assert_eq!(decodes, shape.could_decode(&lost), "{name}: {lost:?}");
            }
        }
    }
}

#[test]
fn what_decodes_is_rebuilt() {
    for name in MAXIMALLY_RECOVERABLE {
        check_all_patterns(name, 4, 20);
    }
    check_all_patterns("lrc(6,3,3)", 6, 20);
    check_all_patterns("lrc(4,1,1)", 3, 20);
}

/// Beyond two global parities, or with groups of more than 15, not everything that could decode
/// does; but m + 1 losses always do.
#[test]
fn the_tolerance_holds_for_every_code() {
    for name in ["lrc(6,2,3)", "lrc(8,2,4)", "lrc(12,3,3)", "lrc(6,6,3)", "lrc(5,1,4)"] {
        let code: Code = name.parse().unwrap();
        let all: Vec<ChunkIndex> = code.chunks().collect();
        for lost in subsets(&all, code.loss_tolerance()) {
            assert!(code.decodable(&survivors(&code, &lost)), "{name}: {lost:?}");
        }
        let beyond = subsets(&all, code.loss_tolerance() + 1);
        assert!(beyond.iter().any(|lost| !code.decodable(&survivors(&code, lost))), "{name}");
    }
    for name in ["lrc(200,10,4)", "lrc(64,2,2)", "lrc(252,2,1)"] {
        let code: Code = name.parse().unwrap();
        let mut rng = Rng::new(3);
        let stripe = stripe(&code, 20, &mut rng);
        let all: Vec<ChunkIndex> = code.chunks().collect();
        for _ in 0..4 {
            let lost = rng.choose(&all, code.loss_tolerance());
            let helpers = code.helpers_for(&lost, &survivors(&code, &lost)).unwrap();
            check_repair(&code, &stripe, &lost, &helpers);
        }
    }
}

#[test]
fn one_loss_reads_its_group_alone() {
    for name in MAXIMALLY_RECOVERABLE.iter().chain(&["lrc(12,3,3)", "lrc(64,2,2)"]) {
        let shape = Shape::new(name);
        for lost in shape.code.chunks() {
            let expected = match shape.group(lost) {
                Some(_) => shape.k / shape.l,
                None => shape.k,
            };
            assert_eq!(volume(&shape.code, lost), (expected, expected as u32), "{name}: {lost}");
            assert_eq!(shape.code.least_helper_sub_chunks(lost) as usize, expected);
            let helpers = shape.code.helpers_for(&[lost], &survivors(&shape.code, &[lost]));
            let helpers = helpers.unwrap();
            let group = shape.group(lost);
            assert!(group.is_none() || helpers.iter().all(|&helper| shape.group(helper) == group));
            let dag = shape.code.repair_dag(&[lost], &helpers).unwrap();
            let sum = dag.partial_coefficients(lost).expect("one sum over whole chunks");
            assert_eq!(sum.iter().map(|(chunk, _)| *chunk).collect::<Vec<_>>(), helpers);
            assert!(group.is_none() || sum.iter().all(|(_, coefficient)| *coefficient == 1));
        }
    }
}

#[test]
fn losses_in_different_groups_are_repaired_by_their_groups() {
    let code: Code = "lrc(6,2,2)".parse().unwrap();
    let lost = chunks(&[1, 7]);
    let helpers = code.helpers_for(&lost, &survivors(&code, &lost)).unwrap();
    assert_eq!(helpers, chunks(&[0, 2, 3, 4, 5, 6]));
    let dag = code.repair_dag(&lost, &helpers).unwrap();
    let terms = |output: usize| match &dag.value(dag.outputs()[output].value).origin {
        suture_code::dag::Origin::Sum { terms, .. } => terms.len(),
        suture_code::dag::Origin::Source(_) => 0,
    };
    assert_eq!((terms(0), terms(1)), (3, 3), "each sum is over its own group");
}

#[test]
fn without_its_group_a_chunk_is_decoded_from_k() {
    let code: Code = "lrc(6,2,2)".parse().unwrap();
    // The local parity 6 is not lost, but not to be had either.
    let helpers = code.helpers_for(&chunks(&[0]), &chunks(&[9, 8, 7, 5, 4, 3, 2, 1])).unwrap();
    assert_eq!(helpers.len(), 6);
    let stripe = stripe(&code, 64, &mut Rng::new(9));
    check_repair(&code, &stripe, &chunks(&[0]), &helpers);
}

#[test]
fn what_cannot_be_repaired_is_refused() {
    let code: Code = "lrc(6,2,2)".parse().unwrap();
    let lost = chunks(&[0, 1, 2, 6]);
    assert_eq!(
        code.helpers_for(&lost, &survivors(&code, &lost)),
        Err(CodeError::NotDetermined { lost: 4, available: 6 })
    );
    assert_eq!(
        code.helpers_for(&chunks(&[0]), &[]),
        Err(CodeError::NotDetermined { lost: 1, available: 0 })
    );
    assert_eq!(
        code.repair_dag(&chunks(&[0]), &chunks(&[1, 2, 6, 7])),
        Err(CodeError::TooManyHelpers { needed: 3, given: 4 })
    );
    assert_eq!(
        code.repair_dag(&chunks(&[0]), &chunks(&[1, 2])),
        Err(CodeError::NotDetermined { lost: 1, available: 2 })
    );
}
