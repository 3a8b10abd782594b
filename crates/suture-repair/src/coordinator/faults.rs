//! What is wrong with copies that are locations, and for how long that counts.
//!
//! Place: [failure detected -> stripes affected] -> queue -> ... -> stripe healthy.
//! A copy that is missing or corrupt is of no use at once. One that cannot be read may be whole: a
//! disk was not there for a while, a process had no descriptors left. It is read in full again,
//! ever more rarely, and is of no use when that failed [`ATTEMPTS_MAX`] times in a row.
//!
//! No fault is permanent. Of what is of no use, a missing copy is back when it is listed; any other
//! is read anew whenever it is listed, and is back when it is good. Only where the other chunks of
//! its stripe show that a copy is wrong, its own checksums count no more.
//!
//! Faults survive a restart: the keeper records them for the copies that are locations and gives
//! them to the next coordinator. Missing copies are not recorded; the next listing shows them.
//!
//! Invariants: no copy is both of no use and waiting to be read again; every one that waits has its
//! time; what is recorded is what is known.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::KnownFault;
use crate::id::{ChunkCopy, CopyAt, NodeId};
use crate::message::CopyFault;
use crate::mutant::{Mistake, Mutant};
use crate::time::{Span, Time};

/// So often in a row a copy may be unreadable before it counts as lost.
const ATTEMPTS_MAX: u32 = 5;

/// What is known to be wrong.
#[derive(Debug, Default)]
pub(super) struct CopyFaults {
    /// Copies of no use.
    bad: BTreeMap<CopyAt, CopyFault>,
    /// Those of them whose own checksums agree: the stripe's other chunks show that they are wrong.
    inconsistent: BTreeSet<CopyAt>,
    /// Copies that could not be read and may be whole.
    unread: BTreeMap<CopyAt, Unread>,
    /// When each of these is due.
    due: BTreeSet<(Time, CopyAt)>,
    /// What the keeper has recorded.
    recorded: BTreeMap<CopyAt, KnownFault>,
    /// Copies of which something else may be known by now.
    changed: BTreeSet<CopyAt>,
    pub mistake: Mistake,
}

/// A copy that could not be read.
#[derive(Clone, Copy, Debug)]
struct Unread {
    attempts: u32,
    /// Whether its holder was asked to read it in full again.
    is_asked: bool,
    due: Time,
}

impl CopyFaults {
    /// Whether the copy is of no use.
    pub fn is_bad(&self, location: CopyAt) -> bool {
        self.bad.contains_key(&location)
    }

    /// What is wrong with a copy of no use.
    pub fn fault(&self, location: CopyAt) -> Option<CopyFault> {
        self.bad.get(&location).copied()
    }

    /// Records what was found wrong with a copy; one that could not be read is read again after
    /// `first`. Returns whether the copy is of no use now.
    pub fn found(&mut self, location: CopyAt, fault: CopyFault, now: Time, first: Span) -> bool {
        if fault != CopyFault::Unreadable {
            self.condemn(location, fault);
            return true;
        }
        if self.is_bad(location) {
            return true;
        }
        let before = self.unread.get(&location).copied();
        // What else is reported of it until it is read again comes from the same fault.
        if before.is_some_and(|before| !before.is_asked) {
            return false;
        }
        let attempts = before.map_or(0, |before| before.attempts) + 1;
        self.take_unread(location);
        if attempts >= ATTEMPTS_MAX {
            self.condemn(location, fault);
            return true;
        }
        let due = now + first.times(1 << (2 * (attempts - 1)));
        self.put_unread(location, Unread { attempts, is_asked: false, due });
        false
    }

    /// The stripe's other chunks show that the copy is wrong, whatever its own checksums say.
    pub fn found_inconsistent(&mut self, location: CopyAt) {
        self.condemn(location, CopyFault::Corrupt);
        self.inconsistent.insert(location);
    }

    /// The coordinator before knew this of a copy, and the keeper has recorded it.
    pub fn recall(&mut self, location: CopyAt, fault: KnownFault) {
        match fault {
            KnownFault::Corrupt => self.condemn(location, CopyFault::Corrupt),
            KnownFault::Unreadable => self.condemn(location, CopyFault::Unreadable),
            KnownFault::Inconsistent => self.found_inconsistent(location),
        }
        self.recorded.insert(location, fault);
    }

    /// What the keeper is to record: of each copy what is wrong with it, or that nothing is any
    /// more.
    pub fn news(&mut self) -> Vec<(CopyAt, Option<KnownFault>)> {
        let mut news = Vec::new();
        for location in std::mem::take(&mut self.changed) {
            let known = self.known(location);
            let before = match known {
                Some(fault) => self.recorded.insert(location, fault),
                None => self.recorded.remove(&location),
            };
            news.extend((before != known).then_some((location, known)));
        }
        news
    }

    /// What is to outlive this coordinator.
    fn known(&self, location: CopyAt) -> Option<KnownFault> {
        match self.fault(location)? {
            CopyFault::Missing => None,
            _ if self.inconsistent.contains(&location) => Some(KnownFault::Inconsistent),
            CopyFault::Corrupt => Some(KnownFault::Corrupt),
            CopyFault::Unreadable => Some(KnownFault::Unreadable),
        }
    }

    /// The copy is of no use.
    fn condemn(&mut self, location: CopyAt, fault: CopyFault) {
        self.take_unread(location);
        if self.mistake.is(Mutant::ReadCondemned) {
            let due = Time { ns: u64::MAX };
            self.put_unread(location, Unread { attempts: 1, is_asked: false, due });
        }
        self.bad.insert(location, fault);
        if !self.mistake.is(Mutant::LeaveUnrecorded) {
            self.changed.insert(location);
        }
    }

    /// The copy was read in full and has its checksums. Whether it was of no use before and is good
    /// by that.
    pub fn read_well(&mut self, location: CopyAt) -> bool {
        !self.inconsistent.contains(&location) && self.forget(location)
    }

    /// The copy is good again, or is no recorded location any more. Returns whether it was of no
    /// use before.
    pub fn forget(&mut self, location: CopyAt) -> bool {
        self.take_unread(location);
        self.inconsistent.remove(&location);
        let was_bad = self.bad.remove(&location).is_some();
        if was_bad {
            self.changed.insert(location);
        }
        was_bad
    }

    /// What is neither held by a node nor recorded there needs no memory. A location that a list
    /// lacks may be there all the same, in a folder that could not be read.
    pub fn keep_only(&mut self, node: NodeId, is_kept: impl Fn(&ChunkCopy) -> bool) {
        let of_any = self.bad.keys().chain(self.unread.keys());
        let gone = of_any.filter(|at| at.node == node && !is_kept(&at.copy));
        let gone: Vec<CopyAt> = gone.copied().collect();
        for location in gone {
            self.forget(location);
        }
    }

    /// Copies that are to be read again now; if no answer comes within `answer_within`, they are
    /// due once more.
    pub fn due(&mut self, now: Time, answer_within: Span) -> Vec<CopyAt> {
        let due = self.due.iter().take_while(|(time, _)| *time <= now);
        let due: Vec<CopyAt> = due.map(|(_, location)| *location).collect();
        for &location in &due {
            let unread = self.take_unread(location).expect("all that is due waits");
            self.put_unread(
                location,
                Unread { is_asked: true, due: now + answer_within, ..unread },
            );
        }
        due
    }

    /// Whether the copy could not be read when it was last read, and may be whole.
    pub fn is_unread(&self, location: CopyAt) -> bool {
        self.unread.contains_key(&location)
    }

    /// Copies that could not be read when they were last read, and may be whole.
    pub fn unread(&self) -> impl Iterator<Item = CopyAt> {
        self.unread.keys().copied()
    }

    /// When the next of them is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Asserts what can be seen at once: as many times as copies that wait.
    pub fn assert_due(&self) {
        assert_eq!(self.due.len(), self.unread.len(), "faults: each that waits has its time");
    }

    /// Asserts what the file head claims.
    pub fn assert_invariants(&self) {
        assert!(
            self.unread.keys().all(|location| !self.bad.contains_key(location)),
            "faults: a copy is of no use and waits to be read again"
        );
        let is_bad = self.inconsistent.iter().all(|location| self.bad.contains_key(location));
        assert!(is_bad, "faults: a copy does not fit the others and is of use");
        let known =
            self.bad.keys().filter_map(|location| Some((*location, self.known(*location)?)));
        assert!(
            self.changed.is_empty()
                && known.eq(self.recorded.iter().map(|(at, fault)| (*at, *fault))),
            "faults: what is known is recorded"
        );
        let due: BTreeSet<(Time, CopyAt)> =
            self.unread.iter().map(|(location, unread)| (unread.due, *location)).collect();
        assert!(due == self.due, "faults: a copy that waits to be read again has its time");
    }

    fn put_unread(&mut self, location: CopyAt, unread: Unread) {
        self.due.insert((unread.due, location));
        self.unread.insert(location, unread);
    }

    fn take_unread(&mut self, location: CopyAt) -> Option<Unread> {
        let unread = self.unread.remove(&location)?;
        if !self.mistake.is(Mutant::KeepDue) {
            self.due.remove(&(unread.due, location));
        }
        Some(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ChunkIndex, Stamp, StripeId};

    const HERE: CopyAt = CopyAt {
        node: NodeId(1),
        copy: ChunkCopy { stripe: StripeId(7), chunk: ChunkIndex(2), stamp: Stamp(0) },
    };
    const FIRST: Span = Span::from_millis(1000);
    const ANSWER_WITHIN: Span = Span::from_millis(30_000);

    fn at(seconds: u64) -> Time {
        Time { ns: seconds * 1_000_000_000 }
    }

    #[test]
    fn what_cannot_be_read_is_read_again_ever_more_rarely_before_it_is_of_no_use() {
        let mut faults = CopyFaults::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 1..ATTEMPTS_MAX {
            assert!(!faults.found(HERE, CopyFault::Unreadable, now, FIRST));
            // A hundred slices of the same repair report the same.
            assert!(!faults.found(HERE, CopyFault::Unreadable, now, FIRST));
            let due = faults.next_deadline().unwrap();
            assert_eq!(faults.due(now, ANSWER_WITHIN), []);
            assert_eq!(faults.due(due, ANSWER_WITHIN), [HERE]);
            assert_eq!(faults.due(due, ANSWER_WITHIN), [], "it was asked for");
            faults.assert_invariants();
            waits.push(due.since(now).ns / FIRST.ns);
            now = due;
        }
        assert_eq!(waits, [1, 4, 16, 64]);
        assert!(faults.found(HERE, CopyFault::Unreadable, now, FIRST));
        assert_eq!(
            (faults.fault(HERE), faults.next_deadline()),
            (Some(CopyFault::Unreadable), None)
        );
        assert!(faults.forget(HERE) && !faults.is_bad(HERE));
    }

    #[test]
    fn who_does_not_answer_is_asked_again_and_who_could_read_it_ends_the_count() {
        let mut faults = CopyFaults::default();
        faults.found(HERE, CopyFault::Unreadable, at(0), FIRST);
        assert_eq!(faults.due(at(1), ANSWER_WITHIN), [HERE]);
        assert_eq!(faults.due(at(31), ANSWER_WITHIN), [HERE]);
        assert!(!faults.forget(HERE));
        assert_eq!(faults.next_deadline(), None);
        faults.found(HERE, CopyFault::Unreadable, at(40), FIRST);
        assert_eq!(faults.next_deadline(), Some(at(41)));
        faults.keep_only(HERE.node, |_| false);
        assert_eq!(faults.next_deadline(), None);
        faults.assert_invariants();
    }

    #[test]
    fn a_copy_that_waits_and_is_found_corrupt_waits_no_more() {
        let mut faults = CopyFaults::default();
        assert!(!faults.found(HERE, CopyFault::Unreadable, at(0), FIRST));
        assert!(faults.found(HERE, CopyFault::Corrupt, at(0), FIRST));
        assert_eq!((faults.is_unread(HERE), faults.next_deadline()), (false, None));
    }

    #[test]
    fn what_is_recorded_is_the_same_to_the_next_and_heals_as_it_did() {
        let mut faults = CopyFaults::default();
        let copies: Vec<CopyAt> = (0..4)
            .map(|stripe| ChunkCopy { stripe: StripeId(stripe), ..HERE.copy }.at(NodeId(1)))
            .collect();
        faults.found(copies[0], CopyFault::Corrupt, at(0), FIRST);
        faults.found_inconsistent(copies[1]);
        faults.condemn(copies[2], CopyFault::Unreadable);
        faults.found(copies[3], CopyFault::Missing, at(0), FIRST);
        let known = [KnownFault::Corrupt, KnownFault::Inconsistent, KnownFault::Unreadable];
        let recorded: Vec<(CopyAt, KnownFault)> = copies.iter().copied().zip(known).collect();
        let news = faults.news();
        assert_eq!(news, recorded.iter().map(|(at, it)| (*at, Some(*it))).collect::<Vec<_>>());
        assert_eq!(faults.news(), [], "once");

        let mut next = CopyFaults::default();
        recorded.iter().for_each(|(location, fault)| next.recall(*location, *fault));
        assert_eq!(next.news(), [], "it is recorded");
        next.assert_invariants();
        // Of those the first and the third are good when they are read in full.
        for faults in [&mut faults, &mut next] {
            let healed: Vec<CopyAt> = copies[..3]
                .iter()
                .copied()
                .filter(|location| faults.read_well(*location))
                .collect();
            assert_eq!(healed, [copies[0], copies[2]]);
            let news: Vec<_> = healed.into_iter().map(|location| (location, None)).collect();
            assert_eq!(faults.news(), news);
            faults.assert_invariants();
        }
    }

    #[test]
    fn of_a_node_only_what_is_nowhere_any_more_is_forgotten() {
        let mut faults = CopyFaults::default();
        let elsewhere = HERE.copy.at(NodeId(2));
        let other = ChunkCopy { stripe: StripeId(8), ..HERE.copy }.at(NodeId(1));
        faults.found(HERE, CopyFault::Corrupt, at(0), FIRST);
        faults.found(elsewhere, CopyFault::Corrupt, at(0), FIRST);
        faults.found(other, CopyFault::Corrupt, at(0), FIRST);
        faults.keep_only(HERE.node, |copy| *copy == other.copy);
        assert!(!faults.is_bad(HERE) && faults.is_bad(elsewhere) && faults.is_bad(other));
    }
}
