//! Writing an object: cut into stripes, encoded, every chunk durable, then visible at once.
//!
//! Place: source -> [encoded, every chunk durable] -> object visible; before any failure.
//! * Each stripe streams: a thread reads a buffer of every data chunk, computes the parity of that
//!   buffer and hands all n to n tasks, which push them to n agents. When all have their last
//!   buffer the checksums of all chunks are known, and each gets the label of the stripe.
//! * A chunk that cannot be stored, or whose agent lags far behind the others ([`put_times`]), is
//!   encoded again for another node, as long as there is one. Then it is left without a location,
//!   and repair will bring it, if enough others of its stripe are durable
//!   ([`Code::durable_chunks_min`]); if not, the put fails and nothing is visible.
//! * Stripes are reported to the coordinator in order, and only `Commit` makes the object visible.

mod chunk;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use suture_code::layout::Layout;
use suture_code::{Code, Program};
use suture_edge::checksum::Crc32c;
use suture_edge::progress::{self, Progress};
use suture_repair::id::{ChunkCopy, Stamp, StripeId};
use suture_repair::label::Label;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use self::chunk::{ChunkFeed, Interrupted, lags_behind};
use super::cut::{CHANGED, Cut, Cutter, ObjectSource};
use super::layout::{
    Checksum, EMPTY_CHECKSUM, SummedPrefix, data_in_chunk, join_checksums, object_digest,
};
use super::pool::ConnectionPool;
use super::put_stream::{PutOptions, PutStream};
use super::put_times::{PutTimes, Spare};
use crate::control::client::Client;
use crate::control::proto::put_request::Step;
use crate::control::{convert, proto};
use crate::label::StripeLabel;

/// Bytes of each chunk that move at a time.
const BUFFER_BYTES: u64 = 256 << 10;

/// Bytes of each sub-chunk that are encoded at a time: with a thousand sub-chunks still a few MiB.
const ROW_BYTES: u64 = 4 << 10;

/// Buffers that may wait for one agent, beside the one that it takes.
const BUFFERS_AHEAD: usize = 2;

/// Stripes under way: while one waits for disks, others fill the links.
const STRIPES_AT_ONCE: usize = 4;

/// The parity of a stripe, and what it is the parity of.
struct ParitySpool {
    /// Parity chunk after parity chunk, in a file without a name.
    file: File,
    /// The checksum of what was read of each data chunk.
    sums: Vec<u64>,
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

/// What puts one after the other, and beside each other, know of the agents of one cluster:
/// connections that serve again, and agents that lag.
#[derive(Default)]
pub struct PutAgents {
    pool: OnceLock<ConnectionPool>,
    times: PutTimes,
}

/// Stores a source as an object.
///
/// # Errors
/// Bad input when the name is taken or nodes are too few; a failure when too few chunks become
/// durable, the source cannot be read or changes, or the coordinator goes away. Nothing is visible
/// then, but for a commit whose outcome is not known ([`NotKnown`]).
///
/// [`NotKnown`]: super::unanswered::NotKnown
pub async fn put(
    client: &mut Client,
    agents: &Arc<PutAgents>,
    options: &PutOptions,
    source: ObjectSource,
    progress: &Arc<Progress<'static>>,
) -> Result<Stored> {
    let mut session = PutStream::begin(client, options).await?;
    let pool = || ConnectionPool::new(session.cluster, client.credentials.clone());
    agents.pool.get_or_init(pool);
    let writer = Arc::new(Writer {
        options: options.clone(),
        created: session.created,
        encode: Program::compile(&options.code.encode_dag())?,
        agents: agents.clone(),
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
            let mut place = session.place(cutter.stripes_left().map(|left| left + 1)).await?;
            // Places are given ahead: of what lags since then, others are asked for at once.
            while let Some(lagging) = writer.lagging(&place) {
                place = session.replace(place.stripe, lagging).await?;
            }
            let first = *first.get_or_insert(StripeId(place.stripe));
            let stripe = StripeWrite {
                position: Position { first, ordinal },
                cut: Arc::new(cut),
                is_stored: vec![false; place.nodes.len()],
                place,
                label: None,
                error: None,
                is_interrupted: false,
            };
            in_flight.spawn(writer.clone().write_stripe(stripe));
            ordinal += 1;
        }
        let Some(stripe) = in_flight.join_next().await else { break };
        let mut stripe = stripe??;
        let failed = stripe.failed();
        if !failed.is_empty() && !mem::take(&mut stripe.is_interrupted) {
            stripe.place = session.replace(stripe.place.stripe, failed).await?;
        }
        if stripe.failed().is_empty() {
            for stripe in written.accept(stripe.end(options.code)?) {
                written.count(&stripe);
                session.send(Step::Stripe(stripe)).await?;
            }
        } else {
            in_flight.spawn(writer.clone().write_stripe(stripe));
        }
    }
    cutter.source.ensure_unchanged()?;
    let SummedPrefix { bytes, checksum } = written.checksum.so_far();
    session.commit(options, proto::PutCommit { bytes, checksum }, first).await?;
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
        let (id, bytes) = (stripe.stripe, stripe.data_bytes);
        debug!(stripe = id, bytes, chunks = present, missing, "stripe is durable");
    }
}

struct Writer {
    options: PutOptions,
    /// When the put began, in seconds since 1970.
    created: u64,
    encode: Program,
    agents: Arc<PutAgents>,
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

/// A stripe on its way to the disks.
struct StripeWrite {
    position: Position,
    cut: Arc<Cut>,
    place: proto::Place,
    /// Of each chunk, in chunk order.
    is_stored: Vec<bool>,
    /// Known when every chunk was computed once.
    label: Option<StripeLabel>,
    /// Why the last chunk that failed did.
    error: Option<anyhow::Error>,
    /// Whether a connection ended that was made with former credentials: its node can have another
    /// go at the chunk.
    is_interrupted: bool,
}

/// A stripe that is durable.
struct Done {
    ordinal: u64,
    stripe: proto::PutStripe,
}

impl StripeWrite {
    /// Chunks that a node was to store, and has not.
    fn failed(&self) -> Vec<u32> {
        let chunks = (0..).zip(self.is_stored.iter().zip(&self.place.nodes));
        let has_failed =
            chunks.filter(|(_, (is_stored, peer))| !*is_stored && !peer.address.is_empty());
        has_failed.map(|(chunk, _)| chunk).collect()
    }

    /// What is reported of it to the coordinator, when no other node can store what is left.
    fn end(self, code: Code) -> Result<Done> {
        let (count, least) = (self.is_stored.len(), code.durable_chunks_min());
        let durable = self.is_stored.iter().filter(|is_stored| **is_stored).count();
        if durable < least {
            let why = self.error.unwrap_or_else(|| anyhow!("no node has enough free bytes"));
            return Err(why.context(format!(
                "only {durable} of {count} chunks of a stripe could be stored, {code} needs at least {least}; nothing was stored"
            )));
        }
        let label = self.label.context("a stripe was ended before it was computed")?;
        let stamp = self.place.stamp;
        let chunks = self.is_stored.iter().zip(&self.place.nodes).zip(&label.crcs);
        let chunks = chunks.map(|((is_stored, peer), &crc)| {
            let node = is_stored.then_some(peer.node);
            proto::Chunk { node, crc, stamp, ..Default::default() }
        });
        let stripe = proto::PutStripe {
            stripe: self.place.stripe,
            data_bytes: label.data_bytes,
            chunk_bytes: self.cut.chunk_bytes,
            chunks: chunks.collect(),
            checksum: label.checksum,
        };
        Ok(Done { ordinal: self.position.ordinal, stripe })
    }
}

/// The chunks of a stripe that are being written: each returns which it was and how it went.
type ChunkWrites = JoinSet<(usize, Result<()>)>;

/// Whether a node was found for a chunk.
fn has_node(peer: &proto::Peer) -> bool {
    !peer.address.is_empty()
}

impl Writer {
    fn pool(&self) -> &ConnectionPool {
        self.agents.pool.get().expect("a put begins with it")
    }

    /// Chunks whose agents lag, as far as they are spare; none where nothing is to be done.
    fn lagging(&self, place: &proto::Place) -> Option<Vec<u32>> {
        let lags = |peer: &proto::Peer| {
            let agent = convert::decode_peer(peer).ok().and_then(|(_, agent)| agent);
            agent.is_some_and(|agent| self.agents.times.lags(&agent))
        };
        let spare = self.spare(place);
        let chunks = (0..).zip(&place.nodes).filter(|(_, peer)| has_node(peer) && lags(peer));
        let chunks: Vec<u32> =
            chunks.map(|(chunk, _)| chunk).take_while(|_| spare.take()).collect();
        (!chunks.is_empty()).then_some(chunks)
    }

    /// What need not be stored of a stripe for it to be durable.
    fn spare(&self, place: &proto::Place) -> Spare {
        let chunks = place.nodes.iter().filter(|peer| has_node(peer)).count();
        Spare::new(chunks, self.waited_for())
    }

    /// How many chunks of a stripe are waited for, however slow their nodes are.
    fn waited_for(&self) -> usize {
        let code = &self.options.code;
        if self.options.waits_for_all { code.chunk_count() } else { code.durable_chunks_min() }
    }

    /// Stores the chunks that are not stored yet, each at the node that it was given.
    async fn write_stripe(self: Arc<Self>, mut stripe: StripeWrite) -> Result<StripeWrite> {
        let place = &stripe.place;
        let (labelled, label) = watch::channel(Label::default());
        let (mut feeds, mut sums, mut chunks) = (Vec::new(), Vec::new(), ChunkWrites::new());
        let spare = Arc::new(self.spare(place));
        for ((index, chunk), peer) in self.options.code.chunks().enumerate().zip(&place.nodes) {
            let (sender, buffers) = mpsc::channel(BUFFERS_AHEAD);
            let (sum_sender, sum) = oneshot::channel();
            // A chunk that is stored already gets no feed: nothing would receive its buffers.
            feeds.push((!stripe.is_stored[index]).then_some(sender));
            sums.push(sum);
            if stripe.is_stored[index] {
                continue;
            }
            let copy =
                ChunkCopy { stripe: StripeId(place.stripe), chunk, stamp: Stamp(place.stamp) };
            let agent = convert::decode_peer(peer).ok().and_then(|(_, address)| address);
            let feed = ChunkFeed {
                buffers,
                crc: Crc32c::new(),
                sum_sender: Some(sum_sender),
                label: label.clone(),
            };
            let (writer, spare, bytes) = (self.clone(), spare.clone(), stripe.cut.chunk_bytes);
            chunks.spawn(async move {
                (index, writer.write_chunk(agent, copy, bytes, feed, &spare).await)
            });
        }
        let label = match stripe.label.take() {
            Some(label) => self.clone().feed_again(&stripe, feeds, sums, label).await?,
            None => self.clone().label(&stripe, feeds, sums).await?,
        };
        labelled.send_replace(label.encode());
        stripe.label = Some(label);
        self.until_durable(chunks, &mut stripe).await?;
        Ok(stripe)
    }

    /// Waits for the chunks that are written; for those that are spare only as long as is fair.
    async fn until_durable(&self, mut chunks: ChunkWrites, stripe: &mut StripeWrite) -> Result<()> {
        let least = self.waited_for();
        let mut waits: BTreeSet<usize> =
            (0..stripe.is_stored.len()).filter(|index| !stripe.is_stored[*index]).collect();
        let (since, mut deadline) = (Instant::now(), None);
        loop {
            let next = match deadline {
                None => chunks.join_next().await,
                Some(at) => match timeout_at(at, chunks.join_next()).await {
                    Ok(next) => next,
                    // What they stored all the same is in excess, and goes as such.
                    Err(_) => break,
                },
            };
            let Some(result) = next else { break };
            let (index, result) = result?;
            waits.remove(&index);
            stripe.is_stored[index] = result.is_ok();
            if let Err(why) = &result {
                debug!(chunk = index, why = format!("{why:#}"), "chunk is not stored there");
            }
            stripe.is_interrupted |= result.as_ref().is_err_and(|why| why.is::<Interrupted>());
            // "No other node" is less specific than an earlier error, so the earlier one is kept.
            let is_explained = !has_node(&stripe.place.nodes[index]) && stripe.error.is_some();
            if let (Err(why), false) = (result, is_explained) {
                stripe.error = Some(why);
            }
            let durable = stripe.is_stored.iter().filter(|is_stored| **is_stored).count();
            if durable >= least && deadline.is_none() {
                deadline = Some(self.agents.times.until_durable(since));
            }
        }
        for index in waits {
            let agent = convert::decode_peer(&stripe.place.nodes[index]).ok();
            if let Some((_, Some(agent))) = agent {
                self.agents.times.lagged(&agent);
                stripe.error = Some(lags_behind(&agent));
            }
        }
        Ok(())
    }

    /// Hands out a stripe, and gives its label: the checksums of all of its chunks are in it.
    async fn label(
        self: Arc<Self>,
        stripe: &StripeWrite,
        feeds: Vec<Option<mpsc::Sender<Bytes>>>,
        sums: Vec<oneshot::Receiver<u32>>,
    ) -> Result<StripeLabel> {
        let (writer, cut) = (self.clone(), stripe.cut.clone());
        let progress = self.progress.clone();
        let checksum =
            tokio::task::spawn_blocking(move || writer.feed(&cut, feeds, &*progress)).await??;
        let mut crcs = Vec::new();
        for sum in sums {
            crcs.push(sum.await?);
        }
        let PutOptions { name, code, chunk_bytes: object_chunk_bytes, .. } = self.options.clone();
        Ok(StripeLabel {
            object: name,
            code,
            object_chunk_bytes,
            created: self.created,
            first: stripe.position.first,
            ordinal: stripe.position.ordinal,
            is_last: stripe.cut.is_last,
            chunk_bytes: stripe.cut.chunk_bytes,
            data_bytes: stripe.cut.data_bytes,
            checksum,
            crcs,
        })
    }

    /// Hands out the chunks that are not stored of a stripe that was computed before; gives its
    /// label back.
    async fn feed_again(
        self: Arc<Self>,
        stripe: &StripeWrite,
        feeds: Vec<Option<mpsc::Sender<Bytes>>>,
        sums: Vec<oneshot::Receiver<u32>>,
        label: StripeLabel,
    ) -> Result<StripeLabel> {
        let cut = stripe.cut.clone();
        // Its bytes were counted the first time.
        let feed = move || self.feed(&cut, feeds, &|_| ());
        tokio::task::spawn_blocking(feed).await??;
        let fed = stripe.is_stored.iter().zip(sums).zip(&label.crcs);
        for ((_, sum), crc) in fed.filter(|((is_stored, _), _)| !**is_stored) {
            ensure!(sum.await? == *crc, CHANGED);
        }
        Ok(label)
    }

    /// Reads, encodes and hands out buffer after buffer of the chunks that are to be stored; gives
    /// the checksum of the data.
    fn feed(
        &self,
        cut: &Cut,
        feeds: Vec<Option<mpsc::Sender<Bytes>>>,
        progress: &Progress<'_>,
    ) -> Result<u64> {
        let data_chunks = self.options.code.data_chunks();
        let spooled = match self.options.code.sub_chunk_count() {
            1 => None,
            _ => Some(self.spool_parity(cut).context("cannot spool parity to a temporary file")?),
        };
        let mut digests: Vec<_> = (0..data_chunks).map(|_| object_digest()).collect();
        for offset in (0..cut.chunk_bytes).step_by(BUFFER_BYTES as usize) {
            let length = BUFFER_BYTES.min(cut.chunk_bytes - offset) as usize;
            let mut buffers = vec![vec![0; length]; self.options.code.chunk_count()];
            let (data, parity) = buffers.split_at_mut(data_chunks);
            for (chunk, buffer) in data.iter_mut().enumerate() {
                let piece = cut.read(chunk as u64, offset, buffer)?;
                digests[chunk].update(piece);
                progress(progress::Step::Done(piece.len() as u64));
            }
            match &spooled {
                None => {
                    let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
                    let outputs = parity.iter_mut().map(Vec::as_mut_slice);
                    self.encode.run(&sources, &mut outputs.collect::<Vec<_>>())?;
                }
                Some(spool) => {
                    for (chunk, buffer) in parity.iter_mut().enumerate() {
                        let at = chunk as u64 * cut.chunk_bytes + offset;
                        spool.file.read_exact_at(buffer, at)?;
                    }
                }
            }
            for (feed, buffer) in feeds.iter().zip(buffers) {
                // Chunk tasks take all buffers, also when they could not store the first.
                let _ = feed.as_ref().map(|feed| feed.blocking_send(buffer.into()));
            }
        }
        let sums: Vec<u64> = digests.into_iter().map(|digest| digest.finalize()).collect();
        // Parity of other bytes than were stored would rebuild neither.
        ensure!(spooled.is_none_or(|spool| spool.sums == sums), CHANGED);
        let sums = (0..).zip(sums);
        let data_bytes = |chunk| data_in_chunk(chunk, cut.chunk_bytes, cut.data_bytes);
        Ok(sums.fold(0, |whole, (chunk, sum)| join_checksums(whole, sum, data_bytes(chunk))))
    }

    /// The parity of a code with sub-chunks: every byte of it needs bytes from all over the data
    /// chunks, so it cannot come in their order.
    fn spool_parity(&self, cut: &Cut) -> Result<ParitySpool> {
        let spool = tempfile::tempfile()?;
        let layout = Layout::of(&self.options.code, cut.chunk_bytes);
        let alpha = layout.sub_chunk_count() as usize;
        let sub_chunks = self.options.code.data_chunks() * alpha;
        let mut digests: Vec<_> = (0..sub_chunks).map(|_| (object_digest(), 0)).collect();
        for range in layout.whole().parts(ROW_BYTES) {
            let pieces = || range.pieces_by_sub_chunk(range.sub_chunks());
            let mut rows =
                vec![vec![0; range.positions()]; self.options.code.chunk_count() * alpha];
            let (data, parity) = rows.split_at_mut(self.options.code.data_chunks() * alpha);
            let of_chunk = data.chunks_mut(alpha).zip(digests.chunks_mut(alpha));
            for (chunk, (rows, digests)) in (0..).zip(of_chunk) {
                for ((piece, row), (digest, bytes)) in pieces().zip(rows).zip(digests) {
                    let piece = cut.read(chunk, piece.offset, row)?;
                    digest.update(piece);
                    *bytes += piece.len() as u64;
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
        // A chunk of the store is one unit, in which each sub-chunk stands for itself.
        let sum = |digests: &[(crc_fast::Digest, u64)]| {
            let sums = digests.iter().map(|(digest, bytes)| (digest.finalize(), *bytes));
            sums.fold(EMPTY_CHECKSUM, |whole, (sum, bytes)| join_checksums(whole, sum, bytes))
        };
        Ok(ParitySpool { file: spool, sums: digests.chunks(alpha).map(sum).collect() })
    }
}
