//! Agents execute any valid plan: several lanes, sums and decoders, several lost chunks, periods,
//! pure relays, spooled results, in memory that only just suffices.

use crate::common::Case;
use suture_repair::plan::Mode;
use suture_repair::time::Span;

/// What made a plan special.
#[derive(Default)]
struct Special {
    lanes: usize,
    is_stored: bool,
    is_periodic: bool,
    decodes: bool,
    has_traces: bool,
    lost: usize,
}

/// One plan on a cluster of its own.
fn execute(seed: u64) -> Special {
    let mut case = Case::new(seed);
    let plan = case.plan();
    let whole = plan.range.from == 0 && plan.range.to >= case.stripe.reach(&plan.lost);
    let task = case.task(1, &plan);
    case.dispatch(&task);
    case.run(Span::from_secs(3));
    let rule = "a whole chunk is published, a part never";
    assert_eq!(case.is_published(&task), whole, "seed {seed}: {rule}: {plan:?}");
    case.assert_swept();
    if !whole {
        return Special::default();
    }
    Special {
        lanes: plan.lanes.len(),
        is_stored: plan.lanes.iter().any(|lane| lane.mode == Mode::Stored),
        is_periodic: plan.period.is_some(),
        decodes: plan.lanes.iter().any(|lane| lane.decoder.is_some()),
        has_traces: plan.lanes.iter().any(|lane| lane.scheme.is_some()),
        lost: plan.lost.len(),
    }
}

#[test]
fn agents_execute_any_valid_plan() {
    let special: Vec<Special> = (0..1000).map(execute).collect();
    let tried = |rule: fn(&Special) -> bool| special.iter().filter(|plan| rule(plan)).count() >= 10;
    assert!(tried(|plan| plan.lanes > 2), "several lanes");
    assert!(tried(|plan| plan.is_stored), "spooled results");
    assert!(tried(|plan| plan.is_periodic), "periods");
    assert!(tried(|plan| plan.decodes && plan.lost > 1), "decoders of several chunks");
    assert!(tried(|plan| plan.has_traces), "traces");
    assert!(tried(|plan| !plan.decodes), "sums");
}
