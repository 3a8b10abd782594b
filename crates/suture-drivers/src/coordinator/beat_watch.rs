//! Whether agents report often enough for the time after which a silent node is not used.
//!
//! Place: [failure detected] -> ...: how often an agent reports is in its own configuration, when
//! silence counts in the coordinator's, and no file has both. Where the two are near each other
//! every beat that is late takes a node out of use that is well. Agents announce it when they join;
//! those of a release that does not are not judged.

use std::collections::BTreeMap;
use std::time::Duration;

use suture_repair::id::NodeId;

use crate::config::advice::rare_beats;

/// Which agents report too rarely.
#[derive(Clone, Debug, Default)]
pub struct BeatWatch {
    /// Silence after which a node is not used; none where none is configured.
    suspect: Option<Duration>,
    /// How often they do.
    rare: BTreeMap<NodeId, Duration>,
}

impl BeatWatch {
    /// None yet, where a node is not used after so long a silence.
    pub fn new(suspect: Duration) -> BeatWatch {
        BeatWatch { suspect: Some(suspect), rare: BTreeMap::new() }
    }

    /// The agent of a node has joined, and reports so often if it announces that; gives what to do
    /// about that where it is news.
    pub fn joined(&mut self, node: NodeId, every: Option<Duration>, name: &str) -> Option<String> {
        let before = self.rare.remove(&node);
        let (every, suspect) = (every?, self.suspect?);
        let warning = warning(name, every, suspect)?;
        self.rare.insert(node, every);
        (before != Some(every)).then_some(warning)
    }

    /// What an operator should know of these nodes, in sentences.
    pub fn warnings<'a>(&self, name: impl Fn(NodeId) -> Option<&'a str>) -> Vec<String> {
        let warning = |(node, every): (&NodeId, &Duration)| {
            let suspect = self.suspect?;
            name(*node).and_then(|name| warning(name, *every, suspect))
        };
        self.rare.iter().filter_map(warning).collect()
    }
}

fn warning(name: &str, every: Duration, suspect: Duration) -> Option<String> {
    let remedy = rare_beats(every, suspect)?;
    Some(format!(
        "{name} reports every {every:?}, and counts as silent after {suspect:?}: {remedy}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_reports_too_rarely_is_warned_of_once_and_named_until_it_does_not() {
        let [second, two, ten] = [1, 2, 10].map(Duration::from_secs);
        let mut watch = BeatWatch::new(Duration::from_secs(3));
        let named = |watch: &BeatWatch| watch.warnings(|node| Some(["n0", "n1"][node.index()]));
        assert_eq!(watch.joined(NodeId(0), Some(second), "n0"), None);
        assert_eq!(watch.joined(NodeId(1), None, "n1"), None, "an older agent does not say");
        assert!(named(&watch).is_empty());
        let warned = watch.joined(NodeId(1), Some(ten), "n1").unwrap();
        let expected = "n1 reports every 10s, and counts as silent after 3s: set heartbeat";
        assert!(warned.starts_with(expected), "{warned}");
        assert_eq!(watch.joined(NodeId(1), Some(ten), "n1"), None, "it is known");
        assert_eq!(named(&watch), [warned]);
        assert!(watch.joined(NodeId(1), Some(two), "n1").is_some(), "it was changed, not enough");
        assert!(watch.warnings(|_| None).is_empty(), "it is not there");
        assert_eq!(watch.joined(NodeId(1), Some(second), "n1"), None);
        assert!(named(&watch).is_empty());
        assert_eq!(BeatWatch::default().joined(NodeId(1), Some(ten), "n1"), None);
    }
}
