//! From places to bytes.
//!
//! A [`Renderer`] is made once per web and holds one block of text. A page is its own head (title and links) and a
//! slice of that block, so a large page costs as much as a small one: no text is made or copied per request.
//! Robots.txt, feeds and sitemaps are small and written on request.
//!
//! Invariant: the same place at the same virtual time has the same bytes.

mod coding;
mod feed;
mod gzip;
mod page;
mod sitemap;
mod text;

use std::sync::Arc;

use bytes::Bytes;

pub use coding::choose;

use crate::model::{PageKind, Place, What, World};
use crate::settings::Encoding;
use gzip::Packed;

/// The answer of a place, before conditions and content coding.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Content-Type`.
    pub kind: &'static str,
    /// The body, in pieces that follow each other.
    pub body: Vec<Bytes>,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u32>,
    /// A number that changes with the body, for `ETag`, and the time of the last change, for `Last-Modified`.
    pub version: Option<(u64, u64)>,
}

impl Answer {
    fn ok(kind: &'static str, body: Vec<Bytes>) -> Answer {
        Answer { status: 200, kind, body, location: None, retry_after: None, version: None }
    }

    /// An error with a word as its body.
    pub fn error(status: u16) -> Answer {
        let text = format!("<!doctype html>\n<title>{status}</title>\n<p>This is status {status}.</p>\n");
        let retry_after = (status == 503).then_some(30);
        Answer { status, retry_after, ..Answer::ok(HTML, vec![text.into()]) }
    }

    fn redirect(status: u16, location: String) -> Answer {
        let text = format!("<!doctype html>\n<title>Moved</title>\n<a href=\"{location}\">here</a>\n");
        Answer { status, location: Some(location), ..Answer::ok(HTML, vec![text.into()]) }
    }

    /// Bytes of the body.
    pub fn len(&self) -> u64 {
        self.body.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const HTML: &str = "text/html; charset=utf-8";
const XML: &str = "application/xml; charset=utf-8";

/// Writes the web.
pub struct Renderer {
    world: Arc<World>,
    text: Bytes,
    packed: Packed,
}

impl Renderer {
    /// Prepares the text of a web.
    pub fn new(world: Arc<World>) -> Renderer {
        let text = text::text_block(world.settings().seed, world.settings().text);
        let packed = Packed::new(&text);
        Renderer { world, text, packed }
    }

    /// The pieces of a body in a content coding.
    pub fn encode(&self, body: &[Bytes], encoding: Encoding) -> Vec<Bytes> {
        match encoding {
            Encoding::Gzip => self.packed.gzip(body),
            Encoding::Brotli => vec![coding::brotli(body)],
            Encoding::Zstd => vec![coding::zstd(body)],
        }
    }

    /// The web that is written.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The answer of a place at a virtual time.
    pub fn answer(&self, place: Place, now: u64) -> Answer {
        let Place { host, what } = place;
        match what {
            What::Page(page) => match self.world.page_kind(host, page) {
                PageKind::Normal => self.page(host, page, now),
                PageKind::Duplicate(Place { host, what: What::Page(page) }) => self.page(host, page, now),
                PageKind::Duplicate(of) => self.answer(of, now),
                PageKind::Redirect { status, to } => {
                    let mut location = String::new();
                    // Half of the redirects on the own host are written without a host (a relative `Location`), as many
                    // servers do.
                    if to.host == host && page.is_multiple_of(2) {
                        self.world.push_path(&mut location, to);
                    } else {
                        self.world.push_url(&mut location, to);
                    }
                    Answer::redirect(status, location)
                }
                PageKind::Error(status) => Answer::error(status),
            },
            What::News(item) => self.news(host, item),
            What::Feed => self.feed(host, now),
            What::Sitemaps => self.sitemap_index(host),
            What::Sitemap(file) => self.sitemap(host, file, now),
            What::Robots => {
                let robots = self.world.robots_answer(host, now);
                match robots.location {
                    Some(location) => Answer::redirect(robots.status, location),
                    None if robots.status != 200 => Answer::error(robots.status),
                    None => Answer::ok("text/plain; charset=utf-8", vec![robots.body.into()]),
                }
            }
            What::RobotsReal => {
                Answer::ok("text/plain; charset=utf-8", vec![self.world.robots_text(host, now).into()])
            }
        }
    }
}
