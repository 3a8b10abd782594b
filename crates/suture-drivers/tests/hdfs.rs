//! HDFS behind the two seams: the rules that every keeper and every chunk store has to keep, and
//! what only HDFS has.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::plugins::{FakeDataNode, FakeNameNode, POOL, group};
use suture_drivers::hdfs::datanode::DataNodeClient;
use suture_drivers::hdfs::frame::Frames;
use suture_drivers::hdfs::group::{Unit, UnitState, block_id, stamp_of, stripe_id};
use suture_drivers::hdfs::keeper::{BlockLabel, CLAIM_LIFETIME, HdfsKeeper};
use suture_drivers::hdfs::namenode::{ChosenStorage, DataNodeState, Question};
use suture_drivers::hdfs::store::HdfsStore;
use suture_repair::chunk_store::conformance::{self as store_rules, Medium};
use suture_repair::chunk_store::{ChunkStore, Published};
use suture_repair::event::{Claim, Commit, Input, KnownFault, NodeState, RefusedNode};
use suture_repair::id::{ChunkCopy, ChunkIndex, Generation, NodeId, RepairId, StripeId};
use suture_repair::keeper::Keeper;
use suture_repair::keeper::conformance::{self as keeper_rules, Kept};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure};
use suture_repair::stripe::Stripe;
use suture_repair::time::{Span, Time};
use tempfile::TempDir;

/// A NameNode, and a keeper that has asked it once.
struct Hdfs(FakeNameNode, HdfsKeeper<Frames<UnixStream>>);

impl Hdfs {
    /// With one group of `rs(2,1)` on the first three of five nodes.
    fn small() -> Hdfs {
        Hdfs::of_groups(1, &[])
    }

    /// One group of three blocks, of which the second is missing.
    fn lacking_one() -> Hdfs {
        Hdfs::of_groups(1, &[1])
    }

    /// So many groups of three blocks, each without these.
    fn of_groups(count: i64, missing: &[u8]) -> Hdfs {
        let fake = FakeNameNode::with_nodes(5);
        for number in 1..=count {
            let group = group(number, 2048, (2, 1), missing);
            fake.namespace().groups.insert(group.group, group);
        }
        Hdfs::of(fake)
    }

    fn of(fake: FakeNameNode) -> Hdfs {
        let keeper = HdfsKeeper::new(fake.connect(), false);
        let mut hdfs = Hdfs(fake, keeper);
        hdfs.refresh();
        let unknown: Vec<String> = hdfs.1.unknown_nodes().map(|node| node.node.clone()).collect();
        unknown.iter().for_each(|uuid| hdfs.1.know_node(uuid, node_of(uuid)));
        hdfs.refresh();
        hdfs
    }

    fn refresh(&mut self) {
        self.1.refresh().unwrap();
        self.1.refresh_groups().unwrap();
    }

    fn stripe(&mut self) -> Stripe {
        self.1.stripes().unwrap().remove(0)
    }

    /// With its first stripe, and nothing that changed left to be reported.
    fn begun(mut self) -> (Hdfs, Stripe) {
        let stripe = self.stripe();
        self.1.changes();
        (self, stripe)
    }

    /// With its first stripe, of which the second block is to be built on the last node.
    fn claimed(self) -> BeingBuilt {
        let (mut hdfs, stripe) = self.begun();
        let wanted = claim(&stripe, 1, 1, 4);
        hdfs.1.claim(Time::ZERO, &wanted).unwrap();
        hdfs.1.changes();
        BeingBuilt { hdfs, stripe, wanted }
    }

    /// The NameNode knows that the second block of its group is on that DataNode.
    fn knows_of_block(&mut self, datanode: &str) {
        let mut whole = group(1, 2048, (2, 1), &[]);
        whole.units[1].node = datanode.into();
        self.0.namespace().groups.insert(whole.group, whole);
    }
}

/// A group of which a block is being built.
struct BeingBuilt {
    hdfs: Hdfs,
    stripe: Stripe,
    wanted: Claim,
}

fn node_of(uuid: &str) -> NodeId {
    NodeId(uuid[2..].parse().unwrap())
}

impl Kept for Hdfs {
    fn keeper(&mut self) -> &mut dyn Keeper {
        &mut self.1
    }

    fn remove(&mut self, _: StripeId) {
        self.0.namespace().groups.clear();
        self.refresh();
    }

    fn restart(&mut self) {
        *self = Hdfs::of(self.0.clone());
    }

    /// Generations are counted anew, and a copy that a repair made is one of HDFS's.
    fn as_restarted(&self, mut stripe: Stripe) -> Stripe {
        stripe.generation = Generation(1);
        stripe.chunks.iter_mut().for_each(|record| record.stamp = stamp_of(1001));
        stripe
    }

    fn set_node(&mut self, node: NodeId, state: NodeState) -> bool {
        let state = match state {
            NodeState::Up => DataNodeState::Up,
            NodeState::Dead => DataNodeState::Dead,
            NodeState::Decommissioning => DataNodeState::Leaving,
        };
        self.0.namespace().nodes[node.index()].state = state;
        self.refresh();
        true
    }

    fn claim_lifetime(&self) -> Span {
        CLAIM_LIFETIME
    }
}

#[test]
fn a_namenode_keeps_every_promise_of_a_keeper() {
    keeper_rules::check(Hdfs::small);
}

fn claim(stripe: &Stripe, repair: u32, chunk: u8, node: u32) -> Claim {
    let destinations = [(ChunkIndex(chunk), NodeId(node))].into();
    let repair = RepairId::new(3, repair);
    Claim { repair, stripe: stripe.id, generation: stripe.generation, destinations }
}

fn commit(claim: &Claim) -> Commit {
    let (&chunk, &node) = claim.destinations.first_key_value().unwrap();
    let stamp = claim.repair.into();
    let copy = ChunkCopy { stripe: claim.stripe, chunk, stamp };
    Commit { repair: claim.repair, copy, node, generation: claim.generation, clears: None }
}

#[test]
fn a_claim_names_the_storage_of_each_block_and_its_generation_stamp() {
    let (mut hdfs, stripe) = Hdfs::small().begun();
    hdfs.1.claim(Time::ZERO, &claim(&stripe, 1, 1, 4)).unwrap();
    let [Input::Claimed { label, .. }] = &hdfs.1.changes()[..] else { panic!("it is granted") };
    let label: BlockLabel = serde_json::from_slice(label.bytes()).unwrap();
    let storage = ChosenStorage { index: 1, storage: "DS-dn4".into(), kind: "DISK".into() };
    assert_eq!(label, BlockLabel { pool: None, stamp: 1001, targets: vec![storage] });
}

#[test]
fn many_claims_are_asked_in_one_question() {
    let mut hdfs = Hdfs::of_groups(100, &[1]);
    hdfs.1.changes();
    for (repair, stripe) in (0..).zip(hdfs.1.stripes().unwrap()) {
        hdfs.1.claim(Time::ZERO, &claim(&stripe, repair, 1, 4)).unwrap();
    }
    let answers = hdfs.1.changes();
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| matches!(answer, Input::Claimed { .. })));
    let namespace = hdfs.0.namespace();
    let sizes = namespace.asked.iter().filter_map(|question| match question {
        Question::Claim { claims } => Some(claims.len()),
        _ => None,
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [64, 36]);
}

#[test]
fn a_refused_claim_says_how_the_group_stands() {
    let (mut hdfs, stripe) = Hdfs::small().begun();
    {
        let mut namespace = hdfs.0.namespace();
        namespace.refuses = Some("the NameNode is repairing it".into());
        namespace.groups.values_mut().for_each(|group| group.units.truncate(2));
    }
    let wanted = claim(&stripe, 1, 1, 4);
    hdfs.1.claim(Time::ZERO, &wanted).unwrap();
    let answers = hdfs.1.changes();
    let [Input::StripeAdded(changed), Input::ClaimRefused { stripe: Some(stands), .. }] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((changed, stands.chunks[2].node), (stands, None));
    assert!(!hdfs.1.is_building(wanted.repair));
}

#[test]
fn what_a_claim_builds_counts_as_missing_until_its_commit() {
    let BeingBuilt { mut hdfs, stripe, wanted } = Hdfs::lacking_one().claimed();
    // The NameNode has the block before the coordinator asks for the commit.
    hdfs.knows_of_block("dn4");
    hdfs.refresh();
    assert!(hdfs.1.changes().is_empty(), "a repair's success is no change under its feet");
    hdfs.0.namespace().delay = 2;
    hdfs.1.commit(&commit(&wanted)).unwrap();
    assert!(hdfs.1.changes().is_empty() && hdfs.1.changes().is_empty(), "it has not arrived");
    let answers = hdfs.1.changes();
    let [Input::Committed { stripe: after, .. }] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(after.copy(ChunkIndex(1)), Some(commit(&wanted).copy.at(NodeId(4))));
    assert!(hdfs.0.namespace().claims.is_empty(), "its last block ends the claim");
    // At risk no more.
    hdfs.0.namespace().groups.clear();
    hdfs.refresh();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::StripeRemoved(id)] if id == stripe.id), "{answers:?}");
}

#[test]
fn no_node_gets_two_blocks_of_a_group() {
    let (mut hdfs, stripe) = Hdfs::small().begun();
    let onto_another = commit(&claim(&stripe, 1, 1, 2));
    hdfs.1.commit(&onto_another).unwrap();
    let answers = hdfs.1.changes();
    let [Input::CommitRefused { stripe: Some(stands), .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
    // Later than the commit, or the refusal would pass for that of another one.
    assert_eq!(*stands, Stripe { generation: Generation(stripe.generation.0 + 1), ..stripe });
}

#[test]
fn a_block_on_a_datanode_that_died_before_it_told_of_it_is_not_waited_for() {
    let BeingBuilt { mut hdfs, stripe, wanted } = Hdfs::lacking_one().claimed();
    hdfs.0.namespace().delay = 100;
    hdfs.1.commit(&commit(&wanted)).unwrap();
    assert!(hdfs.1.changes().is_empty(), "its word is still on its way");
    assert!(hdfs.set_node(NodeId(4), NodeState::Dead));
    let answers = hdfs.1.changes();
    let refused = answers.iter().find_map(|answer| match answer {
        Input::CommitRefused { repair, stripe } => Some((*repair, stripe.clone().unwrap())),
        _ => None,
    });
    let (repair, stands) = refused.unwrap_or_else(|| panic!("{answers:?}"));
    assert_eq!(repair, wanted.repair);
    assert!(stands.generation > stripe.generation, "{stands:?}");
    // A repair that is refused so may claim the block on another node.
    hdfs.1.release(wanted.repair).unwrap();
    hdfs.1.claim(Time::ZERO, &claim(&stands, 2, 1, 3)).unwrap();
    let answers = hdfs.1.changes();
    assert!(answers.iter().any(|answer| matches!(answer, Input::Claimed { .. })), "{answers:?}");
}

#[test]
fn a_block_that_the_namenode_never_hears_of_is_built_again_and_elsewhere_first() {
    let Hdfs(fake, keeper) = Hdfs::lacking_one();
    let hdfs = Hdfs(fake, keeper.confirm_within(Duration::ZERO));
    let BeingBuilt { mut hdfs, stripe, wanted } = hdfs.claimed();
    hdfs.0.namespace().delay = usize::MAX;
    hdfs.1.commit(&commit(&wanted)).unwrap();
    let answers = hdfs.1.changes();
    let [Input::CommitRefused { repair, stripe: Some(stands) }] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(*repair, wanted.repair);
    assert!(stands.generation > stripe.generation && stands.chunks[1].node.is_none());
    // Its repair has ended with that.
    hdfs.1.release(wanted.repair).unwrap();
    assert!(hdfs.0.namespace().claims.is_empty(), "HDFS may repair it, too");
    // The same node is passed over once: where there is no other it is tried again.
    let again = claim(stands, 2, 1, 4);
    hdfs.1.claim(Time::ZERO, &again).unwrap();
    let answers = hdfs.1.changes();
    let [Input::ClaimRefused { repair, because_of: Some(of), .. }] = &answers[..] else {
        panic!("{answers:?}")
    };
    let RefusedNode { node, why } = of;
    assert_eq!((*repair, *node), (again.repair, NodeId(4)));
    assert!(why.contains("has not heard of a block"), "{why}");
    assert!(hdfs.0.namespace().claims.is_empty(), "it was not asked");
    let last = claim(stands, 3, 1, 4);
    hdfs.1.claim(Time::ZERO, &last).unwrap();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::Claimed { .. }]), "{answers:?}");
    assert!(hdfs.1.refusals().is_empty(), "it is granted");
}

#[test]
fn a_block_that_lies_elsewhere_by_now_is_not_waited_for() {
    let BeingBuilt { mut hdfs, stripe, wanted } = Hdfs::lacking_one().claimed();
    hdfs.0.namespace().delay = usize::MAX;
    hdfs.1.commit(&commit(&wanted)).unwrap();
    assert!(hdfs.1.changes().is_empty(), "its word is still on its way");
    // The node that had it returns.
    hdfs.knows_of_block("dn3");
    let answers = hdfs.1.changes();
    let [Input::StripeAdded(changed), Input::CommitRefused { stripe: Some(stands), .. }] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((changed, stands.chunks[1].node), (stands, Some(NodeId(3))));
    assert!(stands.generation > stripe.generation);
}

#[test]
fn a_claim_that_is_not_prolonged_is_released_and_its_repair_goes_on() {
    let BeingBuilt { mut hdfs, wanted, .. } = Hdfs::lacking_one().claimed();
    hdfs.0.namespace().refuses = Some("the placement policy wants no block of it on dn4".into());
    hdfs.1.claim(Time::ZERO, &wanted).unwrap();
    let answers = hdfs.1.changes();
    let [Input::ClaimLost(lost)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(lost, wanted.repair);
    assert!(hdfs.1.is_building(wanted.repair));
    assert!(hdfs.0.namespace().claims.is_empty(), "what was left of it keeps nobody off");
    hdfs.1.claim(Time::ZERO, &wanted).unwrap();
    assert!(hdfs.1.changes().is_empty());
    let releases = |hdfs: &Hdfs| {
        let namespace = hdfs.0.namespace();
        let is_release = |asked: &&Question| matches!(asked, Question::Release { .. });
        namespace.asked.iter().filter(is_release).count()
    };
    assert_eq!(releases(&hdfs), 1, "there is nothing more to release");
    // What it builds is no change under its feet, and may be claimed again.
    hdfs.knows_of_block("dn4");
    hdfs.refresh();
    assert!(hdfs.1.changes().is_empty());
    hdfs.0.namespace().refuses = None;
    hdfs.1.claim(Time::ZERO, &wanted).unwrap();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::Claimed { .. }]), "{answers:?}");
    hdfs.1.commit(&commit(&wanted)).unwrap();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::Committed { .. }]), "{answers:?}");
    assert_eq!(releases(&hdfs), 2);
}

#[test]
fn a_refusal_that_names_a_node_is_about_that_node() {
    let (mut hdfs, stripe) = Hdfs::lacking_one().begun();
    let mut refused = |repair: u32, node: u32, why: &str| {
        hdfs.0.namespace().refuses = Some(why.into());
        hdfs.1.claim(Time::ZERO, &claim(&stripe, repair, 1, node)).unwrap();
        let answers = hdfs.1.changes();
        let [Input::ClaimRefused { because_of, .. }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(hdfs.1.refusals()[&stripe.id], why);
        because_of.as_ref().map(|of| of.node)
    };
    let policy = "the placement policy wants no block of it on dn4";
    assert_eq!(refused(1, 4, policy), Some(NodeId(4)));
    assert_eq!(refused(2, 3, policy), None, "that one was not asked for");
    assert_eq!(refused(3, 4, "the NameNode is repairing it"), None);
    assert_eq!(refused(4, 4, "no block of it on xdn4"), None, "another name ends like it");
    hdfs.0.namespace().refuses = None;
    hdfs.1.claim(Time::ZERO, &claim(&stripe, 5, 1, 4)).unwrap();
    hdfs.1.changes();
    assert!(hdfs.1.refusals().is_empty());
}

#[test]
fn a_block_that_is_wrong_by_all_others_is_condemned_once_and_counts_as_lost_then() {
    let (mut hdfs, stripe) = Hdfs::lacking_one().begun();
    let wrong = stripe.copy(ChunkIndex(0)).expect("it is there");
    let condemned = |hdfs: &Hdfs| {
        let asked = hdfs.0.namespace().asked.clone();
        asked.iter().filter(|asked| matches!(asked, Question::Condemn { .. })).count()
    };
    // What does not pass its checksums its DataNode reports.
    hdfs.1.note_fault(wrong, Some(KnownFault::Corrupt));
    assert!(hdfs.1.changes().is_empty() && condemned(&hdfs) == 0);
    hdfs.1.note_fault(wrong, Some(KnownFault::Inconsistent));
    let changes = hdfs.1.changes();
    let [Input::StripeAdded(without)] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((without.chunks[0].node, without.generation), (None, Generation(2)));
    assert!(hdfs.1.changes().is_empty() && condemned(&hdfs) == 1);
    // Of a group that is gone there is nothing to say.
    hdfs.1.note_fault(wrong, Some(KnownFault::Inconsistent));
    hdfs.0.namespace().groups.clear();
    assert!(matches!(hdfs.1.changes()[..], [Input::StripeRemoved(_)]));
}

#[test]
fn a_question_about_claims_that_fails_costs_no_others() {
    let mut hdfs = Hdfs::of_groups(100, &[1]);
    hdfs.1.changes();
    for (repair, stripe) in (0..).zip(hdfs.1.stripes().unwrap()) {
        hdfs.1.claim(Time::ZERO, &claim(&stripe, repair, 1, 4)).unwrap();
    }
    hdfs.0.namespace().fails = 1;
    assert!(hdfs.1.changes().is_empty());
    let answers = hdfs.1.changes();
    assert_eq!(answers.len(), 36, "those behind it");
    assert!(answers.iter().all(|answer| matches!(answer, Input::Claimed { .. })));
}

#[test]
fn a_claim_that_fails_again_and_again_waits_until_it_is_answered() {
    let (mut hdfs, stripe) = Hdfs::lacking_one().begun();
    assert_eq!(hdfs.1.claim_waits(), None);
    hdfs.0.namespace().fails = 2;
    let (wanted, mut waited) = (claim(&stripe, 5, 1, 4), None);
    for _ in 0..2 {
        hdfs.1.claim(Time::ZERO, &wanted).unwrap();
        assert!(hdfs.1.changes().is_empty());
        // As the core asks again, it is the same one.
        assert!(hdfs.1.claim_waits().is_some() && hdfs.1.claim_waits() >= waited);
        waited = hdfs.1.claim_waits();
    }
    hdfs.1.claim(Time::ZERO, &wanted).unwrap();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::Claimed { .. }]), "{answers:?}");
    assert_eq!(hdfs.1.claim_waits(), None);
    // No answer is waited for about a block that is not wanted any more.
    hdfs.1.release(wanted.repair).unwrap();
    hdfs.0.namespace().fails = 1;
    hdfs.1.claim(Time::ZERO, &claim(&stripe, 6, 1, 4)).unwrap();
    assert!(hdfs.1.changes().is_empty() && hdfs.1.claim_waits().is_some());
    hdfs.1.release(RepairId::new(3, 6)).unwrap();
    assert_eq!(hdfs.1.claim_waits(), None);
}

#[test]
fn what_leaving_nodes_hold_is_read_until_the_others_are_rebuilt() {
    let fake = FakeNameNode::with_nodes(5);
    let mut leaving = group(1, 2048, (2, 1), &[]);
    leaving.units[..2].iter_mut().for_each(|unit| unit.state = UnitState::Leaving);
    fake.namespace().groups.insert(leaving.group, leaving.clone());
    let BeingBuilt { mut hdfs, stripe, wanted } = Hdfs::of(fake).claimed();
    let nodes = |stripe: &Stripe| -> Vec<Option<u32>> {
        stripe.chunks.iter().map(|chunk| chunk.node.map(|node| node.0)).collect()
    };
    assert_eq!(nodes(&stripe), [Some(0), None, Some(2)], "two are needed");
    // The NameNode has the block before it is committed.
    leaving.units[1] = Unit { index: 1, node: "dn4".into(), state: UnitState::Live };
    hdfs.0.namespace().groups.insert(leaving.group, leaving);
    hdfs.refresh();
    assert!(hdfs.1.changes().is_empty(), "what the repair reads stays");
    hdfs.1.commit(&commit(&wanted)).unwrap();
    let answers = hdfs.1.changes();
    let [Input::Committed { stripe: after, .. }, Input::StripeAdded(last)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(nodes(after), [Some(0), Some(4), Some(2)]);
    assert_eq!(nodes(last), [None, Some(4), Some(2)], "now it is wanted elsewhere, too");
    assert!(last.generation > after.generation);
}

#[test]
fn a_released_repair_leaves_what_hdfs_has_by_then() {
    let BeingBuilt { mut hdfs, wanted, .. } = Hdfs::lacking_one().claimed();
    hdfs.knows_of_block("dn4");
    hdfs.refresh();
    // Its agent died between the DataNode's word and its own.
    hdfs.1.release(wanted.repair).unwrap();
    let answers = hdfs.1.changes();
    let [Input::StripeAdded(found)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(found.copy(ChunkIndex(1)).unwrap().node, NodeId(4));
    assert!(hdfs.0.namespace().claims.is_empty());
}

#[test]
fn groups_that_are_not_served_are_left_to_hdfs() {
    let mut legacy = group(1, 2048, (2, 1), &[1]);
    legacy.codec = "rs-legacy".into();
    let fake = FakeNameNode::with_nodes(5);
    fake.namespace().groups.insert(legacy.group, legacy.clone());
    let mut hdfs = Hdfs::of(fake);
    assert!(hdfs.1.stripes().unwrap().is_empty());
    let left = hdfs.1.left(std::iter::empty());
    assert_eq!(left, [stripe_id(legacy.group)]);
    hdfs.1.lease(5000, &left).unwrap();
    let namespace = hdfs.0.namespace();
    assert_eq!((namespace.lease_millis, &namespace.left[..]), (5000, &[legacy.group][..]));
}

#[test]
fn what_hdfs_cannot_rebuild_either_is_not_left_to_it() {
    let fake = FakeNameNode::with_nodes(5);
    // Of three blocks that rebuild a lost one two are there, and one.
    let groups = [group(1, 2048, (2, 1), &[1]), group(2, 2048, (2, 1), &[0, 1])];
    for group in &groups {
        fake.namespace().groups.insert(group.group, group.clone());
    }
    let hdfs = Hdfs::of(fake);
    let waiting = groups.each_ref().map(|group| stripe_id(group.group));
    assert_eq!(hdfs.1.left(waiting.into_iter()), [waiting[0]]);
}

#[test]
fn who_observes_claims_nothing() {
    let fake = Hdfs::small().0;
    let mut keeper = HdfsKeeper::new(fake.connect(), true);
    keeper.refresh().unwrap();
    (0..5).for_each(|node| keeper.know_node(&format!("dn{node}"), NodeId(node)));
    keeper.refresh_groups().unwrap();
    let stripe = keeper.stripes().unwrap().remove(0);
    keeper.changes();
    keeper.claim(Time::ZERO, &claim(&stripe, 1, 1, 4)).unwrap();
    let answers = keeper.changes();
    assert!(matches!(answers[..], [Input::ClaimRefused { .. }]), "{answers:?}");
    assert!(fake.namespace().claims.is_empty());
}

#[test]
fn a_namenode_that_is_gone_is_asked_again() {
    let BeingBuilt { mut hdfs, .. } = Hdfs::small().claimed();
    // Another NameNode, or this one anew: it knows of no claim.
    hdfs.0.namespace().claims.clear();
    *hdfs.1.namenode() = hdfs.0.connect();
    hdfs.1.reconnected();
    hdfs.refresh();
    let answers = hdfs.1.changes();
    let expected = matches!(answers[..], [Input::ClaimLost(_), Input::Claimed { .. }]);
    assert!(expected, "nothing is published in between: {answers:?}");
    assert_eq!(hdfs.0.namespace().claims.len(), 1);
}

#[test]
fn a_group_that_is_well_at_the_namenode_of_now_is_forgotten_when_its_repair_has_ended() {
    let BeingBuilt { mut hdfs, stripe, wanted } = Hdfs::lacking_one().claimed();
    // The other NameNode has all of the group's blocks, and never reports the group.
    hdfs.0.namespace().groups.clear();
    hdfs.0.namespace().claims.clear();
    *hdfs.1.namenode() = hdfs.0.connect();
    hdfs.1.reconnected();
    hdfs.refresh();
    assert!(hdfs.1.is_building(wanted.repair));
    let answers = hdfs.1.changes();
    let is_removal = |answer: &Input| matches!(answer, Input::StripeRemoved(_));
    assert!(!answers.iter().any(is_removal), "{answers:?}");
    hdfs.1.release(wanted.repair).unwrap();
    let answers = hdfs.1.changes();
    assert!(matches!(answers[..], [Input::StripeRemoved(id)] if id == stripe.id), "{answers:?}");
    assert!(hdfs.1.stripes().unwrap().is_empty());
}

/// A DataNode behind an agent's store.
struct Blocks {
    datanode: FakeDataNode,
    spool: TempDir,
    store: Option<Arc<HdfsStore>>,
}

impl Blocks {
    fn new() -> Blocks {
        let spool = tempfile::tempdir().unwrap();
        Blocks { datanode: FakeDataNode::start(), spool, store: None }
    }

    fn store(&mut self) -> Arc<HdfsStore> {
        let client = DataNodeClient::new(&self.datanode.socket, None).unwrap();
        let store = Arc::new(HdfsStore::new(client, POOL, self.spool.path()));
        self.store = Some(store.clone());
        store
    }
}

impl Medium for Blocks {
    fn open(&mut self) -> Arc<dyn ChunkStore> {
        self.store()
    }

    /// The agent is gone; the DataNode stays, and files without names are gone with it.
    fn crash(&mut self) {
        self.store = None;
    }

    fn damage(&mut self, copy: ChunkCopy, offset: u64) {
        let mut blocks = self.datanode.blocks.lock().unwrap();
        let block = blocks.get_mut(&block_id(copy.stripe, copy.chunk)).unwrap();
        block.bytes[offset as usize] ^= 1;
    }

    fn unfinished_count(&self) -> usize {
        self.store.as_ref().map_or(0, |store| store.unfinished_count())
    }

    fn deletes(&self) -> bool {
        false
    }
}

#[test]
fn a_datanode_keeps_every_promise_of_a_chunk_store() {
    store_rules::check(Blocks::new);
}

#[test]
fn a_rebuilt_block_gets_the_stamp_of_its_group_and_is_read_under_either_name() {
    let mut blocks = Blocks::new();
    let store = blocks.store();
    let copy =
        ChunkCopy { stripe: StripeId(5), chunk: ChunkIndex(7), stamp: RepairId::new(9, 1).into() };
    let label_of = |pool: &str| {
        let label = BlockLabel { pool: Some(pool.into()), stamp: 1042, targets: vec![] };
        Label::new(&serde_json::to_vec(&label).unwrap()).unwrap()
    };
    let label = label_of(POOL);
    let writer = store.begin(3000).unwrap();
    writer.write(0, &[7; 3000]).unwrap();
    writer.prove(None, &mut |_| ()).unwrap();
    let unnamed = writer.publish(copy, &Label::default()).unwrap_err();
    assert!(matches!(&unnamed, Failure::Disk(why) if why.contains("generation stamp")));
    let foreign = writer.publish(copy, &label_of("BP-2")).unwrap_err();
    assert!(matches!(&foreign, Failure::Disk(why) if why.contains("is of block pool BP-2")));
    assert_eq!(writer.publish(copy, &label), Ok(Published::Named));
    let stored = blocks.datanode.blocks.lock().unwrap()[&block_id(copy.stripe, copy.chunk)].clone();
    assert_eq!((stored.stamp, stored.bytes), (1042, vec![7; 3000]));
    assert_eq!(store.list().unwrap()[0].copy, copy);
    let by_hdfs = ChunkCopy { stamp: stamp_of(1042), ..copy };
    assert_eq!((store.check(copy), store.check(by_hdfs)), (Ok(()), Ok(())));
    let stale = ChunkCopy { stamp: stamp_of(1041), ..copy };
    assert_eq!(store.check(stale), Err(CopyFault::Missing));
    // A store that starts anew knows it by HDFS's name.
    assert_eq!(blocks.store().list().unwrap()[0].copy, by_hdfs);
}

#[test]
fn a_datanode_that_is_gone_makes_blocks_unreadable_not_missing() {
    let blocks = Blocks::new();
    let nowhere = blocks.spool.path().join("nobody.sock");
    let store =
        HdfsStore::new(DataNodeClient::new(&nowhere, None).unwrap(), POOL, blocks.spool.path());
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: stamp_of(1) };
    assert_eq!(store.open(copy).err(), Some(CopyFault::Unreadable));
    assert!(matches!(store.list(), Err(Failure::Disk(_))));
    let error = DataNodeClient::new(&nowhere, Some("no such user")).unwrap_err();
    assert!(error.contains("no such user"), "{error}");
}

#[test]
fn a_socket_of_another_user_is_not_spoken_to() {
    let blocks = Blocks::new();
    // The user that runs this test is not both.
    let other = if rustix::process::geteuid().is_root() { "nobody" } else { "root" };
    let client = DataNodeClient::new(&blocks.datanode.socket, Some(other)).unwrap();
    let error = client.hello().unwrap_err().to_string();
    assert!(error.contains("correct [hdfs] user"), "{error}");
}
