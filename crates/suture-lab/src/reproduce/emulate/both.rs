//! What requests of applications took on both sides: on the testbed and in the simulator.
//!
//! Place: between an emulated repair with its simulation and the explanation of their difference.
//! Clients make the same requests in the same order everywhere, but not equally many: a repair that
//! takes longer meets more of them, and without a repair they are watched for a while. Means are of
//! what each client came to in all four runs: with a repair and without, on both sides. Where the
//! repair is simulated again with other shares, means are of those that they came to there, too.

use std::collections::BTreeSet;

use suture_sim::client::{Operation, percentile};

use super::chance::{SLOWEST, degree_within, percentile_within};
use super::predict::{DrawnRequests, common};
use super::share::{Again, SharedAgain};
use crate::reproduce::emulated::{RequestFacts, ShareFacts};
use crate::testbed::requests::LoopLogs;

/// Between these parts of all requests lie those that take about as long as the 99th percentile.
const ABOUT_SLOWEST: [f64; 2] = [0.98, 1.0];

/// What requests took in all runs.
pub struct BothSides<'a> {
    /// Requests on the testbed.
    pub logs: &'a LoopLogs,
    /// Requests in the simulator.
    pub drawn: &'a DrawnRequests,
    /// The same draw again, in which requests have another share of links.
    pub again: Option<&'a Again>,
    /// How long a link takes for what an idle one lets pass at once.
    pub bucket_ms: f64,
}

impl BothSides<'_> {
    /// What explains their difference; `None` where no client came to a request in all runs.
    pub fn facts(&self) -> Option<RequestFacts> {
        let BothSides { logs, drawn, .. } = self;
        let (slowest, slowest_alone) = (logs.beside.at(SLOWEST)?, logs.alone.at(SLOWEST)?);
        let (beside, alone) = (logs.beside.seconds(), logs.alone.seconds());
        let counts = drawn.common_counts(logs);
        let (mean, mean_alone) =
            (logs.beside.first(&counts).mean()?, logs.alone.first(&counts).mean()?);
        let (shared, connected) = match self.again {
            Some(Again::Shared(shared)) => (Some(shared), None),
            Some(Again::Connected(connected)) => (None, Some(&connected[..])),
            None => (None, None),
        };
        let means = connected.and_then(|connected| means_ms(connected, &drawn.beside, &counts));
        Some(RequestFacts {
            mean_ms: 1e3 * mean.seconds,
            waited_ms: 1e3 * mean.waited,
            alone_ms: 1e3 * mean_alone.seconds,
            alone_waited_ms: 1e3 * mean_alone.waited,
            simulated_ms: mean_ms(&drawn.beside, &counts)?,
            simulated_alone_ms: mean_ms(&drawn.alone, &counts)?,
            p99_waited_ms: 1e3 * slowest.waited,
            alone_p99_ms: 1e3 * slowest_alone.seconds,
            alone_p99_waited_ms: 1e3 * slowest_alone.waited,
            simulated_alone_p99_ms: drawn.alone_p99_ms,
            bucket_ms: self.bucket_ms,
            common: counts.iter().sum::<usize>() as u64,
            lanes_ms: means.map(|means| means.lanes),
            connection_ms: means.map(|means| means.again),
            lanes_p99_ms: means.map(|means| means.lanes_p99),
            connection_p99_ms: means.map(|means| means.again_p99),
            share: shared.and_then(|shared| share_facts(shared, &drawn.beside, &counts)),
            common_p99_ms: Some(p99_ms(&beside, &counts)),
            simulated_common_p99_ms: Some(p99_ms(&drawn.beside, &counts)),
            slowest_part: logs.links.part_of(&logs.beside.moved, &slowest_of(&beside, &counts)),
            simulated_slowest_part: drawn
                .links
                .part_of(&drawn.moved, &slowest_of(&drawn.beside, &counts)),
            p99_within: percentile_within(&ascending(&beside, &all_of(&beside)), SLOWEST),
            simulated_p99_within: drawn.p99_within,
            degree_within: degree_within(&sums(&beside, &alone)),
            simulated_degree_within: degree_within(&sums(&drawn.beside, &drawn.alone)),
        })
    }
}

/// What requests have of full links, and what they take where they have as much in the simulator as
/// on the testbed, of the first operations of each client, so many; `None` where no client came to
/// one in that and in the draw as it was.
fn share_facts(shared: &SharedAgain, drawn: &[Vec<f64>], counts: &[usize]) -> Option<ShareFacts> {
    let SharedAgain { measured, simulated, factor, draw } = shared;
    let means = means_ms(&draw.beside, drawn, counts)?;
    Some(ShareFacts {
        measured: measured.part,
        requests: measured.requests as u64,
        simulated: simulated.part,
        full_time: measured.time_part,
        simulated_full_time: simulated.time_part,
        full_bytes: measured.bytes_part,
        reached_full_bytes: draw.full_share.bytes_part,
        reached_full_time: draw.full_share.time_part,
        factor: *factor,
        reached: draw.full_share.part,
        lanes_ms: means.lanes,
        mean_ms: means.again,
        lanes_p99_ms: means.lanes_p99,
        p99_ms: means.again_p99,
        seconds: draw.seconds,
    })
}

/// Of a draw as it was and of the same again, the mean and the 99th percentile of the same
/// requests.
#[derive(Clone, Copy, Debug)]
struct BothMeans {
    lanes: f64,
    lanes_p99: f64,
    again: f64,
    again_p99: f64,
}

/// Of the first operations of each client, so many, that it came to in both; `None` of none.
fn means_ms(again: &[Vec<f64>], drawn: &[Vec<f64>], counts: &[usize]) -> Option<BothMeans> {
    let in_both = common(&[again, drawn]);
    let least = |(both, count): (&usize, &usize)| *both.min(count);
    let counts: Vec<usize> = in_both.iter().zip(counts).map(least).collect();
    Some(BothMeans {
        lanes: mean_ms(drawn, &counts)?,
        lanes_p99: p99_ms(drawn, &counts),
        again: mean_ms(again, &counts)?,
        again_p99: p99_ms(again, &counts),
    })
}

/// All requests of each client.
fn all_of(run: &[Vec<f64>]) -> Vec<usize> {
    run.iter().map(Vec::len).collect()
}

/// The first so many requests of each client, ascending.
fn ascending(run: &[Vec<f64>], counts: &[usize]) -> Vec<f64> {
    let clients = run.iter().zip(counts);
    let first = clients.flat_map(|(seconds, count)| seconds.iter().take(*count));
    let mut seconds: Vec<f64> = first.copied().collect();
    seconds.sort_unstable_by(f64::total_cmp);
    seconds
}

/// The mean of the first so many requests of each client; `None` of none.
fn mean_ms(run: &[Vec<f64>], counts: &[usize]) -> Option<f64> {
    let seconds = ascending(run, counts);
    let mean = 1e3 * seconds.iter().sum::<f64>() / seconds.len() as f64;
    (!seconds.is_empty()).then_some(mean)
}

/// The 99th percentile of the first so many requests of each client.
fn p99_ms(run: &[Vec<f64>], counts: &[usize]) -> f64 {
    1e3 * percentile(&ascending(run, counts), SLOWEST)
}

/// Of the first so many operations of each client, those that take about as long as the 99th
/// percentile.
fn slowest_of(run: &[Vec<f64>], counts: &[usize]) -> BTreeSet<Operation> {
    let ascending = ascending(run, counts);
    if ascending.is_empty() {
        return BTreeSet::new();
    }
    let [least, most] = ABOUT_SLOWEST.map(|part| percentile(&ascending, part));
    let of_client = |(client, (seconds, count)): (usize, (&Vec<f64>, &usize))| {
        let first = seconds.iter().take(*count).enumerate();
        let is_slow = |seconds: f64| least <= seconds && seconds <= most;
        let slow = first.filter(|(_, seconds)| is_slow(**seconds));
        slow.map(|(before, _)| Operation { client, before }).collect::<Vec<_>>()
    };
    run.iter().zip(counts).enumerate().flat_map(of_client).collect()
}

/// What each client took beside a repair and without it for the requests that it made both times.
fn sums(beside: &[Vec<f64>], alone: &[Vec<f64>]) -> Vec<(f64, f64)> {
    let clients = beside.iter().zip(alone);
    let sum = |(beside, alone): (&Vec<f64>, &Vec<f64>)| {
        let pairs = || beside.iter().zip(alone);
        (pairs().map(|(beside, _)| beside).sum(), pairs().map(|(_, alone)| alone).sum())
    };
    clients.map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::super::predict::SharedDraw;
    use super::*;
    use crate::testbed::full_links::{FullShare, LinkSteps};
    use crate::testbed::requests::{RequestLog, RequestTime};

    fn log(clients: &[&[f64]]) -> RequestLog {
        let time = |seconds: &f64| RequestTime { seconds: *seconds, waited: seconds / 4.0 };
        let clients = clients.iter().map(|all| all.iter().map(time).collect()).collect();
        RequestLog { clients, moved: Vec::new() }
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} and not {expected}");
    }

    #[test]
    fn means_are_of_what_each_client_came_to_in_all_runs() {
        let logs = LoopLogs {
            beside: log(&[&[2.0, 4.0, 60.0], &[8.0]]),
            alone: log(&[&[1.0, 1.0], &[1.0, 50.0]]),
            links: LinkSteps::default(),
        };
        let drawn = DrawnRequests {
            beside: vec![vec![3.0, 5.0, 7.0, 9.0], vec![10.0, 70.0]],
            alone: vec![vec![2.0, 2.0, 2.0, 2.0], vec![2.0, 2.0]],
            ..DrawnRequests::default()
        };
        let connected = Again::Connected(vec![vec![2.0], vec![8.0, 11.0]]);
        let of = |again| BothSides { logs: &logs, drawn: &drawn, again, bucket_ms: 110.0 };
        let facts = of(Some(&connected)).facts().unwrap();
        // Two requests of the first client, and one of the second.
        assert_eq!(facts.common, 3);
        near(facts.mean_ms, 14e3 / 3.0);
        near(facts.waited_ms, 14e3 / 12.0);
        near(facts.alone_ms, 1e3);
        near(facts.simulated_ms, 6e3);
        near(facts.simulated_alone_ms, 2e3);
        // Of these there was one of each beside both simulated repairs.
        near(facts.connection_ms.unwrap(), 5e3);
        near(facts.lanes_ms.unwrap(), 6.5e3);
        near(facts.connection_p99_ms.unwrap(), 8e3);
        near(facts.lanes_p99_ms.unwrap(), 10e3);
        near(facts.common_p99_ms.unwrap(), 8e3);
        near(facts.simulated_common_p99_ms.unwrap(), 10e3);
        assert_eq!(facts.p99_within.unwrap().of, 4);
        assert_eq!((facts.degree_within.unwrap().of, facts.share), (2, None));
        // What requests have of full links takes the place of connections.
        let share =
            |part| FullShare { part, time_part: part / 2.0, bytes_part: part / 4.0, requests: 40 };
        let beside = vec![vec![1.0], vec![4.0, 5.0]];
        let draw = SharedDraw { full_share: share(0.62), seconds: 12.0, beside };
        let (measured, simulated) = (share(0.6), share(0.4));
        let shared = Again::Shared(SharedAgain { measured, simulated, factor: 2.5, draw });
        let facts = of(Some(&shared)).facts().unwrap();
        assert_eq!((facts.connection_ms, facts.connection_p99_ms), (None, None));
        let share = facts.share.unwrap();
        assert_eq!((share.measured, share.simulated, share.reached), (0.6, 0.4, 0.62));
        assert_eq!((share.full_time, share.simulated_full_time), (0.3, 0.2));
        assert_eq!((share.factor, share.seconds, share.requests), (2.5, 12.0, 40));
        let reached = (share.reached_full_bytes, share.reached_full_time);
        assert_eq!((share.full_bytes, reached), (0.15, (0.155, 0.31)));
        near(share.mean_ms, 2.5e3);
        near(share.lanes_ms, 6.5e3);
        near(share.p99_ms, 4e3);
        near(share.lanes_p99_ms, 10e3);
    }

    #[test]
    fn the_slowest_are_of_all_clients_and_of_what_all_runs_have() {
        let seconds = |from: u32| (0..50).map(|n| f64::from(from + n)).collect::<Vec<f64>>();
        let run = [seconds(0), seconds(50), seconds(1000)];
        let slowest = slowest_of(&run, &[50, 50, 0]);
        let at = |before| Operation { client: 1, before };
        assert_eq!(slowest, [at(47), at(48), at(49)].into());
        assert!(slowest_of(&run, &[0, 0, 0]).is_empty());
    }

    #[test]
    fn nothing_is_compared_where_no_client_came_to_a_request_everywhere() {
        let logs = LoopLogs {
            beside: log(&[&[1.0], &[]]),
            alone: log(&[&[1.0], &[1.0]]),
            ..LoopLogs::default()
        };
        let drawn = DrawnRequests {
            beside: vec![vec![], vec![1.0]],
            alone: vec![vec![], vec![1.0]],
            ..DrawnRequests::default()
        };
        let both = BothSides { logs: &logs, drawn: &drawn, again: None, bucket_ms: 1.0 };
        assert_eq!(both.facts(), None);
    }
}
