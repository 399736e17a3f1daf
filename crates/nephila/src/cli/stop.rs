//! Flags of `nephila stop`: who is not asked any more.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nephila_core::orders::Target;

use super::{Common, Remote};

/// `nephila stop …`.
#[derive(Debug, Subcommand)]
pub enum StopCommand {
    /// Ask nobody there any more, on no node, from ten seconds after this command at the latest.
    ///
    /// What is queued is kept, with the reason, and goes on soon after the stop is removed. Exit code: 0 done, 1
    /// failed, 2 wrong flags or settings, 8 the node cannot be reached.
    Add(StopAddArgs),
    /// Take stops back.
    ///
    /// Exit code: 0 all of them were there, 1 some were not.
    Remove(StopRemoveArgs),
    /// List the stops: what, since when, who said so, and why.
    List(StopListArgs),
}

/// Where the stops are: a crawl's folder, or a cluster.
#[derive(Args, Clone, Debug, Default)]
pub struct StopWhere {
    /// The folder of a crawl, also of one that runs [default: the cluster of the settings, or . if it is a crawl, else
    /// ./nephila-data]
    #[arg(short, long, value_name = "DIR", conflicts_with = "node")]
    pub output: Option<PathBuf>,
    /// Which node is told
    #[command(flatten)]
    pub remote: Remote,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila stop add`.
#[derive(Args, Clone, Debug)]
pub struct StopAddArgs {
    /// A host (`a.example`), a domain with all names below it (`*.a.example`), an address or a range (`192.0.2.0/24`)
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<Target>,
    /// Why: whoever finds the stop next year will ask
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Who says so [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
    /// Where
    #[command(flatten)]
    pub place: StopWhere,
}

/// Flags of `nephila stop remove`.
#[derive(Args, Clone, Debug)]
pub struct StopRemoveArgs {
    /// As it was added
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<Target>,
    /// Where
    #[command(flatten)]
    pub place: StopWhere,
}

/// Flags of `nephila stop list`.
#[derive(Args, Clone, Debug)]
pub struct StopListArgs {
    /// Print JSON, a line for each
    #[arg(long)]
    pub json: bool,
    /// Where
    #[command(flatten)]
    pub place: StopWhere,
}
