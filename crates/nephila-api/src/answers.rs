//! The answers about a crawl as a whole: from the parameters of a request to its JSON.
//!
//! A crawl on one machine answers with [`Questions`], an archive with `ReadOnly`. A node of a
//! cluster takes the same parameters ([`log_wanted`] and so on) and merges the parts of all nodes.

use std::sync::Arc;

use http::StatusCode;
use nephila_core::frontier::explain::Hold;
use nephila_core::job::State;
use nephila_core::state::record::RobotsPolicy;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_engine::crawl::halt;
use nephila_engine::crawl::shared::{JOB, Shared};
use nephila_engine::settings::Settings;
use nephila_engine::worker::Handle;

use super::Questions;
use super::archive_view::ROWS_USUAL;
use super::history::SECONDS_MAX;
use super::hosts::HostsWanted;
use super::jobs::{JobDetail, JobPart, JobRow, ProgressSaid};
use super::log_view::{Filter, LINES_MAX, LINES_USUAL, LogWanted};
use super::monitor::Monitor;
use super::problem::{HttpAnswer, ok, problem};
use super::question::HttpQuestion;
use super::scope_test::{ScopeTest, ScopeTested, Tested, URLS_MAX};
use super::settings_view::SettingsSaid;
use super::status::{StatusPart, StatusSaid};
use super::timeline::{REQUESTS_MAX, REQUESTS_USUAL, TimelineSaid, origin_of};

/// An error answer, sent instead of the requested one.
pub type Instead = Box<HttpAnswer>;

/// An answer with status 400.
pub fn wrong(title: &str, detail: impl Into<String>) -> Instead {
    problem(StatusCode::BAD_REQUEST, title, detail).into()
}

/// An answer with status 503.
pub fn away(error: &anyhow::Error) -> Instead {
    problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", format!("{error:#}")).into()
}

fn number(asked: &HttpQuestion, name: &str, usual: usize, max: usize) -> Result<usize, Instead> {
    let Some(text) = asked.parameter(name).filter(|text| !text.is_empty()) else { return Ok(usual) };
    let number =
        text.parse::<usize>().map_err(|_| wrong("invalid parameter", format!("{name}: a number")))?;
    Ok(number.clamp(1, max))
}

/// The parameter `seconds` of a history.
pub fn seconds_of(asked: &HttpQuestion) -> Result<u64, Instead> {
    let max = usize::try_from(SECONDS_MAX).unwrap_or(usize::MAX);
    Ok(number(asked, "seconds", max, max)? as u64)
}

/// The parameters of a list of hosts.
pub fn hosts_wanted(asked: &HttpQuestion) -> Result<HostsWanted, Instead> {
    HostsWanted::of(|name| asked.parameter(name)).map_err(|why| wrong("invalid parameter", why))
}

/// The filter of the log: `host`, and `outcome`, which may be repeated.
pub fn log_filter(asked: &HttpQuestion) -> Filter {
    let host = asked.parameter("host").filter(|host| !host.is_empty());
    let outcomes = asked.parameters("outcome").into_iter().filter(|outcome| !outcome.is_empty());
    Filter::of_host(host.as_deref()).with_outcomes(outcomes.collect())
}

/// The parameter `limit` of a page of the log.
pub fn limit_of_log(asked: &HttpQuestion) -> Result<usize, Instead> {
    number(asked, "limit", LINES_USUAL, LINES_MAX)
}

/// The parameters of a page of the log, with the position of one log.
pub fn log_wanted(asked: &HttpQuestion) -> Result<LogWanted, Instead> {
    let cursor = asked.parameter("cursor").map(|text| text.parse());
    let before = cursor.transpose().map_err(|error| wrong("invalid parameter cursor", format!("{error}")))?;
    Ok(LogWanted { filter: log_filter(asked), limit: limit_of_log(asked)?, before })
}

/// The origin and the number of requests of a timeline.
pub fn timeline_wanted(asked: &HttpQuestion) -> Result<(String, usize), Instead> {
    let text = asked.parameter("url").ok_or_else(|| wrong("missing parameter url", ""))?;
    let origin = origin_of(&text).map_err(|error| wrong("invalid host", error))?;
    Ok((origin, number(asked, "limit", REQUESTS_USUAL, REQUESTS_MAX)?))
}

/// The host of a report about politeness.
pub fn politeness_host(asked: &HttpQuestion) -> Result<Option<String>, Instead> {
    let Some(text) = asked.parameter("url").filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.contains("://") {
        true => Ok(Some(origin_of(&text).map_err(|error| wrong("invalid host", error))?)),
        // A bare name is a host with any scheme and port.
        false => Ok(Some(text.trim_end_matches('/').to_ascii_lowercase())),
    }
}

/// The page of files of an archive.
pub fn files_wanted(asked: &HttpQuestion) -> Result<(usize, Option<String>), Instead> {
    Ok((number(asked, "limit", ROWS_USUAL, super::archive_view::ROWS_MAX)?, asked.parameter("cursor")))
}

/// The body of a test of a scope.
pub fn scope_wanted(asked: &HttpQuestion) -> Result<ScopeTest, Instead> {
    let test: ScopeTest = asked.object().map_err(|why| wrong("invalid body", why))?;
    if test.urls.len() > URLS_MAX {
        return Err(wrong("too many URLs", format!("at most {URLS_MAX} URLs are tested at once")));
    }
    Ok(test)
}

/// Judges URLs by rules, and by the robots.txt of the hosts that a worker knows.
pub async fn test_scope(
    tested: Tested,
    urls: Vec<String>,
    (traps, now): (trap::Settings, Timestamp),
    handle: Option<&Handle>,
) -> anyhow::Result<Vec<ScopeTested>> {
    let judged = tokio::task::spawn_blocking(move || {
        urls.iter().map(|url| tested.judge(url, &traps, now)).collect::<Vec<_>>()
    });
    let mut said = Vec::new();
    for (mut tested, url) in judged.await? {
        if let (Some(url), Some(handle)) = (url, handle)
            && handle.holds(&url)
        {
            let explained = handle.explain(&url).await?;
            let forbidden = explained.held_by.iter().find_map(|hold| match hold {
                Hold::Robots { .. } | Hold::RobotsUnreachable(_) => Some(hold.to_string()),
                _ => None,
            });
            let policy = explained.host.as_ref().map(|host| host.robots.policy);
            if forbidden.is_some() || policy.is_some_and(|policy| policy != RobotsPolicy::Unknown) {
                tested.with_robots(forbidden);
            }
        }
        said.push(tested);
    }
    Ok(said)
}

/// The timeline of a host, from the log of one process.
pub async fn timeline(monitor: &Monitor, asked: &HttpQuestion) -> Result<TimelineSaid, Instead> {
    let (origin, limit) = timeline_wanted(asked)?;
    let wanted = log_wanted(asked)?;
    let filter = Filter::of_host(Some(&origin));
    let part = monitor.log(LogWanted { filter, limit: limit + 1, ..wanted }).await.map_err(|e| away(&e))?;
    let cursor = part.clone().shortened(limit).end;
    Ok(TimelineSaid::of(origin, part.said(), cursor, limit))
}

/// Answers requests about an archive without its crawl; none for other requests.
pub async fn of_archive(monitor: &Monitor, asked: &HttpQuestion) -> Option<Result<HttpAnswer, Instead>> {
    let path = asked.path.strip_prefix("/api/v1/")?;
    Some(match path {
        "status" => {
            let part = monitor.status(None).await.map_err(|error| away(&error));
            part.map(|part| ok(&StatusPart::clone(&part).conclude()))
        }
        "history" => seconds_of(asked).map(|seconds| ok(&monitor.history(seconds))),
        "log" => log_of(monitor, asked).await,
        "host/timeline" => timeline(monitor, asked).await.map(|said| ok(&said)),
        "politeness" => politeness_of(monitor, None, asked).await,
        "archive" => archive_of(monitor, None, asked).await,
        "settings" => settings_of(&monitor.settings),
        _ => return None,
    })
}

async fn log_of(monitor: &Monitor, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
    let part = monitor.log(log_wanted(asked)?).await;
    Ok(ok(&part.map_err(|error| away(&error))?.said()))
}

async fn politeness_of(
    monitor: &Monitor,
    shared: Option<&Shared>,
    asked: &HttpQuestion,
) -> Result<HttpAnswer, Instead> {
    let said = monitor.politeness(shared, politeness_host(asked)?).await;
    Ok(ok(&*said.map_err(|error| away(&error))?))
}

async fn archive_of(
    monitor: &Monitor,
    shared: Option<&Shared>,
    asked: &HttpQuestion,
) -> Result<HttpAnswer, Instead> {
    let (limit, cursor) = files_wanted(asked)?;
    Ok(ok(&monitor.archive(shared, limit, cursor).await.map_err(|error| away(&error))?))
}

/// The effective settings.
pub fn settings_of(settings: &Settings) -> Result<HttpAnswer, Instead> {
    Ok(ok(&SettingsSaid::of(settings).map_err(|error| away(&error))?))
}

impl Questions {
    fn monitor(&self) -> Result<&Arc<Monitor>, Instead> {
        let none = || problem(StatusCode::NOT_FOUND, "not found", "a part of a cluster is asked at its node");
        Ok(self.monitor.as_ref().ok_or_else(none)?)
    }

    /// The crawl, if this process runs one.
    pub(super) fn running(&self) -> Result<Arc<Shared>, Instead> {
        let none = || problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", "no crawl runs here");
        Ok(self.crawl.upgrade().ok_or_else(none)?)
    }

    /// The state of the crawl, at most a second old.
    pub async fn status(&self) -> Result<StatusSaid, Instead> {
        let (monitor, shared) = (self.monitor()?, self.running()?);
        let part = monitor.status(Some(&shared)).await.map_err(|error| away(&error))?;
        Ok(StatusPart::clone(&part).conclude())
    }

    /// `GET status`.
    pub async fn status_answer(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.status().await?))
    }

    /// `GET history?seconds=`.
    pub fn history_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.monitor()?.history(seconds_of(asked)?)))
    }

    /// `GET hosts?sort=&state=&match=&limit=&cursor=`.
    pub async fn hosts_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let wanted = hosts_wanted(asked)?;
        let shared = self.running()?;
        let seen = self.monitor()?.hosts(&shared).await.map_err(|error| away(&error))?;
        Ok(ok(&seen.said(&wanted, Some(&shared.lasts))))
    }

    /// `GET host/timeline?url=&limit=&cursor=`.
    pub async fn timeline_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        Ok(ok(&timeline(self.monitor()?, asked).await?))
    }

    /// `GET politeness?url=`.
    pub async fn politeness_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        politeness_of(self.monitor()?, self.crawl.upgrade().as_deref(), asked).await
    }

    /// `GET archive?limit=&cursor=`.
    pub async fn archive_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        archive_of(self.monitor()?, self.crawl.upgrade().as_deref(), asked).await
    }

    /// `GET settings`.
    pub fn settings_answer(&self) -> Result<HttpAnswer, Instead> {
        settings_of(&self.settings)
    }

    /// `GET log?host=&outcome=&limit=&cursor=`.
    pub async fn log_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        log_of(self.monitor()?, asked).await
    }

    /// New lines of the log, from now on.
    pub fn log_tail(&self, filter: Filter) -> Result<super::log_view::LogTail, Instead> {
        self.monitor()?.tail(filter).map_err(|error| away(&error.into()))
    }

    /// `POST scope/test`.
    pub async fn scope_test_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let test = scope_wanted(asked)?;
        let (job, seeds) = self.scopes.plan_in_force().map_err(|error| away(&error))?;
        if test.job.as_ref().is_some_and(|name| *name != job.name) {
            let detail = format!("the crawl of this folder is the job {:?}", job.name);
            return Err(problem(StatusCode::NOT_FOUND, "no such job", detail).into());
        }
        let tested = match test.scope {
            None => Tested::of_job(Arc::new(job), &seeds),
            Some(mut scope) => {
                if scope.seeds.is_empty() {
                    scope.seeds = seeds;
                }
                Tested::given(&scope).map_err(|why| wrong("invalid scope", why))?
            }
        };
        let by = (self.settings.trap.clone(), self.clock.now().wall);
        let said = test_scope(tested, test.urls, by, Some(&self.handle)).await;
        Ok(ok(&said.map_err(|error| away(&error))?))
    }

    async fn job_rows(&self, shared: &Shared) -> anyhow::Result<Vec<JobRow>> {
        let totals = self.handle.stats().await?.totals;
        let first = {
            let plan = shared.plan();
            JobRow::of(&plan.job, ProgressSaid::of(&totals, plan.job.id))
        };
        Ok(std::iter::once(first).chain(super::more_jobs::rows(shared, &totals)).collect())
    }

    /// `GET jobs`: the crawl of the folder is a job, and there may be further ones.
    pub async fn jobs_answer(&self) -> Result<HttpAnswer, Instead> {
        let shared = self.running()?;
        Ok(ok(&self.job_rows(&shared).await.map_err(|error| away(&error))?))
    }

    /// The crawl, if its job has this name.
    fn job_named(&self, name: &str) -> Result<Arc<Shared>, Instead> {
        let shared = self.running()?;
        let is_it = shared.plan().job.name == name;
        let none = || problem(StatusCode::NOT_FOUND, "no such job", name);
        Ok(if is_it { shared } else { return Err(none().into()) })
    }

    /// `GET jobs/{job}`.
    pub async fn job_answer(&self, name: &str) -> Result<HttpAnswer, Instead> {
        if let Some(answered) = self.more_job(name).await {
            return answered;
        }
        let shared = self.job_named(name)?;
        let (job, moved) = {
            let plan = shared.plan();
            (plan.job.clone(), plan.moved.clone())
        };
        let look = async {
            let totals = self.handle.stats().await?.totals;
            let in_force = shared.jobs.get(JOB);
            let part = JobPart::look(&self.handle, (job.id, &job.scope.seeds), in_force.as_deref()).await?;
            anyhow::Ok((ProgressSaid::of(&totals, job.id), part))
        };
        let (progress, part) = look.await.map_err(|error| away(&error))?;
        Ok(ok(&JobDetail::of(job, moved, progress, part)))
    }

    /// `POST jobs/{job}/pause`, `resume` and `stop`. Returns when the change is durable.
    pub async fn set_job(&self, name: &str, state: State) -> Result<HttpAnswer, Instead> {
        if let Some(answered) = self.set_more_job(name, state).await {
            return answered;
        }
        let shared = self.job_named(name)?;
        let _turn = self.monitor()?.changing.lock().await;
        halt::set_state(&shared, state).await.map_err(|error| away(&error))?;
        drop(_turn);
        self.job_answer(name).await
    }
}

#[cfg(test)]
pub(crate) mod tests;
