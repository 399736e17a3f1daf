//! The metric families of a crawl, from the counters of its stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use nephila_core::frontier::views::Standings;
use nephila_core::job::JobId;
use nephila_core::time::Timestamp;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::stage::{FetchMeasured, RemoteUrls};
use nephila_engine::crawl::work::is_page;
use nephila_engine::folder::disk_free;
use nephila_engine::worker::{Handle, Stats, Stopped};
use nephila_spider::Connections;

use super::{Family, Sample, by, counter, gauge, histogram, histograms};
use crate::webhooks;

/// Captures that clients read, by where they came from: [`crate::captures::Archive::cache_counts`].
pub fn of_cache([hits, misses]: [u64; 2]) -> Family {
    let help = "Captures that clients read: hit from memory, miss from the archive.";
    by("counter", ("nephila_api_cache_reads_total", "result"), help, [("hit", hits), ("miss", misses)])
}

/// The metric families of the webhooks; none without a webhook.
pub fn of_webhooks(webhooks: &[Arc<webhooks::Seen>], now: Timestamp) -> Vec<Family> {
    if webhooks.is_empty() {
        return Vec::new();
    }
    let of = |name, kind, help, value: fn(&webhooks::Seen, Timestamp) -> u64| {
        let sample = |webhook: &Arc<webhooks::Seen>| {
            Sample::new(format!("{{webhook=\"{}\"}}", webhook.name()), value(webhook, now))
        };
        Family { name, kind, help, samples: webhooks.iter().map(sample).collect() }
    };
    let deliveries = webhooks.iter().flat_map(|webhook| {
        let sample = |(result, number)| {
            Sample::new(format!("{{webhook=\"{}\",result=\"{result}\"}}", webhook.name()), number)
        };
        webhook.deliveries().map(sample)
    });
    vec![
        Family {
            name: "nephila_webhook_deliveries_total",
            kind: "counter",
            help: "Deliveries to webhooks that ended, by result.",
            samples: deliveries.collect(),
        },
        of(
            "nephila_webhook_events_total",
            "counter",
            "Events that the receiver of a webhook has accepted.",
            |webhook, _| webhook.events(),
        ),
        of(
            "nephila_webhook_lag_seconds",
            "gauge",
            "Age of the oldest event that was read for a webhook and is not accepted.",
            webhooks::Seen::lag_s,
        ),
        of(
            "nephila_webhook_failing_seconds",
            "gauge",
            "Time for which every attempt of a webhook failed; 0 after a success.",
            webhooks::Seen::failing_s,
        ),
        of(
            "nephila_webhook_gone",
            "gauge",
            "Whether the receiver of a webhook said that its URL is gone (410).",
            |webhook, _| u64::from(webhook.is_gone()),
        ),
    ]
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
        histogram(
            "nephila_frontier_ready_wait_seconds",
            "How long hosts that had rested waited for a free place among the requests.",
            "",
            &frontier.ready_wait.get(),
        ),
        gauge("nephila_partition_owned", "Partitions this node works on.", number(stats.partitions)),
        histogram(
            "nephila_log_append_duration_seconds",
            "Time until an append was durable.",
            "",
            &stats.commit_took.get(),
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
    let is = |flag: &AtomicBool| flag.load(Relaxed);
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
    let phases = metrics.phases.get().into_iter().chain([("total", metrics.fetch_took.get())]);
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
        histograms(
            "nephila_spider_fetch_duration_seconds",
            "Time of page fetches, by phase; total is from the request to the last byte.",
            1_000.0,
            phases.map(|(phase, took)| (format!("phase=\"{phase}\""), took)),
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
    families.push(gauge(
        "nephila_store_waits_for_disk",
        "Whether the crawl waits because the disk is full, or has less space than crawl.disk_free_min.",
        u64::from(stats.disk_full || is(&counts.disk_full) || is(&counts.disk_low)),
    ));
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

/// The metric families of politeness and of feeds.
fn of_conduct(shared: &Shared) -> Vec<Family> {
    let metrics = &shared.counts.metrics;
    let mut families = vec![
        by(
            "counter",
            ("nephila_politeness_violations_total", "kind"),
            "Requests that began before their host or address had rested, or beside too many others.",
            metrics.politeness.violations.get(),
        ),
        histograms(
            "nephila_politeness_gap_ratio",
            "Rest of a host before a request, divided by the promised rest; below 1 is a violation.",
            100.0,
            [(String::new(), metrics.politeness.ratios.get())],
        ),
        histogram(
            "nephila_handler_story_delay_seconds",
            "From the publication date of a story in a feed to the fetch of its page.",
            "",
            &metrics.story_delay.delay.get(),
        ),
    ];
    families.extend(metrics.feeds.get().map(|feeds| {
        by("gauge", ("nephila_handler_feeds", "health"), "Feeds by health, counted once a minute.", feeds)
    }));
    families
}

/// The metric families of the fetching stage: connections, lookups, remote spiders.
fn of_fetch(shared: &Shared) -> Vec<Family> {
    let fetch = shared.fetch();
    let mut families = Vec::new();
    if let Some(FetchMeasured { connections: Connections { busy, idle }, lookups }) = fetch.measured() {
        let states = [("h1", "busy", busy[0]), ("h1", "idle", idle[0]), ("h2", "busy", busy[1])];
        let states = states.into_iter().chain([("h2", "idle", idle[1])]);
        let sample = |(protocol, state, count)| {
            Sample::new(format!("{{protocol=\"{protocol}\",state=\"{state}\"}}"), number(count))
        };
        families.push(Family {
            name: "nephila_spider_connections",
            kind: "gauge",
            help: "Open connections to sites, by protocol and state.",
            samples: states.map(sample).collect(),
        });
        families.push(histogram(
            "nephila_spider_dns_duration_seconds",
            "Time of name lookups that were not answered from memory.",
            "",
            &lookups,
        ));
    }
    let Some(urls) = fetch.remote_urls() else { return families };
    let RemoteUrls { sent, fetched, lost, cancelled, refused, open, connected } = urls;
    let ends = [("fetched", fetched), ("lost", lost), ("cancelled", cancelled), ("refused", refused)];
    families.extend([
        counter("nephila_spider_remote_sent_total", "URLs sent to remote spiders.", sent),
        by(
            "counter",
            ("nephila_spider_remote_urls_total", "end"),
            "URLs for remote spiders that ended, by how they ended.",
            ends,
        ),
        gauge("nephila_spider_remote_open_urls", "URLs at remote spiders, or waiting for one.", number(open)),
        gauge("nephila_spider_remote_connected", "Remote spiders that are connected.", number(connected)),
    ]);
    families
}

/// The metric family of the traces, if there are any.
fn of_traces(shared: &Shared) -> Option<Family> {
    let help = "Spans of sampled tickets, by result.";
    let counts = shared.traces.counts()?;
    Some(by("counter", ("nephila_traces_spans_total", "result"), help, counts))
}

/// All metric families of a crawl.
pub async fn of_crawl(handle: &Handle, shared: Option<&Shared>) -> Result<Vec<Family>, Stopped> {
    let (stats, standings) = (handle.stats().await?, handle.standings().await?);
    let mut families = of_frontier(&stats, standings);
    if let Some(shared) = shared {
        families.extend(of_stages(shared, &stats));
        families.extend(of_conduct(shared));
        families.extend(of_fetch(shared));
        families.extend(of_traces(shared));
    }
    Ok(families)
}

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
