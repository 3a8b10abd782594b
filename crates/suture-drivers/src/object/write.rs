//! Writing an object: cut into stripes, encoded, every chunk durable, then visible at once.
//!
//! Place: source -> [encoded, every chunk durable] -> object visible; before any failure.
//! * Each stripe streams: a thread reads a window of every data chunk, computes the parity of that
//!   window and hands all n to n tasks, which push them to n agents. When all have their last
//!   window the checksums of all chunks are known, and each gets the label of the stripe.
//! * A chunk that cannot be stored is left without a location, as long as one more than the data
//!   chunks are durable; repair will bring it. Fewer, and the put fails and nothing is visible.
//! * Stripes are told to the coordinator in order, and only `Commit` makes the object visible.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use suture_code::layout::Layout;
use suture_code::{Code, Program};
use suture_edge::checksum::Crc32c;
use suture_edge::progress::{self, Progress};
use suture_repair::id::{ChunkCopy, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::wire::ClusterId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::cut::{Cut, Cutter, ObjectSource};
use super::layout::{Checksum, data_in_chunk, join_checksums, object_digest};
use super::pool::ConnectionPool;
use crate::control::client::{Client, refusal};
use crate::control::proto::put_reply::Step as Reply;
use crate::control::proto::put_request::Step;
use crate::control::{convert, proto};
use crate::label::StripeLabel;

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
        options: options.clone(),
        created: session.created,
        encode: Program::compile(&options.code.encode_dag())?,
        pool: ConnectionPool::new(session.cluster),
        progress: progress.clone(),
    });
    let mut cutter = Cutter::new(source, options.code, options.chunk_bytes);
    let mut written = Written { next: 0, waiting: BTreeMap::new(), ..Written::default() };
    let mut in_flight = JoinSet::new();
    let (mut ordinal, mut first) = (0, None);
    loop {
        while in_flight.len() < STRIPES_AT_ONCE {
            let (back, cut) = tokio::task::spawn_blocking(move || {
                let cut = cutter.cut();
                (cutter, cut)
            })
            .await?;
            cutter = back;
            let Some(cut) = cut? else { break };
            let place = session.place(cutter.stripes_left().map(|left| left + 1)).await?;
            let first = *first.get_or_insert(StripeId(place.stripe));
            let position = Position { first, ordinal };
            in_flight.spawn(writer.clone().write_stripe(position, cut, place));
            ordinal += 1;
        }
        let Some(stripe) = in_flight.join_next().await else { break };
        for stripe in written.accept(stripe??) {
            written.count(&stripe);
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
    waiting: BTreeMap<u64, proto::PutStripe>,
    checksum: Checksum,
    stored: Stored,
}

impl Written {
    fn accept(&mut self, done: Done) -> Vec<proto::PutStripe> {
        self.waiting.insert(done.ordinal, done.stripe);
        let mut ready = Vec::new();
        while let Some(entry) = self.waiting.remove(&self.next) {
            self.next += 1;
            ready.push(entry);
        }
        ready
    }

    fn count(&mut self, stripe: &proto::PutStripe) {
        let missing = stripe.chunks.iter().filter(|chunk| chunk.node.is_none()).count() as u64;
        let present = stripe.chunks.len() as u64 - missing;
        self.checksum.add(self.stored.bytes, stripe.data_bytes, stripe.checksum);
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
    created: u64,
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
        let mut begun = PutStream { cluster: ClusterId(0), created: 0, requests, replies, places };
        let answer = match begun.receive().await? {
            Reply::Begun(answer) => answer,
            other => bail!(unexpected(&other, "Begin")),
        };
        (begun.cluster, begun.created) = (ClusterId(answer.cluster), answer.created);
        Ok(begun)
    }

    /// Where the next stripe goes, of so many that are still to come, as far as that is known.
    async fn place(&mut self, stripes: Option<u64>) -> Result<proto::Place> {
        if let Some(place) = self.places.next() {
            return Ok(place);
        }
        let stripes = stripes.map_or(PLACES_AHEAD, |left| left.min(PLACES_AHEAD)) as u32;
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

struct Writer {
    options: PutOptions,
    /// When the put began, in seconds since 1970.
    created: u64,
    encode: Program,
    pool: ConnectionPool,
    progress: Arc<Progress<'static>>,
}

/// Where in its object a stripe is.
#[derive(Clone, Copy)]
struct Position {
    /// The object's first stripe.
    first: StripeId,
    /// How many come before it.
    ordinal: u64,
}

/// A stripe that is durable.
struct Done {
    ordinal: u64,
    stripe: proto::PutStripe,
}

/// The bytes of one chunk, and what it and its stripe tell each other while it is written.
struct Windows {
    feed: mpsc::Receiver<Bytes>,
    /// Of what was taken so far.
    crc: Crc32c,
    /// Takes the checksum of all.
    told: Option<oneshot::Sender<u32>>,
    /// What is kept beside the chunk, when the checksums of all chunks are known.
    label: watch::Receiver<Label>,
}

impl Writer {
    async fn write_stripe(
        self: Arc<Self>,
        position: Position,
        cut: Cut,
        place: proto::Place,
    ) -> Result<Done> {
        let (chunk_bytes, stamp) = (cut.chunk_bytes, Stamp(place.stamp));
        let stripe = StripeId(place.stripe);
        let (labelled, label) = watch::channel(Label::default());
        let (mut feeds, mut sums, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
        for (chunk, peer) in self.options.code.chunks().zip(&place.nodes) {
            let (feed, windows) = mpsc::channel(WINDOWS_AHEAD);
            let (told, sum) = oneshot::channel();
            feeds.push(feed);
            sums.push(sum);
            let copy = ChunkCopy { stripe, chunk, stamp };
            let agent = convert::decode_peer(peer).ok().and_then(|(_, address)| address);
            let writer = self.clone();
            let (crc, told, label) = (Crc32c::new(), Some(told), label.clone());
            let windows = Windows { feed: windows, crc, told, label };
            chunks.push(tokio::spawn(writer.write_chunk(agent, copy, chunk_bytes, windows)));
        }
        let label = self.clone().label(position, cut, feeds, sums).await?;
        labelled.send_replace(label.encode());
        let (mut records, mut troubles) = (Vec::new(), Vec::new());
        for ((chunk, peer), &crc) in chunks.into_iter().zip(&place.nodes).zip(&label.crcs) {
            let result = chunk.await?;
            let node = result.is_ok().then_some(peer.node);
            troubles.extend(result.err());
            records.push(proto::Chunk { node, crc, stamp: stamp.0, ..Default::default() });
        }
        let durable = records.len() - troubles.len();
        let code = self.options.code;
        let least = code.durable_chunks_min();
        if durable < least {
            let (count, why) = (records.len(), troubles.swap_remove(0));
            return Err(why.context(format!(
                "only {durable} of {count} chunks of a stripe could be stored, {code} needs at least {least}; nothing was stored"
            )));
        }
        let stripe = proto::PutStripe {
            stripe: place.stripe,
            data_bytes: label.data_bytes,
            chunk_bytes,
            chunks: records,
            checksum: label.checksum,
        };
        Ok(Done { ordinal: position.ordinal, stripe })
    }

    /// Hands out a stripe, and gives its label: the checksums of all of its chunks are in it.
    async fn label(
        self: Arc<Self>,
        Position { first, ordinal }: Position,
        cut: Cut,
        feeds: Vec<mpsc::Sender<Bytes>>,
        sums: Vec<oneshot::Receiver<u32>>,
    ) -> Result<StripeLabel> {
        let (data_bytes, chunk_bytes, is_last) = (cut.data_bytes, cut.chunk_bytes, cut.is_last);
        let writer = self.clone();
        let checksum = tokio::task::spawn_blocking(move || writer.feed(&cut, feeds)).await??;
        let mut crcs = Vec::new();
        for sum in sums {
            crcs.push(sum.await?);
        }
        let PutOptions { name, code, chunk_bytes: object_chunk_bytes } = self.options.clone();
        Ok(StripeLabel {
            object: name,
            code,
            object_chunk_bytes,
            created: self.created,
            first,
            ordinal,
            is_last,
            chunk_bytes,
            data_bytes,
            checksum,
            crcs,
        })
    }

    /// Reads, encodes and hands out window after window; gives the checksum of the data.
    fn feed(&self, cut: &Cut, feeds: Vec<mpsc::Sender<Bytes>>) -> Result<u64> {
        let data_chunks = self.options.code.data_chunks();
        let spooled = match self.options.code.sub_chunk_count() {
            1 => None,
            _ => Some(self.spool_parity(cut).context("cannot spool parity to a temporary file")?),
        };
        let mut digests: Vec<_> = (0..data_chunks).map(|_| object_digest()).collect();
        for offset in (0..cut.chunk_bytes).step_by(WINDOW_BYTES as usize) {
            let length = WINDOW_BYTES.min(cut.chunk_bytes - offset) as usize;
            let mut windows = vec![vec![0; length]; self.options.code.chunk_count()];
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
        let layout = Layout::of(&self.options.code, cut.chunk_bytes);
        let alpha = layout.sub_chunk_count() as usize;
        for window in layout.whole().parts(ROW_BYTES) {
            let pieces = || window.pieces_by_sub_chunk(window.sub_chunks());
            let mut rows =
                vec![vec![0; window.positions()]; self.options.code.chunk_count() * alpha];
            let (data, parity) = rows.split_at_mut(self.options.code.data_chunks() * alpha);
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

    /// Stores one chunk as its windows come, with the label that follows them. Its checksum is told
    /// whether or not it is stored, because a chunk without a location is rebuilt against it.
    async fn write_chunk(
        self: Arc<Self>,
        agent: Option<SocketAddr>,
        copy: ChunkCopy,
        bytes: u64,
        mut windows: Windows,
    ) -> Result<()> {
        let result = match agent {
            None => Err(anyhow!("no node has enough free bytes for {copy}")),
            Some(agent) if self.pool.is_silent(agent) => {
                Err(anyhow!("the agent at {agent} does not answer"))
            }
            Some(agent) => self.send_chunk(agent, copy, bytes, &mut windows).await,
        };
        windows.drain().await;
        result
    }

    async fn send_chunk(
        &self,
        agent: SocketAddr,
        copy: ChunkCopy,
        bytes: u64,
        windows: &mut Windows,
    ) -> Result<()> {
        let mut connection = self.pool.take(agent).await?;
        let send = async {
            let mut writer = connection.write(copy, bytes).await?;
            while let Some(window) = windows.next().await {
                writer.push(&window).await?;
            }
            let crc = windows.drain().await;
            match windows.label().await {
                Some(label) => writer.finish(crc, &label).await.map(|()| true),
                None => Ok(false),
            }
        };
        let result = send.await;
        self.pool.give(agent, connection, &result);
        ensure!(result?, "the stripe was given up");
        Ok(())
    }
}

impl Windows {
    async fn next(&mut self) -> Option<Bytes> {
        let window = self.feed.recv().await?;
        self.crc.update(&window);
        Some(window)
    }

    /// Takes what is left, and tells the checksum of all, once.
    async fn drain(&mut self) -> u32 {
        while self.next().await.is_some() {}
        let crc = self.crc.value();
        // Where the stripe was given up nobody waits for it.
        self.told.take().map(|told| told.send(crc));
        crc
    }

    /// What is kept beside the chunk; nothing when the stripe was given up.
    async fn label(&mut self) -> Option<Label> {
        self.label.changed().await.ok()?;
        Some(self.label.borrow().clone())
    }
}
