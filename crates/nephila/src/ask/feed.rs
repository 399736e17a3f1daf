//! `nephila feed`: the followed feeds and their health.
//!
//! The feeds of a folder are listed in `feeds.opml`, which a running crawl reads again after a change. In a cluster,
//! feeds are URLs of a job that are parsed as feeds.
//!
//! Invariants: a file that cannot be read changes nothing; text of third parties is sanitized before printing.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use nephila_core::feed::opml::{self, Outline};
use nephila_core::feed::source;
use nephila_core::text::shown;
use nephila_core::url::CrawlUrl;

use super::socket::Source;
use super::{out, print_json};
use crate::cli::feed::{FeedCommand, FeedImportArgs, FeedListArgs, FeedPlaceArgs};
use nephila_api::{FeedSaid, FeedsSaid, HEALTHS, is_ill};
use nephila_engine::crawl::typed::with_scheme;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::reach::Reach;

/// Maximum number of feeds in one request to a node.
const SAID_AT_ONCE: usize = 5_000;
/// Maximum size in bytes of an OPML file.
const OPML_BYTES_MAX: u64 = 512 << 20;

/// Runs the command.
pub(super) fn run(command: FeedCommand) -> anyhow::Result<Exit> {
    match command {
        FeedCommand::Add(args) => {
            let source = named(args.source.as_deref())?;
            let mut outlines = Vec::new();
            let mut wrong = 0;
            for text in &args.urls {
                match CrawlUrl::parse(&with_scheme(text)) {
                    Ok(url) => outlines.push(Outline { source: source.clone(), ..Outline::new(url) }),
                    Err(error) => {
                        eprintln!("nephila: {}: {error}", shown(text));
                        wrong += 1;
                    }
                }
            }
            let typed: Vec<CrawlUrl> = outlines.iter().map(|feed| feed.url.clone()).collect();
            add(&args.place, outlines, wrong, &typed)
        }
        FeedCommand::Import(args) => import(&args),
        FeedCommand::Export(place) => export(&place),
        FeedCommand::Remove(args) => remove(&args.place, &args.urls),
        FeedCommand::Check(args) => super::feed_check::run(&args),
        FeedCommand::List(args) => list(&args),
        FeedCommand::Show(args) => show(&args.place, &args.url),
        FeedCommand::Health(place) => health(&place),
    }
}

/// The normalized name of a source.
fn named(text: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let name = source::name(text);
    anyhow::ensure!(name.is_some(), "--source: a source needs a name");
    Ok(name)
}

fn import(args: &FeedImportArgs) -> anyhow::Result<Exit> {
    let source = named(args.source.as_deref())?;
    let (mut outlines, mut wrong) = (Vec::new(), 0);
    for path in &args.files {
        let mut list = opml::read(&read(path)?);
        if list.feeds.is_empty() && (list.broken || list.dropped == 0) {
            return Err(anyhow::Error::new(Exit::Input)
                .context(format!("{}: there is no feed in it: is it OPML?", path.display())));
        }
        wrong += list.dropped;
        for feed in &mut list.feeds {
            feed.removed = false;
            feed.source = match args.by_domain {
                true => None,
                false => source.clone().or_else(|| feed.source_by_folder()),
            };
        }
        outlines.extend(list.feeds);
    }
    add(&args.place, outlines, wrong, &[])
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(path).map_err(|error| unreadable(path, &error))?),
    };
    reader.take(OPML_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::Error::new(Exit::Input).context(format!("{}: {error}", path.display()))
}

/// Adds feeds. `wrong` is the number of unreadable ones; feeds in `typed` may have private addresses.
fn add(
    place: &FeedPlaceArgs,
    mut outlines: Vec<Outline>,
    mut wrong: u64,
    typed: &[CrawlUrl],
) -> anyhow::Result<Exit> {
    let (mut taken, mut known) = (0, 0);
    if let Some(node) = place.remote.open()? {
        let Some(job) = &place.job else {
            anyhow::bail!("for which job of the cluster? Name it with --job NAME");
        };
        let runtime = small_runtime()?;
        for some in outlines.chunks(SAID_AT_ONCE) {
            let lines: Vec<String> = some
                .iter()
                .map(|feed| serde_json::json!({"url": feed.url.as_str(), "feed": true}).to_string())
                .collect();
            let added = block_on(&runtime, node.add(job, false, &lines.join("\n")))?;
            for refused in &added.refusals {
                eprintln!("nephila: {}: {}", shown(&refused.url), shown(&refused.why));
            }
            taken += added.taken;
            wrong += added.refused;
        }
    } else {
        let folder = Folder::find(place.output.as_deref());
        if folder.is_node() {
            anyhow::bail!("{} is the folder of a node: say it with --node URL", folder.dir().display());
        }
        let before = Some(folder.settings()).filter(|path| path.is_file() && place.common.config.is_none());
        let settings = place.common.load_from(before.as_deref())?;
        let reach = Reach::with_doors(&settings.spider, folder.doors()?);
        let read = outlines.len();
        outlines.retain(|feed| {
            let judged = match typed.contains(&feed.url) {
                true => reach.check_typed(&feed.url),
                false => reach.check(&feed.url),
            };
            if let Err(why) = &judged {
                eprintln!("nephila: {}: {why}", shown(feed.url.as_str()));
            } else if let (false, Err(why)) = (typed.contains(&feed.url), reach.check_port(&feed.url)) {
                // The crawl may have other settings than this command.
                eprintln!("nephila: {}: added, and not fetched until then: {why}", shown(feed.url.as_str()));
            }
            judged.is_ok()
        });
        wrong += (read - outlines.len()) as u64;
        folder.open_doors(typed)?;
        let new = folder.add_feeds(&outlines)?;
        (taken, known) = (new as u64, (outlines.len() - new) as u64);
    }
    let mut out = out();
    if place.json {
        print_json(&mut out, &serde_json::json!({"taken": taken, "known": known, "refused": wrong}))?;
    } else {
        writeln!(out, "{taken} feeds added, {known} were followed before, {wrong} cannot be fetched")?;
    }
    out.flush()?;
    Ok(if wrong == 0 { Exit::Done } else { Exit::Failed })
}

fn remove(place: &FeedPlaceArgs, urls: &[String]) -> anyhow::Result<Exit> {
    if place.remote.node.is_some() {
        anyhow::bail!(
            "in a cluster a feed is a URL of a job: `nephila job set NAME --exclude REGEX` keeps it from being asked"
        );
    }
    let folder = Folder::find(place.output.as_deref());
    folder.expect_crawl_or_node()?;
    let listed: Vec<CrawlUrl> = folder.feeds()?.into_iter().map(|feed| feed.url).collect();
    let (mut removed, mut unknown) = (Vec::new(), 0);
    for text in urls {
        let url = CrawlUrl::parse(&with_scheme(text)).map_err(|error| anyhow::anyhow!("{text}: {error}"))?;
        // One that a page led to stands in no list.
        let is_known = listed.contains(&url)
            || folder.is_crawl()
                && Source::to_read(folder.clone(), &place.remote)?.feed(url.as_str())?.is_some();
        if is_known {
            removed.push(url);
        } else {
            eprintln!("nephila: {}: it is not followed", shown(text));
            unknown += 1;
        }
    }
    folder.remove_feeds(&removed)?;
    let mut out = out();
    if place.json {
        print_json(&mut out, &serde_json::json!({"removed": removed.len(), "unknown": unknown}))?;
    } else {
        writeln!(out, "{} feeds removed, {unknown} were not followed", removed.len())?;
    }
    out.flush()?;
    Ok(if unknown == 0 { Exit::Done } else { Exit::Failed })
}

fn feeds(place: &FeedPlaceArgs) -> anyhow::Result<FeedsSaid> {
    Source::to_read(Folder::find(place.output.as_deref()), &place.remote)?.feeds()
}

fn export(place: &FeedPlaceArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(place.output.as_deref());
    let mut outlines = if place.remote.node.is_some() { Vec::new() } else { folder.feeds()? };
    let said =
        if place.remote.node.is_some() || folder.is_crawl() { feeds(place)?.feeds } else { Vec::new() };
    for feed in said {
        let Ok(url) = CrawlUrl::parse(&feed.url) else { continue };
        match outlines.iter_mut().find(|outline| outline.url == url) {
            // Without a title a list has the URL for one.
            Some(outline) if outline.title.is_empty() || outline.title == outline.url.as_str() => {
                outline.title = feed.title;
            }
            Some(_) => {}
            None => outlines.push(Outline { title: feed.title, ..Outline::new(url) }),
        }
    }
    let mut out = out();
    out.write_all(opml::write("Feeds followed by Nephila", &outlines).as_bytes())?;
    out.flush()?;
    Ok(Exit::Done)
}

fn list(args: &FeedListArgs) -> anyhow::Result<Exit> {
    let said = feeds(&args.place)?;
    let mut out = out();
    let mut some = false;
    if !args.place.json {
        writeln!(
            out,
            "{:<48} {:<10} {:>7} {:>10} {:>10}  last poll",
            "feed", "health", "stories", "usual gap", "silent"
        )?;
    }
    let is_wanted = |feed: &&FeedSaid| {
        args.health.as_ref().is_none_or(|health| feed.health == *health)
            && args.source.as_ref().is_none_or(|source| feed.source == *source)
    };
    for feed in said.feeds.iter().filter(is_wanted) {
        some = true;
        if args.place.json {
            print_json(&mut out, feed)?;
        } else {
            line(&mut out, feed)?;
        }
    }
    if said.cut {
        eprintln!("nephila: there are more; these are the first {}", said.feeds.len());
    }
    out.flush()?;
    Ok(if some { Exit::Done } else { Exit::Failed })
}

fn line(out: &mut dyn Write, feed: &FeedSaid) -> std::io::Result<()> {
    let mut last = match feed.polls.last() {
        Some(poll) => format!("{}  {}", poll.at, poll.found),
        None => "never".to_owned(),
    };
    if !feed.wrong.is_empty() {
        let status = feed.polls.last().and_then(|poll| poll.status);
        let status = status.map(|status| format!("{status}, ")).unwrap_or_default();
        last.push_str(&format!(" ({status}{})", shown(&feed.wrong)));
    }
    writeln!(
        out,
        "{:<48} {:<10} {:>7} {:>10} {:>10}  {last}",
        shown(&feed.url).to_string(),
        feed.health,
        feed.stories,
        span(feed.usual_gap_s),
        span(feed.silent_s),
    )
}

/// Formats seconds in the two largest units.
pub(super) fn span(seconds: Option<u64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn show(place: &FeedPlaceArgs, url: &str) -> anyhow::Result<Exit> {
    let url = with_scheme(url);
    let said = Source::to_read(Folder::find(place.output.as_deref()), &place.remote)?.feed(&url)?;
    let mut out = out();
    let Some(feed) = said else {
        if place.json {
            print_json(&mut out, &serde_json::Value::Null)?;
        } else {
            writeln!(out, "{}: it was never asked as a feed", shown(&url))?;
        }
        out.flush()?;
        return Ok(Exit::Failed);
    };
    if place.json {
        print_json(&mut out, &feed)?;
    } else {
        writeln!(out, "{}  {}", shown(&feed.url), shown(&feed.title))?;
        writeln!(out, "  {}, {} stories, usual gap {}", feed.health, feed.stories, span(feed.usual_gap_s))?;
        writeln!(out, "  source {}", shown(&feed.source))?;
        if !feed.wrong.is_empty() {
            writeln!(out, "  wrong: {}", shown(&feed.wrong))?;
        }
        let next = feed.next.as_deref().unwrap_or("never");
        writeln!(out, "  next poll {next}, because: {}", feed.why)?;
        for poll in &feed.polls {
            let status = poll.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
            writeln!(
                out,
                "  {}  {status:>3}  {:<14}  {} entries, {} new",
                poll.at, poll.found, poll.entries, poll.new
            )?;
        }
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn health(place: &FeedPlaceArgs) -> anyhow::Result<Exit> {
    let said = feeds(place)?;
    let count = |health: &str| said.feeds.iter().filter(|feed| feed.health == health).count();
    let names = HEALTHS;
    let mut out = out();
    if place.json {
        let counts: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), count(name).into())).collect();
        print_json(&mut out, &counts)?;
    } else {
        let some = names.iter().filter(|name| count(name) > 0);
        let counts: Vec<String> = some.map(|name| format!("{} {name}", count(name))).collect();
        writeln!(out, "{} feeds: {}", said.feeds.len(), counts.join(", "))?;
        for feed in said.feeds.iter().filter(|feed| is_ill(&feed.health)) {
            line(&mut out, feed)?;
        }
    }
    out.flush()?;
    let some_ill = said.feeds.iter().any(|feed| is_ill(&feed.health));
    Ok(if some_ill { Exit::Failed } else { Exit::Done })
}
