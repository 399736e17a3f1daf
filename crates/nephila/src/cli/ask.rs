//! Flags of the commands that ask: they read a crawl's folder, or ask the process that crawls in it, and change nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::stop::StopWhere;
use super::{Common, Remote};

/// The commands that ask. Exit codes are those of grep: 0 yes or clean, 1 no or found, 2 trouble.
#[derive(Debug, Subcommand)]
pub enum Ask {
    /// Print what was fetched from a URL: the body, decoded.
    ///
    /// Works while a crawl runs and after one was killed. With `--node` it is found wherever in the cluster it lies. Exit
    /// code: 0 printed, 1 there is no capture, 2 trouble, 8 it is wanted and not there yet, or nobody can say right now.
    Read(ReadArgs),
    /// List the captures of a URL, or of all URLs like it, as CDXJ lines.
    ///
    /// `http://a.example/x*` means `--match prefix`, `*.a.example` means `--match domain`.
    /// Exit code: 0 some were found, 1 none, 2 trouble.
    Cdx(CdxArgs),
    /// Print the outcome log: one line for every request.
    ///
    /// Exit code: 0 there were lines, 1 none, 2 trouble.
    Log(LogArgs),
    /// Count what a crawl did, by host, type, redirect, …
    ///
    /// Exit code: 0; `--broken` gives 1 if it finds broken pages; 2 trouble.
    Report(ReportArgs),
    /// Print the numbers of a crawl, or with `--node` those of every node of a cluster.
    Stats(StatsArgs),
    /// Prove how politely sites were asked.
    #[command(subcommand)]
    Politeness(PolitenessCommand),
    /// Say why a URL was fetched or not, and when it will be.
    ///
    /// Asks the process that crawls, or opens the folder if none does, or asks a node of a cluster with `--node`.
    /// Exit code: 0 fetched or queued, 1 not, 2 trouble.
    Explain(ExplainArgs),
    /// Look at hosts.
    #[command(subcommand)]
    Host(HostCommand),
    /// Look at addresses.
    #[command(subcommand)]
    Slot(SlotCommand),
    /// Check this machine and a crawl's folder: disk, files, clock, names, contact.
    ///
    /// Exit code: 0 nothing is wrong, 1 something is, 2 trouble.
    Doctor(DoctorArgs),
}

/// Flags of `nephila explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// URLs
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// `nephila host …`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// What is known of a host, and what it waits for.
    ///
    /// Exit code: 0 it is known, 1 not, 2 trouble.
    Show(HostShowArgs),
    /// The hosts that were asked, the most asked first: the same as `report hosts`.
    List(HostListArgs),
    /// Give a host a longer rest.
    ///
    /// It holds on all nodes within seconds, and after every restart. Exit code: 0 done, 2 trouble.
    Set(HostSetArgs),
}

/// Flags of `nephila host set`.
#[derive(Args, Clone, Debug)]
pub struct HostSetArgs {
    /// The host, such as `a.example` or `https://a.example:8443`; without a scheme both are meant
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Rest between two requests, if it is longer than that of the settings; `0s` for the usual one
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Duration,
    /// Where
    #[command(flatten)]
    pub place: StopWhere,
}

/// Flags of `nephila host list`.
#[derive(Args, Clone, Debug)]
pub struct HostListArgs {
    /// So many at most
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// How it is printed
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: TableFormat,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// `nephila slot …`.
#[derive(Debug, Subcommand)]
pub enum SlotCommand {
    /// Who was asked at an address, and how it rested.
    ///
    /// Exit code: 0 it was asked, 1 not, 2 trouble.
    Show(SlotShowArgs),
}

/// Flags of `nephila slot show`.
#[derive(Args, Clone, Debug)]
pub struct SlotShowArgs {
    /// The address; of IPv6 the first 64 bits count
    #[arg(value_name = "IP")]
    pub address: std::net::IpAddr,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// Flags of `nephila host show`.
#[derive(Args, Clone, Debug)]
pub struct HostShowArgs {
    /// The host, such as `a.example` or `https://a.example:8443`; without a scheme both are looked at
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// Flags of `nephila doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// Where the crawl is, or will be
    #[command(flatten)]
    pub place: Where,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// Where the crawl is.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// The crawl's folder [default: . if it is a crawl, else ./nephila-data]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `nephila read`.
#[derive(Args, Clone, Debug)]
pub struct ReadArgs {
    /// The URL
    #[arg(value_name = "URL")]
    pub url: String,
    /// The capture nearest to this time, such as 2026-11-12 or 20261112103000 [default: the latest]
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Print status line and fields
    #[arg(long, group = "part")]
    pub headers: bool,
    /// Print the main text of a page, without its markup and its menus
    #[arg(long, group = "part")]
    pub text: bool,
    /// Print the WARC record
    #[arg(long, group = "part")]
    pub warc: bool,
    /// Print the body as it is stored, compressed if it was sent so
    #[arg(long, group = "part")]
    pub raw: bool,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// Flags of `nephila cdx`.
#[derive(Args, Clone, Debug)]
pub struct CdxArgs {
    /// The URL
    #[arg(value_name = "URL")]
    pub url: String,
    /// Which URLs beside it [default: exact]
    #[arg(long = "match", value_name = "KIND")]
    pub matches: Option<MatchKind>,
    /// Not before this time
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Not after this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// So many lines at most
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// Which URLs a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MatchKind {
    /// The URL, however it is spelled.
    Exact,
    /// What begins like it.
    Prefix,
    /// Its host.
    Host,
    /// Its host and the names below.
    Domain,
}

/// Flags of `nephila log`.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// Go on printing what is added
    #[arg(short, long)]
    pub follow: bool,
    /// Only this host, such as `a.example` or `https://a.example`
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Only this outcome, class of outcomes or status, such as `not-found`, `retry`, `503`; may be given several times
    #[arg(long, value_name = "OUTCOME")]
    pub outcome: Vec<String>,
    /// Only what began since then: `1h`, `2d`, or a time
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// How lines look [default: text on a terminal, else jsonl]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<LogFormat>,
    /// Everything that happens, as JSON lines, each with an id; lines of kind `position` say where to go on with --from
    #[arg(long, conflicts_with_all = ["host", "outcome", "since", "format"])]
    pub events: bool,
    /// The same from there on: `beginning`, `end`, or what a line of kind `position` said
    #[arg(long, value_name = "POSITION", conflicts_with_all = ["host", "outcome", "since", "format"])]
    pub from: Option<String>,
    /// Only events of this kind, such as `changed` or `story`; may be given several times
    #[arg(long, value_name = "KIND", conflicts_with_all = ["host", "outcome", "since", "format"])]
    pub kind: Vec<String>,
    /// Only new stories: `--kind story`
    #[arg(long, conflicts_with_all = ["host", "outcome", "since", "format"])]
    pub stories: bool,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
    /// Which node is asked, for events of a cluster
    #[command(flatten)]
    pub remote: Remote,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// As they are written: one JSON object per line.
    Jsonl,
    /// As Heritrix writes them: thirteen fields.
    #[value(name = "crawl.log")]
    CrawlLog,
    /// For people.
    Text,
}

/// Flags of `nephila report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// What to count
    #[arg(value_name = "WHAT", default_value = "summary")]
    pub what: What,
    /// With `links`: only pages that are gone or broken, and exit code 1 if there are some
    #[arg(long)]
    pub broken: bool,
    /// Only this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// So many rows at most
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// How it is printed
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: TableFormat,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// What a report counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Everything, in a few lines.
    Summary,
    /// Hosts, the most asked first.
    Hosts,
    /// Media types.
    Types,
    /// What leads where.
    Redirects,
    /// Pages that could not be had.
    Links,
    /// Bodies found under several URLs.
    Duplicates,
    /// How the seeds ended.
    Seeds,
    /// Hosts whose pages link into traps.
    Traps,
}

/// How a table is printed.
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
}

/// Flags of `nephila stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsArgs {
    /// Only what began since then: `1h`, `24h`, or a time
    #[arg(long, value_name = "TIME", conflicts_with = "node")]
    pub since: Option<String>,
    /// Which node is asked
    #[command(flatten)]
    pub remote: Remote,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// `nephila politeness …`.
#[derive(Debug, Subcommand)]
pub enum PolitenessCommand {
    /// How long every host and every address rested between two requests, against what was promised.
    ///
    /// From the crawl's own log. Exit code: 0 every promise was kept, 1 some were not, 2 trouble.
    Report(PolitenessReportArgs),
    /// Judge a site's own access log: our requests in it, against our promise.
    ///
    /// Exit code: 0 no violation, 1 violations, 2 trouble.
    Check(PolitenessCheckArgs),
}

/// Flags of `nephila politeness report`.
#[derive(Args, Clone, Debug)]
pub struct PolitenessReportArgs {
    /// Only this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Not before this time
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Not after this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// The folders of other nodes of the same cluster. May be given several times: what several nodes did is judged as one
    #[arg(long = "also", value_name = "DIR")]
    pub also: Vec<PathBuf>,
    /// How it is printed; `html` is one page that can be sent to a site's operator
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: PageFormat,
    /// Where the crawl is
    #[command(flatten)]
    pub place: Where,
}

/// How a page is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageFormat {
    /// For a terminal.
    Text,
    /// One JSON object.
    Json,
    /// One page without scripts.
    Html,
}

/// Flags of `nephila politeness check`.
#[derive(Args, Clone, Debug)]
pub struct PolitenessCheckArgs {
    /// The access log; `-` is standard input, gzip is undone. May be given several times, oldest first
    #[arg(long = "access-log", value_name = "FILE", required = true)]
    pub access_logs: Vec<PathBuf>,
    /// How its lines look
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: AccessFormat,
    /// Our requests have this text in their User-Agent [default: identity.agent]
    #[arg(long, value_name = "TEXT")]
    pub agent: Option<String>,
    /// The rest that was promised between two requests [default: frontier.host_delay]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub delay: Option<Duration>,
    /// Requests at the same time that were promised at most [default: frontier.host_connections]
    #[arg(long, value_name = "N")]
    pub connections: Option<u32>,
    /// The site's robots.txt, to see whether we obeyed it
    #[arg(long, value_name = "FILE")]
    pub robots: Option<PathBuf>,
    /// Print JSON lines
    #[arg(long)]
    pub json: bool,
    /// Where settings come from
    #[command(flatten)]
    pub common: Common,
}

/// How the lines of an access log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccessFormat {
    /// As the first lines look.
    Auto,
    /// `host ident user [time] "request" status bytes`. It has no User-Agent: every line is taken as ours.
    Common,
    /// The same with `"referrer" "agent"` behind it. A further number is taken as the request's seconds.
    Combined,
    /// One JSON object per line, with the names nginx users give: `time_iso8601` or `msec`, `request`,
    /// `http_user_agent`, `request_time`.
    JsonNginx,
}
