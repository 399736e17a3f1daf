//! Arguments of `nephila link`: links to public pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Remote;

/// `nephila link …`.
#[derive(Debug, Subcommand)]
pub enum LinkCommand {
    /// Make a link to the progress of a job, for people who wait for it.
    #[command(
        after_help = "Examples:\n  nephila link job crawl -o docs\n  nephila link job press --for 30d --node http://127.0.0.1:6374"
    )]
    Job(LinkArgs),
    /// Make a link to our requests to a host, for its operator.
    #[command(
        after_help = "Examples:\n  nephila link host docs.example.org -o docs\n  nephila link host https://docs.example.org:8443/ --for 1d -o docs"
    )]
    Host(LinkArgs),
}

/// Arguments of both.
#[derive(Args, Clone, Debug)]
pub struct LinkArgs {
    /// Name of the job; name of the host (with its port if that is not the usual one), or a URL of the host
    #[arg(value_name = "NAME")]
    pub name: String,
    /// How long the link is valid, such as `12h`, `30d`: a minute to 90 days
    #[arg(long = "for", value_name = "TIME", default_value = "7d", value_parser = humantime::parse_duration)]
    pub life: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Crawl folder; the crawl may run [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR", conflicts_with = "node")]
    pub output: Option<PathBuf>,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
}
