//! Attempts that go on with what another one has left, by whatever plan and at whatever moment:
//! every chunk comes out right, and by the same lanes nothing that has come is sent again.
//!
//! The tests send what a coordinator would send to agents that execute random valid plans on real
//! bytes; `World` compares every chunk that is published with what was lost.

use crate::common::Case;
use suture_repair::id::NodeId;
use suture_repair::message::{Task, ToAgent};
use suture_repair::time::Span;

/// What each destination has of its chunk, where all of them run the task and none has all of it.
fn come(case: &Case, task: &Task) -> Option<Vec<u64>> {
    let bytes = |node: &NodeId| {
        let running = case.world.status(*node).running;
        running.into_iter().find(|(id, _)| *id == task.repair).map(|(_, bytes)| bytes)
    };
    let all: Option<Vec<u64>> = task.plan.destinations.values().map(bytes).collect();
    all.filter(|all| all.iter().all(|bytes| *bytes < task.stripe.chunk_bytes))
}

/// The nodes that work for a task and keep nothing of it are notified of its end.
fn cancel(case: &mut Case, task: &Task) {
    let keeps = |node: &NodeId| task.plan.destinations.values().any(|to| to == node);
    for node in task.plan.participants().into_iter().filter(|node| !keeps(node)) {
        case.world.notify(node, ToAgent::Cancel(task.repair));
    }
}

#[test]
fn whatever_plan_goes_on_and_whenever_it_does() {
    let (mut gone_on, mut twice, mut exactly) = (0, 0, 0);
    for seed in 0..600 {
        let mut case = Case::new(seed);
        let plan = case.whole_plan();
        let mut task = Task { skips: true, ..case.task(1, &plan) };
        case.dispatch(&task);
        for sequence in 2..=4 {
            let until = case.random.below(4_000_000);
            case.run(Span { ns: until });
            let Some(before) = come(&case, &task) else { break };
            let is_same = case.random.per_mille(500);
            let other = if is_same { task.plan.clone() } else { case.rest(&plan, 0) };
            let continues = Some(task.repair);
            let next = Task { continues, skips: true, ..case.task(sequence, &other) };
            case.dispatch(&next);
            cancel(&mut case, &task);
            let after = come(&case, &next).expect("each destination goes on, or begins anew");
            assert!(before.iter().zip(&after).all(|(before, after)| after <= before));
            if is_same && other.period.is_none() {
                assert_eq!(before, after, "seed {seed}: {other:?}");
                exactly += usize::from(after.iter().any(|bytes| *bytes > 0));
            }
            let has_come = after.iter().any(|bytes| *bytes > 0);
            gone_on += usize::from(has_come);
            twice += usize::from(has_come && sequence > 2);
            task = next;
        }
        case.run(Span::from_secs(3));
        assert!(case.is_published(&task), "seed {seed}: {:?}", task.plan);
        case.assert_swept();
    }
    assert!(gone_on >= 50 && twice >= 10 && exactly >= 20, "{gone_on} {twice} {exactly}");
}

#[test]
fn what_goes_on_and_is_cancelled_at_any_moment_leaves_nothing() {
    for seed in 0..200 {
        let mut case = Case::new(seed);
        let plan = case.whole_plan();
        let task = Task { skips: true, ..case.task(1, &plan) };
        case.dispatch(&task);
        let until = case.random.below(4_000_000);
        case.run(Span { ns: until });
        let other = case.rest(&plan, 0);
        let next = Task { continues: Some(task.repair), skips: true, ..case.task(2, &other) };
        case.dispatch(&next);
        let until = case.random.below(2_000_000);
        case.run(Span { ns: until });
        case.tell_all(&next.plan, &ToAgent::Cancel(next.repair));
        case.tell_all(&task.plan, &ToAgent::Cancel(task.repair));
        case.run(Span::from_millis(100));
        case.assert_swept();
    }
}
