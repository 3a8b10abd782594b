//! The NameNode as the keeper of the metadata: its groups at risk are the stripes, its claims the
//! claims.
//!
//! Place: [stripes affected] -> queue -> plan -> [claim] -> dispatch -> ... -> [commit location].
//! Only groups at risk are stripes here; the NameNode knows the others, which are not needed here.
//! What is known is refreshed by [`HdfsKeeper::refresh`], which asks for changes. The NameNode
//! counts no generations, so they are counted here: a stripe gets the next one with every change
//! that is reported of it.
//!
//! A rebuilt block is HDFS's as soon as its DataNode has finalized it. So a commit asks the
//! NameNode whether it has the block, and is answered once it has. Until then what a claim builds
//! counts as missing, also if the NameNode reports otherwise: a repair's own success must not look
//! like a change under its feet.
//!
//! A block that is wrong by all others of its group, though its checksums are right, is condemned:
//! the NameNode counts it as corrupt, so that neither HDFS nor a repair reads it any more.
//!
//! Questions to the NameNode are gathered and asked in `changes`: those about claims, many at a
//! time, because each batch holds the NameNode's lock once, in `keeper/claims.rs`; those about
//! commits in `keeper/commits.rs`.

mod claims;
mod commits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use suture_repair::event::{Claim, Commit, Input, KnownFault, NodeState};
use suture_repair::id::{ChunkIndex, CopyAt, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::keeper::claims::Claims;
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::stripe::Stripe;
use suture_repair::time::{Span, Time};

use super::group::{Group, GroupWork, group_id, stripe_id};
use super::namenode::{
    ChosenStorage, CondemnAnswer, DataNode, DataNodeState, DoneAnswer, GroupsAnswer, LeftGroup,
    NameNode, NodesAnswer, Question, ask,
};
use commits::{AwaitedBlock, can_be};

/// A claim that is not prolonged ends after this, as the NameNode's own do by default.
pub const CLAIM_LIFETIME: Span = Span::from_secs(300);

/// A finalized block that the NameNode does not have after so long is not waited for: its DataNode
/// reports it at once, and what is lost of that with the next heartbeats.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(60);

/// Groups that HDFS may be asked to rebuild by itself, while it leaves others to Suture.
pub const LEFT_MAX: usize = 1000;

/// What a DataNode has to know to take a rebuilt block, as the label of its chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLabel {
    /// The block pool of the group: ids and stamps begin at the same numbers in each. None where
    /// no NameNode has said which, and from a coordinator before this one.
    #[serde(default)]
    pub pool: Option<String>,
    /// The generation stamp of the group.
    pub stamp: u64,
    /// The storage of each block.
    pub targets: Vec<ChosenStorage>,
}

/// A DataNode that is a node of Suture's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownDataNode {
    id: NodeId,
    state: NodeState,
}

/// A group at risk.
#[derive(Clone, Debug)]
struct KnownGroup {
    group: Group,
    /// As it was last reported; none while some of its nodes are not known.
    stripe: Option<Stripe>,
    /// Copies that repairs made: they have their repairs' stamps.
    rebuilt: BTreeMap<ChunkIndex, (NodeId, Stamp)>,
    /// The NameNode that is asked now has not reported it yet, and may never.
    is_former: bool,
}

/// What a repair builds.
#[derive(Clone, Debug)]
struct Building {
    claim: Claim,
    standing: ClaimStanding,
    /// Since when the NameNode that is asked now is to be asked for it.
    since: Instant,
}

/// How the NameNode stands to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimStanding {
    /// It has not answered, and the repair has not begun.
    Asked,
    /// It has granted it.
    Granted,
    /// It had granted it, and has it no more: it refused to prolong it, or another NameNode is
    /// asked now. The repair goes on.
    Lost,
}

/// The keeper of an HDFS namespace.
#[derive(Debug)]
pub struct HdfsKeeper<N> {
    namenode: N,
    observes: bool,
    nodes: BTreeMap<String, KnownDataNode>,
    unknown: BTreeMap<String, DataNode>,
    groups: BTreeMap<StripeId, KnownGroup>,
    claims: Claims,
    building: BTreeMap<RepairId, Building>,
    /// Claims that the NameNode is to be asked for.
    asking: BTreeMap<RepairId, Claim>,
    /// Claims that ended here, and perhaps not at the NameNode.
    releasing: Vec<RepairId>,
    awaited: BTreeMap<RepairId, AwaitedBlock>,
    confirm_within: Duration,
    /// Where a block was committed that the NameNode never had.
    unconfirmed: BTreeSet<(StripeId, NodeId)>,
    /// Copies that are wrong by all others of their groups, of which the NameNode is to know.
    condemned: BTreeSet<CopyAt>,
    /// Why claims were refused last.
    refusals: BTreeMap<StripeId, String>,
    changes: Vec<Input>,
    /// Why claims and commits wait, as it was last logged.
    waits: Option<String>,
}

impl<N: NameNode> HdfsKeeper<N> {
    /// A keeper that knows nothing yet. One that `observes` grants no claim.
    pub fn new(namenode: N, observes: bool) -> HdfsKeeper<N> {
        HdfsKeeper {
            namenode,
            observes,
            nodes: BTreeMap::new(),
            unknown: BTreeMap::new(),
            groups: BTreeMap::new(),
            claims: Claims::new(CLAIM_LIFETIME),
            building: BTreeMap::new(),
            asking: BTreeMap::new(),
            releasing: Vec::new(),
            awaited: BTreeMap::new(),
            confirm_within: CONFIRM_WITHIN,
            unconfirmed: BTreeSet::new(),
            condemned: BTreeSet::new(),
            refusals: BTreeMap::new(),
            changes: Vec::new(),
            waits: None,
        }
    }

    /// The same, waiting for another time for blocks that were committed.
    pub fn confirm_within(self, limit: Duration) -> HdfsKeeper<N> {
        HdfsKeeper { confirm_within: limit, ..self }
    }

    /// How the NameNode is asked.
    pub fn namenode(&mut self) -> &mut N {
        &mut self.namenode
    }

    /// How many groups are at risk, as far as is known.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Why claims on these stripes were refused last, of those that are at risk still.
    pub fn refusals(&self) -> &BTreeMap<StripeId, String> {
        &self.refusals
    }

    /// DataNodes that are no nodes of Suture's yet, to be made such.
    pub fn unknown_nodes(&self) -> impl Iterator<Item = &DataNode> {
        self.unknown.values()
    }

    /// A DataNode is this node from now on.
    pub fn know_node(&mut self, uuid: &str, id: NodeId) {
        self.nodes.retain(|other, known| other == uuid || known.id != id);
        let known = self.nodes.entry(uuid.to_owned());
        known.or_insert(KnownDataNode { id, state: NodeState::Up });
        if let Some(reported) = self.unknown.remove(uuid) {
            self.set_state(&reported);
        }
    }

    /// Asks what is new: nodes, then groups.
    ///
    /// # Errors
    /// When the NameNode does not answer; what was received until then counts.
    pub fn refresh(&mut self) -> Result<Vec<DataNode>, KeeperError> {
        let NodesAnswer { nodes } = ask(&mut self.namenode, &Question::Nodes)?;
        for reported in &nodes {
            if self.nodes.contains_key(&reported.node) {
                self.set_state(reported);
            } else {
                self.unknown.insert(reported.node.clone(), reported.clone());
            }
        }
        Ok(nodes)
    }

    /// Asks which groups are at risk. The nodes of groups must be known by now.
    ///
    /// # Errors
    /// When the NameNode does not answer; what was received until then counts.
    pub fn refresh_groups(&mut self) -> Result<(), KeeperError> {
        loop {
            let answer: GroupsAnswer = ask(&mut self.namenode, &Question::Groups)?;
            for group in answer.groups {
                let id = stripe_id(group.group);
                self.know(group);
                if let Some(known) = self.groups.get_mut(&id) {
                    known.is_former = false;
                }
            }
            answer.gone.into_iter().for_each(|group| self.forget(stripe_id(group)));
            if !answer.more {
                break;
            }
        }
        let waiting: Vec<StripeId> = self.groups.keys().copied().collect();
        waiting.into_iter().for_each(|id| self.note_changes(id));
        Ok(())
    }

    /// Has HDFS leave lost blocks alone for so long, but for these stripes.
    ///
    /// # Errors
    /// When the NameNode does not answer.
    pub fn lease(&mut self, millis: u64, leave: &[StripeId]) -> Result<(), KeeperError> {
        let leave = leave.iter().map(|id| LeftGroup { group: group_id(*id) });
        let lease = Question::Lease { millis, leave: leave.take(LEFT_MAX).collect() };
        ask(&mut self.namenode, &lease).map(|DoneAnswer {}| ())
    }

    /// Those of these groups, and of those that are no stripes for Suture, that are HDFS's to
    /// rebuild. It tries none of which too little is there.
    pub fn left(&self, waiting: impl Iterator<Item = StripeId>) -> Vec<StripeId> {
        let is_unserved = |(_, known): &(&StripeId, &KnownGroup)| known.stripe.is_none();
        let unserved = self.groups.iter().filter(is_unserved).map(|(id, _)| *id);
        let is_repairable =
            |id: &StripeId| self.groups.get(id).is_none_or(|known| known.group.is_repairable());
        waiting.chain(unserved).filter(is_repairable).collect()
    }

    /// The NameNode at the other end may be another one, and knows of no claim: all is asked anew.
    pub fn reconnected(&mut self) {
        for building in self.building.values_mut() {
            if building.standing == ClaimStanding::Granted {
                building.standing = ClaimStanding::Lost;
                self.changes.push(Input::ClaimLost(building.claim.repair));
            }
            building.since = Instant::now();
            self.asking.insert(building.claim.repair, building.claim.clone());
        }
        // Less may have been reported to it so far.
        self.awaited.values_mut().for_each(|block| block.denied = None);
        // What it does not speak of any more is at risk no more; what is being built is kept until
        // that has ended.
        self.groups.values_mut().for_each(|known| known.is_former = true);
        let former: Vec<StripeId> = self.groups.keys().copied().collect();
        former.into_iter().for_each(|id| self.forget_former(id));
    }

    /// Whether this repair has a claim that lasts.
    pub fn is_building(&self, repair: RepairId) -> bool {
        self.building.contains_key(&repair)
    }

    /// For how long the claim has waited that has had no answer of the NameNode for longest; none
    /// where all have been answered.
    pub fn claim_waits(&self) -> Option<Duration> {
        let asked = self.building.values().filter(|of| of.standing == ClaimStanding::Asked);
        asked.map(|of| of.since.elapsed()).max()
    }

    /// A copy is wrong by all others of its group, or it is no more known to be. HDFS counts it as
    /// good by its checksums, and would rebuild others from it.
    pub fn note_fault(&mut self, copy: CopyAt, fault: Option<KnownFault>) {
        match fault {
            Some(KnownFault::Inconsistent) => drop(self.condemned.insert(copy)),
            Some(KnownFault::Corrupt | KnownFault::Unreadable) | None => {
                self.condemned.remove(&copy);
            }
        }
    }

    /// Has the NameNode count as corrupt what is condemned, each once.
    fn condemn(&mut self) -> Result<(), KeeperError> {
        if self.observes || self.condemned.is_empty() || !self.namenode.condemns() {
            return Ok(());
        }
        while let Some(&at) = self.condemned.first() {
            let group = self.groups.get(&at.copy.stripe).map(|known| &known.group);
            if let (Some(group), Some(node)) = (group, self.uuid(at.node)) {
                let question = Question::Condemn {
                    group: group.group,
                    stamp: group.stamp,
                    index: at.copy.chunk.0,
                    node: node.to_owned(),
                };
                let answer: CondemnAnswer = ask(&mut self.namenode, &question)?;
                match answer.group {
                    Some(group) => self.know(group),
                    None => self.forget(at.copy.stripe),
                }
            }
            self.condemned.remove(&at);
        }
        Ok(())
    }

    fn set_state(&mut self, reported: &DataNode) {
        let Some(known) = self.nodes.get_mut(&reported.node) else { return };
        let state = match reported.state {
            DataNodeState::Up => NodeState::Up,
            DataNodeState::Leaving => NodeState::Decommissioning,
            DataNodeState::Dead => NodeState::Dead,
        };
        if known.state != state {
            known.state = state;
            self.changes.push(Input::NodeState { node: known.id, state });
        }
    }

    fn know(&mut self, group: Group) {
        let id = stripe_id(group.group);
        match self.groups.get_mut(&id) {
            Some(known) => known.group = group,
            None => {
                let (rebuilt, is_former) = (BTreeMap::new(), false);
                self.groups.insert(id, KnownGroup { group, stripe: None, rebuilt, is_former });
            }
        }
        self.note_changes(id);
    }

    fn forget(&mut self, id: StripeId) {
        self.refusals.remove(&id);
        self.unconfirmed.retain(|(stripe, _)| *stripe != id);
        if self.groups.remove(&id).is_some_and(|known| known.stripe.is_some()) {
            self.changes.push(Input::StripeRemoved(id));
        }
    }

    /// Forgets a group of which the NameNode that is asked now has not spoken, unless it is being
    /// built.
    fn forget_former(&mut self, id: StripeId) {
        let is_former = self.groups.get(&id).is_some_and(|known| known.is_former);
        if is_former && self.built(id).next().is_none() {
            self.forget(id);
        }
    }

    /// What is being built of a group.
    fn built(&self, id: StripeId) -> impl Iterator<Item = &Building> {
        self.building.values().filter(move |of| of.claim.stripe == id)
    }

    /// Reports a stripe that is another one than was last reported.
    fn note_changes(&mut self, id: StripeId) {
        let Some(known) = self.groups.get(&id) else { return };
        let Some(mut stripe) = self.read(known) else { return };
        let generation = known.stripe.as_ref().map_or(0, |reported| reported.generation.0);
        stripe.generation = Generation(generation);
        if known.stripe.as_ref() != Some(&stripe) {
            stripe.generation = Generation(generation + 1);
            self.set(stripe.clone());
            self.changes.push(Input::StripeAdded(stripe));
        }
    }

    fn set(&mut self, stripe: Stripe) {
        if let Some(known) = self.groups.get_mut(&stripe.id) {
            known.stripe = Some(stripe);
        }
    }

    /// The stripe that a group is, with the names that repairs gave their copies, and without what
    /// is being built. What a repair may be reading stays there until it has ended.
    fn read(&self, known: &KnownGroup) -> Option<Stripe> {
        let id = stripe_id(known.group.group);
        let mut work = GroupWork::default();
        for building in self.built(id) {
            let blocks = building.claim.destinations.iter().map(|(chunk, node)| (*chunk, *node));
            let is_rebuilt = |chunk: &ChunkIndex, node: &NodeId| {
                known.rebuilt.get(chunk).is_some_and(|(by, _)| by == node)
            };
            work.built.extend(blocks.filter(|(chunk, node)| !is_rebuilt(chunk, node)));
            let reported = known.stripe.iter();
            let located = reported.flat_map(|reported| (0..).map(ChunkIndex).zip(&reported.chunks));
            work.read.extend(located.filter_map(|(chunk, record)| Some((chunk, record.node?))));
        }
        let node_of = |uuid: &str| self.nodes.get(uuid).map(|node| node.id);
        let mut stripe = known.group.stripe(node_of, &work)?;
        for (chunk, record) in (0..).map(ChunkIndex).zip(&mut stripe.chunks) {
            if let Some((by, stamp)) = known.rebuilt.get(&chunk)
                && record.node == Some(*by)
            {
                record.stamp = *stamp;
            }
        }
        Some(stripe)
    }

    /// Why a claim is refused without that the NameNode is asked.
    fn objection(&mut self, now: Time, claim: &Claim) -> Option<String> {
        let stripe = self.stripe(claim.stripe);
        let is_current = stripe.is_some_and(|stripe| stripe.generation == claim.generation);
        let is_unconfirmed = |node: &&NodeId| self.unconfirmed.contains(&(claim.stripe, **node));
        let unconfirmed = claim.destinations.values().find(is_unconfirmed).copied();
        if self.observes {
            Some("this coordinator only observes".into())
        } else if !is_current {
            Some("it has changed meanwhile".into())
        } else if let Some(node) = unconfirmed {
            // Once: where there is no other node it is tried again.
            self.unconfirmed.remove(&(claim.stripe, node));
            let uuid = self.uuid(node).unwrap_or_default();
            Some(format!("it has not heard of a block that was committed on {uuid}"))
        } else if !self.claims.take(now, claim) {
            Some("another repair has it".into())
        } else {
            None
        }
    }

    fn stripe(&self, id: StripeId) -> Option<&Stripe> {
        self.groups.get(&id)?.stripe.as_ref()
    }

    fn uuid(&self, node: NodeId) -> Option<&str> {
        self.nodes.iter().find(|(_, known)| known.id == node).map(|(uuid, _)| &**uuid)
    }
}

impl<N: NameNode> Keeper for HdfsKeeper<N> {
    /// Those at risk, as far as [`HdfsKeeper::refresh_groups`] has received them.
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError> {
        let not_up = self.nodes.values().filter(|node| node.state != NodeState::Up);
        let reported = not_up.map(|node| Input::NodeState { node: node.id, state: node.state });
        self.changes.extend(reported.collect::<Vec<_>>());
        Ok(self.groups.values().filter_map(|known| known.stripe.clone()).collect())
    }

    fn changes(&mut self) -> Vec<Input> {
        let asked = self.ask_claims().and_then(|()| self.confirm());
        // One that fails must not have claims wait.
        let asked = asked.and_then(|()| self.condemn());
        let waits = asked.err().map(|why| why.to_string());
        if let Some(why) = waits.as_ref().filter(|_| waits != self.waits) {
            tracing::warn!(why, "claims and commits wait");
        }
        self.waits = waits;
        std::mem::take(&mut self.changes)
    }

    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError> {
        let repair = claim.repair;
        if let Some(why) = self.objection(now, claim) {
            self.refuse_claim(claim, why);
            return Ok(());
        }
        // Claims of others on it have ended by themselves.
        let of_stripe = |(_, of): &(&RepairId, &Building)| of.claim.stripe == claim.stripe;
        let former = self.building.iter().filter(of_stripe).map(|(former, _)| *former);
        for former in former.filter(|former| *former != repair).collect::<Vec<_>>() {
            self.release(former)?;
        }
        let known = self.building.get(&repair).map(|building| (building.standing, building.since));
        let (standing, since) = known.unwrap_or_else(|| (ClaimStanding::Asked, Instant::now()));
        self.building.insert(repair, Building { claim: claim.clone(), standing, since });
        self.asking.insert(repair, claim.clone());
        Ok(())
    }

    fn release(&mut self, repair: RepairId) -> Result<(), KeeperError> {
        self.claims.release(repair);
        let Some(ended) = self.building.remove(&repair) else { return Ok(()) };
        self.forget_former(ended.claim.stripe);
        self.note_changes(ended.claim.stripe);
        if ended.standing != ClaimStanding::Granted {
            return Ok(());
        }
        self.ask_release(repair)
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), KeeperError> {
        let (chunk, repair) = (commit.copy.chunk, commit.repair);
        let stripe = self.stripe(commit.copy.stripe);
        let is_there =
            stripe.is_some_and(|stripe| stripe.copy(chunk) == Some(commit.copy.at(commit.node)));
        let is_current = stripe
            .is_some_and(|stripe| stripe.generation == commit.generation && can_be(stripe, commit));
        if is_there {
            self.answer(commit, true);
        } else if is_current {
            let awaited = self.awaited.entry(repair).or_insert(AwaitedBlock::of(commit));
            if awaited.commit != *commit {
                *awaited = AwaitedBlock::of(commit);
            }
        } else {
            self.refuse(commit);
        }
        Ok(())
    }
}
