//! The placement file: one stripe a line, the node index of each chunk in chunk order.
//!
//! Place: file -> [where every chunk is] -> stripes affected -> plan or simulate.
//! A stripe's number is its 0-based line, so a line may not be skipped: an empty one is refused
//! unless only empty ones follow.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::Result;
use suture_code::Code;
use suture_edge::bounded::read_line;
use suture_edge::error::bad_input;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;

/// No line is longer: 255 numbers of ten digits, and many blanks.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The node of each chunk, stripe after stripe.
///
/// # Errors
/// Bad input with file and line: not readable, no stripes, a name without node, or a stripe of the
/// wrong width.
pub fn read(path: &Path, cluster: &Cluster, code: Code) -> Result<Vec<NodeId>> {
    let shown = path.display();
    let cannot = |why: &dyn Display| bad_input(format!("cannot read {shown}: {why}"));
    let mut file = BufReader::new(File::open(path).map_err(|error| cannot(&error))?);
    let (mut placement, mut line, mut first_empty) = (Vec::new(), Vec::new(), None);
    for number in 1.. {
        line.clear();
        if read_line(&mut file, &mut line, LINE_BYTES_MAX).map_err(|error| cannot(&error))? == 0 {
            break;
        }
        let text = str::from_utf8(&line).map_err(|_| cannot(&"it is not valid UTF-8"))?;
        if text.trim().is_empty() {
            first_empty = first_empty.or(Some(number));
            continue;
        }
        let (number, text) = first_empty.map_or((number, text), |number| (number, ""));
        let stripe = parse_stripe(text, cluster, code)
            .map_err(|message| bad_input(format!("{shown}:{number}: {message}")))?;
        placement.extend(stripe);
    }
    if placement.is_empty() {
        let what = "names no stripes; write the node index of each chunk, one stripe a line";
        return Err(bad_input(format!("{shown}: {what}")));
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
