//! Flags of `nephila list`.

use clap::{Args, Subcommand};

use super::ask::{TableFormat, Where};

/// What can be listed.
#[derive(Debug, Subcommand)]
pub enum ListCommand {
    /// List downloads: every URL that was let in, by state and type.
    ///
    /// `pending` waits for its turn or a second try, `fetching` is being asked for, `success` and `error` have ended; a
    /// page that is asked for again later is what its last answer was. What a rule keeps out is no download: `nephila
    /// explain` knows it. Works while the crawl runs. Exit code: 0 there were some, 1 none, 2 trouble.
    Downloads(DownloadsArgs),
    /// List stories: those of a source together, the oldest first.
    ///
    /// Works while the crawl runs. Exit code: 0 there were some, 1 none, 2 trouble.
    Stories(StoriesArgs),
}

/// Flags of `nephila list downloads`.
#[derive(Args, Clone, Debug)]
pub struct DownloadsArgs {
    /// Only those in this state
    #[arg(long, value_name = "STATE", value_parser = ["pending", "fetching", "success", "error"])]
    pub state: Option<String>,
    /// Only those of this type: `content` is pages and stories
    #[arg(long = "type", value_name = "TYPE", value_parser = ["content", "feed", "sitemap"])]
    pub of: Option<String>,
    /// How much and how
    #[command(flatten)]
    pub pages: PagesArgs,
}

/// Flags of `nephila list stories`.
#[derive(Args, Clone, Debug)]
pub struct StoriesArgs {
    /// Only those of this source: the name that it was given, or a registrable domain
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// How much and how
    #[command(flatten)]
    pub pages: PagesArgs,
}

/// How much of a list is printed, and how.
#[derive(Args, Clone, Debug)]
pub struct PagesArgs {
    /// So many at most; the cursor to go on with is printed to standard error
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Go on where a list with `--limit` ended
    #[arg(long, value_name = "CURSOR")]
    pub from: Option<String>,
    /// How it is printed; `--json` is `json`, a line for each
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: TableFormat,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}
