//! Encoding a file into a directory of chunks.
//!
//! Place: the file -> [stripes -> chunks, checksums] -> manifest.
//! * Everything is written into `DIR/.encode.tmp`, and that folder stays until all is done: beside
//!   it, and without a manifest, are the chunks of an encode that was interrupted, and the next one
//!   clears them away.
//! * Threads take stripes, then ranges: read k pieces of the file, compute m of parity, write all
//!   n with their checksums. The file streams through once; memory does not depend on its length.
//! * One `syncfs` makes all of it durable. An fsync for each of thousands of files would take one
//!   journal commit each.
//! * Files move to their names, the manifest is published, and the folder goes. A directory with a
//!   manifest is complete, whatever else is in it.
//!
//! Invariants: only an empty directory is ever encoded into, and nothing of the user's is
//! overwritten; chunks are cleared away only beside that folder, and never beside a manifest.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use suture_code::ChunkIndex;
use suture_code::layout::PositionRange;
use suture_edge::error::bad_input;
use suture_edge::progress::{Progress, Step};

use super::checksum::ChecksumRecorder;
use super::combination::{Buffers, Combination};
use super::directory::{
    DirectoryLock, StripeFiles, chunk_name, create_sized, publish_bytes, sync_directory,
};
use super::geometry::Geometry;
use super::manifest::{MANIFEST_NAME, Manifest};
use super::output::{dangling, remove_left_behind};
use super::pool::{self, Spread};
use super::position_ranges::{all_pieces, placed};

/// Where everything is written until it is complete.
const WORKSHOP_NAME: &str = ".encode.tmp";

/// An encode of a file into a directory.
pub struct Encode<'a> {
    /// The file that is encoded.
    pub source: &'a Source,
    /// How it is cut.
    pub geometry: Geometry,
    /// Where the chunks go: a new or an empty directory.
    pub directory: &'a Path,
    /// Called with the bytes that were encoded.
    pub progress: &'a Progress<'a>,
}

impl Encode<'_> {
    /// Writes the whole directory, or nothing.
    ///
    /// # Errors
    /// Bad input when the directory is in use or a file; a failure when a file cannot be read or
    /// written. What was written goes with it.
    pub fn run(&self) -> Result<()> {
        let shown = self.directory.display();
        let created = !self.directory.exists();
        if created && self.directory.is_symlink() {
            return Err(dangling(self.directory));
        }
        if !created && !self.directory.is_dir() {
            return Err(bad_input(format!("{shown} is a file; name a directory")));
        }
        fs::create_dir_all(self.directory).with_context(|| format!("cannot create {shown}"))?;
        let lock = DirectoryLock::take(self.directory)?;
        let workshop = Workshop::open(self.directory)?;
        let result = self.fill_and_publish(&workshop, &lock);
        // What cannot be removed is removed by the next encode, or does no harm beside a manifest.
        let _ = match &result {
            Ok(()) => remove_workshop(self.directory),
            Err(_) => workshop.clear(),
        };
        if result.is_err() && created {
            // Not ours to remove if anything is in it.
            let _ = fs::remove_dir(self.directory);
        }
        result
    }

    fn fill_and_publish(&self, workshop: &Workshop<'_>, lock: &DirectoryLock) -> Result<()> {
        let Encode { source, geometry, directory, progress } = *self;
        let spread = Spread::over(&geometry);
        let data = geometry.data_chunk_indices();
        let combination = Combination::of(&geometry.code.encode_dag(), &data)?;
        let root = &workshop.path;
        let encoder = Encoder { source, geometry, combination, root, spread, progress };
        let stripe_count = geometry.stripe_count();
        let chunk_checksums =
            pool::map(spread.stripe_threads, stripe_count, |stripe| encoder.encode_stripe(stripe))?;
        source.ensure_unchanged()?;
        let manifest =
            Manifest { geometry, chunk_checksums: Some(chunk_checksums), is_proven: true };
        let shown = directory.display();
        lock.sync_file_system().with_context(|| format!("cannot make {shown} durable"))?;
        workshop.publish().with_context(|| format!("cannot move chunks into {shown}"))?;
        sync_directory(directory)?;
        publish_bytes(&directory.join(MANIFEST_NAME), manifest.to_json().as_bytes())?;
        sync_directory(directory)
    }
}

/// The file to encode.
pub struct Source {
    file: File,
    path: PathBuf,
    metadata: fs::Metadata,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// It is missing, no regular file, or not as long as the system reports (bad input), or cannot
    /// be read.
    pub fn open(path: &Path) -> Result<Source> {
        let shown = path.display();
        let metadata = match fs::metadata(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(bad_input(format!("there is no file {shown}")));
            }
            result => result.with_context(|| format!("cannot open {shown}"))?,
        };
        if metadata.is_dir() {
            return Err(bad_input(format!(
                "{shown} is a directory; archive it first, for instance with tar"
            )));
        }
        if !metadata.is_file() {
            return Err(bad_input(format!("{shown} is not a regular file")));
        }
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        let metadata = file.metadata().with_context(|| format!("cannot open {shown}"))?;
        let source = Source { file, path: path.to_path_buf(), metadata };
        let is_whole = source.ends_at(source.bytes());
        if !is_whole.with_context(|| format!("cannot read {shown}"))? {
            return Err(bad_input(format!(
                "{shown} is not as long as the system says ({} bytes): copy it (cat {shown} > FILE), and encode the copy",
                source.bytes()
            )));
        }
        Ok(source)
    }

    /// Length of the source in bytes.
    pub fn bytes(&self) -> u64 {
        self.metadata.len()
    }

    /// Whether the file ends where the system reports it to, as those of `/proc` do not.
    fn ends_at(&self, bytes: u64) -> io::Result<bool> {
        let has_byte = |offset| match self.file.read_exact_at(&mut [0], offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| true),
        };
        Ok((bytes == 0 || has_byte(bytes - 1)?) && !has_byte(bytes)?)
    }

    /// A file that changes underneath would give parity of bytes that were never together.
    fn ensure_unchanged(&self) -> Result<()> {
        let shown = self.path.display();
        let now = self.file.metadata().with_context(|| format!("cannot read {shown}"))?;
        let same = now.len() == self.bytes()
            && now.modified().ok() == self.metadata.modified().ok()
            && self.ends_at(now.len()).with_context(|| format!("cannot read {shown}"))?;
        ensure!(
            same,
            "{shown} changed while it was encoded; encode it again when nobody writes to it"
        );
        Ok(())
    }
}

/// Removes from a complete directory what an encode leaves that died when all but this was done.
///
/// # Errors
/// When there is no such folder, or it cannot be removed.
pub fn remove_workshop(directory: &Path) -> io::Result<()> {
    fs::remove_dir_all(directory.join(WORKSHOP_NAME))
}

/// The folder of an encode that is not finished.
struct Workshop<'a> {
    directory: &'a Path,
    path: PathBuf,
}

impl Workshop<'_> {
    /// Takes possession of an empty directory, or of what an interrupted encode left.
    fn open(directory: &Path) -> Result<Workshop<'_>> {
        let shown = directory.display();
        let context = || format!("cannot prepare {shown}");
        let workshop = Workshop { directory, path: directory.join(WORKSHOP_NAME) };
        let is_interrupted = workshop.path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_interrupted {
            remove_left_behind(directory).with_context(context)?;
        }
        let names = workshop.names().with_context(context)?;
        if names.iter().any(|name| name == MANIFEST_NAME) {
            let why = "delete it first if it is not needed, or choose another directory";
            return Err(bad_input(format!("{shown} already holds an encoded file; {why}")));
        }
        let is_left = |name: &str| is_interrupted && (name == WORKSHOP_NAME || is_of_chunks(name));
        if let Some(name) = names.iter().find(|name| !is_left(name)) {
            return Err(bad_input(format!(
                "{shown} is not empty (it holds {name}); choose an empty or new directory"
            )));
        }
        if is_interrupted {
            workshop.clear().with_context(context)?;
        }
        fs::create_dir(&workshop.path).with_context(context)?;
        Ok(workshop)
    }

    /// Moves everything to its place.
    fn publish(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            fs::rename(entry.path(), self.directory.join(entry.file_name()))?;
        }
        Ok(())
    }

    /// Removes the chunks that no manifest stands for, and then the folder that says so.
    fn clear(&self) -> io::Result<()> {
        if self.directory.join(MANIFEST_NAME).try_exists()? {
            return Ok(());
        }
        for name in self.names()?.iter().filter(|name| is_of_chunks(name)) {
            let entry = self.directory.join(name);
            if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) }?;
        }
        fs::remove_dir_all(&self.path)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.directory)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// Whether an encode gives such names.
fn is_of_chunks(name: &str) -> bool {
    name.starts_with("chunk.") || name.starts_with("stripe.")
}

/// Encodes one stripe after the other into a folder.
struct Encoder<'a> {
    source: &'a Source,
    geometry: Geometry,
    combination: Combination,
    root: &'a Path,
    spread: Spread,
    progress: &'a Progress<'a>,
}

/// A chunk on its way to disk.
struct NewChunk {
    file: File,
    recorder: ChecksumRecorder,
}

impl Encoder<'_> {
    /// Writes the chunks of a stripe and their `.crc` files; gives the chunks' checksums.
    fn encode_stripe(&self, stripe: u64) -> Result<Vec<u32>> {
        let Geometry { code, chunk_bytes, .. } = self.geometry;
        let files = StripeFiles::new(self.root, stripe, self.geometry.stripe_count());
        let in_stripe =
            || format!("cannot encode stripe {stripe} of {}", self.source.path.display());
        fs::create_dir_all(&files.directory).with_context(in_stripe)?;
        let create = |chunk| -> Result<NewChunk> {
            Ok(NewChunk {
                file: create_sized(&files.chunk(chunk), chunk_bytes)?,
                recorder: ChecksumRecorder::new(chunk_bytes),
            })
        };
        let chunks = code.chunks().map(create).collect::<Result<Vec<_>>>()?;
        self.spread
            .for_each_range(
                self.geometry.layout(),
                chunk_bytes,
                Buffers::default,
                |buffers, range| self.encode_range(stripe, range, buffers, &chunks),
            )
            .with_context(in_stripe)?;
        let mut chunk_checksums = Vec::with_capacity(chunks.len());
        for (chunk, new) in code.chunks().zip(chunks) {
            let checksums = new.recorder.finish();
            let path = files.checksums(chunk);
            fs::write(&path, checksums.to_file())
                .with_context(|| format!("cannot write {}", path.display()))?;
            chunk_checksums.push(checksums.of_chunk());
        }
        Ok(chunk_checksums)
    }

    fn encode_range(
        &self,
        stripe: u64,
        range: &PositionRange,
        buffers: &mut Buffers,
        chunks: &[NewChunk],
    ) -> Result<()> {
        let sub_chunks = self.geometry.code.sub_chunk_count() as usize;
        buffers.inputs.resize(self.geometry.code.data_chunks(), Vec::new());
        for (chunk, buffer) in self.geometry.code.chunks().zip(&mut buffers.inputs) {
            buffer.resize(range.packed(sub_chunks).bytes(), 0);
            let mut rest = buffer.as_mut_slice();
            for piece in all_pieces(range) {
                let (target, later) = rest.split_at_mut(piece.bytes);
                rest = later;
                self.read_source(stripe, chunk, piece.offset, target)?;
            }
        }
        self.combination.run(range, &buffers.inputs, &mut buffers.outputs);
        let buffers = buffers.inputs.iter().chain(&buffers.outputs);
        for (chunk, (buffer, new)) in buffers.zip(chunks).enumerate() {
            let name = || format!("cannot write {}", chunk_name(ChunkIndex(chunk as u8)));
            for (piece, bytes) in placed(range, buffer) {
                new.recorder.record(piece.offset, bytes);
                new.file.write_all_at(bytes, piece.offset).with_context(name)?;
            }
        }
        Ok(())
    }

    /// Reads what stands at `offset` of a data chunk, padding included.
    fn read_source(
        &self,
        stripe: u64,
        chunk: ChunkIndex,
        offset: u64,
        target: &mut [u8],
    ) -> Result<()> {
        let piece = self.geometry.file_piece(stripe, chunk, offset, target.len());
        let (content, padding) = target.split_at_mut(piece.bytes);
        let path = || format!("cannot read {}", self.source.path.display());
        self.source.file.read_exact_at(content, piece.offset).with_context(path)?;
        padding.fill(0);
        (self.progress)(Step::Done(piece.bytes as u64));
        Ok(())
    }
}
