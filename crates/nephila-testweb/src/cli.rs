//! The flags of the `testweb` command.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use nephila_testweb::Settings;
use nephila_testweb::settings::Encoding;

/// A synthetic web on loopback, for tests.
#[derive(Parser)]
#[command(version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve a web until standard input closes, a signal comes, or the time is over; a line `advance SECONDS` on
    /// standard input moves virtual time
    Serve(ServeArgs),
    /// Print the URLs of all pages
    List(WebArgs),
    /// Print the ground truth of a crawl: every URL and how it ends
    Truth(TruthArgs),
    /// Judge a journal that `serve` wrote; fails unless the journal is clean
    Check(CheckArgs),
    /// Serve the hostile web until standard input closes, a signal comes, or the time is over
    Hostile {
        /// Folder for `ca.pem`, the certificates to trust, and `urls.txt`, every URL there is
        #[arg(long)]
        folder: PathBuf,
        /// Stop after this number of seconds instead of when standard input closes
        #[arg(long = "for")]
        seconds: Option<u64>,
    },
    /// Serve one fixed page and nothing else, as a measure of speed
    BenchBare {
        /// Port on 127.0.0.1; any free one at 0
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Size of the page
        #[arg(long, default_value_t = 20_000)]
        page_bytes: usize,
        /// Threads; one per core unless given
        #[arg(long)]
        threads: Option<usize>,
        /// Stop after this number of seconds instead of when standard input closes
        #[arg(long = "for")]
        seconds: Option<u64>,
    },
    /// Print the settings as a file for --settings
    Settings(WebArgs),
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Stop after this number of seconds instead of when standard input closes
    #[arg(long = "for")]
    pub(crate) seconds: Option<u64>,
    /// Write the journal to this file, one JSON object per line
    #[arg(long)]
    pub(crate) journal: Option<PathBuf>,
    /// Keep no journal at all
    #[arg(long)]
    pub(crate) no_journal: bool,
    /// Write the certificate of the authority here; to a temporary file unless given
    #[arg(long)]
    pub(crate) ca: Option<PathBuf>,
    /// Threads; one per core unless given
    #[arg(long)]
    threads: Option<usize>,
}

impl ServeArgs {
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or(0)
    }
}

#[derive(Args)]
pub(crate) struct TruthArgs {
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Begin here instead of at all home pages; may be given several times
    #[arg(long = "start")]
    pub(crate) seeds: Vec<String>,
    /// Stay on this host; may be given several times
    #[arg(long)]
    pub(crate) scope: Vec<String>,
    /// Ignore robots.txt
    #[arg(long)]
    pub(crate) ignore_robots: bool,
    /// Read sitemaps
    #[arg(long)]
    pub(crate) sitemaps: bool,
    /// Read feeds
    #[arg(long)]
    pub(crate) feeds: bool,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) truth: TruthArgs,
    /// The journal
    #[arg(long)]
    pub(crate) journal: PathBuf,
    /// Rest of a host between two requests (crawl delay), in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(crate) host_rest_ms: u64,
    /// Rest of an address between two requests, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(crate) address_rest_ms: u64,
    /// Maximum number of requests of a host at once
    #[arg(long, default_value_t = 1)]
    pub(crate) host_requests_max: usize,
    /// Maximum number of requests of an address at once
    #[arg(long, default_value_t = 1)]
    pub(crate) address_requests_max: usize,
    /// Maximum number of connections of a host at once
    #[arg(long, default_value_t = 1)]
    pub(crate) host_connections_max: usize,
    /// Maximum number of connections of an address at once
    #[arg(long, default_value_t = usize::MAX)]
    pub(crate) address_connections_max: usize,
    /// The crawl was not meant to be complete
    #[arg(long)]
    pub(crate) partial: bool,
}

/// The web. Flags override the file.
#[derive(Args)]
pub(crate) struct WebArgs {
    /// JSON file of settings, as printed by `testweb settings`
    #[arg(long)]
    settings: Option<PathBuf>,
    /// Some of everything: duplicates, redirects, errors, robots.txt variants, dead hosts, tarpits
    #[arg(long, conflicts_with = "settings")]
    mixed: bool,
    /// Seed that everything follows from
    #[arg(long)]
    seed: Option<u64>,
    /// Number of hosts
    #[arg(long)]
    hosts: Option<u32>,
    /// Number of pages of all hosts together
    #[arg(long)]
    pages: Option<u64>,
    /// Mean size of a page
    #[arg(long)]
    page_bytes: Option<u32>,
    /// Spread of page sizes; 0 for pages of one size
    #[arg(long)]
    page_bytes_sigma: Option<f64>,
    /// Number of addresses in 127.0.0.0/8
    #[arg(long)]
    addresses: Option<u32>,
    /// Second number of these addresses
    #[arg(long)]
    address_block: Option<u8>,
    /// Share of hosts linked to by https
    #[arg(long)]
    https_share: Option<f64>,
    /// Median time before an answer, in milliseconds
    #[arg(long)]
    latency_ms: Option<u64>,
    /// Content codings in order of preference, for content negotiation
    #[arg(long, value_delimiter = ',')]
    encodings: Option<Vec<Coding>>,
    /// Virtual seconds per real second
    #[arg(long)]
    time_rate: Option<f64>,
    /// Port for HTTP; any free one at 0
    #[arg(long)]
    http_port: Option<u16>,
    /// Port for HTTPS; any free one at 0
    #[arg(long)]
    https_port: Option<u16>,
    /// Port for DNS; any free one at 0
    #[arg(long)]
    dns_port: Option<u16>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Coding {
    Gzip,
    Br,
    Zstd,
}

impl WebArgs {
    /// The effective settings: the file or the defaults, then the flags.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = match &self.settings {
            Some(path) => {
                let text = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
                serde_json::from_slice(&text).with_context(|| format!("understand {}", path.display()))?
            }
            None if self.mixed => Settings::mixed(),
            None => Settings::default(),
        };
        set(&mut settings.seed, self.seed);
        set(&mut settings.hosts, self.hosts);
        set(&mut settings.pages, self.pages);
        set(&mut settings.page_bytes, self.page_bytes);
        set(&mut settings.page_bytes_sigma, self.page_bytes_sigma);
        set(&mut settings.addresses, self.addresses);
        set(&mut settings.address_block, self.address_block);
        set(&mut settings.https_share, self.https_share);
        set(&mut settings.latency, self.latency_ms.map(std::time::Duration::from_millis));
        set(&mut settings.time_rate, self.time_rate);
        set(&mut settings.http_port, self.http_port);
        set(&mut settings.https_port, self.https_port);
        set(&mut settings.dns_port, self.dns_port);
        let codings = self.encodings.as_ref().map(|codings| {
            let encoding = |coding: &Coding| match coding {
                Coding::Gzip => Encoding::Gzip,
                Coding::Br => Encoding::Brotli,
                Coding::Zstd => Encoding::Zstd,
            };
            codings.iter().map(encoding).collect()
        });
        set(&mut settings.encodings, codings);
        Ok(settings)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
