//! Trace schemes in a file: what `suture codes search` found, for `suture rebuild --schemes` to
//! use.
//!
//! Place: lost chunks -> [which chunks help and how] -> ranges.
//! A file has a scheme in each line: `k m bits lost missing quotients`. A scheme cannot rebuild
//! other bytes than the right ones, but a file can be damaged, made for other codes, or boast. So
//! nothing in it is trusted: every line must be well formed, the schemes of this code must send
//! the bits that they claim, and each rebuilds its chunk of a stripe of noise before it touches
//! data.
//!
//! Invariant: a scheme that [`read`] gives is proven.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use suture_code::{Code, CodeError, Program, Scheme};
use suture_edge::bounded::read_text;
use suture_edge::error::bad_input;

/// Thousands of schemes are shorter; what is longer is another kind of file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of every chunk on which a scheme is tried.
const TRIAL_BYTES: usize = 4096;

/// A line of a file, not yet trusted.
struct Line {
    data_chunks: usize,
    parity_chunks: usize,
    bits: usize,
    scheme: Scheme,
}

/// Bits that all helpers together send for each byte.
pub fn bits(code: &Code, scheme: &Scheme) -> usize {
    scheme.ranks(code.chunk_count()).iter().map(|(_, rank)| rank).sum()
}

/// A scheme as a line of a file.
pub fn line_of(code: &Code, scheme: &Scheme) -> String {
    let (k, m) = (code.data_chunks(), code.parity_chunks());
    format!("{k} {m} {} {scheme}\n", bits(code, scheme))
}

/// The schemes of a file that serve this code, each proven.
///
/// # Errors
/// Bad input, with the line, when the file is none of schemes, damaged, or claims what is not so.
pub fn read(path: &Path, code: &Code) -> Result<Vec<Scheme>> {
    let shown = path.display();
    if !code.has_traces() {
        return Err(bad_input(CodeError::NoTraces { code: code.to_string() }));
    }
    let file =
        File::open(path).map_err(|error| bad_input(format!("cannot read {shown}: {error}")))?;
    let text = read_text(file, FILE_BYTES_MAX)
        .map_err(|error| bad_input(format!("{shown} is not a file of trace schemes: {error}")))?;
    let mut schemes = Vec::new();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (index, line) in lines {
        let refuse = |why: String| bad_input(format!("{shown}, line {}: {why}", index + 1));
        let line = parse(line).map_err(refuse)?;
        if (line.data_chunks, line.parity_chunks) == (code.data_chunks(), code.parity_chunks()) {
            check(code, &line).map_err(refuse)?;
            schemes.push(line.scheme);
        }
    }
    if schemes.is_empty() {
        return Err(bad_input(format!(
            "{shown} has no scheme for {code}; suture codes search '{code}' -o FILE finds some"
        )));
    }
    Ok(schemes)
}

fn parse(text: &str) -> Result<Line, String> {
    let [k, m, bits, scheme] = text.splitn(4, ' ').collect::<Vec<_>>()[..] else {
        return Err("a scheme is written: k m bits lost missing quotients".to_string());
    };
    let number = |text: &str| {
        text.parse().map_err(|_| format!("{text:?} is not a number of chunks or bits"))
    };
    Ok(Line {
        data_chunks: number(k)?,
        parity_chunks: number(m)?,
        bits: number(bits)?,
        scheme: scheme.parse().map_err(|error: CodeError| error.to_string())?,
    })
}

fn check(code: &Code, line: &Line) -> Result<(), String> {
    verify(code, &line.scheme).map_err(|error| format!("{error:#}"))?;
    match bits(code, &line.scheme) {
        found if found == line.bits => Ok(()),
        found => Err(format!(
            "the scheme claims to send {} bits for each byte, but it sends {found}",
            line.bits
        )),
    }
}

/// Rebuilds a chunk of a stripe of noise, and compares.
///
/// # Errors
/// When the scheme gives other bytes than were lost.
pub fn verify(code: &Code, scheme: &Scheme) -> Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let dag = code.trace_dag(scheme)?;
    let mut stripe: Vec<Vec<u8>> =
        (0..code.data_chunks()).map(|_| (0..TRIAL_BYTES).map(|_| noise()).collect()).collect();
    let mut parity = vec![vec![0; TRIAL_BYTES]; code.parity_chunks()];
    let data: Vec<&[u8]> = stripe.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    Program::compile(&code.encode_dag())?.run(&data, &mut outputs)?;
    stripe.append(&mut parity);
    let sources: Vec<&[u8]> =
        dag.sources().map(|(_, source)| &stripe[usize::from(source.chunk.0)][..]).collect();
    let mut rebuilt = vec![0; TRIAL_BYTES];
    Program::compile(&dag)
        .and_then(|program| program.run(&sources, &mut [&mut rebuilt]))
        .context("the scheme cannot be run")?;
    ensure!(
        rebuilt == stripe[usize::from(scheme.lost().0)],
        "the scheme does not rebuild the bytes that were encoded"
    );
    Ok(())
}
