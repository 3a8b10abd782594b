//! Frames of the data plane: what agents and chunk clients put on a TCP connection.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...; also put and get of chunks.
//! A frame is a header of 64 bytes, then the payload that it announces. The payload never passes
//! through here: at 10 GB/s a copy in the codec would cost as much as the socket does.
//!
//! | bytes | what                                                              |
//! |-------|-------------------------------------------------------------------|
//! | 0..4  | magic                                                             |
//! | 4..6  | version; it, the magic and the header's length never change place |
//! | 6     | kind                                                              |
//! | 7..60 | the kind's fields, little-endian, in the order of the variant; zero to the end |
//! | 60..  | CRC32C of all before it                                           |
//!
//! Between agents a connection is used in one direction: the agent that opened it sends `Hello`
//! and, once that is answered by `Hello`, grants and slices. A client's connection is question and
//! answer: `ReadChunk` by `ReadData` frames that fill the range; `WriteChunk`, `WriteData`..,
//! `WriteLabel` where there is one, `WriteEnd` by `WriteDone`; `ReadLabel` by one `ReadData`;
//! `Probe` by `ReadData` frames of as many bytes; anything may be answered by `Error`.
//!
//! Invariants: any 64 bytes decode to a frame or an error, never a panic; a frame that decodes
//! encodes to the same bytes; no length above its named maximum gets out of here.

mod denial;

use std::fmt;

use suture_code::ChunkIndex;

use crate::id::{ChunkCopy, Digest, NodeId, RepairId, Stamp, StripeId};
use crate::message::CopyFault;
use crate::plan::Range;
use crate::slice::{PAYLOAD_BYTES_MAX, SliceId};
use crate::stripe::CHUNK_BYTES_MAX;

/// The length of every header.
pub const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"SUTf";
const CHECK_AT: usize = HEADER_BYTES - 4;

/// The versions of the frames, newest first. A change adds one, if every peer may be sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Version {
    /// The first: partial sums, chunk reads and writes.
    V1 = 1,
}

impl Version {
    /// What this build speaks, and nothing else.
    pub const CURRENT: Version = Version::V1;
}

/// Which cluster a process belongs to, so that a mistyped address cannot mix two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

/// What opened, or answers on, a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The agent of a node.
    Agent(NodeId),
    /// A client that reads or writes whole chunks.
    Client,
    /// An agent that asks nothing but probes.
    Prober,
}

/// One header of the data plane; some are followed by a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame in each direction.
    Hello {
        /// The cluster that both must belong to.
        cluster: ClusterId,
        /// The peer that has connected.
        who: Who,
    },
    /// The sender takes the slices of the lane from `first` on, below `below`.
    Grant {
        /// The repair that moves them.
        repair: RepairId,
        /// The lane of its plan.
        lane: u16,
        /// The first slice that is wanted at all: 0 but in a task that skips, sent to peers that
        /// know it.
        first: u32,
        /// One past the last granted slice.
        below: u32,
    },
    /// A slice, whose bytes follow.
    Slice {
        /// Its repair, lane and number.
        id: SliceId,
        /// What follows: how many bytes, with which checksum.
        payload: Payload,
    },
    /// A chunk of this length is to be stored under this name.
    WriteChunk {
        /// The name that it is to have.
        copy: ChunkCopy,
        /// The chunk's length in bytes.
        bytes: u64,
    },
    /// The next bytes of the chunk follow.
    WriteData(Payload),
    /// The chunk has been sent in full.
    WriteEnd {
        /// CRC32C of the whole chunk.
        crc: u32,
    },
    /// The chunk is durable.
    WriteDone,
    /// A request for bytes of a copy.
    ReadChunk {
        /// The copy that is read.
        copy: ChunkCopy,
        /// What it must be, or it is corrupt.
        digest: Digest,
        /// Which of its bytes.
        range: Range,
    },
    /// The next bytes of the range follow.
    ReadData(Payload),
    /// What was asked will not be done.
    Error(Denial),
    /// What is to be kept beside the chunk follows.
    WriteLabel(Payload),
    /// A request for what is kept beside a copy.
    ReadLabel {
        /// The copy that it lies beside.
        copy: ChunkCopy,
    },
    /// A request for bytes without content, to measure how long they take; answered by `ReadData`.
    Probe {
        /// At most [`PROBE_BYTES_MAX`] are given.
        bytes: u32,
    },
}

/// What a probe may ask for.
pub const PROBE_BYTES_MAX: u32 = 4 << 20;

/// What follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Its length, at most [`PAYLOAD_BYTES_MAX`].
    pub bytes: u32,
    /// CRC32C of the bytes.
    pub crc: u32,
}

/// Why the other side will not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The other side does not speak this version.
    Version {
        /// What it was spoken to in.
        found: u16,
    },
    /// The other side belongs to another cluster; which one, it does not reveal.
    Cluster,
    /// The other side could not decode what came.
    Malformed,
    /// The copy is of no use.
    Fault(CopyFault),
    /// The copy ends before the range does.
    OutOfRange {
        /// The copy's length in bytes.
        bytes: u64,
    },
    /// A copy of this name, with other bytes, is already there.
    Exists,
    /// The disk is full.
    NoSpace,
    /// What arrived does not have the announced checksum.
    ProofFailed {
        /// The checksum that was announced.
        expected: u32,
        /// The checksum of what arrived.
        found: u32,
    },
    /// The disk failed; the agent's log says how.
    Disk,
    /// It has as many connections as it takes, in all or from this address.
    Busy,
    /// The peer has not proven its identity, or may not ask for that.
    Unproven,
    /// The chunk is of an object that is not the client's.
    NotOwned,
}

/// Why 64 bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They do not begin as a frame does: the other side speaks something else.
    Magic([u8; 4]),
    /// The header has another version.
    Version {
        /// The version in the header.
        found: u16,
        /// The version that this build speaks.
        supported: u16,
    },
    /// The header was damaged on its way.
    Check,
    /// No frame has this number.
    Kind(u8),
    /// A length above its maximum.
    TooLong {
        /// What is too long.
        what: &'static str,
        /// How long it claims to be.
        bytes: u64,
        /// How long it may be.
        max: u64,
    },
    /// A field has a value that it cannot have.
    Field(&'static str),
}

impl Frame {
    /// The header as bytes, a checksum at their end.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut to = Writer { header: [0; HEADER_BYTES], at: 7 };
        to.header[..4].copy_from_slice(&MAGIC);
        to.header[4..6].copy_from_slice(&(Version::CURRENT as u16).to_le_bytes());
        to.header[6] = match *self {
            Frame::Hello { cluster, who } => {
                to.u64(cluster.0);
                to.who(who);
                1
            }
            Frame::Grant { repair, lane, first, below } => {
                to.u64(repair.0);
                to.u16(lane);
                to.u32(below);
                to.u32(first);
                2
            }
            Frame::Slice { id, payload } => {
                to.u64(id.repair.0);
                to.u16(id.lane);
                to.u32(id.slice);
                to.payload(payload);
                3
            }
            Frame::WriteChunk { copy, bytes } => {
                to.copy(copy);
                to.u64(bytes);
                4
            }
            Frame::WriteData(payload) => {
                to.payload(payload);
                5
            }
            Frame::WriteEnd { crc } => {
                to.u32(crc);
                6
            }
            Frame::WriteDone => 7,
            Frame::ReadChunk { copy, digest, range } => {
                to.copy(copy);
                to.u64(range.from);
                to.u64(range.to);
                to.digest(digest);
                8
            }
            Frame::ReadData(payload) => {
                to.payload(payload);
                9
            }
            Frame::Error(denial) => {
                to.denial(denial);
                10
            }
            Frame::WriteLabel(payload) => {
                to.payload(payload);
                11
            }
            Frame::ReadLabel { copy } => {
                to.copy(copy);
                12
            }
            Frame::Probe { bytes } => {
                to.u32(bytes);
                13
            }
        };
        let check = checksum(&to.header[..CHECK_AT]);
        to.header[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        to.header
    }

    /// The frame that the bytes are the header of.
    ///
    /// # Errors
    /// The first of these that is wrong: magic, version, checksum, kind, a field.
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Result<Frame, DecodeError> {
        let mut from = Reader { header, at: 4 };
        if header[..4] != MAGIC {
            return Err(DecodeError::Magic([header[0], header[1], header[2], header[3]]));
        }
        let (found, supported) = (from.u16(), Version::CURRENT as u16);
        if found != supported {
            return Err(DecodeError::Version { found, supported });
        }
        if header[CHECK_AT..] != checksum(&header[..CHECK_AT]).to_le_bytes() {
            return Err(DecodeError::Check);
        }
        let frame = match from.u8() {
            1 => Frame::Hello { cluster: ClusterId(from.u64()), who: from.who()? },
            2 => {
                let (repair, lane) = (RepairId(from.u64()), from.u16());
                Frame::Grant { repair, lane, below: from.u32(), first: from.u32() }
            }
            3 => Frame::Slice { id: from.slice_id(), payload: from.payload("slice")? },
            4 => Frame::WriteChunk { copy: from.copy(), bytes: from.chunk_bytes("chunk")? },
            5 => Frame::WriteData(from.payload("chunk data")?),
            6 => Frame::WriteEnd { crc: from.u32() },
            7 => Frame::WriteDone,
            8 => {
                let (copy, range) = (from.copy(), from.range()?);
                Frame::ReadChunk { copy, digest: from.digest()?, range }
            }
            9 => Frame::ReadData(from.payload("chunk data")?),
            10 => Frame::Error(from.denial()?),
            11 => Frame::WriteLabel(from.payload("label")?),
            12 => Frame::ReadLabel { copy: from.copy() },
            13 => Frame::Probe { bytes: from.probe_bytes()? },
            kind => return Err(DecodeError::Kind(kind)),
        };
        from.end()?;
        Ok(frame)
    }
}

/// CRC32C of a header, byte by byte: 60 bytes cost less than a tenth of a microsecond, and this
/// crate needs no processor-specific code for it. Payloads are the drivers' affair.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)])
}

static TABLE: [u32; 256] = checksum_table();

const fn checksum_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78);
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// Puts fields one after the other. A header is always long enough for its kind's.
struct Writer {
    header: [u8; HEADER_BYTES],
    at: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.header[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn u8(&mut self, value: u8) {
        self.put([value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    fn who(&mut self, who: Who) {
        match who {
            Who::Client => self.u8(0),
            Who::Agent(node) => {
                self.u8(1);
                self.u32(node.0);
            }
            Who::Prober => self.u8(2),
        }
    }

    fn payload(&mut self, payload: Payload) {
        assert!(payload.bytes <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", payload.bytes);
        self.u32(payload.bytes);
        self.u32(payload.crc);
    }

    fn copy(&mut self, copy: ChunkCopy) {
        self.u64(copy.stripe.0);
        self.u64(copy.stamp.0);
        self.u8(copy.chunk.0);
    }

    /// Nothing at all where nothing is recorded, as it was before anything was.
    fn digest(&mut self, Digest { bytes, crc }: Digest) {
        self.u8(u8::from(bytes.is_some()) | u8::from(crc.is_some()) << 1);
        self.u64(bytes.unwrap_or(0));
        self.u32(crc.unwrap_or(0));
    }

    fn denial(&mut self, denial: Denial) {
        let (code, a, b) = match denial {
            Denial::Version { found } => (1, u64::from(found), 0),
            Denial::Cluster => (2, 0, 0),
            Denial::Malformed => (3, 0, 0),
            Denial::Fault(CopyFault::Missing) => (4, 0, 0),
            Denial::Fault(CopyFault::Corrupt) => (5, 0, 0),
            Denial::OutOfRange { bytes } => (6, bytes, 0),
            Denial::Exists => (7, 0, 0),
            Denial::NoSpace => (8, 0, 0),
            Denial::ProofFailed { expected, found } => (9, u64::from(expected), u64::from(found)),
            Denial::Disk => (10, 0, 0),
            Denial::Fault(CopyFault::Unreadable) => (11, 0, 0),
            Denial::Busy => (12, 0, 0),
            Denial::Unproven => (13, 0, 0),
            Denial::NotOwned => (14, 0, 0),
        };
        self.u8(code);
        self.u64(a);
        self.u64(b);
    }
}

/// Takes fields one after the other.
struct Reader<'a> {
    header: &'a [u8; HEADER_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.header[self.at..self.at + N]);
        self.at += N;
        bytes
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn who(&mut self) -> Result<Who, DecodeError> {
        match self.u8() {
            0 => Ok(Who::Client),
            1 => Ok(Who::Agent(NodeId(self.u32()))),
            2 => Ok(Who::Prober),
            _ => Err(DecodeError::Field("who")),
        }
    }

    fn slice_id(&mut self) -> SliceId {
        SliceId { repair: RepairId(self.u64()), lane: self.u16(), slice: self.u32() }
    }

    fn payload(&mut self, what: &'static str) -> Result<Payload, DecodeError> {
        let (bytes, max) = (self.u32(), PAYLOAD_BYTES_MAX);
        if bytes > max {
            return Err(DecodeError::TooLong { what, bytes: bytes.into(), max: max.into() });
        }
        Ok(Payload { bytes, crc: self.u32() })
    }

    fn copy(&mut self) -> ChunkCopy {
        let (stripe, stamp) = (StripeId(self.u64()), Stamp(self.u64()));
        ChunkCopy { stripe, chunk: ChunkIndex(self.u8()), stamp }
    }

    fn digest(&mut self) -> Result<Digest, DecodeError> {
        let (known, bytes, crc) = (self.u8(), self.u64(), self.u32());
        let has = |bit: u8| known & bit != 0;
        let is_kept = |is_recorded: bool, value: u64| is_recorded || value == 0;
        if known > 3 || !is_kept(has(1), bytes) || !is_kept(has(2), crc.into()) {
            return Err(DecodeError::Field("recorded"));
        }
        Ok(Digest { bytes: has(1).then_some(bytes), crc: has(2).then_some(crc) })
    }

    fn probe_bytes(&mut self) -> Result<u32, DecodeError> {
        let (bytes, max) = (self.u32(), PROBE_BYTES_MAX);
        if bytes <= max {
            Ok(bytes)
        } else {
            let (bytes, max) = (bytes.into(), max.into());
            Err(DecodeError::TooLong { what: "probe", bytes, max })
        }
    }

    fn chunk_bytes(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let (bytes, max) = (self.u64(), CHUNK_BYTES_MAX);
        if bytes > max {
            return Err(DecodeError::TooLong { what, bytes, max });
        }
        Ok(bytes)
    }

    fn range(&mut self) -> Result<Range, DecodeError> {
        let (from, to) = (self.chunk_bytes("range")?, self.chunk_bytes("range")?);
        if from > to {
            return Err(DecodeError::Field("range"));
        }
        Ok(Range { from, to })
    }

    fn denial(&mut self) -> Result<Denial, DecodeError> {
        let (code, a, b) = (self.u8(), self.u64(), self.u64());
        let narrow = |value: u64| u32::try_from(value).map_err(|_| DecodeError::Field("error"));
        let denial = match code {
            1 => Denial::Version {
                found: u16::try_from(a).map_err(|_| DecodeError::Field("error"))?,
            },
            2 => Denial::Cluster,
            3 => Denial::Malformed,
            4 => Denial::Fault(CopyFault::Missing),
            5 => Denial::Fault(CopyFault::Corrupt),
            6 => Denial::OutOfRange { bytes: a },
            7 => Denial::Exists,
            8 => Denial::NoSpace,
            9 => Denial::ProofFailed { expected: narrow(a)?, found: narrow(b)? },
            10 => Denial::Disk,
            11 => Denial::Fault(CopyFault::Unreadable),
            12 => Denial::Busy,
            13 => Denial::Unproven,
            14 => Denial::NotOwned,
            _ => return Err(DecodeError::Field("error")),
        };
        let unused_a = !matches!(code, 1 | 6 | 9);
        if (unused_a && a != 0) || (code != 9 && b != 0) {
            return Err(DecodeError::Field("error"));
        }
        Ok(denial)
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.header[self.at..CHECK_AT].iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err(DecodeError::Field("padding"))
        }
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Magic(found) => {
                write!(f, "not a Suture data port: it begins with {}", found.escape_ascii())
            }
            DecodeError::Version { found, supported } => {
                write!(f, "it speaks frame version {found}, this build speaks {supported}")
            }
            DecodeError::Check => write!(f, "a frame header was damaged on its way"),
            DecodeError::Kind(kind) => write!(f, "no frame has number {kind}"),
            DecodeError::TooLong { what, bytes, max } => {
                write!(f, "{what} of {bytes} bytes announced, {max} are allowed")
            }
            DecodeError::Field(what) => write!(f, "a frame's {what} makes no sense"),
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn every_kind() -> Vec<Frame> {
        let (repair, lane) = (RepairId::new(3, 77), 9);
        let copy = ChunkCopy { stripe: StripeId(1 << 40), chunk: ChunkIndex(200), stamp: Stamp(7) };
        let payload = Payload { bytes: PAYLOAD_BYTES_MAX, crc: 0xdead_beef };
        let denials = [
            Denial::Version { found: 9 },
            Denial::Cluster,
            Denial::Busy,
            Denial::Unproven,
            Denial::NotOwned,
            Denial::Malformed,
            Denial::Fault(CopyFault::Missing),
            Denial::Fault(CopyFault::Corrupt),
            Denial::Fault(CopyFault::Unreadable),
            Denial::OutOfRange { bytes: 5 },
            Denial::Exists,
            Denial::NoSpace,
            Denial::ProofFailed { expected: 1, found: u32::MAX },
            Denial::Disk,
        ];
        let mut frames = vec![
            Frame::Hello { cluster: ClusterId(0x1234), who: Who::Client },
            Frame::Hello { cluster: ClusterId(0), who: Who::Agent(NodeId(u32::MAX)) },
            Frame::Hello { cluster: ClusterId(0), who: Who::Prober },
            Frame::Grant { repair, lane, first: 0, below: 12 },
            Frame::Grant { repair, lane, first: 9, below: 12 },
            Frame::Slice { id: SliceId { repair, lane, slice: u32::MAX }, payload },
            Frame::WriteChunk { copy, bytes: CHUNK_BYTES_MAX },
            Frame::WriteData(payload),
            Frame::WriteEnd { crc: 5 },
            Frame::WriteDone,
            Frame::ReadChunk {
                copy,
                digest: Digest { bytes: Some(CHUNK_BYTES_MAX), crc: Some(7) },
                range: Range { from: 3, to: CHUNK_BYTES_MAX },
            },
            Frame::ReadChunk { copy, digest: Digest::default(), range: Range { from: 3, to: 4 } },
            Frame::ReadData(payload),
            Frame::WriteLabel(payload),
            Frame::ReadLabel { copy },
            Frame::Probe { bytes: PROBE_BYTES_MAX },
        ];
        frames.extend(denials.map(Frame::Error));
        frames
    }

    /// Headers as a writer with other ideas would send them: valid but for the change.
    fn resealed(mut header: [u8; HEADER_BYTES], change: impl FnOnce(&mut [u8])) -> [u8; 64] {
        change(&mut header);
        let check = checksum(&header[..CHECK_AT]);
        header[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        header
    }

    #[test]
    fn every_frame_survives_the_wire() {
        for frame in every_kind() {
            assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }
    }

    /// To builds that do not know of it, the rest of a header has to be zero.
    #[test]
    fn a_grant_from_the_first_slice_on_is_what_it_always_was() {
        let (repair, lane) = (RepairId::new(3, 77), 9);
        let rest =
            |first| Frame::Grant { repair, lane, first, below: 12 }.encode()[21..CHECK_AT].to_vec();
        assert!(rest(0).iter().all(|byte| *byte == 0));
        assert_eq!(rest(9)[0], 9);
    }

    #[test]
    fn the_header_check_is_crc32c() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for frame in every_kind() {
            for bit in 0..HEADER_BYTES * 8 {
                let mut header = frame.encode();
                header[bit / 8] ^= 1 << (bit % 8);
                assert!(Frame::decode(&header).is_err(), "{frame:?} with bit {bit} flipped");
            }
        }
    }

    #[test]
    fn another_version_is_refused_naming_both() {
        for version in [0u16, 2, u16::MAX] {
            let header = resealed(Frame::WriteDone.encode(), |h| {
                h[4..6].copy_from_slice(&version.to_le_bytes());
            });
            let error = Frame::decode(&header).unwrap_err();
            assert_eq!(error, DecodeError::Version { found: version, supported: 1 });
            let text = error.to_string();
            assert!(text.contains(&version.to_string()) && text.contains("speaks 1"), "{text}");
        }
    }

    #[test]
    fn something_else_on_the_port_is_named() {
        let mut header = [0; HEADER_BYTES];
        header[..14].copy_from_slice(b"GET / HTTP/1.1");
        let text = Frame::decode(&header).unwrap_err().to_string();
        assert!(text.contains("GET "), "{text}");
    }

    #[test]
    fn no_length_above_its_maximum_gets_through() {
        let payload = Payload { bytes: 1, crc: 0 };
        let long = resealed(Frame::ReadData(payload).encode(), |h| {
            h[7..11].copy_from_slice(&(PAYLOAD_BYTES_MAX + 1).to_le_bytes());
        });
        assert!(matches!(Frame::decode(&long), Err(DecodeError::TooLong { .. })));
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(2), stamp: Stamp(3) };
        let long = resealed(Frame::WriteChunk { copy, bytes: 0 }.encode(), |h| {
            h[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        });
        assert!(matches!(Frame::decode(&long), Err(DecodeError::TooLong { .. })));
        let (digest, range) = (Digest::default(), Range { from: 5, to: 5 });
        let backwards = resealed(Frame::ReadChunk { copy, digest, range }.encode(), |h| h[24] = 6);
        assert_eq!(Frame::decode(&backwards), Err(DecodeError::Field("range")));
    }

    #[test]
    fn whatever_decodes_encodes_to_the_same_bytes() {
        let mut random = Random::new(1);
        let frames = every_kind();
        let mut decoded = 0;
        for _ in 0..200_000 {
            let header = resealed(random.choose(&frames).encode(), |h| {
                for _ in 0..random.between(0, 3) {
                    let at = random.between(6, CHECK_AT as u64 - 1) as usize;
                    h[at] = random.next_u64() as u8;
                }
            });
            if let Ok(frame) = Frame::decode(&header) {
                assert_eq!(frame.encode(), header);
                decoded += 1;
            }
        }
        assert!(decoded > 10_000, "the change is too wild to prove anything: {decoded}");
    }
}
