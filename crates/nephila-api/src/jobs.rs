//! `GET /api/v1/jobs` and `jobs/{job}`: the jobs of a crawl with their progress, the fate of their seeds, and how often
//! each of their rules decided. The crawl of a folder is a job too.

use nephila_core::frontier::views::Known;
use nephila_core::job::{Job, JobId, Kind, State};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::state::record::UrlState;
use nephila_core::state::totals::{Tally, Totals, Work};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_engine::crawl::jobs::InForce;
use nephila_engine::crawl::verdicts::{EXAMPLES_MAX, RuleCount};
use nephila_engine::worker::{Handle, Stopped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shapes;
use super::status::DoneSaid;

/// Maximum number of seeds with their fate in an answer.
pub const SEEDS_SHOWN_MAX: usize = 100;

/// A job in a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct JobRow {
    /// Number of the job.
    #[schemars(with = "u32")]
    pub id: JobId,
    /// Unique name of the job.
    pub name: String,
    /// Whether the job runs, is paused or is stopped.
    #[schemars(with = "shapes::State")]
    pub state: State,
    /// Priority among jobs: 0 before 9.
    pub priority: u8,
    /// Wanted URLs around each seed: `page`, `prefix`, `host`, `domain` or `any`.
    #[schemars(with = "shapes::Kind")]
    pub kind: Kind,
    /// Number of seeds.
    pub seeds: u64,
    /// Progress of the job.
    #[serde(default)]
    pub progress: ProgressSaid,
}

/// Progress of a job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ProgressSaid {
    /// Number of URLs still to be requested.
    pub left: u64,
    /// Number of pages fetched.
    pub pages: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Whether the archive is still to be read for links of pages that other jobs fetched before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_archive: bool,
    /// Completion time, if the job is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<String>,
}

impl ProgressSaid {
    /// The progress of a job by the counters of the frontier.
    pub fn of(totals: &Totals, id: JobId) -> ProgressSaid {
        let nothing = Tally::default();
        let left = totals.open.get(&id.0).copied().unwrap_or(0);
        let Work { left, pages, bytes, .. } = Work::of(totals.tally.get(&id.0).unwrap_or(&nothing), left);
        ProgressSaid { left, pages, bytes, reads_archive: false, complete: None }
    }
}

impl JobRow {
    /// A row for a job.
    pub fn of(job: &Job, progress: ProgressSaid) -> JobRow {
        JobRow {
            id: job.id,
            name: job.name.clone(),
            state: job.state,
            priority: job.priority,
            kind: job.scope.kind,
            seeds: job.scope.seeds.len() as u64,
            progress,
        }
    }
}

/// How the URLs of a job ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct EndedSaid {
    /// Answers with content.
    pub ok: u64,
    /// Redirects.
    pub redirect: u64,
    /// Pages that do not exist.
    pub missing: u64,
    /// Pages that the site, the operator or our own rules forbid.
    pub refused: u64,
    /// Failed requests.
    pub failed: u64,
}

impl EndedSaid {
    /// The counts of a job by the counters of the frontier.
    pub fn of(totals: &Totals, id: JobId) -> EndedSaid {
        let DoneSaid { ok, redirect, missing, refused, failed, .. } =
            totals.tally.get(&id.0).map(DoneSaid::of).unwrap_or_default();
        EndedSaid { ok, redirect, missing, refused, failed }
    }

    fn add(&mut self, other: EndedSaid) {
        self.ok += other.ok;
        self.redirect += other.redirect;
        self.missing += other.missing;
        self.refused += other.refused;
        self.failed += other.failed;
    }
}

/// A job with everything known about it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct JobDetail {
    /// The job. Of many seeds, the first [`SEEDS_SHOWN_MAX`] are in the answer.
    #[schemars(with = "shapes::Job")]
    pub job: Job,
    /// Number of seeds.
    pub seeds_total: u64,
    /// Redirect targets of seeds, which extend the scope.
    pub moved: Vec<String>,
    /// Progress of the job.
    pub progress: ProgressSaid,
    /// How its URLs ended.
    #[serde(default)]
    pub ended_as: EndedSaid,
    /// When the first of the first seeds was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// The fate of the first seeds.
    pub seeds: Vec<SeedSaid>,
    /// The rules that decided about links, the most frequent first, since this process began or the rules changed.
    pub rules: Vec<RuleSaid>,
}

/// The part of a node in the answer about a job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct JobPart {
    /// How its URLs ended at this node.
    #[serde(default)]
    pub ended_as: EndedSaid,
    /// When the first of these seeds was added, as far as this node knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// The fate of the first seeds.
    pub seeds: Vec<SeedSaid>,
    /// The rules that decided about links, the most frequent first, since this process began or the rules changed.
    pub rules: Vec<RuleSaid>,
}

/// A seed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SeedSaid {
    /// The seed.
    pub url: String,
    /// `queued`, `later`, `parked`, `fetched`, `redirected`, `failed`, `refused`, `unknown` or `bad`.
    pub state: String,
    /// The last outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Time of the last fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// A rule with its count.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct RuleSaid {
    /// The rule in words.
    pub rule: String,
    /// Where the rule comes from: a pattern, a setting, or `trap`.
    pub origin: String,
    /// Whether the rule lets URLs in.
    pub wanted: bool,
    /// Number of links about which the rule decided.
    pub hits: u64,
    /// A sample of the rejected URLs.
    pub examples: Vec<String>,
}

impl From<RuleCount> for RuleSaid {
    fn from(count: RuleCount) -> RuleSaid {
        let RuleCount { rule, origin, wanted, hits, examples } = count;
        RuleSaid { rule, origin, wanted, hits, examples }
    }
}

/// The state of a seed by its record.
fn fate(url: &str, known: &Known) -> SeedSaid {
    let Some(record) = &known.url else {
        return SeedSaid { url: url.to_owned(), state: "unknown".into(), ..SeedSaid::default() };
    };
    let last = record.last.as_deref();
    let ended = |outcome: Outcome| match outcome.class() {
        Class::Ok if outcome == Outcome::Redirect => "redirected",
        Class::Ok => "fetched",
        _ => "failed",
    };
    let state = match record.state {
        // A page that is fetched again was fetched.
        UrlState::Waiting | UrlState::Later(_)
            if last.is_some_and(|last| last.outcome.class() == Class::Ok) =>
        {
            last.map_or("queued", |last| ended(last.outcome))
        }
        UrlState::Waiting => "queued",
        UrlState::Later(_) => "later",
        UrlState::Parked | UrlState::ParkedBare => "parked",
        UrlState::Refused(_) => "refused",
        UrlState::Ended => last.map_or("unknown", |last| ended(last.outcome)),
    };
    SeedSaid {
        url: url.to_owned(),
        state: state.to_owned(),
        outcome: last.map(|last| last.outcome.name().to_owned()),
        status: last.map(|last| last.status).filter(|status| *status > 0),
        at: last.map(|last| Timestamp::from(last.at).warc_date()),
    }
}

impl JobPart {
    /// What a worker knows about the seeds and the rules of a job, and how its URLs ended.
    pub async fn look(
        handle: &Handle,
        (id, seeds): (JobId, &[String]),
        job: Option<&InForce>,
    ) -> Result<JobPart, Stopped> {
        let ended_as = EndedSaid::of(&handle.stats().await?.totals, id);
        let seeds: Vec<&String> = seeds.iter().take(SEEDS_SHOWN_MAX).collect();
        let parsed: Vec<Option<CrawlUrl>> =
            seeds.iter().map(|seed| CrawlUrl::parse(seed.trim()).ok()).collect();
        let known = handle.known(parsed.iter().flatten().cloned().collect()).await?;
        let own = known.iter().filter_map(|known| known.url.as_ref()).filter(|record| record.job == id);
        let begun = own.map(|record| record.found).min().map(|found| Timestamp::from(found).warc_date());
        let mut known = known.iter();
        let seeds = seeds.iter().zip(&parsed).map(|(seed, url)| match url {
            Some(_) => known.next().map_or_else(SeedSaid::default, |known| fate(seed, known)),
            None => SeedSaid { url: (*seed).clone(), state: "bad".into(), ..SeedSaid::default() },
        });
        let seeds = seeds.collect();
        let rules = job.map(|job| job.verdicts.all(&job.rules)).unwrap_or_default();
        Ok(JobPart { ended_as, begun, seeds, rules: rules.into_iter().map(RuleSaid::from).collect() })
    }

    /// Adds what another node knows.
    pub fn add(&mut self, other: JobPart) {
        self.ended_as.add(other.ended_as);
        self.begun = self.begun.take().into_iter().chain(other.begun).min();
        for (seed, from) in self.seeds.iter_mut().zip(other.seeds) {
            if seed.url == from.url && seed.state == "unknown" {
                *seed = from;
            }
        }
        for rule in other.rules {
            let same = |known: &&mut RuleSaid| known.rule == rule.rule && known.origin == rule.origin;
            match self.rules.iter_mut().find(same) {
                Some(known) => {
                    known.hits += rule.hits;
                    let room = EXAMPLES_MAX.saturating_sub(known.examples.len());
                    known.examples.extend(rule.examples.into_iter().take(room));
                }
                None => self.rules.push(rule),
            }
        }
        self.rules.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.rule.cmp(&b.rule)));
    }
}

impl JobDetail {
    /// A job with its progress. The seeds beyond the first ones are counted.
    pub fn of(mut job: Job, moved: Vec<String>, progress: ProgressSaid, part: JobPart) -> JobDetail {
        let seeds_total = job.scope.seeds.len() as u64;
        job.scope.seeds.truncate(SEEDS_SHOWN_MAX);
        let JobPart { ended_as, begun, seeds, rules } = part;
        JobDetail { job, seeds_total, moved, progress, ended_as, begun, seeds, rules }
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::state::record::{LastFetch, UrlRecord};
    use nephila_core::time::Seconds;

    use super::*;

    fn known(state: UrlState, outcome: Option<Outcome>) -> Known {
        let mut record = UrlRecord::new(state, JobId(1), 0, 5, Seconds(1));
        record.last = outcome.map(|outcome| {
            Box::new(LastFetch {
                fetch: 1,
                at: Seconds(1_000_000),
                outcome,
                status: 200,
                digest: 0,
                changes: 0,
                etag: Box::default(),
                last_modified: Box::default(),
            })
        });
        Known { url: Some(record), host: None }
    }

    #[test]
    fn a_seed_says_what_became_of_it() {
        for (state, outcome, is) in [
            (UrlState::Waiting, None, "queued"),
            (UrlState::Later(Seconds(9)), Some(Outcome::Unavailable), "later"),
            (UrlState::Later(Seconds(9)), Some(Outcome::Fetched), "fetched"),
            (UrlState::Ended, Some(Outcome::Redirect), "redirected"),
            (UrlState::Ended, Some(Outcome::NotFound), "failed"),
            (UrlState::Parked, None, "parked"),
        ] {
            assert_eq!(fate("http://a.test/", &known(state, outcome)).state, is);
        }
        assert_eq!(fate("http://a.test/", &Known::default()).state, "unknown");
        let said = fate("http://a.test/<b>", &known(UrlState::Ended, Some(Outcome::Fetched)));
        assert_eq!((&*said.url, said.status), ("http://a.test/<b>", Some(200)));
    }

    #[test]
    fn the_parts_of_nodes_are_added() {
        let rule = |rule: &str, hits, examples: usize| RuleSaid {
            rule: rule.into(),
            hits,
            examples: (0..examples).map(|number| number.to_string()).collect(),
            ..RuleSaid::default()
        };
        let seed = |state: &str| SeedSaid {
            url: "http://a.test/".into(),
            state: state.into(),
            ..SeedSaid::default()
        };
        let part = |seed, rules, begun: Option<&str>, ok| JobPart {
            ended_as: EndedSaid { ok, ..EndedSaid::default() },
            begun: begun.map(str::to_owned),
            seeds: vec![seed],
            rules,
        };
        let mut all = part(seed("unknown"), vec![rule("a", 5, 80)], None, 3);
        all.add(part(seed("fetched"), vec![rule("a", 7, 80), rule("b", 100, 1)], Some("2026-11-15"), 4));
        all.add(part(seed("unknown"), vec![], Some("2026-11-14"), 0));
        assert_eq!((all.ended_as.ok, all.begun.as_deref()), (7, Some("2026-11-14")));
        assert_eq!(all.seeds[0].state, "fetched");
        assert_eq!((&*all.rules[0].rule, all.rules[0].hits), ("b", 100));
        assert_eq!((all.rules[1].hits, all.rules[1].examples.len()), (12, EXAMPLES_MAX));
    }

    #[test]
    fn many_seeds_are_counted_and_few_are_shown() {
        let mut job = Job::new(JobId(1), "crawl");
        job.scope.seeds = (0..500).map(|number| format!("http://a.test/{number}")).collect();
        let row = JobRow::of(&job, ProgressSaid::default());
        let detail = JobDetail::of(job, Vec::new(), ProgressSaid::default(), JobPart::default());
        assert_eq!(
            (row.seeds, detail.seeds_total, detail.job.scope.seeds.len()),
            (500, 500, SEEDS_SHOWN_MAX)
        );
    }
}
