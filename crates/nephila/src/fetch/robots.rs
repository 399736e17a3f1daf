//! robots.txt for `nephila fetch`: requested once per origin and run, before the first URL of that origin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nephila_core::robots::{self, Policy, REDIRECTS_MAX, Robots, RobotsResult, in_force};
use nephila_core::spider::Outcome;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Keep, Request};
use tokio::sync::OnceCell;

use super::run::Runner;
use nephila_engine::crawl::robots::RobotsRead;
use nephila_engine::settings;

/// Maximum number of origins in the cache. After an eviction the robots.txt is requested again, never ignored.
const ORIGINS_MAX: usize = 100_000;

/// The crawl delay that the site demands, or why the URL may not be fetched.
pub(super) type Verdict = Result<Option<Duration>, (Outcome, String)>;

/// The rules in force at one origin.
enum Rules {
    AllowAll,
    DisallowAll,
    These(Box<Robots>),
}

/// Why an origin has no rules. Never cached.
enum NoRules {
    /// No request was made: no such name, no connection, not allowed. The same reason applies to the URLs of the
    /// origin.
    Unreached(Outcome, String),
    /// The command cannot go on.
    Failed(anyhow::Error),
}

/// The rules of all origins of a run.
pub(super) struct RobotsCache {
    agent: String,
    bytes_max: u64,
    policy: robots::Settings,
    origins: Mutex<HashMap<String, Arc<OnceCell<Rules>>>>,
}

impl RobotsCache {
    pub(super) fn new(agent: &str, settings: &settings::Robots) -> Self {
        RobotsCache {
            agent: agent.to_owned(),
            bytes_max: settings.bytes_max,
            policy: settings.policy(),
            origins: Mutex::default(),
        }
    }

    /// Whether `url` may be requested, and the crawl delay of its host. The first caller waits for robots.txt, the
    /// others wait for the first.
    pub(super) async fn verdict(&self, url: &CrawlUrl, runner: &Runner) -> anyhow::Result<Verdict> {
        let cell = self.cell(url.origin().to_owned());
        let rules = match cell.get_or_try_init(|| self.ask(url, runner)).await {
            Ok(rules) => rules,
            Err(NoRules::Unreached(outcome, detail)) => return Ok(Err((outcome, detail))),
            Err(NoRules::Failed(error)) => return Err(error),
        };
        Ok(match rules {
            Rules::AllowAll => Ok(None),
            Rules::DisallowAll => Err((
                Outcome::RobotsUnreachable,
                "robots.txt cannot be read, so nothing may be fetched".into(),
            )),
            Rules::These(robots) => {
                let verdict = robots.verdict(url.path_and_query());
                if verdict.allowed {
                    return Ok(Ok(robots.crawl_delay()));
                }
                let rule =
                    verdict.rule.map_or_else(String::new, |(line, text)| format!(": {text} (line {line})"));
                Err((Outcome::RobotsDenied, format!("robots.txt forbids it{rule}")))
            }
        })
    }

    /// Requests robots.txt and follows its redirects, as many as RFC 9309 allows.
    async fn ask(&self, url: &CrawlUrl, runner: &Runner) -> Result<Rules, NoRules> {
        let Ok(mut at) = url.join("/robots.txt") else { return Ok(Rules::DisallowAll) };
        for _ in 0..=REDIRECTS_MAX {
            let keep = Keep { decoded: true, ..Keep::default() };
            let limit = Some(self.bytes_max);
            let request = Request { keep, body_bytes_max: limit, ..Request::get(at.clone()) };
            let fetched = runner.fetch_politely(&request, Duration::ZERO).await.map_err(NoRules::Failed)?;
            match &fetched.redirect {
                Some(target) => at = target.clone(),
                None if fetched.requests == 0 && at.origin() == url.origin() => {
                    return Err(NoRules::Unreached(fetched.outcome, fetched.detail));
                }
                None => return Ok(self.rules(&fetched)),
            }
        }
        Ok(self.rules_of(RobotsResult::RedirectLimit, &[], false))
    }

    fn rules(&self, fetched: &Fetched) -> Rules {
        let read = RobotsRead::of(fetched, self.bytes_max);
        self.rules_of(read.answer, &read.body, read.cut)
    }

    fn rules_of(&self, answer: RobotsResult, body: &[u8], goes_on: bool) -> Rules {
        match in_force(answer, false, Duration::ZERO, &self.policy) {
            // A file beyond the size limit: its last line may be incomplete.
            Policy::Rules if goes_on => Rules::These(Box::new(Robots::parse_start(body, &self.agent))),
            Policy::Rules => Rules::These(Box::new(Robots::parse(body, &self.agent))),
            Policy::AllowAll => Rules::AllowAll,
            Policy::DisallowAll | Policy::LastRules => Rules::DisallowAll,
        }
    }

    fn cell(&self, origin: String) -> Arc<OnceCell<Rules>> {
        let mut origins = self.origins.lock().expect("nobody panics holding it");
        if origins.len() >= ORIGINS_MAX {
            origins.retain(|_, cell| Arc::strong_count(cell) > 1);
        }
        origins.entry(origin).or_default().clone()
    }
}
