//! The placement file: one stripe a line, the node index of each chunk in chunk order.
//!
//! Place: file -> [where every chunk is] -> stripes affected -> plan or simulate.
//! A stripe's number is its 0-based line, so a line may not be skipped: an empty one is refused
//! unless only empty ones follow.

use std::path::Path;

use anyhow::{Context, Result};
use suture_code::Code;
use suture_edge::error::bad_input;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;

/// The node of each chunk, stripe after stripe.
///
/// # Errors
/// Bad input with file and line: not readable, no stripes, a name without node, or a stripe of the wrong
/// width.
pub fn read(path: &Path, cluster: &Cluster, code: Code) -> Result<Vec<NodeId>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let text = text.map_err(|error| bad_input(format!("{error:#}")))?;
    let mut placement = Vec::new();
    for (index, line) in text.trim_end().lines().enumerate() {
        let stripe = parse_stripe(line, cluster, code)
            .map_err(|message| bad_input(format!("{}:{}: {message}", path.display(), index + 1)))?;
        placement.extend(stripe);
    }
    if placement.is_empty() {
        let what = "names no stripes; write the node index of each chunk, one stripe a line";
        return Err(bad_input(format!("{}: {what}", path.display())));
    }
    Ok(placement)
}

fn parse_stripe(line: &str, cluster: &Cluster, code: Code) -> Result<Vec<NodeId>, String> {
    let node_count = cluster.nodes.len();
    let node = |word: &str| match word.parse::<u32>() {
        Ok(index) if (index as usize) < node_count => Ok(NodeId(index)),
        Ok(index) => Err(format!(
            "there is no node {index}; the cluster file has {node_count}, numbered 0 to {}",
            node_count - 1
        )),
        Err(_) => Err(format!(
            "'{word}' is not a node index; write the 0-based number of the node in the cluster file"
        )),
    };
    let nodes = line.split_whitespace().map(node).collect::<Result<Vec<NodeId>, String>>()?;
    let chunk_count = code.chunk_count();
    if nodes.len() != chunk_count {
        return Err(format!(
            "{} node indices, but a stripe of {code} has {chunk_count} chunks; write one for each",
            nodes.len()
        ));
    }
    for (chunk, node) in nodes.iter().enumerate() {
        if let Some(first) = nodes[..chunk].iter().position(|earlier| earlier == node) {
            return Err(format!(
                "node {} ('{}') holds chunk {first} and chunk {chunk}; each needs its own node",
                node.0,
                cluster.node(*node).name
            ));
        }
    }
    Ok(nodes)
}
