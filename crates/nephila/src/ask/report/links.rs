//! Reports on links: pages that could not be fetched, with the pages that link to them; pages to which none links.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use nephila_core::handler::outlinks;
use nephila_core::spider::outcome::{Action, Outcome};
use nephila_core::time::Timestamp;
use nephila_engine::crawl::tables::decode;
use nephila_engine::exit::Exit;
use nephila_engine::log::{Line, Purpose};
use nephila_store::captures::Captures;

use super::{KEYS_MAX, Report, URLS_MAX};
use crate::table::{Column, Table};

/// Maximum number of listed pages with a broken link.
const PAGES_NAMED_MAX: usize = 20;
/// Maximum number of redirects that a browser follows.
const REDIRECTS_MAX: usize = 20;

/// A page whose last request failed, or a URL that redirects to such a page.
#[derive(Clone, Debug)]
struct Bad {
    status: Option<u16>,
    outcome: String,
    class: String,
    at: u64,
    /// Where the redirects end.
    to: Option<String>,
    /// Pages that link to this page, each with the text of its link.
    on: BTreeMap<String, String>,
}

/// Why a host gives no answer.
struct Silence {
    outcome: String,
    class: String,
    at: u64,
}

/// A URL that redirects.
struct Moved {
    to: String,
    at: u64,
    via: Option<String>,
}

impl Report {
    /// Lists pages whose last request failed.
    pub(super) fn links(&mut self, broken: bool) -> anyhow::Result<Exit> {
        let mut pages: BTreeMap<String, Bad> = BTreeMap::new();
        let mut moved: HashMap<String, Moved> = HashMap::new();
        let mut silent: HashMap<String, Silence> = HashMap::new();
        self.each(|line| {
            if line.status.is_some() {
                silent.remove(&line.origin);
            }
            if line.purpose != Purpose::Page {
                if line.status.is_none() && broken && is_broken(&line) && silent.len() < KEYS_MAX {
                    let Line { origin, outcome, class, at, .. } = line;
                    silent.insert(origin, Silence { outcome, class, at });
                }
                return Ok(true);
            }
            let listed = if broken { is_broken(&line) } else { line.class != "ok" };
            let is_known = pages.remove(&line.url).is_some() || moved.remove(&line.url).is_some();
            if !listed && (line.redirect.is_none() || !broken) {
                return Ok(true);
            }
            if pages.len() + moved.len() >= KEYS_MAX && !is_known {
                return Ok(false);
            }
            let Line { url, status, outcome, class, at, via, redirect, .. } = line;
            match redirect {
                Some(to) if !listed => _ = moved.insert(url, Moved { to, at, via }),
                _ => _ = pages.insert(url, Bad { status, outcome, class, at, to: None, on: named(via) }),
            }
            Ok(true)
        })?;
        if broken {
            let dead: Vec<_> = moved.keys().filter_map(|url| dead_end(url, &moved, &pages)).collect();
            pages.extend(dead);
        }
        if broken && !(pages.is_empty() && silent.is_empty()) {
            self.name_pages(&mut pages, &silent)?;
        }
        let found = pages.len();
        let columns: &[Column] = &[
            ("status", 6),
            ("outcome", 20),
            ("class", 8),
            ("at", 20),
            ("url", 48),
            ("on", 48),
            ("anchors", 24),
            ("to", 0),
        ];
        let mut table = Table::begin(&mut self.out, self.format, columns)?.failing();
        for (url, Bad { status, outcome, class, at, to, on }) in pages.into_iter().take(self.limit) {
            let at = Timestamp(at).warc_date();
            let anchors: Vec<&str> =
                on.values().map(String::as_str).filter(|text| !text.is_empty()).collect();
            let anchors = anchors.join(" | ");
            let on = on.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
            table.row(&[
                status.map(u64::from).into(),
                outcome.into(),
                class.into(),
                at.into(),
                url.into(),
                on.into(),
                anchors.into(),
                to.unwrap_or_default().into(),
            ])?;
        }
        table.finish()?;
        Ok(if broken && found > 0 { Exit::Failed } else { Exit::Done })
    }

    /// Adds the pages that link to a failed page: by the outlinks in their latest metadata records, which `nephila
    /// extract` may have renewed, and by the tables, or by the archive files that have none yet. Only the latter know the
    /// texts of links, and the URLs of hosts that gave no answer: these were never requested.
    fn name_pages(
        &self,
        pages: &mut BTreeMap<String, Bad>,
        silent: &HashMap<String, Silence>,
    ) -> anyhow::Result<()> {
        if let Some(captures) = &self.captures {
            by_metadata(captures, pages)?;
        }
        let Some(tables) = &self.tables else { return Ok(()) };
        tables.each_link(&decode, &mut |link| {
            if let Some(Silence { outcome, class, at }) = silent.get(origin(&link.target))
                && !pages.contains_key(&link.target)
                && pages.len() < KEYS_MAX
            {
                let (outcome, class, at) = (outcome.clone(), class.clone(), *at);
                let bad = Bad { status: None, outcome, class, at, to: None, on: BTreeMap::new() };
                pages.insert(link.target.clone(), bad);
            }
            if let Some(bad) = pages.get_mut(&link.target)
                && (bad.on.len() < PAGES_NAMED_MAX || bad.on.contains_key(&link.source))
            {
                let anchor = bad.on.entry(link.source.clone()).or_default();
                if anchor.is_empty() {
                    *anchor = link.anchor.clone().unwrap_or_default();
                }
            }
        })?;
        Ok(())
    }

    /// Lists the pages to which no other page links: seeds, and pages that only sitemaps, feeds or people named.
    pub(super) fn orphans(&mut self) -> anyhow::Result<Exit> {
        let Some(tables) = &self.tables else { anyhow::bail!("there is no archive to read links from") };
        let hasher = RandomState::new();
        let mut linked: HashSet<u64> = HashSet::new();
        let mut beyond = 0;
        tables.each_link(&decode, &mut |link| {
            let is_link = !matches!(link.kind.as_str(), "listed" | "sitemap" | "canonical" | "alternate");
            if !is_link || link.source == link.target {
                return;
            }
            if linked.len() >= URLS_MAX {
                beyond += 1;
            } else {
                linked.insert(hasher.hash_one(&link.target));
            }
        })?;
        anyhow::ensure!(
            beyond == 0,
            "there are links to more than {URLS_MAX} URLs, too many for this report: use `nephila sql`"
        );
        let mut pages: BTreeSet<(String, u64, String)> = BTreeSet::new();
        self.each(|line| {
            let is_page = line.purpose == Purpose::Page && line.class == "ok" && line.mime == "text/html";
            if !is_page || linked.contains(&hasher.hash_one(&line.url)) {
                return Ok(true);
            }
            if pages.len() >= KEYS_MAX {
                return Ok(false);
            }
            pages.insert((line.url, u64::from(line.depth), line.via.unwrap_or_default()));
            Ok(true)
        })?;
        let columns: &[Column] = &[("depth", 5), ("url", 48), ("via", 0)];
        let mut table = Table::begin(&mut self.out, self.format, columns)?;
        for (url, depth, via) in pages.into_iter().take(self.limit) {
            table.row(&[depth.into(), url.into(), via.into()])?;
        }
        table.finish()?;
        Ok(Exit::Done)
    }
}

/// Scheme, host and port of a URL as the log and the tables have them.
pub(super) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url, |end| &url[..host + end])
}

/// The first page that is known to link to a page.
fn named(via: Option<String>) -> BTreeMap<String, String> {
    via.map(|page| (page, String::new())).into_iter().collect()
}

/// A URL whose redirects end at a broken page, or do not end.
fn dead_end(
    url: &str,
    moved: &HashMap<String, Moved>,
    pages: &BTreeMap<String, Bad>,
) -> Option<(String, Bad)> {
    let first = moved.get(url)?;
    let mut to = &first.to;
    for _ in 1..REDIRECTS_MAX {
        match moved.get(to) {
            Some(next) => to = &next.to,
            None => {
                let end = pages.get(to)?.clone();
                return Some((
                    url.to_owned(),
                    Bad { to: Some(to.clone()), on: named(first.via.clone()), ..end },
                ));
            }
        }
    }
    let outcome = Outcome::RedirectLoop;
    let (status, to) = (None, Some(first.to.clone()));
    let (class, at) = (outcome.class().to_string(), first.at);
    let on = named(first.via.clone());
    Some((url.to_owned(), Bad { status, outcome: outcome.name().to_owned(), class, at, to, on }))
}

/// Adds pages by the outlinks in metadata records.
fn by_metadata(captures: &Captures, pages: &mut BTreeMap<String, Bad>) -> anyhow::Result<()> {
    captures.each_metadata(&mut |page, block| {
        for line in block.split(|byte| *byte == b'\n') {
            let Some(link) = line.strip_prefix(b"outlink: ") else { continue };
            let link = String::from_utf8_lossy(link);
            if let Some(bad) = pages.get_mut(outlinks::url_of(&link))
                && bad.on.len() < PAGES_NAMED_MAX
            {
                bad.on.entry(page.to_owned()).or_default();
            }
        }
    })?;
    Ok(())
}

/// Whether a visitor who follows the link would find nothing. URLs that we did not request, or could not request for
/// reasons of our own, are not broken; neither are URLs refused to us alone.
fn is_broken(line: &Line) -> bool {
    let Some(outcome) = Outcome::by_name(&line.outcome) else { return line.class == "gone" };
    match outcome {
        Outcome::RateLimited | Outcome::RobotsUnreachable | Outcome::DecodeLimit | Outcome::DecodeChain => {
            false
        }
        Outcome::ClientError => true,
        outcome if outcome.name().starts_with("tls-") => true,
        outcome => {
            matches!(line.class.as_str(), "gone" | "broken" | "retry") && outcome.action() != Action::Pause
        }
    }
}
