//! The operator's orders about sites: the stop list and the crawl delays of hosts.
//!
//! A crawl on one machine keeps both in `stops.json` of its folder, as `nephila stop` and `nephila host set` do; a
//! cluster keeps them in a record and in the logs of its partitions. What a request says is read here for both.
//!
//! Invariant: an answer says that an order is kept only when the order is durable, and then it is in force here.

use http::StatusCode;
use nephila_core::stop_list::{Full, NoTarget, StopOrder, Target};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::folder::Folder;
use nephila_engine::stop_list::{self, Change, DELAY_MS_MAX, DelaysFull, Written};
use serde::Deserialize;

use super::Questions;
use super::answers::{Instead, away, wrong};
use super::problem::{HttpAnswer, ok, problem};
use super::question::HttpQuestion;
use super::views::Changed;

/// The body of `POST stops`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopsWanted {
    stops: Vec<StopOrder>,
}

/// The orders of `POST stops`: `{"stops": [{"target", "reason", "author"}]}`. Their time is now.
pub fn wanted(asked: &HttpQuestion, now: Timestamp) -> Result<Change, Instead> {
    let said: StopsWanted = asked.object().map_err(|why| wrong("invalid body", why))?;
    let orders = said.stops.into_iter();
    Ok(Change::Add(orders.map(|said| StopOrder::new(said.target, &said.reason, &said.author, now)).collect()))
}

/// The target of `DELETE stops/{target}`. What can be no target was never stopped.
pub fn target(asked: &HttpQuestion) -> Result<Target, Instead> {
    let none = |error: NoTarget| -> Instead {
        problem(StatusCode::NOT_FOUND, "not found", error.to_string()).into()
    };
    asked.part("target").parse().map_err(none)
}

/// The answer to `DELETE stops/{target}`, by the number of removed orders.
pub fn removed(target: &Target, changed: usize) -> Result<HttpAnswer, Instead> {
    match changed {
        0 => Err(problem(StatusCode::NOT_FOUND, "not found", format!("{target} is not stopped")).into()),
        changed => Ok(ok(&Changed { changed })),
    }
}

/// The host and the delay in milliseconds of `POST host?url=&delay_ms=`.
pub fn delay_wanted(asked: &HttpQuestion) -> Result<(CrawlUrl, u32), Instead> {
    let url = CrawlUrl::parse(&asked.parameter("url").unwrap_or_default());
    let url = url.map_err(|error| wrong("invalid parameter url", error.to_string()))?;
    let delay_ms = asked.number("delay_ms").filter(|delay_ms: &u32| *delay_ms <= DELAY_MS_MAX);
    let why = || wrong("invalid parameter delay_ms", format!("at most {DELAY_MS_MAX}, which is a day"));
    Ok((url, delay_ms.ok_or_else(why)?))
}

/// An error of a change that the folder did not keep.
fn refused(error: &anyhow::Error) -> Instead {
    match error.is::<Full>() || error.is::<DelaysFull>() {
        true => wrong("too many orders", error.to_string()),
        false => away(error),
    }
}

/// Changes the orders in a folder on a thread that may wait for its lock and its disk.
async fn in_folder<T: Send + 'static>(
    shared: &Shared,
    change: impl FnOnce(&Folder) -> anyhow::Result<T> + Send + 'static,
) -> Result<T, Instead> {
    let folder = shared.folder.clone();
    let done = tokio::task::spawn_blocking(move || change(&folder)).await;
    done.map_err(anyhow::Error::from).and_then(|done| done).map_err(|error| refused(&error))
}

impl Questions {
    /// `GET stops`.
    pub async fn stops_answer(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&in_folder(&*self.running()?, |folder| Ok(Written::of(&stop_list::read(folder)?))).await?))
    }

    async fn change_stops(&self, change: Change) -> Result<usize, Instead> {
        let shared = self.running()?;
        let (changed, stops) = in_folder(&shared, move |folder| {
            Ok((stop_list::change(folder, &change)?, stop_list::read(folder)?))
        })
        .await?;
        // The crawl need not wait for its next look.
        shared.obey_now(stops);
        Ok(changed)
    }

    /// `POST stops`.
    pub async fn add_stops(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let change = wanted(asked, self.clock.now().wall)?;
        Ok(ok(&Changed { changed: self.change_stops(change).await? }))
    }

    /// `DELETE stops/{target}`.
    pub async fn remove_stop(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let target = target(asked)?;
        removed(&target, self.change_stops(Change::Remove(vec![target.clone()])).await?)
    }

    /// `POST host?url=&delay_ms=`. The crawl has the delay within a second.
    pub async fn set_host_delay(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (url, delay_ms) = delay_wanted(asked)?;
        let set = move |folder: &Folder| stop_list::set_delays(folder, &[url], delay_ms);
        in_folder(&*self.running()?, set).await?;
        Ok(ok(&Changed { changed: 1 }))
    }
}

#[cfg(test)]
mod tests;
