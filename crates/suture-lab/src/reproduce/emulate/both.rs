//! What requests of applications took on both sides: on the testbed and in the simulator.
//!
//! Place: between an emulated repair with its simulation and the explanation of their difference.
//! Clients make the same requests in the same order everywhere, but not equally many: a repair that
//! takes longer meets more of them, and without a repair they are watched for a while. Means are of
//! what each client came to in all four runs: with a repair and without, on both sides.

use suture_sim::client::percentile;

use super::chance::{SLOWEST, degree_within, percentile_within};
use super::predict::DrawnRequests;
use crate::reproduce::emulated::RequestFacts;
use crate::testbed::requests::LoopLogs;

/// What requests took in all runs.
pub struct BothSides<'a> {
    /// Requests on the testbed.
    pub logs: &'a LoopLogs,
    /// Requests in the simulator.
    pub drawn: &'a DrawnRequests,
    /// Beside the same simulated repair, client by client, where lanes between two nodes share a
    /// connection.
    pub by_connection: Option<&'a [Vec<f64>]>,
    /// How long a link takes for what an idle one lets pass at once.
    pub bucket_ms: f64,
}

impl BothSides<'_> {
    /// What explains their difference; `None` where no client came to a request in all runs.
    pub fn facts(&self) -> Option<RequestFacts> {
        let BothSides { logs, drawn, .. } = self;
        let (slowest, slowest_alone) = (logs.beside.at(SLOWEST)?, logs.alone.at(SLOWEST)?);
        let (beside, alone) = (logs.beside.seconds(), logs.alone.seconds());
        let counts = common(&[&beside[..], &alone[..], &drawn.beside[..], &drawn.alone[..]]);
        let (mean, mean_alone) =
            (logs.beside.first(&counts).mean()?, logs.alone.first(&counts).mean()?);
        let connected = self.by_connection.map(|connected| {
            let runs = [connected, &drawn.beside[..]];
            let counts = common(&runs);
            let means = runs.map(|run| mean_ms(run, &counts));
            (means, p99_ms(connected, &all_of(connected)))
        });
        let [connection_ms, lanes_ms] = connected.map_or([None; 2], |(means, _)| means);
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
            lanes_ms,
            connection_ms,
            connection_p99_ms: connected.map(|(_, p99)| p99),
            common_p99_ms: Some(p99_ms(&beside, &counts)),
            simulated_common_p99_ms: Some(p99_ms(&drawn.beside, &counts)),
            p99_within: percentile_within(&ascending(&beside, &all_of(&beside)), SLOWEST),
            simulated_p99_within: drawn.p99_within,
            degree_within: degree_within(&sums(&beside, &alone)),
            simulated_degree_within: degree_within(&sums(&drawn.beside, &drawn.alone)),
        })
    }
}

/// How many requests each client came to in all of these runs.
fn common(runs: &[&[Vec<f64>]]) -> Vec<usize> {
    let clients = runs.iter().map(|run| run.len()).min().unwrap_or(0);
    let of_client = |client: usize| runs.iter().map(|run| run[client].len()).min().unwrap_or(0);
    (0..clients).map(of_client).collect()
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
    use super::*;
    use crate::testbed::requests::{RequestLog, RequestTime};

    fn log(clients: &[&[f64]]) -> RequestLog {
        let time = |seconds: &f64| RequestTime { seconds: *seconds, waited: seconds / 4.0 };
        RequestLog { clients: clients.iter().map(|all| all.iter().map(time).collect()).collect() }
    }

    #[test]
    fn means_are_of_what_each_client_came_to_in_all_runs() {
        let logs = LoopLogs {
            beside: log(&[&[2.0, 4.0, 60.0], &[8.0]]),
            alone: log(&[&[1.0, 1.0], &[1.0, 50.0]]),
        };
        let drawn = DrawnRequests {
            beside: vec![vec![3.0, 5.0, 7.0, 9.0], vec![10.0, 70.0]],
            alone: vec![vec![2.0, 2.0, 2.0, 2.0], vec![2.0, 2.0]],
            ..DrawnRequests::default()
        };
        let by_connection = [vec![2.0], vec![8.0, 11.0]];
        let by_connection = Some(&by_connection[..]);
        let both = BothSides { logs: &logs, drawn: &drawn, by_connection, bucket_ms: 110.0 };
        let facts = both.facts().unwrap();
        // Two requests of the first client, and one of the second.
        assert_eq!(facts.common, 3);
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        near(facts.mean_ms, 14e3 / 3.0);
        near(facts.waited_ms, 14e3 / 12.0);
        near(facts.alone_ms, 1e3);
        near(facts.simulated_ms, 6e3);
        near(facts.simulated_alone_ms, 2e3);
        // Beside both simulated repairs there were one request and two.
        near(facts.connection_ms.unwrap(), 7e3);
        near(facts.lanes_ms.unwrap(), 83e3 / 3.0);
        near(facts.connection_p99_ms.unwrap(), 11e3);
        near(facts.common_p99_ms.unwrap(), 8e3);
        near(facts.simulated_common_p99_ms.unwrap(), 10e3);
        assert_eq!(facts.p99_within.unwrap().of, 4);
        assert_eq!(facts.degree_within.unwrap().of, 2);
    }

    #[test]
    fn nothing_is_compared_where_no_client_came_to_a_request_everywhere() {
        let logs = LoopLogs { beside: log(&[&[1.0], &[]]), alone: log(&[&[1.0], &[1.0]]) };
        let drawn = DrawnRequests {
            beside: vec![vec![], vec![1.0]],
            alone: vec![vec![], vec![1.0]],
            ..DrawnRequests::default()
        };
        let both = BothSides { logs: &logs, drawn: &drawn, by_connection: None, bucket_ms: 1.0 };
        assert_eq!(both.facts(), None);
    }
}
