//! Which nodes can be used and which are dead: silence measured against timers.
//!
//! Place: [failure noticed] -> stripes affected -> queue -> plan -> ...
//! A dead node looks like a slow one that has not answered yet. So silence counts twice: after
//! `suspect_after` a node is no longer used, after `dead_after` its chunks are lost. A broken
//! session makes a node suspect at once, because a killed process is the common case. Where the
//! keeper decides which nodes live, silence only makes a node unusable: its chunks are lost when
//! the keeper says so, and come back likewise. Invariants: what the operator or such a keeper
//! declared failed stays failed until they return it; a node is up only after its Hello.

use crate::event::{Health, Liveness, NodeState, Timers};
use crate::id::NodeId;
use crate::message::Hello;
use crate::mutant::{Mistake, Mutant};
use crate::planner::Abilities;
use crate::time::{Span, Time};

/// What the coordinator knows of one node.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    /// Whether it can be used, and whether its chunks are lost.
    pub health: Health,
    /// Its last Hello; `None` while it has sent none.
    pub hello: Option<Hello>,
    /// Room on its disk, as last heard.
    pub free_bytes: u64,
    declared: bool,
    /// As the keeper says, where it decides.
    state: NodeState,
    reported_at: Time,
}

/// Every node's health, by id.
#[derive(Clone, Debug)]
pub struct HealthTable {
    timers: Timers,
    liveness: Liveness,
    nodes: Vec<NodeHealth>,
    pub(crate) mistake: Mistake,
}

impl HealthTable {
    /// A table without nodes, with the timers by which silence counts, where it does.
    pub fn new(timers: Timers, liveness: Liveness) -> HealthTable {
        HealthTable { timers, liveness, nodes: Vec::new(), mistake: Mistake::default() }
    }

    /// Adds the next node: unknown, or failed if the operator said so before.
    pub fn add(&mut self, now: Time, declared_failed: bool) {
        let health = if declared_failed { Health::Failed } else { Health::Unknown };
        self.nodes.push(NodeHealth {
            health,
            hello: None,
            free_bytes: 0,
            declared: declared_failed,
            state: NodeState::Up,
            reported_at: now,
        });
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What is known of a node that was added.
    pub fn get(&self, node: NodeId) -> &NodeHealth {
        &self.nodes[node.index()]
    }

    /// Whether the node can be used.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes[node.index()].health == Health::Up
    }

    /// Whether the node can be used, and may be given chunks.
    pub fn takes_chunks(&self, node: NodeId) -> bool {
        self.is_up(node) && self.get(node).state == NodeState::Up
    }

    /// How many nodes can be used.
    pub fn up_count(&self) -> usize {
        self.nodes.iter().filter(|node| node.health == Health::Up).count()
    }

    /// Whether the node's chunks are lost.
    pub fn is_failed(&self, node: NodeId) -> bool {
        self.nodes[node.index()].health == Health::Failed
    }

    /// All nodes with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeHealth)> {
        self.nodes.iter().enumerate().map(|(i, node)| (NodeId(i as u32), node))
    }

    /// The node spoke. Returns the state that it left, if it changed.
    pub fn reported(&mut self, now: Time, node: NodeId) -> Option<Health> {
        let mistake = self.mistake;
        let entry = &mut self.nodes[node.index()];
        entry.reported_at = now;
        let is_kept_down = entry.is_kept_down() && !mistake.is(Mutant::ForgetDeclared);
        let is_unknown = entry.hello.is_none() && !mistake.is(Mutant::TrustUnknown);
        if is_kept_down || entry.health == Health::Up || is_unknown {
            return None;
        }
        Some(std::mem::replace(&mut entry.health, Health::Up))
    }

    /// The node introduced itself. Returns whether it is another incarnation than before.
    pub fn joined(&mut self, node: NodeId, hello: Hello) -> bool {
        let entry = &mut self.nodes[node.index()];
        entry.free_bytes = hello.free_bytes;
        let before = entry.hello.replace(hello);
        before.is_some_and(|before| before.incarnation != hello.incarnation)
    }

    /// Room on the node's disk, as just heard.
    pub fn free_bytes(&mut self, node: NodeId, bytes: u64) {
        self.nodes[node.index()].free_bytes = bytes;
    }

    /// The session broke: suspect at once, dead when the timer says so.
    pub fn session_lost(&mut self, node: NodeId) -> bool {
        let entry = &mut self.nodes[node.index()];
        let was_up = entry.health == Health::Up;
        if was_up {
            entry.health = Health::Suspect;
        }
        was_up
    }

    /// The operator declares it failed. Returns whether that is news.
    pub fn declare(&mut self, node: NodeId) -> bool {
        let entry = &mut self.nodes[node.index()];
        entry.declared = true;
        std::mem::replace(&mut entry.health, Health::Failed) != Health::Failed
    }

    /// The operator takes it back: unknown until it speaks, unless it is dead besides.
    pub fn undeclare(&mut self, now: Time, node: NodeId) -> bool {
        let entry = &mut self.nodes[node.index()];
        let was_declared = std::mem::replace(&mut entry.declared, false);
        if was_declared && !entry.is_kept_down() {
            (entry.health, entry.reported_at) = (Health::Unknown, now);
        }
        was_declared
    }

    /// The keeper says how it is. Returns whether its health has changed by that.
    pub fn set_state(&mut self, now: Time, node: NodeId, state: NodeState) -> bool {
        let entry = &mut self.nodes[node.index()];
        let was_kept_down = entry.is_kept_down();
        entry.state = state;
        if entry.is_kept_down() {
            return std::mem::replace(&mut entry.health, Health::Failed) != Health::Failed;
        }
        if was_kept_down {
            (entry.health, entry.reported_at) = (Health::Unknown, now);
        }
        was_kept_down
    }

    /// Nobody could be heard for the span that ends now: it counts as nobody's silence.
    pub fn slept(&mut self, now: Time, gap: Span) {
        for entry in &mut self.nodes {
            entry.reported_at = now.min(entry.reported_at + gap);
        }
    }

    /// Applies the timers; returns what changed, in order of the nodes.
    pub fn expire(&mut self, now: Time) -> Vec<(NodeId, Health)> {
        let (timers, liveness) = (self.timers, self.liveness);
        let mut changed = Vec::new();
        for (i, entry) in self.nodes.iter_mut().enumerate() {
            let health = due(&timers, liveness, entry, now);
            if health != entry.health {
                entry.health = health;
                changed.push((NodeId(i as u32), health));
            }
        }
        changed
    }

    /// When `expire` may next change something.
    pub fn next_deadline(&self) -> Option<Time> {
        let timers = self.timers;
        let decides = self.liveness == Liveness::Own;
        let deadline = |entry: &NodeHealth| match entry.health {
            Health::Unknown | Health::Suspect if !decides => None,
            Health::Unknown => Some(entry.reported_at + timers.start_grace),
            Health::Up => Some(entry.reported_at + timers.suspect_after),
            Health::Suspect => Some(entry.reported_at + timers.dead_after),
            Health::Failed => None,
        };
        self.nodes.iter().filter_map(deadline).min()
    }

    /// # Panics
    /// A node is not failed though declared so, or up though it has said nothing.
    pub fn assert_invariants(&self) {
        for (id, node) in self.iter() {
            let is_failed = node.health == Health::Failed;
            assert!(is_failed || !node.is_kept_down(), "health: {id} was declared failed");
            let is_said = self.liveness == Liveness::Own || node.is_kept_down();
            assert!(!is_failed || is_said, "health: {id} is failed by nobody's word");
            let is_up = node.health == Health::Up;
            assert!(!is_up || node.hello.is_some(), "health: {id} is up and never said Hello");
        }
    }

    /// What every usable node can execute; nothing when none is up.
    pub fn abilities(&self) -> Abilities {
        let mut up = self.nodes.iter().filter(|n| n.health == Health::Up).filter_map(|n| n.hello);
        let Some(first) = up.next() else { return Abilities::NONE };
        up.fold(first.abilities, |all, hello| all.and(hello.abilities))
    }
}

impl NodeHealth {
    /// Whether somebody has said that its chunks are lost, and not taken it back.
    fn is_kept_down(&self) -> bool {
        self.declared || self.state == NodeState::Dead
    }
}

fn due(timers: &Timers, liveness: Liveness, entry: &NodeHealth, now: Time) -> Health {
    let silence = now.since(entry.reported_at);
    match entry.health {
        Health::Up if liveness == Liveness::Keeper && silence >= timers.suspect_after => {
            Health::Suspect
        }
        same if liveness == Liveness::Keeper => same,
        Health::Unknown if silence >= timers.start_grace => Health::Failed,
        Health::Up | Health::Suspect if silence >= timers.dead_after => Health::Failed,
        Health::Up if silence >= timers.suspect_after => Health::Suspect,
        same => same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMERS: Timers = Timers {
        suspect_after: Span::from_secs(1),
        dead_after: Span::from_secs(3),
        start_grace: Span::from_secs(10),
        stall_after: Span::from_secs(20),
        commit_retry: Span::from_secs(5),
        retry_first: Span::from_secs(1),
        retry_max: Span::from_secs(10),
    };

    /// Silence is followed to its end here, and only to suspicion where the keeper decides.
    #[test]
    fn whoever_is_silent_is_looked_at_as_long_as_that_can_change_something() {
        let cases = [
            (Liveness::Own, Health::Unknown, Some(10)),
            (Liveness::Own, Health::Up, Some(1)),
            (Liveness::Own, Health::Suspect, Some(3)),
            (Liveness::Own, Health::Failed, None),
            (Liveness::Keeper, Health::Unknown, None),
            (Liveness::Keeper, Health::Up, Some(1)),
            (Liveness::Keeper, Health::Suspect, None),
        ];
        for (liveness, health, seconds) in cases {
            let mut table = HealthTable::new(TIMERS, liveness);
            assert_eq!((table.is_empty(), table.next_deadline()), (true, None));
            table.add(Time::ZERO, false);
            table.nodes[0].health = health;
            let expected = seconds.map(|seconds| Time::ZERO + Span::from_secs(seconds));
            assert_eq!(table.next_deadline(), expected, "{liveness:?}, {health:?}");
            assert!(!table.is_empty());
            let changes = |at| due(&TIMERS, liveness, &table.nodes[0], at) != health;
            assert!(expected.is_none_or(changes), "{liveness:?}, {health:?}");
        }
    }
}
