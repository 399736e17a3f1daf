//! The list of downloads: every admitted URL, as pending, fetching, success or error (SEEDS D1).
//!
//! A list is read in three parts, page by page: URLs being fetched, from the workbench; ended and planned URLs, from
//! the records of URLs; waiting URLs, from the queues, which hold their text. A [`Cursor`] marks the beginning of the
//! next page.
//!
//! Invariants: a page examines at most [`LOOKED_AT_MAX`] records, so its latency is bounded; a URL whose state does not
//! change while the list is read is in the list. A URL that was brought forward in its queue may occur twice.

use std::collections::BTreeSet;

use super::Frontier;
use crate::entry::NO_FETCH;
use crate::handler::ReadAs;
use crate::job::JobId;
use crate::key::{HostKey, UrlKey};
use crate::spider::outcome::{Class, Outcome};
use crate::state::queue::QueueKey;
use crate::state::record::{UrlRecord, UrlState};
use crate::state::{State, StateError};
use crate::time::Seconds;
use crate::url::CrawlUrl;

/// Maximum number of records examined for one page.
pub const LOOKED_AT_MAX: usize = 2_000;

/// The state of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownloadState {
    /// Waits for its turn, or for a retry.
    Pending,
    /// Being fetched.
    Fetching,
    /// The last fetch succeeded.
    Success,
    /// Failed without a further retry, or rejected.
    Error,
}

impl DownloadState {
    /// All states.
    pub const ALL: [DownloadState; 4] =
        [DownloadState::Pending, DownloadState::Fetching, DownloadState::Success, DownloadState::Error];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            DownloadState::Pending => "pending",
            DownloadState::Fetching => "fetching",
            DownloadState::Success => "success",
            DownloadState::Error => "error",
        }
    }

    /// The state of a URL that is not being fetched. `None` if the URL is no download: a rule refuses the URL, or only
    /// its key is kept.
    fn of(record: &UrlRecord) -> Option<DownloadState> {
        let is_good = record.last.as_ref().is_some_and(|last| last.outcome.class() == Class::Ok);
        match record.state {
            UrlState::Waiting | UrlState::Parked => Some(DownloadState::Pending),
            UrlState::Later(_) if is_good => Some(DownloadState::Success),
            UrlState::Later(_) => Some(DownloadState::Pending),
            UrlState::Ended if is_good => Some(DownloadState::Success),
            UrlState::Ended => Some(DownloadState::Error),
            UrlState::ParkedBare | UrlState::Refused(_) => None,
        }
    }
}

/// The type of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DownloadType {
    /// A page, the page of a story, or a resource of a page.
    Content,
    /// A feed.
    Feed,
    /// A sitemap.
    Sitemap,
}

impl DownloadType {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            DownloadType::Content => "content",
            DownloadType::Feed => "feed",
            DownloadType::Sitemap => "sitemap",
        }
    }

    /// The type of a download that is read in this way.
    pub const fn of(read_as: ReadAs) -> DownloadType {
        match read_as {
            ReadAs::Page | ReadAs::Style | ReadAs::Story => DownloadType::Content,
            ReadAs::Feed => DownloadType::Feed,
            ReadAs::Sitemap => DownloadType::Sitemap,
        }
    }
}

/// A filter for the list of downloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Only this state.
    pub state: Option<DownloadState>,
    /// Only this type.
    pub of: Option<DownloadType>,
}

impl Wanted {
    fn takes(self, state: DownloadState, of: DownloadType) -> bool {
        self.state.is_none_or(|wanted| wanted == state) && self.of.is_none_or(|wanted| wanted == of)
    }

    fn wants(self, states: &[DownloadState]) -> bool {
        self.state.is_none_or(|wanted| states.contains(&wanted))
    }
}

/// One download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// The URL.
    pub url: String,
    /// The state.
    pub state: DownloadState,
    /// The type.
    pub of: DownloadType,
    /// The job that requested the URL first.
    pub job: JobId,
    /// Number of links from a seed.
    pub depth: u8,
    /// Retries since the last success.
    pub retries: u8,
    /// When the URL was first found.
    pub found: Seconds,
    /// The last outcome, its status and its time; `None` if the URL was neither requested nor rejected.
    pub last: Option<(Outcome, u16, Seconds)>,
    /// When the next fetch is planned, if one is.
    pub next: Option<Seconds>,
}

/// Where the next page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cursor {
    /// URLs being fetched, from this URL on.
    Fetching(UrlKey),
    /// Records, from this URL on.
    Records(UrlKey),
    /// Queues, from this host on, after this place.
    Queues(HostKey, QueueKey),
}

impl Cursor {
    /// The beginning of a list.
    pub const START: Cursor = Cursor::Fetching(UrlKey { host: HostKey::MIN, path: 0 });

    /// The cursor as text, for [`Cursor::parse`].
    pub fn text(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Cursor::Fetching(key) => format!("f{}", hex(&key.to_bytes())),
            Cursor::Records(key) => format!("r{}", hex(&key.to_bytes())),
            Cursor::Queues(host, place) => format!("q{}{}", hex(&host.to_bytes()), hex(&place.to_bytes())),
        }
    }

    /// Parses the text of a cursor.
    pub fn parse(text: &str) -> Option<Cursor> {
        let (kind, hex) = text.split_at_checked(1)?;
        let digits = hex.as_bytes();
        if !digits.len().is_multiple_of(2) || digits.len() > 2 * (HostKey::BYTES + QueueKey::BYTES) {
            return None;
        }
        let digit = |digit: u8| (digit as char).to_digit(16);
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect();
        let bytes = bytes?;
        match kind {
            "f" => Some(Cursor::Fetching(UrlKey::from_bytes(bytes.as_slice().try_into().ok()?))),
            "r" => Some(Cursor::Records(UrlKey::from_bytes(bytes.as_slice().try_into().ok()?))),
            "q" if bytes.len() == HostKey::BYTES + QueueKey::BYTES => {
                let (host, place) = bytes.split_at(HostKey::BYTES);
                Some(Cursor::Queues(HostKey::from_bytes(host.try_into().ok()?), QueueKey::from_bytes(place)))
            }
            _ => None,
        }
    }
}

/// A page of a list, and the cursor of the next page; `None` after the last page.
pub type Page = (Vec<Download>, Option<Cursor>);

impl<S: State> Frontier<S> {
    /// The downloads from a cursor on, at most `max`. A page may be empty without being the last.
    pub fn downloads_page(&mut self, from: Cursor, wanted: Wanted, max: usize) -> Result<Page, StateError> {
        let max = max.clamp(1, LOOKED_AT_MAX);
        match from {
            Cursor::Fetching(from) => self.being_fetched(from, wanted, max),
            Cursor::Records(from) => self.recorded(from, wanted, max),
            Cursor::Queues(host, behind) => self.queued_downloads(host, behind, wanted, max),
        }
    }

    fn being_fetched(&mut self, from: UrlKey, wanted: Wanted, max: usize) -> Result<Page, StateError> {
        let mut page = Vec::new();
        if wanted.wants(&[DownloadState::Fetching]) {
            let mut open = self.bench.fetching();
            open.sort_unstable_by_key(|(key, ..)| *key);
            for (key, origin, text) in open.into_iter().filter(|(key, ..)| *key >= from) {
                if page.len() >= max {
                    return Ok((page, Some(Cursor::Fetching(key))));
                }
                let Some(partition) = self.partition_of(&key.host) else { continue };
                let Some(record) = self.partitions[partition].state.url(&key)? else { continue };
                let (state, of) = (DownloadState::Fetching, DownloadType::of(record.read_as));
                if wanted.takes(state, of) {
                    page.push(download([&*origin, &*text].concat(), state, &record));
                }
            }
        }
        Ok((page, Some(Cursor::Records(UrlKey { host: HostKey::MIN, path: 0 }))))
    }

    fn recorded(&mut self, mut from: UrlKey, wanted: Wanted, max: usize) -> Result<Page, StateError> {
        let mut page = Vec::new();
        let queues = Some(Cursor::Queues(HostKey::MIN, QueueKey::MIN));
        // A retry is pending, and stands among the plans.
        let (mut looked, mut origin): (usize, Option<(HostKey, Box<str>)>) = (0, None);
        for partition in 0..self.partitions.len() {
            let prefixes = self.partitions[partition].prefixes;
            let first = UrlKey { host: HostKey { domain: prefixes.first_domain(), host: 0 }, path: 0 };
            from = from.max(first);
            if from.host.domain > prefixes.last_domain() {
                continue;
            }
            loop {
                let room = (max - page.len()).min(LOOKED_AT_MAX - looked);
                if room == 0 {
                    return Ok((page, Some(Cursor::Records(from))));
                }
                let mut found = Vec::new();
                self.partitions[partition].state.urls_from(from, room, &mut found)?;
                let is_end = found.len() < room;
                looked += found.len();
                for (key, record) in found {
                    if key.host.domain > prefixes.last_domain() {
                        break;
                    }
                    let Some(next) = key.next() else { return Ok((page, queues)) };
                    from = next;
                    let Some(state) = DownloadState::of(&record) else { continue };
                    let Some(text) = &record.text else { continue };
                    // Waiting URLs come with the queues; URLs being fetched came before.
                    if matches!(record.state, UrlState::Waiting | UrlState::Parked)
                        || !wanted.takes(state, DownloadType::of(record.read_as))
                        || self.is_being_fetched(&key)
                    {
                        continue;
                    }
                    if origin.as_ref().is_none_or(|(host, _)| *host != key.host) {
                        let host = self.partitions[partition].state.host(&key.host)?.unwrap_or_default();
                        origin = Some((key.host, host.origin));
                    }
                    let origin = origin.as_ref().map_or("", |(_, origin)| origin);
                    page.push(download([origin, text].concat(), state, &record));
                }
                if is_end {
                    break;
                }
            }
        }
        Ok((page, queues))
    }

    fn queued_downloads(
        &mut self,
        mut host: HostKey,
        mut behind: QueueKey,
        wanted: Wanted,
        max: usize,
    ) -> Result<Page, StateError> {
        let mut page = Vec::new();
        if !wanted.wants(&[DownloadState::Pending]) {
            return Ok((page, None));
        }
        let (mut looked, mut listed) = (0, BTreeSet::new());
        while let Some((key, record)) = self.hosts_page(Some(host), 1)?.pop() {
            if key != host {
                behind = QueueKey::MIN;
            }
            host = key;
            let partition = self.partition_of(&host).expect("its record is of a partition here");
            // Queue entries up to the floor have ended, as for every reader of the queue.
            behind = behind.max(record.floor);
            loop {
                if record.waiting + record.parked == 0 {
                    break;
                }
                let room = (max - page.len()).min(LOOKED_AT_MAX.saturating_sub(looked));
                if room == 0 {
                    return Ok((page, Some(Cursor::Queues(host, behind))));
                }
                let mut queued = Vec::new();
                self.partitions[partition].state.queued(&host, behind, room, &mut queued)?;
                // Two URLs may share a place: the last place is read whole the next time, unless there is no other.
                let is_end = queued.len() < room;
                if !is_end {
                    let last = queued.last().map(|queued| queued.place);
                    let whole = queued.partition_point(|queued| Some(queued.place) < last);
                    queued.truncate(if whole == 0 { queued.len() } else { whole });
                }
                looked += queued.len().max(1);
                let Some(last) = queued.last().map(|queued| queued.place) else { break };
                behind = last;
                for queued in &queued {
                    let text = [&*record.origin, &*queued.text].concat();
                    let Ok(url) = CrawlUrl::parse(&text) else { continue };
                    let path = UrlKey::path_of(url.key(), &self.secret);
                    let key = UrlKey { host, path };
                    let Some(known) = self.partitions[partition].state.url(&key)? else { continue };
                    let state = DownloadState::Pending;
                    if matches!(known.state, UrlState::Waiting | UrlState::Parked)
                        && wanted.takes(state, DownloadType::of(known.read_as))
                        && !self.is_being_fetched(&key)
                        // A URL that was brought forward stands in the queue twice.
                        && listed.insert(key)
                    {
                        page.push(download(text, state, &known));
                    }
                }
                if is_end {
                    break;
                }
            }
            looked += 1;
            let Some(next) = host.next() else { return Ok((page, None)) };
            (host, behind) = (next, QueueKey::MIN);
            if looked >= LOOKED_AT_MAX || page.len() >= max {
                return Ok((page, Some(Cursor::Queues(host, behind))));
            }
        }
        Ok((page, None))
    }

    fn is_being_fetched(&self, key: &UrlKey) -> bool {
        self.bench.ordinary(&key.host).is_some_and(|index| self.bench.is_fetching(index, key.path))
    }
}

fn download(url: String, state: DownloadState, record: &UrlRecord) -> Download {
    let next = match record.state {
        UrlState::Later(due) => Some(due),
        _ => None,
    };
    let last = record.last.as_ref();
    Download {
        url,
        state,
        of: DownloadType::of(record.read_as),
        job: record.job,
        depth: record.depth,
        retries: record.retries,
        found: record.found,
        last: last.map(|last| {
            let asked = last.fetch & NO_FETCH == 0;
            (last.outcome, if asked { last.status } else { 0 }, last.at)
        }),
        next,
    }
}
