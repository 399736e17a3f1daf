//! The explanation of a URL as an answer: its parts, and the summary that follows from them.

use nephila_core::frontier::explain::{Explanation, Hold, Standing};
use nephila_core::refusal::Refusal;
use nephila_core::robots::Group;
use nephila_core::spider::outcome::{Class, Outcome};
use nephila_core::state::record::{HostRecord, RobotsPolicy};
use nephila_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a URL, in one word.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Summary {
    /// The URL was fetched.
    Fetched,
    /// The URL redirects to another URL.
    Redirected,
    /// A fetch of the URL is running.
    Fetching,
    /// The URL waits in a queue.
    Queued,
    /// The URL waits for the budget of its domain.
    Parked,
    /// The last fetch failed.
    Failed,
    /// robots.txt forbids the URL.
    Robots,
    /// The URL is outside the scope of the job.
    OutOfScope,
    /// The URL matches a trap rule: one of endlessly many similar URLs.
    Trap,
    /// The URL was never discovered.
    Unknown,
    /// The text is not a URL that can be fetched.
    BadUrl,
}

impl Summary {
    /// The name used in JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Summary::Fetched => "fetched",
            Summary::Redirected => "redirected",
            Summary::Fetching => "fetching",
            Summary::Queued => "queued",
            Summary::Parked => "parked",
            Summary::Failed => "failed",
            Summary::Robots => "robots",
            Summary::OutOfScope => "out of scope",
            Summary::Trap => "trap",
            Summary::Unknown => "unknown",
            Summary::BadUrl => "no URL",
        }
    }

    /// Whether the URL was fetched or will be fetched.
    pub const fn is_yes(self) -> bool {
        matches!(self, Summary::Fetched | Summary::Redirected | Summary::Fetching | Summary::Queued)
    }
}

/// Everything known about a URL.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The URL as requested.
    pub url: String,
    /// The state in one word.
    pub summary: Summary,
    /// The reason in one sentence.
    pub because: String,
    /// Canonical form of the URL, under which the page is deduplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Verdict of the job's scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// The trap rule that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<String>,
    /// State in the frontier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// Reasons that hold back the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// robots.txt of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots: Option<RobotsView>,
    /// Time of the first discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Number of links from a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// The page with the first discovered link to this URL, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The hops from a seed to the URL, in the letters of Heritrix: L link, E embedded, R redirect, M sitemap.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hops: String,
    /// Number of retries.
    #[serde(default)]
    pub retries: u8,
    /// The last fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastView>,
    /// Time of the next fetch, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Expected seconds until the fetch, computed from crawl delays alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_s: Option<u64>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// Record from a stream of visited URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamView>,
}

/// Record of a URL from a stream of visited URLs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct StreamView {
    /// Page id of the last line that has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub page_id: String,
    /// The last update tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// Time of the last line.
    pub last: String,
    /// Time of the last line that was sent on.
    pub sent: String,
    /// Hits that are not yet sent on.
    pub hits_waiting: u64,
}

/// Verdict of the scope.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ScopeView {
    /// Whether the URL is in scope.
    pub wanted: bool,
    /// The rule that decided.
    pub rule: String,
    /// Origin of the rule.
    pub origin: String,
    /// The job of the rule.
    pub job: String,
}

impl ScopeView {
    pub(super) fn because(&self) -> String {
        format!("{} ({}, job {:?})", self.rule, self.origin, self.job)
    }
}

/// robots.txt of a host.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct RobotsView {
    /// The resulting policy.
    pub policy: String,
    /// Number and text of the line that forbids the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<(usize, String)>,
    /// Reason why the last fetch of robots.txt failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Time since which robots.txt cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_since: Option<String>,
    /// Time of the fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// Time of the next fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The crawl delay that robots.txt asks for.
    #[serde(default)]
    pub crawl_delay_ms: u32,
    /// The group of robots.txt that applies to us: `named`, `everybody` or `none`; empty without a robots.txt with rules.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Number of rules in the group.
    #[serde(default)]
    pub rules: u64,
    /// The first of these rules in the order of the file: number and text of the line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<(usize, String)>,
    /// Whether everything is forbidden: by the rules, or because robots.txt cannot be read.
    #[serde(default)]
    pub forbids_all: bool,
}

/// The last fetch of a URL.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LastView {
    /// When the fetch ended.
    pub at: String,
    /// The outcome.
    pub outcome: String,
    /// Meaning of the outcome, in words.
    pub meaning: String,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// State of a host.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct HostView {
    /// Scheme, name and port.
    pub origin: String,
    /// Number of URLs in the queue.
    pub waiting: u64,
    /// Number of URLs beyond the domain's budget.
    pub parked: u64,
    /// Number of URLs scheduled for a fixed time.
    pub later: u64,
    /// Number of fetches under way, or not counted yet.
    #[serde(default)]
    pub under_way: u64,
    /// Number of fetches that ended.
    pub ended: u64,
    /// Number of consecutive failures caused by the host.
    pub failures: u8,
    /// No fetch before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_until: Option<String>,
    /// Crawl delay set by an operator.
    #[serde(default)]
    pub delay_ms: u32,
    /// The rest in force between two requests in milliseconds.
    #[serde(default)]
    pub rest_ms: u64,
    /// Milliseconds until the rests of host and address are over; none for a stopped host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_in_ms: Option<u64>,
    /// Reason why an operator stopped the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stopped: String,
    /// Time of the first discovery.
    pub found: String,
    /// robots.txt of the host.
    pub robots: RobotsView,
    /// Reasons that hold back the host now.
    #[serde(default)]
    pub held_by: Vec<String>,
}

/// Counters and gauges of a running crawl.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct StatsView {
    /// URLs offered.
    pub offered: u64,
    /// Tickets for pages.
    pub tickets: u64,
    /// Tickets for robots.txt.
    pub robots: u64,
    /// Outcomes processed.
    pub ended: u64,
    /// URLs rejected before a fetch.
    pub turned_away: u64,
    /// Tickets without an outcome before their deadline.
    pub expired: u64,
    /// Open tickets.
    pub tickets_open: usize,
    /// Hosts on the workbench.
    pub hosts_active: usize,
    /// Queued offers.
    pub offers_waiting: usize,
    /// URLs in queues.
    #[serde(default)]
    pub urls_waiting: u64,
    /// URLs scheduled for a fixed time.
    #[serde(default)]
    pub urls_later: u64,
    /// URLs that are parked.
    #[serde(default)]
    pub urls_parked: u64,
    /// Live tasks of the process.
    #[serde(default)]
    pub tasks: usize,
    /// Size of the journals in bytes.
    pub journal_bytes: u64,
    /// Number of commits.
    pub commits: u64,
    /// Duration of the longest commit in milliseconds.
    pub commit_ms_max: u64,
}

impl Explained {
    /// The explanation of a text that is not a URL. Such a text belongs to no partition: every node can answer.
    pub fn bad(text: &str, error: String) -> Explained {
        Explained {
            url: text.to_owned(),
            summary: Summary::BadUrl,
            because: error,
            canonical: None,
            scope: None,
            trap: None,
            standing: None,
            held_by: Vec::new(),
            robots: None,
            found: None,
            depth: None,
            via: None,
            hops: String::new(),
            retries: 0,
            last: None,
            next: None,
            expected_s: None,
            host: None,
            stream: None,
        }
    }

    /// Derives the summary and the reason.
    pub(super) fn conclude(&mut self, explanation: &Explanation) {
        let forbidden = explanation.held_by.iter().find(|hold| matches!(hold, Hold::Robots { .. }));
        let waits = |explained: &mut Explained, summary| {
            explained.held_by = explanation.held_by.iter().map(Hold::to_string).collect();
            match (forbidden, explained.held_by.first()) {
                (Some(forbidden), _) => (Summary::Robots, forbidden.to_string()),
                (None, Some(first)) => (summary, format!("{}; {first}", explanation.standing)),
                (None, None) => (summary, explanation.standing.to_string()),
            }
        };
        let (summary, because) = match &explanation.standing {
            Standing::Fetching => (Summary::Fetching, "it is being fetched right now".to_owned()),
            Standing::Waiting | Standing::AtHand => waits(self, Summary::Queued),
            Standing::Parked { .. } => waits(self, Summary::Parked),
            Standing::Planned(due) => {
                let stopped = explanation.held_by.iter().find(|hold| matches!(hold, Hold::Stopped(_)));
                match stopped {
                    Some(stopped) => self.held_by.push(stopped.to_string()),
                    None => self.next = Some(due.warc_date()),
                }
                match self.last.as_ref().and_then(|last| Outcome::by_name(&last.outcome)) {
                    Some(last) if last.class() == Class::Ok => ended(last, self.last.as_ref(), None),
                    _ => waits(self, Summary::Queued),
                }
            }
            Standing::Ended(outcome) => ended(*outcome, self.last.as_ref(), forbidden),
            Standing::Refused(refusal) => {
                let summary = match refusal {
                    Refusal::Depth | Refusal::Limit => Summary::OutOfScope,
                    _ => Summary::Trap,
                };
                (summary, refusal.meaning().trim().to_owned())
            }
            Standing::Unknown => match (&self.scope, &self.trap) {
                (Some(scope), _) if !scope.wanted => (Summary::OutOfScope, scope.because()),
                (_, Some(trap)) => (Summary::Trap, trap.clone()),
                _ if forbidden.is_some() => {
                    (Summary::Robots, forbidden.map(Hold::to_string).unwrap_or_default())
                }
                _ => (Summary::Unknown, "nobody found it yet; it would be in scope".to_owned()),
            },
        };
        self.summary = summary;
        self.because = because;
    }
}

/// How a visit ended. `forbidden` is the rule of robots.txt that holds the URL now: it is named as the cause of a refusal.
fn ended(outcome: Outcome, last: Option<&LastView>, forbidden: Option<&Hold>) -> (Summary, String) {
    let at = last.map(|last| format!(" at {}", last.at)).unwrap_or_default();
    let status = last.and_then(|last| last.status).map(|status| format!(" {status}")).unwrap_or_default();
    let why = match forbidden {
        Some(rule) if outcome == Outcome::RobotsDenied => rule.to_string(),
        _ => outcome.meaning().trim().to_owned(),
    };
    let because = format!("{}{status}{at}: {why}", outcome.name());
    let summary = match outcome {
        Outcome::Redirect => Summary::Redirected,
        Outcome::RobotsDenied => Summary::Robots,
        Outcome::OutOfScope => Summary::OutOfScope,
        outcome if outcome.class() == Class::Ok => Summary::Fetched,
        _ => Summary::Failed,
    };
    (summary, because)
}

pub(super) fn robots_view(host: &HostRecord, explanation: &Explanation, held_by: &[Hold]) -> RobotsView {
    let robots = &host.robots;
    let read = explanation.robots.as_ref();
    let group = read.map_or("", |read| match read.group {
        Group::None => "none",
        Group::Everybody => "everybody",
        Group::Named => "named",
    });
    let policy = match robots.policy {
        RobotsPolicy::Unknown => "not asked for yet",
        RobotsPolicy::AllowAll => "everything is allowed",
        RobotsPolicy::DisallowAll => "everything is forbidden",
        RobotsPolicy::Rules => "it has rules",
    };
    let rule = held_by.iter().find_map(|hold| match hold {
        Hold::Robots { line, rule } => Some((*line, rule.to_string())),
        _ => None,
    });
    let asked = robots.policy != RobotsPolicy::Unknown;
    let time = |at| asked.then(|| Timestamp::from(at).warc_date());
    RobotsView {
        policy: policy.to_owned(),
        rule,
        unread: robots.unread.map(|why| why.to_string()),
        unread_since: (robots.unreachable_since.0 > 0)
            .then(|| Timestamp::from(robots.unreachable_since).warc_date()),
        fetched: time(robots.fetched),
        expires: time(robots.expires),
        crawl_delay_ms: robots.crawl_delay,
        group: group.to_owned(),
        rules: read.map_or(0, |read| read.rules as u64),
        lines: read.map_or_else(Vec::new, |read| {
            read.lines.iter().map(|(line, text)| (*line, text.to_string())).collect()
        }),
        forbids_all: robots.policy == RobotsPolicy::DisallowAll || read.is_some_and(|read| read.forbids_all),
    }
}

pub(super) fn host_view(host: &HostRecord, explanation: &Explanation, held_by: &[Hold]) -> HostView {
    HostView {
        origin: host.origin.to_string(),
        waiting: host.waiting,
        parked: host.parked,
        later: host.later,
        under_way: explanation.under_way as u64,
        ended: host.ended,
        failures: host.failures,
        rest_until: (host.rest_until.0 > 0).then(|| host.rest_until.warc_date()),
        delay_ms: host.delay,
        rest_ms: explanation.rest_ms.unwrap_or(0),
        ready_in_ms: explanation.ready_in,
        stopped: host.stopped.to_string(),
        found: Timestamp::from(host.found).warc_date(),
        robots: robots_view(host, explanation, held_by),
        held_by: held_by.iter().map(Hold::to_string).collect(),
    }
}

#[cfg(test)]
mod tests;
