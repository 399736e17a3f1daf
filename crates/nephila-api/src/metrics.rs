//! `GET /metrics`: metrics of a process in the Prometheus text format.
//!
//! Invariants: each family appears once, with help text and type; labels are from closed sets, never a host or a URL;
//! counters start at zero with the process and only grow.

use std::fmt::Write as _;

use http::StatusCode;

use super::StatsView;
use super::http::{Answer, reply};

/// Content type of the Prometheus text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric family: all samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// Name of the label, or empty.
    label: &'static str,
    samples: Vec<(&'static str, u64)>,
}

/// A gauge: a value that goes up and down.
pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { name, kind: "gauge", help, label: "", samples: vec![("", value)] }
}

/// A counter: a value that only grows.
fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { kind: "counter", ..gauge(name, help, value) }
}

/// The metric families of the frontier.
fn families(stats: &StatsView) -> Vec<Family> {
    let urls =
        vec![("queued", stats.urls_waiting), ("later", stats.urls_later), ("parked", stats.urls_parked)];
    let help = "URLs that are known and not fetched, by what they wait for.";
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    vec![
        Family { name: "nephila_frontier_urls", kind: "gauge", help, label: "state", samples: urls },
        gauge("nephila_frontier_hosts", "Hosts at hand.", number(stats.hosts_active)),
        gauge("nephila_frontier_open_tickets", "Requests under way.", number(stats.tickets_open)),
        gauge(
            "nephila_intake_waiting_urls",
            "URLs offered and not looked at yet.",
            number(stats.offers_waiting),
        ),
        counter("nephila_intake_urls_total", "URLs offered.", stats.offered),
        counter("nephila_frontier_tickets_total", "Requests for pages that were given out.", stats.tickets),
        counter("nephila_robots_fetches_total", "Requests for robots.txt that were given out.", stats.robots),
        counter(
            "nephila_frontier_ended_total",
            "Requests for pages whose outcome was taken in.",
            stats.ended,
        ),
        counter(
            "nephila_frontier_turned_away_total",
            "URLs turned away before a request: robots.txt, no address, a stopped job.",
            stats.turned_away,
        ),
        counter("nephila_frontier_expired_tickets_total", "Requests that nobody reported.", stats.expired),
        gauge("nephila_log_bytes", "Bytes of the journals of this machine.", stats.journal_bytes),
        counter("nephila_log_commits_total", "Times when something became durable.", stats.commits),
        gauge("nephila_process_tasks", "Tasks that are alive.", number(stats.tasks)),
    ]
}

/// The answer. `mode` is `single` or `cluster`; without `stats` the process runs no frontier at present.
pub fn answer(mode: &str, stats: Option<&StatsView>, more: Vec<Family>) -> Answer {
    reply(StatusCode::OK, CONTENT_TYPE, text(mode, stats, more))
}

fn text(mode: &str, stats: Option<&StatsView>, more: Vec<Family>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        "# HELP nephila_build_info Which program this is.\n# TYPE nephila_build_info gauge\n\
         nephila_build_info{{version=\"{version}\",mode=\"{mode}\"}} 1\n"
    );
    for Family { name, kind, help, label, samples } in stats.map(families).into_iter().flatten().chain(more) {
        // Writing to a string does not fail.
        _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (value, number) in samples {
            _ = match label {
                "" => writeln!(out, "{name} {number}"),
                label => writeln!(out, "{name}{{{label}=\"{value}\"}} {number}"),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ops_04_metrics_are_what_prometheus_reads() {
        let stats: StatsView = serde_json::from_value(serde_json::json!({
            "offered": 9, "tickets": 8, "robots": 2, "ended": 7, "turned_away": 1, "expired": 0, "tickets_open": 1,
            "hosts_active": 3, "offers_waiting": 0, "urls_waiting": 5, "urls_later": 4, "urls_parked": 6,
            "journal_bytes": 100, "commits": 12, "commit_ms_max": 1
        }))
        .unwrap();
        let text = text("single", Some(&stats), vec![gauge("nephila_node_ready", "Is nothing left?", 1)]);
        let (mut families, mut samples) = (BTreeSet::new(), 0);
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let help = line.strip_prefix("# HELP ").expect("a family begins with what it means");
            let (name, meaning) = help.split_once(' ').unwrap();
            assert!(families.insert(name.to_owned()) && !meaning.is_empty(), "{line}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            assert_eq!(kind == Some("counter"), name.ends_with("_total"), "{name}: {kind:?}");
            while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
                let (of, number) = sample.rsplit_once(' ').unwrap();
                assert!(of == name || of.starts_with(&format!("{name}{{")), "{sample}");
                number.parse::<u64>().unwrap();
                samples += 1;
            }
        }
        assert!(text.ends_with('\n') && families.len() >= 14 && samples >= families.len() + 2, "{text}");
        assert!(text.contains("nephila_frontier_urls{state=\"queued\"} 5\n"), "{text}");
        assert!(text.contains("nephila_frontier_tickets_total 8\n"), "{text}");
    }
}
