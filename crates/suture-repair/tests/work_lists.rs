//! What nodes have to check and delete: each once, few at a time, and all in the end.

use std::collections::BTreeSet;

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::event::{Command, Input, Output};
use suture_repair::id::{ChunkCopy, ChunkIndex, ListedCopy, NodeId, StripeId};
use suture_repair::message::{Check, CopyFault, DiskState, FromAgent, Heartbeat, ToAgent};

/// What nodes are asked to check and to delete, answered one at a time in the order of asking.
struct Bursts {
    checks: BTreeSet<(u32, Check)>,
    deletes: BTreeSet<(u32, ChunkCopy)>,
    answered: (usize, usize),
}

impl Bursts {
    fn new() -> Bursts {
        Bursts { checks: Default::default(), deletes: Default::default(), answered: (0, 0) }
    }

    /// Takes what was sent: nothing twice, and never more than four of a kind at a node.
    fn take(&mut self, story: &mut Story) {
        for output in story.take() {
            match output {
                Output::Send { to, message: ToAgent::Check(check) } => {
                    assert!(self.checks.insert((to.0, check)), "{check:?} twice");
                }
                Output::Send { to, message: ToAgent::Delete { copy, .. } } => {
                    assert!(self.deletes.insert((to.0, copy)), "{copy} twice");
                }
                _ => {}
            }
        }
        let nodes = self.checks.iter().map(|(node, _)| *node);
        for node in nodes.chain(self.deletes.iter().map(|(node, _)| *node)) {
            let checks = self.checks.iter().filter(|(of, _)| *of == node).count();
            let deletes = self.deletes.iter().filter(|(of, _)| *of == node).count();
            assert!(checks <= 4 && deletes <= 4, "{checks} checks, {deletes} deletes at {node}");
        }
    }

    /// Answers until nothing is asked any more.
    fn answer(&mut self, story: &mut Story) {
        loop {
            self.take(story);
            if let Some((node, check)) = self.checks.pop_first() {
                self.answered.0 += 1;
                story.hear(node, FromAgent::Verified(check));
            } else if let Some((node, copy)) = self.deletes.pop_first() {
                self.answered.1 += 1;
                story.hear(node, FromAgent::Deleted(copy));
            } else {
                return;
            }
        }
    }
}

/// Stripes on the nodes 0 to 3, of which node 4 has a copy of another stamp each.
fn excess(stripes: u64) -> (Story, Vec<ListedCopy>) {
    let story = Story::new(6, (0..stripes).map(|id| stripe(id, [0, 1, 2, 3])));
    let held = (0..stripes).map(|id| copy(id, (id % 4) as u8, 9).into()).collect();
    (story, held)
}

#[test]
fn a_listing_of_thirty_thousand_excess_copies_has_few_of_them_in_flight() {
    const COPIES: u64 = 30_000;
    let (mut story, held) = excess(COPIES);
    story.take();
    story.hear(4, FromAgent::Inventory(held));
    let mut bursts = Bursts::new();
    bursts.answer(&mut story);
    story.core.assert_all_invariants();
    assert_eq!(bursts.answered, (COPIES as usize, COPIES as usize), "all of them are gone");
}

#[test]
fn a_listing_of_thirty_thousand_orphans_has_few_of_them_in_flight() {
    const COPIES: u64 = 30_000;
    let mut story = Story::new(6, [stripe(COPIES, [0, 1, 2, 3])]);
    story.give(Input::StripesReserved { below: StripeId(COPIES + 1), writing: Vec::new() });
    story.take();
    let held = (0..COPIES).map(|id| copy(id, 0, 9).into()).collect();
    story.hear(4, FromAgent::Inventory(held));
    let mut bursts = Bursts::new();
    bursts.answer(&mut story);
    story.core.assert_all_invariants();
    assert_eq!(bursts.answered, (0, COPIES as usize), "all of them are gone");
}

#[test]
fn ten_listings_ask_for_one_check_of_each_copy() {
    let (mut story, held) = excess(8);
    story.take();
    let mut bursts = Bursts::new();
    for _ in 0..10 {
        story.hear(4, FromAgent::Inventory(held.clone()));
        // Of what is expected and not listed there is one check as well.
        story.hear(0, FromAgent::Inventory(Vec::new()));
        bursts.take(&mut story);
    }
    bursts.answer(&mut story);
    assert_eq!(bursts.answered, (8 + 8, 8));
}

#[test]
fn what_was_not_answered_is_asked_again_in_the_next_session_and_after_a_while() {
    let (mut story, held) = excess(1);
    let own = copy(0, 0, 0);
    let is_check = |to: NodeId, m: &ToAgent| {
        to == NodeId(0) && matches!(m, ToAgent::Check(check) if check.copy == own)
    };
    story.take();
    story.hear(4, FromAgent::Inventory(held));
    assert!(sent(&story.take(), is_check));
    story.wait(15, 0..6);
    assert!(!sent(&story.take(), is_check), "it may take its time");
    story.wait(10, 0..6);
    assert!(sent(&story.take(), is_check), "the message or the answer may be lost");
    story.join(0);
    assert!(sent(&story.take(), is_check), "the one before may have been lost with its session");
    let check =
        Check { copy: own, digest: story.digest(own), excess: Some(copy(0, 0, 9).at(NodeId(4))) };
    story.hear(0, FromAgent::Verified(check));
    let is_delete =
        |to: NodeId, m: &ToAgent| to == NodeId(4) && matches!(m, ToAgent::Delete { .. });
    assert!(sent(&story.take(), is_delete));
    story.join(4);
    assert!(sent(&story.take(), is_delete), "likewise");
    // It was not listed then, so it is gone.
    story.wait(60, 0..6);
    assert!(!sent(&story.take(), |_, m| matches!(m, ToAgent::Check(_) | ToAgent::Delete { .. })));
}

#[test]
fn what_was_asked_before_a_session_that_began_with_a_hanging_disk_is_asked_when_it_answers() {
    let (mut story, held) = excess(1);
    let own = copy(0, 0, 0);
    story.hear(4, FromAgent::Inventory(held));
    let check =
        Check { copy: own, digest: story.digest(own), excess: Some(copy(0, 0, 9).at(NodeId(4))) };
    story.hear(0, FromAgent::Verified(check));
    let is_delete =
        |to: NodeId, m: &ToAgent| to == NodeId(4) && matches!(m, ToAgent::Delete { .. });
    assert!(sent(&story.take(), is_delete));
    let hanging = Heartbeat { incarnation: 1, disk: DiskState::Hanging, ..Heartbeat::default() };
    story.hear(4, FromAgent::Heartbeat(hanging));
    story.wait(2, [0, 1, 2, 3, 5]);
    story.join(4);
    assert!(!sent(&story.take(), is_delete), "it can do nothing");
    story.beat(4);
    assert!(sent(&story.take(), is_delete), "the order was of the session before");
}

#[test]
fn a_copy_that_waits_to_be_deleted_is_spared_when_its_chunk_is_lost() {
    let (mut story, held) = excess(20);
    story.take();
    story.give(Input::Operator(Command::Pause));
    story.hear(4, FromAgent::Inventory(held));
    let mut bursts = Bursts::new();
    // Deletes are not answered, so all but four of them wait.
    loop {
        bursts.take(&mut story);
        let Some((node, check)) = bursts.checks.pop_first() else { break };
        story.hear(node, FromAgent::Verified(check));
    }
    assert_eq!(bursts.deletes.len(), 4);
    let deleted: Vec<StripeId> = bursts.deletes.iter().map(|(_, copy)| copy.stripe).collect();
    let lost = (0..20).map(StripeId).find(|id| !deleted.contains(id)).expect("16 wait");
    let chunk = ChunkIndex((lost.0 % 4) as u8);
    story.hear(u32::from(chunk.0), bad(copy(lost.0, chunk.0, 0), CopyFault::Corrupt));
    bursts.answer(&mut story);
    assert_eq!(bursts.answered.1, 19, "all others are gone");
    let commit = story.core.status();
    assert_eq!(commit.lost_chunks, 1, "until the keeper agrees that the copy is the chunk now");
}
