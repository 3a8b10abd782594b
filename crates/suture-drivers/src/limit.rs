//! Rate limits: how a laptop plays a network-bound cluster, and how repair is kept from taking all.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...; around every payload byte.
//! A sender or receiver of payload asks for a turn and pays for it at once; what it could not use
//! it gives back. Turns are given first come, first served. That of a repair connection is as long
//! as its round (one slice of each lane that it carries) is against the longest round of the port,
//! so that lanes are served in turn, slice by slice, whichever connections they are on. A client's
//! turn is one piece.
//!
//! Arithmetic: timers wake one to two milliseconds late, and where processes compete for the cores
//! ten. A limit that forgot the time slept too long would run 10 to 50 % slow, so up to 16 ms of
//! unused rate are remembered; a turn is at most 4 pieces of 1 ms. Together a burst never exceeds
//! 20 ms of the rate. At 50 Mbit/s a piece is 6 KiB; at 10 Gbit/s it is cut at 256 KiB, 0.2 ms, and
//! some eighty pass between two sleeps.
//!
//! Clients go first: a repair's turn waits while a client waits for one, but no longer than a time
//! that leaves repair a tenth of the port when clients never rest; and only one repair at a time
//! waits together with clients. So what a client waits for at a port is other clients, and one
//! turn.
//!
//! The limit of repair is live: it is that of the configuration, or a lower one that the
//! coordinator sends. What passes is counted, for the coordinator to know what applications take.
//!
//! Invariant: over any span T at most (T + 20 ms) * rate bytes pass, from 2 Mbit/s up, if every
//! user of the limit gives back at once what it does not use. No limit costs nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sent::SentTallies;

/// Unused rate that is remembered.
const CREDIT: Duration = Duration::from_millis(16);

/// One piece lasts so long.
const PIECE: Duration = Duration::from_millis(1);

/// Pieces in the longest turn.
const PIECES_MAX: u64 = 4;

/// The shortest turn is such a part of a piece: less is not worth a system call.
const TURN_DIVISOR: u64 = 4;

/// Pieces are no longer than this, so that several connections take turns within a millisecond.
const PIECE_BYTES_MAX: u64 = 256 * 1024;

/// Pieces are no shorter than this, however slow the link.
const PIECE_BYTES_MIN: u64 = 256;

/// So long a repair lets clients go first, with each of its turns.
const YIELD_MAX: Duration = Duration::from_millis(36);

/// What stands for no limit.
const UNLIMITED: u64 = u64::MAX;

/// The longest round fades by such a part with each turn, so that it follows the connections that
/// are present.
const FADING: u64 = 256;

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
    /// Repairs, with so many bytes in a round of the connection.
    Repair {
        /// A slice of each lane.
        round_bytes: u64,
    },
    /// A client that puts or gets.
    Client,
    /// To see what the link carries, at rest: no limit of repair holds, and clients go first.
    Probe,
}

/// Payload bytes that passed a port, by what they were moved for.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// Bytes that repairs moved.
    pub repair: Counter,
    /// Bytes that clients moved.
    pub client: Counter,
    /// Bytes that only showed what links carry.
    pub probe: Counter,
}

/// One direction of a node's link.
#[derive(Debug)]
pub struct Port {
    repair: Bucket,
    link: Option<Bucket>,
    moved: Moved,
    sent: SentTallies,
    /// What has come and waits for a turn.
    queued: AtomicU64,
    /// What repair may have by configuration, and what it may have for now, if that is less.
    repair_cap: AtomicU64,
    repair_limit: AtomicU64,
    /// Clients that wait for a turn, and what wakes the repair that lets them go first.
    clients: AtomicUsize,
    calm: Notify,
}

/// Both directions of a node's link.
#[derive(Clone, Debug)]
pub struct LinkPorts {
    /// What the node sends.
    pub uplink: Arc<Port>,
    /// What the node receives.
    pub downlink: Arc<Port>,
    /// What packets are marked with that repair and probes send (DSCP), if with anything.
    pub dscp: Option<u8>,
}

/// A client that waits, until this is dropped.
struct WaitingClient<'a>(&'a Port);

impl<'a> WaitingClient<'a> {
    fn new(port: &'a Port) -> WaitingClient<'a> {
        port.clients.fetch_add(1, Relaxed);
        WaitingClient(port)
    }
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        if self.0.clients.fetch_sub(1, Relaxed) == 1 {
            self.0.calm.notify_waiters();
        }
    }
}

#[derive(Debug)]
struct Bucket {
    /// It may change; `UNLIMITED` limits nothing.
    bytes_per_sec: AtomicU64,
    /// Given in the order of asking, and held until the turn has come.
    queue: tokio::sync::Mutex<()>,
    /// Held by the one repair that waits together with clients.
    first: tokio::sync::Mutex<()>,
    account: Mutex<Account>,
    /// Wakes the tasks that sleep until all is paid for.
    given_back: Notify,
}

#[derive(Debug)]
struct Account {
    /// When everything that was asked for so far is paid for.
    paid_at: Instant,
    /// The longest round of a connection.
    round_bytes: u64,
}

impl Port {
    /// A port with these limits in payload bytes per second.
    pub fn new(link: Option<u64>, repair: Option<u64>) -> Port {
        let repair_cap = repair.unwrap_or(UNLIMITED);
        Port {
            link: link.map(Bucket::new),
            repair: Bucket::new(repair_cap),
            repair_cap: repair_cap.into(),
            repair_limit: UNLIMITED.into(),
            clients: AtomicUsize::new(0),
            calm: Notify::new(),
            moved: Moved::default(),
            sent: SentTallies::default(),
            queued: AtomicU64::new(0),
        }
    }

    /// The same, with what passes counted there.
    pub fn counting(self, moved: Moved) -> Port {
        Port { moved, ..self }
    }

    /// Counts payload that has passed.
    pub fn count(&self, purpose: Purpose, bytes: usize) {
        let counter = match purpose {
            Purpose::Repair { .. } => &self.moved.repair,
            Purpose::Client => &self.moved.client,
            Purpose::Probe => &self.moved.probe,
        };
        counter.inc_by(bytes as u64);
    }

    /// A port without limits.
    pub fn unlimited() -> Port {
        Port::new(None, None)
    }

    /// The link's own rate, if it has a limit.
    pub fn rate(&self) -> Option<u64> {
        self.link.as_ref().map(Bucket::rate)
    }

    /// Repair may move so many bytes per second from now on, and no more than by configuration.
    pub fn limit_repair(&self, limit: Option<u64>) {
        self.repair_limit.store(limit.unwrap_or(UNLIMITED), Relaxed);
        self.set_repair_rate();
    }

    /// By configuration repair may move so many from now on.
    pub fn cap_repair(&self, cap: Option<u64>) {
        self.repair_cap.store(cap.unwrap_or(UNLIMITED), Relaxed);
        self.set_repair_rate();
    }

    /// What repair may move by configuration; none: all.
    pub fn repair_cap(&self) -> Option<u64> {
        Some(self.repair_cap.load(Relaxed)).filter(|cap| *cap != UNLIMITED).map(|cap| cap.max(1))
    }

    fn set_repair_rate(&self) {
        let [cap, limit] = [&self.repair_cap, &self.repair_limit].map(|rate| rate.load(Relaxed));
        self.repair.bytes_per_sec.store(cap.min(limit).max(1), Relaxed);
    }

    /// Bytes that have passed so far.
    pub fn moved(&self) -> &Moved {
        &self.moved
    }

    /// What repairs have sent through it, by peers.
    pub fn sent(&self) -> &SentTallies {
        &self.sent
    }

    /// What repairs have received that waits to be read, in bytes: the link has carried it.
    pub fn queued(&self) -> u64 {
        self.queued.load(Relaxed)
    }

    /// Of one connection so much waits now, and so much did before.
    pub fn requeue(&self, before: u64, now: u64) {
        self.queued.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Whether repair may move less than the link carries.
    pub fn limits_repair(&self) -> bool {
        self.repair.rate() != UNLIMITED
    }

    /// Waits for a turn, in the order of asking, and pays for it. Gives the bytes that may pass
    /// now; what does not is to be given back.
    pub async fn turn(&self, purpose: Purpose) -> usize {
        let mut turn = u64::MAX;
        let mut queues = [None, None];
        let is_client = purpose == Purpose::Client;
        let _waits = (is_client && self.link.is_some()).then(|| WaitingClient::new(self));
        let _first = if is_client || self.link.is_none() {
            None
        } else {
            Some(self.let_clients_go_first().await)
        };
        for (bucket, queue) in self.buckets(purpose).zip(&mut queues) {
            *queue = Some(bucket.queue.lock().await);
            turn = turn.min(bucket.wait(purpose).await);
        }
        let turn = usize::try_from(turn).unwrap_or(usize::MAX);
        self.buckets(purpose).for_each(|bucket| bucket.account().paid_at += bucket.time_for(turn));
        turn
    }

    /// Takes back what was paid for and did not pass.
    pub fn give_back(&self, purpose: Purpose, bytes: usize) {
        for bucket in self.buckets(purpose).filter(|_| bytes > 0) {
            bucket.account().paid_at -= bucket.time_for(bytes);
            bucket.given_back.notify_waiters();
        }
    }

    /// The next repair that is to have a turn, after clients that wait for one.
    async fn let_clients_go_first(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let first = self.repair.first.lock().await;
        let until = Instant::now() + YIELD_MAX;
        while self.clients.load(Relaxed) > 0 && Instant::now() < until {
            let calm = self.calm.notified();
            tokio::select! {
                () = sleep_until(until) => {}
                () = calm => {}
            }
        }
        first
    }

    fn buckets(&self, purpose: Purpose) -> impl Iterator<Item = &Bucket> {
        let is_repair = matches!(purpose, Purpose::Repair { .. });
        let is_limited = is_repair && self.repair.rate() != UNLIMITED;
        let repair = is_limited.then_some(&self.repair);
        repair.into_iter().chain(self.link.as_ref())
    }
}

impl Bucket {
    fn new(bytes_per_sec: u64) -> Bucket {
        assert!(bytes_per_sec > 0, "a rate of nothing would never let anything pass");
        let account = Account { paid_at: Instant::now(), round_bytes: 0 };
        Bucket {
            bytes_per_sec: AtomicU64::new(bytes_per_sec),
            queue: tokio::sync::Mutex::default(),
            first: tokio::sync::Mutex::default(),
            account: Mutex::new(account),
            given_back: Notify::new(),
        }
    }

    fn rate(&self) -> u64 {
        self.bytes_per_sec.load(Relaxed)
    }

    fn piece(&self) -> u64 {
        let piece = self.rate().min(PIECE_BYTES_MAX * 1000) * PIECE.as_millis() as u64 / 1000;
        piece.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    fn time_for(&self, bytes: usize) -> Duration {
        let ns = bytes as u128 * 1_000_000_000 / u128::from(self.rate());
        Duration::from_nanos(ns as u64)
    }

    /// Waits until all is paid for; gives the length of the turn.
    async fn wait(&self, purpose: Purpose) -> u64 {
        loop {
            let given_back = self.given_back.notified();
            let paid_at = self.account().paid_at;
            if paid_at <= Instant::now() {
                break;
            }
            tokio::select! {
                () = sleep_until(paid_at) => {}
                () = given_back => {}
            }
        }
        let mut account = self.account();
        let forgotten = Instant::now() - CREDIT;
        account.paid_at = account.paid_at.max(forgotten);
        let Purpose::Repair { round_bytes } = purpose else { return self.piece() };
        let longest = account.round_bytes - account.round_bytes / FADING;
        account.round_bytes = round_bytes.max(longest).max(1);
        let part = u128::from(self.piece() * PIECES_MAX) * u128::from(round_bytes);
        let part = (part / u128::from(account.round_bytes)) as u64;
        part.max(self.piece() / TURN_DIVISOR)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    const REPAIR: Purpose = Purpose::Repair { round_bytes: 1000 };

    async fn move_bytes(port: &Port, purpose: Purpose, mut bytes: usize) {
        while bytes > 0 {
            let turn = port.turn(purpose).await;
            let passed = bytes.min(turn);
            port.give_back(purpose, turn - passed);
            bytes -= passed;
        }
    }

    /// Time in the tests is tokio's own, which stands still but for sleeps: nothing waits really.
    async fn rate_of(bytes_per_sec: u64, purpose: Purpose, port: Port) -> f64 {
        let bytes = bytes_per_sec as usize * 2;
        let start = Instant::now();
        move_bytes(&port, purpose, bytes).await;
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
        let repair = rate_of(1_000_000, REPAIR, port()).await;
        let client = rate_of(10_000_000, Purpose::Client, port()).await;
        assert!((repair / 1e6 - 1.0).abs() < 0.01, "{repair}");
        assert!((client / 1e7 - 1.0).abs() < 0.01, "{client}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_burst_exceeds_twenty_milliseconds_of_the_rate() {
        let rate = 6_250_000;
        let port = Port::new(Some(rate), None);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (start, mut passed) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(200) {
            passed += port.turn(REPAIR).await;
            let allowed = rate as f64 * (start.elapsed().as_secs_f64() + 0.020) + 1.0;
            assert!(passed as f64 <= allowed, "{passed} bytes after {:?}", start.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_port_is_shared_by_rounds_however_little_of_a_turn_is_used_at_a_time() {
        let port = Arc::new(Port::new(Some(1_000_000), None));
        let moved: Arc<[AtomicUsize; 3]> = Arc::default();
        for (index, round_bytes) in [5_000, 10_000, 25_000].into_iter().enumerate() {
            let (port, moved) = (port.clone(), moved.clone());
            tokio::spawn(async move {
                loop {
                    let bytes = port.turn(Purpose::Repair { round_bytes }).await;
                    moved[index].fetch_add(bytes, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
        for (index, part) in [0.125, 0.25, 0.625].into_iter().enumerate() {
            let found = moved[index].load(Ordering::Relaxed) as f64 / 4e6;
            assert!((found - part).abs() < 0.01, "contender {index} got {found}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_of_repair_is_live_and_never_above_the_configured_one() {
        let port = Port::new(None, Some(4_000_000));
        for (limit, expected) in [(Some(500_000), 5e5), (Some(9_000_000), 4e6), (None, 4e6)] {
            port.limit_repair(limit);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let start = Instant::now();
            move_bytes(&port, REPAIR, expected as usize * 2).await;
            let found = expected * 2.0 / start.elapsed().as_secs_f64();
            assert!((found / expected - 1.0).abs() < 0.02, "{found} of {expected}");
        }
        // The configured one may change too.
        for (cap, limit, rate) in [
            (Some(2_000_000), None, 2_000_000),
            (Some(2_000_000), Some(1_000_000), 1_000_000),
            (Some(500_000), Some(1_000_000), 500_000),
            (None, Some(1_000_000), 1_000_000),
            (None, None, UNLIMITED),
        ] {
            port.limit_repair(limit);
            port.cap_repair(cap);
            assert_eq!(port.repair.bytes_per_sec.load(Relaxed), rate, "{cap:?} {limit:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_go_first_and_leave_repair_a_tenth() {
        let port = Arc::new(Port::new(Some(10_000_000), None));
        let moved: Arc<[AtomicUsize; 2]> = Arc::default();
        for _ in 0..20 {
            let (port, moved) = (port.clone(), moved.clone());
            tokio::spawn(async move {
                loop {
                    moved[0].fetch_add(port.turn(REPAIR).await, Ordering::Relaxed);
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // One that asks now and then waits for one turn of a repair at the most.
        for _ in 0..20 {
            let asked = Instant::now();
            port.turn(Purpose::Client).await;
            let waited = asked.elapsed();
            assert!(waited <= Duration::from_millis(10), "{waited:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Some that never rest leave a part.
        for _ in 0..4 {
            let (port, moved) = (port.clone(), moved.clone());
            tokio::spawn(async move {
                loop {
                    moved[1].fetch_add(port.turn(Purpose::Client).await, Ordering::Relaxed);
                }
            });
        }
        moved[0].store(0, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(4)).await;
        let [repair, clients] = [0, 1].map(|i| moved[i].load(Ordering::Relaxed) as f64 / 4e7);
        assert!((0.05..0.2).contains(&repair), "{repair}");
        assert!(clients > 0.75, "{clients}");
    }

    #[tokio::test]
    async fn without_limits_everything_passes_at_once() {
        let port = Port::unlimited();
        assert_eq!(port.turn(REPAIR).await, usize::MAX);
        port.give_back(REPAIR, 1);
    }
}
