//! Applications beside the store: clients that read from nodes and write to them.
//!
//! Place: beside [slices flow], seen from outside, as a key-value store on the same machines. Each
//! client begins a request when its last one was answered, so that the loop is closed, and makes
//! the same requests in the same order without a repair and beside it. Nodes answer by sockets in
//! their own namespaces, so that bytes pass their links like those of repairs; the clients' link
//! has no limits. These are the clients of the simulator (`suture_sim::client`), as processes.
//!
//! On the wire a request is a byte for what it is and eight for a length. A read is answered by so
//! many bytes and one more; a write, behind its bytes, by three numbers of eight bytes: when the
//! first of them came and when the last, in nanoseconds of the clock of all clients and servers,
//! and how many came after the first ones. Of either, those that came after the first ones are
//! what moved meanwhile.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use suture_repair::id::NodeId;
use suture_repair::random::Random;
use suture_sim::client::{MovedRequest, Operation, percentile};
use suture_sim::workload::{Access, Request, Source, Workload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::full_links::LinkSteps;
use super::network::{Host, Network, enter};

/// Where nodes answer, beside their agents.
const PORT: u16 = 7401;

/// What is moved in one go.
const BLOCK_BYTES: usize = 64 << 10;

/// Seeds what is asked for.
pub const SEED: u64 = 1;

/// The answer to a write: three numbers.
const ANSWER_BYTES: usize = 24;

/// The two kinds of requests.
const READ: u8 = b'r';
const WRITE: u8 = b'w';

/// Clients of which each begins a request when its last one was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedLoop {
    /// Which requests are made.
    pub workload: Workload,
    /// How many clients make them.
    pub clients: usize,
    /// How long they are watched before the failure.
    pub alone: Duration,
}

/// How long a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestTime {
    /// From its beginning to its answer.
    pub seconds: f64,
    /// What of that was over before its first byte came or after its last.
    pub waited: f64,
}

/// What requests took, client by client, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// Each client's requests that were answered.
    pub clients: Vec<Vec<RequestTime>>,
    /// When their bytes moved, all but the first ones of each, in no order.
    pub moved: Vec<MovedRequest>,
}

/// The same without a repair, and beside one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopLogs {
    /// Requests from before the failure.
    pub alone: RequestLog,
    /// From the declaration of the failure to the last commit.
    pub beside: RequestLog,
    /// What links of nodes carried meanwhile.
    pub links: LinkSteps,
}

impl RequestLog {
    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// What each client's requests took in all.
    pub fn seconds(&self) -> Vec<Vec<f64>> {
        let of_client = |times: &Vec<RequestTime>| times.iter().map(|time| time.seconds).collect();
        self.clients.iter().map(of_client).collect()
    }

    /// What the first so many requests of each client took.
    pub fn first(&self, counts: &[usize]) -> RequestLog {
        let clients = self.clients.iter().zip(counts);
        let first = |(times, count): (&Vec<RequestTime>, &usize)| {
            times.iter().take(*count).copied().collect()
        };
        RequestLog { clients: clients.map(first).collect(), moved: Vec::new() }
    }

    /// The mean of all of them; `None` of no request.
    pub fn mean(&self) -> Option<RequestTime> {
        let count = self.count() as f64;
        let sum = |of: fn(&RequestTime) -> f64| self.clients.iter().flatten().map(of).sum::<f64>();
        (count > 0.0).then(|| RequestTime {
            seconds: sum(|time| time.seconds) / count,
            waited: sum(|time| time.waited) / count,
        })
    }

    /// The request that `part` of all took no longer than; `None` of no request.
    pub fn at(&self, part: f64) -> Option<RequestTime> {
        let mut seconds: Vec<f64> = self.clients.iter().flatten().map(|t| t.seconds).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        let at = percentile(&seconds, part);
        self.clients.iter().flatten().find(|time| time.seconds == at).copied()
    }
}

impl LoopLogs {
    /// How much longer clients took beside the repair for requests that they made without it too,
    /// as a part: ChameleonEC's interference degree (section V-B, Exp#2).
    pub fn interference(&self) -> Option<f64> {
        let pairs = || {
            let clients = self.beside.clients.iter().zip(&self.alone.clients);
            clients.flat_map(|(beside, alone)| beside.iter().zip(alone))
        };
        let beside: f64 = pairs().map(|(beside, _)| beside.seconds).sum();
        let alone: f64 = pairs().map(|(_, alone)| alone.seconds).sum();
        (alone > 0.0).then(|| beside / alone - 1.0)
    }
}

/// One client and its connection to each node.
struct LoopClient {
    index: usize,
    random: Random,
    source: Arc<Source>,
    streams: Vec<(NodeId, TcpStream)>,
    clock: Instant,
}

/// What became of one client's requests.
#[derive(Default)]
struct ClientLog {
    times: Vec<RequestTime>,
    moved: Vec<MovedRequest>,
}

/// When the bytes of a request came.
#[derive(Clone, Copy, Debug)]
struct Received {
    first: Instant,
    last: Instant,
    /// How many came after the first ones.
    after: u64,
}

impl Received {
    /// The request as its bytes moved after the first ones, in seconds `since` a moment.
    fn moved(&self, request: &Request, since: Instant, operation: Operation) -> MovedRequest {
        let seconds = |at: Instant| at.saturating_duration_since(since).as_secs_f64();
        let (from, to) = (seconds(self.first), seconds(self.last));
        let (Request { node, access, .. }, bytes) = (*request, self.after as f64);
        MovedRequest { node, access, bytes, from, to, operation }
    }

    fn seconds(&self) -> f64 {
        self.last.saturating_duration_since(self.first).as_secs_f64()
    }
}

/// How long a request took, and when its bytes came.
struct Answered {
    seconds: f64,
    received: Received,
}

/// Clients whose nodes answer.
pub struct LoopClients {
    load: ClosedLoop,
    nodes: Vec<(NodeId, SocketAddr)>,
    source: Arc<Source>,
    /// Where the clock of clients and servers begins.
    clock: Instant,
    /// Connected, for the request that begins next.
    clients: Mutex<Vec<LoopClient>>,
    /// They end with this.
    _servers: JoinSet<()>,
}

impl LoopClients {
    /// Has all nodes but the failed ones answer, and connects to them.
    ///
    /// # Errors
    /// When a node cannot listen or be reached.
    pub async fn open(
        load: ClosedLoop,
        network: &Network,
        failed: &[NodeId],
    ) -> Result<LoopClients> {
        let (mut servers, mut nodes) = (JoinSet::new(), Vec::new());
        let clock = Instant::now();
        for (node, host) in (0..).map(NodeId).zip(&network.nodes) {
            if !failed.contains(&node) {
                servers.spawn(serve(TcpListener::from_std(listen(host)?)?, clock));
                nodes.push((node, SocketAddr::from((host.address, PORT))));
            }
        }
        let source = Source::new(load.workload, nodes.iter().map(|(node, _)| *node).collect());
        let (source, clients) = (Arc::new(source), Mutex::default());
        let ready = LoopClients { load, nodes, source, clock, clients, _servers: servers };
        ready.connect().await?;
        Ok(ready)
    }

    /// What requests take without a repair.
    ///
    /// # Errors
    /// When none is answered, or a connection breaks.
    pub async fn alone(&self) -> Result<RequestLog> {
        let log = run(self.take(), Instant::now(), sleep(self.load.alone)).await?;
        ensure!(log.count() > 0, "no request of the applications was answered: a longer `alone`");
        // Some have ended in the middle of an answer.
        self.connect().await?;
        Ok(log)
    }

    /// What they take until `end`, or for `longest`; when bytes moved is in seconds `since` a
    /// moment.
    ///
    /// # Errors
    /// When a connection breaks.
    pub async fn beside(
        &self,
        since: Instant,
        longest: Duration,
        end: impl Future<Output = ()>,
    ) -> Result<RequestLog> {
        let over = async {
            // Either is the end.
            let _ = timeout(longest, end).await;
        };
        run(self.take(), since, over).await
    }

    /// New clients, which begin the sequence of requests from its start.
    async fn connect(&self) -> Result<()> {
        let mut seeds = Random::new(SEED);
        let mut clients = Vec::new();
        for index in 0..self.load.clients {
            let mut streams = Vec::new();
            for (node, address) in &self.nodes {
                let stream = TcpStream::connect(address).await;
                let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
                stream.set_nodelay(true)?;
                streams.push((*node, stream));
            }
            let (random, source) = (Random::new(seeds.next_u64()), self.source.clone());
            clients.push(LoopClient { index, random, source, streams, clock: self.clock });
        }
        *self.lock() = clients;
        Ok(())
    }

    fn take(&self) -> Vec<LoopClient> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LoopClient>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs all clients until `end`; what is not answered by then does not count.
async fn run(
    clients: Vec<LoopClient>,
    since: Instant,
    end: impl Future<Output = ()>,
) -> Result<RequestLog> {
    let mut log = RequestLog { clients: vec![Vec::new(); clients.len()], moved: Vec::new() };
    let (running, stop) = watch::channel(());
    let mut tasks = JoinSet::new();
    for client in clients {
        let (index, stop) = (client.index, stop.clone());
        tasks.spawn(async move { (index, client.run(since, stop).await) });
    }
    end.await;
    drop(running);
    while let Some(ended) = tasks.join_next().await {
        let (index, of_client) = ended?;
        let of_client = of_client.context("a request of the applications failed")?;
        log.clients[index] = of_client.times;
        log.moved.extend(of_client.moved);
    }
    Ok(log)
}

impl LoopClient {
    /// Makes one request after the other until the other end of `stop` is gone.
    async fn run(mut self, since: Instant, mut stop: watch::Receiver<()>) -> io::Result<ClientLog> {
        let mut log = ClientLog::default();
        tokio::select! {
            failed = self.request(since, &mut log) => failed?,
            _ = stop.changed() => {}
        }
        Ok(log)
    }

    /// It ends with an error or not at all.
    async fn request(&mut self, since: Instant, log: &mut ClientLog) -> io::Result<()> {
        let began = Instant::now();
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let mut all = RequestTime::default();
            let operation = Operation { client: self.index, before: log.times.len() };
            let now = began.elapsed().as_secs_f64();
            for request in self.source.draw(now, &mut self.random) {
                let stream = self.streams.iter_mut().find(|(node, _)| *node == request.node);
                let (_, stream) = stream.ok_or(io::ErrorKind::NotFound)?;
                let answered = ask(stream, &request, self.clock, &mut block).await?;
                all.seconds += answered.seconds;
                all.waited += (answered.seconds - answered.received.seconds()).max(0.0);
                log.moved.push(answered.received.moved(&request, since, operation));
            }
            log.times.push(all);
        }
    }
}

/// Makes one request and waits for its answer; the server has the same clock.
async fn ask(
    stream: &mut TcpStream,
    request: &Request,
    clock: Instant,
    block: &mut [u8],
) -> io::Result<Answered> {
    let began = Instant::now();
    let kind = match request.access {
        Access::Read => READ,
        Access::Write => WRITE,
    };
    let mut head = [kind; 9];
    head[1..].copy_from_slice(&request.bytes.to_be_bytes());
    stream.write_all(&head).await?;
    let received = match request.access {
        Access::Read => receive(stream, request.bytes + 1, block).await?,
        Access::Write => {
            send(stream, request.bytes, block).await?;
            let at = |nanoseconds| clock + Duration::from_nanos(nanoseconds);
            let (first, last) = (at(stream.read_u64().await?), at(stream.read_u64().await?));
            Received { first, last, after: stream.read_u64().await? }
        }
    };
    Ok(Answered { seconds: began.elapsed().as_secs_f64(), received })
}

/// A listener in the namespace of a node: a socket stays where the thread was that made it.
fn listen(host: &Host) -> Result<std::net::TcpListener> {
    let bind = || {
        enter(&host.namespace)?;
        let listener = std::net::TcpListener::bind((host.address, PORT));
        let listener = listener.with_context(|| format!("cannot listen on {}", host.address))?;
        listener.set_nonblocking(true)?;
        anyhow::Ok(listener)
    };
    let bound = std::thread::scope(|scope| scope.spawn(bind).join());
    bound.map_err(|_| anyhow!("the thread that listens in {} has panicked", host.namespace))?
}

/// Answers every client that connects.
async fn serve(listener: TcpListener, clock: Instant) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, clock));
    }
}

/// Answers the requests of one connection until it breaks.
async fn answer(mut stream: TcpStream, clock: Instant) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let kind = stream.read_u8().await?;
        let bytes = stream.read_u64().await?;
        match kind {
            READ => send(&mut stream, bytes + 1, &block).await?,
            WRITE => {
                let received = receive(&mut stream, bytes, &mut block).await?;
                stream.write_all(&write_answer(&received, clock)).await?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Sends so many bytes, whatever they are.
async fn send(stream: &mut TcpStream, bytes: u64, block: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let length = (block.len() as u64).min(left);
        stream.write_all(&block[..length as usize]).await?;
        left -= length;
    }
    Ok(())
}

/// What a write is answered by.
fn write_answer(received: &Received, clock: Instant) -> [u8; ANSWER_BYTES] {
    let at = |moment: Instant| moment.saturating_duration_since(clock).as_nanos() as u64;
    let numbers = [at(received.first), at(received.last), received.after];
    let mut answer = [0; ANSWER_BYTES];
    for (place, number) in answer.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    answer
}

/// Takes so many bytes; gives when they came, or now if there are none.
async fn receive(stream: &mut TcpStream, bytes: u64, block: &mut [u8]) -> io::Result<Received> {
    let (mut left, mut first) = (bytes, None);
    while left > 0 {
        let most = (block.len() as u64).min(left) as usize;
        let count = stream.read(&mut block[..most]).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= count as u64;
        first.get_or_insert_with(|| (Instant::now(), left));
    }
    let last = Instant::now();
    let (first, after) = first.unwrap_or((last, 0));
    Ok(Received { first, last, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(clients: &[&[(f64, f64)]]) -> RequestLog {
        let time = |&(seconds, waited): &(f64, f64)| RequestTime { seconds, waited };
        let clients = clients.iter().map(|all| all.iter().map(time).collect()).collect();
        RequestLog { clients, moved: Vec::new() }
    }

    #[test]
    fn a_degree_counts_requests_that_were_made_both_times() {
        let logs = LoopLogs {
            alone: log(&[&[(1.0, 0.0), (2.0, 0.0)], &[(1.0, 0.0)]]),
            // The first client came to one request, the second to more than without a repair.
            beside: log(&[&[(2.0, 0.5)], &[(3.0, 0.5), (9.0, 0.5)]]),
            links: LinkSteps::default(),
        };
        assert_eq!(logs.interference(), Some(1.5));
        assert_eq!(LoopLogs::default().interference(), None);
        let mean = logs.beside.mean().unwrap();
        assert!((mean.waited - 0.5).abs() < 1e-12 && (mean.seconds - 14.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_percentile_is_a_request_with_what_it_waited() {
        let all: Vec<(f64, f64)> = (1..=100).map(|n| (f64::from(n), f64::from(n) / 2.0)).collect();
        let found = log(&[&all[..50], &all[50..]]).at(0.99);
        assert_eq!(found, Some(RequestTime { seconds: 99.0, waited: 49.5 }));
        assert_eq!(RequestLog::default().at(0.99), None);
    }

    #[tokio::test]
    async fn a_node_answers_reads_and_writes_of_any_length() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let clock = Instant::now();
        let server = tokio::spawn(serve(listener, clock));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut block = vec![0; BLOCK_BYTES];
        for (access, bytes) in [
            (Access::Read, 0),
            (Access::Write, 0),
            (Access::Read, 3 * BLOCK_BYTES as u64 + 7),
            (Access::Write, BLOCK_BYTES as u64 + 1),
            (Access::Read, 1),
        ] {
            let request = Request { key: 0, node: NodeId(3), access, bytes, is_miss: false };
            let since = Instant::now();
            let answered = ask(&mut stream, &request, clock, &mut block).await.unwrap();
            let operation = Operation { client: 0, before: 1 };
            let moved = answered.received.moved(&request, since, operation);
            assert!(answered.received.seconds() <= answered.seconds, "{access:?} of {bytes}");
            let now = since.elapsed().as_secs_f64();
            assert!(moved.from <= moved.to && moved.to <= now, "{moved:?} in {now} s");
            assert_eq!((moved.node, moved.access), (NodeId(3), access));
            // What comes at once is at most a block.
            let first = bytes.saturating_sub(answered.received.after);
            assert!(moved.bytes <= bytes as f64 && first <= BLOCK_BYTES as u64, "{moved:?}");
        }
        server.abort();
    }

    #[test]
    fn bytes_move_from_the_first_ones_to_the_last_since_a_moment() {
        let since = Instant::now();
        let at = |ms| since + Duration::from_millis(ms);
        let received = Received { first: at(500), last: at(750), after: 9000 };
        let (node, access) = (NodeId(2), Access::Write);
        let request = Request { key: 7, node, access, bytes: 10_000, is_miss: false };
        let operation = Operation { client: 3, before: 8 };
        let moved = MovedRequest { node, access, bytes: 9000.0, from: 0.5, to: 0.75, operation };
        assert_eq!(received.moved(&request, since, operation), moved);
        assert_eq!(received.seconds(), 0.25);
    }
}
