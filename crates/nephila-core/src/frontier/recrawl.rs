//! Pages that are visited again by how often they change: what a visit showed, and when the next one is due.
//!
//! What always holds: a visit is written down before its outcome, in the same group; pages of jobs with another schedule
//! cost nothing here.

use std::time::Duration;

use super::Frontier;
use super::heads::Head;
use super::key::UrlKey;
use super::ticket::Report;
use crate::entry::Entry;
use crate::job::{JobId, Schedule};
use crate::recrawl::trust::{Ask, Found, Known};
use crate::recrawl::visited::Visited;
use crate::recrawl::{Settings, interval};
use crate::spider::outcome::{Class, Outcome};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds};

impl<S: State> Frontier<S> {
    /// How the pages of a job are visited again, if by how often they change.
    fn adaptive(&self, partition: usize, job: JobId) -> Option<Settings> {
        match self.partitions[partition].state.meta().jobs.get(&job.0)?.schedule {
            Schedule::Adaptive(settings) => Some(settings),
            Schedule::Once | Schedule::Every(_) => None,
        }
    }

    /// Is a page to be asked for in full, whatever is known of it?
    pub(super) fn asks_in_full(
        &mut self,
        partition: usize,
        key: &UrlKey,
        job: JobId,
        chance: u64,
    ) -> Result<bool, StateError> {
        if self.adaptive(partition, job).is_none() {
            return Ok(false);
        }
        let host = self.partitions[partition].state.host(&key.host)?.unwrap_or_default();
        let page = Known { validators: true, body_bytes: 0, likely_changed: false };
        Ok(host.trust.ask(&page, chance) == Ask::Get)
    }

    /// A page was asked for: after which time it is asked for again, if that goes by how often it changes. A failure is no
    /// visit, and is tried again by its own table.
    pub(super) fn visit_ended(
        &mut self,
        key: UrlKey,
        head: &Head,
        fetch: u64,
        report: &Report,
        now: Now,
    ) -> Result<Option<Duration>, StateError> {
        let Some(partition) = self.partition_of(&key.host) else { return Ok(None) };
        let Some(settings) = self.adaptive(partition, head.job) else { return Ok(None) };
        let unchanged = report.outcome == Outcome::NotModified;
        if report.outcome.class() != Class::Ok || report.outcome == Outcome::Redirect {
            return Ok(None);
        }
        let state = &mut self.partitions[partition].state;
        let Some(record) = state.url(&key)? else { return Ok(None) };
        let host = state.host(&key.host)?.unwrap_or_default();
        let (mut seen, mut site) = (record.seen, host.site);
        if let Some(last) = record.last.filter(|last| last.digest != 0 || unchanged) {
            let since = Seconds::from(now.wall).0.saturating_sub(last.at.0);
            let changed = !unchanged && report.digest != last.digest;
            let visit = seen.visit(Duration::from_secs(since.into()), changed, &site);
            let same_validators = report.etag == last.etag && report.last_modified == last.last_modified;
            let has_validators = !last.etag.is_empty() || !last.last_modified.is_empty();
            let ask = if report.conditional { Ask::Conditional } else { Ask::Get };
            let found = if unchanged { Found::Unchanged } else { Found::Whole { changed, same_validators } };
            seen.take(visit);
            site.take(visit);
            let claim = has_validators.then_some((ask, found));
            self.pend(key.host, Entry::Visited(Visited { key, fetch, visit, claim }));
        }
        Ok(interval(&settings, &seen, &site, settings.price_first()))
    }
}
