//! Rate limits: how a laptop plays a network-bound cluster, and how repair is kept from taking all.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...; around every payload byte.
//! Whoever wants to move payload asks for a turn, moves at most that much without waiting, and
//! pays for what it moved. Turns are given first come, first served; a port with many lanes is
//! therefore shared evenly if each asks for one piece at a time, and a connection that carries
//! several lanes asks for as many pieces.
//!
//! Arithmetic: timers wake one to two milliseconds late. A limit that forgot the time slept too
//! long would run 10 to 50 % slow, so up to 6 ms of unused rate are remembered; a turn is at most
//! 4 pieces of 1 ms. Together a burst never exceeds 10 ms of the rate. At 50 Mbit/s a piece is
//! 6 KiB; at 10 Gbit/s it is cut at 256 KiB, 0.2 ms, and some thirty pass between two sleeps.
//!
//! Invariant: over any span T at most (T + 10 ms) * rate bytes pass, from 2 Mbit/s up. No limit
//! costs nothing.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

/// Unused rate that is remembered.
const CREDIT: Duration = Duration::from_millis(6);

/// One piece lasts so long.
const PIECE: Duration = Duration::from_millis(1);

/// Pieces in one turn at most.
const SHARES_MAX: usize = 4;

/// Pieces are no longer than this, so that several connections take turns within a millisecond.
const PIECE_BYTES_MAX: u64 = 256 * 1024;

/// Pieces are no shorter than this: less is not worth a system call, however slow the link.
const PIECE_BYTES_MIN: u64 = 256;

/// Rates in payload bytes per second; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Everything that is sent.
    pub uplink: Option<u64>,
    /// Everything that is received.
    pub downlink: Option<u64>,
    /// Repair traffic, in each direction.
    pub repair: Option<u64>,
}

/// What a payload byte is moved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A repair.
    Repair,
    /// Someone who puts or gets.
    Client,
}

/// One direction of a node's link.
#[derive(Debug)]
pub struct Port {
    repair: Option<Bucket>,
    link: Option<Bucket>,
}

/// Leave to move some bytes now.
#[derive(Debug)]
pub struct Turn<'a> {
    limit: usize,
    buckets: [Option<Paying<'a>>; 2],
}

#[derive(Debug)]
struct Bucket {
    bytes_per_sec: u64,
    /// When everything that has passed so far is paid for.
    paid_at: Mutex<Instant>,
}

#[derive(Debug)]
struct Paying<'a> {
    bucket: &'a Bucket,
    paid_at: MutexGuard<'a, Instant>,
}

impl Port {
    /// A port with these limits in payload bytes per second.
    pub fn new(link: Option<u64>, repair: Option<u64>) -> Port {
        Port { link: link.map(Bucket::new), repair: repair.map(Bucket::new) }
    }

    /// A port without limits.
    pub fn unlimited() -> Port {
        Port::new(None, None)
    }

    /// The link's own rate, if it has a limit.
    pub fn rate(&self) -> Option<u64> {
        self.link.as_ref().map(|bucket| bucket.bytes_per_sec)
    }

    /// Waits until `shares` pieces may pass, in the order of asking.
    pub async fn turn(&self, purpose: Purpose, shares: usize) -> Turn<'_> {
        let repair = self.repair.as_ref().filter(|_| purpose == Purpose::Repair);
        let mut turn = Turn { limit: usize::MAX, buckets: [None, None] };
        for (slot, bucket) in [repair, self.link.as_ref()].into_iter().enumerate() {
            if let Some(bucket) = bucket {
                turn.limit = turn.limit.min(bucket.piece() * shares.clamp(1, SHARES_MAX));
                turn.buckets[slot] = Some(bucket.wait().await);
            }
        }
        turn
    }
}

impl Turn<'_> {
    /// How many bytes may pass.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Pays for the bytes that passed, which may be fewer than the limit.
    pub fn pay(self, bytes: usize) {
        for mut paying in self.buckets.into_iter().flatten() {
            *paying.paid_at += paying.bucket.time_for(bytes);
        }
    }
}

impl Bucket {
    fn new(bytes_per_sec: u64) -> Bucket {
        assert!(bytes_per_sec > 0, "a rate of nothing would never let anything pass");
        Bucket { bytes_per_sec, paid_at: Mutex::new(Instant::now()) }
    }

    fn piece(&self) -> usize {
        let piece = self.bytes_per_sec * PIECE.as_millis() as u64 / 1000;
        piece.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX) as usize
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let ns = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_sec);
        Duration::from_nanos(ns as u64)
    }

    /// The lock is the queue: it is given in the order of asking, and held during the sleep.
    async fn wait(&self) -> Paying<'_> {
        let mut paid_at = self.paid_at.lock().await;
        if *paid_at > Instant::now() {
            sleep_until(*paid_at).await;
        }
        let forgotten = Instant::now() - CREDIT;
        *paid_at = (*paid_at).max(forgotten);
        Paying { bucket: self, paid_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    async fn move_bytes(port: &Port, purpose: Purpose, shares: usize, mut bytes: usize) {
        while bytes > 0 {
            let turn = port.turn(purpose, shares).await;
            let passed = bytes.min(turn.limit());
            turn.pay(passed);
            bytes -= passed;
        }
    }

    /// Time in the tests is tokio's own, which stands still but for sleeps: nothing waits really.
    async fn rate_of(bytes_per_sec: u64, purpose: Purpose, port: Port) -> f64 {
        let bytes = bytes_per_sec as usize * 2;
        let start = Instant::now();
        move_bytes(&port, purpose, 1, bytes).await;
        bytes as f64 / start.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_met_from_kilobits_to_many_gigabits() {
        for rate in [250_000, 6_250_000, 125_000_000, 1_250_000_000, 5_000_000_000] {
            let found = rate_of(rate, Purpose::Client, Port::new(Some(rate), None)).await;
            let off = found / rate as f64 - 1.0;
            assert!(off.abs() < 0.01, "{rate} bytes/s: off by {off}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repair_keeps_its_cap_and_clients_do_not_feel_it() {
        let port = || Port::new(Some(10_000_000), Some(1_000_000));
        let repair = rate_of(1_000_000, Purpose::Repair, port()).await;
        let client = rate_of(10_000_000, Purpose::Client, port()).await;
        assert!((repair / 1e6 - 1.0).abs() < 0.01, "{repair}");
        assert!((client / 1e7 - 1.0).abs() < 0.01, "{client}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_burst_exceeds_ten_milliseconds_of_the_rate() {
        let rate = 6_250_000;
        let port = Port::new(Some(rate), None);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (start, mut passed) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(200) {
            let turn = port.turn(Purpose::Client, 100).await;
            let bytes = turn.limit();
            turn.pay(bytes);
            passed += bytes;
            let allowed = rate as f64 * (start.elapsed().as_secs_f64() + 0.010) + 1.0;
            assert!(passed as f64 <= allowed, "{passed} bytes after {:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_is_shared_by_shares_and_nobody_starves() {
        let port = Arc::new(Port::new(Some(1_000_000), None));
        let moved: Arc<[AtomicUsize; 3]> = Arc::default();
        for (index, shares) in [1, 1, 2].into_iter().enumerate() {
            let (port, moved) = (port.clone(), moved.clone());
            tokio::spawn(async move {
                loop {
                    let turn = port.turn(Purpose::Repair, shares).await;
                    let bytes = turn.limit();
                    turn.pay(bytes);
                    moved[index].fetch_add(bytes, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        for (index, part) in [0.25, 0.25, 0.5].into_iter().enumerate() {
            let found = moved[index].load(Ordering::Relaxed) as f64 / 4e6;
            assert!((found - part).abs() < 0.01, "contender {index} got {found}");
        }
    }

    #[tokio::test]
    async fn without_limits_everything_passes_at_once() {
        let port = Port::unlimited();
        let turn = port.turn(Purpose::Repair, 1).await;
        assert_eq!(turn.limit(), usize::MAX);
        turn.pay(usize::MAX);
    }
}
