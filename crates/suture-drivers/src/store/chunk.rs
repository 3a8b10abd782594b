//! Reading a copy: no byte leaves before the block that it lies in has been checked.
//!
//! Place: ... dispatch -> [a helper's slice read and checked] -> its result computed ...; and every
//! other read of a copy.
//! A slice read is one `preadv`: whole blocks around the slice are read, the slice itself straight
//! into the caller's buffer, its neighbours in the first and last block into scratch space. The
//! table of checksums is kept in segments that cover 64 MiB of data each, so that the memory for
//! it does not grow with the chunk.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Advice, OFlags, fadvise};
use suture_edge::checksum::{BLOCK_BYTES, Crc32c, crc32c};
use suture_repair::chunk_store::ChunkReader;
use suture_repair::id::ChunkCopy;
use suture_repair::label::{LABEL_BYTES_MAX, Label};
use suture_repair::message::CopyFault;
use suture_repair::stripe::CHUNK_BYTES_MAX;

use super::layout::{FOOTER_BYTES, Footer, FooterError, LabelDigest, Version};

const BLOCK: usize = BLOCK_BYTES as usize;

/// Entries of the table in memory: 64 KiB of them.
const SEGMENT_BLOCKS: u64 = 16 * 1024;

/// What a full check reads at a time.
const CHECK_BYTES: usize = 1 << 20;

/// An open copy of a chunk. Each is somewhere else in the chunk; the file may be shared.
#[derive(Debug)]
pub struct ChunkFile {
    open: Arc<OpenFile>,
    segment: Mutex<Arc<Segment>>,
}

/// A chunk's file, which takes one descriptor however many read it.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: File,
    footer: Footer,
}

/// A part of the table of block checksums.
#[derive(Debug)]
struct Segment {
    first_block: u64,
    table: Vec<u8>,
}

/// Why a copy, or a part of it, is of no use.
#[derive(Debug)]
pub enum Damage {
    /// There is no such file.
    Missing,
    /// The file ends before what it should hold.
    Short {
        /// How long it is.
        bytes: u64,
    },
    /// Its last bytes are not a footer.
    NoFooter,
    /// Another build wrote it.
    Version {
        /// The version in its footer.
        found: u32,
    },
    /// The footer's checksum disagrees.
    FooterCheck,
    /// The footer names another copy.
    Name {
        /// The copy that the footer names.
        found: ChunkCopy,
    },
    /// The length in the footer is not the file's.
    Length {
        /// What the file's length should be by the footer.
        expected: u64,
        /// The file's length, in bytes.
        found: u64,
    },
    /// A block's checksum disagrees.
    Block {
        /// The block's number, from 0.
        index: u64,
    },
    /// All blocks agree, but the whole does not.
    Whole {
        /// The checksum in the footer.
        expected: u32,
        /// The checksum of the data.
        found: u32,
    },
    /// The label's checksum disagrees, or it is longer than any.
    Label,
    /// The range does not lie in the chunk.
    OutOfRange {
        /// Where the range ends.
        to: u64,
        /// Where the chunk ends.
        bytes: u64,
    },
    /// The system could not read it.
    Io(io::Error),
}

impl ChunkFile {
    /// Opens the file and looks at its footer.
    ///
    /// # Errors
    /// When there is no such file, or its footer or length is wrong.
    pub fn open(path: &Path, copy: ChunkCopy) -> Result<ChunkFile, Damage> {
        // To open a pipe would be to wait for its other end.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Damage::Missing),
            result => result?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Damage::Io(io::Error::other("it is not a regular file")));
        }
        let found = metadata.len();
        let Some(footer_at) = found.checked_sub(FOOTER_BYTES) else {
            return Err(Damage::Short { bytes: found });
        };
        let mut bytes = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut bytes, footer_at)?;
        let footer = Footer::decode(&bytes)?;
        if footer.copy != copy {
            return Err(Damage::Name { found: footer.copy });
        }
        if footer.label.bytes as usize > LABEL_BYTES_MAX {
            return Err(Damage::Label);
        }
        let expected = footer.file_bytes_checked().unwrap_or(u64::MAX);
        if expected != found {
            return Err(Damage::Length { expected, found });
        }
        Ok(ChunkFile::of(Arc::new(OpenFile { file, footer })))
    }

    /// One more reader of a file.
    pub(super) fn of(open: Arc<OpenFile>) -> ChunkFile {
        let none = Segment { first_block: 0, table: Vec::new() };
        ChunkFile { open, segment: Mutex::new(Arc::new(none)) }
    }

    /// The file that it reads.
    pub(super) fn open_file(&self) -> &Arc<OpenFile> {
        &self.open
    }

    /// What the file says of itself.
    pub fn footer(&self) -> &Footer {
        &self.open.footer
    }

    /// Fills `into` with the bytes from `offset` on, all checked.
    ///
    /// # Errors
    /// When a block that is touched does not have its checksum, or the disk fails.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Damage> {
        if into.is_empty() {
            return Ok(());
        }
        let (to, bytes) = (offset.saturating_add(into.len() as u64), self.footer().bytes);
        if to > bytes {
            return Err(Damage::OutOfRange { to, bytes });
        }
        let head = (offset % BLOCK_BYTES) as usize;
        let tail = (to.next_multiple_of(BLOCK_BYTES).min(bytes) - to) as usize;
        let (mut before, mut after) = ([0; BLOCK], [0; BLOCK]);
        let (before, after) = (&mut before[..head], &mut after[..tail]);
        let start = offset - head as u64;
        let wanted = head + into.len() + tail;
        let parts = &mut [&mut *before, &mut *into, &mut *after].map(IoSliceMut::new);
        let found = read_parts(&self.open.file, parts, start)?;
        if found < wanted {
            return Err(Damage::Short { bytes: start + found as u64 });
        }
        self.verify(start / BLOCK_BYTES, before, into, after)
    }

    /// What lies beside the chunk for the keeper of the metadata.
    ///
    /// # Errors
    /// When its checksum differs, or the disk fails.
    pub fn label(&self) -> Result<Label, Damage> {
        let footer = self.footer();
        let mut bytes = vec![0; footer.label.bytes as usize];
        self.open.file.read_exact_at(&mut bytes, footer.label_at())?;
        let label = Label::new(&bytes).filter(|_| LabelDigest::of(&bytes) == footer.label);
        label.ok_or(Damage::Label)
    }

    /// Reads all of it from the disk and compares every checksum, that of the label too.
    ///
    /// # Errors
    /// When any checksum differs, or the disk fails.
    pub fn check(&self) -> Result<(), Damage> {
        self.scan(&mut |_| ())
    }

    /// As [`ChunkFile::check`], and shows `each` part of it from the first byte to the last.
    ///
    /// # Errors
    /// As [`ChunkFile::check`]: then what was shown may be wrong as a whole.
    pub fn scan(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Damage> {
        // What was just written is in memory, and would be good there whatever the disk has. A
        // system that does not do as advised shows what it has.
        let _ = fadvise(&self.open.file, 0, None, Advice::DontNeed);
        let mut buffer = vec![0; CHECK_BYTES.min(self.footer().bytes as usize)];
        let mut whole = Crc32c::new();
        let mut offset = 0;
        while offset < self.footer().bytes {
            let bytes = (self.footer().bytes - offset).min(CHECK_BYTES as u64) as usize;
            self.read(offset, &mut buffer[..bytes])?;
            whole.update(&buffer[..bytes]);
            each(&buffer[..bytes]);
            offset += bytes as u64;
        }
        match (self.footer().crc, whole.value()) {
            (expected, found) if expected == found => self.label().map(drop),
            (expected, found) => Err(Damage::Whole { expected, found }),
        }
    }

    /// Checks the blocks from `block` on that the three parts fill together.
    fn verify(
        &self,
        mut block: u64,
        before: &[u8],
        into: &[u8],
        after: &[u8],
    ) -> Result<(), Damage> {
        let mut segment = self.segment(block)?;
        let (mut lead, mut rest) = (before, into);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(BLOCK - lead.len()));
            let trail = if later.is_empty() { after } else { &[] };
            if !segment.covers(block) {
                segment = self.segment(block)?;
            }
            if segment.crc(block) != sum([lead, now, trail]) {
                return Err(Damage::Block { index: block });
            }
            (lead, rest) = (&[], later);
            block += 1;
        }
        Ok(())
    }

    /// The part of the table that covers `block`: the one at hand, or read anew.
    fn segment(&self, block: u64) -> Result<Arc<Segment>, Damage> {
        let mut at_hand = self.segment.lock().unwrap_or_else(PoisonError::into_inner);
        if !at_hand.covers(block) {
            let first_block = block / SEGMENT_BLOCKS * SEGMENT_BLOCKS;
            let blocks = SEGMENT_BLOCKS.min(self.footer().blocks() - first_block);
            let mut table = vec![0; 4 * blocks as usize];
            self.open.file.read_exact_at(&mut table, self.footer().table_at(first_block))?;
            *at_hand = Arc::new(Segment { first_block, table });
        }
        Ok(at_hand.clone())
    }
}

/// Fills the parts from `start` on, up to the file's end; gives how much there was. What the system
/// gives too little of is asked for again: where a disk fails in the middle of a range, the bytes
/// before it come first, and only then the error.
fn read_parts(file: &File, mut parts: &mut [IoSliceMut<'_>], start: u64) -> io::Result<usize> {
    let mut found = 0;
    while parts.iter().any(|part| !part.is_empty()) {
        match rustix::io::preadv(file, parts, start + found as u64) {
            Ok(0) => break,
            Ok(read) => {
                found += read;
                IoSliceMut::advance_slices(&mut parts, read);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

impl ChunkReader for ChunkFile {
    fn bytes(&self) -> u64 {
        self.footer().bytes
    }

    fn crc(&self) -> Option<u32> {
        Some(self.footer().crc)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        ChunkFile::read(self, offset, into).map_err(|damage| damage.logged(self.footer().copy))
    }
}

impl Footer {
    /// The length of the whole file, unless the data are longer than any chunk can be.
    fn file_bytes_checked(&self) -> Option<u64> {
        (self.bytes <= CHUNK_BYTES_MAX).then(|| self.file_bytes())
    }
}

impl Segment {
    fn covers(&self, block: u64) -> bool {
        let blocks = self.table.len() as u64 / 4;
        (self.first_block..self.first_block + blocks).contains(&block)
    }

    fn crc(&self, block: u64) -> u32 {
        let at = 4 * (block - self.first_block) as usize;
        let mut entry = [0; 4];
        entry.copy_from_slice(&self.table[at..at + 4]);
        u32::from_le_bytes(entry)
    }
}

fn sum([lead, now, trail]: [&[u8]; 3]) -> u32 {
    if lead.is_empty() && trail.is_empty() {
        return crc32c(now);
    }
    let mut crc = Crc32c::new();
    [lead, now, trail].iter().for_each(|part| crc.update(part));
    crc.value()
}

impl Damage {
    /// What the rest of the world needs to know of it.
    pub fn fault(&self) -> CopyFault {
        match self {
            Damage::Missing => CopyFault::Missing,
            // Another build reads it, and the next attempt of this one may.
            Damage::Io(_) | Damage::Version { .. } => CopyFault::Unreadable,
            _ => CopyFault::Corrupt,
        }
    }

    /// Whether no chunk can be read from the file, now or later. A file of another name, or of
    /// another build, may be of use to another program.
    pub(super) fn is_beyond_reading(&self) -> bool {
        matches!(
            self,
            Damage::Short { .. } | Damage::NoFooter | Damage::FooterCheck | Damage::Length { .. }
        )
    }

    /// What it is to the rest of the world, with the details in the log.
    pub(super) fn logged(&self, copy: ChunkCopy) -> CopyFault {
        match self {
            // A client may have made the name up; whether the copy should be here the coordinator
            // checks.
            Damage::Missing => tracing::debug!("{copy} is not usable: {self}"),
            damage => tracing::warn!("{copy} is not usable: {damage}"),
        }
        self.fault()
    }
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Damage {
        Damage::Io(error)
    }
}

impl From<FooterError> for Damage {
    fn from(error: FooterError) -> Damage {
        match error {
            FooterError::Magic => Damage::NoFooter,
            FooterError::Version(found) => Damage::Version { found },
            FooterError::Check => Damage::FooterCheck,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Missing => write!(f, "there is no such copy"),
            Damage::Short { bytes } => write!(f, "the file ends at byte {bytes}"),
            Damage::NoFooter => write!(f, "the file does not end with a chunk's footer"),
            Damage::Version { found } => {
                let reads = Version::CURRENT as u32;
                write!(
                    f,
                    "chunk file version {found}, this build reads up to {reads}: run the suture that wrote it"
                )
            }
            Damage::FooterCheck => write!(f, "the footer's checksum disagrees"),
            Damage::Name { found } => write!(f, "the footer names {found}"),
            Damage::Length { expected, found } => {
                write!(f, "the file has {found} bytes, by its footer {expected}")
            }
            Damage::Block { index } => write!(f, "the checksum of block {index} disagrees"),
            Damage::Whole { expected, found } => {
                write!(f, "the chunk has checksum {found:08x}, recorded {expected:08x}")
            }
            Damage::Label => write!(f, "the checksum of its label disagrees"),
            Damage::OutOfRange { to, bytes } => {
                write!(f, "byte {to} is asked for, the chunk ends at {bytes}")
            }
            Damage::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Damage {}
