//! Reed-Solomon keeps its promise: whatever m chunks are lost, any k others bring them back.
//!
//! Place: exhaustive where the patterns can be counted, sampled where they cannot.

use crate::common::{
    Rng, check_all_patterns, check_repair, check_sampled_patterns, chunks, stripe, survivors,
    volume,
};
use suture_code::{ChunkIndex, Code, CodeError, Dag};

const BOTH: [&str; 2] = ["rs", "rs-vandermonde"];

#[test]
fn small_codes_survive_every_pattern() {
    for family in BOTH {
        for (k, m) in [(1, 1), (1, 4), (3, 2), (4, 2), (6, 3)] {
            check_all_patterns(&format!("{family}({k},{m})"), m, 100);
        }
    }
}

#[test]
fn large_codes_survive_sampled_patterns() {
    for family in BOTH {
        for (k, m, samples) in
            [(10, 4, 1000), (200, 55, 4), (254, 1, 2), (1, 254, 20), (127, 128, 2)]
        {
            check_sampled_patterns(&format!("{family}({k},{m})"), 130, samples);
        }
    }
}

#[test]
fn any_window_of_a_chunk_can_be_repaired_alone() {
    let code: Code = "rs(6,3)".parse().unwrap();
    let stripe = stripe(&code, 3 * 8192 + 70, &mut Rng::new(3));
    let lost = chunks(&[4]);
    let helpers = code.helpers_for(&lost, &survivors(&code, &lost)).unwrap();
    for (from, to) in [(0, 64), (64, 8192), (8128, 3 * 8192 + 70), (128, 128)] {
        let windows: Vec<Vec<u8>> = stripe.iter().map(|chunk| chunk[from..to].to_vec()).collect();
        check_repair(&code, &windows, &lost, &helpers);
    }
}

#[test]
fn every_helper_of_a_single_loss_has_a_coefficient_and_all_are_needed() {
    for name in ["rs(3,2)", "rs(6,3)", "rs(10,4)", "rs-vandermonde(6,3)", "rs-vandermonde(10,4)"] {
        let code: Code = name.parse().unwrap();
        for lost in code.chunks() {
            let helpers = code.helpers_for(&[lost], &survivors(&code, &[lost])).unwrap();
            let dag = code.repair_dag(&[lost], &helpers).unwrap();
            let coefficients = dag.partial_coefficients(lost).expect("one sum over whole chunks");
            assert_eq!(coefficients.iter().map(|&(chunk, _)| chunk).collect::<Vec<_>>(), helpers);
            assert!(
                coefficients.iter().all(|&(_, coefficient)| coefficient != 0),
                "{name}, {lost} lost"
            );
            assert_eq!(volume(&code, lost), (code.data_chunks(), code.data_chunks() as u32));
            assert_eq!(code.least_helper_sub_chunks(lost) as usize, code.data_chunks());
        }
    }
}

#[test]
fn partial_sums_may_be_formed_along_any_tree() {
    let code: Code = "rs(6,3)".parse().unwrap();
    let stripe = stripe(&code, 100, &mut Rng::new(5));
    let lost = ChunkIndex(2);
    let helpers = code.helpers_for(&[lost], &survivors(&code, &[lost])).unwrap();
    let dag = code.repair_dag(&[lost], &helpers).unwrap();
    let mut partial_sums: Vec<Vec<u8>> = Vec::new();
    for (chunk, coefficient) in dag.partial_coefficients(lost).unwrap() {
        let mut sum = vec![0; 100];
        suture_gf::mul_add(&mut sum, coefficient, &stripe[usize::from(chunk.0)]);
        partial_sums.push(sum);
    }
    // Any two sums may meet anywhere: here a random pair at a time.
    let mut rng = Rng::new(6);
    while partial_sums.len() > 1 {
        let child = partial_sums.swap_remove(rng.below(partial_sums.len()));
        let parent = rng.below(partial_sums.len());
        suture_gf::xor(&mut partial_sums[parent], &child);
    }
    assert_eq!(partial_sums[0], stripe[2]);
}

#[test]
fn several_losses_have_no_partial_coefficients() {
    let code: Code = "rs(3,2)".parse().unwrap();
    let dag: Dag = code.repair_dag(&chunks(&[0, 4]), &chunks(&[1, 2, 3])).unwrap();
    assert_eq!(dag.partial_coefficients(ChunkIndex(0)), None);
    let dag = code.repair_dag(&chunks(&[0]), &chunks(&[1, 2, 3])).unwrap();
    assert_eq!(dag.partial_coefficients(ChunkIndex(1)), None, "asked about another chunk");
}

#[test]
fn repairing_parity_from_data_is_encoding() {
    for name in ["rs(6,3)", "rs-vandermonde(6,3)"] {
        let code: Code = name.parse().unwrap();
        let dag = code.repair_dag(&chunks(&[6, 7, 8]), &chunks(&[0, 1, 2, 3, 4, 5])).unwrap();
        assert_eq!(dag, code.encode_dag());
    }
}

#[test]
fn wrong_helper_sets_are_refused_with_the_numbers() {
    let code: Code = "rs(3,2)".parse().unwrap();
    let refused =
        |lost: &[u8], helpers: &[u8]| code.repair_dag(&chunks(lost), &chunks(helpers)).unwrap_err();
    assert_eq!(refused(&[0], &[1, 2]), CodeError::NotEnoughChunks { needed: 3, available: 2 });
    assert_eq!(refused(&[0], &[1, 2, 3, 4]), CodeError::TooManyHelpers { needed: 3, given: 4 });
    assert_eq!(refused(&[0], &[1, 2, 2]), CodeError::DuplicateChunk { chunk: ChunkIndex(2) });
    assert_eq!(refused(&[0, 0], &[1, 2, 3]), CodeError::DuplicateChunk { chunk: ChunkIndex(0) });
    assert_eq!(refused(&[0], &[0, 1, 2]), CodeError::HelperIsLost { chunk: ChunkIndex(0) });
    assert_eq!(
        refused(&[5], &[0, 1, 2]),
        CodeError::NoSuchChunk { chunk: ChunkIndex(5), chunk_count: 5 }
    );
    assert_eq!(refused(&[], &[0, 1, 2]), CodeError::NothingLost);
    assert_eq!(
        refused(&[0, 1, 2], &[3, 4]),
        CodeError::NotEnoughChunks { needed: 3, available: 2 }
    );
}

#[test]
fn helpers_are_taken_in_the_order_of_preference() {
    let code: Code = "rs(3,2)".parse().unwrap();
    assert_eq!(
        code.helpers_for(&chunks(&[1]), &chunks(&[4, 0, 3, 2])).unwrap(),
        chunks(&[4, 0, 3])
    );
    assert_eq!(
        code.helpers_for(&chunks(&[1]), &chunks(&[4, 0])),
        Err(CodeError::NotEnoughChunks { needed: 3, available: 2 })
    );
    assert_eq!(
        code.helpers_for(&chunks(&[1]), &chunks(&[4, 1, 0])),
        Err(CodeError::HelperIsLost { chunk: ChunkIndex(1) })
    );
}

#[test]
fn a_stripe_is_decodable_exactly_from_k_different_chunks() {
    let code: Code = "rs(3,2)".parse().unwrap();
    assert!(code.decodable(&chunks(&[4, 3, 0])));
    assert!(!code.decodable(&chunks(&[4, 3])));
    assert!(!code.decodable(&chunks(&[4, 3, 3, 9])));
    assert_eq!(code.loss_tolerance(), 2);
}
