//! The executor against the naive one, over DAGs of every shape; and what both refuse.
//!
//! Place: one executor runs every code, so what it gets wrong, everything gets wrong.

use crate::common::Rng;
use proptest::prelude::*;
use suture_code::dag::{BYTE_WIDTH, Origin};
use suture_code::error::Side;
use suture_code::execute::run_naively;
use suture_code::{
    ChunkIndex, CodeError, Dag, DagFault, Join, Map, Program, Scratch, Source, Term, ValueId,
};
use suture_gf::{BitMatrix, bits};

/// What random DAGs are made of.
#[derive(Clone, Copy, PartialEq)]
enum Flavour {
    /// Whole bytes and coefficients.
    Coefficients,
    /// All widths and both kinds of maps.
    Traces,
    /// Exclusive ors alone, mostly of what was computed last.
    Chains,
}

fn random_map(rng: &mut Rng, flavour: Flavour, to: usize, from: usize) -> Map {
    if flavour == Flavour::Chains {
        return Map::Coefficient(1);
    }
    if (to, from) == (8, 8) && (flavour == Flavour::Coefficients || rng.below(2) == 0) {
        return Map::Coefficient(rng.next() as u8);
    }
    let mask = (0xff_u16 >> (8 - from)) as u8;
    let rows: Vec<u8> = (0..to).map(|_| rng.next() as u8 & mask).collect();
    Map::Bits(BitMatrix::new(&rows, from))
}

/// Sources, sums of earlier values (sometimes more than a kernel takes at once), outputs of any of
/// them.
fn random_dag(rng: &mut Rng, flavour: Flavour) -> Dag {
    let mut dag = Dag::new(4);
    let mut values: Vec<ValueId> = Vec::new();
    let random_width = |rng: &mut Rng| {
        if flavour != Flavour::Traces || rng.below(3) == 0 { 8 } else { 1 + rng.below(8) }
    };
    for index in 0..1 + rng.below(24) {
        let source = Source { chunk: ChunkIndex(index as u8 / 4), sub_chunk: index as u32 % 4 };
        let width = random_width(rng);
        values.push(dag.add_source(source, width));
    }
    let mut last_terms: Vec<ValueId> = Vec::new();
    for _ in 0..rng.below(12) {
        let width = random_width(rng);
        let mut of: Vec<ValueId> = match rng.below(3) {
            // Much the same values as the sum before: these are computed together.
            0 if !last_terms.is_empty() => last_terms.clone(),
            _ => (0..1 + rng.below(40)).map(|_| values[rng.below(values.len())]).collect(),
        };
        if flavour == Flavour::Chains && rng.below(2) == 0 {
            of.truncate(1 + rng.below(6));
            of[0] = values[values.len() - 1];
        }
        let terms = of.iter().map(|&value| {
            let map = random_map(rng, flavour, width, dag.value(value).width);
            Term { value, map }
        });
        let terms = terms.collect();
        values.push(dag.add_sum(width, Join::Anywhere, terms));
        last_terms = of;
    }
    for index in 0..1 + rng.below(8) {
        // Late values are likelier, so that chains are used; repeats and plain sources occur too.
        let back = rng.below(values.len()).min(rng.below(values.len()));
        dag.add_output(
            ChunkIndex(100 + index as u8 / 4),
            index as u32 % 4,
            values[values.len() - 1 - back],
        );
    }
    dag
}

/// Source buffers of the right widths, with zero padding.
fn random_sources(rng: &mut Rng, dag: &Dag, symbols: usize) -> Vec<Vec<u8>> {
    let fill = |(id, _): (ValueId, Source)| {
        let width = dag.value(id).width;
        let mut buffer = vec![0; bits::buffer_bytes(width, symbols)];
        for index in 0..symbols {
            bits::add_symbol_at(&mut buffer, width, index, rng.next() as u8 >> (8 - width));
        }
        buffer
    };
    dag.sources().map(fill).collect()
}

fn check_against_naive(seed: u64, flavour: Flavour, symbols: usize) {
    let mut rng = Rng::new(seed);
    let dag = random_dag(&mut rng, flavour);
    dag.validate().expect("random DAGs are valid by construction");
    // Where no buffer is plain bytes, their length counts the symbols together with padding.
    let any_bytes =
        dag.sources().map(|(id, _)| id).chain(dag.outputs().iter().map(|output| output.value));
    let exact = any_bytes.map(|id| dag.value(id).width).any(|width| width == BYTE_WIDTH);
    let symbols = if exact { symbols } else { symbols.next_multiple_of(64) };

    let sources = random_sources(&mut rng, &dag, symbols);
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let expected = run_naively(&dag, &sources, symbols);

    let program = Program::compile(&dag).unwrap();
    let mut outputs: Vec<Vec<u8>> =
        expected.iter().map(|output| vec![0xee; output.len()]).collect();
    let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&sources, &mut views).unwrap();
    assert!(outputs == expected, "seed {seed}, {symbols} symbols: {dag:?}");
    if let Some(flat) = dag.flatten() {
        check_flat(&flat, &sources, &expected);
    }
}

fn check_flat(flat: &suture_code::dag::Flat, sources: &[&[u8]], expected: &[Vec<u8>]) {
    for (row, expected) in flat.matrix.rows().zip(expected) {
        let mut output = vec![0; expected.len()];
        row.iter().zip(sources).for_each(|(&coefficient, source)| {
            suture_gf::mul_add(&mut output, coefficient, source)
        });
        assert!(output == *expected, "the flattened matrix disagrees");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_executor_agrees_with_the_naive_one_on_coefficients(
        seed in any::<u64>(),
        symbols in 0..400usize,
    ) {
        check_against_naive(seed, Flavour::Coefficients, symbols);
    }

    #[test]
    fn the_executor_agrees_with_the_naive_one_on_chains(
        seed in any::<u64>(),
        symbols in 0..400usize,
    ) {
        check_against_naive(seed, Flavour::Chains, symbols);
    }

    #[test]
    fn the_executor_agrees_with_the_naive_one_on_traces(
        seed in any::<u64>(),
        symbols in 0..400usize,
    ) {
        check_against_naive(seed, Flavour::Traces, symbols);
    }
}

#[test]
fn the_executor_agrees_with_the_naive_one_across_tiles() {
    for seed in 0..8 {
        for flavour in [Flavour::Coefficients, Flavour::Traces, Flavour::Chains] {
            check_against_naive(seed, flavour, 2 * 8192 + 64 * seed as usize + 5);
        }
    }
}

/// Sources of one chunk each, as plain bytes.
fn sources(dag: &mut Dag, count: u8) -> Vec<ValueId> {
    (0..count)
        .map(|chunk| dag.add_source(Source { chunk: ChunkIndex(chunk), sub_chunk: 0 }, BYTE_WIDTH))
        .collect()
}

fn times(value: ValueId, coefficient: u8) -> Term {
    Term { value, map: Map::Coefficient(coefficient) }
}

#[test]
fn flat_programs_need_no_scratch_and_chains_need_little() {
    let mut dag = Dag::new(1);
    let values = sources(&mut dag, 40);
    let mut sum = dag.add_sum(BYTE_WIDTH, Join::Anywhere, vec![times(values[0], 1)]);
    for &value in &values[1..] {
        sum = dag.add_sum(BYTE_WIDTH, Join::Anywhere, vec![times(sum, 3), times(value, 5)]);
    }
    dag.add_output(ChunkIndex(50), 0, sum);
    let chain = Program::compile(&dag).unwrap();
    assert_eq!(chain.scratch_bytes(), 2 * 8192, "two tiles take turns along the chain");

    let code: suture_code::Code = "rs(6,3)".parse().unwrap();
    assert_eq!(Program::compile(&code.encode_dag()).unwrap().scratch_bytes(), 0);
}

#[test]
fn outputs_that_others_read_need_no_scratch_and_may_be_shown_twice() {
    let mut dag = Dag::new(2);
    let source = dag.add_source(Source { chunk: ChunkIndex(0), sub_chunk: 0 }, BYTE_WIDTH);
    let double = dag.add_sum(BYTE_WIDTH, Join::Anywhere, vec![times(source, 2)]);
    let sum = dag.add_xor(Join::Anywhere, &[double, source]);
    dag.add_output(ChunkIndex(1), 0, double);
    dag.add_output(ChunkIndex(1), 1, sum);
    dag.add_output(ChunkIndex(2), 0, double);
    let program = Program::compile(&dag).unwrap();
    assert_eq!(program.scratch_bytes(), 0);
    let (mut first, mut second, mut third) = ([0], [0], [0]);
    program.run(&[&[5]], &mut [&mut first, &mut second, &mut third]).unwrap();
    assert_eq!((first, second, third), ([10], [15], [10]));
}

#[test]
fn scratch_may_be_kept_from_one_program_to_another() {
    let mut scratch = Scratch::default();
    for name in ["butterfly(5)", "clay(4,2,5)", "butterfly(2)"] {
        let code: suture_code::Code = name.parse().unwrap();
        let program = Program::compile(&code.encode_dag()).unwrap();
        let data: Vec<Vec<u8>> = program.sources().map(|_| vec![7; 100]).collect();
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let run = |scratch: &mut Scratch| {
            let mut outputs = vec![vec![0; 100]; program.outputs().len()];
            let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            program.run_with(scratch, &data, &mut views).unwrap();
            outputs
        };
        assert!(run(&mut scratch) == run(&mut Scratch::default()), "{name}");
    }
}

#[test]
fn values_that_lead_nowhere_are_not_computed() {
    let mut dag = Dag::new(1);
    let values = sources(&mut dag, 2);
    let unused = dag.add_sum(BYTE_WIDTH, Join::Anywhere, vec![times(values[0], 2)]);
    let _ = dag.add_sum(BYTE_WIDTH, Join::Anywhere, vec![times(unused, 2)]);
    dag.add_output(ChunkIndex(9), 0, values[1]);
    let program = Program::compile(&dag).unwrap();
    assert_eq!(program.scratch_bytes(), 0);
    let mut output = [0; 3];
    program.run(&[b"abc", b"xyz"], &mut [&mut output]).unwrap();
    assert_eq!(&output, b"xyz");
}

#[test]
fn wrong_buffers_are_refused_before_anything_is_written() {
    let code: suture_code::Code = "rs(2,1)".parse().unwrap();
    let program = Program::compile(&code.encode_dag()).unwrap();
    let mut parity = [0xee; 8];
    let mismatch = |side, index, expected, found| {
        Err(CodeError::LengthMismatch { side, index, expected, found })
    };
    assert_eq!(
        program.run(&[&[0; 8]], &mut [&mut parity]),
        Err(CodeError::BufferCount { side: Side::Source, expected: 2, found: 1 })
    );
    assert_eq!(
        program.run(&[&[0; 8], &[0; 8]], &mut []),
        Err(CodeError::BufferCount { side: Side::Output, expected: 1, found: 0 })
    );
    assert_eq!(
        program.run(&[&[0; 8], &[0; 7]], &mut [&mut parity]),
        mismatch(Side::Source, 1, 8, 7)
    );
    assert_eq!(
        program.run(&[&[0; 9], &[0; 9]], &mut [&mut parity]),
        mismatch(Side::Output, 0, 9, 8)
    );
    assert_eq!(parity, [0xee; 8]);
}

#[test]
fn invalid_dags_are_refused_with_their_fault() {
    let refused = |build: &dyn Fn(&mut Dag, &[ValueId])| {
        let mut dag = Dag::new(1);
        let values = sources(&mut dag, 2);
        build(&mut dag, &values);
        let fault = dag.validate().expect_err("invalid");
        assert_eq!(
            Program::compile(&dag).expect_err("invalid"),
            CodeError::InvalidDag(fault.clone())
        );
        assert!(!fault.to_string().is_empty());
        fault
    };
    let output = |dag: &mut Dag, value| dag.add_output(ChunkIndex(7), 0, value);

    assert_eq!(refused(&|_, _| ()), DagFault::NoOutputs);
    let fault = refused(&|dag, _| {
        let sum = dag.add_sum(8, Join::Anywhere, vec![]);
        output(dag, sum);
    });
    assert!(matches!(fault, DagFault::EmptySum { value } if value.index() == 2));
    let fault = refused(&|dag, values| {
        let sum = dag.add_sum(5, Join::Anywhere, vec![times(values[0], 1)]);
        output(dag, sum);
    });
    let DagFault::MapShape { expected, found, .. } = fault else { panic!("{fault:?}") };
    assert_eq!((expected.output, expected.input), (5, 8));
    assert_eq!((found.output, found.input), (8, 8));
    let fault = refused(&|dag, values| {
        dag.add_source(Source { chunk: ChunkIndex(1), sub_chunk: 0 }, 8);
        output(dag, values[0]);
    });
    assert!(matches!(fault, DagFault::DuplicateSource { source } if source.chunk == ChunkIndex(1)));
    let fault = refused(&|dag, values| {
        output(dag, values[0]);
        output(dag, values[1]);
    });
    assert_eq!(fault, DagFault::DuplicateOutput { chunk: ChunkIndex(7), sub_chunk: 0 });
    let fault = refused(&|dag, values| dag.add_output(ChunkIndex(7), 1, values[0]));
    assert_eq!(
        fault,
        DagFault::NoSuchSubChunk { chunk: ChunkIndex(7), sub_chunk: 1, sub_chunk_count: 1 }
    );
    let fault = refused(&|dag, values| {
        dag.add_source(Source { chunk: ChunkIndex(5), sub_chunk: 0 }, 9);
        output(dag, values[0]);
    });
    assert!(matches!(fault, DagFault::Width { width: 9, .. }));
}

#[test]
fn values_of_another_dag_are_refused() {
    let mut larger = Dag::new(1);
    let foreign = *sources(&mut larger, 9).last().unwrap();
    let mut dag = Dag::new(1);
    let values = sources(&mut dag, 2);
    dag.add_output(ChunkIndex(7), 0, foreign);
    assert!(matches!(dag.validate(), Err(DagFault::NoSuchValue { .. })));

    let mut dag = Dag::new(1);
    sources(&mut dag, 2);
    let sum = dag.add_sum(8, Join::Anywhere, vec![times(values[0], 1), times(foreign, 1)]);
    dag.add_output(ChunkIndex(7), 0, sum);
    assert!(matches!(dag.validate(), Err(DagFault::ForwardReference { .. })));
}

#[test]
fn reads_list_the_sub_chunks_of_each_chunk() {
    let mut dag = Dag::new(4);
    for (chunk, sub_chunk) in [(3, 1), (0, 2), (3, 0), (0, 0)] {
        dag.add_source(Source { chunk: ChunkIndex(chunk), sub_chunk }, BYTE_WIDTH);
    }
    assert_eq!(dag.reads(), vec![(ChunkIndex(0), vec![0, 2]), (ChunkIndex(3), vec![0, 1])]);
    assert_eq!(dag.sources().map(|(_, source)| source.chunk.0).collect::<Vec<_>>(), [3, 0, 3, 0]);
    assert!(dag.values().all(|(_, value)| matches!(value.origin, Origin::Source(_))));
}
