//! The URLs of a site that are known, without a request to the site.
//!
//! In this order: the links of the page, the entries of the sitemaps that were fetched, the URLs of the archive's index, of
//! the crawl log and of the frontier. A site of which nothing is known has no links: scrape its page first.

use std::collections::HashMap;

use nephila_core::url::CrawlUrl;
use tokio::time::Instant;

use super::ask::Ask;
use super::failure::{Failure, Kind};
use super::render;
use super::scrape::read;
use super::site::{Site, parsed, seen_in};
use super::{LINKS_MAX, Link, MapOptions, Sitemap, TIMEOUT_MAX, Wants};

/// Maximum number of sitemaps that are read.
const SITEMAPS_MAX: usize = 20;
/// Log lines of this time before now are looked at for titles.
const LOG_MS: u64 = 30 * 24 * 3_600 * 1_000;

/// Known links, in the order in which they were found.
struct Found<'a> {
    site: &'a Site,
    options: &'a MapOptions,
    links: Vec<Link>,
    places: HashMap<String, usize>,
}

impl Found<'_> {
    fn add(&mut self, url: &CrawlUrl, title: Option<String>) {
        let has_query = url.path_and_query().contains('?');
        if !self.site.holds(url) || (has_query && self.options.without_query) {
            return;
        }
        let title = title.filter(|title| !title.is_empty());
        match self.places.get(url.key()) {
            Some(place) => self.links[*place].title = self.links[*place].title.take().or(title),
            None if self.links.len() >= LINKS_MAX => {}
            None => {
                self.places.insert(url.key().to_owned(), self.links.len());
                self.links.push(Link { url: url.as_str().to_owned(), title, description: None });
            }
        }
    }
}

/// Lists the known URLs of a site: see the module.
pub async fn map(ask: &impl Ask, url: &str, options: &MapOptions) -> Result<Vec<Link>, Failure> {
    let seed = parsed(url)?;
    let site = Site::around(&seed, options.subdomains)?;
    let until = Instant::now() + options.timeout.min(TIMEOUT_MAX);
    let mut found = Found { site: &site, options, links: Vec::new(), places: HashMap::new() };
    // What was found until then is the answer.
    let looked = tokio::time::timeout_at(until, look(ask, &seed, &mut found)).await;
    if let Ok(Err(failure)) = looked {
        return Err(failure);
    }
    let mut links = found.links;
    sort(&mut links, &options.search);
    links.truncate(options.limit.clamp(1, LINKS_MAX));
    Ok(links)
}

async fn look(ask: &impl Ask, seed: &CrawlUrl, found: &mut Found<'_>) -> Result<(), Failure> {
    let (site, sitemaps) = (found.site, found.options.sitemap);
    if sitemaps != Sitemap::Only {
        let wants = Wants { markdown: false, links: true, ..Wants::default() };
        match read(ask, seed.as_str(), wants, None).await {
            Ok(page) => {
                let title = Some(page.title).filter(|title| !title.is_empty());
                found.add(seed, title.clone());
                if let Some(place) = found.places.get(seed.key()) {
                    found.links[*place].description = Some(page.description).filter(|text| !text.is_empty());
                }
                let links = page.links.unwrap_or_default();
                links
                    .iter()
                    .filter_map(|link| CrawlUrl::parse(link).ok())
                    .for_each(|url| found.add(&url, None));
            }
            Err(failure) if is_nothing(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    if sitemaps != Sitemap::Skip {
        read_sitemaps(ask, seed, found).await?;
    }
    if sitemaps == Sitemap::Only {
        return Ok(());
    }
    for seen in site.captured(ask, LINKS_MAX).await? {
        if seen.is_page() {
            found.add(&seen.url, None);
        }
    }
    let since = super::scrape::now().0.saturating_sub(LOG_MS);
    for seen in site.logged(ask, since).await?.into_iter().filter_map(seen_in) {
        if seen.is_page() {
            found.add(&seen.url, Some(seen.title));
        }
    }
    for url in site.queued(ask).await? {
        found.add(&url, None);
    }
    Ok(())
}

/// Whether a failure says that the page is not there, and nothing else.
fn is_nothing(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::NotFound | Kind::Away | Kind::Site | Kind::TooLarge)
}

/// Reads the sitemaps that robots.txt names, and the one at the usual place, as far as they were fetched.
async fn read_sitemaps(ask: &impl Ask, seed: &CrawlUrl, found: &mut Found<'_>) -> Result<(), Failure> {
    let at_root = |path: &str| CrawlUrl::parse(&format!("{}{path}", seed.origin())).ok();
    let mut open: Vec<CrawlUrl> = at_root("/sitemap.xml").into_iter().collect();
    if let Some(robots) = at_root("/robots.txt") {
        match render::stored(ask, &robots, None).await {
            Ok(stored) => {
                let text = render::plain(stored).await.unwrap_or_default();
                let named = text.lines().filter_map(|line| line.split_once(':'));
                let named = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("sitemap"));
                open.extend(named.filter_map(|(_, url)| CrawlUrl::parse(url.trim()).ok()));
            }
            Err(failure) if is_nothing(&failure) => {}
            Err(failure) => return Err(failure),
        }
    }
    let mut known: Vec<String> = Vec::new();
    while let Some(url) = open.pop() {
        if known.iter().any(|key| key == url.key()) || known.len() >= SITEMAPS_MAX {
            continue;
        }
        known.push(url.key().to_owned());
        let stored = match render::stored(ask, &url, None).await {
            Ok(stored) => stored,
            Err(failure) if is_nothing(&failure) => continue,
            Err(failure) => return Err(failure),
        };
        let Ok((urls, sitemaps)) = render::sitemap(stored).await else { continue };
        urls.iter().for_each(|url| found.add(url, None));
        open.extend(sitemaps);
    }
    Ok(())
}

/// Keeps the links that have a word of the search, those with most words first.
fn sort(links: &mut Vec<Link>, search: &str) {
    let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
    if words.is_empty() {
        return;
    }
    let score = |link: &Link| {
        let text = format!("{} {}", link.url, link.title.as_deref().unwrap_or_default()).to_lowercase();
        words.iter().filter(|word| text.contains(&**word)).count()
    };
    links.retain(|link| score(link) > 0);
    links.sort_by_cached_key(|link| usize::MAX - score(link));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_keeps_what_has_a_word_and_puts_what_has_most_first() {
        let link =
            |url: &str, title: &str| Link { url: url.into(), title: Some(title.into()), ..Link::default() };
        let mut links = vec![
            link("http://a.test/x", "Prices"),
            link("http://a.test/y", ""),
            link("http://a.test/prices/2026", "All"),
            link("http://a.test/2026", ""),
        ];
        let mut all = links.clone();
        sort(&mut links, "PRICES 2026");
        let urls: Vec<&str> = links.iter().map(|link| &*link.url).collect();
        assert_eq!(urls, ["http://a.test/prices/2026", "http://a.test/x", "http://a.test/2026"]);
        sort(&mut all, " ");
        assert_eq!(all.len(), 4);
    }
}
