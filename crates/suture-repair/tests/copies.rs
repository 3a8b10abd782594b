//! Which copies are adopted and deleted, and which answers count: each refusal alone decides.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::coordinator::Config;
use suture_repair::event::{Command, Health, Input, Liveness, Output, Report};
use suture_repair::id::{
    ChunkCopy, ChunkIndex, Digest, Generation, ListedCopy, NodeId, RepairId, Stamp, StripeId,
};
use suture_repair::message::{Check, CopyFault, DiskState, FromAgent, Heartbeat, Hello, ToAgent};
use suture_repair::planner::Abilities;
use suture_repair::time::Span;

fn list(story: &mut Story, node: u32, copies: &[ChunkCopy]) -> Vec<Output> {
    story.take();
    story.hear(node, FromAgent::Inventory(copies.iter().map(|copy| (*copy).into()).collect()));
    story.take()
}

fn is_checked(said: &[Output], node: u32, copy: ChunkCopy) -> bool {
    let is_it = |m: &ToAgent| matches!(m, ToAgent::Check(check) if check.copy == copy);
    sent(said, |to, m| to == NodeId(node) && is_it(m))
}

fn is_deleted(said: &[Output], node: u32, gone: ChunkCopy) -> bool {
    let is_it = |m: &ToAgent| matches!(m, ToAgent::Delete { copy, .. } if *copy == gone);
    sent(said, |to, m| to == NodeId(node) && is_it(m))
}

/// The copy of chunk 0 on node 0 is corrupt, and the chunk is rebuilt on another node, which is
/// given.
fn replace_corrupt(story: &mut Story) -> NodeId {
    let full = Heartbeat { incarnation: 1, free_bytes: 0, ..Heartbeat::default() };
    story.hear(0, FromAgent::Heartbeat(full));
    story.hear(0, bad(copy(0, 0, 0), CopyFault::Corrupt));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    story.accept(commit);
    assert_ne!(commit.node, NodeId(0));
    commit.node
}

/// Two corrupt copies of a stripe are replaced, one commit after the other: the first cannot be
/// judged while the second commit is under way, and both are listed with a length that is not the
/// recorded one.
#[test]
fn corrupt_copies_that_were_replaced_together_all_go() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let replaced = [copy(0, 0, 0), copy(0, 1, 0)];
    (0..6).for_each(|node| story.join_with(node, Abilities::ALL));
    story.give(Input::Operator(Command::Pause));
    for (node, old) in (0..).zip(replaced) {
        let full = Heartbeat { incarnation: 1, free_bytes: 0, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(full));
        story.hear(node, bad(old, CopyFault::Corrupt));
    }
    story.give(Input::Operator(Command::Resume));
    let task = story.dispatched().pop().expect("a task for both");
    for chunk in [ChunkIndex(0), ChunkIndex(1)] {
        story.store_chunk(&task, chunk);
    }
    let mut said = Vec::new();
    for _ in 0..6 {
        for (node, old) in (0..).zip(replaced) {
            let digest = Digest { bytes: Some(0), crc: None };
            story.hear(node, FromAgent::Inventory(vec![ListedCopy { copy: old, digest }]));
        }
        let outputs = story.take();
        for output in &outputs {
            match output {
                Output::Send { to, message: ToAgent::Check(check) } => {
                    story.hear(to.0, FromAgent::Verified(*check));
                }
                Output::Commit(commit) => story.accept(*commit),
                _ => {}
            }
        }
        said.extend(outputs);
    }
    for (node, old) in (0..).zip(replaced) {
        assert!(is_deleted(&said, node, old), "the one on node {node}: {said:?}");
    }
    let is_left = |output: &Output| matches!(output, Output::Report(Report::OtherBytes { .. }));
    assert!(!said.iter().any(is_left), "{said:?}");
}

/// Node 4 holds these copies in excess of what nodes 0 hold; each replacement was read.
fn order_away(story: &mut Story, excess: &[ChunkCopy]) -> Vec<Output> {
    let mut said = list(story, 4, excess);
    let mut all = Vec::new();
    while !said.is_empty() {
        for output in &said {
            if let Output::Send { to, message: ToAgent::Check(check) } = output {
                story.hear(to.0, FromAgent::Verified(*check));
            }
        }
        all.append(&mut said);
        said = story.take();
    }
    all
}

fn sessions_of_deletes(said: &[Output]) -> Vec<u64> {
    let session = |output: &Output| match output {
        Output::Send { message: ToAgent::Delete { session, .. }, .. } => Some(*session),
        _ => None,
    };
    said.iter().filter_map(session).collect()
}

#[test]
fn a_copy_that_was_ordered_away_is_never_adopted() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 9);
    let said = order_away(&mut story, &[old]);
    assert!(is_deleted(&said, 4, old), "{said:?}");
    assert_eq!(sessions_of_deletes(&said), [5], "an order is good in its session only");
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    // What others list says nothing of it.
    list(&mut story, 3, &[copy(0, 3, 0)]);
    let said = list(&mut story, 4, &[old]);
    assert!(!is_checked(&said, 4, old), "the order may still be on its way: {said:?}");
    let said = list(&mut story, 5, &[old]);
    assert!(is_checked(&said, 5, old), "this one was not ordered away: {said:?}");
}

#[test]
fn an_order_to_delete_that_was_lost_with_its_session_is_not_remembered() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 9);
    order_away(&mut story, &[old]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(!is_checked(&list(&mut story, 4, &[old]), 4, old), "it may still be on its way");
    story.take();
    story.join(4);
    let said = story.take();
    assert!(is_checked(&said, 4, old), "what comes in a new session was sent in it: {said:?}");
    assert!(!is_deleted(&said, 4, old));
    // An order that is still wanted is sent again, and counts again.
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    order_away(&mut story, &[old]);
    story.take();
    let (pool_bytes, free_bytes) = (64 << 20, 1 << 30);
    let hello = Hello {
        incarnation: 1,
        session: 1 << 20,
        abilities: Abilities::PARTIAL,
        pool_bytes,
        free_bytes,
    };
    story.hear(4, FromAgent::Hello(hello));
    let said = story.take();
    assert!(is_deleted(&said, 4, old));
    assert_eq!(sessions_of_deletes(&said), [1 << 20]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert!(!is_checked(&list(&mut story, 4, &[old]), 4, old));
}

#[test]
fn a_hello_that_comes_twice_or_late_begins_no_session_and_orders_are_remembered() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 9);
    order_away(&mut story, &[old]);
    story.take();
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let (pool_bytes, free_bytes, abilities) = (64 << 20, 1 << 30, Abilities::PARTIAL);
    // The fifth is the one that there is.
    for session in [0, 1, 5] {
        let hello = Hello { incarnation: 1, session, abilities, pool_bytes, free_bytes };
        story.take();
        story.hear(4, FromAgent::Hello(hello));
        let mut said = story.take();
        said.extend(list(&mut story, 4, &[old]));
        assert!(!is_checked(&said, 4, old), "it may still be on its way: {said:?}");
    }
    // A new start has a session of its own, whatever its number.
    let hello = Hello { incarnation: 2, session: 0, abilities, pool_bytes, free_bytes };
    story.take();
    story.hear(4, FromAgent::Hello(hello));
    let mut said = story.take();
    said.extend(list(&mut story, 4, &[old]));
    assert!(is_checked(&said, 4, old), "{said:?}");
}

#[test]
fn a_copy_beside_another_chunk_of_its_stripe_is_not_adopted() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let found = copy(0, 0, 9);
    let said = list(&mut story, 1, &[copy(0, 1, 0), found]);
    assert!(!is_checked(&said, 1, found), "{said:?}");
}

/// As where chunks have changed places since the metadata were backed up.
#[test]
fn a_copy_takes_the_place_of_another_chunk_that_is_recorded_there_and_missing() {
    let found = copy(0, 0, 9);
    for fault in [CopyFault::Missing, CopyFault::Corrupt, CopyFault::Unreadable] {
        let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
        story.give(Input::Operator(Command::FailNode(NodeId(0))));
        story.hear(1, bad(copy(0, 1, 0), fault));
        let said = list(&mut story, 1, &[found]);
        assert_eq!(is_checked(&said, 1, found), fault == CopyFault::Missing, "{fault}: {said:?}");
        if fault != CopyFault::Missing {
            continue;
        }
        let said = verified(&story, found, None);
        story.hear(1, said);
        let commit = story.committing().expect("it was read in full");
        let (node, clears) = (NodeId(1), Some(ChunkIndex(1)));
        assert_eq!((commit.copy, commit.node, commit.clears), (found, node, clears));
        story.accept(commit);
        assert_eq!(story.core.stripes().get(StripeId(0)).unwrap().chunks[1].node, None);
        assert!(!story.core.is_lost(StripeId(0), ChunkIndex(0)));
        assert!(story.core.is_lost(StripeId(0), ChunkIndex(1)));
        // What was only away, and is there again, replaces nothing.
        let said = list(&mut story, 1, &[found, copy(0, 1, 0)]);
        assert!(!is_checked(&said, 1, copy(0, 1, 0)) && !is_deleted(&said, 1, found), "{said:?}");
    }
}

#[test]
fn where_a_keeper_deletes_by_itself_it_knows_by_itself_of_all_copies() {
    let found = copy(0, 0, 9);
    let own = |config| Config { deletes: false, ..config };
    let policy = ("suture", Liveness::Own);
    let mut story = Story::configured(own, policy, 6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.hear(1, bad(copy(0, 1, 0), CopyFault::Missing));
    for node in [1, 4] {
        let said = list(&mut story, node, &[found]);
        assert!(!is_checked(&said, node, found), "{said:?}");
        story.hear(node, verified(&story, found, None));
        assert!(story.committing().is_none());
    }
}

#[test]
fn chunks_that_have_changed_places_are_adopted_where_they_are() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    // Each is one node further than it is recorded.
    let found = [3, 0, 1, 2].map(|chunk| copy(0, chunk, 9));
    story.take();
    for (node, found) in (0..4).zip(found) {
        list(&mut story, node, &[found]);
    }
    for node in 0..4 {
        let recorded = copy(0, node as u8, 0);
        story.hear(node, bad(recorded, CopyFault::Missing));
    }
    let asked = story.take();
    assert!((0..4).zip(found).all(|(node, found)| is_checked(&asked, node, found)), "{asked:?}");
    // No agent has to list anything again for that.
    for (node, found) in (0..4).zip(found) {
        let said = verified(&story, found, None);
        story.hear(node, said);
        let commit = story.committing().unwrap_or_else(|| panic!("at {node}"));
        story.accept(commit);
    }
    assert_eq!(story.core.status().lost_chunks, 0);
    assert!(story.core.status().at_risk.is_empty());
}

#[test]
fn a_good_copy_of_the_same_chunk_on_the_same_node_is_adopted() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.hear(0, bad(copy(0, 0, 0), CopyFault::Corrupt));
    let found = copy(0, 0, 9);
    let said = list(&mut story, 0, &[copy(0, 0, 0), found]);
    assert!(is_checked(&said, 0, found), "{said:?}");
}

#[test]
fn a_copy_known_to_be_corrupt_is_not_adopted_when_its_replacement_is_lost() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 0);
    let replacement = replace_corrupt(&mut story);
    story.give(Input::Operator(Command::FailNode(replacement)));
    assert!(story.core.is_lost(StripeId(0), ChunkIndex(0)));
    let said = list(&mut story, 0, &[old]);
    assert!(!is_checked(&said, 0, old), "{said:?}");
}

/// Of five copies in excess on node 4 four are ordered away, and the last waits; they are of chunk
/// 0 of stripes on the first four nodes.
fn with_a_delete_that_waits() -> (Story, Vec<ChunkCopy>, ChunkCopy) {
    let mut story = Story::new(6, (0..5).map(|id| stripe(id, [0, 1, 2, 3])));
    let excess: Vec<ChunkCopy> = (0..5).map(|id| copy(id, 0, 9)).collect();
    let said = order_away(&mut story, &excess);
    let (ordered, waits): (Vec<ChunkCopy>, Vec<ChunkCopy>) =
        excess.iter().partition(|copy| is_deleted(&said, 4, **copy));
    let [waits] = waits[..] else { panic!("four are in flight, not {ordered:?}") };
    (story, ordered, waits)
}

#[test]
fn a_delete_that_waited_is_not_sent_when_what_replaces_the_copy_has_moved() {
    let (mut story, ordered, waits) = with_a_delete_that_waits();
    let mut moved = story.core.stripes().get(waits.stripe).expect("known").clone();
    moved.generation = Generation(2);
    (moved.chunks[0].node, moved.chunks[0].stamp) = (Some(NodeId(5)), Stamp(3));
    story.give(Input::StripeAdded(moved));
    story.take();
    story.hear(4, FromAgent::Deleted(ordered[0]));
    let said = story.take();
    assert!(!is_deleted(&said, 4, waits), "nobody has read what replaces it now: {said:?}");
    assert!(is_checked(&said, 5, copy(waits.stripe.0, 0, 3)), "so that is read: {said:?}");
    let check = Check {
        copy: copy(waits.stripe.0, 0, 3),
        digest: story.digest(copy(waits.stripe.0, 0, 3)),
        excess: Some(waits.at(NodeId(4))),
    };
    story.hear(5, FromAgent::Verified(check));
    assert!(is_deleted(&story.take(), 4, waits));
}

#[test]
fn a_delete_that_waited_is_not_sent_while_its_copy_is_being_adopted() {
    let (mut story, ordered, waits) = with_a_delete_that_waits();
    // What replaces it is lost, so it is to be the location; then that is there again.
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let said = story.take();
    assert!(is_checked(&said, 4, waits), "{said:?}");
    let read = verified(&story, waits, None);
    story.hear(4, read);
    let commit = story.committing().expect("it is adopted");
    assert_eq!((commit.node, commit.copy), (NodeId(4), waits));
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    story.join(0);
    story.take();
    story.hear(4, FromAgent::Deleted(ordered[0]));
    let said = story.take();
    assert!(!is_deleted(&said, 4, waits), "{said:?}");
    story.accept(commit);
}

#[test]
fn a_stripe_as_it_was_before_is_not_applied() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = stripe(0, [0, 1, 2, 3]);
    let mut new = stripe(0, [5, 1, 2, 3]);
    new.generation = Generation(2);
    story.give(Input::StripeAdded(new));
    story.give(Input::StripeAdded(old));
    let known = story.core.stripes().get(StripeId(0)).expect("known");
    assert_eq!((known.generation, known.chunks[0].node), (Generation(2), Some(NodeId(5))));
}

#[test]
fn a_refusal_of_an_older_commit_does_not_end_the_one_that_is_asked_for() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let commit = story.store(&task);
    for generation in [0, 1] {
        let mut current = stripe(0, [0, 1, 2, 3]);
        current.generation = Generation(generation);
        let (repair, stripe) = (commit.repair, Some(current));
        story.give(Input::CommitRefused { repair, stripe });
        assert_eq!(story.core.running().count(), 1, "generation {generation}");
    }
    assert!(story.dispatched().is_empty(), "nothing is repaired anew");
    story.accept(commit);
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.running.len()), (0, 0));
}

#[test]
fn a_chunk_that_no_repair_made_is_forgotten_by_its_task_and_looked_at_as_a_copy() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let destination = task.plan.destinations[&ChunkIndex(0)];
    let other = copy(0, 0, 9);
    story.hear(destination.0, FromAgent::Stored { repair: task.repair, copy: other });
    let said = story.take();
    let is_forgotten = |to, m: &ToAgent| to == destination && *m == ToAgent::Forget(task.repair);
    assert!(sent(&said, is_forgotten), "{said:?}");
    assert!(!said.iter().any(|output| matches!(output, Output::Commit(_))), "{said:?}");
    assert!(is_checked(&said, destination.0, other), "{said:?}");
}

#[test]
fn a_chunk_stored_for_another_coordinator_is_what_its_listing_says() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    // Other metadata gave the same ids to something else.
    let repair = RepairId::new(99, 0);
    let foreign = copy(0, 0, repair.0);
    story.hear(4, FromAgent::Stored { repair, copy: foreign });
    let said = story.take();
    assert!(sent(&said, |to, m| to == NodeId(4) && *m == ToAgent::Forget(repair)), "{said:?}");
    assert!(sent(&said, |to, m| to == NodeId(4) && *m == ToAgent::List), "{said:?}");
    assert!(!is_checked(&said, 0, copy(0, 0, 0)), "nothing is done by its name: {said:?}");
}

#[test]
fn of_a_node_that_counts_as_lost_no_chunk_comes_back_by_a_read() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    story.hear(0, bad(copy(0, 0, 0), CopyFault::Corrupt));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.hear(0, verified(&story, copy(0, 0, 0), None));
    assert_eq!(story.core.status().lost_chunks, 1);
}

/// Its disk hangs, so it is silent though it speaks; it is expected back.
fn pause_hanging(story: &mut Story, node: u32) {
    let span = Span::from_secs(3600);
    story.give(Input::Operator(Command::PauseNode { node: NodeId(node), span }));
    let nodes = story.core.status().nodes.len() as u32;
    for _ in 0..20 {
        let disk = DiskState::Hanging;
        let hanging =
            Heartbeat { incarnation: 1, free_bytes: 1 << 30, disk, ..Heartbeat::default() };
        story.hear(node, FromAgent::Heartbeat(hanging));
        story.wait(1, (0..nodes).filter(|other| *other != node));
    }
    assert_eq!(story.core.status().nodes[node as usize].health, Health::Suspect);
}

/// The call that hung may be the very read that is answered, before the next heartbeat reports
/// that.
#[test]
fn of_a_paused_node_whose_disk_hangs_no_chunk_comes_back_by_a_read() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    story.hear(0, bad(copy(0, 0, 0), CopyFault::Corrupt));
    pause_hanging(&mut story, 0);
    story.hear(1, bad(copy(0, 1, 0), CopyFault::Corrupt));
    assert_eq!(story.core.status().lost_chunks, 2);
    story.hear(0, verified(&story, copy(0, 0, 0), None));
    assert_eq!(story.core.status().lost_chunks, 2);
    // It is read anew when its disk answers, since nothing was forgotten of it.
    story.beat(0);
    let said = list(&mut story, 0, &[copy(0, 0, 0)]);
    assert!(is_checked(&said, 0, copy(0, 0, 0)), "{said:?}");
    story.hear(0, verified(&story, copy(0, 0, 0), None));
    assert_eq!(story.core.status().lost_chunks, 1);
}

#[test]
fn nothing_is_deleted_for_a_location_whose_node_is_away() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let excess = copy(0, 0, 9);
    let said = list(&mut story, 4, &[excess]);
    assert!(is_checked(&said, 0, copy(0, 0, 0)), "{said:?}");
    pause_hanging(&mut story, 0);
    story.take();
    story.hear(0, verified(&story, copy(0, 0, 0), Some((4, excess))));
    let said = story.take();
    assert!(!is_deleted_anywhere(&said) && !excess_was_reported(&said), "{said:?}");
}

#[test]
fn a_delete_that_waited_is_not_sent_while_what_replaces_the_copy_is_away() {
    let (mut story, ordered, waits) = with_a_delete_that_waits();
    pause_hanging(&mut story, 0);
    story.take();
    story.hear(4, FromAgent::Deleted(ordered[0]));
    let said = story.take();
    assert!(!is_deleted(&said, 4, waits), "{said:?}");
    // The next listing asks again.
    story.beat(0);
    let said = list(&mut story, 4, &[waits]);
    assert!(is_checked(&said, 0, copy(waits.stripe.0, 0, 0)), "{said:?}");
}

fn is_deleted_anywhere(said: &[Output]) -> bool {
    sent(said, |_, m| matches!(m, ToAgent::Delete { .. }))
}

fn excess_was_reported(said: &[Output]) -> bool {
    said.iter().any(|output| matches!(output, Output::Report(Report::Excess { .. })))
}

/// The answer to a check that was read for the sake of this excess copy.
fn verified(story: &Story, copy: ChunkCopy, excess: Option<(u32, ChunkCopy)>) -> FromAgent {
    let excess = excess.map(|(node, copy)| copy.at(NodeId(node)));
    FromAgent::Verified(Check { copy, digest: story.digest(copy), excess })
}

#[test]
fn a_location_that_was_read_for_its_own_sake_is_not_deleted() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let own = copy(0, 0, 0);
    story.take();
    story.hear(0, verified(&story, own, Some((0, own))));
    let said = story.take();
    assert!(!is_deleted_anywhere(&said) && !excess_was_reported(&said), "{said:?}");
}

#[test]
fn a_copy_is_deleted_only_for_a_location_of_its_own_chunk() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3]), stripe(1, [0, 1, 2, 3])]);
    story.take();
    for other in [copy(0, 1, 9), copy(1, 0, 9)] {
        story.hear(0, verified(&story, copy(0, 0, 0), Some((4, other))));
        let said = story.take();
        assert!(!is_deleted_anywhere(&said) && !excess_was_reported(&said), "{said:?}");
    }
}

#[test]
fn a_copy_that_was_read_and_is_no_location_replaces_none() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.hear(5, verified(&story, copy(0, 0, 7), Some((4, copy(0, 0, 9)))));
    let said = story.take();
    assert!(!is_deleted_anywhere(&said) && !excess_was_reported(&said), "{said:?}");
}

#[test]
fn nothing_is_deleted_at_the_first_node_that_there_is_not() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.hear(0, verified(&story, copy(0, 0, 0), Some((6, copy(0, 0, 9)))));
    assert!(!is_deleted_anywhere(&story.take()));
}

#[test]
fn a_good_copy_of_a_chunk_that_is_not_lost_is_not_adopted() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.take();
    story.hear(5, verified(&story, copy(0, 0, 9), None));
    let said = story.take();
    assert!(!said.iter().any(|output| matches!(output, Output::Commit(_))), "{said:?}");
}

#[test]
fn a_node_that_was_declared_failed_gives_no_copy() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.give(Input::Operator(Command::FailNode(NodeId(5))));
    story.take();
    story.hear(5, verified(&story, copy(0, 0, 9), None));
    let said = story.take();
    assert!(!said.iter().any(|output| matches!(output, Output::Commit(_))), "{said:?}");
}

#[test]
fn a_found_copy_waits_while_another_chunk_of_its_stripe_is_rebuilt() {
    let mut story = Story::new(8, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let involved = task.plan.participants();
    let spare = (1..4).find(|node| !involved.contains(&NodeId(*node))).expect("two help");
    story.give(Input::Operator(Command::FailNode(NodeId(spare))));
    let found = copy(0, spare as u8, 9);
    let free = (4..8).find(|node| !involved.contains(&NodeId(*node))).expect("some do nothing");
    let said = list(&mut story, free, &[found]);
    assert!(!is_checked(&said, free, found), "{said:?}");
    let said = {
        story.hear(free, verified(&story, found, None));
        story.take()
    };
    assert!(!sent(&said, |_, m| *m == ToAgent::Cancel(task.repair)), "{said:?}");
    let commit = story.store(&task);
    story.accept(commit);
    let said = list(&mut story, free, &[found]);
    let busy = story.core.running().count() == 1;
    assert!(busy || is_checked(&said, free, found), "{said:?}");
}

#[test]
fn the_death_of_a_node_that_takes_no_part_ends_no_repair() {
    let mut story = Story::new(8, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let task = story.dispatched().remove(0);
    let involved = task.plan.participants();
    let free = (4..8).find(|node| !involved.contains(&NodeId(*node))).expect("some do nothing");
    story.give(Input::Operator(Command::FailNode(NodeId(free))));
    let said = story.take();
    assert!(!sent(&said, |_, m| *m == ToAgent::Cancel(task.repair)), "{said:?}");
}

#[test]
fn only_the_location_of_a_chunk_can_be_suspected() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    story.take();
    let other = copy(0, 0, 9);
    story.give(Input::ChunkSuspected { node: NodeId(5), copy: other });
    assert!(!is_checked(&story.take(), 5, other));
    story.give(Input::ChunkSuspected { node: NodeId(1), copy: copy(0, 1, 0) });
    assert!(is_checked(&story.take(), 1, copy(0, 1, 0)));
}

#[test]
fn a_location_that_is_corrupt_by_now_is_not_read_for_the_sake_of_an_excess_copy() {
    let mut story = Story::new(6, (0..5).map(|id| stripe(id, [0, 1, 2, 3])));
    let excess: Vec<ChunkCopy> = (0..5).map(|id| copy(id, 0, 9)).collect();
    story.give(Input::Operator(Command::Pause));
    let said = list(&mut story, 4, &excess);
    let (sent_now, waits): (Vec<u64>, Vec<u64>) =
        (0..5).partition(|id| is_checked(&said, 0, copy(*id, 0, 0)));
    let [waits] = waits[..] else { panic!("four are in flight, not {sent_now:?}") };
    story.hear(0, bad(copy(waits, 0, 0), CopyFault::Corrupt));
    story.hear(0, verified(&story, copy(sent_now[0], 0, 0), Some((4, copy(sent_now[0], 0, 9)))));
    let said = story.take();
    assert!(!is_checked(&said, 0, copy(waits, 0, 0)), "{said:?}");
    assert!(is_checked(&said, 4, copy(waits, 0, 9)), "it may be the last one: {said:?}");
}

#[test]
fn a_copy_that_was_ordered_away_and_has_gone_may_come_back() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 9);
    assert!(is_deleted(&order_away(&mut story, &[old]), 4, old));
    list(&mut story, 4, &[]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    let said = list(&mut story, 4, &[old]);
    assert!(is_checked(&said, 4, old), "somebody has put it there again: {said:?}");
}

#[test]
fn what_was_wrong_with_a_copy_is_forgotten_when_it_has_gone() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 0);
    let replacement = replace_corrupt(&mut story);
    list(&mut story, 0, &[]);
    story.give(Input::Operator(Command::FailNode(replacement)));
    let said = list(&mut story, 0, &[old]);
    assert!(is_checked(&said, 0, old), "it is another file of that name: {said:?}");
}

#[test]
fn the_faults_of_one_node_are_not_forgotten_by_what_another_lists() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 0);
    let replacement = replace_corrupt(&mut story);
    list(&mut story, 1, &[copy(0, 1, 0)]);
    story.give(Input::Operator(Command::FailNode(replacement)));
    let said = list(&mut story, 0, &[old]);
    assert!(!is_checked(&said, 0, old), "{said:?}");
}

#[test]
fn a_stripe_that_is_whole_again_waits_for_nothing() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.core.status().blocked.len(), 1, "there is no node that could keep it");
    story.give(Input::Operator(Command::Pause));
    story.give(Input::Operator(Command::ReturnNode(NodeId(0))));
    story.join(0);
    let status = story.core.status();
    assert_eq!((status.lost_chunks, status.blocked), (0, Vec::new()));
}

#[test]
fn what_is_not_answered_is_asked_again_after_the_stall_limit_and_no_later() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    let old = copy(0, 0, 9);
    let said = list(&mut story, 4, &[old]);
    assert!(is_checked(&said, 0, copy(0, 0, 0)));
    story.wait(19, 0..6);
    assert!(!is_checked(&story.take(), 0, copy(0, 0, 0)));
    story.wait(1, 0..6);
    assert!(is_checked(&story.take(), 0, copy(0, 0, 0)));
}

#[test]
fn what_waits_to_be_read_again_is_not_forgotten_by_listings() {
    for (node, held) in [(2, copy(0, 2, 0)), (1, copy(0, 1, 0))] {
        let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
        story.hear(1, bad(copy(0, 1, 0), CopyFault::Unreadable));
        let said = list(&mut story, node, &[held]);
        // What was listed and cannot be read is read anew by that alone.
        let by_listing = is_checked(&said, 1, copy(0, 1, 0));
        story.wait(1, 0..6);
        assert!(by_listing || is_checked(&story.take(), 1, copy(0, 1, 0)), "node {node} listed");
    }
}

#[test]
fn a_coordinator_that_may_delete_nothing_deletes_nothing() {
    let configured = |config| Config { deletes: false, ..config };
    let story = [stripe(0, [0, 1, 2, 3]), stripe(7, [0, 1, 2, 3])];
    let mut story = Story::configured(configured, ("suture", Liveness::Own), 6, story);
    // No stripe 3 is known, and one with a higher number is.
    let (orphan, extra) = (copy(3, 0, 0), copy(0, 0, 9));
    let said = list(&mut story, 4, &[orphan, extra]);
    assert!(!is_deleted(&said, 4, orphan) && !is_checked(&said, 0, copy(0, 0, 0)), "{said:?}");
    let mut other = Story::new(6, [stripe(0, [0, 1, 2, 3]), stripe(7, [0, 1, 2, 3])]);
    assert!(is_deleted(&list(&mut other, 4, &[orphan]), 4, orphan), "others do");
}

#[test]
fn why_a_stripe_waits_is_asked_anew_when_it_lacks_more() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(story.core.status().blocked.len(), 1, "there is no other node");
    story.give(Input::Operator(Command::Pause));
    story.give(Input::StripeAdded(stripe(0, [0, 1, 2, 3])));
    assert_eq!(story.core.status().blocked.len(), 1, "nothing has changed");
    story.hear(1, bad(copy(0, 1, 0), CopyFault::Corrupt));
    assert!(story.core.status().blocked.is_empty(), "nobody has tried that yet");
}

#[test]
fn copies_that_cannot_be_read_are_shown_while_they_are_expected_and_not_lost() {
    let mut story = Story::new(6, [stripe(0, [0, 1, 2, 3])]);
    story.give(Input::Operator(Command::Pause));
    let unread = |story: &Story| story.core.status().scrub.unread_first;
    let own = copy(0, 0, 0);
    story.hear(0, bad(own, CopyFault::Unreadable));
    assert_eq!(unread(&story), [own.at(NodeId(0))]);
    story.hear(4, bad(copy(0, 1, 9), CopyFault::Unreadable));
    assert_eq!(unread(&story), [own.at(NodeId(0))], "the other is not where the chunk is");
    story.give(Input::Operator(Command::FailNode(NodeId(0))));
    assert_eq!(unread(&story), [], "it is lost now");
}

#[test]
fn what_is_expected_of_a_node_that_cannot_list_what_it_has_is_read() {
    let stripes = [stripe(0, [0, 1, 2, 3]), stripe(1, [1, 0, 2, 3]), stripe(2, [1, 2, 3, 4])];
    let mut story = Story::new(6, stripes);
    story.take();
    story.hear(0, FromAgent::NotListed);
    let said = story.take();
    assert!(is_checked(&said, 0, copy(0, 0, 0)) && is_checked(&said, 0, copy(1, 1, 0)), "{said:?}");
    assert_eq!(said.len(), 2, "and nothing else: {said:?}");
    story.hear(0, bad(copy(0, 0, 0), CopyFault::Missing));
    let digest = story.digest(copy(1, 1, 0));
    story.hear(0, FromAgent::Verified(Check { copy: copy(1, 1, 0), digest, excess: None }));
    assert_eq!(story.core.status().lost_chunks, 1, "the one that is gone");
    story.take();
    story.hear(0, FromAgent::NotListed);
    assert!(is_checked(&story.take(), 0, copy(1, 1, 0)), "the next time it is read again");
}
