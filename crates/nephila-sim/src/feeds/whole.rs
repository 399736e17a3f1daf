//! Feeds and their stories in a whole frontier: tickets, rests, plans, groups of entries, and a process that dies now
//! and then, regardless of open work.
//!
//! Invariants: the checker relies on the requests to the imaginary web and on the reports, never on the frontier's own
//! words; requests that died unreported do not count.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nephila_core::frontier::offers::Offer;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, Ticket};
use nephila_core::frontier::{Action, Config, Frontier, Offered, URGENT};
use nephila_core::handler::ReadAs;
use nephila_core::job::JobId;
use nephila_core::key::{HostKey, Prefixes, Secret, UrlKey};
use nephila_core::robots::policy::RobotsResult as RobotsAnswer;
use nephila_core::spider::Outcome;
use nephila_core::state::{MemoryState, StateError};
use nephila_core::time::{Now, Timestamp};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;

use super::Counts;
use super::model::Doubling;
use super::single;
use super::web::{BEGAN, DAY, HOUR, Reply, SECOND, Source};
use crate::rng::Rng;
use crate::{Checker, Violation};

const SECRET: Secret = Secret([5; 16]);
/// Feeds that share a host, and so its rests.
const FEEDS_PER_HOST: u64 = 2;
/// How long every answer takes, in milliseconds.
const TOOK: u64 = 100;
/// A poll may be this late: plans are whole seconds, and its host may be busy with a page of the other feed.
const LATE_MAX: u64 = 60 * SECOND;
/// Wake-ups in a row that may change nothing.
const IDLE_WAKES_MAX: u32 = 10_000;

/// The checker's facts about a feed.
#[derive(Clone, Debug, Default)]
struct Follow {
    rule: Doubling,
    /// The feed must not be polled before this time.
    due: Option<u64>,
    /// Stories up to here have been shown to us by polls that were reported.
    shown: usize,
    /// Of these, the stories that were in the feed at a poll; each by its number.
    found: BTreeMap<usize, u64>,
    /// How often the page of each was captured.
    captured: BTreeMap<usize, u32>,
}

enum Due {
    Resolved(HostKey),
    Fetched(Ticket),
}

/// A frontier, and the feeds that this frontier follows.
struct Whole {
    frontier: Frontier<MemoryState>,
    config: Config,
    now: Now,
    sources: Vec<Source>,
    follows: Vec<Follow>,
    due: BTreeMap<(u64, u64), Due>,
    serial: u64,
    /// When the process last began.
    began: u64,
    counts: Counts,
}

fn config() -> Config {
    let mut config = Config { agent: "Nephila".into(), ..Config::default() };
    config.frontier.host_delay = Duration::from_secs(1);
    config.frontier.host_delay_factor = 0;
    config.frontier.slot_delay = Duration::ZERO;
    config.frontier.recent_max = 1_024;
    config
}

fn error(error: StateError) -> Violation {
    Violation::new(Checker::Error, error.to_string())
}

/// Follows `feeds` feeds for `days` days, with `restarts` restarts. Returns the counts.
pub fn run(seed: u64, feeds: u64, days: u64, restarts: u64) -> Result<Counts, Violation> {
    let config = config();
    let states = vec![(Prefixes::ALL, MemoryState::new())];
    let mut whole = Whole {
        frontier: Frontier::new(config.clone(), SECRET, states, None),
        config,
        now: Now { mono: 1_000_000, wall: Timestamp(BEGAN) },
        sources: (0..feeds).map(|number| Source::new(seed, number, days)).collect(),
        follows: vec![Follow::default(); feeds as usize],
        due: BTreeMap::new(),
        serial: 0,
        began: BEGAN,
        counts: Counts::default(),
    };
    for number in 0..feeds {
        whole.offer(&feed_url(number), 0, ReadAs::Feed)?;
    }
    whole.commit()?;
    let end = BEGAN + days * DAY;
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut kills: Vec<u64> = (0..restarts).map(|_| BEGAN + rng.below(days * DAY)).collect();
    kills.sort_unstable();
    for kill in kills {
        whole.run_until(kill)?;
        whole.restart(rng.within(SECOND, 120 * SECOND))?;
    }
    whole.run_until(end)?;
    let found: Vec<Vec<usize>> =
        whole.follows.iter().map(|follow| follow.found.keys().copied().collect()).collect();
    // Stories that were found a moment ago are still fetched.
    whole.run_until(end + HOUR)?;
    whole.judge(&found)
}

fn feed_url(number: u64) -> String {
    format!("http://f{}.test/feed/{number}", number / FEEDS_PER_HOST)
}

/// The feed that a URL belongs to.
fn number_of(url: &CrawlUrl) -> Option<usize> {
    url.path_and_query().strip_prefix('/')?.split(['/', '?']).nth(1)?.parse().ok()
}

impl Whole {
    fn offer(&mut self, text: &str, depth: u8, read_as: ReadAs) -> Result<(), Violation> {
        let url = CrawlUrl::parse(text).map_err(|_| Violation::new(Checker::Error, text))?;
        loop {
            let offered = self.frontier.offer(Offer {
                key: UrlKey::of(&url, &SECRET),
                origin: url.origin(),
                text: url.path_and_query(),
                want: &Want { depth, read_as, priority: URGENT, ..Want::of(JobId(1)) },
            });
            if offered != Offered::Full {
                return Ok(());
            }
            self.commit()?;
        }
    }

    fn commit(&mut self) -> Result<bool, Violation> {
        let mut any = false;
        while self.frontier.poll_group(0, self.now).map_err(error)?.is_some() {
            self.frontier.handle_committed(0, self.now).map_err(error)?;
            any = true;
        }
        Ok(any)
    }

    fn advance(&mut self, mono: u64) {
        let by = mono.saturating_sub(self.now.mono);
        self.now = Now { mono: self.now.mono + by, wall: Timestamp(self.now.wall.0 + by) };
    }

    fn later(&mut self, ms: u64, due: Due) {
        self.serial += 1;
        self.due.insert((self.now.mono + ms, self.serial), due);
    }

    fn run_until(&mut self, wall: u64) -> Result<(), Violation> {
        let end = self.now.mono + wall.saturating_sub(self.now.wall.0);
        let mut idle_wakes = 0;
        while self.now.mono < end {
            let mut busy = self.deliver()?;
            busy |= self.commit()?;
            while let Some(action) = self.frontier.poll_action(self.now).map_err(error)? {
                self.act(action)?;
                busy = true;
            }
            busy |= self.commit()?;
            if busy {
                idle_wakes = 0;
                continue;
            }
            let wake = self.frontier.poll_timeout(self.now);
            let due = self.due.first_key_value().map(|((at, _), _)| *at);
            let next = wake.into_iter().chain(due).min().unwrap_or(end).min(end);
            idle_wakes = if next > self.now.mono { 0 } else { idle_wakes + 1 };
            if idle_wakes > IDLE_WAKES_MAX {
                return Err(Violation::new(Checker::Liveness, "it wakes up for nothing, again and again"));
            }
            self.advance(next);
            self.frontier.handle_timeout(self.now).map_err(error)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Violation> {
        match action {
            Action::Resolve { host, .. } => self.later(0, Due::Resolved(host)),
            Action::Fetch(ticket) => {
                if ticket.purpose == Purpose::Page && ticket.read_as == ReadAs::Feed {
                    self.judge_moment(&ticket)?;
                }
                self.later(TOOK, Due::Fetched(ticket));
            }
        }
        Ok(())
    }

    /// Checks that a feed is polled when the model says.
    fn judge_moment(&mut self, ticket: &Ticket) -> Result<(), Violation> {
        let wrong = |what: String| Err(Violation::new(Checker::Model, format!("{}: {what}", ticket.url)));
        let url = CrawlUrl::parse(&ticket.url).ok();
        let Some(number) = url.as_ref().and_then(number_of) else { return wrong("no feed".into()) };
        let Some(due) = self.follows[number].due else { return Ok(()) };
        let now = self.now.wall.0;
        if now < due {
            return wrong(format!("asked {} ms before its time", due - now));
        }
        // No request is possible while no process runs.
        let late = now - due.max(self.began);
        self.counts.late_max = self.counts.late_max.max(late);
        if late > LATE_MAX {
            return wrong(format!("asked {late} ms after its time"));
        }
        Ok(())
    }

    fn deliver(&mut self) -> Result<bool, Violation> {
        let mut any = false;
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > self.now.mono {
                break;
            }
            any = true;
            match entry.remove() {
                Due::Resolved(host) => {
                    let bits = (10 << 24) | (host.domain.0 as u32 >> 8);
                    let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
                    self.frontier.handle_resolved(host, &[address], self.now);
                }
                Due::Fetched(ticket) => self.fetched(&ticket)?,
            }
        }
        Ok(any)
    }

    fn fetched(&mut self, ticket: &Ticket) -> Result<(), Violation> {
        let took = Duration::from_millis(TOOK);
        if ticket.purpose == Purpose::Robots {
            let report = RobotsReport::of(RobotsAnswer::Status(404), took);
            self.frontier.handle_robots(ticket.id, report, self.now).map_err(error)?;
            return Ok(());
        }
        let no_url = || Violation::new(Checker::Error, ticket.url.clone());
        let url = CrawlUrl::parse(&ticket.url).map_err(|_| no_url())?;
        let number = number_of(&url).ok_or_else(no_url)?;
        let (now, source) = (self.now.wall.0, &self.sources[number]);
        let mut report = Report::of(Outcome::Fetched, 200, took);
        report.digest = ticket.key.path | 1;
        if ticket.read_as != ReadAs::Feed {
            let story = source.story(url.path_and_query()).ok_or_else(no_url)?;
            *self.follows[number].captured.entry(story).or_default() += 1;
            let published = source.published[story];
            if published > BEGAN {
                self.counts.delays.push(((now - published) / SECOND) as u32);
            }
            self.frontier.handle_report(ticket.id, &report, self.now).map_err(error)?;
            return Ok(());
        }
        let record = self.frontier.feed(&ticket.key).map_err(error)?;
        let known = ticket.known.as_ref().filter(|_| record.conditional).map(|known| &*known.etag);
        let reply = source.answer(now, known);
        let (brought, stories) = single::read(source, &reply, &record, &url, known.is_some(), self.now.wall);
        match &reply {
            Reply::Down => (report.outcome, report.status) = (Outcome::NotFound, 404),
            Reply::NotModified => (report.outcome, report.status) = (Outcome::NotModified, 304),
            Reply::Body(_) if source.validators => report.etag = source.version(now).into(),
            Reply::Body(_) => {}
        }
        report.feed = Some(Box::new(brought));
        // Stories are durable before the poll that found them is reported.
        for story in &stories {
            self.offer(story.as_str(), 1, ReadAs::Story)?;
        }
        self.commit()?;
        let is_down = reply == Reply::Down;
        self.count(number, &reply, is_down);
        self.frontier.handle_report(ticket.id, &report, self.now).map_err(error)?;
        self.commit()?;
        Ok(())
    }

    /// A poll is reported: counts the stories it showed, and when the next is due, by the model.
    fn count(&mut self, number: usize, reply: &Reply, is_down: bool) {
        let (now, source) = (self.now.wall.0, &self.sources[number]);
        let follow = &mut self.follows[number];
        let mut is_new = false;
        if !is_down {
            let visible = source.visible(now);
            let first = follow.shown.max(visible.start);
            is_new = first < visible.end;
            self.counts.gone += (first - follow.shown) as u64 * u64::from(follow.due.is_some());
            follow.found.extend((first..visible.end).map(|story| (story, now)));
            follow.shown = visible.end;
        }
        self.counts.polls += 1;
        self.counts.not_modified += u64::from(*reply == Reply::NotModified);
        follow.due = Some(now + follow.rule.wait(is_new));
    }

    /// The process dies, and another begins after a while from the log.
    fn restart(&mut self, ms: u64) -> Result<(), Violation> {
        self.due.clear();
        self.advance(self.now.mono + ms);
        self.began = self.now.wall.0;
        let empty = Frontier::new(self.config.clone(), SECRET, Vec::new(), None);
        let states = std::mem::replace(&mut self.frontier, empty).into_states();
        let states = states.into_iter().map(|state| (Prefixes::ALL, state)).collect();
        self.frontier = Frontier::new(self.config.clone(), SECRET, states, Some(self.now));
        self.counts.restarts += 1;
        Ok(())
    }

    /// Every story that was in its feed at a poll is captured once; nothing is captured twice.
    fn judge(mut self, found: &[Vec<usize>]) -> Result<Counts, Violation> {
        for (number, found) in found.iter().enumerate() {
            let follow = &self.follows[number];
            let wrong = |what: String| {
                Err(Violation::new(Checker::Completeness, format!("{}: {what}", feed_url(number as u64))))
            };
            if let Some(story) = found.iter().find(|story| !follow.captured.contains_key(story)) {
                return wrong(format!("story {story} was in the feed and was not captured"));
            }
            if let Some((story, times)) = follow.captured.iter().find(|(_, times)| **times > 1) {
                return wrong(format!("story {story} was captured {times} times"));
            }
            let key = CrawlUrl::parse(&feed_url(number as u64)).map(|url| UrlKey::of(&url, &SECRET));
            let Ok(key) = key else { return wrong("no URL".into()) };
            let record = self.frontier.feed(&key).map_err(error)?;
            if record.stories != follow.found.len() as u64 {
                return wrong(format!(
                    "{} stories in its record, {} found",
                    record.stories,
                    follow.found.len()
                ));
            }
            self.counts.feeds += 1;
            self.counts.stories += follow.found.len() as u64;
        }
        Ok(self.counts)
    }
}
