//! The command line: commands, arguments and their help texts. `settings` combines the arguments with file and
//! environment.

pub mod cluster;
pub mod completions;
pub mod crawl;
pub mod export;
pub mod feed;
pub mod identity;
pub mod link;
pub mod list;
pub mod man;
pub mod mcp;
pub mod serve;
pub mod spider;
pub mod stop;
pub mod top;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use nephila_engine::settings::{self, Settings};

pub mod ask;

/// A polite, robust web crawler that stores responses as standard WARC files.
#[derive(Debug, Parser)]
#[command(
    name = "nephila",
    version,
    max_term_width = 110,
    after_help = "Examples:\n  nephila crawl https://docs.example.org/ --contact https://you.example/bot -o docs\n  nephila report summary -o docs"
)]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Crawl sites until nothing is left or a limit is reached. The same command continues a crawl.
    ///
    /// A crawl is a folder with its state, archive, logs and settings. robots.txt is obeyed. Each host gets one
    /// connection at a time, with a crawl delay between requests. Private addresses are refused, unless a URL on this
    /// command line names one; lists and feeds open none. Ctrl-C finishes open fetches and stops; a second Ctrl-C stops
    /// at once. Both are safe, and so is a crash.
    ///
    /// The crawl ends when every URL was tried at least once, however long a host asks to wait; only retries of failed
    /// URLs are left for later (crawl.retry_wait_max).
    ///
    /// Exit code: 0 nothing is left and every seed was answered, 1 failed, 2 wrong flags or settings, 5 input
    /// unreadable, 9 a seed could not be fetched, 11 stopped by a signal, 12 too many failures, 13 stopped by a second
    /// signal, 14 size limit, 15 time limit, 17 the folder is damaged, 19 another process crawls here, 20 page limit,
    /// 23 retries are left for later, 24 the wait of --wait-max is over.
    #[command(
        after_help = "Examples:\n  nephila crawl https://docs.example.org/ --contact https://you.example/bot -o docs\n  nephila crawl -i seeds.txt --scope domain --limit 10000 -o sites"
    )]
    Crawl(Box<crawl::CrawlArgs>),
    /// List the URLs that a crawl would fetch first, each with the rule that decided.
    ///
    /// Fetches robots.txt, sitemaps and seeds only.
    #[command(
        after_help = "Examples:\n  nephila map https://docs.example.org/ --contact https://you.example/bot\n  nephila map -i seeds.txt --scope host --exclude /cart --json"
    )]
    Map(Box<crawl::MapArgs>),
    /// Fetch URLs and report the outcome of each.
    ///
    /// Prints one JSON line per URL, or readable lines on a terminal. robots.txt is obeyed. Each host gets one
    /// connection at a time, with a crawl delay between requests. Private addresses are refused unless the settings
    /// open them.
    ///
    /// Exit code: 0 every URL ended well, 1 some did not, 2 wrong flags or settings, 3 disk full, 5 input unreadable,
    /// 11 stopped by a signal, 12 too many failures, 13 stopped by a second signal.
    #[command(
        after_help = "Examples:\n  nephila fetch https://a.example/ --contact https://you.example/bot\n  nephila fetch -i urls.txt --warc archive -c 256 > fetched.jsonl"
    )]
    Fetch(Box<FetchArgs>),
    /// Check WARC files and their indexes strictly, also for defects that other tools overlook.
    ///
    /// With `--media`, every object that holds the body of a capture (`media.to`) is read as well, and compared with the
    /// length and the digest in the archive. Exit code: 0 clean, 1 defects found, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila verify docs\n  nephila verify --json old.warc.gz index.cdxj\n  nephila verify --media docs"
    )]
    Verify(VerifyArgs),
    /// Extract title, main text and links from the stored pages again, with the parser of this version.
    ///
    /// New results are written to the archive as `conversion` and `metadata` records that refer to the capture; `read
    /// --text` and `report links` use the latest. The command is idempotent: a second run writes nothing. Nothing is
    /// fetched, and no crawl may run in the folder meanwhile. Exit code: 0 done, 1 failed, 2 wrong flags.
    #[command(after_help = "Examples:\n  nephila extract -o docs\n  nephila extract --text -o docs")]
    Extract(ExtractArgs),
    /// Write a crawl in the formats of other programs.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila export parquet -o docs\n  nephila export parquet -o docs --to /data/tables"
    )]
    Export(export::ExportCommand),
    /// Query the tables of a crawl with DuckDB: the views `captures` and `links`.
    ///
    /// Runs `duckdb` if it is on the PATH, else prints the command line. `nephila export parquet` writes the tables. Exit
    /// code: 0 done, 1 DuckDB reported an error or is not there, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila sql 'SELECT fetch_status, count(*) FROM captures GROUP BY 1' -o docs\n  nephila sql \"SELECT source, anchor FROM links WHERE target = 'https://docs.example.org/gone'\" -o docs"
    )]
    Sql(SqlArgs),
    /// Print all settings with their meaning and defaults, as a usable settings file.
    #[command(
        after_help = "Examples:\n  nephila settings > nephila.toml\n  nephila settings --effective --set spider.total_timeout=30s"
    )]
    Settings(SettingsArgs),
    /// Create the keys and pages by which sites can verify the identity of the crawler.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila identity key key.pem\n  nephila identity directory"
    )]
    Identity(identity::IdentityCommand),
    /// Manage the stop list: never request these hosts, domains or addresses.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila stop add a.example --reason \"mail of 15 November\" -o docs\n  nephila stop list -o docs"
    )]
    Stop(stop::StopCommand),
    /// Run permanently with an HTTP API: a crawl on one machine, or a node of a cluster.
    ///
    /// Without `cluster.servers` the crawl in the folder continues and does not end by itself: the process waits for
    /// feeds, for revisits of pages, and for URLs from `nephila add`. The API at `api.listen` (127.0.0.1:6374) answers
    /// for pages and URLs, and below `/web/` as a CDX server and by Memento. No other server is needed. With
    /// `--read-only` only the archive is served.
    ///
    /// With `cluster.servers` the process is a node of a cluster until told to leave. Nodes are equal: start one per
    /// machine, all with the same `[cluster]` settings. Each node owns its share of the partitions; if a node is lost,
    /// the others take its partitions over. Ctrl-C hands everything over and ends; a second Ctrl-C ends at once. Both
    /// are safe, and so is a crash.
    ///
    /// Exit code: 1 failed, 2 wrong flags or settings, 11 stopped by a signal or `nephila cluster drain`, 13 stopped by
    /// a second signal, 19 another process works in the folder.
    #[command(
        after_help = "Examples:\n  nephila serve -o docs\n  nephila serve -o docs --read-only\n  nephila serve -o /data/nephila --node one --config /etc/nephila/nephila.toml"
    )]
    Serve(serve::ServeArgs),
    /// Fetch pages for nodes on other machines: a remote spider.
    ///
    /// The node, a `nephila crawl` or `nephila serve` with `spiders.listen`, decides what is fetched and when, and stores
    /// it; the spider needs no folder. It connects to every node named, again and again, and works for all of them. Without
    /// a word of its node it ends all requests before another spider begins them. Ctrl-C finishes open fetches and ends; a
    /// second Ctrl-C ends at once. Both are safe, and so is a crash.
    ///
    /// Exit code: 1 failed, 2 wrong flags, or refused by a node, 11 stopped by a signal, 13 stopped by a second signal.
    #[command(
        after_help = "Examples:\n  nephila spider --node 127.0.0.1:6380\n  nephila spider --node one.example:6380,two.example:6380 --ca node.pem --token-file token"
    )]
    Spider(spider::SpiderArgs),
    /// Manage the jobs of a cluster.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila job create news -i seeds.txt --scope domain\n  nephila job list"
    )]
    Job(cluster::JobCommand),
    /// Add URLs to a job of a cluster, or with `-o` to a crawl on this machine, running or not.
    ///
    /// Sources are arguments, lists, JSON lines, CDXJ indexes, sitemaps, WARC files, or a stream of visited URLs. Each
    /// URL is accepted, or refused with a reason: no URL, out of the job's scope, a trap. A known URL is not fetched
    /// again. Exit code: 0 all were accepted, 1 some were refused, 2 wrong flags or settings, 8 the node cannot be
    /// reached.
    #[command(
        after_help = "Examples:\n  nephila add https://docs.example.org/new -i more.txt -o docs\n  nephila add --job news --sitemap map.xml --cdxj old.cdxj"
    )]
    Add(cluster::AddArgs),
    /// List downloads by state and type, or stories by source.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila list downloads --state error -o docs\n  nephila list stories -o news"
    )]
    List(list::ListCommand),
    /// Make a link by which people without a token see one job or one host, and nothing else.
    ///
    /// The page of a host has our requests to it, the pauses that we promised and its robots.txt as we read it, for its
    /// operator; the page of a job says how far the job is. Both are served at `api.listen`, in a cluster by every node;
    /// others reach them through a proxy that passes `/public/` (docs/links.md). Links are not stored: whoever has one
    /// can use it until it is over. Removing `links.key` from the folder of a crawl ends all of its links with the next
    /// start; in a cluster a changed `api.node_token_file` (`api.token_file` without one) does. Exit code: 0 done, 1
    /// refused, 2 trouble.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila link host docs.example.org -o docs\n  nephila link job press --for 30d --node https://one.example:6374 --token-file operate.token"
    )]
    Link(link::LinkCommand),
    /// Follow feeds and inspect their health.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila feed add https://a.example/feed.xml -o news\n  nephila feed list -o news"
    )]
    Feed(feed::FeedCommand),
    /// Inspect and manage a cluster as a whole.
    #[command(subcommand, after_help = "Examples:\n  nephila cluster status\n  nephila cluster drain three")]
    Cluster(cluster::ClusterCommand),
    /// Watch a running crawl: its speed, what holds it back, hosts, stages, politeness, archive, feeds and jobs.
    ///
    /// Shows the numbers of `GET /metrics`, of the process of a folder or with `--node` of nodes. On a terminal until q;
    /// elsewhere one line for each look. Exit code: 0 ended, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila top -o docs\n  nephila top --node http://127.0.0.1:6374,http://127.0.0.1:6375\n  nephila top --every 10s -o docs >> progress.log"
    )]
    Top(top::TopArgs),
    /// Give tools to a program with a language model: search, read, scrape, map and crawl.
    ///
    /// Speaks the Model Context Protocol on standard input and output, until its input ends. Asks the process of a folder, or
    /// with `--node` a node; without a running crawl, a folder is only read. Exit code: 0 ended, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila mcp -o docs\n  nephila mcp --node http://127.0.0.1:6374 --token-file read.token"
    )]
    Mcp(mcp::McpArgs),
    /// Print a script by which a shell completes commands, flags and values.
    #[command(
        after_help = "Examples:\n  nephila completions bash > ~/.local/share/bash-completion/completions/nephila\n  nephila completions fish > ~/.config/fish/completions/nephila.fish"
    )]
    Completions(completions::CompletionsArgs),
    /// Print the manual page of the program, or write the pages of all commands.
    #[command(
        after_help = "Examples:\n  nephila man | man -l -\n  nephila man --out ~/.local/share/man/man1"
    )]
    Man(man::ManArgs),
    #[command(flatten)]
    Ask(ask::Ask),
}

/// Arguments of every command with settings.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// Settings file; without it a crawl that goes on takes the settings of its folder [default: $NEPHILA_CONFIG,
    /// ./nephila.toml, ~/.config/nephila/nephila.toml, /etc/nephila/nephila.toml]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    pub config: Option<PathBuf>,
    /// Set one setting, such as `spider.total_timeout=30s`; repeatable
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Settings")]
    pub set: Vec<String>,
}

impl Common {
    /// Loads the effective settings.
    pub fn load(&self) -> anyhow::Result<Settings> {
        self.load_from(None)
    }

    /// Loads the effective settings; the file `before`, if given, replaces the settings file.
    pub fn load_from(&self, before: Option<&Path>) -> anyhow::Result<Settings> {
        let settings = settings::load(self.config.as_deref(), &self.set, before)?;
        crate::logging::set_format(settings.log.format);
        Ok(settings)
    }
}

/// Arguments of `nephila extract`.
#[derive(Args, Clone, Debug)]
pub struct ExtractArgs {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Extract the main text only
    #[arg(long, conflicts_with = "links")]
    pub text: bool,
    /// Extract metadata and links only
    #[arg(long)]
    pub links: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `nephila sql`.
#[derive(Args, Clone, Debug)]
pub struct SqlArgs {
    /// Query
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Folder with the tables [default: `table` in the crawl folder]
    #[arg(long, value_name = "DIR")]
    pub tables: Option<PathBuf>,
    /// Print the command line, also if `duckdb` is there
    #[arg(long)]
    pub print: bool,
}

/// The node of a cluster that answers a command.
#[derive(Args, Clone, Debug, Default)]
pub struct Remote {
    /// Send the command to this node, such as `http://127.0.0.1:6374` or `https://one.example:6374`; any node answers
    /// for the whole cluster. In a comma-separated list, the next node is tried if one does not answer
    #[arg(long, value_name = "URL", help_heading = "Cluster")]
    pub node: Option<String>,
    /// File with the API token of the node
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Cluster")]
    pub token_file: Option<PathBuf>,
    /// File with the CA certificates of the nodes, for https: ca.pem of `nephila cluster keys` [default: the CAs that
    /// browsers trust]
    #[arg(long, value_name = "FILE", requires = "node", help_heading = "Cluster")]
    pub ca_file: Option<PathBuf>,
}

impl Remote {
    /// Opens the named nodes, if any.
    pub(crate) fn open(&self) -> anyhow::Result<Option<nephila_cluster::remote::Remote>> {
        let Some(urls) = &self.node else { return Ok(None) };
        nephila_cluster::remote::Remote::open(urls, self.token_file.as_deref(), self.ca_file.as_deref())
            .map(Some)
    }
}

/// Arguments of `nephila fetch`.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// URLs; `-` reads them from standard input, one per line
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// File of URLs, one per line; `-` is standard input
    #[arg(short = 'i', long = "seeds", value_name = "FILE", help_heading = "Input")]
    pub seeds: Vec<PathBuf>,
    /// Archive responses in this folder: archive/*.warc.gz and indexes/index.cdxj
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub warc: Option<PathBuf>,
    /// Archive responses in this folder, like `--warc`, and resume: the same command requests only URLs without a final
    /// outcome
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Send HEAD requests. Nothing is archived: a response without a body proves nothing about the page
    #[arg(long, help_heading = "Requests")]
    pub head: bool,
    /// Send this header field, `Name: value`, to the origins named on the command line only; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD", help_heading = "Requests")]
    pub headers: Vec<String>,
    /// Use this address for a host instead of DNS, as `host:port:address` or `host:address`; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = parse_resolve, help_heading = "Network")]
    pub resolve: Vec<(String, IpAddr)>,
    /// Maximum number of concurrent fetches
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=100_000),
        help_heading = "Network"
    )]
    pub concurrency: u32,
    /// Maximum number of concurrent connections per host [default: frontier.host_connections]
    #[arg(long, value_name = "N", help_heading = "Politeness")]
    pub host_concurrency: Option<u32>,
    /// Crawl delay: pause of a host between two fetches, such as `2s` [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Politeness")]
    pub delay: Option<std::time::Duration>,
    /// Follow redirects, each hop as a fetch of its own
    #[arg(short = 'L', long, help_heading = "Requests")]
    pub follow: bool,
    /// Limit redirects to the host or the domain of the URL
    #[arg(long, value_name = "SCOPE", default_value = "any", help_heading = "Requests")]
    pub follow_scope: FollowScope,
    /// Keep cookies during this run and send them back; by default none are sent
    #[arg(long, help_heading = "Requests")]
    pub cookies: bool,
    /// Send conditional requests: fetch only pages changed since the last capture in the folder of `--warc`
    #[arg(long, requires = "warc", help_heading = "Requests")]
    pub conditional: bool,
    /// Ignore robots.txt. Recorded in every archive file
    #[arg(long, help_heading = "Politeness")]
    pub ignore_robots: bool,
    /// Print the SHA-1 digest of each body. Free for archived responses; otherwise a third of the CPU time of a small
    /// fetch
    #[arg(long, help_heading = "Output")]
    pub digest: bool,
    /// Stop after this number of failed URLs
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub errors_max: Option<u64>,
    /// User-Agent header field, in full [default: identity.user_agent]
    #[arg(short = 'U', long, value_name = "TEXT", help_heading = "Politeness")]
    pub user_agent: Option<String>,
    /// Contact for site operators: a URL or a mail address, required for public sites [default: identity.contact]
    #[arg(long, value_name = "URL|MAIL", help_heading = "Politeness")]
    pub contact: Option<String>,
    /// Print JSON lines on a terminal too
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Limit on redirect targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FollowScope {
    /// The host of the URL.
    Host,
    /// The registrable domain of the URL.
    Domain,
    /// Any host.
    Any,
}

/// Arguments of `nephila verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// WARC files, CDXJ files, or folders with such files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Print one JSON line per defect
    #[arg(long)]
    pub json: bool,
    /// Also read all bodies that are in an object store, by the settings of the folder's last crawl
    #[arg(long)]
    pub media: bool,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Arguments of `nephila settings`.
#[derive(Args, Clone, Debug)]
pub struct SettingsArgs {
    /// Print the effective settings from file, environment and flags, instead of the defaults
    #[arg(long)]
    pub effective: bool,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Parses `host:port:address`, in the form of curl. The port is optional and ignored.
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
