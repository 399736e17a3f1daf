//! `GET /metrics`: metrics of a process in the Prometheus text format.
//!
//! Names, types and labels are a contract: see `docs/metrics.md`.
//!
//! Invariants: each family appears once, with help text and type; labels are from closed sets and the names of jobs,
//! never a host or a URL; counters start at zero with the process (on a node: with its session) and only grow.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::StatusCode;
use nephila_core::frontier::views::Standings;
use nephila_core::job::JobId;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::work::is_page;
use nephila_engine::folder::disk_free;
use nephila_engine::metrics::{BOUNDS_MS, Durations};
use nephila_engine::worker::{Handle, Stats, Stopped};

use super::http::{HttpAnswer, reply};

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
fn counter(name: &'static str, help: &'static str, value: u64) -> Family {
    Family { kind: "counter", ..gauge(name, help, value) }
}

/// Captures that clients read, by where they came from: [`super::captures::Archive::cache_counts`].
pub fn of_cache([hits, misses]: [u64; 2]) -> Family {
    let help = "Captures that clients read: hit from memory, miss from the archive.";
    by("counter", ("nephila_api_cache_reads_total", "result"), help, [("hit", hits), ("miss", misses)])
}

/// A family with one label.
fn by(
    kind: &'static str,
    (name, label): (&'static str, &'static str),
    help: &'static str,
    values: impl IntoIterator<Item = (&'static str, u64)>,
) -> Family {
    let sample = |(value, number)| Sample::new(format!("{{{label}=\"{value}\"}}"), number);
    Family { name, kind, help, samples: values.into_iter().map(sample).collect() }
}

/// A histogram in seconds. `label` is a whole label, or empty.
fn histogram(name: &'static str, help: &'static str, label: &str, durations: &Durations) -> Family {
    let seconds = |ms: u64| format!("{}", ms as f64 / 1_000.0);
    let comma = if label.is_empty() { "" } else { "," };
    let braced = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let bounds = BOUNDS_MS.iter().map(|bound| seconds(*bound)).chain(["+Inf".to_owned()]);
    let mut count = 0;
    let mut samples: Vec<Sample> = bounds
        .zip(durations.counts)
        .map(|(bound, number)| {
            count += number;
            let labels = format!("{{{label}{comma}le=\"{bound}\"}}");
            Sample { suffix: "_bucket", labels, value: count.to_string() }
        })
        .collect();
    samples.push(Sample { suffix: "_sum", labels: braced.clone(), value: seconds(durations.sum_ms) });
    samples.push(Sample { suffix: "_count", labels: braced, value: count.to_string() });
    Family { name, kind: "histogram", help, samples }
}

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The metric families of the frontier and of its log.
fn of_frontier(stats: &Stats, standings: Standings) -> Vec<Family> {
    let (frontier, gauges, totals) = (&stats.frontier, stats.gauges, &stats.totals);
    let sifted = frontier.sifted;
    let intake = [
        ("link", "accepted", sifted.queued),
        ("link", "repeated", sifted.known + frontier.recent),
        ("link", "parked", sifted.parked),
        ("link", "rejected", sifted.refused),
        ("reflog", "accepted", sifted.streamed.saturating_sub(sifted.suppressed)),
        ("reflog", "repeated", sifted.suppressed),
    ];
    let intake = intake.map(|(source, verdict, number)| {
        Sample::new(format!("{{source=\"{source}\",verdict=\"{verdict}\"}}"), number)
    });
    let hosts = [
        ("ready", standings.ready),
        ("busy", standings.busy),
        ("resting", standings.resting),
        ("backing_off", standings.backing_off),
        ("loading", standings.loading),
    ];
    vec![
        Family {
            name: "nephila_intake_urls_total",
            kind: "counter",
            help: "URLs offered to the frontier, by source and verdict.",
            samples: intake.into(),
        },
        gauge(
            "nephila_intake_waiting_urls",
            "URLs offered and not looked at yet.",
            number(gauges.offers_waiting),
        ),
        by(
            "gauge",
            ("nephila_frontier_urls", "state"),
            "URLs known and not fetched, by state.",
            [("queued", totals.waiting), ("later", totals.later), ("parked", totals.parked)],
        ),
        by(
            "gauge",
            ("nephila_frontier_hosts", "state"),
            "Hosts in memory, by state.",
            hosts.map(|(state, hosts)| (state, number(hosts))),
        ),
        by(
            "gauge",
            ("nephila_frontier_slots", "state"),
            "Addresses with at least one host in memory, by state.",
            [("busy", number(standings.slots_busy)), ("idle", number(standings.slots_idle))],
        ),
        gauge(
            "nephila_frontier_open_tickets",
            "Tickets handed out and not yet reported.",
            number(gauges.tickets_open),
        ),
        counter(
            "nephila_frontier_tickets_total",
            "Tickets for pages that were handed out.",
            frontier.tickets,
        ),
        counter("nephila_frontier_ended_total", "Tickets for pages that were reported.", frontier.ended),
        counter(
            "nephila_frontier_turned_away_total",
            "URLs ended before a request: robots.txt, no address, a stopped job.",
            frontier.turned_away,
        ),
        counter(
            "nephila_frontier_expired_tickets_total",
            "Tickets given out again because no report came.",
            frontier.expired,
        ),
        counter(
            "nephila_robots_denied_total",
            "URLs that a robots.txt forbids to fetch.",
            frontier.robots_denied,
        ),
        gauge("nephila_partition_owned", "Partitions this node works on.", number(stats.partitions)),
        histogram(
            "nephila_log_append_duration_seconds",
            "Time until an append was durable.",
            "",
            &stats.commit_took,
        ),
        gauge("nephila_log_bytes", "Bytes of the journals of this machine.", stats.journal_bytes),
        counter("nephila_log_commits_total", "Times when something became durable.", stats.commits),
        gauge(
            "nephila_process_tasks",
            "Tasks that are alive.",
            number(tokio::runtime::Handle::current().metrics().num_alive_tasks()),
        ),
    ]
}

/// The metric families of the stages behind the frontier, and of the jobs.
fn of_stages(shared: &Shared, stats: &Stats) -> Vec<Family> {
    let (counts, metrics) = (&shared.counts, &shared.counts.metrics);
    let get = |count: &AtomicU64| count.load(Relaxed);
    let stages = shared.room.stages();
    let jobs = stats.totals.tally.keys().chain(stats.totals.open.keys());
    let jobs: std::collections::BTreeSet<u32> = jobs.copied().collect();
    let pages =
        jobs.into_iter().filter_map(|id| Some((id, shared.jobs.get(JobId(id))?))).flat_map(|(id, job)| {
            let done = stats.totals.tally.get(&id).map_or(0, |tally| tally.ended_as(is_page));
            let open = stats.totals.open.get(&id).copied().unwrap_or(0);
            let name = job.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let of = |state, pages| Sample::new(format!("{{job=\"{name}\",state=\"{state}\"}}"), pages);
            [of("done", done), of("queued", open)]
        });
    let mut families = vec![
        by(
            "counter",
            ("nephila_intake_rejected_urls_total", "reason"),
            "Links not queued, by the rule that decided.",
            [("scope", get(&counts.links_out)), ("trap", get(&counts.links_traps))],
        ),
        by(
            "counter",
            ("nephila_robots_fetches_total", "result"),
            "robots.txt fetches, by result as RFC 9309 sees it.",
            metrics.robots.get(),
        ),
        by(
            "counter",
            ("nephila_spider_fetches_total", "outcome"),
            "Finished tickets for pages, by outcome.",
            metrics.fetches.get(),
        ),
        histogram(
            "nephila_spider_fetch_duration_seconds",
            "From the request to the last byte.",
            "phase=\"total\"",
            &metrics.fetch_took.get(),
        ),
        counter("nephila_spider_received_bytes_total", "Bytes of bodies received.", get(&counts.bytes)),
        by(
            "counter",
            ("nephila_store_records_total", "type"),
            "WARC records of answers written, by type.",
            metrics.records.get(),
        ),
        counter(
            "nephila_store_written_bytes_total",
            "Bytes of these records after compression.",
            get(&metrics.written_bytes),
        ),
        counter(
            "nephila_store_saved_bytes_total",
            "Payload bytes not written thanks to revisit records.",
            get(&counts.revisit_bytes),
        ),
        by(
            "counter",
            ("nephila_handler_discoveries_total", "kind"),
            "Links, sitemap and feed entries found, by kind.",
            metrics.discoveries.get(),
        ),
        counter("nephila_handler_stories_total", "New stories found in feeds.", get(&metrics.stories)),
        by(
            "gauge",
            ("nephila_stage_queue_length", "stage"),
            "Entries in each stage; the fullest one names the slow stage.",
            stages.map(|(stage, taken, _)| (stage, number(taken))),
        ),
        by(
            "gauge",
            ("nephila_stage_queue_capacity", "stage"),
            "Capacity of the same stage.",
            stages.map(|(stage, _, all)| (stage, number(all))),
        ),
        Family {
            name: "nephila_job_pages",
            kind: "gauge",
            help: "Pages of a job on the partitions of this process, by state.",
            samples: pages.collect(),
        },
    ];
    // Some file systems do not say.
    if let Ok(free) = disk_free(shared.folder.dir()) {
        families.push(gauge(
            "nephila_store_disk_free_bytes",
            "Free bytes on the volume of the crawl folder.",
            free,
        ));
    }
    families
}

/// All metric families of a crawl.
pub async fn of_crawl(handle: &Handle, shared: Option<&Shared>) -> Result<Vec<Family>, Stopped> {
    let (stats, standings) = (handle.stats().await?, handle.standings().await?);
    let mut families = of_frontier(&stats, standings);
    families.extend(shared.into_iter().flat_map(|shared| of_stages(shared, &stats)));
    Ok(families)
}

/// The answer. `mode` is `single` or `cluster`.
pub fn answer(mode: &str, families: Vec<Family>) -> HttpAnswer {
    reply(StatusCode::OK, CONTENT_TYPE, text(mode, families))
}

fn text(mode: &str, families: Vec<Family>) -> String {
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
