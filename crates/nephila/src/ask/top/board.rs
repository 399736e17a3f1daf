//! What `nephila top` shows: lines of text from two looks at the metrics.
//!
//! Invariant: no terminal and no clock here; a line has no more characters than the width, and texts from the metrics
//! (names of jobs) are shown without control characters.

use std::collections::BTreeMap;
use std::time::Duration;

use nephila_core::text::shown;

/// Maximum number of samples that are read from one process; further ones are left out.
const SAMPLES_MAX: usize = 20_000;
/// Maximum number of jobs that are shown.
const JOBS_MAX: usize = 8;
/// Width of a bar in characters.
const BAR: usize = 20;
/// A stage that is at least this full holds the crawl back.
const FULL: f64 = 0.9;

/// The samples of one look, summed over all processes that were asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Adds the metrics of a process, in the text format of Prometheus.
    pub(super) fn add(&mut self, text: &str) {
        let lines = text.lines().filter(|line| !line.starts_with('#')).take(SAMPLES_MAX);
        for (sample, value) in lines.filter_map(|line| line.rsplit_once(' ')) {
            if let Ok(value) = value.parse::<f64>() {
                *self.0.entry(sample.to_owned()).or_default() += value;
            }
        }
    }

    /// The sum over all samples of a family.
    fn sum(&self, family: &str) -> f64 {
        self.of(family).map(|(_, value)| value).sum()
    }

    /// The samples of a family with their labels.
    fn of(&self, family: &str) -> impl Iterator<Item = (&str, f64)> {
        let all = self.0.range(family.to_owned()..).take_while(move |(name, _)| name.starts_with(family));
        let whole = all.filter_map(move |(name, value)| Some((name.strip_prefix(family)?, *value)));
        whole.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'))
    }

    /// The value with one label.
    fn with(&self, family: &str, label: &str, value: &str) -> f64 {
        self.0.get(&format!("{family}{{{label}=\"{value}\"}}")).copied().unwrap_or(0.0)
    }

    /// Values by their only label.
    fn by_label(&self, family: &str) -> Vec<(String, f64)> {
        let label = |labels: &str| Some(labels.split('"').nth(1)?.to_owned());
        self.of(family).filter_map(|(labels, value)| Some((label(labels)?, value))).collect()
    }
}

/// Two looks, and the time between them.
pub(super) struct Looks<'a> {
    pub(super) now: &'a Samples,
    pub(super) before: &'a Samples,
    pub(super) between: Duration,
}

impl Looks<'_> {
    /// What was counted per second between the looks. A process that began anew counts from zero.
    fn rate(&self, of: impl Fn(&Samples) -> f64) -> f64 {
        let (now, before) = (of(self.now), of(self.before));
        let grown = if now < before { now } else { now - before };
        if self.between.is_zero() { 0.0 } else { grown / self.between.as_secs_f64() }
    }

    fn pages(&self) -> f64 {
        self.rate(|samples| samples.with("nephila_spider_fetches_total", "outcome", "2xx"))
    }

    /// What holds the crawl back, in words.
    fn limit(&self) -> String {
        let now = self.now;
        let hosts = |state| now.with("nephila_frontier_hosts", "state", state);
        if now.sum("nephila_store_waits_for_disk") > 0.0 {
            return "waits: the disk is full, or has too little room (crawl.disk_free_min)".into();
        }
        if let Some((stage, share)) = self.stages().into_iter().find(|(_, share)| *share >= FULL) {
            return format!("held back by the stage {stage}, which is {:.0} % full", share * 100.0);
        }
        let resting = hosts("resting") + hosts("backing_off");
        match (now.with("nephila_frontier_urls", "state", "queued"), hosts("ready"), resting) {
            (0.0, ..) => "nothing is queued".into(),
            (_, ready, resting) if ready > resting => {
                format!("held back by this machine: {} hosts are ready", whole(ready))
            }
            (_, _, resting) if resting > 0.0 => {
                format!("held back by politeness: {} hosts rest", whole(resting))
            }
            _ => "as fast as the hosts answer".into(),
        }
    }

    /// How full each stage is, in the order of a page's way.
    fn stages(&self) -> Vec<(&'static str, f64)> {
        let share = |stage| {
            let capacity = self.now.with("nephila_stage_queue_capacity", "stage", stage);
            let length = self.now.with("nephila_stage_queue_length", "stage", stage);
            if capacity > 0.0 { length / capacity } else { 0.0 }
        };
        // The last stage that is full is the slow one, and the earlier ones wait for it.
        ["offer", "store", "read", "fetch"].map(|stage| (stage, share(stage))).into()
    }

    /// One line for a reader that is no terminal.
    pub(super) fn line(&self) -> String {
        format!(
            "{:.1} pages/s, {}/s, {} queued, {} open, {} broken promises; {}",
            self.pages(),
            bytes(self.rate(|samples| samples.sum("nephila_spider_received_bytes_total"))),
            whole(self.now.with("nephila_frontier_urls", "state", "queued")),
            whole(self.now.sum("nephila_frontier_open_tickets")),
            whole(self.now.sum("nephila_politeness_violations_total")),
            self.limit()
        )
    }

    /// The whole board, for a terminal of this width.
    pub(super) fn board(&self, width: usize) -> Vec<String> {
        let mut lines = vec![self.line(), String::new()];
        lines.extend(self.outcomes());
        lines.extend(self.frontier());
        lines.extend(self.bars());
        lines.extend(self.politeness());
        lines.extend(self.archive());
        lines.extend(self.feeds());
        lines.extend(self.cluster());
        lines.extend(self.jobs());
        // Labels are texts of the process that answers.
        let safe = |line: String| shown(&line).to_string();
        lines.into_iter().map(|line| safe(line).chars().take(width).collect()).collect()
    }

    fn outcomes(&self) -> Vec<String> {
        let family = "nephila_spider_fetches_total";
        let all = self.now.by_label(family).into_iter().filter(|(_, count)| *count > 0.0);
        let one = |(outcome, count): (String, f64)| {
            let rate = self.rate(|samples| samples.with(family, "outcome", &outcome));
            format!("{outcome} {} ({rate:.1}/s)", whole(count))
        };
        vec![row("answers", all.map(one))]
    }

    fn frontier(&self) -> Vec<String> {
        let states = |family: &str, order: &[&str]| {
            let one = |state: &&str| format!("{state} {}", whole(self.now.with(family, "state", state)));
            order.iter().map(one).collect::<Vec<_>>()
        };
        let hosts = ["ready", "busy", "resting", "backing_off", "loading"];
        vec![
            row("URLs", states("nephila_frontier_urls", &["queued", "later", "parked"])),
            row("hosts", states("nephila_frontier_hosts", &hosts)),
        ]
    }

    fn bars(&self) -> Vec<String> {
        let bar = |(stage, share): (&str, f64)| {
            let marks = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
            row(stage, [format!("[{}{}] {:.0} %", "#".repeat(marks), ".".repeat(BAR - marks), share * 100.0)])
        };
        self.stages().into_iter().rev().map(bar).collect()
    }

    fn politeness(&self) -> Vec<String> {
        let now = self.now;
        let kinds = ["host", "slot"].map(|kind| {
            let broken = now.with("nephila_politeness_violations_total", "kind", kind);
            format!("{} broken for a {kind}", whole(broken))
        });
        let judged = format!("{} rests judged", whole(now.sum("nephila_politeness_gap_ratio_count")));
        let denied =
            format!("{} URLs forbidden by robots.txt", whole(now.sum("nephila_robots_denied_total")));
        vec![row("politeness", kinds.into_iter().chain([judged, denied]))]
    }

    fn archive(&self) -> Vec<String> {
        let now = self.now;
        let written = self.rate(|samples| samples.sum("nephila_store_written_bytes_total"));
        let mut parts = vec![
            format!("{}/s written", bytes(written)),
            format!("{} in all", bytes(now.sum("nephila_store_written_bytes_total"))),
            format!("{} free", bytes(now.sum("nephila_store_disk_free_bytes"))),
        ];
        let lag = now.sum("nephila_store_upload_lag_seconds");
        parts.extend((lag > 0.0).then(|| format!("a file waits for the upload since {} s", whole(lag))));
        vec![row("archive", parts)]
    }

    fn feeds(&self) -> Vec<String> {
        let health = self.now.by_label("nephila_handler_feeds").into_iter().filter(|(_, feeds)| *feeds > 0.0);
        let health: Vec<String> = health.map(|(name, feeds)| format!("{name} {}", whole(feeds))).collect();
        if health.is_empty() { Vec::new() } else { vec![row("feeds", health)] }
    }

    fn cluster(&self) -> Vec<String> {
        let now = self.now;
        if now.of("nephila_cluster_nodes").next().is_none() {
            return Vec::new();
        }
        let lag = now.sum("nephila_intake_lag_seconds");
        vec![row(
            "cluster",
            [
                format!("{} partitions here", whole(now.sum("nephila_partition_owned"))),
                format!("{} leases held", whole(now.sum("nephila_node_holds_lease"))),
                format!("links wait for {} s", whole(lag)),
            ],
        )]
    }

    fn jobs(&self) -> Vec<String> {
        let mut jobs: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for (labels, pages) in self.now.of("nephila_job_pages") {
            // The name of a job may have any character; the state is last.
            let Some((name, state)) = labels.trim_end_matches("\"}").rsplit_once("\",state=\"") else {
                continue;
            };
            let job = jobs.entry(name.trim_start_matches("{job=\"").to_owned()).or_default();
            job[usize::from(state == "queued")] += pages;
        }
        let one = |(name, [done, queued]): (String, [f64; 2])| {
            row("job", [format!("{name}: {} done, {} queued", whole(done), whole(queued))])
        };
        jobs.into_iter().take(JOBS_MAX).map(one).collect()
    }
}

fn row(name: &str, parts: impl IntoIterator<Item = String>) -> String {
    format!("{name:<11} {}", parts.into_iter().collect::<Vec<_>>().join("   "))
}

/// A count with separators: 12 345.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A size: 1.2 MB.
fn bytes(mut number: f64) -> String {
    for unit in ["B", "kB", "MB", "GB"] {
        if number < 1_000.0 {
            return format!("{number:.0} {unit}");
        }
        number /= 1_000.0;
    }
    format!("{number:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(text: &str) -> Samples {
        let mut samples = Samples::default();
        samples.add(text);
        samples
    }

    fn looks<'a>(before: &'a Samples, now: &'a Samples) -> Looks<'a> {
        Looks { now, before, between: Duration::from_secs(2) }
    }

    const BUSY: &str = "# HELP nephila_frontier_urls x\nnephila_frontier_urls{state=\"queued\"} 12345\n\
        nephila_frontier_hosts{state=\"ready\"} 1\nnephila_frontier_hosts{state=\"resting\"} 40\n\
        nephila_spider_fetches_total{outcome=\"2xx\"} 130\nnephila_spider_fetches_total{outcome=\"5xx\"} 2\n\
        nephila_stage_queue_length{stage=\"fetch\"} 32\nnephila_stage_queue_capacity{stage=\"fetch\"} 64\n\
        nephila_job_pages{job=\"a\\u{1b}[2J, \\\"b\\\"\",state=\"done\"} 7\n";

    #[test]
    fn the_first_line_says_how_fast_and_what_holds_the_crawl_back() {
        let before = samples("nephila_spider_fetches_total{outcome=\"2xx\"} 110\n");
        let now = samples(BUSY);
        let line = looks(&before, &now).line();
        assert!(line.starts_with("10.0 pages/s, 0 B/s, 12 345 queued"), "{line}");
        assert!(line.ends_with("held back by politeness: 40 hosts rest"), "{line}");
        for (more, words) in [
            ("nephila_store_waits_for_disk 1\n", "waits: the disk is full"),
            (
                "nephila_stage_queue_length{stage=\"store\"} 64\nnephila_stage_queue_capacity{stage=\"store\"} 64\n\
                 nephila_stage_queue_length{stage=\"fetch\"} 32\n",
                "held back by the stage store",
            ),
            ("nephila_frontier_hosts{state=\"ready\"} 99\n", "held back by this machine: 100 hosts"),
            ("nephila_frontier_urls{state=\"queued\"} -12345\n", "nothing is queued"),
        ] {
            let mut now = samples(BUSY);
            now.add(more);
            let line = looks(&before, &now).line();
            assert!(line.contains(words), "{line}");
        }
    }

    #[test]
    fn the_numbers_of_several_nodes_are_added_and_a_new_process_counts_from_zero() {
        let mut now = samples(BUSY);
        now.add(BUSY);
        let before = samples("nephila_spider_fetches_total{outcome=\"2xx\"} 5000\n");
        let line = looks(&before, &now).line();
        assert!(line.starts_with("130.0 pages/s, 0 B/s, 24 690 queued"), "{line}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_hostile_names_are_harmless() {
        let now = samples(&BUSY.replace("\\u{1b}", "\u{1b}"));
        for width in [0, 20, 80, 500] {
            let lines = looks(&Samples::default(), &now).board(width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            assert!(lines.iter().all(|line| !line.contains('\u{1b}')), "{lines:?}");
        }
        let board = looks(&Samples::default(), &now).board(200).join("\n");
        for words in ["5xx 2 (1.0/s)", "resting 40", "[##########..........] 50 %", "7 done, 0 queued"] {
            assert!(board.contains(words), "{words} in\n{board}");
        }
        assert!(!board.contains("feeds") && !board.contains("cluster"), "{board}");
    }
}
