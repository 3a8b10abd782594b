//! What was repaired since the coordinator began, from each loss until all was whole again.
//!
//! Place: [failure detected -> ... -> stripe healthy], seen from its end: what `suture status` and
//! the page show of the past. An episode begins with the first chunk that is lost or to leave its
//! node, and ends when none is any more; losses that come meanwhile belong to it. What ended
//! without a rebuilt chunk (a node that came back in time) is none. It is in memory alone, and
//! bounded: the metrics are for what must outlive a restart.

use suture_repair::event::{Health, Report, Status};
use suture_repair::id::NodeId;
use suture_repair::time::{Span, Time};

/// Episodes that are remembered; older ones are forgotten.
const EPISODES_MAX: usize = 50;

/// While chunks move to a node that holds little, an episode does not end for so long after the
/// last of them: the next are chosen once a second.
const BETWEEN_MOVES: Span = Span::from_secs(5);

/// Nodes that an episode names; more are counted only.
const NODES_NAMED: usize = 16;

/// One stretch of time in which something was lost or to leave its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// When it began, in seconds since 1970 by the system's clock.
    pub began: u64,
    /// The same by the coordinator's.
    pub began_at: Time,
    /// When its last chunk was rebuilt; the time until then is the repair's.
    pub rebuilt_at: Option<Time>,
    /// Whether nothing was lost any more in the end.
    pub has_ended: bool,
    /// The first of the nodes that failed, in the order in which they did.
    pub failed: Vec<NodeId>,
    /// How many nodes failed in all.
    pub failed_nodes: u64,
    /// Copies of no use that were found.
    pub bad_copies: u64,
    /// Chunks that were rebuilt or moved.
    pub chunks: u64,
    /// How many bytes these have.
    pub bytes: u64,
    /// Attempts that failed, and were made again.
    pub failed_attempts: u64,
}

/// The last episodes, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The newest one is the last.
    episodes: Vec<Episode>,
}

impl History {
    /// The last episodes, the newest first.
    pub fn episodes(&self) -> impl Iterator<Item = &Episode> {
        self.episodes.iter().rev()
    }

    /// Remembers what a report says; `clock` is now in seconds since 1970.
    pub fn note(&mut self, now: Time, clock: u64, report: &Report) {
        match report {
            Report::Node { node, health: Health::Failed, chunks } if *chunks > 0 => {
                let episode = self.open(now, clock);
                episode.failed_nodes += 1;
                if episode.failed.len() < NODES_NAMED {
                    episode.failed.push(*node);
                }
            }
            Report::ChunkLost { .. } => self.open(now, clock).bad_copies += 1,
            Report::Committed { bytes, .. } => {
                let episode = self.open(now, clock);
                episode.chunks += 1;
                episode.bytes += bytes;
                episode.rebuilt_at = Some(now);
            }
            Report::Started { .. } => drop(self.open(now, clock)),
            Report::Failed { .. } => self.open(now, clock).failed_attempts += 1,
            _ => {}
        }
    }

    /// Ends the episode that runs where nothing is lost any more.
    pub fn measure(&mut self, now: Time, status: &Status) {
        let is_filling = |rebuilt_at: Time| {
            status.rebalance.bytes_left > 0 && now.since(rebuilt_at) < BETWEEN_MOVES
        };
        let is_whole = status.lost_chunks == 0
            && status.leaving_chunks == 0
            && status.running.is_empty()
            && status.at_risk.iter().all(|stripes| *stripes == 0);
        let running = self.episodes.last_mut().filter(|last| is_whole && !last.has_ended);
        let Some(episode) = running else { return };
        if episode.rebuilt_at.is_some_and(is_filling) {
            return;
        }
        episode.has_ended = true;
        if episode.chunks == 0 {
            self.episodes.pop();
        }
    }

    /// The episode that runs; a new one, if none does.
    fn open(&mut self, now: Time, clock: u64) -> &mut Episode {
        if self.episodes.last().is_none_or(|last| last.has_ended) {
            if self.episodes.len() == EPISODES_MAX {
                self.episodes.remove(0);
            }
            self.episodes.push(Episode {
                began: clock,
                began_at: now,
                rebuilt_at: None,
                has_ended: false,
                failed: Vec::new(),
                failed_nodes: 0,
                bad_copies: 0,
                chunks: 0,
                bytes: 0,
                failed_attempts: 0,
            });
        }
        self.episodes.last_mut().expect("there is one")
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::event::RebalanceStatus;
    use suture_repair::id::{ChunkCopy, ChunkIndex, RepairId, Stamp, StripeId};

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn failed(node: u32, chunks: u64) -> Report {
        Report::Node { node: NodeId(node), health: Health::Failed, chunks }
    }

    fn committed(bytes: u64) -> Report {
        let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(1) };
        Report::Committed { repair: RepairId(1), copy, node: NodeId(9), bytes }
    }

    fn losing(lost_chunks: u64) -> Status {
        Status { lost_chunks, ..Status::default() }
    }

    #[test]
    fn an_episode_lasts_from_the_first_loss_until_nothing_is_lost() {
        let mut history = History::default();
        history.note(at(1), 1001, &failed(3, 2));
        history.measure(at(999), &losing(2));
        history.note(at(3), 1003, &failed(4, 1));
        history.note(at(5), 1005, &committed(10));
        history.measure(at(999), &losing(2));
        history.note(at(6), 1006, &committed(20));
        history.note(at(7), 1007, &committed(20));
        assert!(!history.episodes[0].has_ended);
        history.measure(at(999), &losing(0));
        history.note(at(60), 1060, &committed(7));
        history.measure(at(999), &losing(0));
        let all: Vec<&Episode> = history.episodes().collect();
        assert_eq!(all.len(), 2, "{all:?}");
        let (newest, first) = (all[0], all[1]);
        assert_eq!((newest.began, newest.chunks, newest.bytes), (1060, 1, 7));
        assert_eq!((first.began, first.chunks, first.bytes), (1001, 3, 50));
        assert_eq!(first.failed, [NodeId(3), NodeId(4)]);
        assert_eq!(first.rebuilt_at, Some(at(7)));
    }

    #[test]
    fn what_comes_back_before_anything_was_rebuilt_is_no_episode() {
        let mut history = History::default();
        history.note(at(1), 1001, &failed(3, 2));
        history.measure(at(999), &losing(0));
        assert_eq!(history.episodes().count(), 0);
        // A node without chunks loses none.
        history.note(at(2), 1002, &failed(4, 0));
        assert_eq!(history.episodes().count(), 0);
    }

    #[test]
    fn moves_to_a_new_node_are_one_episode() {
        let mut history = History::default();
        let filling = |bytes_left| Status {
            rebalance: RebalanceStatus { chunks: 0, bytes_left },
            ..Status::default()
        };
        for second in 1..100 {
            history.note(at(second), 1000 + second, &committed(10));
            history.measure(at(second), &filling(1000 - 10 * second));
        }
        history.measure(at(99) + BETWEEN_MOVES, &filling(10));
        history.note(at(200), 1200, &committed(10));
        history.measure(at(200), &filling(0));
        let all: Vec<_> = history.episodes().map(|episode| episode.chunks).collect();
        assert_eq!(all, [1, 99]);
    }

    #[test]
    fn it_is_bounded() {
        let mut history = History::default();
        for number in 0..1000 {
            (0..100).for_each(|node| history.note(at(number), number, &failed(node, 1)));
            history.note(at(number), number, &committed(1));
            history.measure(at(999), &losing(0));
        }
        assert_eq!(history.episodes().count(), EPISODES_MAX);
        let newest = history.episodes().next().unwrap();
        assert_eq!((newest.began, newest.failed_nodes), (999, 100));
        assert_eq!(newest.failed.len(), NODES_NAMED);
    }
}
