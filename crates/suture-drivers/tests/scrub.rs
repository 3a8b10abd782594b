//! Scrubs of real agents over loopback: what lies damaged and unread is found, and rebuilt.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::agents::{Cluster, stripe};
use suture_drivers::agent::session::SessionEvent;
use suture_drivers::config::CoordinatorConfig;
use suture_drivers::limit::Rates;
use suture_edge::checksum::crc32c;
use suture_repair::cluster;
use suture_repair::coordinator::{Config, Coordinator, IN_FLIGHT_MAX, ScrubConfig};
use suture_repair::event::{Command, Commit, Input, Liveness, Output, Status};
use suture_repair::id::{ChunkIndex, CopyAt, NodeId};
use suture_repair::message::FromAgent;
use suture_repair::stripe::{Stripe, StripeMap};
use suture_repair::time::{Span, Time};

/// Agents, and a coordinator whose metadata are its own map.
struct Repairing {
    agents: Cluster,
    core: Coordinator,
    since: Instant,
}

impl Repairing {
    /// Agents with the chunks of a stripe, chunk i on node i.
    async fn start(nodes: u32, stored: &Stripe, known: Stripe, chunks: &[Vec<u8>]) -> Repairing {
        let rates = Rates { uplink: None, downlink: None, repair: None };
        let agents = Cluster::start(nodes, rates).await;
        agents.store(stored, chunks).await;
        let settings = CoordinatorConfig::default();
        let config = Config {
            epoch: 1,
            timers: settings.timers(),
            policy: settings.repair.policy,
            seed: 7,
            paused: false,
            failed: Vec::new(),
            draining: Vec::new(),
            paused_nodes: Vec::new(),
            claims: false,
            liveness: Liveness::Own,
            deletes: true,
            in_flight_max: IN_FLIGHT_MAX,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
            gather: Span::ZERO,
        };
        let cluster = cluster::Cluster::uniform(nodes as usize, cluster::Rate(1e8));
        let core = Coordinator::new(Time::ZERO, config, cluster, StripeMap::new([known]));
        Repairing { agents, core, since: Instant::now() }
    }

    async fn give(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.core.handle(Time { ns: self.since.elapsed().as_nanos() as u64 }, input);
            while let Some(output) = self.core.poll() {
                match output {
                    Output::Send { to, message } => {
                        self.agents.node(to).tell(SessionEvent::Message(message)).await;
                    }
                    Output::Commit(commit) => inputs.push(self.commit(commit)),
                    _ => {}
                }
            }
        }
    }

    fn commit(&self, commit: Commit) -> Input {
        let mut stripe = self.core.stripes().get(commit.copy.stripe).unwrap().clone();
        assert_eq!(stripe.generation, commit.generation);
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation.0 += 1;
        Input::Committed { repair: commit.repair, stripe }
    }

    async fn until(&mut self, is_so: impl Fn(&Status) -> bool) -> Status {
        loop {
            let status = self.core.status();
            if is_so(&status) {
                return status;
            }
            let (node, message) = self.agents.next().await;
            // Made before the chunks were stored, so that all of them would be checked.
            if matches!(message, FromAgent::Inventory(_)) {
                continue;
            }
            self.give(Input::Agent { node, message }).await;
        }
    }

    /// Scrubs and repairs; gives the status before and after the repair.
    async fn scrub(&mut self) -> (Status, Status) {
        let all_up = |status: &Status| {
            status.nodes.iter().all(|node| node.health == suture_repair::event::Health::Up)
        };
        self.until(all_up).await;
        self.give(Input::Operator(Command::Scrub)).await;
        let ended = self.until(|status| status.scrub.pass.is_none()).await;
        (ended, self.until(|status| status.lost_chunks == 0).await)
    }

    async fn assert_whole(&self, chunks: &[Vec<u8>]) {
        let stripe = self.core.stripes().iter().next().unwrap();
        for chunk in stripe.indices() {
            let CopyAt { node, copy } = stripe.copy(chunk).unwrap();
            let found = self.agents.read(node, copy, stripe.chunk_bytes).await;
            assert!(found == chunks[usize::from(chunk.0)], "chunk {} on {node}", chunk.0);
        }
    }
}

/// A stripe with a location for each of its chunks.
fn whole_stripe(code: &str) -> (Stripe, Vec<Vec<u8>>) {
    let (mut stripe, chunks) = stripe(code, 1, 300_000);
    stripe.chunks[0].node = Some(NodeId(0));
    (stripe, chunks)
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bytes_of_both_parity_chunks_are_found_and_rebuilt() {
    let (stripe, chunks) = whole_stripe("rs(3,2)");
    let mut cluster = Repairing::start(8, &stripe, stripe.clone(), &chunks).await;
    for chunk in [3, 4] {
        let CopyAt { node, copy } = stripe.copy(ChunkIndex(chunk)).unwrap();
        let path = cluster.agents.node(node).path(copy);
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 123_456).unwrap();
        file.write_all_at(&[byte[0] ^ 0x40], 123_456).unwrap();
    }
    let (ended, repaired) = cluster.scrub().await;
    assert_eq!((ended.scrub.found, repaired.repaired_chunks), (2, 2));
    cluster.assert_whole(&chunks).await;
    cluster.give(Input::Operator(Command::Scrub)).await;
    let again = cluster.until(|status| status.scrub.pass.is_none()).await;
    assert_eq!(again.scrub.found, 2, "all is well by now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_with_other_bytes_and_checksums_that_fit_them_is_found_by_its_parity() {
    for chunk in [1, 4] {
        let (stripe, chunks) = whole_stripe("rs(3,2)");
        let (mut stored, mut written) = (stripe.clone(), chunks.clone());
        written[chunk][77_777..99_999].fill(3);
        stored.chunks[chunk].crc = Some(crc32c(&written[chunk]));
        let mut known = stripe.clone();
        known.chunks.iter_mut().for_each(|record| record.crc = None);
        let mut cluster = Repairing::start(8, &stored, known, &written).await;
        let (ended, repaired) = cluster.scrub().await;
        assert_eq!((ended.scrub.found, repaired.repaired_chunks), (1, 1), "chunk {chunk}");
        cluster.assert_whole(&chunks).await;
    }
}
