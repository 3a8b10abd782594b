//! A coordinator alone, notified by hand of what happens, and all of its outputs.

#![allow(dead_code, reason = "each test uses some of it")]

use suture_repair::cluster::{Cluster, Node, Rate};
use suture_repair::coordinator::{Config, Coordinator, Preview, ScrubConfig};
use suture_repair::event::{Commit, Input, Liveness, Output, Timers};
use suture_repair::id::{ChunkCopy, ChunkIndex, Digest, Generation, NodeId, Stamp, StripeId};
use suture_repair::message::{CopyFault, FromAgent, Heartbeat, Hello, Task, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
use suture_repair::time::{Span, Time};

pub const TIMERS: Timers = Timers {
    suspect_after: Span::from_secs(1),
    dead_after: Span::from_secs(3),
    start_grace: Span::from_secs(10),
    stall_after: Span::from_secs(20),
    commit_retry: Span::from_secs(5),
    claim_prolong: Span::from_secs(100),
    retry_first: Span::from_millis(100),
    retry_max: Span::from_secs(10),
};

/// A coordinator of `rs(2,2)` stripes, and all of its outputs.
pub struct Story {
    pub core: Coordinator,
    pub now: Time,
    pub said: Vec<Output>,
    /// There is too much to look at after each event.
    is_large: bool,
    /// Sessions that agents have begun.
    sessions: u64,
}

pub fn stripe(id: u64, nodes: [u32; 4]) -> Stripe {
    let record =
        |node| ChunkRecord { node: Some(NodeId(node)), stamp: Stamp(0), bytes: 4096, crc: Some(7) };
    Stripe {
        id: StripeId(id),
        code: "rs(2,2)".parse().expect("a code"),
        chunk_bytes: 4096,
        unit_bytes: 4096,
        generation: Generation(1),
        chunks: nodes.into_iter().map(record).collect(),
    }
}

pub fn copy(stripe: u64, chunk: u8, stamp: u64) -> ChunkCopy {
    ChunkCopy { stripe: StripeId(stripe), chunk: ChunkIndex(chunk), stamp: Stamp(stamp) }
}

impl Story {
    pub fn new(nodes: u32, stripes: impl IntoIterator<Item = Stripe>) -> Story {
        Story::by("suture", nodes, stripes)
    }

    /// Planned by this policy.
    pub fn by(policy: &str, nodes: u32, stripes: impl IntoIterator<Item = Stripe>) -> Story {
        Story::with(policy, Liveness::Own, nodes, stripes)
    }

    pub fn with(
        policy: &str,
        liveness: Liveness,
        nodes: u32,
        stripes: impl IntoIterator<Item = Stripe>,
    ) -> Story {
        Story::that_scrubs(ScrubConfig::OFF, (policy, liveness), nodes, stripes)
    }

    pub fn that_scrubs(
        scrub: ScrubConfig,
        (policy, liveness): (&str, Liveness),
        nodes: u32,
        stripes: impl IntoIterator<Item = Stripe>,
    ) -> Story {
        Story::configured(|config| Config { scrub, ..config }, (policy, liveness), nodes, stripes)
    }

    /// Repairs are claimed from the keeper.
    pub fn that_claims(nodes: u32, stripes: impl IntoIterator<Item = Stripe>) -> Story {
        let claiming = |config| Config { claims: true, ..config };
        Story::configured(claiming, ("suture", Liveness::Own), nodes, stripes)
    }

    /// Begun with another configuration.
    pub fn configured(
        change: impl FnOnce(Config) -> Config,
        (policy, liveness): (&str, Liveness),
        nodes: u32,
        stripes: impl IntoIterator<Item = Stripe>,
    ) -> Story {
        let config = change(Config {
            epoch: 1,
            timers: TIMERS,
            policy: policy.parse().expect("a policy"),
            seed: 1,
            paused: false,
            failed: Vec::new(),
            draining: Vec::new(),
            paused_nodes: Vec::new(),
            claims: false,
            liveness,
            deletes: true,
            in_flight_max: 4,
            scrub: ScrubConfig::OFF,
            rebalance_after: None,
            gather: Span::ZERO,
        });
        let cluster = Cluster::uniform(nodes as usize, Rate(1e6));
        let core = Coordinator::new(Time::ZERO, config, cluster, StripeMap::new(stripes));
        let (said, is_large) = (Vec::new(), core.stripes().iter().count() > 1000);
        let mut story = Story { core, now: Time::ZERO, said, is_large, sessions: 0 };
        (0..nodes).for_each(|node| story.join(node));
        story
    }

    pub fn give(&mut self, input: Input) {
        self.core.handle(self.now, input);
        if !self.is_large {
            self.core.assert_all_invariants();
        }
        self.said.extend(std::iter::from_fn(|| self.core.poll()));
    }

    pub fn hear(&mut self, node: u32, message: FromAgent) {
        self.give(Input::Agent { node: NodeId(node), message });
    }

    pub fn digest(&self, copy: ChunkCopy) -> Digest {
        self.core.stripes().get(copy.stripe).expect("it is known").record(copy.chunk).digest()
    }

    pub fn join(&mut self, node: u32) {
        self.join_with(node, Abilities::PARTIAL);
    }

    pub fn join_with(&mut self, node: u32, abilities: Abilities) {
        let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
        self.sessions += 1;
        let session = self.sessions;
        let hello = Hello { incarnation: 1, session, abilities, pool_bytes, free_bytes };
        self.hear(node, FromAgent::Hello(hello));
        let held = self.core.stripes().on_node(NodeId(node));
        let held =
            held.filter_map(|s| Some(s.copy(s.chunk_on(NodeId(node))?)?.copy.into())).collect();
        self.hear(node, FromAgent::Inventory(held));
    }

    /// A node's agent has started again and names this rack.
    pub fn move_to(&mut self, node: u32, rack: &str) {
        let added = Node::new(format!("n{node}"), Rate(1e6));
        let rack = Some(rack.to_string());
        self.give(Input::NodeAdded { id: NodeId(node), node: added, rack });
    }

    /// Lets time pass; the given nodes go on speaking.
    pub fn wait(&mut self, seconds: u64, speaking: impl IntoIterator<Item = u32> + Clone) {
        for _ in 0..seconds * 2 {
            self.now = self.now + Span::from_millis(500);
            speaking.clone().into_iter().for_each(|node| self.beat(node));
            self.give(Input::Tick);
        }
    }

    /// A node reports that it lives.
    pub fn beat(&mut self, node: u32) {
        let beat = Heartbeat { incarnation: 1, free_bytes: 1 << 30, ..Heartbeat::default() };
        self.hear(node, FromAgent::Heartbeat(beat));
    }

    /// What would be done about all that is lost.
    pub fn preview(&self) -> Preview {
        self.planned(self.core.preview())
    }

    /// What would be done about these stripes, were they wanted now.
    pub fn preview_of(&self, stripes: &[StripeId]) -> Preview {
        self.planned(self.core.preview_of(stripes))
    }

    /// The same preview with all of its stripes planned.
    fn planned(&self, mut preview: Preview) -> Preview {
        loop {
            let stripes = preview.take_stripes();
            if stripes.is_empty() {
                return preview;
            }
            preview.plan(&self.core.preview_jobs(&stripes));
        }
    }

    pub fn take(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.said)
    }

    /// The repairs dispatched since the last look.
    pub fn dispatched(&mut self) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for output in self.take() {
            if let Output::Send { message: ToAgent::Dispatch(task), .. } = output
                && tasks.iter().all(|known| known.repair != task.repair)
            {
                tasks.push(std::sync::Arc::unwrap_or_clone(task));
            }
        }
        tasks
    }

    /// The destination reports success; returns the commit that follows.
    pub fn store(&mut self, task: &Task) -> Commit {
        let chunk = *task.plan.destinations.first_key_value().expect("a destination").0;
        self.store_chunk(task, chunk);
        self.committing().expect("a stored chunk is committed")
    }

    /// The destination of this chunk reports success.
    pub fn store_chunk(&mut self, task: &Task, chunk: ChunkIndex) {
        let copy = ChunkCopy { stripe: task.stripe.id, chunk, stamp: Stamp::from(task.repair) };
        let (repair, node) = (task.repair, task.plan.destinations[&chunk]);
        self.hear(node.0, FromAgent::Stored { repair, copy });
    }

    /// The commit that was asked for since the last look.
    pub fn committing(&mut self) -> Option<Commit> {
        self.take().into_iter().find_map(|output| match output {
            Output::Commit(commit) => Some(commit),
            _ => None,
        })
    }

    /// The keeper accepts a commit.
    pub fn accept(&mut self, commit: Commit) {
        let mut stripe = self.core.stripes().get(commit.copy.stripe).expect("known").clone();
        commit.clears.iter().for_each(|chunk| stripe.chunks[usize::from(chunk.0)].node = None);
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation.0 += 1;
        self.give(Input::Committed { repair: commit.repair, stripe });
    }
}

pub fn sent(outputs: &[Output], wanted: impl Fn(NodeId, &ToAgent) -> bool) -> bool {
    outputs
        .iter()
        .any(|output| matches!(output, Output::Send { to, message } if wanted(*to, message)))
}

/// What is reported of a copy that cannot be used.
pub fn bad(copy: ChunkCopy, fault: CopyFault) -> FromAgent {
    FromAgent::Bad { copy, fault }
}
