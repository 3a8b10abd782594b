//! Writing an object: cut into stripes, encoded, every chunk durable, then visible at once.
//!
//! Place: source -> [encoded, every chunk durable] -> object visible; before any failure.
//! * Each stripe streams: a thread reads a window of every data chunk, computes the parity of that
//!   window and hands all n to n tasks, which push them to n agents. A source that cannot be read
//!   at k places at once (stdin) is spooled to an unnamed file, a stripe at a time.
//! * A chunk that cannot be stored is left without a location, as long as one more than the data
//!   chunks are durable; repair will bring it. Fewer, and the put fails and nothing is visible.
//! * Stripes are told to the coordinator in order, and only `Commit` makes the object visible.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use suture_code::layout::Layout;
use suture_code::{Code, Program};
use suture_edge::progress::{self, Progress};
use suture_repair::id::{ChunkCopy, Stamp, StripeId};
use suture_repair::wire::ClusterId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::layout::{Checksum, chunk_bytes_for, data_in_chunk, join_checksums, object_digest};
use super::pool::ConnectionPool;
use crate::chunk_client::ChunkError;
use crate::control::client::{Client, refusal};
use crate::control::proto::put_reply::Step as Reply;
use crate::control::proto::put_request::Step;
use crate::control::{convert, proto};

/// Bytes of each chunk that move at a time.
const WINDOW_BYTES: u64 = 256 << 10;

/// Bytes of each sub-chunk that are encoded at a time: with a thousand sub-chunks still a few MiB.
const ROW_BYTES: u64 = 4 << 10;

/// Windows that may wait for one agent, beside the one that it takes.
const WINDOWS_AHEAD: usize = 2;

/// Stripes under way: while one waits for disks, others fill the links.
const STRIPES_AT_ONCE: usize = 4;

/// Places are asked for at most so many stripes at a time; the fewer, the fresher.
const PLACES_AHEAD: u64 = 32;

/// What is to be stored.
pub enum ObjectSource {
    /// Can be read anywhere, and must not change meanwhile.
    File(Arc<File>, Metadata),
    /// Can be read once.
    Stream(Box<dyn Read + Send>),
}

impl ObjectSource {
    /// A file to be read where needed.
    ///
    /// # Errors
    /// When the file's length cannot be asked for.
    pub fn file(file: File) -> io::Result<ObjectSource> {
        let metadata = file.metadata()?;
        Ok(ObjectSource::File(Arc::new(file), metadata))
    }

    /// A file that changed meanwhile would give parity of bytes that were never together.
    fn ensure_unchanged(&self) -> Result<()> {
        let ObjectSource::File(file, before) = self else { return Ok(()) };
        let now = file.metadata().context("cannot read the input")?;
        let same = now.len() == before.len() && now.modified().ok() == before.modified().ok();
        ensure!(
            same,
            "the input changed while it was stored; put it again when nobody writes to it"
        );
        Ok(())
    }
}

/// What has been stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Length of the object.
    pub bytes: u64,
    /// How many stripes it became.
    pub stripes: u64,
    /// Bytes of all chunks that are durable.
    pub stored_bytes: u64,
    /// Chunks that repair has to bring.
    pub missing_chunks: u64,
}

/// How an object is to be stored.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// Unique among objects; a taken one is refused.
    pub name: String,
    /// How its stripes are encoded.
    pub code: Code,
    /// The length of chunks.
    pub chunk_bytes: u64,
}

/// Stores a source as an object.
///
/// # Errors
/// Bad input when the name is taken or nodes are too few; a failure when too few chunks become
/// durable, the source cannot be read or changes, or the coordinator goes away. Nothing is visible
/// then.
pub async fn put(
    client: &mut Client,
    options: &PutOptions,
    source: ObjectSource,
    progress: &Arc<Progress<'static>>,
) -> Result<Stored> {
    let mut session = PutStream::begin(client, options).await?;
    let writer = Arc::new(Writer {
        code: options.code,
        encode: Program::compile(&options.code.encode_dag())?,
        pool: ConnectionPool::new(session.cluster),
        progress: progress.clone(),
    });
    let mut cutter = Cutter::new(source, options);
    let mut written = Written { next: 0, waiting: BTreeMap::new(), ..Written::default() };
    let mut in_flight = JoinSet::new();
    let mut ordinal = 0;
    loop {
        while in_flight.len() < STRIPES_AT_ONCE {
            let (back, cut) = tokio::task::spawn_blocking(move || {
                let cut = cutter.next();
                (cutter, cut)
            })
            .await?;
            cutter = back;
            let Some(cut) = cut? else { break };
            let place = session.place(cutter.stripes_left() + 1).await?;
            in_flight.spawn(writer.clone().write_stripe(ordinal, cut, place));
            ordinal += 1;
        }
        let Some(stripe) = in_flight.join_next().await else { break };
        for (stripe, checksum) in written.accept(stripe??) {
            written.count(&stripe, checksum);
            session.send(Step::Stripe(stripe)).await?;
        }
    }
    cutter.source.ensure_unchanged()?;
    let (bytes, checksum) = written.checksum.so_far();
    session.commit(bytes, checksum).await?;
    Ok(written.stored)
}

/// Puts finished stripes back in order.
#[derive(Default)]
struct Written {
    next: u64,
    waiting: BTreeMap<u64, (proto::PutStripe, u64)>,
    checksum: Checksum,
    stored: Stored,
}

impl Written {
    fn accept(&mut self, done: Done) -> Vec<(proto::PutStripe, u64)> {
        self.waiting.insert(done.ordinal, (done.stripe, done.checksum));
        let mut ready = Vec::new();
        while let Some(entry) = self.waiting.remove(&self.next) {
            self.next += 1;
            ready.push(entry);
        }
        ready
    }

    fn count(&mut self, stripe: &proto::PutStripe, checksum: u64) {
        let missing = stripe.chunks.iter().filter(|chunk| chunk.node.is_none()).count() as u64;
        let present = stripe.chunks.len() as u64 - missing;
        self.checksum.add(self.stored.bytes, stripe.data_bytes, checksum);
        self.stored.bytes += stripe.data_bytes;
        self.stored.stripes += 1;
        self.stored.stored_bytes += present * stripe.chunk_bytes;
        self.stored.missing_chunks += missing;
    }
}

/// What the coordinator should not have said.
fn unexpected(reply: &Reply, request: &str) -> String {
    let reply = match reply {
        Reply::Begun(_) => "Begun",
        Reply::Placed(_) => "Placed",
        Reply::Committed(_) => "Committed",
    };
    format!("unexpected reply {reply} to request {request} of a put")
}

/// The put's stream to the coordinator.
struct PutStream {
    cluster: ClusterId,
    requests: mpsc::Sender<proto::PutRequest>,
    replies: Streaming<proto::PutReply>,
    places: std::vec::IntoIter<proto::Place>,
}

impl PutStream {
    async fn begin(client: &mut Client, options: &PutOptions) -> Result<PutStream> {
        let (requests, words) = mpsc::channel(STRIPES_AT_ONCE);
        let begin = Step::Begin(proto::PutBegin {
            name: options.name.clone(),
            code: options.code.to_string(),
            chunk_bytes: options.chunk_bytes,
        });
        requests.try_send(proto::PutRequest { step: Some(begin) }).expect("the queue is new");
        let replies = client.put(ReceiverStream::new(words)).await.map_err(refusal)?.into_inner();
        let places = Vec::new().into_iter();
        let mut begun = PutStream { cluster: ClusterId(0), requests, replies, places };
        let answer = match begun.receive().await? {
            Reply::Begun(answer) => answer,
            other => bail!(unexpected(&other, "Begin")),
        };
        begun.cluster = ClusterId(answer.cluster);
        Ok(begun)
    }

    /// Where the next stripe goes, of so many that are still to come.
    async fn place(&mut self, stripes: u64) -> Result<proto::Place> {
        if let Some(place) = self.places.next() {
            return Ok(place);
        }
        let stripes = stripes.min(PLACES_AHEAD) as u32;
        self.send(Step::Place(proto::PutPlace { stripes })).await?;
        let placed = match self.receive().await? {
            Reply::Placed(placed) => placed,
            other => bail!(unexpected(&other, "Place")),
        };
        self.places = placed.places.into_iter();
        self.places.next().context("the coordinator gave no places")
    }

    async fn commit(mut self, bytes: u64, checksum: u64) -> Result<()> {
        self.send(Step::Commit(proto::PutCommit { bytes, checksum })).await?;
        match self.receive().await? {
            Reply::Committed(proto::Done {}) => Ok(()),
            other => bail!(unexpected(&other, "Commit")),
        }
    }

    async fn send(&mut self, step: Step) -> Result<()> {
        if self.requests.send(proto::PutRequest { step: Some(step) }).await.is_ok() {
            return Ok(());
        }
        // It ended the put, and says why.
        self.receive().await.map(drop)?;
        bail!("the coordinator ended the put")
    }

    async fn receive(&mut self) -> Result<Reply> {
        let reply = self.replies.message().await.map_err(refusal)?;
        reply.and_then(|reply| reply.step).context("the coordinator ended the put")
    }
}

/// Cuts a source into stripes.
struct Cutter {
    source: ObjectSource,
    /// Data of a full stripe.
    stripe_bytes: u64,
    chunk_bytes: u64,
    code: Code,
    at: u64,
}

/// One stripe's data, wherever it is.
struct Cut {
    file: Arc<File>,
    offset: u64,
    data_bytes: u64,
    chunk_bytes: u64,
}

impl Cut {
    /// Reads a part of a data chunk into `window`, which is zeros; gives what there is of it.
    fn read<'a>(&self, chunk: u64, offset: u64, window: &'a mut [u8]) -> Result<&'a [u8]> {
        let chunk_data = data_in_chunk(chunk, self.chunk_bytes, self.data_bytes);
        let length = chunk_data.saturating_sub(offset).min(window.len() as u64);
        let piece = &mut window[..length as usize];
        let from = self.offset + chunk * self.chunk_bytes + offset;
        self.file.read_exact_at(piece, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => anyhow!("the input became shorter while it was stored"),
            _ => anyhow::Error::new(error).context("cannot read the input"),
        })?;
        Ok(piece)
    }
}

impl Cutter {
    fn new(source: ObjectSource, options: &PutOptions) -> Cutter {
        let stripe_bytes = options.chunk_bytes * options.code.data_chunks() as u64;
        Cutter { source, stripe_bytes, chunk_bytes: options.chunk_bytes, code: options.code, at: 0 }
    }

    fn next(&mut self) -> Result<Option<Cut>> {
        let (file, offset, data_bytes) = match &mut self.source {
            ObjectSource::File(file, metadata) => {
                (file.clone(), self.at, self.stripe_bytes.min(metadata.len() - self.at))
            }
            ObjectSource::Stream(stream) => {
                let mut spool = tempfile::tempfile().context("cannot create a temporary file")?;
                let copied = io::copy(&mut stream.take(self.stripe_bytes), &mut spool);
                (Arc::new(spool), 0, copied.context("cannot read or spool the input")?)
            }
        };
        self.at += data_bytes;
        if data_bytes == 0 {
            return Ok(None);
        }
        let chunk_bytes = match data_bytes == self.stripe_bytes {
            true => self.chunk_bytes,
            false => chunk_bytes_for(&self.code, data_bytes),
        };
        Ok(Some(Cut { file, offset, data_bytes, chunk_bytes }))
    }

    /// How many stripes are still to come; for a stream nobody knows.
    fn stripes_left(&self) -> u64 {
        match &self.source {
            ObjectSource::File(_, metadata) => {
                (metadata.len() - self.at).div_ceil(self.stripe_bytes)
            }
            ObjectSource::Stream(_) => PLACES_AHEAD,
        }
    }
}

struct Writer {
    code: Code,
    encode: Program,
    pool: ConnectionPool,
    progress: Arc<Progress<'static>>,
}

/// A stripe that is durable.
struct Done {
    ordinal: u64,
    stripe: proto::PutStripe,
    checksum: u64,
}

impl Writer {
    async fn write_stripe(
        self: Arc<Self>,
        ordinal: u64,
        cut: Cut,
        place: proto::Place,
    ) -> Result<Done> {
        let (data_bytes, chunk_bytes) = (cut.data_bytes, cut.chunk_bytes);
        let (stripe, stamp) = (StripeId(place.stripe), Stamp(place.stamp));
        let mut feeds = Vec::new();
        let mut chunks = Vec::new();
        for (chunk, peer) in self.code.chunks().zip(&place.nodes) {
            let (feed, windows) = mpsc::channel(WINDOWS_AHEAD);
            feeds.push(feed);
            let copy = ChunkCopy { stripe, chunk, stamp };
            let agent = convert::decode_peer(peer).ok().and_then(|(_, address)| address);
            let writer = self.clone();
            chunks.push(tokio::spawn(writer.write_chunk(agent, copy, chunk_bytes, windows)));
        }
        let writer = self.clone();
        let checksum = tokio::task::spawn_blocking(move || writer.feed(&cut, feeds)).await??;
        let mut records = Vec::new();
        let mut troubles = Vec::new();
        for (chunk, peer) in chunks.into_iter().zip(&place.nodes) {
            let Sent { crc, result } = chunk.await?;
            let node = result.is_ok().then_some(peer.node);
            troubles.extend(result.err());
            records.push(proto::Chunk { node, crc, stamp: stamp.0, ..Default::default() });
        }
        let durable = records.len() - troubles.len();
        let least = self.code.durable_chunks_min();
        if durable < least {
            let (count, why) = (records.len(), troubles.swap_remove(0));
            return Err(why.context(format!(
                "only {durable} of {count} chunks of a stripe could be stored, {} needs at least {least}; nothing was stored",
                self.code
            )));
        }
        let stripe =
            proto::PutStripe { stripe: place.stripe, data_bytes, chunk_bytes, chunks: records };
        Ok(Done { ordinal, stripe, checksum })
    }

    /// Reads, encodes and hands out window after window; gives the checksum of the data.
    fn feed(&self, cut: &Cut, feeds: Vec<mpsc::Sender<Bytes>>) -> Result<u64> {
        let data_chunks = self.code.data_chunks();
        let spooled = match self.code.sub_chunk_count() {
            1 => None,
            _ => Some(self.spool_parity(cut).context("cannot spool parity to a temporary file")?),
        };
        let mut digests: Vec<_> = (0..data_chunks).map(|_| object_digest()).collect();
        for offset in (0..cut.chunk_bytes).step_by(WINDOW_BYTES as usize) {
            let length = WINDOW_BYTES.min(cut.chunk_bytes - offset) as usize;
            let mut windows = vec![vec![0; length]; self.code.chunk_count()];
            let (data, parity) = windows.split_at_mut(data_chunks);
            for (chunk, window) in data.iter_mut().enumerate() {
                let piece = cut.read(chunk as u64, offset, window)?;
                digests[chunk].update(piece);
                (self.progress)(progress::Step::Done(piece.len() as u64));
            }
            match &spooled {
                None => {
                    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                    let outputs = parity.iter_mut().map(Vec::as_mut_slice);
                    self.encode.run(&sources, &mut outputs.collect::<Vec<_>>())?;
                }
                Some(spool) => {
                    for (chunk, window) in parity.iter_mut().enumerate() {
                        spool.read_exact_at(window, chunk as u64 * cut.chunk_bytes + offset)?;
                    }
                }
            }
            for (feed, window) in feeds.iter().zip(windows) {
                // Chunk tasks take all windows, also when they could not store the first.
                let _ = feed.blocking_send(window.into());
            }
        }
        let sums = digests.into_iter().enumerate().map(|(chunk, digest)| {
            (digest.finalize(), data_in_chunk(chunk as u64, cut.chunk_bytes, cut.data_bytes))
        });
        Ok(sums.fold(0, |whole, (sum, bytes)| join_checksums(whole, sum, bytes)))
    }

    /// The parity of a code with sub-chunks, chunk after chunk in an unnamed file: every byte of it
    /// needs bytes from all over the data chunks, so it cannot come in their order.
    fn spool_parity(&self, cut: &Cut) -> Result<File> {
        let spool = tempfile::tempfile()?;
        let layout = Layout::of(&self.code, cut.chunk_bytes);
        let alpha = layout.sub_chunk_count() as usize;
        for window in layout.whole().parts(ROW_BYTES) {
            let pieces = || window.pieces_by_sub_chunk(window.sub_chunks());
            let mut rows = vec![vec![0; window.positions()]; self.code.chunk_count() * alpha];
            let (data, parity) = rows.split_at_mut(self.code.data_chunks() * alpha);
            for (chunk, rows) in (0..).zip(data.chunks_mut(alpha)) {
                for (piece, row) in pieces().zip(rows) {
                    cut.read(chunk, piece.offset, row)?;
                }
            }
            let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let outputs = parity.iter_mut().map(Vec::as_mut_slice);
            self.encode.run(&sources, &mut outputs.collect::<Vec<_>>())?;
            for (chunk, rows) in (0..).zip(parity.chunks(alpha)) {
                for (piece, row) in pieces().zip(rows) {
                    spool.write_all_at(row, chunk * cut.chunk_bytes + piece.offset)?;
                }
            }
        }
        Ok(spool)
    }

    /// Stores one chunk as its windows come. Its checksum is known whether or not it is stored,
    /// because a chunk without a location is rebuilt against it.
    async fn write_chunk(
        self: Arc<Self>,
        agent: Option<SocketAddr>,
        copy: ChunkCopy,
        bytes: u64,
        mut windows: mpsc::Receiver<Bytes>,
    ) -> Sent {
        let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
        let result = match agent {
            None => Err(anyhow!("no node has enough free bytes for {copy}")),
            Some(agent) if self.pool.is_silent(agent) => {
                Err(anyhow!("the agent at {agent} does not answer"))
            }
            Some(agent) => {
                let sent = self.send_chunk(agent, copy, bytes, &mut windows, &mut digest).await;
                sent.map_err(anyhow::Error::from)
            }
        };
        while let Some(window) = windows.recv().await {
            digest.update(&window);
        }
        Sent { crc: digest.finalize() as u32, result }
    }

    async fn send_chunk(
        &self,
        agent: SocketAddr,
        copy: ChunkCopy,
        bytes: u64,
        windows: &mut mpsc::Receiver<Bytes>,
        digest: &mut crc_fast::Digest,
    ) -> Result<(), ChunkError> {
        let mut connection = self.pool.take(agent).await?;
        let send = async {
            let mut writer = connection.write(copy, bytes).await?;
            while let Some(window) = windows.recv().await {
                digest.update(&window);
                writer.push(&window).await?;
            }
            writer.finish(digest.finalize() as u32).await
        };
        let result = send.await;
        self.pool.give(agent, connection, &result);
        result
    }
}

/// What became of one chunk.
struct Sent {
    crc: u32,
    result: Result<()>,
}
