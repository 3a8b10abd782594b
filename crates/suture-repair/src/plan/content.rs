//! What a repair takes of its helpers: all that planning asks of a repair DAG.
//!
//! Place: beneath `[plan]`, where plans are made, validated and weighed. The DAG of a code with
//! many sub-chunks is large, a million values where alpha is 4096, and stripes of a batch repeat a
//! few patterns of (code, lost chunks, helpers). So each DAG is built once and let go, and what
//! helpers read and send is kept.

use std::collections::BTreeMap;
use std::rc::Rc;

use suture_code::{ChunkIndex, CodeError, Dag, Shortened};

use crate::plan::{Lane, LaneFault, SchemeId, StripeFacts};

/// A helper and what it sends and reads, in sub-chunks; of traces it sends bits for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub chunk: ChunkIndex,
    pub sent: u32,
    pub read: u32,
}

/// What a repair takes of its helpers.
#[derive(Debug)]
pub(crate) struct Content {
    /// The nodes that read something, ascending by chunk.
    pub senders: Vec<Sender>,
    /// Whether it is one sum of whole chunks, which may be added up on the way.
    pub is_sum: bool,
}

impl Content {
    /// What the repair of `lost` from `helpers` takes of its helpers.
    ///
    /// # Errors
    /// As [`Shortened::repair_dag`].
    pub fn of_repair(
        code: Shortened,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Content, CodeError> {
        let dag = code.repair_dag(lost, helpers)?;
        let is_sum = lost.first().is_some_and(|lost| dag.partial_coefficients(*lost).is_some());
        Ok(Content { senders: senders(&dag, &dag.sends()), is_sum })
    }

    /// What the holder of `chunk` sends.
    pub fn sent(&self, chunk: ChunkIndex) -> u64 {
        let sender = self.senders.iter().find(|sender| sender.chunk == chunk);
        sender.map_or(0, |sender| sender.sent.into())
    }
}

fn senders(dag: &Dag, sent: &[(ChunkIndex, u32)]) -> Vec<Sender> {
    let sent =
        |chunk| sent.iter().find(|(sender, _)| *sender == chunk).map_or(0, |(_, sent)| *sent);
    let reads = dag.reads().into_iter();
    let sender = |(chunk, read): (ChunkIndex, Vec<u32>)| Sender {
        chunk,
        sent: sent(chunk),
        read: read.len() as u32,
    };
    reads.map(sender).collect()
}

/// What the content of a repair depends on, for one code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RepairPattern {
    /// These chunks are rebuilt from these helpers.
    Chunks { lost: Vec<ChunkIndex>, helpers: Vec<ChunkIndex> },
    /// A trace scheme says both.
    Scheme(SchemeId),
}

type Answer = Result<Rc<Content>, CodeError>;

/// Answers for the repairs of a batch, each computed once.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    known: Vec<(Shortened, BTreeMap<RepairPattern, Answer>)>,
}

impl Contents {
    /// What the repair of `lost` from `helpers` takes of its helpers, computed once.
    ///
    /// # Errors
    /// As [`Shortened::repair_dag`].
    pub fn of_repair(
        &mut self,
        code: Shortened,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Rc<Content>, CodeError> {
        let pattern = RepairPattern::Chunks { lost: lost.to_vec(), helpers: helpers.to_vec() };
        self.find(code, pattern, || Content::of_repair(code, lost, helpers))
    }

    /// What a lane takes of its helpers, by these or by its scheme.
    ///
    /// # Errors
    /// When the code does not repair from these helpers, or has no such scheme.
    pub fn of_lane(
        &mut self,
        lane: &Lane,
        facts: &StripeFacts<'_>,
    ) -> Result<Rc<Content>, LaneFault> {
        let code = facts.code;
        let found = match lane.scheme {
            None => self.of_repair(code, &lane.lost, &lane.helpers(facts)),
            Some(id) => {
                let scheme = code.scheme(id.0);
                let scheme = scheme.ok_or(LaneFault::NoScheme { scheme: id, code: code.code() })?;
                self.find(code, RepairPattern::Scheme(id), || {
                    let dag = code.trace_dag(scheme)?;
                    Ok(Content { senders: senders(&dag, &trace_bits(&dag)), is_sum: false })
                })
            }
        };
        found.map_err(LaneFault::Helpers)
    }

    fn find(
        &mut self,
        code: Shortened,
        pattern: RepairPattern,
        compute: impl FnOnce() -> Result<Content, CodeError>,
    ) -> Result<Rc<Content>, CodeError> {
        let at = self.known.iter().position(|(known, _)| *known == code).unwrap_or_else(|| {
            self.known.push((code, BTreeMap::new()));
            self.known.len() - 1
        });
        let answer = self.known[at].1.entry(pattern);
        answer.or_insert_with(|| compute().map(Rc::new)).clone()
    }
}

/// How many bits each helper of a trace repair sends for each byte.
fn trace_bits(dag: &Dag) -> Vec<(ChunkIndex, u32)> {
    let sent = dag.sent_values().into_iter();
    sent.map(|(chunk, values)| (chunk, values.iter().map(|id| dag.value(*id).width as u32).sum()))
        .collect()
}
