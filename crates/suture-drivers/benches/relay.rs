//! How fast one relay moves slices, and what it costs: `cargo bench --bench relay`.
//!
//! The relay is an agent in a process of its own: it receives slices, reads and checks its own
//! chunk, adds it, and sends the sums on; without rate limits, in slices of 256 KiB, on loopback.
//! The target is 1 GB/s in and out at no more than 1 core-second per GB.
//!
//! First the relay alone is measured: its neighbours are thin (`endpoints`). Two relays take turns,
//! one plain and one with TLS, so that what else the machine does meets both; the ratio of their
//! processor time is to be 1.5 at most. A relay that waits for its neighbours is woken more often,
//! and neighbours that encrypt are slower: so both are measured at one and the same rate as well,
//! `SUTURE_BENCH_RATE` bytes a second. Then an agent with two threads for its connections moves two
//! repairs beside one with a single thread, as far as a quarter of a core for each thread goes
//! (`shares`). Last both neighbours are agents too, with stores; on two cores all three share, so
//! the rate is what the machine gives to all of them, and only the processor time is the relay's
//! own.
//!
//! `SUTURE_BENCH_DIR` names the folder of the stores; by default it is in memory, so that no disk
//! is measured. `SUTURE_BENCH_MIB` is the length of the chunk, `SUTURE_BENCH_THREADS` how many
//! threads an agent has for its connections.

#[path = "../tests/agents/mod.rs"]
mod agents;
#[path = "relay/endpoints.rs"]
mod endpoints;
#[path = "relay/shares.rs"]
mod shares;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use agents::{CLUSTER, chain, name, stripe, task};
use endpoints::{Endpoint, Received, Slices};
use rustix::time::{ClockId, clock_gettime};
use suture_drivers::address::AgentAddress;
use suture_drivers::agent::session::{SessionEvent, SessionFeed, session};
use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::limit::Rates;
use suture_drivers::net;
use suture_drivers::store::{Identity, Store};
use suture_repair::chunk_store::{ChunkStore, Published};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{FromAgent, Task, ToAgent};
use suture_repair::plan::Mode;
use suture_repair::role::{Computation, Role};
use suture_repair::stripe::Stripe;
use suture_repair::time::Span;

const SLICE_BYTES: u32 = 256 * 1024;
const WINDOW: u32 = 16;
const ROUNDS: u32 = 9;
const DAY: Duration = Duration::from_secs(24 * 3600);
const ROLES: [&str; 3] = ["helper", "relay", "destination"];

/// The helper and the destination of each stripe, between which is the relay, node 2.
const NEIGHBOURS: [[u32; 2]; 2] = [[1, 3], [4, 5]];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--role") {
        Some(at) => {
            let (role, dir) = (arguments[at + 1].parse().unwrap(), Path::new(&arguments[at + 2]));
            play(role, dir, arguments.get(at + 3).map(Path::new));
        }
        None => conduct(),
    }
}

fn chunk_bytes() -> usize {
    let mib = std::env::var("SUTURE_BENCH_MIB").map_or(512, |mib| mib.parse().unwrap());
    mib << 20
}

/// Threads of each agent for its connections.
fn threads() -> usize {
    std::env::var("SUTURE_BENCH_THREADS").map_or(1, |threads| threads.parse().unwrap())
}

/// What the source sends at most where plain and encrypted bytes are to come at the same rate.
fn rate() -> f64 {
    std::env::var("SUTURE_BENCH_RATE").map_or(400e6, |rate| rate.parse().unwrap())
}

/// An agent in its own process, plus ours at the end of its pipes.
struct Player {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

/// The three chunks of the stripe; the first is lost.
struct Chunks {
    stripe: Stripe,
    bytes: Vec<Vec<u8>>,
    /// Their checksums, as they are sent to the agents.
    crcs: String,
}

fn conduct() {
    let dir = match std::env::var("SUTURE_BENCH_DIR") {
        Ok(dir) => tempfile::tempdir_in(dir),
        Err(_) if Path::new("/dev/shm").is_dir() => tempfile::tempdir_in("/dev/shm"),
        Err(_) => tempfile::tempdir(),
    };
    let dir = dir.unwrap();
    println!("chunk of {} MiB, slices of {} KiB", chunk_bytes() >> 20, SLICE_BYTES >> 10);
    let chunks = Chunks::new();
    let folder = sign(dir.path());
    alone(dir.path(), &chunks, &folder);
    shares::compare(&dir.path().join("shares"), &chunks);
    chunks.store(dir.path(), 1, 0);
    among_agents(dir.path(), &chunks.crcs);
}

/// Credentials of the three nodes, each in the folder of its name.
fn sign(dir: &Path) -> PathBuf {
    let (folder, now) = (dir.join("credentials"), SystemTime::now());
    let authority = Authority::create(&folder.join("authority"), "bench", now).unwrap();
    for node in 1..=3 {
        let name = name(NodeId(node));
        let principal = Principal::new(AccessRole::Agent, &name).unwrap();
        authority.issue(&principal, DAY, &folder.join(name), now).unwrap();
    }
    folder
}

fn credentials(folder: &Path, node: u32) -> Arc<Kept> {
    let own = folder.join(name(NodeId(node)));
    Arc::new(Kept::open(&own, SystemTime::now()).unwrap())
}

/// Measures two relays in turn, plain and with TLS; prints what they cost and what TLS adds to it.
fn alone(dir: &Path, chunks: &Chunks, folder: &Path) {
    let data = slices(chunks);
    let plain = Alone::start("plain", dir, chunks, None);
    let encrypted = Alone::start("with TLS", &dir.join("tls"), chunks, Some(folder));
    let mut relays = [plain, encrypted];
    for (pace, rate) in [None, Some(rate())].into_iter().enumerate() {
        let mut costs = [const { Vec::new() }; 2];
        for round in 1..=ROUNDS {
            for (relay, costs) in relays.iter_mut().zip(&mut costs) {
                costs.push(relay.run(pace as u32 * ROUNDS + round, &data, rate));
            }
        }
        let [plain, encrypted] = costs.map(median);
        let at =
            rate.map_or("at full speed".to_owned(), |rate| format!("at {:.2} GB/s", rate / 1e9));
        println!(
            "TLS costs {:.2} times the processor time {at} (medians of {ROUNDS} rounds)",
            encrypted / plain
        );
    }
    relays.into_iter().for_each(|relay| relay.relay.stop());
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// A relay between thin neighbours.
struct Alone {
    how: &'static str,
    relay: Player,
    source: Endpoint,
    sink: Endpoint,
}

impl Alone {
    fn start(how: &'static str, dir: &Path, chunks: &Chunks, folder: Option<&Path>) -> Alone {
        chunks.store(dir, 2, 0);
        let of = |node| folder.map(|folder| credentials(folder, node).current());
        let [first, last] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [helper, destination] = [&first, &last].map(|of| of.local_addr().unwrap());
        let mut relay = Player::start(1, dir, folder, threads());
        let address: SocketAddr = relay.hear().parse().unwrap();
        relay.say(&format!("{helper} {address} {destination} {}", chunks.crcs));
        let source = Endpoint::new(first, address, (CLUSTER, NodeId(1)), of(1));
        let sink = Endpoint::new(last, address, (CLUSTER, NodeId(3)), of(3));
        Alone { how, relay, source, sink }
    }

    /// One round; gives its core-seconds per GB.
    fn run(&mut self, round: u32, (partial, lost): &(Slices, Slices), rate: Option<f64>) -> f64 {
        let Alone { how, relay, source, sink } = self;
        relay.say(&format!("{round} 1"));
        let repair = repair(round, 0);
        let Received { wall, slices, verified } = std::thread::scope(|scope| {
            scope.spawn(|| source.send(repair, partial, rate));
            sink.receive(repair, WINDOW, lost)
        });
        let paced = if rate.is_some() { ", paced" } else { "" };
        let rate = chunk_bytes() as f64 / 1e9 / wall.as_secs_f64();
        let figures = relay.hear();
        println!("round {round}, relay alone, {how}{paced}: {figures}");
        println!("round {round}, its sink: {rate:.2} GB/s, {verified} of {slices} slices verified");
        let cost = figures.split(", ").nth(1).and_then(|cost| cost.split(' ').next());
        cost.and_then(|cost| cost.parse().ok()).unwrap()
    }
}

/// What the source sends, and what has to come of it.
fn slices(chunks: &Chunks) -> (Slices, Slices) {
    let crcs: Vec<&str> = chunks.crcs.split(' ').collect();
    let roles = Role::of(&the_task(1, 0, &crcs), NodeId(1)).unwrap();
    let [lost, own, _] = <[Vec<u8>; 3]>::try_from(chunks.bytes.clone()).unwrap();
    let mut partial = vec![0; own.len()];
    let Computation::Sum { coefficient } = roles[0].1.computation else { panic!("a chain sums") };
    suture_gf::mul_add(&mut partial, coefficient, &own);
    let slice_bytes = SLICE_BYTES as usize;
    (Slices::new(partial, slice_bytes), Slices::new(lost, slice_bytes))
}

/// The relay between agents.
fn among_agents(dir: &Path, crcs: &str) {
    let start = |role| Player::start(role, dir, None, threads());
    let mut players: Vec<Player> = (0..3).map(start).collect();
    let addresses: Vec<String> = players.iter_mut().map(Player::hear).collect();
    let line = format!("{} {crcs}", addresses.join(" "));
    players.iter_mut().for_each(|player| player.say(&line));
    for round in 1..=ROUNDS {
        players.iter_mut().for_each(|player| player.say(&format!("{round} 1")));
        let heard: Vec<String> = players.iter_mut().map(Player::hear).collect();
        for (role, figures) in ROLES.iter().zip(heard) {
            println!("round {round}, three agents, {role}: {figures}");
        }
    }
    players.into_iter().for_each(Player::stop);
}

impl Chunks {
    fn new() -> Chunks {
        let (stripe, bytes) = stripe("rs(2,1)", 1, chunk_bytes());
        let crcs: Vec<String> = stripe.chunks.iter().map(|c| c.crc.unwrap().to_string()).collect();
        Chunks { stripe, bytes, crcs: crcs.join(" ") }
    }

    /// Puts one of the two sources into the store of its agent, as a chunk of that stripe.
    fn store(&self, dir: &Path, chunk: usize, number: u32) {
        let store = open(dir, chunk as u32 - 1);
        let temp = store.begin(self.stripe.chunk_bytes).unwrap();
        temp.write(0, &self.bytes[chunk]).unwrap();
        let copy = self.stripe.copy(ChunkIndex(chunk as u8)).unwrap().copy;
        let copy = ChunkCopy { stripe: stripe_id(number), ..copy };
        temp.prove(self.stripe.chunks[chunk].crc, &mut |_| ()).unwrap();
        assert_eq!(temp.publish(copy, &Label::default()), Ok(Published::Named));
    }
}

fn open(dir: &Path, role: u32) -> Store {
    let identity = Identity { cluster: CLUSTER, node: role.to_string() };
    Store::open(&dir.join(role.to_string()), &identity).unwrap()
}

impl Player {
    fn start(role: u32, dir: &Path, folder: Option<&Path>, threads: usize) -> Player {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("SUTURE_BENCH_THREADS", threads.to_string());
        command.args(["--role", &role.to_string()]).arg(dir).args(folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        let hears = child.stdin.take().unwrap();
        Player { child, says, hears }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.hears, "{line}").unwrap();
    }

    fn stop(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs one agent, on the runtime that agents have.
fn play(role: u32, dir: &Path, folder: Option<&Path>) {
    suture_drivers::agent::runtime(threads()).unwrap().block_on(perform(role, dir, folder));
}

async fn perform(role: u32, dir: &Path, folder: Option<&Path>) {
    let store = Arc::new(open(dir, role));
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let config = suture_drivers::agent::Config {
        heartbeat_every: Span::from_millis(2),
        credentials: folder.map(|folder| credentials(folder, role + 1)),
        ..agents::config(NodeId(role + 1), Rates::default(), dir)
    };
    let (seam, mut feed) = session();
    let kept = store.clone();
    tokio::spawn(suture_drivers::agent::run(config, store, seam, listener, std::future::pending()));
    let next_line = || std::io::stdin().lines().next().unwrap().unwrap();
    let line = next_line();
    let (addresses, crcs): (Vec<&str>, Vec<&str>) = line.split(' ').partition(|w| w.contains(':'));
    let address = |(index, addr): (usize, &&str)| {
        let node = NodeId(index as u32 + 1);
        let addr = addr.parse().unwrap();
        (node, Some(AgentAddress { name: name(node).into(), node: Some(node), addr }))
    };
    let peers = addresses.iter().enumerate().map(address).collect();
    feed.events.send(SessionEvent::Connected { epoch: 1 }).await.unwrap();
    feed.events.send(SessionEvent::Peers(peers)).await.unwrap();
    loop {
        let line = tokio::task::spawn_blocking(next_line).await.unwrap();
        let (round, stripes) = line.split_once(' ').unwrap();
        let round = round.parse().unwrap();
        let task = |number| the_task(round, number, &crcs);
        let tasks: Vec<Task> = (0..stripes.parse().unwrap()).map(task).collect();
        let made: Vec<_> =
            tasks.iter().filter_map(|task| made_by(task, NodeId(role + 1))).collect();
        println!("{}", measure(&mut feed, tasks).await);
        // Memory that no round has touched before costs more than all else that a round does.
        made.into_iter().for_each(|copy| kept.delete(copy).unwrap());
    }
}

/// The copy that this node makes of a task, if it is the destination.
fn made_by(task: &Task, node: NodeId) -> Option<ChunkCopy> {
    let (chunk, _) = task.plan.destinations.iter().find(|(_, at)| **at == node)?;
    Some(ChunkCopy { stripe: task.stripe.id, chunk: *chunk, stamp: Stamp::from(task.repair) })
}

fn stripe_id(number: u32) -> StripeId {
    StripeId(u64::from(number) + 1)
}

fn repair(round: u32, number: u32) -> RepairId {
    RepairId::new(1, number * 1000 + round)
}

fn the_task(round: u32, number: u32, crcs: &[&str]) -> Task {
    let [helper, destination] = NEIGHBOURS[number as usize];
    let (mut stripe, _) = stripe("rs(2,1)", stripe_id(number).0, 64);
    stripe.chunk_bytes = chunk_bytes() as u64;
    stripe.unit_bytes = stripe.chunk_bytes;
    for (chunk, crc) in stripe.chunks.iter_mut().zip(crcs) {
        (chunk.bytes, chunk.crc) = (stripe.chunk_bytes, crc.parse().ok());
    }
    stripe.chunks[1].node = Some(NodeId(helper));
    let trees = [chain(&[helper, 2], destination)];
    let task = task(repair(round, number), &stripe, (&trees, Mode::Streamed), destination);
    Task { slice_bytes: SLICE_BYTES, window: WINDOW, ..task }
}

/// Runs repairs, all at once; gives how long their slices flowed and what that cost.
async fn measure(feed: &mut SessionFeed, tasks: Vec<Task>) -> String {
    let bytes = chunk_bytes() as f64;
    let mut seen: Vec<(RepairId, bool)> = tasks.iter().map(|task| (task.repair, false)).collect();
    while feed.outbox.try_recv().is_ok() {}
    let cpu = cpu_time();
    let start = Instant::now();
    for task in tasks {
        feed.events.send(SessionEvent::Message(ToAgent::Dispatch(Arc::new(task)))).await.unwrap();
    }
    let mut flowed = None;
    loop {
        match feed.outbox.recv().await.unwrap() {
            FromAgent::Heartbeat(beat) => {
                let (mut is_through, mut is_over) = (true, true);
                for (repair, seen) in &mut seen {
                    let done = beat.running.iter().find(|(id, _)| id == repair).map(|it| it.1);
                    *seen |= done.is_some();
                    is_through &= *seen && done.is_none_or(|done| done as f64 >= bytes);
                    is_over &= *seen && done.is_none();
                }
                if is_through && flowed.is_none() {
                    flowed = Some((start.elapsed(), cpu_time() - cpu));
                }
                if is_over {
                    break;
                }
            }
            FromAgent::Failed { why, .. } => panic!("{why}"),
            _ => {}
        }
    }
    let (wall, spent) = flowed.unwrap();
    let (whole, gb) = (start.elapsed(), bytes * seen.len() as f64 / 1e9);
    format!(
        "{:.2} GB/s, {:.3} core-seconds per GB (with proof {:.2} s), peak memory {} MiB",
        gb / wall.as_secs_f64(),
        spent.as_secs_f64() / gb,
        whole.as_secs_f64(),
        peak_memory_kib() >> 10,
    )
}

/// The most memory that this process ever had.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What all threads of this process have computed.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
