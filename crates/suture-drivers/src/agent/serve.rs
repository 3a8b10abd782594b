//! Chunks for clients: put writes them here, get reads them, a rebuild of the metadata their
//! labels.
//!
//! Place: beside the whole life of a repair; a read that meets a bad copy is [failure detected].
//! A written chunk goes the way of a rebuilt one: temporary file, read back against its checksum,
//! durable, then named. A read that meets a damaged block reports that, to the client and to the
//! coordinator, which has the chunk repaired.
//!
//! Memory: one buffer for each operation that moves bytes, and few of them at a time. Clients are
//! not trusted, so they hold nothing for long: an operation that waits for its other side gives up
//! its place and its buffer while others wait for one, the holder of the fewest places is served
//! first, and clients have other places than operators. One that falls too far behind the least
//! rate ends, and so does a connection on which nothing is asked for; space on disk is taken as a
//! chunk's bytes come.

mod limits;

use std::sync::Arc;
use std::time::Duration;

use suture_edge::checksum::{Crc32c, crc32c};
use suture_repair::chunk_store::{ChunkReader, ChunkStore, ChunkWriter, Published, short};
use suture_repair::id::{ChunkCopy, ListedCopy};
use suture_repair::label::{LABEL_BYTES_MAX, Label};
use suture_repair::message::{CopyFault, DiskState, Failure};
use suture_repair::plan::Range;
use suture_repair::slice::PAYLOAD_BYTES_MAX;
use suture_repair::wire::{Denial, Frame, Payload};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::disk::DiskEvent;
use super::disk_watch::DiskWatch;
use super::scope::Scope;
use crate::identity::AccessRole;
use crate::limit::{LinkPorts, Purpose};
use crate::metrics::agent::{AgentMetrics, DiskOperation};
use crate::net::connection::{Connection, Traffic};
use crate::net::error::NetError;
use crate::net::fair_places::SharedPlace;
use crate::net::refusals::RefusalLog;
use crate::put_key::PutKey;

use limits::OperationPlaces;
pub use limits::{ClientLimits, OperationLimits};

/// What a read sends at a time.
const READ_BYTES: u64 = 256 * 1024;

/// Of a frame whose payload was not taken whole, what is read again at a time.
const AGAIN_BYTES: u64 = 64 * 1024;

/// Of what a probe asks for, in one frame.
const PROBE_BYTES: usize = 64 * 1024;

/// That the disk hangs is noticed this much later at most, where a chunk is to become durable.
const HANGING_SEEN_WITHIN: Duration = Duration::from_secs(1);

/// Serves the chunks of one store.
#[derive(Debug)]
pub struct ChunkService {
    store: Arc<dyn ChunkStore>,
    disk: Arc<DiskWatch>,
    ports: LinkPorts,
    limits: ClientLimits,
    readers: OperationPlaces,
    writers: OperationPlaces,
    proofs: Arc<Semaphore>,
    events: mpsc::UnboundedSender<DiskEvent>,
    /// Clients that name chunks of others.
    refusals: RefusalLog,
    /// By which the stamps of puts are known, once a coordinator has sent it.
    put_key: watch::Receiver<Option<PutKey>>,
    metrics: Arc<AgentMetrics>,
}

/// What a [`ChunkService`] is made of.
pub struct ChunkServiceParts {
    /// The store whose chunks it serves.
    pub store: Arc<dyn ChunkStore>,
    /// What watches the store.
    pub disk: Arc<DiskWatch>,
    /// The limits of the links.
    pub ports: LinkPorts,
    /// The limits of clients.
    pub limits: ClientLimits,
    /// How many chunks are read back at a time.
    pub proofs: Arc<Semaphore>,
    /// Where it is reported what was found of copies.
    pub events: mpsc::UnboundedSender<DiskEvent>,
    /// What is counted for monitoring.
    pub metrics: Arc<AgentMetrics>,
    /// The put key, once a coordinator has sent it.
    pub put_key: watch::Receiver<Option<PutKey>>,
}

/// What a client has under way: its connection, and the place that it has while it moves bytes.
struct Operation<'a> {
    connection: &'a mut Connection,
    place: SharedPlace,
}

/// A chunk on its way in.
struct Arriving {
    copy: ChunkCopy,
    bytes: u64,
    received: u64,
    label: Label,
    /// Where it goes, or why it goes nowhere: then the rest is read past, so that the client can
    /// send the whole chunk before it receives the error.
    chunk: Result<Arc<dyn ChunkWriter>, Denial>,
}

impl ChunkService {
    /// Serves a store within the limits of links and clients.
    pub fn new(parts: ChunkServiceParts) -> Arc<ChunkService> {
        let ChunkServiceParts { store, disk, ports, limits, .. } = parts;
        let places = |of| OperationPlaces::new(of, limits.connections);
        let (readers, writers) = (places(limits.reads), places(limits.writes));
        Arc::new(ChunkService {
            store,
            disk,
            ports,
            limits,
            readers,
            writers,
            proofs: parts.proofs,
            events: parts.events,
            refusals: RefusalLog::default(),
            put_key: parts.put_key,
            metrics: parts.metrics,
        })
    }

    /// Answers one client until it hangs up, or is idle for too long.
    pub async fn serve(self: Arc<ChunkService>, mut connection: Connection) {
        let mut scope = Scope::of(connection.principal());
        loop {
            let request = connection.read_frame_within(self.limits.idle, "waiting for a request");
            let result = match request.await {
                Ok(frame) => self.answer(&mut connection, &mut scope, frame).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {}
                Err(NetError::Closed) => return,
                Err(error) => return debug!("a client's connection ended: {error}"),
            }
        }
    }

    async fn answer(
        &self,
        connection: &mut Connection,
        scope: &mut Scope,
        frame: Frame,
    ) -> Result<(), NetError> {
        let (places, OperationLimits { least, .. }) = match frame {
            Frame::WriteChunk { .. } => (&self.writers, self.limits.writes),
            _ => (&self.readers, self.limits.reads),
        };
        let (_begun, place) = places.enter(connection).await;
        connection.expect(Some(least));
        let operation = &mut Operation { connection, place };
        self.perform(operation, scope, frame).await?;
        operation.connection.expect(None);
        Ok(())
    }

    async fn perform(
        &self,
        operation: &mut Operation<'_>,
        scope: &mut Scope,
        frame: Frame,
    ) -> Result<(), NetError> {
        let Operation { connection, place } = operation;
        let is_agent = connection.principal().map(|who| who.role == AccessRole::Agent);
        if is_agent.is_some_and(|is_agent| is_agent != matches!(frame, Frame::Probe { .. })) {
            return connection.write_frame(Frame::Error(Denial::Unproven)).await;
        }
        place.begin().await;
        if let Frame::ReadChunk { copy, .. } | Frame::ReadLabel { copy } = frame
            && !scope.is_open(copy)
        {
            let store = self.store.clone();
            let label = blocking(move || store.label(copy)).await?;
            match label {
                Err(fault) => {
                    place.end();
                    return self.deny_read(connection, copy, fault).await;
                }
                Ok(label) => {
                    if let Err(denial) = scope.check_stored(copy, &label) {
                        place.end();
                        self.note_foreign(connection, "a read", copy);
                        return connection.write_frame(Frame::Error(denial)).await;
                    }
                }
            }
        }
        match frame {
            Frame::Probe { bytes } => self.answer_probe(connection, bytes as usize).await,
            Frame::ReadChunk { copy, digest, range } => {
                self.read(operation, ListedCopy { copy, digest }, range).await
            }
            Frame::WriteChunk { copy, bytes } => self.write(operation, scope, copy, bytes).await,
            Frame::ReadLabel { copy } => self.read_label(operation, copy).await,
            frame => {
                connection.write_frame(Frame::Error(Denial::Malformed)).await?;
                Err(NetError::Unexpected(frame))
            }
        }
    }

    async fn read(
        &self,
        Operation { connection, place }: &mut Operation<'_>,
        ListedCopy { copy, digest }: ListedCopy,
        range: Range,
    ) -> Result<(), NetError> {
        let store = self.store.clone();
        let open = move || short::open_matching(&*store, copy, digest);
        let chunk = match blocking(open).await? {
            Ok(chunk) => chunk,
            Err(fault) => {
                place.end();
                let store = self.store.clone();
                // What it should contain is the reader's word.
                let is_whole = blocking(move || store.open(copy).is_ok()).await?;
                if is_whole {
                    return connection.write_frame(Frame::Error(Denial::Fault(fault))).await;
                }
                return self.deny_read(connection, copy, fault).await;
            }
        };
        if range.to > chunk.bytes() {
            place.end();
            let denial = Denial::OutOfRange { bytes: chunk.bytes() };
            return connection.write_frame(Frame::Error(denial)).await;
        }
        let traffic = Traffic { port: &self.ports.uplink, purpose: Purpose::Client };
        let mut buffer = Vec::new();
        let mut offset = range.from;
        // Of the frame that was begun, if its payload was not taken whole.
        let mut left = 0;
        while offset < range.to {
            if place.is_wanted() {
                place.end();
                buffer = Vec::new();
                connection.drained(traffic).await?;
                place.begin().await;
            }
            let bytes = match left {
                0 => (range.to - offset).min(READ_BYTES),
                left => left.min(AGAIN_BYTES),
            };
            let result = self.read_part(chunk.clone(), offset, buffer, bytes as usize).await?;
            match result {
                Ok(filled) => buffer = filled,
                Err(damage) => {
                    place.end();
                    return self.deny_part(connection, copy, damage, left > 0).await;
                }
            }
            let data = &mut buffer[..bytes as usize];
            let payload = Payload { bytes: bytes as u32, crc: crc32c(data) };
            let header = Frame::ReadData(payload).encode();
            let headers = if left == 0 { &header[..] } else { &[] };
            left = if left == 0 { bytes } else { left };
            let taken = connection.write_sharing(headers, data, traffic, place).await?;
            connection.end_turn(traffic);
            (offset, left) = (offset + taken as u64, left - taken as u64);
        }
        place.end();
        connection.drained(traffic).await
    }

    /// Sends bytes of nothing: one as clients have theirs, or as many as the link carries at rest.
    async fn answer_probe(
        &self,
        connection: &mut Connection,
        bytes: usize,
    ) -> Result<(), NetError> {
        // Clients are to go before what fills a link, and what a byte waits is what clients wait.
        let purpose = if bytes > PROBE_BYTES { Purpose::Probe } else { Purpose::Client };
        if self.ports.dscp.is_some() {
            connection.mark(self.ports.dscp.filter(|_| purpose == Purpose::Probe))?;
        }
        let traffic = Traffic { port: &self.ports.uplink, purpose };
        let nothing = vec![0; bytes.min(PROBE_BYTES)];
        let mut left = bytes;
        while left > 0 {
            let part = &nothing[..left.min(PROBE_BYTES)];
            let payload = Payload { bytes: part.len() as u32, crc: crc32c(part) };
            connection.write(&Frame::ReadData(payload).encode(), part, traffic).await?;
            left -= part.len();
        }
        connection.end_turn(traffic);
        Ok(())
    }

    async fn read_label(
        &self,
        Operation { connection, place }: &mut Operation<'_>,
        copy: ChunkCopy,
    ) -> Result<(), NetError> {
        let store = self.store.clone();
        let label = blocking(move || store.label(copy)).await?;
        place.end();
        let label = match label {
            Ok(label) => label,
            Err(fault) => return self.deny_read(connection, copy, fault).await,
        };
        let data = label.bytes();
        let payload = Payload { bytes: data.len() as u32, crc: crc32c(data) };
        let traffic = Traffic { port: &self.ports.uplink, purpose: Purpose::Client };
        connection.write(&Frame::ReadData(payload).encode(), data, traffic).await?;
        connection.end_turn(traffic);
        Ok(())
    }

    /// Denies the rest of a read; in the middle of a frame by the end of the connection, since a
    /// client that waits for the rest of its payload would take the reason for payload.
    async fn deny_part(
        &self,
        connection: &mut Connection,
        copy: ChunkCopy,
        fault: CopyFault,
        is_within: bool,
    ) -> Result<(), NetError> {
        if is_within {
            let _ = self.events.send(DiskEvent::Found { copy, fault });
            return Err(NetError::Damaged);
        }
        self.deny_read(connection, copy, fault).await
    }

    async fn deny_read(
        &self,
        connection: &mut Connection,
        copy: ChunkCopy,
        fault: CopyFault,
    ) -> Result<(), NetError> {
        // Any client may ask for a copy that never existed; a reader that misses one reports that
        // to the coordinator.
        if fault != CopyFault::Missing {
            // A closed channel means that the agent is stopping.
            let _ = self.events.send(DiskEvent::Found { copy, fault });
        }
        connection.write_frame(Frame::Error(Denial::Fault(fault))).await
    }

    async fn write(
        &self,
        operation: &mut Operation<'_>,
        scope: &Scope,
        copy: ChunkCopy,
        bytes: u64,
    ) -> Result<(), NetError> {
        let store = self.store.clone();
        let chunk = blocking(move || store.begin_arriving(bytes)).await?;
        let chunk = chunk.map_err(|why| denial(copy, why));
        let mut arriving = Arriving { copy, bytes, received: 0, label: Label::default(), chunk };
        let mut buffer = Vec::new();
        loop {
            let Operation { connection, place } = operation;
            let came = connection.read_expected_frame("receiving a chunk", Some(place)).await?;
            let frame = match came {
                Some(frame) => frame,
                None => {
                    place.end();
                    buffer = Vec::new();
                    let came = connection.read_expected_frame("receiving a chunk", None).await?;
                    place.begin().await;
                    came.expect("nobody was given way to")
                }
            };
            match frame {
                Frame::WriteData(payload) => {
                    buffer = self.receive(operation, &mut arriving, payload, buffer).await?;
                }
                Frame::WriteLabel(payload) => {
                    place.end();
                    arriving.label = self.receive_label(connection, payload).await?;
                    place.begin().await;
                }
                Frame::WriteEnd { crc } => {
                    if !self.is_admitted(connection, copy) {
                        self.note_refusal(
                            connection,
                            "a chunk",
                            format!("no put was given {copy}"),
                        );
                        arriving.chunk = Err(Denial::NotOwned);
                    } else if let Err(denial) = scope.check(&arriving.label) {
                        self.note_foreign(connection, "a chunk", copy);
                        arriving.chunk = Err(denial);
                    }
                    // Proving has places of its own.
                    place.end();
                    let reply = match self.publish(arriving, crc).await? {
                        Ok(()) => Frame::WriteDone,
                        Err(denial) => Frame::Error(denial),
                    };
                    return connection.write_frame(reply).await;
                }
                frame => return Err(NetError::Unexpected(frame)),
            }
        }
    }

    /// Whether the coordinator had a client write this copy, by its stamp; others are not asked.
    fn is_admitted(&self, connection: &Connection, copy: ChunkCopy) -> bool {
        let is_client = connection.principal().is_some_and(|who| who.role == AccessRole::Client);
        !is_client || self.put_key.borrow().as_ref().is_some_and(|key| key.admits(copy))
    }

    fn note_foreign(&self, connection: &Connection, what: &str, copy: ChunkCopy) {
        let prefix = connection.principal().map_or("", |who| &who.prefix);
        let why = format!("{copy} is not of an object whose name begins with {prefix}");
        self.note_refusal(connection, what, why);
    }

    /// Logs a refusal: a client that names the chunks of others may be probing for access.
    fn note_refusal(&self, connection: &Connection, what: &str, why: String) {
        let address = connection.address();
        if let Some(who) = connection.principal() {
            self.refusals.note_of(what, format!("{who} at {address}"), why);
        }
    }

    async fn receive_label(
        &self,
        connection: &mut Connection,
        payload: Payload,
    ) -> Result<Label, NetError> {
        if payload.bytes as usize > LABEL_BYTES_MAX {
            return Err(NetError::Unexpected(Frame::WriteLabel(payload)));
        }
        let traffic = Traffic { port: &self.ports.downlink, purpose: Purpose::Client };
        let mut bytes = vec![0; payload.bytes as usize];
        connection.read_payload(&mut bytes, traffic).await?;
        let is_whole = crc32c(&bytes) == payload.crc;
        Label::new(&bytes).filter(|_| is_whole).ok_or(NetError::Damaged)
    }

    /// Takes the next bytes of a chunk; gives the buffer back.
    async fn receive(
        &self,
        Operation { connection, place }: &mut Operation<'_>,
        arriving: &mut Arriving,
        payload: Payload,
        mut buffer: Vec<u8>,
    ) -> Result<Vec<u8>, NetError> {
        let traffic = Traffic { port: &self.ports.downlink, purpose: Purpose::Client };
        if u64::from(payload.bytes) > arriving.bytes - arriving.received {
            return Err(NetError::Unexpected(Frame::WriteData(payload)));
        }
        let (mut left, mut sum) = (payload.bytes as usize, Crc32c::new());
        while left > 0 {
            if arriving.chunk.is_err() {
                place.end();
                connection.skip_payload(left as u32, traffic).await?;
                place.begin().await;
                arriving.received += left as u64;
                return Ok(buffer);
            }
            buffer.resize(buffer.len().max(left), 0);
            let into = &mut buffer[..left];
            let came = connection.read_payload_sharing(into, traffic, place).await?;
            sum.update(&buffer[..came]);
            left -= came;
            if left == 0 && sum.value() != payload.crc {
                return Err(NetError::Damaged);
            }
            buffer = self.write_part(arriving, buffer, came).await?;
            if left > 0 {
                // Another operation wants the place, and this one has nothing to do with it.
                place.end();
                buffer = Vec::new();
                connection.readable().await?;
                place.begin().await;
            }
        }
        Ok(buffer)
    }

    /// Writes what came of a chunk; gives the buffer back.
    async fn write_part(
        &self,
        arriving: &mut Arriving,
        buffer: Vec<u8>,
        bytes: usize,
    ) -> Result<Vec<u8>, NetError> {
        let Ok(chunk) = arriving.chunk.clone() else { return Ok(buffer) };
        let (metrics, offset) = (self.metrics.clone(), arriving.received);
        arriving.received += bytes as u64;
        let write = move || {
            let write = || chunk.write(offset, &buffer[..bytes]);
            let result = match bytes {
                0 => Ok(()),
                _ => metrics.timed(DiskOperation::ClientWrite, write),
            };
            (result, buffer)
        };
        let (result, buffer) = blocking(write).await?;
        if let Err(why) = result {
            arriving.chunk = Err(denial(arriving.copy, why));
        }
        Ok(buffer)
    }

    async fn publish(&self, arriving: Arriving, crc: u32) -> Result<Result<(), Denial>, NetError> {
        let Arriving { copy, bytes, received, label, chunk } = arriving;
        let chunk = match chunk {
            Ok(_) if received < bytes => return Ok(Err(Denial::Malformed)),
            Ok(chunk) => chunk,
            Err(denial) => return Ok(Err(denial)),
        };
        let (metrics, proofs) = (self.metrics.clone(), self.proofs.clone());
        let published = async move {
            let permit = proofs.acquire_owned().await.expect("never closed");
            let publish = move || {
                let _permit = permit;
                metrics.timed(DiskOperation::Publish, || {
                    let proven = chunk.prove(Some(crc), &mut |_| ());
                    proven.and_then(|_| chunk.publish(copy, &label))
                })
            };
            blocking(publish).await
        };
        let result = tokio::select! {
            result = published => result?,
            // A client that gets this error at once can store the chunk on another node instead of
            // waiting for its own timeout.
            () = self.disk_hangs() => Err(Failure::Disk("the disk does not answer".into())),
        };
        Ok(match result {
            Ok(Published::Named) => Ok(()),
            Ok(Published::Taken) => Err(Denial::Exists),
            Err(why) => {
                self.metrics.failed(&why);
                Err(denial(copy, why))
            }
        })
    }

    /// Ends when the disk does not answer.
    async fn disk_hangs(&self) {
        loop {
            tokio::time::sleep(HANGING_SEEN_WITHIN).await;
            if self.disk.state(std::time::Instant::now()) == DiskState::Hanging {
                return;
            }
        }
    }

    async fn read_part(
        &self,
        chunk: Arc<dyn ChunkReader>,
        offset: u64,
        mut buffer: Vec<u8>,
        bytes: usize,
    ) -> Result<Result<Vec<u8>, CopyFault>, NetError> {
        let metrics = self.metrics.clone();
        let read = move || {
            buffer.resize(buffer.len().max(bytes), 0);
            let read = || chunk.read(offset, &mut buffer[..bytes]);
            metrics.timed(DiskOperation::ClientRead, read).map(|()| buffer)
        };
        blocking(read).await
    }
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NetError> {
    spawn_blocking(job).await.map_err(|error| NetError::Io(std::io::Error::other(error)))
}

/// What is answered to the client of a write that failed.
fn denial(copy: ChunkCopy, why: Failure) -> Denial {
    match why {
        Failure::NoSpace => Denial::NoSpace,
        Failure::ProofFailed { expected, found } => Denial::ProofFailed { expected, found },
        why => {
            warn!("{copy} cannot be written: {why}");
            Denial::Disk
        }
    }
}

const _: () = assert!(READ_BYTES <= PAYLOAD_BYTES_MAX as u64);
