//! Lines of a log as JSON, one object a line, for what collects the logs of many machines.
//!
//! Place: the edge of everything, where a line is made. The crate that makes lines of text could
//! make these too, by way of one more crate; nothing here has spans, which is most of what that
//! does.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Makes a line of each event.
pub struct JsonLines;

/// A line; names that events give their fields stand apart from these.
#[derive(Serialize)]
struct JsonLine<'a> {
    /// As in lines of text: UTC, to the microsecond.
    time: String,
    level: &'a str,
    /// The module that logs.
    target: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

/// What an event says.
#[derive(Default)]
struct EventFields {
    message: String,
    others: Map<String, Value>,
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let level = metadata.level().as_str().to_ascii_lowercase();
        writeln!(writer, "{}", written(&level, metadata.target(), fields))
    }
}

/// A line without fields.
pub fn line(level: &str, target: &str, message: &str) -> String {
    let message = message.to_owned();
    written(level, target, EventFields { message, others: Map::new() })
}

fn written(level: &str, target: &str, event: EventFields) -> String {
    let EventFields { message, others: fields } = event;
    let mut time = String::new();
    // Into memory that cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let line = JsonLine { time, level, target, message, fields };
    serde_json::to_string(&line).expect("texts, numbers and flags can be JSON")
}

impl EventFields {
    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(message)) => self.message = message,
            (name, value) => {
                self.others.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{Level, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` logs.
    fn logged(work: impl FnOnce()) -> Vec<Value> {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(move || writer.clone())
            .event_format(JsonLines)
            .finish();
        tracing::subscriber::with_default(subscriber, work);
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let lines = logged(|| {
            let (name, none) = ("n\"1\n", None::<u64>);
            info!(name, none, chunks = 7_u64, left = -1_i64, "two\nlines of {}", 2);
            warn!(seconds = 0.5, is_up = true, why = %"a\u{1b}b", "last");
            warn!("plain");
        });
        let [first, second, third] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(
            (&first["level"], &first["message"]),
            (&"info".into(), &"two\nlines of 2".into())
        );
        assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
        assert!(first["target"].as_str().is_some_and(|of| of.ends_with("log::json::tests")));
        let fields = serde_json::json!({ "name": "n\"1\n", "chunks": 7, "left": -1 });
        assert_eq!(first["fields"], fields);
        assert_eq!(second["fields"]["seconds"], 0.5);
        assert_eq!(second["fields"]["is_up"], true);
        assert_eq!(second["fields"]["why"], "a\u{1b}b");
        assert_eq!((&third["message"], &third["level"]), (&"plain".into(), &"warn".into()));
        assert!(third.get("fields").is_none(), "{third}");
    }

    #[test]
    fn a_line_of_our_own_is_like_all_others() {
        let line: Value =
            serde_json::from_str(&line("warn", "suture::log", "5 \"lines\"")).unwrap();
        assert_eq!((&line["level"], &line["message"]), (&"warn".into(), &"5 \"lines\"".into()));
        assert!(line["time"].is_string() && line["target"] == "suture::log");
    }
}
