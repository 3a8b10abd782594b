//! Which agent keeps the next backup of the metadata, and when one last did.
//!
//! Place: beside the life of a repair: the coordinator's disk can be lost with everything on it. An
//! agent is asked in turn, and reports when its backup is durable; that none does is a thing to
//! know before the backup is needed.

use std::time::Duration;

use suture_repair::id::NodeId;
use suture_repair::placement;
use tokio::time::Instant;

/// The first backup after a start goes out this soon, however rare they are.
const FIRST: Duration = Duration::from_secs(60);

/// So many turns may come to nothing before that is reported: a node can be down when its turn
/// comes.
const TURNS: u32 = 2;

/// What a fetch may take beside.
const FETCH: Duration = Duration::from_secs(10);

/// Backups of the metadata, one agent after the other.
#[derive(Debug)]
pub struct Backups {
    every: Option<Duration>,
    next: Option<Instant>,
    /// The node that was asked last.
    asked: Option<NodeId>,
    /// When a backup was last durable, or this began.
    kept_at: Instant,
}

impl Backups {
    /// None, from now on.
    pub fn off(now: Instant) -> Backups {
        Backups { every: None, next: None, asked: None, kept_at: now }
    }

    /// How often an agent is to keep one, from now on; the first soon.
    pub fn spread(&mut self, now: Instant, every: Option<Duration>) {
        self.every = every;
        self.next = every.map(|every| now + every.min(FIRST));
    }

    /// How often an agent is to keep one.
    pub fn every(&self) -> Option<Duration> {
        self.every
    }

    /// When the next one is due.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// The next node to keep a copy if one is due now, of those that are up.
    pub fn next(&mut self, now: Instant, up: &[NodeId]) -> Option<NodeId> {
        self.next = self.every.map(|every| now + every);
        let next = placement::next_in_turn(up, self.asked)?;
        self.asked = Some(next);
        Some(next)
    }

    /// An agent has a durable backup.
    pub fn kept(&mut self, now: Instant) {
        self.kept_at = now;
    }

    /// How long ago that was, or this began.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.kept_at)
    }

    /// For how long none was kept, where that is longer than can be expected.
    pub fn overdue(&self, now: Instant) -> Option<Duration> {
        let expected = self.every?.saturating_mul(TURNS) + FETCH;
        Some(self.age(now)).filter(|age| *age > expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nobody_keeps_copies_is_said_after_two_turns() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut backups = Backups::off(begun);
        assert_eq!((backups.due(), backups.overdue(at(1_000_000))), (None, None));
        backups.spread(begun, Some(Duration::from_secs(100)));
        assert_eq!(backups.due(), Some(at(60)));
        assert_eq!(backups.next(at(60), &[NodeId(1), NodeId(2)]), Some(NodeId(1)));
        assert_eq!(backups.next(at(160), &[NodeId(1), NodeId(2)]), Some(NodeId(2)));
        assert_eq!((backups.overdue(at(210)), backups.due()), (None, Some(at(260))));
        assert_eq!(backups.overdue(at(211)), Some(Duration::from_secs(211)));
        backups.kept(at(212));
        assert_eq!(backups.overdue(at(421)), None);
        assert_eq!(backups.next(at(260), &[]), None);
    }
}
