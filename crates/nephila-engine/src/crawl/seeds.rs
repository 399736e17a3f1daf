//! The outcomes of the seeds: the first question about a crawl is whether the named pages were fetched.

use nephila_core::frontier::views::Known;
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::state::record::{RobotsPolicy, UrlState};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;

use super::shared::Shared;
use super::troubles::words;
use crate::worker::Stopped;

/// Maximum number of failed seeds that the end report names, each with its cause; further ones are counted.
pub(crate) const NAMED_MAX: usize = 10;
/// Number of seeds looked up in one call.
pub(crate) const LOOKED_UP_AT_ONCE: usize = 1_000;

/// The outcomes of the seeds.
#[derive(Debug, Default)]
pub struct Seeds {
    /// Number of seeds.
    pub all: u64,
    /// Number of seeds without an answer.
    pub failed: u64,
    /// The first failed seeds, with causes.
    pub named: Vec<(String, String)>,
}

impl Seeds {
    /// Looks every seed up.
    pub async fn look(shared: &Shared) -> Result<Seeds, Stopped> {
        let (seeds, _) = shared.seeds_and_job();
        let mut look = Seeds { all: seeds.len() as u64, ..Seeds::default() };
        for some in seeds.chunks(LOOKED_UP_AT_ONCE) {
            let urls: Vec<CrawlUrl> =
                some.iter().filter_map(|seed| CrawlUrl::parse(seed.trim()).ok()).collect();
            // Invalid URLs were refused when they were given.
            look.all -= (some.len() - urls.len()) as u64;
            let known = shared.handle.known(urls.clone()).await?;
            for (url, known) in urls.iter().zip(&known) {
                let Some(why) = why_not(shared, url, known) else { continue };
                look.failed += 1;
                if look.named.len() < NAMED_MAX {
                    look.named.push((url.as_str().to_owned(), why));
                }
            }
        }
        Ok(look)
    }
}

/// Why a seed was not answered. None for an answered seed.
pub(crate) fn why_not(shared: &Shared, url: &CrawlUrl, known: &Known) -> Option<String> {
    let Some(record) = &known.url else { return Some("it was not let in".into()) };
    let last = record.last.as_ref().map(|last| (last.outcome, last.status));
    if last.is_some_and(|(outcome, status)| is_answer(outcome, status)) {
        return None;
    }
    let told = last.map(|(outcome, status)| words(outcome, (status != 0).then_some(status), ""));
    let again = match record.state {
        UrlState::Later(due) => format!("; it is tried again at {}", Timestamp::from(due).warc_date()),
        _ => String::new(),
    };
    match record.state {
        UrlState::Refused(refusal) => Some(format!("{}: {}", refusal.name(), refusal.meaning().trim())),
        UrlState::Parked | UrlState::ParkedBare => Some("it is beyond the budget of its domain".into()),
        _ => {
            let host = known.host.as_ref();
            let stopped = host.map(|host| &host.stopped).filter(|why| !why.is_empty());
            if let Some(why) = stopped {
                return Some(format!("its host is stopped: {why}"));
            }
            let unread = host.is_some_and(|host| host.robots.policy == RobotsPolicy::DisallowAll);
            let never = || match shared.troubles.of(url.origin()) {
                Some(cause) => cause,
                None if unread => "its robots.txt cannot be read, so nothing may be fetched".into(),
                None => "it was not asked for yet".into(),
            };
            Some(told.unwrap_or_else(never) + &again)
        }
    }
}

/// Whether the outcome is an answer of any kind. A missing page is an answer, a failing server is none.
pub(crate) fn is_answer(outcome: Outcome, status: u16) -> bool {
    status != 0 && matches!(outcome.class(), Class::Ok | Class::Gone | Class::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_02_a_404_is_an_answer_and_a_503_is_none() {
        for (outcome, status) in [
            (Outcome::Fetched, 200),
            (Outcome::Redirect, 301),
            (Outcome::NotFound, 404),
            (Outcome::Forbidden, 403),
        ] {
            assert!(is_answer(outcome, status), "{outcome}");
        }
        for (outcome, status) in [
            (Outcome::Unavailable, 503),
            (Outcome::ServerError, 500),
            (Outcome::ConnectRefused, 0),
            (Outcome::TlsUntrusted, 0),
            (Outcome::RobotsDenied, 0),
        ] {
            assert!(!is_answer(outcome, status), "{outcome}");
        }
    }
}
