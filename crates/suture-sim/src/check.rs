//! The independent checkers: what must hold at every moment, judged from the bytes and the
//! metadata.
//!
//! Place: beside the whole life of a repair. They know what the state machines cannot: every
//! chunk's original bytes. They rely on nothing that coordinator or agents report, and call
//! `assert_all_invariants` of both after each event.

use std::collections::BTreeSet;

use suture_repair::chunk_store::ChunkStore;
use suture_repair::event::{Commit, Health, Output, Report};
use suture_repair::id::{ChunkCopy, ChunkIndex, CopyAt, NodeId};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, RepairLimit, ToAgent};
use suture_repair::stripe::Stripe;

use crate::disk::Disk;
use crate::fault::Kind;
use crate::metadata::label_of;
use crate::violation::Violation;
use crate::world::World;

impl World {
    pub(crate) fn check_published(&mut self, node: NodeId, copy: ChunkCopy) {
        let version = self.host(node).disk.query(copy, |stored| {
            self.metadata.version_with(copy.stripe, copy.chunk, stored.bytes())
        });
        match version.flatten() {
            Some(version) => drop(self.published.insert(CopyAt { node, copy }, version)),
            None => self.fail(Violation::WrongBytes { node, copy }),
        }
        let label = if self.options.claims { label_of(copy.stripe) } else { Label::default() };
        if self.host(node).disk.query(copy, |stored| stored.label == label) != Some(true) {
            self.fail(Violation::WrongLabel { node, copy });
        }
    }

    /// A deletion must leave the chunk a location: another copy that was properly written there.
    /// What older metadata do not know was stored all the same: none of its copies is deleted.
    /// Faults may have damaged that one since; that would be their doing.
    pub(crate) fn check_delete(&mut self, node: NodeId, copy: ChunkCopy) {
        let visible = self.metadata.stripes.get(&copy.stripe);
        let writing =
            self.unfinished.contains_key(&copy.stripe) && self.writing.contains(&copy.stripe);
        let location = visible.and_then(|stripe| stripe.copy(copy.chunk));
        let is_last = match (visible, location) {
            (None, _) => writing,
            (Some(_), None) => true,
            (Some(_), Some(location)) => location == copy.at(node),
        };
        let version = self.version_written(node, copy);
        let is_forgotten = version.is_some_and(|v| self.metadata.is_forgotten(copy.stripe, v));
        if (is_last || is_forgotten) && self.host(node).disk.holds(copy) {
            self.fail(Violation::LastCopyDeleted { node, copy });
        }
    }

    pub(crate) fn check_commit(&mut self, commit: &Commit) {
        let Some(stripe) = self.metadata.stripes.get(&commit.copy.stripe) else { return };
        if self.metadata.is_superseded(commit.repair) {
            return;
        }
        let stale = stripe.generation != commit.generation;
        let generation = stripe.generation.0;
        let version = self.version_written(commit.node, commit.copy);
        let is_written = version.is_some_and(|v| self.metadata.is_of_version(commit.copy, v));
        if stale {
            if !self.options.safeguards.compare_and_set {
                self.fail(Violation::StaleCommit { commit: *commit, generation });
            }
        } else if !is_written {
            self.fail(Violation::PhantomCommit(*commit));
        }
    }

    /// The version of its stripe that the copy is of, if it was properly written there: by a put,
    /// by a repair, or by a repair that the checker did not see.
    fn version_written(&self, node: NodeId, copy: ChunkCopy) -> Option<u64> {
        let of_put = self.metadata.version_put(copy);
        let version = of_put.or_else(|| self.published.get(&CopyAt { node, copy }).copied());
        version.or_else(|| self.left_over.get(&CopyAt { node, copy }).copied())
    }

    pub(crate) fn check_agent(&mut self, node: NodeId) {
        if let Some(agent) = &self.host(node).agent {
            agent.assert_all_invariants();
        }
        let status = self.status(node);
        let (held, pool) = (self.held_bytes(node), self.options.pool_bytes);
        if held > status.reserved_bytes || status.reserved_bytes > pool {
            let reserved = status.reserved_bytes;
            self.fail(Violation::Memory { node, held, reserved, pool });
        }
    }

    /// A coordinator that has just started knows what the one before knew of copies.
    pub(crate) fn check_recalled(&mut self) {
        let Some(coordinator) = &self.coordinator else { return };
        let forgotten = self.faulty.keys().find(|at| {
            let (id, chunk) = (at.copy.stripe, at.copy.chunk);
            let location = coordinator.stripes().get(id).and_then(|stripe| stripe.copy(chunk));
            location == Some(**at) && !coordinator.is_lost(id, chunk)
        });
        if let Some(CopyAt { node, copy }) = forgotten.copied() {
            self.fail(Violation::Forgotten { node, copy });
        }
    }

    pub(crate) fn check_coordinator(&mut self) {
        let Some(coordinator) = &self.coordinator else { return };
        coordinator.assert_all_invariants();
        let mut stripes = BTreeSet::new();
        let twice = coordinator.running().find(|stripe| !stripes.insert(*stripe));
        let imagined = coordinator.stripes().iter().find(|known| self.is_imagined(known));
        let imagined = imagined.map(|stripe| Violation::Imagined(stripe.id));
        let broken = twice.map(Violation::TwoRepairs).or(imagined);
        broken.into_iter().for_each(|broken| self.fail(broken));
    }

    /// Looks at what the coordinator begins: repairs keep the rule of racks, as far as what the
    /// coordinator knows is known here. A disk that was full counts as full until its agent reports
    /// otherwise.
    pub(crate) fn check_begun(&mut self, output: &Output) {
        if self.options.racks < 2 || self.coverage.of(Kind::FullDisk) > 0 {
            return;
        }
        let Some(coordinator) = &self.coordinator else { return };
        if matches!(output, Output::Report(Report::Node { .. })) {
            self.racks.health_changed(&coordinator.status().nodes);
        }
        let Some((id, to)) = self.racks.watch(output) else { return };
        let Some(stripe) = coordinator.stripes().get(id) else { return };
        let is_kept = |chunk: &ChunkIndex| !coordinator.is_lost(id, *chunk);
        let kept = stripe.indices().filter(is_kept).filter(|chunk| !to.contains_key(chunk));
        let kept = kept.filter_map(|chunk| stripe.copy(chunk));
        let can_take = |node: &NodeId| {
            let is_up = coordinator.health(*node) == Health::Up;
            is_up && self.racks.is_usable(*node) && stripe.chunk_on(*node).is_none()
        };
        let free = self.nodes().filter(can_take);
        let tolerance = stripe.code.loss_tolerance();
        if self.racks.is_overfull(tolerance, kept.map(|at| at.node), free, to) {
            self.fail(Violation::RackOverfull(id));
        }
    }

    /// No node is sent a limit of repair above what the operator allows.
    pub(crate) fn check_limit(&mut self, output: &Output) {
        let Output::Send { to, message: ToAgent::Limit(RepairLimit { up, down }) } = output else {
            return;
        };
        let caps = [self.throttle.node, self.throttle.total].into_iter().flatten();
        let Some(cap) = caps.min() else { return };
        if [up, down].iter().any(|limit| limit.is_none_or(|limit| limit > cap)) {
            self.fail(Violation::AboveCap(*to));
        }
    }

    /// The node's own disk, though an impostor may have brought another one.
    fn disk_of(&self, node: NodeId) -> &Disk {
        let host = self.host(node);
        host.disk_of_node.as_ref().unwrap_or(&host.disk)
    }

    /// What the operator wants of nodes is heeded: those that are emptied or may be silent are
    /// given nothing but the end of what they have a part of, and silence is no reason to give the
    /// latter up.
    pub(crate) fn check_intents(&mut self, output: &Output) {
        let may_be_silent =
            |node: &NodeId| self.paused_nodes.get(node).is_some_and(|pause| self.now < pause.until);
        let violation = match output {
            Output::Report(Report::Node { node, health: Health::Failed, .. })
                if may_be_silent(node) =>
            {
                Some(Violation::NotWaitedFor(*node))
            }
            Output::Send { message: ToAgent::Dispatch(task), .. }
                if !self.replacing.contains(&task.repair) =>
            {
                let is_unwanted =
                    |node: &&NodeId| self.draining.contains(node) || may_be_silent(node);
                let mut destinations = task.plan.destinations.values();
                destinations.find(is_unwanted).map(|node| Violation::GivenMore(*node))
            }
            _ => None,
        };
        violation.into_iter().for_each(|violation| self.fail(violation));
    }

    /// A node that is emptied and keeps a chunk of a stripe that lacks nothing.
    fn undrained(&self) -> Option<Violation> {
        let coordinator = self.coordinator.as_ref()?;
        let emptied = self.draining.iter().filter(|node| self.host(**node).agent.is_some());
        let mut kept = emptied.flat_map(|node| {
            let stripes = self.metadata.stripes.values();
            let kept = stripes.filter(|stripe| stripe.chunk_on(*node).is_some());
            kept.map(|stripe| (*node, stripe))
        });
        let is_whole = |stripe: &Stripe| {
            let is_good = |chunk| self.is_good(stripe, chunk);
            stripe.indices().all(is_good) && self.can_move(stripe)
        };
        let (node, stripe) = kept.find(|(_, stripe)| is_whole(stripe))?;
        let status = coordinator.status();
        let blocked = status.blocked.iter().find(|(id, _)| *id == stripe.id);
        let running = status.running.iter().any(|running| running.stripe == stripe.id);
        let status = format!("blocked {blocked:?}, running {running}");
        Some(Violation::NotDrained { node, stripe: stripe.id, status })
    }

    /// Whether some node could take another chunk of the stripe.
    fn can_move(&self, stripe: &Stripe) -> bool {
        self.nodes().any(|node| {
            let host = self.host(node);
            let serves = host.agent.is_some() && !self.draining.contains(&node);
            serves
                && stripe.chunk_on(node).is_none()
                && host.disk.capacity_left() > stripe.chunk_bytes
        })
    }

    /// What counts as missing must not be there, since nothing brings a copy back that was given
    /// up; and no planner panics.
    pub(crate) fn check_report(&mut self, report: &Report) {
        match report {
            Report::ChunkLost { node, copy, fault: CopyFault::Missing }
                if self.disk_of(*node).holds(*copy) =>
            {
                self.fail(Violation::NotMissing { node: *node, copy: *copy });
            }
            // The coordinator goes on; the planner has a mistake.
            Report::PlannerPanicked { message } => self.fail(Violation::Panic(message.clone())),
            _ => {}
        }
    }

    /// Whether a stripe is other than it is, or was, in the metadata.
    fn is_imagined(&self, known: &Stripe) -> bool {
        self.metadata.stripes.get(&known.id).is_some_and(|stripe| {
            known.generation > stripe.generation
                || (known.generation == stripe.generation && known != stripe)
        })
    }

    /// What is still wrong when all faults are over; nothing when the cluster is well.
    pub fn unwell(&self) -> Option<Violation> {
        let stripes = self.metadata.stripes.values();
        let unwell = stripes.filter_map(|stripe| self.unwell_stripe(stripe)).next();
        unwell.or_else(|| self.undrained()).or_else(|| self.leftover())
    }

    fn unwell_stripe(&self, stripe: &Stripe) -> Option<Violation> {
        let bad: Vec<ChunkIndex> =
            stripe.indices().filter(|chunk| !self.is_good(stripe, *chunk)).collect();
        if bad.is_empty() {
            return None;
        }
        let status = self.coordinator.as_ref()?.status();
        let blocked = status.blocked.iter().find(|(id, _)| *id == stripe.id);
        if self.can_repair_some(stripe, &bad) {
            let running = status.running.iter().any(|running| running.stripe == stripe.id);
            let status = format!("blocked {blocked:?}, running {running}");
            return Some(Violation::NotHealthy { stripe: stripe.id, chunks: bad, status });
        }
        let reported = blocked.is_some_and(|(_, why)| why.is_unrepairable());
        (!reported).then_some(Violation::NotReported(stripe.id))
    }

    fn leftover(&self) -> Option<Violation> {
        for node in self.nodes() {
            let Some(agent) = &self.host(node).agent else { continue };
            let status = agent.status();
            let unfinished = self.unfinished_count(node);
            if status.running.is_empty() && (status.reserved_bytes > 0 || unfinished > 0) {
                let reserved = status.reserved_bytes;
                return Some(Violation::Leak { node, reserved, unfinished });
            }
            for held in self.host(node).disk.list().expect("memory does not fail") {
                let copy = held.copy;
                let stripe = self.metadata.stripes.get(&copy.stripe);
                // What is left of a stripe beyond repair is never thrown away, nor what has other
                // bytes than its name says.
                let kept = stripe.is_some_and(|stripe| {
                    stripe.copy(copy.chunk) == Some(CopyAt { node, copy })
                        || self.unwell_stripe(stripe).is_some()
                        || !stripe.record(copy.chunk).digest().fits(held.digest)
                });
                let is_others = stripe.is_none() && self.metadata.is_unknown(copy.stripe);
                if !kept && !is_others && !self.beyond(stripe) {
                    return Some(Violation::Orphan { node, copy });
                }
            }
        }
        None
    }

    fn beyond(&self, stripe: Option<&Stripe>) -> bool {
        stripe.is_some_and(|stripe| {
            let good = stripe.indices().filter(|chunk| self.is_good(stripe, *chunk));
            !stripe.code.decodable(&good.collect::<Vec<_>>())
        })
    }

    /// Whether what is good determines some chunk that is not: with local groups that is possible
    /// even where the stripe as a whole is lost.
    fn can_repair_some(&self, stripe: &Stripe, bad: &[ChunkIndex]) -> bool {
        let good: Vec<ChunkIndex> = stripe.indices().filter(|chunk| !bad.contains(chunk)).collect();
        bad.iter().any(|&chunk| stripe.code.helpers_for(&[chunk], &good).is_ok())
    }
}
