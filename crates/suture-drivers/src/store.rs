//! The chunks of one agent on its disk: named, checked at every read, proven before they appear.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit location ...
//! The directory:
//!
//! | path | what |
//! |---|---|
//! | `identity` | whose chunks these are; another cluster's or node's directory is refused |
//! | `store` | which store this is: random, made once, and announced to every coordinator |
//! | `chunks/SS/STRIPE.CHUNK.STAMP` | one copy of one chunk (`layout.rs`), all in hexadecimal; SS is the stripe's last byte |
//! | `membership` | number and newest epoch of this node (`control/membership.rs`) |
//! | `metadata-backup.db`, `metadata-backup-older.db` | a backup of the coordinator's metadata (`control/backup.rs`) |
//! | `tmp/N` | chunks in the making, and such a copy; emptied at every start |
//!
//! The directory itself is locked while an agent runs here, so that two cannot.
//! Copies of one chunk differ in their stamp, so neither a repair nor a delete can hit the wrong
//! one. A copy gets its name by a link that fails where the name exists, after its data are on
//! disk, and the name is on disk before the agent is notified of it.
//!
//! It is one implementation of `suture_repair::chunk_store`, which is all that the agent knows.
//! Invariants: what is under `chunks` was once read back and proven; what is listed has the name of
//! a chunk; bytes that fail their checksum do not leave this module.
//! Deliberately absent: which copies are needed. The coordinator knows that.

pub mod chunk;
mod id;
pub mod layout;
mod place;
pub mod temp;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{FlockOperation, flock};
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter};
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, ListedCopy, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};
use suture_repair::wire::ClusterId;
use tracing::warn;

use crate::data_dir;
use chunk::{ChunkFile, Damage, OpenFile};
use place::OpenDir;
use temp::TempChunk;

/// The version of the directory; a change of any path or of `identity` adds one.
const DIRECTORY_VERSION: u32 = 1;

/// Folders that the chunks are spread over: a directory of a million files is slow to list.
const FAN_OUT: u64 = 256;

/// So many files may be in the list of open ones before it is gone through.
const OPEN_FILES_MIN: usize = 64;

/// The owner of a data directory's chunks. Written at the first start, compared at every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster that the chunks are of.
    pub cluster: ClusterId,
    /// The node's name in the cluster.
    pub node: String,
}

/// Which store it is, among all that there are: names of nodes can be copied with a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub u64);

/// No more of a file system than this is left to others unless it is configured: 1 GiB.
pub const KEEP_FREE_MAX: u64 = 1 << 30;

/// A directory that can hold the chunks of an agent, locked against other processes.
#[derive(Debug)]
pub struct DataDir {
    dir: PathBuf,
    identity: Option<Identity>,
    id: Option<StoreId>,
    lock: File,
}

/// The chunks of one agent, in a directory locked against other processes.
#[derive(Debug)]
pub struct Store {
    chunks: Arc<Chunks>,
    tmp: PathBuf,
    next_temp: AtomicU64,
    /// What the last list found wrong.
    flaws: Mutex<Flaws>,
    /// Keeps the lock: the system releases it with the file, however the process ends.
    lock: File,
    /// Bytes of the file system that are not for chunks, if configured.
    keep_free: Option<u64>,
}

/// What a list of the chunks found wrong, in words.
#[derive(Debug, Default)]
struct Flaws(BTreeMap<PathBuf, String>);

impl Flaws {
    fn left_out(&mut self, path: PathBuf, why: &dyn fmt::Display) {
        self.0.insert(path, format!("left out of the list of chunks: {why}"));
    }
}

/// What is listed of a file that no chunk can be read from any more: no chunk has so many bytes. So
/// it is no usable copy, and goes like any other when its stripe is removed.
const DAMAGED: Digest = Digest { bytes: Some(u64::MAX), crc: None };

/// The folder of the chunks, and those of its files that are being read.
#[derive(Debug)]
struct Chunks {
    dir: PathBuf,
    /// The data directory, in which that folder lies.
    place: OpenDir,
    /// Lanes of a repair, repairs and clients that read a copy share its file. Files that are not
    /// read any more are dropped when there are as many again.
    open: Mutex<OpenFiles>,
    /// Temporary files that could not be removed: they may be second names of chunks, which take
    /// space as long as these are there.
    left: Mutex<Vec<PathBuf>>,
}

/// Files by the copy, and how many there were when the list was last gone through.
#[derive(Debug, Default)]
struct OpenFiles {
    files: HashMap<ChunkCopy, Weak<OpenFile>>,
    alive: usize,
}

/// Why a data directory cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The system returned an error.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Another agent runs here.
    Locked(PathBuf),
    /// It holds chunks and no `identity` that names their owner.
    Unidentified(PathBuf),
    /// Another build wrote it.
    Version {
        /// The directory that was opened.
        dir: PathBuf,
        /// The version in its `identity`.
        found: String,
    },
    /// It belongs to another node or cluster.
    Foreign {
        /// The directory that was opened.
        dir: PathBuf,
        /// The identity that it has.
        found: Identity,
        /// The identity of this agent.
        expected: Identity,
    },
}

impl DataDir {
    /// Opens the directory (creating it where it does not exist), locks it, makes sure that it can
    /// be written, and removes what a crash left in the making. A read-only one can still be read.
    ///
    /// # Errors
    /// When it is in use, holds chunks without an `identity`, was written by another build, or
    /// cannot be made, written or read.
    pub fn open(dir: &Path) -> Result<DataDir, OpenError> {
        let (chunks, tmp) = (dir.join("chunks"), dir.join("tmp"));
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| OpenError::Io { path, source }
        };
        data_dir::open(dir).map_err(at(dir))?;
        let stat = rustix::fs::statvfs(dir).map_err(io::Error::from).map_err(at(dir))?;
        let is_read_only = data_dir::is_read_only(&stat);
        // The folder itself: a lock file could be removed, and with it what it keeps apart.
        let lock = File::open(dir).map_err(at(dir))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::Locked(dir.to_path_buf())),
            result => result.map_err(io::Error::from).map_err(at(dir))?,
        }
        let identity = identity(dir)?;
        if identity.is_none() && holds_chunks(&chunks).map_err(at(&chunks))? {
            return Err(OpenError::Unidentified(dir.to_path_buf()));
        }
        if is_read_only && identity.is_none() {
            return Err(at(dir)(io::ErrorKind::ReadOnlyFilesystem.into()));
        }
        if is_read_only {
            warn!("'{}' is read-only: its chunks are served, and none are taken", dir.display());
            return Ok(DataDir { dir: dir.to_path_buf(), identity, id: StoreId::read(dir)?, lock });
        }
        let known = StoreId::read(dir)?;
        if known.is_none() && identity.is_none() {
            data_dir::refuse_files_of_others(&tmp).map_err(at(&tmp))?;
        }
        // The id is made durable before it is sent: a lost id would be replaced by another one
        // after a crash.
        let id = match known {
            None => Some(StoreId::create(dir).map_err(at(&dir.join("store")))?),
            id => id,
        };
        for fan in 0..FAN_OUT {
            let path = chunks.join(format!("{fan:02x}"));
            data_dir::create_folder_unless_taken(&path).map_err(at(&path))?;
        }
        sync_dir(&chunks).and_then(|()| sync_dir(dir)).map_err(at(dir))?;
        if tmp.exists() {
            fs::remove_dir_all(&tmp).map_err(at(&tmp))?;
        }
        data_dir::create_folder(&tmp).map_err(at(&tmp))?;
        place::check_together(&tmp, &chunks).map_err(at(&chunks))?;
        Ok(DataDir { dir: dir.to_path_buf(), identity, id, lock })
    }

    /// Which store it is; none for one that has no id and cannot be written.
    pub fn id(&self) -> Option<StoreId> {
        self.id
    }

    /// The owner of its chunks; none where there are no chunks yet.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The store in it, of this node from now on if it had no owner.
    ///
    /// # Errors
    /// When it belongs to another node, or cannot be written.
    pub fn claim(self, expected: &Identity) -> Result<Store, OpenError> {
        let DataDir { dir, identity, lock, .. } = self;
        match identity {
            Some(found) if found == *expected => {}
            Some(found) => {
                return Err(OpenError::Foreign { dir, found, expected: expected.clone() });
            }
            None => {
                let path = dir.join("identity");
                let written = write_identity(&path, expected).and_then(|()| sync_dir(&dir));
                written.map_err(|source| OpenError::Io { path, source })?;
            }
        }
        let place = OpenDir::of(dir.clone(), &lock);
        let place = place.map_err(|source| OpenError::Io { path: dir.clone(), source })?;
        Ok(Store {
            chunks: Arc::new(Chunks::of(dir.join("chunks"), place)),
            tmp: dir.join("tmp"),
            next_temp: AtomicU64::new(0),
            flaws: Mutex::default(),
            lock,
            keep_free: None,
        })
    }
}

impl Store {
    /// Opens the store of this node in a directory.
    ///
    /// # Errors
    /// As [`DataDir::open`] and [`DataDir::claim`].
    pub fn open(dir: &Path, identity: &Identity) -> Result<Store, OpenError> {
        DataDir::open(dir)?.claim(identity)
    }

    /// Leaves so many bytes of the file system to others; by default a hundredth of it, at most
    /// [`KEEP_FREE_MAX`].
    pub fn keep_free(&mut self, bytes: Option<u64>) {
        self.keep_free = bytes;
    }

    /// Opens a copy for reading.
    ///
    /// # Errors
    /// When the copy is missing or its footer damaged.
    pub fn chunk(&self, copy: ChunkCopy) -> Result<ChunkFile, Damage> {
        self.chunks.open(copy)
    }

    /// Copies that look whole, and those that are damaged beyond reading. What is no chunk and what
    /// cannot be read is left for a person to look at, and does not end the list.
    fn copies(&self) -> io::Result<Vec<ListedCopy>> {
        let (mut copies, mut flaws) = (Vec::new(), Flaws::default());
        for fan in fs::read_dir(&self.chunks.dir)? {
            let fan = match fan {
                Ok(fan) => fan.path(),
                Err(error) => {
                    flaws.left_out(self.chunks.dir.clone(), &error);
                    continue;
                }
            };
            let entries = match fs::read_dir(&fan) {
                Ok(entries) => entries,
                Err(error) => {
                    flaws.left_out(fan, &error);
                    continue;
                }
            };
            for entry in entries {
                match entry {
                    Ok(entry) => add_copy(&entry.path(), &mut copies, &mut flaws),
                    // What follows in this folder may not come either.
                    Err(error) => flaws.left_out(fan.clone(), &error),
                }
            }
        }
        self.warn_of(flaws);
        Ok(copies)
    }

    /// Logs what is wrong; what an earlier list found in the same way is known.
    fn warn_of(&self, flaws: Flaws) {
        let mut known = self.flaws.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, why) in &flaws.0 {
            if known.0.get(path) != Some(why) {
                warn!("{}: {why}", path.display());
            }
        }
        *known = flaws;
    }

    fn ensure_place(&self) -> Result<(), Failure> {
        self.chunks.place.check().map_err(|error| failure(&error))
    }

    fn ensure_space(&self, bytes: u64) -> Result<(), Failure> {
        let has_space = bytes <= self.free_bytes()?;
        has_space.then_some(()).ok_or(Failure::NoSpace)
    }

    fn temp_path(&self) -> PathBuf {
        self.tmp.join(self.next_temp.fetch_add(1, Ordering::Relaxed).to_string())
    }
}

impl ChunkStore for Store {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        // Lists are made again and again.
        self.chunks.remove_left();
        let copies = self.copies();
        // A list of another directory is none.
        self.ensure_place().and_then(|()| copies.map_err(|error| failure(&error)))
    }

    fn free_bytes(&self) -> Result<u64, Failure> {
        let stat = rustix::fs::fstatvfs(&self.lock).map_err(|errno| failure(&errno.into()))?;
        // What cannot be written has no space, whatever is free.
        if data_dir::is_read_only(&stat) {
            return Ok(0);
        }
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let by_default = (bytes(stat.f_blocks) / 100).min(KEEP_FREE_MAX);
        Ok(bytes(stat.f_bavail).saturating_sub(self.keep_free.unwrap_or(by_default)))
    }

    fn is_read_only(&self) -> bool {
        rustix::fs::fstatvfs(&self.lock).is_ok_and(|stat| data_dir::is_read_only(&stat))
    }

    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        let chunk = self.chunks.open_shared(copy).map_err(|damage| damage.logged(copy))?;
        Ok(Arc::new(chunk))
    }

    fn scan(&self, copy: ChunkCopy, each: &mut dyn FnMut(&[u8])) -> Result<(), CopyFault> {
        let scanned = self.chunk(copy).and_then(|chunk| chunk.scan(each));
        scanned.map_err(|damage| damage.logged(copy))
    }

    fn label(&self, copy: ChunkCopy) -> Result<Label, CopyFault> {
        let label = self.chunks.open_shared(copy).and_then(|chunk| chunk.label());
        label.map_err(|damage| damage.logged(copy))
    }

    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        self.ensure_place()?;
        self.ensure_space(bytes)?;
        let chunk = TempChunk::create(self.temp_path(), bytes, self.chunks.clone())?;
        Ok(Arc::new(chunk))
    }

    fn begin_arriving(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        self.ensure_place()?;
        self.ensure_space(bytes)?;
        let chunk = TempChunk::create_empty(self.temp_path(), bytes, self.chunks.clone())?;
        Ok(Arc::new(chunk))
    }

    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        match fs::remove_file(self.chunks.path(copy)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.ensure_place(),
            result => result.map_err(|error| failure(&error)),
        }
    }
}

impl Chunks {
    fn of(dir: PathBuf, place: OpenDir) -> Chunks {
        Chunks { dir, place, open: Mutex::default(), left: Mutex::default() }
    }

    fn left(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries once more to remove what could not be removed.
    fn remove_left(&self) {
        self.left().retain(|path| {
            let removed = fs::remove_file(path);
            removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
        });
    }

    /// Opens a copy, with a descriptor of its own only where it is not being read yet.
    fn open_shared(&self, copy: ChunkCopy) -> Result<ChunkFile, Damage> {
        let known = self.open_files().files.get(&copy).and_then(Weak::upgrade);
        if let Some(file) = known {
            return Ok(ChunkFile::of(file));
        }
        let chunk = self.open(copy)?;
        let mut open = self.open_files();
        open.files.insert(copy, Arc::downgrade(chunk.open_file()));
        if open.files.len() > 2 * open.alive + OPEN_FILES_MIN {
            open.files.retain(|_, file| file.strong_count() > 0);
            open.alive = open.files.len();
        }
        Ok(chunk)
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, copy: ChunkCopy) -> Result<ChunkFile, Damage> {
        match ChunkFile::open(&self.path(copy), copy) {
            Err(Damage::Missing) => {
                Err(self.place.check().map_or_else(Damage::Io, |()| Damage::Missing))
            }
            opened => opened,
        }
    }

    fn path(&self, copy: ChunkCopy) -> PathBuf {
        let (stripe, chunk, stamp) = (copy.stripe.0, copy.chunk.0, copy.stamp.0);
        let folder = self.dir.join(format!("{:02x}", stripe % FAN_OUT));
        folder.join(format!("{stripe:016x}.{chunk:02x}.{stamp:016x}"))
    }
}

/// What an error of the disk means to a repair.
pub(crate) fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Failure::NoSpace
        }
        _ => Failure::Disk(error.to_string()),
    }
}

/// Adds the copy that a file is, and what is wrong with it.
fn add_copy(path: &Path, copies: &mut Vec<ListedCopy>, flaws: &mut Flaws) {
    let Some(copy) = path.file_name().and_then(parse_name) else {
        return flaws.left_out(path.to_path_buf(), &"it has not the name of a chunk");
    };
    match ChunkFile::open(path, copy) {
        Ok(chunk) => copies.push(chunk.footer().listed()),
        // Deleted meanwhile.
        Err(Damage::Missing) => {}
        Err(damage) if damage.is_beyond_reading() => {
            copies.push(ListedCopy { copy, digest: DAMAGED });
            flaws.0.insert(path.to_path_buf(), damage.to_string());
        }
        Err(damage) => flaws.left_out(path.to_path_buf(), &damage),
    }
}

fn parse_name(name: &OsStr) -> Option<ChunkCopy> {
    let mut parts = name.to_str()?.split('.');
    let mut number = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        u64::from_str_radix(part, 16).ok()
    };
    let (stripe, chunk, stamp) = (number(16)?, number(2)?, number(16)?);
    let chunk = ChunkIndex(chunk as u8);
    let copy = ChunkCopy { stripe: StripeId(stripe), chunk, stamp: Stamp(stamp) };
    parts.next().is_none().then_some(copy)
}

/// Names become durable with their directory.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The owner of a directory's chunks; none where there are no chunks yet.
///
/// # Errors
/// When the directory holds something else, or cannot be read.
pub fn identity(dir: &Path) -> Result<Option<Identity>, OpenError> {
    let path = dir.join("identity");
    let io = |source| OpenError::Io { path: path.clone(), source };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let unreadable = || {
        let what = if text.is_empty() { "it is empty" } else { "it is not readable" };
        io(io::Error::new(io::ErrorKind::InvalidData, what))
    };
    let mut lines = text.lines();
    let mut field = |key: &str| lines.next().and_then(|line| line.strip_prefix(key));
    let version = field("suture-store ").ok_or_else(unreadable)?;
    if version != DIRECTORY_VERSION.to_string() {
        return Err(OpenError::Version { dir: dir.to_path_buf(), found: version.to_owned() });
    }
    let cluster = field("cluster ").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    match (cluster, field("node ")) {
        (Some(cluster), Some(node)) => {
            Ok(Some(Identity { cluster: ClusterId(cluster), node: node.to_owned() }))
        }
        _ => Err(unreadable()),
    }
}

/// Whether there is any chunk.
fn holds_chunks(chunks: &Path) -> io::Result<bool> {
    let folders = match fs::read_dir(chunks) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        folders => folders?,
    };
    for folder in folders {
        let entries = match fs::read_dir(folder?.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            entries => entries?,
        };
        for entry in entries {
            if parse_name(&entry?.file_name()).is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn write_identity(path: &Path, identity: &Identity) -> io::Result<()> {
    let Identity { cluster, node } = identity;
    if node.contains('\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a node's name is one line"));
    }
    let part = path.with_extension("part");
    let mut file = data_dir::create_file(&part)?;
    write!(file, "suture-store {DIRECTORY_VERSION}\ncluster {cluster}\nnode {node}\n")?;
    file.sync_all()?;
    fs::rename(&part, path)
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io { path, source } => write!(f, "{}: {source}", path.display()),
            OpenError::Locked(dir) => {
                write!(f, "another agent is running on data directory {}", dir.display())
            }
            OpenError::Unidentified(dir) => write!(
                f,
                "'{0}' holds chunks, but its file 'identity' is missing, which says whose they are. If they are this node's, write it (suture status names the cluster): printf 'suture-store {DIRECTORY_VERSION}\\ncluster CLUSTER\\nnode NAME\\n' > '{0}/identity'; if nobody needs them, rm -r '{0}/chunks'",
                dir.display(),
            ),
            OpenError::Version { dir, found } => write!(
                f,
                "data directory {} has version {found}, this build reads {DIRECTORY_VERSION}",
                dir.display(),
            ),
            OpenError::Foreign { dir, found, expected } => write!(
                f,
                "data directory {} belongs to node {:?} of cluster {}, not to {:?} of {}",
                dir.display(),
                found.node,
                found.cluster,
                expected.node,
                expected.cluster,
            ),
        }
    }
}

// What it says has its cause in it, so it names none: it would be printed twice.
impl std::error::Error for OpenError {}
