//! Settings: read from a file, the environment and `--set`, merged and checked once.
//!
//! Precedence: `--set` over environment (`NEPHILA_SPIDER__TOTAL_TIMEOUT=30s`) over the first file found over defaults.
//! An unknown key is an error. `nephila settings` prints all settings; the printed comments are the doc comments of the
//! fields, read from the sources, so that they cannot disagree.

mod api;
mod cluster;
mod credential;
mod limits;
mod list;
mod load;
mod media;
mod origins;
mod print;
mod secrets;
mod spiders;
mod tables;
mod traces;
mod webhook;

use std::path::PathBuf;
use std::time::Duration;

use nephila_core::frontier::hours::HOURS_MAX;
use nephila_core::frontier::settings::PER_SECOND_MIN;
use nephila_core::handler::TextOf;
use nephila_core::robots::policy::{self, Denied};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

pub use api::{API_LISTEN, Api, PER_SECOND, RESERVED, Reads, Role, TokenSettings};
pub use cluster::{ArchiveUpload, Cluster, given};
pub use credential::Credential;
pub use list::{ListedSetting, SECRET_SET, list};
pub use load::remember_contact;
pub use load::{changed_after, load};
pub use media::Media;
pub use origins::Origins;
pub use print::page;
pub(crate) use secrets::missing as missing_secret;
pub(crate) use spiders::TICKET_MARGIN;
pub use spiders::{Allow, Dialect, Spiders};
pub use tables::Tables;
pub use traces::Traces;
pub use webhook::{WEBHOOKS_MAX, Webhook, WebhookFrom};

/// All settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Identification of the crawler.
    pub identity: Identity,
    /// Crawl delays and connection limits of hosts and addresses.
    pub frontier: nephila_core::frontier::Settings,
    /// Retries and backoff.
    pub retry: nephila_core::frontier::retry::Settings,
    /// Budgets of domains.
    pub budget: nephila_core::budget::Settings,
    /// Detection of crawler traps.
    pub trap: nephila_core::trap::Settings,
    /// Use of robots.txt.
    pub robots: Robots,
    /// Fetch of one URL: timeouts, limits, protocols.
    pub spider: nephila_core::spider::Settings,
    /// Remote spiders.
    pub spiders: Spiders,
    /// Archive files.
    pub store: nephila_store::archive::Settings,
    /// Large bodies in an object store.
    pub media: Media,
    /// Links and text of fetched pages.
    pub handler: Handler,
    /// Tables of captures and links.
    pub tables: Tables,
    /// Revisits of pages.
    pub recrawl: nephila_core::recrawl::Settings,
    /// Polls of feeds.
    pub feed: nephila_core::feed::Settings,
    /// Writes of the frontier.
    pub worker: crate::worker::Settings,
    /// The crawl as a whole.
    pub crawl: Crawl,
    /// Cluster of nodes.
    pub cluster: Cluster,
    /// HTTP API of a node.
    pub api: Api,
    /// Messages on standard error.
    pub log: Log,
    /// Traces of sampled tickets.
    pub traces: Traces,
    /// User names and passwords for sites.
    pub credentials: Vec<Credential>,
    /// Programs of the operator to which events are sent.
    pub webhooks: Vec<Webhook>,
    /// Where the settings come from.
    #[serde(skip)]
    pub origins: Origins,
}

impl Settings {
    /// Sets the crawl delay of hosts (`--delay`). A shorter delay of hosts also lowers the default delay of addresses.
    /// A delay of addresses that the operator chose stays; if longer than the new delay, a warning is printed.
    pub fn set_host_delay(&mut self, delay: Duration) {
        let (slot, usual) =
            (self.frontier.slot_delay, nephila_core::frontier::Settings::default().slot_delay);
        self.frontier.host_delay = delay;
        if slot == usual {
            self.frontier.slot_delay = slot.min(delay);
        } else if slot > delay {
            tracing::warn!(
                "--delay {} is shorter than the rest of addresses that the settings ask for: hosts are asked every {} \
                 (frontier.slot_delay)",
                humantime::format_duration(delay),
                humantime::format_duration(slot)
            );
        }
    }
}

/// Messages of a running process on standard error. Section `[log]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Form of the messages: `text`, or `json` with one object per line: `time`, `level`, `target`, `message`, and
    /// fields such as `node`, `partition` and `error`.
    pub format: LogFormat,
}

/// Form of the messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Plain lines.
    #[default]
    Text,
    /// JSON lines.
    Json,
}

/// Identification towards site operators. Section `[identity]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// Product token for robots.txt: letters, `_` and `-` only (RFC 9309, 2.2.1).
    pub agent: String,
    /// Contact for site operators: a URL or a mail address. Empty: only addresses opened by `spider.allow_addresses`
    /// may be fetched.
    pub contact: String,
    /// User-Agent header field; `{agent}`, `{version}` and `{contact}` are filled in.
    pub user_agent: String,
    /// From header field: the mail address of the operator. Empty: no such field is sent.
    pub from: String,
    /// File with a private key (Ed25519), created by `nephila identity key`. Requests are signed with the key, so that
    /// a site can verify the sender; requires `agent_url`. Empty: no signatures.
    pub key_file: PathBuf,
    /// Site of the public keys: `https://HOST`, which serves the output of `nephila identity directory` at
    /// `/.well-known/http-message-signatures-directory`.
    pub agent_url: String,
    /// Signed requests: over `https`, `always`, or only to sites that have `asked`. A site that asks always gets
    /// signatures. Over plain http everybody on the way can copy a signature.
    pub sign: Sign,
    /// Validity period of a signature, at most a day.
    #[serde(with = "humantime_serde")]
    pub signature_valid: Duration,
}

/// Signed requests.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// Requests over https.
    #[default]
    Https,
    /// All requests.
    Always,
    /// Requests to sites that asked for signatures.
    Asked,
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            agent: "Nephila".into(),
            contact: String::new(),
            user_agent: "Mozilla/5.0 (compatible; {agent}/{version}; +{contact})".into(),
            from: String::new(),
            key_file: PathBuf::new(),
            agent_url: String::new(),
            sign: Sign::Https,
            signature_valid: Duration::from_secs(300),
        }
    }
}

impl Identity {
    /// Checks the identity. Returns the first fault.
    fn check(&self) -> Result<(), String> {
        let agent = &self.agent;
        if agent.is_empty() || !agent.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'-') {
            return Err(format!("identity.agent {agent:?} may have only letters, `_` and `-`"));
        }
        let from = &self.from;
        if !from.is_empty()
            && (!from.contains('@') || from.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return Err(format!("identity.from {from:?} is no mail address"));
        }
        let is_agent = |url: &str| {
            let rest = url.strip_prefix("https://").unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@\"'\\".contains(&b))
        };
        if !self.agent_url.is_empty() && !is_agent(&self.agent_url) {
            return Err(format!("identity.agent_url {:?} is not https://HOST", self.agent_url));
        }
        if !self.key_file.as_os_str().is_empty() && self.agent_url.is_empty() {
            return Err("identity.key_file needs identity.agent_url, where the public key is".into());
        }
        if self.signature_valid < Duration::from_secs(1)
            || self.signature_valid > Duration::from_secs(24 * 3600)
        {
            return Err("identity.signature_valid must be between 1s and 24h".into());
        }
        Ok(())
    }

    /// The User-Agent header field, with all placeholders filled in.
    pub fn user_agent(&self) -> String {
        let contact = if self.contact.is_empty() { "no-contact" } else { &self.contact };
        let text =
            self.user_agent.replace("{agent}", &self.agent).replace("{version}", env!("CARGO_PKG_VERSION"));
        text.replace("{contact}", contact)
    }
}

/// Use of robots.txt. Section `[robots]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    /// Obey robots.txt. `false` is recorded in every archive file.
    pub obey: bool,
    /// Maximum size of robots.txt in bytes; the rest is ignored (RFC 9309, 2.5).
    pub bytes_max: u64,
    /// Meaning of a 401 or 403 for robots.txt: `allow`, as for every other 4xx (RFC 9309, 2.3.1.3), or `disallow`.
    pub denied: Denied,
    /// Crawl a site whose robots.txt has been unreachable for 30 days.
    pub unreachable_then_allow: bool,
    /// Maximum `Crawl-delay` for `nephila fetch`, which refuses a host with a longer one. A crawl waits for any time.
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
}

impl Default for Robots {
    fn default() -> Self {
        Robots {
            obey: true,
            bytes_max: 512_000,
            denied: Denied::Allow,
            unreachable_then_allow: false,
            crawl_delay_max: Duration::from_secs(3600),
        }
    }
}

impl Robots {
    /// The operator's choices where the RFC leaves a choice.
    pub fn policy(&self) -> policy::Settings {
        policy::Settings { denied: self.denied, unreachable_then_allow: self.unreachable_then_allow }
    }
}

/// Links and text of fetched pages. Section `[handler]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Handler {
    /// Maximum number of links followed per page; further links are only counted.
    pub links_per_page_max: usize,
    /// Obey `nofollow` of links and pages: `rel=nofollow`, `meta robots`, `X-Robots-Tag`.
    pub nofollow: bool,
    /// Fetch images, scripts, styles and frames of a page as well.
    pub page_requisites: bool,
    /// Follow the targets of forms that use GET.
    pub forms: bool,
    /// Read the sitemaps that robots.txt names.
    pub sitemaps: bool,
    /// Maximum number of bytes parsed per page; the archive stores the whole page.
    pub page_bytes_max: usize,
    /// Maximum delay of a `meta refresh` that counts as a redirect; with a longer delay it is a link.
    #[serde(with = "humantime_serde")]
    pub refresh_redirect_max: Duration,
    /// Pages whose title, date, author, language and main text are stored beside the page: `none`, `stories` (pages
    /// that feeds name), `all`. A page found by a link first becomes a story if the page is still queued when its feed
    /// names the URL. A page that is about to be fetched by then, or was fetched, stays an ordinary page, and `stories`
    /// stores no text of the page. A PDF is a page too; its text is read in a child process.
    pub text: TextOf,
}

impl Handler {
    /// Limits of the parser; `requisites` extracts images, scripts, styles and frames as well.
    pub fn limits(&self, requisites: bool) -> nephila_core::handler::Limits {
        nephila_core::handler::Limits {
            links_max: self.links_per_page_max,
            html_bytes_max: self.page_bytes_max,
            refresh_redirect_max: self.refresh_redirect_max,
            requisites,
            forms: self.forms,
            ..nephila_core::handler::Limits::default()
        }
    }
}

impl Default for Handler {
    fn default() -> Self {
        Handler {
            links_per_page_max: 6_000,
            nofollow: true,
            page_requisites: false,
            forms: false,
            sitemaps: true,
            page_bytes_max: 16 << 20,
            refresh_redirect_max: Duration::from_secs(5),
            text: TextOf::default(),
        }
    }
}

/// The crawl as a whole. Section `[crawl]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crawl {
    /// Maximum number of concurrent fetches.
    pub concurrency: usize,
    /// Number of threads that fetch and parse pages (0: one per core). Half of the cores, together with `nice`, leave a
    /// machine usable for other work.
    pub threads: usize,
    /// Maximum wait for retries before a crawl ends. Retries due later are left to the next run of the same command.
    /// URLs that were never tried are always waited for: see `wait_max`.
    #[serde(with = "humantime_serde")]
    pub retry_wait_max: Duration,
    /// Maximum wait for hosts in backoff (503, 429, a failed robots.txt, an unknown name) when no other URLs are left.
    /// The crawl stops when no page was fetched for this time (`0s`: unlimited).
    #[serde(with = "humantime_serde")]
    pub wait_max: Duration,
    /// Revisit interval of every page (`0s`: no revisits); requests are conditional if the server sent validators.
    /// Revisits due later than `retry_wait_max` from now do not keep a crawl from ending: the next run of the same
    /// command makes them.
    #[serde(with = "humantime_serde")]
    pub again_every: Duration,
    /// Time for open fetches to end after the first signal.
    #[serde(with = "humantime_serde")]
    pub drain_timeout: Duration,
    /// All crawled sites are your own. Only then are public sites requested with a `frontier.host_delay` below 250 ms
    /// or more than 8 `host_connections`: only the operator of a site knows the load that the site can bear.
    pub own_sites: bool,
    /// Minimum free disk space in bytes; below, the crawl waits.
    pub disk_free_min: u64,
    /// Place of the frontier's state: on `disk`, or in `memory`, where the state is lost with the process. With
    /// `memory`, the archive, the log and the journals of the run (for `nephila log --events`) are still written; the
    /// next run starts from scratch and removes the journals. A folder with state on disk cannot be crawled in memory.
    pub state: StateKind,
    /// Bytes of each partition's journal that are kept for readers of events (`nephila log --events`), even if the
    /// crawl no longer needs them; 16 times as many in total.
    pub events_bytes: u64,
}

impl Default for Crawl {
    fn default() -> Self {
        Crawl {
            concurrency: 256,
            threads: 0,
            retry_wait_max: Duration::from_secs(60),
            wait_max: Duration::ZERO,
            again_every: Duration::ZERO,
            drain_timeout: Duration::from_secs(60),
            own_sites: false,
            disk_free_min: 512 << 20,
            state: StateKind::Disk,
            events_bytes: 64 << 20,
        }
    }
}

/// Place of the frontier's state.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// In files: durable.
    #[default]
    Disk,
    /// In memory only.
    Memory,
}

/// Checks constraints that types cannot express.
fn check(settings: &Settings) -> Result<(), String> {
    settings.identity.check()?;
    credential::check(&settings.credentials)?;
    let cluster = (!settings.cluster.servers.is_empty()).then_some(&*settings.cluster.name);
    webhook::check(&settings.webhooks, cluster)?;
    if settings.frontier.host_connections == 0 || settings.frontier.slot_connections == 0 {
        return Err("frontier.host_connections and slot_connections must be at least 1".into());
    }
    if let Some(fleet) = settings.frontier.fleets.iter().find(|fleet| fleet.connections == 0) {
        return Err(format!("frontier.fleets: {:?} must have at least one connection", fleet.name));
    }
    if settings.frontier.hours.len() > HOURS_MAX {
        return Err(format!("frontier.hours may have {HOURS_MAX} entries"));
    }
    for hours in &settings.frontier.hours {
        hours.check().map_err(|error| format!("frontier.hours: {error}"))?;
    }
    let rate = settings.frontier.host_per_second;
    if rate != 0.0 && !(rate.is_finite() && rate >= PER_SECOND_MIN) {
        return Err(format!(
            "frontier.host_per_second {rate} must be 0, or a rate of at least one fetch a week"
        ));
    }
    limits::check(settings)?;
    if settings.crawl.concurrency == 0 {
        return Err("crawl.concurrency must be at least 1".into());
    }
    if settings.frontier.ticket_timeout <= settings.spider.total_timeout {
        return Err("frontier.ticket_timeout must be longer than spider.total_timeout".into());
    }
    let [certificate, key] = [&settings.api.tls_cert_file, &settings.api.tls_key_file];
    if certificate.as_os_str().is_empty() != key.as_os_str().is_empty() {
        return Err("api.tls_cert_file and api.tls_key_file belong together: one is missing".into());
    }
    settings.api.check()?;
    let (total, ticket) = (settings.spider.total_timeout, settings.frontier.ticket_timeout);
    settings.spiders.check(total, ticket, !settings.cluster.servers.is_empty())?;
    settings.media.check(&settings.cluster)?;
    settings.traces.check()?;
    settings.cluster.check()
}

/// Marks an error as an error of usage: exit code 2.
pub fn usage(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    anyhow::Error::new(Exit::Usage).context(text)
}

/// Formats all settings as a file with comments, without secrets and with a note about that, for the crawl folder.
pub(crate) fn kept_page(settings: &Settings) -> anyhow::Result<String> {
    Ok(format!("{}{}", secrets::NOTE, page(&secrets::kept(settings))?))
}

#[cfg(test)]
mod tests;
