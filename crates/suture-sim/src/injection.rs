//! Makes things go wrong in the simulated cluster, and heals them again.
//!
//! Place: beside the whole life of a repair. What a fault hits is chosen when it strikes. Faults
//! that destroy data strike only where enough good chunks of every stripe remain, unless the seed
//! allows losses beyond repair; so whatever the checkers find missing in the end was lost by Suture
//! and not by us.

mod burst;
mod clocks;
mod disks;
mod impostor;
mod intent;
mod restored;
mod vanished;

use std::collections::BTreeSet;

use suture_repair::chunk_store::short;
use suture_repair::cluster::Cluster;
use suture_repair::cluster::NodeIntent;
#[cfg(feature = "mutants")]
use suture_repair::cluster::Rate;
use suture_repair::event::{Command, Health, Input, Liveness, NodeState, NodeStatus};
use suture_repair::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId, StripeId};
use suture_repair::keeper::Keeper;
use suture_repair::message::DiskState;
#[cfg(feature = "mutants")]
use suture_repair::mutant::Mutant;
use suture_repair::placement::Wanted;
use suture_repair::stripe::Stripe;
use suture_repair::throttle::{Keep, ThrottleConfig};
use suture_repair::time::{Span, Time};

use crate::fault::{Fault, Kind, NetworkFaults};
use crate::party::Party;
use crate::violation::Violation;
use crate::world::{Event, Recovery, World};

/// The keeper takes a node for dead that has been down for so long.
const DEAD_AFTER: Span = Span::from_millis(900);

impl World {
    /// Plans the faults of a run and sets how unreliable messages are.
    pub fn schedule_faults(&mut self, network_faults: NetworkFaults, faults: &[(Time, Fault)]) {
        self.network_faults = network_faults;
        for (time, fault) in faults {
            self.later(time.since(self.now), Event::Fault(*fault));
        }
    }

    /// Ends every fault that can be ended, at once.
    pub fn heal(&mut self) {
        self.network_faults = NetworkFaults::NONE;
        self.end_disturbances();
        self.partitions.clear();
        self.wake_up();
        for node in self.nodes() {
            self.host(node).disk.set_capacity(self.options.disk_bytes);
            self.recover(Recovery::Memory(node));
            self.recover(Recovery::Reads(node));
            self.recover(Recovery::Errors(node));
            let host = &mut self.hosts[node.index()];
            (host.hangs_until, host.link_back) = (Some(self.now), None);
            self.recover(Recovery::Answers(node));
            self.recover(Recovery::Descriptors(node));
            if self.host(node).agent.is_none() && !self.host(node).gone {
                self.start_agent(node);
            }
        }
        self.recover(Recovery::Found);
        if self.coordinator.is_none() {
            self.start_coordinator();
        }
        for node in self.nodes() {
            self.recover(Recovery::Recommission(node));
        }
        for node in std::mem::take(&mut self.declared) {
            self.coordinator_input(Input::Operator(Command::ReturnNode(node)));
        }
        self.end_intents();
        self.paused = false;
        self.coordinator_input(Input::Operator(Command::Resume));
        self.coordinator_input(Input::Throttle(Box::default()));
        let writing: Vec<StripeId> = self.writing.iter().copied().collect();
        writing.into_iter().for_each(|stripe| self.recover(Recovery::PutEnds(stripe)));
        // Sessions that broke silently are noticed and made anew.
        self.nodes().for_each(|node| self.connect_soon(node));
    }

    /// Reads every chunk of every stripe as a client would, and reports what cannot be read.
    pub fn read_everything(&mut self) {
        let stripes: Vec<Stripe> = self.metadata.stripes.values().cloned().collect();
        for stripe in stripes {
            for chunk in stripe.indices() {
                let Some(CopyAt { node, copy }) = stripe.copy(chunk) else { continue };
                let digest = stripe.record(chunk).digest();
                if short::check(&self.host(node).disk, copy, digest).is_err() {
                    self.coordinator_input(Input::ChunkSuspected { node, copy });
                }
            }
        }
    }

    pub(crate) fn inject(&mut self, fault: Fault) {
        self.note(|| format!("fault {fault:?}"));
        match fault {
            Fault::Crash { back_after, wipe } => self.crash(back_after, wipe),
            Fault::Burst(span) => self.burst(span),
            Fault::Gone => self.lose_node(),
            Fault::CoordinatorCrash(span) => {
                if self.coordinator.take().is_some() {
                    self.asleep = None;
                    self.coverage.count(Kind::CoordinatorCrash);
                    self.later(span, Event::Recovery(Recovery::Coordinator));
                }
            }
            Fault::CoordinatorSleep(span) => self.put_to_sleep(span),
            Fault::ClockLeap(span) => self.leap(span),
            Fault::ClockSet { by, back } => self.set_day(by, back),
            Fault::Partition(span) => self.partition(span),
            Fault::CutOff(span) => self.cut_off(span),
            Fault::Vanish(span) => self.vanish(span),
            Fault::DeadLink(span) => self.kill_link(span),
            Fault::SessionBreak => self.break_session(),
            Fault::Flip | Fault::Tear | Fault::Replace => self.damage(fault),
            Fault::OperatorFail(span) => self.declare_failed(span),
            Fault::OperatorPause(span) => {
                self.coverage.count(Kind::OperatorPause);
                let cancel = self.random.per_mille(500);
                // The window is closed for twice as long.
                self.disturb_all(span.times(2));
                self.paused = true;
                let command = if cancel { Command::Cancel } else { Command::Pause };
                self.coordinator_input(Input::Operator(command));
                self.throttle_by(span);
                self.later(span, Event::Recovery(Recovery::Resume));
            }
            Fault::Scrub => {
                self.coverage.count(Kind::OperatorScrub);
                self.coordinator_input(Input::Operator(Command::Scrub));
            }
            Fault::Move(span) => self.move_node(span),
            Fault::BadMemory(span) => {
                let node = self.any_node();
                self.hosts[node.index()].has_bad_memory = true;
                self.disturb(node, span);
                self.later(span, Event::Recovery(Recovery::Memory(node)));
            }
            Fault::Full(span)
            | Fault::Unreadable(span)
            | Fault::DiskErrors(span)
            | Fault::NoDescriptors(span) => self.fault_disk(fault, span),
            Fault::Hang(span) => self.hang_disk(span),
            Fault::Backup => self.back_up(),
            Fault::Restore(span) => self.return_to_backup(span),
            Fault::LoseMetadata(span) => self.lose_metadata(span),
            Fault::Impostor(span) => self.begin_impostor(span),
            Fault::Drain(span) => self.drain(span),
            Fault::Rest(span) => self.rest(span),
            Fault::Put => self.put(),
            Fault::Remove => self.remove(),
        }
    }

    pub(crate) fn recover(&mut self, recovery: Recovery) {
        self.note(|| format!("recovery {recovery:?}"));
        match recovery {
            Recovery::Agent(node) => {
                if self.host(node).agent.is_none() && !self.host(node).gone {
                    self.coverage.count(Kind::AgentRestart);
                    if self.coordinator.as_ref().is_some_and(|c| c.health(node) == Health::Failed) {
                        self.coverage.count(Kind::NodeReturn);
                    }
                    self.start_agent(node);
                }
            }
            Recovery::Coordinator => {
                if self.coordinator.is_none() {
                    self.coverage.count(Kind::CoordinatorRestart);
                    self.start_coordinator();
                }
            }
            Recovery::Awake if self.has_slept() => self.wake_up(),
            // Another coordinator than the one that fell asleep, or another sleep.
            Recovery::Awake => {}
            Recovery::Heal(a, b) => drop(self.partitions.remove(&(a, b))),
            Recovery::Reads(node) => self.host(node).disk.set_unreadable(false),
            Recovery::Errors(node) => self.host(node).disk.set_errors(None),
            Recovery::Answers(node) => self.end_hang(node),
            Recovery::Descriptors(node) => self.host(node).disk.set_out_of_descriptors(false),
            Recovery::Memory(node) => self.hosts[node.index()].has_bad_memory = false,
            Recovery::Capacity(node) => {
                self.host(node).disk.set_capacity(self.options.disk_bytes);
            }
            Recovery::Return(node) => {
                if self.declared.remove(&node) {
                    self.coordinator_input(Input::Operator(Command::ReturnNode(node)));
                }
            }
            Recovery::Resume => {
                self.paused = false;
                self.coordinator_input(Input::Operator(Command::Resume));
            }
            Recovery::PutEnds(stripe) => self.end_put(stripe),
            Recovery::Watch(node, incarnation) => {
                let host = self.host(node);
                if host.agent.is_none() && host.incarnation == incarnation {
                    self.coverage.count(Kind::DeclaredDead);
                    self.keeper_sees(node, NodeState::Dead);
                }
            }
            Recovery::Found => self.find_metadata(),
            Recovery::Replace(node) => self.replace_node(node),
            Recovery::Keep(node) => self.end_drain(node),
            Recovery::Impostor(impostor) => self.join_impostor(impostor),
            Recovery::Recommission(node) => {
                if self.metadata.node_state(node) == NodeState::Decommissioning {
                    self.keeper_sees(node, NodeState::Up);
                }
            }
        }
    }

    /// The operator declares a node failed, or the keeper empties one.
    fn declare_failed(&mut self, span: Span) {
        let node = self.any_node();
        if self.options.liveness == Liveness::Keeper && self.random.per_mille(500) {
            return self.decommission(node, span);
        }
        self.coverage.count(Kind::OperatorFail);
        self.disturb(node, span);
        self.declared.insert(node);
        self.draining.remove(&node);
        self.paused_nodes.remove(&node);
        self.coordinator_input(Input::Operator(Command::FailNode(node)));
        self.later(span, Event::Recovery(Recovery::Return(node)));
    }

    fn decommission(&mut self, node: NodeId, span: Span) {
        if self.metadata.node_state(node) == NodeState::Up {
            self.coverage.count(Kind::Decommission);
            self.disturb(node, span);
            self.keeper_sees(node, NodeState::Decommissioning);
            self.later(span, Event::Recovery(Recovery::Recommission(node)));
        }
    }

    fn any_node(&mut self) -> NodeId {
        NodeId(self.random.index(self.hosts.len()) as u32)
    }

    fn crash(&mut self, back_after: Span, wipe: bool) {
        let node = self.any_node();
        if self.host(node).agent.is_none() {
            return;
        }
        self.coverage.count(Kind::AgentCrash);
        if wipe && self.can_spare(|at| at.node == node) {
            self.coverage.count(Kind::DiskWipe);
            self.wipe(node);
        }
        self.crash_for(node, back_after);
    }

    /// An agent ends without a word, and starts again later.
    pub(crate) fn crash_for(&mut self, node: NodeId, back_after: Span) {
        self.stop_agent(node);
        self.later(back_after, Event::Recovery(Recovery::Agent(node)));
    }

    /// The node has an empty disk, and its operator knows that.
    fn wipe(&mut self, node: NodeId) {
        let store = self.new_store();
        let host = &mut self.hosts[node.index()];
        host.disk.wipe();
        (host.store, host.is_new, host.followed) = (store, true, 0);
    }

    fn lose_node(&mut self) {
        let node = self.any_node();
        let left = self.hosts.iter().filter(|host| !host.gone).count();
        // Every chunk of a stripe needs a node of its own.
        if left <= self.options.code.chunk_count() || !self.can_spare(|at| at.node == node) {
            return;
        }
        self.coverage.count(Kind::AgentGone);
        self.stop_agent(node);
        let host = &mut self.hosts[node.index()];
        host.gone = true;
        host.disk.wipe();
    }

    /// A node is moved to another rack while its agent is down.
    fn move_node(&mut self, back_after: Span) {
        let (node, racks) = (self.any_node(), self.options.racks);
        if racks < 2 || self.host(node).agent.is_none() {
            return;
        }
        self.coverage.count(Kind::RackMove);
        let by = 1 + self.random.below(racks - 1);
        self.racks.move_node(node, by, racks);
        self.crash_for(node, back_after);
    }

    /// The keeper takes a node for dead that has been down for a while.
    fn watch_stopped(&mut self, node: NodeId) {
        if self.options.liveness == Liveness::Keeper {
            let watch = Recovery::Watch(node, self.host(node).incarnation);
            self.later(DEAD_AFTER, Event::Recovery(watch));
        }
    }

    fn stop_agent(&mut self, node: NodeId) {
        let start = self.starts;
        self.disturb(node, Span::ZERO);
        self.watch_stopped(node);
        if self.hosts[node.index()].agent.take().is_some() && self.random.per_mille(700) {
            let after = Span { ns: self.random.between(1_000_000, 20_000_000) };
            self.later(after, Event::Lost { node, start });
        }
    }

    fn partition(&mut self, span: Span) {
        let a = Party::Agent(self.any_node());
        let b = if self.random.per_mille(400) {
            Party::Coordinator
        } else {
            Party::Agent(self.any_node())
        };
        if a != b {
            self.coverage.count(Kind::Partition);
            for party in [a, b] {
                if let Party::Agent(node) = party {
                    self.disturb(node, span);
                }
            }
            let (a, b) = (a.min(b), a.max(b));
            self.partitions.insert((a, b));
            self.later(span, Event::Recovery(Recovery::Heal(a, b)));
        }
    }

    /// No other agent receives anything from a node, or the node from it.
    fn cut_off(&mut self, span: Span) {
        let node = self.any_node();
        // For the others only what goes through it is.
        self.disturb(node, span);
        for other in self.nodes().filter(|other| *other != node) {
            let (a, b) = (Party::Agent(node.min(other)), Party::Agent(node.max(other)));
            self.partitions.insert((a, b));
            self.later(span, Event::Recovery(Recovery::Heal(a, b)));
        }
    }

    fn break_session(&mut self) {
        let node = self.any_node();
        self.coverage.count(Kind::SessionBreak);
        self.disturb(node, Span::ZERO);
        self.agent_input(node, suture_repair::agent::AgentInput::Disconnected);
        self.coordinator_input(Input::AgentLost(node));
        self.connect_soon(node);
    }

    fn damage(&mut self, fault: Fault) {
        let node = self.any_node();
        let copies = self.host(node).disk.copies();
        if copies.is_empty() {
            return;
        }
        let copy = *self.random.choose(&copies);
        if !self.can_spare(|at| at == copy.at(node)) {
            return;
        }
        self.disturb(node, Span::ZERO);
        let place = self.random.next_u64();
        let disk = self.host(node).disk.clone();
        match fault {
            Fault::Tear => {
                self.coverage.count(Kind::TornChunk);
                disk.tear(copy, place);
            }
            Fault::Replace => {
                self.coverage.count(Kind::ReplacedChunk);
                disk.replace(copy, place);
            }
            _ => {
                self.coverage.count(Kind::CorruptChunk);
                disk.flip(copy, place);
            }
        }
    }

    /// Whether every stripe keeps enough good chunks where the metadata points when the named
    /// copies are gone. A seed may allow the worst.
    fn can_spare(&self, gone: impl Fn(CopyAt) -> bool) -> bool {
        let spared = |stripe: &Stripe| {
            let good: Vec<ChunkIndex> =
                stripe.indices().filter(|&chunk| self.is_good(stripe, chunk)).collect();
            let stays = |chunk: &ChunkIndex| stripe.copy(*chunk).is_none_or(|at| !gone(at));
            let kept: Vec<ChunkIndex> = good.iter().copied().filter(stays).collect();
            kept == good || stripe.code.decodable(&kept)
        };
        // What metadata that are lost know is not seen here.
        let is_seen = self.set_aside.is_none();
        self.options.losses || is_seen && self.metadata.stripes.values().all(spared)
    }

    /// Whether the copy of a chunk that the metadata names is whole, on a node that is not gone, or
    /// the chunk is known to be zero and needs none.
    pub(crate) fn is_good(&self, stripe: &Stripe, chunk: ChunkIndex) -> bool {
        if stripe.record(chunk).is_known_zero() {
            return true;
        }
        stripe.copy(chunk).is_some_and(|CopyAt { node, copy }| {
            let host = self.host(node);
            !host.gone
                && host.disk.query(copy, |stored| {
                    stored.is_good() && stored.bytes() == self.metadata.original(stripe.id, chunk)
                }) == Some(true)
        })
    }

    /// Writes a stripe as a put does: chunks first, visible later, or never.
    fn put(&mut self) {
        let code = self.options.code;
        let mut on: Vec<NodeId> =
            self.nodes().filter(|node| self.host(*node).agent.is_some()).collect();
        if on.len() < code.chunk_count() || self.coordinator.is_none() {
            return;
        }
        self.coverage.count(Kind::Put);
        self.random.shuffle(&mut on);
        on.truncate(code.chunk_count());
        let bytes = 64 * self.random.between(1, 256);
        let bytes = bytes.next_multiple_of(code.alignment() as u64);
        if self.options.racks > 0 {
            on = self.place_now(bytes);
        }
        if on.len() < code.chunk_count() {
            return;
        }
        let stripe = self.metadata.write(&mut self.random, code, bytes, &on);
        self.writing.insert(stripe.id);
        self.announce_reserved();
        self.store(&stripe);
        let stripe_id = stripe.id;
        self.unfinished.insert(stripe_id, stripe);
        let after = Span::from_millis(self.random.between(5, 400));
        self.later(after, Event::Recovery(Recovery::PutEnds(stripe_id)));
    }

    /// The operator who pauses lets repair take less, too; how much follows from the span, so that
    /// nothing else is drawn otherwise for it. One who pauses for an odd time closes the window.
    fn throttle_by(&mut self, span: Span) {
        let milliseconds = span.ns / 1_000_000;
        let cap = 20_000 + milliseconds * 100;
        let mut config = ThrottleConfig { node: Some(cap), ..ThrottleConfig::default() };
        config.keep = milliseconds.is_multiple_of(3).then_some(Keep::Percent(50));
        config.total = milliseconds.is_multiple_of(4).then_some(2 * cap);
        self.coordinator_input(Input::Throttle(Box::new(config)));
        let until = (milliseconds % 2 == 1).then(|| self.clock() + span.times(2));
        self.coordinator_input(Input::WindowClosed(until));
    }

    /// The nodes of a new stripe before the first coordinator starts.
    pub(crate) fn place_at_first(&mut self, chunk_bytes: u64) -> Vec<NodeId> {
        let free_bytes = self.options.disk_bytes;
        let status = |node| {
            let chunks = self.host(node).disk.copies().len() as u64;
            NodeStatus {
                node,
                health: Health::Up,
                intent: NodeIntent::Serving,
                free_bytes,
                disk: DiskState::Good,
                is_cut_off: false,
                chunks,
                limits: Default::default(),
                links: Default::default(),
            }
        };
        let nodes: Vec<NodeStatus> = self.nodes().map(status).collect();
        self.place(&nodes, chunk_bytes)
    }

    /// The nodes of a new stripe by what the coordinator knows, of those whose agents answer.
    fn place_now(&mut self, chunk_bytes: u64) -> Vec<NodeId> {
        let known = self.coordinator.iter().flat_map(|coordinator| coordinator.status().nodes);
        let answers = |status: &NodeStatus| self.host(status.node).agent.is_some();
        let nodes: Vec<NodeStatus> = known.filter(answers).collect();
        self.place(&nodes, chunk_bytes)
    }

    fn place(&mut self, nodes: &[NodeStatus], chunk_bytes: u64) -> Vec<NodeId> {
        let width = self.options.code.chunk_count();
        let stripes = [StripeId(self.metadata.next_stripe)];
        let wanted = Wanted { stripes: &stripes, width, chunk_bytes, ..Wanted::default() };
        let cluster = self.placement_cluster();
        let (placed, is_even) = self.racks.place(&cluster, nodes, &wanted);
        if placed.len() == width && !is_even {
            self.fail(Violation::RackOverPlaced { nodes: placed.clone() });
        }
        placed
    }

    /// The cluster that placement is given.
    fn placement_cluster(&self) -> Cluster {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::PlaceAnywhere) {
            return Cluster::uniform(self.hosts.len(), Rate(1e8));
        }
        self.racks.cluster(self.hosts.len())
    }

    /// Puts the chunks of a stripe on the disks where it says they are.
    pub(crate) fn store(&mut self, stripe: &Stripe) {
        stripe.indices().for_each(|chunk| self.write_copy(stripe, chunk));
    }

    /// Puts one chunk on its node's disk.
    pub fn write_copy(&mut self, stripe: &Stripe, chunk: ChunkIndex) {
        if let Some(CopyAt { node, copy }) = stripe.copy(chunk) {
            let bytes = self.metadata.original(stripe.id, chunk).to_vec();
            self.host(node).disk.put(copy, bytes);
        }
    }

    fn end_put(&mut self, id: StripeId) {
        let Some(mut stripe) = self.unfinished.remove(&id) else { return };
        let alive = self.writing.remove(&id) && self.coordinator.is_some();
        if alive && self.random.per_mille(800) {
            // One chunk may have failed to reach its node; k+1 others did.
            let spare = stripe.code.parity_chunks() > 1;
            if spare && self.random.per_mille(200) {
                let chunk = self.random.index(stripe.chunks.len());
                let record = &mut stripe.chunks[chunk];
                let (chunk, stamp) = (ChunkIndex(chunk as u8), record.stamp);
                if let Some(node) = record.node.take() {
                    self.host(node).disk.remove(ChunkCopy { stripe: id, chunk, stamp });
                }
            }
            self.metadata.publish(stripe.clone());
            self.coordinator_input(Input::StripeAdded(stripe));
        }
        self.announce_reserved();
    }

    fn remove(&mut self) {
        let ids: Vec<StripeId> = self.metadata.stripes.keys().copied().collect();
        if ids.len() < 2 {
            return;
        }
        let repaired: BTreeSet<StripeId> = self
            .coordinator
            .iter()
            .flat_map(|c| c.status().running)
            .map(|running| running.stripe)
            .collect();
        // Preferably one that is being repaired: that is the hard case.
        let id = match repaired.iter().find(|id| ids.contains(id)) {
            Some(id) => *id,
            None => *self.random.choose(&ids),
        };
        self.coverage.count(Kind::Remove);
        self.metadata.remove(id);
        self.metadata.changes();
        self.coordinator_input(Input::StripeRemoved(id));
    }
}
