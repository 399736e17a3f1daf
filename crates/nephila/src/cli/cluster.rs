//! Flags of `nephila serve`, `nephila job` and `nephila cluster`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Common;
use super::crawl::WhatArgs;

/// Flags of `nephila serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// The folder of this node: its archive, its logs, what it knows of its partitions
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The name of this node, unlike all others [default: cluster.node, or the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// What can be said about jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Begin a job: what to crawl, from where, how far.
    Create(JobCreateArgs),
    /// List the jobs.
    List {
        /// Print JSON lines
        #[arg(long)]
        json: bool,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Nothing of it is fetched until it is resumed.
    Pause(JobNameArgs),
    /// It goes on.
    Resume(JobNameArgs),
    /// It ends; what it has fetched stays.
    Stop(JobNameArgs),
}

/// Flags of `nephila job create`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobCreateArgs {
    /// Its name: letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where to begin
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// A file of URLs, one per line, `#` begins a comment; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// What and how far
    #[command(flatten)]
    pub what: WhatArgs,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// A job, by name.
#[derive(Args, Clone, Debug, Default)]
pub struct JobNameArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// What can be said about a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Which nodes live, and which of them owns how many partitions.
    ///
    /// Exit code: 0 every partition has a live owner, 1 some have none, 2 wrong flags or settings.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Tell a node to hand everything over and end.
    Drain {
        /// Its name
        #[arg(value_name = "NODE")]
        node: String,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
}
