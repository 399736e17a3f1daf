//! `nephila explain` and `nephila host show`: one word, one reason, then all details.

use std::io::{self, Write};

use nephila_core::text::shown;
use nephila_store::captures::{Captures, Query};
use serde::Serialize;

use super::socket::Source;
use super::{out, print_json, time};
use crate::cli::ask::{ExplainArgs, HostShowArgs};
use nephila_api::{Explained, HostView, RobotsView};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;

/// Maximum number of captures counted for one URL.
const CAPTURES_MAX: usize = 10_000;

/// Captures of a URL in the archive.
#[derive(Debug, Default, Serialize)]
struct Kept {
    responses: u64,
    revisits: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<String>,
    /// Captures in an index whose archive file is missing or too short.
    #[serde(skip_serializing_if = "is_zero")]
    gone: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The JSON output.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    explained: &'a Explained,
    #[serde(skip_serializing_if = "Option::is_none")]
    captures: Option<&'a Kept>,
}

/// `nephila explain`.
pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    let captures = Captures::new(folder.dir());
    let source = Source::to_read(folder, &args.remote)?;
    let mut out = out();
    let mut exit = Exit::Done;
    for (number, url) in args.urls.iter().enumerate() {
        let explained = source.explain(url)?;
        // The captures of a cluster are in the archives of its nodes.
        let kept = match &source {
            Source::Node(..) => None,
            _ => Some(kept(&captures, &explained)?),
        };
        if args.place.json {
            print_json(&mut out, &Answer { explained: &explained, captures: kept.as_ref() })?;
        } else {
            if number > 0 {
                writeln!(out)?;
            }
            print(&mut out, &explained, kept.as_ref())?;
        }
        if !explained.summary.is_yes() {
            exit = Exit::Failed;
        }
    }
    if !args.place.json && !source.is_running() {
        writeln!(out, "\nno process crawls here now: times are as they would be if one did")?;
    }
    out.flush()?;
    Ok(exit)
}

/// Counts the captures of a URL. A URL that was never requested has none, and the archive is not searched.
fn kept(captures: &Captures, explained: &Explained) -> anyhow::Result<Kept> {
    let mut kept = Kept::default();
    let (Some(_), Some(url)) = (&explained.last, &explained.canonical) else { return Ok(kept) };
    for line in captures.find(&Query::exact(url))?.take(CAPTURES_MAX) {
        let line = line?;
        if !captures.is_there(&line) {
            kept.gone += 1;
            continue;
        }
        match line.capture.mime.as_deref() {
            Some("warc/revisit") => kept.revisits += 1,
            _ => kept.responses += 1,
        }
        kept.latest = kept.latest.max(Some(line.capture.digits14));
    }
    Ok(kept)
}

fn print(out: &mut dyn Write, explained: &Explained, kept: Option<&Kept>) -> io::Result<()> {
    writeln!(out, "{}: {}", explained.summary.name(), shown(&explained.because))?;
    writeln!(out, "  url        {}", shown(&explained.url))?;
    if let Some(canonical) = &explained.canonical {
        writeln!(out, "  canonical  {}", shown(canonical))?;
    }
    if let Some(scope) = &explained.scope {
        writeln!(
            out,
            "  scope      {} {}   ({}, job {})",
            if scope.wanted { "in:" } else { "out:" },
            shown(&scope.rule),
            shown(&scope.origin),
            shown(&scope.job)
        )?;
    }
    if let Some(stream) = &explained.stream {
        let page = if stream.page_id.is_empty() { "-" } else { &stream.page_id };
        writeln!(
            out,
            "  stream     page id {}, last line {}, sent {}, {} hits wait",
            shown(page),
            stream.last,
            stream.sent,
            stream.hits_waiting
        )?;
    }
    if explained.canonical.is_some() {
        writeln!(out, "  traps      {}", shown(explained.trap.as_deref().unwrap_or("passed")))?;
    }
    if let Some(robots) = &explained.robots {
        match &robots.rule {
            Some((line, rule)) => write!(out, "  robots     line {line} forbids it: {}", shown(rule))?,
            None => write!(out, "  robots     {}", shown(&robots.policy))?,
        }
        print_unread(out, robots)?;
        if let Some(fetched) = &robots.fetched {
            write!(out, "   fetched {fetched}")?;
        }
        if let Some(expires) = &robots.expires {
            write!(out, ", valid until {expires}")?;
        }
        if robots.crawl_delay_ms > 0 {
            write!(out, ", Crawl-delay {}", time::span(robots.crawl_delay_ms.into()))?;
        }
        writeln!(out)?;
    }
    if let Some(standing) = &explained.standing {
        writeln!(out, "  frontier   {}", shown(standing))?;
    }
    for held in &explained.held_by {
        writeln!(out, "  waits      {}", shown(held))?;
    }
    if let Some(found) = &explained.found {
        write!(out, "  found      {found}")?;
        if let Some(depth) = explained.depth {
            write!(out, ", {depth} links from a seed")?;
        }
        if !explained.hops.is_empty() {
            write!(out, " ({})", explained.hops)?;
        }
        writeln!(out)?;
        if let Some(via) = &explained.via {
            writeln!(out, "  on         {}", shown(via))?;
        }
    }
    if let Some(last) = &explained.last {
        write!(out, "  last       {} {}", last.at, shown(&last.outcome))?;
        if let Some(status) = last.status {
            write!(out, " {status}")?;
        }
        if explained.retries > 0 {
            write!(out, ", tried again {} times", explained.retries)?;
        }
        writeln!(out)?;
        match kept.map(|kept| (kept, &kept.latest)) {
            None => {}
            Some((_, None)) => writeln!(out, "  captures   none")?,
            Some((kept, Some(latest))) => writeln!(
                out,
                "  captures   {} responses, {} revisits, the latest of {latest}",
                kept.responses, kept.revisits
            )?,
        }
        if let Some(gone) = kept.map(|kept| kept.gone).filter(|gone| *gone > 0) {
            writeln!(
                out,
                "  gone       {gone} captures whose archive file is gone; `nephila verify` names it"
            )?;
        }
    }
    if let Some(next) = &explained.next {
        writeln!(out, "  next       {next}")?;
    } else if let Some(seconds) = explained.expected_s {
        writeln!(out, "  expected   in {} or later", time::span(seconds * 1_000))?;
    }
    if let Some(host) = &explained.host {
        writeln!(
            out,
            "  host       {}: {} waiting, {} parked, {} planned, {} done",
            shown(&host.origin),
            host.waiting,
            host.parked,
            host.later,
            host.ended
        )?;
    }
    Ok(())
}

/// Prints why and since when a robots.txt cannot be read.
fn print_unread(out: &mut dyn Write, robots: &RobotsView) -> io::Result<()> {
    if let Some(since) = &robots.unread_since {
        let why = robots.unread.as_deref().unwrap_or("no answer");
        write!(out, "; cannot be read since {since}: {}", shown(why))?;
    }
    Ok(())
}

/// `nephila host show`.
pub(super) fn host(args: &HostShowArgs) -> anyhow::Result<Exit> {
    let source = Source::to_read(Folder::find(args.place.output.as_deref()), &args.remote)?;
    let name = args.host.trim_end_matches('/');
    let urls = match name.contains("://") {
        true => vec![format!("{name}/")],
        false => vec![format!("https://{name}/"), format!("http://{name}/")],
    };
    let mut out = out();
    let mut known = 0;
    for url in urls {
        let Some(host) = source.host(&url)? else { continue };
        known += 1;
        if args.place.json {
            print_json(&mut out, &host)?;
        } else {
            print_host(&mut out, &host)?;
        }
    }
    out.flush()?;
    if known == 0 {
        eprintln!(
            "nephila: {} is not known to this crawl: `nephila report hosts` lists who was asked",
            shown(name)
        );
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn print_host(out: &mut dyn Write, host: &HostView) -> io::Result<()> {
    writeln!(out, "{}   known since {}", shown(&host.origin), host.found)?;
    writeln!(out, "  queue      {} waiting, {} parked, {} planned", host.waiting, host.parked, host.later)?;
    writeln!(out, "  done       {}", host.ended)?;
    write!(out, "  robots     {}", shown(&host.robots.policy))?;
    print_unread(out, &host.robots)?;
    if let Some(fetched) = &host.robots.fetched {
        write!(out, "   fetched {fetched}")?;
    }
    if host.robots.crawl_delay_ms > 0 {
        write!(out, ", Crawl-delay {}", time::span(host.robots.crawl_delay_ms.into()))?;
    }
    writeln!(out)?;
    if host.failures > 0 {
        writeln!(out, "  failures   {} in a row", host.failures)?;
    }
    if let Some(until) = &host.rest_until {
        writeln!(out, "  rests      until {until}, if that is not over")?;
    }
    if host.delay_ms > 0 {
        writeln!(out, "  delay      {} by an operator's word", time::span(host.delay_ms.into()))?;
    }
    if !host.stopped.is_empty() {
        writeln!(out, "  stopped    {}", shown(&host.stopped))?;
    }
    for held in &host.held_by {
        writeln!(out, "  waits      {}", shown(held))?;
    }
    Ok(())
}
