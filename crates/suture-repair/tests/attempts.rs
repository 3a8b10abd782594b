//! How attempts end, in whole and in part: which agents are notified, what is claimed, and what
//! operators see.

use std::collections::BTreeSet;

use crate::story::{Story, bad, copy, stripe};
use suture_repair::coordinator::Config;
use suture_repair::event::{
    Blocked, Claim, Command, Commit, Health, Input, Liveness, Output, RefusedNode, Report, Timers,
};
use suture_repair::id::{ChunkIndex, CopyAt, Generation, NodeId, RepairId, StripeId};
use suture_repair::label::Label;
use suture_repair::message::{CopyFault, Failure, FromAgent, Heartbeat, Task, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::stripe::Stripe;
use suture_repair::time::{Span, Time};

/// The chunks 0 and 1 of a stripe are lost together, and may be rebuilt together.
fn lose_two(story: &mut Story) {
    (0..8).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::Pause));
    (0..2).for_each(|node| story.give(Input::Operator(Command::FailNode(NodeId(node)))));
    story.give(Input::Operator(Command::Resume));
}

/// Both in one repair.
fn two_chunks() -> (Story, Task) {
    let mut story = Story::new(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let task = story.dispatched().remove(0);
    assert_eq!(task.plan.lost.len(), 2, "both in one go");
    (story, task)
}

/// The same, claimed and granted.
fn two_claimed_chunks() -> (Story, Task) {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let claims = claims(&story.take());
    let [(repair, _)] = claims[..] else { panic!("one claim, not {claims:?}") };
    story.give(Input::Claimed { repair, label: Label::default() });
    let task = story.dispatched().remove(0);
    (story, task)
}

fn claims(said: &[Output]) -> Vec<(RepairId, Generation)> {
    let claim = |output: &Output| match output {
        Output::Claim(claim) => Some((claim.repair, claim.generation)),
        _ => None,
    };
    said.iter().filter_map(claim).collect()
}

fn released(said: &[Output]) -> Vec<RepairId> {
    let release = |output: &Output| match output {
        Output::ReleaseClaim(repair) => Some(*repair),
        _ => None,
    };
    said.iter().filter_map(release).collect()
}

/// The agents that are sent a `Cancel` of the repair.
fn cancelled(said: &[Output], repair: RepairId) -> BTreeSet<NodeId> {
    let cancel = |output: &Output| match output {
        Output::Send { to, message } => (*message == ToAgent::Cancel(repair)).then_some(*to),
        _ => None,
    };
    said.iter().filter_map(cancel).collect()
}

fn fail(story: &mut Story, node: NodeId, repair: RepairId) -> Vec<Output> {
    story.take();
    story.hear(node.0, FromAgent::Failed { repair, why: Failure::Stalled });
    story.take()
}

/// A helper of the task.
fn helper(task: &Task) -> NodeId {
    let keeps = |node: &NodeId| task.plan.destinations.values().any(|to| to == node);
    task.plan.participants().into_iter().find(|node| !keeps(node)).expect("somebody helps")
}

#[test]
fn a_failure_ends_what_flows_and_leaves_the_chunk_that_is_durable() {
    let (mut story, task) = two_chunks();
    let commit = story.store(&task);
    let said = fail(&mut story, helper(&task), task.repair);
    let mut workers: BTreeSet<NodeId> = task.plan.participants().into_iter().collect();
    workers.remove(&commit.node);
    assert_eq!(cancelled(&said, task.repair), workers, "but not who has done its part");
    let running = story.core.status().running;
    let chunks: Vec<ChunkIndex> = running.iter().map(|line| line.chunk).collect();
    assert_eq!(chunks, [commit.copy.chunk], "its location is being changed");
    assert!(story.dispatched().is_empty(), "one repair of a stripe at a time");
    story.accept(commit);
    let status = story.core.status();
    assert_eq!((status.repaired_chunks, status.lost_chunks), (1, 1));
    story.wait(1, 2..8);
    let next = story.dispatched().remove(0);
    assert_eq!(next.plan.lost, [ChunkIndex(1 - commit.copy.chunk.0)]);
}

#[test]
fn a_second_failure_of_what_does_not_flow_any_more_changes_nothing() {
    let (mut story, task) = two_chunks();
    let commit = story.store(&task);
    fail(&mut story, helper(&task), task.repair);
    let said = fail(&mut story, helper(&task), task.repair);
    assert!(cancelled(&said, task.repair).is_empty(), "{said:?}");
    let is_failure = |output: &Output| matches!(output, Output::Report(Report::Failed { .. }));
    assert!(!said.iter().any(is_failure), "{said:?}");
    story.accept(commit);
    assert_eq!(story.core.status().repaired_chunks, 1);
}

#[test]
fn the_locations_of_two_chunks_are_changed_one_after_the_other() {
    let (mut story, task) = two_chunks();
    let first = story.store(&task);
    story.store_chunk(&task, ChunkIndex(1 - first.copy.chunk.0));
    assert_eq!(story.committing(), None, "the first one is not answered");
    story.accept(first);
    let second = story.committing().expect("now it is its turn");
    assert_eq!(second.generation, Generation(2));
    story.accept(second);
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.running.len()), (0, 0));
    assert_eq!((status.repaired_chunks, status.repaired_bytes), (2, 2 * 4096));
}

#[test]
fn what_came_back_during_a_commit_is_not_rebuilt_before_what_is_lost() {
    let (mut story, task) = two_chunks();
    let first = story.store(&task);
    // While the location is being changed, which ends nothing, both come back and another is lost.
    for node in 0..2 {
        story.give(Input::Operator(Command::ReturnNode(NodeId(node))));
        story.join_with(node, Abilities::ALL);
    }
    story.hear(3, bad(copy(0, 3, 0), CopyFault::Corrupt));
    story.take();
    story.accept(first);
    let said = story.take();
    assert!(!cancelled(&said, task.repair).is_empty(), "{said:?}");
    story.said = said;
    let [next] = &story.dispatched()[..] else { panic!("what is lost is rebuilt") };
    assert_eq!(next.plan.lost, [ChunkIndex(3)]);
}

#[test]
fn a_participant_that_fails_after_its_part_ends_the_repair_while_others_work() {
    let (mut story, task) = two_chunks();
    let commit = story.store(&task);
    story.take();
    story.give(Input::Operator(Command::FailNode(commit.node)));
    assert!(!cancelled(&story.take(), task.repair).is_empty());
}

#[test]
fn when_nothing_flows_any_more_the_death_of_a_helper_changes_nothing() {
    let (mut story, task) = two_chunks();
    let first = story.store(&task);
    story.store_chunk(&task, ChunkIndex(1 - first.copy.chunk.0));
    story.take();
    story.give(Input::Operator(Command::FailNode(helper(&task))));
    let said = story.take();
    assert!(cancelled(&said, task.repair).is_empty(), "{said:?}");
    story.accept(first);
    assert_eq!(story.core.status().repaired_chunks, 1);
}

#[test]
fn a_claim_is_asked_for_again_when_it_is_not_answered_and_not_before() {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let first = claims(&story.take());
    assert_eq!(first[0].1, Generation(1));
    story.wait(3, 2..8);
    assert_eq!(claims(&story.take()), [], "the keeper may take its time");
    story.wait(8, 2..8);
    let again = claims(&story.take());
    assert!(!again.is_empty() && again.len() <= 2, "each few seconds: {again:?}");
    assert!(again.iter().all(|claim| *claim == first[0]));
    assert!(story.dispatched().is_empty(), "nobody is told before");
    story.give(Input::Claimed { repair: first[0].0, label: Label::default() });
    assert_eq!(story.dispatched().len(), 1);
    story.wait(12, 2..8);
    assert_eq!(claims(&story.take()), [], "it was granted");
}

#[test]
fn a_claim_that_is_not_answered_for_long_is_no_repair_that_stands_still() {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let first = claims(&story.take())[0];
    story.wait(60, 2..8);
    let said = story.take();
    assert!(claims(&said).iter().all(|claim| *claim == first), "{said:?}");
    let is_failure = |output: &Output| matches!(output, Output::Report(Report::Failed { .. }));
    assert!(!said.iter().any(is_failure), "{said:?}");
    // It counts from its answer on.
    story.give(Input::Claimed { repair: first.0, label: Label::default() });
    story.wait(15, 2..8);
    assert!(!story.take().iter().any(is_failure));
    story.wait(15, 2..8);
    assert!(story.take().iter().any(is_failure));
}

#[test]
fn a_claim_ends_with_the_last_commit_and_needs_no_release() {
    let (mut story, task) = two_claimed_chunks();
    let first = story.store(&task);
    story.store_chunk(&task, ChunkIndex(1 - first.copy.chunk.0));
    story.accept(first);
    let second = story.committing().expect("both are durable");
    story.accept(second);
    assert_eq!(released(&story.take()), []);
}

#[test]
fn a_claim_is_released_once_when_part_of_its_repair_failed() {
    let (mut story, task) = two_claimed_chunks();
    let commit = story.store(&task);
    let said = fail(&mut story, helper(&task), task.repair);
    assert_eq!(released(&said), [], "a chunk of it is still to be committed");
    story.accept(commit);
    assert_eq!(released(&story.take()), [task.repair]);
}

#[test]
fn a_claim_is_released_when_one_of_its_commits_was_refused() {
    let (mut story, task) = two_claimed_chunks();
    let first = story.store(&task);
    story.store_chunk(&task, ChunkIndex(1 - first.copy.chunk.0));
    let mut current = stripe(0, [0, 1, 2, 3]);
    current.generation = Generation(2);
    story.take();
    story.give(Input::CommitRefused { repair: first.repair, stripe: Some(current) });
    let said = story.take();
    assert_eq!(released(&said), [], "the other chunk is asked for");
    let is_commit = |output: &&Output| matches!(output, Output::Commit(_));
    let Some(Output::Commit(second)) = said.iter().find(is_commit) else { panic!("{said:?}") };
    assert_eq!(second.generation, Generation(2));
    story.accept(*second);
    assert_eq!(released(&story.take()), [task.repair]);
}

#[test]
fn a_claim_is_released_when_its_repair_ends_before_it_is_answered() {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let repair = claims(&story.take())[0].0;
    story.give(Input::Operator(Command::Cancel));
    let said = story.take();
    assert_eq!(released(&said), [repair]);
    assert!(cancelled(&said, repair).is_empty(), "nobody was told of it: {said:?}");
}

#[test]
fn a_repair_that_is_being_claimed_does_not_begin_on_a_node_that_is_to_be_given_nothing() {
    let drained = Command::DrainNode;
    let paused = |node| Command::PauseNode { node, span: Span::from_secs(60) };
    for unwanted in [&drained as &dyn Fn(NodeId) -> Command, &paused] {
        let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
        lose_two(&mut story);
        let said = story.take();
        let claim = said.iter().find_map(|output| match output {
            Output::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        let claim = claim.expect("it is claimed");
        let node = *claim.destinations.values().next().expect("it has destinations");
        story.give(Input::Operator(unwanted(node)));
        let said = story.take();
        assert_eq!(released(&said), [claim.repair]);
        let [(again, _)] = claims(&said)[..] else { panic!("it is planned anew: {said:?}") };
        story.give(Input::Claimed { repair: claim.repair, label: Label::default() });
        assert!(story.dispatched().is_empty(), "the answer came too late");
        story.give(Input::Claimed { repair: again, label: Label::default() });
        let [task] = &story.dispatched()[..] else { panic!("it begins") };
        assert!(task.plan.destinations.values().all(|to| *to != node), "{task:?}");
    }
}

#[test]
fn operators_see_each_chunk_of_a_repair_and_how_far_it_is() {
    let (mut story, task) = two_chunks();
    let since = story.now;
    story.wait(1, 2..8);
    let destination = task.plan.destinations[&ChunkIndex(1)];
    for bytes in [2048, 1024] {
        let running = vec![(task.repair, bytes)];
        let beat = Heartbeat { incarnation: 1, running, ..Heartbeat::default() };
        story.hear(destination.0, FromAgent::Heartbeat(beat));
    }
    let line = |story: &Story, chunk: u8| -> (u64, u64, Time, NodeId) {
        let running = story.core.status().running;
        let line = running.iter().find(|line| line.chunk == ChunkIndex(chunk)).expect("it runs");
        assert_eq!((line.repair, line.stripe), (task.repair, StripeId(0)));
        (line.bytes_done, line.bytes, line.since, line.destination)
    };
    assert_eq!(line(&story, 1), (2048, 4096, since, destination), "as far as it ever was");
    assert_eq!(line(&story, 0).0, 0);
    let commit = story.store(&task);
    assert_eq!(line(&story, commit.copy.chunk.0).0, 4096, "all of it is durable");
}

#[test]
fn operators_see_what_is_lost_and_how_much_more_may_be() {
    let mut story = Story::new(8, (0..3).map(|id| stripe(id, [0, 1, 2, 3 + id as u32])));
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(3))));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.lost_bytes), (1, 4096));
    assert_eq!((status.degraded, status.unreadable, status.queued), (1, 0, 1));
    assert_eq!(status.at_risk, [0, 1], "one stripe can lose one more");
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.lost_bytes), (4, 4 * 4096));
    assert_eq!((status.degraded, status.unreadable, status.queued), (3, 0, 3));
    assert_eq!(status.at_risk, [1, 2]);
    // A silent node is not lost, and cannot be read.
    story.give(Input::AgentLost(NodeId(1)));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.degraded, status.unreadable), (4, 3, 1));
    let nodes: Vec<(Health, u64)> =
        status.nodes.iter().map(|node| (node.health, node.chunks)).collect();
    let (failed, suspect) = (Health::Failed, Health::Suspect);
    assert_eq!(nodes[..4], [(failed, 3), (suspect, 3), (Health::Up, 3), (failed, 1)]);
    assert_eq!((status.nodes.len(), status.nodes[2].free_bytes), (8, 1 << 30));
}

#[test]
fn a_refusal_older_than_what_is_known_lets_the_stripe_be_repaired_again() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    let at = |generation| {
        let mut stripe = stripe(0, [0, 1, 2, 3]);
        stripe.generation = Generation(generation);
        stripe
    };
    story.give(Input::StripeAdded(at(5)));
    assert!(story.dispatched().is_empty(), "the commit is not answered");
    story.give(Input::CommitRefused { repair: commit.repair, stripe: Some(at(3)) });
    let next = story.dispatched().remove(0);
    assert_eq!((next.plan.lost.len(), next.stripe.generation), (1, Generation(5)));
}

/// One chunk is rebuilt and durable, and its commit is asked for.
fn committing() -> (Story, Commit) {
    let keeps = |config| Config { deletes: false, ..config };
    let stripes = [stripe_at(2, [0, 1, 2, 3])];
    let mut story = Story::configured(keeps, ("suture", Liveness::Own), 6, stripes);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    (story, commit)
}

fn stripe_at(generation: u64, nodes: [u32; 4]) -> Stripe {
    Stripe { generation: Generation(generation), ..stripe(0, nodes) }
}

#[test]
fn a_commit_that_is_older_than_what_is_known_lets_the_stripe_be_repaired_again() {
    let (mut story, commit) = committing();
    story.give(Input::StripeAdded(stripe_at(5, [0, 1, 2, 3])));
    let mut then = stripe_at(3, [0, 1, 2, 3]);
    let record = &mut then.chunks[usize::from(commit.copy.chunk.0)];
    (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
    story.take();
    story.give(Input::Committed { repair: commit.repair, stripe: then });
    let next = story.dispatched();
    let [next] = &next[..] else { panic!("the chunk is lost still: {next:?}") };
    assert_eq!(next.stripe.generation, Generation(5));
}

#[test]
fn a_stripe_that_was_removed_and_is_named_again_is_repaired() {
    let (mut story, commit) = committing();
    story.give(Input::StripeRemoved(StripeId(0)));
    story.give(Input::StripeAdded(stripe_at(1, [0, 1, 2, 3])));
    story.take();
    let current = Some(stripe_at(1, [0, 1, 2, 3]));
    story.give(Input::CommitRefused { repair: commit.repair, stripe: current });
    assert_eq!(story.dispatched().len(), 1);
}

#[test]
fn a_repair_ends_when_the_keeper_has_its_chunk_elsewhere() {
    let mut story = Story::new(6, [stripe_at(2, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let free = (4..6).map(NodeId).find(|node| *node != task.plan.destinations[&ChunkIndex(0)]);
    story.give(Input::StripeAdded(stripe_at(3, [free.unwrap().0, 1, 2, 3])));
    assert!(!cancelled(&story.take(), task.repair).is_empty());
    assert_eq!((story.core.running().count(), story.core.status().queued), (0, 0));
}

#[test]
fn a_claim_that_is_granted_again_is_not_released_under_a_repair_that_goes_on() {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    (0..8).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let repair = claims(&story.take())[0].0;
    let granted = || Input::Claimed { repair, label: Label::default() };
    story.give(granted());
    let task = story.dispatched().remove(0);
    let (keeps, why) = (task.plan.destinations[&ChunkIndex(0)], Failure::PeerLost(helper(&task)));
    story.hear(keeps.0, FromAgent::Failed { repair, why });
    let next = story.dispatched().remove(0);
    assert_eq!(next.continues, Some(repair));
    story.give(granted());
    assert_eq!(released(&story.take()), [], "it goes on under the claim");
    assert_eq!(released(&fail(&mut story, helper(&next), next.repair)), [repair]);
    story.give(granted());
    assert_eq!(released(&story.take()), [repair], "nothing does any more");
}

#[test]
fn a_commit_ends_the_trouble_that_its_stripe_had() {
    let (mut story, mut task) = two_chunks();
    for _ in 0..4 {
        fail(&mut story, helper(&task), task.repair);
        story.wait(3, 2..8);
        task = story.dispatched().pop().expect("it is tried again");
    }
    let commit = story.store(&task);
    fail(&mut story, helper(&task), task.repair);
    story.accept(commit);
    story.wait(12, 2..8);
    let next = story.dispatched().pop().expect("the other chunk");
    let commits_before = story.core.status().repaired_chunks;
    fail(&mut story, helper(&next), next.repair);
    story.wait(1, 2..8);
    assert_eq!((commits_before, story.dispatched().len()), (1, 1), "it waits as after the first");
}

#[test]
fn a_claim_that_is_refused_because_the_stripe_has_changed_is_asked_for_anew() {
    let mut story = Story::that_claims(8, [stripe(0, [0, 1, 2, 3])]);
    lose_two(&mut story);
    let (repair, _) = claims(&story.take())[0];
    let mut current = stripe(0, [5, 1, 2, 3]);
    current.generation = Generation(2);
    story.give(Input::ClaimRefused { repair, stripe: Some(current), because_of: None });
    let [(again, generation)] = claims(&story.take())[..] else { panic!("one claim") };
    assert_eq!((again > repair, generation), (true, Generation(2)));
    assert!(!story.core.is_lost(StripeId(0), ChunkIndex(0)), "somebody else has repaired it");
    story.give(Input::ClaimRefused { repair: again, stripe: None, because_of: None });
    assert_eq!(story.core.stripes().iter().count(), 0, "it was removed");
}

#[test]
fn nodes_that_the_keeper_refuses_are_passed_over_until_all_were_tried() {
    let mut story = Story::that_claims(7, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let mut refused = BTreeSet::new();
    for _ in 0..3 {
        let mut said = story.take();
        for _ in 0..100 {
            if !claims(&said).is_empty() {
                break;
            }
            story.wait(1, 1..7);
            said = story.take();
        }
        let claim = said.iter().find_map(|output| match output {
            Output::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        let Claim { repair, stripe, destinations, .. } = claim.expect("it is tried again");
        let node = destinations[&ChunkIndex(0)];
        assert!(refused.insert(node), "{node} was refused before");
        let stripe = story.core.stripes().get(stripe).cloned();
        let because_of = Some(RefusedNode { node, why: "full".into() });
        story.give(Input::ClaimRefused { repair, stripe, because_of });
    }
    assert_eq!(refused, [4, 5, 6].map(NodeId).into());
    assert!(story.core.status().blocked.iter().all(|(_, why)| *why != Blocked::Claimed));
    // Nothing is made of the word about a node that is silent.
    story.wait(12, 1..7);
    let (repair, _) = claims(&story.take())[0];
    let because_of = Some(RefusedNode { node: NodeId(0), why: "full".into() });
    let stripe = story.core.stripes().get(StripeId(0)).cloned();
    story.give(Input::ClaimRefused { repair, stripe, because_of });
    assert_eq!(story.core.status().blocked, [(StripeId(0), Blocked::Claimed)]);
}

#[test]
fn a_claim_that_was_granted_is_prolonged_for_what_is_left() {
    let claim_prolong = Span::from_secs(6);
    let claiming = |config: Config| Config {
        claims: true,
        timers: Timers { claim_prolong, ..config.timers },
        ..config
    };
    let stripes = [stripe(0, [0, 1, 2, 3])];
    let mut story = Story::configured(claiming, ("suture", Liveness::Own), 8, stripes);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let (repair, _) = claims(&story.take())[0];
    story.give(Input::Claimed { repair, label: Label::default() });
    story.take();
    story.wait(4, 1..8);
    assert_eq!(claims(&story.take()), []);
    story.wait(8, 1..8);
    assert_eq!(claims(&story.take()), [(repair, Generation(1))]);
    // It goes on whatever the answer is.
    story.give(Input::ClaimRefused { repair, stripe: None, because_of: None });
    assert_eq!(story.core.running().collect::<Vec<_>>(), [StripeId(0)]);
}

#[test]
fn a_commit_that_succeeds_after_its_stripe_was_removed_ends_the_rest_of_its_repair() {
    let (mut story, task) = two_chunks();
    let commit = story.store(&task);
    let mut stripe = story.core.stripes().get(StripeId(0)).expect("known").clone();
    let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
    (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
    stripe.generation.0 += 1;
    story.give(Input::StripeRemoved(StripeId(0)));
    story.take();
    story.give(Input::Committed { repair: commit.repair, stripe });
    let said = story.take();
    assert!(!cancelled(&said, task.repair).is_empty(), "{said:?}");
    assert_eq!(story.core.running().count(), 0);
    let is_delete = |output: &Output| match output {
        Output::Send { to, message: ToAgent::Delete { copy, .. } } => {
            (*to, *copy) == (commit.node, commit.copy)
        }
        _ => false,
    };
    assert!(said.iter().any(is_delete), "its copy is an orphan: {said:?}");
}

#[test]
fn a_chunk_on_a_silent_node_is_missing_and_not_lost() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 4, 2, 3])]);
    story.give(Input::AgentLost(NodeId(1)));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.degraded, status.unreadable), (0, 1, 0));
    let known = story.core.stripes().get(StripeId(0)).expect("known");
    let state = story.core.stripe_state(known);
    assert_eq!((state.missing, state.readable_bytes, state.is_readable), (1, 3 * 4096, true));
    [0, 2, 3].into_iter().for_each(|node| story.give(Input::AgentLost(NodeId(node))));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.degraded, status.unreadable), (0, 2, 2));
}

#[test]
fn what_could_not_be_read_is_missing_until_it_is_read_well() {
    let mut story = Story::new(5, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 4, 2, 3])]);
    let copy = |story: &Story, chunk| {
        let known = story.core.stripes().get(StripeId(0)).expect("known");
        known.copy(ChunkIndex(chunk)).expect("it is somewhere")
    };
    for chunk in 0..2 {
        let CopyAt { node, copy } = copy(&story, chunk);
        story.hear(node.0, bad(copy, CopyFault::Unreadable));
    }
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.degraded, status.unreadable), (0, 1, 0));
    let CopyAt { node, copy: third } = copy(&story, 2);
    story.hear(node.0, bad(third, CopyFault::Unreadable));
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.degraded, status.unreadable), (0, 1, 1));
}
