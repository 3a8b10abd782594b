//! What applications ask of storage: requests drawn from published workloads.
//!
//! Place: beside [slices flow]: what shares the links with a repair.
//! Each workload is a mix of reads and writes, a distribution of sizes and one of popularity. Keys
//! are spread over nodes by a hash, so a popular key makes a busy node. Sizes of keys, misses and
//! acknowledgements count, where published; what is only known in outline says so at its place.

use std::fmt;
use std::str::FromStr;

use suture_code::code::edit_distance;
use suture_repair::id::NodeId;
use suture_repair::random::Random;

use crate::trace::normal;

/// Keys that are told apart. More would not be felt: popularity, not identity, makes load.
const KEYS: usize = 100_000;

/// Bytes of a value of YCSB, as ChameleonEC (section V) sets them.
const YCSB_BYTES: u64 = 512 << 10;

/// The longest scan of YCSB-E, in values.
const SCAN_MAX: u64 = 100;

/// `Switching` changes after so many seconds (ChameleonEC, Exp#4).
const SWITCH_SECONDS: f64 = 15.0;

/// A published mix of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB C: reads alone.
    YcsbC,
    /// YCSB D: 95 % reads of what was inserted last, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % scans, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half reads that are followed by a write.
    YcsbF,
    /// Facebook's ETC (Atikoglu et al., SIGMETRICS 2012): tiny values, 30 reads for a write.
    Etc,
    /// Twitter's cluster 37 (Yang et al., OSDI 2020): 20 kB values, many misses.
    Twitter,
    /// Like trace 000 of the IBM object store: large and small objects, nearly all reads.
    Ibm,
    /// YCSB-A, ETC, Twitter and IBM in turn.
    Switching,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// From the node to the client.
    Read,
    /// From the client to the node.
    Write,
}

/// One transfer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The node that serves it.
    pub node: NodeId,
    /// Whether it reads or writes.
    pub access: Access,
    /// How many; it may be none.
    pub bytes: u64,
}

/// The names on the command line.
const NAMES: [(&str, Workload); 10] = [
    ("ycsb-a", Workload::YcsbA),
    ("ycsb-b", Workload::YcsbB),
    ("ycsb-c", Workload::YcsbC),
    ("ycsb-d", Workload::YcsbD),
    ("ycsb-e", Workload::YcsbE),
    ("ycsb-f", Workload::YcsbF),
    ("etc", Workload::Etc),
    ("twitter", Workload::Twitter),
    ("ibm", Workload::Ibm),
    ("switching", Workload::Switching),
];

/// There is no such workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWorkload {
    name: String,
    nearest: &'static str,
}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Workload, UnknownWorkload> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        let nearest = || NAMES.iter().map(|(name, _)| *name).min_by_key(|n| edit_distance(n, text));
        found.map(|(_, workload)| *workload).ok_or_else(|| UnknownWorkload {
            name: text.to_string(),
            nearest: nearest().unwrap_or_default(),
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, workload)| workload == self);
        f.write_str(name.expect("each workload has a name").0)
    }
}

impl fmt::Display for UnknownWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.map(|(name, _)| name).join(", ");
        let UnknownWorkload { name, nearest } = self;
        write!(f, "there is no workload '{name}'; did you mean '{nearest}'? (one of {names})")
    }
}

impl std::error::Error for UnknownWorkload {}

/// Draws the operations of a workload.
#[derive(Clone, Debug)]
pub struct Source {
    workload: Workload,
    nodes: Vec<NodeId>,
    /// Cumulated popularity of the keys, most popular first: Zipf with 0.99, and with Twitter's
    /// exponent.
    zipf: Vec<f64>,
    zipf_twitter: Vec<f64>,
}

impl Source {
    /// Operations on data that these nodes hold.
    ///
    /// # Panics
    /// When there are no nodes.
    pub fn new(workload: Workload, nodes: Vec<NodeId>) -> Source {
        assert!(!nodes.is_empty(), "someone must hold the data");
        Source { workload, nodes, zipf: zipf(0.99), zipf_twitter: zipf(0.4251) }
    }

    /// The transfers of one operation, one after the other, as drawn at time `now` in seconds.
    pub fn draw(&self, now: f64, random: &mut Random) -> Vec<Request> {
        match self.workload {
            Workload::YcsbA => vec![self.ycsb(access(random, 0.5), random)],
            Workload::YcsbB | Workload::YcsbD => vec![self.ycsb(access(random, 0.95), random)],
            Workload::YcsbC => vec![self.ycsb(Access::Read, random)],
            Workload::YcsbE => {
                let mut request = self.ycsb(access(random, 0.95), random);
                if request.access == Access::Read {
                    request.bytes *= random.between(1, SCAN_MAX);
                }
                vec![request]
            }
            Workload::YcsbF => {
                let read = self.ycsb(Access::Read, random);
                match access(random, 0.5) {
                    Access::Read => vec![read],
                    Access::Write => vec![read, Request { access: Access::Write, ..read }],
                }
            }
            Workload::Etc => vec![self.etc(random)],
            Workload::Twitter => vec![self.twitter(random)],
            Workload::Ibm => vec![self.ibm(random)],
            Workload::Switching => {
                let parts = [Workload::YcsbA, Workload::Etc, Workload::Twitter, Workload::Ibm];
                let workload = parts[(now / SWITCH_SECONDS) as usize % parts.len()];
                match workload {
                    Workload::YcsbA => vec![self.ycsb(access(random, 0.5), random)],
                    Workload::Etc => vec![self.etc(random)],
                    Workload::Twitter => vec![self.twitter(random)],
                    _ => vec![self.ibm(random)],
                }
            }
        }
    }

    fn ycsb(&self, access: Access, random: &mut Random) -> Request {
        Request { node: self.node(&self.zipf, random), access, bytes: YCSB_BYTES }
    }

    fn etc(&self, random: &mut Random) -> Request {
        let access = access(random, 30.0 / 31.0);
        let key = gev(random, 30.7984, 8.20449, 0.078688).clamp(1.0, 250.0);
        let value = etc_value(random);
        Request { node: self.node(&self.zipf, random), access, bytes: (key + value) as u64 }
    }

    fn twitter(&self, random: &mut Random) -> Request {
        let access = access(random, 0.63);
        let is_miss = access == Access::Read && random.unit() < 0.5938;
        let bytes = if is_miss { 72 } else { 72 + 20_134 };
        Request { node: self.node(&self.zipf_twitter, random), access, bytes }
    }

    /// Known of the trace: one write in a thousand, sizes from 16 B to 2.4 GB, reads of ranges.
    /// Chosen by us: a log-normal body (median 32 KiB), a Pareto tail, a tenth of the reads ranged.
    fn ibm(&self, random: &mut Random) -> Request {
        let access = access(random, 0.999);
        let size = match random.unit() < 0.02 {
            true => 1e6 / (1.0 - random.unit()),
            false => 32_768.0 * (1.5 * normal(random)).exp(),
        };
        let is_range = access == Access::Read && random.unit() < 0.1;
        let part = if is_range { random.unit() } else { 1.0 };
        let bytes = (size.clamp(16.0, 2.4e9) * part) as u64;
        Request { node: self.node(&self.zipf, random), access, bytes }
    }

    fn node(&self, popularity: &[f64], random: &mut Random) -> NodeId {
        let drawn = random.unit();
        let key = popularity.partition_point(|&below| below <= drawn).min(KEYS - 1);
        // Popular keys are no neighbours.
        let hash = Random::new(key as u64).next_u64();
        self.nodes[(hash % self.nodes.len() as u64) as usize]
    }
}

fn access(random: &mut Random, reads: f64) -> Access {
    if random.unit() < reads { Access::Read } else { Access::Write }
}

/// Cumulated probabilities of ranks.
fn zipf(exponent: f64) -> Vec<f64> {
    let weights = (1..=KEYS).map(|rank| (rank as f64).powf(-exponent));
    let mut sum = 0.0;
    let mut cumulated: Vec<f64> = weights
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    cumulated.iter_mut().for_each(|value| *value /= sum);
    cumulated
}

/// Generalised extreme value distribution.
fn gev(random: &mut Random, location: f64, scale: f64, shape: f64) -> f64 {
    let unit = 1.0 - random.unit();
    location + scale * ((-unit.ln()).powf(-shape) - 1.0) / shape
}

/// Sizes of ETC's values: a table for the smallest, then a generalised Pareto distribution.
fn etc_value(random: &mut Random) -> f64 {
    const SMALL: [f64; 15] = [
        0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
        0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
    ];
    let mut drawn = random.unit();
    for (bytes, part) in SMALL.iter().enumerate() {
        if drawn < *part {
            return bytes as f64;
        }
        drawn -= part;
    }
    let unit = 1.0 - random.unit();
    let (location, scale, shape) = (15.0, 214.476, 0.348238);
    // Values are at most a mebibyte.
    (location + scale * (unit.powf(-shape) - 1.0) / shape).min(1_048_576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_bytes_and_reads(workload: Workload) -> (f64, f64) {
        let source = Source::new(workload, (0..10).map(NodeId).collect());
        let random = &mut Random::new(1);
        let (mut bytes, mut reads) = (0.0, 0.0);
        for _ in 0..50_000 {
            let requests = source.draw(0.0, random);
            bytes += requests[0].bytes as f64;
            reads += f64::from(u8::from(requests.iter().all(|r| r.access == Access::Read)));
        }
        (bytes / 5e4, reads / 5e4)
    }

    #[test]
    fn mixes_and_sizes_are_the_published_ones() {
        for (workload, bytes, reads) in [
            (Workload::YcsbA, 524_288.0, 0.5),
            (Workload::YcsbB, 524_288.0, 0.95),
            (Workload::YcsbC, 524_288.0, 1.0),
            (Workload::YcsbE, (0.95 * 50.5 + 0.05) * 524_288.0, 0.95),
            (Workload::YcsbF, 524_288.0, 0.5),
            (Workload::Etc, 223.0, 30.0 / 31.0),
            (Workload::Twitter, 72.0 + 20_134.0 * (1.0 - 0.63 * 0.5938), 0.63),
        ] {
            let (found_bytes, found_reads) = mean_bytes_and_reads(workload);
            assert!((found_bytes / bytes - 1.0).abs() < 0.05, "{workload}: {found_bytes} bytes");
            assert!((found_reads - reads).abs() < 0.01, "{workload}: {found_reads} reads");
        }
    }

    #[test]
    fn popular_keys_make_busy_nodes() {
        let source = Source::new(Workload::YcsbC, (0..10).map(NodeId).collect());
        let random = &mut Random::new(1);
        let mut served = [0u32; 10];
        for _ in 0..10_000 {
            served[source.draw(0.0, random)[0].node.index()] += 1;
        }
        assert!(served.iter().max() > served.iter().min().map(|least| least * 3 / 2).as_ref());
        assert!(served.iter().all(|&requests| requests > 300), "{served:?}");
    }

    #[test]
    fn workloads_have_names() {
        for (name, workload) in NAMES {
            assert_eq!((name.parse(), workload.to_string()), (Ok(workload), name.to_string()));
        }
        let error = "ycsb-z".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'ycsb-"), "{error}");
    }
}
