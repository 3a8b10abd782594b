//! The manifest: what an encoded directory should hold, so that anything else can be recognised.
//!
//! Place: written last by `encode`, read first by everything else.
//! The manifest is the root of trust: chunk checksums vouch for `.crc` files, those for blocks. So
//! it carries a checksum of itself, and a manifest that contradicts itself is refused before any
//! chunk is touched: acting on a wrong length or count could destroy the last good copy.
//!
//! Fields whose name ends in `crc32c` may be missing, after an accident or a conversion: then
//! nothing is proven by checksum, and parity has to show which chunks are good (`parity.rs`).
//!
//! Invariants: parse is pure and allocates no more than the text's size; what `to_json` writes,
//! `parse` reads back; an unknown format is refused by name.

use std::fmt::Write;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use suture_code::ChunkIndex;
use suture_edge::checksum::crc32c;

use super::geometry::Geometry;

/// The name of the file.
pub const MANIFEST_NAME: &str = "manifest.json";

/// The one format that this version reads and writes.
const FORMAT: &str = "suture-manifest-1";

/// Some 600,000 stripes of nine chunks. Longer files take larger chunks.
pub const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// What an encoded directory should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// How the file is cut.
    pub geometry: Geometry,
    /// One CRC32C per chunk, stripe by stripe; `None` when they are gone.
    pub chunk_checksums: Option<Vec<Vec<u32>>>,
    /// Whether its own checksum says that it is what was written.
    pub is_proven: bool,
}

#[derive(Deserialize)]
struct AnyFormat {
    format: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Format1 {
    #[serde(rename = "format")]
    _format: String,
    code: String,
    file_bytes: u64,
    chunk_bytes: u64,
    unit_bytes: u64,
    manifest_crc32c: Option<HexChecksum>,
    chunk_crc32c: Option<Vec<Vec<HexChecksum>>>,
}

/// A checksum as 8 hexadecimal digits. There may be millions: each is read where it stands in the
/// text.
struct HexChecksum(u32);

impl<'de> Deserialize<'de> for HexChecksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HexChecksum, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        let hex = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = hex.then(|| u32::from_str_radix(text, 16).ok()).flatten();
        let refuse =
            || D::Error::custom(format_args!("{text:?} is not a checksum of 8 hexadecimal digits"));
        value.map(HexChecksum).ok_or_else(refuse)
    }
}

impl Manifest {
    /// Reads a manifest, and refuses one that lies.
    ///
    /// # Errors
    /// Why it is refused: no manifest, a contradiction, or damage.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let AnyFormat { format } =
            serde_json::from_str(text).map_err(|error| format!("it is not a manifest: {error}"))?;
        match format.as_deref() {
            Some(FORMAT) => (),
            Some(other) => {
                return Err(format!(
                    "its format is {other:?}, but this version of suture reads {FORMAT:?}"
                ));
            }
            None => {
                return Err(format!(
                    "it names no format; {FORMAT:?} is the one that this version of suture reads"
                ));
            }
        }
        let raw: Format1 =
            serde_json::from_str(text).map_err(|error| format!("it is not a {FORMAT}: {error}"))?;
        let geometry = Geometry {
            code: raw.code.parse().map_err(|error| format!("its code is impossible: {error}"))?,
            file_bytes: raw.file_bytes,
            chunk_bytes: raw.chunk_bytes,
            unit_bytes: raw.unit_bytes,
        };
        let geometry = geometry.check()?;
        let chunk_checksums =
            raw.chunk_crc32c.map(|rows| check_rows(rows, &geometry)).transpose()?;
        let is_proven = raw.manifest_crc32c.is_some();
        let manifest = Manifest { geometry, chunk_checksums, is_proven };
        match raw.manifest_crc32c {
            Some(HexChecksum(own)) if own != crc32c(manifest.body().as_bytes()) => Err(format!(
                "it was altered or damaged: its content does not match its own checksum {own:08x}; restore it from a copy"
            )),
            _ => Ok(manifest),
        }
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        let body = self.body();
        let own = crc32c(body.as_bytes());
        format!(
            "{{\n  \"format\": \"{FORMAT}\",\n  \"manifest_crc32c\": \"{own:08x}\",\n{body}}}\n"
        )
    }

    /// The checksum that a chunk must have, when it is known.
    pub fn chunk_checksum(&self, stripe: u64, chunk: ChunkIndex) -> Option<u32> {
        let rows = self.chunk_checksums.as_ref()?;
        Some(rows[stripe as usize][usize::from(chunk.0)])
    }

    /// Everything under the manifest's own checksum, one stripe a line, so that people can read it.
    fn body(&self) -> String {
        let Geometry { code, file_bytes, chunk_bytes, unit_bytes } = self.geometry;
        let mut body = format!(
            "  \"code\": \"{code}\",\n  \"file_bytes\": {file_bytes},\n  \"chunk_bytes\": {chunk_bytes},\n  \"unit_bytes\": {unit_bytes}"
        );
        if let Some(rows) = &self.chunk_checksums {
            body.push_str(",\n  \"chunk_crc32c\": [\n");
            for (stripe, row) in rows.iter().enumerate() {
                let row: Vec<String> =
                    row.iter().map(|checksum| format!("\"{checksum:08x}\"")).collect();
                let comma = if stripe + 1 < rows.len() { "," } else { "" };
                writeln!(body, "    [{}]{comma}", row.join(", ")).expect("a string takes all text");
            }
            body.push_str("  ]");
        }
        body.push('\n');
        body
    }
}

/// The size of a manifest's text, before there is one.
pub fn estimated_bytes(geometry: &Geometry) -> u64 {
    512 + geometry.stripe_count().saturating_mul(8 + 12 * geometry.code.chunk_count() as u64)
}

fn check_rows(rows: Vec<Vec<HexChecksum>>, geometry: &Geometry) -> Result<Vec<Vec<u32>>, String> {
    let (stripes, chunks) = (geometry.stripe_count(), geometry.code.chunk_count());
    if rows.len() as u64 != stripes {
        let (file, found) = (geometry.file_bytes, rows.len());
        return Err(format!(
            "it lies: a file of {file} bytes has {stripes} stripes of this size, but it lists {found}"
        ));
    }
    if let Some(stripe) = rows.iter().position(|row| row.len() != chunks) {
        let (code, found) = (geometry.code, rows[stripe].len());
        return Err(format!(
            "it lies: {code} has {chunks} chunks a stripe, but it lists {found} for stripe {stripe}"
        ));
    }
    Ok(rows
        .into_iter()
        .map(|row| row.into_iter().map(|HexChecksum(value)| value).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(file_bytes: u64) -> Manifest {
        let code = "rs(4,2)".parse().unwrap();
        let geometry =
            Geometry { code, file_bytes, chunk_bytes: 128, unit_bytes: 64 }.check().unwrap();
        let row =
            |stripe: u64| (0..6).map(|chunk| (stripe * 6 + chunk) as u32 * 0x0101_0101).collect();
        Manifest {
            geometry,
            chunk_checksums: Some((0..geometry.stripe_count()).map(row).collect()),
            is_proven: true,
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for file_bytes in [0, 1, 512, 513, 5000] {
            let manifest = manifest(file_bytes);
            let text = manifest.to_json();
            assert_eq!(Manifest::parse(&text), Ok(manifest.clone()));
            assert!(text.len() as u64 <= estimated_bytes(&manifest.geometry), "{text}");
            let gone = Manifest { chunk_checksums: None, ..manifest };
            assert_eq!(Manifest::parse(&gone.to_json()), Ok(gone));
        }
    }

    #[test]
    fn every_lie_is_named() {
        let honest = manifest(5000).to_json();
        let without_own = honest
            .lines()
            .filter(|line| !line.contains("manifest_crc32c"))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(Manifest::parse(&without_own).is_ok());
        for (from, to, expected) in [
            (
                "\"file_bytes\": 5000",
                "\"file_bytes\": 4000",
                "8 stripes of this size, but it lists 10",
            ),
            ("rs(4,2)", "rs(4,3)", "7 chunks a stripe, but it lists 6"),
            ("rs(4,2)", "rs(0,3)", "its code is impossible"),
            ("rs(4,2)", "rot13", "its code is impossible"),
            ("\"chunk_bytes\": 128", "\"chunk_bytes\": 100", "chunk size 100B does not fit"),
            ("\"chunk_bytes\": 128", "\"chunk_bytes\": 0", "chunk size 0B does not fit"),
            ("\"chunk_bytes\": 128", "\"chunk_bytes\": -1", "not a suture-manifest-1"),
            ("\"unit_bytes\": 64", "\"units\": 64", "unknown field `units`"),
            (
                "suture-manifest-1",
                "suture-manifest-2",
                "\"suture-manifest-2\", but this version of suture reads \"suture-manifest-1\"",
            ),
            ("\"format\"", "\"fromat\"", "names no format"),
            ("\"00000000\"", "\"0000000\"", "not a checksum"),
            ("\"00000000\"", "\"+0000000\"", "not a checksum"),
            ("{", "", "not a manifest"),
        ] {
            let lie = without_own.replacen(from, to, 1);
            let error = Manifest::parse(&lie).expect_err(&lie);
            assert!(error.contains(expected), "{error}\n{lie}");
        }
    }

    #[test]
    fn a_lie_that_fits_is_found_by_the_manifests_own_checksum() {
        let honest = manifest(5000).to_json();
        for (from, to) in [
            ("5000", "4999"),
            ("\"unit_bytes\": 64", "\"unit_bytes\": 128"),
            ("\"00000000\"", "\"00000001\""),
        ] {
            let error = Manifest::parse(&honest.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains("altered or damaged"), "{error}");
        }
    }
}
