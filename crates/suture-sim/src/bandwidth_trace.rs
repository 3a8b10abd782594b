//! Bandwidth traces: what links have free from second to second, read from CSV or drawn from a
//! model.
//!
//! Place: beside [slices flow]: the capacities under a repair.
//! A trace has a row for each second and a column for each node; it begins again when it ends, so
//! that a repair may take longer. `LinkModel` draws traces that look like three published sets of
//! measurements (PivotRepair, section V: 16 nodes under TPC-DS, TPC-H and SWIM, 6000 s at 1 Gbit/s)
//! from a few numbers fitted to their statistics; the measurements themselves are not here.
//!
//! The model: the cluster is calm or has an episode; in an episode each node is congested with the
//! same probability. That makes nodes congested together, as measured. Episodes are short or long,
//! each exponential. Outside of episodes what applications take is the positive part of an AR(1)
//! process: nothing most of the time, and correlated from second to second.

use std::fmt;

use suture_repair::cluster::Rate;
use suture_repair::random::Random;

/// Bytes per second in one Mbit/s, the unit of trace files.
const BYTES_IN_MBIT: f64 = 125_000.0;

/// What is left of a link in an episode, at most. The statistics count below a tenth as congested.
const CONGESTED: f64 = 0.1;

/// The rates of all nodes, second by second.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthTrace {
    nodes: usize,
    /// Row after row: all nodes of a second.
    rates: Vec<Rate>,
}

/// What is wrong with a trace; lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFault {
    /// It has no rows.
    Empty,
    /// A row has another number of columns than the cluster has nodes.
    Columns {
        /// The line of the row.
        line: usize,
        /// How many columns it has.
        found: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A cell that is not a number.
    Number(Cell),
    /// A cell that is a number below zero.
    Negative(Cell),
}

/// A rate as it stands in the text of a trace; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    line: usize,
    column: usize,
    text: String,
}

impl BandwidthTrace {
    /// Reads Mbit/s: one row a second, one column a node, no header.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column.
    pub fn parse(text: &str, nodes: usize) -> Result<BandwidthTrace, TraceFault> {
        let mut rates = Vec::new();
        for (index, row) in text.trim_end().lines().enumerate() {
            let (line, found) = (index + 1, row.split(',').count());
            if found != nodes {
                return Err(TraceFault::Columns { line, found, nodes });
            }
            for (column, cell) in row.split(',').enumerate() {
                let cell = Cell { line, column: column + 1, text: cell.trim().to_string() };
                match cell.text.parse::<f64>() {
                    Ok(mbit) if mbit.is_finite() && mbit >= 0.0 => {
                        rates.push(Rate(mbit * BYTES_IN_MBIT));
                    }
                    Ok(mbit) if mbit < 0.0 => return Err(TraceFault::Negative(cell)),
                    _ => return Err(TraceFault::Number(cell)),
                }
            }
        }
        if rates.is_empty() { Err(TraceFault::Empty) } else { Ok(BandwidthTrace { nodes, rates }) }
    }

    /// A trace of these rates: a row a second, of all nodes.
    ///
    /// # Panics
    /// When there is no row, or rows are not of the same length.
    pub fn from_rows(rows: Vec<Vec<Rate>>) -> BandwidthTrace {
        let nodes = rows.first().expect("a trace has a second").len();
        assert!(rows.iter().all(|row| row.len() == nodes), "rows of all nodes");
        BandwidthTrace { nodes, rates: rows.concat() }
    }

    /// The same trace from another second on; what was before comes last.
    pub fn starting_at(&self, second: u64) -> BandwidthTrace {
        let mut rates = self.rates.clone();
        rates.rotate_left((second % self.seconds()) as usize * self.nodes);
        BandwidthTrace { nodes: self.nodes, rates }
    }

    /// The text that [`BandwidthTrace::parse`] reads: Mbit/s, to a thousandth.
    pub fn csv(&self) -> String {
        let mbit = |rate: &Rate| format!("{:.3}", rate.0 / BYTES_IN_MBIT);
        let row = |row: &[Rate]| row.iter().map(mbit).collect::<Vec<_>>().join(",") + "\n";
        self.rates.chunks(self.nodes).map(row).collect()
    }

    /// After how many seconds it begins again.
    pub fn seconds(&self) -> u64 {
        (self.rates.len() / self.nodes) as u64
    }

    /// What a node has in a second.
    pub fn rate(&self, node: usize, second: u64) -> Rate {
        let row = (second % self.seconds()) as usize;
        self.rates[row * self.nodes + node]
    }
}

/// The measurements that a made-up trace resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkModel {
    /// Analytical queries: uplinks with minutes without any bandwidth, on most nodes at once.
    TpcDs,
    /// Ad-hoc queries: shorter and rarer congestion.
    TpcH,
    /// MapReduce jobs: nearly always something taken, hardly ever everything.
    Swim,
}

/// Which direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What a node sends.
    Up,
    /// What a node receives.
    Down,
}

/// The fitted numbers of one set of measurements.
struct Fit {
    /// Part of the seconds in which some node is congested.
    episodes: f64,
    /// Part of the nodes that an episode congests.
    joins: f64,
    /// Mean seconds of short episodes.
    short: f64,
    /// Part of the episodes that are long, and their mean seconds.
    long: (f64, f64),
    /// Part of the time, outside of episodes, in which nothing is taken.
    idle: f64,
    /// Standard deviation of what is taken, as part of the link, before its negative part is cut.
    taken: f64,
    /// Its correlation from second to second.
    memory: f64,
}

impl LinkModel {
    /// All, in the order in which they are shown.
    pub const ALL: [LinkModel; 3] = [LinkModel::TpcDs, LinkModel::TpcH, LinkModel::Swim];

    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LinkModel::TpcDs => "tpcds",
            LinkModel::TpcH => "tpch",
            LinkModel::Swim => "swim",
        }
    }

    #[rustfmt::skip]
    fn fit(self, direction: Direction) -> Fit {
        let (episodes, joins, short, long, idle, taken, memory) = match (self, direction) {
            (LinkModel::TpcDs, Direction::Up)  => (0.329, 0.73, 2.2, (0.25, 303.0), 0.91, 0.676, 0.97),
            (LinkModel::TpcDs, Direction::Down) => (0.020, 0.12, 1.4, (0.11, 5.6), 0.91, 0.406, 0.90),
            (LinkModel::TpcH, Direction::Up)   => (0.140, 0.22, 1.4, (0.35, 26.0), 0.82, 0.272, 0.85),
            (LinkModel::TpcH, Direction::Down) => (0.052, 0.15, 1.4, (0.01, 7.0), 0.86, 0.491, 0.85),
            (LinkModel::Swim, Direction::Up)   => (0.021, 0.09, 1.4, (0.01, 151.0), 0.63, 0.156, 0.90),
            (LinkModel::Swim, Direction::Down) => (0.051, 0.10, 1.4, (0.06, 37.0), 0.63, 0.143, 0.90),
        };
        Fit { episodes, joins, short, long, idle, taken, memory }
    }

    /// Draws a trace for links of these rates.
    pub fn draw(
        self,
        direction: Direction,
        links: &[Rate],
        seconds: u64,
        seed: u64,
    ) -> BandwidthTrace {
        let fit = self.fit(direction);
        let random = &mut Random::new(seed);
        let mut congestion = Congestion::new(&fit, links.len(), random);
        let mut taken: Vec<f64> = links.iter().map(|_| normal(random)).collect();
        let threshold = quantile(fit.idle);
        let fresh = (1.0 - fit.memory * fit.memory).sqrt();
        let mut rates = Vec::with_capacity(links.len() * seconds as usize);
        for _ in 0..seconds {
            congestion.pass_second(&fit, random);
            for (node, link) in links.iter().enumerate() {
                taken[node] = fit.memory * taken[node] + fresh * normal(random);
                let free = if congestion.congested[node] {
                    // Nothing at all half of the time.
                    CONGESTED * (2.0 * random.unit() - 1.0).max(0.0)
                } else {
                    1.0 - fit.taken * (taken[node] - threshold).max(0.0)
                };
                let least = if congestion.congested[node] { 0.0 } else { CONGESTED };
                rates.push(Rate(link.0 * free.max(least)));
            }
        }
        BandwidthTrace { nodes: links.len(), rates }
    }
}

/// Which nodes are congested, and for how long all stays as it is.
struct Congestion {
    congested: Vec<bool>,
    is_episode: bool,
    seconds_left: f64,
}

impl Congestion {
    fn new(fit: &Fit, nodes: usize, random: &mut Random) -> Congestion {
        let mut congestion =
            Congestion { congested: vec![false; nodes], is_episode: false, seconds_left: 0.0 };
        // A trace may begin in the middle of an episode, as often as one is going on.
        congestion.is_episode = random.unit() >= fit.episodes;
        congestion
    }

    fn pass_second(&mut self, fit: &Fit, random: &mut Random) {
        self.seconds_left -= 1.0;
        // Episodes may be shorter than a second; their parts of it add up.
        while self.seconds_left <= 0.0 {
            self.change(fit, random);
        }
    }

    fn change(&mut self, fit: &Fit, random: &mut Random) {
        self.is_episode = !self.is_episode;
        let mean = (1.0 - fit.long.0) * fit.short + fit.long.0 * fit.long.1;
        if !self.is_episode {
            self.congested.fill(false);
            let calm = mean * (1.0 - fit.episodes) / fit.episodes;
            self.seconds_left += exponential(calm, random);
            return;
        }
        let is_long = random.unit() < fit.long.0;
        self.seconds_left += exponential(if is_long { fit.long.1 } else { fit.short }, random);
        self.congested.iter_mut().for_each(|node| *node = random.unit() < fit.joins);
    }
}

fn exponential(mean: f64, random: &mut Random) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

/// A normally distributed number (Box and Muller, 1958).
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// The value that a normally distributed number stays below with this probability, in (0, 1), by
/// bisection of its distribution (Abramowitz and Stegun 26.2.17, good to 1e-7).
fn quantile(probability: f64) -> f64 {
    let below = |x: f64| {
        let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
        let series = 0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429)));
        let tail = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt() * t * series;
        if x < 0.0 { tail } else { 1.0 - tail }
    };
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) < probability { low = middle } else { high = middle }
    }
    low
}

impl fmt::Display for TraceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceFault::Empty => write!(f, "there is no row; a trace has one for each second"),
            TraceFault::Columns { line, found, nodes } => write!(
                f,
                "line {line}: {found} columns, but the cluster has {nodes} nodes; write one column \
                 for each, failed ones too"
            ),
            TraceFault::Number(Cell { line, column, text }) => write!(
                f,
                "line {line}, column {column}: '{text}' is not a rate; write Mbit/s as a number, \
                 and no header"
            ),
            TraceFault::Negative(Cell { line, column, text }) => write!(
                f,
                "line {line}, column {column}: a link cannot have {text} Mbit/s; write 0 or more"
            ),
        }
    }
}

impl std::error::Error for TraceFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_row_by_row_and_begins_again() {
        let trace = BandwidthTrace::parse("8,16\n0, 0.5\n", 2).unwrap();
        assert_eq!(trace.seconds(), 2);
        assert_eq!(trace.rate(1, 0), Rate(2e6));
        assert_eq!((trace.rate(0, 1), trace.rate(1, 3)), (Rate(0.0), Rate(62_500.0)));
        assert_eq!(trace.starting_at(3).csv(), "0.000,0.500\n8.000,16.000\n");
        assert_eq!(trace.csv(), "8.000,16.000\n0.000,0.500\n");
        assert_eq!(BandwidthTrace::parse(&trace.csv(), 2), Ok(trace));
    }

    #[test]
    fn a_bad_trace_is_blamed_by_line_and_column() {
        for (text, words) in [
            ("", "no row"),
            ("1,2\n3\n", "line 2: 1 columns, but the cluster has 2 nodes"),
            ("1,2,3\n", "line 1: 3 columns"),
            ("n0,n1\n", "line 1, column 1: 'n0' is not a rate"),
            ("1,2\n1,-3\n", "line 2, column 2: a link cannot have -3"),
            ("1,NaN\n", "'NaN' is not a rate"),
            ("1,inf\n", "'inf' is not a rate"),
        ] {
            let fault = BandwidthTrace::parse(text, 2).unwrap_err().to_string();
            assert!(fault.contains(words), "{text:?}: {fault}");
        }
    }

    /// Mean, part below a tenth, mean change per second, part of seconds with any node below.
    fn statistics(model: LinkModel, direction: Direction) -> [f64; 4] {
        let seeds = 20;
        let mut sums = [0.0; 4];
        for seed in 0..seeds {
            let links = [Rate(1000.0); 16];
            let trace = model.draw(direction, &links, 6000, seed);
            let (mut sum, mut low, mut change, mut any) = (0.0, 0.0, 0.0, 0.0);
            for second in 0..6000 {
                let rate = |node: usize, second| trace.rate(node, second).0;
                any += f64::from(u8::from((0..16).any(|node| rate(node, second) < 100.0)));
                for node in 0..16 {
                    sum += rate(node, second);
                    low += f64::from(u8::from(rate(node, second) < 100.0));
                    let before = rate(node, second.max(1) - 1);
                    change += (rate(node, second) - before).abs();
                }
            }
            let all = [sum / 96e3, low / 96e3, change / 96e3, any / 6e3];
            sums.iter_mut().zip(all).for_each(|(sum, value)| *sum += value / seeds as f64);
        }
        sums
    }

    #[test]
    fn models_resemble_what_they_were_fitted_to() {
        for (model, direction, published) in [
            (LinkModel::TpcDs, Direction::Up, [745.2, 0.2402, 16.8, 0.329]),
            (LinkModel::TpcDs, Direction::Down, [979.8, 0.0024, 16.0, 0.020]),
            (LinkModel::TpcH, Direction::Up, [944.7, 0.0302, 28.1, 0.140]),
            (LinkModel::TpcH, Direction::Down, [957.2, 0.0077, 38.9, 0.052]),
            (LinkModel::Swim, Direction::Up, [958.6, 0.0019, 20.9, 0.021]),
            (LinkModel::Swim, Direction::Down, [959.0, 0.0049, 23.2, 0.051]),
        ] {
            let drawn = statistics(model, direction);
            let case = format!("{model:?} {direction:?}: {drawn:?}, published {published:?}");
            assert!((drawn[0] - published[0]).abs() < 40.0, "{case}");
            assert!((drawn[1] / published[1] - 1.0).abs() < 0.35, "{case}");
            assert!((drawn[2] / published[2] - 1.0).abs() < 0.35, "{case}");
            assert!((drawn[3] / published[3] - 1.0).abs() < 0.35, "{case}");
        }
    }
}
