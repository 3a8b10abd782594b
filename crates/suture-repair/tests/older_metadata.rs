//! What a coordinator does with copies that its metadata know nothing of.

use std::collections::BTreeSet;

use crate::story::{Story, copy, stripe};
use suture_repair::cluster::{Node, Rate};
use suture_repair::event::{Input, Output};
use suture_repair::id::{ChunkCopy, NodeId, StripeId};
use suture_repair::message::{FromAgent, Hello, ToAgent};
use suture_repair::planner::Abilities;

/// Ids below 20 were given out; those of 10 to 14 by others.
fn restored() -> Story {
    let mut story = Story::new(6, [stripe(3, [0, 1, 2, 3])]);
    let (below, writing) = (StripeId(20), vec![StripeId(16)]);
    story.give(Input::StripesReserved { below, writing });
    story.give(Input::StripesUnknown { from: StripeId(10), below: StripeId(15) });
    story
}

/// The stripes of which node 4 holds a copy, and is to delete it.
fn orphans(story: &mut Story, held: &[u64]) -> BTreeSet<u64> {
    let held: Vec<ChunkCopy> = held.iter().map(|id| copy(*id, 0, 5)).collect();
    story.take();
    story.hear(4, FromAgent::Inventory(held.into_iter().map(Into::into).collect()));
    let deleted = |output: Output| match output {
        Output::Send { message: ToAgent::Delete { copy, .. }, .. } => Some(copy.stripe.0),
        _ => None,
    };
    let mut found = BTreeSet::new();
    loop {
        // Few are in flight, so each is answered.
        let some: Vec<u64> = story.take().into_iter().filter_map(deleted).collect();
        if some.is_empty() {
            return found;
        }
        for id in some {
            found.insert(id);
            story.hear(4, FromAgent::Deleted(copy(id, 0, 5)));
        }
    }
}

#[test]
fn copies_of_ids_that_others_gave_out_are_no_orphans() {
    let mut story = restored();
    let held: Vec<u64> = (8..25).collect();
    assert_eq!(orphans(&mut story, &held), [8, 9, 15, 17, 18, 19].into());
}

#[test]
fn an_id_that_was_given_out_here_after_all_leaves_orphans_and_its_neighbours_do_not() {
    for given in [10, 12, 14] {
        let mut story = restored();
        // The ranges of a backup and of a listing overlap.
        story.give(Input::StripesUnknown { from: StripeId(12), below: StripeId(15) });
        story.give(Input::StripeAdded(stripe(given, [0, 1, 2, 3])));
        story.give(Input::StripeRemoved(StripeId(given)));
        let held: Vec<u64> = (10..15).collect();
        assert_eq!(orphans(&mut story, &held), [given].into());
    }
}

#[test]
fn copies_of_unknown_stripes_are_counted_as_last_listed() {
    let mut story = restored();
    assert_eq!(story.core.unknown_copies(), 0);
    // Known, gone, unknown twice, being written, never given out.
    orphans(&mut story, &[3, 8, 10, 14, 16, 30]);
    assert_eq!(story.core.unknown_copies(), 3);
    let held = |story: &mut Story, node: u32, id: u64| {
        story.hear(node, FromAgent::Inventory(vec![copy(id, 0, 5).into()]));
    };
    held(&mut story, 5, 11);
    assert_eq!(story.core.unknown_copies(), 4);
    held(&mut story, 5, 3);
    assert_eq!(story.core.unknown_copies(), 3, "node 5 lists none any more");
}

#[test]
fn higher_ids_are_asked_for_when_copies_have_ids_that_were_not_given_out() {
    let protected = |id: u64| {
        let mut story = restored();
        story.take();
        story.hear(4, FromAgent::Inventory(vec![copy(1, 0, 5).into(), copy(id, 0, 5).into()]));
        let protect = |output: Output| match output {
            Output::Protect(below) => Some(below.0),
            _ => None,
        };
        story.take().into_iter().find_map(protect)
    };
    assert_eq!(protected(19), None);
    assert_eq!(protected(20), Some(21));
    assert_eq!(protected((1 << 62) - 1), Some(1 << 62));
    assert_eq!(protected(1 << 62), None, "no keeper gives out such an id");
}

#[test]
fn stripes_may_be_lacking_until_all_that_are_up_have_listed_nothing_else() {
    let mut story = Story::new(6, [stripe(3, [0, 1, 2, 3])]);
    story.give(Input::StripesUnknown { from: StripeId(10), below: StripeId(15) });
    assert!(!story.core.may_lack_stripes());
    story.hear(5, FromAgent::Inventory(vec![copy(12, 0, 5).into()]));
    assert!(story.core.may_lack_stripes());
    story.hear(5, FromAgent::Inventory(Vec::new()));
    assert!(!story.core.may_lack_stripes());
    let node = Node::new("n6", Rate(1e6));
    story.give(Input::NodeAdded { id: NodeId(6), node, rack: None });
    assert!(!story.core.may_lack_stripes(), "it is not up");
    let (abilities, pool_bytes, free_bytes) = (Abilities::PARTIAL, 64 << 20, 1 << 30);
    let hello = Hello { incarnation: 2, session: 1, abilities, pool_bytes, free_bytes };
    story.hear(6, FromAgent::Hello(hello));
    assert!(story.core.may_lack_stripes(), "it has not listed what it holds");
    story.hear(6, FromAgent::Inventory(Vec::new()));
    assert!(!story.core.may_lack_stripes());
}
