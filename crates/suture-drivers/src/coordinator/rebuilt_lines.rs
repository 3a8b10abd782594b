//! A line of the log for each rebuilt chunk, while there are few at a time.
//!
//! Place: ... commit location -> [stripe healthy]: what operators look for after a repair.
//! Thousands of small chunks a second would bury all other lines, and fill the log's disk: of each
//! second the first few chunks have lines of their own, and the others one together. At debug each
//! has its own. Only the metadata know the name of its object: a line waits for that, and the
//! driver does not.

use std::time::Duration;

use suture_repair::id::NodeId;
use suture_repair::time::{Span, Time};
use tokio::time::timeout;
use tracing::{debug, info};

use super::CoordinatorDriver;
use crate::attempt::RebuiltChunk;
use crate::hdfs::group::group_id;

/// Chunks of a second that have lines of their own: what an operator can still read as it comes,
/// and a few hundred megabytes of log in a week of repairs without an end.
const LINES_MAX: u64 = 10;

/// What they are counted in.
const SECOND: Span = Span::from_secs(1);

/// How long a line waits for the name of its object; then it goes without.
const NAME_WAIT: Duration = Duration::from_secs(5);

/// Which rebuilt chunks have a line of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct RebuiltLines {
    /// When the present second began, in which lines are counted.
    began: Option<Time>,
    lines: u64,
    others: UnlistedChunks,
}

/// Rebuilt chunks without a line of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnlistedChunks {
    /// How many they are.
    pub chunks: u64,
    /// How many bytes these have.
    pub bytes: u64,
}

impl RebuiltLines {
    /// Whether a chunk of so many bytes, rebuilt now, has a line of its own.
    pub fn take(&mut self, now: Time, bytes: u64) -> bool {
        if self.is_over(now) {
            (self.began, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        let has_line = self.lines <= LINES_MAX;
        if !has_line {
            self.others.chunks += 1;
            self.others.bytes += bytes;
        }
        has_line
    }

    /// The chunks that had none, once their second is over.
    pub fn rest(&mut self, now: Time) -> Option<UnlistedChunks> {
        let is_due = self.is_over(now) && self.others.chunks > 0;
        is_due.then(|| std::mem::take(&mut self.others))
    }

    fn is_over(&self, now: Time) -> bool {
        self.began.is_none_or(|began| now.since(began) >= SECOND)
    }
}

/// What the line of a chunk says, beside its object.
struct RebuiltLine {
    rebuilt: RebuiltChunk,
    /// The nodes that it was read from.
    from: String,
    /// The node that it is on.
    to: String,
}

impl RebuiltLine {
    /// Writes it: at debug where it has no object, since then it is one of many.
    fn log(&self, object: Option<&str>) {
        let RebuiltChunk { repair, copy, bytes, seconds, proven_by, .. } = &self.rebuilt;
        let (stripe, chunk, seconds) = (copy.stripe.0, copy.chunk.0, (seconds * 1e3).round() / 1e3);
        let (from, to, check) = (self.from.as_str(), self.to.as_str(), proven_by.word());
        let what = if self.rebuilt.is_copied() { "chunk copied" } else { "chunk rebuilt" };
        match object {
            Some(object) => {
                info!(object, stripe, chunk, from, to, bytes, seconds, check, %repair, "{what}");
            }
            None => debug!(stripe, chunk, from, to, bytes, seconds, check, %repair, "{what}"),
        }
    }
}

impl CoordinatorDriver {
    /// Writes a line of a chunk that was rebuilt, or counts it with others.
    pub(super) fn log_rebuilt(&mut self, rebuilt: RebuiltChunk) {
        self.log_rest();
        let cluster = self.core.cluster();
        let name = |node: &NodeId| cluster.node(*node).name.as_str();
        let from: Vec<&str> = rebuilt.sources.iter().map(|(_, node)| name(node)).collect();
        let (from, to) = (from.join(","), name(&rebuilt.node).to_owned());
        let (stripe, bytes) = (rebuilt.copy.stripe, rebuilt.bytes);
        let line = RebuiltLine { rebuilt, from, to };
        if !self.lines.take(self.now(), bytes) {
            return line.log(None);
        }
        if self.hdfs.is_some() {
            return line.log(Some(&format!("block group {}", group_id(stripe))));
        }
        let metadata = self.metadata.clone();
        tokio::spawn(async move {
            let names = metadata.query(move |store| store.names_of(&[stripe]));
            let names = timeout(NAME_WAIT, names).await.ok().and_then(Result::ok);
            let object = names.and_then(|mut names| names.remove(&stripe));
            line.log(Some(&object.unwrap_or_default()));
        });
    }

    /// Logs how many more were rebuilt than have lines.
    pub(super) fn log_rest(&mut self) {
        if let Some(UnlistedChunks { chunks, bytes }) = self.lines.rest(self.now()) {
            info!(chunks, bytes, "more chunks rebuilt, without lines of their own");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn of_each_second_ten_chunks_have_lines_and_the_others_are_counted() {
        let mut lines = RebuiltLines::default();
        let unlisted = |chunks, bytes| Some(UnlistedChunks { chunks, bytes });
        let taken = |lines: &mut RebuiltLines, from: u64, count: u64| {
            (from..from + count).filter(|ms| lines.take(at(*ms), 3)).count()
        };
        assert_eq!(taken(&mut lines, 5000, 25), 10);
        assert_eq!(lines.rest(at(5999)), None, "more may come");
        assert_eq!(lines.rest(at(6000)), unlisted(15, 45));
        assert_eq!(lines.rest(at(6001)), None);
        assert_eq!(taken(&mut lines, 6100, 7), 7);
        assert_eq!(lines.rest(at(7100)), None, "all have lines");
        // A rest that was not taken is counted with what comes later.
        assert_eq!(taken(&mut lines, 8000, 11), 10);
        assert_eq!(taken(&mut lines, 9000, 12), 10);
        assert_eq!(lines.rest(at(10_000)), unlisted(3, 9));
    }

    #[test]
    fn a_repair_of_ten_thousand_chunks_a_second_has_eleven_lines_a_second() {
        let (mut lines, mut written) = (RebuiltLines::default(), 0);
        for chunk in 0..50_000 {
            let now = Time { ns: chunk * 100_000 };
            written += u64::from(lines.rest(now).is_some());
            written += u64::from(lines.take(now, 1));
        }
        assert_eq!(written, 5 * 10 + 4);
        let rest = UnlistedChunks { chunks: 9990, bytes: 9990 };
        assert_eq!(lines.rest(at(60_000)), Some(rest));
    }
}
