//! Which resources of a page are asked for, in which order, and how much room is left for them. Pure.
//!
//! Resources are asked for in the order of the page, each with an equal share of the bytes that may be on their way. One
//! that is larger than its share is asked for once more when nothing else is open, alone and with all the room that is
//! left: so pages with few large resources are complete, and many large ones take no more memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use http::StatusCode;
use http::header;
use nephila_core::handler::{FoundLink, LinkKind};
use nephila_core::store::mhtml::{Mhtml, Part};
use nephila_core::url::CrawlUrl;

use super::{AT_ONCE, BYTES_MAX, RESOURCES_MAX, Stored, TIME_MAX};
use crate::problem::{HttpAnswer, whole};

/// Maximum size in bytes of a resource while others are on their way.
pub(super) const SHARE_BYTES: u64 = BYTES_MAX / AT_ONCE as u64;
/// Maximum number of resources of one host that are asked for concurrently: a host whose owner is slow leaves room for
/// others.
const HOST_AT_ONCE: usize = AT_ONCE / 2;
/// Level of the resources that the page names; those of its style sheets are one higher, and last.
const FIRST_LEVEL: u8 = 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Gathering {
    resources: Vec<Resource>,
    /// URLs of the page and of all its resources.
    known: BTreeSet<String>,
    /// Numbers of the resources to ask for.
    queue: VecDeque<usize>,
    /// Numbers of those larger than their share.
    large: VecDeque<usize>,
    /// Number of requests on their way, by origin.
    open: BTreeMap<String, usize>,
    bytes_left: u64,
    /// Number of resources beyond [`RESOURCES_MAX`].
    pub(super) omitted: usize,
}

#[derive(Debug)]
struct Resource {
    url: CrawlUrl,
    kind: LinkKind,
    level: u8,
    /// None until there is an answer.
    found: Option<Result<Stored, Missing>>,
}

/// A resource to ask for.
#[derive(Debug)]
pub(super) struct Request {
    number: usize,
    pub(super) url: CrawlUrl,
    pub(super) kind: LinkKind,
    pub(super) level: u8,
    pub(super) bytes_max: u64,
    /// Whether nothing else is on its way.
    is_alone: bool,
}

/// Why there are no bytes of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) status: u16,
    pub(super) why: String,
    pub(super) retry_after: Option<String>,
}

impl Gathering {
    /// For a page with these URLs and a body of this size.
    pub(super) fn new<'a>(page: impl IntoIterator<Item = &'a str>, bytes: u64) -> Gathering {
        Gathering {
            resources: Vec::new(),
            known: page.into_iter().map(str::to_owned).collect(),
            queue: VecDeque::new(),
            large: VecDeque::new(),
            open: BTreeMap::new(),
            bytes_left: BYTES_MAX.saturating_sub(bytes),
            omitted: 0,
        }
    }

    /// Adds resources that the page names.
    pub(super) fn add(&mut self, links: Vec<FoundLink>) {
        self.add_at(FIRST_LEVEL, links);
    }

    fn add_at(&mut self, level: u8, links: Vec<FoundLink>) {
        for FoundLink { url, kind, .. } in links {
            if self.known.contains(url.as_str()) {
                continue;
            }
            if self.resources.len() >= RESOURCES_MAX {
                self.omitted += 1;
                continue;
            }
            self.known.insert(url.as_str().to_owned());
            self.queue.push_back(self.resources.len());
            self.resources.push(Resource { url, kind, level, found: None });
        }
    }

    /// The next resource to ask for, while this number is being asked for. None if there is none at this time.
    pub(super) fn next(&mut self, open: usize) -> Option<Request> {
        if open >= AT_ONCE {
            return None;
        }
        let has_room = |number: &usize| {
            let origin = self.resources[*number].url.origin();
            self.open.get(origin).is_none_or(|open| *open < HOST_AT_ONCE)
        };
        let place = self.queue.iter().position(has_room);
        let (number, bytes_max, is_alone) = match place.and_then(|place| self.queue.remove(place)) {
            Some(number) => (number, SHARE_BYTES.min(self.bytes_left), false),
            None if open > 0 => return None,
            None => (self.large.pop_front()?, self.bytes_left, true),
        };
        let Resource { url, kind, level, .. } = &self.resources[number];
        *self.open.entry(url.origin().to_owned()).or_default() += 1;
        Some(Request { number, url: url.clone(), kind: *kind, level: *level, bytes_max, is_alone })
    }

    /// Takes an answer.
    pub(super) fn take(&mut self, request: &Request, found: Result<Stored, Missing>) {
        if let Some(open) = self.open.get_mut(request.url.origin()) {
            *open = open.saturating_sub(1);
        }
        let is_too_large = |missing: &Missing| missing.status == StatusCode::PAYLOAD_TOO_LARGE;
        if found.as_ref().is_err_and(is_too_large) && !request.is_alone {
            self.large.push_back(request.number);
            return;
        }
        let found = found.and_then(|mut stored| {
            let bytes = stored.body.len() as u64;
            let Some(left) = self.bytes_left.checked_sub(bytes) else {
                let why = format!("a page and its resources have at most {BYTES_MAX} bytes");
                return Err(Missing::new(StatusCode::PAYLOAD_TOO_LARGE, why));
            };
            self.bytes_left = left;
            self.add_at(request.level + 1, std::mem::take(&mut stored.embedded));
            Ok(stored)
        });
        self.resources[request.number].found = Some(found);
    }

    /// All resources with their answers.
    pub(super) fn found(&self) -> impl Iterator<Item = (&str, Result<&Stored, Missing>)> {
        self.resources.iter().map(|resource| {
            let found = match &resource.found {
                Some(found) => found.as_ref().map_err(Missing::clone),
                None => {
                    let why = format!("no answer within {} s", TIME_MAX.as_secs());
                    Err(Missing::new(StatusCode::SERVICE_UNAVAILABLE, why))
                }
            };
            (resource.url.as_str(), found)
        })
    }
}

impl Missing {
    fn new(status: StatusCode, why: impl Into<String>) -> Missing {
        Missing { status: status.as_u16(), why: why.into(), retry_after: None }
    }

    /// From an error answer.
    pub(super) async fn of(answer: HttpAnswer) -> Missing {
        let (head, body) = whole(answer).await;
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        let retry_after = head.headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
        Missing {
            retry_after: retry_after.map(str::to_owned),
            ..Missing::new(head.status, format!("{}: {}", text("title"), text("detail")))
        }
    }

    /// Writes a part that says the status and the reason.
    pub(super) fn put(&self, url: &str, mhtml: &mut Mhtml) {
        let mut fields = vec![("Nephila-Status", self.status.to_string())];
        if let Some(after) = &self.retry_after {
            fields.push(("Retry-After", after.clone()));
        }
        let content_type = "text/plain; charset=utf-8";
        mhtml.put(&Part { url, content_type, fields: &fields, body: self.why.as_bytes() });
    }
}
