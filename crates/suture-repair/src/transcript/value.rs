//! Ids, times and numbers as words.
//!
//! Place: beside the whole life of a repair, wherever a machine's inputs and outputs are text.
//! A node is `n3`, a repair `1.7` (epoch and sequence), a copy `4.2` (stripe and chunk) or, where a
//! repair wrote it, `4.2@1.7`; a slice `1.7/0/12` (repair, lane, slice); times end in `s`.

use suture_code::Code;

use crate::cluster::Rate;
use crate::id::{
    ChunkCopy, ChunkIndex, Digest, Generation, ListedCopy, NodeId, RackId, RepairId, Stamp,
    StripeId,
};
use crate::label::Label;
use crate::plan::Range;
use crate::planner::Abilities;
use crate::policy::Policy;
use crate::slice::SliceId;
use crate::time::{Span, Time};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};

/// A value of one word: how it is spelt, how it is understood, and what an error calls it.
macro_rules! one_word {
    ($type:ty, $expected:literal, $spell:expr, $parse:expr) => {
        impl Textual for $type {
            fn write(&self, line: &mut LineWriter) {
                let spell: fn(&$type) -> String = $spell;
                line.word(spell(self));
            }

            fn read(line: &mut LineReader<'_>) -> Result<$type, TextError> {
                let parse: fn(&str) -> Option<$type> = $parse;
                line.leaf($expected, parse)
            }
        }
    };
}

one_word!(u16, "a number", u16::to_string, |word| word.parse().ok());
one_word!(u32, "a number", u32::to_string, |word| word.parse().ok());
one_word!(u64, "a number", u64::to_string, |word| word.parse().ok());
one_word!(usize, "a number", usize::to_string, |word| word.parse().ok());
one_word!(String, "a text in quotes", |text| quote(text), |word| serde_json::from_str(word).ok());
one_word!(NodeId, "a node like n3", |node| format!("n{}", node.0), |word| {
    Some(NodeId(word.strip_prefix('n')?.parse().ok()?))
});
one_word!(RackId, "a rack's number", |rack| rack.0.to_string(), |word| {
    word.parse().ok().map(RackId)
});
one_word!(StripeId, "a stripe's number", |stripe| stripe.0.to_string(), |word| {
    word.parse().ok().map(StripeId)
});
one_word!(ChunkIndex, "a chunk's number", |chunk| chunk.0.to_string(), |word| {
    word.parse().ok().map(ChunkIndex)
});
one_word!(Generation, "a generation", |generation| generation.0.to_string(), |word| {
    word.parse().ok().map(Generation)
});
one_word!(RepairId, "a repair like 1.7", |repair| repair_word(*repair), read_repair);
one_word!(ChunkCopy, "a copy like 4.2 or 4.2@1.7", |copy| copy_word(*copy), read_copy);
one_word!(
    ListedCopy,
    "a copy with what is known of it, like 4.2@1.7:4096:0badcafe or 4.2",
    |listed| listed_word(*listed),
    read_listed
);
one_word!(SliceId, "a slice like 1.7/0/12", |id| slice_word(*id), read_slice);
one_word!(Rate, "a rate in bytes per second", |rate| rate.0.to_string(), |word| {
    word.parse().ok().map(Rate)
});
one_word!(Range, "a range like 0..4096", |range| format!("{}..{}", range.from, range.to), |word| {
    let (from, to) = word.split_once("..")?;
    Some(Range { from: from.parse().ok()?, to: to.parse().ok()? })
});
one_word!(Code, "a code like rs(2,1)", Code::to_string, |word| word.parse().ok());
one_word!(Policy, "a policy", |policy| format!("{policy:#}"), |word| word.parse().ok());
one_word!(Time, "a time like 1.500s", |time| seconds(time.ns, 3), |word| {
    read_seconds(word).map(|ns| Time { ns })
});
one_word!(Span, "a time like 1.5s", |span| seconds(span.ns, 0), |word| {
    read_seconds(word).map(|ns| Span { ns })
});

/// A checksum as eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(pub u32);

one_word!(Checksum, "a checksum like 0badcafe", |crc| format!("{:08x}", crc.0), |word| {
    let digits = word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u32::from_str_radix(word, 16).ok().map(Checksum)).flatten()
});

one_word!(Label, "a label in hexadecimal digits", spell_label, read_label);

/// Written `yes` or `no`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YesNo(pub bool);

one_word!(YesNo, "yes or no", |is| if is.0 { "yes" } else { "no" }.to_string(), |word| {
    match word {
        "yes" => Some(YesNo(true)),
        "no" => Some(YesNo(false)),
        _ => None,
    }
});

impl Textual for Abilities {
    fn write(&self, line: &mut LineWriter) {
        let Abilities { partial, combined, traces, finished, skips } = *self;
        let all = [partial, combined, traces, finished, skips];
        let names = ABILITIES.into_iter().zip(all).filter(|(_, is_set)| *is_set);
        let names: Vec<&str> = names.map(|(name, _)| name).collect();
        line.word(if names.is_empty() { "nothing".to_string() } else { names.join("+") });
    }

    fn read(line: &mut LineReader<'_>) -> Result<Abilities, TextError> {
        line.leaf("abilities like partial+traces", |word| {
            let names: Vec<&str> = word.split('+').filter(|name| *name != "nothing").collect();
            let has = |name: &str| names.contains(&name);
            let abilities = Abilities {
                partial: has("partial"),
                combined: has("combined"),
                traces: has("traces"),
                finished: has("finished"),
                skips: has("skips"),
            };
            let is_known = !word.is_empty() && names.iter().all(|name| ABILITIES.contains(name));
            is_known.then_some(abilities)
        })
    }
}

/// The names of abilities, in the order of their fields.
const ABILITIES: [&str; 5] = ["partial", "combined", "traces", "finished", "skips"];

fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("every text is a JSON string")
}

fn repair_word(repair: RepairId) -> String {
    format!("{}.{}", repair.epoch(), repair.0 & 0xffff_ffff)
}

fn read_repair(word: &str) -> Option<RepairId> {
    let (epoch, sequence) = word.split_once('.')?;
    Some(RepairId::new(epoch.parse().ok()?, sequence.parse().ok()?))
}

fn copy_word(copy: ChunkCopy) -> String {
    let chunk = format!("{}.{}", copy.stripe.0, copy.chunk.0);
    chunk + &stamp_word(copy.stamp)
}

/// Nothing for what a put wrote, `@1.7` for what a repair wrote.
pub(super) fn stamp_word(stamp: Stamp) -> String {
    match stamp.0 {
        0 => String::new(),
        repair => format!("@{}", repair_word(RepairId(repair))),
    }
}

/// Splits a stamp off the end of a word.
pub(super) fn split_stamp(word: &str) -> Option<(&str, Stamp)> {
    match word.split_once('@') {
        None => Some((word, Stamp(0))),
        Some((word, repair)) => Some((word, Stamp::from(read_repair(repair)?))),
    }
}

fn read_copy(word: &str) -> Option<ChunkCopy> {
    let (chunk, stamp) = split_stamp(word)?;
    let (stripe, chunk) = chunk.split_once('.')?;
    let (stripe, chunk) = (StripeId(stripe.parse().ok()?), ChunkIndex(chunk.parse().ok()?));
    Some(ChunkCopy { stripe, chunk, stamp })
}

/// The copy, its length and its checksum, as many of them as there are.
fn listed_word(ListedCopy { copy, digest }: ListedCopy) -> String {
    let bytes = digest.bytes.map_or(String::new(), |bytes| bytes.to_string());
    match digest.crc {
        None if bytes.is_empty() => copy_word(copy),
        None => format!("{}:{bytes}", copy_word(copy)),
        Some(crc) => format!("{}:{bytes}:{crc:08x}", copy_word(copy)),
    }
}

fn read_listed(word: &str) -> Option<ListedCopy> {
    let mut parts = word.split(':');
    let copy = read_copy(parts.next()?)?;
    let bytes = match parts.next() {
        None | Some("") => None,
        Some(bytes) => Some(bytes.parse().ok()?),
    };
    let crc = match parts.next() {
        None => None,
        Some(crc) => Some(LineReader::new(crc).value::<Checksum>().ok()?.0),
    };
    parts.next().is_none().then_some(ListedCopy { copy, digest: Digest { bytes, crc } })
}

fn slice_word(id: SliceId) -> String {
    format!("{}/{}/{}", repair_word(id.repair), id.lane, id.slice)
}

fn read_slice(word: &str) -> Option<SliceId> {
    let mut parts = word.split('/');
    let repair = read_repair(parts.next()?)?;
    let (lane, slice) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(SliceId { repair, lane, slice })
}

/// Nanoseconds as seconds, with as many decimals as they need and at least `decimals`.
fn seconds(ns: u64, decimals: usize) -> String {
    let fraction = format!("{:09}", ns % 1_000_000_000);
    let needed = fraction.trim_end_matches('0').len().max(decimals);
    match needed {
        0 => format!("{}s", ns / 1_000_000_000),
        _ => format!("{}.{}s", ns / 1_000_000_000, &fraction[..needed]),
    }
}

fn read_seconds(word: &str) -> Option<u64> {
    let (whole, fraction) = match word.strip_suffix('s')?.split_once('.') {
        Some(parts) => parts,
        None => (word.strip_suffix('s')?, "0"),
    };
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (seconds, ns): (u64, u64) = (whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

fn spell_label(label: &Label) -> String {
    label.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_label(word: &str) -> Option<Label> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    Label::new(&word.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>()?)
}
