//! Stripes with random losses on simulated clusters without a coordinator: the tests send its
//! messages.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use suture_code::Code;
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp};
use suture_repair::message::{Task, ToAgent};
use suture_repair::plan::arbitrary::{arbitrary_plan, arbitrary_rest};
use suture_repair::plan::{Plan, StripeFacts};
use suture_repair::random::Random;
use suture_repair::slice::{SLICE_BYTES_MIN, preferred_slice};
use suture_repair::stripe::Stripe;
use suture_repair::time::Span;
use suture_sim::disk::Safeguards;
use suture_sim::metadata;
use suture_sim::swarm;
use suture_sim::world::{Options, World};

const NODES: usize = 12;

const CODES: [&str; 9] = [
    "rs(2,1)",
    "rs(3,2)",
    "rs(4,2)",
    "rs(6,3)",
    "rs-vandermonde(6,3)",
    "lrc(4,2,2)",
    "butterfly(4)",
    "clay(4,2,5)",
    "clay(3,2,4)",
];

/// One stripe that has lost something, on a cluster of its own.
pub struct Case {
    pub seed: u64,
    pub random: Random,
    pub world: World,
    pub stripe: Stripe,
    survivors: Vec<(ChunkIndex, NodeId)>,
}

impl Case {
    pub fn new(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let code: Code = random.choose(&CODES).parse().expect("a code");
        let options = Options {
            nodes: NODES,
            code,
            pool_bytes: 64 << 20,
            // No machine here would prove a chunk by fingerprints.
            unrecorded: false,
            // Tasks carry what a claim brings.
            claims: true,
            ..swarm::options(seed, Safeguards::ALL)
        };
        let mut world = World::new(options);
        let mut on: Vec<NodeId> = world.nodes().collect();
        random.shuffle(&mut on);
        on.truncate(code.chunk_count());
        let alignment = code.alignment() as u64;
        let bytes = (64 * random.between(1, 900)).next_multiple_of(alignment);
        let mut stripe = world.metadata.write(&mut random, code, bytes, &on);
        let lost_max = code.loss_tolerance().min(NODES - code.chunk_count()) as u64;
        let is_stored = |chunk: &ChunkIndex| !stripe.record(*chunk).is_known_zero();
        let stored: Vec<ChunkIndex> = stripe.indices().filter(is_stored).collect();
        let mut lost = stored.clone();
        random.shuffle(&mut lost);
        lost.truncate(random.between(1, lost_max) as usize);
        let survive = |chunk: &ChunkIndex| !lost.contains(chunk);
        code.chunks().filter(survive).for_each(|chunk| world.write_copy(&stripe, chunk));
        for chunk in &lost {
            stripe.chunks[usize::from(chunk.0)].node = None;
        }
        let home = |chunk: ChunkIndex| (chunk, on[usize::from(chunk.0)]);
        let survivors = stored.into_iter().filter(survive).map(home).collect();
        Case { seed, random, world, stripe, survivors }
    }

    /// Any plan for some of what is lost.
    pub fn plan(&mut self) -> Plan {
        let Stripe { id, chunk_bytes, .. } = self.stripe;
        let code = self.stripe.shortened();
        let facts =
            StripeFacts { stripe: id, code, chunk_bytes, survivors: &self.survivors, source: None };
        arbitrary_plan(&mut self.random, &facts, NODES)
    }

    /// Any plan that covers whole chunks.
    pub fn whole_plan(&mut self) -> Plan {
        loop {
            let plan = self.plan();
            if plan.range.bytes() == self.stripe.chunk_bytes {
                return plan;
            }
        }
    }

    /// Any plan for the rest of the chunks of another.
    pub fn rest(&mut self, begun: &Plan, from: u64) -> Plan {
        let Stripe { id, chunk_bytes, .. } = self.stripe;
        let code = self.stripe.shortened();
        let facts =
            StripeFacts { stripe: id, code, chunk_bytes, survivors: &self.survivors, source: None };
        arbitrary_rest(&mut self.random, &facts, NODES, begun, from)
    }

    /// A task with slices and a window as small as they get, or as they usually are.
    pub fn task(&mut self, sequence: u32, plan: &Plan) -> Task {
        let alignment = self.stripe.code.alignment() as u32;
        let slice_bytes = if self.seed.is_multiple_of(2) {
            preferred_slice(plan, alignment)
        } else {
            (SLICE_BYTES_MIN / 4).next_multiple_of(alignment)
        };
        Task {
            repair: RepairId::new(1, sequence),
            stripe: self.stripe.clone(),
            plan: plan.clone(),
            slice_bytes,
            window: self.random.between(1, 8) as u32,
            gated: false,
            continues: None,
            skips: false,
            label: metadata::label_of(self.stripe.id),
        }
    }

    pub fn tell_all(&mut self, plan: &Plan, message: &ToAgent) {
        for node in plan.participants() {
            self.world.notify(node, message.clone());
        }
    }

    pub fn dispatch(&mut self, task: &Task) {
        self.tell_all(&task.plan, &ToAgent::Dispatch(Arc::new(task.clone())));
    }

    pub fn run(&mut self, span: Span) {
        self.world.run(self.world.now + span);
        assert_eq!(self.world.violation, None, "seed {}", self.seed);
    }

    /// Whether every chunk of the task is published where it belongs.
    pub fn is_published(&self, task: &Task) -> bool {
        task.plan.lost.iter().all(|&chunk| {
            let copy = ChunkCopy { stripe: self.stripe.id, chunk, stamp: Stamp::from(task.repair) };
            self.world.holds(task.plan.destinations[&chunk], copy)
        })
    }

    /// Nothing is reserved, in memory or in the making any more.
    pub fn assert_swept(&self) {
        let seed = self.seed;
        for node in self.world.nodes() {
            assert_eq!(self.world.status(node).reserved_bytes, 0, "seed {seed}: {node}");
            assert_eq!(self.world.unfinished_count(node), 0, "seed {seed}: {node}");
        }
    }
}
