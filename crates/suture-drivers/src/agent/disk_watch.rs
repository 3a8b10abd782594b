//! Whether the disk answers: every call of the store is watched from its begin to its end.
//!
//! Place: [failure detected] -> ...; it only watches, and heartbeats report what it saw.
//! A disk that hangs gives no error: its callers wait, and plans still use an agent that reports
//! that it is alive, although it cannot read or write. So a call that takes longer than anything
//! that a disk does makes the agent report that its disk hangs. A call that reads a whole chunk is
//! as old as the last part that it has shown, and one that makes a chunk durable, or makes space
//! for it, has time by its bytes. Listings do not count: they take as long as there are copies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published};
use suture_repair::id::{ChunkCopy, ListedCopy};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, DiskState, Failure};
use tracing::{error, info, warn};

use crate::chunk_client::SLOWEST_DISK;

/// For so long after an error a disk counts as failing: long enough for an operator who reads the
/// status now and then to see it.
const FAILING_FOR: Duration = Duration::from_secs(600);

/// What is known of a disk.
#[derive(Debug)]
pub struct DiskWatch {
    hangs_after: Duration,
    notes: Mutex<DiskNotes>,
}

#[derive(Debug, Default)]
struct DiskNotes {
    /// When each call that is under way last went on, or will have had time for its bytes.
    calls: BTreeMap<u64, Instant>,
    next_call: u64,
    failed_at: Option<Instant>,
    is_read_only: bool,
}

/// A call that is under way.
struct WatchedCall<'a> {
    watch: &'a DiskWatch,
    number: u64,
}

impl DiskWatch {
    /// A disk hangs when a call of it has not gone on for so long.
    pub fn new(hangs_after: Duration) -> DiskWatch {
        DiskWatch { hangs_after, notes: Mutex::default() }
    }

    /// How the disk is.
    pub fn state(&self, now: Instant) -> DiskState {
        let notes = self.notes();
        let since = |at: &Instant| now.saturating_duration_since(*at);
        if notes.calls.values().any(|at| since(at) >= self.hangs_after) {
            DiskState::Hanging
        } else if notes.failed_at.is_some_and(|at| since(&at) < FAILING_FOR) {
            DiskState::Failing
        } else if notes.is_read_only {
            DiskState::ReadOnly
        } else {
            DiskState::Good
        }
    }

    fn notes(&self) -> MutexGuard<'_, DiskNotes> {
        self.notes.lock().expect("nobody panics with it")
    }

    /// Logs how the disk is, where that has changed.
    pub fn log_change(before: DiskState, now: DiskState) {
        match now {
            DiskState::Hanging => {
                error!("the disk does not answer: until it does this node counts as silent");
            }
            DiskState::Failing => warn!("the disk gave an error; what it holds is read again"),
            DiskState::ReadOnly => warn!("the disk is read-only: it is given no chunks"),
            DiskState::Good => info!("the disk is {before} no more"),
        }
    }

    fn call(&self) -> WatchedCall<'_> {
        self.call_for(0)
    }

    /// A call that has to move so many bytes.
    fn call_for(&self, bytes: u64) -> WatchedCall<'_> {
        let mut notes = self.notes();
        let number = notes.next_call;
        notes.next_call += 1;
        notes.calls.insert(number, Instant::now() + Duration::from_secs(bytes / SLOWEST_DISK));
        WatchedCall { watch: self, number }
    }

    /// The medium or the system gave an error.
    fn failed(&self) {
        self.notes().failed_at = Some(Instant::now());
    }

    /// Does a call that answers with a fault of a copy.
    fn copy_call<T>(
        &self,
        call: impl FnOnce(&WatchedCall<'_>) -> Result<T, CopyFault>,
    ) -> Result<T, CopyFault> {
        let result = call(&self.call());
        if matches!(result, Err(CopyFault::Unreadable)) {
            self.failed();
        }
        result
    }

    /// Does a call that answers with another failure.
    fn disk_call<T>(
        &self,
        call: impl FnOnce(&WatchedCall<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.disk_call_for(0, call)
    }

    fn disk_call_for<T>(
        &self,
        bytes: u64,
        call: impl FnOnce(&WatchedCall<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let result = call(&self.call_for(bytes));
        if matches!(result, Err(Failure::Disk(_))) {
            self.failed();
        }
        result
    }
}

impl WatchedCall<'_> {
    fn goes_on(&self) {
        self.watch.notes().calls.insert(self.number, Instant::now());
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        self.watch.notes().calls.remove(&self.number);
    }
}

/// A store whose calls are watched.
#[derive(Debug)]
pub struct WatchedStore {
    store: Arc<dyn ChunkStore>,
    watch: Arc<DiskWatch>,
}

impl WatchedStore {
    /// Has the calls of a store watched.
    pub fn new(store: Arc<dyn ChunkStore>, watch: Arc<DiskWatch>) -> WatchedStore {
        WatchedStore { store, watch }
    }

    fn watched(&self, writer: Arc<dyn ChunkWriter>) -> Arc<dyn ChunkWriter> {
        Arc::new(WatchedWriter { writer, watch: self.watch.clone() })
    }
}

impl ChunkStore for WatchedStore {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        self.store.list().inspect_err(|_| self.watch.failed())
    }

    fn free_bytes(&self) -> Result<u64, Failure> {
        self.watch.disk_call(|_| {
            let is_read_only = self.store.is_read_only();
            self.watch.notes().is_read_only = is_read_only;
            self.store.free_bytes()
        })
    }

    fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        let reader = self.watch.copy_call(|_| self.store.open(copy))?;
        Ok(Arc::new(WatchedReader { reader, watch: self.watch.clone() }))
    }

    fn scan(&self, copy: ChunkCopy, each: &mut dyn FnMut(&[u8])) -> Result<(), CopyFault> {
        self.watch.copy_call(|call| {
            self.store.scan(copy, &mut |part| {
                call.goes_on();
                each(part);
            })
        })
    }

    fn label(&self, copy: ChunkCopy) -> Result<Label, CopyFault> {
        self.watch.copy_call(|_| self.store.label(copy))
    }

    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        self.watch
            .disk_call_for(bytes, |_| self.store.begin(bytes))
            .map(|writer| self.watched(writer))
    }

    fn begin_arriving(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        let writer = self.watch.disk_call(|_| self.store.begin_arriving(bytes));
        writer.map(|writer| self.watched(writer))
    }

    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        self.watch.disk_call(|_| self.store.delete(copy))
    }
}

#[derive(Debug)]
struct WatchedReader {
    reader: Arc<dyn ChunkReader>,
    watch: Arc<DiskWatch>,
}

impl ChunkReader for WatchedReader {
    fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    fn crc(&self) -> Option<u32> {
        self.reader.crc()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        self.watch.copy_call(|_| self.reader.read(offset, into))
    }
}

#[derive(Debug)]
struct WatchedWriter {
    writer: Arc<dyn ChunkWriter>,
    watch: Arc<DiskWatch>,
}

impl ChunkWriter for WatchedWriter {
    fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.watch.disk_call(|_| self.writer.write(offset, data))
    }

    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        self.watch.disk_call(|call| {
            self.writer.prove(recorded, &mut |part| {
                call.goes_on();
                each(part);
            })
        })
    }

    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure> {
        let bytes = self.writer.bytes();
        self.watch.disk_call_for(bytes, |_| self.writer.publish(copy, label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_call_that_does_not_end_is_a_disk_that_hangs_and_one_that_goes_on_is_not() {
        let watch = DiskWatch::new(LIMIT);
        let begun = Instant::now();
        assert_eq!(watch.state(begun + 10 * LIMIT), DiskState::Good, "nothing is asked");
        let (call, other) = (watch.call(), watch.call());
        let late = Instant::now() + LIMIT;
        assert_eq!(watch.state(begun), DiskState::Good);
        assert_eq!(watch.state(late), DiskState::Hanging);
        drop(other);
        assert_eq!(watch.state(late), DiskState::Hanging, "one is enough");
        std::thread::sleep(Duration::from_millis(2));
        call.goes_on();
        assert_eq!(watch.state(late), DiskState::Good);
        assert_eq!(watch.state(Instant::now() + LIMIT), DiskState::Hanging);
        drop(call);
        assert_eq!(watch.state(late + LIMIT), DiskState::Good);
    }

    #[test]
    fn a_call_that_moves_many_bytes_has_time_for_them() {
        let watch = DiskWatch::new(LIMIT);
        let call = watch.call_for(60 * SLOWEST_DISK);
        let begun = Instant::now();
        assert_eq!(watch.state(begun + LIMIT), DiskState::Good);
        assert_eq!(watch.state(begun + 2 * LIMIT), DiskState::Hanging);
        drop(call);
    }

    #[test]
    fn an_error_of_the_medium_is_seen_for_a_while_and_what_is_no_error_is_not() {
        let watch = DiskWatch::new(LIMIT);
        for fault in [CopyFault::Missing, CopyFault::Corrupt] {
            watch.copy_call(|_| Err::<(), _>(fault)).unwrap_err();
        }
        watch.disk_call(|_| Err::<(), _>(Failure::NoSpace)).unwrap_err();
        assert_eq!(watch.state(Instant::now()), DiskState::Good);
        watch.notes().is_read_only = true;
        assert_eq!(watch.state(Instant::now()), DiskState::ReadOnly);
        watch.copy_call(|_| Err::<(), _>(CopyFault::Unreadable)).unwrap_err();
        assert_eq!(watch.state(Instant::now()), DiskState::Failing);
        let later = Instant::now() + FAILING_FOR;
        assert_eq!(watch.state(later), DiskState::ReadOnly);
        watch.disk_call(|_| Err::<(), _>(Failure::Disk("EIO".into()))).unwrap_err();
        assert_eq!(watch.state(Instant::now()), DiskState::Failing);
    }
}
