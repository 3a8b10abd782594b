//! The durable metadata of the native store: nodes, objects, stripes, where each chunk lies, and
//! what the operator wants. SQLite in WAL mode, synchronous, owned by one thread.
//!
//! Place: stripes affected <- `[metadata]` <- commit location. The coordinator core mirrors what is
//! here and nothing else; it is notified of each change by the thread that made it durable, in the
//! order in which it became durable, and before the caller that asked for the change is answered.
//!
//! * [`store`] is the metadata themselves, synchronous and testable without a runtime;
//! * [`schema`] opens, locks and versions the file;
//! * `former` keeps one of an older schema as it was, before it is changed;
//! * `marks` recognizes a coordinator that went back with its machine, by what agents remember;
//! * `operations` decides what comes next of all that is asked;
//! * `place` sees that what is written can be found again;
//! * `wal` keeps the one file whole that people copy;
//! * [`backup`] copies it while it is in use, and puts a backup in its place;
//! * [`unfinished`] keeps one that is made again from nothing out of the way until it is whole.
//!
//! Invariants: an object appears and disappears by one transaction; a location changes only by a
//! compare-and-set on its stripe's generation; stripe ids and epochs are never used twice, also
//! not after a crash. Commits are bound by fsync (about 160 us on a good disk), so one writer is
//! enough and needs no locks.

pub mod backup;
mod former;
mod marks;
mod operations;
mod place;
pub mod schema;
mod sealed;
pub mod store;
pub mod unfinished;
mod wal;

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use suture_repair::event::Input;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use operations::{Next, OperationQueue, OperationSender};

pub use backup::Backup;
pub use marks::Mark;
use marks::Marks;
pub use schema::Incomplete;
pub use store::{
    Added, Intent, Leftovers, MetadataError, MetadataStore, NewNode, NodeRecord, Object,
    ObjectStripe, PassRecord, PutId, Remembered, Removed, is_readable, seconds_since_1970,
};

/// How often it is looked whether they can be changed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// The way to the thread that owns the store.
#[derive(Clone)]
pub struct Metadata {
    operations: Arc<OperationSender>,
    changes: mpsc::Sender<Input>,
    committed: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    marks: Arc<Mutex<Marks>>,
    is_faulty: Arc<AtomicBool>,
    damage: Arc<Mutex<Option<String>>>,
}

impl Metadata {
    /// Starts the thread. `changes` receives every change; while it is full the thread waits, once
    /// it is closed the thread goes on: the metadata do not depend on their listeners.
    pub fn start(mut store: MetadataStore, changes: mpsc::Sender<Input>) -> Metadata {
        let (operations, queue) = OperationSender::new();
        let (committed, is_faulty) = (store.committed(), store.is_faulty());
        let (written, marks) = (store.written(), store.marks());
        let outgoing = changes.clone();
        let serve = move || {
            let _guard = AbortOnPanic;
            perform(&mut store, &queue, &outgoing);
        };
        let thread = thread::Builder::new().name("metadata".into());
        thread.spawn(serve).expect("a thread can be started");
        let damage = Arc::default();
        Metadata { operations, changes, committed, written, marks, is_faulty, damage }
    }

    /// How many puts were committed so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// The newest mark of what was made durable, one of now where more was since; `at` is in
    /// nanoseconds of the process.
    pub fn mark(&self, at: u64) -> Option<Mark> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.make(self.written.load(Ordering::Relaxed), at)
    }

    /// Whether they could not be written when that was last tried.
    pub fn is_faulty(&self) -> bool {
        self.is_faulty.load(Ordering::Relaxed)
    }

    /// Ends the work on the metadata: `metadata.db` is whole by itself when this returns, and stays
    /// so. A later call gets no answer: the process is ending.
    ///
    /// # Errors
    /// As [`MetadataStore::close`].
    pub async fn close(&self) -> anyhow::Result<()> {
        let (reply, answer) = oneshot::channel();
        let close = move |store: &mut MetadataStore| {
            let _ = reply.send(store.close());
            loop {
                thread::park();
            }
        };
        self.operations.send(Box::new(close));
        answer.await.expect("the metadata thread answers")
    }

    /// A backup of the metadata as they are at some moment from now on; they may change meanwhile.
    ///
    /// # Errors
    /// As [`backup::take`].
    pub async fn backup(&self) -> anyhow::Result<Backup> {
        let ask = |store: &mut MetadataStore| {
            // No other process can find metadata that have lost their name.
            let take = |database: &_, open| backup::take_by(database, &env::temp_dir(), open);
            let rescued = (!store.is_in_place()).then(|| store.rescue(take));
            Ok((store.path(), store.first_open()?, rescued))
        };
        let (path, open, rescued) = self.ask(ask).await?;
        if let Some(rescued) = rescued {
            return rescued;
        }
        let taken = tokio::task::spawn_blocking(move || backup::take(&path, open));
        let taken = taken.await.context("the backup was not finished")?;
        let why = taken.as_ref().err().and_then(|error| error.downcast_ref());
        self.note_damage(match why {
            Some(MetadataError::Damaged(what)) => Some(what.clone()),
            _ => None,
        });
        taken
    }

    fn note_damage(&self, found: Option<String>) {
        *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    /// What was damaged when the metadata were last to be copied, if anything was.
    pub fn damage(&self) -> Option<String> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `operation` on the store's thread and gives its result.
    ///
    /// # Errors
    /// Those of `operation`.
    pub async fn ask<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut MetadataStore) -> Result<T, MetadataError> + Send + 'static,
    ) -> Result<T, MetadataError> {
        let (reply, answer) = oneshot::channel();
        self.run(move |store| {
            let result = store.noted(operation);
            // The caller may have gone away; the operation is done all the same.
            move || drop(reply.send(result))
        });
        answer.await.expect("the metadata thread answers")
    }

    /// What `question` makes of the metadata, ahead of most operations that wait: none of these has
    /// been answered yet, so it is as if this had been asked a moment before.
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&MetadataStore) -> T + Send + 'static,
    ) -> T {
        let (reply, answer) = oneshot::channel();
        self.operations.ask(Box::new(move |store| drop(reply.send(question(store)))));
        answer.await.expect("the metadata thread answers")
    }

    /// Runs `operation` on the store's thread; the changes that it makes are its only answer.
    /// What went wrong it reports itself.
    pub fn submit(
        &self,
        operation: impl FnOnce(&mut MetadataStore) -> Result<(), MetadataError> + Send + 'static,
    ) {
        self.run(move |store| {
            let _ = store.noted(operation);
            || ()
        });
    }

    /// Runs `operation` on the store's thread, and what it gives after its changes were sent.
    pub fn submit_and<Reply: FnOnce()>(
        &self,
        operation: impl FnOnce(&mut MetadataStore) -> Reply + Send + 'static,
    ) {
        self.run(operation);
    }

    fn run<Reply: FnOnce()>(
        &self,
        operation: impl FnOnce(&mut MetadataStore) -> Reply + Send + 'static,
    ) {
        let changes = self.changes.clone();
        let operation = move |store: &mut MetadataStore| {
            let reply = operation(store);
            send_changes(store, &changes);
            reply();
        };
        self.operations.send(Box::new(operation));
    }
}

/// What the thread does until the last handle is dropped: what it is asked, and between, keep the
/// log short.
fn perform(store: &mut MetadataStore, queue: &OperationQueue, changes: &mpsc::Sender<Input>) {
    let mut checked_at = Instant::now();
    loop {
        let is_idle = match queue.next(wal::IDLE) {
            Next::Operation(operation) => {
                operation(store);
                false
            }
            Next::Idle => true,
            Next::Closed => return,
        };
        if let Err(error) = store.fold_log(is_idle) {
            warn!("metadata.db is behind its log: {error}");
        }
        if checked_at.elapsed() >= CHECK_EVERY {
            checked_at = Instant::now();
            store.check_writable();
            send_changes(store, changes);
        }
    }
}

/// Sends on what has changed since the last time.
fn send_changes(store: &mut MetadataStore, changes: &mpsc::Sender<Input>) {
    for change in store.take_changes() {
        // The receiver is gone: the process is ending.
        let _ = changes.blocking_send(change);
    }
}

/// A coordinator without its metadata must not go on serving a memory of them.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
