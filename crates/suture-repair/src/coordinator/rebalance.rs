//! Which chunks move so that no node stays much emptier than the others.
//!
//! Place: [stripe healthy -> queue] -> plan -> ... -> stripe healthy.
//! A node that is new, or came back with nothing, is given chunks of what is stored later and none
//! of what is there already. Once nothing was lost and no node came or went for a while, whole
//! chunks move to nodes that hold less than half of their share until they hold nearly all of it.
//! A node's share goes by what it could hold: its chunks and what is free. Few chunks move at a
//! time, behind all repair, in the same steps as those of a node that is emptied (`moves.rs`).
//!
//! Invariants: no chunk is to move while any is lost, nor more than one of a stripe. A node keeps
//! its share without what is to leave it, and no node is given more than its share, so that each
//! move brings the cluster nearer to all shares, and moves come to an end.

use std::collections::{BTreeMap, BTreeSet};

use super::Coordinator;
use crate::event::RebalanceStatus;
use crate::id::{ChunkIndex, CopyAt, NodeId, StripeId};
use crate::message::DiskState;
use crate::mutant::Mutant;
use crate::stripe::Stripe;
use crate::time::{Span, Time};

/// Chunks that move at a time for each node that is given some.
const MOVES_A_NODE: usize = 4;

/// And in the cluster.
const MOVES_MAX: usize = 256;

/// Stripes that are looked at for one to move at a time.
const SCAN_MAX: usize = 1024;

/// How often moves are chosen.
const CHOOSE_EVERY: Span = Span::from_secs(1);

/// A node that holds less than this part of its share is filled, up to the other part of it.
const NEEDY_BELOW: f64 = 0.5;
const FILLED_FROM: f64 = 0.9;

/// Which chunks are to move, and since when moves may be chosen.
#[derive(Debug)]
pub(super) struct Rebalance {
    /// Since when nothing was lost, and no node came, went, or was wanted otherwise.
    calm_since: Time,
    choose_at: Time,
    /// The chunk of each of these stripes that is to move.
    moves: BTreeMap<StripeId, Move>,
    /// Nodes that are given chunks.
    needy: BTreeSet<NodeId>,
    /// Stripes are looked at from here on.
    next: StripeId,
    /// Stripes that were looked at since a chunk moved last.
    seen: usize,
}

/// A chunk that is to move.
#[derive(Clone, Copy, Debug)]
struct Move {
    chunk: ChunkIndex,
    /// The node that it leaves.
    from: NodeId,
    bytes: f64,
}

/// What a node holds, in bytes, and what its share would be.
#[derive(Clone, Copy, Debug)]
struct Level {
    node: NodeId,
    held: f64,
    share: f64,
    /// What it could hold.
    capacity: f64,
}

impl Level {
    /// How much more of what it could hold it does than the whole cluster.
    fn excess(&self) -> f64 {
        (self.held - self.share) / self.capacity
    }

    /// What it is to be given still.
    fn lack(&self) -> f64 {
        (self.share - self.held).max(0.0)
    }
}

impl Rebalance {
    /// A rebalance whose quiet period starts now.
    pub fn new(now: Time) -> Rebalance {
        Rebalance {
            calm_since: now,
            choose_at: now,
            moves: BTreeMap::new(),
            needy: BTreeSet::new(),
            next: StripeId(0),
            seen: 0,
        }
    }

    /// The chunk of a stripe that is to move, and the node that it leaves.
    pub fn of(&self, stripe: StripeId) -> Option<(ChunkIndex, NodeId)> {
        self.moves.get(&stripe).map(|of_stripe| (of_stripe.chunk, of_stripe.from))
    }

    /// A stripe's chunks are elsewhere than before, or some are lost: what was to move of it has
    /// moved, or does no more.
    pub fn forget(&mut self, stripe: StripeId) {
        if self.moves.remove(&stripe).is_some() {
            self.seen = 0;
        }
    }

    /// Begins the quiet period anew, after a time in which nothing was received.
    pub fn slept(&mut self, now: Time) {
        self.calm_since = now;
    }

    /// Recomputes which nodes count as far below their share, by what they hold now.
    fn weigh(&mut self, levels: &[Level]) {
        let is_needy = |level: &&Level| {
            let part = if self.needy.contains(&level.node) { FILLED_FROM } else { NEEDY_BELOW };
            level.held < part * level.share
        };
        self.needy = levels.iter().filter(is_needy).map(|level| level.node).collect();
    }
}

impl Coordinator {
    /// Something changed by which chunks may have to be elsewhere than thought: none moves for a
    /// while.
    pub(super) fn disturb_rebalance(&mut self) {
        self.rebalance.calm_since = self.now;
        let moves = std::mem::take(&mut self.rebalance.moves);
        moves.into_keys().for_each(|stripe| self.settle(stripe));
    }

    /// Gives up the move of a stripe, for which there is no plan. Returns whether one was chosen.
    pub(super) fn give_up_move(&mut self, stripe: StripeId) -> bool {
        let was_there = self.rebalance.moves.remove(&stripe).is_some();
        if was_there {
            self.settle(stripe);
        }
        was_there
    }

    /// The move of a stripe failed, and others may by the same cause. Returns whether there was
    /// one.
    pub(super) fn fail_move(&mut self, now: Time, stripe: StripeId) -> bool {
        let was_there = self.give_up_move(stripe);
        if was_there {
            self.rebalance.choose_at = now + self.config.timers.retry_max;
        }
        was_there
    }

    /// Chooses what is to move next, if it is time to.
    pub(super) fn rebalance(&mut self, now: Time) {
        if !self.lost.is_empty() && !self.ledger.mistake.is(Mutant::MoveWhileLost) {
            return self.disturb_rebalance();
        }
        if self.config.paused {
            // Those that run come to their end.
            self.rebalance.calm_since = now;
            let stripes = self.rebalance.moves.keys().copied();
            let waiting = stripes.filter(|stripe| self.ledger.repair_of(*stripe).is_none());
            let waiting: Vec<StripeId> = waiting.collect();
            for stripe in waiting {
                self.give_up_move(stripe);
            }
            return;
        }
        if self.next_rebalance_deadline().is_none_or(|at| now < at) {
            return;
        }
        self.rebalance.choose_at = now + CHOOSE_EVERY;
        let levels = self.levels();
        self.rebalance.weigh(&levels);
        let chosen = self.choose_moves(&levels);
        self.rebalance.moves.extend(chosen.iter().copied());
        self.assert_moves(&levels, &chosen);
        for (stripe, _) in chosen {
            self.enqueue(stripe, None);
        }
        if self.rebalance.seen >= self.stripes.len() && self.rebalance.moves.is_empty() {
            // No chunk can move as things are.
            self.rebalance.needy.clear();
            self.rebalance.seen = 0;
            self.rebalance.calm_since = now;
        }
    }

    /// When moves may be chosen next; `None` where chunks are left where they are.
    pub(super) fn next_rebalance_deadline(&self) -> Option<Time> {
        let after = self.config.rebalance_after?;
        let Rebalance { calm_since, choose_at, .. } = self.rebalance;
        (self.lost.is_empty() && !self.config.paused).then(|| choose_at.max(calm_since + after))
    }

    /// What the nodes hold that may be given chunks.
    fn levels(&self) -> Vec<Level> {
        let nodes = self.health.iter().filter(|(node, known)| {
            self.health.takes_chunks(*node) && known.disk == DiskState::Good
        });
        let mut levels: Vec<Level> = nodes
            .map(|(node, known)| {
                let held = self.stripes.bytes_on(node) as f64;
                Level { node, held, share: 0.0, capacity: held + known.free_bytes as f64 }
            })
            .filter(|level| level.capacity > 0.0)
            .collect();
        let (held, capacity) = levels
            .iter()
            .fold((0.0, 0.0), |(held, all), level| (held + level.held, all + level.capacity));
        levels.iter_mut().for_each(|level| level.share = level.capacity * held / capacity);
        levels
    }

    /// The next chunks to move.
    fn choose_moves(&mut self, levels: &[Level]) -> Vec<(StripeId, Move)> {
        let receivers = self.receivers(levels);
        let moves = &self.rebalance.moves;
        let most = (receivers.len() * MOVES_A_NODE).min(MOVES_MAX);
        let moving = moves.len();
        if moving >= most || receivers.is_empty() {
            return Vec::new();
        }
        let mut left: BTreeMap<NodeId, Level> =
            levels.iter().map(|level| (level.node, *level)).collect();
        let mut lacking: f64 = receivers.iter().map(Level::lack).sum();
        for of_stripe in moves.values() {
            lacking -= of_stripe.bytes;
            left.entry(of_stripe.from).and_modify(|level| level.held -= of_stripe.bytes);
        }
        let mut chosen = Vec::new();
        let from = self.rebalance.next;
        let ids = self.stripes.from(from).chain(self.stripes.iter().take_while(|s| s.id < from));
        let (mut next, mut seen) = (from, 0);
        for stripe in ids.take(SCAN_MAX) {
            next = StripeId(stripe.id.0 + 1);
            seen += 1;
            if let Some(of_stripe) = self.chunk_to_move(stripe, &left, &receivers, lacking) {
                lacking -= of_stripe.bytes;
                left.entry(of_stripe.from).and_modify(|level| level.held -= of_stripe.bytes);
                chosen.push((stripe.id, of_stripe));
                if moving + chosen.len() == most {
                    break;
                }
            }
        }
        self.rebalance.next = next;
        self.rebalance.seen += seen;
        chosen
    }

    /// Nodes that are to be given chunks.
    fn receivers(&self, levels: &[Level]) -> Vec<Level> {
        let is_receiver = |level: &&Level| self.rebalance.needy.contains(&level.node);
        levels.iter().filter(is_receiver).copied().collect()
    }

    /// The chunk of a stripe to move, from the fullest of its nodes that can spare it.
    fn chunk_to_move(
        &self,
        stripe: &Stripe,
        left: &BTreeMap<NodeId, Level>,
        receivers: &[Level],
        lacking: f64,
    ) -> Option<Move> {
        let id = stripe.id;
        let is_busy = self.ledger.has(id) || self.queue.margin(id).is_some();
        if is_busy || self.failures.contains_key(&id) || self.rebalance.of(id).is_some() {
            return None;
        }
        let is_mistaken = self.ledger.mistake.is(Mutant::MoveTooMuch);
        let mut best: Option<(f64, Move)> = None;
        for chunk in stripe.indices() {
            let Some(CopyAt { node: from, .. }) = stripe.copy(chunk) else { continue };
            // All of it can be read, and none of it leaves for another reason.
            if !self.health.takes_chunks(from) {
                return None;
            }
            let Some(level) = left.get(&from) else { continue };
            let bytes = stripe.record(chunk).bytes as f64;
            let keeps_share = level.held - bytes >= level.share || is_mistaken;
            let is_spare = bytes > 0.0 && bytes <= lacking && keeps_share;
            let is_best = best.is_none_or(|(excess, _)| (level.excess() > excess) != is_mistaken);
            let mut places = receivers.iter().filter(|to| bytes <= to.lack());
            if is_spare && is_best && places.any(|to| self.may_move(stripe, from, to.node)) {
                best = Some((level.excess(), Move { chunk, from, bytes }));
            }
        }
        best.map(|(_, of_stripe)| of_stripe)
    }

    /// Whether a node may have the chunk of a stripe that leaves another one: it has none of it,
    /// and its rack has then no more of it than may be lost. Where no rack can keep to that, no
    /// more than there were in the rack that the chunk leaves.
    fn may_move(&self, stripe: &Stripe, from: NodeId, to: NodeId) -> bool {
        let cluster = self.ledger.cluster();
        if stripe.chunk_on(to).is_some() {
            return false;
        }
        let rack = |node: NodeId| cluster.node(node).rack;
        let Some(its) = rack(to).filter(|_| cluster.racks.len() > 1) else { return true };
        let count = |of| {
            let nodes = stripe.chunks.iter().filter_map(|chunk| chunk.node);
            nodes.filter(|node| *node != from && rack(*node) == Some(of)).count() + 1
        };
        let tolerance = stripe.code.loss_tolerance().max(1);
        let keeps = |node: NodeId| rack(node).is_none_or(|of| count(of) <= tolerance);
        if keeps(to) {
            return true;
        }
        let mut others = self.health.iter().map(|(node, _)| node);
        let is_free = |node: NodeId| self.health.is_up(node) && stripe.chunk_on(node).is_none();
        let can_be_kept = others.any(|node| is_free(node) && keeps(node));
        !can_be_kept && rack(from).is_some_and(|of| count(its) <= count(of))
    }

    /// Nodes that are given chunks and may not have the one of this stripe that is to move.
    pub(super) fn barred_from_move(&self, stripe: StripeId) -> Vec<NodeId> {
        let known = self.stripes.get(stripe).zip(self.rebalance.of(stripe));
        let Some((stripe, (_, from))) = known else { return Vec::new() };
        let needy = self.rebalance.needy.iter().copied();
        needy.filter(|to| !self.may_move(stripe, from, *to)).collect()
    }

    /// What each node can take of what moves: what a node that is given chunks lacks, beside what
    /// is on its way there, and no other takes any.
    pub(super) fn free_for_moves(&self, free_bytes: &[u64]) -> Vec<u64> {
        let mut takes = vec![0; free_bytes.len()];
        let empty = self.takes();
        for level in self.receivers(&self.levels()) {
            let at = level.node.index();
            let coming = empty[at].saturating_sub(free_bytes[at]);
            takes[at] = free_bytes[at].min((level.lack() as u64).saturating_sub(coming));
        }
        takes
    }

    /// What moves, and what is still to move to nodes that hold too little.
    pub(super) fn rebalance_status(&self) -> RebalanceStatus {
        let missing = |level: &Level| (FILLED_FROM * level.share - level.held).max(0.0);
        RebalanceStatus {
            chunks: self.rebalance.moves.len() as u64,
            bytes_left: self.receivers(&self.levels()).iter().map(missing).sum::<f64>() as u64,
        }
    }

    /// # Panics
    /// A node of which a chunk was chosen to move does not keep its share without what is to leave
    /// it, or more is to move than is lacking where chunks are given.
    fn assert_moves(&self, levels: &[Level], chosen: &[(StripeId, Move)]) {
        let moves = || self.rebalance.moves.values();
        for (stripe, Move { from, .. }) in chosen {
            let level = levels.iter().find(|level| level.node == *from);
            let leaving = moves().filter(|other| other.from == *from).map(|other| other.bytes);
            let left = level.map_or(0.0, |level| level.held - leaving.sum::<f64>());
            let keeps_share = level.is_some_and(|level| left >= level.share);
            assert!(keeps_share, "rebalance: {stripe} is to leave {from}, which keeps {left}");
        }
        let lack: f64 = self.receivers(levels).iter().map(Level::lack).sum();
        let moving: f64 = moves().map(|other| other.bytes).sum();
        // Shares are no whole bytes, and were subtracted from in another order.
        let is_lacking = chosen.is_empty() || moving <= lack + 1.0;
        assert!(is_lacking, "rebalance: {moving} are to move, and {lack} are lacking");
    }

    /// # Panics
    /// A chunk is to move while any is lost, or none is where it is to move from.
    pub(super) fn assert_rebalance(&self) {
        let moves = &self.rebalance.moves;
        assert!(moves.is_empty() || self.lost.is_empty(), "rebalance: while chunks are lost");
        for (stripe, Move { chunk, from, .. }) in moves {
            let copy = self.stripes.get(*stripe).and_then(|known| known.copy(*chunk));
            let is_there = copy.is_some_and(|at| at.node == *from);
            assert!(is_there, "rebalance: {stripe} has no such chunk on {from}");
        }
    }
}
