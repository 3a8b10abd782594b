//! How HDFS stands to this coordinator, for status, metrics and the coordinator's task.
//!
//! Place: beside [stripes affected] ... [claim] ... [commit location].
//! The thread of `link.rs` writes it down each time that it has asked, and others read it. While no
//! NameNode answers it is not known what is at risk, which must not look as if nothing were. What
//! was received long ago counts as not known: the thread may hang as well.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use suture_edge::units::format_seconds;
use suture_repair::id::StripeId;

use super::lease::NoLease;

/// An answer that is older says nothing of now: a NameNode is asked every second, and has a third
/// of this for each answer.
const ANSWER_LASTS: Duration = Duration::from_secs(60);

/// How HDFS stands to a coordinator, shared by the threads that ask it and those that show it.
#[derive(Debug)]
pub struct HdfsView {
    seen: Mutex<HdfsSeen>,
}

/// That at one moment.
#[derive(Clone, Debug)]
pub struct HdfsSeen {
    /// Nothing is repaired here, whatever is paused: HDFS does that.
    pub observes: bool,
    /// The block pool of the NameNodes, once one has connected.
    pub pool: Option<String>,
    /// NameNodes whose plugins are connected.
    pub namenodes: usize,
    /// Block groups at risk that the NameNode reports.
    pub groups: usize,
    /// Groups that HDFS may rebuild by itself, since they wait here or are not served.
    pub left: usize,
    /// Why HDFS repairs by itself, as it was decided last; none where it does not.
    pub(super) no_lease: Option<NoLease>,
    /// When the lease ends if it is not prolonged.
    pub(super) leased_until: Option<Instant>,
    /// Why the claims of these stripes were refused last.
    pub(super) refusals: BTreeMap<StripeId, String>,
    is_answering: bool,
    /// Since when that is so.
    since: Instant,
    answered_at: Option<Instant>,
}

impl HdfsView {
    /// Nothing is known yet. One that `observes` has HDFS repair.
    pub fn new(observes: bool) -> HdfsView {
        let seen = HdfsSeen {
            observes,
            pool: None,
            namenodes: 0,
            groups: 0,
            left: 0,
            no_lease: None,
            leased_until: None,
            refusals: BTreeMap::new(),
            is_answering: false,
            since: Instant::now(),
            answered_at: None,
        };
        HdfsView { seen: Mutex::new(seen) }
    }

    /// How it stands now.
    pub fn seen(&self) -> HdfsSeen {
        self.lock().clone()
    }

    /// Why a claim on the stripe was refused, if it was and nothing came after that.
    pub fn refusal(&self, stripe: StripeId) -> Option<String> {
        self.lock().refusals.get(&stripe).cloned()
    }

    /// Has something else be so from now on.
    pub(super) fn change(&self, change: impl FnOnce(&mut HdfsSeen)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, HdfsSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HdfsSeen {
    /// The active NameNode has reported all that is at risk, or has not.
    pub(super) fn asked(&mut self, is_answering: bool, now: Instant) {
        if is_answering != self.is_answering {
            (self.is_answering, self.since) = (is_answering, now);
        }
        if is_answering {
            self.answered_at = Some(now);
        }
    }

    /// Whether an active NameNode answers, so that it is known what is at risk.
    pub fn is_connected(&self, now: Instant) -> bool {
        let is_new = |at: Instant| now.saturating_duration_since(at) <= ANSWER_LASTS;
        self.is_answering && self.answered_at.is_some_and(is_new)
    }

    /// For how long that has been as it is.
    pub fn standing_for(&self, now: Instant) -> Duration {
        let is_silent = self.is_answering && !self.is_connected(now);
        let since = if is_silent { self.answered_at.unwrap_or(self.since) } else { self.since };
        now.saturating_duration_since(since)
    }

    /// Whether HDFS leaves its lost blocks to this coordinator.
    pub fn is_leased(&self, now: Instant) -> bool {
        self.leased_until.is_some_and(|until| until > now)
    }

    /// Why HDFS repairs by itself; none where it does not.
    pub fn no_lease(&self, now: Instant) -> Option<String> {
        if self.is_leased(now) {
            return None;
        }
        Some(match self.no_lease {
            _ if !self.is_connected(now) => "no active NameNode answers".into(),
            Some(why) => why.to_string(),
            None => "it was not told yet to leave its lost blocks".into(),
        })
    }

    /// What an operator should know of it and do something about, in sentences.
    pub fn warnings(&self, now: Instant) -> Vec<String> {
        if !self.is_connected(now) {
            let time = format_seconds(self.standing_for(now).as_secs_f64());
            return vec![format!(
                "no active NameNode answers (for {time}): what is at risk in HDFS is not known, \
                 and HDFS repairs by itself; its log says why, after 'Suture:'"
            )];
        }
        let reason = self.no_lease.filter(|why| why.is_fault() && !self.is_leased(now));
        reason.into_iter().map(|why| format!("HDFS repairs by itself: {why}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_nobody_has_said_or_not_of_late_is_not_known() {
        let (view, began) = (HdfsView::new(false), Instant::now());
        let at = |seconds: u32| began + seconds * SECOND;
        let warned = |seconds: u32| view.seen().warnings(at(seconds));
        assert!(!view.seen().is_connected(at(1)));
        let [warning] = &warned(180)[..] else { panic!("{:?}", warned(180)) };
        assert!(warning.starts_with("no active NameNode answers (for "), "{warning}");
        assert_eq!(view.seen().no_lease(at(1)).unwrap(), "no active NameNode answers");
        view.change(|seen| seen.asked(true, at(200)));
        assert!(view.seen().is_connected(at(201)) && warned(201).is_empty());
        assert_eq!(view.seen().standing_for(at(207)), 7 * SECOND);
        view.change(|seen| seen.asked(true, at(210)));
        assert_eq!(view.seen().standing_for(at(211)), 11 * SECOND, "it has answered since 200");
        // The thread that asks hangs.
        assert!(!view.seen().is_connected(at(300)));
        assert_eq!(view.seen().standing_for(at(300)), 90 * SECOND);
        assert_eq!(warned(300).len(), 1);
        view.change(|seen| seen.asked(false, at(301)));
        assert!(!view.seen().is_connected(at(301)));
        assert_eq!(view.seen().standing_for(at(302)), SECOND);
    }

    #[test]
    fn a_lease_ends_by_itself_and_why_there_is_none_is_said_where_it_is_a_fault() {
        let (view, began) = (HdfsView::new(false), Instant::now());
        let few = NoLease::FewAgents { up: 5, of: 12 };
        view.change(|seen| {
            seen.asked(true, began);
            seen.leased_until = Some(began + 15 * SECOND);
        });
        let seen = view.seen();
        assert!(seen.is_leased(began) && !seen.is_leased(began + 15 * SECOND));
        assert_eq!(seen.no_lease(began), None);
        for (why, is_fault) in [(few, true), (NoLease::Paused, false)] {
            view.change(|seen| (seen.leased_until, seen.no_lease) = (None, Some(why)));
            let seen = view.seen();
            assert_eq!(seen.no_lease(began), Some(why.to_string()));
            assert_eq!(seen.warnings(began).is_empty(), !is_fault, "{why}");
        }
        view.change(|seen| seen.no_lease = Some(few));
        let said = "HDFS repairs by itself: agents of 5 of 12 DataNodes speak";
        assert_eq!(view.seen().warnings(began), [said]);
    }
}
