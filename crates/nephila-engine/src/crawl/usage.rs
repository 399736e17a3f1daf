//! Statements of sites about the use of their pages, stored beside each capture.
//!
//! A host makes them in its robots.txt (`Content-Usage`, `Content-Signal`, `License`, `LLM-Policy`, `tdm-…`), a page in
//! its header fields and its markup. They do not affect the crawl. Users of the archive need them, so every capture
//! carries the statements in force at its time, verbatim, as `usage` lines of its metadata record.
//!
//! Invariant: the cache holds the statements of at most [`HOSTS_MAX`] hosts; evicted ones are read from the frontier
//! again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nephila_core::handler::Findings;
use nephila_core::robots::Note;
use nephila_core::url::CrawlUrl;

use super::shared::Shared;

/// Maximum number of hosts in the cache.
pub(crate) const HOSTS_MAX: usize = 100_000;
/// Maximum size in bytes of a statement; longer ones are cut.
pub(crate) const WORDS_BYTES_MAX: usize = 500;
/// Maximum number of lines of one capture.
pub(crate) const LINES_MAX: usize = 64;

/// The cache of statements, by host.
#[derive(Debug, Default)]
pub struct Usage(Mutex<HashMap<String, Arc<[Note]>>>);

impl Usage {
    /// Stores the statements of a robots.txt.
    pub fn set(&self, origin: String, notes: &[Note]) {
        let mut hosts = self.0.lock().expect("nobody panics holding it");
        if hosts.len() >= HOSTS_MAX {
            hosts.clear();
        }
        hosts.insert(origin, notes.into());
    }

    pub fn get(&self, origin: &str) -> Option<Arc<[Note]>> {
        self.0.lock().expect("nobody panics holding it").get(origin).cloned()
    }
}

/// The `usage` lines of a capture.
pub(crate) async fn lines(shared: &Shared, url: &CrawlUrl, findings: Option<&Findings>) -> Vec<String> {
    let origin = url.origin();
    let host = match shared.usage.get(origin) {
        Some(words) => words,
        None => {
            // Another process read the robots.txt, or this one did long ago.
            let explained = Box::pin(shared.handle.explain(url)).await.ok();
            let words = explained.and_then(|it| it.robots).map(|robots| robots.notes).unwrap_or_default();
            shared.usage.set(origin.to_owned(), &words);
            words.into()
        }
    };
    let of_host = host.iter().map(|note| line("robots.txt", &note.name, &note.value));
    let of_page = findings.into_iter().flat_map(|findings| &findings.page_robots.usage);
    of_host.chain(of_page.map(|(name, value)| line("page", name, value))).take(LINES_MAX).collect()
}

pub(crate) fn line(place: &str, name: &str, value: &str) -> String {
    let mut line = format!("{place} {name}: {value}");
    line.truncate(line.floor_char_boundary(WORDS_BYTES_MAX));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_and_hosts_are_bounded() {
        assert_eq!(line("page", "content-usage", "train-ai=n"), "page content-usage: train-ai=n");
        assert!(line("page", "license", &"é".repeat(1_000)).len() <= WORDS_BYTES_MAX);
        let usage = Usage::default();
        for number in 0..HOSTS_MAX + 5 {
            usage.set(format!("http://h{number}.test"), &[]);
        }
        assert_eq!(usage.0.lock().unwrap().len(), 5);
    }
}
