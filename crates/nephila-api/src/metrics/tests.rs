//! The served text against the format and against the contract of names, types and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nephila_core::job::{Job, JobId};
use nephila_core::spider::Outcome;
use nephila_engine::crawl::shared::{Shared, Tools};
use nephila_engine::folder::{Folder, Plan};
use nephila_engine::metrics::politeness::Promise;
use nephila_engine::settings::Settings;

use super::*;

/// The families of the contract: name, type, labels. A family that is not served is named in `docs/metrics.md`.
const CONTRACT: &[(&str, &str, &[&str])] = &[
    ("nephila_build_info", "gauge", &["version", "revision", "mode"]),
    ("nephila_intake_urls_total", "counter", &["source", "verdict"]),
    ("nephila_intake_rejected_urls_total", "counter", &["reason"]),
    ("nephila_intake_lag_seconds", "gauge", &[]),
    ("nephila_frontier_urls", "gauge", &["state"]),
    ("nephila_frontier_hosts", "gauge", &["state"]),
    ("nephila_frontier_slots", "gauge", &["state"]),
    ("nephila_frontier_open_tickets", "gauge", &[]),
    ("nephila_frontier_expired_tickets_total", "counter", &[]),
    ("nephila_frontier_ready_wait_seconds", "histogram", &[]),
    ("nephila_politeness_violations_total", "counter", &["kind"]),
    ("nephila_politeness_gap_ratio", "histogram", &[]),
    ("nephila_robots_fetches_total", "counter", &["result"]),
    ("nephila_robots_denied_total", "counter", &[]),
    ("nephila_spider_fetches_total", "counter", &["outcome"]),
    ("nephila_spider_fetch_duration_seconds", "histogram", &["phase"]),
    ("nephila_spider_received_bytes_total", "counter", &[]),
    ("nephila_spider_connections", "gauge", &["protocol", "state"]),
    ("nephila_spider_dns_duration_seconds", "histogram", &[]),
    ("nephila_store_records_total", "counter", &["type"]),
    ("nephila_store_written_bytes_total", "counter", &[]),
    ("nephila_store_saved_bytes_total", "counter", &[]),
    ("nephila_store_upload_lag_seconds", "gauge", &[]),
    ("nephila_store_disk_free_bytes", "gauge", &[]),
    ("nephila_handler_discoveries_total", "counter", &["kind"]),
    ("nephila_handler_feeds", "gauge", &["health"]),
    ("nephila_handler_stories_total", "counter", &[]),
    ("nephila_handler_story_delay_seconds", "histogram", &[]),
    ("nephila_stage_queue_length", "gauge", &["stage"]),
    ("nephila_stage_queue_capacity", "gauge", &["stage"]),
    ("nephila_partition_owned", "gauge", &[]),
    ("nephila_partition_moves_total", "counter", &["reason"]),
    ("nephila_partition_takeover_duration_seconds", "histogram", &[]),
    ("nephila_log_append_duration_seconds", "histogram", &[]),
    ("nephila_job_pages", "gauge", &["job", "state"]),
    ("nephila_api_request_duration_seconds", "histogram", &["route", "status"]),
];

/// The text of a crawl that has not begun.
async fn served(dir: &std::path::Path) -> (Arc<Shared>, String) {
    served_with(dir, Settings::default()).await
}

/// The text of a crawl with these settings that has not begun.
async fn served_with(dir: &std::path::Path, settings: Settings) -> (Arc<Shared>, String) {
    let folder = Folder::new(dir);
    std::fs::create_dir_all(folder.state()).unwrap();
    let plan = Plan::of(Job::new(JobId(1), "press"));
    folder.set_plan(&plan).unwrap();
    let running = nephila_engine::wire::worker(&folder, &settings, false).unwrap();
    let (log, _) = nephila_engine::log::Writer::open(&folder.logs()).unwrap();
    let fetch = Arc::new(nephila_engine::wire::spider(&settings).unwrap());
    let tools = Tools { handle: running.handle, fetch, keep: None, log };
    let shared = Arc::new(Shared::new(settings, folder, plan, tools).unwrap());
    shared.counts.ended(Outcome::Fetched, 70);
    shared.counts.ended(Outcome::DnsNxdomain, 0);
    shared.counts.metrics.fetch_took.add(300);
    let promise = |seconds| Promise { rest: std::time::Duration::from_secs(seconds), connections: 1 };
    for _ in 0..2 {
        let politeness = &shared.counts.metrics.politeness;
        politeness.begin("http://a.test", [192, 0, 2, 1].into(), promise(60), promise(0)).ended(true);
    }
    nephila_engine::crawl::begin(&shared).await.unwrap();
    let seed = shared.seed("http://a.test/").unwrap();
    shared.handle.offer_durably(&[seed]).await.unwrap();
    nephila_engine::crawl::feed_health::count(&shared).await.unwrap();
    let families = of_crawl(&shared.handle, Some(&shared)).await.unwrap();
    (shared, text("single", families))
}

/// The labels of a sample, without the bound of a bucket.
fn labels(sample: &str) -> Vec<&str> {
    let inside = sample.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
    let names = inside.split(',').filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
    names.filter(|name| *name != "le").collect()
}

#[tokio::test]
async fn ops_04_metrics_are_what_prometheus_reads() {
    let dir = tempfile::tempdir().unwrap();
    let (_shared, text) = served(dir.path()).await;
    let contract: BTreeMap<_, _> =
        CONTRACT.iter().map(|(name, kind, labels)| (*name, (*kind, *labels))).collect();
    let (mut families, mut samples) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").expect("a family begins with what it means");
        let (name, meaning) = help.split_once(' ').unwrap();
        assert!(families.insert(name.to_owned()) && !meaning.is_empty(), "{line}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let kind =
            lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("a type");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}: {kind}");
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let (of, number) = sample.rsplit_once(' ').unwrap();
            let full = of.split('{').next().unwrap();
            let suffix = full.strip_prefix(name).unwrap_or_else(|| panic!("{sample}"));
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{sample}");
            assert!(samples.insert(of.to_owned()), "twice: {sample}");
            number.parse::<f64>().unwrap();
            if let Some((as_agreed, agreed)) = contract.get(name) {
                assert_eq!((*as_agreed, *agreed), (kind, &*labels(of)), "{sample}");
            }
        }
    }
    assert!(text.ends_with('\n'), "{text}");
    let served = contract.keys().filter(|name| families.contains(**name)).count();
    // Four are of a node in a cluster alone, and one of a server of the API (`times`).
    assert_eq!(served, 31, "of the contract: {families:?}");
}

#[tokio::test]
async fn spans_are_counted_where_tickets_are_traced_and_nowhere_else() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut settings = Settings::default();
    settings.traces.to = "http://127.0.0.1:1/v1/traces".into();
    let (_shared, text) = served_with(dir.path(), settings).await;
    for result in ["sent", "dropped", "failed"] {
        let line = format!("nephila_traces_spans_total{{result=\"{result}\"}} 0\n");
        assert!(text.contains(&line), "{text}");
    }
    let (_shared, text) = served(other.path()).await;
    assert!(!text.contains("nephila_traces"), "{text}");
}

#[tokio::test]
async fn ops_04_counters_and_buckets_have_the_numbers_of_the_crawl() {
    let dir = tempfile::tempdir().unwrap();
    let (_shared, text) = served(dir.path()).await;
    for line in [
        "nephila_spider_fetches_total{outcome=\"2xx\"} 1",
        "nephila_spider_fetches_total{outcome=\"dns\"} 1",
        "nephila_spider_fetches_total{outcome=\"5xx\"} 0",
        "nephila_spider_received_bytes_total 70",
        "nephila_spider_fetch_duration_seconds_bucket{phase=\"total\",le=\"0.25\"} 0",
        "nephila_spider_fetch_duration_seconds_bucket{phase=\"total\",le=\"0.5\"} 1",
        "nephila_spider_fetch_duration_seconds_bucket{phase=\"total\",le=\"+Inf\"} 1",
        "nephila_spider_fetch_duration_seconds_sum{phase=\"total\"} 0.3",
        "nephila_spider_fetch_duration_seconds_count{phase=\"total\"} 1",
        "nephila_intake_urls_total{source=\"link\",verdict=\"accepted\"} 1",
        "nephila_stage_queue_length{stage=\"read\"} 0",
        "nephila_stage_queue_capacity{stage=\"read\"} 64",
        "nephila_job_pages{job=\"press\",state=\"queued\"} 1",
        "nephila_politeness_violations_total{kind=\"host\"} 1",
        "nephila_politeness_violations_total{kind=\"slot\"} 0",
        "nephila_politeness_gap_ratio_bucket{le=\"0.99\"} 1",
        "nephila_politeness_gap_ratio_bucket{le=\"1\"} 1",
        "nephila_politeness_gap_ratio_count 1",
        "nephila_handler_feeds{health=\"not-a-feed\"} 0",
        "nephila_handler_story_delay_seconds_bucket{le=\"3600\"} 0",
        "nephila_spider_connections{protocol=\"h2\",state=\"idle\"} 0",
        "nephila_spider_dns_duration_seconds_count 0",
        "nephila_spider_fetch_duration_seconds_count{phase=\"tls\"} 0",
        "nephila_store_waits_for_disk 0",
    ] {
        assert!(text.lines().any(|said| said == line), "{line} in\n{text}");
    }
}
