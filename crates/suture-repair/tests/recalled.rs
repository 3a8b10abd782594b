//! What a coordinator knew of copies that are of no use, the next one knows: the keeper records it.

use crate::story::{Story, bad, copy, sent, stripe};
use suture_repair::event::{Input, KnownFault, Output};
use suture_repair::id::{ChunkCopy, NodeId};
use suture_repair::message::{Check, CopyFault, FromAgent, ToAgent};

const HOLDER: NodeId = NodeId(1);

/// The copy that is of no use.
fn here() -> ChunkCopy {
    copy(0, 1, 0)
}

/// Four nodes that hold a stripe, of which no more can be rebuilt than is there.
fn begun() -> Story {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    (0..4).for_each(|node| story.join(node));
    story.take();
    story
}

/// What the keeper is to record of the copy, in turn.
fn recorded(said: &[Output]) -> Vec<Option<KnownFault>> {
    let of_copy = said.iter().filter_map(|output| match output {
        Output::Faulty { node: HOLDER, copy, fault } if *copy == here() => Some(*fault),
        _ => None,
    });
    of_copy.collect()
}

/// The holder has read the copy in full, and it has its checksums.
fn read_well(story: &mut Story) {
    let check = Check { copy: here(), digest: story.digest(here()), excess: None };
    story.hear(1, FromAgent::Verified(check));
}

fn list(story: &mut Story) {
    story.hear(1, FromAgent::Inventory(vec![here().into()]));
}

fn is_lost(story: &Story) -> bool {
    story.core.is_lost(here().stripe, here().chunk)
}

#[test]
fn what_is_found_is_recorded_once_and_taken_back_when_it_is_read_well() {
    let mut story = begun();
    (0..3).for_each(|_| story.hear(1, bad(here(), CopyFault::Corrupt)));
    assert_eq!(recorded(&story.take()), [Some(KnownFault::Corrupt)]);
    read_well(&mut story);
    assert_eq!(recorded(&story.take()), [None]);
    assert!(!is_lost(&story));
    story.hear(1, bad(here(), CopyFault::Missing));
    assert!(is_lost(&story));
    assert_eq!(recorded(&story.take()), [], "its holder says so anew");
}

#[test]
fn a_copy_that_is_read_again_and_again_is_recorded_when_it_is_given_up() {
    let mut story = begun();
    let mut said = Vec::new();
    for _ in 0..400 {
        story.wait(1, 0..4);
        let outputs = story.take();
        let asks = |m: &ToAgent| matches!(m, ToAgent::Check(check) if check.copy == here());
        if said.is_empty() || sent(&outputs, |to, m| to == HOLDER && asks(m)) {
            story.hear(1, bad(here(), CopyFault::Unreadable));
        }
        said.extend(outputs);
        said.extend(story.take());
    }
    assert_eq!(recorded(&said), [Some(KnownFault::Unreadable)]);
    assert!(is_lost(&story));
}

#[test]
fn the_next_coordinator_knows_it_before_anybody_speaks_and_has_it_read_once_it_is_listed() {
    for fault in [KnownFault::Corrupt, KnownFault::Unreadable] {
        let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
        story.give(Input::Faulty { node: HOLDER, copy: here(), fault });
        assert!(is_lost(&story));
        assert_eq!(story.core.status().degraded, 1);
        (0..4).for_each(|node| story.join(node));
        list(&mut story);
        let said = story.take();
        assert_eq!(recorded(&said), [], "it is recorded");
        let asks = |m: &ToAgent| matches!(m, ToAgent::Check(check) if check.copy == here());
        assert!(sent(&said, |to, m| to == HOLDER && asks(m)));
        assert!(is_lost(&story), "a listing does not say that it is good");
        read_well(&mut story);
        assert!(!is_lost(&story));
        assert_eq!(recorded(&story.take()), [None]);
    }
}

#[test]
fn what_the_stripe_says_of_a_copy_is_not_taken_back_by_its_own_checksums() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    let fault = KnownFault::Inconsistent;
    story.give(Input::Faulty { node: HOLDER, copy: here(), fault });
    (0..4).for_each(|node| story.join(node));
    list(&mut story);
    read_well(&mut story);
    assert!(is_lost(&story));
}

#[test]
fn of_a_copy_that_the_keeper_does_not_point_to_nothing_is_recalled() {
    let mut story = Story::new(4, [stripe(0, [0, 1, 2, 3])]);
    for (node, copy) in [(NodeId(0), here()), (HOLDER, copy(0, 1, 7)), (HOLDER, copy(9, 1, 0))] {
        story.give(Input::Faulty { node, copy, fault: KnownFault::Corrupt });
    }
    assert_eq!(story.core.status().degraded, 0);
}
