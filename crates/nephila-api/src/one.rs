//! The operations of a crawl on one machine: `nephila crawl --listen` and `nephila serve -o DIR`.

use std::sync::{Arc, LazyLock};

use ::http::StatusCode;
use nephila_core::job::State;
use nephila_core::url::UrlError;

use super::answers::Instead;
use super::explain::NoJob;
use super::foreseen::VisitsSaid;
use super::hub::{LaterStatus, Lines, Live};
use super::log_view::Filter;
use super::problem::{HttpAnswer, ok, problem};
use super::public::{Public, Publishes};
use super::question::HttpQuestion;
use super::routes::{Answers, Routes, route};
use super::{Questions, agent, dashboard, lists, live, metrics, operations as of, public, session, web};

/// See the module.
static ROUTES: LazyLock<Routes<Questions>> = LazyLock::new(|| {
    let own = [
        route::<Questions>(&of::LIVEZ, |_, _| Box::pin(async { ok(&"alive") })),
        route(&of::READYZ, |crawl, asked| {
            Box::pin(async move { crawl.readyz(&asked).await.unwrap_or_else(|instead| *instead) })
        }),
        route(&of::METRICS, |crawl, _| Box::pin(async move { said(crawl.metrics().await) })),
        route(&of::DOCUMENT, |_, asked| Box::pin(async move { ROUTES.document_for(&asked) })),
        route(&of::STATS, |crawl, _| {
            Box::pin(async move { said(crawl.stats().await.map(|stats| ok(&stats))) })
        }),
        route(&of::EXPLAIN, |crawl, asked| {
            Box::pin(async move { said(crawl.explain(&url(&asked)).await.map(|explained| ok(&explained))) })
        }),
        route(&of::HOST, |crawl, asked| {
            Box::pin(async move { said(crawl.host(&url(&asked)).await.map(|host| ok(&host))) })
        }),
        route(&of::SET_HOST, |crawl, asked| {
            Box::pin(async move { instead(crawl.set_host_delay(&asked).await) })
        }),
        route(&of::STOPS, |crawl, _| Box::pin(async move { instead(crawl.stops_answer().await) })),
        route(&of::ADD_STOPS, |crawl, asked| Box::pin(async move { instead(crawl.add_stops(&asked).await) })),
        route(&of::END_STOP, |crawl, asked| {
            Box::pin(async move { instead(crawl.remove_stop(&asked).await) })
        }),
        route(&of::FEEDS, |crawl, _| {
            Box::pin(async move { said(crawl.feeds().await.map(|feeds| ok(&feeds))) })
        }),
        route(&of::FEED, |crawl, asked| {
            Box::pin(async move { said(crawl.feed(&url(&asked)).await.map(|feed| ok(&feed))) })
        }),
        route(&of::DOWNLOADS, |crawl, asked| {
            Box::pin(async move { said(crawl.list_downloads(&asked).await) })
        }),
        route(&of::STORIES, |crawl, asked| Box::pin(async move { said(crawl.list_stories(&asked).await) })),
        route(&of::EVENTS, |crawl, asked| Box::pin(async move { crawl.events(&asked).await })),
        route(&of::PAGES, |crawl, asked| {
            Box::pin(async move { crawl.page_or_whole(&asked).await.unwrap_or_else(|instead| *instead) })
        }),
        route(&of::SEARCH, |crawl, asked| {
            Box::pin(async move { instead(crawl.search_answer(&asked).await) })
        }),
        route(&of::SPIDERS, |crawl, _| {
            Box::pin(
                async move { ok(&crawl.crawl.upgrade().map(|crawl| crawl.spiders()).unwrap_or_default()) },
            )
        }),
        route(&of::ADD, |crawl, asked| {
            Box::pin(async move {
                let job = asked.parameter("job").filter(|job| !job.is_empty());
                let added = crawl.add_to(&String::from_utf8_lossy(&asked.body), job.as_deref()).await;
                said(added.map(|added| ok(&added)))
            })
        }),
        route(&of::REFLOG, |crawl, asked| Box::pin(async move { said(crawl.visits(&asked).await) })),
        route(&of::STATUS, |crawl, _| Box::pin(async move { instead(crawl.status_answer().await) })),
        route(&of::HISTORY, |crawl, asked| Box::pin(async move { instead(crawl.history_answer(&asked)) })),
        route(&of::HOSTS, |crawl, asked| Box::pin(async move { instead(crawl.hosts_answer(&asked).await) })),
        route(&of::TIMELINE, |crawl, asked| {
            Box::pin(async move { instead(crawl.timeline_answer(&asked).await) })
        }),
        route(&of::POLITENESS, |crawl, asked| {
            Box::pin(async move { instead(crawl.politeness_answer(&asked).await) })
        }),
        route(&of::ARCHIVE, |crawl, asked| {
            Box::pin(async move { instead(crawl.archive_answer(&asked).await) })
        }),
        route(&of::SETTINGS, |crawl, _| Box::pin(async move { instead(crawl.settings_answer()) })),
        route(&of::LOG, |crawl, asked| Box::pin(async move { instead(crawl.log_answer(&asked).await) })),
        route(&of::SCOPE_TEST, |crawl, asked| {
            Box::pin(async move { instead(crawl.scope_test_answer(&asked).await) })
        }),
        route(&of::JOBS, |crawl, _| Box::pin(async move { instead(crawl.jobs_answer().await) })),
        route(&of::CREATE_JOB, |crawl, asked| {
            Box::pin(async move { instead(crawl.create_job(&asked).await) })
        }),
        route(&of::JOB, |crawl, asked| {
            Box::pin(async move { instead(crawl.job_answer(asked.part("job")).await) })
        }),
        route(&of::PAUSE_JOB, |crawl, asked| {
            Box::pin(async move { instead(crawl.set_job(asked.part("job"), State::Paused).await) })
        }),
        route(&of::RESUME_JOB, |crawl, asked| {
            Box::pin(async move { instead(crawl.set_job(asked.part("job"), State::Running).await) })
        }),
        route(&of::STOP_JOB, |crawl, asked| {
            Box::pin(async move { instead(crawl.set_job(asked.part("job"), State::Stopped).await) })
        }),
        route(&of::CDX, |crawl, asked| Box::pin(async move { crawl.web(&asked).await })),
        route(&of::WEB, |crawl, asked| Box::pin(async move { crawl.web(&asked).await })),
    ];
    let common = dashboard::routes().into_iter().chain(session::routes()).chain(live::routes());
    let common = common.chain(agent::routes()).chain(public::routes());
    Routes::new("Nephila, a crawl on one machine", own.into_iter().chain(common))
});

impl Answers for Questions {
    fn routes() -> &'static Routes<Questions> {
        &ROUTES
    }

    fn live(self: &Arc<Self>) -> Option<Arc<dyn Live>> {
        Some(self.clone())
    }
}

impl Publishes for Questions {
    fn public(&self) -> Option<&Public> {
        self.public.as_ref()
    }
}

impl Live for Questions {
    fn status(&self) -> LaterStatus<'_> {
        Box::pin(async move {
            // `GET status` has the reason.
            let said = Questions::status(self).await.map_err(|_| "the crawl does not answer".to_owned())?;
            serde_json::to_value(said).map_err(|error| error.to_string())
        })
    }

    fn log(&self) -> Option<Box<dyn Lines>> {
        let tail = self.log_tail(Filter::of_host(None)).ok()?;
        Some(Box::new(tail))
    }
}

/// An answer, or the problem instead.
fn instead(answered: Result<HttpAnswer, Instead>) -> HttpAnswer {
    answered.unwrap_or_else(|instead| *instead)
}

/// The parameter `url`, which the table requires.
fn url(asked: &HttpQuestion) -> String {
    asked.parameter("url").unwrap_or_default()
}

/// An answer, or the reason why the crawl cannot give one.
fn said(answered: anyhow::Result<HttpAnswer>) -> HttpAnswer {
    answered.unwrap_or_else(|error| {
        let detail = format!("{error:#}");
        // What the client got wrong is no fault of the crawl, and is wrong again later.
        if error.is::<lists::Wrong>() || error.is::<UrlError>() {
            problem(StatusCode::BAD_REQUEST, "invalid request", detail)
        } else if error.is::<NoJob>() {
            problem(StatusCode::NOT_FOUND, "no such job", detail)
        } else {
            problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", detail)
        }
    })
}

impl Questions {
    async fn metrics(&self) -> anyhow::Result<HttpAnswer> {
        let crawl = self.crawl.upgrade();
        let families = metrics::of_crawl(&self.handle, crawl.as_deref()).await?;
        let cache = self.archive.as_ref().map(|archive| metrics::of_cache(archive.cache_counts()));
        let webhooks = self
            .monitor
            .iter()
            .flat_map(|monitor| metrics::of_webhooks(monitor.webhooks(), self.clock.now().wall));
        let more = cache.into_iter().chain([ROUTES.times()]).chain(webhooks);
        Ok(metrics::answer("single", families.into_iter().chain(more).collect()))
    }

    async fn list_downloads(&self, asked: &HttpQuestion) -> anyhow::Result<HttpAnswer> {
        let [state, of, from] = ["state", "type", "from"].map(|name| asked.parameter(name));
        let max = asked.number("max").unwrap_or(lists::PAGE_MAX);
        Ok(ok(&self.downloads(state.as_deref(), of.as_deref(), from.as_deref(), max).await?))
    }

    async fn list_stories(&self, asked: &HttpQuestion) -> anyhow::Result<HttpAnswer> {
        let [source, from] = ["source", "from"].map(|name| asked.parameter(name));
        let max = asked.number("max").unwrap_or(lists::PAGE_MAX);
        Ok(ok(&self.stories(source.as_deref(), from.as_deref(), max).await?))
    }

    async fn visits(&self, asked: &HttpQuestion) -> anyhow::Result<HttpAnswer> {
        let (batch, part) = (asked.parameter("batch"), asked.number("part").unwrap_or(0));
        if asked.parameter("dry").is_some() {
            let foreseen = self.foresee(batch.as_deref(), part, &asked.body).await?;
            return Ok(ok(&VisitsSaid::Foreseen(foreseen)));
        }
        Ok(ok(&VisitsSaid::Stored(self.stream(batch.as_deref(), part, &asked.body).await?)))
    }

    async fn web(&self, asked: &HttpQuestion) -> HttpAnswer {
        match &self.archive {
            Some(archive) => web::answer(asked, archive, self).await,
            None => problem(StatusCode::NOT_FOUND, "there is no archive here", ""),
        }
    }
}
