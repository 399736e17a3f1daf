//! Explains why a URL waits: the same rules that decide, evaluated without a decision.

use std::fmt;
use std::time::Duration;

use super::hours;
use super::slot::SlotKey;
use super::workbench::RobotsPhase;
use super::{Frontier, dates};
use crate::key::UrlKey;
use crate::refusal::Refusal;
use crate::robots::{Group, Robots};
use crate::spider::outcome::Outcome;
use crate::state::record::{HostRecord, RobotsPolicy, Unread, UrlRecord, UrlState};
use crate::state::{State, StateError};
use crate::time::{Now, Timestamp};
use crate::url::CrawlUrl;

/// The state of a URL, and the reasons for which the URL waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its key.
    pub key: UrlKey,
    /// The state.
    pub standing: Standing,
    /// The reasons that hold its host back right now, the strongest first.
    pub held_by: Vec<Hold>,
    /// The stored record of the URL.
    pub record: Option<UrlRecord>,
    /// The stored record of its host.
    pub host: Option<HostRecord>,
    /// Milliseconds until the rests of its host and address are over. `None` if the host is not known or stopped.
    pub ready_in: Option<u64>,
    /// The rest in force between two requests to its host, in milliseconds. `None` if the host is not known.
    pub rest_ms: Option<u64>,
    /// Number of fetches of its host that are under way, or whose outcome is not counted yet.
    pub under_way: usize,
    /// Number of URLs of its host that come first, at most [`AHEAD_MAX`]. `None` if the URL does not wait.
    pub ahead: Option<u64>,
    /// The robots.txt of its host, if one was read.
    pub robots: Option<RobotsView>,
}

/// Maximum number of rules of a robots.txt with their text.
pub const RULES_MAX: usize = 100;

/// Maximum number of URLs counted before a URL.
pub const AHEAD_MAX: usize = 1_000;

/// URLs read at once while counting.
const AHEAD_READ: usize = 250;

/// A robots.txt that was read. Its times and its policy are in [`HostRecord::robots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsView {
    /// The group of rules that applies to us.
    pub group: Group,
    /// Number of rules in the group.
    pub rules: usize,
    /// The first of these rules in the order of the file, at most [`RULES_MAX`]: number and text of the line.
    pub lines: Vec<(usize, Box<str>)>,
    /// Whether they forbid everything, for any URL.
    pub forbids_all: bool,
    /// Stored bytes.
    pub bytes: usize,
    /// Statements about the use of the site's pages.
    pub notes: Vec<crate::robots::Note>,
}

/// The state of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Never admitted.
    Unknown,
    /// Waits in the queue of its host.
    Waiting,
    /// Loaded: among the next URLs of its host.
    AtHand,
    /// Being fetched.
    Fetching,
    /// Parked: beyond the budget of its domain.
    Parked {
        /// URLs that the budget admits by now.
        allowed: u64,
        /// URLs admitted so far.
        admitted: u64,
    },
    /// Scheduled for this time.
    Planned(Timestamp),
    /// Requested, with this outcome.
    Ended(Outcome),
    /// Refused: will not be fetched.
    Refused(Refusal),
}

/// A reason that holds a host back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Stopped by an operator, for this reason.
    Stopped(Box<str>),
    /// The robots.txt forbids the URL, by this line.
    Robots {
        /// The line's number.
        line: usize,
        /// The line.
        rule: Box<str>,
    },
    /// The robots.txt has to be fetched first.
    RobotsUnknown,
    /// The robots.txt cannot be read; the cause, if known.
    RobotsUnreachable(Option<Unread>),
    /// The host demanded a rest, or failed: backoff until this time.
    Resting(Timestamp),
    /// The robots.txt demands a crawl delay above the configured maximum, in milliseconds.
    CrawlDelay(u32),
    /// Requests are allowed at these hours only; the hours begin at this time.
    Hours(Box<str>, Timestamp),
    /// The rest between fetches (crawl delay) lasts for this number of milliseconds.
    Delay(u64),
    /// The address serves other hosts as well, and rests.
    Slot(SlotKey),
    /// The name has no address.
    NoAddress(Outcome),
    /// The host is not loaded into the workbench yet.
    NotActive,
}

impl<S: State> Frontier<S> {
    /// Explains a URL. Read-only.
    pub fn explain(&mut self, url: &CrawlUrl, now: Now) -> Result<Explanation, StateError> {
        let mut key = self.key(url);
        let here = self.partition_of(&key.host).zip(self.host_key(url));
        let Some((partition, host_key)) = here else {
            return Ok(Explanation {
                key,
                standing: Standing::Unknown,
                held_by: vec![],
                record: None,
                host: None,
                ready_in: None,
                rest_ms: None,
                under_way: 0,
                ahead: None,
                robots: None,
            });
        };
        key.host = host_key;
        let state = &mut self.partitions[partition].state;
        let record = state.url(&key)?;
        let host = state.host(&key.host)?;
        let domain = state.domain(key.host.domain)?.unwrap_or_default();
        let body = match host.as_ref().map(|host| host.robots.policy) {
            Some(RobotsPolicy::Rules) => state.robots(&key.host)?,
            _ => None,
        };
        let robots = body.as_ref().map(|body| Robots::parse(body, &self.config.agent));
        let bytes = body.map_or(0, |body| body.len());
        let robots_view = robots.as_ref().map(|robots| RobotsView {
            group: robots.group(),
            rules: robots.rule_count(),
            lines: robots.rules(RULES_MAX).into_iter().map(|(line, text)| (line, text.into())).collect(),
            forbids_all: robots.forbids_all(),
            notes: robots.notes().to_vec(),
            bytes,
        });
        let allowed = self.config.rules.budget.allowed(
            domain.found.0,
            crate::time::Seconds::from(now.wall).0,
            domain.budget,
        );
        let parked = Standing::Parked { allowed, admitted: domain.admitted };
        let index = self.bench.index(&key.host);
        let standing = match record.as_ref().map(|record| record.state) {
            None => Standing::Unknown,
            Some(UrlState::Waiting | UrlState::Parked | UrlState::Later(_))
                if index.is_some_and(|index| self.bench.is_fetching(index, key.path)) =>
            {
                Standing::Fetching
            }
            Some(UrlState::Waiting) if index.is_some_and(|index| self.bench.holds(index, key.path)) => {
                Standing::AtHand
            }
            Some(UrlState::Waiting) => Standing::Waiting,
            Some(UrlState::Parked | UrlState::ParkedBare) => parked,
            Some(UrlState::Later(due)) => {
                let ahead_max = self.plan_ahead_max(partition);
                Standing::Planned(dates::believed(due, ahead_max, now.wall).into())
            }
            Some(UrlState::Ended) => {
                let last = record.as_ref().and_then(|record| record.last.as_ref());
                Standing::Ended(last.map_or(Outcome::Cancelled, |last| last.outcome))
            }
            Some(UrlState::Refused(refusal)) => Standing::Refused(refusal),
        };
        let mut held_by = Vec::new();
        if let Some(host) = &host {
            if !host.stopped.is_empty() {
                held_by.push(Hold::Stopped(host.stopped.clone()));
            }
            let verdict = robots.as_ref().map(|robots| robots.verdict(url.path_and_query()));
            match (host.robots.policy, verdict) {
                (_, Some(verdict)) if !verdict.allowed => {
                    let (line, rule) = verdict.rule.unwrap_or((0, ""));
                    held_by.push(Hold::Robots { line, rule: rule.into() });
                }
                (RobotsPolicy::Unknown, _) => held_by.push(Hold::RobotsUnknown),
                (RobotsPolicy::DisallowAll, _) => held_by.push(Hold::RobotsUnreachable(host.robots.unread)),
                _ => {}
            }
            let delay = host.robots.crawl_delay;
            if Duration::from_millis(delay.into()) > self.config.frontier.crawl_delay_max {
                held_by.push(Hold::CrawlDelay(delay));
            }
            let rests = dates::rest_until(host, now.wall);
            if rests > now.wall {
                held_by.push(Hold::Resting(rests));
            }
        }
        let hours = hours::of(&self.config.frontier.hours, url.host_str());
        let opens_in = hours.and_then(|hours| hours.opens_in(now.wall));
        if let (Some(hours), Some(wait)) = (hours, opens_in) {
            held_by.push(Hold::Hours(hours.to_string().into(), Timestamp(now.wall.0 + wait)));
        }
        match index {
            None => held_by.push(Hold::NotActive),
            Some(index) => {
                let active = self.bench.host(index);
                if let Some(outcome) = active.no_address {
                    held_by.push(Hold::NoAddress(outcome));
                }
                if active.robots == RobotsPhase::Asked && !held_by.contains(&Hold::RobotsUnknown) {
                    held_by.push(Hold::RobotsUnknown);
                }
                let (host_wait, slot_wait) = self.bench.waits(index, now.mono);
                if host_wait > 0 {
                    held_by.push(Hold::Delay(host_wait));
                }
                if let Some(slot) = self.bench.slot_of(index).filter(|_| slot_wait > host_wait) {
                    held_by.push(Hold::Slot(slot));
                }
            }
        }
        let ready_in = host.as_ref().and_then(|host| self.ready_in(&key.host, Some(host), now));
        let ready_in = ready_in.map(|wait| wait.max(opens_in.unwrap_or(0)));
        let rest_ms = host.as_ref().map(|host| self.rest_ms(&key.host, host, now));
        let ahead = match &host {
            Some(host) if matches!(standing, Standing::Waiting | Standing::AtHand) => {
                Some(self.ahead(partition, &key, host)?)
            }
            _ => None,
        };
        let robots = robots_view;
        let under_way = index.map_or(0, |index| {
            let host = self.bench.host(index);
            host.tickets.len() + host.unfolded.len()
        });
        Ok(Explanation { key, standing, held_by, record, host, ready_in, rest_ms, under_way, ahead, robots })
    }

    /// Counts the URLs of the same host that come before a waiting URL.
    fn ahead(&mut self, partition: usize, key: &UrlKey, record: &HostRecord) -> Result<u64, StateError> {
        let active = self.bench.ordinary(&key.host).map(|index| self.bench.host(index));
        let heads = active.map_or(Vec::new(), |host| host.heads.all());
        if let Some(at) = heads.iter().position(|head| head.path == key.path) {
            return Ok(at as u64);
        }
        let mut behind = active.map_or(record.floor, |host| host.cursor);
        let mut count = heads.len();
        let mut queued = Vec::new();
        while count < AHEAD_MAX {
            queued.clear();
            self.partitions[partition].state.queued(&key.host, behind, AHEAD_READ, &mut queued)?;
            // A place carries half of the URL's key: enough to find the URL among a thousand.
            if let Some(at) = queued.iter().position(|queued| queued.place.low == key.path as u32) {
                count += at;
                break;
            }
            count += queued.len();
            match queued.last() {
                Some(last) if queued.len() == AHEAD_READ => behind = last.place,
                // The reader has passed the URL: its turn has come, and its outcome is about to be written.
                _ => return Ok(0),
            }
        }
        Ok(count.min(AHEAD_MAX) as u64)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Unknown => f.write_str("not known: nobody has offered it, or it was out of scope"),
            Standing::Waiting => f.write_str("waiting in the queue of its host"),
            Standing::AtHand => f.write_str("at hand: among the next of its host"),
            Standing::Fetching => f.write_str("being fetched"),
            Standing::Parked { allowed, admitted } => {
                write!(f, "parked: its domain may have {allowed} URLs and has {admitted}")
            }
            Standing::Planned(due) => write!(f, "to be asked for at {due}"),
            Standing::Ended(outcome @ Outcome::CutLength) => {
                write!(f, "ended: {outcome}: its body was cut at spider.body_bytes_max, the rest is not kept")
            }
            Standing::Ended(outcome) => write!(f, "ended: {outcome}"),
            Standing::Refused(refusal) => {
                write!(f, "refused: {}: {}", refusal.name(), refusal.meaning().trim())
            }
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::Stopped(why) => write!(f, "the host is stopped: {why}"),
            Hold::Robots { line, rule } => write!(f, "robots.txt forbids it, line {line}: {rule}"),
            Hold::RobotsUnknown => f.write_str("robots.txt has to be read first"),
            Hold::RobotsUnreachable(None) => {
                f.write_str("robots.txt cannot be reached, so nothing may be fetched")
            }
            Hold::RobotsUnreachable(Some(why)) => {
                write!(f, "robots.txt cannot be read ({why}), so nothing may be fetched")
            }
            Hold::Resting(until) => write!(f, "the host rests until {until}"),
            Hold::CrawlDelay(ms) => {
                write!(f, "robots.txt asks for {} s between fetches, and gets them", ms.div_ceil(1_000))
            }
            Hold::Hours(hours, opens) => write!(f, "the host may be asked from {hours}, next at {opens}"),
            Hold::Delay(ms) => write!(f, "the host rests between fetches for another {ms} ms"),
            Hold::Slot(slot) => write!(f, "the address {slot} serves other hosts as well and rests"),
            Hold::NoAddress(outcome) => write!(f, "the name has no address: {outcome}"),
            Hold::NotActive => f.write_str("the host is not among those that are asked now: nothing of it is due, or its turn has not come"),
        }
    }
}
