//! The attempts that run: what each reads, where and since when, until its chunks are committed.
//!
//! Place: ... [dispatch -> slices flow -> chunk proven and durable -> commit location], seen from
//! outside by the core's reports: for the lines that are written of every rebuilt chunk.

use std::collections::BTreeMap;

use suture_repair::event::{Commit, Report};
use suture_repair::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, RepairId, Stamp, StripeId};
use suture_repair::plan::Plan;
use suture_repair::stripe::StripeMap;
use suture_repair::time::Time;

/// Attempts that are remembered; more do not run at a time.
const RUNNING_MAX: usize = 1 << 16;

/// Those that have begun and not ended, as far as was reported.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    running: BTreeMap<RepairId, BegunRepair>,
    /// The one of each stripe: there is one at a time.
    of_stripe: BTreeMap<StripeId, RepairId>,
}

/// What is known of a repair when it begins.
#[derive(Clone, Debug)]
struct BegunRepair {
    stripe: StripeId,
    at: Time,
    /// The one before it of the same stripe, and when that began: it may be its continuation.
    before: Option<(RepairId, Time)>,
    sources: Vec<(ChunkIndex, NodeId)>,
    lanes: usize,
    edges: usize,
    bytes: u64,
    chunks_left: usize,
    destinations: BTreeMap<NodeId, ChunkIndex>,
}

/// A chunk that was rebuilt, and from what.
#[derive(Clone, Debug, PartialEq)]
pub struct RebuiltChunk {
    /// The attempt that rebuilt it.
    pub repair: RepairId,
    /// The copy that is its location now.
    pub copy: ChunkCopy,
    /// The node that holds it.
    pub node: NodeId,
    /// The chunk's length in bytes.
    pub bytes: u64,
    /// The chunks that were read, and where; of a chunk that was copied, itself.
    pub sources: Vec<(ChunkIndex, NodeId)>,
    /// How many lanes the plan has.
    pub lanes: usize,
    /// How many edges these have.
    pub edges: usize,
    /// What they carry, all together.
    pub moved_bytes: u64,
    /// From its dispatch, or that of the attempt that it continues, until it was committed.
    pub seconds: f64,
    /// By what it was known to be what it must be.
    pub proven_by: ProvenBy,
}

/// By what a rebuilt chunk was known to be what it must be before it got its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvenBy {
    /// The checksum that was recorded when it was first written.
    Checksum,
    /// Its fingerprint, and those of the other chunks of its stripe.
    Fingerprint,
}

impl ProvenBy {
    /// In a word, for lines that are written of it.
    pub fn word(self) -> &'static str {
        match self {
            ProvenBy::Checksum => "checksum",
            ProvenBy::Fingerprint => "fingerprint",
        }
    }
}

impl RebuiltChunk {
    /// Whether it was whole, and only moved.
    pub fn is_copied(&self) -> bool {
        matches!(&self.sources[..], [(chunk, _)] if *chunk == self.copy.chunk)
    }
}

impl Attempts {
    /// Takes one report of the core; gives the chunk that was rebuilt, where it reports one.
    pub fn note(
        &mut self,
        now: Time,
        report: &Report,
        stripes: &StripeMap,
    ) -> Option<RebuiltChunk> {
        match report {
            Report::Started { repair, plan } => self.begun(now, *repair, plan, stripes),
            Report::Replaced { repair, by, .. } => self.replaced(*repair, *by),
            Report::Failed { repair, .. } => self.forget(*repair),
            Report::Committed { repair, copy, node, bytes } => {
                return self.committed(now, *repair, copy.at(*node), *bytes, stripes);
            }
            _ => {}
        }
        None
    }

    fn begun(&mut self, now: Time, repair: RepairId, plan: &Plan, stripes: &StripeMap) {
        let Some(stripe) = stripes.get(plan.stripe) else { return };
        let edges = || plan.lanes.iter().flat_map(|lane| &lane.edges);
        let senders: Vec<NodeId> = edges().map(|edge| edge.child).collect();
        let located = stripe.indices().filter_map(|chunk| Some((chunk, stripe.copy(chunk)?.node)));
        let sent = located.filter(|(_, node)| senders.contains(node));
        let (copied, mut sources): (Vec<_>, Vec<_>) =
            sent.partition(|(chunk, _)| plan.lost.contains(chunk));
        // What is to leave a node that helps is read only where nothing else is.
        if sources.is_empty() {
            sources = copied;
        }
        // What is left of another one of the stripe has ended without a word, or is replaced.
        let before = self.of_stripe.remove(&plan.stripe);
        let before = before.and_then(|id| Some((id, self.running.remove(&id)?.at)));
        if self.running.len() >= RUNNING_MAX {
            return;
        }
        let begun = BegunRepair {
            stripe: plan.stripe,
            at: now,
            before,
            sources,
            lanes: plan.lanes.len(),
            edges: senders.len(),
            bytes: edges().map(|edge| edge.bytes).sum(),
            chunks_left: plan.lost.len(),
            destinations: plan.destinations.iter().map(|(chunk, node)| (*node, *chunk)).collect(),
        };
        self.running.insert(repair, begun);
        self.of_stripe.insert(plan.stripe, repair);
    }

    /// The new attempt was begun a moment ago, and goes on with what the other one has.
    fn replaced(&mut self, repair: RepairId, by: RepairId) {
        let Some(begun) = self.running.get_mut(&by) else { return };
        if let Some((_, at)) = begun.before.filter(|(id, _)| *id == repair) {
            begun.at = at;
        }
    }

    fn forget(&mut self, repair: RepairId) {
        if let Some(begun) = self.running.remove(&repair) {
            self.of_stripe.remove(&begun.stripe);
        }
    }

    /// What is known of the chunk of a commit that is asked for now.
    pub fn asked(&self, now: Time, commit: &Commit, stripes: &StripeMap) -> Option<RebuiltChunk> {
        let stripe = stripes.get(commit.copy.stripe)?;
        let bytes = stripe.chunks.get(usize::from(commit.copy.chunk.0))?.bytes;
        self.rebuilt(now, commit.repair, commit.copy.at(commit.node), bytes, stripes)
    }

    /// What is known of the chunk that a destination of a repair is to publish now.
    pub fn published(
        &self,
        now: Time,
        repair: RepairId,
        node: NodeId,
        stripes: &StripeMap,
    ) -> Option<RebuiltChunk> {
        let begun = self.running.get(&repair)?;
        let (stripe, chunk) = (begun.stripe, *begun.destinations.get(&node)?);
        let copy = ChunkCopy { stripe, chunk, stamp: Stamp::from(repair) };
        let bytes = stripes.get(stripe)?.chunks.get(usize::from(chunk.0))?.bytes;
        self.rebuilt(now, repair, copy.at(node), bytes, stripes)
    }

    fn committed(
        &mut self,
        now: Time,
        repair: RepairId,
        copy: CopyAt,
        bytes: u64,
        stripes: &StripeMap,
    ) -> Option<RebuiltChunk> {
        let rebuilt = self.rebuilt(now, repair, copy, bytes, stripes)?;
        let begun = self.running.get_mut(&repair)?;
        begun.chunks_left = begun.chunks_left.saturating_sub(1);
        if begun.chunks_left == 0 {
            self.forget(repair);
        }
        Some(rebuilt)
    }

    fn rebuilt(
        &self,
        now: Time,
        repair: RepairId,
        CopyAt { node, copy }: CopyAt,
        bytes: u64,
        stripes: &StripeMap,
    ) -> Option<RebuiltChunk> {
        let begun = self.running.get(&repair)?;
        let record =
            stripes.get(copy.stripe).and_then(|of| of.chunks.get(usize::from(copy.chunk.0)));
        let has_crc = record.is_some_and(|record| record.crc.is_some());
        Some(RebuiltChunk {
            repair,
            copy,
            node,
            bytes,
            sources: begun.sources.clone(),
            lanes: begun.lanes,
            edges: begun.edges,
            moved_bytes: begun.bytes,
            seconds: now.since(begun.at).as_secs_f64(),
            proven_by: if has_crc { ProvenBy::Checksum } else { ProvenBy::Fingerprint },
        })
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::id::Generation;
    use suture_repair::message::Failure;
    use suture_repair::plan::{Carries, Edge, Lane, Mode, Range, Start};
    use suture_repair::stripe::{ChunkRecord, Stripe};
    use suture_repair::time::Span;

    use super::*;

    /// A stripe of rs(2,1) on nodes 0 to 2; its last chunk has no recorded checksum.
    fn stripes() -> StripeMap {
        let record = |chunk: u8| ChunkRecord {
            node: Some(NodeId(chunk.into())),
            stamp: Stamp(1),
            bytes: 64,
            crc: (chunk < 2).then_some(7),
        };
        StripeMap::new([Stripe {
            id: StripeId(5),
            code: "rs(2,1)".parse().unwrap(),
            chunk_bytes: 64,
            unit_bytes: 64,
            generation: Generation(0),
            chunks: (0..3).map(record).collect(),
        }])
    }

    /// Rebuilds a chunk onto node 9 from what these nodes send it.
    fn plan(lost: u8, senders: &[u32]) -> Plan {
        let (lost, range) = (vec![ChunkIndex(lost)], Range { from: 0, to: 64 });
        let edge = |sender: &u32| Edge {
            child: NodeId(*sender),
            parent: NodeId(9),
            bytes: 64,
            carries: Carries::Partial,
        };
        let edges = senders.iter().map(edge).collect();
        let (mode, lane_lost) = (Mode::Streamed, lost.clone());
        let lane = Lane { range, lost: lane_lost, mode, decoder: None, scheme: None, edges };
        Plan {
            stripe: StripeId(5),
            destinations: lost.iter().map(|chunk| (*chunk, NodeId(9))).collect(),
            lost,
            start: Start::Now,
            range,
            period: None,
            lanes: vec![lane],
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn started(repair: u64, lost: u8, senders: &[u32]) -> Report {
        Report::Started { repair: RepairId(repair), plan: plan(lost, senders) }
    }

    fn committed(repair: u64, chunk: u8) -> Report {
        let copy =
            ChunkCopy { stripe: StripeId(5), chunk: ChunkIndex(chunk), stamp: Stamp(repair) };
        Report::Committed { repair: RepairId(repair), copy, node: NodeId(9), bytes: 64 }
    }

    #[test]
    fn a_rebuilt_chunk_has_its_sources_its_time_and_its_proof() {
        let (mut attempts, stripes) = (Attempts::default(), stripes());
        assert_eq!(attempts.note(at(1), &started(1, 0, &[1, 2]), &stripes), None);
        let rebuilt = attempts.note(at(4), &committed(1, 0), &stripes).unwrap();
        let sources = vec![(ChunkIndex(1), NodeId(1)), (ChunkIndex(2), NodeId(2))];
        assert_eq!((rebuilt.sources.clone(), rebuilt.seconds), (sources, 3.0));
        assert_eq!((rebuilt.edges, rebuilt.lanes, rebuilt.moved_bytes), (2, 1, 128));
        assert_eq!((rebuilt.proven_by, rebuilt.is_copied()), (ProvenBy::Checksum, false));
        assert_eq!(attempts.note(at(5), &committed(1, 0), &stripes), None, "it has ended");
        attempts.note(at(6), &started(2, 2, &[0, 1]), &stripes);
        let rebuilt = attempts.note(at(6), &committed(2, 2), &stripes).unwrap();
        assert_eq!(rebuilt.proven_by, ProvenBy::Fingerprint);
        assert!(attempts.running.is_empty() && attempts.of_stripe.is_empty());
    }

    #[test]
    fn what_a_commit_is_asked_for_is_known_before_it_is_answered() {
        let (mut attempts, stripes) = (Attempts::default(), stripes());
        let copy = ChunkCopy { stripe: StripeId(5), chunk: ChunkIndex(0), stamp: Stamp(1) };
        let commit = Commit {
            repair: RepairId(1),
            copy,
            node: NodeId(9),
            generation: Generation(0),
            clears: None,
        };
        assert_eq!(attempts.asked(at(1), &commit, &stripes), None, "nothing runs");
        attempts.note(at(1), &started(1, 0, &[1, 2]), &stripes);
        let asked = attempts.asked(at(4), &commit, &stripes).unwrap();
        assert_eq!(attempts.asked(at(4), &commit, &stripes), Some(asked.clone()), "as often");
        // It was to publish it before.
        let published = |node| attempts.published(at(4), RepairId(1), NodeId(node), &stripes);
        let stamp = Stamp::from(RepairId(1));
        assert_eq!(published(9).unwrap().copy, ChunkCopy { stamp, ..copy });
        assert_eq!((published(9).unwrap().sources, published(1)), (asked.sources.clone(), None));
        assert_eq!(attempts.note(at(4), &committed(1, 0), &stripes), Some(asked));
    }

    #[test]
    fn a_chunk_that_is_copied_has_itself_as_its_source_unless_others_help() {
        let (mut attempts, stripes) = (Attempts::default(), stripes());
        attempts.note(at(1), &started(1, 0, &[0]), &stripes);
        let copied = attempts.note(at(2), &committed(1, 0), &stripes).unwrap();
        assert_eq!(copied.sources, [(ChunkIndex(0), NodeId(0))]);
        assert!(copied.is_copied());
        attempts.note(at(3), &started(2, 0, &[0, 1, 2]), &stripes);
        let rebuilt = attempts.note(at(4), &committed(2, 0), &stripes).unwrap();
        assert_eq!((rebuilt.sources.len(), rebuilt.is_copied()), (2, false));
    }

    #[test]
    fn an_attempt_that_continues_another_counts_from_its_beginning_and_no_other_does() {
        let (mut attempts, stripes) = (Attempts::default(), stripes());
        attempts.note(at(1), &started(1, 0, &[1, 2]), &stripes);
        attempts.note(at(3), &started(2, 0, &[1, 2]), &stripes);
        let (repair, by) = (RepairId(1), RepairId(2));
        let without = vec![NodeId(1)];
        attempts.note(at(3), &Report::Replaced { repair, by, without }, &stripes);
        let continued = attempts.note(at(4), &committed(2, 0), &stripes).unwrap();
        assert_eq!(continued.seconds, 3.0);
        attempts.note(at(5), &started(3, 0, &[1, 2]), &stripes);
        attempts.note(at(7), &started(4, 0, &[1, 2]), &stripes);
        assert_eq!(attempts.running.len(), 1, "one of a stripe at a time");
        let why = Failure::Stalled;
        attempts.note(at(8), &Report::Failed { repair: RepairId(3), node: None, why }, &stripes);
        let rebuilt = attempts.note(at(9), &committed(4, 0), &stripes).unwrap();
        assert_eq!(rebuilt.seconds, 2.0);
        attempts.note(at(10), &started(5, 0, &[1, 2]), &stripes);
        let why = Failure::Stalled;
        attempts.note(at(11), &Report::Failed { repair: RepairId(5), node: None, why }, &stripes);
        assert!(attempts.running.is_empty() && attempts.of_stripe.is_empty());
    }
}
