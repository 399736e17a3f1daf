//! What can be asked on the command line. Flags are what was *said*; `settings` turns them into what is *meant*.

pub mod cluster;
pub mod crawl;
pub mod feed;
pub mod identity;
pub mod list;
pub mod stop;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::node;
use crate::settings::{self, Settings};

pub mod ask;

/// A web crawler: fetches whatever the server does, keeps it as standard WARC.
#[derive(Debug, Parser)]
#[command(name = "nephila", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Crawl sites until nothing is left or a limit is reached. The same command goes on after any end.
    ///
    /// A crawl is a folder: everything it knows and has fetched lies in it. robots.txt is obeyed, each host is asked by
    /// one connection at a time with a rest in between, private addresses are refused unless a URL that is typed here
    /// names them: lists and feeds open none. Ctrl-C ends what is open and stops; once more stops at once. Both are safe,
    /// and so is a crash.
    ///
    /// It ends when nothing is left that was never tried, however long a host asks us to wait; only second tries of what
    /// has failed are left for later (crawl.retry_wait_max).
    ///
    /// Exit code: 0 nothing is left and every seed was answered, 1 failed, 2 wrong flags or settings, 5 input unreadable,
    /// 9 a seed could not be fetched, 11 stopped by a signal, 12 too many failures, 13 stopped by a second signal,
    /// 14 size limit, 15 time limit, 17 the folder is damaged, 19 another process crawls here, 20 page limit, 23 second tries are left for later,
    /// 24 waited as long as --wait-max says.
    Crawl(Box<crawl::CrawlArgs>),
    /// List what a crawl would fetch first, and the rule that decided. Fetches robots.txt, sitemaps and seeds only.
    Map(Box<crawl::MapArgs>),
    /// Fetch URLs and say how each of them ended.
    ///
    /// One JSON line per URL, or a readable line on a terminal. robots.txt is obeyed, each host is asked by one
    /// connection at a time with a rest in between, private addresses are refused unless the settings open them.
    ///
    /// Exit code: 0 every URL ended well, 1 some did not, 2 wrong flags or settings, 3 disk full, 5 input unreadable,
    /// 11 stopped by a signal, 12 too many failures, 13 stopped by a second signal.
    Fetch(Box<FetchArgs>),
    /// Check WARC files and their indexes strictly, also for what other tools do not notice.
    ///
    /// Exit code: 0 clean, 1 defects found, 2 trouble.
    Verify(VerifyArgs),
    /// Read the stored pages again with the reader of this version: their main text, their title, what they name.
    ///
    /// What is new is written into the archive as `conversion` and `metadata` records that refer to the capture; `read
    /// --text` and `report links` use the latest. A second run writes nothing. Nothing is fetched, and no crawl may run here
    /// meanwhile. Exit code: 0 done, 1 failed, 2 wrong flags.
    Extract(ExtractArgs),
    /// Print all settings with their meaning and defaults, as a file that can be used.
    Settings(SettingsArgs),
    /// Say who crawls, so that sites can check it: keys and pages to publish.
    #[command(subcommand)]
    Identity(identity::IdentityCommand),
    /// Hosts, domains and addresses that are not asked any more.
    #[command(subcommand)]
    Stop(stop::StopCommand),
    /// Run all the time, and answer over HTTP: a crawl on one machine, or a node of a cluster.
    ///
    /// Without `cluster.servers` the crawl in the folder goes on and does not end by itself: it waits for feeds, for pages
    /// that are fetched again, and for what `nephila add` brings. At `api.listen` (127.0.0.1:6374) it answers for its pages
    /// and its URLs. Nothing else has to run.
    ///
    /// With `cluster.servers` it is a node of a cluster, until it is told to leave.
    /// Nodes are equal: start as many as there are machines, all with the same `[cluster]` settings. A node takes its share
    /// of the partitions, and the others take them over when it is gone. Ctrl-C hands everything over and ends; once more
    /// ends at once. Both are safe, and so is a crash.
    ///
    /// Exit code: 1 failed, 2 wrong flags or settings, 11 stopped by a signal or `nephila cluster drain`, 13 stopped by a
    /// second signal, 19 another process works in the folder.
    Serve(cluster::ServeArgs),
    /// Jobs of a cluster: what it crawls.
    #[command(subcommand)]
    Job(cluster::JobCommand),
    /// Add URLs to a job of a cluster, or with `-o` to a crawl on this machine, whether it runs or not.
    ///
    /// They come as arguments, from lists, JSON lines, CDXJ indexes, sitemaps, WARC files, or a stream of visited URLs. Each is
    /// taken or refused with a reason: no URL, out of the job's scope, a trap. What is known already is not fetched
    /// again. Exit code: 0 all were taken, 1 some were refused, 2 wrong flags or settings, 8 the node cannot be reached.
    Add(cluster::AddArgs),
    /// List downloads by state and type, or stories by source.
    #[command(subcommand)]
    List(list::ListCommand),
    /// Follow feeds, and see how they are.
    #[command(subcommand)]
    Feed(feed::FeedCommand),
    /// A cluster as a whole.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    #[command(flatten)]
    Ask(ask::Ask),
}

/// Flags that every command with settings has.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// The settings file [default: $NEPHILA_CONFIG, ./nephila.toml, ~/.config/nephila/nephila.toml, /etc/nephila/nephila.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Set one setting, such as `spider.total_timeout=30s`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Common {
    /// The settings in force.
    pub fn load(&self) -> anyhow::Result<Settings> {
        self.load_from(None)
    }

    /// The settings in force, from this file if there is one to prefer.
    pub fn load_from(&self, before: Option<&Path>) -> anyhow::Result<Settings> {
        settings::load(self.config.as_deref(), &self.set, before)
    }
}

/// Flags of `nephila extract`.
#[derive(Args, Clone, Debug)]
pub struct ExtractArgs {
    /// The folder of the crawl [default: the current folder if it is a crawl, else nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The main text alone
    #[arg(long, conflicts_with = "links")]
    pub text: bool,
    /// What pages say of themselves and what they name alone
    #[arg(long)]
    pub links: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which node of a cluster is asked.
#[derive(Args, Clone, Debug, Default)]
pub struct Remote {
    /// Ask this node of a cluster, such as `http://127.0.0.1:6374` or `https://one.example:6374`; any node answers for all of them. Of several, with
    /// commas between them, the next is asked when one does not answer
    #[arg(long, value_name = "URL")]
    pub node: Option<String>,
    /// A file with the token that the node asks for
    #[arg(long, value_name = "FILE", requires = "node")]
    pub token_file: Option<PathBuf>,
    /// A file with the certificates that sign those of the nodes, for https: ca.pem of `nephila cluster keys`. Without it
    /// those are believed that browsers believe
    #[arg(long, value_name = "FILE", requires = "node")]
    pub ca_file: Option<PathBuf>,
}

impl Remote {
    /// The nodes that were named, if any were.
    pub(crate) fn open(&self) -> anyhow::Result<Option<node::remote::Remote>> {
        let Some(urls) = &self.node else { return Ok(None) };
        node::remote::Remote::open(urls, self.token_file.as_deref(), self.ca_file.as_deref()).map(Some)
    }
}

/// Flags of `nephila fetch`.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// URLs; `-` reads them from standard input, one per line
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// A file of URLs, one per line; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE")]
    pub seeds: Vec<PathBuf>,
    /// Write what was fetched into this folder: archive/*.warc.gz and indexes/index.cdxj
    #[arg(long, value_name = "DIR")]
    pub warc: Option<PathBuf>,
    /// Keep what was fetched in this folder, as `--warc` does, and go on there: the same command asks only for what was not
    /// answered for, or may do better now
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Ask for the head only. Nothing goes into an archive: a head proves nothing about its page
    #[arg(long)]
    pub head: bool,
    /// A field to send, `Name: value`, to the origins named on the command line and to no other
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub headers: Vec<String>,
    /// Use this address for a host, as `host:port:address` or `host:address`, instead of asking the resolver
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = parse_resolve)]
    pub resolve: Vec<(String, IpAddr)>,
    /// Fetches at the same time
    #[arg(short = 'c', long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub concurrency: u32,
    /// Connections to one host at the same time [default: frontier.host_connections]
    #[arg(long, value_name = "N")]
    pub host_concurrency: Option<u32>,
    /// Rest of a host between two fetches, such as `2s` [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Option<std::time::Duration>,
    /// Follow redirects, each hop as a fetch of its own
    #[arg(short = 'L', long)]
    pub follow: bool,
    /// How far redirects may lead
    #[arg(long, value_name = "SCOPE", default_value = "any")]
    pub follow_scope: FollowScope,
    /// Keep cookies for this run; without it none are sent
    #[arg(long)]
    pub cookies: bool,
    /// Ask again only for what has changed since the last capture in the folder of `--warc`
    #[arg(long, requires = "warc")]
    pub conditional: bool,
    /// Do not ask for robots.txt. Recorded in every archive file
    #[arg(long)]
    pub ignore_robots: bool,
    /// Print the SHA-1 of each body. What is archived has one anyway; else it costs a third of a small fetch's CPU
    #[arg(long)]
    pub digest: bool,
    /// Stop after this many URLs that did not end well
    #[arg(long, value_name = "N")]
    pub errors_max: Option<u64>,
    /// Who we are: the whole User-Agent field
    #[arg(short = 'U', long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// Who to reach about this crawl: a URL or a mail address. Needed for public sites
    #[arg(long, value_name = "URL|MAIL")]
    pub contact: Option<String>,
    /// Print JSON lines also on a terminal
    #[arg(long)]
    pub json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// How far redirects may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FollowScope {
    /// The host of the URL.
    Host,
    /// The registered domain of the URL.
    Domain,
    /// Anywhere.
    Any,
}

/// Flags of `nephila verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// WARC files, CDXJ files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON line per defect
    #[arg(long)]
    pub json: bool,
}

/// Flags of `nephila settings`.
#[derive(Args, Clone, Debug)]
pub struct SettingsArgs {
    /// Print what is meant after file, environment and flags, instead of the defaults
    #[arg(long)]
    pub effective: bool,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// `host:port:address` as curl writes it; the port is not needed and not used.
pub(crate) fn parse_resolve(text: &str) -> Result<(String, IpAddr), String> {
    let wrong = || format!("{text:?} is not host:port:address");
    let (host, rest) = text.split_once(':').ok_or_else(wrong)?;
    let address = match rest.parse() {
        Ok(address) => address,
        Err(_) => {
            let (port, address) = rest.split_once(':').ok_or_else(wrong)?;
            port.parse::<u16>().map_err(|_| wrong())?;
            address.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong())?
        }
    };
    Ok((host.to_owned(), address))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_host_may_be_given_an_address() {
        for (text, address) in [
            ("a.test:80:127.0.0.1", "127.0.0.1"),
            ("a.test:127.0.0.1", "127.0.0.1"),
            ("a.test:443:[::1]", "::1"),
            ("a.test:::1", "::1"),
        ] {
            assert_eq!(
                parse_resolve(text).unwrap(),
                ("a.test".to_owned(), address.parse().unwrap()),
                "{text}"
            );
        }
        assert!(parse_resolve("a.test").is_err());
        assert!(parse_resolve("a.test:x:127.0.0.1").is_err());
    }
}
