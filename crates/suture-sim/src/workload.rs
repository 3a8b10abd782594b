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

use crate::bandwidth_trace::normal;

/// Keys that are distinguished. More would not be felt: popularity, not identity, makes load.
const KEYS: usize = 100_000;

/// Bytes of a value of YCSB, as ChameleonEC (section V) sets them.
const YCSB_BYTES: u64 = 512 << 10;

/// Bytes of a key and of a value of Twitter's cluster 37.
const TWITTER_BYTES: (u64, u64) = (72, 20_134);

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
    /// What is read or written: 0 is the most popular key.
    pub key: usize,
    /// The node that serves it.
    pub node: NodeId,
    /// Whether it reads or writes.
    pub access: Access,
    /// How many; it may be none.
    pub bytes: u64,
    /// Whether it asks for what is not there.
    pub is_miss: bool,
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
        Source::with_keys(workload, nodes, KEYS)
    }

    /// The same with so many keys.
    ///
    /// # Panics
    /// When there are no nodes or no keys.
    pub fn with_keys(workload: Workload, nodes: Vec<NodeId>, keys: usize) -> Source {
        assert!(!nodes.is_empty() && keys > 0, "someone must hold some data");
        let (zipf, zipf_twitter) = (zipf(keys, 0.99), zipf(keys, 0.4251));
        Source { workload, nodes, zipf, zipf_twitter }
    }

    /// How long a value is that is written first, before any operation.
    pub fn draw_value_bytes(&self, random: &mut Random) -> u64 {
        match self.workload {
            Workload::Etc => etc_bytes(random),
            Workload::Twitter => TWITTER_BYTES.0 + TWITTER_BYTES.1,
            Workload::Ibm => ibm_bytes(random) as u64,
            _ => YCSB_BYTES,
        }
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
        self.request(&self.zipf, access, YCSB_BYTES, random)
    }

    fn etc(&self, random: &mut Random) -> Request {
        let access = access(random, 30.0 / 31.0);
        let bytes = etc_bytes(random);
        self.request(&self.zipf, access, bytes, random)
    }

    fn twitter(&self, random: &mut Random) -> Request {
        let access = access(random, 0.63);
        let is_miss = access == Access::Read && random.unit() < 0.5938;
        let (key_bytes, value_bytes) = TWITTER_BYTES;
        let bytes = if is_miss { key_bytes } else { key_bytes + value_bytes };
        Request { is_miss, ..self.request(&self.zipf_twitter, access, bytes, random) }
    }

    fn ibm(&self, random: &mut Random) -> Request {
        let access = access(random, 0.999);
        let size = ibm_bytes(random);
        let is_range = access == Access::Read && random.unit() < 0.1;
        let part = if is_range { random.unit() } else { 1.0 };
        self.request(&self.zipf, access, (size * part) as u64, random)
    }

    fn request(
        &self,
        popularity: &[f64],
        access: Access,
        bytes: u64,
        random: &mut Random,
    ) -> Request {
        let drawn = random.unit();
        let key = popularity.partition_point(|&below| below <= drawn).min(popularity.len() - 1);
        // Popular keys are no neighbours.
        let hash = Random::new(key as u64).next_u64();
        let node = self.nodes[(hash % self.nodes.len() as u64) as usize];
        Request { key, node, access, bytes, is_miss: false }
    }
}

/// Of ETC: a key and its value.
fn etc_bytes(random: &mut Random) -> u64 {
    let key = gev(random, 30.7984, 8.20449, 0.078688).clamp(1.0, 250.0);
    (key + etc_value(random)) as u64
}

/// Known of the trace: one write in a thousand, sizes from 16 B to 2.4 GB, reads of ranges.
/// Chosen by us: a log-normal body (median 32 KiB), a Pareto tail, a tenth of the reads ranged.
fn ibm_bytes(random: &mut Random) -> f64 {
    let size = if random.unit() < 0.02 {
        1e6 / (1.0 - random.unit())
    } else {
        32_768.0 * (1.5 * normal(random)).exp()
    };
    size.clamp(16.0, 2.4e9)
}

fn access(random: &mut Random, reads: f64) -> Access {
    if random.unit() < reads { Access::Read } else { Access::Write }
}

/// Cumulated probabilities of so many ranks.
fn zipf(keys: usize, exponent: f64) -> Vec<f64> {
    let weights = (1..=keys).map(|rank| (rank as f64).powf(-exponent));
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
