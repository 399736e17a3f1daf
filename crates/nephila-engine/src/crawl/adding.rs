//! URLs that a caller adds to a job, line by line: parsing a line, and deciding whether the job accepts the URL.
//!
//! Invariants: a line is accepted or refused with a reason; a URL that an `exclude` or a trap rejects is never
//! accepted.

use nephila_core::frontier::URGENT;
use nephila_core::handler::ReadAs;
use nephila_core::job::{FoundBy, Job, JobId, PRIORITY_MAX, State, Via};
use nephila_core::reflog;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use serde::{Deserialize, Serialize};

use super::jobs::InForce;
use super::typed::with_scheme;
use crate::worker::Link;

/// A URL with its options, as parsed from a line.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AddLine {
    /// URL to add, as written in the line.
    pub url: String,
    /// Name of the job; none for the job of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Priority of the URL: 0 before 9. None for the priority by hits, or else of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Number of visits: each doubling makes the URL one step more urgent, unless a priority is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u32>,
    /// The URL is a feed to be followed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub feed: bool,
    /// The URL is a sitemap whose pages are wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sitemap: bool,
    /// A known URL is fetched once more, with its old properties. On one machine alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl AddLine {
    /// Parses a line: a URL, or JSON. None for an empty line or a comment.
    pub fn read(line: &str) -> Option<Result<AddLine, String>> {
        let line = line.trim();
        match line.chars().next()? {
            '#' => None,
            '{' => Some(serde_json::from_str(line).map_err(|error| error.to_string())),
            _ => Some(Ok(AddLine { url: line.to_owned(), ..AddLine::default() })),
        }
    }

    /// The link to offer, if the job accepts the URL. A seed and a feed bring their scope along.
    pub fn judged(
        &self,
        job: &InForce,
        as_seed: bool,
        traps: &trap::Settings,
        now: Timestamp,
    ) -> Result<Link, String> {
        let url = judged(&self.url, job, as_seed || self.feed, traps, now)?;
        let by_hits = |hits: u32| reflog::priority(job.priority, hits.into()).max(URGENT + 1);
        let priority = self.priority.or(self.hits.map(by_hits)).unwrap_or(job.priority);
        let mut link = link(url, job.id, priority.min(PRIORITY_MAX));
        link.want.hits = self.hits.unwrap_or(0);
        if self.feed {
            (link.want.read_as, link.want.priority) = (ReadAs::Feed, URGENT);
        } else if self.sitemap {
            link.want.read_as = ReadAs::Sitemap;
        }
        Ok(link)
    }
}

/// A seed of a job.
pub fn seed(url: CrawlUrl, job: &Job) -> Link {
    link(url, job.id, job.priority)
}

fn link(url: CrawlUrl, job: JobId, priority: u8) -> Link {
    Link { url, want: Want { priority, via: Some(Via::seed()), ..Want::of(job) } }
}

/// Whether a job accepts a URL.
pub fn judged(
    text: &str,
    job: &InForce,
    as_seed: bool,
    traps: &trap::Settings,
    now: Timestamp,
) -> Result<CrawlUrl, String> {
    let url = CrawlUrl::parse(&with_scheme(text)).map_err(|error| error.to_string())?;
    if job.state == State::Stopped {
        return Err(format!("the job {} is stopped", job.name));
    }
    let verdict = job.rules.verdict(&url, FoundBy::link(0, 0));
    if !verdict.is_in() && (!as_seed || job.excludes(&url)) {
        let (rule, origin) = (job.rules.text(verdict.rule), job.rules.origin(verdict.rule));
        return Err(format!("out of scope: {rule} ({origin}, job {})", job.name));
    }
    match trap::judge_at(&url, traps, now) {
        Some(trap) => Err(format!("a trap: {}: {}", trap.name(), trap.meaning())),
        None => Ok(url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job with a seed and an `exclude`.
    fn job() -> Job {
        let mut job = Job::new(JobId(3), "press");
        job.scope.seeds = vec!["http://a.test/docs/".into()];
        job.scope.exclude = vec!["/no".into()];
        job
    }

    #[test]
    fn a_url_is_refused_with_its_reason() {
        let (traps, now) = (trap::Settings::default(), Timestamp(0));
        let force = InForce::new(&job(), &[]).unwrap();
        let why = |text: &str, as_seed| judged(text, &force, as_seed, &traps, now).unwrap_err();
        assert!(judged("http://a.test/docs/x", &force, false, &traps, now).is_ok());
        assert!(why("http://b.test/", false).contains("out of scope: scope=prefix"));
        assert!(judged("http://b.test/", &force, true, &traps, now).is_ok(), "a seed brings its scope along");
        assert!(why("http://a.test/docs/no", true).contains("exclude"));
        assert!(why("http://a.test/docs/a/a/a/a/a/a/a", false).contains("trap"));
        assert!(!why("http://", false).is_empty());
        let stopped = InForce::new(&Job { state: State::Stopped, ..job() }, &[]).unwrap();
        assert!(
            judged("http://a.test/docs/x", &stopped, false, &traps, now).unwrap_err().contains("stopped")
        );
    }

    #[test]
    fn hits_make_a_url_more_urgent_and_a_priority_that_is_said_counts() {
        let force = InForce::new(&job(), &[]).unwrap();
        let link = |line: &str| {
            let line = AddLine::read(line).unwrap().unwrap();
            line.judged(&force, false, &trap::Settings::default(), Timestamp(0)).unwrap()
        };
        let priority =
            |rest: &str| link(&format!(r#"{{"url": "http://a.test/docs/x"{rest}}}"#)).want.priority;
        assert_eq!(priority(""), force.priority);
        assert_eq!(priority(r#", "hits": 4"#), force.priority - 2);
        assert_eq!(
            priority(r#", "hits": 4000000000"#),
            URGENT + 1,
            "urgent is what a person or a new story is"
        );
        assert_eq!(priority(r#", "hits": 4, "priority": 8"#), 8);
        assert_eq!(link(r#"{"url": "http://a.test/docs/x", "hits": 4}"#).want.hits, 4);
        let sitemap = link(r#"{"url": "http://a.test/docs/map.xml", "sitemap": true}"#);
        assert_eq!(sitemap.want.read_as, ReadAs::Sitemap);
        assert!(AddLine::read("  # a comment").is_none() && AddLine::read("").is_none());
        assert!(AddLine::read(r#"{"uri": "http://a.test/"}"#).unwrap().is_err());
    }
}
