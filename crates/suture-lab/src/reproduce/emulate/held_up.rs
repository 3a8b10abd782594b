//! Why applications are held up otherwise than in the simulator, beside a repair and without it.
//!
//! Place: within the explanation of an emulated repair, for latencies and interference degrees.
//! On sockets requests wait in full queues, idle links let pass at once what fits their bucket, and
//! lanes between the same two nodes share one connection where each request has its own; what few
//! requests leave is attributed to chance where both sides may have the same value.

use super::cause::{Cause, Leftover, explained};
use crate::reproduce::emulated::{RequestFacts, Spread, Within};
use crate::reproduce::table::shown;

/// Of what the simulator has not, what was measured explains a difference from this part of it on.
const ENOUGH: f64 = 0.5;

/// Why the slowest requests wait for another time.
pub fn of_p99(simulated: f64, emulated: f64, requests: &RequestFacts) -> String {
    let alone = requests.alone_p99_ms - requests.alone_p99_waited_ms;
    let connected = requests.connection_p99_ms.map(|ms| Cause {
        amount: ms - simulated,
        words: format!(
            "lanes between the same two nodes share one connection, and each request has its own: \
             simulated so it is {} ms and not {} ms",
            shown(ms),
            shown(simulated)
        ),
    });
    let common = requests.common_p99_ms.zip(requests.simulated_common_p99_ms);
    let others = common.map(|(common, simulated_common)| Cause {
        amount: (emulated - common) - (simulated - simulated_common),
        words: format!(
            "it is of other requests: of the {} that clients came to in all runs it is {} ms, in the \
             simulator {} ms",
            requests.common,
            shown(common),
            shown(simulated_common)
        ),
    });
    let causes = [
        waits(requests.p99_waited_ms, "the request at that place"),
        bucket("without a repair", alone, requests.simulated_alone_p99_ms, requests.bucket_ms),
        connected,
        others,
    ];
    let causes: Vec<Cause> = causes.into_iter().flatten().collect();
    let words = format!(
        "without a repair it is {} ms, in the simulator {} ms",
        shown(requests.alone_p99_ms),
        shown(requests.simulated_alone_p99_ms)
    );
    let within = requests.p99_within.zip(requests.simulated_p99_within);
    let chance = within.filter(|(one, other)| one.overlaps(other)).map(|(one, other)| {
        format!(
            "chance: of {} requests the 99th percentile lies {} with 95 %, of {} in the simulator \
             {}",
            one.of,
            between(&one, "ms"),
            other.of,
            between(&other, "ms")
        )
    });
    explained(emulated - simulated, "ms", &causes, Leftover { words, chance })
}

/// From where to where, with the unit.
fn between(within: &Within, unit: &str) -> String {
    let least = shown(within.least);
    match within.most {
        Some(most) => format!("between {least} and {} {unit}", shown(most)),
        None => format!("above {least} {unit}"),
    }
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
    let chance = degree_by_chance(simulated, requests);
    explained(difference, "%", &causes, Leftover { words, chance })
}

/// Why requests take another time beside the repair: first what connections do to them, then what
/// is left of it.
fn beside_repair(requests: &RequestFacts) -> Vec<Cause> {
    let RequestFacts { mean_ms, simulated_ms, waited_ms, .. } = *requests;
    let connected = requests.connection_ms.zip(requests.lanes_ms);
    let times = connected.map_or(1.0, |(connection, lanes)| connection / lanes);
    let mut causes = Vec::new();
    causes.extend(connected.map(|(connection, lanes)| Cause {
        amount: percent(connection, lanes),
        words: format!(
            "lanes between the same two nodes share one connection, and each request has its own: \
             simulated so, requests beside the repair take {} ms and not {} ms",
            shown(connection),
            shown(lanes)
        ),
    }));
    let simulated_so = times * simulated_ms;
    let left = percent(mean_ms, simulated_so);
    if left > 0.0 && waited_ms >= ENOUGH * (mean_ms - simulated_so) {
        causes.push(Cause {
            amount: left,
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

/// Why requests take another time without a repair.
fn without_repair(requests: &RequestFacts) -> Option<Cause> {
    let RequestFacts { alone_ms, alone_waited_ms, simulated_alone_ms, .. } = *requests;
    let alone = percent(simulated_alone_ms, alone_ms);
    let passed = alone_ms - alone_waited_ms;
    let sooner = bucket("without a repair", passed, simulated_alone_ms, requests.bucket_ms);
    if alone > 0.0 {
        return sooner.map(|cause| Cause { amount: alone, ..cause });
    }
    (alone < 0.0 && alone_waited_ms >= ENOUGH * (alone_ms - simulated_alone_ms)).then(|| Cause {
        amount: alone,
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
