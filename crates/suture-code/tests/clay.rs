//! Clay codes: any k chunks decode, and d helpers rebuild one chunk at the bound of regenerating
//! codes.
//!
//! Place: every pattern of small codes, with and without virtual nodes and idle chunks; samples of
//! the large.

use crate::common::{
    Rng, check_all_patterns, check_rebuilds, check_repair, check_sampled_patterns, chunks, stripe,
    subsets, survivors, volume,
};
use suture_code::{ChunkIndex, Code, CodeError};

/// With q t chunks, with virtual nodes, and with chunks that stay idle in a repair.
const SMALL: [&str; 7] = [
    "clay(4,2,5)",
    "clay(3,2,4)",
    "clay(4,3,6)",
    "clay(4,3,5)",
    "clay(2,2,3)",
    "clay(3,3,4)",
    "clay(1,2,2)",
];

#[test]
fn small_codes_survive_every_pattern() {
    for name in SMALL {
        let code: Code = name.parse().unwrap();
        check_all_patterns(name, code.parity_chunks(), 3);
    }
}

#[test]
fn large_codes_survive_sampled_patterns() {
    check_sampled_patterns("clay(10,4,13)", 2, 6);
    check_sampled_patterns("clay(10,4,12)", 2, 4);
    check_sampled_patterns("clay(8,3,10)", 2, 20);
}

/// Every lost chunk, every set of d helpers: those that hold the lost chunk's row read alpha / q
/// sub-chunks each and send them as they are; the others are refused.
#[test]
fn any_helpers_with_the_row_of_the_lost_chunk_repair_at_the_bound() {
    for name in SMALL {
        let code: Code = name.parse().unwrap();
        let stripe = stripe(&code, 2, &mut Rng::new(4));
        let (k, d) = (code.data_chunks(), helper_count(name));
        let q = d - k + 1;
        let each = code.sub_chunk_count() / q as u32;
        for lost in code.chunks() {
            let others = survivors(&code, &[lost]);
            let mut served = 0;
            for helpers in subsets(&others, d) {
                match code.repair_dag(&[lost], &helpers) {
                    Ok(dag) => {
                        served += 1;
                        check_rebuilds(&dag, &stripe, &[lost]);
                        assert!(dag.reads().iter().all(|(_, parts)| parts.len() as u32 == each));
                        let sends: Vec<_> = helpers.iter().map(|&helper| (helper, each)).collect();
                        assert_eq!(dag.sends(), sends, "{name}, {lost} lost");
                    }
                    Err(error) => {
                        assert_eq!(error, CodeError::TooManyHelpers { needed: k, given: d })
                    }
                }
            }
            assert!(served >= 1 && (d + 1 < code.chunk_count() || served == 1), "{name}, {lost}");
        }
    }
}

fn helper_count(name: &str) -> usize {
    name.trim_end_matches(')').rsplit(',').next().unwrap().parse().unwrap()
}

#[test]
fn one_loss_moves_what_the_literature_says() {
    for name in
        SMALL.iter().chain(&["clay(10,4,13)", "clay(10,4,12)", "clay(8,3,10)", "clay(12,4,15)"])
    {
        let code: Code = name.parse().unwrap();
        let d = helper_count(name);
        let expected = d * code.sub_chunk_count() as usize / (d - code.data_chunks() + 1);
        for lost in code.chunks() {
            assert_eq!(volume(&code, lost), (expected, expected as u32), "{name}, {lost} lost");
            assert_eq!(code.least_helper_sub_chunks(lost) as usize, expected);
            let helpers = code.helpers_for(&[lost], &survivors(&code, &[lost])).unwrap();
            assert_eq!(helpers.len(), d);
        }
    }
    let code: Code = "clay(10,4,13)".parse().unwrap();
    assert_eq!(code.sub_chunk_count(), 256);
    assert_eq!(code.least_helper_sub_chunks(ChunkIndex(0)), 13 * 64, "3.25 chunks in place of 10");
}

#[test]
fn large_codes_repair_every_chunk_at_the_bound() {
    for name in ["clay(10,4,13)", "clay(10,4,12)"] {
        let code: Code = name.parse().unwrap();
        let stripe = stripe(&code, 1, &mut Rng::new(8));
        for lost in code.chunks() {
            let helpers = code.helpers_for(&[lost], &survivors(&code, &[lost])).unwrap();
            check_repair(&code, &stripe, &[lost], &helpers);
        }
    }
}

#[test]
fn helpers_keep_the_row_and_the_order_of_preference() {
    // q = 2: rows are (0 1) (2 3) (4 5) (6 and a virtual node follow the data).
    let code: Code = "clay(4,3,5)".parse().unwrap();
    let helpers = code.helpers_for(&chunks(&[0]), &chunks(&[6, 5, 4, 3, 2, 1])).unwrap();
    assert_eq!(helpers, chunks(&[6, 5, 4, 3, 1]));
    // Without chunk 1 the repair of chunk 0 decodes.
    let helpers = code.helpers_for(&chunks(&[0]), &chunks(&[6, 5, 4, 3, 2])).unwrap();
    assert_eq!(helpers, chunks(&[6, 5, 4, 3]));
    let helpers = code.helpers_for(&chunks(&[0, 2]), &chunks(&[1, 3, 4, 5, 6])).unwrap();
    assert_eq!(helpers, chunks(&[1, 3, 4, 5]));
    assert_eq!(
        code.helpers_for(&chunks(&[0]), &chunks(&[1, 2, 3])),
        Err(CodeError::NotEnoughChunks { needed: 4, available: 3 })
    );
}

#[test]
fn too_many_sub_chunks_are_refused_with_both_numbers() {
    let refused = |name: &str| name.parse::<Code>().unwrap_err();
    let error = refused("clay(20,6,21)");
    assert_eq!(
        error,
        CodeError::TooManySubChunks {
            name: "clay(20,6,21)".into(),
            sub_chunk_count: 1 << 13,
            sub_chunk_count_max: 4096
        }
    );
    assert!(error.to_string().contains("8192") && error.to_string().contains("4096"), "{error}");
    assert!(matches!(refused("clay(200,55,201)"), CodeError::TooManySubChunks { .. }));
    for name in ["clay(4,2,4)", "clay(4,2,6)", "clay(4,1,4)"] {
        assert!(refused(name).to_string().contains("k < d < k + m"), "{name}");
    }
    assert!(matches!(refused("clay(0,2,1)"), CodeError::ImpossibleParameters { .. }));
    let largest: Code = "clay(20,4,23)".parse().unwrap();
    assert_eq!(largest.sub_chunk_count(), 4096);
}
