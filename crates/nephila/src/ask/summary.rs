//! Totals of the whole log, computed in one pass and bounded memory.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;

use nephila_core::spider::Outcome;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use serde::Serialize;

use super::time;
use nephila_api::log_view::Filter;
use nephila_engine::log::{Counted, Lines, Purpose};

/// Maximum number of distinct hosts.
const HOSTS_MAX: usize = 1_000_000;
/// Maximum number of distinct outcomes and classes; our own logs have few.
const NAMES_MAX: usize = 10_000;

/// Totals of a log.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    pub(super) requests: u64,
    /// Fetched pages: documents for people.
    pub(super) pages: u64,
    /// Sitemaps and feeds.
    pub(super) lists: u64,
    /// Images, styles, scripts and everything else fetched.
    pub(super) files: u64,
    /// Bodies cut at a size limit.
    pub(super) cut: u64,
    pub(super) robots: u64,
    /// URLs rejected before anything was sent.
    pub(super) turned_away: u64,
    pub(super) hosts: u64,
    pub(super) addresses: u64,
    pub(super) bytes: u64,
    pub(super) responses: u64,
    pub(super) revisits: u64,
    pub(super) first: Option<String>,
    pub(super) last: Option<String>,
    pub(super) span_ms: u64,
    pub(super) pages_per_second: f64,
    pub(super) links_wanted: u64,
    pub(super) links_out: u64,
    pub(super) links_traps: u64,
    pub(super) classes: BTreeMap<String, u64>,
    pub(super) outcomes: BTreeMap<String, u64>,
    pub(super) skipped: u64,
    /// Whether there were more hosts than the bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) hosts_cut: bool,
}

impl Summary {
    pub(super) fn read(logs: &Path, filter: &Filter) -> anyhow::Result<Summary> {
        let mut summary = Summary::default();
        let hasher = RandomState::new();
        let (mut hosts, mut addresses) = (HashSet::new(), HashSet::new());
        let (mut first, mut last) = (u64::MAX, 0);
        let mut lines = Lines::of(logs)?;
        for line in lines.by_ref() {
            let line = line?;
            if !filter.takes(&line) {
                continue;
            }
            first = first.min(line.at);
            last = last.max(line.ended().0);
            let key = hasher.hash_one(&line.origin);
            if hosts.len() < HOSTS_MAX {
                hosts.insert(key);
            } else {
                summary.hosts_cut |= !hosts.contains(&key);
            }
            match line.address {
                Some(address) if addresses.len() < HOSTS_MAX => _ = addresses.insert(address),
                Some(_) => {}
                None => summary.turned_away += u64::from(line.status.is_none() && line.class == "refused"),
            }
            summary.requests += 1;
            match line.purpose {
                Purpose::Robots => summary.robots += 1,
                Purpose::Head => {}
                Purpose::Page => {
                    match line.counted() {
                        Some(Counted::Page) => summary.pages += 1,
                        Some(Counted::List) => summary.lists += 1,
                        Some(Counted::File) => summary.files += 1,
                        None => {}
                    }
                    summary.cut += u64::from(line.outcome == Outcome::CutLength.name());
                    for (map, name) in
                        [(&mut summary.classes, line.class), (&mut summary.outcomes, line.outcome)]
                    {
                        if map.len() < NAMES_MAX || map.contains_key(&name) {
                            *map.entry(name).or_default() += 1;
                        }
                    }
                }
            }
            summary.bytes += line.bytes;
            if let Some(warc) = &line.warc {
                match warc.kind.as_str() {
                    "response" | "resource" => summary.responses += 1,
                    _ => summary.revisits += 1,
                }
            }
            if let Some(links) = line.links {
                summary.links_wanted += u64::from(links.wanted);
                summary.links_out += u64::from(links.out);
                summary.links_traps += u64::from(links.traps);
            }
        }
        summary.hosts = hosts.len() as u64;
        summary.addresses = addresses.len() as u64;
        summary.skipped = lines.skipped();
        if summary.requests > 0 {
            summary.first = Some(Timestamp(first).warc_date());
            summary.last = Some(Timestamp(last).warc_date());
            summary.span_ms = last - first;
            let pages = summary.pages as f64 * 1_000.0 / summary.span_ms.max(1) as f64;
            summary.pages_per_second = (pages * 1_000.0).round() / 1_000.0;
        }
        Ok(summary)
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Some((first, last)) = self.first.as_ref().zip(self.last.as_ref()) else {
            return writeln!(out, "the log is empty: nothing was asked for yet");
        };
        writeln!(
            out,
            "{} pages{}{} from {}{} hosts at {} addresses, {} robots.txt",
            self.pages,
            also(self.lists, "sitemaps and feeds"),
            also(self.files, "images and other files"),
            if self.hosts_cut { "more than " } else { "" },
            self.hosts,
            self.addresses,
            self.robots
        )?;
        writeln!(out, "{first} to {last}: {}, {} pages/s", time::span(self.span_ms), self.pages_per_second)?;
        writeln!(
            out,
            "{} received, {} responses and {} revisits stored",
            time::size(self.bytes),
            self.responses,
            self.revisits
        )?;
        writeln!(
            out,
            "links: {} wanted, {} out of scope, {} traps",
            self.links_wanted, self.links_out, self.links_traps
        )?;
        if self.cut > 0 {
            writeln!(out, "{} bodies cut at a size limit: spider.body_bytes_max", self.cut)?;
        }
        let mut outcomes: Vec<_> = self.outcomes.iter().collect();
        outcomes.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        for (outcome, count) in outcomes {
            writeln!(out, "  {count:>10}  {}", shown(outcome))?;
        }
        if self.skipped > 0 {
            writeln!(out, "{} lines of the log cannot be read", self.skipped)?;
        }
        Ok(())
    }
}

/// A further count for a line of the output, empty for zero.
fn also(count: u64, what: &str) -> String {
    if count > 0 { format!(", {count} {what}") } else { String::new() }
}
