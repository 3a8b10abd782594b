//! The open loop: requests begin when they are due, and wait for a client where all are busy.
//!
//! Place: around each request of the foreground. One task says when; so many clients, each with a
//! connection of its own, take the oldest request that waits. Requests of the warm-up are made like
//! all others and not counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use suture_drivers::control::client::Client;
use suture_repair::id::NodeId;
use suture_repair::random::Random;
use suture_sim::workload::{Access, Request, Source, Workload};
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::arrivals::Arrivals;
use super::keyspace::Keyspace;
use super::latency::{Latencies, OperationKind};

/// How long requests are begun that wait when someone ends it all.
const STOP_DRAIN: Duration = Duration::from_secs(1);

/// How much longer those that have begun are waited for. A put that is cut off may be committed
/// after what it stored was removed.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What is made, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Which requests are made.
    pub workload: Workload,
    /// How many a second.
    pub rate: f64,
    /// Seconds that are not counted.
    pub warm_up: Duration,
    /// Seconds that are counted after these.
    pub duration: Duration,
    /// How long requests are begun that wait at the end.
    pub drain: Duration,
    /// Seeds what is asked for, and when.
    pub seed: u64,
    /// Longer values are cut.
    pub value_max: u64,
}

/// A request that is due.
#[derive(Clone, Copy, Debug)]
struct Due {
    at: Instant,
    request: Request,
    is_counted: bool,
}

/// What is shared by all clients.
struct Shared {
    keyspace: Arc<Keyspace>,
    due: AsyncMutex<UnboundedReceiver<Due>>,
    latencies: Mutex<Latencies>,
    counted_from: Instant,
    /// Requests that were answered since then, and not refused.
    answered: AtomicU64,
    /// What has begun and is not answered, by client.
    running: Mutex<Vec<Option<Due>>>,
    /// Whether no other request is begun.
    is_over: AtomicBool,
}

/// Stores a first version of every key.
///
/// # Errors
/// When one cannot be stored.
pub async fn fill(
    keyspace: &Arc<Keyspace>,
    clients: &[Client],
    demand: &Demand,
    done: impl Fn(u64) + Send + Sync + 'static,
) -> Result<()> {
    let source = Source::with_keys(demand.workload, vec![NodeId(0)], keyspace.keys());
    let (source, done) = (Arc::new(source), Arc::new(done));
    let mut tasks = JoinSet::new();
    for (first, client) in clients.iter().enumerate() {
        let (keyspace, source, done) = (keyspace.clone(), source.clone(), done.clone());
        let (mut client, step, demand) = (client.clone(), clients.len(), *demand);
        tasks.spawn(async move {
            for key in (first..keyspace.keys()).step_by(step) {
                let random = &mut Random::new(demand.seed ^ (key as u64) << 20);
                let bytes = source.draw_value_bytes(random).min(demand.value_max);
                keyspace.write(&mut client, key, bytes).await?;
                done(1);
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Removes all that is stored, or may be; what cannot be removed is left.
pub async fn clear(keyspace: &Arc<Keyspace>, clients: &[Client]) {
    let mut tasks = JoinSet::new();
    for client in clients {
        let (keyspace, mut client) = (keyspace.clone(), client.clone());
        tasks.spawn(async move {
            while let Some((key, version)) = keyspace.take() {
                // The figures are there; what is left can be removed by its prefix.
                let _ = keyspace.remove(&mut client, key, version).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// What came of a demand.
pub struct Driven {
    /// All that was counted.
    pub latencies: Latencies,
    /// Requests that were due in the time that counts.
    pub offered: u64,
    /// Of these, those that were answered and did not fail, or begun, while others still came.
    pub kept_up: u64,
    /// All that was answered in the time that counts, whenever it was due.
    pub answered: u64,
    /// The time that counts, shorter than was asked where it was ended.
    pub seconds: f64,
}

/// Makes requests until the time is over or `stop` resolves.
pub async fn drive(
    keyspace: &Arc<Keyspace>,
    clients: &[Client],
    demand: &Demand,
    stop: impl Future<Output = ()>,
) -> Driven {
    let (sender, due) = unbounded_channel();
    let began = Instant::now();
    let counted_from = began + demand.warm_up;
    let shared = Arc::new(Shared {
        keyspace: keyspace.clone(),
        due: AsyncMutex::new(due),
        latencies: Mutex::default(),
        counted_from,
        answered: AtomicU64::new(0),
        running: Mutex::new(vec![None; clients.len()]),
        is_over: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    for (index, client) in clients.iter().enumerate() {
        tasks.spawn(serve(shared.clone(), index, client.clone()));
    }
    let end = counted_from + demand.duration;
    let source = Source::with_keys(demand.workload, vec![NodeId(0)], keyspace.keys());
    let mut arrivals = Arrivals::new(demand.workload, demand.rate, demand.seed);
    let random = &mut Random::new(demand.seed + 1);
    let mut offered = 0;
    let making = async {
        loop {
            let at = began + arrivals.next_at();
            if at >= end {
                return sleep_until(end).await;
            }
            sleep_until(at).await;
            let is_counted = at >= counted_from;
            for mut request in source.draw((at - began).as_secs_f64(), random) {
                request.bytes = request.bytes.min(demand.value_max);
                offered += u64::from(is_counted);
                // The clients live as long as this.
                let _ = sender.send(Due { at, request, is_counted });
            }
        }
    };
    let is_stopped = tokio::select! {
        () = making => false,
        () = stop => true,
    };
    drop(sender);
    let ended = Instant::now();
    let answered = shared.answered.load(Ordering::Relaxed);
    let running = lock(&shared.running).iter().flatten().filter(|due| due.is_counted).count();
    let kept_up = lock(&shared.latencies).answered() + running as u64;
    let drain = if is_stopped { STOP_DRAIN } else { demand.drain };
    if timeout_at(ended + drain, all_done(&mut tasks)).await.is_err() {
        shared.is_over.store(true, Ordering::Relaxed);
        let _ = timeout_at(ended + drain + LAST_ANSWERS, all_done(&mut tasks)).await;
    }
    tasks.shutdown().await;
    let mut latencies = std::mem::take(&mut *lock(&shared.latencies));
    count_unanswered(&shared, &mut latencies).await;
    let seconds = (ended - counted_from).as_secs_f64();
    Driven { latencies, offered, kept_up, answered, seconds }
}

async fn all_done(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// What waits still counts with what it has waited.
async fn count_unanswered(shared: &Shared, latencies: &mut Latencies) {
    let mut left: Vec<Due> = lock(&shared.running).iter().flatten().copied().collect();
    let mut due = shared.due.lock().await;
    while let Ok(next) = due.try_recv() {
        left.push(next);
    }
    for due in left.into_iter().filter(|due| due.is_counted) {
        latencies.add_unanswered(kind(&due.request), due.at.elapsed());
    }
}

/// One client: takes the oldest request that waits, until there are none to come.
async fn serve(shared: Arc<Shared>, index: usize, mut client: Client) {
    loop {
        let next = shared.due.lock().await.recv().await;
        let Some(due) = next else { return };
        lock(&shared.running)[index] = Some(due);
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let result = perform(&shared.keyspace, &mut client, &due.request).await;
        lock(&shared.running)[index] = None;
        if result.is_ok() && Instant::now() >= shared.counted_from {
            shared.answered.fetch_add(1, Ordering::Relaxed);
        }
        if due.is_counted {
            let result = result.as_ref().map(|bytes| *bytes);
            lock(&shared.latencies).add(kind(&due.request), due.at.elapsed(), result);
        }
        shared.keyspace.tidy(&mut client).await;
    }
}

/// Performs a request; gives how many bytes of values it moved.
async fn perform(keyspace: &Keyspace, client: &mut Client, request: &Request) -> Result<u64> {
    match kind(request) {
        OperationKind::Read => keyspace.read(client, request.key).await,
        OperationKind::Miss => keyspace.miss(client, request.key).await.map(|()| 0),
        OperationKind::Update => {
            keyspace.write(client, request.key, request.bytes).await?;
            Ok(request.bytes)
        }
    }
}

fn kind(request: &Request) -> OperationKind {
    match request.access {
        Access::Write => OperationKind::Update,
        Access::Read if request.is_miss => OperationKind::Miss,
        Access::Read => OperationKind::Read,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
