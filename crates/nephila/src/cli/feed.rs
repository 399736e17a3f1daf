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
    Import(FeedImportArgs),
    /// Write the feeds as OPML.
    Export(FeedPlaceArgs),
    /// List feeds, with their rhythm and their health.
    List(FeedListArgs),
    /// What is known of a feed: its last polls, when it is asked again, and why then.
    ///
    /// Exit code: 0 it is known, 1 not, 2 trouble.
    Show(FeedShowArgs),
    /// How many feeds are fine, and which are not: silent against their own rhythm, failing, gone.
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
    /// Where
    #[command(flatten)]
    pub place: FeedPlaceArgs,
}

/// Flags of `nephila feed list`.
#[derive(Args, Clone, Debug)]
pub struct FeedListArgs {
    /// Only those that are `fine`, `learning`, `quiet`, `failing` or `gone`
    #[arg(long, value_name = "HEALTH")]
    pub health: Option<String>,
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
