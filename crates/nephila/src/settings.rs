//! Settings: what a person writes in a file, in the environment or behind `--set`, resolved once into what is meant.
//!
//! Order: `--set` over environment (`NEPHILA_SPIDER__TOTAL_TIMEOUT=30s`) over the first file found over defaults.
//! An unknown key is an error. `nephila settings` prints everything; the comments it prints are the doc comments of
//! the fields, read from the sources, so that they cannot disagree.

mod cluster;
mod credential;
mod limits;
mod print;
mod secrets;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use nephila_core::frontier::hours::HOURS_MAX;
use nephila_core::frontier::settings::PER_SECOND_MIN;
use nephila_core::handler::TextOf;
use nephila_core::robots::policy::{self, Denied};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

pub use cluster::{ArchiveUpload, Cluster};
pub use credential::Credential;
pub(crate) use secrets::missing as missing_secret;

/// Where a node answers if nothing else is said.
pub(crate) const API_LISTEN: &str = "127.0.0.1:6374";

/// Everything that can be set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who we are.
    pub identity: Identity,
    /// When a host may be asked.
    pub frontier: nephila_core::frontier::Settings,
    /// When something that failed is asked for again.
    pub retry: nephila_core::frontier::retry::Settings,
    /// How much of a crawl one domain may take.
    pub budget: nephila_core::budget::Settings,
    /// What sites make without end.
    pub trap: nephila_core::trap::Settings,
    /// robots.txt.
    pub robots: Robots,
    /// How one URL is fetched.
    pub spider: nephila_core::spider::Settings,
    /// What is kept.
    pub store: nephila_store::archive::Settings,
    /// What a fetched page leads to.
    pub handler: Handler,
    /// When pages are fetched again.
    pub recrawl: nephila_core::recrawl::Settings,
    /// Feeds that are followed.
    pub feed: nephila_core::feed::Settings,
    /// How often the frontier writes.
    pub worker: crate::worker::Settings,
    /// One crawl as a whole.
    pub crawl: Crawl,
    /// Many nodes as one.
    pub cluster: Cluster,
    /// What a node answers over HTTP.
    pub api: Api,
    /// Names and passwords for sites.
    pub credentials: Vec<Credential>,
}

impl Settings {
    /// What `--delay` says. A shorter rest of hosts needs one of addresses that is no longer; one that somebody chose stays,
    /// and is spoken of where it counts.
    pub(crate) fn set_host_delay(&mut self, delay: Duration) {
        let (slot, usual) =
            (self.frontier.slot_delay, nephila_core::frontier::Settings::default().slot_delay);
        self.frontier.host_delay = delay;
        if slot == usual {
            self.frontier.slot_delay = slot.min(delay);
        } else if slot > delay {
            eprintln!(
                "nephila: --delay {} is shorter than the rest of addresses that the settings ask for: hosts are asked every {} \
                 (frontier.slot_delay)",
                humantime::format_duration(delay),
                humantime::format_duration(slot)
            );
        }
    }
}

/// The HTTP API of a node. Section `[api]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// Where a node answers: address and port. Empty: nowhere. An address that others reach needs a token.
    pub listen: String,
    /// The address by which the other nodes reach this one, `HOST:PORT`. Empty: as `listen`.
    pub advertise: String,
    /// The certificate of this node, with `tls_key_file`: it then answers over TLS, and asks other nodes over TLS alone.
    /// `nephila cluster keys` makes both, `node-NAME.pem` and `node-NAME.key`.
    pub tls_cert_file: PathBuf,
    /// See `tls_cert_file`. Its owner alone may read it.
    pub tls_key_file: PathBuf,
    /// A file with the certificates that sign those of the nodes. Empty: `cluster.tls_ca_file`.
    pub tls_ca_file: PathBuf,
    /// A file with the token that every request must carry, the same on all nodes: whoever has it may do everything. Wins
    /// over `token`.
    pub token_file: PathBuf,
    /// The token itself. Better in a file: settings are printed.
    pub token: String,
    /// A file with a token that only asks, for dashboards and programs: whoever has it changes nothing.
    pub read_token_file: PathBuf,
    /// A file with what nodes prove to each other that they know, the same on all of them and nowhere else: whoever has it
    /// can ask as a node does, and change nothing. Empty: `token_file`.
    pub node_token_file: PathBuf,
}

impl Default for Api {
    fn default() -> Self {
        Api {
            listen: API_LISTEN.into(),
            advertise: String::new(),
            tls_cert_file: PathBuf::new(),
            tls_key_file: PathBuf::new(),
            tls_ca_file: PathBuf::new(),
            token_file: PathBuf::new(),
            token: String::new(),
            read_token_file: PathBuf::new(),
            node_token_file: PathBuf::new(),
        }
    }
}

/// Who we are to the people whose sites we visit. Section `[identity]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// Our name in robots.txt: letters, `_` and `-` only (RFC 9309, 2.2.1).
    pub agent: String,
    /// A URL or a mail address. Empty: only addresses opened by `spider.allow_addresses` may be fetched.
    pub contact: String,
    /// The User-Agent field; `{agent}`, `{version}` and `{contact}` are filled in.
    pub user_agent: String,
    /// The From field: a mail address of who runs the crawl. Empty: none is sent.
    pub from: String,
    /// A file with a private key (Ed25519), as `nephila identity key` makes one. With it requests are signed, so that a
    /// site can check that they are ours; needs `agent_url`. Empty: nothing is signed.
    pub key_file: PathBuf,
    /// Where our public keys are: `https://HOST`, which answers at `/.well-known/http-message-signatures-directory` with
    /// what `nephila identity directory` prints.
    pub agent_url: String,
    /// What is signed: requests over `https`, `always`, or only to sites that have `asked`. A site that asks is answered
    /// in any case. Over plain http everybody on the way can copy a signature.
    pub sign: Sign,
    /// A signature is valid for this long, at most a day.
    #[serde(with = "humantime_serde")]
    pub signature_valid: Duration,
}

/// What is signed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// Requests over https.
    #[default]
    Https,
    /// All of them.
    Always,
    /// Those to sites that asked for it.
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
    /// What is wrong with it.
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

    /// The User-Agent field as it is sent.
    pub fn user_agent(&self) -> String {
        let contact = if self.contact.is_empty() { "no-contact" } else { &self.contact };
        let text =
            self.user_agent.replace("{agent}", &self.agent).replace("{version}", env!("CARGO_PKG_VERSION"));
        text.replace("{contact}", contact)
    }
}

/// Whether and how robots.txt is obeyed. Section `[robots]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    /// Off is recorded in every archive file.
    pub obey: bool,
    /// robots.txt is read up to this many bytes (RFC 9309, 2.5).
    pub bytes_max: u64,
    /// What 401 and 403 for a robots.txt mean: `allow`, as for every other 4xx (RFC 9309, 2.3.1.3), or `disallow`.
    pub denied: Denied,
    /// May a site be crawled whose robots.txt has been out of reach for 30 days?
    pub unreachable_then_allow: bool,
    /// `nephila fetch` refuses a host whose Crawl-delay is longer than this. A crawl waits however long it is.
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
    /// What the operator chose where the RFC leaves a choice.
    pub fn policy(&self) -> policy::Settings {
        policy::Settings { denied: self.denied, unreachable_then_allow: self.unreachable_then_allow }
    }
}

/// What a fetched page leads to. Section `[handler]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Handler {
    /// Links of one page that are followed; what comes after them is counted and left.
    pub links_per_page_max: usize,
    /// Are `nofollow` links and pages obeyed: `rel=nofollow`, `meta robots`, `X-Robots-Tag`?
    pub nofollow: bool,
    /// Are images, scripts, styles and frames of a page fetched as well?
    pub page_requisites: bool,
    /// Are the targets of forms that use GET followed?
    pub forms: bool,
    /// Are sitemaps read that robots.txt names?
    pub sitemaps: bool,
    /// A page is read up to this many bytes; the archive keeps all of it.
    pub page_bytes_max: usize,
    /// A `meta refresh` with a delay up to this is a redirect; a longer one is a link.
    #[serde(with = "humantime_serde")]
    pub refresh_redirect_max: Duration,
    /// Of which pages title, date, author, language and main text are kept beside the page: `none`, `stories` (pages that
    /// feeds name), `all`. A page that a link found first is a story if it still waits when its feed names it; one that is
    /// about to be fetched by then, or was fetched, is read as a page, and `stories` keeps no text of it.
    pub text: TextOf,
}

impl Handler {
    /// How much of a page is read, and whether what it needs to be shown is named.
    pub(crate) fn limits(&self, requisites: bool) -> nephila_core::handler::Limits {
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

/// One crawl as a whole. Section `[crawl]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crawl {
    /// Fetches at the same time.
    pub concurrency: usize,
    /// Threads that fetch and read pages: as many as there are cores at 0. Half of the cores, and `nice`, leave a machine
    /// to those who work on it.
    pub threads: usize,
    /// Second tries that are planned for later than this from now do not keep a crawl from ending; the same command goes on
    /// with them. URLs that were never tried are always waited for: see `wait_max`.
    #[serde(with = "humantime_serde")]
    pub retry_wait_max: Duration,
    /// A crawl that has nothing left but URLs of hosts that rest (503, 429, a robots.txt that fails, a name that is gone) waits
    /// for them, and stops when no page was fetched for this long; as long as it takes at `0s`.
    #[serde(with = "humantime_serde")]
    pub wait_max: Duration,
    /// A page is asked for again so long after it was last fetched, conditionally where the server gave validators; never
    /// at `0s`. Later than `retry_wait_max` from now, it does not keep a crawl from ending: the same command asks again.
    #[serde(with = "humantime_serde")]
    pub again_every: Duration,
    /// After the first signal, open fetches have this long to end.
    #[serde(with = "humantime_serde")]
    pub drain_timeout: Duration,
    /// Are all sites that are crawled your own? Only then are public ones asked with a `frontier.host_delay` below 250 ms or
    /// more than 8 `host_connections`: whoever runs a site can say what it bears, and nobody else.
    pub own_sites: bool,
    /// The crawl waits when less than this is free on its disk, in bytes.
    pub disk_free_min: u64,
    /// Is the frontier's state kept on `disk`, or in `memory`, where it is gone with the process? With `memory` the archive,
    /// the log and the journals of the run (for `nephila log --events`) are still written; a next run begins anew and removes
    /// the journals. A folder whose state is on disk is not crawled in memory.
    pub state: StateKind,
    /// So many bytes of each partition's journal are kept for readers of events (`nephila log --events`), also when the crawl
    /// does not need them any more; 16 times as many in all.
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

/// Where the frontier's state is kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKind {
    /// In files: survives everything.
    #[default]
    Disk,
    /// In memory alone.
    Memory,
}

/// The settings in force: from a file, the environment and `KEY=VALUE` pairs. The file is `before` if there is one, since
/// a crawl goes on with the settings it began with, or else `config`, or else the first of the usual places.
pub fn load(config: Option<&Path>, pairs: &[String], before: Option<&Path>) -> anyhow::Result<Settings> {
    let usual = find(config);
    let mut table = match (before, &usual) {
        (Some(path), _) => read(path)?,
        (None, Some(path)) => read(path)?,
        (None, None) => toml::Table::new(),
    };
    if let (Some(_), Some(usual)) = (before, &usual) {
        secrets::fill(&mut table, &read(usual)?);
    }
    for (name, value) in std::env::vars() {
        if let Some(key) = name.strip_prefix("NEPHILA_").filter(|key| key.contains("__")) {
            set(&mut table, &key.to_ascii_lowercase().replace("__", "."), &value);
        }
    }
    for pair in pairs {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| usage(anyhow::anyhow!("--set {pair:?} is not key=value")))?;
        set(&mut table, key.trim(), value.trim());
    }
    let settings: Settings =
        table.try_into().map_err(|e: toml::de::Error| usage(anyhow::anyhow!("settings: {}", e.message())))?;
    check(&settings).map_err(|e| usage(anyhow::anyhow!("settings: {e}")))?;
    Ok(settings)
}

fn read(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("settings file {}", path.display()))
        .map_err(usage)?;
    text.parse().map_err(|e| usage(anyhow::anyhow!("settings file {}: {e}", path.display())))
}

/// What no type can say.
fn check(settings: &Settings) -> Result<(), String> {
    settings.identity.check()?;
    credential::check(&settings.credentials)?;
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
    settings.cluster.check()
}

/// Marks an error as one of the operator's making: exit code 2.
pub(crate) fn usage(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    anyhow::Error::new(Exit::Usage).context(text)
}

/// All settings as a file with comments.
pub(crate) fn page(settings: &Settings) -> anyhow::Result<String> {
    print::page(settings)
}

/// All settings as a file with comments, without secrets, and with a note that says so: what a folder keeps.
pub(crate) fn kept_page(settings: &Settings) -> anyhow::Result<String> {
    Ok(format!("{}{}", secrets::NOTE, print::page(&secrets::kept(settings))?))
}

/// Writes the contact into the person's own settings file, so that it is asked for once.
pub(crate) fn remember_contact(contact: &str) -> anyhow::Result<PathBuf> {
    let folder = home().context("there is no home folder")?.join("nephila");
    let path = folder.join("nephila.toml");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let old = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| path.display().to_string())?,
    };
    anyhow::ensure!(!old.contains("[identity]"), "{} has an [identity] without contact", path.display());
    let new = format!("{old}\n[identity]\ncontact = \"{contact}\"\n");
    std::fs::write(&path, new.trim_start()).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn home() -> Option<PathBuf> {
    std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")))
}

fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = named {
        return Some(path.to_owned());
    }
    if let Some(path) = std::env::var_os("NEPHILA_CONFIG") {
        return Some(path.into());
    }
    let candidates = [
        Some("nephila.toml".into()),
        home().map(|home| home.join("nephila/nephila.toml")),
        Some("/etc/nephila/nephila.toml".into()),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// Sets a dotted key. A value that reads as TOML is taken so (`5`, `true`, `["a"]`); anything else is text.
fn set(table: &mut toml::Table, key: &str, value: &str) {
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut parts: Vec<&str> = key.split('.').collect();
    let Some(last) = parts.pop() else { return };
    let mut at = table;
    for part in parts {
        let next = at.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let toml::Value::Table(next) = next else { return };
        at = next;
    }
    at.insert(last.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_set(list: &[&str]) -> anyhow::Result<Settings> {
        let pairs: Vec<String> = list.iter().map(|pair| (*pair).to_owned()).collect();
        load(Some(Path::new("/dev/null")), &pairs, None)
    }

    #[test]
    fn what_is_set_is_meant() {
        let settings = load_set(&[
            "spider.total_timeout=30s",
            "spider.ports=[80, 9000]",
            "spider.allow_addresses=[\"127.0.0.0/8\"]",
            "spider.http_versions=[\"http/1.1\"]",
            "store.compression=zstd:3",
        ])
        .unwrap();
        assert_eq!(settings.spider.total_timeout, Duration::from_secs(30));
        assert_eq!(settings.spider.ports, [80, 9000]);
        assert_eq!(settings.store.compression.to_string(), "zstd:3");
    }

    #[test]
    fn what_is_unknown_or_wrong_is_refused_with_its_name() {
        for (said, named) in [
            ("spider.totl_timeout=30s", "totl_timeout"),
            ("spider.total_timeout=soon", "soon"),
            ("identity.agent=a b", "agent"),
            ("identity.from=nobody", "from"),
            ("identity.agent_url=http://a.test", "agent_url"),
            ("identity.agent_url=https://a.test/x", "agent_url"),
            ("identity.key_file=key.pem", "agent_url"),
            ("identity.signature_valid=2d", "signature_valid"),
            ("foo.bar=1", "foo"),
            ("frontier.host_per_second=-1", "host_per_second"),
            ("frontier.host_per_second=0.0000001", "host_per_second"),
        ] {
            let error = load_set(&[said]).unwrap_err();
            assert!(format!("{error:#}").contains(named), "{error:#}");
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        }
    }

    #[test]
    fn row_04_a_rate_may_be_a_fraction_or_a_whole_number() {
        for (said, rest) in [("0.5", 2_000), ("4", 250), ("0", 0), ("3.0", 334)] {
            let settings = load_set(&[&format!("frontier.host_per_second={said}")]).unwrap();
            assert_eq!(settings.frontier.rate_rest_ms(), rest, "{said}");
        }
    }

    #[test]
    fn fin_11_a_rest_of_addresses_that_somebody_chose_is_not_lowered() {
        let delay = Duration::from_millis(100);
        let mut chosen = load_set(&["frontier.slot_delay=700ms"]).unwrap();
        chosen.set_host_delay(delay);
        assert_eq!(chosen.frontier.slot_delay, Duration::from_millis(700));
        let mut usual = Settings::default();
        usual.set_host_delay(delay);
        assert_eq!((usual.frontier.host_delay, usual.frontier.slot_delay), (delay, delay));
    }

    #[test]
    fn fin_12_times_that_nobody_can_mean_are_refused_by_name() {
        for said in ["spider.connect_timeout=1000h", "spider.idle_timeout=25h", "frontier.slot_delay=60d"] {
            let error = load_set(&[said]).unwrap_err();
            let name = said.split('=').next().unwrap();
            assert!(format!("{error:#}").contains(name), "{error:#}");
            assert_eq!(error.downcast_ref(), Some(&Exit::Usage));
        }
        // With room for it beside the ticket.
        load_set(&["spider.connect_timeout=24h"]).unwrap();
    }

    #[test]
    fn the_printed_file_gives_the_same_settings_back() {
        let page = print::page(&Settings::default()).unwrap();
        let back: Settings = page.parse::<toml::Table>().unwrap().try_into().unwrap();
        assert_eq!(back, Settings::default());
        assert!(
            page.contains("# Rest of a host after a fetch from it ended, and between two starts."),
            "{page}"
        );
    }
}
