//! The pump by itself: what it asks for, in which order, and never more than a window of it.
//!
//! Place: beside `pump.rs`; the tests play driver, children and parents.

use suture_code::layout::Layout;

use super::*;
use crate::id::{ChunkCopy, ChunkIndex, Digest, Stamp, StripeId};
use crate::plan::{Lane, Mode, Plan, Range, Start};
use crate::role::{Child, Computation, Own, Rows};

const CHILD: NodeId = NodeId(1);
const PARENT: NodeId = NodeId(2);

fn role(own: bool, children: &[NodeId], sinks: &[Sink], spools: Spools) -> Arc<Role> {
    let range = Range { from: 0, to: 1000 };
    let lost = vec![ChunkIndex(0)];
    let (decoder, scheme) = (None, None);
    let mode = Mode::Streamed;
    let lane = Lane { range, lost: lost.clone(), mode, decoder, scheme, edges: vec![] };
    let plan = Plan {
        stripe: StripeId(0),
        lost,
        destinations: [].into(),
        start: Start::Now,
        range,
        period: None,
        lanes: vec![],
    };
    let copy = ChunkCopy { stripe: StripeId(0), chunk: ChunkIndex(1), stamp: Stamp(0) };
    let rows = Rows::bytes_wide(1);
    let child = |&node: &NodeId| Child { node, rows: rows.clone() };
    let children = children.iter().map(child).collect();
    let own =
        own.then_some(Own { copy, digest: Digest::default(), reads: vec![0], part: None, rows });
    Arc::new(Role {
        own,
        children,
        computation: Computation::Sum { coefficient: 3 },
        sinks: sinks.to_vec(),
        spools,
        // Ten slices of 100 bytes.
        slice_ranges: plan.slice_ranges(&lane, 100),
        layout: Layout::plain(1000),
    })
}

fn steps(pump: &mut Pump) -> Vec<Step> {
    std::iter::from_fn(|| pump.poll()).collect()
}

#[test]
fn a_leaf_reads_and_sends_only_what_its_parent_takes() {
    let mut pump = Pump::new(role(true, &[], &[Sink::Forward(PARENT)], Spools::Nothing), 4);
    pump.open();
    assert_eq!(steps(&mut pump), []);
    pump.on_granted(PARENT, 0, 2);
    assert_eq!(steps(&mut pump), [Step::ReadOwn(0), Step::ReadOwn(1)]);
    pump.on_read(1);
    assert_eq!(steps(&mut pump), [], "in order");
    pump.on_read(0);
    assert_eq!(steps(&mut pump), [Step::Deliver(0), Step::Deliver(1)]);
    pump.on_granted(PARENT, 0, 1);
    pump.on_left(1);
    assert_eq!(steps(&mut pump), [], "an old grant takes nothing back");
}

#[test]
fn a_slice_that_comes_twice_or_ungranted_is_not_wanted() {
    let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Store], Spools::Nothing), 4);
    assert!(!pump.wants(CHILD, 0), "not open yet");
    pump.open();
    assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 2)]);
    assert!(!pump.wants(CHILD, 2) && !pump.wants(PARENT, 0));
    pump.on_arrived(CHILD, 1);
    assert!(!pump.wants(CHILD, 1) && pump.wants(CHILD, 0));
    pump.on_arrived(CHILD, 0);
    assert_eq!(steps(&mut pump), [Step::Deliver(0), Step::Deliver(1)]);
    assert!(!pump.wants(CHILD, 0));
}

#[test]
fn a_window_opens_with_what_leaves_it() {
    let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Store], Spools::Nothing), 8);
    pump.open();
    let (mut granted, mut next) = (Vec::new(), 0);
    while let Some(step) = pump.poll() {
        match step {
            Step::Grant(_, below) => granted.push(below),
            Step::Deliver(slice) => pump.on_left(slice),
            other => panic!("{other:?}"),
        }
        if pump.wants(CHILD, next) {
            pump.on_arrived(CHILD, next);
            next += 1;
        }
    }
    assert_eq!(granted, [2, 4, 6, 10], "two, and one more for each that has left");
    assert!(pump.is_done());
}

#[test]
fn memory_never_holds_more_than_a_window_of_each_source() {
    let mut pump = Pump::new(role(true, &[CHILD], &[Sink::Forward(PARENT)], Spools::Nothing), 3);
    pump.open();
    pump.on_granted(PARENT, 0, 10);
    let (mut own, mut child, mut granted, mut forwarded) = (0, 0, 0, 0);
    for _ in 0..100 {
        for step in steps(&mut pump) {
            match step {
                Step::ReadOwn(slice) => {
                    own += 1;
                    assert!(slice < forwarded + 3, "read too far ahead");
                    pump.on_read(slice);
                }
                Step::Grant(_, below) => {
                    assert!(below <= forwarded + 3, "granted too far ahead");
                    granted = below;
                }
                Step::Deliver(slice) => {
                    assert_eq!(slice, forwarded);
                    pump.on_left(slice);
                    forwarded += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        if child < granted {
            pump.on_arrived(CHILD, child);
            child += 1;
        }
    }
    assert_eq!((own, child, forwarded, pump.is_done()), (10, 10, 10, true));
    assert!(!pump.awaits(CHILD) && !pump.feeds(PARENT));
}

#[test]
fn a_stored_relay_spools_all_of_it_before_it_sends_the_first_slice() {
    let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Forward(PARENT)], Spools::Results), 4);
    pump.open();
    pump.on_granted(PARENT, 0, 10);
    let (mut arrived, mut spooled, mut forwarded) = (0, 0, 0);
    for _ in 0..200 {
        for step in steps(&mut pump) {
            match step {
                Step::Spool(slice) => {
                    spooled += 1;
                    pump.on_left(slice);
                    assert_eq!((pump.slices_done(), pump.is_done()), (0, false));
                    assert_eq!((pump.progress(), pump.awaits(CHILD)), (spooled, spooled < 10));
                }
                Step::ReadSpool(slice) => {
                    assert_eq!(spooled, 10);
                    pump.on_read(slice);
                }
                Step::Deliver(slice) => {
                    forwarded += 1;
                    pump.on_left(slice);
                    assert_eq!((pump.progress(), pump.awaits(CHILD)), (10 + forwarded, false));
                }
                Step::Grant(..) => {}
                other => panic!("{other:?}"),
            }
        }
        if pump.wants(CHILD, arrived) {
            pump.on_arrived(CHILD, arrived);
            arrived += 1;
        }
    }
    assert_eq!((spooled, forwarded, pump.is_done()), (10, 10, true));
}

#[test]
fn a_decoder_goes_as_fast_as_its_slowest_parent() {
    const OTHER: NodeId = NodeId(3);
    let sinks = [Sink::Store, Sink::Forward(PARENT), Sink::Forward(OTHER)];
    let mut pump = Pump::new(role(false, &[CHILD], &sinks, Spools::Nothing), 2);
    pump.open();
    assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 2)]);
    pump.on_arrived(CHILD, 0);
    pump.on_arrived(CHILD, 1);
    pump.on_granted(PARENT, 0, 2);
    assert_eq!(steps(&mut pump), [], "the other one takes nothing yet");
    pump.on_granted(OTHER, 0, 1);
    assert_eq!(steps(&mut pump), [Step::Deliver(0)]);
    assert!(pump.feeds(PARENT) && pump.feeds(OTHER) && !pump.feeds(CHILD));
    pump.on_left(0);
    pump.on_left(0);
    assert_eq!(steps(&mut pump), [], "one result is still here");
    pump.on_left(0);
    assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 3)]);
    assert_eq!(pump.slices_done(), 1);
}

/// Plays driver and children until nothing moves any more; gives the slices that were delivered.
/// Children send whatever they were granted.
fn settle(pump: &mut Pump) -> Vec<u32> {
    let mut delivered = Vec::new();
    let mut sent = std::collections::BTreeMap::new();
    while let Some(step) = pump.poll() {
        match step {
            Step::Grant(child, below) => {
                let from: &mut u32 = sent.entry(child).or_default();
                (*from..below).for_each(|slice| {
                    if pump.wants(child, slice) {
                        pump.on_arrived(child, slice);
                    }
                });
                *from = below;
            }
            Step::Spill(child, slice) => pump.on_spilled(child, slice),
            Step::ReadOwn(slice) | Step::ReadSpool(slice) => pump.on_read(slice),
            Step::Deliver(slice) => {
                delivered.push(slice);
                pump.on_left(slice);
            }
            Step::Spool(slice) => pump.on_left(slice),
        }
    }
    delivered
}

#[test]
fn a_gated_relay_keeps_each_child_when_released_and_sends_when_all_is_there() {
    const OTHER: NodeId = NodeId(3);
    let sinks = [Sink::Forward(PARENT)];
    let mut pump = Pump::new(role(true, &[CHILD, OTHER], &sinks, Spools::Sources), 4);
    pump.open();
    pump.on_granted(PARENT, 0, 10);
    assert_eq!(steps(&mut pump), [], "not even the own chunk is read");
    assert!(!pump.wants(CHILD, 0) && !pump.is_owed());
    pump.on_released(OTHER);
    assert_eq!(pump.poll(), Some(Step::Grant(OTHER, 4)));
    assert!(pump.is_owed());
    pump.on_arrived(OTHER, 1);
    assert_eq!(steps(&mut pump), [Step::Spill(OTHER, 1)], "in any order");
    pump.on_spilled(OTHER, 1);
    [3, 0, 2].into_iter().for_each(|slice| pump.on_arrived(OTHER, slice));
    assert!(settle(&mut pump).is_empty(), "the other child is still to come");
    assert_eq!(pump.spilled().collect::<Vec<_>>(), [OTHER]);
    assert!(pump.awaits(CHILD) && !pump.awaits(OTHER) && !pump.is_owed());
    assert_eq!((pump.bytes_done(), pump.progress()), (300, 10), "a third of the way");
    pump.on_released(CHILD);
    assert_eq!(settle(&mut pump), (0..10).collect::<Vec<_>>());
    assert_eq!(pump.spilled().collect::<Vec<_>>(), [CHILD, OTHER]);
    assert_eq!(pump.progress(), 40, "ten slices of each child, spooled together, and passed on");
    assert!(pump.is_done() && !pump.is_owed());
    assert_eq!(pump.bytes_done(), 1000);
}

#[test]
fn bytes_done_reach_the_lanes_length_only_with_the_last_result() {
    let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Store], Spools::Sources), 2);
    pump.on_released(CHILD);
    pump.open();
    let mut before = 0;
    while !pump.is_done() {
        let step = pump.poll().expect("it moves");
        match step {
            Step::Grant(_, below) => {
                (below.saturating_sub(2)..below).for_each(|slice| {
                    if pump.wants(CHILD, slice) {
                        pump.on_arrived(CHILD, slice);
                    }
                });
            }
            Step::Spill(child, slice) => pump.on_spilled(child, slice),
            Step::ReadSpool(slice) => pump.on_read(slice),
            Step::Deliver(slice) => pump.on_left(slice),
            other => panic!("{other:?}"),
        }
        assert!(pump.bytes_done() >= before, "it never shrinks");
        before = pump.bytes_done();
        assert!(before < 1000 || pump.is_done());
    }
    assert_eq!(before, 1000);
}

#[test]
fn a_pump_that_is_held_takes_what_it_asked_for_and_asks_for_no_more() {
    for spools in [Spools::Nothing, Spools::Sources] {
        let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Store], spools), 2);
        pump.hold(true);
        pump.on_released(CHILD);
        pump.open();
        assert_eq!(steps(&mut pump), []);
        assert!(!pump.is_owed());
        pump.hold(false);
        assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 2)]);
        pump.hold(true);
        (0..2).for_each(|slice| pump.on_arrived(CHILD, slice));
        settle(&mut pump);
        assert!(pump.progress() == 2 && !pump.is_owed() && !pump.is_done());
        pump.hold(false);
        pump.hold(false);
        settle(&mut pump);
        assert!(pump.is_done());
    }
}

#[test]
fn a_pump_is_owed_what_it_granted_read_and_passed_on() {
    let mut pump = Pump::new(role(true, &[CHILD], &[Sink::Forward(PARENT)], Spools::Nothing), 2);
    pump.open();
    assert!(pump.is_owed(), "reads and grants");
    (0..2).for_each(|slice| pump.on_read(slice));
    assert!(pump.is_owed(), "grants");
    (0..2).for_each(|slice| pump.on_arrived(CHILD, slice));
    assert!(!pump.is_owed(), "the parent takes nothing");
    pump.on_granted(PARENT, 0, 1);
    assert!(pump.is_owed(), "a result is on its way");
}

#[test]
fn a_destination_that_has_the_first_slices_asks_for_the_others_alone() {
    let role = role(false, &[CHILD], &[Sink::Store], Spools::Nothing);
    let mut pump = Pump::new(role.clone(), 4).skipping(7);
    pump.open();
    assert_eq!((pump.first(), pump.bytes_done()), (Some(7), 700));
    assert!(!pump.wants(CHILD, 6) && pump.wants(CHILD, 7));
    assert_eq!(settle(&mut pump), [7, 8, 9]);
    assert!(pump.is_done());
    assert_eq!(pump.range_done(), Range { from: 0, to: 1000 });
    pump.assert_invariants(RepairId(0), 0);

    let mut pump = Pump::new(role, 4).skipping(10);
    pump.hold(true);
    pump.open();
    assert_eq!(steps(&mut pump), [], "it is held");
    pump.hold(false);
    assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 10)], "nothing is to come, and that is said");
    assert!(pump.is_done() && !pump.wants(CHILD, 9) && !pump.is_owed());
}

#[test]
fn who_forwards_does_nothing_before_it_has_heard_what_is_wanted_and_then_no_more() {
    let role = |spools| role(true, &[CHILD], &[Sink::Forward(PARENT)], spools);
    let mut pump = Pump::new(role(Spools::Nothing), 4).skipping(3);
    pump.open();
    assert_eq!((steps(&mut pump), pump.first(), pump.is_owed()), (vec![], None, false));
    pump.on_granted(PARENT, 7, 9);
    let reads = (7..9).map(Step::ReadOwn);
    let expected: Vec<Step> = [Step::Grant(CHILD, 9)].into_iter().chain(reads).collect();
    assert_eq!(steps(&mut pump), expected);
    pump.on_granted(PARENT, 0, 10);
    assert_eq!(pump.first(), Some(7), "it is said once");
    for spools in [Spools::Nothing, Spools::Results] {
        let mut pump = Pump::new(role(spools), 4).skipping(0);
        pump.open();
        pump.on_granted(PARENT, 10, 10);
        assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 10)], "the child hears it too");
        assert!(pump.is_done());
        let mut pump = Pump::new(role(spools), 4).skipping(0);
        pump.open();
        pump.on_granted(PARENT, 8, 10);
        assert_eq!(settle(&mut pump), [8, 9]);
        assert!(pump.is_done());
        pump.assert_invariants(RepairId(0), 0);
    }
}

#[test]
fn a_decoder_begins_with_the_first_slice_that_any_of_its_parents_wants() {
    const OTHER: NodeId = NodeId(3);
    let sinks = [Sink::Store, Sink::Forward(PARENT), Sink::Forward(OTHER)];
    let mut pump = Pump::new(role(false, &[CHILD], &sinks, Spools::Nothing), 2).skipping(8);
    pump.open();
    pump.on_granted(OTHER, 6, 8);
    assert_eq!((steps(&mut pump), pump.first()), (vec![], None), "one has not spoken");
    // A grant of less than it has: nothing is wanted before its first.
    pump.on_granted(PARENT, 5, 0);
    assert_eq!((steps(&mut pump), pump.first()), (vec![Step::Grant(CHILD, 7)], Some(5)));
    pump.on_arrived(CHILD, 5);
    assert_eq!(steps(&mut pump), []);
    pump.on_granted(PARENT, 5, 7);
    assert_eq!(steps(&mut pump), [Step::Deliver(5)]);
    pump.assert_invariants(RepairId(0), 0);
}

#[test]
fn a_child_owes_what_it_was_granted_and_a_parent_a_grant_once_it_has_all_it_takes() {
    let mut pump = Pump::new(role(false, &[CHILD], &[Sink::Forward(PARENT)], Spools::Nothing), 4);
    let owing = |pump: &Pump| {
        let owing = pump.peers().filter(|progress| progress.owes);
        owing.map(|progress| progress.peer).collect::<Vec<_>>()
    };
    assert_eq!(owing(&pump), [], "it was not opened");
    pump.open();
    assert_eq!(steps(&mut pump), [Step::Grant(CHILD, 2)]);
    assert_eq!(owing(&pump), [CHILD, PARENT]);
    pump.on_granted(PARENT, 0, 1);
    assert_eq!(owing(&pump), [CHILD]);
    (0..2).for_each(|slice| pump.on_arrived(CHILD, slice));
    assert_eq!(owing(&pump), [], "one is on its way to the parent");
    pump.on_left(0);
    assert_eq!(steps(&mut pump), [Step::Deliver(0), Step::Grant(CHILD, 4)]);
    assert_eq!(owing(&pump), [CHILD, PARENT]);
    let moved = |pump: &Pump| pump.peers().map(|progress| progress.moved).collect::<Vec<_>>();
    assert_eq!(moved(&pump), [2, 1]);
}

#[test]
fn a_child_of_which_slices_are_spilled_owes_what_it_was_granted() {
    let mut pump = Pump::new(role(true, &[CHILD], &[Sink::Store], Spools::Sources), 4);
    pump.open();
    let child = |pump: &Pump| pump.peers().next().expect("it has a child");
    assert!(!child(&pump).owes, "it was not released");
    pump.on_released(CHILD);
    assert!(child(&pump).owes);
    (0..4).for_each(|slice| pump.on_arrived(CHILD, slice));
    assert_eq!((child(&pump).owes, child(&pump).moved), (false, 4));
}
