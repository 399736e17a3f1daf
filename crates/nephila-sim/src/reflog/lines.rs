//! A stream of visited URLs, made from a seed: the text of any batch, at any time, again and again the same.
//!
//! Some URLs are named every few minutes, others a few times a day. Most lines of a URL have the same update tag or
//! none, a few have another. Some lines are late, some lack their last fields, some are broken.

use std::fmt::Write;

use nephila_core::time::Timestamp;

use crate::rng::{Rng, mix};

/// Hosts of one domain.
const HOSTS: u64 = 3;

/// The contents of a stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) seed: u64,
    /// Number of URLs that are named all the time; the others follow them.
    pub(super) frequent: u64,
    pub(super) rare: u64,
    domains: u64,
    /// Lines of one batch.
    pub(super) lines: u64,
}

impl Stream {
    /// A stream of `lines` lines, in batches of `batch_lines`.
    pub(super) fn new(seed: u64, lines: u64, batch_lines: u64) -> Stream {
        let frequent = (lines / 160).max(50);
        let rare = (lines / 100).max(50);
        Stream { seed, frequent, rare, domains: (frequent / 100).max(20), lines: batch_lines }
    }

    /// The number of URLs.
    pub(super) fn urls(&self) -> u64 {
        self.frequent + self.rare
    }

    /// The URL of this number.
    pub(super) fn url(&self, number: u64) -> String {
        let host = mix(number) % (self.domains * HOSTS);
        format!("http://h{}.domain{}.test/news/{number}.html?id={number}", host % HOSTS, host / HOSTS)
    }

    /// The id of a batch.
    pub(super) fn id(&self, batch: u64) -> String {
        format!("2026{:04}{batch:08}", self.seed % 10_000)
    }

    /// The text of a batch that was written at this time.
    pub(super) fn text(&self, batch: u64, at: u64) -> String {
        let mut rng = Rng::new(mix(self.seed) ^ mix(batch + 1));
        let id = self.id(batch);
        let mut text = String::with_capacity(self.lines as usize * 96);
        text.push_str("<unknown field>\n");
        for _ in 0..self.lines {
            if rng.one_in(500) {
                text.push_str("this line was broken on its way\n");
            }
            let url = match rng.one_in(10) {
                true => self.frequent + rng.below(self.rare),
                false => rng.below(self.frequent),
            };
            // The format has whole seconds.
            let late = if rng.one_in(10) { rng.below(10_800) } else { rng.below(300) };
            let when = Timestamp(at - late * 1_000).digits14();
            let url = self.url(url);
            let (hits, tag) = (rng.within(1, 9), tag(&mut rng));
            let written = match rng.below(200) {
                // Its last fields are missing.
                0 => writeln!(text, "{id}\t5\t{when}\t2310\t{url}"),
                1 => writeln!(text, "{id}\t5\t{when}\t2310\t{url}\t{hits}"),
                _ => writeln!(text, "{id}\t5\t{when}\t2310\t{url}\t{hits}\t{tag}"),
            };
            written.expect("a text takes everything");
        }
        text
    }
}

fn tag(rng: &mut Rng) -> &'static str {
    match rng.below(60) {
        0 => "1",
        1 => "2",
        2..20 => "",
        _ => "0",
    }
}
