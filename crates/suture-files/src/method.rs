//! How lost chunks are repaired: the method that the user wants, as far as the code offers it.
//!
//! Place: lost chunks -> [helpers and what to do with them] -> ranges.
//! * conventional: from k whole chunks that determine the stripe, as if the code had no shortcut.
//! * optimal: what the code itself chooses, with the least traffic from whole survivors.
//! * trace: parts of symbols from all others; where that cannot be, conventional, and the report
//!   says why.
//!
//! Invariant: a repair is a pure function of the code, the lost, the available chunks and the
//! method asked for.

use serde::Serialize;
use suture_code::{ChunkIndex, Code, CodeError, Dag, Scheme};

use super::scheme;

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// From as many whole chunks as there are data chunks.
    Conventional,
    /// The least traffic that the code offers from whole survivors.
    Optimal,
    /// From traces: parts of symbols of all survivors.
    Trace,
}

/// What the user asked for, and the trace schemes that it may use beside those that the code knows.
#[derive(Clone, Copy, Debug)]
pub struct MethodOptions<'a> {
    /// The method that was asked for.
    pub method: Method,
    /// Proven schemes to choose from, beside those of the code.
    pub schemes: &'a [Scheme],
}

impl From<Method> for MethodOptions<'_> {
    fn from(method: Method) -> Self {
        MethodOptions { method, schemes: &[] }
    }
}

/// A repair that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The method that is used.
    pub method: Method,
    /// Chunks to rebuild, ascending.
    pub lost: Vec<ChunkIndex>,
    /// Chunks that are read, ascending.
    pub helpers: Vec<ChunkIndex>,
    /// The scheme of traces, if traces are sent.
    pub scheme: Option<Scheme>,
    /// Why it is not the method that was asked for.
    pub instead: Option<String>,
}

impl Repair {
    /// Chooses among the available chunks; all others but the lost ones are missing.
    ///
    /// # Errors
    /// When the available chunks do not determine the lost ones.
    pub fn choose(
        options: MethodOptions<'_>,
        code: &Code,
        lost: &[ChunkIndex],
        available: &[ChunkIndex],
    ) -> Result<Repair, CodeError> {
        let plain = |method, helpers, instead| Repair {
            method,
            lost: lost.to_vec(),
            helpers,
            scheme: None,
            instead,
        };
        let method = options.method;
        match method {
            Method::Conventional => {
                Ok(plain(method, conventional_helpers(code, lost, available)?, None))
            }
            Method::Optimal => Ok(plain(method, code.helpers_for(lost, available)?, None)),
            Method::Trace => match scheme_for(options, code, lost, available) {
                Ok(scheme) => {
                    let helpers = code.trace_dag(&scheme)?.reads().into_iter();
                    let helpers = helpers.map(|(chunk, _)| chunk).collect();
                    Ok(Repair { scheme: Some(scheme), ..plain(method, helpers, None) })
                }
                Err(why) => {
                    let helpers = conventional_helpers(code, lost, available)?;
                    Ok(plain(Method::Conventional, helpers, Some(why)))
                }
            },
        }
    }

    /// What is to be combined.
    ///
    /// # Errors
    /// When the helpers do not determine what is lost.
    pub fn dag(&self, code: &Code) -> Result<Dag, CodeError> {
        match &self.scheme {
            Some(scheme) => code.trace_dag(scheme),
            None => code.repair_dag(&self.lost, &self.helpers),
        }
    }
}

/// The scheme of fewest bits.
fn scheme_for(
    options: MethodOptions<'_>,
    code: &Code,
    lost: &[ChunkIndex],
    available: &[ChunkIndex],
) -> Result<Scheme, String> {
    let &[lost] = lost else {
        return Err(format!("{} chunks are lost, and traces rebuild one", lost.len()));
    };
    let missing: Vec<ChunkIndex> =
        code.chunks().filter(|chunk| *chunk != lost && !available.contains(chunk)).collect();
    let serving = code.schemes().iter().chain(options.schemes);
    let serving = serving.filter(|scheme| scheme.serves(lost, &missing));
    let least = serving.min_by_key(|scheme| scheme::bits(code, scheme));
    // A poor search finds schemes that send more than k chunks are.
    if let Some(scheme) = least.filter(|scheme| scheme::bits(code, scheme) < 8 * code.data_chunks())
    {
        return Ok(scheme.clone());
    }
    let without = match missing.len() {
        0 => String::new(),
        1 => format!(" without chunk {}", missing[0]),
        count => format!(" without {count} other chunks"),
    };
    let hint = if code.has_traces() && missing.is_empty() {
        "; suture codes search may find one for --schemes"
    } else {
        ""
    };
    Err(format!("{code} has no trace scheme for chunk {lost}{without}{hint}"))
}

/// Those of k chunks that determine the stripe which the lost ones depend on.
fn conventional_helpers(
    code: &Code,
    lost: &[ChunkIndex],
    available: &[ChunkIndex],
) -> Result<Vec<ChunkIndex>, CodeError> {
    if code.loss_tolerance() == code.parity_chunks() {
        // Any k do.
        let needed = code.data_chunks();
        let first = available.get(..needed).map(<[ChunkIndex]>::to_vec);
        return first.ok_or(CodeError::NotEnoughChunks { needed, available: available.len() });
    }
    // Local parities come before global ones; without them there is no shortcut.
    let parities = available.iter().filter(|chunk| usize::from(chunk.0) >= code.data_chunks());
    code.helpers_for(lost, &reduce(code, available, parities.copied()))
}

/// What is left of `chunks` when each of `spare` is taken away that is not needed to know the
/// stripe.
pub fn reduce(
    code: &Code,
    chunks: &[ChunkIndex],
    spare: impl Iterator<Item = ChunkIndex>,
) -> Vec<ChunkIndex> {
    let mut kept = chunks.to_vec();
    for chunk in spare {
        let without: Vec<ChunkIndex> =
            kept.iter().copied().filter(|other| *other != chunk).collect();
        if code.decodable(&without) {
            kept = without;
        }
    }
    kept
}
