//! Which stripes there can be: lengths, known zeros and units.

use suture_code::layout::SizeError;
use suture_code::{ChunkIndex, CodeError};
use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe, StripeFault};

/// Chunks of these lengths, the longest first.
fn stripe(code: &str, unit_bytes: u64, lengths: &[u64]) -> Stripe {
    let record = |(node, bytes): (u32, &u64)| ChunkRecord {
        node: (*bytes > 0).then_some(NodeId(node)),
        stamp: Stamp(0),
        bytes: *bytes,
        crc: None,
    };
    Stripe {
        id: StripeId(0),
        code: code.parse().unwrap(),
        chunk_bytes: lengths[0],
        unit_bytes,
        generation: Generation(0),
        chunks: (0..).zip(lengths).map(record).collect(),
    }
}

#[test]
fn short_block_groups_of_others_are_stripes() {
    let mib = 1 << 20;
    let group = stripe("rs(6,3)", mib, &[mib, mib, 402_848, 0, 0, 0, mib, mib, mib]);
    assert_eq!(group.check(), Ok(()));
    assert_eq!((group.shortened().data_chunks(), group.shortened().zeros().len()), (3, 3));
    assert_eq!(group.reach(&[ChunkIndex(2), ChunkIndex(3)]), 402_848);
    assert_eq!(group.copy(ChunkIndex(3)), None);
    let tiny = stripe("rs(6,3)", mib, &[700_000, 0, 0, 0, 0, 0, 700_000, 700_000, 700_000]);
    assert_eq!(tiny.check(), Ok(()));
    let units = stripe("butterfly(2)", 128, &[512, 256, 512, 512]);
    assert_eq!((units.check(), units.layout().unit_bytes()), (Ok(()), 128));
    assert_eq!(stripe("butterfly(2)", 384, &[512, 384, 512, 512]).check(), Ok(()));
    let cut = stripe("butterfly(2)", 128, &[500, 100, 500, 500]);
    let cut = Stripe { chunk_bytes: 512, ..cut };
    assert!(cut.check().is_err(), "parities end with their units");
    let cut = stripe("butterfly(2)", 128, &[512, 100, 512, 512]);
    assert_eq!((cut.check(), cut.reach(&[ChunkIndex(1)])), (Ok(()), 128));
    assert_eq!(cut.reach(&[ChunkIndex(1), ChunkIndex(3)]), 512);
}

#[test]
fn stripes_that_cannot_be_are_refused_with_the_reason() {
    let refused = |code: &str, unit_bytes, lengths: &[u64]| {
        stripe(code, unit_bytes, lengths).check().expect_err("it cannot be")
    };
    let count = StripeFault::ChunkCount { found: 2, expected: 3 };
    assert_eq!(refused("rs(2,1)", 64, &[64, 64]), count);
    assert_eq!(refused("rs(2,1)", 0, &[0, 0, 0]), StripeFault::Empty);
    let too_long = StripeFault::TooLong { chunk: ChunkIndex(2), bytes: 65, chunk_bytes: 64 };
    assert_eq!(refused("rs(2,1)", 64, &[64, 64, 65]), too_long);
    let bytes = (1 << 40) + 64;
    let too_large = StripeFault::TooLarge { bytes };
    assert_eq!(refused("rs(2,1)", bytes, &[bytes, bytes, bytes]), too_large);
    // Where the data have ended, a parity is zero.
    let why = CodeError::ZeroToo { chunk: ChunkIndex(0) };
    let impossible = StripeFault::Impossible { end: 30, why };
    assert_eq!(refused("rs(2,1)", 64, &[64, 20, 30]), impossible);
    let why = CodeError::ZeroSubChunks { code: "butterfly(2)".into(), chunk: ChunkIndex(1) };
    assert_eq!(
        refused("butterfly(2)", 128, &[128, 0, 128, 128]),
        StripeFault::Impossible { end: 0, why }
    );
    let cut = StripeFault::CutsUnit { chunk: ChunkIndex(3), unit_bytes: 128 };
    assert_eq!(refused("butterfly(2)", 128, &[256, 256, 256, 100]), cut);
    let unit = StripeFault::Unit(SizeError { bytes: 100, step: 128 });
    assert_eq!(refused("butterfly(2)", 100, &[256, 256, 256, 256]), unit);
    let mut placed = stripe("rs(2,1)", 64, &[64, 0, 64]);
    placed.chunks[1].node = Some(NodeId(1));
    assert_eq!(placed.check(), Err(StripeFault::ZeroWithCopy { chunk: ChunkIndex(1) }));
    assert!(placed.check().unwrap_err().to_string().contains("chunk 1 has no bytes"));
}
