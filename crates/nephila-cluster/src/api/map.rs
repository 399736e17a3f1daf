//! `GET cluster/map`: which node crawls which domain, page by page.
//!
//! Domains come in the order of their keys, which is the order of the partitions. A page is answered by the owner of
//! the partition at the cursor, and ends with the last partition of that node. So a client that follows the cursors to
//! the end sees every domain once, whichever node answers.
//!
//! Invariants: a page scans at most [`HOSTS_PAGE_MAX`] hosts; all rows come from partitions that the node held before
//! and after the scan.

use http::StatusCode;
use nephila_core::frontier::views::HOSTS_PAGE_MAX;
use nephila_core::key::{DomainKey, HostKey, Prefixes};
use nephila_core::state::record::HostRecord;
use nephila_core::url::CrawlUrl;

use super::super::route::partition_of;
use super::super::views::{DomainView, MapView};
use super::{Api, Instead, Place};
use nephila_api::{HttpAnswer, HttpQuestion, ok, problem};
use nephila_engine::crawl::shared::Shared;

impl Api {
    /// `GET cluster/map?from=CURSOR`.
    pub async fn map(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let from = match asked.parameter("from") {
            None => HostKey::MIN,
            Some(text) => read_cursor(&text).ok_or_else(|| {
                let detail = format!("{text:?}: give back what the page before calls `next`, or nothing");
                problem(StatusCode::BAD_REQUEST, "invalid cursor", detail)
            })?,
        };
        let shared = match self.owner_of(asked, from.domain).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        let partitions = self.node.cluster.partitions;
        let first = partition_of(from.domain, partitions);
        let held = |number: &u32| holds(&shared, *number, partitions);
        let end = (first..partitions).find(|number| !held(number)).unwrap_or(partitions);
        let hosts =
            self.bounded(async { Ok(shared.handle.hosts(Some(from), HOSTS_PAGE_MAX).await?) }).await?;
        if (first..end).any(|number| !held(&number)) {
            return Err(self.moving("a partition has just left"));
        }
        let is_full = hosts.len() >= HOSTS_PAGE_MAX;
        let ours = |(key, _): &(HostKey, HostRecord)| partition_of(key.domain, partitions) < end;
        let last = hosts.last().filter(|_| is_full).filter(|host| ours(host)).map(|(key, _)| *key);
        let behind = (end < partitions).then(|| Prefixes::share(end, partitions).first_domain());
        let next = match last {
            Some(last) => last.next(),
            None => behind.map(|domain| HostKey { domain, host: 0 }),
        };
        let mut domains: Vec<(DomainKey, DomainView)> = Vec::new();
        for (key, record) in hosts.into_iter().filter(ours) {
            match domains.last_mut() {
                Some((domain, view)) if *domain == key.domain => add(view, &record),
                _ => {
                    let mut view = DomainView {
                        domain: name(&record.origin),
                        node: self.node.name.clone(),
                        partition: partition_of(key.domain, partitions),
                        ..DomainView::default()
                    };
                    add(&mut view, &record);
                    domains.push((key.domain, view));
                }
            }
        }
        let domains = domains.into_iter().map(|(_, view)| view).collect();
        Ok(ok(&MapView { domains, next: next.map(cursor) }))
    }
}

/// Whether the worker holds this partition.
pub(super) fn holds(shared: &Shared, number: u32, partitions: u32) -> bool {
    shared.handle.holds_domain(Prefixes::share(number, partitions).first_domain())
}

pub(super) fn add(view: &mut DomainView, host: &HostRecord) {
    view.hosts += 1;
    view.pages += host.pages;
    view.left += host.waiting + host.parked + host.later;
}

/// The registrable domain of an origin.
pub(super) fn name(origin: &str) -> String {
    match CrawlUrl::parse(&format!("{origin}/")) {
        Ok(url) => url.registrable_domain().unwrap_or(url.host_str()).to_owned(),
        Err(_) => origin.to_owned(),
    }
}

pub(super) fn cursor(key: HostKey) -> String {
    data_encoding::HEXLOWER.encode(&key.to_bytes())
}

pub(super) fn read_cursor(text: &str) -> Option<HostKey> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
    Some(HostKey::from_bytes(&bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_06_a_cursor_is_read_as_it_was_written_and_nothing_else_is_one() {
        for key in [HostKey::MIN, HostKey::MAX, HostKey { domain: DomainKey(77), host: 3 }] {
            assert_eq!(read_cursor(&cursor(key)), Some(key));
        }
        for bad in ["", "00", "zz", &"0".repeat(26), "000000000000000000000000 "] {
            assert_eq!(read_cursor(bad), None, "{bad}");
        }
    }

    #[test]
    fn row_06_a_domain_is_named_as_people_name_it() {
        for (origin, domain) in [
            ("https://www.example.co.uk", "example.co.uk"),
            ("http://a.b.example.org:8080", "example.org"),
            ("http://192.0.2.7", "192.0.2.7"),
            ("http://[2001:db8::1]:81", "[2001:db8::1]"),
        ] {
            assert_eq!(name(origin), domain);
        }
    }
}
