//! Frames of the data plane: a header that is accepted says what it would say written anew, and
//! never asks for more memory than a slice.
//!
//! Place: the first bytes that any connection to an agent brings.

use suture_edge::checksum::crc32c;
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, NodeId, RepairId, Stamp, StripeId};
use suture_repair::plan::Range;
use suture_repair::slice::{PAYLOAD_BYTES_MAX, SliceId};
use suture_repair::wire::{ClusterId, Denial, Frame, HEADER_BYTES, Payload, Who};

/// Where the header's checksum of itself begins.
const CHECK_AT: usize = HEADER_BYTES - 4;

/// Inputs to begin with: a header of each kind.
pub fn valid() -> Vec<Vec<u8>> {
    let (repair, lane) = (RepairId::new(3, 77), 9);
    let copy = ChunkCopy { stripe: StripeId(1 << 40), chunk: ChunkIndex(200), stamp: Stamp(7) };
    let payload = Payload { bytes: PAYLOAD_BYTES_MAX, crc: 0xdead_beef };
    let frames = [
        Frame::Hello { cluster: ClusterId(0x1234), who: Who::Client },
        Frame::Hello { cluster: ClusterId(0), who: Who::Agent(NodeId(u32::MAX)) },
        Frame::Grant { repair, lane, first: 0, below: 12 },
        Frame::Grant { repair, lane, first: 9, below: 12 },
        Frame::Slice { id: SliceId { repair, lane, slice: u32::MAX }, payload },
        Frame::WriteChunk { copy, bytes: 1 << 30 },
        Frame::WriteData(payload),
        Frame::WriteEnd { crc: 5 },
        Frame::WriteDone,
        Frame::ReadChunk {
            copy,
            digest: Digest { bytes: Some(1 << 30), crc: Some(7) },
            range: Range { from: 3, to: 1 << 30 },
        },
        Frame::ReadData(payload),
        Frame::Error(Denial::ProofFailed { expected: 1, found: u32::MAX }),
    ];
    frames.iter().map(|frame| frame.encode().to_vec()).collect()
}

/// Gives whether the input's first bytes are accepted once their checksum is made to fit.
///
/// # Panics
/// When a frame that was read is not written and read back as the same, or is longer than a slice.
pub fn check(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return false };
    // As it came it is refused or says the same; mostly its checksum is wrong.
    check_header(header);
    let mut sealed = *header;
    let sum = crc32c(&sealed[..CHECK_AT]);
    sealed[CHECK_AT..].copy_from_slice(&sum.to_le_bytes());
    check_header(&sealed)
}

fn check_header(header: &[u8; HEADER_BYTES]) -> bool {
    let Ok(frame) = Frame::decode(header) else { return false };
    if let Frame::Slice { payload, .. } | Frame::WriteData(payload) | Frame::ReadData(payload) =
        frame
    {
        assert!(payload.bytes <= PAYLOAD_BYTES_MAX, "{frame:?}");
    }
    assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
    true
}
