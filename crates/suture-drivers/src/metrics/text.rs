//! How numbers are written: OpenMetrics for clients that ask for it, and what came before it for
//! all others.
//!
//! Place: beside everything, the last step before monitoring reads it.
//! The two differ in the names of counters in their heads, and in what the older one does not know.

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Everything of one moment, in both ways of writing.
#[derive(Clone, Debug)]
pub struct Exposition {
    /// For clients that accept `application/openmetrics-text`.
    pub open_metrics: Bytes,
    /// The same for all other clients.
    pub classic: Bytes,
}

impl Exposition {
    /// What this media type is called, and the text in it.
    pub fn choose(&self, accepts_open_metrics: bool) -> (&'static str, Bytes) {
        if accepts_open_metrics {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (kind, self.open_metrics.clone())
        } else {
            ("text/plain; version=0.0.4; charset=utf-8", self.classic.clone())
        }
    }

    pub(super) fn of(registry: &Registry) -> Exposition {
        let mut text = String::new();
        encode(&mut text, registry).expect("text can be appended to");
        // A family without labels. Names of nodes and racks have no spaces.
        let text = text.replace("{} ", " ");
        Exposition { classic: classic(&text).into(), open_metrics: text.into() }
    }
}

/// The same in the older way: counters are called in their heads as in their samples, and there are
/// neither units nor an end.
fn classic(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("\n# TYPE {name} counter\n"));
    let mut classic = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(keyword), Some(name), Some(rest)) if is_counter(name) => {
                classic.push_str(&format!("# {keyword} {name}_total {rest}\n"));
            }
            _ => {
                classic.push_str(line);
                classic.push('\n');
            }
        }
    }
    classic
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn the_older_way_names_counters_alike_everywhere() {
        let mut registry = Registry::default();
        let (level, counter): (Gauge, Counter) = Default::default();
        registry.register("suture_nodes", "Nodes", level);
        registry.register("suture_repairs_started", "Repairs that began", counter.clone());
        counter.inc();
        let both = Exposition::of(&registry);
        let expected = "# HELP suture_nodes Nodes.\n# TYPE suture_nodes gauge\nsuture_nodes 0\n\
            # HELP suture_repairs_started_total Repairs that began.\n\
            # TYPE suture_repairs_started_total counter\nsuture_repairs_started_total 1\n";
        assert_eq!(both.classic, expected);
        assert!(both.open_metrics.ends_with(b"# EOF\n"));
        assert!(both.choose(true).0.starts_with("application/openmetrics-text"));
        assert_eq!(both.choose(false).1, both.classic);
    }
}
