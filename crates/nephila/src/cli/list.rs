//! Arguments of `nephila list`.

use clap::{Args, Subcommand};

use super::ask::{TableFormat, Where};

/// Lists.
#[derive(Debug, Subcommand)]
pub enum ListCommand {
    /// List downloads: every accepted URL, by state and type.
    ///
    /// `pending`: waits for its turn or a retry; `fetching`: request in progress; `success` and `error`: ended. A page
    /// that waits for a revisit has the state of its last response. URLs that a rule keeps out are no downloads: see
    /// `nephila explain`. Works while the crawl runs. Exit code: 0 found some, 1 none, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila list downloads --state error --type feed -o news\n  nephila list downloads --limit 1000 --format csv -o docs"
    )]
    Downloads(DownloadsArgs),
    /// List stories by source, oldest first.
    ///
    /// Works while the crawl runs. Exit code: 0 found some, 1 none, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila list stories -o news\n  nephila list stories --source a.example --json -o news"
    )]
    Stories(StoriesArgs),
}

/// Arguments of `nephila list downloads`.
#[derive(Args, Clone, Debug)]
pub struct DownloadsArgs {
    /// List only downloads in this state
    #[arg(long, value_name = "STATE", value_parser = ["pending", "fetching", "success", "error"], help_heading = "Filters")]
    pub state: Option<String>,
    /// List only downloads of this type; `content` is pages and stories
    #[arg(long = "type", value_name = "TYPE", value_parser = ["content", "feed", "sitemap"], help_heading = "Filters")]
    pub of: Option<String>,
    /// Pagination and output.
    #[command(flatten)]
    pub pages: PagesArgs,
}

/// Arguments of `nephila list stories`.
#[derive(Args, Clone, Debug)]
pub struct StoriesArgs {
    /// List only stories of this source: a given name or a registrable domain
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    pub source: Option<String>,
    /// Pagination and output.
    #[command(flatten)]
    pub pages: PagesArgs,
}

/// Pagination and output of a list.
#[derive(Args, Clone, Debug)]
pub struct PagesArgs {
    /// Maximum number of rows; a cursor to continue with is printed to standard error
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub limit: Option<u64>,
    /// Continue at the cursor of a list with `--limit`
    #[arg(long, value_name = "CURSOR", help_heading = "Output")]
    pub from: Option<String>,
    /// Output format; `--json` is `json`, one line per row
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub format: TableFormat,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}
