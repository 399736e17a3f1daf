//! Redirects of pages: each hop is a URL of its own, so a chain is judged one hop at a time.

use crate::job::Hops;
use crate::spider::Outcome;
use crate::url::CrawlUrl;

/// The outcome of a redirect that cannot lead on. None if the target is to be offered.
pub fn redirect(
    page: &CrawlUrl,
    target: &CrawlUrl,
    hops: Hops,
    sets_cookie: bool,
    redirects_max: u32,
) -> Option<Outcome> {
    if target.key() == page.key() {
        return Some(if sets_cookie { Outcome::CookieWall } else { Outcome::RedirectLoop });
    }
    let is_last = u32::from(hops.redirects()) >= redirects_max.min(Hops::MOST.into());
    is_last.then_some(Outcome::RedirectLimit)
}
