//! The tables of `suture codes` for people.
//!
//! Place: beside the JSON report, from the same rows.

use suture_edge::units::format_exact_size;
use suture_terminal::output::{line, print_table, table};

use super::{CodeRow, CodesReport};

pub(super) fn print(report: &CodesReport) {
    for family in report.families {
        line(family.form);
        line(format_args!("    {}", family.description));
        line(format_args!("    survives the loss of {}", family.tolerance));
        line(format_args!("    {}", family.parameters));
    }
    line("");
    print_codes(&report.codes);
    line("");
    print_volumes(&report.codes);
    line("");
    print_policies(&report.codes);
}

fn print_codes(rows: &[CodeRow]) {
    let header = ["code", "data", "parity", "survives", "overhead", "sub-chunks", "alignment"];
    let mut codes = table(header, &[1, 2, 3, 4, 5, 6]);
    for row in rows {
        codes.add_row([
            row.code.clone(),
            row.data_chunks.to_string(),
            row.parity_chunks.to_string(),
            format!("any {}", row.loss_tolerance),
            format!("{:.2}x", row.storage_overhead),
            row.sub_chunk_count.to_string(),
            format_exact_size(row.alignment_bytes as u64),
        ]);
    }
    print_table(&codes);
}

fn print_volumes(rows: &[CodeRow]) {
    let header = ["repair of one chunk", "which", "helpers", "chunks read", "sent", "as traces"];
    let mut volumes = table(header, &[2, 3, 4, 5]);
    for row in rows {
        for (index, volume) in row.repairs.iter().enumerate() {
            volumes.add_row([
                if index == 0 { row.code.clone() } else { String::new() },
                format!("{} {}", volume.kind, ranges(&volume.chunks)),
                volume.helpers.to_string(),
                format_chunks(volume.read_chunks),
                format_chunks(volume.sent_chunks),
                volume.trace_sent_chunks.map_or("-".to_string(), format_chunks),
            ]);
        }
    }
    print_table(&volumes);
}

/// Policies down, codes across; codes that all policies serve alike share a column. The reasons
/// stand below, each once.
fn print_policies(rows: &[CodeRow]) {
    let mut columns: Vec<Vec<&CodeRow>> = Vec::new();
    for row in rows {
        // Served alike; of the reasons, which may differ in numbers, one is enough.
        let served =
            |row: &CodeRow| row.policies.iter().map(|policy| policy.served).collect::<Vec<_>>();
        match columns.iter_mut().find(|column| served(column[0]) == served(row)) {
            Some(column) => column.push(row),
            None => columns.push(vec![row]),
        }
    }
    let mut reasons: Vec<&str> = Vec::new();
    let mut policies = table([], &[]);
    let names = |column: &Vec<&CodeRow>| {
        column.iter().map(|row| row.code.as_str()).collect::<Vec<_>>().join("\n")
    };
    policies.set_header(std::iter::once("policy".to_string()).chain(columns.iter().map(names)));
    let count = rows.first().map_or(0, |row| row.policies.len());
    for index in 0..count {
        let mut cells = vec![rows[0].policies[index].policy.clone()];
        for column in &columns {
            let reason = column[0].policies[index].reason.as_deref();
            cells.push(reason.map_or("yes".to_string(), |reason| {
                format!("no ({})", number_of(reason, &mut reasons))
            }));
        }
        policies.add_row(cells);
    }
    policies.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    print_table(&policies);
    for (index, reason) in reasons.iter().enumerate() {
        line(format_args!("({}) {reason}", index + 1));
    }
}

/// Which of the reasons it is, from 1 on; a new one becomes the last.
fn number_of<'a>(reason: &'a str, reasons: &mut Vec<&'a str>) -> usize {
    let known = reasons.iter().position(|known| *known == reason);
    known.map_or_else(
        || {
            reasons.push(reason);
            reasons.len()
        },
        |place| place + 1,
    )
}

/// Chunk indices as `0-5, 8`.
fn ranges(chunks: &[u8]) -> String {
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for &chunk in chunks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == chunk => *last = chunk,
            _ => ranges.push((chunk, chunk)),
        }
    }
    let show = |&(first, last): &(u8, u8)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// A number of chunks as `6` or `2.50`.
fn format_chunks(chunks: f64) -> String {
    if chunks.fract() == 0.0 { chunks.to_string() } else { format!("{chunks:.2}") }
}
