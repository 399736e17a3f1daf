//! Crawler traps: sites that generate URLs and hosts without end.
//!
//! A URL is judged before admission, from its text alone ([`judge`]): too long, too deep, repeated segments, too many
//! parameters, dates far from today. Other traps show in the pages: when URLs of one **shape** ([`shape()`]) keep
//! leading to equal or nearly equal pages, the shape is closed ([`Alike`]). A domain with endless host names takes no new ones
//! ([`host_verdict`]).
//!
//! Session ids are no trap here: the rules for a URL's key may drop them ([`crate::url::KeyRules`]), and equal pages
//! under ever new ids close their shape.
//!
//! Invariants: the same URL and settings give the same verdict, so a refusal can be explained at any time; the work is
//! linear in the URL's length, except for sorting its segments and parameters.

mod alike;
mod dates;
mod shape;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::url::CrawlUrl;

pub use alike::{Alike, CLOSED_MAX, PAGES_MAX, Page, WATCHED_MAX};
pub use shape::{folder, shape};

/// Detection of crawler traps. Section `[trap]` of the settings file. 0 turns a rule off.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Maximum length of a URL in bytes. URLs above 8 KiB are refused in any case.
    pub url_bytes_max: usize,
    /// Maximum number of path segments.
    pub path_segments_max: usize,
    /// Maximum number of times that one to three path segments may occur in a row. Traps by default: `/a/a/a/a`,
    /// `/a/b/a/b/a/b/a/b`.
    pub path_repeats_max: usize,
    /// Maximum number of occurrences of one segment in a path, consecutive or not. Numbers do not count.
    pub segment_repeats_max: usize,
    /// Maximum number of query parameters.
    pub params_max: usize,
    /// Maximum number of occurrences of one parameter in a query.
    pub param_repeats_max: usize,
    /// Maximum number of years that a date in a URL may lie ahead: calendars link to the next month for ever.
    pub years_ahead_max: u16,
    /// Maximum number of years that a date in a URL may lie back. Archives reach far back; calendars reach further.
    pub years_back_max: u16,
    /// When equal pages outnumber different ones by this many under URLs of one shape, the shape is closed: new URLs of
    /// the shape are refused.
    pub pages_alike_max: u16,
    /// Near-duplicates count as equal pages: pages whose main texts differ in about two words of a hundred at most. Only
    /// where the main text is extracted (`handler.text`).
    pub near_duplicates: bool,
    /// Maximum number of hosts of a registrable domain. Further hosts are refused.
    pub hosts_per_domain_max: u32,
    /// Number of consecutive "not found" or "gone" answers after which a host rests ever longer, until a page is there
    /// again: some sitemaps name a million pages that are gone.
    pub missing_in_row_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            url_bytes_max: 4096,
            path_segments_max: 24,
            path_repeats_max: 3,
            segment_repeats_max: 5,
            params_max: 32,
            param_repeats_max: 16,
            years_ahead_max: 10,
            years_back_max: 250,
            pages_alike_max: 20,
            near_duplicates: true,
            hosts_per_domain_max: 10_000,
            missing_in_row_max: 1_000,
        }
    }
}

macro_rules! traps {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// The reason why a URL or host counts as a trap. The variants' docs are their meanings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Trap {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Trap {
            /// All reasons.
            pub const ALL: &'static [Trap] = &[$(Trap::$variant,)+];

            /// The recorded name.
            pub const fn name(self) -> &'static str {
                match self { $(Trap::$variant => $name,)+ }
            }

            /// The meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Trap::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

traps! {
    /// Path segments repeat.
    Repeat = "trap-repeat";
    /// The path has more segments than `path_segments_max`.
    Deep = "trap-deep";
    /// The query has more parameters, or one of them more often, than the settings allow.
    Params = "trap-params";
    /// The URL is longer than `url_bytes_max`.
    Long = "trap-long";
    /// Pages under URLs of this shape are equal.
    Alike = "trap-alike";
    /// The domain has more host names than `hosts_per_domain_max`.
    HostFlood = "trap-hosts";
    /// The URL names a date far from today.
    Dates = "trap-dates";
}

/// The additional rest of a host after `in_row` consecutive requests for missing pages.
pub fn missing_rest(in_row: u32, settings: &Settings, rest_max: Duration) -> Option<Duration> {
    let over = in_row.checked_sub(settings.missing_in_row_max).filter(|_| settings.missing_in_row_max > 0)?;
    let doubled = 1u32.checked_shl(over / MISSING_STEP).unwrap_or(u32::MAX);
    Some(MISSING_REST_FIRST.saturating_mul(doubled).min(rest_max))
}

/// The first such rest, and the number of further missing pages after which the rest doubles.
const MISSING_REST_FIRST: Duration = Duration::from_secs(10);
const MISSING_STEP: u32 = 20;

/// Judges a URL by its text. Dates need the current time and are not checked: see [`judge_at`].
pub fn judge(url: &CrawlUrl, settings: &Settings) -> Option<Trap> {
    // The most telling reason first: a path that repeats is often deep and long as well.
    if repeats(url.path(), settings) {
        return Some(Trap::Repeat);
    }
    if exceeds(segments(url.path()).count(), settings.path_segments_max) {
        return Some(Trap::Deep);
    }
    if url.query().is_some_and(|query| too_many_params(query, settings)) {
        return Some(Trap::Params);
    }
    exceeds(url.as_str().len(), settings.url_bytes_max).then_some(Trap::Long)
}

/// Like [`judge`], and checks dates as well.
pub fn judge_at(url: &CrawlUrl, settings: &Settings, now: Timestamp) -> Option<Trap> {
    judge(url, settings).or_else(|| dates::is_far(url, settings, now).then_some(Trap::Dates))
}

/// Judges a new host of a domain that has this number of hosts already.
pub fn host_verdict(known_hosts: u32, settings: &Settings) -> Option<Trap> {
    let full = settings.hosts_per_domain_max > 0 && known_hosts >= settings.hosts_per_domain_max;
    full.then_some(Trap::HostFlood)
}

fn exceeds(count: usize, max: usize) -> bool {
    max > 0 && count > max
}

/// The segments of a path. A final slash starts no segment; two adjacent slashes enclose an empty one.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let any = !path.is_empty();
    path.split('/').filter(move |_| any)
}

/// The parameters of a query, name and value together.
fn params(query: &str) -> impl Iterator<Item = &str> {
    query.split(['&', ';']).filter(|param| !param.is_empty())
}

fn param_name(param: &str) -> &str {
    param.split_once('=').map_or(param, |(name, _)| name)
}

fn repeats(path: &str, settings: &Settings) -> bool {
    let mut segments: Vec<&str> = segments(path).collect();
    for cycle in 1..=CYCLE_MAX {
        // How many segments in a row equal the one a cycle before.
        let mut equal = 0;
        for at in cycle..segments.len() {
            equal = if segments[at] == segments[at - cycle] { equal + 1 } else { 0 };
            if exceeds(equal / cycle + 1, settings.path_repeats_max) {
                return true;
            }
        }
    }
    // Numbers often repeat in a path for a good reason: map tiles, sharded ids.
    segments.retain(|segment| !segment.bytes().all(|b| b.is_ascii_digit()));
    exceeds(most_equal(&mut segments), settings.segment_repeats_max)
}

fn too_many_params(query: &str, settings: &Settings) -> bool {
    let mut names: Vec<&str> = params(query).map(param_name).collect();
    exceeds(names.len(), settings.params_max) || exceeds(most_equal(&mut names), settings.param_repeats_max)
}

/// How often the most frequent text occurs.
fn most_equal(texts: &mut [&str]) -> usize {
    texts.sort_unstable();
    texts.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
}

/// Maximum length of a repeated run of segments that is detected.
const CYCLE_MAX: usize = 3;
