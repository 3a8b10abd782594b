//! Why a value of the testbed is another than in the simulator, by what was measured of both.
//!
//! Place: behind an emulated repair. A difference is taken apart into causes, each with its share
//! in the unit of the difference, and each a number that was measured. What they leave is said to
//! be left: an explanation can fail. Repairs are taken apart exactly. They take the time until the
//! first is dispatched, that in which the busiest link is busy, that in which it idles, and that
//! from the last byte to the last commit; the simulator has no first and no last.

use crate::reproduce::emulated::{EmulatedFacts, EmulatedWhat, RequestFacts, Spread};
use crate::reproduce::table::shown;
use crate::testbed::figures::FULL;

/// Differences above this are explained.
pub const NEAR: f64 = 0.1;

/// Causes below this part of a difference are not worth their words.
const NAMED: f64 = 0.15;

/// A difference is explained when no more than this part of it is left.
const LEFT: f64 = 1.0 / 3.0;

/// Links are full in turns where in this part of the time one of them is.
const IN_TURNS: f64 = 0.8;

/// Of what the simulator has not, what was measured explains a difference from this part of it on.
const ENOUGH: f64 = 0.5;

/// A part of a difference that something explains.
#[derive(Clone, Debug, PartialEq)]
struct Cause {
    /// In the unit of the difference, with its sign.
    amount: f64,
    /// What was measured of it.
    words: String,
}

/// Why both differ, in words; nothing where they hardly do.
pub fn why(what: EmulatedWhat, simulated: Spread, emulated: f64, facts: &EmulatedFacts) -> String {
    let apart = what.apart(simulated.value, emulated);
    if apart.abs() <= NEAR {
        return String::new();
    }
    let direction = if apart > 0.0 { "more" } else { "less" };
    let percent = shown(100.0 * apart.abs());
    let is_drawn = (simulated.least..=simulated.most).contains(&emulated);
    let reasons = if is_drawn && facts.processor_part < FULL {
        format!(
            "other draws of the policy come to {} in the simulator",
            range(simulated, what.unit())
        )
    } else {
        reasons(what, simulated.value, emulated, facts)
    };
    format!("{percent} % {direction}: {reasons}")
}

/// From the least to the most, with the unit.
fn range(spread: Spread, unit: &str) -> String {
    let text = format!("{} to {} {unit}", shown(spread.least), shown(spread.most));
    text.trim_end().to_string()
}

fn reasons(what: EmulatedWhat, simulated: f64, emulated: f64, facts: &EmulatedFacts) -> String {
    let difference = emulated - simulated;
    match (what, &facts.requests) {
        (EmulatedWhat::Seconds | EmulatedWhat::Throughput, _) => of_time(facts),
        (EmulatedWhat::Traffic, _) => of_traffic(difference, facts),
        (EmulatedWhat::CoordinatorSeconds, _) => of_coordinator(difference, facts),
        (EmulatedWhat::P99, Some(requests)) => of_p99(difference, requests),
        (EmulatedWhat::Degree, Some(requests)) => of_degree(requests),
        (EmulatedWhat::P99 | EmulatedWhat::Degree, None) => explained(difference, "", &[], ""),
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
    explained(facts.seconds - facts.simulated_seconds, "s", &causes, &full)
}

/// Why nodes send another number of bytes for each lost byte.
fn of_traffic(difference: f64, facts: &EmulatedFacts) -> String {
    let idle = facts.idle_sent_bytes.map(|bytes| Cause {
        amount: bytes / facts.lost_bytes as f64,
        words: "what nodes send in as much time without a failure".into(),
    });
    let causes: Vec<Cause> = idle.into_iter().collect();
    let left = format!(
        "nodes send {} MB, in the simulator {} MB, of which headers are not counted",
        shown(facts.sent_bytes / 1e6),
        shown(facts.simulated_sent_bytes / 1e6)
    );
    explained(difference, "", &causes, &left)
}

/// Why the coordinator takes another time of the processor.
fn of_coordinator(difference: f64, facts: &EmulatedFacts) -> String {
    let idle = facts.idle_coordinator_seconds.map(|seconds| Cause {
        amount: seconds,
        words: "what the process takes in as much time without a failure: heartbeats of all agents"
            .into(),
    });
    let causes: Vec<Cause> = idle.into_iter().collect();
    let rest = difference - causes.iter().map(|cause| cause.amount).sum::<f64>();
    let left = format!(
        "it is {} ms for each of {} rebuilt chunks, whose messages and commits are not simulated",
        shown(1e3 * rest / facts.lost_chunks.max(1) as f64),
        facts.lost_chunks
    );
    explained(difference, "s", &causes, &left)
}

/// Why the slowest requests wait for another time.
fn of_p99(difference: f64, requests: &RequestFacts) -> String {
    let alone = requests.alone_p99_ms - requests.alone_p99_waited_ms;
    let causes = [
        waits(requests.p99_waited_ms, "the request at that place"),
        bucket(alone, requests.simulated_alone_p99_ms, requests.bucket_ms),
    ];
    let causes: Vec<Cause> = causes.into_iter().flatten().collect();
    let left = format!(
        "without a repair it is {} ms, in the simulator {} ms",
        shown(requests.alone_p99_ms),
        shown(requests.simulated_alone_p99_ms)
    );
    explained(difference, "ms", &causes, &left)
}

/// What requests wait that have no byte on their way.
fn waits(ms: f64, whose: &str) -> Option<Cause> {
    (ms > 0.0).then(|| Cause {
        amount: ms,
        words: format!(
            "{whose} waits so long without a byte on its way, in full queues of links and for \
             processes, which the simulator has not"
        ),
    })
}

/// That bytes pass sooner on an idle link, if it lets pass at once what explains it.
fn bucket(ms: f64, simulated_ms: f64, bucket_ms: f64) -> Option<Cause> {
    let sooner = simulated_ms - ms;
    (sooner > 0.0 && sooner <= bucket_ms).then(|| Cause {
        amount: -sooner,
        words: format!(
            "without a repair its bytes pass in {} ms, in the simulator in {} ms: an idle link lets \
             pass at once what else takes {} ms",
            shown(ms),
            shown(simulated_ms),
            shown(bucket_ms)
        ),
    })
}

/// Why applications are held up by another part of their time: they take longer beside the repair
/// than simulated, or less long without it. In percent of what is compared, which are logarithms,
/// so that both parts add up.
fn of_degree(requests: &RequestFacts) -> String {
    let percent = |of: f64, over: f64| 100.0 * (of / over).ln();
    let beside = percent(requests.mean_ms, requests.simulated_ms);
    let alone = percent(requests.simulated_alone_ms, requests.alone_ms);
    let mut causes = Vec::new();
    if requests.waited_ms >= ENOUGH * (requests.mean_ms - requests.simulated_ms) && beside > 0.0 {
        causes.push(Cause {
            amount: beside,
            words: format!(
                "beside the repair requests take {} ms, in the simulator {} ms, and {} ms of that \
                 they wait without a byte on its way, in full queues of links and for processes",
                shown(requests.mean_ms),
                shown(requests.simulated_ms),
                shown(requests.waited_ms)
            ),
        });
    }
    let passed = requests.alone_ms - requests.alone_waited_ms;
    let sooner = bucket(passed, requests.simulated_alone_ms, requests.bucket_ms);
    causes.extend(sooner.filter(|_| alone > 0.0).map(|cause| Cause { amount: alone, ..cause }));
    let longer = requests.alone_ms - requests.simulated_alone_ms;
    if alone < 0.0 && requests.alone_waited_ms >= ENOUGH * longer {
        causes.push(Cause {
            amount: alone,
            words: format!(
                "without a repair requests take {} ms, in the simulator {} ms, and {} ms of that \
                 they wait for processes",
                shown(requests.alone_ms),
                shown(requests.simulated_alone_ms),
                shown(requests.alone_waited_ms)
            ),
        });
    }
    let left = format!(
        "requests take {} ms beside the repair and {} ms without it, in the simulator {} and {} ms",
        shown(requests.mean_ms),
        shown(requests.alone_ms),
        shown(requests.simulated_ms),
        shown(requests.simulated_alone_ms)
    );
    explained(beside + alone, "%", &causes, &left)
}

/// The causes of a difference, the largest first, and what of it they leave; `left` is what else
/// was measured of that.
fn explained(difference: f64, unit: &str, causes: &[Cause], left: &str) -> String {
    let is_named = |cause: &&Cause| (cause.amount / difference).abs() >= NAMED;
    let mut named: Vec<&Cause> = causes.iter().filter(is_named).collect();
    named.sort_by(|a, b| b.amount.abs().total_cmp(&a.amount.abs()));
    let signed = |amount: f64| {
        let sign = if amount < 0.0 { '-' } else { '+' };
        format!("{sign}{} {unit}", shown(amount.abs())).trim_end().to_string()
    };
    let mut parts: Vec<String> =
        named.iter().map(|cause| format!("{}: {}", signed(cause.amount), cause.words)).collect();
    let rest = difference - named.iter().map(|cause| cause.amount).sum::<f64>();
    if (rest / difference).abs() > LEFT {
        let left = if left.is_empty() { String::new() } else { format!(" ({left})") };
        parts.push(format!("{} is not explained by what was measured{left}", signed(rest)));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!of(&EmulatedFacts { processor_part: 0.9, ..facts }).contains("draws"));
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
}
