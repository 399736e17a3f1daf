//! Arguments of `nephila stop`: the stop list of hosts, domains and addresses that are no longer requested.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nephila_core::stop_list::Target;

use super::{Common, Remote};

/// `nephila stop …`.
#[derive(Debug, Subcommand)]
pub enum StopCommand {
    /// Add targets to the stop list: no node requests them, from at most ten seconds after this command.
    ///
    /// Queued URLs are kept, with the reason, and are fetched soon after the stop is removed. Exit code: 0 done, 1
    /// failed, 2 wrong flags or settings, 8 the node cannot be reached.
    #[command(
        after_help = "Examples:\n  nephila stop add a.example '*.b.example' 192.0.2.0/24 --reason \"mail of 15 November\" -o news\n  nephila stop add a.example --reason \"overloaded\" --author ops --node http://127.0.0.1:6374"
    )]
    Add(StopAddArgs),
    /// Remove targets from the stop list.
    ///
    /// Exit code: 0 all of them were listed, 1 some were not.
    #[command(after_help = "Examples:\n  nephila stop remove a.example '*.b.example' -o news")]
    Remove(StopRemoveArgs),
    /// Print the stop list: target, time, author and reason.
    #[command(
        after_help = "Examples:\n  nephila stop list -o news\n  nephila stop list --json --node http://127.0.0.1:6374"
    )]
    List(StopListArgs),
}

/// Place of the stop list: a crawl folder, or a cluster.
#[derive(Args, Clone, Debug, Default)]
pub struct StopWhere {
    /// Crawl folder; the crawl may run [default: the cluster of the settings; without one, . if . is a crawl, else
    /// ./nephila-data]
    #[arg(short, long, value_name = "DIR", conflicts_with = "node")]
    pub output: Option<PathBuf>,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila stop add`.
#[derive(Args, Clone, Debug)]
pub struct StopAddArgs {
    /// Host (`a.example`), domain with all names below (`*.a.example`), address or range (`192.0.2.0/24`)
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<Target>,
    /// Reason, for later readers of the list
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Author of the stop [default: $USER, else $LOGNAME]
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
    /// Place of the stop list.
    #[command(flatten)]
    pub place: StopWhere,
}

/// Arguments of `nephila stop remove`.
#[derive(Args, Clone, Debug)]
pub struct StopRemoveArgs {
    /// Target, in the same form as in `nephila stop add`
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<Target>,
    /// Place of the stop list.
    #[command(flatten)]
    pub place: StopWhere,
}

/// Arguments of `nephila stop list`.
#[derive(Args, Clone, Debug)]
pub struct StopListArgs {
    /// Print JSON, one line per stop
    #[arg(long)]
    pub json: bool,
    /// Place of the stop list.
    #[command(flatten)]
    pub place: StopWhere,
}
