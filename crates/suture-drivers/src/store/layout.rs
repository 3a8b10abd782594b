//! The bytes of a chunk file.
//!
//! Place: ... slices flow -> [chunk proven and durable] -> commit ...; and every later read.
//!
//! | where | what |
//! |---|---|
//! | 0 .. bytes | the chunk's data |
//! | .. + 4 a block | CRC32C of each block of 4 KiB (the last may be short), little-endian |
//! | .. + label | what the keeper of the metadata wants to find again beside the chunk |
//! | .. + 64, the end | the footer |
//!
//! Data come first so that a slice's place in the file is its place in the chunk, aligned for any
//! disk; what vouches for them comes last, so that a file cut short anywhere has no footer.
//!
//! | footer | what |
//! |---|---|
//! | 0..8 | magic |
//! | 8..12 | version; it, the magic and the footer's checksum never change place |
//! | 12..16 | CRC32C of the whole data |
//! | 16..24, 24..32, 32..36 | stripe, stamp, chunk |
//! | 36..44 | length of the data |
//! | 44..48, 48..52 | length of the label, and CRC32C of it |
//! | 52..60 | zero |
//! | 60..64 | CRC32C of the footer before it |

use suture_edge::checksum::BLOCK_BYTES;
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, ListedCopy, Stamp, StripeId};

/// The length of the footer.
pub const FOOTER_BYTES: u64 = 64;

const MAGIC: [u8; 8] = *b"SUTchunk";
const CHECK_AT: usize = FOOTER_BYTES as usize - 4;

/// The versions of the file, newest first. A change of the layout adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Version {
    /// Data, block checksums, label, footer.
    V2 = 2,
    /// The same without a label.
    V1 = 1,
}

impl Version {
    /// What this build writes. It reads all.
    pub const CURRENT: Version = Version::V2;
}

/// What a chunk file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Which copy it is.
    pub copy: ChunkCopy,
    /// The length of its data.
    pub bytes: u64,
    /// CRC32C of all its data.
    pub crc: u32,
    /// The label beside it.
    pub label: LabelDigest,
}

/// What vouches for a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelDigest {
    /// Its length, in bytes.
    pub bytes: u32,
    /// CRC32C of its bytes.
    pub crc: u32,
}

impl LabelDigest {
    /// That of these bytes.
    pub fn of(label: &[u8]) -> LabelDigest {
        LabelDigest { bytes: label.len() as u32, crc: suture_edge::checksum::crc32c(label) }
    }
}

/// Why 64 bytes are not a footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FooterError {
    /// They do not begin as one.
    Magic,
    /// Another version of the file.
    Version(u32),
    /// Their checksum is not that of their bytes.
    Check,
}

impl Footer {
    /// The footer as it is written at the end of the file.
    pub fn encode(&self) -> [u8; FOOTER_BYTES as usize] {
        let mut bytes = [0; FOOTER_BYTES as usize];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &(Version::CURRENT as u32).to_le_bytes());
        put(12, &self.crc.to_le_bytes());
        put(16, &self.copy.stripe.0.to_le_bytes());
        put(24, &self.copy.stamp.0.to_le_bytes());
        put(32, &u32::from(self.copy.chunk.0).to_le_bytes());
        put(36, &self.bytes.to_le_bytes());
        put(44, &self.label.bytes.to_le_bytes());
        put(48, &self.label.crc.to_le_bytes());
        let check = suture_edge::checksum::crc32c(&bytes[..CHECK_AT]);
        bytes[CHECK_AT..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The footer that the bytes are.
    ///
    /// # Errors
    /// When they are none, of a later version, or damaged.
    pub fn decode(bytes: &[u8; FOOTER_BYTES as usize]) -> Result<Footer, FooterError> {
        let u32_at = |at| u32::from_le_bytes(field(bytes, at));
        let u64_at = |at| u64::from_le_bytes(field(bytes, at));
        if bytes[..8] != MAGIC {
            return Err(FooterError::Magic);
        }
        // First, so that a damaged version does not pass for that of another build.
        if u32_at(CHECK_AT) != suture_edge::checksum::crc32c(&bytes[..CHECK_AT]) {
            return Err(FooterError::Check);
        }
        // The first version has zeros where a label is described, as there is none.
        if !(Version::V1 as u32..=Version::CURRENT as u32).contains(&u32_at(8)) {
            return Err(FooterError::Version(u32_at(8)));
        }
        let (stripe, stamp) = (StripeId(u64_at(16)), Stamp(u64_at(24)));
        let copy = ChunkCopy { stripe, chunk: ChunkIndex(u32_at(32) as u8), stamp };
        let label = LabelDigest { bytes: u32_at(44), crc: u32_at(48) };
        Ok(Footer { copy, bytes: u64_at(36), crc: u32_at(12), label })
    }

    /// The copy with its length and checksum.
    pub fn listed(&self) -> ListedCopy {
        let digest = Digest { bytes: Some(self.bytes), crc: Some(self.crc) };
        ListedCopy { copy: self.copy, digest }
    }

    /// Where the entry of a block lies.
    pub fn table_at(&self, block: u64) -> u64 {
        table_at(self.bytes, block)
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(BLOCK_BYTES)
    }

    /// Where the label lies.
    pub fn label_at(&self) -> u64 {
        self.table_at(self.blocks())
    }

    /// Where the footer lies.
    pub fn footer_at(&self) -> u64 {
        self.label_at() + u64::from(self.label.bytes)
    }

    /// The length of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.footer_at() + FOOTER_BYTES
    }
}

/// Where the entry of a block lies in the file of a chunk of `bytes`.
pub fn table_at(bytes: u64, block: u64) -> u64 {
    bytes + 4 * block
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}
