//! Whether an agent uses as many cores as it is given: two repairs at a time through a relay with
//! one thread for its connections, and through one with two.
//!
//! Two threads with a core each would leave none to their neighbours on two cores. So each thread of
//! a relay gets a quarter of a core and no more (a control group of its own, which needs root): what
//! one thread does then is the same in both relays, and so is all that is around them. A second
//! thread that had to wait for the first would show.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::endpoints::{Endpoint, Slices};
use super::{CLUSTER, Chunks, NEIGHBOURS, Player, ROUNDS, WINDOW, chunk_bytes, median, repair};
use suture_repair::id::NodeId;

/// Where the processor's control groups are.
const GROUPS: &str = "/sys/fs/cgroup/cpu";

/// What each thread may compute, in microseconds, of each such period.
const QUOTA_MICROS: u32 = 2_500;
const PERIOD_MICROS: u32 = 10_000;

/// Prints how fast relays with one thread and with two are, and how many times as fast the latter.
pub fn compare(dir: &Path, chunks: &Chunks) {
    let data = super::slices(chunks);
    let mut relays = [1, 2].map(|threads| Held::start(dir, chunks, threads));
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..=ROUNDS {
        for (relay, rates) in relays.iter_mut().zip(&mut rates) {
            let rate = relay.run(round, &data);
            if let Err(error) = relay.hold() {
                return println!(
                    "skipped: two threads for connections beside one, because no control groups \
                     can be made in {GROUPS} (root, and version 1 of them): {error}"
                );
            }
            // The first round was not held.
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let [one, two] = rates.map(median);
    println!(
        "two threads of a quarter of a core move {:.2} times what one does (medians of {ROUNDS} \
         rounds)",
        two / one
    );
}

/// A relay between thin neighbours, two to each stripe.
struct Held {
    threads: usize,
    relay: Player,
    neighbours: Vec<[Endpoint; 2]>,
    groups: Vec<PathBuf>,
}

impl Held {
    fn start(dir: &Path, chunks: &Chunks, threads: usize) -> Held {
        let dir = &dir.join(threads.to_string());
        (0..NEIGHBOURS.len() as u32).for_each(|number| chunks.store(dir, 2, number));
        let listeners =
            NEIGHBOURS.map(|pair| pair.map(|_| TcpListener::bind("127.0.0.1:0").unwrap()));
        let of = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let mut relay = Player::start(1, dir, None, threads);
        let address: SocketAddr = relay.hear().parse().unwrap();
        // In the order of their numbers, of which the relay has the second.
        let [[helper, destination], others] =
            listeners.each_ref().map(|pair| pair.each_ref().map(of));
        let addresses = [helper, address.to_string(), destination].into_iter().chain(others);
        let addresses: Vec<String> = addresses.collect();
        relay.say(&format!("{} {}", addresses.join(" "), chunks.crcs));
        let neighbours = listeners.into_iter().zip(NEIGHBOURS).map(|(pair, nodes)| {
            let [helper, destination] = pair;
            let [first, last] = nodes.map(NodeId);
            [(helper, first), (destination, last)]
                .map(|(at, node)| Endpoint::new(at, address, (CLUSTER, node), None))
        });
        let neighbours = neighbours.collect();
        Held { threads, relay, neighbours, groups: Vec::new() }
    }

    /// Both repairs at once; gives GB a second.
    fn run(&mut self, round: u32, (partial, lost): &(Slices, Slices)) -> f64 {
        self.relay.say(&format!("{round} {}", NEIGHBOURS.len()));
        let wall = std::thread::scope(|scope| {
            let both = self.neighbours.iter_mut().zip(0..).map(|([source, sink], number)| {
                let repair = repair(round, number);
                scope.spawn(move || source.send(repair, partial, None));
                scope.spawn(move || sink.receive(repair, WINDOW, lost).wall)
            });
            let sinks: Vec<_> = both.collect();
            sinks.into_iter().map(|sink| sink.join().unwrap()).max().unwrap_or(Duration::ZERO)
        });
        let figures = self.relay.hear();
        println!("round {round}, relay with {} of a quarter of a core: {figures}", self.called());
        (NEIGHBOURS.len() * chunk_bytes()) as f64 / 1e9 / wall.as_secs_f64()
    }

    fn called(&self) -> &str {
        if self.threads == 1 { "one thread" } else { "two threads" }
    }

    /// Holds each thread of the relay that is there to its part of a core.
    fn hold(&mut self) -> io::Result<()> {
        let process = self.relay.child.id();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = thread?.file_name().into_string().unwrap_or_default();
            let group = Path::new(GROUPS).join(format!("suture-bench-{thread}"));
            if self.groups.contains(&group) {
                continue;
            }
            fs::create_dir(&group)?;
            self.groups.push(group.clone());
            fs::write(group.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), QUOTA_MICROS.to_string())?;
            match fs::write(group.join("tasks"), &thread) {
                Ok(()) => {}
                // A thread of the disk may have ended.
                Err(error) if error.raw_os_error() == Some(3) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.relay.child.kill();
        let _ = self.relay.child.wait();
        for group in &self.groups {
            let _ = fs::remove_dir(group);
        }
    }
}
