//! Which agent may join under a name, and which epoch a coordinator goes on in: decided from what
//! the keeper knows and what the agent reports of itself.
//!
//! Place: [an agent joins] -> failure detected -> ... : before anything of it is accepted.
//! A name comes from a configuration, which is easily copied; a store has an id of its own. So a
//! name belongs to the store that first had it, until an operator gives it to the next new one. An
//! agent that begins anew under the name of a node with chunks may only lack the disk with them.
//! Metadata that were restored from a backup begin an epoch that was there before; agents report
//! theirs.

use std::collections::BTreeMap;

/// What the keeper knows of the node under the name that an agent wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Chunks that are recorded there.
    pub chunks: u64,
    /// The store that has the name; none where it never named one.
    pub store: Option<u64>,
    /// Whether an operator removed the node: its name is free.
    pub is_removed: bool,
    /// Whether an operator gave the name to the next store that joins.
    pub is_replaced: bool,
}

/// What an agent reports of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Which store it has, where that is kept.
    pub store: Option<u64>,
    /// Whether no cluster has welcomed its store yet.
    pub is_new: bool,
    /// Whether it is to have the name, even if another had it.
    pub takes_name: bool,
}

/// Why an agent may not have the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It begins anew, and the node holds chunks.
    NewStore,
    /// The node has another store.
    OtherStore,
}

impl Known {
    /// Whether an agent may have this node's name.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit(&self, joining: Joining) -> Result<(), Refused> {
        let is_free = self.is_removed || self.is_replaced || joining.takes_name && joining.is_new;
        if is_free {
            return Ok(());
        }
        if joining.is_new && self.chunks > 0 {
            return Err(Refused::NewStore);
        }
        let is_its_own = self.store.is_none() || self.store == joining.store;
        if is_its_own { Ok(()) } else { Err(Refused::OtherStore) }
    }
}

/// The epoch in which a coordinator of `epoch` has to go on when an agent has `followed` one that
/// its metadata have not begun: a later one, or this one without having joined in it. None where it
/// goes on as it is.
pub fn outranking(epoch: u32, followed: u32, has_joined: bool) -> Option<u32> {
    let is_of_others = followed == epoch && !has_joined;
    (followed > epoch || is_of_others).then_some(followed + 1)
}

/// Epochs are below: stamps of repairs have the epoch in their upper half, where those of puts have
/// a bit set.
pub const EPOCH_MAX: u32 = 1 << 30;

/// By how many starts of a coordinator a single agent may be ahead: one a second for twelve days.
const AHEAD_MAX: u32 = 1 << 20;

/// Which epochs reported by agents are accepted as plausible.
///
/// A coordinator goes on in a later one than any of its agents has followed, and epochs do not last
/// for ever. So one that is far ahead is accepted when more than half of the nodes have followed
/// such a one: then the metadata were set back, by however much.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Epochs up to this one any agent may have followed.
    plausible_max: u32,
    /// Known nodes that have followed one far ahead of it.
    far_ahead: BTreeMap<String, u32>,
}

impl Followed {
    /// The epochs that a coordinator accepts which began in this one.
    pub fn new(begun: u32) -> Followed {
        let plausible_max = begun.saturating_add(AHEAD_MAX).min(EPOCH_MAX - 2);
        Followed { plausible_max, far_ahead: BTreeMap::new() }
    }

    /// The metadata are made again from what agents hold: there is nothing to compare with.
    pub fn begin_anew(&mut self) {
        self.plausible_max = EPOCH_MAX / 2;
    }

    /// Whether the epoch that the agent of this name reports is accepted. `is_known` means that it
    /// has the store of a node, of which there are `node_count`.
    pub fn accepts_epoch(
        &mut self,
        name: &str,
        epoch: u32,
        is_known: bool,
        node_count: usize,
    ) -> bool {
        if epoch <= self.plausible_max || epoch > EPOCH_MAX - 2 {
            return epoch <= self.plausible_max;
        }
        if is_known {
            self.far_ahead.insert(name.to_string(), epoch);
        }
        let agree = self.far_ahead.values().filter(|other| epoch - AHEAD_MAX <= **other).count();
        agree * 2 > node_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Known = Known { chunks: 3, store: Some(1), is_removed: false, is_replaced: false };
    const OWN: Joining = Joining { store: Some(1), is_new: false, takes_name: false };
    const EMPTY: Joining = Joining { store: Some(2), is_new: true, takes_name: false };

    #[test]
    fn an_epoch_far_ahead_is_accepted_when_most_nodes_have_followed_such_a_one() {
        let mut followed = Followed::new(5);
        assert!(followed.accepts_epoch("new", 5 + AHEAD_MAX, false, 3));
        for epoch in [6 + AHEAD_MAX, EPOCH_MAX - 2] {
            assert!(!followed.accepts_epoch("stranger", epoch, false, 3));
            assert!(!followed.accepts_epoch("n0", epoch, true, 3));
        }
        let set_back = 7 + 3 * AHEAD_MAX;
        assert!(!followed.accepts_epoch("stranger", set_back, false, 3));
        assert!(
            followed.accepts_epoch("n1", set_back, true, 3),
            "n0 has followed a later one still"
        );
        assert!(followed.accepts_epoch("n2", set_back + 1, true, 3));
        assert!(!followed.accepts_epoch("n0", EPOCH_MAX - 2, true, 3), "it is alone with that");
        // A single node is more than half of them, and cannot use up all epochs either.
        assert!(Followed::new(1).accepts_epoch("n0", EPOCH_MAX - 2, true, 1));
        assert!(!Followed::new(1).accepts_epoch("n0", EPOCH_MAX - 1, true, 1));
        assert!(!Followed::new(EPOCH_MAX).accepts_epoch("n0", EPOCH_MAX - 1, true, 1));
        let mut anew = Followed::new(1);
        anew.begin_anew();
        assert!(
            anew.accepts_epoch("n0", set_back, false, 0)
                && !anew.accepts_epoch("n1", EPOCH_MAX - 2, true, 3)
        );
    }

    #[test]
    fn half_of_the_nodes_are_not_most_and_one_that_is_as_far_ahead_as_may_be_agrees() {
        let epoch = 10 + 3 * AHEAD_MAX;
        let mut followed = Followed::new(5);
        assert!(!followed.accepts_epoch("n0", epoch - AHEAD_MAX, true, 4));
        assert!(!followed.accepts_epoch("n1", epoch, true, 4), "two of four");
        assert!(
            followed.accepts_epoch("n2", epoch, true, 4),
            "three, of which one has followed less"
        );
        let mut behind = Followed::new(5);
        assert!(!behind.accepts_epoch("n0", epoch - AHEAD_MAX - 1, true, 3));
        assert!(!behind.accepts_epoch("n1", epoch, true, 3), "the other has followed too little");
    }

    #[test]
    fn a_name_belongs_to_its_store_until_an_operator_gives_it_away() {
        let other = Joining { is_new: false, ..EMPTY };
        assert_eq!(HELD.admit(OWN), Ok(()));
        assert_eq!(HELD.admit(EMPTY), Err(Refused::NewStore));
        assert_eq!(HELD.admit(other), Err(Refused::OtherStore));
        // Even without chunks it is another's name.
        assert_eq!(Known { chunks: 0, ..HELD }.admit(EMPTY), Err(Refused::OtherStore));
        for free in [Known { is_removed: true, ..HELD }, Known { is_replaced: true, ..HELD }] {
            assert_eq!([OWN, EMPTY, other].map(|joining| free.admit(joining)), [Ok(()); 3]);
        }
        // A node that never named a store is any agent that joins under its name and has been
        // welcomed before.
        let unnamed = Known { store: None, ..HELD };
        assert_eq!(
            [OWN, EMPTY, other].map(|joining| unnamed.admit(joining)),
            [Ok(()), Err(Refused::NewStore), Ok(())]
        );
    }

    #[test]
    fn only_a_new_store_can_take_a_name() {
        assert_eq!(HELD.admit(Joining { takes_name: true, ..EMPTY }), Ok(()));
        let known = Joining { is_new: false, takes_name: true, ..EMPTY };
        assert_eq!(HELD.admit(known), Err(Refused::OtherStore));
    }

    #[test]
    fn an_epoch_that_others_began_is_left_behind() {
        assert_eq!(outranking(5, 4, false), None);
        assert_eq!(outranking(5, 5, true), None);
        assert_eq!(outranking(5, 5, false), Some(6));
        assert_eq!(outranking(5, 9, true), Some(10));
    }
}
