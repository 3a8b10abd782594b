//! Machines that vanish, and links that carry nothing for a while.
//!
//! Place: beside ... dispatch -> [slices flow] -> chunk proven and durable -> ...
//! A process that dies has its connections ended by its system, and its peers are notified. A
//! machine without power sends nothing, nor does one behind a link at zero: what was sent to it is
//! on its way, as its sender sees it, and comes when the link is back, or never.

use suture_repair::id::NodeId;
use suture_repair::time::{Span, Time};

use super::Recovery;
use crate::fault::Kind;
use crate::world::{Event, World};

impl World {
    /// A machine loses its power, and begins anew after the span.
    pub(super) fn vanish(&mut self, back_after: Span) {
        let node = self.any_node();
        if self.host(node).agent.is_some() {
            self.vanish_for(node, back_after);
        }
    }

    /// This machine loses its power: no peer is notified of it.
    pub(crate) fn vanish_for(&mut self, node: NodeId, back_after: Span) {
        self.coverage.count(Kind::Vanish);
        self.disturb(node, back_after);
        self.watch_stopped(node);
        let host = &mut self.hosts[node.index()];
        (host.agent, host.has_vanished) = (None, true);
        self.later(back_after, Event::Recovery(Recovery::Agent(node)));
    }

    /// A node's link carries nothing for the span.
    pub(super) fn kill_link(&mut self, span: Span) {
        let node = self.any_node();
        self.kill_link_of(node, span);
    }

    /// This node's link carries nothing for the span.
    pub(crate) fn kill_link_of(&mut self, node: NodeId, span: Span) {
        self.coverage.count(Kind::DeadLink);
        self.disturb(node, span);
        let back = self.now + span;
        let known = &mut self.hosts[node.index()].link_back;
        *known = known.map_or(Some(back), |known| Some(known.max(back)));
    }

    /// Whether a node's link carries nothing now.
    pub(crate) fn is_link_dead(&self, node: NodeId) -> bool {
        self.host(node).link_back.is_some_and(|back| back > self.now)
    }

    /// When the links are back that a message needs, where they carry nothing now.
    pub(crate) fn held_until(&self, event: &Event) -> Option<Time> {
        let ends = match event {
            Event::ToAgent { to, .. } => [Some(*to), None],
            Event::ToCoordinator { from, .. } => [Some(*from), None],
            Event::Grant { from, to, .. } | Event::Slice { from, to, .. } => {
                [Some(*from), Some(*to)]
            }
            _ => return None,
        };
        let dead = ends.into_iter().flatten().filter(|node| self.is_link_dead(*node));
        dead.filter_map(|node| self.host(node).link_back).max()
    }
}

#[cfg(test)]
mod tests {
    use suture_repair::event::{Command, Health, Input, Liveness};
    use suture_repair::id::{ChunkIndex, RepairId};
    use suture_repair::random::Random;

    use super::*;
    use crate::disk::Safeguards;
    use crate::world::Options;

    const NODES: u32 = 8;
    const CHUNK_BYTES: u64 = 1 << 20;

    /// A step: a few slices.
    const STEP: Span = Span { ns: 100_000 };

    /// A cluster in which the first chunk of one stripe has been lost.
    fn cluster(seed: u64, policy: &str) -> World {
        let mut world = World::new(Options {
            seed,
            nodes: NODES as usize,
            code: "rs(4,2)".parse().expect("a code"),
            policy: policy.parse().expect("a policy"),
            pool_bytes: 16 << 20,
            disk_bytes: 64 << 20,
            losses: false,
            claims: false,
            racks: 0,
            unrecorded: false,
            odd: false,
            liveness: Liveness::Own,
            scrubs: false,
            rebalances: false,
            safeguards: Safeguards::ALL,
        });
        let on: Vec<NodeId> = (0..6).map(NodeId).collect();
        let code = world.options.code;
        let stripe = world.metadata.write(&mut Random::new(seed), code, CHUNK_BYTES, &on);
        world.store(&stripe);
        world.metadata.publish(stripe);
        world.start_coordinator();
        world.run(Time::ZERO + Span::from_millis(300));
        world.coordinator_input(Input::Operator(Command::FailNode(NodeId(0))));
        world
    }

    /// The repair of the first chunk as its destination sees it: which, where, and how far it is.
    fn repair(world: &World) -> Option<(RepairId, NodeId, u64)> {
        let running = world.coordinator()?.status().running;
        let line = running.iter().find(|line| line.chunk == ChunkIndex(0))?;
        let here = world.status(line.destination).running;
        let (_, bytes) = here.into_iter().find(|(id, _)| *id == line.repair)?;
        Some((line.repair, line.destination, bytes))
    }

    /// The nodes that help with a repair now.
    fn helpers(world: &World, repair: RepairId, destination: NodeId) -> Vec<NodeId> {
        let has = |node: &NodeId| {
            let running = world.status(*node).running;
            *node != destination && running.iter().any(|(id, _)| *id == repair)
        };
        world.nodes().filter(has).collect()
    }

    /// In the middle of slices a helper can be reached no more. Returns whether its repair went on
    /// without it.
    fn goes_on(seed: u64, policy: &str, strike: fn(&mut World, NodeId)) -> bool {
        let name = format!("seed {seed}, {policy}");
        let mut world = cluster(seed, policy);
        let wanted = seed % 10 * CHUNK_BYTES / 12;
        let (old, destination) = loop {
            world.run(world.now + STEP);
            assert!(world.now < Time::ZERO + Span::from_secs(2), "{name}: nothing came");
            match repair(&world) {
                Some((id, to, bytes)) if bytes > wanted => break (id, to),
                _ => {}
            }
        };
        let Some(&helper) = helpers(&world, old, destination).first() else { return false };
        strike(&mut world, helper);
        let struck = world.now;
        let (mut come, mut went_on) = (0, false);
        while world.published_count() == 0 {
            if let Some((id, to, bytes)) = repair(&world) {
                assert_eq!(to, destination, "{name}");
                assert!(bytes >= come, "{name}: {come} bytes had come, {bytes} count");
                (come, went_on) = (bytes, went_on || id != old);
            }
            let took = world.now.since(struck);
            assert!(took < Span::from_millis(400), "{name}: it waits for {helper}");
            world.run(world.now + STEP);
        }
        let health = world.coordinator().expect("it runs").health(helper);
        assert_ne!(health, Health::Failed, "{name}: that takes 900 ms");
        world.run(world.now + Span::from_secs(15));
        assert_eq!(world.violation, None, "{name}");
        assert_eq!(world.unfinished_count(helper), 0, "{name}: it is swept");
        went_on
    }

    /// Of many repairs those go on that still wanted something of the helper.
    fn go_on(strike: fn(&mut World, NodeId)) {
        let policies = ["chain/greedy/all", "star/greedy/all", "ppr/greedy/all"];
        let cases = policies.iter().flat_map(|policy| (0..8).map(move |seed| (seed, policy)));
        let went_on = cases.filter(|(seed, policy)| goes_on(*seed, policy, strike)).count();
        assert!(went_on >= 12, "{went_on}");
    }

    #[test]
    fn a_machine_that_vanishes_among_slices_is_done_without_before_it_counts_as_dead() {
        go_on(|world, node| world.vanish_for(node, Span::from_secs(9)));
    }

    #[test]
    fn a_link_at_zero_for_ten_seconds_holds_up_no_repair() {
        go_on(|world, node| world.kill_link_of(node, Span::from_secs(10)));
    }
}
