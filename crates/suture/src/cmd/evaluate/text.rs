//! Answers for people: what is lost, which nodes help, what cannot be repaired.
//!
//! Place: `failure -> stripes -> queue -> plan -> ...`; the words that `plan`, `simulate` and
//! `durability` have in common.

use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{CellAlignment, Table};
use suture_code::Code;
use suture_edge::units::format_size;
use suture_lab::input::{Damage, Input};
use suture_repair::id::StripeId;
use suture_repair::policy::{Balance, Policy, Shape};
use suture_terminal::output::counted;

use super::{Answer, Refusal};

/// Stripes that are named for one reason; the rest are counted.
const STRIPES_SHOWN: usize = 10;

/// What was lost with which nodes.
pub fn what_is_lost(input: &Input, damage: &Damage) -> String {
    let failed: Vec<&str> =
        input.failed.iter().map(|node| input.cluster.node(*node).name.as_str()).collect();
    let left = (input.cluster.nodes.len() - failed.len()) as u64;
    let lost_bytes = damage.lost_chunks as u64 * input.chunk_bytes;
    format!(
        "Lost with {}: {} of {}, {} ({}, chunks of {}); {} left.",
        failed.join(", "),
        counted(damage.lost_chunks as u64, "chunk"),
        counted((damage.jobs.len() + damage.unrepairable.len()) as u64, "stripe"),
        format_size(lost_bytes),
        input.code,
        format_size(input.chunk_bytes),
        counted(left, "node"),
    )
}

/// What the k-chunk bound says of plans. A code that repairs with less than k chunks has the bound
/// of that; a plan that takes more of its helpers may be faster, where one of those is slow.
pub fn bound_meaning(code: &Code) -> &'static str {
    match code {
        Code::Rs(_) | Code::RsVandermonde(_) => "no plan that reads whole chunks is faster",
        Code::Lrc(_) | Code::Butterfly(_) | Code::Clay(_) => {
            "no plan is faster, whichever helpers it takes"
        }
    }
}

/// Why there is no plan.
pub fn nothing_to_do(damage: &Damage) -> &'static str {
    if damage.lost_chunks == 0 { "There is nothing to repair." } else { "Nothing can be repaired." }
}

/// Why these helpers, in a sentence.
pub fn who_helps(policy: Policy) -> String {
    let shape = match policy.shape {
        Shape::Star => "helpers send straight to the destination",
        Shape::Ppr => "helpers add up in pairs, round by round",
        Shape::Chain => "each helper adds to what the one before it sent",
        Shape::Ppt => {
            "of all trees the one whose slowest link is fastest, by trying all numbers of children"
        }
        Shape::Pivot => "trees whose slowest link is fastest, the best nodes placed first",
        Shape::Rack => "helpers of a rack add up first, so that a rack sends one sum",
        Shape::Tunable => "trees that follow from how much each node was given to send and receive",
        Shape::Split => "chunks are cut into ranges, each with a tree of its own",
        Shape::Trace => "every survivor sends a few bits of each byte to a decoder",
        Shape::Mix => "for each stripe whichever of trees and traces loads the busiest port least",
    };
    let balance = match policy.balance {
        Balance::Random => match policy.shape {
            Shape::Pivot => "the node with the most downlink left is the destination",
            Shape::Ppt => "destinations are drawn at random",
            Shape::Chain => {
                "helpers lie on the path whose slowest link is fastest, on equal links any; \
                 destinations are drawn at random"
            }
            _ => "helpers and destinations are drawn at random",
        },
        Balance::Lru => "those that helped least recently help",
        Balance::LruShared => "those that helped or received least recently help and receive",
        Balance::RepairBoost => "each place of the graph goes to the node that it delays least",
        Balance::Car(Some(0)) => "as few racks as possible help",
        Balance::Car(_) => "as few racks as possible help, and their uplinks are evened out",
        Balance::CarRandom => "helpers are drawn at random; destinations are those of car",
        Balance::Chameleon => "each transfer goes to the node that finishes it first",
        Balance::ChameleonArtifact => {
            "each transfer goes to the node that finishes it first, by a partial sort"
        }
        Balance::ChameleonIo => {
            "each transfer goes to the node whose links and disk finish it first"
        }
        Balance::Flow => "transfers are moved along paths until no move can lower the peak",
        Balance::Greedy => {
            "the least loaded nodes help and receive, chosen again until the peak stops falling"
        }
    };
    let name = policy.to_string();
    let triple = format!("{policy:#}");
    let triple = if triple == name { String::new() } else { format!(" = {triple}") };
    format!("Policy {name}{triple}: {shape}; {balance}.")
}

/// The policies that refused, a line each; nothing when none did.
pub fn refused<E>(answers: &[Answer<E>]) -> String {
    let line = |answer: &Answer<E>| {
        let Refusal(reason) = answer.result.as_ref().err()?;
        Some(format!("  {}: {reason}", answer.policy))
    };
    let lines: Vec<String> = answers.iter().filter_map(line).collect();
    if lines.is_empty() { String::new() } else { format!("\nRefused:\n{}\n", lines.join("\n")) }
}

/// A paragraph for each reason.
///
/// # Errors
/// Those of formatting, which text in memory does not have.
pub fn unrepairable(stripes: &[(StripeId, String)]) -> Result<String> {
    let mut out = String::new();
    let mut reasons: Vec<&str> = stripes.iter().map(|(_, reason)| reason.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let matching = stripes.iter().filter(|(_, r)| r == reason).map(|(stripe, _)| stripe.0);
        let matching: Vec<String> = matching.map(|stripe| stripe.to_string()).collect();
        let shown = matching[..matching.len().min(STRIPES_SHOWN)].join(", ");
        let more = matching.len().saturating_sub(STRIPES_SHOWN);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let count = counted(matching.len() as u64, "stripe");
        writeln!(out, "\nCannot be repaired: {count} ({shown}{more}): {reason}.")?;
    }
    Ok(out)
}

/// Numbers from this column on.
pub fn align_right(table: &mut Table, from_column: usize) {
    for column in table.column_iter_mut().skip(from_column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// The table without spaces at the ends of its lines.
pub fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
