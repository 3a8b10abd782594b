//! Which nodes can be used and which are dead: silence measured against timers.
//!
//! Place: [failure detected] -> stripes affected -> queue -> plan -> ...
//! A dead node looks like a slow one that has not answered yet. So silence counts twice: after
//! `suspect_after` a node is no longer used, after `dead_after` its chunks are lost. A broken
//! session makes a node suspect at once, because a killed process is the common case. Where the
//! keeper decides which nodes live, silence only makes a node unusable: its chunks are lost when
//! the keeper reports it dead, and come back likewise. A node that an operator has paused is not
//! declared dead by its silence until the pause ends. Invariants: what the operator or such a
//! keeper declared failed stays failed until they return it; a node is up only after its Hello.

use crate::cluster::NodeIntent;
use crate::event::{Health, Liveness, NodeState, Timers};
use crate::id::NodeId;
use crate::message::{DiskState, Heartbeat, Hello};
use crate::mutant::{Mistake, Mutant};
use crate::planner::Abilities;
use crate::reach::Reach;
use crate::time::{Span, Time};

/// What the coordinator knows of one node.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    /// Whether it can be used, and whether its chunks are lost.
    pub health: Health,
    /// Its last Hello; `None` while it has sent none.
    pub hello: Option<Hello>,
    /// Free bytes on its disk, as last reported.
    pub free_bytes: u64,
    /// How its disk is, as last reported.
    pub disk: DiskState,
    /// Whether no other agent can reach it, though its heartbeats arrive.
    pub is_cut_off: bool,
    /// What the operator wants of it.
    pub intent: NodeIntent,
    /// As the keeper reports, where it decides.
    state: NodeState,
    reported_at: Time,
}

/// Every node's health, by id.
#[derive(Clone, Debug)]
pub struct HealthTable {
    timers: Timers,
    liveness: Liveness,
    nodes: Vec<NodeHealth>,
    reach: Reach,
    pub(crate) mistake: Mistake,
}

impl HealthTable {
    /// A table without nodes, with the timers by which silence counts, where it does.
    pub fn new(timers: Timers, liveness: Liveness) -> HealthTable {
        let (nodes, reach) = (Vec::new(), Reach::new(timers.suspect_after));
        HealthTable { timers, liveness, nodes, reach, mistake: Mistake::default() }
    }

    /// Adds the next node: unknown, or failed if the operator declared that before.
    pub fn add(&mut self, now: Time, declared_failed: bool) {
        let health = if declared_failed { Health::Failed } else { Health::Unknown };
        self.nodes.push(NodeHealth {
            health,
            hello: None,
            free_bytes: 0,
            disk: DiskState::Good,
            is_cut_off: false,
            intent: if declared_failed { NodeIntent::Failed } else { NodeIntent::Serving },
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

    /// How long ago the node last spoke; one that has sent nothing yet, since it was added.
    pub fn silence(&self, now: Time, node: NodeId) -> Span {
        now.since(self.nodes[node.index()].reported_at)
    }

    /// Whether the node can be used, and may be given chunks.
    pub fn takes_chunks(&self, node: NodeId) -> bool {
        let known = self.get(node);
        let is_wanted = known.intent == NodeIntent::Serving || self.mistake.is(Mutant::GiveAnyway);
        self.is_up(node) && known.state == NodeState::Up && is_wanted
    }

    /// Whether the node's chunks are to move elsewhere.
    pub fn is_draining(&self, node: NodeId) -> bool {
        matches!(self.get(node).intent, NodeIntent::Draining { .. })
    }

    /// Whether the node is draining and up: its chunks can be copied from it.
    pub fn is_emptied(&self, node: NodeId) -> bool {
        self.is_up(node) && self.is_draining(node)
    }

    /// Nodes that are silent and not paused; where they have sent nothing yet, for long enough.
    pub fn silent(&self, now: Time) -> impl Iterator<Item = NodeId> {
        let is_silent = move |entry: &NodeHealth| match entry.health {
            Health::Suspect => entry.pause_end().is_none(),
            Health::Unknown => {
                let silence = now.since(entry.reported_at);
                silence >= self.timers.dead_after && entry.pause_end().is_none()
            }
            Health::Up | Health::Failed => false,
        };
        self.iter().filter(move |(_, entry)| is_silent(entry)).map(|(node, _)| node)
    }

    /// Records how many chunks a node had when its draining began.
    pub fn count_leaving(&mut self, node: NodeId, count: u64) {
        if let NodeIntent::Draining { chunks } = &mut self.nodes[node.index()].intent {
            *chunks = count;
        }
    }

    /// A silent node is dead, without waiting for the timers.
    pub fn give_up(&mut self, node: NodeId) {
        self.nodes[node.index()].health = Health::Failed;
    }

    /// Whether the node is silent and expected back: what it holds cannot be read, and is not lost.
    pub fn is_away(&self, node: NodeId) -> bool {
        let known = self.get(node);
        known.health == Health::Suspect && matches!(known.intent, NodeIntent::Paused { .. })
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

    /// The node spoke. Returns the state that it left, if it changed. One with a disk that hangs,
    /// or that no other node can reach, is as silent as one that sends nothing.
    pub fn reported(&mut self, now: Time, node: NodeId) -> Option<Health> {
        let mistake = self.mistake;
        let entry = &mut self.nodes[node.index()];
        if entry.disk == DiskState::Hanging || entry.is_cut_off {
            return None;
        }
        entry.reported_at = now;
        let is_kept_down = entry.is_kept_down() && !mistake.is(Mutant::ForgetDeclared);
        let is_unknown = entry.hello.is_none() && !mistake.is(Mutant::TrustUnknown);
        if is_kept_down || entry.health == Health::Up || is_unknown {
            return None;
        }
        Some(std::mem::replace(&mut entry.health, Health::Up))
    }

    /// Whether these are the first words of a session: those of a former one, or that come twice,
    /// have no greater number.
    pub fn is_new_session(&self, node: NodeId, hello: Hello) -> bool {
        self.nodes[node.index()].hello.is_none_or(|known| {
            known.incarnation != hello.incarnation || known.session < hello.session
        })
    }

    /// The node introduced itself. Returns whether it is another incarnation than before.
    pub fn joined(&mut self, node: NodeId, hello: Hello) -> bool {
        let entry = &mut self.nodes[node.index()];
        entry.free_bytes = hello.free_bytes;
        let before = entry.hello.replace(hello);
        let is_other = before.is_some_and(|before| before.incarnation != hello.incarnation);
        if is_other {
            entry.disk = DiskState::Good;
            self.reach.reached(node);
            self.reach.forget_reports_of(node);
        }
        is_other
    }

    /// How the node's disk is, as this incarnation of it reports.
    pub fn disk_is(&mut self, node: NodeId, beat: &Heartbeat) {
        let entry = &mut self.nodes[node.index()];
        if entry.hello.is_some_and(|hello| hello.incarnation == beat.incarnation) {
            entry.disk = beat.disk;
        }
    }

    /// Records that another agent has reached the node.
    pub fn reached(&mut self, node: NodeId) {
        if !self.mistake.is(Mutant::KeepCutOff) {
            self.reach.reached(node);
        }
    }

    /// An agent reports that it cannot reach the node. Counted only while the node itself reports.
    pub fn unreached(&mut self, now: Time, node: NodeId, by: NodeId) {
        let known = self.get(node);
        if known.health == Health::Up || known.is_cut_off {
            self.reach.unreached(now, node, by);
        }
    }

    /// The node speaks: can others reach it? `None` where that is as it was.
    pub fn check_reach(&mut self, now: Time, node: NodeId) -> Option<bool> {
        let others = self.nodes.iter().filter(|known| known.intent != NodeIntent::Failed).count();
        let is_cut_off = self.reach.is_cut_off(now, node, others.saturating_sub(1));
        let before = &mut self.nodes[node.index()].is_cut_off;
        let is_news = std::mem::replace(before, is_cut_off) != is_cut_off;
        is_news.then_some(is_cut_off)
    }

    /// Records the free bytes on a node's disk, as just reported.
    pub fn free_bytes(&mut self, node: NodeId, bytes: u64) {
        self.nodes[node.index()].free_bytes = bytes;
    }

    /// The session broke: suspect at once, dead when the timer runs out.
    pub fn session_lost(&mut self, node: NodeId) -> bool {
        self.reach.forget_reports_of(node);
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
        entry.intent = NodeIntent::Failed;
        std::mem::replace(&mut entry.health, Health::Failed) != Health::Failed
    }

    /// The operator empties it, which begins with so many chunks. One that was declared failed
    /// stays so: nothing is left there to move; the silence of one that was paused counts from now
    /// on. Returns whether that is news.
    pub fn drain(&mut self, now: Time, node: NodeId, chunks: u64) -> bool {
        let entry = &mut self.nodes[node.index()];
        match entry.intent {
            NodeIntent::Failed | NodeIntent::Draining { .. } => return false,
            NodeIntent::Paused { .. } => entry.reported_at = now,
            NodeIntent::Serving => {}
        }
        entry.intent = NodeIntent::Draining { chunks };
        true
    }

    /// The operator lets it be silent until then; not one that was declared failed. Returns whether
    /// that is news.
    pub fn pause(&mut self, node: NodeId, until: Time) -> bool {
        let entry = &mut self.nodes[node.index()];
        if entry.intent == NodeIntent::Failed {
            return false;
        }
        entry.intent = NodeIntent::Paused { until };
        true
    }

    /// The operator takes it back. One that was declared failed is unknown until it speaks, unless
    /// it is dead besides; the silence of one that was paused counts from now on. Returns what was
    /// wanted of it.
    pub fn take_back(&mut self, now: Time, node: NodeId) -> NodeIntent {
        let entry = &mut self.nodes[node.index()];
        let before = std::mem::take(&mut entry.intent);
        match before {
            NodeIntent::Failed if !entry.is_kept_down() => {
                (entry.health, entry.reported_at) = (Health::Unknown, now);
            }
            NodeIntent::Paused { .. } => entry.reported_at = now,
            NodeIntent::Failed | NodeIntent::Serving | NodeIntent::Draining { .. } => {}
        }
        before
    }

    /// The keeper reports how it is. Returns whether its health has changed by that.
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

    /// The coordinator received nothing for `gap`: shifts every silence timer by it.
    pub fn slept(&mut self, now: Time, gap: Span) {
        for entry in &mut self.nodes {
            entry.reported_at = now.min(entry.reported_at + gap);
        }
    }

    /// Ends the pauses whose time has come; returns the nodes.
    pub fn end_pauses(&mut self, now: Time) -> Vec<NodeId> {
        let is_over = |entry: &NodeHealth| match entry.intent {
            NodeIntent::Paused { until } => until <= now,
            _ => false,
        };
        let over = self.iter().filter(|(_, entry)| is_over(entry)).map(|(node, _)| node);
        let over: Vec<NodeId> = over.collect();
        for node in &over {
            self.take_back(now, *node);
        }
        over
    }

    /// Applies the timers; returns what changed, in order of the nodes.
    pub fn expire(&mut self, now: Time) -> Vec<(NodeId, Health)> {
        let (timers, liveness, mistake) = (self.timers, self.liveness, self.mistake);
        let mut changed = Vec::new();
        for (i, entry) in self.nodes.iter_mut().enumerate() {
            let health = due(&timers, liveness, mistake, entry, now);
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
            Health::Up => Some(entry.reported_at + timers.suspect_after),
            Health::Unknown | Health::Suspect if !decides => None,
            Health::Suspect if entry.pause_end().is_some() => None,
            Health::Unknown => Some(entry.reported_at + timers.start_grace),
            Health::Suspect => Some(entry.reported_at + timers.dead_after),
            Health::Failed => None,
        };
        let silences = self.nodes.iter().filter_map(deadline);
        silences.chain(self.nodes.iter().filter_map(NodeHealth::pause_end)).min()
    }

    /// # Panics
    /// A node is not failed though declared so, or up though it has sent nothing.
    pub fn assert_invariants(&self) {
        for (id, node) in self.iter() {
            let is_failed = node.health == Health::Failed;
            assert!(is_failed || !node.is_kept_down(), "health: {id} was declared failed");
            let is_declared = self.liveness == Liveness::Own || node.is_kept_down();
            assert!(!is_failed || is_declared, "health: {id} is failed, though not declared so");
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
    /// Whether the operator or the keeper has declared its chunks lost, and not taken that back.
    fn is_kept_down(&self) -> bool {
        self.intent == NodeIntent::Failed || self.state == NodeState::Dead
    }

    /// When its pause ends, if it is paused.
    fn pause_end(&self) -> Option<Time> {
        match self.intent {
            NodeIntent::Paused { until } => Some(until),
            NodeIntent::Serving | NodeIntent::Failed | NodeIntent::Draining { .. } => None,
        }
    }
}

fn due(
    timers: &Timers,
    liveness: Liveness,
    mistake: Mistake,
    entry: &NodeHealth,
    now: Time,
) -> Health {
    let silence = now.since(entry.reported_at);
    let is_paused = entry.pause_end().is_some() && !mistake.is(Mutant::ForgetPause);
    let never_fails = liveness == Liveness::Keeper || is_paused;
    match entry.health {
        Health::Up if never_fails && silence >= timers.suspect_after => Health::Suspect,
        Health::Unknown if liveness == Liveness::Keeper => Health::Unknown,
        Health::Unknown if silence >= timers.start_grace && never_fails => Health::Suspect,
        same if never_fails => same,
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
        claim_prolong: Span::from_secs(100),
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
            let changes =
                |at| due(&TIMERS, liveness, Mistake::default(), &table.nodes[0], at) != health;
            assert!(expected.is_none_or(changes), "{liveness:?}, {health:?}");
        }
    }

    #[test]
    fn who_has_said_nothing_yet_is_silent_when_it_could_be_dead_unless_it_is_paused() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut table = HealthTable::new(TIMERS, Liveness::Own);
        table.add(Time::ZERO, false);
        let silent = |table: &HealthTable, seconds| table.silent(at(seconds)).count();
        assert_eq!([2, 3, 9].map(|seconds| silent(&table, seconds)), [0, 1, 1]);
        table.pause(NodeId(0), at(8));
        assert_eq!(silent(&table, 5), 0);
        assert_eq!(table.end_pauses(at(7)), []);
        assert_eq!(table.end_pauses(at(8)), [NodeId(0)], "no later than it was to end");
    }

    #[test]
    fn who_has_said_nothing_yet_comes_to_be_silent_when_it_is_paused_and_not_where_a_keeper_decides()
     {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut paused = HealthTable::new(TIMERS, Liveness::Own);
        paused.add(Time::ZERO, false);
        paused.pause(NodeId(0), at(60));
        let mut kept = HealthTable::new(TIMERS, Liveness::Keeper);
        kept.add(Time::ZERO, false);
        assert_eq!((paused.expire(at(9)), kept.expire(at(9))), (vec![], vec![]));
        assert_eq!(paused.expire(at(10)), [(NodeId(0), Health::Suspect)]);
        assert_eq!(kept.expire(at(30)), []);
    }
}
