//! Many feeds that bring stories all the time, followed by a crawl that is killed again and again.
//!
//! The web's time runs faster than ours, and the schedule of the crawl is shortened by the same factor: five minutes are a
//! few seconds. When time stands still at last, every story must have been found, and its page captured: once, or once
//! more where its ticket was open at a kill. Polls are judged by the seed's rule, written here once more: five minutes
//! after a poll that showed something new, twice as long after each that did not.
//!
//! Invariant: the moment at which a poll showed something new is computed from the web's own time; in doubt (a kill, a
//! story that appeared in this very moment) the poll is not judged.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testweb::Settings;
use nephila_testweb::journal::{Log, Request};
use nephila_testweb::model::{Place as Page, What, World};

use crate::archive::Index;
use crate::crawler::{Crawler, Place, Rests};
use crate::judge::{self, Verdict};
use crate::plug::Random;
use crate::site::Site;

/// How often the web's time is moved on.
const STEP: Duration = Duration::from_millis(100);
/// The longest wait of the schedule: so short that no story leaves its feed unseen.
const LONGEST: Duration = Duration::from_secs(20 * 60);
/// The shortest, of the rule.
const SHORTEST: Duration = Duration::from_secs(5 * 60);
/// Mean time between two stories of a feed.
const STORY_EVERY: Duration = Duration::from_secs(20 * 60);
/// Maximum time to find the remaining stories after time stands still.
const SETTLE: Duration = Duration::from_secs(600);
/// Interval between checks whether all stories are found.
const LOOK: Duration = Duration::from_millis(500);
/// After its last byte a page is stored, read and reported. A kill up to this long after that may cost another request.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum delay until the server reads a request.
const LATE: Duration = Duration::from_millis(100);
/// A poll of a machine with nothing else to do comes within this time; later ones are counted.
const PUNCTUAL: Duration = Duration::from_secs(3);
/// Events of the journal.
const JOURNAL_MAX: usize = 8_000_000;
/// Faults that are named.
const NAMED_MAX: usize = 5;

/// How many, and for how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Feeds, one on each host.
    #[arg(long, default_value_t = 1_000)]
    feeds: u32,
    /// Minutes of the web's time in which stories appear.
    #[arg(long, default_value_t = 360)]
    minutes: u64,
    /// How much faster the web's time runs than ours.
    #[arg(long, default_value_t = 60)]
    rate: u32,
    /// How many times the crawl is killed meanwhile.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Seed of the web and of the moments of kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One kill, in time of the journal: just before and just after.
type Kill = (u64, u64);

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    ensure!(args.rate > 0 && args.feeds > 0, "time must run, and there must be feeds");
    let began = Instant::now();
    let mut verdict = Verdict::default();
    let folder = place.folder("feeds")?;
    let rests = Rests { host: Duration::from_millis(20), slot: Duration::from_millis(10) };
    let settings = Settings {
        seed: args.seed,
        hosts: args.feeds,
        pages: u64::from(args.feeds),
        page_bytes: 4_000,
        addresses: (args.feeds * 2 / 3).max(1),
        feed_share: 1.0,
        feed_period: STORY_EVERY,
        journal_max: JOURNAL_MAX,
        threads: 1,
        ..Settings::default()
    };
    let site = Site::start(settings, &folder)?;
    let list = folder.join("feeds.opml");
    let urls = (0..args.feeds).map(|host| site.world().url(Page { host, what: What::Feed }));
    let lines: String = urls.map(|url| format!("<outline type=\"rss\" xmlUrl=\"{url}\"/>\n")).collect();
    std::fs::write(&list, format!("<opml version=\"2.0\"><body>\n{lines}</body></opml>\n"))?;
    let mut crawler = Crawler::new(place, &folder, &site, &list, "host", rests).follower();
    for (name, time) in [("interval_min", SHORTEST), ("interval_max", LONGEST)] {
        crawler.set(&format!("feed.schedule.{name}={}ms", (time / args.rate).as_millis()));
    }
    let dir = crawler.dir().display().to_string();
    let (status, said) = crawler.ask_all(&["feed", "import", &list.display().to_string(), "-o", &dir])?;
    ensure!(status.success(), "nephila feed import: {status}: {said}");

    let kills = publish(args, &site, &crawler)?;
    let mut run = crawler.start()?;
    let settled = settle(&site, &crawler, || Ok(!run.wait_until(Instant::now() + LOOK)?))?;
    run.ask_to_end()?;
    run.finish_within(SETTLE)?;
    verdict.expect(settled, || format!("not all stories were found within {} s", SETTLE.as_secs()));

    let listed = stories_listed(&crawler)?;
    let world = site.web().world().clone();
    let log = site.stop();
    judge::polite(&mut verdict, &world, &log, rests);
    let (status, said) = crawler.ask(&["verify", &dir])?;
    verdict.expect(status.success(), || format!("nephila verify: {status}: {said}"));
    let index = Index::read(crawler.dir())?;
    let stories = stories(&mut verdict, &world, &log, &index, &listed, &kills);
    let polls = polls(&mut verdict, &world, &log, &kills, args.rate);
    verdict.end(&format!(
        "feeds: {} feeds for {} minutes at {} times the speed, {} kills, {} stories found once each, {} pages captured \
         ({} asked for again, open at a kill), median delay {:.1} min of the web's time, {} polls ({:.2} a story, {} answered 304), \
         {} judged by the rule: 0 too early, {} late; {:.0} s",
        args.feeds,
        args.minutes,
        args.rate,
        kills.len(),
        stories.found,
        stories.captures,
        stories.repeats,
        stories.delay_median as f64 / 60.0,
        polls.all,
        polls.all as f64 / stories.found.max(1) as f64,
        polls.not_modified,
        polls.judged,
        polls.late,
        began.elapsed().as_secs_f64(),
    ))
}

/// Lets stories appear, and kills the crawl at random moments meanwhile.
fn publish(args: &Args, site: &Site, crawler: &Crawler) -> anyhow::Result<Vec<Kill>> {
    let lasts = Duration::from_secs(args.minutes * 60) / args.rate;
    let mut random = Random(args.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut moments: Vec<Duration> =
        (0..args.kills).map(|_| random.duration(Duration::ZERO, lasts)).collect();
    moments.sort_unstable_by(|a, b| b.cmp(a));
    let journal = site.web().journal().clone();
    let mut kills = Vec::new();
    let began = Instant::now();
    let mut moved = Duration::ZERO;
    let mut run = crawler.start()?;
    while began.elapsed() < lasts {
        let ended = run.wait_until(Instant::now() + STEP)?;
        ensure!(!ended, "the crawl ended by itself");
        let now = began.elapsed().min(lasts);
        site.web().advance((now - moved) * args.rate);
        moved = now;
        if moments.last().is_some_and(|moment| *moment <= now) {
            moments.pop();
            let before = journal.now_us();
            run.kill()?;
            kills.push((before, journal.now_us()));
            run = crawler.start()?;
        }
    }
    let before = journal.now_us();
    run.kill()?;
    kills.push((before, journal.now_us()));
    Ok(kills)
}

/// Waits until every feed has reported all its stories and every page of a story was requested.
fn settle(
    site: &Site,
    crawler: &Crawler,
    mut runs: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<bool> {
    let began = Instant::now();
    let world = site.world();
    let wanted: u64 =
        (0..world.settings().hosts).map(|host| world.news_count(host, world.clock().now())).sum();
    while began.elapsed() < SETTLE {
        ensure!(runs()?, "the crawl ended by itself");
        // One that has just been started does not answer yet.
        let told: u64 = stories_listed(crawler).map_or(0, |listed| listed.values().sum());
        if told >= wanted {
            // Pages are offered before the poll is reported, and fetched soon.
            let log = site.web().journal().log();
            let mut asked: Vec<(&str, &str)> = log
                .requests
                .iter()
                .filter(|request| request.path.starts_with("/news/") && request.is_complete)
                .map(|request| (&*request.host, &*request.path))
                .collect();
            asked.sort_unstable();
            asked.dedup();
            if asked.len() as u64 >= wanted {
                // The last requests are reported by then.
                std::thread::sleep(GRACE / 2);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// How many stories each feed had, by the crawl's own account.
fn stories_listed(crawler: &Crawler) -> anyhow::Result<HashMap<String, u64>> {
    let dir = crawler.dir().display().to_string();
    let (status, said) = crawler.ask(&["feed", "list", "-o", &dir, "--json"])?;
    ensure!(status.success(), "nephila feed list: {status}");
    let mut listed = HashMap::new();
    for feed in serde_json::Deserializer::from_str(&said).into_iter::<serde_json::Value>() {
        let feed = feed?;
        let url = feed["url"].as_str().context("a feed has a URL")?.to_owned();
        listed.insert(url, feed["stories"].as_u64().unwrap_or(0));
    }
    Ok(listed)
}

#[derive(Default)]
struct Stories {
    found: u64,
    captures: usize,
    repeats: usize,
    /// Seconds of the web's time.
    delay_median: u64,
}

/// Every story is counted once by its feed, its page is in the archive, and was requested again only for a kill.
fn stories(
    verdict: &mut Verdict,
    world: &World,
    log: &Log,
    index: &Index,
    listed: &HashMap<String, u64>,
    kills: &[Kill],
) -> Stories {
    let now = world.clock().now();
    let mut by_page: HashMap<String, Vec<&Request>> = HashMap::new();
    for request in log.requests.iter().filter(|request| request.path.starts_with("/news/")) {
        by_page.entry([&*request.host, &*request.path].concat()).or_default().push(request);
    }
    let mut figures = Stories::default();
    let (mut wrong, mut delays) = (Vec::new(), Vec::new());
    for host in 0..world.settings().hosts {
        let feed = world.url(Page { host, what: What::Feed });
        let count = world.news_count(host, now);
        let told = listed.get(&feed).copied().unwrap_or(0);
        if told != count {
            wrong.push(format!("{feed} published {count} stories, {told} were found"));
        }
        figures.found += told;
        for item in 0..count {
            let url = world.url(Page { host, what: What::News(item) });
            let page = url.split_once("://").map_or("", |(_, rest)| rest);
            let asked = by_page.remove(page).unwrap_or_default();
            let there = index.times(&url);
            figures.captures += there;
            figures.repeats += asked.len().saturating_sub(1);
            if !(1..=asked.len()).contains(&there) {
                wrong.push(format!("{url} is there {there} times, asked for {} times", asked.len()));
            }
            if asked.windows(2).any(|pair| !is_for_a_kill(pair[0], pair[1], kills)) {
                wrong.push(format!("{url} was asked for {} times, without a kill between", asked.len()));
            }
            let published = world.news_time(host, item);
            if let Some(first) = asked.first().filter(|_| published > world.settings().time_start) {
                delays.push(first.virtual_s.saturating_sub(published));
            }
        }
    }
    wrong.extend(by_page.keys().map(|page| format!("{page} was asked for and is no story")));
    verdict.expect(wrong.is_empty(), || {
        format!(
            "{} faults: {}",
            wrong.len(),
            wrong.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ")
        )
    });
    delays.sort_unstable();
    figures.delay_median = delays.get(delays.len() / 2).copied().unwrap_or(0);
    figures
}

/// Whether a page was requested again because its ticket was open at a kill.
fn is_for_a_kill(before: &Request, again: &Request, kills: &[Kill]) -> bool {
    let (grace, late) = (GRACE.as_micros() as u64, LATE.as_micros() as u64);
    kills.iter().any(|(from, to)| {
        before.start_us <= to + late && *from <= before.end_us + grace && *to <= again.start_us + late
    })
}

#[derive(Default)]
struct Polls {
    all: usize,
    not_modified: usize,
    judged: usize,
    late: usize,
}

/// No poll comes before the seed's rule says.
fn polls(verdict: &mut Verdict, world: &World, log: &Log, kills: &[Kill], rate: u32) -> Polls {
    let mut by_host: HashMap<&str, Vec<&Request>> = HashMap::new();
    for request in log.requests.iter().filter(|request| request.path == "/feed.xml") {
        by_host.entry(&request.host).or_default().push(request);
    }
    let (shortest, longest) = (SHORTEST / rate, LONGEST / rate);
    // A story that appears while a poll is answered may or may not be in the answer.
    let doubt = (2 * STEP * rate).as_secs();
    let mut figures = Polls::default();
    let mut early = Vec::new();
    for host in 0..world.settings().hosts {
        let url = world.url(Page { host, what: What::Feed });
        let Some(authority) = url.split_once("://").and_then(|(_, rest)| rest.split('/').next()) else {
            continue;
        };
        let requests = by_host.remove(authority).unwrap_or_default();
        figures.all += requests.len();
        figures.not_modified += requests.iter().filter(|request| request.status == 304).count();
        // The wait after the last poll, if known for certain.
        let mut wait: Option<Duration> = None;
        let mut shown = 0;
        let mut before: Option<&Request> = None;
        for request in requests {
            let killed = before.is_none_or(|before| {
                kills.iter().any(|(_, to)| (before.start_us..=request.start_us).contains(to))
            });
            let gap =
                before.map(|before| Duration::from_micros(request.start_us.saturating_sub(before.end_us)));
            if let (Some(wait), Some(gap), false) = (wait, gap, killed) {
                figures.judged += 1;
                if gap + LATE < wait {
                    early.push(format!("{url} after {} ms instead of {}", gap.as_millis(), wait.as_millis()));
                }
                figures.late += usize::from(gap > wait + PUNCTUAL);
            }
            let at = request.virtual_s;
            let count = world.news_count(host, at);
            let is_certain = count == world.news_count(host, at + doubt) && request.is_complete;
            wait = match (is_certain, count > shown, wait) {
                (false, ..) => None,
                (true, true, _) => Some(shortest),
                (true, false, Some(wait)) if !killed => Some((2 * wait).min(longest)),
                (true, false, _) => None,
            };
            shown = if is_certain { count } else { shown };
            before = Some(request);
        }
    }
    verdict.expect(early.is_empty(), || {
        format!(
            "{} polls too early: {}",
            early.len(),
            early.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ")
        )
    });
    figures
}
