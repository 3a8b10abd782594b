//! Trace repair: a chunk of plain Reed-Solomon data from less than k chunks of traffic.
//!
//! Place: ... stripe affected -> [which bits helpers send] -> plan ...
//! Chunks c_i of a Reed-Solomon stripe satisfy sum of w_i * q(i) * c_i = 0 for every polynomial q
//! of degree less than m. Take the trace, a linear map from GF(256) to one bit, of eight such
//! equations: they yield eight bits about the lost chunk, which is the whole byte when the eight
//! q(lost) are independent over GF(2). From helper i they need the traces of w_i * q(i) * c_i for
//! the eight q: eight bits, but only as many *different* ones as the eight values q(i) span
//! dimensions. That is the helper's rank; good polynomials have small ranks everywhere.
//!
//! A [`Scheme`] is such eight polynomials, written q_t(x) = 2^t + (x + lost) * r_t(x), so that
//! q_t(lost) = 2^t whatever the r_t are. Hence a scheme cannot be wrong, only large. Where helpers
//! are missing, all q_t are multiplied by a polynomial that is zero there; that costs one degree
//! each and changes no rank.
//!
//! The ranks depend on the points 0..n and not on the w_i: codes that differ only in these share
//! their schemes.
//!
//! Source: Guruswami and Wootters, "Repairing Reed-Solomon Codes", STOC 2016. The schemes embedded
//! here were found by [`Search`].

use crate::chunk::ChunkIndex;
use crate::dag::{BYTE_WIDTH, Dag, Join, Map, Source, Term, ValueId};
use crate::describe::check_repair;
use crate::error::CodeError;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use suture_gf::{BitMatrix, field};

mod search;

pub use search::Search;

/// The known schemes, one in a line: k, m, bits sent for each byte, and the scheme as it is
/// displayed.
const SCHEMES: &str = include_str!("trace/schemes.txt");

/// How to rebuild one chunk from traces: eight polynomials, by their quotients r_t.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scheme {
    lost: ChunkIndex,
    missing: Vec<ChunkIndex>,
    /// Coefficient e of r_t is `quotients[e][t]`.
    quotients: Vec<[u8; 8]>,
}

impl Scheme {
    pub(crate) fn new(lost: ChunkIndex, missing: &[ChunkIndex], quotients: Vec<[u8; 8]>) -> Scheme {
        Scheme { lost, missing: missing.to_vec(), quotients }
    }

    /// The chunk that it rebuilds.
    #[must_use]
    pub fn lost(&self) -> ChunkIndex {
        self.lost
    }

    /// The chunks that it does without; all others help.
    #[must_use]
    pub fn missing(&self) -> &[ChunkIndex] {
        &self.missing
    }

    /// Whether it rebuilds this chunk from all others but the missing ones.
    #[must_use]
    pub fn serves(&self, lost: ChunkIndex, missing: &[ChunkIndex]) -> bool {
        self.lost == lost
            && self.missing.len() == missing.len()
            && self.missing.iter().all(|chunk| missing.contains(chunk))
    }

    /// A number that names the scheme in plans: a hash of what it is, so that equal numbers mean
    /// equal work on both ends.
    #[must_use]
    pub fn id(&self) -> u32 {
        // FNV-1a, 32 bits.
        let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.to_string().bytes().fold(0x811c_9dc5, step)
    }

    /// Bits that each helper sends for each byte, in a stripe of that many chunks: as many as its
    /// values are independent, for the functions c -> trace(v c) of independent v are so too.
    #[must_use]
    pub fn ranks(&self, chunk_count: usize) -> Vec<(ChunkIndex, usize)> {
        self.helpers(chunk_count).map(|helper| (helper, rank(self.values_at(helper)))).collect()
    }

    fn helpers(&self, chunk_count: usize) -> impl Iterator<Item = ChunkIndex> + use<'_> {
        let chunks = (0..chunk_count).map(|chunk| ChunkIndex(chunk as u8));
        chunks.filter(|chunk| *chunk != self.lost && !self.missing.contains(chunk))
    }

    /// The values q_t(x), zeros at the missing chunks included.
    fn values_at(&self, chunk: ChunkIndex) -> [u8; 8] {
        let x = chunk.0;
        let zeros = self.missing.iter().fold(1, |product, gone| field::mul(product, x ^ gone.0));
        std::array::from_fn(|t| {
            let quotient = self
                .quotients
                .iter()
                .rev()
                .fold(0, |sum, coefficient| field::mul(sum, x) ^ coefficient[t]);
            field::mul(zeros, 1 << t ^ field::mul(x ^ self.lost.0, quotient))
        })
    }
}

/// The schemes that are embedded for Reed-Solomon codes of these sizes.
pub(crate) fn known_schemes(data_chunks: usize, parity_chunks: usize) -> &'static [Scheme] {
    known(data_chunks, parity_chunks).map_or(&[], |known| &known.schemes)
}

/// The embedded scheme of that id.
pub(crate) fn known_scheme(
    data_chunks: usize,
    parity_chunks: usize,
    id: u32,
) -> Option<&'static Scheme> {
    let known = known(data_chunks, parity_chunks)?;
    known.by_id.get(&id).map(|&at| &known.schemes[at])
}

/// The schemes of one size.
#[derive(Default)]
struct Known {
    schemes: Vec<Scheme>,
    by_id: BTreeMap<u32, usize>,
}

fn known(data_chunks: usize, parity_chunks: usize) -> Option<&'static Known> {
    static KNOWN: OnceLock<BTreeMap<(usize, usize), Known>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known: BTreeMap<(usize, usize), Known> = BTreeMap::new();
        for line in SCHEMES.lines() {
            let [k, m, _bits, scheme] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else {
                unreachable!("the embedded schemes have four columns: {line}")
            };
            let number = |text: &str| text.parse().expect("a number in the embedded schemes");
            let scheme: Scheme = scheme.parse().expect("an embedded scheme is well formed");
            let of_size = known.entry((number(k), number(m))).or_default();
            of_size.by_id.insert(scheme.id(), of_size.schemes.len());
            of_size.schemes.push(scheme);
        }
        known
    });
    known.get(&(data_chunks, parity_chunks))
}

/// The repair that a scheme describes, in a code with these dual multipliers.
pub(crate) fn repair_dag(
    multipliers: &[u8],
    parity_chunks: usize,
    scheme: &Scheme,
) -> Result<Dag, CodeError> {
    check_fit(multipliers.len(), parity_chunks, scheme)?;
    let traces_at = |chunk: ChunkIndex| {
        let multiplier = multipliers[usize::from(chunk.0)];
        traces(scheme.values_at(chunk).map(|value| field::mul(multiplier, value)))
    };
    let to_bytes = BitMatrix::new(&traces_at(scheme.lost).0, BYTE_WIDTH)
        .invert()
        .expect("q_t(lost) = 2^t are independent");
    let mut dag = Dag::new(1);
    let helpers: Vec<(ValueId, Traces)> = scheme
        .helpers(multipliers.len())
        .map(|chunk| (chunk, traces_at(chunk)))
        .filter(|(_, traces)| traces.0 != [0; 8])
        .map(|(chunk, traces)| (dag.add_source(Source { chunk, sub_chunk: 0 }, BYTE_WIDTH), traces))
        .collect();
    let mut terms = Vec::new();
    for (source, traces) in helpers {
        let basis = traces.basis();
        let of_basis = BitMatrix::new(&traces.in_basis(&basis), basis.len());
        let map = Map::Bits(BitMatrix::new(&basis, BYTE_WIDTH));
        let sent = vec![Term { value: source, map }];
        let value = dag.add_sum(basis.len(), Join::AtHelper, sent);
        terms.push(Term { value, map: Map::Bits(to_bytes.mul(&of_basis)) });
    }
    let rebuilt = dag.add_sum(BYTE_WIDTH, Join::AtDecoder, terms);
    dag.add_output(scheme.lost, 0, rebuilt);
    Ok(dag)
}

fn check_fit(chunk_count: usize, parity_chunks: usize, scheme: &Scheme) -> Result<(), CodeError> {
    check_repair(chunk_count, &[scheme.lost], &scheme.missing)?;
    let needed = scheme.missing.len() + scheme.quotients.len() + 1;
    if needed > parity_chunks {
        return Err(CodeError::SchemeTooDeep { needed, parity_chunks });
    }
    Ok(())
}

/// Eight linear functions of a byte, each the parity of the bits in its mask.
struct Traces([u8; 8]);

/// The functions c -> trace(value * c).
fn traces(values: [u8; 8]) -> Traces {
    let mask = |value| (0..8).fold(0, |mask, bit| mask | trace(field::mul(value, 1 << bit)) << bit);
    Traces(values.map(mask))
}

/// The trace from GF(256) to GF(2): the sum of a, a^2, a^4 .. a^128.
fn trace(a: u8) -> u8 {
    (0..8).fold(0, |sum, power| sum ^ field::pow(a, 1 << power))
}

impl Traces {
    /// As few functions as all eight are sums of: each has a leading bit that the others lack.
    fn basis(&self) -> Vec<u8> {
        let mut basis: Vec<u8> = Vec::new();
        for mask in self.0 {
            let rest = reduce(mask, &basis);
            if rest != 0 {
                let leading = leading_bit(rest);
                basis
                    .iter_mut()
                    .filter(|other| **other & leading != 0)
                    .for_each(|other| *other ^= rest);
                basis.push(rest);
            }
        }
        basis
    }

    /// Which members of the basis each function is the sum of.
    fn in_basis(&self, basis: &[u8]) -> [u8; 8] {
        let member = |mask: u8, (place, element): (usize, &u8)| {
            u8::from(mask & leading_bit(*element) != 0) << place
        };
        self.0.map(|mask| basis.iter().enumerate().fold(0, |sum, place| sum | member(mask, place)))
    }
}

/// What remains of a vector of bits when all leading bits of a basis are cleared.
fn reduce(bits: u8, basis: &[u8]) -> u8 {
    basis.iter().fold(bits, |bits, element| match bits & leading_bit(*element) {
        0 => bits,
        _ => bits ^ element,
    })
}

/// How many of these vectors of bits are independent.
fn rank(vectors: [u8; 8]) -> usize {
    let (mut basis, mut rank) = ([0; 8], 0);
    for bits in vectors {
        let rest = reduce(bits, &basis[..rank]);
        if rest != 0 {
            basis[rank] = rest;
            rank += 1;
        }
    }
    rank
}

fn leading_bit(bits: u8) -> u8 {
    0x80 >> bits.leading_zeros()
}

/// `lost missing quotients`: chunk indices, and the coefficients in hexadecimal, eight for each
/// power of x; `-` for none.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing: Vec<String> = self.missing.iter().map(ChunkIndex::to_string).collect();
        let bytes = self.quotients.as_flattened();
        let quotients: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let or_none = |list: String| if list.is_empty() { "-".to_string() } else { list };
        let (missing, quotients) = (or_none(missing.join(",")), or_none(quotients));
        write!(f, "{} {missing} {quotients}", self.lost)
    }
}

impl FromStr for Scheme {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Scheme, CodeError> {
        parse(text).ok_or_else(|| CodeError::MalformedScheme { text: text.to_string() })
    }
}

fn parse(text: &str) -> Option<Scheme> {
    let [lost, missing, quotients] = text.trim_end().split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let chunk = |text: &str| text.parse().ok().map(ChunkIndex);
    let missing = match missing {
        "-" => Vec::new(),
        list => list.split(',').map(chunk).collect::<Option<Vec<_>>>()?,
    };
    let quotients = if quotients == "-" { "" } else { quotients };
    let digits = quotients.as_bytes().chunks(2);
    let byte = |digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let bytes = digits.map(byte).collect::<Option<Vec<u8>>>()?;
    let (whole, rest) = bytes.as_chunks::<8>();
    let is_whole = rest.is_empty() && quotients.len() % 2 == 0;
    is_whole.then_some(Scheme { lost: chunk(lost)?, missing, quotients: whole.to_vec() })
}
