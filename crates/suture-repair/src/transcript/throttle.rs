//! What repair may take, as one line: in transcripts, and where an operator's intent is kept.
//!
//! Place: beside the whole life of a repair; the words of `ThrottleConfig`.
//! `node 25000000 keep 30% p99 0.02s`; `off` for nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::throttle::{Keep, ThrottleConfig};
use crate::transcript::line::{LineReader, LineWriter, TextError, Textual};

/// A name and its cap.
struct Cap(String, u64);

impl Textual for Cap {
    fn write(&self, line: &mut LineWriter) {
        line.value(&self.0).value(&self.1);
    }

    fn read(line: &mut LineReader<'_>) -> Result<Cap, TextError> {
        Ok(Cap(line.value()?, line.value()?))
    }
}

impl Textual for Keep {
    fn write(&self, line: &mut LineWriter) {
        match self {
            Keep::Percent(part) => line.word(format!("{part}%")),
            Keep::Rate(rate) => line.word(rate),
        };
    }

    fn read(line: &mut LineReader<'_>) -> Result<Keep, TextError> {
        line.leaf("a part like 30%, or bytes per second", |word| match word.strip_suffix('%') {
            Some(part) => part.parse().ok().filter(|part| *part < 100).map(Keep::Percent),
            None => word.parse().ok().map(Keep::Rate),
        })
    }
}

impl Textual for ThrottleConfig {
    fn write(&self, line: &mut LineWriter) {
        if *self == ThrottleConfig::default() {
            line.word("off");
            return;
        }
        let caps = |all: &BTreeMap<String, u64>| -> Vec<Cap> {
            all.iter().map(|(name, cap)| Cap(name.clone(), *cap)).collect()
        };
        line.option("node", self.node.as_ref());
        if !self.nodes.is_empty() {
            line.word("nodes").list(&caps(&self.nodes));
        }
        if !self.racks.is_empty() {
            line.word("racks").list(&caps(&self.racks));
        }
        line.option("total", self.total.as_ref()).option("keep", self.keep.as_ref());
        line.option("p99", self.p99.as_ref()).option("floor", self.floor.as_ref());
    }

    fn read(line: &mut LineReader<'_>) -> Result<ThrottleConfig, TextError> {
        if line.take("off") {
            return Ok(ThrottleConfig::default());
        }
        let node = line.option("node")?;
        let mut caps = |key: &str| -> Result<BTreeMap<String, u64>, TextError> {
            let all: Vec<Cap> = if line.take(key) { line.list()? } else { Vec::new() };
            Ok(all.into_iter().map(|Cap(name, cap)| (name, cap)).collect())
        };
        Ok(ThrottleConfig {
            node,
            nodes: caps("nodes")?,
            racks: caps("racks")?,
            total: line.option("total")?,
            keep: line.option("keep")?,
            p99: line.option("p99")?,
            floor: line.option("floor")?,
        })
    }
}

impl fmt::Display for ThrottleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = LineWriter::default();
        line.value(self);
        f.write_str(&line.finish())
    }
}

impl FromStr for ThrottleConfig {
    type Err = TextError;

    fn from_str(text: &str) -> Result<ThrottleConfig, TextError> {
        let mut line = LineReader::new(text);
        let config = line.value()?;
        line.end()?;
        Ok(config)
    }
}
