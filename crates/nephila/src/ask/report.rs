//! `nephila report` and `nephila stats`: aggregates of a crawl's log, computed in one pass.
//!
//! Invariant: memory is bounded. At most [`KEYS_MAX`] hosts, types, pages or bodies are distinguished; further ones are
//! counted together, and the report says so.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use nephila_core::text::shown;
use nephila_core::url::CrawlUrl;
use nephila_store::captures::Captures;

use super::summary::Summary;
use super::{out, print_json, time};
use crate::cli::ask::{ReportArgs, StatsArgs, TableFormat, What};
use crate::table::{Column, Table};
use nephila_api::StatsView;
use nephila_api::log_view::Filter;
use nephila_cluster::views::NodeSaid;
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::log::{Line, Lines, Purpose};
use nephila_engine::process::{block_on, small_runtime};

mod links;
mod near;

/// Maximum number of distinct hosts, types, pages or bodies in a report.
const KEYS_MAX: usize = 1_000_000;
/// Maximum number of distinct URLs in the report on duplicates.
const URLS_MAX: usize = 8_000_000;
/// Maximum number of examples in a row.
const EXAMPLES_MAX: usize = 3;

/// `nephila report`.
pub(super) fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    if !folder.logs().is_dir() {
        folder.expect_crawl_or_node()?;
    }
    let format = if args.place.json { TableFormat::Json } else { args.format };
    let filter = Filter::of_host(args.host.as_deref());
    let mut report = Report {
        logs: folder.logs(),
        filter,
        format,
        limit: args.limit.unwrap_or(usize::MAX),
        out: Box::new(out()),
        captures: folder.archive().is_dir().then(|| Captures::new(folder.dir())),
        tables: folder.archive().is_dir().then(|| nephila_tables::Folder::new(folder.dir(), None)),
        beyond: 0,
        skipped: 0,
    };
    let exit = match args.what {
        What::Summary => report.summary()?,
        What::Hosts => report.hosts()?,
        What::Types => report.types()?,
        What::Redirects => report.redirects()?,
        What::Links => report.links(args.broken)?,
        What::Orphans => report.orphans()?,
        What::Duplicates => report.duplicates()?,
        What::NearDuplicates => report.near_duplicates()?,
        What::Seeds => {
            if folder.is_node() {
                anyhow::bail!(
                    "the seeds of a cluster's jobs are not in a node's folder: see `nephila job show`"
                );
            }
            folder.expect_crawl()?;
            let seeds = folder.plan()?.map(|plan| plan.job.scope.seeds).unwrap_or_default();
            report.seeds(&seeds)?
        }
        What::Traps => report.traps()?,
    };
    report.out.flush()?;
    if report.beyond > 0 {
        eprintln!(
            "nephila: more than {KEYS_MAX} different ones: {} lines are not in this table; narrow it with --host",
            report.beyond
        );
    }
    if report.skipped > 0 {
        eprintln!("nephila: {} lines of the log cannot be read and were skipped", report.skipped);
    }
    Ok(exit)
}

/// `nephila stats`.
pub(super) fn stats(args: &StatsArgs) -> anyhow::Result<Exit> {
    if let Some(node) = args.remote.open()? {
        return stats_of_cluster(&block_on(&small_runtime()?, node.nodes())?, args.place.json);
    }
    let folder = Folder::find(args.place.output.as_deref());
    if !folder.logs().is_dir() {
        folder.expect_crawl_or_node()?;
    }
    let now = Clock::new().now().wall;
    let since = args.since.as_deref().map(|text| time::since(text, now)).transpose()?;
    let summary = Summary::read(&folder.logs(), &Filter::default().between(since, None))?;
    let running = super::socket::running_stats(&folder)?;
    let mut out = out();
    if args.place.json {
        print_json(&mut out, &serde_json::json!({"log": summary, "running": running}))?;
    } else {
        summary.print(&mut out)?;
        match running {
            None => writeln!(out, "no process crawls here now")?,
            Some(now) => writeln!(
                out,
                "running: {} fetches open, {} hosts at hand, {} tickets so far, {} turned away",
                now.tickets_open, now.hosts_active, now.tickets, now.turned_away
            )?,
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Statistics of every node, and their sums.
fn stats_of_cluster(nodes: &[NodeSaid], json: bool) -> anyhow::Result<Exit> {
    let mut out = out();
    let known: Vec<&StatsView> = nodes.iter().filter_map(|said| said.stats.as_ref()).collect();
    let sum = |of: fn(&StatsView) -> u64| known.iter().map(|stats| of(stats)).sum::<u64>();
    let all = serde_json::json!({
        "nodes": nodes.len(),
        "answered": known.len(),
        "tickets": sum(|stats| stats.tickets),
        "ended": sum(|stats| stats.ended),
        "tickets_open": sum(|stats| stats.tickets_open as u64),
        "urls_waiting": sum(|stats| stats.urls_waiting),
        "urls_later": sum(|stats| stats.urls_later),
        "urls_parked": sum(|stats| stats.urls_parked),
    });
    if json {
        print_json(&mut out, &serde_json::json!({"all": all, "nodes": nodes}))?;
    } else {
        for NodeSaid { node, stats, alarms } in nodes {
            match stats {
                Some(now) => writeln!(
                    out,
                    "{:<24} {} pages ended, {} fetches open, {} URLs queued, {} planned, {} parked",
                    shown(&node.name),
                    now.ended,
                    now.tickets_open,
                    now.urls_waiting,
                    now.urls_later,
                    now.urls_parked
                )?,
                None => {
                    let why = alarms.first().map_or("it says nothing", String::as_str);
                    writeln!(out, "{:<24} {}", shown(&node.name), shown(why))?;
                }
            }
        }
        let count = |name: &str| all[name].as_u64().unwrap_or(0);
        writeln!(
            out,
            "{} of {} nodes: {} pages ended since their sessions began, {} fetches open, {} URLs queued",
            known.len(),
            nodes.len(),
            count("ended"),
            count("tickets_open"),
            count("urls_waiting")
        )?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

struct Report {
    logs: std::path::PathBuf,
    filter: Filter,
    format: TableFormat,
    limit: usize,
    out: Box<dyn Write>,
    /// The captures whose metadata lists outlinks.
    captures: Option<Captures>,
    /// The links of the archive, with their texts.
    tables: Option<nephila_tables::Folder>,
    /// Lines whose key exceeded the bound.
    beyond: u64,
    skipped: u64,
}

#[derive(Clone, Debug, Default)]
struct Count {
    requests: u64,
    ok: u64,
    bytes: u64,
    took_ms: u64,
    other: u64,
    examples: Vec<String>,
}

impl Report {
    fn each(&mut self, mut take: impl FnMut(Line) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let mut lines = Lines::of(&self.logs)?;
        for line in lines.by_ref() {
            let line = line?;
            if self.filter.takes(&line) && !take(line)? {
                self.beyond += 1;
            }
        }
        self.skipped = lines.skipped();
        Ok(())
    }

    fn summary(&mut self) -> anyhow::Result<Exit> {
        let summary = Summary::read(&self.logs, &self.filter)?;
        match self.format {
            TableFormat::Json => print_json(&mut self.out, &summary)?,
            TableFormat::Table => summary.print(&mut self.out)?,
            TableFormat::Csv | TableFormat::Md | TableFormat::Html | TableFormat::Junit => {
                let columns: &[Column] = &[("what", 20), ("name", 24), ("count", 10)];
                let mut table = Table::begin(&mut self.out, self.format, columns)?;
                let numbers = [
                    ("requests", summary.requests),
                    ("pages", summary.pages),
                    ("hosts", summary.hosts),
                    ("bytes", summary.bytes),
                    ("revisits", summary.revisits),
                ];
                for (name, number) in numbers {
                    table.row(&["total".into(), name.into(), number.into()])?;
                }
                for (what, names) in [("class", &summary.classes), ("outcome", &summary.outcomes)] {
                    for (name, count) in names {
                        table.row(&[what.into(), name.as_str().into(), (*count).into()])?;
                    }
                }
                table.finish()?;
            }
        }
        Ok(Exit::Done)
    }

    fn hosts(&mut self) -> anyhow::Result<Exit> {
        let hosts = self.counted(|line| Some((line.origin.clone(), line.class == "ok")))?;
        let columns: &[Column] =
            &[("requests", 10), ("ok", 10), ("not_ok", 10), ("bytes", 14), ("mean_ms", 8), ("host", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for (host, count) in hosts.into_iter().take(self.limit) {
            table.row(&[
                count.requests.into(),
                count.ok.into(),
                (count.requests - count.ok).into(),
                count.bytes.into(),
                (count.took_ms / count.requests.max(1)).into(),
                host.into(),
            ])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }

    fn types(&mut self) -> anyhow::Result<Exit> {
        let types = self.counted(|line| {
            let answered = line.purpose == Purpose::Page && line.status.is_some();
            let mime = if line.mime.is_empty() { "unknown" } else { &line.mime };
            answered.then(|| (mime.to_owned(), line.class == "ok"))
        })?;
        let columns: &[Column] = &[("pages", 10), ("ok", 10), ("bytes", 14), ("type", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for (mime, count) in types.into_iter().take(self.limit) {
            table.row(&[count.requests.into(), count.ok.into(), count.bytes.into(), mime.into()])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }

    fn traps(&mut self) -> anyhow::Result<Exit> {
        let mut hosts: HashMap<String, Count> = HashMap::new();
        self.each(|line| {
            let traps = line.links.map_or(0, |links| u64::from(links.traps));
            if traps == 0 {
                return Ok(true);
            }
            if hosts.len() >= KEYS_MAX && !hosts.contains_key(&line.origin) {
                return Ok(false);
            }
            let count = hosts.entry(line.origin).or_default();
            count.requests += 1;
            count.other += traps;
            if count.examples.len() < EXAMPLES_MAX {
                count.examples.push(line.url);
            }
            Ok(true)
        })?;
        let mut hosts: Vec<_> = hosts.into_iter().collect();
        hosts.sort_unstable_by(|(a, x), (b, y)| y.other.cmp(&x.other).then_with(|| a.cmp(b)));
        let columns: &[Column] = &[("trap_links", 10), ("pages", 8), ("host", 32), ("examples", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for (host, count) in hosts.into_iter().take(self.limit) {
            table.row(&[
                count.other.into(),
                count.requests.into(),
                host.into(),
                count.examples.join(" ").into(),
            ])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }

    fn redirects(&mut self) -> anyhow::Result<Exit> {
        let columns: &[Column] = &[("status", 6), ("from", 48), ("to", 0)];
        let (format, limit) = (self.format, self.limit as u64);
        // Rows go out as they are read; the report keeps counting meanwhile.
        let mut out = std::mem::replace(&mut self.out, Box::new(std::io::sink()));
        let mut table = Table::begin(&mut out, format, columns)?;
        self.each(|line| {
            if let Some(to) = line.redirect
                && table.rows() < limit
            {
                table.row(&[line.status.map(u64::from).into(), line.url.into(), to.into()])?;
            }
            Ok(true)
        })?;
        table.finish()?;
        self.out = out;
        Ok(Exit::Done)
    }

    fn duplicates(&mut self) -> anyhow::Result<Exit> {
        let hasher = RandomState::new();
        let mut seen: HashSet<u64> = HashSet::new();
        let mut bodies: HashMap<String, Count> = HashMap::new();
        self.each(|line| {
            let Some(digest) = line.digest.filter(|_| line.purpose == Purpose::Page && line.class == "ok")
            else {
                return Ok(true);
            };
            if line.bytes == 0
                && line.warc.as_ref().is_none_or(|warc| matches!(&*warc.kind, "response" | "resource"))
            {
                return Ok(true);
            }
            if seen.len() >= URLS_MAX || (bodies.len() >= KEYS_MAX && !bodies.contains_key(&digest)) {
                return Ok(false);
            }
            // A page that was fetched again is no duplicate of itself.
            if !seen.insert(hasher.hash_one((&digest, &line.url))) {
                return Ok(true);
            }
            let count = bodies.entry(digest).or_default();
            count.requests += 1;
            count.bytes = count.bytes.max(line.bytes);
            if count.examples.len() < EXAMPLES_MAX {
                count.examples.push(line.url);
            }
            Ok(true)
        })?;
        let mut bodies: Vec<_> = bodies.into_iter().filter(|(_, count)| count.requests > 1).collect();
        bodies.sort_unstable_by(|(a, x), (b, y)| y.requests.cmp(&x.requests).then_with(|| a.cmp(b)));
        let columns: &[Column] = &[("urls", 8), ("bytes", 12), ("digest", 37), ("examples", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for (digest, count) in bodies.into_iter().take(self.limit) {
            table.row(&[
                count.requests.into(),
                count.bytes.into(),
                digest.into(),
                count.examples.join(" ").into(),
            ])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }

    fn seeds(&mut self, seeds: &[String]) -> anyhow::Result<Exit> {
        let url = |seed: &String| {
            CrawlUrl::parse(seed).map_or_else(|_| seed.clone(), |url| url.as_str().to_owned())
        };
        let mut last: HashMap<String, Option<Line>> = seeds.iter().map(|seed| (url(seed), None)).collect();
        self.each(|line| {
            if let Some(known) = last.get_mut(&line.url)
                && line.purpose == Purpose::Page
            {
                *known = Some(line);
            }
            Ok(true)
        })?;
        let columns: &[Column] = &[("status", 6), ("outcome", 20), ("at", 20), ("seed", 40), ("to", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for seed in seeds.iter().take(self.limit) {
            let line = last.get(&url(seed)).and_then(Option::as_ref);
            table.row(&[
                line.and_then(|line| line.status).map(u64::from).into(),
                line.map_or("not fetched", |line| &line.outcome).into(),
                line.map(|line| line.began().warc_date()).into(),
                seed.as_str().into(),
                line.and_then(|line| line.redirect.clone()).into(),
            ])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }

    /// Counts lines by a key; the most frequent first.
    fn counted(
        &mut self,
        key: impl Fn(&Line) -> Option<(String, bool)>,
    ) -> anyhow::Result<Vec<(String, Count)>> {
        let mut counts: HashMap<String, Count> = HashMap::new();
        self.each(|line| {
            let Some((key, ok)) = key(&line) else { return Ok(true) };
            if counts.len() >= KEYS_MAX && !counts.contains_key(&key) {
                return Ok(false);
            }
            let count = counts.entry(key).or_default();
            count.requests += 1;
            count.ok += u64::from(ok);
            count.bytes += line.bytes;
            count.took_ms += line.took_ms;
            Ok(true)
        })?;
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable_by(|(a, x), (b, y)| y.requests.cmp(&x.requests).then_with(|| a.cmp(b)));
        Ok(counts)
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
