//! Flags of `nephila serve`, `nephila job`, `nephila add` and `nephila cluster`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nephila_core::job::Schedule;
use nephila_core::recrawl::{self, Policy};

use super::ask::TableFormat;
use super::crawl::{Scope, WhatArgs, parse_size};
use super::{Common, Remote};
use crate::settings::usage;

/// Flags of `nephila serve`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// The folder of the crawl, or of this node: its archive, its logs, what it knows
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
    List(LookArgs),
    /// What a job wants, and whether it runs.
    Show {
        /// Print JSON, with all seeds
        #[arg(long)]
        json: bool,
        /// Which
        #[command(flatten)]
        job: JobNameArgs,
    },
    /// Wait until a job is complete: nothing of it is left on any node.
    ///
    /// Says every few seconds how many URLs are left. A job with a schedule, or one that follows feeds, is never complete.
    /// Exit code: 0 complete, 1 stopped, 2 wrong flags or settings, 8 the node or the servers cannot be reached, 14, 15 or 20
    /// ended at its limit of bytes, time or pages, 24 not complete within --timeout.
    Wait {
        /// Wait so long at most, such as `2h`
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        timeout: Option<Duration>,
        /// Which
        #[command(flatten)]
        job: JobNameArgs,
    },
    /// Change what a job wants while it runs.
    ///
    /// Every partition learns of it at one position of its log; links are judged by it from then on. What is queued and
    /// matches a new `--exclude` is not fetched any more. What is not said stays as it was.
    Set(JobSetArgs),
    /// Nothing of it is fetched until it is resumed.
    Pause(JobNameArgs),
    /// It goes on.
    Resume(JobNameArgs),
    /// It ends; what it has fetched stays.
    Stop(JobNameArgs),
}

/// Flags of whoever only looks.
#[derive(Args, Clone, Debug, Default)]
pub struct LookArgs {
    /// Print JSON, a line for each thing that is listed
    #[arg(long)]
    pub json: bool,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila job create`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobCreateArgs {
    /// Its name: letters, digits, `-`, `_` and `.`
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
    /// How much
    #[command(flatten)]
    pub limits: LimitArgs,
    /// When again
    #[command(flatten)]
    pub again: AgainArgs,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila cluster keys`.
#[derive(Args, Clone, Debug, Default)]
pub struct KeysArgs {
    /// The folder for them
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// A NATS server: the name or the address by which nodes reach it
    #[arg(long = "server", value_name = "HOST", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// A node, by its name. Commands call it by the same name, or by those after `=`, such as `one=10.0.0.1+one.example`
    #[arg(long = "node", value_name = "NAME[=HOST+HOST]", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// When the pages of a job are asked for again.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct AgainArgs {
    /// When pages are asked for again: `once` is never, `fixed` after --interval, `adaptive` by how often each of them
    /// changes [default: once, or fixed with --interval]
    #[arg(long, value_name = "POLICY", value_parser = parse_policy)]
    pub recrawl: Option<Policy>,
    /// So long after a page was fetched, such as `12h`; from where `adaptive` sets out [default: 1day]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub interval: Option<Duration>,
}

impl AgainArgs {
    /// What was said, if something was.
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

/// How much of a site, and how soon.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct LimitArgs {
    /// Whose turn comes first: 0 before 9 [default: 5]
    #[arg(long, value_name = "N")]
    pub priority: Option<u8>,
    /// End after this many pages, and a few seconds' more; 0 is however many
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// End after this many bytes received, such as `10GB`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size_limit: Option<u64>,
    /// End after it has run for this time, such as `2h`
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub time_limit: Option<Duration>,
    /// Pages of one host; 0 is however many
    #[arg(long, value_name = "N")]
    pub limit_per_host: Option<u64>,
    /// URLs of one registrable domain; 0 is however many
    #[arg(long, value_name = "N")]
    pub limit_per_domain: Option<u64>,
}

/// Flags of `nephila job set`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobSetArgs {
    /// Which
    #[command(flatten)]
    pub job: JobNameArgs,
    /// What around each seed is wanted
    #[arg(long, value_name = "KIND")]
    pub scope: Option<Scope>,
    /// Also URLs in which this stands. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Never URLs in which this stands. May be given several times
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// No longer include by this pattern
    #[arg(long, value_name = "PATTERN")]
    pub drop_include: Vec<String>,
    /// No longer exclude by this pattern
    #[arg(long, value_name = "PATTERN")]
    pub drop_exclude: Vec<String>,
    /// Follow this many links in a row out of scope
    #[arg(long, value_name = "N")]
    pub extra_hops: Option<u8>,
    /// Links from a seed to a page at most; 255 is however many
    #[arg(short, long, value_name = "N")]
    pub depth: Option<u8>,
    /// How much
    #[command(flatten)]
    pub limits: LimitArgs,
    /// When again
    #[command(flatten)]
    pub again: AgainArgs,
}

/// A job, by name.
#[derive(Args, Clone, Debug, Default)]
pub struct JobNameArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Settings
    #[command(flatten)]
    pub common: Common,
}

/// Flags of `nephila add`.
#[derive(Args, Clone, Debug, Default)]
pub struct AddArgs {
    /// URLs; `-` reads them from standard input, one per line. The name of a job may stand before them, as with --job
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// The job that they are for. A folder has one, which need not be named
    #[arg(long = "job", value_name = "NAME")]
    pub job_named: Option<String>,
    /// The job, once [`AddArgs::settle`] has found out which
    #[arg(skip)]
    pub job: String,
    /// A file of URLs, one per line, or of JSON lines with `url`, and `job`, `priority`, `hits`, `feed` or `sitemap`; `-` is
    /// standard input, gzip is undone
    #[arg(short = 'i', long = "input", visible_alias = "seeds", id = "seeds", value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// An index of captures: the URLs in it. May be given several times, as those below; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub cdxj: Vec<PathBuf>,
    /// A sitemap: the pages it names. A file is read now, a URL by whoever crawls
    #[arg(long, value_name = "FILE|URL")]
    pub sitemap: Vec<String>,
    /// A WARC file: the pages in it
    #[arg(long, value_name = "FILE")]
    pub warc: Vec<PathBuf>,
    /// A file of visited URLs in the reflog format; `-` is standard input. Each is fetched, also again, but not within an
    /// hour unless its update tag changed. The same lines given twice, or to two nodes, count once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "as_seeds", "cdxj", "sitemap", "warc"])]
    pub reflog: Vec<PathBuf>,
    /// The id of the batch that --reflog brings [default: made from what its lines say]
    #[arg(long, value_name = "ID", requires = "reflog")]
    pub batch: Option<String>,
    /// Take nothing in: print what --reflog would send on and what not, and why, as JSON lines
    #[arg(long, requires = "reflog", conflicts_with = "node")]
    pub dry_run: bool,
    /// The crawl's folder that they are for, instead of a cluster
    #[arg(short, long, value_name = "DIR", conflicts_with = "node")]
    pub output: Option<PathBuf>,
    /// Take them as seeds: what lies around them is wanted from now on
    #[arg(long = "seed")]
    pub as_seeds: bool,
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

impl AddArgs {
    /// Tells the job from the URLs. Who names it with `--job` gives URLs alone; otherwise a first word that can only be a
    /// job's name, with something to add behind it, is one.
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

/// What can be said about a cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Which nodes live, which of them owns how many partitions, and what is wrong.
    ///
    /// Alarms are what a person has to look at: a log that has lost something, an object store that is away. With `--node`
    /// every node is asked what is wrong there.
    ///
    /// Exit code: 0 every partition has a live owner and there are no alarms, 1 otherwise, 2 wrong flags or settings, 8 the
    /// node cannot be reached.
    Status(LookArgs),
    /// The nodes that live, where they answer, and with `--node` what each of them does.
    Nodes(LookArgs),
    /// Every partition and its owner.
    ///
    /// Exit code: 0 every partition has a live owner, 1 some have none.
    Partitions(LookArgs),
    /// Every domain that is known, the node that crawls it, and how far that is.
    ///
    /// A new domain goes to the least loaded node and stays there as long as that lives and its load is bearable.
    Map {
        /// How it is printed
        #[arg(long, value_name = "FORMAT", default_value = "table")]
        format: TableFormat,
        /// Which node is asked
        #[command(flatten)]
        remote: Remote,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Tell a node to hand everything over and end.
    Drain {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Which node is asked
        #[command(flatten)]
        remote: Remote,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Have a domain crawled by one node for as long as it lives.
    ///
    /// Domains belong to partitions, and a partition moves as a whole: the other domains of that partition go along. Nothing
    /// is fetched twice and nothing is lost on the way.
    Pin {
        /// The domain, such as `example.org`; a host stands for its registrable domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
        /// The name of the node
        #[arg(long = "to", value_name = "NAME")]
        to: String,
        /// Which node is asked
        #[command(flatten)]
        remote: Remote,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Let a pinned domain go where the load wants it.
    Unpin {
        /// The domain
        #[arg(value_name = "DOMAIN")]
        domain: String,
        /// Which node is asked
        #[command(flatten)]
        remote: Remote,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
    /// Which domains are pinned, and where they are.
    Pins(LookArgs),
    /// Make the keys of a cluster: who may speak to its NATS servers, and what each of them may say.
    ///
    /// The folder gets `ca.pem` and a certificate for each server, an nkey for each node, for the operator and for programs
    /// that read events, and `accounts.conf`, which the servers include. Asked again it keeps what is there and makes what is
    /// missing. It speaks to nobody. Exit code: 0, 1 failed, 2 wrong flags or settings.
    Keys(KeysArgs),
    /// Let a partition go on whose log has lost something: with the best that a node, a snapshot and the log still have.
    ///
    /// `nephila cluster status` says which partitions stay closed, and why. First see whether what is gone can be restored:
    /// what is accepted as lost is lost.
    Heal {
        /// Its number
        #[arg(value_name = "PARTITION")]
        partition: u32,
        /// What is gone is gone
        #[arg(long, required = true)]
        accept_loss: bool,
        /// Settings
        #[command(flatten)]
        common: Common,
    },
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    fn settled(line: &[&str]) -> anyhow::Result<(String, Vec<String>)> {
        let cli = crate::cli::Cli::parse_from(["nephila", "add"].iter().chain(line));
        let crate::cli::Command::Add(mut args) = cli.command else { unreachable!("add was asked for") };
        args.settle()?;
        Ok((args.job, args.urls))
    }

    #[test]
    fn fin_10_urls_are_urls_and_a_job_is_named() {
        let (one, two) = ("http://a.test/", "b.test/x");
        for (line, job, urls) in [
            (&[one, two, "-o", "d"][..], "", &[one, two][..]),
            (&[one, "-o", "d"], "", &[one]),
            (&["localhost", "-o", "d"], "", &["localhost"]),
            (&["a.test", "-o", "d"], "", &["a.test"]),
            (&["docs", one, "-o", "d"], "docs", &[one]),
            (&["docs", "-i", "list", "-o", "d"], "docs", &[]),
            (&["docs", "--reflog", "-", "-o", "d"], "docs", &[]),
            (&["--job", "docs", one, two, "--node", "http://n.test"], "docs", &[one, two]),
            (&["-", "-o", "d"], "", &["-"]),
            (&["-i", "list", "-o", "d"], "", &[]),
        ] {
            let want = (job.to_owned(), urls.iter().map(|url| (*url).to_owned()).collect());
            assert_eq!(settled(line).unwrap(), want, "{line:?}");
        }
        for bad in [&["-o", "d"][..], &[one], &["docs", "--reflog", "-", one, "-o", "d"]] {
            let error = settled(bad).unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&crate::exit::Exit::Usage), "{bad:?}");
        }
    }
}
