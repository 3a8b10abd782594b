//! What every keeper must do, as code: one list of rules, run against each of them.
//!
//! Place: ... plan -> [claim] -> dispatch -> ... -> [commit location] -> healthy.
//! A test hands over a constructor of keepers with one stripe; each rule gets one of its own and
//! panics when the keeper breaks it.

use super::Keeper;
use crate::event::{Claim, Commit, Input, NodeState};
use crate::id::{ChunkCopy, ChunkIndex, Generation, NodeId, RepairId, StripeId};
use crate::stripe::Stripe;
use crate::time::{Span, Time};

/// A keeper with one stripe of `rs(2,1)` on nodes 0 to 2, and two nodes more.
pub trait Kept {
    /// The keeper that is put to the test.
    fn keeper(&mut self) -> &mut dyn Keeper;

    /// Removes the stripe, as its owner would.
    fn remove(&mut self, stripe: StripeId);

    /// The keeper ends without notice and starts again.
    fn restart(&mut self);

    /// What a stripe looks like after a restart: as before, unless the keeper counts generations
    /// and names copies only as long as it lives.
    fn as_restarted(&self, stripe: Stripe) -> Stripe {
        stripe
    }

    /// Something happens to a node. `false`: this keeper does not decide which nodes live.
    fn set_node(&mut self, node: NodeId, state: NodeState) -> bool;

    /// A claim that is not prolonged has ended after this.
    fn claim_lifetime(&self) -> Span;
}

type KeeperRule = fn(&mut dyn Kept);

/// Checks every rule, each on a keeper from `make`.
///
/// # Panics
/// When the keeper breaks a rule.
pub fn check<K: Kept>(make: impl Fn() -> K) {
    let rules: [KeeperRule; 10] = [
        a_commit_changes_one_location_and_the_generation,
        a_commit_from_another_generation_changes_nothing,
        a_commit_that_is_asked_again_is_answered_alike,
        what_was_committed_outlives_a_restart,
        a_stripe_that_is_gone_is_said_to_be,
        a_claim_keeps_others_off_until_it_is_released,
        a_claim_ends_with_its_last_commit_and_by_itself,
        a_claim_from_another_generation_is_refused,
        states_of_nodes_are_reported_in_order_and_once,
        states_of_nodes_are_reported_anew_to_a_coordinator_that_starts,
    ];
    for rule in rules {
        rule(&mut make());
    }
}

fn stripe(kept: &mut dyn Kept) -> Stripe {
    let stripes = kept.keeper().stripes().expect("it can be asked");
    stripes.into_iter().next().expect("there is one")
}

fn repair(sequence: u32) -> RepairId {
    // Of an epoch that no coordinator of a test has reached, so none is taken for an old one's.
    RepairId::new(1000, sequence)
}

/// Moves a chunk to a node, by a repair of the same number as the node.
fn commit(stripe: &Stripe, chunk: u8, node: u32) -> Commit {
    let (repair, chunk) = (repair(node), ChunkIndex(chunk));
    let copy = ChunkCopy { stripe: stripe.id, chunk, stamp: repair.into() };
    Commit { repair, copy, node: NodeId(node), generation: stripe.generation, clears: None }
}

/// Claims a chunk for a node, by a repair of the same number as the node.
fn claim(stripe: &Stripe, chunk: u8, node: u32) -> Claim {
    let destinations = [(ChunkIndex(chunk), NodeId(node))].into();
    let generation = stripe.generation;
    Claim { repair: repair(node), stripe: stripe.id, generation, destinations }
}

/// Asks for a commit and returns the answer.
fn answer(kept: &mut dyn Kept, commit: &Commit) -> Input {
    kept.keeper().changes();
    kept.keeper().commit(commit).expect("it can be asked");
    one(kept.keeper().changes())
}

/// Asks for a claim and returns whether it is granted.
fn claims(kept: &mut dyn Kept, now: Time, claim: &Claim) -> bool {
    kept.keeper().changes();
    kept.keeper().claim(now, claim).expect("it can be asked");
    match one(kept.keeper().changes()) {
        Input::Claimed { repair, .. } => {
            assert_eq!(repair, claim.repair);
            true
        }
        Input::ClaimRefused { repair, .. } => {
            assert_eq!(repair, claim.repair);
            false
        }
        other => panic!("{other:?} answers no claim"),
    }
}

fn one(mut changes: Vec<Input>) -> Input {
    assert_eq!(changes.len(), 1, "one question, one answer");
    changes.remove(0)
}

/// The stripe of an answer, which is about the repair and states whether the commit was done.
fn expect(answer: Input, commit: &Commit, is_done: bool) -> Option<Stripe> {
    let (repair, stripe, done) = match answer {
        Input::Committed { repair, stripe } => (repair, Some(stripe), true),
        Input::CommitRefused { repair, stripe } => (repair, stripe, false),
        other => panic!("{other:?} answers no commit"),
    };
    assert_eq!((repair, done), (commit.repair, is_done));
    stripe
}

fn a_commit_changes_one_location_and_the_generation(kept: &mut dyn Kept) {
    let before = stripe(kept);
    let commit = commit(&before, 1, 3);
    let after = expect(answer(kept, &commit), &commit, true).expect("it exists");
    let mut expected = before.clone();
    expected.generation = Generation(before.generation.0 + 1);
    (expected.chunks[1].node, expected.chunks[1].stamp) = (Some(commit.node), commit.copy.stamp);
    assert_eq!(after, expected);
    assert_eq!(stripe(kept), expected);
}

fn a_commit_from_another_generation_changes_nothing(kept: &mut dyn Kept) {
    let before = stripe(kept);
    for other in [before.generation.0 + 1, before.generation.0 + 7] {
        let commit = Commit { generation: Generation(other), ..commit(&before, 1, 3) };
        let stands = expect(answer(kept, &commit), &commit, false);
        assert_eq!(stands, Some(before.clone()));
    }
    let first = commit(&before, 1, 3);
    expect(answer(kept, &first), &first, true);
    let late = commit(&before, 1, 4);
    let stands = expect(answer(kept, &late), &late, false);
    assert_eq!(stands, Some(stripe(kept)));
    assert_eq!(stripe(kept).copy(ChunkIndex(1)), Some(first.copy.at(first.node)));
}

fn a_commit_that_is_asked_again_is_answered_alike(kept: &mut dyn Kept) {
    let before = stripe(kept);
    let commit = commit(&before, 1, 3);
    let first = expect(answer(kept, &commit), &commit, true);
    let (Input::Committed { repair, stripe: second }
    | Input::CommitRefused { repair, stripe: Some(second) }) = answer(kept, &commit)
    else {
        panic!("a stripe that exists is in the answer");
    };
    assert_eq!(
        (repair, Some(&second), second.clone()),
        (commit.repair, first.as_ref(), stripe(kept))
    );
}

fn what_was_committed_outlives_a_restart(kept: &mut dyn Kept) {
    let before = stripe(kept);
    let commit = commit(&before, 2, 4);
    let after = expect(answer(kept, &commit), &commit, true).expect("it exists");
    kept.restart();
    assert_eq!(stripe(kept), kept.as_restarted(after));
}

fn a_stripe_that_is_gone_is_said_to_be(kept: &mut dyn Kept) {
    let before = stripe(kept);
    kept.keeper().changes();
    kept.remove(before.id);
    let is_removal = |input: &Input| matches!(input, Input::StripeRemoved(id) if *id == before.id);
    assert!(kept.keeper().changes().iter().any(is_removal));
    let commit = commit(&before, 1, 3);
    assert_eq!(expect(answer(kept, &commit), &commit, false), None);
    let claim = claim(&before, 1, 3);
    kept.keeper().claim(Time::ZERO, &claim).expect("it can be asked");
    let answer = one(kept.keeper().changes());
    assert!(matches!(answer, Input::ClaimRefused { stripe: None, .. }), "{answer:?}");
    assert_eq!(kept.keeper().stripes().map(|stripes| stripes.len()), Ok(0));
}

fn a_claim_keeps_others_off_until_it_is_released(kept: &mut dyn Kept) {
    let stripe = stripe(kept);
    let (ours, other) = (claim(&stripe, 1, 3), claim(&stripe, 1, 4));
    assert!(claims(kept, Time::ZERO, &ours));
    assert!(claims(kept, Time::ZERO, &ours), "asked again");
    assert!(!claims(kept, Time::ZERO, &other));
    kept.keeper().release(other.repair).expect("it can be asked");
    assert!(!claims(kept, Time::ZERO, &other), "somebody else's claim was not theirs to release");
    kept.keeper().release(ours.repair).expect("it can be asked");
    kept.keeper().release(ours.repair).expect("it can be asked");
    assert!(claims(kept, Time::ZERO, &other));
}

fn a_claim_ends_with_its_last_commit_and_by_itself(kept: &mut dyn Kept) {
    let before = stripe(kept);
    let ours = Claim {
        destinations: [(ChunkIndex(1), NodeId(3)), (ChunkIndex(2), NodeId(4))].into(),
        ..claim(&before, 1, 3)
    };
    assert!(claims(kept, Time::ZERO, &ours));
    let first = commit(&before, 1, 3);
    let after = expect(answer(kept, &first), &first, true).expect("it exists");
    assert!(!claims(kept, Time::ZERO, &claim(&after, 0, 4)), "a chunk is still to come");
    let last = Commit { repair: ours.repair, ..commit(&after, 2, 4) };
    let after = expect(answer(kept, &last), &last, true).expect("it exists");
    let (next, other) = (claim(&after, 0, 0), claim(&after, 0, 1));
    assert!(claims(kept, Time::ZERO, &next));
    let half = Span { ns: kept.claim_lifetime().ns / 2 + 1 };
    assert!(claims(kept, Time::ZERO + half, &next), "prolonged");
    assert!(!claims(kept, Time::ZERO + half + half, &other), "prolonged");
    assert!(claims(kept, Time::ZERO + half + half + half, &other), "nobody prolonged it");
}

fn a_claim_from_another_generation_is_refused(kept: &mut dyn Kept) {
    let stripe = stripe(kept);
    let other = Generation(stripe.generation.0 + 1);
    let claim = Claim { generation: other, ..claim(&stripe, 1, 3) };
    kept.keeper().changes();
    kept.keeper().claim(Time::ZERO, &claim).expect("it can be asked");
    let answer = one(kept.keeper().changes());
    let Input::ClaimRefused { repair, stripe: stands, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((repair, stands), (claim.repair, Some(stripe)));
}

/// What the keeper reports of nodes now.
fn node_states(kept: &mut dyn Kept) -> Vec<(NodeId, NodeState)> {
    let changes = kept.keeper().changes().into_iter();
    let changes = changes.filter_map(|input| match input {
        Input::NodeState { node, state } => Some((node, state)),
        _ => None,
    });
    changes.collect()
}

fn states_of_nodes_are_reported_in_order_and_once(kept: &mut dyn Kept) {
    kept.keeper().changes();
    let (gone, leaving) = ((NodeId(1), NodeState::Dead), (NodeId(2), NodeState::Decommissioning));
    let back = (NodeId(1), NodeState::Up);
    let decides = [gone, leaving, back].map(|(node, state)| kept.set_node(node, state));
    let changes = node_states(kept);
    match decides {
        [true, true, true] => assert_eq!(changes, [gone, leaving, back]),
        _ => assert_eq!((decides, changes), ([false; 3], vec![])),
    }
    assert_eq!(node_states(kept), []);
}

fn states_of_nodes_are_reported_anew_to_a_coordinator_that_starts(kept: &mut dyn Kept) {
    let states = [
        (NodeId(0), NodeState::Dead),
        (NodeId(1), NodeState::Dead),
        (NodeId(3), NodeState::Decommissioning),
        (NodeId(1), NodeState::Up),
    ];
    let decides = states.map(|(node, state)| kept.set_node(node, state))[0];
    kept.keeper().changes();
    stripe(kept);
    let changes = node_states(kept);
    let mut not_up: Vec<_> = changes.into_iter().filter(|(_, s)| *s != NodeState::Up).collect();
    not_up.sort_unstable();
    assert_eq!(not_up, if decides { vec![states[0], states[2]] } else { vec![] });
}
