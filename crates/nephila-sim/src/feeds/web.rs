//! Feeds whose every story is known: the time of its publication, and the contents of the feed at any moment.
//!
//! From one story in twenty minutes to one in a month, in bursts, with outages; in RSS, Atom and JSON, with and without
//! guids, dates and validators, well made and broken, with links that differ at every request.
//!
//! Invariants: the same number gives the same feed; a story has one title and one path for ever, and no two stories of
//! a feed have the same.

use std::fmt::Write;

use nephila_core::time::Timestamp;

use crate::rng::Rng;

/// 2026-11-15T00:00:00Z, when the first feed is polled.
pub const BEGAN: u64 = 1_794_700_800_000;
/// A second, in milliseconds.
pub const SECOND: u64 = 1_000;
/// A minute.
pub const MINUTE: u64 = 60 * SECOND;
/// An hour.
pub const HOUR: u64 = 60 * MINUTE;
/// A day.
pub const DAY: u64 = 24 * HOUR;

/// Mean times between two stories, and how many feeds of a hundred have them: most feeds are slow.
const GAPS: [(u64, u64); 6] =
    [(1, 20 * MINUTE), (8, HOUR), (28, 6 * HOUR), (60, DAY), (85, 5 * DAY), (100, 30 * DAY)];

/// How many entries a feed has at most.
const WINDOWS: [usize; 4] = [10, 15, 20, 40];

/// Stories that were there before the first poll, at most.
const BEFORE_MAX: u64 = 12;

/// How a feed is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RSS with guids and dates.
    Rss,
    /// RSS with links and titles, and nothing else.
    Bare,
    /// RSS that is no XML: ampersands as they are, tags that stay open.
    Broken,
    /// RSS whose links differ at every request: the guid identifies a story.
    Shifting,
    /// Atom.
    Atom,
    /// JSON Feed.
    Json,
}

/// A feed's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A failure: no feed at all.
    Down,
    /// Not modified since the version of the request.
    NotModified,
    /// The feed.
    Body(String),
}

/// A feed and its stories.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its number, which everything follows from.
    pub number: u64,
    /// When each story is published, in whole seconds as milliseconds since 1970, in order.
    pub published: Vec<u64>,
    /// Maximum number of entries in the feed.
    pub window: usize,
    /// The format of the feed.
    pub kind: Kind,
    /// The feed sends validators, and answers 304.
    pub validators: bool,
    /// `ttl`, in milliseconds; 0 if the feed has none.
    pub ttl: u64,
    /// Outages: from, to.
    down: Vec<(u64, u64)>,
}

impl Source {
    /// The feed of this number in the world of a seed, for this number of days.
    pub fn new(seed: u64, number: u64, days: u64) -> Source {
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let of_hundred = rng.below(100);
        let gap = GAPS.iter().find(|(to, _)| of_hundred < *to).map_or(DAY, |(_, gap)| *gap);
        let kinds = [Kind::Rss, Kind::Rss, Kind::Bare, Kind::Broken, Kind::Shifting, Kind::Atom, Kind::Json];
        let mut kind = *rng.pick(&kinds);
        // A feed with other links at every request fills the memory of a source: a frequent one would take too long.
        if kind == Kind::Shifting && gap < 6 * HOUR {
            kind = Kind::Rss;
        }
        // A ttl is read only from a body, so feeds with a ttl send no validators.
        let has_ttl = matches!(kind, Kind::Rss | Kind::Bare) && rng.one_in(8);
        let ttl = if has_ttl { *rng.pick(&[15 * MINUTE, 2 * HOUR]) } else { 0 };
        let validators = !has_ttl && kind != Kind::Shifting && !rng.one_in(4);
        let end = BEGAN + days * DAY;
        let mut published = Vec::new();
        let mut at = BEGAN - rng.within(1, BEFORE_MAX) * gap.min(DAY);
        while at < end {
            published.push(at / SECOND * SECOND);
            // One in five comes together with the story before.
            at += if rng.one_in(5) { SECOND } else { SECOND + rng.below(2 * gap) };
        }
        published.dedup();
        let mut down = Vec::new();
        if rng.one_in(10) {
            let mut from = BEGAN + rng.below(DAY);
            while from < end {
                let to = from + MINUTE + rng.below(6 * HOUR);
                down.push((from, to));
                from = to + rng.within(HOUR, 4 * DAY);
            }
        }
        Source { number, published, window: *rng.pick(&WINDOWS), kind, validators, ttl, down }
    }

    /// Whether the feed is down at this time.
    pub fn is_down(&self, at: u64) -> bool {
        self.down.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    /// How many stories were published by then.
    pub fn count(&self, at: u64) -> usize {
        self.published.partition_point(|published| *published <= at)
    }

    /// The stories that are in the feed at this time.
    pub fn visible(&self, at: u64) -> std::ops::Range<usize> {
        let count = self.count(at);
        count.saturating_sub(self.window)..count
    }

    /// Whether its entries have dates.
    pub fn is_dated(&self) -> bool {
        matches!(self.kind, Kind::Rss | Kind::Atom | Kind::Json)
    }

    /// The version of the feed at this time.
    pub fn version(&self, at: u64) -> String {
        format!("\"{}\"", self.count(at))
    }

    /// The answer at this time to a request with this validator.
    pub fn answer(&self, at: u64, known: Option<&str>) -> Reply {
        if self.is_down(at) {
            return Reply::Down;
        }
        if self.validators && known.is_some_and(|known| known == self.version(at)) {
            return Reply::NotModified;
        }
        Reply::Body(self.body(at))
    }

    /// The path of a story's page.
    pub fn path(&self, story: usize) -> String {
        format!("/s/{}/{story}", self.number)
    }

    /// The story of this path; none if the path is not one of this feed.
    pub fn story(&self, path: &str) -> Option<usize> {
        let rest = path.strip_prefix("/s/")?.split('?').next()?;
        let (number, story) = rest.split_once('/')?;
        (number.parse() == Ok(self.number)).then(|| story.parse().ok())?
    }

    fn body(&self, at: u64) -> String {
        let mut out = String::with_capacity(200 + 180 * self.window);
        let stories = self.visible(at).rev();
        let number = self.number;
        let said = "text never fails to be written";
        match self.kind {
            Kind::Atom => {
                write!(out, "<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>F{number}</title>")
                    .expect(said);
                for k in stories {
                    let (path, date) = (self.path(k), Timestamp(self.published[k]));
                    write!(
                        out,
                        "<entry><id>urn:{number}:{k}</id><title>Story {k}</title><link href=\"{path}\"/>\
                         <published>{date}</published></entry>"
                    )
                    .expect(said);
                }
                out.push_str("</feed>");
            }
            Kind::Json => {
                let version = "https://jsonfeed.org/version/1.1";
                write!(out, "{{\"version\":\"{version}\",\"title\":\"F{number}\",\"items\":[").expect(said);
                for (place, k) in stories.enumerate() {
                    let (path, date) = (self.path(k), Timestamp(self.published[k]));
                    let comma = if place > 0 { "," } else { "" };
                    write!(
                        out,
                        "{comma}{{\"id\":\"{number}:{k}\",\"url\":\"{path}\",\"title\":\"Story {k}\",\
                         \"date_published\":\"{date}\"}}"
                    )
                    .expect(said);
                }
                out.push_str("]}");
            }
            _ => {
                write!(out, "<rss version=\"2.0\"><channel><title>F{number}</title>").expect(said);
                if self.ttl > 0 {
                    write!(out, "<ttl>{}</ttl>", self.ttl / MINUTE).expect(said);
                }
                for k in stories {
                    self.item(&mut out, k, at);
                }
                out.push_str("</channel></rss>");
            }
        }
        out
    }

    fn item(&self, out: &mut String, k: usize, at: u64) {
        let (path, number) = (self.path(k), self.number);
        let said = "text never fails to be written";
        match self.kind {
            Kind::Bare => write!(out, "<item><title>Story {k}</title><link>{path}</link></item>"),
            Kind::Broken => write!(
                out,
                "<item><title>Story {k} & more <br></title><link>{path}</link><guid isPermaLink=false>{number}-{k}</guid>\
                 <description>Q & A</description></item>"
            ),
            Kind::Shifting => write!(
                out,
                "<item><title>Story {k}</title><link>{path}?r={at}</link><guid>{number}-{k}</guid></item>"
            ),
            _ => {
                let date = Timestamp(self.published[k]);
                write!(
                    out,
                    "<item><title>Story {k}</title><link>{path}</link><guid>{number}-{k}</guid>\
                     <pubDate>{date}</pubDate></item>"
                )
            }
        }
        .expect(said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_feed_and_a_path_its_story() {
        for number in 0..200 {
            let source = Source::new(1, number, 30);
            assert_eq!(source.published, Source::new(1, number, 30).published);
            assert!(source.published.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(source.count(BEGAN) > 0, "every feed has a story when it is first asked");
            assert_eq!(source.story(&source.path(3)), Some(3));
            assert_eq!(source.story(&format!("{}?r=9", source.path(3))), Some(3));
            assert_eq!(source.story("/robots.txt"), None);
            let known = source.version(BEGAN);
            if source.validators && !source.is_down(BEGAN) {
                assert_eq!(source.answer(BEGAN, Some(&known)), Reply::NotModified);
            }
        }
    }
}
