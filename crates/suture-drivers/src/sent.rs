//! What was sent to each peer for repairs, and how long more waited for the links to take it.
//!
//! Place: beside [slices flow]: from the sockets to the report of what links carry.
//! A socket takes no more when its link is full, or the receiver's, or the receiver does not read;
//! which of them it is the coordinator finds out from what all agents report. A slice that is not
//! granted, or that is not there yet, does not wait here.
//!
//! Arithmetic: one uncontended lock for each write, of some 64 KiB and more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use suture_repair::id::NodeId;
use suture_repair::message::{SENT_TO_MAX, SentTo};
use suture_repair::time::Span;
use tokio::time::Instant;

/// What was sent to each peer since it was last taken.
#[derive(Debug, Default)]
pub struct SentTallies {
    peers: Mutex<BTreeMap<NodeId, Arc<SentTally>>>,
}

/// What was sent to one peer since it was last taken.
#[derive(Debug, Default)]
pub struct SentTally {
    counted: Mutex<Tallied>,
}

#[derive(Debug, Default)]
struct Tallied {
    bytes: u64,
    /// The waits that have ended.
    waited: Duration,
    /// When the one that goes on began, or was last counted.
    since: Option<Instant>,
}

/// A wait for the socket, until this is dropped.
#[derive(Debug)]
pub struct SocketWait<'a>(&'a SentTally);

impl SentTallies {
    /// The tally of a peer: to be kept by its connection.
    pub fn of(&self, peer: NodeId) -> Arc<SentTally> {
        self.peers().entry(peer).or_default().clone()
    }

    /// What has been counted since this was last asked, of each peer for which there is anything.
    pub fn take(&self) -> Vec<SentTo> {
        let mut peers = self.peers();
        let now = Instant::now();
        let taken = peers.iter().filter_map(|(peer, tally)| {
            let (bytes, waited) = tally.take(now);
            let waited = Span { ns: waited.as_nanos() as u64 };
            (bytes > 0 || waited.ns > 0).then_some(SentTo { peer: *peer, bytes, waited })
        });
        let mut taken: Vec<SentTo> = taken.collect();
        peers.retain(|_, tally| Arc::strong_count(tally) > 1);
        if taken.len() > SENT_TO_MAX {
            taken.sort_by_key(|sent| std::cmp::Reverse(sent.bytes));
            taken.truncate(SENT_TO_MAX);
        }
        taken
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<SentTally>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SentTally {
    /// So many bytes have left.
    pub fn sent(&self, bytes: usize) {
        self.counted().bytes += bytes as u64;
    }

    /// More is to be sent, and the socket takes none of it for now.
    pub fn wait(&self) -> SocketWait<'_> {
        self.counted().since = Some(Instant::now());
        SocketWait(self)
    }

    fn take(&self, now: Instant) -> (u64, Duration) {
        let mut counted = self.counted();
        if let Some(since) = counted.since {
            counted.waited += now - since;
            counted.since = Some(now);
        }
        let Tallied { bytes, waited, .. } = &mut *counted;
        (std::mem::take(bytes), std::mem::take(waited))
    }

    fn counted(&self) -> MutexGuard<'_, Tallied> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SocketWait<'_> {
    fn drop(&mut self) {
        let mut counted = self.0.counted();
        if let Some(since) = counted.since.take() {
            counted.waited += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(3);

    async fn pass(ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn sent(bytes: u64, ms: u64) -> Vec<SentTo> {
        vec![SentTo { peer: PEER, bytes, waited: Span::from_millis(ms) }]
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_and_waits_are_told_once_and_a_wait_that_goes_on_in_parts() {
        let tallies = SentTallies::default();
        let tally = tallies.of(PEER);
        assert_eq!(tallies.take(), [], "nothing has happened");
        tally.sent(5);
        let wait = tally.wait();
        pass(200).await;
        drop(wait);
        pass(50).await;
        tally.sent(2);
        assert_eq!(tallies.take(), sent(7, 200));
        assert_eq!(tallies.take(), []);
        let wait = tally.wait();
        pass(1000).await;
        assert_eq!(tallies.take(), sent(0, 1000));
        pass(300).await;
        drop(wait);
        assert_eq!(tallies.take(), sent(0, 300));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_former_connection_has_sent_is_told_and_then_forgotten() {
        let tallies = SentTallies::default();
        tallies.of(PEER).sent(9);
        tallies.of(PEER).sent(1);
        assert_eq!(tallies.take(), sent(10, 0));
        assert!(tallies.peers().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_peers_those_are_told_of_that_were_sent_most() {
        let tallies = SentTallies::default();
        (0..2 * SENT_TO_MAX).for_each(|peer| tallies.of(NodeId(peer as u32)).sent(peer + 1));
        let taken = tallies.take();
        assert_eq!(taken.len(), SENT_TO_MAX);
        assert!(taken.iter().all(|sent| sent.bytes > SENT_TO_MAX as u64));
    }
}
