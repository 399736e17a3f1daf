//! Arguments of `nephila job`, `nephila add` and `nephila cluster`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nephila_core::job::Schedule;
use nephila_core::recrawl::{self, Policy};

use super::ask::TableFormat;
use super::crawl::{Scope, WhatArgs, parse_size};
use super::{Common, Remote};
use nephila_engine::settings::usage;

/// Commands about jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Create and start a job: seeds, scope, limits.
    #[command(
        after_help = "Examples:\n  nephila job create news -i seeds.txt --scope domain\n  nephila job create docs https://docs.example.org/ --limit 10000 --recrawl adaptive"
    )]
    Create(JobCreateArgs),
    /// List the jobs with state and progress.
    #[command(
        after_help = "Examples:\n  nephila job list\n  nephila job list --json --node http://127.0.0.1:6374"
    )]
    List(LookArgs),
    /// Show scope, limits and state of a job.
    #[command(after_help = "Examples:\n  nephila job show news\n  nephila job show news --json")]
    Show {
        /// Print JSON, with all seeds
        #[arg(long)]
        json: bool,
        /// Name of the job.
        #[command(flatten)]
        job: JobNameArgs,
    },
    /// Wait until a job is complete: no URL is left on any node.
    ///
    /// Prints the number of URLs left every few seconds. A job with a schedule, or with feeds, is never complete. Exit
    /// code: 0 complete, 1 stopped, 2 wrong flags or settings, 8 the node or the servers cannot be reached, 14, 15 or
    /// 20 ended at its limit of bytes, time or pages, 24 not complete within --timeout.
    #[command(after_help = "Examples:\n  nephila job wait news\n  nephila job wait news --timeout 2h")]
    Wait {
        /// Maximum wait, such as `2h` [default: unlimited]
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        timeout: Option<Duration>,
        /// Name of the job.
        #[command(flatten)]
        job: JobNameArgs,
    },
    /// Change scope, limits or schedule of a job while the job runs.
    ///
    /// The change reaches every partition at one position of its log, and applies to all links from there on. Queued
    /// URLs that match a new `--exclude` are not fetched. Values that are not given stay unchanged.
    #[command(
        after_help = "Examples:\n  nephila job set news --exclude /cart --limit-per-host 10000\n  nephila job set news --recrawl adaptive --interval 12h"
    )]
    Set(JobSetArgs),
    /// Pause a job: fetch nothing until the job is resumed.
    #[command(after_help = "Examples:\n  nephila job pause news")]
    Pause(JobNameArgs),
    /// Resume a paused job.
    #[command(after_help = "Examples:\n  nephila job resume news")]
    Resume(JobNameArgs),
    /// Stop a job. Fetched pages stay.
    #[command(after_help = "Examples:\n  nephila job stop news")]
    Stop(JobNameArgs),
}

/// Arguments of read-only commands.
#[derive(Args, Clone, Debug, Default)]
pub struct LookArgs {
    /// Print JSON, one line per entry
    #[arg(long)]
    pub json: bool,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila job create`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobCreateArgs {
    /// Name of the job: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Seeds: the URLs to start from; `-` reads them from standard input
    #[arg(value_name = "URL", required_unless_present = "seeds")]
    pub urls: Vec<String>,
    /// File of seeds, one URL per line, `#` starts a comment; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE", help_heading = "Input")]
    pub seeds: Vec<PathBuf>,
    /// Scope.
    #[command(flatten)]
    pub what: WhatArgs,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Revisits.
    #[command(flatten)]
    pub again: AgainArgs,
    /// Registrable domain whose hosts are divided over all nodes, each host by its name, instead of all being on one node;
    /// hosts that are known already stay where they are; repeatable. Cannot be undone
    #[arg(long, value_name = "DOMAIN", help_heading = "Cluster")]
    pub spread: Vec<String>,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila cluster keys`.
#[derive(Args, Clone, Debug, Default)]
pub struct KeysArgs {
    /// Folder for the keys
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// NATS server: the name or the address by which nodes reach the server; repeatable, or separated by commas
    #[arg(long = "server", value_name = "HOST", value_delimiter = ',', help_heading = "Cluster")]
    pub servers: Vec<String>,
    /// Node, by name. Commands reach the node by the same name, or by the names and addresses after `=`, such as
    /// `one=10.0.0.1+one.example`; repeatable, or separated by commas
    #[arg(long = "node", value_name = "NAME[=HOST+HOST]", value_delimiter = ',', help_heading = "Cluster")]
    pub nodes: Vec<String>,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Revisit schedule of a job.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct AgainArgs {
    /// Revisit policy: `once` (no revisits), `fixed` (every --interval), `adaptive` (by the change rate of each page)
    /// [default: once, or fixed with --interval]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy, help_heading = "Revisits")]
    pub recrawl: Option<Policy>,
    /// Revisit interval, such as `12h`; the initial interval of `adaptive` [default: 1day]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Revisits")]
    pub interval: Option<Duration>,
}

impl AgainArgs {
    /// Returns the schedule, if one was given.
    pub(crate) fn schedule(self) -> Option<Schedule> {
        let policy = self.recrawl.or(self.interval.map(|_| Policy::Fixed))?;
        let usual = recrawl::Settings::default();
        let interval = self.interval.unwrap_or(usual.interval);
        Some(Schedule::of(&recrawl::Settings { policy, interval, ..usual }))
    }
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    match text {
        "once" => Ok(Policy::Once),
        "fixed" => Ok(Policy::Fixed),
        "adaptive" => Ok(Policy::Adaptive),
        _ => Err("it is once, fixed or adaptive".to_owned()),
    }
}

/// Limits and priority of a job.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LimitArgs {
    /// Priority, from 0 (first) to 9 (last) [default: 5]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub priority: Option<u8>,
    /// End after this number of pages, plus the pages of a few more seconds (0: unlimited)
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit: Option<u64>,
    /// End after this number of received bytes, such as `10GB` (0: unlimited)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub size_limit: Option<u64>,
    /// End after this running time, such as `2h` (0s: unlimited)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub time_limit: Option<Duration>,
    /// Maximum number of pages per host (0: unlimited)
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit_per_host: Option<u64>,
    /// Maximum number of URLs per registrable domain (0: unlimited)
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub limit_per_domain: Option<u64>,
}

/// Arguments of `nephila job set`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobSetArgs {
    /// Name of the job.
    #[command(flatten)]
    pub job: JobNameArgs,
    /// Scope around each seed
    #[arg(long, value_name = "KIND", help_heading = "Scope")]
    pub scope: Option<Scope>,
    /// Include URLs that match this pattern as well; repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub include: Vec<String>,
    /// Exclude URLs that match this pattern; repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub exclude: Vec<String>,
    /// Remove this include pattern; repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub drop_include: Vec<String>,
    /// Remove this exclude pattern; repeatable
    #[arg(long, value_name = "PATTERN", help_heading = "Scope")]
    pub drop_exclude: Vec<String>,
    /// Maximum number of consecutive links out of scope
    #[arg(long, value_name = "N", help_heading = "Scope")]
    pub extra_hops: Option<u8>,
    /// Maximum link depth from a seed (255: unlimited)
    #[arg(short, long, value_name = "N", help_heading = "Scope")]
    pub depth: Option<u8>,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Revisits.
    #[command(flatten)]
    pub again: AgainArgs,
    /// Registrable domain whose hosts are divided over all nodes, each host by its name, instead of all being on one node;
    /// hosts that are known already stay where they are; repeatable. Cannot be undone
    #[arg(long, value_name = "DOMAIN", help_heading = "Cluster")]
    pub spread: Vec<String>,
}

/// A job, by name.
#[derive(Args, Clone, Debug, Default)]
pub struct JobNameArgs {
    /// Name of the job
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila add`.
#[derive(Args, Clone, Debug, Default)]
pub struct AddArgs {
    /// URLs; `-` reads them from standard input, one per line. The name of the job may come first, instead of --job
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Job for the URLs; not needed with a folder, which has one job
    #[arg(long = "job", value_name = "NAME")]
    pub job_named: Option<String>,
    /// The job, set by [`AddArgs::settle`].
    #[arg(skip)]
    pub job: String,
    /// File of URLs, one per line, or of JSON lines with `url` and optionally `job`, `priority`, `hits`, `feed` or
    /// `sitemap`, plain or gzip; `-` is standard input; repeatable
    #[arg(
        short = 'i',
        long = "input",
        visible_alias = "seeds",
        id = "seeds",
        value_name = "FILE",
        help_heading = "Input"
    )]
    pub seeds: Vec<PathBuf>,
    /// CDXJ index: add its URLs; `-` is standard input; repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub cdxj: Vec<PathBuf>,
    /// Sitemap: add its pages. A file is read now, a URL is fetched by the crawl; repeatable
    #[arg(long, value_name = "FILE|URL", help_heading = "Input")]
    pub sitemap: Vec<String>,
    /// WARC file: add its pages; repeatable
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    pub warc: Vec<PathBuf>,
    /// File of visited URLs in the reflog format; `-` is standard input. Known URLs are fetched again, but not within
    /// an hour unless their update tag changed. Duplicate lines, also at several nodes, are deduplicated. Needs -o or
    /// --node
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["seeds", "as_seeds", "cdxj", "sitemap", "warc"],
        help_heading = "Reflog"
    )]
    pub reflog: Vec<PathBuf>,
    /// Batch id of the reflog [default: derived from its lines]
    #[arg(long, value_name = "ID", requires = "reflog", help_heading = "Reflog")]
    pub batch: Option<String>,
    /// Add nothing: print the decision on each reflog line and its reason, as JSON lines
    #[arg(long, requires = "reflog", conflicts_with = "node", help_heading = "Reflog")]
    pub dry_run: bool,
    /// Crawl folder for the URLs, instead of a cluster
    #[arg(short, long, value_name = "DIR", conflicts_with = "node")]
    pub output: Option<PathBuf>,
    /// Add the URLs as seeds, which widens the scope of the job; not with -o
    #[arg(long = "seed")]
    pub as_seeds: bool,
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

impl AddArgs {
    /// Separates the job from the URLs. With `--job` all arguments are URLs. Otherwise the first argument is the job if
    /// it can only be a job's name and something to add follows.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        let lists = [&self.seeds, &self.cdxj, &self.warc, &self.reflog].iter().any(|list| !list.is_empty());
        let more = lists || !self.sitemap.is_empty();
        let is_name = |text: &String| {
            let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            plain && text != "-" && !text.eq_ignore_ascii_case("localhost")
        };
        let first_is_job = self.urls.first().is_some_and(is_name) && (more || self.urls.len() > 1);
        self.job = match self.job_named.take() {
            Some(name) => name,
            None if first_is_job => self.urls.remove(0),
            None => String::new(),
        };
        if self.urls.is_empty() && !more {
            return Err(usage(anyhow::anyhow!(
                "nothing to add: give URLs, `-i FILE`, or `-` to read them from standard input"
            )));
        }
        if !self.reflog.is_empty() && !self.urls.is_empty() {
            return Err(usage(anyhow::anyhow!(
                "--reflog brings URLs of its own: give {} apart",
                self.urls[0]
            )));
        }
        if self.job.is_empty() && self.output.is_none() {
            return Err(usage(anyhow::anyhow!(
                "for which job of the cluster? Name it with --job NAME; a crawl's folder is named with -o DIR"
            )));
        }
        Ok(())
    }
}

/// Commands about a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the live nodes, the number of partitions of each, and alarms.
    ///
    /// An alarm needs a person: a log that has lost entries, an object store that is unavailable. With `--node`, every
    /// node reports its own alarms.
    ///
    /// Exit code: 0 every partition has a live owner and there are no alarms, 1 otherwise, 2 wrong flags or settings, 8
    /// the node cannot be reached.
    #[command(
        after_help = "Examples:\n  nephila cluster status\n  nephila cluster status --json --node http://127.0.0.1:6374"
    )]
    Status(LookArgs),
    /// List the live nodes with their addresses, and with `--node` their activity.
    #[command(
        after_help = "Examples:\n  nephila cluster nodes\n  nephila cluster nodes --node http://127.0.0.1:6374"
    )]
    Nodes(LookArgs),
    /// List the partitions with their owners.
    ///
    /// Exit code: 0 every partition has a live owner, 1 some have none.
    #[command(after_help = "Examples:\n  nephila cluster partitions\n  nephila cluster partitions --json")]
    Partitions(LookArgs),
    /// List the remote spiders with the node that each fetches for. Needs `--node`.
    ///
    /// A node without a cluster answers as well. A spider that is not connected may be back until its lease has lapsed.
    #[command(
        after_help = "Examples:\n  nephila cluster spiders --node http://127.0.0.1:6374\n  nephila cluster spiders --json --node http://127.0.0.1:6374"
    )]
    Spiders(LookArgs),
    /// List all known domains with the node that crawls each, and their progress. Needs `--node`.
    ///
    /// A new domain goes to the least loaded node, and stays there as long as the node lives and is not overloaded.
    #[command(
        after_help = "Examples:\n  nephila cluster map --node http://127.0.0.1:6374\n  nephila cluster map --format csv --node http://127.0.0.1:6374"
    )]
    Map {
        /// Output format
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: TableFormat,
        /// Node of a cluster.
        #[command(flatten)]
        remote: Remote,
        /// Settings.
        #[command(flatten)]
        common: Common,
    },
    /// Drain a node: hand all partitions over and end the process.
    #[command(after_help = "Examples:\n  nephila cluster drain three")]
    Drain {
        /// Name of the node
        #[arg(value_name = "NAME")]
        name: String,
        /// Node of a cluster.
        #[command(flatten)]
        remote: Remote,
        /// Settings.
        #[command(flatten)]
        common: Common,
    },
    /// Pin a domain to a node for as long as the node lives.
    ///
    /// Domains belong to partitions, and a partition moves as a whole: the other domains of the partition move too.
    /// During the move nothing is fetched twice and nothing is lost.
    #[command(after_help = "Examples:\n  nephila cluster pin example.org --to three")]
    Pin {
        /// Domain, such as `example.org`; a host stands for its registrable domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
        /// Name of the node
        #[arg(long = "to", value_name = "NAME")]
        to: String,
        /// Node of a cluster.
        #[command(flatten)]
        remote: Remote,
        /// Settings.
        #[command(flatten)]
        common: Common,
    },
    /// Unpin a domain: its node is again chosen by load.
    #[command(after_help = "Examples:\n  nephila cluster unpin example.org")]
    Unpin {
        /// Domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
        /// Node of a cluster.
        #[command(flatten)]
        remote: Remote,
        /// Settings.
        #[command(flatten)]
        common: Common,
    },
    /// List the pinned domains with their nodes.
    #[command(after_help = "Examples:\n  nephila cluster pins\n  nephila cluster pins --json")]
    Pins(LookArgs),
    /// List the spread domains: their hosts are divided over all nodes.
    ///
    /// `nephila job create --spread DOMAIN` and `nephila job set --spread DOMAIN` spread a domain.
    #[command(after_help = "Examples:\n  nephila cluster spread\n  nephila cluster spread --json")]
    Spread(LookArgs),
    /// Create the keys of a cluster: authentication and permissions at its NATS servers.
    ///
    /// The folder gets `ca.pem`, a certificate for each server and each node, an nkey for each node, for the operator
    /// and for programs that read events, the tokens of the API, and `accounts.conf`, which the servers include. The
    /// command is idempotent: existing files stay, missing files are created. No network is used. Exit code: 0, 1
    /// failed, 2 wrong flags or settings.
    #[command(
        after_help = "Examples:\n  nephila cluster keys keys --set cluster.name=news --server one,two,three --node one=10.0.0.1,two=10.0.0.2\n  nephila cluster keys keys --set cluster.name=news --node four=10.0.0.4"
    )]
    Keys(KeysArgs),
    /// Reopen a partition whose log has lost entries, with the best state that a node, a snapshot and the log still
    /// have.
    ///
    /// `nephila cluster status` lists closed partitions with the reason. First try to restore the missing data: an
    /// accepted loss is final.
    #[command(after_help = "Examples:\n  nephila cluster heal 17 --accept-loss")]
    Heal {
        /// Number of the partition
        #[arg(value_name = "PARTITION")]
        partition: u32,
        /// Accept that the missing entries are lost
        #[arg(long, required = true)]
        accept_loss: bool,
        /// Settings.
        #[command(flatten)]
        common: Common,
    },
}

#[cfg(test)]
mod tests;
