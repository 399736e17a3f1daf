//! Flags of `nephila feed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Common, Remote};

/// What can be said and asked about feeds.
#[derive(Debug, Subcommand)]
pub enum FeedCommand {
    /// Follow feeds: each is asked again and again, and the pages of its new stories are fetched.
    ///
    /// In a folder they are followed by `nephila crawl -o DIR --forever`, at once if it runs. A page that is given for a
    /// feed is looked through for feeds, which are followed instead. Exit code: 0 all were taken, 1 some were not, 2
    /// trouble.
    Add(FeedAddArgs),
    /// The same for all feeds of an OPML file; `-` is standard input.
    ///
    /// Feeds that stand in one outline of the file are of one source, which tells a story once; with `--by-domain` the
    /// outlines mean nothing, and feeds of one registrable domain are of one source.
    Import(FeedImportArgs),
    /// Follow feeds no longer. What was fetched stays.
    ///
    /// Exit code: 0 all were followed before, 1 some were not, 2 trouble.
    Remove(FeedRemoveArgs),
    /// Ask for a feed once and say what it is: its format, its entries, when it would be asked again; or what is wrong.
    ///
    /// Nothing is added and nothing is kept. robots.txt is obeyed, and redirects are followed. Exit code: 0 it can be
    /// followed, 1 it cannot, 2 trouble.
    Check(FeedCheckArgs),
    /// Write the feeds as OPML.
    Export(FeedPlaceArgs),
    /// List feeds, with their rhythm and their health.
    List(FeedListArgs),
    /// What is known of a feed: its last polls, when it is asked again, and why then.
    ///
    /// Exit code: 0 it is known, 1 not, 2 trouble.
    Show(FeedShowArgs),
    /// How many feeds are fine, and which are ill: silent against their own rhythm, failing, no feed, broken, moved, gone.
    ///
    /// Exit code: 0 all are fine, 1 some are not, 2 trouble.
    Health(FeedPlaceArgs),
}

/// Flags of `nephila feed add`.
#[derive(Args, Clone, Debug)]
pub struct FeedAddArgs {
    /// Feeds, or pages that name some
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// The source they are of: its feeds tell a story once [default: the registrable domain of each]
    #[arg(long, value_name = "NAME", conflicts_with = "node")]
    pub source: Option<String>,
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Flags of `nephila feed import`.
#[derive(Args, Clone, Debug)]
pub struct FeedImportArgs {
    /// An OPML file
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// One source for all of them, whatever the file says
    #[arg(long, value_name = "NAME", conflicts_with = "node")]
    pub source: Option<String>,
    /// The outlines of the file are no sources: feeds of one domain are of one source
    #[arg(long, conflicts_with = "source")]
    pub by_domain: bool,
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Flags of `nephila feed remove`.
#[derive(Args, Clone, Debug)]
pub struct FeedRemoveArgs {
    /// Feeds
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Flags of `nephila feed check`.
#[derive(Args, Clone, Debug)]
pub struct FeedCheckArgs {
    /// The feed
    #[arg(value_name = "URL")]
    pub url: String,
    /// Use this address for a host, as `host:port:address` or `host:address`, instead of asking the resolver
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = super::parse_resolve)]
    pub resolve: Vec<(String, std::net::IpAddr)>,
    /// Who to reach about this request: a URL or a mail address. Needed for public sites
    #[arg(long, value_name = "URL|MAIL")]
    pub contact: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila feed list`.
#[derive(Args, Clone, Debug)]
pub struct FeedListArgs {
    /// Only those that are this
    #[arg(long, value_name = "HEALTH", value_parser = crate::api::HEALTHS)]
    pub health: Option<String>,
    /// Only those of this source
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Flags of `nephila feed show`.
#[derive(Args, Clone, Debug)]
pub struct FeedShowArgs {
    /// The feed
    #[arg(value_name = "URL")]
    pub url: String,
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Where the feeds are.
#[derive(Args, Clone, Debug, Default)]
pub struct FeedPlaceArgs {
    /// The crawl's folder [default: . if it is a crawl, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The job of a cluster that follows them
    #[arg(long, value_name = "NAME", requires = "node")]
    pub job: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}
