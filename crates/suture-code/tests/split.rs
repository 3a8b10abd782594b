//! Cutting a DAG at its helpers: which read, which send, and that the parts make the whole.
//!
//! Place: what travels between nodes is decided by these cuts.

use crate::common::{Rng, run_in_parts, run_on_stripe};
use suture_code::dag::BYTE_WIDTH;
use suture_code::{ChunkIndex, Dag, DagFault, Join, Map, Source, Term, ValueId};
use suture_gf::BitMatrix;

fn source(dag: &mut Dag, chunk: u8, sub_chunk: u32) -> ValueId {
    dag.add_source(Source { chunk: ChunkIndex(chunk), sub_chunk }, BYTE_WIDTH)
}

/// Chunk 0 sends a sum of all that it reads and one of the two; chunk 1 sends traces; chunk 2 reads
/// what no sum needs.
fn mixed() -> Dag {
    let mut dag = Dag::new(2);
    let (a, b) = (source(&mut dag, 0, 0), source(&mut dag, 0, 1));
    let (c, unused) = (source(&mut dag, 1, 1), source(&mut dag, 2, 0));
    let both = dag.add_sum(BYTE_WIDTH, Join::AtHelper, vec![Term::times(2, a), Term::times(3, b)]);
    let trace = BitMatrix::new(&[0b1011, 0b1000_0000, 0b111], 8);
    let trace = dag.add_sum(3, Join::AtHelper, vec![Term { value: c, map: Map::Bits(trace) }]);
    let spread = BitMatrix::new(&[1, 2, 4, 3, 5, 6, 7, 1], 3);
    let terms = vec![
        Term::times(7, both),
        Term::times(1, a),
        Term { value: trace, map: Map::Bits(spread) },
    ];
    let sum = dag.add_sum(BYTE_WIDTH, Join::AtDecoder, terms);
    dag.add_xor(Join::AtDecoder, &[unused, sum]);
    dag.add_output(ChunkIndex(3), 0, sum);
    dag.add_output(ChunkIndex(3), 1, both);
    dag
}

#[test]
fn helpers_send_what_others_need_and_not_what_they_read() {
    let dag = mixed();
    dag.validate().unwrap();
    assert_eq!(dag.sends(), vec![(ChunkIndex(0), 2), (ChunkIndex(1), 1)]);
    assert_eq!(dag.reads().len(), 3);
    let widths = |(_, rows): &(ChunkIndex, Vec<ValueId>)| {
        rows.iter().map(|row| dag.value(*row).width).collect::<Vec<_>>()
    };
    let widths: Vec<Vec<usize>> = dag.sent_values().iter().map(widths).collect();
    assert_eq!(widths, [vec![8, 8], vec![3]]);
}

#[test]
fn the_parts_make_the_whole() {
    let dag = mixed();
    let split = dag.split_at_helpers();
    for part in split.helpers.iter().map(|(_, part)| part).chain([&split.decoder]) {
        part.validate().unwrap();
    }
    assert_eq!(split.decoder.outputs().len(), dag.outputs().len());
    let mut rng = Rng::new(5);
    let stripe: Vec<Vec<u8>> = (0..3).map(|_| rng.bytes(2 * 640)).collect();
    assert!(run_in_parts(&dag, &stripe) == run_on_stripe(&dag, &stripe));
}

#[test]
fn a_sum_at_a_helper_is_of_that_helper_alone() {
    let mut dag = Dag::new(1);
    let (a, b) = (source(&mut dag, 0, 0), source(&mut dag, 1, 0));
    let mixed = dag.add_xor(Join::AtHelper, &[a, b]);
    dag.add_output(ChunkIndex(2), 0, mixed);
    assert_eq!(dag.validate(), Err(DagFault::MixedOwners { value: mixed }));

    let mut dag = Dag::new(1);
    let a = source(&mut dag, 0, 0);
    let moved = dag.add_xor(Join::Anywhere, &[a]);
    let late = dag.add_xor(Join::AtHelper, &[moved]);
    dag.add_output(ChunkIndex(2), 0, late);
    assert_eq!(dag.validate(), Err(DagFault::MixedOwners { value: late }));
}
