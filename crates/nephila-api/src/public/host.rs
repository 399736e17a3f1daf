//! What the operator of a host may see: our requests to the host, the gaps that we promised, and robots.txt as we read it.
//!
//! Made from the answers of other operations, without what is ours alone: reasons of stops, addresses, other hosts, jobs.

use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Crawler;
use crate::explain::{HostView, RobotsView};
use crate::politeness::PolitenessSaid;
use crate::timeline::{RequestSaid, TimelineSaid};

/// Number of requests in an answer.
pub(super) const REQUESTS_MAX: usize = 100;
/// The Crawl-delay in seconds that operators are told who want less; twice the pause if that is longer already.
const SLOW_S: u64 = 10;

/// A host, for its operator.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PublicHost {
    /// Name of the host, with its port if that is not the usual one.
    pub host: String,
    /// Time of the answer.
    pub now: String,
    /// Who crawls.
    pub crawler: Crawler,
    /// Start of the first of the counted requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Number of requests since then.
    pub requests_total: u64,
    /// Of these, requests for robots.txt.
    pub robots_requests: u64,
    /// Of these, requests that came sooner than promised.
    pub violations: u64,
    /// Whether these are all requests that the log has. Otherwise they are the newest.
    pub complete: bool,
    /// The host over https and over http, as far as it is known.
    pub sites: Vec<PublicSite>,
    /// The last requests, the newest first.
    pub requests: Vec<PublicRequest>,
    /// Lines of robots.txt that stop this crawler.
    pub stop_lines: Vec<String>,
    /// Lines that make this crawler slower, for a robots.txt without rules that apply to this crawler.
    pub slow_lines: Vec<String>,
}

/// A host over one scheme.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PublicSite {
    /// Scheme, name and port.
    pub origin: String,
    /// `open`, `later`, `resting`, `stopped`, `robots`, `done` or `unknown`.
    pub state: String,
    /// The state in a sentence.
    pub sentence: String,
    /// Number of URLs that wait.
    pub queued: u64,
    /// Pause between the end of a request and the start of the next one, in milliseconds.
    pub delay_ms: u64,
    /// Where the pause comes from, in words.
    pub delay_why: String,
    /// No request for a page before this time; none if nothing waits, or nothing may be requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Lines to be added to its robots.txt that make this crawler slower and lift no rule: to the group that names this
    /// crawler if there is one (`robots.group`), else a group that repeats the rules of `robots.lines`.
    #[serde(default)]
    pub slow_lines: Vec<String>,
    /// Its robots.txt, as we read it.
    pub robots: PublicRobots,
}

/// A robots.txt, as we read it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PublicRobots {
    /// The resulting policy, in words.
    pub policy: String,
    /// The group that applies to us: `named`, `everybody` or `none`; empty without rules.
    pub group: String,
    /// Number of rules in the group.
    pub rules: u64,
    /// The first of these rules: number and text of the line.
    pub lines: Vec<(usize, String)>,
    /// The Crawl-delay of the group in milliseconds; 0 without one.
    pub crawl_delay_ms: u32,
    /// Time of the last fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// Time of the next fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Why it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_since: Option<String>,
}

/// A request.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PublicRequest {
    /// Start of the request in milliseconds since 1970.
    pub at_ms: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// `https` or `http`.
    pub scheme: String,
    /// Path and query.
    pub path: String,
    /// The outcome, by the name in `docs/outcomes.md`.
    pub outcome: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `page`, `robots` or `head`.
    pub purpose: String,
    /// Milliseconds from the end of the request before to the start of this one; none if no earlier one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// The pause that was promised when the request began.
    pub promised_ms: u64,
}

/// What is known of a host over one scheme.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) origin: String,
    /// The host; none if nobody could be asked, `Some(None)` if the host is not known.
    pub(super) host: Option<Option<HostView>>,
    pub(super) timeline: TimelineSaid,
    pub(super) polite: PolitenessSaid,
}

impl Seen {
    /// Whether there is anything to show.
    fn is_anything(&self) -> bool {
        !matches!(self.host, Some(None)) || !self.timeline.requests.is_empty()
    }
}

impl PublicHost {
    /// The answer from what is known over each scheme, at this time. `usual_ms` is the pause that the settings set.
    pub(super) fn of(
        host: &str,
        crawler: Crawler,
        seen: Vec<Seen>,
        now: Timestamp,
        usual_ms: u64,
    ) -> PublicHost {
        let agent = crawler.agent.clone();
        let stop_lines = vec![format!("User-agent: {agent}"), "Disallow: /".to_owned()];
        let slow_lines = slower(&agent, usual_ms, &PublicRobots::default());
        let mut said = PublicHost {
            host: host.to_owned(),
            now: now.warc_date(),
            crawler,
            from: None,
            requests_total: 0,
            robots_requests: 0,
            violations: 0,
            complete: true,
            sites: Vec::new(),
            requests: Vec::new(),
            stop_lines,
            slow_lines,
        };
        for seen in seen.into_iter().filter(Seen::is_anything) {
            let Seen { origin, host, timeline, polite } = seen;
            said.from = said.from.take().into_iter().chain(polite.from).min();
            said.requests_total += polite.requests;
            said.robots_requests += polite.robots_requests;
            said.violations += polite.violations;
            said.complete &= polite.complete;
            said.requests.extend(timeline.requests.into_iter().map(|request| shown(&origin, request)));
            said.sites.push(PublicSite::of(origin, host.flatten(), now, usual_ms).slowed(&agent));
        }
        said.requests.sort_by_key(|request| std::cmp::Reverse(request.at_ms));
        said.requests.truncate(REQUESTS_MAX);
        said
    }
}

impl PublicSite {
    fn of(origin: String, host: Option<HostView>, now: Timestamp, usual_ms: u64) -> PublicSite {
        let Some(host) = host else {
            return PublicSite {
                origin,
                state: "unknown".to_owned(),
                sentence: "What waits is not known right now.".to_owned(),
                queued: 0,
                delay_ms: usual_ms,
                delay_why: String::new(),
                next: None,
                slow_lines: Vec::new(),
                robots: PublicRobots::default(),
            };
        };
        let queued = host.waiting + host.later;
        let ready_in = host.ready_in_ms.unwrap_or(0);
        let rests = host.rest_until.as_ref().filter(|until| **until > now.warc_date());
        let (state, sentence) = if !host.stopped.is_empty() {
            ("stopped", "The operator of the crawl has stopped all requests to this host.".to_owned())
        } else if host.robots.unread_since.is_some() {
            ("robots", "robots.txt cannot be read, so nothing else is requested.".to_owned())
        } else if host.robots.forbids_all {
            ("robots", "robots.txt forbids everything, so nothing else is requested.".to_owned())
        } else if let Some(until) = rests {
            let why = if host.failures > 0 { "after failed requests" } else { "as the host asked" };
            ("resting", format!("No request before {until}, {why}."))
        } else if queued == 0 {
            ("done", "No URL of this host waits.".to_owned())
        } else if host.waiting == 0 {
            ("later", "The URLs of this host wait for a time of their own.".to_owned())
        } else {
            ("open", "URLs are requested one after the other, with the pause below between them.".to_owned())
        };
        let next = (["open", "resting"].contains(&state) && host.waiting > 0)
            .then(|| Timestamp(now.0.saturating_add(ready_in)).warc_date());
        PublicSite {
            origin,
            state: state.to_owned(),
            sentence,
            queued,
            delay_ms: host.rest_ms,
            delay_why: delay_why(&host, usual_ms).to_owned(),
            next,
            slow_lines: Vec::new(),
            robots: PublicRobots::of(host.robots),
        }
    }

    /// With the lines that make the crawler of this name slower.
    fn slowed(mut self, agent: &str) -> PublicSite {
        self.slow_lines = slower(agent, self.delay_ms, &self.robots);
        self
    }
}

/// Lines to be added to a robots.txt, with a Crawl-delay above the pause in force. A group that names us replaces the
/// one for everybody, even if empty, so the rules of the latter are repeated.
fn slower(agent: &str, pause_ms: u64, robots: &PublicRobots) -> Vec<String> {
    let pause_s = pause_ms.div_ceil(1_000);
    let seconds = if pause_s < SLOW_S { SLOW_S } else { pause_s.saturating_mul(2) };
    let delay = format!("Crawl-delay: {seconds}");
    match &*robots.group {
        "named" => vec![delay],
        "everybody" => {
            let rules = robots.lines.iter().map(|(_, line)| line.clone());
            [format!("User-agent: {agent}"), delay].into_iter().chain(rules).collect()
        }
        _ => vec![format!("User-agent: {agent}"), delay],
    }
}

/// Where the pause between two requests comes from.
fn delay_why(host: &HostView, usual_ms: u64) -> &'static str {
    let rest = host.rest_ms;
    match rest {
        0 => "there is no pause",
        _ if rest == u64::from(host.robots.crawl_delay_ms) => "robots.txt asks for it (Crawl-delay)",
        _ if rest == u64::from(host.delay_ms) => "the operator of the crawl set it for this host",
        _ if rest == usual_ms => "the usual pause of this crawl",
        _ => "longer than usual, because the last answer took long",
    }
}

impl PublicRobots {
    fn of(robots: RobotsView) -> PublicRobots {
        let RobotsView { policy, unread, unread_since, fetched, expires, crawl_delay_ms, .. } = robots;
        let (group, rules, lines) = (robots.group, robots.rules, robots.lines);
        PublicRobots { policy, group, rules, lines, crawl_delay_ms, fetched, expires, unread, unread_since }
    }
}

/// A request without its host.
fn shown(origin: &str, request: RequestSaid) -> PublicRequest {
    let RequestSaid { at_ms, took_ms, url, outcome, status, purpose, gap_ms, promised_ms } = request;
    let path = match CrawlUrl::parse(&url) {
        Ok(url) => url.path_and_query().to_owned(),
        Err(_) => url.strip_prefix(origin).unwrap_or_default().to_owned(),
    };
    let scheme = origin.split("://").next().unwrap_or_default().to_owned();
    PublicRequest { at_ms, took_ms, scheme, path, outcome, status, purpose, gap_ms, promised_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn view() -> HostView {
        HostView {
            origin: "http://a.test".into(),
            waiting: 5,
            parked: 0,
            later: 2,
            under_way: 0,
            ended: 9,
            failures: 0,
            rest_until: None,
            delay_ms: 0,
            rest_ms: 1_000,
            ready_in_ms: Some(700),
            stopped: String::new(),
            found: NOW.warc_date(),
            robots: RobotsView {
                policy: "it has rules".into(),
                rule: None,
                unread: None,
                unread_since: None,
                fetched: None,
                expires: None,
                crawl_delay_ms: 0,
                group: "named".into(),
                rules: 1,
                lines: vec![(3, "Disallow: /x".into())],
                forbids_all: false,
            },
            held_by: vec!["the address serves other.test as well".into()],
        }
    }

    fn site(change: impl FnOnce(&mut HostView)) -> PublicSite {
        let mut host = view();
        change(&mut host);
        PublicSite::of("http://a.test".into(), Some(host), NOW, 1_000)
    }

    #[test]
    fn a_site_says_what_it_waits_for_and_when_it_is_next() {
        let open = site(|_| ());
        assert_eq!((&*open.state, open.queued), ("open", 7));
        assert_eq!(open.next, Some(Timestamp(NOW.0 + 700).warc_date()));
        assert_eq!(open.robots.lines, [(3, "Disallow: /x".to_owned())]);
        let states = [
            site(|host| host.stopped = "mail of Mr Secret".into()),
            site(|host| host.robots.unread_since = Some(NOW.warc_date())),
            site(|host| host.robots.forbids_all = true),
            site(|host| host.rest_until = Some(Timestamp(NOW.0 + 60_000).warc_date())),
            site(|host| host.rest_until = Some(Timestamp(NOW.0 - 60_000).warc_date())),
            site(|host| (host.waiting, host.later) = (0, 0)),
            site(|host| host.waiting = 0),
        ];
        let names: Vec<&str> = states.iter().map(|site| &*site.state).collect();
        assert_eq!(names, ["stopped", "robots", "robots", "resting", "open", "done", "later"]);
        let has_next: Vec<bool> = states.iter().map(|site| site.next.is_some()).collect();
        assert_eq!(has_next, [false, false, false, true, true, false, false]);
        let all = serde_json::to_string(&states).unwrap();
        assert!(!all.contains("Secret") && !all.contains("other.test"), "{all}");
    }

    #[test]
    fn the_pause_says_where_it_comes_from() {
        for (rest, robots, operator, why) in [
            (1_000, 0, 0, "usual pause"),
            (5_000, 5_000, 0, "Crawl-delay"),
            (5_000, 2_000, 5_000, "operator"),
            (9_000, 5_000, 0, "took long"),
            (0, 0, 0, "no pause"),
        ] {
            let said = site(|host| {
                (host.rest_ms, host.robots.crawl_delay_ms, host.delay_ms) = (rest, robots, operator);
            });
            assert!(said.delay_why.contains(why), "{rest}: {}", said.delay_why);
        }
    }

    #[test]
    fn lines_that_make_us_slower_lift_no_rule_of_the_site() {
        let lines = |group: &str, pause_ms: u64| {
            let said = site(|host| {
                (host.robots.group, host.rest_ms) = (group.into(), pause_ms);
                host.robots.lines.push((4, "Allow: /x/y".into()));
            });
            said.slowed("Nephila").slow_lines
        };
        let named = "User-agent: Nephila";
        assert_eq!(lines("everybody", 1_000), [named, "Crawl-delay: 10", "Disallow: /x", "Allow: /x/y"]);
        assert_eq!(lines("named", 1_000), ["Crawl-delay: 10"], "the group has its rules");
        assert_eq!(lines("none", 1_000), [named, "Crawl-delay: 10"]);
        assert_eq!(lines("", 0), [named, "Crawl-delay: 10"]);
        assert_eq!(lines("named", 10_000), ["Crawl-delay: 20"], "more than the pause in force");
        // By our own reader, the lines behind the file that they are made for.
        let file = "User-agent: *\nDisallow: /x\nAllow: /x/y\n";
        let said = format!("{file}{}\n", lines("everybody", 1_000).join("\n"));
        let robots = nephila_core::robots::Robots::parse(said.as_bytes(), "Nephila");
        let allowed = ["/", "/x", "/x/y"].map(|path| robots.verdict(path).allowed);
        assert_eq!(allowed, [true, false, true]);
        assert_eq!(robots.crawl_delay(), Some(std::time::Duration::from_secs(10)));
    }

    #[test]
    fn the_requests_over_both_schemes_are_one_list_without_names_of_hosts() {
        let request = |at_ms, url: &str| RequestSaid { at_ms, url: url.into(), ..RequestSaid::default() };
        let seen = |origin: &str, times: &[u64]| Seen {
            origin: origin.into(),
            host: Some(times.is_empty().then(view)),
            timeline: TimelineSaid {
                requests: times.iter().map(|at| request(*at, &format!("{origin}/p?x=<b>{at}"))).collect(),
                ..TimelineSaid::default()
            },
            polite: PolitenessSaid {
                requests: times.len() as u64,
                violations: 1,
                from: times.iter().min().map(|at| Timestamp(*at).warc_date()),
                complete: true,
                ..PolitenessSaid::default()
            },
        };
        let crawler = Crawler { agent: "Nephila".into(), ..Crawler::default() };
        let both = vec![seen("https://a.test", &[5_000, 3_000]), seen("http://a.test", &[4_000])];
        let said = PublicHost::of("a.test", crawler.clone(), both, NOW, 1_000);
        let order: Vec<(u64, &str)> = said.requests.iter().map(|it| (it.at_ms, &*it.scheme)).collect();
        assert_eq!(order, [(5_000, "https"), (4_000, "http"), (3_000, "https")]);
        assert!(said.requests[0].path.starts_with("/p?x="), "{}", said.requests[0].path);
        assert_eq!((said.requests_total, said.violations, said.sites.len()), (3, 2, 2));
        assert_eq!(said.from.as_deref(), Some("1970-01-01T00:00:03Z"));
        assert_eq!(said.stop_lines, ["User-agent: Nephila", "Disallow: /"]);
        assert_eq!(said.slow_lines, ["User-agent: Nephila", "Crawl-delay: 10"]);
        assert!(said.sites.iter().all(|site| site.slow_lines == said.slow_lines));
        let nobody = Seen { origin: "http://b.test".into(), host: Some(None), ..Seen::default() };
        assert_eq!(PublicHost::of("b.test", crawler, vec![nobody], NOW, 1_000).sites, []);
    }
}
