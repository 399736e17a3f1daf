//! What sites say about the use of their pages, written beside each capture.
//!
//! A host says it in its robots.txt (`Content-Usage`, `Content-Signal`, `License`, `LLM-Policy`, `tdm-…`), a page in its
//! fields and in itself. None of it changes what is fetched; whoever uses the archive has to know it, so every capture
//! carries the words that were in force when it was made, verbatim, as `usage` lines of its metadata record.
//!
//! What always holds: the words of at most [`HOSTS_MAX`] hosts are at hand; those of a host that was put away are read from
//! the frontier again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nephila_core::handler::Findings;
use nephila_core::robots::Note;
use nephila_core::url::CrawlUrl;

use super::shared::Shared;

/// Hosts whose words are at hand.
const HOSTS_MAX: usize = 100_000;
/// Longer words are cut.
const WORDS_BYTES_MAX: usize = 500;
/// Lines of one capture.
const LINES_MAX: usize = 64;

/// The words of hosts.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<HashMap<String, Arc<[Note]>>>);

impl Usage {
    /// A robots.txt was read.
    pub(crate) fn set(&self, origin: String, notes: &[Note]) {
        let mut hosts = self.0.lock().expect("nobody panics holding it");
        if hosts.len() >= HOSTS_MAX {
            hosts.clear();
        }
        hosts.insert(origin, notes.into());
    }

    fn get(&self, origin: &str) -> Option<Arc<[Note]>> {
        self.0.lock().expect("nobody panics holding it").get(origin).cloned()
    }
}

/// The lines of a capture.
pub(crate) async fn lines(shared: &Shared, url: &CrawlUrl, findings: Option<&Findings>) -> Vec<String> {
    let origin = url.origin();
    let host = match shared.usage.get(&origin) {
        Some(words) => words,
        None => {
            // Its robots.txt was read by another process, or long ago.
            let explained = shared.handle.explain(url).await.ok();
            let words = explained.and_then(|it| it.robots).map(|robots| robots.notes).unwrap_or_default();
            shared.usage.set(origin, &words);
            words.into()
        }
    };
    let of_host = host.iter().map(|note| line("robots.txt", &note.name, &note.value));
    let of_page = findings.into_iter().flat_map(|findings| &findings.page_robots.usage);
    of_host.chain(of_page.map(|(name, value)| line("page", name, value))).take(LINES_MAX).collect()
}

fn line(place: &str, name: &str, value: &str) -> String {
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
