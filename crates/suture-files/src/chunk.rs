//! One chunk on disk: opened with the proof of what it should hold, read only block by checked
//! block.
//!
//! Place: stripes -> [chunk files] -> ranges in memory.
//! A disk that returns wrong bytes reports nothing. So no caller gets bytes of a chunk that no
//! checksum has vouched for: the manifest vouches for the `.crc` file, which vouches for blocks;
//! where the `.crc` file is gone or stale, the whole chunk is read once against the manifest, and
//! the checksums found are kept.
//!
//! Invariant: every fault of a chunk is a `ChunkFault`, never an abort: other chunks may stand
//! in.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use suture_code::ChunkIndex;
use suture_code::layout::{Layout, Piece};
use suture_edge::checksum::BLOCK_BYTES;
use suture_edge::units::counted;

use super::checksum::{BlockChecksums, ChecksumRecorder, file_bytes};
use super::directory::StripeFiles;

/// Bytes read at a time when a whole chunk is read.
const SCAN_BYTES: usize = 64 * BLOCK_BYTES as usize;

/// Why a chunk cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkFault {
    /// There is no such file.
    Missing,
    /// The file has another length.
    WrongLength {
        /// The length by the manifest.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// The content is not what was written; how much of it, when the `.crc` file shows that.
    Corrupt {
        /// Which blocks, where their checksums are known.
        blocks: Option<CorruptBlocks>,
    },
    /// The chunk contradicts parity, where checksums are gone.
    Inconsistent,
    /// Checksums are gone, and parity cannot show whether the chunk is good.
    Unproven,
    /// The disk does not give it out.
    Unreadable(String),
    /// This process may not open it, or cannot now: that says nothing of the chunk.
    Denied(String),
    /// The user asked to treat it as lost.
    Named,
}

/// Which blocks are corrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptBlocks {
    /// Where the first of them begins, in bytes of the chunk.
    pub first_offset: u64,
    /// How many they are.
    pub count: usize,
}

/// The state of a good chunk's `.crc` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumFile {
    /// It says what the chunk holds.
    Fresh,
    /// There is no such file.
    Missing,
    /// It says something else, or cannot be read.
    Stale,
    /// Its name is that of a folder, a pipe or a link that leads nowhere, which no command
    /// replaces.
    NoFile,
}

/// What a chunk of a stripe should be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Index of the chunk in its stripe, counted from 0.
    pub chunk: ChunkIndex,
    /// Its length, by the manifest.
    pub chunk_bytes: u64,
    /// The checksum in the manifest.
    pub checksum: Option<u32>,
}

/// An open chunk and the checksums of its blocks.
pub struct ChunkReader {
    file: File,
    checksums: BlockChecksums,
    checksum_file: ChecksumFile,
}

/// A chunk that was read in whole.
pub enum Scanned {
    /// A checksum vouches for it.
    Good(ChunkReader),
    /// No checksum is left that could prove it. Reads give what the scan saw.
    Unproven(ChunkReader),
}

impl ChunkReader {
    /// Opens a chunk without reading it, when its `.crc` file is good; otherwise reads it in whole.
    ///
    /// # Errors
    /// The chunk is missing, of another length or corrupt, or cannot be read.
    pub fn open(files: &StripeFiles, expected: Expected) -> Result<Scanned, ChunkFault> {
        let file = open_file(files, expected)?;
        match claimed_checksums(files, expected) {
            Claim::Vouched(checksums) => Ok(Scanned::Good(ChunkReader {
                file,
                checksums,
                checksum_file: ChecksumFile::Fresh,
            })),
            _ => Self::scan(files, expected, |_| ()),
        }
    }

    /// Reads a chunk in whole and compares it with every checksum that there is.
    ///
    /// # Errors
    /// The chunk is missing, of another length or corrupt, or cannot be read.
    pub fn scan(
        files: &StripeFiles,
        expected: Expected,
        progress: impl Fn(u64),
    ) -> Result<Scanned, ChunkFault> {
        let file = open_file(files, expected)?;
        let claim = claimed_checksums(files, expected);
        let checksums = read_checksums(&file, expected.chunk_bytes, progress)?;
        let checksum_file = match &claim {
            Claim::Vouched(claimed) if *claimed == checksums => ChecksumFile::Fresh,
            Claim::None => ChecksumFile::Missing,
            Claim::NoFile => ChecksumFile::NoFile,
            _ => ChecksumFile::Stale,
        };
        let good = match (expected.checksum, &claim) {
            (Some(checksum), _) => checksums.of_chunk() == checksum,
            (None, Claim::Vouched(claimed)) => *claimed == checksums,
            (None, _) => {
                return Ok(Scanned::Unproven(ChunkReader { file, checksums, checksum_file }));
            }
        };
        if good {
            return Ok(Scanned::Good(ChunkReader { file, checksums, checksum_file }));
        }
        let differences = match &claim {
            Claim::Vouched(claimed) => claimed.differences(&checksums),
            _ => None,
        };
        Err(ChunkFault::Corrupt {
            blocks: differences.map(|(first_offset, count)| CorruptBlocks { first_offset, count }),
        })
    }

    /// Reads these pieces, one after the other into the buffer, and checks every block that they
    /// touch.
    ///
    /// # Errors
    /// A block that is touched does not have its checksum, or cannot be read.
    pub fn read(
        &self,
        pieces: impl Iterator<Item = Piece>,
        buffer: &mut [u8],
    ) -> Result<(), ChunkFault> {
        let layout = Layout::plain(self.checksums.chunk_bytes());
        let mut edges = Vec::new();
        let mut rest = buffer;
        for piece in pieces {
            let (target, later) = rest.split_at_mut(piece.bytes);
            rest = later;
            let blocks = piece.in_blocks(BLOCK_BYTES, &layout);
            if blocks == piece {
                self.read_blocks(piece.offset, target)?;
                continue;
            }
            edges.resize(blocks.bytes, 0);
            self.read_blocks(blocks.offset, &mut edges)?;
            let from = (piece.offset - blocks.offset) as usize;
            target.copy_from_slice(&edges[from..from + piece.bytes]);
        }
        Ok(())
    }

    fn read_blocks(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ChunkFault> {
        self.file.read_exact_at(buffer, offset).map_err(unreadable)?;
        match self.checksums.first_mismatch(offset, buffer) {
            None => Ok(()),
            Some(first_offset) => {
                Err(ChunkFault::Corrupt { blocks: Some(CorruptBlocks { first_offset, count: 1 }) })
            }
        }
    }

    /// The checksums of its blocks, computed from its bytes.
    pub fn checksums(&self) -> &BlockChecksums {
        &self.checksums
    }

    /// What its `.crc` file is worth.
    pub fn checksum_file(&self) -> ChecksumFile {
        self.checksum_file
    }
}

/// Looks at a chunk's file without opening it.
///
/// # Errors
/// There is no such file, or it has another length.
pub fn probe(files: &StripeFiles, expected: Expected) -> Result<(), ChunkFault> {
    let metadata = fs::metadata(files.chunk(expected.chunk)).map_err(unreadable)?;
    check_metadata(&metadata, expected)
}

/// The checksums of a chunk's blocks as its `.crc` file has them, if the file can be trusted.
pub fn vouched_by_file(files: &StripeFiles, expected: Expected) -> Option<BlockChecksums> {
    match claimed_checksums(files, expected) {
        Claim::Vouched(checksums) => Some(checksums),
        Claim::None | Claim::NoFile | Claim::Disowned => None,
    }
}

/// What the `.crc` file says, and whether it can be trusted.
enum Claim {
    /// There is no such file.
    None,
    /// It is no regular file.
    NoFile,
    /// It belongs to another chunk or another time, or is damaged.
    Disowned,
    /// The manifest's checksum follows from it; or the manifest has none, and it is all there is.
    Vouched(BlockChecksums),
}

fn claimed_checksums(files: &StripeFiles, expected: Expected) -> Claim {
    let path = files.checksums(expected.chunk);
    let is_it =
        |found: &fs::Metadata| found.is_file() && found.len() == file_bytes(expected.chunk_bytes);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if is_free(&path) { Claim::None } else { Claim::NoFile };
        }
        Ok(found) if !found.is_file() => return Claim::NoFile,
        // Looked at before anything is read: the file may be anything, of any length.
        Ok(found) if is_it(&found) => (),
        _ => return Claim::Disowned,
    }
    let content = fs::read(&path).ok();
    let claimed =
        content.and_then(|content| BlockChecksums::from_file(&content, expected.chunk_bytes));
    match (claimed, expected.checksum) {
        (Some(claimed), Some(checksum)) if claimed.of_chunk() == checksum => {
            Claim::Vouched(claimed)
        }
        (Some(claimed), None) => Claim::Vouched(claimed),
        _ => Claim::Disowned,
    }
}

fn open_file(files: &StripeFiles, expected: Expected) -> Result<File, ChunkFault> {
    let path = files.chunk(expected.chunk);
    // Before opening: to open a pipe is to wait for its other end.
    let found = fs::metadata(&path).map_err(|error| match unreadable(error) {
        ChunkFault::Missing if !is_free(&path) => {
            ChunkFault::Unreadable("a link that leads nowhere; remove it, and it is missing".into())
        }
        fault => fault,
    })?;
    check_metadata(&found, expected)?;
    File::open(&path).map_err(unreadable)
}

/// Whether nothing has this name: a link has it, wherever it leads.
fn is_free(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn check_metadata(metadata: &fs::Metadata, expected: Expected) -> Result<(), ChunkFault> {
    if !metadata.is_file() {
        let why = "not a regular file; remove it, and it is missing";
        return Err(ChunkFault::Unreadable(why.to_string()));
    }
    if metadata.len() != expected.chunk_bytes {
        return Err(ChunkFault::WrongLength {
            expected: expected.chunk_bytes,
            found: metadata.len(),
        });
    }
    Ok(())
}

fn read_checksums(
    file: &File,
    chunk_bytes: u64,
    progress: impl Fn(u64),
) -> Result<BlockChecksums, ChunkFault> {
    let recorder = ChecksumRecorder::new(chunk_bytes);
    let mut buffer = vec![0; SCAN_BYTES.min(chunk_bytes as usize)];
    let mut offset = 0;
    while offset < chunk_bytes {
        let bytes = (chunk_bytes - offset).min(SCAN_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..bytes], offset).map_err(unreadable)?;
        recorder.record(offset, &buffer[..bytes]);
        offset += bytes as u64;
        progress(bytes as u64);
    }
    Ok(recorder.finish())
}

fn unreadable(error: io::Error) -> ChunkFault {
    let is_of_process = error.raw_os_error().and_then(|code| {
        let of_process = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        of_process.into_iter().find(|errno| errno.raw_os_error() == code)
    });
    match error.kind() {
        io::ErrorKind::NotFound => ChunkFault::Missing,
        io::ErrorKind::PermissionDenied => ChunkFault::Denied(error.to_string()),
        _ if is_of_process.is_some() => ChunkFault::Denied(error.to_string()),
        _ => ChunkFault::Unreadable(error.to_string()),
    }
}

impl ChunkFault {
    /// Whether it is this process that cannot open the chunk.
    pub fn is_of_process(&self) -> bool {
        matches!(self, ChunkFault::Denied(_))
    }

    /// One word, for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            ChunkFault::Missing => "missing",
            ChunkFault::WrongLength { .. } => "wrong-length",
            ChunkFault::Corrupt { .. } => "corrupt",
            ChunkFault::Inconsistent => "inconsistent",
            ChunkFault::Unproven => "unproven",
            ChunkFault::Unreadable(_) => "unreadable",
            ChunkFault::Denied(_) => "denied",
            ChunkFault::Named => "named",
        }
    }
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkFault::Missing => write!(f, "is missing"),
            ChunkFault::WrongLength { expected, found } => {
                write!(f, "has the wrong length: {} instead of {expected}", counted(*found, "byte"))
            }
            ChunkFault::Corrupt { blocks: None } => {
                write!(f, "is corrupt: its checksum does not match")
            }
            ChunkFault::Corrupt { blocks: Some(CorruptBlocks { first_offset, count }) } => {
                let blocks = if *count == 1 { "block" } else { "blocks" };
                write!(f, "is corrupt: {count} {blocks} of 4 KiB, the first at byte {first_offset}")
            }
            ChunkFault::Inconsistent => {
                write!(f, "contradicts the parity of its stripe (checksums are gone)")
            }
            ChunkFault::Unproven => {
                write!(f, "has no checksum left, and parity cannot tell whether it is good")
            }
            ChunkFault::Unreadable(why) => write!(f, "cannot be read: {why}"),
            ChunkFault::Denied(why) => write!(f, "cannot be opened by this process: {why}"),
            ChunkFault::Named => write!(f, "was named as lost"),
        }
    }
}
