//! The NameNode as the keeper of the truth: its groups at risk are the stripes, its claims the
//! claims.
//!
//! Place: [stripes affected] -> queue -> plan -> [claim] -> dispatch -> ... -> [commit location].
//! Only groups at risk are stripes here; the NameNode knows the others and nobody need. What is
//! known is refreshed by [`HdfsKeeper::refresh`], which asks for changes. The NameNode counts no
//! generations, so they are counted here: a stripe gets the next one with every change that is told
//! of it.
//!
//! A rebuilt block is HDFS's as soon as its DataNode has finalized it. So a commit asks the
//! NameNode whether it has heard of it, and is answered once it has. Until then what a claim builds
//! counts as missing, also if the NameNode says otherwise: a repair's own success must not look
//! like a change under its feet.
//!
//! Questions to the NameNode are gathered and asked in `changes`, claims many at a time, because
//! each batch holds the NameNode's lock once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use suture_repair::event::{Claim, Commit, Input, NodeState};
use suture_repair::id::{ChunkIndex, Generation, NodeId, RepairId, Stamp, StripeId};
use suture_repair::keeper::claims::Claims;
use suture_repair::keeper::{Keeper, KeeperError};
use suture_repair::label::Label;
use suture_repair::stripe::Stripe;
use suture_repair::time::{Span, Time};

use super::group::{Group, GroupWork, group_id, stripe_id};
use super::namenode::{
    CLAIMS_MAX, ChosenStorage, ClaimAnswer, ClaimedBlock, ClaimsAnswer, ConfirmAnswer, DataNode,
    DataNodeState, DoneAnswer, GroupClaim, GroupsAnswer, LeftGroup, NameNode, NodesAnswer,
    Question, ask,
};

/// A claim that nobody prolongs ends after this, as the NameNode's own do by default.
pub const CLAIM_LIFETIME: Span = Span::from_secs(300);

/// Groups that HDFS may be asked to rebuild by itself, while it leaves others to Suture.
pub const LEFT_MAX: usize = 1000;

/// What a DataNode has to know to take a rebuilt block, as the label of its chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLabel {
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
    /// As it was last told; none while some of its nodes are not known.
    stripe: Option<Stripe>,
    /// Copies that repairs made: they have their repairs' stamps.
    rebuilt: BTreeMap<ChunkIndex, (NodeId, Stamp)>,
}

/// What a repair builds.
#[derive(Clone, Debug)]
struct Building {
    claim: Claim,
    /// The NameNode has granted it.
    is_granted: bool,
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
    asking: Vec<Claim>,
    confirming: BTreeMap<RepairId, Commit>,
    changes: Vec<Input>,
    /// Why claims and commits wait, as it was last said.
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
            asking: Vec::new(),
            confirming: BTreeMap::new(),
            changes: Vec::new(),
            waits: None,
        }
    }

    /// How the NameNode is asked.
    pub fn namenode(&mut self) -> &mut N {
        &mut self.namenode
    }

    /// How many groups are at risk, as far as is known.
    pub fn group_count(&self) -> usize {
        self.groups.len()
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
        if let Some(said) = self.unknown.remove(uuid) {
            self.set_state(&said);
        }
    }

    /// Asks what is new: nodes, then groups.
    ///
    /// # Errors
    /// When the NameNode does not answer; what was heard until then counts.
    pub fn refresh(&mut self) -> Result<Vec<DataNode>, KeeperError> {
        let NodesAnswer { nodes } = ask(&mut self.namenode, &Question::Nodes)?;
        for said in &nodes {
            if self.nodes.contains_key(&said.node) {
                self.set_state(said);
            } else {
                self.unknown.insert(said.node.clone(), said.clone());
            }
        }
        Ok(nodes)
    }

    /// Asks which groups are at risk. The nodes of groups must be known by now.
    ///
    /// # Errors
    /// When the NameNode does not answer; what was heard until then counts.
    pub fn refresh_groups(&mut self) -> Result<(), KeeperError> {
        loop {
            let answer: GroupsAnswer = ask(&mut self.namenode, &Question::Groups)?;
            answer.groups.into_iter().for_each(|group| self.know(group));
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

    /// Groups that are no stripes for Suture, and are HDFS's to rebuild.
    pub fn unserved(&self) -> Vec<StripeId> {
        let is_unserved = |(_, known): &(&StripeId, &KnownGroup)| known.stripe.is_none();
        self.groups.iter().filter(is_unserved).map(|(id, _)| *id).collect()
    }

    /// The NameNode at the other end may be another one, and knows of no claim: all is asked anew.
    pub fn reconnected(&mut self) {
        self.building.values_mut().for_each(|building| building.is_granted = false);
        let again: Vec<Claim> = self.building.values().map(|of| of.claim.clone()).collect();
        self.asking.extend(again);
        // What it does not speak of any more is at risk no more.
        let former: Vec<StripeId> = self.groups.keys().copied().collect();
        let is_idle = |id: &StripeId| !self.building.values().any(|of| of.claim.stripe == *id);
        let idle: Vec<StripeId> = former.into_iter().filter(is_idle).collect();
        idle.into_iter().for_each(|id| self.forget(id));
    }

    /// Whether this repair has a claim that lasts.
    pub fn is_building(&self, repair: RepairId) -> bool {
        self.building.contains_key(&repair)
    }

    /// Keeps a claim from ending by itself, here and at the NameNode.
    pub fn prolong(&mut self, repair: RepairId) {
        if let Some(building) = self.building.get(&repair) {
            self.asking.push(building.claim.clone());
        }
    }

    fn set_state(&mut self, said: &DataNode) {
        let Some(known) = self.nodes.get_mut(&said.node) else { return };
        let state = match said.state {
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
                let rebuilt = BTreeMap::new();
                self.groups.insert(id, KnownGroup { group, stripe: None, rebuilt });
            }
        }
        self.note_changes(id);
    }

    fn forget(&mut self, id: StripeId) {
        if self.groups.remove(&id).is_some_and(|known| known.stripe.is_some()) {
            self.changes.push(Input::StripeRemoved(id));
        }
    }

    /// What is being built of a group.
    fn built(&self, id: StripeId) -> impl Iterator<Item = &Building> {
        self.building.values().filter(move |of| of.claim.stripe == id)
    }

    /// Tells of a stripe that is another one than was last told.
    fn note_changes(&mut self, id: StripeId) {
        let Some(known) = self.groups.get(&id) else { return };
        let Some(mut stripe) = self.read(known) else { return };
        let generation = known.stripe.as_ref().map_or(0, |told| told.generation.0);
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
            let told = known.stripe.iter();
            let located = told.flat_map(|told| (0..).map(ChunkIndex).zip(&told.chunks));
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

    fn stripe(&self, id: StripeId) -> Option<&Stripe> {
        self.groups.get(&id)?.stripe.as_ref()
    }

    fn uuid(&self, node: NodeId) -> Option<&str> {
        self.nodes.iter().find(|(_, known)| known.id == node).map(|(uuid, _)| &**uuid)
    }

    /// Asks for all claims that wait.
    fn ask_claims(&mut self) -> Result<(), KeeperError> {
        let waiting = std::mem::take(&mut self.asking);
        for batch in waiting.chunks(CLAIMS_MAX) {
            let known = |claim: &&Claim| self.building.contains_key(&claim.repair);
            let batch: Vec<Claim> = batch.iter().filter(known).cloned().collect();
            let claims = batch.iter().filter_map(|claim| self.question(claim)).collect();
            let ClaimsAnswer { claims } = ask(&mut self.namenode, &Question::Claim { claims })?;
            let answers = batch.into_iter().zip(claims);
            answers.for_each(|(claim, answer)| self.claim_answered(&claim, answer));
        }
        Ok(())
    }

    fn question(&self, claim: &Claim) -> Option<GroupClaim> {
        let stamp = self.groups.get(&claim.stripe).map_or(0, |known| known.group.stamp);
        let target = |(chunk, node): (&ChunkIndex, &NodeId)| {
            let node = self.uuid(*node).unwrap_or_default().to_owned();
            ClaimedBlock { index: chunk.0, node }
        };
        let targets = claim.destinations.iter().map(target).collect();
        let (repair, group) = (claim.repair.0, group_id(claim.stripe));
        Some(GroupClaim { repair, group, stamp, targets })
    }

    fn claim_answered(&mut self, claim: &Claim, answer: ClaimAnswer) {
        let repair = claim.repair;
        let Some(building) = self.building.get_mut(&repair) else { return };
        if answer.why.is_none() {
            building.is_granted = true;
            let stamp = self.groups.get(&claim.stripe).map_or(0, |known| known.group.stamp);
            let label = BlockLabel { stamp, targets: answer.targets };
            let label = serde_json::to_vec(&label).ok().and_then(|bytes| Label::new(&bytes));
            let label = label.unwrap_or_default();
            return self.changes.push(Input::Claimed { repair, label });
        }
        tracing::warn!(%repair, why = answer.why, "HDFS refuses a claim");
        self.claims.release(repair);
        self.building.remove(&repair);
        match answer.group {
            Some(group) => self.know(group),
            None => self.forget(claim.stripe),
        }
        let stripe = self.stripe(claim.stripe).cloned();
        self.changes.push(Input::ClaimRefused { repair, stripe });
    }

    /// Asks whether the blocks have arrived whose commits wait.
    fn confirm(&mut self) -> Result<(), KeeperError> {
        let waiting: Vec<Commit> = self.confirming.values().copied().collect();
        for commit in waiting {
            let Some(known) = self.groups.get(&commit.copy.stripe) else {
                self.answer(&commit, false);
                continue;
            };
            let question = Question::Confirm {
                group: known.group.group,
                stamp: known.group.stamp,
                index: commit.copy.chunk.0,
                node: self.uuid(commit.node).unwrap_or_default().to_owned(),
            };
            let answer: ConfirmAnswer = ask(&mut self.namenode, &question)?;
            match (answer.live, answer.group) {
                (true, Some(group)) if group.group == known.group.group => {
                    self.arrived(&commit, group);
                }
                (_, None) => {
                    self.forget(commit.copy.stripe);
                    self.answer(&commit, false);
                }
                // Nobody hears of that block any more.
                (_, Some(_)) if self.is_dead(commit.node) => self.refuse(&commit),
                // The DataNode's word is still on its way, or the answer is about something else.
                (_, Some(_)) => {}
            }
        }
        Ok(())
    }

    fn arrived(&mut self, commit: &Commit, group: Group) {
        let Some(known) = self.groups.get_mut(&commit.copy.stripe) else { return };
        known.group = group;
        if known.stripe.as_ref().is_some_and(|stripe| !can_be(stripe, commit)) {
            return self.refuse(commit);
        }
        known.rebuilt.insert(commit.copy.chunk, (commit.node, commit.copy.stamp));
        let Some(stripe) = &mut known.stripe else { return };
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation = Generation(stripe.generation.0 + 1);
        self.answer(commit, true);
        self.claims.committed(commit.copy);
        if let Some(building) = self.building.get_mut(&commit.repair) {
            building.claim.destinations.remove(&commit.copy.chunk);
            if building.claim.destinations.is_empty() {
                // Another one may ask for what is left, and the NameNode forgets what arrived.
                let _ = self.release(commit.repair);
            }
        }
    }

    fn is_dead(&self, node: NodeId) -> bool {
        self.nodes.values().any(|known| known.id == node && known.state == NodeState::Dead)
    }

    /// Refuses a commit that cannot succeed any more. Whoever asks for it takes a refusal at the
    /// generation of the commit for one of a commit before: so the stripe gets a later one.
    fn refuse(&mut self, commit: &Commit) {
        let known = self.groups.get_mut(&commit.copy.stripe);
        let stripe = known.and_then(|known| known.stripe.as_mut());
        if let Some(stripe) = stripe.filter(|stripe| stripe.generation == commit.generation) {
            stripe.generation = Generation(commit.generation.0 + 1);
        }
        self.answer(commit, false);
    }

    fn answer(&mut self, commit: &Commit, is_done: bool) {
        self.confirming.remove(&commit.repair);
        let (repair, stripe) = (commit.repair, self.stripe(commit.copy.stripe).cloned());
        self.changes.push(match stripe {
            Some(stripe) if is_done => Input::Committed { repair, stripe },
            stripe => Input::CommitRefused { repair, stripe },
        });
    }
}

/// Whether the chunk of a commit can lie there: it exists, and no other of its stripe does.
fn can_be(stripe: &Stripe, commit: &Commit) -> bool {
    let chunk = commit.copy.chunk;
    let record = stripe.chunks.get(usize::from(chunk.0));
    let is_free = stripe.chunk_on(commit.node).is_none_or(|other| other == chunk);
    is_free && record.is_some_and(|record| !record.is_known_zero())
}

impl<N: NameNode> Keeper for HdfsKeeper<N> {
    /// Those at risk, as far as [`HdfsKeeper::refresh_groups`] has heard of them.
    fn stripes(&mut self) -> Result<Vec<Stripe>, KeeperError> {
        let not_up = self.nodes.values().filter(|node| node.state != NodeState::Up);
        let told = not_up.map(|node| Input::NodeState { node: node.id, state: node.state });
        self.changes.extend(told.collect::<Vec<_>>());
        Ok(self.groups.values().filter_map(|known| known.stripe.clone()).collect())
    }

    fn changes(&mut self) -> Vec<Input> {
        let asked = self.ask_claims().and_then(|()| self.confirm());
        let waits = asked.err().map(|why| why.to_string());
        if let Some(why) = waits.as_ref().filter(|_| waits != self.waits) {
            tracing::warn!(why, "claims and commits wait");
        }
        self.waits = waits;
        std::mem::take(&mut self.changes)
    }

    fn claim(&mut self, now: Time, claim: &Claim) -> Result<(), KeeperError> {
        let (repair, stripe) = (claim.repair, self.stripe(claim.stripe).cloned());
        let is_current = stripe.as_ref().is_some_and(|s| s.generation == claim.generation);
        if self.observes || !is_current || !self.claims.take(now, claim) {
            self.changes.push(Input::ClaimRefused { repair, stripe });
            return Ok(());
        }
        // Claims of others on it have ended by themselves.
        let of_stripe = |(_, of): &(&RepairId, &Building)| of.claim.stripe == claim.stripe;
        let former = self.building.iter().filter(of_stripe).map(|(former, _)| *former);
        for former in former.filter(|former| *former != repair).collect::<Vec<_>>() {
            self.release(former)?;
        }
        self.building.insert(repair, Building { claim: claim.clone(), is_granted: false });
        self.asking.push(claim.clone());
        Ok(())
    }

    fn release(&mut self, repair: RepairId) -> Result<(), KeeperError> {
        self.claims.release(repair);
        let Some(ended) = self.building.remove(&repair) else { return Ok(()) };
        self.note_changes(ended.claim.stripe);
        if !ended.is_granted {
            return Ok(());
        }
        ask(&mut self.namenode, &Question::Release { repair: repair.0 }).map(|DoneAnswer {}| ())
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), KeeperError> {
        let (chunk, repair) = (commit.copy.chunk, commit.repair);
        let stripe = self.stripe(commit.copy.stripe);
        let is_there =
            stripe.is_some_and(|stripe| stripe.copy(chunk) == Some((commit.node, commit.copy)));
        let is_current = stripe
            .is_some_and(|stripe| stripe.generation == commit.generation && can_be(stripe, commit));
        if is_there {
            self.answer(commit, true);
        } else if is_current {
            self.confirming.insert(repair, *commit);
        } else {
            self.refuse(commit);
        }
        Ok(())
    }
}
