//! Arguments of the read-only commands (and of `host set`): they read a crawl folder, or query the process that crawls
//! there.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::stop::StopWhere;
use super::{Common, Remote};

/// The read-only commands. Exit codes follow grep: 0 yes or clean, 1 no or found, 2 trouble.
#[derive(Debug, Subcommand)]
pub enum Ask {
    /// Print the stored response of a URL: by default the decoded body.
    ///
    /// Works while a crawl runs and after a crash. With `--node`, the capture is found on any node of the cluster. Exit
    /// code: 0 printed, 1 there is no capture, 2 trouble, 8 the URL waits to be fetched, or its state is unknown at
    /// present.
    #[command(
        after_help = "Examples:\n  nephila read https://docs.example.org/ -o docs\n  nephila read https://docs.example.org/ --at 2026-11-12 --headers -o docs\n  nephila read https://docs.example.org/ --complete -o docs > page.mht"
    )]
    Read(ReadArgs),
    /// List the captures of a URL, or of all matching URLs, as CDXJ lines.
    ///
    /// `http://a.example/x*` means `--match prefix`, `*.a.example` means `--match domain`.
    /// Exit code: 0 found some, 1 none, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila cdx https://docs.example.org/ -o docs\n  nephila cdx '*.example.org' --from 2026-11-01 --limit 100 -o docs"
    )]
    Cdx(CdxArgs),
    /// Print the outcome log, one line per request, or with `--events` the event stream.
    ///
    /// Exit code: 0 there were lines, 1 none, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila log -f --host a.example --outcome retry -o docs\n  nephila log --events --from beginning -o docs"
    )]
    Log(LogArgs),
    /// Report counts of a crawl by host, media type, redirect, …
    ///
    /// Exit code: 0; with `--broken` 1 if there are broken pages; 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila report summary -o docs\n  nephila report links --broken -o docs"
    )]
    Report(ReportArgs),
    /// Print the metrics of a crawl, or with `--node` of every node of a cluster.
    #[command(
        after_help = "Examples:\n  nephila stats --since 1h -o docs\n  nephila stats --node http://127.0.0.1:6374"
    )]
    Stats(StatsArgs),
    /// Prove that crawl delays and connection limits were kept.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila politeness report -o docs\n  nephila politeness check --access-log access.log"
    )]
    Politeness(PolitenessCommand),
    /// Explain why a URL was fetched or not, and when the next fetch is due.
    ///
    /// Queries the process that crawls, or opens the folder if none runs, or queries a node of a cluster with `--node`.
    /// Exit code: 0 fetched or queued, 1 not, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila explain https://docs.example.org/private/17 -o docs\n  nephila explain https://a.example/page --node http://127.0.0.1:6374"
    )]
    Explain(ExplainArgs),
    /// Inspect hosts, or set the crawl delay of a host.
    #[command(
        subcommand,
        after_help = "Examples:\n  nephila host show a.example -o docs\n  nephila host set a.example --delay 10s -o docs"
    )]
    Host(HostCommand),
    /// Inspect IP addresses.
    #[command(subcommand, after_help = "Examples:\n  nephila slot show 192.0.2.1 -o docs")]
    Slot(SlotCommand),
    /// Check this machine and a crawl folder: disk, files, clock, DNS, contact, cluster.
    ///
    /// Exit code: 0 no fault, 1 faults found, 2 trouble.
    #[command(after_help = "Examples:\n  nephila doctor\n  nephila doctor -o docs --json")]
    Doctor(DoctorArgs),
}

/// Arguments of `nephila explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// URLs to explain
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// `nephila host …`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Show the state of a host, and the reason for its wait.
    ///
    /// Exit code: 0 the host is known, 1 unknown, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila host show a.example -o docs\n  nephila host show https://a.example:8443 --node http://127.0.0.1:6374"
    )]
    Show(HostShowArgs),
    /// List hosts by number of requests, like `report hosts`.
    #[command(after_help = "Examples:\n  nephila host list --limit 20 -o docs")]
    List(HostListArgs),
    /// Set a longer crawl delay for a host.
    ///
    /// Takes effect on all nodes within seconds, and persists over restarts. Exit code: 0 done, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila host set c.example --delay 10s -o news\n  nephila host set c.example --delay 0s -o news"
    )]
    Set(HostSetArgs),
}

/// Arguments of `nephila host set`.
#[derive(Args, Clone, Debug)]
pub struct HostSetArgs {
    /// Host, such as `a.example` or `https://a.example:8443`; without a scheme, http and https
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Crawl delay between two requests; the longer of this and the settings applies (0s: as in the settings; at most
    /// 24h)
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Duration,
    /// Crawl folder or cluster.
    #[command(flatten)]
    pub place: StopWhere,
}

/// Arguments of `nephila host list`.
#[derive(Args, Clone, Debug)]
pub struct HostListArgs {
    /// Maximum number of rows
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub limit: Option<usize>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub format: TableFormat,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// `nephila slot …`.
#[derive(Debug, Subcommand)]
pub enum SlotCommand {
    /// Show the hosts that were requested at an address, and the pauses between requests.
    ///
    /// Exit code: 0 the address was requested, 1 not, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila slot show 192.0.2.1 -o docs\n  nephila slot show 2001:db8::1 --json -o docs"
    )]
    Show(SlotShowArgs),
}

/// Arguments of `nephila slot show`.
#[derive(Args, Clone, Debug)]
pub struct SlotShowArgs {
    /// Address; of an IPv6 address, only the first 64 bits count
    #[arg(value_name = "IP")]
    pub address: std::net::IpAddr,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Arguments of `nephila host show`.
#[derive(Args, Clone, Debug)]
pub struct HostShowArgs {
    /// Host, such as `a.example` or `https://a.example:8443`; without a scheme, http and https
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Arguments of `nephila doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Crawl folder, existing or not.
    #[command(flatten)]
    pub place: Where,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Crawl folder and JSON output.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// Crawl folder [default: . if . is a crawl or a node, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Arguments of `nephila read`.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// URL of the stored response
    #[arg(value_name = "URL")]
    pub url: String,
    /// Select the capture nearest to this time, such as 2026-11-12 or 20261112103000 [default: the latest]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Print status line and header fields
    #[arg(long, group = "part")]
    pub headers: bool,
    /// Print the main text of a page, without markup and menus
    #[arg(long, group = "part")]
    pub text: bool,
    /// Print the main text of a page as Markdown
    #[arg(long, group = "part")]
    pub markdown: bool,
    /// Print the WARC record
    #[arg(long, group = "part")]
    pub warc: bool,
    /// Print the page with its images, scripts, style sheets and frames as one file (MHTML), which browsers open
    #[arg(long, group = "part")]
    pub complete: bool,
    /// Print the body as stored, with its content encoding
    #[arg(long, group = "part")]
    pub raw: bool,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Arguments of `nephila cdx`.
#[derive(Args, Clone, Debug)]
pub struct CdxArgs {
    /// URL of the captures; with a `*` all that match, such as `https://docs.example.org/*`
    #[arg(value_name = "URL")]
    pub url: String,
    /// Match of the URL [default: by a `*` in the URL, else exact]
    #[arg(long = "match", value_name = "KIND")]
    pub matches: Option<MatchKind>,
    /// Only captures at or after this time, such as 2026-11-12
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only captures at or before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Maximum number of lines
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Match of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MatchKind {
    /// The URL, in any spelling with the same canonical form.
    Exact,
    /// All URLs with this prefix.
    Prefix,
    /// All URLs of the host.
    Host,
    /// All URLs of the host and of names below.
    Domain,
}

/// Arguments of `nephila log`.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// Follow the log: keep printing new lines
    #[arg(short, long, help_heading = "Output")]
    pub follow: bool,
    /// Only requests to this host, such as `a.example` or `https://a.example`
    #[arg(long, value_name = "HOST", help_heading = "Filters")]
    pub host: Option<String>,
    /// Only this outcome, class of outcomes or status, such as `not-found`, `retry`, `503`; repeatable
    #[arg(long, value_name = "OUTCOME", help_heading = "Filters")]
    pub outcome: Vec<String>,
    /// Only requests that began since then: `1h`, `2d`, or a time
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    pub since: Option<String>,
    /// Output format [default: text on a terminal, else jsonl]
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<LogFormat>,
    /// Print all events as JSON lines, each with an id; lines of kind `position` contain the position for --from
    #[arg(long, conflicts_with_all = ["host", "outcome", "since", "format"], help_heading = "Events")]
    pub events: bool,
    /// Print events from here on: `beginning`, `end`, or the position in a line of kind `position`
    #[arg(long, value_name = "POSITION", conflicts_with_all = ["host", "outcome", "since", "format"], help_heading = "Events")]
    pub from: Option<String>,
    /// Print only events of this kind, such as `changed` or `story`; repeatable
    #[arg(long, value_name = "KIND", conflicts_with_all = ["host", "outcome", "since", "format"], help_heading = "Events")]
    pub kind: Vec<String>,
    /// Print only new stories: `--kind story`
    #[arg(long, conflicts_with_all = ["host", "outcome", "since", "format"], help_heading = "Events")]
    pub stories: bool,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
    /// Node of a cluster, for its events.
    #[command(flatten)]
    pub remote: Remote,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, as in the file.
    Jsonl,
    /// Heritrix's crawl.log: thirteen fields.
    #[value(name = "crawl.log")]
    CrawlLog,
    /// Readable text.
    Text,
}

/// Arguments of `nephila report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Kind of report
    #[arg(value_name = "WHAT", default_value = "summary")]
    pub what: What,
    /// With `links`: report only pages that are gone or broken, with exit code 1 if there are any
    #[arg(long, help_heading = "Filters")]
    pub broken: bool,
    /// Only requests to this host
    #[arg(long, value_name = "HOST", help_heading = "Filters")]
    pub host: Option<String>,
    /// Maximum number of rows
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub limit: Option<usize>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub format: TableFormat,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Kind of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Totals, in a few lines.
    Summary,
    /// Hosts, by number of requests.
    Hosts,
    /// Media types.
    Types,
    /// Redirects with their targets.
    Redirects,
    /// Pages that could not be fetched, with the pages that link to them.
    Links,
    /// Pages to which no other page links.
    Orphans,
    /// Bodies found under several URLs.
    Duplicates,
    /// Pages whose main texts are nearly the same, if the archive holds texts (`handler.text`).
    NearDuplicates,
    /// Outcomes of the seeds.
    Seeds,
    /// Hosts whose pages link into traps.
    Traps,
}

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Columns.
    Table,
    /// One JSON object per row.
    Json,
    /// Comma-separated values.
    Csv,
    /// A Markdown table.
    Md,
    /// A page for a browser.
    Html,
    /// JUnit XML, for CI systems: a test case per row.
    Junit,
}

/// Arguments of `nephila stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Only requests that began since then: `1h`, `24h`, or a time
    #[arg(long, value_name = "TIME", conflicts_with = "node")]
    pub since: Option<String>,
    /// Node of a cluster.
    #[command(flatten)]
    pub remote: Remote,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// `nephila politeness …`.
#[derive(Debug, Subcommand)]
pub enum PolitenessCommand {
    /// Report the pauses between requests per host and address, compared with the promised crawl delay.
    ///
    /// Based on the crawl's own log. Exit code: 0 every promise was kept, 1 some were not, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila politeness report --host a.example -o docs\n  nephila politeness report --format html -o docs > for-their-admin.html"
    )]
    Report(PolitenessReportArgs),
    /// Check the crawler's requests in a site's own access log against the promised crawl delay.
    ///
    /// Exit code: 0 no violation, 1 violations, 2 trouble.
    #[command(
        after_help = "Examples:\n  nephila politeness check --access-log access.log --robots robots.txt\n  zcat access.log.gz | nephila politeness check --access-log - --delay 2s"
    )]
    Check(PolitenessCheckArgs),
}

/// Arguments of `nephila politeness report`.
#[derive(Args, Clone, Debug)]
pub struct PolitenessReportArgs {
    /// Only requests to this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Only requests at or after this time, such as 2026-11-12
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Only requests at or before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Folder of another node of the same cluster; the requests of all nodes are judged together; repeatable
    #[arg(long = "also", value_name = "DIR")]
    pub also: Vec<PathBuf>,
    /// Output format; `html` is one page for a site's operator
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: PageFormat,
    /// Crawl folder.
    #[command(flatten)]
    pub place: Where,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// Text for a terminal.
    Text,
    /// One JSON object.
    Json,
    /// One HTML page without scripts.
    Html,
}

/// Arguments of `nephila politeness check`.
#[derive(Args, Clone, Debug)]
pub struct PolitenessCheckArgs {
    /// Access log, plain or gzip; `-` is standard input; repeatable, oldest first
    #[arg(long = "access-log", value_name = "FILE", required = true)]
    pub access_logs: Vec<PathBuf>,
    /// Format of the access log
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: AccessFormat,
    /// Text in the User-Agent of the crawler's requests [default: identity.agent]
    #[arg(long, value_name = "TEXT")]
    pub agent: Option<String>,
    /// Promised crawl delay between two requests [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Option<Duration>,
    /// Promised maximum number of concurrent requests [default: frontier.host_connections]
    #[arg(long, value_name = "N")]
    pub connections: Option<u32>,
    /// The site's robots.txt, to check that its rules were obeyed
    #[arg(long, value_name = "FILE")]
    pub robots: Option<PathBuf>,
    /// Print JSON lines
    #[arg(long)]
    pub json: bool,
    /// Settings.
    #[command(flatten)]
    pub common: Common,
}

/// Format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessFormat {
    /// Detected from the first lines.
    Auto,
    /// `host ident user [time] "request" status bytes`. Without User-Agent: every line counts as a request of the
    /// crawler.
    Common,
    /// `common` followed by `"referrer" "agent"`. A further number is the duration of the request in seconds.
    Combined,
    /// One JSON object per line, with the usual names of nginx variables: `time_iso8601` or `msec`, `request`,
    /// `http_user_agent`, `request_time`.
    JsonNginx,
}
