//! Flags of `nephila crawl` and `nephila map`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Common, parse_resolve};

/// Flags of `nephila crawl`.
#[derive(Args, Clone, Debug, Default)]
pub struct CrawlArgs {
    /// Where to begin. Without any, the crawl in the folder goes on
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// A file of URLs, one per line, `#` begins a comment; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// Follow this feed: ask it again and again, and fetch the pages of its new stories. May be given several times
    #[arg(long = "feed", value_name = "URL")]
    pub feeds: Vec<String>,
    /// Do not end by itself: wait for feeds to be asked, pages to be fetched again, and what others add
    #[arg(long)]
    pub forever: bool,
    /// The folder of the crawl [default: the current folder if it is a crawl, else nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What and how far
    #[command(flatten)]
    pub what: WhatArgs,
    /// Stop after this many answers to keep (pages, sitemaps, images); the same command with a larger number goes on
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Pages of one host
    #[arg(long, value_name = "N")]
    pub limit_per_host: Option<u64>,
    /// URLs of one registrable domain
    #[arg(long, value_name = "N")]
    pub limit_per_domain: Option<u64>,
    /// Stop after this many bytes received, such as `10GB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size_limit: Option<u64>,
    /// Stop after this time, such as `2h`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// Stop after this many URLs that failed for good
    #[arg(long, value_name = "N")]
    pub errors_max: Option<u64>,
    /// Go on although something of the folder is gone or damaged: pages of lost archive files are fetched again, and a
    /// state that cannot be mended is set aside and begun anew
    #[arg(long)]
    pub mend: bool,
    /// Wait at most this long for hosts that rest, such as `2h`, then stop; `0s` is as long as it takes
    /// [default: crawl.wait_max]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait_max: Option<Duration>,
    /// Stop as soon as a seed cannot be fetched, with exit code 9
    #[arg(long)]
    pub fail_on_seed_error: bool,
    /// How progress is shown: a `bar` on a terminal, `plain` lines, `json` lines, or `none`
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: Progress,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// How to ask
    #[command(flatten)]
    pub how: HowArgs,
}

/// Flags of `nephila map`.
#[derive(Args, Clone, Debug, Default)]
pub struct MapArgs {
    /// Where a crawl would begin
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// A file of URLs, one per line; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// What and how far
    #[command(flatten)]
    pub what: WhatArgs,
    /// Print JSON lines also on a terminal
    #[arg(long)]
    pub json: bool,
    /// How to ask
    #[command(flatten)]
    pub how: HowArgs,
}

/// Which URLs are wanted.
#[derive(Args, Clone, Debug, Default)]
pub struct WhatArgs {
    /// What around each seed is wanted [default: prefix]
    #[arg(long, value_name = "KIND")]
    pub scope: Option<Scope>,
    /// Also URLs in which this stands; `*` is anything, `^` and `$` are the ends of the URL. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Never URLs in which this stands; wins over everything else. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Follow this many links in a row out of scope
    #[arg(long, value_name = "N")]
    pub extra_hops: Option<u8>,
    /// Links from a seed to a page at most; 255 is however many [default: 20]
    #[arg(short, long, value_name = "N")]
    pub depth: Option<u8>,
    /// Fetch images, scripts, styles and frames of pages as well
    #[arg(long)]
    pub page_requisites: bool,
    /// Do not read the sitemaps that robots.txt names
    #[arg(long)]
    pub no_sitemap: bool,
}

/// How sites are asked.
#[derive(Args, Clone, Debug, Default)]
pub struct HowArgs {
    /// Fetches at the same time [default: crawl.concurrency]
    #[arg(short = 'c', long, value_name = "N")]
    pub concurrency: Option<usize>,
    /// Connections to one host at the same time [default: frontier.host_connections]
    #[arg(long, value_name = "N")]
    pub host_concurrency: Option<u32>,
    /// Rest of a host between two fetches, such as `2s`; of an address as well, unless frontier.slot_delay is set
    /// [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Option<Duration>,
    /// Do not ask for robots.txt. Recorded in every archive file
    #[arg(long)]
    pub ignore_robots: bool,
    /// Who to reach about this crawl: a URL or a mail address. Needed for public sites
    #[arg(long, value_name = "URL|MAIL")]
    pub contact: Option<String>,
    /// Who we are: the whole User-Agent field
    #[arg(short = 'U', long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// A field to send, `Name: value`, to the origins of the seeds and to no other
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub headers: Vec<String>,
    /// Use this address for a host, as `host:port:address` or `host:address`, instead of asking the resolver
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = parse_resolve)]
    pub resolve: Vec<(String, IpAddr)>,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// What around a seed is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// The seed alone.
    Page,
    /// Everything in the seed's folder.
    Prefix,
    /// The seed's host.
    Host,
    /// The seed's registrable domain.
    Domain,
    /// Everything.
    Any,
}

impl From<Scope> for nephila_core::job::Kind {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Page => Self::Page,
            Scope::Prefix => Self::Prefix,
            Scope::Host => Self::Host,
            Scope::Domain => Self::Domain,
            Scope::Any => Self::Any,
        }
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// A bar on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// One line that changes.
    Bar,
    /// A line now and then.
    Plain,
    /// A JSON line now and then.
    Json,
    /// Nothing.
    None,
}

/// A number of bytes: `1000`, `500kB`, `10GB`, `2GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let wrong = || format!("{text:?} is no size, such as 500MB or 10GiB");
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    Ok((number * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("12", 12), ("1.5kB", 1_500), ("10GB", 10_000_000_000), ("2GiB", 2 << 30), ("3 mb", 3_000_000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GB", "5 apples", "-1"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
