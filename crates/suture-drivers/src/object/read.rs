//! Reading an object, around whatever is missing, corrupt or silent.
//!
//! Place: [get], before, during and after a repair.
//! An object is read in pieces, several at a time. A piece comes from the data chunk that holds
//! it; when that cannot be had, the same range of others is read and decoded. A copy that is
//! found to be of no use is reported once and not asked for again; an agent that is silent is not
//! asked again either, so one dead node costs one wait and not one for each chunk. One that lags
//! behind the others, or of which nothing comes, is not waited for: the piece is decoded from
//! others meanwhile, and whichever comes first is taken (`answer_times.rs`).
//!
//! Where bytes may come in any order, the same range of all chunks of a stripe is read together,
//! and what is read of one serves to decode another: so a stripe that lacks a chunk costs no more
//! than one that lacks none. In order, what is read to decode an earlier chunk is kept for its own
//! turn, where the stripe is small enough.
//!
//! Invariant: nothing gets its name before every byte was checked against its block's checksum
//! where it was read and its frame's on arrival, and the whole against that recorded at the put.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use suture_code::layout::{Layout, PositionRange};
use suture_code::{ChunkIndex, Program, Source};
use suture_edge::checksum::BLOCK_BYTES;
use suture_edge::error::unreadable;
use suture_edge::progress::{Progress, Step};
use suture_repair::id::{ChunkCopy, CopyAt, ListedCopy, NodeId};
use suture_repair::stripe::Stripe;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tracing::{debug, trace};

use super::answer_times::AnswerTimes;
use super::layout::{Checksum, data_in_chunk, object_checksum};
use super::lookup::Lookup;
use super::pool::ConnectionPool;
use super::stripe_sums::StripeSums;
use crate::address::AgentAddress;
use crate::chunk_client::ChunkError;
use crate::control::client::Client;
use crate::control::{convert, proto};
use crate::metadata::{Object, ObjectStripe};

/// Bytes of a piece. With `PIECES_AT_ONCE` this is 8 MiB under way, k times that if all of it has
/// to be decoded.
const PIECE_BYTES: u64 = 512 << 10;

/// Pieces under way: enough to keep several agents busy.
const PIECES_AT_ONCE: usize = 16;

/// What the rows of a range take that is decoded at a time, about, where a code has sub-chunks.
const DECODE_BYTES: usize = 8 << 20;

/// Bytes of pieces under way, about, where they are whole chunks; but always two of them.
const CHUNK_BYTES_AT_ONCE: u64 = 64 << 20;

/// What is kept of a stripe whose bytes are given in order and that lacks a chunk.
const ROWS_BYTES_MAX: u64 = 64 << 20;

/// How often it is looked whether an agent lags.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Where the bytes go.
pub trait Sink {
    /// Whether bytes may come in another order than that of the object.
    fn takes_any_order(&self) -> bool;

    /// Bytes of the object from `offset` on.
    ///
    /// # Errors
    /// When they cannot be kept; then the read ends.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// What was read, and what had to be decoded or reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Length of the object.
    pub bytes: u64,
    /// Bytes that had to be decoded from others.
    pub decoded_bytes: u64,
    /// Copies that were reported as bad.
    pub bad_copies: u64,
}

/// What reads one after the other, and beside each other, know of the agents of one cluster:
/// connections that serve again, and who does not answer.
#[derive(Default)]
pub struct GetAgents {
    pool: OnceLock<ConnectionPool>,
}

/// Reads a whole object into `sink`.
///
/// # Errors
/// Unreadable when a stripe has too few chunks that can be read, or what was read does not have the
/// object's checksum; a failure when `sink` fails.
pub async fn get(
    client: &Client,
    agents: &Arc<GetAgents>,
    mut lookup: Lookup,
    sink: &mut impl Sink,
    progress: &Progress<'_>,
) -> Result<Fetched> {
    let (reports, reporter) = report_bad_copies(client.clone());
    agents.pool.get_or_init(|| ConnectionPool::new(lookup.cluster, client.credentials.clone()));
    let reader = Arc::new(Reader {
        agents: agents.clone(),
        nodes: lookup.nodes.clone(),
        bad: Mutex::default(),
        times: Mutex::default(),
        reports,
    });
    let Object { name, bytes, .. } = &lookup.object;
    debug!(object = name, bytes, nodes = lookup.nodes.len(), "reading");
    let mut fetched = Fetched::default();
    let (mut checksum, mut stripe_sums) = (Checksum::default(), StripeSums::default());
    let mut in_flight: VecDeque<JoinHandle<Result<Piece>>> = VecDeque::new();
    let mut wanted: VecDeque<Want> = VecDeque::new();
    let mut stripe_offset = 0;
    let at_once = pieces_at_once(&lookup.object);
    loop {
        if wanted.len() < at_once {
            for entry in lookup.next().await? {
                let data_bytes = entry.data_bytes;
                let range = stripe_offset..stripe_offset + data_bytes;
                stripe_sums.expect(entry.stripe.id, range, entry.checksum);
                let order = reader.order(&entry.stripe, sink.takes_any_order());
                wanted.extend(pieces(entry, stripe_offset, order));
                stripe_offset += data_bytes;
            }
        }
        while in_flight.len() < at_once
            && let Some(want) = wanted.pop_front()
        {
            in_flight.push_back(tokio::spawn(reader.clone().fetch(want)));
        }
        let Some(piece) = in_flight.pop_front() else { break };
        let piece = piece.await??;
        let bytes = piece.bytes;
        sink.write(piece.offset, piece.data())?;
        checksum.add(piece.offset, bytes, piece.checksum);
        stripe_sums.add(piece.offset, bytes, piece.checksum);
        progress(Step::Done(bytes));
        fetched.bytes += bytes;
        fetched.decoded_bytes += if piece.is_decoded { bytes } else { 0 };
    }
    drop(reader);
    fetched.bad_copies = reporter.await?;
    stripe_sums.check(&lookup.object, checksum.so_far(), sink.takes_any_order())?;
    Ok(fetched)
}

fn pieces_at_once(object: &Object) -> usize {
    let chunks = (CHUNK_BYTES_AT_ONCE / object.chunk_bytes.max(1)) as usize;
    let is_whole = object.code.sub_chunk_count() > 1;
    if is_whole { chunks.clamp(2, PIECES_AT_ONCE) } else { PIECES_AT_ONCE }
}

/// Reports each bad copy to the coordinator; gives how many there were when all senders are gone.
fn report_bad_copies(mut client: Client) -> (mpsc::UnboundedSender<CopyAt>, JoinHandle<u64>) {
    let (reports, mut inbox) = mpsc::unbounded_channel::<CopyAt>();
    let report = async move {
        let mut count = 0;
        while let Some(CopyAt { node, copy }) = inbox.recv().await {
            count += 1;
            let bad = proto::BadCopy { node: node.0, copy: Some(convert::encode_copy(copy)) };
            // The object is read all the same; the next reader will find the copy again.
            let _ = client.report_bad(bad).await;
        }
        count
    };
    (reports, tokio::spawn(report))
}

/// A piece of an object that is to be read.
struct Want {
    row: Arc<PieceRow>,
    chunk: ChunkIndex,
    /// So many of the row's bytes.
    bytes: u64,
    /// The first byte, within the object.
    offset: u64,
}

/// The same range of all chunks of a stripe, each of which is read once at most.
struct PieceRow {
    stripe: Arc<Stripe>,
    /// The first byte, within each chunk.
    from: u64,
    bytes: u64,
    /// Whether each data chunk is read once for its own turn and to decode others.
    is_shared: bool,
    chunks: Vec<OnceCell<Arc<Vec<u8>>>>,
}

impl PieceRow {
    fn new(stripe: &Arc<Stripe>, from: u64, bytes: u64, order: PieceOrder) -> Arc<PieceRow> {
        let chunks = stripe.indices().map(|_| OnceCell::new()).collect();
        let is_shared = order != PieceOrder::Chunks;
        Arc::new(PieceRow { stripe: stripe.clone(), from, bytes, is_shared, chunks })
    }

    /// The bytes of it, within each chunk.
    fn range(&self) -> Range<u64> {
        self.from..self.from + self.bytes
    }

    /// What was read of a chunk.
    fn read(&self, chunk: ChunkIndex) -> Option<&Arc<Vec<u8>>> {
        self.chunks[usize::from(chunk.0)].get()
    }

    /// Where in what is read of a chunk for the row this range of the chunk lies, if that is read
    /// anyway: for its own turn, or because the range is all of it.
    fn part_of(&self, chunk: ChunkIndex, range: &Range<u64>) -> Option<Range<usize>> {
        let is_data = usize::from(chunk.0) < self.stripe.code.data_chunks();
        let is_read = self.is_shared && is_data || self.read(chunk).is_some();
        let whole = self.range();
        let lies_within = whole.start <= range.start && range.end <= whole.end;
        let start = range.start.saturating_sub(whole.start) as usize;
        let end = range.end.saturating_sub(whole.start) as usize;
        (lies_within && (is_read || *range == whole)).then_some(start..end)
    }
}

/// A piece of an object.
struct Piece {
    offset: u64,
    /// It begins with the piece.
    read: Arc<Vec<u8>>,
    bytes: u64,
    checksum: u64,
    is_decoded: bool,
}

impl Piece {
    fn data(&self) -> &[u8] {
        &self.read[..self.bytes as usize]
    }
}

/// In which order the pieces of a stripe are read, and what each read serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceOrder {
    /// Range after range, each of all chunks at once.
    Rows,
    /// Chunk after chunk; what is read to decode one is kept for the turn of its own.
    KeptRows,
    /// Chunk after chunk, and nothing is kept.
    Chunks,
}

/// The pieces of a stripe in this order.
fn pieces(entry: ObjectStripe, stripe_offset: u64, order: PieceOrder) -> Vec<Want> {
    let ObjectStripe { stripe, data_bytes, .. } = entry;
    let stripe = Arc::new(stripe);
    // With sub-chunks no range can be decoded alone.
    let step = if stripe.code.sub_chunk_count() == 1 { PIECE_BYTES } else { stripe.chunk_bytes };
    let mut rows: BTreeMap<u64, Arc<PieceRow>> = BTreeMap::new();
    let mut pieces = Vec::new();
    for chunk in 0..stripe.code.data_chunks() as u64 {
        let in_chunk = data_in_chunk(chunk, stripe.chunk_bytes, data_bytes);
        for from in (0..in_chunk).step_by(step as usize) {
            let new = || PieceRow::new(&stripe, from, step.min(stripe.chunk_bytes - from), order);
            // In order, a row is kept until its last chunk has its turn.
            let row = match order {
                PieceOrder::Chunks => new(),
                _ => rows.entry(from).or_insert_with(new).clone(),
            };
            pieces.push(Want {
                row,
                chunk: ChunkIndex(chunk as u8),
                bytes: step.min(in_chunk - from),
                offset: stripe_offset + chunk * stripe.chunk_bytes + from,
            });
        }
    }
    if order == PieceOrder::Rows {
        pieces.sort_by_key(|piece| (piece.row.from, piece.chunk));
    }
    pieces
}

struct Reader {
    agents: Arc<GetAgents>,
    nodes: BTreeMap<NodeId, AgentAddress>,
    /// Copies that are known to be of no use.
    bad: Mutex<BTreeSet<CopyAt>>,
    times: Mutex<AnswerTimes>,
    reports: mpsc::UnboundedSender<CopyAt>,
}

impl Reader {
    fn pool(&self) -> &ConnectionPool {
        self.agents.pool.get().expect("a get begins with it")
    }

    async fn fetch(self: Arc<Self>, want: Want) -> Result<Piece> {
        let (read, is_decoded) = self.fetch_bytes(&want).await?;
        let (offset, bytes) = (want.offset, want.bytes);
        if is_decoded {
            let (stripe, chunk) = (want.row.stripe.id.0, want.chunk.0);
            debug!(stripe, chunk, bytes, "decoded from other chunks");
        }
        let checksum = object_checksum(&read[..bytes as usize]);
        Ok(Piece { offset, read, bytes, checksum, is_decoded })
    }

    /// The bytes of a piece, from its chunk or from others, and whether they were decoded.
    async fn fetch_bytes(self: &Arc<Self>, want: &Want) -> Result<(Arc<Vec<u8>>, bool)> {
        let own = self.read_row(&want.row, want.chunk);
        let decode = || async {
            let decoded = self.clone().decode(want).await;
            decoded.map(|bytes| (Arc::new(bytes), true))
        };
        let is_here = want.row.read(want.chunk).is_some();
        if !is_here && self.is_slow(&want.row.stripe, want.chunk) {
            return match decode().await {
                Ok(decoded) => Ok(decoded),
                Err(_) => own.await.map(|bytes| (bytes, false)),
            };
        }
        tokio::pin!(own);
        let lags = tokio::select! {
            read = &mut own => Err(read),
            () = self.until_late(&want.row, want.chunk) => Ok(()),
        };
        match lags {
            Err(Ok(bytes)) => Ok((bytes, false)),
            Err(Err(why)) => {
                let decoded = decode().await;
                decoded.with_context(|| format!("chunk {}: {why:#}", want.chunk))
            }
            // Both at once, and whichever comes first.
            Ok(()) => tokio::select! {
                read = &mut own => match read {
                    Ok(bytes) => Ok((bytes, false)),
                    Err(_) => decode().await,
                },
                decoded = decode() => match decoded {
                    Ok(decoded) => Ok(decoded),
                    Err(_) => own.await.map(|bytes| (bytes, false)),
                },
            },
        }
    }

    /// What a chunk has of a row; read once for all that want it.
    async fn read_row(&self, row: &PieceRow, chunk: ChunkIndex) -> Result<Arc<Vec<u8>>> {
        let read = || async {
            let read = self.read(&row.stripe, chunk, row.range()).await;
            read.map(Arc::new)
        };
        row.chunks[usize::from(chunk.0)].get_or_try_init(read).await.cloned()
    }

    /// Whether the agent that has a chunk lagged of late.
    fn is_slow(&self, stripe: &Stripe, chunk: ChunkIndex) -> bool {
        let Some((_, agent, _)) = self.holder(stripe, chunk) else { return false };
        self.times.lock().expect("no thread panics here").is_slow(agent, Instant::now())
    }

    /// Returns when the agent that has a chunk takes longer for a row than others do.
    async fn until_late(&self, row: &PieceRow, chunk: ChunkIndex) {
        let since = Instant::now();
        loop {
            sleep(CHECK_EVERY).await;
            if self.is_late(&row.stripe, chunk, row.bytes, since) {
                return;
            }
        }
    }

    /// Whether the agent that has a chunk takes longer for so many bytes than others do. It is
    /// noted.
    fn is_late(&self, stripe: &Stripe, chunk: ChunkIndex, bytes: u64, since: Instant) -> bool {
        let Some((_, agent, _)) = self.holder(stripe, chunk) else { return false };
        let (received, now) = (self.pool().moved(agent), Instant::now());
        let mut times = self.times.lock().expect("no thread panics here");
        if times.is_quiet(agent, received, since, now) {
            return true;
        }
        let timeout = times.timeout(agent, bytes);
        let is_late = timeout.is_some_and(|timeout| now.duration_since(since) > timeout);
        if is_late {
            times.lagged(agent, now);
        }
        is_late
    }

    /// How the pieces of a stripe are read, as far as is known what it lacks.
    fn order(&self, stripe: &Stripe, any_order: bool) -> PieceOrder {
        let data_chunks = stripe.code.data_chunks();
        // A parity chunk is kept as well.
        let bytes = stripe.chunk_bytes.saturating_mul(data_chunks as u64 + 1);
        let is_known = |chunk| self.holder(stripe, chunk).is_some();
        let lacks = |chunk| !stripe.record(chunk).is_known_zero() && !is_known(chunk);
        match stripe.indices().take(data_chunks).any(lacks) {
            _ if any_order => PieceOrder::Rows,
            true if bytes <= ROWS_BYTES_MAX => PieceOrder::KeptRows,
            _ => PieceOrder::Chunks,
        }
    }

    /// Where a chunk can be read, as far as is known.
    fn holder(
        &self,
        stripe: &Stripe,
        chunk: ChunkIndex,
    ) -> Option<(NodeId, &AgentAddress, ChunkCopy)> {
        let CopyAt { node, copy } = stripe.copy(chunk)?;
        let agent = self.nodes.get(&node)?;
        let is_bad = self.bad.lock().expect("no thread panics here").contains(&copy.at(node));
        (!is_bad && !self.pool().is_silent(agent)).then_some((node, agent, copy))
    }

    /// Reads a range of a chunk from its location.
    async fn read(&self, stripe: &Stripe, chunk: ChunkIndex, range: Range<u64>) -> Result<Vec<u8>> {
        let (from, bytes) = (range.start, range.end - range.start);
        let (node, agent, copy) =
            self.holder(stripe, chunk).context("no node that is up holds it")?;
        let since = Instant::now();
        let digest = stripe.record(chunk).digest();
        let mut buffer = vec![0; bytes as usize];
        let result = loop {
            let mut connection = self.pool().take(agent).await?;
            let result = connection.read(ListedCopy { copy, digest }, from, &mut buffer).await;
            if !self.pool().give(agent, connection, &result) {
                break result;
            }
        };
        if let Err(ChunkError::Fault { .. }) = &result
            && self.bad.lock().expect("no thread panics here").insert(copy.at(node))
        {
            // Its receiver outlives every reader.
            let _ = self.reports.send(copy.at(node));
        }
        result?;
        trace!(%copy, %agent, from, bytes, "read");
        let (took, now) = (since.elapsed(), Instant::now());
        self.times.lock().expect("no thread panics here").answered(agent, bytes, took, now);
        Ok(buffer)
    }

    /// Decodes a piece from other chunks. Codes act position by position: without sub-chunks the
    /// piece's own bytes are enough, with them a whole chunk is put together, range by range.
    async fn decode(self: Arc<Self>, want: &Want) -> Result<Vec<u8>> {
        let (row, stripe) = (&want.row, &want.row.stripe);
        let layout = Layout::of(&stripe.code, stripe.chunk_bytes);
        if layout.sub_chunk_count() == 1 {
            let range = layout.position_range(row.range());
            let mut rows = self.decode_range(want, range).await?;
            return Ok(rows.swap_remove(0));
        }
        let rows = layout.sub_chunk_count() as usize * stripe.code.chunk_count();
        let step = ((DECODE_BYTES / rows) as u64).next_multiple_of(BLOCK_BYTES);
        let mut chunk = vec![0; layout.chunk_bytes() as usize];
        for range in layout.whole().parts(step) {
            let rows = self.clone().decode_range(want, range).await?;
            let pieces = range.pieces_by_sub_chunk(range.sub_chunks());
            for (piece, row) in pieces.zip(rows) {
                chunk[piece.range()].copy_from_slice(&row);
            }
        }
        Ok(chunk)
    }

    /// Decodes a range of a chunk, sub-chunk by sub-chunk, from others, asking further ones as
    /// long as some fail or lag.
    async fn decode_range(
        self: Arc<Self>,
        want: &Want,
        range: PositionRange,
    ) -> Result<Vec<Vec<u8>>> {
        let (row, stripe, lost) = (&want.row, &want.row.stripe, want.chunk);
        let mut have: BTreeMap<Source, Vec<u8>> = BTreeMap::new();
        let (mut failed, mut late) = (BTreeSet::from([lost]), BTreeSet::new());
        let (mut reads, mut pending) = (JoinSet::new(), BTreeMap::new());
        loop {
            let is_here = |chunk: &ChunkIndex| have.keys().any(|source| source.chunk == *chunk);
            let is_usable = |chunk: &ChunkIndex| {
                let is_known = is_here(chunk) || self.holder(stripe, *chunk).is_some();
                is_known && !failed.contains(chunk)
            };
            let mut usable: Vec<ChunkIndex> = stripe.indices().filter(is_usable).collect();
            // What is here already need not be read again, and agents that lag are asked last.
            usable.sort_by_key(|chunk| {
                let is_slow = late.contains(chunk) || self.is_slow(stripe, *chunk);
                (!is_here(chunk), is_slow && row.read(*chunk).is_none())
            });
            let helpers = stripe.code.helpers_for(&[lost], &usable).map_err(|why| {
                unreadable(format!("{} cannot be read now: {why}; see suture status", stripe.id))
            })?;
            let program = Program::compile(&stripe.code.repair_dag(&[lost], &helpers)?)?;
            let is_new = |helper: &ChunkIndex| !pending.contains_key(helper);
            let new: Vec<ChunkIndex> = helpers.into_iter().filter(is_new).collect();
            for helper in new {
                let is_missing = |source: &Source| !have.contains_key(source);
                let parts = program.sources().filter(|source| source.chunk == helper);
                let parts: Vec<Source> = parts.filter(is_missing).collect();
                if !parts.is_empty() {
                    let (reader, row) = (self.clone(), row.clone());
                    let read = async move { reader.read_parts(&row, parts, range).await };
                    reads.spawn(async move { (helper, read.await) });
                    pending.insert(helper, Instant::now());
                }
            }
            loop {
                if program.sources().all(|source| have.contains_key(&source)) {
                    return decode(&program, &have, range.positions());
                }
                tokio::select! {
                    read = reads.join_next() => match read.transpose()? {
                        Some((helper, Ok(parts))) => {
                            pending.remove(&helper);
                            have.extend(parts);
                        }
                        Some((helper, Err(_))) => {
                            pending.remove(&helper);
                            failed.insert(helper);
                            break;
                        }
                        // What came was for other helpers: now for these.
                        None => break,
                    },
                    helper = self.first_late(row, &pending, &late) => {
                        late.insert(helper);
                        break;
                    }
                }
            }
        }
    }

    /// The first of these helpers, by when they were asked, that takes longer than others do and
    /// was not found to be late before.
    async fn first_late(
        &self,
        row: &PieceRow,
        pending: &BTreeMap<ChunkIndex, Instant>,
        late: &BTreeSet<ChunkIndex>,
    ) -> ChunkIndex {
        loop {
            sleep(CHECK_EVERY).await;
            let mut others = pending.iter().filter(|(chunk, _)| !late.contains(chunk));
            let is_late = |(chunk, since): &(&ChunkIndex, &Instant)| {
                self.is_late(&row.stripe, **chunk, row.bytes, **since)
            };
            if let Some((chunk, _)) = others.find(is_late) {
                return *chunk;
            }
        }
    }

    /// A range of some sub-chunks of one chunk.
    async fn read_parts(
        &self,
        row: &PieceRow,
        parts: Vec<Source>,
        range: PositionRange,
    ) -> Result<Vec<(Source, Vec<u8>)>> {
        let mut read = Vec::with_capacity(parts.len());
        let pieces = range.pieces_by_sub_chunk(parts.iter().map(|part| part.sub_chunk));
        for (part, piece) in parts.iter().zip(pieces) {
            let wanted = piece.offset..piece.offset + piece.bytes as u64;
            let bytes = match row.part_of(part.chunk, &wanted) {
                Some(range) => self.read_row(row, part.chunk).await?[range].to_vec(),
                None => self.read(&row.stripe, part.chunk, wanted).await?,
            };
            read.push((*part, bytes));
        }
        Ok(read)
    }
}

fn decode(
    program: &Program,
    have: &BTreeMap<Source, Vec<u8>>,
    bytes: usize,
) -> Result<Vec<Vec<u8>>> {
    let sources: Vec<&[u8]> = program.sources().map(|source| &have[&source][..]).collect();
    let mut rows = vec![vec![0; bytes]; program.outputs().len()];
    program.run(&sources, &mut rows.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use suture_repair::id::{Generation, Stamp, StripeId};
    use suture_repair::stripe::ChunkRecord;

    use super::*;

    /// Two data chunks of two and a half pieces, the second of them with data in one and a half.
    fn entry() -> ObjectStripe {
        let chunk_bytes = 5 * PIECE_BYTES / 2;
        let record = |node| ChunkRecord {
            node: Some(NodeId(node)),
            stamp: Stamp(0),
            bytes: chunk_bytes,
            crc: Some(0),
        };
        let stripe = Stripe {
            id: StripeId(1),
            code: "rs(2,1)".parse().unwrap(),
            chunk_bytes,
            unit_bytes: chunk_bytes,
            generation: Generation(0),
            chunks: (0..3).map(record).collect(),
        };
        ObjectStripe { stripe, data_bytes: 4 * PIECE_BYTES, checksum: None }
    }

    #[test]
    fn in_order_a_row_is_one_for_all_chunks_where_it_is_kept() {
        for order in [PieceOrder::KeptRows, PieceOrder::Chunks] {
            let all = pieces(entry(), 7, order);
            let read: Vec<(u8, u64)> = all.iter().map(|want| (want.chunk.0, want.bytes)).collect();
            let half = PIECE_BYTES / 2;
            let first = [(0, PIECE_BYTES), (0, PIECE_BYTES), (0, half)];
            assert_eq!(read, [&first[..], &[(1, PIECE_BYTES), (1, half)]].concat());
            let ends = all.iter().map(|want| want.offset + want.bytes);
            assert!(ends.zip(&all[1..]).all(|(end, next)| end == next.offset), "{order:?}");
            let is_shared = Arc::ptr_eq(&all[0].row, &all[3].row);
            assert_eq!(is_shared, order == PieceOrder::KeptRows);
            assert!(!Arc::ptr_eq(&all[0].row, &all[1].row));
        }
    }

    #[test]
    fn a_part_of_a_chunk_is_taken_from_what_is_read_of_it_anyway() {
        let row_of = |order| pieces(entry(), 0, order).swap_remove(1).row;
        let (kept, alone) = (row_of(PieceOrder::KeptRows), row_of(PieceOrder::Chunks));
        let (data, parity) = (ChunkIndex(1), ChunkIndex(2));
        let part = PIECE_BYTES + 3..PIECE_BYTES + 8;
        assert_eq!(kept.part_of(data, &part), Some(3..8));
        assert_eq!((kept.part_of(parity, &part), alone.part_of(data, &part)), (None, None));
        let all = PIECE_BYTES..2 * PIECE_BYTES;
        assert_eq!(alone.part_of(parity, &all), Some(0..PIECE_BYTES as usize));
        let early = PIECE_BYTES - 1..PIECE_BYTES + 4;
        assert_eq!(kept.part_of(data, &early), None, "it begins in the row before");
        assert!(kept.chunks[2].set(Arc::default()).is_ok());
        assert_eq!(kept.part_of(parity, &part), Some(3..8), "it was read for another");
    }

    #[test]
    fn where_any_order_will_do_rows_are_read_one_after_the_other() {
        let rows = pieces(entry(), 7, PieceOrder::Rows);
        let chunks: Vec<u8> = rows.iter().map(|want| want.chunk.0).collect();
        assert_eq!(chunks, [0, 1, 0, 1, 0]);
    }
}
