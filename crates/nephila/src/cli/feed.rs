//! Arguments of `nephila feed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Common, Remote};

/// Commands about feeds.
#[derive(Debug, Subcommand)]
pub enum FeedCommand {
    /// Follow feeds: poll each feed regularly and fetch the pages of new stories.
    ///
    /// The feeds of a folder are polled by `nephila crawl -o DIR --forever`, at once if that crawl runs. If the URL is
    /// a page instead of a feed, the feeds that the page names are followed. Exit code: 0 all were accepted, 1 some
    /// were not, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila feed add https://a.example/feed.xml -o news\n  nephila feed add https://a.example/feed.xml --job news --node http://127.0.0.1:6374"
    )]
    Add(FeedAddArgs),
    /// Follow all feeds of an OPML file; `-` is standard input.
    ///
    /// Feeds in one outline of the file belong to one source; stories of a source are deduplicated. With `--by-domain`
    /// outlines are ignored, and feeds of one registrable domain belong to one source.
    #[command(
        after_help = "Examples:\n  nephila feed import sources.opml -o news\n  nephila feed import - --by-domain -o news < sources.opml"
    )]
    Import(FeedImportArgs),
    /// Stop following feeds. Fetched pages stay.
    ///
    /// For a crawl folder; in a cluster, use `nephila job set NAME --exclude PATTERN`. Exit code: 0 all were followed
    /// before, 1 some were not, 2 trouble.
    #[command(after_help = "Examples:\n  nephila feed remove https://a.example/feed.xml -o news")]
    Remove(FeedRemoveArgs),
    /// Fetch a feed once and print its format, its entries and the next poll time, or the fault.
    ///
    /// Nothing is added and nothing is stored. robots.txt is obeyed, and redirects are followed. Exit code: 0 the feed
    /// can be followed, 1 it cannot, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila feed check https://a.example/feed.xml --contact https://you.example/bot"
    )]
    Check(FeedCheckArgs),
    /// Print the feeds as OPML.
    #[command(after_help = "Examples:\n  nephila feed export -o news > sources.opml")]
    Export(FeedPlaceArgs),
    /// List feeds with poll interval and health.
    #[command(
        after_help = "Examples:\n  nephila feed list -o news\n  nephila feed list --health quiet --source a.example -o news"
    )]
    List(FeedListArgs),
    /// Show a feed: its last polls, the next poll time and its reason.
    ///
    /// Exit code: 0 the feed is known, 1 unknown, 2 trouble.
    #[command(after_help = "Examples:\n  nephila feed show https://a.example/feed.xml -o news")]
    Show(FeedShowArgs),
    /// Count feeds by health and list the unhealthy ones: quiet (against their own rhythm), failing, no feed, broken,
    /// moved, gone.
    ///
    /// Exit code: 0 all are healthy, 1 some are not, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila feed health -o news\n  nephila feed health --json --node http://127.0.0.1:6374"
    )]
    Health(FeedPlaceArgs),
}

/// Arguments of `nephila feed add`.
#[derive(Args, Clone, Debug)]
pub struct FeedAddArgs {
    /// Feeds, or pages that name feeds
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Source of the feeds; stories of a source are deduplicated [default: the registrable domain of each feed]
    #[arg(long, value_name = "NAME", conflicts_with = "node", help_heading = "Sources")]
    pub source: Option<String>,
    /// Place of the feeds.
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Arguments of `nephila feed import`.
#[derive(Args, Clone, Debug)]
pub struct FeedImportArgs {
    /// OPML files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Use one source for all feeds and ignore the outlines of the file
    #[arg(long, value_name = "NAME", conflicts_with = "node", help_heading = "Sources")]
    pub source: Option<String>,
    /// Use the registrable domain of each feed as its source and ignore the outlines of the file
    #[arg(long, conflicts_with = "source", help_heading = "Sources")]
    pub by_domain: bool,
    /// Place of the feeds.
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Arguments of `nephila feed remove`.
#[derive(Args, Clone, Debug)]
pub struct FeedRemoveArgs {
    /// Feeds
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Place of the feeds.
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Arguments of `nephila feed check`.
#[derive(Args, Clone, Debug)]
pub struct FeedCheckArgs {
    /// Feed
    #[arg(value_name = "URL")]
    pub url: String,
    /// Use this address for a host instead of DNS, as `host:port:address` or `host:address`; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = super::parse_resolve, help_heading = "Network")]
    pub resolve: Vec<(String, std::net::IpAddr)>,
    /// Contact for site operators: a URL or a mail address, required for public sites [default: identity.contact]
    #[arg(long, value_name = "URL|MAIL", help_heading = "Politeness")]
    pub contact: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila feed list`.
#[derive(Args, Clone, Debug)]
pub struct FeedListArgs {
    /// List only feeds with this health
    #[arg(long, value_name = "HEALTH", value_parser = nephila_api::HEALTHS, help_heading = "Filters")]
    pub health: Option<String>,
    /// List only feeds of this source
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    pub source: Option<String>,
    /// Place of the feeds.
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Arguments of `nephila feed show`.
#[derive(Args, Clone, Debug)]
pub struct FeedShowArgs {
    /// Feed
    #[arg(value_name = "URL")]
    pub url: String,
    /// Place of the feeds.
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Place of the feeds: a crawl folder, or a job of a cluster.
#[derive(Args, Clone, Debug, Default)]
pub struct FeedPlaceArgs {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Job of the cluster that follows the feeds
    #[arg(long, value_name = "NAME", requires = "node", help_heading = "Cluster")]
    pub job: Option<String>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}
