//! Why applications are held up otherwise than in the simulator, beside a repair and without it.
//!
//! Place: within the explanation of an emulated repair, for latencies and interference degrees.
//! On sockets requests wait in full queues, idle links let pass at once what fits their bucket, and
//! full queues are shared by what each connection has in flight. The last is one cause, of which
//! what requests have of full links is the measure. Where there is none, it is what was known
//! before: lanes between the same two nodes share one connection where each request has its own.
//! What few requests leave is attributed to chance where both sides may have the same value.

use super::cause::{Cause, Leftover, explained};
use crate::reproduce::emulated::{RequestFacts, ShareFacts, Spread, Within};
use crate::reproduce::table::shown;

/// Of what the simulator has not, what was measured explains all of a difference from this part of
/// it on.
const ENOUGH: f64 = 0.5;

/// Parts of full links are the same on both sides where they differ by no more than this part.
const SAME: f64 = 0.05;

/// Of what requests take where connections take the place of lanes.
const CONNECTED: &str = "lanes between the same two nodes share one connection, and each request \
                         has its own: simulated so";

/// Why the slowest requests wait for another time: first that they are others, then what those that
/// were made in all runs have of links, and what is left of it as far as they wait.
pub fn of_p99(simulated: Spread, emulated: f64, requests: &RequestFacts) -> String {
    let difference = emulated - simulated.value;
    let alone = requests.alone_p99_ms - requests.alone_p99_waited_ms;
    let common = requests.common_p99_ms.zip(requests.simulated_common_p99_ms);
    let shared = |share: &ShareFacts| (share.p99_ms, share.lanes_p99_ms, shared_links(share));
    let shared = requests.share.as_ref().map(shared);
    let connected =
        || Some((requests.connection_p99_ms?, requests.lanes_p99_ms?, CONNECTED.to_string()));
    let again = shared.or_else(connected).map(|(ms, lanes_ms, words)| Cause {
        amount: ms - lanes_ms,
        words: format!("{words}, it is {} ms and not {} ms", shown(ms), shown(lanes_ms)),
    });
    let shared_ms = again.as_ref().map_or(0.0, |again| again.amount);
    let others = common.map(|(common, simulated_common)| Cause {
        amount: (emulated - common) - (simulated.value - simulated_common),
        words: format!(
            "it is of other requests: of the {} that clients came to in all runs it is {} ms, in the \
             simulator {} ms",
            requests.common,
            shown(common),
            shown(simulated_common)
        ),
    });
    let causes = [
        bucket("without a repair", alone, requests.simulated_alone_p99_ms, requests.bucket_ms),
        again,
        others,
    ];
    let mut causes: Vec<Cause> = causes.into_iter().flatten().collect();
    let left = |causes: &[Cause]| difference - causes.iter().map(|c| c.amount).sum::<f64>();
    causes.extend(waits(left(&causes), requests.p99_waited_ms));
    causes.extend(uneven_parts(left(&causes), shared_ms, requests));
    let words = format!(
        "without a repair it is {} ms, in the simulator {} ms",
        shown(requests.alone_p99_ms),
        shown(requests.simulated_alone_p99_ms)
    );
    let of_draws = |within: Within| Within {
        least: within.least.min(simulated.least),
        most: within.most.map(|most| most.max(simulated.most)),
        ..within
    };
    let within = requests.p99_within.zip(requests.simulated_p99_within.map(of_draws));
    let chance = within.filter(|(one, other)| one.overlaps(other)).map(|(one, other)| {
        format!(
            "chance: of {} requests the 99th percentile lies {} with 95 %, of {} in the simulator \
             {} with all draws",
            one.of,
            between(&one, "ms"),
            other.of,
            between(&other, "ms")
        )
    });
    explained(difference, "ms", &causes, Leftover { words, chance })
}

/// From where to where, with the unit.
fn between(within: &Within, unit: &str) -> String {
    let least = shown(within.least);
    match within.most {
        Some(most) => format!("between {least} and {} {unit}", shown(most)),
        None => format!("above {least} {unit}"),
    }
}

/// What the request at that place waits without a byte on its way, of what other causes leave.
fn waits(left: f64, waited_ms: f64) -> Option<Cause> {
    let amount = left.min(waited_ms);
    (amount > 0.0).then(|| Cause {
        amount,
        words: format!(
            "the request at that place waits {} ms without a byte on its way, in full queues of \
             links and for processes, which the simulator has not",
            shown(waited_ms)
        ),
    })
}

/// That the slowest requests have another part of their links than in the simulator, as far as that
/// explains what other causes leave; of so many milliseconds what requests have on average is the
/// cause already.
fn uneven_parts(left: f64, shared_ms: f64, requests: &RequestFacts) -> Option<Cause> {
    let (part, simulated) = requests.slowest_part.zip(requests.simulated_slowest_part)?;
    let passing_ms = requests.common_p99_ms? - requests.p99_waited_ms;
    let more_ms = passing_ms * (1.0 - part / simulated) - shared_ms;
    (left * more_ms > 0.0).then(|| Cause {
        amount: if left > 0.0 { left.min(more_ms) } else { left.max(more_ms) },
        words: format!(
            "while their bytes move the slowest requests have {} % of their links, in the \
             simulator {} %: connections do not share a full queue evenly",
            shown(100.0 * part),
            shown(100.0 * simulated)
        ),
    })
}

/// That bytes pass sooner on an idle link, if it lets pass at once what explains it.
fn bucket(when: &str, ms: f64, simulated_ms: f64, bucket_ms: f64) -> Option<Cause> {
    let sooner = simulated_ms - ms;
    (sooner > 0.0 && sooner <= bucket_ms).then(|| Cause {
        amount: -sooner,
        words: format!(
            "{when} its bytes pass in {} ms, in the simulator in {} ms: an idle link lets pass at \
             once what else takes {} ms",
            shown(ms),
            shown(simulated_ms),
            shown(bucket_ms)
        ),
    })
}

/// By how much more one is than another, in percent of what is compared, which are logarithms, so
/// that parts add up.
fn percent(of: f64, over: f64) -> f64 {
    100.0 * (of / over).ln()
}

/// Why applications are held up by another part of their time: they take longer beside the repair
/// than simulated, or less long without it, or degrees are of other requests.
pub fn of_degree(simulated: Spread, emulated: f64, requests: &RequestFacts) -> String {
    let difference = percent(100.0 + emulated, 100.0 + simulated.value);
    let both = percent(requests.mean_ms, requests.simulated_ms)
        + percent(requests.simulated_alone_ms, requests.alone_ms);
    let degree = |beside: f64, alone: f64| shown(100.0 * (beside / alone - 1.0));
    let mut causes = vec![Cause {
        amount: difference - both,
        words: format!(
            "it is of other requests: of the {} that clients came to in all runs the degree is {} %, \
             in the simulator {} %",
            requests.common,
            degree(requests.mean_ms, requests.alone_ms),
            degree(requests.simulated_ms, requests.simulated_alone_ms)
        ),
    }];
    causes.extend(beside_repair(requests));
    causes.extend(without_repair(requests));
    let words = format!(
        "requests take {} ms beside the repair and {} ms without it, in the simulator {} and {} ms",
        shown(requests.mean_ms),
        shown(requests.alone_ms),
        shown(requests.simulated_ms),
        shown(requests.simulated_alone_ms)
    );
    let words = words + &requests.share.as_ref().map(full_time).unwrap_or_default();
    let chance = degree_by_chance(simulated, requests);
    explained(difference, "%", &causes, Leftover { words, chance })
}

/// What requests have of full links on both sides, and with what that is simulated again.
fn shared_links(share: &ShareFacts) -> String {
    let percent = |part: f64| shown(100.0 * part);
    let with = if (share.reached / share.measured - 1.0).abs() <= SAME {
        "with the part of the testbed".to_string()
    } else {
        format!("with {} %, the nearest to that", percent(share.reached))
    };
    format!(
        "while their bytes move requests have {} % of a full link, in the simulator {} %, since a \
         full queue is shared by what each connection has in flight: simulated {with}",
        percent(share.measured),
        percent(share.simulated)
    )
}

/// In what part of the time links of requests are full and shared, behind what those take.
fn full_time(share: &ShareFacts) -> String {
    format!(
        ", and share a full link in {} % of the time in which their bytes move, in the simulator in \
         {} %",
        shown(100.0 * share.full_time),
        shown(100.0 * share.simulated_full_time)
    )
}

/// What requests take on average where the repair is simulated again.
struct MeanAgain {
    ms: f64,
    /// The same in the simulation as it was.
    lanes_ms: f64,
    /// What is otherwise in it.
    words: String,
}

impl MeanAgain {
    /// With what requests have of full links, or else with connections; never both, since the one
    /// is a part of the other.
    fn of(requests: &RequestFacts) -> Option<MeanAgain> {
        if let Some(share) = &requests.share {
            let (ms, lanes_ms, words) = (share.mean_ms, share.lanes_ms, shared_links(share));
            return Some(MeanAgain { ms, lanes_ms, words });
        }
        let (ms, lanes_ms) = requests.connection_ms.zip(requests.lanes_ms)?;
        Some(MeanAgain { ms, lanes_ms, words: CONNECTED.to_string() })
    }

    fn cause(&self) -> Cause {
        let MeanAgain { ms, lanes_ms, words } = self;
        let (ms_text, lanes_text) = (shown(*ms), shown(*lanes_ms));
        Cause {
            amount: percent(*ms, *lanes_ms),
            words: format!(
                "{words}, requests beside the repair take {ms_text} ms and not {lanes_text} ms"
            ),
        }
    }
}

/// That requests have more or less of full links than they have in any simulation, as far as the
/// bytes take time that share one there.
fn beyond_reach(share: &ShareFacts, simulated_ms: f64) -> Option<Cause> {
    let rest = share.reached / share.measured;
    let times = 1.0 - share.reached_full_time * (1.0 - rest);
    ((rest - 1.0).abs() > SAME && times > 0.0).then(|| Cause {
        amount: percent(times, 1.0),
        words: format!(
            "no simulation gives requests {} % of a full link; where the bytes that share one, \
             which take {} % of the time, had that, they would take {} ms and not {} ms",
            shown(100.0 * share.measured),
            shown(100.0 * share.reached_full_time),
            shown(times * simulated_ms),
            shown(simulated_ms)
        ),
    })
}

/// By how many times longer requests take where as many of their bytes as on the testbed move on
/// full links that they share, if those move as fast as they do simulated again, and all others,
/// too; `None` where there they have only one kind.
fn more_on_full_links(share: &ShareFacts) -> Option<f64> {
    let (bytes, time) = (share.reached_full_bytes, share.reached_full_time);
    let has_both = (0.0..1.0).contains(&bytes) && bytes > 0.0 && time < 1.0;
    has_both.then(|| {
        let (full, other) = (time / bytes, (1.0 - time) / (1.0 - bytes));
        share.full_bytes * full + (1.0 - share.full_bytes) * other
    })
}

/// That more or fewer bytes of requests meet full links, as the repair fills them for more or less
/// of its time.
fn on_full_links(share: &ShareFacts, simulated_ms: f64) -> Option<Cause> {
    let times = more_on_full_links(share)?;
    Some(Cause {
        amount: percent(times, 1.0),
        words: format!(
            "the repair fills links for another part of the time: {} % of the bytes of requests \
             share a full link, in the simulator {} %; with as many, which are as fast as there, \
             requests take {} ms and not {} ms",
            shown(100.0 * share.full_bytes),
            shown(100.0 * share.reached_full_bytes),
            shown(times * simulated_ms),
            shown(simulated_ms)
        ),
    })
}

/// Why requests take another time beside the repair: first what other shares of links do to them
/// and how many meet full ones, then what is left of it.
fn beside_repair(requests: &RequestFacts) -> Vec<Cause> {
    let RequestFacts { mean_ms, simulated_ms, waited_ms, .. } = *requests;
    let again = MeanAgain::of(requests);
    let times = again.as_ref().map_or(1.0, |again| again.ms / again.lanes_ms);
    let mut causes: Vec<Cause> = again.iter().map(MeanAgain::cause).collect();
    let mut simulated_so = times * simulated_ms;
    for of_share in [beyond_reach, on_full_links] {
        if let Some(cause) = requests.share.as_ref().and_then(|s| of_share(s, simulated_so)) {
            simulated_so *= (cause.amount / 100.0).exp();
            causes.push(cause);
        }
    }
    let left = percent(mean_ms, simulated_so);
    if left > 0.0 && waited_ms > 0.0 {
        causes.push(Cause {
            amount: by_waits(mean_ms, simulated_so, waited_ms),
            words: format!(
                "beside the repair requests take {} ms, in the simulator {} ms, and {} ms of that \
                 they wait without a byte on its way, in full queues of links and for processes",
                shown(mean_ms),
                shown(simulated_so),
                shown(waited_ms)
            ),
        });
    }
    let passed = mean_ms - waited_ms;
    let sooner = bucket("beside the repair", passed, simulated_so, requests.bucket_ms);
    causes.extend(sooner.filter(|_| left < 0.0).map(|cause| Cause { amount: left, ..cause }));
    causes
}

/// How much of what requests take more than simulated is that they wait, in percent of what is
/// compared: all of it where it is the larger part, since queues are longer than what is waited in
/// them without a byte; else no more than was measured.
fn by_waits(ms: f64, simulated_ms: f64, waited_ms: f64) -> f64 {
    if waited_ms >= ENOUGH * (ms - simulated_ms) {
        percent(ms, simulated_ms)
    } else {
        percent(ms, ms - waited_ms)
    }
}

/// Why requests take another time without a repair.
fn without_repair(requests: &RequestFacts) -> Option<Cause> {
    let RequestFacts { alone_ms, alone_waited_ms, simulated_alone_ms, .. } = *requests;
    let alone = percent(simulated_alone_ms, alone_ms);
    let passed = alone_ms - alone_waited_ms;
    let sooner = bucket("without a repair", passed, simulated_alone_ms, requests.bucket_ms);
    if alone > 0.0 {
        return sooner.map(|cause| Cause { amount: alone, ..cause });
    }
    (alone < 0.0 && alone_waited_ms > 0.0).then(|| Cause {
        amount: -by_waits(alone_ms, simulated_alone_ms, alone_waited_ms),
        words: format!(
            "without a repair requests take {} ms, in the simulator {} ms, and {} ms of that they \
             wait for processes",
            shown(alone_ms),
            shown(simulated_alone_ms),
            shown(alone_waited_ms)
        ),
    })
}

/// That both degrees may be the same, if so, by how much clients differ on both sides and draws in
/// the simulator.
fn degree_by_chance(simulated: Spread, requests: &RequestFacts) -> Option<String> {
    let (one, clients) = (requests.degree_within?, requests.simulated_degree_within?);
    let least = clients.least.min(simulated.least);
    let most = clients.most.map(|most| most.max(simulated.most));
    let other = Within { least, most, ..clients };
    one.overlaps(&other).then(|| {
        format!(
            "chance: by {} clients the degree lies {} with 95 %, in the simulator {} with all draws",
            one.of,
            between(&one, "%"),
            between(&other, "%")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two thirds of the time that they take in the simulator, where they have less of full links.
    fn shared() -> RequestFacts {
        let share = ShareFacts {
            measured: 0.6,
            requests: 80,
            simulated: 0.36,
            full_time: 0.8,
            simulated_full_time: 0.9,
            full_bytes: 0.5,
            reached_full_bytes: 0.5,
            reached_full_time: 0.9,
            factor: 3.5,
            reached: 0.61,
            lanes_ms: 640.0,
            mean_ms: 400.0,
            lanes_p99_ms: 1500.0,
            p99_ms: 900.0,
            seconds: 14.0,
        };
        RequestFacts {
            mean_ms: 400.0,
            simulated_ms: 600.0,
            alone_ms: 200.0,
            simulated_alone_ms: 200.0,
            waited_ms: 60.0,
            bucket_ms: 20.0,
            // Connections are no cause beside shares.
            lanes_ms: Some(600.0),
            connection_ms: Some(700.0),
            lanes_p99_ms: Some(1500.0),
            connection_p99_ms: Some(2000.0),
            share: Some(share),
            ..RequestFacts::default()
        }
    }

    fn degree(requests: &RequestFacts) -> String {
        let degree = |beside: f64, alone: f64| 100.0 * (beside / alone - 1.0);
        let value = degree(requests.simulated_ms, requests.simulated_alone_ms);
        let simulated = Spread { value, least: value, most: value };
        of_degree(simulated, degree(requests.mean_ms, requests.alone_ms), requests)
    }

    fn is_unexplained(words: &str) -> bool {
        words.contains("not explained by what was measured")
    }

    #[test]
    fn what_requests_have_of_full_links_explains_a_degree_as_far_as_it_was_simulated() {
        let words = degree(&shared());
        let expected = "-47.0 %: while their bytes move requests have 60.0 % of a full link, in \
                        the simulator 36.0 %, since a full queue is shared by what each connection \
                        has in flight: simulated with the part of the testbed, requests beside the \
                        repair take 400 ms and not 640 ms";
        assert!(words.starts_with(expected), "{words}");
        assert!(!words.contains("share one connection") && !is_unexplained(&words), "{words}");
        // Parts add up, to what requests take less.
        let of = |requests: &RequestFacts| -> f64 {
            beside_repair(requests).iter().map(|cause| cause.amount).sum()
        };
        let all = 100.0 * (400.0_f64 / 600.0).ln();
        assert!((of(&shared()) - all).abs() < 1e-9, "{}", of(&shared()));
        // What they wait is measured beyond what they have of links.
        let waits = RequestFacts { waited_ms: 0.0, ..shared() };
        let share = 100.0 * (400.0_f64 / 640.0).ln();
        assert!((of(&waits) - share).abs() < 1e-9, "{}", of(&waits));
    }

    #[test]
    fn requests_that_meet_full_links_less_often_take_less_time() {
        // On full links nine times as long a byte: 0.2 of 1.8 and 0.8 of 0.2.
        let share =
            shared().share.map(|share| ShareFacts { full_bytes: 0.2, ..share }).expect("a share");
        let times = more_on_full_links(&share).expect("both kinds");
        assert!((times - 0.52).abs() < 1e-12, "{times}");
        let requests = RequestFacts { mean_ms: 195.0, share: Some(share), ..shared() };
        let words = degree(&requests);
        let expected = "20.0 % of the bytes of requests share a full link, in the simulator 50.0 %; \
                        with as many, which are as fast as there, requests take 195 ms and not 375 ms";
        assert!(words.contains(expected) && !is_unexplained(&words), "{words}");
        // With one kind alone nothing is known of the other.
        for (bytes, time) in [(0.0, 0.0), (1.0, 1.0)] {
            let (reached_full_bytes, reached_full_time) = (bytes, time);
            let share = ShareFacts { reached_full_bytes, reached_full_time, ..share };
            assert_eq!(more_on_full_links(&share), None);
        }
    }

    #[test]
    fn a_share_that_changes_little_leaves_what_it_leaves() {
        let share = shared().share.map(|share| ShareFacts { mean_ms: 620.0, ..share });
        let words = degree(&RequestFacts { share, ..shared() });
        assert!(is_unexplained(&words), "{words}");
        let left = "and share a full link in 80.0 % of the time in which their bytes move, in the \
                    simulator in 90.0 %";
        assert!(words.contains(left), "{words}");
    }

    #[test]
    fn what_cannot_be_reached_is_said_with_what_can() {
        let share = shared().share.map(|share| ShareFacts { reached: 0.5, ..share });
        let words = degree(&RequestFacts { share, mean_ms: 300.0, ..shared() });
        let nearest = "simulated with 50.0 %, the nearest to that, requests beside";
        assert!(words.contains(nearest), "{words}");
        // 0.9 of the time five sixths of what it is, and the rest as it is.
        let rest = "no simulation gives requests 60.0 % of a full link; where the bytes that share \
                    one, which take 90.0 % of the time, had that, they would take 319 ms and not \
                    375 ms";
        assert!(words.contains(rest) && !is_unexplained(&words), "{words}");
    }

    #[test]
    fn the_slowest_requests_have_another_share_of_full_links_too() {
        let drawn = |value| Spread { value, least: value, most: value };
        let waits = RequestFacts { p99_waited_ms: 100.0, ..shared() };
        let words = of_p99(drawn(1500.0), 960.0, &waits);
        assert!(words.starts_with("-600 ms: while their bytes move requests have"), "{words}");
        assert!(words.contains("of the testbed, it is 900 ms and not 1500 ms"), "{words}");
        assert!(!words.contains("share one connection") && !is_unexplained(&words), "{words}");
        // Those that are slow share a queue less evenly than all.
        let uneven = RequestFacts {
            common_p99_ms: Some(2500.0),
            simulated_common_p99_ms: Some(1500.0),
            slowest_part: Some(0.1),
            simulated_slowest_part: Some(0.16),
            ..waits.clone()
        };
        let of_parts = |requests: &RequestFacts| of_p99(drawn(1500.0), 2500.0, requests);
        let words = of_parts(&uneven);
        // Of 2400 ms that pass 900 come of it; by what all requests have it were 600 less.
        let part = "+1500 ms: while their bytes move the slowest requests have 10.0 % of their \
                    links, in the simulator 16.0 %: connections do not share a full queue evenly";
        assert!(words.contains(part) && !is_unexplained(&words), "{words}");
        // They explain no more than there is, and nothing that is the other way round.
        let larger = RequestFacts { slowest_part: Some(0.5), ..uneven.clone() };
        assert!(is_unexplained(&of_parts(&larger)), "{}", of_parts(&larger));
        let share = shared().share.map(|share| ShareFacts { p99_ms: 4500.0, ..share });
        let less = RequestFacts { share, p99_waited_ms: 0.0, ..uneven.clone() };
        let words = of_parts(&less);
        assert!(words.contains("-2000 ms: while their bytes move the slowest requests"), "{words}");
        // Without a measure of it connections are the cause that they were.
        let requests = RequestFacts { share: None, ..shared() };
        let words = of_p99(drawn(1500.0), 2000.0, &requests);
        let expected = "+500 ms: lanes between the same two nodes share one connection, and each \
                        request has its own: simulated so, it is 2000 ms and not 1500 ms";
        assert_eq!(words, expected);
    }
}
