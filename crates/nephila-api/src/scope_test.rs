//! `POST /api/v1/scope/test`: which of these URLs a job would fetch, and which rule decides. Nothing is queued.
//!
//! The gates are the ones of a discovered link, in their order: is it a URL, is it in scope, is it a trap, does
//! robots.txt forbid it. The rules are those of a job, or come with the request, so that an operator can edit them and
//! look. A URL is judged as a link of depth 1, unless it is a seed.

use std::collections::HashSet;
use std::sync::Arc;

use nephila_core::job::{FoundBy, Rules, Scope};
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_engine::crawl::jobs::InForce;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of URLs in a request.
pub const URLS_MAX: usize = 1_000;
/// Maximum number of seeds in the rules of a request.
pub const SEEDS_MAX: usize = 10_000;

/// What is to be tested.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeTest {
    /// The URLs, at most 1,000.
    #[schemars(length(max = URLS_MAX))]
    pub urls: Vec<String>,
    /// The job whose rules are used; the only job if absent.
    pub job: Option<String>,
    /// Rules to be used instead. Without seeds, those of the job are taken.
    #[schemars(with = "Option<super::shapes::Scope>")]
    pub scope: Option<Scope>,
}

/// The verdict on a URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ScopeTested {
    /// The URL as sent.
    pub url: String,
    /// Its canonical form, under which pages are deduplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// `in`, `out`, `trap`, `robots` or `bad`.
    pub verdict: String,
    /// The rule that decided.
    pub rule: String,
    /// Where the rule comes from: a pattern, a seed, a setting, `trap`, `robots.txt` or `url`.
    pub origin: String,
    /// The job of the rule; absent for rules of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Whether the robots.txt of the host was looked at. It is not where it was never fetched, or where another node
    /// has it.
    pub robots_known: bool,
}

/// The rules that decide.
#[derive(Clone, Debug)]
pub struct Tested {
    rules: RulesOf,
    /// Keys of the seeds.
    seeds: HashSet<String>,
}

#[derive(Clone, Debug)]
enum RulesOf {
    Job(Arc<InForce>),
    Given(Box<Rules>),
}

impl Tested {
    /// The rules of a job, whose seeds are known.
    pub fn of_job(job: Arc<InForce>, seeds: &[String]) -> Tested {
        Tested { rules: RulesOf::Job(job), seeds: keys(seeds) }
    }

    /// Rules of a request.
    pub fn given(scope: &Scope) -> Result<Tested, String> {
        if scope.seeds.len() > SEEDS_MAX {
            return Err(format!("at most {SEEDS_MAX} seeds can be tested"));
        }
        let rules = scope.resolve(&KeyRules::default()).map_err(|error| error.to_string())?;
        Ok(Tested { rules: RulesOf::Given(Box::new(rules)), seeds: keys(&scope.seeds) })
    }

    fn rules(&self) -> &Rules {
        match &self.rules {
            RulesOf::Job(job) => &job.rules,
            RulesOf::Given(rules) => rules,
        }
    }

    fn job(&self) -> Option<String> {
        match &self.rules {
            RulesOf::Job(job) => Some(job.name.clone()),
            RulesOf::Given(_) => None,
        }
    }

    /// The verdict without robots.txt, and the URL if it is one that would be requested.
    pub fn judge(
        &self,
        text: &str,
        traps: &trap::Settings,
        now: Timestamp,
    ) -> (ScopeTested, Option<CrawlUrl>) {
        let said = |verdict: &str, rule: String, origin: &str| ScopeTested {
            url: text.to_owned(),
            verdict: verdict.to_owned(),
            rule,
            origin: origin.to_owned(),
            ..ScopeTested::default()
        };
        let url = match CrawlUrl::parse(text.trim()) {
            Ok(url) => url,
            Err(error) => return (said("bad", error.to_string(), "url"), None),
        };
        let rules = self.rules();
        let found = if self.seeds.contains(url.key()) { FoundBy::seed() } else { FoundBy::link(1, 0) };
        let verdict = rules.verdict(&url, found);
        let (rule, origin) = (rules.text(verdict.rule), rules.origin(verdict.rule));
        let mut tested = said(if verdict.is_in() { "in" } else { "out" }, rule, &origin);
        tested.job = self.job();
        if verdict.is_in()
            && let Some(trap) = trap::judge_at(&url, traps, now)
        {
            let rule = format!("{}: {}", trap.name(), trap.meaning().trim());
            tested = said("trap", rule, "trap");
        }
        tested.canonical = Some(url.key().to_owned());
        let wanted = tested.verdict == "in";
        (tested, wanted.then_some(url))
    }
}

fn keys(seeds: &[String]) -> HashSet<String> {
    let urls = seeds.iter().filter_map(|seed| CrawlUrl::parse(seed.trim()).ok());
    urls.map(|url| url.key().to_owned()).collect()
}

impl ScopeTested {
    /// Adds the verdict of robots.txt: the line that forbids the URL, if one does.
    pub fn with_robots(&mut self, forbidden: Option<String>) {
        self.robots_known = true;
        if let Some(rule) = forbidden {
            (self.verdict, self.rule, self.origin) = ("robots".into(), rule, "robots.txt".into());
            self.job = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::job::Kind;

    use super::*;

    fn verdict(tested: &Tested, text: &str) -> (String, String, String) {
        let (said, _) = tested.judge(text, &trap::Settings::default(), Timestamp::from_secs(1));
        (said.verdict, said.rule, said.origin)
    }

    fn scope() -> Scope {
        Scope {
            kind: Kind::Host,
            seeds: vec!["http://a.test/".into(), "http://b.test/start".into()],
            exclude: vec!["/cart".into()],
            depth_max: 0,
            ..Scope::default()
        }
    }

    #[test]
    fn each_gate_has_its_verdict_and_its_rule() {
        let tested = Tested::given(&Scope { depth_max: 20, ..scope() }).unwrap();
        let is = |text: &str, verdict_is: &str, origin_is: &str| {
            let (verdict, rule, origin) = verdict(&tested, text);
            assert_eq!((&*verdict, &*origin), (verdict_is, origin_is), "{text}: {rule}");
        };
        is("http://a.test/x", "in", "seed 1");
        is("http://a.test/cart/1", "out", "exclude #1");
        is("http://c.test/", "out", "scope");
        is("http://b.test/start", "in", "seeds");
        is("http://a.test/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/", "trap", "trap");
        is("javascript:alert(1)", "bad", "url");
        is("", "bad", "url");
        is("\u{202e}http://a.test/", "bad", "url");
    }

    #[test]
    fn a_seed_is_in_where_a_link_is_too_deep() {
        let tested = Tested::given(&scope()).unwrap();
        assert_eq!(verdict(&tested, "http://b.test/start").0, "in");
        assert_eq!(verdict(&tested, "http://b.test/other").2, "depth_max");
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        let bad = Scope { exclude: vec!["^$".into()], ..Scope::default() };
        assert!(Tested::given(&bad).is_err());
        let many = Scope { seeds: vec!["http://a.test/".into(); SEEDS_MAX + 1], ..Scope::default() };
        assert!(Tested::given(&many).is_err());
    }

    #[test]
    fn hostile_urls_come_back_as_they_were_sent() {
        let tested = Tested::given(&scope()).unwrap();
        for text in ["http://a.test/<script>alert(1)</script>", "<img src=x>", "http://a.test/\u{202e}gpj"] {
            let (said, _) = tested.judge(text, &trap::Settings::default(), Timestamp::from_secs(1));
            assert_eq!(said.url, text);
            assert!(said.canonical.is_none_or(|canonical| canonical.is_ascii()));
        }
    }

    #[test]
    fn robots_txt_has_the_last_word() {
        let tested = Tested::given(&Scope { depth_max: 20, ..scope() }).unwrap();
        let (mut said, url) =
            tested.judge("http://a.test/x", &trap::Settings::default(), Timestamp::from_secs(1));
        assert!(url.is_some() && !said.robots_known);
        said.with_robots(None);
        assert_eq!((&*said.verdict, said.robots_known), ("in", true));
        said.with_robots(Some("robots.txt line 3: Disallow: /x".into()));
        assert_eq!((&*said.verdict, &*said.origin), ("robots", "robots.txt"));
    }

    #[test]
    fn a_slip_in_a_request_is_noticed() {
        assert!(serde_json::from_str::<ScopeTest>(r#"{"url":["http://a.test/"]}"#).is_err());
        let test: ScopeTest = serde_json::from_str(r#"{"urls":["x"],"scope":{"kind":"host"}}"#).unwrap();
        assert_eq!((test.urls.len(), test.scope.unwrap().kind), (1, Kind::Host));
    }
}
