//! Pages: the kind, size and change rate of each.
//!
//! Invariants: page 0 of every host (`/`) is an ordinary page; a redirect or a duplicate points at a page that comes
//! earlier (a lower host, or a lower page of its own host), so chains end.

use super::draw::{Tag, below, log_normal, unit};
use super::{Place, What, World};

/// No page is larger than this many times the mean.
const PAGE_TIMES_MAX: f64 = 16.0;
/// Statuses of pages that are errors, each as often as listed here.
const ERRORS: [u16; 8] = [404, 404, 404, 410, 403, 500, 500, 503];
/// Statuses of pages that redirect.
const REDIRECTS: [u16; 4] = [301, 302, 307, 308];

/// The kind of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PageKind {
    /// A page with text and links.
    Normal,
    /// The same bytes as another page.
    Duplicate(Place),
    /// Sends the client elsewhere.
    Redirect {
        /// 301, 302, 307 or 308.
        status: u16,
        /// Where to.
        to: Place,
    },
    /// Answers with this status.
    Error(u16),
}

impl World {
    /// The kind of a page.
    pub fn page_kind(&self, host: u32, page: u64) -> PageKind {
        if page == 0 {
            return PageKind::Normal;
        }
        let settings = &self.settings;
        let odd = settings.duplicate_share + settings.redirect_share + settings.error_share;
        if odd == 0.0 {
            return PageKind::Normal;
        }
        let x = unit(self.draw(Tag::Kind, host, page));
        let detail = self.draw(Tag::KindDetail, host, page);
        if x < settings.error_share {
            PageKind::Error(ERRORS[below(detail, ERRORS.len() as u64) as usize])
        } else if x < settings.error_share + settings.redirect_share {
            let status = REDIRECTS[below(detail, REDIRECTS.len() as u64) as usize];
            PageKind::Redirect { status, to: self.earlier(Tag::Target, host, page) }
        } else if x < odd {
            PageKind::Duplicate(self.original(host, page))
        } else {
            PageKind::Normal
        }
    }

    /// Whether a page lies under `/private/`.
    pub(crate) fn is_private(&self, host: u32, page: u64) -> bool {
        page != 0 && self.falls(Tag::Private, host, page, self.settings.private_share)
    }

    /// Whether all links of a page are absolute, so that the same bytes mean the same on any host.
    pub(crate) fn is_absolute(&self, host: u32, page: u64) -> bool {
        page == 0 || self.draw(Tag::Absolute, host, page).is_multiple_of(2)
    }

    /// The ordinary page a duplicate repeats: half are of the same host.
    fn original(&self, host: u32, page: u64) -> Place {
        let from = self.earlier(Tag::Original, host, page);
        let What::Page(mut number) = from.what else { unreachable!("earlier places are pages") };
        // Down to the first page that can be repeated; the home page always can.
        while number > 0 {
            let fits = from.host == host || self.is_absolute(from.host, number);
            if fits && self.page_kind_is_normal(from.host, number) {
                break;
            }
            number -= 1;
        }
        Place { host: from.host, what: What::Page(number) }
    }

    fn page_kind_is_normal(&self, host: u32, page: u64) -> bool {
        let settings = &self.settings;
        let odd = settings.duplicate_share + settings.redirect_share + settings.error_share;
        page == 0 || unit(self.draw(Tag::Kind, host, page)) >= odd
    }

    /// A page that comes before this one.
    fn earlier(&self, tag: Tag, host: u32, page: u64) -> Place {
        let x = self.draw(tag, host, page);
        if host > 0 && x.is_multiple_of(2) {
            let other = below(self.draw(tag, host, page ^ 1 << 62), u64::from(host)) as u32;
            let number = below(self.draw(tag, other, page ^ 1 << 63), self.host_pages(other));
            return Place { host: other, what: What::Page(number) };
        }
        Place { host, what: What::Page(below(self.draw(tag, host, page ^ 1 << 61), page)) }
    }

    /// Size of an ordinary page in bytes, before compression.
    pub fn page_size(&self, host: u32, page: u64) -> usize {
        let sigma = self.settings.page_bytes_sigma;
        let mean = f64::from(self.settings.page_bytes);
        // The mean of a log-normal law lies above its median by this factor.
        let median = mean / (sigma * sigma / 2.0).exp();
        let size = median * log_normal(self.draw(Tag::Size, host, page), sigma);
        size.round().min(mean * PAGE_TIMES_MAX) as usize
    }

    /// The version of a page at a virtual time and when that version began; pages that never change are version 0
    /// from before the start on.
    pub fn page_version(&self, host: u32, page: u64, now: u64) -> (u64, u64) {
        let started = self.settings.time_start;
        // So that `Last-Modified` is never in the future, and differs between pages.
        let born = started - below(self.draw(Tag::Change, host, page ^ 1 << 62), 86_400 * 365).min(started);
        if !self.falls(Tag::Change, host, page, self.settings.change_share) {
            return (0, born);
        }
        let spread = log_normal(self.draw(Tag::ChangePeriod, host, page), 1.0);
        let period = (self.settings.change_period.as_secs_f64() * spread).max(1.0) as u64;
        let phase = below(self.draw(Tag::ChangePeriod, host, page ^ 1 << 62), period);
        let version = (now.saturating_sub(started) + phase) / period;
        (version, if version == 0 { born } else { started + version * period - phase })
    }
}

/// A number for one version of one page: the offset of its text in the text block, and its `ETag`.
pub(crate) fn text_mark(world: &World, host: u32, page: u64, version: u64) -> u64 {
    world.draw(Tag::Text, host, page).wrapping_add(version.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn kinds_come_in_their_shares() {
        let world = World::new(Settings { pages: 100_000, ..Settings::mixed() }, 80, 443);
        let (mut duplicates, mut redirects, mut errors, mut all) = (0u32, 0u32, 0u32, 0u32);
        for place in world.pages() {
            let What::Page(page) = place.what else { panic!() };
            all += 1;
            match world.page_kind(place.host, page) {
                PageKind::Normal => {}
                PageKind::Duplicate(of) => {
                    duplicates += 1;
                    let What::Page(number) = of.what else { panic!() };
                    assert_eq!(world.page_kind(of.host, number), PageKind::Normal);
                    assert!((of.host, number) < (place.host, page));
                }
                PageKind::Redirect { to, .. } => {
                    redirects += 1;
                    assert!(to < place, "{to:?} {place:?}");
                }
                PageKind::Error(_) => errors += 1,
            }
        }
        let near = |count: u32, share: f64| (f64::from(count) / f64::from(all) / share - 1.0).abs() < 0.1;
        assert!(near(duplicates, 0.08) && near(redirects, 0.06) && near(errors, 0.04));
    }

    #[test]
    fn sizes_have_the_mean_that_was_asked_for() {
        for (page_bytes, sigma) in [(20_000, 0.6), (100_000, 0.6), (185_000, 0.0)] {
            let settings = Settings { page_bytes, page_bytes_sigma: sigma, ..Settings::default() };
            let world = World::new(settings, 80, 443);
            let sum: usize = (0..20_000).map(|page| world.page_size(1, page)).sum();
            let mean = sum as f64 / 20_000.0;
            assert!((mean / f64::from(page_bytes) - 1.0).abs() < 0.03, "{mean} for {page_bytes}");
        }
    }

    #[test]
    fn versions_rise_with_time_and_begin_in_the_past() {
        let world = World::new(Settings { change_share: 1.0, ..Settings::mixed() }, 80, 443);
        let start = world.settings().time_start;
        for page in 0..200 {
            let mut last = 0;
            for day in 0..60 {
                let now = start + day * 86_400;
                let (version, began) = world.page_version(1, page, now);
                assert!(version >= last && began <= now);
                assert_eq!(world.page_version(1, page, began.max(start)).0, version);
                last = version;
            }
            assert!(last > 0, "page {page} never changed in two months");
        }
    }
}
