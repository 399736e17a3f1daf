//! `GET /metrics`: metrics of a process in the Prometheus text format.
//!
//! Names, types and labels are a contract: see `docs/metrics.md`. This file has the format, `families` the metrics of a
//! crawl.
//!
//! Invariants: each family appears once, with help text and type; labels are from closed sets and the names of jobs and webhooks,
//! never a host or a URL; counters start at zero with the process (on a node: with its session) and only grow.

mod families;

use std::fmt::Write as _;

use http::StatusCode;
use nephila_core::histogram::Buckets;

use super::problem::{HttpAnswer, reply};

pub use families::{of_cache, of_crawl, of_webhooks};

/// Content type of the Prometheus text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric family: all samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// One line: the end of the name, the labels in braces, the value.
#[derive(Clone, Debug)]
struct Sample {
    suffix: &'static str,
    labels: String,
    value: String,
}

impl Sample {
    fn new(labels: String, value: u64) -> Sample {
        Sample { suffix: "", labels, value: value.to_string() }
    }
}

/// A gauge: a value that goes up and down.
pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { name, kind: "gauge", help, samples: vec![Sample::new(String::new(), value)] }
}

/// A counter: a value that only grows.
pub fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { kind: "counter", ..gauge(name, help, value) }
}

/// A family with one label.
pub fn by(
    kind: &'static str,
    (name, label): (&'static str, &'static str),
    help: &'static str,
    values: impl IntoIterator<Item = (&'static str, u64)>,
) -> Family {
    let sample = |(value, number)| Sample::new(format!("{{{label}=\"{value}\"}}"), number);
    Family { name, kind, help, samples: values.into_iter().map(sample).collect() }
}

/// A histogram in seconds of durations in milliseconds. `label` is a whole label, or empty.
pub fn histogram(name: &'static str, help: &'static str, label: &str, durations: &Buckets) -> Family {
    histograms(name, help, 1_000.0, [(label.to_owned(), durations.clone())])
}

/// A histogram with a whole label, or an empty one, for each of several series. Values are divided by `unit`.
pub fn histograms(
    name: &'static str,
    help: &'static str,
    unit: f64,
    series: impl IntoIterator<Item = (String, Buckets)>,
) -> Family {
    let samples = series.into_iter().flat_map(|(label, buckets)| samples_of(&label, &buckets, unit));
    Family { name, kind: "histogram", help, samples: samples.collect() }
}

fn samples_of(label: &str, buckets: &Buckets, unit: f64) -> Vec<Sample> {
    let shown = |value: u64| format!("{}", value as f64 / unit);
    let comma = if label.is_empty() { "" } else { "," };
    let braced = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let bounds = buckets.bounds.iter().map(|bound| shown(*bound)).chain(["+Inf".to_owned()]);
    let mut count = 0;
    let mut samples: Vec<Sample> = bounds
        .zip(&buckets.counts)
        .map(|(bound, number)| {
            count += number;
            let labels = format!("{{{label}{comma}le=\"{bound}\"}}");
            Sample { suffix: "_bucket", labels, value: count.to_string() }
        })
        .collect();
    samples.push(Sample { suffix: "_sum", labels: braced.clone(), value: shown(buckets.sum) });
    samples.push(Sample { suffix: "_count", labels: braced, value: count.to_string() });
    samples
}

/// The answer. `mode` is `single` or `cluster`.
pub fn answer(mode: &str, families: Vec<Family>) -> HttpAnswer {
    reply(StatusCode::OK, CONTENT_TYPE, text(mode, families))
}

/// The text. `mode` is `single` or `cluster`.
pub fn text(mode: &str, families: Vec<Family>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let revision = option_env!("NEPHILA_REVISION").unwrap_or("unknown");
    let mut out = format!(
        "# HELP nephila_build_info Constant 1; version, revision and mode of this binary.\n\
         # TYPE nephila_build_info gauge\n\
         nephila_build_info{{version=\"{version}\",revision=\"{revision}\",mode=\"{mode}\"}} 1\n"
    );
    for Family { name, kind, help, samples } in families {
        // Writing to a string does not fail.
        _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for Sample { suffix, labels, value } in samples {
            _ = writeln!(out, "{name}{suffix}{labels} {value}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
