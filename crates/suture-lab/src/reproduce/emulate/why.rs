//! Why a value of the testbed is another than in the simulator, by what was measured of both.
//!
//! Place: behind an emulated repair. A difference is taken apart into causes, each with its share
//! in the unit of the difference, and each a number that was measured. What they leave is said to
//! be left: an explanation can fail. Repairs are taken apart exactly. They take the time until the
//! first is dispatched, that in which the busiest link is busy, that in which it idles, and that
//! from the last byte to the last commit; the simulator has no first and no last. `held_up.rs` has
//! what applications meet, `cause.rs` what a cause is.

use super::cause::{Cause, Leftover, explained};
use super::held_up::{of_degree, of_p99};
use crate::reproduce::emulated::{
    CoordinatorFacts, EmulatedFacts, EmulatedWhat, Spread, TrafficFacts,
};
use crate::reproduce::table::shown;
use crate::testbed::full_links::FULL;

/// Differences above this are explained.
pub const NEAR: f64 = 0.1;

/// Links are full in turns where in this part of the time one of them is.
const IN_TURNS: f64 = 0.8;

/// Why both differ, in words; nothing where they hardly do.
pub fn why(what: EmulatedWhat, simulated: Spread, emulated: f64, facts: &EmulatedFacts) -> String {
    let apart = what.apart(simulated.value, emulated);
    if apart.abs() <= NEAR {
        return String::new();
    }
    let direction = if apart > 0.0 { "more" } else { "less" };
    let percent = shown(100.0 * apart.abs());
    // Of the draw that is nearest it differs by too little to be explained.
    let nearest = emulated.clamp(simulated.least, simulated.most);
    let is_drawn = what.apart(nearest, emulated).abs() <= NEAR;
    let reasons = if is_drawn && facts.processor_part < FULL {
        format!(
            "other draws of the policy come to {} in the simulator",
            range(simulated, what.unit())
        )
    } else {
        reasons(what, simulated, emulated, facts)
    };
    format!("{percent} % {direction}: {reasons}")
}

/// From the least to the most, with the unit.
fn range(spread: Spread, unit: &str) -> String {
    let text = format!("{} to {} {unit}", shown(spread.least), shown(spread.most));
    text.trim_end().to_string()
}

fn reasons(what: EmulatedWhat, simulated: Spread, emulated: f64, facts: &EmulatedFacts) -> String {
    let difference = emulated - simulated.value;
    match (what, &facts.requests) {
        (EmulatedWhat::Seconds | EmulatedWhat::Throughput, _) => of_time(facts),
        (EmulatedWhat::Traffic, _) => of_traffic(difference, facts),
        (EmulatedWhat::CoordinatorSeconds, _) => of_coordinator(difference, facts),
        (EmulatedWhat::P99, Some(requests)) => of_p99(simulated, emulated, requests),
        (EmulatedWhat::Degree, Some(requests)) => of_degree(simulated, emulated, requests),
        (EmulatedWhat::P99 | EmulatedWhat::Degree, None) => {
            explained(difference, what.unit(), &[], Leftover::default())
        }
    }
}

/// Why a repair takes another time.
fn of_time(facts: &EmulatedFacts) -> String {
    let start = facts.start_seconds.unwrap_or(0.0);
    let end = facts.end_seconds.unwrap_or(0.0);
    let moving = facts.simulated_seconds - facts.planning_seconds;
    let busy = facts.busiest_part * facts.seconds;
    let simulated_busy = facts.simulated_busiest_part * moving;
    let idle = (facts.seconds - start - end - busy) - (moving - simulated_busy);
    let percent = |part: f64| shown(100.0 * part);
    let full = format!(
        "some link is full in {} % of the time, in the simulator in {} %, and {} % of the cores \
         are busy",
        percent(facts.full_part),
        percent(facts.simulated_full_part),
        percent(facts.processor_part),
    );
    let mut causes = vec![
        Cause {
            amount: start - facts.planning_seconds,
            words: format!(
                "until the first repair is dispatched, {} s, of which the simulator has {} s of \
                 planning",
                shown(start),
                shown(facts.planning_seconds)
            ),
        },
        Cause {
            amount: end,
            words: "after the last bytes on links: to check, publish and commit chunks".into(),
        },
        Cause {
            amount: busy - simulated_busy,
            words: format!(
                "the busiest link, {}, carries what fills it for {} s, in the simulator for {} s",
                facts.busiest_link,
                shown(busy),
                shown(simulated_busy)
            ),
        },
    ];
    // That a link idles explains nothing: only why it does.
    let idles = if facts.processor_part >= FULL {
        Some(format!("links wait for the processor: {full}"))
    } else if facts.full_part >= IN_TURNS {
        Some(format!("links are full in turns, so that each idles for a while: {full}"))
    } else {
        None
    };
    causes.extend(idles.map(|words| Cause { amount: idle, words }));
    let left = Leftover::of(full);
    explained(facts.seconds - facts.simulated_seconds, "s", &causes, left)
}

/// Why nodes send another number of bytes for each lost byte.
fn of_traffic(difference: f64, facts: &EmulatedFacts) -> String {
    let idle = facts.idle_sent_bytes.map(|bytes| Cause {
        amount: bytes / facts.lost_bytes as f64,
        words: "what nodes send in as much time without a failure".into(),
    });
    let counted = facts.traffic.iter().flat_map(|traffic| counted(facts, traffic));
    let causes: Vec<Cause> = idle.into_iter().chain(counted).collect();
    let left = format!(
        "nodes send {} MB, in the simulator {} MB, of which headers are not counted",
        megabytes(facts.sent_bytes),
        megabytes(facts.simulated_sent_bytes)
    );
    explained(difference, "", &causes, Leftover::of(left))
}

/// What nodes send otherwise than in the simulator, by what daemons counted: what is no payload,
/// what plans move as they are, and what repairs move otherwise than the plans they began with.
fn counted(facts: &EmulatedFacts, traffic: &TrafficFacts) -> Vec<Cause> {
    let per_lost = |bytes: f64| bytes / facts.lost_bytes as f64;
    let idle = facts.idle_sent_bytes.unwrap_or(0.0);
    let framing = facts.sent_bytes - idle - traffic.payload_bytes;
    let otherwise = traffic.payload_bytes - traffic.begun_bytes;
    let simulated_otherwise = facts.simulated_sent_bytes - traffic.simulated_begun_bytes;
    let mut causes = vec![
        Cause {
            amount: per_lost(framing),
            words: format!(
                "{} MB of what nodes send are no payload of repairs but headers, grants, \
                 acknowledgements and reports",
                megabytes(framing)
            ),
        },
        Cause {
            amount: per_lost(traffic.begun_bytes - traffic.simulated_begun_bytes),
            words: format!(
                "{:.0} repairs of {} lost chunks began with plans that move {} MB, in the simulator \
                 {} MB",
                traffic.begun,
                facts.lost_chunks,
                megabytes(traffic.begun_bytes),
                megabytes(traffic.simulated_begun_bytes)
            ),
        },
    ];
    // That something else is moved than was planned explains nothing: only why it is.
    if traffic.replaced + traffic.failed + traffic.simulated_replaced > 0.0 {
        causes.push(Cause {
            amount: per_lost(otherwise - simulated_otherwise),
            words: format!(
                "{:.0} repairs go on by another plan and {:.0} attempts fail, so that {} MB are sent \
                 beyond the plans of the beginning; in the simulator {:.0} repairs and {} MB",
                traffic.replaced,
                traffic.failed,
                megabytes(otherwise),
                traffic.simulated_replaced,
                megabytes(simulated_otherwise)
            ),
        });
    }
    causes
}

fn megabytes(bytes: f64) -> String {
    shown(bytes / 1e6)
}

/// Why the coordinator takes another time of the processor.
fn of_coordinator(difference: f64, facts: &EmulatedFacts) -> String {
    let idle = facts.idle_coordinator_seconds.map(|seconds| Cause {
        amount: seconds,
        words: "what the process takes in as much time without a failure: heartbeats of all agents"
            .into(),
    });
    let done = facts.coordinator.iter().flat_map(|coordinator| done(facts, coordinator));
    let mut causes: Vec<Cause> = idle.into_iter().chain(done).collect();
    let sum = causes.iter().map(|cause| cause.amount).sum::<f64>();
    let rest = difference - sum;
    // A process that is woken for each costs more than one that is busy, and not twice as much.
    if rest < 0.0 && -rest < sum / 2.0 {
        causes.push(Cause {
            amount: rest,
            words: "what that takes without a failure, where the process is woken for each of it, \
                    is more than what it takes of a process that is busy"
                .into(),
        });
    }
    let left = format!(
        "beyond all that was measured it is {} ms for each of {} rebuilt chunks",
        shown(1e3 * rest / facts.lost_chunks.max(1) as f64),
        facts.lost_chunks
    );
    explained(difference, "s", &causes, Leftover::of(left))
}

/// What the coordinator's process does that the simulator has not, by what it takes for each.
fn done(facts: &EmulatedFacts, coordinator: &CoordinatorFacts) -> [Cause; 3] {
    let CoordinatorFacts { status_asks, status_seconds, messages, heartbeat_seconds, .. } =
        coordinator;
    [
        Cause {
            amount: status_asks * status_seconds,
            words: format!(
                "the testbed asks {status_asks:.0} times for the status, which takes {} ms each \
                 without a failure",
                shown(1e3 * status_seconds)
            ),
        },
        Cause {
            amount: messages * heartbeat_seconds,
            words: format!(
                "{messages:.0} messages of repairs, as many as in the simulator, each taken as the \
                 {} ms of a heartbeat without a failure",
                shown(1e3 * heartbeat_seconds)
            ),
        },
        Cause {
            amount: coordinator.metadata_seconds,
            words: format!(
                "the thread that commits the locations of {} rebuilt chunks",
                facts.lost_chunks
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::emulated::{RequestFacts, Within};

    /// 10 s in the simulator, in which the busiest link carries all that it can.
    fn facts() -> EmulatedFacts {
        EmulatedFacts {
            seconds: 10.0,
            simulated_seconds: 10.0,
            start_seconds: Some(0.0),
            end_seconds: Some(0.0),
            busiest_link: "n3 down".into(),
            busiest_part: 1.0,
            simulated_busiest_part: 1.0,
            full_part: 0.5,
            simulated_full_part: 1.0,
            processor_part: 0.3,
            lost_chunks: 20,
            lost_bytes: 20 << 20,
            ..EmulatedFacts::default()
        }
    }

    fn seconds(facts: &EmulatedFacts) -> String {
        let simulated = facts.simulated_seconds;
        let spread = Spread { value: simulated, least: simulated, most: simulated };
        why(EmulatedWhat::Seconds, spread, facts.seconds, facts)
    }

    fn is_unexplained(words: &str) -> bool {
        words.contains("not explained by what was measured")
    }

    #[test]
    fn what_hardly_differs_needs_no_words() {
        assert_eq!(seconds(&EmulatedFacts { seconds: 10.9, ..facts() }), "");
    }

    #[test]
    fn a_link_that_carries_more_makes_a_repair_longer() {
        // Busy for all of the 15 s.
        let words = seconds(&EmulatedFacts { seconds: 15.0, ..facts() });
        let expected = "50.0 % more: +5.00 s: the busiest link, n3 down, carries what fills it for \
                        15.0 s, in the simulator for 10.0 s";
        assert_eq!(words, expected);
    }

    #[test]
    fn a_link_that_idles_is_explained_by_the_processor_or_by_other_links_or_not_at_all() {
        // Busy for 10 of 15 s, as in the simulator.
        let idle = EmulatedFacts { seconds: 15.0, busiest_part: 10.0 / 15.0, ..facts() };
        let words = seconds(&idle);
        assert!(is_unexplained(&words), "{words}");
        assert!(words.contains("+5.00 s is not") && words.contains("full in 50.0 %"), "{words}");
        let words = seconds(&EmulatedFacts { processor_part: 0.95, ..idle.clone() });
        assert!(words.contains("+5.00 s: links wait for the processor"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        let words = seconds(&EmulatedFacts { full_part: 0.9, ..idle });
        assert!(words.contains("+5.00 s: links are full in turns"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
    }

    #[test]
    fn times_before_the_first_byte_and_after_the_last_are_causes_of_their_own() {
        let words = seconds(&EmulatedFacts {
            seconds: 14.0,
            start_seconds: Some(1.5),
            end_seconds: Some(2.5),
            planning_seconds: 0.5,
            simulated_seconds: 10.5,
            busiest_part: 10.0 / 14.0,
            ..facts()
        });
        let (last, first) =
            (words.find("+2.50 s: after the last bytes"), words.find("+1.00 s: until"));
        assert!(last.is_some() && last < first, "the largest comes first: {words}");
        assert!(words.contains("1.50 s, of which the simulator has 0.500 s"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
    }

    #[test]
    fn causes_that_work_against_each_other_add_up() {
        // Links carry less, and more than that is lost before they begin.
        let words = seconds(&EmulatedFacts {
            seconds: 12.0,
            start_seconds: Some(5.0),
            busiest_part: 7.0 / 12.0,
            ..facts()
        });
        assert!(
            words.contains("+5.00 s: until") && words.contains("-3.00 s: the busiest"),
            "{words}"
        );
        assert!(!is_unexplained(&words), "{words}");
    }

    #[test]
    fn what_another_draw_comes_to_is_explained_by_chance_unless_the_processor_is_full() {
        let spread = Spread { value: 10.0, least: 8.0, most: 13.0 };
        let of = |facts: &EmulatedFacts| why(EmulatedWhat::Seconds, spread, 12.0, facts);
        let facts = EmulatedFacts { seconds: 12.0, ..facts() };
        let words = of(&facts);
        assert!(
            words.ends_with("other draws of the policy come to 8.00 to 13.0 s in the simulator")
        );
        assert!(!of(&EmulatedFacts { processor_part: 0.9, ..facts.clone() }).contains("draws"));
        // What is within a tenth of some draw is no further than what needs no explanation.
        let of = |seconds: f64| {
            let facts = EmulatedFacts { seconds, ..facts.clone() };
            why(EmulatedWhat::Seconds, spread, seconds, &facts)
        };
        assert!(of(14.2).contains("draws") && !of(14.4).contains("draws"));
    }

    #[test]
    fn a_throughput_is_explained_by_its_time() {
        let spread = Spread { value: 2.0, least: 2.0, most: 2.0 };
        let facts = EmulatedFacts { seconds: 15.0, ..facts() };
        let words = why(EmulatedWhat::Throughput, spread, 4.0 / 3.0, &facts);
        assert!(words.starts_with("33.3 % less: +5.00 s: the busiest link"), "{words}");
    }

    #[test]
    fn traffic_is_explained_as_far_as_there_is_some_without_a_failure() {
        let spread = Spread { value: 3.0, least: 3.0, most: 3.0 };
        let half = EmulatedFacts { idle_sent_bytes: Some(0.6 * 20.0 * 1048576.0), ..facts() };
        let words = why(EmulatedWhat::Traffic, spread, 3.6, &half);
        assert!(words.starts_with("20.0 % more: +0.600: what nodes send"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        let none = EmulatedFacts { idle_sent_bytes: Some(0.0), ..facts() };
        assert!(is_unexplained(&why(EmulatedWhat::Traffic, spread, 3.6, &none)));
    }

    #[test]
    fn traffic_is_explained_by_plans_that_took_the_place_of_others_and_not_without_them() {
        let spread = Spread { value: 4.0, least: 4.0, most: 4.0 };
        let of = |traffic: TrafficFacts| {
            let facts = EmulatedFacts {
                lost_chunks: 8,
                lost_bytes: 10_000_000,
                sent_bytes: 60e6,
                simulated_sent_bytes: 40e6,
                idle_sent_bytes: Some(0.5e6),
                traffic: Some(traffic),
                ..facts()
            };
            why(EmulatedWhat::Traffic, spread, 6.0, &facts)
        };
        let traffic = TrafficFacts {
            payload_bytes: 56e6,
            begun_bytes: 41e6,
            begun: 8.0,
            replaced: 5.0,
            failed: 1.0,
            simulated_begun_bytes: 40e6,
            simulated_replaced: 0.0,
        };
        let words = of(traffic);
        let expected = "50.0 % more: +1.50: 5 repairs go on by another plan and 1 attempts fail, so \
                        that 15.0 MB are sent beyond the plans of the beginning";
        assert!(words.starts_with(expected), "{words}");
        assert!(words.contains("+0.350: 3.50 MB of what nodes send are no payload"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        let words = of(TrafficFacts { replaced: 0.0, failed: 0.0, ..traffic });
        assert!(is_unexplained(&words) && !words.contains("by another plan"), "{words}");
        let words = of(TrafficFacts { begun_bytes: 56e6, replaced: 0.0, failed: 0.0, ..traffic });
        assert!(words.contains("+1.60: 8 repairs of 8 lost chunks began with plans"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
    }

    #[test]
    fn the_time_of_a_coordinator_is_explained_by_what_it_does_and_what_that_takes() {
        let spread = Spread { value: 0.1, least: 0.1, most: 0.1 };
        let of = |coordinator: CoordinatorFacts| {
            let facts = EmulatedFacts {
                idle_coordinator_seconds: Some(0.2),
                coordinator: Some(coordinator),
                ..facts()
            };
            why(EmulatedWhat::CoordinatorSeconds, spread, 1.1, &facts)
        };
        let coordinator = CoordinatorFacts {
            status_asks: 400.0,
            status_seconds: 1e-3,
            messages: 2000.0,
            heartbeat_seconds: 1e-4,
            metadata_seconds: 0.16,
        };
        let words = of(coordinator);
        for part in [
            "+0.400 s: the testbed asks 400 times for the status, which takes 1.00 ms",
            "+0.200 s: 2000 messages of repairs",
            "+0.160 s: the thread that commits the locations of 20 rebuilt chunks",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(!is_unexplained(&words), "{words}");
        let words = of(CoordinatorFacts { status_seconds: 0.0, ..coordinator });
        assert!(is_unexplained(&words) && words.contains("+0.440 s is not"), "{words}");
    }

    #[test]
    fn a_coordinator_that_is_busy_takes_less_than_one_that_is_woken_for_everything() {
        let spread = Spread { value: 0.1, least: 0.1, most: 0.1 };
        let of = |status_seconds| {
            let coordinator = CoordinatorFacts {
                status_asks: 400.0,
                status_seconds,
                messages: 2000.0,
                heartbeat_seconds: 1e-4,
                metadata_seconds: 0.0,
            };
            let facts = EmulatedFacts {
                idle_coordinator_seconds: Some(0.3),
                coordinator: Some(coordinator),
                ..facts()
            };
            why(EmulatedWhat::CoordinatorSeconds, spread, 1.1, &facts)
        };
        let words = of(2.5e-3);
        assert!(words.contains("-0.500 s: what that takes without a failure"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        let words = of(5e-3);
        assert!(is_unexplained(&words), "more than half of it is no matter of that: {words}");
    }

    #[test]
    fn the_time_of_a_coordinator_is_explained_by_heartbeats_alone() {
        let spread = Spread { value: 0.1, least: 0.1, most: 0.1 };
        let of = |idle| {
            let facts = EmulatedFacts { idle_coordinator_seconds: Some(idle), ..facts() };
            why(EmulatedWhat::CoordinatorSeconds, spread, 1.1, &facts)
        };
        assert!(!is_unexplained(&of(0.9)), "{}", of(0.9));
        let words = of(0.2);
        assert!(is_unexplained(&words) && words.contains("40.0 ms for each of 20"), "{words}");
    }

    fn requests() -> RequestFacts {
        RequestFacts {
            mean_ms: 300.0,
            waited_ms: 90.0,
            alone_ms: 110.0,
            alone_waited_ms: 1.0,
            simulated_ms: 210.0,
            simulated_alone_ms: 210.0,
            p99_waited_ms: 100.0,
            alone_p99_ms: 120.0,
            alone_p99_waited_ms: 1.0,
            simulated_alone_p99_ms: 220.0,
            bucket_ms: 105.0,
            ..RequestFacts::default()
        }
    }

    fn degree(requests: &RequestFacts) -> String {
        let facts = EmulatedFacts { requests: Some(requests.clone()), ..facts() };
        why(EmulatedWhat::Degree, Spread::default(), 172.7, &facts)
    }

    #[test]
    fn a_degree_is_explained_by_queues_beside_a_repair_and_by_idle_links_without_it() {
        let words = degree(&requests());
        assert!(words.contains("+64.7 %: without a repair its bytes pass in 109 ms"), "{words}");
        assert!(words.contains("+35.7 %: beside the repair") && !is_unexplained(&words), "{words}");
        // No repair waits, so queues explain nothing.
        let words = degree(&RequestFacts { waited_ms: 5.0, ..requests() });
        assert!(
            !words.contains("beside the repair requests take 300 ms, in the simulator 210 ms, and")
        );
        assert!(is_unexplained(&words), "{words}");
        // A bucket gives a link no more than it holds.
        let words = degree(&RequestFacts { bucket_ms: 50.0, ..requests() });
        assert!(!words.contains("lets pass at once") && is_unexplained(&words), "{words}");
    }

    #[test]
    fn the_slowest_requests_are_explained_by_what_they_wait() {
        let of = |emulated, requests| {
            let facts = EmulatedFacts { requests: Some(requests), ..facts() };
            let spread = Spread { value: 400.0, least: 400.0, most: 400.0 };
            why(EmulatedWhat::P99, spread, emulated, &facts)
        };
        let words = of(500.0, RequestFacts { simulated_alone_p99_ms: 110.0, ..requests() });
        assert!(words.starts_with("25.0 % more: +100 ms: the request at that place"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        assert!(is_unexplained(&of(900.0, requests())));
        let sooner = RequestFacts { p99_waited_ms: 0.0, ..requests() };
        let words = of(300.0, sooner);
        assert!(words.starts_with("25.0 % less: -101 ms: without a repair its bytes"), "{words}");
    }
    #[test]
    fn what_few_requests_leave_of_the_slowest_is_chance_only_where_intervals_overlap() {
        let of = |requests| {
            let facts = EmulatedFacts { requests: Some(requests), ..facts() };
            let spread = Spread { value: 400.0, least: 400.0, most: 400.0 };
            why(EmulatedWhat::P99, spread, 900.0, &facts)
        };
        let connected = RequestFacts {
            lanes_p99_ms: Some(400.0),
            connection_p99_ms: Some(700.0),
            ..requests()
        };
        let words = of(connected.clone());
        assert!(words.contains("+300 ms: lanes between the same two nodes share one"), "{words}");
        assert!(words.contains("+201 ms is not explained"), "{words}");
        let within = |least, most, of| Some(Within { least, most, of });
        let few = RequestFacts {
            p99_within: within(420.0, Some(950.0), 412),
            simulated_p99_within: within(300.0, None, 90),
            ..connected
        };
        let words = of(few.clone());
        let chance = "+201 ms: chance: of 412 requests the 99th percentile lies between 420 and 950 \
                      ms with 95 %, of 90 in the simulator above 300 ms with all draws";
        assert!(words.ends_with(chance) && !is_unexplained(&words), "{words}");
        let many =
            RequestFacts { simulated_p99_within: within(300.0, Some(370.0), 9000), ..few.clone() };
        assert!(is_unexplained(&of(many)));
        // The requests that were made everywhere are answered alike.
        let others = RequestFacts {
            common: 50,
            common_p99_ms: Some(500.0),
            simulated_common_p99_ms: Some(400.0),
            ..requests()
        };
        let words = of(others);
        assert!(words.contains("+400 ms: it is of other requests: of the 50 that"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
    }

    /// Half as long beside the repair as simulated, and as long without it.
    fn sooner() -> RequestFacts {
        let (mean_ms, simulated_ms, alone_ms, simulated_alone_ms) = (150.0, 210.0, 110.0, 110.0);
        let waited_ms = 0.0;
        RequestFacts {
            mean_ms,
            simulated_ms,
            alone_ms,
            simulated_alone_ms,
            waited_ms,
            ..requests()
        }
    }

    #[test]
    fn a_lower_degree_is_explained_by_connections_and_by_links_that_are_idle_for_a_while() {
        let of = |requests: RequestFacts| {
            let facts = EmulatedFacts { requests: Some(requests), ..facts() };
            let value = 100.0 * (210.0 / 110.0 - 1.0);
            let spread = Spread { value, least: value, most: value };
            why(EmulatedWhat::Degree, spread, 100.0 * (150.0 / 110.0 - 1.0), &facts)
        };
        let connected =
            RequestFacts { lanes_ms: Some(420.0), connection_ms: Some(300.0), ..sooner() };
        let words = of(connected);
        assert!(words.contains("-33.6 %: lanes between the same two nodes"), "{words}");
        assert!(words.contains("take 300 ms and not 420 ms"), "{words}");
        assert!(!words.contains("lets pass at once") && !is_unexplained(&words), "{words}");
        let words = of(sooner());
        assert!(words.contains("-33.6 %: beside the repair its bytes pass in 150 ms"), "{words}");
        assert!(!is_unexplained(&words), "{words}");
        assert!(is_unexplained(&of(RequestFacts { bucket_ms: 50.0, ..sooner() })));
    }

    #[test]
    fn degrees_of_other_requests_and_of_clients_that_differ_are_no_riddle() {
        let alike = RequestFacts { mean_ms: 210.0, alone_ms: 210.0, common: 50, ..requests() };
        let of = |requests: &RequestFacts, emulated| {
            let facts = EmulatedFacts { requests: Some(requests.clone()), ..facts() };
            why(EmulatedWhat::Degree, Spread::default(), emulated, &facts)
        };
        let words = of(&alike, 100.0);
        assert!(words.contains("+69.3 %: it is of other requests: of the 50 that"), "{words}");
        // Queues explain nothing of this one, but clients differ by as much.
        let within = |least, most| Some(Within { least, most: Some(most), of: 64 });
        let few = RequestFacts {
            waited_ms: 5.0,
            degree_within: within(50.0, 300.0),
            simulated_degree_within: within(-10.0, 60.0),
            ..requests()
        };
        let words = of(&few, 172.7);
        let chance = "chance: by 64 clients the degree lies between 50.0 and 300 % with 95 %";
        assert!(words.contains(chance) && !is_unexplained(&words), "{words}");
        let sure = RequestFacts { degree_within: within(150.0, 200.0), ..few };
        assert!(is_unexplained(&of(&sure, 172.7)));
    }
}
