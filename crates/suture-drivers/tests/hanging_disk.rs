//! A disk that hangs while it makes a chunk durable: the client that waits for it is answered so.
//!
//! Place: put -> [chunk durable]; before any failure.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::agents::{CLUSTER, client, config};
use suture_drivers::agent::session::session;
use suture_drivers::agent::{self, Config};
use suture_drivers::chunk_client::ChunkError;
use suture_drivers::limit::Rates;
use suture_drivers::net;
use suture_drivers::store::{Identity, Store};
use suture_edge::checksum::crc32c;
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published};
use suture_repair::id::{ChunkCopy, ChunkIndex, ListedCopy, NodeId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};
use suture_repair::wire::Denial;
use tokio::sync::oneshot;

/// Whether the disk hangs.
#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn hang(&self, hangs: bool) {
        *self.0.0.lock().unwrap() = hangs;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |hangs| *hangs).unwrap());
    }
}

/// Lets the disk go on when the test ends, however it does: what waits for a disk keeps the
/// process.
struct EndsHanging(Gate);

impl Drop for EndsHanging {
    fn drop(&mut self) {
        self.0.hang(false);
    }
}

#[derive(Debug)]
struct HangingStore(Store, Gate);

#[derive(Debug)]
struct HangingWriter(Arc<dyn ChunkWriter>, Gate);

impl ChunkStore for HangingStore {
    fn list(&self) -> Result<Vec<ListedCopy>, Failure> {
        self.0.list()
    }
    fn free_bytes(&self) -> Result<u64, Failure> {
        self.0.free_bytes()
    }
    fn open(&self, copy: ChunkCopy) -> Result<Arc<dyn ChunkReader>, CopyFault> {
        self.0.open(copy)
    }
    fn begin(&self, bytes: u64) -> Result<Arc<dyn ChunkWriter>, Failure> {
        Ok(Arc::new(HangingWriter(self.0.begin(bytes)?, self.1.clone())))
    }
    fn delete(&self, copy: ChunkCopy) -> Result<(), Failure> {
        self.0.delete(copy)
    }
}

impl ChunkWriter for HangingWriter {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.0.write(offset, data)
    }
    fn prove(&self, recorded: Option<u32>, each: &mut dyn FnMut(&[u8])) -> Result<u32, Failure> {
        self.0.prove(recorded, each)
    }
    fn publish(&self, copy: ChunkCopy, label: &Label) -> Result<Published, Failure> {
        self.1.pass();
        self.0.publish(copy, label)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_chunk_on_a_disk_that_hangs_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { cluster: CLUSTER, node: "n0".into() };
    let gate = Gate::default();
    let _ends = EndsHanging(gate.clone());
    let store = HangingStore(Store::open(dir.path(), &identity).unwrap(), gate.clone());
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (seam, mut feed) = session();
    let (stop, stopped) = oneshot::channel::<()>();
    let disk_hangs_after = Duration::from_millis(300);
    let config = Config { disk_hangs_after, ..config(NodeId(0), Rates::default(), dir.path()) };
    let ended = tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        agent::run(config, Arc::new(store), seam, listener, shutdown).await.unwrap();
    });
    tokio::spawn(async move { while feed.outbox.recv().await.is_some() {} });

    let copy =
        |stripe| ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(0), stamp: Stamp(0) };
    let data = vec![7; 5000];
    gate.hang(true);
    // More than are made durable at a time: those that wait for that are answered as well.
    let puts = (0..7).map(|stripe| {
        let data = data.clone();
        tokio::spawn(
            async move { client().write_chunk(addr, copy(stripe), crc32c(&data), &data).await },
        )
    });
    for put in puts.collect::<Vec<_>>() {
        match put.await.unwrap() {
            Err(ChunkError::Refused { why: Denial::Disk, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    gate.hang(false);
    // It takes chunks again once it has answered.
    client().write_chunk(addr, copy(9), crc32c(&data), &data).await.unwrap();
    drop(stop);
    ended.await.unwrap();
}
