//! The encoded directory on disk: names, locks, and writing in such a way that a crash leaves old
//! or new, never half.
//!
//! Place: [manifest, stripes -> files], under all offline commands.
//! ```text
//! DIR/manifest.json   DIR/chunk.00   DIR/chunk.00.crc                 one stripe
//! DIR/manifest.json   DIR/stripe.00000/chunk.00 ..   DIR/stripe.00001/..   several
//! ```
//! Publishing is fsync of a file without a name, its name (`output.rs`), fsync of the directory:
//! after a crash a name stands for the whole file or does not exist.
//!
//! Invariant: nothing but `publish` ever puts a file in the place of another.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use suture_code::ChunkIndex;
use suture_edge::error::bad_input;
use suture_edge::units::format_size;

use super::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, Manifest};
use super::output::{NewFile, file_place, folder_of};

/// What temporaries ended in that older builds left behind.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// Reads and checks the manifest of an encoded directory.
///
/// # Errors
/// Bad input when there is no manifest, or one that is refused.
pub fn read_manifest(directory: &Path) -> Result<Manifest> {
    let path = directory.join(MANIFEST_NAME);
    let shown = path.display();
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && directory.is_dir() => {
            let why = "no encode has finished there, or it is not the directory that you mean";
            return Err(bad_input(format!(
                "{} holds no {MANIFEST_NAME}: {why}",
                directory.display()
            )));
        }
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            let what = if directory.exists() { "is not a directory" } else { "does not exist" };
            return Err(bad_input(format!("{} {what}", directory.display())));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    // Before opening: to open a pipe is to wait for its other end.
    if !metadata.is_file() {
        return Err(bad_input(format!("{shown} is refused: it is not a regular file")));
    }
    if metadata.len() > MANIFEST_BYTES_MAX {
        return Err(bad_input(format!(
            "{shown} has {}; no manifest has more than {}",
            format_size(metadata.len()),
            format_size(MANIFEST_BYTES_MAX)
        )));
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(text)
        .map_err(|_| bad_input(format!("{shown} is refused: it is not text")))?;
    Manifest::parse(&text).map_err(|error| bad_input(format!("{shown} is refused: {error}")))
}

/// Keeps other writers out of a directory for as long as it lives.
pub struct DirectoryLock {
    handle: File,
}

impl DirectoryLock {
    /// Fails when another suture process writes there. File systems without locks are taken at
    /// their word.
    ///
    /// # Errors
    /// When another process holds the lock, or the directory cannot be opened.
    pub fn take(directory: &Path) -> Result<DirectoryLock> {
        let shown = directory.display();
        let handle = File::open(directory).with_context(|| format!("cannot open {shown}"))?;
        match handle.try_lock() {
            Err(TryLockError::WouldBlock) => anyhow::bail!(
                "another suture process is writing to {shown}; try again when it is done"
            ),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(DirectoryLock { handle }),
        }
    }

    /// Makes everything durable that was written to this file system, and reports what could not
    /// be.
    ///
    /// # Errors
    /// What the system reports.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.handle)?)
    }
}

/// The names of one stripe's files.
#[derive(Clone, Debug)]
pub struct StripeFiles {
    /// The folder that holds them.
    pub directory: PathBuf,
}

impl StripeFiles {
    /// Those of one stripe; a file of one stripe keeps them in `root` itself.
    pub fn new(root: &Path, stripe: u64, stripe_count: u64) -> StripeFiles {
        let directory =
            if stripe_count == 1 { root.to_path_buf() } else { root.join(stripe_name(stripe)) };
        StripeFiles { directory }
    }

    /// The file of a chunk.
    pub fn chunk(&self, chunk: ChunkIndex) -> PathBuf {
        self.directory.join(chunk_name(chunk))
    }

    /// The file of a chunk's block checksums.
    pub fn checksums(&self, chunk: ChunkIndex) -> PathBuf {
        self.directory.join(checksums_name(chunk))
    }
}

/// The folder of a stripe, as `stripe.00003`.
pub fn stripe_name(stripe: u64) -> String {
    format!("stripe.{stripe:05}")
}

/// The file of a chunk, as `chunk.03`; three digits above 99.
pub fn chunk_name(chunk: ChunkIndex) -> String {
    format!("chunk.{:02}", chunk.0)
}

/// The file of a chunk's block checksums, as `chunk.03.crc`.
pub fn checksums_name(chunk: ChunkIndex) -> String {
    format!("chunk.{:02}.crc", chunk.0)
}

/// A file that takes its target's place when it is published, and vanishes otherwise.
pub struct Temporary {
    target: PathBuf,
    new: NewFile,
}

impl Temporary {
    /// An empty one for `target`, with space for `bytes`: a full disk is found here, not halfway.
    ///
    /// # Errors
    /// When the file cannot be made or its disk is full.
    pub fn create(target: &Path, bytes: u64) -> Result<Temporary> {
        let context = || format!("cannot create {}", target.display());
        let new = NewFile::beside(target).with_context(context)?;
        reserve(new.file(), bytes).with_context(context)?;
        Ok(Temporary { target: target.to_path_buf(), new })
    }

    /// The open file, to be written.
    pub fn file(&self) -> &File {
        self.new.file()
    }

    /// Makes the content durable and puts it in the target's place. The name is durable after
    /// `sync_directory`.
    ///
    /// # Errors
    /// When the content cannot be made durable or the name not be changed.
    pub fn publish(self) -> Result<()> {
        self.new.publish(&self.target)
    }
}

/// Publishes a small file in one go.
///
/// # Errors
/// When the file cannot be written, made durable or put in place.
pub fn publish_bytes(target: &Path, content: &[u8]) -> Result<()> {
    let temporary = Temporary::create(target, 0)?;
    let mut file = temporary.file();
    file.write_all(content).with_context(|| format!("cannot write {}", target.display()))?;
    temporary.publish()
}

/// Writes an output that is a file, whole or not at all. A link to a file is followed; what is no
/// regular file is refused.
///
/// # Errors
/// Bad input for a name that no file can have; a failure when the file cannot be written, made
/// durable or put in place.
pub fn write_output(output: &Path, content: &[u8]) -> Result<()> {
    let target = file_place(output)?;
    publish_bytes(&target, content)?;
    sync_directory(folder_of(&target))
}

/// Makes the names in a directory durable.
///
/// # Errors
/// When the directory cannot be opened or synced.
pub fn sync_directory(directory: &Path) -> Result<()> {
    let shown = directory.display();
    File::open(directory)
        .and_then(|handle| handle.sync_all())
        .with_context(|| format!("cannot make {shown} durable"))
}

/// Creates or empties a file and reserves its space.
///
/// # Errors
/// When the file cannot be made or its disk is full.
pub fn create_sized(path: &Path, bytes: u64) -> Result<File> {
    let context = || format!("cannot create {}", path.display());
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .with_context(context)?;
    reserve(&file, bytes).with_context(context)?;
    Ok(file)
}

fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Not every file system can reserve; then a full disk is found while writing.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => file.set_len(bytes),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn an_output_follows_links_and_takes_the_place_of_nothing_but_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("fifo", at("to-fifo")).unwrap();
        mknodat(CWD, at("fifo").as_path(), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for written in ["link", "file", "new"] {
            write_output(&at(written), written.as_bytes()).unwrap();
        }
        assert!(at("link").symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(at("file")).unwrap(), b"file");
        assert_eq!(fs::read(at("new")).unwrap(), b"new");
        for refused in ["fifo", "to-fifo", "socket", "dangling", "nowhere/file"] {
            assert!(write_output(&at(refused), b"").is_err(), "{refused}");
        }
        assert!(fs::metadata(at("to-fifo")).unwrap().file_type().is_fifo());
        assert!(fs::metadata(at("socket")).unwrap().file_type().is_socket());
        assert!(at("dangling").symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 7, "nothing else is left");
    }
}
