//! Arguments of `nephila crawl` and `nephila map`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Common, parse_resolve};

/// Arguments of `nephila crawl`.
#[derive(Args, Clone, Debug, Default)]
pub struct CrawlArgs {
    /// Seeds: the URLs to start from; `-` reads them from standard input. Without seeds, the crawl in the folder
    /// continues
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// File of seeds, one URL per line, `#` starts a comment; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE", help_heading = "Input")]
    pub seeds: Vec<PathBuf>,
    /// Follow this feed: poll the feed and fetch the pages of new stories; repeatable
    #[arg(long = "feed", value_name = "URL", help_heading = "Input")]
    pub feeds: Vec<String>,
    /// Do not end when nothing is left: wait for polls of feeds, revisits of pages and added URLs
    #[arg(long, help_heading = "Limits")]
    pub forever: bool,
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Scope.
    #[command(flatten)]
    pub what: WhatArgs,
    /// Stop after this number of stored responses (pages, sitemaps, images); continue with a larger number
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit: Option<u64>,
    /// Maximum number of pages per host (0: unlimited)
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit_per_host: Option<u64>,
    /// Maximum number of URLs per registrable domain (0: unlimited)
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit_per_domain: Option<u64>,
    /// Stop after this number of received bytes, such as `10GB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub size_limit: Option<u64>,
    /// Stop after this time, such as `2h`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub time_limit: Option<Duration>,
    /// Stop after this number of permanently failed URLs
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub errors_max: Option<u64>,
    /// Continue although parts of the folder are missing or damaged: fetch the pages of lost archive files again, and
    /// replace a state that cannot be repaired by a new one (the old one is set aside)
    #[arg(long)]
    pub mend: bool,
    /// Maximum wait for hosts in backoff, such as `2h`; then stop (0s: unlimited) [default: crawl.wait_max]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub wait_max: Option<Duration>,
    /// Stop with exit code 9 as soon as a seed cannot be fetched
    #[arg(long, help_heading = "Limits")]
    pub fail_on_seed_error: bool,
    /// Answer queries about the running crawl over HTTP at this address, as `nephila serve` does, with metrics at
    /// `/metrics`; such as `127.0.0.1:6374`. Other machines need a token (api.token_file)
    #[arg(long, value_name = "HOST:PORT", help_heading = "Output")]
    pub listen: Option<String>,
    /// Progress display: `bar`, `plain` lines, `json` lines, `none`; `auto` is a bar on a terminal and plain lines
    /// elsewhere
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Output")]
    pub progress: Progress,
    /// Print errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Politeness, network and settings.
    #[command(flatten)]
    pub how: HowArgs,
}

/// Arguments of `nephila map`.
#[derive(Args, Clone, Debug, Default)]
pub struct MapArgs {
    /// Seeds: the URLs from which a crawl would start; `-` reads them from standard input
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// File of seeds, one URL per line; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE", help_heading = "Input")]
    pub seeds: Vec<PathBuf>,
    /// Scope.
    #[command(flatten)]
    pub what: WhatArgs,
    /// Print JSON lines on a terminal too
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Politeness, network and settings.
    #[command(flatten)]
    pub how: HowArgs,
}

/// Scope: the wanted URLs.
#[derive(Args, Clone, Debug, Default)]
pub struct WhatArgs {
    /// Scope around each seed [default: prefix]
    #[arg(long, value_name = "KIND", help_heading = "Scope")]
    pub scope: Option<Scope>,
    /// Include URLs that match this pattern as well: text of the URL, `*` for anything, `^` and `$` for its ends;
    /// repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub include: Vec<String>,
    /// Exclude URLs that match this pattern; wins over all other rules; repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub exclude: Vec<String>,
    /// Maximum number of consecutive links out of scope; 1 checks the links to other sites [default: 0]
    #[arg(long, value_name = "N", help_heading = "Scope")]
    pub extra_hops: Option<u8>,
    /// Maximum link depth from a seed (255: unlimited) [default: 20]
    #[arg(short, long, value_name = "N", help_heading = "Scope")]
    pub depth: Option<u8>,
    /// Fetch images, scripts, styles and frames of pages as well
    #[arg(long, help_heading = "Scope")]
    pub page_requisites: bool,
    /// Ignore the sitemaps that robots.txt names
    #[arg(long, help_heading = "Scope")]
    pub no_sitemap: bool,
}

/// Politeness, network and settings.
#[derive(Args, Clone, Debug, Default)]
pub struct HowArgs {
    /// Maximum number of concurrent fetches [default: crawl.concurrency]
    #[arg(short = 'c', long, value_name = "N", help_heading = "Network")]
    pub concurrency: Option<usize>,
    /// Maximum number of concurrent connections per host [default: frontier.host_connections]
    #[arg(long, value_name = "N", help_heading = "Politeness")]
    pub host_concurrency: Option<u32>,
    /// Crawl delay: pause of a host between two fetches, such as `2s`; lowers the pause of an address as well, unless
    /// frontier.slot_delay is set [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Politeness")]
    pub delay: Option<Duration>,
    /// Ignore robots.txt. Recorded in every archive file
    #[arg(long, help_heading = "Politeness")]
    pub ignore_robots: bool,
    /// Contact for site operators: a URL or a mail address, required for public sites [default: identity.contact]
    #[arg(long, value_name = "URL|MAIL", help_heading = "Politeness")]
    pub contact: Option<String>,
    /// User-Agent header field, in full [default: identity.user_agent]
    #[arg(short = 'U', long, value_name = "TEXT", help_heading = "Politeness")]
    pub user_agent: Option<String>,
    /// Send this header field, `Name: value`, to the origins of the seeds only; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = "Network")]
    pub headers: Vec<String>,
    /// Use this address for a host instead of DNS, as `host:port:address` or `host:address`; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = parse_resolve, help_heading = "Network")]
    pub resolve: Vec<(String, IpAddr)>,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Scope around a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// The seed alone.
    Page,
    /// The seed's folder: all URLs that begin like the seed up to the last slash of the path.
    Prefix,
    /// The seed's host.
    Host,
    /// The seed's registrable domain.
    Domain,
    /// All URLs.
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

/// Progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// A bar on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    /// One line, updated in place.
    Bar,
    /// A line every 10 seconds.
    Plain,
    /// A JSON line every 10 seconds.
    Json,
    /// No progress.
    None,
}

/// Parses a size in bytes: `1000`, `500kB`, `10GB`, `2GiB`.
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
