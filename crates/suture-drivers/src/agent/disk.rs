//! What the agent asks of its disk, and what the disk answers.
//!
//! Place: ... output of the agent core -> [performed on the store] -> answered as an input ...
//! Slices go through the few threads of `io.rs`. What takes long and comes seldom (making space,
//! proving, listing) goes to the runtime's blocking pool, proofs and checks a few at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use suture_repair::chunk_store::{ChunkStore, ChunkWriter, proof, short};
use suture_repair::id::{ChunkCopy, ListedCopy, NodeId, RepairId};
use suture_repair::label::Label;
use suture_repair::message::{Check, CopyFault, Failure, FingerprintRequest};
use suture_repair::role::{Role, Spools};
use suture_repair::slice::SliceId;
use tokio::sync::{RwLock, Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::io::Io;
use super::task_data::Files;
use crate::buffer::{Buffer, Pool};
use crate::combination::{Combination, Pending, Source};
use crate::metrics::agent::{AgentMetrics, DiskOperation};

/// Threads for slices: enough to keep a disk's queue busy, few enough not to disturb.
const IO_THREADS: usize = 4;

/// Full checks at a time. They have no hurry.
const CHECKS: usize = 1;

/// What the disk did.
#[derive(Debug)]
pub enum DiskEvent {
    /// What was read of a slice, checked, or why it cannot be had.
    Read(SliceId, Result<Vec<(Source, Buffer)>, Failure>),
    /// A child's slice was written to the spool, and its memory is free.
    Spilled(NodeId, SliceId),
    /// A slice was written, and its memory is free.
    Left(SliceId),
    /// A write did not succeed.
    WriteFailed(RepairId, Failure),
    /// There is space for a chunk, or not.
    Prepared(RepairId, Result<Arc<dyn ChunkWriter>, Failure>),
    /// The chunk is durable under its name, or not.
    Published(RepairId, Result<(), Failure>),
    /// So many bytes are free.
    Free(u64),
    /// What is held, and the space left.
    Listed(Vec<ListedCopy>, u64),
    /// What is held cannot be listed in full.
    NotListed,
    /// A copy was removed, or could not be.
    Deleted(ChunkCopy),
    /// A copy was read in full.
    Checked(Check, Result<(), CopyFault>),
    /// A chunk was read in full for its fingerprint, or cannot be.
    Fingerprinted(FingerprintRequest, Result<Arc<[u8]>, Failure>),
    /// A client asked for a copy that is of no use.
    Found {
        /// The copy that was read.
        copy: ChunkCopy,
        /// What is wrong with it.
        fault: CopyFault,
    },
}

impl DiskEvent {
    /// Counts what failed, if it reports that something did.
    pub fn count_failure(&self, metrics: &AgentMetrics) {
        match self {
            DiskEvent::Read(_, Err(why))
            | DiskEvent::WriteFailed(_, why)
            | DiskEvent::Prepared(_, Err(why))
            | DiskEvent::Published(_, Err(why))
            | DiskEvent::Fingerprinted(_, Err(why)) => metrics.failed(why),
            DiskEvent::Checked(_, Err(fault)) | DiskEvent::Found { fault, .. } => {
                metrics.found(*fault);
            }
            DiskEvent::NotListed => metrics.count_error("listing"),
            _ => {}
        }
    }
}

/// Chunk files of one agent: queues reads and writes, answers each with a [`DiskEvent`].
#[derive(Debug)]
pub struct Disk {
    store: Arc<dyn ChunkStore>,
    spool_dir: Arc<Path>,
    pool: Arc<Pool>,
    io: Io,
    long: JoinSet<()>,
    proofs: Arc<Semaphore>,
    checks: Arc<Semaphore>,
    /// Held while free bytes are asked for.
    asking: Arc<Semaphore>,
    /// Shared by deletes; a listing waits until those before it are done, so that it has no copy
    /// that is about to go.
    deletes: Arc<RwLock<()>>,
    events: mpsc::UnboundedSender<DiskEvent>,
    metrics: Arc<AgentMetrics>,
}

impl Disk {
    /// Starts the threads. Chunks are in the store, spools in the directory, which need not be on
    /// the same disk. Chunks are proven as `proofs` permits. The channel of the answers needs
    /// no bound: each answers a request, and the core bounds those.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(
        store: Arc<dyn ChunkStore>,
        spool_dir: PathBuf,
        pool: Arc<Pool>,
        proofs: Arc<Semaphore>,
        events: mpsc::UnboundedSender<DiskEvent>,
        metrics: Arc<AgentMetrics>,
    ) -> std::io::Result<Disk> {
        let (io, checks) = (Io::new(IO_THREADS)?, Arc::new(Semaphore::new(CHECKS)));
        let spool_dir = spool_dir.into();
        let (long, asking) = (JoinSet::new(), Arc::new(Semaphore::new(1)));
        let deletes = Arc::default();
        let disk = Disk {
            store,
            spool_dir,
            pool,
            io,
            long,
            proofs,
            checks,
            asking,
            deletes,
            events,
            metrics,
        };
        Ok(disk)
    }

    /// Reads a slice of the own copy, or of the spool.
    pub fn read(&self, files: &Arc<Files>, id: SliceId, role: Arc<Role>, spool: bool) {
        let (files, store, pool) = (files.clone(), self.store.clone(), self.pool.clone());
        let spool_dir = self.spool_dir.clone();
        self.slice_job(DiskOperation::Read, move || {
            if files.is_over() {
                return None;
            }
            let (files, store, spool_dir, pool) = (&*files, &*store, &*spool_dir, &pool);
            let place = Place { files, store, spool_dir, pool, id, role: &role };
            let result = match role.spools {
                Spools::Results if spool => place.read_results(),
                Spools::Sources if spool => place.read_sources(),
                _ => place.read_own().map(|own| vec![own]),
            };
            Some(DiskEvent::Read(id, result))
        });
    }

    /// Computes a slice and writes it to the chunk in the making.
    pub fn write(&self, files: &Arc<Files>, id: SliceId, role: Arc<Role>, result: Pending) {
        let files = files.clone();
        self.slice_job(DiskOperation::Write, move || {
            if files.is_over() {
                return None;
            }
            let slice = result.compute();
            let written = match files.target() {
                Some(target) => {
                    let mut rest = &*slice;
                    role.chunk_pieces(id.slice).try_for_each(|piece| {
                        let (now, later) = rest.split_at(piece.bytes);
                        rest = later;
                        short::write(&**target, piece.offset, now)
                    })
                }
                None => Err(no_file()),
            };
            drop(slice);
            Some(left(id, written))
        });
    }

    /// Computes all results of a slice and writes them to the spool.
    pub fn spool(&self, files: &Arc<Files>, id: SliceId, role: Arc<Role>, all: Combination) {
        let (files, spool_dir) = (files.clone(), self.spool_dir.clone());
        self.slice_job(DiskOperation::Spool, move || {
            if files.is_over() {
                return None;
            }
            let results = all.compute();
            let written = files.spool(&spool_dir, id.lane).and_then(|spool| {
                let mut pieces = role.spool_pieces(id.slice).zip(&results);
                pieces.try_for_each(|(piece, result)| spool.write(piece.offset, result))
            });
            drop(results);
            Some(left(id, written))
        });
    }

    /// Writes a child's slice to the spool as it is.
    pub fn spill(
        &self,
        files: &Arc<Files>,
        from: NodeId,
        id: SliceId,
        role: Arc<Role>,
        slice: Buffer,
    ) {
        let (files, spool_dir) = (files.clone(), self.spool_dir.clone());
        self.slice_job(DiskOperation::Spool, move || {
            if files.is_over() {
                return None;
            }
            let piece = role.spilled_piece(from, id.slice).expect("only children are kept");
            let spool = files.spool(&spool_dir, id.lane);
            let written = spool.and_then(|spool| spool.write(piece.offset, &slice));
            drop(slice);
            Some(match written {
                Ok(()) => DiskEvent::Spilled(from, id),
                Err(why) => DiskEvent::WriteFailed(id.repair, why),
            })
        });
    }

    /// Makes space for a chunk.
    pub fn prepare(&mut self, repair: RepairId, bytes: u64) {
        let store = self.store.clone();
        self.long_job(DiskOperation::Prepare, None, move || {
            Some(DiskEvent::Prepared(repair, store.begin(bytes)))
        });
    }

    /// Proves a chunk, makes it durable and gives it its name.
    pub fn publish(
        &mut self,
        files: Arc<Files>,
        repair: RepairId,
        copy: ChunkCopy,
        crc: Option<u32>,
        label: Label,
    ) {
        self.long_job(DiskOperation::Publish, Some(self.proofs.clone()), move || {
            let result = match files.target() {
                Some(target) => proof::publish(&**target, copy, crc, &label),
                None => Err(no_file()),
            };
            Some(DiskEvent::Published(repair, result))
        });
    }

    /// Reads a chunk in the making back for its fingerprint.
    pub fn fingerprint_written(&mut self, files: Arc<Files>, request: FingerprintRequest) {
        self.long_job(DiskOperation::Fingerprint, Some(self.proofs.clone()), move || {
            let result = match files.target() {
                Some(target) => proof::fingerprint_written(&**target, &request),
                None => Err(no_file()),
            };
            Some(DiskEvent::Fingerprinted(request, result))
        });
    }

    /// Reads a copy in full for its fingerprint.
    pub fn fingerprint_copy(&mut self, request: FingerprintRequest) {
        let store = self.store.clone();
        self.long_job(DiskOperation::Fingerprint, Some(self.proofs.clone()), move || {
            let result = proof::fingerprint_copy(&*store, &request);
            let copy = request.copy;
            let result = result.map_err(|fault| Failure::Source { copy, fault });
            Some(DiskEvent::Fingerprinted(request, result))
        });
    }

    /// Lists all copies. One that cannot be had in full is no list: it would report what it lacks
    /// as lost.
    pub fn list(&mut self) {
        let store = self.store.clone();
        let deletes = self.deletes.clone();
        let after_deletes = async move { drop(deletes.write().await) };
        self.long_job_after(DiskOperation::List, after_deletes, move || {
            match store.list().and_then(|copies| Ok((copies, store.free_bytes()?))) {
                Ok((copies, free_bytes)) => Some(DiskEvent::Listed(copies, free_bytes)),
                Err(error) => {
                    error!("the store cannot be listed: {error}");
                    Some(DiskEvent::NotListed)
                }
            }
        });
    }

    /// Asks how many bytes are free; a disk that does not report that answers nothing. One at a
    /// time, since a disk that hangs would collect them.
    pub fn ask_free_bytes(&mut self) {
        let Ok(permit) = self.asking.clone().try_acquire_owned() else { return };
        let store = self.store.clone();
        self.long_job(DiskOperation::Free, None, move || {
            let free_bytes = store.free_bytes();
            drop(permit);
            free_bytes.ok().map(DiskEvent::Free)
        });
    }

    /// Reads a copy in full.
    pub fn check(&mut self, check: Check) {
        let store = self.store.clone();
        let Check { copy, digest, .. } = check;
        let job = move || Some(DiskEvent::Checked(check, short::check(&*store, copy, digest)));
        self.long_job(DiskOperation::Check, Some(self.checks.clone()), job);
    }

    /// Removes a copy. If it could not be removed the next listing shows it.
    pub fn delete(&mut self, copy: ChunkCopy) {
        let (store, deletes) = (self.store.clone(), self.deletes.clone());
        // At once, unless a listing waits already: that one will show the copy.
        let now = deletes.clone().try_read_owned().ok();
        let shared = async move {
            match now {
                Some(shared) => shared,
                None => deletes.read_owned().await,
            }
        };
        self.long_job_after(DiskOperation::Delete, shared, move || {
            if let Err(error) = store.delete(copy) {
                warn!("{copy} cannot be removed: {error}");
            }
            Some(DiskEvent::Deleted(copy))
        });
    }

    /// Drops what may take a while to drop: removing a large file waits for the disk.
    pub fn dispose(&self, files: impl Send + 'static) {
        self.io.submit(move || drop(files));
    }

    /// Forgets long jobs that are done; resolves when there was one.
    pub async fn reap(&mut self) -> Option<()> {
        self.long.join_next().await.map(|_| ())
    }

    fn slice_job(
        &self,
        operation: DiskOperation,
        job: impl FnOnce() -> Option<DiskEvent> + Send + 'static,
    ) {
        let (events, metrics) = (self.events.clone(), self.metrics.clone());
        self.io.submit(move || notify(&events, metrics.timed(operation, job)));
    }

    fn long_job(
        &mut self,
        operation: DiskOperation,
        permits: Option<Arc<Semaphore>>,
        job: impl FnOnce() -> Option<DiskEvent> + Send + 'static,
    ) {
        let permitted = async {
            match permits {
                Some(permits) => Some(permits.acquire_owned().await.expect("never closed")),
                None => None,
            }
        };
        self.long_job_after(operation, permitted, job);
    }

    /// Does a job once `may` gives what it needs to hold meanwhile.
    fn long_job_after<Held: Send>(
        &mut self,
        operation: DiskOperation,
        may: impl Future<Output = Held> + Send + 'static,
        job: impl FnOnce() -> Option<DiskEvent> + Send + 'static,
    ) {
        let (events, metrics) = (self.events.clone(), self.metrics.clone());
        let job = move || metrics.timed(operation, job);
        self.long.spawn(async move {
            let _held = may.await;
            match tokio::task::spawn_blocking(job).await {
                Ok(event) => notify(&events, event),
                Err(error) => {
                    error!("a disk job failed: {error}");
                    // Without this event a caller that waits for a list would wait for ever.
                    let failed = (operation == DiskOperation::List).then_some(DiskEvent::NotListed);
                    notify(&events, failed);
                }
            }
        });
    }
}

/// Where the sources of one slice are read.
struct Place<'a> {
    files: &'a Files,
    store: &'a dyn ChunkStore,
    spool_dir: &'a Path,
    pool: &'a Arc<Pool>,
    id: SliceId,
    role: &'a Role,
}

impl Place<'_> {
    fn read_own(&self) -> Result<(Source, Buffer), Failure> {
        let own = self.role.own.as_ref().expect("only helpers read");
        let mut slice = self.pool.take(self.role.own_bytes(self.id.slice));
        let chunk = self.files.own(self.store, self.id.lane, own);
        let result = chunk.and_then(|chunk| {
            let mut rest = &mut *slice;
            self.role.own_pieces(self.id.slice).try_for_each(|piece| {
                let (now, later) = std::mem::take(&mut rest).split_at_mut(piece.bytes);
                rest = later;
                short::read(&*chunk, piece.offset, now)
            })
        });
        result.map_err(|fault| Failure::Source { copy: own.copy, fault })?;
        Ok((Source::Own, slice))
    }

    /// Results that were spooled, one after the other.
    fn read_results(&self) -> Result<Vec<(Source, Buffer)>, Failure> {
        let result_bytes = self.role.result_bytes(self.id.slice);
        let mut slice = self.pool.take(self.role.sinks.len() * result_bytes);
        let results = slice.chunks_mut(result_bytes);
        for (piece, result) in self.role.spool_pieces(self.id.slice).zip(results) {
            self.unspool(piece.offset, result)?;
        }
        Ok(vec![(Source::Spool, slice)])
    }

    /// What was spilled of each child, and the own bytes where there are some.
    fn read_sources(&self) -> Result<Vec<(Source, Buffer)>, Failure> {
        let own = self.role.own.iter().map(|_| self.read_own());
        let spilled = self.role.children.iter().map(|child| {
            let piece = self.role.spilled_piece(child.node, self.id.slice).expect("a child");
            let mut slice = self.pool.take(piece.bytes);
            self.unspool(piece.offset, &mut slice)?;
            Ok((Source::Child(child.node), slice))
        });
        own.chain(spilled).collect()
    }

    fn unspool(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.files.spool(self.spool_dir, self.id.lane)?.read(offset, into)
    }
}

fn no_file() -> Failure {
    Failure::Disk("no file was made for the chunk".into())
}

fn left(id: SliceId, written: Result<(), Failure>) -> DiskEvent {
    match written {
        Ok(()) => DiskEvent::Left(id),
        Err(why) => DiskEvent::WriteFailed(id.repair, why),
    }
}

fn notify(events: &mpsc::UnboundedSender<DiskEvent>, event: Option<DiskEvent>) {
    if let Some(event) = event {
        // A closed channel means that the agent is stopping.
        let _ = events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use suture_repair::chunk_store::ChunkReader;
    use suture_repair::id::{ChunkIndex, Digest, Stamp, StripeId};

    use super::*;

    /// One copy, which goes when the test lets it.
    #[derive(Debug)]
    struct SlowStore {
        copy: Mutex<Option<ListedCopy>>,
        may_go: Mutex<Receiver<()>>,
    }

    impl ChunkStore for SlowStore {
        fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
            Ok(self.copy.lock().unwrap().iter().copied().collect())
        }

        fn free_bytes(&self) -> Result<u64, Failure> {
            Ok(0)
        }

        fn open(&self, _: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
            Err(CopyFault::Missing)
        }

        fn begin(&self, _: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
            Err(no_file())
        }

        fn delete(&self, _: ChunkCopy) -> Result<(), Failure> {
            self.may_go.lock().unwrap().recv().unwrap();
            self.copy.lock().unwrap().take();
            Ok(())
        }
    }

    fn slow_store() -> (Arc<SlowStore>, ListedCopy, Sender<()>) {
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(2), stamp: Stamp(3) };
        let listed = ListedCopy { copy, digest: Digest::default() };
        let (go, may_go) = channel();
        let (copy, may_go) = (Mutex::new(Some(listed)), Mutex::new(may_go));
        (Arc::new(SlowStore { copy, may_go }), listed, go)
    }

    #[tokio::test]
    async fn a_listing_says_nothing_of_a_copy_that_is_about_to_go() {
        let (store, listed, go) = slow_store();
        let (events, mut said) = mpsc::unbounded_channel();
        let proofs = Arc::new(Semaphore::new(1));
        let metrics = AgentMetrics::new(None);
        let mut disk = Disk::new(store, ".".into(), Pool::new(0), proofs, events, metrics).unwrap();
        disk.list();
        let before = said.recv().await.unwrap();
        assert!(matches!(before, DiskEvent::Listed(copies, 0) if copies == [listed]));
        disk.delete(listed.copy);
        disk.list();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        assert!(said.try_recv().is_err(), "the delete is not done");
        go.send(()).unwrap();
        assert!(matches!(said.recv().await.unwrap(), DiskEvent::Deleted(_)));
        let after = said.recv().await.unwrap();
        assert!(matches!(after, DiskEvent::Listed(copies, 0) if copies.is_empty()));
    }
}
