//! Prints the events of the libraries to standard error: plain lines for people, or JSON lines (`log.format`).
//!
//! Invariants: a plain line is `nephila: MESSAGE`, since the message says all that the fields say; events of other
//! libraries and events below the level `info` are not printed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use nephila_engine::clock::Clock;
use nephila_engine::settings::LogFormat;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, level_filters::LevelFilter};

/// Whether the settings ask for JSON. Until they are read, lines are plain.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints events from now on. Later calls do nothing.
pub(crate) fn install() {
    // An error means that a subscriber is installed already.
    _ = tracing::subscriber::set_global_default(Lines(print));
}

/// Sets the format of the lines.
pub(crate) fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Gives each event to a function. Keeps no spans.
struct Lines<F>(F);

impl<F: Fn(&Metadata<'_>, Said) + 'static> Subscriber for Lines<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO && metadata.target().starts_with("nephila")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        (self.0)(event.metadata(), said);
    }
}

/// Prints an event as one line.
fn print(metadata: &Metadata<'_>, said: Said) {
    if IS_JSON.load(Ordering::Relaxed) {
        eprintln!("{}", said.json(metadata, &Clock::new().now().wall.warc_date()));
    } else {
        eprintln!("nephila: {}", said.message);
    }
}

/// The message and the fields of an event.
#[derive(Debug, Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
}

impl Said {
    fn json(self, metadata: &Metadata<'_>, time: &str) -> Value {
        let mut line = Map::new();
        line.insert("time".into(), time.into());
        line.insert("level".into(), metadata.level().as_str().to_ascii_lowercase().into());
        line.insert("target".into(), metadata.target().into());
        line.insert("message".into(), self.message.into());
        line.extend(self.fields);
        Value::Object(line)
    }
}

impl Visit for Said {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().into(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().into(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => _ = self.fields.insert(name.into(), text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn ops_05_an_event_is_a_line_with_its_fields() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let lines = kept.clone();
        let keep = move |metadata: &Metadata<'_>, said: Said| {
            lines.lock().unwrap().push(said.json(metadata, "2026-01-01T00:00:00Z"));
        };
        tracing::subscriber::with_default(Lines(keep), || {
            let error = std::io::Error::other("no \"room\"");
            tracing::warn!(node = "one", partition = 7, %error, "partition {} cannot be opened: {error}", 7);
            tracing::debug!("for nobody");
            tracing::warn!(target: "hickory", "of another library");
        });
        let lines = kept.lock().unwrap().clone();
        let line = serde_json::json!({
            "time": "2026-01-01T00:00:00Z", "level": "warn", "target": "nephila::logging::tests",
            "message": "partition 7 cannot be opened: no \"room\"", "node": "one", "partition": 7,
            "error": "no \"room\"",
        });
        assert_eq!(lines, [line]);
    }
}
